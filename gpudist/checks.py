"""Arguments that are no arrays: read, or refused with an error that names them."""

from __future__ import annotations

import math
import operator
import re
import sys
from typing import Any

import numpy as np


def in_forward_mode() -> bool:
    """Tell whether PyTorch is differentiating forward, when tensors may carry tangents."""
    forward = sys.modules.get("torch.autograd.forward_ad")
    return forward is not None and getattr(forward, "_current_level", -1) >= 0


def is_watched() -> bool:
    """Tell whether PyTorch writes down what is run, or differentiates it forward.

    No short way through the core sees that; the usual way does, or refuses.
    """
    return is_traced() or in_forward_mode()


def is_traced() -> bool:
    """Tell whether PyTorch's compiler, or a tracer of its, writes down what is run."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_compiling():  # the compiler reads no further
        return True
    core = torch._C
    return core._is_tracing() or (core._len_torch_dispatch_stack() > 0 and _makes_graph(core))


def _makes_graph(core: Any) -> bool:
    """Tell whether operators make a graph, as in make_fx."""
    return core._get_dispatch_mode(core._TorchDispatchModeKey.PROXY) is not None


def is_recorded(value: Any) -> bool:
    """Tell whether it is a tensor of PyTorch through which gradients are asked for.

    Where PyTorch's grad mode is off, nobody asks for those backward. PyTorch is not imported.
    """
    backward = getattr(value, "requires_grad", False) is True
    if not backward and not in_forward_mode():
        return False
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    if backward and torch.is_grad_enabled():
        return True
    forward = torch.autograd.forward_ad
    return in_forward_mode() and forward.unpack_dual(value).tangent is not None


def is_mapped(value: Any) -> bool:
    """Tell whether it is a tensor that a transform of torch.func wraps, and that has no memory."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(value))


def _refuse_unseen(name: str, value: Any) -> None:
    """Raise a TypeError for a tensor that PyTorch follows where it sees nothing of this call."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or torch.compiler.is_compiling():
        return
    if is_mapped(value):
        if torch._C._functorch.is_batchedtensor(value):
            raise TypeError(
                f"{name} is a tensor that torch.func.vmap maps, which this call does not take: "
                "give the batch itself to cdist or pdist, or call for one matrix after the other"
            )
        raise TypeError(
            f"{name} is a tensor of a transform of torch.func, which this call does not take: give "
            "one from outside of the transform; gpudist.torch.cdist and pdist have gradients"
        )
    if _makes_graph(torch._C):
        raise TypeError(
            f"{name} is a tensor whose operators make a graph, in which this call would be a "
            "constant: gpudist.torch.cdist and pdist are operators"
        )


def refuse_recorded(name: str, value: Any) -> None:
    """Raise a TypeError for such a tensor: to go on would lose its gradients in silence."""
    if is_recorded(value):
        raise TypeError(
            f"{name} is a tensor that requires gradients, which this call does not compute: give "
            f"{name}.detach(), or call within torch.no_grad(); gpudist.torch.cdist and pdist have "
            "gradients"
        )
    _refuse_unseen(name, value)


def number(name: str, value: Any) -> float:
    """Read a real number, whatever type it has; raise a TypeError for all else.

    Raise a ValueError for a whole number that float64 does not reach.
    """
    if type(value) is float:
        return value
    refuse_recorded(name, value)
    try:
        if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
            raise TypeError
        if np.iscomplexobj(value) or np.ma.is_masked(value):  # float() only warns of what it loses
            raise TypeError
        return float(value)
    except MemoryError:
        raise
    except OverflowError:
        raise ValueError(f"{name} is beyond the range of float64") from None
    except Exception:  # what others' types raise when they are asked
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}") from None


def whole(name: str, value: Any) -> int:
    """Read a whole number of any integer type; raise a TypeError for all else."""
    try:
        return operator.index(value)
    except Exception:
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}") from None


def rows(value: Any, count: int) -> tuple[int, int]:
    """Return where a slice of `count` rows begins and ends, which must go in steps of 1."""
    if not isinstance(value, slice):
        raise TypeError(f"rows must be a slice, got {type(value).__name__}")
    try:
        start, stop, step = value.indices(count)
    except ValueError:
        raise ValueError("rows must go in steps of 1, got 0") from None
    except Exception:
        raise TypeError(f"rows must be a slice of whole numbers, got {value!r}") from None
    if step != 1:
        raise ValueError(f"rows must go in steps of 1, got {step}")
    return start, max(start, stop)


def truth(name: str, value: Any) -> bool:
    """Read a truth, as `bool` does; raise a TypeError for what is neither true nor false.

    Such are None and texts, "no" for example, though Python takes them for one or the other.
    """
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    try:
        return bool(value)
    except Exception:
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}") from None


def text(name: str, value: Any) -> str:
    """Return a string; raise a TypeError for all else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    return value


# Bytes by unit, in lower case: as people write sizes, k and K are the same.
_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{letter}{infix}b": base**power
    for infix, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt", 1)
}


def size(name: str, value: Any) -> int:
    """Read a number of bytes: a whole number of any type, or a text such as "500 MB" or "1.5GiB".

    Raise a TypeError or a ValueError for all else.
    """
    if isinstance(value, str):
        found = re.fullmatch(
            r"\s*([0-9]{1,30}(?:\.[0-9]{0,30})?)\s*([a-z]*)\s*", value.lower(), re.A
        )
        if found is None or found[2] not in _UNITS:
            raise ValueError(
                f"{name} must be a number of bytes with a unit of B, kB, MB, GB, TB, KiB, MiB, GiB "
                f'or TiB, as in "500 MB", got {value!r}'
            )
        from fractions import Fraction  # which is slow to import, and as exact as decimal digits

        return round(Fraction(found[1]) * _UNITS[found[2]])
    if isinstance(value, float) and math.isfinite(value) and value == int(value):  # as 1e9 is
        return int(value)
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number of bytes, got {value}")
    try:
        return int(operator.index(value))
    except Exception:
        raise TypeError(
            f'{name} must be a whole number of bytes or a text such as "1GB", got '
            f"{type(value).__name__}"
        ) from None


def max_memory(value: Any) -> int | None:
    """Read how many bytes a call may hold: None, or what `size` reads and is positive."""
    if value is None:
        return None
    most = size("max_memory", value)
    if most <= 0:
        raise ValueError(f"max_memory must be a positive number of bytes, got {value!r}")
    return min(most, sys.maxsize)  # more than any machine has


def device(name: str, value: Any) -> str | None:
    """Read where to compute: None, or a text such as "cuda:1", or another library's device.

    Raise a TypeError for what names no device; a wrong text is for others to refuse.
    """
    if value is None or isinstance(value, str):
        return value
    try:
        where = f"cuda:{int(value.id)}" if type(value).__module__.startswith("cupy") else str(value)
    except Exception:
        where = ""
    found = re.fullmatch(r"cpu(:0)?|cuda(:[0-9]+)?", where, re.A)
    if found is None:
        hint = f"; for a GPU write 'cuda:{value}'" if type(value) is int and value >= 0 else ""
        raise TypeError(f"{name} must be a string, got {type(value).__name__}{hint}")
    return where.removesuffix(":0") if where.startswith("cpu") else where
