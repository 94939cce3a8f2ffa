"""Neighbours are what a stable sort of the matrix of distances says, to the bit."""

from fractions import Fraction

import numpy as np
import pytest
from conftest import RECORDS, fail_each_allocation, forms, points

import gpudist

CASES = [(metric, label) for metric in RECORDS for label, _ in forms(metric)]


def keys_from(distances, metric="euclidean", first=None):
    """What the definition sorts: the smaller the nearer, NaN for no neighbour."""
    keys = np.array(distances)
    if first is not None:
        i = np.arange(len(keys))
        keys[i, first + i] = np.nan
    return -keys if RECORDS[metric].similarity else keys


def keys_of(a, b, metric="euclidean", first=None, kernel="auto", **args):
    device = "cpu"
    if kernel == "auto":  # auto may search on a GPU, whose distances these are then
        said = gpudist.explain("radius_neighbors", a, b, 1.0, metric, **args)
        device, kernel = said.device, kernel if said.device == "cpu" else said.kernel
    return keys_from(
        gpudist.cdist(a, b, metric, device=device, kernel=kernel, **args), metric, first
    )


def check(found, keys, k, similarity=False, order=None):
    """Hold a search against the stable sort, which is made once where several are."""
    order = (np.argsort(keys, axis=1, kind="stable") if order is None else order)[:, :k]
    nearest = np.take_along_axis(keys, order, axis=1)
    np.testing.assert_array_equal(found.indices, np.where(np.isnan(nearest), -1, order))
    np.testing.assert_array_equal(-found.distances if similarity else found.distances, nearest)
    assert found.distances.dtype == keys.dtype


def check_searches(a, b, keys, radii, first=None, **how):
    """Hold all four searches against the matrix; of rows of b alone, a are those from `first`.

    Of similarities the keys, and so the radii here, have the other sign.
    """
    alone = first is not None
    rows = {"rows": slice(first, first + len(a))} if alone else {}
    xa, xb = (b, None) if alone else (a, b)
    similarity = RECORDS[how.get("metric", "euclidean")].similarity
    sign = -1 if similarity else 1
    order = np.argsort(keys, axis=1, kind="stable")
    for k in {1, min(16, len(b) - alone), len(b) - alone}:
        check(gpudist.knn(xa, xb, k, **how, **rows), keys, k, similarity, order)
    nearest = gpudist.nearest(xa, xb, **how, **rows)
    check(type(nearest)(*(x[:, None] for x in nearest)), keys, 1, similarity, order)
    for r in radii:
        found = gpudist.radius_neighbors(xa, xb, sign * r, **how, **rows)
        i, j = np.nonzero(keys <= r)
        np.testing.assert_array_equal(found.indices, j)
        np.testing.assert_array_equal(np.diff(found.indptr), (keys <= r).sum(axis=1))
        np.testing.assert_array_equal(found.distances, sign * keys[i, j])
    few = gpudist.radius_neighbors(
        xa, xb, sign * r, max_neighbors=3, sort="distance", **how, **rows
    )
    order = order[:, :3]
    inside = np.take_along_axis(keys, order, axis=1) <= r
    np.testing.assert_array_equal(few.indices, order[inside])
    counted = gpudist.count_neighbors(xa, xb, sign * np.asarray(radii), **how, **rows)
    assert counted.tolist() == [int((keys <= r).sum()) for r in radii]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("metric", "label"), CASES)
def test_the_k_nearest_are_the_first_of_a_stable_sort(metric, label, dtype, rng):
    d = RECORDS[metric].columns or 5
    args = dict(forms(metric))[label](rng, d)
    a, b = points(rng, 7, d, metric, dtype), points(rng, 200, d, metric, dtype)
    b[100:] = b[:100]
    similarity = RECORDS[metric].similarity
    for k in (1, 7, 200):
        check(gpudist.knn(a, b, k, metric, **args), keys_of(a, b, metric, **args), k, similarity)
    keys = keys_of(b, b, metric, first=0, **args)
    check(gpudist.knn(b, k=9, metric=metric, **args), keys, 9, similarity)
    check(
        gpudist.knn(b, k=9, metric=metric, rows=slice(90, 120), **args), keys[90:120], 9, similarity
    )
    one = gpudist.nearest(b, None, metric, **args)
    np.testing.assert_array_equal(one.indices, np.argsort(keys, axis=1, kind="stable")[:, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "jensenshannon", "jaccard"])
