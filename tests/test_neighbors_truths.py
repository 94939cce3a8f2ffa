"""Counts of truths in common find the neighbours that a stable sort of all distances says."""

import numpy as np
import pytest
from conftest import RECORDS, runnable_where_meant
from test_neighbors import check, keys_from

import gpudist

ID = "neighbors/cuda_truths"
KERNEL = next(kernel for kernel in gpudist.kernels("neighbors") if kernel.id == ID)
pytestmark = pytest.mark.gpu
N, M = 16500, 33
METRICS = KERNEL.metrics


@pytest.fixture(autouse=True)
def _there():
    runnable_where_meant(KERNEL)


def keys_of(a, b, metric, first=None, **more):
    """What is sorted: distances of the kernel whose bits are promised."""
    distances = gpudist.cdist(a, b, metric, device="cuda", kernel="cdist/cuda_bits", **more)
    return keys_from(distances, metric, first)


def knn(a, b, k, metric, **more):
    return gpudist.knn(a, b, k, metric, kernel=ID, device="cuda", **more)


def held(found, keys, k, metric):
    check(found, keys, k, RECORDS[metric].similarity)


def of_density(share):
    return lambda rng, d: tuple(rng.random((rows, d)) < share for rows in (M, N))


def near(rng, middles, share):
    return middles ^ (rng.random(middles.shape) < share)


def clusters(rng, d):
    middles = rng.random((40, d)) < 0.1
    return tuple(near(rng, middles[rng.integers(0, 40, rows)], 0.02) for rows in (M, N))


