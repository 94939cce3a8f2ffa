"""The same plans run wherever Dask or others run them, with the same bits."""

import subprocess
import sys
import time

import lazily
import numpy as np
import pytest
from lazily import da, dask, distributed, roads, same, small_chunks

import gpudist

pytestmark = lazily.MARKS


@pytest.fixture(autouse=True)
def here():
    with lazily.in_this_process():
        yield


@pytest.fixture(scope="module")
def cluster():
    with lazily.two_workers() as client:
        yield client


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_schedulers_of_one_process(scheduler, rng):
    w, x = roads(rng, 600), rng.normal(size=(300, 9))
    with dask.config.set(scheduler=scheduler), small_chunks():
        same(gpudist.apsp(da.from_array(w, chunks=100), bands=4), gpudist.apsp(w))
        same(gpudist.cdist(da.from_array(x, chunks=50), x), gpudist.cdist(x, x))
        same(gpudist.pdist(da.from_array(x, chunks=50)), gpudist.pdist(x))


def test_two_processes(cluster, rng):
    w, x = roads(rng, 600), rng.normal(size=(300, 9)).astype("float32")
    lazy = da.from_array(x, chunks=(50, 9))
    dist, pred = gpudist.apsp(da.from_array(w, chunks=100), return_predecessors=True)
    wanted = [dist, pred, gpudist.cdist(lazy, x), *gpudist.knn(lazy, k=3)]
    found = cluster.gather(cluster.compute(wanted))
    expected = [*gpudist.apsp(w, return_predecessors=True), gpudist.cdist(x, x)]
    for one, other in zip(found, [*expected, *gpudist.knn(x, k=3)], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    w[3, 4] = w[4, 3] = -1
    with pytest.raises(gpudist.NegativeCycleError) as error:
        cluster.gather(cluster.compute(gpudist.apsp(da.from_array(w, chunks=200))))
    assert 3 in error.value.nodes  # exceptions travel with what they hold


def test_a_worker_that_dies_midway(cluster, rng):
    w = roads(rng, 1000)
    slow = da.from_array(w, chunks=(128, 1000)).map_blocks(_slowly, dtype=w.dtype)
    future = cluster.compute(gpudist.apsp(slow))
    while len(cluster.run_on_scheduler(_done)) < 30:  # of some hundred tasks
        time.sleep(0.02)
    nanny = next(iter(cluster.scheduler_info()["workers"].values()))["nanny"]
    cluster.run_on_scheduler(_kill, nanny=nanny)
    np.testing.assert_array_equal(future.result(timeout=120), gpudist.apsp(w))
    cluster.wait_for_workers(2, timeout=60)


def _slowly(block):
    time.sleep(0.2)
    return block


def _done(dask_scheduler):
    return [t for t in dask_scheduler.tasks if "gpudist-apsp-other" in str(t)]


async def _kill(dask_scheduler, nanny):
    await dask_scheduler.rpc(nanny).kill(reason="a test", timeout=5)


def test_the_demo_says_what_went_where(rng, capsys):
    from gpudist import demo
    from gpudist.demo import cluster as two_workers

    points = np.column_stack([rng.uniform(-1, 1, 1200), rng.uniform(-3, 3, 1200)])
    points[7] = points[3]
    stages = demo.Stages()
    found = two_workers.solve(points, 1000.0, stages)
    matrix = demo.great_circles(points, points, device="cpu")
    hops = demo.keep_hops(matrix, 1000.0)
    assert found[0] == hops
    for one, other in zip(found[1:], demo.shortest_routes(matrix, device="cpu"), strict=True):
        np.testing.assert_array_equal(one, other)
    assert list(stages.seconds)[1:] == ["distances", "hops in range", "routes"]
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1] in ("1", "2")]
    assert sum(int(row[1]) for row in rows) == 8  # chunks of distances
    # In eight turns of eight bands; what the next one needs first is one task.
    assert sum(int(row[2]) for row in rows) == 64 - 7


def test_the_demo_on_a_cluster_is_for_the_cpu():
    from gpudist import demo

    pytest.importorskip("airportsdata")
    with pytest.raises(demo.DemoError, match="--dask is for the CPU: its two workers"):
        demo.run(limit=50, output=None, device="cuda", dask=True)


def test_a_large_second_operand_is_refused_before_it_is_sent(cluster):
    with distributed.Client(cluster.scheduler.address, set_as_default=True):
        large = da.zeros((100_000, 1000), chunks=(1000, 1000))
        with pytest.raises(MemoryError, match=r"XB takes 762.94 MiB, and every worker holds it"):
            gpudist.cdist(large[:10], large)
        assert gpudist.cdist(large, large[:10]).shape == (100_000, 10)


