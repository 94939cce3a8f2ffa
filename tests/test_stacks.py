"""minplus and transitive_closure of many matrices in one call: the bits that each has alone."""

import itertools

import numpy as np
import pytest

import gpudist
from gpudist import _core

INF = np.inf
SEMIRINGS = {
    "min_plus": ("float32", "float64", "int32"),
    "max_plus": ("float32", "float64", "int32"),
    "min_max": ("float32", "float64", "int32"),
    "max_min": ("float32", "float64", "int32"),
    "or_and": ("bool",),
}


def drawn(rng, shape, dtype):
    """Numbers with some infinities, NaNs and negative ones among them, or truths."""
    if dtype == "bool":
        return rng.random(shape) < 0.2
    if dtype == "int32":
        return rng.integers(-1000, 1000, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    some = rng.random(shape)
    x[some < 0.05], x[some > 0.95], x[(some > 0.9) & (some < 0.92)] = np.nan, INF, -INF
    return x


def same(got, want):
    np.testing.assert_array_equal(got, want, strict=True)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    ("semiring", "dtype"), [(s, dtype) for s, all in SEMIRINGS.items() for dtype in all]
)
@pytest.mark.parametrize("sizes", [(3, 2, 4), (16, 16, 16), (1, 40, 33), (70, 65, 90), (5, 0, 2)])
def test_each_product_has_the_bits_that_it_has_alone(rng, semiring, dtype, sizes):
    m, k, n = sizes
    a, b = drawn(rng, (41, m, k), dtype), drawn(rng, (41, k, n), dtype)
    c = drawn(rng, (41, m, n), dtype)
    for operands in ((a, b), (a, b, c)):
        got = gpudist.minplus(*operands, semiring=semiring)
        for i, some in enumerate(zip(*operands, strict=True)):
            same(got[i], gpudist.minplus(*some, semiring=semiring))


def test_leading_dimensions_are_broadcast_and_not_copied(rng):
    a, b, c = rng.random((2, 1, 4, 5)), rng.random((3, 5, 6)), rng.random((4, 6))
    got = gpudist.minplus(a, b, c)
    assert got.shape == (2, 3, 4, 6)
    for i, j in np.ndindex(2, 3):
        same(got[i, j], gpudist.minplus(a[i, 0], b[j], c))
    wide = np.broadcast_to(rng.random((30, 30)), (100_000, 30, 30))  # 720 MB if it were there
    got = gpudist.minplus(wide, rng.random((30, 1)))
    assert got.shape == (100_000, 30, 1) and (got == got[0]).all()
    for shape in ((0, 4, 5), (2, 0, 4, 5)):
        assert gpudist.minplus(np.ones(shape), b[0]).shape == (*shape[:-1], 6)
    assert gpudist.minplus(np.ones((3, 0, 5)), b).shape == (3, 0, 6)


def test_stacks_lie_in_memory_as_they_like(rng):
    a, b = rng.random((7, 9, 8)), rng.random((7, 8, 9))
    want = gpudist.minplus(a, b)
    for some in (
        np.asfortranarray(a), a[::-1][::-1], a.astype(">f8"), a.tolist(),
        np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1), a[:, ::-1][:, ::-1],
        np.pad(a, ((0, 0), (1, 2), (3, 1)))[:, 1:-2, 3:-1],
    ):  # fmt: skip
        same(gpudist.minplus(some, b), want)
    a32 = a.astype("float32")
    same(gpudist.minplus(a32, b), gpudist.minplus(a32.astype(float), b))
    assert gpudist.minplus(a32, b.astype("float32")).dtype == np.float32
    with np.errstate(all="raise"):
        got = gpudist.minplus(np.full((2, 1, 1), 1e39), np.ones((1, 1)), dtype="float32")
    assert (got == INF).all()


@pytest.mark.parametrize("which", range(3))
def test_a_result_may_take_an_operands_place(rng, which):
    operands = [rng.random((6, 20, 20)) for _ in range(3)]
    want = gpudist.minplus(*operands)
    assert gpudist.minplus(*operands, out=operands[which]) is operands[which]
    same(operands[which], want)
    memory = rng.random((8, 20, 20))
    want = gpudist.minplus(memory[:6], operands[1])
    same(gpudist.minplus(memory[:6], operands[1], out=memory[2:]), want)


