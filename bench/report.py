"""Results for people: tables of the terminal, and two that pages have as well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from bench.adversary import variants
from gpudist._tables import Column, Table, show
from gpudist.measure.wording import digits, duration, error_text, quantity


def title(record: Mapping[str, Any]) -> str:
    """Name a result's case, like ``cdist 3000x3000x128 float64 euclidean``."""
    parts = [record["op"], "x".join(map(str, record["shape"])), record["dtype"]]
    if record["metric"] is not None:
        parts.append(record["metric"])
    if record.get("arguments"):
        parts.append(record["arguments"])
    return " ".join(parts)


def parts_text(record: Mapping[str, Any]) -> str:
    """Say what a time consists of, if that is known.

    Like ``271 ms on the device alone, 15.5 ms for the bus and back``.
    """
    if "on_device_s" in record:
        work = record["on_device_s"]
        rest = duration(max(record["median_s"] - work, 0.0))
        return f"{duration(work)} on the device alone, {rest} for the bus and back"
    if "parts" in record:
        took = {name: duration(seconds) for name, seconds in record["parts"].items()}
        return (
            f"device ready after {took['device_s']}, the call then {took['first_s']}, the next one"
            f" {took['later_s']}; import {took['import_s']}"
        )
    return ""


def headings(*titles: str) -> list[Column]:
    """Make columns by their titles; ``>`` stands before those whose cells are set flush right."""
    return [Column(title.removeprefix(">"), right=title.startswith(">")) for title in titles]


def ceilings_table(results: Iterable[Mapping[str, Any]]) -> Table:
    """Set what a device can do at most."""
    table = Table(headings("limit", "type", ">measured"))
    for result in results:
        table.add(result["ceiling"], result["dtype"], quantity(result["rate"], result["unit"]))
    return table


def show_result(record: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print one case and its rivals."""
    heading = title(record)
    if record.get("bound_by"):
        heading += f"   (at least {duration(record['floor_s'])}: {record['bound_by']} limit)"
    table = Table(
        [
            Column("", width=32),
            Column("median", right=True, width=9),
            Column("quartiles", right=True, width=19),
            Column("rate", right=True, width=25),
            Column("of limit", right=True),
            Column("time", right=True, width=7),
            Column("max error", right=True),
        ],
        title=heading,
    )
    if "failed" in record:
        table.add("gpudist", "failed", "", "", "", "", "")
        show(table, file)
        print(f"gpudist: {record['failed']}\n", file=file)
        return
    fraction = record["fraction_of_ceiling"]
    for timing in (record, *(rival for rival in record["rivals"] if "median_s" in rival)):
        ours, ratio = timing is record, timing.get("ratio", 1.0)
        table.add(
            record["kernel"] if ours else f"{timing['name']} {timing['version']}",
            duration(timing["median_s"]),
            f"{duration(timing['q1_s'])} - {duration(timing['q3_s'])}",
            quantity(record["rate"] / ratio, record["unit"]),
            f"{fraction:.0%}" if ours and fraction is not None else "",
            "1x" if ours else f"{digits(ratio)}x",
            error_text(timing["max_relative_error"]) if "max_relative_error" in timing else "",
        )
    notes = []
    if record.get("held_by"):
        megahertz = record["sm_clock_hz"] / 1e6
        notes.append(f"{record['held_by']} held the card's clock down: {megahertz:.0f} MHz")
    if "round_s" in record:
        share = record["round_fraction_of_ceiling"]
        limit = "" if share is None else f", {share:.0%} of what one read of the matrix may take"
        notes.append(f"one round: {duration(record['round_s'])}{limit}")
    if "extra_host_bytes" in record:
        taken = {"host": record["extra_host_bytes"], "pinned": record["pinned_bytes"]}
        if "device_bytes" in record:
            taken["device"] = record["device_bytes"]
        listed = ", ".join(f"{kind} {n / 1e6:.1f} MB" for kind, n in taken.items())
        notes.append(f"memory beside arguments and result: {listed}")
    if "quiet_s" in record:
        times = digits(record["median_s"] / record["quiet_s"])
        notes.append(f"without a product before it: {duration(record['quiet_s'])}; {times}x of it")
    notes += filter(None, [parts_text(record)])
    for rival in record["rivals"]:
        if state := {"missing", "failed"} & rival.keys():
            table.add(rival["name"], *state, "", "", "", "", "")
            notes.append(f"{rival['name']}: {rival[state.pop()]}")
    show(table, file)
    if notes:
        print("\n".join(notes) + "\n", file=file)


# What errors are relative to where that is not the distance.
MEASURES = {"distance": "", "one": " (absolute)", "terms": " (of the terms' sum)"}
# Columns of the table of errors: ours, each of one type, and those of other libraries by name.
_OURS, _TYPES = ("CPU", "GPU"), ("float32", "float64")
_RIVALS = {
    "torch.cdist": "torch",
    "cupyx cdist": "CuPy (cuVS)",
    "scipy cdist": "SciPy",
    "scikit-learn pairwise_distances": "scikit-learn",
    "numkong cdist": "NumKong",
}


def errors_table(results: Iterable[Mapping[str, Any]]) -> Table:
    """Set the worst errors of every metric beside those of other libraries."""
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    rules = {}
    for result in results:
        if "failed" in result:
            continue
        metric = result["metric"], result["arguments"]
        rules[metric] = MEASURES[result["errors_relative_to"]]
        errors = found.setdefault(metric, {})
        mine = {**result, "name": "CPU" if result["device"] == "cpu" else "GPU"}
        for entry in (mine, *result["rivals"]):
            if "max_error" in entry:
                key = entry["name"], result["dtype"]
                errors[key] = max(float(entry["max_error"]), errors.get(key, 0.0))
    named = {name for errors in found.values() for name, _ in errors}
    rivals = [name for name in _RIVALS if name in named]
    ours = (f">{name} {dtype}" for name in _OURS for dtype in _TYPES)
    table = Table(headings("metric", *ours, *(f">{_RIVALS[name]}" for name in rivals)))
    for variant in variants():
        metric = variant.metric, variant.arguments
        if metric in found:
            cells = {
                name: [_error(found[metric].get((name, dtype))) for dtype in _TYPES]
                for name in (*_OURS, *rivals)
            }
            table.add(
                ", ".join(filter(None, metric)) + rules[metric],
                *(cell for name in _OURS for cell in cells[name]),
                *(" / ".join(cells[name]) if any(cells[name]) else "" for name in rivals),
            )
    return table


def _error(error: float | None) -> str:
    """Write an error with two digits, and what JSON's infinity stands for as a word."""
    if error is None:
        return ""
    return error_text(error) if error < math.inf else "wrong"
