"""How far results are from exact: in float64 on a sample of rows, or right to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.bench.adversary import adversarial, variants
from gpudist.bench.exact import exact_cdist

__all__ = [
    "adversarial",
    "apsp_sample",
    "cdist_sample",
    "error_scale",
    "exact_cdist",
    "max_error",
    "max_relative_error",
    "measure_of",
    "sample_rows",
    "variants",
]

Array = npt.NDArray[Any]

# Rows and pair-dimensions of a sample: about a second of NumPy.
_CDIST_ROWS = 64
_CDIST_PAIR_DIMENSIONS = 1 << 25
_APSP_STEPS = 1 << 16

_MEASURES = {
    "cosine": "one",
    "correlation": "one",
    "hellinger": "one",
    "jensenshannon": "one",
    "kl_divergence": "one",
    "inner_product": "terms",
}


def sample_rows(n: int, count: int) -> npt.NDArray[np.intp]:
    """Choose rows evenly, the first and the last among them.

    Parameters
    ----------
    n : int
        How many there are.
    count : int
        How many to choose; all of them if that is fewer.

    Returns
    -------
    ndarray of intp
        Row numbers, ascending.
    """
    return np.unique(np.linspace(0, n - 1, max(1, min(n, count))).astype(np.intp))


def max_relative_error(result: Array, exact: Array) -> float:
    """Give the largest of ``|result - exact| / |exact|``.

    Parameters
    ----------
    result, exact : ndarray
        Of one shape. Equal entries count as 0, infinities among them; a result that is not 0
        where the exact one is counts as infinite, and NaN against a number as infinite too.

    Returns
    -------
    float
        The largest, 0 for empty arrays.
    """
    return max_error(result, exact, np.abs(exact.astype(np.float64)))


def max_error(result: Array, exact: Array, scale: Array) -> float:
    """Give the largest of ``|result - exact| / scale``.

    Parameters
    ----------
    result, exact, scale : ndarray
        Of one shape. Entries count as in `max_relative_error`; an exact infinity stands for every
        number that rounds to it in the result's type.

    Returns
    -------
    float
        The largest, 0 for empty arrays.
    """
    if result.shape != exact.shape:
        raise ValueError(f"a result of shape {result.shape} against {exact.shape}")
    with np.errstate(over="ignore"):
        beyond = np.isinf(exact.astype(result.dtype, copy=False))
    result = result.astype(np.float64)
    exact = np.where(beyond, np.copysign(np.inf, exact), exact.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(result - exact) / scale
    error[(result == exact) | (np.isnan(result) & np.isnan(exact))] = 0.0
    error[np.isnan(error)] = np.inf
    return float(error.max(initial=0.0))


def measure_of(metric: str) -> str:
    """Say what errors of a metric are relative to.

    Parameters
    ----------
    metric : str
        Its name.

    Returns
    -------
    {'distance', 'one', 'terms'}
        The distance itself; at least 1 where near rows leave a small difference of numbers near
        1; the sum of the terms' magnitudes where terms of both signs can cancel.
    """
    return _MEASURES.get(metric, "distance")


def error_scale(metric: str, a: Array, b: Array, exact: Array) -> Array:
    """Give what the errors of distances are divided by.

    Parameters
    ----------
    metric : str
        Its name.
    a, b : ndarray
        The points.
    exact : ndarray
        Their exact distances.

    Returns
    -------
    ndarray
        Of the same shape, by the rule that `measure_of` names. A distance below the smallest
        normal number of the points' type counts as that number, since it cannot have all digits;
        0 remains 0.
    """
    measure = measure_of(metric)
    if measure == "one":
        return np.maximum(np.abs(exact), 1.0)
    if measure == "terms":
        exact = exact_cdist(np.abs(a), np.abs(b), metric)
    tiny = np.finfo(a.dtype).tiny
    return np.where(exact == 0, 0.0, np.maximum(np.abs(exact), tiny))


def cdist_sample(
    a: Array, b: Array, metric: str, **metric_args: Any
) -> tuple[npt.NDArray[np.intp], Array]:
    """Compute some rows of a distance matrix in float64.

    Parameters
    ----------
    a, b : ndarray
        The operands of ``cdist``.
    metric : str
        The metric.
    **metric_args
        Its arguments.

    Returns
    -------
    rows : ndarray of intp
        Which rows of `a`.
    exact : ndarray
        Their distances to all of `b`.
    """
    per_row = max(1, b.shape[0] * b.shape[1])
    rows = sample_rows(a.shape[0], min(_CDIST_ROWS, max(2, _CDIST_PAIR_DIMENSIONS // per_row)))
    columns = b.astype(np.float64)
    # A row at a time: the reference may hold all differences of a block at once.
    exact = [
        gpudist.cdist(
            a[i : i + 1].astype(np.float64), columns, metric, kernel="reference", **metric_args
        )
        for i in rows
    ]
    return rows, np.concatenate(exact)


def apsp_sample(weights: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Compute the path lengths from some nodes in float64.

    Parameters
    ----------
    weights : ndarray
        A dense graph without negative weights; 0 and infinity are no edge.

    Returns
    -------
    rows : ndarray of intp
        Which nodes.
    exact : ndarray
        The lengths of the shortest paths from them to every node.
    """
    n = weights.shape[0]
    rows = sample_rows(n, min(n, max(2, _APSP_STEPS // max(1, n))))
    return rows, np.stack([_dijkstra(weights, int(source)) for source in rows])


def _dijkstra(weights: Array, source: int) -> Array:
    """Find the shortest paths from one node of a dense graph: the nearest open node, n times."""
    n = weights.shape[0]
    lengths = np.full(n, np.inf)
    lengths[source] = 0.0
    unsettled = lengths.copy()
    for _ in range(n):
        node = int(unsettled.argmin())
        if unsettled[node] == np.inf:
            break
        row = weights[node].astype(np.float64)
        row[row == 0] = np.inf
        through = lengths[node] + row
        shorter = through < lengths
        lengths[shorter] = through[shorter]
        unsettled[shorter] = through[shorter]
        unsettled[node] = np.inf
    return lengths
