"""Graphs as people have them: names of nodes, weights by name, frames, dicts, lists of edges."""

import numpy as np
import pytest

import gpudist

INF = np.inf


@pytest.fixture
def nx():
    return pytest.importorskip("networkx", reason="networkx is not installed")


@pytest.fixture
def pd():
    return pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture
def roads(nx):
    g = nx.DiGraph()
    g.add_edge("a", "b", cost=3, name="x")
    g.add_edge("b", "c", cost=2, time=5.0)
    g.add_edge("c", "a", time=7.0)
    return g


EXPECTED = [[0, 3, 5], [3, 0, 2], [1, 4, 0]]


def test_weight_has_networkxs_meaning(nx, roads):
    for weight in ("cost", "time", None):
        expected = nx.floyd_warshall_numpy(roads, weight=weight)
        np.testing.assert_array_equal(gpudist.apsp(roads, weight=weight), expected)
        as_dicts = nx.to_dict_of_dicts(roads)
        np.testing.assert_array_equal(gpudist.apsp(as_dicts, weight=weight), expected)
    assert gpudist.apsp(roads, weight="cost").tolist() == EXPECTED

    def slow(u, v, data):
        return None if u == "c" else 2 * data["cost"] + (v == "b")

    by_function = gpudist.apsp(roads, weight=slow, labels=True)
    lengths = dict(nx.all_pairs_dijkstra_path_length(roads, weight=slow))
    for u in roads:
        for v in roads:
            assert by_function.distance(u, v) == lengths[u].get(v, INF)
    parallel = nx.MultiDiGraph([(0, 1, {"cost": 5}), (0, 1, {"cost": 3}), (1, 0, {"cost": 1})])
    assert gpudist.apsp(parallel, weight="cost").tolist() == [[0, 3], [1, 0]]
    most = gpudist.apsp(parallel, weight=lambda u, v, keyed: max(d["cost"] for d in keyed.values()))
    assert most.tolist() == [[0, 5], [1, 0]]


def test_a_negative_cycle_is_told_by_the_names_of_its_nodes(nx, pd):
    edges = [("home", "sea", 1.0), ("sea", "hill", -3.0), ("hill", "home", 1.0), ("hill", "end", 1)]
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges)
    order = list(graph)
    frame = nx.to_pandas_adjacency(graph)
    listed = pd.DataFrame(edges, columns=["source", "target", "weight"])
    calls = {
        "NetworkX": lambda: gpudist.apsp(graph),
        "labels": lambda: gpudist.apsp(graph, labels=True),
        "dicts": lambda: gpudist.apsp(nx.to_dict_of_dicts(graph)),
        "frame": lambda: gpudist.apsp(frame),
        "edges": lambda: gpudist.apsp_edges(listed, labels=True),
        "some sources": lambda: gpudist.apsp(graph, indices=[0]),
        "a list": lambda: gpudist.apsp([{"a": {"b": 1.0}}, frame, graph]),
    }
    for name, call in calls.items():
        with pytest.raises(gpudist.NegativeCycleError, match="'sea' -> 'hill'") as caught:
            call()
        error = caught.value
        assert sorted(error.named_cycle) == sorted(error.named_nodes) == ["hill", "home", "sea"]
        assert [order[i] for i in error.cycle] == error.named_cycle, name
        assert [order[i] for i in error.nodes] == error.named_nodes, name
        assert str(error).startswith("graph 1: Negative cycle in" if name == "a list" else "Neg")
        assert str(error).count("Negative") == 1
    for plain in (frame.to_numpy(), [frame.to_numpy()]):
        with pytest.raises(gpudist.NegativeCycleError, match="1 -> 2") as caught:
            gpudist.apsp(plain)
        error = caught.value
        assert (error.named_nodes, error.named_cycle) == (error.nodes, error.cycle)


def test_an_attribute_that_no_edge_has_is_an_error(nx, roads):
    with pytest.raises(
        ValueError, match=r"'weight'; they have 'cost', 'name', 'time'.*weight=None"
    ):
        gpudist.apsp(roads)
    with pytest.raises(ValueError, match="'weight'"):
        gpudist.apsp(nx.to_dict_of_dicts(roads))
    with pytest.raises(ValueError, match="'weight'"):
        gpudist.explain("apsp", roads)
    with pytest.raises(ValueError, match="'costs'; they have"):
        gpudist.apsp(roads, weight="costs")
    plain = nx.path_graph(3)
    with pytest.raises(ValueError, match="'cost'; they have no attributes"):
        gpudist.apsp(plain, weight="cost")
    plain.edges[0, 1]["colour"] = "red"
    assert gpudist.apsp(plain)[0].tolist() == [0, 1, 2]  # nothing there could be a weight
    # where weights do not matter, neither does their name
    assert gpudist.transitive_closure(roads).all()
    assert gpudist.apsp(roads, semiring="or_and").all()
    assert gpudist.apsp(roads, unweighted=True).max() == 2


