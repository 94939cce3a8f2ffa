"""The largest relative error of a result, against float64, on a sample of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist

Array = npt.NDArray[Any]

# Rows and pair-dimensions of a sample: about a second of NumPy.
_CDIST_ROWS = 64
_CDIST_PAIR_DIMENSIONS = 1 << 27
_APSP_STEPS = 1 << 16


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
    if result.shape != exact.shape:
        raise ValueError(f"a result of shape {result.shape} against {exact.shape}")
    result = result.astype(np.float64)
    exact = exact.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(result - exact) / np.abs(exact)
    error[(result == exact) | (np.isnan(result) & np.isnan(exact))] = 0.0
    error[np.isnan(error)] = np.inf
    return float(error.max(initial=0.0))


def cdist_sample(a: Array, b: Array, metric: str) -> tuple[npt.NDArray[np.intp], Array]:
    """Compute some rows of a distance matrix in float64.

    Parameters
    ----------
    a, b : ndarray
        The operands of ``cdist``.
    metric : str
        The metric.

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
        gpudist.cdist(a[i : i + 1].astype(np.float64), columns, metric, kernel="reference")
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
