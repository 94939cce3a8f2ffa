"""What is measured: suites of cases, and the run that times one case beside its rivals."""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.bench import accuracy, ceilings, records, rivals
from gpudist.bench.adversary import COLUMNS, DISTRIBUTIONS, ROWS, Variant, variants
from gpudist.bench.ceilings import Ceiling, Work
from gpudist.bench.devices import DeviceArrays, device_arrays
from gpudist.bench.timing import Clock, EventClock, HostClock, Timing, time_call
from gpudist.metrics import METRICS

Array = npt.NDArray[Any]

_SEED = 20_240_229

_TRUTHS = tuple(record.name for record in METRICS if record.domain != "numbers")

# Seconds that the samples of one rival may take together: some are hundreds of times slower.
_RIVAL_BUDGET = 3.0


class Case(Protocol):
    """One operation on one shape, type and metric. A new operation is one class like these."""

    @property
    def op(self) -> str:
        """The operation."""
        ...

    @property
    def dtype(self) -> str:
        """The type of arguments and result."""
        ...

    @property
    def metric(self) -> str | None:
        """The metric, for distances."""
        ...

    @property
    def arguments(self) -> str:
        """The metric's arguments in words, empty without."""
        ...

    @property
    def metric_args(self) -> dict[str, Any]:
        """The metric's arguments."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The operation's sizes."""
        ...

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, the same in every run."""
        ...

    def call(self, operands: tuple[Any, ...], device: str) -> Any:
        """Do the operation."""
        ...

    def kernel(self, operands: tuple[Any, ...], device: str) -> str:
        """Name the kernel that `call` runs."""
        ...

    def work(self, backend: str) -> Work:
        """Count what has to be done at least."""
        ...

    def sample(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Compute some rows of the result in float64."""
        ...


@dataclass(frozen=True, slots=True)
class CdistCase:
    """Distances between `m` and `n` points in `d` dimensions, drawn uniformly.

    Parameters
    ----------
    m, n, d : int
        Points and dimensions.
    dtype : str
        ``float32`` or ``float64``, or ``bool`` for metrics of truths.
    metric : str
        The metric. For haversine the points are spread over the globe, in radians; for hamming
        and metrics of truths they are 0 or 1; for metrics of distributions they add up to 1.
    p : float, optional
        minkowski's exponent.
    weighted : bool, default False
        Whether the columns have weights.
    """

    m: int
    n: int
    d: int
    dtype: str
    metric: str = "euclidean"
    p: float | None = None
    weighted: bool = False
    op: ClassVar[str] = "cdist"

    @property
    def arguments(self) -> str:
        """Name the exponent or the weights."""
        return "weighted" if self.weighted else "" if self.p is None else f"p = {self.p:g}"

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give the arguments that the metric needs, the same in every run."""
        return _metric_args(self.metric, self.d, self.p, self.weighted)

    @property
    def shape(self) -> tuple[int, ...]:
        """Give rows, columns and dimensions."""
        return self.m, self.n, self.d

    def operands(self) -> tuple[Array, ...]:
        """Draw both sets of points."""
        rng = np.random.default_rng(_SEED)
        points = (rng.random((rows, self.d)) for rows in (self.m, self.n))
        if self.metric == "haversine":
            span = np.array([np.pi, 2 * np.pi])
            points = ((p - 0.5) * span for p in points)
        elif self.metric in DISTRIBUTIONS:
            points = (p / p.sum(axis=1, keepdims=True) for p in points)
        elif self.metric in _TRUTHS:
            points = (np.rint(p) for p in points)
        return tuple(p.astype(self.dtype) for p in points)

    def call(self, operands: tuple[Any, ...], device: str) -> Any:
        """Compute the distances."""
        a, b = operands
        return gpudist.cdist(a, b, self.metric, device=device, **self.metric_args)

    def kernel(self, operands: tuple[Any, ...], device: str) -> str:
        """Name the kernel that ``auto`` takes."""
        return _cdist_kernel(operands, self.metric, self.metric_args, device)

    def work(self, backend: str) -> Work:
        """Count bytes and pair-dimensions."""
        return ceilings.cdist_work(
            self.m,
            self.n,
            self.d,
            self.dtype,
            self.metric,
            backend,
            p=self.p,
            weighted=self.weighted,
        )

    def sample(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Compute some rows in float64."""
        a, b = operands
        return accuracy.cdist_sample(a, b, self.metric, **self.metric_args)


@functools.cache
def _metric_args(metric: str, columns: int, p: float | None, weighted: bool) -> dict[str, Any]:
    rng = np.random.default_rng(_SEED)
    drawn = rng.uniform(0.5, 2.0, columns)
    arguments: dict[str, Any] = {} if p is None else {"p": p}
    if weighted:
        arguments["w"] = drawn
    if metric == "seuclidean":
        arguments["V"] = drawn
    if metric == "mahalanobis":
        factor = rng.standard_normal((columns, columns)) / columns + np.eye(columns)
        arguments["VI"] = factor @ factor.T
    return arguments