PLANNED = """
import numpy as np, dask.array as da, gpudist
assert "_array_expr" in da.Array.__module__
rng = np.random.default_rng(0)
w, x = np.where(rng.random((300, 300)) < 0.1, rng.random((300, 300)), 0), rng.random((99, 5))
graph, lazy = da.from_array(w, chunks=100), da.from_array(x, chunks=(40, 3))
dist, pred = gpudist.apsp(graph, return_predecessors=True)
expected = gpudist.apsp(w, return_predecessors=True)
pairs = [
    (dist, expected[0]), (pred, expected[1]),
    (gpudist.apsp(graph, directed=False), gpudist.apsp(w, directed=False)),
    (gpudist.transitive_closure(graph), gpudist.transitive_closure(w)),
    (gpudist.cdist(lazy, lazy, "seuclidean"), gpudist.cdist(x, x, "seuclidean")),
    (gpudist.pdist(lazy), gpudist.pdist(x)),
    (gpudist.minplus(lazy, lazy.T), gpudist.minplus(x, x.T)),
    *zip(gpudist.knn(lazy, k=2), gpudist.knn(x, k=2)),
]
for found, one in pairs:
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), one)
print("all", len(pairs))
"""


def test_with_query_planning(monkeypatch):
    """Which Dask will switch on one day: arrays are expressions then."""
    pytest.importorskip("dask.array._array_expr", reason="this version of Dask has none")
    monkeypatch.setenv("DASK_ARRAY__QUERY_PLANNING", "True")
    done = subprocess.run(
        [sys.executable, "-c", PLANNED], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "all 9", done.stderr[-2000:]


def test_ray_runs_the_same_graphs(rng):
    ray = pytest.importorskip("ray", reason="Ray is not installed, and is in no extra")
    try:
        from ray.util.dask import ray_dask_get
    except ImportError as error:  # it follows Dask's versions late
        pytest.skip(f"this version of Ray does not know this one of Dask: {error}")

    w, x = roads(rng, 400), rng.normal(size=(90, 4))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with dask.config.set(scheduler=ray_dask_get):
            same(gpudist.apsp(da.from_array(w, chunks=100)), gpudist.apsp(w))
            same(gpudist.cdist(da.from_array(x, chunks=30), x), gpudist.cdist(x, x))
    finally:
        ray.shutdown()


def test_coordinates_of_xarray_are_kept(rng):
    """The recipe of docs/guide/dask.md."""
    xarray = pytest.importorskip("xarray")
    x = rng.normal(size=(30, 4))
    stations = xarray.DataArray(
        x, dims=("station", "variable"), coords={"station": [f"s{i}" for i in range(30)]}
    )
    lazy = stations.chunk(station=10)
    others = stations.isel(station=slice(5)).rename(station="other")
    apart = xarray.apply_ufunc(
        gpudist.cdist,
        lazy,
        others,
        input_core_dims=[["station", "variable"], ["other", "variable"]],
        output_core_dims=[["station", "other"]],
        dask="allowed",
    )
    assert isinstance(apart.data, da.Array)
    assert apart.data.chunks == ((10, 10, 10), (5,))
    np.testing.assert_array_equal(apart.compute().values, gpudist.cdist(x, x[:5]))
    assert apart.sel(station="s7", other="s3").compute().item() == gpudist.cdist(x, x)[7, 3]
    with pytest.raises(TypeError, match=r"XA is of xarray, with chunks of Dask; XA\.data"):
        gpudist.cdist(lazy, others)
    assert gpudist.cdist(stations, others).shape == (30, 5)  # which is here already


@pytest.mark.gpu
def test_chunks_of_cupy(rng):
    cupy = pytest.importorskip("cupy")
    w, x = roads(rng, 700), rng.normal(size=(300, 40)).astype("float32")

    def there(array, chunks):
        return da.from_array(array, chunks=chunks).map_blocks(cupy.asarray)

    lazy, whole = there(x, (100, 40)), cupy.asarray(x)
    pairs = [
        (gpudist.cdist(lazy, lazy), gpudist.cdist(whole, whole)),
        (gpudist.pdist(lazy), gpudist.pdist(whole)),
        (gpudist.cdist(lazy, lazy, "seuclidean"), gpudist.cdist(whole, whole, "seuclidean")),
        (gpudist.minplus(lazy, lazy.T), gpudist.minplus(whole, whole.T)),
        (
            gpudist.transitive_closure(there(w, 200), bands=3),
            gpudist.transitive_closure(cupy.asarray(w)),
        ),
    ]
    for among in ((), (whole[:50],)):
        for metric in ("euclidean", "seuclidean"):
            found = gpudist.knn(lazy, *among, k=3, metric=metric, index_dtype="int32")
            expected = gpudist.knn(whole, *among, k=3, metric=metric, index_dtype="int32")
            pairs += zip(found, expected, strict=True)
    pairs += zip(gpudist.nearest(lazy), gpudist.nearest(whole), strict=True)
    for call in ({}, {"dtype": "float32"}, {"semiring": "max_min"}, {"directed": False}):
        found = gpudist.apsp(there(w, 200), bands=4, return_predecessors=True, **call)
        expected = gpudist.apsp(cupy.asarray(w), return_predecessors=True, **call)
        pairs += zip(found, expected, strict=True)
        pairs.append((gpudist.apsp(there(w, 200), bands=3, **call), expected[0]))
    for found, one in pairs:
        assert type(found._meta) is type(one)
        got = found.compute()
        assert type(got) is type(one)
        cupy.testing.assert_array_equal(got, one)
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device"):
        gpudist.cdist(da.from_array(x), lazy)
