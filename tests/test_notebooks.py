"""The notebooks: what is stored in them, and the tool that holds it against an execution."""

import ast
import copy
import importlib
import json
import re
from pathlib import Path

import pytest
from made_lines import line

from bench import notebooks
from gpudist.measure import chart

STORED = sorted(notebooks.FOLDER.glob("*.ipynb"))

needs_notebooks = pytest.mark.skipif(not STORED, reason="the source archive has no notebooks")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code(notebook):
    """Give the sources of code cells, without IPython's own commands."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            lines = "".join(cell["source"]).splitlines()
            yield "\n".join(line for line in lines if not line.startswith("%"))


# ------------------------------------------------------------------ what is stored


@needs_notebooks
def test_there_are_twelve():
    assert [path.name[:2] for path in STORED] == [f"{i:02}" for i in range(1, 13)]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name[:2])
def test_stored_outputs_can_be_read_by_people(path):
    notebook = read(path)
    assert not notebooks.faults(notebook)
    assert path.stat().st_size <= notebooks.MOST_BYTES
    found = [notebooks.structure(cell) for cell in notebook["cells"] if "outputs" in cell]
    assert any("image/png" in output for outputs in found for output in outputs)
    assert {tuple(cell["metadata"]) for cell in notebook["cells"]} == {()}


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name[:2])
def test_notebooks_use_public_names_alone(path):
    for source in code(read(path)):
        for node in ast.walk(ast.parse(source)):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [part for alias in node.names for part in alias.name.split(".")]
            elif isinstance(node, ast.Attribute):
                names = [node.attr]
            assert not [name for name in names if name.startswith("_")], source
            assert "bench" not in names, source


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name[:2])
def test_colours_and_charts_that_notebooks_name_are_there(path):
    names = set(re.findall(r"\bchart\.(\w+)", "\n".join(code(read(path)))))
    assert {name for name in names if not hasattr(chart, name)} == set()


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name[:2])
def test_a_cell_has_one_idea(path):
    """Few lines a cell, and words between: a reader sees the result of each before the next."""
    assert max(len(source.splitlines()) for source in code(read(path))) <= 32


# ------------------------------------------------------------------ the tool


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def picture():
    return {"output_type": "display_data", "data": {"image/png": "eA==", "text/plain": "<Figure>"}}


def made(*outputs):
    cell = {"cell_type": "code", "id": "a", "execution_count": 1, "outputs": list(outputs)}
    return {"cells": [{"cell_type": "markdown", "id": "b"}, cell]}


def test_the_structure_is_that_of_types():
    pieces = [stream("1"), stream("2"), picture(), stream("3"), stream("4", "stderr")]
    joined = notebooks._joined(pieces)
    assert [output.get("text") for output in joined] == ["12", None, "3", "4"]
    assert notebooks.structure(made(*joined)["cells"][1]) == [
        ("stream", "stdout"),
        ("display_data", "image/png", "text/plain"),
        ("stream", "stdout"),
        ("stream", "stderr"),
    ]


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (made(stream("other text"), picture()), True),
        (made(stream("text")), False),
        (made(picture(), stream("text")), False),
        (made(stream("text"), picture(), picture()), False),
        (made(stream("text", "stderr"), picture()), False),
        (made(stream("text"), {"output_type": "error", "ename": "ValueError"}), False),
    ],
)
def test_another_structure_is_told(now, same):
    found = notebooks.differences(made(stream("text"), picture()), now)
    assert bool(found) != same
    assert all(fault.startswith("cell a has stored ") for fault in found)


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ({"output_type": "error", "ename": "ValueError"}, "cell a raises ValueError"),
        (stream("50%|###", "stderr"), "cell a warns"),
        (stream("UserWarning: so"), "cell a warns"),
        (stream("read /home/me/x"), "cell a names a path"),
    ],
)
def test_what_nobody_wants_to_read_is_told(output, fault):
    assert notebooks.faults(made(stream("fine"), picture())) == []
    (found,) = notebooks.faults(made(output))
    assert found.startswith(fault)


def test_a_cell_that_was_not_executed_is_told():
    notebook = made()
    notebook["cells"][1]["execution_count"] = None
    assert notebooks.faults(notebook) == ["cell a was not executed"]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Give a folder with one notebook, which has not been executed."""
    pytest.importorskip("nbclient", reason="what executes notebooks is not installed")
    pytest.importorskip("ipykernel", reason="what executes notebooks is not installed")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    notebook = made() | {"metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    notebook["cells"][0] |= {"metadata": {}, "source": "# Words"}
    notebook["cells"][1] |= {"metadata": {"scrolled": True}, "source": "print(1)\n2"}
    path = tmp_path / "01.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


# Libraries that talk to the kernel warn of what is theirs to mend.
@pytest.mark.filterwarnings("default")
def test_outputs_are_stored_and_checked(small, capsys):
    assert notebooks.main([]) == 0
    stored = read(small)
    cell = stored["cells"][1]
    assert notebooks.structure(cell) == [("stream", "stdout"), ("execute_result", "text/plain")]
    assert cell["metadata"] == {} and stored["metadata"]["language_info"] == {"name": "python"}
    assert notebooks.main(["--check", "01"]) == 0
    stale = copy.deepcopy(stored)
    stale["cells"][1]["outputs"].pop()
    small.write_text(json.dumps(stale), encoding="utf-8")
    capsys.readouterr()
    assert notebooks.main(["--check"]) == 1
    assert "cell a has stored [('stream', 'stdout')]" in capsys.readouterr().err
    assert notebooks.main(["--check", "02"]) == 1  # there is none


def test_recorded_lines_are_the_newest(monkeypatch):
    folder = Path(notebooks.FOLDER)
    if not (folder / "recorded.py").is_file():
        pytest.skip("the source archive has no notebooks")
    monkeypatch.syspath_prepend(str(folder))
    from recorded import lines

    on_gpu, elsewhere = lines("cdist", gpu=True), lines("cdist", gpu=False)
    assert on_gpu and elsewhere and len(lines("cdist")) == len(on_gpu) + len(elsewhere)
    assert all(line["device"] != "cpu" for line in on_gpu)
    assert {line["op"] for line in lines(("apsp", "minplus"))} == {"apsp", "minplus"}


@needs_notebooks
def test_figures_are_of_one_gpu(tmp_path, monkeypatch):
    """The one of which there are most lines, whichever was measured last."""
    monkeypatch.syspath_prepend(str(notebooks.FOLDER))
    recorded = importlib.import_module("recorded")
    places = [("cuda:0", "A"), ("cuda:0", "B"), ("cpu", "C")]
    written = [
        line(device=device, device_name=name, shape=[n, n, 2], date=f"2026-01-0{1 + (name == 'B')}")
        for device, name in places
        for n in range(1, 3 + (name == "A"))
    ]
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "x.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in written), encoding="utf-8")
    monkeypatch.setattr(recorded, "HERE", tmp_path)
    for gpu, names in ((None, ["A", "A", "A", "C", "C"]), (True, ["A"] * 3), (False, ["C"] * 2)):
        assert [entry["device_name"] for entry in recorded.lines("cdist", gpu)] == names
    assert recorded.lines("apsp") == []