def test_all_within_a_radius_and_their_numbers(metric, dtype, rng):
    a, b = points(rng, 30, 6, metric, dtype), points(rng, 300, 6, metric, dtype)
    similarity = RECORDS[metric].similarity
    keys = keys_of(a, b, metric)
    order = np.argsort(keys, axis=1, kind="stable")
    radii = (
        -np.take_along_axis(keys, order[:, 4:5], 1)[:, 0]
        if similarity
        else (np.take_along_axis(keys, order[:, 4:5], 1)[:, 0])
    )
    found = gpudist.radius_neighbors(a, b, radii, metric)
    inside = keys <= (-radii if similarity else radii)[:, None]
    i, j = np.nonzero(inside)
    np.testing.assert_array_equal(found.indices, j)
    np.testing.assert_array_equal(-found.distances if similarity else found.distances, keys[i, j])
    np.testing.assert_array_equal(np.diff(found.indptr), inside.sum(axis=1))
    assert inside.sum(axis=1).min() >= 5  # the fifth is at just that distance
    few = gpudist.radius_neighbors(a, b, radii, metric, max_neighbors=3, sort="distance")
    np.testing.assert_array_equal(few.indices.reshape(-1, 3), order[:, :3])
    few = gpudist.radius_neighbors(a, b, radii, metric, max_neighbors=3)
    np.testing.assert_array_equal(few.indices.reshape(-1, 3), np.sort(order[:, :3], axis=1))
    bounds = np.sort(radii)[::-1] if similarity else np.sort(radii)
    counted = gpudist.count_neighbors(a, b, bounds, metric)
    expected = [(keys <= (-r if similarity else r)).sum() for r in bounds]
    assert counted.dtype == np.int64 and counted.tolist() == expected
    parts = gpudist.count_neighbors(a, b, bounds, metric, cumulative=False)
    np.testing.assert_array_equal(np.cumsum(parts), counted)
    assert gpudist.count_neighbors(a, b, float(bounds[0]), metric) == expected[0]


def test_panels_have_edges(rng):
    """More rows and columns than a panel, and lists that are cut many times."""
    a = rng.normal(size=(1100, 3)).astype("float32")
    b = rng.normal(size=(2300, 3)).astype("float32")[::-1]
    keys = keys_of(a, b)
    for k in (1, 100):
        check(gpudist.knn(a, b, k), keys, k)
    found = gpudist.radius_neighbors(a, b, 1.0, max_memory="16 MiB")
    np.testing.assert_array_equal(found.indices, np.nonzero(keys <= 1)[1])
    sorted_outwards = np.arange(5000.0)[::-1, None]  # each column is nearer than those before
    check(gpudist.knn([[0.0]], sorted_outwards, 64), keys_of([[0.0]], sorted_outwards), 64)


def test_ties_are_broken_by_the_smaller_index(rng):
    a, b = rng.integers(0, 2, (40, 8)).astype("f4"), rng.integers(0, 2, (3000, 8)).astype("f4")
    for metric in ("hamming", "cityblock"):
        for k in (1, 50, 1500):
            check(gpudist.knn(a, b, k, metric), keys_of(a, b, metric), k)
    same = np.zeros((1000, 4))
    assert gpudist.knn(same[:1], same, 10).indices.tolist() == [list(range(10))]
    assert gpudist.knn(same, k=2).indices[:3].tolist() == [[1, 2], [0, 2], [0, 1]]


