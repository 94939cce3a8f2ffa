"""How long a call may take, here and in NetworkX: what `backend.should_run` goes by."""

from __future__ import annotations

from typing import Any, Final

from gpudist import cuda

# Measured on two cores of a server and on an H200, NetworkX 3.6 on Python 3.11; in seconds.
_CALL: Final = 8e-5
_END_READ: Final = 2.5e-7
_UPDATE_ON_CPU: Final = 4e-11
_UPDATE_ON_GPU: Final = 1e-12
_ENTRY: Final = 5e-9
_ENTRY_OF_DICT: Final = {
    "floyd_warshall": 7e-8,
    "floyd_warshall_predecessor_and_distance": 2e-7,
    "all_pairs_shortest_path_length": 1.5e-7,
    "all_pairs_dijkstra_path_length": 1.5e-7,
}
_LOOP_OF_NUMPY: Final = 1e-9
_LOOP_OF_DICTS: Final = 9e-8
_HOP: Final = 2.5e-7
_DIJKSTRA_NODE: Final = 6e-7
_DIJKSTRA_END: Final = 2e-7


def seconds_here(name: str, n: int, ends: int) -> float:
    """Estimate our time for n nodes and edges with so many ends to follow."""
    update = _UPDATE_ON_GPU if cuda.is_available() else _UPDATE_ON_CPU
    return _CALL + _END_READ * ends + update * n**3 + _ENTRY_OF_DICT.get(name, _ENTRY) * n**2


def seconds_there(name: str, given: dict[str, Any], n: int, ends: int) -> float:
    """Estimate NetworkX's time: a loop over all triples, or a search from every node.

    A search for hops ends when it has seen all nodes, so edges hardly count in it.
    """
    method = given.get("method") or name
    if "numpy" in method:
        return _LOOP_OF_NUMPY * n**3 + _END_READ * ends
    if "floyd" in method:
        return _LOOP_OF_DICTS * n**3
    if given.get("weight") is None or method == "unweighted":
        return _HOP * n * n
    return n * (_DIJKSTRA_NODE * n + _DIJKSTRA_END * ends)
