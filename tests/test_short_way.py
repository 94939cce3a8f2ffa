"""Small calls take a short way through the core, and what it does not know goes the long one."""

import numpy as np
import pytest

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7


def test_what_is_not_simple_goes_the_long_way():
    """What tensors on a device do is tested where there is one."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a, b = torch.as_tensor(A), torch.as_tensor(B)
    for x, y in ((A, B), (A, b), (a, B), (A.tolist(), B), (None, None), (torch, a)):
        assert _core.cdist_tensors(x, y, "euclidean") is None
    recorded = b.clone().requires_grad_()
    with torch.no_grad():
        for x, y in ((a, b[0]), (a, recorded), (a, b.float()), (a[:0], b), (a.flip(0).T, b.T)):
            assert _core.cdist_tensors(x, y, "euclidean") is None
            assert _core.nearest_tensors(x, y, 2, "euclidean") is None
    assert _core.cdist_tensors(a, b, metric=max, out=a) is None
    with pytest.raises(TypeError, match="lacks the argument 'metric'"):
        _core.cdist_tensors(a, b)
    np.testing.assert_array_equal(gpudist.cdist(a, b), gpudist.cdist(A, B))


def test_graphs_on_the_host_go_the_long_way(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    graph = torch.as_tensor(SQUARE)
    for thing in (SQUARE, graph, graph[None], SQUARE.tolist(), {"a": {"b": 1}}, None):
        assert _core.apsp_tensors(thing, False, 4) is None
    with pytest.raises(TypeError, match="lacks the argument 'few'"):
        _core.apsp_tensors(graph, True)
    asked = []
    monkeypatch.setattr(_core, "apsp_tensors", lambda *given: asked.append(given))
    gpudist.apsp(graph)
    gpudist.apsp(graph, return_predecessors=True)
    assert [given[1] for given in asked] == [False, True]
    gpudist.apsp(SQUARE)  # which is on the host
    for order in ({"unreachable": 0}, {"dtype": "float32"}, {"return_predecessors": False}):
        gpudist.apsp(graph, **order)
    gpudist.apsp(graph=graph)
    assert len(asked) == 2


SQUARE = np.arange(16.0).reshape(4, 4) ** 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "canberra", "chebyshev"])
def test_small_arrays_take_the_short_way(metric, dtype):
    wide = (SQUARE % 7 + 1).astype(dtype)
    for x, y in ((wide, wide[:3]), (wide[1:, :3], wide[:, 1:]), (wide[::2], wide[3:])):
        x.flags.writeable = False
        short = _core.cdist_arrays(x, y, metric)
        assert short.dtype == dtype and short.flags.writeable
        long = gpudist.cdist(x, y, metric, device="cpu", rows=slice(None))
        np.testing.assert_array_equal(short, long)
        np.testing.assert_array_equal(short, gpudist.cdist(x, y, metric))
        out = np.zeros_like(short)
        assert _core.cdist_arrays(x, y, metric, out, "cpu") is out
        np.testing.assert_array_equal(out, long)


ANY = {
    "integers": SQUARE.astype(int),
    "small integers": (SQUARE % 7).astype("u1"),
    "truths": SQUARE % 2 == 1,
    "halves": SQUARE.astype("f2"),
    "singles": SQUARE.astype("f4"),
    "another byte order": SQUARE.astype(">f8"),
    "long doubles": SQUARE.astype(np.longdouble),
    "columns that lie apart": SQUARE.T,
    "rows in reverse": SQUARE[::-1],
    "rows that are one": np.broadcast_to(SQUARE[0], (3, 4)),
    "not aligned": np.frombuffer(b"0" + SQUARE.tobytes(), "u1")[1:].view("f8").reshape(4, 4),
}
TAKEN = [
    metric.name
    for metric in gpudist.metrics.METRICS
    if metric.columns == 0 and not {"V", "VI"} & {*metric.arguments}
]
W = np.array([1.0, 0.0, 2.0, 0.5])
ARGUMENTS = (
    ("minkowski", {"p": 3}),
    ("minkowski", {"p": 1.5, "w": W}),
    ("minkowski", {"p": np.float64(2), "w": None}),
    ("minkowski", {"p": np.inf}),
    ("jensenshannon", {"base": 2}),
    ("cosine", {"w": W}),
    ("jaccard", {"w": W}),
    ("inner_product", {"w": None}),
    ("euclidean", {"w": [1.0, 0, 2, np.float64(0.5)]}),
    ("cosine", {"w": (1, 2, 3, 0.25)}),
    ("seuclidean", {"V": W + 1}),
    ("seuclidean", {"V": [0.25, 1, 2, 3.5]}),
    ("seuclidean", {"V": W[::-1] + 0.25, "box": 300}),
    ("euclidean", {"box": 3}),
    ("cityblock", {"box": np.array([3.0, 0.0, np.inf, 100.5]), "w": W}),
    ("chebyshev", {"box": [1, 2.5, 0, 7]}),
    ("minkowski", {"box": 2.5, "p": 3, "w": W}),
    ("sqeuclidean", {"box": None}),
    ("sqeuclidean", {"box": np.inf}),
    ("euclidean", {"box": [0, 0, np.inf, 0]}),
)


def pairs(square):
    return square[np.triu_indices(len(square), 1)]


def takes_the_short_way(x, y, metric, given, long):
    """Hold distances by the short way, with and without `out`, against those of the long one."""
    short = _core.cdist_arrays(x, y, metric, arguments=given)
    assert short.dtype == long.dtype and short.flags.c_contiguous
    np.testing.assert_array_equal(short, long)
    np.testing.assert_array_equal(gpudist.cdist(x, y, metric, **given), long)
    out = np.zeros_like(long)
    assert _core.cdist_arrays(x, y, metric, out, "cpu", arguments=given) is out
    np.testing.assert_array_equal(out, long)


@pytest.mark.parametrize("x", ANY.values(), ids=ANY)
@pytest.mark.parametrize(("metric", "given"), [*((name, {}) for name in TAKEN), *ARGUMENTS])
def test_numbers_of_any_type_take_the_short_way(x, metric, given):
    """So do metrics of numbers and truths, and arguments that are numbers or weights."""
    for y in (SQUARE, x):
        long = gpudist.cdist(x, y, metric, rows=slice(None), **given)
        takes_the_short_way(x, y, metric, given, long)
    condensed = _core.pdist_arrays(x, metric, arguments=given)
    assert condensed.dtype == long.dtype and condensed.shape == (len(x) * (len(x) - 1) // 2,)
    np.testing.assert_array_equal(condensed, pairs(long))
    np.testing.assert_array_equal(gpudist.pdist(x, metric, **given), condensed)
    out = np.zeros_like(condensed)
    assert _core.pdist_arrays(x, metric, out, "cpu", arguments=given) is out
    np.testing.assert_array_equal(out, condensed)


@pytest.mark.parametrize("x", [SQUARE, SQUARE.astype("f4"), SQUARE.astype(int)])
@pytest.mark.parametrize("given", [{}, {"w": W}], ids=["plain", "weighted"])
def test_the_short_way_knows_two_types_of_results(x, given):
    for dtype in ("float32", "float64", np.float32, np.float64):
        short = _core.cdist_arrays(x, SQUARE, "cityblock", dtype=dtype, arguments=given)
        long = gpudist.cdist(x, SQUARE, "cityblock", dtype=dtype, rows=slice(None), **given)
        assert short.dtype == long.dtype == dtype
        np.testing.assert_array_equal(short, long)
        np.testing.assert_array_equal(
            gpudist.cdist(x, SQUARE, "cityblock", dtype=dtype, **given), long
        )
        assert _core.pdist_arrays(x, "cityblock", dtype=dtype, arguments=given).dtype == dtype
    for dtype in ("float16", "f4", ">f8", np.dtype("f8"), float, int, np.float16, 8):
        assert _core.cdist_arrays(x, SQUARE, "cityblock", dtype=dtype, arguments=given) is None
    room = np.empty((4, 4), "f4")
    assert _core.cdist_arrays(x, SQUARE, "cityblock", room, None, "float64", given) is None
    assert _core.cdist_arrays(x, SQUARE, "cityblock", room, None, "float32", given) is room


def neighbours(x, y, k, metric, given, device=None, dtype=None):
    return _core.nearest_arrays(x, y, k, metric, device, dtype, given)


@pytest.mark.parametrize("x", ANY.values(), ids=ANY)
@pytest.mark.parametrize(("metric", "given"), [*((name, {}) for name in TAKEN), *ARGUMENTS])
def test_neighbours_of_few_points_take_the_short_way(x, metric, given):
    for y, k in ((SQUARE, 4), (x, 1), (None, len(x) - 1)):
        short = neighbours(x, y, k, metric, given)
        long = gpudist.knn(x, y, k, metric, rows=slice(None), **given)
        usual = gpudist.knn(x, y, k, metric, **given)
        assert type(usual) is type(long)
        for found in (short, usual):
            for one, other in zip(found, long, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)
        for one, other in zip(gpudist.nearest(x, y, metric, **given), long, strict=True):
            np.testing.assert_array_equal(one, other[:, 0])


def test_what_neighbours_leave_to_the_long_way():
    gaps = np.where(SQUARE == 9, np.nan, SQUARE)
    for x, y in ((gaps, SQUARE), (SQUARE, gaps), (gaps, None)):
        long = gpudist.knn(x, y, 3, rows=slice(None))
        for one, other in zip(neighbours(x, y, 3, "euclidean", {}), long, strict=True):
            np.testing.assert_array_equal(one, other)
    single = neighbours(SQUARE, None, 2, "euclidean", {}, "cpu", "float32")
    assert single[0].dtype == np.float32
    for k in (0, -1, 5, 1 << 80, 2.0, True, np.int64(2), None, "2"):
        assert neighbours(SQUARE, SQUARE, k, "euclidean", {}) is None
    assert neighbours(SQUARE, None, 4, "euclidean", {}) is None
    assert neighbours(SQUARE, SQUARE, 2, "euclidean", {}, "cuda") is None
    assert neighbours(SQUARE, SQUARE, 2, "euclidean", {}, None, "float16") is None
    assert neighbours(SQUARE, SQUARE[:, 1:], 2, "euclidean", {}) is None
    assert neighbours(SQUARE.tolist(), None, 2, "euclidean", {}) is None
    many = np.ones((1000, 500))
    assert neighbours(many, None, 2, "euclidean", {}) is None
    for metric, given in ODD.values():
        assert neighbours(SQUARE, SQUARE, 2, metric, given) is None


@pytest.mark.parametrize(
    "order",
    [
        {"max_memory": 1 << 20},
        {"rows": slice(1, 3)},
        {"progress": lambda done, total: None},
        {"kernel": "reference"},
        {"device": "cpu"},
        {"dtype": "float32"},
        {"index_dtype": "int32"},
    ],
    ids=lambda order: next(iter(order)),
)
def test_neighbours_of_tensors_with_orders_go_the_long_way(order, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    asked = []
    monkeypatch.setattr(_core, "nearest_tensors", lambda *given: asked.append(given))
    a = torch.as_tensor(A)
    gpudist.knn(a, k=2)
    gpudist.nearest(a, a, "cityblock")
    gpudist.knn(a, a, 1, w=[1, 2, 3])
    plain = [(a, None, 2, "euclidean", {}), (a, a, 1, "cityblock", {})]
    assert asked == [*plain, (a, a, 1, "euclidean", {"w": [1, 2, 3]})]
    gpudist.knn(a, k=2, **order)
    gpudist.nearest(a, **order)
    assert len(asked) == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_products_take_the_short_way(dtype):
    a, b = SQUARE.astype(dtype), SQUARE.astype(dtype)[:, 1:]
    a[1, 2], a[2, 0] = np.inf, np.nan
    for x, y in ((a, b), (a[::-1], b), (a.T, b), (a, b.astype(">" + b.dtype.str[1:]))):
        for semiring in ("min_plus", "max_plus", "min_max", "max_min"):
            short = _core.minplus_arrays(x, y, semiring, None, None)
            long = gpudist.minplus(x, y, semiring=semiring, out=np.empty((4, 3), dtype))
            assert short.dtype == dtype
            np.testing.assert_array_equal(short, long)
            np.testing.assert_array_equal(gpudist.minplus(x, y, semiring=semiring), long)
            np.testing.assert_array_equal(_core.minplus_arrays(x, y, semiring, "cpu", None), long)
    for x, y in ((SQUARE, a), (a, SQUARE.astype("f2")), (a, a)):
        for asked in (None, "float32", np.float64):
            short = _core.minplus_arrays(x, y, "min_plus", None, asked)
            long = gpudist.minplus(x, y, dtype=asked, max_memory=1 << 30)
            assert short.dtype == long.dtype
            np.testing.assert_array_equal(short, long)
            np.testing.assert_array_equal(gpudist.minplus(x, y, dtype=asked), long)


def test_what_products_leave_to_the_long_way():
    stack, many = SQUARE[None], np.ones((600, 600))
    for x, y in (
        (SQUARE.astype(int), SQUARE),
        (SQUARE.astype(int), SQUARE.astype(int)),
        (SQUARE > 1, SQUARE > 1),
        (SQUARE.tolist(), SQUARE),
        (SQUARE, SQUARE[1:]),
        (SQUARE[:0], SQUARE),
        (stack, stack),
        (np.ma.masked_array(SQUARE), SQUARE),
        (many, many),
        (None, SQUARE),
    ):
        assert _core.minplus_arrays(x, y, "min_plus", None, None) is None
    for semiring, device in (("or_and", None), ("plus", None), (None, None), ("min_plus", "cuda")):
        assert _core.minplus_arrays(SQUARE, SQUARE, semiring, device, None) is None
    assert _core.minplus_arrays(SQUARE, SQUARE, "min_plus", None, "int32") is None
    with pytest.raises(ValueError, match="unknown semiring 'plus'"):
        gpudist.minplus(SQUARE, SQUARE, semiring="plus")


@pytest.mark.parametrize("size", [2.0**-49, 2.0**49, np.inf, np.nan])
def test_weights_that_float32_cannot_sum_go_the_long_way(size):
    weights = np.array([1.0, 0.0, size, 0.5])
    for dtype in ("float32", "float64"):
        short = _core.cdist_arrays(SQUARE, SQUARE, "cityblock", None, None, dtype, {"w": weights})
        assert (short is None) == (dtype == "float32") and not _core.weights_fit(weights)


ODD = {
    "a list of texts": ("euclidean", {"w": ["1", "2", "3", "4"]}),
    "a list of truths": ("euclidean", {"w": [True] * 4}),
    "a list of lists": ("euclidean", {"w": [W.tolist()] * 4}),
    "a long list": ("euclidean", {"w": [1.0] * 5}),
    "weights below 0 in a list": ("euclidean", {"w": [1, 1, -1, 1]}),
    "weights beyond all numbers": ("euclidean", {"w": [1 << 2000] * 4}),
    "single weights": ("euclidean", {"w": W.astype("f4")}),
    "weights apart": ("euclidean", {"w": np.repeat(W, 2)[::2]}),
    "too few weights": ("euclidean", {"w": W[1:]}),
    "a weight below 0": ("euclidean", {"w": -W}),
    "weights of a largest difference": ("chebyshev", {"w": W}),
    "those of minkowski's": ("minkowski", {"w": W, "p": np.inf}),
    "weights that it does not take": ("inner_product", {"w": W}),
    "an exponent that it does not take": ("euclidean", {"p": 3}),
    "an exponent of 0": ("minkowski", {"p": 0}),
    "no number": ("minkowski", {"p": np.nan}),
    "too large a number": ("minkowski", {"p": 1 << 2000}),
    "a truth": ("minkowski", {"p": True}),
    "a text": ("minkowski", {"p": "3"}),
    "a base of 1": ("jensenshannon", {"base": 1}),
    "a base below 0": ("jensenshannon", {"base": -2.0}),
    "a base that it does not take": ("minkowski", {"base": 2.0}),
    "a box for another metric": ("cosine", {"box": 2.0}),
    "no box for another metric": ("cosine", {"box": None}),
    "a box of no length": ("euclidean", {"box": np.nan}),
    "a box below 0": ("euclidean", {"box": [1, 1, -1, 1]}),
    "a subnormal box": ("euclidean", {"box": 5e-324}),
    "a box of too many columns": ("euclidean", {"box": [1.0] * 5}),
    "a box of a text": ("euclidean", {"box": "2"}),
    "a box of single numbers": ("euclidean", {"box": W.astype("f4")}),
    "another name": ("euclidean", {"weights": None}),
    "variances for another metric": ("euclidean", {"V": W}),
    "variances below 0": ("seuclidean", {"V": -W - 1}),
    "variances that are no numbers": ("seuclidean", {"V": W * np.nan}),
    "no variances": ("seuclidean", {}),
    "variances of None": ("seuclidean", {"V": None}),
    "a matrix": ("mahalanobis", {"VI": np.eye(4)}),
    "radians": ("haversine", {}),
    "no dictionary": ("euclidean", []),
}


@pytest.mark.parametrize(("metric", "given"), ODD.values(), ids=ODD)
def test_other_arguments_go_the_long_way(metric, given):
    assert _core.cdist_arrays(SQUARE, SQUARE, metric, arguments=given) is None
    assert _core.pdist_arrays(SQUARE, metric, arguments=given) is None


def test_variances_that_have_no_reciprocal_are_read_as_ever():
    given = {"V": np.array([5e-324, 3.0, np.inf, 1.0])}
    short = _core.cdist_arrays(SQUARE, SQUARE, "seuclidean", arguments=given)
    long = gpudist.cdist(SQUARE, SQUARE, "seuclidean", rows=slice(None), **given)
    np.testing.assert_array_equal(short, long)
    assert not short.diagonal().any()


def test_weights_that_the_result_overwrites_go_the_long_way():
    room = np.ones((4, 4))
    for w in (room[1], room.reshape(-1)[2:6]):
        assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", room, arguments={"w": w}) is None
    apart = {"w": np.ones(4)}
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", room, arguments=apart) is room


OTHERS = {
    "a list": (SQUARE.tolist(), "euclidean"),
    "complex numbers": (SQUARE.astype(complex), "euclidean"),
    "objects": (SQUARE.astype(object), "euclidean"),
    "times": (SQUARE.astype("m8[s]"), "euclidean"),
    "no rows": (SQUARE[:0], "euclidean"),
    "no columns": (SQUARE[:, :0], "euclidean"),
    "other columns": (SQUARE[:, :3], "euclidean"),
    "one dimension": (SQUARE[0], "euclidean"),
    "a subclass": (np.ma.masked_array(SQUARE), "euclidean"),
    "a large result": (np.ones((1 << 17, 4)), "euclidean"),
    "many matrices of a large result": (np.ones((1 << 18, 2, 4)), "euclidean"),
    "no matrices": (np.ones((0, 4, 4)), "euclidean"),
    "no metric": (SQUARE, "euclid"),
    "a callable": (SQUARE, max),
}


@pytest.mark.parametrize(("x", "metric"), OTHERS.values(), ids=OTHERS)
def test_other_arrays_go_the_long_way(x, metric):
    assert _core.cdist_arrays(x, SQUARE, metric) is None
    if np.shape(x) != (4, 3):
        assert _core.pdist_arrays(x, metric) is None
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean") is not None


OUTS = {
    "another shape": np.empty((3, 4)),
    "another dtype": np.empty((4, 4), "f4"),
    "another order": np.empty((4, 4), order="F"),
    "rows apart": np.empty((4, 5))[:, :4],
    "a subclass": np.ma.empty((4, 4)),
    "no array": [[0.0] * 4] * 4,
}


@pytest.mark.parametrize("out", OUTS.values(), ids=OUTS)
def test_other_results_go_the_long_way(out):
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", out) is None
    assert _core.pdist_arrays(SQUARE, "euclidean", out) is None


def test_what_the_short_way_leaves_to_the_long_one():
    fixed = np.empty((4, 4))
    fixed.flags.writeable = False
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", fixed) is None
    for device in ("cuda", "cuda:1", "nowhere", 3, b"cpu"):
        assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", None, device) is None
        assert _core.pdist_arrays(SQUARE, "euclidean", None, device) is None
    assert _core.pdist_arrays(SQUARE[:1], "euclidean") is None
    # A call that can be stopped says how much of the caller's array is written.
    x = np.ones((100, 2000))
    assert _core.cdist_arrays(x, x, "euclidean", np.empty((100, 100))) is None
    assert _core.cdist_arrays(x, x, "euclidean") is not None


# Shapes of batches that go together.
BATCHES = (
    ((3, 4, 4), (4, 4)),
    ((4, 4), (2, 3, 5, 4)),
    ((2, 1, 4, 4), (3, 1, 4)),
    ((5, 2, 4), (5, 3, 4)),
    ((1, 1, 3, 4), (1, 2, 4)),
)


def some(shape, dtype="f8"):
    return (np.arange(np.prod(shape)) * 7 % 31).reshape(shape).astype(dtype)


def views(x):
    """The same numbers, as they may lie."""
    yield x
    yield np.repeat(np.repeat(x, 2, -1), 3, 0)[::3, ..., ::2]
    yield np.ascontiguousarray(x[::-1])[::-1]
    yield np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    yield np.broadcast_to(x, (2, *x.shape))[1]


@pytest.mark.parametrize(("first", "second"), BATCHES)
@pytest.mark.parametrize(
    ("metric", "given"), [("euclidean", {}), ("jaccard", {}), ("canberra", {}), *ARGUMENTS[:3]]
)
def test_batches_take_the_short_way(first, second, metric, given):
    """Calls with options take the long one, and give the same bits."""
    for dtypes in (("f8", "f8"), ("f4", "f4"), ("i4", ">f4"), ("bool", "bool")):
        a, b = map(some, (first, second), dtypes)
        for x, y in zip(views(a), views(b), strict=True):
            long = gpudist.cdist(x, y, metric, options={}, **given)
            takes_the_short_way(x, y, metric, given, long)
        condensed = _core.pdist_arrays(a, metric, arguments=given)
        np.testing.assert_array_equal(condensed, gpudist.pdist(a, metric, options={}, **given))
        np.testing.assert_array_equal(gpudist.pdist(a, metric, **given), condensed)


def test_large_batches_take_the_short_way_too():
    """Python's lock is let go of, and the team shares them."""
    x = np.random.default_rng(0).random((300, 20, 6))
    np.testing.assert_array_equal(
        _core.cdist_arrays(x, x, "minkowski"), gpudist.cdist(x, x, "minkowski", options={})
    )
    np.testing.assert_array_equal(
        _core.pdist_arrays(x, "cosine"), gpudist.pdist(x, "cosine", options={})
    )


