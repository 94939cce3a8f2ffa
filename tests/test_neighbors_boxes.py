"""What boxes pass over is no neighbour: the bits are those of the other kernels."""

import numpy as np
import pytest
from conftest import fail_each_allocation
from test_neighbors import check, check_searches, keys_of

import gpudist

KERNELS = [k.id for k in gpudist.kernels("neighbors") if "cpu_boxes" in k.id and k.why_not is None]
BEST = KERNELS[0]
METRICS = [
    ("euclidean", {}),
    ("sqeuclidean", {}),
    ("cityblock", {}),
    ("chebyshev", {}),
    ("minkowski", {"p": 3}),
    ("minkowski", {"p": 1.5}),
    ("minkowski", {"p": 0.5}),
    ("minkowski", {"p": 7.5}),
]
ROWS = 1200


def with_specials(x):
    x[::50] = np.nan
    x[7::50, 0] = np.inf
    x[9::50, -1] = -np.inf
    x[11::50, 0] = np.nan
    return x


def ladder(rng, d, dtype):
    """Points some ulps apart, in some column."""
    x = np.full((ROWS, d), dtype(0.7))
    steps = rng.integers(-40, 40, x.shape)
    return x + steps.astype(dtype) * np.spacing(dtype(0.7))


def scaled(power):
    def make(rng, d, dtype):
        return (rng.normal(size=(ROWS, d)) * 2.0**power).astype(dtype)

    return make


def shifted(by):
    return lambda rng, d, dtype: (rng.normal(size=(ROWS, d)) + by).astype(dtype)


def doubled(rng, d, dtype):
    half = rng.normal(size=(ROWS // 2, d))
    return np.concatenate([half, half]).astype(dtype)[rng.permutation(ROWS)]


def equal_at_the_kth(rng, d, dtype):
    x = rng.normal(size=(ROWS, d)) * 0.01
    x[rng.permutation(ROWS)[:1000]] = 1
    return x.astype(dtype)


def huge(rng, d, dtype):
    x = rng.normal(size=(ROWS, d)).astype(dtype)
    x[ROWS // 2, 0], x[ROWS // 3, -1] = np.finfo(dtype).max, -np.finfo(dtype).max
    return x


SETS = {
    "uniform": lambda rng, d, dtype: rng.random((ROWS, d)).astype(dtype),
    "doubled": doubled,
    "ulps apart": ladder,
    "a thousand equal rows": equal_at_the_kth,
    "all equal": lambda rng, d, dtype: np.full((ROWS, d), dtype(0.3)),
    "offset 1e4": shifted(1e4),
    "offset 1e8": shifted(1e8),
    "one huge coordinate": huge,
    "huge": lambda rng, d, dtype: (
        rng.uniform(-0.9, 0.9, (ROWS, d)) * float(np.finfo(dtype).max)
    ).astype(dtype),
    "sums near the end of the range": lambda rng, d, dtype: (
        rng.normal(size=(ROWS, d)) * float(np.finfo(dtype).max) ** 0.5
    ).astype(dtype),
    "subnormal": lambda rng, d, dtype: (
        rng.integers(0, 50, (ROWS, d)) * float(np.finfo(dtype).smallest_subnormal)
    ).astype(dtype),
    "lost squares": lambda rng, d, dtype: scaled(-52 if dtype == np.float32 else -530)(
        rng, d, dtype
    ),
    "lost powers": scaled(-120),
    "NaN and infinity": lambda rng, d, dtype: with_specials(
        rng.normal(size=(ROWS, d)).astype(dtype)
    ),
    "only NaN": lambda rng, d, dtype: np.full((ROWS, d), dtype(np.nan)),
    "clusters": lambda rng, d, dtype: (
        rng.normal(size=(20, d))[rng.integers(0, 20, ROWS)] * 100 + rng.normal(size=(ROWS, d))
    ).astype(dtype),
    "on a line": lambda rng, d, dtype: (rng.random((ROWS, 1)) * np.arange(1.0, d + 1)).astype(
        dtype
    ),
    "heavy tails": lambda rng, d, dtype: (rng.standard_cauchy((ROWS, d)) ** 3).astype(dtype),
    "a lattice": lambda rng, d, dtype: rng.integers(0, 6, (ROWS, d)).astype(dtype),
    "on a sphere": lambda rng, d, dtype: (
        (x := rng.normal(size=(ROWS, d))) / np.linalg.norm(x, axis=1, keepdims=True)
    ).astype(dtype),
}


def radii_of(keys):
    """Give some distances that there are, as equal to a distance as can be, and infinity.

    An infinite similarity as well, if there is one.
    """
    known = keys[np.isfinite(keys)]
    if known.size == 0:
        return np.array([0.0, np.inf])
    some = np.unique(np.quantile(known, [0, 0.003, 0.05, 0.5], method="lower"))
    return np.concatenate([[-np.inf] if np.any(keys == -np.inf) else [], some, [np.inf]])


def keys_like(kernel, a, b, metric="euclidean", first=None, **args):
    """Give what the definition sorts, of the kernel's instruction set."""
    family = "sums" if metric == "minkowski" else "tile"
    same = f"cdist/cpu_{family}_{kernel.rpartition('_')[2]}"
    return keys_of(a, b, metric, first=first, kernel=same, **args)


def check_a_radius_for_each_row(x, kernel):
    keys = keys_like(kernel, x, x, first=0)
    radii = np.take_along_axis(keys, np.argsort(keys, axis=1)[:, 6:7], 1)[:, 0]
    found = gpudist.radius_neighbors(x, r=radii, kernel=kernel)
    assert (np.diff(found.indptr) >= 7).all()
    np.testing.assert_array_equal(found.indices, np.nonzero(keys <= radii[:, None])[1])


def check_all(a, b, metric, args, kernel, first=None):
    """Hold all four calls against the matrix."""
    keys = keys_like(kernel, a, b, metric, first, **args)
    check_searches(a, b, keys, radii_of(keys), first, metric=metric, kernel=kernel, **args)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("metric", "args"), METRICS)
def test_boxes_have_the_bits_of_the_definition(metric, args, name, dtype, rng):
    d = (3, 2, 5, 8, 1)[len(name) % 5]
    b = SETS[name](rng, d, dtype)
    a = np.concatenate([b[:6], SETS[name](rng, d, dtype)[:19], b[-6:]])
    check_all(a, b, metric, args, BEST)
    check_all(b[700:715], b, metric, args, BEST, first=700)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", range(1, 9))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_instruction_set_and_number_of_columns(kernel, d, dtype, rng):
    b = rng.normal(size=(3000, d)).astype(dtype)
    for metric, args in METRICS[:5]:
        check_all(b[:5] + dtype(0.1), b, metric, args, kernel)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 256, 257, 2049])
