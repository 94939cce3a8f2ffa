"""What workers do for shortest paths and reachability: the tasks of a graph of bands.

The n nodes are cut into consecutive groups, and the matrix into bands, the rows of a group. In a
group's turn its own band goes first, through the stages of its nodes, and leaves a snapshot of each
of its rows, as it is at its own stage; the other bands need no more of it. `csrc/run_apsp_far.c`
says why the bits are those of one call. Tasks never write to what they are given: Dask may hold it,
or do them again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, cycles, exactly, reference, results, semirings
from gpudist.errors import negative_cycle_error
from gpudist.results import Facts

STEP = 128
"""Bands begin and end at multiples of so many nodes, which every backend can do."""

# Rows a multiple of so many bytes apart share too few sets of a processor's caches; its bands can
# have so many columns more.
_FEW_SETS = 2048
_APART = 32

# Rows are read and written in pieces of about so many bytes: what is made on the way takes little.
_PIECE = 2**18

_NO_PREDECESSOR = -9999


class How(NamedTuple):
    """What a call of apsp or transitive_closure asks for."""

    n: int
    rule: str
    sentinel: float
    directed: bool
    unweighted: bool
    semiring: str
    result: str
    unreachable: float
    predecessors: bool
    max_memory: int | None
    on_host: bool

    @property
    def dtype(self) -> str:
        """The type of the computation: whole numbers of int32 are exact in float64 as well."""
        return self.result if self.result in ("float32", "bool") else "float64"

    @property
    def adds(self) -> bool:
        """Whether the length of a path is a sum."""
        return self.semiring.endswith("plus")

    @property
    def flips(self) -> bool:
        """Whether weights are negated, so that the best is the least."""
        return self.semiring.startswith("max")

    @property
    def width(self) -> int:
        """The columns of a band, with those of nodes that are not there.

        They fill up the last group, and keep rows apart in the caches.
        """
        columns = rounded_up(self.n)
        near = self.on_host and columns * np.dtype(self.dtype).itemsize % _FEW_SETS == 0
        return columns + _APART if near else columns


class Band(NamedTuple):
    """A band of the matrix: lengths, predecessors or None, and what is known of its weights."""

    dist: Any
    pred: Any
    facts: Facts


class Report(NamedTuple):
    """What is known of a band in the end: the nodes that seem to be on negative cycles."""

    nodes: list[int]
    facts: Facts


def _library(array: Any) -> Any:
    """Return the library of an array, or raise a TypeError for a chunk that is another's.

    Dask tells of what kind chunks are before there are any, and may be wrong.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("graph has a masked chunk; fill it first, its mask would be ignored")
    if isinstance(array, np.ndarray):
        return np
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(array, cupy.ndarray):
        raise TypeError(
            f"graph has a chunk that is a {type(array).__name__}; those of NumPy and CuPy are taken"
        )
    return cupy


