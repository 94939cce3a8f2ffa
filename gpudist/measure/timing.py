"""Time a call: warm, repeated, with its spread, by CUDA events or a monotonic clock."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpudist import _core

# Host calls shorter than this are repeated inside one sample, so that the clock's grain is small.
_LEAST_HOST_SAMPLE = 1e-3


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a call took.

    Parameters
    ----------
    seconds : tuple of float
        One entry a sample: seconds per call.
    conditions : mapping, optional
        What the machine was like meanwhile, by the names that it has in a JSON line.
    """

    seconds: tuple[float, ...]
    conditions: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an empty or impossible measurement."""
        if not self.seconds or min(self.seconds) < 0:
            raise ValueError(f"not a measurement: {self.seconds}")

    @property
    def median(self) -> float:
        """Median, in seconds per call."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile, in seconds per call."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        lower, _, upper = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return lower, upper

    def fields(self) -> dict[str, object]:
        """Give the measurement as it stands in a JSON line.

        Returns
        -------
        dict
            Median, quartiles, least and most in seconds, the number of samples, and the
            conditions.
        """
        lower, upper = self.quartiles
        return {
            "median_s": self.median,
            "q1_s": lower,
            "q3_s": upper,
            "min_s": min(self.seconds),
            "max_s": max(self.seconds),
            "repeats": len(self.seconds),
            **self.conditions,
        }


class Clock(Protocol):
    """Something that times one sample of a call.

    Where the first call loads code (`loads_code`: a GPU's modules, an engine of PyTorch with its
    threads), that alone can take seconds.
    """

    name: str
    least_sample: float
    loads_code: bool

    def sample(self, call: Callable[[], object], calls: int) -> float:
        """Run `call` `calls` times and give the seconds that they took together."""
        ...


class HostClock:
    """The system's monotonic clock, for calls that return when they are done.

    Parameters
    ----------
    before : callable, optional
        Run before each call; its time is not counted.
    """

    name = "monotonic"
    least_sample = _LEAST_HOST_SAMPLE
    loads_code = False

    def __init__(self, before: Callable[[], object] | None = None) -> None:
        self._before = before

    def sample(self, call: Callable[[], object], calls: int) -> float:
        """Time `calls` calls.

        Parameters
        ----------
        call : callable
            What to time; its result is dropped before the next call.
        calls : int
            How often.

        Returns
        -------
        float
            Seconds for all of them.
        """
        if self._before is None:
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return time.perf_counter() - start
        seconds = 0.0
        for _ in range(calls):
            self._before()
            start = time.perf_counter()
            call()
            seconds += time.perf_counter() - start
        return seconds


class EventClock:
    """CUDA events on a stream, for calls that enqueue work there.

    Parameters
    ----------
    device : str
        Like ``cuda:0``.
    stream : int
        The stream's address, as the array library gives it.
    before : callable, optional
        Enqueued before the first event of each sample. Writing an array larger than the L2 cache
        there does two things: the call finds a cold cache, and the device stays busy while the
        host enqueues the call, so the host's own time is not counted.
    """

    name = "cuda events"
    least_sample = 0.0
    loads_code = True

    def __init__(
        self, device: str, stream: int, before: Callable[[], object] | None = None
    ) -> None:
        self._device = device
        self._stream = stream
        self._before = before

    def sample(self, call: Callable[[], object], calls: int) -> float:
        """Time `calls` calls.

        Parameters
        ----------
        call : callable
            What to time.
        calls : int
            How often.

        Returns
        -------
        float
            Seconds for all of them, as the device's events say.
        """
        if self._before is not None:
            self._before()
        start = _core.event_record(self._device, self._stream)
        for _ in range(calls):
            call()
        end = _core.event_record(self._device, self._stream)
        return _core.event_elapsed(start, end) * 1e-3


def time_call(
    call: Callable[[], Any],
    *,
    clock: Clock | None = None,
    repeats: int = 7,
    budget: float = 20.0,
) -> Timing:
    """Time a call: once to warm up, then `repeats` samples.

    A call so slow that the warm one already took the whole budget is not repeated: that one is
    the measurement, or the one after it where the first call loads code. Otherwise sampling stops
    early when the budget is spent.

    Parameters
    ----------
    call : callable
        Takes nothing; what it returns is dropped.
    clock : Clock, optional
        A monotonic clock by default.
    repeats : int, default 7
        The samples to take.
    budget : float, default 20
        Seconds that the samples may take together.

    Returns
    -------
    Timing
        Seconds per call.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    clock = HostClock() if clock is None else clock
    warm = clock.sample(call, 1)
    if warm >= budget and clock.loads_code:
        warm = clock.sample(call, 1)
    if warm >= budget:
        return Timing((warm,))
    calls = max(1, math.ceil(clock.least_sample / max(warm, 1e-9)))
    samples: list[float] = []
    while len(samples) < repeats and (not samples or calls * sum(samples) < budget):
        samples.append(clock.sample(call, calls) / calls)
    return Timing(tuple(samples))
