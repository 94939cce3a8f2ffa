"""Shortest paths and reachability of Dask arrays, as a graph of bands of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from gpudist import checks, paths_call, paths_one, products_one, results, semirings
from gpudist.dask import bands as tasks
from gpudist.dask import checkpoints, inputs
from gpudist.intake import Orders

# Where nobody says how many: a graph of T bands has more than T**2 tasks.
_MOST_BANDS = 100
_TOO_MANY_BANDS = 1000

_Tasks = dict[Any, Any]


def apsp(
    graph: Any,
    asked: paths_call.Asked,
    *,
    bands: int | None = None,
    checkpoint: Any = None,
    weight: Any = "weight",
    nodelist: Sequence[Any] | None = None,
    labels: bool = False,
) -> Any:
    """Compute the lengths of the shortest paths between all pairs of nodes, lazily.

    Parameters
    ----------
    graph : dask.array.Array, shape (n, n)
        As `gpudist.apsp` reads dense arrays, with chunks of NumPy or CuPy.
    asked : Asked
        The call of `gpudist.apsp`. Chunks of NumPy are computed on the CPU, chunks of CuPy where
        they are. `out`, `overwrite`, `unreachable`, `max_hops`, `kernel`, `options` and `progress`
        are refused, with advice, if they are not the defaults.
    bands : int, optional
        Into how many bands of rows the matrix is cut: by default as many as `graph` has chunks of
        rows, at most 100. Bands begin at multiples of 128 nodes, so there are no more than
        ``ceil(n / 128)``. The graph has about ``bands**2`` tasks.
    checkpoint : str or os.PathLike, optional
        A folder that all workers reach, for a Zarr group of some bands' worth of what is done: up
        to eight times in a run, the last complete set is there. The same call, made again, goes on
        from it.
    weight, nodelist, labels
        Refused, with advice, if they are not the defaults.

    Returns
    -------
    dist : dask.array.Array, shape (n, n)
        The lengths, in chunks of whole rows, a band each. They have the bits of one call.
    predecessors : dask.array.Array of int32, shape (n, n)
        Only with `return_predecessors`. ``dask.compute(dist, predecessors)`` runs the tasks once.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.apsp`, at once; what depends on values is raised when the result is
        computed: negative cycles, and weights that the dtype does not take.

    Notes
    -----
    The exact sums by which `gpudist.apsp` judges cycles are formed for up to 3000 nodes. Of larger
    graphs the nodes that seem to be on negative cycles by rounded sums are in the error, without a
    cycle in order, and negative cycles that rounding hides are not looked for.
    """
    kernel, device, options, progress, max_memory = asked.orders
    semiring, no_edge = asked.semiring, asked.no_edge
    semirings.check(semiring)
    for name in ("unreachable", "max_hops"):
        if getattr(asked, name) is not None:
            raise TypeError(f"{name} is not for Dask arrays")
    if semiring == "or_and":
        results.check_truths(asked.return_predecessors, asked.dtype)
        return transitive_closure(graph, asked, True, bands=bands, checkpoint=checkpoint)
    own = {"out": asked.out, "overwrite": asked.overwrite, "labels": labels}
    inputs.refuse("apsp", **own, progress=progress, options=options)
    if kernel != "auto":
        raise ValueError(f"kernel must be 'auto' for bands of rows, got {kernel!r}")
    if weight != "weight" or nodelist is not None:
        raise TypeError("weight and nodelist are for graphs of named nodes")
    inputs.check_device(checks.device("device", device))
    _, where, _, _, most = Orders(kernel, device, max_memory=max_memory).read("apsp")
    matrix = _square(graph)
    if where not in (None, "cpu") and inputs.on_host(matrix):
        raise ValueError(
            "bands of NumPy chunks are computed on the CPU; graph.map_blocks(cupy.asarray) makes "
            "chunks that are computed on their GPUs"
        )
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    space = inputs.space_of(graph=matrix)
    result = results.dtype_of(space, matrix.dtype.name == "float32", asked.dtype)
    if result in results.NARROW:
        raise ValueError(f"dtype must be float32, float64 or int32 for Dask arrays, got {result}")
    how = tasks.How(
        n=matrix.shape[0],
        rule="zero" if no_edge is None else "sentinel",
        sentinel=0.0 if no_edge is None else no_edge,
        directed=checks.truth("directed", asked.directed),
        unweighted=checks.truth("unweighted", asked.unweighted),
        semiring=semiring,
        result=result,
        unreachable=results.unreachable_of(result, no_edge, semiring),
        predecessors=checks.truth("return_predecessors", asked.return_predecessors),
        max_memory=most,
        on_host=inputs.on_host(matrix),
    )
    heights = _heights(matrix, bands, tasks.STEP)
    token = tokenize(matrix.name, how._replace(max_memory=None), heights)  # bits are without it
    kept = None if checkpoint is None else checkpoints.opened(checkpoint, token)
    return _apsp(matrix, heights, how, kept, tokenize(token, most))


def transitive_closure(
    graph: Any,
    asked: paths_call.Asked,
    reflexive: bool,
    *,
    bands: int | None = None,
    checkpoint: Any = None,
) -> Any:
    """Find out which nodes can be reached from which, lazily.

    Parameters
    ----------
    graph : dask.array.Array, shape (n, n)
        As `gpudist.transitive_closure` reads dense arrays, with chunks of NumPy or CuPy.
    asked : Asked
        The call of `gpudist.transitive_closure`. `out`, `kernel`, `options` and `progress` are
        refused, with advice, if they are not the defaults.
    reflexive : bool
        Whether every node reaches itself.
    bands : int, optional
        Into how many bands of rows the matrix is cut, as for `apsp`; they begin anywhere.
    checkpoint : str or os.PathLike, optional
        As for `apsp`; bands begin at multiples of 128 nodes then.

    Returns
    -------
    dask.array.Array of bool, shape (n, n)
        Whether there is a path from i to j, in chunks of whole rows.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.transitive_closure`.
    """
    kernel, device, options, progress, max_memory = asked.orders
    no_edge = asked.no_edge
    inputs.refuse("transitive_closure", out=asked.out, progress=progress, options=options)
    if kernel != "auto":
        raise ValueError(f"kernel must be 'auto' for bands of rows, got {kernel!r}")
    inputs.check_device(checks.device("device", device))
    _, where, _, _, most = Orders(kernel, device, max_memory=max_memory).read("transitive_closure")
    matrix = _square(graph)
    if matrix.dtype == bool and no_edge is not None:
        raise ValueError("no_edge is for numbers; in an array of bool False is no edge")
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    how = tasks.How(
        n=matrix.shape[0],
        rule="zero" if no_edge is None else "sentinel",
        sentinel=0.0 if no_edge is None else no_edge,
        directed=checks.truth("directed", asked.directed),
        unweighted=False,
        semiring="or_and",
        result="bool",
        unreachable=0.0,
        predecessors=False,
        max_memory=most,
        on_host=inputs.on_host(matrix),
    )
    reflexive = checks.truth("reflexive", reflexive)
    heights = _heights(matrix, bands, 1 if checkpoint is None else tasks.STEP)
    token = tokenize(matrix.name, how._replace(max_memory=None), heights, reflexive, where)
    kept = None if checkpoint is None else checkpoints.opened(checkpoint, token)
    return _closure(matrix, heights, how, reflexive, where, kept, tokenize(token, most))


# ------------------------------------------------------------------ the input


def _square(graph: Any) -> Any:
    matrix = inputs.take(graph, "graph")
    paths_call.check_square(matrix.shape)
    return matrix


def _heights(matrix: Any, bands: int | None, step: int) -> tuple[int, ...]:
    """Return how many rows each band has: about as many, multiples of `step` but for the last."""
    n = matrix.shape[0]
    if bands is None:
        wanted = min(matrix.numblocks[0], _MOST_BANDS)
    else:
        wanted = checks.whole("bands", bands)
        if not 1 <= wanted <= _TOO_MANY_BANDS:
            raise ValueError(
                f"bands must be from 1 to {_TOO_MANY_BANDS}, as their square is the number of "
                f"tasks; got {bands}"
            )
    steps = -(-n // step)
    count = max(min(wanted, steps), 1)
    ends = [min(steps * i // count * step, n) for i in range(count + 1)]
    return tuple(end - first for first, end in itertools.pairwise(ends))


def _starts(heights: tuple[int, ...]) -> list[int]:
    return [sum(heights[:i]) for i in range(len(heights))]


class _Given(NamedTuple):
    """The graph, and if edges lead both ways its transpose, in chunks of bands.

    `rows` are the keys of the bands, `across` those of the transpose's, or None for each.
    """

    collections: list[Any]
    rows: list[Any]
    across: list[Any]


def _in_bands(matrix: Any, heights: tuple[int, ...], directed: bool) -> _Given:
    given = [x.rechunk((heights, -1)) for x in ([matrix] if directed else [matrix, matrix.T])]
    keys = [list(flatten(x.__dask_keys__())) for x in given]
    return _Given(given, keys[0], [None] * len(heights) if directed else keys[1])


def _arrays(
    dependencies: list[Any],
    shared: str,
    work: _Tasks,
    results: dict[str, tuple[_Tasks, Any]],
    chunks: tuple[tuple[int, ...], ...],
) -> list[Any]:
    """Make Dask arrays of tasks: of `work`, which all results share, and each one's own."""
    planning = dask.config.get("array.query-planning", None)
    if planning:
        from dask.array._array_expr._collection import from_graph

        below: _Tasks = dict(work)
        for x in dependencies:
            below |= dict(x.__dask_graph__())
        return [
            from_graph({**below, **own}, meta, chunks, list(own), name)
            for name, (own, meta) in results.items()
        ]
    base = HighLevelGraph.from_collections(shared, work, dependencies=dependencies)
    made = []
    for name, (own, meta) in results.items():
        graph = HighLevelGraph({**base.layers, name: own}, {**base.dependencies, name: {shared}})
        made.append(da.Array(graph, name, chunks=chunks, meta=meta))
    return made


