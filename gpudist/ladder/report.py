"""Ladders for people: tables in the terminal, and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gpudist._tables import Column, Table, show
from gpudist.measure import chart
from gpudist.measure.wording import duration, error_text, quantity

if TYPE_CHECKING:
    from gpudist.ladder.studies import Study

Record = Mapping[str, Any]


def size(record: Record) -> str:
    """Name a problem.

    Parameters
    ----------
    record : mapping
        A result.

    Returns
    -------
    str
        Like ``2048x1024x16 float32``.
    """
    return f"{'x'.join(map(str, record['shape']))} {record['dtype']}"


def heading(records: Sequence[Record]) -> str:
    """Name a ladder, its problem and the limit that binds.

    Parameters
    ----------
    records : sequence of mapping
        Results of one problem on one device.

    Returns
    -------
    str
        One line.
    """
    first = records[0]
    words = f"{first['ladder']} {size(first)} on {first['device']} ({first['device_name']})"
    bounds = [record for record in records if record.get("bound_by")]
    if bounds:
        words += f", at least {duration(bounds[0]['floor_s'])}: {bounds[0]['bound_by']} limit"
    return words


def show_climb(
    records: Sequence[Record], serial: Record | None = None, file: TextIO | None = None
) -> None:
    """Print the steps of a ladder on one problem, and what stands beside them.

    Parameters
    ----------
    records : sequence of mapping
        Results of one problem on one device.
    serial : mapping, optional
        The plain loop on one thread of the CPU, from whose rate speed-ups are counted.
    file : text stream, optional
        Standard output by default.
    """
    cards = {record["card"] for record in records if "card" in record}
    columns = [
        Column("", width=30),
        Column("median", right=True),
        Column("rate", right=True),
        Column("of limit", right=True),
        Column("gain", right=True),
        Column("one thread", right=True),
        Column("max error", right=True),
        *(Column(f"on the study's {card}", right=True) for card in cards),
    ]
    table = Table(columns, title=heading(records))
    notes = []
    for record in records:
        reported = [_reported(record)] * len(cards)
        state = next((word for word in ("wrong", "failed", "missing") if word in record), None)
        if state is not None:
            table.add(record["name"], state, *[""] * 5, *reported)
            notes.append(f"{record['name']}: {record[state]}")
            continue
        fraction = record["fraction_of_ceiling"]
        table.add(
            record["name"],
            duration(record["median_s"]),
            quantity(record["rate"], record["unit"]),
            "" if fraction is None else f"{fraction:.1%}",
            f"{record['gain']:.2f}x" if "gain" in record else "",
            _speed_up(record, serial),
            error_text(record["max_relative_error"]),
            *reported,
        )
    show(table, file)
    if notes:
        print("\n".join(dict.fromkeys(notes)) + "\n", file=file)


def _reported(record: Record) -> str:
    if "reported" not in record:
        return ""
    text = str(record["reported"])
    # A rate or a speed-up stands beside the time that it implies.
    is_time = text.endswith((" ms", " us"))
    return text if is_time else f"{text} = {duration(record['reported_s'])}"


def _speed_up(record: Record, serial: Record | None) -> str:
    if serial is None or "rate" not in serial or serial["unit"] != record["unit"]:
        return ""
    return f"{record['rate'] / serial['rate']:.3g}x"


def show_sweep(records: Iterable[Record], file: TextIO | None = None) -> None:
    """Print the times of steps at each combination of their options.

    Parameters
    ----------
    records : iterable of mapping
        Results of a sweep.
    file : text stream, optional
        Standard output by default.
    """
    by_kernel: dict[str, list[Record]] = {}
    for record in records:
        by_kernel.setdefault(record["kernel"], []).append(record)
    for kernel, found in by_kernel.items():
        names = list(found[0]["options"])
        # The last option goes across, the others down.
        across = list(dict.fromkeys(record["options"][names[-1]] for record in found))
        title = f"{kernel}, {size(found[0])}: median by {', '.join(names)} (* the best)"
        table = Table(
            [
                *(Column(name, right=True) for name in names[:-1]),
                *(Column(f"{names[-1]} {value}", right=True) for value in across),
            ],
            title=title,
        )
        best = min((r["median_s"] for r in found if "median_s" in r), default=None)
        rows: dict[tuple[int, ...], dict[int, str]] = {}
        for record in found:
            *down, column = record["options"].values()
            star = "*" if record.get("median_s") == best else ""
            cell = duration(record["median_s"]) + star if "median_s" in record else "-"
            rows.setdefault(tuple(down), {})[column] = cell
        for down, cells in rows.items():
            table.add(*down, *(cells.get(value, "") for value in across))
        show(table, file)
        refusals = {r["missing"] for r in found if "missing" in r}
        if refusals:
            print("- " + "\n- ".join(sorted(refusals)) + "\n", file=file)


def show_grid(records: Iterable[Record], file: TextIO | None = None) -> None:
    """Print the times of every step at each size of a grid.

    Parameters
    ----------
    records : iterable of mapping
        Results of a grid.
    file : text stream, optional
        Standard output by default.
    """
    by_size: dict[str, dict[str, str]] = {}
    kernels: dict[str, None] = {}
    ladder = ""
    for record in records:
        ladder = record["ladder"]
        name = record["kernel"] if "options" in record else "auto"
        kernels[name] = None
        cell = duration(record["median_s"]) if "median_s" in record else "-"
        by_size.setdefault(size(record), {})[name] = cell
    if not by_size:
        return
    table = Table(
        [Column("size"), *(Column(kernel, right=True) for kernel in kernels)],
        title=f"{ladder}: median by size",
    )
    for shape, cells in by_size.items():
        table.add(shape, *(cells.get(kernel, "") for kernel in kernels))
    show(table, file)


def plot(climbs: Sequence[Sequence[Record]], path: Path) -> None:
    """Save a chart of the time of every step, the limit, and the author's figures.

    Parameters
    ----------
    climbs : sequence of sequence of mapping
        Results, one sequence for each problem on one device.
    path : Path
        Where the chart is saved; the suffix says in which format.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    draw(climbs).savefig(path, dpi=110)


