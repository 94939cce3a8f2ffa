"""Nearest neighbours, neighbours within a radius, and counts of pairs, without the matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpudist import _core, arrays, checks, distance, foreign, homes, registry
from gpudist.progress import Progress, watched

Array = npt.NDArray[Any]

# Distances that the slow ways (the reference, and Python functions) hold at once.
_CHUNK = 1 << 20

_NO_K = "k is missing: how many neighbours, as in knn(XA, XB, 10)"
_NO_R = "r is missing: the radius, as in radius_neighbors(XA, XB, 0.5)"
_NO_RADII = "radii are missing, as in count_neighbors(XA, XB, [0.1, 0.2])"


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
    found = _nearest(
        "nearest",
        XA,
        XB,
        1,
        metric,
        None,
        dtype,
        _How(kernel, device, progress, max_memory),
        rows,
        index_dtype,
        metric_args,
    )
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
    to the bit; the matrix itself is never there. Of rows at the same distance that with the smaller
    index comes first, so the answer is one, whatever the number of threads or of rows asked for.

    Parameters
    ----------
    XA : array_like, shape (m, d)
        Points, one a row, on the host, as for `cdist`.
    XB : array_like, shape (n, d), optional
        The points among which neighbours are searched for. By default those of `XA`, of which none
        is a neighbour of itself; equal points with other indices are.
    k : int
        How many neighbours: 1 to n, or to n - 1 without `XB`.
    metric : str or callable
        As for `cdist`. Of the similarities (inner_product and kulczynski1) the largest are nearest.
    out : tuple of two ndarrays, optional
        Where to write distances and indices: both C-contiguous and of shape (m, k), float32 or
        float64 and `index_dtype`.
    dtype : {float32, float64}, optional
        The dtype of computation and distances, as for `cdist`.
    kernel : str
        "auto", "reference" (NumPy in float64, slow), or the id of a kernel that computes distances
        on the CPU.
    device : str, optional
        "cpu". Neighbours are searched for on the CPU.
    progress : bool or callable
        As for `cdist`.
    rows : slice, optional
        For which rows of `XA`, in steps of 1.
    max_memory : int, optional
        How many bytes the call may hold at once beside its arguments and its result.
    index_dtype : {int64, int32}
        The dtype of indices.
    **metric_args
        Arguments of the metric, as for `cdist`.

    Returns
    -------
    KNearest
        ``(distances, indices)``, both of shape (m, k). A point with NaN is nobody's neighbour and
        has none: its distances are NaN and its indices -1, as are those at the end of a row that
        has fewer than k neighbours.

    Raises
    ------
    TypeError
        Input that `cdist` refuses; arrays on a device; no `k`, or one that is no whole number.
    ValueError
        `k` out of range, and what `cdist` refuses.
    MemoryError
        `max_memory` is too little; nothing was allocated.
    gpudist.DeviceError
        `device` asks for CUDA.

    See Also
    --------
    nearest : The nearest one alone.
    radius_neighbors : All within a radius.

    Notes
    -----
    Distances are computed in panels that stay in the processor's cache, by the kernels of `cdist`,
    and held against the distance of each row's k-th neighbour so far.

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
        raise TypeError(_NO_K)
    how = _How(kernel, device, progress, max_memory)
    return _nearest("knn", XA, XB, k, metric, out, dtype, how, rows, index_dtype, metric_args)


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
        raise TypeError(_NO_R)
    if sort not in ("index", "distance"):
        raise ValueError(f'sort must be "index" or "distance", got {sort!r}')
    how = _How(kernel, device, progress, max_memory)
    call = _read("radius_neighbors", XA, XB, metric, dtype, rows, index_dtype, how, metric_args)
    most = call.columns if max_neighbors is None else _at_least(max_neighbors, "max_neighbors", 0)
    radii = _radii(r, call, "r", (call.rows,))
    by_distance = sort == "distance"
    if call.slow:
        found = _within_slowly(call, radii, most, by_distance)
    else:
        with _watching(call) as watch:
            found = _core.within(
                *call.operands, call.dtype, radii, most, by_distance, call.first, **call.told(watch)
            )
    indptr, indices, distances = found
    return Neighborhoods(
        indptr,
        indices.astype(call.index_dtype, copy=False),
        _rounded(distances, call.result),
        call.columns,
    )


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
        raise TypeError(_NO_RADII)
    how = _How(kernel, device, progress, max_memory)
    call = _read("count_neighbors", XA, XB, metric, dtype, rows, np.int64, how, metric_args)
    bounds = np.atleast_1d(_radii(radii, call, "radii", None))
    sign = -1.0 if call.similarity else 1.0
    if np.any(np.diff(sign * bounds) < 0):
        order = "descending, for a similarity" if call.similarity else "ascending"
        raise ValueError(f"radii must be in {order} order")
    both = _weights(weights, XB is None, call)
    if call.slow:
        counts = _count_slowly(call, sign * bounds, both)
    else:
        with _watching(call) as watch:
            counts = _core.count(
                *call.operands, call.dtype, sign * bounds, *both, call.first, **call.told(watch)
            )
    if cumulative:
        counts = np.cumsum(counts)
    return counts[0].item() if np.ndim(radii) == 0 else counts


class Neighbors:
    """A set of points to be asked for neighbours again and again.

    It has the methods of `sklearn.neighbors.NearestNeighbors`, with their names, arguments and
    shapes, so that code which asks one of those can ask this.

    Parameters
    ----------
    X : array_like, shape (n, d)
        The points, kept as an array of the dtype that is worked in.
    metric : str
        As for `cdist`.
    n_neighbors : int
        How many neighbours `kneighbors` gives by default.
    radius : float
        The radius of `radius_neighbors` by default.
    **metric_args
        Arguments of the metric, as for `cdist`. The defaults of `V` and `VI` are those of `X`.

    Examples
    --------
    >>> import gpudist
    >>> index = gpudist.Neighbors([[0.0], [1.0], [5.0]], "cityblock", n_neighbors=1)
    >>> index.kneighbors([[0.9], [4.0]])
    (array([[0.1],
           [1. ]]), array([[1],
           [2]]))
    """

    def __init__(
        self,
        X: Any,
        metric: str = "euclidean",
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        **metric_args: Any,
    ) -> None:
        how = _How("auto", None, False, None)
        call = _read("Neighbors", X, None, metric, None, None, np.int64, how, metric_args)
        self._points = np.array(call.operands[0], dtype=call.result)
        self._metric_args = call.values
        self.metric = call.metric
        self.n_neighbors, self.radius = n_neighbors, radius
        self.n_samples_fit_, self.n_features_in_ = self._points.shape

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Find the nearest neighbours of points.

        Parameters
        ----------
        X : array_like, shape (m, d), optional
            The points; by default the set's own, none of which is its own neighbour.
        n_neighbors : int, optional
            How many.
        return_distance : bool
            Whether to return the distances as well.

        Returns
        -------
        distances : ndarray, shape (m, n_neighbors)
            Only with `return_distance`.
        indices : ndarray of int64, shape (m, n_neighbors)
            The neighbours' rows, the nearest first.
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        found = knn(*self._asked(X), k, self.metric, **self._metric_args)
        return (found.distances, found.indices) if return_distance else found.indices

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find all neighbours of points within a radius.

        Parameters
        ----------
        X : array_like, shape (m, d), optional
            The points; by default the set's own, none of which is its own neighbour.
        radius : float, optional
            The radius, inclusive.
        return_distance : bool
            Whether to return the distances as well.
        sort_results : bool
            Whether the nearest come first; else they come in the set's order.

        Returns
        -------
        distances : ndarray of object, shape (m,)
            An array for each point; only with `return_distance`.
        indices : ndarray of object, shape (m,)
            An array for each point.
        """
        found = self._within(X, radius, sort_results)
        cuts = found.indptr[1:-1]
        parts = [_ragged(np.split(array, cuts)) for array in (found.distances, found.indices)]
        return tuple(parts) if return_distance else parts[1]

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Give the nearest neighbours of points as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As for `kneighbors`.
        mode : {"connectivity", "distance"}
            What is stored: ones, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix, shape (m, n)
            Rows sorted by distance.
        """
        distances, indices = self.kneighbors(X, n_neighbors)
        indptr = np.arange(len(indices) + 1) * indices.shape[1]
        return self._graph(distances.ravel(), indices.ravel(), indptr, mode)

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> Any:
        """Give the neighbours of points within a radius as a sparse matrix.

        Parameters
        ----------
        X, radius, sort_results
            As for `radius_neighbors`.
        mode : {"connectivity", "distance"}
            What is stored: ones, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix, shape (m, n)
            Rows sorted by distance with `sort_results`, else by column.
        """
        found = self._within(X, radius, sort_results)
        return self._graph(found.distances, found.indices, found.indptr, mode)

    def _within(self, X: Any, radius: float | None, sort_results: bool) -> Neighborhoods:
        r = self.radius if radius is None else radius
        sort = "distance" if sort_results else "index"
        return radius_neighbors(*self._asked(X), r, self.metric, sort=sort, **self._metric_args)

    def _asked(self, X: Any) -> tuple[Any, Any]:
        """Return the points that are asked for, and those to search among."""
        if X is None:
            return self._points, None
        return arrays.HOST.array(X, "X").astype(self._points.dtype, copy=False), self._points

    def _graph(self, distances: Array, indices: Array, indptr: Array, mode: str) -> Any:
        from scipy.sparse import csr_matrix

        if mode not in ("connectivity", "distance"):
            raise ValueError(f'mode must be "connectivity" or "distance", got {mode!r}')
        data = distances if mode == "distance" else np.ones_like(distances)
        shape = len(indptr) - 1, self.n_samples_fit_
        return csr_matrix((data, indices, indptr), shape=shape)


def _ragged(parts: list[Array]) -> Array:
    made = np.empty(len(parts), dtype=object)
    for i, part in enumerate(parts):
        made[i] = part
    return made


# ------------------------------------------------------------------ reading a call


class _How(NamedTuple):
    """What every function here is told beside its points, metric and dtypes."""

    kernel: str
    device: Any
    progress: Progress
    max_memory: Any


class _Call(NamedTuple):
    """A call with everything read and checked that does not need the core.

    `operands` are the rows that neighbours are searched for, and those they are searched among.
    `first` is the row of the latter that the former begin with, None if they are others. `result`
    is the dtype of distances, `dtype` that of the computation, which is wider at times.
    """

    function: str
    operands: tuple[Any, Any]
    first: int | None
    metric: Any
    similarity: bool
    values: dict[str, Any]
    core_values: dict[str, Any]
    result: str
    dtype: str
    index_dtype: np.dtype[Any]
    how: _How

    @property
    def rows(self) -> int:
        return len(self.operands[0])

    @property
    def columns(self) -> int:
        return len(self.operands[1])

    @property
    def slow(self) -> bool:
        """Whether NumPy does it: the reference, and metrics that are Python functions."""
        return self.how.kernel == "reference" or callable(self.metric)

    def told(self, watch: Any) -> dict[str, Any]:
        """Return the core's other arguments."""
        return {
            "metric": self.metric,
            "kernel": self.how.kernel,
            "device": self.how.device,
            "max_memory": self.how.max_memory,
            "progress": watch,
            **self.core_values,
        }


