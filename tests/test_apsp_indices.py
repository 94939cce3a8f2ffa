"""Paths from some nodes alone: rows of all pairs, whoever computes them."""

import numpy as np
import pytest

import gpudist
from gpudist import sources

sparse = pytest.importorskip("scipy.sparse")


def road_map(rng, n=300, kind="float64", least=1):
    graph = np.zeros((n, n), kind)
    graph[rng.integers(0, n, 4 * n), rng.integers(0, n, 4 * n)] = rng.integers(least, 50, 4 * n)
    return graph


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    "how",
    [
        {}, {"directed": False}, {"unweighted": True}, {"unreachable": -1},
        {"unweighted": True, "max_hops": 3}, {"no_edge": 7.0}, {"dtype": "int32"},
        {"dtype": "uint16"}, {"semiring": "min_max"}, {"semiring": "or_and"}, {"dtype": "float32"},
    ],
    ids=str,
)  # fmt: skip
def test_they_are_rows_of_all_pairs(kind, how, rng):
    graph = road_map(rng, kind=kind)  # of whole numbers, so that sums do not depend on their order
    whole = gpudist.apsp(graph, **how)
    for indices in (3, [5], [250, 0, 0, 17], np.arange(300), []):
        got = gpudist.apsp(graph, indices=indices, **how)
        want = whole[np.asarray(indices, int)]
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def test_other_forms_and_zero_weights(rng):
    dense = road_map(rng)
    dense[2, 200] = dense[200, 9] = 0.0
    zeros = sparse.coo_array(dense)
    zeros = sparse.coo_array(
        (np.append(zeros.data, [0.0, 5.0, 3.0]),
         (np.append(zeros.coords[0], [2, 8, 8]), np.append(zeros.coords[1], [200, 9, 9]))),
        shape=dense.shape,
    ).tocsr()  # fmt: skip
    masked = np.ma.masked_array(zeros.toarray(), zeros.toarray() == 0)
    named = {i: {int(j): float(dense[i, j]) for j in np.flatnonzero(dense[i])} for i in range(300)}
    for form in (zeros, masked, named, dense.tolist()):
        want = gpudist.apsp(form)[[4, 2]]
        np.testing.assert_array_equal(gpudist.apsp(form, indices=[4, 2]), want)
    edges = rng.integers(0, 300, (900, 2))
    weights = rng.integers(1, 9, 900)
    for directed in (True, False):
        want = gpudist.apsp_edges(edges, weights, 300, directed=directed)[7]
        got = gpudist.apsp_edges(edges, weights, 300, directed=directed, indices=7)
        np.testing.assert_array_equal(got, want)


def test_predecessors_are_walked(rng):
    graph = road_map(rng)
    lengths, before = gpudist.apsp(graph, indices=[9, 40], return_predecessors=True)
    assert before.dtype == np.int32
    for row, source in enumerate((9, 40)):
        for target in np.flatnonzero(before[row] >= 0):
            length, node = 0.0, target
            while node != source:
                assert graph[before[row, node], node] > 0
                length, node = length + graph[before[row, node], node], before[row, node]
            assert length == lengths[row, target]
        gone = ~np.isfinite(lengths[row])
        assert (before[row, gone] == -9999).all() and before[row, source] == -9999


def test_negative_weights(rng):
    rise = rng.integers(-30, 30, 300)
    graph = road_map(rng)
    there = graph > 0
    graph = np.where(there, graph + rise[:, None] - rise, np.inf)
    want = gpudist.apsp(graph, no_edge=np.inf)[[3, 8]]
    np.testing.assert_array_equal(gpudist.apsp(graph, no_edge=np.inf, indices=[3, 8]), want)
    said = gpudist.explain("apsp", graph, no_edge=np.inf, indices=[3, 8], device="cpu")
    assert said.kernel == "scipy.sparse.csgraph.johnson"
    graph[3, 3] = -1
    with pytest.raises(gpudist.NegativeCycleError, match="3 -> 3"):
        gpudist.apsp(graph, no_edge=np.inf, indices=[8])
    with pytest.raises(gpudist.NegativeCycleError):
        gpudist.apsp(graph, no_edge=np.inf, indices=[8], directed=False)
    with pytest.raises(ValueError, match="negative weight"):
        gpudist.apsp(graph, no_edge=-5, indices=[8])