class _Plan:
    """The tasks of a call as they are put down, and where some of what is done is kept."""

    def __init__(self, prefix: str, heights: tuple[int, ...], kept: Any, token: str) -> None:
        self.dsk: _Tasks = {}
        self.firsts, self.count = _starts(heights), len(heights)
        self._height = math.gcd(*map(tasks.rounded_up, heights))
        self._kept: checkpoints.Checkpoint | None = kept
        # What is there already makes another graph.
        self.token = token if kept is None else tokenize(token, kept)
        self._prefix = prefix
        self.done = 0 if kept is None else kept.done
        self._saves = [] if kept is None else checkpoints.turns_to_save(self.count, self.done)
        self.saved: Any = None

    def put(self, step: str, function: Callable[..., Any], *arguments: Any, at: Any) -> Any:
        """Put down a task, and give its key."""
        key = (f"{self._prefix}-{step}-{self.token}", *at)
        self.dsk[key] = (function, *arguments)
        return key

    def load(self, i: int, height: int, like: Any, how: tasks.How) -> Any:
        """Have a band read that was kept."""
        place = i, tasks.rounded_up(height), self.firsts[i]
        return self.put("load", checkpoints.load, self._kept, *place, like, how, at=(i,))

    def saves(self, turn: int) -> bool:
        """Tell whether bands are kept after this turn."""
        return turn + 1 in self._saves

    def save(self, turn: int, bands: list[Any], how: tasks.How) -> None:
        """Have all bands kept; the key of what says so is `saved`."""
        at = self._kept, turn + 1
        wanted = *at, self.count, self._height, how, self.saved
        made = self.put("make", checkpoints.make, *wanted, at=(turn,))
        written = [
            self.put("save", checkpoints.save, *at, i, band, self.firsts[i], made, at=(turn, i))
            for i, band in enumerate(bands)
        ]
        self.saved = self.put(
            "complete", checkpoints.complete, *at, written, self.saved, at=(turn,)
        )


