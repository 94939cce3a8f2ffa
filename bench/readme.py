"""Write the pages' tables and pictures from recorded results: ``python -m bench.readme``.

A page is ``README.md`` or a Markdown file of ``docs/``. A table stands there between
``<!-- table NAME -->`` and ``<!-- end of table -->``. Everything between is replaced by what
``notebooks/data/*.jsonl`` and the kernel table say, so the pages claim nothing that no JSON line
carries. The pages of devices and the CSV files are written as a whole (`bench.site`). ``--check``
writes nothing and fails where a page is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import gpudist
from bench import plots, site
from bench.lines import newest, read_lines
from bench.report import ceilings_table, errors_table, headings, parts_text
from gpudist._tables import Table
from gpudist.ladder import STUDIES
from gpudist.measure import chart
from gpudist.measure.wording import digits, duration, error_text, quantity, threads

_BLOCK = re.compile(
    r"^(<!-- table (?P<name>[a-z0-9-]+) -->\n).*?^(<!-- end of table -->)", re.DOTALL | re.MULTILINE
)
_MARKER = re.compile(r"^<!-- table ", re.MULTILINE)

PICTURE = "notebooks/roofline.png"
HEADLINES = "docs/headlines.png"
# Folders of docs/ that others write: Sphinx, and `bench.site`.
_NOT_OURS = {"_build", "_templates", "gallery", "generated", site.FOLDER}

# A limit that would allow fifty times the speed is not what binds, and says nothing.
_TELLING = 0.02
# The metrics that have a table of several shapes.
_USUAL = ("euclidean", "cityblock")
# What the README shows of all results: backend, operation, metric, arguments, sizes, dtype, and the
# library that people have for it. Of several devices of a backend the one that was measured last is
# shown.
_HEADLINES: tuple[tuple[str, str, str | None, str, list[int], str, str], ...] = (
    ("cuda", "cdist", "euclidean", "", [16384, 16384, 128], "float32", "torch.cdist"),
    ("cuda", "cdist", "cityblock", "", [16384, 16384, 128], "float32", "torch.cdist"),
    (
        "cuda", "knn", "euclidean", "k = 10", [10_000, 1_000_000, 128], "float32",
        "torch.cdist and topk, in panels",
    ),
    ("cuda", "apsp", None, "", [4096, 4096], "float32", "torch, loop over k"),
    ("cpu", "cdist", "cityblock", "", [3000, 3000, 128], "float64", "scipy cdist"),
    ("cpu", "apsp", None, "", [2000, 2000], "float64", "scipy floyd_warshall"),
)  # fmt: skip

_NAMES = "op", "metric", "arguments", "shape", "dtype"

Result = Mapping[str, Any]


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Read all results of a folder; of several for one case on one device, the newest."""
    results = []
    for path in sorted(folder.glob("*.jsonl")):
        for result in read_lines(path):
            if "schema" not in result:
                raise ValueError(f"{path}: a line that bench did not write")
            results.append(result)
    return list(newest(results).values())


def _caption(results: Sequence[Result]) -> str:
    """Say where, when and with what results were measured."""
    first = results[0]
    where = [str(first["device_name"])]
    if first["device"] == "cpu":
        where += [first["isa"], threads(first["threads"])]
    else:
        for name, key in (("driver", "driver"), ("CUDA", "cuda")):
            where.append(f"{name} {' and '.join(sorted({str(one[key]) for one in results}))}")
    revisions = sorted({_revision(str(result["revision"])) for result in results})
    days = sorted({str(result["date"])[:10] for result in results})
    return f"{', '.join(where)}; revision {', '.join(revisions)}; {' and '.join(days)}."


def _revision(text: str) -> str:
    """Shorten a revision, but keep that the source differed from it."""
    commit, dash, state = text.partition("-")
    return commit[:12] + dash + state