def test_explain_says_who_computes_them(rng):
    graph = road_map(rng)
    said = gpudist.explain("apsp", graph, indices=[3], device="cpu")
    assert said.kernel == "scipy.sparse.csgraph.dijkstra" and "1 of 300 nodes" in said.reason
    assert "csgraph.dijkstra" in str(said)
    for how, why in (
        ({"indices": np.arange(300)}, "all pairs"), ({"semiring": "max_min"}, "max_min"),
        ({"dtype": "int32"}, "not int32"), ({"kernel": "reference"}, "asked for"),
    ):  # fmt: skip
        said = gpudist.explain("apsp", graph, **{"indices": [3]} | how)
        assert "rows of all pairs, since" in said.reason and why in said.reason


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"indices": [3]}, IndexError, "indices has 3"), ({"indices": -1}, IndexError, "has -1"),
        ({"indices": 1.0}, TypeError, "whole numbers"), ({"indices": [[1]]}, ValueError, "shape"),
        ({"indices": 1, "out": np.zeros((3, 3))}, TypeError, "out is for all pairs"),
        ({"indices": 1, "overwrite": True}, TypeError, "overwrite is for all pairs"),
        ({"indices": 1, "labels": True}, TypeError, "not with labels"),
        ({"indices": 1, "sizes": 3}, TypeError, "one graph"),
    ],
)  # fmt: skip
def test_what_is_refused(how, error, said):
    with pytest.raises(error, match=said):
        gpudist.apsp(np.ones((3, 3)), **how)


def test_who_walks_back_in_rows_is_told_how():
    graph = np.array([[0, 1, 0], [0, 0, 2], [0, 0, 0]])
    _, before = gpudist.apsp(graph, indices=[0], return_predecessors=True)
    for walk in (gpudist.reconstruct_path, gpudist.reconstruct_paths):
        with pytest.raises(ValueError, match=r"got shape \(1, 3\); with indices= they are rows"):
            walk(before, 0, 2)
    node, way = 2, [2]
    while node != 0:
        node = before[0, node]
        way.append(node)
    assert way == [2, 1, 0]


@pytest.mark.parametrize(
    ("order", "error", "said"),
    [
        ({"progress": "yes"}, TypeError, "progress must be a bool or a callable"),
        ({"options": {"block": 64}}, ValueError, "kernel 'auto' takes no options, got 'block'"),
        ({"max_memory": "much"}, ValueError, "max_memory must be a number of bytes"),
        ({"max_memory": 1000}, MemoryError, "2 nodes need .* 1000: ask for fewer nodes at once"),
    ],
)
def test_orders_are_read_where_scipy_computes(order, error, said, rng):
    with pytest.raises(error, match=said):
        gpudist.apsp(road_map(rng), indices=[3, 4], **order)


@pytest.mark.parametrize("directed", [True, False])
def test_scipy_is_asked_for_some_nodes_at_a_time(directed, rng, monkeypatch):
    """It hears no Ctrl-C meanwhile."""
    graph, told = road_map(rng), []
    how = {"indices": [5, 0, 5, 17, 200, 3], "directed": directed, "return_predecessors": True}
    whole = gpudist.apsp(graph, **how, progress=lambda *at: told.append(at))
    steps = 6 * np.count_nonzero(graph)
    assert told == [(steps, steps)] * 2
    told.clear()
    monkeypatch.setattr(sources, "_PIECE", 0)
    pieces = gpudist.apsp(graph, **how, max_memory="1 MB", progress=lambda *at: told.append(at))
    assert told == [(steps * 4 // 6, steps), (steps, steps), (steps, steps)]
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, other)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpudist.apsp(graph, **how, progress=stop)
    one = gpudist.apsp(graph, indices=5, directed=directed)
    np.testing.assert_array_equal(one, whole[0][0])
