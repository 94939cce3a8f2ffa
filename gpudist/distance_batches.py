"""cdist and pdist of many matrices: leading dimensions broadcast, as PyTorch's do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, metrics, several_gpus
from gpudist.distance_call import Asked, Call, dtype_of_callable, read
from gpudist.intake import Operands, operands
from gpudist.progress import watched


class Stacks(NamedTuple):
    """Operands of two dimensions or more; `batch` is their common shape, `shape` the result's."""

    operands: Operands
    batch: tuple[int, ...]
    shape: tuple[int, ...]


def distances(asked: Asked, one: Callable[..., Any]) -> Any:
    """Compute the distances of each matrix of a batch.

    Parameters
    ----------
    asked : Asked
        The call, its orders read; an operand has more than two dimensions.
    one : callable
        The function that was called, for what the core does matrix after matrix.

    Returns
    -------
    array
        The results, stacked along the batch's dimensions: `out` if given.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.cdist`; the batches do not broadcast.
    """
    if asked.rows is not None:
        raise TypeError("rows is for two matrices; of a batch, give those rows of XA themselves")
    several_gpus.refuse(asked.orders.device, "a batch of matrices")
    out = asked.out
    stacks = read_stacks(asked.named, out)
    space, names, given, _, _ = stacks.operands
    if out is not None:
        arrays.check_out(out, stacks.shape)
        apart = arrays.apart(space, dict(zip(names, given, strict=True)), out)
        stacks = stacks._replace(operands=stacks.operands._replace(given=apart))
    call = None
    if callable(asked.metric):
        result = dtype_of_callable(asked)
        arrays.refuse_devices(space, "a callable metric")
    else:
        call = read(first_of(stacks, asked))
        result = call.result
    if out is None:
        out = space.empty(stacks.shape, result, like=given[0])
    if math.prod(stacks.shape) == 0:
        return out
    if call is not None and _in_the_core(call, asked, out):
        _compute(stacks, call, out, asked)
    else:
        _one_by_one(stacks, out, asked, one)
    return out


