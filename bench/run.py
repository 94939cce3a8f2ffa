"""Run a suite: measure its cases, print their tables and keep their lines."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TextIO

from bench import regressions, sweep
from bench.lines import read_lines
from bench.report import ceilings_table, errors_table, show_result, title
from bench.runner import Runner
from bench.suites import SUITES, Suite
from gpudist._tables import show
from gpudist.measure.devices import resolve
from gpudist.measure.records import write_line
from gpudist.measure.wording import show_machine


def run_suite(
    suite: str,
    *,
    device: str | None = None,
    json: Path | None = None,
    repeats: int = 7,
    revision: str | None = None,
    compare: Path | None = None,
    roofline: Path | None = None,
) -> bool:
    """Run a suite as ``python -m bench --help`` says, print its tables and append its JSON lines.

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
    recorded = [] if compare is None else list(read_lines(compare))
    with open(json or os.devnull, "a", encoding="utf-8") as stream:
        if suite == "ladders":
            if roofline is not None:
                raise ValueError("the ladders' picture is drawn by python -m gpudist ladder --plot")
            all_ran, results = _climb(device, repeats, revision, stream)
        else:
            cases = SUITES[suite]
            runner = Runner(
                resolve(cases.device or device),
                repeats=repeats,
                source=revision,
                with_ceilings=cases.ceilings,
            )
            results = _measure(runner, cases, roofline, stream)
            all_ran = not any("failed" in result for result in results)
    return all_ran and (compare is None or _hold_against(results, recorded, compare))


def _measure(
    runner: Runner, suite: Suite, roofline: Path | None, stream: TextIO
) -> list[dict[str, Any]]:
    """Run the cases of a suite after the ceilings, and print and keep their results."""
    show_machine(runner.provenance)
    if runner.backend == "cuda" and runner.arrays is None:
        print(
            "no library holds arrays on this GPU, so NumPy arrays cross the bus: "
            f"{runner.arrays_reason}\n"
        )
    limits = list(runner.ceiling_records())
    for limit in limits:
        write_line(limit, stream)
    if limits:
        show(ceilings_table(limits))
    results = []
    for case in suite.cases[runner.backend]:
        results.append(runner.run(case))
        write_line(results[-1], stream)
        if case.op not in ("accuracy", "sweep"):
            show_result(results[-1])
    _show_together(results)
    if roofline is not None:
        from bench import plots
        from gpudist.measure import chart

        plots.save(chart.roofline, [*limits, *results], roofline)
        print(f"saved {roofline}\n")
    return results


def _climb(
    device: str | None, repeats: int, source: str | None, stream: TextIO
) -> tuple[bool, list[dict[str, Any]]]:
    """Run all ladders at their studies' sizes; tell whether all ran, and give their lines."""
    from gpudist.ladder import STUDIES, climb

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "ladders.jsonl")
        well = climb(tuple(STUDIES), device=device, json_path=lines, repeats=repeats, source=source)
        stream.write(lines.read_text(encoding="utf-8"))
        timed = [result for result in read_lines(lines) if "missing" not in result]
    return well, [{"metric": None, **result} for result in timed]


def _show_together(results: list[dict[str, Any]]) -> None:
    """Print the results that make one table together."""
    accuracies = [result for result in results if result["op"] == "accuracy"]
    if accuracies:
        show(errors_table(accuracies))
        for result in accuracies:
            if "failed" in result:
                print(f"{title(result)}: {result['failed']}")
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
