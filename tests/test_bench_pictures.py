"""Pictures of recorded lines, and lines measured on a GPU."""

import numpy as np
import pytest
from made_lines import SMALL, accuracy_case, limits, line, points_of_a_plot, tiny_suite

from bench import cases, plots, run
from bench.runner import Runner
from gpudist.measure import ceilings, chart, rivals


def test_the_roofline(pyplot):
    ax = chart.roofline([*limits(), *points_of_a_plot()])
    handles, labels = ax.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    assert list(named) == [
        "limit: tensor float64, 1.00 T multiply-adds/s",
        "limit: fma float64, 100 G multiply-adds/s",
        "cdist",
    ]
    assert max(named["limit: fma float64, 100 G multiply-adds/s"].get_ydata()) == 1e11
    # float32 is filled, float64 hollow and without an entry of its own.
    assert list(named["cdist"].get_ydata()) == [2.5e10]
    hollow = ax.lines[-1]
    assert [*hollow.get_ydata()] == [5e10, pytest.approx(1e11 / 0.02)]
    assert [*hollow.get_xdata()] == [10, 1e3]
    assert hollow.get_markerfacecolor() == "white"
    assert "A Processor, 2 threads" in ax.get_title("left")
    assert "second" in ax.get_ylabel()
    with pytest.raises(ValueError, match="at least one result"):
        chart.roofline(limits())


def test_kinds_of_kernels_differ_in_marker_colour_and_lightness(pyplot):
    from matplotlib.colors import to_rgb

    kinds = ("cdist/a", "cdist/tensor", "apsp/a", "minplus/a", "perron/a", "closure/a")
    points = [line(kernel=kind, bytes_moved=1e8, pipe_operations=1e9) for kind in kinds]
    points.append(line(op="transfer", bytes_moved=1e8, pipe_operations=1e9))
    drawn = chart.roofline([*limits(), *points]).lines[2:]
    assert len({one.get_marker() for one in drawn}) == len({one.get_color() for one in drawn}) == 7
    light = [sum(np.array([0.299, 0.587, 0.114]) * to_rgb(colour)) for colour in chart.COLOURS]
    assert min(abs(np.diff(light))) > 0.04


def test_more_kinds_than_colours_still_differ(pyplot):
    kinds = [f"kind{i}/a" for i in range(20)]
    points = [line(kernel=kind, bytes_moved=1e8, pipe_operations=1e9) for kind in kinds]
    drawn = chart.roofline([*limits(), *points]).lines[2:]
    assert len({(one.get_marker(), one.get_color()) for one in drawn}) == 20


def test_bars_tell_ours_without_colour(pyplot):
    ax = chart.bars([("a", 1.0, True), ("b", 2.0, False)], heading="h", label="l", floor=0.5)
    ours, others = ax.patches
    assert (ours.get_hatch(), others.get_hatch()) == (None, "//")
    assert [text.get_text() for text in ax.texts] == ["1.00 s", "2.00 s", "the machine's limit"]
    assert ax.get_xlim()[0] < 500 < 2000 < ax.get_xlim()[1]


def test_a_saved_picture_tells_its_data(pyplot, tmp_path):
    results = [*limits(), *points_of_a_plot()]
    plots.save(chart.roofline, results, tmp_path / "a.png")
    assert (
        plots.drawn_from(tmp_path / "a.png") == plots.digest(results) != plots.digest(results[1:])
    )
    assert plots.digest(results[::-1]) == plots.digest(results)
    plots.save(chart.roofline, results, tmp_path / "a.svg")
    assert plots.drawn_from(tmp_path / "a.svg") == ""


def test_run_suite_saves_a_roofline(pyplot, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "RIVALS", ())
    tiny_suite(monkeypatch, SMALL, ceilings=True)
    path = tmp_path / "roof.png"
    assert run.run_suite("quick", device="cpu", repeats=1, roofline=path)
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
