"""Where CUDA is of no use: a forked child, a stream that is captured, results without elements."""

import multiprocessing

import numpy as np
import pytest
from capsules import MEMORY, Export, Exporter
from claims import Claims

import gpudist
from gpudist import _core

# ---------------------------------------------------------------- results without elements

EMPTY = {
    "rows of B": ((4, 156), (0, 156), (4, 0)),
    "rows of A": ((0, 156), (5, 156), (0, 5)),
    "rows at all": ((0, 156), (0, 156), (0, 0)),
}
# Strides of an array without elements mean nothing: PyTorch has (1, 1) for (4, 0), others anything.
STRIDES = {"none": None, "of PyTorch": (1, 1), "odd": (7, 3), "huge": (2**62, -(2**62))}


def claimed(shape, strides):
    strides = None if strides is None else tuple(8 * s if abs(s) < 99 else s for s in strides)
    return Claims(shape=shape, strides=strides, data=(MEMORY if 0 not in shape else 0, False))


def exported(shape, strides):
    return Exporter(Export(shape=shape, strides=strides, data=None if 0 in shape else MEMORY))


def described(shape, strides):
    return (0 if 0 in shape else MEMORY), shape, strides or (shape[1], 1), 1, "float64", 0


@pytest.mark.parametrize("shapes", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("strides", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize("form", [claimed, exported, described])
def test_empty_results_on_a_device_are_contiguous(form, shapes, strides):
    """So that the call gets as far as it can here: without elements nothing is computed."""
    a, b, out = shapes
    given = form(a, None), form(b, None), form(out, strides)
    if gpudist.cuda.why_not() is None:
        assert _core.cdist(*given, "euclidean") is None
    else:
        with pytest.raises(gpudist.DeviceError, match="CUDA cannot be used"):
            _core.cdist(*given, "euclidean")


@pytest.mark.parametrize("form", [claimed, exported, described])
def test_results_with_elements_are_not_if_they_are_spread(form):
    for strides in ((10, 2), (6, 1), (1, 4), (0, 1)):
        given = form((4, 3), None), form((5, 3), None), form((4, 5), strides)
        with pytest.raises(ValueError, match="out must be C-contiguous"):
            _core.cdist(*given, "euclidean")


@pytest.mark.parametrize("shapes", EMPTY.values(), ids=EMPTY)
def test_empty_results_on_the_host(shapes):
    a, b, out = map(np.empty, shapes)
    spread = np.empty((2 * out.shape[0], 3 * out.shape[1]))[::2, ::3]
    turned = np.empty(out.shape[::-1]).T
    for result in (out, spread, turned):
        assert gpudist.cdist(a, b, out=result) is result
        assert gpudist.cdist(a, b, out=result, kernel="reference") is result
    assert gpudist.cdist(a, b).shape == out.shape
    assert gpudist.minplus(a, b.T).shape == out.shape
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    tensors = torch.as_tensor(a), torch.as_tensor(b)
    assert gpudist.cdist(*tensors, out=out) is out


def test_no_points_have_no_pairs():
    for points in (np.empty((0, 3)), np.empty((1, 3))):
        out = np.empty(6)[::7][:0]
        assert gpudist.pdist(points, out=out) is out


@pytest.mark.gpu
@pytest.mark.parametrize("shapes", EMPTY.values(), ids=EMPTY)
def test_empty_tensors_give_empty_tensors(shapes):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    for dtype in (torch.float32, torch.float64):
        a, b, out = (torch.empty(shape, dtype=dtype, device="cuda") for shape in shapes)
        for metric in ("euclidean", "cosine", "jaccard"):
            got = gpudist.cdist(a, b, metric)
            assert got.shape == out.shape and got.is_cuda and got.dtype == dtype
            assert gpudist.cdist(a, b, metric, out=out) is out
        assert gpudist.minplus(a, b.t()).shape == out.shape
        assert gpudist.pdist(a[:1]).shape == (0,)


# ---------------------------------------------------------------- a forked child


def in_child(target):
    """Run it in a forked child; what it returns, or the exception."""

    def run(results):
        try:
            results.put(target())
        except Exception as error:
            results.put(error)

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=run, args=(results,))
    child.start()
    found = results.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    return found


def test_a_forked_child_computes_without_cuda(rng):
    """`auto` takes the CPU there, whatever the parent has used; so it does here."""
    x = rng.normal(size=(300, 20))
    gpudist.cdist(x, x)
    want = gpudist.cdist(x, x, device="cpu")
    np.testing.assert_array_equal(in_child(lambda: gpudist.cdist(x, x)), want)
    assert in_child(lambda: gpudist.explain("cdist", x, x).device) == "cpu"
    assert isinstance(in_child(lambda: gpudist.cdist(x, x, device="cuda")), gpudist.DeviceError)


@pytest.mark.gpu
def test_a_forked_child_is_told_that_cuda_does_not_survive(rng):
    x = rng.normal(size=(5000, 200))
    gpudist.cdist(x, x, device="cuda")
    want = gpudist.cdist(x, x, device="cpu")
    np.testing.assert_array_equal(in_child(lambda: gpudist.cdist(x, x)), want)
    said = in_child(lambda: gpudist.explain("cdist", x, x))
    assert said.device == "cpu"
    assert any("CUDA does not survive a fork" in why for why in said.rejected.values())
    assert "spawn" in in_child(gpudist.cuda.why_not)
    for call in (
        lambda: gpudist.cdist(x, x, device="cuda"),
        lambda: gpudist.cdist(x, x, kernel="cdist/cuda_tile"),
        lambda: gpudist.apsp(x[:50, :50], device="cuda"),
    ):
        error = in_child(call)
        assert isinstance(error, gpudist.DeviceError)
        assert "does not survive a fork" in str(error) and '"forkserver"' in str(error)
    np.testing.assert_array_equal(
        gpudist.cdist(x, x, device="cuda"), gpudist.cdist(x, x, device="cuda")
    )
    assert gpudist.cuda.is_available()  # in the parent all is as it was


# ---------------------------------------------------------------- a stream that is captured

WAITING = {
    "apsp": lambda x: gpudist.apsp(x),
    "apsp of predecessors": lambda x: gpudist.apsp(x, return_predecessors=True),
    "perron": lambda x: gpudist.perron(x),
    "minplus in int32": lambda x: gpudist.minplus(x.int(), x.int()),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", WAITING)
def test_what_waits_refuses_a_stream_that_is_captured(name):
    """Before anything is launched, so that the capture goes on."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    x = 1 + torch.rand(130, 130, device="cuda") * 9
    WAITING[name](x)
    doubled = torch.zeros_like(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(gpudist.DeviceError, match=rf"{name.split()[0]}.* CUDA graph cannot"):
            WAITING[name](x)
        doubled.copy_(2 * x)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(doubled, 2 * x)
    WAITING[name](x)
