"""How far results are from what they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def max_relative_error(result: Array, exact: Array) -> float:
    """Give the largest of ``|result - exact| / |exact|``.

    Parameters
    ----------
    result, exact : ndarray
        Of one shape. Equal entries count as 0, infinities among them; a result that is not 0
        where the exact one is counts as infinite, and NaN against a number as infinite too.

    Returns
    -------
    float
        The largest, 0 for empty arrays.
    """
    return max_error(result, exact, np.abs(exact.astype(np.float64)))


def max_error(result: Array, exact: Array, scale: Array) -> float:
    """Give the largest of ``|result - exact| / scale``.

    Parameters
    ----------
    result, exact, scale : ndarray
        Of one shape. Entries count as in `max_relative_error`; an exact infinity stands for every
        number that rounds to it in the result's type.

    Returns
    -------
    float
        The largest, 0 for empty arrays.
    """
    if result.shape != exact.shape:
        raise ValueError(f"a result of shape {result.shape} against {exact.shape}")
    with np.errstate(over="ignore"):
        beyond = np.isinf(exact.astype(result.dtype, copy=False))
    result = result.astype(np.float64)
    exact = np.where(beyond, np.copysign(np.inf, exact), exact.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(result - exact) / scale
    error[(result == exact) | (np.isnan(result) & np.isnan(exact))] = 0.0
    error[np.isnan(error)] = np.inf
    return float(error.max(initial=0.0))
