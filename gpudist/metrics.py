"""The metrics: one record each, from which arguments, documentation and tests are made."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, errors
from gpudist.intake import Operands, operands


class Metric(NamedTuple):
    """What there is to know about a metric, except how to compute it.

    Attributes
    ----------
    name : str
        The canonical name; the compiled core knows the metric by it.
    aliases : tuple of str
        Other names that SciPy and other libraries have for it.
    formula : str
        The distance of rows x and y.
    reduces_to : str
        The metric that kernels compute once the rows are prepared; mostly itself.
    arguments : tuple of str
        The keywords that it takes, of w, p, V, VI, base and box.
    domain : {"numbers", "truths", "either"}
        What the rows are read as: numbers; or truths, which numbers are where they are not 0;
        "either" reads numbers, and is quicker on arrays of bool.
    columns : int
        The number of columns that it needs, 0 for any.
    similarity : bool
        Whether the larger value is the nearer.
    """

    name: str
    aliases: tuple[str, ...]
    formula: str
    reduces_to: str
    arguments: tuple[str, ...]
    domain: str
    columns: int
    similarity: bool


METRICS: tuple[Metric, ...] = tuple(Metric(**row) for row in _core.metrics())

_BY_NAME: dict[str, Metric] = {
    name: metric for metric in METRICS for name in (metric.name, *metric.aliases)
}

# What other libraries take for a metric, or took.
_ELSEWHERE = {
    "cosine_similarity": "'cosine' is 1 minus it",
    "dot": "the dot product is 'inner_product'",
    "ip": "the dot product is 'inner_product'",
    "kl": "did you mean 'kl_divergence'?",
    "levenshtein": "for it give a function of two rows",
    "precomputed": "what is computed already needs no cdist",
    "nan_euclidean": "there is none that passes over NaN",
    "kulsinski": "SciPy dropped it in 1.11, and had another formula than its source",
    "wminkowski": "SciPy's had w to the power p: it is 'minkowski' with w=w**p",
    "p": "the metric of an exponent p is 'minkowski'",
    "lp": "the metric of an exponent p is 'minkowski'",
    "pearson": "'correlation' is 1 minus it",
    "tanimoto": "'jaccard' of truths is 1 minus it",
}

# What keywords of other libraries are here.
_KEYWORDS_ELSEWHERE = {
    "weights": "weights are w=",
    "boxsize": "the lengths of a periodic box are box=",
    "n_jobs": "the environment variable OMP_NUM_THREADS bounds the threads",
    "workers": "the environment variable OMP_NUM_THREADS bounds the threads",
    "squared": "squares are metric='sqeuclidean'",
    "k": "the k nearest are those of knn",
    "n_neighbors": "the k nearest are those of knn, with k=",
    "radius": "the radius is r=",
    "return_distance": "results have .distances and .indices",
    "sort_results": "sort='distance' has the nearest first",
    "eps": "there is no approximate search",
    "distance_upper_bound": "neighbours within a radius are those of radius_neighbors",
    "metric_params": "the metric's arguments are given by their names",
    "metric_arg": "the metric's arguments are given by their names",
    "algorithm": "gpudist.explain tells what is searched by, which the data decide",
    "leaf_size": "there is nothing to set, leave it out",
    "compute_mode": "results are as exact as their type allows without it",
}

# SciPy had these until 2025.
DROPPED_BY_SCIPY = frozenset({"kulczynski1", "sokalmichener"})
# SciPy gives no meaning to functions of these names.
NOT_SCIPYS = DROPPED_BY_SCIPY | {"inner_product", "hellinger", "kl_divergence", "haversine"}

# Arguments that apply even if nobody gives them.
_WITH_DEFAULTS = frozenset({"p", "V", "VI"})

# Half of it is a normal number.
_LEAST_LENGTH = 2 * float(np.finfo(np.float64).tiny)

# The latitude of a pole is below it, in float32 as well.
_BEYOND_THE_POLES = 1.5708


# ------------------------------------------------------------------ names


def resolve(
    metric: Any,
    metric_args: dict[str, Any],
    function: str = "cdist",
    others: Sequence[str] = (),
) -> Metric:
    """Find the record of a metric and check the names of its arguments.

    Parameters
    ----------
    metric : str
        A name or alias, in any case.
    metric_args : dict
        The keyword arguments meant for the metric; ``w=None`` is none.
    function : str
        Who was called, for the message.
    others : sequence of str
        The keywords that it takes beside those of metrics, for suggestions.

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
        # The third argument of PyTorch's cdist is p.
        number = isinstance(metric, (int, float)) and not isinstance(metric, bool) and metric > 0
        hint = f"; {_minkowski(metric)}" if number else ""
        raise TypeError(f"metric must be a string or a callable, got {type(metric).__name__}{hint}")
    found = _BY_NAME.get(metric) or _BY_NAME.get(metric.lower())
    if found is None:
        # test_ asks SciPy for its slow version of a metric.
        plain = metric.lower().removeprefix("test_")
        hint = _ELSEWHERE.get(plain) or errors.suggest(plain, _BY_NAME, known())
        raise ValueError(f"unknown metric {metric!r}; {hint}")
    for name, value in metric_args.items():
        if name not in found.arguments and not (name == "w" and value is None):
            takes = " and ".join(found.arguments) or "no arguments"
            raise TypeError(
                f"{function}() got an unexpected keyword argument '{name}': {found.name} takes "
                f"{takes}{_who_takes(name, value, others)}"
            )
    return found


