"""The Perron root and vector of a nonnegative matrix."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, homes, named, spreading
from gpudist.errors import ConvergenceWarning
from gpudist.intake import Operands, Orders, operands
from gpudist.nx import graphs


@dataclass(frozen=True, slots=True, eq=False)
class PerronResult:
    """What `perron` found.

    Attributes
    ----------
    value : float
        The Perron root, somewhere between the bounds.
    vector : array, shape (n,)
        The Perron vector: positive, with 1 as its largest component.
    lower, upper : float
        The root lies between them, whatever was rounded on the way.
    iterations : int
        Products with the matrix that were done.
    converged : bool
        Whether the ratios of the last product were within `tol`, so ``upper - lower`` is.
    """

    value: float
    vector: Any
    lower: float
    upper: float
    iterations: int
    converged: bool

    def __repr__(self) -> str:
        """Show all but the vector's components."""
        shape = f"{len(self.vector)} components of {str(self.vector.dtype).removeprefix('torch.')}"
        return (
            f"PerronResult(value={self.value!r}, lower={self.lower!r}, upper={self.upper!r}, "
            f"iterations={self.iterations}, converged={self.converged}, vector: {shape})"
        )


def perron(
    A: Any,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    shift: float | str = "auto",
    x0: Any = None,
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    max_memory: int | str | None = None,
) -> PerronResult:
    """Compute the largest eigenvalue of a nonnegative matrix, between bounds, and its eigenvector.

    Parameters
    ----------
    A : array_like, shape (n, n), or NetworkX graph
        Nonnegative and irreducible: from every i a path of elements that are not 0 leads to every
        j. A positive matrix is. Anything that NumPy accepts, in any layout, or an array on a CUDA
        device (PyTorch, CuPy or Numba, whose kind the vector is of). Never modified. A
        NetworkX graph stands for its adjacency matrix as `networkx.to_numpy_array` makes it: node i
        is the i-th of ``list(A)``, edges weigh their attribute "weight", 1 where it is missing and
        0 where it is None, and parallel edges add up.
    tol : float
        The iteration ends when the ratios of ``A @ x`` to x, which bound the root, are within
        `tol` of each other, relative to the least of them.
    max_iter : int
        It ends after so many products with `A` in any case.
    shift : float or "auto"
        Iterate with ``A + shift * I``, which has the same eigenvectors; bounds are of `A`. It helps
        where other eigenvalues have the root's modulus, as a cyclic matrix's have. By default
        without one at first, and with one near the root if that is slow.
    x0 : array_like, shape (n,), optional
        A positive vector to start from; ones by default.
    kernel : str
        "auto", "reference" (NumPy, slow, on host arrays only), or an id from `gpudist.kernels`.
    device : str, or device of PyTorch or CuPy, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N". By default the GPU where there
        is one and the problem is worth the way there, else the CPU.
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    max_memory : int or str, optional
        How many bytes of the device's memory the call may hold at once, or a text such as "500 MB"
        or "1.5GiB", as for `apsp`.

    Returns
    -------
    PerronResult
        The root with its bounds, and the vector: float32 for a float32 matrix (on a device also
        float16 or bfloat16), otherwise float64, of the input's library and on its device.

    Raises
    ------
    TypeError
        Complex, masked or object input; `x0` in another place than `A`.
    ValueError
        `A` is not square, is empty, has a negative, infinite or NaN element (the first is named),
        a zero row, or is reducible; `x0` is not positive, or has another length; `tol`, `max_iter`
        or `shift` is out of range; an unknown kernel.
    OverflowError
        Products with `A` are larger than float64 can hold.
    MemoryError
        What is needed beside `A` does not fit.
    gpudist.DeviceError
        `device` or `kernel` asks for CUDA, and it cannot be used; the message says why.

    Warns
    -----
    gpudist.ConvergenceWarning
        `tol` was not reached within `max_iter` products. The bounds are true ones all the same, and
        the result has ``converged=False``.

    Notes
    -----
    The method is x <- A x. For any positive x, the root lies between the least and the largest of
    ``(A @ x) / x`` (Collatz [1]_, Wielandt [2]_), so every round has bounds, and `A` is read once a
    round. Products are added up in float64, float32 input included, and the bounds are moved apart
    by all that rounding may have changed: `lower` and `upper` hold, and a `tol` down to some 1e-13
    can be reached.

    A common way to the root is to replace A by ``inv(S) @ A @ S`` with S the diagonal matrix of its
    row sums, again and again, until all row sums are alike: the least and the largest of them bound
    the root (Frobenius [3]_), and each step is a similarity transform. It takes the same way. After
    k steps the matrix is ``inv(D) @ A @ D`` with D the product of all S, its row sums are
    ``(A @ d) / d`` with d the diagonal of D, and the next d is ``d * ((A @ d) / d) = A @ d``. So d
    is x of round k, starting from ones, and the bounds are the same; only that A need not be
    written.

    Where the ratio of the two largest eigenvalues is near 1, x is replaced every few rounds by a
    combination of the last ones (reduced rank extrapolation [4]_). The next round's bounds are
    those of the new x, so they do not rely on it.

    An array on a device whose rows are not dense, or do not start at multiples of 16 bytes, is
    copied there first. Zeros in `A` cost another look at it, and a search of its graph.

    References
    ----------
    .. [1] L. Collatz, "Einschliessungssatz fuer die charakteristischen Zahlen von Matrizen",
       Math. Z. 48, 1942.
    .. [2] H. Wielandt, "Unzerlegbare, nicht negative Matrizen", Math. Z. 52, 1950.
    .. [3] G. Frobenius, "Ueber Matrizen aus nicht negativen Elementen", Sitzungsber. Preuss. Akad.
       Wiss., 1912.
    .. [4] A. Sidi, W. F. Ford, D. A. Smith, "Acceleration of convergence of vector sequences",
       SIAM J. Numer. Anal. 23, 1986.

    Examples
    --------
    >>> import gpudist
    >>> found = gpudist.perron([[1, 1, 2], [2, 1, 3], [2, 3, 5]])
    >>> round(found.value, 5), found.upper - found.lower < 1e-5
    (7.53113, True)

    Leslie's model of a population in three age groups: how fast it grows in the long run, and the
    share of each group then.

    >>> leslie = [[0.0, 1.2, 1.1], [0.6, 0.0, 0.0], [0.0, 0.8, 0.0]]
    >>> growth = gpudist.perron(leslie)
    >>> round(growth.value, 4), (growth.vector / growth.vector.sum()).round(3)
    (1.0962, array([0.514, 0.281, 0.205]))

    The stationary distribution of a Markov chain, through the transpose of its transition matrix.

    >>> chain = np.array([[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.1, 0.4, 0.5]])
    >>> weights = gpudist.perron(chain.T).vector
    >>> (weights / weights.sum()).round(3)
    array([0.708, 0.208, 0.083])

    The eigenvector centrality of the nodes of a graph.

    >>> friends = np.array([[0, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    >>> centrality = gpudist.perron(friends).vector
    >>> centrality.round(3)
    array([1.   , 0.855, 0.855, 0.461])
    """
    orders = Orders(kernel, device, options, False, max_memory).read("perron")
    matrix, name = read(A)
    start = None if x0 is None else _start(matrix, x0)
    rounds = _Rounds(*_numbers(tol, max_iter, shift), start)
    compute = _reference if kernel == "reference" else _compute
    found = compute(matrix, name, rounds, orders)
    if not found.converged:
        width = (found.upper - found.lower) / found.upper if found.upper > 0 else math.inf
        warnings.warn(
            f"perron reached a relative width of {width:.1e} in {found.iterations} rounds, not "
            f"tol = {rounds.tol:.1e}",
            ConvergenceWarning,
            stacklevel=2,
        )
    home = homes.of(A)
    return found if home is None else replace(found, vector=home.named(found.vector))


