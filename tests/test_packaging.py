"""What a user gets by installing: one stable-ABI module that imports fast and links to little."""

import ast
import importlib.metadata
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import gpudist
from gpudist import _core

ROOT = Path(__file__).resolve().parents[1]
MODULE = Path(_core.__file__)
STUB = Path(gpudist.__file__).with_name("_core.pyi")


def run_python(code, **kwargs):
    # -P: the working directory may hold the sources, which are not what was installed.
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, **kwargs
    )
    return done.stdout


def tool(name, *arguments):
    if shutil.which(name) is None:
        pytest.skip(f"{name} (binutils) is not installed")
    clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run([name, *arguments], capture_output=True, text=True, check=True, env=clean)
    return done.stdout


def sanitized():
    return "libasan" in os.environ.get("LD_PRELOAD", "")


# ---------------------------------------------------------------- import


@pytest.mark.skipif(sanitized(), reason="a sanitizer's speed is not a user's")
def test_import_adds_less_than_30_percent_to_numpy(tmp_path):
    """It is compared in the same process, in time of the thread that imports.

    What other processes do meanwhile does not count, nor do threads of NumPy's libraries. Bytecode
    is there, as it is after an installation: the first run writes it.
    """
    code = """
import time
begun = time.thread_time()
import numpy
there = time.thread_time()
import gpudist
print(there - begun, time.thread_time() - there)
"""
    env = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    runs = [[float(word) for word in run_python(code, env=env).split()] for _ in range(7)]
    assert min(ours for _, ours in runs) < 0.3 * min(numpys for numpys, _ in runs)


def test_import_loads_no_heavy_package_and_no_driver():
    code = """
import sys, gpudist
print(*sys.modules)
print(open("/proc/self/maps").read())
"""
    modules, _, maps = run_python(code).partition("\n")
    heavy = {"cupy", "matplotlib", "networkx", "pandas", "rich", "scipy", "sklearn", "torch"}
    assert heavy.isdisjoint(modules.split())
    assert "libcuda.so" not in maps
    assert "/dev/nvidia" not in maps


def test_version_is_the_installed_one():
    assert gpudist.__version__ == importlib.metadata.version("gpudist")


def test_typing_marker_is_installed():
    assert Path(gpudist.__file__).with_name("py.typed").exists()
    assert STUB.exists()


# ---------------------------------------------------------------- the binary


def test_module_is_for_the_stable_abi():
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("free-threaded Python has no stable ABI yet")
    assert MODULE.name == "_core.abi3.so"


def test_only_the_init_function_is_exported():
    symbols = [line.split() for line in tool("nm", "-D", "--defined-only", MODULE).splitlines()]
    assert [name for *_, name in symbols] == ["PyInit__core"]


def test_no_cuda_library_is_linked():
    needed = [line for line in tool("readelf", "-d", MODULE).splitlines() if "(NEEDED)" in line]
    assert needed
    assert not [line for line in needed if "[libcu" in line]


@pytest.mark.gpu
def test_without_cublas_its_one_step_says_so_and_the_rest_runs(tmp_path):
    if (MODULE.parent.parent / "nvidia").exists():
        pytest.skip("NVIDIA's libraries lie beside this package")
    for name in ("libcublas.so.13", "libcublas.so.12", "libcublas.so"):
        (tmp_path / name).write_text("no library\n")  # but the first that the loader finds
    code = """
import gpudist
step, = (kernel for kernel in gpudist.kernels() if kernel.id == "euler/4_gemm")
assert "libcublas" in step.why_not
points = [[0.0, 0.0], [3.0, 4.0]]
assert gpudist.cdist(points, points, kernel="euler/2_tiled", dtype="float32")[0, 1] == 5
try:
    gpudist.cdist(points, points, kernel="euler/4_gemm", dtype="float32")
except gpudist.DeviceError as error:
    assert step.why_not in str(error)
    print("it says so")
"""
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    assert run_python(code, env=env) == "it says so\n"


# ---------------------------------------------------------------- the stub


