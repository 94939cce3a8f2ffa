"""What the steps of a ladder are run on: operands, the call, its limits and its exact result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist import _core, arrays
from gpudist.measure.samples import by_nearest

Array = npt.NDArray[Any]

_SEED = 20_240_229

# Rows of a result that are compared with exact ones, and pair-dimensions of theirs: a second of
# NumPy.
_ROWS = 64
_PAIR_DIMENSIONS = 1 << 25

# The two largest eigenvalues of Hilbert matrices are apart enough for 1e-10 after so many rounds.
_ROUNDS = 30

# The study's loop rounds its copy of the matrix, and float32 sums by atomic additions never agree
# to 1e-6: it would run for a thousand rounds of 50 ms. So all are asked for the same: a width that
# the better versions reach in 29 rounds, and no more than this many for those that do not.
_WIDTH, _MOST_ROUNDS = 1e-5, 32


class Problem(Protocol):
    """One size and type of an operation. A new operation is one class like these."""

    @property
    def op(self) -> str:
        """The operation."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The operation's sizes."""
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
    def in_place(self) -> bool:
        """Whether a call changes its arguments."""
        ...

    @property
    def limits(self) -> dict[str, float]:
        """The bytes or operations of each ceiling that a call needs at least, by its name."""
        ...

    @property
    def amount(self) -> tuple[float, str]:
        """What a rate counts, and its unit."""
        ...

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, the same in every run."""
        ...

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Do the operation; `how` holds kernel, options and device."""
        ...

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        ...

    def exact(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Give some rows' numbers, and those rows of the result in float64."""
        ...

    def sample(self, result: Any, rows: npt.NDArray[np.intp], get: Callable[[Any], Array]) -> Array:
        """Take the same rows of a result; `get` brings an array to the host."""
        ...

    def for_rivals(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Give the arguments as other libraries know them."""
        ...


@dataclass(frozen=True, slots=True)
class Distances:
    """Euclidean distances between `m` and `n` points in `d` dimensions, drawn uniformly.

    Parameters
    ----------
    m, n, d : int
        Points and dimensions.
    counts : {'bytes', 'operations'}
        What rates count: bytes written, or a subtraction, a multiplication and an addition for
        each dimension of each pair.
    same : bool, default False
        Whether both sets are the same array.
    """

    m: int
    n: int
    d: int
    counts: str
    same: bool = False
    op: ClassVar[str] = "cdist"
    in_place: ClassVar[bool] = False
    dtype: ClassVar[str] = "float32"
    metric: ClassVar[str | None] = "euclidean"

    @property
    def shape(self) -> tuple[int, ...]:
        """Give rows, columns and dimensions."""
        return self.m, self.n, self.d

    @property
    def limits(self) -> dict[str, float]:
        """Count bytes written, and two slots of the multiply-adds' pipe a pair-dimension."""
        return {"write": 4.0 * self.m * self.n, "fma": 2.0 * self.m * self.n * self.d}

    @property
    def amount(self) -> tuple[float, str]:
        """Count bytes or operations."""
        if self.counts == "bytes":
            return 4.0 * self.m * self.n, "B/s"
        return 3.0 * self.m * self.n * self.d, "FLOP/s"

    def operands(self) -> tuple[Array, ...]:
        """Draw one or both sets of points."""
        rng = np.random.default_rng(_SEED)
        a = rng.random((self.m, self.d), dtype=np.float32)
        return (a, a) if self.same else (a, rng.random((self.n, self.d), dtype=np.float32))

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Compute the distances."""
        return gpudist.cdist(*operands, **how)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        return gpudist.explain("cdist", *operands, device=device)

    def exact(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Compute some rows, the first and the last among them."""
        a, b = operands
        count = min(_ROWS, self.m, max(2, _PAIR_DIMENSIONS // (self.n * self.d)))
        rows = np.unique(np.linspace(0, self.m - 1, count).astype(np.intp))
        # A row at a time: the reference may hold all differences of a block at once.
        found = [gpudist.cdist(a[i : i + 1], b, kernel="reference", dtype=np.float64) for i in rows]
        return rows, np.concatenate(found)

    def sample(self, result: Any, rows: npt.NDArray[np.intp], get: Callable[[Any], Array]) -> Array:
        """Take the same rows."""
        return np.stack([get(result[int(row)]) for row in rows])

    def for_rivals(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Give the same points."""
        return operands


@dataclass(frozen=True, slots=True)
class Paths:
    """Shortest paths between `n` nodes in int32: half of the edges there, weights 1 to 1000.

    Parameters
    ----------
    n : int
        Nodes.
    """

    n: int
    op: ClassVar[str] = "apsp"
    in_place: ClassVar[bool] = False
    dtype: ClassVar[str] = "int32"
    metric: ClassVar[str | None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the number of nodes."""
        return (self.n,)

    @property
    def limits(self) -> dict[str, float]:
        """Count an addition and a minimum for every three nodes."""
        return {"minplus": float(self.n) ** 3}

    @property
    def amount(self) -> tuple[float, str]:
        """Count the same."""
        return float(self.n) ** 3, "updates/s"

    def operands(self) -> tuple[Array, ...]:
        """Draw weights; as in the study, -1 is no edge."""
        rng = np.random.default_rng(_SEED)
        weights = rng.integers(-999, 1001, (self.n, self.n), dtype=np.int32)
        weights[weights <= 0] = -1
        return (weights,)

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Find the shortest paths."""
        return gpudist.apsp(operands[0], dtype="int32", no_edge=-1, **how)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        return gpudist.explain("apsp", operands[0], dtype="int32", no_edge=-1, device=device)

    def exact(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Find the shortest paths from some nodes, one node after the other."""
        (weights,) = operands
        rows = np.unique(np.linspace(0, self.n - 1, min(self.n, 4)).astype(np.intp))
        edges = np.where(weights < 0, np.inf, weights)
        np.fill_diagonal(edges, 0.0)
        lengths = np.stack([by_nearest(edges, int(row)) for row in rows])
        return rows, np.where(np.isinf(lengths), -1, lengths)

    def sample(self, result: Any, rows: npt.NDArray[np.intp], get: Callable[[Any], Array]) -> Array:
        """Take the same rows."""
        return np.stack([get(result[int(row)]) for row in rows])

    def for_rivals(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Give the weights in float32, with 0 for no edge."""
        (weights,) = operands
        return (np.where(weights < 0, 0, weights).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Root:
    """The Perron root of the Hilbert matrix of `n` rows in float32.

    Parameters
    ----------
    n : int
        Rows.
    """

    n: int
    op: ClassVar[str] = "perron"
    in_place: ClassVar[bool] = False
    dtype: ClassVar[str] = "float32"
    metric: ClassVar[str | None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the number of rows."""
        return (self.n,)

    @property
    def limits(self) -> dict[str, float]:
        """Count nothing: how often the matrix is read is up to the method."""
        return {}

    @property
    def amount(self) -> tuple[float, str]:
        """Count elements."""
        return float(self.n) ** 2, "elements/s"

    def operands(self) -> tuple[Array, ...]:
        """Make the matrix."""
        return (hilbert(self.n),)

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Find the root and its vector, as well as some tens of rounds can."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
            return gpudist.perron(operands[0], tol=_WIDTH, max_iter=_MOST_ROUNDS, **how)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes."""
        return gpudist.explain("perron", operands[0], device=device)

    def exact(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Find the root by Rayleigh quotients in float64: twice as many digits a round."""
        (a,) = operands
        x = np.ones(self.n) / self.n**0.5
        for _ in range(_ROUNDS):
            # In parts: the whole matrix in float64 would be twice the operand.
            y = np.concatenate([part.astype(np.float64) @ x for part in np.array_split(a, 16)])
            root = x @ y
            x = y / np.linalg.norm(y)
        return np.zeros(1, np.intp), np.array([root])

    def sample(self, result: Any, rows: npt.NDArray[np.intp], get: Callable[[Any], Array]) -> Array:
        """Take the root."""
        return np.array([result.value])

    def for_rivals(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Give the same matrix."""
        return operands


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the perron study's loop by itself, in float32.

    Parameters
    ----------
    name : {'row_sum', 'vector_max', 'eigenvector', 'transform', 'converged'}
        Which part. The first and the fourth take a Hilbert matrix of `n` rows.
    n : int
        Row sums.
    """

    name: str
    n: int
    op: ClassVar[str] = "perron_part"
    in_place: ClassVar[bool] = True
    dtype: ClassVar[str] = "float32"
    metric: ClassVar[str | None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the shape of what is read the most."""
        return (self.n, self.n) if self._of_matrix else (self.n,)

    @property
    def limits(self) -> dict[str, float]:
        """Count bytes: those read, or where all are written as well, both."""
        n = 4.0 * self.n
        if self._of_matrix:
            return {"read": n * self.n} if self.name == "row_sum" else {"copy": 2 * n * self.n}
        return {"copy": 3 * n} if self.name == "eigenvector" else {"read": n}

    @property
    def amount(self) -> tuple[float, str]:
        """Count the same."""
        return next(iter(self.limits.values())), "B/s"

    @property
    def _of_matrix(self) -> bool:
        return self.name in ("row_sum", "transform")

    def operands(self) -> tuple[Array, ...]:
        """Make the matrix, row sums, the vector, the largest sum and the mark.

        Sums are so close to each other that what is scaled by them over and over stays in range.
        """
        rng = np.random.default_rng(_SEED)
        sums = 1 + rng.random(self.n, dtype=np.float32) / 1024
        if self.name == "converged":  # the last two alone differ, so nobody can stop early
            sums[:-1] = 1
        elif self.name == "vector_max":  # one stands out, so nobody can pass it over
            sums[self.n // 3] = 2
        return (
            hilbert(self.n) if self._of_matrix else np.empty((0, 0), np.float32),
            sums,
            1 - rng.random(self.n, dtype=np.float32) / 2,
            sums.max(keepdims=True),
            np.zeros(1, np.int32),
        )

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Run the part, and give what it writes."""
        space = arrays.space_of(**dict(zip(_PART_NAMES, operands, strict=True)))
        taken: dict[str, Any] = {
            name: space.operand(x, space.dtype_name(x), tuple(map(int, x.shape)))
            if x.shape[0] > 0
            else None
            for name, x in zip(_PART_NAMES, operands, strict=True)
        }
        where: dict[str, Any] = {"stream": space.stream(operands[1]), "ordered": space.ordered}
        _core.perron_part(**taken, epsilon=_EPSILON, **where, **how)
        return operands[_PART_NAMES.index(_WRITTEN[self.name])]

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say that ``auto`` takes no part."""
        raise ValueError("parts of the study's loop run only by name")

    def exact(self, operands: tuple[Array, ...]) -> tuple[npt.NDArray[np.intp], Array]:
        """Compute some elements, or rows, of what is written."""
        matrix, sums, vector, top, _ = operands
        if self.name == "vector_max":
            return np.zeros(1, np.intp), sums.max(keepdims=True).astype(np.float64)
        if self.name == "converged":
            apart = np.abs(np.diff(sums.astype(np.float64))) > _EPSILON * sums[:-1]
            return np.zeros(1, np.intp), np.array([float(apart.any())])
        rows = np.unique(np.linspace(0, self.n - 1, min(_ROWS, self.n)).astype(np.intp))
        wide = sums.astype(np.float64)
        if self.name == "row_sum":
            return rows, matrix[rows].sum(axis=1, dtype=np.float64)
        if self.name == "eigenvector":
            return rows, vector[rows] * (wide[rows] / top)
        return rows, matrix[rows] * (wide / wide[rows, None])

    def sample(self, result: Any, rows: npt.NDArray[np.intp], get: Callable[[Any], Array]) -> Array:
        """Take the same elements or rows."""
        return np.concatenate([get(result[int(row) : int(row) + 1]) for row in rows])

    def for_rivals(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Give nothing: no rival is asked."""
        return ()


_PART_NAMES = ("matrix", "sums", "vector", "top", "apart")
_WRITTEN = {
    "row_sum": "sums",
    "vector_max": "top",
    "eigenvector": "vector",
    "transform": "matrix",
    "converged": "apart",
}
# How far neighbouring sums may be apart and still agree.
_EPSILON = 1e-6


def hilbert(n: int) -> Array:
    """Make the Hilbert matrix in float32, whose element is 1 / (row + column + 1).

    Parameters
    ----------
    n : int
        Rows.

    Returns
    -------
    ndarray
        Of shape (n, n).
    """
    index = np.arange(n, dtype=np.float32)
    return np.asarray(1 / (index[:, None] + index + 1), np.float32)
