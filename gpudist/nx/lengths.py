"""All path lengths of a NetworkX graph, where they are what NetworkX would find."""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx
import numpy as np

from gpudist import errors, paths, spreading
from gpudist.nx import graphs

# Up to here float32 and float64 hold every whole number, so no sum of whole weights is rounded.
_WHOLE_IN_FLOAT32: Final = 2**24
_WHOLE_IN_FLOAT64: Final = 2**53


@dataclass(frozen=True, slots=True)
class Lengths:
    """All path lengths of a graph, in the order of `nodes`, and the predecessors if asked for.

    If `whole`, the lengths are whole numbers, which NetworkX gives as int.
    """

    nodes: list[Any]
    lengths: Any
    predecessors: Any
    whole: bool

    def plain(self, lengths: Any) -> Any:
        """Return some of the lengths as Python's numbers: int or float, and inf for no path."""
        if not self.whole:
            return lengths.tolist()
        if np.isfinite(lengths).all():
            return lengths.astype(np.int64).tolist()
        return [int(x) if x < np.inf else x for x in lengths.tolist()]

    def connected(self) -> bool:
        """Say whether there is a path between any two nodes."""
        return bool(self.lengths.max() < np.inf)

    def total(self) -> Any:
        """Return the sum of the lengths, which must be finite; exact if whole."""
        largest = float(max(self.lengths.max(), -self.lengths.min()))
        if self.whole and self.lengths.size * largest >= _WHOLE_IN_FLOAT64:
            return sum(sum(self.plain(row)) for row in self.lengths)
        return self.plain(self.lengths.sum(dtype=np.float64))


def all_lengths(
    graph: Any,
    weight: Any,
    *,
    nodes: list[Any] | None = None,
    missing: float = 1,
    negative: bool = False,
    hidden: bool = False,
    predecessors: bool = False,
) -> Lengths:
    """Compute all paths, or raise NotImplementedError where NetworkX's answer would be another.

    `missing` is the weight of an edge that has none. A search that meets a negative weight may
    raise or not, as the order has it, so these are only taken if `negative`. A weight of None
    hides its edge if `hidden`, and is refused else.
    """
    nodes = list(graph) if nodes is None else nodes
    tails, heads, given = graphs.edges(graph, nodes, weight, missing)
    if hidden:
        seen = [i for i, w in enumerate(given) if w is not None]
        tails, heads, given = tails[seen], heads[seen], [given[i] for i in seen]
    weights, whole, bound = _checked(given, len(nodes))
    if not negative and weights.min(initial=0) < 0:
        raise NotImplementedError("what a search finds with negative weights is up to NetworkX")
    dtype = "float32" if whole and bound < _WHOLE_IN_FLOAT32 else "float64"
    try:
        found = paths.apsp(
            spreading.spread(len(nodes), tails, heads, weights, dtype),
            no_edge=np.inf,
            directed=graph.is_directed(),
            unweighted=weight is None,
            # Exact sums, which decide near cycles of length 0, need the weights as they were.
            overwrite=weights.min(initial=0) >= 0,
            return_predecessors=predecessors,
        )
    except MemoryError as error:  # a search from each node takes less
        raise NotImplementedError(str(error)) from error
    except errors.negative_cycle_error() as error:
        on_cycle = [nodes[i] for i in error.nodes]  # type: ignore[attr-defined]
        raise nx.NetworkXUnbounded(f"Negative cycle in nodes {on_cycle}") from error
    lengths, before = found if predecessors else (found, None)
    return Lengths(nodes, lengths, before, whole)


def _checked(given: list[Any], n: int) -> tuple[Any, bool, float]:
    """Return the weights, whether all are whole, and a bound of what a path of theirs weighs."""
    kinds = set(map(type, given))
    whole = [issubclass(kind, numbers.Integral) for kind in kinds]
    for kind in kinds:
        # A float32 of NumPy's is no float: sums of those are rounded to it.
        if not issubclass(kind, float | numbers.Integral):
            raise NotImplementedError(f"weights that are a {kind.__name__} are left to NetworkX")
    try:
        weights = np.array(given, dtype=np.float64)
    except OverflowError:
        weights = np.array([np.inf])
    bound = n * float(np.abs(weights).max(initial=0))
    # NaN fails the comparison as well. An infinite weight would be a path to NetworkX, none to us.
    if not bound < (_WHOLE_IN_FLOAT64 if any(whole) else sys.float_info.max):
        raise NotImplementedError("weights that are too large to add up are left to NetworkX")
    return weights, all(whole), bound