def _who_takes(name: str, value: Any, others: Sequence[str]) -> str:
    """Say for which metric a keyword is, or which keyword may be meant."""
    if name == "p" and isinstance(value, (int, float)):
        return f"; {_minkowski(value)}"
    takers = [metric.name for metric in METRICS if name in metric.arguments]
    if len(takers) == 1:
        return f"; {name} is for metric={takers[0]!r}"
    if name == "box":
        return f"; box is for {', '.join(takers)}"
    keywords = {*others, *(one for metric in METRICS for one in metric.arguments if len(one) > 2)}
    near = _KEYWORDS_ELSEWHERE.get(name) or errors.suggest(name, sorted(keywords - {name}), "")
    return near and f"; {near}"


def _minkowski(p: float) -> str:
    """Say how the distance with this exponent is asked for."""
    special = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}.get(float(p))
    also = "" if special is None else f", or metric={special!r}"
    return f"for the exponent write metric='minkowski', p={p}{also}"


def known() -> str:
    """Return the sentence that lists every metric."""
    return "metrics are " + ", ".join(metric.name for metric in METRICS)


def describe(indent: str = "") -> str:
    """Return the list of the metrics as docstrings show it.

    Parameters
    ----------
    indent : str
        What stands before each line but the first.

    Returns
    -------
    str
        Each metric with its aliases, the arguments that it takes, and its formula.

    Examples
    --------
    >>> from gpudist import metrics
    >>> print(metrics.describe().partition("sqeuclidean")[0].rstrip())
    euclidean (euclid, eu, e, l2); takes w, box
        sqrt(sum(w * (x - y)**2))
    """
    lines = []
    for metric in METRICS:
        aliases = f" ({', '.join(metric.aliases)})" if metric.aliases else ""
        takes = f"; takes {', '.join(metric.arguments)}" if metric.arguments else ""
        lines.append(metric.name + aliases + takes)
        lines += textwrap.wrap(
            metric.formula, 92, initial_indent=" " * 4, subsequent_indent=" " * 4
        )
    return ("\n" + indent).join(lines)


# ------------------------------------------------------------------ arguments


class Arguments(NamedTuple):
    """The arguments of a metric, read and checked for the points of one call.

    `values` are those of w, p, V, VI, base and box that apply, arrays in float64 on the host;
    `core` are the same as keywords of the core: weights, p, base, vi, factor and box.
    """

    values: dict[str, Any]
    core: dict[str, Any]

    @property
    def fit_float32(self) -> bool:
        """Whether sums with these weights stay in the range of float32; so do those without."""
        return _core.weights_fit(self.core.get("weights"))


_NONE = Arguments({}, {})


def read(metric: Metric, given: dict[str, Any], points: Operands) -> Arguments:
    """Read the arguments of a metric.

    Parameters
    ----------
    metric, given, points
        As for `check`.

    Returns
    -------
    Arguments
        What `check` returns, and the same in the terms of the core.
    """
    if not given and _WITH_DEFAULTS.isdisjoint(metric.arguments):  # as in most small calls
        return _NONE
    values = check(metric, given, points)
    return Arguments(values, _for_core(metric, values))


