"""Batches: leading dimensions broadcast, and each matrix has the bits that it has alone."""

from functools import partial

import numpy as np
import pytest

import gpudist
from gpudist import _core

METRICS = ["euclidean", "cosine", "jaccard", "minkowski", "canberra", "seuclidean", "mahalanobis"]
SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1,), ()), ((), (4,)), ((0,), (1,))]


def each(function, batch, *operands, **arguments):
    """Compute matrix after matrix."""
    spread = [np.broadcast_to(x, batch + x.shape[-2:]) for x in operands]
    return [function(*(x[i] for x in spread), **arguments) for i in np.ndindex(*batch)]


def points(rng, batch, rows, columns=7, dtype="f8"):
    return rng.normal(size=(*batch, rows, columns)).astype(dtype)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_each_matrix_has_the_bits_that_it_has_alone(rng, metric, dtype):
    for first, second in SHAPES:
        a, b = points(rng, first, 9, dtype=dtype), points(rng, second, 11, dtype=dtype)
        batch = np.broadcast_shapes(first, second)
        got = gpudist.cdist(a, b, metric)
        assert got.shape == (*batch, 9, 11) and got.dtype == dtype and got.flags.c_contiguous
        for one, alone in zip(
            got.reshape(-1, 9, 11), each(gpudist.cdist, batch, a, b, metric=metric), strict=True
        ):
            np.testing.assert_array_equal(one, alone)
        pairs = gpudist.pdist(a, metric)
        assert pairs.shape == (*first, 36)
        for one, alone in zip(
            pairs.reshape(-1, 36), each(gpudist.pdist, first, a, metric=metric), strict=True
        ):
            np.testing.assert_array_equal(one, alone)


@pytest.mark.parametrize("count, rows", [(300, 20), (3, 700)])
def test_small_matrices_are_shared_out_and_large_ones_come_in_turn(rng, count, rows):
    a, b = points(rng, (count,), rows, 5), points(rng, (1,), rows + 1, 5)
    expected = np.stack(each(gpudist.cdist, (count,), a, b))
    np.testing.assert_array_equal(gpudist.cdist(a, b), expected)
    seen = []
    got = gpudist.cdist(a, b, progress=lambda done, all_: seen.append((done, all_)))
    np.testing.assert_array_equal(got, expected)
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]


def test_layouts_dtypes_and_arguments(rng):
    a, b = points(rng, (4,), 6), points(rng, (4,), 5)
    expected = np.stack(each(gpudist.cdist, (4,), a, b, metric="minkowski", p=3, w=np.arange(7.0)))
    given = {"metric": "minkowski", "p": 3, "w": np.arange(7)}
    for x, y in (
        (a.tolist(), b),
        (np.asfortranarray(a), b[::-1][::-1]),
        (a.astype(">f8"), b),
        (np.repeat(a, 2, -1)[..., ::2], np.repeat(b, 2, 0)[::2]),
    ):
        np.testing.assert_array_equal(gpudist.cdist(x, y, **given), expected)
    whole = rng.integers(0, 9, (3, 6, 4))
    for x in (whole, whole > 4):
        for metric in ("jaccard", "cityblock"):
            np.testing.assert_array_equal(
                gpudist.cdist(x, x, metric),
                np.stack(each(gpudist.cdist, (3,), x, x, metric=metric)),
            )
    turned = points(rng, (3,), 7, 4).transpose(0, 2, 1)
    np.testing.assert_array_equal(
        gpudist.cdist(turned, turned), np.stack(each(gpudist.cdist, (3,), turned, turned))
    )


def test_results_have_a_place_and_a_dtype(rng):
    a, b = points(rng, (2, 3), 6), points(rng, (3,), 5)
    expected = gpudist.cdist(a, b)
    for dtype in ("f4", "f8", "f2"):
        out = np.empty((2, 3, 6, 5), dtype)
        assert gpudist.cdist(a, b, out=out) is out
        assert gpudist.cdist(a, b, dtype=dtype).dtype == dtype
        np.testing.assert_array_equal(gpudist.cdist(a, b, dtype=dtype), out)
        np.testing.assert_allclose(out, expected, 1e-3 if dtype == "f2" else 5e-7)
        one = gpudist.cdist(a[0, 0], b[0], dtype=dtype)
        np.testing.assert_array_equal(out[0, 0], one)
    buffer = np.concatenate([a.ravel(), np.empty(48)])
    inside = buffer[: a.size].reshape(a.shape)
    out = buffer[a.size - 132 :][:180].reshape(2, 3, 6, 5)
    np.testing.assert_array_equal(gpudist.cdist(inside, b, out=out), expected)


def test_what_is_slow_is_done_matrix_by_matrix(rng):
    a, b = points(rng, (2,), 4), points(rng, (2,), 3)
    expected = gpudist.cdist(a, b)
    calls = []

    def metric(x, y):
        calls.append(len(x))
        return np.linalg.norm(x - y)

    np.testing.assert_allclose(gpudist.cdist(a, b, metric), expected, 1e-12)
    assert calls == [7] * 24
    np.testing.assert_allclose(gpudist.cdist(a, b, kernel="reference"), expected, 1e-12)
    np.testing.assert_array_equal(
        gpudist.cdist(a, b, kernel="cdist/cpu_tile_baseline").shape, (2, 4, 3)
    )
    np.testing.assert_array_equal(gpudist.cdist(a, b, max_memory="1 MB", device="cpu"), expected)