# ------------------------------------------------------------------ lengths


def _apsp(
    matrix: Any,
    heights: tuple[int, ...],
    how: tasks.How,
    kept: checkpoints.Checkpoint | None,
    token: str,
) -> Any:
    plan = _Plan("gpudist-apsp", heights, kept, token)
    given = _in_bands(matrix, heights, how.directed)
    firsts, count, put = plan.firsts, plan.count, plan.put
    current = []
    for i, first in enumerate(firsts):
        if plan.done:
            key = plan.load(i, heights[i], inputs.like(matrix, 2, how.dtype), how)
        else:
            rows, across = given.rows[i], given.across[i]
            key = put("start", tasks.start, rows, across, first, how, at=(i,))
        current.append(key)
    ahead = None  # snapshots that the next turn's own band has not been through
    for turn in range(plan.done, count if how.n else 0):
        # What is to be saved is saved before the next turn, which needs its memory.
        pivot = firsts[max(turn - 1, 0)]
        places = firsts[turn], pivot
        both = put("own", tasks.own, current[turn], ahead, *places, how, plan.saved, at=(turn,))
        snapshots = put("snapshots", _item, both, 1, at=(turn,))
        current[turn] = put("band", _item, both, 0, at=(turn,))
        saving = plan.saves(turn)
        # The next turn's own band is what all will wait for: it does both in one task.
        ahead = None if saving else snapshots
        for i in range(count):
            if i != turn and (saving or i != turn + 1):
                places = firsts[i], firsts[turn]
                current[i] = put(
                    "other", tasks.other, current[i], snapshots, *places, how, at=(turn, i)
                )
        if saving:
            plan.save(turn, current, how)
    return _results(plan, matrix, given, current, heights, how)


