"""Distance matrices, shortest paths and Perron roots on the GPU, and on the CPU without one.

The first calls::

    import gpudist

    d = gpudist.cdist(a, b)                            # like scipy.spatial.distance.cdist
    d = gpudist.cdist(a, b, "cityblock")
    v = gpudist.pdist(a, "cosine")                     # each pair once, as SciPy's pdist
    dist, pred = gpudist.apsp(graph, return_predecessors=True)
    gpudist.reconstruct_path(pred, 0, 5)               # the nodes on the way from 0 to 5
    two = gpudist.minplus(dist, dist)                  # a product with min and + for + and *
    top = gpudist.perron(matrix)                       # its largest eigenvalue, between bounds

NumPy arrays give NumPy arrays. PyTorch, CuPy and Numba arrays on a CUDA device give arrays of the
same library on the same device, in order with the caller's stream, without a copy through the host.
Without a GPU the same calls run on the CPU.

What ran and why:

- `kernels` lists everything that can compute, and what keeps it from running here;
- `explain` says which kernel a call would take, and what speaks against the others;
- `cuda.is_available`, `cuda.why_not` and `cuda.devices` tell about the GPU;
- ``python -m gpudist info`` prints all of that.
"""

from __future__ import annotations

from gpudist import cuda
from gpudist._core import DeviceError
from gpudist.comparison import Comparison, compare
from gpudist.distance import cdist, pdist
from gpudist.eigen import PerronResult, perron
from gpudist.errors import ConvergenceWarning, NoPathError
from gpudist.explanation import explain
from gpudist.patch import Routed, patched_scipy
from gpudist.paths import UNREACHABLE, apsp, reconstruct_path, transitive_closure
from gpudist.recycling import recycle_results
from gpudist.registry import Explanation, Kernel, kernels
from gpudist.semirings import minplus

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
    "minplus",
    "patched_scipy",
    "pdist",
    "perron",
    "reconstruct_path",
    "recycle_results",
    "transitive_closure",
]


def __getattr__(name: str) -> object:
    if name == "NegativeCycleError":  # its base class is SciPy's, which is slow to import
        from gpudist import errors

        return errors.negative_cycle_error()
    raise AttributeError(f"module 'gpudist' has no attribute '{name}'")
