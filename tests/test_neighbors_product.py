"""Products of halves, and sums of bytes, find the neighbours that a stable sort of direct distances
says."""

import numpy as np
import pytest
from conftest import runnable_where_meant
from test_neighbors import check, keys_from

import gpudist
from gpudist import neighbors_call

ID = "neighbors/cuda_product"
BYTES = "neighbors/cuda_bytes"
KERNEL = next(kernel for kernel in gpudist.kernels("neighbors") if kernel.id == ID)
pytestmark = pytest.mark.gpu
N, M = 16500, 33


@pytest.fixture(autouse=True)
def _there():
    runnable_where_meant(KERNEL)


def keys_of(a, b, metric="euclidean", first=None):
    """What is sorted: distances of the direct form."""
    # The row that cdist takes of cityblock, however few rows A has.
    own = metric == "cityblock" and np.shape(b)[1] > 20
    kernel = "cdist/cuda_direct" if own else "cdist/cuda_tile"
    distances = gpudist.cdist(a, b, metric, device="cuda", kernel=kernel)
    return keys_from(distances, metric, first)


def row_of(metric):
    """The row of the table that finds neighbours at such distances."""
    return BYTES if metric == "cityblock" else ID


def knn(a, b, k, metric="euclidean", **more):
    return gpudist.knn(a, b, k, metric, kernel=row_of(metric), device="cuda", **more)


def normal(rng, d):
    return rng.normal(size=(M, d)), rng.normal(size=(N, d))


def clusters(rng, d):
    middles = 5 * rng.normal(size=(16, d))
    return tuple(
        middles[rng.integers(0, 16, rows)] + rng.normal(size=(rows, d)) / 2 for rows in (M, N)
    )


def doubled(rng, d):
    a, b = normal(rng, d)
    b[1::2] = b[::2]
    return a, b


def equal_at_the_kth(rng, d):
    a, b = normal(rng, d)
    b[700:1700] = b[700]
    b[:7] = b[700] + rng.normal(size=(7, d)) * 1e-3
    return b[700] + a * 1e-2, b


def ulps_apart(dtype):
    middle = dtype(0.7)
    return lambda rng, d: tuple(
        middle + rng.integers(-40, 40, (rows, d)).astype(dtype) * np.spacing(middle)
        for rows in (M, N)
    )


