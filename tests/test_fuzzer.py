"""The fuzzer finds what is planted, makes it small, and shows it in a program that runs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fuzz import distances, graphs, liars, neighbors, perron, products, runner
from fuzz.case import Case, Program, Skipped, literal, outcome
from fuzz.shrink import attempt, shrink

import gpudist

ROOT = Path(__file__).resolve().parents[1]
# A planted fault, which the programs of cases find at the head of their text.
PLANTED = """
import gpudist

honest = gpudist.{op}

def spoilt(*args, **kwargs):
    result = honest(*args, **kwargs)
    {spoil}
    return result

gpudist.{op} = spoilt
"""
WRONG_COLUMN = """if result.ndim == 2 and result.shape[1] > 4 and len(result):
        result[:, 4] = np.nextafter(result[:, 4], np.inf)"""
WRONG_PATH = """if isinstance(result, tuple) and len(result[0]) > 3:
        before = result[1]
        before[0, before[0] > 0] = 0"""
WRONG_TIE = """same = result.distances[:, 1:] == result.distances[:, :-1]
    result.indices[:, :-1] += same & (result.indices[:, :-1] < result.indices[:, 1:])"""
WRONG_PRODUCT = "result += result > 1"


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    """What is drawn does not depend on whether there is a GPU."""
    kernels = {id: row for id, row in distances._kernels().items() if row.backend == "cpu"}
    monkeypatch.setattr(distances, "_kernels", lambda: kernels)
    monkeypatch.setattr(distances, "_on_gpu", lambda: False)
    monkeypatch.setattr(gpudist.cuda, "is_available", lambda: False)


class Spoilt:
    """A family whose programs begin with a fault, and go on as those of another."""

    SHARE = 1

    def __init__(self, family, op, spoil):
        self.NAME, self._family = family.NAME, family
        self._fault = PLANTED.format(op=op, spoil=spoil)
        self.draw, self.label = family.draw, family.label
        self.simpler = family.simpler

    def program(self, case):
        sound = self._family.program(case)
        return Program(
            self._fault + "try:\n"
            + "".join(f"    {line}\n" for line in sound.body.splitlines())
            + f"finally:\n    gpudist.{self._fault.split('gpudist.')[1].split()[0]} = honest\n",
            sound.data,
        )  # fmt: skip


def ran(script):
    """Run a snippet with the package that is under test."""
    env = os.environ | {"PYTHONPATH": str(Path(gpudist.__file__).parents[1])}
    return subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)


def tried(family, relation, seeds=400):
    """Give a family's cases of a relation, with what goes wrong in them."""
    for number in range(seeds):
        case = runner.case_of(7, family, number)
        if case.relation != relation or case.options.get("kernel", "auto") != "auto":
            continue
        try:
            yield case, outcome(family, case)
        except Skipped:
            continue


