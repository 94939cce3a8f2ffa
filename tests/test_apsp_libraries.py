"""Graphs of igraph and rustworkx, beside their own shortest paths and NetworkX's."""

import numpy as np
import pytest

import gpudist


def edges_of(rng, n=30, m=90):
    pairs = sorted({(int(i), int(j)) for i, j in rng.integers(0, n, (m, 2)) if i != j})
    return n, pairs, rng.integers(1, 99, len(pairs)).astype(float).tolist()


@pytest.mark.parametrize("directed", [True, False])
def test_igraph(directed, rng):
    igraph = pytest.importorskip("igraph")
    n, pairs, weights = edges_of(rng)
    graph = igraph.Graph(n=n, edges=pairs, directed=directed)
    want = np.array(graph.distances(mode="out"))
    np.testing.assert_array_equal(gpudist.apsp(graph), want)
    graph.es["weight"] = weights
    want = np.array(graph.distances(weights="weight", mode="out"))
    np.testing.assert_array_equal(gpudist.apsp(graph), want)
    np.testing.assert_array_equal(gpudist.apsp([graph, graph])[1], want)
    graph.es["km"] = [2 * w for w in weights]
    np.testing.assert_array_equal(gpudist.apsp(graph, weight="km"), 2 * want)
    thrice = gpudist.apsp(graph, weight=lambda u, v, data: 3 * data["weight"])
    np.testing.assert_array_equal(thrice, 3 * want)
    np.testing.assert_array_equal(
        gpudist.apsp(graph, weight=None), np.array(graph.distances(mode="out"))
    )
    graph.vs["name"] = [f"node {i}" for i in range(n)]
    paths = gpudist.apsp(graph, labels=True, return_predecessors=True)
    assert paths.distance("node 3", "node 7") == want[3, 7]
    order = [f"node {i}" for i in reversed(range(n))]
    np.testing.assert_array_equal(gpudist.apsp(graph, nodelist=order), want[::-1, ::-1])
    with pytest.raises(ValueError, match="'miles'; they have 'km', 'weight'"):
        gpudist.apsp(graph, weight="miles")
    del graph.es["weight"]
    with pytest.raises(ValueError, match="no edge of graph has the attribute 'weight'"):
        gpudist.apsp(graph)
    graph.vs["name"] = ["same"] * n
    with pytest.raises(ValueError, match="two nodes of one name"):
        gpudist.apsp(graph, weight="km")


@pytest.mark.parametrize("kind", ["PyDiGraph", "PyGraph"])
def test_rustworkx(kind, rng):
    rustworkx = pytest.importorskip("rustworkx")
    n, pairs, weights = edges_of(rng)
    graph = getattr(rustworkx, kind)()
    graph.add_nodes_from([f"payload {i}" for i in range(n)])
    graph.add_edges_from([(i, j, w) for (i, j), w in zip(pairs, weights, strict=True)])
    graph.remove_node(4)
    left = [i for i in range(n) if i != 4]

    def theirs(weight):
        own = rustworkx.floyd_warshall_numpy(graph, weight_fn=weight)
        return own if len(own) == len(left) else own[np.ix_(left, left)]

    want = theirs(float)
    np.testing.assert_array_equal(gpudist.apsp(graph), want)
    np.testing.assert_array_equal(gpudist.apsp([graph])[0], want)
    paths = gpudist.apsp(graph, labels=True, return_predecessors=True)
    assert paths.nodes == left and paths.distance(5, 9) == want[4, 8]
    np.testing.assert_array_equal(gpudist.apsp(graph, weight=None), theirs(lambda _: 1.0))
    for i, j, w in list(graph.weighted_edge_list()):
        graph.update_edge(i, j, {"km": w})
    np.testing.assert_array_equal(gpudist.apsp(graph, weight="km"), want)
    with pytest.raises(ValueError, match="no edge of graph has the attribute 'weight'"):
        gpudist.apsp(graph)
    for i, j, _ in list(graph.weighted_edge_list()):
        graph.update_edge(i, j, None)
    np.testing.assert_array_equal(gpudist.apsp(graph), theirs(lambda _: 1.0))
    graph.update_edge(*graph.edge_list()[0], "far")
    with pytest.raises(TypeError, match="real numbers or None, got a str"):
        gpudist.apsp(graph)


def test_graphs_of_derived_kinds():
    igraph, rustworkx = pytest.importorskip("igraph"), pytest.importorskip("rustworkx")
    roads = type("Roads", (igraph.Graph,), {})(n=3, edges=[(0, 1), (1, 2)])
    assert gpudist.apsp(roads)[0].tolist() == [0, 1, 2]
    plan = type("Plan", (rustworkx.PyDiGraph,), {})()
    plan.add_nodes_from("abc")
    plan.add_edges_from([(0, 1, 2.0), (1, 2, 3.0)])
    assert gpudist.apsp(plan)[0].tolist() == [0, 2, 5]


def test_numbers_of_rustworkx_have_no_attribute():
    rustworkx = pytest.importorskip("rustworkx")
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from("abc")
    graph.add_edges_from([(0, 1, 2.0), (1, 2, 3.0)])
    with pytest.raises(ValueError, match="without an attribute 'km'"):
        gpudist.apsp(graph, weight="km")
    assert gpudist.apsp(graph, weight="km", unweighted=True)[0].tolist() == [0, 1, 2]
    graph.update_edge(0, 1, {"mi": 7})
    with pytest.raises(ValueError, match="'km'; they have 'mi'"):
        gpudist.apsp(graph, weight="km")
    assert gpudist.apsp(graph, weight="mi")[0].tolist() == [0, 7, 10]
