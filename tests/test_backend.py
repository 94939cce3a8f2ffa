"""How a build finds a CUDA compiler, what it compiles for, and when it compiles again.

The driver is a stub: a library of the right name that answers as the test says.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "_build"
if not BUILD.is_dir():
    pytest.skip("the tests run apart from the source tree", allow_module_level=True)
setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
sys.path.insert(0, str(BUILD))
toolkit = pytest.importorskip("gpudist_toolkit")
sys.path.remove(str(BUILD))

STUB = """
#include <stdio.h>
#include <stdlib.h>
/* STUB_DRIVER is "13000 89 86": the version, then the capabilities of the devices. */
static int number(int which)
{
    const char *at = getenv("STUB_DRIVER");
    int value = 0, length = 0;
    for (int i = 0; i <= which; ++i) {
        if (sscanf(at, "%d%n", &value, &length) != 1) {
            return -1;
        }
        at += length;
    }
    return value;
}
int cuDriverGetVersion(int *version) { *version = number(0); return 0; }
int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGetCount(int *count)
{
    for (*count = 0; number(*count + 1) >= 0; ++*count) {
    }
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int capability = number(device + 1);
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return attribute != 75 && attribute != 76;
}
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """Return the folder with the stub of libcuda.so.1."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "stub.c").write_text(STUB)
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "stub.c"]
    subprocess.run(command, check=True)
    return folder


def run(code, tmp_path, **variables):
    """Run code with the backend in reach and nothing of CUDA but what `variables` say."""
    left = {"CUDA_HOME", "CUDA_PATH", "GPUDIST_CUDA", "GPUDIST_CUDA_ARCHS", "LD_LIBRARY_PATH"}
    env = {key: value for key, value in os.environ.items() if key not in left}
    env |= {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(BUILD)} | variables
    begin = f"""
