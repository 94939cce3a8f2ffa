"""The command line: what it prints, and its exit statuses."""

import os
import re
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


@pytest.mark.parametrize("command", [[], ["info"], ["ladder"], ["run"], ["demo"]], ids=" ".join)
def test_help(command, capsys):
    assert status([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(" ".join(["usage: python -m gpudist", *command]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["ladder", "edm2d", "--repeats", "0"], "'0' is not a whole number from 1 to 1000"),
        (["ladder", "edm2d", "--device", "tpu"], "'tpu' is not cpu, cuda or cuda:1"),
        (["run"], "script"),
        (["run", "--device", "tpu", "x.py"], "'tpu' is not cpu, cuda or cuda:1"),
        (["demo", "--device", "cuda:"], "'cuda:' is not cpu, cuda or cuda:1"),
        (["demo", "--limit", "1"], "'1' is not a whole number >= 2"),
        (["demo", "--range-km", "-5"], "'-5' is not a positive number of kilometres"),
        (["demo", "--range-km", "nan"], "'nan' is not a positive number of kilometres"),
        (["demo", "--range-km", "far"], "'far' is not a positive number of kilometres"),
        (["demo", "--range-km", "1e300"], "'1e300' is not a positive number of kilometres"),
        (["ladder", "apsp", "--json", "nowhere/a"], "--json: 'nowhere/a' is no file in a folder"),
        (["ladder", "apsp", "--json", "."], "--json: '.' is no file in a folder that exists"),
        (["ladder", "apsp", "--plot", "nowhere/a.png"], "--plot: 'nowhere/a.png' is no file"),
        (["demo", "--output", "nowhere/a.png"], "--output: 'nowhere/a.png' is no file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_misuse_is_status_2(arguments, message, capsys):
    assert status(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("command", [["ladder", "apsp", "--plot"], ["demo", "--output"]])
@pytest.mark.parametrize("name", ["map.docx", "map"])
def test_pictures_of_no_format_are_refused_before_the_work(command, name, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("airportsdata")
    from gpudist import demo, ladder

    for module, function in ((ladder, "climb"), (demo, "warm_up")):
        monkeypatch.setattr(module, function, lambda *_, **__: pytest.fail("work was done"))
    assert status([*command, name]) == 2
    captured = capsys.readouterr()
    assert "the name of a picture must end in one of" in captured.err and ".png" in captured.err
    assert captured.out == ""


def test_a_folder_that_cannot_be_written_matters_where_something_is(monkeypatch, capsys):
    from gpudist import demo

    monkeypatch.setattr(demo, "run", lambda **options: None)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert status(["demo", "--no-plot"]) == 0
    assert status(["demo"]) == 2
    assert "--output: 'gpudist-demo.png' cannot be written" in capsys.readouterr().err


def test_info_is_a_line_a_fact_and_a_line_a_family(capsys):
    assert status(["info"]) == 0
    text = capsys.readouterr().out
    facts, families, _ = text.split("\n\n")
    reason = gpudist.cuda.why_not()
    cards = [card.index for card in (gpudist.cuda.devices() if reason is None else ())]
    about = [re.split("  +", line)[0] for line in facts.splitlines() if not line.startswith(" ")]
    assert about == [
        "gpudist",
        "libraries",
        "CPU",
        "CUDA",
        *(f"cuda:{card}" for card in cards),
        *(["GPU code"] if gpudist._core.cuda()["targets"] else []),
        *(f"code for cuda:{card}" for card in cards),
    ]
    assert gpudist.__version__ in facts
    assert reason is None or reason in facts
    kernels = gpudist.kernels()
    for family in {kernel.family for kernel in kernels}:
        (row,) = (line for line in families.splitlines() if line.startswith(family + " "))
        for backend in ("cpu", "cuda"):
            states = [k.why_not for k in kernels if (k.family, k.backend) == (family, backend)]
            assert not states or f"{states.count(None)} of {len(states)}" in row
    for why in {kernel.why_not for kernel in kernels} - {None}:
        assert f"] {why}" in " ".join(families.split())
    assert len(text.splitlines()) < 35


def test_one_thread_is_one():
    from gpudist.measure import wording

    assert [wording.threads(count) for count in (1, 2)] == ["1 thread", "2 threads"]


@pytest.mark.parametrize(
    ("revision", "said"), [("0123abcd", ", revision 0123abcd"), ("unknown", "")]
)
def test_info_names_the_revision_where_it_is_known(revision, said, capsys, monkeypatch):
    from gpudist.measure import records

    monkeypatch.setattr(records, "revision", lambda: revision)
    assert status(["info"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.split("  ", 1)[1].strip() == f"{gpudist.__version__}{said}"


def test_info_all_has_every_kernel_and_why_not(capsys):
    assert status(["info", "--all"]) == 0
    text = capsys.readouterr().out
    for kernel in gpudist.kernels():
        (at,) = (part for part in text.split("\n") if part.startswith(kernel.id + ": "))
        assert at == f"{kernel.id}: " + (
            "runs here" if kernel.why_not is None else f"no, {kernel.why_not}"
        )
        following = " ".join(text.partition(at + "\n")[2][:900].split())
        assert kernel.idea in following
        assert all(word in following for word in (*kernel.dtypes, *kernel.metrics))


@pytest.mark.parametrize("options", [[], ["--all"]], ids=["short", "all"])
def test_info_fits_a_terminal_and_cuts_no_word(options, capsys, monkeypatch):
    from gpudist.measure import records

    many = {f"library{i}": "1.2.3.post4-with-hyphens" for i in range(40)}
    monkeypatch.setattr(records, "versions", lambda: dict(many))
    assert status(["info", *options]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert set(many) <= set(text.split())
    assert all(f"{version}," in text.split() for version in list(many.values())[:-1])


@pytest.mark.parametrize(
    ("words", "found"),
    [("in", {"info"}), ("info --", {"--all", "--help"}), ("ladder ed", {"edm2d"})],
)
def test_a_shell_completes_words(words, found, tmp_path):
    pytest.importorskip("argcomplete")
    line = f"python -m gpudist {words}"
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "3",  # the words before the command's own, as argcomplete's shell code says
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_TYPE": "9",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run(
        [sys.executable, "-m", "gpudist"],
        env=os.environ | asked,
        check=True,
        timeout=120,
    )
    assert set(map(str.strip, answer.read_text().split("\n"))) >= found


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
    count = gpudist._core.host()["copiers"]
    assert f"{count} thread{'s' * (count > 1)} for each GPU's copies of host arrays" in text


def test_an_unknown_airport_is_status_2(capsys):
    pytest.importorskip("airportsdata")
    assert status(["demo", "--from", "ANCH", "--no-plot"]) == 2
    captured = capsys.readouterr()
    assert "no airport has the code 'ANCH'; did you mean" in captured.err
    assert "ANC Anchorage, US" in captured.err


def test_demo_passes_its_options_on(monkeypatch):
    from gpudist import demo

    seen = {}
    monkeypatch.setattr(demo, "run", lambda **options: seen.update(options))
    ends = ["--from", "A", "--to", "B"]
    sizes = ["--all", "--limit", "9", "--dask", "--range-km", "500"]
    assert status(["demo", *sizes, *ends, "--no-plot"]) == 0
    assert seen == {
        "every": True,
        "limit": 9,
        "dask": True,
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


@pytest.mark.parametrize("command", [["info"], ["ladder", "apsp", "--size", "8", "--repeats", "1"]])
def test_without_a_stream_to_write_to(command):
    """As a daemon's child may be started."""
    pytest.importorskip("scipy")
    code = (
        f"import sys; sys.stdout = None; sys.argv[1:] = {command!r}\n"
        "from gpudist.__main__ import main; sys.exit(main())"
    )
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_stream_there_is_no_progress_bar(monkeypatch):
    from gpudist.demo import progress

    monkeypatch.setattr(sys, "stderr", None)
    assert progress._bar("routes", 1.0) is None


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["info"], ["--help"]], ids=" ".join)
def test_a_reader_that_stops_reading_is_no_crash(unbuffered, words):
    command = [sys.executable, "-m", "gpudist", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        # argparse ignores what it cannot write, if that is told at once.
        assert process.wait(120) in ({0, 1} if "--help" in words else {1})


def test_heavy_libraries_wait_until_they_are_needed():
    code = (
        "import sys, bench.readme, gpudist.comparison, gpudist.demo, gpudist.ladder\n"
        "import gpudist.measure.rivals, gpudist.__main__\n"
        "heavy = {'scipy', 'matplotlib', 'torch', 'rich', 'tqdm', 'airportsdata', 'cupy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stdout.strip() == "[]", done.stderr
