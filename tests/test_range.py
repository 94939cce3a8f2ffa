"""Results at the ends of the range, and where the digits of a result are far behind its operands'.

Each of these was once wrong, or is held by a bound in the code that nothing else would miss."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import assert_close, generation_of_code

import gpudist

nan, inf = np.nan, np.inf


def each_way(a, b, metric, device, **args):
    """Give the distances of rows paired one to one, by every form that kernels have for a pair.

    A single pair, few rows by many, whole tiles, and by the plain formulas."""
    a, b = np.atleast_2d(a), np.atleast_2d(b)
    for rows, columns in ((1, 1), (2, 70), (70, 2), (40, 70)):
        many = gpudist.cdist(
            np.repeat(a, rows, axis=0), np.repeat(b, columns, axis=0), metric, device=device, **args
        )
        blocks = many.reshape(len(a), rows, len(b), columns)
        assert_same = np.testing.assert_array_equal
        assert_same(blocks, np.broadcast_to(blocks[:, :1, :, :1], blocks.shape))
        yield f"{rows} x {columns}", np.diagonal(blocks[:, 0, :, 0])
    if device == "cpu":
        yield "reference", np.diagonal(gpudist.cdist(a, b, metric, kernel="reference", **args))


def each_product(a, b, device):
    """Give inner products of rows paired one to one, as above and by each kernel that has them."""
    yield from each_way(a, b, "inner_product", device)
    if device == "cuda":
        # Tensor cores take rows of 21 dimensions or more; zeros change no product.
        a, b = (np.pad(x, ((0, 130), (0, max(0, 24 - x.shape[1])))) for x in (a, b))
        names = ["few", "tile", "tensor_mma"] + ["tensor"] * (generation_of_code() == "9.0")
        for kernel in (f"cdist/cuda_{name}" for name in names):
            got = gpudist.cdist(a, b, "inner_product", kernel=kernel, device=device)
            yield kernel, np.diagonal(got)[:-130]


# ---------------------------------------------------------------- float32, to the ends of its range


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [8, 30, 999.5, 1000, 1e5])
def test_powers_beyond_float64_leave_a_float32_distance_alone(p, weighted, device):
    a = np.zeros((6, 3), "f4")
    b = np.array(
        [[0, 3, 0], [1e-12, 0, 0], [1e38, 1e38, 0], [1e-45, 0, 1e-45], [0, 0, 0], [1, 2, 2]], "f4"
    )
    w = np.array([2.0, 1.0, 0.5]) if weighted else np.ones(3)
    largest = b.max(axis=1, keepdims=True).astype(float)
    shares = b / np.where(largest > 0, largest, 1)
    expected = largest[:, 0] * (w * shares**p).sum(axis=1) ** (1 / p)
    args = {"p": p, "w": w} if weighted else {"p": p}
    for way, got in each_way(a, b, "minkowski", device, **args):
        assert got.dtype == np.float32 or way == "reference"
        assert_close(got, expected, 5e-7, 1.5e-45, way)


def test_columns_without_weight_do_not_scale_powers(device):
    a = np.array([[0.0, 0.0]], "f4")
    b = np.array([[1e-12, 1e30]], "f4")
    for way, got in each_way(a, b, "minkowski", device, p=30, w=[1.0, 0.0]):
        assert_close(got, b[0, :1].astype(float), 5e-7, 0, way)


@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_without_weight_do_not_scale_directions(metric, dtype, device):
    large, small = (6e37, 4e-38) if dtype == "f4" else (6e263, 4e-238)
    a = np.array([[1, 0, 0], [1, 0, 0], [small, 0, large]], dtype)
    b = np.array([[0, -small, -large], [small, small / 2, large], [small, 0, 1]], dtype)
    used = b[:, :2].astype(float) / small
    own = np.array([1.0, 0.0])
    if metric == "correlation":
        used, own = used - used.mean(axis=1, keepdims=True), own - own.mean()
    lengths = np.linalg.norm(used, axis=1) * np.linalg.norm(own)
    expected = 1 - used @ own / lengths
    for way, got in each_way(a, b, metric, device, w=[1.0, 1.0, 0.0]):
        if way == "reference":
            continue  # plain formulas: a square that is infinite times 0 is NaN
        assert_close(got, expected, 1e-6 if dtype == "f4" else 1e-12, 1e-12, way)


def test_products_beyond_float32_that_cancel(device):
    a = np.array(
        [[1e30, 1e30], [1e30, 1e30], [1e30, 1e30], [3e38, -3e38], [inf, 1], [inf, 0]], "f4"
    )
    b = np.array([[1e30, -1e30], [1e30, -3e30], [-1e30, 3e30], [1, 1], [2, 1], [0, 1]], "f4")
    expected = [0, -inf, inf, 0, inf, nan]
    for way, got in each_product(a, b, device):
        np.testing.assert_array_equal(got, expected, way)


def test_products_that_are_subnormal_one_by_one(device):
    rng = np.random.default_rng(5)
    for d in (3, 300, 5000):
        a, b = (rng.uniform(1e-21, 3e-21, (5, d)).astype("f4") for _ in range(2))
        expected = (a.astype(float) * b).sum(axis=1)
        for way, got in each_product(a, b, device):
            assert_close(got, expected, 1e-6, 1.5e-45, f"{d} {way}")


def test_squares_that_lost_digits_before_they_became_normal(device):
    """Thousands of subnormal squares have a normal sum: 2**-100 is the bound, not 2**-126."""
    for d in (200, 5000):
        for power in (-66, -68, -70, -74):
            a = np.zeros((1, d), "f4")
            b = np.full((1, d), 1.2345678 * 2.0**power, "f4")
            expected = d**0.5 * b[:, 0].astype(float)
            for way, got in each_way(a, b, "euclidean", device):
                assert_close(got, expected, 5e-7, 0, f"{d} {power} {way}")
            for way, got in each_way(a, b, "sqeuclidean", device):
                assert_close(got, expected**2, 1e-6, 1.5e-45, f"{d} {power} {way}")


# ---------------------------------------------------------------- float64, likewise


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dice_of_huge_numbers_is_symmetric(dtype, device):
    huge = np.finfo(dtype).max * 0.75  # twice that is infinite
    a = np.array([[huge], [0.0], [huge], [-huge], [1.0]], dtype)
    b = np.array([[0.0], [huge], [0.5], [0.0], [huge]], dtype)
    x, y = a.astype(float), b.astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = (x * (1 - y) + y * (1 - x)).sum(axis=1)
        expected = apart / (2 * (x * y).sum(axis=1) + apart)
    for (way, got), (_, turned) in zip(
        each_way(a, b, "dice", device), each_way(b, a, "dice", device), strict=True
    ):
        assert_close(got, expected, 1e-12 if dtype == "float64" else 1e-5, 0, way)
        np.testing.assert_array_equal(got, turned, way)


def test_logarithms_of_subnormal_numbers(device):
    mpmath = pytest.importorskip("mpmath", reason="mpmath is missing")
    sizes = [2.0**-1022, 1.5 * 2.0**-1023, 2.0**-1030, 1.25 * 2.0**-1040, 2.0**-1059, 2.0**-1074]
    x, y = (g.reshape(-1, 1) for g in np.meshgrid([0.25, 3.0, *sizes], [0.5, *sizes]))
    with mpmath.workdps(40):
        expected = [float(mpmath.mpf(p) * mpmath.log(mpmath.mpf(p) / mpmath.mpf(q)))
                    for p, q in zip(x[:, 0].tolist(), y[:, 0].tolist(), strict=True)]  # fmt: skip
    for way, got in each_way(x, y, "kl_divergence", device):
        assert_close(got, np.array(expected), 1e-13, 5e-324, way)


def test_relative_entropy_of_nothing_and_what_is_no_share(device):
    """Nothing in x counts 0 beside what may be a share, and only there."""
    x = np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [-0.0], [0.5], [-0.5], [-0.5]])
    y = np.array([[0.5], [0.0], [-0.5], [nan], [inf], [0.5], [0.0], [0.5], [nan]])
    expected = [0, 0, inf, nan, 0, 0, inf, inf, nan]
    for dtype in ("float32", "float64"):
        for way, got in each_way(x.astype(dtype), y.astype(dtype), "kl_divergence", device):
            np.testing.assert_array_equal(got, expected, f"{dtype} {way}")


@pytest.mark.filterwarnings("ignore:haversine reads latitude")
def test_angles_of_many_turns(device):
    """Radians are reduced exactly, up to where the reduction by three parts of pi ends and on."""
    pytest.importorskip("mpmath", reason="mpmath is missing")
    from bench.exact import exact_cdist

    rng = np.random.default_rng(6)
    for turns in (1e3, 2.0**19, 2.0**21, 2.0**30, 2.0**40, 2.0**44, 2.0**46, 1e16):
        a = np.array([0.3, -0.7]) + np.array([0.0, turns]) * rng.uniform(0.5, 1, (6, 2))
        b = np.array([-0.2, 1.1]) + np.array([0.0, turns]) * rng.uniform(0.5, 1, (6, 2))
        b[3:] += np.array([turns, 0.0]) * rng.uniform(0.5, 1, (3, 2))
        expected = np.diagonal(exact_cdist(a, b, "haversine"))
        for way, got in each_way(a, b, "haversine", device):
            if way != "reference":  # which leaves the reduction of differences to NumPy
                # On a GPU the difference of two longitudes is rounded before it is reduced.
                tolerance = 1e-11 + (2.0**-52 * 2 * turns if device == "cuda" else 0.0)
                assert_close(got, expected, tolerance, tolerance, f"{turns} {way}")


# ---------------------------------------------------------------- far from 0, close together


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_correlation_of_rows_far_from_zero(dtype, weighted, kernel, device):
    pytest.importorskip("mpmath", reason="mpmath is missing")
    from bench.exact import exact_cdist

    if kernel == "reference" and device == "cuda":
        pytest.skip("the reference is on the host")
    rng = np.random.default_rng(7)
    offsets = (1e3, 1e6) if dtype == "float32" else (1e3, 1e10, 1e14, 2.0**48, 2.0**52)
    for offset in offsets:
        for d in (2, 3, 37, 300):
            args = {"w": rng.uniform(0, 2, d) * 10.0 ** rng.integers(-3, 4, d)} if weighted else {}
            a, b = (offset + rng.integers(0, 9, (n, d)) for n in (5, 7))
            a[0], b[0] = offset, offset + np.arange(d)
            a, b = a.astype(dtype), b.astype(dtype)
            with np.errstate(invalid="ignore"):
                got = gpudist.cdist(a, b, "correlation", kernel=kernel, device=device, **args)
            expected = exact_cdist(a, b, "correlation", **args)
            atol = 1e-6 if dtype == "float32" else 1e-12
            assert_close(got, expected, 0, atol, f"{offset} {d}")
            assert np.isnan(got[0]).all()  # a constant row


def test_correlation_of_subnormal_rows(device):
    rng = np.random.default_rng(8)
    whole = rng.integers(-9, 9, (12, 5)).astype(float)
    expected = gpudist.cdist(whole[:5], whole[5:], "correlation", device=device)
    tiny = whole * 5e-324
    got = gpudist.cdist(tiny[:5], tiny[5:], "correlation", device=device)
    np.testing.assert_array_equal(got, expected)
    w = rng.uniform(0.5, 2, 5)
    for scale in (1e-300, 1e300):
        got = gpudist.cdist(tiny[:5], tiny[5:], "correlation", w=w * scale, device=device)
        plain = gpudist.cdist(whole[:5], whole[5:], "correlation", w=w, device=device)
        assert_close(got, plain, 0, 1e-12, str(scale))


def test_a_row_that_is_constant_where_it_has_weight_has_no_direction(device):
    """Its mean is rounded, and what that leaves is none; columns without weight have no say."""
    rng = np.random.default_rng(9)
    for turn in range(3000):
        d = int(rng.integers(3, 40))
        w = rng.uniform(0.1, 2, d)
        a, b = np.full((1, d), rng.normal()), rng.normal(size=(4, d))
        if turn % 3:
            aside = 0 if turn % 3 == 1 else d - 1
            w[aside], a[0, aside] = 0, 7
        with np.errstate(invalid="ignore"):
            got = gpudist.cdist(a, b, "correlation", w=w, device=device)
        assert np.isnan(got).all(), f"turn {turn}"
