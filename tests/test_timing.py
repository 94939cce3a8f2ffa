"""Clocks, ceilings, and the least time that they allow a call."""

from dataclasses import replace

import pytest
from made_lines import said

import gpudist
from bench import cases
from gpudist.measure import ceilings, timing
from gpudist.work import Work, distance_pipe

# ------------------------------------------------------------------ timing


class TickingClock:
    """A clock whose samples take what it is told, and that counts the calls."""

    name = "ticking"
    least_sample = 0.0
    loads_code = False

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


def test_code_that_the_first_call_loads_is_not_measured():
    clock = TickingClock(30.0, 1e-3)
    clock.loads_code = True
    assert (
        timing.time_call(lambda: None, clock=clock, repeats=2, budget=20.0).seconds == (1e-3,) * 2
    )
    slow = TickingClock(30.0, 25.0)
    slow.loads_code = True
    assert timing.time_call(lambda: None, clock=slow, budget=20.0).seconds == (25.0,)


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
        ("cdist/cuda_tensor_mma", "euclidean", "float32", {}, ("tensor", 3.0)),
        ("cdist/cuda_tensor_f64", "cosine", "float64", {}, ("tensor64", 1.0)),
        ("neighbors/cuda_product", "euclidean", "float32", {}, ("tensor", 1.0)),
        ("neighbors/cuda_bytes", "cityblock", "float32", {}, ("fma", 0.5)),
        ("neighbors/cpu_boxes_avx2", "euclidean", "float32", {}, (None, 1.0)),
        ("neighbors/cpu_product_avx2", "euclidean", "float32", {}, ("fma", 1.0)),
        ("neighbors/cpu_product_avx2", "euclidean", "float64", {}, ("fma", 0.5)),
    ],
)
def test_the_pipe_that_bounds_distances(kernel, metric, dtype, arguments, pipe):
    assert distance_pipe(kernel, metric, dtype, **arguments) == pipe


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
