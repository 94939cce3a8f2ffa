"""All-pairs shortest paths, and what can be reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

from gpudist import (
    _core,
    batches,
    checks,
    errors,
    foreign,
    homes,
    many_graphs,
    named,
    paths_call,
    paths_one,
    results,
    semirings,
)
from gpudist.intake import Orders
from gpudist.paths_call import Asked
from gpudist.progress import Progress

UNREACHABLE: Final = results.UNREACHABLE
"""What an int32 result holds where there is no path."""

_Apsp = TypeVar("_Apsp", bound=Callable[..., Any])

_DASK_ALONE = "is for Dask arrays, whose result is computed in bands of rows"


def _at_once(function: _Apsp) -> _Apsp:
    """Decorate apsp so that plain calls with arrays on a device go to the core by the short way."""

    @wraps(function)
    def apsp(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) == 1 and type(arguments[0]) is not np.ndarray:
            # What a call with no more says beside the graph; small calls feel each question.
            with_paths = keywords.get("return_predecessors", False)
            if len(keywords) == (with_paths is True) and not checks.is_watched():
                found = _core.apsp_tensors(arguments[0], with_paths is True, many_graphs.FEW)
                if found is not None:
                    return found
        return function(*arguments, **keywords)

    return apsp  # type: ignore[return-value]


@_at_once
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
        One graph; an array of shape (..., n, n) or a list is many (see the notes).
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
        For host input, where to compute: "cpu", "cuda" or "cuda:N"; "cuda:all" or "cuda:0,2" for
        several GPUs, among which the rows are shared out.
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
    bands, checkpoint : int; str or os.PathLike, optional
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
        (empty if `graph` was overwritten, or if they are more than 3000), by their positions;
        ``named_nodes`` and ``named_cycle`` are the same nodes by their names. Exact sums of the
        weights decide, as the notes say. It is a subclass of SciPy's exception of that name.
    ValueError
        `graph` is not square; weights that the dtype does not take; a negative weight beside a
        negative `no_edge`; an unknown kernel or semiring; predecessors of or_and.
    OverflowError
        A path length does not fit a result of integers.
    IndexError
        `indices` has a node that is not there.
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
    all: by default float32 if all input is. On the CPU small graphs stand side by side in vectors.
    On a CUDA device those of an array over sums do in registers, or by tiles up to 1024 nodes: of
    arrays there, with a `device`, and of host arrays of more nodes than vectors take. All others
    are done one by one, and so are those with a `kernel` by name; results
    take no operand's place with `overwrite`. Errors name the graph, and have its index as
    ``graph``.

    With ``unweighted=True``, sums without predecessors are numbers of hops, and found by sets of
    bits, level by level over the edges [3]_; with so many levels that this takes longer, as all
    pairs by weights. On a GPU that is so from 2048 nodes on. `gpudist.explain` says which is tried.
    The results are the same.

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

    Several GPUs hold a host array's rows between them, each as many as the others, and send each
    other the rows of the nodes whose turn it is. What they do not hold together stays on the host:
    each GPU takes as many rows of a block, and as many of the bands that pass, as the others. The
    bits are the same. `max_memory` is that of each. Many graphs, or_and and kernels of ladders are
    for one GPU.

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
    named.check_weight(weight)
    orders = Orders(kernel, device, options, progress, max_memory)
    asked = Asked(
        no_edge,
        directed,
        unweighted,
        overwrite,
        return_predecessors,
        out,
        dtype,
        semiring,
        unreachable,
        max_hops,
        orders,
    )
    names: dict[str, Any] = {"weight": weight, "nodelist": nodelist, "labels": labels}
    if foreign.is_dask(graph):
        from gpudist import dask

        _refuse("is not for Dask arrays", sizes=sizes, indices=indices)
        return dask.apsp(graph, asked, bands=bands, checkpoint=checkpoint, **names)
    if bands is not None or checkpoint is not None:
        _refuse(_DASK_ALONE, bands=bands, checkpoint=checkpoint)
    semirings.check(semiring)
    names["labels"] = labels = checks.truth("labels", labels)
    if sizes is not None or many_graphs.are(graph):
        if indices is not None:
            raise TypeError("indices is for one graph, not for many")
        return batches.paths(graph, asked, sizes, **names)
    listed, nodes = named.take(graph, weight, nodelist, labels=labels, strict=asked.strict)
    if indices is not None and labels:
        raise TypeError("indices is for results that are read by position, not with labels")
    try:
        if indices is not None:
            return _from_some(listed, indices, asked)
        found = paths_one.paths(listed, asked)
    except Exception as error:
        errors.name_nodes(error, nodes)
        raise
    if not labels:
        return found
    found = homes.brought(homes.of(graph), found)
    dist, before = found if return_predecessors else (found, None)
    return named.ShortestPaths(list(range(dist.shape[0])) if nodes is None else nodes, dist, before)


@homes.returned("graph")
def transitive_closure(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    reflexive: bool = False,
    sizes: Any = None,
    out: Any = None,
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
    bands: int | None = None,
    checkpoint: Any = None,
) -> Any:
    """Find out which nodes can be reached from which.

    Parameters
    ----------
    graph : array_like, masked array, SciPy sparse array, shape (n, n), or NetworkX graph
        As for `apsp`, arrays of shape (..., n, n) and lists of graphs included; in an
        array of bool the edges are where it is True. Weights do not matter.
    no_edge : float, optional
        The value that means "no edge" in a dense array, in place of 0; not for arrays of bool.
    directed : bool
        If False, edges lead both ways.
    reflexive : bool
        Whether every node reaches itself. By default it does only where a cycle leads back to it.
    sizes : array_like of int, shape (...), optional
        Of an array of graphs, how many nodes of each are in use: the first ones. Nothing beyond
        them is read, and nothing is reached there.
    out : bool array, shape (n, n) or (..., n, n), optional
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
    checkpoint : str or os.PathLike, optional
        For a Dask array alone: a folder in which bands are kept, as for `apsp`.

    Returns
    -------
    bool array, shape (n, n) or (..., n, n), or list of arrays
        Whether there is a path from i to j: `out` if given, else a new array of the graph's
        library, on its device.

    Raises
    ------
    ValueError
        `graph` is not square; `no_edge` beside an array of bool; bad `sizes`; a bad `out`;
        a `checkpoint` of another call.
    TypeError
        As for `gpudist.cdist`; `sizes` beside a list or a Dask array; `bands` or `checkpoint`
        beside anything but a Dask array.
    MemoryError, gpudist.DeviceError
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
    orders = Orders(kernel, device, options, progress, max_memory)
    asked = Asked(no_edge, directed, out=out, orders=orders)
    if foreign.is_dask(graph):
        from gpudist import dask

        _refuse("is not for Dask arrays", sizes=sizes)
        return dask.transitive_closure(graph, asked, reflexive, bands=bands, checkpoint=checkpoint)
    _refuse(_DASK_ALONE, bands=bands, checkpoint=checkpoint)
    if sizes is not None or many_graphs.are(graph):
        return batches.closures(graph, asked, reflexive, sizes)
    return paths_one.closure(graph, asked, reflexive)