@pytest.mark.parametrize(
    ("family", "op", "spoil", "relation", "axes"),
    [
        pytest.param(
            distances,
            "cdist",
            WRONG_COLUMN,
            "place",
            {"m": 1, "n": 17, "d": 2},
            marks=pytest.mark.exhaustive,
        ),
        (neighbors, "knn", WRONG_TIE, "knn", {"m": 2, "n": 3, "d": 1}),
        (graphs, "apsp", WRONG_PATH, "paths", {"n": 4}),
        pytest.param(
            products,
            "minplus",
            WRONG_PRODUCT,
            "product",
            {"m": 1, "n": 1, "k": 1},
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["a wrong bit in a column", "a wrong tie", "a wrong path", "a wrong product"],
)
def test_a_planted_fault_is_found_and_made_small(family, op, spoil, relation, axes, tmp_path):
    spoilt = Spoilt(family, op, spoil)
    case, _ = next(found for found in tried(spoilt, relation) if found[1])
    small = shrink(spoilt, case, lambda x: attempt(spoilt, x) is not None, time.monotonic() + 200)
    assert outcome(spoilt, small) is not None
    assert {axis: small.size(axis) <= most for axis, most in axes.items()} == dict.fromkeys(
        axes, True
    ), {axis: small.size(axis) for axis in axes}
    script = tmp_path / "snippet.py"
    script.write_text(spoilt.program(small).snippet())
    done = ran(script)
    assert done.returncode == 1 and "AssertionError" in done.stderr, done.stderr
    # Without the fault, the case has nothing to say.
    script.write_text(family.program(small).snippet())
    done = ran(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("family", "relation"),
    [(graphs, "paths"), (graphs, "closure"), (products, "product"), (distances, "threads"),
     (distances, "slices")],
    ids=lambda x: getattr(x, "NAME", x),
)  # fmt: skip
def test_sound_results_are_no_findings(family, relation):
    seeds = 40 if family is graphs else 120
    results = [message for _, message in tried(family, relation, seeds)]
    assert results and not any(results), results


def test_perron_bounds_that_miss_the_root_are_found():
    case = next(
        case
        for case in (runner.case_of(7, perron, number) for number in range(50))
        if case.options["kernel"] == "auto" and "BELOW" not in perron.program(case).body
        and "found.lower" in perron.program(case).body
    )  # fmt: skip
    sound = perron.program(case)
    assert outcome(perron, case) is None
    above = "found = dataclasses.replace(found, lower=found.upper * 1.01, upper=found.upper * 1.02)"
    check = "assert found.lower <= found.value <= found.upper, found"
    spoilt = "import dataclasses\n" + sound.body.replace(check, above)
    with pytest.raises(AssertionError, match="above the root"):
        Program(spoilt, sound.data).run()


def test_a_crash_is_a_finding():
    class Crashing:
        NAME, SHARE = "crashing", 1

        def program(self, case):
            return Program(
                "import faulthandler, os, signal\n"
                "faulthandler.disable()\n"
                "os.kill(os.getpid(), signal.SIGSEGV)",
                {},
            )

    case = Case("crashing", "any", {}, {}, {})
    assert attempt(Crashing(), case) == "the process died of SIGSEGV"


def test_what_does_not_end_is_a_finding():
    class Endless:
        NAME, SHARE = "endless", 1

        def program(self, case):
            return Program("while True: pass", {})

    assert attempt(Endless(), Case("endless", "any", {}, {}, {}), 0.2).startswith("no answer")


def test_a_batch_goes_on_after_a_finding_and_a_crash(monkeypatch):
    class Mixed:
        NAME, SHARE = "mixed", 1

        def draw(self, rng):
            return Case("mixed", "any", {}, {}, {"way": int(rng.integers(4))})

        def program(self, case):
            if case.options["way"] == 3:
                raise Skipped("not this one")
            texts = "pass", "assert False, 'planted'", "import os; os.kill(os.getpid(), 9)"
            return Program(texts[case.options["way"]], {})

        def simpler(self, case):
            return iter(())

        def label(self, case):
            return "mixed"

    for seconds in (4, 60):  # the latter on a machine that has much else to do
        tally = runner.run(3, [Mixed()], time.monotonic() + seconds, lambda line: None)
        if all(finding.times > 1 for finding in tally.findings.values()):
            break
    assert {finding.message for finding in tally.findings.values()} == {
        "AssertionError: planted", "the process died of SIGKILL",
    }  # fmt: skip
    assert all(finding.times > 1 for finding in tally.findings.values())
    assert tally.tried["mixed"] > 5 and tally.skipped["mixed"] > 0


@pytest.mark.parametrize("family", runner.FAMILIES.values(), ids=lambda family: family.NAME)
def test_a_case_is_drawn_from_its_seed_and_number_alone(family):
    for number in range(20):
        one, other = (runner.case_of(5, family, number) for _ in range(2))
        assert repr(one) == repr(other)
    texts = {repr(runner.case_of(seed, family, 3)) for seed in range(20)}
    assert len(texts) > 10


def test_jobs_share_all_numbers_out():
    class Alone:
        NAME, SHARE = "alone", 3

    parts = [runner.turns([Alone()], job, 2) for job in range(2)]
    numbers = [next(part)[1] for _ in range(6) for part in parts]
    assert sorted(numbers) == list(range(12))


def test_what_the_tables_have_is_drawn():
    cases = [runner.case_of(1, distances, number) for number in range(1200)]
    assert {case.options["metric"] for case in cases} == {m.name for m in gpudist.metrics.METRICS}
    drawn = {case.options["kernel"] for case in cases} - {"auto"}
    able = {
        k.id
        for k in gpudist.kernels("cdist")
        if k.why_not is None and not k.teaching and k.backend == "cpu"
    }
    assert drawn == able
    cases = [runner.case_of(1, graphs, number) for number in range(800)]
    assert {case.options["form"] for case in cases} == set(graphs.FORMS)
    assert len(graphs.FORMS) >= 28


@pytest.mark.parametrize(
    "value",
    [np.array([[np.nan, -0.0], [5e-324, np.inf]]), np.zeros((0, 3), "f4"), np.arange(1000.0),
     np.array([0.1], "longdouble"), np.array([True]), 3, np.float32([0.1]),
     np.arange(3, dtype="u8")],
    ids=lambda x: str(getattr(x, "dtype", type(x))),
)  # fmt: skip
def test_literals_have_every_bit(value):
    again = eval(literal(value), {"np": np, "nan": np.nan, "inf": np.inf})
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype and again.shape == value.shape
        assert again.tobytes() == value.tobytes()
    else:
        assert again == value


def test_liars_are_told_from_the_truth():
    cases = [runner.case_of(1, liars, number) for number in range(400)]
    honest = [case for case in cases if case.relation == "honest"]
    assert honest and all(outcome(liars, case) is None for case in honest)
    assert {"dlpack", "cuda interface", "array interface", "array"} <= {c.relation for c in cases}


def test_the_command_prints_its_seed_and_counts_and_ends_in_time():
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--minutes", "0.2", "--family", "products"],
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert time.monotonic() - begun < 40
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    seed = first.removeprefix("seed ")
    assert seed.isdigit() and last == f"0 findings with seed {seed}"
    counted = next(line.split() for line in done.stdout.splitlines() if line.startswith("products"))
    assert int(counted[1]) > 10 and counted[3] == "0"


def test_one_case_can_be_had_again():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--seed", "4", "--family", "products", "--case", "9"],
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (
        runner.FAMILIES["products"].program(runner.case_of(4, products, 9)).snippet() in done.stdout
    )
    assert "nothing is wrong with it" in done.stdout
