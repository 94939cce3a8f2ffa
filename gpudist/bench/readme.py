"""Write the README's tables and picture from recorded results: ``python -m gpudist.bench.readme``.

A table stands between ``<!-- table NAME -->`` and ``<!-- end of table -->``. Everything between
is replaced by what ``notebooks/data/*.jsonl`` and the kernel table say, so the README claims
nothing that no JSON line carries. ``--check`` writes nothing and fails where the README is stale.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gpudist
from gpudist._tables import Column, Table
from gpudist.bench import plots
from gpudist.bench.adversary import variants
from gpudist.bench.records import newest, read_lines
from gpudist.bench.report import (
    MEASURES,
    digits,
    duration,
    error_text,
    parts_text,
    quantity,
)

_BLOCK = re.compile(r"(<!-- table (?P<name>[a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

PICTURE = "notebooks/roofline.png"

# A limit that would allow fifty times the speed is not what binds, and says nothing.
_TELLING = 0.02
# The metrics that have a table of several shapes.
_USUAL = ("euclidean", "cityblock")
# Columns of the table of errors, by the rivals' names.
_RIVALS = {
    "torch.cdist": "torch",
    "cupyx cdist": "CuPy (cuVS)",
    "scipy cdist": "SciPy",
    "scikit-learn pairwise_distances": "scikit-learn",
}

Result = Mapping[str, Any]


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Read all recorded results.

    Parameters
    ----------
    folder : Path
        Where the files of JSON lines are.

    Returns
    -------
    list of dict
        Of several results for one case on one device, the newest.
    """
    results = []
    for path in sorted(folder.glob("*.jsonl")):
        for result in read_lines(path):
            if "schema" not in result:
                raise ValueError(f"{path}: a line that gpudist.bench did not write")
            results.append(result)
    return list(newest(results).values())


def _by_device(
    results: Iterable[Result], backend: str, ops: tuple[str, ...]
) -> dict[str, list[Result]]:
    """Group the results of operations by the device that they were measured on."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result["op"] in ops and result["device"].partition(":")[0] == backend:
            found.setdefault(result["device_name"], []).append(result)
    return dict(sorted(found.items()))


def _caption(results: Sequence[Result]) -> str:
    """Say where, when and with what results were measured."""
    first = results[0]
    where = [str(first["device_name"])]
    if first["device"] == "cpu":
        where += [first["isa"], f"{first['threads']} threads"]
    else:
        where += [f"driver {first['driver']}", f"CUDA {first['cuda']}"]
    revisions = sorted({_revision(str(result["revision"])) for result in results})
    days = sorted({str(result["date"])[:10] for result in results})
    return f"{', '.join(where)}; revision {', '.join(revisions)}; {' and '.join(days)}."


def _cdist(backend: str, results: Iterable[Result], *, usual: bool) -> str:
    """Set the results of the two metrics that are measured at several shapes, or of the others."""
    chosen = [
        result
        for result in results
        if usual == (result.get("metric") in _USUAL and not result.get("arguments"))
    ]
    return _operation(("cdist", "pdist"), backend, chosen)


def _revision(text: str) -> str:
    """Shorten a revision, but keep that the source differed from it."""
    commit, dash, state = text.partition("-")
    return commit[:12] + dash + state


def _operation(ops: tuple[str, ...], backend: str, results: Iterable[Result]) -> str:
    """Set the results of one operation, or of two alike, on one backend."""
    parts = []
    for measured in _by_device(results, backend, ops).values():
        table = Table(
            [
                Column("case"),
                Column("time", right=True),
                Column("rate", right=True),
                Column("of the measured limit", right=True),
                Column("max relative error", right=True),
                Column("others, in gpudist's time"),
            ]
        )
        for result in sorted(measured, key=_order):
            if "failed" not in result:
                table.add(*_operation_row(result))
        parts.append(f"{_caption(measured)}\n\n{table.markdown()}")
    return "\n\n".join(parts) or "Nothing is recorded yet."


def _order(result: Result) -> tuple[object, ...]:
    """Sort by dimensions, then size: the order of the suites."""
    shape = result["shape"]
    metric = (result["metric"] or "", result.get("arguments", ""))
    return tuple(shape[2:]), tuple(shape), result["dtype"], metric


def _operation_row(result: Result) -> tuple[str, ...]:
    case = ["first call"] if result["op"] == "first call" else []
    case += [_sizes(result["op"], result["shape"])]
    words = filter(None, [result["metric"], result.get("arguments")])
    case += [*words, result["dtype"]]
    fraction = result["fraction_of_ceiling"] or 0.0
    others = [
        f"{rival['name']} {digits(rival['ratio'])}x"
        f" (error {error_text(rival['max_relative_error'])})"
        for rival in result["rivals"]
        if "ratio" in rival
    ]
    share = result.get("round_fraction_of_ceiling")
    limits = [f"{_percent(fraction)} ({result['bound_by']})"] if fraction >= _TELLING else []
    limits += [] if share is None else [f"a round {_percent(share)}"]
    limits += filter(None, [parts_text(result)])
    return (
        ", ".join(case),
        duration(result["median_s"]),
        quantity(result["rate"], result["unit"]),
        ", ".join(limits),
        error_text(result["max_relative_error"]) if "max_relative_error" in result else "",
        ", ".join(others),
    )


def _percent(share: float) -> str:
    """Set a share of a limit of memory, which what stays in caches may pass."""
    return f"{share:.0%}" + (", from caches" if share > 1 else "")


def _sizes(op: str, shape: Sequence[int]) -> str:
    """Name a case's sizes."""
    if op in ("minplus", "perron"):
        return " x ".join(map(str, shape))
    rows = f"{shape[0]}" if len(set(shape[:2])) == 1 else f"{shape[0]} x {shape[1]}"
    if op == "transitive_closure":
        return f"what {rows} nodes reach"
    if len(shape) == 2:
        return f"{rows} nodes"
    return f"{'pairs of ' if op == 'pdist' else ''}{rows} points, d = {shape[2]}"