def read_stacks(named: dict[str, Any], out: Any = None) -> Stacks:
    """Read operands of which one has more than two dimensions.

    Parameters
    ----------
    named : dict
        The operands by the names that errors use.
    out : array, optional
        Where the caller wants the result.

    Returns
    -------
    Stacks
        The record.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.cdist`; the batches do not broadcast.
    """
    read_as = operands(named, out)
    shapes = dict(zip(read_as.names, read_as.shapes, strict=True))
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise ValueError(f"{name} must have two dimensions or more, got shape {shape}")
    said = " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
    first, last = read_as.shapes[0], read_as.shapes[-1]
    if first[-1] != last[-1]:
        raise ValueError(f"XA and XB must have the same number of columns, got {said}")
    try:
        batch = np.broadcast_shapes(first[:-2], last[:-2])
    except ValueError:
        raise ValueError(f"the batches of XA and XB do not broadcast, got {said}") from None
    n = last[-2]
    matrix = (first[-2], n) if len(shapes) == 2 else (n * (n - 1) // 2,)
    return Stacks(read_as, batch, batch + matrix)


def first_of(stacks: Stacks, asked: Asked) -> Asked:
    """Return the call for the first matrix of each operand; of an empty batch, one of its shape.

    Parameters
    ----------
    stacks : Stacks
        The operands.
    asked : Asked
        The call for all of them.

    Returns
    -------
    Asked
        The call of two matrices, or of one.
    """
    space, names, given, dtypes, shapes = stacks.operands
    if 0 not in stacks.batch:
        firsts = [x[(0,) * (len(shape) - 2)] for x, shape in zip(given, shapes, strict=True)]
    else:
        described = zip(given, dtypes, shapes, strict=True)
        firsts = [
            np.broadcast_to(np.zeros((), dtype), shape[-2:])  # whose elements may be looked at
            if space is arrays.HOST
            else space.empty(shape[-2:], dtype, like=x)
            for x, dtype, shape in described
        ]
    first = asked._replace(named=dict(zip(names, firsts, strict=True)))
    if 0 in stacks.batch:
        first = first._replace(metric_args=_without_defaults(stacks, asked))
    return first


def _without_defaults(stacks: Stacks, asked: Asked) -> dict[str, Any]:
    """Fill in arguments whose defaults are those of the points, where there are no points."""
    columns = stacks.operands.shapes[0][-1]
    plain = {"V": np.ones(columns), "VI": np.eye(columns)}
    takes = metrics.resolve(asked.metric, asked.metric_args).arguments
    return {name: value for name, value in plain.items() if name in takes} | asked.metric_args


def _in_the_core(call: Call, asked: Asked, out: Any) -> bool:
    """Tell whether one call of the core does it all.

    The defaults of V and VI are those of each matrix by itself. Of arrays on a device, the core is
    told of those that their library describes quickly.
    """
    space = call.operands.space
    own = any(
        asked.metric_args.get(name) is None for name in ("V", "VI") if name in call.metric.arguments
    )
    return (
        asked.orders.kernel != "reference"
        and not own
        and (space is arrays.HOST or all(map(space.describes, (*call.operands.given, out))))
    )


def _compute(stacks: Stacks, call: Call, out: Any, asked: Asked) -> None:
    space, given = stacks.operands.space, stacks.operands.given
    same, orders = call.result == call.dtype, asked.orders
    computed = out if same else space.empty(stacks.shape, call.dtype, like=given[0])
    # Alive until the core is done: descriptions keep nothing alive.
    ready = [
        spread(x, call.read_as, stacks.batch)
        if space is arrays.HOST
        else expanded(space.cast(x, call.read_as), stacks.batch)
        for x in given
    ]
    described = [
        x if space is arrays.HOST else space.operand(x, dtype, tuple(x.shape))
        for x, dtype in (*((x, call.read_as) for x in ready), (computed, call.dtype))
    ]
    columns = ready[0].shape[-1]
    with watched(orders.progress, math.prod(stacks.shape) * columns, "distances") as watch:
        _core.cdist_batch(
            described[0],
            described[1] if len(ready) == 2 else None,
            described[-1],
            call.metric.name,
            orders.kernel,
            orders.device,
            space.stream(computed),
            **call.arguments.core,
            options=orders.options,
            progress=watch,
            max_memory=orders.max_memory,
        )
    if not same:
        space.assign(out, computed)


def spread(x: Any, dtype: str, batch: tuple[int, ...]) -> Any:
    """Return an operand as the core walks it: a copy of what it cannot, strides of 0 in the batch.

    The core walks rows that are dense and in ascending order.

    Parameters
    ----------
    x : ndarray
        The operand.
    dtype : str
        The dtype that the core shall see.
    batch : tuple of int
        The leading dimensions of the result.

    Returns
    -------
    ndarray
        Of that dtype, with these leading dimensions.
    """
    x = np.asarray(x, dtype=dtype)
    size = x.itemsize
    rows, columns = x.shape[-2:]
    along, down = x.strides[-1], x.strides[-2]
    dense = (columns <= 1 or along == size) and (
        rows <= 1 or (down >= columns * size and down % size == 0)
    )
    if not (dense and x.flags.aligned and x.dtype.isnative):
        x = np.array(x, dtype=dtype, order="C")
    return np.broadcast_to(x, batch + x.shape[-2:])


def _one_by_one(stacks: Stacks, out: Any, asked: Asked, one: Callable[..., Any]) -> None:
    count = math.prod(stacks.batch)
    given = [expanded(x, stacks.batch) for x in stacks.operands.given]
    orders = asked.orders._asdict()
    with watched(orders.pop("progress"), count, f"{asked.function} of each matrix") as watch:
        for done, index in enumerate(np.ndindex(*stacks.batch)):
            matrices = (x[index] for x in given)
            one(*matrices, asked.metric, out=out[index], **orders, **asked.metric_args)
            if watch is not None:
                watch((done + 1) / count)


def expanded(x: Any, batch: tuple[int, ...]) -> Any:
    """Return a view of an operand in the batch's shape; along broadcast dimensions it has 0.

    Parameters
    ----------
    x : array
        The operand, of NumPy or of a library on a CUDA device.
    batch : tuple of int
        The leading dimensions.

    Returns
    -------
    array
        The view.

    Raises
    ------
    TypeError
        Its library does not broadcast.
    """
    shape = batch + tuple(x.shape[-2:])
    if tuple(x.shape) == shape:
        return x
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape)
    if hasattr(x, "expand"):  # PyTorch's
        return x.expand(shape)
    if type(x).__module__.partition(".")[0] == "cupy":
        import cupy

        return cupy.broadcast_to(x, shape)
    raise TypeError(
        f"batches of {type(x).__module__}.{type(x).__name__} do not broadcast here; give arrays of "
        f"the batch's shape {batch}, or of PyTorch or CuPy"
    )
