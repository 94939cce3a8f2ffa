"""cdist: every row of the table, every metric and dtype it takes, against the float64 reference."""

import numpy as np
import pytest
from conftest import assert_close, rows, runnable

import gpudist
from gpudist import reference
from gpudist.metrics import METRICS

LP = ("euclidean", "sqeuclidean", "cityblock", "chebyshev")
# CONTRACT: relative error of the Lp family; the other metrics' relative and absolute error.
RTOL_LP = {"float32": 5e-7, "float64": 1e-13}
TOL_OTHER = {"float32": (1e-5, 1e-6), "float64": (1e-12, 3e-8)}

# m, n: nothing, one, around the vector lengths and tile sizes, primes, long and flat.
SIZES = [
    (0, 3), (3, 0), (1, 1), (2, 3), (1, 257), (257, 1), (7, 31), (31, 33), (32, 32), (33, 63),
    (64, 65), (65, 64), (127, 129), (128, 128), (129, 127), (131, 257), (5, 1021), (1021, 5),
]  # fmt: skip
DIMENSIONS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 129, 257]


def points(rng, n, d, metric, dtype):
    if metric == "haversine":
        return np.column_stack(
            [rng.uniform(-np.pi / 2, np.pi / 2, n), rng.uniform(-np.pi, np.pi, n)]
        ).astype(dtype)
    return rng.normal(size=(n, d)).astype(dtype)


def tolerance(metric, dtype):
    return (RTOL_LP[dtype], 0.0) if metric in LP else TOL_OTHER[dtype]


def dimensions_of(kernel):
    least, most = kernel.columns
    return [d for d in DIMENSIONS if least <= d <= most]


def cases():
    for param in rows("cdist"):
        kernel = param.values[0]
        for metric in kernel.metrics:
            for dtype in kernel.dtypes:
                yield pytest.param(
                    kernel, metric, dtype, id=f"{kernel.id}-{metric}-{dtype}", marks=param.marks
                )


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_matches_the_reference_on_awkward_shapes(kernel, metric, dtype, rng):
    runnable(kernel)
    dimensions = dimensions_of(kernel)
    for i, (m, n) in enumerate(SIZES):
        for d in dimensions[i % 3 :: 3] if len(dimensions) > 6 else dimensions:
            a, b = points(rng, m, d, metric, dtype), points(rng, n, d, metric, dtype)
            out = np.full((m, n), -7, dtype)
            result = gpudist.cdist(a, b, metric, kernel=kernel.id, out=out)
            assert result is out
            assert_close(out, reference.cdist(a, b, metric), *tolerance(metric, dtype))


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_a_long_sum_keeps_its_digits(kernel, metric, dtype, rng):
    runnable(kernel)
    d = min(4096, kernel.columns[1])
    for spread in ("normal", "heavy", "offset", "near"):
        a, b = points(rng, 40, d, metric, dtype), points(rng, 45, d, metric, dtype)
        if spread == "heavy" and metric != "haversine":
            a, b = np.exp(2 * a), np.exp(2 * b)
        if spread == "offset" and metric != "haversine":
            a, b = a + dtype_of(dtype, 100), b + dtype_of(dtype, 100)
        if spread == "near":
            b[:40] = np.nextafter(a, np.inf, dtype=dtype)
        assert_close(
            gpudist.cdist(a, b, metric, kernel=kernel.id),
            reference.cdist(a, b, metric),
            *tolerance(metric, dtype),
        )


def dtype_of(dtype, value):
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_rows_do_not_depend_on_their_neighbours(kernel, metric, dtype, rng):
    runnable(kernel)
    for d in dimensions_of(kernel)[-2:]:
        a, b = points(rng, 150, d, metric, dtype), points(rng, 133, d, metric, dtype)
        whole = gpudist.cdist(a, b, metric, kernel=kernel.id)
        for part in (slice(0, 1), slice(3, 70), slice(149, 150), slice(17, 150)):
            np.testing.assert_array_equal(
                gpudist.cdist(a[part], b, metric, kernel=kernel.id), whole[part]
            )


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_same_points_give_a_symmetric_matrix_with_zero_diagonal(kernel, metric, dtype, rng):
    runnable(kernel)
    for d in dimensions_of(kernel)[-3:]:
        a = points(rng, 140, d, metric, dtype) + dtype_of(dtype, 0 if metric == "haversine" else 50)
        square = gpudist.cdist(a, a.copy(), metric, kernel=kernel.id)
        np.testing.assert_array_equal(square, square.T)
        np.testing.assert_array_equal(np.diagonal(square), np.zeros(140))


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_layout_does_not_change_the_bits(kernel, metric, dtype, rng):
    runnable(kernel)
    d = dimensions_of(kernel)[-1]
    a, b = points(rng, 70, d, metric, dtype), points(rng, 81, d, metric, dtype)
    expected = gpudist.cdist(a, b, metric, kernel=kernel.id)
    shifted = np.empty(81 * d * a.itemsize + 1, np.uint8)[1:].view(np.uint8)
    unaligned = np.frombuffer(shifted.data, dtype=f"V{a.itemsize}").view(dtype).reshape(81, d)
    unaligned[...] = b
    padded = np.zeros((81, d + 3), dtype)
    padded[:, :d] = b
    for other in (
        np.asfortranarray(b),
        padded[:, :d],
        np.repeat(b, 2, axis=0)[::2],
        b[::-1][::-1],
        np.flip(np.flip(b, 1).copy(), 1),
        b.astype(b.dtype.newbyteorder()),
        unaligned,
    ):
        np.testing.assert_array_equal(
            gpudist.cdist(a, other, metric, kernel=kernel.id, dtype=dtype), expected
        )
    if d > 1:
        wide = np.empty((70, 2 * d), dtype)
        wide[:, ::2] = a
        np.testing.assert_array_equal(
            gpudist.cdist(wide[:, ::2], b, metric, kernel=kernel.id), expected
        )


