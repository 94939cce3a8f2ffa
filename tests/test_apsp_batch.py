"""Many graphs in one call: each has the bits that it has alone, and errors say which is meant."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpudist

KINDS = ("float32", "float64", "int32")


def graphs(rng, shape, n, kind="float32", density=0.3, most=50):
    """Draw weights of which whole numbers' sums are exact, 0 for no edge."""
    w = rng.integers(1, most, (*shape, n, n)) if kind == "int32" else rng.random((*shape, n, n))
    return np.where(rng.random(w.shape) < density, w, 0).astype(kind)


def same(got, want):
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def each(stack, **how):
    """Call once for each graph."""
    return [gpudist.apsp(graph, **how) for graph in stack]


# Around vectors, groups of pivots, and where graphs are done one by one.
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 16, 17, 33, 64, 100, 128, 129, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_each_graph_has_its_own_bits(n, kind, rng):
    stack = graphs(rng, (37 if n < 100 else 5,), n, kind)
    how = {"dtype": kind}
    same(gpudist.apsp(stack, **how), each(stack, **how))
    lengths, before = gpudist.apsp(stack, return_predecessors=True, **how)
    alone = each(stack, return_predecessors=True, **how)
    same(lengths, [d for d, _ in alone])
    same(before, [p for _, p in alone])


