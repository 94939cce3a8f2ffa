"""The command line: ``python -m tests.fuzz``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import secrets
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

_BEGUN = time.monotonic()

# Where sources that are not built lie beside this folder, the installed package is meant.
_ROOT = Path(__file__).resolve().parents[2]
if not list(_ROOT.glob("gpudist/_core*.so")):
    sys.path = [place for place in sys.path if Path(place or ".").resolve() != _ROOT]

from . import runner  # noqa: E402
from .case import Family, Skipped  # noqa: E402
from .shrink import attempt  # noqa: E402


def main() -> int:
    """Fuzz, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, help="what is drawn; by default it is new each time")
    parser.add_argument(
        "--family",
        action="append",
        choices=list(runner.FAMILIES),
        help="only this; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default 1)")
    parser.add_argument("--case", type=int, help="only the case of this number, of one family")
    given = parser.parse_args()
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    families = [runner.FAMILIES[name] for name in given.family or runner.FAMILIES]
    deadline = _BEGUN + 60 * given.minutes
    if given.case is not None:
        if len(families) != 1:
            parser.error("--case needs the --family that it is of")
        return _one(seed, families[0], given.case)
    print(f"seed {seed}", flush=True)
    for name in sorted({name for family in families for name in family.IMPORTS}):  # once for all
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    tally = _all(seed, families, deadline, max(1, given.jobs))
    _report(seed, tally)
    return 1 if tally.findings else 0


def _one(seed: int, family: Family, number: int) -> int:
    case = runner.case_of(seed, family, number)
    try:
        program = family.program(case)
    except Skipped as why:
        print(f"nothing is promised there: {why}")
        return 0
    message = attempt(family, case)
    print(program.snippet())
    print(f"# {message or 'nothing is wrong with it'}")
    return 1 if message else 0


def _all(seed: int, families: list[Family], deadline: float, jobs: int) -> runner.Tally:
    def say(line: str) -> None:
        print(line, flush=True)

    if jobs == 1:
        return runner.run(seed, families, deadline, say)
    context = multiprocessing.get_context("fork")
    pipes, processes = [], []

    def work(job: int, pipe: Connection) -> None:
        pipe.send(runner.run(seed, families, deadline, say, job=job, jobs=jobs))

    for job in range(jobs):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(job, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
        theirs.close()
    tally = runner.Tally()
    for pipe, process in zip(pipes, processes, strict=True):
        tally.add(pipe.recv())
        process.join()
    return tally


def _report(seed: int, tally: runner.Tally) -> None:
    for key, finding in tally.findings.items():
        print(f"\n==== {key}")
        print(f"# {finding.times} x; python -m tests.fuzz --seed {seed} --family {finding.family} "
              f"--case {finding.number}")  # fmt: skip
        print(f"# {finding.message}")
        print(finding.snippet)
    print(f"\n{'family':12}{'cases':>10}{'skipped':>10}{'findings':>10}")
    for name in runner.FAMILIES:
        if tally.tried[name]:
            found = sum(finding.family == name for finding in tally.findings.values())
            print(f"{name:12}{tally.tried[name]:10}{tally.skipped[name]:10}{found:10}")
    print(f"{len(tally.findings)} findings with seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
