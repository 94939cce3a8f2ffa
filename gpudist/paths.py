"""All-pairs shortest paths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpudist import (
    _core,
    arrays,
    batches,
    checks,
    foreign,
    homes,
    named,
    registry,
    results,
    semirings,
    spreading,
    walks,
)
from gpudist.errors import NoPathError
from gpudist.progress import Progress, watched
from gpudist.work import Work

UNREACHABLE: Final = results.UNREACHABLE
"""What an int32 result holds where there is no path."""

_NO_PREDECESSOR: Final = results.NO_PREDECESSOR
_DASK_ALONE = "is for Dask arrays, whose result is computed in bands of rows"
_CORE_DTYPES = ("float32", "float64", "int32")


@homes.returned("graph")
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
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
    weight: named.Weight = "weight",
    nodelist: Sequence[Any] | None = None,
    labels: bool = False,
    sizes: Any = None,
    unreachable: float | None = None,
    max_hops: int | None = None,
    indices: Any = None,
    bands: int | None = None,
    checkpoint: Any = None,
) -> Any:
    """Compute the lengths of the shortest paths between all pairs of nodes.

    Or, by `semiring`, the longest paths, the least bottlenecks, the widest paths, or what can be
    reached at all.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), NetworkX graph, or dict
        One graph; an array of shape (..., n, n), on the host, or a list is many (see the notes).
        ``graph[i, j]`` is the weight of the edge from i to j, which may be negative. In a dense
        array 0, NaN and infinities are no edge; in a masked array masked entries are none and zeros
        are edges; in a sparse array stored zeros are edges, and of entries stored twice the lesser
        counts, but in COO form, where SciPy adds them up. Also a dense array on a CUDA device, as
        for `cdist`.
        Graphs of igraph and rustworkx are taken as those of NetworkX; their nodes are named by the
        attribute "name" if they have it, and by their indices.
        A NetworkX graph's node i is the i-th of ``list(graph)``, or of `nodelist`; its edges weigh
        what `weight` says; of parallel edges the lightest counts. A dict of dicts maps nodes to
        their neighbours, and these to weights or to dicts of attributes, as
        `networkx.to_dict_of_dicts` gives them. A pandas frame's rows and columns must be named
        alike, in the same order (in any order with `labels`).
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
        or a `numpy.memmap`. A graph that shares memory with it otherwise is copied first.
    dtype : {float32, float64, int32, int16, uint16, uint8, bool}, optional
        The dtype of computation and result: bool for or_and; else that of `out`, or by default
        float32 for float32 input, and float64 for all other. int32 is exact: weights must be whole
        and below 2**29, path lengths below 2**30. The narrower integers are for sums on the host,
        and computed in int32; a length that does not fit is an error.
    semiring : {"min_plus", "max_plus", "min_max", "max_min", "or_and"}
        What the length of a path is, and which of two paths is the better; the notes say more.
    kernel : str
        "auto", "reference" (NumPy in float64, slow, on host arrays only), or an id from
        `gpudist.kernels`.
    device : str, or device of PyTorch or CuPy, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N".
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress : bool or callable
        If True, a long call shows how far it is: with tqdm where that is installed. A callable is
        called some times a second with the inner steps done and their total, and at the end; what
        it raises ends the call. It must not call gpudist itself, whose buffers are in use. Ctrl-C
        ends a long call in any case.
    max_memory : int or str, optional
        How many bytes of the device's memory the call may hold at once, or a text such as "500 MB"
        or "1.5GiB", as for `cdist`. A host array for which a CUDA device has not so much, or not
        enough at all, goes through it in parts; the notes say how. What else does not fit is
        refused before anything is allocated.
    weight : str, callable or None
        What an edge of a NetworkX graph or a dict of dicts weighs, as NetworkX has it: an
        attribute, 1 where an edge has none, no edge where it is None; or a function of
        ``(u, v, attributes)``, which for a multigraph gets the dict of all edges from u to v; or
        None for 1. That no edge at all has the attribute is an error, unless it is the default
        and there are no numbers among the attributes that there are.
    nodelist : sequence, optional
        All nodes of such a graph, in the order of rows and columns.
    labels : bool
        If True, return a `ShortestPaths`, which is read by the names of nodes: those of a
        NetworkX graph, a dict or a pandas frame, else 0, 1, ... Of a list of graphs, a list.
    sizes : array_like of int, shape (...), optional
        Of an array of graphs, how many nodes of each are in use: the first ones. Beyond them
        results are as if nothing could be reached.
    unreachable : float, optional
        What results hold where there is no path, in place of what the notes say. Lengths may have
        that value too, and then nothing tells them apart.
    max_hops : int, optional
        With ``unweighted=True``: paths of more edges are none. Of weighted edges this would be
        another problem than shortest paths, and is an error.
    indices : int, or array_like of int, shape (k,), optional
        Paths from these nodes alone, as in SciPy; the notes say how.
    bands, checkpoint : int, str, optional
        For a Dask array alone, whose result is lazy: into how many bands of rows it is cut, and a
        folder in which to keep what is done, to go on from there. ``help(gpudist.dask.apsp)`` has
        more.

    Returns
    -------
    dist : array, shape (n, n) or (..., n, n), or list of arrays
        ``dist[i, j]`` is the length of the best path from i to j. Without a path it is
        `unreachable` or what the notes say, by default inf; in int32 `no_edge` if given, by default
        `gpudist.UNREACHABLE`; in narrower integers the largest number, which then is no length.
        With `indices` the rows of these nodes, shape (k, n), or (n,) of one.
    predecessors : int32 array, shape (n, n) or (..., n, n), or list of arrays
        Only with `return_predecessors`: the node before j on that path; -9999 on the diagonal and
        where there is no path. Following it never runs in a circle.

    Raises
    ------
    gpudist.NegativeCycleError
        A cycle has negative length (a negative weight on the diagonal is one), or in max_plus a
        positive one. Its ``nodes`` are found on such cycles, its ``cycle`` is one of these in order
        (empty if `graph` was overwritten, or if they are more than 3000). Exact sums of the
        weights decide, as the notes say. It is a subclass of SciPy's exception of that name.
    ValueError
        `graph` is not square; weights that the dtype does not take; a negative weight beside a
        negative `no_edge`; an unknown kernel or semiring; predecessors of or_and.
    OverflowError
        A path length does not fit a result of integers.
    TypeError, MemoryError, gpudist.DeviceError
        As for `gpudist.cdist`; a TypeError also for arrays of many graphs on a device.

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
    max_plus  the sum of its weights      the longest              -inf     0
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

    Sums are rounded, so that a cycle of length 0 can look negative, and one that is negative can be
    hidden. Where weights are negative, fractional or large, and some cycle is as short as rounding
    can tell, exact sums of the weights decide [2]_: a cycle that is negative by them is an error,
    and one that is not is none. Without such a cycle, lengths or predecessors that rounding spoiled
    are computed anew from weights that exact potentials make nonnegative. Looking for short cycles
    reads the result once more; the exact sums take some tenths of a second for 1000 nodes, and as
    a rule only float32 asks for them there. What was found with rounded sums stands where `graph`
    was overwritten, and with more than 3000 nodes where it must be judged as a whole. Where it is
    the device that looks whether weights are negative (device arrays, and float32 on a CUDA
    device), a cycle that was found is judged, but hidden ones are not looked for.

    Many graphs are computed in one call: an array of shape (..., n, n), padded where `sizes` says
    so, or a list of graphs of any sizes and of all kinds; `apsp_edges` takes their edges one after
    the other. Each result has the bits that the graph has alone with that dtype, which is one for
    all: by default float32 if all input is. On the CPU small graphs stand side by side in vectors,
    larger ones are done one by one, and so are all with a `kernel` or a `device` by name; results
    take no operand's place with `overwrite`. Errors name the graph, and have its index as
    ``graph``.

    With ``unweighted=True`` on the CPU, sums without predecessors are numbers of hops, and found by
    sets of bits, level by level over the edges [3]_; with so many levels that this takes longer, as
    all pairs by weights. `gpudist.explain` says which is tried. The results are the same.

    With `indices`, paths from few nodes are SciPy's, by Dijkstra's method, or by Johnson's where
    weights are negative: sums of floats are formed in another order there, so lengths agree to
    rounding, and of equal paths another may be found. From so many nodes on that all pairs take
    less time, by a rule that was measured, and for what SciPy does not have, they are rows of all
    pairs; `gpudist.explain` says which and why.

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
    .. [2] B. V. Cherkassky, A. V. Goldberg, "Negative-cycle detection algorithms", Math.
       Programming 85, 1999.
    .. [3] M. Then et al., "The more the merrier: efficient multi-source graph traversal", Proc.
       VLDB Endowment 8, 2014.

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
    if foreign.is_dask(graph):
        from gpudist import dask

        _refuse(
            "is not for Dask arrays",
            sizes=sizes,
            unreachable=unreachable,
            max_hops=max_hops,
            indices=indices,
        )
        return dask.apsp(
            graph,
            bands=bands,
            checkpoint=checkpoint,
            no_edge=no_edge,
            directed=directed,
            unweighted=unweighted,
            overwrite=overwrite,
            return_predecessors=return_predecessors,
            out=out,
            dtype=dtype,
            semiring=semiring,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
            weight=weight,
            nodelist=nodelist,
            labels=labels,
        )
    _refuse(_DASK_ALONE, bands=bands, checkpoint=checkpoint)
    semirings.check(semiring)
    labels = checks.truth("labels", labels)
    as_given: dict[str, Any] = {
        "no_edge": no_edge,
        "directed": directed,
        "unweighted": unweighted,
        "overwrite": overwrite,
        "return_predecessors": return_predecessors,
        "out": out,
        "dtype": dtype,
        "semiring": semiring,
        "kernel": kernel,
        "device": device,
        "options": options,
        "progress": progress,
        "max_memory": max_memory,
        "unreachable": unreachable,
        "max_hops": max_hops,
    }
    if sizes is not None or batches.are(graph):
        if indices is not None:
            raise TypeError("indices is for one graph, not for many")
        names: dict[str, Any] = {"weight": weight, "nodelist": nodelist, "labels": labels}
        return batches.apsp(graph, sizes=sizes, **as_given, **names)
    listed, nodes = named.take(
        graph, weight, nodelist, labels=labels, strict=semiring != "or_and" and unweighted is False
    )
    if labels:
        if indices is not None:
            raise TypeError("indices is for results that are read by position, not with labels")
        found = apsp(listed, **as_given)
        dist, before = found if return_predecessors else (found, None)
        if nodes is None:
            nodes = list(range(dist.shape[0]))
        return named.ShortestPaths(nodes, dist, before)
    graph = listed
    if indices is not None:
        return _from_some(graph, indices, as_given)
    if semiring == "or_and":
        check_truths(return_predecessors, dtype)
        results.refuse_for_truths(unreachable, max_hops)
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
    device, max_memory = registry.read_orders("apsp", kernel, options, device, progress, max_memory)
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    unweighted = checks.truth("unweighted", unweighted)
    overwrite = checks.truth("overwrite", overwrite)
    return_predecessors = checks.truth("return_predecessors", return_predecessors)
    most = results.read_max_hops(max_hops, unweighted, semiring)
    space, weights, rule = read(graph, no_edge)
    directed = _directed(graph, directed)
    if out is not None:
        dtype = _dtype_of_out(weights, out, (*_CORE_DTYPES, *results.NARROW), dtype)
    name = result_dtype(space, weights, dtype, semiring)
    none = results.read_unreachable(unreachable, name)
    if name in results.NARROW:
        as_given |= {"dtype": "int32", "out": None, "unreachable": UNREACHABLE, "overwrite": False}
        return _narrowed(graph, as_given, name, none, out)
    if (
        unweighted
        and semiring == "min_plus"
        and not return_predecessors
        and _counts_hops(space, kernel, device, n=weights.shape[0], no_edge=no_edge)
    ):
        lengths = _hops(graph, (space, weights, rule), as_given, name, none, most)
        if lengths is not None:
            return lengths
    if most is not None:
        found = apsp(graph, **as_given | {"max_hops": None})
        dist, before = found if return_predecessors else (found, None)
        results.cap(dist, before, most, unreachable_of(name, no_edge, semiring, none))
        return found
    value = unreachable_of(name, no_edge, semiring, none)
    sentinel = 0.0 if no_edge is None else no_edge
    if kernel == "reference":
        arrays.refuse_devices(space, 'kernel="reference"')
        return _reference(
            weights,
            (rule, sentinel, directed, unweighted, semiring),
            name,
            value,
            return_predecessors,
            out,
        )
    shape = (weights.shape[0], weights.shape[0])
    if out is not None:
        if not arrays.in_place(space, weights, out):
            (weights,) = arrays.apart(space, {"graph": weights}, out)
    elif overwrite and _fits(weights, name):
        out = weights
    else:
        out = space.empty(shape, name, like=weights)
    pred = space.empty(shape, "int32", like=weights) if return_predecessors else None
    with watched(progress, shape[0] ** 3, "apsp") as watch:
        on_cycle, rounding = _core.apsp(
            space.operand(weights, space.dtype_name(weights), shape),
            space.operand(out, name, shape),
            None if pred is None else space.operand(pred, "int32", shape),
            rule,
            sentinel,
            directed,
            unweighted,
            value,
            kernel,
            device,
            space.stream(weights),
            space.ordered,
            options,
            semiring,
            watch,
            max_memory,
        )
    if on_cycle or rounding:
        from gpudist import exactly

        how = rule, sentinel, directed, unweighted, semiring
        lost = arrays.in_place(space, weights, out) or not hasattr(weights, "__getitem__")
        if none is not None and not lost:  # what is looked for are lengths
            as_given |= {"unreachable": None, "overwrite": False, "out": out, "directed": directed}
            as_given["no_edge"] = math.inf if rule == "infinite" else no_edge
            found = apsp(weights, **as_given)
            out[out == unreachable_of(name, no_edge, semiring)] = value
            return found
        exactly.settle(
            space, None if lost else weights, how, (on_cycle, rounding), (out, pred, value)
        )
    return (out, pred) if return_predecessors else out


