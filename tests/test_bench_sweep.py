"""The sweep over shapes, and lines held against recorded ones."""

import json

import pytest
from made_lines import SMALL, line, said, tiny_suite

import gpudist
from bench import cases, lines, readme, regressions, run, sweep
from gpudist.measure import rivals

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
        and SMALL.dtype in row.dtypes
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
    assert run.run_suite("quick", device="cpu", repeats=1)
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
    assert run.run_suite("quick", device="cpu", json=path, repeats=1)
    written = list(lines.read_lines(path))

    def run_against(factor):
        for entry in written:
            if entry["op"] == "cdist":
                entry |= {name: factor * entry["median_s"] for name in ("q1_s", "q3_s")}
        path.write_text("".join(json.dumps(entry) + "\n" for entry in written))
        capsys.readouterr()
        return run.run_suite("quick", device="cpu", repeats=1, compare=path)

    assert run_against(1e3)
    assert "0 of 1 cases slower" in capsys.readouterr().out
    assert not run_against(1e-9)
    assert "1 of 1 cases slower" in capsys.readouterr().out
    path.write_text("")
    assert not run.run_suite("quick", device="cpu", repeats=1, compare=path)
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
    assert run.run_suite("ladders", device="cpu", json=path)
    assert len(readme.recorded(tmp_path)) == 3
    assert run.run_suite("ladders", device="cpu", compare=path)
    text = capsys.readouterr().out
    assert "edm2d/1_naive 9x9x2 block = 16" in text and "0 of 3 cases slower" in text
    with pytest.raises(ValueError, match="ladder --plot"):
        run.run_suite("ladders", roofline=tmp_path / "x.png")
