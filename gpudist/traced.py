"""Distances of JAX's arrays that are being traced, under ``jax.jit`` and ``jax.vmap``.

What is traced has a shape and a dtype and no numbers yet. Its distances are a callback of the
program that JAX writes: `gpudist.cdist` or `pdist` computes them on the host when that program
runs. They have no derivatives there, and JAX is told so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gpudist import arrays, foreign, homes
from gpudist.distance_call import Asked

_HALVES = ("float16", "bfloat16")


def distances(compute: Callable[..., Any], asked: Asked) -> Any:
    """Have distances computed when the traced program runs.

    Parameters
    ----------
    compute : callable
        `gpudist.cdist` or `gpudist.pdist`.
    asked : Asked
        The call, one of whose operands is traced.

    Returns
    -------
    jax.Array
        Traced distances, of the shape and the dtype that they have otherwise.

    Raises
    ------
    TypeError
        An argument of the metric is traced, or there are others than `dtype` beside them; the
        result is of a dtype that JAX does not have.
    ValueError
        What is wrong with shapes and arguments, which is said while tracing.
    """
    jax: Any = sys.modules["jax"]
    for name, value in asked.metric_args.items():
        if foreign.is_traced(value):
            raise TypeError(f"{name} is traced by JAX, which only points may be: give its numbers")
    if not asked._replace(dtype=None).plain:
        raise TypeError("arrays that JAX traces take a metric, its arguments and dtype, no more")
    dtype = None if asked.dtype is None else arrays.dtype_name(asked.dtype)
    narrow = dtype if dtype in _HALVES else None
    given = {"metric": asked.metric, "dtype": "float32" if narrow else dtype, **asked.metric_args}
    operands = [_operand(x, name) for name, x in asked.named.items()]
    d, columns = operands[0].shape[-1], operands[-1].shape[-1]
    if d != columns:
        raise ValueError(f"XA and XB must have the same number of columns, got {d} and {columns}")
    axes = max(x.ndim for x in operands)  # mapped ones come before, in all operands
    operands = [x.reshape((1,) * (axes - x.ndim) + x.shape) for x in operands]
    # Batches of no matrices show what there will be, and are refused as these would be.
    none = [np.empty((0, *x.shape), x.dtype) for x in operands]
    like = compute(*none, **given)
    homes.refuse_wide("the result", like.dtype)

    def on_the_host(*points: Any) -> Any:
        return compute(*map(np.asarray, points), **given)

    def called(*points: Any) -> Any:
        shape = jax.ShapeDtypeStruct(like.shape[1:], like.dtype)
        return jax.pure_callback(on_the_host, shape, *points, vmap_method="expand_dims")

    def differentiated(*_: Any) -> Any:
        raise TypeError(
            "gpudist has no derivatives of JAX's arrays: give jax.lax.stop_gradient(x), or take "
            "gpudist.torch, which has them"
        )

    function = jax.custom_jvp(called)
    function.defjvp(differentiated)
    result = function(*operands)
    return result.astype(narrow) if narrow else result


def _operand(value: Any, name: str) -> Any:
    """Return points as JAX has them, in float32 if they are of half precision."""
    if not foreign.is_traced(value):
        value = arrays.host_objects(value, name)
        homes.refuse_wide(name, value.dtype)
        value = sys.modules["jax"].numpy.asarray(value)
    if value.ndim < 2:
        raise ValueError(f"{name} must have two dimensions or more, got shape {value.shape}")
    return value.astype("float32") if value.dtype.name in _HALVES else value
