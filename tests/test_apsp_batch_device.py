"""Many graphs on a CUDA device: each has the bits that it has alone, in the caller's library."""

import itertools
import threading

import numpy as np
import pytest
from device_libraries import CuPy, Torch

import gpudist

pytestmark = pytest.mark.gpu

KINDS = ("float32", "float64", "int32")


class Host:
    """Host arrays that travel there and back."""

    put = staticmethod(np.ascontiguousarray)
    get = staticmethod(np.asarray)


@pytest.fixture(params=[Torch, CuPy, Host], ids=["torch", "cupy", "host"])
def library(request):
    return request.param()


@pytest.fixture
def torch():
    return Torch()


def draw(rng, shape, n, kind="float32", density=0.3, signed=False):
    """Draw weights, 0 for no edge; signed ones by potentials, and so without negative cycles."""
    w = (
        rng.integers(1, 50, (*shape, n, n))
        if kind == "int32"
        else rng.uniform(0.1, 1, (*shape, n, n))
    )
    if signed:
        rise = rng.integers(0, 30, (*shape, n))
        w = w + (rise[..., :, None] - rise[..., None, :] + (kind == "int32") * 0)
        w = np.where(w == 0, 1, w)
    there = rng.random(w.shape) < density
    there &= ~np.eye(n, dtype=bool)
    return np.where(there, w, 0).astype(kind)


def alone(stack, **how):
    """Call once for each graph, on the CPU: apsp has the same bits everywhere."""
    found = [gpudist.apsp(graph, device="cpu", **how) for graph in stack]
    if how.get("return_predecessors"):
        return [np.stack(part) for part in zip(*found, strict=True)]
    return [np.stack(found)]


def check(library, stack, **how):
    where = {"device": "cuda"} if isinstance(library, Host) else {}
    found = gpudist.apsp(library.put(stack), **how, **where)
    found = found if isinstance(found, tuple) else (found,)
    for got, wanted in zip(found, alone(stack, **how), strict=True):
        got = library.get(got)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted, err_msg=str((stack.shape, how)))


