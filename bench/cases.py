"""What can be measured: one operation on one shape, type and metric."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

import gpudist
from bench import memory
from bench.adversary import COLUMNS, DISTRIBUTIONS, ROWS, Variant
from gpudist.measure import samples
from gpudist.measure.samples import Sample
from gpudist.metrics import METRICS

Array = npt.NDArray[Any]

_SEED = 20_240_229
_ROWS_AT_ONCE = 512
_TOUCHED_AT_ONCE = 1 << 24
_GRAPHS_CHECKED = 16

_TRUTHS = tuple(record.name for record in METRICS if record.domain != "numbers")


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

    def call(self, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation."""
        ...

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel `call` runs, and what it has to do at least."""
        ...

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        ...


class _Plain(Case, Protocol):
    """A case that is one call of one function."""

    @property
    def function(self) -> str:
        """The function's name."""
        ...

    @property
    def given(self) -> dict[str, Any]:
        """What the function is called with beside its operands."""
        ...


class _Call:
    """What cases have in common that are one call of one function."""

    __slots__ = ()

    @property
    def arguments(self) -> str:
        """Name nothing."""
        return ""

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give no arguments."""
        return {}

    @property
    def function(self: Case) -> str:
        """Give the operation: functions are called like them."""
        return self.op

    @property
    def given(self: Case) -> dict[str, Any]:
        """Give the metric, if there is one, and its arguments."""
        return self.metric_args | ({} if self.metric is None else {"metric": self.metric})

    def call(self: _Plain, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation."""
        function = getattr(gpudist, self.function)
        return function(*operands, kernel=kernel, device=device, **self.given)

    def explain(self: _Plain, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        return gpudist.explain(self.function, *operands, device=device, **self.given)

    def sample(self: _Plain, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return samples.sample(self.function, operands, self.given)


@dataclass(frozen=True, slots=True)
class CdistCase(_Call):
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


@dataclass(frozen=True, slots=True)
class PdistCase(_Call):
    """Distances between every two of `n` points in `d` dimensions, drawn uniformly.

    Parameters
    ----------
    n, d : int
        Points and dimensions.
    dtype : str
        ``float32`` or ``float64``.
    metric : str
        The metric, one without arguments.
    """

    n: int
    d: int
    dtype: str
    metric: str = "euclidean"
    op: ClassVar[str] = "pdist"

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the points, twice, and the dimensions."""
        return self.n, self.n, self.d

    def operands(self) -> tuple[Array, ...]:
        """Draw the points."""
        rng = np.random.default_rng(_SEED)
        return (_points(rng, self.n, self.d, self.metric).astype(self.dtype),)


@dataclass(frozen=True, slots=True)
class KnnCase(_Call):
    """The `k` nearest neighbours of `m` points among `n` others in `d` dimensions.

    Parameters
    ----------
    m, n, d : int
        Points, points to search among, and dimensions. With `m` of 0 the `n` points are searched
        for each other.
    k : int
        How many neighbours.
    dtype : str
        ``float32`` or ``float64``.
    metric : str
        The metric, one without arguments.
    kind : {"uniform", "clusters"}
        How points are spread: clusters are a hundred of a hundredth of the space's width.
    """

    m: int
    n: int
    d: int
    k: int
    dtype: str
    metric: str = "euclidean"
    kind: str = "uniform"
    op: ClassVar[str] = "knn"

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

    def operands(self) -> tuple[Array, ...]:
        """Draw the points."""
        rng = np.random.default_rng(_SEED)
        sets = [rng.random((rows, self.d)) for rows in (self.m, self.n) if rows]
        if self.kind == "clusters":
            middles = rng.random((100, self.d))
            sets = [middles[rng.integers(100, size=len(x))] + x / 100 for x in sets]
        return tuple(x.astype(self.dtype) for x in sets)


class _PathsCase(_Call):
    """What cases of shortest paths have in common, of one graph or of many."""

    __slots__ = ()
    dtype: str
    predecessors: bool
    kind: str

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

    @property
    def given(self) -> dict[str, Any]:
        """Give the type as well."""
        return {"dtype": self.dtype, **self.metric_args}


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
    op: ClassVar[str] = "apsp"
    metric: ClassVar[str | None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the nodes, twice."""
        return self.n, self.n

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

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes; updates that it need not do have no limit."""
        said = _Call.explain(self, operands, device)
        if self.metric_args.keys() & {"directed", "unweighted"}:
            return dataclasses.replace(said, work=dataclasses.replace(said.work, pipe=None))
        return said

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Find the paths from some nodes in float64."""
        heights = self._heights()
        if heights is None:
            return _Call.sample(self, operands)
        # A path is as much longer as its ends are apart in height: the nearest nodes come first.
        level = _draw_weights(self.n, np.zeros_like(heights))
        found = _Call.sample(self, (level,))
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
        part *= 1998.0
        part -= 998.0
        np.clip(part, 0.0, None, out=part)
        np.ceil(part, out=part, where=part < 1.0)
        if heights is not None:
            np.ceil(part, out=part)
            part += (heights[first : first + len(part), None] - heights) * (part > 0)

    with ThreadPoolExecutor() as pool:
        list(pool.map(draw, range(0, n, _ROWS_AT_ONCE)))
    return weights


@dataclass(frozen=True, slots=True)
class ApspBatchCase(_PathsCase):
    """Shortest paths in `count` graphs of `n` nodes each, half of the edges there.

    Parameters
    ----------
    count, n : int
        Graphs, and nodes of each.
    dtype : str
        Of the result. Weights are whole numbers from 1 to 999 where it holds whole numbers alone.
    predecessors : bool, default False
        Whether predecessors are asked for.
    kind : {"", "undirected", "unweighted"}
        What is special about the graphs.
    """

    count: int
    n: int
    dtype: str
    predecessors: bool = False
    kind: str = ""
    op: ClassVar[str] = "apsp_batch"
    metric: ClassVar[str | None] = None

    @property
    def function(self) -> str:
        """Give the one function of paths."""
        return "apsp"

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the graphs, and the nodes twice."""
        return self.count, self.n, self.n

    def operands(self) -> tuple[Array, ...]:
        """Draw weights from 1 to 1000; 0 is no edge."""
        weights = np.random.default_rng(_SEED).random(self.shape, np.float32)
        weights *= 1998.0
        weights -= 998.0
        np.clip(weights, 0.0, None, out=weights)
        np.ceil(weights, out=weights, where=weights < 1.0)
        if "int" in self.dtype:
            np.floor(weights, out=weights)
        return (weights.astype(self.dtype, copy=False),)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Find the paths in some graphs in float64."""
        some = samples.sample_rows(self.count, _GRAPHS_CHECKED)
        parts = [_Call.sample(self, (operands[0][k],)) for k in some]

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
class MinplusCase(_Call):
    """A product of an `m` x `k` and a `k` x `n` matrix over a semiring.

    Parameters
    ----------
    m, k, n : int
        Sizes.
    dtype : str
        ``float32``, ``float64`` or ``int32``; ``bool`` for or_and.
    semiring : str
        As `gpudist.minplus` takes it.
    below : int, default 1000
        The numbers are smaller. In int32 smaller ones than 8192 take half the instructions.
    """

    m: int
    k: int
    n: int
    dtype: str
    semiring: str = "min_plus"
    below: int = 1000
    op: ClassVar[str] = "minplus"
    metric: ClassVar[str | None] = None

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

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the sizes."""
        return self.m, self.k, self.n

    def operands(self) -> tuple[Array, ...]:
        """Draw whole numbers; a hundredth of those below 1000 is true for or_and."""
        rng = np.random.default_rng(_SEED)
        drawn = (
            rng.integers(self.below, size=shape) for shape in ((self.m, self.k), (self.k, self.n))
        )
        return tuple((x < 10 if self.dtype == "bool" else x).astype(self.dtype) for x in drawn)

    @property
    def given(self) -> dict[str, Any]:
        """Give the type as well."""
        return {"dtype": self.dtype, **self.metric_args}


@dataclass(frozen=True, slots=True)
class ClosureCase(_Call):
    """What can be reached in a graph of `n` nodes, four edges a node.

    Parameters
    ----------
    n : int
        Nodes.
    """

    n: int
    op: ClassVar[str] = "transitive_closure"
    dtype: ClassVar[str] = "bool"
    metric: ClassVar[str | None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the nodes, twice."""
        return self.n, self.n

    def operands(self) -> tuple[Array, ...]:
        """Draw the edges."""
        rng = np.random.default_rng(_SEED)
        edges = np.zeros((self.n, self.n), bool)
        edges[np.arange(self.n)[:, None], rng.integers(self.n, size=(self.n, 4))] = True
        return (edges,)


@dataclass(frozen=True, slots=True)
class PerronCase(_Call):
    """The largest eigenvalue of an `n` x `n` matrix.

    Parameters
    ----------
    n : int
        Rows.
    dtype : str
        ``float32`` or ``float64``.
    matrix : {'uniform', 'Hilbert'}
        Numbers drawn uniformly, or ``1 / (i + j + 1)``.
    """

    n: int
    dtype: str
    matrix: str = "uniform"
    op: ClassVar[str] = "perron"
    metric: ClassVar[str | None] = None

    @property
    def arguments(self) -> str:
        """Name the matrix."""
        return self.matrix

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the rows, twice."""
        return self.n, self.n

    def operands(self) -> tuple[Array, ...]:
        """Make the matrix."""
        i = np.arange(self.n, dtype=np.float64)
        if self.matrix == "Hilbert":
            return ((1.0 / (i[:, None] + i + 1.0)).astype(self.dtype),)
        rng = np.random.default_rng(_SEED)
        return (rng.random((self.n, self.n)).astype(self.dtype),)

    def do_rounds(self, operands: tuple[Any, ...], device: str, rounds: int) -> Any:
        """Do so many rounds, converged or not.

        Parameters
        ----------
        operands : tuple of array
            The matrix.
        device : str
            Where to compute.
        rounds : int
            Products with the matrix.

        Returns
        -------
        gpudist.PerronResult
            What they found.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
            return gpudist.perron(operands[0], tol=0, max_iter=rounds, device=device)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes, and count the work of all rounds."""
        said = _Call.explain(self, operands, device)
        rounds = self.call(operands, device).iterations
        read, operations = said.work.read * rounds, said.work.operations * rounds
        work = dataclasses.replace(said.work, read=read, operations=operations)
        return dataclasses.replace(said, work=work)


class Around:
    """What cases have in common that do another one, in some way or some place."""

    __slots__ = ()
    inner: CdistCase | PdistCase | ApspCase | KnnCase

    @property
    def dtype(self) -> str:
        """Give the type of arguments and result."""
        return self.inner.dtype

    @property
    def metric(self) -> str | None:
        """Give the metric."""
        return self.inner.metric

    @property
    def arguments(self) -> str:
        """Name the metric's arguments."""
        return self.inner.arguments

    @property
    def metric_args(self) -> dict[str, Any]:
        """Give the metric's arguments."""
        return self.inner.metric_args

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the sizes."""
        return self.inner.shape


@dataclass(frozen=True, slots=True)
class TransferCase(Around):
    """A call from NumPy arrays to a NumPy array, the ways to a GPU and back included.

    Parameters
    ----------
    inner : CdistCase, PdistCase or ApspCase
        What is computed.
    into : bool, default False
        Whether the result is written into an array that is there. A fresh one costs the first
        touch of its memory.
    anywhere : bool, default False
        Whether ``auto`` chooses the device.
    recycled : bool, default False
        Whether a new result takes the memory of the one before (`gpudist.recycle_results`).
    """

    inner: CdistCase | PdistCase | ApspCase
    into: bool = False
    anywhere: bool = False
    recycled: bool = False
    op: ClassVar[str] = "transfer"

    @property
    def arguments(self) -> str:
        """Say what of the points is wanted, and where the result goes."""
        words = ["pairs"] if isinstance(self.inner, PdistCase) else []
        words += ["where auto puts it"] if self.anywhere else []
        place = "recycled" if self.recycled else "new"
        return ", ".join([*words, "into out=" if self.into else f"into {place} memory"])

    def device(self, device: str) -> str | None:
        """Say what the call is told, where the run is on `device`."""
        return None if self.anywhere else device

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, and the result's place last if there is to be one."""
        given = self.inner.operands()
        if not self.into:
            return given
        need, there = self._result_bytes(), memory.available()
        if there is not None and need > there:
            raise MemoryError(f"the result has {need} bytes, and the host {there}")
        return (*given, touched(self._result_shape(), self.dtype))

    def _result_shape(self) -> tuple[int, ...]:
        m, n = self.shape[:2]
        return (m * (m - 1) // 2,) if isinstance(self.inner, PdistCase) else (m, n)

    def _result_bytes(self) -> int:
        return math.prod(self._result_shape()) * np.dtype(self.dtype).itemsize

    def call(self, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation. Who measures a case of recycled memory gives it back afterwards."""
        given: dict[str, Any] = {"kernel": kernel, "device": self.device(device)}
        if self.recycled:
            gpudist.recycle_results(2 * self._result_bytes())  # memory comes in huge pages
        if self.into:
            given["out"] = operands[-1]
            operands = operands[:-1]
        return getattr(gpudist, self.inner.op)(*operands, **given, **self.inner.given)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel runs."""
        given = operands[:-1] if self.into else operands
        if self.anywhere:
            return gpudist.explain(self.inner.op, *given, **self.inner.given)
        return self.inner.explain(given, device)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return self.inner.sample(operands[:-1] if self.into else operands)


def touched(shape: tuple[int, ...], dtype: str) -> Array:
    """Make an array whose memory the system has handed out, by all cores: until then none has.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : str
        Its type.

    Returns
    -------
    array
        Of zeros.
    """
    array = np.empty(shape, dtype)
    flat = array.reshape(-1)

    def touch(first: int) -> None:
        flat[first : first + _TOUCHED_AT_ONCE].fill(0)

    with ThreadPoolExecutor() as pool:
        list(pool.map(touch, range(0, flat.size, _TOUCHED_AT_ONCE)))
    return array


@dataclass(frozen=True, slots=True)
class AfterProductCase(Around):
    """A call right after a product of NumPy's, whose BLAS keeps its threads busy for a while.

    Parameters
    ----------
    inner : CdistCase or ApspCase
        The call.
    """

    inner: CdistCase | ApspCase

    @property
    def op(self) -> str:
        """Give the operation."""
        return self.inner.op

    @property
    def arguments(self) -> str:
        """Name the metric's arguments, and say what comes before."""
        return ", ".join(filter(None, (self.inner.arguments, "after a product")))

    def product(self) -> Array:
        """Multiply as matrices what takes NumPy's BLAS a few milliseconds."""
        return _factor() @ _factor()

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments."""
        return self.inner.operands()

    def call(self, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation."""
        return self.inner.call(operands, device, kernel)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        return self.inner.explain(operands, device)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return self.inner.sample(operands)


@functools.cache
def _factor() -> Array:
    return np.random.default_rng(_SEED).random((600, 600))


@dataclass(frozen=True, slots=True)
class FirstCallCase:
    """The first distances of a process, and what they wait for.

    Parameters
    ----------
    n, d : int
        Points, twice, and dimensions.
    """

    n: int
    d: int
    op: ClassVar[str] = "first call"
    dtype: ClassVar[str] = "float32"
    metric: ClassVar[str] = "euclidean"
    arguments: ClassVar[str] = "of a process"

    @property
    def shape(self) -> tuple[int, ...]:
        """Give rows, columns and dimensions."""
        return self.n, self.n, self.d

    def run(self, device: str) -> dict[str, float]:
        """Start a process and have it tell its times.

        Parameters
        ----------
        device : str
            ``cpu`` or ``cuda:0``.

        Returns
        -------
        dict
            Seconds: ``import_s`` of gpudist after NumPy, ``device_s`` until the device answers,
            ``first_s`` of the first call after that and ``later_s`` of the next one.
        """
        command = [sys.executable, "-c", _FIRST_CALL, str(self.n), str(self.d), device]
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
    """What ``auto`` takes for a shape, against every kernel that can do it.

    Parameters
    ----------
    inner : CdistCase
        What is computed.
    """

    inner: CdistCase
    op: ClassVar[str] = "sweep"


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
