"""Shortest paths from some nodes alone: by Dijkstra's method of SciPy, where that does less."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpudist import arrays, checks, named, paths_call, reference, results
from gpudist.intake import Orders
from gpudist.paths_call import Asked
from gpudist.progress import watched

# Seconds: of SciPy's Dijkstra for an edge, and for a node and the logarithm of their number; of all
# pairs for an update, on two cores. Measured for n from 300 to 2000 with 4 edges a node to n / 2,
# where the ratio of both sides is right within a factor of 2.
_EDGE, _NODE, _UPDATE = 2e-9, 9e-9, 25e-12

# Seconds of a call of SciPy, between which Ctrl-C is heard, and the fewest nodes of one: each call
# reads the graph anew.
_PIECE, _FEWEST = 0.1, 4

# Bytes: of a length with its predecessor, once as all have it and whether there is a path, and once
# as SciPy gives it; of an edge, as it is listed, put together and read by SciPy; of a node.
_HELD_PAIR, _HELD_GIVEN = 8 + 4 + 1, 8 + 4
_HELD_EDGE, _HELD_NODE = 3 * 8 + 2 * (8 + 8), 2 * 8


class Some(NamedTuple):
    """Paths from some nodes: from which, along which edges, and why all pairs are computed, if so.

    `tails`, `heads` and `weights` are the edges, sorted by tails, and None of an array on a device.
    """

    indices: Any
    tails: Any
    heads: Any
    weights: Any
    n: int
    dtype: str
    why: str | None

    @property
    def m(self) -> int:
        """How many edges there are."""
        return 0 if self.tails is None else len(self.tails)


def read(graph: Any, indices: Any, asked: Asked) -> Some:
    """Read a call with `indices`, and decide who finds the paths.

    Parameters
    ----------
    graph : EdgeList, sparse array, masked array or array_like
        The graph.
    indices : int, or array_like of int, shape (k,)
        The positions of the nodes that paths begin at.
    asked : Asked
        What else is asked for.

    Returns
    -------
    Some
        The record.

    Raises
    ------
    IndexError
        There is no such node.
    TypeError, ValueError
        They are no whole numbers, or of more dimensions; or as for `gpudist.apsp`.
    """
    asked = asked._replace(orders=asked.orders.read("apsp"))
    no_edge = paths_call.number_or_none(asked.no_edge)
    listed = isinstance(graph, named.EdgeList) or hasattr(graph, "tocsr")
    space = arrays.HOST if listed else arrays.space_of(graph=graph)
    if listed and no_edge is not None:
        raise ValueError("no_edge is for dense arrays; this graph lists its edges")
    if space is not arrays.HOST:
        tails, heads, weights, n = None, None, None, int(graph.shape[0])
    else:
        tails, heads, weights, n = _edges(graph, no_edge)
    nodes = _nodes(indices, n)
    dtype = asked.dtype
    if asked.semiring != "or_and":
        given = graph.weights if isinstance(graph, named.EdgeList) else weights
        single = space.dtype_name(graph if given is None else given) == "float32"
        dtype = results.dtype_of(space, single, dtype, asked.semiring)
    negative = no_edge is not None and no_edge < 0
    some = Some(nodes, tails, heads, weights, n, str(dtype), None)
    why = "weights have to be held against no_edge" if negative else None
    return some._replace(why=why or _why_all_pairs(some, space, asked))


def _nodes(indices: Any, n: int) -> Any:
    """Read which nodes paths begin at: positions, of shape () or (k,)."""
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


def _edges(graph: Any, no_edge: float | None) -> tuple[Any, Any, Any, int]:
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
    if isinstance(graph, named.EdgeList):
        tails, heads, weights, n = graph.tails, graph.heads, graph.weights, len(graph.nodes)
    elif hasattr(graph, "tocsr"):
        entries = graph.tocsr().tocoo()
        tails, heads, weights, n = entries.row, entries.col, entries.data, graph.shape[0]
        if graph.shape != (n, n):
            raise ValueError(f"graph must be a square matrix, got shape {tuple(graph.shape)}")
    else:
        _, dense, _, rule, sentinel = paths_call.read_graph(graph, no_edge)
        there = reference.is_edge(dense, rule, sentinel)
        tails, heads = np.nonzero(there)
        return tails, heads, dense[tails, heads], len(dense)
    kept = np.isfinite(weights)
    tails, heads, weights = tails[kept].astype(np.int64), heads[kept], weights[kept]
    order = np.lexsort((weights, heads, tails))
    tails, heads, weights = tails[order], heads[order], weights[order]
    first = np.ones(len(tails), bool)
    first[1:] = (tails[1:] != tails[:-1]) | (heads[1:] != heads[:-1])
    return tails[first], heads[first], weights[first], n


def _why_all_pairs(some: Some, space: arrays.Space, asked: Asked) -> str | None:
    """Say why paths between all pairs are computed, or None where SciPy does less."""
    kernel, device = asked.orders.kernel, asked.orders.device
    if asked.semiring != "min_plus":
        return f"SciPy has no paths over {asked.semiring} from some nodes alone"
    if space is not arrays.HOST or kernel != "auto" or device not in (None, "cpu"):
        return "a device or a kernel was asked for"
    if some.dtype not in ("float32", "float64"):
        return f"SciPy's lengths are floats, not {some.dtype}"
    try:
        import scipy.sparse.csgraph  # noqa: F401
    except ImportError:
        return "SciPy is not installed"
    count = some.indices.size
    theirs = count * _seconds(some)
    ours = some.n**3 * _UPDATE
    if theirs > ours:
        return (
            f"{count} times Dijkstra's method would take about {theirs * 1e3:.2g} ms, all pairs "
            f"{ours * 1e3:.2g} ms"
        )
    return None


def _seconds(some: Some) -> float:
    """Return about how long SciPy's Dijkstra takes from one node."""
    return some.m * _EDGE + some.n * math.log2(some.n + 2) * _NODE


