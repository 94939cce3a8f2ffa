"""apsp: every row of the table against the plain loop, bit for bit, and SciPy's semantics."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse
from conftest import rows, runnable, settings
from scipy.sparse import csgraph

import gpudist
from gpudist import reference

SIZES = [1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 129, 191, 211, 257]
KINDS = ["dense", "sparse", "ties", "zeros", "mixed", "negative"]


def graph(rng, n, kind):
    """A matrix of weights with inf for no edge; every weight is exact in float32 but in `mixed`."""
    w = rng.integers(1, 1000, size=(n, n)).astype(np.float64)
    if kind == "sparse":
        w[rng.random((n, n)) > 3 / n] = np.inf
    elif kind == "ties":
        w = rng.integers(1, 4, size=(n, n)).astype(np.float64)
        w[rng.random((n, n)) > 0.3] = np.inf
    elif kind == "zeros":
        w = rng.integers(0, 2, size=(n, n)).astype(np.float64)
        w[rng.random((n, n)) > 5 / n] = np.inf
    elif kind == "mixed":
        w = 10.0 ** rng.uniform(-9, 9, size=(n, n))
        w[rng.random((n, n)) > 0.5] = np.inf
    elif kind == "negative":  # potentials: every cycle keeps its positive length
        h = rng.integers(0, 500, size=n)
        w = w + h[None, :] - h[:, None]
        w[rng.random((n, n)) > 0.4] = np.inf
    np.fill_diagonal(w, 0)
    return w


def cases(teaching=(False, True)):
    for param in rows("apsp"):
        kernel = param.values[0]
        adds = "bottleneck" not in kernel.id  # which has tests of its own
        for dtype in kernel.dtypes if kernel.teaching in teaching and adds else ():
            yield pytest.param(kernel, dtype, id=f"{kernel.id}-{dtype}", marks=param.marks)


@cache
def solved(kind, dtype):
    """Graphs of all sizes with what Floyd and Warshall's loop makes of them in that dtype."""
    rng = np.random.default_rng(20260101)
    problems = []
    for n in SIZES:
        w = graph(rng, n, kind).astype(dtype if dtype != "int32" else "float64")
        dist = w.copy()
        _, pred = reference.apsp(dist)
        if dtype == "int32":
            dist = np.where(np.isinf(dist), gpudist.UNREACHABLE, dist).astype(dtype)
        problems.append((w, dist, pred))
    return problems


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "dtype"), list(cases()))
def test_has_the_bits_of_the_plain_loop(kernel, dtype, kind):
    runnable(kernel)
    if kind == "mixed" and dtype == "int32":
        pytest.skip("these weights are not whole")
    for i, options in enumerate(settings(kernel)):
        call = {"no_edge": np.inf, "dtype": dtype, "kernel": kernel.id, "options": options}
        for w, expected, expected_pred in solved(kind, dtype)[i % 4 :: 4 if options else 1]:
            what = f"n = {len(w)}, {options}"
            np.testing.assert_array_equal(gpudist.apsp(w, **call), expected, err_msg=what)
            if not kernel.teaching:
                dist, pred = gpudist.apsp(w, **call, return_predecessors=True)
                np.testing.assert_array_equal(dist, expected, err_msg=what)
                np.testing.assert_array_equal(pred, expected_pred, err_msg=what)


@pytest.mark.parametrize(("kernel", "dtype"), list(cases(teaching=[True])))
def test_a_step_of_the_ladder_says_what_it_does_not_do(kernel, dtype, rng):
    runnable(kernel)
    w = graph(rng, 40, "dense")
    with pytest.raises(ValueError, match="computes path lengths alone"):
        gpudist.apsp(w, dtype=dtype, kernel=kernel.id, return_predecessors=True)
    for other in {"float32", "float64", "int32"} - set(kernel.dtypes):
        with pytest.raises(ValueError, match=f"does not compute in {other}"):
            gpudist.apsp(w, dtype=other, kernel=kernel.id)
    if kernel.dtypes == ("int32",):
        w[0, 1] = 2**28
        with pytest.raises(ValueError, match=r"sums stay below 2\*\*29, got .* 268435456"):
            gpudist.apsp(w, dtype="int32", kernel=kernel.id)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "dtype"), list(cases(teaching=[False])))
