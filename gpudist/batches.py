"""Shortest paths in many graphs at once: stacked arrays, padded ones, lists of graphs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, cycles, named, registry, results, semirings
from gpudist.progress import watched

Index = int | tuple[int, ...]

# So many elements of narrow integers are made of int32 at a time.
_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Graphs:
    """Many graphs as the core reads them.

    Attributes
    ----------
    weights : ndarray or None
        Their weights in one row: matrices one after the other, or of edges; None where each edge
        weighs 1.
    count, n : int
        How many graphs there are; the most nodes of one, and the rows of a matrix if not `packed`.
    sizes : ndarray of int32, shape (count,), or None
        How many nodes each has, None for n.
    packed : bool
        Whether matrices have as many rows as their graph has nodes.
    first_edges : ndarray of int64, shape (count + 1,), or None
        Of edges, where those of each graph begin.
    tails, heads : ndarray of int32 or None
        Their ends.
    no_edge : float or None
        As for `apsp`; infinite where zeros are edges.
    """

    weights: Any
    count: int
    n: int
    sizes: Any = None
    packed: bool = False
    first_edges: Any = None
    tails: Any = None
    heads: Any = None
    no_edge: float | None = None

    def size(self, k: int) -> int:
        """Return how many nodes graph k has."""
        return self.n if self.sizes is None else int(self.sizes[k])

    def matrices(self, row: Any) -> list[Any]:
        """Return the matrix of each graph in one row of all, without what pads it.

        Parameters
        ----------
        row : ndarray, shape (elements,)
            Weights or results.

        Returns
        -------
        list of ndarray
            Views of shape (size, size).
        """
        if not self.packed:
            whole = row.reshape(self.count, self.n, self.n)
            return [whole[k, : self.size(k), : self.size(k)] for k in range(self.count)]
        places = itertools.accumulate((self.size(k) ** 2 for k in range(self.count)), initial=0)
        return [
            row[i:j].reshape(self.size(k), self.size(k))
            for k, (i, j) in enumerate(itertools.pairwise(places))
        ]

    @property
    def elements(self) -> int:
        """How many elements all matrices have."""
        if not self.packed:
            return self.count * self.n**2
        return sum(self.size(k) ** 2 for k in range(self.count))

    @property
    def steps(self) -> int:
        """How many updates the plain loop makes in all graphs."""
        if self.sizes is None:
            return self.count * self.n**3
        return int((self.sizes.astype(np.float64) ** 3).sum())

    def alone(self, k: int) -> Any:
        """Return graph k as `apsp` takes it by itself, with `no_edge`."""
        if self.first_edges is None:
            return self.matrices(self.weights)[k]
        first, last = self.first_edges[k : k + 2]
        return named.EdgeList(
            self.tails[first:last].astype(np.intp),
            self.heads[first:last].astype(np.intp),
            np.ones(last - first) if self.weights is None else self.weights[first:last],
            list(range(self.size(k))),
            True,
        )


def are(graph: Any) -> bool:
    """Tell whether this is more than one graph: an array of more dimensions, or a list of graphs.

    Parameters
    ----------
    graph : any
        What `apsp` got.

    Returns
    -------
    bool
        Whether it is none by itself.
    """
    if isinstance(graph, (list, tuple)) and not isinstance(graph, named.EdgeList):
        first = graph[0] if graph else None
        if _is_graph(first):
            return True
        # A list of lists of lists is an array of three dimensions.
        return isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) > 0
    dimensions = getattr(graph, "ndim", 2)
    return isinstance(dimensions, int) and dimensions > 2


def _is_graph(thing: Any) -> bool:
    return (
        named.is_named(thing) or hasattr(thing, "tocsr") or getattr(thing, "ndim", None) in (2, 3)
    )


def apsp(
    graph: Any,
    *,
    sizes: Any,
    no_edge: float | None,
    directed: bool,
    unweighted: bool,
    overwrite: bool,
    return_predecessors: bool,
    out: Any,
    dtype: Any,
    semiring: str,
    kernel: str,
    device: object,
    options: dict[str, int] | None,
    progress: Any,
    max_memory: int | str | None,
    unreachable: float | None,
    max_hops: int | None,
    weight: Any,
    nodelist: Any,
    labels: bool,
) -> Any:
    """Compute shortest paths in many graphs; see `gpudist.apsp`.

    Parameters
    ----------
    graph : array_like, shape (..., n, n), or list of graphs
        The graphs.
    sizes : array_like of int, shape (...), or None
        How many nodes of each are in use.
    no_edge, directed, unweighted, overwrite, return_predecessors, out, dtype, semiring, kernel,
    device, options, progress, max_memory, unreachable, max_hops, weight, nodelist, labels
        As for `gpudist.apsp`.

    Returns
    -------
    dist, predecessors
        Arrays, or of a list lists of arrays.
    """
    call = _Call(
        checks.truth("directed", directed),
        checks.truth("unweighted", unweighted),
        checks.truth("return_predecessors", return_predecessors),
        semiring,
        kernel,
        device,
        options,
        progress,
        max_memory,
    )
    checks.truth("overwrite", overwrite)
    if semiring == "or_and":
        results.refuse_for_truths(unreachable, max_hops)
    if isinstance(graph, (list, tuple)) and graph and _is_graph(graph[0]):
        if out is not None or sizes is not None:
            name = "out" if out is not None else "sizes"
            raise TypeError(f"{name} is for arrays of graphs, not for lists of them")
        if nodelist is not None:
            raise TypeError("nodelist is for one graph, not for lists of them")
        strict = unweighted is False and semiring != "or_and"
        given = [named.take(one, weight, labels=labels, strict=strict) for one in graph]
        if semiring == "or_and":
            found = [call.truths(one, no_edge) for one, _ in given]
        else:
            listed = _of_list([one for one, _ in given], no_edge)
            found = call.of_list(listed, dtype, unreachable, max_hops)
        if not labels:
            return found
        dist, before = found if call.predecessors else (found, [None] * len(given))
        return [
            named.ShortestPaths(list(range(len(d))) if nodes is None else nodes, d, p)
            for (_, nodes), d, p in zip(given, dist, before, strict=True)
        ]
    if labels or weight != "weight" or nodelist is not None:
        raise TypeError("labels, weight and nodelist are for graphs with names, not for arrays")
    if semiring == "or_and":
        if sizes is not None:
            raise ValueError("sizes is not for or_and: nodes without edges reach themselves alone")
        return call.truths(graph, no_edge, out)
    listed, lead = _of_array(graph, sizes, no_edge)
    return call.of_array(listed, dtype, unreachable, max_hops, lead, out)


def of_listed(
    graphs: Graphs,
    lead: tuple[int, ...] | None,
    *,
    no_edge: None = None,
    directed: bool = True,
    unweighted: bool = False,
    overwrite: bool = False,
    return_predecessors: bool = False,
    out: Any = None,
    dtype: Any = None,
    semiring: str = "min_plus",
    kernel: str = "auto",
    device: object = None,
    options: dict[str, int] | None = None,
    progress: Any = False,
    max_memory: int | str | None = None,
    unreachable: float | None = None,
    max_hops: int | None = None,
) -> Any:
    """Compute shortest paths in graphs that list their edges.

    Parameters
    ----------
    graphs : Graphs
        From `of_edges`.
    lead : tuple of int or None
        The leading dimensions of the results; None for lists of arrays.
    no_edge, directed, unweighted, overwrite, return_predecessors, out, dtype, semiring, kernel,
    device, options, progress, max_memory, unreachable, max_hops
        As for `gpudist.apsp`.

    Returns
    -------
    dist, predecessors
        Arrays, or lists of arrays.
    """
    semirings.check(semiring)
    call = _Call(
        checks.truth("directed", directed),
        checks.truth("unweighted", unweighted),
        checks.truth("return_predecessors", return_predecessors),
        semiring,
        kernel,
        device,
        options,
        progress,
        max_memory,
    )
    checks.truth("overwrite", overwrite)
    if no_edge is not None:
        raise ValueError("no_edge is for dense arrays; these graphs list their edges")
    if out is not None and lead is None:
        raise TypeError("out is for graphs of one size, given as n=")
    if semiring == "or_and":
        results.refuse_for_truths(unreachable, max_hops)
        found = [call.truths(graphs.alone(k), None) for k in range(graphs.count)]
        return found if lead is None else np.array(found).reshape(*lead, graphs.n, graphs.n)
    if lead is None:
        return call.of_list(graphs, dtype, unreachable, max_hops)
    return call.of_array(graphs, dtype, unreachable, max_hops, lead, out)


_DTYPES = ("float32", "float64", "int32")


class _Call(NamedTuple):
    """What is asked for beside the graphs."""

    directed: bool
    unweighted: bool
    predecessors: bool
    semiring: str
    kernel: str
    device: Any
    options: dict[str, int] | None
    progress: Any
    max_memory: Any

    def truths(self, graph: Any, no_edge: float | None, out: Any = None) -> Any:
        """Return the reflexive closure of one graph or of an array of them."""
        from gpudist import paths

        paths.check_truths(self.predecessors, None)
        return paths.transitive_closure(
            graph,
            out=out,
            no_edge=no_edge,
            directed=self.directed,
            reflexive=True,
            kernel=self.kernel,
            device=self.device,
            options=self.options,
            max_memory=self.max_memory,
        )

    def of_array(
        self,
        graphs: Graphs,
        dtype: Any,
        unreachable: Any,
        max_hops: Any,
        lead: tuple[int, ...],
        out: Any,
    ) -> Any:
        """Run, and return arrays with the leading dimensions `lead`, lengths in `out` if given."""
        if out is not None:
            dtype = arrays.out_dtype(out, (*_DTYPES, *results.NARROW), dtype)
            arrays.check_out(out, (*lead, graphs.n, graphs.n))
        dist, before = self.run(graphs, dtype, unreachable, max_hops, lead, out)
        return (dist, before) if self.predecessors else dist

    def of_list(self, graphs: Graphs, dtype: Any, unreachable: Any, max_hops: Any) -> Any:
        """Run, and return lists of arrays, one for each graph."""
        dist, before = self.run(graphs, dtype, unreachable, max_hops, None, None)
        lengths = graphs.matrices(dist)
        return (lengths, graphs.matrices(before)) if self.predecessors else lengths

    def run(
        self,
        graphs: Graphs,
        dtype: Any,
        unreachable: Any,
        max_hops: Any,
        lead: tuple[int, ...] | None,
        out: Any,
    ) -> tuple[Any, Any]:
        """Return lengths and predecessors or None, of shape (*lead, n, n), or in one row."""
        from gpudist import paths

        device, max_memory = registry.read_orders(
            "apsp", self.kernel, self.options, self.device, self.progress, self.max_memory
        )
        most = results.read_max_hops(max_hops, self.unweighted, self.semiring)
        name = paths.result_dtype(arrays.HOST, graphs.weights, dtype, self.semiring)
        none = results.read_unreachable(unreachable, name)
        shape = (graphs.elements,) if lead is None else (*lead, graphs.n, graphs.n)
        dist = arrays.HOST.empty(shape, name, like=None) if out is None else out
        before = arrays.HOST.empty(shape, "int32", like=None) if self.predecessors else None
        rows = dist.reshape(-1), None if before is None else before.reshape(-1)
        if (
            out is not None
            and graphs.weights is not None
            and np.may_share_memory(out, graphs.weights)
        ):
            graphs = dataclasses.replace(graphs, weights=graphs.weights.copy())
        orders = device, max_memory, none, most
        if name in results.NARROW:
            self._narrowed(graphs, rows, name, lead, orders)
        else:
            self._close(graphs, rows, lead, orders)
        return dist, before

    def _narrowed(
        self, graphs: Graphs, rows: tuple[Any, Any], name: str, lead: Any, orders: Any
    ) -> None:
        """Compute a part of the graphs at a time in int32, and write it as it is wanted."""
        device, max_memory, none, most = orders
        dist, before = rows
        step, at = max(1, _CHUNK // max(1, graphs.n**2)), 0
        for first in range(0, graphs.count, step):
            some = _part(graphs, first, min(first + step, graphs.count))
            wide, here = np.empty(some.elements, np.int32), slice(at, at := at + some.elements)
            ways = None if before is None else before[here]
            self._close(
                some, (wide, ways), lead, (device, max_memory, results.UNREACHABLE, most), first
            )
            try:
                results.narrow(wide[None], name, none, dist[None, here])
            except OverflowError:
                for k, own in enumerate(some.matrices(wide)):
                    try:
                        results.narrow(own, name, none, None)
                    except OverflowError as error:
                        raise _of_graph(error, _index(first + k, lead)) from None
        if not graphs.packed and graphs.sizes is not None:
            limit = np.iinfo(name).max
            _fill_outside(graphs, rows, limit if none is None else none)

    def _close(
        self,
        graphs: Graphs,
        rows: tuple[Any, Any],
        lead: Any,
        orders: tuple[Any, Any, float | None, int | None],
        first: int = 0,
    ) -> None:
        """Fill the results: side by side what goes so, and the others one by one."""
        from gpudist import paths

        device, max_memory, none, most = orders
        dist, before = rows
        name = dist.dtype.name
        worst = paths.unreachable_of(name, graphs.no_edge, self.semiring)
        value = worst if none is None else none
        doubts = np.full(graphs.count, math.nan)
        if self.kernel == "auto" and device in (None, "cpu") and graphs.count:
            with watched(self.progress, graphs.steps, "apsp") as watch:
                _core.apsp_batch(
                    graphs.weights if graphs.weights is None else graphs.weights.reshape(1, -1),
                    dist,
                    before,
                    doubts,
                    graphs.n,
                    graphs.packed,
                    graphs.sizes,
                    graphs.first_edges,
                    graphs.tails,
                    graphs.heads,
                    _rule(graphs),
                    0.0 if graphs.no_edge is None else graphs.no_edge,
                    self.directed,
                    self.unweighted or (graphs.first_edges is not None and graphs.weights is None),
                    value,
                    device="cpu",
                    semiring=self.semiring,
                    progress=watch,
                    max_memory=max_memory,
                )
        doubtful = doubts != 0
        if doubtful.any():
            lengths = graphs.matrices(dist)
            ways = None if before is None else graphs.matrices(before)
            for k in np.flatnonzero(doubtful).tolist():
                if none is None and not math.isnan(doubts[k]):
                    best = 0.0 - lengths[k] if self.semiring == "max_plus" else lengths[k]
                    if not cycles.may_hide(best, doubts[k]):
                        continue
                self._alone(graphs, k, _index(first + k, lead), none, lengths, ways)
            if not graphs.packed and graphs.sizes is not None:
                _fill_outside(graphs, rows, value)
        if most is not None:
            results.cap(dist, before, most, value)

    def _alone(
        self,
        graphs: Graphs,
        k: int,
        index: Any,
        none: float | None,
        lengths: list[Any],
        ways: list[Any] | None,
    ) -> None:
        """Do graph k by itself; its errors say which graph they are about."""
        from gpudist import paths

        graph = graphs.alone(k)
        try:
            found = paths.apsp(
                graph,
                no_edge=None if isinstance(graph, named.EdgeList) else graphs.no_edge,
                directed=self.directed,
                unweighted=self.unweighted,
                return_predecessors=self.predecessors,
                dtype=lengths[k].dtype.name,
                semiring=self.semiring,
                kernel=self.kernel,
                device=self.device,
                options=self.options,
                max_memory=self.max_memory,
                unreachable=none,
            )
        except (ValueError, OverflowError, MemoryError) as error:
            raise _of_graph(error, index) from None
        except Exception as error:
            if hasattr(error, "cycle"):  # NegativeCycleError, whose base depends on SciPy
                raise _of_graph(error, index) from None
            raise
        if ways is not None:
            found, ways[k][...] = found
        lengths[k][...] = found


def _of_graph(error: Exception, index: Index) -> Exception:
    """Return the same error, which names the graph too."""
    error.args = (f"graph {index}: {error}",)
    error.graph = index  # type: ignore[attr-defined]
    return error


def _index(k: int, lead: tuple[int, ...] | None) -> Index:
    """Return where graph k is in an array of graphs, or in a list."""
    if lead is None or len(lead) == 1:
        return k
    return tuple(map(int, np.unravel_index(k, lead)))


def _rule(graphs: Graphs) -> str:
    if graphs.first_edges is not None:
        return "infinite"
    return "zero" if graphs.no_edge is None else "sentinel"


def _part(graphs: Graphs, first: int, last: int) -> Graphs:
    """Return some of the graphs, the core's part of them alone."""
    sizes = None if graphs.sizes is None else graphs.sizes[first:last]
    if graphs.first_edges is not None:
        return dataclasses.replace(
            graphs,
            count=last - first,
            sizes=sizes,
            first_edges=graphs.first_edges[first : last + 1],
        )
    before = dataclasses.replace(graphs, count=first, sizes=graphs.sizes).elements
    own = dataclasses.replace(graphs, count=last - first, sizes=sizes)
    return dataclasses.replace(own, weights=graphs.weights[before : before + own.elements])


