"""The nodes of shortest paths: of one as a list, of many as one ragged array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpudist import arrays, named, steps
from gpudist.errors import NoPathError
from gpudist.results import NO_PREDECESSOR


def reconstruct_path(predecessors: Any, i: Any, j: Any) -> list[Any]:
    """Return the nodes of the shortest path from i to j.

    Parameters
    ----------
    predecessors : array_like, shape (n, n), or ShortestPaths
        What `apsp` returned. Of an array on a device one row is brought to the host.
    i, j : int
        The first and the last node; of a `ShortestPaths` their names.

    Returns
    -------
    list of int
        The nodes, `i` and `j` included; ``[i]`` if they are the same.

    Raises
    ------
    gpudist.NoPathError
        There is no path.
    IndexError
        There is no such node.
    TypeError, ValueError
        `predecessors` is not what `apsp` returns; `i` or `j` is no whole number.

    Examples
    --------
    >>> import gpudist
    >>> dist, pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)
    >>> gpudist.reconstruct_path(pred, 0, 2)
    [0, 1, 2]
    """
    if isinstance(predecessors, named.ShortestPaths):
        return predecessors.path(i, j)
    for name, nodes in (("i", i), ("j", j)):
        if isinstance(nodes, (list, tuple)) or (isinstance(nodes, np.ndarray) and nodes.ndim):
            raise TypeError(f"{name} must be one node; reconstruct_paths takes arrays of them")
    named.refuse_turned(predecessors, "predecessors")
    return steps.back(predecessors, i, j)


def reconstruct_paths(predecessors: Any, sources: Any, targets: Any) -> tuple[Any, Any]:
    """Return the nodes of many shortest paths, one after the other.

    Parameters
    ----------
    predecessors : array_like, shape (n, n), or ShortestPaths
        What `apsp` returned. Of an array on a device the rows of the sources are brought to the
        host.
    sources, targets : array_like of int, shapes that broadcast to (m,)
        The first and the last node of each path; of a `ShortestPaths` their names, in lists or
        arrays, or one name.

    Returns
    -------
    indptr : ndarray of int64, shape (m + 1,)
        Path k is ``nodes[indptr[k]:indptr[k + 1]]``.
    nodes : ndarray of int32, or of object
        The nodes, both ends included; one where they are the same. Of a `ShortestPaths` their
        names.

    Raises
    ------
    gpudist.NoPathError
        One of the pairs has no path; it is named.
    IndexError, KeyError
        There is no such node; or none of that name.
    TypeError, ValueError
        `predecessors` is not what `apsp` returns; nodes are no whole numbers.

    See Also
    --------
    reconstruct_path : One path, as a list.

    Examples
    --------
    >>> import numpy as np
    >>> import gpudist
    >>> dist, pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)
    >>> indptr, nodes = gpudist.reconstruct_paths(pred, 0, [0, 1, 2])
    >>> [path.tolist() for path in np.split(nodes, indptr[1:-1])]
    [[0], [0, 1], [0, 1, 2]]
    """
    if isinstance(predecessors, named.ShortestPaths):
        return _named_paths(predecessors, sources, targets)
    named.refuse_turned(predecessors, "predecessors")
    space, p, n = steps.read(predecessors)
    first, last = _nodes("sources", sources, n), _nodes("targets", targets, n)
    return _walk_back(space, p, n, first, last, range(n))


def _named_paths(paths: named.ShortestPaths, sources: Any, targets: Any) -> tuple[Any, Any]:
    """Go by the names of nodes."""
    space, p, n = steps.read(named.predecessors_of(paths))
    first, last = _places(paths, sources), _places(paths, targets)
    indptr, nodes = _walk_back(space, p, n, first, last, paths.nodes)
    names = np.empty(n, object)
    names[:] = paths.nodes
    return indptr, names[nodes]


def _walk_back(
    space: Any, p: Any, n: int, first: Any, last: Any, names: Sequence[Any]
) -> tuple[Any, Any]:
    """Go back from the last node of each path to its first one, by their positions."""
    try:
        first, last = np.broadcast_arrays(first, last)
    except ValueError:
        raise ValueError(
            f"sources and targets must be of one length, got {len(first)} and {len(last)}"
        ) from None
    used, rows = np.unique(first, return_inverse=True)
    host = p if space is arrays.HOST else space.host(p[used.tolist()])
    rows = first if space is arrays.HOST else rows

    # A step back of all paths a turn; those that have arrived wait outside.
    walking, at = np.arange(len(first)), last.copy()
    met = [(walking, at)]
    for _ in range(n):
        on = at != first[walking]
        walking, at = walking[on], at[on]
        if not len(walking):
            break
        at = np.asarray(host[rows[walking], at]).astype(np.int64)
        bad = (at < 0) | (at >= n)
        if bad.any():
            k = walking[int(np.flatnonzero(bad)[0])]
            if at[bad][0] != NO_PREDECESSOR:
                raise ValueError("predecessors must be what apsp returned: no such nodes")
            ends = names[int(first[k])], names[int(last[k])]
            raise NoPathError("there is no path from {!r} to {!r}".format(*ends))
        met.append((walking, at))
    else:
        if (at != first[walking]).any():
            raise ValueError("predecessors must be what apsp returned: these lead in circles")
    lengths = np.zeros(len(first) + 1, np.int64)
    for paths, _ in met:
        lengths[paths + 1] += 1
    indptr = np.cumsum(lengths)
    nodes = np.empty(indptr[-1], np.int32)
    for back, (paths, there) in enumerate(met):
        nodes[indptr[paths + 1] - 1 - back] = there
    return indptr, nodes


def _places(paths: named.ShortestPaths, given: Any) -> Any:
    """Find the rows of one node, whose name may be a tuple, or of many."""
    if not isinstance(given, (list, np.ndarray)):
        try:
            return np.array([paths.place(given)])
        except (KeyError, TypeError):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise
    nodes = np.atleast_1d(given) if isinstance(given, np.ndarray) else given
    return np.array([paths.place(node) for node in nodes], np.int64)


def _nodes(name: str, given: Any, n: int) -> Any:
    nodes = np.atleast_1d(arrays.host_objects(given, name))
    if nodes.size == 0:
        nodes = nodes.astype(np.int64)
    if nodes.ndim != 1 or not np.issubdtype(nodes.dtype, np.integer):
        raise TypeError(
            f"{name} must be whole numbers in one dimension, got an array of {nodes.dtype} of "
            f"shape {nodes.shape}"
        )
    if ((nodes < 0) | (nodes >= n)).any():
        stray = nodes[(nodes < 0) | (nodes >= n)][0]
        raise IndexError(f"{name} has {stray}, which is not a node of a graph with {n} nodes")
    return nodes.astype(np.int64)