def _step(some: Some) -> int:
    """Return from how many nodes SciPy is asked at a time."""
    return max(int(_PIECE / max(_seconds(some), 1e-9)), _FEWEST)


def paths(
    some: Some, orders: Orders, *, directed: bool, unweighted: bool
) -> tuple[Any, Any] | None:
    """Ask SciPy, or return None if a cycle or a weight has to be judged by all pairs.

    Parameters
    ----------
    some : Some
        From `read`.
    orders : Orders
        As given; `progress` is told of the nodes that are done, `max_memory` obeyed.
    directed, unweighted : bool
        As for `gpudist.apsp`.

    Returns
    -------
    dist, predecessors : ndarray
        Shapes (k, n) or (n,); float64, where there is no path inf.

    Raises
    ------
    MemoryError
        `max_memory` is less than what is held at once.
    """
    from scipy.sparse import csgraph, csr_array

    indices, tails, heads, weights, n, dtype, _ = some
    _check_memory(some, checks.max_memory(orders.max_memory))
    data = np.ones(len(tails)) if unweighted else weights.astype(np.float64)
    if not (np.abs(data) <= np.finfo(dtype).max).all():
        return None
    if dtype == "float32":
        data = data.astype(np.float32).astype(np.float64)
    pointers = np.searchsorted(tails, np.arange(n + 1))
    graph = csr_array((data, heads, pointers), shape=(n, n))
    negative = bool((data < 0).any())
    if negative and not directed:
        return None  # an edge there and back is a negative cycle
    watch = watched(orders.progress, indices.size * some.m, "apsp")
    if negative:
        try:
            with watch:
                dist, before = csgraph.johnson(graph, indices=indices, return_predecessors=True)
        except csgraph.NegativeCycleError:
            return None
    else:
        with watch as tell:
            dist, before = _dijkstra(graph, some, directed, tell)
    if not np.isnan(dist).any():
        return dist, before.astype(np.int32, copy=False)
    return None


def _dijkstra(
    graph: Any, some: Some, directed: bool, tell: Callable[[float], None] | None
) -> tuple[Any, Any]:
    """Ask SciPy from some nodes at a time, as it hears no Ctrl-C meanwhile, and tells nobody."""
    from scipy.sparse import csgraph

    nodes = some.indices.reshape(-1)
    dist = np.empty((len(nodes), some.n))
    before = np.empty(dist.shape, np.int32)
    step = _step(some)
    for first in range(0, len(nodes), step):
        part = slice(first, first + step)
        dist[part], before[part] = csgraph.dijkstra(
            graph, directed=directed, indices=nodes[part], return_predecessors=True
        )
        if tell is not None:
            tell(min(first + step, len(nodes)) / len(nodes))
    shape = (*some.indices.shape, some.n)
    return dist.reshape(shape), before.reshape(shape)


def _check_memory(some: Some, most: int | None) -> None:
    """Raise a MemoryError where lengths, predecessors and copies of the edges do not fit."""
    k = some.indices.size
    pairs = k * _HELD_PAIR + min(k, _step(some)) * _HELD_GIVEN
    need = pairs * some.n + some.m * _HELD_EDGE + some.n * _HELD_NODE
    if most is not None and need > most:
        raise MemoryError(
            f"paths from {k} nodes need {need} bytes of host memory at once, and max_memory allows "
            f"{most}: ask for fewer nodes at once"
        )