def _fill_outside(graphs: Graphs, rows: tuple[Any, Any], unreachable: float) -> None:
    """Fill what pads the results of graphs that are smaller than others."""
    outside = np.arange(graphs.n) >= graphs.sizes[:, None]
    mask = outside[:, :, None] | outside[:, None, :]
    for row, value in zip(rows, (unreachable, results.NO_PREDECESSOR), strict=True):
        if row is not None:
            row.reshape(graphs.count, graphs.n, graphs.n)[mask] = value


# ---------------------------------------------------------------- graphs as they are given


def _of_array(graph: Any, sizes: Any, no_edge: float | None) -> tuple[Graphs, tuple[int, ...]]:
    """Read an array of graphs; return also its leading dimensions."""
    no_edge = None if no_edge is None else checks.number("no_edge", no_edge)
    space = arrays.space_of(graph=graph)
    if space is not arrays.HOST:
        raise TypeError(
            "graph is a batch on a CUDA device, and batches are computed on the CPU: give a host "
            "array, or call apsp on graph[i] for each i"
        )
    if isinstance(graph, np.ma.MaskedArray):
        if no_edge is not None:
            raise ValueError("no_edge is for plain arrays; a masked array masks what is no edge")
        data = arrays.HOST.array(graph.data, "graph")
        kept = data.dtype if data.dtype.name in ("float32", "float64") else np.dtype(np.float64)
        weights = np.where(np.ma.getmaskarray(graph), np.inf, data).astype(kept, copy=False)
        no_edge = math.inf
    else:
        weights = arrays.HOST.array(graph, "graph")
    if weights.ndim < 3 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            f"graph must have shape (..., n, n) with sizes=, got {weights.shape}"
            if sizes is not None
            else f"graph must be square matrices, got shape {weights.shape}"
        )
    small = weights.dtype.name in ("int8", "uint8", "int16", "uint16")
    kind = weights.dtype.name if weights.dtype.name in _DTYPES else "int32" if small else "float64"
    weights = weights.astype(kind, copy=False)  # in this machine's byte order
    *lead, n, _ = weights.shape
    count = math.prod(lead)
    flat = np.ascontiguousarray(weights).reshape(-1)
    return Graphs(flat, count, n, _sizes(sizes, tuple(lead), n), no_edge=no_edge), tuple(lead)