def test_nested_lists_and_lists_of_matrices_are_stacks(rng):
    a, b = rng.random((2, 3, 4)), rng.random((2, 4, 5))
    want = gpudist.minplus(a, b)
    for left, right in ((list(a), list(b)), (a.tolist(), b.tolist()), (a.tolist(), b)):
        same(gpudist.minplus(left, right), want)
    same(gpudist.minplus(a[0].tolist(), b[0].tolist()), want[0])
    assert gpudist.explain("minplus", list(a), list(b)).operations == 2 * 3 * 4 * 5


def test_errors_name_the_product():
    a = np.ones((3, 4, 5, 5), "int32")
    a[1, 2, 3, 3] = a[2, 0, 1, 0] = 2**28
    b = np.ones((5, 5), "int32")
    with pytest.raises(ValueError, match=r"^product \(1, 2\): A or B has an element of magnitude"):
        gpudist.minplus(a, b)
    with pytest.raises(ValueError, match=r"^product 6: A or B has"):
        gpudist.minplus(a.reshape(12, 5, 5), b)
    with pytest.raises(ValueError, match=r"^product \(1, 2\)"):  # one after the other
        gpudist.minplus(a, b, max_memory="1 MB")
    assert gpudist.minplus(a, b, semiring="max_min").max() == 1
    many = np.ones((20_000, 8, 8), "int32")
    many[150:, 3, 3] = 2**30
    for _ in range(20):  # others may find theirs before, but the first is told
        with pytest.raises(ValueError, match=r"^product 150: "):
            gpudist.minplus(many, many[0])
    wide = np.ones((2, 3, 4, 4), "int64")
    wide[1, 0, 2, 2] = 2**40
    with pytest.raises(ValueError, match=r"A\[1, 0\] has elements that int32 does not hold"):
        gpudist.minplus(wide, wide[0, 0], dtype="int32")


def test_errors_come_before_any_work():
    a = np.ones((2, 4, 5))
    for b, c, said in (
        (np.ones((3, 5, 6)), None, "leading dimensions must match or be 1"),
        (np.ones((2, 4, 6)), None, "A must have as many columns as B has rows, got 5 and 4"),
        (np.ones((5, 6)), np.ones((6, 4)), r"C must have shape \(4, 6\), got \(6, 4\)"),
        (np.ones(5), None, "B must be two-dimensional"),
    ):
        with pytest.raises(ValueError, match=said):
            gpudist.minplus(a, b, c)
    with pytest.raises(ValueError, match="unknown semiring"):
        gpudist.minplus(a, a, semiring="plus_min")
    with pytest.raises(ValueError, match="unknown kernel"):
        gpudist.minplus(a, np.ones((5, 4)), kernel="minplus/none")
    with pytest.raises(ValueError, match="out"):
        gpudist.minplus(a, np.ones((5, 4)), out=np.empty((4, 4)))
    with pytest.raises(TypeError, match="complex"):
        gpudist.minplus(a, np.ones((5, 4), complex))
    with pytest.raises(MemoryError):
        gpudist.minplus(a, np.ones((5, 4)), max_memory=16)


def test_other_kernels_do_stacks_too(rng):
    a, b = rng.random((3, 8, 8)), rng.random((3, 8, 8))
    want = gpudist.minplus(a, b)
    same(gpudist.minplus(a, b, kernel="reference"), want)
    same(gpudist.minplus(a, b, kernel="minplus/cpu_tile_baseline", device="cpu"), want)
    edges = rng.random((3, 8, 8)) < 0.2
    want = gpudist.transitive_closure(edges)
    same(gpudist.transitive_closure(edges, kernel="reference"), want)
    same(gpudist.transitive_closure(edges, kernel="closure/cpu_bits_baseline"), want)


