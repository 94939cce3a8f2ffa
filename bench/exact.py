"""Distances right to the last bit, for a few rows: the yardstick of the accuracy measurements.

Floats are whole numbers times a power of two, so sums of products and quotients are exact in
Python's own integers; roots, logarithms and sines take 90 digits of mpmath. Nothing here shares
code with the kernels or with ``kernel="reference"``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Differences of logarithms and of roots lose what two rows have in common: 106 bits where a
# squared distance of rows one ulp apart is the difference of sums near 1. 300 leave 50 digits.
_BITS = 300
# A quotient is at least 2**-54 if it is not 0, since its numerator is a difference of floats.
_QUOTIENT_BITS = 300


@dataclass(frozen=True, slots=True)
class _Job:
    """What belongs to all pairs; rows are lists of whole numbers, in units of `unit`.

    `weights` are whole numbers in units of `weight_unit`, and `mp` is mpmath with enough digits.
    Dice is `counted` where it counts columns; of numbers without weights it is arithmetic.
    """

    mp: Any
    unit: Fraction
    weights: list[int]
    weight_unit: Fraction
    counted: bool
    p: float
    base: float | None
    form: list[list[int]]
    form_unit: Fraction

    def real(self, value: Fraction | int) -> Any:
        """Round a rational number to mpmath's digits."""
        return self.mp.mpf(value.numerator) / value.denominator

    def weighed(self, terms: Sequence[int]) -> int:
        """Add up terms times weights, in units of `weight_unit` and the terms' own."""
        return sum(map(int.__mul__, self.weights, terms))


