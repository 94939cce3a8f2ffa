"""Whether a GPU holds its clock down while it is timed, as the driver's management library tells.

Products on tensor cores draw more power than a card may for long: within seconds its clock falls by
a quarter, and stays low for about as long after the work has ended. A time then says as much about
what ran before as about the call. So a case waits until the card has recovered, and its line tells
the clock and whether power held it down. Nothing is ever set, only read [1]_.

.. [1] https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable
from typing import Any

# nvmlClockType_t and bits of nvmlClocksEventReasons.
_SM_CLOCK = 1
_HELD_BY_POWER = 0x04 | 0x80  # the driver's limit, the board's brake
_HELD_BY_HEAT = 0x20 | 0x40  # the driver's limit, the hardware's
_MOST_WAIT, _STEP = 3.0, 0.05


class Card:
    """What the driver tells of a GPU by its CUDA ordinal, if its management library is there."""

    def __init__(self, index: int, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._handle = ctypes.c_void_p()
        self._nvml: Any = None
        # There may be no such library, or one without these functions.
        with contextlib.suppress(OSError, AttributeError):
            self._nvml = self._find(load("libcuda.so.1"), load("libnvidia-ml.so.1"), index)

    def _find(self, cuda: Any, nvml: Any, index: int) -> Any:
        """Find the device by its place on the bus: ordinals of both libraries differ."""
        device, place = ctypes.c_int(), ctypes.create_string_buffer(32)
        failed = (
            cuda.cuInit(0)
            or cuda.cuDeviceGet(ctypes.byref(device), index)
            or cuda.cuDeviceGetPCIBusId(place, len(place), device)
            or nvml.nvmlInit_v2()
            or nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(self._handle))
        )
        return None if failed else nvml

    def state(self) -> dict[str, object]:
        """Tell the clock of the multiprocessors now, and what holds it down: power, heat, or None.

        The driver may not tell; the dict is empty then.
        """
        clock, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        nvml = self._nvml
        if (
            nvml is None
            or nvml.nvmlDeviceGetClockInfo(self._handle, _SM_CLOCK, ctypes.byref(clock))
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(reasons))
        ):
            return {}
        by_power, by_heat = (reasons.value & bits for bits in (_HELD_BY_POWER, _HELD_BY_HEAT))
        return {
            "sm_clock_hz": clock.value * 1e6,
            "held_by": "power" if by_power else "heat" if by_heat else None,
        }

    def rest(self, most: float = _MOST_WAIT) -> None:
        """Wait until nothing holds the clock down, or so many seconds have passed."""
        end = time.monotonic() + most
        while self.state().get("held_by") and time.monotonic() < end:
            time.sleep(_STEP)
