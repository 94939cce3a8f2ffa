"""pdist: the bits of cdist, each pair once."""

import numpy as np
import pytest
from conftest import PRODUCT_FORMS, RECORDS, TRUTHS, forms, points, relay, rows, runnable
from scipy.spatial.distance import squareform

import gpudist


def upper(square):
    return square[np.triu_indices(len(square), 1)]


# One pair, around blocks of rows (whole multiples of 32) and past several of them on the CPU.
SIZES = [2, 3, 31, 32, 33, 64, 127, 129, 257]


@pytest.mark.parametrize(
    ("metric", "label"),
    [pytest.param(m, label, id=f"{m}-{label}") for m in RECORDS for label, _ in forms(m)],
)
def test_pairs_have_the_bits_of_the_square(metric, label, device, rng):
    make = dict(forms(metric))[label]
    dtypes = ("float32", "float64") + ("bool",) * (metric in TRUTHS or metric == "hamming")
    for i, n in enumerate(SIZES):
        for dtype in dtypes:
            d = RECORDS[metric].columns or (5, 33, 1)[i % 3]
            x = points(rng, n, d, metric, dtype)
            args = make(rng, d) | {"device": device}
            expected = upper(gpudist.cdist(x, x, metric, **args))
            pairs = gpudist.pdist(x, metric, **args)
            assert pairs.dtype == expected.dtype
            np.testing.assert_array_equal(pairs, expected)
            out = np.full(len(expected) + 2, -7, expected.dtype)
            inside = out[1:-1]
            assert gpudist.pdist(relay(x, "step"), metric, out=inside, **args) is inside
            np.testing.assert_array_equal(inside, expected)
            assert out[0] == out[-1] == -7


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        pytest.param(p.values[0], dtype, id=f"{p.id}-{dtype}", marks=p.marks)
        for p in rows("cdist")
        for dtype in p.values[0].dtypes
        if p.values[0].id not in PRODUCT_FORMS
    ],
)
def test_every_kernel_computes_pairs(kernel, dtype, rng):
    """So many rows are several blocks, and the last one is short."""
    runnable(kernel)
    d = min(max(kernel.columns[0], 20), kernel.columns[1])
    metric = kernel.metrics[-1]
    weighed = metric in TRUTHS and "sums" in kernel.id
    x = points(rng, 1001 if kernel.backend == "cpu" else 2101, d, metric, dtype)
    args = {"kernel": kernel.id, "dtype": dtype} | ({"w": np.ones(d)} if weighed else {})
    args |= {"VI": np.eye(d)} if metric == "mahalanobis" else {}
    args |= {"V": np.ones(d)} if metric == "seuclidean" else {}
    x = x > 0 if "bits" in kernel.id else x
    pairs = gpudist.pdist(x, metric, **args)
    np.testing.assert_array_equal(pairs, upper(gpudist.cdist(x, x, metric, **args)))


def test_scipys_squareform_takes_the_result(device, rng):
    x = rng.normal(size=(50, 7))
    square = squareform(gpudist.pdist(x, "cosine", device=device))
    np.testing.assert_array_equal(square, gpudist.cdist(x, x, "cosine", device=device))


def test_dtype_rules(device, rng):
    x = rng.normal(size=(6, 3))
    for y, dtype in (
        (x, "f8"), (x.astype("f4"), "f4"), (x.astype("f2"), "f8"), (x > 0, "f8"),
        (x.astype("i4"), "f8"), (x.astype(">f4"), "f4"), (x.tolist(), "f8"),
    ):  # fmt: skip
        assert gpudist.pdist(y, device=device).dtype == dtype
        assert gpudist.pdist(y, device=device, dtype="float32").dtype == np.float32
        assert gpudist.pdist(y, "jaccard", device=device, dtype=np.float64).dtype == np.float64
    out = np.empty(15, "f4")
    assert gpudist.pdist(x, out=out, device=device) is out
    np.testing.assert_array_equal(out, gpudist.pdist(x, dtype="f4", device=device))


def test_explain_counts_pairs_once():
    x = np.zeros((100, 8))
    said = gpudist.explain("pdist", x, "cityblock", device="cpu")
    assert said.op == "pdist" and said.kernel.startswith("cdist/cpu_tile")
    assert said.operations == 4950 * 8 and said.bytes == 8 * (4950 + 800)
    weighed = gpudist.explain("pdist", x, "cityblock", device="cpu", w=np.ones(8))
    assert weighed.kernel.startswith("cdist/cpu_sums")


@pytest.mark.gpu
def test_more_than_2_31_pairs():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    n = 65600
    x = torch.randn(n, 3, device="cuda")
    out = gpudist.pdist(x)
    assert out.numel() == n * (n - 1) // 2 > 2**31
    for i in (0, 1, 40_000, n - 2):
        start = i * n - i * (i + 1) // 2
        row = gpudist.cdist(x[i : i + 1], x[i + 1 :])[0]
        assert torch.equal(out[start : start + n - i - 1], row)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        pytest.param(p.values[0], dtype, id=f"{p.id}-{dtype}", marks=p.marks)
        for p in rows("cdist")
        if p.values[0].id.startswith("cdist/cuda_tensor")
        for dtype in p.values[0].dtypes
    ],
)
def test_results_of_products_start_at_any_address(kernel, dtype, torch, rng):
    """Rows start on 16-byte boundaries or not; some tiles are whole, some are cut."""
    runnable(kernel)
    m, d = 261, 40
    for n in (644, 643):
        x = torch.as_tensor(points(rng, n, d, "euclidean", dtype), device="cuda")
        square = torch.empty(n, n, dtype=x.dtype, device="cuda")
        gpudist.cdist(x, x, out=square, kernel=kernel.id)
        pairs = square[tuple(torch.triu_indices(n, n, 1, device="cuda"))]
        for at in range(9):
            vector = torch.full((len(pairs) + 9,), -7.0, dtype=x.dtype, device="cuda")
            inside = vector[at : at + len(pairs)]
            gpudist.pdist(x, out=inside, kernel=kernel.id)
            assert torch.equal(inside, pairs)
            assert (vector[:at] == -7).all() and (vector[at + len(pairs) :] == -7).all()
            table = torch.full((m * n + 9,), -7.0, dtype=x.dtype, device="cuda")
            inside = table[at : at + m * n].view(m, n)
            gpudist.cdist(x[:m], x, out=inside, kernel=kernel.id)
            assert torch.equal(inside, square[:m])
            assert (table[:at] == -7).all() and (table[at + m * n :] == -7).all()
