"""What can be measured: one operation on one shape, type and metric."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from bench import memory
from bench.adversary import COLUMNS, DISTRIBUTIONS, ROWS, Variant
from gpudist import several_gpus
from gpudist.demo.cluster import two_workers
from gpudist.measure import samples
from gpudist.measure.samples import Sample
from gpudist.metrics import METRICS

Array = npt.NDArray[Any]

_SEED = 20_240_229
_ROWS_AT_ONCE = 512
_TOUCHED_AT_ONCE = 1 << 24
_GRAPHS_CHECKED = 16
_ALL = "cuda:all"

_TRUTHS = tuple(record.name for record in METRICS if record.domain != "numbers")


class Case:
    """One operation on one shape, type and metric: a call of a function on what `operands` makes.

    A new operation is one class like those below.

    Attributes
    ----------
    op : str
        The operation.
    dtype : str
        The type of arguments and result.
    metric : str or None
        The metric, for distances.
    sizes : tuple of str
        The names of the operation's sizes.
    typed : bool
        Whether the function is told the type.
    on_host : bool
        Whether NumPy holds the operands wherever the call computes.
    """

    __slots__ = ()
    op: str
    dtype: str
    metric: str | None
    sizes: tuple[str, ...]
    typed = False
    on_host = False

    @property
    def arguments(self) -> str:
        """The metric's arguments in words, empty without."""
        return ""

    @property
    def metric_args(self) -> dict[str, Any]:
        """The metric's arguments."""
        return {}

    @property
    def shape(self) -> tuple[int, ...]:
        """The operation's sizes."""
        return tuple(getattr(self, name) for name in self.sizes)

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """The shape and the type of each result."""
        return ((self.shape[:2], self.dtype),)

    @property
    def function(self) -> str:
        """The function's name."""
        return self.op

    @property
    def given(self) -> dict[str, Any]:
        """What the function is called with beside its operands."""
        named = {"metric": self.metric} if self.metric else {}
        return self.metric_args | named | ({"dtype": self.dtype} if self.typed else {})

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, the same in every run."""
        raise NotImplementedError

    def prepare(
        self, operands: tuple[Any, ...], device: str | None, kernel: str = "auto", **how: Any
    ) -> Callable[[], Any]:
        """Give the call that does the operation: its arguments are made before it is timed."""
        function = getattr(gpudist, self.function)
        return functools.partial(
            function, *operands, kernel=kernel, device=device, **how, **self.given
        )

    def explain(self, operands: tuple[Any, ...], device: str | None) -> gpudist.Explanation:
        """Say which kernel the call runs, and what it has to do at least."""
        return gpudist.explain(self.function, *operands, device=device, **self.given)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return samples.sample(self.function, operands, self.given)


@dataclass(frozen=True, slots=True)
class CdistCase(Case):
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
    op = "cdist"
    sizes = "m", "n", "d"

    @property
    def arguments(self) -> str:
        """Name the exponent or the weights."""
        return "weighted" if self.weighted else "" if self.p is None else f"p = {self.p:g}"

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give the arguments that the metric needs, the same in every run."""
        rng = np.random.default_rng(_SEED)
        drawn = rng.uniform(0.5, 2.0, self.d)
        arguments: dict[str, Any] = {} if self.p is None else {"p": self.p}
        if self.weighted:
            arguments["w"] = drawn
        if self.metric == "seuclidean":
            arguments["V"] = drawn
        if self.metric == "mahalanobis":
            factor = rng.standard_normal((self.d, self.d)) / self.d + np.eye(self.d)
            arguments["VI"] = factor @ factor.T
        return arguments

    def operands(self) -> tuple[Array, ...]:
        """Draw both sets of points."""
        rng = np.random.default_rng(_SEED)
        points = (_points(rng, rows, self.d, self.metric) for rows in (self.m, self.n))
        return tuple(p.astype(self.dtype) for p in points)


