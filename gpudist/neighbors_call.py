"""A call of those that search for neighbours: read and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpudist import _core, arrays, checks, distance_call, foreign, metrics, several_gpus
from gpudist.distance_call import Asked
from gpudist.intake import Orders, objects
from gpudist.progress import Progress, watched

Array = npt.NDArray[Any]

NO_K = "k is missing: how many neighbours, as in knn(XA, k=10) or knn(XA, XB, 10)"
NO_R = "r is missing: the radius, as in radius_neighbors(XA, XB, 0.5)"
NO_RADII = "radii are missing, as in count_neighbors(XA, XB, [0.1, 0.2])"

_NO_ORDERS = Orders()

# Radii below this one are numbers in every dtype of distances but the halves.
_MOST_SIMPLE = 1e38


class Call(NamedTuple):
    """A call with everything read and checked that does not need the core.

    `asked` are the distances that it is about, with its orders read. `points` are the rows that
    neighbours are searched for, and those they are searched among; `first` is the row of the latter
    that the former begin with, None if they are others. `metric` is a name or a callable. `result`
    is the dtype of distances, `dtype` that of the computation, which is wider at times, and
    `read_as` that in which the core takes the points. All of them are in `space`. `kept` is what
    the core arranges the latter points in for later calls as well, None for nothing; by `common` it
    brings them to several GPUs at once.
    """

    asked: Asked
    space: arrays.Space
    points: tuple[Any, Any]
    first: int | None
    metric: Any
    arguments: metrics.Arguments
    similarity: bool
    result: str
    dtype: str
    read_as: str
    index_dtype: str
    kept: Any = None
    common: Any = None

    @property
    def rows(self) -> int:
        """How many rows neighbours are searched for."""
        return int(self.points[0].shape[0])

    @property
    def columns(self) -> int:
        """How many rows they are searched among."""
        return int(self.points[1].shape[0])

    @property
    def on_host(self) -> bool:
        """Whether points and results are NumPy arrays."""
        return self.space is arrays.HOST

    @property
    def described(self) -> tuple[Any, Any]:
        """What the core takes for the points."""
        a, b = self.points
        return self.operand(a, self.read_as), self.operand(b, self.read_as)

    @property
    def slow(self) -> bool:
        """Whether NumPy does it: the reference, and metrics that are Python functions."""
        return self.asked.orders.kernel == "reference" or callable(self.metric)

    @property
    def sign(self) -> float:
        """What makes the nearer of two keys the smaller one."""
        return -1.0 if self.similarity else 1.0

    def operand(self, array: Any, dtype: str) -> Any:
        """Return what the core takes for an array of that dtype."""
        return self.space.operand(array, dtype, tuple(array.shape))

    def numbers(self, indices: Any) -> Any:
        """Return what the core takes for indices to be written: on a device their address."""
        return indices if self.on_host else self.space.view(indices).address

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an uninitialised array where the points are."""
        return self.space.empty(shape, dtype, like=self.points[0])

    @property
    def stream(self) -> dict[str, Any]:
        """The stream of arrays on a device, as the core takes it."""
        if self.on_host:
            return {}
        return {"stream": self.space.stream(self.points[0]), "ordered": self.space.ordered}

    @property
    def steps(self) -> int:
        """How many inner steps all distances take."""
        return self.rows * self.columns * int(self.points[1].shape[1])

    def watching(self) -> Any:
        """Return the context in which the core computes, which gives who watches it."""
        return watched(self.asked.orders.progress, self.steps, self.asked.function)

    def part(self, start: int, stop: int, device: str, progress: Progress, common: Any) -> Call:
        """Return the same call for rows [start, stop), on a device of its own among several.

        They bring the points that are searched among together, by way of `common`.
        """
        orders = self.asked.orders._replace(device=device, progress=progress)
        return self._replace(
            asked=self.asked._replace(orders=orders),
            points=(self.points[0][start:stop], self.points[1]),
            first=None if self.first is None else self.first + start,
            common=common,
        )

    def told(self, watch: Any) -> dict[str, Any]:
        """Return the core's other arguments."""
        orders = self.asked.orders
        return {
            "metric": self.metric,
            "kernel": orders.kernel,
            "device": orders.device,
            "max_memory": orders.max_memory,
            "progress": watch,
            "common": self.common,
            **self.stream,
            **self.arguments.core,
        }


