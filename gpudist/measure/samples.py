"""Parts of a result in float64, by other code than the kernels': the yardstick of every timing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gpudist
from gpudist import arrays, checks, named, paths_call, reference, results

Array = npt.NDArray[Any]

# Rows of a sample, and the steps that it may take: about a second of NumPy.
_ROWS = 64
_DISTANCE_STEPS = 1 << 25
_PRODUCT_STEPS = 1 << 25
_PATH_STEPS = 1 << 24
_TILE = 256
# Up to so many nodes the plain triple loop takes a second.
_WHOLE_GRAPH = 512


@dataclass(frozen=True, slots=True)
class Sample:
    """Some elements of a result.

    Attributes
    ----------
    rows : int
        How many rows of the result they are.
    exact : ndarray
        The elements in float64, one after the other.
    pick : callable
        Takes a result, on the host or on a device, and gives the same elements in parts.
    """

    rows: int
    exact: Array
    pick: Callable[[Any], list[Any]]


def sample_rows(n: int, count: int) -> npt.NDArray[np.intp]:
    """Choose rows evenly, the first and the last among them.

    Parameters
    ----------
    n : int
        How many there are.
    count : int
        How many to choose; all of them if that is fewer.

    Returns
    -------
    ndarray of intp
        Row numbers, ascending.
    """
    if n == 0:
        return np.empty(0, np.intp)
    return np.unique(np.linspace(0, n - 1, max(1, min(n, count))).astype(np.intp))


def sample(op: str, operands: tuple[Any, ...], arguments: dict[str, Any]) -> Sample:
    """Compute a part of what a call gives, in float64.

    Parameters
    ----------
    op : str
        The function's name.
    operands : tuple
        Its operands, on the host.
    arguments : dict
        Its other arguments.

    Returns
    -------
    Sample
        Some rows of a matrix; the whole result of an operation that has no rule of its own.
    """
    rule = _RULES.get(op)
    return _whole(op, operands, arguments) if rule is None else rule(*operands, **arguments)


def _of_rows(rows: npt.NDArray[np.intp], exact: Array) -> Sample:
    def pick(result: Any) -> list[Any]:
        return [result[int(row)] for row in rows]

    return Sample(len(rows), exact.ravel(), pick)


def _count(row_steps: int, steps: int) -> int:
    """Say how many rows of that many steps there is time for."""
    return min(_ROWS, max(2, steps // max(1, row_steps)))


def _cdist(a: Any, b: Any, metric: Any = "euclidean", **metric_args: Any) -> Sample:
    a, b = np.asarray(a), np.asarray(b)
    rows = sample_rows(len(a), _count(b.size, _DISTANCE_STEPS))
    if _goes_by_all_points(metric, metric_args):
        exact = list(_reference(a, b, metric, metric_args)[rows])
    else:  # a row at a time: the reference may hold all differences of a block at once
        exact = [_reference(a[i : i + 1], b, metric, metric_args)[0] for i in rows]
    return _of_rows(rows, np.concatenate(exact) if exact else np.empty(0))


def _goes_by_all_points(metric: Any, metric_args: dict[str, Any]) -> bool:
    """Tell whether the metric's arguments are made of all points."""
    return metric in ("seuclidean", "mahalanobis") and not {"V", "VI"} & metric_args.keys()


def _reference(a: Array, b: Array, metric: Any, metric_args: dict[str, Any]) -> Array:
    a, b = a.astype(np.float64), b.astype(np.float64)
    given = {name: value for name, value in metric_args.items() if name != "dtype"}
    return np.asarray(gpudist.cdist(a, b, metric, kernel="reference", **given))