def with_specials(rng, d):
    a, b = normal(rng, d)
    for x in (a, b):
        x[2::200] = np.nan
        x[3::150, 0] = np.inf
        x[5::150, -1] = -np.inf
        x[7::200, d // 2] = np.nan
    return a, b


def one_huge(rng, d):
    a, b = normal(rng, d)
    a[5, 2], b[7777, 3], b[7778, 3] = 1e30, 1e30, -3e38
    return a, b


def far_away(rng, d):
    """Columns that halves do not hold, and rows near them."""
    a, b = normal(rng, d)
    away = 1e7 * rng.normal(size=d)
    b[::300] += away
    a[::4] += away
    return a, b


def many_far_away(rng, d):
    a, b = normal(rng, d)
    b[::20] *= 1e6
    return a, b


def grid(rng, d):
    return tuple(rng.integers(0, 3, (rows, d)) for rows in (M, N))


def one_hot(rng, d):
    return tuple(np.eye(d)[rng.integers(0, d, rows)] * rng.random((rows, 1)) for rows in (M, N))


def along_a_curve(rng, d):
    """Neighbours in space are neighbours in memory: a sample of B sees all of them or none."""
    t = np.arange(N)[:, None] * 5e-4
    b = 5 * np.sin(t * (np.arange(d) % 16 + 1) + np.arange(d)) + 0.01 * rng.normal(size=(N, d))
    return b[:: N // M][:M] + 0.001, b


def growing(rng, d):
    a, b = normal(rng, d)
    return a, b * (1 + 10 * np.arange(N)[:, None] / N)


def scaled(power):
    return lambda rng, d: tuple(x * 2.0**power for x in normal(rng, d))


SETS = {
    "normal": normal,
    "clusters": clusters,
    "every row twice": doubled,
    "a thousand equal rows": equal_at_the_kth,
    "ulps apart": ulps_apart(np.float32),
    "ulps of float64 apart": ulps_apart(np.float64),
    "NaN and infinity": with_specials,
    "one huge coordinate": one_huge,
    "far away": far_away,
    "many far away": many_far_away,
    "grid": grid,
    "one hot": one_hot,
    "along a curve": along_a_curve,
    "growing": growing,
    "uniform, far from 0": lambda rng, d: (100 + rng.random((M, d)), 100 + rng.random((N, d))),
    "offset 1e4": lambda rng, d: tuple(x + 1e4 for x in normal(rng, d)),
    "heavy tails": lambda rng, d: tuple(np.exp(2 * x) for x in normal(rng, d)),
    "all equal": lambda rng, d: (rng.normal(size=(M, d)), np.full((N, d), 0.3)),
    "A elsewhere": lambda rng, d: (rng.normal(size=(M, d)) + 3000, rng.normal(size=(N, d))),
    "squares overflow": scaled(80),
    "squares underflow": scaled(-73),
    "subnormal": scaled(-140),
    "squares overflow in float64": scaled(600),
    "squares underflow in float64": scaled(-547),
    "subnormal in float64": scaled(-1060),
}


FORMS = [
    ("float32", "euclidean"),
    ("float32", "sqeuclidean"),
    ("float32", "cosine"),
    ("float32", "cityblock"),
    ("float64", "euclidean"),
    ("float64", "cosine"),
]


def points(rng, name, d, dtype="float32"):
    with np.errstate(over="ignore"):
        return tuple(x.astype(dtype) for x in SETS[name](rng, d))


def of_float64(name):
    return "float64" in name


ALL = [(name, *form) for form in FORMS for name in SETS if not of_float64(name) or "64" in form[0]]


@pytest.mark.parametrize("d", [9, 20, 128, 200])
@pytest.mark.parametrize(("name", "dtype", "metric"), ALL)
def test_neighbours_are_the_first_of_a_stable_sort(name, dtype, d, metric, rng):
    a, b = points(rng, name, d, dtype)
    keys = keys_of(a, b, metric)
    for k in (1, 10, 128, 200, 1000):
        check(knn(a, b, k, metric), keys, k)


BOUNDED = (
    "normal",
    "clusters",
    "heavy tails",
    "one hot",
    "growing",
    "squares overflow in float64",
)


@pytest.mark.parametrize("d", [9, 16, 31, 100, 128, 129, 400])
@pytest.mark.parametrize(
    ("name", "dtype", "metric"),
    [case for case in ALL if case[0] in BOUNDED and case[2] != "sqeuclidean"],
)
def test_no_product_is_further_off_than_its_bound_says(name, d, metric, dtype, rng, monkeypatch):
    """The row's option `check` computes them all in float64, and writes NaN where that fails."""
    told = neighbors_call.Call.told
    more = {"options": {"check": 1}}
    monkeypatch.setattr(neighbors_call.Call, "told", lambda call, watch: told(call, watch) | more)
    a, b = points(rng, name, d, dtype)
    assert (knn(a, b, 3, metric).indices >= 0).all()


@pytest.mark.parametrize("d", [16, 150])
@pytest.mark.parametrize(("name", "dtype", "metric"), ALL)
def test_all_within_a_radius_in_any_order(name, d, dtype, metric, rng):
    a, b = points(rng, name, d, dtype)
    keys = keys_of(a, b, metric)
    order = np.argsort(keys, axis=1, kind="stable")
    radii = np.nan_to_num(np.take_along_axis(keys, order, 1)[:, 20], nan=0.5, posinf=np.inf)
    radii[::3] *= 0.9
    inside = keys <= radii[:, None]
    i, j = np.nonzero(inside)
    nearest = [row[:count] for row, count in zip(order, inside.sum(axis=1), strict=True)]
    how = {"kernel": row_of(metric), "device": "cuda"}
    for sort in ("index", "distance"):
        found = gpudist.radius_neighbors(a, b, radii, metric, max_neighbors=7, sort=sort, **how)
        rows = [np.sort(row[:7]) if sort == "index" else row[:7] for row in nearest]
        np.testing.assert_array_equal(found.indices, np.concatenate(rows))
    if inside.sum(axis=1).max() >= 1024:
        with pytest.raises(ValueError, match="1024 neighbours"):
            gpudist.radius_neighbors(a, b, radii, metric, **how)
        return
    found = gpudist.radius_neighbors(a, b, radii, metric, **how)
    np.testing.assert_array_equal(np.diff(found.indptr), inside.sum(axis=1))
    np.testing.assert_array_equal(found.indices, j)
    np.testing.assert_array_equal(found.distances, keys[i, j])
    outwards = gpudist.radius_neighbors(a, b, radii, metric, sort="distance", **how)
    np.testing.assert_array_equal(outwards.indices, np.concatenate(nearest))
    one = radii.min()
    found = gpudist.radius_neighbors(a, b, one, metric, **how)
    np.testing.assert_array_equal(found.indices, np.nonzero(keys <= one)[1])


@pytest.mark.parametrize("d", [16, 150])
@pytest.mark.parametrize(("name", "dtype", "metric"), ALL)
def test_counts_of_pairs_within_radii(name, d, dtype, metric, rng):
    a, b = points(rng, name, d, dtype)
    keys = keys_of(a, b, metric)
    known = keys[np.isfinite(keys)]
    known = known if known.size else np.zeros(1)
    how = {"kernel": row_of(metric), "device": "cuda"}
    for shares in ([0.001], [0.0003, 0.0005, 0.001], [0, 0.001, 0.5]):
        radii = np.quantile(known, shares, method="lower").astype(float)
        expected = [(keys <= r).sum() for r in radii]
        if (keys <= radii[-1]).sum(axis=1).max() < 1024:
            found = gpudist.count_neighbors(a, b, radii, metric, **how)
            assert found.tolist() == expected
        else:
            with pytest.raises(ValueError, match="1024 neighbours"):
                gpudist.count_neighbors(a, b, radii, metric, **how)
        assert gpudist.count_neighbors(a, b, radii, metric, device="cuda").tolist() == expected


def test_counts_among_many_rows_and_bins(rng):
    """Several blocks of rows, of which the last has one with many; and more bins than fit."""
    b = rng.normal(size=(25_000, 20)).astype("f4")
    how = {"device": "cuda", "kernel": ID}
    panels = how | {"kernel": "neighbors/cuda_panels"}
    radii = np.linspace(0.5, 2.2, 5000)
    for some in (radii[-1], radii[::100], radii):
        wanted = gpudist.count_neighbors(b, radii=some, **panels)
        assert gpudist.explain("count_neighbors", b, radii=some, device="cuda").kernel == ID
        np.testing.assert_array_equal(gpudist.count_neighbors(b, radii=some, **how), wanted)
    b[-2000:] = b[-1]
    wanted = gpudist.count_neighbors(b, radii=radii[::100], **panels)
    found = gpudist.count_neighbors(b, radii=radii[::100], device="cuda")
    np.testing.assert_array_equal(found, wanted)


def test_a_row_with_many_within_a_radius_sends_all_to_panels(rng):
    a, b = (rng.normal(size=(rows, 16)).astype("f4") for rows in (600, N))
    b[:1024] = a[7]
    for same in (1023, 1024):
        b[same - 1 : 1024] += 9
        keys = keys_of(a, b)
        said = gpudist.explain("radius_neighbors", a, b, 1.0, device="cuda")
        assert said.kernel == ID and "1024 neighbours" in said.reason
        found = gpudist.radius_neighbors(a, b, r=1.5, device="cuda")
        np.testing.assert_array_equal(found.indices, np.nonzero(keys <= 1.5)[1])
        b[:1024] = a[7]


@pytest.mark.parametrize("d", [600, 601])
@pytest.mark.parametrize("name", ["normal", "heavy tails", "NaN and infinity", "one hot"])
def test_long_rows_in_bytes(name, d, rng):
    a, b = points(rng, name, d)
    check(knn(a, b, 10, "cityblock"), keys_of(a, b, "cityblock"), 10)


SPREADS = {
    "heavy tails": lambda rng, shape: np.exp(2 * rng.normal(size=shape)),
    "thousands of equal rows": lambda rng, shape: np.eye(shape[1])[rng.integers(0, 5, shape[0])],
    "thousands at the same distance": lambda rng, shape: rng.integers(0, 2, shape),
    "those in order": lambda rng, shape: np.sort(rng.integers(0, 4, shape), axis=0),
}


@pytest.mark.parametrize("d", [16, 24])
@pytest.mark.parametrize("name", SPREADS)
def test_distances_at_once_among_many_points(name, d, rng):
    """Of so many tiles of columns a smaller share is the sample, and limits fall several times."""
    a, b = (SPREADS[name](rng, (rows, d)).astype("f4") for rows in (200, 300_000))
    for asked, more in (((a, b), {}), ((b, None), {"rows": slice(100_000, 100_200)})):
        how = {"metric": "cityblock", "device": "cuda"} | more
        panels = gpudist.knn(*asked, 128, kernel="neighbors/cuda_panels", **how)
        for k in (1, 10, 128):
            found = gpudist.knn(*asked, k, kernel=BYTES, **how)
            np.testing.assert_array_equal(found.indices, panels.indices[:, :k])
            np.testing.assert_array_equal(found.distances, panels.distances[:, :k])


@pytest.mark.parametrize("d", [16, 50, 520])
def test_few_rows_that_bytes_do_not_hold(d, rng):
    """They alone are compared with all others, which they would be anyway among few rows."""
    a, b = (rng.normal(size=(rows, d)).astype("f4") for rows in (400, N))
    a[7] *= 1e6
    a[50, 3], a[60, 1] = np.inf, np.nan
    for k in (3, 200):
        check(knn(a, b, k, "cityblock"), keys_of(a, b, "cityblock"), k)


PLAIN = [("float32", "euclidean"), ("float64", "euclidean"), ("float32", "cityblock")]


@pytest.mark.parametrize(("dtype", "metric"), PLAIN)
@pytest.mark.parametrize("d", [16, 128, 150])
def test_no_row_is_its_own_neighbour(d, dtype, metric, rng):
    b = rng.normal(size=(N, d)).astype(dtype)
    b[1::2] = b[::2]
    found = knn(b, None, 7, metric)
    for rows in (slice(0, 40), slice(12280, 12300), slice(N - 20, N)):
        keys = keys_of(b[rows], b, metric, first=rows.start)
        check(type(found)(found.distances[rows], found.indices[rows]), keys, 7)
        check(knn(b, None, 7, metric, rows=rows), keys, 7)


@pytest.mark.parametrize(("dtype", "metric"), PLAIN)
@pytest.mark.parametrize("tails", [1, 3])
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_rows_of_any_strides(library, tails, dtype, metric, rng):
    """Of long tails bytes tell so little that distances are computed at once."""
    lib = pytest.importorskip(library)
    whole_a, whole_b = (
        np.sinh(tails * rng.normal(size=(rows, 150))).astype(dtype) for rows in (M, 2 * N)
    )
    to = lib.from_numpy if library == "torch" else lib.asarray
    a, b = to(whole_a), to(whole_b)
    if library == "torch":
        a, b = a.cuda(), b.cuda()
    for columns in (slice(1, 101), slice(0, 128), slice(3, 63, 3)):
        keys = keys_of(whole_a[:, columns], whole_b[::2, columns], metric)
        found = gpudist.knn(a[:, columns], b[::2, columns], 10, metric, kernel=row_of(metric))
        assert isinstance(found.indices, type(a))
        home = [x.cpu().numpy() if library == "torch" else x.get() for x in found]
        check(type(found)(*home), keys, 10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "correlation", "cityblock"])
def test_the_same_bits_whatever_finds_them(metric, dtype, rng):
    if metric == "cityblock" and dtype == "float64":
        pytest.skip("bytes are of float32 alone")
    a, b = (rng.normal(size=(rows, 40)).astype(dtype) for rows in (300, N))
    panels = gpudist.knn(a, b, 1000, metric, kernel="neighbors/cuda_panels", device="cuda")
    for k in (1, 32, 100, 257, 1000):
        found = knn(a, b, k, metric)
        np.testing.assert_array_equal(found.indices, panels.indices[:, :k])
        np.testing.assert_array_equal(found.distances, panels.distances[:, :k])


def test_what_it_does_not_take(rng):
    a, b = (rng.normal(size=(rows, 40)).astype("f4") for rows in (3, N))
    for k, columns, points_, why in (
        (1025, 40, b, "up to 1024 neighbours"),
        (5, 8, b, "9 to 1024 dimensions"),
        (5, 40, b[:9000], "among 16384 to"),
    ):
        with pytest.raises(ValueError, match=why):
            knn(a[:, :columns], points_[:, :columns], k)
    for kernel, metric in ((ID, "cityblock"), (BYTES, "euclidean")):
        with pytest.raises(ValueError, match=f"metric {metric}"):
            gpudist.knn(a, b, 5, metric, kernel=kernel, device="cuda")


def test_little_memory_is_no_reason_to_fail(rng):
    a, b = (rng.normal(size=(rows, 40)).astype("f4") for rows in (1000, N))
    found = gpudist.knn(a, b, 10, device="cuda")
    for memory in (1 << 30, 100 << 20, 20 << 20):  # by points in one piece, in several, by panels
        less = gpudist.knn(a, b, 10, device="cuda", max_memory=memory)
        np.testing.assert_array_equal(less.indices, found.indices)
        np.testing.assert_array_equal(less.distances, found.distances)
    with pytest.raises(MemoryError, match="max_memory"):
        knn(a, b, 10, max_memory=8 << 20)