def _results(
    plan: _Plan,
    matrix: Any,
    given: _Given,
    current: list[Any],
    heights: tuple[int, ...],
    how: tasks.How,
) -> Any:
    """Close the graph: what is known of all bands decides what becomes of each."""
    firsts, put, token = plan.firsts, plan.put, plan.token
    reports, finished = [], []
    for i, place in enumerate(zip(current, heights, firsts, strict=True)):
        reports.append(put("report", tasks.report, *place, how, at=(i,)))
        finished.append(put("finish", tasks.finish, *place, how, at=(i,)))
    if tasks.are_followed(how.n):
        verdict = put("settle", tasks.settle, reports, finished, given.rows, how, at=(0,))
    else:
        lengths = [put("long", _item, key, 2, at=(i,)) for i, key in enumerate(finished)]
        verdict = put("settle", tasks.settle, reports, lengths, None, how, at=(0,))
    results = {}
    kinds = {"dist": how.result} | ({"pred": "int32"} if how.predecessors else {})
    for part, (name, dtype) in enumerate(kinds.items()):
        full = f"gpudist-apsp-{name}-{token}"
        own: _Tasks = {
            (full, i, 0): (_rows, finished[i], verdict, part, firsts[i], heights[i])
            for i in range(len(heights))
        }
        results[full] = own, inputs.like(matrix, 2, dtype)
    chunks = heights, (how.n,)
    made = _arrays(given.collections, f"gpudist-apsp-{token}", plan.dsk, results, chunks)
    return tuple(made) if how.predecessors else made[0]


def _item(pair: Any, number: int) -> Any:
    return pair[number]


def _rows(finished: Any, verdict: Any, part: int, first: int, height: int) -> Any:
    """Take a band's lengths or predecessors."""
    return finished[part] if verdict is None else verdict[part][first : first + height]


# ------------------------------------------------------------------ truths


def _closure(
    matrix: Any,
    heights: tuple[int, ...],
    how: tasks.How,
    reflexive: bool,
    device: str | None,
    kept: checkpoints.Checkpoint | None,
    token: str,
) -> Any:
    """Close by products.

    By what a group's nodes reach among themselves its rows are closed over them; and then what
    leads to these nodes leads where their rows do.
    """
    prefix = "gpudist-transitive_closure"
    plan = _Plan(prefix, heights, kept, token)
    given = _in_bands(matrix, heights, how.directed)
    firsts, count, put = plan.firsts, plan.count, plan.put
    current: list[Any] = []
    orders = Orders(device=device, max_memory=how.max_memory)
    for i in range(count):
        if plan.done:
            band = plan.load(i, heights[i], inputs.like(matrix, 2, bool), how)
            task: tuple[Any, ...] = tasks.truths_of_band, band, heights[i], how
        else:
            task = tasks.start_truths, given.rows[i], given.across[i], how
        current.append(put("start", *task, at=(i,)))
    for turn in range(plan.done, count if how.n else 0):
        first = firsts[turn]
        own = put("band", _close_own, current[turn], first, orders, plan.saved, at=(turn, turn))
        for i in range(count):
            if i != turn:
                band = current[i]
                current[i] = put("band", _close_other, band, own, first, orders, at=(turn, i))
        current[turn] = own
        if plan.saves(turn):
            bands = [
                put("wide", tasks.band_of_truths, band, how, at=(turn, i))
                for i, band in enumerate(current)
            ]
            plan.save(turn, bands, how)
    name = f"{prefix}-{plan.token}"
    last: _Tasks = {
        (name, i, 0): (_close_last, current[i], firsts[i], reflexive) for i in range(count)
    }
    results = {name: (last, inputs.like(matrix, 2, bool))}
    shared = f"{prefix}-turns-{plan.token}"
    return _arrays(given.collections, shared, plan.dsk, results, (heights, (how.n,)))[0]


def _close_own(band: Any, first: int, orders: Orders, _saved: Any) -> Any:
    within = band[:, first : first + band.shape[0]]
    inside = paths_one.closure(within, paths_call.Asked(orders=orders), reflexive=True)
    return products_one.minplus(inside, band, None, semiring="or_and", orders=orders)


def _close_other(band: Any, own: Any, first: int, orders: Orders) -> Any:
    to_own = band[:, first : first + own.shape[0]]
    return products_one.minplus(to_own, own, band, semiring="or_and", orders=orders)


def _close_last(band: Any, first: int, reflexive: bool) -> Any:
    if not reflexive:
        return band
    closed = band.copy()
    at = np.arange(band.shape[0])
    closed[at, first + at] = True
    return closed
