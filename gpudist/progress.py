"""Telling how far long calls are: what ``progress=`` may be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

Progress = bool | Callable[[int, int], object]


class Watch:
    """What the core is given as ``progress=``, as a context.

    Parameters
    ----------
    progress : bool or callable
        False for none; True for a bar of tqdm's, or a line of text without tqdm; or what is called
        with the inner steps done and their total.
    total : int
        The inner steps of the call.
    what : str
        What the bar says.

    Raises
    ------
    TypeError
        `progress` is neither.
    """

    def __init__(self, progress: Progress, total: int, what: str) -> None:
        if not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress must be a bool or a callable, got {type(progress).__name__}")
        self._progress, self._total, self._what = progress, total, what
        self._tell: Callable[[int, int], object] | None = None
        self._end: Callable[[], object] | None = None

    def __enter__(self) -> Callable[[float], None] | None:
        """Return what takes the share done, or None if nobody wants to know."""
        if self._progress is False:
            return None
        if self._progress is True:
            self._tell, self._end = _bar(self._total, self._what)
        else:
            self._tell = self._progress
        return self._step

    def _step(self, share: float) -> None:
        if self._tell is not None:
            self._tell(min(int(share * self._total), self._total), self._total)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell of the end, unless it came too early."""
        try:
            if kind is None and self._tell is not None:
                self._tell(self._total, self._total)
        finally:
            if self._end is not None:
                self._end()


def _bar(total: int, what: str) -> tuple[Callable[[int, int], object], Callable[[], object]]:
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