@pytest.mark.parametrize(
    "shapes, words",
    [
        (
            ((2, 4, 3), (3, 5, 3)),
            r"batches .* do not broadcast, got XA of shape \(2, 4, 3\) and XB",
        ),
        (((2, 4, 3), (2, 5, 2)), r"same number of columns, got XA of shape \(2, 4, 3\) and XB"),
        (((2, 4, 3), (3,)), r"XB must have two dimensions or more, got shape \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, words):
    with pytest.raises(ValueError, match=words):
        gpudist.cdist(*map(np.ones, shapes))


def test_what_batches_do_not_take():
    x = np.ones((2, 4, 3))
    with pytest.raises(TypeError, match="rows is for two matrices"):
        gpudist.cdist(x, x, rows=slice(1))
    with pytest.raises(ValueError, match=r"out must have shape \(2, 4, 4\), got \(4, 4\)"):
        gpudist.cdist(x, x, out=np.empty((4, 4)))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.cdist(x, x, out=np.empty((4, 4, 2)).T)
    for refused in (partial(gpudist.knn, k=1), gpudist.nearest):
        with pytest.raises(ValueError, match="XA must be two-dimensional, got 3"):
            refused(x, x)


def test_the_core_looks_at_what_it_is_given():
    x, out = np.ones((2, 4, 3)), np.empty((2, 4, 4))
    for a, b, o, words in (
        (x, x, out[0], "XA must have 2 dimensions"),
        (x[:1], x, out, "XA has a batch of another shape"),
        (x, x[..., ::-1], out, "XB must have matrices of dense rows"),
        (x, x, np.empty((2, 4, 8))[..., ::2], "out must"),
        (x, x, np.empty((4, 4, 2)).T, "out must"),
    ):
        with pytest.raises(ValueError, match=words):
            _core.cdist_batch(a, b, o, "euclidean")
    for a, b, o in (([], x, out), (x.astype("i8"), x, out), (x, x, None)):
        with pytest.raises(TypeError, match="must be an aligned array"):
            _core.cdist_batch(a, b, o, "euclidean")


def test_a_stopped_batch_ends(rng):
    class Stop(Exception):
        pass

    def stop(done, all_):
        raise Stop

    x = points(rng, (40,), 400, 64)
    with pytest.raises(Stop):
        gpudist.cdist(x, x, "jensenshannon", progress=stop)


def test_a_broadcast_operand_is_not_copied(rng):
    """Its memory would be a hundred times what there is."""
    a, b = points(rng, (), 300, 300), points(rng, (400, 1), 1, 300)
    spread = np.broadcast_to(a, (400, 25, 300, 300))
    assert gpudist.cdist(spread[:, :1], b).shape == (400, 1, 300, 1)
    out = gpudist.cdist(b, np.broadcast_to(a, (400, 25, 300, 300)), "cityblock")
    assert out.shape == (400, 25, 1, 300)
    np.testing.assert_array_equal(out[7, 3], gpudist.cdist(b[7, 0], a, "cityblock"))


def test_explain_tells_of_all_matrices(rng):
    a, b = points(rng, (4, 1), 9), points(rng, (5,), 11)
    one = gpudist.explain("cdist", a[0, 0], b[0], "cityblock", ceilings={})
    said = gpudist.explain("cdist", a, b, "cityblock", ceilings={})
    assert said.reason == f"each of 20 matrices; {one.reason}"
    assert (said.kernel, said.operations) == (one.kernel, 20 * one.operations)
    assert (said.work.read, said.work.written) == (a.nbytes + b.nbytes, 20 * 9 * 11 * 8)
    pairs = gpudist.explain("pdist", a > 0, "jaccard", dtype="f4", ceilings={})
    assert (pairs.work.read, pairs.work.written) == (a.size, 4 * 36 * 4)
    assert gpudist.explain("cdist", a[:0], b, "mahalanobis", ceilings={}).operations == 0
    with pytest.raises(ValueError, match="a batch of matrices"):
        gpudist.explain("cdist", a, b, device="cuda:all")


@pytest.mark.filterwarnings("error")
def test_of_no_matrices_nothing_is_warned(monkeypatch):
    """What stands in for a first one was memory as it came, and its latitudes were looked at."""
    as_it_comes = partial(np.full, fill_value=9.0)
    monkeypatch.setattr(
        type(gpudist.arrays.HOST), "empty", lambda _, shape, dtype, like: as_it_comes(shape)
    )
    none = np.empty((0, 4, 2))
    assert gpudist.cdist(none, none, "haversine").shape == (0, 4, 4)
    assert gpudist.pdist(none, "haversine").shape == (0, 6)
    with pytest.warns(UserWarning, match="beyond pi / 2"):
        gpudist.pdist(np.full((1, 4, 2), 9.0), "haversine")
