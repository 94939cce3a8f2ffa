"""The command line of the repository's benchmarks: what it prints, and its exit statuses."""

import pytest

import bench.__main__ as command
import gpudist
from bench.lines import read_lines
from bench.suites import SUITES


def status(arguments):
    """Run the command in this process and give its exit status."""
    try:
        return command.main(arguments)
    except SystemExit as stop:
        return stop.code


def test_help_lists_the_suites(capsys):
    assert status(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: python -m bench")
    for name, suite in SUITES.items():
        assert name in text
        assert suite.summary in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing"),
        (["--repeats", "0"], "'0' is not a whole number from 1 to 1000"),
        (["--repeats", "many"], "'many' is not a whole number from 1 to 1000"),
        (["--repeats", "1001"], "'1001' is not a whole number from 1 to 1000"),
        (["--device", "tpu"], "'tpu' is not cpu, cuda or cuda:1"),
        (["--compare", "no/such.jsonl"], "no/such.jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_misuse_is_status_2(arguments, message, capsys):
    assert status(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_gpu_that_cannot_be_used_is_status_1(monkeypatch, capsys):
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: "it is on fire")
    assert status(["ceilings", "--device", "cuda"]) == 1
    assert "it is on fire" in capsys.readouterr().err


def test_lines_are_written(tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    options = ["--device", "cpu", "--repeats", "1", "--revision", "abc", "--json", str(path)]
    assert status(["ceilings", *options]) == 0
    assert [(line["op"], line["revision"]) for line in read_lines(path)] == [("ceiling", "abc")] * 5
    assert "write" in capsys.readouterr().out


def test_a_failed_case_is_status_1(monkeypatch):
    monkeypatch.setattr(command, "run_suite", lambda *arguments, **options: False)
    assert status(["quick"]) == 1
