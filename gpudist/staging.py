"""Pinned memory, by way of which host arrays travel to a GPU and results back."""

from __future__ import annotations

import sys

from gpudist import _core, checks


def limit_pinned_memory(max_bytes: int | str) -> None:
    """Bound the pinned host memory by way of which arrays travel to a GPU and back.

    A GPU reads and writes pinned memory several times as fast as ordinary memory. So arrays of a
    megabyte or more go through a few pinned buffers, which are made when they are first needed and
    kept. They take 64 MB for each GPU in use, at most 96 MB, unless the limit, at first 256 MB, is
    lower: then they are smaller. Pinned memory cannot be swapped out.

    Parameters
    ----------
    max_bytes : int or str
        In bytes, or as in "64 MB", how much pinned memory there may be for each GPU. What there is
        is given back at once, after the calls that are using it; later ones make new buffers. Below
        6 MB there are none, and arrays are copied without them.

    Raises
    ------
    TypeError
        `max_bytes` is no whole number, and no text.
    ValueError
        `max_bytes` is negative, or a text of another form.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.limit_pinned_memory(0)  # none at all
    >>> gpudist.limit_pinned_memory(2**28)  # as at first
    """
    max_bytes = checks.size("max_bytes", max_bytes)
    if max_bytes < 0:
        raise ValueError(f"max_bytes must not be negative, got {max_bytes}")
    _core.limit_pinned(min(max_bytes, sys.maxsize))
