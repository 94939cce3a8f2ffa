"""NetworkX's shortest-path functions, answered by `gpudist.apsp`.

NetworkX finds this module by its entry point and calls what is named like its own functions::

    nx.floyd_warshall(G, backend="gpudist")

A function is here only where its answer is NetworkX's own. What would differ goes back to NetworkX:
`can_run` refuses arguments, and NotImplementedError refuses what only the weights tell. Lengths are
exact, and have NetworkX's types, where all weights are whole. With other weights Floyd and
Warshall's functions have the bits of NetworkX's loop; a search from each node adds up a path from
its first edge on, so the others agree to rounding.

NetworkX 3.7 changed some answers, and those of the release at hand are given. One difference is
wanted: a negative cycle raises NetworkXUnbounded, where NetworkX up to 3.6 returns numbers that
mean nothing.
"""

from __future__ import annotations

import inspect
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import networkx as nx
import numpy as np

from gpudist.nx import cost, graphs
from gpudist.nx.lengths import Lengths, all_lengths

# Since then Floyd and Warshall's loops over dictionaries read weights as Dijkstra's search does: an
# edge without one weighs an int, and None hides it. Since then a null graph has no eccentricities.
_SINCE_3_7: Final = [int(part) for part in re.findall(r"\d+", nx.__version__)[:2]] >= [3, 7]

_DISCONNECTED: Final = {
    False: "Found infinite path length because the graph is not connected",
    True: "Found infinite path length because the digraph is not strongly connected",
}


class Graph:
    """A NetworkX graph that was handed to this backend.

    Nothing is copied: a function reads the edges that the graph has when it is called, so there is
    nothing that could be out of date.
    """

    __networkx_backend__ = "gpudist"

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.graph)

    def is_directed(self) -> bool:
        """Say whether edges go one way."""
        return bool(self.graph.is_directed())

    def is_multigraph(self) -> bool:
        """Say whether there may be parallel edges."""
        return bool(self.graph.is_multigraph())


def convert_from_nx(graph: Any, **_: Any) -> Graph:
    """Take a NetworkX graph over; all its attributes are kept, whichever are asked for."""
    return graph if isinstance(graph, Graph) else Graph(graph)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Give a graph back; any other result is NetworkX's kind already."""
    return _unwrapped(result)


def _unwrapped(graph: Any) -> Any:
    return graph.graph if isinstance(graph, Graph) else graph


# ---------------------------------------------------------------- Floyd and Warshall's functions


def floyd_warshall_numpy(G: Any, nodelist: Any = None, weight: Any = "weight") -> Any:
    """Return the lengths as an array; see `networkx.floyd_warshall_numpy`."""
    graph = _unwrapped(G)
    nodes = list(graph) if nodelist is None else list(nodelist)
    if not len(nodes) == len(graph) == len(set(nodes)) or set(nodes) != set(graph):
        raise nx.NetworkXError("nodelist must name every node of G once; see also G.subgraph")
    found = all_lengths(graph, weight, nodes=nodes, missing=1.0, negative=True)
    return found.lengths.astype(np.float64, copy=False)


def floyd_warshall(G: Any, weight: Any = "weight") -> dict[Any, Any]:
    """Return the lengths as a dictionary; see `networkx.floyd_warshall`."""
    return _distances(_all_lengths_of_loop(_unwrapped(G), weight))