def test_nodelist_orders_rows(nx, roads):
    order = ["c", "a", "b"]
    expected = nx.floyd_warshall_numpy(roads, nodelist=order, weight="cost")
    np.testing.assert_array_equal(gpudist.apsp(roads, nodelist=order, weight="cost"), expected)
    for wrong, why in (
        (["a", "b"], "'c' is missing"),
        (["a", "b", "d"], "'d' is none of them"),
        (["a", "b", "b", "c"], "once: 'b' is there twice"),
        (["a", "b", "b"], "once: 'b' is there twice"),
    ):
        with pytest.raises(ValueError, match=why):
            gpudist.apsp(roads, nodelist=wrong, weight="cost")
    for given in ({"nodelist": [0, 1]}, {"weight": "cost"}, {"weight": None}):
        with pytest.raises(TypeError, match=f"{next(iter(given))} is for NetworkX graphs"):
            gpudist.apsp(np.ones((2, 2)), **given)
    for wrong in (5, [["a"], "b", "c"], {"a", "b", "c"}):
        with pytest.raises(TypeError, match=r"^nodelist must be a sequence of the graph's nodes"):
            gpudist.apsp(roads, nodelist=wrong, weight="cost")


@pytest.mark.parametrize("weight", [np.ones(3), ["cost"], {"a": 1}], ids=lambda w: type(w).__name__)
def test_what_is_no_weight_is_said_to_be_none(roads, weight):
    for graph in (roads, np.ones((3, 3)), np.ones((2, 3, 3)), [roads, roads]):
        with pytest.raises(
            TypeError, match=r"^weight must be the name of an attribute, a function"
        ):
            gpudist.apsp(graph, weight=weight)
    with pytest.raises(TypeError, match=r"^weight must be"):
        gpudist.explain("apsp", roads, weight=weight)


def test_weights_beyond_float64_are_an_error(nx):
    large = nx.DiGraph([(0, 1, {"weight": 10**400})])
    for call in (
        lambda: gpudist.apsp(large),
        lambda: gpudist.apsp({0: {1: 10**400}}),
        lambda: gpudist.apsp(large, weight=lambda u, v, data: data["weight"]),
    ):
        with pytest.raises(ValueError, match="graph's edges must weigh numbers that float64 holds"):
            call()
    with pytest.raises(ValueError, match="A's edges must weigh numbers that float64 holds"):
        gpudist.perron(large)


def test_an_attribute_of_some_edges_counts_beside_numbers():
    mixed = {"a": {"b": 3, "c": {"km": 5}}}
    assert gpudist.apsp(mixed, weight="km")[0].tolist() == [0, 3, 5]
    for given, missing in (({}, "'weight'; they have 'km'"), ({"weight": "mi"}, "'mi'; they have")):
        with pytest.raises(ValueError, match=missing):
            gpudist.apsp(mixed, **given)
    assert gpudist.apsp(mixed, weight="mi", unweighted=True)[0].tolist() == [0, 1, 1]


def test_a_result_by_name(roads, pd):
    found = gpudist.apsp(roads, weight="cost", labels=True, return_predecessors=True)
    assert found.distance("a", "c") == 5 and found.path("a", "c") == ["a", "b", "c"]
    assert gpudist.reconstruct_path(found, "a", "c") == ["a", "b", "c"]
    assert gpudist.reconstruct_path(found, "b", "b") == ["b"]
    frame = found.to_pandas()
    assert frame.loc["c", "b"] == 4 and list(frame.index) == list(frame.columns) == ["a", "b", "c"]
    assert "3 nodes" in repr(found)
    with pytest.raises(KeyError, match="'d' is not a node"):
        found.distance("a", "d")
    with pytest.raises(ValueError, match="return_predecessors=True"):
        gpudist.apsp(roads, weight="cost", labels=True).path("a", "b")
    alone = gpudist.apsp({"a": {"b": 1.0}}, labels=True, return_predecessors=True)
    with pytest.raises(gpudist.NoPathError, match="no path from 'b' to 'a'"):
        alone.path("b", "a")
    numbered = gpudist.apsp(np.array([[0, 2.0], [0, 0]]), labels=True)
    assert numbered.nodes == [0, 1] and numbered.distance(0, 1) == 2
    pairs = gpudist.apsp({("x", 1): {("y", 2): 4}}, labels=True).to_pandas()
    assert pairs.shape == (2, 2) and pairs.iloc[0, 1] == 4


