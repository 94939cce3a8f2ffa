"""Every metric: SciPy's answers, independent formulas, exact ones, and what never changes a bit."""

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.special
from conftest import (
    LAYOUTS,
    LP,
    RECORDS,
    SCIPY,
    SCIPY_WEIGHS_YULE,
    TRUTHS,
    ZERO_AT_HOME,
    assert_close,
    forms,
    points,
    relay,
    scipy_cdist,
    scipy_pdist,
    tolerance,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import gpudist
from gpudist import _core

DTYPES = ["float64", "float32", "int64", "int8", "bool", "float16", "uint16", ">f8", ">i4"]

# Who answers: both backends, and the plain formulas that kernels are held against.
ways = pytest.mark.parametrize(
    "way",
    [{"device": "cpu"}, pytest.param({"device": "cuda"}, marks=pytest.mark.gpu),
     {"kernel": "reference"}],
    ids=["cpu", "cuda", "reference"],
)  # fmt: skip

# ---------------------------------------------------------------- edges, literally

nan, inf = np.nan, np.inf
EDGE_ROWS = {
    "zeros": ([0, 0, 0], [0, 0, 0]),
    "one_zero": ([0, 0, 0], [1, 1, 3]),
    "negative": ([-1, 1, 2], [1, 1, 3]),
    "no_columns": ([], []),
    "nan": ([nan, 1, 2], [1, 1, 3]),
    "nan_nan": ([nan, 0, 2], [nan, 0, 2]),
    "inf": ([inf, 1, 2], [1, 1, 3]),
    "inf_inf": ([inf, 1, 2], [inf, 1, 3]),
    "inf_-inf": ([inf, 1, 2], [-inf, 1, 3]),
    "w=0": ([-1, 1, 2], [1, 1, 3]),
}
# What docs/promises.md copies from SciPy, whatever SciPy is installed. minkowski has p = 3,
# seuclidean V = (1, 2, 1), mahalanobis the unit matrix; "-" is not promised, or there are no
# weights.
EDGES = """
                 zeros  one_zero       negative        no_columns  nan  nan_nan  inf  inf_inf  inf_-inf  w=0
euclidean        0      3.31662479036  2.2360679775    0           nan  nan      inf  nan      inf       0
sqeuclidean      0      11             5               0           nan  nan      inf  nan      inf       0
cityblock        0      5              3               0           nan  nan      inf  nan      inf       0
chebyshev        0      3              2               0           1    0        inf  1        inf       0
minkowski        0      3.07231682569  2.08008382305   0           nan  nan      inf  nan      inf       0
seuclidean       0      3.2403703492   2.2360679775    0           nan  nan      inf  nan      inf       -
mahalanobis      0      3.31662479036  2.2360679775    0           nan  nan      nan  nan      nan       -
canberra         0      3              1.2             0           nan  nan      nan  nan      nan       0
braycurtis       nan    1              0.428571428571  nan         nan  nan      nan  nan      nan       nan
cosine           nan    nan            0.261451054124  nan         nan  nan      nan  nan      nan       nan
correlation      nan    nan            0.244071053982  nan         nan  nan      nan  nan      nan       nan
inner_product    0      0              6               0           nan  nan      inf  inf      -inf      -
hamming          0      1              0.666666666667  nan  0.666666666667  0.333333333333  0.666666666667  0.333333333333  0.666666666667  nan
jensenshannon    inf    inf            inf             inf         nan  0        nan  0        inf       -
kl_divergence    0      0              inf             0           nan  nan      inf  -        inf       -
hellinger        1      1              nan             1           nan  nan      -    -        nan       -
dice             nan    1              -0.714285714286 nan         nan  nan      nan  nan      nan       nan
jaccard          0      1              0               0           0    0        0    0        0         0
kulczynski1      nan    0              inf             nan         inf  inf      inf  inf      inf       nan
rogerstanimoto   0      1              0               nan         0    0        0    0        0         nan
sokalmichener    0      1              0               nan         0    0        0    0        0         nan
russellrao       1      1              0               nan         0    0.333333333333  0  0  0         nan
sokalsneath      nan    1              0               nan         0    0        0    0        0         nan
yule             0      0              0               0           0    0        0    0        0         0
"""  # noqa: E501


def edges():
    head, *lines = [line.split() for line in EDGES.strip().splitlines()]
    known = {line[0] for line in lines}
    wanted = set(RECORDS) - {"haversine"}
    assert known == wanted, (
        f"EDGES must have a line of each metric but haversine: {known ^ wanted} differ"
    )
    for metric, *values in lines:
        for case, value in zip(head, values, strict=True):
            if value != "-":
                yield pytest.param(metric, case, float(value), id=f"{metric}-{case}")


def edge_arguments(metric, case, d):
    if case == "w=0":
        return {"w": np.zeros(d)}
    return {
        "minkowski": {"p": 3},
        "seuclidean": {"V": np.array([1.0, 2, 1])[:d]},
        "mahalanobis": {"VI": np.eye(d)},
    }.get(metric, {})


@ways
@pytest.mark.parametrize(("metric", "case", "expected"), list(edges()))
def test_edges(metric, case, expected, way):
    x, y = (np.array(row, float).reshape(1, -1) for row in EDGE_ROWS[case])
    args = edge_arguments(metric, case, x.shape[1]) | way
    for dtype in ("float64", "float32"):
        a, b = x.astype(dtype), y.astype(dtype)
        one = gpudist.cdist(a, b, metric, **args)
        pair = gpudist.pdist(np.vstack([a, b]), metric, **args)
        many = gpudist.cdist(np.repeat(a, 5, axis=0), np.repeat(b, 70, axis=0), metric, **args)
        for got in (one, pair, many):
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, 1e-11 if dtype == "float64" else 1e-6)


