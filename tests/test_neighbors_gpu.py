"""Neighbours on a GPU are what a stable sort of the device's own distances says, to the bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import RECORDS, forms, points
from device_libraries import CuPy, Numba, Torch
from test_neighbors import CASES, check, keys_from
from test_watching import seconds_to_hear

import gpudist

pytestmark = pytest.mark.gpu


@pytest.fixture(params=[Torch, CuPy, Numba], ids=["torch", "cupy", "numba"])
def library(request):
    return request.param()


def keys_of(a, b, metric="euclidean", first=None, **args):
    said = gpudist.explain("radius_neighbors", a, b, 1.0, metric, device="cuda", **args)
    distances = gpudist.cdist(a, b, metric, device="cuda", **{**args, "kernel": said.kernel})
    return keys_from(distances, metric, first)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("metric", "label"), CASES)
def test_the_k_nearest_are_the_first_of_a_stable_sort(metric, label, dtype, rng):
    d = RECORDS[metric].columns or 37
    args = dict(forms(metric))[label](rng, d)
    a, b = points(rng, 7, d, metric, dtype), points(rng, 300, d, metric, dtype)
    b[150:] = b[:150]
    similarity = RECORDS[metric].similarity
    keys = keys_of(a, b, metric, **args)
    for k in (1, 7, 33, 300):
        check(gpudist.knn(a, b, k, metric, device="cuda", **args), keys, k, similarity)
    keys = keys_of(b, b, metric, first=0, **args)
    check(gpudist.knn(b, k=9, metric=metric, device="cuda", **args), keys, 9, similarity)
    some = gpudist.knn(b, k=9, metric=metric, rows=slice(90, 120), device="cuda", **args)
    check(some, keys[90:120], 9, similarity)
    one = gpudist.nearest(b, None, metric, device="cuda", **args)
    np.testing.assert_array_equal(one.indices, np.argsort(keys, axis=1, kind="stable")[:, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 31, 2000])
def test_any_number_of_neighbours(m, dtype, rng):
    a, b = (rng.normal(size=(rows, 12)).astype(dtype) for rows in (m, 2000))
    keys = keys_of(a, b)
    for k in (1, 5, 32, 33, 300, 2000):
        check(gpudist.knn(a, b, k, device="cuda"), keys, k)


@pytest.mark.parametrize("d", [3, 16, 100])
def test_neighbours_do_not_depend_on_how_many_are_asked_for(d, rng):
    """Nor on which rows: whatever kernel finds them, also those within a radius."""
    a, b = (rng.normal(size=(rows, d)).astype("f4") for rows in (40, 20000))
    most = gpudist.knn(a, b, 200, device="cuda")
    for k in (1, 10, 100):
        few = gpudist.knn(a, b, k, device="cuda", rows=slice(3, 21))
        np.testing.assert_array_equal(few.indices, most.indices[3:21, :k])
        np.testing.assert_array_equal(few.distances, most.distances[3:21, :k])
    inside = gpudist.radius_neighbors(a, b, most.distances[:, 9], sort="distance", device="cuda")
    np.testing.assert_array_equal(np.diff(inside.indptr), 10)
    np.testing.assert_array_equal(inside.indices, most.indices[:, :10].ravel())
    np.testing.assert_array_equal(inside.distances, most.distances[:, :10].ravel())


def test_ties_are_broken_by_the_smaller_index(rng):
    a, b = rng.integers(0, 2, (40, 8)).astype("f4"), rng.integers(0, 2, (3000, 8)).astype("f4")
    for metric in ("hamming", "cityblock"):
        keys = keys_of(a, b, metric)
        for k in (1, 20, 50, 1500):
            check(gpudist.knn(a, b, k, metric, device="cuda"), keys, k)
    same = np.zeros((5000, 4))
    for k in (10, 100):
        found = gpudist.knn(same[:2], same, k, device="cuda").indices
        assert found.tolist() == [list(range(k))] * 2
    assert gpudist.knn(same, k=2, device="cuda").indices[:3].tolist() == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("k", [5, 40])
def test_nan_is_nobodys_neighbour_and_infinity_is(k, rng):
    x = rng.normal(size=(41, 3))
    x[2::9] = np.nan
    found = gpudist.knn(x, k=k, device="cuda")
    check(found, keys_of(x, x, first=0), k)
    assert (found.indices[2] == -1).all() and np.isnan(found.distances[2]).all()
    inside = gpudist.radius_neighbors(x, r=np.inf, device="cuda")
    assert not np.isin(inside.indices, np.arange(2, 41, 9)).any()
    far = [[np.inf], [1.0], [-np.inf]]
    assert gpudist.knn([[0.0]], far, 3, device="cuda").indices.tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("scale", [1e-42, 1e-20, 1e19])
def test_distances_at_the_ends_of_the_range(scale, rng):
    a = (rng.normal(size=(50, 9)) * scale).astype("f4")
    check(gpudist.knn(a, k=12, device="cuda"), keys_of(a, a, first=0), 12)
    away = (rng.normal(size=(60, 9)) + 1e6).astype("f4")
    check(gpudist.knn(away, k=40, device="cuda"), keys_of(away, away, first=0), 40)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "jensenshannon", "jaccard"])
def test_all_within_a_radius_and_their_numbers(metric, dtype, rng):
    a, b = points(rng, 30, 24, metric, dtype), points(rng, 3000, 24, metric, dtype)
    similarity = RECORDS[metric].similarity
    keys = keys_of(a, b, metric)
    order = np.argsort(keys, axis=1, kind="stable")
    radii = np.take_along_axis(keys, order[:, 40:41], 1)[:, 0] * (-1 if similarity else 1)
    inside = keys <= (-radii if similarity else radii)[:, None]
    i, j = np.nonzero(inside)
    found = gpudist.radius_neighbors(a, b, radii, metric, device="cuda")
    np.testing.assert_array_equal(found.indices, j)
    np.testing.assert_array_equal(-found.distances if similarity else found.distances, keys[i, j])
    np.testing.assert_array_equal(np.diff(found.indptr), inside.sum(axis=1))
    outwards = gpudist.radius_neighbors(a, b, radii, metric, sort="distance", device="cuda")
    for row, (first, last) in enumerate(zip(found.indptr, found.indptr[1:], strict=False)):
        np.testing.assert_array_equal(outwards.indices[first:last], order[row, : last - first])
    for most in (3, 35):
        few = gpudist.radius_neighbors(
            a, b, radii, metric, max_neighbors=most, sort="distance", device="cuda"
        )
        np.testing.assert_array_equal(few.indices.reshape(-1, most), order[:, :most])
        few = gpudist.radius_neighbors(a, b, radii, metric, max_neighbors=most, device="cuda")
        np.testing.assert_array_equal(few.indices.reshape(-1, most), np.sort(order[:, :most]))
    bounds = np.sort(radii)[::-1] if similarity else np.sort(radii)
    counted = gpudist.count_neighbors(a, b, bounds, metric, device="cuda")
    expected = [(keys <= (-r if similarity else r)).sum() for r in bounds]
    assert counted.dtype == np.int64 and counted.tolist() == expected
    assert gpudist.count_neighbors(a, b, float(bounds[0]), metric, device="cuda") == expected[0]


def test_weights_are_added_up_in_the_order_of_rows(rng):
    x, y = rng.random((50, 2)), rng.random((700, 2))
    wx, wy = rng.random(50), rng.random(700)
    keys, expected = keys_of(x, y), np.zeros(2)
    for i in range(50):
        for bin_, (low, high) in enumerate([(-1, 0.2), (0.2, 0.5)]):
            of_row = 0.0
            for w in wy[(low < keys[i]) & (keys[i] <= high)]:
                of_row += w
            expected[bin_] += wx[i] * of_row
    sums = gpudist.count_neighbors(
        x, y, [0.2, 0.5], weights=(wx, wy), cumulative=False, device="cuda"
    )
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("memory", [300_000, 2_000_000])
def test_little_memory_cuts_the_work_and_changes_nothing(memory, rng):
    a, b = rng.normal(size=(700, 30)).astype("f4"), rng.normal(size=(2300, 30)).astype("f4")
    keys = keys_of(a, b)
    for k in (3, 50):
        check(gpudist.knn(a, b, k, device="cuda", max_memory=memory), keys, k)
    r = np.sort(keys, axis=1)[:, 20]
    less = {"device": "cuda", "max_memory": memory}
    for more in ({}, {"max_neighbors": 9}, {"sort": "distance"}):
        cut = gpudist.radius_neighbors(a, b, r, **more, **less)
        whole = gpudist.radius_neighbors(a, b, r, **more, device="cuda")
        for x, y in zip(cut, whole, strict=True):
            np.testing.assert_array_equal(x, y)
    bounds = np.sort(r)[::100]
    counted = gpudist.count_neighbors(a, b, bounds, **less)
    np.testing.assert_array_equal(counted, [(keys <= x).sum() for x in bounds])
    with pytest.raises(MemoryError, match="max_memory allows 1000"):
        gpudist.knn(a, b, 3, device="cuda", max_memory=1000)


def test_none_at_all():
    none, some = np.zeros((0, 3)), np.ones((4, 3))
    assert gpudist.knn(none, some, 2, device="cuda").indices.shape == (0, 2)
    found = gpudist.radius_neighbors(some, none, 1.0, device="cuda")
    assert found.indptr.tolist() == [0] * 5 and found.indices.size == 0
    assert gpudist.radius_neighbors(some, some + 9, 1.0, device="cuda").indices.size == 0
    assert gpudist.count_neighbors(none, some, [1.0], device="cuda").tolist() == [0]


# ---------------------------------------------------------------- arrays on a device


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 7, 60])
def test_results_are_arrays_of_the_library_on_its_device(library, dtype, d, rng):
    a, b = (rng.normal(size=(rows, d)).astype(dtype) for rows in (130, 977))
    there = library.put(a), library.put(b)
    for k in (4, 77):
        got, wanted = gpudist.knn(*there, k), gpudist.knn(a, b, k, device="cuda")
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(library.get(x), y)
            assert library.get(x).dtype == y.dtype
    one = gpudist.nearest(there[1])
    assert library.get(one.indices).tolist() == gpudist.nearest(b, device="cuda").indices.tolist()
    radii = gpudist.knn(a, b, 20, device="cuda").distances[:, -1]
    for more in ({}, {"max_neighbors": 6}, {"sort": "distance"}):
        got = gpudist.radius_neighbors(*there, radii, **more)
        wanted = gpudist.radius_neighbors(a, b, radii, **more, device="cuda")
        assert got.columns == 977
        for x, y in zip(got[:3], wanted[:3], strict=True):
            np.testing.assert_array_equal(library.get(x), y)
            assert library.get(x).dtype == y.dtype
    with pytest.raises(TypeError, match="on the host"):
        got.to_scipy()
    counted = gpudist.count_neighbors(*there, np.sort(radii))
    wanted = gpudist.count_neighbors(a, b, np.sort(radii), device="cuda")
    np.testing.assert_array_equal(library.get(counted), wanted)
    assert gpudist.count_neighbors(*there, float(radii[0])) >= 20


def test_results_are_written_where_the_caller_says(library, rng):
    a, b = rng.normal(size=(30, 5)).astype("f4"), rng.normal(size=(90, 5)).astype("f4")
    there = library.put(a), library.put(b)
    out = library.put(np.zeros((30, 3), "f4")), library.put(np.zeros((30, 3), np.int64))
    found = gpudist.knn(*there, 3, out=out)
    assert found.distances is out[0] and found.indices is out[1]
    np.testing.assert_array_equal(library.get(out[1]), gpudist.knn(a, b, 3, device="cuda").indices)
    with pytest.raises(ValueError, match="for indices"):
        gpudist.knn(*there, 3, out=(out[0], library.put(np.zeros((30, 3), np.int32))))
    with pytest.raises(ValueError, match="for distances"):
        gpudist.knn(*there, 4, out=out)
    with pytest.raises(TypeError):
        gpudist.knn(*there, 3, out=(np.zeros((30, 3), "f4"), np.zeros((30, 3), np.int64)))
    with pytest.raises(TypeError):
        gpudist.knn(there[0], b, 3)


@pytest.mark.parametrize("kind", [Torch, CuPy], ids=["torch", "cupy"])
def test_narrow_indices_and_other_layouts(kind, rng):
    library = kind()
    a, b = rng.normal(size=(40, 6)), rng.normal(size=(300, 6))
    wanted = gpudist.knn(a, b, 5, device="cuda")
    got = gpudist.knn(library.put(a.T).T, library.put(b.T).T, 5, index_dtype=np.int32)
    assert library.get(got.indices).dtype == np.int32
    np.testing.assert_array_equal(library.get(got.indices), wanted.indices)
    half = library.put(a.astype("f2")), library.put(b.astype("f2"))
    assert library.get(gpudist.knn(*half, 5).distances).dtype == np.float32
    rows = gpudist.knn(library.put(b), k=5, rows=slice(7, 19))
    alone = gpudist.knn(b, k=5, rows=slice(7, 19), device="cuda")
    np.testing.assert_array_equal(library.get(rows.indices), alone.indices)


def test_a_kept_set_of_points_stays_on_the_device(rng):
    library = Torch()
    x, y = rng.normal(size=(80, 6)).astype("f4"), rng.normal(size=(9, 6)).astype("f4")
    kept = gpudist.Neighbors(library.put(x), n_neighbors=4, radius=2.0)
    distances, indices = kept.kneighbors(library.put(y))
    wanted = gpudist.Neighbors(x, n_neighbors=4, radius=2.0, device="cuda")
    np.testing.assert_array_equal(library.get(indices), wanted.kneighbors(y)[1])
    np.testing.assert_array_equal(library.get(distances), wanted.kneighbors(y)[0])
    for got, expected in zip(kept.radius_neighbors()[1], wanted.radius_neighbors()[1], strict=True):
        np.testing.assert_array_equal(library.get(got), expected)
    with pytest.raises(TypeError, match="on the host"):
        kept.kneighbors_graph()


def test_a_search_is_enqueued_on_the_callers_stream(rng):
    torch = Torch().module
    x = torch.as_tensor(rng.normal(size=(3000, 40)), device="cuda", dtype=torch.float32)
    wanted = gpudist.knn(x, k=7)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        later = x.clone()
        torch.cuda._sleep(20_000_000)
        later.mul_(1.0)
        got = gpudist.knn(later, k=7)
    stream.synchronize()
    assert torch.equal(got.indices, wanted.indices)
    out = torch.empty_like(wanted.distances), torch.empty_like(wanted.indices)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpudist.knn(x, k=7, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out[0], wanted.distances) and torch.equal(out[1], wanted.indices)


def test_threads_do_not_disturb_each_other(rng):
    sets = [rng.normal(size=(500 + 300 * i, 20)).astype("f4") for i in range(4)]

    def search(x):
        r = float(np.median(gpudist.knn(x, k=8, device="cuda").distances[:, -1]))
        return gpudist.knn(x, k=40, device="cuda"), gpudist.radius_neighbors(x, r=r, device="cuda")

    alone = [search(x) for x in sets]
    with ThreadPoolExecutor(4) as pool:
        for i, together in enumerate(pool.map(search, sets * 3)):
            for got, wanted in zip(together, alone[i % 4], strict=True):
                for one, other in zip(got, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)


def test_explain_names_who_looks_and_where(rng):
    x = rng.normal(size=(4000, 200)).astype("f4")
    said = gpudist.explain("knn", x, x, 500, device="cuda")
    assert said.kernel.startswith("cdist/cuda_") and said.device.startswith("cuda")
    assert "neighbors/cuda_panels looks through" in said.reason
    assert "tensor" not in said.kernel
    assert any("direct form" in why for why in said.rejected.values())
    named = gpudist.explain("knn", x, x, 5, kernel="cdist/cuda_tile")
    assert named.kernel == "cdist/cuda_tile" and named.device.startswith("cuda")
    check(gpudist.knn(x[:50], x, 5, kernel="cdist/cuda_tile"), keys_of(x[:50], x), 5)


def test_ctrl_c_is_heard_while_a_device_searches():
    torch = Torch().module
    x = torch.rand(30000, 1000, device="cuda", dtype=torch.float64)

    def call():
        gpudist.knn(x, k=5, metric="jensenshannon")
        torch.cuda.synchronize()

    assert min(seconds_to_hear(call, 0.6) for _ in range(2)) < 0.5
    found = gpudist.knn(x[:50], k=5, metric="jensenshannon")
    assert (found.indices.cpu().numpy() >= 0).all()


def test_progress_is_told(rng):
    told = []
    x = rng.normal(size=(3000, 64))
    gpudist.knn(x, k=5, device="cuda", progress=lambda done, total: told.append(done / total))
    assert told == sorted(told) and (not told or told[-1] <= 1)
