"""Boxes on a GPU pass over nobody's neighbour: the bits are those of a stable sort of distances."""

import numpy as np
import pytest
from test_neighbors import check, keys_from
from test_neighbors_boxes import SETS

import gpudist

ID = "neighbors/cuda_boxes"
PANELS = "neighbors/cuda_panels"
METRICS = ["euclidean", "sqeuclidean", "cityblock", "chebyshev"]
pytestmark = pytest.mark.gpu


def keys_of(a, b, metric="euclidean", first=None):
    return keys_from(gpudist.cdist(a, b, metric, device="cuda"), metric, first)


def knn(a, b, k, metric="euclidean", **more):
    return gpudist.knn(a, b, k, metric, kernel=ID, device="cuda", **more)


def assert_equal(found, wanted, k=None):
    np.testing.assert_array_equal(found.indices, wanted.indices[:, :k])
    np.testing.assert_array_equal(found.distances, wanted.distances[:, :k])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SETS)
def test_neighbours_are_the_first_of_a_stable_sort(name, dtype, metric, rng):
    for d in (1, 2, 3, 4, 5, 8):
        with np.errstate(all="ignore"):
            b = SETS[name](rng, d, dtype)
            between = (b[:20] / 2 + b[20:40] / 2).astype(dtype)
        a = np.concatenate([b[100:130], between, rng.normal(size=(10, d)).astype(dtype)])
        keys = keys_of(a, b, metric)
        for k in (1, 10, 33, 128):
            check(knn(a, b, k, metric), keys, k)
        among = knn(b, None, 17, metric)
        keys = keys_of(b[200:260], b, metric, first=200)
        check(type(among)(among.distances[200:260], among.indices[200:260]), keys, 17)
        check(knn(b, None, 17, metric, rows=slice(200, 260)), keys, 17)


@pytest.mark.parametrize("others", list(SETS)[:6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_all_points(others, dtype, rng):
    a = SETS[others](rng, 3, dtype)[:50] + dtype(1e5)
    for name in ("uniform", "all equal", "a thousand equal rows", "NaN and infinity"):
        b = SETS[name](rng, 3, dtype)
        for metric in METRICS:
            check(knn(a, b, 20, metric), keys_of(a, b, metric), 20)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 1024, 1025, 32769])
def test_any_number_of_points(n, rng):
    for d in (2, 7):
        a, b = rng.random((9, d)), rng.random((n, d))
        for k in {1, min(n, 32), min(n, 100)}:
            check(knn(a, b, k), keys_of(a, b), k)
        some = b[:200]
        if n > 1:
            k = min(len(some) - 1, 40)
            check(knn(some, None, k), keys_of(some, some, first=0), k)


@pytest.mark.parametrize("d", [1, 3, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_as_panels_of_many_points(d, dtype, rng):
    """Several levels of boxes, and rows that are put in an order of their own."""
    a, b = rng.random((5000, d)).astype(dtype), rng.random((40000, d)).astype(dtype)
    b[1::40] = b[::40]
    for metric in METRICS:
        panels = gpudist.knn(a, b, 64, metric, kernel=PANELS, device="cuda")
        for k in (1, 32, 64):
            assert_equal(knn(a, b, k, metric), panels, k)
    panels = gpudist.knn(b, k=10, kernel=PANELS, device="cuda")
    assert_equal(knn(b, None, 10), panels)
    some = knn(b, None, 10, rows=slice(1234, 7001))
    np.testing.assert_array_equal(some.indices, panels.indices[1234:7001])


@pytest.mark.parametrize("d", [3, 5])
def test_equal_points_are_no_reason_to_look_at_all(d, rng):
    same = np.full((300_000, d), 0.25, "f4")
    found = knn(same, None, 5)
    assert found.indices[:2].tolist() == [[1, 2, 3, 4, 5], [0, 2, 3, 4, 5]]
    assert (found.indices[6:] == np.arange(5)).all() and (found.distances == 0).all()
    found = knn(np.tile(rng.random((1, d)).astype("f4") + 7, (300_000, 1)), same, 5)
    assert (found.indices == np.arange(5)).all()
    assert (found.distances == found.distances[0, 0]).all()


def test_rows_of_any_strides(rng):
    torch = pytest.importorskip("torch")
    whole_a, whole_b = (rng.random((rows, 12)).astype("f4") for rows in (70, 9000))
    a, b = (torch.as_tensor(x, device="cuda") for x in (whole_a, whole_b))
    for columns in (slice(1, 4), slice(0, 12, 2)):
        found = gpudist.knn(a[:, columns], b[::2, columns], 10, kernel=ID)
        keys = keys_of(whole_a[:, columns], whole_b[::2, columns])
        check(type(found)(*(x.cpu().numpy() for x in found)), keys, 10)
    turned = gpudist.knn(a.T.contiguous().T[:, :3], b.T.contiguous().T[:, :3], 10, kernel=ID)
    keys = keys_of(whole_a[:, :3], whole_b[:, :3])
    check(type(turned)(*(x.cpu().numpy() for x in turned)), keys, 10)


def test_a_search_is_enqueued_and_captured(rng):
    torch = pytest.importorskip("torch")
    x = torch.as_tensor(rng.random((9000, 3)), device="cuda", dtype=torch.float32)
    wanted = gpudist.knn(x, k=7, kernel=PANELS)
    out = torch.empty_like(wanted.distances), torch.empty_like(wanted.indices)
    gpudist.knn(x, k=7, out=out, kernel=ID)
    assert torch.equal(out[1], wanted.indices)
    for each in out:
        each.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpudist.knn(x, k=7, out=out, kernel=ID)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out[0], wanted.distances) and torch.equal(out[1], wanted.indices)


def test_auto_takes_it_and_little_memory_is_no_reason_to_fail(rng):
    x = rng.random((20000, 3)).astype("f4")
    assert gpudist.explain("knn", x, k=10, device="cuda").kernel == ID
    found = gpudist.knn(x, k=10, device="cuda")
    for memory in (1 << 30, 6 << 20, 4 << 20, 2 << 20):
        less = gpudist.knn(x, k=10, device="cuda", max_memory=memory)
        assert_equal(less, found)


def test_what_it_does_not_take(rng):
    a, b = (rng.random((rows, 9)) for rows in (3, 3000))
    with pytest.raises(ValueError, match="up to 128 neighbours"):
        knn(a[:, :3], b[:, :3], 129)
    with pytest.raises(ValueError, match="1 to 8 dimensions"):
        knn(a, b, 5)
    with pytest.raises(ValueError, match="metric"):
        knn(a[:, :3], b[:, :3], 5, "cosine")
