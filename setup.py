"""Builds gpudist._core; what the package is called and needs stands in pyproject.toml.

Sources are found by where they lie, so that a new kernel is a new file and nothing here:

    csrc/*.c            host code, with device_cuda.c or device_none.c, never both
    csrc/py/*.c         the Python boundary, the only code that sees Python's and NumPy's headers
    csrc/cpu/*.c        CPU kernels, compiled once for each instruction set
    csrc/cpu/naive_*.c  plain C that the ladders start from, compiled for the baseline alone
    kernels/**/*.cu     CUDA kernels, by nvcc; NAME_sm90a.cu for sm_90a alone, and
                        NAME_sm100f.cu would be for the family of 10.0. The steps of a ladder are
                        compiled together

Environment:

    GPUDIST_CUDA        auto (default): with CUDA if nvcc is found, or if the package index brings
                        it (_build/gpudist_backend.py); 1: or fail; 0: without
    GPUDIST_CUDA_ARCHS  "90", "native" or "75;80;90+PTX", where +PTX serves GPUs yet to come.
                        "release": all that csrc/generations.def lists, and compressed as well
                        as can be.
                        Default: the GPUs of this machine, else 80;90+PTX
    GPUDIST_WERROR=1    warnings of the C compiler are errors (those of nvcc always are)
    GPUDIST_DEBUG=1     debug information, and source lines for CUDA profilers
    CC, CXX, CUDAHOSTCXX, CUDA_HOME, CUDA_PATH, CFLAGS, CPPFLAGS, LDFLAGS    as usual

A file is compiled again if it, a header it includes or its command has changed."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError, SetupError

sys.path.insert(0, str(Path(__file__).resolve().parent / "_build"))
from gpudist_toolkit import Toolkit, say, texts_of

# The stable ABI has no free-threaded form before Python 3.15; there, a wheel fits one version.
ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")
# -O2 would spare a third of the C compiler's time, and its tiles ran 10 to 25 % slower.
HOST_FLAGS = """-O3 -std=c11 -pthread -fwrapv -fno-math-errno -fno-trapping-math -ffp-contract=off
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -fPIC -fvisibility=hidden -Icsrc""".split()
PYTHON_FLAGS = """-DNPY_TARGET_VERSION=NPY_1_25_API_VERSION
    -DNPY_NO_DEPRECATED_API=NPY_1_25_API_VERSION""".split()
# The level is that of the launchers, on the host; kernels are optimized in full at any.
CUDA_FLAGS = """-O1 -std=c++17 --Werror all-warnings -Xptxas -v
    -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Icsrc -Ikernels""".split()
# What csrc/cpu is compiled for; the registry picks at run time. AArch64's baseline has NEON.
ISAS = {"baseline": []}
if sysconfig.get_platform() == "linux-x86_64":
    ISAS["avx2"] = ["-march=x86-64-v3"]
    ISAS["avx512"] = ["-march=x86-64-v4", "-mprefer-vector-width=512"]


def env_flag(name):
    return os.environ.get(name, "0") not in ("", "0")


def env_words(name, default=""):
    return shlex.split(os.environ.get(name) or default)


# ---------------------------------------------------------------- compiling


class Job:
    """One compiler run. `names` are words for paths that come and go with the build's temporary
    environment: they stand for those paths when the command is compared with the last one, and the
    object does not depend on files below them."""

    def __init__(self, source, target, command, names):
        self.source = source
        self.target = target
        self.names = names
        self.depfile, self.stamp = Path(f"{target}.d"), Path(f"{target}.cmd")
        self.command = [*command, "-MMD", "-MF", str(self.depfile), "-c", str(source)]
        self.command += ["-o", str(target)]
        self.record = shlex.join(names.get(word, word) for word in self.command)

    def fresh(self):
        """The stamp is as old as the start of the compilation that made the object."""
        try:
            if self.stamp.read_text() != self.record or not self.target.exists():
                return False
            rule = self.depfile.read_text().replace("\\\n", " ").partition(":")[2]
            made = self.stamp.stat().st_mtime_ns
            return all(os.stat(path).st_mtime_ns < made for path in shlex.split(rule))
        except OSError:
            return False

    def run(self):
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.unlink(missing_ok=True)
        begun = Path(f"{self.stamp}.new")
        begun.write_text(self.record)
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode(errors="replace")
        Path(f"{self.target}.log").write_text(said)
        serialised = re.search(r"\(C751[0-5]\)", said)
        # What ptxas tells of each kernel is hundreds of lines; what matters in them is spills.
        spills = [int(x) for x in re.findall(r"(\d+) bytes spill stores", said)]
        said = (
            said if serialised else re.sub(r"(?m)^(ptxas info |    \d+ bytes stack ).*\n", "", said)
        )
        if said or done.returncode:
            print(shlex.join(self.command), said, sep="\n", flush=True)
        if done.returncode:
            raise CompileError(f"{self.source}: the compiler failed; its words are above")
        if serialised:
            raise CompileError(f"{self.source}: ptxas serialised wgmma; its words are above")
        if any(spills):
            spilling = sum(map(bool, spills))
            say(f"{self.source}: {spilling} kernels spill, {max(spills)} bytes a thread at most")
        self.forget_temporary_headers()
        begun.rename(self.stamp)

    def forget_temporary_headers(self):
        """Next time they lie elsewhere; the command's record says of which version they are."""
        target, _, headers = self.depfile.read_text().replace("\\\n", " ").partition(":")
        folders = tuple(f"{os.path.realpath(name)}/" for name in self.names)
        lasting = [
            path for path in shlex.split(headers) if not os.path.realpath(path).startswith(folders)
        ]
        self.depfile.write_text(f"{target}: {shlex.join(lasting)}\n")


