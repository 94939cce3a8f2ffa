"""What apsp and transitive_closure would do."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpudist import (
    _core,
    arrays,
    choosing,
    cuda,
    many_graphs,
    named,
    registry,
    results,
    semirings,
    several_gpus,
)
from gpudist.explained import Explanation
from gpudist.intake import Orders
from gpudist.paths_call import (
    Asked,
    Graph,
    directed_of,
    may_count_hops,
    number_or_none,
    read_graph,
)
from gpudist.work import Work


def explain_apsp(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    dtype: Any = None,
    semiring: str = "min_plus",
    return_predecessors: bool = False,
    kernel: str = "auto",
    device: str | None = None,
    max_memory: int | None = None,
    unweighted: bool = False,
    weight: named.Weight = "weight",
    nodelist: Sequence[Any] | None = None,
    sizes: Any = None,
    indices: Any = None,
) -> Explanation:
    """Say what `apsp` would do; see `gpudist.explain`."""
    semirings.check(semiring)
    named.check_weight(weight)
    if semiring == "or_and":
        results.check_truths(return_predecessors, dtype)
        return explain_closure(
            graph, no_edge=no_edge, directed=directed, kernel=kernel, device=device
        )
    asked = Asked(
        number_or_none(no_edge),
        directed,
        unweighted,
        return_predecessors=return_predecessors,
        dtype=dtype,
        semiring=semiring,
        orders=Orders(kernel, device, max_memory=max_memory),
    )
    if sizes is not None or many_graphs.are(graph):
        return _explain_many(many_graphs.read(graph, sizes, no_edge, weight, asked.strict), asked)
    graph = named.take(graph, weight, nodelist, strict=asked.strict)[0]
    if indices is not None:
        return _explain_some(graph, indices, asked)
    return _explain_one(graph, asked)


def _explain_one(graph: Any, asked: Asked) -> Explanation:
    """Say how all pairs of one graph are computed."""
    unweighted = bool(asked.unweighted)
    directed = directed_of(graph, asked.directed)
    read_as = read_graph(graph, asked.no_edge)
    single = read_as.dtype == "float32"
    name = results.dtype_of(read_as.space, single, asked.dtype, asked.semiring)
    name = "int32" if name in results.NARROW else name
    hops = unweighted and asked.semiring == "min_plus" and not asked.return_predecessors
    by_weights = _explain_by_weights(read_as, directed, name, asked)
    if not (hops and may_count_hops(read_as, asked.orders)):
        return by_weights
    on_cuda = by_weights.device != "cpu"
    edges = 0 if on_cuda else read_as.count_edges(directed)
    if not _core.few_edges("hops", read_as.n, edges, on_cuda):
        return by_weights
    return _explain_hops(read_as, edges, by_weights)


def _explain_hops(graph: Graph, edges: int, by_weights: Explanation) -> Explanation:
    """Say how hops are counted level by level, where others have weights.

    On a GPU nobody counts the edges, and the steps of one level with as many as nodes are said.
    """
    n, device = graph.n, by_weights.device
    on_cuda = device != "cpu"
    at_a_time = 4096 if on_cuda else 512
    said = choosing.choose(
        "hops",
        choosing.Request(op="hops", dtype=by_weights.dtype, n=n, cols=0),
        choosing.Amounts(
            moved=2 * n * n,
            written=n * n,
            operations=(n if on_cuda else edges) * -(-n // at_a_time),
            copies=n * n // 2 if on_cuda else n * n // 8 + 4 * (n + edges),
        ),
        kernel="auto",
        device=device,
        space=graph.space,
    )
    why = (
        f"{'edges' if on_cuda else f'{edges} edges'} that weigh 1: hops are counted level by "
        f"level; should there be so many levels that {by_weights.kernel} takes less time, it "
        "takes over"
    )
    if by_weights.devices:
        why += f"; of several GPUs {device} does it alone"
    return dataclasses.replace(said, reason=why)


def _explain_by_weights(graph: Graph, directed: bool, dtype: str, asked: Asked) -> Explanation:
    """Say which kernel takes a matrix of weights, and how, if its device does not hold it."""
    space, weights, n = graph.space, graph.weights, graph.n
    kernel, device, _, _, max_memory = asked.orders
    predecessors = 4 * n * n if asked.return_predecessors else 0
    first, devices = several_gpus.holders(device, space)
    said = choosing.choose(
        "apsp",
        choosing.Request(op="apsp", dtype=dtype, n=n, cols=0, semiring=asked.semiring),
        choosing.Amounts(
            moved=2 * n * n,
            written=n * n,
            result_bytes=predecessors,
            operations=n**3,
            copies=n * n * np.dtype(dtype).itemsize + predecessors,  # the kernel's own, padded
        ),
        kernel=kernel,
        device=arrays.device_for(space, weights, first),
        space=space,
    )
    in_place = directed and dtype != "int32" and graph.dtype == dtype
    if devices:
        return _explain_shared(said, n, in_place, asked, devices)
    if space is not arrays.HOST or said.device == "cpu":
        return said
    room = _room((said.device,), max_memory)
    brought = 0 if in_place else weights.nbytes
    return explain_far(said, n, brought, asked.return_predecessors, room, asked.semiring)


def _room(devices: tuple[str, ...], max_memory: int | None) -> int:
    """Return how many bytes of its memory a call may hold on each device."""
    if max_memory is not None:
        return max_memory
    if devices[0] == "cpu":  # which plays them
        return sys.maxsize
    there = _core.cuda()["devices"]
    indices = (int(device.removeprefix("cuda:")) for device in devices)
    return min(int(there[index]["memory_bytes"]) for index in indices)


def _explain_shared(
    said: Explanation, n: int, in_place: bool, asked: Asked, devices: tuple[str, ...]
) -> Explanation:
    """Say which rows several GPUs hold, or how the matrix goes through all if they do not."""
    predecessors, semiring = asked.return_predecessors, asked.semiring
    room = _room(devices, asked.orders.max_memory)
    shares = _core.several_plan(
        n, said.dtype, predecessors, in_place, devices, asked.orders.max_memory, semiring
    )
    held = max((share["bytes"] for share in shares), default=0)
    if held > room:
        plan = _core.far_plan(
            n, said.dtype, predecessors, max_memory=room, semiring=semiring, devices=devices
        )
        said = dataclasses.replace(said, devices=devices, held=plan["bytes"])
        return _goes_through(said, plan)
    return dataclasses.replace(
        said,
        devices=devices[: len(shares)],
        rows=tuple((share["first"], share["end"]) for share in shares),
        held=held,
        copies=sum(share["bytes"] for share in shares),
    )


def _explain_some(graph: Any, indices: Any, asked: Asked) -> Explanation:
    """Say whether paths from some nodes are SciPy's."""
    from gpudist import sources

    some = sources.read(graph, indices, asked)
    n, k, m = some.n, some.indices.size, some.m
    if some.why is not None:
        said = _explain_one(graph, asked)
        why = f"rows of all pairs, since {some.why}; {said.reason}"
        return dataclasses.replace(said, reason=why)
    size = np.dtype(some.dtype).itemsize
    negative = not asked.unweighted and bool((some.weights < 0).any())
    name = "johnson" if negative else "dijkstra"
    work = Work(m * (size + 4), k * n * size, k * m, "steps over edges")
    return Explanation(
        "apsp",
        f"scipy.sparse.csgraph.{name}",
        "cpu",
        f"paths from {k} of {n} nodes along {m} edges take less than all pairs",
        {},
        int(work.read + work.written),
        k * m,
        some.dtype,
        None,
        work,
    )


