"""What NetworkX reads about its backend when it is imported itself."""

from __future__ import annotations

from typing import Any

_ROUNDING = "Weights that are not whole give lengths that agree to rounding."
_OWN_WAY = "A cutoff, or a weight that is a function, is left to NetworkX."
_WEIGHT = "A weight that is a function is left to NetworkX."
_NEGATIVE_CYCLE = "A negative cycle raises NetworkXUnbounded."

_DOCS = {
    "floyd_warshall": f"The same distances to the last bit. {_NEGATIVE_CYCLE}",
    "floyd_warshall_numpy": f"The same distances to the last bit. {_NEGATIVE_CYCLE}",
    "floyd_warshall_predecessor_and_distance": (
        f"The same distances to the last bit, and the same predecessors. {_NEGATIVE_CYCLE}"
    ),
    "all_pairs_dijkstra_path_length": f"{_OWN_WAY} {_ROUNDING}",
    "all_pairs_shortest_path_length": "A cutoff is left to NetworkX.",
    "average_shortest_path_length": f"{_WEIGHT} {_ROUNDING}",
    "diameter": f"{_WEIGHT} So are usebounds and a given e. {_ROUNDING}",
    "eccentricity": f"{_WEIGHT} So is a given sp. {_ROUNDING}",
    "wiener_index": f"{_WEIGHT} {_ROUNDING}",
}


def get_info() -> dict[str, Any]:
    """Describe the backend to NetworkX.

    Returns
    -------
    dict
        Its name and the functions that it has, each with what to know about it.
    """
    return {
        "backend_name": "gpudist",
        "project": "gpudist",
        "package": "gpudist",
        "short_summary": "All-pairs shortest paths in one go, on a GPU or all CPU cores.",
        "functions": {name: {"additional_docs": text} for name, text in _DOCS.items()},
    }
