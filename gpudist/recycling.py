"""Memory of results: on huge pages, and that of freed ones kept for the next.

What a large fresh result costs is mostly the kernel of the operating system, which clears its
pages, one fault for each. Huge ones take a third of the time. Memory that was a result of ours
before needs no clearing.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from typing import Any

import numpy as np

from gpudist import checks

# Smaller results are cheap to allocate afresh.
_WORTHWHILE = 1 << 22
_HUGE_PAGE = 1 << 21
# Larger results are to lie on huge pages. NumPy asks for them where there are 4 MB.
SMALL = 1 << 20

# A collection may run a finalizer in the midst of ours: the same thread may enter twice.
_lock = threading.RLock()
_limit = 0
_free: list[mmap.mmap] = []


def recycle_results(max_bytes: int | str) -> None:
    """Keep the memory of freed results for later results, off by default.

    A new result on the host costs more than the way over the bus when its pages are fresh: the
    operating system clears them first. With this, memory of results that are no longer used is
    kept, at most `max_bytes` of it, and given to the next results of at least 4 MB that fit.

    Parameters
    ----------
    max_bytes : int or str
        How much unused memory may be kept, in bytes or as in "1 GB". 0 keeps none, and gives back
        what was kept.

    Raises
    ------
    TypeError
        `max_bytes` is no whole number, and no text.
    ValueError
        `max_bytes` is negative, or a text of another form.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.recycle_results(2**30)
    >>> d = gpudist.cdist([[0.0]] * 1000, [[1.0]] * 1000)
    >>> gpudist.recycle_results(0)
    """
    global _limit
    max_bytes = checks.size("max_bytes", max_bytes)
    if max_bytes < 0:
        raise ValueError(f"max_bytes must not be negative, got {max_bytes}")
    with _lock:
        _limit = max_bytes
        _shrink()


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array, of recycled memory where there is some that fits."""
    count = 1
    for length in shape:
        count *= length
    bytes_wanted = count * np.dtype(dtype).itemsize
    start = 0
    if SMALL < bytes_wanted < _WORTHWHILE:
        # 4 MB or 6, so that NumPy asks; what is beside the result is never touched, nor there.
        owner = np.empty(_in_huge_pages(bytes_wanted) + _HUGE_PAGE, np.uint8)
        start = -owner.__array_interface__["data"][0] % _HUGE_PAGE
    elif _limit == 0 or bytes_wanted <= SMALL:
        return np.empty(shape, dtype)
    else:
        block = _take(bytes_wanted)
        owner = np.frombuffer(block, np.uint8)
        # Every view of the result holds on to `owner`, whose end is the end of the last of them.
        weakref.finalize(owner, _give_back, block).atexit = False
    return owner[start : start + bytes_wanted].view(dtype).reshape(shape)


def _in_huge_pages(size: int) -> int:
    return -(-size // _HUGE_PAGE) * _HUGE_PAGE


def _take(bytes_wanted: int) -> mmap.mmap:
    """Return the smallest kept block that is not twice too large, or a fresh one."""
    with _lock:
        fits = [block for block in _free if bytes_wanted <= len(block) <= 2 * bytes_wanted]
        if fits:
            best = min(fits, key=len)
            _free.remove(best)
            return best
    rounded = _in_huge_pages(bytes_wanted)
    try:
        block = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{rounded} bytes of host memory: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def _give_back(block: mmap.mmap) -> None:
    with _lock:
        _free.append(block)
        _shrink()


def _shrink() -> None:
    """Drop the blocks kept longest until the rest is within the limit."""
    while sum(map(len, _free)) > _limit:
        _free.pop(0)