def test_nan_is_nobodys_neighbour_and_infinity_is(rng):
    x = rng.normal(size=(6, 3))
    x[2] = np.nan
    found = gpudist.knn(x, k=5)
    assert not (found.indices == 2).any()
    assert (found.indices[2] == -1).all() and np.isnan(found.distances[2]).all()
    assert (found.indices[[0, 1, 3, 4, 5], 4] == -1).all()
    assert 2 not in gpudist.radius_neighbors(x, r=np.inf).indices
    far = [[np.inf], [1.0], [-np.inf]]
    assert gpudist.knn([[0.0]], far, 3).indices.tolist() == [[1, 0, 2]]
    assert gpudist.radius_neighbors([[0.0]], far, np.inf).indices.tolist() == [0, 1, 2]


def test_weights_of_pairs(rng):
    x, y = rng.random((50, 2)), rng.random((70, 2))
    wx, wy = rng.random(50), rng.random(70)
    keys = keys_of(x, y)
    sums = gpudist.count_neighbors(x, y, [0.2, 0.5], weights=(wx, wy))
    np.testing.assert_allclose(sums, [wx @ ((keys <= r) @ wy) for r in (0.2, 0.5)], rtol=1e-13)
    keys = keys_of(x, x, first=0)
    sums = gpudist.count_neighbors(x, radii=[0.2, 0.5], weights=wx)
    np.testing.assert_allclose(sums, [wx @ ((keys <= r) @ wx) for r in (0.2, 0.5)], rtol=1e-13)


def test_counts_are_scipys(rng):
    from scipy.spatial import cKDTree

    x, y = rng.random((200, 3)), rng.random((300, 3))
    radii = [0.1, 0.3, 0.9]
    expected = cKDTree(x).count_neighbors(cKDTree(y), radii)
    np.testing.assert_array_equal(gpudist.count_neighbors(x, y, radii), expected)


def test_a_radius_between_two_numbers_of_the_dtype(rng):
    """It is rounded to the dtype of distances once, and those are held against it."""
    third = np.float32(1) / np.float32(3)
    points = np.array([[0.0], [third]], np.float32)
    assert gpudist.radius_neighbors(points, r=1 / 3).indices.tolist() == [1, 0]
    w = [1e300]  # more than float32 sums hold: computed in float64, then rounded
    found = gpudist.knn(points, k=1, metric="euclidean", w=w).distances[0, 0]
    assert found.dtype == np.float32 and np.isinf(found)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "mahalanobis"])
def test_the_reference_and_functions_agree(metric, rng):
    a, b = rng.normal(size=(20, 4)), rng.normal(size=(60, 4))
    ways = [{}, {"kernel": "reference"}]
    some = [gpudist.knn(a, b, 7, metric, **way) for way in ways]
    np.testing.assert_array_equal(some[0].indices, some[1].indices)
    np.testing.assert_allclose(some[0].distances, some[1].distances, rtol=1e-12)
    r = float(np.median(some[0].distances))
    some = [gpudist.radius_neighbors(a, b, r, metric, **way) for way in ways]
    np.testing.assert_array_equal(some[0].indptr, some[1].indptr)
    some = [
        gpudist.count_neighbors(a, b, [r], metric, weights=(a[:, 0], b[:, 0]), **way)
        for way in ways
    ]
    np.testing.assert_allclose(some[0], some[1], rtol=1e-12)


def test_python_functions(rng):
    a, b = rng.random((4, 2)), rng.random((9, 2))
    found = gpudist.knn(a, b, 3, lambda x, y: float(abs(x - y).sum()))
    check(found, keys_of(a, b, "cityblock"), 3)


def test_out_and_index_dtype(rng):
    x = rng.random((30, 2), dtype=np.float32)
    out = np.empty((30, 4), np.float32), np.empty((30, 4), np.int32)
    found = gpudist.knn(x, k=4, out=out, index_dtype="int32")
    assert found.distances is out[0] and found.indices is out[1]
    check(found, keys_of(x, x, first=0), 4)
    with pytest.raises(ValueError, match="C-contiguous array of int64 and shape"):
        gpudist.knn(x, k=4, out=out)
    with pytest.raises(TypeError, match="a tuple of two arrays"):
        gpudist.knn(x, k=4, out=out[0])
    with pytest.raises(ValueError, match="must not share memory"):
        gpudist.knn(x, k=2, out=(x, np.empty((30, 2), np.int64)))


