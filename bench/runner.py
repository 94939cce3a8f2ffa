"""The run that measures cases on one device, each beside its rivals."""

from __future__ import annotations

import dataclasses
import functools
import gc
import statistics
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from bench import cases, exact, memory
from bench.adversary import adversarial
from bench.clocks import Card
from gpudist.measure import ceilings, records, rivals
from gpudist.measure.ceilings import Ceiling
from gpudist.measure.devices import DeviceArrays, device_arrays
from gpudist.measure.errors import max_error, max_relative_error
from gpudist.measure.samples import Sample
from gpudist.measure.timing import Clock, EventClock, HostClock, Timing, time_call

Array = npt.NDArray[Any]

# Seconds that the samples of one call may take together: some rivals are hundreds of times slower
# than most calls.
_BUDGET = 3.0
# One round of perron is what a call of so many rounds takes longer than one of so few, divided: the
# host does the same for both.
_FEW_ROUNDS, _MANY_ROUNDS = 2, 11
# A sweep takes hundreds of timings, all of the device at hand.
_SWEEP_BUDGET = 0.3
_FIRST_CALLS = 3


class Runner:
    """Measures cases on one device, after its ceilings.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.
    repeats : int, default 7
        Samples of each call.
    source : str, optional
        The revision to record, where neither git nor the installation knows it.
    with_ceilings : bool, default True
        Whether to measure ceilings; no case is compared with one otherwise.
    """

    def __init__(
        self,
        device: str,
        *,
        repeats: int = 7,
        source: str | None = None,
        with_ceilings: bool = True,
    ) -> None:
        self.device = device
        self.backend, _, index = device.partition(":")
        self.repeats = repeats
        self.provenance = records.provenance(device, source=source)
        self.ceilings: dict[str, Ceiling] = (
            ceilings.measure_ceilings(device, repeats=repeats) if with_ceilings else {}
        )
        self.arrays: DeviceArrays | None = None
        self.arrays_reason = ""
        self.card: Card | None = None
        if self.backend == "cuda":
            self.card = Card(int(index or 0))
            self.arrays, self.arrays_reason = device_arrays(int(index or 0))

    def ceiling_records(self) -> Iterator[dict[str, Any]]:
        """Give a result for each ceiling of the device."""
        for ceiling in self.ceilings.values():
            yield {
                **self.provenance,
                "op": "ceiling",
                "ceiling": ceiling.name,
                "dtype": ceiling.dtype,
                "kernel": ceiling.kernel,
                "rate": ceiling.rate,
                "unit": ceiling.unit,
                **ceiling.timing.fields(),
            }

    def run(self, case: cases.AnyCase | cases.AccuracyCase) -> dict[str, Any]:
        """Measure one case and its rivals, and give what makes a JSON line.

        A case or a rival that fails, for want of memory say, gives a result that says so.
        """
        arrays = None if case.on_host else self.arrays
        record: dict[str, Any] = {
            **self.provenance,
            "op": case.op,
            "shape": list(case.shape),
            "dtype": case.dtype,
            "metric": case.metric,
            "arguments": case.arguments,
            "arrays": "numpy" if arrays is None else arrays.name,
        }
        try:
            if isinstance(case, cases.AccuracyCase):
                record |= self._measure_accuracy(case)
            elif isinstance(case, cases.SweepCase):
                record |= self._measure_sweep(case)
            elif isinstance(case, cases.FirstCallCase):
                record |= self._measure_first_call(case)
            else:
                record |= self._measure_case(case)
        except Exception as error:
            record |= {"failed": _describe(error), "rivals": []}
        if isinstance(case, cases.TransferCase) and case.recycled:
            gpudist.recycle_results(0)
        self._free()
        return record

    def _measure_case(self, case: cases.AnyCase) -> dict[str, Any]:
        host = case.operands()
        operands, clock = self._place(case, host)
        said = case.explain(operands, self.device)
        sample = case.sample(host)
        ours, error = self._measure(case.prepare(operands, self.device), clock, sample)
        work = said.work
        through_host = self.backend == "cuda" and isinstance(clock, HostClock)
        # What auto puts elsewhere, this device's ceilings do not bind.
        here = self.ceilings if said.kernel.partition("/")[2].startswith(self.backend) else {}
        floor = ceilings.floor(work, said.dtype, here, through_host=through_host)
        if floor is not None and said.devices:
            floor = dataclasses.replace(floor, seconds=floor.seconds / len(said.devices))
        task = rivals.Task(
            f"{case.inner.op}, there and back" if isinstance(case, cases.TransferCase) else case.op,
            self.backend,
            operands,
            case.shape[0],
            case.dtype,
            case.metric,
            case.metric_args,
            self.device,
        )
        record = {
            **_timed(said, clock, ours, floor),
            "l2_flushed": isinstance(clock, EventClock),
            "bytes_moved": work.read + work.written,
            "pipe_operations": work.operations * work.slots,
            "max_relative_error": _json_number(error),
            "error_rows": sample.rows,
            **({"devices": list(said.devices)} if said.devices else {}),
            "rivals": [
                self._try_rival(
                    rival, task, lambda prepare: self._beside(prepare(task), ours, clock, sample)
                )
                for rival in rivals.rivals_for(task)
            ],
        }
        match case:
            case cases.PerronCase():
                record |= self._measure_round(case, operands, clock)
            case cases.TransferCase():
                record |= self._measure_transfer(case, operands)
            case cases.AfterProductCase():
                # The call with nothing before it but itself.
                quiet = self._time_rested(case.prepare(operands, self.device), HostClock())
                record["quiet_s"] = quiet.median
            case cases.SeveralCase() | cases.DaskCase():
                alone = case.prepare_on(self.device, operands)
                one = {"name": case.beside, "version": gpudist.__version__}
                record["rivals"].append(one | self._beside(alone, ours, clock, sample))
        return record

    def _place(self, case: cases.AnyCase, host: tuple[Array, ...]) -> tuple[tuple[Any, ...], Clock]:
        """Bring operands to where the case takes them from, and give the clock for calls there."""
        if self.arrays is None or case.on_host:
            before = case.product if isinstance(case, cases.AfterProductCase) else None
            return host, HostClock(before)
        clock = EventClock(self.device, self.arrays.stream(), before=self.arrays.flush)
        return tuple(map(self.arrays.put, host)), clock

    def _beside(
        self, call: Callable[[], Any], ours: Timing, clock: Clock, sample: Sample
    ) -> dict[str, Any]:
        """Time another way to do what was done in our time."""
        timing, error = self._measure(call, clock, sample)
        return {
            **timing.fields(),
            "ratio": timing.median / ours.median,
            "max_relative_error": _json_number(error),
        }

    def _measure_transfer(
        self, case: cases.TransferCase, operands: tuple[Any, ...]
    ) -> dict[str, int | float]:
        """Find what a transfer takes in memory, and how long the work takes without the bus."""
        found: dict[str, int | float] = {
            **memory.extra_memory(case.prepare(operands, self.device), operands, self.device)
        }
        if isinstance(case.inner, cases.ApspCase) and self.arrays is not None:
            there, clock = self._place(case.inner, operands[:1])
            found["on_device_s"] = time_call(
                case.inner.prepare(there, self.device),
                clock=clock,
                repeats=self.repeats,
                budget=_BUDGET,
            ).median
        return found

    def _measure_first_call(self, case: cases.FirstCallCase) -> dict[str, Any]:
        runs = [case.run(self.device) for _ in range(_FIRST_CALLS)]
        parts = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        whole = Timing(tuple(run["device_s"] + run["first_s"] for run in runs))
        said = case.explain(case.operands(), self.device)
        return {**_timed(said, HostClock(), whole, None), "parts": parts, "rivals": []}

    def _measure_round(
        self, case: cases.PerronCase, operands: tuple[Any, ...], clock: Clock
    ) -> dict[str, Any]:
        """Time one round by itself, and hold it against one read of the matrix."""
        times = []
        for rounds in (_FEW_ROUNDS, _MANY_ROUNDS):
            call = functools.partial(
                gpudist.perron, operands[0], tol=0, max_iter=rounds, device=self.device
            )
            with warnings.catch_warnings():  # not converged
                warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
                times.append(time_call(call, clock=clock, repeats=self.repeats).median)
        few, many = times
        if many <= few:  # a matrix so small that nothing but the clock's noise is left
            return {}
        seconds = (many - few) / (_MANY_ROUNDS - _FEW_ROUNDS)
        read = self.ceilings.get("read")
        size = case.n * case.n * np.dtype(case.dtype).itemsize
        return {
            "round_s": seconds,
            "round_fraction_of_ceiling": size / read.rate / seconds if read else None,
        }

    def _measure_sweep(self, case: cases.SweepCase) -> dict[str, Any]:
        inner = case.inner
        operands, clock = self._place(inner, inner.operands())
        said = inner.explain(operands, self.device)
        timings = {}
        for kernel in gpudist.kernels("cdist"):
            if kernel.backend != self.backend or kernel.why_not is not None or kernel.teaching:
                continue
            call = inner.prepare(operands, self.device, kernel.id)
            try:
                call()
            except ValueError:  # it cannot do this: another metric, type or number of dimensions
                continue
            timings[kernel.id] = time_call(
                call, clock=clock, repeats=self.repeats, budget=_SWEEP_BUDGET
            )
        ours = timings[said.kernel]
        best = min(timings, key=lambda id: timings[id].median)
        floor = ceilings.floor(said.work, said.dtype, self.ceilings)
        return {
            **_timed(said, clock, ours, floor),
            "best_kernel": best,
            "ratio_to_best": ours.median / timings[best].median,
            "kernels": {id: timing.median for id, timing in timings.items()},
        }

    def _measure(
        self, call: Callable[[], Any], clock: Clock, sample: Sample
    ) -> tuple[Timing, float]:
        timing = self._time_rested(call, clock)
        parts = [self._on_host(part) for part in sample.pick(call())]
        found = np.concatenate(parts) if parts else np.empty(0)
        return timing, max_relative_error(found, sample.exact)

    def _time_rested(self, call: Callable[[], Any], clock: Clock) -> Timing:
        """Time a call on a card that has recovered from what ran before, and tell its clock."""
        if self.card is not None:
            self.card.rest()
        timing = time_call(call, clock=clock, repeats=self.repeats, budget=_BUDGET)
        told = {} if self.card is None else self.card.state()
        return dataclasses.replace(timing, conditions=told)

    def _on_host(self, array: Any) -> Array:
        """Copy an array to the host, unless it is there."""
        if self.arrays is None or isinstance(array, np.ndarray):
            return np.asarray(array)
        return self.arrays.get(array)

    def _measure_accuracy(self, case: cases.AccuracyCase) -> dict[str, Any]:
        args = case.variant.metric_args
        tasks, right = {}, {}
        # Arguments that are one a column are for so many columns.
        wide = args.keys().isdisjoint({"w", "V", "VI"})
        for name, (a, b) in adversarial(case.metric, case.dtype, wide=wide).items():
            distances = exact.exact_cdist(a, b, case.metric, **args)
            right[name] = distances, exact.error_scale(case.metric, a, b, distances)
            operands = (a, b) if self.arrays is None else tuple(map(self.arrays.put, (a, b)))
            tasks[name] = rivals.Task(
                "cdist", self.backend, operands, len(a), case.dtype, case.metric, args
            )
        first = next(iter(tasks.values()))

        def errors(prepare: rivals.Prepare) -> dict[str, Any]:
            found = {}
            for name, task in tasks.items():
                with np.errstate(all="ignore"):
                    result = self._on_host(prepare(task)())
                found[name] = _json_number(max_error(result, *right[name]))
            return {"max_error": max(found.values(), key=float), "errors": found}

        given = {"metric": case.metric, "device": self.device, **args}
        return {
            "kernel": gpudist.explain("cdist", *first.operands, **given).kernel,
            "errors_relative_to": exact.measure_of(case.metric),
            **errors(lambda task: lambda: gpudist.cdist(*task.operands, **given)),
            "rivals": [self._try_rival(rival, first, errors) for rival in rivals.rivals_for(first)],
        }

    def _try_rival(
        self,
        rival: rivals.Rival,
        task: rivals.Task,
        measure: Callable[[rivals.Prepare], dict[str, Any]],
    ) -> dict[str, Any]:
        self._free()
        result: dict[str, Any] = {"name": rival.name, "version": rival.version()}
        reason = rival.why_not(task)
        if reason is not None:
            return result | {"missing": reason}
        try:
            return result | measure(rival.prepare)
        except rivals.Refusal as refusal:
            return result | {"missing": str(refusal)}
        except Exception as failure:
            return result | {"failed": _describe(failure)}

    def _free(self) -> None:
        gc.collect()
        if self.arrays is not None:
            self.arrays.free()


def _timed(
    said: gpudist.Explanation, clock: Clock, ours: Timing, floor: ceilings.Floor | None
) -> dict[str, Any]:
    """Say what ran how fast, which ceiling binds, and how near the time comes to what it allows."""
    return {
        "kernel": said.kernel,
        "clock": clock.name,
        **ours.fields(),
        "rate": said.work.operations / ours.median,
        "unit": f"{said.work.unit}/s",
        "floor_s": floor.seconds if floor else None,
        "bound_by": floor.ceiling.name if floor else None,
        "fraction_of_ceiling": floor.seconds / ours.median if floor else None,
    }


def _describe(error: Exception) -> str:
    """Say what went wrong in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _json_number(value: float) -> float | str:
    """JSON has no infinity: the word stands for it."""
    return value if np.isfinite(value) else str(value)
