"""Boxes on a GPU pass over nobody's neighbour: the bits are those of a stable sort of distances."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_neighbors import check, keys_from
from test_neighbors_boxes import SETS, radii_of

import gpudist
from gpudist import _core

ID = "neighbors/cuda_boxes"
PANELS = "neighbors/cuda_panels"
METRICS = ["euclidean", "sqeuclidean", "cityblock", "chebyshev"]
pytestmark = pytest.mark.gpu


def keys_of(a, b, metric="euclidean", first=None):
    return keys_from(gpudist.cdist(a, b, metric, device="cuda"), metric, first)


def knn(a, b, k, metric="euclidean", **more):
    return gpudist.knn(a, b, k, metric, kernel=ID, device="cuda", **more)


def within(a, b, r, metric="euclidean", kernel=ID, **more):
    return gpudist.radius_neighbors(a, b, r, metric, kernel=kernel, device="cuda", **more)


def count(a, b, radii, metric="euclidean", kernel=ID, **more):
    return gpudist.count_neighbors(a, b, radii, metric, kernel=kernel, device="cuda", **more)


def assert_same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def check_within(found, keys, r, most=None, sort="index"):
    """Hold lists against the definition, of at most the nearest so many."""
    order = np.argsort(keys, axis=1, kind="stable")
    r = np.broadcast_to(r, len(keys))
    lists = [row[keys[i, row] <= r[i]][:most] for i, row in enumerate(order)]
    lists = [np.sort(x) for x in lists] if sort == "index" else lists
    np.testing.assert_array_equal(np.diff(found.indptr), [len(x) for x in lists])
    np.testing.assert_array_equal(found.indices, np.concatenate(lists))
    kept = np.concatenate([keys[i, x] for i, x in enumerate(lists)])
    np.testing.assert_array_equal(found.distances, kept)


def check_all_within(a, b, metric, first=None):
    """Hold those within radii, and their numbers, against the matrix; all in one go."""
    keys = keys_of(a, b, metric, first)
    xa, xb = (a, b) if first is None else (b, None)
    rows = {} if first is None else {"rows": slice(first, first + len(a))}
    radii = radii_of(keys)
    for r in radii:
        for sort in ("index", "distance"):
            check_within(within(xa, xb, r, metric, sort=sort, **rows), keys, r, None, sort)
            few = within(xa, xb, r, metric, sort=sort, max_neighbors=7, **rows)
            check_within(few, keys, r, 7, sort)
    each = np.random.default_rng(0).choice(radii, len(a))
    check_within(within(xa, xb, each, metric, **rows), keys, each)
    check_within(within(xa, xb, each, metric, max_neighbors=40, **rows), keys, each, 40)
    counted = count(xa, xb, radii, metric, **rows)
    assert counted.tolist() == [(keys <= r).sum() for r in radii]


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


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SETS)
def test_all_within_a_radius_and_their_numbers(name, dtype, metric, rng):
    """Up to all others, of which rows have more than a warp puts in order."""
    d = (3, 2, 5, 8, 1)[len(name) % 5]
    with np.errstate(all="ignore"):
        b = SETS[name](rng, d, dtype)
        between = (b[:20] / 2 + b[20:40] / 2).astype(dtype)
    a = np.concatenate([b[100:130], between, rng.normal(size=(10, d)).astype(dtype)])
    check_all_within(a, b, metric)
    check_all_within(b[700:760], b, metric, first=700)
    keys = keys_of(b[700:760], b, metric, first=700)
    r = radii_of(keys)[-2]
    ends = within(b, None, r, metric)
    some = within(b, None, r, metric, rows=slice(700, 760))
    at = slice(ends.indptr[700], ends.indptr[760])
    assert_same((some.indices, some.distances), (ends.indices[at], ends.distances[at]))
    check_within(some, keys, r)


def test_rows_with_very_many_neighbours(rng):
    """More than a block has room for, and blocks of rows where memory is little."""
    x = rng.random((9000, 3)).astype("f4")
    x[::7] = x[3]
    for sort in ("index", "distance"):
        for r in (0.3, 1.0):
            wanted = within(x[:300], x, r, sort=sort, kernel="auto")
            assert np.diff(wanted.indptr).max() > (2048 if r == 1 else 256)
            assert_same(within(x[:300], x, r, sort=sort), wanted)
    radii = [0.05, 0.3, 1.0, 2.0]
    wanted = gpudist.count_neighbors(x, radii=radii, kernel=PANELS, device="cuda")
    np.testing.assert_array_equal(count(x, None, radii), wanted)
    np.testing.assert_array_equal(count(x, None, np.linspace(0, 2, 5000)).max(), 9000 * 8999)
    assert_same(within(x, None, 0.06, max_memory=8 << 20), within(x, None, 0.06))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_radii_of_many_points_as_panels_have_them(d, dtype, rng):
    x = rng.random((40000, d)).astype(dtype)
    x[1::40] = x[::40]
    y = rng.random((5000, d)).astype(dtype)
    r = (20 / 40000) ** (1 / d) / 2
    each = rng.random(5000) * r
    for a, b, r_ in ((x, None, r), (y, x, r), (y, x, each)):
        assert_same(within(a, b, r_), within(a, b, r_, kernel=PANELS))
        assert_same(
            within(a, b, r_, max_neighbors=5, sort="distance"),
            within(a, b, r_, max_neighbors=5, sort="distance", kernel=PANELS),
        )
    k = gpudist.knn(x, k=9, kernel=ID, device="cuda")
    inside = within(x, None, k.distances[:, -1], sort="distance")
    assert (np.diff(inside.indptr) >= 9).all()
    starts = inside.indptr[:-1, None] + np.arange(9)
    np.testing.assert_array_equal(inside.indices[starts], k.indices)


def test_arrays_on_the_device_and_none_within(rng):
    torch = pytest.importorskip("torch")
    x = torch.as_tensor(rng.random((20000, 3)), device="cuda", dtype=torch.float32)
    for more in ({"r": 0.03}, {"r": 0.03, "max_neighbors": 4}, {"r": 0.0}, {"r": 0.1}):
        found = gpudist.radius_neighbors(x, kernel=ID, **more)
        host = gpudist.radius_neighbors(x.cpu().numpy(), kernel=ID, device="cuda", **more)
        assert_same([z.cpu().numpy() for z in found[:3]], host[:3])
    assert gpudist.radius_neighbors(x + 9, x, 1.0, kernel=ID).indices.numel() == 0
    assert gpudist.count_neighbors(x + 9, x, 1.0, kernel=ID) == 0


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 8])
def test_points_whose_mates_tell_little(d, dtype, rng):
    """Clusters, far points, equal ones and NaN among others."""
    x = rng.random((20000, d))
    x[:3000] = rng.normal(size=(3000, d)) * 1e-4 + 5
    x[3000:3200] = 7
    x[3200:3300] = rng.standard_cauchy((100, d)) * 1e3
    x[3300:3320] = np.nan
    x[3320:3340, 0] = np.inf
    x = x[rng.permutation(20000)].astype(dtype)
    for metric in METRICS:
        panels = gpudist.knn(x, None, 32, metric, kernel=PANELS, device="cuda")
        for k in (1, 16, 20, 21, 32):
            assert_equal(knn(x, None, k, metric), panels, k)


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


def test_auto_leaves_radii_with_nearly_all_to_panels(rng):
    x = rng.random((9000, 3)).astype("f4")
    assert gpudist.explain("radius_neighbors", x, r=0.1, device="cuda").kernel == ID
    assert gpudist.explain("count_neighbors", x, radii=0.1, device="cuda").kernel == ID
    for r in (0.1, 1.5):
        found = gpudist.radius_neighbors(x, r=r, device="cuda")
        assert_same(found, within(x, None, r, kernel=PANELS))
    w = rng.random(9000)
    sums = gpudist.count_neighbors(x, radii=[0.1, 0.2], weights=w, device="cuda")
    np.testing.assert_array_equal(sums, count(x, None, [0.1, 0.2], weights=w, kernel=PANELS))


def test_a_kept_set_of_points_is_arranged_once(rng):
    gc.collect()
    before = _core.allocations()
    x = rng.random((20000, 3)).astype("f4")
    x[5], x[7] = np.nan, x[9000]
    index = gpudist.Neighbors(x, n_neighbors=6, radius=0.03, device="cuda")
    for rows in (1, 300, 9000, 1):
        a = rng.random((rows, 3)).astype("f4")
        assert_same(index.kneighbors(a), knn(a, x, 6))
        near = within(a, x, 0.03)
        found = index.radius_neighbors(a)
        np.testing.assert_array_equal(np.concatenate([*found[0]]), near.distances)
        np.testing.assert_array_equal(np.concatenate([*found[1]]), near.indices)
        assert _core.allocations() == before + 1
    assert_same(index.kneighbors(), knn(x, None, 6))
    assert_same(index.kneighbors(None, 200), gpudist.knn(x, None, 200, device="cuda"))
    del index
    gc.collect()
    assert _core.allocations() == before


def test_a_kept_set_is_asked_by_threads_and_streams(rng):
    torch = pytest.importorskip("torch")
    x = torch.as_tensor(rng.random((50000, 3)), device="cuda", dtype=torch.float32)
    parts = [torch.rand(500 + 300 * i, 3, device="cuda") for i in range(4)]
    wanted = [gpudist.knn(part, x, 5) for part in parts]
    torch.cuda.synchronize()
    for _ in range(3):
        index = gpudist.Neighbors(x, n_neighbors=5)

        def ask(i, index=index):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                found = [index.kneighbors(parts[i]) for _ in range(4)]
            stream.synchronize()
            return found

        with ThreadPoolExecutor(4) as pool:
            for i, found in enumerate(pool.map(ask, range(4))):
                for distances, indices in found:
                    assert torch.equal(indices, wanted[i].indices)
                    assert torch.equal(distances, wanted[i].distances)
        last = index.kneighbors(parts[0])
        del index  # while it may be searched
        assert torch.equal(last[1], wanted[0].indices)


def test_a_graph_that_is_captured_outlives_a_kept_set(rng):
    torch = pytest.importorskip("torch")
    x = torch.as_tensor(rng.random((20000, 3)), device="cuda", dtype=torch.float32)
    index = gpudist.Neighbors(x, n_neighbors=5)
    wanted = index.kneighbors()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = index.kneighbors()
    del index
    torch.rand(1 << 22, device="cuda")
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(found[1], wanted[1]) and torch.equal(found[0], wanted[0])


def test_what_it_does_not_take(rng):
    a, b = (rng.random((rows, 9)) for rows in (3, 3000))
    with pytest.raises(ValueError, match="up to 128 neighbours"):
        knn(a[:, :3], b[:, :3], 129)
    with pytest.raises(ValueError, match="1 to 8 dimensions"):
        knn(a, b, 5)
    with pytest.raises(ValueError, match="metric"):
        knn(a[:, :3], b[:, :3], 5, "cosine")
    with pytest.raises(ValueError, match="up to 128 neighbours"):
        within(a[:, :3], b[:, :3], 0.1, max_neighbors=129)
    with pytest.raises(ValueError, match="order of XB"):
        count(a[:, :3], b[:, :3], [0.1], weights=(np.ones(3), np.ones(3000)))