def _pdist(x: Any, metric: Any = "euclidean", **metric_args: Any) -> Sample:
    x = np.asarray(x)
    n = len(x)
    rows = sample_rows(max(n - 1, 0), _count(x.size, _DISTANCE_STEPS))
    starts = [int(i) * (2 * n - int(i) - 1) // 2 for i in rows]

    def pick(result: Any) -> list[Any]:
        ends = (start + n - 1 - int(i) for start, i in zip(starts, rows, strict=True))
        return [result[start:end] for start, end in zip(starts, ends, strict=True)]

    if _goes_by_all_points(metric, metric_args):
        given = {name: value for name, value in metric_args.items() if name != "dtype"}
        wide = x.astype(np.float64)
        exact = pick(gpudist.pdist(wide, metric, kernel="reference", **given))
    else:
        exact = [_reference(x[i : i + 1], x[i + 1 :], metric, metric_args)[0] for i in rows]
    return Sample(len(rows), np.concatenate(exact) if exact else np.empty(0), pick)


def _minplus(a: Any, b: Any, c: Any = None, **arguments: Any) -> Sample:
    a, b = np.asarray(a), np.asarray(b)
    rows = sample_rows(len(a), _count(b.size, _PRODUCT_STEPS))
    some = None if c is None else np.asarray(c)[rows]
    exact = gpudist.minplus(a[rows], b, some, kernel="reference", **arguments)
    return _of_rows(rows, np.asarray(exact))


def _knn(a: Any, b: Any = None, **arguments: Any) -> Sample:
    """Find the neighbours of some rows, each by itself; of neighbours their distances count."""
    k = arguments.pop("k", 1)
    a, b = np.asarray(a), None if b is None else np.asarray(b)
    start, stop = (0, len(a))
    if arguments.get("rows") is not None:
        start, stop = checks.rows(arguments["rows"], len(a))
    given = {name: x for name, x in arguments.items() if name not in _NOT_WHICH}
    rows = sample_rows(stop - start, _count(a.size if b is None else b.size, _DISTANCE_STEPS))
    x, y = (x if x is None or x.dtype == bool else x.astype(np.float64) for x in (a, b))
    exact = [
        gpudist.knn(x, y, k, kernel="reference", rows=slice(i, i + 1), **given).distances[0]
        for i in map(int, start + rows)
    ]
    return Sample(
        len(rows),
        np.concatenate(exact) if exact else np.empty(0),
        lambda result: [result.distances[i].reshape(-1) for i in rows],
    )


def _radius_neighbors(*operands: Any, **arguments: Any) -> Sample:
    """Find all neighbours, and compare how many of each point there are, and how far in all."""

    def sums(found: Any) -> list[Any]:
        ends = np.concatenate([[0.0], np.cumsum(found.distances, dtype=np.float64)])[found.indptr]
        return [np.diff(found.indptr).astype(np.float64), np.diff(ends)]

    exact = gpudist.radius_neighbors(*operands, kernel="reference", **arguments)
    return Sample(len(exact.indptr) - 1, np.concatenate(sums(exact)), sums)


def _count_neighbors(*operands: Any, **arguments: Any) -> Sample:
    exact = gpudist.count_neighbors(*operands, kernel="reference", **arguments)
    return Sample(1, np.atleast_1d(exact), lambda result: [np.atleast_1d(result)])


# Arguments that do not change which neighbours there are.
_NOT_WHICH = ("dtype", "out", "rows", "index_dtype", "progress", "max_memory")


def _apsp(graph: Any, **arguments: Any) -> Sample:
    given = dict(arguments)
    paired = bool(given.pop("return_predecessors", False))
    given.pop("overwrite", None)
    if given.get("semiring", "min_plus") != "min_plus" or graph_size(graph) <= _WHOLE_GRAPH:
        exact = np.asarray(gpudist.apsp(graph, kernel="reference", **given))
        rows = np.arange(len(np.atleast_2d(exact)))
    else:
        rows, exact = _some_paths(graph, given)
    absent = _no_path(given)
    one = given.get("indices") is not None and np.ndim(given["indices"]) == 0

    def pick(result: Any) -> list[Any]:
        lengths = result[0] if paired else result
        parts = [lengths] if one else [lengths[int(row)] for row in rows]
        return [_with_no_path(part, absent) for part in parts]

    return Sample(len(rows), exact.ravel(), pick)


def _no_path(arguments: dict[str, Any]) -> float:
    """Say what stands for no path in a result."""
    given, dtype = arguments.get("unreachable"), arguments.get("dtype")
    name = "float64" if dtype is None else arrays.dtype_name(dtype)
    if given is None and name in results.NARROW:
        return float(np.iinfo(name).max)
    semiring = arguments.get("semiring", "min_plus")
    return results.unreachable_of(name, arguments.get("no_edge"), semiring, given)


def _with_no_path(lengths: Any, absent: float) -> Any:
    """Give lengths with a finite number for no path, where others have inf."""
    if np.isfinite(absent) and "float" in str(lengths.dtype):
        lengths = lengths + 0
        lengths[lengths == np.inf] = absent
    return lengths


def graph_size(graph: Any) -> int:
    """Count the nodes of a graph.

    Parameters
    ----------
    graph : array, sparse matrix or graph of named nodes
        What `gpudist.apsp` takes.

    Returns
    -------
    int
        Its nodes.
    """
    graph, _ = named.take(graph, strict=False)
    if isinstance(graph, named.EdgeList):
        return len(graph.nodes)
    return int(graph.shape[0]) if hasattr(graph, "shape") else len(graph)


def _read(graph: Any, arguments: dict[str, Any], *, truths: bool = False) -> tuple[Any, str, bool]:
    """Give a graph's weights, the rule that says what is no edge, and whether it is directed."""
    given = {name: arguments[name] for name in ("weight", "nodelist") if name in arguments}
    graph, _ = named.take(graph, **given, strict=not (truths or arguments.get("unweighted", False)))
    directed = arguments.get("directed", True) and getattr(graph, "directed", True)
    _, weights, _, rule, _ = paths_call.read_graph(graph, arguments.get("no_edge"), truths=truths)
    return weights, rule, directed


def _some_paths(graph: Any, arguments: dict[str, Any]) -> tuple[npt.NDArray[np.intp], Array]:
    """Find the paths from some nodes, in float64: rows of the result, and what is there."""
    weights, rule, directed = _read(graph, arguments)
    unweighted = arguments.get("unweighted", False)
    given = weights, rule, arguments.get("no_edge") or 0.0, directed, unweighted
    indices = arguments.get("indices")
    sources = np.arange(len(weights)) if indices is None else np.atleast_1d(indices)
    rows = sample_rows(len(sources), _count(weights.size, _PATH_STEPS))
    if np.fmin.reduce(weights, axis=None) < 0 and not unweighted:
        edges = reference.edges(*given, "min_plus")
        exact = np.stack([_by_rounds(edges, int(source)) for source in sources[rows]])
    else:
        exact = np.stack([by_nearest(_Edges(*given), int(source)) for source in sources[rows]])
    if arguments.get("max_hops") is not None:
        exact[exact > arguments["max_hops"]] = np.inf
    exact[exact == np.inf] = _no_path(arguments)
    return rows, exact


class _Edges:
    """The rows of `reference.edges`, one at a time: all together outgrow the memory first.

    Parameters
    ----------
    weights, rule, sentinel, directed, unweighted
        As for `reference.edges`; none of the weights is negative.
    """

    def __init__(
        self, weights: Array, rule: str, sentinel: float, directed: bool, unweighted: bool
    ) -> None:
        self._weights = weights
        self._rule = rule, sentinel
        self._unweighted = unweighted
        if not directed:
            self._weights = np.where(reference.is_edge(weights, rule, sentinel), weights, np.inf)
            self._rule = "infinite", 0.0
            _join_with_transposed(self._weights)

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self._weights)

    def __getitem__(self, node: int) -> Array:
        """Give the edges of a node in float64."""
        row = self._weights[node].astype(np.float64)
        absent = ~reference.is_edge(row, *self._rule)
        if self._unweighted:
            row[:] = 1.0
        row[absent] = np.inf
        row[node] = 0.0
        return np.asarray(row)