def check(metric: Metric, given: dict[str, Any], points: Operands) -> dict[str, Any]:
    """Check the values of a metric's arguments, and fill in what depends on the points.

    Parameters
    ----------
    metric : Metric
        The metric.
    given : dict
        The arguments as the caller gave them; names that the metric does not take are passed over.
    points : Operands
        The points: XA and XB, or X alone.

    Returns
    -------
    dict
        Those of w, p, V, VI, base and box that apply; arrays are float64 on the host, p is always
        there for minkowski, V for seuclidean and VI for mahalanobis; a box has a length for each
        column, 0 where it is not periodic, and is left out where none is.

    Raises
    ------
    TypeError
        An argument is no number, or no array of real numbers.
    ValueError
        Its shape or value does not do, or there are too few rows for the default VI.
    """
    if not metric.arguments:
        return {}
    values: dict[str, Any] = {}
    for name in metric.arguments:
        value = given.get(name)
        if name == "V":
            values["V"] = _variances(value, points, given.get("box"))
        elif name == "VI":
            values["VI"] = _inverse_covariance(value, points)
        elif name == "p" and "p" in given:
            values["p"] = _exponent(value)
        elif name == "p":
            values["p"] = 2.0
        elif name == "box":
            values |= _box(value, points)
        elif value is not None:
            values[name] = _base(value) if name == "base" else _weights(value, points)
    return values


def _for_core(metric: Metric, values: dict[str, Any]) -> dict[str, Any]:
    """Put arguments that `check` returned into the terms of the core, as far as they apply."""
    given: dict[str, Any] = {name: values[name] for name in ("p", "base") if name in values}
    weights = values.get("w")
    if "V" in values:
        weights = _reciprocals(values["V"])
    elif weights is not None and (metric.name == "chebyshev" or given.get("p") == math.inf):
        weights = np.where(weights > 0, 1.0, 0.0)
    if weights is not None:
        given["weights"] = weights
    if "VI" in values:
        given["vi"] = 0.5 * values["VI"] + 0.5 * values["VI"].T  # of the same quadratic form
        given["factor"] = _factor(given["vi"])
    if "box" in values:
        given["box"] = np.where(values["box"] > 0, values["box"], np.inf)
    return given


def warn_of_degrees(points: Operands) -> None:
    """Warn of latitudes that are none in radians.

    Parameters
    ----------
    points : Operands
        The points of haversine. Those on a device are not looked at, since that would wait for it.
    """
    if points.space is not arrays.HOST:
        return
    for name, x in zip(points.names, points.given, strict=True):
        latitudes = np.abs(x[:, 0]) if x.shape[1] == 2 else x[:0]
        if ((latitudes > _BEYOND_THE_POLES) & (latitudes < np.inf)).any():
            errors.warn(
                f"haversine reads latitude and longitude in radians, and {name} has latitudes "
                f"beyond pi / 2: degrees are given as numpy.radians({name})"
            )
            return


