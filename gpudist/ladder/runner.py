"""Runs the steps of a ladder, each against exact results first, then against the clock."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.ladder.problems import Problem
from gpudist.ladder.studies import Study
from gpudist.measure import records
from gpudist.measure.ceilings import Ceiling, measure_ceilings
from gpudist.measure.devices import DeviceArrays, device_arrays
from gpudist.measure.errors import max_relative_error
from gpudist.measure.rivals import Rival, Task, rivals_for
from gpudist.measure.timing import Clock, EventClock, HostClock, Timing, time_call
from gpudist.registry import Kernels

Array = npt.NDArray[Any]
Record = dict[str, Any]

# Seconds that the samples of one step, of one rival and of one point of a sweep may take together.
_STEP_BUDGET = 2.5
_RIVAL_BUDGET = 1.5
_SWEEP_BUDGET = 0.2
_SWEEP_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel with the options it is run with.

    Parameters
    ----------
    kernel : Kernel
        The row of the table.
    options : mapping
        Values that differ from the standard ones.
    """

    kernel: gpudist.Kernel
    options: Mapping[str, int]

    @property
    def name(self) -> str:
        """The kernel's id, and the options."""
        words = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([self.kernel.id, *words])


def steps_of(study: Study) -> Kernels:
    """List the rows of a ladder, the plain loop on the CPU first.

    Parameters
    ----------
    study : Study
        The study.

    Returns
    -------
    Kernels
        Sorted by step; empty where this build has none. A notebook shows them as a table.
    """
    rows = [row for row in gpudist.kernels() if row.ladder == study.name]
    return Kernels(sorted(rows, key=lambda row: row.step))


def has_production(op: str) -> bool:
    """Tell whether ``auto`` can take a kernel for an operation.

    Parameters
    ----------
    op : str
        As the kernel table names it.

    Returns
    -------
    bool
        False where all its rows are steps of ladders.
    """
    return any(not row.teaching for row in gpudist.kernels(op))


def runs_of(study: Study, kernel: gpudist.Kernel) -> list[Run]:
    """List the ways in which a step is run: one, but for a step made of parts.

    Parameters
    ----------
    study : Study
        The study.
    kernel : Kernel
        One of its steps.

    Returns
    -------
    list of Run
        The standard options first, then every other version of each part.
    """
    runs = [Run(kernel, {})]
    for option in kernel.options:
        for value in range(option.least, option.most + 1, option.step):
            if option.name in study.versions and value != option.standard:
                runs.append(Run(kernel, {option.name: value}))
    return runs


def sweep_of(study: Study) -> Iterator[Run]:
    """List every combination of the launch parameters that a study varies.

    Parameters
    ----------
    study : Study
        The study.

    Yields
    ------
    Run
        A step with all options named.
    """
    for sweep in study.sweeps:
        for kernel in steps_of(study):
            if kernel.backend == "cuda" and kernel.step in sweep.steps:
                for values in itertools.product(*sweep.options.values()):
                    yield Run(kernel, dict(zip(sweep.options, values, strict=True)))


