"""apsp over each semiring but min_plus, and the closure on bits: against the plain loops."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from conftest import LAYOUTS, relay, rows, runnable

import gpudist
from gpudist.semirings import SEMIRINGS, neutral

SIZES = [1, 2, 3, 17, 31, 33, 63, 64, 65, 128, 129, 257]
NUMBERS = ("float32", "float64", "int32")
LENGTHS = [name for name in SEMIRINGS if name != "or_and"]


def cases():
    for param in rows("apsp"):
        if param.values[0].teaching:
            continue  # ladders are about min_plus
        for semiring, dtype in itertools.product(LENGTHS[1:], param.values[0].dtypes):
            label = f"{param.values[0].id}-{semiring}-{dtype}"
            yield pytest.param(param.values[0], semiring, dtype, id=label, marks=param.marks)


def takes(kernel, semiring):
    """Whether the row closes over it; which rows do is the chooser's business."""
    try:
        gpudist.explain("apsp", np.zeros((2, 2)), semiring=semiring, kernel=kernel.id)
    except ValueError as error:
        assert "does not close over" in str(error)
        return False
    return True


def graph(rng, n, semiring, density):
    """Whole weights of both signs, 0 for no edge; without a cycle where a cycle would pay."""
    w = rng.integers(1, 40, (n, n)).astype(np.float64)
    if semiring.endswith("plus"):
        w = np.triu(w - 20, 1) if rng.random() < 0.5 else w * (-1 if semiring[:3] == "max" else 1)
    else:
        w -= 20
    w[rng.random((n, n)) > density] = 0
    return w


@pytest.mark.parametrize(("kernel", "semiring", "dtype"), list(cases()))
def test_every_row_has_the_bits_of_the_plain_loop(kernel, semiring, dtype, rng):
    runnable(kernel)
    if not takes(kernel, semiring):
        pytest.skip("not over this semiring")
    for n, density in zip(SIZES, itertools.cycle((0.6, 0.05)), strict=False):
        w = graph(rng, n, semiring, density)
        how = {"semiring": semiring, "dtype": dtype}
        expected, expected_pred = gpudist.apsp(
            w, kernel="reference", return_predecessors=True, **how
        )
        dist, pred = gpudist.apsp(w, kernel=kernel.id, return_predecessors=True, **how)
        alone = gpudist.apsp(w, kernel=kernel.id, **how)
        for got, want in ((dist, expected), (pred, expected_pred), (alone, expected)):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, err_msg=f"n = {n}, {density}")
        assert not np.signbit(dist[dist == 0]).any()


@pytest.mark.parametrize("semiring", LENGTHS)
@pytest.mark.parametrize(
    "options",
    [{"directed": False}, {"unweighted": True}, {"no_edge": -1}, {"directed": False, "no_edge": 7}],
    ids=str,
)
def test_what_apsp_is_told_holds_over_every_semiring(device, semiring, options, rng):
    for n, dtype in itertools.product((1, 33, 150), NUMBERS):
        w = np.abs(graph(rng, n, "min_max", 0.2))
        if semiring == "max_plus":
            w = np.triu(w, 1)
            if not options.get("directed", True) or "no_edge" in options:
                continue  # back and forth is a cycle
        how = {"semiring": semiring, "dtype": dtype, "return_predecessors": True, **options}
        got, want = (gpudist.apsp(w, **how, **k) for k in ({"device": device}, REFERENCE))
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


REFERENCE = {"kernel": "reference"}


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_every_form_of_a_graph(device, semiring, rng):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    w = np.triu(graph(rng, 60, "min_plus", 0.2), 1)
    expected = gpudist.apsp(w, semiring=semiring, **REFERENCE)
    masked = np.ma.masked_array(w, w == 0)
    forms = [masked, scipy.sparse.csr_array(w), scipy.sparse.coo_array(w), w.astype("i8")]
    forms.append(nx.from_numpy_array(w, create_using=nx.DiGraph))
    for form in forms:
        np.testing.assert_array_equal(
            gpudist.apsp(form, semiring=semiring, device=device), expected
        )
    for layout in LAYOUTS:
        got = gpudist.apsp(relay(w, layout), semiring=semiring, device=device)
        np.testing.assert_array_equal(got, expected, err_msg=layout)