@ways
def test_no_rows_give_an_empty_result(way):
    for metric, record in RECORDS.items():
        d = record.columns or 3
        args = {"mahalanobis": {"VI": np.eye(3)}}.get(metric, {}) | way
        rows = np.ones((2, d))
        for m, n in ((0, 2), (2, 0), (0, 0)):
            assert gpudist.cdist(rows[:m], rows[:n], metric, **args).shape == (m, n)
        for n in (0, 1):
            assert gpudist.pdist(rows[:n], metric, **args).shape == (0,)


# ---------------------------------------------------------------- SciPy, whatever goes in


def small_rows(data, dtype, rng):
    """Whole numbers, which every dtype holds, so that sums are exact and ties are ties."""
    dtype = np.dtype(dtype)
    a, b = rng.integers(-3, 4, (6, 7)), rng.integers(-3, 4, (5, 7))
    if data != "negative":
        a, b = np.abs(a), np.abs(b)
    b[1] = a[2]
    if data == "zero rows":
        a[3] = b[2] = 0
    if data == "constant columns":
        a[:, 2] = b[:, 2] = 2
    if data == "no columns":
        a, b = a[:, :0], b[:, :0]
    if data == "one column":
        a, b = a[:, :1], b[:, :1]
    if data == "one row":
        a = a[:1]
    if data == "no rows":
        a = a[:0]
    if dtype.kind in "bu":
        a, b = np.abs(a), np.abs(b)
    a, b = (a > 1, b > 1) if dtype.kind == "b" else (a.astype(dtype), b.astype(dtype))
    if data == "nan":
        a[1, 2] = b[1, 2] = b[3, 4] = nan
    if data == "inf":
        a[1, 2], b[1, 2], b[3, 2] = inf, inf, -inf
    return a, b


DATA = [
    "plain", "negative", "zero rows", "constant columns", "no columns", "one column", "one row",
    "no rows", "nan", "inf",
]  # fmt: skip


def weights(rng, d):
    yield "none", {}
    yield "random", {"w": rng.uniform(0.1, 3, d)}
    yield "ones", {"w": np.ones(d)}
    yield "whole", {"w": rng.integers(1, 4, d)}
    yield "some zero", {"w": np.arange(d) % 2}
    yield "all zero", {"w": np.zeros(d)}
    yield "list", {"w": [2.0] * d}


