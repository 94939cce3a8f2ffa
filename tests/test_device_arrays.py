"""Arrays on a CUDA device: results in the caller's library, on its device and its stream."""

import numpy as np
import pytest
from conftest import RECORDS, TRUTHS, assert_close, forms, points, tolerance
from device_libraries import CuPy, Numba, Torch

import gpudist

pytestmark = pytest.mark.gpu


@pytest.fixture(params=[Torch, CuPy, Numba], ids=["torch", "cupy", "numba"])
def library(request):
    return request.param()


@pytest.fixture(params=[Torch, CuPy], ids=["torch", "cupy"])
def array_library(request):
    return request.param()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 7, 130])
def test_cdist_stays_on_the_device(library, dtype, d, rng):
    a, b = rng.normal(size=(130, d)).astype(dtype), rng.normal(size=(77, d)).astype(dtype)
    got = gpudist.cdist(library.put(a), library.put(b))
    np.testing.assert_array_equal(library.get(got), gpudist.cdist(a, b, device="cuda"))
    out = library.put(np.zeros((130, 77), dtype))
    assert gpudist.cdist(library.put(a), library.put(b), "cityblock", out=out) is out
    assert_close(
        library.get(out), exact(a, b, "cityblock", {}), 5e-7 if dtype == "float32" else 1e-13
    )


def test_strides_are_honoured(array_library, rng):
    for dtype in ("float32", "float64"):
        for d in (2, 40):
            a, b = rng.normal(size=(90, d)).astype(dtype), rng.normal(size=(70, d)).astype(dtype)
            expected = gpudist.cdist(a, b, device="cuda")
            wide = array_library.put(np.repeat(np.repeat(a, 2, 0), 3, 1))
            turned = array_library.put(b.T.copy()).T
            got = gpudist.cdist(wide[::2, ::3], turned)
            np.testing.assert_array_equal(array_library.get(got), expected)
            same = array_library.put(a[:1].copy())
            broadcast = (
                same.expand(90, d)
                if hasattr(same, "expand")
                else array_library.module.broadcast_to(same, (90, d))
            )
            got = array_library.get(gpudist.cdist(broadcast, turned))
            np.testing.assert_array_equal(got, np.repeat(expected[:1], 90, 0))


def test_an_unaligned_output_is_filled_to_the_element(array_library, rng):
    a, b = rng.normal(size=(67, 2)).astype("f4"), rng.normal(size=(33, 2)).astype("f4")
    for d in (2, 20):
        a, b = rng.normal(size=(67, d)).astype("f4"), rng.normal(size=(33, d)).astype("f4")
        flat = array_library.put(np.full(67 * 33 + 3, -7, "f4"))
        gpudist.cdist(array_library.put(a), array_library.put(b), out=flat[1:-2].reshape(67, 33))
        got = array_library.get(flat)
        assert got[0] == got[-1] == got[-2] == -7
        np.testing.assert_array_equal(got[1:-2].reshape(67, 33), gpudist.cdist(a, b, device="cuda"))


