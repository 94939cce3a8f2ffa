"""The picture of the demo: a map of routes, and a histogram of detours."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from gpudist.demo.errors import DemoError, missing
from gpudist.demo.findings import Findings
from gpudist.demo.projection import arcs, equal_earth, on_map
from gpudist.measure import chart

_NIGHT = "#0b1526"
_SEA = "#0f1e36"
_GRID = "#22375a"
_DOT = "#9dbfe3"
_INK = "#e8eef7"
_QUIET = "#8ea3bf"
_ASKED = "#ffd166"
_LONGEST = "#ff6b8b"
_BARS = "#5b8def"
# Colours of the tree of routes, from near to far.
_TREE = ("#34e7e4", "#4aa8ff", "#7b6cff", "#c93cf5")


def need_matplotlib(output: Path) -> None:
    """Fail before the work, not after it.

    Parameters
    ----------
    output : Path
        Where the picture goes.

    Raises
    ------
    DemoError
        If matplotlib is not installed, or saves no picture of that name.
    """
    try:
        import matplotlib.figure  # noqa: F401

        chart.check_picture(output)
    except ImportError as error:
        raise missing(error) from None
    except ValueError as error:
        raise DemoError(str(error)) from None


def draw(found: Findings, asked: tuple[int, int], farthest: tuple[int, int], output: Path) -> None:
    """Draw the map of the routes and the histogram of detours.

    Parameters
    ----------
    found : Findings
        What to draw.
    asked, farthest : tuple of int
        The two routes to draw over all others.
    output : Path
        The picture's file; its suffix says the format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.9), facecolor=_NIGHT)
    FigureCanvasAgg(figure)
    figure.text(0.025, 0.947, "Every shortest route by air", color=_INK, fontsize=20, weight="bold")
    figure.text(
        0.975,
        0.951,
        f"{len(found.airports):,} airports, hops of up to {found.range_km:g} km",
        color=_QUIET,
        fontsize=11.5,
        ha="right",
    )
    _draw_map(figure, found, asked, farthest)
    _draw_detours(figure, found)
    figure.savefig(output, dpi=130, facecolor=_NIGHT)


def _draw_map(
    figure: Any, found: Findings, asked: tuple[int, int], farthest: tuple[int, int]
) -> None:
    axes = figure.add_axes((0.01, 0.235, 0.98, 0.715))
    axes.set_axis_off()
    axes.set_aspect("equal")
    _draw_globe(axes)
    _draw_tree(axes, found, asked[0])
    points = found.airports.points
    where = on_map(points)
    size = 2.0 if len(where) < 12_000 else 0.9
    axes.scatter(*where.T, s=size, color=_DOT, linewidths=0, alpha=0.75, zorder=3)
    outside = where[found.part > 0]
    axes.scatter(*outside.T, s=9, facecolors="none", edgecolors=_QUIET, linewidths=0.5, zorder=4)
    _draw_route(axes, found, farthest, _LONGEST, 5)
    _draw_route(axes, found, asked, _ASKED, 6)
    axes.margins(0.005)
    axes.autoscale_view()

    codes = found.airports.codes
    _draw_legend(
        figure,
        "left",
        (_ASKED, f"{codes[asked[0]]} to {codes[asked[1]]}", _length(found, asked)),
        (_LONGEST, "longest shortest route", _length(found, farthest)),
    )
    _draw_legend(
        figure,
        "right",
        (_TREE[1], "every route from " + codes[asked[0]], "from near (cyan) to far (violet)"),
        (_QUIET, "circles", f"{len(outside)} airports out of reach"),
    )


def _draw_legend(figure: Any, side: str, *entries: tuple[str, str, str]) -> None:
    """Explain colours in a lower corner of the map: each entry's colour, name and remark."""
    x = 0.025 if side == "left" else 0.975
    for row, (colour, name, remark) in enumerate(entries):
        y = 0.288 - 0.043 * row
        figure.text(x, y, name, color=colour, fontsize=9.5, weight="bold", ha=side)
        figure.text(x, y - 0.019, remark, color=_QUIET, fontsize=8.5, ha=side)


def _length(found: Findings, pair: tuple[int, int]) -> str:
    hops = len(found.route(pair)) - 1
    return f"{found.lengths[pair]:,.0f} km, {hops} hops" if hops >= 0 else "no route"


