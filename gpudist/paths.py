"""All-pairs shortest paths."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpudist import _core, arrays, checks, registry, semirings
from gpudist.errors import NoPathError, negative_cycle_error
from gpudist.nx import graphs
from gpudist.progress import Progress, watched

UNREACHABLE: Final = 2**31 - 1
"""What an int32 result holds where there is no path."""

_NO_PREDECESSOR: Final = -9999
_CORE_DTYPES = ("float32", "float64", "int32")
# A cycle is looked for among at most so many nodes: that takes NumPy some seconds, and 500 MB.
_MOST_FOLLOWED = 3000


def apsp(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    unweighted: bool = False,
    overwrite: bool = False,
    return_predecessors: bool = False,
    out: Any = None,
    dtype: Any = None,
    semiring: str = "min_plus",
    kernel: str = "auto",
    device: str | None = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | None = None,
) -> Any:
    """Compute the lengths of the shortest paths between all pairs of nodes.

    Or, by `semiring`, the longest paths, the least bottlenecks, the widest paths, or what can be
    reached at all.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), or NetworkX graph
        ``graph[i, j]`` is the weight of the edge from i to j, which may be negative. In a dense
        array 0, NaN and infinities are no edge; in a masked array masked entries are none and zeros
        are edges; in a sparse array stored zeros are edges, and of entries stored twice the lesser
        counts, but in COO form, where SciPy adds them up. Also a dense array on a CUDA device, as
        for `cdist`.
        A NetworkX graph's node i is the i-th of ``list(graph)``, its weights are the edges'
        attribute "weight": 1 where it is missing, no edge where it is None; of parallel edges
        the lightest counts.
    no_edge : float, optional
        The value that means "no edge" in a dense array, in place of 0 (which then is an edge).
        NaN and infinities are no edge in any case.
    directed : bool
        If False, the edge between i and j weighs the better of ``graph[i, j]`` and
        ``graph[j, i]``: the lesser, but in max_plus and max_min the larger.
    unweighted : bool
        If True, every edge weighs 1.
    overwrite : bool
        If True, the result may take the place of a C-contiguous `graph` of the result's dtype.
    return_predecessors : bool
        If True, also return the predecessors, from which `reconstruct_path` makes paths.
    out : array, shape (n, n), optional
        Where to write the lengths: C-contiguous, of the result's dtype; it may be `graph` itself,
        or a `numpy.memmap`.
    dtype : {float32, float64, int32, bool}, optional
        The dtype of computation and result: bool for or_and; else that of `out`, or by default
        float32 for float32 input, and float64 for all other. int32 is exact: weights must be whole
        and below 2**29, path lengths below 2**30.
    semiring : {"min_plus", "max_plus", "min_max", "max_min", "or_and"}
        What the length of a path is, and which of two paths is the better; the notes say more.
    kernel : str
        "auto", "reference" (NumPy in float64, slow, on host arrays only), or an id from
        `gpudist.kernels`.
    device : str, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N".
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress : bool or callable
        If True, a long call shows how far it is: with tqdm where that is installed. A callable is
        called some times a second with the inner steps done and their total, and at the end; what
        it raises ends the call. It must not call gpudist itself, whose buffers are in use. Ctrl-C
        ends a long call in any case.
    max_memory : int, optional
        How many bytes of the device's memory the call may hold at once, as for `cdist`. A host
        array for which a CUDA device has not so much, or not enough at all, goes through it in
        parts; the notes say how. What else does not fit is refused before anything is allocated.

    Returns
    -------
    dist : array, shape (n, n)
        ``dist[i, j]`` is the length of the best path from i to j. Without a path it is what the
        notes say, by default inf; in int32 `no_edge` if given, by default `gpudist.UNREACHABLE`.
    predecessors : int32 array, shape (n, n)
        Only with `return_predecessors`: the node before j on that path; -9999 on the diagonal and
        where there is no path. Following it never runs in a circle.

    Raises
    ------
    gpudist.NegativeCycleError
        A cycle has negative length (a negative weight on the diagonal is one), or in max_plus a
        positive one. Its ``nodes`` are those on such cycles, its ``cycle`` one of these in order
        (empty if `graph` was overwritten, or if they are more than 3000). It is a subclass of
        SciPy's exception of that name.
    ValueError
        `graph` is not square; weights that the dtype does not take; a negative weight beside a
        negative `no_edge`; an unknown kernel or semiring; predecessors of or_and.
    OverflowError
        A path length does not fit an int32 result.
    TypeError, MemoryError, gpudist.DeviceError
        As for `gpudist.cdist`.

    See Also
    --------
    minplus : Products over the same semirings.
    transitive_closure : What or_and computes, without the paths of no edge.

    Notes
    -----
    ========  ==========================  =======================  =======  ========
    semiring  length of a path            the best path is         no path  no edge
    ========  ==========================  =======================  =======  ========
    min_plus  the sum of its weights      the shortest             inf      0
    max_plus  the sum of its weights      the longest            -inf     0
    min_max   the largest of its weights  of least bottleneck      inf      -inf
    max_min   the least of its weights    the widest               -inf     inf
    or_and    True                        any                      False    True
    ========  ==========================  =======================  =======  ========

    The last two columns are the results where there is no path, and for the path of no edge from
    a node to itself, which is on the diagonal: no weight is larger than -inf, so that is the
    largest of none. In int32 inf is `gpudist.UNREACHABLE` and -inf is -2**31, but `no_edge` takes
    the place of the value for no path. What is no edge in `graph` is the same in all semirings.
    Longest paths exist where no cycle is positive, as in project plans. Predecessors are those of
    a best path; in or_and there are none, since any path will do: ask for
    ``unweighted=True`` in min_plus instead.

    The method is three-phase blocked Floyd-Warshall [1]_, arranged so that distances and
    predecessors have the bits of the plain triple loop, as in
    `scipy.sparse.csgraph.floyd_warshall`: among equal paths the first found stays.

    A matrix that a CUDA device does not hold stays on the host, in the result's place (a
    `numpy.memmap` with `overwrite`, say), and bands of its rows pass through the device once for
    each of T blocks of nodes. The bits are the same. About ``(T - 1) * n**2`` elements cross the
    bus each way, hidden behind the arithmetic for blocks of some thousand nodes;
    ``gpudist.explain("apsp", ...)`` says how many blocks and bytes there are. A device that holds
    a block of 64 nodes (128 in four bytes without predecessors) thrice is enough. On the CPU the
    matrix is in place in any case.

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
    >>> gpudist.apsp(graph, semiring="max_min")  # how wide the widest path is
    array([[inf,  3.,  8.],
           [ 1., inf,  2.],
           [ 1.,  1., inf]])
    """
    semirings.check(semiring)
    if semiring == "or_and":
        _check_truths(return_predecessors, dtype)
        return transitive_closure(
            graph,
            no_edge=no_edge,
            directed=directed,
            reflexive=True,
            out=out,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
        )
    registry.check_kernel("apsp", kernel, options, device, progress, max_memory)
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    unweighted = checks.truth("unweighted", unweighted)
    overwrite = checks.truth("overwrite", overwrite)
    return_predecessors = checks.truth("return_predecessors", return_predecessors)
    space, weights, rule = _read(graph, no_edge)
    directed = _directed(graph, directed)
    if out is not None:
        dtype = _dtype_of_out(weights, out, _CORE_DTYPES, dtype)
    name = _result_dtype(space, weights, dtype)
    unreachable = _unreachable(name, no_edge, semiring)
    sentinel = 0.0 if no_edge is None else no_edge
    if kernel == "reference":
        arrays.refuse_devices(space, 'kernel="reference"')
        return _reference(
            weights,
            (rule, sentinel, directed, unweighted, semiring),
            name,
            unreachable,
            return_predecessors,
            out,
        )
    shape = (weights.shape[0], weights.shape[0])
    if out is not None:
        weights = _apart(weights, out)
    elif overwrite and _fits(weights, name):
        out = weights
    else:
        out = space.empty(shape, name, like=weights)
    pred = space.empty(shape, "int32", like=weights) if return_predecessors else None
    with watched(progress, shape[0] ** 3, "apsp") as watch:
        on_cycle = _core.apsp(
            space.operand(weights, space.dtype_name(weights), shape),
            space.operand(out, name, shape),
            None if pred is None else space.operand(pred, "int32", shape),
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
            semiring,
            watch,
            max_memory,
        )
    if on_cycle:
        how = rule, sentinel, directed, unweighted, semiring
        cycle = [] if _in_place(weights, out) else _cycle(space, weights, on_cycle, how)
        raise negative_cycle_error()(on_cycle, cycle, semiring)
    return (out, pred) if return_predecessors else out


def transitive_closure(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    reflexive: bool = False,
    out: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | None = None,
) -> Any:
    """Find out which nodes can be reached from which.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), or NetworkX graph
        As for `apsp`; in an array of bool the edges are where it is True. Weights do not matter.
    no_edge : float, optional
        The value that means "no edge" in a dense array, in place of 0; not for arrays of bool.
    directed : bool
        If False, edges lead both ways.
    reflexive : bool
        Whether every node reaches itself. By default it does only where a cycle leads back to it.
    out : bool array, shape (n, n), optional
        Where to write the result: C-contiguous; it may be `graph` itself.
    kernel : str
        "auto", "reference" (NumPy, slow, on host arrays only), or an id from `gpudist.kernels`.
    device : str, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N".
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress, max_memory
        As for `apsp`.

    Returns
    -------
    bool array, shape (n, n)
        Whether there is a path from i to j: `out` if given, else a new array of the graph's
        library, on its device.

    Raises
    ------
    ValueError
        `graph` is not square; `no_edge` beside an array of bool; a bad `out`.
    TypeError, MemoryError, gpudist.DeviceError
        As for `gpudist.cdist`.

    See Also
    --------
    apsp : Over or_and it gives the reflexive closure.

    Notes
    -----
    Truths are packed, 64 to a word, so that the work takes n**2 / 8 bytes beside the arrays.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.transitive_closure([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    array([[False,  True,  True],
           [False, False,  True],
           [False, False, False]])
    """
    registry.check_kernel("closure", kernel, options, device, progress, max_memory)
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    space, weights, rule = _read(graph, no_edge, truths=True)
    directed, reflexive = _directed(graph, directed), checks.truth("reflexive", reflexive)
    sentinel = 0.0 if no_edge is None else no_edge
    n = weights.shape[0]
    if out is not None:
        _dtype_of_out(weights, out, ("bool",))
    if kernel == "reference":
        return _reference_closure(space, weights, (rule, sentinel, directed), reflexive, out)
    if out is None:
        out = space.empty((n, n), "bool", like=weights)
    with watched(progress, n**3, "transitive_closure") as watch:
        _core.closure(
            weights,
            out,
            rule,
            sentinel,
            directed,
            reflexive,
            kernel,
            device,
            space.stream(weights),
            space.ordered,
            options,
            watch,
            max_memory,
        )
    return out


def _check_truths(return_predecessors: bool, dtype: Any) -> None:
    """Refuse what apsp cannot give over or_and."""
    if checks.truth("return_predecessors", return_predecessors):
        raise ValueError(
            "or_and has no predecessors, since any path will do; ask for unweighted=True in "
            "min_plus"
        )
    if dtype is not None and arrays.dtype_name(dtype) != "bool":
        raise ValueError(f"dtype must be bool for or_and, got {arrays.dtype_name(dtype)}")


def _directed(graph: Any, directed: bool) -> bool:
    """Tell whether edges go one way; an undirected NetworkX graph is symmetric."""
    directed = checks.truth("directed", directed)
    return directed and (not graphs.is_graph(graph) or bool(graph.is_directed()))


def reconstruct_path(predecessors: Any, i: int, j: int) -> list[int]:
    """Return the nodes of the shortest path from i to j.

    Parameters
    ----------
    predecessors : array_like, shape (n, n)
        What `apsp` returned. Of an array on a device one row is brought to the host.
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
    TypeError, ValueError
        `predecessors` is not what `apsp` returns; `i` or `j` is no whole number.

    Examples
    --------
    >>> import gpudist
    >>> dist, pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)
    >>> gpudist.reconstruct_path(pred, 0, 2)
    [0, 1, 2]
    """
    space = arrays.space_of(predecessors=predecessors)
    p = space.array(predecessors, "predecessors")
    if len(p.shape) != 2 or p.shape[0] != p.shape[1]:
        raise ValueError(f"predecessors must be a square matrix, got shape {tuple(p.shape)}")
    i, j, n = checks.whole("i", i), checks.whole("j", j), p.shape[0]
    for name, node in (("i", i), ("j", j)):
        if not 0 <= node < n:
            raise IndexError(f"{name} = {node} is not a node of a graph with {n} nodes")
    row = space.host(p[i]).astype(np.int64)  # from a device once, and not node by node
    path = [j]
    while path[-1] != i:
        before = int(row[path[-1]])
        if before == _NO_PREDECESSOR:
            raise NoPathError(f"there is no path from {i} to {j}")
        if len(path) > n or not 0 <= before < n:
            raise ValueError("predecessors must be what apsp returned: these lead in circles")
        path.append(before)
    return path[::-1]


def _read(
    graph: Any, no_edge: float | None, *, truths: bool = False
) -> tuple[arrays.Space, Any, str]:
    """Bring any graph to a dense matrix that the core reads, and say what is no edge in it.

    With `truths` the weights do not matter, and where they would have to be spread out, bools are.
    """
    listed: tuple[str, Any] | None = None
    if graphs.is_graph(graph):
        listed = "dense arrays; a NetworkX graph lists its edges", _from_networkx
    elif hasattr(graph, "tocsr"):
        listed = "dense arrays; a sparse array stores its edges", _from_sparse
    elif isinstance(graph, np.ma.MaskedArray):
        listed = "plain arrays; a masked array masks what is no edge", _from_masked
    if listed is not None:
        if no_edge is not None:
            raise ValueError(f"no_edge is for {listed[0]}")
        return arrays.HOST, listed[1](graph, truths), "infinite"
    space = arrays.space_of(graph=graph)
    weights = space.array(graph, "graph")
    if not (truths and space.dtype_name(weights) == "bool"):
        weights = _core_dtype(space, weights)
    elif no_edge is not None:
        raise ValueError("no_edge is for numbers; in an array of bool False is no edge")
    _check_square(weights.shape)
    return space, weights, "zero" if no_edge is None else "sentinel"


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"graph must be a square matrix, got shape {tuple(shape)}")


def _core_dtype(space: arrays.Space, array: Any) -> Any:
    """Convert what the core does not read to float64, which holds every weight that it allows."""
    return array if space.dtype_name(array) in _CORE_DTYPES else space.cast(array, "float64")


def _from_masked(graph: Any, truths: bool) -> Any:
    data = arrays.HOST.array(graph.data, "graph")
    _check_square(data.shape)
    if truths:
        return np.isfinite(data) & ~np.ma.getmaskarray(graph)
    kept = data.dtype if data.dtype.name in ("float32", "float64") else np.dtype(np.float64)
    return np.where(np.ma.getmaskarray(graph), np.inf, data).astype(kept, copy=False)


def _from_sparse(graph: Any, truths: bool) -> Any:
    _check_square(graph.shape)
    entries = graph.tocsr().tocoo()
    data = arrays.HOST.array(entries.data, "graph")
    name = data.dtype.name if data.dtype.name == "float32" else "float64"
    return spread(graph.shape[0], entries.row, entries.col, data, "bool" if truths else name)


def _from_networkx(graph: Any, truths: bool) -> Any:
    tails, heads, weights = graphs.edges(graph, list(graph), "weight", 1)
    for kind in set(map(type, weights)) - {type(None)}:
        if not issubclass(kind, numbers.Real):
            raise TypeError(f"graph's edges must weigh real numbers or None, got a {kind.__name__}")
    data = np.array([math.inf if w is None else w for w in weights], dtype=np.float64)
    return spread(len(graph), tails, heads, data, "bool" if truths else "float64")


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


def _result_dtype(space: arrays.Space, weights: Any, dtype: Any) -> str:
    if dtype is None:
        return "float32" if space.dtype_name(weights) == "float32" else "float64"
    name = arrays.dtype_name(dtype)
    if name not in _CORE_DTYPES:
        raise ValueError(f"dtype must be float32, float64 or int32, got {name}")
    return name


def _unreachable(dtype: str, no_edge: float | None, semiring: str) -> float:
    worst = semirings.neutral(semiring, dtype)
    if dtype != "int32":
        return worst
    value = worst if no_edge is None or not math.isfinite(no_edge) else no_edge
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


def _dtype_of_out(weights: Any, out: Any, allowed: Sequence[str], dtype: Any = None) -> str:
    arrays.space_of(graph=weights, out=out)
    name = arrays.out_dtype(out, allowed, dtype)
    arrays.check_out(out, tuple(weights.shape))
    return name


def _in_place(weights: Any, out: Any) -> bool:
    if weights is out:
        return True
    both = isinstance(weights, np.ndarray) and isinstance(out, np.ndarray)
    return both and weights.__array_interface__ == out.__array_interface__


def _apart(weights: Any, out: Any) -> Any:
    """Copy weights which `out` overlaps without being the same: writing would spoil reading."""
    overlap = isinstance(weights, np.ndarray) and np.may_share_memory(weights, out)
    return weights.copy() if overlap and not _in_place(weights, out) else weights


def _reference(
    weights: Any,
    how: tuple[str, float, bool, bool, str],
    dtype: str,
    unreachable: float,
    return_predecessors: bool,
    out: Any,
) -> Any:
    from gpudist import reference

    semiring = how[-1]
    dist, pred = reference.apsp(reference.edges(weights, *how), semiring)
    on_cycle = reference.on_cycle(dist, semiring)
    if on_cycle:
        raise negative_cycle_error()(
            on_cycle, _cycle(arrays.HOST, weights, on_cycle, how), semiring
        )
    worst = semirings.neutral(semiring, "float64")
    none = dist == worst
    if dtype == "int32":
        dist[dist == -worst] = semirings.neutral(semiring, dtype, opposite=True)
    dist[none] = unreachable
    if out is None:
        out = dist.astype(dtype)
    else:
        out[...] = dist
    return (out, pred) if return_predecessors else out


def _cycle(
    space: arrays.Space,
    weights: Any,
    nodes: list[int],
    how: tuple[str, float, bool, bool, str],
) -> list[int]:
    """Follow one cycle through these nodes, which are on such cycles, unless they are too many."""
    from gpudist import cycles, reference

    if len(nodes) > _MOST_FOLLOWED or not hasattr(weights, "__getitem__"):
        return []
    if hasattr(weights, "copy_to_host"):  # Numba's arrays take no lists of indices
        weights = weights.copy_to_host()
    w = reference.edges(space.host(weights[nodes][:, nodes]), *how)
    return [nodes[i] for i in cycles.negative_cycle(-w if how[-1] == "max_plus" else w)]


def _reference_closure(
    space: arrays.Space, weights: Any, how: tuple[str, float, bool], reflexive: bool, out: Any
) -> Any:
    from gpudist import reference

    arrays.refuse_devices(space, 'kernel="reference"')
    reached = reference.closure(weights, *how)
    if reflexive:
        np.fill_diagonal(reached, True)
    if out is None:
        return reached
    out[...] = reached
    return out


def explain_apsp(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    dtype: Any = None,
    semiring: str = "min_plus",
    return_predecessors: bool = False,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
) -> registry.Explanation:
    """Say what `apsp` would do; see `gpudist.explain`."""
    semirings.check(semiring)
    if semiring == "or_and":
        _check_truths(return_predecessors, dtype)
        return explain_closure(graph, no_edge=no_edge, kernel=kernel, device=device)
    directed = _directed(graph, directed)
    space, weights, _ = _read(graph, no_edge)
    n = weights.shape[0]
    name = _result_dtype(space, weights, dtype)
    predecessors = 4 * n * n if return_predecessors else 0
    said = registry.choose(
        "apsp",
        dtype=name,
        n=n,
        cols=0,
        kernel=kernel,
        device=arrays.device_for(space, weights, device),
        space=space,
        elements_moved=2 * n * n,
        elements_written=n * n,
        result_bytes=predecessors,
        operations=n**3,
        copies=n * n * np.dtype(name).itemsize + predecessors,  # the kernel's own, padded
        semiring=semiring,
    )
    if space is not arrays.HOST or said.device == "cpu":
        return said
    in_place = directed and name != "int32" and space.dtype_name(weights) == name
    if max_memory is None:
        index = int(said.device.removeprefix("cuda:"))
        max_memory = _core.cuda()["devices"][index]["memory_bytes"]
    brought = 0 if in_place else weights.nbytes
    return _explain_far(said, n, brought, return_predecessors, max_memory, semiring)


def _explain_far(
    said: registry.Explanation,
    n: int,
    brought: int,
    predecessors: bool,
    room: int,
    semiring: str = "min_plus",
) -> registry.Explanation:
    """Say how the matrix goes through a device that has no room for it and `brought` bytes."""
    plan = _core.far_plan(n, said.dtype, predecessors, said.device, room, said.kernel, semiring)
    teaching = any(row.teaching for row in registry.kernels("apsp") if row.id == said.kernel)
    if plan["near"] + brought <= room or teaching:
        return said
    work = dataclasses.replace(said.work, read=plan["each_way"], written=plan["each_way"])
    return dataclasses.replace(said, work=work, copies=plan["bytes"], out_of_core=plan)


def explain_closure(
    graph: Any,
    *,
    no_edge: float | None = None,
    kernel: str = "auto",
    device: str | None = None,
) -> registry.Explanation:
    """Say what `transitive_closure` would do; see `gpudist.explain`."""
    space, weights, _ = _read(graph, no_edge, truths=True)
    n = weights.shape[0]
    return registry.choose(
        "closure",
        dtype="bool",
        n=n,
        cols=0,
        kernel=kernel,
        device=arrays.device_for(space, weights, device),
        space=space,
        elements_moved=n * n,
        elements_written=n * n,
        operand_bytes=n * n * np.dtype(space.dtype_name(weights)).itemsize,
        operations=n**3,
        copies=n * n // 8,
    )