def _points(rng: np.random.Generator, rows: int, d: int, metric: str) -> Array:
    points = rng.random((rows, d))
    if metric == "haversine":
        points = (points - 0.5) * np.array([np.pi, 2 * np.pi])
    elif metric in DISTRIBUTIONS:
        points /= points.sum(axis=1, keepdims=True)
    elif metric in _TRUTHS:
        np.rint(points, out=points)
    return points


@dataclass(frozen=True, slots=True)
class PdistCase(Case):
    """Distances between every two of `n` points in `d` dimensions, drawn uniformly."""

    n: int
    d: int
    dtype: str
    op = "pdist"
    metric = "euclidean"
    sizes = "n", "n", "d"

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Give one distance a pair."""
        return (((self.n * (self.n - 1) // 2,), self.dtype),)

    def operands(self) -> tuple[Array, ...]:
        """Draw the points."""
        rng = np.random.default_rng(_SEED)
        return (_points(rng, self.n, self.d, self.metric).astype(self.dtype),)


@dataclass(frozen=True, slots=True)
class KnnCase(Case):
    """The `k` nearest neighbours of `m` points among `n` others in `d` dimensions.

    With `m` of 0 the `n` points are searched for each other. They are spread uniformly, or in a
    hundred clusters of a hundredth of the space's width; those of ``bool`` are true in half of the
    dimensions.
    """

    m: int
    n: int
    d: int
    k: int
    dtype: str
    metric: str = "euclidean"
    kind: str = "uniform"
    op = "knn"

    @property
    def arguments(self) -> str:
        """Name the number of neighbours, and how points are spread unless uniformly."""
        words = [f"k = {self.k}", "" if self.kind == "uniform" else self.kind]
        return ", ".join([*filter(None, words), *(["among themselves"] if self.m == 0 else [])])

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give the number of neighbours."""
        return {"k": self.k}

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the points on both sides, and the dimensions."""
        return self.m or self.n, self.n, self.d

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Give distances and indices."""
        found = self.shape[0], self.k
        return (found, "float64" if self.dtype == "bool" else self.dtype), (found, "int64")

    def operands(self) -> tuple[Array, ...]:
        """Draw the points."""
        rng = np.random.default_rng(_SEED)
        if self.dtype == "bool":
            packed = [
                rng.integers(256, size=(rows, -(-self.d // 8)), dtype=np.uint8)
                for rows in (self.m, self.n)
                if rows
            ]
            return tuple(np.unpackbits(x, axis=1, count=self.d).view(bool) for x in packed)
        sets = [rng.random((rows, self.d)) for rows in (self.m, self.n) if rows]
        if self.kind == "clusters":
            middles = rng.random((100, self.d))
            sets = [middles[rng.integers(100, size=len(x))] + x / 100 for x in sets]
        return tuple(x.astype(self.dtype) for x in sets)


class _PathsCase(Case):
    """What cases of shortest paths have in common, of one graph or of many."""

    __slots__ = ()
    predecessors: bool
    kind: str
    typed = True

    @property
    def arguments(self) -> str:
        """Name the predecessors and what is special."""
        return ", ".join(filter(None, (self.kind, "predecessors" if self.predecessors else "")))

    @property
    def metric_args(self) -> dict[str, Any]:
        """Say what is special and ask for predecessors, if at all."""
        special = {"undirected": {"directed": False}, "unweighted": {"unweighted": True}}
        return special.get(self.kind, {}) | (
            {"return_predecessors": True} if self.predecessors else {}
        )


@dataclass(frozen=True, slots=True)
class ApspCase(_PathsCase):
    """Shortest paths between all pairs of `n` nodes, half of the edges there.

    Parameters
    ----------
    n : int
        Nodes.
    dtype : str
        ``float32``, ``float64`` or ``int32``.
    predecessors : bool, default False
        Whether predecessors are asked for.
    kind : {"", "undirected", "unweighted", "negative weights"}
        What is special about the graph: kernels make use of the first two, and the third takes the
        fastest one away from them.
    """

    n: int
    dtype: str
    predecessors: bool = False
    kind: str = ""
    op = "apsp"
    sizes = "n", "n"
    metric = None

    def operands(self) -> tuple[Array, ...]:
        """Draw weights from 1 to 1000, in int32 to 32000, lest most paths tie; 0 is no edge."""
        weights = _draw_weights(self.n, self._heights())
        if self.dtype == "int32":
            weights *= 32.0
        return (weights.astype(self.dtype, copy=False),)

    def _heights(self) -> Array | None:
        """Give the nodes' heights where weights are negative, so that no cycle gets longer."""
        if self.kind != "negative weights":
            return None
        return np.arange(self.n, dtype=np.float32) % 5 * 2000  # no weight becomes 0

    def explain(self, operands: tuple[Any, ...], device: str | None) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes; updates that it need not do have no limit."""
        said = Case.explain(self, operands, device)
        if self.metric_args.keys() & {"directed", "unweighted"}:
            return dataclasses.replace(said, work=dataclasses.replace(said.work, pipe=None))
        return said

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Find the paths from some nodes in float64."""
        heights = self._heights()
        if heights is None:
            return Case.sample(self, operands)
        # A path is as much longer as its ends are apart in height: the nearest nodes come first.
        level = _draw_weights(self.n, np.zeros_like(heights))
        found = Case.sample(self, (level,))
        rows = samples.sample_rows(self.n, found.rows)
        apart = heights[rows, None] - heights
        return dataclasses.replace(found, exact=found.exact + apart.ravel())


def _draw_weights(n: int, heights: Array | None) -> Array:
    """Draw weights of edges from 1 to 1000, by all cores; half of them are 0.

    With heights they are whole, which no sum rounds, and as much larger as nodes are apart.
    """
    weights = np.empty((n, n), np.float32)

    def draw(first: int) -> None:
        part = weights[first : first + _ROWS_AT_ONCE]
        np.random.default_rng((_SEED, first)).random(out=part, dtype=np.float32)
        _make_weights(part)
        if heights is not None:
            np.ceil(part, out=part)
            part += (heights[first : first + len(part), None] - heights) * (part > 0)

    with ThreadPoolExecutor() as pool:
        list(pool.map(draw, range(0, n, _ROWS_AT_ONCE)))
    return weights


def _make_weights(x: Array) -> None:
    """Turn numbers below 1 into weights from 1 to 1000, and half of them into 0."""
    x *= 1998.0
    x -= 998.0
    np.clip(x, 0.0, None, out=x)
    np.ceil(x, out=x, where=x < 1.0)


@dataclass(frozen=True, slots=True)
class ApspBatchCase(_PathsCase):
    """Shortest paths in `count` graphs of `n` nodes each, half of the edges there.

    Weights are whole numbers from 1 to 999 where the type holds whole numbers alone. The kind is
    one of `ApspCase`, if it is not of weights.
    """

    count: int
    n: int
    dtype: str
    predecessors: bool = False
    kind: str = ""
    op = "apsp_batch"
    function = "apsp"
    sizes = "count", "n", "n"
    metric = None

    def operands(self) -> tuple[Array, ...]:
        """Draw weights from 1 to 1000; 0 is no edge."""
        weights = np.random.default_rng(_SEED).random(self.shape, np.float32)
        _make_weights(weights)
        if "int" in self.dtype:
            np.floor(weights, out=weights)
        return (weights.astype(self.dtype, copy=False),)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Find the paths in some graphs in float64."""
        some = samples.sample_rows(self.count, _GRAPHS_CHECKED)
        parts = [Case.sample(self, (operands[0][k],)) for k in some]

        def pick(result: Any) -> list[Any]:
            return [
                row
                for part, k in zip(parts, map(int, some), strict=True)
                for row in part.pick(
                    (result[0][k], result[1][k]) if self.predecessors else result[k]
                )
            ]

        exact = np.concatenate([part.exact for part in parts])
        return Sample(sum(part.rows for part in parts), exact, pick)


@dataclass(frozen=True, slots=True)
class MinplusCase(Case):
    """A product of an `m` x `k` and a `k` x `n` matrix over a semiring, bool for or_and.

    Their numbers are below `below`. In int32 those below 8192 take half the instructions.
    """

    m: int
    k: int
    n: int
    dtype: str
    semiring: str = "min_plus"
    below: int = 1000
    op = "minplus"
    typed = True
    sizes = "m", "k", "n"
    metric = None

    @property
    def arguments(self) -> str:
        """Name the semiring and how large the numbers are, unless they are the usual ones."""
        semiring = "" if self.semiring == "min_plus" else self.semiring
        below = "" if self.below == 1000 else f"below {self.below}"
        return ", ".join(filter(None, (semiring, below)))

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give the semiring."""
        return {"semiring": self.semiring}

    def operands(self) -> tuple[Array, ...]:
        """Draw whole numbers; a hundredth of those below 1000 is true for or_and."""
        rng = np.random.default_rng(_SEED)
        drawn = (
            rng.integers(self.below, size=shape) for shape in ((self.m, self.k), (self.k, self.n))
        )
        return tuple((x < 10 if self.dtype == "bool" else x).astype(self.dtype) for x in drawn)


@dataclass(frozen=True, slots=True)
class ClosureCase(Case):
    """What can be reached in a graph of `n` nodes, four edges a node."""

    n: int
    op = "transitive_closure"
    sizes = "n", "n"
    dtype = "bool"
    metric = None

    def operands(self) -> tuple[Array, ...]:
        """Draw the edges."""
        rng = np.random.default_rng(_SEED)
        edges = np.zeros((self.n, self.n), bool)
        edges[np.arange(self.n)[:, None], rng.integers(self.n, size=(self.n, 4))] = True
        return (edges,)


@dataclass(frozen=True, slots=True)
class PerronCase(Case):
    """The largest eigenvalue of an `n` x `n` matrix.

    Its numbers are drawn uniformly, or are ``1 / (i + j + 1)`` of the Hilbert matrix.
    """

    n: int
    dtype: str
    arguments: str = "uniform"
    op = "perron"
    sizes = "n", "n"
    metric = None

    def operands(self) -> tuple[Array, ...]:
        """Make the matrix."""
        i = np.arange(self.n, dtype=np.float64)
        if self.arguments == "Hilbert":
            return ((1.0 / (i[:, None] + i + 1.0)).astype(self.dtype),)
        rng = np.random.default_rng(_SEED)
        return (rng.random((self.n, self.n)).astype(self.dtype),)

    def explain(self, operands: tuple[Any, ...], device: str | None) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes, and count the work of all rounds."""
        said = Case.explain(self, operands, device)
        rounds = self.prepare(operands, device)().iterations
        read, operations = said.work.read * rounds, said.work.operations * rounds
        work = dataclasses.replace(said.work, read=read, operations=operations)
        return dataclasses.replace(said, work=work)


class Around:
    """What cases have in common that do another one, in some way or some place.

    Attributes
    ----------
    inner : Case
        What is computed.
    into : bool
        Whether the results are written into arrays that are there. Fresh ones cost the first touch
        of their memory.
    """

    __slots__ = ()
    inner: Case
    into = False
    on_host = True

    def __getattr__(self, name: str) -> Any:
        """Give what such a case does not say itself: the other one's operation, shape and so on."""
        return getattr(self.inner, name)

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, and the places of results last if there are to be any."""
        given = self.inner.operands()
        return (*given, *itertools.starmap(touched, self.inner.results if self.into else ()))

    def place(self, device: str | None) -> str | None:
        """Say what the call is told, where the run is on `device`."""
        return device

    def _split(self, operands: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        count = len(operands) - (len(self.inner.results) if self.into else 0)
        return operands[:count], operands[count:]

    def prepare(
        self, operands: tuple[Any, ...], device: str | None, kernel: str = "auto", **how: Any
    ) -> Callable[[], Any]:
        """Give the call that does the operation where `place` says."""
        return self.prepare_on(self.place(device), operands, kernel=kernel, **how)

    def prepare_on(
        self, device: str | None, operands: tuple[Any, ...], **how: Any
    ) -> Callable[[], Any]:
        """Give the call that does the operation on this device."""
        given, places = self._split(operands)
        if places:
            how["out"] = places if len(places) > 1 else places[0]
        return self.inner.prepare(given, device, **how)

    def explain(self, operands: tuple[Any, ...], device: str | None) -> gpudist.Explanation:
        """Say which kernel runs."""
        return self.inner.explain(self._split(operands)[0], self.place(device))

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return self.inner.sample(self._split(operands)[0])


AnyCase = Case | Around


@dataclass(frozen=True, slots=True)
class TransferCase(Around):
    """A call from NumPy arrays to a NumPy array, the ways to a GPU and back included.

    Parameters
    ----------
    inner : Case
        What is computed.
    into : bool, default False
        Whether the result is written into an array that is there.
    anywhere : bool, default False
        Whether ``auto`` chooses the device.
    recycled : bool, default False
        Whether a new result takes the memory of the one before (`gpudist.recycle_results`).
    """

    inner: Case
    into: bool = False
    anywhere: bool = False
    recycled: bool = False
    op = "transfer"

    @property
    def arguments(self) -> str:
        """Say what of the points is wanted, and where the result goes."""
        words = ["pairs"] if self.inner.op == "pdist" else []
        words += ["where auto puts it"] if self.anywhere else []
        place = "recycled" if self.recycled else "new"
        return ", ".join([*words, "into out=" if self.into else f"into {place} memory"])

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, and the result's place last if there is to be one and has room."""
        need, there = self._result_bytes(), memory.available()
        if self.into and there is not None and need > there:
            raise MemoryError(f"the result has {need} bytes, and the host {there}")
        return Around.operands(self)

    def _result_bytes(self) -> int:
        ((shape, dtype),) = self.inner.results
        return math.prod(shape) * np.dtype(dtype).itemsize

    def place(self, device: str | None) -> str | None:
        """Leave the place to ``auto`` if it is to choose."""
        return None if self.anywhere else device

    def prepare_on(
        self, device: str | None, operands: tuple[Any, ...], **how: Any
    ) -> Callable[[], Any]:
        """Give the call. Who measures a case of recycled memory gives it back afterwards."""
        if self.recycled:
            gpudist.recycle_results(2 * self._result_bytes())  # memory comes in huge pages
        return Around.prepare_on(self, device, operands, **how)


def touched(shape: tuple[int, ...], dtype: str) -> Array:
    """Make an array of zeros whose memory the system has handed out, by all cores."""
    array = np.empty(shape, dtype)
    flat = array.reshape(-1)

    def touch(first: int) -> None:
        flat[first : first + _TOUCHED_AT_ONCE].fill(0)

    with ThreadPoolExecutor() as pool:
        list(pool.map(touch, range(0, flat.size, _TOUCHED_AT_ONCE)))
    return array


@dataclass(frozen=True, slots=True)
class SeveralCase(Around):
    """A call that all GPUs of the first one's kind share, from NumPy arrays into others."""

    inner: Case
    op = "several"
    beside = "one GPU"
    into = True

    @property
    def arguments(self) -> str:
        """Name the function and what else it is told."""
        return ", ".join(filter(None, (self.inner.op, self.inner.arguments, "into out=")))

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, and the places of the results last, if there are several GPUs."""
        if len(several_gpus.of(_ALL)) < 2:
            raise ValueError("there is one GPU of its kind, and several are measured here")
        return Around.operands(self)

    def place(self, device: str | None) -> str | None:
        """Name all GPUs, whichever is at hand."""
        return _ALL


@dataclass(frozen=True, slots=True)
class DaskCase(Around):
    """A plan for two workers, who hold the first operand in some parts, and keep the result.

    One process beside them has as many threads as they have together.
    """

    inner: Case
    parts: int
    op = "dask"
    beside = "one process"

    @property
    def arguments(self) -> str:
        """Name the function and what else it is told, and say into how many parts it is cut."""
        return ", ".join(filter(None, (self.inner.op, self.inner.arguments, f"{self.parts} parts")))

    def prepare(
        self, operands: tuple[Any, ...], device: str | None, kernel: str = "auto", **how: Any
    ) -> Callable[[], Any]:
        """Give the call that has the plan computed."""
        client, (first, *others) = _workers(), operands  # an error if Dask is missing
        import dask.array as da
        import distributed

        lazy = client.persist(da.from_array(first, chunks=(-(-len(first) // self.parts), -1)))
        distributed.wait(lazy)
        bands = {"bands": self.parts} if self.inner.op == "apsp" else {}
        calls = itertools.count()

        def compute() -> Any:
            # Under other names each time, or the scheduler may still know the result.
            anew = lazy.map_blocks(lambda x, _: x, next(calls), dtype=lazy.dtype)
            plan = self.inner.prepare((anew, *others), device, kernel, **how, **bands)()
            distributed.wait(kept := client.persist(plan))
            return kept

        return compute


@functools.cache
def _workers() -> Any:
    """Start the workers, who end when the process does."""
    until_then = contextlib.ExitStack()
    atexit.register(until_then.close)
    return until_then.enter_context(two_workers(memory_limit=0))


@dataclass(frozen=True, slots=True)
class AfterProductCase(Around):
    """A call right after a product of NumPy's, whose BLAS keeps its threads busy for a while."""

    inner: Case

    @property
    def arguments(self) -> str:
        """Name the metric's arguments, and say what comes before."""
        return ", ".join(filter(None, (self.inner.arguments, "after a product")))

    def product(self) -> Array:
        """Multiply as matrices what takes NumPy's BLAS a few milliseconds."""
        return _factor() @ _factor()


@functools.cache
def _factor() -> Array:
    return np.random.default_rng(_SEED).random((600, 600))


@dataclass(frozen=True, slots=True)
class FirstCallCase(Around):
    """The first distances of a process, of other numbers, and what they wait for."""

    inner: CdistCase
    op = "first call"
    arguments = "of a process"

    def run(self, device: str) -> dict[str, float]:
        """Start a process and have it tell its times in seconds: see `_FIRST_CALL`."""
        command = [sys.executable, "-c", _FIRST_CALL, *map(str, self.shape[1:]), device]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        times: dict[str, float] = json.loads(done.stdout)
        return times


_FIRST_CALL = """
import json, sys, time
import numpy as np

n, d, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
points = np.random.default_rng(1).random((n, d), np.float32)
times = [time.perf_counter()]
import gpudist
times.append(time.perf_counter())
if device != "cpu":
    gpudist._core.event_record(device, 2)  # the stream of this thread
times.append(time.perf_counter())
for _ in range(2):
    gpudist.cdist(points, points, device=device)
    times.append(time.perf_counter())
names = "import_s", "device_s", "first_s", "later_s"
print(json.dumps(dict(zip(names, np.diff(times).tolist(), strict=True))))
"""


@dataclass(frozen=True, slots=True)
class SweepCase(Around):
    """What ``auto`` takes for distances of a shape, against every kernel that can do it."""

    inner: CdistCase
    op = "sweep"
    on_host = False


@dataclass(frozen=True, slots=True)
class AccuracyCase:
    """The worst errors of a metric with arguments on the data sets that are hard for it."""

    variant: Variant
    dtype: str
    op = "accuracy"
    on_host = False

    def __getattr__(self, name: str) -> Any:
        """Give the metric and its arguments."""
        return getattr(self.variant, name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Give rows, columns and dimensions of each data set."""
        return (*ROWS, 2 if self.metric == "haversine" else COLUMNS)
