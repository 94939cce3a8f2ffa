"""The product of two matrices over a semiring."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpudist import _core, arrays, foreign, several_gpus, spreading
from gpudist.intake import Orders
from gpudist.nx import graphs
from gpudist.progress import Progress, watched
from gpudist.semirings import check, check_integers, check_shapes_and_dtype, neutral

_ADDEND_LIMIT = 2**28


def minplus(
    A: Any, B: Any, C: Any, *, semiring: str, out: Any = None, dtype: Any = None, orders: Orders
) -> Any:
    """Multiply two matrices.

    Parameters
    ----------
    A, B, C, semiring, out, dtype
        As for `gpudist.minplus`.
    orders : Orders
        Its orders, not yet read.

    Returns
    -------
    array, shape (m, n)
        The product: `out` if given.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `gpudist.minplus`.
    """
    orders = orders.read("minplus")
    space, operands, name = read(A, B, C, semiring, out, dtype)
    a, b, c = operands
    shape = (a.shape[0], b.shape[1])
    if orders.kernel == "reference":
        return _reference(space, operands, semiring, name, shape, out)
    if space is not arrays.HOST:  # the core itself converts host arrays
        a, b, c = (x if x is None else space.cast(x, name) for x in operands)
    if out is None:
        out = space.empty(shape, name, like=a)
    elif c is not None and not arrays.in_place(space, c, out):
        (c,) = arrays.apart(space, {"C": c}, out)  # the core reads the factors before it writes
    if several_gpus.are_named(orders.device):
        several_gpus.check_on_host(space)
        a, b = arrays.apart(space, {"A": a, "B": b}, out)
        _share(a, b, c, out, semiring, orders)
    else:
        _compute(space, (a, b, c), out, semiring, orders)
    return out


def _compute(
    space: arrays.Space, operands: tuple[Any, Any, Any], out: Any, semiring: str, orders: Orders
) -> None:
    """Have the core multiply."""
    a, b, c = operands
    steps = a.shape[0] * b.shape[1] * a.shape[1]
    with watched(orders.progress, steps, "minplus") as watch:
        _core.minplus(
            a,
            b,
            c,
            out,
            semiring,
            orders.kernel,
            orders.device,
            space.stream(a),
            space.ordered,
            orders.options,
            watch,
            orders.max_memory,
        )


def _share(a: Any, b: Any, c: Any, out: Any, semiring: str, orders: Orders) -> None:
    """Have several GPUs multiply, each some rows at a time."""

    def compute(device: str, start: int, stop: int, tell: Progress) -> None:
        one = orders._replace(device=device, progress=tell)
        some = (a[start:stop], b, None if c is None else c[start:stop])
        _compute(arrays.HOST, some, out[start:stop], semiring, one)

    (rows, inner), devices = a.shape, several_gpus.of(orders.device)
    each = several_gpus.panels_each(out.nbytes, len(devices), b.nbytes)
    panels = several_gpus.panels(rows, len(devices), each)
    task = several_gpus.Task("minplus", panels, rows * inner * b.shape[1], compute)
    several_gpus.share(task, devices, orders.progress)


def read(
    A: Any, B: Any, C: Any, semiring: str, out: Any, dtype: Any
) -> tuple[arrays.Space, tuple[Any, Any, Any], str]:
    """Read and check all that does not need the core: space, operands, dtype of the product."""
    check(semiring)
    given = A, B, C
    A, B, C = _ways(A, "A", semiring), _ways(B, "B", semiring), _ways(C, "C", semiring)
    graph = A is not given[0] or B is not given[1]
    if graph or foreign.may_have_names(A) or foreign.may_have_names(B):
        _refuse_other_order(*given)
    space = arrays.space_of(A=A, B=B, C=C, out=out)
    a, b = space.array(A, "A"), space.array(B, "B")
    c = None if C is None else space.array(C, "C")
    named = {"A": a, "B": b} if c is None else {"A": a, "B": b, "C": c}
    result = check_shapes_and_dtype(space, named, semiring, dtype, out)
    if result == "int32":
        check_integers(space, named)
    return space, (a, b, c), result


def _refuse_other_order(A: Any, B: Any, C: Any) -> None:
    """Raise a ValueError where names that meet in a product are in two orders."""
    for first, some, along, second, others, axis in (
        ("A", A, -1, "B", B, -2),
        ("A", A, -2, "C", C, -2),
        ("B", B, -1, "C", C, -1),
    ):
        if foreign.in_other_order(_names(some, along), _names(others, axis)):
            what = {-1: "columns", -2: "rows"}
            raise ValueError(
                f"the {what[axis]} of {second} are named as the {what[along]} of {first} in "
                "another order, and are read by their position: give them in one order, or arrays"
            )


def _names(value: Any, axis: int) -> list[Any]:
    return list(value) if graphs.is_graph(value) else foreign.labels(value, axis)


def _ways(value: Any, name: str, semiring: str) -> Any:
    """Spread a graph over a dense matrix; refuse what does not say what its gaps mean."""
    if value is None or type(value) is np.ndarray:  # as in most small calls
        return value
    truths, none = semiring == "or_and", neutral(semiring, "float64")
    if graphs.is_graph(value):
        return spreading.ways(value, name, truths=truths, none=none)
    if foreign.is_sparse(value):
        dense = foreign.densely(value, name)
        raise TypeError(
            f"{name} is sparse; give {dense}, in which what is not stored is False"
            if truths
            else f"{name} is sparse; give a dense array with {none} where there is no way: {dense} "
            "has 0 there, which is one"
        )
    return value


def _reference(
    space: arrays.Space,
    operands: tuple[Any, Any, Any],
    semiring: str,
    dtype: str,
    shape: tuple[int, int],
    out: Any,
) -> Any:
    from gpudist import reference

    arrays.refuse_devices(space, 'kernel="reference"')
    if out is None:
        out = space.empty(shape, dtype, like=None)
    arrays.check_out(out, shape)
    # Sums are of the rounded elements, as in the kernels.
    a, b, c = (x if x is None else space.cast(x, dtype) for x in operands)
    if dtype != "int32":
        space.assign(out, reference.minplus(a, b, c, semiring))
        return out
    # The neutral element is an integer outside and an infinity inside.
    none, infinity = neutral(semiring, "int32"), neutral(semiring, "float64")

    def inside(x: Any) -> Any:
        return x if x is None else np.where(x == none, infinity, x)

    a, b, c = inside(a), inside(b), inside(c)
    if semiring.endswith("plus") and any(
        (np.isfinite(x) & (np.abs(x) >= _ADDEND_LIMIT)).any() for x in (a, b)
    ):
        raise ValueError("A or B has an element of magnitude 2**28 or more; use dtype=float64")
    result = reference.minplus(a, b, c, semiring)
    space.assign(out, np.where(np.isinf(result), none, result))
    return out
