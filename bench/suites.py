"""The suites: named lists of cases for each backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.adversary import variants
from bench.cases import (
    AccuracyCase,
    AfterProductCase,
    AnyCase,
    ApspBatchCase,
    ApspCase,
    CdistCase,
    ClosureCase,
    DaskCase,
    FirstCallCase,
    KnnCase,
    MinplusCase,
    PdistCase,
    PerronCase,
    SeveralCase,
    SweepCase,
    TransferCase,
)
from bench.training import TrainingCase
from gpudist.measure import rivals

Cases = tuple[AnyCase | AccuracyCase, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of cases for each backend.

    It runs on `device` whatever the machine has, by default on the GPU where one can be used, and
    after the ceilings unless they are not wanted.
    """

    summary: str
    cases: Mapping[str, Cases]
    ceilings: bool = True
    device: str | None = None


_CDIST_CPU: Cases = (
    *(
        CdistCase(rows, rows, d, "float64", metric)
        for rows, d in ((4000, 2), (3000, 128), (2000, 1024))
        for metric in ("euclidean", "cityblock")
    ),
    CdistCase(4000, 4000, 16, "float64"),
    *(CdistCase(n, n, d, "float32") for n, d in ((4000, 2), (4000, 16), (3000, 128), (2000, 1024))),
    PdistCase(3000, 16, "float64"),
    # What takes as long to call as to compute, and what has few rows.
    CdistCase(8, 8, 3, "float64", weighted=True),
    PdistCase(8, 3, "float64"),
    *(
        CdistCase(m, n, d, dtype, "cityblock")
        for m, n, d in ((8, 8, 2), (64, 64, 2), (1, 10000, 16), (20000, 1, 128), (3, 3, 20000))
        for dtype in ("float64", "float32")
    ),
)
_CDIST_CUDA: Cases = (
    CdistCase(30336, 30336, 2, "float32"),
    *(CdistCase(16384, 16384, d, "float32") for d in (3, 8, 16, 32, 64, 128, 1024)),
    *(CdistCase(16384, 16384, d, "float32", "cityblock") for d in (16, 128, 1024)),
    *(CdistCase(16384, 16384, d, "float64") for d in (2, 128, 1024)),
    CdistCase(16384, 16384, 128, "float64", "cityblock"),
    *(PdistCase(16384, d, "float32") for d in (16, 128)),
)
_METRICS_CPU: Cases = (
    *(
        CdistCase(1500, 1500, 32, "float64", metric, p=3.0 if metric == "minkowski" else None)
        for metric in rivals.SCIPYS
    ),
    CdistCase(2000, 2000, 64, "float64", "euclidean", weighted=True),
    # SciPy takes a minute for more.
    CdistCase(200, 200, 64, "float64", "cosine", weighted=True),
)
_METRICS_CUDA: Cases = (
    *(
        CdistCase(16384, 16384, 128, "float32", metric)
        for metric in (
            "chebyshev",
            "canberra",
            "braycurtis",
            "cosine",
            "correlation",
            "inner_product",
            "hamming",
            "jensenshannon",
            "kl_divergence",
            "hellinger",
            "seuclidean",
            "mahalanobis",
        )
    ),
    CdistCase(16384, 16384, 128, "float32", "minkowski", p=3.0),
    *(
        CdistCase(16384, 16384, 128, "float32", metric, weighted=True)
        for metric in ("euclidean", "sqeuclidean", "cosine", "correlation")
    ),
    CdistCase(16384, 16384, 2, "float32", "haversine"),
    CdistCase(16384, 16384, 1024, "bool", "jaccard"),
    *(
        CdistCase(16384, 16384, 128, "float64", metric)
        for metric in ("chebyshev", "canberra", "cosine", "hellinger", "seuclidean", "mahalanobis")
    ),
)
_APSP_CPU: Cases = (
    *(ApspCase(n, "float64") for n in (500, 1000, 2000)),
    *(ApspCase(n, dtype) for n in (1000, 2000) for dtype in ("float32", "int32")),
    *(ApspCase(1000, dtype, predecessors=True) for dtype in ("float64", "float32", "int32")),
    ClosureCase(2000),
)
_APSP_CUDA: Cases = (
    *(ApspCase(n, "float32") for n in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)),
    *(ApspCase(n, "float32", predecessors=True) for n in (512, 1024, 2048, 4096, 8192, 16384)),
    *(ApspCase(16384, "int32", predecessors) for predecessors in (False, True)),
    *(
        ApspCase(16384, "float32", kind=kind)
        for kind in ("undirected", "unweighted", "negative weights")
    ),
    *(ApspCase(n, "float32", kind="undirected") for n in (2048, 4096)),
    *(ApspCase(n, "float64") for n in (1024, 2048, 16384)),
    ClosureCase(16384),
)
_BATCHES_CPU: Cases = (
    *(
        ApspBatchCase(count, n, dtype)
        for count, n in ((100_000, 32), (4096, 64))
        for dtype in ("float32", "uint16", "int16")
    ),
    *(
        ApspBatchCase(count, n, "float32", predecessors, kind)
        for count, n in ((100_000, 32), (4096, 64))
        for predecessors, kind in ((True, ""), (False, "undirected"), (False, "unweighted"))
    ),
    ApspBatchCase(1000, 128, "float32"),
)
_BATCHES_CUDA: Cases = (
    *(
        ApspBatchCase(count, n, "float32")
        for count, n in (
            (100_000, 32), (4096, 64), (20_000, 64), (1000, 128), (64, 256), (500, 256), (100, 512),
            (97, 1024),
        )
    ),
    *(
        ApspBatchCase(count, n, "float32", predecessors=True)
        for count, n in ((100_000, 32), (4096, 64), (20_000, 64), (1000, 128), (500, 256))
    ),
    *(ApspBatchCase(4096, 64, dtype) for dtype in ("int32", "float64")),
    *(ApspBatchCase(4096, 64, "float32", kind=kind) for kind in ("undirected", "unweighted")),
)  # fmt: skip
_MINPLUS_CPU: Cases = (
    *(MinplusCase(1000, 1000, 1000, dtype) for dtype in ("float64", "float32", "int32")),
    MinplusCase(8, 8, 8, "float64"),
    MinplusCase(1000, 1000, 1000, "float64", "max_min"),
    MinplusCase(2000, 2000, 2000, "bool", "or_and"),
)
_MINPLUS_CUDA: Cases = (
    *(MinplusCase(8192, 8192, 8192, dtype) for dtype in ("float32", "int32", "float64")),
    MinplusCase(8192, 8192, 8192, "int32", below=10**6),
    MinplusCase(8192, 8192, 8192, "float32", "max_min"),
    MinplusCase(16384, 16384, 16384, "bool", "or_and"),
)
_PERRON_CPU: Cases = (
    *(PerronCase(n, "float64") for n in (1000, 4000)),
    PerronCase(4000, "float32"),
    PerronCase(8000, "float32"),  # larger than caches
    PerronCase(4000, "float64", "Hilbert"),
)
_PERRON_CUDA: Cases = (
    *(PerronCase(n, "float32") for n in (2048, 8192, 16384, 32768)),
    *(PerronCase(n, "float64") for n in (8192, 16384, 32768)),
    *(PerronCase(8192, dtype, "Hilbert") for dtype in ("float32", "float64")),
)
_NEIGHBORS_CPU: Cases = (
    *(KnnCase(0, 200_000, 3, 16, dtype) for dtype in ("float64", "float32")),
    KnnCase(0, 1_000_000, 3, 16, "float64"),
    KnnCase(0, 200_000, 3, 16, "float64", kind="clusters"),
    KnnCase(0, 50_000, 2, 16, "float64", "cityblock"),
    KnnCase(0, 50_000, 8, 16, "float64"),
    KnnCase(100, 200_000, 3, 16, "float64"),
    *(KnnCase(n, n, 3, 3, "float64") for n in (8, 64)),
    KnnCase(2000, 100_000, 128, 10, "float32"),
    KnnCase(2000, 20_000, 32, 10, "float64", "cityblock"),
)
_NEIGHBORS_CUDA: Cases = (
    *(KnnCase(10_000, 1_000_000, d, k, "float32") for d in (128, 16) for k in (1, 10, 100, 1000)),
    KnnCase(10_000, 1_000_000, 768, 10, "float32"),
    *(KnnCase(10_000, 1_000_000, 128, k, "float32", kind="clusters") for k in (1, 10, 100)),
    KnnCase(10_000, 1_000_000, 128, 10, "float64"),
    KnnCase(10_000, 1_000_000, 128, 10, "float32", "cosine"),
    *(KnnCase(10_000, 1_000_000, d, 10, "float32", "cityblock") for d in (16, 128)),
    KnnCase(10_000, 1_000_000, 1024, 10, "bool", "jaccard"),
    *(KnnCase(m, n, 128, 10, "float32") for m, n in ((0, 100_000), (100, 10**6), (1, 10**6))),
    KnnCase(10_000, 100_000, 960, 10, "float32"),
    *(KnnCase(0, n, 3, 16, "float32") for n in (100_000, 1_000_000)),
    KnnCase(10_000, 1_000_000, 3, 10, "float32"),
    KnnCase(0, 20_000, 128, 1000, "float32"),
    KnnCase(10_000, 100_000, 64, 10, "float64"),
    KnnCase(10_000, 100_000, 128, 10, "float32", "cosine"),
    KnnCase(10_000, 100_000, 32, 10, "float32", "cityblock"),
)
# Programs alternate NumPy and gpudist.
_AFTER_PRODUCT_CPU: Cases = tuple(
    AfterProductCase(inner)
    for inner in (
        CdistCase(1, 20000, 64, "float64"),
        CdistCase(300, 300, 16, "float64"),
        CdistCase(1000, 1000, 32, "float64"),
        CdistCase(3000, 3000, 32, "float64"),
        ApspCase(200, "float64"),
    )
)
_EVERYTHING_CPU = _CDIST_CPU + _METRICS_CPU + _APSP_CPU + _MINPLUS_CPU + _NEIGHBORS_CPU
_EVERYTHING_CPU += _AFTER_PRODUCT_CPU
_TRANSFER_CPU: Cases = tuple(
    TransferCase(CdistCase(4000, 4000, d, "float64"), into)
    for d in (2, 16)
    for into in (False, True)
)
_TRANSFER_CUDA: Cases = (
    TransferCase(ApspCase(16384, "float32"), into=True),
    TransferCase(CdistCase(100_000, 100_000, 16, "float32"), into=True),
    TransferCase(CdistCase(30336, 30336, 2, "float32"), recycled=True),
    *(
        TransferCase(inner, into)
        for inner in (
            CdistCase(30336, 30336, 2, "float32"),
            PdistCase(30336, 2, "float32"),
            CdistCase(16384, 16384, 128, "float32"),
            CdistCase(16384, 16384, 128, "float64"),
        )
        for into in (False, True)
    ),
)
_TRANSFER_ANYWHERE: Cases = (
    FirstCallCase(CdistCase(2048, 2048, 2, "float32")),
    TransferCase(CdistCase(64, 64, 16, "float32"), anywhere=True),
)
_TRAINING_CPU: Cases = tuple(
    TrainingCase(*shape, metric, back)
    for shape, metric in (((8, 390, 176, 4), "cityblock"), ((400, 64, 64, 3), "euclidean"))
    for back in (False, True)
)
_TRAINING_CUDA: Cases = (
    *(
        TrainingCase(*shape, metric, back)
        for shape, metric in (
            ((8, 3900, 176, 4), "cityblock"),
            ((4096, 64, 64, 3), "euclidean"),
            ((64, 1024, 1024, 64), "euclidean"),
            ((64, 512, 512, 64), "cityblock"),
        )
        for back in (False, True)
    ),
    TrainingCase(1, 4096, 4096, 128, "cityblock"),
    *(TrainingCase(1, 16384, 16384, 128, metric) for metric in ("euclidean", "cityblock")),
)
_SEVERAL: Cases = tuple(
    SeveralCase(inner)
    for inner in (
        CdistCase(30336, 30336, 2, "float32"),
        CdistCase(100_000, 100_000, 16, "float32"),
        CdistCase(16384, 16384, 128, "float32"),
        ApspCase(16384, "float32"),
        ApspCase(32768, "float32"),
        KnnCase(1_000_000, 100_000, 128, 10, "float32"),
    )
)
# Tasks of distances take a thread 0.1 s and more; the last has the bands that the guide names.
_DASK: Cases = (
    DaskCase(CdistCase(6000, 6000, 64, "float64", "canberra"), 8),
    DaskCase(CdistCase(4000, 4000, 64, "float64", "jensenshannon"), 8),
    DaskCase(ApspCase(4096, "float32"), 4),
    DaskCase(ApspCase(16384, "float32"), 9),
)
_ACCURACY = tuple(
    AccuracyCase(variant, dtype) for dtype in ("float32", "float64") for variant in variants()
)