class Runner:
    """Measures ladders on one GPU, with the CPU beside it, or on the CPU alone.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.
    repeats : int
        Samples of each call.
    source : str, optional
        The revision to record, where neither git nor the installation knows it.
    """

    def __init__(self, device: str, *, repeats: int = 7, source: str | None = None) -> None:
        self.device = device
        self.backend, _, index = device.partition(":")
        self.repeats = repeats
        self.provenance = {
            name: records.provenance(name, source=source) for name in {"cpu", device}
        }
        self.ceilings = {name: measure_ceilings(name, repeats=repeats) for name in {"cpu", device}}
        self.arrays: DeviceArrays | None = None
        self.arrays_reason = ""
        if self.backend == "cuda":
            self.arrays, self.arrays_reason = device_arrays(int(index or 0))

    # -------------------------------------------------------------- one problem

    def climb(self, study: Study, problem: Problem, device: str) -> Iterator[Record]:
        """Measure every step, what ``auto`` takes, and rivals.

        Parameters
        ----------
        study : Study
            Whose steps.
        problem : Problem
            What they are run on.
        device : str
            ``cpu`` or the runner's own.

        Yields
        ------
        dict
            A result ready for a JSON line, with ``role`` step, production or rival.
        """
        host = problem.operands()
        rows, exact = problem.exact(host)
        there = _There(self, device, problem, host, rows, exact)
        before: float | None = None
        for kernel in steps_of(study):
            if kernel.backend != there.backend:
                continue
            for run in runs_of(study, kernel):
                record = self._step(study, there, run)
                # Versions of a part are compared with the standard ones.
                comparable = kernel.step > 1 or run.options
                if comparable and before is not None and "median_s" in record:
                    record["gain"] = before / record["median_s"]
                yield record
                before = record.get("median_s", before) if not run.options else before
        if has_production(problem.op):
            yield self._production(study, there)
        # Rivals are asked on the device alone: sizes for a GPU take the CPU minutes.
        for rival in rivals_for(there.task) if there.task.backend == there.backend else ():
            yield self._rival(study, there, rival)
        there.close()

    def sweep(self, study: Study) -> Iterator[Record]:
        """Measure the steps at every combination of options, and at the sizes of the grid.

        Parameters
        ----------
        study : Study
            Whose steps.

        Yields
        ------
        dict
            A result ready for a JSON line, with ``role`` sweep or grid.
        """
        runs = list(sweep_of(study))
        problem = study.problems[0]
        if runs:
            host = problem.operands()
            there = _There(self, self.device, problem, host, *problem.exact(host))
            for run in runs:
                yield self._step(study, there, run, role="sweep", quick=True)
            there.close()
        for problem in study.grid:
            host = problem.operands()
            there = _There(self, self.device, problem, host, *problem.exact(host))
            for kernel in steps_of(study):
                if kernel.backend == there.backend:
                    yield self._step(study, there, Run(kernel, {}), role="grid", quick=True)
            yield self._production(study, there, role="grid", quick=True)
            there.close()

    # -------------------------------------------------------------- one call

    def _step(
        self, study: Study, there: _There, run: Run, *, role: str = "step", quick: bool = False
    ) -> Record:
        record = self._begin(study, there, role, run.kernel.id, run.kernel.step)
        record |= {"options": dict(run.options), "idea": run.kernel.idea, "name": run.name}
        figure = None
        if role == "step":
            figure = study.figure(there.problem.shape, run.kernel.step, run.options)
        if figure is not None:
            record |= {"reported_s": figure.seconds, "reported": figure.text, "card": study.card}
        if run.kernel.why_not is not None:
            return record | {"missing": run.kernel.why_not}
        how = {"kernel": run.kernel.id, "options": dict(run.options), "device": there.device}
        operands = there.laid_out(run.kernel.layout)
        return record | self._measure(
            there, lambda: there.problem.call(operands, **how), study.tolerance, quick
        )

    def _production(
        self, study: Study, there: _There, *, role: str = "production", quick: bool = False
    ) -> Record:
        try:
            taken = there.problem.explain(there.operands, there.device)
        except Exception as error:
            record = self._begin(study, there, role, "auto", 0) | {"name": "auto"}
            return record | {"failed": _describe(error)}
        record = self._begin(study, there, role, taken.kernel, 0) | {"name": taken.kernel}
        return record | self._measure(
            there,
            lambda: there.problem.call(there.operands, device=there.device),
            study.tolerance,
            quick,
        )

    def _rival(self, study: Study, there: _There, rival: Rival) -> Record:
        name = f"{rival.name} {rival.version() or ''}".rstrip()
        record = self._begin(study, there, "rival", rival.name, 0)
        record |= {"name": name, "version": rival.version()}
        reason = rival.why_not(there.task)
        if reason is not None:
            return record | {"missing": reason}
        # Steps reuse the memory of each other's results; what rivals ask for may be of other sizes.
        there.free()
        try:
            call = rival.prepare(there.task)
        except Exception as error:
            return record | {"failed": _describe(error)}
        return record | self._measure(there, call, None, False, budget=_RIVAL_BUDGET)

    def _begin(self, study: Study, there: _There, role: str, kernel: str, step: int) -> Record:
        return {
            **self.provenance[there.device],
            "op": "ladder",
            "ladder": study.name,
            "role": role,
            "kernel": kernel,
            "step": step,
            "shape": list(there.problem.shape),
            "dtype": there.problem.dtype,
            "arrays": "numpy" if there.arrays is None else there.arrays.name,
        }

    def _measure(
        self,
        there: _There,
        call: Any,
        tolerance: float | None,
        quick: bool,
        budget: float = _STEP_BUDGET,
    ) -> Record:
        """Hold a call against exact results, then time it; a wrong one is not timed."""
        try:
            error = there.error_of(call())
            if tolerance is not None and not error <= tolerance:
                return {"wrong": f"its largest relative error is {error:.1e}"}
            timing = time_call(
                call,
                clock=there.clock,
                repeats=_SWEEP_REPEATS if quick else self.repeats,
                budget=_SWEEP_BUDGET if quick else budget,
            )
        except ValueError as refusal:
            return {"missing": str(refusal)}
        except Exception as failure:
            return {"failed": _describe(failure)}
        # JSON has no infinity: the word stands for it.
        kept = error if np.isfinite(error) else str(error)
        return there.rates(timing) | {"max_relative_error": kept, **timing.fields()}


