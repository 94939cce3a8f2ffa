"""Products of many matrices in one call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpudist import (
    _core,
    arrays,
    distance_batches,
    errors,
    products_one,
    semirings,
    several_gpus,
)
from gpudist.intake import Orders
from gpudist.progress import watched

# What several GPUs do not share, as their refusal calls it.
MANY = "a batch of matrices"


def minplus(
    A: Any,
    B: Any,
    C: Any,
    *,
    semiring: str,
    out: Any,
    dtype: Any,
    orders: Orders,
) -> Any:
    """Multiply stacks of matrices, whose leading dimensions are broadcast.

    Parameters
    ----------
    A, B, C : array_like, shapes (..., m, k), (..., k, n) and (..., m, n)
        The factors, and what products are joined with, or None.
    semiring, out, dtype
        As for `gpudist.minplus`.
    orders : Orders
        Its orders, not yet read.

    Returns
    -------
    array, shape (..., m, n)
        The products.
    """
    semirings.check(semiring)
    orders = orders.read("minplus")
    several_gpus.refuse(orders.device, MANY)
    space = arrays.space_of(A=A, B=B, C=C, out=out)
    named, lead, shape = factors(space, A, B, C)
    if space is not arrays.HOST:
        return _on_device(space, named, (lead, shape), out, dtype, semiring, orders)
    result = semirings.result_dtype(arrays.HOST, tuple(named.values()), semiring, out, dtype)
    if result == "int32":
        semirings.check_integers(arrays.HOST, named)
    out = room(out, (*lead, *shape), result)
    a, b, *c = arrays.apart(arrays.HOST, named, out)
    if orders.kernel == "reference":
        a, b, *c = (np.broadcast_to(x, lead + x.shape[-2:]) for x in (a, b, *c))
        for index in np.ndindex(*lead):
            x, y, *z = (x[index] for x in (a, b, *c))
            third = z[0] if z else None
            products_one.minplus(x, y, third, out=out[index], semiring=semiring, orders=orders)
        return out
    with np.errstate(over="ignore"):  # as for one matrix: what is too large becomes infinite
        a, b, *c = (distance_batches.spread(x, result, lead) for x in (a, b, *c))
    with watched(orders.progress, math.prod(lead + shape) * a.shape[-1], "minplus") as watch:
        _core.minplus_batch(
            a,
            b,
            c[0] if c else None,
            out,
            semiring,
            orders.kernel,
            orders.device,
            options=orders.options,
            progress=watch,
            max_memory=orders.max_memory,
        )
    return out


def _on_device(
    space: arrays.Space,
    named: dict[str, Any],
    shapes: tuple[tuple[int, ...], tuple[int, int]],
    out: Any,
    dtype: Any,
    semiring: str,
    orders: Orders,
) -> Any:
    """Multiply one pair after the other on the device, without waiting for it in between."""
    lead, shape = shapes
    result = semirings.result_dtype(space, tuple(named.values()), semiring, out, dtype)
    if out is None:
        out = space.empty((*lead, *shape), result, like=named["A"])
    else:
        arrays.check_out(out, (*lead, *shape))
    given = [distance_batches.expanded(x, lead) for x in arrays.apart(space, named, out)]
    count = math.prod(lead)
    how: dict[str, Any] = {"semiring": semiring, "dtype": result}
    how["orders"] = orders._replace(progress=False)
    with watched(orders.progress, count, "minplus of each pair") as watch:
        for done, index in enumerate(np.ndindex(*lead)):
            a, b, *c = (x[index] for x in given)
            products_one.minplus(a, b, c[0] if c else None, out=out[index], **how)
            if watch is not None:
                watch((done + 1) / count)
    return out


def factors(
    space: arrays.Space, A: Any, B: Any, C: Any
) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, int]]:
    """Return the operands by name, the shape of all leading dimensions, and that of a product."""
    given = {"A": A, "B": B} | ({} if C is None else {"C": C})
    named = {name: space.array(x, name) for name, x in given.items()}
    for name, x in named.items():
        if len(x.shape) < 2:
            raise errors.not_two_dimensional(name, len(x.shape), points=False)
    try:
        lead = np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in named.values()))
    except ValueError:
        shapes = " and ".join(f"{x.shape} of {name}" for name, x in named.items())
        raise ValueError(f"leading dimensions must match or be 1, got shapes {shapes}") from None
    return named, lead, semirings.check_shapes({n: tuple(x.shape[-2:]) for n, x in named.items()})


def room(out: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return where to write results: what was given, if it is such, or a new array.

    Parameters
    ----------
    out : ndarray or None
        What the caller gave.
    shape, dtype
        Of the results.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError, ValueError, MemoryError
        It is of another kind, or there is no memory for a new one.
    """
    if out is None:
        return arrays.HOST.empty(shape, dtype, like=None)
    arrays.out_dtype(out, (dtype,))
    arrays.check_out(out, shape)
    return out
