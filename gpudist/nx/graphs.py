"""The edges of a NetworkX graph, as arrays. Nothing here imports NetworkX."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import numpy as np


def is_graph(thing: Any) -> bool:
    """Say whether this is a NetworkX graph; where NetworkX was not imported there is none."""
    networkx = sys.modules.get("networkx")
    return isinstance(thing, getattr(networkx, "Graph", ()))


def edges(graph: Any, nodes: list[Any], weight: Any, missing: float) -> tuple[Any, Any, list[Any]]:
    """Return the edges' ends, as positions in `nodes`, and their weights, as they are stored.

    An edge without the attribute `weight` has the weight `missing`; with `weight` None every edge
    has. An undirected edge is listed from both its ends; parallel edges one by one.
    """
    position = {node: i for i, node in enumerate(nodes)}
    tails: list[int] = []
    heads: list[int] = []
    weights: list[Any] = []
    parallel = graph.is_multigraph()
    for tail, neighbours in graph.adjacency():
        if parallel:
            for node, keyed in neighbours.items():
                heads.extend([position[node]] * len(keyed))
                weights.extend(keyed.values())
        else:
            heads.extend([position[node] for node in neighbours])
            weights.extend(neighbours.values())
        tails.extend([position[tail]] * (len(heads) - len(tails)))
    ends = np.array(tails, np.intp), np.array(heads, np.intp)
    if weight is None:
        return *ends, [missing] * len(heads)
    return *ends, [data.get(weight, missing) for data in weights]


def weighed(given: list[Any], name: str, none: float) -> Any:
    """Return weights as they are stored as float64, `none` for None; `name` is the graph's.

    Raise a TypeError for what is no real number, a ValueError for one that float64 does not hold.
    """
    for kind in set(map(type, given)) - {type(None)}:
        if not issubclass(kind, numbers.Real):
            raise TypeError(
                f"{name}'s edges must weigh real numbers or None, got a {kind.__name__}"
            )
    try:
        return np.array([none if w is None else w for w in given], dtype=np.float64)
    except OverflowError:
        raise ValueError(
            f"{name}'s edges must weigh numbers that float64 holds, and one is beyond its range"
        ) from None