# Around tiles of 32, 64 and 128 nodes and rounds of the queue, words and none.
@pytest.mark.parametrize("n", [1, 2, 7, 16, 31, 32, 33, 63, 64, 65, 100, 128, 129, 200, 256, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_each_graph_has_its_own_bits(n, kind, library, rng):
    for signed in (False, True):
        stack = draw(rng, (37 if n < 100 else 6,), n, kind, max(0.05, 3 / n), signed)
        check(library, stack, dtype=kind)
        check(library, stack, dtype=kind, return_predecessors=True)


# Teams of one block and of many, in one turn and in several, pairs of blocks, and as many graphs as
# go to a queue.
@pytest.mark.parametrize(
    ("n", "count"),
    [
        (129, 2), (160, 70), (200, 150), (253, 66), (256, 3), (256, 66), (256, 150), (256, 700),
        (300, 40), (513, 9),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_each_graph_of_several_blocks_has_its_own_bits(n, count, kind, torch, rng):
    for signed in (False, True):
        stack = draw(rng, (min(count, 10),), n, kind, max(0.02, 3 / n), signed)
        graphs = torch.put(np.concatenate([stack] * -(-count // len(stack)))[:count])
        for how in ({}, {"return_predecessors": True}):
            found = gpudist.apsp(graphs, dtype=kind, **how)
            found = found if isinstance(found, tuple) else (found,)
            for got, wanted in zip(found, alone(stack, dtype=kind, **how), strict=True):
                got = torch.get(got)
                for k in range(count):
                    np.testing.assert_array_equal(got[k], wanted[k % len(stack)], err_msg=str(k))


@pytest.mark.parametrize("count", [100, 300])
def test_negative_graphs_are_told_from_others(count, torch, rng):
    """Each graph of a team, a pair or a queue has the loop that its own weights need."""
    stack = draw(rng, (count,), 200, density=0.03)
    signed = draw(rng, (count,), 200, density=0.03, signed=True)
    mixed = np.where((np.arange(count) % 3 == 1)[:, None, None], signed, stack)
    check(torch, mixed)
    check(torch, mixed, return_predecessors=True)
    wrong = [7, count - 1]
    mixed[wrong, 5, 6], mixed[wrong, 6, 5] = 1, -2
    with pytest.raises(gpudist.NegativeCycleError, match="graph 7:"):
        gpudist.apsp(torch.put(mixed))


@pytest.mark.parametrize(
    "how",
    [
        {"no_edge": 3.0}, {"no_edge": -1.0}, {"no_edge": np.inf}, {"unweighted": True},
        {"directed": False}, {"dtype": "float32"}, {"dtype": "float64"}, {"unreachable": -1.0},
        {"unreachable": np.nan}, {"unweighted": True, "max_hops": 2},
        {"dtype": "int32", "no_edge": 7.0}, {"semiring": "max_plus"}, {"semiring": "min_max"},
        {"semiring": "or_and"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "int32", "float64", "int16", "float16"])
@pytest.mark.parametrize("n", [18, 140])
def test_arguments_mean_what_they_mean_for_one_graph(how, kind, n, torch, rng):
    stack = draw(rng, (2, 4), n, "int32", 0.1).astype(kind)
    if how.get("semiring") == "max_plus":
        stack = np.triu(stack, 1)
    got = torch.get(gpudist.apsp(torch.put(stack), **how))
    for index in np.ndindex(2, 4):
        wanted = gpudist.apsp(torch.put(stack[index]), **how)
        np.testing.assert_array_equal(got[index], torch.get(wanted))


@pytest.mark.parametrize(
    "how",
    [
        {}, {"no_edge": 3.0}, {"no_edge": np.inf}, {"unweighted": True}, {"directed": False},
        {"unreachable": -1.0}, {"return_predecessors": True}, {"semiring": "max_plus"},
        {"semiring": "min_max"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 18, 64, 100, 128])
def test_one_small_graph_has_the_bits_of_the_cpu(how, kind, n, torch, rng):
    for signed in (False,) if "no_edge" in how else (False, True):  # zeros are edges there
        graph = draw(rng, (), n, kind, 3 / n, signed)
        if how.get("semiring") == "max_plus":
            graph = np.triu(graph, 1)
        if "directed" in how:
            graph = np.abs(graph)
        want = gpudist.apsp(graph, device="cpu", dtype=kind, **how)
        there = torch.put(graph)
        for form in (there, torch.put(graph.T.copy()).T, there.clone()):
            found = gpudist.apsp(form, dtype=kind, **how)
            parts = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
            for got, wanted in parts:
                np.testing.assert_array_equal(torch.get(got), wanted)
        if not isinstance(want, tuple):
            assert gpudist.apsp(there, out=there, **how) is there  # read before it is written
            np.testing.assert_array_equal(torch.get(there), want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "count"), [(23, 9), (60, 9), (128, 9), (100, 33), (128, 40), (230, 40), (260, 9)]
)
@pytest.mark.parametrize("predecessors", [False, True])
def test_ragged_batches(n, count, kind, predecessors, library, rng):
    """What lies beyond the nodes in use is not read, and filled."""
    sizes = rng.integers(0, n + 1, count)
    sizes[:2] = 0, n
    stack = draw(rng, (count,), n, kind, 0.2)
    padded = stack.copy()
    for k, size in enumerate(sizes):
        padded[k, size:] = padded[k, :, size:] = rng.integers(-9, 9)
    where = {"device": "cuda"} if isinstance(library, Host) else {}
    how = {"dtype": kind, "unreachable": 77, "return_predecessors": predecessors}
    found = gpudist.apsp(library.put(padded), sizes=sizes, **how, **where)
    found = [library.get(part) for part in (found if predecessors else (found,))]
    for k, size in enumerate(sizes):
        want = gpudist.apsp(stack[k, :size, :size], device="cpu", **how)
        outside = np.ones((n, n), bool)
        outside[:size, :size] = False
        parts = zip(found, want if predecessors else (want,), (77, -9999), strict=False)
        for got, wanted, none in parts:
            np.testing.assert_array_equal(got[k, :size, :size], wanted)
            assert (got[k][outside] == none).all()


def test_layouts_and_results_that_are_given(torch, rng):
    stack = draw(rng, (6,), 21)
    want = alone(stack)[0]
    turned = torch.put(stack.transpose(0, 2, 1)).transpose(1, 2)
    wide = torch.put(np.repeat(stack, 2, axis=2))[..., ::2]
    odd = torch.put(np.concatenate([[7], stack.ravel()]).astype("f4"))[1:].reshape(6, 21, 21)
    for other in (turned, wide, odd, torch.put(stack[::-1]).flip(0)):
        np.testing.assert_array_equal(torch.get(gpudist.apsp(other)), want)
    graph = torch.put(stack)
    out = graph.new_empty(graph.shape)
    assert gpudist.apsp(graph, out=out) is out
    np.testing.assert_array_equal(torch.get(out), want)
    np.testing.assert_array_equal(torch.get(graph), stack)
    assert gpudist.apsp(graph, out=graph) is graph  # as if it were elsewhere
    np.testing.assert_array_equal(torch.get(graph), want)
    for n in (32, 64, 128):  # just what a team of threads holds
        full = draw(rng, (5,), n)
        flat = graph.new_zeros(full.size + 1)
        odd = flat[1:].reshape(full.shape)
        assert gpudist.apsp(torch.put(full), out=odd) is odd
        np.testing.assert_array_equal(torch.get(odd), alone(full)[0])
    with pytest.raises(TypeError, match="out is on the host"):
        gpudist.apsp(out, out=stack)
    with pytest.raises(ValueError, match="out must have shape"):
        gpudist.apsp(out, out=out[:, :20])
    assert gpudist.apsp(out[:0]).shape == (0, 21, 21)
    assert gpudist.apsp(out[:, :0, :0]).shape == (6, 0, 0)


def test_paths_of_a_batch_are_walked(torch, rng):
    for n in (30, 150):
        stack = draw(rng, (8,), n, density=3 / n, signed=True)
        lengths, before = map(torch.get, gpudist.apsp(torch.put(stack), return_predecessors=True))
        for k, graph in enumerate(stack):
            for i, j in np.argwhere(before[k] >= 0)[::11]:
                path = gpudist.reconstruct_path(before[k], i, j)
                steps = [graph[a, b] for a, b in itertools.pairwise(path)]
                assert all(steps)
                assert sum(map(float, steps)) == pytest.approx(lengths[k, i, j], abs=1e-3)


@pytest.mark.parametrize("n", [4, 60, 150])
def test_errors_name_the_graph_and_the_nodes(n, library):
    where = {"device": "cuda"} if isinstance(library, Host) else {}
    stack = np.zeros((2, 3, n, n))
    stack[1, 2, 0, 1], stack[1, 2, 1, 0] = 2, -3
    for kind in KINDS:
        graph = library.put(stack.astype(kind))
        with pytest.raises(
            gpudist.NegativeCycleError, match=r"graph \(1, 2\): .*1 -> 0 -> 1"
        ) as caught:
            gpudist.apsp(graph, dtype=kind, **where)
        assert caught.value.graph == (1, 2) and sorted(caught.value.cycle) == [0, 1]
        with pytest.raises(ValueError, match=r"graph \(1, 2\): graph\[1, 0\] is a negative weight"):
            gpudist.apsp(graph, no_edge=-1, dtype=kind, **where)
    stack = np.abs(stack) * 1.25
    with pytest.raises(ValueError, match=r"graph 5: graph\[0, 1\] is not a whole number"):
        gpudist.apsp(library.put(stack.reshape(6, n, n)), dtype="int32", **where)
    stack[0, 0, 3, 2] = 1e39
    with pytest.raises(ValueError, match=r"graph \(0, 0\): .*float32 cannot hold"):
        gpudist.apsp(library.put(stack), dtype="float32", **where)
    line = np.zeros((4, n, n))
    line[2, 0, 1] = line[2, 1, 3] = 2**30
    with pytest.raises(ValueError, match=r"graph 2: .*weights below 2\*\*29"):
        gpudist.apsp(library.put(line.astype("i4")), dtype="int32", **where)
    line = np.minimum(line, 2**29 - 1)
    line[2, 3, 2] = line[2, 0, 1]
    with pytest.raises(OverflowError, match=r"graph 2: .* reach 2\*\*30"):
        gpudist.apsp(library.put(line.astype("i4")), dtype="int32", **where)
    line[2, 3, 2] = 0  # two edges of 2**29 - 1: float64 takes over
    check(library, line.astype("i4"), dtype="int32")


@pytest.mark.parametrize("n", [12, 140])
def test_cycles_that_rounding_may_hide_are_looked_at(n, torch, rng):
    """Cycles of length 0 in exact sums, some of which rounded ones make negative."""
    rise = rng.uniform(-1e3, 1e3, (20, n))
    stack = (rise[:, :, None] - rise[:, None, :]).astype("f4")
    stack[rng.random(stack.shape) < 0.3] = np.inf
    for k in range(20):
        np.fill_diagonal(stack[k], np.inf)
    for how in ({}, {"return_predecessors": True}, {"dtype": "float64"}):
        lost = []
        for k in range(20):
            try:
                want = gpudist.apsp(torch.put(stack[k]), no_edge=np.inf, **how)
            except gpudist.NegativeCycleError:
                lost.append(k)
            else:
                got = gpudist.apsp(torch.put(stack[k : k + 1]), no_edge=np.inf, **how)
                pairs = [(got, want)] if not isinstance(got, tuple) else zip(got, want, strict=True)
                for one, other in pairs:
                    np.testing.assert_array_equal(torch.get(one)[0], torch.get(other))
        if lost:
            with pytest.raises(gpudist.NegativeCycleError, match=f"graph {lost[0]}:"):
                gpudist.apsp(torch.put(stack), no_edge=np.inf, **how)
        else:
            gpudist.apsp(torch.put(stack), no_edge=np.inf, **how)


def test_signs_that_are_none(torch, rng):
    """Minus zero is an edge or none as zero is, minus infinity and NaN are none."""
    stack = draw(rng, (9,), 40, density=0.2)
    for odd in (-0.0, -np.inf, np.nan, np.inf):
        some = np.where(rng.random(stack.shape) < 0.05, np.float32(odd), stack)
        check(torch, some)
        check(torch, some, no_edge=np.inf, return_predecessors=True)


def test_more_graphs_than_fit_at_once(rng):
    """Parts of a call that may hold little memory have the same bits."""
    stack = draw(rng, (64,), 130, density=0.05)
    want = gpudist.apsp(stack, device="cuda", return_predecessors=True)
    room = 5 * 130 * 130 * 12 + 5 * 4 * 128 * 128 * 12 + (1 << 16)
    got = gpudist.apsp(stack, device="cuda", return_predecessors=True, max_memory=room)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(MemoryError):
        gpudist.apsp(stack, device="cuda", max_memory=1000)


def test_work_goes_to_the_callers_stream(torch, rng):
    stack = draw(rng, (500,), 64)
    want, module = alone(stack[:5])[0], torch.module
    graph = torch.put(stack)
    stream = module.cuda.Stream()
    stream.wait_stream(module.cuda.current_stream())
    with module.cuda.stream(stream):
        twice = graph * 2
        got = gpudist.apsp(twice / 2)
    stream.synchronize()
    np.testing.assert_array_equal(torch.get(got)[:5], want)


def test_threads_do_not_disturb_each_other(torch, rng):
    stacks = [draw(rng, (300,), n) for n in (20, 50, 100, 140)]
    graphs = [torch.put(stack) for stack in stacks]
    want = [torch.get(gpudist.apsp(graph)) for graph in graphs]
    wrong = []

    def work(k):
        for _ in range(5):
            if not np.array_equal(torch.get(gpudist.apsp(graphs[k])), want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_stacks_of_other_operations(torch, rng):
    a = rng.integers(0, 9, (2, 1, 31, 40)).astype("f4")
    b = rng.integers(0, 9, (3, 40, 25)).astype("f4")
    for semiring in ("min_plus", "max_min"):
        got = gpudist.minplus(torch.put(a), torch.put(b), semiring=semiring)
        want = gpudist.minplus(a, b, semiring=semiring)
        np.testing.assert_array_equal(torch.get(got), want)
    graphs = draw(rng, (2, 3), 50, density=0.03)
    for stack in (graphs, graphs > 0):
        got = gpudist.transitive_closure(torch.put(stack))
        np.testing.assert_array_equal(torch.get(got), gpudist.transitive_closure(stack))
        how = {"sizes": [[50, 0, 17], [1, 33, 49]], "reflexive": True}
        want = gpudist.transitive_closure(stack, **how)
        got = gpudist.transitive_closure(torch.put(stack), **how)
        np.testing.assert_array_equal(torch.get(got), want)


def test_explain_says_which_device(torch):
    said = gpudist.explain("apsp", torch.put(np.zeros((5, 30, 30), "f4")))
    assert said.kernel == "apsp_batch/cuda_tiles" and "5 graphs" in said.reason
    said = gpudist.explain("apsp", np.zeros((500, 300, 300), "f4"))
    assert said.kernel == "apsp_batch/cuda_tiles"
    said = gpudist.explain("apsp", np.zeros((500, 30, 30), "f4"))
    assert said.kernel.startswith("apsp_batch/cpu_lanes")
