"""Whether CUDA can be used, and on what."""

from __future__ import annotations

from dataclasses import dataclass

from gpudist import _core


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA device.

    Attributes
    ----------
    index : int
        N in "cuda:N".
    name : str
        What the vendor calls it.
    compute_capability : str
        For example "9.0".
    memory_bytes, l2_bytes : int
        The sizes of its memory and its L2 cache.
    multiprocessors : int
        Their number.
    """

    index: int
    name: str
    compute_capability: str
    memory_bytes: int
    l2_bytes: int
    multiprocessors: int


def is_available() -> bool:
    """Return whether CUDA kernels can run here. Creates no CUDA context."""
    return why_not() is None


def why_not() -> str | None:
    """Return why CUDA cannot be used, or None if it can.

    Returns
    -------
    str or None
        The first that holds: this build has no CUDA kernels; no driver library; a driver too old
        for this build, with both versions; a runtime that could not start, as in a process that was
        forked from one that uses CUDA; no device; every device hidden.
    """
    return _core.cuda()["why_not"]


def devices() -> tuple[Device, ...]:
    """Return the CUDA devices, in the order of their indices."""
    return tuple(Device(**device) for device in _core.cuda()["devices"])


def versions() -> tuple[str, str]:
    """Return the CUDA versions that the driver supports and that gpudist was built with.

    Returns
    -------
    driver, runtime : str
        For example ("13.0", "13.0"); "none" where there is none.
    """
    state = _core.cuda()
    driver, runtime = (
        f"{v // 1000}.{v % 1000 // 10}" if v else "none"
        for v in (state["driver"], state["runtime"])
    )
    return driver, runtime
