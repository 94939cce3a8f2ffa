"""Distances from products on the CPU keep what is promised of those from differences."""

import numpy as np
import pytest
from conftest import LAYOUTS, assert_close, bits, relay, rows, runnable

import gpudist

KERNELS = [p for p in rows("cdist") if p.values[0].id.startswith("cdist/cpu_product")]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_metric = pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
or_cosine = pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
every_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])
# Dimensions of a chain of additions, and of more than one.
FOLDS = {"float64": (32, 128), "float32": (16, 64)}


def close(metric, dtype):
    """The relative error that is promised."""
    return 1e-13 if dtype == "float64" else 5e-7 if metric == "euclidean" else 1e-6


def of_differences(kernel):
    return kernel.id.replace("product", "tile")


def sampled(n):
    """Rows of B by which a call decides between products and differences, and takes a centre."""
    places = []
    for i in range(128):
        stretch = i % 32 * 4 + i // 32
        places.append(stretch * (n // 128) + (i * 2654435761 % 2**32 * (n // 128) >> 32))
    return places


def scattered(rng, n, d, dtype="float64"):
    """Rows about the origin, which is their median in each dimension, none near another."""
    return (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1)).astype(dtype)


def among(x, n, rng):
    """Put rows among scattered ones where no sample is taken; return all, and their places."""
    b = scattered(rng, n, x.shape[1], x.dtype)
    free = np.setdiff1d(np.arange(n), sampled(n))
    places = rng.choice(free, len(x), replace=False)
    b[places] = x
    return b, places


def roundings_of_one_sign(d, dtype, fold):
    """Pairs of rows whose products all round up and whose norms round down, with their squares.

    One dimension has nearly all of a norm; each other one of the first `fold`, and each `fold` of
    the rest, adds a little more than half a unit in the last place of the sum of products, and
    nothing to the distance. That sum begins just above a power of two, where such a unit is
    largest beside it.
    """
    share = 1 - np.geomspace(0.02, 1.2, 60) * 0.75
    size = np.sqrt(2.0 ** np.ceil(np.log2(share)) / share) * 1.001
    x, y = np.zeros((60, d), dtype), np.zeros((60, d), dtype)
    x[:, 0], y[:, 0] = size, size * share
    half = np.spacing(x[:, 0] * y[:, 0]) / 2 * 1.01
    for first in range(0, d, fold):
        count = min(fold, d - first)
        x[:, first : first + count] += np.sqrt(half if first == 0 else half / count)[:, None] * (
            np.arange(first, first + count) > 0
        )
    y[:, 1:] = x[:, 1:]
    return x, y, (x[:, 0].astype(np.longdouble) - y[:, 0]) ** 2


@every_kernel
@every_metric
@every_dtype
@pytest.mark.parametrize("d", [48, 130, 1024, 2048])
def test_what_is_trusted_lost_no_digit_to_roundings_of_one_sign(kernel, metric, dtype, d, rng):
    """Of products that are not computed again the worst are those just beyond the guard."""
    runnable(kernel)
    for fold in FOLDS[dtype]:
        x, y, square = roundings_of_one_sign(d, dtype, fold)
        b, places = among(y, 640, rng)
        got = gpudist.cdist(x, b, metric, kernel=kernel.id)[np.arange(60), places]
        expected = np.sqrt(square) if metric == "euclidean" else square
        assert np.max(np.abs(got - expected) / expected) <= close(metric, dtype)
        by_differences = gpudist.cdist(x, b, metric, kernel=of_differences(kernel))
        assert (got != by_differences[np.arange(60), places]).any(), "no product was trusted"


@every_kernel
@every_metric
@every_dtype
@pytest.mark.parametrize("d", [64, 129, 1024, 4096])
def test_rows_of_one_number_each(kernel, metric, dtype, d, rng):
    """All terms of a sum are equal, so that they round alike."""
    runnable(kernel)
    size = 1 + rng.random(40)
    other = size * (1 + rng.choice([-1, 1], 40) * np.geomspace(1e-8, 0.9, 40))
    other[:20] = size[:20] * np.linspace(-1.5, 0.3, 20)
    size, other = size.astype(dtype), other.astype(dtype)
    b, places = among(np.repeat(other[:, None], d, axis=1), 640, rng)
    got = gpudist.cdist(np.repeat(size[:, None], d, axis=1), b, metric, kernel=kernel.id)
    square = d * (size.astype(np.longdouble) - other) ** 2
    expected = np.sqrt(square) if metric == "euclidean" else square
    error = np.abs(got[np.arange(40), places] - expected)
    assert np.max(error / expected) <= close(metric, dtype)


@every_kernel
@or_cosine
@pytest.mark.parametrize("kind", ["normal", "uniform", "offset", "heavy", "far"])
def test_float32_on_data_for_products(kernel, metric, kind, rng):
    """Where most elements are products, they are as near to the exact ones as those promised."""
    runnable(kernel)
    for d in (64, 300, 1100):
        b = rng.random((400, d)) if kind == "uniform" else rng.standard_normal((400, d))
        a = rng.random((90, d)) if kind == "uniform" else rng.standard_normal((90, d))
        if kind == "offset":
            a, b = a + 1e4, b + 1e4
        elif kind == "heavy":
            a, b = np.sinh(2 * a), np.sinh(2 * b)
        elif kind == "far":  # from the centre, so that both norms are of the same few dimensions
            a[:, ::40] += 9
        a, b = a.astype("float32"), b.astype("float32")
        got = gpudist.cdist(a, b, metric, kernel=kernel.id)
        want = gpudist.cdist(a.astype("float64"), b.astype("float64"), metric, device="cpu")
        if metric == "cosine":
            assert_close(got, want, 0, 1e-6)
        else:
            assert_close(got, want, close(metric, "float32"))
        assert (got != gpudist.cdist(a, b, metric, kernel=of_differences(kernel))).any()


# Powers of ten and of two by which rows are scaled.
MIXED = {"float64": (-100, 100), "float32": (-15, 15)}
HUGE = {"float64": (148, 158), "float32": (17, 21)}
SUBNORMAL = {"float64": (-318, -150), "float32": (-43, -18)}
TINY = {"float64": -515, "float32": -51}
EDGE = {
    "float64": [-455, -450, -446, 498, 510],
    "float32": [-52, -50, -48, -46, -44, 58, 60, 61, 62, 63],
}


def hard(kind, rng, m, n, d, dtype):
    a, b = scattered(rng, m, d), scattered(rng, n, d)
    if kind == "offset":
        a, b = (x + 1e8 if dtype == "float64" else x + 1e4 for x in (a, b))
    elif kind == "heavy":
        a, b = np.exp(3 * a), np.exp(3 * b)
    elif kind in ("mixed", "huge", "subnormal"):
        power = {"mixed": MIXED, "huge": HUGE, "subnormal": SUBNORMAL}[kind][dtype]
        a, b = (x * 10.0 ** rng.integers(*power, (len(x), 1)) for x in (a, b))
    elif kind == "tiny":  # squares lose digits, and products of others than they
        a, b = a * 2.0 ** TINY[dtype], b * 2.0 ** TINY[dtype]
    elif kind == "edge":  # norms whose squares begin to leave the range
        a, b = (x * 2.0 ** rng.choice(EDGE[dtype], (len(x), 1)) for x in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    if kind == "near":
        b[:m] = np.nextafter(a, np.array(np.inf, dtype))
    b[-1] = a[0]
    return a, b


@every_kernel
@every_metric
@every_dtype
@pytest.mark.parametrize(
    "kind", ["near", "offset", "heavy", "mixed", "huge", "subnormal", "tiny", "edge"]
)
def test_hard_data(kernel, metric, dtype, kind, rng):
    """Differences are right on these: products, or what takes their place, are as well."""
    runnable(kernel)
    for d in (50, 200):
        a, b = hard(kind, rng, 40, 300, d, dtype)
        got = gpudist.cdist(a, b, metric, kernel=kernel.id)
        if dtype == "float64":
            expected = gpudist.cdist(a, b, metric, kernel=of_differences(kernel))
            assert_close(got, expected, close(metric, dtype) / 2)
        else:
            wide = gpudist.cdist(a.astype("f8"), b.astype("f8"), metric, device="cpu")
            over = wide > np.finfo("f4").max * (1 + 2.0**-26)
            assert_close(got, np.where(over, np.inf, wide), close(metric, dtype), 2.0**-149)
        assert got[0, -1] == 0
        square = gpudist.cdist(b, b.copy(), metric, kernel=kernel.id)
        np.testing.assert_array_equal(square, square.T)
        np.testing.assert_array_equal(np.diagonal(square), np.zeros(300))
        pairs = gpudist.pdist(b, metric, kernel=kernel.id)
        np.testing.assert_array_equal(pairs, square[np.triu_indices(300, 1)])


@every_kernel
@every_metric
@every_dtype
def test_squares_are_infinite_where_those_of_differences_are(kernel, metric, dtype, rng):
    """Squares up to the largest number and just beyond, where a rounding decides."""
    runnable(kernel)
    d, unit = 48, np.finfo(dtype).eps / 2
    half = np.sqrt(float(np.finfo(dtype).max) / d) / 2 * (1 + np.arange(-40, 40) * unit)
    shape = 1 + rng.random((80, d)) * 1e-3
    a = half[:, None] * shape / np.sqrt(np.mean(shape**2, axis=1, keepdims=True))
    a = a.astype(dtype)
    b, places = among(-a, 640, rng)
    want = gpudist.cdist(a, b, metric, kernel=of_differences(kernel))
    got = gpudist.cdist(a, b, metric, kernel=kernel.id)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    pairs = np.isinf(want[np.arange(80), places])
    if dtype == "float64" or metric == "sqeuclidean":
        assert pairs.any() and not pairs.all()
    else:  # the sum is infinite, its root is not
        assert not pairs.any()


@every_kernel
@or_cosine
@every_dtype
def test_what_is_computed_again_has_the_bits_of_differences(kernel, metric, dtype, rng):
    """One by one, some together with a whole panel, and where a row is no number."""
    runnable(kernel)
    for d in (49, 130, 300):
        near = (rng.standard_normal(d) + 1e-3 * rng.standard_normal((230, d))).astype(dtype)
        b, places = among(near[40:], 640, rng)
        lone, lone_place = among(near[:1], 640, rng)
        a = np.concatenate([near[:40], scattered(rng, 30, d, dtype)])
        a[3, d // 2], a[5, -1] = np.nan, np.inf
        for columns, at in ((b, places), (lone, lone_place)):
            want = gpudist.cdist(a, columns, metric, kernel=of_differences(kernel))
            got = gpudist.cdist(a, columns, metric, kernel=kernel.id)
            assert (bits(got) != bits(want)).any(), "no product was trusted"
            np.testing.assert_array_equal(bits(got[:40, at]), bits(want[:40, at]))
            np.testing.assert_array_equal(bits(got[[3, 5]]), bits(want[[3, 5]]))


@every_kernel
@every_metric
def test_float32_squares_that_lost_range_are_those_of_float64(kernel, metric, rng):
    """Few of a block, and whole panels of them: each is computed in float64, as by differences."""
    runnable(kernel)
    for d in (64, 131):
        tiny = (rng.standard_normal((90, d)) * 1e-22).astype("float32")
        large = (rng.standard_normal((3, d)) * 1e19).astype("float32")
        b, places = among(np.concatenate([tiny[30:], large]), 640, rng)
        a = np.concatenate([tiny[:30], -large, scattered(rng, 30, d, "float32"), b[:2]])
        want = gpudist.cdist(a, b, metric, kernel=of_differences(kernel))
        got = gpudist.cdist(a, b, metric, kernel=kernel.id)
        assert (bits(got) != bits(want)).any(), "no product was trusted"
        np.testing.assert_array_equal(bits(got[:33, places]), bits(want[:33, places]))
        assert (want[:30, places[:60]] > 0).all()
        assert (got[[-2, -1], [0, 1]] == 0).all()


@every_kernel
@or_cosine
@every_dtype
def test_a_row_does_not_depend_on_the_others(kernel, metric, dtype, rng):
    """Few rows have a form of their own; parts of B, threads and strides change nothing either."""
    runnable(kernel)
    for d in (3, 48, 131, 300):
        near = (rng.standard_normal(d) + 1e-3 * rng.standard_normal((190, d))).astype(dtype)
        b, _ = among(near[40:], 640, rng)
        a = np.concatenate([near[:40], scattered(rng, 230, d, dtype)])
        a[7] = np.nan
        call = {"metric": metric, "kernel": kernel.id}
        whole = gpudist.cdist(a, b, **call)
        for first, count in ((0, 1), (5, 2), (38, 3), (2, 4), (36, 5), (0, 9), (30, 33), (1, 129)):
            got = gpudist.cdist(a[first : first + count], b, **call)
            np.testing.assert_array_equal(bits(got), bits(whole[first : first + count]))
        least = gpudist.explain("cdist", a, b, **call).memory
        parts = gpudist.cdist(a, b, max_memory=least // 3, **call)
        np.testing.assert_array_equal(bits(parts), bits(whole))
        for layout in LAYOUTS:
            got = gpudist.cdist(relay(a, layout), relay(b, layout), **call)
            np.testing.assert_array_equal(bits(got), bits(whole))


@every_kernel
@every_dtype
def test_clustered_points_are_left_to_differences(kernel, dtype, rng):
    """Where most pairs would be computed again; B alone decides."""
    runnable(kernel)
    centres = 5 * rng.standard_normal((4, 100))
    b = centres[rng.integers(4, size=400)] + 1e-2 * rng.standard_normal((400, 100))
    a, b = rng.standard_normal((20, 100)).astype(dtype), b.astype(dtype)
    for rows_of_a in (a, a[:1], b[:50]):
        np.testing.assert_array_equal(
            gpudist.cdist(rows_of_a, b, kernel=kernel.id),
            gpudist.cdist(rows_of_a, b, kernel=of_differences(kernel)),
        )


@every_kernel
def test_cosines_of_very_long_rows_are_left_to_differences(kernel, rng):
    """Absolute errors of products grow with the dimensions."""
    runnable(kernel)
    for d, same in ((32000, False), (33000, True)):
        a, b = rng.standard_normal((6, d)), rng.standard_normal((30, d))
        got = gpudist.cdist(a, b, "cosine", kernel=kernel.id)
        want = gpudist.cdist(a, b, "cosine", kernel=of_differences(kernel))
        assert np.array_equal(got, want) == same
        assert_close(got, want, 0, 1e-12)


@every_dtype
def test_auto_takes_products_for_long_rows_and_many_columns_alone(dtype, rng):
    taken = {}
    least = 48 if dtype == "float64" else 64
    for n, d in ((255, 400), (256, least - 1), (256, least), (4000, 400)):
        a, b = np.zeros((3, d), dtype), np.zeros((n, d), dtype)
        taken[n, d] = gpudist.explain("cdist", a, b, device="cpu").kernel
        assert "cpu_tile" in gpudist.explain("cdist", a, b, "cityblock", device="cpu").kernel
        assert "cpu_tile" in gpudist.explain("cdist", b, a, device="cpu").kernel
    assert "cpu_tile" in taken[255, 400] and "cpu_tile" in taken[256, least - 1]
    assert taken[256, least] == taken[4000, 400]


@every_dtype
def test_neighbours_are_ordered_by_differences(dtype, rng):
    """Whatever cdist takes: distances of a search have the bits of the direct form."""
    b = rng.standard_normal((600, 90)).astype(dtype)
    a = b[:20] + (0.3 * rng.standard_normal((20, 90))).astype(dtype)
    found = gpudist.knn(a, b, 10, device="cpu")
    isa = gpudist.explain("cdist", a, a, device="cpu").kernel.rpartition("_")[2]
    every = gpudist.cdist(a, b, kernel=f"cdist/cpu_tile_{isa}")
    np.testing.assert_array_equal(found.distances, np.sort(every, axis=1)[:, :10])
