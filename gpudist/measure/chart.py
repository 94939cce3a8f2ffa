"""Charts of measured times, with matplotlib, and the one style that all charts here have.

Colours are those of Okabe and Ito (2008), which people who are colour-blind tell apart. No chart
needs them: what differs in colour differs in marker, line or hatch as well, and in lightness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudist.measure.wording import duration, quantity, threads

BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#E69F00", "#009E73"
VERMILLION, SKY, PURPLE, YELLOW = "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"
GREY = "#B0B0B0"

COLOURS = (BLACK, ORANGE, BLUE, SKY, VERMILLION, GREEN, PURPLE, YELLOW)
"""In this order neighbours differ in lightness, too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (6, 3)))

STYLE: dict[str, Any] = {
    "font.size": 12,
    "axes.titlesize": 13,
    "legend.fontsize": 11,
    "legend.framealpha": 1.0,
    "figure.figsize": (7.5, 4.5),
    "figure.dpi": 90,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#D8D8D8",
    "lines.linewidth": 1.8,
    "lines.markersize": 7,
    "hatch.linewidth": 0.6,
}
"""Matplotlib's settings: text that is legible at half the size."""

OURS: dict[str, Any] = {"facecolor": BLUE, "edgecolor": "black"}
OTHERS: dict[str, Any] = {"facecolor": "#E0E0E0", "edgecolor": "black", "hatch": "//"}
"""How bars of ours and of others are drawn."""


def check_picture(path: Path) -> None:
    """Raise an error, before the work, for a picture that Matplotlib would not save after it.

    Parameters
    ----------
    path : Path
        Where it is to be saved.

    Raises
    ------
    ValueError
        The suffix names no format.
    ImportError
        Matplotlib is not installed.
    """
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        listed = ", ".join(f".{suffix}" for suffix in sorted(formats))
        raise ValueError(f"the name of a picture must end in one of {listed}: {path}")


def set_style() -> None:
    """Make `STYLE`, and lines that differ in colour, marker and dashes, matplotlib's settings."""
    import matplotlib.pyplot as plt
    from cycler import cycler

    plt.rcParams.update(STYLE)
    plt.rcParams["axes.prop_cycle"] = (
        cycler(color=COLOURS) + cycler(marker=MARKERS) + cycler(linestyle=LINES)
    )


