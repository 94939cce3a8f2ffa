"""One small call of every CUDA kernel, for memory and race checkers to watch. Not a test itself.

Arguments are the beginnings of kernels' names; without any all run, which takes a race checker
minutes. The argument ``beyond`` makes one call that reads beyond an array's end instead: a checker
that finds nothing there is not watching, and what it says of the others means nothing.
"""

import sys
import time
import warnings

import numpy as np
from conftest import RECORDS, forms, points, settings

import gpudist
from gpudist import _core
from gpudist.semirings import SEMIRINGS

# Rows and columns of results, off all tiles; of more some kernels have another form.
SHAPES = ((131, 67), (1300, 901))
OTHER_FORMS = ("cdist/cuda_tile", "cdist/cuda_tensor", "cdist/cuda_tensor_f64")


def call(kernel, metric, dtype, rng):
    """Run each form of a metric that the row takes."""
    for _, make in forms(metric):
        for d in {max(kernel.columns[0], 1), min(kernel.columns[1], 37)}:
            for kind in (dtype,) if RECORDS[metric].domain == "numbers" else (dtype, "bool"):
                args = make(rng, d) | {"kernel": kernel.id, "dtype": dtype}
                for m, n in SHAPES if kernel.id in OTHER_FORMS else SHAPES[:1]:
                    a, b = points(rng, m, d, metric, kind), points(rng, n, d, metric, kind)
                    try:
                        gpudist.explain("cdist", a, b, metric, **args)
                    except ValueError:
                        continue  # the row takes the metric in another form
                    gpudist.cdist(a, b, metric, **args)
                    gpudist.cdist(a, a, metric, **args)
                    gpudist.pdist(a, metric, **args)


def cuda_rows(op):
    """Give the rows of an operation that run on a GPU, and say when each begins."""
    begun = time.monotonic()
    for kernel in gpudist.kernels(op):
        if kernel.backend == "cuda" and kernel.id.startswith(tuple(sys.argv[1:]) or ""):
            print(f"{time.monotonic() - begun:6.1f} s  {kernel.id}", flush=True)
            yield kernel


class Overstated:
    """A device array that claims to have more rows than it has."""

    def __init__(self, array, rows):
        self._array = array
        claim = dict(array.__cuda_array_interface__)
        self.__cuda_array_interface__ = claim | {"shape": (rows, array.shape[1])}


def read_beyond() -> None:
    """Read a gigabyte that nobody allocated."""
    import torch

    rows = torch.zeros((1 << 17, 2), device="cuda")
    result = torch.empty((1000 * len(rows), 1), device="cuda")
    gpudist.cdist(
        Overstated(rows, len(result)), Overstated(rows, 1), out=Overstated(result, len(result))
    )
    torch.cuda.synchronize()


def main() -> None:
    """Run each row, with operands and results at odd addresses."""
    warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
    rng = np.random.default_rng(0)
    for kernel in cuda_rows("cdist"):
        for metric in kernel.metrics:
            for dtype in kernel.dtypes:
                call(kernel, metric, dtype, rng)
    weights = rng.integers(0, 9, size=(133, 133))
    for kernel in cuda_rows("apsp"):
        semiring = "min_max" if "bottleneck" in kernel.id else "min_plus"
        for dtype in kernel.dtypes:
            for predecessors in (False,) if kernel.teaching else (False, True):
                options = {
                    "dtype": dtype,
                    "semiring": semiring,
                    "return_predecessors": predecessors,
                }
                gpudist.apsp(weights, kernel=kernel.id, **options)
                if not kernel.teaching:  # and out of core
                    plan = _core.far_plan(133, dtype, predecessors, "cuda", 1, semiring=semiring)
                    pred = np.zeros(weights.shape, "int32") if predecessors else None
                    _core.far(weights.astype(dtype), pred, semiring, "cuda", None, plan["bytes"])
    for kernel in cuda_rows("closure"):
        gpudist.transitive_closure(weights > 7, kernel=kernel.id)
    for kernel in cuda_rows("minplus"):
        for semiring in SEMIRINGS:
            for dtype in ("bool",) if semiring == "or_and" else ("float32", "float64", "int32"):
                a, b = (rng.integers(0, 9, size=shape) for shape in ((131, 37), (37, 67)))
                for c in (None, a @ b):
                    gpudist.minplus(a, b, c, semiring=semiring, dtype=dtype, kernel=kernel.id)
    chain = np.eye(300, k=1) + np.eye(300, k=-1)
    for kernel in cuda_rows("perron"):
        # The second stays in no block's shared memory, the third is slow and has zeros.
        large = () if kernel.teaching else (rng.random((2100, 2100)), chain)
        for a in (weights + 1, *large):
            for dtype in kernel.dtypes:
                for options in settings(kernel):  # a ladder's options choose between its kernels
                    gpudist.perron(
                        a.astype(dtype), kernel=kernel.id, options=options, max_iter=6, tol=1e-9
                    )
    print("every CUDA kernel that was asked for ran")


if __name__ == "__main__":
    read_beyond() if sys.argv[1:] == ["beyond"] else main()
