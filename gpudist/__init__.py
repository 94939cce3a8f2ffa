"""Distances, neighbours, shortest paths and Perron roots on the GPU, and on the CPU without one.

The calls are SciPy's and so are the answers. NumPy arrays give NumPy arrays; PyTorch, CuPy and
Numba arrays on a CUDA device give arrays of the same library on the same device, in order with the
caller's stream, without a copy through the host. This text is a tour; every name in it has its own
help, with all arguments and examples: ``help(gpudist.cdist)``.

Distances
---------
`cdist` gives the distances between the rows of two arrays, `pdist` those between every two rows of
one, each pair once. They know 25 metrics, weights on most, and Python functions:

>>> import numpy as np
>>> import gpudist
>>> points = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
>>> gpudist.cdist(points, points[:2], "cityblock")
array([[ 0.,  7.],
       [ 7.,  0.],
       [14.,  7.]])
>>> gpudist.pdist(points)
array([ 5., 10.,  5.])

float32 stays float32 and everything else becomes float64, unless ``dtype=`` says otherwise. Results
are as exact as their type allows, near-duplicates and points far from the origin included, and do
not depend on what is computed with them. Leading dimensions are batches, ``box=`` is a periodic
box, and ``gpudist.torch`` has the same for PyTorch with gradients.

Neighbours
----------
`knn` finds the k nearest rows of a set to each row of another, `nearest` the nearest one,
`radius_neighbors` all within a radius and `count_neighbors` the number of pairs, in any metric and
without the matrix of distances. Their results are named tuples (`KNearest`, `Nearest`,
`Neighborhoods`), and `Neighbors` is a set to be asked again and again, with scikit-learn's methods.

>>> gpudist.knn(points, k=1).indices
array([[1],
       [0],
       [1]])

Paths
-----
`apsp` finds the shortest paths between all nodes of a graph, or of each of many: a dense array, a
sparse or a masked one, or a graph of NetworkX, igraph or rustworkx. `reconstruct_path` spells one
out, and raises `NoPathError` where there is none; a `NegativeCycleError` names the nodes on it. In
int32 `UNREACHABLE` stands for no path.

>>> roads = np.array([[0, 2, 9], [0, 0, 3], [1, 0, 0]])  # 0 is no road
>>> lengths, before = gpudist.apsp(roads, return_predecessors=True)
>>> lengths
array([[0., 2., 5.],
       [4., 0., 3.],
       [1., 3., 0.]])
>>> gpudist.reconstruct_path(before, 0, 2)
[0, 1, 2]

A dict of dicts or a frame of pandas has nodes with names: with ``labels=True`` the result is a
`ShortestPaths`, which is read by them. `apsp_edges` takes lists of edges, `reconstruct_paths`
spells out many paths at once, and `measures` has eccentricities and centralities.

`transitive_closure` tells what can be reached at all, in 64 nodes at a time, and ``semiring=`` asks
`apsp` for bottlenecks, widest or longest ways in place of shortest ones.

`minplus` multiplies matrices with minimum and sum in place of sum and product, and over four more
semirings: widest ways, bottlenecks, longest ways, reachability.

>>> gpudist.minplus([[0.0, 2.0]], [[5.0], [1.0]])
array([[3.]])

Eigenvalues
-----------
`perron` finds the largest eigenvalue of a nonnegative matrix and its eigenvector. Its
`PerronResult` has bounds between which the eigenvalue lies, whatever was rounded; where they are
still too far apart in the end, a `ConvergenceWarning` says so.

>>> round(gpudist.perron([[1, 1, 2], [2, 1, 3], [2, 3, 5]]).value, 4)
7.5311

What ran, why, and how fast
---------------------------
- `kernels` lists everything that can compute as `Kernel` records, with what keeps each from running
  here.
- `explain` gives an `Explanation`: which kernel a call takes, why not the others, what it has to
  move and to compute, and the limit of this machine that it meets first.
- `compare` gives a `Comparison`: the call beside the other libraries that are installed, on the
  same data, with times, spreads and errors, as a table, a picture or numbers.
- `cuda.is_available`, `cuda.why_not` and `cuda.devices` tell about the GPU; a call that insists on
  one that cannot be used raises `DeviceError` with the reason.
- `recycle_results` keeps the memory of freed results on the host for the next ones,
  `limit_pinned_memory` bounds the buffers by way of which host arrays travel, and ``max_memory=``
  what a call may hold on its device.

In other libraries
------------------
- `patched_scipy` answers SciPy's functions in code that cannot be changed, and its `Routed` says
  what was answered.
- ``nx.floyd_warshall(graph, backend="gpudist")``: gpudist is a backend of NetworkX.
- Dask arrays give lazy Dask arrays.
- scikit-learn takes matrices of ours wherever it knows ``metric="precomputed"``:
  ``DBSCAN(eps=0.5, metric="precomputed").fit(gpudist.cdist(x, x))``.

On the command line
-------------------
``python -m gpudist info``
    What can run here, and why the rest cannot.
``python -m gpudist ladder NAME``
    Climb one of five published studies of CUDA kernels, step by step.
``python -m gpudist run script.py``
    Run an unchanged script with SciPy's functions answered by gpudist; ``run -m module`` runs a
    module, pytest for instance.
``python -m gpudist demo``
    Every shortest route between the world's airports, on a map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudist import cuda
from gpudist._core import DeviceError
from gpudist.distance import cdist, pdist
from gpudist.errors import ConvergenceWarning, NoPathError
from gpudist.recycling import recycle_results
from gpudist.staging import limit_pinned_memory

if TYPE_CHECKING:
    from gpudist import measures
    from gpudist import torch as torch
    from gpudist.comparison import Comparison, compare
    from gpudist.edges import apsp_edges
    from gpudist.eigen import PerronResult, perron
    from gpudist.errors import NegativeCycleError
    from gpudist.explained import Explanation
    from gpudist.explanation import explain
    from gpudist.named import ShortestPaths
    from gpudist.neighbors import count_neighbors, knn, nearest, radius_neighbors
    from gpudist.neighbors_kept import Neighbors
    from gpudist.neighbors_one import KNearest, Nearest, Neighborhoods
    from gpudist.patch import Routed, patched_scipy
    from gpudist.paths import UNREACHABLE, apsp, transitive_closure
    from gpudist.products import minplus
    from gpudist.registry import Kernel, kernels
    from gpudist.walks import reconstruct_path, reconstruct_paths


__version__ = "0.1.0"

__all__ = [
    "UNREACHABLE",
    "Comparison",
    "ConvergenceWarning",
    "DeviceError",
    "Explanation",
    "KNearest",
    "Kernel",
    "Nearest",
    "NegativeCycleError",
    "Neighborhoods",
    "Neighbors",
    "NoPathError",
    "PerronResult",
    "Routed",
    "ShortestPaths",
    "__version__",
    "apsp",
    "apsp_edges",
    "cdist",
    "compare",
    "count_neighbors",
    "cuda",
    "explain",
    "kernels",
    "knn",
    "limit_pinned_memory",
    "measures",
    "minplus",
    "nearest",
    "patched_scipy",
    "pdist",
    "perron",
    "radius_neighbors",
    "reconstruct_path",
    "reconstruct_paths",
    "recycle_results",
    "transitive_closure",
]


# What most programs do without is imported when it is first asked for.
_LATE = {
    "Comparison": "comparison",
    "Explanation": "explained",
    "KNearest": "neighbors_one",
    "Kernel": "registry",
    "Nearest": "neighbors_one",
    "Neighborhoods": "neighbors_one",
    "Neighbors": "neighbors_kept",
    "PerronResult": "eigen",
    "Routed": "patch",
    "ShortestPaths": "named",
    "UNREACHABLE": "paths",
    "apsp": "paths",
    "apsp_edges": "edges",
    "compare": "comparison",
    "count_neighbors": "neighbors",
    "explain": "explanation",
    "kernels": "registry",
    "knn": "neighbors",
    "measures": "measures",
    "minplus": "products",
    "nearest": "neighbors",
    "patched_scipy": "patch",
    "perron": "eigen",
    "radius_neighbors": "neighbors",
    "reconstruct_path": "walks",
    "reconstruct_paths": "walks",
    "torch": "torch",
    "transitive_closure": "paths",
}


if not TYPE_CHECKING:  # or type checkers would take any name for one that is there

    def __getattr__(name: str) -> object:
        if name in _LATE:
            import importlib

            module = importlib.import_module(f"gpudist.{_LATE[name]}")
            found = module if _LATE[name] == name else getattr(module, name)
            globals()[name] = found
            return found
        if name == "NegativeCycleError":  # its base class is SciPy's, which is slow to import
            from gpudist import errors

            return errors.negative_cycle_error()
        raise AttributeError(f"module 'gpudist' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List what the package is for: its modules have names, too, but users need none of them."""
    return sorted(__all__)