def test_out_is_written_as_it_is_or_refused(rng):
    x = rng.random((30, 2))
    distances, indices = np.empty((30, 4)), np.empty((30, 4), np.int64)
    fixed = indices.copy()
    fixed.flags.writeable = False
    for out, error, words in (
        ((distances, distances.view(np.int64)), ValueError, "two arrays that share memory"),
        ((np.ma.array(distances), indices), TypeError, "a masked array for distances"),
        ((distances, np.ma.array(indices)), TypeError, "a masked array for indices"),
        ((distances.astype(">f8"), indices), ValueError, "native byte order, which its distances"),
        ((distances, fixed), ValueError, "can be written, .*which its indices are not"),
        ((np.empty((4, 30)).T, indices), ValueError, "C-contiguous"),
    ):
        with pytest.raises(error, match=f"^out .*{words}"):
            gpudist.knn(x, k=4, out=out)


def test_no_radii_give_no_counts():
    """As in SciPy's count_neighbors."""
    for more in ({}, {"kernel": "reference"}, {"cumulative": False}):
        for none in ([], (), np.empty(0)):
            assert gpudist.count_neighbors(X, radii=none, **more).shape == (0,)
    with pytest.raises(ValueError, match=r"r must be a number or an array of shape \(.*got shape"):
        gpudist.radius_neighbors(X, r=[])


MASKED = np.ma.array([0.5] * 8, mask=[True, False] * 4)