def stub_parameters(function):
    """(name, kind, has a default) of each parameter of a function in the stub."""
    spec, kinds = function.args, inspect.Parameter
    positional = [(a.arg, kinds.POSITIONAL_ONLY) for a in spec.posonlyargs]
    positional += [(a.arg, kinds.POSITIONAL_OR_KEYWORD) for a in spec.args]
    first_default = len(positional) - len(spec.defaults)
    found = [(name, kind, i >= first_default) for i, (name, kind) in enumerate(positional)]
    if spec.vararg:
        found.append((spec.vararg.arg, kinds.VAR_POSITIONAL, False))
    for a, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        found.append((a.arg, kinds.KEYWORD_ONLY, default is not None))
    if spec.kwarg:
        found.append((spec.kwarg.arg, kinds.VAR_KEYWORD, False))
    return found


def module_parameters(function):
    """The same of a function in the module, which tells by its __text_signature__."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default is not p.empty) for p in parameters]


def stub_names():
    """Public name -> what the stub says of it. A leading underscore marks names for typing only."""
    found = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return {name: node for name, node in found.items() if not name.startswith("_")}


def test_stub_has_the_module_s_names():
    assert sorted(stub_names()) == sorted(name for name in dir(_core) if name[0] != "_")


@pytest.mark.parametrize("name", sorted(name for name in dir(_core) if name[0] != "_"))
def test_stub_has_the_module_s_signatures(name):
    real, stub = getattr(_core, name), stub_names()[name]
    if inspect.isclass(real):
        assert isinstance(stub, ast.ClassDef)
        methods = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
        for method in (vars(real).keys() & methods.keys()) - {"__init__", "__new__"}:
            assert stub_parameters(methods[method]) == module_parameters(vars(real)[method])
    elif callable(real):
        assert isinstance(stub, ast.FunctionDef)
        assert stub_parameters(stub) == module_parameters(real)
    else:
        assert isinstance(stub, ast.AnnAssign)


# ---------------------------------------------------------------- what the README says to run


needs_ci = pytest.mark.skipif(
    not (ROOT / ".ci").is_dir(), reason="the source archive has no continuous integration"
)


@needs_ci
@pytest.mark.parametrize("word", ["demo", "test"])
def test_ci_runs_the_command_that_the_readme_has(word, tmp_path):
    """Run .ci/run's own function on the README, with commands that only tell what they are."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    function = re.search(r"^run_readme\(\) {\n.*?^}\n", script, re.MULTILINE | re.DOTALL)
    assert re.search(rf"^(\w+=\w+ )*run_readme newest {word}$", script, re.MULTILINE)
    told = tmp_path / "told"
    commands = tmp_path / "newest" / "bin"
    commands.mkdir(parents=True)
    for name in ("pip", "python", "pytest"):
        (commands / name).write_text(f'#!/bin/sh\necho {name} "$@" >>"{told}"\n')
        (commands / name).chmod(0o755)
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{function[0]}run_readme newest {word}"],
        cwd=ROOT, env=os.environ | {"work": str(tmp_path)}, check=True, capture_output=True,
    )  # fmt: skip
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    command = [block for block in blocks if f".[{word}]" in block]
    assert len(command) == 1 and command[0].count("\n") == 1
    assert told.read_text().splitlines() == [
        " ".join(shlex.split(part)) for part in command[0].split("&&")
    ]


@needs_ci
def test_every_requirement_has_a_lower_bound():
    """From these the oldest versions are taken, with which .ci/run runs all tests."""
    done = [
        subprocess.run(
            [sys.executable, ROOT / ".ci" / "oldest", *words],
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for words in ([], ["build"])
    ]  # fmt: skip
    for constraints in done:
        names = [constraint.partition("==")[0] for constraint in constraints]
        assert len(set(names)) == len(names), "bounds differ between extras"
    declared = [r for r in importlib.metadata.requires("gpudist") if "extra ==" not in r]
    assert [r.replace(">=", "==") for r in declared] == [
        c for c in done[0] if c.startswith("numpy==")
    ]


@needs_ci
def test_a_requirement_without_a_lower_bound_is_told(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "oldest", tmp_path / ".ci")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"tqdm>=' in text
    (tmp_path / "pyproject.toml").write_text(re.sub(r'"tqdm>=[^"]*"', '"tqdm"', text))
    done = subprocess.run(
        [sys.executable, tmp_path / ".ci" / "oldest"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "tqdm has no lower bound" in done.stderr
