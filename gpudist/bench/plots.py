"""Pictures of results, with matplotlib: bars beside each other, and the roof over them.

They are legible in grey: what belongs together shares a marker or a hatch, and shades differ in
lightness. Every title names the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudist.bench.report import duration, quantity, title

Result = Mapping[str, Any]

OURS, OTHERS, FLOOR = "#1f4e79", "#b8c4d0", "#8c2d04"
_MARKERS = "osD^v<>PX*hp"
_LINES = ("-", "--", "-.", ":")


def roofline(results: Iterable[Result], ax: Any = None, *, backend: str | None = None) -> Any:
    """Draw every result under the measured limits of its device.

    Parameters
    ----------
    results : iterable of mapping
        Results of one run, those of the ceilings among them.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    backend : {'cpu', 'cuda'}, optional
        Whose results to draw, where there are both.

    Returns
    -------
    matplotlib Axes
        With operations a byte to the right and operations a second upwards, both logarithmic.
        Operations are counted in multiply-adds' worth of the pipe that bounds them.
    """
    import matplotlib.pyplot as plt

    chosen = [r for r in results if backend in (None, r["device"].partition(":")[0])]
    limits = {r["ceiling"]: r for r in chosen if r["op"] == "ceiling"}
    points = [r for r in chosen if r.get("pipe_operations")]
    if not limits or not points:
        raise ValueError("a roofline takes the ceilings and at least one result of the same run")
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 6))
    intensities = [r["pipe_operations"] / max(r["bytes_moved"], 1) for r in points]
    span = min(intensities) / 3, max(intensities) * 3
    roofs = [r for r in limits.values() if r["unit"] != "B/s"]
    bandwidth = limits["write"]["rate"]
    for roof, style in zip(sorted(roofs, key=lambda r: -r["rate"]), _LINES * 3, strict=False):
        corner = roof["rate"] / bandwidth
        xs = sorted((span[0], min(max(corner, span[0]), span[1]), span[1]))
        ax.plot(
            xs,
            [min(bandwidth * x, roof["rate"]) for x in xs],
            style,
            color="0.35",
            linewidth=1.2,
            label=f"{roof['ceiling']} {roof['dtype']}: {quantity(roof['rate'], roof['unit'])}",
        )
    groups: dict[str, list[tuple[float, Result]]] = {}
    for x, result in zip(intensities, points, strict=True):
        groups.setdefault(str(result["kernel"]), []).append((x, result))
    for i, (kernel, members) in enumerate(groups.items()):
        ax.plot(
            [x for x, _ in members],
            [r["pipe_operations"] / r["median_s"] for _, r in members],
            _MARKERS[i % len(_MARKERS)],
            color=f"{0.1 + 0.6 * i / max(1, len(groups) - 1):.2f}",
            markeredgecolor="black",
            markersize=7,
            label=kernel,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("multiply-adds' worth of operations for each byte moved at least")
    ax.set_ylabel("operations a second")
    write = limits["write"]
    ax.set_title(f"{_where(write)}: writes {quantity(write['rate'], write['unit'])}")
    ax.grid(True, which="major", color="0.9")
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def save_roofline(results: Sequence[Result], path: Path) -> None:
    """Save the picture that `roofline` draws.

    Parameters
    ----------
    results : sequence of mapping
        Results of one run, those of the ceilings among them.
    path : Path
        Where to; the ending says in which format.
    """
    import matplotlib.pyplot as plt

    ax = roofline(results)
    ax.figure.savefig(path, dpi=120, bbox_inches="tight", metadata=_metadata(path, results))
    plt.close(ax.figure)


def digest(results: Sequence[Result]) -> str:
    """Name the data behind a picture, so that a stale one can be told.

    Parameters
    ----------
    results : sequence of mapping
        What was drawn.

    Returns
    -------
    str
        A short hash; the same data give the same one.
    """
    lines = sorted(json.dumps(result, sort_keys=True) for result in results)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _metadata(path: Path, results: Sequence[Result]) -> dict[str, str] | None:
    return {"Description": f"gpudist {digest(results)}"} if path.suffix == ".png" else None


def drawn_from(path: Path) -> str:
    """Read which data a picture was drawn from.

    Parameters
    ----------
    path : Path
        A PNG file of `save_roofline`.

    Returns
    -------
    str
        Their `digest`, empty where the file has none.
    """
    _, mark, rest = path.read_bytes().partition(b"Description\0gpudist ")
    return rest[:16].decode("ascii", "replace") if mark else ""


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

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 0.9 + 0.4 * len(entries)))
    names = [name for name, _, _ in entries]
    times = [1e3 * seconds for _, seconds, _ in entries]
    drawn = ax.barh(
        range(len(entries)),
        times,
        color=[OURS if ours else OTHERS for _, _, ours in entries],
        edgecolor="black",
    )
    for bar, (_, _, ours) in zip(drawn, entries, strict=True):
        bar.set_hatch("" if ours else "//")
    ax.bar_label(drawn, [f" {duration(seconds)}" for _, seconds, _ in entries], fontsize=9)
    if floor is not None:
        ax.axvline(1e3 * floor, color=FLOOR, linestyle="--", label="the machine's limit")
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    ax.set_yticks(range(len(entries)), names)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    ax.margins(x=0.2)
    ax.set_xlabel(label)
    ax.set_title(heading)
    return ax


def race(result: Result, ax: Any = None) -> Any:
    """Draw one recorded result beside its rivals.

    Parameters
    ----------
    result : mapping
        A JSON line of a case.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        As `bars` draws them.
    """
    others = [(str(r["name"]), r["median_s"], False) for r in result["rivals"] if "median_s" in r]
    return bars(
        [(str(result["kernel"]), result["median_s"], True), *others],
        heading=f"{title(result)}\n{_where(result)}",
        label="milliseconds a call (logarithmic)",
        floor=result["floor_s"],
        ax=ax,
    )


def _where(result: Result) -> str:
    """Name a result's device."""
    name = str(result["device_name"])
    return name if result["device"] != "cpu" else f"{name}, {result['threads']} threads"