def _sizes(sizes: Any, lead: tuple[int, ...], most: int) -> Any:
    if sizes is None:
        return None
    given = arrays.host_objects(sizes, "sizes")
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"sizes must be whole numbers, got an array of {given.dtype}")
    if given.shape != lead:
        raise ValueError(f"sizes must have shape {lead}, one for each graph, got {given.shape}")
    wrong = (given < 0) | (given > most)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        index = _index(int(np.ravel_multi_index(tuple(at), lead)), lead)
        raise ValueError(
            f"sizes must be from 0 to {most}, the graphs' rows, got {given[tuple(at)]} for graph "
            f"{index}"
        )
    return np.ascontiguousarray(given, np.int32).reshape(-1)


def of_edges(
    ends: tuple[Any, Any], weights: Any, first_edges: Any, sizes: Any, n: int | None = None
) -> Graphs:
    """Return graphs that are lists of edges, one after the other.

    Parameters
    ----------
    ends : tuple of ndarray of int, shape (m,)
        The first and the last node of each edge, by its position in its graph.
    weights : ndarray, shape (m,), or None
        What edges weigh, None for 1.
    first_edges : ndarray of int, shape (count + 1,)
        Where the edges of each graph begin.
    sizes : ndarray of int, shape (count,)
        How many nodes each has.
    n : int, optional
        How many all have.

    Returns
    -------
    Graphs
        The record.
    """
    tails, heads = (np.ascontiguousarray(end, np.int32) for end in ends)
    count = len(sizes)
    return Graphs(
        None if weights is None else np.ascontiguousarray(weights),
        count,
        int(np.max(sizes, initial=0)) if n is None else n,
        np.ascontiguousarray(sizes, np.int32),
        True,
        np.ascontiguousarray(first_edges, np.int64),
        tails,
        heads,
    )


