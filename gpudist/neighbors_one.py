"""Neighbours of a call that is read: by the core, on several GPUs, by NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, neighbors_slow, several_gpus
from gpudist.neighbors_call import Array, Call, at_least, count_of, radii_of, search, weights_of


class Nearest(NamedTuple):
    """The nearest neighbour of each point.

    Attributes
    ----------
    distances : ndarray, shape (m,)
        How far it is; NaN where there is none.
    indices : ndarray of int64 or int32, shape (m,)
        Its row of `XB`; -1 where there is none.
    """

    distances: Array
    indices: Array


class KNearest(NamedTuple):
    """The k nearest neighbours of each point, the nearest first.

    Attributes
    ----------
    distances : ndarray, shape (m, k)
        How far they are; NaN where a point has fewer.
    indices : ndarray of int64 or int32, shape (m, k)
        Their rows of `XB`; -1 where a point has fewer.
    """

    distances: Array
    indices: Array


class Neighborhoods(NamedTuple):
    """All neighbours within a radius, point after point: the parts of a CSR matrix.

    Those of point i are elements ``indptr[i]`` to before ``indptr[i + 1]`` of both arrays.

    Attributes
    ----------
    indptr : ndarray of int64, shape (m + 1,)
        Where each point's neighbours begin.
    indices : ndarray of int64 or int32, shape (nnz,)
        Their rows of `XB`.
    distances : ndarray, shape (nnz,)
        How far they are.
    columns : int
        The number of rows of `XB`.
    """

    indptr: Array
    indices: Array
    distances: Array
    columns: int

    def to_scipy(self) -> Any:
        """Make a `scipy.sparse.csr_array` of the distances; those that are 0 stay stored.

        Returns
        -------
        scipy.sparse.csr_array, shape (m, columns)
            With the same arrays, not copies.
        """
        from scipy.sparse import csr_array

        if arrays.space_of(indices=self.indices) is not arrays.HOST:
            raise TypeError("to_scipy takes arrays on the host; copy these there first")
        shape = len(self.indptr) - 1, self.columns
        return csr_array((self.distances, self.indices, self.indptr), shape=shape)


def within_radius(
    call: Call, r: Any, max_neighbors: int | None, sort: str, name: str = "r"
) -> Neighborhoods:
    """Find all neighbours within a radius, of a call that is read.

    Parameters
    ----------
    call : Call
        The call.
    r, max_neighbors, sort
        As for `radius_neighbors`.
    name : str
        What errors call `r`.

    Returns
    -------
    Neighborhoods
        As of `radius_neighbors`.
    """
    if not isinstance(sort, str) or sort not in ("index", "distance"):
        raise ValueError(f'sort must be "index" or "distance", got {sort!r}')
    most = call.columns
    if max_neighbors is not None:
        most = min(most, at_least(max_neighbors, "max_neighbors", 0))
    radii = radii_of(r, call, name, (call.rows,))
    by_distance = sort == "distance"
    found: Any
    if call.slow:
        found = neighbors_slow.within(call, radii, most, by_distance)
    else:
        found = _within(call, radii, most, by_distance)
    indptr, indices, distances = found if call.on_host else _gathered(call, *found)
    with np.errstate(over="ignore"):
        return Neighborhoods(
            indptr,
            call.space.cast(indices, call.index_dtype),
            call.space.cast(distances, call.result),
            call.columns,
        )


def k_nearest(call: Call, k: Any, out: tuple[Array, Array] | None) -> KNearest:
    """Find the k nearest neighbours, of a call that is read.

    Parameters
    ----------
    call : Call
        The call.
    k, out
        As for `knn`.

    Returns
    -------
    KNearest
        As of `knn`.
    """
    count = count_of(k, call.columns, call.first is not None)
    shape = call.rows, count
    distances, indices = _results(out, shape, call)
    if call.slow:
        distances[...], indices[...] = neighbors_slow.nearest(call, count)
        return KNearest(*(out or (distances, indices)))
    space = call.space
    exact, wide = distances, indices
    if space.dtype_name(distances) != call.dtype:
        exact = call.empty(shape, call.dtype)
    if space.dtype_name(indices) != "int64":
        wide = call.empty(shape, "int64")

    def found_by(part: Call, start: int, stop: int) -> None:
        some = slice(start, stop)
        with part.watching() as watch:
            _core.nearest(
                *part.described,
                part.operand(exact[some], part.dtype),
                part.numbers(wide[some]),
                None,
                part.first,
                kept=part.kept,
                **part.told(watch),
            )

    search(call, found_by)
    if exact is not distances:
        space.assign(distances, exact)
    if wide is not indices:
        space.assign(indices, wide)
    return KNearest(distances, indices)


def pairs_within(call: Call, radii: Any, weights: Any, cumulative: bool) -> Any:
    """Count the pairs within radii, of a call that is read.

    Parameters
    ----------
    call : Call
        The call.
    radii, weights, cumulative
        As for `count_neighbors`.

    Returns
    -------
    int, float or array
        As of `count_neighbors`.
    """
    bounds = call.sign * np.atleast_1d(radii_of(radii, call, "radii", None))
    if (bounds[1:] < bounds[:-1]).any():
        order = "descending, for a similarity" if call.similarity else "ascending"
        raise ValueError(f"radii must be in {order} order")
    both, cumulative = weights_of(weights, call), checks.truth("cumulative", cumulative)
    count = neighbors_slow.count if call.slow else _counts
    counts = count(call, bounds, both)
    if cumulative:
        counts = np.cumsum(counts)
    if np.ndim(radii) == 0:
        return counts[0].item()
    if call.on_host:
        return counts
    there = call.empty(counts.shape, counts.dtype.name)
    call.space.assign(there, counts)
    return there


def _within(call: Call, radii: Array, most: int, by_distance: bool) -> Any:
    """Return what the core finds within the radii; of several GPUs' parts the whole."""
    parts: dict[int, Any] = {}

    def found_by(part: Call, start: int, stop: int) -> None:
        with part.watching() as watch:
            parts[start] = _core.within(
                *part.described,
                part.dtype,
                radii if radii.size == 1 else radii[start:stop],
                most,
                by_distance,
                part.first,
                kept=part.kept,
                **part.told(watch),
            )

    search(call, found_by)
    if len(parts) == 1:
        return parts[0]
    found = [parts[start] for start in sorted(parts)]
    counts = [np.diff(indptr) for indptr, _, _ in found]
    return (
        np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts])),
        np.concatenate([call.empty((0,), "int64"), *(indices for _, indices, _ in found)]),
        np.concatenate([call.empty((0,), call.dtype), *(distances for _, _, distances in found)]),
    )


