"""Euclidean distances are the square roots of their sums, rounded as IEEE 754 says."""

import math

import numpy as np
import pytest

import gpudist

TILES = [
    kernel.id
    for kernel in gpudist.kernels("cdist")
    if kernel.id.startswith("cdist/cpu_tile") and kernel.why_not is None
]
DIGITS = {"float32": 24, "float64": 53}
# More than this, in the sense of `hard_numbers`, and a root is too far from half a unit to matter.
FARTHEST = 64


def hard_numbers(digits):
    """Whole numbers x whose roots end next to half a unit of so many digits.

    With x times a power of 4 equal to (N^2 - r) / 4 and N odd the root is nearly N / 2.
    """
    found = []
    for r in range(1 - FARTHEST, FARTHEST, 8):
        for bits in (digits + 1, digits + 2):
            root = 1  # of r modulo a power of 2, one bit after the other
            for bit in range(3, bits):
                if (root * root - r) % (1 << (bit + 1)):
                    root += 1 << (bit - 1)
            half = 1 << (bits - 1)
            for other in (root, -root, root + half, half - root):
                n = other % (1 << bits)
                mantissa, rest = divmod(n * n - r, 1 << bits)
                assert rest == 0
                if n >> digits == 1 and mantissa >> (digits - 1) == 1:
                    found.append(mantissa << (bits - digits - 1))
    assert len(found) > FARTHEST / 4
    return found


def four_squares(x):
    """Whole numbers whose squares add up to x, ascending."""
    for a in range(math.isqrt(x), -1, -1):
        for b in range(min(a, math.isqrt(x - a * a)), -1, -1):
            rest = x - a * a - b * b
            for c in range(min(b, math.isqrt(rest)), -1, -1):
                d = math.isqrt(rest - c * c)
                if c * c + d * d == rest:
                    return sorted((a, b, c, d))
    raise AssertionError(x)


def point_at(x):
    """A point whose squared distance from the origin is x, without rounding on the way."""
    first = math.isqrt(x) & ~1  # its square has few digits
    second = math.isqrt(x - first * first)
    return [*four_squares(x - first * first - second * second), second, first]


@pytest.mark.parametrize("kernel", TILES)
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("columns", [6, 12])
def test_hard_roots(kernel, dtype, columns):
    """Roots next to half a unit are rounded to the nearer side, whatever they are multiplied by."""
    numbers = hard_numbers(DIGITS[dtype])
    points = np.zeros((len(numbers), columns), dtype)
    points[:, -6:] = [point_at(x) for x in numbers]
    origin = np.zeros((150, columns), dtype)
    for power in (0, 5, -20):
        scale = 2.0**power
        found = gpudist.cdist(points * dtype_of(dtype, scale), origin, kernel=kernel, device="cpu")
        right = np.sqrt(np.array(numbers, dtype)) * dtype_of(dtype, scale)
        np.testing.assert_array_equal(found, np.broadcast_to(right[:, None], found.shape))


def dtype_of(dtype, x):
    """Give a number of that type."""
    return np.dtype(dtype).type(x)


@pytest.mark.parametrize("kernel", TILES)
@pytest.mark.parametrize("columns", [1, 3, 8, 12, 20, 40])
def test_roots_of_any_size(kernel, columns):
    """Numbers of any size have the bits of NumPy's roots: none, tiny, huge and no numbers."""
    rng = np.random.default_rng(4)
    a = rng.standard_normal((60, columns)) * 2.0 ** rng.integers(-560, 500, (60, 1))
    b = np.concatenate([a[:20], np.zeros((3, columns)), rng.standard_normal((60, columns))])
    a[:4, 0] = np.inf, np.nan, 1e200, 5e-324
    squares = gpudist.cdist(a, b, "sqeuclidean", kernel=kernel, device="cpu")
    found = gpudist.cdist(a, b, kernel=kernel, device="cpu")
    np.testing.assert_array_equal(found, np.sqrt(squares))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [2, 4, 12, 32, 80])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_where_large_results_begin(dtype, columns, metric):
    """Results that pass by the caches have the same bits wherever their lines of memory begin."""
    rng = np.random.default_rng(5)
    m, n = (2111, 1003) if dtype == "float32" else (1111, 1003)
    a, b = rng.random((m, columns)).astype(dtype), rng.random((n, columns)).astype(dtype)
    b[7] = a[5]
    right = np.concatenate(
        [gpudist.cdist(part, b, metric, device="cpu") for part in np.array_split(a, 5)]
    )
    for start in (0, 1, 6):
        around = np.full(m * n + 32, np.nan, dtype)
        out = around[start : start + m * n].reshape(m, n)
        gpudist.cdist(a, b, metric, out=out, device="cpu")
        np.testing.assert_array_equal(out, right)
        assert np.isnan(around[:start]).all()
        assert np.isnan(around[start + m * n :]).all()


def test_lines_that_no_run_of_columns_fills():
    """A run of columns that ends before the first line of a row does leaves none to the next."""
    kernel = "cdist/cpu_product_baseline"
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((128, 2800)), rng.standard_normal((8001, 2800))
    right = gpudist.cdist(a, b, kernel="cdist/cpu_tile_baseline")
    around = np.full(128 * 8001 + 8, np.nan)
    start = -(around.ctypes.data // 8) % 8  # a line's start
    out = around[start : start + 128 * 8001].reshape(128, 8001)
    gpudist.cdist(a, b, kernel=kernel, out=out)
    np.testing.assert_allclose(out, right, rtol=1e-12)
