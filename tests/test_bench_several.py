"""Calls on several GPUs, or by Dask's workers, are measured beside one; the CPU plays GPUs here."""

import json
import sys

import pytest

import gpudist
from bench import cases, report, suites
from gpudist import several_gpus
from gpudist.demo.cluster import two_workers


@pytest.mark.parametrize(
    "inner",
    [
        cases.CdistCase(60, 50, 3, "float64"),
        cases.ApspCase(90, "float32"),
        cases.KnnCase(70, 40, 3, 4, "float64"),
    ],
    ids=lambda inner: inner.op,
)
def test_several_are_timed_beside_one(runner, monkeypatch, capsys, inner):
    monkeypatch.setattr(several_gpus, "of", lambda named: ("cpu", "cpu"))
    case = cases.SeveralCase(inner)
    record = json.loads(json.dumps(runner.run(case), allow_nan=False))
    assert "failed" not in record, record
    assert (record["op"], tuple(record["shape"])) == ("several", case.shape)
    assert record["arguments"].startswith(inner.op) and "into out=" in record["arguments"]
    assert record["devices"] == ["cpu", "cpu"] and record["arrays"] == "numpy"
    assert record["max_relative_error"] < 1e-6
    (one,) = record["rivals"]
    assert one["name"] == "one GPU" and one["version"] == gpudist.__version__
    assert one["ratio"] == pytest.approx(one["median_s"] / record["median_s"])
    assert one["max_relative_error"] < 1e-6
    there = inner.explain(inner.operands(), "cpu")
    limits = gpudist.measure.ceilings.floors(there.work, there.dtype, runner.ceilings)
    if limits:
        assert record["floor_s"] == pytest.approx(limits[0].seconds / 2)
    report.show_result(record)
    assert "one GPU" in capsys.readouterr().out


@pytest.mark.parametrize("count", [0, 1])
def test_without_two_gpus_nothing_is_measured(runner, monkeypatch, count):
    if count:
        monkeypatch.setattr(several_gpus, "of", lambda named: ("cuda:0",))
    elif gpudist.cuda.is_available():
        pytest.skip("CUDA can be used here")
    said = "there is one GPU of its kind" if count else "CUDA cannot be used"
    for case in suites.SUITES["several"].cases["cuda"]:
        assert said in runner.run(case)["failed"]


def test_without_dask_nothing_is_measured(runner, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for case in suites.SUITES["several"].cases["cpu"]:
        said = runner.run(case)["failed"]
        assert said.endswith(', which is not installed: pip install ".[dask]"')


@pytest.fixture
def workers(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install '.[dask]'")
    with two_workers(memory_limit=0) as client:
        monkeypatch.setattr(cases, "_workers", lambda: client)
        yield client


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_plans_are_computed_each_time_beside_one_process(workers, runner, capsys):
    import distributed

    for inner in (cases.CdistCase(90, 50, 3, "float64"), cases.ApspCase(300, "float32")):
        case = cases.DaskCase(inner, 2)
        record = json.loads(json.dumps(runner.run(case), allow_nan=False))
        assert "failed" not in record, record
        assert (record["op"], tuple(record["shape"])) == ("dask", inner.shape)
        assert record["arguments"] == f"{inner.op}, 2 parts" and record["arrays"] == "numpy"
        assert record["max_relative_error"] < 1e-6
        (one,) = record["rivals"]
        assert one["name"] == "one process"
        assert one["ratio"] == pytest.approx(one["median_s"] / record["median_s"])
        report.show_result(record)
        assert "one process" in capsys.readouterr().out
    call = case.prepare(case.operands(), "cpu")
    with distributed.get_task_stream(workers) as stream:
        for _ in range(3):
            call()
    assert sum("apsp-own" in str(task["key"]) for task in stream.data) == 3 * case.parts
