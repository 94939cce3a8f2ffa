"""How much memory a call takes beside its arguments and its result.

The operating system keeps the most resident memory that a process had, and begins anew when 5 is
written to ``/proc/self/clear_refs`` [1]_. What that is more than what was resident before the call,
less the result where that is new, is what the call itself needed on the host: its copies and
stacks, and what libraries under it took. Pinned buffers stay from one call to the next, and need
not count as resident, so the core counts them. On a CUDA device our allocations come from a pool of
their own, which keeps the most that was taken.

.. [1] https://docs.kernel.org/filesystems/proc.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpudist import _core

_PROC = Path("/proc")


def _told(file: str, field: str) -> int:
    lines = (_PROC / file).read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def available() -> int | None:
    """Give the bytes that the system can hand out without swapping, None where it does not tell."""
    try:
        return _told("meminfo", "MemAvailable")
    except (OSError, ValueError):
        return None


def extra_memory(call: Callable[[], Any], operands: tuple[Any, ...], device: str) -> dict[str, int]:
    """Measure what a call takes; it should have been done before, lest its first time counts.

    The call gives an array on the host; a result that is one of `operands` is not new.

    Returns
    -------
    dict
        ``extra_host_bytes``, ``pinned_bytes`` and, on a CUDA device, ``device_bytes``; nothing
        where the system does not tell.
    """
    try:
        # What the allocator keeps free would hide what the call takes from there.
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)
        (_PROC / "self/clear_refs").write_text("5")
        before = _told("self/status", "VmRSS")
    except (OSError, ValueError):
        return {}
    on_cuda = device != "cpu"
    if on_cuda:
        _core.most_held(device, forget=True)
    result = call()
    known = any(result is operand for operand in operands)
    new = 0 if known else np.asarray(result).nbytes
    extra = max(_told("self/status", "VmHWM") - before - new, 0)
    measured = {"extra_host_bytes": extra, "pinned_bytes": _core.pinned()}
    return measured | ({"device_bytes": _core.most_held(device)} if on_cuda else {})
