"""Distance matrices, whole and condensed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from gpudist import (
    _core,
    arrays,
    checks,
    errors,
    foreign,
    homes,
    metrics,
    registry,
)
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

# The very string, which is what callers write: there is but one of it.
_AUTO = "auto"


def cdist(
    XA: Any,
    XB: Any,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: Any = None,
    dtype: Any = None,
    kernel: str = _AUTO,
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    **metric_args: Any,
) -> Any:
    """Compute the distance between every row of `XA` and every row of `XB`.

    Parameters
    ----------
    XA, XB : array_like, shapes (..., m, d) and (..., n, d)
        Points, one a row. Anything that NumPy accepts, in any layout; tensors of PyTorch; data
        frames of numbers without missing values; or two arrays on one CUDA device (PyTorch, CuPy,
        Numba, or any with `__cuda_array_interface__` or `__dlpack__`; of libraries other than these
        three, `out` as well). Never modified. Leading dimensions are batches, which broadcast as
        those of `torch.cdist` do.
    metric : str or callable
        One of the metrics listed in the notes, or one of its aliases, in any case. A callable takes
        two rows and gives a number; it is called for one pair after the other, on host arrays only.
    out : array, shape (..., m, n), optional
        Where to write the result: C-contiguous, of the dtypes below. A `numpy.memmap` will do. What
        shares memory with it is copied first, operands and arguments alike; a call that is stopped
        then has no ``rows_complete``.
    dtype : {float32, float64, float16}, or of PyTorch bfloat16, optional
        The dtype of the result. By default float32 if both inputs are float32 (of tensors also
        float16 or bfloat16), else float64; float64 for a callable. Half precision is computed in
        float32, and rounded once.
    kernel : str
        "auto", "reference" (NumPy in float64, slow, on host arrays only), or an id from
        `gpudist.kernels`.
    device : str, or device of PyTorch or CuPy, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N". By default the GPU where there
        is one and the problem is worth the way there, else the CPU.
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress : bool or callable
        If True, a long call shows how far it is: with tqdm where that is installed. A callable is
        called some times a second with the inner steps done and their total, and at the end; what
        it raises ends the call. It must not call gpudist itself, whose buffers are in use. Ctrl-C
        ends a long call in any case. An exception that ended a call with `out` while rows were
        missing has the number of the first of them as ``rows_complete``, for `rows` to go on from
        there. Not for a callable `metric`.
    rows : slice, optional
        Which rows of the result to compute, in steps of 1: only they are written to `out`, which
        has the whole shape, or returned. So a large result can be computed in parts, or completed.
        Each row has the bits that it has in the whole; `V` and `VI` by default are those of all
        points. Not for a callable `metric`, nor for batches.
    max_memory : int or str, optional
        How many bytes of the device's memory the call may hold at once, or a text such as "500 MB"
        or "1.5GiB": operands, results and workspaces of its own, but not the caller's arrays, nor
        the pinned memory that all calls share. By default as much as is free. What does not fit is
        computed in parts, with the same bits; without that way, it is refused before anything is
        allocated. On the CPU it bounds the copies and workspaces that the call makes.
    **metric_args
        Arguments of the metric; the notes say which metric takes which. Arrays may be on the host
        or where the points are, and are read in float64. A callable gets all of them.

        - w : array_like, shape (d,). Weights of the columns, 0 or more; None weighs all alike.
          chebyshev takes the columns where ``w > 0``.
        - p : float above 0, 2 by default. The exponent of minkowski; 1, 2 and inf give cityblock,
          euclidean and chebyshev.
        - V : array_like, shape (d,). Variances of the columns for seuclidean, by default those of
          all points, ``var(vstack([XA, XB]), axis=0, ddof=1)``.
        - VI : array_like, shape (d, d). The inverse of the covariance matrix for mahalanobis, by
          default that of all points, ``inv(cov(vstack([XA, XB]).T)).T``.
        - base : float. The base of jensenshannon's logarithm, e by default.

    Returns
    -------
    array, shape (..., m, n)
        The distances: `out` if given, else a new array of the library of `XA`, on its device, with
        as many rows as `rows` names. Of tensors that require gradients, and a metric that
        `gpudist.torch.cdist` knows, the result has them.

    Raises
    ------
    TypeError
        Complex, masked, sparse or object input, which a column of text is; one operand on the host
        and one on a device; an unknown keyword, or one that the metric does not take; a callable
        for arrays on a device; tensors that require gradients, where there are none.
    ValueError
        Input of less than two dimensions, a column mismatch, batches that do not broadcast; an
        unknown metric or kernel, a bad `out`; negative weights, an argument of the wrong shape, `p`
        or `base` out of range; missing values in a data frame; for the default `VI` too few points,
        or columns that depend on each other.
    MemoryError
        The result does not fit; nothing was allocated.
    gpudist.DeviceError
        `device` or `kernel` asks for CUDA, and it cannot be used; the message says why.

    See Also
    --------
    pdist : The distances between the rows of one array, each pair once.

    Notes
    -----
    In the Lp family float32 results have a relative error below 5e-7 (d up to 4096; 1e-6 where `p`
    is no whole number, and of sqeuclidean, the square of such a distance), float64 results below
    1e-13, for offset data and near-duplicates too: the differences are formed first, or again where
    ``|a|**2 + |b|**2 - 2ab`` cancels. Heavy tails, and differences that are all equal, can take
    single elements of cityblock to 1e-6 in float32; the bound for any sum of differences is
    ``24 + d / 128`` units of 6e-8. Cosine and correlation err by less than 1e-6 in float32 and
    1e-12 in float64, and the other metrics in float32 by less than 1e-5 of the result or by 1e-6
    (inner_product by less than 1e-5 of the sum of its terms' magnitudes; hellinger of rows that do
    not sum to 1 by the root of what rounding does to its square, which can be 1e-3, and 0 stands
    for the root of a negative number). float32 intermediates that leave the range are computed
    again; float64 overflows where SciPy does. mahalanobis measures rows from the first one of XB,
    so its last bits, within the bounds, may change with that row. Equal rows give exactly 0
    where a metric is 0 by definition, ``cdist(X, X)`` is exactly symmetric, and a row's result does
    not depend on the rows computed with it (but for the default `V` and `VI`, which depend on all
    points).

    The metrics are those of `scipy.spatial.distance.cdist` [1]_ with its edge cases, two that SciPy
    had until 2025 (kulczynski1 and sokalmichener), and inner_product, kl_divergence, hellinger and
    haversine, which is that of scikit-learn. In the formulas w is 1 where there are no weights; tt,
    tf, ft and ff are the weights' sums over the columns where both rows are true (not 0), only x
    is, only y is, and neither is. Dice of numbers is SciPy's: without weights it takes them for how
    true they are, so tt is ``sum(x * y)`` and so on; with weights tf + ft are the columns that
    differ at all.

    ::

        %METRICS%

    Each matrix of a batch has the bits that it has alone; `V` and `VI` by default are its own. On
    the host a batch is one call, but for these defaults, for "reference" and for callables; on a
    device its matrices are computed one after the other.

    Arguments on a device are copied to the host, and so are all points for the default `V` and
    `VI`: such calls wait for the device. If float32 cannot hold sums with the given weights, the
    computation is done in float64 and its result rounded.

    References
    ----------
    .. [1] https://docs.scipy.org/doc/scipy/reference/generated/scipy.spatial.distance.cdist.html

    Examples
    --------
    >>> import gpudist
    >>> a, b = [[0.0, 0.0], [3.0, 0.0]], [[0.0, 4.0], [3.0, 0.0]]
    >>> gpudist.cdist(a, b)
    array([[4., 3.],
           [5., 0.]])
    >>> gpudist.cdist(a, b, "cityblock", w=[1, 0.5])
    array([[2., 3.],
           [5., 0.]])

    A large result goes to a file. What was stopped, by Ctrl-C, say, goes on from where it was:

    >>> import numpy, tempfile
    >>> points, done = numpy.arange(6000.0).reshape(3000, 2), 0
    >>> with tempfile.TemporaryFile() as file:
    ...     out = numpy.memmap(file, numpy.float64, "w+", shape=(3000, 3000))
    ...     while done < 3000:
    ...         try:
    ...             out = gpudist.cdist(points, points, out=out, rows=slice(done, None))
    ...             done = 3000
    ...         except KeyboardInterrupt as stopped:
    ...             done = stopped.rows_complete
    ...     round(float(out[2999, 0]), 3)
    8482.453
    """
    if (  # small calls feel each tenth of a microsecond
        kernel is _AUTO
        and dtype is None
        and options is None
        and progress is False
        and rows is None
        and max_memory is None
        and not metric_args
        and (type(XA) is np.ndarray or not checks.is_compiling())
    ):
        result = _core.cdist_arrays(XA, XB, metric, out, device)
        if result is None and device is None and not checks.in_forward_mode():
            result = _core.cdist_tensors(XA, XB, metric, out)
        if result is not None:
            return result
    return _at_home(
        "cdist",
        {"XA": XA, "XB": XB},
        metric,
        out,
        dtype,
        kernel,
        device,
        options,
        progress,
        max_memory,
        metric_args,
        rows,
    )


def pdist(
    X: Any,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: Any = None,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
    **metric_args: Any,
) -> Any:
    """Compute the distance between every two rows of `X`, each pair once.

    Parameters
    ----------
    X : array_like, shape (..., n, d)
        Points, one a row, as for `cdist`; leading dimensions are batches.
    metric : str or callable
        One of the metrics that `cdist` lists, or a function of two rows.
    out : array, shape (..., n * (n - 1) / 2), optional
        Where to write the result: contiguous. What shares memory with it is copied first.
    dtype, kernel, device, options, progress, max_memory
        As for `cdist`.
    **metric_args
        Arguments of the metric, as for `cdist`; the defaults of `V` and `VI` are
        ``var(X, axis=0, ddof=1)`` and ``inv(cov(X.T)).T``.

    Returns
    -------
    array, shape (..., n * (n - 1) / 2)
        The distances of the pairs (0, 1), (0, 2), ..., (1, 2), ...: SciPy's condensed form, from
        which `scipy.spatial.distance.squareform` makes a matrix, and which
        `scipy.cluster.hierarchy` takes. The same bits as in ``cdist(X, X)``.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `cdist`.

    See Also
    --------
    cdist : The distances between the rows of two arrays.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.pdist([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    array([3., 5., 4.])
    """
    return _at_home(
        "pdist",
        {"X": X},
        metric,
        out,
        dtype,
        kernel,
        device,
        options,
        progress,
        max_memory,
        metric_args,
    )


if cdist.__doc__ is not None:  # python -OO drops it
    cdist.__doc__ = cdist.__doc__.replace("%METRICS%", metrics.describe(" " * 8))


# ------------------------------------------------------------------ computing


class _Call(NamedTuple):
    """A call with everything read and checked that does not need the core.

    `given` are the operands as errors call them, `names` their dtypes, `shapes` their shapes.
    `result` is the dtype of the result and `shape` its shape; `dtype` is that of the computation,
    which is wider at times.
    """

    space: arrays.Space
    given: tuple[str, ...]
    operands: list[Any]
    names: list[str]
    shapes: list[tuple[int, int]]
    shape: tuple[int, ...]
    metric: metrics.Metric
    values: dict[str, Any]
    core_values: dict[str, Any]
    result: str
    dtype: str

    @property
    def truths(self) -> bool:
        """Whether the core takes the operands as arrays of bool."""
        return (
            self.metric.domain != "numbers"
            and "weights" not in self.core_values
            and all(name == "bool" for name in self.names)
        )


def _at_home(
    function: str, named: dict[str, Any], metric: Any, out: Any, dtype: Any, *how: Any
) -> Any:
    """Compute, with gradients if they are asked for; return an array of the caller's library."""
    if checks.is_compiling() or any(map(checks.is_recorded, named.values())):
        kernel, device, options, progress, max_memory, metric_args, *rows = how
        others = out, dtype, device, options, max_memory, *rows
        if kernel == _AUTO and progress is False and all(x is None for x in others):
            from gpudist import torch

            result = torch.of_recorded(function, named, metric, metric_args)
            if result is not None:
                return result
    home = homes.of(next(iter(named.values())), out)
    if home is None:
        return _distances(function, named, metric, out, dtype, *how)

    def on_the_host(out: Any = None, dtype: Any = None) -> Any:
        return _distances(function, named, metric, out, dtype, *how)

    return homes.call(home, on_the_host, out, dtype, half=True)


def _distances(
    function: str,
    named: dict[str, Any],
    metric: Any,
    out: Any,
    dtype: Any,
    kernel: str,
    device: object,
    options: dict[str, int] | None,
    progress: Progress,
    max_memory: int | str | None,
    metric_args: dict[str, Any],
    rows: slice | None = None,
) -> Any:
    if foreign.is_dask(*named.values()):
        from gpudist import dask

        return getattr(dask, function)(
            *named.values(),
            metric,
            out=out,
            dtype=dtype,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
            **({} if function == "pdist" else {"rows": rows}),
            **metric_args,
        )
    device, max_memory = registry.read_orders(
        "cdist", kernel, options, device, progress, max_memory
    )
    how = kernel, device, options, progress, max_memory
    if any(arrays.dimensions(x) > 2 for x in named.values()):
        from gpudist import distance_batches

        if rows is not None:
            raise TypeError(
                "rows is for two matrices; of a batch, give those rows of XA themselves"
            )
        return distance_batches.distances(function, named, metric, out, dtype, how, metric_args)
    if callable(metric):
        if rows is not None:
            raise TypeError("rows is not for a callable metric; give it the rows of XA themselves")
        return _by_callable(function, named, metric, out, dtype, kernel, device, metric_args)
    call = read_call(function, named, metric, out, dtype, metric_args)
    if rows is not None:
        return _some_rows(call, rows, out, *how)
    try:
        return _compute(function, call, out, *how)
    except BaseException as error:
        _tell_complete(error, call, out, 0)
        raise


def _some_rows(call: _Call, rows: slice, out: Any, *how: Any) -> Any:
    """Compute rows of the result of cdist, into their place if there is an `out` for the whole."""
    start, stop = checks.rows(rows, call.shape[0])
    if out is not None:
        arrays.check_out(out, call.shape)
    (a, *rest), (shape, *shapes) = call.operands, call.shapes
    part = call._replace(
        operands=[a[start:stop], *rest],
        shapes=[(stop - start, shape[1]), *shapes],
        shape=(stop - start, call.shape[1]),
    )
    try:
        result = _compute("cdist", part, None if out is None else out[start:stop], *how)
    except BaseException as error:
        _tell_complete(error, part, out, start)
        raise
    return result if out is None else out


def _tell_complete(error: BaseException, call: _Call, out: Any, start: int) -> None:
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


def _changes(call: _Call, out: Any) -> bool:
    """Tell whether what is written to `out` changes what the call was given."""
    values = (x for x in call.core_values.values() if isinstance(x, np.ndarray))
    return call.result == call.dtype and (
        any(arrays.overlap(call.space, x, out) for x in call.operands)
        or (call.space is arrays.HOST and any(np.may_share_memory(x, out) for x in values))
    )


def _compute(
    function: str,
    call: _Call,
    out: Any,
    kernel: str,
    device: str | None,
    options: dict[str, int] | None,
    progress: Progress,
    max_memory: int | None,
) -> Any:
    if kernel == "reference":
        return _reference(function, call, out)
    space, shape = call.space, call.shape
    dtype = "bool" if call.truths else call.dtype
    operands = cast(call, dtype)  # alive until the core is done: descriptions keep nothing alive
    values = call.core_values
    if out is not None and call.result == call.dtype:
        computed, shape = out, arrays.shape_of(out)
        operands = arrays.apart(space, dict(zip(call.given, operands, strict=True)), out)
        if space is arrays.HOST and values:
            values = {name: _kept(value, out) for name, value in values.items()}
    else:
        if out is not None:
            arrays.check_out(out, shape)
        computed = space.empty(shape, call.dtype, like=call.operands[0])
    core = getattr(_core, function)
    arguments = (
        *map(space.operand, operands, repeat(dtype), call.shapes),
        space.operand(computed, call.dtype, shape),
        call.metric.name,
        kernel,
        device,
        space.stream(computed),
        space.ordered,
    )
    if options or max_memory is not None:  # as few calls are made
        values = {**values, "options": options, "max_memory": max_memory}
    if progress is False:  # as small calls are made
        core(*arguments, **values)
    else:
        steps = math.prod(shape) * call.operands[0].shape[1]
        with watched(progress, steps, function) as watch:
            core(*arguments, **values, progress=watch)
    if call.result == call.dtype:
        return computed
    if out is None:
        out = space.empty(shape, call.result, like=computed)
    space.assign(out, computed)
    return out


def _kept(value: Any, out: Any) -> Any:
    """Return an argument of the metric, or a copy where writing to `out` would change it."""
    shares = isinstance(value, np.ndarray) and np.may_share_memory(value, out)
    return value.copy() if shares else value


def cast(call: _Call, dtype: str) -> list[Any]:
    """Return the operands in that dtype; on the host the core itself converts numbers."""
    space, operands = call.space, call.operands
    if call.names.count(dtype) == len(operands):
        return operands
    return [
        space.cast(x, dtype) if space is not arrays.HOST or name == "bool" else x
        for x, name in zip(operands, call.names, strict=True)
    ]


def read_call(
    function: str,
    named: dict[str, Any],
    metric: Any,
    out: Any,
    dtype: Any,
    metric_args: dict[str, Any],
) -> _Call:
    """Read and check all of a call that does not need the core."""
    record = metrics.resolve(metric, metric_args, function, OWN_ARGUMENTS)
    space = arrays.space_of(**named, out=out)
    operands, names, shapes = [], [], []
    for name, value in named.items():
        array, found = space.read(value, name)
        operands.append(array)
        names.append(found)
        shapes.append(_points_shape(array, name))
    shape = _shape(shapes)
    result = arrays.float_dtype(space, names, dtype, out, half=function in ("cdist", "pdist"))
    values, core_values = metrics.arguments(record, metric_args, space, operands)
    fits = not core_values or metrics.fit_float32(core_values.get("weights"))
    computed = ("float64" if result == "float64" else "float32") if fits else "float64"
    return _Call(
        space,
        tuple(named),
        operands,
        names,
        shapes,
        shape,
        record,
        values,
        core_values,
        result,
        computed,
    )


def _points_shape(array: Any, name: str) -> tuple[int, int]:
    shape: tuple[int, int] = array.shape
    if len(shape) != 2:
        raise errors.not_two_dimensional(name, len(shape))
    return shape


def _shape(shapes: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return the shape of the result: a matrix for two operands, a condensed one for one."""
    (m, d), (n, columns) = shapes[0], shapes[-1]
    if d != columns:
        raise ValueError(f"XA and XB must have the same number of columns, got {d} and {columns}")
    return (m, n) if len(shapes) == 2 else (n * (n - 1) // 2,)


def _on_host(shape: tuple[int, ...], dtype: str, out: Any) -> Any:
    """Return where Python itself writes the result."""
    if out is None:
        return arrays.HOST.empty(shape, dtype, like=None)
    arrays.check_out(out, shape)
    return out


def _reference(function: str, call: _Call, out: Any) -> Any:
    from gpudist import reference

    arrays.refuse_devices(call.space, 'kernel="reference"')
    result = _on_host(call.shape, call.result, out)
    compute = getattr(reference, function)
    call.space.assign(result, compute(*call.operands, call.metric.name, **call.values))
    return result


def _by_callable(
    function: str,
    named: dict[str, Any],
    metric: Callable[..., Any],
    out: Any,
    dtype: Any,
    kernel: str,
    device: str | None,
    metric_args: dict[str, Any],
) -> Any:
    """Call `metric` for one pair after the other."""
    arrays.refuse_devices(arrays.space_of(**named, out=out), "a callable metric")
    if kernel not in ("auto", "reference") or device not in (None, "cpu"):
        raise ValueError("a callable metric runs on the CPU, without a kernel of ours")
    operands = tuple(arrays.host_objects(x, name) for name, x in named.items())
    shape = _shape(list(map(_points_shape, operands, named)))
    # As in SciPy the numbers that a callable returns are kept, whatever the points are.
    wanted = "float64" if dtype is None and out is None else dtype
    result = _on_host(shape, arrays.float_dtype(arrays.HOST, (), wanted, out), out)
    if out is not None:  # what is written must not be read again
        operands = tuple(x.copy() if np.may_share_memory(x, out) else x for x in operands)
    operands, arguments = metrics.prepare_callable(metric, metric_args, operands)
    if function == "pdist":
        (x,) = operands
        n = len(x)
        start = 0
        for i in range(n):
            for j in range(i + 1, n):
                result[start + j - i - 1] = metric(x[i], x[j], **arguments)
            start += n - i - 1
        return result
    a, b = operands
    for i in range(len(a)):
        for j in range(len(b)):
            result[i, j] = metric(a[i], b[j], **arguments)
    return result


# ------------------------------------------------------------------ explaining


def explain_cdist(
    XA: Any,
    XB: Any,
    metric: str = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `cdist` would do; see `gpudist.explain`."""
    return _explain(
        "cdist", {"XA": XA, "XB": XB}, metric, dtype, kernel, device, max_memory, metric_args
    )


def explain_pdist(
    X: Any,
    metric: str = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
    **metric_args: Any,
) -> registry.Explanation:
    """Say what `pdist` would do; see `gpudist.explain`."""
    return _explain("pdist", {"X": X}, metric, dtype, kernel, device, max_memory, metric_args)


def _explain(
    function: str,
    named: dict[str, Any],
    metric: str,
    dtype: Any,
    kernel: str,
    device: str | None,
    max_memory: int | None,
    metric_args: dict[str, Any],
) -> registry.Explanation:
    if callable(metric):
        raise TypeError("a callable metric is called from Python, it runs no kernel")
    call = read_call(function, named, metric, None, dtype, metric_args)
    n, cols = call.operands[-1].shape
    pairs = math.prod(call.shape)
    read = sum(x.shape[0] for x in call.operands) * cols
    said = registry.choose(
        function,
        dtype=call.dtype,
        metric=call.metric.name,
        n=n,
        cols=cols,
        kernel=kernel,
        device=arrays.device_for(call.space, call.operands[0], device),
        space=call.space,
        elements_moved=pairs + (0 if call.truths else read),
        elements_written=pairs,
        operations=pairs * cols,
        operands="bool" if call.truths else None,
        operand_bytes=read if call.truths else 0,
        weighted="weights" in call.core_values,
        p=call.core_values.get("p", 2.0),
        rows=call.shapes[0][0],
    )
    if kernel == "reference":
        return said
    held, panels, parts, brought = _core.plan_cdist(
        call.shapes[0][0],
        n,
        cols,
        call.dtype,
        call.truths,
        call.space is arrays.HOST,
        function == "pdist",
        call.metric.name,
        kernel,
        said.device,
        max_memory=max_memory,
        **call.core_values,
    )
    work = dataclasses.replace(said.work, read=max(said.work.read, int(brought)))
    return dataclasses.replace(said, held=held, panels=panels, parts=parts, work=work)
