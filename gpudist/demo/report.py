"""What the demo prints about its findings and its times."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping

import numpy as np

from gpudist._tables import Column, Table, show
from gpudist.demo.airports import spread
from gpudist.demo.findings import Findings
from gpudist.demo.sample import Comparison
from gpudist.measure.wording import digits, duration


def show_route(found: Findings, pair: tuple[int, int]) -> None:
    """Print the legs of the route asked for.

    Parameters
    ----------
    found : Findings
        What the demo found.
    pair : tuple of int
        Its ends.
    """
    airports = found.airports
    start, end = (airports.label(i) for i in pair)
    stops = found.route(pair)
    if not stops:
        print(
            f"No chain of hops of up to {found.range_km:g} km leads from {start} to {end}; "
            "a larger --range-km may.\n"
        )
        return
    table = Table(
        [
            Column("leg", right=True),
            Column("from"),
            Column("to"),
            Column("km", right=True),
            Column("km so far", right=True),
        ],
        title=f"The shortest route from {start} to {end}",
    )
    flown = 0.0
    for leg, hop in enumerate(itertools.pairwise(stops), 1):
        km = found.direct_km(hop)
        flown += km
        table.add(leg, *(airports.label(i) for i in hop), f"{km:.0f}", f"{flown:.0f}")
    show(table)
    print(f"{_summary(found, pair)}\n")


def show_longest(found: Findings, pair: tuple[int, int]) -> None:
    """Print the longest shortest route in few lines.

    Parameters
    ----------
    found : Findings
        What the demo found.
    pair : tuple of int
        Its ends.
    """
    start, end = (found.airports.label(i) for i in pair)
    codes = " - ".join(found.airports.codes[i] for i in found.route(pair))
    print(f"The longest shortest route goes from {start} to {end}:\n{_summary(found, pair)}")
    print(textwrap.fill(codes, 96, initial_indent="  ", subsequent_indent="  "), end="\n\n")


def show_unreachable(found: Findings) -> None:
    """Print how many airports are cut off, and name a few.

    Parameters
    ----------
    found : Findings
        What the demo found.
    """
    outside = np.flatnonzero(found.part)
    if not len(outside):
        print("Every airport can be reached from every other.\n")
        return
    few = "; ".join(found.airports.label(int(i)) for i in outside[spread(len(outside), 6)])
    print(
        f"{len(outside)} airports, in {found.part.max()} groups, cannot be reached from the "
        f"{len(found.part) - len(outside)} of the largest group. Among them:\n{few}.\n"
    )


def show_detours(found: Findings) -> None:
    """Print how much longer than the great circle routes are.

    Parameters
    ----------
    found : Findings
        What the demo found.
    """
    if not len(found.ratios):
        return
    middle, high = np.quantile(found.ratios, [0.5, 0.95]) - 1
    print(
        f"Between airports out of each other's range, half of {len(found.ratios):,} routes are "
        f"less than {middle:.1%} longer\nthan the great circle, and 95 % less than {high:.1%}.\n"
    )


def show_times(seconds_of: Mapping[str, float], sample: Comparison, n: int) -> None:
    """Print the time of each stage, and what SciPy would take.

    Parameters
    ----------
    seconds_of : mapping
        Seconds by stage.
    sample : Comparison
        SciPy's times on samples.
    n : int
        The number of airports.
    """
    of_samples = {
        "distances": (
            sample.our_distance_seconds,
            sample.distance_seconds,
            (n / sample.distance_airports) ** 2,
        ),
        "routes": (
            sample.our_path_seconds,
            sample.path_seconds,
            (n / sample.path_airports) ** 3,
        ),
    }
    table = Table(
        [
            Column("stage"),
            Column("time", right=True),
            Column("SciPy, estimated", right=True),
            Column("a sample", right=True),
            Column("SciPy, the same", right=True),
            Column("ratio", right=True),
        ]
    )
    for name, seconds in seconds_of.items():
        if name not in of_samples:
            table.add(name, duration(seconds), "", "", "", "")
            continue
        ours, theirs, factor = of_samples[name]
        table.add(
            name,
            duration(seconds),
            duration(theirs * factor),
            duration(ours),
            duration(theirs),
            f"{digits(theirs / ours)}x",
        )
    show(table)
    for text, indent in (
        (
            "A sample's times are the best of three calls each, and the ratio is between them; "
            "SciPy's for all airports are estimated from them.",
            "",
        ),
        (
            f"- Distances of {sample.distance_airports} airports, which grow with n squared: SciPy "
            "has no haversine. It computes chords between points on the sphere by cdist, and NumPy "
            "their arcsines, in float64 on one thread. gpudist computes in float64 and returns "
            "float32.",
            "  ",
        ),
        (
            f"- Routes of {sample.path_airports} airports with hops of up to "
            f"{sample.range_km:.0f} km, which grow with n cubed: floyd_warshall, in float64 on one "
            "thread; gpudist in float32.",
            "  ",
        ),
        (
            f"There both differ by at most {sample.distance_error_km * 1000:.2g} m in a distance, "
            f"and by {sample.path_error:.1e} of its length in a route.",
            "",
        ),
    ):
        print(textwrap.fill(text, 96, subsequent_indent=indent))
    print()


def _summary(found: Findings, pair: tuple[int, int]) -> str:
    """Put a route's length beside the great circle's."""
    flown, direct = float(found.lengths[pair]), found.direct_km(pair)
    longer = f", {max(flown / direct - 1, 0.0):.1%} longer" if direct else ""
    hops = len(found.route(pair)) - 1
    return f"{flown:,.0f} km in {hops} hops; {direct:,.0f} km by the great circle{longer}"