def _on_devices(
    backend: str,
    results: Iterable[Result],
    ops: tuple[str, ...],
    table: Callable[[list[Result]], Table],
) -> str:
    """Set the results of operations on one backend, a table for each device."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result["op"] in ops and result["device"].partition(":")[0] == backend:
            found.setdefault(result["device_name"], []).append(result)
    parts = [f"{_caption(of)}\n\n{table(of).markdown()}" for _, of in sorted(found.items())]
    return "\n\n".join(parts) or site.NOTHING


def _cdist(backend: str, results: Iterable[Result], *, usual: bool) -> str:
    """Set the results of the two metrics that are measured at several shapes, or of the others."""
    chosen = [
        result
        for result in results
        if usual == (result.get("metric") in _USUAL and not result.get("arguments"))
    ]
    return _on_devices(backend, chosen, ("cdist", "pdist"), _operation)


def _operation(results: Iterable[Result]) -> Table:
    """Set the results of one operation, or of two alike, on one device."""
    titles = "case", ">time", ">rate", ">of the measured limit", ">max relative error"
    table = Table(headings(*titles, "others, in gpudist's time"))
    for result in sorted(results, key=_order):
        if "failed" not in result:
            table.add(*_operation_row(result))
    return table


def _order(result: Result) -> tuple[object, ...]:
    """Sort by dimensions, then size: the order of the suites."""
    shape = result["shape"]
    metric = (result["metric"] or "", result.get("arguments", ""))
    return tuple(shape[2:]), tuple(shape), result["dtype"], metric


def _case(result: Result) -> str:
    """Name what was measured."""
    case = ["first call"] if result["op"] == "first call" else []
    case += [f"{len(result['devices'])} GPUs"] if result["op"] == "several" else []
    case += [_sizes(result["op"], result["shape"])]
    words = filter(None, [result["metric"], result.get("arguments")])
    return ", ".join([*case, *words, result["dtype"]])


def _operation_row(result: Result) -> tuple[str, ...]:
    fraction = result["fraction_of_ceiling"] or 0.0
    others = [
        f"{rival['name']} {digits(rival['ratio'])}x"
        f" (error {error_text(rival['max_relative_error'])})"
        for rival in _timed(result)
    ]
    share = result.get("round_fraction_of_ceiling")
    limits = [f"{_percent(fraction)} ({result['bound_by']})"] if fraction >= _TELLING else []
    limits += [] if share is None else [f"a round {_percent(share)}"]
    limits += filter(None, [parts_text(result)])
    return (
        _case(result),
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
    if op == "apsp_batch":
        return f"{shape[0]} graphs of {shape[1]} nodes"
    if op == "training":
        count = f"{shape[0]} matrices of " if shape[0] > 1 else ""
        return f"{count}{shape[1]} x {shape[2]} points, d = {shape[3]}"
    if len(shape) == 2:
        return f"{rows} nodes"
    return f"{'pairs of ' if op == 'pdist' else ''}{rows} points, d = {shape[2]}"


def _beside(pairs: Sequence[tuple[Result, Result]]) -> str:
    """Set results, each beside another library's of the same run."""
    ours = "what", "where", ">gpudist", ">error"
    table = Table(headings(*ours, "other", ">its time", ">its error", ">times as fast"))
    for result, rival in pairs:
        table.add(
            f"{result['op']}: {_case(result)}",
            result["device_name"],
            duration(result["median_s"]),
            error_text(result["max_relative_error"]),
            f"{rival['name']} ({rival['version']})",
            duration(rival["median_s"]),
            error_text(rival["max_relative_error"]),
            f"{digits(rival['ratio'])}x",
        )
    return _under_captions([result for result, _ in pairs], table)


def _under_captions(measured: Sequence[Result], table: Table) -> str:
    """Set a table of results from several devices, under what is to be said of each."""
    devices = dict.fromkeys(result["device_name"] for result in measured)
    captions = [_caption([r for r in measured if r["device_name"] == name]) for name in devices]
    return "\n\n".join([*captions, table.markdown()]) if measured else site.NOTHING


def _timed(result: Result) -> Iterable[Result]:
    """Give the rivals that ran, with what was measured of them."""
    return (rival for rival in result.get("rivals", ()) if "ratio" in rival)


def _chosen(results: Iterable[Result]) -> list[tuple[Result, Result]]:
    """Choose the few results that the README shows, each with a library's."""
    results = sorted(results, key=lambda result: str(result["date"]), reverse=True)
    pairs: list[tuple[Result, Result]] = []
    for backend, op, metric, arguments, shape, dtype, library in _HEADLINES:
        wanted = op, metric, arguments, shape, dtype
        measured = (
            (result, rival)
            for result in results
            if result["device"].partition(":")[0] == backend
            and tuple(result.get(name, "") for name in _NAMES) == wanted
            for rival in _timed(result)
            if rival["name"] == library
        )
        pairs += islice(measured, 1)
    return pairs


def _chart(results: Iterable[Result]) -> str:
    """Show the same as a picture; its page is in ``docs/``."""
    if not _chosen(results):
        return site.NOTHING
    return f"![How many times as long other libraries take]({Path(HEADLINES).name})"


def _slower(results: Iterable[Result]) -> str:
    """Set every result that another library had in less time."""
    found = [
        (result, rival)
        for result in results
        if result["op"] not in ("ladder", "dask")
        for rival in _timed(result)
        if rival["ratio"] < 1
    ]
    return _beside(sorted(found, key=lambda pair: (pair[0]["device_name"], pair[1]["ratio"])))


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
    """Show the roofline, if there is one; its page is in ``docs/``."""
    if not _pictured(results):
        return site.NOTHING
    return f"![Each kernel under the limits of the GPU](../{PICTURE})"