def _explain_many(graphs: many_graphs.Graphs, asked: Asked) -> Explanation:
    """Say what becomes of graphs that are done side by side, or else of the largest of them."""
    several_gpus.refuse(asked.orders.device, several_gpus.MANY_GRAPHS)
    name = results.dtype_of(graphs.space, graphs.dtype == "float32", asked.dtype, asked.semiring)
    computed = "int32" if name in results.NARROW else name
    side_by_side = many_graphs.where_side_by_side(graphs, asked.orders, asked.semiring)
    on_cpu = side_by_side == "cpu"
    most = many_graphs.most_nodes("cpu" if on_cpu else "cuda")
    smallest = graphs.n if graphs.sizes is None else int(graphs.sizes.min(initial=graphs.n))
    if side_by_side is None or smallest > most:
        largest = np.zeros((graphs.n, graphs.n), computed)
        orders = asked.orders._replace(max_memory=None)
        one = asked._replace(no_edge=None, directed=True, unweighted=False, orders=orders)
        said = _explain_one(largest, one)
        why = f"each of {graphs.count} graphs by itself, of which this is one; {said.reason}"
        return dataclasses.replace(said, reason=why)
    elements, before = graphs.elements, 4 * graphs.elements if asked.return_predecessors else 0
    said = choosing.choose(
        "apsp_batch",
        choosing.Request(
            op="apsp_batch", dtype=computed, n=graphs.n, cols=smallest, semiring=asked.semiring
        ),
        choosing.Amounts(
            moved=2 * elements, written=elements, result_bytes=before, operations=graphs.steps
        ),
        kernel="auto",
        device=arrays.device_for(graphs.space, graphs.weights, side_by_side),
        space=graphs.space,
    )
    if on_cpu and asked.orders.device is None:
        why_not = cuda.why_not() or "the way there takes longer than the CPU; device='cuda' insists"
        rejected = {id: why_not if "/cuda_" in id else why for id, why in said.rejected.items()}
        said = dataclasses.replace(said, rejected=rejected)
    larger = 0 if graphs.sizes is None else int((graphs.sizes > most).sum())
    why = f"{graphs.count} graphs, side by side in {'vectors' if on_cpu else 'registers'}"
    if larger:
        why += f"; {larger} of them, with more than {most} nodes, by apsp's own kernels"
    return dataclasses.replace(said, reason=why)