@homes.returned("graph")
def transitive_closure(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    reflexive: bool = False,
    out: Any = None,
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
    bands: int | None = None,
) -> Any:
    """Find out which nodes can be reached from which.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), or NetworkX graph
        As for `apsp`, arrays of shape (..., n, n) on the host and lists of graphs included; in an
        array of bool the edges are where it is True. Weights do not matter.
    no_edge : float, optional
        The value that means "no edge" in a dense array, in place of 0; not for arrays of bool.
    directed : bool
        If False, edges lead both ways.
    reflexive : bool
        Whether every node reaches itself. By default it does only where a cycle leads back to it.
    out : bool array, shape (n, n), optional
        Where to write the result: C-contiguous; it may be `graph` itself, or share memory with it.
    kernel : str
        "auto", "reference" (NumPy, slow, on host arrays only), or an id from `gpudist.kernels`.
    device : str, or device of PyTorch or CuPy, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N".
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress, max_memory
        As for `apsp`.
    bands : int, optional
        For a Dask array alone: into how many bands of rows it is cut.

    Returns
    -------
    bool array, shape (n, n) or (..., n, n), or list of arrays
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
    Truths are packed, 64 to a word, so that the work takes n**2 / 8 bytes beside the arrays. On the
    CPU, graphs of few edges are closed by their strongly connected components [1]_, others by
    blocks of pivots; `gpudist.explain` says which.

    References
    ----------
    .. [1] R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1, 1972.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.transitive_closure([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    array([[False,  True,  True],
           [False, False,  True],
           [False, False, False]])
    """
    if foreign.is_dask(graph):
        from gpudist import dask

        return dask.transitive_closure(
            graph,
            bands=bands,
            no_edge=no_edge,
            directed=directed,
            reflexive=reflexive,
            out=out,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
        )
    _refuse(_DASK_ALONE, bands=bands)
    if batches.are(graph):
        return batches.closure(
            graph,
            out,
            no_edge=no_edge,
            directed=directed,
            reflexive=reflexive,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
        )
    device, max_memory = registry.read_orders(
        "closure", kernel, options, device, progress, max_memory
    )
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    graph = named.take(graph, strict=False)[0]
    space, weights, rule = read(graph, no_edge, truths=True)
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


