"""Numbers that are hard to get right, and lengths at which kernels change their ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import oracle
from .case import Array, pick

_LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37, 63, 64, 65, 127, 128, 129)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# What NumPy calls real and the package reads by way of float64.
KINDS = ("bool", *INTEGERS, "float16", "longdouble")


def length(rng: np.random.Generator, most: int = 129, least: int = 0) -> int:
    """Draw an awkward length; short ones are most frequent, since they shrink and run quickly."""
    among = [n for n in _LENGTHS if least <= n <= most]
    if rng.random() < 0.5:
        among = [n for n in among if n <= 17] or among
    return int(pick(rng, among))


def points(
    rng: np.random.Generator, metric: str, sizes: tuple[int, int], d: int, dtype: Any
) -> tuple[Array, Array]:
    """Draw two sets of rows that suit a metric, some of the second near rows of the first."""
    dtype = np.dtype(dtype)
    if rng.random() < 0.1 and min(sizes) > 0 and d > 0:
        return _adversarial(rng, metric, sizes, d, dtype)
    x: Array
    domain = oracle.domain(metric)
    if domain == "places":
        x = _places(rng, sum(sizes))
    elif domain == "distributions":
        x = _distributions(rng, sum(sizes), d)
    elif domain == "truths":
        x = _truths(rng, sum(sizes), d)
    else:
        x = _numbers(rng, sum(sizes), d, dtype)
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(dtype)
    finite = np.isfinite(x)
    x = np.where(finite, x, np.finfo(dtype).max)
    a, b = x[: sizes[0]], x[sizes[0] :]
    if len(a) and len(b) and d:
        for row in np.flatnonzero(rng.random(len(b)) < 0.4):
            b[row] = _near(rng, a[int(rng.integers(len(a)))], domain)
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def _adversarial(
    rng: np.random.Generator, metric: str, sizes: tuple[int, int], d: int, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Take rows and columns of the benchmarks' data sets."""
    a, b = pick(rng, oracle.adversarial(metric, dtype).values())
    columns = np.arange(2) if a.shape[1] == 2 else rng.integers(a.shape[1], size=d)
    some_a, some_b = (rng.integers(len(x), size=n) for x, n in zip((a, b), sizes, strict=True))
    return a[some_a][:, columns].copy(), b[some_b][:, columns].copy()


def _near(rng: np.random.Generator, row: Array, domain: str) -> Array:
    """Change a row hardly or not at all."""
    near = row.copy()
    way = rng.integers(6)
    if way == 0:
        return near
    where = rng.random(len(row)) < (1.0 if way == 1 else 0.2)
    towards = np.where(rng.random(len(row)) < 0.5, np.inf, -np.inf)
    if domain in ("distributions", "truths"):
        towards = np.full(len(row), np.inf)  # what is below 0 is no distribution
    moved = near
    with np.errstate(over="ignore"):
        for _ in range(int(rng.integers(1, 4))):
            moved = np.nextafter(moved, towards.astype(row.dtype))
    near[where] = np.where(np.isfinite(moved), moved, row)[where]
    if way == 5 and domain == "numbers":
        near = -near
    return near


def _scale(rng: np.random.Generator, dtype: np.dtype[Any]) -> float:
    """Draw a power of ten: often 1, at times one of the ends of the type."""
    reach = 38 if dtype == np.float32 else 150
    way = rng.random()
    if way < 0.6:
        return 1.0
    return float(10.0 ** (rng.uniform(-9, 9) if way < 0.8 else rng.uniform(-reach, reach)))


def _numbers(rng: np.random.Generator, n: int, d: int, dtype: np.dtype[Any]) -> Array:
    shape = (n, d)
    info = np.finfo(dtype)
    style = int(rng.integers(12))
    if style == 0:
        return rng.standard_normal(shape)
    if style == 1:  # far from the origin
        far = 10.0 ** rng.uniform(2, -np.log10(info.eps) - 0.5)
        return np.rint(far) + rng.standard_normal(shape if rng.random() < 0.5 else (n, d))
    if style == 2:  # whole numbers far away: exact differences of few ulps
        far = 2.0 ** int(rng.integers(8, info.nmant))
        return far + rng.integers(-8, 9, shape)
    if style == 3:  # heavy tails
        return rng.standard_cauchy(shape) ** 3
    if style == 4:  # magnitudes of all sorts
        reach = 18 if dtype == np.float32 else 100
        return pick(rng, ([1.0], [1.0, -1.0]))[0] * 10.0 ** rng.uniform(-reach, reach, shape)
    if style == 5:  # one column outweighs
        x = rng.standard_normal(shape)
        if d:
            x[:, int(rng.integers(d))] *= 10.0 ** rng.uniform(1, 6)
        return x
    if style == 6:  # few different values, so many equal rows and zeros
        return rng.choice([0.0, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5], shape)
    if style == 7:
        return rng.integers(-100, 101, shape).astype(float)
    if style == 8:  # the least numbers
        return rng.integers(-50, 51, shape) * float(info.smallest_subnormal)
    if style == 9:  # about the ends of the type
        least, most = np.log10(float(info.smallest_subnormal)), np.log10(float(info.max))
        return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(least, most, shape)
    if style == 10:  # rows of equal numbers, and one that differs
        x = np.repeat(rng.standard_normal((n, 1)), d, axis=1)
        if d and n:
            x[np.arange(n), rng.integers(d, size=n)] += rng.choice([0.0, 1e-7, 1.0], n)
        return x
    return rng.standard_normal(shape) * _scale(rng, dtype)