def test_predecessors_spell_paths_of_the_reported_length(kernel, dtype, kind, rng):
    runnable(kernel)
    if kind == "mixed" and dtype == "int32":
        pytest.skip("these weights are not whole")
    n = 150
    w = graph(rng, n, kind)
    dist, pred = gpudist.apsp(
        w, no_edge=np.inf, dtype=dtype, kernel=kernel.id, return_predecessors=True
    )
    for i, j in rng.integers(0, n, size=(400, 2)):
        if pred[i, j] == -9999:
            continue
        path = gpudist.reconstruct_path(pred, i, j)
        assert path[0] == i and path[-1] == j and len(set(path)) == len(path)
        length = w[path[:-1], path[1:]].sum()
        if dtype == "int32":
            assert dist[i, j] == length
        else:
            np.testing.assert_allclose(
                dist[i, j], length, rtol=1e-5 if dtype == "float32" else 1e-12
            )
    unreachable = np.isinf(dist) if dtype != "int32" else dist == gpudist.UNREACHABLE
    np.testing.assert_array_equal(
        unreachable & ~np.eye(n, dtype=bool), (pred == -9999) & ~np.eye(n, dtype=bool)
    )


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["small", "fractional", "negative"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_quicker_ways_on_the_device_have_the_bits_of_the_cpu(kind, dtype, rng):
    """Large graphs, small whole weights, undirected ones: each has a form of its own there."""
    if kind == "fractional" and dtype == "int32":
        pytest.skip("these weights are not whole")
    n = 4100
    w = rng.integers(1, 8, size=(n, n)).astype(np.float64)
    if kind == "fractional":
        w = rng.random((n, n))
    elif kind == "negative":
        h = rng.integers(0, 50, size=n)
        w = w + h[None, :] - h[:, None]
    w[rng.random((n, n)) > 0.01] = np.inf
    np.fill_diagonal(w, 0)
    forms = [{}, {"unweighted": True}]
    if kind != "negative":  # an undirected edge of negative weight is a cycle
        forms.append({"directed": False})
    for form in forms:
        call = {"no_edge": np.inf, "dtype": dtype, **form}
        expected = gpudist.apsp(w, **call, device="cpu")
        np.testing.assert_array_equal(
            gpudist.apsp(w, **call, device="cuda"), expected, err_msg=str(form)
        )
    expected = gpudist.apsp(w, no_edge=np.inf, dtype=dtype, device="cpu", return_predecessors=True)
    found = gpudist.apsp(w, no_edge=np.inf, dtype=dtype, device="cuda", return_predecessors=True)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kernel", "dtype"), list(cases()))
def test_negative_cycles_are_found(kernel, dtype, rng):
    runnable(kernel)
    for n in (2, 3, 65, 130):
        w = graph(rng, n, "dense")
        w[n - 1, 0], w[0, n - 1] = 3, -4
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            gpudist.apsp(w, dtype=dtype, kernel=kernel.id, return_predecessors=not kernel.teaching)
        assert {0, n - 1} <= set(caught.value.nodes)
        assert isinstance(caught.value, csgraph.NegativeCycleError)
        w = graph(rng, n, "sparse")
        w[n // 2, n // 2] = -1  # a negative self-loop is a cycle
        with pytest.raises(gpudist.NegativeCycleError) as caught:
            gpudist.apsp(w, no_edge=np.inf, dtype=dtype, kernel=kernel.id)
        assert n // 2 in caught.value.nodes


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_negative_cycle_is_named_in_order(device, dtype, rng):
    found = 0
    for n in (1, 2, 5, 20, 60):
        for directed in (True, False):
            w = rng.integers(-2 if n > 2 else -9, 30, (n, n)).astype(float)
            w[rng.random((n, n)) > 4 / n] = 0
            edges = np.where(w == 0, np.inf, w)
            edges = edges if directed else np.minimum(edges, edges.T)
            try:
                gpudist.apsp(w, directed=directed, dtype=dtype, device=device)
            except gpudist.NegativeCycleError as error:
                cycle = error.cycle
                assert set(cycle) <= set(error.nodes) and len(set(cycle)) == len(cycle)
                assert edges[cycle, np.roll(cycle, -1)].sum() < 0
                assert " -> ".join(map(str, [*cycle, cycle[0]])) in str(error) or len(cycle) > 19
                found += 1
    assert found > 2
    ring = np.zeros((300, 300))
    order = rng.permutation(300)
    ring[order, np.roll(order, -1)] = 1
    ring[order[7], order[8]] = -299.5 if dtype != "int32" else -300
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(ring, dtype=dtype, device=device)
    at = caught.value.cycle.index(order[0])
    assert caught.value.cycle[at:] + caught.value.cycle[:at] == order.tolist()
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(ring.astype(dtype), dtype=dtype, overwrite=True, device="cpu")
    assert caught.value.cycle == [] and len(caught.value.nodes) == 300


@pytest.mark.parametrize("kind", ["sparse", "ties", "mixed"])
@pytest.mark.parametrize(("kernel", "dtype"), list(cases(teaching=[False])))
def test_half_of_a_symmetric_matrix_is_enough(kernel, dtype, kind, rng):
    runnable(kernel)
    if (kind, dtype) == ("mixed", "int32"):
        pytest.skip("these weights are not whole")
    call = {"no_edge": np.inf, "dtype": dtype, "kernel": kernel.id}
    for n in (1, 16, 17, 33, 64, 65, 161, 257, 1031):
        w = graph(rng, n, kind)
        for semiring in ("min_plus", "min_max") if kernel.backend == "cpu" else ("min_plus",):
            expected = gpudist.apsp(np.minimum(w, w.T), semiring=semiring, **call)
            found = gpudist.apsp(w, directed=False, semiring=semiring, **call)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("unweighted", [True, False])
@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix with")  # so it is for any graph
def test_agrees_with_scipy(device, directed, unweighted, rng):
    for n in (1, 2, 30, 200):
        dense = rng.random((n, n))
        dense[rng.random((n, n)) > 0.1] = 0
        options = {"directed": directed, "unweighted": unweighted, "return_predecessors": True}
        expected, expected_pred = csgraph.floyd_warshall(dense, **options)
        dist, pred = gpudist.apsp(dense, device=device, **options)
        np.testing.assert_array_equal(dist, expected)
        np.testing.assert_array_equal(pred, expected_pred)
        for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
            kind = getattr(scipy.sparse, f"{form}_{'matrix' if directed else 'array'}")
            stored = kind(dense)
            dist, pred = gpudist.apsp(stored, device=device, **options)
            np.testing.assert_array_equal(dist, expected, err_msg=form)
            np.testing.assert_array_equal(pred, expected_pred, err_msg=form)


def test_what_is_an_edge(device):
    inf, nan = np.inf, np.nan
    one_edge = [[0.0, inf], [inf, 0.0]]
    for weights in ([[0, 1e-9], [0, 0]], [[0, 1e-9], [nan, 0]], [[5, 1e-9], [-inf, 0]]):
        assert gpudist.apsp(weights, device=device).tolist() == [[0, 1e-9], [inf, 0]]
    assert gpudist.apsp([[0, 0], [0, 0]], device=device).tolist() == one_edge
    # a sentinel takes the place of 0, which then is an edge; inf and NaN stay no edge
    assert gpudist.apsp([[9, 0], [-1, 9]], no_edge=-1, device=device).tolist() == [[0, 0], [inf, 0]]
    assert gpudist.apsp([[9, nan], [inf, 9]], no_edge=-1, device=device).tolist() == one_edge
    # stored zeros of a sparse array, unmasked zeros of a masked array are edges
    stored = scipy.sparse.csr_array(([0.0], ([0], [1])), shape=(2, 2))
    assert gpudist.apsp(stored, device=device).tolist() == [[0, 0], [inf, 0]]
    masked = np.ma.masked_array([[0.0, 0.0], [7.0, 0.0]], mask=[[0, 0], [1, 0]])
    assert gpudist.apsp(masked, device=device).tolist() == [[0, 0], [inf, 0]]
    # entries stored twice: the lesser counts, whatever the order
    for weights in ([5.0, 3.0], [3.0, 5.0]):
        twice = scipy.sparse.csr_array(
            (np.array(weights), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2)
        )
        assert gpudist.apsp(twice, device=device)[0, 1] == 3
    twice = scipy.sparse.coo_array(([5.0, 3.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert gpudist.apsp(twice, device=device)[0, 1] == 8


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_networkx_graphs(device, kind, rng):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    for n in (0, 1, 2, 40):
        g = getattr(nx, kind)()
        g.add_nodes_from(f"node {i}" for i in rng.permutation(n))  # rows are in this order
        names = list(g)
        w = graph(rng, n, "zeros") if n else np.zeros((0, 0))
        for i, j in np.argwhere(np.isfinite(w)):
            given = {"weight": w[i, j]} if w[i, j] != 1 else {}  # a missing weight is 1
            g.add_edge(names[i], names[j], **given)
            if g.is_multigraph():
                g.add_edge(names[i], names[j], weight=5)
        # of an undirected edge that is given twice a simple graph keeps the last weight
        w = nx.to_numpy_array(g, nonedge=np.inf, multigraph_weight=min)
        dist, pred = gpudist.apsp(g, device=device, return_predecessors=True)
        expected, expected_pred = gpudist.apsp(w, no_edge=np.inf, return_predecessors=True)
        np.testing.assert_array_equal(dist, expected)
        np.testing.assert_array_equal(pred, expected_pred)
        both = gpudist.apsp(g, directed=False, device=device)
        np.testing.assert_array_equal(both, gpudist.apsp(w, no_edge=np.inf, directed=False))
        hops = gpudist.apsp(g, unweighted=True, dtype="int32", device=device)
        np.testing.assert_array_equal(
            hops, gpudist.apsp(w, no_edge=np.inf, unweighted=True, dtype="int32")
        )


def test_what_is_an_edge_of_a_networkx_graph(device):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    g = nx.DiGraph()
    g.add_weighted_edges_from([(0, 1, 1e-9), (1, 2, 0), (2, 0, None), (1, 0, np.nan), (2, 1, True)])
    inf = np.inf
    assert gpudist.apsp(g, device=device).tolist() == [[0, 1e-9, 1e-9], [inf, 0, 0], [inf, 1, 0]]
    parallel = nx.MultiGraph([("a", "b", {"weight": 7}), ("b", "a"), ("a", "b", {"weight": None})])
    assert gpudist.apsp(parallel, device=device).tolist() == [[0, 1], [1, 0]]
    for weight in (-1, -1e-9):  # an undirected edge back and forth is a cycle
        with pytest.raises(gpudist.NegativeCycleError):
            gpudist.apsp(nx.Graph([(0, 1, {"weight": weight})]), device=device)
    with pytest.raises(ValueError, match="no_edge"):
        gpudist.apsp(g, no_edge=-1)
    for weight in ("1", 1j, [1]):
        with pytest.raises(TypeError, match=f"got a {type(weight).__name__}"):
            gpudist.apsp(nx.Graph([(0, 1, {"weight": weight})]))
    assert "apsp" in str(gpudist.explain("apsp", g))


def test_dtypes_and_unreachable(device, rng):
    w = rng.integers(0, 5, size=(20, 20))
    w[:, 3] = 0
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.float16, np.float64, bool):
        dist = gpudist.apsp(w.astype(dtype), device=device)
        assert dist.dtype == np.float64
        np.testing.assert_array_equal(dist, csgraph.floyd_warshall(w.astype(dtype)))
    assert gpudist.apsp(w.astype("f4"), device=device).dtype == np.float32
    whole = gpudist.apsp(w, dtype="int32", device=device)
    assert whole.dtype == np.int32
    assert whole[0, 3] == gpudist.UNREACHABLE
    sentinel = gpudist.apsp(np.where(w == 0, -1, w), no_edge=-1, dtype="int32", device=device)
    np.testing.assert_array_equal(sentinel, np.where(whole == gpudist.UNREACHABLE, -1, whole))


def test_int32_is_exact_or_refuses(device):
    big = 2**29 - 1
    chain = np.full((4, 4), -1)
    chain[0, 1], chain[1, 2] = big, big
    assert gpudist.apsp(chain, no_edge=-1, dtype="int32", device=device)[0, 2] == 2 * big
    chain[2, 3] = big
    with pytest.raises(OverflowError, match="float64"):
        gpudist.apsp(chain, no_edge=-1, dtype="int32", device=device)
    chain[2, 3] = 2**29
    with pytest.raises(ValueError, match=r"2\*\*29"):
        gpudist.apsp(chain, no_edge=-1, dtype="int32", device=device)
    with pytest.raises(ValueError, match=r"graph\[0, 1\] is not a whole number"):
        gpudist.apsp([[0, 1.5], [0, 0]], dtype="int32", device=device)
    # large weights of both signs: no sum may pass for "unreachable" or wrap around
    w = np.zeros((3, 3))
    w[0, 1], w[1, 2] = big, -big
    dist = gpudist.apsp(w, dtype="int32", device=device)
    assert dist[0, 2] == 0 and dist[2, 0] == gpudist.UNREACHABLE


def test_negative_int32_weights_make_no_path_where_there_is_none(device, rng):
    """A negative edge behind an unreachable node must not look like a path."""
    for n in (3, 70, 150):
        w = graph(rng, n, "negative")
        w[0, 1:] = np.inf  # nothing leaves node 0
        w[1:, n - 1] = np.inf  # nothing reaches the last one
        dist, pred = gpudist.apsp(
            w, no_edge=np.inf, dtype="int32", return_predecessors=True, device=device
        )
        assert (dist[0, 1:] == gpudist.UNREACHABLE).all() and (pred[0] == -9999).all()
        assert (dist[:-1, -1] == gpudist.UNREACHABLE).all() and (pred[:, -1] == -9999).all()


def test_a_negative_weight_beside_a_negative_sentinel(device):
    with pytest.raises(ValueError, match=r"graph\[0, 1\] is a negative weight"):
        gpudist.apsp([[0, -2], [-1, 0]], no_edge=-1, device=device)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("directed", [True, False])
def test_out(device, dtype, directed, rng):
    for n in (1, 64, 90):
        w = graph(rng, n, "sparse").astype(dtype) if dtype != "int32" else graph(rng, n, "dense")
        expected, pred = gpudist.apsp(w, dtype=dtype, directed=directed, return_predecessors=True)
        call = {"directed": directed, "device": device, "return_predecessors": True}
        mine = np.empty((n, n), dtype)
        out, found = gpudist.apsp(w, out=mine, **call)
        assert out is mine
        np.testing.assert_array_equal(mine, expected)
        np.testing.assert_array_equal(found, pred)
        mine[:] = w
        assert gpudist.apsp(mine, out=mine, **call)[0] is mine  # the graph itself
        np.testing.assert_array_equal(mine, expected)
        mine[:] = w.T
        gpudist.apsp(mine.T, out=mine, **call)  # another view of it
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("directed", [True, False])
def test_a_file_is_filled_and_closed_in_place(directed, device, tmp_path, rng):
    w = graph(rng, 300, "sparse")
    call = {"directed": directed, "device": device}
    expected = gpudist.apsp(w, **call)
    mapped = np.memmap(tmp_path / "paths", "f8", "w+", shape=w.shape)
    assert gpudist.apsp(w, out=mapped, **call) is mapped
    np.testing.assert_array_equal(mapped, expected)
    mapped[:] = w
    assert np.shares_memory(gpudist.apsp(mapped, overwrite=True, **call), mapped)
    np.testing.assert_array_equal(mapped, expected)


def test_out_of_the_reference_and_of_truths(rng):
    w = graph(rng, 20, "sparse")
    mine = np.empty((20, 20), "float32")
    assert gpudist.apsp(w, out=mine, kernel="reference") is mine
    np.testing.assert_array_equal(mine, gpudist.apsp(w.astype("float32"), kernel="reference"))
    truths = np.empty((20, 20), bool)
    assert gpudist.apsp(w, out=truths, semiring="or_and") is truths
    np.testing.assert_array_equal(truths, gpudist.apsp(w, semiring="or_and"))


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty((3, 4)), ValueError, r"out must have shape \(3, 3\), got \(3, 4\)"),
        (
            np.empty((3, 3), "int64"),
            ValueError,
            "array of float32, float64, int32, int16, uint16 or uint8, got",
        ),
        (np.empty((3, 3), "float32"), ValueError, "dtype is float64, but out has dtype float32"),
        (np.empty((3, 6))[:, ::2], ValueError, "out must be C-contiguous"),
        ([[0.0] * 3] * 3, TypeError, "out must be a NumPy array of .*, got list"),
    ],
)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_bad_out(out, error, message, kernel):
    with pytest.raises(error, match=message):
        gpudist.apsp(np.ones((3, 3)), out=out, dtype="float64", kernel=kernel)


def test_overwrite(rng):
    w = rng.random((50, 50))
    expected = gpudist.apsp(w)
    mine = w.copy()
    assert gpudist.apsp(mine, overwrite=True) is mine
    np.testing.assert_array_equal(mine, expected)
    undirected = w.copy()
    expected = gpudist.apsp(w, directed=False)
    np.testing.assert_array_equal(
        gpudist.apsp(undirected, directed=False, overwrite=True), expected
    )
    frozen = w.copy()
    frozen.setflags(write=False)
    assert gpudist.apsp(frozen, overwrite=True) is not frozen


def test_no_nodes(device):
    dist, pred = gpudist.apsp(np.zeros((0, 0)), return_predecessors=True, device=device)
    assert dist.shape == pred.shape == (0, 0)


def test_reference_is_selectable(rng):
    w = graph(rng, 30, "negative")
    dist, pred = gpudist.apsp(w, no_edge=np.inf, return_predecessors=True)
    slow, slow_pred = gpudist.apsp(w, no_edge=np.inf, return_predecessors=True, kernel="reference")
    np.testing.assert_array_equal(dist, slow)
    np.testing.assert_array_equal(pred, slow_pred)


def test_reconstruct_path():
    pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)[1]
    assert gpudist.reconstruct_path(pred, 0, 2) == [0, 1, 2]
    assert gpudist.reconstruct_path(pred, 1, 1) == [1]
    with pytest.raises(gpudist.NoPathError):
        gpudist.reconstruct_path(pred, 2, 0)
    with pytest.raises(IndexError, match="j = 3"):
        gpudist.reconstruct_path(pred, 0, 3)
    circle = np.array([[-9999, 2, 1]] * 3)
    with pytest.raises(ValueError, match="circle"):
        gpudist.reconstruct_path(circle, 0, 1)
    with pytest.raises(TypeError, match="j must be one node; reconstruct_paths takes arrays"):
        gpudist.reconstruct_path(pred, 0, [1, 2])
    for walk in (gpudist.reconstruct_path, gpudist.reconstruct_paths):
        with pytest.raises(TypeError, match=r"predecessors must be whole numbers.* float64"):
            walk(pred.astype(float), 0, 2)