class _There:
    """A problem on the device where it is to be solved."""

    def __init__(
        self,
        runner: Runner,
        device: str,
        problem: Problem,
        host: tuple[Array, ...],
        rows: npt.NDArray[np.intp],
        exact: Array,
    ) -> None:
        self.device = device
        self.backend = device.partition(":")[0]
        self.problem = problem
        self.arrays = runner.arrays if self.backend == "cuda" else None
        self.ceilings = runner.ceilings[device]
        self._rows, self._exact = rows, exact
        self._host = host
        self._laid_out: dict[str, tuple[Any, ...]] = {}
        self.operands = self.laid_out("rows")
        self.clock: Clock = HostClock()
        if self.arrays is not None:
            self.clock = EventClock(device, self.arrays.stream(), before=self.arrays.flush)
        self.task = Task(
            problem.op,
            self.backend if self.arrays is not None else "cpu",
            tuple(map(self._put, problem.for_rivals(host))),
            problem.shape[0],
            problem.dtype,
            problem.metric,
        )

    def laid_out(self, layout: str) -> tuple[Any, ...]:
        """Give the operands as a kernel assumes them, so that no copy is timed.

        What calls change is laid out anew each time.
        """
        turned = layout == "dims"
        if layout not in self._laid_out or self.problem.in_place:
            once: dict[int, Any] = {}  # one array given twice stays one
            for x in self._host:
                if id(x) not in once:
                    put = self._put(np.ascontiguousarray(x.T) if turned else x)
                    once[id(x)] = put.T if turned else put
            self._laid_out[layout] = tuple(once[id(x)] for x in self._host)
        return self._laid_out[layout]

    def error_of(self, result: Any) -> float:
        """Give the largest relative error in the rows that are known."""
        get = np.asarray if self.arrays is None else self.arrays.get
        return max_relative_error(self.problem.sample(result, self._rows, get), self._exact)

    def rates(self, timing: Timing) -> Record:
        """Give the rate, and the fraction of the limit that binds."""
        amount, unit = self.problem.amount
        found: Record = {
            "rate": amount / timing.median,
            "unit": unit,
            "clock": self.clock.name,
            "floor_s": None,
            "bound_by": None,
            "fraction_of_ceiling": None,
        }
        times = {
            name: work / rate
            for name, work in self.problem.limits.items()
            if name in self.ceilings and (rate := self._rate(self.ceilings[name])) is not None
        }
        if times:
            name = max(times, key=times.__getitem__)
            found |= {
                "floor_s": times[name],
                "bound_by": name,
                "fraction_of_ceiling": times[name] / timing.median,
            }
        return found

    def _rate(self, ceiling: Ceiling) -> float | None:
        """Give a ceiling for the problem's type; of a CPU's minima only that of their own is known.

        A GPU's pipes for sums and minima of 32 bits are no wider for whole numbers than for floats.
        """
        known = ceiling.rate_in(self.problem.dtype)
        return ceiling.rate if known is None and self.backend == "cuda" else known

    def free(self) -> None:
        """Give back what results held."""
        gc.collect()
        if self.arrays is not None:
            self.arrays.free()

    def close(self) -> None:
        """Give back the operands as well."""
        self._laid_out.clear()
        self.operands = ()
        self.free()

    def _put(self, x: Array) -> Any:
        if self.arrays is not None:
            return self.arrays.put(x)
        return x.copy() if self.problem.in_place else x


def _describe(error: Exception) -> str:
    """Say what went wrong in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