def test_what_batches_leave_to_the_long_way():
    x, y = some((3, 4, 4)), some((3, 5, 4))
    for a, b in ((x, y[:2]), (x, y[..., :3]), (x[:0], y), (x, y[0, 0])):
        assert _core.cdist_arrays(a, b, "euclidean") is None
        with pytest.raises(ValueError, match="XB"):
            gpudist.cdist(a, b)
    for a, b in ((x[:0], y[:1]), (x[:, :0], y), (x, y[:, :0])):
        assert _core.cdist_arrays(a, b, "euclidean") is None
        assert gpudist.cdist(a, b).size == 0
    assert _core.pdist_arrays(x[:, :1], "euclidean") is None
    huge = np.broadcast_to(SQUARE[0], (1 << 40, 4))
    for a in (huge, np.broadcast_to(SQUARE, (1 << 40, 4, 4))):
        assert _core.cdist_arrays(a, x, "euclidean") is None
        assert _core.pdist_arrays(a, "euclidean") is None
    room = np.empty((3, 4, 5))
    for out in (room[:2], room[0], room.astype("f4"), np.empty((3, 4, 6))[..., :5], room.T):
        assert _core.cdist_arrays(x, y, "euclidean", out) is None
    fixed = room.copy()
    fixed.flags.writeable = False
    assert _core.cdist_arrays(x, y, "euclidean", fixed) is None
    memory = some(100)
    inside, across = memory[:60].reshape(3, 4, 5), memory[40:].reshape(3, 5, 4)
    assert _core.cdist_arrays(x, across, "euclidean", inside) is None
    assert _core.cdist_arrays(x, y, "euclidean", inside, arguments={"w": memory[59:63]}) is None
    assert _core.cdist_arrays(x, y, "euclidean", inside, arguments={"w": memory[60:64]}) is inside
    long = gpudist.cdist(x, across.copy())
    np.testing.assert_array_equal(gpudist.cdist(x, across, out=inside), long)


