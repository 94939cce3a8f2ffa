"""Distance matrices, shortest paths and Perron roots on the GPU, and on the CPU without one.

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
not depend on what is computed with them.

Paths
-----
`apsp` finds the shortest paths between all nodes of a graph: a dense array, a sparse or a masked
one, or a NetworkX graph. `reconstruct_path` spells one out, and raises `NoPathError` where there is
none; a `NegativeCycleError` names the nodes on it. In int32 `UNREACHABLE` stands for no path.

>>> roads = np.array([[0, 2, 9], [0, 0, 3], [1, 0, 0]])  # 0 is no road
>>> lengths, before = gpudist.apsp(roads, return_predecessors=True)
>>> lengths
array([[0., 2., 5.],
       [4., 0., 3.],
       [1., 3., 0.]])
>>> gpudist.reconstruct_path(before, 0, 2)
[0, 1, 2]

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
- `compare` gives a `Comparison`: the call beside SciPy, PyTorch, scikit-learn and CuPy on the same
  data, with times, spreads and errors, as a table, a picture or numbers.
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
- scikit-learn takes matrices of ours wherever it knows ``metric="precomputed"``:
  ``DBSCAN(eps=0.5, metric="precomputed").fit(gpudist.cdist(x, x))``.

On the command line
-------------------
``python -m gpudist info``
    What can run here, and why the rest cannot.
``python -m gpudist bench SUITE``
    Measure this machine's limits, gpudist, and other libraries.
``python -m gpudist ladder NAME``
    Climb one of five published studies of CUDA kernels, step by step.
``python -m gpudist run script.py``
    Run an unchanged script with SciPy's functions answered by gpudist.
``python -m gpudist demo``
    Every shortest route between the world's airports, on a map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudist import cuda
from gpudist._core import DeviceError
from gpudist.distance import cdist, pdist
from gpudist.eigen import PerronResult, perron
from gpudist.errors import ConvergenceWarning, NoPathError
from gpudist.explanation import explain
from gpudist.paths import UNREACHABLE, apsp, reconstruct_path, transitive_closure
from gpudist.recycling import recycle_results
from gpudist.registry import Explanation, Kernel, kernels
from gpudist.semirings import minplus
from gpudist.staging import limit_pinned_memory

if TYPE_CHECKING:
    from gpudist.comparison import Comparison, compare
    from gpudist.patch import Routed, patched_scipy

__version__ = "0.1.0"

__all__ = [
    "UNREACHABLE",
    "Comparison",
    "ConvergenceWarning",
    "DeviceError",
    "Explanation",
    "Kernel",
    "NegativeCycleError",
    "NoPathError",
    "PerronResult",
    "Routed",
    "__version__",
    "apsp",
    "cdist",
    "compare",
    "cuda",
    "explain",
    "kernels",
    "limit_pinned_memory",
    "minplus",
    "patched_scipy",
    "pdist",
    "perron",
    "reconstruct_path",
    "recycle_results",
    "transitive_closure",
]


# What most programs do without is imported when it is first asked for.
_LATE = {
    "Comparison": "comparison",
    "Routed": "patch",
    "compare": "comparison",
    "patched_scipy": "patch",
}


def __getattr__(name: str) -> object:
    if name in _LATE:
        import importlib

        found = getattr(importlib.import_module(f"gpudist.{_LATE[name]}"), name)
        globals()[name] = found
        return found
    if name == "NegativeCycleError":  # its base class is SciPy's, which is slow to import
        from gpudist import errors

        return errors.negative_cycle_error()
    raise AttributeError(f"module 'gpudist' has no attribute '{name}'")
