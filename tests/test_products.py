"""Distances from products on the CPU keep what is promised of those from differences."""

import numpy as np
import pytest
from conftest import LAYOUTS, assert_close, bits, relay, rows, runnable

import gpudist

KERNELS = [p for p in rows("cdist") if p.values[0].id.startswith("cdist/cpu_product")]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_metric = pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
or_cosine = pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
CLOSE = 1e-13


def of_differences(kernel):
    return kernel.id.replace("product", "tile")


def sampled(n):
    """Rows of B by which a call decides between products and differences, and takes a centre."""
    places = []
    for i in range(16):
        stretch = i % 32 * 4 + i // 32
        places.append(stretch * (n // 128) + (i * 2654435761 % 2**32 * (n // 128) >> 32))
    return places


def scattered(rng, n, d):
    """Rows about the origin, which is their median in each dimension, none near another."""
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1)


def among(x, n, rng):
    """Put rows among scattered ones where no sample is taken; return all, and their places."""
    b = scattered(rng, n, x.shape[1])
    free = np.setdiff1d(np.arange(n), sampled(n))
    places = rng.choice(free, len(x), replace=False)
    b[places] = x
    return b, places


def roundings_of_one_sign(d):
    """Pairs of rows whose products all round up and whose norms round down, with their squares.

    One dimension has nearly all of a norm; each other one adds a little more than half a unit in
    the last place of the sum of products, and nothing to the distance.
    """
    step = np.geomspace(0.02, 1.2, 60)
    x, y = np.zeros((60, d)), np.zeros((60, d))
    x[:, 0], y[:, 0] = 1.0, 1.0 - step * 0.75
    half = np.spacing(y[:, 0]) / 2 * 1.01
    for first in range(0, d, 32):
        count = min(32, d - first)
        x[:, first : first + count] += np.sqrt(half if first == 0 else half / count)[:, None] * (
            np.arange(first, first + count) > 0
        )
    y[:, 1:] = x[:, 1:]
    return x, y, (x[:, 0] - y[:, 0]).astype(np.longdouble) ** 2


@every_kernel
@every_metric
@pytest.mark.parametrize("d", [48, 130, 1024, 2048])
def test_what_is_trusted_lost_no_digit_to_roundings_of_one_sign(kernel, metric, d, rng):
    """Of products that are not computed again the worst are those just beyond the guard."""
    runnable(kernel)
    x, y, square = roundings_of_one_sign(d)
    b, places = among(y, 640, rng)
    got = gpudist.cdist(x, b, metric, kernel=kernel.id)[np.arange(60), places]
    expected = np.sqrt(square) if metric == "euclidean" else square
    assert np.max(np.abs(got - expected) / expected) <= CLOSE
    by_differences = gpudist.cdist(x, b, metric, kernel=of_differences(kernel))
    assert (got != by_differences[np.arange(60), places]).any(), "no product was trusted"


@every_kernel
@every_metric
@pytest.mark.parametrize("d", [64, 129, 1024, 4096])
def test_rows_of_one_number_each(kernel, metric, d, rng):
    """All terms of a sum are equal, so that they round alike."""
    runnable(kernel)
    size = 1 + rng.random(40)
    other = size * (1 + rng.choice([-1, 1], 40) * np.geomspace(1e-8, 0.9, 40))
    b, places = among(np.repeat(other[:, None], d, axis=1), 640, rng)
    got = gpudist.cdist(np.repeat(size[:, None], d, axis=1), b, metric, kernel=kernel.id)
    square = d * (size.astype(np.longdouble) - other) ** 2
    expected = np.sqrt(square) if metric == "euclidean" else square
    assert np.max(np.abs(got[np.arange(40), places] - expected) / expected) <= CLOSE


def hard(kind, rng, m, n, d):
    a, b = scattered(rng, m, d), scattered(rng, n, d)
    if kind == "near":
        b[:m] = np.nextafter(a, np.inf)
    elif kind == "offset":
        a, b = a + 1e8, b + 1e8
    elif kind == "heavy":
        a, b = np.exp(3 * a), np.exp(3 * b)
    elif kind == "mixed":
        a, b = (x * 10.0 ** rng.integers(-100, 100, (len(x), 1)) for x in (a, b))
    elif kind == "huge":
        a, b = (x * 10.0 ** rng.integers(148, 158, (len(x), 1)) for x in (a, b))
    elif kind == "subnormal":
        a, b = (x * 10.0 ** rng.integers(-318, -150, (len(x), 1)) for x in (a, b))
    elif kind == "tiny":  # squares lose digits, and products of others than they
        a, b = a * 2.0**-515, b * 2.0**-515
    elif kind == "edge":  # norms whose squares begin to leave the range
        a, b = (x * 2.0 ** rng.choice([-455, -450, -446, 498, 510], (len(x), 1)) for x in (a, b))
    b[-1] = a[0]
    return a, b


@every_kernel
@every_metric
@pytest.mark.parametrize(
    "kind", ["near", "offset", "heavy", "mixed", "huge", "subnormal", "tiny", "edge"]
)
def test_hard_data(kernel, metric, kind, rng):
    """Differences are right on these: products, or what takes their place, are as well."""
    runnable(kernel)
    for d in (50, 200):
        a, b = hard(kind, rng, 40, 300, d)
        expected = gpudist.cdist(a, b, metric, kernel=of_differences(kernel))
        got = gpudist.cdist(a, b, metric, kernel=kernel.id)
        assert_close(got, expected, CLOSE / 2)
        assert got[0, -1] == 0
        square = gpudist.cdist(b, b.copy(), metric, kernel=kernel.id)
        np.testing.assert_array_equal(square, square.T)
        np.testing.assert_array_equal(np.diagonal(square), np.zeros(300))
        pairs = gpudist.pdist(b, metric, kernel=kernel.id)
        np.testing.assert_array_equal(pairs, square[np.triu_indices(300, 1)])


@every_kernel
@every_metric
def test_squares_are_infinite_where_those_of_differences_are(kernel, metric, rng):
    """Squares up to the largest number and just beyond, where a rounding decides."""
    runnable(kernel)
    d = 48
    half = np.sqrt(np.finfo(np.float64).max / d) / 2 * (1 + np.arange(-40, 40) * 2.0**-53)
    shape = 1 + rng.random((80, d)) * 1e-3
    a = half[:, None] * shape / np.sqrt(np.mean(shape**2, axis=1, keepdims=True))
    b, places = among(-a, 640, rng)
    want = gpudist.cdist(a, b, metric, kernel=of_differences(kernel))
    got = gpudist.cdist(a, b, metric, kernel=kernel.id)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    pairs = np.isinf(want[np.arange(80), places])
    assert pairs.any() and not pairs.all()


@every_kernel
@or_cosine
def test_what_is_computed_again_has_the_bits_of_differences(kernel, metric, rng):
    """One by one, some together with a whole panel, and where a row is no number."""
    runnable(kernel)
    for d in (49, 130, 300):
        near = rng.standard_normal(d) + 1e-3 * rng.standard_normal((230, d))
        b, places = among(near[40:], 640, rng)
        lone, lone_place = among(near[:1], 640, rng)
        a = np.concatenate([near[:40], scattered(rng, 30, d)])
        a[3, d // 2], a[5, -1] = np.nan, np.inf
        for columns, at in ((b, places), (lone, lone_place)):
            want = gpudist.cdist(a, columns, metric, kernel=of_differences(kernel))
            got = gpudist.cdist(a, columns, metric, kernel=kernel.id)
            assert (bits(got) != bits(want)).any(), "no product was trusted"
            np.testing.assert_array_equal(bits(got[:40, at]), bits(want[:40, at]))
            np.testing.assert_array_equal(bits(got[[3, 5]]), bits(want[[3, 5]]))


@every_kernel
@or_cosine
def test_a_row_does_not_depend_on_the_others(kernel, metric, rng):
    """Few rows have a form of their own; parts of B, threads and strides change nothing either."""
    runnable(kernel)
    for d in (3, 48, 131, 300):
        near = rng.standard_normal(d) + 1e-3 * rng.standard_normal((190, d))
        b, _ = among(near[40:], 640, rng)
        a = np.concatenate([near[:40], scattered(rng, 230, d)])
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
def test_clustered_points_are_left_to_differences(kernel, rng):
    """Where most pairs would be computed again; B alone decides."""
    runnable(kernel)
    centres = 5 * rng.standard_normal((4, 100))
    b = centres[rng.integers(4, size=400)] + 1e-2 * rng.standard_normal((400, 100))
    a = rng.standard_normal((20, 100))
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


def test_auto_takes_products_for_long_rows_and_many_columns_alone(rng):
    taken = {}
    for n, d in ((255, 400), (256, 47), (256, 48), (4000, 400)):
        a, b = np.zeros((3, d)), np.zeros((n, d))
        taken[n, d] = gpudist.explain("cdist", a, b, device="cpu").kernel
        assert "cpu_tile" in gpudist.explain("cdist", a, b, "cityblock", device="cpu").kernel
        assert "cpu_tile" in gpudist.explain("cdist", a, b, dtype="float32", device="cpu").kernel
        assert "cpu_tile" in gpudist.explain("cdist", b, a, device="cpu").kernel
    assert "cpu_tile" in taken[255, 400] and "cpu_tile" in taken[256, 47]
    assert taken[256, 48] == taken[4000, 400]


def test_neighbours_are_ordered_by_differences(rng):
    """Whatever cdist takes: distances of a search have the bits of the direct form."""
    b = rng.standard_normal((600, 90))
    a = b[:20] + 0.3 * rng.standard_normal((20, 90))
    found = gpudist.knn(a, b, 10, device="cpu")
    isa = gpudist.explain("cdist", a, a, device="cpu").kernel.rpartition("_")[2]
    every = gpudist.cdist(a, b, kernel=f"cdist/cpu_tile_{isa}")
    np.testing.assert_array_equal(found.distances, np.sort(every, axis=1)[:, :10])