def exact_cdist(
    a: Array,
    b: Array,
    metric: str,
    *,
    w: Any = None,
    p: float = 2.0,
    V: Any = None,
    VI: Any = None,
    base: float | None = None,
    box: Any = None,
) -> npt.NDArray[np.float64]:
    """Compute distances from the exact values of floats, correctly rounded.

    Takes up to 20 microseconds a pair and dimension, so it is for samples. Needs mpmath.

    Parameters
    ----------
    a, b : ndarray, shapes (m, d) and (n, d)
        Points: bool, integers, float32 or float64, and finite.
    metric : str
        A canonical name from `gpudist.metrics.METRICS`.
    w, p, V, VI, base, box : optional
        As `gpudist.cdist` takes them. V is by default that of both operands, exact; VI what SciPy
        computes, in float64. A box is for metrics of differences alone.

    Returns
    -------
    ndarray of float64, shape (m, n)
        The distances nearest to the exact ones; NaN where a distance is not defined, infinity
        where it is infinite or beyond the largest number.

    Raises
    ------
    ValueError
        If the metric is unknown, a number is not finite, or a variance is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bench.exact import exact_cdist
    >>> exact_cdist(np.array([[1e8, 1.0]]), np.array([[1e8, 0.0]]), "euclidean")
    array([[1.]])
    """
    import mpmath

    if metric not in _PAIRS or (box is not None and metric not in _OF_DIFFERENCES):
        raise ValueError(
            f"no exact form of {metric!r} is known{'' if box is None else ' in a box'}"
        )
    a, b = np.asarray(a), np.asarray(b)
    lengths = np.broadcast_to(np.asarray(0 if box is None else box, np.float64), (1, a.shape[1]))
    both = [a.astype(np.float64), b.astype(np.float64), np.where(np.isinf(lengths), 0, lengths)]
    (*rows, ends), unit = _whole(np.concatenate(both))
    weights = [Fraction(1)] * a.shape[1] if w is None else _fractions(w)
    if metric == "seuclidean":
        variances = _variances(rows, unit) if V is None else _fractions(V)
        if min(variances, default=1) <= 0:
            raise ValueError("a variance is not above 0")
        weights = [1 / variance for variance in variances]
    shared = math.lcm(*(weight.denominator for weight in weights))
    form: list[list[int]] = []
    form_unit = Fraction(1)
    if metric == "mahalanobis":
        form, form_unit = _whole(_inverse_covariance(a, b) if VI is None else np.asarray(VI))
    mp: Any = mpmath.mp.clone()
    mp.prec = _BITS
    job = _Job(
        mp=mp,
        unit=unit,
        weights=[weight.numerator * (shared // weight.denominator) for weight in weights],
        weight_unit=Fraction(1, shared),
        counted=(a.dtype == bool and b.dtype == bool) or w is not None,
        p=float(p),
        base=base,
        form=form,
        form_unit=form_unit,
    )
    prepare = _ROWS.get(metric)
    of_pair = _PAIRS[metric]
    prepared = rows if prepare is None else [prepare(job, row) for row in rows]
    result = np.empty((len(a), len(b)))
    for i, x in enumerate(prepared[: len(a)]):
        for j, y in enumerate(prepared[len(a) :]):
            pair = (x, y) if box is None else ([0] * len(ends), _images_apart(x, y, ends))
            result[i, j] = _nearest(of_pair(job, *pair))
    return result


# ------------------------------------------------------------------ numbers


def _whole(x: Array) -> tuple[list[list[int]], Fraction]:
    """Write floats as whole numbers times one power of two."""
    x = np.asarray(x, np.float64)
    if not np.isfinite(x).all():
        raise ValueError("exact distances are those of finite numbers")
    mantissas, exponents = np.frexp(x)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    exponents = exponents.astype(np.int64) - 53
    least = int(exponents[whole != 0].min(initial=0))
    rows = [
        [m << max(0, e - least) for m, e in zip(ms, es, strict=True)]
        for ms, es in zip(whole.tolist(), exponents.tolist(), strict=True)
    ]
    return rows, Fraction(2) ** least


def _fractions(values: Any) -> list[Fraction]:
    return [Fraction(value) for value in np.asarray(values, np.float64).tolist()]


def _variances(rows: list[list[int]], unit: Fraction) -> list[Fraction]:
    """Give the columns' variances with one degree of freedom taken off, as numbers."""
    n = len(rows)
    columns = zip(*rows, strict=True)
    return [
        Fraction(n * sum(x * x for x in column) - sum(column) ** 2, n * (n - 1)) * unit**2
        for column in columns
    ]


def _inverse_covariance(a: Array, b: Array) -> Array:
    points = np.vstack([a, b]).astype(np.float64)
    return np.asarray(np.linalg.inv(np.atleast_2d(np.cov(points.T))).T)


def _nearest(value: Any) -> float:
    """Round to the nearest float64, subnormal numbers included."""
    if isinstance(value, float):  # what is not defined, or infinite
        return value
    if not isinstance(value, Fraction | int):
        sign, mantissa, exponent, _ = value._mpf_
        if not mantissa:  # 0, or one of mpmath's own infinities
            return float(value)
        value = (-1) ** sign * int(mantissa) * Fraction(2) ** exponent
    try:
        # A quotient of integers is correctly rounded, unlike mpmath's subnormal numbers.
        return float(value.numerator / value.denominator)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _ratio(x: Fraction | int, y: Fraction | int) -> Fraction | float:
    """Divide; by 0 as floats do."""
    if y:
        return Fraction(x) / y
    return math.nan if x == 0 else math.inf if x > 0 else -math.inf


# ------------------------------------------------------------------ rows


def _deviations(job: _Job, x: list[int]) -> list[int]:
    """Subtract the weighted mean, in units that make it whole."""
    total, moment = sum(job.weights), job.weighed(x)
    return [total * element - moment for element in x]


def _roots(job: _Job, x: list[int]) -> tuple[bool, list[Any]]:
    """Take square roots, and say whether there are any."""
    sound = min(x, default=0) >= 0
    return sound, [job.mp.sqrt(element) for element in x] if sound else []


def _logarithms(job: _Job, x: list[int]) -> list[tuple[int, Any]]:
    return [(element, job.mp.log(element) if element > 0 else None) for element in x]


def _distribution(job: _Job, x: list[int]) -> tuple[list[int], int, Any]:
    """Find a row's sum, 0 where it is no distribution, and the sum of its x log(x)."""
    total = sum(x)
    if min(x, default=0) < 0 or total == 0:
        return x, 0, None
    parts = (job.mp.mpf(element) / total for element in x if element)
    return x, total, sum(part * job.mp.log(part) for part in parts)


def _position(job: _Job, x: list[int]) -> tuple[int, int, Any]:
    latitude, longitude = x
    return latitude, longitude, job.mp.cos(job.real(latitude * job.unit))


# ------------------------------------------------------------------ pairs


def _differences(x: list[int], y: list[int]) -> list[int]:
    return [abs(s - t) for s, t in zip(x, y, strict=True)]


def _images_apart(x: list[int], y: list[int], lengths: list[int]) -> list[int]:
    """Say how far the nearest images are apart; a column without a length has none."""
    around = (
        abs(s - t) % length if length else abs(s - t)
        for s, t, length in zip(x, y, lengths, strict=True)
    )
    return [
        min(apart, length - apart) if length else apart
        for apart, length in zip(around, lengths, strict=True)
    ]


def _sqeuclidean(job: _Job, x: list[int], y: list[int]) -> Fraction:
    squares = [(s - t) ** 2 for s, t in zip(x, y, strict=True)]
    return job.weighed(squares) * job.weight_unit * job.unit**2


def _euclidean(job: _Job, x: list[int], y: list[int]) -> Any:
    return job.mp.sqrt(job.real(_sqeuclidean(job, x, y)))


def _cityblock(job: _Job, x: list[int], y: list[int]) -> Fraction:
    return job.weighed(_differences(x, y)) * job.weight_unit * job.unit


def _chebyshev(job: _Job, x: list[int], y: list[int]) -> Fraction:
    counted = (t for t, w in zip(_differences(x, y), job.weights, strict=True) if w > 0)
    return max(counted, default=0) * job.unit


def _minkowski(job: _Job, x: list[int], y: list[int]) -> Any:
    if math.isinf(job.p):
        return _chebyshev(job, x, y)
    power: Callable[[int], Any] = (
        (lambda t: t ** int(job.p)) if job.p.is_integer() else (lambda t: job.mp.power(t, job.p))
    )
    terms = (w * power(t) for w, t in zip(job.weights, _differences(x, y), strict=True) if t)
    total = job.mp.mpf(sum(terms)) * job.real(job.weight_unit)
    return job.mp.power(total, 1 / job.mp.mpf(job.p)) * job.real(job.unit)


def _mahalanobis(job: _Job, x: list[int], y: list[int]) -> Any:
    t = [s - u for s, u in zip(x, y, strict=True)]
    square = sum(s * sum(map(int.__mul__, row, t)) for s, row in zip(t, job.form, strict=True))
    if square < 0:
        return math.nan
    return job.mp.sqrt(job.real(square * job.form_unit * job.unit**2))


def _canberra(job: _Job, x: list[int], y: list[int]) -> Fraction:
    # Quotients as multiples of 2**-300: their exact sum would have 37 denominators.
    quotients = [
        (abs(s - t) << _QUOTIENT_BITS) // (abs(s) + abs(t)) if s or t else 0
        for s, t in zip(x, y, strict=True)
    ]
    return Fraction(job.weighed(quotients), 1 << _QUOTIENT_BITS) * job.weight_unit


def _braycurtis(job: _Job, x: list[int], y: list[int]) -> Fraction | float:
    sums = [abs(s + t) for s, t in zip(x, y, strict=True)]
    return _ratio(job.weighed(_differences(x, y)), job.weighed(sums))


def _products(x: list[int], y: list[int]) -> list[int]:
    return list(map(int.__mul__, x, y))


def _cosine(job: _Job, x: list[int], y: list[int]) -> Any:
    dot = job.weighed(_products(x, y))
    squares = job.weighed(_products(x, x)) * job.weighed(_products(y, y))
    if squares == 0:
        return math.nan
    root = job.mp.sqrt(squares)
    if dot < 0:
        return 1 - dot / root
    # The exact difference of squares: 1 - dot / root would cancel.
    return (squares - dot * dot) / (root * (root + dot))


def _inner_product(job: _Job, x: list[int], y: list[int]) -> Fraction:
    return sum(_products(x, y)) * job.unit**2


def _hamming(job: _Job, x: list[int], y: list[int]) -> Fraction | float:
    return _ratio(job.weighed(list(map(int.__ne__, x, y))), sum(job.weights))


def _jensenshannon(job: _Job, x: tuple[list[int], int, Any], y: tuple[list[int], int, Any]) -> Any:
    (ps, p_total, p_entropy), (qs, q_total, q_entropy) = x, y
    if p_total == 0 or q_total == 0:
        return math.inf
    sums = [p * q_total + q * p_total for p, q in zip(ps, qs, strict=True)]
    if all(2 * p * q_total == s for p, s in zip(ps, sums, strict=True)):
        return 0
    both = p_total * q_total
    means = (job.mp.mpf(s) / (2 * both) for s in sums if s)
    square = (p_entropy + q_entropy) / 2 - sum(mean * job.mp.log(mean) for mean in means)
    return job.mp.sqrt(square if job.base is None else square / job.mp.log(job.base))


def _kl_divergence(job: _Job, x: list[tuple[int, Any]], y: list[tuple[int, Any]]) -> Any:
    total = job.mp.mpf(0)
    for (p, p_log), (q, q_log) in zip(x, y, strict=True):
        if p == 0 <= q:
            continue
        if p <= 0 or q <= 0:
            return math.inf
        if p != q:
            total += p * (p_log - q_log)
    return total * job.real(job.unit)


def _hellinger(job: _Job, x: tuple[bool, list[Any]], y: tuple[bool, list[Any]]) -> Any:
    (x_sound, x_roots), (y_sound, y_roots) = x, y
    if not (x_sound and y_sound):
        return math.nan
    square = 1 - job.real(job.unit) * sum(map(job.mp.mpf.__mul__, x_roots, y_roots))
    # Elements need not add up to exactly 1, nor then equal rows to exactly 0.
    return job.mp.sqrt(max(square, 0))


def _haversine(job: _Job, x: tuple[int, int, Any], y: tuple[int, int, Any]) -> Any:
    (x_lat, x_lon, x_cos), (y_lat, y_lon, y_cos) = x, y
    half = job.unit / 2
    rise, turn = (job.mp.sin(job.real(t * half)) ** 2 for t in (x_lat - y_lat, x_lon - y_lon))
    return 2 * job.mp.asin(job.mp.sqrt(min(rise + x_cos * y_cos * turn, 1)))


# ------------------------------------------------------------------ counts


def _counted(of_counts: Callable[[int, int, int, int], Any]) -> Callable[..., Any]:
    """Make a metric of a function of the weights where both, one, or none are true."""

    def of_pair(job: _Job, x: list[int], y: list[int]) -> Any:
        counts = {(s, t): 0 for s in (True, False) for t in (True, False)}
        for s, t, w in zip(x, y, job.weights, strict=True):
            counts[s != 0, t != 0] += w
        return of_counts(*counts.values())

    return of_pair


def _dice(job: _Job, x: list[int], y: list[int]) -> Any:
    if job.counted:
        apart = job.weighed(list(map(int.__ne__, x, y)))
        both = job.weighed([int(s != 0 != t) for s, t in zip(x, y, strict=True)])
        return _ratio(apart, 2 * both + apart)
    product = sum(_products(x, y)) * job.unit
    # x (1 - y) + y (1 - x)
    one = sum(x) + sum(y) - 2 * product
    return _ratio(one, 2 * product + one)


_ROGERSTANIMOTO = _counted(lambda tt, tf, ft, ff: _ratio(2 * (tf + ft), tt + ff + 2 * (tf + ft)))

# Metrics of the differences alone, for which a box makes them others.
_OF_DIFFERENCES = {"euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "seuclidean"}

_ROWS: dict[str, Callable[[_Job, list[int]], Any]] = {
    "correlation": _deviations,
    "haversine": _position,
    "hellinger": _roots,
    "jensenshannon": _distribution,
    "kl_divergence": _logarithms,
}

_PAIRS: dict[str, Callable[..., Any]] = {
    "euclidean": _euclidean,
    "sqeuclidean": _sqeuclidean,
    "cityblock": _cityblock,
    "chebyshev": _chebyshev,
    "minkowski": _minkowski,
    "seuclidean": _euclidean,
    "mahalanobis": _mahalanobis,
    "canberra": _canberra,
    "braycurtis": _braycurtis,
    "cosine": _cosine,
    "correlation": _cosine,
    "inner_product": _inner_product,
    "hamming": _hamming,
    "jensenshannon": _jensenshannon,
    "kl_divergence": _kl_divergence,
    "hellinger": _hellinger,
    "haversine": _haversine,
    "dice": _dice,
    "jaccard": _counted(lambda tt, tf, ft, ff: _ratio(tf + ft, (tt + tf + ft) or 1)),
    "kulczynski1": _counted(lambda tt, tf, ft, ff: _ratio(tt, tf + ft)),
    "rogerstanimoto": _ROGERSTANIMOTO,
    "russellrao": _counted(lambda tt, tf, ft, ff: _ratio(tf + ft + ff, tt + tf + ft + ff)),
    "sokalmichener": _ROGERSTANIMOTO,
    "sokalsneath": _counted(lambda tt, tf, ft, ff: _ratio(2 * (tf + ft), tt + 2 * (tf + ft))),
    "yule": _counted(
        lambda tt, tf, ft, ff: _ratio(2 * tf * ft, (tt * ff + tf * ft) if tf * ft else 1)
    ),
}


# ------------------------------------------------------------------ errors

# What errors are relative to where that is not the distance.
_NEAR_1 = ("cosine", "correlation", "hellinger", "jensenshannon", "kl_divergence")
_MEASURES = {**dict.fromkeys(_NEAR_1, "one"), "inner_product": "terms"}


def measure_of(metric: str) -> str:
    """Say what errors of a metric are relative to.

    That is the `distance`; at least `one` where near rows leave a small difference of numbers near
    1; the sum of the `terms`' magnitudes where terms of both signs can cancel.
    """
    return _MEASURES.get(metric, "distance")


def error_scale(metric: str, a: Array, b: Array, exact: Array) -> Array:
    """Give what the errors of distances are divided by, by the rule that `measure_of` names.

    A distance below the smallest normal number of the points' type counts as that number, since it
    cannot have all digits; 0 remains 0.
    """
    measure = measure_of(metric)
    if measure == "one":
        return np.maximum(np.abs(exact), 1.0)
    if measure == "terms":
        exact = exact_cdist(np.abs(a), np.abs(b), metric)
    tiny = np.finfo(a.dtype).tiny
    return np.where(exact == 0, 0.0, np.maximum(np.abs(exact), tiny))
