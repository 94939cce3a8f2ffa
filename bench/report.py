"""Results for people: tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from gpudist._tables import Column, Table, show
from gpudist.measure.wording import digits, duration, error_text, quantity


def title(record: Mapping[str, Any]) -> str:
    """Name a result's case.

    Parameters
    ----------
    record : mapping
        A result of an operation.

    Returns
    -------
    str
        Like ``cdist 3000x3000x128 float64 euclidean``.
    """
    parts = [record["op"], "x".join(map(str, record["shape"])), record["dtype"]]
    if record["metric"] is not None:
        parts.append(record["metric"])
    if record.get("arguments"):
        parts.append(record["arguments"])
    return " ".join(parts)


def parts_text(record: Mapping[str, Any]) -> str:
    """Say what a time consists of.

    Parameters
    ----------
    record : mapping
        A result of an operation.

    Returns
    -------
    str
        Like ``271 ms on the device alone, 15.5 ms for the bus and back``; empty where nothing is
        known.
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


def show_ceilings(results: list[dict[str, Any]], file: TextIO | None = None) -> None:
    """Print what the machine can do at most.

    Parameters
    ----------
    results : list of dict
        Results of ceilings.
    file : text stream, optional
        Standard output by default.
    """
    table = Table(
        [
            Column("ceiling", width=8),
            Column("type"),
            Column("measured", right=True),
            Column("median", right=True),
            Column("quartiles", right=True),
            Column("kernel"),
        ],
        title="What this machine can do at most, measured now",
    )
    for result in results:
        table.add(
            result["ceiling"],
            result["dtype"],
            quantity(result["rate"], result["unit"]),
            duration(result["median_s"]),
            _spread(result),
            result["kernel"],
        )
    show(table, file)


def show_result(record: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print one case and its rivals.

    Parameters
    ----------
    record : mapping
        A result of an operation.
    file : text stream, optional
        Standard output by default.
    """
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
    table.add(
        record["kernel"],
        duration(record["median_s"]),
        _spread(record),
        quantity(record["rate"], record["unit"]),
        "" if fraction is None else f"{fraction:.0%}",
        "1x",
        error_text(record["max_relative_error"]) if "max_relative_error" in record else "",
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
        if "median_s" in rival:
            table.add(
                f"{rival['name']} {rival['version']}",
                duration(rival["median_s"]),
                _spread(rival),
                quantity(record["rate"] / rival["ratio"], record["unit"]),
                "",
                f"{digits(rival['ratio'])}x",
                error_text(rival["max_relative_error"]),
            )
        else:
            state = "missing" if "missing" in rival else "failed"
            table.add(rival["name"], state, "", "", "", "", "")
            notes.append(f"{rival['name']}: {rival[state]}")
    show(table, file)
    if notes:
        print("\n".join(notes) + "\n", file=file)


# What errors are relative to where that is not the distance.
MEASURES = {"distance": "", "one": "absolute", "terms": "of the terms' sum"}


def show_accuracy(results: list[dict[str, Any]], file: TextIO | None = None) -> None:
    """Print the worst error of every metric, and the data on which it was made.

    Parameters
    ----------
    results : list of dict
        Results of accuracy cases.
    file : text stream, optional
        Standard output by default.
    """
    table = Table(
        [
            Column("metric"),
            Column("type"),
            Column("max error", right=True),
            Column("on"),
            Column("counted", wrap=True),
            Column("others", wrap=True),
        ],
        title="The largest error on data that is hard to get right",
    )
    for result in results:
        name = f"{result['metric']} {result['arguments']}".rstrip()
        if "failed" in result:
            table.add(name, result["dtype"], "failed", "", "", result["failed"])
            continue
        worst = max(result["errors"], key=lambda data: float(result["errors"][data]))
        others = [
            f"{rival['name']} {error_text(rival['max_error'])}"
            if "max_error" in rival
            else f"{rival['name']} {rival.get('missing') or rival['failed']}"
            for rival in result["rivals"]
        ]
        table.add(
            name,
            result["dtype"],
            error_text(result["max_error"]),
            worst,
            MEASURES[result["errors_relative_to"]],
            ", ".join(others),
        )
    show(table, file)


def _spread(timing: Mapping[str, Any]) -> str:
    return f"{duration(timing['q1_s'])} - {duration(timing['q3_s'])}"
