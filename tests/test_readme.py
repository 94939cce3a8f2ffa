"""The pages' tables, pictures and links, and the code of README.md."""

import csv
import json
import re

import numpy as np
import pytest
from made_lines import PAGE, ROOT, limits, line, points_of_a_plot
from pages import docs_pages, python_blocks, run_blocks

from bench import plots, readme


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


def test_the_command_writes_every_page(tmp_path, capsys):
    pages = [tmp_path / "README.md", tmp_path / "docs" / "a.md", tmp_path / "docs" / "b.md"]
    pages[1].parent.mkdir()
    for page in pages[:2]:
        page.write_text(PAGE)
    pages[2].write_text("no table, though it names `<!-- table NAME -->`\n")
    assert readme.main([str(tmp_path), "--check"]) == 1
    said = capsys.readouterr().err
    assert [str(page) in said for page in pages] == [True, True, False]
    assert readme.main([str(tmp_path)]) == 0
    assert pages[0].read_text() == pages[1].read_text() == readme.render(PAGE, [])
    assert readme.main([str(tmp_path), "--check"]) == 0
    pages[1].write_text(PAGE)
    assert readme.main([str(tmp_path), "--check"]) == 1
    said = capsys.readouterr().err
    assert [str(page) in said for page in pages] == [False, True, False]


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_device_has_a_page_and_its_figures_as_csv(tmp_path):
    card = {"device": "cuda:0", "device_name": "A Card (R) 2", "driver": "1", "cuda": "13.0"}
    rival = {"name": "scipy cdist", "version": "2.0", "ratio": 3.0, "median_s": 0.06}
    rival["max_relative_error"] = 0.0
    lines = [line(rivals=[rival]), line(**card), *limits(), line(op="apsp", failed="MemoryError")]
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    (data / "x.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    (tmp_path / "README.md").write_text(PAGE.replace("cdist-cpu", "devices"))
    assert readme.main([str(tmp_path)]) == 0
    table = (tmp_path / "README.md").read_text()
    assert "| [A Card (R) 2](performance/a-card-2.md) | 1 | 2026-01-02 |" in table
    assert table.index("a-card-2.md") < table.index("a-processor.md")  # GPUs first
    folder = tmp_path / "docs" / "performance"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["a-card-2.csv", "a-card-2.md", "a-processor.csv", "a-processor.md"]
    page = (folder / "a-processor.md").read_text()
    assert page.startswith("# A Processor\n") and "A Card" not in page
    assert "## Distances" in page and "## What the device can do at most" in page
    assert "## Shortest paths" not in page and "Nothing is recorded" not in page
    found = rows_of(folder / "a-processor.csv")
    assert {row["library"]: row["median_s"] for row in found if row["op"] == "cdist"} == {
        "gpudist": "0.02",
        "scipy cdist": "0.06",
    }
    assert {row["bound_by"] for row in found if row["op"] == "ceiling"} == {
        "write",
        "fma",
        "tensor",
    }


def test_a_device_without_results_loses_its_page(tmp_path, capsys):
    folder = tmp_path / "docs" / "performance"
    folder.mkdir(parents=True)
    (tmp_path / "README.md").write_text(PAGE)
    assert readme.main([str(tmp_path)]) == 0
    (folder / "gone.md").write_text("# Gone\n")
    assert readme.main([str(tmp_path), "--check"]) == 1
    assert "gone.md is stale" in capsys.readouterr().err
    assert readme.main([str(tmp_path)]) == 0
    assert not (folder / "gone.md").exists()


def test_errors_have_a_csv_file(tmp_path):
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    (data / "x.jsonl").write_text(json.dumps(accuracy_line()) + "\n")
    (tmp_path / "README.md").write_text("nothing\n")
    assert readme.main([str(tmp_path)]) == 0
    found = rows_of(tmp_path / "docs" / "accuracy.csv")
    assert {row["library"]: row["max_error"] for row in found} == {
        "gpudist": "1.5e-16",
        "scipy cdist": "4e-16",
        "torch.cdist": "inf",
    }


def step(number, kernel, **changes):
    card = {"device": "cuda:0", "device_name": "A Card", "driver": "1", "cuda": "13.0"}
    shown = {"op": "ladder", "ladder": "edm2d", "role": "step", "step": number, "kernel": kernel}
    shape = {"name": kernel, "shape": [30336, 30336, 2], "rate": 1e9, "unit": "B/s"}
    return line(**card, **shown, **shape) | changes


def test_a_ladder_shows_its_steps_and_what_the_study_says():
    page = PAGE.replace("cdist-cpu", "ladder-edm2d")
    second, first = step(2, "edm2d/2_coalesced"), step(1, "edm2d/1_naive", reported="233 GB/s")
    lines = [second, first, step(1, "edm2d/1_naive", role="sweep"), step(9, "x", device="cpu")]
    text = readme.render(page, lines)
    assert "30336 x 30336 x 2, float64, on A Card, 2026-01-02." in text
    assert "| edm2d/1_naive | 20.0 ms | 1.00 GB/s | 50% (write) | 2.0e-16 | 233 GB/s |" in text
    assert text.count("| edm2d/") == 2 and text.index("1_naive") < text.index("2_coalesced")
    assert "## 4. No division\n" in text and "```{ladder-step} edm2d/4_no_division\n" in text
    assert "## 1. Naive" in readme.render(page, [])  # steps are there without figures


def test_headlines_are_drawn(tmp_path, pyplot):
    (tmp_path / "README.md").write_text(PAGE.replace("cdist-cpu", "chart"))
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    assert readme.main([str(tmp_path)]) == 0
    assert "Nothing is recorded yet." in (tmp_path / "README.md").read_text()
    (data / "x.jsonl").write_text(json.dumps(headline()) + "\n")
    assert readme.main([str(tmp_path), "--check"]) == 1
    assert readme.main([str(tmp_path)]) == 0
    assert "](headlines.png)" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "docs" / "headlines.png").stat().st_size > 1000
    assert readme.main([str(tmp_path), "--check"]) == 0
    (data / "x.jsonl").write_text(json.dumps(headline(median_s=0.05)) + "\n")
    assert readme.main([str(tmp_path), "--check"]) == 1


