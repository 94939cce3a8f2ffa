"""Simple arrays on a CUDA device take a short way through the core, with the usual bits."""

import numpy as np
import pytest
from device_libraries import CuPy, Torch

import gpudist

pytestmark = pytest.mark.gpu


@pytest.fixture(params=[Torch, CuPy], ids=["torch", "cupy"])
def array_library(request):
    return request.param()


def test_simple_tensors_take_the_short_way(rng):
    """Calls with a dtype take the long one, and give the same bits."""
    torch = Torch().module
    short = gpudist._core.cdist_tensors
    for dtype in (torch.float32, torch.float64):
        for m, n, d in ((3, 5, 1), (130, 70, 2), (1, 90, 16), (64, 65, 100)):
            a = torch.as_tensor(rng.random((m, d)), device="cuda").to(dtype)
            turned = torch.as_tensor(rng.random((d, n)), device="cuda").to(dtype).T
            for metric in ("euclidean", "cosine", "canberra", "hellinger", "minkowski"):
                got = short(a, turned, metric)
                expected = gpudist.cdist(a, turned, metric, dtype=str(dtype).split(".")[1])
                assert got.dtype is dtype and got.is_contiguous() and not got.requires_grad
                assert torch.equal(got, expected)
                assert torch.equal(gpudist.cdist(a, turned, metric), expected)
    a, b = torch.rand(9, 4, device="cuda"), torch.rand(7, 4, device="cuda")
    learned = a.clone().requires_grad_()
    assert torch.equal(gpudist.cdist(learned, b), gpudist.cdist(a, b))
    negated = torch.complex(a, -a).conj().imag
    assert negated.is_neg() and torch.equal(gpudist.cdist(negated, b), gpudist.cdist(a, b))
    left = [(a, b, "seuclidean"), (a, b, "jaccard"), (a, b, "Euclidean")]
    left += [(a, b, 3), (a[:, :2], b, "euclidean"), (a[0], b, "euclidean")]
    left += [(a, b.double(), "euclidean"), (a.half(), b.half(), "euclidean")]
    left += [(a, b.cpu(), "euclidean"), (a.cpu(), b, "euclidean")]
    left += [(negated, b, "euclidean"), (torch.nn.Parameter(a), b, "euclidean")]
    left += [(a, b.to_sparse(), "euclidean"), (a.cpu().numpy(), b, "euclidean")]
    for arguments in left:
        assert short(*arguments) is None
    out = torch.empty(9, 7, device="cuda")
    assert gpudist.cdist(a, b, out=out) is out and torch.equal(out, gpudist.cdist(a, b))
    assert short(a, b, "euclidean", out) is out
    for wrong in (out.T, out.double(), out.cpu(), out[:8], out.clone().requires_grad_(), 3):
        assert short(a, b, "euclidean", wrong) is None
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.cdist(a, b, out=out.T)
    with pytest.raises(ValueError, match="out must have shape"):
        gpudist.cdist(a, b, out=out[:8])


def neighbours_by_the_short_way(a, b, k, metric):
    """Hold them against the usual way, which calls for some rows take."""
    short = gpudist._core.nearest_tensors(a, b, k, metric)
    usual = gpudist.knn(a, b, k, metric, rows=slice(None))
    for found in (short, gpudist.knn(a, b, k, metric)):
        for one, other in zip(found, usual, strict=True):
            assert type(one) is type(other) and one.dtype == other.dtype
            assert one.shape == other.shape and (one == other).all()
    for one, other in zip(gpudist.nearest(a, b, metric), usual, strict=True):
        assert (one == other[:, 0]).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock", "inner_product"])
