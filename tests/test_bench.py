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
from gpudist.bench import accuracy, ceilings, readme, records, report, rivals, suites, timing

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
    assert set(measured) == {"write", "copy", "fma", "minplus"}
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
    chosen = ceilings.ceiling_kernels("cpu")["write"].id
    expected = [row.id for row in lame if "cpu_write" in row.id and row.why_not is None]
    assert chosen == expected[0] != "ceiling/cpu_write_avx512"


def test_the_fastest_sample_is_the_ceiling():
    samples = timing.Timing((2.0, 0.5, 4.0))
    assert ceilings.Ceiling("write", "ceiling/cpu_write", "float64", 8.0, samples).rate == 16.0


def test_arithmetic_ceilings_scale_with_the_type_on_a_cpu_only():
    assert ceiling("fma", 8.0).rate_in("float32") == 16.0
    assert ceiling("write", 8.0).rate_in("float32") == 8.0
    assert ceiling("fma", 8.0, "float32", "cuda").rate_in("float32") == 8.0
    assert ceiling("fma", 8.0, "float32", "cuda").rate_in("float64") is None


def test_work_counts():
    work = ceilings.cdist_work(10, 20, 3, "float32", "euclidean", "cuda")
    assert (work.read, work.written, work.operations) == (30 * 3 * 4, 800, 600)
    assert (work.pipe, work.slots) == ("fma", 2.0)
    assert ceilings.cdist_work(10, 20, 3, "float64", "euclidean", "cpu").slots == 1.0
    pairs = ceilings.cdist_work(10, 20, 2, "float64", "haversine", "cpu")
    assert (pairs.operations, pairs.unit, pairs.pipe) == (200, "pairs", None)
    paths = ceilings.apsp_work(10, "float32", predecessors=True)
    assert (paths.read, paths.written, paths.operations) == (400, 800, 1000)


@pytest.mark.parametrize(
    ("work", "through_host", "name", "seconds"),
    [
        (ceilings.Work(0, 100, 50, "x", "fma"), False, "write", 10.0),
        (ceilings.Work(0, 100, 500, "x", "fma"), False, "fma", 50.0),
        (ceilings.Work(0, 100, 500, "x", "fma", slots=2), False, "fma", 100.0),
        (ceilings.Work(100, 100, 0, "x"), False, "copy", 40.0),
        (ceilings.Work(0, 100, 50, "x", "fma"), True, "d2h", 100.0),
        (ceilings.Work(0, 100, 50, "x", "minplus"), False, "write", 10.0),
    ],
)
def test_the_slowest_ceiling_binds(work, through_host, name, seconds):
    limits = {
        "write": ceiling("write", 10.0),
        "copy": ceiling("copy", 5.0),
        "fma": ceiling("fma", 10.0),
        "h2d": ceiling("h2d", 1.0),
        "d2h": ceiling("d2h", 1.0),
    }
    found = ceilings.floor(work, "float64", limits, through_host=through_host)
    assert (found.ceiling.name, found.seconds) == (name, seconds)


def test_no_ceiling_no_floor():
    assert ceilings.floor(ceilings.Work(1, 1, 1, "x"), "float64", {}) is None


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


def test_sample_rows():
    assert accuracy.sample_rows(100, 3).tolist() == [0, 49, 99]
    assert accuracy.sample_rows(2, 64).tolist() == [0, 1]


def test_samples_agree_with_the_reference(rng):
    a, b = rng.random((9, 3)), rng.random((7, 3))
    rows, exact = accuracy.cdist_sample(a, b, "cityblock")
    assert np.array_equal(exact, np.abs(a[rows][:, None] - b).sum(axis=-1))
    (weights,) = suites.ApspCase(40, "float64").operands()
    weights[:, 7] = 0  # nothing leads to node 7
    rows, exact = accuracy.apsp_sample(weights)
    reference = gpudist.apsp(weights, kernel="reference")[rows]
    assert np.isinf(exact[:, 7]).sum() == len(rows) - 1
    np.testing.assert_allclose(exact, reference, rtol=1e-14)


# ------------------------------------------------------------------ a run


@dataclass(frozen=True)
class WrongCase(suites.CdistCase):
    """A case whose result is wrong in one element."""

    def call(self, operands, device):
        result = super().call(operands, device)
        result[-1, 2] *= 1.5
        return result


@dataclass(frozen=True)
class FailingCase(suites.CdistCase):
    """A case that needs more memory than there is."""

    def call(self, operands, device):
        raise MemoryError("12 exabytes")


SMALL = suites.CdistCase(60, 50, 3, "float32")