def asked_for(
    function: str,
    XA: Any,
    XB: Any,
    metric: Any,
    metric_args: dict[str, Any],
    dtype: Any = None,
    rows: slice | None = None,
    orders: Orders = _NO_ORDERS,
) -> Asked:
    """Return the distances that a search for neighbours is about, as they were asked for.

    Parameters
    ----------
    function : str
        The search.
    XA, XB, metric, metric_args, dtype, rows
        What it was given; `XB` of None for none.
    orders : Orders
        Its orders, not yet read.

    Returns
    -------
    Asked
        The record.
    """
    named = {"XA": XA} if XB is None else {"XA": XA, "XB": XB}
    return Asked(function, named, metric, metric_args, dtype, None, rows, orders)


def read(asked: Asked, index_dtype: Any = np.int64) -> Call:
    """Read and check all of a call that does not need the core.

    Parameters
    ----------
    asked : Asked
        The distances that it is about, and the rows of XA that it is for.
    index_dtype : dtype-like
        The dtype of indices that the caller wants.

    Returns
    -------
    Call
        The record.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.knn`.
    """
    asked = asked.ordered()
    if foreign.is_dask(*asked.named.values()):
        raise TypeError(_of_parts(asked.function))
    metric, similarity, result, dtype = asked.metric, False, "float64", "float64"
    read_as = dtype
    if callable(metric):
        space = arrays.space_of(**asked.named)
        arrays.refuse_devices(space, "a callable metric")
        distance_call.check_callable(asked.orders)
        result = dtype = distance_call.dtype_of_callable(asked)
        points = [*objects(asked.named).values()]
        distance_call.shape_of(asked.named, [x.shape for x in points])
        arguments = metrics.Arguments(asked.metric_args, {})
    else:
        call = distance_call.read(asked)
        space = call.operands.space
        if asked.orders.kernel == "reference":
            arrays.refuse_devices(space, 'kernel="reference"')
        points, arguments, result, dtype = call.cast(), call.arguments, call.result, call.dtype
        metric, similarity, read_as = call.metric.name, call.metric.similarity, call.read_as
    of, among = points[0], points[-1]
    indices, start = index_type(index_dtype, int(among.shape[0])), 0
    if asked.rows is not None:
        start, stop = checks.rows(asked.rows, int(of.shape[0]))
        of = of[start:stop]
    first = start if len(asked.named) == 1 else None
    return Call(
        asked,
        space,
        (of, among),
        first,
        metric,
        arguments,
        similarity,
        result,
        dtype,
        read_as,
        indices,
    )


def search(call: Call, found_by: Callable[[Call, int, int], None]) -> None:
    """Search for the neighbours of all rows: at once, or on several GPUs, each for some rows.

    Parameters
    ----------
    call : Call
        The call.
    found_by : callable
        Searches on one device for rows [start, stop), given the call for these alone, and puts what
        it finds where it belongs.

    Raises
    ------
    TypeError
        Several GPUs are asked for, and the points are on one.
    BaseException
        What ended the search.
    """
    orders = call.asked.orders
    if not several_gpus.are_named(orders.device):
        found_by(call, 0, call.rows)
        return
    several_gpus.check_on_host(call.space)

    devices = several_gpus.of(orders.device)
    # A panel brings all that is searched among, so each GPU has one.
    panels = several_gpus.panels(call.rows, len(devices), each=1)
    common = _core.common(len(panels))

    def compute(device: str, start: int, stop: int, tell: Progress) -> None:
        found_by(call.part(start, stop, device, tell, common), start, stop)

    task = several_gpus.Task(call.asked.function, panels, call.steps, compute, resumable=False)
    several_gpus.share(task, devices, orders.progress)


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