def _from_some(graph: Any, indices: Any, asked: Asked) -> Any:
    """Compute paths from some nodes alone."""
    from gpudist import sources

    if asked.out is not None or checks.truth("overwrite", asked.overwrite):
        name = "overwrite" if asked.out is None else "out"
        raise TypeError(f"{name} is for all pairs, not with indices")
    predecessors = checks.truth("return_predecessors", asked.return_predecessors)
    some = sources.read(graph, indices, asked)
    found = None
    if some.why is None:
        unweighted = checks.truth("unweighted", asked.unweighted)
        most = results.read_max_hops(asked.max_hops, unweighted, "min_plus")
        none = results.read_unreachable(asked.unreachable, some.dtype)
        directed = paths_call.directed_of(graph, asked.directed)
        found = sources.paths(some, asked.orders, directed=directed, unweighted=unweighted)
    if found is None:
        whole = paths_one.paths(graph, asked)
        rows = some.indices.tolist()
        return tuple(x[rows] for x in whole) if predecessors else whole[rows]
    dist, before = found
    gone = np.isinf(dist) if most is None else dist > most
    del found  # and with it the lengths in float64, where others are asked for
    dist = dist.astype(some.dtype, copy=False)
    before[gone] = results.NO_PREDECESSOR
    dist[gone] = math.inf if none is None else none
    return (dist, before) if predecessors else dist


def _refuse(why: str, **given: Any) -> None:
    """Raise a TypeError that names an argument which is given, and says why it must not be."""
    for name, value in given.items():
        if value is not None:
            raise TypeError(f"{name} {why}")
