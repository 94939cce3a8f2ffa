"""The measuring core: clocks, ceilings, rivals, JSON lines, tables, and the README made of them."""

import io
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import gpudist
from gpudist import _tables, bench
from gpudist.bench import (
    accuracy,
    adversary,
    cases,
    ceilings,
    plots,
    readme,
    records,
    regressions,
    report,
    rivals,
    samples,
    suites,
    sweep,
    timing,
)
from gpudist.bench.runner import Runner
from gpudist.metrics import METRICS
from gpudist.work import Work, distance_pipe

ROOT = Path(__file__).resolve().parents[1]


# ------------------------------------------------------------------ timing


class TickingClock:
    """A clock whose samples take what it is told, and that counts the calls."""

    name = "ticking"
    least_sample = 0.0

    def __init__(self, *seconds):
        self.seconds = list(seconds)
        self.calls = []

    def sample(self, call, calls):
        call()
        self.calls.append(calls)
        return self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def test_timing_summarises_its_samples():
    fields = timing.Timing((5.0, 1.0, 2.0, 3.0, 4.0)).fields()
    assert fields == {
        "median_s": 3.0,
        "q1_s": 2.0,
        "q3_s": 4.0,
        "min_s": 1.0,
        "max_s": 5.0,
        "repeats": 5,
    }
    assert timing.Timing((7.0,)).quartiles == (7.0, 7.0)


@pytest.mark.parametrize("seconds", [(), (1.0, -1.0)])
def test_timing_refuses_nonsense(seconds):
    with pytest.raises(ValueError, match="not a measurement"):
        timing.Timing(seconds)


def test_the_warm_call_is_not_counted():
    measured = timing.time_call(lambda: None, clock=TickingClock(9.0, 1.0), repeats=3)
    assert measured.seconds == (1.0, 1.0, 1.0)


def test_a_call_over_budget_is_measured_once():
    clock = TickingClock(30.0)
    assert timing.time_call(lambda: None, clock=clock, budget=20.0).seconds == (30.0,)
    assert clock.calls == [1]


def test_sampling_stops_when_the_budget_is_spent():
    measured = timing.time_call(lambda: None, clock=TickingClock(6.0), repeats=7, budget=10.0)
    assert len(measured.seconds) == 2


def test_short_calls_share_a_sample():
    clock = TickingClock(1e-5, 1e-3)
    clock.least_sample = 1e-3
    measured = timing.time_call(lambda: None, clock=clock, repeats=2)
    assert clock.calls == [1, 100, 100]
    assert measured.seconds == pytest.approx((1e-5, 1e-5))


def test_repeats_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        timing.time_call(lambda: None, repeats=0)


def test_host_clock_sees_a_sleep():
    import time

    assert 0.01 <= timing.HostClock().sample(lambda: time.sleep(0.005), 2) < 1.0


def test_event_clock_flushes_before_the_first_event(monkeypatch):
    log = []

    class Core:
        @staticmethod
        def event_record(device, stream):
            log.append(("event", device, stream))
            return len(log)

        @staticmethod
        def event_elapsed(start, end):
            log.append(("elapsed", start, end))
            return 250.0

    monkeypatch.setattr(timing, "_core", Core)
    clock = timing.EventClock("cuda:1", 7, before=lambda: log.append("flush"))
    assert clock.sample(lambda: log.append("call"), 2) == 0.25
    event = ("event", "cuda:1", 7)
    assert log == ["flush", event, "call", "call", event, ("elapsed", 2, 5)]


# ------------------------------------------------------------------ ceilings


def ceiling(name, rate, dtype="float64", backend="cpu"):
    kernel = f"ceiling/{backend}_{name}"
    return ceilings.Ceiling(name, kernel, dtype, rate, timing.Timing((1.0,)))


def test_ceilings_of_this_cpu():
    measured = ceilings.measure_ceilings("cpu", repeats=2)
    assert set(measured) == {"write", "read", "copy", "fma", "minplus"}
    for name, limit in measured.items():
        assert limit.rate > 1e7, name
        assert limit.timing.fields()["repeats"] == 2
        assert gpudist.kernels("ceiling")  # the id is a row of the table
        assert limit.kernel in {kernel.id for kernel in gpudist.kernels("ceiling")}


def test_the_first_runnable_ceiling_of_a_name_is_taken(monkeypatch):
    rows = gpudist.kernels("ceiling")
    lame = tuple(
        replace(row, why_not="broken") if row.id == "ceiling/cpu_write_avx512" else row
        for row in rows
    )
    monkeypatch.setattr(gpudist, "kernels", lambda op: lame)
    chosen = [row.id for row in ceilings.ceiling_kernels("cpu")["write"]]
    expected = [row.id for row in lame if "cpu_write" in row.id and row.why_not is None]
    assert chosen == expected != []
    assert "ceiling/cpu_write_avx512" not in chosen


def test_a_ceiling_that_the_device_lacks_gives_way_to_the_next(monkeypatch):
    asked = []

    def refuse_the_first(id, *_):
        asked.append(id)
        if len(asked) == 1:
            raise ValueError("it needs compute capability 9.0")
        return 8.0, (1.0,)

    monkeypatch.setattr(ceilings._core, "ceiling", refuse_the_first)
    rows = {"tensor": gpudist.kernels("ceiling")[:2], "none": gpudist.kernels("ceiling")[2:2]}
    monkeypatch.setattr(ceilings, "ceiling_kernels", lambda backend: rows)
    measured = ceilings.measure_ceilings("cuda:0")
    assert list(measured) == ["tensor"]
    assert measured["tensor"].kernel == rows["tensor"][1].id == asked[1]


def test_ceilings_of_a_process_are_measured_once(monkeypatch):
    calls = []
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *a, **k: calls.append(a) or {})
    ceilings.ceilings_of.cache_clear()
    assert ceilings.ceilings_of("cpu") is ceilings.ceilings_of("cpu")
    assert len(calls) == 1
    ceilings.ceilings_of.cache_clear()


def test_the_fastest_sample_is_the_ceiling():
    samples = timing.Timing((2.0, 0.5, 4.0))
    assert ceilings.Ceiling("write", "ceiling/cpu_write", "float64", 8.0, samples).rate == 16.0


def test_arithmetic_ceilings_scale_with_the_type_on_a_cpu_only():
    assert ceiling("fma", 8.0).rate_in("float32") == 16.0
    assert ceiling("write", 8.0).rate_in("float32") == 8.0
    assert ceiling("minplus", 8.0).rate_in("float32") is None
    assert ceiling("fma", 8.0, "float32", "cuda").rate_in("float32") == 8.0
    assert ceiling("fma", 8.0, "float32", "cuda").rate_in("float64") is None


@pytest.mark.parametrize(
    ("kernel", "metric", "dtype", "arguments", "pipe"),
    [
        ("cdist/cuda_tile", "euclidean", "float32", {}, ("fma", 2.0)),
        ("cdist/cuda_tile", "euclidean", "float64", {}, ("fma64", 2.0)),
        ("cdist/cpu_tile_avx2", "euclidean", "float64", {}, ("fma", 1.0)),
        ("cdist/cuda_sums", "euclidean", "float32", {"weighted": True}, ("fma", 3.0)),
        ("cdist/cpu_tile_avx2", "cosine", "float64", {"weighted": True}, ("fma", 1.0)),
        ("cdist/cuda_sums", "seuclidean", "float32", {"weighted": True}, ("fma", 3.0)),
        ("cdist/cuda_sums", "canberra", "float32", {"weighted": True}, (None, 1.0)),
        ("cdist/cpu_sums_avx2", "minkowski", "float64", {"p": 3.0}, ("fma", 2.0)),
        ("cdist/cpu_tile_avx2", "minkowski", "float64", {"p": 1.0}, ("fma", 2.0)),
        ("cdist/cpu_sums_avx2", "minkowski", "float64", {"p": 2.5}, (None, 1.0)),
        ("cdist/cuda_tensor", "euclidean", "float32", {}, ("tensor", 3.0)),
        ("cdist/cuda_tensor_f64", "cosine", "float64", {}, ("tensor64", 1.0)),
    ],
)
def test_the_pipe_that_bounds_distances(kernel, metric, dtype, arguments, pipe):
    assert distance_pipe(kernel, metric, dtype, **arguments) == pipe


def said(case):
    return case.explain(case.operands(), "cpu")


