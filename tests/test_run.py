"""``python -m gpudist run`` is like Python: arguments, paths, modules, tracebacks and statuses."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpudist
from gpudist.__main__ import main


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def run(*arguments, cwd, python=()):
    command = [sys.executable, *python, *arguments]
    env = os.environ | {"PYTHONPATH": str(Path(gpudist.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=120)
    return done.returncode, done.stdout, done.stderr


def both(tmp_path, *arguments, python=()):
    """Run it with Python alone, then by us; give both outcomes."""
    alone = run(*arguments, cwd=tmp_path, python=python)
    return alone, run("-m", "gpudist", "run", *arguments, cwd=tmp_path, python=python)


TELL = """
    import os, sys
    import beside
    main = sys.modules["__main__"]
    print(sys.argv, __name__, main.__dict__ is globals(), beside.__name__)
    print(__file__, __package__, getattr(__spec__, "name", None), sys.path[0])
"""


@pytest.fixture
def project(tmp_path):
    for folder in ("scripts", "package"):
        write(tmp_path / folder / "tell.py", TELL)
    write(tmp_path / "scripts/beside.py", "")
    write(tmp_path / "beside.py", "")
    write(tmp_path / "package/__init__.py", "")
    write(tmp_path / "package/__main__.py", TELL)
    return tmp_path


def test_a_script_finds_what_it_finds_without_us(project):
    alone, ours = both(project, "scripts/tell.py", "a", "-b", "--verbose")
    assert alone[0] == 0
    assert ours == alone


@pytest.mark.parametrize("name", ["package", "package.tell"])
def test_a_module_finds_what_it_finds_without_us(project, name):
    alone, ours = both(project, "-m", name, "a", "-m", "b", "--verbose")
    assert (alone[0], alone[2]) == (0, "")
    assert ours == alone


def test_a_safe_path_stays_safe(project):
    write(project / "scripts/path.py", "import sys; print(sys.path)")
    alone, ours = both(project, str(project / "scripts/path.py"), python=("-P",))
    assert ours == alone


def test_modules_are_measured(project):
    write(
        project / "test_own.py",
        """
        from scipy.spatial.distance import cdist

        def test_distance():
            assert cdist([[0.0, 0.0]], [[3.0, 4.0]]) == 5.0
        """,
    )
    status, out, err = run(
        *("-m", "gpudist", "run", "--verbose", "--device", "cpu"),
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py"),
        cwd=project,
    )
    assert status == 0 and "1 passed" in out, (out, err)
    assert "gpudist answered 1 x cdist" in err


FAILS = {
    "an error": (1, "def f():\n    raise KeyError('lost')\nf()\n"),
    "an error of an error": (
        1,
        "try:\n    {}[0]\nexcept KeyError as error:\n    raise RuntimeError('x') from error\n",
    ),
    "errors in a group": (1, "raise ExceptionGroup('both', [ValueError('a'), OSError('b')])\n"),
    "a syntax error": (1, "def f(:\n"),
    "a missing module": (1, "import no_such_module\n"),
    "a deep recursion": (1, "def f():\n    f()\nf()\n"),
    "an error in a library": (1, "import json\njson.loads('{')\n"),
    "an exit": (0, "import sys\nsys.exit()\n"),
    "a status": (7, "import sys\nsys.exit(7)\n"),
    "a message": (1, "import sys\nsys.exit('it went wrong')\n"),
    "a hook of its own": (
        1,
        "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__, file=sys.stderr)\n"
        "raise OSError\n",
    ),
}


@pytest.mark.parametrize(
    ("what", "module"),
    [
        *((what, False) for what in FAILS),
        *((what, True) for what in ("an error", "errors in a group", "a status")),
    ],
)
def test_it_ends_as_without_us(tmp_path, what, module):
    status, code = FAILS[what]
    script = tmp_path / "fails.py"
    script.write_text(code)
    given = ("-m", "fails") if module else (str(script),)
    alone, ours = both(tmp_path, *given)
    assert ours[:2] == alone[:2] == (status, "")
    # Frames of runpy Python shows, and we do not; a recursion's depth depends on where it began.
    expected, found = (
        [
            line
            for line in outcome[2].splitlines()
            if '"<frozen runpy>"' not in line and "Previous line repeated" not in line
        ]
        for outcome in (alone, ours)
    )
    assert found == expected
    assert '"<frozen runpy>"' not in ours[2]


def test_scipys_errors_are_one_traceback(tmp_path):
    script = write(
        tmp_path / "wrong.py",
        """
        from scipy.spatial.distance import cdist
        cdist([[0.0]], [[1.0, 2.0]])
        """,
    )
    alone, ours = both(tmp_path, str(script))
    assert alone[0] == ours[0] == 1
    assert ours[2] == alone[2]


def test_ctrl_c_is_status_130(tmp_path):
    script = write(tmp_path / "stopped.py", "raise KeyboardInterrupt\n")
    status, _, err = run("-m", "gpudist", "run", str(script), cwd=tmp_path)
    assert status == 130
    assert err.count("Traceback") == 1 and "gpudist" not in err.replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module", "No module named no_such_module"),
        ("fine.py", "Try using 'fine' instead of 'fine.py' as the module name"),
        ("package", "No module named package.__main__; 'package' is a package and cannot be dir"),
    ],
)
def test_there_is_no_such_module(tmp_path, name, message):
    write(tmp_path / "fine.py", "")
    write(tmp_path / "package/__init__.py", "")
    status, out, err = run("-m", "gpudist", "run", "-m", name, cwd=tmp_path)
    assert (status, out) == (1, "")
    assert message in err and err.startswith("python -m gpudist run: ") and err.count("\n") == 1


def test_a_gpu_that_cannot_be_used(tmp_path, capsys):
    script = write(tmp_path / "fine.py", "print('ran')\n")
    assert main(["run", "--device", "cuda:99", str(script)]) == 1
    captured = capsys.readouterr()
    why = gpudist.cuda.why_not() or "there is no cuda:99"
    assert captured.out == "" and why in captured.err
