"""Graphs that list their edges, spread over dense matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpudist import arrays
from gpudist.nx import graphs


def ways(graph: Any, name: str, *, truths: bool = False, none: float = np.inf) -> Any:
    """Return a NetworkX graph as the matrix of its edges' weights, with `none` where there is none.

    Parameters
    ----------
    graph : NetworkX graph
        Its edges weigh what their attribute "weight" says: 1 where it is missing, and None or an
        infinity is no edge. Of parallel edges the lightest counts.
    name : str
        What errors call it.
    truths : bool
        Whether to return in an array of bool where the edges are.
    none : float
        What stands where there is no edge.

    Returns
    -------
    ndarray, shape (n, n)
        Row i and column i are those of the i-th node of ``list(graph)``.

    Raises
    ------
    TypeError
        A weight is neither a real number nor None.
    """
    tails, heads, weights = _edges(graph, name)
    dense = spread(len(graph), tails, heads, weights, "bool" if truths else "float64")
    if not truths and none != np.inf:
        dense[np.isinf(dense)] = none
    return dense


def adjacency(graph: Any, name: str) -> Any:
    """Return a NetworkX graph as its adjacency matrix, as ``networkx.to_numpy_array`` does.

    Parameters
    ----------
    graph, name
        As for `ways`, but that the weights of parallel edges are added up.

    Returns
    -------
    ndarray, shape (n, n)
        The weights of the edges from i to j, 0 where there is none.

    Raises
    ------
    TypeError
        A weight is neither a real number nor None.
    """
    tails, heads, weights = _edges(graph, name, none=0.0)
    dense = arrays.HOST.empty((len(graph), len(graph)), "float64", like=None)
    dense.fill(0)
    np.add.at(dense, (tails, heads), weights)
    return dense


def _edges(graph: Any, name: str, none: float = math.inf) -> tuple[Any, Any, Any]:
    tails, heads, weights = graphs.edges(graph, list(graph), "weight", 1)
    return tails, heads, graphs.weighed(weights, name, none)


def spread(n: int, rows: Any, columns: Any, weights: Any, dtype: str) -> Any:
    """Spread edges over an n x n matrix of inf, or their truth over one of False.

    Of edges given twice the lightest counts.
    """
    dense = arrays.HOST.empty((n, n), dtype, like=None)
    finite = np.isfinite(weights)
    dense.fill(dtype != "bool" and np.inf)
    if dtype == "bool":
        dense[rows[finite], columns[finite]] = True
    else:
        np.minimum.at(dense, (rows, columns), np.where(finite, weights, np.inf))
    return dense
