"""Points in clusters have several centres in searches by products, and the bits of all pairs."""

import numpy as np
import pytest
from conftest import runnable_where_meant

import gpudist

ID = "neighbors/cuda_product"
KERNEL = next(kernel for kernel in gpudist.kernels("neighbors") if kernel.id == ID)
pytestmark = pytest.mark.gpu
N, M = 70_000, 700


@pytest.fixture(autouse=True)
def _there():
    runnable_where_meant(KERNEL)


def around(rng, middles, rows, width, shares=None):
    """Rows around some places, of which a share each is."""
    own = rng.choice(len(middles), rows, p=shares)
    return middles[own] + width * rng.normal(size=(rows, middles.shape[1]))


def clusters(count, width, shares=None):
    def draw(rng, d):
        middles = rng.normal(size=(count, d))
        shares_ = None if shares is None else shares(count)
        return tuple(around(rng, middles, rows, width, shares_) for rows in (M, N))

    return draw


def falling(count):
    shares = 1 / np.arange(1, count + 1) ** 2
    return shares / shares.sum()


def sorted_clusters(rng, d):
    a, b = clusters(20, 0.01)(rng, d)
    return a, b[np.argsort(b[:, 0], kind="stable")]


def within_clusters(rng, d):
    """Clusters of clusters."""
    middles = around(rng, rng.normal(size=(7, d)), 200, 0.03)
    return tuple(around(rng, middles, rows, 1e-4) for rows in (M, N))


def rows_elsewhere(rng, d):
    a, b = clusters(9, 0.01)(rng, d)
    a[::2] = 3 * rng.normal(size=(len(a[::2]), d))
    a[::5] = a[::5] * 1e3
    return a, b


def repeated(rng, d):
    middles = rng.normal(size=(300, d))
    return tuple(middles[rng.integers(0, 300, rows)] for rows in (M, N))


def copies(count, share=1.0):
    """Some rows many times each, in a share of both sets."""

    def draw(rng, d):
        middles = rng.normal(size=(count, d))
        middles[1:2] = 0
        drawn = [rng.normal(size=(rows, d)) for rows in (M, N)]
        for x in drawn:
            some = rng.random(len(x)) < share
            x[some] = middles[rng.integers(0, count, some.sum())]
        return tuple(drawn)

    return draw


def copies_at_the_end(rng, d):
    a, b = copies(3, 0.5)(rng, d)
    return a, b[np.argsort((b == 0).all(axis=1), kind="stable")]


