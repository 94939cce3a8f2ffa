"""Slow, plain NumPy in float64: what every kernel is held against, and ``kernel="reference"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def cdist(
    a: Any,
    b: Any,
    metric: str,
    *,
    w: Any = None,
    p: float = 2.0,
    V: Any = None,
    VI: Any = None,
    base: float | None = None,
    box: Any = None,
) -> Any:
    """Compute a distance matrix in float64, a row at a time.

    Parameters
    ----------
    a, b : ndarray, shapes (m, d) and (n, d)
        The points.
    metric : str
        A canonical name.
    w, p, V, VI, base, box
        The metric's arguments, as in `gpudist.cdist`; V and VI have no default here, and a box has
        a length for each column.

    Returns
    -------
    ndarray of float64, shape (m, n)
        The distances.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    result = np.empty((len(a), len(b)))
    of_row = _rule(metric, a.shape[1], w, p, V, VI, base)
    with np.errstate(all="ignore"):  # overflow and invalid give inf and nan, as in the kernels
        if box is not None:
            lengths = np.where(box > 0, box, np.inf)
            a, b, half = _images(a, lengths), _images(b, lengths), lengths / 2
        for i, row in enumerate(a):
            if box is None:
                result[i] = of_row(row, b)
            else:  # of metrics that go by differences alone
                over_the_end = (half - np.abs(row)) + (half - np.abs(b))
                result[i] = of_row(np.zeros_like(row), np.fmin(np.abs(row - b), over_the_end))
    return result


def _images(x: Any, lengths: Any) -> Any:
    """Return the image of each coordinate that is nearest to 0, which is exact."""
    rest = np.where(np.isinf(lengths), x, np.fmod(x, lengths))
    return np.where(np.abs(rest) > lengths / 2, rest - np.copysign(lengths, rest), rest)


def pdist(x: Any, metric: str, rows: tuple[int, int] | None = None, **arguments: Any) -> Any:
    """Compute a condensed distance matrix in float64, a row at a time.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        The points.
    metric : str
        A canonical name.
    rows : tuple of int, optional
        Where i begins and ends, all by default.
    **arguments
        As for `cdist`.

    Returns
    -------
    ndarray of float64, shape (n * (n - 1) / 2,)
        The distances of the pairs (i, j), i < j, in order.
    """
    x = np.asarray(x, np.float64)
    first = range(len(x)) if rows is None else range(*rows)
    parts = [cdist(x[i : i + 1], x[i + 1 :], metric, **arguments)[0] for i in first]
    return np.concatenate(parts) if parts else np.empty(0)


def _rule(
    metric: str, columns: int, w: Any, p: float, V: Any, VI: Any, base: float | None
) -> Callable[[Any, Any], Any]:
    """Return the function of one row x and all rows b."""
    ones = np.ones(columns) if w is None else np.asarray(w, np.float64)
    if metric == "haversine" and columns != 2:
        raise ValueError(f"haversine takes columns (latitude, longitude), got {columns} columns")
    if metric == "minkowski":
        exact = {1.0: "cityblock", 2.0: "euclidean", np.inf: "chebyshev"}
        if p in exact:
            return _rule(exact[p], columns, w, p, V, VI, base)
        return lambda x, b: _minkowski(x, b, ones, p)
    if metric == "seuclidean":
        return lambda x, b: np.sqrt(((x - b) ** 2 / V).sum(axis=1))
    if metric == "mahalanobis":
        return lambda x, b: np.sqrt(_quadratic(x - b, VI))
    if metric == "jensenshannon":
        scale = 2.0 if base is None else 2.0 * np.log(base)
        return lambda x, b: _jensenshannon(x, b, scale)
    if metric == "dice":  # on truths both are what the counts give
        return _dice_of_numbers if w is None else lambda x, b: _weighted_dice(x, b, ones)
    if metric in _OF_COUNTS:
        of_counts = _OF_COUNTS[metric]
        return lambda x, b: of_counts(*_counts(x != 0, b != 0, ones))
    of_rows = _OF_ROWS[metric]
    return lambda x, b: of_rows(x, b, ones)