def arguments(metric, rng, d):
    """Yield every way in which SciPy lets the metric be called."""
    takes = RECORDS[metric].arguments
    weighs = "w" in takes and (metric != "yule" or SCIPY_WEIGHS_YULE)
    for label, weighed in weights(rng, d) if weighs else [("none", {})]:
        for p in (1, 2, 3, 4, 0.5, 2.5, inf) if "p" in takes else (None,):
            yield f"w {label}, p {p}", weighed | ({} if p is None else {"p": p})
    if "V" in takes:
        yield "V", {"V": rng.uniform(0.5, 2, d)}
        yield "V with zero", {"V": np.arange(d) % 3}
    if "VI" in takes:
        yield "VI", {"VI": np.eye(d) + rng.uniform(0, 0.1, (d, d))}
        yield "indefinite VI", {"VI": rng.normal(size=(d, d))}


def scipys_tolerance(metric, label):
    """Sums are exact or nearly so; roots of what cancels in SciPy are not."""
    if metric == "jensenshannon":
        return 1e-12, 3e-8
    # The sign of a form decides between a small root and NaN; those next to 0 are left out below.
    return 1e-11 if label.endswith("VI") else 2e-13, 1e-14


@ways
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", sorted(SCIPY))
def test_scipy_gives_the_same(metric, dtype, way, rng):
    for data in DATA:
        if data in ("nan", "inf") and np.dtype(dtype).kind != "f":
            continue
        a, b = small_rows(data, dtype, rng)
        exact = [x.astype(bool if dtype == "bool" else np.float64) for x in (a, b)]
        for label, args in arguments(metric, rng, a.shape[1]):
            if metric == "mahalanobis" and "VI" not in args:
                continue  # too few rows; the next test has enough
            x, y = exact
            what = f"{data}, {label}"
            rtol, atol = scipys_tolerance(metric, label)
            got = gpudist.cdist(a, b, metric, dtype=np.float64, **args, **way)
            assert_close(got, scipy_cdist(x, y, metric, **args), rtol, atol, what)
            got = gpudist.pdist(b, metric, dtype=np.float64, **args, **way)
            assert_close(got, scipy_pdist(y, metric, **args), rtol, atol, what)
            if dtype == "float32":
                got = gpudist.cdist(a, b, metric, **args, **way)
                assert got.dtype == np.float32
                assert_close(got, scipy_cdist(x, y, metric, **args), 2e-6, 1e-6, what)


@ways
def test_defaults_of_v_and_vi_are_scipys(way, rng):
    for dtype in ("float64", "float32", "int32"):
        a = (10 * rng.normal(size=(30, 5))).astype(dtype)
        b = (10 * rng.normal(size=(12, 5)) + 100).astype(dtype)
        rtol = 1e-5 if dtype == "float32" else 1e-11
        for metric in ("seuclidean", "mahalanobis"):
            x, y = a.astype(float), b.astype(float)
            assert_close(gpudist.cdist(a, b, metric, **way), scipy_cdist(x, y, metric), rtol)
            assert_close(gpudist.pdist(a, metric, **way), scipy_pdist(x, metric), rtol)
    one = np.arange(5.0)[:, None] ** 2  # a single column's covariance is a number
    assert_close(gpudist.pdist(one, "mahalanobis", **way), scipy_pdist(one, "mahalanobis"), 1e-12)


@ways
def test_a_variance_beyond_float64_is_refused(way, rng):
    """By an infinite one, all distances would be 0."""
    x = rng.random((5, 3)) * [1.0, 1e200, 1.0]
    for call in (
        lambda **v: gpudist.cdist(x, x, "seuclidean", **v, **way),
        lambda **v: gpudist.pdist(x, "seuclidean", **v, **way),
    ):
        with pytest.raises(ValueError, match="variance of column 1 is beyond the range of float64"):
            call()
        call(V=[1, np.inf, 1])  # which was meant
    y = x / [1.0, 2.0**660, 1.0]
    assert_close(gpudist.pdist(y, "seuclidean", **way), scipy_pdist(y, "seuclidean"), 1e-12)


@ways
@pytest.mark.parametrize("element", [np.nan, np.inf])
def test_a_vi_that_is_no_number_spares_no_row(element, way, rng):
    """Equal rows are at distance 0 only by a matrix of numbers, in SciPy as here."""
    x, vi = rng.random((40, 3)), np.eye(3)
    vi[1, 1] = element
    found = gpudist.cdist(x, x, "mahalanobis", VI=vi, **way)
    assert np.isnan(found.diagonal()).all()
    assert np.isnan(found).all() == np.isnan(element)
    vi[1, 1] = -1.0  # which is not positive definite
    assert not gpudist.cdist(x, x, "mahalanobis", VI=vi, **way).diagonal().any()


