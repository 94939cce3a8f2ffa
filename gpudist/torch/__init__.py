"""Distances with gradients: PyTorch's `cdist` and `pdist`, with the accuracy of gpudist.

Both take the arguments of the functions of PyTorch that have their names, and `metric` and `w`
beside them. Results can be differentiated twice, forward and backward, in memory that grows with
the arrays alone; they work under ``torch.compile``, ``torch.export``, ``torch.func`` and autocast.
It needs PyTorch 2.4 or newer, which `gpudist` itself never imports.

>>> import torch, gpudist.torch
>>> x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
>>> gpudist.torch.pdist(x).sum().backward()
>>> x.grad
tensor([[-0.6000, -0.8000],
        [ 0.6000,  0.8000]])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _is_any_autocast_enabled

from gpudist import arrays, checks, errors, metrics
from gpudist.torch import _functions, _operators
from gpudist.torch._plain import is_plain

__all__ = ["cdist", "pdist"]

_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)

# Metrics by the names that gpudist.cdist has for them, as kinds and exponents.
_METRICS: dict[str, tuple[str, float | None]] = {
    "euclidean": ("minkowski", 2.0),
    "cityblock": ("minkowski", 1.0),
    "chebyshev": ("minkowski", math.inf),
    "minkowski": ("minkowski", None),
    "sqeuclidean": ("sqeuclidean", 2.0),
    "cosine": ("cosine", 2.0),
    "inner_product": ("inner_product", 2.0),
}

# What is given by another name of a metric.
_OF_ALIASES = {
    alias: _METRICS[metric.name]
    for metric in metrics.METRICS
    if metric.name in _METRICS
    for alias in metric.aliases
}

# What errors call the points.
Names = tuple[str, ...]

_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, torch.float64, *_HALVES)


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    *,
    metric: str | None = None,
    w: Any = None,
) -> Tensor:
    """Compute the distance between every row of `x1` and every row of `x2`, with derivatives.

    It is `torch.cdist`, with the accuracy of `gpudist.cdist`: near points keep their digits, in
    results and in gradients.

    Parameters
    ----------
    x1, x2 : torch.Tensor, shapes (..., m, d) and (..., n, d)
        Points, one a row, of float32, float64, float16 or bfloat16, both of one dtype and on one
        device. Leading dimensions are batches, which broadcast without a copy.
    p : float, 2 by default
        The exponent of Minkowski's distance, 0 or more; inf gives the largest difference, and 0 the
        number of columns that differ.
    compute_mode : str
        One of PyTorch's three names of ways to compute. Results are as accurate in all of them.
    metric : str, optional
        In place of `p`: "euclidean", "cityblock", "chebyshev", "minkowski" with `p`, "sqeuclidean",
        "cosine" or "inner_product".
    w : array_like, shape (d,), optional
        Weights of the columns, 0 or more, not for "inner_product" nor for an exponent of 0. They
        are constants: no gradient goes to them.

    Returns
    -------
    torch.Tensor, shape (..., m, n)
        The distances, of the points' dtype, on their device. Half precision is computed in float32
        and rounded once; under autocast it gives float32.

    Raises
    ------
    TypeError
        `x1` or `x2` is no tensor of these dtypes, or they differ in dtype or device; `w` requires
        gradients.
    ValueError
        Shapes that do not fit; a `p` below 0; an unknown `metric` or `compute_mode`.
    NotImplementedError
        From a third derivative, or from one that is forward over forward.

    See Also
    --------
    gpudist.cdist : All metrics, without gradients, of arrays of any library.

    Notes
    -----
    Where a distance has no derivative, it is PyTorch's: 0 where two points are equal; for ``p=1``
    0 in a column where they agree; for ``p=inf`` the whole of it goes to each column that has the
    largest difference. For ``1 < p < 2`` the second derivative is infinite in a column where two
    points agree, and 0 stands there. The gradient of "cosine" for a row of zeros is NaN, as its
    distance is.

    Gradients are added up in an order that depends on the sizes alone: they have the same bits in
    every run, and a row's gradient does not depend on the rows and matrices beside it. No array
    larger than the operands and the result is made, but for blocks of some megabytes.

    On a CUDA device from compute capability 8.0 on, gradients have kernels of their own, and a
    launch does a whole batch of small matrices. Second derivatives and those that are taken forward
    are PyTorch's own operations on blocks, there as on the host: right, but not quick.

    Examples
    --------
    >>> import torch, gpudist.torch
    >>> x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    >>> d = gpudist.torch.cdist(x, torch.zeros(1, 2))
    >>> d.sum().backward()
    >>> x.grad  # 0 where the distance is 0
    tensor([[0.0000, 0.0000],
            [0.6000, 0.8000]])
    """
    if compute_mode not in _MODES:
        raise ValueError(
            f"compute_mode must be {', '.join(map(repr, _MODES[:2]))} or {_MODES[2]!r}, got "
            f"{compute_mode!r}"
        )
    return _between(("x1", "x2"), x1, x2, p, metric, w)


def pdist(x: Tensor, p: float = 2.0, *, metric: str | None = None, w: Any = None) -> Tensor:
    """Compute the distance between every two rows of `x`, each pair once, with derivatives.

    It is `torch.nn.functional.pdist`, with the accuracy of `gpudist.pdist`, and takes batches.

    Parameters
    ----------
    x : torch.Tensor, shape (..., n, d)
        Points, one a row, as for `cdist`; leading dimensions are batches.
    p, metric, w
        As for `cdist`.

    Returns
    -------
    torch.Tensor, shape (..., n * (n - 1) / 2)
        The distances of the pairs (0, 1), (0, 2), ..., (1, 2), ..., of the points' dtype.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As for `cdist`.

    Examples
    --------
    >>> import torch, gpudist.torch
    >>> gpudist.torch.pdist(torch.tensor([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]]))
    tensor([3., 5., 4.])
    """
    return _among(("x",), x, p, metric, w)


def _between(names: Names, x1: Tensor, x2: Tensor, p: Any, metric: str | None, w: Any) -> Tensor:
    """Compute what `cdist` is asked for; `names` are what errors call the points."""
    kind, exponent = _kind(p, metric)
    plain = is_plain(x1, x2)
    if plain and w is None:
        distances = _at_once(x1, x2, kind, exponent)
        if distances is not None:
            return distances
    x1, x2, dtype = _points(plain, names, x1, x2)
    shape, other = x1.shape, x2.shape
    if shape[-1] != other[-1]:
        raise ValueError(
            f"{' and '.join(names)} must have the same number of columns, got shapes "
            f"{tuple(shape)} and {tuple(other)}"
        )
    weights = None if w is None else _weights(w, x1, kind, exponent)
    # What a compiler sees must not depend on numbers of rows.
    if not (plain and shape == other) and shape[:-2] != other[:-2]:
        x1, x2 = _broadcast(names, x1, x2)
    distances = _distances(plain, x1, x2, kind, exponent, weights)
    return distances if distances.dtype is dtype else distances.to(dtype)


def _among(names: Names, x: Tensor, p: Any, metric: str | None, w: Any) -> Tensor:
    """Compute what `pdist` is asked for; `names` has what errors call the points."""
    kind, exponent = _kind(p, metric)
    plain = is_plain(x)
    if plain and w is None:
        distances = _at_once(x, None, kind, exponent)
        if distances is not None:
            return distances
    points, _, dtype = _points(plain, names, x)
    weights = None if w is None else _weights(w, points, kind, exponent)
    return _distances(plain, points, None, kind, exponent, weights).to(dtype)


def _at_once(x1: Tensor, x2: Tensor | None, kind: str, p: float) -> Tensor | None:
    """Return the distances of plain tensors as most calls have them, which the core itself reads.

    All others, wrong ones among them, are for the usual way. So are batches that broadcast, if
    they are recorded: their gradients are sums.
    """
    recorded = _is_recorded(x1, x2)
    if recorded and x2 is not None and not _are_alike(x1.shape, x2.shape):
        return None
    made = _operators.at_once(x1, x2, kind, p)
    if made is None or not recorded:
        return made
    # As a tuple, in which PyTorch does not look for operands.
    result: Tensor = _functions.apply_plain(x1, x2, kind, p, None, (made,))
    return result


def _are_alike(shape: torch.Size, other: torch.Size) -> bool:
    """Tell whether these are batches of one shape."""
    return bool(shape == other or shape[:-2] == other[:-2])


def _is_recorded(x1: Tensor, x2: Tensor | None) -> bool:
    recorded = x1.requires_grad or (x2 is not None and x2.requires_grad)
    return bool(recorded and torch.is_grad_enabled())


def _kind(p: Any, metric: str | None) -> tuple[str, float]:
    """Return what to compute, with its exponent."""
    if isinstance(p, str):
        raise TypeError(f"p must be a real number, got str; a metric is given as metric={p!r}")
    p = _exponent(p)
    if not p >= 0:
        raise ValueError(f"p must be 0 or more, got {p}")
    if metric is None:
        return "minkowski", p
    name = str(metric).lower()
    found = _METRICS.get(name) or _OF_ALIASES.get(name)
    if found is None:
        advice = errors.suggest(name, _METRICS, f"there are {', '.join(_METRICS)}")
        raise ValueError(f"metric {metric!r} is not one that has gradients; {advice}")
    kind, exponent = found
    if exponent is None:
        return kind, p
    if p not in (2.0, exponent):
        raise ValueError(f"p is for metric='minkowski', got p={p} with metric={metric!r}")
    return kind, exponent


def _exponent(p: Any) -> float:
    """Read a number; most are such that a compiler can read on."""
    return float(p) if type(p) in (int, float) else checks.number("p", p)


def _points(plain: bool, names: Names, *given: Any) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return the points in the dtype of the computation, and the dtype of the result."""
    for name, x in zip(names, given, strict=True):
        if not plain:
            _refuse_other(name, x)
        if x.dtype not in _FLOATS:
            raise TypeError(f"{name} must be of floating point, got {x.dtype}")
        if x.ndim < 2:
            raise ValueError(f"{name} must have two dimensions or more, got shape {tuple(x.shape)}")
    first, last = given[0], given[-1]
    # Numbers of devices are read sooner than devices; meta tensors have none.
    if not (plain and first.get_device() == last.get_device()) and first.device != last.device:
        raise TypeError(
            f"{names[0]} is on {first.device} and {names[-1]} on {last.device}; move one of them"
        )
    dtype = first.dtype
    if dtype is last.dtype and dtype not in _HALVES:
        return first, last, dtype
    if _is_any_autocast_enabled():
        kind = first.device.type
        if kind != "meta" and torch.is_autocast_enabled(kind):  # for meta tensors it is an error
            first, last = (x.float() if x.dtype in _HALVES else x for x in (first, last))
    if first.dtype != last.dtype:
        raise TypeError(
            f"{names[0]} is of {first.dtype} and {names[-1]} of {last.dtype}; convert one of them"
        )
    dtype = first.dtype
    if dtype in _HALVES:
        first, last = first.float(), last.float()
    return first, last, dtype


