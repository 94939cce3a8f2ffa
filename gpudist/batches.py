"""Shortest paths and closures of many graphs at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpudist import (
    _core,
    arrays,
    checks,
    cycles,
    errors,
    homes,
    many_graphs,
    named,
    paths_one,
    results,
    semirings,
    several_gpus,
    stacks,
)
from gpudist.intake import Orders
from gpudist.many_graphs import Graphs
from gpudist.paths_call import Asked, number_or_none
from gpudist.progress import watched

# How many elements of narrow integers are made of int32 at a time.
_CHUNK = 1 << 20


class _Call(NamedTuple):
    """What is asked for beside the graphs, read; as in `paths_call.Call`.

    `lead` are the leading dimensions of the results, None for lists of them.
    """

    directed: bool
    unweighted: bool
    semiring: str
    predecessors: bool
    result: str
    none: float | None
    most: int | None
    orders: Orders
    lead: tuple[int, ...] | None


class _Results(NamedTuple):
    """Lengths and predecessors of all graphs, one after the other; predecessors may be None."""

    dist: Any
    before: Any


def paths(graph: Any, asked: Asked, sizes: Any, *, weight: Any, nodelist: Any, labels: bool) -> Any:
    """Compute the best paths in many graphs; see `gpudist.apsp`.

    Parameters
    ----------
    graph : array_like, shape (..., n, n), or list of graphs
        The graphs.
    asked : Asked
        What else was given.
    sizes : array_like of int, shape (...), or None
        How many nodes of each are in use.
    weight, nodelist, labels
        As for `gpudist.apsp`.

    Returns
    -------
    dist, predecessors
        Arrays, or of a list lists of arrays.
    """
    strict, asked = asked.strict, _truths_read(asked)
    if many_graphs.is_list(graph):
        _refuse_for_lists(out=asked.out, sizes=sizes)
        if nodelist is not None:
            raise TypeError("nodelist is for one graph, not for lists of them")
        given = many_graphs.taken(graph, weight, labels=labels, strict=strict)
        try:
            found = _brought(graph, _of_list([one for one, _ in given], asked))
        except Exception as error:
            place = getattr(error, "graph", None)
            errors.name_nodes(error, None if place is None else given[place][1])
            raise
        return _by_name([nodes for _, nodes in given], found, asked) if labels else found
    if labels or weight != "weight" or nodelist is not None:
        raise TypeError("labels, weight and nodelist are for graphs with names, not for arrays")
    if asked.semiring == "or_and":
        if sizes is not None:
            raise ValueError("sizes is not for or_and: nodes without edges reach themselves alone")
        results.check_truths(asked.return_predecessors, None)
        return closures(graph, asked, reflexive=True)
    listed, lead = many_graphs.of_array(graph, sizes, asked.no_edge)
    return _of_array(listed, asked, lead)


def _refuse_for_lists(**given: Any) -> None:
    """Raise a TypeError that names what is given and is for arrays of graphs alone."""
    for name, value in given.items():
        if value is not None:
            raise TypeError(f"{name} is for arrays of graphs, not for lists of them")


def _brought(graphs: Sequence[Any], found: Any) -> Any:
    """Return what was found in a list of graphs in the library of each."""
    if isinstance(found, tuple):
        return tuple(_brought(graphs, part) for part in found)
    return [homes.brought(homes.of(one), x) for one, x in zip(graphs, found, strict=True)]


def _truths_read(asked: Asked) -> Asked:
    """Return the record with its truths read, or raise an error for what cannot be asked for."""
    if asked.semiring == "or_and":
        results.refuse_for_truths(asked.unreachable, asked.max_hops)
    return asked._replace(
        directed=checks.truth("directed", asked.directed),
        unweighted=checks.truth("unweighted", asked.unweighted),
        return_predecessors=checks.truth("return_predecessors", asked.return_predecessors),
        overwrite=checks.truth("overwrite", asked.overwrite),
    )


def _by_name(names: list[Any], found: Any, asked: Asked) -> list[named.ShortestPaths]:
    """Return what was found in a list of graphs by the names of their nodes."""
    dist, before = found if asked.return_predecessors else (found, [None] * len(names))
    return [
        named.ShortestPaths(list(range(len(d))) if nodes is None else nodes, d, p)
        for nodes, d, p in zip(names, dist, before, strict=True)
    ]


def _of_list(given: list[Any], asked: Asked) -> Any:
    """Compute the paths in graphs that are read by position."""
    if asked.semiring == "or_and":
        results.check_truths(asked.return_predecessors, None)
        return closures(given, asked, reflexive=True)
    return _in_lists(many_graphs.of_list(given, asked.no_edge), asked)


def of_listed(graphs: Graphs, lead: tuple[int, ...] | None, asked: Asked) -> Any:
    """Compute the best paths in graphs that list their edges.

    Parameters
    ----------
    graphs : Graphs
        From `many_graphs.of_edges`.
    lead : tuple of int or None
        The leading dimensions of the results; None for lists of arrays.
    asked : Asked
        What else `gpudist.apsp` was given.

    Returns
    -------
    dist, predecessors
        Arrays, or lists of arrays.
    """
    semirings.check(asked.semiring)
    asked = _truths_read(asked)
    if asked.no_edge is not None:
        raise ValueError("no_edge is for dense arrays; these graphs list their edges")
    if asked.out is not None and lead is None:
        raise TypeError("out is for graphs of one size, given as n=")
    if asked.semiring != "or_and":
        return _in_lists(graphs, asked) if lead is None else _of_array(graphs, asked, lead)
    results.check_truths(asked.return_predecessors, None)
    one = asked._replace(out=None)
    found = [paths_one.closure(graphs.alone(k), one, True) for k in range(graphs.count)]
    return found if lead is None else np.array(found).reshape(*lead, graphs.n, graphs.n)


# ---------------------------------------------------------------- computing


def _of_array(graphs: Graphs, asked: Asked, lead: tuple[int, ...]) -> Any:
    """Return arrays with the leading dimensions `lead`, lengths in `out` if given."""
    out = asked.out
    if out is not None:
        allowed = (*results.CORE_DTYPES, *results.NARROW)
        if graphs.weights is not None:
            arrays.space_of(graph=graphs.weights, out=out)
        asked = asked._replace(dtype=arrays.out_dtype(out, allowed, asked.dtype))
        arrays.check_out(out, (*lead, graphs.n, graphs.n))
    dist, before = _computed(graphs, asked, lead)
    return dist if before is None else (dist, before)


def _in_lists(graphs: Graphs, asked: Asked) -> Any:
    """Return lists of arrays, one for each graph."""
    dist, before = _computed(graphs, asked, None)
    lengths = graphs.matrices(dist)
    return lengths if before is None else (lengths, graphs.matrices(before))


def _computed(graphs: Graphs, asked: Asked, lead: tuple[int, ...] | None) -> _Results:
    """Return lengths and predecessors or None, of shape (*lead, n, n), or in one row."""
    several_gpus.refuse(asked.orders.device, several_gpus.MANY_GRAPHS)
    orders, out, space = asked.orders.read("apsp"), asked.out, graphs.space
    most = results.read_max_hops(asked.max_hops, asked.unweighted, asked.semiring)
    single = graphs.dtype == "float32"
    name = results.dtype_of(space, single, asked.dtype, asked.semiring)
    none = results.read_unreachable(asked.unreachable, name)
    call = _Call(
        asked.directed,
        asked.unweighted,
        asked.semiring,
        asked.return_predecessors,
        name,
        none,
        most,
        orders,
        lead,
    )
    shape = (graphs.elements,) if lead is None else (*lead, graphs.n, graphs.n)
    like = graphs.weights
    dist = space.empty(shape, name, like=like) if out is None else out
    before = space.empty(shape, "int32", like=like) if call.predecessors else None
    if out is not None and like is not None and arrays.overlap(space, out, like):
        graphs = dataclasses.replace(graphs, weights=space.copy(like))
    if name in results.NARROW:
        rows = _Results(dist.reshape(-1), None if before is None else before.reshape(-1))
        _narrowed(graphs, rows, call)
    else:
        _close(graphs, _Results(dist, before), call)
    return _Results(dist, before)


def _narrowed(graphs: Graphs, rows: _Results, call: _Call) -> None:
    """Compute a part of the graphs at a time in int32, and write it as it is wanted."""
    name = rows.dist.dtype.name
    wide = call._replace(result="int32", none=results.UNREACHABLE)
    step, at = max(1, _CHUNK // max(1, graphs.n**2)), 0
    for first in range(0, graphs.count, step):
        some = graphs.part(first, min(first + step, graphs.count))
        here = slice(at, at := at + some.elements)
        ways = None if rows.before is None else rows.before[here]
        own = _Results(np.empty(some.elements, np.int32), ways)
        _close(some, own, wide, first)
        try:
            results.narrow(own.dist[None], name, call.none, rows.dist[None, here])
        except OverflowError:
            _name_narrow(some, own, name, first, call)
            raise
    limit = np.iinfo(name).max
    _fill_outside(graphs, rows, limit if call.none is None else call.none)


def _name_narrow(graphs: Graphs, rows: _Results, name: str, first: int, call: _Call) -> None:
    """Raise the error of the first graph that has a length that does not fit."""
    for k, exact in enumerate(graphs.matrices(rows.dist)):
        try:
            results.narrow(exact, name, call.none, None)
        except OverflowError as error:
            raise many_graphs.of_graph(error, first + k, call.lead) from None


def _close(graphs: Graphs, rows: _Results, call: _Call, first: int = 0) -> None:
    """Fill the results: side by side what goes so, and the others one by one.

    `first` is the place of the first of these graphs among those that were given.
    """
    value = results.unreachable_of(call.result, graphs.no_edge, call.semiring, call.none)
    device = many_graphs.where_side_by_side(graphs, call.orders, call.semiring)
    doubts = np.zeros(graphs.count) if device else np.full(graphs.count, math.nan)
    if device is None or _side_by_side(graphs, rows, call, doubts, value, device):
        _one_by_one(graphs, rows, call, doubts, value, first)
    if call.most is not None:
        results.cap(rows.dist, rows.before, call.most, value)


def _side_by_side(
    graphs: Graphs, rows: _Results, call: _Call, doubts: Any, unreachable: float, device: str
) -> bool:
    """Have the core compute graphs side by side, and tell whether something is left.

    `doubts` says what, and why: it is NaN of a graph that has to be done by itself, and 0 of one
    that nothing speaks against.
    """
    one_each = graphs.first_edges is not None and graphs.weights is None
    space, weights = graphs.space, graphs.weights
    on_host = space is arrays.HOST
    with watched(call.orders.progress, graphs.steps, "apsp") as watch:
        left: bool = _core.apsp_batch(
            None if weights is None else arrays.flat(space, weights, graphs.dtype or "", 2),
            arrays.flat(space, rows.dist, call.result, 1),
            None if rows.before is None else arrays.flat(space, rows.before, "int32", 1),
            doubts,
            graphs.n,
            graphs.packed,
            graphs.sizes,
            graphs.first_edges,
            graphs.tails,
            graphs.heads,
            graphs.rule,
            0.0 if graphs.no_edge is None else graphs.no_edge,
            call.directed,
            call.unweighted or one_each,
            unreachable,
            device=device if on_host else call.orders.device,
            stream=0 if on_host else space.stream(weights),
            ordered=space.ordered,
            semiring=call.semiring,
            progress=watch,
            max_memory=call.orders.max_memory,
        )
    return left


def _one_by_one(
    graphs: Graphs, rows: _Results, call: _Call, doubts: Any, unreachable: float, first: int
) -> None:
    """Do the graphs by themselves that `doubts` names, unless what it says can be ruled out."""
    length = graphs.each(rows.dist.reshape(-1))
    way = None if rows.before is None else graphs.each(rows.before.reshape(-1))
    for k in np.flatnonzero(doubts != 0).tolist():
        if call.none is None and not math.isnan(doubts[k]):
            best = 0.0 - length(k) if call.semiring == "max_plus" else length(k)
            if not cycles.may_hide(best, doubts[k]):
                continue
        _alone(graphs, k, first + k, call, length(k), None if way is None else way(k))
    if graphs.space is arrays.HOST:
        _fill_outside(graphs, rows, unreachable)
        return
    for row, value in zip(rows, (unreachable, results.NO_PREDECESSOR), strict=True):
        if row is not None and graphs.sizes is not None:
            whole = row.reshape(graphs.count, graphs.n, graphs.n)
            for k in np.flatnonzero(np.isnan(doubts)).tolist():
                n = graphs.size(k)
                whole[k, n:, :] = value
                whole[k, :n, n:] = value


def _alone(graphs: Graphs, k: int, place: int, call: _Call, lengths: Any, way: Any) -> None:
    """Do graph k by itself; its errors say which graph they are about."""
    graph = graphs.alone(k)
    asked = Asked(
        no_edge=None if isinstance(graph, named.EdgeList) else graphs.no_edge,
        directed=call.directed,
        unweighted=call.unweighted,
        return_predecessors=call.predecessors,
        dtype=call.result,
        semiring=call.semiring,
        unreachable=call.none,
        orders=call.orders._replace(progress=False),
    )
    try:
        found = paths_one.paths(graph, asked)
    except (ValueError, OverflowError, MemoryError) as error:
        raise many_graphs.of_graph(error, place, call.lead) from None
    except Exception as error:
        if hasattr(error, "cycle"):  # NegativeCycleError, whose base depends on SciPy
            raise many_graphs.of_graph(error, place, call.lead) from None
        raise
    if way is not None:
        found, way[...] = found
    lengths[...] = found


def _fill_outside(graphs: Graphs, rows: _Results, unreachable: float) -> None:
    """Fill what pads the results of graphs that are smaller than others, if something does."""
    if graphs.packed or graphs.sizes is None:
        return
    mask = _outside(graphs.sizes, graphs.n)
    for row, value in zip(rows, (unreachable, results.NO_PREDECESSOR), strict=True):
        if row is not None:
            row.reshape(graphs.count, graphs.n, graphs.n)[mask] = value


def _outside(sizes: Any, n: int) -> Any:
    """Return what pads matrices of n rows of which so many are in use."""
    outside = np.arange(n) >= sizes[:, None]
    return outside[:, :, None] | outside[:, None, :]


# ---------------------------------------------------------------- other operations


def closures(graph: Any, asked: Asked, reflexive: Any, sizes: Any = None) -> Any:
    """Find out what can be reached in each graph of an array or of a list.

    Parameters
    ----------
    graph : array_like, shape (..., n, n), or list of graphs
        The graphs.
    asked : Asked
        What else was given; its fields about lengths are not looked at.
    reflexive : bool
        Whether every node reaches itself.
    sizes : array_like of int, shape (...), optional
        How many nodes of each are in use.

    Returns
    -------
    bool array, or list of them
        Which nodes can be reached from which.
    """
    if many_graphs.is_list(graph):
        _refuse_for_lists(out=asked.out, sizes=sizes)
        return [_closure(one, asked, reflexive, k) for k, one in enumerate(graph)]
    orders = asked.orders.read("transitive_closure")
    kernel, device, options, progress, max_memory = orders
    no_edge, directed = number_or_none(asked.no_edge), checks.truth("directed", asked.directed)
    reflexive = checks.truth("reflexive", reflexive)
    many_graphs.refuse_uneven(graph)
    space = arrays.space_of(graph=graph, out=asked.out)
    weights = _to_close(graph, no_edge) if space is arrays.HOST else space.read(graph, "graph")[0]
    *lead, n, columns = weights.shape
    if n != columns or (sizes is not None and not lead):
        wanted = "square matrices" if sizes is None else "of shape (..., n, n) with sizes="
        raise ValueError(f"graph must be {wanted}, got shape {tuple(weights.shape)}")
    listed = many_graphs.sizes_in_use(sizes, tuple(lead), n)
    if space is not arrays.HOST:
        return _closures_on_device(space, weights, asked._replace(orders=orders), reflexive, listed)
    out = stacks.room(asked.out, weights.shape, "bool")
    outside = None
    if listed is not None:
        outside = _outside(listed, n).reshape(weights.shape)
        weights, no_edge = _edges_of(weights, no_edge) & ~outside, None
    (weights,) = arrays.apart(arrays.HOST, {"graph": weights}, out)
    if kernel == "reference":
        for index in np.ndindex(*lead):
            one = asked._replace(no_edge=no_edge, out=out[index], orders=orders)
            paths_one.closure(weights[index], one, reflexive)
        return _cleared(out, outside)
    with watched(progress, math.prod(lead) * n**3, "transitive_closure") as watch:
        _core.closure_batch(
            weights,
            out,
            "zero" if no_edge is None else "sentinel",
            0.0 if no_edge is None else no_edge,
            directed,
            reflexive,
            kernel,
            device,
            options=options,
            progress=watch,
            max_memory=max_memory,
        )
    return _cleared(out, outside)


def _edges_of(weights: Any, no_edge: float | None) -> Any:
    """Return where there are edges in arrays on the host, as the core reads them."""
    from gpudist import reference

    if weights.dtype.name == "bool":
        return weights
    rule = "zero" if no_edge is None else "sentinel"
    return reference.is_edge(weights, rule, 0.0 if no_edge is None else no_edge)


def _cleared(out: Any, outside: Any) -> Any:
    """Return results on the host in which nothing is reached outside, if something is there."""
    if outside is not None:
        out[outside] = False
    return out


def _closures_on_device(
    space: arrays.Space, weights: Any, asked: Asked, reflexive: bool, listed: Any
) -> Any:
    """Close one graph after the other on their device, without waiting for it in between."""
    shape = tuple(weights.shape)
    out = asked.out
    if out is None:
        out = space.empty(shape, "bool", like=weights)
    else:
        arrays.out_dtype(out, ("bool",))
        arrays.check_out(out, shape)
    for k, index in enumerate(np.ndindex(*shape[:-2])):
        if listed is None:
            paths_one.closure(weights[index], asked._replace(out=out[index]), reflexive)
            continue
        n, one = int(listed[k]), out[index]
        found = paths_one.closure(weights[index][:n, :n], asked._replace(out=None), reflexive)
        one[...] = False
        space.assign(one[:n, :n], found)
    return out


def _to_close(graph: Any, no_edge: float | None) -> Any:
    """Read an array of graphs as the core takes it for closures, in this machine's byte order."""
    if isinstance(graph, np.ma.MaskedArray):
        if no_edge is not None:
            raise ValueError("no_edge is for plain arrays; a masked array masks what is no edge")
        weights = np.isfinite(graph.data) & ~np.ma.getmaskarray(graph)
    else:
        weights = arrays.HOST.array(graph, "graph")
    if weights.dtype.name == "bool" and no_edge is not None:
        raise ValueError("no_edge is for numbers; in an array of bool False is no edge")
    kept = weights.dtype.name in ("bool", *results.CORE_DTYPES)
    return np.asarray(weights, weights.dtype.name if kept else "float64")


def _closure(graph: Any, asked: Asked, reflexive: Any, k: int) -> Any:
    """Find out what can be reached in element k of a list: a graph, or an array of them."""
    one = closures if many_graphs.are(graph) else paths_one.closure
    try:
        return homes.brought(homes.of(graph), one(graph, asked, reflexive))
    except (TypeError, ValueError, MemoryError) as error:
        raise many_graphs.of_graph(error, k, None) from None
