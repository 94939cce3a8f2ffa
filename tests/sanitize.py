"""One small call of every CUDA kernel, for memory and race checkers to watch. Not a test itself."""

import warnings

import numpy as np
from conftest import RECORDS, forms, points

import gpudist
from gpudist.semirings import SEMIRINGS


def call(kernel, metric, dtype, rng):
    """Run each form of a metric that the row takes; sizes are off its tiles."""
    for _, make in forms(metric):
        for d in {max(kernel.columns[0], 1), min(kernel.columns[1], 37)}:
            for kind in (dtype,) if RECORDS[metric].domain == "numbers" else (dtype, "bool"):
                args = make(rng, d) | {"kernel": kernel.id, "dtype": dtype}
                a, b = points(rng, 131, d, metric, kind), points(rng, 67, d, metric, kind)
                try:
                    gpudist.explain("cdist", a, b, metric, **args)
                except ValueError:
                    continue  # the row takes the metric in another form
                gpudist.cdist(a, b, metric, **args)
                gpudist.cdist(a, a, metric, **args)
                gpudist.pdist(a, metric, **args)


def main() -> None:
    """Run each row, with operands and results at odd addresses."""
    warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
    rng = np.random.default_rng(0)
    for kernel in gpudist.kernels("cdist"):
        for metric in kernel.metrics if kernel.backend == "cuda" else ():
            for dtype in kernel.dtypes:
                call(kernel, metric, dtype, rng)
    weights = rng.integers(0, 9, size=(133, 133))
    for kernel in gpudist.kernels("apsp"):
        for dtype in kernel.dtypes if kernel.backend == "cuda" else ():
            for predecessors in (False,) if kernel.teaching else (False, True):
                gpudist.apsp(
                    weights, dtype=dtype, kernel=kernel.id, return_predecessors=predecessors
                )
    for kernel in gpudist.kernels("minplus"):
        for semiring in SEMIRINGS if kernel.backend == "cuda" else ():
            for dtype in ("bool",) if semiring == "or_and" else ("float32", "float64", "int32"):
                a, b = (rng.integers(0, 9, size=shape) for shape in ((131, 37), (37, 67)))
                for c in (None, a @ b):
                    gpudist.minplus(a, b, c, semiring=semiring, dtype=dtype, kernel=kernel.id)
    chain = np.eye(300, k=1) + np.eye(300, k=-1)
    for kernel in gpudist.kernels("perron"):
        for dtype in kernel.dtypes if kernel.backend == "cuda" else ():
            # The second stays in no block's shared memory, the third is slow and has zeros.
            for a in (np.ones((5, 5)), rng.random((2100, 2100)), chain):
                gpudist.perron(a.astype(dtype), kernel=kernel.id, max_iter=30, tol=1e-9)
    print("every CUDA kernel ran")


if __name__ == "__main__":
    main()