def _of_list(given: Sequence[Any], no_edge: float | None) -> Graphs:
    """Read graphs of all kinds: those that list their edges as such, others as matrices."""
    from gpudist import paths

    if all(isinstance(one, named.EdgeList) or hasattr(one, "tocsr") for one in given):
        if no_edge is not None:
            raise ValueError("no_edge is for dense arrays; these graphs list their edges")
        lists = [_edges(one) for one in given]
        first_edges = np.cumsum([0, *(len(one.tails) for one in lists)])
        return of_edges(
            (_joined([one.tails for one in lists]), _joined([one.heads for one in lists])),
            _joined([one.weights for one in lists]),
            first_edges,
            np.array([len(one.nodes) for one in lists], np.int64),
        )
    matrices, rules = [], set()
    for k, one in enumerate(given):
        try:
            space, weights, rule = paths.read(one, no_edge if _is_plain(one) else None)
        except (TypeError, ValueError) as error:
            raise _of_graph(error, k) from None
        arrays.refuse_devices(space, "a list of graphs")
        matrices.append(weights)
        rules.add(rule)
    if len(rules) > 1:  # zeros are edges in some, and so infinities are none in all
        matrices = [
            w if not _is_plain(one) else np.where(w == (no_edge or 0.0), np.inf, w.astype(float))
            for one, w in zip(given, matrices, strict=True)
        ]
    kind = {w.dtype.name for w in matrices}
    dtype = kind.pop() if len(kind) == 1 else "float64"
    sizes = np.array([len(w) for w in matrices], np.int32)
    flat = _joined([np.asarray(w, dtype).reshape(-1) for w in matrices])
    infinite = rules != {"zero"} and rules != {"sentinel"}
    return Graphs(
        flat.astype(dtype, copy=False),
        len(matrices),
        int(sizes.max(initial=0)),
        sizes,
        True,
        no_edge=math.inf if infinite else no_edge,
    )


