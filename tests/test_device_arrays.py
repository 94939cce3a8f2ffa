"""Arrays on a CUDA device: results in the caller's library, on its device and its stream."""

import numpy as np
import pytest
from conftest import assert_close

import gpudist
from gpudist import reference

pytestmark = pytest.mark.gpu


class Torch:
    def __init__(self):
        self.module = pytest.importorskip("torch", reason="PyTorch is missing")
        if not self.module.cuda.is_available():
            pytest.skip("PyTorch is here without CUDA")

    def put(self, x):
        return self.module.as_tensor(np.ascontiguousarray(x), device="cuda")

    def get(self, x):
        assert isinstance(x, self.module.Tensor) and x.is_cuda
        return x.cpu().numpy()

    def wait(self):
        self.module.cuda.synchronize()


class CuPy:
    def __init__(self):
        self.module = pytest.importorskip("cupy", reason="CuPy is missing")

    def put(self, x):
        return self.module.asarray(x)

    def get(self, x):
        assert isinstance(x, self.module.ndarray)
        return x.get()

    def wait(self):
        self.module.cuda.runtime.deviceSynchronize()


class Numba:
    def __init__(self):
        pytest.importorskip("numba.cuda", reason="Numba is missing")
        from numba import cuda

        self.module = cuda

    def put(self, x):
        return self.module.to_device(np.ascontiguousarray(x))

    def get(self, x):
        return x.copy_to_host()

    def wait(self):
        self.module.synchronize()


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
        library.get(out), reference.cdist(a, b, "cityblock"), 5e-7 if dtype == "float32" else 1e-13
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


def test_narrow_floats_give_float32():
    library = Torch()
    torch = library.module
    a = torch.randn(20, 5, device="cuda")
    for dtype in (torch.float16, torch.bfloat16):
        x = a.to(dtype)
        got = gpudist.cdist(x, x)
        assert got.dtype == torch.float32
        exact = x.double().cpu().numpy()
        assert_close(got.cpu().numpy(), reference.cdist(exact, exact, "euclidean"), 5e-7)
    assert gpudist.cdist(a.long(), a.long()).dtype == torch.float64
    assert gpudist.cdist(a, a, dtype=torch.float64).dtype == torch.float64
    assert gpudist.cdist(a.requires_grad_(), a).requires_grad is False
    with pytest.raises(TypeError, match=r"real numbers, got dtype torch\.complex64"):
        gpudist.cdist(a.detach() + 1j, a)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_apsp_stays_on_the_device(library, dtype, rng):
    w = rng.integers(1, 100, size=(150, 150)).astype(dtype)
    w[rng.random(w.shape) > 0.2] = 0
    dist, pred = gpudist.apsp(library.put(w), return_predecessors=True, dtype=dtype)
    expected, expected_pred = gpudist.apsp(w, return_predecessors=True, dtype=dtype, device="cpu")
    np.testing.assert_array_equal(library.get(dist), expected)
    np.testing.assert_array_equal(library.get(pred), expected_pred)
    np.testing.assert_array_equal(library.get(library.put(w)), w)


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


def test_devices_and_libraries_do_not_mix(rng):
    torch, cupy = Torch(), CuPy()
    x = rng.normal(size=(4, 2))
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device"):
        gpudist.cdist(x, torch.put(x))
    with pytest.raises(TypeError, match="arrays of different libraries"):
        gpudist.cdist(cupy.put(x), torch.put(x))
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
    library.wait()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(200):
        gpudist.cdist(a, a, device="cuda")
        gpudist.apsp(w, return_predecessors=True, device="cuda")
    library.wait()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20