def _from_some(graph: Any, indices: Any, as_given: dict[str, Any]) -> Any:
    """Compute paths from some nodes alone."""
    from gpudist import sources

    if as_given["out"] is not None or checks.truth("overwrite", as_given["overwrite"]):
        name = "overwrite" if as_given["out"] is None else "out"
        raise TypeError(f"{name} is for all pairs, not with indices")
    predecessors = checks.truth("return_predecessors", as_given["return_predecessors"])
    asked = _asked_of_some(graph, indices, as_given)
    found = None
    if asked.why is None:
        most = results.read_max_hops(
            as_given["max_hops"], checks.truth("unweighted", as_given["unweighted"]), "min_plus"
        )
        none = results.read_unreachable(as_given["unreachable"], asked.dtype)
        how = as_given | {"directed": _directed(graph, as_given["directed"])}
        found = sources.apsp(*asked.edges, asked.indices, how, asked.dtype)
    if found is None:
        whole = apsp(graph, **as_given)
        rows = asked.indices.tolist()
        return tuple(x[rows] for x in whole) if predecessors else whole[rows]
    dist, before = found
    gone = np.isinf(dist) if most is None else dist > most
    dist, before = dist.astype(asked.dtype, copy=False), np.where(gone, _NO_PREDECESSOR, before)
    dist[gone] = math.inf if none is None else none
    return (dist, before.astype(np.int32)) if predecessors else dist


