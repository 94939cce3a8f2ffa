"""What a call has to do at least: bytes, operations, and the pipe that does them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

# What one inner step of an operation is.
UNITS: Final = {
    "cdist": "pair-dimensions",
    "pdist": "pair-dimensions",
    "nearest": "pair-dimensions",
    "knn": "pair-dimensions",
    "radius_neighbors": "pair-dimensions",
    "count_neighbors": "pair-dimensions",
    "apsp": "updates",
    "apsp_batch": "updates",
    "hops": "steps over edges",
    "minplus": "updates",
    "closure": "updates",
    "perron": "multiply-adds",
}

# What one dimension of one pair costs, in multiply-adds' worth of the floating-point pipes. On a
# GPU a subtraction and a multiply-add (or an add of the absolute value, or a maximum at half rate
# on another pipe) take two issue slots, and a reciprocal or a logarithm comes from a unit with an
# eighth of the rate; one reciprocal does for two of canberra's quotients, one logarithm for a pair
# of jensenshannon where the rows' own terms are known, and braycurtis's second sum is known where
# nothing is negative. On a CPU with two adders beside two multipliers a subtraction runs beside the
# multiply-add or the maximum, but not beside a second addition.
_CUDA_SLOTS = {
    "euclidean": 2.0,
    "sqeuclidean": 2.0,
    "cityblock": 2.0,
    "chebyshev": 2.0,
    "minkowski": 3.0,
    "canberra": 4.0,
    "braycurtis": 2.0,
    "cosine": 2.0,
    "correlation": 2.0,
    "inner_product": 1.0,
    "hamming": 2.0,
    "jensenshannon": 8.0,
    "kl_divergence": 8.0,
    "hellinger": 2.0,
    "seuclidean": 3.0,
}
_CPU_SLOTS = {
    "euclidean": 1.0,
    "sqeuclidean": 1.0,
    "cityblock": 2.0,
    "chebyshev": 1.0,
    "minkowski": 2.0,
    "braycurtis": 4.0,
    "cosine": 1.0,
    "correlation": 1.0,
    "inner_product": 1.0,
    "hellinger": 1.0,
    "seuclidean": 2.0,
}
# What weights add to that. They cost cosine and correlation nothing: rows are scaled once.
_WEIGHT_SLOTS = {"euclidean": 1.0, "cosine": 0.0, "correlation": 0.0, "seuclidean": 0.0}
# What minkowski is for some exponents.
_SPECIAL = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}
# Kernels on tensor cores multiply: float32 as three products of halves, float64 as one.
_TENSOR = {"float32": ("tensor", 3.0), "float64": ("tensor64", 1.0)}


@dataclass(frozen=True, slots=True)
class Work:
    """What a call has to do at least, whatever the algorithm's constant.

    Attributes
    ----------
    read, written : float
        Bytes of the arguments and of the results, each counted once.
    operations : float
        Operations, in `unit`.
    unit : str
        What an operation is.
    pipe : str or None
        The ceiling of arithmetic that binds, None where none is measured.
    slots : float
        Operations of that ceiling that one operation costs.
    """

    read: float
    written: float
    operations: float
    unit: str
    pipe: str | None = None
    slots: float = 1.0


def distance_pipe(
    kernel: str, metric: str, dtype: str, *, p: float = 2.0, weighted: bool = False
) -> tuple[str | None, float]:
    """Say which ceiling bounds the arithmetic of distances, and how often a dimension counts there.

    Parameters
    ----------
    kernel : str
        The id of the kernel that computes them.
    metric : str
        The metric's name; one without a table entry has no arithmetic ceiling.
    dtype : str
        The type that is computed in.
    p : float, default 2
        minkowski's exponent; the ceiling is that of 3.
    weighted : bool, default False
        Whether columns have weights.

    Returns
    -------
    pipe : str or None
        A ceiling's name.
    slots : float
        Operations of that ceiling that one dimension of one pair costs.
    """
    if kernel == "neighbors/cuda_product":  # of halves
        return "tensor", 1.0
    if kernel == "neighbors/cuda_bytes":  # four in an instruction, at half the rate
        return "fma", 0.5
    if kernel.startswith("neighbors/cpu_product"):  # of float32, whatever the dtype
        return "fma", 1.0 if dtype == "float32" else 0.5
    if kernel.startswith("neighbors/"):  # boxes pass over most of it
        return None, 1.0
    if "tensor" in kernel:
        return _TENSOR[dtype]
    if metric == "minkowski":
        metric = _SPECIAL.get(p, metric)
    on_cuda = "/cpu_" not in kernel
    slots = (_CUDA_SLOTS if on_cuda else _CPU_SLOTS).get(metric)
    extra = _WEIGHT_SLOTS.get(metric) if weighted else 0.0
    if slots is None or extra is None or (metric == "minkowski" and p != 3.0):
        return None, 1.0
    return "fma64" if on_cuda and dtype == "float64" else "fma", slots + extra
