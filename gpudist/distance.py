"""Distance matrices."""

from __future__ import annotations

from typing import Any

from gpudist import _core, arrays, metrics, registry


def cdist(
    XA: Any,
    XB: Any,
    metric: str = "euclidean",
    *,
    out: Any = None,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    options: dict[str, Any] | None = None,
    **metric_args: Any,
) -> Any:
    """Compute the distance between every row of `XA` and every row of `XB`.

    Parameters
    ----------
    XA, XB : array_like, shapes (m, d) and (n, d)
        Points, one a row. Anything that NumPy accepts, in any layout, or two arrays on one CUDA
        device (PyTorch, CuPy, Numba, or with `__cuda_array_interface__`). Never modified.
    metric : str
        One of euclidean, sqeuclidean, cityblock, chebyshev and haversine, or an alias that SciPy
        knows. haversine takes columns (latitude, longitude) in radians and gives radians.
    out : array, shape (m, n), optional
        Where to write the result: C-contiguous, float32 or float64. A `numpy.memmap` will do.
    dtype : {float32, float64}, optional
        The dtype of computation and result. By default float32 if both inputs are float32 (on a
        device also float16 or bfloat16), else float64.
    kernel : str
        "auto", "reference" (NumPy in float64, slow), or an id from `gpudist.kernels`.
    device : str, optional
        For host input, where to compute: "cpu", "cuda" or "cuda:N". By default the GPU where there
        is one and the problem is worth the way there, else the CPU.
    options : dict, optional
        Launch parameters of the kernel. No kernel takes any yet.
    **metric_args
        Arguments of the metric. None of the metrics takes any yet.

    Returns
    -------
    array, shape (m, n)
        The distances: `out` if given, else a new array of the inputs' library, on their device.

    Raises
    ------
    TypeError
        Complex, masked or object input; one operand on the host and one on a device; an unknown
        keyword.
    ValueError
        Input that is not two-dimensional, a column mismatch, an unknown metric or kernel, a bad
        `out`.
    MemoryError
        The result does not fit; nothing was allocated.
    gpudist.DeviceError
        `device` or `kernel` asks for CUDA, and it cannot be used; the message says why.

    Notes
    -----
    float32 results have a relative error below 5e-7 (d up to 4096), float64 results below 1e-13,
    for offset data and near-duplicates too: the differences are formed first, never
    ``|a|**2 + |b|**2 - 2ab``. Heavy tails can take single elements of sqeuclidean and cityblock to
    1e-6 in float32; the bound for any data is ``24 + d / 128`` units of 6e-8. Equal rows give
    exactly 0, ``cdist(X, X)`` is exactly symmetric, and a row's result does not depend on the rows
    computed with it.

    The metrics are those of `scipy.spatial.distance.cdist` [1]_, haversine is that of scikit-learn.

    References
    ----------
    .. [1] https://docs.scipy.org/doc/scipy/reference/generated/scipy.spatial.distance.cdist.html

    Examples
    --------
    >>> import gpudist
    >>> gpudist.cdist([[0.0, 0.0], [3.0, 0.0]], [[0.0, 4.0], [3.0, 0.0]])
    array([[4., 3.],
           [5., 0.]])
    """
    record = metrics.resolve(metric, metric_args)
    registry.check_kernel("cdist", kernel, options)
    space = arrays.space_of(XA=XA, XB=XB, out=out)
    a, b = space.array(XA, "XA"), space.array(XB, "XB")
    _check_points(a, b)
    name = arrays.float_dtype(space, (a, b), dtype, out)
    if kernel == "reference":
        return _reference(a, b, record, name, out)
    if space is not arrays.HOST:  # host arrays are converted on their way into the core
        a, b = space.cast(a, name), space.cast(b, name)
    if out is None:
        out = space.empty((a.shape[0], b.shape[0]), name, like=a)
    _core.cdist(a, b, out, record.name, kernel, device, space.stream(a), space.ordered)
    return out


def _check_points(a: Any, b: Any) -> None:
    """Check what the size of the result is computed from."""
    for x, name in ((a, "XA"), (b, "XB")):
        if len(x.shape) != 2:
            raise ValueError(f"{name} must be two-dimensional, got {len(x.shape)} dimensions")
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"XA and XB must have the same number of columns, got {a.shape[1]} and {b.shape[1]}"
        )


def _reference(a: Any, b: Any, record: metrics.Metric, dtype: str, out: Any) -> Any:
    from gpudist import reference

    result = reference.cdist(a, b, record.name).astype(dtype)
    if out is None:
        return result
    if out.shape != result.shape:
        raise ValueError(f"out must have shape {result.shape}, got {out.shape}")
    out[...] = result
    return out


def explain_cdist(
    XA: Any,
    XB: Any,
    metric: str = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
) -> registry.Explanation:
    """Say what `cdist` would do; see `gpudist.explain`."""
    record = metrics.resolve(metric, {})
    space = arrays.space_of(XA=XA, XB=XB)
    a, b = space.array(XA, "XA"), space.array(XB, "XB")
    _check_points(a, b)
    name = arrays.float_dtype(space, (a, b), dtype, None)
    (m, d), n = a.shape, b.shape[0]
    return registry.choose(
        "cdist",
        dtype=name,
        metric=record.name,
        n=n,
        cols=d,
        kernel=kernel,
        device=device if space is arrays.HOST else "cuda",
        elements_moved=m * n + (m + n) * d,
        operations=m * n * d,
    )
