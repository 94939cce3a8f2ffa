"""The metrics: one record each, from which arguments, documentation and tests are made."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True, slots=True)
class Metric:
    """What there is to know about a metric, except how to compute it.

    Attributes
    ----------
    name : str
        The canonical name; the compiled core knows the metric by it.
    aliases : tuple of str
        Other names that SciPy accepts.
    formula : str
        The distance of rows x and y.
    columns : int or None
        The number of columns that it needs, None for any.
    """

    name: str
    aliases: tuple[str, ...]
    formula: str
    columns: int | None = None


METRICS: tuple[Metric, ...] = (
    Metric("euclidean", ("euclid", "eu", "e"), "sqrt(sum((x - y)**2))"),
    Metric("sqeuclidean", ("sqe", "sqeuclid"), "sum((x - y)**2)"),
    Metric("cityblock", ("cblock", "cb", "c"), "sum(abs(x - y))"),
    Metric("chebyshev", ("chebychev", "cheby", "cheb", "ch"), "max(abs(x - y))"),
    Metric(
        "haversine",
        (),
        "2 arcsin(sqrt(sin((x0-y0)/2)**2 + cos(x0) cos(y0) sin((x1-y1)/2)**2)), "
        "with columns (latitude, longitude) in radians",
        columns=2,
    ),
)

_BY_NAME: dict[str, Metric] = {
    name: metric for metric in METRICS for name in (metric.name, *metric.aliases)
}


def resolve(metric: Any, metric_args: dict[str, Any]) -> Metric:
    """Find the record of a metric and check its arguments.

    Parameters
    ----------
    metric : str
        A name or alias, in any case.
    metric_args : dict
        The keyword arguments meant for the metric.

    Returns
    -------
    Metric
        The record.

    Raises
    ------
    TypeError
        `metric` is not a string, or an argument is not one of the metric's.
    ValueError
        There is no such metric; the message names near matches.
    """
    if not isinstance(metric, str):
        raise TypeError(f"metric must be a string, got {type(metric).__name__}")
    found = _BY_NAME.get(metric) or _BY_NAME.get(metric.lower())
    if found is None:
        near = get_close_matches(metric.lower(), _BY_NAME, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else known()
        raise ValueError(f"unknown metric {metric!r}; {hint}")
    for name in metric_args:
        raise TypeError(f"cdist() got an unexpected keyword argument '{name}'")
    return found


def known() -> str:
    """Return the sentence that lists every metric."""
    return "metrics are " + ", ".join(metric.name for metric in METRICS)
