"""Telling how far long calls are: what ``progress=`` may be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final

Progress = bool | Callable[[int, int], object]


# Shared, since small calls feel what is made anew.
_NOBODY: Final = nullcontext(None)


def watched(
    progress: Progress, total: int, what: str
) -> AbstractContextManager[Callable[[float], None] | None]:
    """Return the context of a call to the core, which takes what the context gives.

    Parameters
    ----------
    progress : bool or callable
        False for none; True for a bar of tqdm's, or a line of text without tqdm; or what is called
        with the inner steps done and their total.
    total : int
        The inner steps of the call.
    what : str
        What the bar says.

    Returns
    -------
    context manager
        Of a function that takes the share done, or of None if nobody wants to know.

    Raises
    ------
    TypeError
        `progress` is neither.
    """
    if progress is False:
        return _NOBODY
    if progress is not True and not callable(progress):
        raise TypeError(f"progress must be a bool or a callable, got {type(progress).__name__}")
    return _Watch(progress, total, what)


class _Watch:
    def __init__(self, progress: Progress, total: int, what: str) -> None:
        self._total = total
        self._tell: Callable[[int, int], object]
        self._end: Callable[[], object]
        if callable(progress):
            self._tell, self._end = progress, lambda: None
        else:
            self._tell, self._end = _bar(total, what)

    def __enter__(self) -> Callable[[float], None]:
        return self._step

    def _step(self, share: float) -> None:
        self._tell(min(int(share * self._total), self._total), self._total)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell of the end, unless it came too early."""
        try:
            if kind is None:
                self._tell(self._total, self._total)
        finally:
            self._end()


def _bar(total: int, what: str) -> tuple[Callable[[int, int], object], Callable[[], object]]:
    if sys.stderr is None:  # as in programs without a console, where there is nobody to tell
        return lambda done, total: None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _line(what)
    bar: Any = tqdm(total=total, desc=what, unit="step", unit_scale=True)

    def tell(done: int, total: int) -> None:
        bar.update(done - bar.n)

    return tell, bar.close


def _line(what: str) -> tuple[Callable[[int, int], object], Callable[[], object]]:
    """Write a line on standard error, over and over in the same place."""
    begun = time.monotonic()

    def tell(done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        seconds = time.monotonic() - begun
        print(f"\r{what}: {percent} %, {seconds:.1f} s", end="", file=sys.stderr, flush=True)

    return tell, lambda: print(file=sys.stderr)
