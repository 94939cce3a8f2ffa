"""Paths of one graph: by the core, by levels of hops, by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpudist import _core, arrays, checks, named, results, semirings, several_gpus
from gpudist.paths_call import (
    Asked,
    Call,
    directed_of,
    dtype_of_out,
    number_or_none,
    read,
    read_graph,
)
from gpudist.progress import watched


def paths(graph: Any, asked: Asked) -> Any:
    """Compute the lengths of the best paths in one graph.

    Parameters
    ----------
    graph : any
        What `named.take` returns.
    asked : Asked
        What else was given.

    Returns
    -------
    dist, predecessors : array
        What `gpudist.apsp` returns, on the host arrays of NumPy.

    Raises
    ------
    TypeError, ValueError, OverflowError, MemoryError, gpudist.DeviceError
        As for `gpudist.apsp`.
    """
    if asked.semiring == "or_and":
        results.check_truths(asked.return_predecessors, asked.dtype)
        results.refuse_for_truths(asked.unreachable, asked.max_hops)
        return closure(graph, asked, reflexive=True)
    return _lengths(read(graph, asked))


def closure(graph: Any, asked: Asked, reflexive: Any) -> Any:
    """Find out what can be reached in one graph.

    Parameters
    ----------
    graph : any
        What `gpudist.transitive_closure` takes for one.
    asked : Asked
        What else was given; its fields about lengths are not looked at.
    reflexive : bool
        Whether every node reaches itself.

    Returns
    -------
    array of bool
        The closure.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `gpudist.transitive_closure`.
    """
    kernel, device, options, progress, max_memory = asked.orders.read("transitive_closure")
    no_edge, out = number_or_none(asked.no_edge), asked.out
    listed = named.take(graph, strict=False)[0]
    read_as = read_graph(listed, no_edge, truths=True)
    space, weights, _, rule, sentinel = read_as
    directed, reflexive = directed_of(listed, asked.directed), checks.truth("reflexive", reflexive)
    if out is not None:
        dtype_of_out(read_as, out, ("bool",))
    if kernel == "reference":
        return _reference_closure(space, weights, (rule, sentinel, directed), reflexive, out)
    n = read_as.n
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


def _lengths(call: Call) -> Any:
    """Take the way that finds these lengths."""
    if call.result in results.NARROW:
        return _narrowed(call)
    if call.counts_hops:
        lengths = _hops(call)
        if lengths is not None:
            return lengths
    found = _reference(call) if call.orders.kernel == "reference" else _compute(call)
    if call.most is not None:
        dist, before = found if call.predecessors else (found, None)
        results.cap(dist, before, call.most, call.unreachable)
    return found


def _narrowed(call: Call) -> Any:
    """Compute in int32, and write the lengths as they are wanted."""
    wide = call._replace(result="int32", none=results.UNREACHABLE, out=None, overwrite=False)
    found = _lengths(wide)
    dist, before = found if call.predecessors else (found, None)
    dist = results.narrow(dist, call.result, call.none, call.out)
    return dist if before is None else (dist, before)


def _hops(call: Call) -> Any:
    """Count hops level by level; None where that would take longer than all pairs by weights.

    Of several GPUs one does it: sets of bits are so much quicker that the bus is what binds.
    """
    (space, weights, dtype, rule, sentinel), out, n = call.graph, call.out, call.graph.n
    device = several_gpus.first_of(call.orders.device, space)[0]
    given = weights
    if out is None:
        out = space.empty((n, n), call.result, like=weights)
    elif arrays.overlap(space, weights, out):  # it may be given up
        if space is not arrays.HOST:
            return None
        given = weights.copy()
    with watched(call.orders.progress, n**3, "apsp") as watch:
        done = _core.hops(
            space.operand(given, dtype, (n, n)),
            space.operand(out, call.result, (n, n)),
            rule,
            sentinel,
            call.directed,
            call.unreachable,
            n if call.most is None else call.most,
            device=device,
            stream=space.stream(weights),
            ordered=space.ordered,
            progress=watch,
            max_memory=call.orders.max_memory,
        )
    if done:
        return out
    if given is not weights:
        weights[...] = given
    return None


def _compute(call: Call) -> Any:
    """Have the core compute, and exact sums judge where rounding may have spoiled the result."""
    space, weights, dtype, rule, sentinel = call.graph
    n, value, out = call.graph.n, call.unreachable, call.out
    if out is not None:
        if not arrays.in_place(space, weights, out):
            (weights,) = arrays.apart(space, {"graph": weights}, out)
    elif call.overwrite and _fits(weights, call.result):
        out = weights
    else:
        out = space.empty((n, n), call.result, like=weights)
    pred = space.empty((n, n), "int32", like=weights) if call.predecessors else None
    kernel, device, options, progress, max_memory = call.orders
    first, devices = several_gpus.holders(device, space)
    with watched(progress, n**3, "apsp") as watch:
        on_cycle, rounding = _core.apsp(
            space.operand(weights, dtype, (n, n)),
            space.operand(out, call.result, (n, n)),
            None if pred is None else space.operand(pred, "int32", (n, n)),
            rule,
            sentinel,
            call.directed,
            call.unweighted,
            value,
            kernel,
            first,
            space.stream(weights),
            space.ordered,
            options,
            call.semiring,
            watch,
            max_memory,
            devices,
        )
    if on_cycle or rounding:
        lost = arrays.in_place(space, weights, out) or not hasattr(weights, "__getitem__")
        if call.none is not None and not lost:  # what is looked for are lengths
            graph = call.graph._replace(weights=weights)
            usual = call._replace(graph=graph, none=None, out=out, overwrite=False)
            found = _compute(usual)
            out[out == usual.unreachable] = value
            return found
        from gpudist import exactly

        known = None if lost else weights
        exactly.settle(space, known, call.how, (on_cycle, rounding), (out, pred, value))
    return (out, pred) if call.predecessors else out


def _fits(weights: Any, dtype: str) -> bool:
    """Tell whether a result may take the place of the weights."""
    return (
        isinstance(weights, np.ndarray)
        and weights.dtype.name == dtype
        and weights.dtype.isnative
        and weights.flags.c_contiguous
        and weights.flags.writeable
        and weights.flags.aligned
    )


def _reference(call: Call) -> Any:
    from gpudist import reference

    (space, weights), how, semiring = call.graph[:2], call.how, call.semiring
    value = call.unreachable
    arrays.refuse_devices(space, 'kernel="reference"')
    _check_weights(call)
    dist, pred = reference.apsp(reference.edges(weights, *how), semiring)
    worst = semirings.neutral(semiring, "float64")
    if semiring.endswith("plus"):
        from gpudist import exactly

        found = reference.on_cycle(dist, semiring), math.inf
        exactly.settle(arrays.HOST, weights, how, found, (dist, pred, worst))
    none = dist == worst
    if call.result == "int32":
        too_long = np.isfinite(dist) & (np.abs(dist) >= results.LARGEST_INT32_PATH)
        results.refuse_long(int(too_long.sum()))
        dist[dist == -worst] = semirings.neutral(semiring, call.result, opposite=True)
    dist[none] = value
    out = call.out
    if out is None:
        out = dist.astype(call.result)
    else:
        out[...] = dist
    return (out, pred) if call.predecessors else out


def _check_weights(call: Call) -> None:
    """Refuse weights that the call does not take, as the core does while it reads them."""
    from gpudist import reference

    if call.unweighted:
        return
    _, weights, _, rule, sentinel = call.graph
    known = np.where(reference.is_edge(weights, rule, sentinel), weights, 0).astype(np.float64)

    def place(of: Callable[[Any], Any]) -> str:
        i, j = np.argwhere(of(known))[0]
        return f"graph[{i}, {j}]"

    facts = results.Facts(
        bool((known < 0).any()),
        bool((known != np.floor(known)).any()),
        float(np.abs(known).max(initial=0)),
    )
    results.check_weights(rule, sentinel, call.result, facts, place)


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
