"""All-pairs shortest paths."""

from __future__ import annotations

import math
import numbers
from typing import Any, Final

import numpy as np

from gpudist import _core, arrays, registry
from gpudist.errors import NoPathError, negative_cycle_error
from gpudist.nx import graphs

UNREACHABLE: Final = 2**31 - 1
"""What an int32 result holds where there is no path."""

_NO_PREDECESSOR: Final = -9999
_CORE_DTYPES = ("float32", "float64", "int32")


def apsp(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    unweighted: bool = False,
    overwrite: bool = False,
    return_predecessors: bool = False,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    options: dict[str, int] | None = None,
) -> Any:
    """Compute the lengths of the shortest paths between all pairs of nodes.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), or NetworkX graph
        ``graph[i, j]`` is the weight of the edge from i to j, which may be negative. In a dense
        array 0, NaN and infinities are no edge; in a masked array masked entries are none and zeros
        are edges; in a sparse array stored zeros are edges. Also a dense array on a CUDA device.
        A NetworkX graph's node i is the i-th of ``list(graph)``, its weights are the edges'
        attribute "weight": 1 where it is missing, no edge where it is None; of parallel edges
        the lightest counts.
    no_edge : float, optional
        The value that means "no edge" in a dense array, in place of 0 (which then is an edge).
        NaN and infinities are no edge in any case.
    directed : bool
        If False, the edge between i and j weighs the lesser of ``graph[i, j]`` and ``graph[j, i]``.
    unweighted : bool
        If True, every edge weighs 1.
    overwrite : bool
        If True, the result may take the place of a C-contiguous `graph` of the result's dtype.
    return_predecessors : bool
        If True, also return the predecessors, from which `reconstruct_path` makes paths.
    dtype : {float32, float64, int32}, optional
        The dtype of computation and result. By default float32 for float32 input, else float64.
        int32 is exact: weights must be whole and below 2**29, path lengths below 2**30.
    kernel : str
        "auto", "reference" (NumPy in float64, slow), or an id from `gpudist.kernels`.
    device : str, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N".
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.

    Returns
    -------
    dist : array, shape (n, n)
        ``dist[i, j]`` is the length of the shortest path from i to j. Without a path it is inf; in
        int32 `no_edge` if given, else `gpudist.UNREACHABLE`.
    predecessors : int32 array, shape (n, n)
        Only with `return_predecessors`: the node before j on that path; -9999 on the diagonal and
        where there is no path. Following it never runs in a circle.

    Raises
    ------
    gpudist.NegativeCycleError
        A cycle has negative length (a negative weight on the diagonal is one). It names the nodes
        on such cycles, and is a subclass of SciPy's exception of that name.
    ValueError
        `graph` is not square; weights that the dtype does not take; a negative weight beside a
        negative `no_edge`; an unknown kernel.
    OverflowError
        A path length does not fit an int32 result.
    TypeError, MemoryError, gpudist.DeviceError
        As for `gpudist.cdist`.

    Notes
    -----
    The method is three-phase blocked Floyd-Warshall [1]_, arranged so that distances and
    predecessors have the bits of the plain triple loop, as in
    `scipy.sparse.csgraph.floyd_warshall`: among equal paths the first found stays.

    References
    ----------
    .. [1] G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths
       algorithm", ACM J. Exp. Algorithmics 8, 2003.

    Examples
    --------
    >>> import gpudist
    >>> graph = [[0, 3, 8], [0, 0, 2], [1, 0, 0]]
    >>> dist, pred = gpudist.apsp(graph, return_predecessors=True)
    >>> dist
    array([[0., 3., 5.],
           [3., 0., 2.],
           [1., 4., 0.]])
    >>> gpudist.reconstruct_path(pred, 0, 2)
    [0, 1, 2]
    """
    registry.check_kernel("apsp", kernel, options)
    space, weights, rule = _read(graph, no_edge)
    if graphs.is_graph(graph):  # an undirected one is symmetric, which may be less work
        directed = directed and graph.is_directed()
    name = _result_dtype(space, weights, dtype)
    unreachable = _unreachable(name, no_edge)
    sentinel = 0.0 if no_edge is None else float(no_edge)
    if kernel == "reference":
        return _reference(
            weights, rule, sentinel, directed, unweighted, name, unreachable, return_predecessors
        )
    shape = (weights.shape[0], weights.shape[0])
    out = weights if overwrite and _fits(weights, name) else space.empty(shape, name, like=weights)
    pred = space.empty(shape, "int32", like=weights) if return_predecessors else None
    on_cycle = _core.apsp(
        weights,
        out,
        pred,
        rule,
        sentinel,
        directed,
        unweighted,
        unreachable,
        kernel,
        device,
        space.stream(weights),
        space.ordered,
        options,
    )
    if on_cycle:
        raise negative_cycle_error()(on_cycle)
    return (out, pred) if return_predecessors else out


def reconstruct_path(predecessors: Any, i: int, j: int) -> list[int]:
    """Return the nodes of the shortest path from i to j.

    Parameters
    ----------
    predecessors : array, shape (n, n)
        What `apsp` returned.
    i, j : int
        The first and the last node.

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

    Examples
    --------
    >>> import gpudist
    >>> dist, pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)
    >>> gpudist.reconstruct_path(pred, 0, 2)
    [0, 1, 2]
    """
    n = predecessors.shape[0]
    for name, node in (("i", i), ("j", j)):
        if not 0 <= node < n:
            raise IndexError(f"{name} = {node} is not a node of a graph with {n} nodes")
    row = predecessors[i]
    path = [int(j)]
    while path[-1] != i:
        before = int(row[path[-1]])
        if before == _NO_PREDECESSOR:
            raise NoPathError(f"there is no path from {i} to {j}")
        if len(path) > n:
            raise ValueError("predecessors do not come from apsp: they run in a circle")
        path.append(before)
    return path[::-1]


