"""Threads: those that the system refuses, that OpenMP's settings allow, that outlive a fork."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# One call of every operation, large enough for all members; and how many workers there are. The
# calls' results are joined to one digest.
_CALLS = """
import hashlib, os, resource, sys, threading, time, warnings
from pathlib import Path
import numpy as np
import gpudist

warnings.simplefilter("ignore")
rng = np.random.default_rng(5)
x, y, truths = rng.random((300, 40)), rng.random((290, 40)), rng.random((700, 700)) < 0.004
square, turned = rng.random((300, 300)), rng.random((320, 320)).astype("f4")
sparse = np.where(truths, 1.0, 0.0) + np.eye(700, k=1) + np.eye(700, k=-699)
v = np.eye(40) + 0.01
CALLS = {
    "tile": lambda: gpudist.cdist(x, y),
    "thin": lambda: gpudist.cdist(x[:1], np.tile(y, (20, 1))),
    "deep": lambda: gpudist.cdist(square[:60].reshape(1, -1), square[60:180].reshape(2, -1)),
    "sums": lambda: gpudist.cdist(x, y, "canberra"),
    "cosine": lambda: gpudist.cdist(x, y, "cosine"),
    "mahalanobis": lambda: gpudist.cdist(x, y, "mahalanobis", VI=v),
    "bits": lambda: gpudist.cdist(truths, truths, "jaccard"),
    "haversine": lambda: gpudist.cdist(x[:, :2], y[:, :2], "haversine"),
    "pdist": lambda: gpudist.pdist(x),
    "apsp": lambda: gpudist.apsp(square),
    "both ways": lambda: gpudist.apsp(turned, directed=False),
    "predecessors": lambda: np.vstack(gpudist.apsp(square, return_predecessors=True)),
    "minplus": lambda: gpudist.minplus(square, square),
    "closure": lambda: gpudist.transitive_closure(truths),
    "perron": lambda: np.append(*(lambda r: (r.vector, r.value))(gpudist.perron(square))),
    "perron of zeros": lambda: gpudist.perron(sparse, max_iter=50).vector,
}

def digest(call):
    return hashlib.sha256(np.ascontiguousarray(CALLS[call]()).tobytes()).hexdigest()

def workers():
    found = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            found += (task / "comm").read_text().startswith("gpudist")
        except FileNotFoundError:  # a thread that has ended since
            pass
    return found
"""


def run(script, threads, status=0, **env):
    """Run a script after those calls in a process with so many threads; give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", _CALLS + script],
        # On the CPU, where there is a GPU as well.
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (status, ""), done.stderr[-3000:]
    return done.stdout.split("\n")[:-1]


@pytest.fixture(scope="module")
def digests():
    """Give the digest of every call, with one thread."""
    return run("for call in CALLS: print(call, digest(call), sep=':')", 1)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_results_have_the_same_bits_with_any_number_of_threads(digests, threads):
    said = run("for call in CALLS: print(call, digest(call), sep=':')\nprint(workers())", threads)
    assert said == [*digests, str(threads - 1)]


def test_threads_that_the_system_refuses_are_done_without(digests):
    """The stacks of seven threads do not fit what is left of the address space."""
    said = run(
        """
np.ma  # NumPy imports it when it is first asked for
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (7 << 20), resource.RLIM_INFINITY))
print("tile", digest("tile"), sep=":")
assert workers() < 7, workers()
# Once there is room again, there are all of them.
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
time.sleep(1.1)
print("apsp", digest("apsp"), sep=":")
print(workers())
""",
        8,
    )
    wanted = [line for line in digests if line.split(":")[0] in ("tile", "apsp")]
    assert sorted(said) == sorted([*wanted, "7"])


def test_more_threads_than_there_can_be_take_no_memory(digests):
    """Each has a part of a workspace, and a million of them would need some hundred gigabytes."""
    script = "print('sums', digest('sums'), sep=':')\nprint(workers())"
    *said, workers = run(script, 1_000_000)
    assert said == [line for line in digests if line.startswith("sums:")]
    assert int(workers) < 1023


