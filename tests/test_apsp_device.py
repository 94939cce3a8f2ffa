"""A graph on a CUDA device, closed in one go from weights to lengths: the bits of the CPU."""

import itertools

import numpy as np
import pytest
from device_libraries import Torch
from test_apsp import graph

import gpudist

pytestmark = pytest.mark.gpu

# Nodes of a tile, of a block and of more, and none of these; with a number of 16-byte words a row
# and without.
SIZES = (1, 2, 31, 32, 33, 64, 66, 97, 100, 127, 128, 129, 131, 256, 260, 290, 511, 512)
FAR = 77777  # no weight
CALLS = tuple(itertools.product(("float32", "float64", "int32"), (False, True)))


@pytest.fixture
def torch():
    return Torch()


def same(found, expected, what=""):
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x.cpu()), y, err_msg=what)


@pytest.mark.parametrize("kind", ["dense", "sparse", "ties", "zeros", "mixed", "negative"])
def test_every_size_has_the_bits_of_the_cpu(torch, kind):
    rng = np.random.default_rng(len(kind))
    for n, (dtype, predecessors) in itertools.product(SIZES, CALLS):
        if kind == "mixed" and dtype == "int32":
            continue
        no_edge = FAR if dtype == "int32" else np.inf
        w = graph(rng, n, kind)
        w = np.where(np.isinf(w), no_edge, w).astype(dtype)
        call = {"no_edge": no_edge, "return_predecessors": predecessors, "dtype": dtype}
        expected = gpudist.apsp(w, device="cpu", **call)
        same(gpudist.apsp(torch.put(w), **call), expected, f"{n} {dtype} {predecessors}")


@pytest.mark.parametrize("n", [640, 1000, 1024, 1284, 2000, 2048])
def test_many_nodes_have_the_bits_of_the_cpu(torch, n):
    for kind, predecessors in itertools.product(("sparse", "negative"), (False, True)):
        w = graph(np.random.default_rng(n), n, kind).astype(np.float32)
        call = {"no_edge": np.inf, "return_predecessors": predecessors}
        same(gpudist.apsp(torch.put(w), **call), gpudist.apsp(w, device="cpu", **call), kind)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rounds_in_one_launch_have_the_bits_of_the_cpu(torch, dtype, directed):
    kinds = ("sparse", "negative") if directed else ("sparse", "zeros")
    for n, kind in itertools.product((1536, 2049, 2300, 3001), kinds):
        no_edge = FAR if dtype == "int32" else np.inf
        w = graph(np.random.default_rng(n), n, kind)
        w = np.where(np.isinf(w), no_edge, w).astype(dtype)
        call = {"no_edge": no_edge, "dtype": dtype, "directed": directed}
        same(
            gpudist.apsp(torch.put(w), **call), gpudist.apsp(w, device="cpu", **call), f"{n} {kind}"
        )


