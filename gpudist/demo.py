"""The world's airports: great-circle distances, and every shortest route of hops within range.

``python -m gpudist demo`` runs it; each step is a function that can be called by itself.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist._tables import Column, Table, show
from gpudist.bench.report import digits, duration

Array = npt.NDArray[Any]

EARTH_RADIUS_KM = 6371.0088
"""Mean radius of the Earth (IUGG), in kilometres."""

# Airports of the samples on which SciPy is timed: each takes it about a fifth of a second. That of
# the distances outgrows the processor's cache, as all of them do.
_SAMPLE_OF_DISTANCES = 2000
_SAMPLE_OF_ROUTES = 700
# Airports of the trial that warms up and guesses the time of all.
_WARM_UP = 1500
# Nodes whose routes make the histogram of detours.
_DETOUR_SOURCES = 256
# Rows that one thread works on at once: few enough to stay in its cache.
_BLOCK_ROWS = 64
_PROGRESS_AFTER = 1.0


class DemoError(Exception):
    """The demo cannot go on, for a reason that its user can mend."""


@dataclass(frozen=True, slots=True)
class Airports:
    """Airports and where they are.

    Parameters
    ----------
    codes : tuple of str
        The code that each goes by: IATA's, or ICAO's where all airports are taken.
    other_codes : tuple of str
        The other of the two codes, empty where there is none.
    names, cities, countries : tuple of str
        The airport's name, its city, and its country's ISO code.
    points : ndarray of float64, shape (n, 2)
        Latitude and longitude in radians.
    """

    codes: tuple[str, ...]
    other_codes: tuple[str, ...]
    names: tuple[str, ...]
    cities: tuple[str, ...]
    countries: tuple[str, ...]
    points: Array

    def __len__(self) -> int:
        """Give the number of airports."""
        return len(self.codes)

    def label(self, i: int) -> str:
        """Name one airport.

        Parameters
        ----------
        i : int
            Its number.

        Returns
        -------
        str
            Like ``ANC Anchorage, US``.
        """
        return f"{self.codes[i]} {self.cities[i] or self.names[i]}, {self.countries[i]}"

    def find(self, code: str) -> int:
        """Find an airport by its IATA or ICAO code.

        Parameters
        ----------
        code : str
            In either case of letters.

        Returns
        -------
        int
            Its number.

        Raises
        ------
        DemoError
            If there is none; the message offers near matches.
        """
        wanted = code.strip().upper()
        for codes in (self.codes, self.other_codes):
            if wanted and wanted in codes:
                return codes.index(wanted)
        near = [i for i, city in enumerate(self.cities) if wanted and city.upper() == wanted]
        if not near:
            close = difflib.get_close_matches(wanted, self.codes, n=5, cutoff=0.6)
            near = [self.codes.index(match) for match in close]
        offer = "; ".join(self.label(i) for i in near[:5])
        raise DemoError(
            f"no airport has the code {code!r}" + (f"; did you mean {offer}?" if offer else "")
        )

    def take(self, rows: npt.NDArray[np.intp]) -> Airports:
        """Choose some of the airports.

        Parameters
        ----------
        rows : ndarray of intp
            Their numbers.

        Returns
        -------
        Airports
            Those, in that order.
        """
        codes, other_codes, names, cities, countries = (
            tuple(column[i] for i in rows)
            for column in (self.codes, self.other_codes, self.names, self.cities, self.countries)
        )
        return Airports(codes, other_codes, names, cities, countries, self.points[rows])


def load_airports(*, every: bool = False) -> Airports:
    """Read the airports that the package ``airportsdata`` carries.

    Parameters
    ----------
    every : bool, default False
        Whether to take all of them, by ICAO code; else those with an IATA code.

    Returns
    -------
    Airports
        In the order of their codes.

    Raises
    ------
    DemoError
        If ``airportsdata`` is not installed.
    """
    try:
        import airportsdata
    except ImportError as error:
        raise DemoError(_missing(error)) from None
    key, other = ("icao", "iata") if every else ("iata", "icao")
    found = airportsdata.load(key.upper())
    rows = [found[code] for code in sorted(found)]
    degrees = np.array([(row["lat"], row["lon"]) for row in rows], dtype=np.float64)
    return Airports(
        codes=tuple(row[key] for row in rows),
        other_codes=tuple(row[other] for row in rows),
        names=tuple(row["name"] for row in rows),
        cities=tuple(row["city"] for row in rows),
        countries=tuple(row["country"] for row in rows),
        points=np.radians(degrees),
    )


def spread(n: int, count: int, keep: Sequence[int] = ()) -> npt.NDArray[np.intp]:
    """Choose `count` of `n` numbers, evenly, and those in `keep`.

    Airports are sorted by code, and neighbouring codes lie far apart, so an even choice is spread
    over the world.

    Parameters
    ----------
    n, count : int
        How many there are, and how many to choose; at least ``len(keep)``.
    keep : sequence of int, optional
        Numbers that must be among them.

    Returns
    -------
    ndarray of intp
        Ascending; the same for the same arguments.
    """
    count = min(n, max(count, len(set(keep))))
    others = np.setdiff1d(np.arange(n), np.asarray(keep, dtype=np.intp))
    places = np.linspace(0, max(len(others) - 1, 0), count - len(set(keep))).astype(np.intp)
    return np.union1d(others[places], np.asarray(keep, dtype=np.intp)).astype(np.intp)


def great_circles(points: Array, others: Array, *, device: str | None = None) -> Array:
    """Compute great-circle distances on the unit sphere.

    Parameters
    ----------
    points, others : ndarray of float64, shape (m, 2) and (n, 2)
        Latitude and longitude in radians.
    device : str, optional
        As in `gpudist.cdist`.

    Returns
    -------
    ndarray of float32, shape (m, n)
        Distances in radians. Single precision halves the memory, the traffic and the time of what
        follows; it places an airport within a metre.
    """
    distances: Array = gpudist.cdist(points, others, "haversine", dtype=np.float32, device=device)
    return distances


def keep_hops(distances: Array, range_km: float) -> int:
    """Turn distances into hops, in place: kilometres, and infinity beyond the range.

    Parameters
    ----------
    distances : ndarray of float32, shape (n, n)
        Distances in radians; overwritten.
    range_km : float
        The longest hop, in kilometres.

    Returns
    -------
    int
        The hops that are kept, each pair of airports counted once.
    """

    def work(block: Array) -> int:
        block *= np.float32(EARTH_RADIUS_KM)
        beyond = block > range_km
        np.copyto(block, np.inf, where=beyond)
        return int(beyond.size - np.count_nonzero(beyond))

    kept: list[int] = _in_blocks(work, distances)
    return (sum(kept) - len(distances)) // 2


def shortest_routes(hops: Array, *, device: str | None = None) -> tuple[Array, Array]:
    """Find every shortest route.

    Parameters
    ----------
    hops : ndarray of float32, shape (n, n)
        As `keep_hops` leaves it; overwritten by the result, to save its memory.
    device : str, optional
        As in `gpudist.apsp`.

    Returns
    -------
    lengths : ndarray of float32, shape (n, n)
        In kilometres, infinite where there is no route.
    predecessors : ndarray of int32, shape (n, n)
        The last stop before each airport.
    """
    # Infinity marks what is no hop, so that airports in one place, 0 km apart, stay linked.
    lengths, predecessors = gpudist.apsp(
        hops, no_edge=np.inf, overwrite=True, return_predecessors=True, device=device
    )
    return lengths, predecessors


def warm_up(airports: Airports, *, device: str | None = None) -> float:
    """Run both functions once on few airports, and guess how long all of them take.

    Parameters
    ----------
    airports : Airports
        The airports.
    device : str, optional
        As in `gpudist.apsp`.

    Returns
    -------
    float
        Seconds for all routes, by the cube of the number. Large problems use the machine better,
        so this is more than it will be.
    """
    points = airports.points[spread(len(airports), _WARM_UP)]
    hops = great_circles(points, points, device=device)
    # The first call starts threads, or the GPU.
    shortest_routes(hops.copy(), device=device)
    seconds = _seconds(lambda: shortest_routes(hops, device=device))
    return seconds * (len(airports) / len(points)) ** 3


def components(lengths: Array) -> npt.NDArray[np.intp]:
    """Tell which parts of an undirected graph have no route between them.

    Parameters
    ----------
    lengths : ndarray, shape (n, n)
        Lengths of the shortest routes, infinite where there is none.

    Returns
    -------
    ndarray of intp, shape (n,)
        The part of each node; 0 is the largest.
    """
    n = lengths.shape[0]
    part = np.full(n, -1, dtype=np.intp)
    count = 0
    for i in range(n):
        if part[i] < 0:
            part[np.isfinite(lengths[i])] = count
            count += 1
    by_size = np.argsort(-np.bincount(part, minlength=count), kind="stable")
    rank = np.empty(count, dtype=np.intp)
    rank[by_size] = np.arange(count)
    return rank[part]


def longest_route(lengths: Array) -> tuple[int, int]:
    """Find the pair with the longest shortest route.

    Parameters
    ----------
    lengths : ndarray, shape (n, n)
        Lengths of the shortest routes, infinite where there is none.

    Returns
    -------
    tuple of int
        The pair; of several, the first.
    """

    def work(block: Array) -> tuple[float, int]:
        finite = np.where(np.isfinite(block), block, -1)
        place = int(finite.argmax())
        return float(finite.flat[place]), place

    found = _in_blocks(work, lengths)
    best = max(range(len(found)), key=lambda i: found[i][0])
    i, j = divmod(found[best][1], lengths.shape[1])
    return best * _BLOCK_ROWS + i, j


def detours(airports: Airports, lengths: Array, range_km: float) -> Array:
    """Compare routes with the great circle, for pairs that need a stop.

    Parameters
    ----------
    airports : Airports
        Where they are.
    lengths : ndarray of float32, shape (n, n)
        Lengths of the shortest routes, in kilometres.
    range_km : float
        The longest hop, in kilometres.

    Returns
    -------
    ndarray of float64
        Route over great circle, at least 1 but for rounding; from evenly chosen airports to all
        that they can reach.
    """
    sources = spread(len(airports), _DETOUR_SOURCES)
    direct = great_circles(airports.points[sources], airports.points, device="cpu")
    direct *= np.float32(EARTH_RADIUS_KM)
    routes = lengths[sources]
    stops = np.isfinite(routes) & (direct > range_km)
    return routes[stops].astype(np.float64) / direct[stops]


def _in_blocks(work: Callable[[Array], Any], matrix: Array) -> list[Any]:
    """Apply a function to blocks of rows in threads; NumPy releases the interpreter in them."""
    blocks = [matrix[i : i + _BLOCK_ROWS] for i in range(0, matrix.shape[0], _BLOCK_ROWS)]
    with ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(work, blocks))


@dataclass(frozen=True, slots=True)
class Comparison:
    """SciPy on samples of the airports, beside gpudist on the same samples.

    Parameters
    ----------
    distance_airports, path_airports : int
        The sizes of the samples.
    range_km : float
        The longest hop in the second, in kilometres.
    distance_seconds, path_seconds : float
        SciPy's times.
    distance_error_km : float
        The largest disagreement of two distances, in kilometres.
    path_error : float
        The largest relative disagreement of two route lengths.
    """

    distance_airports: int
    path_airports: int
    range_km: float
    distance_seconds: float
    path_seconds: float
    distance_error_km: float
    path_error: float


def compare_with_scipy(
    airports: Airports, range_km: float, *, device: str | None = None
) -> Comparison:
    """Time SciPy on samples, and compare its answers with gpudist's.

    SciPy has no haversine metric: its way is the chord between points on the sphere, then the
    arcsine. Routes are compared on the same hops. SciPy's time depends on how much of the graph
    is connected, so the range grows as the sample thins out: an airport keeps its number of hops.

    Parameters
    ----------
    airports : Airports
        The airports that the samples are drawn from.
    range_km : float
        The longest hop among all airports, in kilometres.
    device : str, optional
        As in `gpudist.cdist`.

    Returns
    -------
    Comparison
        Times and disagreements.

    Raises
    ------
    DemoError
        If SciPy is not installed.
    """
    try:
        from scipy.sparse.csgraph import csgraph_from_dense, floyd_warshall
        from scipy.spatial.distance import cdist
    except ImportError as error:
        raise DemoError(_missing(error)) from None
    n = len(airports)
    points = airports.points[spread(n, _SAMPLE_OF_DISTANCES)]

    def chords() -> Array:
        latitude, longitude = points.T
        level = np.cos(latitude)
        sphere = np.stack(
            [level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1
        )
        half = cdist(sphere, sphere)
        half *= 0.5
        return np.asarray(2.0 * np.arcsin(np.minimum(half, 1.0, out=half), out=half))

    distance_seconds = min(_seconds(chords) for _ in range(3))
    ours = great_circles(points, points, device=device)
    distance_error = float(np.abs(ours - chords()).max()) * EARTH_RADIUS_KM

    some = airports.points[spread(n, _SAMPLE_OF_ROUTES)]
    scaled_km = range_km * float(np.sqrt(n / len(some)))
    hops = great_circles(some, some, device=device)
    keep_hops(hops, scaled_km)
    # A sparse graph keeps hops of 0 km, between airports in one place.
    graph = csgraph_from_dense(hops.astype(np.float64), null_value=np.inf)
    start = time.perf_counter()
    exact, _ = floyd_warshall(graph, return_predecessors=True)
    path_seconds = time.perf_counter() - start
    routes, _ = shortest_routes(hops, device=device)
    return Comparison(
        len(points),
        len(some),
        scaled_km,
        distance_seconds,
        path_seconds,
        distance_error,
        _largest_relative(routes, exact),
    )


def _largest_relative(ours: Array, exact: Array) -> float:
    """Give the largest relative difference; infinite where only one of two is finite."""
    if not np.array_equal(np.isfinite(ours), np.isfinite(exact)):
        return float("inf")
    there = np.isfinite(exact) & (exact > 0)
    return float((np.abs(ours[there] - exact[there]) / exact[there]).max(initial=0.0))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclass(slots=True)
class Stages:
    """Time stages, and show a bar while one takes over a second.

    Parameters
    ----------
    seconds : dict
        Seconds by stage, filled as they end.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str, estimate: float | None = None) -> Iterator[None]:
        """Time the body as one stage.

        Parameters
        ----------
        name : str
            What it is called.
        estimate : float, optional
            Seconds that it is thought to take.
        """
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(name, estimate, done), daemon=True)
        watcher.start()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start
            done.set()
            watcher.join()