def _join_with_transposed(x: Array) -> None:
    """Take the lesser of each element and its mirror image, tile by tile for the cache."""
    for i in range(0, len(x), _TILE):
        for j in range(0, i + 1, _TILE):
            below, above = x[i : i + _TILE, j : j + _TILE], x[j : j + _TILE, i : i + _TILE]
            below[:] = np.minimum(below, above.T)
            above[:] = below.T


def by_nearest(edges: Array | _Edges, source: int) -> Array:
    """Find the shortest paths from one node: the nearest open node, n times (Dijkstra).

    Parameters
    ----------
    edges : ndarray of float64, shape (n, n), or what gives such rows
        Weights, none negative; inf where there is no edge, 0 on the diagonal.
    source : int
        The node.

    Returns
    -------
    ndarray of float64, shape (n,)
        The lengths, inf where there is no path.
    """
    lengths = edges[source].copy()
    unsettled = lengths.copy()
    for _ in range(len(edges)):
        node = int(unsettled.argmin())
        if unsettled[node] == np.inf:
            break
        through = lengths[node] + edges[node]
        shorter = through < lengths
        lengths[shorter] = unsettled[shorter] = through[shorter]
        unsettled[node] = np.inf
    return np.asarray(lengths)


def _by_rounds(edges: Array, source: int) -> Array:
    """Find the shortest paths from one node: each round tries one edge more (Bellman and Ford)."""
    lengths = edges[source].copy()
    better = np.isfinite(lengths)
    for _ in range(len(edges)):
        if not better.any():
            break
        # Only nodes that came nearer can bring others nearer.
        reached = np.flatnonzero(better)
        through = (lengths[reached, None] + edges[reached]).min(axis=0)
        better = through < lengths
        np.minimum(lengths, through, out=lengths)
    return np.asarray(lengths)


