"""Distances, neighbours and products of Dask arrays, in blocks of rows of the first operand.

The second operand is whole in every block, since the kernels look at it as a whole: so a block has
the bits of the same rows of one call, on a processor or a GPU of the same kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from gpudist import (
    arrays,
    checks,
    distance_call,
    intake,
    metrics,
    neighbors_call,
    products_one,
    semirings,
)
from gpudist.dask import inputs
from gpudist.neighbors_one import KNearest, Nearest, k_nearest

# The two metrics that take an argument from all points if none is given.
_OF_ALL_POINTS = {"seuclidean": "V", "mahalanobis": "VI"}


class _How(NamedTuple):
    """What every block is told of a call: all but its points; `dtype` is that of its result."""

    metric: Any
    metric_args: dict[str, Any]
    dtype: str
    orders: intake.Orders

    def asked(self, function: str, a: Any, b: Any = None, *statistics: Any) -> distance_call.Asked:
        """Return the call for a block, its orders read.

        Parameters
        ----------
        function : str
            The function whose call it is.
        a, b : array
            Points, `b` of None for none.
        *statistics : array
            V or VI, if it was computed from all points.

        Returns
        -------
        Asked
            The record.
        """
        points = {"X": a} if function == "pdist" else {"XA": a}
        if b is not None:
            points["XB"] = b
        given = self.metric_args
        if statistics:
            needed = _OF_ALL_POINTS[metrics.resolve(self.metric, {}).name]
            given = given | {needed: _one(statistics[0])}
        return distance_call.Asked(
            function, points, self.metric, given, self.dtype, orders=self.orders
        ).ordered()


# ------------------------------------------------------------------ distances


def cdist(asked: distance_call.Asked) -> Any:
    """Compute the distance between every row of `XA` and every row of `XB`, lazily.

    Parameters
    ----------
    asked : Asked
        The call of `gpudist.cdist`; each block is one such call. One of XA and XB at least is a
        Dask array, with chunks of NumPy or CuPy. XB becomes one chunk, which every worker holds.
        `out`, `progress` and `rows` are refused, with advice.

    Returns
    -------
    dask.array.Array, shape (m, n)
        The distances, in chunks of whole rows: those of `XA`, split where a chunk of the result
        would take more than Dask's ``array.chunk-size``.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.cdist`, at once; chunks of unknown lengths; what depends on values is raised
        when the result is computed.
    MemoryError
        `XB` takes more than a fourth of a worker's memory.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpudist
    >>> points = da.arange(8.0, chunks=4).reshape(4, 2)
    >>> gpudist.cdist(points, points[:1], "cityblock").compute().T
    array([[ 0.,  4.,  8., 12.]])
    """
    inputs.refuse("cdist", out=asked.out, progress=asked.orders.progress, rows=asked.rows)
    orders = _read(asked.orders)
    named = {name: inputs.take(x, name) for name, x in asked.named.items()}
    result, (a, b) = _checked(asked, named), named.values()
    a, b = inputs.whole_rows(a), inputs.whole(b, "XB")
    a = inputs.split_rows(a, b.shape[0], np.dtype(result).itemsize)
    given = _statistics(asked, {"XA": a, "XB": b})
    return da.blockwise(
        _cdist_block,
        "ij",
        a,
        "ik",
        b,
        "jk",
        *given,
        dtype=np.dtype(result),
        how=_How(asked.metric, asked.metric_args, result, orders),
        token="gpudist-cdist",
        meta=inputs.like(a, 2, result),
    )


def pdist(asked: distance_call.Asked) -> Any:
    """Compute the distance between every two rows of `X`, each pair once, lazily.

    Parameters
    ----------
    asked : Asked
        The call of `gpudist.pdist`. X, a Dask array, becomes one chunk, which every worker holds.
        `out` and `progress` are refused, with advice.

    Returns
    -------
    dask.array.Array, shape (n * (n - 1) / 2,)
        The distances in the order of `gpudist.pdist`. A chunk has those from some consecutive rows
        to all rows after them.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for `cdist`.
    """
    inputs.refuse("pdist", out=asked.out, progress=asked.orders.progress)
    orders = _read(asked.orders)
    x = inputs.take(asked.named["X"], "X")
    result = _checked(asked, {"X": x})
    n, itemsize = x.shape[0], np.dtype(result).itemsize
    x = inputs.whole(inputs.whole_rows(x), "X")
    bounds = _bounds_of_pairs(n, inputs.rows_of_a_chunk(1, itemsize))
    before = [distance_call.pairs_before(n, i) for i in bounds]
    first, last = _vectors(bounds)
    return da.blockwise(
        _pdist_block,
        "i",
        first,
        "i",
        last,
        "i",
        x,
        "jk",
        *_statistics(asked, {"X": x}),
        dtype=np.dtype(result),
        how=_How(asked.metric, asked.metric_args, result, orders),
        adjust_chunks={"i": tuple(map(int, np.diff(before)))},
        token="gpudist-pdist",
        meta=inputs.like(x, 1, result),
    )


def _checked(asked: distance_call.Asked, named: dict[str, Any]) -> str:
    """Check all of a call that values do not decide; return the dtype of its result."""
    metric, dtype, function = asked.metric, asked.dtype, asked.function
    space = inputs.space_of(**named)
    if callable(metric):
        arrays.refuse_devices(space, "a callable metric")
        needed = _OF_ALL_POINTS.get(getattr(metric, "__name__", ""))
        if needed is not None and asked.metric_args.get(needed) is None:
            raise ValueError(f"give {needed}: a function that is called by blocks has no default")
        return arrays.float_dtype(arrays.HOST, (), "float64" if dtype is None else dtype, None)
    stand_ins = {name: inputs.stand_in(x) for name, x in named.items()}
    given = dict(asked.metric_args)
    record = metrics.resolve(metric, given, function, distance_call.OWN_ARGUMENTS)
    needed = _OF_ALL_POINTS.get(record.name)
    if needed is not None and given.get(needed) is None and given.get("box") is None:
        given[needed] = _of_no_points(next(iter(stand_ins.values())), needed)
    orders = intake.Orders(device=asked.orders.device)
    distance_call.read(asked._replace(named=stand_ins, metric_args=given, orders=orders))
    names = [x.dtype.name for x in named.values()]
    return distance_call.result_dtype(function, space, names, dtype, None)


def _of_no_points(points: Any, needed: str) -> Any:
    columns = points.shape[1]
    return np.ones(columns) if needed == "V" else np.eye(columns)


def _statistics(asked: distance_call.Asked, named: dict[str, Any]) -> tuple[Any, ...]:
    """Return V or VI of all points as an operand of blockwise, computed once; else nothing."""
    if callable(asked.metric):
        return ()
    record = metrics.resolve(asked.metric, asked.metric_args)
    needed = _OF_ALL_POINTS.get(record.name)
    if needed is None or asked.metric_args.get(needed) is not None:
        return ()
    columns = next(iter(named.values())).shape[1]
    operands: list[Any] = []
    for (name, x), rows in zip(named.items(), "xy", strict=False):
        operands += [inputs.whole(x, name), rows + "k"]
    indices = "u" if needed == "V" else "uv"
    computed = da.blockwise(
        _statistic,
        indices,
        *operands,
        metric=record.name,
        dtype=np.dtype(np.float64),
        new_axes=dict.fromkeys(indices, columns),
        token="gpudist-" + needed.lower(),
        meta=np.empty((0,) * len(indices)),
    )
    return computed, indices


def _statistic(*points: Any, metric: str) -> Any:
    named = dict(zip(("XA", "XB"), map(_one, points), strict=False))
    record = metrics.resolve(metric, {})
    values = metrics.check(record, {}, intake.operands(named))
    return values[_OF_ALL_POINTS[record.name]]


def _cdist_block(a: Any, b: Any, *given: Any, how: _How) -> Any:
    return distance_call.matrices(how.asked("cdist", _one(a), _one(b), *given))


def _pdist_block(first: Any, last: Any, x: Any, *given: Any, how: _How) -> Any:
    """Compute the distances of some rows to all after them."""
    x, i, j = _one(x), int(first[0]), int(last[0])
    if not callable(how.metric):
        return distance_call.pairs_of_rows(how.asked("pdist", x, None, *given), i, j)
    asked = [how.asked("cdist", x[row : row + 1], x[row + 1 :]) for row in range(i, j)]
    parts = [distance_call.matrices(one)[0] for one in asked]
    return np.concatenate(parts or [np.empty(0, how.dtype)])


# ------------------------------------------------------------------ neighbours


def nearest(asked: distance_call.Asked, index_dtype: Any) -> Nearest:
    """Find the nearest row of `XB` to every row of `XA`, lazily.

    Parameters
    ----------
    asked, index_dtype
        As for `knn`.

    Returns
    -------
    gpudist.Nearest
        Of two Dask arrays of shape (m,).
    """
    found = knn(asked, 1, index_dtype)
    return Nearest(found.distances[:, 0], found.indices[:, 0])


def knn(asked: distance_call.Asked, k: Any, index_dtype: Any, out: Any = None) -> KNearest:
    """Find the k nearest rows of `XB` to every row of `XA`, lazily.

    Parameters
    ----------
    asked : Asked
        The call of `gpudist.knn` or `nearest`, with chunks of NumPy or CuPy. What is searched among
        becomes one chunk, which every worker holds. `progress` and `rows` are refused, with advice.
    k, index_dtype
        As for `gpudist.knn`.
    out
        Refused, with advice.

    Returns
    -------
    gpudist.KNearest
        Of two Dask arrays of shape (m, k), in chunks of rows. Both come from the same tasks:
        ``dask.compute(*found)`` runs these once, computing one after the other runs them twice.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for `cdist`.
    """
    function = asked.function
    inputs.refuse(function, out=out, progress=asked.orders.progress, rows=asked.rows)
    orders = _read(asked.orders)
    XA, XB = asked.named["XA"], asked.named.get("XB")
    a = inputs.take(XA, "XA")
    b = a if XB is None else inputs.take(XB, "XB")
    named = {"XA": a} if XB is None else {"XA": a, "XB": b}
    result = _checked(asked, {"XA": a, "XB": b})
    k = neighbors_call.count_of(k, b.shape[0], XB is None)
    index_dtype = neighbors_call.index_type(index_dtype, b.shape[0])
    a = inputs.split_rows(inputs.whole_rows(a), b.shape[0], np.dtype(result).itemsize)
    b = inputs.whole(b, "XA" if XB is None else "XB")
    lengths = a.chunks[0]
    if XB is None:  # rows are asked for by their numbers
        first, last = _vectors([0, *np.cumsum(lengths)])
        of: tuple[Any, ...] = (first, "i", last, "i")
    else:
        of = (a, "ik")
    found = da.blockwise(
        _knn_block,
        "im",
        *of,
        b,
        "jk",
        *_statistics(asked, named),
        how=_How(asked.metric, asked.metric_args, result, orders),
        k=k,
        index_dtype=index_dtype,
        among_themselves=XB is None,
        adjust_chunks={"i": lengths},
        new_axes={"m": k},
        token="gpudist-" + function,
        dtype=np.dtype(result),
        meta=inputs.like(b, 2, result),
    )
    return KNearest(
        *(
            da.blockwise(
                _part,
                "im",
                found,
                "im",
                part=part,
                dtype=np.dtype(kind),
                token=f"gpudist-{function}-{name}",
                meta=inputs.like(b, 2, kind),
            )
            for part, (name, kind) in enumerate((("distances", result), ("indices", index_dtype)))
        )
    )


def _knn_block(*given: Any, how: _How, k: int, index_dtype: Any, among_themselves: bool) -> Any:
    if among_themselves:
        first, last, points, *rest = given
        asked = how.asked("knn", _one(points), None, *rest)
        asked = asked._replace(rows=slice(int(first[0]), int(last[0])))
    else:
        points, others, *rest = given
        asked = how.asked("knn", _one(points), _one(others), *rest)
    return k_nearest(neighbors_call.read(asked, index_dtype), k, None)


def _part(found: Any, part: int) -> Any:
    return found[part]


# ------------------------------------------------------------------ products


def minplus(
    A: Any, B: Any, C: Any, *, semiring: str, out: Any, dtype: Any, orders: intake.Orders
) -> Any:
    """Multiply two matrices over a semiring, lazily.

    Parameters
    ----------
    A, B : dask.array.Array or array_like, shapes (m, k) and (k, n)
        The factors, with chunks of NumPy or CuPy. `B` becomes one chunk, which every worker holds.
    C : dask.array.Array or array_like, shape (m, n), optional
        What the product is joined with.
    semiring, dtype
        As for `gpudist.minplus`; each block is one call of it.
    orders : Orders
        Its orders, not yet read; `progress` is refused, with advice.
    out
        Refused, with advice.

    Returns
    -------
    dask.array.Array, shape (m, n)
        The product, in chunks of whole rows: those of `A`, split where a chunk of the result would
        take more than Dask's ``array.chunk-size``.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for `cdist`.
    """
    inputs.refuse("minplus", out=out, progress=orders.progress)
    orders = _read(orders, "minplus")
    named = {
        name: inputs.take(x, name)
        for name, x in (("A", A), ("B", B), ("C", C))
        if name != "C" or x is not None
    }
    space = inputs.space_of(**named)
    result = semirings.check_shapes_and_dtype(space, named, semiring, dtype)
    a, b = inputs.whole_rows(named["A"]), inputs.whole(named["B"], "B")
    a = inputs.split_rows(a, b.shape[1], np.dtype(result).itemsize)
    operands = [a, "ik", b, "kj"]
    if C is not None:
        operands += [named["C"].rechunk((a.chunks[0], -1)), "ij"]
    return da.blockwise(
        _minplus_block,
        "ij",
        *operands,
        dtype=np.dtype(result),
        how={"dtype": result, "semiring": semiring, "orders": orders},
        token="gpudist-minplus",
        meta=inputs.like(a, 2, result),
    )


def _minplus_block(*operands: Any, how: dict[str, Any]) -> Any:
    a, b, *c = map(_one, operands)
    return products_one.minplus(a, b, c[0] if c else None, **how)


# ------------------------------------------------------------------ what they share


def _read(orders: intake.Orders, op: str = "cdist") -> intake.Orders:
    """Check what every block is told; whether its worker can obey, it will say itself."""
    inputs.check_device(checks.device("device", orders.device))
    return orders.read(op)


def _one(block: Any) -> Any:
    """Take a block out of the lists in which blockwise hands over what has one chunk only."""
    while isinstance(block, list):
        (block,) = block
    return block


def _vectors(bounds: Any) -> tuple[Any, Any]:
    """Return where blocks begin and where they end as Dask arrays of a number a chunk."""
    numbers = np.asarray(bounds, np.int64)
    return da.from_array(numbers[:-1], chunks=1), da.from_array(numbers[1:], chunks=1)


def _bounds_of_pairs(n: int, most: int) -> list[int]:
    """Cut n rows so that each piece has at most so many pairs, or one row."""
    before, bounds = distance_call.pairs_before, [0]
    while bounds[-1] < n or len(bounds) < 2:
        stop, here = bounds[-1], before(n, bounds[-1])
        while stop < n and (stop == bounds[-1] or before(n, stop + 1) - here <= most):
            stop += 1
        bounds.append(stop)
    return bounds
