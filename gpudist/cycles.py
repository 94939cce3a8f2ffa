"""Which cycles never stop paying, by exact sums of the weights.

Rounded sums can make a cycle of length 0 look negative, and hide one that is. What decides is
arithmetic in whole numbers: every weight is a multiple of one power of two. Few edges go through
it. With potentials p, about the lengths of shortest paths, an edge costs w + p[tail] - p[head];
around a cycle the potentials cancel, and all costs are about 0 or more. So an edge that costs more
than the negative costs of all nodes make up for is on no negative cycle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# A cycle is looked for among at most so many nodes: that takes NumPy some seconds, and 500 MB.
MOST_FOLLOWED = 3000

# At most so many elements of a matrix pass at a time.
_CHUNK = 1 << 18

# Sums of three numbers below this stay within the range.
_LARGE = 2.0**1021


class Verdict(NamedTuple):
    """What exact sums say."""

    cycle: list[int]
    """The nodes of a negative cycle in order, each once; empty if there is none."""
    potentials: Any
    """Without a cycle, whole numbers p (object) so that no edge has w + p[tail] < p[head]; they
    count units of 2**exponent."""
    exponent: int


def judge(w: Any) -> Verdict:
    """Find a cycle of negative length, or show that there is none.

    Parameters
    ----------
    w : ndarray of float64, shape (n, n)
        Weights of edges, inf for none.

    Returns
    -------
    Verdict
        A cycle, or potentials.
    """
    n = len(w)
    heads, tails = np.nonzero(np.isfinite(w.T))  # sorted by head
    with np.errstate(over="ignore", invalid="ignore"):
        circle, lengths = _relax(tails, heads, w[tails, heads], np.zeros(n), n)
    # fsum rounds once, at the end: the sign is right.
    if circle and math.fsum(w[circle, circle[1:] + circle[:1]]) < 0:
        return Verdict(circle, None, 0)
    lengths = np.where(np.isfinite(lengths), lengths, 0.0)
    return _judge_exactly(*_dubious(lambda i, j: w[i:j], lengths), lengths)


def hidden_cycle(rows: Callable[[int, int], Any], lengths: Any) -> list[int]:
    """Find a cycle of negative length which rounding hid from all-pairs shortest paths.

    Parameters
    ----------
    rows : callable
        Gives the rows of the matrix of weights from one index to another, as float64, inf for no
        edge.
    lengths : ndarray of float64, shape (n,)
        How near each node is to the one that is nearest to it, as computed.

    Returns
    -------
    list of int
        The nodes of such a cycle in order, each once; empty if there is none, or if so many edges
        might be on one that they are not followed.
    """
    lengths = np.where(np.isfinite(lengths), lengths, 0.0)
    tails, heads, weights = _dubious(rows, lengths)
    if len(tails) > MOST_FOLLOWED**2:
        return []
    return _judge_exactly(tails, heads, weights, lengths).cycle


def may_hide(dist: Any, rounding: float) -> bool:
    """Tell whether two nodes are as near to each other, there and back, as rounding can hide.

    Parameters
    ----------
    dist : ndarray, shape (n, n)
        The computed lengths, or their negatives.
    rounding : float
        By how much a cycle can seem longer than it is.

    Returns
    -------
    bool
        Whether a cycle of two nodes or more may be negative.
    """
    n = len(dist)
    step = max(_CHUNK // max(n, 1), 1)
    with np.errstate(invalid="ignore"):  # inf - inf
        for i in range(0, n, step):
            both = dist[i : i + step] + dist[:, i : i + step].T
            if np.count_nonzero(both <= rounding) > len(both):  # more than the diagonal
                return True
    return False


def runs_in_circles(pred: Any) -> bool:
    """Tell whether following predecessors from some node does not end.

    Parameters
    ----------
    pred : ndarray of int, shape (n, n)
        Predecessors, negative for none.

    Returns
    -------
    bool
        Whether there is a circle among those of a row.
    """
    n = len(pred)
    last = (pred < 0).ravel()
    first = np.arange(n)[:, None] * n  # of each row, flat
    up = np.where(pred < 0, np.arange(n), pred) + first
    up = up.ravel()
    for _ in range(n.bit_length()):  # twice as far each turn
        if last[up].all():
            return False
        up = up[up]
    return not last[up].all()


def reduced(w: Any, verdict: Verdict) -> tuple[Any, Any]:
    """Compute what edges cost by exact potentials, and what these add to lengths of paths.

    Parameters
    ----------
    w : ndarray of float64, shape (n, n)
        Weights of edges, inf for none.
    verdict : Verdict
        Without a cycle.

    Returns
    -------
    costs, added : ndarrays of float64, shape (n, n)
        Costs, not negative, inf for no edge; and ``p[j] - p[i]``; both rounded once.
    """
    finite = np.isfinite(w)
    least = min(verdict.exponent, _exponent(w[finite]))
    p = verdict.potentials * (1 << (verdict.exponent - least))
    costs, added = np.full(w.shape, np.inf), np.empty(w.shape)
    for i, edges in enumerate(finite):
        costs[i, edges] = _floats(_units(w[i, edges], least) + p[i] - p[edges], least)
        added[i] = _floats(p - p[i], least)
    return costs, added


def _dubious(rows: Callable[[int, int], Any], p: Any) -> tuple[Any, Any, Any]:
    """List the edges that may be on a negative cycle by the head: tails, heads and weights.

    A cycle leaves each of its nodes by one edge, so costs below 0 come to no less than what the
    nodes' cheapest edges cost, and an edge of more than that is on no negative cycle.
    """
    n = len(p)
    step = max(_CHUNK // max(n, 1), 1)
    cheapest, most = np.empty(n), float(np.abs(p).max(initial=0))
    with np.errstate(over="ignore"):
        for i in range(0, n, step):
            w = rows(i, i + step)
            cheapest[i : i + step] = (w + p[i : i + step, None] - p).min(axis=1)
            most = max(most, float(np.abs(w).max(initial=0, where=np.isfinite(w))))
        slack = 2.0**-50 * most  # more than three roundings of at most 3 * most take
        made_up = float(np.maximum(slack - cheapest, 0).sum()) * (1 + 2.0**-20)
        limit = made_up + slack if most < _LARGE else np.inf
        found = []
        for i in range(0, n, step):
            w = rows(i, i + step)
            edges = (w + p[i : i + step, None] - p <= limit) & np.isfinite(w)
            tails, heads = np.nonzero(edges)
            found.append((tails + i, heads, w[edges]))
    tails, heads, weights = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(heads, kind="stable")
    return tails[order], heads[order], weights[order]


def _judge_exactly(tails: Any, heads: Any, weights: Any, lengths: Any) -> Verdict:
    """Relax these edges, sorted by head, from these lengths on, in whole numbers."""
    least = min(_exponent(weights), _exponent(lengths))
    w, start = _units(weights, least), _units(lengths, least)
    largest = max(map(abs, start), default=0) + (len(start) + 1) * max(map(abs, w), default=0)
    if largest < 2**62:
        w, start = w.astype(np.int64), start.astype(np.int64)
    circle, p = _relax(tails, heads, w, start, None)
    return Verdict(circle, None, 0) if circle else Verdict([], p.astype(object), least)


def _exponent(x: Any) -> int:
    """Return the largest e so that all are multiples of 2**e, or 0 for zeros."""
    bits, exponents = _split(x[x != 0])
    last = np.frexp((bits & -bits).astype(np.float64))[1] - 1
    return int((exponents + last).min(initial=1024)) if len(bits) else 0


def _split(x: Any) -> tuple[Any, Any]:
    """Return whole numbers and the powers of two by which they are multiplied."""
    fractions, exponents = np.frexp(x)
    return np.ldexp(fractions, 53).astype(np.int64), exponents.astype(np.int64) - 53


def _units(x: Any, exponent: int) -> Any:
    """Return x / 2**exponent, which is whole, as Python's integers."""
    bits, exponents = _split(x)
    up = np.where(bits == 0, 0, exponents - exponent)
    lower = np.maximum(-up, 0)  # by which only zeros are shifted out
    return (bits >> lower).astype(object) << np.maximum(up, 0).astype(object)


