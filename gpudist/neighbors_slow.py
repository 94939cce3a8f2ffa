"""Neighbours by NumPy: the reference, and metrics that are Python functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpudist.distance_call import Asked, matrices
from gpudist.intake import Orders
from gpudist.neighbors_call import Array, Call

_BY_NUMPY = Orders("reference")
# Distances that are held at once.
_CHUNK = 1 << 20


def _chunks(call: Call) -> Iterator[tuple[int, Array]]:
    """Give the keys of some rows after the others, smaller ones nearer, NaN for no neighbour."""
    a, b = call.points
    step = max(_CHUNK // max(len(b), 1), 1)
    for start in range(0, len(a), step):
        some = a[start : start + step]
        asked = Asked("cdist", {"XA": some, "XB": b}, call.metric, call.arguments.values)
        asked = asked._replace(dtype=call.result)
        if not callable(call.metric):
            asked = asked._replace(orders=_BY_NUMPY)
        keys = np.asarray(matrices(asked), dtype=np.float64)
        if call.first is not None:
            i = np.arange(len(some))
            keys[i, call.first + start + i] = np.nan
        yield start, call.sign * keys


def _sorted(keys: Array, count: int) -> tuple[Array, Array]:
    """Give the first keys of a stable sort, NaN last and without an index."""
    order = np.argsort(keys, axis=1, kind="stable")[:, :count]
    first = np.take_along_axis(keys, order, axis=1)
    return first, np.where(np.isnan(first), -1, order)


def nearest(call: Call, count: int) -> tuple[Array, Array]:
    """Find so many nearest neighbours of each row: their distances and their indices."""
    parts = [_sorted(keys, count) for _, keys in _chunks(call)]
    if not parts:
        return np.empty((0, count)), np.empty((0, count), np.int64)
    keys, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
    return call.sign * keys, indices


def within(call: Call, radii: Array, most: int, by_distance: bool) -> tuple[Array, Array, Array]:
    """Find at most so many neighbours of each row within its radius: a CSR matrix in parts."""
    indptr, indices, distances = [0], [np.empty(0, np.int64)], [np.empty(0)]
    limits = call.sign * np.broadcast_to(radii, (call.rows,))
    for start, keys in _chunks(call):
        for row, limit in zip(keys, limits[start : start + len(keys)], strict=True):
            (inside,) = np.nonzero(row <= limit)
            order = np.argsort(row[inside], kind="stable")[:most]
            chosen = inside[order if by_distance else np.sort(order)]
            indices.append(chosen)
            distances.append(call.sign * row[chosen])
            indptr.append(indptr[-1] + len(chosen))
    return np.array(indptr), np.concatenate(indices), np.concatenate(distances)


def count(call: Call, bounds: Array, weights: tuple[Any, Any]) -> Array:
    """Count, or weigh, the pairs between each bound and the one before it."""
    wa, wb = weights
    counts = np.zeros(len(bounds), np.int64 if wa is None else np.float64)
    for start, keys in _chunks(call):
        bins = np.searchsorted(bounds, keys)
        for i, row in enumerate(bins):
            good = (row < len(bounds)) & ~np.isnan(keys[i])
            found = np.bincount(row[good], None if wa is None else wb[good], minlength=len(bounds))
            counts += found if wa is None else wa[start + i] * found
    return counts
