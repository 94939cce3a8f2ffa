"""Stages of the demo: their times, and a bar while one is long."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_PROGRESS_AFTER = 1.0


@dataclass(slots=True)
class Stages:
    """Time stages, and show a bar while one takes over a second.

    Parameters
    ----------
    seconds : dict
        Seconds by stage, filled as they end.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str, estimate: float | None = None) -> Iterator[None]:
        """Time the body as one stage.

        Parameters
        ----------
        name : str
            What it is called.
        estimate : float, optional
            Seconds that it is thought to take.
        """
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(name, estimate, done), daemon=True)
        watcher.start()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start
            done.set()
            watcher.join()


def _watch(name: str, estimate: float | None, done: threading.Event) -> None:
    """Show how far a stage is, from beside it: a stage is one call, which reports nothing."""
    if done.wait(_PROGRESS_AFTER):
        return
    bar = _bar(name, estimate)
    if bar is None:
        about = f" (at most about {estimate:.0f} s)" if estimate else ""
        print(f"{name} ...{about}", file=sys.stderr, flush=True)
        done.wait()
        return
    start = time.perf_counter() - _PROGRESS_AFTER
    finished = False
    while not finished:
        finished = done.wait(0.1)
        elapsed = time.perf_counter() - start
        if bar.total is not None and (finished or elapsed > bar.total):
            # The estimate was only that: the bar ends full, when the stage does.
            bar.total = max(elapsed, 1e-3) if finished else elapsed * 1.02
        bar.n = elapsed
        bar.refresh()
    bar.close()


def _bar(name: str, estimate: float | None) -> Any:
    """Make a progress bar in seconds; None without tqdm or a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    ends = "{desc}: {percentage:3.0f}% |{bar}| {n:.1f} of at most about {total:.0f} s"
    endless = "{desc}: {n:.1f} s"
    return tqdm(
        desc=name,
        total=estimate,
        bar_format=ends if estimate else endless,
        leave=False,
        file=sys.stderr,
    )
