"""`Neighbors`: points that are put into boxes once have the bits of those that are so each time."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import gpudist
from gpudist import _core

BOXED = 2000  # so many points are worth boxes


@pytest.fixture
def none_kept():
    """See that all memory is given back by the end."""
    gc.collect()
    before = _core.allocations()
    yield before
    gc.collect()
    assert _core.allocations() == before


def points(rows, columns=3, seed=0, dtype="float64"):
    return np.random.default_rng(seed).random((rows, columns)).astype(dtype)


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def rows_of(found):
    """Flatten arrays of arrays."""
    return [np.concatenate([*parts]) for parts in found]


@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        ("euclidean", {}),
        ("sqeuclidean", {}),
        ("cityblock", {}),
        ("chebyshev", {}),
        ("minkowski", {"p": 3}),
        ("euclidean", {"box": [1.0, 0.0, 0.7]}),
        ("cityblock", {"box": 1.0}),
        ("seuclidean", {"V": [1.0, 2.0, 3.0]}),
        ("cosine", {}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_query_after_query_has_the_bits_of_a_call(none_kept, metric, arguments, dtype):
    x = points(BOXED, dtype=dtype)
    x[7] = x[1900]
    if metric != "cosine":
        x[11] = np.nan
    index = gpudist.Neighbors(x, metric, **arguments)
    for rows in (1, 5, 0, 300, 3000):
        a = points(rows, seed=rows, dtype=dtype)
        same(index.kneighbors(a, 4), gpudist.knn(a, x, 4, metric, **arguments))
        near = gpudist.radius_neighbors(a, x, 0.05, metric, **arguments)
        if rows:
            found = rows_of(index.radius_neighbors(a, 0.05))
            same(found, (near.distances, near.indices))
    same(index.kneighbors(None, 3), gpudist.knn(x, None, 3, metric, **arguments))
    other = points(40, seed=1, dtype="float64" if dtype == "float32" else "float32")
    same(index.kneighbors(other), gpudist.knn(other.astype(dtype), x, 5, metric, **arguments))


def test_boxes_are_made_once_and_given_back(none_kept):
    index = gpudist.Neighbors(points(BOXED))
    assert _core.allocations() == none_kept
    for _ in range(3):
        index.kneighbors(points(2, seed=1))
        assert _core.allocations() == none_kept + 1
    index.radius_neighbors(radius=0.01)
    assert _core.allocations() == none_kept + 1
    del index


def test_few_points_and_many_columns_have_no_boxes(none_kept):
    for x in (points(100), points(BOXED, 9)):
        index = gpudist.Neighbors(x)
        same(index.kneighbors(x[:3]), gpudist.knn(x[:3], x, 5))
        assert _core.allocations() == none_kept


def test_the_points_are_a_copy(none_kept):
    x = points(BOXED)
    index, was = gpudist.Neighbors(x), x.copy()
    index.kneighbors(x[:2])
    x[:] = 0
    same(index.kneighbors(was[:9]), gpudist.knn(was[:9], was, 5))


def test_threads_ask_at_once(none_kept):
    x, a = points(50_000), points(64, seed=2)
    wanted, index = gpudist.knn(a, x, 5), gpudist.Neighbors(x)
    start, faults = threading.Barrier(6), []

    def ask():
        start.wait()
        try:
            for _ in range(20):
                same(index.kneighbors(a), wanted)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert _core.allocations() == none_kept + 1


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_has_boxes_of_its_own(none_kept, copied):
    x = points(BOXED)
    index = gpudist.Neighbors(x, "cityblock", n_neighbors=2)
    index.kneighbors(x[:1])
    other = copied(index)
    assert _core.allocations() == none_kept + 1
    same(other.kneighbors(x[:7]), gpudist.knn(x[:7], x, 2, "cityblock"))
    assert _core.allocations() == none_kept + 2


def test_what_fails_leaves_nothing_behind(none_kept):
    x = points(BOXED)
    index = gpudist.Neighbors(x)
    wanted = gpudist.knn(x[:5], x, 5)
    for nth in range(1, 9):
        _core.fail_allocation(nth)
        try:
            same(index.kneighbors(x[:5]), wanted)
        except MemoryError:
            pass
        finally:
            _core.fail_allocation(0)
        assert _core.allocations() <= none_kept + 1
    same(index.kneighbors(x[:5]), wanted)
    assert _core.allocations() == none_kept + 1


def test_the_core_takes_what_keep_gave_alone():
    a = points(4)
    out = np.empty((4, 1)), np.empty((4, 1), np.int64)
    with pytest.raises((TypeError, ValueError)):
        _core.nearest(a, a, *out, None, None, "euclidean", kept=a)
    kept = _core.keep()
    x, y = points(BOXED), points(BOXED, seed=1)
    for among in (x, y, x[::-1], x[:1500]):  # others than the first go without
        _core.nearest(a, among, *out, None, None, "euclidean", kept=kept)
        same(out, gpudist.knn(a, among, 1))
    nan = points(BOXED)
    nan[:4] = [np.nan, 0.5, 0.5]  # which chebyshev passes over
    kept, a = _core.keep(), np.tile([9.0, 0.5, 0.5], (4, 1))
    for metric in ("euclidean", "chebyshev", "euclidean"):
        _core.nearest(a, nan, *out, None, None, metric, kept=kept)
        same(out, gpudist.knn(a, nan, 1, metric))
    kept = _core.keep()
    for box in (np.array([1.0, 1.0, 1.0]), np.array([1.0, np.inf, 1.0]), None):
        _core.nearest(a, x, *out, None, None, "euclidean", box=box, kept=kept)
        same(out, gpudist.knn(a, x, 1, **({} if box is None else {"box": box})))
