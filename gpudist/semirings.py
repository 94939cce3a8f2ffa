"""Matrix products over semirings."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from gpudist import _core, arrays, checks, errors, foreign, homes, registry, several_gpus, spreading
from gpudist.intake import Orders
from gpudist.nx import graphs
from gpudist.progress import Progress, watched

SEMIRINGS: Final = ("min_plus", "max_plus", "min_max", "max_min", "or_and")
"""What `minplus` knows: how the better of two ways is found, how two parts make a way."""

_NUMBERS = ("float32", "float64", "int32")
# Integers that int32 holds, whatever their values.
_NARROW = ("bool", "int8", "uint8", "int16", "uint16", "int32")
_ADDEND_LIMIT = 2**28


def check(semiring: str) -> None:
    """Raise a ValueError with a near match for an unknown semiring."""
    if checks.text("semiring", semiring) not in SEMIRINGS:
        hint = errors.suggest(semiring, SEMIRINGS, f"one of {', '.join(SEMIRINGS)}", most=1)
        raise ValueError(f"unknown semiring {semiring!r}; {hint}")


def neutral(semiring: str, dtype: str, *, opposite: bool = False) -> float:
    """Return what stands for "no way", or its opposite: an infinity, or an end of int32."""
    largest = semiring.startswith("min") != opposite
    if dtype == "int32":
        return 2**31 - 1 if largest else -(2**31)
    return np.inf if largest else -np.inf


@homes.returned("A")
def minplus(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    semiring: str = "min_plus",
    out: Any = None,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
) -> Any:
    """Multiply two matrices over a semiring: ``min(C, min over k of A[i, k] + B[k, j])``.

    Parameters
    ----------
    A, B : array_like, shapes (..., m, k) and (..., k, n), or NetworkX graphs
        The factors. Anything that NumPy accepts, in any layout, or arrays on one CUDA device
        (PyTorch, CuPy, Numba, or others as for `cdist`). Never modified. A
        NetworkX graph is the matrix of its edges' weights, as `apsp` reads them, with the neutral
        element where there is no edge, on the diagonal too. On the host also stacks of matrices,
        whose leading dimensions are broadcast as by `numpy.matmul`; each product has the bits that
        it has alone.
    C : array_like, shape (..., m, n), optional
        What the product is joined with; not modified unless it is `out`.
    semiring : {"min_plus", "max_plus", "min_max", "max_min", "or_and"}
        The notes say what each computes.
    out : array, shape (..., m, n), optional
        Where to write the result: C-contiguous, of a dtype that the semiring takes. It may be `A`,
        `B` or `C` itself; stacks that share memory with it are copied.
    dtype : {float32, float64, int32, bool}, optional
        The dtype of computation and result: bool for or_and; else by default float32 if all input
        is float32 (on a device also float16 or bfloat16), int32 if all is int32, otherwise float64.
        With int32 the input must be integers.
    kernel : str
        "auto", "reference" (NumPy in float64, slow, on host arrays only), or an id from
        `gpudist.kernels`.
    device : str, or device of PyTorch or CuPy, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N"; "cuda:all" or "cuda:0,2" for
        several GPUs, which share the rows. By default one GPU where there is one and the problem
        is worth the way there, else the CPU.
    options : dict, optional
        Launch parameters of a kernel asked for by name; ``gpudist.kernels()`` lists what it takes.
    progress : bool or callable
        Whether, or to whom, a long call tells how far it is; see `apsp`.
    max_memory : int or str, optional
        How many bytes of the device's memory the call may hold at once, or a text such as "500 MB"
        or "1.5GiB", as for `apsp`.

    Returns
    -------
    array, shape (..., m, n)
        The product: `out` if given, else a new array of the inputs' library, on their device.

    Raises
    ------
    TypeError
        Complex, masked or object input; one operand on the host and one on a device.
    ValueError
        Input of less than two dimensions, shapes that do not match, an unknown semiring or kernel,
        a dtype that the semiring does not take, a bad `out`; in int32 sums an element of magnitude
        2**28 or more (`out` may have been written to by then), or input that is no integer.
    MemoryError
        The result does not fit; nothing was allocated.
    gpudist.DeviceError
        `device` or `kernel` asks for CUDA, and it cannot be used; the message says why.

    See Also
    --------
    apsp : The lengths of shortest paths of any number of edges.

    Notes
    -----
    ========  ===============================================  ====================  =======
    semiring  element (i, j) of the product                    what it finds         neutral
    ========  ===============================================  ====================  =======
    min_plus  the least ``A[i, k] + B[k, j]``                  shortest ways         inf
    max_plus  the largest ``A[i, k] + B[k, j]``                longest ways          -inf
    min_max   the least of the larger of A[i, k] and B[k, j]   least bottlenecks     inf
    max_min   the largest of the lesser of A[i, k], B[k, j]    widest ways           -inf
    or_and    whether for some k both A[i, k] and B[k, j]      what can be reached   False
    ========  ===============================================  ====================  =======

    The neutral element stands for "no way": a product over no k is full of it, and what it is put
    together with is no way either, so ``inf + -inf`` is inf in min_plus and -inf in max_plus. NaN
    counts as the neutral element, in `A`, `B` and `C`. The result of a sum in floating point is the
    sum rounded once, and a minimum does not round: so the result has the same bits on every
    backend, and a row of it depends on that row of `A` and `C` and on `B` alone. Zeros are +0.0.

    In int32 the neutral element is `gpudist.UNREACHABLE`, 2**31 - 1, and -2**31 for the semirings
    that take a maximum. Sums are exact, since elements of magnitude 2**28 or more are refused, the
    neutral one aside; to see to that, a call on device arrays waits for the device. min_max and
    max_min take every int32. In or_and every number but 0 is true.

    Each factor is copied into another layout first, which takes as much memory as it does itself;
    for or_and an eighth of that. So `out` may share memory with them. A `C` that
    shares memory with `out` without being `out` is copied.

    Examples
    --------
    >>> import gpudist
    >>> inf = float("inf")
    >>> roads = [[0.0, 3.0, inf], [3.0, 0.0, 2.0], [inf, 2.0, 0.0]]
    >>> gpudist.minplus(roads, roads)  # two roads or fewer
    array([[0., 3., 5.],
           [3., 0., 2.],
           [5., 2., 0.]])
    >>> gpudist.minplus([[5, 1]], [[2], [9]], semiring="max_min")  # the wider of two ways
    array([[2.]])
    """
    if foreign.is_dask(A, B, C):
        from gpudist import dask

        return dask.minplus(
            A,
            B,
            C,
            semiring=semiring,
            out=out,
            dtype=dtype,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
        )
    if _is_stack(A) or _is_stack(B) or _is_stack(C):
        from gpudist import stacks

        return stacks.minplus(
            A,
            B,
            C,
            semiring=semiring,
            out=out,
            dtype=dtype,
            kernel=kernel,
            device=device,
            options=options,
            progress=progress,
            max_memory=max_memory,
        )
    orders = Orders(kernel, device, options, progress, max_memory).read("minplus")
    space, operands, name = _read(A, B, C, semiring, out, dtype)
    a, b, c = operands
    shape = (a.shape[0], b.shape[1])
    if kernel == "reference":
        return _reference(space, operands, semiring, name, shape, out)
    if space is not arrays.HOST:  # the core itself converts host arrays
        a, b, c = (x if x is None else space.cast(x, name) for x in operands)
    if out is None:
        out = space.empty(shape, name, like=a)
    elif c is not None and not arrays.in_place(space, c, out):
        (c,) = arrays.apart(space, {"C": c}, out)  # the core reads the factors before it writes
    if several_gpus.are_named(orders.device):
        several_gpus.check_on_host(space)
        a, b = arrays.apart(space, {"A": a, "B": b}, out)
        _share(a, b, c, out, semiring, orders)
    else:
        _compute(space, (a, b, c), out, semiring, orders)
    return out


def _compute(
    space: arrays.Space, operands: tuple[Any, Any, Any], out: Any, semiring: str, orders: Orders
) -> None:
    """Have the core multiply."""
    a, b, c = operands
    steps = a.shape[0] * b.shape[1] * a.shape[1]
    with watched(orders.progress, steps, "minplus") as watch:
        _core.minplus(
            a,
            b,
            c,
            out,
            semiring,
            orders.kernel,
            orders.device,
            space.stream(a),
            space.ordered,
            orders.options,
            watch,
            orders.max_memory,
        )


def _share(a: Any, b: Any, c: Any, out: Any, semiring: str, orders: Orders) -> None:
    """Have several GPUs multiply, each some rows at a time."""

    def compute(device: str, start: int, stop: int, tell: Progress) -> None:
        one = orders._replace(device=device, progress=tell)
        some = (a[start:stop], b, None if c is None else c[start:stop])
        _compute(arrays.HOST, some, out[start:stop], semiring, one)

    (rows, inner), devices = a.shape, several_gpus.of(orders.device)
    panels = several_gpus.panels(rows, len(devices))
    task = several_gpus.Task("minplus", panels, rows * inner * b.shape[1], compute)
    several_gpus.share(task, devices, orders.progress)


def _read(
    A: Any, B: Any, C: Any, semiring: str, out: Any, dtype: Any
) -> tuple[arrays.Space, tuple[Any, Any, Any], str]:
    """Read and check all that does not need the core."""
    check(semiring)
    A, B, C = (_ways(x, name, semiring) for name, x in (("A", A), ("B", B), ("C", C)))
    space = arrays.space_of(A=A, B=B, C=C, out=out)
    a, b = space.array(A, "A"), space.array(B, "B")
    c = None if C is None else space.array(C, "C")
    named = {"A": a, "B": b} | ({} if c is None else {"C": c})
    result = check_shapes_and_dtype(space, named, semiring, dtype, out)
    if result == "int32":
        check_integers(space, named)
    return space, (a, b, c), result


def check_shapes_and_dtype(
    space: arrays.Space, named: dict[str, Any], semiring: str, dtype: Any, out: Any = None
) -> str:
    """Check all that values do not decide; return the dtype of the result.

    Parameters
    ----------
    space : Space
        Where the operands are.
    named : dict
        A, B and perhaps C, by these names.
    semiring, dtype, out
        As for `minplus`.

    Returns
    -------
    str
        The name of the dtype.

    Raises
    ------
    TypeError, ValueError
        As for `minplus`.
    """
    check(semiring)
    for name, x in named.items():
        if len(x.shape) != 2:
            raise errors.not_two_dimensional(name, len(x.shape))
    check_shapes({name: x.shape for name, x in named.items()})
    return result_dtype(space, tuple(named.values()), semiring, out, dtype)


def check_shapes(shapes: dict[str, Any]) -> tuple[int, int]:
    """Return the shape of a product of matrices of these shapes, or raise a ValueError.

    Parameters
    ----------
    shapes : dict
        Those of A, B and perhaps C, by these names.

    Returns
    -------
    tuple of int
        Its rows and columns.
    """
    (m, k), (rows, n) = shapes["A"], shapes["B"]
    if k != rows:
        raise ValueError(f"A must have as many columns as B has rows, got {k} and {rows}")
    if "C" in shapes and tuple(shapes["C"]) != (m, n):
        raise ValueError(f"C must have shape ({m}, {n}), got {tuple(map(int, shapes['C']))}")
    return int(m), int(n)


def _is_stack(value: Any) -> bool:
    dimensions = getattr(value, "ndim", 2)
    return isinstance(dimensions, int) and dimensions > 2


def _ways(value: Any, name: str, semiring: str) -> Any:
    """Spread a graph over a dense matrix; refuse what does not say what its gaps mean."""
    truths, none = semiring == "or_and", neutral(semiring, "float64")
    if graphs.is_graph(value):
        return spreading.ways(value, name, truths=truths, none=none)
    if value is not None and foreign.is_sparse(value):
        dense = foreign.densely(value, name)
        raise TypeError(
            f"{name} is sparse; give {dense}, in which what is not stored is False"
            if truths
            else f"{name} is sparse; give a dense array with {none} where there is no way: {dense} "
            "has 0 there, which is one"
        )
    return value


def result_dtype(
    space: arrays.Space, operands: tuple[Any, ...], semiring: str, out: Any, dtype: Any
) -> str:
    """Return the dtype of a product of these operands, or raise an error."""
    allowed = ("bool",) if semiring == "or_and" else _NUMBERS
    asked = None if dtype is None else arrays.dtype_name(dtype)
    if out is not None:
        return arrays.out_dtype(out, allowed, asked, f" for {semiring}")
    if asked is not None:
        if asked not in allowed:
            raise ValueError(f"dtype must be {arrays.one_of(allowed)} for {semiring}, got {asked}")
        return asked
    if semiring == "or_and":
        return "bool"
    # Unlike elsewhere int32 stays int32: what apsp wrote in it has a name for "no way" that float64
    # would take for a number, so that dist times dist would be wrong without a word.
    if all(space.dtype_name(x) == "int32" for x in operands):
        return "int32"
    return arrays.float_dtype(space, map(space.dtype_name, operands), None, None)


def check_integers(space: arrays.Space, named: dict[str, Any]) -> None:
    """Refuse what a conversion to int32 would change.

    Parameters
    ----------
    space : Space
        Where the operands are.
    named : dict
        The operands by the names that errors shall use; stacks of matrices, perhaps.

    Raises
    ------
    ValueError
        One has, or may have, elements that int32 does not hold.
    """
    for name, x in named.items():
        kind = space.dtype_name(x)
        if kind in _NARROW:
            continue
        if space is not arrays.HOST or "int" not in kind:
            raise ValueError(f"{name} is of {kind}, which int32 does not hold; convert it first")
        if x.size and not -(2**31) <= int(x.min()) <= int(x.max()) < 2**31:
            first = np.argwhere((x < -(2**31)) | (x >= 2**31))[0][: x.ndim - 2].tolist()
            raise ValueError(f"{name}{first or ''} has elements that int32 does not hold")


def _reference(
    space: arrays.Space,
    operands: tuple[Any, Any, Any],
    semiring: str,
    dtype: str,
    shape: tuple[int, int],
    out: Any,
) -> Any:
    from gpudist import reference

    arrays.refuse_devices(space, 'kernel="reference"')
    if out is None:
        out = space.empty(shape, dtype, like=None)
    arrays.check_out(out, shape)
    # Sums are of the rounded elements, as in the kernels.
    a, b, c = (x if x is None else space.cast(x, dtype) for x in operands)
    if dtype != "int32":
        space.assign(out, reference.minplus(a, b, c, semiring))
        return out
    # The neutral element is an integer outside and an infinity inside.
    none, infinity = neutral(semiring, "int32"), neutral(semiring, "float64")

    def inside(x: Any) -> Any:
        return x if x is None else np.where(x == none, infinity, x)

    a, b, c = inside(a), inside(b), inside(c)
    if semiring.endswith("plus") and any(
        (np.isfinite(x) & (np.abs(x) >= _ADDEND_LIMIT)).any() for x in (a, b)
    ):
        raise ValueError("A or B has an element of magnitude 2**28 or more; use dtype=float64")
    result = reference.minplus(a, b, c, semiring)
    space.assign(out, np.where(np.isinf(result), none, result))
    return out


def explain_minplus(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    semiring: str = "min_plus",
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
) -> registry.Explanation:
    """Say what `minplus` would do; see `gpudist.explain`."""
    if _is_stack(A) or _is_stack(B) or _is_stack(C):
        from gpudist import stacks

        how: dict[str, Any] = {"semiring": semiring, "dtype": dtype}
        return stacks.explain_minplus(A, B, C, kernel=kernel, device=device, **how)
    space, (a, b, c), name = _read(A, B, C, semiring, None, dtype)
    (m, k), n = a.shape, b.shape[1]
    packed = (m * k + k * n) * np.dtype(name).itemsize
    first, devices = several_gpus.first_of(device, space)
    said = registry.choose(
        "minplus",
        dtype=name,
        n=n,
        cols=k,
        kernel=kernel,
        device=arrays.device_for(space, a, first),
        space=space,
        elements_moved=m * k + k * n + m * n * (1 if c is None else 2),
        elements_written=m * n,
        operations=m * k * n,
        copies=packed if name != "bool" else packed // 8,
    )
    return dataclasses.replace(said, devices=devices)
