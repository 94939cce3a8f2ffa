"""What ``bench.readme`` writes for the site beside the tables of its pages.

A page and a CSV file for each device that was measured, CSV files of the errors and of the kernels,
the metrics and what they give at their edges, and the steps of the ladders.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpudist
from bench.report import headings
from gpudist._tables import Table
from gpudist.ladder import STUDIES
from gpudist.measure.wording import duration, error_text, quantity
from gpudist.metrics import METRICS

Result = Mapping[str, Any]
Tables = Mapping[str, Callable[[Iterable[Result]], str]]

NOTHING = "Nothing is recorded yet."
# Where the page of each device lies, below docs/.
FOLDER = "performance"

# The sections of a device's page: a heading, what to know, by backend if that makes a difference,
# and the table, which is of its backend.
_SECTIONS: tuple[tuple[str, str | Mapping[str, str], str], ...] = (
    ("Distances", "", "cdist"),
    ("Other metrics", "", "metrics"),
    (
        "Nearest neighbours",
        "The limit is that of reading the points once; it leaves out that all pairs are looked at.",
        "neighbors",
    ),
    (
        "Distances with gradients",
        "Forward, or forward and back by PyTorch's autograd, whose own work counts.",
        "training",
    ),
    ("Shortest paths", "", "apsp"),
    ("Shortest paths in many graphs", "", "batches"),
    ("Products over semirings", "", "minplus"),
    ("Largest eigenvalues", "", "perron"),
    (
        "From NumPy to NumPy",
        "The ways over the bus and back are counted. A result in new memory also costs the first\n"
        "touch of its pages; `out=` takes an array that is there. Results travel while later rows\n"
        "are computed; a graph of 8192 nodes or more goes through its first stages while it\n"
        "arrives, and through the last ones while the paths leave.",
        "transfer",
    ),
    (
        "Shared calls",
        {
            "cuda": "GPUs share a call from NumPy to NumPy; beside them one GPU, in the same run.",
            "cpu": "Two workers of Dask's compute a plan and keep the result; beside them one\n"
            "process of as many threads, in the same run.",
        },
        "several",
    ),
    ("What the device can do at most", "", "ceilings"),
)

# Columns of a device's CSV file: what a case says, of other libraries' lines too, and the rest.
_OF_CASES = (
    "date", "revision", "device", "device_name", "op", "metric", "arguments", "shape", "dtype",
    "unit", "bound_by",
)  # fmt: skip
_MEASURED = (
    *_OF_CASES[:9], "library", "version", "kernel", "median_s", "rate", *_OF_CASES[9:],
    "fraction_of_ceiling", "max_relative_error", "time_over_gpudists",
)  # fmt: skip


def _slug(name: str) -> str:
    """Turn a device's name into a file's."""
    plain = re.sub(r"\((?:r|tm|c)\)", "", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _measured(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group by device what its page shows, GPUs first."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result["op"] not in ("accuracy", "ladder", "sweep") and "failed" not in result:
            found.setdefault(str(result["device_name"]), []).append(result)
    return dict(sorted(found.items(), key=lambda item: (item[1][0]["device"] == "cpu", item[0])))


def devices(results: Iterable[Result]) -> str:
    """Set the list of devices with links to their pages, for a page in ``docs/``."""
    table = Table(headings("device", ">cases", "last", "data"))
    for name, measured in _measured(results).items():
        cases = [result for result in measured if result["op"] != "ceiling"]
        place = f"{FOLDER}/{_slug(name)}"
        last = max(str(result["date"])[:10] for result in measured)
        table.add(f"[{name}]({place}.md)", str(len(cases)), last, f"[CSV]({place}.csv)")
    return table.markdown() if table.rows else NOTHING


def files(results: Sequence[Result], tables: Tables) -> dict[Path, str]:
    """Make the text of the files below ``docs/`` that are generated as a whole."""
    made = {Path("accuracy.csv"): _errors(results), Path("kernels.csv"): _kernels()}
    for name, measured in _measured(results).items():
        place = Path(FOLDER, _slug(name))
        made[place.with_suffix(".csv")] = _lines(measured)
        made[place.with_suffix(".md")] = _page(name, place.name, measured, tables)
    return made


def _page(name: str, slug: str, measured: Sequence[Result], tables: Tables) -> str:
    """Write a device's page."""
    parts = [
        f"# {name}",
        "This page is generated. [How fast it is](../performance.md) says how these figures were\n"
        f"measured and what the columns mean; [the same as CSV]({slug}.csv) has them unrounded.",
    ]
    backend = str(measured[0]["device"]).partition(":")[0]
    for heading, words, table in _SECTIONS:
        shown = tables[f"{table}-{backend}"](measured)
        said = words if isinstance(words, str) else words[backend]
        if shown != NOTHING:
            parts += [f"## {heading}", *filter(None, [said]), shown]
    return "\n\n".join(parts) + "\n"


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()


