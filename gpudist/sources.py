"""Shortest paths from some nodes alone: by Dijkstra's method of SciPy, where that does less."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpudist import arrays, checks, named, reference

# Seconds: of SciPy's Dijkstra for an edge, and for a node and the logarithm of their number; of all
# pairs for an update, on two cores. Measured for n from 300 to 2000 with 4 edges a node to n / 2,
# where the ratio of both sides is right within a factor of 2.
_EDGE, _NODE, _UPDATE = 2e-9, 9e-9, 25e-12


def read(indices: Any, n: int) -> Any:
    """Read which nodes paths begin at.

    Parameters
    ----------
    indices : int, or array_like of int, shape (k,)
        Their positions.
    n : int
        How many nodes there are.

    Returns
    -------
    ndarray of int64, shape () or (k,)
        The same.

    Raises
    ------
    IndexError
        There is no such node.
    TypeError, ValueError
        They are no whole numbers, or of more dimensions.
    """
    given = arrays.host_objects(indices, "indices")
    if given.size == 0:
        given = given.astype(np.int64)
    if not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"indices must be whole numbers, got an array of {given.dtype}")
    if given.ndim > 1:
        raise ValueError(f"indices must be one number or a list, got shape {given.shape}")
    if ((given < 0) | (given >= n)).any():
        stray = given[(given < 0) | (given >= n)].ravel()[0]
        raise IndexError(f"indices has {stray}, which is not a node of a graph with {n} nodes")
    return given.astype(np.int64)


def edges(graph: Any, no_edge: float | None) -> tuple[Any, Any, Any, int]:
    """List a host graph's edges, of those given twice the lightest.

    Parameters
    ----------
    graph : EdgeList, sparse array, masked array or array_like
        The graph.
    no_edge : float or None
        As for `apsp`.

    Returns
    -------
    tails, heads, weights : ndarray
        The edges, sorted by tails.
    n : int
        How many nodes there are.
    """
    from gpudist import paths

    if isinstance(graph, named.EdgeList):
        tails, heads, weights, n = graph.tails, graph.heads, graph.weights, len(graph.nodes)
    elif hasattr(graph, "tocsr"):
        entries = graph.tocsr().tocoo()
        tails, heads, weights, n = entries.row, entries.col, entries.data, graph.shape[0]
        if graph.shape != (n, n):
            raise ValueError(f"graph must be a square matrix, got shape {tuple(graph.shape)}")
    else:
        _, dense, rule = paths.read(graph, no_edge)
        there = reference.is_edge(dense, rule, 0.0 if no_edge is None else no_edge)
        tails, heads = np.nonzero(there)
        return tails, heads, dense[tails, heads], len(dense)
    kept = np.isfinite(weights)
    tails, heads, weights = tails[kept].astype(np.int64), heads[kept], weights[kept]
    order = np.lexsort((weights, heads, tails))
    tails, heads, weights = tails[order], heads[order], weights[order]
    first = np.ones(len(tails), bool)
    first[1:] = (tails[1:] != tails[:-1]) | (heads[1:] != heads[:-1])
    return tails[first], heads[first], weights[first], n


def why_all_pairs(
    how: dict[str, Any], space: arrays.Space, dtype: str, n: int, m: int, sources: int
) -> str | None:
    """Say why paths between all pairs are computed, or None where SciPy does less.

    Parameters
    ----------
    how : dict
        What else `apsp` was asked for.
    space : Space
        Where the graph is.
    dtype : str
        The dtype of the result.
    n, m, sources : int
        How many nodes, edges and sources there are.

    Returns
    -------
    str or None
        The reason.
    """
    if how["semiring"] != "min_plus":
        return f"SciPy has no paths over {how['semiring']} from some nodes alone"
    if space is not arrays.HOST or how["kernel"] != "auto" or how["device"] not in (None, "cpu"):
        return "a device or a kernel was asked for"
    if dtype not in ("float32", "float64"):
        return f"SciPy's lengths are floats, not {dtype}"
    try:
        import scipy.sparse.csgraph  # noqa: F401
    except ImportError:
        return "SciPy is not installed"
    theirs = sources * (m * _EDGE + n * math.log2(n + 2) * _NODE)
    ours = n**3 * _UPDATE
    if theirs > ours:
        return (
            f"{sources} times Dijkstra's method would take about {theirs * 1e3:.2g} ms, all pairs "
            f"{ours * 1e3:.2g} ms"
        )
    return None


def apsp(
    tails: Any, heads: Any, weights: Any, n: int, indices: Any, how: dict[str, Any], dtype: str
) -> tuple[Any, Any] | None:
    """Ask SciPy, or return None if a cycle or a weight has to be judged by all pairs.

    Parameters
    ----------
    tails, heads, weights, n
        From `edges`.
    indices : ndarray of int
        From `read`.
    how : dict
        What else `apsp` was asked for.
    dtype : str
        The dtype of the result.

    Returns
    -------
    dist, predecessors : ndarray
        Shapes (k, n) or (n,); float64, where there is no path inf.
    """
    from scipy.sparse import csgraph, csr_array

    unweighted = checks.truth("unweighted", how["unweighted"])
    data = np.ones(len(tails)) if unweighted else weights.astype(np.float64)
    if not (np.abs(data) <= np.finfo(dtype).max).all():
        return None
    if dtype == "float32":
        data = data.astype(np.float32).astype(np.float64)
    pointers = np.searchsorted(tails, np.arange(n + 1))
    graph = csr_array((data, heads, pointers), shape=(n, n))
    directed = checks.truth("directed", how["directed"])
    if (data < 0).any():
        if not directed:
            return None  # an edge there and back is a negative cycle
        try:
            found = csgraph.johnson(graph, indices=indices, return_predecessors=True)
        except csgraph.NegativeCycleError:
            return None
    else:
        found = csgraph.dijkstra(
            graph, directed=directed, indices=indices, return_predecessors=True
        )
    dist, before = found
    if not np.isnan(dist).any():
        return dist, before.astype(np.int32, copy=False)
    return None