def at_least(value: Any, name: str, least: int) -> int:
    """Read a whole number that must not be less, or raise an error that names it."""
    number = checks.whole(name, value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def count_of(k: Any, columns: int, among_themselves: bool, name: str = "k") -> int:
    """Return how many neighbours are asked for, or raise an error if there are not so many.

    Parameters
    ----------
    k : int
        What the caller gave.
    columns : int
        The number of points that are searched among.
    among_themselves : bool
        Whether a point is one of these, and not its own neighbour.
    name : str
        What errors call it.

    Returns
    -------
    int
        `k`.

    Raises
    ------
    TypeError, ValueError
        It is no whole number, or less than 1, or too large.
    """
    count = at_least(k, name, 1)
    available = max(columns - among_themselves, 0)
    if count > available:
        among = f"{columns} point{'s' * (columns != 1)}" + " but itself" * among_themselves
        if available == 0:
            raise ValueError(f"there are no neighbours among {among}")
        raise ValueError(f"{name} must be at most {available}, of {among}; got {count}")
    return count


def index_type(dtype: Any, rows: int) -> str:
    """Return the dtype of indices, or raise a ValueError if it does not number so many rows."""
    if dtype is np.int64:  # as most say
        return "int64"
    indices = arrays.dtype_name(dtype, "index_dtype")
    if indices not in ("int64", "int32"):
        raise ValueError(f"index_dtype must be int64 or int32, got {indices}")
    if indices == "int32" and rows > np.iinfo(np.int32).max:
        raise ValueError(f"index_dtype int32 cannot number {rows} rows")
    return indices


def radii_of(r: Any, call: Call, name: str, shape: tuple[int, ...] | None) -> Array:
    """Return radii as float64, the largest that are still within `r` in the dtype of distances.

    Those of rows, which have a `shape`, are one for each of them, or a single one for all.
    """
    # As most are, of which small calls feel the questions.
    if type(r) in (float, int) and call.dtype == call.result and 0 <= r < _MOST_SIMPLE:
        return np.array([r], call.result).astype(np.float64)
    checks.refuse_recorded(name, r)
    single = arrays.dimensions(r) == 0 and arrays.space_of(**{name: r}) is arrays.HOST
    radii = np.float64(checks.number(name, r)) if single else arrays.parameter(call.space, r, name)
    if radii.ndim > 1 or (shape is not None and radii.ndim == 1 and radii.shape != shape):
        wanted = f"an array of shape {shape}" if shape is not None else "a one-dimensional array"
        raise ValueError(f"{name} must be a number or {wanted}, got shape {radii.shape}")
    if np.isnan(radii).any() or (not call.similarity and (radii < 0).any()):
        raise ValueError(f"{name} must be 0 or more and not NaN, got {r!r}")
    if call.dtype == call.result == "float64":
        return np.ascontiguousarray(radii)
    if shape is not None:
        radii = np.atleast_1d(radii)
    with np.errstate(over="ignore"):
        rounded = radii.astype(call.result)
    limits = rounded.astype(np.float64)
    if call.dtype != call.result:  # distances are rounded after they were held against a limit
        outward = np.float32(-np.inf if call.similarity else np.inf)
        halfway = (limits + np.nextafter(rounded, outward).astype(np.float64)) / 2
        inside = np.nextafter(halfway, -np.float64(outward))
        limits = np.where(halfway.astype(call.result) == rounded, halfway, inside)
    return np.ascontiguousarray(limits)


def weights_of(weights: Any, call: Call) -> tuple[Any, Any]:
    """Return the weights of the rows on both sides, or None for each."""
    alone = call.first is not None
    if weights is None:
        return None, None
    pair = (weights, weights) if alone else weights
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError("weights must be a tuple of two arrays, those of XA and of XB")
    made = [arrays.parameter(call.space, w, "weights") for w in pair]
    counts = call.columns if alone else call.rows, call.columns
    for w, count, name in zip(made, counts, ("XA", "XB"), strict=True):
        if w.shape != (count,):
            raise ValueError(f"weights of {name} must have shape ({count},), got {w.shape}")
    if call.first is not None:
        made[0] = made[0][call.first : call.first + call.rows]
    return made[0], made[1]
