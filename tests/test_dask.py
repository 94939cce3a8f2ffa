"""Dask arrays: lazy results with the bits of one call, and refusals that say what to do."""

import doctest
import json
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import RECORDS, TRUTHS, forms, points

import gpudist
from gpudist import foreign

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'gpudist[dask]'")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

from gpudist.dask import bands, blocks, checkpoints, inputs  # noqa: E402
from gpudist.dask import paths as lazy_paths  # noqa: E402

# Workers meet at ports, whose sockets are closed when the garbage is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # Zarr of early 2025 beside numcodecs of 2026.
    pytest.mark.filterwarnings("ignore:crc32c usage is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def here():
    """Compute in this process, and one task after the other, unless a test says otherwise."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="2 GiB"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def same(lazy, expected):
    """Compare bits, and what Dask said about the result before it was computed."""
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert lazy.dtype == lazy._meta.dtype == expected.dtype
    assert type(lazy._meta) is type(expected)
    got = lazy.compute()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def small_chunks(**also):
    return dask.config.set({"array.chunk-size": "16 kiB", **also})


# ---------------------------------------------------------------- distances


@pytest.mark.parametrize("metric", RECORDS)
def test_blocks_have_the_bits_of_one_call(metric, rng):
    dtypes = ("float32", "float64") + ("bool",) * (metric in TRUTHS)
    for i, dtype in enumerate(dtypes):
        d = RECORDS[metric].columns or (7, 40, 16)[i]
        a, b = (points(rng, n, d, metric, dtype) for n in (150, 131))
        lazy, other = da.from_array(a, chunks=(67, d)), da.from_array(b, chunks=50)
        for _, make in list(forms(metric))[:3]:
            args = make(rng, d)
            same(gpudist.cdist(lazy, other, metric, **args), gpudist.cdist(a, b, metric, **args))
            with small_chunks():
                pairs = gpudist.pdist(lazy, metric, **args)
                assert pairs.numblocks[0] >= 3
                same(pairs, gpudist.pdist(a, metric, **args))


@pytest.mark.parametrize("n", [1, 2, 3, 700])
def test_pairs_of_few_and_of_many_rows(n, rng):
    for dtype, d in (("float32", 2), ("float64", 130)):
        x = rng.normal(size=(n, d)).astype(dtype)
        lazy = da.from_array(x, chunks=(100, d))
        with dask.config.set({"array.chunk-size": "200 kiB"}):
            for metric in ("euclidean", "cosine", "mahalanobis"):
                args = {"VI": np.eye(d)} if metric == "mahalanobis" else {}
                same(gpudist.pdist(lazy, metric, **args), gpudist.pdist(x, metric, **args))


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_what_depends_on_all_points_is_computed_once_of_all(metric, rng):
    a, b = rng.normal(size=(90, 5)), rng.normal(size=(40, 5)) * [1, 2, 3, 4, 5]
    lazy = da.from_array(a, chunks=(20, 2))
    result = gpudist.cdist(lazy, b, metric)
    same(result, gpudist.cdist(a, b, metric))
    same(gpudist.pdist(lazy, metric), gpudist.pdist(a, metric))
    distances, indices = gpudist.knn(lazy, b, 3, metric)
    expected = gpudist.knn(a, b, 3, metric)
    same(distances, expected.distances)
    same(indices, expected.indices)
    computed = {str(key) for key in result.__dask_graph__() if "gpudist-v" in str(key)}
    assert len(computed) == 1


def test_assert_eq_of_dask_holds_of_each_result(rng):
    """It compares the meta, and each chunk with what was said of it."""
    from dask.array.utils import assert_eq

    a, b = rng.normal(size=(60, 6)).astype("float32"), rng.normal(size=(30, 6)).astype("float32")
    lazy, graph = da.from_array(a, chunks=(25, 3)), np.triu(np.ones((300, 300)), 1)
    square = da.from_array(graph, chunks=100)
    for result, expected in [
        (gpudist.cdist(lazy, b), gpudist.cdist(a, b)),
        (gpudist.pdist(lazy), gpudist.pdist(a)),
        (gpudist.minplus(lazy, b.T), gpudist.minplus(a, b.T)),
        (gpudist.apsp(square), gpudist.apsp(graph)),
        (gpudist.transitive_closure(square), gpudist.transitive_closure(graph)),
        *zip(gpudist.knn(lazy, b, 2), gpudist.knn(a, b, 2), strict=True),
        *zip(gpudist.nearest(lazy), gpudist.nearest(a), strict=True),
    ]:
        assert_eq(result, expected, scheduler="synchronous")


def test_functions_of_two_rows(rng):
    x = rng.normal(size=(23, 3))
    lazy = da.from_array(x, chunks=(10, 3))
    same(gpudist.cdist(lazy, x[:7], _between), gpudist.cdist(x, x[:7], _between))
    with small_chunks():
        same(gpudist.pdist(lazy, _between, c=2.0), gpudist.pdist(x, _between, c=2.0))
    import scipy.spatial.distance as scipy_distance

    with pytest.raises(ValueError, match="give V: a function that is called by blocks"):
        gpudist.cdist(lazy, lazy, scipy_distance.seuclidean)


def _between(x, y, c=1.0):
    return c * abs(x - y).sum()


def test_chunks_of_results(rng):
    lazy = da.from_array(rng.normal(size=(100, 8)), chunks=((60, 40), 4))
    b = rng.normal(size=(50, 8))
    assert gpudist.cdist(lazy, b).chunks == ((60, 40), (50,))
    assert gpudist.cdist(b, lazy).chunks == ((50,), (100,))
    with small_chunks():  # 40 rows of 50 float64 numbers are 16 000 bytes
        assert gpudist.cdist(lazy, b).chunks == ((30, 30, 40), (50,))
        assert gpudist.cdist(lazy, b, dtype="float32").chunks == ((60, 40), (50,))
    assert gpudist.cdist(lazy[:0], b).compute().shape == (0, 50)
    assert gpudist.cdist(lazy, b[:0]).compute().shape == (100, 0)


def test_equal_calls_share_names_and_unequal_ones_do_not(rng):
    lazy = da.from_array(rng.normal(size=(100, 8)), chunks=(50, 8))
    plain = gpudist.cdist(lazy, lazy)
    assert plain.name.startswith("gpudist-cdist-")
    assert gpudist.cdist(lazy, lazy).name == plain.name
    others = [
        gpudist.cdist(lazy, lazy, "cityblock"),
        gpudist.cdist(lazy, lazy, dtype="float32"),
        gpudist.cdist(lazy, lazy, device="cpu"),
        gpudist.cdist(lazy, lazy, w=np.arange(8)),
    ]
    assert len({plain.name, *(x.name for x in others)}) == 5
    graph = da.ones((300, 300), chunks=100)
    one, two = gpudist.apsp(graph), gpudist.apsp(graph, dtype="float32")
    assert one.name.startswith("gpudist-apsp-dist-")
    assert gpudist.apsp(graph).name == one.name != two.name


def test_the_graph_of_cdist_is_small():
    """It grows to one task a block at the scheduler, and is sent as a rule how to grow."""
    a = da.random.default_rng(0).normal(size=(200_000, 8), chunks=(1000, 8))
    b = da.random.default_rng(1).normal(size=(10_000, 8), chunks=(10_000, 8))
    result = gpudist.cdist(a, b, dtype="float32")
    assert result.numblocks == (200, 1)
    layer = result.dask.layers[result.name]
    assert len(pickle.dumps(layer)) < 10_000


def test_inputs_are_left_as_they_were(rng):
    x = rng.random((300, 300))
    kept = x.copy()
    for lazy in (da.from_array(x, chunks=150), da.from_array(x, chunks=-1)):
        gpudist.cdist(lazy, x).compute()
        gpudist.minplus(lazy, x, x).compute()
        gpudist.apsp(lazy, bands=3).compute()
        gpudist.transitive_closure(lazy > 0.9, bands=3).compute()
        held = lazy.persist()
        gpudist.apsp(held, bands=2).compute()
        np.testing.assert_array_equal(held.compute(), kept)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("semiring", ["min_plus", "max_plus", "min_max", "max_min", "or_and"])
def test_products(semiring, rng):
    a, b, c = rng.random((70, 40)), rng.random((40, 50)), rng.random((70, 50))
    if semiring == "or_and":
        a, b, c = a > 0.9, b > 0.9, c > 0.9
    lazy = da.from_array(a, chunks=(30, 17)), da.from_array(b, chunks=20)
    expected = gpudist.minplus(a, b, c, semiring=semiring)
    same(gpudist.minplus(*lazy, da.from_array(c, chunks=9), semiring=semiring), expected)
    same(gpudist.minplus(lazy[0], b, semiring=semiring), gpudist.minplus(a, b, semiring=semiring))


def test_integers_are_multiplied_as_integers(rng):
    a, b = (rng.integers(0, 9, size=(40, 40)).astype("int32") for _ in range(2))
    same(gpudist.minplus(da.from_array(a, chunks=15), b), gpudist.minplus(a, b))
    wrong = da.from_array(a + 2**29, chunks=15)
    with pytest.raises(ValueError, match="magnitude 2\\*\\*28 or more"):
        gpudist.minplus(wrong, b).compute()


@pytest.mark.parametrize("among_themselves", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
def test_neighbours(metric, among_themselves, rng):
    a, b = rng.integers(0, 4, size=(90, 3)).astype("float32"), rng.random((60, 3), "float32")
    given = (a,) if among_themselves else (a, b)
    lazy = (da.from_array(a, chunks=(40, 2)), *given[1:])
    other = None if among_themselves else given[1]
    with small_chunks():
        found = gpudist.knn(lazy[0], other, 4, metric, index_dtype="int32")
        assert isinstance(found, gpudist.KNearest)
        expected = gpudist.knn(*given, k=4, metric=metric, index_dtype="int32")
        same(found.distances, expected.distances)
        same(found.indices, expected.indices)
        one = gpudist.nearest(lazy[0], other, metric)
        assert isinstance(one, gpudist.Nearest)
        same(one.indices, gpudist.nearest(*given, metric=metric).indices)


# ---------------------------------------------------------------- shortest paths


def roads(rng, n, density=0.05, low=0.0):
    w = rng.uniform(low, 1, size=(n, n))
    w[rng.random((n, n)) >= density] = 0
    return w


PATHS = {
    "plain": {},
    "float32": {"dtype": "float32"},
    "int32": {"dtype": "int32", "whole": True, "no_edge": -1.0},
    "undirected": {"directed": False},
    "unweighted": {"unweighted": True},
    "sentinel": {"no_edge": 0.5},
    "max_plus": {"semiring": "max_plus", "acyclic": True},
    "min_max": {"semiring": "min_max"},
    "max_min": {"semiring": "max_min", "dtype": "float32"},
    "max_min int32": {"semiring": "max_min", "dtype": "int32", "whole": True},
    "negative": {"acyclic": True, "low": -1.0},
    "zeros": {"whole": True, "scale": 2, "no_edge": -1.0},
}


@pytest.mark.parametrize("name", PATHS)
def test_bands_have_the_bits_of_one_call(name, rng):
    call = PATHS[name].copy()
    w = roads(rng, 520, low=call.pop("low", 0.0))
    scale = call.pop("scale", 1000)
    w = np.floor(w * scale) if call.pop("whole", False) else w
    w = np.triu(w, 1) if call.pop("acyclic", False) else w
    lengths, before = gpudist.apsp(w, return_predecessors=True, **call)
    for count, chunks in ((None, 200), (1, 520), (2, (100, 520)), (5, (520, 77)), (520, 300)):
        lazy = da.from_array(w, chunks=chunks)
        dist, pred = gpudist.apsp(lazy, bands=count, return_predecessors=True, **call)
        same(dist, lengths)
        same(pred, before)
    same(gpudist.apsp(lazy, **call), lengths)


@pytest.mark.parametrize("n", [0, 1, 2, 127, 128, 129])
def test_graphs_of_few_nodes(n, rng):
    w = roads(rng, n, 0.5)
    lazy = da.from_array(w, chunks=(max(n, 1), max(n, 1)))
    for count in (1, 7, min(max(n, 1), 30)):
        same(gpudist.apsp(lazy, bands=count), gpudist.apsp(w))
        same(gpudist.transitive_closure(lazy, bands=count), gpudist.transitive_closure(w))


def test_negative_cycles_raise_the_same_error(rng):
    w = np.where(roads(rng, 300) > 0, 1.0, 0.0)
    w[5, 250], w[250, 17], w[17, 5] = 3.0, -2.0, -2.0
    with pytest.raises(gpudist.NegativeCycleError) as expected:
        gpudist.apsp(w)
    lazy = gpudist.apsp(da.from_array(w, chunks=100))  # nothing is known yet
    with pytest.raises(gpudist.NegativeCycleError) as found:
        lazy.compute()
    assert found.value.nodes == expected.value.nodes
    assert found.value.cycle == expected.value.cycle
    assert str(found.value) == str(expected.value)


def outcome(graph, **call):
    """Give the results, or what the error says."""
    try:
        return gpudist.apsp(graph, no_edge=np.inf, return_predecessors=True, **call)
    except gpudist.NegativeCycleError as error:
        return str(error), error.nodes, error.cycle


def test_exact_sums_decide_about_cycles_near_0(rng):
    """Weights p[j] - p[i], rounded: rounded sums make negative cycles, and hide some."""
    n, errors = 150, 0
    for _ in range(20):
        p = rng.integers(-(2**28), 2**28, n)
        w = (p[None] - p[:, None]).astype("float32")
        w[rng.random((n, n)) >= 0.007] = np.inf
        expected = outcome(w)
        lazy = outcome(da.from_array(w, chunks=100), bands=2)
        try:
            found = dask.compute(*lazy)
        except gpudist.NegativeCycleError as error:
            assert (str(error), error.nodes, error.cycle) == expected
            errors += 1
        else:
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
    assert 0 < errors < 20


def test_of_large_graphs_the_nodes_stand_that_rounded_sums_found(rng, monkeypatch):
    w = roads(rng, 300, 0.3)
    w[5, 250] = w[250, 5] = -20
    monkeypatch.setattr(bands, "are_followed", lambda n: False)
    with pytest.raises(gpudist.NegativeCycleError) as found:
        gpudist.apsp(da.from_array(w, chunks=100)).compute()
    assert {5, 250} <= set(found.value.nodes)
    assert found.value.cycle == []
    fine = roads(rng, 300)
    same(gpudist.apsp(da.from_array(fine, chunks=100)), gpudist.apsp(fine))


@pytest.mark.parametrize(
    ("w", "call", "error"),
    [
        (0.5, {"dtype": "int32"}, r"graph\[5, 250\] is not a whole number"),
        (2.0**29, {"dtype": "int32"}, "magnitude 536870912; dtype=int32 takes weights below"),
        (1e39, {"dtype": "float32"}, r"magnitude 1e\+39, which float32 cannot hold"),
        (-2.0, {"no_edge": -1.0}, r"graph\[5, 250\] is a negative weight, which no_edge=-1"),
    ],
)
def test_weights_that_the_dtype_does_not_take(w, call, error):
    graph = np.full((300, 300), call.get("no_edge", 0.0))
    graph[5, 250] = w
    for given in (graph, da.from_array(graph, chunks=100)):
        with pytest.raises(ValueError, match=error):
            np.asarray(gpudist.apsp(given, **call))


def test_lengths_that_int32_does_not_hold():
    graph = np.zeros((300, 300))
    graph[0, 140] = graph[140, 290] = 2.0**29 - 1
    graph[290, 291] = 2.0
    for given in (graph, da.from_array(graph, chunks=100)):
        with pytest.raises(OverflowError, match="1 path lengths reach 2\\*\\*30"):
            np.asarray(gpudist.apsp(given, dtype="int32"))


@pytest.mark.parametrize("reflexive", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_reachability(directed, reflexive, rng):
    for w in (roads(rng, 333, 0.004), rng.random((333, 333)) < 0.004):
        call = {"directed": directed, "reflexive": reflexive}
        expected = gpudist.transitive_closure(w, **call)
        for count in (None, 1, 4, 7):
            lazy = da.from_array(w, chunks=(100, 333))
            same(gpudist.transitive_closure(lazy, bands=count, **call), expected)
    closed = gpudist.apsp(w, semiring="or_and")
    same(gpudist.apsp(lazy, semiring="or_and", bands=3), closed)


# ---------------------------------------------------------------- checkpoints


def steps(array):
    """Count the tasks of each kind."""
    names = [key[0].split("-")[2] for key in array.__dask_graph__() if "gpudist" in str(key[0])]
    return {name: names.count(name) for name in names}


def test_a_run_goes_on_from_its_checkpoint(tmp_path, rng, monkeypatch):
    w = roads(rng, 600)
    lazy, place = da.from_array(w, chunks=200), tmp_path / "half"
    call = {"bands": 5, "return_predecessors": True, "checkpoint": place}
    expected = gpudist.apsp(w, return_predecessors=True)
    whole = gpudist.apsp(lazy, **call)[0]
    assert steps(whole)["own"] == steps(whole)["start"] == 5
    assert steps(whole)["save"] == 20  # after each turn but the last
    own, turns = bands.own, []

    def stops(band, first, how, before):
        turns.append(first)
        if len(turns) == 4:
            raise RuntimeError("the machine was needed elsewhere")
        return own(band, first, how, before)

    monkeypatch.setattr(bands, "own", stops)
    with pytest.raises(RuntimeError, match="needed elsewhere"):
        gpudist.apsp(lazy, **call)[0].compute()
    monkeypatch.undo()
    done = int(zarr.open_group(place, mode="r").attrs["done"])
    assert done == 3
    rest = gpudist.apsp(lazy, **call)
    assert steps(rest[0])["own"] == 5 - done
    assert steps(rest[0])["load"] == 5
    assert "start" not in steps(rest[0])
    for found, one in zip(rest, expected, strict=True):
        same(found, one)
    sets = {child.name for child in place.iterdir() if child.is_dir()}
    # The last one, and that from which this run may have to begin again, as it just did for pred.
    assert sets == {f"{name}-{turn}" for name in ("dist", "pred", "facts") for turn in (3, 4)}
    last = gpudist.apsp(lazy, **call)
    assert steps(last[0])["own"] == 1
    same(last[1], expected[1])


def test_what_is_known_of_the_weights_is_kept_as_well(tmp_path):
    """A cycle that rounding hides is looked for after a resumption, too."""
    w = np.zeros((300, 300))
    w[0, 1], w[1, 2], w[2, 0] = 1.0, 2.0, -4.0
    place = tmp_path / "paths"
    for _ in range(2):
        with pytest.raises(gpudist.NegativeCycleError, match="0 -> 1 -> 2 -> 0"):
            gpudist.apsp(da.from_array(w, chunks=100), bands=3, checkpoint=str(place)).compute()
    facts = zarr.open_group(place, mode="r")["facts-2"][:]
    assert facts[:, 0].tolist() == [1, 0, 0]
    assert facts[0, 2] == 4


def test_a_checkpoint_is_of_one_call(tmp_path, rng):
    lazy, place = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths"
    gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    for graph, also in ((lazy, {"dtype": "float32"}), (lazy + 1, {})):
        with pytest.raises(ValueError, match="belongs to another call"):
            gpudist.apsp(graph, bands=3, checkpoint=place, **also)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("a year's work")
    for other in ("mine", "mine/thesis.txt"):
        with pytest.raises(ValueError, match="is no checkpoint of apsp"):
            gpudist.apsp(lazy, checkpoint=tmp_path / other)
    with pytest.raises(TypeError, match="must be the path of a folder, got int"):
        gpudist.apsp(lazy, checkpoint=3)


def test_sets_are_written_some_times_in_a_run():
    assert checkpoints.turns_to_save(5, 0) == [1, 2, 3, 4]
    assert checkpoints.turns_to_save(5, 2) == [3, 4]
    assert checkpoints.turns_to_save(1, 0) == []
    assert len(checkpoints.turns_to_save(100, 0)) <= checkpoints.SETS


# ---------------------------------------------------------------- where it runs


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
    return [t for t in dask_scheduler.tasks if "gpudist-apsp-band" in str(t)]


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
    assert sum(int(row[2]) for row in rows) == 25  # five turns of five bands of 256


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
    with pytest.raises(TypeError, match="takes chunks of NumPy so far"):
        gpudist.knn(lazy, k=2)
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device"):
        gpudist.cdist(da.from_array(x), lazy)


# ---------------------------------------------------------------- refusals


@pytest.fixture
def lazy():
    return da.ones((40, 40), chunks=20)


REFUSED = [
    (lambda x: gpudist.perron(x), "a is a Dask array|A is a Dask array"),
    (lambda x: gpudist.radius_neighbors(x, r=1.0), "no result in chunks of known shapes"),
    (lambda x: gpudist.count_neighbors(x, radii=[1.0]), "no result in chunks of known shapes"),
    (lambda x: gpudist.Neighbors(x), "Neighbors keeps its points here: give X.compute"),
    (lambda x: gpudist.Neighbors(np.ones((9, 40))).kneighbors(x), "X is a Dask array"),
    (lambda x: gpudist.explain("cdist", x, x), "XA is a Dask array"),
    (lambda x: gpudist.explain("apsp", x), "graph is a Dask array"),
    (lambda x: gpudist.explain("minplus", x, x), "A is a Dask array"),
    (lambda x: gpudist.compare("cdist", x, x), "is a Dask array"),
    (lambda x: gpudist.compare("apsp", x), "is a Dask array"),
    (lambda x: gpudist.measures.eccentricity(x), "dist is a Dask array"),
    (lambda x: gpudist.apsp_edges(x), "edges is a Dask array"),
    (lambda x: gpudist.reconstruct_path(x, 0, 1), "predecessors is a Dask array"),
    (lambda x: gpudist.reconstruct_paths(x, [0], [1]), "predecessors is a Dask array"),
    (lambda x: gpudist.cdist(np.ones((2, 40)), np.ones((3, 40)), w=x[0]), "w is a Dask array"),
    (lambda x: gpudist.cdist(np.ones((2, 3)), np.ones((3, 3)), out=x), "out must be a NumPy array"),
    (lambda x: gpudist.cdist(x, x, "seuclidean", V=x[0]), "V is a Dask array"),
    (lambda x: gpudist.cdist(x, x, out=np.ones((40, 40))), "takes no out: dask.array.store"),
    (lambda x: gpudist.cdist(x, x, rows=slice(3)), "takes no rows: slice the result"),
    (lambda x: gpudist.cdist(x, x, progress=True), "takes no progress: dask.diagnostics"),
    (lambda x: gpudist.knn(x, k=2, out=(1, 2)), "takes no out"),
    (lambda x: gpudist.knn(x), "k is missing"),
    (lambda x: gpudist.minplus(x, x, progress=print), "takes no progress"),
    (lambda x: gpudist.apsp(x, out=np.ones((40, 40))), "takes no out"),
    (lambda x: gpudist.apsp(x, overwrite=True), "takes no overwrite"),
    (lambda x: gpudist.apsp(x, labels=True), "takes no labels"),
    (lambda x: gpudist.apsp(x, nodelist=[1]), "are for graphs of named nodes"),
    (lambda x: gpudist.transitive_closure(x, out=np.ones((40, 40), bool)), "takes no out"),
    (lambda x: gpudist.apsp(x, semiring="or_and", checkpoint="x"), "checkpoint is for lengths"),
    (lambda x: gpudist.apsp(np.ones((4, 4)), bands=2), "bands is for Dask arrays"),
    (lambda x: gpudist.apsp(np.ones((4, 4)), checkpoint="x"), "checkpoint is for Dask arrays"),
    (lambda x: gpudist.transitive_closure(np.ones((4, 4)), bands=2), "bands is for Dask arrays"),
    (lambda x: gpudist.cdist(x.astype(complex), x), "XA must be an array of real numbers"),
    (lambda x: gpudist.cdist(x.map_blocks(np.ma.masked_array), x), "chunks of numpy.ma"),
    (lambda x: gpudist.cdist(x, x, "euclidean", p=3), "unexpected keyword argument 'p'"),
    (lambda x: gpudist.cdist(x, np.ma.masked_array([[1.0]])), "XB is a masked array"),
]


@pytest.mark.parametrize(("call", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused_with_advice(call, error, lazy, monkeypatch):
    """At once, and above all without computing anything."""
    monkeypatch.setattr(da.Array, "__array__", _nobody_computes)
    monkeypatch.setattr(da.Array, "compute", _nobody_computes)
    with pytest.raises(TypeError, match=error):
        call(lazy)


def _nobody_computes(*_, **__):
    raise AssertionError("a Dask array was computed without a word")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: gpudist.cdist(x[:, :3], x), "same number of columns, got 3 and 40"),
        (lambda x: gpudist.cdist(x, x, "euclidian"), "unknown metric 'euclidian'; did you mean"),
        (lambda x: gpudist.cdist(x, x, "minkowski", p=-1), "p must be greater than 0"),
        (lambda x: gpudist.cdist(x, x, w=-np.ones(40)), "weights must be non-negative"),
        (lambda x: gpudist.cdist(x, x, dtype="int32"), "dtype must be float32, float64 or float16"),
        (lambda x: gpudist.cdist(x, x, kernel="tile"), "unknown kernel 'tile'"),
        (lambda x: gpudist.cdist(x[0], x), "XA must be two-dimensional"),
        (lambda x: gpudist.cdist(x[x[:, 0] > 0], x), r"XA has chunks of unknown lengths; XA.comp"),
        (lambda x: gpudist.minplus(x, x[:3]), "A must have as many columns as B has rows"),
        (lambda x: gpudist.minplus(x, x, semiring="plus"), "unknown semiring"),
        (lambda x: gpudist.knn(x, k=40), "k must be at most 39, of 40 points but itself"),
        (lambda x: gpudist.knn(x, k=1, index_dtype="int8"), "index_dtype must be int64 or int32"),
        (lambda x: gpudist.apsp(x[:3]), r"square matrix, got shape \(3, 40\)"),
        (lambda x: gpudist.apsp(x, bands=0), "bands must be from 1 to 1000"),
        (lambda x: gpudist.apsp(x, bands=5000), "their square is the number of tasks; got 5000"),
        (lambda x: gpudist.apsp(x, kernel="apsp/cpu_blocked"), "kernel must be 'auto' for bands"),
        (lambda x: gpudist.apsp(x, device="cuda"), "bands of NumPy chunks are computed on the CPU"),
        (lambda x: gpudist.apsp(x, dtype="bool"), "dtype must be float32, float64, int32"),
        (lambda x: gpudist.apsp(x, semiring="or_and", return_predecessors=True), "no predecessors"),
        (lambda x: gpudist.transitive_closure(x > 0, no_edge=1), "no_edge is for numbers"),
    ],
)
def test_wrong_calls_are_refused_at_once(call, error, lazy):
    with pytest.raises(ValueError, match=error):
        call(lazy)


def test_frames_and_promises_of_dask_are_refused():
    one = dask.delayed(np.ones)((3, 3))
    with pytest.raises(TypeError, match=r"XA is a Delayed of Dask.*XA.compute\(\) brings it here"):
        gpudist.cdist(one, np.ones((3, 3)))
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pandas.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}), npartitions=2)
    with pytest.raises(TypeError, match=r"XA.to_dask_array\(lengths=True\) is a Dask array of it"):
        gpudist.cdist(frame, np.ones((3, 2)))
    assert gpudist.cdist(frame.to_dask_array(lengths=True), np.ones((3, 2))).shape == (2, 3)


def test_scipy_is_left_what_dask_holds(lazy):
    import scipy.spatial.distance

    with gpudist.patched_scipy() as routed:
        scipy.spatial.distance.cdist(lazy, lazy)
    assert routed.left == {"cdist: a Dask array, which SciPy computes as a whole": 1}


def test_radius_neighbours_of_parts(lazy, rng):
    """What the refusal advises."""
    x = rng.random((50, 2))
    whole = gpudist.radius_neighbors(x, x, 0.2)
    lazy = da.from_array(x, chunks=(20, 2))
    parts = [
        dask.delayed(gpudist.radius_neighbors)(part, x, 0.2) for part in lazy.to_delayed().ravel()
    ]
    found = np.concatenate([part.indices for part in dask.compute(*parts)])
    np.testing.assert_array_equal(found, whole.indices)


def test_the_page_and_the_notebook_say_the_same_on_paper():
    root = Path(__file__).resolve().parents[1]
    page, notebook = root / "docs/guide/dask.md", root / "notebooks/10_dask.ipynb"
    if not notebook.exists() or not page.exists():
        pytest.skip("the tests run apart from the source tree")
    rows = re.findall(r"^\| (?:cdist|apsp) \|.*$", page.read_text(encoding="utf-8"), re.M)
    printed = [
        line.rstrip()
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", ())
        for line in output.get("text", ())
    ]
    assert len(rows) == 2
    assert set(rows) <= set(printed)


ALONE = """
import sys, numpy as np, gpudist
gpudist.cdist(np.ones((3, 2)), [[1, 2]]); gpudist.apsp([[0, 1], [1, 0]])
gpudist.minplus([[1]], [[2]])
gpudist.knn(np.ones((3, 2)), k=1); gpudist.transitive_closure([[0, 1], [1, 0]])
print([name for name in sys.modules if name.partition(".")[0] in ("dask", "distributed", "zarr")])
"""


def test_nobody_imports_dask_who_does_not_use_it():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert foreign.is_dask(da.ones(3))
    assert not foreign.is_dask(np.ones(3), None, [1])


@pytest.mark.parametrize("module", [blocks, inputs, lazy_paths, bands, checkpoints])
def test_examples(module):
    assert doctest.testmod(module).failed == 0


def test_the_functions_take_what_they_stand_for():
    """gpudist.cdist hands on by name: no argument may be missing on the other side."""
    import inspect

    from gpudist import dask as lazily

    refused = {"apsp": {"sizes": [2], "unreachable": -1, "max_hops": 3, "indices": [0]}}
    for name in ("cdist", "pdist", "minplus", "apsp"):
        mine = set(inspect.signature(getattr(lazily, name)).parameters)
        whole = set(inspect.signature(getattr(gpudist, name)).parameters)
        assert mine | set(refused.get(name, ())) == whole, name
    graph = da.ones((3, 3), chunks=(2, 3))
    for argument, value in refused["apsp"].items():
        with pytest.raises(TypeError, match=f"{argument} is not for Dask arrays"):
            gpudist.apsp(graph, **{argument: value})