def _minkowski(x: Any, b: Any, w: Any, p: float) -> Any:
    apart, counts = np.abs(x - b), w > 0
    # Powers of float32 differences may leave even the range of float64, but not those of shares.
    most = np.max(apart, axis=1, keepdims=True, initial=0.0, where=np.isfinite(apart) & counts)
    unit = np.where(most > 0, most, 1.0)
    shares = apart / unit
    sums = np.where(counts, w * shares**p, shares * 0).sum(axis=1)
    return unit[:, 0] * sums ** (1 / p)


def _canberra(x: Any, b: Any, w: Any) -> Any:
    size = np.abs(x) + np.abs(b)
    return (w * (np.abs(x - b) / np.where(size == 0, 1, size))).sum(axis=1)


def _cosine(x: Any, b: Any, w: Any) -> Any:
    lengths = np.sqrt((w * x**2).sum()) * np.sqrt((w * b**2).sum(axis=1))
    return 1 - np.clip((w * x * b).sum(axis=1) / lengths, -1, 1)


def _correlation(x: Any, b: Any, w: Any) -> Any:
    return _cosine(_centred(x[None], w)[0], _centred(b, w), w)


def _quadratic(e: Any, VI: Any) -> Any:
    # einsum adds up each row in the same order, however many there are.
    through = np.einsum("nj,jk->nk", e, VI)
    return np.einsum("nk,nk->n", through, e)


def _centred(b: Any, w: Any) -> Any:
    # The second round takes away what the mean's rounding left.
    counted = b[:, w > 0]
    constant = (counted == counted[:, :1]).all(axis=1)
    for _ in range(2):
        b = b - (w * b).sum(axis=1, keepdims=True) / w.sum()
    # Rows of equal values have no direction, and noise would give them one.
    return np.where(constant[:, None], 0.0, b)


def _jensenshannon(x: Any, b: Any, scale: float) -> Any:
    none = (b < 0).any(axis=1) | (b.sum(axis=1) == 0) | (x < 0).any() | (x.sum() == 0)
    x, b = x / x.sum(), b / b.sum(axis=1, keepdims=True)
    mean, r = (x + b) / 2, (x - b) / (x + b)
    # (1 + r) log(1 + r) + (1 - r) log(1 - r), which is close to r**2 where r is small.
    small = np.log1p(-r * r) + 2 * r * np.arctanh(r)
    large = _times_log(1 + r, 1 + r) + _times_log(1 - r, 1 - r)
    entropy = mean * np.where(np.abs(r) < 0.5, small, large)
    # A column where neither is positive counts 0, even if that is for being NaN.
    entropy = np.where((x > 0) | (b > 0), entropy, 0.0)
    return np.where(none, np.inf, np.sqrt(entropy.sum(axis=1) / scale))


def _times_log(x: Any, y: Any) -> Any:
    """Return x log(y), 0 where x is 0."""
    return np.where(x == 0, 0.0, x * np.log(y))


def _kl_divergence(x: Any, b: Any, w: Any) -> Any:
    ratio = x / b
    # Beside subnormal numbers the quotient may be out of range, but not its logarithm.
    logs = np.where((ratio > 1e-300) & (ratio < np.inf), np.log(ratio), np.log(x) - np.log(b))
    terms = np.where((x == 0) & (b >= 0), 0.0, x * logs)
    terms = np.where((x < 0) | (b < 0) | ((x > 0) & (b == 0)), np.inf, terms)
    return np.where(np.isnan(x) | np.isnan(b), np.nan, terms).sum(axis=1)


def _hellinger(x: Any, b: Any, w: Any) -> Any:
    # 1 - sum(sqrt(x * y)), without the cancellation where x and y are close.
    apart = ((np.sqrt(x) - np.sqrt(b)) ** 2).sum(axis=1)
    return np.sqrt(np.maximum((apart + (1 - x.sum()) + (1 - b.sum(axis=1))) / 2, 0))