class _Asked(NamedTuple):
    """Paths from some nodes: from which, of which edges, and why all pairs are computed, if so."""

    indices: Any
    edges: tuple[Any, Any, Any, int]
    dtype: str
    why: str | None


def _asked_of_some(graph: Any, indices: Any, how: dict[str, Any]) -> _Asked:
    from gpudist import sources

    no_edge = None if how["no_edge"] is None else checks.number("no_edge", how["no_edge"])
    listed = isinstance(graph, named.EdgeList) or hasattr(graph, "tocsr")
    space = arrays.HOST if listed else arrays.space_of(graph=graph)
    if listed and no_edge is not None:
        raise ValueError("no_edge is for dense arrays; this graph lists its edges")
    if space is not arrays.HOST:
        n, edges = int(graph.shape[0]), (None, None, None, int(graph.shape[0]))
    else:
        edges = sources.edges(graph, no_edge)
        n = edges[3]
    read_as = sources.read(indices, n)
    dtype = how["dtype"]
    if how["semiring"] != "or_and":
        weights = graph.weights if isinstance(graph, named.EdgeList) else edges[2]
        dtype = result_dtype(space, graph if weights is None else weights, dtype, how["semiring"])
    m = 0 if edges[0] is None else len(edges[0])
    negative = no_edge is not None and no_edge < 0
    why = "weights have to be held against no_edge" if negative else None
    why = why or sources.why_all_pairs(how, space, str(dtype), n, m, read_as.size)
    return _Asked(read_as, edges, str(dtype), why)