def _read(
    function: str,
    XA: Any,
    XB: Any,
    metric: Any,
    dtype: Any,
    rows: slice | None,
    index_dtype: Any,
    how: _How,
    metric_args: dict[str, Any],
) -> _Call:
    device, max_memory = registry.read_orders(
        "cdist", how.kernel, None, how.device, how.progress, how.max_memory
    )
    how = how._replace(device=device, max_memory=max_memory)
    named = {"XA": XA} if XB is None else {"XA": XA, "XB": XB}
    if foreign.is_dask(XA, XB):
        raise TypeError(_of_parts(function))
    if arrays.space_of(**named) is not arrays.HOST:
        raise TypeError(
            f"{function} takes arrays on the host so far; of arrays on a device, copy them to the "
            "host, or take gpudist.cdist and the library's own topk"
        )
    if callable(metric):
        points = [arrays.host_objects(x, name) for name, x in named.items()]
        values, core_values, similarity, result = metric_args, {}, False, "float64"
        computed, name = "float64", metric
    else:
        read = distance.read_call(function, named, metric, None, dtype, metric_args)
        points, values, core_values = read.operands, read.values, read.core_values
        similarity, result, computed = read.metric.similarity, read.result, read.dtype
        name = read.metric.name
        points = distance.cast(read, "bool" if read.truths else read.dtype)
    indices = index_type(index_dtype, len(points[-1]))
    start, stop = (0, len(points[0])) if rows is None else checks.rows(rows, len(points[0]))
    first = start if XB is None else None
    asked = points[0][start:stop]
    return _Call(
        function,
        (asked, points[-1]),
        first,
        name,
        similarity,
        values,
        core_values,
        result,
        computed,
        indices,
        how,
    )


