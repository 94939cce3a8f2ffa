"""What is right, and how far off a result may be: exact numbers, long doubles, and the promises.

All that is borrowed from the benchmarks is borrowed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.spatial.distance

import gpudist
from bench.adversary import DISTRIBUTIONS, adversarial
from bench.exact import exact_cdist
from gpudist.metrics import METRICS

from .case import Array, Skipped

__all__ = ["METRICS", "RECORDS", "adversarial", "domain", "expected", "lenient", "settled"]

RECORDS = {metric.name: metric for metric in METRICS}
# Taken before anything replaces it.
_SCIPY_CDIST = scipy.spatial.distance.cdist
# About a tenth of a second of exact arithmetic.
_EXACT_STEPS = 4000


def domain(metric: str) -> str:
    """Say what rows are for a metric: numbers, truths, distributions or places."""
    record = RECORDS[metric]
    if record.columns == 2:
        return "places"
    if metric in DISTRIBUTIONS:
        return "distributions"
    return "truths" if record.domain == "truths" else "numbers"


def expected(
    metric: str, a: Array, b: Array, args: dict[str, Any], dtype: str
) -> tuple[Array, Array]:
    """Compute exact distances and how far results of that dtype may be from them.

    Of a metric without a rule in long doubles only some pairs of large operands are computed; the
    bound of the others is infinite.
    """
    exact, known = _exact(metric, a, b, args)
    with np.errstate(all="ignore"):
        bound = _bound(metric, a, b, args, exact, np.dtype(dtype))
        # A result that rounds to infinity, or to a number without all digits, is right.
        info = np.finfo(dtype)
        bound = bound + 4 * float(info.smallest_subnormal)
        beyond = np.abs(exact) * (1 + 4 * bound / np.abs(exact)) > float(info.max)
        bound = np.where(beyond & np.isfinite(exact), np.inf, bound)
        if dtype == "float64" or metric not in _WHOLE_RANGE:
            bound = _beyond_range(metric, a, b, args, exact, bound)
    return exact, np.where(known, bound, np.inf)


def _exact(metric: str, a: Array, b: Array, args: dict[str, Any]) -> tuple[Array, Array]:
    m, n, d = len(a), len(b), a.shape[1]
    # Whole numbers to the power of a thousand take too long.
    if m * n * max(d, 1) <= _EXACT_STEPS and metric != "minkowski":
        return _in_digits(a, b, metric, args), np.ones((m, n), bool)
    if metric in _LONG:
        long = [np.asarray(x, np.longdouble) for x in (a, b)]
        w = np.asarray(args.get("w", np.ones(d)), np.longdouble)
        with np.errstate(all="ignore"):
            if "box" in args:
                apart = _images_apart(*long, args["box"])
                found = [_LONG[metric](np.zeros(d), far, w, args) for far in apart]
            else:
                found = [_LONG[metric](row, long[1], w, args) for row in long[0]]
            exact = np.array(found, np.float64).reshape(m, n)
            return exact, np.ones((m, n), bool)
    # The first rows of either, and the last, which end tiles.
    few = max(1, int((_EXACT_STEPS / max(d, 1)) ** 0.5) // 2)
    rows, columns = (np.unique(np.r_[:few, k - few : k].clip(0, k - 1)) for k in (m, n))
    exact, known = np.zeros((m, n)), np.zeros((m, n), bool)
    some = np.ix_(rows, columns)
    exact[some], known[some] = _in_digits(a[rows], b[columns], metric, args), True
    return exact, known


def _images_apart(a: Array, b: Array, box: Array) -> Array:
    """Compute how far nearest images are apart, in each column of each pair."""
    lengths = np.where(box > 0, box, np.inf).astype(a.dtype)
    sizes = []
    for x in (a, b):
        rest = np.where(np.isinf(lengths), x, np.fmod(x, lengths))
        sizes.append(np.where(np.abs(rest) > lengths / 2, rest - np.sign(rest) * lengths, rest))
    x, y = sizes[0][:, None], sizes[1]
    around = (lengths / 2 - np.abs(x)) + (lengths / 2 - np.abs(y))
    return np.asarray(np.fmin(np.abs(x - y), around))


def _in_digits(a: Array, b: Array, metric: str, args: dict[str, Any]) -> Array:
    try:
        return exact_cdist(a, b, metric, **args)
    except AttributeError as error:  # the root of what cancelled, less than 0
        raise Skipped("the digits do not suffice") from error


# ------------------------------------------------------------------ long doubles


def _minkowski(x: Array, b: Array, w: Array, args: dict[str, Any]) -> Array:
    p, far = np.longdouble(args["p"]), np.abs(x - b)
    if np.isinf(p):
        return np.max(np.where(w > 0, far, 0), axis=1, initial=0)
    far = np.where((w > 0) | np.isnan(far), far, 0)  # others have no say in the scale
    most = np.max(far, axis=1, keepdims=True, initial=0)
    most = np.where(most == 0, 1, most)
    return most[:, 0] * (w * (far / most) ** p).sum(axis=1) ** (1 / p)


def _cosine(x: Array, b: Array, w: Array, _args: dict[str, Any]) -> Array:
    norms = np.sqrt((w * x * x).sum()) * np.sqrt((w * b * b).sum(axis=1))
    return 1 - np.clip((w * x * b).sum(axis=1) / norms, -1, 1)


def _less_mean(rows: Array, w: Array) -> Array:
    used = rows[:, w != 0]
    constant = (used == used[:, :1]).all(axis=1)
    for _ in range(2):  # the second round takes what rounding left of the mean
        rows = rows - (w * rows).sum(axis=1, keepdims=True) / w.sum()
    rows[constant] = 0  # and this what it left of nothing
    return rows


def _correlation(x: Array, b: Array, w: Array, args: dict[str, Any]) -> Array:
    return _cosine(_less_mean(x[None], w)[0], _less_mean(b, w), w, args)


def _canberra(x: Array, b: Array, w: Array, _args: dict[str, Any]) -> Array:
    size = np.abs(x) + np.abs(b)
    return (w * np.abs(x - b) / np.where(size == 0, 1, size)).sum(axis=1)


_LONG: dict[str, Callable[..., Array]] = {
    "euclidean": lambda x, b, w, args: np.sqrt((w * (x - b) ** 2).sum(axis=1)),
    "sqeuclidean": lambda x, b, w, args: (w * (x - b) ** 2).sum(axis=1),
    "cityblock": lambda x, b, w, args: (w * np.abs(x - b)).sum(axis=1),
    "chebyshev": lambda x, b, w, args: np.max(np.where(w > 0, np.abs(x - b), 0), axis=1, initial=0),
    "minkowski": _minkowski,
    "seuclidean": lambda x, b, w, args: np.sqrt(
        ((x - b) ** 2 / args["V"].astype(np.longdouble)).sum(axis=1)
    ),
    "cosine": _cosine,
    "canberra": _canberra,
    "correlation": _correlation,
    "inner_product": lambda x, b, w, args: (x * b).sum(axis=1),
}


# ------------------------------------------------------------------ promises

LP = ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "seuclidean")
# The metrics whose float32 results hold over the whole range of float32.
_WHOLE_RANGE = (*LP, "inner_product", "cosine", "correlation")


def _bound(
    metric: str, a: Array, b: Array, args: dict[str, Any], exact: Array, dtype: np.dtype[Any]
) -> Array:
    single = dtype == np.float32
    d = a.shape[1]
    size = np.abs(exact)
    if metric in LP:
        if not single:
            return 1e-13 * size
        p = args.get("p", 2.0)
        whole = p in (1, 2, 3, 4, np.inf) and metric != "sqeuclidean"
        # Every rounding on the way, all in one direction: a fold, the folds of a group, groups.
        worst = (3 + min(d, 16) + min(d, 128) // 16 + d // 128) * 2.0**-24
        return max(5e-7 if whole else 1e-6, worst if metric != "chebyshev" else 0.0) * size
    if metric in ("cosine", "correlation"):
        return np.full(exact.shape, 1e-6 if single else 1e-12)
    if metric == "inner_product":
        terms = np.abs(a).astype(np.longdouble) @ np.abs(b).T.astype(np.longdouble)
        return (1e-5 if single else 1e-12) * np.minimum(terms, np.finfo(float).max).astype(float)
    if metric == "kl_divergence":  # signs cancel: relative to what is summed
        x, y = a.astype(np.longdouble)[:, None], b.astype(np.longdouble)
        terms = np.where((x > 0) & (y > 0), x * np.abs(np.log(x / y)), 0).sum(axis=2)
        terms = terms + np.abs(x).sum(axis=2) * (1e-1 if single else 1e-3)
        return np.where(np.isinf(exact), 0.0, (1e-5 if single else 1e-12) * terms.astype(float))
    lost: Any = 0.0
    if metric == "hellinger":  # the root of what sums near 1 leave
        sums = np.sqrt(np.outer(np.abs(a).sum(axis=1), np.abs(b).sum(axis=1)))
        lost = (2e-6 if single else 4e-15) * (1 + sums)
    elif metric == "jensenshannon":
        lost = 1e-12 if single else 2e-15
    elif metric == "haversine":  # the sine hardly changes on the other side of the earth
        other = 1e-12 if single else 6e-16  # of two terms, which are rounded five times in all
        lost = np.where(size > 3, 4 * other / np.maximum(np.pi - size, other**0.5) * size, 0.0)
    rooted = lost / (2 * np.maximum(size, np.sqrt(lost))) if np.any(lost) else 0.0
    return np.maximum(1e-5 * size, 1e-6) + rooted if single else 1e-12 * size + 1e-15 + rooted


def _beyond_range(
    metric: str, a: Array, b: Array, args: dict[str, Any], exact: Array, bound: Array
) -> Array:
    """Allow what SciPy gives, too, where squares and powers leave the range of float64."""
    power = args.get("p", 2.0)
    reach = 280.0 / max(power if np.isfinite(power) else 1.0, 1 / power, 2.0)
    wide = a.astype(np.float64), b.astype(np.float64)
    apart = wide[0][:, None] - wide[1] if metric in LP else np.zeros(0)
    if "box" in args:
        apart = _images_apart(*wide, args["box"])
    sizes = [np.abs(np.asarray(x, float)) for x in (a, b, apart, *map(np.ravel, args.values()))]
    extreme = any(
        ((x != 0) & ((x < 10.0**-reach) | (x > 10.0**reach))).any() for x in sizes if x.size
    )
    if not extreme:
        return bound
    other = lenient(metric, a.astype(np.float64), b.astype(np.float64), args)
    gap = np.abs(other - exact) * (1 + 1e-6)
    return np.where(np.isfinite(gap), np.maximum(bound, gap), np.inf)


def lenient(metric: str, a: Array, b: Array, args: dict[str, Any]) -> Array:
    """Compute in float64 by SciPy, or by NumPy what SciPy has not."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if "box" in args:  # which SciPy has not: of what is apart in it
            given = {name: x for name, x in args.items() if name != "box"}
            here, found = np.zeros((1, a.shape[1])), np.empty((len(a), len(b)))
            for i, far in enumerate(_images_apart(a, b, args["box"])):
                found[i] = _SCIPY_CDIST(here, far, metric, **given)
            return found
        try:
            return np.asarray(_SCIPY_CDIST(a, b, metric, **args))
        except (ValueError, TypeError):  # it has no such metric, or takes no such argument
            return np.asarray(gpudist.cdist(a, b, metric, kernel="reference", **args))


def settled(
    metric: str, a: Array, b: Array, args: dict[str, Any], dtype: str
) -> tuple[Array, Array]:
    """Compute what NaN and infinities lead to, and a wide bound for what remains finite.

    Pairs of rows without them are left out: SciPy rounds some of those to NaN.
    """
    found = lenient(metric, a.astype(np.float64), b.astype(np.float64), args)
    size = np.abs(found)
    finite = np.isfinite(found) & (size < 0.9 * float(np.finfo(dtype).max))
    plain = np.isfinite(a).all(axis=1)[:, None] & np.isfinite(b).all(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = np.where(finite, 1e-6 * (1 + size), np.where(np.isfinite(found), np.inf, 0.0))
        if metric == "minkowski" and dtype == "float32" and "w" in args:
            # A power of float64 that overflows is NaN times 0, and here it is scaled.
            for row, left_out in zip(a.astype(np.float64), plain, strict=True):
                apart = np.abs(row - b)[:, args["w"] == 0]
                left_out |= (np.isinf(apart ** args["p"]) & np.isfinite(apart)).any(axis=1)
        return found, np.where(plain, np.inf, bound)
