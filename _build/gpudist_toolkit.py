"""The CUDA toolkit that a build uses, and what it is to build for.

setup.py asks here, and the build backend, which finds out before whether the package index has to
bring a toolkit. Nothing here starts the driver's work on a GPU: asking creates no context.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools.errors import SetupError

ROOT = Path(__file__).resolve().parents[1]
USUAL_HOME = Path("/usr/local/cuda")
# Where `#include "..."` looks.
FOLDERS = ROOT / "kernels", ROOT / "csrc"
# What the index has of the toolkit, and needs no more than a driver for CUDA 13.0.
REQUIREMENT = "cuda-toolkit[nvcc,cudart,cccl]==13.3.*"
OLDEST_DRIVER = (13, 0)
OLDEST_TOOLKIT = (12, 8)
OLDEST_CAPABILITY = 75
# Compilers from the first to before the second can generate wrong code where branches on which
# threads of a warp differ lie in each other (release notes of CUDA 13.2 Update 2 and 13.3).
FAULTY = (12, 8, 0), (13, 2, 86)


def say(text):
    """Tell the user something; pip shows it with -v."""
    print(f"gpudist: {text}", flush=True)


def output_of(*command):
    """Return what a command prints on either stream, or None if it cannot run or fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def wanted():
    """Return what GPUDIST_CUDA says: auto, 0 or 1."""
    text = os.environ.get("GPUDIST_CUDA") or "auto"
    if text not in ("auto", "0", "1"):
        raise SetupError(f"GPUDIST_CUDA is {text!r}; it can be auto, 0 or 1")
    return text


def find_nvcc():
    """Return the path of nvcc, or None: the system's first, then one that the index brought."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    found = [Path(home, "bin/nvcc") for home in homes if home]
    found += [Path(on_path)] if (on_path := shutil.which("nvcc")) else []
    found += [USUAL_HOME / "bin/nvcc"]
    found += [Path(folder, "nvidia/cu13/bin/nvcc") for folder in sys.path]
    return next((str(path) for path in found if os.access(path, os.X_OK)), None)


def ask_driver():
    """Return the CUDA version that the driver supports, and the capabilities of its GPUs.

    None and nothing where there is no driver; a capability is 10 * major + minor.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        number, count = ctypes.c_int(), ctypes.c_int()
        if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
            return None, []
        version = number.value // 1000, number.value % 1000 // 10
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return version, []
        found = set()
        for ordinal in range(count.value):
            device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            # 75 and 76 are CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
            if (
                driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0
                and driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device) == 0
                and driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device) == 0
            ):
                found.add(10 * major.value + minor.value)
    except (OSError, AttributeError):  # no such library, or one that is something else
        return None, []
    return version, sorted(cap for cap in found if cap >= OLDEST_CAPABILITY)


def why_no_index():
    """Return why the index is not asked for a toolkit, or None if it is."""
    cuda = wanted()
    if cuda == "0":
        return "GPUDIST_CUDA=0 leaves the GPU kernels out"
    if nvcc := find_nvcc():
        return f"{nvcc} is there"
    if cuda == "1":
        return None
    version, capabilities = ask_driver()
    if version is None:
        return "there is no nvcc, and no NVIDIA driver"
    if not capabilities:
        return "there is no nvcc, and the NVIDIA driver shows no GPU to use"
    if version < OLDEST_DRIVER:
        return "there is no nvcc, and the NVIDIA driver supports CUDA {}.{}; ".format(
            *version
        ) + "with {}.{} the package index would bring a compiler".format(*OLDEST_DRIVER)
    return None


def release_archs():
    """Return what release builds are for, as csrc/generations.def lists it."""
    rows = (ROOT / "csrc" / "generations.def").read_text(encoding="utf-8")
    targets = re.findall(r'^GD_GENERATION\(\w+, "[\d.]+", \d+, "(\w+)"', rows, re.MULTILINE)
    return ";".join(targets) + "+PTX"


def texts_of(source, folders=FOLDERS):
    """Yield the texts of a file and of all of ours that it includes."""
    seen, left = set(), [Path(source)]
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        yield text
        for name in re.findall(r'^\s*#\s*include "(.+)"', text, re.MULTILINE):
            places = (path.parent, *folders)
            left += [folder / name for folder in places if (folder / name).exists()][:1]


def bounds_of(source, folders=FOLDERS):
    """Return the values of __CUDA_ARCH__ at which a .cu file or what it includes of ours changes."""
    bounds = set()
    for text in texts_of(source, folders):
        bounds |= set(map(int, re.findall(r"__CUDA_ARCH__\s*(?:>=|<)\s*(\d+)", text)))
    return sorted(bounds)