def _floats(units: Any, exponent: int) -> Any:
    """Return the float64 nearest to each of units * 2**exponent."""
    if exponent >= 0:
        return (units * (1 << exponent)).astype(np.float64)
    return (units / (1 << -exponent)).astype(np.float64)


def _relax(
    tails: Any, heads: Any, weights: Any, length: Any, rounds: int | None
) -> tuple[list[int], Any]:
    """Return a circle of predecessors, or none when nothing gets nearer, and the lengths.

    Bellman and Ford's rounds from everywhere at once, over edges sorted by head. A node's
    predecessor is the one that last made it nearer, so a circle of predecessors has negative length
    if sums are exact; there is one in the end unless all comes to rest. `rounds` limits them where
    sums are rounded.
    """
    first = np.flatnonzero(np.diff(heads, prepend=-1))
    before, ends = np.full(len(length), -1), heads[first]
    ways = np.diff(first, append=len(heads))
    while len(first) and rounds != 0:
        rounds = None if rounds is None else rounds - 1
        offers = length[tails] + weights
        best = np.minimum.reduceat(offers, first)
        nearer = (best < length[ends]).astype(bool)
        if not nearer.any():
            break
        winning = np.flatnonzero(offers == np.repeat(best, ways))
        winning = winning[np.searchsorted(winning, first)]  # the first for each head
        before[ends[nearer]] = tails[winning[nearer]]
        length[ends[nearer]] = best[nearer]
        circle = _circle(before)
        if circle:
            return circle, length
    return [], length


def _circle(before: Any) -> list[int]:
    """Return the nodes of a circle of predecessors, in the direction of the edges, if any."""
    n = len(before)
    ahead = np.append(before, n)  # the place after the last stands for no predecessor
    ahead[ahead < 0] = n
    for _ in range(n.bit_length()):
        ahead = ahead[ahead]
    on = ahead[ahead < n]
    if not len(on):
        return []
    circle = [int(on[0])]
    while (node := int(before[circle[-1]])) != circle[0]:
        circle.append(node)
    return circle[::-1]