def _counts_hops(
    space: arrays.Space, kernel: str, device: str | None, *, n: int, no_edge: float | None
) -> bool:
    """Tell whether numbers of hops may be found by sets of bits: on the CPU, if edges are few."""
    return (
        space is arrays.HOST
        and kernel == "auto"
        and (device == "cpu" or (device is None and _core.cuda()["why_not"] is not None))
        and _core.few_edges("hops", n, 0)
        and (no_edge is None or not no_edge < 0)  # which leaves no room for some weights
    )


def _hops(
    graph: Any,
    read_as: tuple[arrays.Space, Any, str],
    as_given: dict[str, Any],
    dtype: str,
    unreachable: float | None,
    most: int | None,
) -> Any:
    """Count hops level by level; None where that would take longer than all pairs by weights."""
    _, weights, rule = read_as
    no_edge, out = as_given["no_edge"], as_given["out"]
    n = weights.shape[0]
    value = unreachable_of(dtype, no_edge, "min_plus", unreachable)
    given = weights
    if out is None:
        out = arrays.HOST.empty((n, n), dtype, like=None)
    elif arrays.overlap(arrays.HOST, weights, out):  # it may be given up
        given = weights.copy()
    with watched(as_given["progress"], n**3, "apsp") as watch:
        done = _core.hops(
            given,
            out,
            rule,
            0.0 if no_edge is None else float(no_edge),
            _directed(graph, as_given["directed"]),
            value,
            n if most is None else most,
            device="cpu",
            progress=watch,
            max_memory=checks.max_memory(as_given["max_memory"]),
        )
    if done:
        return out
    if given is not weights:
        weights[...] = given
    return None