def test_the_chart_names_each_device_once(pyplot):
    lines = [headline(rivals=headline()["rivals"][1:2]) for _ in range(2)]
    ax = plots.headlines(lines)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A Processor, 2 threads"]
    assert [bar.get_width() for bar in ax.patches] == [3.0, 3.0]
    assert " 3.00x: 40.0 ms instead of 120 ms" in [text.get_text() for text in ax.texts]
    pyplot.close(ax.figure)


def headline(**changes):
    rivals = [
        {"name": "torch.cdist", "version": "3.1", "ratio": 0.5, "median_s": 0.02},
        {"name": "scipy cdist", "version": "2.0", "ratio": 3.0, "median_s": 0.12},
        {"name": "cupyx cdist", "version": "4.2", "missing": "no GPU"},
    ]
    for rival in rivals:
        rival["max_relative_error"] = 1e-15
    shown = {"metric": "cityblock", "shape": [3000, 3000, 128], "median_s": 0.04}
    return line(**shown, rivals=rivals) | changes


def test_headlines_are_the_newest_beside_the_library_that_people_have():
    old = headline(date="2025-01-01T00:00:00+00:00", device_name="Old", median_s=9.0)
    lines = [old, headline(), headline(arguments="weighted", date="2027-01-01T00:00:00+00:00")]
    text = readme.render(PAGE.replace("cdist-cpu", "headlines"), lines)
    assert (
        "| cdist: 3000 points, d = 128, cityblock, float64 | A Processor | 40.0 ms | 2.0e-16 "
        "| scipy cdist (2.0) | 120 ms | 1.0e-15 | 3.00x |\n"
    ) in text
    assert text.count("| cdist: ") == 1
    assert "A Processor, avx2, 2 threads; revision 0123456789ab; 2026-01-02." in text


def test_what_another_library_has_in_less_time_is_shown():
    page = PAGE.replace("cdist-cpu", "slower")
    text = readme.render(page, [headline(), headline(op="ladder"), headline(rivals=[])])
    assert text.count("| cdist: ") == 1 and "| torch.cdist (3.1) | 20.0 ms |" in text
    assert "0.500x" in text and "scipy" not in text
    assert "Nothing is recorded yet." in readme.render(page, [headline(rivals=[])])


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
    assert "](../notebooks/roofline.png)" in readme.render(page, lines)
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
        added = {**line(**new), **points_of_a_plot()[0], **new, "shape": [1, 1, 1]}
        stream.write(json.dumps(added))
    assert readme.main([str(tmp_path), "--check"]) == 1  # the picture is stale, the text is not
    assert readme.render(page, lines) == (tmp_path / "README.md").read_text()


needs_tree = pytest.mark.skipif(
    not (ROOT / "notebooks").is_dir(), reason="the source archive has no notebooks"
)


README = ROOT / "README.md"
NAMES = "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"
PAGES = [ROOT / name for name in NAMES if (ROOT / name).exists()] + docs_pages()


@needs_tree
def test_no_page_is_stale():
    assert readme.main([str(ROOT), "--check"]) == 0, "run python -m bench.readme"


def test_the_readme_is_short_and_shows_six_results():
    rows = README.read_text(encoding="utf-8").splitlines()
    assert len(rows) <= 150
    assert len([row for row in rows if re.fullmatch(r"\| (cdist|apsp|knn): .*x \|", row)]) == 6


@needs_tree
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page):
    # What stands in code is no link; of a list of pages the text goes to several lines.
    text = re.sub(r"```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        name, _, heading = link.partition("#")
        there = page.parent / name if name else page
        if there.parent.name == "gallery" and there.suffix == ".ipynb":  # the site copies these
            there = ROOT / "notebooks" / there.name
        assert there.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [title.lower().replace(" ", "-") for title in titles], link
        if there.suffix == ".png":
            assert 0 < there.stat().st_size < 400_000


def test_the_readme_code_runs():
    (code,) = python_blocks(README)
    assert 5 <= len([row for row in code.splitlines() if row.strip()]) <= 12
    names = {}
    assert not run_blocks(README, names)
    assert names["dist"].shape == (2000, 2000)
    assert np.isfinite(names["dist"][0, 17])
