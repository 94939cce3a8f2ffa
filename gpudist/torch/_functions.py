"""Distances as functions that PyTorch can differentiate, twice and forward, and map.

`recorded` calls an operator; its derivatives are `_pull` and `_push`, and theirs are `_curve` and
these two again. The distances that go along with points, in order not to be computed again, are not
differentiated: each derivative given here is that of all that depends on the points.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpudist import checks
from gpudist.torch import _operators
from gpudist.torch._plain import is_plain

_NO_THIRD = (
    "distances have no third derivatives here; torch.autograd.functional.hvp asks for one on its "
    "way, while its vhp, and torch.func.jvp of torch.func.grad, do not"
)


def recorded(x1: Tensor, x2: Tensor | None, kind: str, p: float, weights: Tensor | None) -> Any:
    """Return distances that PyTorch differentiates and maps, whichever way it does."""
    return _Distances.apply(x1, x2, kind, p, weights)


def _pull(g: Tensor, x1: Tensor, x2: Tensor | None, d: Tensor, rule: Any) -> Any:
    function = _Pull.apply if _is_followed() else partial(_below, _operators.pull)
    return function(g, x1, x2, d, *rule)


def _push(x1: Tensor, x2: Tensor | None, d: Tensor, t1: Any, t2: Any, rule: Any) -> Any:
    return None if t1 is None and t2 is None else _Push.apply(x1, x2, d, t1, t2, *rule)


def _curve(g: Tensor, x1: Tensor, x2: Tensor | None, d: Tensor, v1: Any, v2: Any, rule: Any) -> Any:
    return None if v1 is None and v2 is None else _Curve.apply(g, x1, x2, d, v1, v2, *rule)


def _sum(*parts: Any) -> Any:
    given = [part for part in parts if part is not None]
    return sum(given[1:], given[0]) if given else None


def _is_followed() -> bool:
    """Tell whether what is computed may be differentiated or mapped: a plain backward() is not."""
    return (
        torch.is_grad_enabled()
        or checks.in_forward_mode()
        or torch._C._are_functorch_transforms_active()
    )


def _below(operator: Any, *arguments: Any) -> Any:
    """Call an operator below what differentiates it, as a function that PyTorch differentiates."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def _mapped(function: Any, info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    """Call with the mapped dimension as the first of the batch, of stride 0 where it is not."""
    *operands, kind, p, weights = arguments
    if in_dims[-1] is not None:
        raise ValueError("w must be the same for all that is mapped")
    moved: list[Any] = []
    for x, dim in zip(operands, in_dims, strict=False):
        if x is None:
            moved.append(None)
        elif dim is None:
            moved.append(x.expand(info.batch_size, *x.shape))
        else:
            moved.append(x.movedim(dim, 0))
    return function.apply(*moved, kind, p, weights), 0


class _Distances(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(x1: Any, x2: Any, kind: str, p: float, weights: Any) -> Any:
        return _below(_operators.distances, x1, x2, kind, p, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x1, x2, kind, p, weights = inputs
        ctx.save_for_backward(x1, x2, output, weights)
        if hasattr(ctx, "save_for_forward"):
            ctx.save_for_forward(x1, x2, output, weights)
        ctx.rule = kind, p

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x1, x2, d, weights = ctx.saved_tensors
        rule = *ctx.rule, weights
        if x2 is not None and all(ctx.needs_input_grad[:2]) and not _is_followed():
            g1, g2 = _below(_operators.pull_both, g, x1, x2, d, *rule)
            return g1, g2, None, None, None
        g1 = _pull(g, x1, x2, d, rule) if ctx.needs_input_grad[0] else None
        g2 = None
        if x2 is not None and ctx.needs_input_grad[1]:
            g2 = _pull(g.mT, x2, x1, d.mT, rule)
        return g1, g2, None, None, None

    @staticmethod
    def jvp(ctx: Any, t1: Any, t2: Any, *rest: Any) -> Any:
        x1, x2, d, weights = ctx.saved_tensors
        return _push(x1, x2, d, t1, t2, (*ctx.rule, weights))

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _mapped(_Distances, info, in_dims, *arguments)


class _Plain(torch.autograd.Function):  # type: ignore[misc]
    """Distances of plain tensors, which were computed before: they are in `made`.

    PyTorch neither maps it nor differentiates it forward.
    """

    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, kind: str, p: float, weights: Any, made: Any) -> Any:
        (d,) = made
        ctx.save_for_backward(x1, x2, d, weights)
        ctx.rule = kind, p
        return d

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if torch.is_grad_enabled() or not is_plain(g):
            return *_Distances.backward(ctx, g), None
        x1, x2, d, weights = ctx.saved_tensors
        rule = *ctx.rule, weights
        needs_1, needs_2 = ctx.needs_input_grad[:2]
        g1 = g2 = None
        if needs_1 and needs_2:
            g1, g2 = _operators.compute_both(g, x1, x2, d, *rule)
        elif needs_1:
            g1 = _operators.compute_pull(g, x1, x2, d, *rule)
        elif needs_2:
            g2 = _operators.compute_pull(g.mT, x2, x1, d.mT, *rule)
        return g1, g2, None, None, None, None


def apply_plain(*arguments: Any) -> Any:
    """Call PyTorch's own `apply`, without what it does before for transforms: there are none.

    It is looked up at each call, as the pages of the site are made with a stand-in for PyTorch.
    """
    return super(torch.autograd.Function, _Plain).apply(*arguments)


class _Pull(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(g: Any, x1: Any, x2: Any, d: Any, kind: str, p: float, weights: Any) -> Any:
        return _below(_operators.pull, g, x1, x2, d, kind, p, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        g, x1, x2, d, kind, p, weights = inputs
        ctx.save_for_backward(g, x1, x2, d, weights)
        if hasattr(ctx, "save_for_forward"):
            ctx.save_for_forward(g, x1, x2, d, weights)
        ctx.rule = kind, p

    @staticmethod
    def backward(ctx: Any, v: Any) -> Any:
        g, x1, x2, d, weights = ctx.saved_tensors
        rule = *ctx.rule, weights
        needs_g, needs_1, needs_2 = ctx.needs_input_grad[:3]
        back = _push(x1, x2, d, v, None, rule) if needs_g else None
        g1 = _curve(g, x1, x2, d, v, None, rule) if needs_1 else None
        g2 = None
        if x2 is not None and needs_2:
            g2 = _curve(g.mT, x2, x1, d.mT, None, v, rule)
        return back, g1, g2, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, changed: Any, t1: Any, t2: Any, *rest: Any) -> Any:
        g, x1, x2, d, weights = ctx.saved_tensors
        rule = *ctx.rule, weights
        first = None if changed is None else _pull(changed, x1, x2, d, rule)
        return _sum(first, _curve(g, x1, x2, d, t1, t2, rule))

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _mapped(_Pull, info, in_dims, *arguments)


class _Push(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        x1: Any, x2: Any, d: Any, t1: Any, t2: Any, kind: str, p: float, weights: Any
    ) -> Any:
        return _below(_operators.push, x1, x2, d, t1, t2, kind, p, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x1, x2, d, t1, t2, kind, p, weights = inputs
        ctx.save_for_backward(x1, x2, d, t1, t2, weights)
        ctx.rule = kind, p

    @staticmethod
    def backward(ctx: Any, c: Any) -> Any:
        x1, x2, d, t1, t2, weights = ctx.saved_tensors
        rule = *ctx.rule, weights
        needs_1, needs_2, _, needs_t1, needs_t2 = ctx.needs_input_grad[:5]
        g1 = g2 = gt1 = gt2 = None
        if needs_1:
            g1 = _curve(c, x1, x2, d, t1, t2, rule)
        if needs_t1:
            gt1 = _pull(c, x1, x2, d, rule)
        if needs_2:
            g2 = _curve(c.mT, x2, x1, d.mT, t2, t1, rule)
        if needs_t2:
            gt2 = _pull(c.mT, x2, x1, d.mT, rule)
        return g1, g2, None, gt1, gt2, None, None, None

    @staticmethod
    def jvp(ctx: Any, *changes: Any) -> Any:
        raise NotImplementedError(
            "distances have no second derivative forward over forward; take it forward over "
            "backward, as torch.func.hessian does"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _mapped(_Push, info, in_dims, *arguments)


class _Curve(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        g: Any, x1: Any, x2: Any, d: Any, v1: Any, v2: Any, kind: str, p: float, weights: Any
    ) -> Any:
        return _below(_operators.curve, g, x1, x2, d, v1, v2, kind, p, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        raise NotImplementedError(_NO_THIRD)

    @staticmethod
    def jvp(ctx: Any, *changes: Any) -> Any:
        raise NotImplementedError(_NO_THIRD)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _mapped(_Curve, info, in_dims, *arguments)


_function: Any
for _name, _function in (
    ("distances", _Distances),
    ("pull", _Pull),
    ("push", _Push),
    ("curve", _Curve),
):
    # PyTorch binds the arguments at each call, and makes the signature anew unless it is written.
    _function.forward.__signature__ = inspect.signature(_function.forward)
    # An exported program calls the operators themselves.
    torch.library.register_autograd(
        f"gpudist::{_name}",
        _function.backward,
        setup_context=_function.setup_context,
        lib=_operators.LIBRARY,
    )
