"""Shortest paths in gpudist.compare: beside whoever follows edges, and of all kinds of graphs."""

import sys

import numpy as np
import pytest

import gpudist
from gpudist.measure import rivals, samples

FAST = {"device": "cpu", "repeats": 1}
# The functions, and what has to be installed for each.
ALONG_EDGES = {
    "scipy dijkstra": "scipy",
    "rustworkx all_pairs_dijkstra_path_lengths": "rustworkx",
    "networkit APSP": "networkit",
}
OF_OTHERS = {**ALONG_EDGES, "rustworkx floyd_warshall_numpy": "rustworkx"}


@pytest.fixture
def graph(rng):
    """Give a graph of 90 nodes in which not all are reached, one way not as long as the other."""
    found = np.where(rng.random((90, 90)) < 0.03, rng.random((90, 90)), 0.0)
    found[0] = 0.0
    return found


def entry(name, *operands, **arguments):
    library = OF_OTHERS[name]
    pytest.importorskip(library, reason=f"{library} is not installed")
    found = gpudist.compare("apsp", *operands, against=library, **arguments, **FAST)
    (one,) = (one for one in found.entries if one.name == name)
    return one


@pytest.mark.parametrize("name", OF_OTHERS)
@pytest.mark.parametrize("arguments", [{}, {"directed": False}, {"unweighted": True}])
def test_others_find_the_same_lengths(name, graph, arguments):
    found = entry(name, graph, **arguments)
    assert found.timing is not None, found.note
    assert found.error < 1e-13 and found.device == "cpu"
    assert "each node" in found.does if name in ALONG_EDGES else "Dijkstra" not in found.does


@pytest.mark.parametrize("name", OF_OTHERS)
def test_others_take_sparse_arrays_and_graphs(name, graph):
    sparse = pytest.importorskip("scipy.sparse")
    assert entry(name, sparse.coo_array(graph)).error < 1e-13
    networkx = pytest.importorskip("networkx")
    named = networkx.DiGraph([("a", "b", {"km": 2}), ("b", "c", {"km": 3}), ("a", "c", {"km": 9})])
    assert entry(name, named, weight="km").error == 0
    assert entry(name, named.to_undirected(), weight="km").error == 0


@pytest.mark.parametrize("name", OF_OTHERS)
def test_what_others_cannot_do_is_said(name):
    negative = np.array([[0.0, 3.0], [-1.0, 0.0]])
    assert entry(name, negative).note == "takes no negative weights"
    positive = np.abs(negative)
    found = entry(name, positive, max_hops=1, unweighted=True)
    assert found.note == "has no argument like max_hops"
    if name != "scipy dijkstra":
        found = entry(name, positive, return_predecessors=True)
        assert found.note == "has no argument like return_predecessors"


@pytest.mark.parametrize("limit", [0, 512])
@pytest.mark.parametrize("indices", [[89, 2, 5], 3])
def test_scipy_starts_from_some_nodes_as_well(graph, indices, limit, monkeypatch):
    monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
    for paired in (False, True):
        given = {"indices": indices, "return_predecessors": paired}
        found = entry("scipy dijkstra", graph, **given)
        assert found.timing is not None and found.error < 1e-13, found.note
        assert gpudist.compare("apsp", graph, against=(), **given, **FAST).ours.error < 1e-13


@pytest.mark.parametrize("name", ALONG_EDGES)
def test_too_many_edges_are_not_gone_along(name, graph, monkeypatch):
    edges = int(np.count_nonzero(graph) - np.count_nonzero(np.diagonal(graph)))
    monkeypatch.setattr(rivals, "_MOST_EDGES", 90 * edges)
    assert entry(name, graph).timing is not None
    monkeypatch.setattr(rivals, "_MOST_EDGES", 90 * edges - 1)
    found = entry(name, graph)
    assert found.note == f"not run: 90 times {edges} edges are too many to follow"


def test_all_functions_of_a_library_have_a_row(graph):
    pytest.importorskip("scipy")
    found = gpudist.compare("apsp", graph, against=["scipy"], **FAST)
    assert [one.name for one in found.entries[1:]] == ["scipy floyd_warshall", "scipy dijkstra"]
    assert all(one.error < 1e-13 for one in found.entries)


@pytest.mark.parametrize("library", ["networkit", "rustworkx"])
def test_a_library_that_is_missing_has_one_row(graph, library, monkeypatch):
    monkeypatch.setattr(rivals, "library_version", lambda name: None)
    monkeypatch.setitem(sys.modules, library, None)
    found = gpudist.compare("apsp", graph, against=[library], **FAST)
    assert [one.note for one in found.entries[1:]] == [f"{library} is not installed"]


# ------------------------------------------------------------------ what is compared


def test_hops_are_those_that_the_call_counts(rng):
    """What the call takes is a row of another operation here, which apsp does not know by name."""
    graph = (rng.random((400, 400)) < 0.01).astype("f8")
    found = gpudist.compare("apsp", graph, unweighted=True, against=(), **FAST)
    assert found.ours.name.startswith("hops/") and found.ours.error == 0


@pytest.mark.parametrize("op", ["apsp", "transitive_closure"])
def test_large_graphs_with_names_have_a_sample(op):
    networkx = pytest.importorskip("networkx")
    graph = networkx.gnp_random_graph(600, 0.01, seed=1, directed=True)
    networkx.set_edge_attributes(graph, {edge: 1 + edge[0] % 7 for edge in graph.edges}, "km")
    arguments = {"weight": "km"} if op == "apsp" else {}
    found = gpudist.compare(op, graph, against=(), **arguments, **FAST)
    assert found.shape == (600, 600) and found.ours.error == 0
    assert found.checked_rows < 600


def test_nodes_are_counted_wherever_they_are_named():
    found = gpudist.compare("apsp", {"a": {"b": 2.0}, "b": {"c": 1.0}}, against=(), **FAST)
    assert found.shape == (3, 3) and found.ours.error == 0