_EXIT = """
began = threading.Event()
def work():
    began.set()
    while True:
        CALL
threading.Thread(target=work, daemon=True).start()
began.wait()
time.sleep(DELAY)
"""
_LONG = {
    "apsp": "gpudist.apsp(np.tile(square, (3, 3)))",
    "minplus": "gpudist.minplus(np.tile(square, (3, 3)), np.tile(square, (3, 3)))",
    "closure": "gpudist.transitive_closure(np.tile(truths, (3, 3)))",
    "perron": "gpudist.perron(np.tile(square, (3, 3)), tol=0)",
    "cdist": "gpudist.cdist(np.tile(square, (3, 3)), np.tile(square, (3, 3)))",
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", _LONG)
def test_the_interpreter_ends_while_a_daemon_thread_calls(name, threads):
    """Python ends the thread where it wants the interpreter's lock, in the midst of a call."""
    for delay in (0.06, 0.1, 0.15):
        script = _EXIT.replace("CALL", _LONG[name]).replace("DELAY", str(delay))
        assert run(script, threads) == []


def test_parent_and_child_of_a_fork_have_workers_of_their_own(digests):
    said = run(
        """
before = digest("tile"), workers()
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
print(workers())
for call in CALLS:
    print(call, digest(call), sep=":")
print(workers(), flush=True)
if child == 0:
    os._exit(0)
""",
        3,
    )
    assert said == ["0", *digests, "2", "2", *digests, "2"]


def test_a_fork_in_the_midst_of_a_call_leaves_two_that_finish_it(digests):
    said = run(
        """
children = []
def fork_once(done, total):
    if not children:
        children.append(os.fork())
big = np.tile(square, (3, 3))
found = hashlib.sha256(gpudist.apsp(big, progress=fork_once).tobytes()).hexdigest()
assert children, "progress was not called"
if children[0] == 0:
    os._exit(found != hashlib.sha256(gpudist.apsp(big).tobytes()).hexdigest())
print(os.waitpid(children[0], 0)[1])
print("apsp", digest("apsp"), sep=":")
""",
        3,
    )
    assert said == ["0", *(line for line in digests if line.startswith("apsp:"))]


def test_limits_of_threadpoolctl_hold():
    pytest.importorskip("threadpoolctl")
    said = run(
        """
from threadpoolctl import threadpool_limits
for limit in (1, 2, None):
    with threadpool_limits(limit, user_api="openmp"):
        for call in CALLS:
            digest(call)
        print(workers())
""",
        4,
    )
    assert said == ["0", "1", "3"]


def test_bound_threads_are_bound_to_different_places():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: all threads are on it")
    said = run(
        """
digest("tile")
here = sorted(os.sched_getaffinity(0))
(worker,) = (
    int(task.name)
    for task in Path("/proc/self/task").iterdir()
    if (task / "comm").read_text().startswith("gpudist")
)
for _ in range(500):  # until it has run for the first time
    if sorted(os.sched_getaffinity(worker)) != here:
        break
    time.sleep(0.01)
print(here, sorted(os.sched_getaffinity(worker)), sep="\\n")
""",
        2,
        OMP_PROC_BIND="true",
        OMP_PLACES="cores",
    )
    assert len(said) == 2 and said[0] != said[1]


def test_workers_leave_signals_to_the_program_and_faults_to_their_handlers():
    """Whoever hires workers hears Ctrl-C afterwards as before."""
    said = run(
        """
def masks():
    for task in sorted(Path("/proc/self/task").iterdir(), key=lambda task: int(task.name)):
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        if int(task.name) == os.getpid() or status["Name"].strip().startswith("gpudist"):
            blocked = int(status["SigBlk"], 16)
            yield [name for name in NAMES if blocked >> (getattr(signal, name) - 1) & 1]
import signal
NAMES = ["SIGINT", "SIGTERM", "SIGCHLD", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"]
digest("tile")
for _ in range(500):  # a thread that has not yet run has all of them blocked
    if not any("SIGSEGV" in names for names in masks()):
        break
    time.sleep(0.01)
print(*masks(), sep="\\n")
""",
        2,
    )
    assert said == ["[]", "['SIGINT', 'SIGTERM', 'SIGCHLD']"]


@pytest.mark.parametrize("settings", [{}, {"OMP_PROC_BIND": "false", "OMP_PLACES": "cores"}])
def test_workers_run_wherever_the_process_may(settings):
    """A thread that is bound to one core hires workers that are not."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: all threads are on it")
    said = run(
        """
cores = os.sched_getaffinity(0)
def call():
    os.sched_setaffinity(threading.get_native_id(), {min(cores)})
    digest("tile")
thread = threading.Thread(target=call)
thread.start()
thread.join()
(worker,) = (
    int(task.name)
    for task in Path("/proc/self/task").iterdir()
    if (task / "comm").read_text().startswith("gpudist")
)
for _ in range(500):  # until it has run for the first time
    if os.sched_getaffinity(worker) == cores:
        break
    time.sleep(0.01)
print(os.sched_getaffinity(worker) == cores)
""",
        2,
        **settings,
    )
    assert said == ["True"]


def test_calls_of_many_threads_at_once_have_the_bits_that_each_has_alone(digests):
    said = run(
        """
from concurrent.futures import ThreadPoolExecutor
calls = list(CALLS) * 4
with ThreadPoolExecutor(8) as pool:
    for call, found in zip(calls, pool.map(digest, calls)):
        print(call, found, sep=":")
print(workers())
""",
        3,
    )
    assert said == [*digests * 4, "2"]


def test_threads_that_copy_hang_on_the_machine_alone():
    """More cores than there may be here are asked about in bus_stress.c."""
    told = "print(gpudist._core.host()['copiers'], gpudist._core.host()['threads'])"
    (one,), (many,) = run(told, 1), run(told, 3)
    assert (one.split()[0], one.split()[1], many.split()[1]) == (many.split()[0], "1", "3")
    command = [
        "import gpudist, os",
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])",
        told,
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(command)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.split()[0] == "1", done.stderr


# What files of the core are put under stress by tests/..._stress.c, and how it is linked.
STRESSED = {
    "team": (["team"], []),
    "bus": (
        [
            *("bus_common", "bus_copy", "bus_crew", "bus_results", "bus_rows", "bus_slots"),
            *("error", "team"),
        ],
        ["-Wl,--wrap=gd_copy_part"],
    ),
}


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("stressed", STRESSED)
def test_they_stand_stress_under_sanitizers(tmp_path, stressed, sanitizer):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    flags = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}"]
    tried = subprocess.run(
        [compiler, *flags, "-x", "c", "-", "-o", tmp_path / "tried"],
        input="int main(void) { return 0; }",
        capture_output=True,
        text=True,
    )
    if tried.returncode or subprocess.run([tmp_path / "tried"], capture_output=True).returncode:
        pytest.skip(f"no programs with -fsanitize={sanitizer} here")
    files, linked = STRESSED[stressed]
    sources = [ROOT / f"tests/{stressed}_stress.c", *(ROOT / f"csrc/{x}.c" for x in files)]
    if not sources[1].is_file():
        pytest.skip("the tests run apart from the source tree")
    built = tmp_path / "stress"
    libraries = ["-fopenmp", "-pthread", *linked]
    command = [compiler, *flags, f"-I{ROOT / 'csrc'}", *sources, "-o", built, *libraries]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [built],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "4",
            "TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0",
            "ASAN_OPTIONS": "detect_leaks=0",  # children of forks lose their parents' stacks
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
