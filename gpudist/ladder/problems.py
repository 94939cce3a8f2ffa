"""What the steps of a ladder are run on: operands, the call, its limits and its exact result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist.bench.samples import by_nearest

Array = npt.NDArray[Any]

_SEED = 20_240_229

# Rows of a result that are compared with exact ones, and pair-dimensions of theirs: a second of
# NumPy.
_ROWS = 64
_PAIR_DIMENSIONS = 1 << 25

# The two largest eigenvalues of Hilbert matrices are apart enough for 1e-10 after so many rounds.
_ROUNDS = 30


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
        index = np.arange(self.n, dtype=np.float32)
        return (1 / (index[:, None] + index + 1),)

    def call(self, operands: tuple[Any, ...], **how: Any) -> Any:
        """Find the root and its vector."""
        function: Any = getattr(gpudist, self.op)
        return function(operands[0], **how)

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