@pytest.mark.parametrize(
    ("kernel", "metric"),
    [
        pytest.param(p.values[0], m, id=f"{p.values[0].id}-{m}", marks=p.marks)
        for p in rows("cdist")
        for m in p.values[0].metrics
        if m in LP
    ],
)
def test_float32_holds_over_its_whole_range(kernel, metric, rng):
    """Squares that leave float32 on the way to a result inside it are computed again."""
    runnable(kernel)
    for d in (2, 3, 40, 300):
        if not kernel.columns[0] <= d <= kernel.columns[1]:
            continue
        for scale in (1e-38, 1e-30, 1e-22, 1e-19, 1e19, 1e25, 1e36):
            a = (rng.normal(size=(37, d)) * scale).astype(np.float32)
            b = (rng.normal(size=(45, d)) * scale).astype(np.float32)
            b[:10] = a[:10]
            b[10:20, 0] *= np.float32(1e-6)  # mixed magnitudes
            expected = reference.cdist(a, b, metric)
            with np.errstate(over="ignore"):
                rounded = expected.astype(np.float32).astype(np.float64)
            actual = gpudist.cdist(a, b, metric, kernel=kernel.id)
            assert_close(
                actual, np.where(np.isinf(rounded), np.inf, expected), RTOL_LP["float32"], 1.5e-45
            )


@pytest.mark.parametrize(("kernel", "metric", "dtype"), list(cases()))
def test_nan_and_infinity_are_those_of_scipy(kernel, metric, dtype, rng):
    runnable(kernel)
    if metric == "haversine":
        a = points(rng, 9, 2, metric, dtype)
        a[3, 1] = np.nan
        assert np.isnan(gpudist.cdist(a, a, metric, kernel=kernel.id)[3]).all()
        return
    from scipy.spatial.distance import cdist

    for d in (2, 3, 37):
        if not kernel.columns[0] <= d <= kernel.columns[1]:
            continue
        a, b = points(rng, 33, d, metric, dtype), points(rng, 35, d, metric, dtype)
        a[1, 0], a[2, 1], a[3, 0], b[4, 0], b[5, 1] = np.nan, np.inf, -np.inf, np.nan, np.inf
        assert_close(
            gpudist.cdist(a, b, metric, kernel=kernel.id),
            cdist(a, b, metric),
            RTOL_LP[dtype] * 4,  # SciPy's own sum is in float64 for float32 input, but in its order
        )


@pytest.mark.parametrize("metric", [m.name for m in METRICS])
def test_auto_agrees_with_scipy_and_sklearn(metric, device, rng):
    a, b = points(rng, 60, 2, metric, "float64"), points(rng, 50, 2, metric, "float64")
    if metric == "haversine":
        pairwise = pytest.importorskip("sklearn.metrics.pairwise", reason="scikit-learn is missing")
        expected = pairwise.haversine_distances(a, b)
    else:
        from scipy.spatial.distance import cdist

        expected = cdist(a, b, metric)
    np.testing.assert_allclose(
        gpudist.cdist(a, b, metric, device=device), expected, rtol=1e-12, atol=1e-15
    )


def test_every_alias_of_scipy_is_known(rng):
    from scipy.spatial import distance

    a = rng.normal(size=(3, 4))
    for metric in METRICS:
        for alias in metric.aliases:
            expected = distance.cdist(a, a, alias)
            np.testing.assert_allclose(gpudist.cdist(a, a, alias.upper()), expected, atol=1e-15)


def test_dtype_rules(device, rng):
    a32, a64 = rng.normal(size=(5, 3)).astype("f4"), rng.normal(size=(5, 3))
    whole = rng.integers(0, 9, size=(5, 3))
    assert gpudist.cdist(a32, a32, device=device).dtype == np.float32
    for x, y in ((a32, a64), (whole, whole), (whole > 3, whole), (a32.astype("f2"), a32)):
        result = gpudist.cdist(x, y, device=device)
        assert result.dtype == np.float64
        assert_close(result, reference.cdist(x, y, "euclidean"), 1e-13)
    assert gpudist.cdist(a32, a32, dtype=np.float64, device=device).dtype == np.float64
    assert gpudist.cdist(a64, a64, dtype="float32", device=device).dtype == np.float32


def test_reference_is_selectable(rng):
    a = rng.normal(size=(4, 3)).astype("f4")
    out = np.empty((4, 4), "f4")
    assert gpudist.cdist(a, a, kernel="reference", out=out) is out
    assert_close(gpudist.cdist(a, a), out.astype("f8"), 5e-7)


@pytest.mark.gpu
@pytest.mark.parametrize("d", [2, 5])
def test_more_than_2_31_elements(d):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a = torch.randn(65537, d, device="cuda")
    b = torch.randn(32771, d, device="cuda")
    out = gpudist.cdist(a, b)
    assert out.numel() > 2**31
    for part in (slice(0, 3), slice(32760, 32775), slice(65534, 65537)):
        expected = reference.cdist(a[part].cpu().numpy(), b.cpu().numpy(), "euclidean")
        assert_close(out[part].cpu().numpy(), expected, 5e-7)
