"""The ladders: what they are run on, what is printed and written, and that wrong steps show."""

import dataclasses
import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import runnable

import gpudist
from bench.lines import read_lines
from gpudist import ladder
from gpudist.__main__ import main
from gpudist.ladder import STUDIES, Distances, Part, Paths, Root
from gpudist.ladder.report import show_grid
from gpudist.measure.ceilings import measure_ceilings
from gpudist.measure.rivals import rivals_for

SMALL = {
    "edm2d": Distances(70, 70, 2, "bytes", same=True),
    "pairwise": Distances(33, 65, 16, "operations"),
    "euler": Distances(33, 65, 20, "operations"),
    "apsp": Paths(40),
    "perron": Root(50),
    "perron_row_sum": Part("row_sum", 70),
    "perron_vector_max": Part("vector_max", 333),
    "perron_eigenvector": Part("eigenvector", 333),
    "perron_transform": Part("transform", 70),
    "perron_converged": Part("converged", 333),
}


def small(study):
    """Return the study with small problems, and the ends of what it sweeps."""
    problem = SMALL[study.name]
    sweeps = tuple(
        dataclasses.replace(
            sweep,
            options={name: values[:: len(values) - 1] for name, values in sweep.options.items()},
        )
        for sweep in study.sweeps
    )
    return dataclasses.replace(
        study,
        problems=(problem,),
        small=problem,
        grid=(problem,) if study.grid else (),
        sizes=(problem,) if study.sizes else (),
        sweeps=sweeps,
    )


@functools.cache
def limits(device, repeats):
    """Measure the machine's limits once."""
    return measure_ceilings(device, repeats=1)


@pytest.fixture
def shrunk(monkeypatch):
    """Make every study quick."""
    from gpudist.ladder import runner

    for name in SMALL:
        monkeypatch.setitem(STUDIES, name, small(STUDIES[name]))
    monkeypatch.setattr(runner, "measure_ceilings", limits)
    # The first rival alone: importing all of them takes longer than the rest.
    monkeypatch.setattr(runner, "rivals_for", lambda task: rivals_for(task)[:1])


def climbable():
    return [name for name in STUDIES if ladder.steps_of(STUDIES[name])]


def status(*arguments):
    try:
        return main(["ladder", *arguments])
    except SystemExit as stop:
        return stop.code


def test_every_ladder_of_the_table_has_a_study():
    ladders = {row.ladder for row in gpudist.kernels() if row.teaching}
    assert ladders and ladders <= set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_fits_its_steps(name):
    """Steps are numbered through, from the plain loop on, and sweeps ask for what they take."""
    study = STUDIES[name]
    steps = ladder.steps_of(study)
    if not steps:
        pytest.skip("this build has no step of it")
    assert all(row.teaching for row in steps)
    assert set(study.along) <= set(STUDIES)
    if study.versions:  # one loop, of parts that options choose
        assert {option.name for row in steps for option in row.options} >= set(study.versions)
    else:
        assert [row.step for row in steps] == list(range(len(steps)))
        assert steps[0].backend == "cpu"
    assert {row.step for row in steps} >= {step for f in study.figures.values() for step in f}
    shapes = {problem.shape for problem in study.problems}
    assert set(study.figures) <= shapes
    runs = list(ladder.sweep_of(study))
    swept = {step for sweep in study.sweeps for step in sweep.steps}
    assert {run.kernel.step for run in runs} == swept
    for run in runs:
        options = {option.name: option for option in run.kernel.options}
        for option, value in run.options.items():
            known = options[option]
            assert known.least <= value <= known.most
            assert (value - known.least) % known.step == 0


@pytest.mark.parametrize("name", STUDIES)
def test_sizes_make_the_problem(name):
    study = STUDIES[name]
    numbers = tuple(range(3, 3 + len(study.numbers)))
    problem = study.make(*numbers)
    assert set(numbers) <= set(problem.shape)
    ladder.check_sizes([name], numbers)
    for wrong in ((*numbers, 1), (0, *numbers[1:])):
        with pytest.raises(ValueError, match=f"the size of {name} is"):
            ladder.check_sizes([name], wrong)


@pytest.mark.parametrize("problem", [p for p in SMALL.values() if hasattr(gpudist, p.op)])
def test_exact_rows_are_exact(problem):
    operands = problem.operands()
    rows, exact = problem.exact(operands)
    result = problem.call(operands, kernel="reference")
    found = problem.sample(result, rows, np.asarray)
    np.testing.assert_allclose(exact, found, rtol=1e-6)
    if problem.op != "perron":
        assert rows[0] == 0 and rows[-1] == len(result) - 1
    again = problem.operands()
    assert all(np.array_equal(x, y) for x, y in zip(operands, again, strict=True))
    assert (operands[0] is operands[-1]) == (len(operands) == 1 or problem.same)