def _draw_globe(axes: Any) -> None:
    """Fill the map's outline and draw its meridians and parallels, every 30 degrees."""
    side = np.radians(np.linspace(-90, 90, 181))
    east = equal_earth(side, np.full_like(side, np.pi))
    outline = np.concatenate([east, (east * [-1, 1])[::-1]])
    axes.fill(*outline.T, facecolor=_SEA, edgecolor=_GRID, linewidth=1.0, zorder=0)
    for degrees in range(-150, 180, 30):
        line = equal_earth(side, np.full_like(side, np.radians(degrees)))
        axes.plot(*line.T, color=_GRID, linewidth=0.5, zorder=1)
    for degrees in range(-60, 90, 30):
        line = equal_earth(np.radians([degrees, degrees]), np.array([-np.pi, np.pi]))
        axes.plot(*line.T, color=_GRID, linewidth=0.5, zorder=1)


def _draw_tree(axes: Any, found: Findings, origin: int) -> None:
    """Draw every shortest route from one airport: a tree, with one last leg for each other."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    points = found.airports.points
    last = found.predecessors[origin]
    reached = np.flatnonzero(last >= 0)
    # Far legs first, so that near ones, where many run side by side, lie on top.
    reached = reached[np.argsort(-found.lengths[origin, reached], kind="stable")]
    pieces = arcs(points[last[reached]], points[reached], steps=6)
    distances = np.repeat(found.lengths[origin, reached], [len(lines) for lines in pieces])
    axes.add_collection(
        LineCollection(
            list(itertools.chain.from_iterable(pieces)),
            array=distances,
            cmap=LinearSegmentedColormap.from_list("tree", _TREE),
            linewidths=0.5,
            alpha=0.6,
            zorder=2,
        )
    )


def _draw_route(axes: Any, found: Findings, pair: tuple[int, int], colour: str, order: int) -> None:
    """Draw one route with its stops, and name its ends."""
    from matplotlib.patheffects import withStroke

    stops = found.route(pair)
    if not stops:
        return
    points = found.airports.points[stops]
    for piece in itertools.chain.from_iterable(arcs(points[:-1], points[1:], steps=24)):
        for ink, width, above in ((_NIGHT, 3.2, 0.0), (colour, 1.7, 0.1)):
            axes.plot(
                *piece.T, color=ink, linewidth=width, zorder=order + above, solid_capstyle="round"
            )
    where = on_map(points)
    axes.scatter(
        *where.T, s=13, color=colour, edgecolors=_NIGHT, linewidths=0.6, zorder=order + 0.2
    )
    for stop, place, inner in (
        (stops[0], where[0], where[1:2]),
        (stops[-1], where[-1], where[-2:]),
    ):
        # A name stands on the side that its route does not leave to.
        left = bool(len(inner) and inner[0, 0] > place[0])
        axes.annotate(
            found.airports.codes[stop],
            place,
            xytext=(-8 if left else 8, -4),
            textcoords="offset points",
            ha="right" if left else "left",
            color=colour,
            fontsize=10.5,
            weight="bold",
            zorder=order + 0.3,
            path_effects=[withStroke(linewidth=3, foreground=_NIGHT)],
        )


def _draw_detours(figure: Any, found: Findings) -> None:
    """Draw how the detours are spread, on a square-root scale: most are small, a few are long."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes = figure.add_axes((0.05, 0.062, 0.9, 0.125))
    axes.set_facecolor(_NIGHT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    axes.tick_params(colors=_QUIET, labelsize=9, length=3)
    axes.set_yticks([])
    axes.set_title(
        "How much longer a route is than the great circle, where a stop is needed",
        color=_INK,
        fontsize=10.5,
        loc="left",
    )
    if not len(found.ratios):
        return
    percent = np.maximum((found.ratios - 1) * 100, 0.0)
    top = max(1.0, float(np.quantile(percent, 0.999)))
    axes.hist(percent, bins=np.linspace(0, np.sqrt(top), 141) ** 2, color=_BARS, alpha=0.9)
    axes.set_xlim(0, top)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.set_xticks([x for x in (0, 1, 3, 10, 20, 50, 100, 200, 300) if x < top])
    axes.xaxis.set_minor_locator(NullLocator())
    for share, text in ((0.5, "half of the routes"), (0.95, "95 %")):
        at = float(np.quantile(percent, share))
        axes.axvline(at, color=_ASKED, linewidth=1.1)
        axes.annotate(
            f"{text}: under {at:.1f} %",
            (at, 0.84),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
            color=_ASKED,
            fontsize=9,
        )
