"""Graphs of few edges go other ways, and hops do; what they find is the same."""

import numpy as np
import pytest

import gpudist
from gpudist import _core, paths_one


def sparse_graph(rng, n, degree, kind="float32"):
    graph = np.zeros((n, n), kind)
    m = int(n * degree)
    graph[rng.integers(0, n, m), rng.integers(0, n, m)] = rng.integers(1, 9, m)
    return graph


@pytest.fixture
def ways(monkeypatch):
    """Record which way hops went: True where they were counted, False where that was given up."""
    found = []

    def hops(*args, **how):
        found.append(_core.hops(*args, **how))
        return found[-1]

    core = type("Core", (), {"__getattr__": lambda self, name: getattr(_core, name)})()
    core.hops = hops
    monkeypatch.setattr(paths_one, "_core", core)
    return found


# Around the number of targets that are taken at a time, and the size from which it is tried.
@pytest.mark.parametrize("n", [127, 128, 200, 511, 512, 513, 700])
@pytest.mark.parametrize("degree", [0, 0.5, 1, 3, 40])
def test_hops_are_those_of_all_pairs_by_weights(n, degree, ways, rng):
    graph = sparse_graph(rng, n, degree)
    for how in (
        {}, {"dtype": "float64"}, {"dtype": "int32", "directed": False}, {"dtype": "uint8"},
        {"unreachable": -1, "max_hops": 3}, {"no_edge": 3.0}, {"max_hops": 0},
    ):  # fmt: skip
        want = gpudist.apsp(graph, unweighted=True, kernel="apsp/cpu_blocked_baseline", **how)
        del ways[:]
        got = gpudist.apsp(graph, unweighted=True, device="cpu", **how)
        if n < 128:
            assert not ways
        elif n >= 200 and degree <= 3 and "no_edge" not in how:
            assert ways == [True]
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [2047, 2048, 2049, 3100, 4095, 4097, 5000])
@pytest.mark.parametrize("degree", [0, 0.5, 3, 40, 70, "half", "all", "line"])
def test_hops_on_a_gpu_are_those_of_all_pairs_by_weights(n, degree, ways, rng):
    """Around the targets of a part and the successors of a list; ends of searches of any kind."""
    torch = pytest.importorskip("torch")
    if isinstance(degree, str):
        graph = {
            "half": (rng.random((n, n)) < 0.5).astype("f4"),
            "all": np.triu(np.ones((n, n), "f4"), 1),
            "line": np.eye(n, k=7, dtype="f4") + np.eye(n, k=-3, dtype="f4"),
        }[degree]
        graph[n // 2] = 0
    else:
        graph = sparse_graph(rng, n, degree)
        graph[3, : n // 3] = 1  # more successors than a list has room for
    there = torch.as_tensor(graph, device="cuda")
    for how in (
        {}, {"dtype": "float64"}, {"dtype": "int32", "directed": False},
        {"unreachable": -1, "max_hops": 3}, {"no_edge": 3.0}, {"max_hops": 0},
    ):  # fmt: skip
        want = gpudist.apsp(there, unweighted=True, kernel="apsp/cuda_blocked", **how)
        del ways[:]
        got = gpudist.apsp(there, unweighted=True, **how)
        if n < 2048:  # nothing is tried, and no room taken for it
            assert not ways
        else:
            assert len(ways) == 1 and (ways[0] or degree not in (3, 40) or "no_edge" in how)
        assert got.dtype == want.dtype and torch.equal(got, want)
    home = gpudist.apsp(graph, unweighted=True, device="cuda")
    assert torch.equal(torch.as_tensor(home), gpudist.apsp(there, unweighted=True).cpu())


@pytest.mark.gpu
def test_hops_on_a_gpu_in_places_of_the_callers(ways, rng):
    torch = pytest.importorskip("torch")
    n = 2100
    graph = torch.as_tensor(sparse_graph(rng, n, 5), device="cuda")
    want = gpudist.apsp(graph, unweighted=True, kernel="apsp/cuda_blocked")
    out = torch.full((n, n), -7.0, device="cuda")
    assert gpudist.apsp(graph, unweighted=True, out=out) is out and torch.equal(out, want)
    assert torch.equal(gpudist.apsp(graph.t(), unweighted=True), want.t())
    assert ways == [True, True]
    again = graph.clone()
    assert gpudist.apsp(again, unweighted=True, out=again) is again and torch.equal(again, want)
    assert len(ways) == 2
    said = gpudist.explain("apsp", graph, unweighted=True)
    assert said.kernel == "hops/cuda_levels" and "level by level" in said.reason
    assert gpudist.explain("apsp", graph).kernel == "apsp/cuda_blocked"


@pytest.mark.gpu
def test_a_long_search_on_a_gpu_is_given_up_and_right(ways):
    torch = pytest.importorskip("torch")
    n = 4096
    line = torch.diag(torch.ones(n - 1, device="cuda"), 1)
    apart = torch.arange(n, device="cuda") - torch.arange(n, device="cuda")[:, None]
    got = gpudist.apsp(line, unweighted=True)
    assert torch.equal(got, torch.where(apart < 0, torch.inf, apart.float()))
    assert ways == [False]


def test_other_forms_of_graphs_count_hops_too(ways, rng):
    sparse, nx = pytest.importorskip("scipy.sparse"), pytest.importorskip("networkx")
    graph = sparse_graph(rng, 150, 2)
    how = {"unweighted": True, "device": "cpu"}
    want = gpudist.apsp(graph, kernel="apsp/cpu_blocked_baseline", unweighted=True)
    for form in (
        sparse.csr_array(graph), np.ma.masked_equal(graph, 0), np.asfortranarray(graph),
        nx.from_numpy_array(graph, create_using=nx.DiGraph), graph.astype(">f4"),
        np.where(graph == 0, np.nan, graph),
    ):  # fmt: skip
        np.testing.assert_array_equal(gpudist.apsp(form, **how), want)
    out = np.empty((150, 150), "f4")
    assert gpudist.apsp(graph, out=out, **how) is out
    np.testing.assert_array_equal(out, want)
    again = graph.copy()
    assert gpudist.apsp(again, out=again, **how) is again
    np.testing.assert_array_equal(again, want)
    assert all(ways) and len(ways) == 8


def test_many_levels_and_many_edges_are_given_up_and_right(ways, rng):
    n = 400
    line = np.eye(n, k=1)
    apart = np.arange(n) - np.arange(n)[:, None]
    got = gpudist.apsp(line, unweighted=True, device="cpu")
    np.testing.assert_array_equal(got, np.where(apart < 0, np.inf, apart))
    # A long line from every node of a dense part: steps over all edges, level by level.
    graph = np.zeros((n, n))
    graph[:250, :250] = np.tri(250, k=1) != 0
    graph[249:, 249:] += np.eye(n - 249, k=1)
    for out in (None, np.empty((n, n)), graph):
        given = graph.copy() if out is not graph else graph
        want = gpudist.apsp(given.copy(), unweighted=True, kernel="reference")
        got = gpudist.apsp(given, unweighted=True, device="cpu", out=given if out is graph else out)
        np.testing.assert_array_equal(got, want)
    assert ways == [True, False, False, False]


def test_predecessors_and_other_lengths_are_all_pairs_by_weights(ways, rng):
    graph = np.triu(sparse_graph(rng, 150, 2), 1)
    gpudist.apsp(graph, unweighted=True, return_predecessors=True, device="cpu")
    gpudist.apsp(graph, unweighted=True, semiring="max_plus", device="cpu")
    gpudist.apsp(graph, unweighted=True, kernel="reference")
    gpudist.apsp(graph, device="cpu")
    with pytest.raises(ValueError, match="negative weight"):
        gpudist.apsp(graph.astype("i4") - 3, no_edge=-3, device="cpu", dtype="int32")
    assert not ways


def warshall(truths):
    reached = truths.copy()
    for k in range(len(reached)):
        reached |= reached[:, k, None] & reached[k]
    return reached


@pytest.mark.parametrize("n", [1, 2, 5, 31, 33, 64, 100, 257, 600])
def test_closures_by_components(n, rng):
    for degree in (0, 0.3, 0.7, 1, 1.5, 3, n / 20):
        graph = sparse_graph(rng, n, degree) > 0
        order = rng.permutation(n)
        for edges in (graph, graph & (order[:, None] < order), graph & (order[:, None] <= order)):
            want = warshall(edges)
            np.testing.assert_array_equal(gpudist.transitive_closure(edges, device="cpu"), want)
            got = gpudist.transitive_closure(edges, reflexive=True, device="cpu")
            np.testing.assert_array_equal(got, want | np.eye(n, dtype=bool))
        both = gpudist.transitive_closure(graph, directed=False, device="cpu")
        np.testing.assert_array_equal(both, warshall(graph | graph.T))


def test_explain_says_which_way(rng):
    few, many = sparse_graph(rng, 200, 2), rng.random((200, 200)) + 0.1
    said = gpudist.explain("apsp", few, unweighted=True, device="cpu")
    edges = np.count_nonzero(few)
    assert said.kernel.startswith("hops/cpu_levels") and f"{edges} edges" in said.reason
    for other in ({}, {"return_predecessors": True, "unweighted": True}):
        said = gpudist.explain("apsp", few, device="cpu", **other)
        assert said.kernel.startswith("apsp/")
    said = gpudist.explain("transitive_closure", few, device="cpu")
    assert f"components are found first for {edges} edges" in said.reason
    said = gpudist.explain("transitive_closure", few, directed=False, device="cpu")
    assert f"{np.count_nonzero(few + few.T)} edges" in said.reason
    said = gpudist.explain("transitive_closure", many, device="cpu")
    assert "40000 edges are many" in said.reason
    stack = gpudist.explain("transitive_closure", np.stack([few, many]), device="cpu")
    assert "each of 2 graphs by itself" in stack.reason


def test_a_long_count_of_hops_can_be_stopped():
    class Enough(Exception):
        pass

    def stop(done, total):
        raise Enough

    graph = np.eye(3000, k=1, dtype="f4") + np.eye(3000, k=-1, dtype="f4")
    with pytest.raises(Enough):
        gpudist.apsp(graph, unweighted=True, progress=stop, device="cpu")
    assert gpudist.apsp(graph[:150, :150], unweighted=True, device="cpu")[0, 149] == 149