def test_no_path_and_the_path_of_no_edge(device):
    w = np.array([[9.0, 4, 0], [0, 0, 2], [0, 0, 0]])
    inf = np.inf
    expected = {
        "min_plus": [[0, 4, 6], [inf, 0, 2], [inf, inf, 0]],
        "min_max": [[-inf, 4, 4], [inf, -inf, 2], [inf, inf, -inf]],
        "max_min": [[inf, 4, 2], [-inf, inf, 2], [-inf, -inf, inf]],
    }
    for semiring, rows_of in expected.items():
        for dtype in ("float32", "float64"):
            got = gpudist.apsp(w, semiring=semiring, dtype=dtype, device=device)
            np.testing.assert_array_equal(got, rows_of, err_msg=semiring)
    w[0, 0] = 0  # in max_plus such a loop is a cycle that pays
    got = gpudist.apsp(w, semiring="max_plus", device=device)
    np.testing.assert_array_equal(got, [[0, 4, 6], [-inf, 0, 2], [-inf, -inf, 0]])
    least, most = -(2**31), 2**31 - 1
    for semiring, none, empty in (("min_max", most, least), ("max_min", least, most)):
        assert neutral(semiring, "int32") == none
        got = gpudist.apsp(w, semiring=semiring, dtype="int32", device=device)
        assert got[2, 0] == none and got[0, 0] == empty and got[0, 2] in (2, 4)
        named = gpudist.apsp(
            np.where(w == 0, -1, w), no_edge=-1, semiring=semiring, dtype="int32", device=device
        )
        assert named[2, 0] == -1 and named[0, 0] == empty


def test_the_largest_weights_of_int32(device):
    big = 2**29 - 1
    w = np.full((5, 5), 0)
    w[0, 1], w[1, 2], w[2, 3], w[3, 4] = big, -big, big, big - 1
    for semiring in ("min_max", "max_min"):
        got = gpudist.apsp(w, semiring=semiring, dtype="int32", device=device)
        want = gpudist.apsp(w, semiring=semiring, dtype="int32", **REFERENCE)
        np.testing.assert_array_equal(got, want)
        with pytest.raises(ValueError, match=r"2\*\*29"):
            gpudist.apsp(2 * w, semiring=semiring, dtype="int32", device=device)
    longest = gpudist.apsp(w, semiring="max_plus", dtype="int32", device=device)
    assert longest[0, 3] == big and longest[2, 4] == 2 * big - 1
    w[1, 2] = big
    with pytest.raises(OverflowError, match="float64"):
        gpudist.apsp(w, semiring="max_plus", dtype="int32", device=device)


def test_a_positive_cycle_has_no_longest_path(device):
    w = np.zeros((70, 70))
    w[3, 60], w[60, 3], w[1, 2], w[2, 1] = 2, -1, -1, -1
    for dtype in NUMBERS:
        with pytest.raises(gpudist.NegativeCycleError, match=r"Positive cycle .*\[3, 60\]") as info:
            gpudist.apsp(w, semiring="max_plus", dtype=dtype, device=device)
        assert info.value.nodes == [3, 60]
        for semiring in ("min_max", "max_min"):
            gpudist.apsp(w, semiring=semiring, dtype=dtype, device=device)


@pytest.mark.parametrize("semiring", ["min_max", "max_min"])
def test_predecessors_spell_paths_of_that_width(device, semiring, rng):
    w = graph(rng, 120, semiring, 0.03)
    dist, pred = gpudist.apsp(w, semiring=semiring, return_predecessors=True, device=device)
    ends = max if semiring == "min_max" else min
    for i, j in np.argwhere(pred >= 0)[::7]:
        path = gpudist.reconstruct_path(pred, i, j)
        assert len(set(path)) == len(path)
        assert dist[i, j] == ends(w[a, b] for a, b in itertools.pairwise(path))


