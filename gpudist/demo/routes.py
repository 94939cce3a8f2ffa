"""Hops within range, every shortest route of them, and what can be read from the routes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.demo.airports import Airports, spread
from gpudist.demo.sphere import EARTH_RADIUS_KM, Array, great_circles

# Nodes whose routes make the histogram of detours.
_DETOUR_SOURCES = 256
# Rows that one thread works on at once: few enough to stay in its cache.
_BLOCK_ROWS = 64


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


def components(lengths: Array) -> npt.NDArray[np.intp]:
    """Tell which parts of an undirected graph have no route between them.

    Parameters
    ----------
    lengths : ndarray, shape (n, n)
        As `shortest_routes` gives them.

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
        As `shortest_routes` gives them.

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
        As `shortest_routes` gives them.
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