@pytest.mark.parametrize("problem", [p for p in SMALL.values() if isinstance(p, Part)])
def test_exact_parts_are_exact(problem):
    """They are what the loop on the CPU makes, and each call changes its arguments."""
    operands = problem.operands()
    rows, exact = problem.exact(operands)
    kept = [x.copy() for x in operands]
    result = problem.call(operands, kernel=f"perron/cpu_{problem.name}", device="cpu")
    np.testing.assert_allclose(problem.sample(result, rows, np.asarray), exact, rtol=1e-5)
    changed = [i for i, x in enumerate(operands) if not np.array_equal(x, kept[i])]
    assert changed in ([i for i, x in enumerate(operands) if x is result], [])
    assert problem.in_place and exact.any()
    with pytest.raises(ValueError, match="by name"):
        problem.explain(operands, "cpu")


@pytest.mark.usefixtures("shrunk")
def test_what_calls_change_is_laid_out_anew(tmp_path):
    """Every version gets what the first got, or the second would be wrong."""
    from gpudist.ladder.runner import Runner, _There

    problem = SMALL["perron_transform"]
    host = problem.operands()
    there = _There(Runner("cpu", repeats=1), "cpu", problem, host, *problem.exact(host))
    for _ in range(2):
        operands = there.laid_out("rows")
        result = problem.call(operands, kernel="perron/cpu_transform", device="cpu")
        assert there.error_of(result) < 1e-6
    np.testing.assert_array_equal(host[0], problem.operands()[0])