def test_bottlenecks_are_those_of_spanning_trees(rng):
    """Undirected, the least bottleneck is on the way through a minimum spanning tree."""
    w = np.triu(rng.random((80, 80)) * (rng.random((80, 80)) < 0.1), 1)
    tree = scipy.sparse.csgraph.minimum_spanning_tree(w)
    np.testing.assert_array_equal(
        gpudist.apsp(w, semiring="min_max", directed=False),
        gpudist.apsp(tree, semiring="min_max", directed=False),
    )


NOT_OF_TRUTHS = [
    ({"semiring": "or_and", "return_predecessors": True}, ValueError, "or_and has no predecessors"),
    ({"semiring": "or_and", "dtype": "f8"}, ValueError, "dtype must be bool for or_and"),
]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"semiring": "max-min"}, ValueError, "did you mean 'max_min'"),
        *NOT_OF_TRUTHS,
        ({"dtype": "bool"}, ValueError, "dtype must be float32, float64, int32, int16"),
        (
            {"semiring": "or_and", "kernel": "apsp/cpu_blocked_avx2"},
            ValueError,
            "for transitive_closure",
        ),
        ({"progress": 3}, TypeError, "progress must be a bool or a callable, got int"),
    ],
)
def test_errors_name_the_argument(options, error, words):
    with pytest.raises(error, match=words):
        gpudist.apsp(np.ones((3, 3)), **options)


# ---------------------------------------------------------------- reachability


def truths(rng, n, density):
    return rng.random((n, n)) < density


@pytest.mark.parametrize("kernel", list(rows("closure")))
def test_the_closure_is_warshall_s(kernel, rng):
    runnable(kernel)
    for n, degree in itertools.product([*SIZES, 511, 600], (0.5, 1.2, 20)):
        g = truths(rng, n, degree / n)
        expected = gpudist.transitive_closure(g, **REFERENCE)
        np.testing.assert_array_equal(
            gpudist.transitive_closure(g, kernel=kernel.id), expected, err_msg=f"n = {n}"
        )
        np.fill_diagonal(expected, True)
        got = gpudist.transitive_closure(g, kernel=kernel.id, reflexive=True)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(gpudist.apsp(g, kernel=kernel.id, semiring="or_and"), got)


def test_a_long_way_round(device):
    """Paths over every node, which cross every word and block."""
    n = 2500
    order = np.random.default_rng(5).permutation(n)
    ring = np.zeros((n, n), bool)
    ring[order, np.roll(order, -1)] = True
    assert gpudist.transitive_closure(ring, device=device).all()
    ring[order[-1], order[0]] = False  # a path
    place = np.argsort(order)
    expected = place[:, None] < place[None, :]
    np.testing.assert_array_equal(gpudist.transitive_closure(ring, device=device), expected)


def test_the_closure_of_every_form(device, rng):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    for n in (0, 1, 5, 70):
        g = truths(rng, n, 1.5 / max(n, 1))
        for directed, reflexive in itertools.product((True, False), repeat=2):
            how = {"directed": directed, "reflexive": reflexive}
            expected = gpudist.transitive_closure(g, **how, **REFERENCE)
            w = np.where(g, rng.normal(size=(n, n)), 0)
            forms = [g.T.copy().T, w, w.astype("f4"), g.astype("i4"), g.astype("u1"), g[::-1][::-1]]
            forms += [np.ma.masked_array(np.ones((n, n)), ~g)]
            forms += [nx.from_numpy_array(g, create_using=nx.DiGraph)]
            forms += [scipy.sparse.csr_array(w)] if n else []
            for form in forms:
                got = gpudist.transitive_closure(form, device=device, **how)
                np.testing.assert_array_equal(got, expected)
    every = np.where(g, np.nan, 1)  # with a sentinel 0 is an edge; NaN and infinities never are
    every[g] = rng.choice([0.0, -3.5], g.sum())
    sentinel = gpudist.transitive_closure(np.where(g, every, 7), no_edge=7, device=device)
    np.testing.assert_array_equal(sentinel, gpudist.transitive_closure(g))
    hidden = np.where(g, 1.0, rng.choice([np.nan, np.inf, -np.inf, 0], (n, n)))
    np.testing.assert_array_equal(gpudist.transitive_closure(hidden, device=device), sentinel)


