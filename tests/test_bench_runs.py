"""Cases and suites: what a run measures, prints and keeps."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from made_lines import PAGE, SMALL, accuracy_case, said, tiny_suite

import gpudist
from bench import adversary, cases, lines, readme, report, run, suites, training
from gpudist.measure import (
    rivals,
)

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class WrongCase(cases.CdistCase):
    """A case whose result is wrong in one element."""

    def prepare(self, operands, device, kernel="auto"):
        call = super().prepare(operands, device)

        def wrong():
            result = call()
            result[-1, 2] *= 1.5
            return result

        return wrong


@dataclass(frozen=True)
class FailingCase(cases.CdistCase):
    """A case that needs more memory than there is."""

    def prepare(self, operands, device, kernel="auto"):
        raise MemoryError("12 exabytes")


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
        cases.AfterProductCase(cases.CdistCase(60, 50, 3, "float64")),
        cases.AfterProductCase(cases.ApspCase(20, "float64", predecessors=True)),
    ],
    ids=lambda case: f"{case.op}-{case.dtype}-{case.arguments}",
)
def test_a_result_says_everything(runner, monkeypatch, case):
    monkeypatch.setattr(rivals, "RIVALS", ())
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert record["op"] == case.op
    assert tuple(record["shape"]) == case.shape
    assert (record["dtype"], record["metric"]) == (case.dtype, case.metric)
    assert (record["revision"], record["device"], record["arrays"]) == ("abc", "cpu", "numpy")
    op = case.inner.op if case.op == "transfer" else case.op
    ops = ["apsp", "hops"] if op == "apsp" else [op]
    assert record["kernel"] in {kernel.id for op in ops for kernel in gpudist.kernels(op)}
    assert record["versions"]["numpy"] == np.__version__
    assert 0 < record["min_s"] <= record["median_s"] <= record["max_s"]
    assert record["repeats"] == 2
    work = said(case).work
    assert record["rate"] == pytest.approx(work.operations / record["median_s"])
    assert record["bytes_moved"] == work.read + work.written
    assert record["fraction_of_ceiling"] == pytest.approx(record["floor_s"] / record["median_s"])
    assert record["bound_by"] in runner.ceilings
    assert record["max_relative_error"] < (1e-6 if case.dtype == "float32" else 1e-12)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_a_training_step_is_held_against_exact_values(runner, metric, back):
    pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")
    case = training.TrainingCase(3, 20, 30, 4, metric, back)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert record["arguments"] == ("forward and back" if back else "forward")
    assert record["max_relative_error"] < 2e-6
    (rival,) = record["rivals"]
    assert rival["name"] == "torch.cdist" and rival["max_relative_error"] < 1e-4
    # Three times as many steps as forward, and what is asked of pairs is read.
    whole, forward = (training.TrainingCase(3, 20, 30, 4, metric, way) for way in (True, False))
    assert said(whole).work.operations == 3 * said(forward).work.operations
    assert said(whole).work.read - said(forward).work.read == 4 * 2 * 3 * 20 * 30


@pytest.mark.parametrize(
    "case",
    [
        cases.CdistCase(8, 8, 2, "float64", "cityblock"),
        cases.CdistCase(8, 9, 3, "float64", "mahalanobis"),
        cases.AfterProductCase(cases.CdistCase(8, 9, 3, "float64", weighted=True)),
        training.TrainingCase(2, 8, 9, 3),
    ],
)
def test_no_call_that_is_timed_makes_its_arguments(case, monkeypatch):
    """Numbers drawn anew for each call would take ten times as long as a small one."""
    if case.op == "training":
        pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")
    call = case.prepare(case.operands(), "cpu")
    monkeypatch.setattr(np.random, "default_rng", None)
    monkeypatch.setattr(rivals, "Task", None)
    call()


def test_a_recycled_result_takes_the_memory_of_the_one_before(runner):
    from gpudist import recycling

    case = cases.TransferCase(cases.CdistCase(1100, 1000, 3, "float64"), recycled=True)
    operands, places = case.operands(), []
    for _ in range(3):
        result = case.prepare(operands, "cpu")()
        places.append(result.ctypes.data)
        del result
    assert len(set(places)) == 1 and recycling._free
    record = runner.run(case)
    assert record["arguments"] == "into recycled memory"
    assert not recycling._free  # the runner gives it back


def test_a_first_call_says_what_it_waits_for(runner, capsys):

    case = cases.FirstCallCase(cases.CdistCase(60, 60, 3, "float32"))
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
    monkeypatch.setattr("bench.memory.available", lambda: 23_999)
    case = cases.TransferCase(cases.CdistCase(60, 50, 3, "float64"), into=True)
    assert (
        runner.run(case)["failed"] == "MemoryError: the result has 24000 bytes, and the host 23999"
    )
    monkeypatch.setattr("bench.memory.available", lambda: 24_000)
    assert "failed" not in runner.run(case)


def test_the_place_of_a_transfer_is_memory_that_the_system_has_handed_out():
    """In a process of its own, which has no memory to use again."""
    code = """if True:
        from bench import cases, memory

        case = cases.TransferCase(cases.CdistCase(3000, 3000, 3, "float64"), into=True)
        before = memory._told("self/status", "VmRSS")
        operands = case.operands()
        print((memory._told("self/status", "VmRSS") - before) / operands[-1].nbytes)
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert float(done.stdout) > 0.9


def test_transfers_of_paths_are_set_beside_the_work_alone():

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
    timed = [other for other in record["rivals"] if "missing" not in other]
    assert timed  # NumPy's, which is always there
    for other in timed:
        assert other["max_relative_error"] < 1e-6, other