def _pictured(results: Iterable[Result]) -> list[Result]:
    """Choose what the roofline shows: the results of the GPU that was measured last."""
    found = [
        result
        for result in results
        if result["device"] != "cpu" and (result["op"] == "ceiling" or "bytes_moved" in result)
    ]
    if not any("bytes_moved" in result for result in found):
        return []
    last = max(found, key=lambda result: str(result["date"]))["device_name"]
    return [result for result in found if result["device_name"] == last]


def _picture(results: Iterable[Result]) -> str:
    """Show the roofline, if there is one."""
    if not _pictured(results):
        return "Nothing is recorded yet."
    return f"![Each kernel under the limits of the GPU]({PICTURE})"


def _draw(results: Iterable[Result], path: Path, *, check: bool) -> bool:
    """Draw the roofline anew if its data have changed; tell whether they had."""
    chosen = _pictured(results)
    if not chosen or (path.is_file() and plots.drawn_from(path) == plots.digest(chosen)):
        return False
    if not check:
        plots.save_roofline(chosen, path)
    return True


def _ceilings(results: Iterable[Result]) -> str:
    """Set what the devices can do at most."""
    results = list(results)
    parts = []
    for backend in ("cuda", "cpu"):
        for measured in _by_device(results, backend, ("ceiling",)).values():
            table = Table([Column("limit"), Column("type"), Column("measured", right=True)])
            for result in measured:
                table.add(
                    result["ceiling"], result["dtype"], quantity(result["rate"], result["unit"])
                )
            parts.append(f"{_caption(measured)}\n\n{table.markdown()}")
    return "\n\n".join(parts) or "Nothing is recorded yet."


def _metric(name: str, arguments: str) -> str:
    """Name a metric with its arguments."""
    return f"{name}, {arguments}" if arguments else name


