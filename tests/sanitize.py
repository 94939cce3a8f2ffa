"""One small call of every CUDA kernel, for memory and race checkers to watch. Not a test itself."""

import numpy as np

import gpudist


def main() -> None:
    """Run each row at sizes off its tiles, with operands and results at odd addresses."""
    rng = np.random.default_rng(0)
    for kernel in gpudist.kernels("cdist"):
        for metric in kernel.metrics if kernel.backend == "cuda" else ():
            for dtype in kernel.dtypes:
                for d in {max(kernel.columns[0], 1), min(kernel.columns[1], 37)}:
                    a = rng.normal(size=(131, d)).astype(dtype)
                    b = rng.normal(size=(67, d)).astype(dtype)
                    gpudist.cdist(a, b, metric, kernel=kernel.id)
    weights = rng.integers(0, 9, size=(133, 133))
    for kernel in gpudist.kernels("apsp"):
        for dtype in kernel.dtypes if kernel.backend == "cuda" else ():
            for predecessors in (False, True):
                gpudist.apsp(
                    weights, dtype=dtype, kernel=kernel.id, return_predecessors=predecessors
                )
    print("every CUDA kernel ran")


if __name__ == "__main__":
    main()
