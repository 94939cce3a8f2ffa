"""Whether PyTorch's tensors are no more than memory, so that a call need not be seen by it."""

from __future__ import annotations

from functools import cache
from typing import Any

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


def is_plain(*points: Any) -> bool:
    """Tell whether all are tensors that are no more than memory, and PyTorch at most records.

    All else (compilers, tracers, transforms, modes, subclasses) has to see operators and functions,
    which takes longer than a small call.
    """
    if (
        torch.compiler.is_compiling()  # first, for the compiler reads no further
        or _are_functorch_transforms_active()
        or _len_torch_dispatch_stack() > 0
        or _len_torch_function_stack() > 0
        or _get_tracing_state() is not None
        or checks.in_forward_mode()
    ):
        return False
    for x in points:
        if type(x) not in _TENSORS:
            return False
        keys = _dispatch_keys(x).raw_repr()
        if keys not in _KEYS_OF_MEMORY and keys not in _keys_of(x.device.type):
            return False
    return True


# Sets of keys, as numbers, of tensors that are no more than memory.
_KEYS_OF_MEMORY: set[int] = set()


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