@ways
def test_jensenshannon_takes_a_base(way, rng):
    """SciPy's takes it for two vectors alone."""
    a, b = points(rng, 5, 9, "jensenshannon", "float64"), points(rng, 6, 9, "jensenshannon", "f8")
    for base in (2, 10.0, np.int8(3), 0.5):
        with np.errstate(invalid="ignore"):  # below 1 it is the root of a negative number
            js = scipy.spatial.distance.jensenshannon
            expected = [[js(x, y, float(base)) for y in b] for x in a]
        got = gpudist.cdist(a, b, "jensenshannon", base=base, **way)
        assert_close(got, np.array(expected), 1e-12)


# ---------------------------------------------------------------- what SciPy lacks


def of_counts(formula):
    """Make a distance of a formula of tt, tf, ft, ff."""

    def distance(a, b, w):
        x, y = (a != 0)[:, None].astype(float), (b != 0)[None].astype(float)
        with np.errstate(all="ignore"):
            return formula(
                *((w * u * v).sum(axis=2) for u in (x, 1 - x) for v in (y, 1 - y))
            )  # fmt: skip

    return distance


def roger(tt, tf, ft, ff):
    return 2 * (tf + ft) / (tt + ff + 2 * (tf + ft))


FORMULAS = {
    "kulczynski1": of_counts(lambda tt, tf, ft, ff: tt / (tf + ft)),
    "sokalmichener": of_counts(roger),
    "inner_product": lambda a, b, w: (a[:, None] * b[None]).sum(axis=2),
    "hellinger": lambda a, b, w: np.sqrt(1 - np.sqrt(a[:, None] * b[None]).sum(axis=2)),
    "kl_divergence": lambda a, b, w: scipy.special.rel_entr(a[:, None], b[None]).sum(axis=2),
}


def test_each_metric_that_scipy_lacks_has_a_formula_here():
    """But haversine, which has a test of its own."""
    assert FORMULAS.keys() == set(RECORDS) - SCIPY - {"haversine"}


@ways
@pytest.mark.parametrize("metric", sorted(FORMULAS))
def test_metrics_that_scipy_lacks_have_their_formula(metric, way, rng):
    a, b = points(rng, 40, 33, metric, "float64"), points(rng, 50, 33, metric, "float64")
    if metric == "kl_divergence":
        a[:, 3] = b[:, 4] = b[:5, 3] = 0
        a[:20, 4] = 0
    takes_weights = "w" in RECORDS[metric].arguments
    for w in (np.ones(33), rng.uniform(0, 2, 33)) if takes_weights else (np.ones(33),):
        args = {} if (w == 1).all() else {"w": w}
        expected = FORMULAS[metric](a, b, w)
        assert np.isfinite(expected).any()
        got = gpudist.cdist(a, b, metric, **args, **way)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    if metric in TRUTHS:
        got = gpudist.cdist(a != 0, b != 0, metric, **way)
        np.testing.assert_allclose(got, FORMULAS[metric](a, b, 1.0), rtol=1e-12)


@ways
def test_haversine_is_that_of_scikit_learn(way, rng):
    pairwise = pytest.importorskip("sklearn.metrics.pairwise", reason="scikit-learn is missing")
    a, b = (points(rng, n, 2, "haversine", "float64") for n in (40, 50))
    got = gpudist.cdist(a, b, "haversine", **way)
    np.testing.assert_allclose(got, pairwise.haversine_distances(a, b), rtol=1e-12, atol=1e-15)


DEGREES = np.array([[50.9, 4.5], [-33.9, 151.2]])