def _haversine(x: Any, b: Any, w: Any) -> Any:
    half = (x - b) / 2
    h = np.sin(half[:, 0]) ** 2 + np.cos(x[0]) * np.cos(b[:, 0]) * np.sin(half[:, 1]) ** 2
    return 2 * np.arcsin(np.sqrt(np.clip(h, 0, 1)))


def _dice_of_numbers(x: Any, b: Any) -> Any:
    apart = (x * (1 - b) + b * (1 - x)).sum(axis=1)
    return apart / (2 * (x * b).sum(axis=1) + apart)


def _weighted_dice(x: Any, b: Any, w: Any) -> Any:
    apart = (w * (x != b)).sum(axis=1)
    return apart / (2 * (w * ((x != 0) & (b != 0))).sum(axis=1) + apart)


def _counts(x: Any, b: Any, w: Any) -> tuple[Any, Any, Any, Any]:
    """Add up the weights where both, only x, only b and neither is true."""
    return tuple((w * cell).sum(axis=1) for cell in (x & b, x & ~b, ~x & b, ~x & ~b))


def _yule(tt: Any, tf: Any, ft: Any, ff: Any) -> Any:
    crossed = tf * ft
    return np.where(crossed == 0, 0.0, 2 * crossed / (tt * ff + crossed))


_OF_ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "euclidean": lambda x, b, w: np.sqrt((w * (x - b) ** 2).sum(axis=1)),
    "sqeuclidean": lambda x, b, w: (w * (x - b) ** 2).sum(axis=1),
    "cityblock": lambda x, b, w: (w * np.abs(x - b)).sum(axis=1),
    "chebyshev": lambda x, b, w: np.fmax.reduce(np.abs(x - b)[:, w > 0], axis=1, initial=0.0),
    "canberra": _canberra,
    "braycurtis": lambda x, b, w: (w * np.abs(x - b)).sum(axis=1) / (w * np.abs(x + b)).sum(axis=1),
    "cosine": _cosine,
    "correlation": _correlation,
    "inner_product": lambda x, b, w: (x * b).sum(axis=1),
    "hamming": lambda x, b, w: (w * (x != b)).sum(axis=1) / w.sum(),
    "kl_divergence": _kl_divergence,
    "hellinger": _hellinger,
    "haversine": _haversine,
}

_OF_COUNTS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "jaccard": lambda tt, tf, ft, ff: np.where(tt + tf + ft == 0, 0.0, (tf + ft) / (tt + tf + ft)),
    "kulczynski1": lambda tt, tf, ft, ff: tt / (tf + ft),
    "rogerstanimoto": lambda tt, tf, ft, ff: 2 * (tf + ft) / (tt + ff + 2 * (tf + ft)),
    "russellrao": lambda tt, tf, ft, ff: (tf + ft + ff) / (tt + tf + ft + ff),
    "sokalmichener": lambda tt, tf, ft, ff: 2 * (tf + ft) / (tt + ff + 2 * (tf + ft)),
    "sokalsneath": lambda tt, tf, ft, ff: 2 * (tf + ft) / (tt + 2 * (tf + ft)),
    "yule": _yule,
}


def minplus(a: Any, b: Any, c: Any, semiring: str) -> Any:
    """Multiply two matrices over a semiring in float64, a row at a time.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        The factors.
    c : ndarray, shape (m, n), or None
        What the product is joined with.
    semiring : str
        As for `gpudist.minplus`.

    Returns
    -------
    ndarray of float64 (or_and: bool), shape (m, n)
        The product.
    """
    join, put, neutral, dtype = _SEMIRINGS[semiring]

    def tidy(x: Any) -> Any:
        x = np.asarray(x, dtype)
        return np.where(np.isnan(x), neutral, x + dtype(0))

    a, b = tidy(a), tidy(b)
    result = np.full((a.shape[0], b.shape[1]), neutral, dtype) if c is None else tidy(c)
    with np.errstate(invalid="ignore"):  # inf - inf
        for i, row in enumerate(a):
            ways = tidy(put(row[:, None], b))
            result[i] = join(result[i], join.reduce(ways, axis=0, initial=neutral))
    return result