import pathlib, gpudist_toolkit
gpudist_toolkit.USUAL_HOME = pathlib.Path({str(tmp_path)!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def driver(stub, says):
    return {"LD_LIBRARY_PATH": str(stub), "STUB_DRIVER": says}


# The hooks of setuptools would run setup.py, which has no requirement of its own.
ASK = """
import json, gpudist_backend
hooks = gpudist_backend._setuptools
hooks.get_requires_for_build_wheel = hooks.get_requires_for_build_editable = lambda settings: []
print(json.dumps(gpudist_backend.get_requires_for_build_wheel()))
print(json.dumps(gpudist_backend.get_requires_for_build_editable()))
assert gpudist_backend.get_requires_for_build_sdist.__module__ == "setuptools.build_meta"
"""


@pytest.mark.parametrize(
    ("says", "variables", "expected", "words"),
    [
        ("13000 89", {}, True, "GPU kernels will be built by cuda-toolkit"),
        ("13030 75", {}, True, "GPU kernels will be built"),
        ("13000 89", {"GPUDIST_CUDA": "0"}, False, "GPUDIST_CUDA=0 leaves the GPU kernels out"),
        ("12080 89", {}, False, "supports CUDA 12.8; with 13.0 the package index would bring"),
        ("13000 70", {}, False, "the NVIDIA driver shows no GPU to use"),
        ("13000", {}, False, "the NVIDIA driver shows no GPU to use"),
        (None, {}, False, "there is no nvcc, and no NVIDIA driver"),
        (None, {"GPUDIST_CUDA": "1"}, True, "GPU kernels will be built"),
    ],
)
def test_a_compiler_is_asked_of_the_index_where_it_helps(
    says, variables, expected, words, stub, tmp_path
):
    there = driver(stub, says) if says else {"LD_LIBRARY_PATH": str(tmp_path)}
    told, wheel, told_again, editable = run(ASK, tmp_path, **there, **variables).splitlines()
    assert json.loads(wheel) == json.loads(editable) == [toolkit.REQUIREMENT] * expected
    assert words in told and told == told_again


def test_none_is_asked_where_nvcc_is(stub, tmp_path):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    said = run(ASK, tmp_path, **driver(stub, "13000 89"))
    assert toolkit.REQUIREMENT not in said and f"{nvcc} is there" in said


FIND = "print(gpudist_toolkit.Toolkit.find())"


def test_without_isolation_the_build_says_what_is_missing(stub, tmp_path):
    said = run(FIND, tmp_path, **driver(stub, "13000 89"))
    assert f'nothing is installed without build isolation: install "{toolkit.REQUIREMENT}"' in said
    assert said.count("\n") == 2 and said.endswith("None\n")  # the line, and the result
    said = run(FIND, tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    assert "CPU only: no nvcc in CUDA_HOME" in said and "build isolation" not in said
    said = run(FIND, tmp_path, GPUDIST_CUDA="0", **driver(stub, "13000 89"))
    assert "CPU only, as GPUDIST_CUDA=0 says" in said


@pytest.mark.parametrize(
    ("text", "says", "expected"),
    [
        ("", "13000 89 86 70", (["86", "89"], False)),
        ("native", "13000 120", (["120"], False)),
        ("", "13000", (["80", "90"], True)),
        ("90", "13000 89", (["90"], False)),
        ("75;100f+PTX", "13000 89", (["75", "100f"], True)),
    ],
)
def test_a_build_is_for_the_local_gpus_unless_told_otherwise(text, says, expected, stub, tmp_path):
    code = f"print(gpudist_toolkit.Toolkit.parse_archs({text!r}))"
    assert run(code, tmp_path, **driver(stub, says)) == f"{expected}\n"


@pytest.mark.parametrize("text", ["89,90", "sm_90", "80;", "+PTX", "80+PTX;90"])
def test_architectures_that_cannot_be_read(text):
    with pytest.raises(toolkit.SetupError, match="expected native, release or the like of"):
        toolkit.Toolkit.parse_archs(text)


def flags(archs, name):
    made = toolkit.Toolkit.__new__(toolkit.Toolkit)
    made.archs, made.ptx = toolkit.Toolkit.parse_archs(archs)
    return [flag.removeprefix("-gencode=arch=") for flag in made.arch_flags(ROOT / name)]


def test_what_files_are_compiled_for():
    assert flags("80;90+PTX", "kernels/minplus/tile.cu") == [
        "compute_80,code=sm_80",
        "compute_90,code=sm_90",
        "compute_90,code=compute_90",
    ]
    # Code of a family has no PTX for others.
    assert flags("100f;120f+PTX", "kernels/minplus/tile.cu") == [
        "compute_100f,code=sm_100f",
        "compute_120f,code=sm_120f",
        "compute_120,code=compute_120",
    ]
    own = "tensor_sm90a.cu"
    assert flags("80;90+PTX", own) == flags("90a", own) == ["compute_90a,code=sm_90a"]
    assert flags("80;100f+PTX", own) == []
    assert flags("80;103", "packed_sm100f.cu") == ["compute_100f,code=sm_100f"]
    assert flags("80;120f", "packed_sm100f.cu") == []


def test_every_kernel_is_compiled_once_and_the_steps_of_a_ladder_together(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["setup.py", "--quiet", "--name"])
    monkeypatch.syspath_prepend(str(BUILD))
    kind = runpy.run_path("setup.py")["BuildExt"]
    build = kind.__new__(kind)
    build.build_temp = str(tmp_path)
    alone, together = [], []
    for source, target in build.cuda_sources():
        assert target.suffix == ".o" and not target.is_absolute()
        if source.is_relative_to(tmp_path):
            lines = source.read_text().splitlines()
            steps = [line for line in lines if line.startswith("#include") and '.cu"' in line]
            assert len({Path(step).parent for step in steps}) == 1 < len(steps)
            assert lines.index(steps[0]) > max(
                n for n, line in enumerate(lines) if '.cuh"' in line or ">" in line
            )
            together += [Path("kernels", step.split('"')[1]) for step in steps]
        else:
            alone.append(source)
    assert sorted(alone + together) == sorted(Path("kernels").rglob("*.cu"))
    assert {path.parts[1] for path in together} == {"ladders"}


def test_only_a_release_is_compressed_as_well_as_can_be(monkeypatch):
    monkeypatch.setenv("GPUDIST_CUDA", "1")
    for archs, flags in (("release", ["--compress-mode=size"]), ("90", []), ("80;90+PTX", [])):
        monkeypatch.setenv("GPUDIST_CUDA_ARCHS", archs)
        monkeypatch.setattr(toolkit, "find_nvcc", lambda: "nvcc")
        monkeypatch.setattr(toolkit.Toolkit, "__init__", lambda self, nvcc: None)
        monkeypatch.setattr(toolkit.Toolkit, "fault", lambda self: None)
        assert toolkit.Toolkit.find().flags == flags


@pytest.mark.parametrize(
    ("archs", "kept"), [("80+PTX", True), ("75;80+PTX", True), ("80", False), ("80;90+PTX", False)]
)
def test_kernels_start_in_turn_where_a_newer_device_may_compile_the_code(archs, kept):
    """From 9.0 on they start early and wait, which machine code made of PTX of 8.0 cannot."""
    made = toolkit.Toolkit.__new__(toolkit.Toolkit)
    made.archs, made.ptx = toolkit.Toolkit.parse_archs(archs)
    made.release = False
    assert ("-DGD_PTX_BELOW_90" in made.flags) is kept
    assert "#ifdef GD_PTX_BELOW_90" in (ROOT / "kernels/common/launch.cuh").read_text()


def test_a_release_is_for_every_generation_of_the_table():
    archs, ptx = toolkit.Toolkit.parse_archs("release")
    assert ptx and archs == ["75", "80", "86", "90", "100f", "120f"]


@pytest.mark.parametrize(
    ("version", "faulty"),
    [
        ((12, 8, 61), True),
        ((13, 0, 88), True),
        ((13, 2, 78), True),  # CUDA 13.2.1
        ((13, 2, 86), False),  # CUDA 13.2.2
        ((13, 3, 73), False),
        ((13, 5, 37), False),
    ],
)
def test_a_compiler_with_the_fault_is_told(version, faulty):
    made = toolkit.Toolkit.__new__(toolkit.Toolkit)
    made.version, made.name = version, "nvcc {}.{}.{}".format(*version)
    said = made.fault()
    assert (said is not None) == faulty
    if faulty:
        assert made.name in said and "wrong results" in said and toolkit.REQUIREMENT in said


@pytest.mark.parametrize("archs", ["75", "75;80+PTX", "release"])
def test_a_compiler_with_the_fault_makes_no_code_for_what_it_breaks(archs, monkeypatch, capsys):
    """PTX of 7.5 by nvcc 13.0 ended in an illegal access in boxes, and by 13.3 all was right."""

    def found(self, nvcc):
        self.version, self.name = (13, 0, 88), "nvcc 13.0.88"

    monkeypatch.setattr(toolkit, "find_nvcc", lambda: "nvcc")
    monkeypatch.setattr(toolkit.Toolkit, "__init__", found)
    monkeypatch.setenv("GPUDIST_CUDA_ARCHS", archs)
    monkeypatch.setenv("GPUDIST_CUDA", "1")
    with pytest.raises(toolkit.SetupError, match=r"wrongly for compute capability 7\.5"):
        toolkit.Toolkit.find()
    monkeypatch.setenv("GPUDIST_CUDA", "auto")
    assert toolkit.Toolkit.find() is None and toolkit.REQUIREMENT in capsys.readouterr().out
    monkeypatch.setenv("GPUDIST_CUDA_ARCHS", "80;90+PTX")
    assert toolkit.Toolkit.find().archs == ["80", "90"]


def test_the_backend_is_the_one_that_pyproject_names():
    system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert system["backend-path"] == [BUILD.name]
    assert (BUILD / f"{system['build-backend']}.py").exists()


# ---------------------------------------------------------------- compiling again


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Return a function that makes a job of setup.py, which compiles by a toolkit in a folder."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(sys, "argv", ["setup.py", "--quiet", "--name"])
    monkeypatch.chdir(ROOT)
    make = runpy.run_path("setup.py")["Job"]
    (tmp_path / "own.h").write_text("enum { OWN = 1 };\n")
    (tmp_path / "source.c").write_text('#include "own.h"\n#include "theirs.h"\n')
    # The headers have to be older than the object.
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))

    def made(folder, version, exists=True):
        include = tmp_path / folder
        if exists:
            include.mkdir(exist_ok=True)
            (include / "theirs.h").write_text("enum { THEIRS = 1 };\n")
        command = ["cc", f"-I{tmp_path}", "-I", str(include)]
        names = {str(include): f"toolkit {version}"}
        return make(tmp_path / "source.c", tmp_path / "object.o", command, names)

    return made


def test_a_compiler_elsewhere_is_no_reason_to_compile_again(job, tmp_path):
    first = job("first", 1)
    assert not first.fresh()
    first.run()
    shutil.rmtree(tmp_path / "first")
    assert job("second", 1).fresh()
    assert not job("second", 2).fresh(), "another version of it is a reason"
    (tmp_path / "own.h").write_text("enum { OWN = 2 };\n")
    assert not job("second", 1).fresh(), "a header of the package is a reason"


def test_what_one_version_of_python_compiled_serves_the_next(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["setup.py", "--quiet", "--name"])
    built = runpy.run_path("setup.py")
    build = built["BuildExt"](setuptools.Distribution())
    build.ensure_finalized()
    assert (sys.implementation.cache_tag in build.build_temp) != built["ABI3"]


def test_what_the_compiler_said_is_kept(job, tmp_path):
    (tmp_path / "source.c").write_text("#warning mind the gap\n")
    job("first", 1).run()
    assert "mind the gap" in (tmp_path / "object.o.log").read_text()


def test_the_front_end_runs_once_for_architectures_that_read_the_same_text(tmp_path):
    class Known(toolkit.Toolkit):
        def __init__(self, archs):
            self.archs, self.ptx = archs, True

    (tmp_path / "old.cuh").write_text("#if __CUDA_ARCH__ < 800\n#endif\n")
    (tmp_path / "new.cuh").write_text('#include "old.cuh"\n#if __CUDA_ARCH__ >= 900\n#endif\n')
    for name, header in (("same.cu", "old.cuh"), ("differs.cu", "new.cuh")):
        (tmp_path / name).write_text(f'#include "{header}"\n')
    bounds = {
        name: toolkit.bounds_of(tmp_path / name, (tmp_path,)) for name in os.listdir(tmp_path)
    }
    assert bounds["same.cu"] == [800] and bounds["differs.cu"] == [800, 900]

    kernels = ROOT / "kernels"
    known = Known(["75", "80", "86", "90", "100f"])
    assert known.alike(kernels / "common" / "relay.cu") == [["75"], ["80", "86", "90"], ["100f"]]
    assert known.alike(kernels / "minplus" / "tile.cu") == [["75"], ["80", "86"], ["90"], ["100f"]]
    assert Known(["80", "90"]).arch_flags(kernels / "common" / "relay.cu") == [
        "-gencode=arch=compute_80,code=[sm_80,sm_90]",
        "-gencode=arch=compute_80,code=compute_80",
    ]


# ---------------------------------------------------------------- what kernels take


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="the source archive has no .ci")
def test_what_kernels_take_is_read_and_held_against_the_table(tmp_path):
    wheels = runpy.run_path(str(ROOT / ".ci" / "wheels"))
    log = tmp_path / "kernels" / "cdist" / "some.o.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
        "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_80'\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 64 registers, used 0 barriers\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_120f'\n"
        "ptxas info    : Used 38 registers, used 0 barriers\n"
    )
    found = wheels["resources"](tmp_path)
    name = "kernels/cdist/some.cu"
    assert found == {(name, "sm_80"): (2, 64, 8, 1024), (name, "sm_120f"): (1, 38, 0, 0)}
    assert list(wheels["differences"](found, found)) == []
    other = {(name, "sm_80"): (2, 64, 0, 1024), ("kernels/gone.cu", "sm_80"): (1, 1, 0, 0)}
    assert list(wheels["differences"](found, other)) == [
        f"{name} for sm_120f is not in the table",
        f"{name} for sm_80: 8 bytes spilled, the table has 0",
        "kernels/gone.cu for sm_80 is in the table and was not compiled",
    ]
    assert wheels["read_table"](), "the tree has a table"
