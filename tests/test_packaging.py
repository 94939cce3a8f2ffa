"""What a user gets by installing: one stable-ABI module that imports fast and links to little."""

import ast
import importlib.metadata
import inspect
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import gpudist
from gpudist import _core

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
def test_import_adds_less_than_30_ms_to_numpy():
    """Or, on a machine where NumPy's own import takes more than 100 ms, 30 % of that."""
    code = """
import time
begun = time.perf_counter()
import numpy
there = time.perf_counter()
import gpudist
print(there - begun, time.perf_counter() - there)
"""
    runs = [[float(word) for word in run_python(code).split()] for _ in range(7)]
    assert min(ours for _, ours in runs) < max(0.030, 0.3 * min(numpys for numpys, _ in runs))


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