@pytest.mark.parametrize(
    "lossy", ["1", b"1", ["1"] * 8, 1 + 1j, np.complex128(1), [1j] * 8, MASKED, np.ma.masked]
)
def test_what_would_be_lost_of_radii_and_weights_is_refused(lossy):
    for name, call in (
        ("r", lambda: gpudist.radius_neighbors(X, r=lossy)),
        ("radius", lambda: gpudist.Neighbors(X).radius_neighbors(radius=lossy)),
        ("radii", lambda: gpudist.count_neighbors(X, radii=lossy)),
        ("weights", lambda: gpudist.count_neighbors(X, radii=[1], weights=lossy)),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{name} "):
            call()


def test_numbers_of_any_type_are_radii():
    wanted = gpudist.radius_neighbors(X, r=0.5)
    for r in (Fraction(1, 2), np.float32(0.5), np.array(0.5), [0.5] * 8, np.full(8, 0.5, ">f4")):
        found = gpudist.radius_neighbors(X, r=r, max_neighbors=10**30)
        np.testing.assert_array_equal(found.indices, wanted.indices)


X = np.random.default_rng(0).random((8, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gpudist.knn(X), TypeError, "k is missing"),
        (lambda: gpudist.knn(X, k=8), ValueError, "k must be at most 7, of 8 points but itself"),
        (lambda: gpudist.knn(X, X, 9), ValueError, "k must be at most 8, of 8 points; got 9"),
        (lambda: gpudist.knn(X, X, 0), ValueError, "k must be at least 1"),
        (lambda: gpudist.knn(X, X, 1.5), TypeError, "k must be a whole number"),
        (lambda: gpudist.knn(X, X[:, :1], 1), ValueError, "same number of columns"),
        (lambda: gpudist.knn(X, X, 1, "euclidian"), ValueError, "euclidean"),
        (lambda: gpudist.knn(X, X, 1, device="cuda:99"), gpudist.DeviceError, "CUDA|cuda:99"),
        (lambda: gpudist.knn(X, X, 1, index_dtype="int16"), ValueError, "int64 or int32"),
        (lambda: gpudist.knn(X, X, 1, rows=3), TypeError, "rows must be a slice"),
        (lambda: gpudist.knn(X, X, 1, rows=slice(0, 8, 2)), ValueError, "steps of 1"),
        (lambda: gpudist.knn(X, X, 1, max_memory=10), MemoryError, "fewer rows"),
        (lambda: gpudist.nearest(X[:1]), ValueError, "no neighbours among 1 point but itself"),
        (lambda: gpudist.nearest(X, X[:0]), ValueError, "no neighbours among 0 points"),
        (lambda: gpudist.radius_neighbors(X), TypeError, "r is missing"),
        (lambda: gpudist.radius_neighbors(X, r=-1), ValueError, "r must be 0 or more"),
        (lambda: gpudist.radius_neighbors(X, r=np.nan), ValueError, "not NaN"),
        (lambda: gpudist.radius_neighbors(X, r=[1, 2]), ValueError, r"shape \(8,\)"),
        (lambda: gpudist.radius_neighbors(X, r=1, sort="up"), ValueError, "sort must be"),
        (lambda: gpudist.radius_neighbors(X, r=1, max_neighbors=-1), ValueError, "at least 0"),
        (lambda: gpudist.count_neighbors(X), TypeError, "radii are missing"),
        (lambda: gpudist.count_neighbors(X, radii=[2, 1]), ValueError, "ascending"),
        (lambda: gpudist.count_neighbors(X, X, [1], weights=X), TypeError, "tuple of two"),
        (lambda: gpudist.count_neighbors(X, radii=[1], weights=[1]), ValueError, "shape"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_set_refuses_what_its_metric_does_not_take_and_answers_that_are_none():
    with pytest.raises(ValueError, match="haversine takes 2 columns, X has 3"):
        gpudist.Neighbors(np.zeros((4, 3)), "haversine")
    kept = gpudist.Neighbors(np.zeros((4, 2)), "haversine", n_neighbors=1)
    for query in (kept.kneighbors, kept.radius_neighbors):
        with pytest.raises(TypeError, match="return_distance must be True or False, got ndarray"):
            query(return_distance=np.ones(2))


def test_empty_sets():
    none = np.empty((0, 2))
    found = gpudist.knn(none, X, 3)
    assert found.distances.shape == found.indices.shape == (0, 3)
    found = gpudist.radius_neighbors(none, X, 1.0)
    assert found.indptr.tolist() == [0] and found.indices.size == 0
    found = gpudist.radius_neighbors(X, none, 1.0)
    assert found.indptr.tolist() == [0] * 9
    assert gpudist.count_neighbors(X, none, [1.0]).tolist() == [0]
    assert gpudist.radius_neighbors(X, X, 0.0).to_scipy().shape == (8, 8)


def test_a_stop_comes_through(rng):
    x = rng.random((4000, 40))

    def stop(done, total):
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        gpudist.knn(x, x, 3, "jensenshannon", progress=stop)
    check(gpudist.knn(x[:5], x, 3), keys_of(x[:5], x), 3)


def test_memory_that_is_refused(rng):
    x = rng.random((50, 3))
    fail_each_allocation(lambda: gpudist.knn(x, k=3))
    fail_each_allocation(lambda: gpudist.radius_neighbors(x, r=0.5))
    fail_each_allocation(lambda: gpudist.count_neighbors(x, radii=[0.5]))


def test_the_set_has_scikit_learns_methods(rng):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is missing")
    x, y = rng.random((60, 3)), rng.random((9, 3))
    theirs = neighbors.NearestNeighbors(n_neighbors=4, radius=0.4, algorithm="brute").fit(x)
    ours = gpudist.Neighbors(x, n_neighbors=4, radius=0.4)
    for asked in (y, None):
        for got, wanted in zip(ours.kneighbors(asked), theirs.kneighbors(asked), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
        got = ours.radius_neighbors(asked, sort_results=True)
        wanted = theirs.radius_neighbors(asked, sort_results=True)
        for some, others in zip(got, wanted, strict=True):
            for one, other in zip(some, others, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
        for mode in ("connectivity", "distance"):
            got = ours.kneighbors_graph(asked, mode=mode)
            wanted = theirs.kneighbors_graph(asked, mode=mode)
            np.testing.assert_allclose(got.toarray(), wanted.toarray(), rtol=1e-12)
            got = ours.radius_neighbors_graph(asked, mode=mode)
            wanted = theirs.radius_neighbors_graph(asked, mode=mode)
            np.testing.assert_allclose(got.toarray(), wanted.toarray(), rtol=1e-12)
    with pytest.raises(ValueError, match="mode must be"):
        ours.kneighbors_graph(y, mode="both")
