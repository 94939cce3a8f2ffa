"""Measure gpudist beside the machine's ceilings and beside other libraries.

``python -m gpudist bench`` runs a suite. A result is one JSON line that names the revision, the
device, the libraries, the case, the kernel, the time with its spread, the fraction of the ceiling
that binds (measured in the same run), every rival's time, and the largest relative error against
float64 on a sample of rows. The suite ``accuracy`` times nothing: it holds every metric, and the
rivals that know it, against exact distances on data that is hard to get right.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import gpudist
from gpudist.bench.ceilings import Ceiling, Floor, Work, floor, measure_ceilings
from gpudist.bench.records import read_lines, write_line
from gpudist.bench.report import show_accuracy, show_ceilings, show_machine, show_result
from gpudist.bench.rivals import RIVALS, Rival, Task, rivals_for
from gpudist.bench.suites import (
    SUITES,
    AccuracyCase,
    ApspCase,
    Case,
    CdistCase,
    Runner,
    Suite,
)
from gpudist.bench.timing import EventClock, HostClock, Timing, time_call

__all__ = [
    "RIVALS",
    "SUITES",
    "AccuracyCase",
    "ApspCase",
    "Case",
    "CdistCase",
    "Ceiling",
    "EventClock",
    "Floor",
    "HostClock",
    "Rival",
    "Runner",
    "Suite",
    "Task",
    "Timing",
    "Work",
    "floor",
    "measure_ceilings",
    "read_lines",
    "rivals_for",
    "run_suite",
    "time_call",
    "write_line",
]


def run_suite(
    name: str,
    *,
    device: str | None = None,
    json_path: Path | None = None,
    repeats: int = 7,
    source: str | None = None,
) -> bool:
    """Run a suite, print its tables and append its JSON lines to a file.

    Parameters
    ----------
    name : str
        A key of `SUITES`.
    device : str, optional
        ``cpu``, ``cuda`` or ``cuda:1``; by default the GPU where one can be used.
    json_path : Path, optional
        Where results are appended; nowhere by default.
    repeats : int, default 7
        Samples of each call.
    source : str, optional
        The revision to record, where neither git nor the installation knows it.

    Returns
    -------
    bool
        Whether every case ran; rivals do not count.

    Raises
    ------
    DeviceError
        If a GPU is asked for and cannot be used.
    """
    suite = SUITES[name]
    runner = Runner(_resolve(device), repeats=repeats, source=source, with_ceilings=suite.ceilings)
    with contextlib.ExitStack() as stack:
        stream = None
        if json_path is not None:
            stream = stack.enter_context(json_path.open("a", encoding="utf-8"))

        def keep(result: dict[str, Any]) -> dict[str, Any]:
            if stream is not None:
                write_line(result, stream)
            return result

        show_machine(runner.provenance)
        if runner.backend == "cuda" and runner.arrays is None:
            print(
                "no library holds arrays on this GPU, so NumPy arrays cross the bus: "
                f"{runner.arrays_reason}\n"
            )
        if suite.ceilings:
            show_ceilings([keep(result) for result in runner.ceiling_records()])
        results = []
        for case in suite.cases[runner.backend]:
            results.append(keep(runner.run(case)))
            if case.op != "accuracy":
                show_result(results[-1])
        accuracies = [result for result in results if result["op"] == "accuracy"]
        if accuracies:
            show_accuracy(accuracies)
    return not any("failed" in result for result in results)


def _resolve(device: str | None) -> str:
    """Turn the user's device into ``cpu`` or ``cuda:<index>``."""
    if device is None:
        return "cuda:0" if gpudist.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    reason = gpudist.cuda.why_not()
    if reason is not None:
        raise gpudist.DeviceError(reason)
    index = int(device.partition(":")[2] or 0)
    count = len(gpudist.cuda.devices())
    if index >= count:
        raise gpudist.DeviceError(f"there is no device cuda:{index}, only {count}")
    return f"cuda:{index}"
