"""What cdist and pdist would do."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from gpudist import _core, arrays, choosing, several_gpus
from gpudist.distance_call import Asked, Call, read
from gpudist.explained import Explanation
from gpudist.intake import Orders


def explain_cdist(
    XA: Any,
    XB: Any,
    metric: str = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
    **metric_args: Any,
) -> Explanation:
    """Say what `cdist` would do; see `gpudist.explain`."""
    orders = Orders(kernel, device, max_memory=max_memory)
    return _explain(Asked("cdist", {"XA": XA, "XB": XB}, metric, metric_args, dtype, orders=orders))


def explain_pdist(
    X: Any,
    metric: str = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
    **metric_args: Any,
) -> Explanation:
    """Say what `pdist` would do; see `gpudist.explain`."""
    orders = Orders(kernel, device, max_memory=max_memory)
    return _explain(Asked("pdist", {"X": X}, metric, metric_args, dtype, orders=orders))


def _explain(asked: Asked) -> Explanation:
    if callable(asked.metric):
        raise TypeError("a callable metric is called from Python, it runs no kernel")
    return _explain_batch(asked) if asked.batched else _explain_matrices(asked, read(asked))


def _explain_batch(asked: Asked) -> Explanation:
    """Say what is done for each matrix of a batch, and how much that is for all."""
    from gpudist import distance_batches

    several_gpus.refuse(asked.orders.device, "a batch of matrices")
    stacks = distance_batches.read_stacks(asked.named)
    first = distance_batches.first_of(stacks, asked)
    call = read(first)
    said, count = _explain_matrices(first, call), math.prod(stacks.batch)
    elements = sum(map(math.prod, stacks.operands.shapes))  # what is broadcast is read once
    work = dataclasses.replace(
        said.work,
        read=elements * np.dtype(call.read_as).itemsize,
        written=math.prod(stacks.shape) * np.dtype(call.dtype).itemsize,
        operations=said.work.operations * count,
    )
    return dataclasses.replace(
        said,
        reason=f"each of {count} matrices; {said.reason}",
        bytes=int(work.read + work.written),
        operations=said.operations * count,
        work=work,
        held=None,
        panels=1,
        parts=1,
    )


def _explain_matrices(asked: Asked, call: Call) -> Explanation:
    """Say what is done for two matrices, or one."""
    kernel = asked.orders.kernel
    space, _, given, _, shapes = call.operands
    first, devices = several_gpus.first_of(asked.orders.device, space)
    n, cols = shapes[-1]
    pairs = math.prod(call.shape)
    elements = sum(shape[0] for shape in shapes) * cols
    said = choosing.choose(
        call.function,
        choosing.request_of_distances(
            "cdist",
            call.dtype,
            call.metric.name,
            call.arguments,
            (shapes[0][0], n, cols),
            truths=call.truths,
        ),
        choosing.Amounts(
            moved=pairs + (0 if call.truths else elements),
            written=pairs,
            operations=pairs * cols,
            operand_bytes=elements if call.truths else 0,
        ),
        kernel=kernel,
        device=arrays.device_for(space, given[0], first),
        space=space,
    )
    if kernel == "reference":
        return said
    rows = shapes[0][0]
    if devices and rows:
        rows = call.panels(len(devices))[0][1]
    held, panels, parts, brought = _core.plan_cdist(
        rows,
        n,
        cols,
        call.dtype,
        call.truths,
        space is arrays.HOST,
        call.function == "pdist",
        call.metric.name,
        kernel,
        said.device,
        max_memory=asked.orders.max_memory,
        **call.arguments.core,
    )
    work = dataclasses.replace(said.work, read=max(said.work.read, int(brought)))
    return dataclasses.replace(
        said, held=held, panels=panels, parts=parts, work=work, devices=devices
    )
