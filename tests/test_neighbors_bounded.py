"""What products rule out is no neighbour: the bits are those of the other kernels."""

import numpy as np
import pytest
from test_neighbors import check
from test_neighbors_boxes import (
    SETS,
    check_a_radius_for_each_row,
    check_all,
    check_memory,
    keys_like,
)

import gpudist
from gpudist import _core

KERNELS = [k.id for k in gpudist.kernels("neighbors") if "cpu_product" in k.id and not k.why_not]
BEST = KERNELS[0]
PANELS = BEST.replace("product", "filter")
DTYPES = [np.float32, np.float64]


def tight_clusters(rng, rows, d, dtype):
    """Points that float32 products cannot tell apart within a cluster."""
    middles = rng.normal(size=(3, d))
    return (middles[rng.integers(0, 3, rows)] + 1e-5 * rng.normal(size=(rows, d))).astype(dtype)


def same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def looks_through_panels(call):
    """Tell whether a call comes to do so, from what it says of memory that it is denied.

    What products are denied is no fault: panels are what auto takes then.
    """
    said = []
    for nth in range(1, 40):
        _core.fail_allocation(nth)
        try:
            call()
        except MemoryError as error:
            said.append(str(error))
        finally:
            _core.fail_allocation(0)
    return any("a panel of distances" in one for one in said)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "inner_product"])
def test_products_have_the_bits_of_the_definition(metric, name, dtype, rng):
    d = (130, 9, 16, 40, 300)[len(name) % 5]
    b = SETS[name](rng, d, dtype)
    a = np.concatenate([b[:6], SETS[name](rng, d, dtype)[:19], b[-6:]])
    check_all(a, b, metric, {}, BEST)
    check_all(b[700:715], b, metric, {}, BEST, first=700)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_cosines_are_those_of_prepared_rows(name, dtype, rng):
    metric, d = [("cosine", 40), ("correlation", 17), ("cosine", 9)][len(name) % 3]
    args = {"w": np.arange(d) % 3} if len(name) % 2 else {}
    b = SETS[name](rng, d, dtype)
    b[[40, 41]] = 0
    b[42] = -b[3]  # at the largest distance that there is
    a = np.concatenate([b[:6], SETS[name](rng, d, dtype)[:19], b[-6:]])
    check_all(a, b, metric, args, BEST)
    check_all(b[700:715], b, metric, args, BEST, first=700)
    for k in (3, len(b) - 1):
        same(
            gpudist.knn(b, k=k, metric=metric, kernel=BEST, **args),
            gpudist.knn(b, k=k, metric=metric, kernel=PANELS, **args),
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 3, 15, 16, 17, 33, 128, 129, 256, 260])
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_instruction_set_and_number_of_columns(kernel, d, dtype, rng):
    b = rng.normal(size=(1500, d)).astype(dtype)
    check_all(b[:5] + dtype(0.1), b, "euclidean", {}, kernel)
    check_all(b[:5] + dtype(0.1), b, "inner_product", {}, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 11, 12, 23, 24, 25, 47, 48, 49, 97, 1000])
def test_any_number_of_points(kernel, n, rng):
    b = rng.normal(size=(n, 20))
    check_all(b[::-1][:20], b, "euclidean", {}, kernel)
    if n > 1:
        check_all(b[:1], b, "euclidean", {}, kernel, first=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_at_all_distances_from_the_others(dtype, rng):
    """A row's own size may not hide its neighbours, nor may those of others."""
    b = rng.normal(size=(1500, 24)) * 10.0 ** rng.uniform(-12, 12, (1500, 1))
    a = b[::30] * (1 + 1e-6 * rng.normal(size=(50, 24)))
    check_all(a.astype(dtype), b.astype(dtype), "euclidean", {}, BEST)
    check_all(a.astype(dtype), b.astype(dtype), "inner_product", {}, BEST)


@pytest.mark.parametrize("tiny", [1e-21, 1e-22, 3e-23])
def test_cosines_that_underflow(tiny, rng):
    b = rng.normal(size=(1500, 24)) * tiny
    b[:, 0] = 1
    check_all(b[:20].astype("f4"), b.astype("f4"), "cosine", {}, BEST)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_columns_of_mostly_no_numbers(special, rng):
    """Of these no centre can be made."""
    b = rng.normal(size=(1500, 24)).astype(np.float32)
    b[rng.random(1500) < 0.8, 3] = special
    b[rng.random(1500) < 0.8, 7] = -special
    check_all(b[:40] * 1.5, b, "euclidean", {}, BEST)
    check_all(b[:40] * 1.5, b, "inner_product", {}, BEST)


@pytest.mark.parametrize("power", [-534, -536, -538])
def test_squares_that_underflow(power, rng):
    """In float64 a distance is then smaller than the rows' own, and 0 in the end."""
    b = rng.normal(size=(1500, 24)) * 2.0**power
    check_all(b[:20] * 1.5, b, "euclidean", {}, BEST)
    check_all(b[:20] * 1.5, b, "inner_product", {}, BEST)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("dtype", "tiny"), [("f4", 2e-44), ("f8", 2e-322)])