@pytest.mark.parametrize("metric", ["euclidean", "canberra", "jaccard", "haversine"])
def test_pairs_are_stored_wherever_they_begin(metric, array_library, rng):
    """Rows of pairs start anywhere anyway; here the first one does."""
    for dtype in ("float32", "float64"):
        for d in (2,) if metric == "haversine" else (2, 7, 20, 150):
            for n in (2, 3, 9, 66, 131, 1100):
                x = points(rng, n, d, metric, dtype)
                pairs = n * (n - 1) // 2
                expected = gpudist.cdist(x, x, metric, device="cuda")[np.triu_indices(n, 1)]
                for before in range(4):
                    flat = array_library.put(np.full(pairs + 5, -7, dtype))
                    out = flat[before : before + pairs]
                    gpudist.pdist(array_library.put(x), metric, out=out)
                    got = array_library.get(flat)
                    np.testing.assert_array_equal(got[before : before + pairs], expected)
                    assert (got[:before] == -7).all() and (got[before + pairs :] == -7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_begin_at_any_place_of_a_line(dtype, array_library, rng):
    """Of whole tiles, as large operands have them."""
    a, b = rng.normal(size=(300, 150)).astype(dtype), rng.normal(size=(1100, 150)).astype(dtype)
    expected = gpudist.cdist(a, b, device="cuda")
    x, y = array_library.put(a), array_library.put(b)
    for before in range(128 // a.itemsize):
        flat = array_library.put(np.full(expected.size + 33, -7, dtype))
        inside = slice(before, before + expected.size)
        gpudist.cdist(x, y, out=flat[inside].reshape(expected.shape))
        got = array_library.get(flat)
        np.testing.assert_array_equal(got[inside].reshape(expected.shape), expected)
        assert (got[:before] == -7).all() and (got[inside.stop :] == -7).all()


def test_narrow_floats_give_float32():
    library = Torch()
    torch = library.module
    a = torch.randn(20, 5, device="cuda")
    for dtype in (torch.float16, torch.bfloat16):
        x = a.to(dtype)
        got = gpudist.cdist(x, x)
        assert got.dtype == torch.float32
        assert_close(
            got.cpu().numpy(),
            exact(x.double().cpu().numpy(), x.double().cpu().numpy(), "euclidean", {}),
            5e-7,
        )
    assert gpudist.cdist(a.long(), a.long()).dtype == torch.float64
    assert gpudist.cdist(a, a, dtype=torch.float64).dtype == torch.float64
    with torch.no_grad():
        assert gpudist.cdist(a.requires_grad_(), a).requires_grad is False
    assert gpudist.cdist(a, a).requires_grad is True
    with pytest.raises(TypeError, match="A is a tensor that requires gradients"):
        gpudist.minplus(a, a)
    a = a.detach()
    with pytest.raises(TypeError, match=r"real numbers, got dtype torch\.complex64"):
        gpudist.cdist(a.detach() + 1j, a)


def exact(a, b, metric, args):
    return gpudist.cdist(a, b, metric, kernel="reference", dtype=np.float64, **args)


@pytest.mark.parametrize("metric", RECORDS)
def test_every_metric_on_device_arrays(metric, library, rng):
    """Results, pairs and arguments as arrays of the library, in the bits of host arrays."""
    for label, make in forms(metric):
        for dtype in ("float32", "float64"):
            d = RECORDS[metric].columns or 35
            a, b = points(rng, 67, d, metric, dtype), points(rng, 131, d, metric, dtype)
            args = make(rng, d)
            there = {
                name: library.put(value) if isinstance(value, np.ndarray) else value
                for name, value in args.items()
            }
            x, y = library.put(a), library.put(b)
            expected = gpudist.cdist(a, b, metric, device="cuda", **args)
            assert_close(expected, exact(a, b, metric, args), *tolerance(metric, dtype, args, a, b))
            for arguments in (args, there):
                got = library.get(gpudist.cdist(x, y, metric, **arguments))
                np.testing.assert_array_equal(got, expected, err_msg=label)
            pairs = gpudist.pdist(b, metric, device="cuda", **args)
            got = library.get(gpudist.pdist(y, metric, **there))
            np.testing.assert_array_equal(got, pairs, err_msg=label)
            out = library.put(np.zeros(131 * 130 // 2, dtype))
            assert gpudist.pdist(y, metric, out=out, **there) is out
            np.testing.assert_array_equal(library.get(out), pairs, err_msg=label)
            np.testing.assert_array_equal(library.get(y), b)


@pytest.mark.parametrize("metric", RECORDS)
def test_every_metric_reads_any_strides(metric, array_library, rng):
    for label, make in forms(metric):
        for dtype in ("float32", "float64") + ("bool",) * (metric in TRUTHS or metric == "hamming"):
            d = RECORDS[metric].columns or 37
            a, b = points(rng, 45, d, metric, dtype), points(rng, 70, d, metric, dtype)
            args = make(rng, d)
            expected = gpudist.cdist(a, b, metric, device="cuda", **args)
            wide = array_library.put(np.repeat(np.repeat(a, 2, 0), 3, 1))[::2, ::3]
            turned = array_library.put(b.T.copy()).T
            for x in (wide, array_library.put(a)):
                got = array_library.get(gpudist.cdist(x, turned, metric, **args))
                np.testing.assert_array_equal(got, expected, err_msg=f"{label} {dtype}")
            pairs = array_library.get(gpudist.pdist(turned, metric, **args))
            np.testing.assert_array_equal(pairs, gpudist.pdist(b, metric, device="cuda", **args))


def test_defaults_of_v_and_vi_are_those_of_host_arrays(array_library, rng):
    for dtype, rtol in (("float32", 1e-5), ("float64", 1e-11)):
        a, b = rng.normal(size=(40, 6)).astype(dtype), rng.normal(size=(9, 6)).astype(dtype)
        for metric in ("seuclidean", "mahalanobis"):
            got = gpudist.cdist(array_library.put(a), array_library.put(b), metric)
            assert_close(array_library.get(got), exact(a, b, metric, {}), rtol)
            got = array_library.get(gpudist.pdist(array_library.put(a), metric))
            assert_close(got, gpudist.pdist(a, metric, kernel="reference"), rtol)


def test_every_dtype_of_a_library(array_library, rng):
    """Truths and whole numbers give float64, as on the host; half precision gives float32."""
    a, b = rng.integers(0, 5, (50, 40)), rng.integers(0, 5, (60, 40))
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16"):
        x, y = (v > 2 if dtype == "bool" else v.astype(dtype) for v in (a, b))
        for metric in ("euclidean", "cosine", "hamming", "jaccard", "dice", "canberra"):
            got = gpudist.cdist(array_library.put(x), array_library.put(y), metric)
            got = array_library.get(got)
            assert got.dtype == (np.float32 if dtype == "float16" else np.float64)
            assert_close(got, exact(x, y, metric, {}), 1e-5, 1e-6)
            wide = gpudist.cdist(
                array_library.put(x), array_library.put(y), metric, dtype="float64"
            )
            assert_close(array_library.get(wide), exact(x, y, metric, {}), 1e-12, 1e-12)
        w = rng.uniform(1, 2, 40)
        got = gpudist.cdist(array_library.put(x), array_library.put(y), "jaccard", w=w)
        assert_close(array_library.get(got), exact(x, y, "jaccard", {"w": w}), 1e-5)


def test_numba_arrays_come_in_the_dtype_of_the_computation(rng):
    library = Numba()
    x = rng.integers(0, 2, (9, 5))
    with pytest.raises(TypeError, match="convert"):
        gpudist.cdist(library.put(x), library.put(x))
    truths = library.put(x > 0)
    got = library.get(gpudist.pdist(truths, "jaccard"))
    np.testing.assert_array_equal(got, gpudist.pdist(x > 0, "jaccard", device="cuda"))


class InterfaceAlone:
    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class ExportAlone:
    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)


# Calls for points, or for the distances between them as weights.
CALLS = {
    "cdist": lambda x, **k: gpudist.cdist(x, x, **k),
    "pdist": lambda x, **k: gpudist.pdist(x, **k),
    "apsp": lambda w, **k: gpudist.apsp(w, **k),
    "max_min": lambda w, **k: gpudist.apsp(w, semiring="max_min", **k),
    "transitive_closure": lambda w, **k: gpudist.transitive_closure(w, **k),
    "minplus": lambda w, **k: gpudist.minplus(w, w, w, **k),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("alone", [InterfaceAlone, ExportAlone])
def test_objects_with_a_protocol_alone(alone, name, dtype, rng):
    torch, call = Torch().module, CALLS[name]
    given = torch.as_tensor(rng.random((70, 3)).astype(dtype), device="cuda")
    if not name.endswith("dist"):
        given = (given[:, :1] - given[:, 0]).abs()
    want = call(given)
    out = torch.zeros_like(want)
    torch.cuda.synchronize()
    assert call(alone(given), out=alone(out)).array is out
    torch.cuda.synchronize()
    assert torch.equal(out, want)
    if name == "apsp":
        graph = alone(given)
        assert call(graph, out=graph) is graph  # in place
        torch.cuda.synchronize()
        assert torch.equal(given, want)
    with pytest.raises(ValueError, match="out must have"):
        call(alone(given), out=alone(out[:9]))


def test_wrong_arguments_beside_device_arrays(array_library, rng):
    x = array_library.put(rng.normal(size=(8, 3)))
    for metric, args, error, message in (
        ("euclidean", {"w": [1, 1]}, ValueError, "w"),
        ("euclidean", {"w": array_library.put(np.array([1.0, -1, 1]))}, ValueError, "non-negative"),
        ("mahalanobis", {"VI": array_library.put(np.eye(4))}, ValueError, "VI must"),
        ("euclidean", {"p": 2}, TypeError, "'p'"),
    ):
        for call in (lambda **k: gpudist.cdist(x, x, **k), lambda **k: gpudist.pdist(x, **k)):
            with pytest.raises(error, match=message):
                call(metric=metric, **args)
    with pytest.raises(TypeError, match="callable"):
        gpudist.cdist(x, x, lambda u, v: 0.0)
    with pytest.raises(TypeError, match="reference"):
        gpudist.pdist(x, kernel="reference")
    with pytest.raises(ValueError, match="out"):
        gpudist.pdist(x, out=array_library.put(np.empty(27)))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.pdist(x, out=array_library.put(np.empty(56))[::2])


@pytest.mark.parametrize("n", [1, 2, 31, 33, 64, 257, 511, 513, 1025, 1800, 2048, 2049])
def test_apsp_of_few_nodes(n, rng):
    """Up to 2048 nodes all is one launch, whose blocks' shares depend on the number of nodes.

    With predecessors it is not, which is quicker to compare with than the host.
    """
    library = Torch()
    potential = rng.integers(0, 50, n)
    w = rng.integers(1, 100, (n, n)) * (rng.random((n, n)) < max(0.02, 4 / n))
    shifted = np.where(w > 0, w + potential[:, None] - potential + 0.5, 0)
    for weights in (w.astype("f4"), w.astype("i4"), shifted.astype("f4")):
        dtype = str(weights.dtype)
        graph = library.put(weights)
        got = library.get(gpudist.apsp(graph, dtype=dtype))
        wanted, _ = gpudist.apsp(graph, dtype=dtype, return_predecessors=True)
        np.testing.assert_array_equal(got, library.get(wanted))
        if n < 600:
            np.testing.assert_array_equal(got, gpudist.apsp(weights, dtype=dtype, device="cpu"))


@pytest.mark.parametrize("n", [64, 1000, 1024, 2048])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_apsp_of_few_nodes_tells_which_are_on_negative_cycles(n, dtype):
    ring = [0, 31, n // 2, n - 1]
    w = np.zeros((n, n), dtype)
    w[ring, np.roll(ring, -1)] = 1, 2, 3, -7
    w[1, 2] = 5
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(Torch().put(w), dtype=dtype)
    assert sorted(caught.value.nodes) == ring


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_apsp_stays_on_the_device(library, dtype, rng):
    w = rng.integers(1, 100, size=(150, 150)).astype(dtype)
    w[rng.random(w.shape) > 0.2] = 0
    dist, pred = gpudist.apsp(library.put(w), return_predecessors=True, dtype=dtype)
    expected, expected_pred = gpudist.apsp(w, return_predecessors=True, dtype=dtype, device="cpu")
    np.testing.assert_array_equal(library.get(dist), expected)
    np.testing.assert_array_equal(library.get(pred), expected_pred)
    np.testing.assert_array_equal(library.get(library.put(w)), w)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("no_edge", [None, 7, -5, 0.25])
def test_apsp_reads_rows_that_start_aligned_as_any_other(dtype, no_edge, rng):
    """Which it does in a pass of its own, 16 bytes at a time."""
    if dtype == "int32" and no_edge == 0.25:
        pytest.skip("no int32")
    library = Torch()
    for n in (1, 2, 67, 130, 516):
        weights = rng.choice([0.0, -0.0, 1.0, 7.0, 3.0, 90.0], size=(n, n))
        if dtype != "int32":
            weights = rng.choice([0.25, np.nan, np.inf, -np.inf, 1e-9], size=(n, n)) + weights
        weights = weights.astype(dtype)
        call = {"no_edge": no_edge, "dtype": dtype, "return_predecessors": True}
        expected = gpudist.apsp(weights, **call, device="cpu")
        wide = library.put(np.zeros((n, (n + 3) // 4 * 4 + 4), dtype))
        for first in (0, 1):
            graph = wide[:, first : first + n]
            graph.copy_(library.put(weights))
            for got, wanted in zip(gpudist.apsp(graph, **call), expected, strict=True):
                np.testing.assert_array_equal(library.get(got), wanted)


def test_apsp_reads_strided_and_foreign_dtypes(array_library, rng):
    w = rng.integers(0, 9, size=(140, 140))
    expected = gpudist.apsp(w, directed=False, device="cpu")
    for x in (w.astype("f8").T, w.astype("i8"), w.astype("f2")):
        got = gpudist.apsp(array_library.put(x), directed=False)
        np.testing.assert_array_equal(array_library.get(got), expected)
    wide = array_library.put(np.repeat(w.astype("f4"), 2, axis=1))
    got = gpudist.apsp(wide[:, ::2], directed=False)
    np.testing.assert_array_equal(array_library.get(got), expected)
    with pytest.raises(gpudist.NegativeCycleError):
        gpudist.apsp(array_library.put(-w.astype("f4")))


def test_work_is_ordered_on_the_callers_stream(rng):
    library = Torch()
    torch = library.module
    a = torch.randn(4000, 64, device="cuda")
    expected = gpudist.cdist(a, a).clone()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            x = torch.zeros_like(a)
            torch.cuda._sleep(20_000_000)
            x.copy_(a)  # not done yet when the call is made
            got = gpudist.cdist(x, x)
            same = torch.equal(got, expected)
            assert same
    cupy = CuPy().module
    with cupy.cuda.Stream(non_blocking=True):
        y = cupy.asarray(a.cpu().numpy())
        np.testing.assert_array_equal(gpudist.cdist(y, y).get(), expected.cpu().numpy())


# Forms that prepare rows, bring weights or condense blocks: each step has to be in order.
@pytest.mark.parametrize(
    ("metric", "args"),
    [
        ("cosine", {}),
        ("correlation", {"w": np.linspace(0, 1, 24)}),
        ("euclidean", {"w": np.linspace(0, 1, 24)}),
        ("jaccard", {}),
        ("jensenshannon", {}),
        ("mahalanobis", {"VI": np.eye(24)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "w" if "w" in value else "",
)
def test_every_step_is_ordered_on_the_callers_stream(metric, args, rng):
    library = Torch()
    torch = library.module
    a = library.put(points(rng, 1500, 24, metric, "float32"))
    w = {name: library.put(value) for name, value in args.items()}
    square, pairs = gpudist.cdist(a, a, metric, **args), gpudist.pdist(a, metric, **args)
    library.wait()
    with torch.cuda.stream(torch.cuda.Stream()):
        for given in (args, w):
            x = torch.zeros_like(a)
            out = torch.zeros_like(pairs)
            torch.cuda._sleep(50_000_000)
            x.copy_(a)  # not done yet when the calls are made
            got = gpudist.cdist(x, x, metric, **given)
            gpudist.pdist(x, metric, out=out, **given)
            x.zero_()  # nor read yet, unless in order
            assert torch.equal(got, square)
            assert torch.equal(out, pairs)


def test_devices_and_libraries_do_not_mix(rng):
    torch, cupy = Torch(), CuPy()
    x = rng.normal(size=(4, 2))
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device"):
        gpudist.cdist(x, torch.put(x))
    with pytest.raises(TypeError, match="arrays of different libraries"):
        gpudist.cdist(cupy.put(x), torch.put(x))
    with pytest.raises(TypeError, match="X is on the host and out on a CUDA device"):
        gpudist.pdist(x, out=torch.put(np.empty(6)))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.cdist(torch.put(x), torch.put(x), out=torch.put(np.empty((4, 8)))[:, ::2])
    with pytest.raises(gpudist.DeviceError):
        gpudist.cdist(x, x, device="cuda:7")


def test_a_result_larger_than_the_device_is_refused():
    x = np.zeros((400_000, 2), "f4")
    with pytest.raises(MemoryError, match="bytes"):
        gpudist.cdist(x, x, device="cuda")
    small = np.zeros((10, 2), "f4")
    assert gpudist.cdist(small, small, device="cuda").sum() == 0


def test_many_calls_leave_no_device_memory_behind(rng):
    library = Torch()
    torch = library.module
    a = rng.normal(size=(500, 40))
    w = rng.random((300, 300))
    for _ in range(5):
        gpudist.cdist(a, a, device="cuda")
        gpudist.apsp(w, return_predecessors=True, device="cuda")

    def grown():
        library.wait()
        before = torch.cuda.mem_get_info()[0]
        for _ in range(200):
            gpudist.cdist(a, a, device="cuda")
            gpudist.apsp(w, return_predecessors=True, device="cuda")
        library.wait()
        return before - torch.cuda.mem_get_info()[0]

    # Other processes take memory there as well; a leak would be seen each time.
    assert any(grown() < 64 << 20 for _ in range(30))
