"""Nearest neighbours, neighbours within a radius, and counts of pairs, without the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpudist import _core, checks, foreign, homes
from gpudist.intake import AUTO, Orders
from gpudist.neighbors_call import NO_K, NO_R, NO_RADII, Array, asked_for, read
from gpudist.neighbors_one import (
    KNearest,
    Nearest,
    Neighborhoods,
    k_nearest,
    pairs_within,
    within_radius,
)
from gpudist.progress import Progress


def _found_simply(
    XA: Any, XB: Any, k: Any, metric: Any, device: Any, dtype: Any, metric_args: dict[str, Any]
) -> Any:
    """Return what the core finds by its short way, None where the call is none for that."""
    if type(XA) is np.ndarray:
        return _core.nearest_arrays(XA, XB, k, metric, device, dtype, metric_args)
    if device is not None or dtype is not None or checks.is_watched():
        return None
    return _core.nearest_tensors(XA, XB, k, metric, metric_args)


@homes.returned("XA")
def nearest(
    XA: Any,
    XB: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = AUTO,
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
    found: Any = None
    if (  # small calls feel each tenth of a microsecond
        kernel is AUTO
        and progress is False
        and rows is None
        and max_memory is None
        and index_dtype is np.int64
    ):
        found = _found_simply(XA, XB, 1, metric, device, dtype, metric_args)
    if found is not None:
        distances, indices = found
        return Nearest(distances[:, 0], indices[:, 0])
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("nearest", XA, XB, metric, metric_args, dtype, rows, orders)
    if foreign.is_dask(XA, XB):
        from gpudist import dask

        return dask.nearest(asked, index_dtype)
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
    kernel: str = AUTO,
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
    `cdist` takes the products of ``cdist/cuda_tensor*`` or ``cdist/cpu_product_*``, those of
    "cdist/cuda_tile" or ``cdist/cpu_tile_*``, unless `kernel` names one of the former. Of rows at
    the same distance that with the smaller index comes first, so the answer is one, whatever the
    number of threads or of rows asked for.

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
    device : str, or device of PyTorch or CuPy, optional
        "cpu", "cuda" or "cuda:1", or "cuda:all" or "cuda:0,2" for several GPUs, as for `cdist`;
        arrays on a device are searched through there.
    progress : bool or callable
        As for `cdist`.
    rows : slice, optional
        For which rows of `XA`, in steps of 1.
    max_memory : int or str, optional
        How many bytes the call may hold at once beside its arguments and its result, or a text such
        as "500 MB".
    index_dtype : {int64, int32}
        The dtype of indices.
    **metric_args
        Arguments of the metric, as for `cdist`; ``box=`` for points in a periodic box.

    Returns
    -------
    KNearest
        ``(distances, indices)``, both of shape (m, k), arrays of the library and on the device of
        `XA`. A point with NaN is nobody's neighbour and has none: its distances are NaN and its
        indices -1, as are those at the end of a row that has fewer than k neighbours.

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
    other exponents than 1, 2 and inf. A device has boxes too, in the first four of these distances,
    for up to 128 neighbours or all within a radius; and where its compute capability is 9.0, for up
    to 1024 neighbours, products of halves that bound euclidean, sqeuclidean, cosine and correlation
    distances, sums of bytes that bound those of cityblock in float32, and counts of truths in
    common. On the CPU, with 9 columns or more, and from some 100 rows on, cosine and correlation
    distances, inner_product, and euclidean and sqeuclidean distances without weights, have a
    product in float32 that bounds each, and only those that it does not rule out are computed, as
    always in the direct form.

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
    if k is None:
        raise TypeError(NO_K)
    found: Any = None
    if (
        kernel is AUTO
        and out is None
        and progress is False
        and rows is None
        and max_memory is None
        and index_dtype is np.int64
    ):
        found = _found_simply(XA, XB, k, metric, device, dtype, metric_args)
    if found is not None:
        return KNearest(*found)
    orders = Orders(kernel, device, None, progress, max_memory)
    asked = asked_for("knn", XA, XB, metric, metric_args, dtype, rows, orders)
    if foreign.is_dask(XA, XB):
        from gpudist import dask

        return dask.knn(asked, k, index_dtype, out)
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
    return pairs_within(read(asked), radii, weights, cumulative)