def _sweep(
    rows: int, dims: tuple[int, ...], metrics: tuple[str, ...], shapes: tuple[tuple[int, int], ...]
) -> Iterator[SweepCase]:
    """Go through dimensions at one size, then through shapes at a few dimensions."""
    for dtype in ("float32", "float64"):
        for metric in metrics:
            for d in dims:
                yield SweepCase(CdistCase(rows, rows, d, dtype, metric))
        for d in (2, 16, 64, 512):
            for m, n in shapes:
                yield SweepCase(CdistCase(m, n, d, dtype))


_SWEEP_CPU = tuple(
    _sweep(
        512,
        (1, 2, 3, 4, 8, 16, 17, 32, 64, 128, 512, 4096),
        ("euclidean", "cityblock"),
        ((1, 512), (512, 1), (16, 16), (64, 64), (1, 20000), (20000, 8), (8, 20000)),
    )
)
_SWEEP_CUDA = tuple(
    _sweep(
        8192,
        (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33, 48, 64, 100, 128, 256, 512, 1024, 2048, 4096),
        ("euclidean", "cityblock", "chebyshev"),
        ((16, 16), (128, 128), (1000, 1000), (2048, 1024), (2048, 2048), (4001, 4003), (1, 65536),
         (64, 65536), (65536, 1), (65536, 64), (65536, 128), (65536, 1000)),
    )
)  # fmt: skip