def _refuse(why: str, **given: Any) -> None:
    """Raise a TypeError that names an argument which is given, and says why it must not be."""
    for name, value in given.items():
        if value is not None:
            raise TypeError(f"{name} {why}")


def check_truths(return_predecessors: bool, dtype: Any) -> None:
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
    return directed and bool(graph.directed if isinstance(graph, named.EdgeList) else True)


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
    space, p, n = walks.read(predecessors)
    i, j = checks.whole("i", i), checks.whole("j", j)
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


def read(
    graph: Any, no_edge: float | None, *, truths: bool = False
) -> tuple[arrays.Space, Any, str]:
    """Bring any graph to a dense matrix that the core reads, and say what is no edge in it.

    With `truths` the weights do not matter, and where they would have to be spread out, bools are.
    """
    listed: tuple[str, Any] | None = None
    if isinstance(graph, named.EdgeList):
        listed = "dense arrays; a graph of named nodes lists its edges", _from_edges
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
    try:
        entries = graph.tocsr().tocoo()
    except AttributeError as error:
        kind = type(graph).__name__
        raise TypeError(f"graph is no sparse matrix, though a {kind} has tocsr: {error}") from error
    data = arrays.HOST.array(entries.data, "graph")
    name = data.dtype.name if data.dtype.name == "float32" else "float64"
    return spreading.spread(
        graph.shape[0], entries.row, entries.col, data, "bool" if truths else name
    )


def _from_edges(graph: named.EdgeList, truths: bool) -> Any:
    dtype = "bool" if truths else "float64"
    return spreading.spread(len(graph.nodes), graph.tails, graph.heads, graph.weights, dtype)


def result_dtype(space: arrays.Space, weights: Any, dtype: Any, semiring: str = "min_plus") -> str:
    """Return the name of the result's dtype; weights of None are whole numbers."""
    if dtype is None:
        single = weights is not None and space.dtype_name(weights) == "float32"
        return "float32" if single else "float64"
    name = arrays.dtype_name(dtype)
    if name in results.NARROW:
        if space is not arrays.HOST or not semiring.endswith("plus"):
            raise ValueError(f"dtype={name} is for host arrays, in min_plus and max_plus")
        return name
    if name not in _CORE_DTYPES:
        raise ValueError(
            f"dtype must be {arrays.one_of((*_CORE_DTYPES, *results.NARROW))}, got {name}"
        )
    return name


def unreachable_of(
    dtype: str, no_edge: float | None, semiring: str, given: float | None = None
) -> float:
    """Return what stands for no path: what was given, else what is usual."""
    if given is not None:
        return given
    worst = semirings.neutral(semiring, dtype)
    if dtype != "int32":
        return worst
    value = worst if no_edge is None or not math.isfinite(no_edge) else no_edge
    if value != int(value) or not -(2**31) <= value < 2**31:
        raise ValueError(f"no_edge must be an int32 with dtype=int32, got {no_edge}")
    return float(value)


