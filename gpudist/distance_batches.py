"""cdist and pdist of many matrices: leading dimensions broadcast, as PyTorch's do."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, distance, metrics
from gpudist.progress import Progress, watched


class _Stacks(NamedTuple):
    """Operands read: `arrays` as they came, `names` their dtypes, `batch` the common shape."""

    space: arrays.Space
    given: dict[str, Any]
    names: list[str]
    batch: tuple[int, ...]
    shape: tuple[int, ...]


def distances(
    function: str,
    named: dict[str, Any],
    metric: Any,
    out: Any,
    dtype: Any,
    how: tuple[str, str | None, dict[str, int] | None, Progress, int | None],
    metric_args: dict[str, Any],
) -> Any:
    """Compute the distances of each matrix of a batch.

    Parameters
    ----------
    function : {"cdist", "pdist"}
        What to compute.
    named : dict
        The operands by name, one of more than two dimensions.
    metric, out, dtype, metric_args
        As for `gpudist.cdist`.
    how : tuple
        Kernel, device, options, progress and max_memory, checked.

    Returns
    -------
    array
        The results, stacked along the batch's dimensions: `out` if given.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.cdist`; the batches do not broadcast.
    """
    stacks = _read(named, out)
    if out is not None:
        arrays.check_out(out, stacks.shape)
        apart = arrays.apart(stacks.space, stacks.given, out)
        stacks = stacks._replace(given=dict(zip(named, apart, strict=True)))
    if callable(metric):
        call = None
        wanted = "float64" if dtype is None and out is None else dtype
        result = arrays.float_dtype(arrays.HOST, (), wanted, out, half=True)
        arrays.refuse_devices(stacks.space, "a callable metric")
    else:
        if 0 in stacks.batch:
            metric_args = _without_defaults(stacks, metric, metric_args)
        call = distance.read_call(function, _first(stacks), metric, out, dtype, metric_args)
        result = call.result
    if out is None:
        like = next(iter(stacks.given.values()))
        out = stacks.space.empty(stacks.shape, result, like=like)
    if math.prod(stacks.shape) == 0:
        return out
    if call is not None and _in_the_core(call, metric_args, how[0]):
        _compute(stacks, call, out, how)
    else:
        _one_by_one(function, stacks, metric, out, how, metric_args)
    return out


def _read(named: dict[str, Any], out: Any) -> _Stacks:
    space = arrays.space_of(**named, out=out)
    read = {name: space.read(value, name) for name, value in named.items()}
    shapes = {name: tuple(map(int, array.shape)) for name, (array, _) in read.items()}
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise ValueError(f"{name} must have two dimensions or more, got shape {shape}")
    said = " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
    first, last = (*shapes.values(),)[0], (*shapes.values(),)[-1]
    if first[-1] != last[-1]:
        raise ValueError(f"XA and XB must have the same number of columns, got {said}")
    try:
        batch = np.broadcast_shapes(first[:-2], last[:-2])
    except ValueError:
        raise ValueError(f"the batches of XA and XB do not broadcast, got {said}") from None
    n = last[-2]
    matrix = (first[-2], n) if len(shapes) == 2 else (n * (n - 1) // 2,)
    arrays_of = {name: array for name, (array, _) in read.items()}
    return _Stacks(space, arrays_of, [name for _, name in read.values()], batch, batch + matrix)


def _first(stacks: _Stacks) -> dict[str, Any]:
    """Return the first matrix of each operand; of an empty batch, one of its shape."""
    if 0 not in stacks.batch:
        return {name: x[(0,) * (len(x.shape) - 2)] for name, x in stacks.given.items()}
    space, some = stacks.space, stacks.given.items()
    return {
        name: space.empty(tuple(x.shape[-2:]), dtype, like=x)
        for (name, x), dtype in zip(some, stacks.names, strict=True)
    }


def _without_defaults(stacks: _Stacks, metric: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Fill in arguments whose defaults are those of the points, where there are no points."""
    columns = int(next(iter(stacks.given.values())).shape[-1])
    plain = {"V": np.ones(columns), "VI": np.eye(columns)}
    takes = metrics.resolve(metric, given).arguments
    return {name: value for name, value in plain.items() if name in takes} | given


def _in_the_core(call: Any, metric_args: dict[str, Any], kernel: str) -> bool:
    """Tell whether one call of the core does it all.

    The defaults of V and VI are those of each matrix by itself.
    """
    own = any(
        metric_args.get(name) is None for name in ("V", "VI") if name in call.metric.arguments
    )
    return call.space is arrays.HOST and kernel != "reference" and not own


def _compute(stacks: _Stacks, call: Any, out: Any, how: tuple[Any, ...]) -> None:
    kernel, device, options, progress, max_memory = how
    dtype = "bool" if call.truths else call.dtype
    a, *rest = (spread(x, dtype, stacks.batch) for x in stacks.given.values())
    same = call.result == call.dtype
    computed = out if same else arrays.HOST.empty(stacks.shape, call.dtype, like=None)
    columns = a.shape[-1]
    with watched(progress, math.prod(stacks.shape) * columns, "distances") as watch:
        _core.cdist_batch(
            a,
            rest[0] if rest else None,
            computed,
            call.metric.name,
            kernel,
            device,
            **call.core_values,
            options=options,
            progress=watch,
            max_memory=max_memory,
        )
    if not same:
        arrays.HOST.assign(out, computed)


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


def _one_by_one(
    function: str,
    stacks: _Stacks,
    metric: Any,
    out: Any,
    how: tuple[Any, ...],
    metric_args: dict[str, Any],
) -> None:
    kernel, device, options, progress, max_memory = how
    compute = getattr(distance, function)
    count = math.prod(stacks.batch)
    given = [_expanded(x, stacks.batch) for x in stacks.given.values()]
    with watched(progress, count, f"{function} of each matrix") as watch:
        for done, index in enumerate(np.ndindex(*stacks.batch)):
            compute(
                *(x[index] for x in given),
                metric,
                out=out[index],
                kernel=kernel,
                device=device,
                options=options,
                max_memory=max_memory,
                **metric_args,
            )
            if watch is not None:
                watch((done + 1) / count)


def _expanded(x: Any, batch: tuple[int, ...]) -> Any:
    """Return a view of an operand in the batch's shape; along broadcast dimensions it has 0."""
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