def test_products_too_small_for_their_type_keep_their_sign(kernel, dtype, tiny):
    """They are 0 or -0, as in the matrix: a last fold that is not whole adds nothing to that."""
    signs = []
    for d in (1, 5, 16, 17, 40, 150, 300):
        a, b = np.full((2, d), -tiny, dtype), np.full((3, d), tiny, dtype)
        b[1, :-1], a[1, 1:] = 0, 0
        tile = kernel.replace("neighbors/cpu_product", "cdist/cpu_tile")
        expected = gpudist.cdist(a, b, "inner_product", kernel=tile)
        found = gpudist.knn(a, b, 3, "inner_product", kernel=kernel)
        assert not found.distances.any()
        there = np.take_along_axis(np.signbit(expected), found.indices, axis=1)
        np.testing.assert_array_equal(np.signbit(found.distances), there, f"{d} columns")
        signs.append(there)
    fused = not kernel.endswith("baseline")  # what is rounded first adds -0 to 0, which is 0
    assert np.any(signs) == fused
    assert not np.all(signs)


@pytest.mark.parametrize(("dtype", "power"), [("f4", 62), ("f4", 63), ("f8", 510), ("f8", 511)])
def test_products_that_go_beyond_the_range(dtype, power, rng):
    """Some on the way to a sum that is a number; infinite ones are the nearest of all."""
    b = rng.normal(size=(1500, 24)) * 2.0**power
    b[::3] = np.repeat(b[::3, ::2], 2, axis=1) * ([1, -1] * 12)  # whose sums are differences
    a = np.concatenate([b[:10], np.abs(b[:10]), np.full((1, 24), 2.0**power)])
    b[::7] = np.abs(b[::7]) * 8
    check_all(a.astype(dtype), b.astype(dtype), "inner_product", {}, BEST)


