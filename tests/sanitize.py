"""One small call of every CUDA kernel, for memory and race checkers to watch. Not a test itself.

Arguments are the beginnings of kernels' names; without any all run, which takes a race checker
minutes. The argument ``beyond`` makes one call that reads beyond an array's end instead: a checker
that finds nothing there is not watching, and what it says of the others means nothing.
"""

import contextlib
import itertools
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
OF_BATCHES = [
    *("cdist/cuda_many", "cdist/cuda_tile", "cdist/cuda_tensor_once", "cdist/cuda_sums"),
    *("cdist/cuda_in_box", "cdist/cuda_bits", "cdist/cuda_haversine", "cdist/cuda_mahalanobis"),
]
OTHER_FORMS = tuple(
    f"cdist/cuda_{name}" for name in ("tile", "tensor", "tensor_mma", "tensor_once", "tensor_f64")
)


def call_batch(a, b, metric, args):
    """One launch for some matrices, the second operand the same for all."""
    import torch

    a, b = (torch.as_tensor(x, device="cuda") for x in (np.stack([a, a + 1, a]), b))
    gpudist.cdist(a, b, metric, **args)
    gpudist.cdist(a[:, :9], b[:7], metric, **args)
    gpudist.pdist(a, metric, **args)


def call(kernel, metric, dtype, rng):
    """Run each form of a metric that the row takes."""
    for _, make in forms(metric):
        for d in {max(kernel.columns[0], 1), min(kernel.columns[1], 37)}:
            for kind in (dtype,) if RECORDS[metric].domain == "numbers" else (dtype, "bool"):
                args = make(rng, d) | {"kernel": kernel.id, "dtype": dtype}
                if kernel.id == "cdist/cuda_in_box":
                    args["box"] = rng.uniform(0.5, 2, d)
                for m, n in SHAPES if kernel.id in OTHER_FORMS else SHAPES[:1]:
                    a, b = points(rng, m, d, metric, kind), points(rng, n, d, metric, kind)
                    try:
                        gpudist.explain("cdist", a, b, metric, **args)
                    except ValueError:
                        continue  # the row takes the metric in another form
                    gpudist.cdist(a, b, metric, **args)
                    gpudist.cdist(a, a, metric, **args)
                    gpudist.pdist(a, metric, **args)
                    if kernel.id in OF_BATCHES and kind == dtype:
                        call_batch(a, b, metric, args)


def call_apsp_there(weights, dtype, predecessors):
    """A graph that lies on the device, of weights that are not negative, and of any."""
    import torch

    rise = np.arange(len(weights)) % 7
    for w in (weights, weights + 9 + rise - rise[:, None], weights - (weights == 8) * 9):
        there = torch.as_tensor(w.astype(dtype), device="cuda")
        with contextlib.suppress(gpudist.NegativeCycleError):
            gpudist.apsp(there, return_predecessors=predecessors)


def call_gradient(kernel):
    """Of both sides and of pairs, of sums in several parts, of rows that are words and not."""
    import torch

    for metric in kernel.metrics:
        for name in kernel.dtypes:
            shapes = [(70, 67, 3), (33, 300, 16), (130, 67, 37), (33, 70, 130)]
            if kernel.id == "gradient/cuda_signs":  # which ranks 1024 rows at a time
                shapes += [(1100, 1030, 17)]
            for m, n, d in shapes:
                if not kernel.columns[0] <= d <= kernel.columns[1]:
                    continue
                x, y = (
                    torch.rand(2, rows, d, device="cuda", dtype=getattr(torch, name))
                    for rows in (m, n)
                )
                given = {"p": 1.5} if metric == "minkowski" else {}
                distances, pairs = gpudist.cdist(x, y, metric, **given), gpudist.pdist(x, metric)
                out, out_b = torch.empty_like(x), torch.empty_like(y)
                for g, distance in (
                    (distances, distances),
                    (distances.mT.contiguous().mT, distances),
                    (distances[:, :1, :1].expand_as(distances), distances),
                ):
                    _core.gradient(g, x, y, distance, out, metric, kernel.id, 1.5, out_b=out_b)
                if kernel.id != "gradient/cuda_product":  # which takes two operands
                    _core.gradient(pairs, x, None, pairs, out, metric, kernel.id, 1.5)
                torch.cuda.synchronize()


