"""A call of cdist or pdist for two matrices or one: read, and computed.

`Asked` is the call as it was made, `Call` what was read of it: one record that goes from here to
the core, to NumPy's slow forms, and to those who tell what would run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations, repeat
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, errors, metrics, several_gpus
from gpudist.intake import SEARCHES, Operands, Orders, objects, operands
from gpudist.progress import Progress, watched

# What the functions themselves take by name.
OWN_ARGUMENTS = (
    "metric",
    "out",
    "dtype",
    "kernel",
    "device",
    "options",
    "progress",
    "rows",
    "max_memory",
)


class Asked(NamedTuple):
    """A call as it was made; `named` are the operands by the names that errors use."""

    function: str
    named: dict[str, Any]
    metric: Any
    metric_args: dict[str, Any]
    dtype: Any = None
    out: Any = None
    rows: slice | None = None
    orders: Orders = Orders()

    @property
    def plain(self) -> bool:
        """Whether nothing but operands, a metric and its arguments was given."""
        nothing = self.dtype is None and self.out is None and self.rows is None
        return nothing and self.orders.plain

    @property
    def batched(self) -> bool:
        """Whether an operand is a stack of matrices."""
        return max(map(arrays.dimensions, self.named.values())) > 2

    def ordered(self) -> Asked:
        """Return the call with its orders read."""
        op = self.function if self.function in SEARCHES else "cdist"
        orders = self.orders.read(op)
        return self if orders is self.orders else self._replace(orders=orders)


class Call(NamedTuple):
    """A call with everything read and checked that does not need the core.

    `shape` is that of the result and `result` its dtype; `dtype` is that of the computation, which
    is wider at times, and `read_as` that in which the core takes the operands. `rows` are those
    whose pairs with later ones pdist computes, None for all.
    """

    function: str
    operands: Operands
    metric: metrics.Metric
    arguments: metrics.Arguments
    shape: tuple[int, ...]
    result: str
    dtype: str
    read_as: str
    rows: tuple[int, int] | None = None

    @property
    def truths(self) -> bool:
        """Whether the core takes the operands as arrays of bool."""
        return self.read_as == "bool"

    def part(self, start: int, stop: int) -> Call:
        """Return the call of cdist for some rows of its result."""
        (a, *rest), (shape, *shapes) = self.operands.given, self.operands.shapes
        operands = self.operands._replace(
            given=[a[start:stop], *rest], shapes=[(stop - start, shape[1]), *shapes]
        )
        return self._replace(operands=operands, shape=(stop - start, self.shape[1]))

    def panels(self, count: int) -> several_gpus.Panels:
        """Return the rows that so many GPUs take one after the other."""
        first, last = self.operands.shapes[0], self.operands.shapes[-1]
        size = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        again = math.prod(last) * np.dtype(self.read_as).itemsize
        cut = several_gpus.panels_of_pairs if self.function == "pdist" else several_gpus.panels
        return cut(first[0], count, several_gpus.panels_each(size, count, again))

    def pairs_of(self, start: int, stop: int) -> tuple[Call, slice]:
        """Return the call of pdist for the pairs of some rows, and where in its result they are."""
        n = self.operands.shapes[0][0]
        begin, end = pairs_before(n, start), pairs_before(n, stop)
        return self._replace(rows=(start, stop), shape=(end - begin,)), slice(begin, end)

    def cast(self) -> list[Any]:
        """Return the operands in that dtype; on the host the core itself converts numbers."""
        space, dtype = self.operands.space, self.read_as
        given, dtypes = self.operands.given, self.operands.dtypes
        if dtypes.count(dtype) == len(given):
            return given
        return [
            space.cast(x, dtype) if space is not arrays.HOST or name == "bool" else x
            for x, name in zip(given, dtypes, strict=True)
        ]


def read(asked: Asked) -> Call:
    """Read and check all of a call that does not need the core.

    Parameters
    ----------
    asked : Asked
        The call, of matrices, with the name of a metric; its orders and rows are not looked at.

    Returns
    -------
    Call
        The record.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.cdist`.
    """
    function, out = asked.function, asked.out
    metric = metrics.resolve(asked.metric, asked.metric_args, function, OWN_ARGUMENTS)
    given = operands(asked.named, out, asked.metric_args)
    shape = shape_of(given.names, given.shapes)
    result = result_dtype(function, given.space, given.dtypes, asked.dtype, out)
    arguments = metrics.read(metric, asked.metric_args, given)
    if metric.name == "haversine":
        metrics.warn_of_degrees(given)
    wide = result == "float64" or not arguments.fit_float32
    dtype = "float64" if wide else "float32"
    truths = metric.domain != "numbers" and {*given.dtypes} == {"bool"}
    read_as = "bool" if truths and "weights" not in arguments.core else dtype
    return Call(function, given, metric, arguments, shape, result, dtype, read_as)


def shape_of(names: Iterable[str], shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of the result: a matrix for two operands, a condensed one for one.

    Parameters
    ----------
    names : iterable of str
        What errors call the operands.
    shapes : list of tuple
        Their shapes.

    Returns
    -------
    tuple of int
        The shape.

    Raises
    ------
    ValueError
        They are no matrices of as many columns.
    """
    if not len(shapes[0]) == len(shapes[-1]) == 2:
        which = next(i for i, shape in enumerate(shapes) if len(shape) != 2)
        raise errors.not_two_dimensional([*names][which], len(shapes[which]))
    (m, d), (n, columns) = shapes[0], shapes[-1]
    if d != columns:
        raise ValueError(f"XA and XB must have the same number of columns, got {d} and {columns}")
    return (m, n) if len(shapes) == 2 else (n * (n - 1) // 2,)


def pairs_before(n: int, i: int) -> int:
    """Count the pairs of the rows before i, of n, with those after them."""
    return i * (2 * n - i - 1) // 2


def result_dtype(
    function: str, space: arrays.Space, names: Iterable[str], dtype: Any, out: Any
) -> str:
    """Return the name of the dtype of distances: of cdist and pdist it may be of half precision.

    Parameters
    ----------
    function : str
        The function that is called.
    space, names, dtype, out
        As for `arrays.float_dtype`.

    Returns
    -------
    str
        The name.

    Raises
    ------
    ValueError
        As for `arrays.float_dtype`.
    """
    return arrays.float_dtype(space, names, dtype, out, half=function in ("cdist", "pdist"))


def matrices(asked: Asked) -> Any:
    """Compute the distances of two matrices, or of one.

    Parameters
    ----------
    asked : Asked
        The call, its orders read.

    Returns
    -------
    array
        The distances: `out` if given.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `gpudist.cdist`.
    """
    if callable(asked.metric):
        return _by_callable(asked)
    call, out, orders = read(asked), asked.out, asked.orders
    if asked.rows is not None:
        return _some_rows(call, asked.rows, out, orders)
    try:
        return _compute(call, out, orders)
    except BaseException as error:
        _tell_complete(error, call, out, 0)
        raise


def pairs_of_rows(asked: Asked, start: int, stop: int) -> Any:
    """Compute the part of pdist's result that is of pairs of some rows with later ones.

    Parameters
    ----------
    asked : Asked
        The call of pdist, its orders read.
    start, stop : int
        The rows: [start, stop).

    Returns
    -------
    array
        The distances, with the bits that they have in the whole result.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `gpudist.pdist`.
    """
    part, _ = read(asked).pairs_of(start, stop)
    return _compute(part, None, asked.orders)


def _some_rows(call: Call, rows: slice, out: Any, orders: Orders) -> Any:
    """Compute rows of the result of cdist, into their place if there is an `out` for the whole."""
    start, stop = checks.rows(rows, call.shape[0])
    if out is not None:
        arrays.check_out(out, call.shape)
    part = call.part(start, stop)
    try:
        result = _compute(part, None if out is None else out[start:stop], orders)
    except BaseException as error:
        _tell_complete(error, part, out, start)
        raise
    return result if out is None else out


def _tell_complete(error: BaseException, call: Call, out: Any, start: int) -> None:
    """Have an exception that ended a call of cdist say which rows of `out` are complete.

    The core says how many of those that it was asked for, which begin at `start`.
    """
    done = getattr(error, "rows_complete", None)
    if done is None:
        return
    if out is None or _changes(call, out):  # all is lost
        del error.rows_complete  # type: ignore[attr-defined]
        return
    # A result of another dtype than the computation's is written when all is computed.
    first = start + (done if call.result == call.dtype else 0)
    error.rows_complete = first  # type: ignore[attr-defined]
    error.add_note(
        f"out[{start}:{first}] is complete; the same call with "
        f"rows=slice({first}, {start + call.shape[0]}) computes the rest"
    )


def _changes(call: Call, out: Any) -> bool:
    """Tell whether what is written to `out` changes what the call was given."""
    space, values = call.operands.space, call.arguments.core.values()
    return call.result == call.dtype and (
        any(arrays.overlap(space, x, out) for x in call.operands.given)
        or (space is arrays.HOST and any(_shares(x, out) for x in values))
    )


def _shares(value: Any, out: Any) -> bool:
    """Tell whether an argument of the metric is an array that writing to `out` would change."""
    return isinstance(value, np.ndarray) and np.may_share_memory(value, out)


def _compute(call: Call, out: Any, orders: Orders) -> Any:
    """Have the core compute, into `out` if it is of the dtype of the computation."""
    if several_gpus.are_named(orders.device):
        return _share(call, out, orders)
    kernel, device, options, progress, max_memory = orders
    if kernel == "reference":
        return _reference(call, out)
    (space, names, given, _, shapes), shape, dtype = call.operands, call.shape, call.read_as
    ready = call.cast()  # alive until the core is done: descriptions keep nothing alive
    values = call.arguments.core
    if out is not None and call.result == call.dtype:
        computed, shape = out, arrays.shape_of(out)
        ready = arrays.apart(space, dict(zip(names, ready, strict=True)), out)
        if space is arrays.HOST and values:
            values = {name: x.copy() if _shares(x, out) else x for name, x in values.items()}
    else:
        if out is not None:
            arrays.check_out(out, shape)
        computed = space.empty(shape, call.dtype, like=given[0])
    core = getattr(_core, call.function)
    described = (
        *map(space.operand, ready, repeat(dtype), shapes),
        space.operand(computed, call.dtype, shape),
        call.metric.name,
        kernel,
        device,
        space.stream(computed),
        space.ordered,
    )
    if options or max_memory is not None:  # as few calls are made
        values = {**values, "options": options, "max_memory": max_memory}
    if call.rows is not None:
        values = {**values, "first": call.rows[0], "end": call.rows[1]}
    if progress is False:  # as small calls are made
        core(*described, **values)
    else:
        steps = math.prod(shape) * shapes[0][1]
        with watched(progress, steps, call.function) as watch:
            core(*described, **values, progress=watch)
    if call.result == call.dtype:
        return computed
    if out is None:
        out = space.empty(shape, call.result, like=computed)
    space.assign(out, computed)
    return out


def _share(call: Call, out: Any, orders: Orders) -> Any:
    """Have several GPUs compute, each some rows at a time."""
    space, names, given, _, shapes = call.operands
    several_gpus.check_on_host(space)
    devices, pairs = several_gpus.of(orders.device), call.function == "pdist"
    values = call.arguments.core
    if out is None:
        out = space.empty(call.shape, call.result, like=given[0])
    else:  # what is written must not be read by the next panel
        arrays.check_out(out, call.shape)
        given = arrays.apart(space, dict(zip(names, given, strict=True)), out)
        values = {name: x.copy() if _shares(x, out) else x for name, x in values.items()}
    whole = call._replace(
        operands=call.operands._replace(given=given),
        arguments=call.arguments._replace(core=values),
    )

    def compute(device: str, start: int, stop: int, tell: Progress) -> None:
        one = orders._replace(device=device, progress=tell)
        if pairs:
            some, place = whole.pairs_of(start, stop)
        else:
            some, place = whole.part(start, stop), slice(start, stop)
        _compute(some, out[place], one)

    panels, steps = call.panels(len(devices)), math.prod(call.shape) * shapes[0][1]
    task = several_gpus.Task(call.function, panels, steps, compute, resumable=not pairs)
    several_gpus.share(task, devices, orders.progress)
    return out


def _on_host(shape: tuple[int, ...], dtype: str, out: Any) -> Any:
    """Return where Python itself writes the result."""
    if out is None:
        return arrays.HOST.empty(shape, dtype, like=None)
    arrays.check_out(out, shape)
    return out


def _reference(call: Call, out: Any) -> Any:
    from gpudist import reference

    space = call.operands.space
    arrays.refuse_devices(space, 'kernel="reference"')
    result = _on_host(call.shape, call.result, out)
    compute, values = getattr(reference, call.function), call.arguments.values
    if call.rows is not None:
        values = values | {"rows": call.rows}
    space.assign(result, compute(*call.operands.given, call.metric.name, **values))
    return result


def _by_callable(asked: Asked) -> Any:
    """Call the metric for one pair after the other."""
    metric, named, out = asked.metric, asked.named, asked.out
    if asked.rows is not None:
        raise TypeError("rows is not for a callable metric; give it the rows of XA themselves")
    arrays.refuse_devices(arrays.space_of(**named, out=out), "a callable metric")
    check_callable(asked.orders)
    points = objects(named)
    shape = shape_of(points, [x.shape for x in points.values()])
    result = _on_host(shape, dtype_of_callable(asked), out)
    if out is not None:  # what is written must not be read again
        points = {n: x.copy() if np.may_share_memory(x, out) else x for n, x in points.items()}
    read_as, arguments = metrics.prepare_callable(metric, asked.metric_args, points)
    if asked.function == "pdist":
        (x,) = read_as
        for place, (i, j) in enumerate(combinations(range(len(x)), 2)):
            result[place] = metric(x[i], x[j], **arguments)
        return result
    a, b = read_as
    for i in range(len(a)):
        for j in range(len(b)):
            result[i, j] = metric(a[i], b[j], **arguments)
    return result


def check_callable(orders: Orders) -> None:
    """Raise an error for orders that cannot be obeyed where a Python function is the metric.

    Parameters
    ----------
    orders : Orders
        The orders, read.

    Raises
    ------
    ValueError
        A kernel or a device is asked for.
    TypeError
        Progress is to be told of, or memory bounded.
    """
    if orders.kernel not in ("auto", "reference") or orders.device not in (None, "cpu"):
        raise ValueError("a callable metric runs on the CPU, without a kernel of ours")
    for name, given in (
        ("progress", orders.progress is not False),
        ("max_memory", orders.max_memory is not None),
    ):
        if given:
            raise TypeError(f"{name} is not for a callable metric, which is called pair by pair")


def dtype_of_callable(asked: Asked) -> str:
    """Return the dtype of the distances that a callable gives.

    As in SciPy the numbers that it returns are kept, whatever the points are.

    Parameters
    ----------
    asked : Asked
        The call.

    Returns
    -------
    str
        Its name: float64, unless `dtype` or `out` says otherwise.
    """
    wanted = "float64" if asked.dtype is None and asked.out is None else asked.dtype
    return arrays.float_dtype(arrays.HOST, (), wanted, asked.out)