SUITES = {
    "quick": Suite(
        "one small case of everything, under a minute",
        {
            "cpu": (
                CdistCase(2000, 2000, 2, "float64"),
                CdistCase(1000, 1000, 128, "float64"),
                CdistCase(1000, 1000, 128, "float32", "cityblock"),
                CdistCase(1000, 1000, 2, "float64", "haversine"),
                PdistCase(1000, 16, "float64"),
                ApspCase(500, "float64"),
                MinplusCase(500, 500, 500, "float64"),
            ),
            "cuda": (
                CdistCase(8192, 8192, 2, "float32"),
                CdistCase(4096, 4096, 128, "float32"),
                PdistCase(4096, 16, "float32"),
                ApspCase(1024, "float32"),
                MinplusCase(2048, 2048, 2048, "float32"),
            ),
        },
    ),
    "cdist": Suite("euclidean and cityblock", {"cpu": _CDIST_CPU, "cuda": _CDIST_CUDA}),
    "metrics": Suite("the other metrics", {"cpu": _METRICS_CPU, "cuda": _METRICS_CUDA}),
    "apsp": Suite("all-pairs shortest paths", {"cpu": _APSP_CPU, "cuda": _APSP_CUDA}),
    "batches": Suite("shortest paths in many graphs", {"cpu": _BATCHES_CPU, "cuda": _BATCHES_CUDA}),
    "training": Suite(
        "distances of batches with their gradients, beside PyTorch's",
        {"cpu": _TRAINING_CPU, "cuda": _TRAINING_CUDA},
    ),
    "largest": Suite(
        "shortest paths of 65536 nodes, measured once",
        {"cpu": (ApspCase(2000, "float64"),), "cuda": (ApspCase(65536, "float32"),)},
    ),
    "minplus": Suite("products over semirings", {"cpu": _MINPLUS_CPU, "cuda": _MINPLUS_CUDA}),
    "neighbors": Suite("nearest neighbours", {"cpu": _NEIGHBORS_CPU, "cuda": _NEIGHBORS_CUDA}),
    "perron": Suite("largest eigenvalues", {"cpu": _PERRON_CPU, "cuda": _PERRON_CUDA}),
    "transfer": Suite(
        "from NumPy to NumPy, the way to a GPU and back included",
        {"cpu": _TRANSFER_ANYWHERE + _TRANSFER_CPU, "cuda": _TRANSFER_ANYWHERE + _TRANSFER_CUDA},
    ),
    "several": Suite(
        "calls that several GPUs share, or on the CPU two of Dask's workers, beside one",
        {"cpu": _DASK, "cuda": _SEVERAL},
    ),
    "cpu": Suite(
        "cdist, metrics, apsp, minplus, neighbors, and calls after a product, on the CPU anywhere",
        dict.fromkeys(("cpu", "cuda"), _EVERYTHING_CPU),
        device="cpu",
    ),
    "sweep": Suite(
        "auto against every kernel, from tiny to large, thin and wide",
        {"cpu": _SWEEP_CPU, "cuda": _SWEEP_CUDA},
    ),
    "ladders": Suite(
        "the published studies, step by step, as python -m gpudist ladder --all",
        {"cpu": (), "cuda": ()},
    ),
    "accuracy": Suite(
        "the worst errors on data that is hard to get right",
        {"cpu": _ACCURACY, "cuda": _ACCURACY},
        ceilings=False,
    ),
    "ceilings": Suite("only what the machine can do at most", {"cpu": (), "cuda": ()}),
}