def _accuracy(results: Iterable[Result]) -> str:
    """Set the worst errors of every metric beside those of other libraries."""
    measured = [r for r in results if r["op"] == "accuracy" and "failed" not in r]
    if not measured:
        return "Nothing is recorded yet."
    devices: dict[str, list[Result]] = {}
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for result in measured:
        devices.setdefault(result["device_name"], []).append(result)
        columns = found.setdefault((result["metric"], result["arguments"]), {})
        ours = "CPU" if result["device"] == "cpu" else "GPU"
        for name, entry in (
            (ours, result),
            *((rival["name"], rival) for rival in result["rivals"]),
        ):
            if "max_error" in entry:
                errors = columns.setdefault(name, {})
                error = float(entry["max_error"])
                errors[result["dtype"]] = max(error, errors.get(result["dtype"], 0.0))
    rivals = [name for name in _RIVALS if any(name in columns for columns in found.values())]
    table = Table(
        [
            Column("metric"),
            *(
                Column(f"{where} {dtype}", right=True)
                for where in ("CPU", "GPU")
                for dtype in ("float32", "float64")
            ),
            *(Column(_RIVALS[name], right=True) for name in rivals),
        ]
    )
    rules = {(r["metric"], r["arguments"]): MEASURES[r["errors_relative_to"]] for r in measured}
    for variant in variants():
        key = (variant.metric, variant.arguments)
        if key not in found:
            continue
        name = _metric(*key)
        table.add(
            f"{name} ({rules[key]})" if rules[key] else name,
            *(
                _error(found[key].get(where, {}), dtype)
                for where in ("CPU", "GPU")
                for dtype in ("float32", "float64")
            ),
            *(
                ""
                if rival not in found[key]
                else " / ".join(_error(found[key][rival], t) for t in ("float32", "float64"))
                for rival in rivals
            ),
        )
    captions = [_caption(devices[name]) for name in sorted(devices)]
    return "\n\n".join([*captions, table.markdown()])


def _error(errors: Mapping[str, float], dtype: str) -> str:
    """Write an error with two digits, and what JSON's infinity stands for as a word."""
    if dtype not in errors:
        return ""
    return error_text(errors[dtype]) if errors[dtype] < math.inf else "wrong"


def _kernels(_results: Iterable[Result]) -> str:
    """Set what runs where, by the kernel table."""
    table = Table([Column("kernel"), Column("needs"), Column("types"), Column("metrics")])
    for kernel in gpudist.kernels():
        if kernel.op != "ceiling":
            table.add(
                f"`{kernel.id}`",
                kernel.needs,
                ", ".join(kernel.dtypes),
                ", ".join(kernel.metrics),
            )
    return table.markdown()


_GRAPHS = ("apsp", "transitive_closure")
_TABLES: Mapping[str, Callable[[Iterable[Result]], str]] = {
    "cdist-cuda": lambda results: _cdist("cuda", results, usual=True),
    "cdist-cpu": lambda results: _cdist("cpu", results, usual=True),
    "metrics-cuda": lambda results: _cdist("cuda", results, usual=False),
    "metrics-cpu": lambda results: _cdist("cpu", results, usual=False),
    "accuracy": _accuracy,
    "apsp-cuda": lambda results: _operation(_GRAPHS, "cuda", results),
    "apsp-cpu": lambda results: _operation(_GRAPHS, "cpu", results),
    "minplus-cuda": lambda results: _operation(("minplus",), "cuda", results),
    "minplus-cpu": lambda results: _operation(("minplus",), "cpu", results),
    "perron-cuda": lambda results: _operation(("perron",), "cuda", results),
    "perron-cpu": lambda results: _operation(("perron",), "cpu", results),
    "transfer-cuda": lambda results: _operation(("transfer", "first call"), "cuda", results),
    "roofline": lambda results: _picture(results),
    "ceilings": _ceilings,
    "kernels": _kernels,
}


def render(text: str, results: Sequence[Result]) -> str:
    """Replace the tables of a README.

    Parameters
    ----------
    text : str
        The README.
    results : sequence of dict
        As `recorded` gives them.

    Returns
    -------
    str
        The README with its tables up to date.

    Raises
    ------
    ValueError
        If a marker names no table, or one without an end.
    """

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in _TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join(_TABLES)}")
        return f"{match[1]}\n{_TABLES[name](results)}\n\n{match[3]}"

    if text.count("<!-- table ") != len(_BLOCK.findall(text)):
        raise ValueError("a table's marker has no end")
    return _BLOCK.sub(replace, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring the README up to date, or check that it is.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line; the process's own by default.

    Returns
    -------
    int
        The exit status: 1 where ``--check`` finds the README stale.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gpudist.bench.readme",
        description="Write the README's tables from the recorded results.",
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="the repository")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    options = parser.parse_args(arguments)
    readme = options.root / "README.md"
    old = readme.read_text(encoding="utf-8")
    results = recorded(options.root / "notebooks" / "data")
    new = render(old, results)
    redrawn = _draw(results, options.root / PICTURE, check=options.check)
    if old == new and not redrawn:
        return 0
    if options.check:
        print(f"{readme} is stale: run python -m gpudist.bench.readme", file=sys.stderr)
        return 1
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
