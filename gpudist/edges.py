"""Shortest paths of a graph that is a list of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpudist import arrays, batches, checks, foreign, homes, many_graphs, named
from gpudist.intake import Orders
from gpudist.paths import apsp
from gpudist.paths_call import Asked

# Results of more nodes would take a petabyte: such numbers are ids.
_MOST_NODES = 1 << 24

# What apsp takes for other graphs, and what has its meaning here.
_INSTEAD = {
    "weight": "what the edges weigh, or the name of a frame's column, as weights",
    "nodelist": "nodes by their numbers; with labels=True the result is read by name",
    "sizes": "the numbers of nodes as n",
}


@homes.returned("edges")
def apsp_edges(
    edges: Any,
    weights: Any = None,
    n: Any = None,
    *,
    directed: bool = True,
    labels: bool = False,
    ptr: Any = None,
    **arguments: Any,
) -> Any:
    """Compute the lengths of the shortest paths between all pairs of nodes of a list of edges.

    Parameters
    ----------
    edges : array_like of int, shape (m, 2), or pandas.DataFrame
        The first and the last node of each edge. A frame has the columns "source" and "target";
        of nodes that are no whole numbers the result is read by name, so it takes `labels`.
    weights : array_like, shape (m,), or str, optional
        What the edges weigh; of edges given twice the lightest counts, NaN and infinities are no
        edge. Of a frame the name of a column, by default "weight" if it has no others than that
        beside the ends. By default every edge weighs 1.
    n : int, or array_like of int, shape (count,), optional
        How many nodes there are, by default one more than the largest number. With `ptr` also one
        number for each graph.
    directed : bool
        If False, edges lead both ways.
    labels : bool
        As for `apsp`; nodes that are no whole numbers are in the order in which they are met.
    ptr : array_like of int, shape (count + 1,), optional
        That there are many graphs: number k has the edges from ``ptr[k]`` to before
        ``ptr[k + 1]``, and its own nodes, counted from 0. Small graphs are computed side by side,
        without a dense array of weights. Only on the host.
    **arguments
        What else `apsp` takes, but for `weight`, `nodelist` and `sizes`.

    Returns
    -------
    dist, predecessors
        As `apsp` gives them. With `ptr` arrays of shape (count, n, n) if `n` is one number, else
        lists of arrays.

    Raises
    ------
    ValueError
        The edges have no such shape; a node is negative or not below `n`; a frame has other columns
        than it tells the use of; nodes have names, and the result would not say which is which.
    TypeError
        Nodes or weights are no numbers.

    See Also
    --------
    apsp : The same for matrices and graphs of other libraries.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.apsp_edges([(0, 1), (1, 2), (2, 0)], [3.0, 2.0, 1.0])
    array([[0., 3., 5.],
           [3., 0., 2.],
           [1., 4., 0.]])
    >>> gpudist.apsp_edges([(0, 1), (0, 1), (1, 2)], ptr=[0, 1, 3], directed=False, dtype="uint8")
    [array([[0, 1],
           [1, 0]], dtype=uint8), array([[0, 1, 2],
           [1, 0, 1],
           [2, 1, 0]], dtype=uint8)]
    """
    directed, labels = checks.truth("directed", directed), checks.truth("labels", labels)
    names: list[Any] | None = None
    for name, instead in _INSTEAD.items():
        if name in arguments:
            raise TypeError(f"{name} is not for lists of edges, which take {instead}")
    if ptr is not None:
        if labels:
            raise TypeError("labels is for one graph, not for many")
        return _of_many(edges, weights, n, ptr, directed=directed, **arguments)
    if hasattr(edges, "to_numpy") and hasattr(edges, "columns"):  # and no lazy frame
        ends, weights = _of_frame(edges, weights)
        if any(len(end) and not np.issubdtype(end.dtype, np.integer) for end in ends):
            if not labels or n is not None:
                raise ValueError(
                    "edges name their nodes: give labels=True, without n, for a result that is "
                    "read by name"
                )
            ends, names = _numbered(edges["source"].to_list(), edges["target"].to_list())
    else:
        ends = _pairs(edges)
    largest = _largest(ends)
    tails, heads = (end.astype(np.intp) for end in ends)
    n = largest + 1 if n is None else checks.whole("n", n)
    if n < 0:
        raise ValueError(f"n must be a number of nodes, got {n}")
    if min(tails.min(initial=0), heads.min(initial=0)) < 0 or largest >= n:
        raise ValueError(f"edges must join nodes from 0 to {n - 1}, got {_stray(tails, heads, n)}")
    _check_count(n)
    given = np.ones(len(tails)) if weights is None else _weights(weights, len(tails))
    listed = named.EdgeList(
        tails,
        heads,
        given,
        list(range(n)) if names is None else names,
        directed,
    )
    return apsp(listed, directed=directed, labels=labels, **arguments)


def _largest(ends: tuple[Any, Any]) -> int:
    """Return the largest node, -1 where there is none, or raise a ValueError where it is an id."""
    largest = max((int(end.max()) for end in ends if len(end)), default=-1)
    if largest >= _MOST_NODES:
        raise ValueError(
            f"edges number their nodes from 0, and one is {largest}: the result has as many rows. "
            'Ids go by name: give a frame of them as text, frame.astype({"source": str, '
            '"target": str}), and labels=True'
        )
    return largest


def _check_count(n: int) -> None:
    """Raise a ValueError for more nodes than a result may have."""
    if n > _MOST_NODES:
        raise ValueError(f"n must be at most {_MOST_NODES}, as the result has n x n numbers: {n}")


def _pairs(edges: Any) -> tuple[Any, Any]:
    pairs = arrays.host_objects(edges, "edges")
    if pairs.size == 0:
        pairs = np.zeros((0, 2), np.intp)
    if pairs.dtype == object and pairs.ndim == 0:
        raise foreign.not_numbers(edges, pairs, "edges")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        three = pairs.ndim == 2 and pairs.shape[1] == 3
        hint = "; what edges weigh is the next argument, weights" if three else ""
        if pairs.ndim == 2 and pairs.shape[0] == 2:
            hint += "; edges.T has a row for each edge, if first and last nodes are apart"
        raise ValueError(f"edges must have shape (m, 2), got {pairs.shape}{hint}")
    if not np.issubdtype(pairs.dtype, np.integer):
        named = pairs.dtype.kind in "USTO"
        hint = "; nodes with names come in a frame of pandas, with labels=True" if named else ""
        raise TypeError(f"edges must be whole numbers, got an array of {pairs.dtype}{hint}")
    return pairs[:, 0], pairs[:, 1]


def _of_many(edges: Any, weights: Any, n: Any, ptr: Any, **arguments: Any) -> Any:
    """Compute paths in graphs whose edges follow each other."""
    tails, heads = _pairs(edges)
    _largest((tails, heads))
    first = arrays.host_objects(ptr, "ptr")
    if first.ndim != 1 or not len(first) or not np.issubdtype(first.dtype, np.integer):
        raise TypeError(
            f"ptr must be whole numbers in one dimension, at least one, got an array of "
            f"{first.dtype} of shape {first.shape}"
        )
    first = first.astype(np.int64)
    if first[0] != 0 or first[-1] != len(tails) or (np.diff(first) < 0).any():
        raise ValueError(f"ptr must ascend from 0 to {len(tails)}, the number of edges")
    count = len(first) - 1
    graph = np.repeat(np.arange(count), np.diff(first))
    largest = np.full(count, -1, np.int64)
    np.maximum.at(largest, graph, np.maximum(tails, heads).astype(np.int64))
    sizes = largest + 1 if n is None else arrays.host_objects(n, "n")
    if sizes.shape not in ((), (count,)):
        raise ValueError(
            f"n must be one number or have shape ({count},), one for each graph, got {sizes.shape}"
        )
    if sizes.size and not np.issubdtype(sizes.dtype, np.integer):
        raise TypeError(f"n must be whole numbers, got an array of {sizes.dtype}")
    sizes = np.broadcast_to(sizes, (count,))
    stray = (tails < 0) | (heads < 0) | (np.maximum(tails, heads) >= sizes[graph])
    if (sizes < 0).any():
        k = int(np.flatnonzero(sizes < 0)[0])
        raise ValueError(f"n must be numbers of nodes, got {int(sizes[k])} for graph {k}")
    if stray.any():
        k = int(graph[stray][0])
        at = stray & (graph == k)
        node = _stray(tails[at], heads[at], int(sizes[k]))
        raise ValueError(
            f"the edges of graph {k} must join nodes from 0 to {int(sizes[k]) - 1}, got {node}"
        )
    _check_count(int(sizes.max(initial=0)))
    given = None if weights is None else _weights(weights, len(tails))
    whole = n is not None and np.ndim(n) == 0
    listed = many_graphs.of_edges((tails, heads), given, first, sizes, int(n) if whole else None)
    return batches.of_listed(listed, (count,) if whole else None, _asked(arguments))


def _asked(arguments: dict[str, Any]) -> Asked:
    """Return what else is asked of many graphs, or raise an error for what is for one alone."""
    orders = {name: arguments.pop(name) for name in Orders._fields if name in arguments}
    for name in arguments:
        if name == "orders" or name not in Asked._fields:
            raise TypeError(f"apsp_edges() with ptr got an unexpected keyword argument '{name}'")
    return Asked(**arguments, orders=Orders(**orders))


def _of_frame(frame: Any, weight: Any) -> tuple[tuple[Any, Any], Any]:
    """Return the ends and the weights of a frame's edges."""
    columns = list(frame.columns)
    if not {"source", "target"} <= set(columns):
        raise ValueError(
            f"edges must have columns 'source' and 'target', got {columns}; "
            f"edges.rename(columns=...) gives them these names"
        )
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise ValueError(f"edges have several columns {twice[0]!r}, so that it is not said which")
    others = [name for name in columns if name not in ("source", "target")]
    if weight is None and others == ["weight"]:
        weight = "weight"
    elif weight is None and others:
        raise ValueError(f"edges have the columns {others}: name the one that is weights=")
    elif isinstance(weight, str) and weight not in others:
        raise ValueError(f"edges have no column {weight!r} beside the ends, but {others}")
    for name in ("source", "target"):
        column = frame[name]
        missing = column.is_null() if hasattr(column, "is_null") else column.isna()
        if missing.any():
            raise ValueError(
                f"edges have no {name} in row {int(np.argmax(missing.to_numpy()))}; fill what is "
                "missing, or drop such rows"
            )
    ends = frame["source"].to_numpy(), frame["target"].to_numpy()
    return ends, frame[weight] if isinstance(weight, str) else weight


def _numbered(tails: list[Any], heads: list[Any]) -> tuple[tuple[Any, Any], list[Any]]:
    """Return the ends of edges by number, and the nodes in the order in which they are met."""
    place: dict[Any, int] = {}
    try:
        for pair in zip(tails, heads, strict=True):
            for node in pair:
                place.setdefault(node, len(place))
    except TypeError as error:
        raise TypeError(f"edges must name nodes by what may be a key of a dict: {error}") from None
    first, second = (np.array([place[node] for node in end], np.intp) for end in (tails, heads))
    return (first, second), list(place)


def _weights(weights: Any, m: int) -> Any:
    given = arrays.HOST.array(weights, "weights")
    if given.shape != (m,):
        raise ValueError(f"weights must have shape ({m},), one for each edge, got {given.shape}")
    return given.astype(np.float64)


def _stray(tails: Any, heads: Any, n: int) -> int:
    ends = np.concatenate([tails, heads])
    return int(ends[(ends < 0) | (ends >= n)][0])