def _draw(results: Sequence[Result], root: Path, *, check: bool) -> list[Path]:
    """Draw the pictures anew whose data have changed; give their paths."""
    points = _pictured(results)
    lines: list[Result] = [{**result, "rivals": [rival]} for result, rival in _chosen(results)]
    pictures: tuple[tuple[str, list[Result], Callable[[Sequence[Result]], Any]], ...] = (
        (PICTURE, points, chart.roofline),
        (HEADLINES, lines, plots.headlines),
    )
    stale = []
    for name, drawn, draw in pictures:
        path = root / name
        if drawn and not (path.is_file() and plots.drawn_from(path) == plots.digest(drawn)):
            stale.append(path)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                plots.save(draw, drawn, path)
    return stale


def _accuracy(results: Iterable[Result]) -> str:
    """Set the worst errors of every metric beside those of other libraries."""
    measured = [r for r in results if r["op"] == "accuracy" and "failed" not in r]
    measured.sort(key=lambda result: str(result["device_name"]))
    return _under_captions(measured, errors_table(measured))


def _kernels(_results: Iterable[Result]) -> str:
    """Set what runs where, by the kernel table."""
    table = Table(headings("kernel", "needs", "types", "metrics"))
    for kernel in gpudist.kernels():
        if kernel.op != "ceiling":
            lists = (", ".join(listed) for listed in (kernel.dtypes, kernel.metrics))
            table.add(f"`{kernel.id}`", kernel.needs, *lists)
    return table.markdown()


# Ladders that are part of another.
_ALONG = {name for study in STUDIES.values() for name in study.along}
# Tables of operations, each for either backend.
_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "apsp": ("apsp", "transitive_closure"),
    "batches": ("apsp_batch",),
    "minplus": ("minplus",),
    "neighbors": ("knn",),
    "perron": ("perron",),
    "several": ("several", "dask"),
    "training": ("training",),
    "transfer": ("transfer", "first call"),
}
_OF_BACKENDS: Mapping[str, Callable[[str, Iterable[Result]], str]] = {
    "cdist": partial(_cdist, usual=True),
    "metrics": partial(_cdist, usual=False),
    "ceilings": partial(_on_devices, ops=("ceiling",), table=ceilings_table),
    **{name: partial(_on_devices, ops=ops, table=_operation) for name, ops in _OPERATIONS.items()},
}
_TABLES: Mapping[str, Callable[[Iterable[Result]], str]] = {
    "headlines": lambda results: _beside(_chosen(results)),
    "slower": _slower,
    "accuracy": _accuracy,
    "roofline": _picture,
    "kernels": _kernels,
    "chart": _chart,
    "devices": site.devices,
    "metrics": site.metrics,
    "edges": site.edges,
    **{f"ladder-{name}": partial(site.ladder, name) for name in STUDIES if name not in _ALONG},
    **{
        f"{name}-{backend}": partial(of_backend, backend)
        for name, of_backend in _OF_BACKENDS.items()
        for backend in ("cuda", "cpu")
    },
}


def render(text: str, results: Sequence[Result]) -> str:
    """Replace the tables of a page; a marker without a table or an end is a ValueError."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in _TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join(_TABLES)}")
        return f"{match[1]}\n{_TABLES[name](results)}\n\n{match[3]}"

    if len(_MARKER.findall(text)) != len(_BLOCK.findall(text)):
        raise ValueError("a table's marker has no end")
    return _BLOCK.sub(replace, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring the pages up to date, or check that they are; status 1 if one is stale."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.readme",
        description="Write the tables of README.md and docs/ from the recorded results.",
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="the repository")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    options = parser.parse_args(arguments)
    results = recorded(options.root / "notebooks" / "data")
    stale = _draw(results, options.root, check=options.check)
    pages = _pages(options.root, results)
    for page, text in pages.items():
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(page)
        if not options.check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    for page in sorted({*(options.root / "docs" / site.FOLDER).glob("*.*")} - pages.keys()):
        stale.append(page)  # of a device that no result is of any more
        if not options.check:
            page.unlink()
    if not (options.check and stale):
        return 0
    for path in stale:
        print(f"{path} is stale: run python -m bench.readme", file=sys.stderr)
    return 1


def _pages(root: Path, results: Sequence[Result]) -> dict[Path, str]:
    """Give what every page has to be: those with tables in them, and those made as a whole."""
    docs = root / "docs"
    texts = {
        page: render(page.read_text(encoding="utf-8"), results)
        for page in (root / "README.md", *sorted(docs.rglob("*.md")))
        if not _NOT_OURS.intersection(page.relative_to(root).parts)
    }
    return texts | {docs / name: text for name, text in site.files(results, _TABLES).items()}


if __name__ == "__main__":
    sys.exit(main())