def search(kernel, rng):
    """Look for neighbours by the row: of few rows and many, in lists of few and many."""
    for dtype in kernel.dtypes:
        for metric in set(kernel.metrics) or {"euclidean", "inner_product"}:
            for m, n, d in ((3, 20000, 19), (131, 901, 19), (3, 20000, 3), (131, 901, 8)):
                if not kernel.metrics and d < 19:
                    continue
                a, b = (rng.normal(size=(rows, d)).astype(dtype) for rows in (m, n))
                told = {"metric": metric, "kernel": kernel.id}
                for k in (1, 32, 100):
                    try:
                        gpudist.knn(a, b, k, **told)
                        gpudist.knn(b[:m], b, k, **told)
                    except ValueError:
                        continue  # the row is for other shapes
                if kernel.metrics:
                    continue
                gpudist.knn(a, b, 1500 if n > 1500 else n, **told)
                for more in ({}, {"sort": "distance"}, {"max_neighbors": 9}):
                    gpudist.radius_neighbors(a, b, 5.0, **more, **told)
                bounds = [-1.0, -5.0] if metric == "inner_product" else [4.0, 6.0]
                gpudist.count_neighbors(a, b, bounds, **told)
                weights = rng.random(m), rng.random(n)
                gpudist.count_neighbors(a, b, bounds, weights=weights, **told)


def search_by_products(kernel, rng):
    """Look for neighbours where halves, or bytes, hold all, some or none of the rows."""
    by_bytes = kernel.id == "neighbors/cuda_bytes"
    metrics = ("cityblock",) * 3 if by_bytes else ("euclidean", "sqeuclidean", "cosine")
    shapes = ((9, 4.0), (150, 140.0)) if by_bytes else ((9, 2.0), (150, 15.2))
    for dtype, (d, r) in itertools.product(kernel.dtypes, shapes):
        a, b = (rng.normal(size=(rows, d)).astype(dtype) for rows in (130, 16500))
        b[::500] *= 1e7
        a[::7] *= 1e7
        a[3], b[5:7] = np.nan, np.nan
        for k in (1, 100, 300):
            gpudist.knn(a, b, k, metrics[0], kernel=kernel.id)
        if by_bytes:  # none of the rows is lost: bytes are compared
            plain = rng.normal(size=(130, d)).astype(dtype)
            gpudist.knn(plain, b, 10, metrics[0], kernel=kernel.id)
        for sort in ("index", "distance"):
            gpudist.radius_neighbors(a[1:6], b, r, metrics[0], sort=sort, kernel=kernel.id)
        gpudist.knn(a[:9] + 3000, b, 10, metrics[1], kernel=kernel.id)
        gpudist.knn(a[:9], np.full_like(b, 0.3), 10, metrics[2], kernel=kernel.id)
        places = rng.normal(size=(5, d)).astype(dtype)  # points in clusters have several centres
        a, b = (
            places[rng.integers(0, 5, rows)] + rng.normal(0, 0.01, (rows, d)).astype(dtype)
            for rows in (130, 33_000)
        )
        for k in (1, 100):
            gpudist.knn(a, b, k, metrics[0], kernel=kernel.id)
        b[1::2] = b[rng.integers(0, 400, len(b[1::2]))]  # rows that are there often
        a[::2] = b[:65]
        for k in (3, 300):
            gpudist.knn(a, b, k, metrics[0], kernel=kernel.id)
        gpudist.knn(b, k=3, metric=metrics[0], rows=slice(0, 65), kernel=kernel.id)


def search_by_truths(kernel, rng):
    """Look for neighbours in each form of the product, and where lists have no room for them."""
    for dtype, d in itertools.product(kernel.dtypes, (100, 300, 1000, 1100)):
        a, b = (rng.random((rows, d)) < 0.3 for rows in (130, 16500))
        b[9000:] = a[7]
        for k in (1, 100, 300):
            gpudist.knn(a, b, k, "jaccard", dtype=dtype, kernel=kernel.id)
        gpudist.knn(a, b, 10, "kulczynski1", dtype=dtype, kernel=kernel.id)
        for sort in ("index", "distance"):
            near = gpudist.knn(a[:5], b[:9000], 30, "hamming", dtype=dtype).distances[:, -1]
            gpudist.radius_neighbors(
                a[:5], b, near, "hamming", dtype=dtype, sort=sort, kernel=kernel.id
            )