def _of_parts(function: str) -> str:
    """Say what to do with a Dask array where the result is none."""
    if function == "Neighbors":
        return (
            "Neighbors keeps its points here: give X.compute(), or call gpudist.knn, which is lazy"
        )
    return (
        f"{function} of a Dask array has no result in chunks of known shapes; call it for parts: "
        f"[dask.delayed(gpudist.{function})(part, XB, ...) for part in XA.to_delayed().ravel()]"
    )


def _at_least(value: Any, name: str, least: int) -> int:
    number = checks.whole(name, value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def count_of(k: Any, columns: int, among_themselves: bool) -> int:
    """Return how many neighbours are asked for, or raise an error if there are not so many.

    Parameters
    ----------
    k : int
        What the caller gave.
    columns : int
        The number of points that are searched among.
    among_themselves : bool
        Whether a point is one of these, and not its own neighbour.

    Returns
    -------
    int
        `k`.

    Raises
    ------
    TypeError, ValueError
        It is no whole number, or less than 1, or too large.
    """
    count = _at_least(k, "k", 1)
    available = max(columns - among_themselves, 0)
    if count > available:
        among = f"{columns} points" + (" but itself" if among_themselves else "")
        raise ValueError(f"k must be at most {available}, of {among}; got {count}")
    return count


def index_type(dtype: Any, rows: int) -> np.dtype[Any]:
    """Return the dtype of indices, or raise a ValueError if it does not number so many rows."""
    indices: np.dtype[Any] = np.dtype(dtype)
    if indices not in (np.dtype(np.int64), np.dtype(np.int32)):
        raise ValueError(f"index_dtype must be int64 or int32, got {indices}")
    if indices == np.int32 and rows > np.iinfo(np.int32).max:
        raise ValueError(f"index_dtype int32 cannot number {rows} rows")
    return indices


def _radii(r: Any, call: _Call, name: str, shape: tuple[int, ...] | None) -> Array:
    """Return radii as float64, the largest that are still within `r` in the dtype of distances."""
    checks.refuse_recorded(name, r)
    try:
        radii = np.asarray(r, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers, got {r!r}") from None
    if radii.ndim > 1 or (shape is not None and radii.ndim == 1 and radii.shape != shape):
        wanted = f"an array of shape {shape}" if shape is not None else "a one-dimensional array"
        raise ValueError(f"{name} must be a number or {wanted}, got shape {radii.shape}")
    if np.isnan(radii).any() or (not call.similarity and (radii < 0).any()):
        raise ValueError(f"{name} must be 0 or more and not NaN, got {r!r}")
    if shape is not None:
        radii = np.broadcast_to(radii, shape)
    with np.errstate(over="ignore"):
        rounded = radii.astype(call.result)
    limits = rounded.astype(np.float64)
    if call.dtype != call.result:  # distances are rounded after they were held against a limit
        outward = np.float32(-np.inf if call.similarity else np.inf)
        halfway = (limits + np.nextafter(rounded, outward).astype(np.float64)) / 2
        inside = np.nextafter(halfway, -np.float64(outward))
        limits = np.where(halfway.astype(call.result) == rounded, halfway, inside)
    return np.ascontiguousarray(limits)


def _weights(weights: Any, alone: bool, call: _Call) -> tuple[Any, Any]:
    if weights is None:
        return None, None
    pair = (weights, weights) if alone else weights
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError("weights must be a tuple of two arrays, those of XA and of XB")
    made = [np.ascontiguousarray(arrays.host_objects(w, "weights"), dtype=np.float64) for w in pair]
    if alone and call.first is not None:
        made[0] = made[0][call.first : call.first + call.rows]
    for w, count, name in zip(made, (call.rows, call.columns), ("XA", "XB"), strict=True):
        if w.shape != (count,):
            raise ValueError(f"weights of {name} must have shape ({count},), got {w.shape}")
    return made[0], made[1]


def _watching(call: _Call) -> Any:
    columns = call.operands[1].shape[1]
    return watched(call.how.progress, call.rows * call.columns * columns, call.function)


def _rounded(distances: Array, result: str) -> Array:
    with np.errstate(over="ignore"):
        return distances.astype(result, copy=False)


# ------------------------------------------------------------------ the k nearest


def _nearest(
    function: str,
    XA: Any,
    XB: Any,
    k: Any,
    metric: Any,
    out: tuple[Array, Array] | None,
    dtype: Any,
    how: _How,
    rows: slice | None,
    index_dtype: Any,
    metric_args: dict[str, Any],
) -> KNearest:
    call = _read(function, XA, XB, metric, dtype, rows, index_dtype, how, metric_args)
    count = count_of(k, call.columns, call.first is not None)
    shape = call.rows, count
    distances, indices = _results(out, shape, call)
    if call.slow:
        distances[...], indices[...] = _nearest_slowly(call, count)
        return KNearest(*(out or (distances, indices)))
    exact = distances if distances.dtype == call.dtype else np.empty(shape, call.dtype)
    wide = indices if indices.dtype == np.int64 else np.empty(shape, np.int64)
    with _watching(call) as watch:
        _core.nearest(*call.operands, exact, wide, None, call.first, **call.told(watch))
    if exact is not distances:
        distances[...] = _rounded(exact, call.result)
    if wide is not indices:
        indices[...] = wide
    return KNearest(distances, indices)


def _results(out: Any, shape: tuple[int, int], call: _Call) -> tuple[Array, Array]:
    if out is None:
        return (
            arrays.HOST.empty(shape, call.result, like=None),
            arrays.HOST.empty(shape, call.index_dtype.name, like=None),
        )
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError("out must be a tuple of two arrays, for distances and indices")
    wanted = (("distances", call.result), ("indices", call.index_dtype.name))
    for array, (what, dtype) in zip(out, wanted, strict=True):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"out must hold NumPy arrays, got {type(array).__name__} for {what}")
        good = array.shape == shape and array.dtype == dtype and array.flags.carray
        if not good:
            raise ValueError(
                f"out must hold a C-contiguous array of {dtype} and shape {shape} for {what}, got "
                f"{array.dtype} and {array.shape}"
            )
        if any(np.may_share_memory(array, x) for x in call.operands):
            raise ValueError(f"out must not share memory with the points, as its {what} do")
    return out[0], out[1]


# ------------------------------------------------------------------ explaining


def explain_nearest(
    XA: Any,
    XB: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `nearest` would do; see `gpudist.explain`."""
    how = _How(kernel, device, False, None)
    call = _read("nearest", XA, XB, metric, dtype, rows, index_dtype, how, metric_args)
    return _explain(
        call, _pairs_of_bytes(call, count_of(1, call.columns, call.first is not None) * call.rows)
    )


def explain_knn(
    XA: Any,
    XB: Any = None,
    k: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `knn` would do; see `gpudist.explain`."""
    if k is None:
        raise TypeError(_NO_K)
    how = _How(kernel, device, False, None)
    call = _read("knn", XA, XB, metric, dtype, rows, index_dtype, how, metric_args)
    return _explain(
        call, _pairs_of_bytes(call, count_of(k, call.columns, call.first is not None) * call.rows)
    )


def explain_radius_neighbors(
    XA: Any,
    XB: Any = None,
    r: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `radius_neighbors` would do; see `gpudist.explain`.

    How many neighbours there are is not known before the search: none are counted.
    """
    if r is None:
        raise TypeError(_NO_R)
    how = _How(kernel, device, False, None)
    call = _read("radius_neighbors", XA, XB, metric, dtype, rows, index_dtype, how, metric_args)
    _radii(r, call, "r", (call.rows,))
    return _explain(call, 8 * (call.rows + 1))


def explain_count_neighbors(
    XA: Any,
    XB: Any = None,
    radii: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `count_neighbors` would do; see `gpudist.explain`."""
    if radii is None:
        raise TypeError(_NO_RADII)
    how = _How(kernel, device, False, None)
    call = _read("count_neighbors", XA, XB, metric, dtype, rows, np.int64, how, metric_args)
    return _explain(call, _radii(radii, call, "radii", None).nbytes)


def _pairs_of_bytes(call: _Call, neighbors: int) -> int:
    """Count the bytes of so many distances and indices."""
    return neighbors * (np.dtype(call.result).itemsize + call.index_dtype.itemsize)


def _explain(call: _Call, result_bytes: int) -> registry.Explanation:
    if callable(call.metric):
        raise TypeError("a callable metric is called from Python, it runs no kernel")
    a, b = call.operands
    truths = b.dtype == bool
    read = b.size + (a.size if call.first is None else 0)
    kernel, device = call.how.kernel, call.how.device
    filtering = ""
    if kernel != "reference":
        chosen = _core.choose("neighbors", call.dtype, None, len(b), b.shape[1], None, device)
        filtering = (
            f"; neighbors/{chosen[0].partition('/')[2]} looks through each panel of distances"
        )
    said = registry.choose(
        call.function,
        dtype=call.dtype,
        metric=call.metric,
        n=len(b),
        cols=b.shape[1],
        kernel=kernel,
        device="cpu",
        space=arrays.HOST,
        elements_moved=0 if truths else read,
        operations=len(a) * len(b) * b.shape[1],
        operands="bool" if truths else None,
        operand_bytes=read if truths else 0,
        result_bytes=result_bytes,
        weighted="weights" in call.core_values,
        p=call.core_values.get("p", 2.0),
        rows=len(a),
    )
    return dataclasses.replace(said, reason=said.reason + filtering)


# ------------------------------------------------------------------ by NumPy


def _slow_chunks(call: _Call) -> Iterator[tuple[int, Array]]:
    """Give the keys of some rows after the others, smaller ones nearer, NaN for no neighbour."""
    a, b = call.operands
    step = max(_CHUNK // max(len(b), 1), 1)
    for start in range(0, len(a), step):
        some = a[start : start + step]
        if callable(call.metric):
            keys = distance.cdist(some, b, call.metric, **call.values)
        else:
            keys = distance.cdist(
                some, b, call.metric, kernel="reference", dtype=call.result, **call.values
            )
        keys = np.asarray(keys, dtype=np.float64)
        if call.first is not None:
            i = np.arange(len(some))
            keys[i, call.first + start + i] = np.nan
        yield start, -keys if call.similarity else keys


def _sorted(keys: Array, count: int) -> tuple[Array, Array]:
    """Give the first keys of a stable sort, NaN last and without an index."""
    order = np.argsort(keys, axis=1, kind="stable")[:, :count]
    first = np.take_along_axis(keys, order, axis=1)
    return first, np.where(np.isnan(first), -1, order)


def _nearest_slowly(call: _Call, count: int) -> tuple[Array, Array]:
    parts = [_sorted(keys, count) for _, keys in _slow_chunks(call)]
    if not parts:
        return np.empty((0, count)), np.empty((0, count), np.int64)
    keys, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
    return (-keys if call.similarity else keys), indices


def _within_slowly(
    call: _Call, radii: Array, most: int, by_distance: bool
) -> tuple[Array, Array, Array]:
    indptr, indices, distances = [0], [np.empty(0, np.int64)], [np.empty(0)]
    sign = -1.0 if call.similarity else 1.0
    for start, keys in _slow_chunks(call):
        for row, limit in zip(keys, sign * radii[start : start + len(keys)], strict=True):
            (inside,) = np.nonzero(row <= limit)
            order = np.argsort(row[inside], kind="stable")[:most]
            chosen = inside[order if by_distance else np.sort(order)]
            indices.append(chosen)
            distances.append(sign * row[chosen])
            indptr.append(indptr[-1] + len(chosen))
    return np.array(indptr), np.concatenate(indices), np.concatenate(distances)


def _count_slowly(call: _Call, bounds: Array, weights: tuple[Any, Any]) -> Array:
    wa, wb = weights
    counts = np.zeros(len(bounds), np.int64 if wa is None else np.float64)
    for start, keys in _slow_chunks(call):
        bins = np.searchsorted(bounds, keys)
        for i, row in enumerate(bins):
            good = (row < len(bounds)) & ~np.isnan(keys[i])
            found = np.bincount(row[good], None if wa is None else wb[good], minlength=len(bounds))
            counts += found if wa is None else wa[start + i] * found
    return counts
