"""A result may be written where operands are: it is as if they were elsewhere."""

import numpy as np
import pytest
from capsules import MEMORY, Export, Exporter
from claims import Claims
from conftest import RECORDS, forms, points
from hypothesis import given
from hypothesis import strategies as st

import gpudist
from gpudist import _core, arrays

# How an operand of m x d lies in the n x n array to which the result goes, or one of its elements'
# flat order: the same elements, later rows, columns in part, turned, mirrored, spread out.
LAYOUTS = {
    "first rows": lambda out, m, d: out[:m, :d],
    "later rows": lambda out, m, d: out[len(out) - m :, 1 : d + 1],
    "last columns": lambda out, m, d: out[:m, out.shape[1] - d :],
    "turned": lambda out, m, d: out[:d, :m].T,
    "mirrored": lambda out, m, d: out[:m, :d][::-1, ::-1],
    "spread": lambda out, m, d: out[: 2 * m : 2, : 2 * d : 2],
    "one row for all": lambda out, m, d: np.broadcast_to(out[len(out) // 2, :d], (m, d)),
}


def fill(out, rng, metric, x, d):
    """Write points of the metric where the operand is."""
    if x.flags.writeable:
        x[...] = points(rng, len(x), d, metric, out.dtype.name)
    else:
        out[len(out) // 2, :d] = points(rng, 1, d, metric, out.dtype.name)[0]


@pytest.mark.parametrize("metric", RECORDS)
def test_cdist_writes_where_its_operands_are(metric, device, rng):
    d, n = RECORDS[metric].columns or 5, 90
    _, make = next(iter(forms(metric)))
    for name, layout in LAYOUTS.items():
        for dtype in ("float32", "float64"):
            args, out = make(rng, d), np.zeros((n, n), dtype)
            m = n // 2 if name == "spread" else n
            x = layout(out, m, d)
            fill(out, rng, metric, x, d)
            operands = x, (x if m == n and dtype == "float64" else points(rng, n, d, metric, dtype))
            want = gpudist.cdist(*map(np.copy, operands), metric, device=device, **args)
            gpudist.cdist(*operands, metric, out=out[:m], device=device, **args)
            np.testing.assert_array_equal(out[:m], want, err_msg=name)


@pytest.mark.parametrize("metric", RECORDS)
def test_cdist_writes_where_its_second_operand_is(metric, device, rng):
    d = RECORDS[metric].columns or 5
    for dtype in ("float32", "float64"):
        out = np.zeros((90, 40), dtype)
        y = out[50:, :d]
        y[...] = points(rng, 40, d, metric, dtype)
        x = points(rng, 90, d, metric, dtype)
        args = next(iter(forms(metric)))[1](rng, d)
        want = gpudist.cdist(x, y.copy(), metric, device=device, **args)
        gpudist.cdist(x, y, metric, out=out, device=device, **args)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("metric", ["canberra", "euclidean"])
def test_large_results_over_their_operands(metric, device, rng):
    """Which several threads write in tiles."""
    c = rng.random((800, 800))
    for view in (lambda c: c, lambda c: c.T, lambda c: c[::-1]):
        mine = c.copy()
        x = view(c)[:, :50].copy()
        want = gpudist.cdist(x, x, metric, device=device)
        operand = view(mine)[:, :50]
        gpudist.cdist(operand, operand, metric, out=mine, device=device)
        np.testing.assert_array_equal(mine, want)


@pytest.mark.parametrize("metric", RECORDS)
def test_pdist_writes_where_its_points_are(metric, device, rng):
    d, n = RECORDS[metric].columns or 4, 60
    for dtype in ("float32", "float64"):
        args = next(iter(forms(metric)))[1](rng, d)
        for start in (0, 7, n * (n - 1) // 2 - n * d):
            out = np.zeros(n * (n - 1) // 2, dtype)
            inside = out[start : start + n * d]
            for x in (inside.reshape(n, d), inside.reshape(d, n).T, inside.reshape(n, d)[::-1]):
                x[...] = points(rng, n, d, metric, dtype)
                want = gpudist.pdist(x.copy(), metric, device=device, **args)
                gpudist.pdist(x, metric, out=out, device=device, **args)
                np.testing.assert_array_equal(out, want)


def arguments(metric, out, d):
    """Give the metric's arrays as views of where the result goes."""
    record = RECORDS[metric]
    for name in ("w", "V"):
        if name in record.arguments:
            yield {name: out[0, :d]}
            yield {name: out[:d, 1]}
            yield {name: out[3, 2 * d : d : -1]}
    if "VI" in record.arguments:
        yield {"VI": out[:d, :d]}
        yield {"VI": out[:d, :d].T}


@pytest.mark.parametrize(
    "metric",
    [name for name, record in RECORDS.items() if {"w", "V", "VI"} & set(record.arguments)],
)
def test_arguments_may_be_where_the_result_goes(metric, device, rng):
    d, n = RECORDS[metric].columns or 3, 50
    for dtype in ("float32", "float64"):
        x = points(rng, n, d, metric, dtype)
        y = points(rng, n, d, metric, dtype)
        for i in range(len(list(arguments(metric, np.zeros((n, n)), d)))):
            out = 1 + rng.random((n, n)).astype(dtype)
            if "VI" in RECORDS[metric].arguments:
                out[:d, :d] = np.eye(d) + 0.1
            given = list(arguments(metric, out, d))[i]
            apart = {name: value.copy() for name, value in given.items()}
            want = gpudist.cdist(x, y, metric, device=device, **apart)
            gpudist.cdist(x, y, metric, out=out, device=device, **given)
            np.testing.assert_array_equal(out, want)
            pairs = 1 + rng.random(n * (n - 1) // 2).astype(dtype)
            for name in {"w", "V"} & set(given):
                want = gpudist.pdist(x, metric, device=device, **{name: pairs[5 : 5 + d].copy()})
                gpudist.pdist(x, metric, out=pairs, device=device, **{name: pairs[5 : 5 + d]})
                np.testing.assert_array_equal(pairs, want)


@pytest.mark.parametrize("kind", ["i2", "f4", "f8", ">f8", "bool"])
def test_other_dtypes_in_the_same_memory(kind, rng):
    out = np.zeros((60, 60))
    x = out.view(kind)[:, :6]
    x[...] = rng.integers(0, 2, x.shape)
    metric = "jaccard" if kind == "bool" else "cityblock"
    want = gpudist.cdist(x.copy(), x.copy(), metric, dtype="float64")
    gpudist.cdist(x, x, metric, out=out)
    np.testing.assert_array_equal(out, want)


def test_rows_and_parts_over_their_operands(rng):
    c = rng.random((300, 300))
    want = gpudist.cdist(c.copy(), c.copy(), "canberra")
    for how in ({"max_memory": 1 << 20}, {"kernel": "reference"}, {"progress": lambda *_: None}):
        mine = c.copy()
        gpudist.cdist(mine, mine, "canberra", out=mine, **how)
        np.testing.assert_allclose(mine, want, rtol=1e-13)
    mine = c.copy()
    gpudist.cdist(mine, mine, "canberra", out=mine, rows=slice(100, 200))
    np.testing.assert_array_equal(mine[100:200], want[100:200])
    np.testing.assert_array_equal(mine[:100], c[:100])


def test_what_was_stopped_over_its_operands_cannot_go_on(rng):
    """The rest would be computed from what the beginning has written over."""

    def stop(done, total):
        if done > 0:
            raise KeyboardInterrupt

    for apart in (True, False):
        x = rng.random((1200, 1200))
        out = np.empty_like(x) if apart else x
        with pytest.raises(KeyboardInterrupt) as caught:
            gpudist.cdist(x, x, "canberra", out=out, progress=stop, device="cpu")
        assert hasattr(caught.value, "rows_complete") == apart
        assert bool(getattr(caught.value, "__notes__", None)) == apart


@pytest.mark.parametrize("how", [lambda c: c[1:], lambda c: c[:-1].T, lambda c: c[:0:-1]])
def test_graphs_where_the_lengths_go(how, device, rng):
    """Of apsp and of transitive_closure, for every semiring and dtype, by every way there is."""
    n = 130
    for dtype in ("float32", "float64", "int32"):
        for semiring in ("min_plus", "max_min"):
            for directed in (True, False):
                call = {"semiring": semiring, "directed": directed, "dtype": dtype}
                buffer = rng.integers(0, 50, (n + 1, n)).astype(dtype)
                graph, out = how(buffer), buffer[:n]
                want = gpudist.apsp(graph.copy(), **call, device=device)
                assert gpudist.apsp(graph, out=out, **call, device=device) is out
                np.testing.assert_array_equal(out, want)
    buffer = rng.random((n + 1, n)) < 0.02
    want = gpudist.transitive_closure(how(buffer).copy(), device=device)
    gpudist.transitive_closure(how(buffer), out=buffer[:n], device=device)
    np.testing.assert_array_equal(buffer[:n], want)


def test_a_graph_is_closed_in_its_own_place(device, rng):
    w = rng.integers(0, 50, (90, 90)).astype(float)
    want = gpudist.apsp(w.copy(), device=device)
    for view in (lambda x: x, lambda x: x[:], lambda x: x.T.T):
        mine = w.copy()
        gpudist.apsp(view(mine), out=mine, device=device)
        np.testing.assert_array_equal(mine, want)
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        bad = np.array([[0.0, 1, 0, 0], [0, 0, -3, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
        gpudist.apsp(bad[:], out=bad, device=device)
    assert caught.value.cycle == []  # what it was is written over
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        bad = np.array([[9.0] * 4, [0, 1, 0, 0], [0, 0, -3, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
        gpudist.apsp(bad[1:], out=bad[:4], device=device)
    assert sorted(caught.value.cycle) == [0, 1, 2]


SEMIRINGS = {"min_plus": "float64", "max_min": "float32", "min_max": "int32", "or_and": "bool"}


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("which", ["A", "B", "C", "A and B", "A, B and C"])
def test_products_where_their_operands_are(semiring, which, device, rng):
    n, dtype = 140, SEMIRINGS[semiring]
    for shift in (0, 1, 70):
        for turned in (False, True):
            buffer = rng.integers(0, 2 if dtype == "bool" else 99, (n + shift, n)).astype(dtype)
            inside = buffer[shift : shift + n].T if turned else buffer[shift : shift + n]
            apart = {name: buffer[:n].copy() for name in "ABC"}
            given = apart | {name: inside for name in "ABC" if name in which}
            want = gpudist.minplus(
                **{name: x.copy() for name, x in given.items()}, semiring=semiring, device=device
            )
            gpudist.minplus(**given, semiring=semiring, out=buffer[:n], device=device)
            np.testing.assert_array_equal(buffer[:n], want)


def test_products_by_every_kernel_where_their_factors_are(rng):
    for kernel in gpudist.kernels("minplus"):
        if kernel.why_not is not None:
            continue
        for dtype in kernel.dtypes:
            semiring = "or_and" if dtype == "bool" else "min_plus"
            for n, shift in ((70, 1), (150, 40)):
                for which in "AB":
                    buffer = rng.integers(0, 2, (n + shift, n)).astype(dtype)
                    given = {"A": buffer[:n].copy(), "B": buffer[:n].copy()}
                    given[which] = buffer[shift:]
                    want = gpudist.minplus(
                        given["A"].copy(), given["B"].copy(), semiring=semiring, kernel=kernel.id
                    )
                    gpudist.minplus(**given, semiring=semiring, out=buffer[:n], kernel=kernel.id)
                    np.testing.assert_array_equal(buffer[:n], want, err_msg=kernel.id)


def test_perron_starts_from_a_part_of_its_matrix(device, rng):
    """It has no `out`; whatever shares memory stays as it is."""
    a = 1 + rng.random((60, 60))
    before = a.copy()
    for x0 in (a[0], a[:, 3], a[5, ::-1]):
        got = gpudist.perron(a, x0=x0, device=device)
        want = gpudist.perron(before.copy(), x0=x0.copy(), device=device)
        assert got.value == want.value
        np.testing.assert_array_equal(got.vector, want.vector)
    np.testing.assert_array_equal(a, before)


@given(
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(0, 40),
    st.integers(0, 40),
    st.tuples(st.sampled_from([-2, -1, 1, 2, 3]), st.sampled_from([-1, 1, 2])),
    st.sampled_from(["euclidean", "canberra", "cosine", "jaccard", "jensenshannon", "hamming"]),
    st.sampled_from(["float32", "float64"]),
)
def test_any_two_views_of_one_memory(m, d, at, start, steps, metric, dtype):
    """Where the operand begins, how it steps, and where the result begins."""
    rng = np.random.default_rng((m, d, at, start))
    flat = rng.random(600).astype(dtype)
    x = flat[at : at + 6 * m * d].reshape(3 * m, 2 * d)[:: steps[0], :: steps[1]][:m, :d]
    m, d = x.shape
    out = flat[start : start + m * m].reshape(m, m)
    want = gpudist.cdist(x.copy(), x.copy(), metric)
    assert gpudist.cdist(x, x, metric, out=out) is out
    np.testing.assert_array_equal(out, want)


# ---------------------------------------------------------------- how it is found out


def test_views_tell_where_elements_are():
    base = np.zeros((6, 5))
    at = base.ctypes.data
    for x, first, end in (
        (base, 0, 240),
        (base[1:3, 2:], 56, 120),
        (base[::-1], 0, 240),
        (base[4:0:-3, ::-2], 40, 200),
        (base.T, 0, 240),
        (np.broadcast_to(base[1], (9, 5)), 40, 80),
    ):
        assert arrays.HOST.view(x).span() == (at + first, at + end)
    begin, end = arrays.HOST.view(base[2:2]).span()
    assert begin == end


def test_views_of_other_libraries():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    space = arrays._LIBRARIES["torch"]
    x = torch.zeros(6, 5, dtype=torch.float64)
    at = x.data_ptr()
    assert space.view(x) == (at, (6, 5), (40, 8), "float64")
    assert space.view(x.t()[1:]).span() == (at + 8, at + 240)
    assert arrays.in_place(space, x[:], x) and not arrays.in_place(space, x.t(), x)
    assert arrays.overlap(space, x[3:], x[:4]) and not arrays.overlap(space, x[3:], x[:3])
    one, two = arrays.apart(space, {"XA": x[:2], "XB": x[3:]}, x[:1])
    assert one.data_ptr() != at and two.data_ptr() == at + 120
    a, b = arrays.apart(space, {"XA": x, "XB": x}, x)
    assert a is b and a is not x


def test_views_of_what_has_a_protocol_alone():
    space = arrays._OTHER
    for strides, found in ((None, (24, 8)), ((48, 16), (48, 16))):
        claims = Claims(data=(MEMORY, False), strides=strides)
        assert space.view(claims) == (MEMORY, (4, 3), found, "float64")
    for strides, found in ((None, (24, 8)), ((6, 2), (48, 16)), ((1, 4), (8, 32))):
        exports = Exporter(lambda strides=strides: Export(strides=strides, byte_offset=16))
        assert space.view(space.array(exports, "XA")) == (MEMORY + 16, (4, 3), found, "float64")


def test_what_cannot_be_copied_is_refused_by_name():
    def there(shape, at):
        return Exporter(lambda: Export(shape=shape, data=MEMORY + at))

    with pytest.raises(TypeError, match=r"XB shares memory with out: .*capsules\.Exporter; copy"):
        gpudist.cdist(there((4, 3), 1024), there((5, 3), 80), out=there((4, 5), 0))
    with pytest.raises(TypeError, match="graph shares memory with out"):
        gpudist.apsp(there((4, 4), 8), out=there((4, 4), 0))
    with pytest.raises(TypeError, match="C shares memory with out"):
        other = there((4, 4), 1024)
        gpudist.minplus(other, other, there((4, 4), 8), out=there((4, 4), 0))


def test_the_short_way_leaves_shared_memory_to_the_long_one():
    x = np.random.default_rng(0).random((6, 6))
    for operand in (x, x[1:, :5], x[:3]):
        assert _core.cdist_arrays(operand, operand, "euclidean", x) is None
    assert _core.cdist_arrays(x[:2, :2], x[:2, :2], "euclidean", x[4:, :2].copy()) is not None


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("metric", ["euclidean", "canberra", "cosine", "jaccard", "minkowski"])
def test_device_arrays_that_share_memory(library, metric, rng):
    module = pytest.importorskip(library, reason=f"{library} is missing")
    put = module.asarray if library == "cupy" else lambda x: module.as_tensor(x, device="cuda")
    host = rng.random((801, 800))
    for rows, turned in ((slice(0, 800), False), (slice(1, 801), False), (slice(0, 800), True)):
        buffer = put(host)
        inside = buffer[rows].T if turned else buffer[rows]
        x = host[rows].T if turned else host[rows]
        out = buffer[:800]
        assert gpudist.cdist(inside, inside, metric, out=out) is out
        want = gpudist.cdist(x, x, metric, device="cuda")
        np.testing.assert_array_equal(out.get() if library == "cupy" else out.cpu().numpy(), want)
    graph = rng.integers(1, 99, (301, 300)).astype("f4")
    buffer = put(graph)
    gpudist.apsp(buffer[1:], out=buffer[:300])
    got = buffer.get() if library == "cupy" else buffer.cpu().numpy()
    np.testing.assert_array_equal(got[:300], gpudist.apsp(graph[1:], device="cpu"))
