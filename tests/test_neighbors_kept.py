"""`Neighbors`: points that are arranged once have the bits of those that are so each time."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import gpudist
from gpudist import _core

MANY = 2000  # so many points are worth boxes, or products


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
    ask_again_and_again(3, 0.05, metric, arguments, dtype)


@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        ("euclidean", {}),
        ("sqeuclidean", {}),
        ("cosine", {}),
        ("cosine", {"w": np.arange(20) % 3}),
        ("correlation", {}),
        ("inner_product", {}),
        ("hellinger", {}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_query_after_query_of_many_columns(none_kept, metric, arguments, dtype):
    ask_again_and_again(20, 0.1, metric, arguments, dtype)


def ask_again_and_again(columns, radius, metric, arguments, dtype):
    x = points(MANY, columns, dtype=dtype)
    x[7] = x[1900]
    x[11] = np.nan
    index = gpudist.Neighbors(x, metric, **arguments)
    for rows in (1, 5, 0, 300, 3000):
        a = points(rows, columns, seed=rows, dtype=dtype)
        same(index.kneighbors(a, 4), gpudist.knn(a, x, 4, metric, **arguments))
        near = gpudist.radius_neighbors(a, x, radius, metric, **arguments)
        if rows:
            found = rows_of(index.radius_neighbors(a, radius))
            same(found, (near.distances, near.indices))
    same(index.kneighbors(None, 3), gpudist.knn(x, None, 3, metric, **arguments))
    other = points(40, columns, seed=1, dtype="float64" if dtype == "float32" else "float32")
    same(index.kneighbors(other), gpudist.knn(other.astype(dtype), x, 5, metric, **arguments))


@pytest.mark.parametrize(
    ("columns", "metric", "blocks"),
    [(3, "euclidean", 1), (20, "euclidean", 1), (20, "cosine", 2)],  # prepared rows are kept too
)
def test_points_are_arranged_once_and_given_back(none_kept, columns, metric, blocks):
    index = gpudist.Neighbors(points(MANY, columns), metric)
    assert _core.allocations() == none_kept
    for rows in (2, 200, 2):
        index.kneighbors(points(rows, columns, seed=1))
        assert _core.allocations() == none_kept + blocks
    index.radius_neighbors(radius=0.01)
    assert _core.allocations() == none_kept + blocks
    del index


def test_what_is_not_arranged(none_kept):
    for x, metric in ((points(100), "euclidean"), (points(MANY, 20), "hellinger")):
        index = gpudist.Neighbors(x, metric)
        same(index.kneighbors(x[:3]), gpudist.knn(x[:3], x, 5, metric))
        assert _core.allocations() == none_kept


def test_an_earlier_search_is_no_promise(none_kept):
    """Points that products tell apart for some rows, and for others not."""
    x = np.concatenate([points(MANY, 20), 5 + 1e-8 * points(MANY, 20, seed=1)])
    index = gpudist.Neighbors(x)
    for first in (0, 3900, 3900, 0):
        a = x[first : first + 90]
        same(index.kneighbors(a), gpudist.knn(a, x, 5))


def test_the_points_are_a_copy(none_kept):
    x = points(MANY)
    index, was = gpudist.Neighbors(x), x.copy()
    index.kneighbors(x[:2])
    x[:] = 0
    same(index.kneighbors(was[:9]), gpudist.knn(was[:9], was, 5))


@pytest.mark.parametrize(
    ("columns", "metric", "blocks"), [(3, "euclidean", 1), (20, "euclidean", 1), (20, "cosine", 2)]
)
def test_threads_ask_at_once(none_kept, columns, metric, blocks):
    x, a = points(20_000, columns), points(64, columns, seed=2)
    wanted, index = gpudist.knn(a, x, 5, metric), gpudist.Neighbors(x, metric)
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
    assert _core.allocations() == none_kept + blocks


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_has_boxes_of_its_own(none_kept, copied):
    x = points(MANY)
    index = gpudist.Neighbors(x, "cityblock", n_neighbors=2)
    index.kneighbors(x[:1])
    other = copied(index)
    assert _core.allocations() == none_kept + 1
    same(other.kneighbors(x[:7]), gpudist.knn(x[:7], x, 2, "cityblock"))
    assert _core.allocations() == none_kept + 2


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_answers_as_what_it_was_made_of(copied):
    x, y = points(90, dtype="float32"), points(7, seed=1)
    index = gpudist.Neighbors(x, n_neighbors=2, radius=0.3)
    other = copied(index)
    same(other.kneighbors(y), index.kneighbors(y))  # in float32, as the set is
    for graph in ("kneighbors_graph", "radius_neighbors_graph"):
        for asked in (y, None):
            mine, theirs = (getattr(i, graph)(asked, mode="distance") for i in (other, index))
            same((mine.data, mine.indices), (theirs.data, theirs.indices))


def test_what_a_point_lacks_is_no_element_of_a_graph():
    x = points(9)
    x[3] = np.nan
    index = gpudist.Neighbors(x)
    for mode in ("connectivity", "distance"):
        graph = index.kneighbors_graph(n_neighbors=8, mode=mode)
        graph.check_format(full_check=True)
        assert graph.getnnz(axis=1).tolist() == [7, 7, 7, 0, 7, 7, 7, 7, 7]
    same(
        (graph.data[:7], graph.indices[:7].astype(int)),
        [a[0, :7] for a in index.kneighbors(None, 8)],
    )
    none = index.kneighbors_graph(x[3:4], 2)
    assert none.shape == (1, 9) and none.nnz == 0


@pytest.mark.parametrize("device", ["gpu", "cuda:4096", "cuda:0,0"])
def test_a_device_that_is_none_is_refused_before_anything_is_asked(device):
    with pytest.raises((ValueError, gpudist.DeviceError), match=r"device|CUDA"):
        gpudist.Neighbors(points(10), device=device)


def test_errors_have_the_names_of_its_arguments():
    x = points(9)
    index = gpudist.Neighbors(x)
    for words, call in (
        ("n_neighbors must be a whole", lambda: gpudist.Neighbors(x, n_neighbors=2.5)),
        ("n_neighbors must be at least 1", lambda: gpudist.Neighbors(x, n_neighbors=0)),
        ("n_neighbors must be at most 9", lambda: index.kneighbors(x, 10)),
        ("n_neighbors must be at most 8", lambda: index.kneighbors_graph(n_neighbors=9)),
        ("radius must be 0 or more", lambda: gpudist.Neighbors(x, radius=-1)),
        ("radius must be a real number", lambda: index.radius_neighbors(x, "0.5")),
        ("X must be two-dimensional", lambda: gpudist.Neighbors(x[0])),
        ("X must be two-dimensional", lambda: index.kneighbors(x[0])),
        ("X must have as many columns as the set, 3", lambda: index.kneighbors(x[:, :2])),
        ("X must be an array of real numbers", lambda: index.radius_neighbors("x")),
        ("mode must be", lambda: index.radius_neighbors_graph(x[:, :2], mode="both")),
        ("sort_results must be", lambda: index.radius_neighbors(x, 1, sort_results=x)),
        ("metric's arguments are given by", lambda: gpudist.Neighbors(x, metric_params={})),
        ("leave it out", lambda: gpudist.Neighbors(x, leaf_size=30)),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()


@pytest.mark.parametrize(
    ("columns", "metric", "blocks"), [(3, "euclidean", 1), (20, "euclidean", 1), (20, "cosine", 2)]
)
def test_what_fails_leaves_nothing_behind(none_kept, columns, metric, blocks):
    x = points(MANY, columns)
    index = gpudist.Neighbors(x, metric)
    wanted = gpudist.knn(x[:5], x, 5, metric)
    for nth in range(1, 13):
        _core.fail_allocation(nth)
        try:
            same(index.kneighbors(x[:5]), wanted)
        except MemoryError:
            pass
        finally:
            _core.fail_allocation(0)
        assert _core.allocations() in (none_kept, none_kept + blocks)
    same(index.kneighbors(x[:5]), wanted)
    assert _core.allocations() == none_kept + blocks


@pytest.mark.parametrize("columns", [3, 512])
def test_a_stop_is_heard_while_points_are_arranged(none_kept, columns):
    """Among so many that this takes a while; a stop in the search would leave them arranged."""

    def stop(done):
        raise InterruptedError("enough")

    a, out = np.ones((1, columns)), (np.empty((1, 1)), np.empty((1, 1), np.int64))
    for rows in (2 ** np.arange(5) << 24) // 3 // columns:
        kept, x = _core.keep(), points(rows, columns)
        try:
            _core.nearest(a, x, *out, None, None, "euclidean", kept=kept, progress=stop)
        except InterruptedError:
            if _core.allocations() == none_kept:
                return
        del kept
    pytest.fail("nobody looked up while points were arranged")


def test_the_core_takes_what_keep_gave_alone():
    a = points(4)
    out = np.empty((4, 1)), np.empty((4, 1), np.int64)
    with pytest.raises((TypeError, ValueError)):
        _core.nearest(a, a, *out, None, None, "euclidean", kept=a)
    kept = _core.keep()
    x, y = points(MANY), points(MANY, seed=1)
    for among in (x, y, x[::-1], x[:1500]):  # others than the first go without
        _core.nearest(a, among, *out, None, None, "euclidean", kept=kept)
        same(out, gpudist.knn(a, among, 1))
    nan = points(MANY)
    nan[:4] = [np.nan, 0.5, 0.5]  # which chebyshev passes over
    kept, a = _core.keep(), np.tile([9.0, 0.5, 0.5], (4, 1))
    for metric in ("euclidean", "chebyshev", "euclidean"):
        _core.nearest(a, nan, *out, None, None, metric, kept=kept)
        same(out, gpudist.knn(a, nan, 1, metric))
    kept = _core.keep()
    for box in (np.array([1.0, 1.0, 1.0]), np.array([1.0, np.inf, 1.0]), None):
        _core.nearest(a, x, *out, None, None, "euclidean", box=box, kept=kept)
        same(out, gpudist.knn(a, x, 1, **({} if box is None else {"box": box})))


def test_weights_and_metrics_are_told_apart():
    a, x = points(9, 20), points(MANY, 20, seed=1)
    out, kept = (np.empty((9, 1)), np.empty((9, 1), np.int64)), _core.keep()
    weights = [None, np.arange(20.0), np.arange(20.0)[::-1].copy(), None]
    for metric in ("cosine", "correlation", "euclidean", "cosine"):
        for w in weights if metric != "euclidean" else [None]:
            _core.nearest(a, x, *out, None, None, metric, weights=w, kept=kept)
            same(out, gpudist.knn(a, x, 1, metric, **({} if w is None else {"w": w})))


def test_what_it_is_can_be_read():
    points = np.ones((4, 3), "f4")
    assert (
        repr(gpudist.Neighbors(points)) == "Neighbors(4 points of 3 columns of float32, euclidean)"
    )

    def mine(u, v):
        return abs(u - v).max()

    assert repr(gpudist.Neighbors(points, mine)).endswith("of float64, mine)")


def test_a_device_that_cannot_be_used_is_refused_at_once():
    """And not by the first query, which may come much later."""
    points = np.ones((4, 3))
    with pytest.raises(ValueError, match="device must be None, 'cpu', 'cuda' or 'cuda:N', got 'x'"):
        gpudist.Neighbors(points, device="x")
    with pytest.raises(gpudist.DeviceError, match=r"CUDA cannot be used|there is no cuda:99"):
        gpudist.Neighbors(points, device="cuda:99")
    with pytest.raises(
        (gpudist.DeviceError, ValueError), match=r"CUDA cannot|device names a GPU tw"
    ):
        gpudist.Neighbors(points, device="cuda:0,0")
    assert gpudist.Neighbors(points, device="cpu").kneighbors(n_neighbors=1)[1].shape == (4, 1)