def test_work_counts():
    work = said(cases.CdistCase(10, 20, 3, "float32")).work
    assert (work.read, work.written, work.operations) == (30 * 3 * 4, 800, 600)
    assert (work.pipe, work.unit) == ("fma", "pair-dimensions")
    truths = said(cases.CdistCase(10, 20, 3, "bool", "jaccard")).work
    assert (truths.read, truths.written, truths.operations) == (90, 1600, 600)
    assert truths.pipe is None
    pairs = said(cases.CdistCase(10, 20, 2, "float64", "haversine")).work
    assert (pairs.operations, pairs.unit, pairs.pipe) == (200, "pairs", None)
    halves = said(cases.PdistCase(10, 3, "float64")).work
    assert (halves.read, halves.written, halves.operations) == (240, 45 * 8, 135)
    paths = said(cases.ApspCase(10, "float32", predecessors=True)).work
    assert (paths.read, paths.written, paths.operations) == (400, 800, 1000)
    assert (paths.pipe, paths.unit) == ("minplus", "updates")
    product = said(cases.MinplusCase(3, 4, 5, "int32")).work
    assert (product.read, product.written, product.operations) == (128, 60, 60)
    assert said(cases.MinplusCase(3, 4, 5, "bool", "or_and")).work.pipe is None


@pytest.mark.parametrize(
    ("work", "through_host", "name", "seconds"),
    [
        (Work(0, 100, 50, "x", "fma"), False, "write", 10.0),
        (Work(0, 100, 500, "x", "fma"), False, "fma", 50.0),
        (Work(0, 100, 500, "x", "fma", slots=2), False, "fma", 100.0),
        (Work(100, 100, 0, "x"), False, "copy", 40.0),
        (Work(900, 100, 0, "x"), False, "read", 450.0),
        (Work(0, 100, 50, "x", "fma"), True, "d2h", 100.0),
        (Work(0, 100, 50, "x", "minplus"), False, "write", 10.0),
    ],
)
def test_the_slowest_ceiling_binds(work, through_host, name, seconds):
    limits = {
        "write": ceiling("write", 10.0),
        "read": ceiling("read", 2.0) if work.read > 500 else ceiling("read", 10.0),
        "copy": ceiling("copy", 5.0),
        "fma": ceiling("fma", 10.0),
        "h2d": ceiling("h2d", 1.0),
        "d2h": ceiling("d2h", 1.0),
    }
    found = ceilings.floor(work, "float64", limits, through_host=through_host)
    assert (found.ceiling.name, found.seconds) == (name, seconds)
    times = [
        one.seconds for one in ceilings.floors(work, "float64", limits, through_host=through_host)
    ]
    assert times == sorted(times, reverse=True)


def test_no_ceiling_no_floor():
    assert ceilings.floor(Work(1, 1, 1, "x"), "float64", {}) is None


# ------------------------------------------------------------------ accuracy


@pytest.mark.parametrize(
    ("result", "exact", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([-1.0], [1.0], 2.0),
        ([0.0, math.inf, math.nan], [0.0, math.inf, math.nan], 0.0),
        ([1e-30], [0.0], math.inf),
        ([math.nan], [1.0], math.inf),
        ([1.0], [math.nan], math.inf),
        ([math.inf], [1.0], math.inf),
        ([1.0], [math.inf], math.inf),
        ([], [], 0.0),
    ],
)
def test_max_relative_error(result, exact, error):
    assert accuracy.max_relative_error(np.array(result), np.array(exact)) == error


def test_max_relative_error_wants_equal_shapes():
    with pytest.raises(ValueError, match="shape"):
        accuracy.max_relative_error(np.zeros(3), np.zeros((1, 3)))


# ------------------------------------------------------------------ samples


def test_sample_rows():
    assert samples.sample_rows(100, 3).tolist() == [0, 49, 99]
    assert samples.sample_rows(2, 64).tolist() == [0, 1]
    assert samples.sample_rows(0, 64).tolist() == []


def picked(sample, result):
    """What a sample picks out of a result, and its own numbers."""
    parts = sample.pick(result)
    return np.concatenate([np.asarray(part) for part in parts]), sample.exact


def test_samples_of_distances(rng):
    a, b, w = rng.random((200, 3)), rng.random((7, 3)), rng.random(3)
    whole = np.abs(a[:, None] - b).sum(axis=-1)
    sample = samples.sample("cdist", (a, b), {"metric": "cityblock"})
    assert sample.rows == 64
    np.testing.assert_array_equal(*picked(sample, whole))
    sample = samples.sample("cdist", (a, b), {"metric": "cityblock", "w": w})
    np.testing.assert_allclose(*picked(sample, (np.abs(a[:, None] - b) * w).sum(axis=-1)))


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "mahalanobis"])
def test_samples_of_defaults_go_by_all_points(rng, metric):
    from scipy.spatial.distance import cdist, pdist

    a, b = rng.random((90, 3)), rng.random((70, 3))
    pairs = samples.sample("cdist", (a, b), {"metric": metric})
    np.testing.assert_allclose(*picked(pairs, cdist(a, b, metric)), rtol=1e-12)
    condensed = samples.sample("pdist", (a,), {"metric": metric})
    np.testing.assert_allclose(*picked(condensed, pdist(a, metric)), rtol=1e-12)


def test_samples_of_paths(rng, monkeypatch):
    from scipy.sparse.csgraph import johnson

    weights = rng.uniform(1, 9, (60, 60)) * (rng.random((60, 60)) < 0.1)
    weights[:, 7] = 0  # nothing leads to node 7
    for negative, limit in ((False, 0), (True, 0), (True, 512)):
        if negative:  # edges, but no cycle of them
            weights[20][weights[20] > 0] -= 1.5
        exact = johnson(weights)
        monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
        np.testing.assert_allclose(*picked(samples.sample("apsp", (weights,), {}), exact))
        both = samples.sample("apsp", (weights,), {"return_predecessors": True})
        np.testing.assert_allclose(*picked(both, (exact, None)))
        hops = samples.sample("apsp", (weights,), {"unweighted": True, "dtype": "int32"})
        ours = gpudist.apsp(weights, unweighted=True, dtype="int32", device="cpu")
        np.testing.assert_array_equal(*picked(hops, ours))


@pytest.mark.parametrize("arguments", [{}, {"directed": False}, {"reflexive": True}])
def test_samples_of_what_can_be_reached(rng, monkeypatch, arguments):
    graph = rng.random((80, 80)) < 0.01
    reached = gpudist.transitive_closure(graph, device="cpu", **arguments)
    assert 0 < reached.mean() < 1
    for limit in (0, 512):
        monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
        for given in (graph, np.where(graph, 2.0, 0.0)):
            sample = samples.sample("transitive_closure", (given,), arguments)
            np.testing.assert_array_equal(*picked(sample, reached))


def test_samples_of_products(rng):
    a, b = rng.integers(9, size=(100, 5)), rng.integers(9, size=(5, 6))
    sample = samples.sample("minplus", (a, b), {"semiring": "max_plus", "dtype": "int32"})
    np.testing.assert_array_equal(*picked(sample, (a[:, :, None] + b).max(axis=1)))


def test_samples_of_eigenvalues(rng):
    a = rng.random((20, 20)).astype(np.float32)
    sample = samples.sample("perron", (a,), {"tol": 1e-3})
    largest = np.linalg.eigvals(a.astype(np.float64)).real.max()
    np.testing.assert_allclose(sample.exact, [largest], rtol=1e-12)
    assert picked(sample, gpudist.perron(a, device="cpu"))[0] == pytest.approx(largest, 1e-6)


def test_samples_of_anything_else_are_the_whole_result(monkeypatch):
    monkeypatch.setattr(gpudist, "power", lambda x, kernel: np.full((2, 2), x), raising=False)
    sample = samples.sample("power", (2.0,), {})
    np.testing.assert_array_equal(*picked(sample, np.full((2, 2), 2.0)))


# ------------------------------------------------------------------ exact distances

NAN, INF = math.nan, math.inf
ULP = np.spacing(1.0)


def exact(x, y, metric, **metric_args):
    pytest.importorskip("mpmath")
    ((distance,),) = accuracy.exact_cdist(np.array([x]), np.array([y]), metric, **metric_args)
    return distance