def _lines(measured: Iterable[Result]) -> str:
    """Write a row for each result, and one for each other library that was timed beside it."""
    rows = []
    for result in measured:
        case = {**result, "shape": "x".join(map(str, result.get("shape", ())))}
        if result["op"] == "ceiling":
            case["bound_by"] = result["ceiling"]
        version = result.get("versions", {}).get("gpudist")
        entries = [{**case, "library": "gpudist", "version": version}]
        entries += [
            {
                **{name: case.get(name) for name in _OF_CASES},
                **rival,
                "library": rival["name"],
                "time_over_gpudists": rival["ratio"],
            }
            for rival in result.get("rivals", ())
            if "ratio" in rival
        ]
        rows += [[entry.get(column) for column in _MEASURED] for entry in entries]
    return _csv(_MEASURED, sorted(rows, key=lambda row: [str(cell) for cell in row[4:10]]))


def _errors(results: Iterable[Result]) -> str:
    """Write the largest errors of every metric, ours and other libraries'."""
    columns = ("device_name", "metric", "arguments", "dtype", "library", "max_error", "relative_to")
    rows = [
        (
            result["device_name"],
            result["metric"],
            result["arguments"],
            result["dtype"],
            entry.get("name", "gpudist"),
            entry["max_error"],
            result["errors_relative_to"],
        )
        for result in results
        if result["op"] == "accuracy" and "failed" not in result
        for entry in (result, *result["rivals"])
        if "max_error" in entry
    ]
    return _csv(columns, sorted(rows, key=lambda row: [str(cell) for cell in row]))


def _kernels() -> str:
    """Write the table of kernels, in the order in which they are preferred."""
    columns = ("id", "op", "backend", "needs", "dtypes", "metrics", "ladder", "idea", "source")
    rows = []
    for kernel in gpudist.kernels():
        if kernel.op != "ceiling":
            cells = (getattr(kernel, column) for column in columns)
            rows.append([" ".join(c) if isinstance(c, tuple) else c for c in cells])
    return _csv(columns, rows)


# ---------------------------------------------------------------- metrics


def metrics(_results: Iterable[Result]) -> str:
    """Set the table of metrics, for a page that has a heading for each."""
    table = Table(headings("metric", "aliases", "arguments", "reads", "the nearest has"))
    for metric in METRICS:
        reads = {"either": "numbers, or truths quicker"}.get(metric.domain, metric.domain)
        table.add(
            f"[{metric.name}](#{metric.name})",
            ", ".join(metric.aliases),
            ", ".join(f"`{name}`" for name in metric.arguments),
            f"{metric.columns} columns of {reads}" if metric.columns else reads,
            f"the {'largest' if metric.similarity else 'smallest'}",
        )
    return table.markdown()


