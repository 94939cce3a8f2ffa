"""The plane of the map: points and great circles on it."""

from __future__ import annotations

import numpy as np

from gpudist.demo.sphere import Array, on_sphere

# Meridian that the map is centred on, in degrees: the Bering Strait falls at its edge.
_CENTRE = 11.0


def equal_earth(latitude: Array, longitude: Array) -> Array:
    """Project to the plane with the Equal Earth projection (Savric, Patterson and Jenny 2018).

    Parameters
    ----------
    latitude, longitude : ndarray
        In radians, longitude from the central meridian.

    Returns
    -------
    ndarray, shape (..., 2)
        East and north, on a sphere of radius 1.
    """
    a1, a2, a3, a4 = 1.340264, -0.081106, 0.000893, 0.003796
    theta = np.arcsin(np.sqrt(3) / 2 * np.sin(latitude))
    square = theta * theta
    sixth = square**3
    stretch = 9 * a4 * sixth * square + 7 * a3 * sixth + 3 * a2 * square + a1
    east = 2 * np.sqrt(3) * longitude * np.cos(theta) / (3 * stretch)
    north = theta * (a1 + a2 * square + sixth * (a3 + a4 * square))
    return np.stack([east, north], axis=-1)


def from_centre(longitude: Array) -> Array:
    """Count longitudes from the map's central meridian.

    Parameters
    ----------
    longitude : ndarray
        In radians from Greenwich.

    Returns
    -------
    ndarray
        In radians, from -pi to pi.
    """
    turned: Array = np.mod(longitude - np.radians(_CENTRE) + np.pi, 2 * np.pi) - np.pi
    return turned


def on_map(points: Array) -> Array:
    """Place points on the map.

    Parameters
    ----------
    points : ndarray, shape (..., 2)
        Latitude and longitude in radians.

    Returns
    -------
    ndarray, shape (..., 2)
        East and north, as `equal_earth` gives them.
    """
    return equal_earth(points[..., 0], from_centre(points[..., 1]))


def arcs(starts: Array, ends: Array, *, steps: int) -> list[list[Array]]:
    """Draw great circles between pairs of points, cut where the map ends.

    Parameters
    ----------
    starts, ends : ndarray, shape (k, 2)
        Latitude and longitude in radians.
    steps : int
        Points along each.

    Returns
    -------
    list of list of ndarray, shape (points, 2)
        For each pair one line on the map, or two where it crosses the map's edge.
    """
    first, last = on_sphere(starts)[:, None], on_sphere(ends)[:, None]
    angle = np.arccos(np.clip((first * last).sum(axis=-1, keepdims=True), -1.0, 1.0))
    along = np.linspace(0, 1, steps)[None, :, None]
    # Two points in one place have no direction: a straight line between them is as good.
    straight = angle < 1e-9
    sine = np.where(straight, 1.0, np.sin(angle))
    line = np.where(
        straight,
        (1 - along) * first + along * last,
        (np.sin((1 - along) * angle) * first + np.sin(along * angle) * last) / sine,
    )
    latitude = np.arcsin(np.clip(line[..., 2], -1.0, 1.0))
    longitude = from_centre(np.arctan2(line[..., 1], line[..., 0]))
    whole = equal_earth(latitude, longitude)
    lines = [[line] for line in whole]
    for i in np.flatnonzero(np.any(np.abs(np.diff(longitude)) > np.pi, axis=1)):
        lines[i] = _cut(latitude[i], longitude[i])
    return lines


def _cut(latitude: Array, longitude: Array) -> list[Array]:
    """Cut a line where it leaves one side of the map and enters the other, and reach both edges."""
    pieces = []
    begin = 0
    entry: list[tuple[float, float]] = []
    for jump in np.flatnonzero(np.abs(np.diff(longitude)) > np.pi):
        edge = float(np.copysign(np.pi, longitude[jump]))
        to_edge = np.pi - abs(longitude[jump])
        across = 2 * np.pi - abs(longitude[jump + 1] - longitude[jump])
        share = to_edge / across if across else 0.0
        height = float(latitude[jump] + share * (latitude[jump + 1] - latitude[jump]))
        inside = zip(latitude[begin : jump + 1], longitude[begin : jump + 1], strict=True)
        pieces.append([*entry, *inside, (height, edge)])
        entry = [(height, -edge)]
        begin = int(jump) + 1
    pieces.append([*entry, *zip(latitude[begin:], longitude[begin:], strict=True)])
    return [equal_earth(*np.array(piece).T) for piece in pieces]