@pytest.mark.parametrize("n", [0, 1, 2, 8, 31, 63, 64, 65, 130, 520])
def test_each_closure_is_the_graphs_own(rng, n):
    edges = rng.random((17 if n < 500 else 2, n, n)) < 1.2 / max(n, 1)
    for reflexive, directed in itertools.product((False, True), repeat=2):
        how = {"reflexive": reflexive, "directed": directed}
        got = gpudist.transitive_closure(edges, **how)
        for graph, one in zip(edges, got, strict=True):
            same(one, gpudist.transitive_closure(graph, kernel="reference", **how))
            same(one, gpudist.transitive_closure(graph, **how))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", ">f8", "float16"])
def test_closures_read_weights_as_apsp_does(rng, dtype):
    weights = rng.integers(0, 5, (2, 9, 12, 12)).astype(dtype)
    weights[rng.random(weights.shape) < 0.7] = 0
    if np.dtype(dtype).kind == "f":
        weights[rng.random(weights.shape) < 0.02] = np.nan
        weights[rng.random(weights.shape) < 0.02] = -INF
    for no_edge in (None, 3, 3.5):
        got = gpudist.transitive_closure(weights, no_edge=no_edge)
        for index in np.ndindex(2, 9):
            how = {"no_edge": no_edge, "kernel": "reference"}
            same(got[index], gpudist.transitive_closure(weights[index], **how))
    turned = weights.transpose(1, 0, 3, 2)
    same(
        gpudist.transitive_closure(turned),
        gpudist.transitive_closure(weights).transpose(1, 0, 3, 2).copy(),
    )
    tenths = np.where(weights == 0, np.float32(0.1), np.float32(1))
    same(gpudist.transitive_closure(tenths, no_edge=0.1), gpudist.transitive_closure(weights != 0))


def test_closures_of_masked_arrays_and_into_their_graphs(rng):
    weights = rng.random((4, 10, 10))
    masked = np.ma.masked_array(weights, mask=rng.random(weights.shape) < 0.8)
    want = gpudist.transitive_closure(~masked.mask)
    same(gpudist.transitive_closure(masked), want)
    with pytest.raises(ValueError, match="a masked array masks"):
        gpudist.transitive_closure(masked, no_edge=1)
    edges = ~masked.mask
    assert gpudist.transitive_closure(edges, out=edges) is edges
    same(edges, want)
    with pytest.raises(ValueError, match="in an array of bool False is no edge"):
        gpudist.transitive_closure(edges, no_edge=1)
    with pytest.raises(ValueError, match="square matrices"):
        gpudist.transitive_closure(np.ones((3, 4, 5)))
    with pytest.raises(ValueError, match="out"):
        gpudist.transitive_closure(edges, out=np.empty((4, 10, 9), bool))
    with pytest.raises(MemoryError, match="graph 0: "):
        gpudist.transitive_closure(edges, max_memory=16)


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("dtype", ["bool", "float32", "int32"])
def test_closures_of_the_nodes_in_use(rng, kernel, dtype):
    """What pads a graph is neither read nor reached."""
    weights = np.where(rng.random((3, 4, 9, 9)) < 0.15, 2, 0).astype(dtype)
    sizes = rng.integers(0, 10, (3, 4))
    sizes[0, :2] = 0, 9
    for reflexive, no_edge in ((False, None), (True, None if dtype == "bool" else 2)):
        how = {"reflexive": reflexive, "no_edge": no_edge, "kernel": kernel}
        got = gpudist.transitive_closure(weights, sizes=sizes, **how)
        for index in np.ndindex(3, 4):
            n = sizes[index]
            same(got[index][:n, :n], gpudist.transitive_closure(weights[index][:n, :n], **how))
            assert not got[index][n:].any() and not got[index][:, n:].any()
        out = weights.copy() if dtype == "bool" else np.empty(weights.shape, bool)
        given = out if dtype == "bool" else weights
        assert gpudist.transitive_closure(given, sizes=sizes, out=out, **how) is out
        same(out, got)


