"""What errors of distances are relative to, and the data and exact results to find them by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bench.adversary import adversarial, variants
from bench.exact import exact_cdist

__all__ = [
    "adversarial",
    "error_scale",
    "exact_cdist",
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