def _refuse_other(name: str, x: Any) -> None:
    """Raise a TypeError for what is no tensor with its elements side by side."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a tensor of PyTorch, got {type(x).__name__}")
    if x.layout is not torch.strided or x.is_nested:
        kind = "nested" if x.is_nested else f"of layout {x.layout}"
        raise TypeError(f"{name} must be a dense tensor, got one that is {kind}")


def _broadcast(names: Names, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the points in batches of one shape, with strides of 0 where one was broadcast."""
    try:
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"the batches of {' and '.join(names)} do not broadcast, got shapes "
            f"{tuple(x1.shape)} and {tuple(x2.shape)}"
        ) from None
    return x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])


def of_recorded(function: str, named: dict[str, Any], metric: Any, given: dict[str, Any]) -> Any:
    """Compute what `gpudist.cdist` or `pdist` was asked for, of tensors that require gradients.

    Parameters
    ----------
    function : {"cdist", "pdist"}
        What was called.
    named : dict
        The operands.
    metric, given : str, dict
        The metric and its arguments.

    Returns
    -------
    torch.Tensor or None
        The distances, in the dtype that those functions give; None if they have no gradients here,
        or not of these operands.
    """
    points = list(named.values())
    if not isinstance(metric, str) or not all(isinstance(x, torch.Tensor) for x in points):
        return None
    name = metrics.resolve(metric, given, function).name
    floats = all(x.dtype in _FLOATS for x in points)
    periodic = given.get("box") is not None
    if name not in _METRICS or periodic or not floats:
        return None
    p, w = _exponent(given.get("p", 2.0)), given.get("w")
    if not p > 0:
        raise ValueError(f"p must be greater than 0, got {p}")
    wide = any(x.dtype == torch.float64 for x in points)
    points = [x.to(torch.float64 if wide else torch.float32) for x in points]
    if function == "cdist":
        return _between(tuple(named), points[0], points[1], p, name, w)
    return _among(tuple(named), points[0], p, name, w)


