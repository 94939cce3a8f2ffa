"""What became slower since results were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.lines import case_key, newest
from bench.report import headings, title
from gpudist._tables import Table
from gpudist.measure.wording import digits, duration

# Clocks and neighbours move the median from run to run by so much, which no run by itself shows.
_MARGIN = 1.03

Result = Mapping[str, Any]


def regressed(now: Result, before: Result) -> bool:
    """Tell whether a case became slower, beyond the spread of both measurements.

    That is where the lower quartile lies 3 % above the recorded upper one, or what ran now fails.
    """
    if "failed" in before:
        return False
    return "failed" in now or now["q1_s"] > _MARGIN * before["q3_s"]


def _name(result: Result) -> str:
    """Name a case; a ladder's by its step, with the launch parameters."""
    if result["op"] != "ladder":
        return title(result)
    options = (f"{name} = {value}" for name, value in result.get("options", {}).items())
    return " ".join([result["kernel"], "x".join(map(str, result["shape"])), *options])


def compare(
    results: Iterable[dict[str, Any]], recorded: Iterable[dict[str, Any]]
) -> tuple[Table, int, int]:
    """Hold results against recorded ones; ceilings and accuracies are left aside.

    Give a table with a row for each case that is in both, how many cases those are, and how many of
    them became slower.
    """
    before = newest(recorded)
    table = Table(
        headings("case", ">recorded", ">now", ">now / recorded", "verdict"),
        title="Beside what was recorded",
    )
    compared = slower = 0
    for now in results:
        then = before.get(case_key(now))
        if then is None or now["op"] in ("ceiling", "accuracy") or now.get("role") == "rival":
            continue
        compared += 1
        worse = regressed(now, then)
        slower += worse
        times = [duration(r["median_s"]) if "median_s" in r else "failed" for r in (then, now)]
        both = "median_s" in now and "median_s" in then
        ratio = f"{digits(now['median_s'] / then['median_s'])}x" if both else ""
        better = both and regressed(then, now)
        verdict = "SLOWER" if worse else "faster" if better else "the same"
        table.add(_name(now), *times, ratio, verdict)
    return table, compared, slower