def each_twice(rng, d):
    a, b = rng.normal(size=(M, d)), rng.normal(size=(N // 2, d))
    b[::100] = np.nan
    b[1::200] = -0.0
    b[2::200] = 0
    a[::3] = b[: len(a[::3])]
    return a, np.concatenate([b, b])[rng.permutation(len(b) * 2)]


def categories(parts, lacking=False):
    """A one in each of some parts of a row, or in A in all parts but the first."""

    def draw(rng, d):
        each = d // parts
        both = []
        for rows in (M, N):
            x = np.zeros((rows, d))
            for part in range(parts):
                x[np.arange(rows), part * each + rng.integers(0, each, rows)] = 1
            both.append(x)
        both[0][:, :each] *= not lacking
        return tuple(both)

    return draw


def mostly_zeros(rng, d):
    a, b = rng.normal(size=(M, d)), rng.normal(size=(N, d))
    b[rng.random(N) < 0.97] = 0
    a[::4] = 0
    return a, b


def equally_far(count):
    """Rows at just the same distance from half of A, more than are sorted at once."""

    def draw(rng, d):
        a, b = 3 * rng.normal(size=(M, d)), 3 * rng.normal(size=(N, d))
        b[rng.permutation(N)[:count]] = rng.choice([-1, 1], size=(count, d))
        a[::2] = 0
        return a, b

    return draw


def with_odd_ones(rng, d):
    """Rows that halves do not hold by some centre or other, and no numbers."""
    a, b = clusters(12, 0.001)(rng, d)
    for x in (a, b):
        x[3::500] *= 3e4
        x[5::700] *= 1e7
        x[6::400, 0] = np.nan
        x[7::900, -1] = np.inf
        x[8::900] = 0
    return a, b


def background(rng, d):
    a, b = clusters(5, 0.001)(rng, d)
    for x in (a, b):
        x[::3] = rng.normal(size=(len(x[::3]), d))
    return a, b


SETS = {
    "some": clusters(16, 0.1),
    "two": clusters(2, 0.01),
    "tight": clusters(67, 1e-3),
    "as tight as float32 goes": clusters(5, 1e-6),
    "as tight as float64 goes": clusters(5, 1e-14),
    "more than there are centres": clusters(150, 1e-3),
    "of very different sizes": clusters(40, 0.01, falling),
    "of very different sizes, tight": clusters(60, 1e-4, falling),
    "one after the other": sorted_clusters,
    "of clusters": within_clusters,
    "rows elsewhere": rows_elsewhere,
    "each of equal points": repeated,
    "a row alone": copies(1),
    "few different rows": copies(9),
    "few different rows among others": copies(4, 0.3),
    "copies at the end": copies_at_the_end,
    "500 different rows": copies(500),
    "5000 different rows among others": copies(5000, 0.7),
    "each twice": each_twice,
    "mostly zeros": mostly_zeros,
    "all equal": lambda rng, d: (rng.normal(size=(M, d)), np.full((N, d), 0.1)),
    "heavy tails": lambda rng, d: tuple(rng.standard_t(1.5, size=(r, d)) for r in (M, N)),
    "categories": categories(1),
    "categories of three": categories(3),
    "categories that rows lack": categories(2, lacking=True),
    "whole numbers": lambda rng, d: tuple(rng.integers(0, 3, (r, d)) for r in (M, N)),
    "3000 equally far": equally_far(3000),
    "6000 equally far": equally_far(6000),
    "with odd ones": with_odd_ones,
    "and points between": background,
    "far from 0": lambda rng, d: tuple(x + 1000 for x in clusters(30, 0.01)(rng, d)),
    "subnormal": lambda rng, d: tuple(x * 2.0**-138 for x in clusters(30, 0.01)(rng, d)),
    "squares overflow": lambda rng, d: tuple(x * 2.0**80 for x in clusters(30, 0.01)(rng, d)),
}


def points(rng, name, d, dtype):
    with np.errstate(over="ignore"):
        return tuple(x.astype(dtype) for x in SETS[name](rng, d))


def same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize(
    ("d", "dtype", "metric"),
    [
        (9, "float32", "euclidean"),
        (30, "float64", "cosine"),
        (50, "float32", "sqeuclidean"),
        (128, "float32", "euclidean"),
        (128, "float64", "euclidean"),
        (150, "float32", "euclidean"),
        (200, "float64", "cosine"),
        (520, "float32", "sqeuclidean"),
    ],
)
@pytest.mark.parametrize("name", SETS)
def test_neighbours_are_those_of_all_pairs(name, d, dtype, metric, rng):
    a, b = points(rng, name, d, dtype)
    panels = gpudist.knn(a, b, 1000, metric, kernel="neighbors/cuda_panels", device="cuda")
    for k in (1, 10, 128, 300, 1000):
        found = gpudist.knn(a, b, k, metric, kernel=ID, device="cuda")
        same(found, type(found)(panels.distances[:, :k], panels.indices[:, :k]))


@pytest.mark.parametrize(
    "name", ["some", "tight", "of very different sizes", "with odd ones", "each twice"]
)
@pytest.mark.parametrize("d", [40, 170])
def test_among_themselves_and_within_a_radius(name, d, rng):
    _, b = points(rng, name, d, "float32")
    how = {"device": "cuda", "kernel": ID}
    panels = how | {"kernel": "neighbors/cuda_panels"}
    rows = slice(5000, 30_000)
    expected = gpudist.knn(b, k=20, rows=rows, **panels)
    same(gpudist.knn(b, k=20, rows=rows, **how), expected)
    half, few = np.nanquantile(expected.distances[:, 5], [0.5, 0.001])
    for r, most, sort in ((half, 60, "index"), (half, 60, "distance"), (few, None, "index")):
        of_both = [
            gpudist.radius_neighbors(b, r=r, max_neighbors=most, sort=sort, rows=rows, **way)
            for way in (how, panels)
        ]
        same(*of_both)
        np.testing.assert_array_equal(of_both[0].indptr, of_both[1].indptr)


@pytest.mark.parametrize("count", [1, 9])
def test_of_equal_rows_the_first_are_found_but_for_the_row_itself(count, rng):
    """So one more than is wanted counts: of 1024 the first 1024 rows of B are one too few."""
    _, b = copies(count)(rng, 40)
    how = {"device": "cuda", "rows": slice(0, 300)}
    for k in (10, 1024):
        same(
            gpudist.knn(b, k=k, kernel=ID, **how),
            gpudist.knn(b, k=k, kernel="neighbors/cuda_panels", **how),
        )


@pytest.mark.parametrize("d", [9, 31, 64, 128, 256, 700])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name", ["some", "tight", "rows elsewhere", "with odd ones", "of clusters"]
)
def test_no_product_is_further_off_than_its_bound_says(name, dtype, d, rng, monkeypatch):
    """The row's option `check` computes them all in float64, and writes NaN where that fails."""
    told = gpudist.neighbors_call.Call.told
    more = {"options": {"check": 1}}
    monkeypatch.setattr(
        gpudist.neighbors_call.Call, "told", lambda call, watch: told(call, watch) | more
    )
    a, b = points(rng, name, d, dtype)
    found = gpudist.knn(a[:256], b, 3, kernel=ID, device="cuda")
    some = np.isfinite(a[:256]).all(axis=1)
    assert (found.indices[some] >= 0).all()
