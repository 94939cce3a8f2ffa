"""Whether PyTorch's tensors are no more than memory, so that a call need not be seen by it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch._C import (
    _are_functorch_transforms_active,
    _dispatch_keys,
    _get_tracing_state,
    _len_torch_dispatch_stack,
    _len_torch_function_stack,
)

from gpudist import checks

_TENSORS = (Tensor, torch.nn.Parameter)


def is_plain(*points: Tensor | None) -> bool:
    """Tell whether PyTorch does no more here than to record a call, and its tensors are memory.

    All else (compilers, tracers, transforms, modes, subclasses) has to see operators and functions,
    which takes longer than a small call.
    """
    return (
        not torch.compiler.is_compiling()  # first, for the compiler reads no further
        and not _are_functorch_transforms_active()
        and _len_torch_dispatch_stack() == 0
        and _len_torch_function_stack() == 0
        and _get_tracing_state() is None
        and not checks.in_forward_mode()
        and all([x is None or _is_memory(x) for x in points])
    )


# Sets of keys, as numbers, of tensors that are no more than memory.
_KEYS_OF_MEMORY: set[int] = set()


def _is_memory(x: Tensor) -> bool:
    keys = _dispatch_keys(x).raw_repr()
    return type(x) in _TENSORS and (keys in _KEYS_OF_MEMORY or keys in _keys_of(x.device.type))


@cache
def _keys_of(device: str) -> frozenset[int]:
    """Return the sets of keys of such tensors on a device, and note them."""
    if device not in ("cpu", "cuda"):
        return frozenset()
    with torch.inference_mode():
        inference = torch.empty(0, device=device)
    tensors = torch.empty(0, device=device), inference
    found = frozenset(_dispatch_keys(x).raw_repr() for x in tensors)
    _KEYS_OF_MEMORY.update(found)
    return found