def _closure(graph: Any, **arguments: Any) -> Sample:
    if graph_size(graph) <= _WHOLE_GRAPH:
        return _whole("transitive_closure", (graph,), arguments)
    weights, rule, directed = _read(graph, arguments, truths=True)
    sentinel = arguments.get("no_edge") or 0.0
    edges = weights if weights.dtype == bool else reference.is_edge(weights, rule, sentinel)
    if not directed:
        edges = edges | edges.T
    rows = sample_rows(len(edges), _count(len(edges) ** 2, _PATH_STEPS))
    exact = np.stack([_reached_from(edges, int(source)) for source in rows])
    if arguments.get("reflexive", False):
        exact[np.arange(len(rows)), rows] = True
    return _of_rows(rows, exact)


def _reached_from(edges: Array, source: int) -> Array:
    """Find what can be reached from one node: each round goes one edge further."""
    reached = edges[source].copy()
    latest = reached
    while latest.any():
        latest = edges[latest].any(axis=0) & ~reached
        reached |= latest
    return np.asarray(reached)


def _perron(a: Any, **arguments: Any) -> Sample:
    # The reference's bounds come no nearer to each other than some n roundings.
    tol = max(1e-13, 2.0**-50 * len(a))
    given = arguments | {"tol": tol, "max_iter": 10_000, "kernel": "reference"}
    with warnings.catch_warnings():  # what it reaches will do
        warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
        value = gpudist.perron(np.asarray(a, np.float64), **given).value
    return Sample(1, np.array([value]), lambda result: [np.array([result.value])])


def _whole(op: str, operands: tuple[Any, ...], arguments: dict[str, Any]) -> Sample:
    """Compute everything with ``kernel="reference"``."""
    exact = getattr(gpudist, op)(*operands, kernel="reference", **arguments)
    return Sample(len(exact), np.asarray(exact).ravel(), lambda result: [result.reshape(-1)])


_RULES: dict[str, Callable[..., Sample]] = {
    "cdist": _cdist,
    "pdist": _pdist,
    "nearest": _knn,
    "knn": _knn,
    "radius_neighbors": _radius_neighbors,
    "count_neighbors": _count_neighbors,
    "apsp": _apsp,
    "transitive_closure": _closure,
    "minplus": _minplus,
    "perron": _perron,
}
