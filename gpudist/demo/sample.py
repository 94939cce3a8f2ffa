"""What runs on a sample of the airports: the warm-up, and the comparison with SciPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpudist.demo.airports import Airports, spread
from gpudist.demo.errors import missing
from gpudist.demo.routes import keep_hops, shortest_routes
from gpudist.demo.sphere import EARTH_RADIUS_KM, Array, great_circles, on_sphere

# Airports of the samples on which SciPy is timed: each takes it about a fifth of a second. That of
# the distances outgrows the processor's cache, as all of them do.
_SAMPLE_OF_DISTANCES = 2000
_SAMPLE_OF_ROUTES = 700
# Calls of which the quickest counts.
_CALLS = 3
# Airports of the trial that warms up and guesses the time of all.
_WARM_UP = 1500


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
        SciPy's times, of the best of a few calls.
    our_distance_seconds, our_path_seconds : float
        gpudist's for the same samples, taken in the same way.
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
    our_distance_seconds: float
    our_path_seconds: float
    distance_error_km: float
    path_error: float


def compare_with_scipy(
    airports: Airports, range_km: float, *, device: str | None = None
) -> Comparison:
    """Time SciPy on samples, and compare its answers with gpudist's.

    SciPy has no haversine metric: its way is the chord between points on the sphere, then the
    arcsine, both in float64 on one thread. Routes are compared on the same hops. Of each the best
    of a few calls counts, so that both have started their threads and touched their memory. SciPy's
    time depends on how much of the graph is connected, so the range grows as the sample thins out:
    an airport keeps its number of hops.

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
        raise missing(error) from None
    n = len(airports)
    points = airports.points[spread(n, _SAMPLE_OF_DISTANCES)]

    def chords() -> Array:
        sphere = on_sphere(points)
        half = cdist(sphere, sphere)
        half *= 0.5
        return np.asarray(2.0 * np.arcsin(np.minimum(half, 1.0, out=half), out=half))

    distance_seconds = _best(chords)
    our_distance_seconds = _best(lambda: great_circles(points, points, device=device))
    ours = great_circles(points, points, device=device)
    distance_error = float(np.abs(ours - chords()).max()) * EARTH_RADIUS_KM

    some = airports.points[spread(n, _SAMPLE_OF_ROUTES)]
    scaled_km = range_km * float(np.sqrt(n / len(some)))
    hops = great_circles(some, some, device=device)
    keep_hops(hops, scaled_km)
    # A sparse graph keeps hops of 0 km, between airports in one place.
    graph = csgraph_from_dense(hops.astype(np.float64), null_value=np.inf)
    path_seconds = _best(lambda: floyd_warshall(graph, return_predecessors=True))
    exact, _ = floyd_warshall(graph, return_predecessors=True)
    copies = iter([hops.copy() for _ in range(_CALLS)])  # each is overwritten
    our_path_seconds = _best(lambda: shortest_routes(next(copies), device=device))
    routes, _ = shortest_routes(hops, device=device)
    return Comparison(
        len(points),
        len(some),
        scaled_km,
        distance_seconds,
        path_seconds,
        our_distance_seconds,
        our_path_seconds,
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


def _best(call: Callable[[], object]) -> float:
    return min(_seconds(call) for _ in range(_CALLS))