def draw(climbs: Sequence[Sequence[Record]]) -> Any:
    """Draw the time of every step, the limit, and the author's figures.

    Parameters
    ----------
    climbs : sequence of sequence of mapping
        Results, one sequence for each problem on one device.

    Returns
    -------
    matplotlib Figure
        With a panel for each problem of which something ran.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = [[r for r in climb if "median_s" in r] for climb in climbs]
    shown = [climb for climb in shown if climb]
    heights = [1.4 + 0.33 * len(climb) for climb in shown]
    with matplotlib.rc_context(chart.STYLE):
        figure = Figure(figsize=(9.5, sum(heights) + 1.0), layout="constrained")
        panels = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        marks: dict[str, Any] = {}
        for panel, climb in zip(panels, shown, strict=True):
            marks |= _draw_climb(panel, climb)
        roles = {record["role"] for climb in shown for record in climb}
        marks |= {name: Patch(**_BARS[role]) for role, name in _ROLES.items() if role in roles}
        figure.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=2)
    return figure


_ROLES = {"step": "a step of the ladder", "production": "what auto takes", "rival": "others"}
_BARS: dict[str, dict[str, Any]] = {
    "step": {"facecolor": chart.SKY, "edgecolor": "black"},
    "production": chart.OURS,
    "rival": chart.OTHERS,
}


def _draw_climb(panel: Any, climb: Sequence[Record]) -> dict[str, Any]:
    """Draw one problem; give what the legend has to explain, by name."""
    marks = {}
    times = [record["median_s"] * 1e3 for record in climb]
    for i, (record, time) in enumerate(zip(climb, times, strict=True)):
        panel.barh(i, time, linewidth=0.8, **_BARS[record["role"]])
    reported = [(i, r["reported_s"] * 1e3) for i, r in enumerate(climb) if "reported_s" in r]
    if reported:
        card = next(record["card"] for record in climb if "card" in record)
        at, values = zip(*reported, strict=True)
        (marks[f"the study's own, {card}"],) = panel.plot(
            values, at, "D", color=chart.YELLOW, markeredgecolor="black", markersize=7
        )
    floors = [1e3 * record["floor_s"] for record in climb if record["floor_s"]]
    if climb[0].get("floor_s"):
        marks["the machine's limit"] = panel.axvline(
            1e3 * climb[0]["floor_s"], color=chart.VERMILLION, linestyle="--"
        )
    panel.set_yticks(range(len(climb)), [record["name"] for record in climb])
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")
    panel.set_xlim(left=0.5 * min(times + floors))
    panel.set_xlabel("median time, ms (logarithmic)")
    first = climb[0]
    panel.set_title(f"{first['ladder']} {size(first)}, {first['device_name']}", loc="left")
    return marks


def draw_reported(study: Study) -> Any:
    """Draw what the author of a study reports, at every size that the study names.

    Parameters
    ----------
    study : Study
        The study.

    Returns
    -------
    matplotlib Figure
        With a panel for each size, and the figures as the author gives them beside the bars.

    Raises
    ------
    ValueError
        The study reports no figures.
    ImportError
        Matplotlib is not installed.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not study.figures:
        raise ValueError(f"the study of {study.name} reports no figures")
    heights = [1.4 + 0.36 * len(figures) for figures in study.figures.values()]
    with matplotlib.rc_context(chart.STYLE):
        figure = Figure(figsize=(8.5, sum(heights)), layout="constrained")
        panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, (shape, figures) in zip(panels, study.figures.items(), strict=True):
            times = [1e3 * figure.seconds for figure in figures.values()]
            panel.barh(range(len(times)), times, **chart.OTHERS)
            for i, (time, one) in enumerate(zip(times, figures.values(), strict=True)):
                panel.annotate(
                    one.text, (time, i), xytext=(5, 0), textcoords="offset points", va="center"
                )
            panel.set_yticks(range(len(times)), list(map(str, figures)))
            panel.invert_yaxis()
            panel.set_xlim(0, max(times) * 1.4)
            panel.set_ylabel("step")
            panel.set_xlabel("time, ms")
            panel.set_title(
                f"{study.name} {' x '.join(map(str, shape))} as reported, {study.card}",
                loc="left",
            )
    return figure