class BuildExt(build_ext):
    """build_ext for C by the C compiler and CUDA by nvcc, in one pool of threads."""

    def initialize_options(self):
        super().initialize_options()
        self.path_names = {}

    def finalize_options(self):
        super().finalize_options()
        if ABI3:  # what a build for one version of Python compiled serves the next one's as well
            self.build_temp = self.build_temp.replace(sys.implementation.cache_tag, "abi3")

    def run(self):
        super().run()
        if not self.inplace:
            # `python -m gpudist` in this folder finds the sources here before what is installed.
            self.copy_extensions_to_source()

    def build_extension(self, ext):
        self.debug_flags = ["-g"] if env_flag("GPUDIST_DEBUG") else []
        self.toolkit = Toolkit.find()
        if self.toolkit:
            archs = ", ".join(self.toolkit.archs) + (" and PTX" if self.toolkit.ptx else "")
            say(f"CUDA by {self.toolkit.name} ({self.toolkit.nvcc}), compute capability {archs}")
            self.path_names[self.toolkit.nvcc] = self.toolkit.name
            for folder in (self.toolkit.home, *self.toolkit.includes):
                self.path_names[str(folder)] = f"{self.toolkit.name}: {folder.name}"
        say(f"CPU kernels for {', '.join(ISAS)}")

        # The longest first, or those with most to read, so that the pool does not wait for one of
        # them at its end.
        def turn(job):
            return job.source.suffix != ".cu", -sum(map(len, texts_of(job.source))), job.target

        jobs = sorted(self.jobs(), key=turn)
        stale = [job for job in jobs if not job.fresh()]
        # A compiler may need 2 GB.
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        cores = len(os.sched_getaffinity(0))
        threads = int(self.parallel or max(1, min(cores, memory // 2_000_000_000)))
        say(f"{len(jobs)} objects, {len(stale)} to compile, {threads} at a time")
        with ThreadPoolExecutor(threads) as pool:
            try:
                for _ in pool.map(Job.run, stale):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self.link(ext, [str(job.target) for job in jobs])

    def jobs(self):
        device = Path("csrc/device_cuda.c" if self.toolkit else "csrc/device_none.c")
        cc = [*env_words("CC", "cc"), *HOST_FLAGS, *self.debug_flags]
        cc += ["-Werror"] if env_flag("GPUDIST_WERROR") else []
        user = env_words("CPPFLAGS") + env_words("CFLAGS")
        for source in Path("csrc").glob("*.c"):
            if source == device:
                yield self.job(source, [*cc, *self.toolkit_flags(), *user])
            elif source.name not in ("device_cuda.c", "device_none.c"):
                yield self.job(source, [*cc, *user])
        for source in Path("csrc/py").glob("*.c"):
            yield self.job(source, [*cc, *self.python_flags(), *user])
        for source in Path("csrc/cpu").glob("*.c"):
            plain = source.name.startswith("naive_")
            for isa, flags in {"baseline": []}.items() if plain else ISAS.items():
                yield self.job(source, [*cc, *flags, *user], f".{isa}")
        for source, target in self.cuda_sources() if self.toolkit else ():
            if archs := self.toolkit.arch_flags(source):
                target = Path(self.build_temp, target)
                yield Job(source, target, [*self.nvcc_command(), *archs], self.path_names)

    def job(self, source, command, isa=""):
        target = Path(self.build_temp, source.with_suffix(isa + ".o"))
        return Job(source, target, command, self.path_names)

    def cuda_sources(self):
        """Yield what nvcc compiles, and the objects' places below the build's folder."""
        ladders = Path("kernels/ladders")
        for source in Path("kernels").rglob("*.cu"):
            if ladders not in source.parents:
                yield source, source.with_suffix(".o")
        for folder in filter(Path.is_dir, ladders.iterdir()):
            yield self.ladder(folder), folder.with_suffix(".o")

    def ladder(self, folder):
        """Write a file of all steps of a ladder, which alone would each read CUDA's headers: five
        sixths of their time. Headers come first, as each step has a namespace for its own names,
        or shares those of gd."""
        steps = {step: step.read_text(encoding="utf-8") for step in sorted(folder.glob("*.cu"))}
        headers = re.findall(r"^#include .+$", "\n".join(steps.values()), re.MULTILINE)
        lines = list(dict.fromkeys(headers))
        for number, (step, text) in enumerate(steps.items()):
            include = f'#include "{step.relative_to("kernels")}"'
            shared = re.search("^namespace gd {", text, re.MULTILINE)
            lines += [include] if shared else [f"namespace step_{number} {{", include, "}"]
        whole = "\n".join([*lines, ""])
        source = Path(self.build_temp, folder.with_suffix(".cu"))
        if not source.exists() or source.read_text(encoding="utf-8") != whole:
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(whole, encoding="utf-8")
        return source

    def python_flags(self):
        import numpy  # here, because metadata is made without it

        if int(numpy.__version__.partition(".")[0]) < 2:
            raise SetupError("the headers of NumPy 2 are needed to build (any 1.26 or 2 to run)")
        flags = [*PYTHON_FLAGS, *(["-DPy_LIMITED_API=0x030b0000"] if ABI3 else [])]
        include = numpy.get_include()
        self.path_names[include] = f"numpy-{numpy.__version__}"
        paths = sysconfig.get_paths()
        for path in dict.fromkeys([include, paths["include"], paths["platinclude"]]):
            flags += ["-isystem", path]
        return flags

    def toolkit_flags(self):
        if not self.toolkit:
            return []
        include, _ = self.toolkit.includes
        return ["-isystem", str(include), f'-DGD_CUDA_TARGETS="{self.toolkit.targets}"']

    def nvcc_command(self):
        command = [self.toolkit.nvcc, *CUDA_FLAGS, *self.toolkit.flags]
        command += ["-I", str(self.toolkit.includes[1])]
        command += ["-ccbin", ccbin] if (ccbin := os.environ.get("CUDAHOSTCXX")) else []
        return command + (["-lineinfo", "-Xcompiler", "-g"] if self.debug_flags else [])

    def link(self, ext, objects):
        """Links with the C++ driver if there is CUDA: nvcc's launch stubs need its run time.
        The CUDA run time goes in, and libcuda is left for it to open, so that the module can be
        imported where there is no driver. Only the init function is visible from outside."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        exports = Path(self.build_temp, "exports.map")
        exports.write_text(f"{{ global: PyInit_{ext.name.rpartition('.')[2]}; local: *; }};\n")
        command = env_words("CXX", "c++") if self.toolkit else env_words("CC", "cc")
        command += ["-shared", "-fopenmp", "-Wl,--as-needed", f"-Wl,--version-script={exports}"]
        command += [*self.debug_flags, *objects]
        if self.toolkit:
            command += [self.toolkit.static_runtime(), "-lrt"]
        command += ["-ldl", "-lpthread", "-lm", *env_words("LDFLAGS"), "-o", str(target)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise LinkError(f"cannot link {target}: {error}") from error
        say(f"linked {target}, {target.stat().st_size / 1e6:.1f} MB")


sources = [*Path("csrc").rglob("*.c"), *Path("kernels").rglob("*.cu")]
setup(
    ext_modules=[Extension("gpudist._core", sorted(map(str, sources)), py_limited_api=ABI3)],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
