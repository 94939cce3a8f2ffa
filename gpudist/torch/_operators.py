"""The operators that PyTorch's compiler sees: distances and what their derivatives are made of.

They are opaque: a fake tensor tells the shape. Derivatives are those of the functions in
`gpudist.torch._functions`, which can also be mapped and differentiated forward. All operands of a
call have the same batch dimensions; broadcasting comes before.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

import gpudist
from gpudist import _core
from gpudist.torch import _terms

_RULE = "str kind, float p, Tensor? weights"
# What the compiled core has gradients of.
_IN_THE_CORE = frozenset({"cityblock", "euclidean", "chebyshev", "sqeuclidean", "inner_product"})
# Whether it reads tensors without help.
_HAS_TABLE = hasattr(Tensor, "__dlpack_c_exchange_api__")
_DENSE = torch.contiguous_format
LIBRARY = torch.library.Library("gpudist", "DEF")


# What `gpudist.cdist` calls distances of these exponents.
_OF_EXPONENTS = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}


def _metric(kind: str, p: float) -> str:
    """Return what `gpudist.cdist` calls it; minkowski takes its exponent."""
    return kind if kind != "minkowski" else _OF_EXPONENTS.get(p, kind)


def compute(x1: Tensor, x2: Tensor | None, kind: str, p: float, weights: Tensor | None) -> Tensor:
    """Compute distances of tensors that are no more than their memory."""
    if kind == "minkowski" and p == 0:
        return _counts(x1, x2)
    metric = _metric(kind, p)
    if weights is None and (x1.is_cpu or x1.is_cuda) and 0 not in x1.shape:
        return _distances_in_the_core(x1, x2, metric, p)
    given: dict[str, Any] = {} if weights is None else {"w": weights.detach()}
    if metric == "minkowski":
        given["p"] = p
    return _computed(x1, x2, metric, **given)


def at_once(x1: Tensor, x2: Tensor | None, kind: str, p: float) -> Tensor | None:
    """Compute distances of plain tensors that the core reads and allocates itself, or none.

    It checks that they fit each other, and broadcasts their batches.
    """
    if kind == "cosine" or (kind == "minkowski" and p == 0):
        return None
    # The core reads tensors of PyTorch's own type alone.
    x1 = x1 if type(x1) is Tensor else x1.detach()
    metric = _metric(kind, p)
    given = {"p": p} if metric == "minkowski" else None
    if x2 is None:
        pairs: Tensor | None = _core.pdist_tensors(x1, metric, None, given, True)
        return pairs
    x2 = x2 if type(x2) is Tensor else x2.detach()
    distances: Tensor | None = _core.cdist_tensors(x1, x2, metric, None, given, True)
    return distances


def _distances_in_the_core(x1: Tensor, x2: Tensor | None, metric: str, p: float) -> Tensor:
    """Compute without reading the arguments once more, which takes longer than small results."""
    shape = _shape_of_distances(x1, x2)
    out = x1.new_empty(*shape)  # which reads them sooner than a tuple
    if 0 in shape:
        return out
    if x1.is_cpu:
        x1, x2 = _in_rows(x1), None if x2 is None else _in_rows(x2)
    if _HAS_TABLE and type(x1) is Tensor and (x2 is None or type(x2) is Tensor):
        _core.cdist_batch(x1, x2, out, metric, p=p)
        return out
    b = None if x2 is None else _for_core(x2)
    _core.cdist_batch(_for_core(x1), b, _for_core(out), metric, stream=_stream(out), p=p)
    return out


def _for_core(x: Tensor) -> Any:
    """Return what the core reads the tensor from, which the caller keeps.

    It reads the memory, and does not ask whether PyTorch records what is done with it.
    """
    if _HAS_TABLE:
        if type(x) is Tensor:
            return x
        if type(x) is torch.nn.Parameter:
            return x.detach()
    if x.is_cpu:
        return x.detach().numpy()
    dtype = str(x.dtype).removeprefix("torch.")
    return x.data_ptr(), tuple(x.shape), x.stride(), 1, dtype, x.get_device()


def _stream(x: Tensor) -> int:
    """Return the caller's stream; 0 where the core finds it out by itself, as it reads tensors."""
    if _HAS_TABLE or x.is_cpu:
        return 0
    return int(torch.cuda.current_stream(x.device).cuda_stream)


@cache
def _has_kernels(index: int) -> bool:
    """Tell whether the core's gradients run on that CUDA device."""
    return bool(torch.cuda.get_device_capability(index) >= (8, 0))


def _computed(x1: Tensor, x2: Tensor | None, metric: str, **arguments: Any) -> Tensor:
    """Compute by the functions for arrays of any library; on the host, by those of NumPy.

    A tensor of PyTorch's on the host would be asked whether it has a tangent, which there is none
    of below the functions that PyTorch differentiates.
    """
    operands = [x.detach() for x in (x1, x2) if x is not None]
    compute: Any = gpudist.cdist if len(operands) == 2 else gpudist.pdist
    if not x1.is_cpu:
        result: Tensor = compute(*operands, metric, **arguments)
        return result
    w = arguments.pop("w", None)
    given = arguments if w is None else {**arguments, "w": w.numpy()}
    return torch.from_numpy(compute(*(x.numpy() for x in operands), metric, **given))


def _counts(x1: Tensor, x2: Tensor | None) -> Tensor:
    """Return the numbers of columns that differ."""
    columns = x1.shape[-1]
    if columns == 0:
        return _computed(x1, x2, "cityblock")
    return _computed(x1, x2, "hamming").mul_(columns).round_()