@pytest.mark.usefixtures("shrunk")
@pytest.mark.parametrize("layout", ["rows", "dims"])
def test_operands_are_laid_out(layout):
    from gpudist.ladder.runner import Runner, _There

    problem = SMALL["pairwise"]
    host = problem.operands()
    runner = Runner("cpu", repeats=1)
    there = _There(runner, "cpu", problem, host, *problem.exact(host))
    for x, y in zip(there.laid_out(layout), host, strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.flags.f_contiguous == (layout == "dims")


@pytest.mark.usefixtures("shrunk")
@pytest.mark.parametrize("name", climbable())
def test_climbing_on_the_cpu(name, tmp_path, capsys):
    lines, chart = tmp_path / "lines.jsonl", tmp_path / "chart.png"
    where = ["--device", "cpu", "--repeats", "1", "--json", str(lines)]
    pytest.importorskip("matplotlib")
    assert status(name, *where, "--plot", str(chart)) == 0
    text = capsys.readouterr().out
    steps = ladder.steps_of(STUDIES[name])
    assert all(row.id in text for row in steps) and "not run, since they need a GPU" in text
    assert chart.read_bytes().startswith(b"\x89PNG")
    every = list(read_lines(lines))
    assert {r["ladder"] for r in every} == {name, *STUDIES[name].along}
    records = [r for r in every if r["ladder"] == name]
    here = [row.id for row in steps if row.backend == "cpu"]
    assert [r["kernel"] for r in records if r["role"] == "step"] == here
    for production in (r for r in records if r["role"] == "production"):
        taken = {row.id: row for row in gpudist.kernels(SMALL[name].op)}[production["kernel"]]
        assert taken.ladder == "production"
    # Parts of a loop stand alone.
    assert ("production" in {r["role"] for r in records}) == hasattr(gpudist, SMALL[name].op)
    for record in records:
        if record["role"] != "rival":
            assert record["median_s"] > 0 and record["rate"] > 0
            assert record["max_relative_error"] <= STUDIES[name].tolerance
            fraction = record["fraction_of_ceiling"]
            # What a CPU does at most of sums and minima is known in float64 alone.
            known = bool(SMALL[name].limits) and (SMALL[name].op, record["dtype"]) != (
                "apsp",
                "int32",
            )
            assert (fraction is not None) == known and fraction != 0
            assert record["shape"] == list(SMALL[name].shape)


def test_auto_takes_no_longer_than_the_plain_loop():
    """At the study's kind of shape, on one core and by its own time.

    Others may use the machine: where they keep its memory busy, both take the same time, so the
    two are timed in turn, and the first round in which auto is ahead decides. A kernel that is
    slower by itself is behind in all of them.
    """
    script = """
import time, numpy as np, gpudist
x = np.random.default_rng(5).random((2500, 2), np.float32)
out = np.zeros((2500, 2500), np.float32)
def took(kernel):
    start = time.thread_time()
    gpudist.cdist(x, x, out=out, kernel=kernel, device="cpu")
    return time.thread_time() - start
for _ in range(30):
    both = [(took("edm2d/cpu_naive"), took("auto")) for _ in range(5)]
    naive, auto = map(min, zip(*both))
    print(naive / auto, flush=True)
    if naive > auto:
        break
"""
    said = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert float(said.split()[-1]) > 1, said


@pytest.mark.usefixtures("shrunk")
def test_a_wrong_step_is_not_timed(monkeypatch, tmp_path, capsys):
    lines = tmp_path / "lines.jsonl"
    right = Distances.call

    def wrong(self, operands, **how):
        result = right(self, operands, **how)
        if how.get("kernel") == "edm2d/cpu_naive":
            result[-1, 0] *= np.float32(1.001)
        return result

    monkeypatch.setattr(Distances, "call", wrong)
    assert status("edm2d", "--device", "cpu", "--repeats", "1", "--json", str(lines)) == 1
    (record,) = (r for r in read_lines(lines) if r["role"] == "step")
    assert "its largest relative error is 1.0e-03" in record["wrong"]
    assert "median_s" not in record
    assert "edm2d/cpu_naive: its largest relative error" in capsys.readouterr().out


@pytest.mark.usefixtures("shrunk")
def test_a_size_of_ones_own(capsys):
    assert status("pairwise", "--device", "cpu", "--repeats", "1", "--size", "7", "9", "3") == 0
    assert "pairwise 7x9x3 float32 on cpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name ladders, or take --all"),
        (["edm2d", "--all"], "name ladders, or take --all"),
        (["stairs"], "'stairs' is not one of edm2d"),
        (["edm2d", "--size", "3", "4"], "the size of edm2d is N"),
        (["edm2d", "--size", "0"], "'0' is not a whole number >= 1"),
        (["--all", "--size", "5"], "the size of pairwise is M N D"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_misuse_is_status_2(arguments, message, capsys):
    assert status(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ""


def test_a_grid_tells_auto_from_a_loop_without_steps(capsys):
    record = {"ladder": "perron", "shape": [8], "dtype": "float32", "kernel": "perron", "step": 0}
    taken = record | {"kernel": "perron/cuda_rows", "median_s": 2e-3}
    show_grid([record | {"options": {}, "median_s": 1e-3}, taken])
    heading, row = capsys.readouterr().out.splitlines()[1:4:2]
    assert heading.split() == ["size", "perron", "auto"]
    assert row.split() == ["8", "float32", "1.00", "ms", "2.00", "ms"]


@pytest.mark.gpu
@pytest.mark.usefixtures("shrunk")
@pytest.mark.parametrize("name", climbable())
def test_climbing_on_the_gpu(name, tmp_path, capsys):
    lines = tmp_path / "lines.jsonl"
    assert status(name, "--sweep", "--repeats", "1", "--json", str(lines)) == 0
    records = [r for r in read_lines(lines) if r["device"] != "cpu" and r["ladder"] == name]
    steps = [row for row in ladder.steps_of(STUDIES[name]) if row.backend == "cuda"]
    climbed = [r for r in records if r["role"] == "step"]
    times = 2 if STUDIES[name].sizes else 1
    assert [r["kernel"] for r in climbed if not r["options"]] == times * [row.id for row in steps]
    for row, record in zip(steps, climbed, strict=False):
        runnable(row)
        assert "median_s" in record, record
        assert ("gain" in record) == (row.step > 1)
    swept = [r for r in records if r["role"] == "sweep"]
    assert len(swept) == len(list(ladder.sweep_of(STUDIES[name])))
    text = capsys.readouterr().out
    assert all(f"{kernel}, " in text for kernel in {r["kernel"] for r in swept})


# ------------------------------------------------------------------ pictures


@pytest.mark.parametrize("name", STUDIES)
def test_reported_figures_are_drawn(name, pyplot):
    from gpudist.ladder import report

    study = STUDIES[name]
    if not study.figures:
        with pytest.raises(ValueError, match="reports no figures"):
            report.draw_reported(study)
        return
    figure = report.draw_reported(study)
    assert len(figure.axes) == len(study.figures)
    for panel, figures in zip(figure.axes, study.figures.values(), strict=True):
        assert [text.get_text() for text in panel.texts] == [one.text for one in figures.values()]
        assert study.card in panel.get_title("left")


def test_no_legend_covers_a_bar(pyplot):
    """The legend stands below the panels, whatever is in them."""
    from gpudist.ladder import report

    one = {
        "ladder": "apsp",
        "shape": [5],
        "dtype": "int32",
        "device_name": "A GPU",
        "floor_s": 1e-3,
        "card": "A Card",
    }
    climb = [
        one | {"role": role, "name": role, "median_s": 1e-2 * (i + 1), "reported_s": 0.1}
        for i, role in enumerate(("step", "production", "rival"))
    ]
    figure = report.draw([climb, [one | {"role": "step", "name": "failed"}], climb])
    assert len(figure.axes) == 2  # of what ran nowhere there is no panel
    figure.draw_without_rendering()
    (legend,) = figure.legends
    lowest = min(panel.get_tightbbox().y0 for panel in figure.axes)
    assert legend.get_window_extent().y1 <= lowest
    assert {text.get_text() for text in legend.texts} == {
        "a step of the ladder",
        "what auto takes",
        "others",
        "the machine's limit",
        "the study's own, A Card",
    }
    bars = figure.axes[0].patches
    assert len({bar.get_facecolor() for bar in bars}) == 3 and bars[2].get_hatch() == "//"