def _is_plain(graph: Any) -> bool:
    """Tell whether zeros, or what `no_edge` names, are no edges in it."""
    return not (isinstance(graph, (named.EdgeList, np.ma.MaskedArray)) or hasattr(graph, "tocsr"))


def _edges(graph: Any) -> named.EdgeList:
    """Return the edges of a graph that lists them; those of one that is undirected both ways."""
    if isinstance(graph, named.EdgeList):
        return graph
    entries = graph.tocsr().tocoo()
    data = arrays.HOST.array(entries.data, "graph")
    if data.dtype.name != "float32":
        data = data.astype(np.float64)
    rows, columns = graph.shape
    if rows != columns:
        raise ValueError(f"graph must be a square matrix, got shape {graph.shape}")
    return named.EdgeList(entries.row, entries.col, data, list(range(rows)), True)


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0)


# ---------------------------------------------------------------- other operations


def closure(graph: Any, out: Any, **arguments: Any) -> Any:
    """Find out what can be reached in each graph of an array or of a list.

    Parameters
    ----------
    graph : array_like, shape (..., n, n), or list of graphs
        The graphs.
    out : bool array, shape (..., n, n), or None
        Where to write the results of an array.
    **arguments
        What else `gpudist.transitive_closure` takes.

    Returns
    -------
    bool array, or list of them
        Which nodes can be reached from which.
    """
    from gpudist import paths, stacks

    if isinstance(graph, (list, tuple)) and graph and _is_graph(graph[0]):
        if out is not None:
            raise TypeError("out is for arrays of graphs, not for lists of them")
        return [paths.transitive_closure(one, **arguments) for one in graph]
    return stacks.closure(graph, out, **arguments)


