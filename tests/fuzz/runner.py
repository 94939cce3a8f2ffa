"""Trying cases until the time is over, each batch in a process of its own, and keeping count."""

from __future__ import annotations

import gc
import multiprocessing
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from . import distances, graphs, liars, neighbors, perron, products
from .case import Case, Family, Skipped, outcome
from .elsewhere import answer
from .shrink import Trials, attempt, died, shrink

FAMILIES: dict[str, Any] = {
    family.NAME: family for family in (distances, neighbors, graphs, products, perron, liars)
}
# A process is replaced after so many seconds, and given up after so many without a word.
_BATCH_SECONDS = 20.0
_PATIENCE = 120.0
_SHRINK_SECONDS = 10.0


@dataclass
class Finding:
    """A fault: the case that showed it first, and the least one that still does."""

    family: str
    number: int
    message: str
    snippet: str
    times: int = 1


@dataclass
class Tally:
    """What a run did."""

    tried: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take in what another job did."""
        self.tried += other.tried
        self.skipped += other.skipped
        for key, finding in other.findings.items():
            if key in self.findings:
                self.findings[key].times += finding.times
            else:
                self.findings[key] = finding


def case_of(seed: int, family: Family, number: int) -> Case:
    """Draw a case: the same one whatever else is run."""
    key = (seed, zlib.crc32(family.NAME.encode()), number)
    with np.errstate(all="ignore"):
        return family.draw(np.random.default_rng(np.random.SeedSequence(key)))


def turns(families: Sequence[Family], first: int, step: int) -> Iterator[tuple[Family, int]]:
    """Give numbers of each family's cases by turns, so many in a row as its share is."""
    round_ = first
    while True:
        for family in families:
            for i in range(family.SHARE):
                yield family, round_ * family.SHARE + i
        round_ += step


def run(
    seed: int,
    families: Sequence[Family],
    deadline: float,
    say: Callable[[str], None],
    *,
    job: int = 0,
    jobs: int = 1,
) -> Tally:
    """Try cases until the deadline, on the clock of `time.monotonic`; this process computes none.

    A child that is forked from one that has computed finds threads and devices in use.
    """
    gc.collect()
    gc.freeze()  # a child's collections then leave the memory that it shares alone
    tally = Tally()
    waiting = turns(families, job, jobs)
    pending: list[tuple[Family, int]] = []
    while time.monotonic() < deadline:
        while len(pending) < 500:
            pending.append(next(waiting))
        begun = time.monotonic()
        lonely = [turn for turn in pending if getattr(turn[0], "ISOLATED", False)]
        others = [turn for turn in pending if turn not in lonely]
        done = _batch(seed, others, min(deadline, begun + _BATCH_SECONDS), tally, say, deadline)
        # As many of the others' turns, by their share, as have been taken.
        reach = pending.index(others[done]) if done < len(others) else len(pending)
        for family, number in lonely:
            if pending.index((family, number)) >= reach or time.monotonic() >= deadline:
                break
            case = case_of(seed, family, number)
            tally.tried[family.NAME] += 1
            message = attempt(family, case, max(0.1, min(_PATIENCE, deadline - time.monotonic())))
            if message and not _cut_short(message, deadline):
                _found(tally, family, number, case, message, say, deadline)
        pending = pending[reach:]
    return tally


def _cut_short(message: str, deadline: float) -> bool:
    return message.startswith("no answer") and time.monotonic() >= deadline


def _batch(
    seed: int,
    numbers: Sequence[tuple[Family, int]],
    until: float,
    tally: Tally,
    say: Callable[[str], None],
    deadline: float,
) -> int:
    """Try cases in one process until one fails; return how many were done."""
    if not numbers:
        return 0
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(seed, numbers, until, theirs), daemon=True)
    process.start()
    theirs.close()
    done, message = 0, None
    while True:
        wait = max(0.0, min(_PATIENCE, deadline - time.monotonic()))
        if not ours.poll(wait):
            process.kill()
            if time.monotonic() < deadline:
                message = f"no answer after {wait:.0f} s"
            break
        try:
            word, message = ours.recv()
        except EOFError:
            process.join()
            message = died(process.exitcode) if process.exitcode else None
            break
        family = numbers[done][0]
        tally.tried[family.NAME] += 1
        tally.skipped[family.NAME] += word == "skipped"
        done += 1
        if word == "failed":
            break
    process.join()
    if message:
        at = done - 1 if done and word == "failed" else done
        family, number = numbers[at]
        case = case_of(seed, family, number)
        _found(tally, family, number, case, message, say, deadline)
        done = at + 1
    return done


def _work(seed: int, numbers: Sequence[tuple[Family, int]], until: float, pipe: Connection) -> None:
    """Try one case after the other, and say of each how it went; end with the first that fails."""
    for family, number in numbers:
        try:
            message = outcome(family, case_of(seed, family, number))
        except Skipped:
            pipe.send(("skipped", None))
        else:
            pipe.send(("failed", message) if message else ("fine", None))
            if message:
                return
        if time.monotonic() >= until:
            return


def _found(
    tally: Tally,
    family: Family,
    number: int,
    case: Case,
    message: str,
    say: Callable[[str], None],
    deadline: float,
) -> None:
    """Write a finding down, shrunk if there is time; one of each label."""
    key = f"{family.NAME}: {family.label(case)}: {_kind(message)}"
    if key in tally.findings:
        tally.findings[key].times += 1
        return
    say(f"found: {key} (case {number}); shrinking")
    limit = min(deadline, time.monotonic() + _SHRINK_SECONDS)

    trials, said = Trials(family), message

    def fails(candidate: Case) -> bool:
        nonlocal said
        again = trials.attempt(candidate, max(0.1, min(5.0, limit - time.monotonic())))
        if again is None or _kind(again) != _kind(message):
            return False
        said = again
        return True

    small = shrink(family, case, fails, limit)
    trials.close()
    try:
        snippet = answer(lambda: family.program(small).snippet())
    except Skipped:  # it became so small that it is refused: each attempt failed alike
        snippet = answer(lambda: family.program(case).snippet())
    tally.findings[key] = Finding(family.NAME, number, said, snippet)


def _kind(message: str) -> str:
    """Return what stays the same while a case is shrunk."""
    head, _, rest = message.partition(":")
    words = re.sub(r"[\d\[\]]+", "", rest.partition(":")[0])[:24]
    return head if head != "AssertionError" else f"{head}:{words}"