def test_neighbours_of_simple_arrays_take_the_short_way(array_library, metric, rng):
    for dtype in ("float32", "float64"):
        for m, n, d in ((3, 7, 2), (130, 70, 20), (1, 3000, 16)):
            a, b = (array_library.put(rng.random((rows, d)).astype(dtype)) for rows in (m, n))
            neighbours_by_the_short_way(a, b, 3, metric)
            neighbours_by_the_short_way(a, b[::2], n // 3, metric)
            neighbours_by_the_short_way(b[1:, 1:], None, n // 2, metric)


def test_what_neighbours_leave_to_the_usual_way(array_library, rng):
    short = gpudist._core.nearest_tensors
    a, b = (array_library.put(rng.random((rows, 4))) for rows in (9, 7))
    host, whole = rng.random((9, 4)), array_library.put(rng.integers(0, 9, (7, 4)))
    left = [(a, b, k, "euclidean") for k in (0, -1, 8, 1 << 80, 2.0, True, None, "2")]
    left += [(a, b, 2, metric) for metric in ("jaccard", "Euclidean", max)]
    left += [(b, None, 7, "euclidean")]
    left += [(a, host, 2, "euclidean"), (host, a, 2, "euclidean"), (host, None, 2, "euclidean")]
    left += [(a, whole, 2, "euclidean"), (whole, None, 2, "cosine"), (None, a, 2, "euclidean")]
    left += [(a[:, 1:], b, 2, "euclidean"), (a[0], b, 2, "euclidean"), (a[:0], b, 2, "cosine")]
    for arguments in left:
        assert short(*arguments) is None
    with pytest.raises(ValueError, match="k must be at most 6"):
        gpudist.knn(b, k=7)


def test_simple_cupy_arrays_take_the_short_way(rng):
    """Calls with a dtype take the long one, and give the same bits."""
    cupy = CuPy().module
    short = gpudist._core.cdist_tensors
    for dtype in ("float32", "float64"):
        for m, n, d in ((3, 5, 1), (130, 70, 2), (1, 90, 16), (64, 65, 100)):
            a = cupy.asarray(rng.random((m, d)).astype(dtype))
            turned = cupy.asarray(rng.random((d, 2 * n)).astype(dtype)).T[::2]
            for metric in ("euclidean", "cosine", "canberra", "minkowski"):
                got = short(a, turned, metric)
                expected = gpudist.cdist(a, turned, metric, dtype=dtype)
                assert type(got) is cupy.ndarray and got.dtype == dtype and got.shape == (m, n)
                assert got.flags.c_contiguous and (got == expected).all()
                assert (gpudist.cdist(a, turned, metric) == expected).all()
    a, b = cupy.ones((9, 4), "f4"), cupy.zeros((7, 4), "f4")
    cupy.cuda.runtime.deviceSynchronize()  # the other stream does not wait for this one
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cupy.cuda.runtime.memsetAsync(a.data.ptr, 0, a.nbytes, stream.ptr)
        assert not gpudist.cdist(a, b).any()
    left = [(a, b, "jaccard"), (a, b, "Euclidean"), (a, b, 3)]
    left += [(a[:, :2], b, "euclidean"), (a[0], b, "euclidean"), (a.get(), b, "euclidean")]
    left += [(a, b.astype("f8"), "euclidean"), (a.astype("i4"), b.astype("i4"), "euclidean")]
    left += [(a.astype("f2"), b.astype("f2"), "euclidean"), (a, b.get(), "euclidean")]
    for arguments in left:
        assert short(*arguments) is None
    out = cupy.empty((9, 7), "f4")
    assert short(a, b, "euclidean", out) is out and gpudist.cdist(a, b, out=out) is out
    for wrong in (out.T, out.astype("f8"), out.get(), out[:8], 3):
        assert short(a, b, "euclidean", wrong) is None
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.cdist(a, b, out=out.T)


def test_batches_of_simple_arrays_take_the_short_way(array_library, rng):
    """Calls with a dtype take the long one, and give the same bits."""
    short = gpudist._core
    for dtype in ("float32", "float64"):
        for first, second in (
            ((3, 9, 4), (3, 70, 4)),
            ((130, 5), (4, 3, 20, 5)),
            ((2, 1, 33, 2), (7, 64, 2)),
            ((1, 1, 3, 16), (1, 2000, 16)),
        ):
            a, b = (array_library.put(rng.random(n).astype(dtype)) for n in (first, second))
            wide = array_library.put(rng.random((*second[:-1], 2 * second[-1])).astype(dtype))
            for metric in ("euclidean", "cosine", "canberra", "minkowski"):
                for y in (b, wide[..., ::2]):
                    got = short.cdist_tensors(a, y, metric)
                    usual = gpudist.cdist(a, y, metric, dtype=dtype)
                    assert type(got) is type(a) and got.dtype == a.dtype
                    assert got.shape == usual.shape and (got == usual).all()
                    assert (gpudist.cdist(a, y, metric) == usual).all()
                    out = array_library.put(np.zeros(usual.shape, dtype))
                    assert gpudist.cdist(a, y, metric, out=out) is out and (out == usual).all()
                    usual = gpudist.pdist(y, metric, dtype=dtype)
                    assert (short.pdist_tensors(y, metric) == usual).all()
                    assert (gpudist.pdist(y, metric) == usual).all()


def test_what_batches_leave_to_the_usual_way(array_library, rng):
    short = gpudist._core
    a, b = (array_library.put(rng.random((3, rows, 4))) for rows in (9, 7))
    for x, y in ((a, b[:2]), (a, b[..., :3]), (a[:0], b[:1]), (a, rng.random((3, 7, 4)))):
        assert short.cdist_tensors(x, y, "euclidean") is None
    for metric in ("jaccard", "Euclidean", "seuclidean", max):
        assert short.cdist_tensors(a, b, metric) is short.pdist_tensors(a, metric) is None
    room = array_library.put(np.zeros((3, 9, 7)))
    for out in (room[:2], room[0], np.zeros((3, 9, 7)), room[..., :6], 3):
        assert short.cdist_tensors(a, b, "euclidean", out) is None
    memory = array_library.put(np.zeros(400))
    inside, across = memory[:189].reshape(3, 9, 7), memory[180:264].reshape(3, 7, 4)
    assert short.cdist_tensors(a, across, "euclidean", inside) is None
    assert (gpudist.cdist(a, across, out=inside) == gpudist.cdist(a, across * 0)).all()


def test_arguments_of_metrics_take_the_short_way(array_library, rng):
    """Calls with a dtype take the long one, and give the same bits."""
    w = rng.random(5)
    given = [("minkowski", {"p": 3}), ("minkowski", {"p": 1.5, "w": w}), ("cosine", {"w": w})]
    given += [("euclidean", {"w": w.tolist()}), ("seuclidean", {"V": w}), ("euclidean", {"box": 1})]
    for dtype in ("float32", "float64"):
        a, b = (array_library.put(rng.random(n).astype(dtype)) for n in ((70, 5), (3, 90, 5)))
        for metric, one in given:
            usual = gpudist.cdist(a, b, metric, dtype=dtype, **one)
            assert (gpudist._core.cdist_tensors(a, b, metric, None, one) == usual).all()
            assert (gpudist.cdist(a, b, metric, **one) == usual).all()
            usual = gpudist.pdist(a, metric, dtype=dtype, **one)
            assert (gpudist._core.pdist_tensors(a, metric, None, one) == usual).all()
            found = gpudist._core.nearest_tensors(a, b[1], 4, metric, one)
            usual = gpudist.knn(a, b[1], 4, metric, rows=slice(None), **one)
            assert all((x == y).all() for x, y in zip(found, usual, strict=True))


def test_products_of_simple_arrays_take_the_short_way(array_library, rng):
    """Calls with a dtype take the long one, and give the same bits."""
    short = gpudist._core.minplus_tensors
    for dtype in ("float32", "float64"):
        for m, k, n in ((1, 1, 1), (33, 70, 20), (200, 3, 300)):
            a = array_library.put(rng.random((m, k)).astype(dtype))
            b = array_library.put(rng.random((n, 2 * k)).astype(dtype)).T[::2]
            for semiring in ("min_plus", "max_min"):
                usual = gpudist.minplus(a, b, semiring=semiring, dtype=dtype)
                got = short(a, b, semiring)
                assert type(got) is type(a) and got.dtype == a.dtype and (got == usual).all()
                assert (gpudist.minplus(a, b, semiring=semiring) == usual).all()
    host, whole = rng.random((200, 3)), array_library.put(rng.integers(0, 9, (200, 3)))
    for x, y in ((a, a), (a, host), (host, b), (whole, b), (a[:0], b), (a[0], b), (a, b[None])):
        assert short(x, y, "min_plus") is None
    assert short(a, b, "or_and") is None


def some_graphs(rng):
    """Graphs that go together, or are one, with and without negative weights."""
    for shape in ((1, 1), (40, 40), (257, 257), (7, 20, 20), (2, 3, 33, 33), (4, 200, 200)):
        n = shape[-1]
        potential = rng.integers(0, 50, n)
        w = rng.integers(1, 100, shape) * (rng.random(shape) < max(0.1, 4 / n))
        yield w
        yield np.where(w > 0, w + potential[:, None] - potential + 0.5, 0)


@pytest.mark.parametrize("library", [Torch, CuPy])
def test_simple_graphs_take_the_short_way(library, rng):
    """Calls that say where there is no path take the long one, and give the same bits."""
    library = library()
    short = gpudist._core.apsp_tensors
    for weights in some_graphs(rng):
        for dtype in ("float32", "float64"):
            graph = library.put(weights.astype(dtype))
            wanted = gpudist.apsp(graph, return_predecessors=True, unreachable=np.inf)
            got = short(graph, True, 4)
            plain = (short(graph, False, 4), gpudist.apsp(graph))
            for lengths in (got[0], *plain):
                assert type(lengths) is type(graph) and lengths.dtype == graph.dtype
                np.testing.assert_array_equal(library.get(lengths), library.get(wanted[0]))
            for paths in (got, gpudist.apsp(graph, return_predecessors=True)):
                assert paths[1].dtype == wanted[1].dtype and paths[1].shape == graph.shape
                np.testing.assert_array_equal(library.get(paths[1]), library.get(wanted[1]))
    wide = library.put(rng.random((90, 90)))
    turned = wide.T[::2, 1::2]  # one graph may lie as it likes
    np.testing.assert_array_equal(
        library.get(short(turned, False, 4)), gpudist.apsp(library.get(wide).T[::2, 1::2])
    )
    many = library.put(np.zeros((6, 4, 4)))
    left = [many[:, ::2, ::2], many[0, 0], many[0, :3], many[:, :3], many[:0], many[:, :0, :0]]
    left += [library.put(np.zeros(shape)) for shape in ((3, 200, 200), (4, 1030, 1030))]
    left += [library.put(np.zeros((4, 4), dtype)) for dtype in ("i4", "bool", "f2")]
    left += [library.get(wide), None]
    for graph in left:
        assert short(graph, False, 4) is None
    cyclic = np.zeros((5, 5))
    cyclic[1, 2], cyclic[2, 1] = 1, -3
    for graph in (cyclic, np.stack([abs(cyclic), cyclic])):
        assert short(library.put(graph), False, 4) is None
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            gpudist.apsp(library.put(graph))
        assert sorted(caught.value.cycle) == [1, 2]


def test_graphs_whose_gradients_are_recorded_are_refused():
    torch = Torch().module
    graph = torch.rand(9, 9, device="cuda", requires_grad=True)
    assert gpudist._core.apsp_tensors(graph, False, 4) is None
    with pytest.raises(TypeError, match="graph is a tensor that requires gradients"):
        gpudist.apsp(graph)