def _watch(name: str, estimate: float | None, done: threading.Event) -> None:
    """Show how far a stage is, from beside it: a stage is one call, which reports nothing."""
    if done.wait(_PROGRESS_AFTER):
        return
    bar = _bar(name, estimate)
    if bar is None:
        about = f" (at most about {estimate:.0f} s)" if estimate else ""
        print(f"{name} ...{about}", file=sys.stderr, flush=True)
        done.wait()
        return
    start = time.perf_counter() - _PROGRESS_AFTER
    finished = False
    while not finished:
        finished = done.wait(0.1)
        elapsed = time.perf_counter() - start
        if bar.total is not None and (finished or elapsed > bar.total):
            # The estimate was only that: the bar ends full, when the stage does.
            bar.total = max(elapsed, 1e-3) if finished else elapsed * 1.02
        bar.n = elapsed
        bar.refresh()
    bar.close()


def _bar(name: str, estimate: float | None) -> Any:
    """Make a progress bar in seconds; None without tqdm or a terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    ends = "{desc}: {percentage:3.0f}% |{bar}| {n:.1f} of at most about {total:.0f} s"
    endless = "{desc}: {n:.1f} s"
    return tqdm(
        desc=name,
        total=estimate,
        bar_format=ends if estimate else endless,
        leave=False,
        file=sys.stderr,
    )


def _need_matplotlib() -> None:
    """Fail before the work, not after it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DemoError(_missing(error)) from None


