"""Nearest neighbours, neighbours within a radius, and counts of pairs, without the matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, foreign, homes, several_gpus
from gpudist.intake import Orders
from gpudist.neighbors_call import (
    NO_K,
    NO_R,
    NO_RADII,
    Array,
    Call,
    asked_for,
    at_least,
    count_of,
    radii_of,
    read,
    search,
    weights_of,
)
from gpudist.progress import Progress


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


@homes.returned("XA")
def nearest(
    XA: Any,
    XB: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> Nearest:
    """Find the nearest row of `XB` to every row of `XA`.

    Parameters
    ----------
    XA, XB, metric, dtype, kernel, device, progress, rows, max_memory, index_dtype, **metric_args
        As for `knn`.

    Returns
    -------
    Nearest
        ``(distances, indices)``, both of shape (m,).

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `knn`.

    See Also
    --------
    knn : The k nearest.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.nearest([[0.0], [5.0]], [[1.0], [4.0], [9.0]]).indices
    array([0, 1])
    """
    if foreign.is_dask(XA, XB):
        from gpudist import dask

        return dask.nearest(
            XA,
            XB,
            metric,
            dtype=dtype,
            kernel=kernel,
            device=device,
            progress=progress,
            rows=rows,
            max_memory=max_memory,
            index_dtype=index_dtype,
            **metric_args,
        )
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("nearest", XA, XB, metric, metric_args, dtype, rows, orders)
    found = k_nearest(read(asked, index_dtype), 1, None)
    return Nearest(found.distances[:, 0], found.indices[:, 0])


@homes.returned("XA")
def knn(
    XA: Any,
    XB: Any = None,
    k: Any = None,
    metric: Any = "euclidean",
    *,
    out: tuple[Array, Array] | None = None,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> KNearest:
    """Find the k nearest rows of `XB` to every row of `XA`.

    By definition these are the first k of a stable sort of each row of ``cdist(XA, XB, metric)``,
    to the bit; the matrix itself is never there. These are distances of the direct form: where
    `cdist` takes the products of "cdist/cuda_tensor", "cdist/cuda_tensor_f64" or
    ``cdist/cpu_product_*``, those of "cdist/cuda_tile" or ``cdist/cpu_tile_*``, unless `kernel`
    names one of the former. Of rows at the same distance that with the smaller index comes first,
    so the answer is one, whatever the number of threads or of rows asked for.

    Parameters
    ----------
    XA : array_like, shape (m, d)
        Points, one a row, on the host or a device, as for `cdist`.
    XB : array_like, shape (n, d), optional
        The points among which neighbours are searched for. By default those of `XA`, of which none
        is a neighbour of itself; equal points with other indices are.
    k : int
        How many neighbours: 1 to n, or to n - 1 without `XB`.
    metric : str or callable
        As for `cdist`. Of the similarities (inner_product and kulczynski1) the largest are nearest.
    out : tuple of two arrays, optional
        Where to write distances and indices: both C-contiguous and of shape (m, k), float32 or
        float64 and `index_dtype`, of NumPy, or on the points' device.
    dtype : {float32, float64}, optional
        The dtype of computation and distances, as for `cdist`.
    kernel : str
        "auto", "reference" (NumPy in float64, slow), or the id of a kernel: one that computes
        distances, or one that finds neighbours, as `gpudist.kernels` lists them.
    device : str, optional
        "cpu", "cuda" or "cuda:1", as for `cdist`; arrays on a device are searched through there.
    progress : bool or callable
        As for `cdist`.
    rows : slice, optional
        For which rows of `XA`, in steps of 1.
    max_memory : int, optional
        How many bytes the call may hold at once beside its arguments and its result.
    index_dtype : {int64, int32}
        The dtype of indices.
    **metric_args
        Arguments of the metric, as for `cdist`; ``box=`` for points in a periodic box.

    Returns
    -------
    KNearest
        ``(distances, indices)``, both of shape (m, k), arrays of the library and on the device of
        `XA`. A point with NaN is nobody's neighbour and
        has none: its distances are NaN and its indices -1, as are those at the end of a row that
        has fewer than k neighbours.

    Raises
    ------
    TypeError
        Input that `cdist` refuses; no `k`, or one that is no whole number.
    ValueError
        `k` out of range, and what `cdist` refuses.
    MemoryError
        `max_memory` is too little; nothing was allocated.
    gpudist.DeviceError
        As for `cdist`.

    See Also
    --------
    nearest : The nearest one alone.
    radius_neighbors : All within a radius.

    Notes
    -----
    Distances are computed in panels, on the CPU such as stay in its cache, by the kernels of
    `cdist`, and held against the distance of each row's k-th neighbour so far. Calls for arrays on
    a device are enqueued on its current stream and do not wait, as those of `cdist`, but for
    `radius_neighbors` and `count_neighbors`, whose results tell how much there is. On the CPU, with
    1 to 8 columns and euclidean, sqeuclidean, cityblock, chebyshev or minkowski distances without
    weights, `XB` is put into boxes of a few points instead [1]_, most of which are too far away to
    be looked into; the answer has the same bits. A periodic box has these in all but minkowski with
    other exponents than 1, 2 and inf. With 9 columns or more, and from some 100 rows on, cosine and
    correlation distances, and euclidean and sqeuclidean ones without weights, have a product in
    float32 that bounds each from below, and only those that it does not rule out are computed, as
    always from differences.

    References
    ----------
    .. [1] J. H. Friedman, J. L. Bentley, R. A. Finkel, "An algorithm for finding best matches in
       logarithmic expected time", ACM Transactions on Mathematical Software 3 (1977).

    Examples
    --------
    >>> import gpudist
    >>> points = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [5.0, 0.0]]
    >>> gpudist.knn(points, k=2).indices
    array([[1, 2],
           [2, 0],
           [1, 0],
           [1, 2]])
    >>> gpudist.knn([[4.0, 0.0]], points, 3, "cityblock").distances
    array([[1., 3., 3.]])

    In a box that is 6 long and periodic, 5 is next to 0:

    >>> gpudist.knn([[5.5, 0.0]], points, 2, box=6).distances
    array([[0.5, 0.5]])
    """
    if foreign.is_dask(XA, XB):
        from gpudist import dask

        return dask.knn(
            XA,
            XB,
            k,
            metric,
            out=out,
            dtype=dtype,
            kernel=kernel,
            device=device,
            progress=progress,
            rows=rows,
            max_memory=max_memory,
            index_dtype=index_dtype,
            **metric_args,
        )
    if k is None:
        raise TypeError(NO_K)
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("knn", XA, XB, metric, metric_args, dtype, rows, orders)
    return k_nearest(read(asked, index_dtype), k, out)


@homes.returned("XA")
def radius_neighbors(
    XA: Any,
    XB: Any = None,
    r: Any = None,
    metric: Any = "euclidean",
    *,
    max_neighbors: int | None = None,
    sort: str = "index",
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> Neighborhoods:
    """Find all rows of `XB` within a radius of every row of `XA`.

    Parameters
    ----------
    XA, XB, metric, dtype, kernel, device, progress, rows, max_memory, index_dtype, **metric_args
        As for `knn`.
    r : float or array_like, shape (m,)
        The radius, or one for each row of `XA`, 0 or more. It is rounded to the dtype of the
        distances, and a neighbour at just that distance is one: with the distance of a k-th
        neighbour as radius, that neighbour is found. Of similarities, those of at least `r` are
        found, which may be negative.
    max_neighbors : int, optional
        At most the nearest so many of each point.
    sort : {"index", "distance"}
        The order of a point's neighbours: by their rows of `XB`, or the nearest first.

    Returns
    -------
    Neighborhoods
        ``(indptr, indices, distances, columns)``, with `Neighborhoods.to_scipy`.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `knn`; a ValueError for a radius that is negative or NaN, and a MemoryError where
        there are more neighbours than memory for them.

    Examples
    --------
    >>> import gpudist
    >>> points = [[0.0], [1.0], [3.0], [4.0]]
    >>> found = gpudist.radius_neighbors(points, r=1.0)
    >>> found.indices, found.indptr
    (array([1, 0, 3, 2]), array([0, 1, 2, 3, 4]))
    >>> float(found.to_scipy().sum())
    4.0
    """
    if r is None:
        raise TypeError(NO_R)
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("radius_neighbors", XA, XB, metric, metric_args, dtype, rows, orders)
    return within_radius(read(asked, index_dtype), r, max_neighbors, sort)


@homes.returned("XA")
def count_neighbors(
    XA: Any,
    XB: Any = None,
    radii: Any = None,
    metric: Any = "euclidean",
    *,
    weights: Any = None,
    cumulative: bool = True,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    **metric_args: Any,
) -> Any:
    """Count the pairs of rows within each of some radii.

    Parameters
    ----------
    XA, XB, metric, dtype, kernel, device, progress, rows, max_memory, **metric_args
        As for `knn`. Without `XB` each pair counts twice, as (i, j) and as (j, i), and no point is
        paired with itself.
    radii : float or array_like, shape (q,)
        The radii, as for `radius_neighbors`, in ascending order (descending for similarities).
    weights : tuple of two array_like, or array_like, optional
        Weights of the rows of `XA` and of `XB`, of shapes (m,) and (n,); without `XB` one array. A
        pair counts as the product of its two weights.
    cumulative : bool
        If True, pairs within each radius; else only those beyond the radius before it.

    Returns
    -------
    int, float or ndarray of int64 or float64, shape (q,)
        The counts, one for each radius; sums of products with `weights`, added up in the order of
        the rows, so that threads do not change their bits.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `radius_neighbors`.

    See Also
    --------
    scipy.spatial.cKDTree.count_neighbors : The same for trees; there a tree with itself counts
        each point as a pair.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.count_neighbors([[0.0], [1.0], [3.0]], radii=[1.0, 2.0, 3.0])
    array([2, 4, 6])
    """
    if radii is None:
        raise TypeError(NO_RADII)
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("count_neighbors", XA, XB, metric, metric_args, dtype, rows, orders)
    call = read(asked)
    bounds = call.sign * np.atleast_1d(radii_of(radii, call, "radii", None))
    if np.any(np.diff(bounds) < 0):
        order = "descending, for a similarity" if call.similarity else "ascending"
        raise ValueError(f"radii must be in {order} order")
    both = weights_of(weights, call)
    if call.slow:
        from gpudist import neighbors_slow

        counts = neighbors_slow.count(call, bounds, both)
    else:
        counts = _counts(call, bounds, both)
    if cumulative:
        counts = np.cumsum(counts)
    if np.ndim(radii) == 0:
        return counts[0].item()
    if call.on_host:
        return counts
    there = call.empty(counts.shape, counts.dtype.name)
    call.space.assign(there, counts)
    return there


def within_radius(call: Call, r: Any, max_neighbors: int | None, sort: str) -> Neighborhoods:
    """Find all neighbours within a radius, of a call that is read.

    Parameters
    ----------
    call : Call
        The call.
    r, max_neighbors, sort
        As for `radius_neighbors`.

    Returns
    -------
    Neighborhoods
        As of `radius_neighbors`.
    """
    if sort not in ("index", "distance"):
        raise ValueError(f'sort must be "index" or "distance", got {sort!r}')
    most = call.columns if max_neighbors is None else at_least(max_neighbors, "max_neighbors", 0)
    radii = radii_of(r, call, "r", (call.rows,))
    by_distance = sort == "distance"
    found: tuple[Any, Any, Any]
    if call.slow:
        from gpudist import neighbors_slow

        found = neighbors_slow.within(call, radii, most, by_distance)
    else:
        found = _within(call, radii, most, by_distance)
    indptr, indices, distances = found if call.on_host else _gathered(call, *found)
    with np.errstate(over="ignore"):
        return Neighborhoods(
            indptr,
            call.space.cast(indices, call.index_dtype.name),
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
        from gpudist import neighbors_slow

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


def _within(call: Call, radii: Array, most: int, by_distance: bool) -> tuple[Any, Any, Any]:
    """Return what the core finds within the radii; of several GPUs' parts the whole."""
    parts: dict[int, tuple[Any, Any, Any]] = {}

    def found_by(part: Call, start: int, stop: int) -> None:
        with part.watching() as watch:
            parts[start] = _core.within(
                *part.described,
                part.dtype,
                radii[start:stop],
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


def _gathered(call: Call, indptr: Array, found: Any, count: int) -> tuple[Any, Any, Any]:
    """Return what was found on a device as arrays of the caller's library."""
    places, indices = call.empty(indptr.shape, "int64"), call.empty((count,), "int64")
    distances = call.empty((count,), call.dtype)
    _core.gather(
        found,
        indptr,
        call.operand(distances, call.dtype),
        call.numbers(indices),
        call.numbers(places),
        **call.stream,
    )
    return places, indices, distances


def _results(out: Any, shape: tuple[int, int], call: Call) -> tuple[Any, Any]:
    wanted = (("distances", call.result), ("indices", call.index_dtype.name))
    if out is None:
        return call.empty(shape, call.result), call.empty(shape, call.index_dtype.name)
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError("out must be a tuple of two arrays, for distances and indices")
    for array, (what, dtype) in zip(out, wanted, strict=True):
        if call.on_host and not isinstance(array, np.ndarray):
            raise TypeError(f"out must hold NumPy arrays, got {type(array).__name__} for {what}")
        arrays.space_of(**{"XA": call.points[0], f"out for {what}": array})
        found, there = call.space.dtype_name(array), arrays.shape_of(array)
        if there != shape or found != dtype or not _is_plain(call, array):
            raise ValueError(
                f"out must hold a C-contiguous array of {dtype} and shape {shape} for {what}, got "
                f"{found} and {there}"
            )
        if any(arrays.overlap(call.space, array, x) for x in call.points):
            raise ValueError(f"out must not share memory with the points, as its {what} do")
    return out[0], out[1]


def _is_plain(call: Call, array: Any) -> bool:
    """Tell whether rows follow each other without gaps, to be written."""
    if call.on_host:
        return bool(array.flags.carray)
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