@pytest.mark.parametrize(("first", "second"), BATCHES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_batches_of_tensors_take_the_short_way(first, second, dtype):
    """Calls with a dtype take the long one, and give the same bits."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a, b = (torch.as_tensor(some(shape, dtype)) for shape in (first, second))
    if _core.cdist_tensors(a, b, "euclidean") is None:
        pytest.skip("this PyTorch has no exchange table of DLPack")
    for x, y in ((a, b), (a, b.expand(2, *second)[1]), (torch.stack([a, a], -2)[..., 1, :], b)):
        for metric in ("euclidean", "cosine", "minkowski"):
            short = _core.cdist_tensors(x, y, metric)
            long = gpudist.cdist(x, y, metric, dtype=x.dtype)
            assert type(short) is torch.Tensor and short.is_contiguous()
            assert short.dtype is x.dtype and torch.equal(short, long)
            assert torch.equal(gpudist.cdist(x, y, metric), long)
            out = torch.empty_like(long)
            assert _core.cdist_tensors(x, y, metric, out) is out and torch.equal(out, long)
    for metric in ("euclidean", "canberra"):
        short = _core.pdist_tensors(a, metric)
        assert torch.equal(short, gpudist.pdist(a, metric, dtype=a.dtype))
        assert torch.equal(short, gpudist.pdist(a, metric))
        out = torch.empty_like(short)
        assert gpudist.pdist(a, metric, out=out) is out and torch.equal(out, short)


def test_what_batches_of_tensors_leave_to_the_long_way():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    x, y = torch.as_tensor(some((3, 4, 4))), torch.as_tensor(some((3, 5, 4)))
    learned, negated = x.clone().requires_grad_(), torch.complex(x, -x).conj().imag
    turned = x.mT
    for a, b in ((x, y[:2]), (x, y.float()), (x.half(), y.half()), (x[:0], y), (turned, y)):
        assert _core.cdist_tensors(a, b, "euclidean") is None
    for odd in (learned, negated, x.int(), x.to_sparse(), x.numpy(), torch.nn.Parameter(x), None):
        with torch.no_grad():
            assert _core.cdist_tensors(odd, y, "euclidean") is None
            assert _core.cdist_tensors(y, odd, "euclidean") is None
            assert _core.pdist_tensors(odd, "euclidean") is None
    for metric in ("jaccard", "seuclidean", "Euclidean", max):
        assert _core.pdist_tensors(x, metric) is None
    assert _core.pdist_tensors(x[:, :1], "euclidean") is None
    room = torch.empty(3, 4, 5, dtype=x.dtype)
    for out in (room[:2], room.float(), room.mT, room.clone().requires_grad_(), room.numpy(), 3):
        assert _core.cdist_tensors(x, y, "euclidean", out) is None
    assert _core.cdist_tensors(x, y, "euclidean", room) is room
    # What records is read where the caller knows about it.
    known = _core.cdist_tensors(learned, y, "minkowski", None, {"p": 3.0}, True)
    assert not known.requires_grad and torch.equal(known, gpudist.cdist(x, y, "minkowski", p=3))
    with pytest.raises(TypeError, match="lacks the argument 'metric'"):
        _core.pdist_tensors(x)


@pytest.mark.parametrize(("metric", "given"), [("euclidean", {}), ("cosine", {}), *ARGUMENTS])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tensors_with_arguments_take_the_short_way(metric, given, dtype):
    """Calls with a dtype, or for rows, take the long one, and give the same bits."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    x, y = torch.as_tensor(some((6, 4), dtype)), torch.as_tensor(some((2, 5, 4), dtype))
    if _core.cdist_tensors(x, x, "euclidean") is None:
        pytest.skip("this PyTorch has no exchange table of DLPack")
    short = _core.cdist_tensors(x, y, metric, None, given)
    if metric == "jaccard":
        assert short is None  # not a metric of numbers
        return
    assert torch.equal(short, gpudist.cdist(x, y, metric, dtype=x.dtype, **given))
    assert torch.equal(short, gpudist.cdist(x, y, metric, **given))
    short = _core.pdist_tensors(x, metric, None, given)
    assert torch.equal(short, gpudist.pdist(x, metric, dtype=x.dtype, **given))
    assert torch.equal(short, gpudist.pdist(x, metric, **given))
    for points, k in ((y[0], 3), (None, 5)):
        usual = gpudist.knn(x, points, k, metric, rows=slice(None), **given)
        for found in (
            _core.nearest_tensors(x, points, k, metric, given),
            gpudist.knn(x, points, k, metric, **given),
        ):
            for one, other in zip(found, usual, strict=True):
                assert one.dtype is other.dtype and torch.equal(one, other)
        for one, other in zip(gpudist.nearest(x, points, metric, **given), usual, strict=True):
            assert torch.equal(one, other[:, 0])


def test_what_tensors_with_arguments_leave_to_the_long_way():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    x = torch.as_tensor(some((6, 4)))
    for metric, given in ODD.values():
        assert _core.cdist_tensors(x, x, metric, None, given) is None
        assert _core.nearest_tensors(x, x, 2, metric, given) is None
    huge = {"w": np.array([1.0, 2.0**60, 1.0, 1.0])}
    assert _core.cdist_tensors(x.float(), x.float(), "euclidean", None, huge) is None
    assert _core.cdist_tensors(x, x, "euclidean", None, huge) is not None
    room = torch.ones(6, 6, dtype=x.dtype)
    weights = {"w": room[0, :4].numpy()}
    assert _core.cdist_tensors(x, x, "euclidean", room, weights) is None
    many = torch.ones(1000, 500)
    assert _core.nearest_tensors(many, None, 2, "euclidean") is None
    wide = np.ones((2, 65))
    for given in ({"w": [1.0] * 65}, {"box": 2.0}, {"box": np.ones(65)}):
        assert _core.cdist_arrays(wide, wide, "euclidean", arguments=given) is None
    assert _core.cdist_arrays(wide, wide, "euclidean", arguments={"w": np.ones(65)}) is not None
    assert _core.cdist_arrays(wide, wide, "seuclidean", arguments={"V": np.ones(65)}) is None


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_tensors_take_the_short_way(dtype):
    """Calls with a dtype take the long one, and give the same bits."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a, b = torch.as_tensor(some((6, 4), dtype)), torch.as_tensor(some((4, 8), dtype))[:, 1:6]
    if _core.minplus_tensors(a, b, "min_plus") is None:
        pytest.skip("this PyTorch has no exchange table of DLPack")
    for semiring in ("min_plus", "max_plus", "min_max", "max_min"):
        short = _core.minplus_tensors(a, b, semiring)
        assert type(short) is torch.Tensor and short.dtype is a.dtype
        assert torch.equal(short, gpudist.minplus(a, b, semiring=semiring, dtype=a.dtype))
        assert torch.equal(short, gpudist.minplus(a, b, semiring=semiring))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_products_of_tensors_leave_to_the_long_way(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a = torch.as_tensor(some((4, 4)))
    learned, stack = a.clone().requires_grad_(), a[None]
    for x, y in ((a, a[1:]), (a, a.float()), (a.int(), a.int()), (a, learned), (learned, a)):
        assert _core.minplus_tensors(x, y, "min_plus") is None
    for x, y in ((a, a.T), (stack, a), (a[:0], a), (a, a.numpy()), (a.numpy(), a), (None, a)):
        assert _core.minplus_tensors(x, y, "min_plus") is None
    for semiring in ("or_and", "plus", None):
        assert _core.minplus_tensors(a, a, semiring) is None
    many = torch.ones(600, 600)
    assert _core.minplus_tensors(many, many, "min_plus") is None
    with pytest.raises(TypeError, match="requires gradients"):
        gpudist.minplus(a, learned)
    asked = []
    monkeypatch.setattr(_core, "minplus_tensors", lambda *given: asked.append(given))
    gpudist.minplus(a, a)
    for order in ({"C": a}, {"out": a.clone()}, {"dtype": a.dtype}, {"device": "cpu"}):
        gpudist.minplus(a, a, **order)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a.clone(), a)
        with pytest.raises(TypeError, match="requires gradients"):
            gpudist.minplus(dual, a)
    assert asked == [(a, a, "min_plus")]
