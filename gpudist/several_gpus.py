"""Calls that several GPUs of one host share: which GPUs, and which rows each of them takes.

The rows of a result are cut into panels, and a GPU that is done with one takes the next. A panel is
the same call for some rows of the first operand, whose bits do not depend on the others, so that
the result has the bits that one of these GPUs gives. Shortest paths are one call of the core, in
which each GPU holds some rows from the beginning to the end.
"""

from __future__ import annotations

import _thread
import math
import re
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from gpudist import _core, arrays, cuda
from gpudist.progress import Progress, watched

# What takes several GPUs; all else runs on one.
FUNCTIONS: Final = (
    "cdist",
    "pdist",
    "minplus",
    "apsp",
    "nearest",
    "knn",
    "radius_neighbors",
    "count_neighbors",
)

# What they do not share, as its refusal calls it.
MANY_GRAPHS: Final = "many graphs"

Panels = list[tuple[int, int]]

_ALL = "cuda:all"
_LIST = re.compile(r"cuda:[0-9]+(,[0-9]+)+", re.A)
# Panels for each GPU, at most: more even out what GPUs take for theirs. But each begins with a copy
# of the second operand, and ends with one that nothing hides behind. With one, two and four for
# each of two H100s 16384 x 16384 x 128 take 12.6, 13.7 and 16.5 ms, minplus of 8192 nodes 36, 46
# and 69. So a panel has so many bytes of the result, some 40 ms of the bus, so many times those of
# the second operand, and so many rows.
_PANELS = 4
_LEAST_BYTES = 2 << 30
_LEAST_TIMES = 32
_LEAST_ROWS = 128
# Seconds between two looks at Ctrl-C and at how far the GPUs are.
_LOOK = 0.05


def are_named(device: Any) -> bool:
    """Tell whether a device is written as that of several GPUs: "cuda:all" or "cuda:0,2"."""
    return isinstance(device, str) and (device == _ALL or _LIST.fullmatch(device) is not None)


def of(device: str) -> tuple[str, ...]:
    """Return the devices of such a text, one by one.

    Parameters
    ----------
    device : str
        "cuda:all" for every GPU of the kind of the first, or "cuda:0,2" for some.

    Returns
    -------
    tuple of str
        "cuda:N" for each.

    Raises
    ------
    ValueError
        A GPU is named twice, or there is none of that number.
    gpudist.DeviceError
        CUDA cannot be used.
    """
    reason = cuda.why_not()
    if reason is not None:
        raise _core.DeviceError(f"CUDA cannot be used: {reason}")
    there = cuda.devices()
    if device == _ALL:
        kind = there[0].name, there[0].compute_capability
        return tuple(f"cuda:{x.index}" for x in there if (x.name, x.compute_capability) == kind)
    indices = [int(text) for text in device.removeprefix("cuda:").split(",")]
    if len({*indices}) < len(indices):
        raise ValueError(f"device names a GPU twice: {device!r}")
    if max(indices) >= len(there):
        raise ValueError(f"device must name GPUs from 0 to {len(there) - 1}, got {device!r}")
    return tuple(f"cuda:{index}" for index in indices)


def check(device: str | None, space: arrays.Space = arrays.HOST) -> None:
    """Raise the error that distances of arrays would, where they are told to use this device.

    Parameters
    ----------
    device : str or None
        What was given, read.
    space : Space
        Where the arrays are. Of a device for those that are on one, the core speaks when it is
        called.

    Raises
    ------
    TypeError
        It is several GPUs, and the arrays are on one.
    ValueError
        It names no device, or a GPU that is not there among several.
    gpudist.DeviceError
        It asks for CUDA or for a GPU, which cannot be used.
    """
    if are_named(device):
        check_on_host(space)
    if device is None or space is not arrays.HOST:
        return
    for one in of(device) if are_named(device) else (device,):
        _core.choose("cdist", "float64", "euclidean", 1, 1, device=one)


def first_of(device: Any, space: arrays.Space) -> tuple[Any, tuple[str, ...]]:
    """Return the device whose kernel all would run, and all of several, none if it is one.

    Raises as `of` and `check_on_host` do.
    """
    if not are_named(device):
        return device, ()
    check_on_host(space)
    devices = of(device)
    return devices[0], devices


def holders(device: Any, space: arrays.Space) -> tuple[Any, tuple[str, ...]]:
    """Return as `first_of`, but none where all GPUs are one, which takes any matrix by itself.

    Raises as `of` and `check_on_host` do.
    """
    first, devices = first_of(device, space)
    return first, devices if len(devices) > 1 else ()


def refuse(device: Any, function: str) -> None:
    """Raise a ValueError if several GPUs are asked for what runs on one."""
    if are_named(device):
        raise ValueError(
            f"device must name one GPU, 'cuda:N', for {function}, got {device!r}: several are for "
            f"matrices given to {', '.join(FUNCTIONS[:-1])} and {FUNCTIONS[-1]}"
        )


