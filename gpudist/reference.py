"""Slow, plain NumPy in float64: what every kernel is held against, and ``kernel="reference"``."""

from __future__ import annotations

from typing import Any

import numpy as np


def cdist(a: Any, b: Any, metric: str) -> Any:
    """Compute a distance matrix in float64, a row at a time.

    Parameters
    ----------
    a, b : ndarray, shapes (m, d) and (n, d)
        The points.
    metric : str
        A canonical name.

    Returns
    -------
    ndarray of float64, shape (m, n)
        The distances.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if metric == "haversine" and a.shape[1] != 2:
        raise ValueError(f"haversine takes columns (latitude, longitude), got {a.shape[1]} columns")
    of_row = _ROWS[metric]
    result = np.empty((len(a), len(b)))
    with np.errstate(all="ignore"):  # overflow and invalid give inf and nan, as in the kernels
        for i, row in enumerate(a):
            result[i] = of_row(row, b)
    return result


def _haversine(x: Any, b: Any) -> Any:
    half = (x - b) / 2
    h = np.sin(half[:, 0]) ** 2 + np.cos(x[0]) * np.cos(b[:, 0]) * np.sin(half[:, 1]) ** 2
    return 2 * np.arcsin(np.sqrt(np.clip(h, 0, 1)))


_ROWS = {
    "euclidean": lambda x, b: np.sqrt(((x - b) ** 2).sum(axis=1)),
    "sqeuclidean": lambda x, b: ((x - b) ** 2).sum(axis=1),
    "cityblock": lambda x, b: np.abs(x - b).sum(axis=1),
    "chebyshev": lambda x, b: np.fmax.reduce(np.abs(x - b), axis=1, initial=0.0),
    "haversine": _haversine,
}


def edges(weights: Any, rule: str, sentinel: float, directed: bool, unweighted: bool) -> Any:
    """Return the float64 matrix of edge weights, inf where there is no edge.

    Parameters
    ----------
    weights : ndarray, shape (n, n)
        The graph as given.
    rule : {"zero", "infinite", "sentinel"}
        What, beside NaN and infinities, is no edge.
    sentinel : float
        The value of the last rule.
    directed, unweighted : bool
        As for `gpudist.apsp`.

    Returns
    -------
    ndarray of float64, shape (n, n)
        The weights; the diagonal is 0, or negative for a negative self-loop.
    """
    w = np.array(weights, np.float64)
    absent = ~np.isfinite(w)
    if rule != "infinite":
        absent |= w == (0.0 if rule == "zero" else sentinel)
    w[absent] = np.inf
    if not directed:
        w = np.minimum(w, w.T)
    if unweighted:
        w[np.isfinite(w)] = 1.0
    np.fill_diagonal(w, np.minimum(np.diagonal(w), 0.0))
    return w


def apsp(w: Any) -> tuple[Any, Any]:
    """Close a matrix of edge weights by the plain Floyd-Warshall loop.

    Parameters
    ----------
    w : ndarray of float64, shape (n, n)
        From `edges`; overwritten.

    Returns
    -------
    dist : ndarray of float64, shape (n, n)
        Path lengths; `w`.
    pred : ndarray of int32, shape (n, n)
        Predecessors, -9999 for none.
    """
    n = len(w)
    pred = np.where(np.isfinite(w), np.arange(n, dtype=np.int32)[:, None], np.int32(-9999))
    np.fill_diagonal(pred, -9999)
    with np.errstate(invalid="ignore"):
        for k in range(n):
            through = w[:, k, None] + w[k]
            shorter = through < w
            w[shorter] = through[shorter]
            pred[shorter] = np.broadcast_to(pred[k], pred.shape)[shorter]
    return w, pred