def test_any_number_of_points(n, rng):
    b = rng.normal(size=(n, 3))
    check_all(b[::-1][:20], b, "euclidean", {}, BEST)
    if n > 1:
        check_all(b[:1], b, "euclidean", {}, BEST, first=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_in_blocks(dtype, rng):
    """More rows than a block has, whatever their order; auto takes the boxes."""
    b = rng.random((10000, 3)).astype(dtype)
    said = gpudist.explain("knn", b, k=16, ceilings={})
    assert said.kernel == BEST and "tried on some rows first" in said.reason
    assert "computes: at most" in str(said)
    found = gpudist.knn(b, k=16)
    order = rng.permutation(len(b))
    moved = gpudist.knn(b[order], b, 17)
    np.testing.assert_array_equal(moved.indices[:, 0], order)
    np.testing.assert_array_equal(moved.indices[:, 1:], found.indices[order])
    check(gpudist.knn(b[:50], b, 16), keys_of(b[:50], b), 16)
    large = gpudist.knn(np.repeat(b, 7, axis=0), b, 1)
    np.testing.assert_array_equal(large.indices[:, 0], np.repeat(np.arange(len(b)), 7))


def test_weights_are_added_in_the_order_of_the_rows(rng):
    x, y = rng.random((600, 3)), rng.random((900, 3))
    wx, wy = rng.random(600), rng.random(900)
    radii = [0.05, 0.2, 0.5]
    ways = [
        gpudist.count_neighbors(x, y, radii, weights=(wx, wy), kernel=kernel)
        for kernel in (BEST, BEST.replace("boxes", "filter"))
    ]
    np.testing.assert_array_equal(*ways)
    ways = [
        gpudist.count_neighbors(x, radii=radii, weights=wx, kernel=kernel, rows=slice(100, 500))
        for kernel in (BEST, BEST.replace("boxes", "filter"))
    ]
    np.testing.assert_array_equal(*ways)


def test_a_radius_for_each_row(rng):
    check_a_radius_for_each_row(rng.random((800, 3)), BEST)


def test_auto_goes_back_to_panels_where_boxes_pass_over_nothing(rng):
    """On a sphere all are as far from its middle: trees look at everything."""
    x = rng.normal(size=(2000, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    middle = rng.normal(size=(500, 8)) * 1e-3
    check(gpudist.knn(middle, x, 5), keys_of(middle, x), 5)
    found = gpudist.radius_neighbors(x, r=np.inf)
    assert (np.diff(found.indptr) == len(x) - 1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gpudist.knn(x, k=1, metric="cosine", kernel=BEST), "prepared|does not know"),
        (lambda x: gpudist.knn(x, k=1, metric="canberra", kernel=BEST), "does not know"),
        (lambda x: gpudist.knn(x, k=1, w=[1, 2, 1], kernel=BEST), "takes no weights"),
        (lambda x: gpudist.knn(np.hstack([x] * 3), k=1, kernel=BEST), "1 to 8 dimensions"),
        (lambda x: gpudist.knn(x, k=1, kernel="neighbors/cpu_box"), "unknown kernel"),
        (lambda x: gpudist.cdist(x, x, kernel=BEST), "unknown kernel"),
    ],
)
def test_what_boxes_are_not_for(call, message, rng):
    with pytest.raises(ValueError, match=message):
        call(rng.random((600, 3)))


def check_memory(x, radius, kernel):
    """Hold that searches of all kinds survive a lack of memory, and hear of a limit."""
    for call in (
        lambda: gpudist.knn(x[:40], x, 3, kernel=kernel),
        lambda: gpudist.radius_neighbors(x[:40], x, radius, kernel=kernel),
        lambda: gpudist.count_neighbors(x[:40], x, [radius], kernel=kernel),
    ):
        fail_each_allocation(call)
    with pytest.raises(MemoryError, match="max_memory"):
        gpudist.knn(x, k=3, kernel=kernel, max_memory=1000)


def test_memory(rng):
    check_memory(rng.random((3000, 3)), 0.3, BEST)