@pytest.fixture(scope="module")
def runner():
    return suites.Runner("cpu", repeats=2, source="abc")


@pytest.mark.parametrize(
    "case",
    [
        SMALL,
        suites.CdistCase(30, 40, 2, "float64", "haversine"),
        suites.ApspCase(65, "float64"),
        suites.ApspCase(20, "int32"),
    ],
    ids=lambda case: f"{case.op}-{case.dtype}",
)
def test_a_result_says_everything(runner, case):
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert record["op"] == case.op
    assert tuple(record["shape"]) == case.shape
    assert (record["dtype"], record["metric"]) == (case.dtype, case.metric)
    assert (record["revision"], record["device"], record["arrays"]) == ("abc", "cpu", "numpy")
    assert record["kernel"] in {kernel.id for kernel in gpudist.kernels(case.op)}
    assert record["versions"]["numpy"] == np.__version__
    assert 0 < record["min_s"] <= record["median_s"] <= record["max_s"]
    assert record["repeats"] == 2
    assert record["rate"] == pytest.approx(case.work("cpu").operations / record["median_s"])
    assert record["fraction_of_ceiling"] == pytest.approx(record["floor_s"] / record["median_s"])
    assert record["bound_by"] in runner.ceilings
    assert record["max_relative_error"] < (1e-6 if case.dtype == "float32" else 1e-12)


def test_rivals_are_timed(runner):
    pytest.importorskip("scipy")
    record = runner.run(SMALL)
    scipy = next(rival for rival in record["rivals"] if rival["name"] == "scipy cdist")
    assert scipy["ratio"] == pytest.approx(scipy["median_s"] / record["median_s"])
    assert scipy["max_relative_error"] < 1e-14
    assert scipy["version"]


@pytest.mark.parametrize("case", [SMALL, suites.ApspCase(40, "float32")], ids=["cdist", "apsp"])
def test_every_rival_is_right(runner, case):
    for rival in runner.run(case)["rivals"]:
        assert "failed" not in rival, rival
        if "missing" not in rival:
            assert rival["max_relative_error"] < 1e-3, rival


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


def test_a_wrong_result_shows(runner):
    assert runner.run(WrongCase(60, 50, 3, "float64"))["max_relative_error"] == pytest.approx(0.5)


def test_a_failing_case_is_a_result_that_says_so(runner):
    record = runner.run(FailingCase(6, 5, 3, "float64"))
    assert record["failed"] == "MemoryError: 12 exabytes"
    assert record["shape"] == [6, 5, 3]


def test_every_suite_has_cases_for_both_backends():
    assert {"quick", "cdist", "apsp", "ceilings"} <= set(suites.SUITES)
    for name, suite in suites.SUITES.items():
        assert set(suite.cases) == {"cpu", "cuda"}
        assert name == "ceilings" or all(suite.cases.values())


def test_operands_are_the_same_every_time():
    for case in (SMALL, suites.ApspCase(9, "float32")):
        for one, other in zip(case.operands(), case.operands(), strict=True):
            assert np.array_equal(one, other)


def test_half_of_the_edges_are_there():
    (weights,) = suites.ApspCase(200, "int32").operands()
    assert 0.45 < np.mean(weights > 0) < 0.55
    assert weights.min() == 0
    assert weights.max() <= 1000


def tiny_suite(monkeypatch, *cases):
    monkeypatch.setitem(suites.SUITES, "quick", suites.Suite("tiny", {"cpu": cases, "cuda": ()}))


def test_run_suite_prints_and_appends_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", (rival(module="no_such_module"),))
    tiny_suite(monkeypatch, SMALL)
    path = tmp_path / "results.jsonl"
    path.write_text('{"earlier": 1}\n')
    assert bench.run_suite("quick", device="cpu", json_path=path, repeats=1)
    lines = list(records.read_lines(path))
    assert [line.get("op") for line in lines] == [None, *["ceiling"] * 4, "cdist"]
    text = capsys.readouterr().out
    assert "cdist 60x50x3 float32 euclidean" in text
    assert lines[-1]["kernel"] in text
    assert "other: no-such-distribution is not installed" in text


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


@pytest.mark.gpu
def test_a_result_of_a_gpu():
    runner = suites.Runner("cuda:0", repeats=3)
    assert set(runner.ceilings) == {"write", "copy", "h2d", "d2h", "fma", "minplus"}
    for case in (suites.CdistCase(512, 700, 5, "float32"), suites.ApspCase(300, "float32")):
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


def test_render_without_results():
    assert "Nothing is recorded yet." in readme.render(PAGE, [])


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