@pytest.mark.parametrize(("few", "many"), [(3.0, 21.0), (3.0, 2.0)])
def test_a_round_of_perron_is_timed_by_itself(runner, monkeypatch, few, many, capsys):
    """It is a ninth of what nine more rounds take, where they take longer at all."""
    from bench import runner as module
    from gpudist.measure.timing import Timing

    done = []

    def by_rounds(call, **how):
        done.append(call().iterations)
        return Timing((few if done[-1] == 2 else many if done[-1] == 11 else 1.0,))

    monkeypatch.setattr(module, "time_call", by_rounds)
    monkeypatch.setattr(rivals, "RIVALS", ())
    case = cases.PerronCase(30, "float64")
    record = runner.run(case)
    assert {2, 11} <= set(done)
    if many < few:
        assert "round_s" not in record
        return
    assert record["round_s"] == 2.0
    read = runner.ceilings["read"].rate
    assert record["round_fraction_of_ceiling"] == pytest.approx(30 * 30 * 8 / read / 2)
    report.show_result(record)
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_result_of_accuracy(runner, dtype):
    pytest.importorskip("mpmath")
    case = accuracy_case("cityblock", dtype)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert (record["op"], record["shape"]) == ("accuracy", [*adversary.ROWS, adversary.COLUMNS])
    assert (record["metric"], record["arguments"], record["dtype"]) == ("cityblock", "", dtype)
    assert record["errors_relative_to"] == "distance"
    assert set(record["errors"]) == set(adversary.adversarial("cityblock", dtype))
    assert record["max_error"] == max(record["errors"].values())
    assert record["max_error"] < (5e-7 if dtype == "float32" else 1e-13)
    assert record["kernel"] in {kernel.id for kernel in gpudist.kernels("cdist")}
    for other in record["rivals"]:
        assert "missing" in other or set(other["errors"]) == set(record["errors"]), other


def test_accuracy_meets_kernels_on_tensor_cores(runner):
    pytest.importorskip("mpmath")
    record = runner.run(accuracy_case("correlation", "float32"))
    assert set(record["errors"]) == set(adversary.adversarial("correlation", "float32", wide=True))
    assert record["max_error"] < 1e-6
    # Its weights are for the usual columns.
    record = runner.run(accuracy_case("euclidean", "float32", "weighted"))
    assert set(record["errors"]) == set(adversary.adversarial("euclidean", "float32"))


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


def test_run_suite_prints_and_appends_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", (rival(module="no_such_module"),))
    tiny_suite(monkeypatch, SMALL, ceilings=True)
    path = tmp_path / "results.jsonl"
    path.write_text('{"earlier": 1}\n')
    assert run.run_suite("quick", device="cpu", json=path, repeats=1)
    written = list(lines.read_lines(path))
    assert [line.get("op") for line in written] == [None, *["ceiling"] * 5, "cdist"]
    text = capsys.readouterr().out
    assert "cdist 60x50x3 float32 euclidean" in text
    assert written[-1]["kernel"] in text
    assert "other: no-such-distribution is not installed" in text


def test_run_suite_tells_of_accuracy(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mpmath")
    monkeypatch.setattr(rivals, "RIVALS", (rival(module="no_such_module"),))
    cases = (accuracy_case("euclidean"), accuracy_case("minkowski", "float64", "p = 3"))
    suite = suites.Suite("tiny", {"cpu": cases, "cuda": ()}, ceilings=False)
    monkeypatch.setitem(suites.SUITES, "accuracy", suite)
    path = tmp_path / "results.jsonl"
    assert run.run_suite("accuracy", device="cpu", json=path)
    assert [line["op"] for line in lines.read_lines(path)] == ["accuracy"] * 2
    text = capsys.readouterr().out
    assert "minkowski, p = 3" in text


def test_run_suite_tells_of_failures(monkeypatch, capsys):
    tiny_suite(monkeypatch, FailingCase(6, 5, 3, "float64"), SMALL)
    assert not run.run_suite("quick", device="cpu", repeats=1)
    text = capsys.readouterr().out
    assert "gpudist: MemoryError: 12 exabytes" in text
    assert "cdist 60x50x3" in text


def test_run_suite_refuses_a_gpu_that_cannot_be_used(monkeypatch):
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: "it is on fire")
    with pytest.raises(gpudist.DeviceError, match="on fire"):
        run.run_suite("quick", device="cuda")


def test_a_suite_may_insist_on_the_cpu(monkeypatch, capsys):
    suite = suites.Suite("tiny", {"cpu": (SMALL,), "cuda": ()}, device="cpu")
    monkeypatch.setitem(suites.SUITES, "cpu", suite)
    monkeypatch.setattr(rivals, "RIVALS", ())
    assert run.run_suite("cpu", device="cuda", repeats=1)
    assert "cdist 60x50x3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "n", "predecessors"), [(3, 40, True), (2, 520, True), (2, 520, False)]
)
def test_samples_of_many_graphs_are_of_the_rows_that_were_computed(count, n, predecessors):
    """Of large graphs some rows are computed, of small ones all."""
    case = cases.ApspBatchCase(count, n, "float64", predecessors)
    operands = case.operands()
    sample = case.sample(operands)
    found = np.concatenate(sample.pick(case.prepare(operands, "cpu")()))
    assert found.shape == sample.exact.shape and sample.rows * n == found.size
    np.testing.assert_allclose(found, sample.exact, rtol=1e-12)