@pytest.mark.parametrize("dtype", DTYPES)
def test_auto_takes_products_for_many_rows(dtype, rng):
    b = rng.random((5000, 20)).astype(dtype)
    said = gpudist.explain("knn", b, k=16, ceilings={}, device="cpu")
    assert said.kernel == BEST and "tried on some rows first" in said.reason
    assert "in float32 for its products" in str(said)
    found = gpudist.knn(b, k=16, device="cpu")
    same(found, gpudist.knn(b, k=16, kernel=PANELS))
    order = rng.permutation(len(b))
    moved = gpudist.knn(b[order], b, 17, device="cpu")
    np.testing.assert_array_equal(moved.indices[:, 0], order)
    np.testing.assert_array_equal(moved.indices[:, 1:], found.indices[order])
    for rows in (slice(0, 5000, 1), slice(17, 900), slice(40, 41)):
        part = gpudist.knn(b, k=16, rows=rows, device="cpu")
        same(part, (found.distances[rows], found.indices[rows]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_auto_goes_back_to_panels_where_products_rule_nothing_out(dtype, rng):
    b = tight_clusters(rng, 3000, 32, dtype)
    a = b[:300] + dtype(1e-6)
    same(gpudist.knn(a, b, 7, device="cpu"), gpudist.knn(a, b, 7, kernel=PANELS))
    same(gpudist.knn(a, b, 7, kernel=BEST), gpudist.knn(a, b, 7, kernel=PANELS))
    told = []
    gpudist.knn(a, b, 7, device="cpu", progress=lambda done, total: told.append(done / total))
    assert told == sorted(told) and told[-1] == 1
    assert looks_through_panels(lambda: gpudist.knn(a, b, 7, device="cpu"))
    c = rng.random((3000, 32)).astype(dtype)
    assert not looks_through_panels(lambda: gpudist.knn(c[:300], c, 7, device="cpu"))
    both = np.concatenate([c[:1500], b])
    index = gpudist.Neighbors(both, n_neighbors=7, device="cpu")
    for rows, in_panels in ((c[:300], False), (a, True), (c[:300], False), (a, True)):
        same(index.kneighbors(rows), gpudist.knn(rows, both, 7, kernel=PANELS))
        assert looks_through_panels(lambda rows=rows: index.kneighbors(rows)) is in_panels


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_rows_are_no_reason_for_panels(dtype, rng):
    """A row that has found as many equal ones as are wanted looks no further."""
    b = rng.normal(size=(6000, 24)).astype(dtype)
    b[rng.random(6000) < 0.7] = b[0]
    a = b[:1500]
    panels = gpudist.knn(a, b, 300, kernel=PANELS)
    for k in (1, 16, 300):
        expected = (panels.distances[:, :k], panels.indices[:, :k])
        same(gpudist.knn(a, b, k, kernel=BEST), expected)
    same(gpudist.knn(b, k=16, kernel=BEST), gpudist.knn(b, k=16, kernel=PANELS))
    assert not looks_through_panels(lambda: gpudist.knn(a, b, 16, device="cpu"))


def test_more_dimensions_than_one_round_does(rng):
    """So many that all pairs are not done between two looks at the watcher."""
    b = rng.random((9000, 4096), dtype=np.float32)
    a = b[::70] + np.float32(0.001)
    told = []
    found = gpudist.knn(
        a, b, 5, kernel=BEST, progress=lambda done, total: told.append(done / total)
    )
    same(found, gpudist.knn(a, b, 5, kernel=PANELS))
    assert told == sorted(told) and told[-1] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_added_in_the_order_of_the_rows(dtype, rng):
    x, y = rng.random((600, 12)).astype(dtype), rng.random((900, 12)).astype(dtype)
    wx, wy = rng.random(600), rng.random(900)
    radii = [0.5, 0.9, 1.1]
    for arguments in ((x, y, radii), (x, None, radii)):
        weights = (wx, wy) if arguments[1] is not None else wx
        ways = [
            gpudist.count_neighbors(*arguments, weights=weights, kernel=kernel)
            for kernel in (BEST, PANELS)
        ]
        assert ways[0].all()
        np.testing.assert_array_equal(*ways)


def test_sets_of_one_array_in_several_metrics(rng):
    x = rng.normal(size=(2000, 12))
    metrics = ("cosine", "correlation", "euclidean")
    sets = [gpudist.Neighbors(x, n_neighbors=4, metric=one, device="cpu") for one in metrics]
    for one, metric in 2 * list(zip(sets, metrics, strict=True)):
        same(one.kneighbors(x[:150]), gpudist.knn(x[:150], x, 4, metric, kernel=PANELS))


def test_a_radius_for_each_row(rng):
    check_a_radius_for_each_row(rng.random((800, 30)), BEST)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gpudist.knn(x, k=1, metric="hellinger", kernel=BEST), "does not know"),
        (lambda x: gpudist.knn(x, k=1, metric="cityblock", kernel=BEST), "does not know"),
        (lambda x: gpudist.knn(x, k=1, w=[1, 2, 1], kernel=BEST), "takes no weights"),
        (lambda x: gpudist.knn(x, k=1, box=1, kernel=BEST), "periodic"),
    ],
)
def test_what_products_are_not_for(call, message, rng):
    with pytest.raises(ValueError, match=message):
        call(rng.random((600, 3)))


def test_a_stop_comes_through(rng):
    x = rng.random((4000, 40))

    def stop(done, total):
        raise InterruptedError("enough")

    for kernel in (BEST, "auto"):
        with pytest.raises(InterruptedError, match="enough"):
            gpudist.knn(x, x, 3, kernel=kernel, device="cpu", progress=stop)
    check(gpudist.knn(x[:5], x, 3, kernel=BEST), keys_like(BEST, x[:5], x), 3)


def test_memory(rng):
    check_memory(rng.random((3000, 30)), 1.3, BEST)
    x = rng.random((20000, 120), dtype=np.float32)
    little = {"max_memory": x.nbytes}  # no room for packed points beside the rest: panels do it
    with pytest.raises(MemoryError, match="max_memory"):
        gpudist.knn(x[:200], x, 3, kernel=BEST, **little)
    same(
        gpudist.knn(x[:200], x, 3, device="cpu", **little),
        gpudist.knn(x[:200], x, 3, kernel=PANELS),
    )