def test_dicts_of_dicts():
    dist = gpudist.apsp({"a": {"b": 3, "c": None}, "b": {"c": 2}, "c": {"a": 1}})
    assert dist.tolist() == EXPECTED
    assert gpudist.apsp({0: {1: 0.0}}, directed=False).tolist() == [[0, 0], [0, 0]]
    assert gpudist.apsp({}).shape == (0, 0)
    with pytest.raises(TypeError, match=r"graph\['a'\] must be a dict"):
        gpudist.apsp({"a": ["b"]})
    with pytest.raises(TypeError, match="got a str"):
        gpudist.apsp({"a": {"b": "3"}})
    with pytest.raises(ValueError, match="without an attribute 'cost'"):
        gpudist.apsp({"a": {"b": 3}}, weight="cost")


def test_frames_are_never_read_by_position(pd):
    names = ["a", "b", "c"]
    w = pd.DataFrame([[0, 3, 8], [0, 0, 2], [1, 0, 0]], index=names, columns=names)
    np.testing.assert_array_equal(gpudist.apsp(w), EXPECTED)
    turned = w[["c", "a", "b"]]
    with pytest.raises(ValueError, match="another order"):
        gpudist.apsp(turned)
    found = gpudist.apsp(turned, labels=True)
    assert found.nodes == names and found.dist.tolist() == EXPECTED
    for other in (["a", "b", "x"], ["a", "b", "b"], [0, 1, 2]):
        with pytest.raises(ValueError, match="named differently"):
            gpudist.apsp(w.set_axis(other, axis=1), labels=True)
    plain = pd.DataFrame(w.to_numpy())
    np.testing.assert_array_equal(gpudist.apsp(plain), EXPECTED)
    np.testing.assert_array_equal(gpudist.transitive_closure(plain), np.ones((3, 3), bool))
    with pytest.raises(ValueError, match="apsp_edges"):
        gpudist.apsp(pd.DataFrame({"source": [0], "target": [1]}))


def test_frames_of_derived_kinds_and_with_names_twice(pd):
    class Frame(pd.DataFrame):
        @property
        def _constructor(self):
            return Frame

    names = ["a", "b", "c"]
    w = Frame([[0, 3, 8], [0, 0, 2], [1, 0, 0]], index=names, columns=names)
    with pytest.raises(ValueError, match="another order"):
        gpudist.apsp(w[["c", "a", "b"]])
    assert gpudist.apsp(w[["c", "a", "b"]], labels=True).dist.tolist() == EXPECTED
    twice = pd.DataFrame(np.ones((2, 2)), index=["a", "a"], columns=["a", "a"])
    assert gpudist.apsp(twice).tolist() == [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="two rows named 'a'"):
        gpudist.apsp(twice, labels=True)


def test_lists_of_edges(pd):
    edges, weights = [(0, 1), (1, 2), (2, 0), (0, 1)], [3, 2, 1, 9]
    assert gpudist.apsp_edges(edges, weights).tolist() == EXPECTED
    assert gpudist.apsp_edges(np.array(edges, "u1"), np.array(weights, "f4")).tolist() == EXPECTED
    dist, pred = gpudist.apsp_edges(edges, n=4, return_predecessors=True)
    assert dist[0].tolist() == [0, 1, 2, INF] and pred.shape == (4, 4)
    assert gpudist.apsp_edges([(0, 1)], directed=False).tolist() == [[0, 1], [1, 0]]
    assert gpudist.apsp_edges([], n=2).tolist() == [[0, INF], [INF, 0]]
    frame = pd.DataFrame(edges, columns=["source", "target"]).assign(weight=weights)
    assert gpudist.apsp_edges(frame).tolist() == EXPECTED
    frame = frame.rename(columns={"weight": "cost"})
    with pytest.raises(ValueError, match=r"columns \['cost'\]"):
        gpudist.apsp_edges(frame)
    assert gpudist.apsp_edges(frame, "cost").tolist() == EXPECTED
    frame[["source", "target"]] = frame[["source", "target"]].replace({0: "a", 1: "b", 2: "c"})
    with pytest.raises(ValueError, match="labels=True"):
        gpudist.apsp_edges(frame, "cost")
    found = gpudist.apsp_edges(frame, "cost", labels=True)
    assert found.nodes == ["a", "b", "c"] and found.distance("a", "c") == 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([(0, 1, 2)],), ValueError, r"shape \(m, 2\)"),
        (([(0.0, 1.0)],), TypeError, "whole numbers"),
        (([(0, 1, 2, 3), (1, 2, 3, 0)],), ValueError, r"got \(2, 4\); edges\.T has a row for each"),
        (([(0, 5)], None, 3), ValueError, "from 0 to 2, got 5"),
        (([(0, 1 << 33)],), ValueError, "one is 8589934592: the result"),
        (([(0, -1)],), ValueError, "got -1"),
        (([(0, 1)], [1, 2]), ValueError, r"shape \(1,\)"),
        (([], None, -1), ValueError, "n must be a number of nodes, got -1"),
        (([(0, 1)], None, 1 << 40), ValueError, "n must be at most 16777216"),
        ((pair for pair in [(0, 1)]), TypeError, r"numpy.array\(list\(edges\)\)"),
    ],
)
def test_bad_lists_of_edges(arguments, error, message):
    with pytest.raises(error, match=message):
        gpudist.apsp_edges(*(arguments if isinstance(arguments, tuple) else (arguments,)))