class _Rounds(NamedTuple):
    """How the iteration goes; a shift of -1 stands for "auto", a start of None for ones."""

    tol: float
    max_iter: int
    shift: float
    start: Any


def read(A: Any) -> tuple[Operands, str]:
    """Read and check all that does not need the core; return also the dtype of the vector."""
    if graphs.is_graph(A):
        A = spreading.adjacency(A, "A")
    named.refuse_turned(A, "A")
    matrix = operands({"A": A})
    (shape,) = matrix.shapes
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"A must be square and not empty, got shape {shape}")
    return matrix, arrays.float_dtype(matrix.space, matrix.dtypes, None, None)


def _start(matrix: Operands, x0: Any) -> Any:
    n = matrix.shapes[0][0]
    x = arrays.parameter(matrix.space, x0, "x0")
    if x.shape != (n,):
        raise ValueError(f"x0 must have shape ({n},), got {x.shape}")
    x = np.ascontiguousarray(x)
    wrong = np.flatnonzero(~((x > 0) & (x < np.inf)))
    if len(wrong):
        raise ValueError(f"x0 must be positive and finite, but x0[{wrong[0]}] is {x[wrong[0]]}")
    return x


def _numbers(tol: Any, max_iter: Any, shift: Any) -> tuple[float, int, float]:
    """Check and return these arguments, a shift of -1 for "auto"."""
    tol, rounds = checks.number("tol", tol), checks.whole("max_iter", max_iter)
    if not 0 <= tol < math.inf:
        raise ValueError(f"tol must be a number from 0 on, got {tol!r}")
    if rounds < 1:
        raise ValueError(f"max_iter must be a whole number from 1 on, got {rounds}")
    rounds = min(rounds, sys.maxsize)  # more than anybody waits for
    if isinstance(shift, str) and shift == "auto":
        return tol, rounds, -1.0
    moved = math.nan if isinstance(shift, str) else checks.number("shift", shift)
    if not 0 <= moved < math.inf:
        raise ValueError(f'shift must be "auto" or a number from 0 on, got {shift!r}')
    return tol, rounds, moved


def _compute(matrix: Operands, name: str, rounds: _Rounds, orders: Orders) -> PerronResult:
    """Have the core compute."""
    space, (a,), (shape,) = matrix.space, matrix.given, matrix.shapes
    if space is not arrays.HOST:  # the core itself converts host arrays
        a = space.cast(a, name)
    vector = space.empty(shape[:1], name, like=a)
    value, lower, upper, done, converged = _core.perron(
        space.operand(a, name, shape),
        space.operand(vector, name, shape[:1]),
        *rounds,
        orders.kernel,
        orders.device,
        space.stream(a),
        space.ordered,
        orders.options,
        orders.max_memory,
    )
    return PerronResult(value, vector, lower, upper, done, converged)


def _reference(matrix: Operands, name: str, rounds: _Rounds, orders: Orders) -> PerronResult:
    from gpudist import reference

    arrays.refuse_devices(matrix.space, f'kernel="{orders.kernel}"')
    value, vector, lower, upper, done, converged = reference.perron(matrix.given[0], *rounds)
    vector = np.maximum(vector.astype(name), np.finfo(name).smallest_subnormal)
    return PerronResult(value, vector, lower, upper, done, converged)