@pytest.mark.parametrize(
    ("metric", "x", "y", "metric_args", "distance"),
    [
        # float64 arithmetic loses all digits of these, or leaves its range on the way.
        ("euclidean", [1e200, 3.0], [1e200, -1.0], {}, 4.0),
        ("euclidean", [3 * 2.0**600, 0.0], [0.0, 2.0**602], {}, 5 * 2.0**600),
        ("euclidean", [5e-324], [0.0], {}, 5e-324),
        ("cityblock", [1e308], [-1e308], {}, INF),
        ("inner_product", [1e200, 1.0, -1e200], [1.0, 1.0, 1.0], {}, 1.0),
        ("inner_product", [1e200], [-1e200], {}, -INF),
        ("minkowski", [1e200], [0.0], {"p": 3}, 1e200),
        ("minkowski", [4.0, 9.0], [0.0, 0.0], {"p": 0.5}, 25.0),
        ("minkowski", [3.0, -4.0], [0.0, 0.0], {"p": INF}, 4.0),
        ("cosine", [1.0, 0.0], [1.0, 1e-20], {}, 5e-41),
        ("cosine", [1.0, 0.0], [-1.0, 0.0], {}, 2.0),
        ("correlation", [1e15, 1e15 + 1], [0.0, 1.0], {}, 0.0),
        ("hellinger", [1.0 - ULP, ULP], [1.0, 0.0], {}, np.sqrt(ULP / 2) * (1 + ULP / 8)),
        ("jensenshannon", [1e200, 1e200], [2e-200, 2e-200], {}, 0.0),
        ("haversine", [1.0, 2.0], [1.0 + ULP, 2.0], {}, ULP),
        # Arguments.
        ("euclidean", [1.0, 1.0], [0.0, 3.0], {"w": [5.0, 1.0]}, 3.0),
        ("chebyshev", [1.0, 7.0], [0.0, 0.0], {"w": [0.1, 0.0]}, 1.0),
        ("seuclidean", [3.0, 0.0], [0.0, 4.0], {"V": [9.0, 16.0]}, np.sqrt(2.0)),
        ("seuclidean", [1.0], [3.0], {}, np.sqrt(2.0)),
        ("mahalanobis", [1.0, 0.0], [0.0, 1.0], {"VI": [[2.0, 1.0], [1.0, 9.0]]}, 3.0),
        ("mahalanobis", [1.0], [0.0], {"VI": [[-1.0]]}, NAN),
        ("jensenshannon", [1.0, 0.0], [0.0, 1.0], {"base": 2}, 1.0),
        # What is not defined, or infinite.
        ("cosine", [0.0, 0.0], [1.0, 0.0], {}, NAN),
        ("canberra", [0.0, 1.0], [0.0, 3.0], {}, 0.5),
        ("braycurtis", [1.0], [-1.0], {}, INF),
        ("braycurtis", [0.0], [0.0], {}, NAN),
        ("jensenshannon", [0.0], [1.0], {}, INF),
        ("jensenshannon", [1.0, 1.0], [1.0, -0.5], {}, INF),
        ("kl_divergence", [0.0, 1.0], [0.5, 1.0], {}, 0.0),
        ("kl_divergence", [0.5, 0.5], [0.0, 1.0], {}, INF),
        ("hellinger", [-1.0], [1.0], {}, NAN),
        ("dice", [2.0, 0.0, 3.0], [1.0, 1.0, 3.0], {}, -12.0 / 10.0),
        ("dice", [True, True], [True, False], {}, 1 / 3),
        ("dice", [2.0, 4.0], [5.0, 0.0], {"w": [1.0, 2.0]}, 0.6),
        ("jaccard", [0.0], [-0.0], {}, 0.0),
        ("kulczynski1", [7.0], [7.0], {}, INF),
        ("kulczynski1", [0.0], [0.0], {}, NAN),
        ("yule", [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], {}, 1.0),
        ("sokalsneath", [0.0], [0.0], {}, NAN),
        ("hamming", [1.0, 2.0], [1.0, 3.0], {"w": [0.0, 0.0]}, NAN),
    ],
)
def test_exact_distances(metric, x, y, metric_args, distance):
    np.testing.assert_equal(exact(x, y, metric, **metric_args), distance)


@pytest.mark.parametrize("metric", [record.name for record in METRICS])
def test_exact_distances_of_no_columns(metric):
    pytest.importorskip("mpmath")
    if metric == "haversine":
        pytest.skip("has two columns")
    nothing = {"VI": np.zeros((0, 0))} if metric == "mahalanobis" else {}
    found = accuracy.exact_cdist(np.zeros((1, 0)), np.zeros((2, 0)), metric, **nothing)
    special = {"inner_product": 0.0, "hellinger": 1.0, "kl_divergence": 0.0, "kulczynski1": NAN}
    if metric in special:
        assert np.array_equal(found, np.full((1, 2), special[metric]), equal_nan=True)
    elif metric in rivals.SCIPYS and metric not in ("correlation", "mahalanobis", "seuclidean"):
        distance = pytest.importorskip("scipy.spatial.distance")
        with np.errstate(all="ignore"):
            scipys = distance.cdist(np.zeros((1, 0)), np.zeros((2, 0)), metric)
        assert np.array_equal(found, scipys, equal_nan=True)


def test_exact_distances_are_near_scipys(rng):
    pytest.importorskip("mpmath")
    distance = pytest.importorskip("scipy.spatial.distance")
    a, b, w = rng.random((5, 9)), rng.random((7, 9)), rng.random(9)
    for metric in rivals.SCIPYS:
        args = {"VI": np.diag(w)} if metric == "mahalanobis" else {}
        takes_w = metric not in ("mahalanobis", "seuclidean", "jensenshannon")
        for given in (args, {"w": w}) if takes_w else (args,):
            np.testing.assert_allclose(
                accuracy.exact_cdist(a, b, metric, **given),
                distance.cdist(a, b, metric, **given),
                rtol=1e-13,
                atol=1e-15,
                err_msg=f"{metric} {given}",
            )
    few = distance.cdist(a[:, :3], b[:, :3], "mahalanobis")
    np.testing.assert_allclose(accuracy.exact_cdist(a[:, :3], b[:, :3], "mahalanobis"), few)


@pytest.mark.parametrize(
    ("x", "metric", "metric_args", "message"),
    [
        ([INF], "euclidean", {}, "finite"),
        ([NAN], "euclidean", {}, "finite"),
        ([1.0], "manhattan", {}, "manhattan"),
        ([1.0], "seuclidean", {"V": [0.0]}, "variance"),
    ],
)
def test_exact_distances_refuse(x, metric, metric_args, message):
    with pytest.raises(ValueError, match=message):
        exact(x, [1.0], metric, **metric_args)


# ------------------------------------------------------------------ hard data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", [record.name for record in METRICS])
def test_adversarial_data(metric, dtype):
    sets = accuracy.adversarial(metric, dtype, wide=True)
    again = accuracy.adversarial(metric, dtype, wide=True)
    usual = accuracy.adversarial(metric, dtype)
    assert len(usual) >= 3
    assert (len(sets) > len(usual)) == (metric in adversary.PRODUCTS)
    for name, (a, b) in sets.items():
        assert (a.dtype, b.dtype) == (dtype, dtype)
        wide = name not in usual
        assert (len(a), len(b)) == (adversary.WIDE_ROWS if wide else adversary.ROWS)
        columns = 2 if metric == "haversine" else adversary.COLUMNS
        assert a.shape[1] == b.shape[1] == (adversary.WIDE_COLUMNS if wide else columns)
        assert np.isfinite(a).all() and np.isfinite(b).all()
        assert np.array_equal(b[-1], a[0])
        assert all(map(np.array_equal, (a, b), again[name]))


def test_near_duplicates_are_one_ulp_apart():
    a, b = accuracy.adversarial("euclidean", "float32")["one ulp apart"]
    same = a[np.arange(adversary.ROWS[1]) % adversary.ROWS[0]]
    steps = np.abs(b - same) / np.spacing(np.abs(same))
    assert set(np.unique(steps[:-1])) <= {0.0, 0.5, 1.0}
    assert (steps[:-1] > 0).any(axis=1).all()


def test_magnitudes_reach_the_ends():
    for dtype, reach in (("float32", 17), ("float64", 145)):
        exponents = np.log10(np.abs(accuracy.adversarial("cosine", dtype)["wide"][0]))
        assert exponents.min() < -reach
        assert exponents.max() > reach


def test_every_metric_has_a_variant():
    found = accuracy.variants()
    assert {v.metric for v in found} == {record.name for record in METRICS}
    assert len({(v.metric, v.arguments) for v in found}) == len(found)


def test_what_errors_are_relative_to():
    pytest.importorskip("mpmath")
    a, b = np.array([[1.0, -2.0]]), np.array([[3.0, 4.0]])
    tiny = float(np.finfo(np.float64).tiny)
    for metric, distance, scale in (
        ("euclidean", 7.0, 7.0),
        ("euclidean", 0.0, 0.0),
        ("euclidean", tiny / 8, tiny),
        ("cosine", 0.25, 1.0),
        ("kl_divergence", -3.0, 3.0),
        ("inner_product", -5.0, 11.0),
    ):
        assert accuracy.error_scale(metric, a, b, np.array([[distance]])) == [[scale]]
        assert accuracy.measure_of(metric) in report.MEASURES


