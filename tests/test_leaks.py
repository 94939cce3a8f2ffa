"""What a call takes of Python's objects it gives back, whichever way it reads its arguments.

Python counts the blocks of memory that its objects take. A call that keeps an object keeps a block,
so that a thousand calls keep a thousand of them.
"""

import gc
import sys
import warnings

import numpy as np
import pytest
from capsules import PLAIN, VERSIONED, Export, Exporter
from claims import Claims, Exports

import gpudist
from gpudist import _core

A, B = np.arange(12.0).reshape(4, 3), np.arange(15.0).reshape(5, 3) / 7
OUT = np.empty((4, 5))
GRAPH = np.array([[0.0, 3, 8], [1, 0, 2], [1, 0, 0]])
CALLS = 200


class Words(str):
    """A text that is made anew each time it is asked for."""


class Typed:
    """What says that it has a dtype, and has no more of an array than that."""

    @property
    def dtype(self):
        return Words("float32 of a kind")


class Rows:
    """What NumPy makes an array of by its method."""

    def __init__(self, rows):
        self.rows = rows

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype=dtype)


def of_lists():
    gpudist.cdist(A.tolist(), B.tolist(), metric=Words("cityblock"))


def of_strided_arrays():
    gpudist.cdist(A[::-1, ::-1], np.asfortranarray(B), out=np.empty((4, 5)))


def of_other_dtypes():
    gpudist.cdist(A.astype("i2"), B > 1, "minkowski", p=3, w=[1, 2, 3], dtype="float32")
    gpudist.cdist(A.astype(">f8"), Rows(B.tolist()))


def of_unaligned_arrays():
    raw = np.zeros(4 * 3 * 8 + 1, np.uint8)[1:].view(np.float64).reshape(4, 3)
    gpudist.cdist(raw, B)


def of_arguments():
    gpudist.pdist(A, "mahalanobis", VI=np.eye(3).tolist())
    gpudist.pdist(A, "seuclidean", V=[1, 2, 3])
    gpudist.pdist(A, box=[1, 0, 2])
    gpudist.knn(A, B, 2, box=1)
    gpudist.pdist(A > 3, "jaccard", w=np.ones(3))


def of_neighbours():
    gpudist.knn(A, B, 2)
    gpudist.radius_neighbors(A, r=4.0)
    gpudist.count_neighbors(A, B, [1.0, 2.0], weights=(np.ones(4), np.ones(5)))


def of_batches():
    gpudist.cdist(A.reshape(2, 2, 3), B)
    gpudist.minplus(np.stack([GRAPH] * 2), GRAPH)


def of_graphs():
    gpudist.apsp(GRAPH, return_predecessors=True)
    gpudist.apsp([GRAPH, GRAPH[:2, :2]])
    gpudist.transitive_closure(GRAPH > 1)
    gpudist.minplus(GRAPH, GRAPH, GRAPH)


def of_matrices():
    gpudist.perron(GRAPH)


def with_progress():
    gpudist.cdist(A, B, progress=lambda done, total: None)


def with_options():
    gpudist.cdist(A, B, kernel="cdist/cpu_tile_baseline", max_memory="1 GB")


def by_a_callable():
    gpudist.cdist(A, B, lambda x, y: abs(x - y).sum())


def explained():
    gpudist.explain("cdist", A, B, device="cpu")


def _to_the_core(operand):
    _core.cdist(operand, B, OUT, "euclidean")


def of_capsules():
    for kind in (PLAIN, VERSIONED):
        _refused(_to_the_core, Exporter(Export(name=kind)))
        _refused(_to_the_core, Exporter(Export(name=kind, shape=None, ndim=2)))
        _refused(_to_the_core, Exporter(Export(name=kind, device_type=1)))


def of_no_capsules():
    _refused(_to_the_core, Exporter(None))
    _refused(_to_the_core, Exporter(Export(), device=lambda: (*range(3),)))
    _refused(_to_the_core, Exporter(Export(), device=lambda: 1 / 0))
    _refused(_to_the_core, Exports("no capsule"))


def of_interfaces():
    for wrong in ({}, {"shape": (4,)}, {"typestr": "<c8"}, {"strides": (8, 8, 8)}, {"stream": 0}):
        _refused(_to_the_core, Claims(**wrong))


def of_what_is_no_array():
    _refused(_to_the_core, Typed())
    _refused(gpudist.cdist, A, "points")
    _refused(gpudist.cdist, A, B[:, :2])
    _refused(gpudist.cdist, A, B, "euclidian")
    _refused(gpudist.cdist, A, B, out=np.empty((4, 4)))
    _refused(gpudist.cdist, A, B, device="cuda:")
    _refused(gpudist.cdist, A, B, options={"tile": 3})
    _refused(gpudist.cdist, A, B, kernel="cdist/cpu_tile_baseline", options={"tile": 3})
    _refused(gpudist.cdist, A, B, "minkowski", p=-1)
    _refused(gpudist.pdist, A, "mahalanobis", VI=np.eye(4))
    _refused(gpudist.pdist, A, box=[1, 2])
    _refused(gpudist.knn, A, k=1, box=-1)


def of_wrong_graphs():
    _refused(gpudist.apsp, -GRAPH)
    _refused(gpudist.apsp, GRAPH[:2])
    _refused(gpudist.perron, -GRAPH)
    _refused(gpudist.knn, A, B, 9)


def _refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception:
        return
    raise AssertionError("it was not refused")


WAYS = [
    of_lists, of_strided_arrays, of_other_dtypes, of_unaligned_arrays, of_arguments, of_neighbours,
    of_batches, of_graphs, of_matrices, with_progress, with_options, by_a_callable, explained,
    of_capsules, of_no_capsules, of_interfaces, of_what_is_no_array, of_wrong_graphs,
]  # fmt: skip


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("call", WAYS)
def test_no_object_is_kept(call):
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            before = blocks()
            for _ in range(CALLS):
                call()
            kept.append(blocks() - before)
    assert min(kept) < CALLS / 2  # caches fill, and are full at some time


def test_an_exception_s_class_is_not_kept():
    class Failure(Exception):
        pass

    def fails():
        raise Failure

    before = sys.getrefcount(Failure)
    for _ in range(CALLS):
        _refused(_to_the_core, Exporter(Export(), device=fails))
    assert sys.getrefcount(Failure) - before < CALLS / 2