# Pairs of rows that show what a metric does at its edges, and what stands above their column.
_EDGES: tuple[tuple[str, list[float], list[float]], ...] = (
    ("equal rows", [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ("(0, 0, 0), (0, 0, 0)", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ("(0, 0, 0), (.2, .3, .5)", [0.0, 0.0, 0.0], [0.2, 0.3, 0.5]),
    ("(NaN, 1, 0), (.2, .3, .5)", [math.nan, 1.0, 0.0], [0.2, 0.3, 0.5]),
    ("no columns", [], []),
)


def edges(_results: Iterable[Result]) -> str:
    """Set what metrics give at their edges, by the formulas in NumPy."""
    table = Table(headings("metric", *(f">{title}" for title, _, _ in _EDGES)))
    for metric in METRICS:
        cells = []
        for _, x, y in _EDGES:
            columns = min(len(x), metric.columns or len(x))
            first, second = (np.array([row[:columns]]) for row in (x, y))
            unit = {"V": np.ones(columns), "VI": np.eye(columns)}
            given: dict[str, Any] = {name: unit[name] for name in metric.arguments if name in unit}
            try:
                found = gpudist.cdist(first, second, metric.name, kernel="reference", **given)
                value = round(float(found[0, 0]), 4) + 0.0
                cells.append("NaN" if math.isnan(value) else f"{value:g}")
            except ValueError:
                cells.append("ValueError")
        table.add(metric.name, *cells)
    return table.markdown()


# ---------------------------------------------------------------- ladders


def ladder(name: str, results: Iterable[Result]) -> str:
    """Set a ladder: its steps as they were measured, then each step's file.

    A step has a section with the directive ``ladder-step`` of ``docs/conf.py``.
    """
    names = (name, *STUDIES[name].along)
    parts = [_climbed(one, results) for one in names]
    for kernel in gpudist.kernels():
        if kernel.ladder in names and kernel.backend == "cuda":
            parts.append(
                f"## {_title(kernel.id)}\n\n*{kernel.idea[0].upper()}{kernel.idea[1:]}.*\n\n"
                f"```{{ladder-step}} {kernel.id}\n```"
            )
    return "\n\n".join(filter(None, parts))


def _title(kernel: str) -> str:
    """Turn ``edm2d/4_no_division`` into ``4. No division``."""
    words = kernel.rpartition("/")[2].replace("_", " ")
    number, _, rest = words.partition(" ")
    if number.isdigit():
        return f"{number}. {rest[0].upper()}{rest[1:]}"
    return "The whole loop" if kernel == "perron" else f"{words[0].upper()}{words[1:]}"


def _climbed(name: str, results: Iterable[Result]) -> str:
    """Set the steps of one ladder at the study's first size, on the GPU measured last."""
    study = STUDIES[name]
    steps = [
        result
        for result in results
        if result["op"] == "ladder"
        and result["ladder"] == name
        and result["role"] == "step"
        and result["device"] != "cpu"
        and tuple(result["shape"]) == study.problems[0].shape
        and "median_s" in result
    ]
    if not steps:
        return ""
    last = max(steps, key=lambda result: str(result["date"]))
    theirs = f">the study's own figure, on {study.card}"
    titles = "step", ">time", ">rate", ">of the measured limit", ">max error", theirs
    table = Table(headings(*titles))
    for result in sorted(steps, key=lambda result: result["step"]):
        if result["device_name"] == last["device_name"]:
            share = result["fraction_of_ceiling"]
            table.add(
                result["name"],
                duration(result["median_s"]),
                quantity(result["rate"], result["unit"]),
                "" if share is None else f"{share:.0%} ({result['bound_by']})",
                error_text(result["max_relative_error"]),
                str(result.get("reported", "")),
            )
    size = " x ".join(map(str, last["shape"]))
    summary = study.summary[0].upper() + study.summary[1:]
    return (
        f"{summary}: {size}, {last['dtype']}, on {last['device_name']},"
        f" {str(last['date'])[:10]}.\n\n{table.markdown()}"
    )