def _rule(kind: str, p: float, weights: Tensor | None) -> _terms.Rule:
    return _terms.Rule(kind, p, None if weights is None else weights.detach())


def compute_pull(
    g: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    kind: str,
    p: float,
    weights: Tensor | None,
) -> Tensor:
    """Compute the gradient for the first operand of tensors that are no more than their memory."""
    metric = _metric(kind, p)
    if not _is_in_the_core(x1, x2, metric, p):
        with torch.no_grad():
            return _terms.pull(g, x1, x2, d, _rule(kind, p, weights))
    out = _dense_like(x1)
    _core.gradient(
        _for_core(g),
        _for_core(_in_rows(x1)),
        None if x2 is None else _for_core(_in_rows(x2)),
        _for_core(d),
        _for_core(out),
        metric,
        p=p,
        stream=_stream(out),
    )
    if weights is not None:
        _weigh(out, metric, weights)
    return out


def compute_both(
    g: Tensor, x1: Tensor, x2: Tensor, d: Tensor, kind: str, p: float, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the gradients for both operands, likewise."""
    metric = _metric(kind, p)
    if not _is_in_the_core(x1, x2, metric, p):
        rule = _rule(kind, p, weights)
        with torch.no_grad():
            return _terms.pull(g, x1, x2, d, rule), _terms.pull(g.mT, x2, x1, d.mT, rule)
    made = _dense_like(x1), _dense_like(x2)
    x1, x2 = _in_rows(x1), _in_rows(x2)
    if _HAS_TABLE and type(g) is type(x1) is type(x2) is type(d) is Tensor:
        _core.gradient(g, x1, x2, d, made[0], metric, p=p, out_b=made[1])
    else:
        asked, a, b, away, out, out_b = map(_for_core, (g, x1, x2, d, *made))
        stream = _stream(made[0])
        _core.gradient(asked, a, b, away, out, metric, p=p, stream=stream, out_b=out_b)
    if weights is not None:
        for out in made:
            _weigh(out, metric, weights)
    return made


def _weigh(out: Tensor, metric: str, weights: Tensor) -> None:
    """Multiply: each term of a column has its weight as a factor; a largest difference a mask."""
    weights = weights.detach()
    _terms.times_weights(out, weights > 0 if metric == "chebyshev" else weights)


def _is_in_the_core(x1: Tensor, x2: Tensor | None, metric: str, p: float) -> bool:
    """Tell whether the core has the gradient, and is not slower.

    On the host its other powers are in doubles, which PyTorch's of float32 are quicker than.
    """
    if x1.numel() == 0 or (x2 is not None and x2.numel() == 0):
        return False
    if not x1.is_cpu and not (x1.is_cuda and _has_kernels(x1.get_device())):
        return False
    if metric == "minkowski":
        return p > 0 and (x1.is_cuda or x1.dtype == torch.float64 or p in range(3, 9))
    return metric in _IN_THE_CORE


def _dense_like(x: Tensor) -> Tensor:
    """Return a new tensor of its shape; to name a format takes longer than to allocate."""
    if x.is_contiguous():
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=_DENSE)


def _in_rows(x: Tensor) -> Tensor:
    """Return points whose rows are dense, in ascending order: themselves, or a copy."""
    if x.is_contiguous():
        return x
    columns = x.shape[-1]
    dense = (columns == 1 or x.stride(-1) == 1) and (x.shape[-2] == 1 or x.stride(-2) >= columns)
    return x if dense else x.detach().contiguous()


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
    *lead, n, _ = x1.shape
    return (*lead, n, x2.shape[-2]) if x2 is not None else (*lead, n * (n - 1) // 2)


def _fake_distances(x1: Tensor, x2: Tensor | None, *rule: object) -> Tensor:
    return x1.new_empty(_shape_of_distances(x1, x2))


def _like_points(g: Tensor, x1: Tensor, *rest: object) -> Tensor:
    return x1.new_empty(x1.shape)


def _like_both(g: Tensor, x1: Tensor, x2: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    return x1.new_empty(x1.shape), x2.new_empty(x2.shape)


def _like_distances(x1: Tensor, x2: Tensor | None, d: Tensor, *rest: object) -> Tensor:
    return d.new_empty(d.shape)


for _name, _operands, _compute, _fake in (
    ("distances", "Tensor x1, Tensor? x2", compute, _fake_distances),
    ("pull", "Tensor g, Tensor x1, Tensor? x2, Tensor d", compute_pull, _like_points),
    ("pull_both", "Tensor g, Tensor x1, Tensor x2, Tensor d", compute_both, _like_both),
    ("push", "Tensor x1, Tensor? x2, Tensor d, Tensor? t1, Tensor? t2", _push, _like_distances),
    (
        "curve",
        "Tensor g, Tensor x1, Tensor? x2, Tensor d, Tensor? v1, Tensor? v2",
        _curve,
        _like_points,
    ),
):
    _results = "(Tensor, Tensor)" if _name == "pull_both" else "Tensor"
    LIBRARY.define(f"{_name}({_operands}, {_RULE}) -> {_results}")
    LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gpudist::{_name}", _fake, lib=LIBRARY)

distances = torch.ops.gpudist.distances.default
pull = torch.ops.gpudist.pull.default
pull_both = torch.ops.gpudist.pull_both.default
push = torch.ops.gpudist.push.default
curve = torch.ops.gpudist.curve.default