def bars(
    entries: Sequence[tuple[str, float, bool]],
    *,
    heading: str,
    label: str,
    floor: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw times beside each other, shortest bar best.

    Parameters
    ----------
    entries : sequence of (str, float, bool)
        Names, seconds, and whether they are ours.
    heading, label : str
        What stands above and below.
    floor : float, optional
        The least time that the machine allows, in seconds; drawn as a line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        With horizontal bars over a logarithmic axis in milliseconds.
    """
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        if ax is None:
            _, ax = plt.subplots(figsize=(8.5, 1.5 + 0.45 * len(entries)))
        times = [1e3 * seconds for _, seconds, _ in entries]
        for i, (time, (_, _, ours)) in enumerate(zip(times, entries, strict=True)):
            ax.barh(i, time, **(OURS if ours else OTHERS))
            ax.annotate(
                duration(time / 1e3),
                (time, i),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
            )
        if floor is not None:
            ax.axvline(1e3 * floor, color=VERMILLION, linestyle="--")
            ax.annotate(
                "the machine's limit",
                (1e3 * floor, -0.68),
                xytext=(5, 0),
                textcoords="offset points",
                color=VERMILLION,
                va="center",
            )
        ax.set_yticks(range(len(entries)), [name for name, _, _ in entries])
        ax.set_ylim(len(entries) - 0.4, -0.9 if floor is not None else -0.6)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
        least = min([*times, *([1e3 * floor] if floor else [])])
        ax.set_xlim(least / 4, max(times) * 6)
        ax.set_xlabel(label)
        ax.set_title(heading, loc="left")
    return ax


def roofline(
    results: Iterable[Mapping[str, Any]], ax: Any = None, *, backend: str | None = None
) -> Any:
    """Draw results under the measured limits of their device.

    Parameters
    ----------
    results : iterable of mapping
        Results of one run, those of the ceilings among them, as ``python -m bench`` writes them. Of
        a ceiling, "ceiling", "rate", "unit" and "dtype" count; of another, "op", "kernel", "dtype",
        "pipe_operations", "bytes_moved" and "median_s"; of all, "device" and "device_name".
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    backend : {'cpu', 'cuda'}, optional
        Whose results to draw, where there are both.

    Returns
    -------
    matplotlib Axes
        With operations a byte to the right and operations a second upwards, both logarithmic.
        Operations are counted in multiply-adds' worth of the pipe that bounds them. Kernels of one
        kind share a colour and a marker, which is hollow where they compute in float64.
    """
    import matplotlib.pyplot as plt

    chosen = [r for r in results if backend in (None, r["device"].partition(":")[0])]
    limits = {r["ceiling"]: r for r in chosen if r["op"] == "ceiling"}
    points = [r for r in chosen if r.get("pipe_operations")]
    if not limits or not points:
        raise ValueError("a roofline takes the ceilings and at least one result of the same run")
    intensities = [r["pipe_operations"] / max(r["bytes_moved"], 1) for r in points]
    span = min(intensities) / 3, max(intensities) * 3
    roofs = sorted((r for r in limits.values() if r["unit"] != "B/s"), key=lambda r: -r["rate"])
    write = limits["write"]
    groups: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for x, result in zip(intensities, points, strict=True):
        groups.setdefault(_kind(result), []).append((x, result))
    with plt.rc_context(STYLE):
        own = ax is None
        if own:
            _, ax = plt.subplots(figsize=(9.5, 6.8))
        for roof, line in zip(roofs, LINES * 3, strict=False):
            corner = roof["rate"] / write["rate"]
            xs = sorted((span[0], min(max(corner, span[0]), span[1]), span[1]))
            ax.plot(
                xs,
                [min(write["rate"] * x, roof["rate"]) for x in xs],
                linestyle=line,
                marker="",
                color="#606060",
                linewidth=1.6,
                label=f"limit: {roof['ceiling']} {roof['dtype']}, "
                f"{quantity(roof['rate'], roof['unit'])}",
            )
        for i, (kind, members) in enumerate(groups.items()):
            colour = COLOURS[i % len(COLOURS)]
            # Past the last colour, each comes with the marker of the next.
            marker = MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]
            named = {
                narrow: [
                    (x, r["pipe_operations"] / r["median_s"])
                    for x, r in members
                    if (r["dtype"] != "float64") == narrow
                ]
                for narrow in (True, False)
            }
            for narrow, places in named.items():
                if places:
                    ax.plot(
                        *zip(*places, strict=True),
                        marker,
                        color=colour,
                        markerfacecolor=colour if narrow else "white",
                        markeredgecolor="black" if narrow else colour,
                        markeredgewidth=0.6 if narrow else 1.8,
                        markersize=8,
                        label=kind if narrow or not named[True] else None,
                    )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("multiply-adds' worth of operations for each byte moved at least")
        ax.set_ylabel("operations a second")
        ax.set_title(
            f"{where(write)}: writes {quantity(write['rate'], write['unit'])}\n"
            "hollow markers compute in float64",
            loc="left",
        )
        ax.grid(True, which="major")
        if own:
            ax.figure.legend(loc="outside lower center", ncols=2)
        else:
            ax.legend()
    return ax


def _kind(result: Mapping[str, Any]) -> str:
    """Tell to which of few kinds a kernel belongs."""
    if result["op"] in ("transfer", "several"):
        return "over the bus and back"
    kind = str(result["kernel"]).partition("/")[0]
    return f"{kind} on tensor cores" if "tensor" in result["kernel"] else kind


def where(result: Mapping[str, Any]) -> str:
    """Name a result's device.

    Parameters
    ----------
    result : mapping
        A result, with "device", "device_name" and, of a CPU, "threads".

    Returns
    -------
    str
        The device, and of a CPU the number of threads.
    """
    name = str(result["device_name"])
    return name if result["device"] != "cpu" else f"{name}, {threads(result['threads'])}"