def _counts(call: Call, bounds: Array, weights: tuple[Any, Any]) -> Array:
    """Return the core's counts of pairs between a bound and the one before, or sums of weights."""
    parts: list[Array] = []
    if several_gpus.are_named(call.asked.orders.device) and weights[0] is not None:
        raise ValueError(
            "device must name one GPU, 'cuda:N', for weights: they are added up in the order of "
            f"all rows, got {call.asked.orders.device!r}"
        )

    def found_by(part: Call, start: int, stop: int) -> None:
        with part.watching() as watch:
            parts.append(
                _core.count(
                    *part.described, part.dtype, bounds, *weights, part.first, **part.told(watch)
                )
            )

    search(call, found_by)
    return sum(parts) if parts else np.zeros(bounds.shape, np.int64)  # type: ignore[return-value]


def _gathered(call: Call, found: Any, count: int) -> tuple[Any, Any, Any]:
    """Return what was found on a device as arrays of the caller's library."""
    places, indices = call.empty((call.rows + 1,), "int64"), call.empty((count,), "int64")
    distances = call.empty((count,), call.dtype)
    _core.gather(
        found,
        call.operand(distances, call.dtype),
        call.numbers(indices),
        call.numbers(places),
        **call.stream,
    )
    return places, indices, distances


def _results(out: Any, shape: tuple[int, int], call: Call) -> tuple[Any, Any]:
    wanted = (("distances", call.result), ("indices", call.index_dtype))
    if out is None:
        return call.empty(shape, call.result), call.empty(shape, call.index_dtype)
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError("out must be a tuple of two arrays, for distances and indices")
    for array, (what, dtype) in zip(out, wanted, strict=True):
        if call.on_host and not isinstance(array, np.ndarray):
            raise TypeError(f"out must hold NumPy arrays, got {type(array).__name__} for {what}")
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out holds a masked array for {what}; give its data")
        arrays.space_of(**{"XA": call.points[0], f"out for {what}": array})
        found, there = call.space.dtype_name(array), arrays.shape_of(array)
        if there != shape or found != dtype:
            raise ValueError(
                f"out must hold a C-contiguous array of {dtype} and shape {shape} for {what}, got "
                f"{found} and {there}"
            )
        if not _is_plain(call, array):
            raise ValueError(
                "out must hold C-contiguous arrays that can be written, aligned and in native byte "
                f"order, which its {what} are not"
            )
        if any(arrays.overlap(call.space, array, x) for x in call.points):
            raise ValueError(f"out must not share memory with the points, as its {what} do")
    if arrays.overlap(call.space, *out):
        raise ValueError("out must not hold two arrays that share memory")
    return out[0], out[1]


def _is_plain(call: Call, array: Any) -> bool:
    """Tell whether rows follow each other without gaps, to be written."""
    if call.on_host:
        return bool(array.flags.carray and array.dtype.isnative)
    view = call.space.view(array)
    dense: list[int] = []
    step = np.dtype(view.dtype).itemsize
    for length in reversed(view.shape):
        dense.insert(0, step)
        step *= length
    return 0 in view.shape or all(
        length == 1 or stride == wanted
        for length, stride, wanted in zip(view.shape, view.strides, dense, strict=True)
    )
