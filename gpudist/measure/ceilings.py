"""What the machine can do at most, measured in the same run as what it is compared with."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import gpudist
from gpudist import _core
from gpudist.measure.timing import Timing
from gpudist.work import Work

# Buffers that outgrow any cache but leave room on small machines, in bytes.
_CPU_BYTES = 1 << 28
_CUDA_BYTES = 1 << 30

# Ceilings of arithmetic; the others count bytes.
_UNITS = {
    "fma": "multiply-adds/s",
    "fma64": "multiply-adds/s",
    "minplus": "updates/s",
    "tensor": "multiply-adds/s",
    "tensor64": "multiply-adds/s",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured limit of the machine.

    Parameters
    ----------
    name : str
        ``write``, ``read``, ``copy``, ``h2d``, ``d2h`` (bytes a second), ``fma``, ``minplus`` and,
        on a GPU, ``fma64``, ``tensor`` and ``tensor64`` (operations a second).
    kernel : str
        The id of the kernel that measured it.
    dtype : str
        The element type that it worked on.
    work : float
        Bytes or operations of one call.
    timing : Timing
        Seconds per call.
    """

    name: str
    kernel: str
    dtype: str
    work: float
    timing: Timing

    @property
    def rate(self) -> float:
        """Bytes or operations a second, by the fastest sample: the others were disturbed."""
        return self.work / min(self.timing.seconds)

    @property
    def unit(self) -> str:
        """What the rate counts."""
        return _UNITS.get(self.name, "B/s")

    def rate_in(self, dtype: str) -> float | None:
        """Give the rate for another element type, None where this measurement does not tell.

        Bytes are bytes. On a CPU a vector holds twice as many elements of half the size, so the
        rate of multiply-adds scales. Minima of other types are other instructions, and on a GPU
        each type has its own pipes: there nothing follows.

        Parameters
        ----------
        dtype : str
            A NumPy type's name.

        Returns
        -------
        float or None
            Bytes or operations a second.
        """
        if dtype == self.dtype or self.name not in _UNITS:
            return self.rate
        if "/cpu_" in self.kernel and self.name == "fma":
            return self.rate * np.dtype(self.dtype).itemsize / np.dtype(dtype).itemsize
        return None


def ceiling_kernels(backend: str) -> dict[str, list[gpudist.Kernel]]:
    """Give the kernels that measure ceilings and that this machine can run.

    Parameters
    ----------
    backend : {'cpu', 'cuda'}
        Where they run.

    Returns
    -------
    dict
        Kernels by the name of their ceiling, in the table's order of preference.
    """
    found: dict[str, list[gpudist.Kernel]] = {}
    for kernel in gpudist.kernels("ceiling"):
        if kernel.backend == backend and kernel.why_not is None:
            # "ceiling/cpu_write_avx512" measures "write".
            found.setdefault(kernel.id.split("_")[1], []).append(kernel)
    return found


def measure_ceilings(device: str, *, repeats: int = 7) -> dict[str, Ceiling]:
    """Measure every ceiling of a device.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.
    repeats : int, default 7
        Samples of each.

    Returns
    -------
    dict
        Ceilings by name; what the device has not, like tensor cores, is left out.
    """
    backend = device.partition(":")[0]
    size = _CPU_BYTES if backend == "cpu" else _CUDA_BYTES
    ceilings = {}
    for name, kernels in ceiling_kernels(backend).items():
        for kernel in kernels:
            try:
                work, seconds = _core.ceiling(kernel.id, size, repeats, device)
            except ValueError:  # it needs another compute capability
                continue
            dtype = kernel.dtypes[0]
            ceilings[name] = Ceiling(name, kernel.id, dtype, work, Timing(tuple(seconds)))
            break
    return ceilings


@functools.cache
def ceilings_of(device: str) -> Mapping[str, Ceiling]:
    """Measure the ceilings of a device once, and keep them for the life of the process.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.

    Returns
    -------
    mapping
        Ceilings by name.
    """
    return measure_ceilings(device, repeats=3)


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time that a call can take on this machine.

    Parameters
    ----------
    seconds : float
        The least time.
    ceiling : Ceiling
        The one that binds.
    """

    seconds: float
    ceiling: Ceiling


def floors(
    work: Work, dtype: str, ceilings: Mapping[str, Ceiling], *, through_host: bool = False
) -> tuple[Floor, ...]:
    """Find the least time that each ceiling allows a call.

    Parameters
    ----------
    work : Work
        What the call has to do.
    dtype : str
        The element type it works on.
    ceilings : mapping
        Measured ceilings by name.
    through_host : bool, default False
        Whether arguments and results cross the bus to a GPU and back.

    Returns
    -------
    tuple of Floor
        The longest first, which binds; empty where no measured ceiling applies.
    """
    amounts = {
        "write": work.written,
        "read": work.read,
        "copy": 2 * min(work.read, work.written),
    }
    if through_host:
        amounts |= {"h2d": work.read, "d2h": work.written}
    if work.pipe is not None:
        amounts[work.pipe] = work.operations * work.slots
    found = []
    for name, amount in amounts.items():
        rate = ceilings[name].rate_in(dtype) if name in ceilings else None
        if rate is not None:
            found.append(Floor(amount / rate, ceilings[name]))
    return tuple(sorted(found, key=lambda one: one.seconds, reverse=True))


def floor(
    work: Work, dtype: str, ceilings: Mapping[str, Ceiling], *, through_host: bool = False
) -> Floor | None:
    """Find the ceiling that binds a call: the first of `floors`, None where there is none."""
    return next(iter(floors(work, dtype, ceilings, through_host=through_host)), None)