def floyd_warshall_predecessor_and_distance(
    G: Any, weight: Any = "weight"
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return predecessors and lengths; see `networkx.floyd_warshall_predecessor_and_distance`."""
    graph = _unwrapped(G)
    found = _all_lengths_of_loop(graph, weight, predecessors=True)
    loops = _loops(graph, weight)
    before: dict[Any, Any] = {}
    for node, row in zip(found.nodes, found.predecessors, strict=True):
        reached = np.flatnonzero(row >= 0)
        row_before = {
            found.nodes[j]: found.nodes[i]
            for j, i in zip(reached.tolist(), row[reached].tolist(), strict=True)
        }
        if node in loops:  # it precedes itself, though on no shortest path
            row_before[node] = node
        if row_before:
            before[node] = row_before
    return before, _distances(found)


def _all_lengths_of_loop(graph: Any, weight: Any, *, predecessors: bool = False) -> Lengths:
    """Compute all paths from weights as the loops over dictionaries read them."""
    if not _SINCE_3_7:
        return all_lengths(graph, weight, missing=1.0, negative=True, predecessors=predecessors)
    return all_lengths(
        graph, weight, hidden=_hides(graph), negative=True, predecessors=predecessors
    )


def _hides(graph: Any) -> bool:
    """Say whether a weight of None hides an edge.

    The weight of parallel edges is the least of theirs, and None is not less than a number.
    """
    return not graph.is_multigraph()


def _loops(graph: Any, weight: Any) -> set[Any]:
    """Return the nodes that have an edge to themselves which is not hidden."""
    given = nx.selfloop_edges(graph, data=weight, default=1)
    return {node for node, _, w in given if w is not None}


def _distances(found: Lengths) -> dict[Any, Any]:
    """Return rows that have an entry for every node, and answer inf for what is no node."""
    distances = {}
    for i, node in enumerate(found.nodes):
        row = found.plain(found.lengths[i])
        row[i] = 0  # an int, whatever the weights are
        distances[node] = defaultdict(_no_path, zip(found.nodes, row, strict=True))
    return distances


def _no_path() -> float:
    return float("inf")


# ---------------------------------------------------------------- a search from every node


def all_pairs_shortest_path_length(
    G: Any, cutoff: Any = None
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Yield each node and the hops to others; see `networkx.all_pairs_shortest_path_length`."""
    return _rows(all_lengths(_unwrapped(G), None))


def all_pairs_dijkstra_path_length(
    G: Any, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Yield each node and the lengths to others; see `networkx.all_pairs_dijkstra_path_length`."""
    graph = _unwrapped(G)
    return _rows(all_lengths(graph, weight, hidden=_hides(graph)))


def _rows(found: Lengths) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Yield the nodes that each node reaches, the nearest first, as a search finds them."""
    for i, node in enumerate(found.nodes):
        row = found.lengths[i]
        key = row.copy()
        key[i] = -1  # before others at distance 0
        order = np.argsort(key, kind="stable")[: np.count_nonzero(np.isfinite(row))]
        lengths = found.plain(row[order])
        lengths[0] = 0
        yield node, dict(zip([found.nodes[j] for j in order.tolist()], lengths, strict=True))


# ---------------------------------------------------------------- numbers of a graph


def average_shortest_path_length(G: Any, weight: Any = None, method: str | None = None) -> float:
    """Return the mean length; see `networkx.average_shortest_path_length`."""
    graph = _unwrapped(G)
    if method is None:
        method = "unweighted" if weight is None else "dijkstra"
    if method not in _NEGATIVE_WEIGHTS:
        raise ValueError(f"method not supported: {method}")
    n = len(graph)
    if n == 0:
        raise nx.NetworkXPointlessConcept("the null graph has no paths and so no mean length")
    if n == 1:
        return 0
    found = all_lengths(
        graph, None if method == "unweighted" else weight, negative=_NEGATIVE_WEIGHTS[method]
    )
    if not found.connected():
        strongly = "strongly " if graph.is_directed() else ""
        raise nx.NetworkXError(f"Graph is not {strongly}connected.")
    mean: float = found.total() / (n * (n - 1))
    return mean


# The methods that NetworkX has for the mean length, and whether they take negative weights.
_NEGATIVE_WEIGHTS: Final = {
    "unweighted": False,
    "dijkstra": False,
    "bellman-ford": True,
    "floyd-warshall": True,
    "floyd-warshall-numpy": True,
}


def wiener_index(G: Any, weight: Any = None) -> Any:
    """Return the sum of the lengths; see `networkx.wiener_index`."""
    graph = _unwrapped(G)
    if len(graph) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    found = all_lengths(graph, weight)
    if not found.connected():
        return float("inf")
    return found.total() if graph.is_directed() else found.total() / 2


def eccentricity(G: Any, v: Any = None, sp: Any = None, weight: Any = None) -> Any:
    """Return the farthest node's distance from each node; see `networkx.eccentricity`."""
    graph = _unwrapped(G)
    if len(graph) == 0 and _SINCE_3_7:
        raise nx.NetworkXPointlessConcept("A null graph has no eccentricities.")
    chosen = list(graph.nbunch_iter(v))
    found = all_lengths(graph, weight)
    farthest = dict(
        zip(found.nodes, found.plain(found.lengths.max(axis=1, initial=0)), strict=True)
    )
    far = {node: farthest[node] for node in chosen}
    if np.inf in far.values():
        raise nx.NetworkXError(_DISCONNECTED[graph.is_directed()])
    return far[v] if v in graph else far


def diameter(G: Any, e: Any = None, usebounds: bool = False, weight: Any = None) -> Any:
    """Return the largest eccentricity; see `networkx.diameter`."""
    return max(eccentricity(G, weight=weight).values())


# ---------------------------------------------------------------- who should answer


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(globals()[name])


def _arguments(name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    bound = _signature(name).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Say whether a call can be answered here, or why not."""
    given = _arguments(name, args, kwargs)
    reasons = {
        "not a NetworkX graph": not graphs.is_graph(_unwrapped(given["G"])),
        "weight is a function": callable(given.get("weight")),
        "a search with a cutoff ends early": given.get("cutoff") is not None,
        "the lengths are given": given.get("sp") is not None or given.get("e") is not None,
        "bounds need a few searches only": given.get("usebounds", False) is not False,
    }
    return next((reason for reason, holds in reasons.items() if holds), True)


def should_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Say whether gpudist is likely to be faster here, or why not."""
    given = _arguments(name, args, kwargs)
    graph = _unwrapped(given["G"])
    n, ends = len(graph), graph.number_of_edges() * (1 if graph.is_directed() else 2)
    here, there = cost.seconds_here(name, n, ends), cost.seconds_there(name, given, n, ends)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reasons = {
        "a few nodes take a few searches only": given.get("v") is not None,
        f"{n} x {n} lengths take most of the memory": 16 * n * n > memory,
        f"it may take {here:.1g} s, and NetworkX {there:.1g} s": here >= there,
    }
    return next((reason for reason, holds in reasons.items() if holds), True)