def explain_far(
    said: Explanation,
    n: int,
    brought: int,
    predecessors: bool,
    room: int,
    semiring: str = "min_plus",
) -> Explanation:
    """Say how the matrix goes through a device that has no room for it and `brought` bytes."""
    plan = _core.far_plan(n, said.dtype, predecessors, said.device, room, said.kernel, semiring)
    teaching = any(row.teaching for row in registry.kernels("apsp") if row.id == said.kernel)
    if plan["near"] + brought <= room or teaching:
        return said
    return _goes_through(said, plan)


def _goes_through(said: Explanation, plan: dict[str, int]) -> Explanation:
    """Say that the matrix stays on the host."""
    work = dataclasses.replace(said.work, read=plan["each_way"], written=plan["each_way"])
    copies = plan["bytes"] * max(len(said.devices), 1)
    return dataclasses.replace(said, work=work, copies=copies, out_of_core=plan)


def explain_closure(
    graph: Any,
    *,
    no_edge: float | None = None,
    directed: bool = True,
    kernel: str = "auto",
    device: str | None = None,
) -> Explanation:
    """Say what `transitive_closure` would do; see `gpudist.explain`."""
    no_edge = number_or_none(no_edge)
    if many_graphs.are(graph):
        if many_graphs.is_list(graph):
            count, first = len(graph), graph[0]
        else:
            stack = arrays.HOST.array(graph, "graph")
            count = math.prod(stack.shape[:-2])
            first = stack.reshape(count, *stack.shape[-2:])[0] if count else np.zeros((0, 0), bool)
        said = explain_closure(
            first, no_edge=no_edge, directed=directed, kernel=kernel, device=device
        )
        why = f"each of {count} graphs by itself, of which this is one; {said.reason}"
        return dataclasses.replace(said, reason=why)
    graph = named.take(graph, strict=False)[0]
    read_as = read_graph(graph, no_edge, truths=True)
    space, weights, n = read_as.space, read_as.weights, read_as.n
    said = choosing.choose(
        "closure",
        choosing.Request(op="closure", dtype="bool", n=n, cols=0),
        choosing.Amounts(
            moved=n * n,
            written=n * n,
            operand_bytes=n * n * np.dtype(read_as.dtype).itemsize,
            operations=n**3,
            copies=n * n // 8,
        ),
        kernel=kernel,
        device=arrays.device_for(space, weights, device),
        space=space,
    )
    if said.device != "cpu" or not said.kernel.startswith("closure/cpu_bits"):
        return said
    edges = read_as.count_edges(directed_of(graph, directed))
    few = _core.few_edges("closure", n, edges)
    way = f"components are found first for {edges} edges" if few else f"{edges} edges are many"
    return dataclasses.replace(said, reason=f"{said.reason}; {way}")