class Toolkit:
    """A CUDA toolkit: nvcc, the folder it belongs to, and the architectures to build for."""

    def __init__(self, nvcc):
        self.nvcc = nvcc
        # nvcc may be a wrapper or a link; what it says of itself is right in every case.
        said = output_of(nvcc, "--dryrun", "-x", "cu", "-c", os.devnull) or ""
        top = re.search(r"^#\$ TOP=(.+)$", said, re.MULTILINE)
        release = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", output_of(nvcc, "--version") or "")
        if not top or not release:
            raise SetupError(f"{nvcc} does not work")
        self.version = tuple(map(int, release.groups()))
        self.name = "nvcc {}.{}.{}".format(*self.version)
        if self.version[:2] < OLDEST_TOOLKIT:
            raise SetupError(
                f"{nvcc} is of CUDA {{}}.{{}}; {{}}.{{}} is the oldest to do".format(
                    *self.version[:2], *OLDEST_TOOLKIT
                )
            )
        self.home = Path(top[1]).resolve()
        self.includes = self.home / "include", self.home / "include/cccl"
        self.archs, self.ptx, self.release = [], False, False

    @classmethod
    def find(cls):
        """Return the toolkit that GPUDIST_CUDA allows, or None for a CPU-only build."""
        cuda = wanted()
        if cuda == "0":
            say("CPU only, as GPUDIST_CUDA=0 says")
            return None
        try:
            nvcc = find_nvcc()
            if nvcc is None:
                missing = f"no nvcc in CUDA_HOME, CUDA_PATH, PATH or {USUAL_HOME}"
                if why_no_index() is None:  # and yet nothing came from there
                    missing += (
                        "; the package index has one, of which nothing is installed without build "
                        f'isolation: install "{REQUIREMENT}" before'
                    )
                raise SetupError(missing)
            toolkit = cls(nvcc)
        except SetupError as why:
            return cls.without(cuda, why)
        archs = os.environ.get("GPUDIST_CUDA_ARCHS", "")
        toolkit.archs, toolkit.ptx = cls.parse_archs(archs)
        toolkit.release = archs == "release"
        if fault := toolkit.fault():
            if "75" in toolkit.archs:
                return cls.without(cuda, toolkit.broken())
            say(fault)
        return toolkit

    @staticmethod
    def without(cuda, why):
        """Say why there will be no GPU kernels, which is an error where they were asked for."""
        if cuda == "1":
            raise why
        say(f"CPU only: {why}")
        return None

    def broken(self):
        """Return the error of a compiler with the fault that is to make code for 7.5."""
        return SetupError(
            f"{self.name} compiles the search for neighbours in boxes wrongly for compute "
            f'capability 7.5. CUDA 13.2.2 or newer does not; "{REQUIREMENT}" on the package '
            "index is one"
        )

    def fault(self):
        """Return what is wrong with the compiler, in words, or None."""
        if not FAULTY[0] <= self.version < FAULTY[1]:
            return None
        return (
            f"WARNING: {self.name} has a fault that can make GPU kernels compute wrong results "
            "(CUDA 12.8 to 13.2.1 compile some branches inside of branches wrongly). Of gpudist that "
            "is known of one kernel for compute capability 7.5, which is refused. Compile by CUDA "
            f'13.2.2 or newer where you can; "{REQUIREMENT}" on the package index is one'
        )

    @staticmethod
    def parse_archs(text):
        """'80;90+PTX' -> (['80', '90'], True)."""
        if text in ("", "native"):
            _, capabilities = ask_driver()
            if capabilities:
                return list(map(str, capabilities)), False
            if text == "native":
                raise SetupError("GPUDIST_CUDA_ARCHS=native, but the driver shows no GPU to use")
            text = "80;90+PTX"
        if text == "release":
            text = release_archs()
        if not re.fullmatch(r"\d+[af]?(;\d+[af]?)*(\+PTX)?", text):
            raise SetupError(
                f"GPUDIST_CUDA_ARCHS is {text!r}; expected native, release or the like of "
                "'80;90+PTX'"
            )
        return text.removesuffix("+PTX").split(";"), text.endswith("+PTX")

    @property
    def targets(self):
        """What is built for, as GPUDIST_CUDA_ARCHS says it."""
        return ";".join(self.archs) + ("+PTX" if self.ptx else "")

    @property
    def flags(self):
        """Return what nvcc is told whatever the file.

        A release is compressed as well as can be; that takes a tenth of a build's time. Kernels
        that came from PTX of older devices cannot wait for the one before them.
        """
        flags = ["--compress-mode=size"] if self.release else []
        if self.ptx and int(self.archs[-1].rstrip("af")) < 90:
            flags += ["-DGD_PTX_BELOW_90"]
        return flags

    def arch_flags(self, source):
        """Return the -gencode flags of a .cu file; none if it is for an architecture left out."""
        own = re.search(r"_sm(\d+)([af])\.cu$", source.name)
        if own:
            number, kind = own.groups()
            # 10.0 and 10.3 are of the family 10.0f.
            same = {arch for arch in self.archs if arch.rstrip("af") == number}
            if kind == "f":
                same |= {arch for arch in self.archs if arch.rstrip("af")[:-1] == number[:-1]}
            target = number + kind
            return [f"-gencode=arch=compute_{target},code=sm_{target}"] if same else []
        flags = []
        for alike in self.alike(source):
            machine = ",".join(f"sm_{arch}" for arch in alike)
            machine = f"[{machine}]" if len(alike) > 1 else machine
            flags.append(f"-gencode=arch=compute_{alike[0]},code={machine}")
        if self.ptx:  # that of a family would be for no other
            last = alike[0].rstrip("af")
            flags.append(f"-gencode=arch=compute_{last},code=compute_{last}")
        return flags

    def alike(self, source):
        """Return the architectures in groups for which a .cu file is the same text.

        nvcc's front end, which takes three quarters of the time, then runs once for a group, for
        the first of it. From 8.0 to 9.0 that gives the same machine code, function by function.
        """
        bounds = bounds_of(source)
        groups = {}
        for arch in self.archs:
            passed = tuple(bound for bound in bounds if int(arch.rstrip("af")) * 10 >= bound)
            alone = None if arch in ("80", "86", "89", "90") else arch
            groups.setdefault((passed, alone), []).append(arch)
        return list(groups.values())

    def static_runtime(self):
        """Return the path of the CUDA run time that is linked in."""
        for folder in ("lib64", "lib"):
            if (path := self.home / folder / "libcudart_static.a").exists():
                return str(path)
        raise SetupError(f"no libcudart_static.a in {self.home}")
