"""Finding a cycle that never stops paying."""

from __future__ import annotations

from typing import Any

import numpy as np


def negative_cycle(w: Any) -> list[int]:
    """Find a cycle of negative length.

    Parameters
    ----------
    w : ndarray of float64, shape (n, n)
        Weights of edges, inf for none.

    Returns
    -------
    list of int
        The nodes in order, each once; empty if rounding hides the cycle.
    """
    n = len(w)
    heads, tails = np.nonzero(np.isfinite(w.T))  # sorted by head
    weights = w[tails, heads]
    first = np.flatnonzero(np.diff(heads, prepend=-1))
    if not len(first):
        return []
    # Bellman and Ford's rounds from everywhere at once. A node's predecessor is the one that last
    # made it nearer, so a circle of predecessors has negative length; there is one before round n.
    length, before, ends = np.zeros(n), np.full(n, -1), heads[first]
    ways = np.diff(first, append=len(heads))
    for _ in range(n):
        offers = length[tails] + weights
        best = np.minimum.reduceat(offers, first)
        nearer = best < length[ends]
        if not nearer.any():
            return []
        winning = np.flatnonzero(offers == np.repeat(best, ways))
        winning = winning[np.searchsorted(winning, first)]  # the first for each head
        before[ends[nearer]] = tails[winning[nearer]]
        length[ends[nearer]] = best[nearer]
        circle = _circle(before)
        if circle:
            return circle
    return []


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
