"""Measures of graphs from the matrix of their shortest paths, by NetworkX's names.

Each takes what `gpudist.apsp` returns: a matrix of distances, on the host or of PyTorch or CuPy on
a device, where it is read without a copy to the host; or a `ShortestPaths`. What is no number of
finite size is no path; of an int32 matrix, or one made of it in int64, that is
`gpudist.UNREACHABLE`, or -2**31 as in max_plus; of int16, uint16 and uint8 the largest number. What
else `unreachable=` or `no_edge=` put in its place is taken for a distance.
Results for each node are arrays in the order of the rows, of the matrix's library.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gpudist import arrays, checks, homes, named, results

__all__ = [
    "DisconnectedError",
    "average_shortest_path_length",
    "center",
    "closeness_centrality",
    "diameter",
    "eccentricity",
    "harmonic_centrality",
    "periphery",
    "radius",
    "wiener_index",
]


class DisconnectedError(ValueError):
    """A measure is infinite, for some nodes are not reached from some others."""


@homes.returned("dist")
def eccentricity(dist: Any) -> Any:
    """Return how far the farthest node is from each.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    array, shape (n,)
        The largest of each row.

    Raises
    ------
    DisconnectedError
        Some node is not reached from some other, where NetworkX says "infinite path length".

    Examples
    --------
    >>> import gpudist
    >>> from gpudist import measures
    >>> dist = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], directed=False)
    >>> measures.eccentricity(dist)
    array([2., 1., 2.])
    """
    dist, reached, _ = _read(dist)
    if not bool(reached.all()):
        raise DisconnectedError("found infinite path length because the graph is not connected")
    if not len(dist):
        raise ValueError("a graph without nodes has no eccentricities")
    return dist.max(1) if isinstance(dist, np.ndarray) or not _is_torch(dist) else dist.amax(1)


def diameter(dist: Any) -> Any:
    """Return the largest distance.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    float or int
        The largest eccentricity.

    Raises
    ------
    DisconnectedError
        As for `eccentricity`.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.diameter([[0.0, 1.0], [3.0, 0.0]])
    3.0
    """
    return eccentricity(dist).max().item()


def radius(dist: Any) -> Any:
    """Return the least eccentricity.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    float or int
        How far the farthest node is from a node of the center.

    Raises
    ------
    DisconnectedError
        As for `eccentricity`.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.radius([[0.0, 1.0], [3.0, 0.0]])
    1.0
    """
    return eccentricity(dist).min().item()


def center(dist: Any) -> list[Any]:
    """List the nodes of the least eccentricity.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    list
        Their positions; their names of a `ShortestPaths`.

    Raises
    ------
    DisconnectedError
        As for `eccentricity`.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.center([[0.0, 1.0], [3.0, 0.0]])
    [0]
    """
    far = eccentricity(dist)
    return _names(dist, far == far.min())


def periphery(dist: Any) -> list[Any]:
    """List the nodes of the largest eccentricity.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    list
        Their positions; their names of a `ShortestPaths`.

    Raises
    ------
    DisconnectedError
        As for `eccentricity`.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.periphery([[0.0, 1.0], [3.0, 0.0]])
    [1]
    """
    far = eccentricity(dist)
    return _names(dist, far == far.max())


@homes.returned("dist")
def closeness_centrality(dist: Any, wf_improved: bool = True) -> Any:
    """Return how near each node is to those that reach it.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances; of directed graphs those towards a node count, as in NetworkX.
    wf_improved : bool
        Whether to scale by the share of nodes that reach it, as Wasserman and Faust do [1]_.

    Returns
    -------
    array of float64, shape (n,)
        ``(r - 1) / sum``, r nodes reaching the node from distances of that sum, itself among them;
        0 where the sum is 0.

    References
    ----------
    .. [1] S. Wasserman, K. Faust, "Social Network Analysis", 1994, p. 201.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.closeness_centrality([[0.0, 1.0], [3.0, 0.0]])
    array([0.33333333, 1.        ])
    """
    improved = checks.truth("wf_improved", wf_improved)
    dist, reached, lib = _read(dist)
    n = len(dist)
    total, others = _sum(lib.where(reached, dist, 0), 0), _sum(reached, 0) - 1
    positive = total > 0
    near = lib.where(positive, others / lib.where(positive, total, 1), 0.0)
    return near * (others / (n - 1)) if improved and n > 1 else near


@homes.returned("dist")
def harmonic_centrality(dist: Any) -> Any:
    """Return the sums of the reciprocal distances towards each node.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    array of float64, shape (n,)
        For each column the sum of 1 / distance over those that are finite and not 0.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.harmonic_centrality([[0.0, 1.0], [4.0, 0.0]])
    array([0.25, 1.  ])
    """
    dist, reached, lib = _read(dist)
    some = reached & (dist != 0)
    return _sum(lib.where(some, 1 / lib.where(some, _double(dist), 1), 0), 0)


def wiener_index(dist: Any, directed: bool | None = None) -> float:
    """Return the sum of all distances.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.
    directed : bool, optional
        Whether both directions of a pair count; by default if the matrix is not symmetric.

    Returns
    -------
    float
        The sum over all ordered pairs, or half of it; infinite if the graph is not connected.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.wiener_index([[0.0, 1.0], [1.0, 0.0]])
    1.0
    """
    directed = None if directed is None else checks.truth("directed", directed)
    dist, reached, _ = _read(dist)
    if not bool(reached.all()):
        return float("inf")
    if directed is None:
        directed = not bool((dist == dist.T).all())
    return float(_sum(dist, None)) / (1 if directed else 2)


def average_shortest_path_length(dist: Any) -> float:
    """Return the mean distance between two different nodes.

    Parameters
    ----------
    dist : array, shape (n, n), or ShortestPaths
        The distances.

    Returns
    -------
    float
        The mean over all ordered pairs; 0 for one node.

    Raises
    ------
    DisconnectedError
        Some node is not reached from some other.
    ValueError
        There are no nodes.

    Examples
    --------
    >>> from gpudist import measures
    >>> measures.average_shortest_path_length([[0.0, 1.0], [3.0, 0.0]])
    2.0
    """
    dist, reached, _ = _read(dist)
    n = len(dist)
    if n == 0:
        raise ValueError("a graph without nodes has no average")
    if not bool(reached.all()):
        raise DisconnectedError("the graph is not connected: some distances are infinite")
    return float(_sum(dist, None)) / (n * (n - 1)) if n > 1 else 0.0


def _read(dist: Any) -> tuple[Any, Any, Any]:
    """Return distances, which of them are of paths, and the library that computes with them."""
    if isinstance(dist, named.ShortestPaths):
        dist = dist.dist
    if named.is_graph(dist) or hasattr(dist, "tocsr"):
        raise TypeError("dist must be distances, and this is a graph: gpudist.apsp computes them")
    if isinstance(dist, tuple) and len(dist) == 2 and getattr(dist[0], "ndim", 0) == 2:
        raise TypeError("dist must be distances alone, the first that apsp returns: give dist[0]")
    checks.refuse_recorded("dist", dist)
    named.refuse_turned(dist, "dist")
    space = arrays.space_of(dist=dist)
    if space is arrays.HOST:
        dist = arrays.HOST.array(dist, "dist")
    lib: Any = np
    if space is not arrays.HOST:
        library = type(dist).__module__.partition(".")[0]
        if library not in ("torch", "cupy"):
            raise TypeError(f"dist must be of NumPy, PyTorch or CuPy on a device, got {library}")
        lib = sys.modules[library]
    if len(dist.shape) != 2 or dist.shape[0] != dist.shape[1]:
        raise ValueError(f"dist must be a square matrix, got shape {tuple(dist.shape)}")
    dtype = str(dist.dtype).removeprefix("torch.")
    if dtype == "bool":
        raise TypeError(
            "dist must be distances, got an array of bool: what is reached is no length"
        )
    return dist, _reached(dist, dtype, lib), lib


def _reached(dist: Any, dtype: str, lib: Any) -> Any:
    """Return which distances are of paths, as `apsp` marks the others in this dtype."""
    if dtype in results.NARROW:
        return dist != np.iinfo(dtype).max
    if dtype in ("int32", "int64"):
        return (dist != results.UNREACHABLE) & (dist != -results.UNREACHABLE - 1)
    return dist == dist if "int" in dtype else lib.isfinite(dist)


def _is_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch"


def _double(x: Any) -> Any:
    return x.double() if _is_torch(x) else x.astype(np.float64)


def _sum(x: Any, axis: int | None) -> Any:
    """Add up in float64, whatever the numbers are."""
    if _is_torch(x):
        double = sys.modules["torch"].float64
        return x.sum(dtype=double) if axis is None else x.sum(axis, dtype=double)
    return x.sum(axis=axis, dtype=np.float64)


def _names(dist: Any, chosen: Any) -> list[Any]:
    found = [i for i, yes in enumerate(chosen.tolist()) if yes]
    return [dist.nodes[i] for i in found] if isinstance(dist, named.ShortestPaths) else found
