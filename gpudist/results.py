"""Lengths of paths as a caller wants them: narrow integers, hops up to a number of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from gpudist import arrays, checks, semirings

CORE_DTYPES: Final = ("float32", "float64", "int32")
"""What kernels of paths compute in."""

NARROW: Final = ("int16", "uint16", "uint8")
"""Integers that no kernel computes in: lengths are computed in int32, and fit or are refused."""

UNREACHABLE: Final = 2**31 - 1
NO_PREDECESSOR: Final = -9999
LARGEST_INT32_PATH: Final = 2.0**30
_LARGEST_INT32_WEIGHT = 2.0**29
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Facts(NamedTuple):
    """What is known of weights as they were given: of which signs they are, and how large."""

    negative: bool
    fractional: bool
    largest: float


def read_unreachable(value: Any, dtype: str) -> float | None:
    """Read what is to stand for no path: None, or a number that the dtype holds.

    Parameters
    ----------
    value : float or None
        What the caller gave.
    dtype : str
        The result's dtype.

    Returns
    -------
    float or None
        The number.

    Raises
    ------
    TypeError, ValueError
        It is no number, or the dtype does not hold it.
    """
    if value is None:
        return None
    number = checks.number("unreachable", value)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        if number != np.rint(number) or not limits.min <= number <= limits.max:
            raise ValueError(
                f"unreachable must be a whole number from {limits.min} to {limits.max} with "
                f"dtype={dtype}, got {value}"
            )
    elif dtype == "float32" and float(np.finfo(dtype).max) < abs(number) < math.inf:
        raise ValueError(f"unreachable must be a number that float32 holds, got {value}")
    return number


def read_max_hops(value: Any, unweighted: bool, semiring: str) -> int | None:
    """Read the most edges that paths may have, which counts where lengths are hops alone.

    Parameters
    ----------
    value : int or None
        What the caller gave.
    unweighted : bool
        Whether every edge weighs 1.
    semiring : str
        What lengths are.

    Returns
    -------
    int or None
        The number.

    Raises
    ------
    TypeError, ValueError
        It is no number of edges, or lengths are no hops.
    """
    if value is None:
        return None
    hops = checks.whole("max_hops", value)
    if hops < 0:
        raise ValueError(f"max_hops must not be negative, got {hops}")
    if not unweighted or semiring != "min_plus":
        raise ValueError(
            "max_hops is for unweighted=True in min_plus, where lengths are numbers of edges; the "
            "best paths of at most so many weighted edges are products: minplus(A, A) has two"
        )
    return hops


def dtype_of(space: arrays.Space, single: bool, dtype: Any, semiring: str = "min_plus") -> str:
    """Choose the dtype of lengths.

    Parameters
    ----------
    space : Space
        Where the graph is.
    single : bool
        Whether its weights are in float32.
    dtype : dtype-like or None
        What the caller asked for.
    semiring : str
        What lengths are.

    Returns
    -------
    str
        The name of the dtype.

    Raises
    ------
    ValueError
        Lengths are not computed in it.
    """
    if dtype is None:
        return "float32" if single else "float64"
    name = arrays.dtype_name(dtype)
    if name in NARROW:
        if space is not arrays.HOST or not semiring.endswith("plus"):
            raise ValueError(f"dtype={name} is for host arrays, in min_plus and max_plus")
        return name
    if name not in CORE_DTYPES:
        raise ValueError(f"dtype must be {arrays.one_of((*CORE_DTYPES, *NARROW))}, got {name}")
    return name


def check_weights(
    rule: str,
    sentinel: float,
    dtype: str,
    facts: Facts,
    place: Callable[[Callable[[Any], Any]], str],
) -> None:
    """Refuse weights that a result of this dtype does not take, in the words of the core.

    Parameters
    ----------
    rule, sentinel : str, float
        What is no edge.
    dtype : str
        The result's.
    facts : Facts
        What is known of the weights.
    place : callable
        Takes what tells of numbers whether they are wrong, and returns the name of the first.

    Raises
    ------
    ValueError
        There is such a weight.
    """
    if rule == "sentinel" and sentinel < 0 and facts.negative:
        raise ValueError(
            f"{place(lambda w: w < 0)} is a negative weight, which no_edge={sentinel:g} leaves no "
            "room for"
        )
    if dtype == "int32" and facts.fractional:
        wrong = place(lambda w: w != np.floor(w))
        raise ValueError(f"{wrong} is not a whole number, which dtype=int32 needs")
    if dtype == "int32" and facts.largest >= _LARGEST_INT32_WEIGHT:
        raise ValueError(
            f"graph has a weight of magnitude {facts.largest:.0f}; dtype=int32 takes weights below "
            "2**29"
        )
    if dtype == "float32" and facts.largest > _LARGEST_FLOAT32:
        raise ValueError(
            f"graph has a weight of magnitude {facts.largest:g}, which float32 cannot hold"
        )


def refuse_long(count: int) -> None:
    """Raise an OverflowError if some lengths are beyond those that int32 results hold."""
    if count:
        raise OverflowError(
            f"{count} path lengths reach 2**30, which int32 results do not hold; use dtype=float64"
        )


def unreachable_of(
    dtype: str, no_edge: float | None, semiring: str, given: float | None = None
) -> float:
    """Return what stands for no path: what was given, else what is usual.

    Parameters
    ----------
    dtype : str
        The dtype of the lengths.
    no_edge : float or None
        What stands for no edge, if something does.
    semiring : str
        What lengths are.
    given : float, optional
        What the caller wants.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ValueError
        int32 does not hold `no_edge`.
    """
    if given is not None:
        return given
    worst = semirings.neutral(semiring, dtype)
    if dtype != "int32":
        return worst
    value = worst if no_edge is None or not math.isfinite(no_edge) else no_edge
    if value != int(value) or not -(2**31) <= value < 2**31:
        raise ValueError(f"no_edge must be an int32 with dtype=int32, got {no_edge}")
    return float(value)


def check_truths(return_predecessors: bool, dtype: Any) -> None:
    """Refuse what apsp cannot give over or_and: predecessors, and numbers."""
    if checks.truth("return_predecessors", return_predecessors):
        raise ValueError(
            "or_and has no predecessors, since any path will do; ask for unweighted=True in "
            "min_plus"
        )
    if dtype is not None and arrays.dtype_name(dtype) != "bool":
        raise ValueError(f"dtype must be bool for or_and, got {arrays.dtype_name(dtype)}")


def refuse_for_truths(unreachable: Any, max_hops: Any) -> None:
    """Raise a ValueError if something is asked of lengths, and there are truths alone."""
    if unreachable is not None or max_hops is not None:
        name = "max_hops" if unreachable is None else "unreachable"
        raise ValueError(f"{name} is not for or_and, whose results are truths")


def cap(lengths: Any, before: Any, most: int, unreachable: float) -> None:
    """Make paths of more hops than `most` none, in place.

    Parameters
    ----------
    lengths : array, shape (..., n, n)
        Numbers of hops; of NumPy, or a library that takes a mask as an index.
    before : array or None
        Their predecessors.
    most : int
        The most hops.
    unreachable : float
        What stands for no path.
    """
    far = lengths > most
    lengths[far] = unreachable
    if before is not None:
        before[far] = NO_PREDECESSOR


def narrow(lengths: Any, dtype: str, unreachable: float | None, out: Any) -> Any:
    """Round nothing: write int32 lengths as narrower integers, or refuse.

    Parameters
    ----------
    lengths : ndarray of int32, shape (..., n, n)
        With `UNREACHABLE` for no path.
    dtype : str
        One of `NARROW`.
    unreachable : float or None
        What stands for no path; None for the largest number, which no length may be then.
    out : ndarray or None
        Where to write them.

    Returns
    -------
    ndarray
        The lengths: `out` if given.

    Raises
    ------
    OverflowError
        A length does not fit.
    """
    limits, none = np.iinfo(dtype), lengths == UNREACHABLE
    most = limits.max - (unreachable is None)
    fits = (lengths >= limits.min) & (lengths <= most) | none
    if not fits.all():
        *graph, i, j = map(int, np.argwhere(~fits)[0])
        which = f" of graph {graph[0]}" if graph else ""
        spare = f", where {limits.max} stands for no path" if unreachable is None else ""
        raise OverflowError(
            f"the path from {i} to {j}{which} has length {lengths[(*graph, i, j)]}; {dtype} holds "
            f"{limits.min} to {most}{spare}: use dtype=int32"
        )
    if out is None:
        out = arrays.HOST.empty(lengths.shape, dtype, like=None)
    np.copyto(out, lengths, casting="unsafe")
    out[none] = limits.max if unreachable is None else unreachable
    return out