def _narrowed(
    graph: Any, as_given: dict[str, Any], name: str, unreachable: float | None, out: Any
) -> Any:
    """Compute in int32, and write the lengths as they are wanted."""
    found = apsp(graph, **as_given)
    dist, before = found if as_given["return_predecessors"] else (found, None)
    dist = results.narrow(dist, name, unreachable, out)
    return dist if before is None else (dist, before)


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
    if semiring.endswith("plus"):
        from gpudist import exactly

        exactly.settle(
            arrays.HOST,
            weights,
            how,
            (on_cycle, math.inf),
            (dist, pred, unreachable_of("float64", None, semiring)),
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
    unweighted: bool = False,
    weight: named.Weight = "weight",
    nodelist: Sequence[Any] | None = None,
    sizes: Any = None,
    indices: Any = None,
) -> registry.Explanation:
    """Say what `apsp` would do; see `gpudist.explain`."""
    semirings.check(semiring)
    if semiring == "or_and":
        check_truths(return_predecessors, dtype)
        return explain_closure(graph, no_edge=no_edge, kernel=kernel, device=device)
    if sizes is not None or batches.are(graph):
        one: dict[str, Any] = {"dtype": dtype, "semiring": semiring, "device": device}
        one |= {"return_predecessors": return_predecessors, "kernel": kernel}
        return batches.explain(graph, sizes, no_edge, weight, one, strict=not unweighted)
    graph = named.take(graph, weight, nodelist, strict=not unweighted)[0]
    if indices is not None:
        how: dict[str, Any] = {"no_edge": no_edge, "directed": directed, "dtype": dtype}
        how |= {"semiring": semiring, "return_predecessors": return_predecessors}
        how |= {"kernel": kernel, "device": device, "unweighted": unweighted}
        return _explain_some(graph, indices, how | {"max_memory": max_memory})
    directed = _directed(graph, directed)
    space, weights, rule = read(graph, no_edge)
    n = weights.shape[0]
    name = result_dtype(space, weights, dtype, semiring)
    name = "int32" if name in results.NARROW else name
    if (
        unweighted
        and semiring == "min_plus"
        and not return_predecessors
        and _counts_hops(space, kernel, device, n=n, no_edge=no_edge)
    ):
        edges = _count_edges(weights, rule, no_edge, directed)
        if _core.few_edges("hops", n, edges):
            said = registry.choose(
                "hops",
                dtype=name,
                n=n,
                cols=0,
                kernel="auto",
                device="cpu",
                space=space,
                elements_moved=2 * n * n,
                elements_written=n * n,
                operations=n * -(-edges // 512),
                copies=n * n // 8 + 4 * (n + edges),
            )
            why = (
                f"{edges} edges that weigh 1: hops are counted level by level; should there be so "
                "many levels that apsp/cpu_blocked takes less time, it takes over"
            )
            return dataclasses.replace(said, reason=why)
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


def _explain_some(graph: Any, indices: Any, how: dict[str, Any]) -> registry.Explanation:
    """Say whether paths from some nodes are SciPy's."""
    asked = _asked_of_some(graph, indices, how)
    n, k = asked.edges[3], asked.indices.size
    m = 0 if asked.edges[0] is None else len(asked.edges[0])
    if asked.why is not None:
        said = explain_apsp(graph, **how)
        why = f"rows of all pairs, since {asked.why}; {said.reason}"
        return dataclasses.replace(said, reason=why)
    size = np.dtype(asked.dtype).itemsize
    negative = not how["unweighted"] and bool((asked.edges[2] < 0).any())
    name = "johnson" if negative else "dijkstra"
    work = Work(m * (size + 4), k * n * size, k * m, "steps over edges")
    return registry.Explanation(
        "apsp",
        f"scipy.sparse.csgraph.{name}",
        "cpu",
        f"paths from {k} of {n} nodes along {m} edges take less than all pairs",
        {},
        int(work.read + work.written),
        k * m,
        asked.dtype,
        None,
        work,
    )


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
    directed: bool = True,
    kernel: str = "auto",
    device: str | None = None,
) -> registry.Explanation:
    """Say what `transitive_closure` would do; see `gpudist.explain`."""
    if batches.are(graph):
        stack = arrays.HOST.array(graph, "graph")
        count = math.prod(stack.shape[:-2])
        first = stack.reshape(count, *stack.shape[-2:])[0] if count else np.zeros((0, 0), bool)
        said = explain_closure(
            first, no_edge=no_edge, directed=directed, kernel=kernel, device=device
        )
        why = f"each of {count} graphs by itself, of which this is one; {said.reason}"
        return dataclasses.replace(said, reason=why)
    graph = named.take(graph, strict=False)[0]
    space, weights, rule = read(graph, no_edge, truths=True)
    n = weights.shape[0]
    said = registry.choose(
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
    if said.device != "cpu" or not said.kernel.startswith("closure/cpu_bits"):
        return said
    edges = _count_edges(weights, rule, no_edge, _directed(graph, directed))
    few = _core.few_edges("closure", n, edges)
    way = f"components are found first for {edges} edges" if few else f"{edges} edges are many"
    return dataclasses.replace(said, reason=f"{said.reason}; {way}")


def _count_edges(weights: Any, rule: str, no_edge: float | None, directed: bool) -> int:
    """Count what is an edge in a host array, both ways where edges have no direction."""
    from gpudist import reference

    sentinel = 0.0 if no_edge is None else no_edge
    there = weights if weights.dtype == bool else reference.is_edge(weights, rule, sentinel)
    return int(np.count_nonzero(there if directed else there | there.T))