_SEMIRINGS: dict[str, tuple[Any, Any, Any, Any]] = {
    "min_plus": (np.minimum, np.add, np.inf, np.float64),
    "max_plus": (np.maximum, np.add, -np.inf, np.float64),
    "min_max": (np.minimum, np.maximum, np.inf, np.float64),
    "max_min": (np.maximum, np.minimum, -np.inf, np.float64),
    "or_and": (np.logical_or, np.logical_and, False, np.bool_),
}


def edges(
    weights: Any, rule: str, sentinel: float, directed: bool, unweighted: bool, semiring: str
) -> Any:
    """Return the float64 matrix of edge weights, the semiring's neutral element for no edge.

    Parameters
    ----------
    weights : ndarray, shape (n, n)
        The graph as given.
    rule : {"zero", "infinite", "sentinel"}
        What, beside NaN and infinities, is no edge.
    sentinel : float
        The value of the last rule.
    directed, unweighted, semiring : bool, bool, str
        As for `gpudist.apsp`; not or_and.

    Returns
    -------
    ndarray of float64, shape (n, n)
        The weights; on the diagonal the length of the better of the path of no edge and a loop.
    """
    join, _, none, _ = _SEMIRINGS[semiring]
    w = edge_rows(weights, rule, sentinel, unweighted, semiring)
    if not directed:
        w = join(w, w.T)
    empty = 0.0 if semiring.endswith("plus") else -none
    np.fill_diagonal(w, join(np.diagonal(w), empty))
    return w


def edge_rows(rows: Any, rule: str, sentinel: float, unweighted: bool, semiring: str) -> Any:
    """Return what edges weigh one way, the semiring's neutral element for no edge.

    Parameters
    ----------
    rows : ndarray, shape (m, n)
        Rows of the graph as given.
    rule, sentinel, unweighted, semiring
        As for `edges`.

    Returns
    -------
    ndarray of float64, shape (m, n)
        The weights, those of loops as they are.
    """
    w = np.array(rows, np.float64)
    w[~is_edge(rows, rule, sentinel)] = _SEMIRINGS[semiring][2]
    if unweighted:
        w[np.isfinite(w)] = 1.0
    return w


def is_edge(w: Any, rule: str, sentinel: float) -> Any:
    """Tell which numbers are the weights of edges, by the rule of `edges`.

    A sentinel is rounded to float32 where the weights are, and held against whole ones as it is.
    """
    absent = ~np.isfinite(w)
    if rule != "infinite":
        with np.errstate(over="ignore"):  # to infinity, which is no weight in any case
            of = np.float32 if w.dtype.name == "float32" else np.float64
            absent |= w == of(0.0 if rule == "zero" else sentinel)
    return ~absent


def apsp(w: Any, semiring: str = "min_plus") -> tuple[Any, Any]:
    """Close a matrix of edge weights by the plain Floyd-Warshall loop.

    Parameters
    ----------
    w : ndarray of float64, shape (n, n)
        From `edges`; overwritten.
    semiring : str
        As for `gpudist.apsp`; not or_and.

    Returns
    -------
    dist : ndarray of float64, shape (n, n)
        Path lengths; `w`.
    pred : ndarray of int32, shape (n, n)
        Predecessors, -9999 for none.
    """
    join, put, none, _ = _SEMIRINGS[semiring]
    better = np.less if join is np.minimum else np.greater
    n = len(w)
    pred = np.where(w != none, np.arange(n, dtype=np.int32)[:, None], np.int32(-9999))
    np.fill_diagonal(pred, -9999)
    with np.errstate(invalid="ignore"):
        for k in range(n):
            through = put(w[:, k, None], w[k])
            wins = better(through, w)
            w[wins] = through[wins]
            pred[wins] = np.broadcast_to(pred[k], pred.shape)[wins]
    return w, pred


