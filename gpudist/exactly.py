"""What becomes of shortest paths where the rounding of sums makes or hides a negative cycle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpudist import _core, arrays, cycles, reference
from gpudist.errors import negative_cycle_error

_How = tuple[str, float, bool, bool, str]


def settle(
    space: arrays.Space,
    weights: Any,
    how: _How,
    found: tuple[list[int], float],
    results: tuple[Any, Any, float],
) -> None:
    """Raise the error if a cycle is negative by exact sums; mend what rounding spoiled.

    Parameters
    ----------
    space : Space
        Where the arrays are. What rounding may have hidden is looked for on the host alone.
    weights : array, shape (n, n), or None
        The graph as given; None if it is no more, or cannot be read here: then what was found
        stands.
    how : tuple
        What `reference.edges` takes beside the weights.
    found : list of int, float
        The nodes that seem to be on negative cycles, and by how much a cycle can seem longer than
        it is.
    results : array, int32 array or None, float
        The lengths, predecessors, and what stands for no path; filled anew where rounding spoiled
        them.

    Raises
    ------
    gpudist.NegativeCycleError
        There is a negative cycle, in max_plus a positive one.
    """
    nodes, rounding = found
    dist, pred, unreachable = results
    semiring = how[-1]
    if weights is None:
        if nodes:
            raise negative_cycle_error()(nodes, [], semiring)
        return
    if nodes:
        w = _judge_found(space, weights, how, nodes)
    elif space is not arrays.HOST or not cycles.may_hide(_signed(dist, semiring), rounding):
        return
    else:
        _judge_hidden(weights, how, dist)
        if pred is None or len(dist) > cycles.MOST_FOLLOWED or not cycles.runs_in_circles(pred):
            return
        w = _signed(reference.edges(weights, *how), semiring)
    _mend(space, w, semiring, dist, pred, unreachable)


def _judge_found(space: arrays.Space, weights: Any, how: _How, found: list[int]) -> Any:
    """Raise the error unless rounding alone made all that was found; return the weights.

    Nodes are on negative cycles where a path leads to one and back.
    """
    semiring, n = how[-1], weights.shape[0]
    nodes = list(range(n)) if n <= cycles.MOST_FOLLOWED else found
    if len(nodes) > cycles.MOST_FOLLOWED:
        raise negative_cycle_error()(found, [], semiring)
    if hasattr(weights, "copy_to_host"):  # Numba's arrays take no lists of indices
        weights = weights.copy_to_host()
    w = _signed(reference.edges(space.host(weights[nodes][:, nodes]), *how), semiring)
    reached = arrays.HOST.empty(w.shape, "bool", like=None)
    _core.closure(np.isfinite(w), reached, "zero", 0.0, True, True, device="cpu")
    part = (reached & reached.T).argmax(axis=1)  # the first node that leads there and back
    at = np.searchsorted(nodes, found)
    sure: set[int] = set()
    cycle: list[int] = []
    for number in np.unique(part[at]):
        inside = np.flatnonzero(part == number)
        here = [nodes[inside[i]] for i in cycles.judge(w[np.ix_(inside, inside)]).cycle]
        if here:
            cycle = cycle or here
            sure.update(here, (nodes[i] for i in at[part[at] == number]))
    if sure or len(nodes) < n:
        raise negative_cycle_error()(sorted(sure) or found, cycle, semiring)
    return w


def _judge_hidden(weights: Any, how: _How, dist: Any) -> None:
    """Raise the error for a negative cycle that rounding hid."""
    rule, sentinel, _, unweighted, semiring = how

    def rows(i: int, j: int) -> Any:
        own = reference.edge_rows(weights[i:j], rule, sentinel, unweighted, semiring)
        return _signed(own, semiring)

    best = dist.max(axis=0) if semiring == "max_plus" else dist.min(axis=0)
    cycle = cycles.hidden_cycle(rows, _signed(best.astype(np.float64), semiring))
    if cycle:
        raise negative_cycle_error()(sorted(cycle), cycle, semiring)


def _mend(
    space: arrays.Space, w: Any, semiring: str, dist: Any, pred: Any, unreachable: float
) -> None:
    """Fill the results from weights that exact potentials make nonnegative: those are safe."""
    verdict = cycles.judge(w)
    if verdict.cycle:
        raise negative_cycle_error()(sorted(verdict.cycle), verdict.cycle, semiring)
    costs, added = cycles.reduced(w, verdict)
    lengths = arrays.HOST.empty(costs.shape, "float64", like=None)
    before = arrays.HOST.empty(costs.shape, "int32", like=None)
    # No path of what is nonnegative has anything to be judged.
    _core.apsp(costs, lengths, before, "infinite", 0.0, True, False, math.inf, device="cpu")
    lengths = _signed(lengths + added, semiring)
    lengths[~np.isfinite(lengths)] = unreachable
    space.assign(dist, lengths.astype(space.dtype_name(dist)))
    if pred is not None:
        space.assign(pred, before)


def _signed(lengths: Any, semiring: str) -> Any:
    """Turn lengths whose longest is the best into such whose shortest is, and back."""
    return 0.0 - lengths if semiring == "max_plus" else lengths