# Each takes places, and names the first operand so.
OF_PLACES = {
    "cdist": ("XA", lambda x: gpudist.cdist(x, np.zeros((1, 2)), "haversine")),
    "reference": ("XA", lambda x: gpudist.cdist(x, x, "haversine", kernel="reference")),
    "second": ("XB", lambda x: gpudist.cdist(np.zeros((1, 2)), x, "haversine")),
    "batch": ("XA", lambda x: gpudist.cdist(np.stack([x, x]), x, "haversine")),
    "pdist": ("X", lambda x: gpudist.pdist(x, "haversine")),
    "knn": ("XA", lambda x: gpudist.knn(x, k=1, metric="haversine")),
    "count_neighbors": ("XA", lambda x: gpudist.count_neighbors(x, radii=1, metric="haversine")),
    "explain": ("XA", lambda x: gpudist.explain("cdist", x, x, "haversine", ceilings={})),
}


@pytest.mark.parametrize("call", OF_PLACES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_haversine_of_degrees_is_warned_of(call, dtype):
    name, answer = OF_PLACES[call]
    with pytest.warns(UserWarning, match=rf"{name} .* numpy.radians\({name}\)") as warned:
        answer(DEGREES.astype(dtype))
    assert [one.filename for one in warned] == [__file__]


@pytest.mark.parametrize("call", OF_PLACES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_haversine_of_poles_and_of_no_places_is_not_warned_of(call, dtype):
    for places in ([[90, 180], [-90, 360]], [[np.nan, 0], [0, np.inf]]):
        OF_PLACES[call][1](np.radians(np.array(places)).astype(dtype))
    assert np.isnan(gpudist.cdist([[np.inf, 0]], [[0, 0]], "haversine")).all()


# ---------------------------------------------------------------- exact answers


def variants():
    from bench.adversary import variants

    return [pytest.param(v, id=" ".join((v.metric, v.arguments)).strip()) for v in variants()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("variant", variants())
def test_hard_data_keep_their_digits(variant, dtype, device):
    """Offsets, near-duplicates, magnitudes to the ends of the range, mixed signs: 50 digits."""
    pytest.importorskip("mpmath", reason="mpmath is missing")
    from bench.adversary import adversarial
    from bench.exact import exact_cdist

    metric, args = variant.metric, variant.metric_args
    for name, (a, b) in adversarial(metric, dtype).items():
        a, b = a[:5], b[[0, 1, 2, 3, 4, -1]]
        exact = exact_cdist(a, b, metric, **args)
        with np.errstate(over="ignore"):
            rounded = exact.astype(dtype)
        expected = np.where(np.isinf(rounded), rounded, exact)
        rtol, atol = hard_tolerance(metric, dtype, args, a, b)
        got = gpudist.cdist(a, b, metric, device=device, **args)
        assert_close(
            got, expected, rtol, np.maximum(atol, np.finfo(dtype).smallest_subnormal), name
        )


def hard_tolerance(metric, dtype, args, a, b):
    rtol, atol = tolerance(metric, dtype, args, a, b)
    if metric == "haversine" and dtype == "float64":
        return rtol, 1e-7  # at the antipodes an arcsine ends in a root
    return rtol, atol


def test_directions_have_no_length(device, rng):
    """Rows times a power of two keep their cosines' bits, to the ends of the range."""
    for dtype, power in (("float32", 120), ("float64", 1000)):
        a, b = rng.normal(size=(20, 7)).astype(dtype), rng.normal(size=(30, 7)).astype(dtype)
        for metric in ("cosine", "correlation"):
            expected = gpudist.cdist(a, b, metric, device=device)
            for up in (power, -power):
                got = gpudist.cdist(np.ldexp(a, up), np.ldexp(b, -up), metric, device=device)
                np.testing.assert_array_equal(got, expected, err_msg=f"{metric} {dtype} {up}")


def test_opposite_rows_are_two_apart_and_never_more(device, rng):
    for dtype, atol in (("float32", 1e-6), ("float64", 1e-12)):
        for d in (2, 3, 17, 300):
            a = rng.normal(size=(200, d)).astype(dtype)
            for metric in ("cosine", "correlation"):
                far = np.diagonal(gpudist.cdist(a, -a, metric, device=device))
                assert (far <= 2).all()
                np.testing.assert_allclose(far, 2, rtol=0, atol=atol)


def test_mahalanobis_of_neighbours_far_from_the_first_row(device, rng):
    """Rows are transformed before they are subtracted, which is no way for near-duplicates."""
    pytest.importorskip("mpmath", reason="mpmath is missing")
    from bench.exact import exact_cdist

    half = rng.normal(size=(9, 9)) * np.geomspace(1, 1e-3, 9)
    vi = half @ half.T
    vi = (vi + vi.T) / 2
    for dtype, rtol in (("float32", 1e-5), ("float64", 1e-11)):
        a = (1e3 * rng.normal(size=(6, 9))).astype(dtype)
        b = np.concatenate([a + np.spacing(a) * rng.integers(0, 3, a.shape), -a[:2]]).astype(dtype)
        got = gpudist.cdist(a, b, "mahalanobis", VI=vi, device=device)
        assert_close(got, exact_cdist(a, b, "mahalanobis", VI=vi), rtol, 0, dtype)


@pytest.mark.parametrize("scale", [1e-300, 1e-60, 1e-30, 1e-10, 1e10, 1e30, 1e60, 1e300])
def test_weights_of_any_size(scale, device, rng):
    """Weights are float64: in float32 they may leave the range on the way to a result inside it."""
    a = rng.normal(size=(20, 9)).astype("f4")
    b = rng.normal(size=(30, 9)).astype("f4")
    w = rng.uniform(0.5, 2, 9)
    for metric in (
        "cosine",
        "correlation",
        "braycurtis",
        "hamming",
        "jaccard",
        "yule",
        "chebyshev",
    ):
        got = gpudist.cdist(a, b, metric, w=w * scale, device=device)
        plain = gpudist.cdist(a, b, metric, w=w, device=device, dtype=np.float64)
        assert_close(got, plain, 1e-5, 1e-6, metric)
    for metric, power in (("euclidean", 0.5), ("cityblock", 1.0), ("sqeuclidean", 1.0)):
        with np.errstate(over="ignore"):
            expected = gpudist.cdist(a, b, metric, w=w, dtype=np.float64) * scale**power
            expected = np.where(np.isinf(expected.astype("f4")), inf, expected)
        got = gpudist.cdist(a, b, metric, w=w * scale, device=device)
        assert_close(got, expected, 5e-7, 1.5e-45, metric)
    got = gpudist.cdist(a, b, "seuclidean", V=scale / w, device=device)
    with np.errstate(over="ignore"):
        expected = gpudist.cdist(a, b, "euclidean", w=w, dtype=np.float64) / scale**0.5
        expected = np.where(np.isinf(expected.astype("f4")), inf, expected)
    assert_close(got, expected, 5e-7, 1.5e-45)


# ---------------------------------------------------------------- what never changes a bit


def every_form():
    return [
        pytest.param(metric, label, id=f"{metric}-{label}")
        for metric in RECORDS
        for label, _ in forms(metric)
    ]


every_metric_form = pytest.mark.parametrize(("metric", "label"), every_form())


def columns_of(metric, *some):
    return (2,) if RECORDS[metric].columns else some


@every_metric_form
def test_rows_symmetry_and_diagonal(metric, label, device, rng):
    make = dict(forms(metric))[label]
    for dtype in ("float32", "float64") + ("bool",) * (metric in TRUTHS or metric == "hamming"):
        for d in columns_of(metric, 3, 50):
            a, b = points(rng, 90, d, metric, dtype), points(rng, 110, d, metric, dtype)
            args = make(rng, d) | {"device": device}
            whole = gpudist.cdist(a, b, metric, **args)
            for part in (slice(0, 1), slice(2, 40), slice(89, 90), slice(0, 0)):
                np.testing.assert_array_equal(
                    gpudist.cdist(a[part], b, metric, **args), whole[part]
                )
            square = gpudist.cdist(b, b, metric, **args)
            np.testing.assert_array_equal(gpudist.cdist(b, b.copy(), metric, **args), square)
            if metric != "kl_divergence":
                np.testing.assert_array_equal(square, square.T)
                # mahalanobis measures from the first row of XB, so as not to lose digits far off.
                if metric != "mahalanobis":
                    np.testing.assert_array_equal(gpudist.cdist(b, a, metric, **args), whole.T)
            # Rows can be false wherever there is a weight, and sokalsneath of two such is NaN.
            if metric in ZERO_AT_HOME and (metric, label) != ("sokalsneath", "w0"):
                np.testing.assert_array_equal(np.diagonal(square), np.zeros(110))


@every_metric_form
def test_threads_do_not_change_the_bits(metric, label, rng):
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is missing")
    (d,) = columns_of(metric, 19)
    a, b = points(rng, 310, d, metric, "float64"), points(rng, 290, d, metric, "float64")
    args = dict(forms(metric))[label](rng, d) | {"device": "cpu"}
    results = []
    for limit in (1, 3):
        with threadpoolctl.threadpool_limits(limit, user_api="openmp"):
            assert _core.host()["threads"] == limit
            results.append((gpudist.cdist(a, b, metric, **args), gpudist.pdist(b, metric, **args)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


SHAPES = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 70))


@settings(max_examples=100)
@given(
    st.sampled_from([p.values for p in every_form()]),
    st.sampled_from(["float32", "float64", "int16", "bool", "float16"]),
    SHAPES,
    st.lists(st.sampled_from(LAYOUTS), max_size=3),
    st.integers(0, 2**32),
)
def test_the_same_values_give_the_same_bits(form, dtype, shape, changes, seed):
    metric, label = form
    m, n, d = shape
    d = RECORDS[metric].columns or d
    rng = np.random.default_rng(seed)
    x, y = ((3 * points(rng, rows, d, metric, "float64")).astype(dtype) for rows in (m, n))
    args = dict(forms(metric))[label](rng, d)
    expected = gpudist.cdist(x, y, metric, **args)
    a, b = x, y
    for change in changes:
        a, b = relay(a, change), relay(b, change)
    np.testing.assert_array_equal(a, x)
    # A foreign byte order is a dtype like any other, so the result's is the same.
    np.testing.assert_array_equal(gpudist.cdist(a, y, metric, **args), expected)
    np.testing.assert_array_equal(gpudist.cdist(x, b, metric, **args), expected)
    pairs = gpudist.pdist(y, metric, **args)
    np.testing.assert_array_equal(gpudist.pdist(b, metric, **args), pairs)
    square = gpudist.cdist(y, y, metric, **args)
    np.testing.assert_array_equal(pairs, square[np.triu_indices(n, 1)])


def test_equal_rows_are_zero_wherever_they_are(device, rng):
    """Far from the origin, long, many, and with any weights."""
    for metric in sorted(LP | {"canberra", "mahalanobis", "cosine", "correlation", "hamming"}):
        for dtype in ("float32", "float64"):
            for d in (1, 3, 130):
                if metric == "correlation" and d == 1:
                    continue
                far = 1e6 if dtype == "float64" else 1e3
                b = (far + rng.normal(size=(70, d))).astype(dtype)
                for _, make in forms(metric):
                    got = gpudist.cdist(b[::-1], b, metric, device=device, **make(rng, d))
                    assert (np.diagonal(got[::-1]) == 0).all(), (metric, dtype, d)


def test_canberra_takes_two_columns_by_one_division(rng):
    """As exact as by two: where the denominators' product over- or underflows, is 0 or infinite."""
    scales = np.array([1e-320, 1e-300, 1e-162, 1e-121, 1e-60, 1.0, 1e60, 1e150, 1e300, 0.0])
    for kernel in gpudist.kernels("cdist"):
        if not kernel.id.startswith("cdist/cpu_sums_") or kernel.why_not:
            continue
        for d in (1, 2, 7, 32):
            a = rng.normal(size=(90, d)) * rng.choice(scales, (90, d))
            b = rng.normal(size=(70, d)) * rng.choice(scales, (70, d))
            b[::3] = a[:24] * (1 + 1e-9 * rng.normal(size=(24, d)))
            a[4, 0], b[5, -1] = np.inf, np.nan
            got = gpudist.cdist(a, b, "canberra", kernel=kernel.id)
            with np.errstate(invalid="ignore"):
                expected = scipy.spatial.distance.cdist(a, b, "canberra")
            np.testing.assert_allclose(got, expected, rtol=1e-13)
            np.testing.assert_array_equal(
                gpudist.cdist(b, a, "canberra", kernel=kernel.id).T, got, kernel.id
            )