def clusters_in_order(rng, d):
    """Neighbours of most rows are beyond the columns that limits are made from, and many."""
    middles = rng.random((3, d)) < 0.3
    b = near(rng, np.repeat(middles, N // 3, axis=0), 0.02)
    return near(rng, middles[rng.integers(0, 3, M)], 0.02), b


def nearer_and_nearer(rng, d):
    """Each column is nearer to all rows than those before it: lists have no room for them."""
    a = np.ones((M, d), bool)
    a[:, 0] = False
    return a, np.arange(d) <= (np.arange(N) * d // N)[:, None]


def doubled(rng, d):
    a, b = of_density(0.3)(rng, d)
    b[1::2] = b[::2]
    return a, b


def of_few_rows(rng, d):
    """Thousands of columns at any distance."""
    rows = rng.random((5, d)) < 0.4
    return tuple(rows[rng.integers(0, 5, count)] for count in (M, N))


def some_empty(rng, d):
    a, b = of_density(0.2)(rng, d)
    for x in (a, b):
        x[1::7] = False
        x[2::11] = True
    return a, b


def rising(rng, d):
    a, b = of_density(0.5)(rng, d)
    return a, b & (rng.random((N, d)) < np.linspace(0, 1, N)[:, None])


SETS = {
    "half": of_density(0.5),
    "sparse": of_density(0.05),
    "dense": of_density(0.95),
    "none": of_density(0),
    "all": of_density(1),
    "clusters": clusters,
    "clusters in order": clusters_in_order,
    "nearer and nearer": nearer_and_nearer,
    "every row twice": doubled,
    "of few rows": of_few_rows,
    "some empty": some_empty,
    "rising": rising,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 70, 128, 300, 1024, 2048])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_are_the_first_of_a_stable_sort(metric, name, d, dtype, rng):
    a, b = SETS[name](rng, d)
    keys = keys_of(a, b, metric, dtype=dtype)
    for k in (1, 10, 200, 1000):
        held(knn(a, b, k, metric, dtype=dtype), keys, k, metric)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["jaccard", "yule"])
def test_numbers_are_truths_where_they_are_not_0(metric, dtype, rng):
    a, b = (rng.integers(0, 3, (rows, 90)).astype(dtype) for rows in (M, N))
    a[3, 5], b[6::9, 7] = np.nan, -0.0
    held(knn(a, b, 12, metric), keys_of(a, b, metric), 12, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_no_row_is_its_own_neighbour(metric, rng):
    b = doubled(rng, 150)[1]
    found = gpudist.knn(b, k=7, metric=metric, kernel=ID, device="cuda")
    for rows in (slice(0, 40), slice(4080, 4110), slice(12280, 12300), slice(N - 20, N)):
        keys = keys_of(b[rows], b, metric, first=rows.start)
        held(type(found)(found.distances[rows], found.indices[rows]), keys, 7, metric)
        some = gpudist.knn(b, k=7, metric=metric, kernel=ID, device="cuda", rows=rows)
        held(some, keys, 7, metric)


@pytest.mark.parametrize("name", ["half", "clusters", "of few rows", "some empty"])
@pytest.mark.parametrize("metric", METRICS)
def test_all_within_a_radius_in_any_order(metric, name, rng):
    a, b = SETS[name](rng, 200)
    keys = keys_of(a, b, metric)
    order = np.argsort(keys, axis=1, kind="stable")
    radii = np.nan_to_num(np.take_along_axis(keys, order, 1)[:, 20], nan=0.5)
    radii[::3] *= 0.9
    inside = keys <= radii[:, None]
    i, j = np.nonzero(inside)
    nearest = [row[:count] for row, count in zip(order, inside.sum(axis=1), strict=True)]
    how = {"kernel": ID, "device": "cuda"}
    sign = -1 if RECORDS[metric].similarity else 1
    for sort in ("index", "distance"):
        found = gpudist.radius_neighbors(
            a, b, sign * radii, metric, max_neighbors=7, sort=sort, **how
        )
        rows = [np.sort(row[:7]) if sort == "index" else row[:7] for row in nearest]
        np.testing.assert_array_equal(found.indices, np.concatenate(rows))
    if inside.sum(axis=1).max() >= 1024:
        with pytest.raises(ValueError, match="1024 neighbours"):
            gpudist.radius_neighbors(a, b, sign * radii, metric, **how)
    else:
        found = gpudist.radius_neighbors(a, b, sign * radii, metric, **how)
        np.testing.assert_array_equal(np.diff(found.indptr), inside.sum(axis=1))
        np.testing.assert_array_equal(found.indices, j)
        np.testing.assert_array_equal(found.distances, sign * keys[i, j])
    found = gpudist.radius_neighbors(a, b, sign * radii, metric, device="cuda")
    np.testing.assert_array_equal(found.indices, j)


@pytest.mark.parametrize("name", ["half", "of few rows"])
@pytest.mark.parametrize("metric", METRICS)
def test_counts_of_pairs_within_radii(metric, name, rng):
    a, b = SETS[name](rng, 300)
    keys = keys_of(a, b, metric)
    sign = -1 if RECORDS[metric].similarity else 1
    for shares in ([0.001], [0.0003, 0.0005, 0.001]):
        radii = np.quantile(keys[np.isfinite(keys)], shares, method="lower").astype(float)
        expected = [(keys <= r).sum() for r in radii]
        if (keys <= radii[-1]).sum(axis=1).max() < 1024:
            found = gpudist.count_neighbors(a, b, sign * radii, metric, kernel=ID, device="cuda")
            assert found.tolist() == expected
        found = gpudist.count_neighbors(a, b, sign * radii, metric, device="cuda")
        assert found.tolist() == expected


def test_the_same_bits_whatever_finds_them(rng):
    """Also in several blocks of rows, and of operands that lie anyhow."""
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(rng.random((rows, 330)) < 0.3).cuda() for rows in (13000, 20000))
    for some in (slice(0, 330), slice(1, 301), slice(3, 66, 3)):
        x, y = a[:, some], b[:, some]
        panels = gpudist.knn(x, y, 40, "dice", kernel="neighbors/cuda_panels")
        for k in (1, 40):
            found = gpudist.knn(x, y, k, "dice", kernel=ID)
            assert torch.equal(found.indices, panels.indices[:, :k])
            assert torch.equal(found.distances, panels.distances[:, :k])


def test_truths_are_read_by_words_and_by_bytes_alike(rng):
    """Whole words, words with an end, and rows that begin anywhere; any byte but 0 is true."""
    torch = pytest.importorskip("torch")
    bytes_ = rng.integers(0, 4, (40, 336)).astype("u1") * rng.integers(1, 60, (40, 336), "u1")
    there = torch.from_numpy(bytes_).cuda().view(torch.bool)
    for columns in (slice(0, 336), slice(0, 330), slice(16, 33), slice(1, 336), slice(0, 336, 2)):
        exact = gpudist.cdist(*(bytes_[:, columns] != 0,) * 2, "jaccard", device="cpu")
        found = gpudist.cdist(*(there[:, columns],) * 2, "jaccard").cpu()
        np.testing.assert_allclose(found, exact, rtol=1e-15)


def test_auto_takes_it_for_many_rows_and_panels_where_one_has_many(rng):
    a, b = (rng.random((rows, 100)) < 0.3 for rows in (8200, 33_000))
    b[3000:4024] = a[7]
    how = {"device": "cuda", "dtype": "float32"}
    for same in (1024, 1023):
        b[3000 + same : 4024] = False
        said = gpudist.explain("radius_neighbors", a, b, 0.1, "jaccard", **how)
        assert said.kernel == ID
        found = gpudist.radius_neighbors(a, b, 0.1, "jaccard", **how)
        panels = gpudist.radius_neighbors(
            a, b, 0.1, "jaccard", kernel="neighbors/cuda_panels", **how
        )
        assert np.diff(found.indptr).max() == same
        for x, y in zip(found, panels, strict=True):
            np.testing.assert_array_equal(x, y)
        counts = gpudist.count_neighbors(a, b, [0.05, 0.1], "jaccard", **how)
        assert counts[-1] == found.indptr[-1]


def test_what_it_does_not_take(rng):
    a, b = of_density(0.5)(rng, 40)
    for k, points, why in ((1025, b, "up to 1024 neighbours"), (5, b[:9000], "among 16384 to")):
        with pytest.raises(ValueError, match=why):
            knn(a, points, k, "jaccard")
    with pytest.raises(ValueError, match="1 to 2048 dimensions"):
        knn(np.zeros((3, 2049), bool), np.zeros((N, 2049), bool), 5, "jaccard")
    with pytest.raises(ValueError, match="truths without weights alone"):
        knn(a, b, 5, "jaccard", w=np.ones(40))
    with pytest.raises(ValueError, match="truths without weights alone"):
        knn(a.astype(float), b.astype(float), 5, "hamming")


def test_little_memory_is_no_reason_to_fail(rng):
    a, b = (rng.random((rows, 40)) < 0.5 for rows in (1000, 70_000))
    assert gpudist.explain("knn", a, b, 10, "jaccard", device="cuda").kernel == ID
    found = gpudist.knn(a, b, 10, "jaccard", device="cuda")
    for memory in (1 << 30, 100 << 20, 20 << 20):  # in one piece, in several, by panels
        less = gpudist.knn(a, b, 10, "jaccard", device="cuda", max_memory=memory)
        np.testing.assert_array_equal(less.indices, found.indices)
        np.testing.assert_array_equal(less.distances, found.distances)