def test_the_closure_agrees_with_networkx(rng):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    g = nx.gnp_random_graph(60, 0.02, seed=3, directed=True)
    for reflexive in (True, False):
        theirs = nx.to_numpy_array(nx.transitive_closure(g, reflexive=reflexive), range(60)) != 0
        np.testing.assert_array_equal(gpudist.transitive_closure(g, reflexive=reflexive), theirs)


def test_the_closure_s_out(device, rng):
    g = truths(rng, 100, 0.02)
    expected = gpudist.transitive_closure(g, **REFERENCE)
    out = np.empty((100, 100), bool)
    for kernel in ({"device": device}, REFERENCE):
        assert gpudist.transitive_closure(g, out=out, **kernel) is out
        np.testing.assert_array_equal(out, expected)
        out[:] = False
    mine = g.copy()
    assert gpudist.transitive_closure(mine, out=mine, device=device) is mine
    np.testing.assert_array_equal(mine, expected)
    for wrong, error, words in (
        (np.empty((100, 99), bool), ValueError, "shape"),
        (np.empty((100, 100)), ValueError, "out must be an array of bool, got float64"),
        (np.empty((200, 100), bool)[::2], ValueError, "C-contiguous"),
        ([[True]], TypeError, "out must be a NumPy array of bool, got list"),
    ):
        with pytest.raises(error, match=words):
            gpudist.transitive_closure(g, out=wrong)
    with pytest.raises(ValueError, match="no_edge is for numbers"):
        gpudist.transitive_closure(g, no_edge=1)
    with pytest.raises(ValueError, match="square"):
        gpudist.transitive_closure(g[:5])


def test_explain(rng):
    said = gpudist.explain("transitive_closure", np.zeros((300, 300), "f4"), device="cpu")
    assert said.kernel.startswith("closure/cpu_bits") and said.bytes == 300 * 300 * 5
    assert gpudist.explain("apsp", np.zeros((3, 3)), semiring="or_and").op == "closure"
    for options, error, words in NOT_OF_TRUTHS:
        with pytest.raises(error, match=words):
            gpudist.explain("apsp", np.zeros((3, 3)), **options)
    both = [gpudist.explain("apsp", np.zeros((3, 3)), semiring=s, device="cpu") for s in LENGTHS]
    assert all(said.kernel.startswith("apsp/cpu_blocked") for said in both)
    rejected = gpudist.explain("apsp", np.zeros((3, 3)), semiring=LENGTHS[2]).rejected
    assert gpudist.cuda.why_not() or "does not close over min_max" in rejected["apsp/cuda_blocked"]


@pytest.mark.gpu
def test_device_arrays(torch, rng):
    w = graph(rng, 90, "min_max", 0.1)
    for semiring in ("min_plus", "min_max", "max_min", "or_and"):
        there = torch.as_tensor(np.abs(w), device="cuda")
        got = gpudist.apsp(there, semiring=semiring)
        assert got.is_cuda
        expected = gpudist.apsp(np.abs(w), semiring=semiring, device="cpu")
        np.testing.assert_array_equal(got.cpu().numpy(), expected)
    g = torch.as_tensor(w != 0, device="cuda")
    expected = gpudist.transitive_closure(w != 0, device="cpu")
    flat = torch.zeros(90 * 90 + 2, dtype=torch.bool, device="cuda")
    out = flat[1:-1].reshape(90, 90)  # an odd address
    for x in (g, g.T.contiguous().T):
        assert gpudist.transitive_closure(x, out=out) is out
        np.testing.assert_array_equal(out.cpu().numpy(), expected)
        assert not flat[0] and not flat[-1]