def _read(graph: Any, no_edge: float | None) -> tuple[arrays.Space, Any, str]:
    """Bring any graph to a dense matrix that the core reads, and say what is no edge in it."""
    if graphs.is_graph(graph):
        if no_edge is not None:
            raise ValueError("no_edge is for dense arrays; a NetworkX graph lists its edges")
        return arrays.HOST, _from_networkx(graph), "infinite"
    if hasattr(graph, "tocsr"):
        if no_edge is not None:
            raise ValueError("no_edge is for dense arrays; a sparse array stores its edges")
        return arrays.HOST, _from_sparse(graph), "infinite"
    if isinstance(graph, np.ma.MaskedArray):
        if no_edge is not None:
            raise ValueError("no_edge is for plain arrays; a masked array masks what is no edge")
        return arrays.HOST, _from_masked(graph), "infinite"
    space = arrays.space_of(graph=graph)
    weights = _core_dtype(space, space.array(graph, "graph"))
    _check_square(weights.shape)
    return space, weights, "zero" if no_edge is None else "sentinel"


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"graph must be a square matrix, got shape {tuple(shape)}")


def _core_dtype(space: arrays.Space, array: Any) -> Any:
    """Convert what the core does not read to float64, which holds every weight that it allows."""
    return array if space.dtype_name(array) in _CORE_DTYPES else space.cast(array, "float64")


def _from_masked(graph: Any) -> Any:
    data = arrays.HOST.array(graph.data, "graph")
    _check_square(data.shape)
    kept = data.dtype if data.dtype.name in ("float32", "float64") else np.dtype(np.float64)
    return np.where(np.ma.getmaskarray(graph), np.inf, data).astype(kept, copy=False)


def _from_sparse(graph: Any) -> Any:
    _check_square(graph.shape)
    entries = graph.tocsr().tocoo()
    data = arrays.HOST.array(entries.data, "graph")
    name = data.dtype.name if data.dtype.name == "float32" else "float64"
    return spread(graph.shape[0], entries.row, entries.col, data, name)


def _from_networkx(graph: Any) -> Any:
    tails, heads, weights = graphs.edges(graph, list(graph), "weight", 1)
    for kind in set(map(type, weights)) - {type(None)}:
        if not issubclass(kind, numbers.Real):
            raise TypeError(f"edges must weigh real numbers or None, got a {kind.__name__}")
    data = np.array([math.inf if w is None else w for w in weights], dtype=np.float64)
    return spread(len(graph), tails, heads, data, "float64")


def spread(n: int, rows: Any, columns: Any, weights: Any, dtype: str) -> Any:
    """Spread edges over an n x n matrix of inf; of edges given twice the lightest counts."""
    dense = arrays.HOST.empty((n, n), dtype, like=None)
    dense.fill(np.inf)
    np.minimum.at(dense, (rows, columns), np.where(np.isfinite(weights), weights, np.inf))
    return dense


def _result_dtype(space: arrays.Space, weights: Any, dtype: Any) -> str:
    if dtype is None:
        return "float32" if space.dtype_name(weights) == "float32" else "float64"
    name = arrays.dtype_name(dtype)
    if name not in _CORE_DTYPES:
        raise ValueError(f"dtype must be float32, float64 or int32, got {name}")
    return name


def _unreachable(dtype: str, no_edge: float | None) -> float:
    if dtype != "int32":
        return float("inf")
    value = UNREACHABLE if no_edge is None or not math.isfinite(no_edge) else no_edge
    if value != int(value) or not -(2**31) <= value < 2**31:
        raise ValueError(f"no_edge must be an int32 with dtype=int32, got {no_edge}")
    return float(value)


def _fits(weights: Any, dtype: str) -> bool:
    return (
        isinstance(weights, np.ndarray)
        and weights.dtype.name == dtype
        and weights.dtype.isnative
        and weights.flags.c_contiguous
        and weights.flags.writeable
        and weights.flags.aligned
    )


def _reference(
    weights: Any,
    rule: str,
    sentinel: float,
    directed: bool,
    unweighted: bool,
    dtype: str,
    unreachable: float,
    return_predecessors: bool,
) -> Any:
    from gpudist import reference

    edges = reference.edges(weights, rule, sentinel, directed, unweighted)
    dist, pred = reference.apsp(edges)
    on_cycle = np.flatnonzero(np.diagonal(dist) < 0).tolist()
    if on_cycle:
        raise negative_cycle_error()(on_cycle)
    dist[np.isinf(dist)] = unreachable
    return (dist.astype(dtype), pred) if return_predecessors else dist.astype(dtype)


def explain_apsp(
    graph: Any,
    *,
    no_edge: float | None = None,
    dtype: Any = None,
    return_predecessors: bool = False,
    kernel: str = "auto",
    device: str | None = None,
) -> registry.Explanation:
    """Say what `apsp` would do; see `gpudist.explain`."""
    space, weights, _ = _read(graph, no_edge)
    n = weights.shape[0]
    name = _result_dtype(space, weights, dtype)
    predecessors = 4 * n * n if return_predecessors else 0
    return registry.choose(
        "apsp",
        dtype=name,
        n=n,
        cols=0,
        kernel=kernel,
        device=device if space is arrays.HOST else "cuda",
        elements_moved=2 * n * n,
        elements_written=n * n,
        result_bytes=predecessors,
        operations=n**3,
        copies=n * n * np.dtype(name).itemsize + predecessors,  # the kernel's own, padded
        on_host=space is arrays.HOST,
    )