def search_by_boxes(kernel, rng):
    """Look for neighbours in each number of columns, in radii too, of few rows and many."""
    for dtype in kernel.dtypes:
        for d in range(1, 9):
            a, b = (rng.normal(size=(rows, d)).astype(dtype) for rows in (4100, 2500))
            b[3::100], b[5::100], b[7::100, 0] = np.nan, np.inf, -1e30
            for box in (0, 1.5) if d in (2, 7) else (0,):
                told = {"kernel": kernel.id, "box": box}
                for k in (1, 40):
                    gpudist.knn(a, b, k, **told)
                    gpudist.knn(b, k=k, **told)
                for r in (0.5, 20.0):  # of few, and of so many that a block or memory sorts them
                    gpudist.count_neighbors(b, radii=r, **told)
                    for more in ({}, {"sort": "distance"}, {"max_neighbors": 9}):
                        gpudist.radius_neighbors(a[:90], b, r, **told, **more)
                        gpudist.radius_neighbors(b, r=r / 9, **told, **more)
                gpudist.count_neighbors(a, b, [0.1, 0.5], **told)
        index = gpudist.Neighbors(b, n_neighbors=3, device="cuda")
        index.kneighbors(a[:9]), index.kneighbors()


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
    for kernel in cuda_rows("gradient"):
        call_gradient(kernel)
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
                if semiring == "min_plus" and not kernel.teaching:
                    call_apsp_there(weights, dtype, predecessors)
                if not kernel.teaching:  # and out of core
                    plan = _core.far_plan(133, dtype, predecessors, "cuda", 1, semiring=semiring)
                    pred = np.zeros(weights.shape, "int32") if predecessors else None
                    _core.far(weights.astype(dtype), pred, semiring, "cuda", None, plan["bytes"])
    for kernel in cuda_rows("hops"):
        graph = rng.random((2050, 2050)) < 0.002
        graph[5:9, :400] = True
        for dtype in kernel.dtypes:
            gpudist.apsp(graph, unweighted=True, dtype=dtype, device="cuda")
    for _ in cuda_rows("apsp_batch"):
        for n in (5, 31, 64, 100, 127, 133, 300):
            # From 34 on by one block where 9 go by four, and by two where they go by teams.
            shape = (40 if n in (127, 133) else 9, n, n)
            graphs = rng.integers(0, 9, size=shape) * (rng.random(shape) < 4 / n)
            for dtype in ("float32", "float64", "int32"):
                for predecessors in (False, True):
                    for sizes in (None, rng.integers(0, n + 1, shape[0])):
                        gpudist.apsp(
                            graphs.astype(dtype),
                            dtype=dtype,
                            sizes=sizes,
                            device="cuda",
                            return_predecessors=predecessors,
                        )
            gpudist.apsp(graphs, directed=False, device="cuda")
    for kernel in cuda_rows("closure"):
        gpudist.transitive_closure(weights > 7, kernel=kernel.id)
    for kernel in cuda_rows("minplus"):
        for semiring in SEMIRINGS:
            for dtype in ("bool",) if semiring == "or_and" else ("float32", "float64", "int32"):
                a, b = (rng.integers(0, 9, size=shape) for shape in ((131, 37), (37, 67)))
                for c in (None, a @ b):
                    gpudist.minplus(a, b, c, semiring=semiring, dtype=dtype, kernel=kernel.id)
    for kernel in cuda_rows("neighbors"):
        search(kernel, rng)
        if kernel.id in ("neighbors/cuda_product", "neighbors/cuda_bytes"):
            search_by_products(kernel, rng)
        elif kernel.id == "neighbors/cuda_truths":
            search_by_truths(kernel, rng)
        elif kernel.id == "neighbors/cuda_boxes":
            search_by_boxes(kernel, rng)
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