def rounded_up(rows: int) -> int:
    """Return of how many rows a band consists that has so many of the result."""
    return -(-rows // STEP) * STEP


# ------------------------------------------------------------------ edges in


def start(block: Any, across: Any, first: int, how: How) -> Band:
    """Turn rows of the graph into a band.

    Parameters
    ----------
    block : array, shape (m, n)
        Rows of the graph as given.
    across : array, shape (m, n), or None
        The same rows of its transpose, if edges lead both ways.
    first : int
        The first of these rows.
    how : How
        The call.

    Returns
    -------
    Band
        Ready for its first turn.

    Raises
    ------
    ValueError
        As `gpudist.apsp` has it, for weights that the call does not take.
    """
    xp = _library(block)
    rows = block.shape[0]
    shape = rounded_up(rows), how.width
    dist = xp.full(shape, np.inf, how.dtype)
    pred = xp.full(shape, _NO_PREDECESSOR, np.int32) if how.predecessors else None
    facts = Facts(False, False, 0.0)
    for some in _pieces(xp, rows, how):
        weights, facts = _edges(xp, block[some], facts, how)
        if across is not None:
            weights = xp.minimum(weights, _edges(xp, across[some], facts, how)[0])
        dist[some, : how.n] = weights
        if pred is not None:
            here = xp.arange(first + some.start, first + some.stop, dtype=np.int32)[:, None]
            pred[some, : how.n] = xp.where(xp.isfinite(weights), here, np.int32(_NO_PREDECESSOR))
    _check(xp, block, facts, first, how)
    at = xp.arange(dist.shape[0])
    loops = dist[at, first + at]
    dist[at, first + at] = xp.minimum(loops, 0) if how.adds else -np.inf
    if pred is not None:
        pred[at, first + at] = _NO_PREDECESSOR
    return Band(dist, pred, facts)


def _pieces(xp: Any, rows: int, how: How) -> list[slice]:
    """Cut rows into pieces that fit a processor's caches; for a GPU they stay in one."""
    most = max(_PIECE // max(how.n * 8, 1), 1) if xp is np else max(rows, 1)
    return [slice(row, min(row + most, rows)) for row in range(0, rows, most)]


def _weights(xp: Any, block: Any, how: How) -> tuple[Any, Any]:
    """Return the weights as numbers, 0 for no edge, and where there is none."""
    given = block if block.dtype.name in ("float32", "float64", "int32") else block.astype(float)
    absent = ~reference.is_edge(given, how.rule, how.sentinel)
    return xp.where(absent, 0, xp.ones_like(given) if how.unweighted else given), absent


def _edges(xp: Any, block: Any, known: Facts, how: How) -> tuple[Any, Facts]:
    """Return the weights, the least the best, inf for no edge, and what is known by then."""
    w, absent = _weights(xp, block, how)
    least, largest = (float(w.min()), float(w.max())) if w.size else (0.0, 0.0)
    whole = w.dtype.kind == "i" or how.unweighted
    facts = Facts(
        known.negative or least < 0,
        known.fractional or (not whole and bool((w != xp.floor(w)).any())),
        max(known.largest, -least, largest),
    )
    # Nothing is -0.0, so that 0 - x and x are each other's.
    signed = 0.0 - w if how.flips else w + 0.0
    with np.errstate(over="ignore"):  # `_check` says it better
        return xp.where(absent, np.inf, signed.astype(how.dtype, copy=False)), facts


def _check(xp: Any, block: Any, facts: Facts, first: int, how: How) -> None:
    """Refuse weights that the call does not take."""

    def place(of: Callable[[Any], Any]) -> str:
        i, j = (int(at[0]) for at in xp.nonzero(of(_weights(xp, block, how)[0])))
        return f"graph[{first + i}, {j}]"

    results.check_weights(how.rule, how.sentinel, how.result, facts, place)


# ------------------------------------------------------------------ turns


def own(
    band: Band, snapshots: Any, first: int, pivot: int, how: How, before: Any = None
) -> tuple[Band, Any]:
    """Take a band through the stages of its own nodes, all others wait for.

    Parameters
    ----------
    band : Band
        The band.
    snapshots : int32 array, or None
        What the group before left behind, if the band has not been through its stages: these are
        done in the same task, as nothing else is as urgent.
    first, pivot : int
        The first rows of the band and of the group before.
    how : How
        The call.
    before : object
        The result of what must be done before.

    Returns
    -------
    band : Band
        A new one.
    snapshots : int32 array
        The words of its rows, each at its own stage; `other` reads them.
    """
    xp, closed = _library(band.dist), _copied(band)
    if snapshots is not None:
        _close(xp, closed, snapshots, first, pivot, how)
    left = xp.empty((1, band.dist.size * _words(band)), np.int32)
    _close(xp, closed, left, first, first, how)
    return closed, left


def other(band: Band, snapshots: Any, first: int, pivot: int, how: How) -> Band:
    """Take a band through the stages of another group's nodes.

    Parameters
    ----------
    band : Band
        The band.
    snapshots : int32 array
        What the other group's band left behind.
    first, pivot : int
        The first rows of both.
    how : How
        The call.

    Returns
    -------
    Band
        A new one.
    """
    closed = _copied(band)
    _close(_library(band.dist), closed, snapshots, first, pivot, how)
    return closed


def _copied(band: Band) -> Band:
    return band._replace(
        dist=band.dist.copy(), pred=None if band.pred is None else band.pred.copy()
    )


def _words(band: Band) -> int:
    """Return how many words of four bytes an element of snapshots takes."""
    return int(band.dist.dtype.itemsize) // 4 + (band.pred is not None)


def _close(xp: Any, band: Band, snapshots: Any, first: int, pivot: int, how: How) -> None:
    _core.apsp_band(
        band.dist,
        band.pred,
        snapshots,
        "min_plus" if how.adds else "min_max",
        first,
        pivot,
        snapshots.size // (how.width * _words(band)),
        0 if xp is np else int(xp.cuda.get_current_stream().ptr),
        True,
        how.max_memory,
    )


# ------------------------------------------------------------------ lengths out


def report(band: Band, rows: int, first: int, how: How) -> Report:
    """Say which nodes of a closed band have a way back to themselves that is shorter than none."""
    if not how.adds:
        return Report([], band.facts)
    xp, at = _library(band.dist), np.arange(rows)
    loops = band.dist[at, first + at]
    return Report([first + int(i) for i in xp.nonzero(loops < 0)[0]], band.facts)


def finish(band: Band, rows: int, first: int, how: How) -> tuple[Any, Any, int]:
    """Write a closed band as the call wants it.

    Parameters
    ----------
    band : Band
        The band.
    rows, first : int
        How many rows of the result it has, and the first of them.
    how : How
        The call.

    Returns
    -------
    dist, pred : arrays, shape (rows, n)
        Rows of the results; `pred` is None if nobody asked for it.
    too_long : int
        How many lengths an int32 result does not hold.
    """
    xp = _library(band.dist)
    lengths = band.dist[:rows, : how.n]
    pred = None if band.pred is None else xp.ascontiguousarray(band.pred[:rows, : how.n])
    if how.result == how.dtype and how.unreachable == np.inf and not how.flips:
        return xp.ascontiguousarray(lengths), pred, 0
    dist, too_long = xp.empty(lengths.shape, how.result), 0
    for some in _pieces(xp, rows, how):
        dist[some], beyond = _as_wanted(xp, lengths[some], how)
        too_long += beyond
    return dist, pred, too_long


def _as_wanted(xp: Any, dist: Any, how: How) -> tuple[Any, int]:
    """Return lengths as numbers of the result, and how many of them it does not hold."""
    none, too_long = dist == np.inf, 0
    if how.flips:
        dist = 0.0 - dist
    if how.result == "int32":
        beyond = xp.isfinite(dist) & (xp.abs(dist) >= results.LARGEST_INT32_PATH)
        too_long = int(beyond.sum())
        opposite = semirings.neutral(how.semiring, "int32", opposite=True)
        dist = xp.where(xp.isinf(dist) & ~none, opposite, dist)
        none = none | beyond
    return xp.where(none, how.unreachable, dist).astype(how.result), too_long


def settle(
    reports: list[Report],
    finished: list[tuple[Any, Any, int]] | list[int],
    graph: list[Any] | None,
    how: How,
) -> tuple[Any, Any] | None:
    """Raise the errors of the whole; compute anew what rounding spoiled.

    Parameters
    ----------
    reports : list of Report
        Of all bands.
    finished : list of tuple, or of int
        What `finish` gave, or of large graphs the number of lengths that were too long.
    graph : list of array, or None
        All rows of the graph as given; None of large ones, whose cycles are not looked at again.
    how : How
        The call.

    Returns
    -------
    tuple of arrays, or None
        Lengths and predecessors that take the place of those finished; None: those stand.

    Raises
    ------
    gpudist.NegativeCycleError
        There is a negative cycle.
    OverflowError
        A path length does not fit an int32 result.
    """
    nodes = [node for one in reports for node in one.nodes]
    rounding = _rounding([one.facts for one in reports], how)
    if graph is None and nodes:
        raise negative_cycle_error()(nodes, [], how.semiring)
    settled = None
    if graph is not None and (nodes or rounding):
        xp = _library(graph[0])
        dist = xp.concatenate([one[0] for one in finished])  # type: ignore[index]
        pred = None
        if how.predecessors:
            pred = xp.concatenate([one[1] for one in finished])  # type: ignore[index]
        exactly.settle(
            arrays.space_of(graph=graph[0]),
            xp.concatenate(graph),
            (how.rule, how.sentinel, how.directed, how.unweighted, how.semiring),
            (nodes, rounding),
            (dist, pred, how.unreachable),
        )
        settled = dist, pred
    too_long = sum(one if isinstance(one, int) else one[2] for one in finished)
    if not nodes:
        results.refuse_long(too_long)
    return settled


def _rounding(facts: list[Facts], how: How) -> float:
    """Return how much longer than its weights' exact sum a cycle's computed length can be.

    As `rounding_of` in csrc/run_apsp.c.
    """
    if not (how.adds and how.directed and (how.flips or any(one.negative for one in facts))):
        return 0.0
    narrow = how.dtype == "float32"
    longest = max(one.largest for one in facts) * how.n
    whole = not any(one.fractional for one in facts)
    if how.result == "int32" or (whole and longest <= (2.0**24 if narrow else 2.0**53)):
        return 0.0
    if longest >= (2.0**126 if narrow else 2.0**1022):
        return float("inf")
    return float(longest * (how.n + 8) * (2.0**-24 if narrow else 2.0**-53))


def are_followed(n: int) -> bool:
    """Say whether a graph is small enough for its cycles to be looked at again as a whole."""
    return n <= cycles.MOST_FOLLOWED


# ------------------------------------------------------------------ reachability


def start_truths(block: Any, across: Any, how: How) -> Any:
    """Turn rows of the graph, and perhaps of its transpose, into truths.

    Parameters
    ----------
    block, across : arrays, shape (m, n), or None
        As for `start`.
    how : How
        The call.

    Returns
    -------
    bool array, shape (m, n)
        Whether there is an edge.
    """
    truths = _are_edges(block, how)
    return truths if across is None else truths | _are_edges(across, how)


def band_of_truths(truths: Any, how: How) -> Band:
    """Make a band of rows of truths, as wide as a checkpoint's are, with false ones added.

    Parameters
    ----------
    truths : bool array, shape (m, n)
        The rows.
    how : How
        The call.

    Returns
    -------
    Band
        Nothing is known of its weights.
    """
    rows, columns = truths.shape
    dist = _library(truths).zeros((rounded_up(rows), how.width), bool)
    dist[:rows, :columns] = truths
    return Band(dist, None, Facts(False, False, 0.0))


def truths_of_band(band: Band, rows: int, how: How) -> Any:
    """Take the rows of truths that `band_of_truths` made a band of."""
    return band.dist[:rows, : how.n].copy()


def _are_edges(block: Any, how: How) -> Any:
    _library(block)  # or an error
    if block.dtype == bool:
        return block.copy()
    given = block if block.dtype.name in ("float32", "float64", "int32") else block.astype(float)
    return reference.is_edge(given, how.rule, how.sentinel)