def explain(
    graph: Any,
    sizes: Any,
    no_edge: float | None,
    weight: Any,
    one: dict[str, Any],
    strict: bool,
) -> registry.Explanation:
    """Say what `apsp` would do with many graphs.

    Parameters
    ----------
    graph, sizes, no_edge, weight
        As for `apsp`.
    one : dict
        What `explain_apsp` takes for a graph that is done by itself.
    strict : bool
        As for `named.take`.

    Returns
    -------
    Explanation
        Of the graphs that stand side by side; else of the largest graph, which says so.
    """
    from gpudist import paths

    if isinstance(graph, (list, tuple)) and graph and _is_graph(graph[0]):
        listed = _of_list([named.take(g, weight, strict=strict)[0] for g in graph], no_edge)
    else:
        listed, _ = _of_array(graph, sizes, no_edge)
    name = paths.result_dtype(arrays.HOST, listed.weights, one["dtype"], one["semiring"])
    computed = "int32" if name in results.NARROW else name
    most = registry.kernels("apsp_batch")[0].columns[1]
    side_by_side = one["kernel"] == "auto" and one["device"] in (None, "cpu")
    smallest = listed.n if listed.sizes is None else int(listed.sizes.min(initial=listed.n))
    if not listed.count or not side_by_side or smallest > most:
        largest = np.zeros((listed.n, listed.n), computed)
        said = paths.explain_apsp(largest, **one)
        why = f"each of {listed.count} graphs by itself, of which this is one; {said.reason}"
        return dataclasses.replace(said, reason=why)
    elements, before = listed.elements, 4 * listed.elements if one["return_predecessors"] else 0
    said = registry.choose(
        "apsp_batch",
        dtype=computed,
        n=listed.n,
        cols=smallest,
        kernel="auto",
        device="cpu",
        space=arrays.HOST,
        elements_moved=2 * elements,
        elements_written=elements,
        result_bytes=before,
        operations=listed.steps,
        semiring=one["semiring"],
    )
    larger = 0 if listed.sizes is None else int((listed.sizes > most).sum())
    why = f"{listed.count} graphs, side by side in vectors"
    if larger:
        why += f"; {larger} of them, with more than {most} nodes, by apsp's own kernels"
    return dataclasses.replace(said, reason=why)
