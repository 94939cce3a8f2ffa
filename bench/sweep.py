"""What a sweep shows: where ``auto`` does not choose best, or is slower than on a larger shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.report import headings, title
from gpudist._tables import Table
from gpudist.measure.wording import digits, duration

# How far behind the best kernel `auto` may be, and a shape behind a larger one, before it is said.
WORST_RATIO = 1.15
_SLOWER = 1.05

Result = Mapping[str, Any]


def flags(results: Sequence[Result]) -> list[str]:
    """Name the shapes that a sweep found wanting, one line each.

    On these another kernel is clearly faster, or a call takes longer than on a neighbouring larger
    shape, beyond the spread of both. As how many rows ``XA`` has may not decide between kernels
    that round differently, the line of a kernel that is the faster one for another number of rows
    says so.
    """
    found = []
    measured = [result for result in results if "failed" not in result]
    for result in measured:
        if result["ratio_to_best"] > WORST_RATIO:
            found.append(
                f"{title(result)}: {result['kernel']} takes {digits(result['ratio_to_best'])}x the "
                f"time of {result['best_kernel']}" + _where_it_wins(result, measured)
            )
    for small, large in _neighbours(measured):
        if small["q1_s"] > _SLOWER * large["q3_s"]:
            found.append(
                f"{title(small)}: {duration(small['median_s'])} by {small['kernel']}, longer than "
                f"{duration(large['median_s'])} by {large['kernel']} for "
                f"{'x'.join(map(str, large['shape']))}"
            )
    return found


def _where_it_wins(result: Result, measured: Iterable[Result]) -> str:
    """Say with how many rows of ``XA`` the kernel beats the one that is best here, if it does."""
    kernel, best = result["kernel"], result["best_kernel"]
    ratios = {
        other["shape"][0]: other["kernels"][kernel] / other["kernels"][best]
        for other in measured
        if [other["dtype"], other["metric"], *other["shape"][1:]]
        == [result["dtype"], result["metric"], *result["shape"][1:]]
        and {kernel, best} <= other["kernels"].keys()
    }
    ratio, rows = min((ratio, rows) for rows, ratio in ratios.items())
    return f", and {digits(ratio)}x with m = {rows}" if ratio < 1 else ""


def _neighbours(results: Sequence[Result]) -> Iterator[tuple[Result, Result]]:
    """Pair each shape with the next larger one along each axis, all else being equal."""
    for axis in range(3):
        lines: dict[tuple[object, ...], list[tuple[int, Result]]] = {}
        for result in results:
            size, *others = np.roll(result["shape"], -axis).tolist()
            key = (result["dtype"], result["metric"], *others)
            lines.setdefault(key, []).append((size, result))
        for line in lines.values():
            ordered = [result for _, result in sorted(line, key=lambda entry: entry[0])]
            yield from itertools.pairwise(ordered)


def table(results: Iterable[Result]) -> Table:
    """Set the results of a sweep, one row a shape."""
    made = Table(
        headings("shape", "auto takes", ">time", ">of limit", ">to the best", "the others"),
        title="What auto takes against every kernel that can do it",
    )
    for result in results:
        if "failed" in result:
            made.add(title(result), "failed", "", "", "", result["failed"])
            continue
        fraction = result["fraction_of_ceiling"]
        made.add(
            title(result).removeprefix("sweep "),
            _short(result["kernel"]),
            duration(result["median_s"]),
            "" if fraction is None else f"{fraction:.0%} {result['bound_by']}",
            f"{digits(result['ratio_to_best'])}x",
            ", ".join(
                f"{_short(id)} {duration(seconds)}"
                for id, seconds in result["kernels"].items()
                if id != result["kernel"]
            ),
        )
    return made


def _short(id: str) -> str:
    return id.partition("/")[2]