def _cdist_kernel(
    operands: tuple[Any, ...], metric: str, metric_args: dict[str, Any], device: str
) -> str:
    a, b = operands
    return gpudist.explain("cdist", a, b, metric=metric, device=device, **metric_args).kernel


@dataclass(frozen=True, slots=True)
class AccuracyCase:
    """The worst errors of a metric on the data sets that are hard for it.

    Parameters
    ----------
    variant : Variant
        The metric and its arguments.
    dtype : str
        ``float32`` or ``float64``.
    """

    variant: Variant
    dtype: str
    op: ClassVar[str] = "accuracy"

    @property
    def metric(self) -> str:
        """Give the metric's name."""
        return self.variant.metric

    @property
    def arguments(self) -> str:
        """Name the metric's arguments."""
        return self.variant.arguments

    @property
    def shape(self) -> tuple[int, ...]:
        """Give rows, columns and dimensions of each data set."""
        return (*ROWS, 2 if self.metric == "haversine" else COLUMNS)


@dataclass(frozen=True, slots=True)
class ApspCase:
    """Shortest paths between all pairs of `n` nodes, half of the edges there.

    Parameters
    ----------
    n : int
        Nodes.
    dtype : str
        ``float32``, ``float64`` or ``int32``.
    """

    n: int
    dtype: str
    op: ClassVar[str] = "apsp"
    metric: ClassVar[str | None] = None
    arguments: ClassVar[str] = ""
    metric_args: ClassVar[dict[str, Any]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the nodes, twice."""
        return self.n, self.n

    def operands(self) -> tuple[Array, ...]:
        """Draw weights from 1 to 1000; 0 is no edge."""
        rng = np.random.default_rng(_SEED)
        weights = rng.random((self.n, self.n), dtype=np.float32)
        weights *= 1998.0
        weights -= 998.0
        np.clip(weights, 0.0, None, out=weights)
        np.ceil(weights, out=weights, where=weights < 1.0)
        return (weights.astype(self.dtype, copy=False),)

    def call(self, operands: tuple[Any, ...], device: str) -> Any:
        """Find the shortest paths."""
        return gpudist.apsp(operands[0], dtype=self.dtype, device=device)

    def kernel(self, operands: tuple[Any, ...], device: str) -> str:
        """Name the kernel that ``auto`` takes."""
        return gpudist.explain("apsp", operands[0], dtype=self.dtype, device=device).kernel

    def work(self, backend: str) -> Work:
        """Count bytes and updates."""
        return ceilings.apsp_work(self.n, self.dtype)

    def sample(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Find the paths from some nodes in float64."""
        return accuracy.apsp_sample(operands[0])


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of cases for each backend.

    Parameters
    ----------
    summary : str
        One line for ``--help``.
    cases : mapping
        Cases by backend.
    ceilings : bool, default True
        Whether to measure first what the machine can do at most.
    """

    summary: str
    cases: Mapping[str, tuple[Case | AccuracyCase, ...]]
    ceilings: bool = True


_CDIST_CPU = (
    *(
        CdistCase(rows, rows, d, "float64", metric)
        for rows, d in ((4000, 2), (3000, 128), (2000, 1024))
        for metric in ("euclidean", "cityblock")
    ),
    *(
        CdistCase(2000, 2000, 64, "float64", metric, p=3.0 if metric == "minkowski" else None)
        for metric in rivals.SCIPYS
    ),
    CdistCase(2000, 2000, 64, "float64", "euclidean", weighted=True),
    # SciPy takes a minute for more.
    CdistCase(200, 200, 64, "float64", "cosine", weighted=True),
)
_CDIST_CUDA = (
    CdistCase(30336, 30336, 2, "float32"),
    CdistCase(16384, 16384, 16, "float32"),
    CdistCase(16384, 16384, 128, "float32"),
    *(
        CdistCase(16384, 16384, 128, "float32", metric)
        for metric in (
            "cityblock",
            "chebyshev",
            "canberra",
            "braycurtis",
            "cosine",
            "correlation",
            "inner_product",
            "hamming",
            "jensenshannon",
            "kl_divergence",
            "hellinger",
        )
    ),
    CdistCase(16384, 16384, 128, "float32", "minkowski", p=3.0),
    CdistCase(16384, 16384, 128, "float32", "euclidean", weighted=True),
    CdistCase(16384, 16384, 1024, "bool", "jaccard"),
)
_ACCURACY = tuple(
    AccuracyCase(variant, dtype) for dtype in ("float32", "float64") for variant in variants()
)
_APSP_CPU = tuple(ApspCase(n, "float64") for n in (500, 1000, 2000))
_APSP_CUDA = tuple(ApspCase(n, "float32") for n in (1024, 4096, 16384))

SUITES = {
    "quick": Suite(
        "one small case of everything, under a minute",
        {
            "cpu": (
                CdistCase(2000, 2000, 2, "float64"),
                CdistCase(1000, 1000, 128, "float64"),
                CdistCase(1000, 1000, 128, "float32", "cityblock"),
                CdistCase(1000, 1000, 2, "float64", "haversine"),
                ApspCase(500, "float64"),
            ),
            "cuda": (
                CdistCase(8192, 8192, 2, "float32"),
                CdistCase(4096, 4096, 128, "float32"),
                ApspCase(1024, "float32"),
            ),
        },
    ),
    "cdist": Suite("pairwise distances", {"cpu": _CDIST_CPU, "cuda": _CDIST_CUDA}),
    "apsp": Suite("all-pairs shortest paths", {"cpu": _APSP_CPU, "cuda": _APSP_CUDA}),
    "accuracy": Suite(
        "the worst errors on data that is hard to get right",
        {"cpu": _ACCURACY, "cuda": _ACCURACY},
        ceilings=False,
    ),
    "ceilings": Suite("only what the machine can do at most", {"cpu": (), "cuda": ()}),
}


@dataclass(frozen=True, slots=True)
class _DataSet:
    """Points where they are worked on, their exact distances, and what errors are divided by."""

    task: rivals.Task
    exact: Array
    scale: Array


class Runner:
    """Measures cases on one device, after its ceilings.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.
    repeats : int, default 7
        Samples of each call.
    source : str, optional
        The revision to record, where neither git nor the installation knows it.
    with_ceilings : bool, default True
        Whether to measure ceilings; no case is compared with one otherwise.
    """

    def __init__(
        self,
        device: str,
        *,
        repeats: int = 7,
        source: str | None = None,
        with_ceilings: bool = True,
    ) -> None:
        self.device = device
        self.backend, _, index = device.partition(":")
        self.repeats = repeats
        self.provenance = records.provenance(device, source=source)
        self.ceilings: dict[str, Ceiling] = (
            ceilings.measure_ceilings(device, repeats=repeats) if with_ceilings else {}
        )
        self.arrays: DeviceArrays | None = None
        self.arrays_reason = ""
        if self.backend == "cuda":
            self.arrays, self.arrays_reason = device_arrays(int(index or 0))

    def ceiling_records(self) -> Iterator[dict[str, Any]]:
        """Give one result for each ceiling of the device.

        Yields
        ------
        dict
            Ready for a JSON line.
        """
        for ceiling in self.ceilings.values():
            yield {
                **self.provenance,
                "op": "ceiling",
                "ceiling": ceiling.name,
                "dtype": ceiling.dtype,
                "kernel": ceiling.kernel,
                "rate": ceiling.rate,
                "unit": ceiling.unit,
                **ceiling.timing.fields(),
            }

    def run(self, case: Case | AccuracyCase) -> dict[str, Any]:
        """Measure one case and its rivals.

        A case or a rival that fails, for want of memory say, gives a result that says so.

        Parameters
        ----------
        case : Case or AccuracyCase
            What to time, or to hold against exact distances.

        Returns
        -------
        dict
            Ready for a JSON line.
        """
        record: dict[str, Any] = {
            **self.provenance,
            "op": case.op,
            "shape": list(case.shape),
            "dtype": case.dtype,
            "metric": case.metric,
            "arguments": case.arguments,
            "arrays": "numpy" if self.arrays is None else self.arrays.name,
        }
        try:
            if isinstance(case, AccuracyCase):
                record |= self._measure_accuracy(case)
            else:
                record |= self._measure_case(case)
        except Exception as error:
            record |= {"failed": _describe(error), "rivals": []}
        self._free()
        return record

    def _measure_case(self, case: Case) -> dict[str, Any]:
        host = case.operands()
        operands = host if self.arrays is None else tuple(map(self.arrays.put, host))
        clock = self._clock()
        kernel = case.kernel(operands, self.device)
        rows, exact = case.sample(host)
        ours, error = self._measure(lambda: case.call(operands, self.device), clock, rows, exact)
        work = case.work(self.backend)
        if "tensor" in kernel:
            # The arithmetic counted is the direct form's, and no ceiling measures tensor cores.
            work = dataclasses.replace(work, pipe=None)
        through_host = self.backend == "cuda" and self.arrays is None
        floor = ceilings.floor(work, case.dtype, self.ceilings, through_host=through_host)
        task = rivals.Task(
            case.op,
            self.backend,
            operands,
            case.shape[0],
            case.dtype,
            case.metric,
            case.metric_args,
        )
        return {
            "kernel": kernel,
            "clock": clock.name,
            "l2_flushed": self.arrays is not None,
            **ours.fields(),
            "rate": work.operations / ours.median,
            "unit": f"{work.unit}/s",
            "bytes_written_per_s": work.written / ours.median,
            "floor_s": floor.seconds if floor else None,
            "bound_by": floor.ceiling.name if floor else None,
            "ceiling_rate": floor.ceiling.rate if floor else None,
            "ceiling_unit": floor.ceiling.unit if floor else None,
            "fraction_of_ceiling": floor.seconds / ours.median if floor else None,
            "max_relative_error": _json_number(error),
            "error_rows": len(rows),
            "rivals": [
                self._measure_rival(rival, task, ours, clock, rows, exact)
                for rival in rivals.rivals_for(task)
            ],
        }

    def _measure_rival(
        self,
        rival: rivals.Rival,
        task: rivals.Task,
        ours: Timing,
        clock: Clock,
        rows: npt.NDArray[np.intp],
        exact: Array,
    ) -> dict[str, Any]:
        def measure() -> dict[str, Any]:
            timing, error = self._measure(
                rival.prepare(task), clock, rows, exact, budget=_RIVAL_BUDGET
            )
            return {
                **timing.fields(),
                "ratio": timing.median / ours.median,
                "max_relative_error": _json_number(error),
            }

        return self._try_rival(rival, task, measure)

    def _measure(
        self,
        call: Callable[[], Any],
        clock: Clock,
        rows: npt.NDArray[np.intp],
        exact: Array,
        budget: float = 20.0,
    ) -> tuple[Timing, float]:
        timing = time_call(call, clock=clock, repeats=self.repeats, budget=budget)
        result = call()
        sample = np.asarray(result[rows] if self.arrays is None else self._rows(result, rows))
        return timing, accuracy.max_relative_error(sample, exact)

    def _measure_accuracy(self, case: AccuracyCase) -> dict[str, Any]:
        args = case.variant.metric_args
        sets = {}
        for name, (a, b) in accuracy.adversarial(case.metric, case.dtype).items():
            exact = accuracy.exact_cdist(a, b, case.metric, **args)
            scale = accuracy.error_scale(case.metric, a, b, exact)
            operands = (a, b) if self.arrays is None else tuple(map(self.arrays.put, (a, b)))
            task = rivals.Task(
                "cdist", self.backend, operands, len(a), case.dtype, case.metric, args
            )
            sets[name] = _DataSet(task, exact, scale)
        first = next(iter(sets.values())).task

        def ours(task: rivals.Task) -> Callable[[], Any]:
            a, b = task.operands
            return lambda: gpudist.cdist(a, b, case.metric, device=self.device, **args)

        return {
            "kernel": _cdist_kernel(first.operands, case.metric, args, self.device),
            "errors_relative_to": accuracy.measure_of(case.metric),
            **self._errors(ours, sets),
            "rivals": [
                self._try_rival(rival, first, functools.partial(self._errors, rival.prepare, sets))
                for rival in rivals.rivals_for(first)
            ],
        }

    def _errors(self, prepare: rivals.Prepare, sets: Mapping[str, _DataSet]) -> dict[str, Any]:
        """Find the worst error on each data set and on all."""
        errors = {}
        for name, data in sets.items():
            with np.errstate(all="ignore"):
                result = prepare(data.task)()
            if self.arrays is not None:
                result = self.arrays.get(result)
            errors[name] = accuracy.max_error(np.asarray(result), data.exact, data.scale)
        return {
            "max_error": _json_number(max(errors.values())),
            "errors": {name: _json_number(error) for name, error in errors.items()},
        }

    def _try_rival(
        self, rival: rivals.Rival, task: rivals.Task, measure: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        self._free()
        result: dict[str, Any] = {"name": rival.name, "version": rival.version()}
        reason = rival.why_not(task)
        if reason is not None:
            return result | {"missing": reason}
        try:
            return result | measure()
        except Exception as failure:
            return result | {"failed": _describe(failure)}

    def _rows(self, result: Any, rows: npt.NDArray[np.intp]) -> Array:
        """Copy some rows of a device array to the host."""
        assert self.arrays is not None
        return np.stack([self.arrays.get(result[int(row)]) for row in rows])

    def _clock(self) -> Clock:
        if self.arrays is None:
            return HostClock()
        return EventClock(self.device, self.arrays.stream(), before=self.arrays.flush)

    def _free(self) -> None:
        gc.collect()
        if self.arrays is not None:
            self.arrays.free()


def _describe(error: Exception) -> str:
    """Say what went wrong in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _json_number(value: float) -> float | str:
    """JSON has no infinity: the word stands for it."""
    return value if np.isfinite(value) else str(value)