def test_an_exact_distance_beyond_the_type_is_infinite():
    one = np.ones(2)
    result = np.array([INF, 1.0], np.float32)
    assert accuracy.max_error(result, np.array([1e39, 1.0]), one) == 0.0
    assert accuracy.max_error(result, np.array([1e38, 1.0]), one) == INF


# ------------------------------------------------------------------ a run


@dataclass(frozen=True)
class WrongCase(cases.CdistCase):
    """A case whose result is wrong in one element."""

    def call(self, operands, device, kernel="auto"):
        result = super().call(operands, device)
        result[-1, 2] *= 1.5
        return result


@dataclass(frozen=True)
class FailingCase(cases.CdistCase):
    """A case that needs more memory than there is."""

    def call(self, operands, device, kernel="auto"):
        raise MemoryError("12 exabytes")


SMALL = cases.CdistCase(60, 50, 3, "float32")


@pytest.fixture(scope="module")
def runner():
    return Runner("cpu", repeats=2, source="abc")


@pytest.mark.parametrize(
    "case",
    [
        SMALL,
        cases.CdistCase(30, 40, 2, "float64", "haversine"),
        cases.ApspCase(65, "float64"),
        cases.ApspCase(20, "int32"),
        cases.ApspCase(20, "float64", predecessors=True),
        *(
            cases.ApspCase(n, "float32", n < 100, kind)
            for n in (30, 530)
            for kind in ("undirected", "unweighted", "negative weights")
        ),
        cases.PdistCase(40, 3, "float64"),
        cases.MinplusCase(20, 30, 40, "int32"),
        cases.MinplusCase(20, 30, 40, "bool", "or_and"),
        cases.ClosureCase(40),
        cases.TransferCase(cases.CdistCase(60, 50, 3, "float64")),
        cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), into=True),
        cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), anywhere=True),
        cases.TransferCase(cases.PdistCase(40, 3, "float32")),
        cases.TransferCase(cases.PdistCase(40, 3, "float32"), into=True),
        cases.TransferCase(cases.ApspCase(20, "float64"), into=True),
        cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), recycled=True),
    ],
    ids=lambda case: f"{case.op}-{case.dtype}-{case.arguments}",
)
def test_a_result_says_everything(runner, case):
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert record["op"] == case.op
    assert tuple(record["shape"]) == case.shape
    assert (record["dtype"], record["metric"]) == (case.dtype, case.metric)
    assert (record["revision"], record["device"], record["arrays"]) == ("abc", "cpu", "numpy")
    op = case.inner.op if case.op == "transfer" else case.op
    assert record["kernel"] in {kernel.id for kernel in gpudist.kernels(op)}
    assert record["versions"]["numpy"] == np.__version__
    assert 0 < record["min_s"] <= record["median_s"] <= record["max_s"]
    assert record["repeats"] == 2
    work = said(case).work
    assert record["rate"] == pytest.approx(work.operations / record["median_s"])
    assert record["bytes_moved"] == work.read + work.written
    assert record["fraction_of_ceiling"] == pytest.approx(record["floor_s"] / record["median_s"])
    assert record["bound_by"] in runner.ceilings
    assert record["max_relative_error"] < (1e-6 if case.dtype == "float32" else 1e-12)


def test_a_recycled_result_takes_the_memory_of_the_one_before(runner):
    from gpudist import recycling

    case = cases.TransferCase(cases.CdistCase(1100, 1000, 3, "float64"), recycled=True)
    operands, places = case.operands(), []
    for _ in range(3):
        result = case.call(operands, "cpu")
        places.append(result.ctypes.data)
        del result
    assert len(set(places)) == 1 and recycling._free
    record = runner.run(case)
    assert record["arguments"] == "into recycled memory"
    assert not recycling._free  # the runner gives it back


def test_a_first_call_says_what_it_waits_for(runner, capsys):
    from gpudist.bench import report

    case = cases.FirstCallCase(60, 3)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    parts = record["parts"]
    assert (
        record["kernel"]
        == gpudist.explain("cdist", np.zeros((60, 3), "f4"), np.zeros((60, 3), "f4")).kernel
    )
    assert 0 <= parts["device_s"] < parts["first_s"]  # without a GPU there is none to wait for
    assert parts["first_s"] <= record["max_s"]
    report.show_result(record)
    said = capsys.readouterr().out
    assert "device ready after" in said and "import" in said


def test_a_transfer_without_room_says_so(runner, monkeypatch):
    monkeypatch.setattr("gpudist.bench.memory.available", lambda: 23_999)
    case = cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), into=True)
    assert (
        runner.run(case)["failed"] == "MemoryError: the result has 24000 bytes, and the host 23999"
    )
    monkeypatch.setattr("gpudist.bench.memory.available", lambda: 24_000)
    assert "failed" not in runner.run(case)


def test_the_place_of_a_transfer_is_memory_that_the_system_has_handed_out():
    from gpudist.bench import memory

    case = cases.TransferCase(cases.CdistCase(3000, 3000, 3, "float64"), into=True)
    before = memory._resident("VmRSS")
    operands = case.operands()
    assert memory._resident("VmRSS") - before > 0.9 * operands[-1].nbytes


def test_transfers_of_paths_are_set_beside_the_work_alone():
    from gpudist.bench import report

    said = report.parts_text({"median_s": 0.3, "on_device_s": 0.27})
    assert said == "270 ms on the device alone, 30.0 ms for the bus and back"
    assert report.parts_text({"median_s": 0.3}) == ""


@pytest.mark.parametrize("matrix", ["uniform", "Hilbert"])
def test_a_result_of_perron_counts_its_rounds(runner, matrix):
    case = cases.PerronCase(30, "float64", matrix)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    rounds = gpudist.perron(*case.operands(), device="cpu").iterations
    assert record["bytes_moved"] == rounds * 30 * 30 * 8
    assert record["max_relative_error"] < 1e-6
    for other in record["rivals"]:
        assert other["max_relative_error"] < 1e-6, other


@pytest.mark.parametrize(("few", "many"), [(3.0, 21.0), (3.0, 2.0)])
def test_a_round_of_perron_is_timed_by_itself(runner, monkeypatch, few, many, capsys):
    """It is a ninth of what nine more rounds take, where they take longer at all."""
    from gpudist.bench import Timing
    from gpudist.bench import runner as module

    done = []

    def by_rounds(call, **how):
        done.append(call().iterations)
        return Timing((few if done[-1] == 2 else many if done[-1] == 11 else 1.0,))

    monkeypatch.setattr(module, "time_call", by_rounds)
    monkeypatch.setattr(runner, "with_rivals", False)
    case = cases.PerronCase(30, "float64")
    record = runner.run(case)
    assert {2, 11} <= set(done)
    if many < few:
        assert "round_s" not in record
        return
    assert record["round_s"] == 2.0
    read = runner.ceilings["read"].rate
    assert record["round_fraction_of_ceiling"] == pytest.approx(30 * 30 * 8 / read / 2)
    bench.show_result(record)
    assert "one round: 2.00 s, 0% of what one read" in capsys.readouterr().out
    assert "a round 0%" in readme.render(
        PAGE.replace("cdist-cpu", "perron-cpu"), [record | {"date": "2026", "revision": "1"}]
    )


def test_rivals_are_timed(runner):
    pytest.importorskip("scipy")
    record = runner.run(SMALL)
    scipy = next(rival for rival in record["rivals"] if rival["name"] == "scipy cdist")
    assert scipy["ratio"] == pytest.approx(scipy["median_s"] / record["median_s"])
    assert scipy["max_relative_error"] < 1e-14
    assert scipy["version"]


@pytest.mark.parametrize(
    "case",
    [
        SMALL,
        cases.ApspCase(40, "float32"),
        cases.PdistCase(40, 3, "float64"),
        cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), into=True),
        *(
            cases.MinplusCase(9, 8, 7, dtype, semiring)
            for dtype in ("float64", "int32")
            for semiring in ("min_plus", "max_plus", "min_max", "max_min")
        ),
    ],
    ids=lambda case: f"{case.op}-{case.dtype}-{case.arguments}",
)
def test_every_rival_is_right(runner, case):
    for rival in runner.run(case)["rivals"]:
        assert "failed" not in rival, rival
        if "missing" not in rival:
            assert rival["max_relative_error"] < 1e-3, rival