@pytest.mark.parametrize("n", [6000, 8192])
def test_half_of_a_large_matrix_is_enough(torch, n):
    """What undirected graphs have beside what the same graph has with directions."""
    w = graph(np.random.default_rng(n), n, "sparse").astype(np.float32)
    for weights in (w, np.minimum(w, 3)):  # of any length, and of 16 bits
        both = torch.put(np.minimum(weights, weights.T))
        call = {"no_edge": np.inf, "directed": True}
        expected = np.asarray(gpudist.apsp(both, **call).cpu())
        same(gpudist.apsp(torch.put(weights), no_edge=np.inf, directed=False), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_edges_without_directions_are_read_as_on_the_cpu(torch, dtype):
    for n, kind in itertools.product(
        (1, 4, 31, 32, 36, 64, 100, 132, 300, 1028), ("sparse", "ties")
    ):
        for no_edge in (FAR, 3, 0) if dtype == "int32" else (np.inf, FAR, 3, 0):
            w = graph(np.random.default_rng(n), n, kind)
            w = np.where(np.isinf(w), no_edge, w).astype(dtype)
            call = {"no_edge": no_edge, "dtype": dtype, "directed": False}
            for predecessors in (False, True):
                call["return_predecessors"] = predecessors
                expected = gpudist.apsp(w, device="cpu", **call)
                same(gpudist.apsp(torch.put(w), **call), expected, f"{n} {kind} {no_edge}")
    w = np.zeros((132, 132), dtype)
    w[100, 7] = -2  # both ways a cycle
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(torch.put(w), dtype=dtype, directed=False)
    assert sorted(caught.value.nodes) == [7, 100]


@pytest.mark.parametrize("n", [1536, 2049, 4100])
@pytest.mark.parametrize(
    "edges",
    [
        ((7, 100, -5), (100, 1000, 3), (1000, 20, 30), (20, 21, -1), (1500, 1501, 4)),
        ((9, 9, -1),),
        ((70, 3, 2), (3, 1200, -1e-45)),
        ((70, 3, -3e38), (3, 1200, -3e38)),
    ],
)
def test_edges_without_directions_are_negative_now_and_then(torch, n, edges):
    """The answer tells so of large graphs, and all is done again."""
    w = np.zeros((n, n), np.float32)
    for i, j, weight in edges:
        w[i, j] = weight
    with pytest.raises(gpudist.NegativeCycleError) as expected:
        gpudist.apsp(w, directed=False, device="cpu")
    ours = torch.put(w)
    for given, more in ((ours, {}), (w, {"device": "cuda"}), (ours, {"out": ours})):
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            gpudist.apsp(given, directed=False, **more)
        assert sorted(caught.value.nodes) == sorted(expected.value.nodes)


def test_rows_and_results_may_lie_anywhere(torch):
    rng = np.random.default_rng(0)
    for n, dtype in itertools.product((32, 64, 65, 128, 192), ("float32", "float64", "int32")):
        w = rng.integers(0, 9, (n, n)).astype(dtype)
        wide, flat = torch.put(np.zeros((n, n + 3), dtype)), torch.put(np.zeros(n * n + 1, dtype))
        call = {"return_predecessors": True, "dtype": dtype}
        expected = gpudist.apsp(w, device="cpu", **call)
        ours = torch.put(w)
        wide[:, 1 : n + 1] = ours
        shifted = flat[1:].reshape(n, n)
        shifted[...] = ours
        turned = torch.put(np.ascontiguousarray(w.T)).T
        for view in (wide[:, 1 : n + 1], shifted, turned):
            same(gpudist.apsp(view, **call), expected, dtype)
            same(gpudist.apsp(view, dtype=dtype), expected[0], dtype)
        to = flat[1:].reshape(n, n)
        assert gpudist.apsp(ours, out=to) is to
        same(to, expected[0])
        assert gpudist.apsp(ours, out=ours) is ours  # in the place of the weights
        same(ours, expected[0])


def test_what_is_no_path_is_the_callers(torch):
    w = np.zeros((70, 70), np.float32)
    w[0, 1], w[1, 69] = 2, 3
    for unreachable in (None, -7.0, 0.5):
        call = {"unreachable": unreachable, "return_predecessors": True}
        same(gpudist.apsp(torch.put(w), **call), gpudist.apsp(w, device="cpu", **call))
    minus = np.where(w == 0, -1, w).astype(np.float32)
    same(gpudist.apsp(torch.put(minus), no_edge=-1), gpudist.apsp(minus, no_edge=-1, device="cpu"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_what_is_in_doubt_is_judged_as_elsewhere(torch, dtype):
    n = 150
    ring = np.zeros((n, n), dtype)
    ring[np.arange(n), np.roll(np.arange(n), -1)] = 2
    ring[n - 1, 0] = -2 * n
    for predecessors in (False, True):
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            gpudist.apsp(torch.put(ring), return_predecessors=predecessors, dtype=dtype)
        assert sorted(caught.value.nodes) == list(range(n))
    ring[n - 1, 0] = -2 * (n - 1)  # a cycle of length 0
    call = {"return_predecessors": True, "dtype": dtype}
    same(gpudist.apsp(torch.put(ring), **call)[0], gpudist.apsp(ring, device="cpu", **call)[0])
    with pytest.raises(gpudist.NegativeCycleError):
        gpudist.apsp(torch.put(np.array([[-1, 1], [0, 0]], dtype)), dtype=dtype)


def test_whole_numbers_that_are_too_large(torch):
    call = {"no_edge": -1, "dtype": "int32"}
    chain = np.full((40, 40), -1, np.int32)
    chain[np.arange(39), np.arange(1, 40)] = 2**27  # the sum is beyond 2**30
    with pytest.raises(OverflowError):
        gpudist.apsp(torch.put(chain), **call)
    chain[5:] = -1
    same(gpudist.apsp(torch.put(chain), **call), gpudist.apsp(chain, device="cpu", **call))
    chain[0, 1] = 2**29
    with pytest.raises(ValueError, match=r"2\*\*29"):
        gpudist.apsp(torch.put(chain), **call)