def _missing(error: ImportError) -> str:
    return f'the demo needs {error.name}, which is not installed: pip install ".[demo]"'


def run(
    *,
    every: bool = False,
    limit: int | None = None,
    range_km: float = 1000.0,
    origin: str = "ANC",
    destination: str = "USH",
    output: Path | None = Path("gpudist-demo.png"),
    device: str | None = None,
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
        ends = [airports.find(origin), airports.find(destination)]
        if limit is not None:
            airports = airports.take(spread(len(airports), limit, ends))
            ends = [airports.find(origin), airports.find(destination)]
    n = len(airports)
    if output is not None:
        _need_matplotlib()
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
    _show_route(found, (ends[0], ends[1]))
    _show_longest(found, farthest)
    _show_unreachable(found)
    _show_detours(found)
    if output is not None:
        from gpudist._demo_map import draw

        with stages.stage("draw the map"):
            draw(found, (ends[0], ends[1]), farthest, output)
    _show_times(stages, sample, n)
    print(f"{duration(time.perf_counter() - begin)} in total", end="")
    print("." if output is None else f"; the map is in {output}")


@dataclass(frozen=True, slots=True)
class Findings:
    """What the demo found.

    Parameters
    ----------
    airports : Airports
        The airports.
    range_km : float
        The longest hop, in kilometres.
    lengths : ndarray of float32, shape (n, n)
        Lengths of the shortest routes, in kilometres.
    predecessors : ndarray of int32, shape (n, n)
        The last stop before each airport.
    part : ndarray of intp, shape (n,)
        As `components` gives it.
    ratios : ndarray of float64
        As `detours` gives it.
    """

    airports: Airports
    range_km: float
    lengths: Array
    predecessors: Array
    part: npt.NDArray[np.intp]
    ratios: Array

    def route(self, pair: tuple[int, int]) -> list[int]:
        """Give the stops of a route, both ends included; none where there is no route.

        Parameters
        ----------
        pair : tuple of int
            Origin and destination.

        Returns
        -------
        list of int
            Airports' numbers.
        """
        try:
            return list(gpudist.reconstruct_path(self.predecessors, *pair))
        except gpudist.NoPathError:
            return []

    def direct_km(self, pair: tuple[int, int]) -> float:
        """Give the great circle between two airports.

        Parameters
        ----------
        pair : tuple of int
            Origin and destination.

        Returns
        -------
        float
            Kilometres.
        """
        points = self.airports.points
        ends = points[pair[0], None], points[pair[1], None]
        return float(gpudist.cdist(*ends, "haversine", device="cpu")[0, 0]) * EARTH_RADIUS_KM


def _show_route(found: Findings, pair: tuple[int, int]) -> None:
    """Print the legs of the route asked for."""
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


def _show_longest(found: Findings, pair: tuple[int, int]) -> None:
    """Print the longest shortest route in few lines."""
    start, end = (found.airports.label(i) for i in pair)
    codes = " - ".join(found.airports.codes[i] for i in found.route(pair))
    print(f"The longest shortest route goes from {start} to {end}:\n{_summary(found, pair)}")
    print(textwrap.fill(codes, 96, initial_indent="  ", subsequent_indent="  "), end="\n\n")


def _summary(found: Findings, pair: tuple[int, int]) -> str:
    """Put a route's length beside the great circle's."""
    flown, direct = float(found.lengths[pair]), found.direct_km(pair)
    longer = f", {max(flown / direct - 1, 0.0):.1%} longer" if direct else ""
    hops = len(found.route(pair)) - 1
    return f"{flown:,.0f} km in {hops} hops; {direct:,.0f} km by the great circle{longer}"


def _show_unreachable(found: Findings) -> None:
    outside = np.flatnonzero(found.part)
    if not len(outside):
        print("Every airport can be reached from every other.\n")
        return
    few = "; ".join(found.airports.label(int(i)) for i in outside[spread(len(outside), 6)])
    print(
        f"{len(outside)} airports, in {found.part.max()} groups, cannot be reached from the "
        f"{len(found.part) - len(outside)} of the largest group. Among them:\n{few}.\n"
    )


def _show_detours(found: Findings) -> None:
    if not len(found.ratios):
        return
    middle, high = np.quantile(found.ratios, [0.5, 0.95]) - 1
    print(
        f"Between airports out of each other's range, half of {len(found.ratios):,} routes are "
        f"less than {middle:.1%} longer\nthan the great circle, and 95 % less than {high:.1%}.\n"
    )


def _show_times(stages: Stages, sample: Comparison, n: int) -> None:
    scipy = {
        "distances": sample.distance_seconds * (n / sample.distance_airports) ** 2,
        "routes": sample.path_seconds * (n / sample.path_airports) ** 3,
    }
    table = Table(
        [
            Column("stage"),
            Column("time", right=True),
            Column("SciPy, estimated", right=True),
            Column("ratio", right=True),
        ]
    )
    for name, seconds in stages.seconds.items():
        theirs = scipy.get(name)
        if theirs is None:
            table.add(name, duration(seconds), "", "")
        else:
            table.add(name, duration(seconds), duration(theirs), f"{digits(theirs / seconds)}x")
    show(table)
    print(
        f"SciPy was timed on the distances of {sample.distance_airports} airports "
        f"({duration(sample.distance_seconds)}, scaled by n squared) and on the\nroutes of "
        f"{sample.path_airports} with hops of up to {sample.range_km:.0f} km "
        f"({duration(sample.path_seconds)}, scaled by n cubed). There\ngpudist and SciPy differ "
        f"by at most {sample.distance_error_km * 1000:.2g} m in a distance, and by "
        f"{sample.path_error:.1e} of its length in a route.\n"
    )