@pytest.mark.parametrize(
    "case",
    [
        cases.CdistCase(30, 20, 7, "float64", "minkowski", p=3.0),
        cases.CdistCase(30, 20, 7, "float64", "cosine", weighted=True),
        cases.CdistCase(30, 20, 70, "bool", "jaccard"),
        *(cases.CdistCase(9, 8, 7, "float32", metric) for metric in adversary.DISTRIBUTIONS),
        *(cases.CdistCase(9, 8, 7, "float64", m) for m in ("seuclidean", "mahalanobis")),
    ],
    ids=lambda case: f"{case.metric}{case.arguments and ', '}{case.arguments}",
)
def test_results_of_other_metrics(runner, case):
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert record["arguments"] == case.arguments
    assert record["unit"] == "pair-dimensions/s"
    assert record["max_relative_error"] < (1e-5 if case.dtype == "float32" else 1e-12)
    for other in record["rivals"]:
        assert "failed" not in other, other
        assert other.get("max_relative_error", 0) < 1e-9, other


def accuracy_case(metric, dtype="float32", arguments=""):
    (variant,) = (v for v in accuracy.variants() if (v.metric, v.arguments) == (metric, arguments))
    return cases.AccuracyCase(variant, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_result_of_accuracy(runner, dtype):
    pytest.importorskip("mpmath")
    case = accuracy_case("cityblock", dtype)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert (record["op"], record["shape"]) == ("accuracy", [*adversary.ROWS, adversary.COLUMNS])
    assert (record["metric"], record["arguments"], record["dtype"]) == ("cityblock", "", dtype)
    assert record["errors_relative_to"] == "distance"
    assert set(record["errors"]) == set(accuracy.adversarial("cityblock", dtype))
    assert record["max_error"] == max(record["errors"].values())
    assert record["max_error"] < (5e-7 if dtype == "float32" else 1e-13)
    assert record["kernel"] in {kernel.id for kernel in gpudist.kernels("cdist")}
    for other in record["rivals"]:
        assert "missing" in other or set(other["errors"]) == set(record["errors"]), other


def test_accuracy_meets_kernels_on_tensor_cores(runner):
    pytest.importorskip("mpmath")
    record = runner.run(accuracy_case("correlation", "float32"))
    assert set(record["errors"]) == set(accuracy.adversarial("correlation", "float32", wide=True))
    assert record["max_error"] < 1e-6
    # Its weights are for the usual columns.
    record = runner.run(accuracy_case("euclidean", "float32", "weighted"))
    assert set(record["errors"]) == set(accuracy.adversarial("euclidean", "float32"))


def test_a_wrong_distance_is_no_number(runner, monkeypatch):
    pytest.importorskip("mpmath")
    monkeypatch.setattr(
        gpudist, "cdist", lambda a, b, *_, **__: np.full((len(a), len(b)), np.float32(0))
    )
    record = runner.run(accuracy_case("euclidean"))
    assert record["max_error"] == 1.0
    monkeypatch.setattr(
        gpudist, "cdist", lambda a, b, *_, **__: np.full((len(a), len(b)), np.float32(1))
    )
    assert runner.run(accuracy_case("euclidean"))["max_error"] == "inf"


def rival(**changes):
    fields = {
        "name": "other",
        "distribution": "no-such-distribution",
        "module": "json",
        "op": "cdist",
        "backends": ("cpu",),
        "metrics": ("euclidean",),
        "prepare": lambda task: lambda: np.zeros((60, 50)),
    }
    return rivals.Rival(**(fields | changes))


def run_with(runner, monkeypatch, **changes):
    monkeypatch.setattr(rivals, "RIVALS", (rival(**changes),))
    (result,) = runner.run(SMALL)["rivals"]
    return result


def test_a_missing_rival_is_named(runner, monkeypatch):
    result = run_with(runner, monkeypatch, module="no_such_module")
    assert result["missing"] == "no-such-distribution is not installed"
    assert "median_s" not in result


def test_a_rival_is_spared_what_takes_minutes(runner, monkeypatch):
    result = run_with(runner, monkeypatch, limit=59)
    assert "not run above 59 rows" in result["missing"]


def test_a_failing_rival_is_a_row_that_says_so(runner, monkeypatch):
    def fail(task):
        raise MemoryError("too much\nand more")

    assert run_with(runner, monkeypatch, prepare=fail)["failed"] == "MemoryError: too much"


def test_a_wrong_rival_is_shown_to_be_wrong(runner, monkeypatch):
    assert run_with(runner, monkeypatch)["max_relative_error"] == 1.0


def test_rivals_know_what_they_take():
    task = rivals.Task("cdist", "cuda", (), 10, "float32", "haversine")
    assert rivals.rivals_for(task) == ()
    names = {rival.name for rival in rivals.rivals_for(replace(task, metric="euclidean"))}
    assert names == {"torch.cdist", "cupyx cdist"}
    weighted = replace(task, backend="cpu", metric="euclidean", metric_args={"w": [1.0]})
    assert [rival.name for rival in rivals.rivals_for(weighted)] == ["scipy cdist"]


def test_a_wrong_result_shows(runner):
    assert runner.run(WrongCase(60, 50, 3, "float64"))["max_relative_error"] == pytest.approx(0.5)


def test_a_failing_case_is_a_result_that_says_so(runner):
    record = runner.run(FailingCase(6, 5, 3, "float64"))
    assert record["failed"] == "MemoryError: 12 exabytes"
    assert record["shape"] == [6, 5, 3]


def test_every_suite_has_cases_for_both_backends():
    assert set(suites.SUITES) >= {
        "quick", "cdist", "metrics", "cpu", "apsp", "minplus", "perron", "transfer", "sweep",
        "accuracy", "ceilings", "ladders",
    }  # fmt: skip
    for name, suite in suites.SUITES.items():
        assert set(suite.cases) == {"cpu", "cuda"}
        assert name in ("ceilings", "ladders") or all(suite.cases.values())


def test_operands_are_the_same_every_time():
    for case in (SMALL, cases.ApspCase(9, "float32"), cases.MinplusCase(3, 4, 5, "int32")):
        for one, other in zip(case.operands(), case.operands(), strict=True):
            assert np.array_equal(one, other)


def test_half_of_the_edges_are_there():
    (weights,) = cases.ApspCase(200, "int32").operands()
    assert 0.45 < np.mean(weights > 0) < 0.55
    assert weights.min() == 0
    assert 31_000 < weights.max() <= 32_000


def test_what_is_special_about_a_graph_is_in_it():
    plain = cases.ApspCase(100, "float32").operands()[0]
    negative = cases.ApspCase(100, "float32", kind="negative weights").operands()[0]
    assert np.array_equal(negative != 0, plain != 0)
    assert np.array_equal(negative, np.ceil(negative))
    assert negative.min() < -7000
    said = {
        kind: cases.ApspCase(9, "float32", kind=kind).metric_args
        for kind in ("", "undirected", "unweighted", "negative weights")
    }
    assert said == {
        "": {},
        "undirected": {"directed": False},
        "unweighted": {"unweighted": True},
        "negative weights": {},
    }
    both = cases.ApspCase(9, "float32", predecessors=True, kind="undirected")
    assert both.arguments == "undirected, predecessors"
    assert both.metric_args == {"directed": False, "return_predecessors": True}


def test_updates_that_need_not_be_done_have_no_limit():
    for kind in ("", "undirected", "unweighted", "negative weights"):
        case = cases.ApspCase(9, "float32", kind=kind)
        pipe = case.explain(case.operands(), "cpu").work.pipe
        assert pipe == (None if kind in ("undirected", "unweighted") else "minplus")


def test_numbers_of_products_are_below_what_is_asked():
    for below in (1000, 10**6):
        case = cases.MinplusCase(40, 50, 60, "int32", below=below)
        assert 0.9 * below < max(x.max() for x in case.operands()) < below
    assert case.arguments == "below 1000000"


def tiny_suite(monkeypatch, *cases):
    monkeypatch.setitem(suites.SUITES, "quick", suites.Suite("tiny", {"cpu": cases, "cuda": ()}))


def test_run_suite_prints_and_appends_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", (rival(module="no_such_module"),))
    tiny_suite(monkeypatch, SMALL)
    path = tmp_path / "results.jsonl"
    path.write_text('{"earlier": 1}\n')
    assert bench.run_suite("quick", device="cpu", json_path=path, repeats=1)
    lines = list(records.read_lines(path))
    assert [line.get("op") for line in lines] == [None, *["ceiling"] * 5, "cdist"]
    text = capsys.readouterr().out
    assert "cdist 60x50x3 float32 euclidean" in text
    assert lines[-1]["kernel"] in text
    assert "other: no-such-distribution is not installed" in text


def test_run_suite_tells_of_accuracy(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mpmath")
    monkeypatch.setattr(rivals, "RIVALS", (rival(module="no_such_module"),))
    cases = (accuracy_case("euclidean"), accuracy_case("minkowski", "float64", "p = 3"))
    suite = suites.Suite("tiny", {"cpu": cases, "cuda": ()}, ceilings=False)
    monkeypatch.setitem(suites.SUITES, "accuracy", suite)
    path = tmp_path / "results.jsonl"
    assert bench.run_suite("accuracy", device="cpu", json_path=path)
    assert [line["op"] for line in records.read_lines(path)] == ["accuracy"] * 2
    text = capsys.readouterr().out
    assert "minkowski p = 3" in text
    assert "other no-such-distribution is not installed" in text


def test_run_suite_tells_of_failures(monkeypatch, capsys):
    tiny_suite(monkeypatch, FailingCase(6, 5, 3, "float64"), SMALL)
    assert not bench.run_suite("quick", device="cpu", repeats=1)
    text = capsys.readouterr().out
    assert "gpudist: MemoryError: 12 exabytes" in text
    assert "cdist 60x50x3" in text


def test_run_suite_refuses_a_gpu_that_cannot_be_used(monkeypatch):
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: "it is on fire")
    with pytest.raises(gpudist.DeviceError, match="on fire"):
        bench.run_suite("quick", device="cuda")


def test_a_suite_may_insist_on_the_cpu(monkeypatch, capsys):
    suite = suites.Suite("tiny", {"cpu": (SMALL,), "cuda": ()}, device="cpu")
    monkeypatch.setitem(suites.SUITES, "cpu", suite)
    monkeypatch.setattr(rivals, "RIVALS", ())
    assert bench.run_suite("cpu", device="cuda", repeats=1)
    assert "cdist 60x50x3" in capsys.readouterr().out


# ------------------------------------------------------------------ a sweep


def test_a_sweep_runs_every_kernel_that_can(runner):
    record = json.loads(json.dumps(runner.run(cases.SweepCase(SMALL)), allow_nan=False))
    assert "failed" not in record, record
    expected = {
        row.id
        for row in gpudist.kernels("cdist")
        if row.backend == "cpu"
        and row.why_not is None
        and not row.teaching
        and "euclidean" in row.metrics
    }
    assert set(record["kernels"]) == expected
    assert record["kernel"] == said(SMALL).kernel
    assert record["best_kernel"] == min(record["kernels"], key=record["kernels"].get)
    best = record["kernels"][record["best_kernel"]]
    assert record["ratio_to_best"] == pytest.approx(record["median_s"] / best)


def swept(shape, seconds, ratio=1.0, **changes):
    return {
        "op": "sweep",
        "shape": shape,
        "dtype": "float32",
        "metric": "euclidean",
        "kernel": "cdist/a",
        "best_kernel": "cdist/b",
        "ratio_to_best": ratio,
        "median_s": seconds,
        "q1_s": seconds * 0.99,
        "q3_s": seconds * 1.01,
        "fraction_of_ceiling": None,
        "kernels": {"cdist/a": seconds, "cdist/b": seconds / ratio},
    } | changes


def test_a_sweep_flags_what_another_kernel_does_better():
    (flag,) = sweep.flags([swept([8, 8, 2], 1.0, 1.2), swept([8, 8, 3], 1.0, 1.1)])
    assert flag.startswith("sweep 8x8x2") and "a takes 1.20x the time of cdist/b" in flag


def test_a_sweep_says_with_how_many_rows_the_slower_kernel_is_the_faster():
    few = swept([8, 8, 2], 1.0, 1.2)
    assert sweep.flags([few, swept([90, 8, 2], 2.0, 0.5)])[0].endswith(", and 0.500x with m = 90")
    for other in (
        swept([90, 8, 2], 2.0, 0.5, dtype="float64"),
        swept([90, 9, 2], 2.0, 0.5),
        swept([90, 8, 2], 2.0, 0.5, kernels={"cdist/b": 1.0}),
    ):
        (flag,) = sweep.flags([few, other])
        assert flag.endswith("of cdist/b")


@pytest.mark.parametrize("larger", [[9, 8, 2], [8, 9, 2], [8, 8, 3]])
def test_a_sweep_flags_what_is_slower_than_something_larger(larger):
    (flag,) = sweep.flags([swept([8, 8, 2], 1.2), swept(larger, 1.0)])
    assert flag.startswith("sweep 8x8x2") and "longer than 1.00 s" in flag
    assert not sweep.flags([swept([8, 8, 2], 1.05), swept(larger, 1.0)])  # within the spread
    assert not sweep.flags([swept([8, 8, 2], 1.2), swept(larger, 1.0, dtype="float64")])
    assert not sweep.flags([swept([8, 8, 2], 1.2), swept([9, 9, 3], 1.0)])  # no neighbour


def test_run_suite_tells_of_a_sweep(monkeypatch, capsys):
    tiny_suite(monkeypatch, cases.SweepCase(SMALL))
    monkeypatch.setattr(sweep, "flags", lambda results: ["look at this"])
    assert bench.run_suite("quick", device="cpu", repeats=1)
    text = capsys.readouterr().out
    assert "60x50x3 float32 euclidean" in text and "look at this" in text
    assert sweep.table([{**swept([1, 2, 3], 1.0), "failed": "MemoryError"}]).rows[0][1] == "failed"


# ------------------------------------------------------------------ against recorded lines


def recorded_case(seconds, **changes):
    fields = {"q1_s": seconds * 0.9, "median_s": seconds, "q3_s": seconds * 1.1}
    return line(**fields) | {"arrays": "numpy", **changes}


@pytest.mark.parametrize(
    ("now", "verdict"), [(1.0, "the same"), (1.2, "the same"), (1.5, "SLOWER"), (0.6, "faster")]
)
def test_regressions_lie_beyond_the_spread(now, verdict):
    table, compared, slower = regressions.compare([recorded_case(now)], [recorded_case(1.0)])
    assert (compared, slower) == (1, verdict == "SLOWER")
    assert table.rows[0][-1] == verdict


def test_only_the_same_case_is_compared():
    now = recorded_case(9.0)
    for other in ({"device_name": "B"}, {"shape": [1]}, {"dtype": "float32"}, {"arguments": "p"}):
        assert regressions.compare([now], [recorded_case(1.0, **other)])[1] == 0
    assert regressions.compare([now | {"op": "ceiling"}], [now | {"op": "ceiling"}])[1] == 0


def test_the_newest_line_is_compared_and_a_failure_is_a_regression():
    old = recorded_case(1.0)
    newer = recorded_case(9.0, date="2027-01-01T00:00:00+00:00")
    assert regressions.compare([recorded_case(9.0)], [newer, old])[2] == 0
    gone = {key: value for key, value in old.items() if not key.endswith("_s")}
    table, compared, slower = regressions.compare([gone | {"failed": "MemoryError"}], [old])
    assert (compared, slower) == (1, 1) and table.rows[0][2] == "failed"
    assert not regressions.regressed(old, gone | {"failed": "MemoryError"})


def test_run_suite_compares(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", ())
    tiny_suite(monkeypatch, SMALL)
    path = tmp_path / "then.jsonl"
    assert bench.run_suite("quick", device="cpu", json_path=path, repeats=1)
    lines = list(records.read_lines(path))

    def run_against(factor):
        for entry in lines:
            if entry["op"] == "cdist":
                entry |= {name: factor * entry["median_s"] for name in ("q1_s", "q3_s")}
        path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
        capsys.readouterr()
        return bench.run_suite("quick", device="cpu", repeats=1, compare=path)

    assert run_against(1e3)
    assert "0 of 1 cases slower" in capsys.readouterr().out
    assert not run_against(1e-9)
    assert "1 of 1 cases slower" in capsys.readouterr().out
    path.write_text("")
    assert not bench.run_suite("quick", device="cpu", repeats=1, compare=path)
    assert "nothing was compared" in capsys.readouterr().out


def test_run_suite_climbs_the_ladders(tmp_path, monkeypatch, capsys):
    from gpudist import ladder

    def climb(names, *, json_path, **how):
        assert names == tuple(ladder.STUDIES)
        step = {"ladder": "edm2d", "role": "step", "kernel": "edm2d/1_naive"}
        shared = {"op": "ladder", "shape": [9, 9, 2], "dtype": "float32", "arrays": "numpy"}
        steps = [
            recorded_case(1.0, **shared, **step, options=options)
            for options in ({}, {"block": 8}, {"block": 16})
        ]
        for entry in steps:
            del entry["metric"]  # as ladders have them
        json_path.write_text("".join(json.dumps(entry) + "\n" for entry in steps))
        return True

    monkeypatch.setattr(ladder, "climb", climb)
    path = tmp_path / "then.jsonl"
    assert bench.run_suite("ladders", device="cpu", json_path=path)
    assert len(readme.recorded(tmp_path)) == 3
    assert bench.run_suite("ladders", device="cpu", compare=path)
    text = capsys.readouterr().out
    assert "edm2d/1_naive 9x9x2 block = 16" in text and "0 of 3 cases slower" in text
    with pytest.raises(ValueError, match="ladder --plot"):
        bench.run_suite("ladders", roofline=tmp_path / "x.png")


# ------------------------------------------------------------------ pictures


def limits():
    units = {"write": "B/s", "fma": "multiply-adds/s", "tensor": "multiply-adds/s"}
    return [
        line(op="ceiling", ceiling=name, rate=rate, unit=units[name], shape=[])
        for name, rate in (("write", 1e10), ("fma", 1e11), ("tensor", 1e12))
    ]


def points_of_a_plot():
    shared = {"bytes_moved": 1e8, "pipe_operations": 1e9, "kernel": "cdist/a"}
    return [
        line(**shared),
        line(**shared, dtype="float32", median_s=0.04),
        line(**{**shared, "kernel": "cdist/b", "pipe_operations": 1e11}),
        line(op="minplus", pipe_operations=0, bytes_moved=1),  # has no arithmetic to show
    ]


@pytest.fixture
def pyplot():
    made = pytest.importorskip("matplotlib.pyplot")
    made.switch_backend("Agg")
    yield made
    made.close("all")


def test_the_roofline(pyplot):
    ax = plots.roofline([*limits(), *points_of_a_plot()])
    named = dict(zip(ax.get_legend_handles_labels()[1], ax.lines, strict=True))
    assert list(named) == [
        "tensor float64: 1.00 T multiply-adds/s",
        "fma float64: 100 G multiply-adds/s",
        "cdist/a",
        "cdist/b",
    ]
    assert max(named["fma float64: 100 G multiply-adds/s"].get_ydata()) == 1e11
    assert list(named["cdist/a"].get_ydata()) == [5e10, 2.5e10]
    assert list(named["cdist/b"].get_xdata()) == [1e3]
    assert "A Processor, 2 threads" in ax.get_title()
    assert "second" in ax.get_ylabel()
    with pytest.raises(ValueError, match="at least one result"):
        plots.roofline(limits())


def test_a_saved_picture_tells_its_data(pyplot, tmp_path):
    results = [*limits(), *points_of_a_plot()]
    plots.save_roofline(results, tmp_path / "a.png")
    assert (
        plots.drawn_from(tmp_path / "a.png") == plots.digest(results) != plots.digest(results[1:])
    )
    assert plots.digest(results[::-1]) == plots.digest(results)
    plots.save_roofline(results, tmp_path / "a.svg")
    assert plots.drawn_from(tmp_path / "a.svg") == ""


def test_run_suite_saves_a_roofline(pyplot, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", ())
    tiny_suite(monkeypatch, SMALL)
    path = tmp_path / "roof.png"
    assert bench.run_suite("quick", device="cpu", repeats=1, roofline=path)
    assert path.read_bytes()[1:4] == b"PNG"
    assert f"saved {path}" in capsys.readouterr().out


@pytest.mark.gpu
def test_a_result_of_a_gpu(monkeypatch):
    monkeypatch.setattr(ceilings, "_CUDA_BYTES", 1 << 26)  # quick, if not the truth
    runner = Runner("cuda:0", repeats=3)
    assert set(runner.ceilings) >= {
        "write", "read", "copy", "h2d", "d2h", "fma", "fma64", "minplus"
    }  # fmt: skip
    for case in (cases.CdistCase(512, 700, 5, "float32"), cases.ApspCase(300, "float32")):
        record = runner.run(case)
        assert "failed" not in record, record
        assert record["driver"]
        assert record["cuda"]
        assert record["kernel"].split("/")[1].startswith("cuda")
        assert record["max_relative_error"] < 1e-5
        on_device = runner.arrays is not None
        assert record["clock"] == ("cuda events" if on_device else "monotonic")
        for other in record["rivals"]:
            assert "failed" not in other, other


@pytest.mark.gpu
def test_accuracy_of_a_gpu():
    pytest.importorskip("mpmath")
    runner = Runner("cuda:0", with_ceilings=False)
    assert runner.ceilings == {}
    for case in (
        accuracy_case("euclidean"),
        accuracy_case("cosine"),
        accuracy_case("jaccard", "float64", "weighted"),
    ):
        record = runner.run(case)
        assert "failed" not in record, record
        assert record["kernel"].split("/")[1].startswith("cuda")
        assert record["max_error"] < (1e-6 if case.metric == "cosine" else 5e-7)
        for other in record["rivals"]:
            assert "failed" not in other, other


# ------------------------------------------------------------------ records


def test_revision_outside_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(records, "__file__", str(tmp_path / "gpudist" / "bench" / "records.py"))

    class Installed:
        text = None

        def read_text(self, name):
            return self.text

    monkeypatch.setattr(records.importlib.metadata, "distribution", lambda name: Installed())
    assert records.revision() == "unknown"
    monkeypatch.setattr(Installed, "text", '{"vcs_info": {"commit_id": "fade"}}')
    assert records.revision() == "fade"


def test_revision_of_a_checkout(monkeypatch, tmp_path):
    import shutil
    import subprocess

    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "kernels.def").write_text("rows")

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    monkeypatch.setattr(records, "__file__", str(tmp_path / "gpudist" / "bench" / "records.py"))
    assert records.revision() == git("rev-parse", "HEAD")
    (tmp_path / "csrc" / "kernels.def").write_text("changed")
    assert records.revision() == git("rev-parse", "HEAD") + "-dirty"


def test_lines_carry_no_nan():
    with pytest.raises(ValueError):
        records.write_line({"x": math.nan}, io.StringIO())


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"b"\n')
    with pytest.raises(ValueError, match=r"x\.jsonl, line 2"):
        list(records.read_lines(path))


def test_library_versions():
    assert records.library_version("numpy") == np.__version__
    assert records.library_version("no-such-distribution") is None


# ------------------------------------------------------------------ tables


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.0, "2.00 s"),
        (0.0241, "24.1 ms"),
        (1.5e-5, "15.0 us"),
        (3e-9, "3.00 ns"),
        (123.4, "123 s"),
        (0.0, "0.00 ns"),
    ],
)
def test_durations(seconds, text):
    assert report.duration(seconds) == text


