"""Provenance, JSON lines, words for quantities, and tables."""

import io
import math
import sys

import numpy as np
import pytest

from bench import (
    lines,
)
from gpudist import _tables
from gpudist.measure import (
    records,
    wording,
)

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
        list(lines.read_lines(path))


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
    assert wording.duration(seconds) == text


def test_quantities():
    assert wording.quantity(4.7e12, "B/s") == "4.70 TB/s"
    assert wording.quantity(15.2e12, "updates/s") == "15.2 T updates/s"
    assert wording.quantity(12.0, "updates/s") == "12.0 updates/s"
    assert wording.error_text(0.0) == "0"
    assert wording.error_text("inf") == "inf"
    assert wording.error_text(2.06e-7) == "2.1e-07"


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
