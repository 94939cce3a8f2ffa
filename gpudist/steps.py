"""Going back along one shortest path, from node to node."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpudist import arrays, checks
from gpudist.errors import NoPathError
from gpudist.results import NO_PREDECESSOR


def read(predecessors: Any) -> tuple[arrays.Space, Any, int]:
    """Read what `apsp` returned.

    Parameters
    ----------
    predecessors : array_like, shape (n, n)
        Predecessors, on the host or a device.

    Returns
    -------
    space, array, int
        Where they are, the array, and how many nodes there are.

    Raises
    ------
    TypeError, ValueError
        It is no square matrix of whole numbers.
    """
    space = arrays.space_of(predecessors=predecessors)
    p, dtype = space.read(predecessors, "predecessors")
    if len(p.shape) != 2 or p.shape[0] != p.shape[1]:
        hint = ""
        if isinstance(predecessors, tuple) and len(predecessors) == 2:
            hint = "; they are the second that apsp returns, give predecessors[1]"
        elif len(p.shape) > 2:
            hint = "; of many graphs give those of one"
        elif len(p.shape) == 2 and p.shape[0] < p.shape[1]:
            hint = (
                "; with indices= they are rows of those nodes alone, where j = predecessors[k, j] "
                "leads back to indices[k]"
            )
        raise ValueError(f"predecessors must be a square matrix, got shape {tuple(p.shape)}{hint}")
    if not dtype.startswith(("int", "uint")):
        raise TypeError(
            f"predecessors must be whole numbers, got {dtype}; apsp returns them with "
            f"return_predecessors=True"
        )
    return space, p, int(p.shape[0])


def back(predecessors: Any, i: Any, j: Any) -> list[int]:
    """Return the nodes of the shortest path from i to j.

    Parameters
    ----------
    predecessors : array_like, shape (n, n)
        What `apsp` returned.
    i, j : int
        The first and the last node.

    Returns
    -------
    list of int
        The nodes, both included.

    Raises
    ------
    gpudist.NoPathError, IndexError, TypeError, ValueError
        As for `gpudist.reconstruct_path`.
    """
    space, p, n = read(predecessors)
    i, j = checks.whole("i", i), checks.whole("j", j)
    for name, node in (("i", i), ("j", j)):
        if not 0 <= node < n:
            raise IndexError(f"{name} = {node} is not a node of a graph with {n} nodes")
    row = space.host(p[i]).astype(np.int64)  # from a device once, and not node by node
    path = [j]
    while path[-1] != i:
        before = int(row[path[-1]])
        if before == NO_PREDECESSOR:
            raise NoPathError(f"there is no path from {i} to {j}")
        if len(path) > n or not 0 <= before < n:
            raise ValueError("predecessors must be what apsp returned: these lead in circles")
        path.append(before)
    return path[::-1]