def _weights(w: Any, x: Tensor, kind: str, p: float) -> Tensor | None:
    if w is None:
        return None
    if kind == "inner_product" or (kind == "minkowski" and p == 0):
        raise ValueError("w is not for 'inner_product', nor for an exponent of 0")
    compiled = torch.compiler.is_compiling()
    # Forward as well, of which the compiler reads nothing.
    learned = getattr(w, "requires_grad", False) or (not compiled and checks.is_recorded(w))
    if isinstance(w, torch.Tensor) and learned:
        raise TypeError("w requires gradients, which gpudist does not compute: give w.detach()")
    if not isinstance(w, torch.Tensor):
        w = w if compiled else np.array(arrays.HOST.array(w, "w"), np.float64)
    elif w.is_complex():
        raise TypeError(f"w must be an array of real numbers, got {w.dtype}")
    weights = torch.as_tensor(w, dtype=x.dtype, device=x.device)
    if weights.shape != x.shape[-1:]:
        raise ValueError(f"w must have shape ({x.shape[-1]},), got {tuple(weights.shape)}")
    # Weights of other distances are looked at by those who compute them.
    if kind == "cosine" and is_plain(weights) and (weights < 0).any():
        raise ValueError("weights must be non-negative, w has negative elements")
    return weights


def _distances(
    plain: bool, x1: Tensor, x2: Tensor | None, kind: str, p: float, weights: Any
) -> Tensor:
    if kind != "cosine":
        return _by_rule(plain, x1, x2, (kind, p, weights))
    # Half the squared distance of rows of length 1.
    u1 = _unit(x1, weights)
    u2 = None if x2 is None else _unit(x2, weights)
    return _by_rule(plain, u1, u2, ("sqeuclidean", 2.0, None)) / 2


def _unit(x: Tensor, weights: Tensor | None) -> Tensor:
    """Return rows of length 1; their largest element is 1 before, so that squares stay in range."""
    if weights is not None:
        x = x * weights.sqrt()
    if x.shape[-1] == 0:
        return x
    x = x / x.detach().abs().amax(-1, keepdim=True)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _by_rule(
    plain: bool, x1: Tensor, x2: Tensor | None, rule: tuple[str, float, Tensor | None]
) -> Tensor:
    """Return the distances of rows of x1 and x2, or of every two rows of x1; batches are equal."""
    if plain:
        distances = _operators.compute(x1, x2, *rule)
        if not _is_recorded(x1, x2):
            return distances
        made: Tensor = _functions.apply_plain(x1, x2, *rule, (distances,))
        return made
    function: Any = _functions.recorded
    if torch.compiler.is_compiling():
        from gpudist.torch import _whole

        function = _whole.distances
    result: Tensor = function(x1, x2, *rule)
    return result
