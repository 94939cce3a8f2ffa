"""What the machine can do at most, measured in the same run as what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import gpudist
from gpudist import _core
from gpudist.bench.timing import Timing

# Buffers that outgrow any cache but leave room on small machines, in bytes.
_CPU_BYTES = 1 << 28
_CUDA_BYTES = 1 << 30

_UNITS = {"fma": "multiply-adds/s", "minplus": "updates/s"}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured limit of the machine.

    Parameters
    ----------
    name : str
        ``write``, ``copy``, ``h2d``, ``d2h`` (bytes a second), ``fma`` or ``minplus``
        (operations a second).
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
        arithmetic rate scales; on a GPU each type has its own pipes and nothing follows.

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
        if "/cpu_" in self.kernel:
            return self.rate * np.dtype(self.dtype).itemsize / np.dtype(dtype).itemsize
        return None


def ceiling_kernels(backend: str) -> dict[str, gpudist.Kernel]:
    """Give the kernels that measure ceilings and run on this machine.

    Parameters
    ----------
    backend : {'cpu', 'cuda'}
        Where they run.

    Returns
    -------
    dict
        Kernels by the name of their ceiling; of several for one, the table's first.
    """
    found: dict[str, gpudist.Kernel] = {}
    for kernel in gpudist.kernels("ceiling"):
        if kernel.backend == backend and kernel.why_not is None:
            # "ceiling/cpu_write_avx512" measures "write".
            found.setdefault(kernel.id.split("_")[1], kernel)
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
        Ceilings by name.
    """
    backend = device.partition(":")[0]
    size = _CPU_BYTES if backend == "cpu" else _CUDA_BYTES
    ceilings = {}
    for name, kernel in ceiling_kernels(backend).items():
        work, seconds = _core.ceiling(kernel.id, size, repeats, device)
        ceilings[name] = Ceiling(name, kernel.id, kernel.dtypes[0], work, Timing(tuple(seconds)))
    return ceilings


@dataclass(frozen=True, slots=True)
class Work:
    """What a call has to do at least, whatever the algorithm's constant.

    Parameters
    ----------
    read, written : float
        Bytes of the arguments and of the results, each counted once.
    operations : float
        Operations, in `unit`.
    unit : str
        What an operation is.
    pipe : str or None
        The ceiling of arithmetic that binds, None where none is measured.
    slots : float
        Operations of that ceiling that one operation costs.
    """

    read: float
    written: float
    operations: float
    unit: str
    pipe: str | None = None
    slots: float = 1.0


# What one dimension of one pair costs, in multiply-adds' worth of the floating-point pipes. On a
# GPU a subtraction and a multiply-add (or an add of the absolute value, or a maximum at half rate
# on another pipe) take two issue slots, and a reciprocal or a logarithm comes from a unit with an
# eighth of the rate; one reciprocal does for two of canberra's quotients, one logarithm for a pair
# of jensenshannon where the rows' own terms are known, and braycurtis's second sum is known where
# nothing is negative. On a CPU with two adders beside two multipliers a subtraction runs beside the
# multiply-add or the maximum, but not beside a second addition.
_CUDA_SLOTS = {
    "euclidean": 2.0,
    "sqeuclidean": 2.0,
    "cityblock": 2.0,
    "chebyshev": 2.0,
    "minkowski": 3.0,
    "canberra": 4.0,
    "braycurtis": 2.0,
    "cosine": 2.0,
    "correlation": 2.0,
    "inner_product": 1.0,
    "hamming": 2.0,
    "jensenshannon": 8.0,
    "kl_divergence": 8.0,
    "hellinger": 2.0,
    "seuclidean": 3.0,
}
_CPU_SLOTS = {
    "euclidean": 1.0,
    "sqeuclidean": 1.0,
    "cityblock": 2.0,
    "chebyshev": 1.0,
    "minkowski": 2.0,
    "braycurtis": 4.0,
    "cosine": 1.0,
    "correlation": 1.0,
    "inner_product": 1.0,
    "hellinger": 1.0,
    "seuclidean": 2.0,
}
# What weights add to that. They cost cosine and correlation nothing: rows are scaled once.
_WEIGHT_SLOTS = {"euclidean": 1.0, "cosine": 0.0, "correlation": 0.0}


def cdist_work(
    m: int,
    n: int,
    d: int,
    dtype: str,
    metric: str,
    backend: str,
    *,
    p: float | None = None,
    weighted: bool = False,
) -> Work:
    """Count the work of ``cdist`` in the direct form.

    Parameters
    ----------
    m, n, d : int
        Rows of the first and second argument, and dimensions.
    dtype : str
        The type of arguments; also of the result, but for bool, whose distances are float64.
    metric : str
        The metric's name; one without a table entry has no arithmetic ceiling, and haversine is
        counted in pairs.
    backend : {'cpu', 'cuda'}
        Where it runs.
    p : float, optional
        minkowski's exponent. The arithmetic ceiling is that of 3.
    weighted : bool, default False
        Whether columns have weights.

    Returns
    -------
    Work
        Bytes, and pair-dimensions or pairs.
    """
    size = np.dtype(dtype).itemsize
    read, written = float((m + n) * d * size), float(m * n * (8 if dtype == "bool" else size))
    if metric == "haversine":
        return Work(read, written, float(m * n), "pairs")
    operations = float(m * n * d)
    slots = (_CUDA_SLOTS if backend == "cuda" else _CPU_SLOTS).get(metric)
    if weighted and slots is not None:
        extra = _WEIGHT_SLOTS.get(metric)
        slots = None if extra is None else slots + extra
    if slots is None or p not in (None, 3.0) or dtype == "bool":
        return Work(read, written, operations, "pair-dimensions")
    return Work(read, written, operations, "pair-dimensions", "fma", slots)


def apsp_work(n: int, dtype: str, *, predecessors: bool = False) -> Work:
    """Count the work of Floyd-Warshall.

    Parameters
    ----------
    n : int
        Nodes.
    dtype : str
        The type of weights and lengths.
    predecessors : bool, default False
        Whether predecessors (int32) are written as well.

    Returns
    -------
    Work
        Bytes, and updates: one addition and one minimum, n cubed of them.
    """
    matrix = float(n * n * np.dtype(dtype).itemsize)
    extra = float(n * n * 4) if predecessors else 0.0
    return Work(matrix, matrix + extra, float(n) ** 3, "updates", "minplus")


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


def floor(
    work: Work, dtype: str, ceilings: Mapping[str, Ceiling], *, through_host: bool = False
) -> Floor | None:
    """Find the ceiling that binds a call, and the least time that it allows.

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
    Floor or None
        None where no measured ceiling applies.
    """
    amounts = {"write": work.written, "copy": 2 * min(work.read, work.written)}
    if through_host:
        amounts |= {"h2d": work.read, "d2h": work.written}
    if work.pipe is not None:
        amounts[work.pipe] = work.operations * work.slots
    floors = []
    for name, amount in amounts.items():
        rate = ceilings[name].rate_in(dtype) if name in ceilings else None
        if rate is not None:
            floors.append(Floor(amount / rate, ceilings[name]))
    return max(floors, key=lambda candidate: candidate.seconds, default=None)
