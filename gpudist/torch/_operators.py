"""The operators that PyTorch's compiler sees: distances and what their derivatives are made of.

They are opaque: a fake tensor tells the shape. Derivatives are those of the functions in
`gpudist.torch._functions`, which can also be mapped and differentiated forward. All operands of a
call have the same batch dimensions; broadcasting comes before.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import gpudist
from gpudist import _core
from gpudist.torch import _terms

_RULE = "str kind, float p, Tensor? weights"
# What the compiled core has gradients of, on the host.
_IN_THE_CORE = frozenset({"cityblock", "euclidean", "chebyshev", "sqeuclidean", "inner_product"})
LIBRARY = torch.library.Library("gpudist", "DEF")


def _metric(kind: str, p: float) -> tuple[str, dict[str, Any]]:
    """Return what `gpudist.cdist` calls it, and its arguments."""
    if kind != "minkowski":
        return kind, {}
    special = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}.get(p)
    return (special, {}) if special is not None else ("minkowski", {"p": p})


def _distances(
    x1: Tensor, x2: Tensor | None, kind: str, p: float, weights: Tensor | None
) -> Tensor:
    operands = [x.detach() for x in (x1, x2) if x is not None]
    if kind == "minkowski" and p == 0:
        return _counts(operands)
    metric, arguments = _metric(kind, p)
    if x1.device.type == "cpu" and weights is None and 0 not in x1.shape:
        return _distances_in_the_core(operands, metric, arguments)
    given = {} if weights is None else {"w": weights.detach()}
    return _computed(operands, metric, **arguments, **given)


def _distances_in_the_core(
    operands: list[Tensor], metric: str, arguments: dict[str, Any]
) -> Tensor:
    """Compute without reading the arguments once more, which takes longer than small results."""
    out = operands[0].new_empty(_shape_of_distances(*operands))
    if 0 in out.shape:
        return out
    points = [_in_rows(x).numpy() for x in operands]
    second = points[1] if len(points) == 2 else None
    _core.cdist_batch(points[0], second, out.numpy(), metric, **arguments)
    return out


def _computed(operands: list[Tensor], metric: str, **arguments: Any) -> Tensor:
    """Compute by the functions for arrays of any library; on the host, by those of NumPy.

    A tensor of PyTorch's on the host would be asked whether it has a tangent, which there is none
    of below the functions that PyTorch differentiates.
    """
    compute: Any = gpudist.cdist if len(operands) == 2 else gpudist.pdist
    if operands[0].device.type != "cpu":
        result: Tensor = compute(*operands, metric, **arguments)
        return result
    w = arguments.pop("w", None)
    given = arguments if w is None else {**arguments, "w": w.numpy()}
    return torch.from_numpy(compute(*(x.numpy() for x in operands), metric, **given))


def _counts(operands: list[Tensor]) -> Tensor:
    """Return the numbers of columns that differ."""
    columns = operands[0].shape[-1]
    if columns == 0:
        return _computed(operands, "cityblock")
    return _computed(operands, "hamming").mul_(columns).round_()


def _rule(kind: str, p: float, weights: Tensor | None) -> _terms.Rule:
    return _terms.Rule(kind, p, None if weights is None else weights.detach())


def _pull(
    g: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    kind: str,
    p: float,
    weights: Tensor | None,
) -> Tensor:
    rule = _rule(kind, p, weights)
    metric = _metric(kind, p)[0]
    there = 0 not in x1.shape and (x2 is None or 0 not in x2.shape)
    if x1.device.type == "cpu" and _is_in_the_core(metric, p, x1.dtype) and there:
        return _pull_in_the_core(g, x1, x2, d, metric, rule)
    with torch.no_grad():
        return _terms.pull(g, x1, x2, d, rule)


def _is_in_the_core(metric: str, p: float, dtype: torch.dtype) -> bool:
    """Tell whether the core has the gradient, and is not slower.

    Its other powers are in doubles, which PyTorch's of float32 are quicker than.
    """
    if metric == "minkowski":
        return p > 0 and (dtype == torch.float64 or p in range(3, 9))
    return metric in _IN_THE_CORE


def _pull_in_the_core(
    g: Tensor, x1: Tensor, x2: Tensor | None, d: Tensor, metric: str, rule: _terms.Rule
) -> Tensor:
    out = torch.empty_like(x1, memory_format=torch.contiguous_format)
    points = [None if x is None else _in_rows(x.detach()) for x in (x1, x2)]
    a, b = (None if x is None else x.numpy() for x in points)
    _core.gradient(g.detach().numpy(), a, b, d.detach().numpy(), out.numpy(), metric, p=rule.p)
    if rule.weights is None:
        return out
    # Each term of a column has its weight as a factor; for the largest difference it is a mask.
    return out.mul_(rule.weights > 0 if metric == "chebyshev" else rule.weights)


def _in_rows(x: Tensor) -> Tensor:
    """Return points whose rows are dense, in ascending order: themselves, or a copy."""
    columns = x.shape[-1]
    dense = (columns == 1 or x.stride(-1) == 1) and (x.shape[-2] == 1 or x.stride(-2) >= columns)
    return x if dense else x.contiguous()


def _push(
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    t1: Tensor | None,
    t2: Tensor | None,
    kind: str,
    p: float,
    weights: Tensor | None,
) -> Tensor:
    with torch.no_grad():
        return _terms.push(x1, x2, d, t1, t2, _rule(kind, p, weights))


def _curve(
    g: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    v1: Tensor | None,
    v2: Tensor | None,
    kind: str,
    p: float,
    weights: Tensor | None,
) -> Tensor:
    with torch.no_grad():
        return _terms.curve(g, x1, x2, d, v1, v2, _rule(kind, p, weights))


def _shape_of_distances(x1: Tensor, x2: Tensor | None = None) -> tuple[int, ...]:
    n = x1.shape[-2]
    if x2 is not None:
        return (*x1.shape[:-1], x2.shape[-2])
    return (*x1.shape[:-2], n * (n - 1) // 2)


def _fake_distances(x1: Tensor, x2: Tensor | None, *rule: object) -> Tensor:
    return x1.new_empty(_shape_of_distances(x1, x2))


def _like_points(g: Tensor, x1: Tensor, *rest: object) -> Tensor:
    return x1.new_empty(x1.shape)


def _like_distances(x1: Tensor, x2: Tensor | None, d: Tensor, *rest: object) -> Tensor:
    return d.new_empty(d.shape)


for _name, _operands, _compute, _fake in (
    ("distances", "Tensor x1, Tensor? x2", _distances, _fake_distances),
    ("pull", "Tensor g, Tensor x1, Tensor? x2, Tensor d", _pull, _like_points),
    ("push", "Tensor x1, Tensor? x2, Tensor d, Tensor? t1, Tensor? t2", _push, _like_distances),
    (
        "curve",
        "Tensor g, Tensor x1, Tensor? x2, Tensor d, Tensor? v1, Tensor? v2",
        _curve,
        _like_points,
    ),
):
    LIBRARY.define(f"{_name}({_operands}, {_RULE}) -> Tensor")
    LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gpudist::{_name}", _fake, lib=LIBRARY)

distances = torch.ops.gpudist.distances.default
pull = torch.ops.gpudist.pull.default
push = torch.ops.gpudist.push.default
curve = torch.ops.gpudist.curve.default