def _distributions(rng: np.random.Generator, n: int, d: int) -> Array:
    style = int(rng.integers(5))
    x = rng.random((n, d))
    if style == 1:
        x = x * (rng.random((n, d)) < 0.6)
        if d:
            x[:, 0] += 0.25
    elif style == 2:
        x = 10.0 ** rng.uniform(-30, 0, (n, d))
    elif style == 3:
        x = 1e6 + x
    elif style == 4:  # positive, but no distribution
        return x * 10.0 ** rng.uniform(-3, 3)
    total = x.sum(axis=1, keepdims=True)
    return x / np.where(total == 0, 1, total)


def _truths(rng: np.random.Generator, n: int, d: int) -> Array:
    x = (rng.random((n, d)) < rng.choice([0.05, 0.5, 0.95])).astype(float)
    if rng.random() < 0.3:
        x *= rng.choice([1.0, 0.25, 3.0], (n, d))
    elif rng.random() < 0.3:  # which are as true as others, however large or small
        x *= rng.choice([1.0, 1e308, 1e-308], (n, d))
    return x


def _places(rng: np.random.Generator, n: int) -> Array:
    way = int(rng.integers(3))
    latitude, longitude = np.arcsin(rng.uniform(-1, 1, n)), rng.uniform(-np.pi, np.pi, n)
    if way == 1:  # one town
        latitude, longitude = 0.7 + 1e-6 * latitude, -1.3 + 1e-6 * longitude
    elif way == 2:  # the other side of the earth
        latitude[n // 2 :] = -latitude[: n - n // 2]
        longitude[n // 2 :] = longitude[: n - n // 2] + np.pi
    return np.stack([latitude, longitude], axis=1)


def with_specials(rng: np.random.Generator, given: Array) -> Array:
    """Put NaN and infinities into some places, among numbers whose squares are numbers."""
    with np.errstate(invalid="ignore"):
        moderate = (np.abs(given) < 1e15) & ((np.abs(given) > 1e-15) | (given == 0))
    x: Array = np.where(moderate, given, np.sign(given))
    x = x.astype(given.dtype)
    where: Array = rng.random(x.shape) < rng.choice([0.02, 0.2])
    x[where] = rng.choice([np.nan, np.inf, -np.inf, np.nan], int(where.sum()))
    return x


def weights(rng: np.random.Generator, d: int) -> Array:
    """Draw weights of columns."""
    way = int(rng.integers(5))
    w = rng.uniform(0.1, 3, d)
    if way == 1:
        w[rng.random(d) < 0.3] = 0.0
    elif way == 2:
        w = 10.0 ** rng.uniform(-12, 12, d)
    elif way == 3:
        w = rng.integers(0, 3, d).astype(float)
    return w


def box(rng: np.random.Generator, points: Any) -> Array:
    """Draw lengths of periodic columns, about as long as numbers are large or far from it."""
    d = points.shape[1]
    size = np.nan_to_num(np.abs(points.astype(float)), nan=1.0, posinf=1.0).max(
        axis=0, initial=1e-9
    )
    lengths = np.asarray(size.clip(1e-150, 1e150) * rng.uniform(0.05, 3, d))
    way = int(rng.integers(5))
    if way == 1:
        lengths[rng.random(d) < 0.5] = 0.0
    elif way == 2:
        lengths = 10.0 ** rng.uniform(-9, 9, d)
    elif way == 3:  # of float32, and half of it
        lengths = 2.0 ** rng.integers(-2, 3, d)
    elif way == 4:
        lengths = lengths.astype(np.float32).astype(np.float64)
    return lengths


def definite(rng: np.random.Generator, d: int) -> Array:
    """Draw a symmetric matrix whose quadratic form is positive."""
    half = rng.standard_normal((d, d)) / max(d, 1) ** 0.5
    form = half @ half.T + np.eye(d)
    return (form + form.T) / 2
