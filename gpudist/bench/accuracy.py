"""How far results are from exact: in float64 on a sample of rows, or right to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpudist.bench.adversary import adversarial, variants
from gpudist.bench.exact import exact_cdist

__all__ = [
    "adversarial",
    "error_scale",
    "exact_cdist",
    "max_error",
    "max_relative_error",
    "measure_of",
    "variants",
]

Array = npt.NDArray[Any]

_MEASURES = {
    "cosine": "one",
    "correlation": "one",
    "hellinger": "one",
    "jensenshannon": "one",
    "kl_divergence": "one",
    "inner_product": "terms",
}


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


def measure_of(metric: str) -> str:
    """Say what errors of a metric are relative to.

    Parameters
    ----------
    metric : str
        Its name.

    Returns
    -------
    {'distance', 'one', 'terms'}
        The distance itself; at least 1 where near rows leave a small difference of numbers near
        1; the sum of the terms' magnitudes where terms of both signs can cancel.
    """
    return _MEASURES.get(metric, "distance")


def error_scale(metric: str, a: Array, b: Array, exact: Array) -> Array:
    """Give what the errors of distances are divided by.

    Parameters
    ----------
    metric : str
        Its name.
    a, b : ndarray
        The points.
    exact : ndarray
        Their exact distances.

    Returns
    -------
    ndarray
        Of the same shape, by the rule that `measure_of` names. A distance below the smallest
        normal number of the points' type counts as that number, since it cannot have all digits;
        0 remains 0.
    """
    measure = measure_of(metric)
    if measure == "one":
        return np.maximum(np.abs(exact), 1.0)
    if measure == "terms":
        exact = exact_cdist(np.abs(a), np.abs(b), metric)
    tiny = np.finfo(a.dtype).tiny
    return np.where(exact == 0, 0.0, np.maximum(np.abs(exact), tiny))
