"""What searches for neighbours would do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gpudist import arrays, choosing, several_gpus
from gpudist.explained import Explanation
from gpudist.intake import Orders
from gpudist.neighbors_call import (
    NO_K,
    NO_R,
    NO_RADII,
    Call,
    asked_for,
    count_of,
    radii_of,
    read,
)


def explain_nearest(
    XA: Any,
    XB: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> Explanation:
    """Say what `nearest` would do; see `gpudist.explain`."""
    orders = Orders(kernel, device)
    asked = asked_for("nearest", XA, XB, metric, metric_args, dtype, rows, orders)
    call = read(asked, index_dtype)
    return _explain(call, _pairs_of_bytes(call, 1), 1)


def explain_knn(
    XA: Any,
    XB: Any = None,
    k: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> Explanation:
    """Say what `knn` would do; see `gpudist.explain`."""
    if k is None:
        raise TypeError(NO_K)
    orders = Orders(kernel, device)
    asked = asked_for("knn", XA, XB, metric, metric_args, dtype, rows, orders)
    call = read(asked, index_dtype)
    return _explain(call, _pairs_of_bytes(call, k), k)


def explain_radius_neighbors(
    XA: Any,
    XB: Any = None,
    r: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    index_dtype: Any = np.int64,
    **metric_args: Any,
) -> Explanation:
    """Say what `radius_neighbors` would do; see `gpudist.explain`.

    How many neighbours there are is not known before the search: none are counted.
    """
    if r is None:
        raise TypeError(NO_R)
    orders = Orders(kernel, device)
    asked = asked_for("radius_neighbors", XA, XB, metric, metric_args, dtype, rows, orders)
    call = read(asked, index_dtype)
    radii_of(r, call, "r", (call.rows,))
    return _explain(call, 8 * (call.rows + 1), bounded=True)


def explain_count_neighbors(
    XA: Any,
    XB: Any = None,
    radii: Any = None,
    metric: Any = "euclidean",
    *,
    dtype: Any = None,
    kernel: str = "auto",
    device: object = None,
    rows: slice | None = None,
    **metric_args: Any,
) -> Explanation:
    """Say what `count_neighbors` would do; see `gpudist.explain`."""
    if radii is None:
        raise TypeError(NO_RADII)
    orders = Orders(kernel, device)
    call = read(asked_for("count_neighbors", XA, XB, metric, metric_args, dtype, rows, orders))
    return _explain(call, radii_of(radii, call, "radii", None).nbytes)


def _pairs_of_bytes(call: Call, k: Any) -> int:
    """Count the bytes of the distances and indices of k neighbours of each row."""
    neighbors = count_of(k, call.columns, call.first is not None) * call.rows
    return neighbors * (np.dtype(call.result).itemsize + np.dtype(call.index_dtype).itemsize)


def _explain(
    call: Call, result_bytes: int, neighbors: int = 0, *, bounded: bool = False
) -> Explanation:
    if callable(call.metric):
        raise TypeError("a callable metric is called from Python, it runs no kernel")
    (m, d), n = (int(x) for x in call.points[0].shape), call.columns
    truths = call.read_as == "bool"
    read = (n + (m if call.first is None else 0)) * d
    kernel = call.asked.orders.kernel
    first, devices = several_gpus.first_of(call.asked.orders.device, call.space)
    device = arrays.device_for(call.space, call.points[0], first)
    by_name = kernel.startswith("neighbors/")
    by_distances = not by_name and kernel != "auto"

    sizes = m, n, d
    search = choosing.request_of_distances(
        "neighbors",
        call.dtype,
        call.metric,
        call.arguments,
        sizes,
        truths=truths,
        direct=True,
        neighbors=neighbors,
        bounded=bounded,
    )
    named = kernel if by_name else None
    finder = ""
    others: dict[str, str] = {}
    if kernel != "reference" and not by_distances:
        finder, device, _, others = search.kernel_by(named, device)
    among_points = _takes_points(finder)
    said = choosing.choose(
        call.asked.function,
        search if among_points else search._replace(op="cdist"),
        choosing.Amounts(
            moved=0 if truths else read,
            operations=m * n * d,
            operand_bytes=read if truths else 0,
            result_bytes=result_bytes,
        ),
        kernel="auto" if by_name and not among_points else kernel,
        device=device,
        space=call.space,
    )
    if by_distances and kernel != "reference":
        finder, _, _, others = search.kernel_by(named, said.device, in_panels=True)
    more = f"; {finder} looks through each panel of distances" if finder else ""
    if among_points:
        tried = kernel == "auto" and said.device == "cpu"
        more = (
            "; tried on some rows first, and panels of distances do what is near most of XB"
            if tried
            else "; in panels of distances where a row has 1024 neighbours or more"
            if (bounded or neighbors == 0) and "product" in said.kernel and said.device != "cpu"
            else ""
        )
    # Distances are chosen for one device alone: why that one, the rows that search can tell.
    rejected = said.rejected | others
    return dataclasses.replace(said, reason=said.reason + more, rejected=rejected, devices=devices)


def _takes_points(finder: str) -> bool:
    """Tell whether a kernel finds neighbours without panels of distances."""
    return finder != "" and not finder.startswith(("neighbors/cpu_filter", "neighbors/cuda_panels"))