@pytest.mark.parametrize("semiring", ["min_plus", "max_plus", "min_max", "max_min", "or_and"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_semiring(semiring, kind, rng):
    stack = graphs(rng, (19,), 20, kind)
    if semiring == "max_plus":
        stack = np.triu(stack, 1)
    how = {"semiring": semiring} | ({} if semiring == "or_and" else {"dtype": kind})
    same(gpudist.apsp(stack, **how), each(stack, **how))
    if semiring not in ("or_and", "max_plus"):
        same(gpudist.apsp(stack, directed=False, **how), each(stack, directed=False, **how))


@pytest.mark.parametrize(
    "how",
    [
        {"no_edge": 3.0}, {"no_edge": 0.5}, {"no_edge": math.inf}, {"unweighted": True},
        {"directed": False}, {"dtype": "float32"}, {"dtype": "float64"}, {"unreachable": -1.0},
        {"unreachable": math.nan}, {"kernel": "reference"}, {"kernel": "apsp/cpu_naive"},
        {"device": "cpu"}, {"unweighted": True, "max_hops": 2}, {"dtype": "int32", "no_edge": 7.0},
        {"unweighted": True, "dtype": "uint8", "unreachable": 200},
        {"dtype": "int16", "return_predecessors": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "int32", "int64", "float16"])
def test_arguments_mean_what_they_mean_for_one_graph(how, kind, rng):
    stack = graphs(rng, (2, 9), 18, "int32", most=9).astype(kind)
    got = gpudist.apsp(stack, **how)
    if how.get("return_predecessors"):
        assert got[0].shape == got[1].shape == stack.shape
        for index in np.ndindex(2, 9):
            same((got[0][index], got[1][index]), gpudist.apsp(stack[index], **how))
        return
    for index in np.ndindex(2, 9):
        same([got[index]], [gpudist.apsp(stack[index], **how)])


def test_layouts_of_the_operand_do_not_matter(rng):
    stack = graphs(rng, (6,), 21)
    want = gpudist.apsp(stack)
    for other in (
        stack.astype(">f4"), np.asfortranarray(stack), stack[::-1][::-1], stack.tolist(),
        np.ma.masked_equal(stack, 0), np.where(stack == 0, np.nan, stack),
    ):  # fmt: skip
        np.testing.assert_array_equal(gpudist.apsp(other, dtype="float32"), want)
    out = np.empty_like(stack)
    assert gpudist.apsp(stack, out=out) is out
    np.testing.assert_array_equal(out, want)
    assert gpudist.apsp(stack, out=stack) is stack  # as if it were elsewhere
    np.testing.assert_array_equal(stack, want)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_ragged_batches(data):
    """Padded arrays, lists and edge lists of graphs of any sizes agree with one at a time."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(
        st.lists(st.integers(0, data.draw(st.sampled_from([9, 40, 140]))), max_size=40)
    )
    kind = data.draw(st.sampled_from(KINDS))
    how = {
        "directed": data.draw(st.booleans()),
        "unweighted": data.draw(st.booleans()),
        "dtype": kind,
        "return_predecessors": True,
    }
    each_one = [graphs(rng, (), n, kind, data.draw(st.sampled_from([0.05, 0.5]))) for n in sizes]
    want = [gpudist.apsp(graph, **how) for graph in each_one]
    lengths, before = gpudist.apsp(each_one, **how) if sizes else ([], [])
    same(lengths, [d for d, _ in want])
    same(before, [p for _, p in want])

    most = max(sizes, default=0) + data.draw(st.integers(0, 5))
    padded = rng.integers(1, 9, (len(sizes), most, most)).astype(kind)
    for k, graph in enumerate(each_one):
        padded[k, : len(graph), : len(graph)] = graph
    lengths, before = gpudist.apsp(padded, sizes=sizes, unreachable=-3, **how)
    for k, (d, p) in enumerate(want):
        n = sizes[k]
        none = np.full((most, most), -3, kind), np.full((most, most), -9999, np.int32)
        none[0][:n, :n] = np.where(p >= 0, d, np.where(np.eye(n), d, -3))
        none[1][:n, :n] = p
        same((lengths[k], before[k]), none)

    edges = [np.argwhere(graph) for graph in each_one]
    weights = [graph[tuple(e.T)] for graph, e in zip(each_one, edges, strict=True)]
    ptr = np.cumsum([0, *map(len, edges)])
    together = np.concatenate([np.zeros((0, 2), int), *edges])
    lengths, before = gpudist.apsp_edges(
        together, np.concatenate([[], *weights]), sizes, ptr=ptr, **how
    )
    same(lengths, [d for d, _ in want])
    same(before, [p for _, p in want])


def test_paths_of_a_batch_are_walked(rng):
    stack = graphs(rng, (23,), 30, density=0.1)
    lengths, before = gpudist.apsp(stack, return_predecessors=True)
    for k, graph in enumerate(stack):
        for i, j in np.argwhere(before[k] >= 0)[::7]:
            path = gpudist.reconstruct_path(before[k], i, j)
            steps = [graph[a, b] for a, b in itertools.pairwise(path)]
            assert all(step > 0 for step in steps)
            assert sum(map(float, steps)) == pytest.approx(lengths[k, i, j], rel=1e-6)
        indptr, nodes = gpudist.reconstruct_paths(before[k], 0, np.flatnonzero(before[k][0] >= 0))
        assert indptr[-1] == len(nodes)


def test_lists_of_graphs_of_other_libraries(rng):
    sparse, nx = pytest.importorskip("scipy.sparse"), pytest.importorskip("networkx")
    dense = [graphs(rng, (), n, "float64") for n in (3, 30, 1, 150, 12)]
    for kind in (sparse.csr_array, sparse.coo_matrix):
        same(gpudist.apsp([kind(g) for g in dense]), each([kind(g) for g in dense]))
    named = [nx.gnp_random_graph(n, 0.3, seed=n, directed=n % 2 == 0) for n in (5, 8, 130)]
    same(gpudist.apsp(named), each(named))
    mixed = [dense[0], sparse.csr_array(dense[1]), named[0], np.ma.masked_less(dense[4], 0.5)]
    same(gpudist.apsp(mixed), each(mixed))
    roads = [{"a": {"b": 2.0}, "b": {"c": 1.0}}, named[1]]
    first, second = gpudist.apsp(roads, labels=True, return_predecessors=True)
    assert first.path("a", "c") == ["a", "b", "c"] and second.nodes == list(named[1])
    zero = sparse.coo_array(([0.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))  # an edge of weight 0
    same(gpudist.apsp([zero, dense[2]]), each([zero, dense[2]]))


def test_no_edge_of_a_list_is_refused_where_a_graph_of_it_has_its_own():
    """Alone each of them refuses it, and so an int32 result that forgot it would be another one."""
    sparse = pytest.importorskip("scipy.sparse")
    plain = np.array([[-1, 1], [-1, -1]])
    masked = np.ma.masked_equal(plain, -1)
    for other in (masked, sparse.csr_array(plain)):
        for listed, k in (([plain, other], 1), ([other, plain], 0)):
            with pytest.raises(ValueError, match=f"graph {k}: no_edge is for (plain|dense) arrays"):
                gpudist.apsp(listed, no_edge=-1, dtype="int32")
    with pytest.raises(ValueError, match="graph 0: no_edge is for plain arrays"):
        gpudist.apsp([masked, masked], no_edge=-1)
    got = gpudist.apsp([plain, plain], no_edge=-1, dtype="int32")
    assert [one.tolist() for one in got] == [[[0, 1], [-1, 0]]] * 2


@pytest.mark.parametrize("n", [12, 140])
def test_negative_weights(n, rng):
    """Potentials make edges negative and no cycle; rounding makes some look so."""
    for kind in ("float32", "float64"):
        rise = np.rint(rng.uniform(-1e3, 1e3, (20, n)))
        above = rng.uniform(0.1, 1, (20, n, n))
        stack = (above + rise[:, :, None] - rise[:, None, :]).astype(kind)
        stack[rng.random(stack.shape) < 0.3] = np.inf
        got = gpudist.apsp(stack, no_edge=np.inf, dtype=kind)
        same(got, each(stack, no_edge=np.inf, dtype=kind))
        got = gpudist.apsp(stack, no_edge=np.inf, dtype=kind, unreachable=5)
        same(got, each(stack, no_edge=np.inf, dtype=kind, unreachable=5))


def test_errors_name_the_graph_and_the_nodes():
    stack = np.zeros((2, 3, 4, 4))
    stack[1, 2, 0, 1], stack[1, 2, 1, 0] = 2, -3
    with pytest.raises(
        gpudist.NegativeCycleError, match=r"graph \(1, 2\): .*1 -> 0 -> 1"
    ) as caught:
        gpudist.apsp(stack)
    assert caught.value.graph == (1, 2) and sorted(caught.value.cycle) == [0, 1]
    with pytest.raises(gpudist.NegativeCycleError, match=r"graph 1: "):
        gpudist.apsp([stack[0, 0], stack[1, 2]])
    with pytest.raises(ValueError, match=r"graph \(1, 2\): graph\[1, 0\] is a negative weight"):
        gpudist.apsp(stack, no_edge=-1)
    stack = np.abs(stack) * 1.25
    with pytest.raises(ValueError, match=r"graph 5: graph\[0, 1\] is not a whole number"):
        gpudist.apsp(stack.reshape(6, 4, 4), dtype="int32")
    stack[0, 0, 3, 2] = 1e39
    with pytest.raises(ValueError, match=r"graph \(0, 0\): .*float32 cannot hold"):
        gpudist.apsp(stack, dtype="float32")
    line = np.zeros((3, 4, 4))
    line[2, 0, 1] = line[2, 1, 3] = 2**30
    with pytest.raises(ValueError, match=r"graph 2: .*weights below 2\*\*29"):
        gpudist.apsp(line, dtype="int32")
    line = np.minimum(line, 2**29 - 1)
    line[2, 3, 2] = line[2, 0, 1]
    with pytest.raises(OverflowError, match=r"graph 2: .* reach 2\*\*30"):
        gpudist.apsp(line, dtype="int32")


@pytest.mark.parametrize("carried", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_from_another_process_says_the_same(carried):
    cyclic = np.array([[0, 2.0], [-3, 0]])
    for call in (lambda: gpudist.apsp(cyclic), lambda: gpudist.apsp([abs(cyclic), cyclic])):
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            call()
        again = carried(caught.value)
        assert type(again) is gpudist.NegativeCycleError and str(again) == str(caught.value)
        assert vars(again) == vars(caught.value) and sorted(again.cycle) == [0, 1]


def test_errors_of_graphs_with_names_tell_which_one():
    good, bad, odd = {"a": {"b": 1}}, {"a": {"b": "far"}}, np.zeros((2, 3))
    for call in (
        lambda: gpudist.apsp([good, bad]),
        lambda: gpudist.explain("apsp", [good, bad]),
        lambda: gpudist.apsp([np.eye(2), {"a": ["b"]}], labels=True),
        lambda: gpudist.transitive_closure([good, {"a": ["b"]}]),
    ):
        with pytest.raises(TypeError, match=r"^graph 1: ") as caught:
            call()
        assert caught.value.graph == 1
    for semiring in ("or_and", "min_plus"):
        with pytest.raises(ValueError, match=r"^graph 1: .* square"):
            gpudist.apsp([good, odd], semiring=semiring)


def test_a_list_of_float32_in_several_forms_stays_float32(rng):
    w = np.where(rng.random((5, 5)) < 0.4, rng.random((5, 5)), 0).astype("f4")
    forms = [w, np.ma.masked_equal(w, 0)]
    found = gpudist.apsp(forms)
    assert [one.dtype for one in found] == [np.float32] * 2
    np.testing.assert_array_equal(found, [gpudist.apsp(w)] * 2)
    assert gpudist.apsp([*forms, w.astype("f8")])[0].dtype == np.float64


@pytest.mark.parametrize(("dtype", "most"), [("uint8", 254), ("int16", 32766), ("uint16", 65534)])
def test_narrow_integers_hold_lengths_or_refuse_them(dtype, most):
    line = np.zeros((3, 3, 3))
    line[1, 0, 1], line[1, 1, 2] = most - 4, 4
    for one in (line, line[1]):
        got = gpudist.apsp(one, dtype=dtype)
        assert got.dtype == dtype and got[..., 0, 2].max() == most + (one is line)
        assert gpudist.apsp(one, dtype=dtype, unreachable=7)[..., 1, 0].min() == 7
    line[1, 1, 2] = 5
    for one in (line, line[1]):
        with pytest.raises(OverflowError, match=f"length {most + 1}; {dtype} holds"):
            gpudist.apsp(one, dtype=dtype)
        assert gpudist.apsp(one, dtype=dtype, unreachable=3)[..., 0, 2].max() == most + 1
    with pytest.raises(ValueError, match="unreachable must be a whole number from"):
        gpudist.apsp(line, dtype=dtype, unreachable=most + 2)
    with pytest.raises(ValueError, match="min_plus and max_plus"):
        gpudist.apsp(line, dtype=dtype, semiring="max_min")


def test_hops_up_to_a_number():
    line = np.diag(np.ones(5), 1)
    lengths, before = gpudist.apsp(line, unweighted=True, max_hops=2, return_predecessors=True)
    hops = np.arange(6) - np.arange(6)[:, None]
    near = (hops >= 0) & (hops <= 2)
    np.testing.assert_array_equal(lengths, np.where(near, hops, np.inf))
    np.testing.assert_array_equal(before >= 0, near & (hops > 0))
    with pytest.raises(ValueError, match="max_hops is for unweighted=True"):
        gpudist.apsp(line, max_hops=2)
    with pytest.raises(ValueError, match="must not be negative"):
        gpudist.apsp(line, unweighted=True, max_hops=-1)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: gpudist.apsp(x[..., :3]), ValueError, "square matrices"),
        (lambda x: gpudist.apsp(x[0], sizes=[3]), ValueError, r"\(..., n, n\)"),
        (lambda x: gpudist.apsp(x, sizes=[3]), ValueError, r"must have shape \(2,\)"),
        (lambda x: gpudist.apsp(x, sizes=[3, 5]), ValueError, "got 5 for graph 1"),
        (lambda x: gpudist.apsp(x, sizes=[3, -1]), ValueError, "from 0 to 4"),
        (lambda x: gpudist.apsp(x, sizes=[3.0, 1.0]), TypeError, "whole numbers"),
        (lambda x: gpudist.apsp(x, labels=True), TypeError, "graphs with names"),
        (lambda x: gpudist.apsp(list(x), sizes=[1, 2]), TypeError, "sizes is for arrays"),
        (lambda x: gpudist.apsp(list(x), out=x), TypeError, "out is for arrays"),
        (lambda x: gpudist.apsp(x, out=np.empty((2, 4, 5))), ValueError, "out must have shape"),
        (lambda x: gpudist.apsp(x, out=np.empty((2, 4, 4), "i8")), ValueError, "out must be"),
        (lambda x: gpudist.apsp(x, dtype="int8"), ValueError, "dtype must be"),
        (lambda x: gpudist.apsp(x, unreachable="far"), TypeError, "real number"),
        (lambda x: gpudist.apsp(x, kernel="apsp/none"), ValueError, "unknown kernel"),
        (lambda x: gpudist.apsp(x, semiring="or_and", max_hops=1), ValueError, "or_and"),
        (lambda x: gpudist.apsp(x, max_memory=100), MemoryError, "max_memory allows 100"),
        (lambda x: gpudist.apsp_edges([(0, 9)], n=3, ptr=[0, 1]), ValueError, "0 to 2, got 9"),
        (
            lambda x: gpudist.apsp_edges([(0, 1), (1, -4)], n=[2, 2], ptr=[0, 1, 2]),
            ValueError,
            "of graph 1 must join nodes from 0 to 1, got -4",
        ),
        (
            lambda x: gpudist.apsp_edges([(0, 1)], n=[2, -1], ptr=[0, 1, 1]),
            ValueError,
            "n must be numbers of nodes, got -1 for graph 1",
        ),
        (lambda x: gpudist.apsp_edges([(0, 1)], ptr=[0, 2]), ValueError, "ascend from 0 to 1"),
        (lambda x: gpudist.apsp_edges([(0, 1)], ptr=[0.0, 1.0]), TypeError, "whole numbers"),
        (lambda x: gpudist.apsp_edges([(0, 1)], ptr=[0, 1], no_edge=3), ValueError, "no_edge"),
        (lambda x: gpudist.apsp_edges([(0, 1)], ptr=[0, 1], labels=True), TypeError, "labels"),
    ],
)
def test_what_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(np.ones((2, 4, 4)))


def test_edges_with_a_pointer_per_graph():
    how = {"ptr": [0, 1, 1, 3], "directed": False, "dtype": "uint8"}
    pairs = [(0, 1), (0, 1), (1, 2)]
    first, second, third = gpudist.apsp_edges(pairs, **how)
    assert first.tolist() == [[0, 1], [1, 0]] and second.shape == (0, 0) and third.shape == (3, 3)
    padded = gpudist.apsp_edges(pairs, n=3, **how)
    assert padded.shape == (3, 3, 3) and padded[1].tolist() == (255 * (1 - np.eye(3))).tolist()
    out = np.empty((3, 3, 3), "uint8")
    assert gpudist.apsp_edges(pairs, n=3, out=out, **how) is out
    np.testing.assert_array_equal(out, padded)


def test_whatever_an_edge_weighs_it_is_one_hop(rng, monkeypatch):
    stack = graphs(rng, (9,), 20) * np.float32(1e30) + graphs(rng, (9,), 20)
    want = gpudist.apsp(np.where(stack != 0, 1, 0).astype("int32"), dtype="int32")
    from gpudist import batches

    # Nobody is done alone for weights that the result's type does not take.
    monkeypatch.setattr(batches, "_alone", None)
    np.testing.assert_array_equal(gpudist.apsp(stack, unweighted=True, dtype="int32"), want)


def test_closures_of_lists(rng):
    for stack in (rng.random((4, 9, 9)) < 0.1, graphs(rng, (4,), 9, density=0.1)):
        same(gpudist.transitive_closure(list(stack)), gpudist.transitive_closure(stack))


def test_explain_says_how_many_graphs_there_are():
    said = gpudist.explain("apsp", np.zeros((5, 30, 30), "f4"))
    assert said.kernel.startswith("apsp_batch/cpu_lanes") and "5 graphs" in said.reason
    assert said.operations == 5 * 30**3 and said.dtype == "float32"
    said = gpudist.explain("apsp", [np.zeros((3, 3)), np.zeros((300, 300))])
    assert "1 of them, with more than 128 nodes" in said.reason
    said = gpudist.explain("apsp", np.zeros((5, 300, 300)), device="cpu")
    assert said.op == "apsp" and "each of 5 graphs by itself" in said.reason


def test_explain_takes_lists_for_closures_and_checks_what_is_no_edge():
    graphs = [{"a": {"b": 1}}, np.eye(3)]
    for said in (
        gpudist.explain("transitive_closure", graphs),
        gpudist.explain("apsp", graphs, semiring="or_and"),
    ):
        assert "each of 2 graphs by itself" in said.reason
    for function in ("apsp", "transitive_closure"):
        for graph in (np.eye(3), [np.eye(3)], np.eye(3)[None]):
            with pytest.raises(TypeError, match="no_edge must be a real number, got str"):
                gpudist.explain(function, graph, no_edge="none")


def test_progress_ends(rng):
    told = []
    gpudist.apsp(graphs(rng, (300,), 40), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300 * 40**3,) * 2
