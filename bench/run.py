"""Run a suite: measure its cases, print their tables and keep their lines."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from bench import regressions, sweep
from bench.lines import read_lines
from bench.report import show_accuracy, show_ceilings, show_result
from bench.runner import Runner
from bench.suites import SUITES
from gpudist._tables import show
from gpudist.measure.devices import resolve
from gpudist.measure.records import write_line
from gpudist.measure.wording import show_machine


def run_suite(
    name: str,
    *,
    device: str | None = None,
    json_path: Path | None = None,
    repeats: int = 7,
    source: str | None = None,
    compare: Path | None = None,
    roofline: Path | None = None,
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
    compare : Path, optional
        A file of JSON lines to hold the results against.
    roofline : Path, optional
        Where to save a picture of the results under the machine's limits; needs matplotlib.

    Returns
    -------
    bool
        Whether every case ran, rivals aside, and none became slower than recorded.

    Raises
    ------
    DeviceError
        If a GPU is asked for and cannot be used.
    OSError, ValueError
        If the file to compare with cannot be read.
    """
    suite = SUITES[name]
    recorded = [] if compare is None else list(read_lines(compare))
    if name == "ladders":
        return _climb(device, json_path, repeats, source, compare, roofline, recorded)
    where = resolve(suite.device or device)
    runner = Runner(where, repeats=repeats, source=source, with_ceilings=suite.ceilings)
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
        limits = [keep(result) for result in runner.ceiling_records()]
        if limits:
            show_ceilings(limits)
        results = []
        for case in suite.cases[runner.backend]:
            results.append(keep(runner.run(case)))
            if case.op not in ("accuracy", "sweep"):
                show_result(results[-1])
    _show_together(results)
    if roofline is not None:
        from bench import plots
        from gpudist.measure import chart

        plots.save(chart.roofline, [*limits, *results], roofline)
        print(f"saved {roofline}\n")
    all_ran = not any("failed" in result for result in results)
    return all_ran and (compare is None or _hold_against(results, recorded, compare))


def _climb(
    device: str | None,
    json_path: Path | None,
    repeats: int,
    source: str | None,
    compare: Path | None,
    roofline: Path | None,
    recorded: list[dict[str, Any]],
) -> bool:
    """Run all ladders at their studies' sizes, and hold their lines against recorded ones."""
    from gpudist.ladder import STUDIES, climb

    if roofline is not None:
        raise ValueError("the ladders' picture is drawn by python -m gpudist ladder --plot")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "ladders.jsonl")
        well = climb(tuple(STUDIES), device=device, json_path=lines, repeats=repeats, source=source)
        results = list(read_lines(lines))
    if json_path is not None:
        with json_path.open("a", encoding="utf-8") as stream:
            for result in results:
                write_line(result, stream)
    timed = [{"metric": None, **result} for result in results if "missing" not in result]
    return well and (compare is None or _hold_against(timed, recorded, compare))


def _show_together(results: list[dict[str, Any]]) -> None:
    """Print the results that make one table together."""
    accuracies = [result for result in results if result["op"] == "accuracy"]
    if accuracies:
        show_accuracy(accuracies)
    swept = [result for result in results if result["op"] == "sweep"]
    if swept:
        show(sweep.table(swept))
        found = sweep.flags(swept)
        print("\n".join(found or ["auto is never far behind, and no shape behind a larger one"]))


def _hold_against(
    results: list[dict[str, Any]], recorded: list[dict[str, Any]], path: Path
) -> bool:
    """Print what became of recorded times, and tell whether none became longer."""
    table, compared, slower = regressions.compare(results, recorded)
    if not compared:
        print(f"{path} has none of these cases on this device: nothing was compared")
        return False
    show(table)
    print(f"{slower} of {compared} cases slower than recorded, beyond the spread")
    return slower == 0
