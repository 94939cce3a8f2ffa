"""The world's airports: great-circle distances, and every shortest route of hops within range.

``python -m gpudist demo`` runs it; each step is a function that can be called by itself.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import gpudist
from gpudist.demo import cluster
from gpudist.demo.airports import Airports, load_airports, spread
from gpudist.demo.drawing import draw, need_matplotlib
from gpudist.demo.errors import DemoError
from gpudist.demo.findings import Findings
from gpudist.demo.progress import Stages
from gpudist.demo.report import (
    show_detours,
    show_longest,
    show_route,
    show_times,
    show_unreachable,
)
from gpudist.demo.routes import components, detours, keep_hops, longest_route, shortest_routes
from gpudist.demo.sample import Comparison, compare_with_scipy, warm_up
from gpudist.demo.sphere import EARTH_RADIUS_KM, great_circles
from gpudist.measure.wording import duration

__all__ = [
    "EARTH_RADIUS_KM",
    "Airports",
    "Comparison",
    "DemoError",
    "Findings",
    "Stages",
    "compare_with_scipy",
    "components",
    "detours",
    "draw",
    "great_circles",
    "keep_hops",
    "load_airports",
    "longest_route",
    "run",
    "shortest_routes",
    "spread",
    "warm_up",
]


def run(
    *,
    every: bool = False,
    limit: int | None = None,
    range_km: float = 1000.0,
    origin: str = "ANC",
    destination: str = "USH",
    output: Path | None = Path("gpudist-demo.png"),
    device: str | None = None,
    dask: bool = False,
) -> None:
    """Run the demo: print what it finds, and draw it.

    Parameters
    ----------
    every : bool, default False
        Whether to take all airports, not only those with an IATA code.
    limit : int, optional
        Take only this many, spread over the world.
    range_km : float, default 1000
        The longest hop, in kilometres.
    origin, destination : str
        Codes of the airports whose route is printed, IATA's or ICAO's.
    output : Path or None
        Where the picture goes; None draws none.
    device : str, optional
        ``cpu``, ``cuda`` or ``cuda:1``; by default the GPU where one can be used.
    dask : bool, default False
        Whether distances and routes are computed by Dask, on the cores of two local workers.

    Raises
    ------
    DemoError
        If a package is missing, or a code unknown.
    DeviceError
        If a GPU is asked for and cannot be used.
    """
    begin = time.perf_counter()
    stages = Stages()
    with stages.stage("read airports"):
        airports = load_airports(every=every)
        if limit is not None:
            ends = [airports.find(code) for code in (origin, destination)]
            airports = airports.take(spread(len(airports), limit, ends))
        asked = airports.find(origin), airports.find(destination)
    n = len(airports)
    if output is not None:
        need_matplotlib(Path(output))
    if dask:
        cluster.need_dask("--dask")
        if device not in (None, "cpu"):
            raise DemoError(f"--dask is for the CPU: its two workers do not share {device}")
        device = "cpu"
    print(f"{n} airports, hops of up to {range_km:g} km\n")
    points = airports.points
    # The routes are most of the work: all runs where they run best.
    routes = gpudist.explain("apsp", np.broadcast_to(np.float32(1), (n, n)), device=device)
    device = routes.device
    distances = gpudist.explain(
        "cdist", points, points, metric="haversine", dtype=np.float32, device=device
    )
    for stage, plan in (("distances", distances), ("routes", routes)):
        print(f"{stage}: {plan.kernel} on {plan.device}: {plan.reason}")

    with stages.stage("warm up"):
        guess = warm_up(airports, device=device)
    with stages.stage("compare with SciPy"):
        sample = compare_with_scipy(airports, range_km, device=device)
    if dask:
        hops, lengths, predecessors = cluster.solve(points, range_km, stages)
    else:
        with stages.stage("distances"):
            matrix = great_circles(points, points, device=device)
        with stages.stage("hops in range"):
            hops = keep_hops(matrix, range_km)
        with stages.stage("routes", guess):
            lengths, predecessors = shortest_routes(matrix, device=device)
    with stages.stage("search the routes"):
        part = components(lengths)
        farthest = longest_route(lengths)
        ratios = detours(airports, lengths, range_km)
    print(
        f"\n{n * (n - 1) // 2:,} pairs of airports, {hops:,} of them within range; "
        f"{lengths.nbytes / 1e6:,.0f} MB of route lengths\n"
    )
    found = Findings(airports, range_km, lengths, predecessors, part, ratios)
    show_route(found, asked)
    show_longest(found, farthest)
    show_unreachable(found)
    show_detours(found)
    if output is not None:
        with stages.stage("draw the map"):
            draw(found, asked, farthest, output)
    show_times(stages.seconds, sample, n)
    print(f"{duration(time.perf_counter() - begin)} in total", end="")
    print("." if output is None else f"; the map is in {output}")
