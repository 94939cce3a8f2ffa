"""Neighbours in a periodic box: the bits of the definition, by panels and among points."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from test_neighbors import check, check_searches, keys_of
from test_neighbors_boxes import radii_of, with_specials

import gpudist

PERIODIC = ("neighbors/cpu_boxes", "neighbors/cpu_filter")
KERNELS = [
    k.id for k in gpudist.kernels("neighbors") if k.id.startswith(PERIODIC) and k.why_not is None
]
BEST = next(id for id in KERNELS if "boxes" in id)
PANELS = next(id for id in KERNELS if "filter" in id)
METRICS = ["euclidean", "sqeuclidean", "cityblock", "chebyshev"]
ROWS = 1100


def of_unit(make):
    """Scale what is made for a box of length 1."""
    return lambda rng, lengths, dtype: (make(rng, len(lengths)) * lengths).astype(dtype)


def specials(rng, d):
    return with_specials(rng.random((ROWS, d)))


SETS = {
    "inside": of_unit(lambda rng, d: rng.random((ROWS, d))),
    "about 0": of_unit(lambda rng, d: rng.normal(size=(ROWS, d)) * 0.2),
    "spread over many boxes": of_unit(lambda rng, d: rng.normal(size=(ROWS, d)) * 50),
    "a lattice": of_unit(lambda rng, d: rng.integers(-8, 8, (ROWS, d)) / 8),
    "on the boundary": of_unit(
        lambda rng, d: rng.choice([-0.5, 0, 0.5, 1, 1e-9, -1e-9, 0.5 - 1e-9], (ROWS, d))
    ),
    "a cluster over the corner": of_unit(lambda rng, d: 1 + rng.normal(size=(ROWS, d)) * 1e-3),
    "all equal": of_unit(lambda rng, d: np.full((ROWS, d), 0.3)),
    "doubled": of_unit(
        lambda rng, d: (
            np.repeat(rng.random((ROWS // 2, d)), 2, 0) + rng.integers(-2, 3, (ROWS // 2 * 2, d))
        )
    ),
    "NaN and infinity": of_unit(specials),
    "only NaN": of_unit(lambda rng, d: np.full((ROWS, d), np.nan)),
    "tiny": of_unit(lambda rng, d: rng.random((ROWS, d)) * 1e-30),
}
BOXES = {
    "cubic": lambda rng, d: np.ones(d),
    "lengths of its own": lambda rng, d: rng.uniform(0.1, 3, d),
    "one periodic column": lambda rng, d: np.where(np.arange(d) == d // 2, 0.7, 0),
    "huge": lambda rng, d: np.full(d, 1e18),
    "tiny": lambda rng, d: np.full(d, 1e-20),
}


def set_in_box(name, shape, dtype, rng):
    """Return rows, what they are searched among, of which some are, and the box."""
    d = (3, 2, 5, 8, 1)[(len(name) + len(shape)) % 5]
    box = BOXES[shape](rng, d)
    lengths = np.where(box > 0, box, 1)
    b = SETS[name](rng, lengths, dtype)
    return np.concatenate([b[:6], SETS[name](rng, lengths, dtype)[:15], b[-6:]]), b, box


def check_all(a, b, metric, box, kernel, first=None):
    """Hold all four calls against the matrix, of the same instruction set."""
    by = BEST if "filter" in kernel else kernel  # panels are of the distances that auto takes
    same = "cdist/cpu_sums_" + by.rpartition("_")[2]
    keys = keys_of(a, b, metric, first=first, kernel=same, box=box)
    check_searches(a, b, keys, radii_of(keys), first, metric=metric, kernel=kernel, box=box)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", BOXES)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", METRICS)
def test_boxes_have_the_bits_of_the_definition(metric, name, shape, dtype, rng):
    a, b, box = set_in_box(name, shape, dtype, rng)
    check_all(a, b, metric, box, BEST)
    check_all(b[700:715], b, metric, box, BEST, first=700)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", range(1, 9))
def test_each_instruction_set_and_number_of_columns(kernel, d, rng):
    box = rng.uniform(0.5, 2, d) * (np.arange(d) % 3 != 1)
    for dtype in (np.float32, np.float64):
        b = rng.normal(size=(2100, d)).astype(dtype)
        for metric in METRICS:
            check_all(b[:5] + dtype(0.1), b, metric, box, kernel)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("metric", "args", "d"),
    [
        ("euclidean", {}, 20),
        ("minkowski", {"p": 3}, 3),
        ("minkowski", {"p": 1.5}, 3),
        ("minkowski", {"p": 1}, 3),
        ("euclidean", {"w": [1, 2, 0.5]}, 3),
        ("seuclidean", {"V": [1, 2, 0.5]}, 3),
    ],
)
def test_panels_do_what_points_do_not(metric, args, d, dtype, rng):
    a, b = rng.normal(size=(30, d)).astype(dtype), rng.normal(size=(700, d)).astype(dtype)
    args = args | {"box": 0.9}
    here = args | {"device": "cpu"}
    kernel = f"cdist/cpu_sums_{BEST.rpartition('_')[2]}"
    keys = keys_of(a, b, metric, kernel=kernel, **args)
    check(gpudist.knn(a, b, 9, metric, **here), keys, 9)
    keys = keys_of(b, b, metric, first=0, kernel=kernel, **args)
    check(gpudist.knn(b, k=9, metric=metric, **here), keys, 9)
    slow = gpudist.knn(a, b, 9, metric, kernel="reference", **args)
    np.testing.assert_allclose(slow.distances, gpudist.knn(a, b, 9, metric, **here).distances, 1e-6)


def test_exponents_that_boxes_do_not_take(rng):
    x = rng.random((600, 3))
    with pytest.raises(ValueError, match="exponents 1, 2 and infinity"):
        gpudist.knn(x, k=1, metric="minkowski", p=3, box=1, kernel=BEST)
    with pytest.raises(ValueError, match="1 to 8 dimensions"):
        gpudist.knn(np.hstack([x] * 3), k=1, box=1, kernel=BEST)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_as_a_tree_of_scipy_has_them(metric, d, rng):
    lengths = rng.uniform(0.5, 2, d) * (np.arange(d) != 1)
    inside = np.where(lengths > 0, lengths, 1)
    x, y = rng.random((500, d)) * inside, rng.random((3000, d)) * inside
    p = {"euclidean": 2, "cityblock": 1, "chebyshev": np.inf}[metric]
    tree = cKDTree(y, boxsize=lengths)
    distances, indices = tree.query(x, k=8, p=p)
    found = gpudist.knn(x, y, 8, metric, box=lengths)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-10)
    assert (found.indices == indices).mean() > 0.999
    radii = [0.05, 0.1, 0.3]
    theirs = tree.count_neighbors(cKDTree(x, boxsize=lengths), radii, p=p)
    assert gpudist.count_neighbors(x, y, radii, metric, box=lengths).tolist() == theirs.tolist()
    within = gpudist.radius_neighbors(x, y, 0.1, metric, box=lengths)
    assert [len(one) for one in tree.query_ball_point(x, 0.1, p=p)] == np.diff(
        within.indptr
    ).tolist()


def test_pairs_half_a_box_apart_are_ties(rng):
    """Over either end it is as far: the smaller index comes first."""
    corners = np.array(np.meshgrid([0.0, 0.5], [0.0, 0.5], [0.0, 0.5])).reshape(3, -1).T
    points = np.tile(corners, (100, 1))[rng.permutation(800)]
    for kernel in (BEST, PANELS):
        keys = keys_of(points[:20], points, box=1.0)
        assert len(np.unique(keys)) == 4
        check(gpudist.knn(points[:20], points, 300, box=1.0, kernel=kernel), keys, 300)


def test_auto_searches_among_points(rng):
    x = rng.random((5000, 3)) * 10
    said = gpudist.explain("knn", x, k=16, box=10)
    assert said.kernel == BEST and "tried on some rows first" in said.reason
    found = gpudist.knn(x, k=16, box=10)
    check(gpudist.KNearest(*(z[:80] for z in found)), keys_of(x[:80], x, first=0, box=10), 16)
    moved = gpudist.knn(x + 10 * rng.integers(-3, 3, x.shape), x, 1, box=10)
    np.testing.assert_array_equal(moved.indices[:, 0], np.arange(5000))
    assert moved.distances.max() < 1e-13


def test_weights_are_added_in_the_order_of_the_rows(rng):
    x, weights = rng.random((900, 3)), rng.random(900)
    ways = [
        gpudist.count_neighbors(x, radii=[0.05, 0.2, 0.5], weights=weights, kernel=kernel, box=1)
        for kernel in (BEST, PANELS)
    ]
    np.testing.assert_array_equal(*ways)


def test_parts_of_rows_and_of_memory(rng):
    x = rng.random((2000, 3)).astype(np.float32)
    whole = gpudist.knn(x, k=5, box=0.8)
    some = gpudist.knn(x, k=5, box=0.8, rows=slice(500, 1500))
    np.testing.assert_array_equal(some.indices, whole.indices[500:1500])
    little = gpudist.knn(x, k=5, box=0.8, max_memory=3_000_000)
    for one, other in zip(little, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_set_of_points_keeps_its_box(rng):
    x, y = rng.random((50, 3)), rng.random((900, 3))
    lengths = np.array([1.0, 0, 0.5])
    index = gpudist.Neighbors(y, box=lengths, n_neighbors=4, radius=0.2)
    want = gpudist.knn(x, y, 4, box=lengths)
    lengths[:] = 7  # it is copied
    distances, indices = index.kneighbors(x)
    np.testing.assert_array_equal(distances, want.distances)
    np.testing.assert_array_equal(indices, want.indices)
    within = gpudist.radius_neighbors(y, r=0.2, box=[1, 0, 0.5])
    np.testing.assert_array_equal(np.concatenate(index.radius_neighbors()[1]), within.indices)
