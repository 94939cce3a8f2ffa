"""What the demo found, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.demo.airports import Airports
from gpudist.demo.sphere import EARTH_RADIUS_KM, Array


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
        As `shortest_routes` gives them, in kilometres.
    predecessors : ndarray of int32, shape (n, n)
        As `shortest_routes` gives them.
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
