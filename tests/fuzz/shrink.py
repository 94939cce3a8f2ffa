"""Making a failing case small: shorter axes, plainer options, fewer digits, while it fails.

Each attempt runs in a process of its own, so a crash is a failure like any other.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from .case import Array, Case, Family, Skipped, outcome

_PATIENCE = 30.0


class Trials:
    """A process in which cases run: another one after each that fails, whatever it left behind."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def attempt(self, case: Case, patience: float = _PATIENCE) -> str | None:
        """Return what goes wrong with a case; None if nothing does, or nothing is promised."""
        if self._pipe is None or self._process is None:
            context = multiprocessing.get_context("fork")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(self._family, theirs), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send(case)
        if not self._pipe.poll(patience):
            self.close()
            return f"no answer after {patience:.0f} s"
        try:
            found: str | None = self._pipe.recv()
        except EOFError:
            self._process.join()
            found = died(self._process.exitcode)
        if found is not None:
            self.close()
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None


def attempt(family: Family, case: Case, patience: float = _PATIENCE) -> str | None:
    """Return what goes wrong when a case runs in a process of its own; None if nothing does."""
    trials = Trials(family)
    try:
        return trials.attempt(case, patience)
    finally:
        trials.close()


def died(status: int | None) -> str:
    """Put into words how a process ended that said nothing."""
    if status is not None and status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    return f"the process ended with status {status}"


def _serve(family: Family, pipe: Connection) -> None:
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(outcome(family, case))
        except Skipped:
            pipe.send(None)


def shrink(family: Family, case: Case, fails: Callable[[Case], bool], deadline: float) -> Case:
    """Return the smallest case found by the deadline that still fails."""
    improved = True
    while improved and time.monotonic() < deadline:
        improved = False
        for step in (_shorter, family.simpler, _plainer):
            again = True
            while again and time.monotonic() < deadline:
                again = False
                for candidate in step(case):
                    if time.monotonic() >= deadline:
                        break
                    if fails(candidate):
                        case, again, improved = candidate, True, True
                        break
    return case


def _shorter(case: Case) -> Iterator[Case]:
    """Take out halves, quarters, ... of each axis."""
    names = {axis for name, axes in case.axes.items() if name in case.arrays for axis in axes}
    for axis in sorted(names - {""}):
        size = case.size(axis)
        chunk = size
        while chunk:
            for start in range(0, size, chunk):
                yield _without(case, axis, np.arange(start, min(start + chunk, size)))
            chunk //= 2


def _without(case: Case, axis: str, places: Array) -> Case:
    arrays = {}
    for name, x in case.arrays.items():
        for i, other in enumerate(case.axes.get(name, ())):
            if other == axis:
                x = np.delete(x, places, axis=i)
        arrays[name] = np.ascontiguousarray(x)
    return case.holding(**arrays)


def _plainer(case: Case) -> Iterator[Case]:
    """Put plainer numbers in place of all, of a row's, or of single ones."""
    for name, x in case.arrays.items():
        if x.dtype.kind not in "fiu" or x.size == 0:
            continue
        regions: list[Any] = [(...,)]
        if x.size > 1:
            regions += [(i,) for i in range(len(x))]
        if x.ndim > 1 and x.size <= 256:
            regions += [tuple(map(int, i)) for i in np.argwhere(np.ones(x.shape))]
        for region in regions:
            for plain in _alternatives(x[region]):
                y = x.copy()
                y[region] = plain
                if _digits(y) < _digits(x):
                    yield case.holding(**{name: y})


def _alternatives(x: Array) -> Iterator[object]:
    yield 0
    yield 1
    if x.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        yield np.rint(x)
        size = np.floor(np.log10(np.where((x == 0) | ~np.isfinite(x), 1, np.abs(x))))
        for digits in (0, 1, 2, 4):
            unit = 10.0 ** (size - digits)
            rounded = np.rint(x / unit) * unit
            yield np.where(np.isfinite(rounded), rounded, x).astype(x.dtype)


def _digits(x: Array) -> int:
    """Count the characters that it takes to write an array down."""
    return sum(len(repr(v).removesuffix(".0")) + (v not in (0, 1)) for v in x.ravel().tolist())
