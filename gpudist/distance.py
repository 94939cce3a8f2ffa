"""Distance matrices, whole and condensed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpudist import _core, arrays, checks, foreign, homes, metrics, traced
from gpudist.distance_call import Asked, matrices
from gpudist.intake import AUTO, Orders
from gpudist.progress import Progress


def cdist(
    XA: Any,
    XB: Any,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: Any = None,
    dtype: Any = None,
    kernel: str = AUTO,
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    rows: slice | None = None,
    max_memory: int | str | None = None,
    **metric_args: Any,
) -> Any:
    """Compute the distance between every row of `XA` and every row of `XB`.

    Parameters
    ----------
    XA, XB : array_like, shapes (..., m, d) and (..., n, d)
        Points, one a row. Anything that NumPy accepts, in any layout; tensors of PyTorch; data
        frames of numbers without missing values; or two arrays on one CUDA device (PyTorch, CuPy,
        Numba, or any with `__cuda_array_interface__` or `__dlpack__`; of libraries other than these
        three, `out` as well). Never modified. Leading dimensions are batches, which broadcast as
        those of `torch.cdist` do.
    metric : str or callable
        One of the metrics listed in the notes, or one of its aliases, in any case. A callable takes
        two rows and gives a number; it is called for one pair after the other, on host arrays only.
    out : array, shape (..., m, n), optional
        Where to write the result: C-contiguous, of the dtypes below. A `numpy.memmap` will do. What
        shares memory with it is copied first, operands and arguments alike; a call that is stopped
        then has no ``rows_complete``.
    dtype : {float32, float64, float16}, or of PyTorch bfloat16, optional
        The dtype of the result. By default float32 if both inputs are float32 (of tensors also
        float16 or bfloat16), else float64; float64 for a callable. Half precision is computed in
        float32, and rounded once.
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
        If True, a long call shows how far it is: with tqdm where that is installed. A callable is
        called some times a second with the inner steps done and their total, and at the end; what
        it raises ends the call. It must not call gpudist itself, whose buffers are in use. Ctrl-C
        ends a long call in any case. An exception that ended a call with `out` while rows were
        missing has the number of the first of them as ``rows_complete``, for `rows` to go on from
        there. Not for a callable `metric`.
    rows : slice, optional
        Which rows of the result to compute, in steps of 1: only they are written to `out`, which
        has the whole shape, or returned. So a large result can be computed in parts, or completed.
        Each row has the bits that it has in the whole; `V` and `VI` by default are those of all
        points. Not for a callable `metric`, nor for batches.
    max_memory : int or str, optional
        How many bytes of the device's memory the call may hold at once, or a text such as "500 MB"
        or "1.5GiB": operands, results and workspaces of its own, but not the caller's arrays, nor
        the pinned memory that all calls share. By default as much as is free. What does not fit is
        computed in parts, with the same bits; without that way, it is refused before anything is
        allocated. On the CPU it bounds the copies and workspaces that the call makes. Not for a
        callable `metric`.
    **metric_args
        Arguments of the metric; the notes say which metric takes which. Arrays may be on the host
        or where the points are, and are read in float64. A callable gets all of them.

        - w : array_like, shape (d,). Weights of the columns, 0 or more; None weighs all alike.
          chebyshev takes the columns where ``w > 0``.
        - p : float above 0, 2 by default. The exponent of minkowski; 1, 2 and inf give cityblock,
          euclidean and chebyshev.
        - V : array_like, shape (d,). Variances of the columns for seuclidean, by default those of
          all points, ``var(vstack([XA, XB]), axis=0, ddof=1)``.
        - VI : array_like, shape (d, d). The inverse of the covariance matrix for mahalanobis, by
          default that of all points, ``inv(cov(vstack([XA, XB]).T)).T``.
        - base : float. The base of jensenshannon's logarithm, e by default.
        - box : float or array_like, shape (d,). Lengths of a periodic box, for euclidean,
          sqeuclidean, cityblock, chebyshev, minkowski, and seuclidean with `V`: a difference is
          that of the nearest images, the smallest ``|x - y - k * box|`` over all whole k. 0 (as
          `scipy.spatial.cKDTree` has it) or inf for a column that is not periodic. Coordinates may
          be anywhere, in the box or not.

    Returns
    -------
    array, shape (..., m, n)
        The distances: `out` if given, else a new array of the library of `XA`, on its device, with
        as many rows as `rows` names. Of tensors that require gradients, and a metric that
        `gpudist.torch.cdist` knows, the result has them.

    Raises
    ------
    TypeError
        Complex, masked, sparse or object input, which a column of text is; one operand on the host
        and one on a device; an unknown keyword, or one that the metric does not take; a callable
        for arrays on a device; tensors that require gradients, where there are none.
    ValueError
        Input of less than two dimensions, a column mismatch, batches that do not broadcast; an
        unknown metric or kernel, a bad `out`; negative weights, an argument of the wrong shape, `p`
        or `base` out of range; missing values in a data frame; for the default `VI` too few points,
        or columns that depend on each other, for the default `V` variances beyond float64.
    MemoryError
        The result does not fit; nothing was allocated.
    gpudist.DeviceError
        `device` or `kernel` asks for CUDA, and it cannot be used; the message says why.

    Warns
    -----
    UserWarning
        A latitude of haversine is beyond pi / 2, and so perhaps in degrees; `numpy.radians` makes
        radians of them. Points on a device are not looked at.

    See Also
    --------
    pdist : The distances between the rows of one array, each pair once.

    Notes
    -----
    In the Lp family float32 results have a relative error below 5e-7 (d up to 4096; 1e-6 where `p`
    is no whole number, and of sqeuclidean, the square of such a distance), float64 results below
    1e-13, for offset data and near-duplicates too: the differences are formed first, or again where
    ``|a|**2 + |b|**2 - 2ab`` cancels. Heavy tails, and differences that are all equal, can take
    single elements of cityblock to 1e-6 in float32; the bound for any sum of differences is
    ``24 + d / 128`` units of 6e-8. Cosine and correlation err by less than 1e-6 in float32 and
    1e-12 in float64, and the other metrics in float32 by less than 1e-5 of the result or by 1e-6
    (inner_product by less than 1e-5 of the sum of its terms' magnitudes; hellinger of rows that do
    not sum to 1 by the root of what rounding does to its square, which can be 1e-3, and 0 stands
    for the root of a negative number). float32 intermediates that leave the range are computed
    again; float64 overflows where SciPy does. mahalanobis measures rows from the first one of XB,
    so its last bits, within the bounds, may change with that row. Equal rows give exactly 0
    where a metric is 0 by definition, ``cdist(X, X)`` is exactly symmetric, and a row's result does
    not depend on the rows computed with it (but for the default `V` and `VI`, which depend on all
    points).

    In a box these bounds hold for the exact nearest images, rows that differ by whole lengths are
    equal rows, and an infinite coordinate, which has no image, is NaN in a column that is periodic.

    The metrics are those of `scipy.spatial.distance.cdist` [1]_ with its edge cases, two that SciPy
    had until 2025 (kulczynski1 and sokalmichener), and inner_product, kl_divergence, hellinger and
    haversine, which is that of scikit-learn. In the formulas w is 1 where there are no weights; tt,
    tf, ft and ff are the weights' sums over the columns where both rows are true (not 0), only x
    is, only y is, and neither is. Dice of numbers is SciPy's: without weights it takes them for how
    true they are, so tt is ``sum(x * y)`` and so on; with weights tf + ft are the columns that
    differ at all.

    ::

        %METRICS%

    Each matrix of a batch has the bits that it has alone; `V` and `VI` by default are its own. On
    the host a batch is one call, but for these defaults, for "reference" and for callables. On a
    device one launch does all small matrices, of up to 2 million results each, after one or two
    more where a metric has their rows prepared; larger ones, those with these defaults, and arrays
    of libraries other than PyTorch and CuPy come one after the other.

    Arguments on a device are copied to the host, and so are all points for the default `V` and
    `VI`: such calls wait for the device. If float32 cannot hold sums with the given weights, the
    computation is done in float64 and its result rounded.

    References
    ----------
    .. [1] https://docs.scipy.org/doc/scipy/reference/generated/scipy.spatial.distance.cdist.html

    Examples
    --------
    >>> import gpudist
    >>> a, b = [[0.0, 0.0], [3.0, 0.0]], [[0.0, 4.0], [3.0, 0.0]]
    >>> gpudist.cdist(a, b)
    array([[4., 3.],
           [5., 0.]])
    >>> gpudist.cdist(a, b, "cityblock", w=[1, 0.5])
    array([[2., 3.],
           [5., 0.]])

    In a periodic box that is 10 long, 1 and 9 are 2 apart:

    >>> gpudist.cdist([[1.0, 1.0]], [[9.0, 1.0], [1.0, 26.0]], box=10)
    array([[2., 5.]])

    A large result goes to a file. What was stopped, by Ctrl-C, say, goes on from where it was:

    >>> import numpy, tempfile
    >>> points, done = numpy.arange(6000.0).reshape(3000, 2), 0
    >>> with tempfile.TemporaryFile() as file:
    ...     out = numpy.memmap(file, numpy.float64, "w+", shape=(3000, 3000))
    ...     while done < 3000:
    ...         try:
    ...             out = gpudist.cdist(points, points, out=out, rows=slice(done, None))
    ...             done = 3000
    ...         except KeyboardInterrupt as stopped:
    ...             done = stopped.rows_complete
    ...     round(float(out[2999, 0]), 3)
    8482.453
    """
    if (  # small calls feel each tenth of a microsecond
        kernel is AUTO
        and options is None
        and progress is False
        and rows is None
        and max_memory is None
        and (type(XA) is np.ndarray or not checks.is_traced())
    ):
        result = _core.cdist_arrays(XA, XB, metric, out, device, dtype, metric_args)
        plain = device is None and dtype is None
        if result is None and plain and not checks.in_forward_mode():
            result = _core.cdist_tensors(XA, XB, metric, out, metric_args)
        if result is not None:
            return result
    orders = Orders(kernel, device, options, progress, max_memory)
    named = {"XA": XA, "XB": XB}
    return _answer(Asked("cdist", named, metric, metric_args, dtype, out, rows, orders))


def pdist(
    X: Any,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: Any = None,
    dtype: Any = None,
    kernel: str = AUTO,
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Progress = False,
    max_memory: int | str | None = None,
    **metric_args: Any,
) -> Any:
    """Compute the distance between every two rows of `X`, each pair once.

    Parameters
    ----------
    X : array_like, shape (..., n, d)
        Points, one a row, as for `cdist`; leading dimensions are batches.
    metric : str or callable
        One of the metrics that `cdist` lists, or a function of two rows.
    out : array, shape (..., n * (n - 1) / 2), optional
        Where to write the result: contiguous. What shares memory with it is copied first.
    dtype, kernel, device, options, progress, max_memory
        As for `cdist`.
    **metric_args
        Arguments of the metric, as for `cdist`; the defaults of `V` and `VI` are
        ``var(X, axis=0, ddof=1)`` and ``inv(cov(X.T)).T``.

    Returns
    -------
    array, shape (..., n * (n - 1) / 2)
        The distances of the pairs (0, 1), (0, 2), ..., (1, 2), ...: SciPy's condensed form, from
        which `scipy.spatial.distance.squareform` makes a matrix, and which
        `scipy.cluster.hierarchy` takes. The same bits as in ``cdist(X, X)``.

    Raises
    ------
    TypeError, ValueError, MemoryError, gpudist.DeviceError
        As for `cdist`.

    See Also
    --------
    cdist : The distances between the rows of two arrays.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.pdist([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    array([3., 5., 4.])
    """
    if (
        kernel is AUTO
        and options is None
        and progress is False
        and max_memory is None
        and (type(X) is np.ndarray or not checks.is_traced())
    ):
        result = _core.pdist_arrays(X, metric, out, device, dtype, metric_args)
        plain = device is None and dtype is None
        if result is None and plain and not checks.in_forward_mode():
            result = _core.pdist_tensors(X, metric, out, metric_args)
        if result is not None:
            return result
    orders = Orders(kernel, device, options, progress, max_memory)
    return _answer(Asked("pdist", {"X": X}, metric, metric_args, dtype, out, None, orders))


if cdist.__doc__ is not None:  # python -OO drops it
    cdist.__doc__ = cdist.__doc__.replace("%METRICS%", metrics.describe(" " * 8))


def _answer(asked: Asked) -> Any:
    """Hand the call to those whose arrays they are: with gradients, traced, lazily, or by name."""
    given = *asked.named.values(), asked.out
    # As most are, and small calls feel the questions.
    if arrays.OF_NUMPY.issuperset(map(type, given)):
        return _distances(asked)
    recorded = checks.is_traced() or any(
        checks.is_recorded(x) or checks.is_mapped(x) for x in given[:-1]
    )
    if recorded and asked.plain:
        from gpudist import torch

        result = torch.of_recorded(asked.function, asked.named, asked.metric, asked.metric_args)
        if result is not None:
            return result
    if any(map(foreign.is_traced, given[:-1])):
        return traced.distances(cdist if asked.function == "cdist" else pdist, asked)
    if foreign.is_dask(*given[:-1]):
        from gpudist import dask

        lazily = dask.cdist if asked.function == "cdist" else dask.pdist
        return lazily(asked)
    home = homes.of(given[0], asked.out)
    if home is None:
        return _distances(asked)

    def on_the_host(out: Any = None, dtype: Any = None) -> Any:
        return _distances(asked._replace(out=out, dtype=dtype))

    return homes.call(home, on_the_host, asked.out, asked.dtype, half=True)


def _distances(asked: Asked) -> Any:
    """Compute on the host or on a device, at once or matrix after matrix."""
    asked = asked.ordered()
    if asked.batched:
        from gpudist import distance_batches

        return distance_batches.distances(asked, cdist if asked.function == "cdist" else pdist)
    return matrices(asked)