def test_closures_refuse_sizes_that_are_none_of_theirs():
    edges = np.ones((3, 4, 4), bool)
    for sizes, kind, words in (
        ([1, 2], ValueError, r"sizes must have shape \(3,\)"),
        ([1, 5, 2], ValueError, "sizes must be from 0 to 4, the graphs' rows, got 5 for graph 1"),
        ([1.0, 2.0, 3.0], TypeError, "sizes must be whole numbers"),
    ):
        with pytest.raises(kind, match=words):
            gpudist.transitive_closure(edges, sizes=sizes)
    with pytest.raises(ValueError, match=r"graph must be of shape \(..., n, n\) with sizes="):
        gpudist.transitive_closure(edges[0], sizes=2)
    with pytest.raises(TypeError, match="sizes is for arrays of graphs, not for lists"):
        gpudist.transitive_closure([edges[0], edges[1]], sizes=[1, 2])


CALLS = {  # with so many matrices they take a tenth of a second
    "small products": (300_000, lambda a, b, **k: gpudist.minplus(a, b[:, :1], **k), 16),
    "products": (300, lambda a, b, **k: gpudist.minplus(a, b, **k), 200),
    "large products": (1, lambda a, b, **k: gpudist.minplus(a, b, **k), 1300),
    "small graphs": (200_000, lambda a, b, **k: gpudist.transitive_closure(a < 0.2, **k), 16),
    "graphs": (400, lambda a, b, **k: gpudist.transitive_closure(a < 0.1, **k), 300),
}


@pytest.mark.parametrize("name", CALLS)
def test_somebody_is_told_and_may_stop_it(rng, name):
    count, call, n = CALLS[name]
    matrix = rng.random((n, n), np.float32)
    told = []

    def stop(done, total):
        told.append(done / total)
        raise KeyboardInterrupt

    for times in (1, 4, 16):  # the more cores there are, the more is done before somebody looks
        stack = np.broadcast_to(matrix, (count * times, n, n))
        with pytest.raises(KeyboardInterrupt):
            call(stack, matrix, progress=stop)
        if told[-1] < 1:
            break
    assert told[-1] < 1
    told = []
    few = stack[:2]
    want = call(few, matrix, progress=lambda done, total: told.append(done / total))
    assert told == sorted(told) and told[-1] == 1
    same(call(few, matrix), want)


def test_explain_counts_products():
    said = gpudist.explain("minplus", np.ones((6, 1, 5, 7)), np.ones((4, 7, 3)))
    assert "each of 24 products" in said.reason and said.operations == 24 * 5 * 7 * 3
    assert said.work.written == 8 * 24 * 5 * 3


def test_the_core_refuses_what_its_callers_do_not_send():
    a = np.ones((2, 3, 3))
    truths = np.ones((2, 3, 3), bool)
    for call, said in (
        (lambda: _core.minplus_batch(a, a[0], None, a.copy(), "min_plus"), "A|B"),
        (lambda: _core.minplus_batch(a, a.astype("f4"), None, a.copy(), "min_plus"), "differ"),
        (lambda: _core.minplus_batch(a, a, None, truths, "min_plus"), "bool|differ"),
        (lambda: _core.minplus_batch(a, a[:, :2], None, a.copy(), "min_plus"), "as many columns"),
        (lambda: _core.minplus_batch(a, a, a[:, :2], a.copy(), "min_plus"), "C must have shape"),
        (lambda: _core.closure_batch(a, a.copy(), "zero", 0.0, True, False), "out must be of bool"),
        (lambda: _core.closure_batch(a[:, :2], truths, "zero", 0.0, True, False), "square"),
        (lambda: _core.closure_batch(a[:1], truths, "zero", 0.0, True, False), "batch of another"),
        (lambda: _core.cdist_batch(*(a.astype("i4"),) * 2, a.astype("i4"), "euclidean"), "int32"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            call()


def test_explain_refuses_what_the_call_refuses_and_counts_one_product_s_copies():
    a = np.ones((2, 3, 3))
    for call in (gpudist.minplus, lambda *x, **how: gpudist.explain("minplus", *x, **how)):
        with pytest.raises(ValueError, match=r"must name one GPU, .* for a batch of matrices"):
            call(a, a, device="cuda:0,1")
    said = gpudist.explain("minplus", a, a, device="cpu")
    assert (said.copies, said.operations) == (2 * a[0].nbytes, 2 * 27)
    assert said.reason.startswith("each of 2 products; ")