def prepare_callable(
    function: Any, given: dict[str, Any], points: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Do for a callable what SciPy does: one named like a metric gets what that metric gets.

    Parameters
    ----------
    function : callable
        A function of two rows.
    given : dict
        The keyword arguments meant for it.
    points : dict of str to ndarray
        The points by the names that errors use, of any dtype.

    Returns
    -------
    points : tuple of ndarray
        The points in the dtype that the metric of that name works on, else as they came.
    arguments : dict
        What to call it with; that metric's arguments are checked, its defaults are filled in.
    """
    metric = _BY_NAME.get(getattr(function, "__name__", ""))
    if metric is None or metric.name in NOT_SCIPYS:
        return tuple(points.values()), given
    # The first operand decides whether truths stay truths where both would do.
    both = metric.name in ("hamming", "jaccard")
    truths = next(iter(points.values())).dtype == bool if both else metric.domain == "truths"
    dtype = bool if truths else np.float64
    read = operands({name: x.astype(dtype, copy=False) for name, x in points.items()})
    arguments = {name: value for name, value in given.items() if name not in metric.arguments}
    arguments |= check(metric, given, read)
    if metric.name == "hamming":
        arguments.setdefault("w", np.ones(read.shapes[0][1]))
    return tuple(read.given), arguments


def _exponent(value: Any) -> float:
    p = checks.number("p", value)
    if not p > 0:
        raise ValueError(f"p must be greater than 0, got {p}")
    return p


def _base(value: Any) -> float:
    base = checks.number("base", value)
    if not base > 0 or base == 1:
        raise ValueError(f"base must be greater than 0 and not 1, got {base}")
    return base


def _vector(name: str, value: Any, points: Operands) -> Any:
    vector = arrays.parameter(points.space, value, name)
    columns = points.shapes[0][1]
    if vector.shape != (columns,):
        raise ValueError(
            f"{name} must be one-dimensional with one element a column: expected shape "
            f"({columns},), got {vector.shape}"
        )
    return vector


def _weights(value: Any, points: Operands) -> Any:
    w = _vector("w", value, points)
    if (w < 0).any():
        raise ValueError("weights must be non-negative, w has negative elements")
    return w


def _box(value: Any, points: Operands) -> dict[str, Any]:
    """Return the lengths of the columns by the name "box"; nothing where no column is periodic."""
    if value is None:
        return {}
    lengths, columns = arrays.parameter(points.space, value, "box"), points.shapes[0][-1]
    if lengths.shape not in ((), (columns,)):
        raise ValueError(
            f"box must be a number or one-dimensional with one length a column: expected shape () "
            f"or ({columns},), got {lengths.shape}"
        )
    # Half of a subnormal number need not be a number.
    if not ((lengths == 0) | (lengths >= _LEAST_LENGTH)).all():
        raise ValueError(
            f"box must hold lengths of {_LEAST_LENGTH:.3g} or more, or 0 for a column that is not "
            f"periodic, got {value!r}"
        )
    lengths = np.where(np.isinf(lengths), 0.0, np.broadcast_to(lengths, (columns,)))
    return {"box": lengths} if lengths.any() else {}


def _variances(value: Any, points: Operands, box: Any) -> Any:
    if value is not None:
        return _vector("V", value, points)
    if box is not None:
        raise ValueError("give V: in a box, coordinates have no variance that is natural")
    rows = _stacked(points)
    if len(rows) < 2:  # NumPy would warn on the way to the same
        return np.full(points.shapes[0][1], np.nan)
    with np.errstate(all="ignore"):
        variances = np.var(rows, axis=0, ddof=1)
    beyond = np.flatnonzero(np.isinf(variances))
    if len(beyond):  # by an infinite one, all rows would be the same
        raise ValueError(
            f"the variance of column {beyond[0]} is beyond the range of float64: divide the points "
            "by a power of 2, or give V"
        )
    return variances


def _inverse_covariance(value: Any, points: Operands) -> Any:
    columns = points.shapes[0][1]
    if value is not None:
        matrix = arrays.parameter(points.space, value, "VI")
        if matrix.shape != (columns, columns):
            raise ValueError(f"VI must have shape ({columns}, {columns}), got {matrix.shape}")
        return matrix
    rows = sum(shape[0] for shape in points.shapes)
    if rows <= columns:
        raise ValueError(
            f"the number of observations ({rows}) is too small, the covariance matrix is "
            f"singular: {columns} dimensions need at least {columns + 1} observations, or give VI"
        )
    with np.errstate(all="ignore"):
        covariance = np.atleast_2d(np.cov(_stacked(points).T))
        _check_regular(covariance, "X" if len(points.given) == 1 else "numpy.vstack([XA, XB])")
        return np.ascontiguousarray(np.linalg.inv(covariance).T)


def _check_regular(covariance: Any, points: str) -> None:
    """Refuse a matrix whose inverse would be noise, whatever the columns' units are."""
    if not np.isfinite(covariance).all():
        return
    deviations = np.sqrt(covariance.diagonal())
    constant = np.flatnonzero(deviations == 0)
    if len(constant):
        why = f"column {constant[0]} is constant"
    elif np.linalg.matrix_rank(covariance / np.outer(deviations, deviations), hermitian=True) < len(
        covariance
    ):
        why = "some columns are sums of multiples of others"
    else:
        return
    raise ValueError(
        f"the covariance matrix of the points is singular, since {why}: leave such columns out, or "
        f"give VI, the pseudo-inverse for instance: VI=numpy.linalg.pinv(numpy.cov({points}.T))"
    )


def _stacked(points: Operands) -> Any:
    """Return all points as one array on the host."""
    return np.vstack([points.space.host(x) for x in points.given])


def _reciprocals(variances: Any) -> Any:
    with np.errstate(all="ignore"):
        weights = 1.0 / variances
    # A subnormal variance is not zero: times a difference of 0 its weight must give 0, not NaN.
    weights[np.isinf(weights) & (variances > 0)] = np.finfo(np.float64).max
    return weights


def _factor(vi: Any) -> Any:
    """Return L with L @ L.T == vi, or None where vi is not positive definite."""
    try:
        factor = np.linalg.cholesky(vi)
    except np.linalg.LinAlgError:
        return None
    return np.ascontiguousarray(factor) if np.isfinite(factor).all() else None
