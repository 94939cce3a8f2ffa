"""Questions that start CUDA, asked in a process of their own.

CUDA does not survive a fork, and cases run in forked processes: so the one they are forked from may
not start it, not even to ask what there is.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gpudist

_PATIENCE = 120.0


def answer(question: Callable[[], Any]) -> Any:
    """Return what a function returns, or raise what it raises, in a forked process.

    A process that was forked to run cases asks itself: nobody is forked from it.
    """
    if multiprocessing.current_process().daemon:
        return question()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(question, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_PATIENCE):
            raise TimeoutError(f"no answer after {_PATIENCE:.0f} s")
        good, said = ours.recv()
    finally:
        process.kill()
        process.join()
    if not good:
        raise said
    return said


def _tell(question: Callable[[], Any], pipe: Connection) -> None:
    try:
        pipe.send((True, question()))
    except Exception as error:
        pipe.send((False, error))


@functools.cache
def on_gpu() -> bool:
    """Tell whether there is a GPU."""
    return bool(answer(gpudist.cuda.is_available))


@functools.cache
def rows(op: str) -> tuple[gpudist.Kernel, ...]:
    """Give the rows of an operation that can run here."""
    able: tuple[gpudist.Kernel, ...] = answer(
        lambda: tuple(row for row in gpudist.kernels(op) if row.why_not is None)
    )
    return able
