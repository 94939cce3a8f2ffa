"""The command line: what it prints, and its exit statuses."""

import subprocess
import sys

import pytest

import gpudist
from gpudist.__main__ import main


def status(arguments):
    """Run a command in this process and give its exit status."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return stop.code


@pytest.mark.parametrize("command", [[], ["info"], ["bench"], ["run"], ["demo"]], ids=" ".join)
def test_help(command, capsys):
    assert status([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(" ".join(["usage: python -m gpudist", *command]))


def test_help_of_bench_lists_the_suites(capsys):
    from gpudist.bench import SUITES

    status(["bench", "--help"])
    text = capsys.readouterr().out
    for name, suite in SUITES.items():
        assert name in text
        assert suite.summary in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["bench", "nothing"], "nothing"),
        (["bench", "--repeats", "0"], "'0' is not a whole number from 1 to 1000"),
        (["bench", "--repeats", "many"], "'many' is not a whole number from 1 to 1000"),
        (["bench", "--repeats", "1001"], "'1001' is not a whole number from 1 to 1000"),
        (["bench", "--device", "tpu"], "'tpu' is not cpu, cuda or cuda:1"),
        (["bench", "--compare", "no/such.jsonl"], "no/such.jsonl"),
        (["run"], "script"),
        (["run", "--device", "tpu", "x.py"], "'tpu' is not cpu, cuda or cuda:1"),
        (["demo", "--device", "cuda:"], "'cuda:' is not cpu, cuda or cuda:1"),
        (["demo", "--limit", "1"], "'1' is not a whole number >= 2"),
        (["demo", "--range-km", "-5"], "'-5' is not a positive number of kilometres"),
        (["demo", "--range-km", "nan"], "'nan' is not a positive number of kilometres"),
        (["demo", "--range-km", "far"], "'far' is not a positive number of kilometres"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_misuse_is_status_2(arguments, message, capsys):
    assert status(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_info_shows_every_kernel_and_why_not(capsys):
    assert status(["info"]) == 0
    text = capsys.readouterr().out
    for kernel in gpudist.kernels():
        (row,) = (line for line in text.splitlines() if line.startswith(kernel.id + " "))
        assert ("no: " in row) == (kernel.why_not is not None)
        assert kernel.idea in row
    assert gpudist.__version__ in text
    reason = gpudist.cuda.why_not()
    assert reason is None or reason in text


def test_info_shows_the_gpus(monkeypatch, capsys):
    card = gpudist.cuda.Device(
        index=3,
        name="A Card",
        compute_capability="9.0",
        memory_bytes=80 << 30,
        l2_bytes=50 << 20,
        multiprocessors=132,
    )
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: None)
    monkeypatch.setattr(gpudist.cuda, "devices", lambda: (card,))
    assert status(["info"]) == 0
    text = capsys.readouterr().out
    assert "A Card, compute capability 9.0, 80 GiB, 132 multiprocessors" in text


def test_an_unknown_airport_is_status_2(capsys):
    pytest.importorskip("airportsdata")
    assert status(["demo", "--from", "ANCH", "--no-plot"]) == 2
    captured = capsys.readouterr()
    assert "no airport has the code 'ANCH'; did you mean" in captured.err
    assert "ANC Anchorage, US" in captured.err


def test_a_gpu_that_cannot_be_used_is_status_1(monkeypatch, capsys):
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: "it is on fire")
    assert status(["bench", "ceilings", "--device", "cuda"]) == 1
    assert "it is on fire" in capsys.readouterr().err


def test_bench_writes_lines(tmp_path, capsys):
    from gpudist.bench import read_lines

    path = tmp_path / "lines.jsonl"
    command = ["bench", "ceilings", "--device", "cpu", "--repeats", "1", "--revision", "abc"]
    assert status([*command, "--json", str(path)]) == 0
    assert [(line["op"], line["revision"]) for line in read_lines(path)] == [("ceiling", "abc")] * 5
    assert "write" in capsys.readouterr().out


def test_a_failed_case_is_status_1(monkeypatch):
    from gpudist import bench

    monkeypatch.setattr(bench, "run_suite", lambda *arguments, **options: False)
    assert status(["bench", "quick"]) == 1


def test_demo_passes_its_options_on(monkeypatch):
    from gpudist import demo

    seen = {}
    monkeypatch.setattr(demo, "run", lambda **options: seen.update(options))
    ends = ["--from", "A", "--to", "B"]
    sizes = ["--all", "--limit", "9", "--range-km", "500"]
    assert status(["demo", *sizes, *ends, "--no-plot"]) == 0
    assert seen == {
        "every": True,
        "limit": 9,
        "range_km": 500.0,
        "origin": "A",
        "destination": "B",
        "output": None,
        "device": None,
    }


def python(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_as_a_module():
    done = python("-m", "gpudist", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, gpudist.__version__)


def test_a_reader_that_stops_reading_is_no_crash():
    command = [sys.executable, "-m", "gpudist", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 1


def test_heavy_libraries_wait_until_they_are_needed():
    code = (
        "import sys, gpudist.demo, gpudist.bench, gpudist.bench.readme, gpudist.__main__ as m\n"
        "heavy = {'scipy', 'matplotlib', 'torch', 'rich', 'tqdm', 'airportsdata', 'cupy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stdout.strip() == "[]", done.stderr
