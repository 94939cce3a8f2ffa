"""Lengths of paths as a caller wants them: narrow integers, hops up to a number of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpudist import arrays, checks

NARROW: Final = ("int16", "uint16", "uint8")
"""Integers that no kernel computes in: lengths are computed in int32, and fit or are refused."""

UNREACHABLE: Final = 2**31 - 1
NO_PREDECESSOR: Final = -9999


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