def on_cycle(dist: Any, semiring: str) -> list[int]:
    """List the nodes from which a path leads back to them that is better than none.

    Parameters
    ----------
    dist : ndarray, shape (n, n)
        From `apsp`.
    semiring : str
        Likewise.

    Returns
    -------
    list of int
        Their indices; empty where nothing is added.
    """
    if not semiring.endswith("plus"):
        return []
    diagonal = np.diagonal(dist)
    found = np.flatnonzero(diagonal < 0 if semiring == "min_plus" else diagonal > 0)
    return [int(i) for i in found]


def closure(weights: Any, rule: str, sentinel: float, directed: bool) -> Any:
    """Find out which nodes can be reached over one edge or more, by Warshall's loop.

    Parameters
    ----------
    weights : ndarray, shape (n, n)
        The graph as given; of bool, or as for `edges`.
    rule, sentinel, directed
        As for `edges`.

    Returns
    -------
    ndarray of bool, shape (n, n)
        Whether there is a path.
    """
    reached = np.array(weights if weights.dtype == bool else is_edge(weights, rule, sentinel))
    if not directed:
        reached |= reached.T.copy()
    for k in range(len(reached)):
        reached |= reached[:, k, None] & reached[k]
    return reached


def perron(
    a: Any, tol: float, max_iter: int, shift: float, x0: Any
) -> tuple[float, Any, float, float, int, bool]:
    """Bound the Perron root by the ratios of ``a @ x`` to x, round after round.

    Parameters
    ----------
    a : ndarray, shape (n, n)
        A nonnegative matrix; whether it is irreducible is looked at.
    tol : float
        The relative width of the bounds at which to end.
    max_iter : int
        After how many rounds to end in any case.
    shift : float
        What is added to the diagonal for the sake of the vector; about the root if negative.
    x0 : ndarray of float64 or None
        A positive vector to start from.

    Returns
    -------
    value, vector, lower, upper, rounds, converged
        As in `gpudist.PerronResult`.

    Raises
    ------
    ValueError
        The matrix is not nonnegative, finite and irreducible.
    """
    a = np.asarray(a, np.float64)
    n = len(a)
    flaws = np.argwhere(~((a >= 0) & (a < np.inf)))
    if len(flaws):
        i, j = map(int, flaws[0])
        raise ValueError(f"A must be nonnegative and finite, but A[{i}, {j}] is {a[i, j]:g}")
    empty = np.flatnonzero(~a.any(axis=1))
    if len(empty):
        raise ValueError(f"A must be irreducible, but its row {empty[0]} is zero")
    reach = np.eye(n, dtype=bool) | (a > 0)
    while (
        not reach.all() and (longer := (reach.astype(np.float64) @ reach) > 0).sum() > reach.sum()
    ):
        reach = longer  # by paths of twice as many edges
    if not reach.all():
        i, j = map(int, np.argwhere(~reach)[0])
        raise ValueError(f"A must be irreducible, but no path leads from {i} to {j}")
    x = np.ones(n) if x0 is None else x0 / x0.max()
    slack = (n + 8) * 2.0**-53
    lower, upper, value, rounds, converged = 0.0, np.inf, 0.0, 0, False
    while rounds < max_iter and not converged:
        y = a @ x
        least, most = float((y / x).min()) * (1 - slack), float((y / x).max()) * (1 + slack)
        lower, upper = max(lower, least), min(upper, most)
        value = min(max(float(x @ y / (x @ x)), lower), upper)
        converged = most - least <= tol * least
        x = y + (value if shift < 0 else shift) * x
        x = np.maximum(x / x.max(), 2.0**-600)
        rounds += 1
    return value, x, lower, upper, rounds, converged