@pytest.mark.parametrize("node", [1 << 33, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("given", [{}, {"n": 3}, {"ptr": [0, 1]}, {"ptr": [0, 1], "n": 3}])
def test_hashes_are_no_numbers_of_nodes(node, given):
    """Those above 2**63 are told as they are, and not as what a cast makes of them."""
    with pytest.raises(ValueError, match=f"one is {node}: the result"):
        gpudist.apsp_edges(np.array([[0, node]], np.uint64), **given)


@pytest.mark.parametrize("given", [{"weight": "km"}, {"nodelist": [1, 0]}, {"sizes": [2]}])
def test_what_lists_of_edges_have_other_words_for(given):
    """Not taken for what it is not, and above all not ignored."""
    for pointer in ({}, {"ptr": [0, 1]}):
        with pytest.raises(TypeError, match=f"^{next(iter(given))} is not for lists of edges"):
            gpudist.apsp_edges([(0, 1)], **given, **pointer)


@pytest.mark.parametrize(
    ("edges", "n", "message"),
    [
        ([(0, 2**32 + 1)], None, "one is 4294967297: the result"),  # which is 1 in 32 bits
        ([(0, 1)], 2**32 + 2, "n must be at most 16777216"),
        ([(0, 1)], [2, 3], r"n must be one number or have shape \(1,\), one for each graph"),
        ([(0, 1)], [[2]], r"got \(1, 1\)"),
    ],
)
def test_numbers_of_nodes_of_many_graphs(edges, n, message):
    with pytest.raises(ValueError, match=message):
        gpudist.apsp_edges(edges, n=n, ptr=[0, 1])


def test_edges_without_an_end_or_a_weight(pd):
    ids = pd.DataFrame({"source": [0.0, np.nan], "target": [1.0, 2.0]})
    for frame in (ids, ids.astype("Int64"), ids.astype(str).where(ids.notna(), None)):
        with pytest.raises(ValueError, match="edges have no source in row 1"):
            gpudist.apsp_edges(frame, labels=True)
    with pytest.raises(ValueError, match="edges have no target in row 0"):
        gpudist.apsp_edges(pd.DataFrame({"source": ["a"], "target": [None]}), labels=True)
    weights = pd.array([1, None], dtype="Int64")
    frame = pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": weights})
    with pytest.raises(ValueError, match="weights has missing values"):
        gpudist.apsp_edges(frame)
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"source": ["a", None], "target": ["b", "c"]})
    with pytest.raises(ValueError, match="edges have no source in row 1"):
        gpudist.apsp_edges(frame, labels=True)
    assert gpudist.apsp_edges(frame.drop_nulls(), labels=True).nodes == ["a", "b"]
    with pytest.raises(TypeError, match=r"LazyFrame; edges.collect\(\)"):
        gpudist.apsp_edges(frame.lazy())


def test_frames_of_edges_with_odd_columns(pd):
    for columns in (["source", "source", "target"], ["source", "target", "target"]):
        with pytest.raises(ValueError, match=r"several columns '(source|target)'"):
            gpudist.apsp_edges(pd.DataFrame([[0, 1, 2]], columns=columns))
    none = pd.DataFrame({"source": [], "target": []})
    assert gpudist.apsp_edges(none, n=2).tolist() == [[0, INF], [INF, 0]]
    assert gpudist.apsp_edges(none, labels=True).nodes == []
    days = pd.date_range("2026-01-01", periods=3)
    found = gpudist.apsp_edges(pd.DataFrame({"source": days[:2], "target": days[1:]}), labels=True)
    assert found.nodes == list(days) and found.distance(days[0], days[2]) == 2
    with pytest.raises(TypeError, match="edges must name nodes by what may be a key"):
        gpudist.apsp_edges(pd.DataFrame({"source": [[1]], "target": [[2]]}), labels=True)
