"""Matrix products over semirings: of two matrices, or of stacks of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpudist import _core, arrays, checks, foreign, homes, products_one, stacks
from gpudist.intake import AUTO, Orders
from gpudist.progress import Progress


@homes.returned("A")
def minplus(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    semiring: str = "min_plus",
    out: Any = None,
    dtype: Any = None,
    kernel: str = AUTO,
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
        element where there is no edge, on the diagonal too. Leading dimensions are stacks of
        matrices, which are broadcast as by `numpy.matmul`; each product has the bits that it has
        alone.
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
        several GPUs, which share the rows of one product. By default one GPU where there is one and
        the problem is worth the way there, else the CPU.
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
        a dtype that the semiring does not take, a bad `out`; names of frames or graphs that meet in
        the product in two orders; in int32 sums an element of magnitude 2**28 or more (`out` may
        have been written to by then), or input that is no integer.
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
    counts as the neutral element, in `A`, `B` and `C`, but in or_and it is true, as in Python. The
    result of a sum in floating point is the sum rounded once, and a minimum does not round: so the
    result has the same bits on every backend, and a row of it depends on that row of `A` and `C`
    and on `B` alone. Zeros are +0.0.

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
    if (  # small calls feel each tenth of a microsecond
        kernel is AUTO
        and C is None
        and out is None
        and options is None
        and progress is False
        and max_memory is None
    ):
        product = None
        if type(A) is np.ndarray:
            product = _core.minplus_arrays(A, B, semiring, device, dtype)
        elif device is None and dtype is None and not checks.is_watched():
            product = _core.minplus_tensors(A, B, semiring)
        if product is not None:
            return product
    orders = Orders(kernel, device, options, progress, max_memory)
    if foreign.is_dask(A, B, C):
        from gpudist import dask

        multiply = dask.minplus
    else:
        multiply = stacks.minplus if are_stacks(A, B, C) else products_one.minplus
    return multiply(A, B, C, semiring=semiring, out=out, dtype=dtype, orders=orders)


def are_stacks(*operands: Any) -> bool:
    """Tell whether one of them has more than two dimensions, nested lists among them."""
    return any(arrays.dimensions(x) > 2 for x in operands)