def check_on_host(space: arrays.Space) -> None:
    """Raise a TypeError for arrays on a device: they are on one GPU, and so is what they give."""
    if space is not arrays.HOST:
        raise TypeError(
            "device must be None for arrays on a device, which is where they are computed; several "
            "GPUs take arrays on the host"
        )


def panels_each(size: int, count: int, again: int) -> int:
    """Return how many panels are for each of so many GPUs.

    The result has `size` bytes, and each panel brings `again` bytes that others bring too.
    """
    return max(min(size // (count * max(_LEAST_BYTES, _LEAST_TIMES * again)), _PANELS), 1)


def panels(rows: int, count: int, each: int) -> Panels:
    """Return the first row of each panel and the one after its last, `each` for so many GPUs."""
    step = max(-(-rows // (each * count)), _LEAST_ROWS)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def panels_of_pairs(rows: int, count: int, each: int) -> Panels:
    """Return panels of rows that have about as many pairs with later rows, as `panels` does."""
    ends = [0]
    for left in range(each * count - 1, 0, -1):  # of the pairs a share is left for later panels
        last = math.isqrt(rows * rows * left // (each * count))
        if rows - last >= ends[-1] + _LEAST_ROWS:
            ends.append(rows - last)
    return list(pairwise([*ends, rows])) if rows else []


class Task(NamedTuple):
    """What several GPUs share: `compute` does rows [start, stop) on a device.

    It tells its last argument how many of its inner steps are done, and how many there are. `steps`
    are those of all panels; `function` is what the caller called. Of one that can be resumed an
    exception says how many rows are complete.
    """

    function: str
    panels: Panels
    steps: int
    compute: Callable[[str, int, int, Callable[[int, int], None]], object]
    resumable: bool = True


def share(task: Task, devices: tuple[str, ...], progress: Progress) -> None:
    """Compute all rows, each panel on the GPU that is free first.

    Parameters
    ----------
    task : Task
        What to compute.
    devices : tuple of str
        The GPUs.
    progress : bool or callable
        Who wants to know how far the call is; it is told by the calling thread.

    Raises
    ------
    BaseException
        What ended the first panel that failed, or the calling thread (Ctrl-C). The other GPUs are
        done by then. How many rows before the first missing one are complete is its
        `rows_complete`, if the task can be resumed.
    """
    work = _Work(task)
    others: list[threading.Event] = []
    try:
        with watched(progress, task.steps, task.function) as tell:
            for device in devices[1 : len(task.panels)]:
                others.append(work.begin(device))
            work.take_panels(devices[0], tell)
            for ended in others:
                while not ended.wait(_LOOK):
                    if tell is not None:
                        tell(work.done())
            if work.fault is not None:
                raise work.fault
    except BaseException as error:
        work.ended = True
        for ended in others:
            ended.wait()
        if task.resumable:
            error.rows_complete = work.complete()  # type: ignore[attr-defined]
        raise


class _Ended(Exception):
    """What ends a panel that nobody wants any more."""


class _Work:
    """The panels of a task, and how far each is."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._steps_done = [0] * len(task.panels)
        self._rows_done = [0] * len(task.panels)
        self._left = iter(range(len(task.panels)))
        self._lock = threading.Lock()
        self.ended = False
        self.fault: BaseException | None = None

    def begin(self, device: str) -> threading.Event:
        """Have another thread take panels; the event is set when it has ended.

        A `threading.Thread` has who starts it wait until it runs, which takes longer than all else
        here; and one that is interrupted in joining it believes, in Python 3.11 and 3.12, that it
        has ended.
        """
        ended = threading.Event()
        _thread.start_new_thread(self._take_until_end, (device, ended))
        return ended

    def _take_until_end(self, device: str, ended: threading.Event) -> None:
        try:
            self.take_panels(device)
        finally:
            ended.set()

    def take_panels(self, device: str, tell: Callable[[float], None] | None = None) -> None:
        """Compute the next panel on this device, until there is none or the work has ended.

        The calling thread, which alone has somebody to tell, tells meanwhile how far all are.
        """
        while not self.ended:
            with self._lock:
                panel = next(self._left, None)
            if panel is None:
                return
            start, stop = self._task.panels[panel]
            try:
                self._task.compute(device, start, stop, partial(self._look, panel, tell))
                self._rows_done[panel] = stop - start
            except BaseException as error:
                # Of a panel that was stopped the core says how many rows are complete.
                self._rows_done[panel] = getattr(error, "rows_complete", 0)
                if not isinstance(error, _Ended):
                    with self._lock:
                        self.fault = self.fault or error
                self.ended = True

    def _look(self, panel: int, tell: Callable[[float], None] | None, done: int, _: int) -> None:
        if self.ended:
            raise _Ended
        self._steps_done[panel] = done
        if tell is not None:
            tell(self.done())

    def done(self) -> float:
        """Return which share of the steps is done."""
        return sum(self._steps_done) / max(self._task.steps, 1)

    def complete(self) -> int:
        """Return how many rows there are before the first missing one."""
        for (start, stop), rows in zip(self._task.panels, self._rows_done, strict=True):
            if start + rows < stop:
                return start + rows
        return self._task.panels[-1][1] if self._task.panels else 0