def test_quantities():
    assert report.quantity(4.7e12, "B/s") == "4.70 TB/s"
    assert report.quantity(15.2e12, "updates/s") == "15.2 T updates/s"
    assert report.quantity(12.0, "updates/s") == "12.0 updates/s"
    assert report.error_text(0.0) == "0"
    assert report.error_text("inf") == "inf"
    assert report.error_text(2.06e-7) == "2.1e-07"


def table():
    made = _tables.Table(
        [_tables.Column("name"), _tables.Column("n", right=True, width=4)], title="Title"
    )
    made.add("a|b", 1)
    made.add("c", 23)
    return made


def test_plain_tables():
    assert table().plain() == "Title\nname     n\n----  ----\na|b      1\nc       23"
    headless = _tables.Table([_tables.Column(""), _tables.Column("")])
    headless.add("a", "b")
    assert headless.plain() == "a  b"
    assert _tables.Table([_tables.Column("alone")]).plain() == "alone\n-----"


def test_markdown_tables():
    assert table().markdown() == "| name | n |\n|---|---:|\n| a\\|b | 1 |\n| c | 23 |"


def test_a_row_must_fit_its_table():
    with pytest.raises(ValueError, match="3 cells in a table of 2"):
        table().add(1, 2, 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rich_only_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    file, terminal = io.StringIO(), Terminal()
    _tables.show(table(), file)
    _tables.show(table(), terminal)
    assert file.getvalue() == table().plain() + "\n\n"
    assert terminal.getvalue() != file.getvalue()
    assert all(word in terminal.getvalue() for word in ("Title", "a|b", "23"))


def test_plain_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    terminal = Terminal()
    _tables.show(table(), terminal)
    assert terminal.getvalue() == table().plain() + "\n\n"


# ------------------------------------------------------------------ the README


def line(**changes):
    record = {
        "schema": 1,
        "date": "2026-01-02T03:04:05+00:00",
        "revision": "0123456789abcdef",
        "device": "cpu",
        "device_name": "A Processor",
        "isa": "avx2",
        "threads": 2,
        "op": "cdist",
        "shape": [4000, 4000, 2],
        "dtype": "float64",
        "metric": "euclidean",
        "median_s": 0.02,
        "rate": 1.6e9,
        "unit": "pair-dimensions/s",
        "fraction_of_ceiling": 0.5,
        "bound_by": "write",
        "max_relative_error": 2e-16,
        "rivals": [
            {"name": "scipy cdist", "ratio": 3.0, "max_relative_error": 0.0},
            {"name": "torch.cdist", "missing": "torch is not installed"},
        ],
    }
    return record | changes


PAGE = "before\n<!-- table cdist-cpu -->\nold\n<!-- end of table -->\nafter\n"


def test_render_sets_a_result():
    text = readme.render(PAGE, [line()])
    assert "old" not in text
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "A Processor, avx2, 2 threads; revision 0123456789ab; 2026-01-02." in text
    row = "| 4000 points, d = 2, euclidean, float64 | 20.0 ms | 1.60 G pair-dimensions/s | "
    assert row + "50% (write) | 2.0e-16 | scipy cdist 3.00x (error 0) |" in text
    assert readme.render(text, [line()]) == text


def accuracy_line(**changes):
    record = line(
        op="accuracy",
        shape=[10, 26, 37],
        arguments="",
        errors_relative_to="distance",
        max_error=1.5e-16,
        rivals=[
            {"name": "scipy cdist", "max_error": 4e-16},
            {"name": "torch.cdist", "max_error": "inf"},
            {"name": "scikit-learn pairwise_distances", "missing": "not installed"},
        ],
    )
    return record | changes


def test_render_sets_errors():
    card = {"device": "cuda:0", "device_name": "A Card", "driver": "1", "cuda": "13.0"}
    lines = [
        accuracy_line(),
        accuracy_line(dtype="float32", max_error=6e-8, rivals=[]),
        accuracy_line(**card, max_error=2.5e-16, rivals=[]),
        accuracy_line(metric="cosine", errors_relative_to="one", max_error="inf", rivals=[]),
        accuracy_line(metric="minkowski", arguments="p = 3", rivals=[]),
        accuracy_line(metric="dice", failed="MemoryError"),
    ]
    text = readme.render(PAGE.replace("cdist-cpu", "accuracy"), lines)
    assert "A Card, driver 1, CUDA 13.0; revision" in text
    assert "| euclidean | 6.0e-08 | 1.5e-16 |  | 2.5e-16 |  / wrong |  / 4.0e-16 |" in text
    assert "| cosine (absolute) |  | wrong |  |  |  |  |" in text
    assert "| minkowski, p = 3 |  | 1.5e-16 |" in text
    assert "scikit-learn" not in text and "CuPy" not in text and "dice" not in text


def test_a_changed_source_shows():
    text = readme.render(PAGE, [line(revision="0123456789abcdef-dirty")])
    assert "revision 0123456789ab-dirty;" in text


def test_other_metrics_have_a_table_of_their_own():
    lines = [
        line(),
        line(metric="cosine"),
        line(arguments="weighted", median_s=0.03),
        line(metric="minkowski", arguments="p = 3"),
    ]
    usual = readme.render(PAGE, lines)
    assert usual.count("4000 points") == 1
    others = readme.render(PAGE.replace("cdist-cpu", "metrics-cpu"), lines)
    assert others.count("4000 points") == 3
    assert "euclidean, weighted, float64 | 30.0 ms" in others
    assert "minkowski, p = 3, float64" in others


def test_arguments_tell_results_apart(tmp_path):
    lines = [line(), line(arguments="weighted"), line(arguments="")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    assert len(readme.recorded(tmp_path)) == 2


def test_render_without_results():
    assert "Nothing is recorded yet." in readme.render(PAGE, [])
    assert "Nothing is recorded yet." in readme.render(PAGE.replace("cdist-cpu", "accuracy"), [])


@pytest.mark.parametrize("marker", ["<!-- table nonsense -->", "<!-- table cdist-gpu -->"])
def test_render_refuses_an_unknown_table(marker):
    with pytest.raises(ValueError, match="no table is called"):
        readme.render(PAGE.replace("<!-- table cdist-cpu -->", marker), [])


def test_render_refuses_a_marker_without_end():
    with pytest.raises(ValueError, match="no end"):
        readme.render(PAGE.replace("<!-- end of table -->", ""), [])


def test_the_newest_result_counts(tmp_path):
    old, new = line(median_s=0.04), line(date="2026-02-02T00:00:00+00:00", median_s=0.01)
    other = line(dtype="float32")
    for name, lines in (("a", [new, other]), ("b", [old])):
        text = "".join(json.dumps(entry) + "\n" for entry in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = readme.recorded(tmp_path)
    assert sorted((entry["dtype"], entry["median_s"]) for entry in found) == [
        ("float32", 0.02),
        ("float64", 0.01),
    ]


def test_readme_command(tmp_path, capsys):
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    (tmp_path / "README.md").write_text(PAGE)
    assert readme.main([str(tmp_path), "--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == PAGE
    assert readme.main([str(tmp_path)]) == 0
    assert readme.main([str(tmp_path), "--check"]) == 0
    (data / "x.jsonl").write_text(json.dumps(line()) + "\n")
    assert readme.main([str(tmp_path), "--check"]) == 1


def test_operations_name_their_sizes():
    lines = [
        line(op="pdist", shape=[300, 300, 7]),
        line(op="cdist", shape=[300, 200, 7]),
    ]
    text = readme.render(PAGE, lines)
    assert "pairs of 300 points, d = 7, euclidean" in text and "| 300 x 200 points" in text
    product = line(op="minplus", shape=[3, 4, 5], metric=None, arguments="max_min")
    text = readme.render(PAGE.replace("cdist-cpu", "minplus-cpu"), [product])
    assert "| 3 x 4 x 5, max_min, float64 |" in text


def test_the_readme_has_a_roofline_of_the_latest_gpu(tmp_path, pyplot, capsys):
    card = {"device": "cuda:0", "device_name": "Old", "driver": "1", "cuda": "13.0"}
    new = card | {"device_name": "New", "date": "2027-01-01T00:00:00+00:00"}
    lines = [entry | place for place in (card, new) for entry in (*limits(), *points_of_a_plot())]
    page = PAGE.replace("cdist-cpu", "roofline")
    assert "](notebooks/roofline.png)" in readme.render(page, lines)
    assert "Nothing is recorded yet." in readme.render(page, limits())
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    (data / "x.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    (tmp_path / "README.md").write_text(page)
    assert readme.main([str(tmp_path), "--check"]) == 1
    assert not (tmp_path / "notebooks" / "roofline.png").exists()
    assert readme.main([str(tmp_path)]) == 0
    assert readme.main([str(tmp_path), "--check"]) == 0
    with (data / "x.jsonl").open("a") as stream:
        stream.write(json.dumps({**line(**new), **points_of_a_plot()[0], **new, "shape": [1]}))
    assert readme.main([str(tmp_path), "--check"]) == 1  # the picture is stale, the text is not
    assert readme.render(page, lines) == (tmp_path / "README.md").read_text()


needs_tree = pytest.mark.skipif(
    not (ROOT / "notebooks").is_dir(), reason="the source archive has no notebooks"
)


@needs_tree
def test_the_readme_is_not_stale():
    assert readme.main([str(ROOT), "--check"]) == 0, "run python -m gpudist.bench.readme"


@needs_tree
def test_the_readme_shows_a_picture_that_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = ROOT / text.partition("](notebooks/")[2].partition(")")[0].join(["notebooks/", ""])
    assert 0 < picture.stat().st_size < 400_000


def test_the_readme_code_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    assert 5 <= len([row for row in code.splitlines() if row.strip()]) <= 12
    names = {}
    exec(code, names)
    assert names["dist"].shape == (4000, 4000)
    assert np.isfinite(names["dist"][0, 17])


def test_the_readme_other_code_runs():
    for library in ("sklearn", "torch"):
        pytest.importorskip(library)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {"gpudist": gpudist, "points": np.random.default_rng(0).random((200, 2))}
    blocks = [part.partition("```")[0] for part in text.split("```python\n")[2:]]
    blocks = [block for block in blocks if "points" in block]  # which are of this part
    assert len(blocks) >= 2
    for block in blocks:
        exec(block, names)
    assert names["found"].ours.error < 1e-13
