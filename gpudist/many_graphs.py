"""Many graphs as the core reads them: stacked arrays, padded ones, lists of graphs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gpudist import _core, arrays, foreign, named, results
from gpudist.intake import Orders
from gpudist.paths_call import number_or_none, read_graph

Index = int | tuple[int, ...]


# Fewer graphs of more nodes than a block of a device holds are done one by one: kernels of apsp
# share one out among all multiprocessors.
FEW = 4


@cache
def most_nodes(backend: str) -> int:
    """Return how many nodes graphs have at most that "cpu" or "cuda" computes side by side."""
    rows = [row for row in _core.kernels() if row["op"] == "apsp_batch"]
    return max(int(row["columns"][1]) for row in rows if row["backend"] == backend)


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
    space : Space
        Where the weights are, and the results will be.
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
    space: arrays.Space = arrays.HOST

    @property
    def dtype(self) -> str | None:
        """The name of the weights' dtype, None where there are none."""
        return None if self.weights is None else self.space.dtype_name(self.weights)

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

    def each(self, row: Any) -> Callable[[int], Any]:
        """Return what gives the matrix of graph k, as in `matrices`, where few are asked for.

        Parameters
        ----------
        row : array, shape (elements,)
            Weights or results.

        Returns
        -------
        callable
            From the number of a graph to a view.
        """
        if self.packed:
            return self.matrices(row).__getitem__
        whole = row.reshape(self.count, self.n, self.n)
        return lambda k: whole[k, : self.size(k), : self.size(k)]

    @property
    def rule(self) -> str:
        """What is no edge in the weights, as the core has it."""
        if self.first_edges is not None:
            return "infinite"
        return "zero" if self.no_edge is None else "sentinel"

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

    def part(self, first: int, last: int) -> Graphs:
        """Return some of the graphs.

        Parameters
        ----------
        first, last : int
            The first of them, and the one after the last.

        Returns
        -------
        Graphs
            What the core needs of them.
        """
        sizes = None if self.sizes is None else self.sizes[first:last]
        if self.first_edges is not None:
            return dataclasses.replace(
                self,
                count=last - first,
                sizes=sizes,
                first_edges=self.first_edges[first : last + 1],
            )
        before = dataclasses.replace(self, count=first, sizes=self.sizes).elements
        own = dataclasses.replace(self, count=last - first, sizes=sizes)
        return dataclasses.replace(own, weights=self.weights[before : before + own.elements])

    def alone(self, k: int) -> Any:
        """Return graph k as `apsp` takes it by itself, with `no_edge`."""
        if self.first_edges is None:
            return self.each(self.weights)(k)
        first, last = self.first_edges[k : k + 2]
        return named.EdgeList(
            self.tails[first:last].astype(np.intp),
            self.heads[first:last].astype(np.intp),
            np.ones(last - first) if self.weights is None else self.weights[first:last],
            list(range(self.size(k))),
            True,
        )


def where_side_by_side(graphs: Graphs, orders: Orders, semiring: str) -> str | None:
    """Return the device on which the core computes many graphs at once, None for one by one.

    Host arrays of small graphs would travel for longer than the CPU takes.

    Parameters
    ----------
    graphs : Graphs
        The graphs.
    orders : Orders
        The orders, read.
    semiring : str
        What lengths are.

    Returns
    -------
    str or None
        "cpu", "cuda", or the device that was asked for.
    """
    small = graphs.n <= most_nodes("cpu")
    if orders.kernel != "auto" or not graphs.count:
        return None
    tiles = (
        not graphs.packed
        and graphs.first_edges is None
        and semiring.endswith("plus")
        and graphs.n <= most_nodes("cuda")
        and (small or graphs.count >= FEW)
    )
    if graphs.space is not arrays.HOST or (orders.device or "cpu") != "cpu":
        return (orders.device or "cuda") if tiles else None
    goes = tiles and not small and orders.device is None
    return "cuda" if goes and _core.cuda()["why_not"] is None else "cpu"


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
        if is_graph(first):
            return True
        # A list of lists of lists is an array of three dimensions.
        return isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) > 0
    dimensions = getattr(graph, "ndim", 2)
    return isinstance(dimensions, int) and dimensions > 2


def is_graph(thing: Any) -> bool:
    """Tell whether it is one graph or an array of them, rather than a row of numbers."""
    return (
        named.is_named(thing) or hasattr(thing, "tocsr") or getattr(thing, "ndim", None) in (2, 3)
    )


def read(graph: Any, sizes: Any, no_edge: float | None, weight: Any, strict: bool) -> Graphs:
    """Read many graphs, of which no more is wanted than what they are.

    Parameters
    ----------
    graph, sizes, no_edge, weight
        As for `gpudist.apsp`.
    strict : bool
        As for `named.take`.

    Returns
    -------
    Graphs
        The record.
    """
    if is_list(graph):
        return of_list([one for one, _ in taken(graph, weight, strict=strict)], no_edge)
    return of_array(graph, sizes, no_edge)[0]


def is_list(graph: Any) -> bool:
    """Tell whether it is a list of graphs, rather than an array of them."""
    return isinstance(graph, (list, tuple)) and len(graph) > 0 and is_graph(graph[0])


def taken(
    given: Sequence[Any], weight: Any, *, labels: bool = False, strict: bool
) -> list[tuple[Any, list[Any] | None]]:
    """Take each graph of a list as `named.take` takes one; errors name the graph."""
    found = []
    for k, one in enumerate(given):
        try:
            found.append(named.take(one, weight, labels=labels, strict=strict))
        except (TypeError, ValueError) as error:
            raise of_graph(error, k, None) from None
    return found


def of_array(graph: Any, sizes: Any, no_edge: float | None) -> tuple[Graphs, tuple[int, ...]]:
    """Read an array of graphs; return also its leading dimensions."""
    no_edge = number_or_none(no_edge)
    refuse_uneven(graph)
    space = arrays.space_of(graph=graph)
    if space is not arrays.HOST:
        return _of_device(space, graph, sizes, no_edge)
    if isinstance(graph, np.ma.MaskedArray):
        if no_edge is not None:
            raise ValueError("no_edge is for plain arrays; a masked array masks what is no edge")
        data = arrays.HOST.array(graph.data, "graph")
        kept = data.dtype if data.dtype.name in ("float32", "float64") else np.dtype(np.float64)
        weights = np.where(np.ma.getmaskarray(graph), np.inf, data).astype(kept, copy=False)
        no_edge = math.inf
    else:
        weights = arrays.HOST.array(graph, "graph")
    *lead, n, _ = _checked(weights.shape, sizes)
    weights = weights.astype(_kind(weights.dtype.name), copy=False)  # in this machine's byte order
    count = math.prod(lead)
    flat = np.ascontiguousarray(weights).reshape(-1)
    return Graphs(flat, count, n, sizes_in_use(sizes, tuple(lead), n), no_edge=no_edge), tuple(lead)


def refuse_uneven(graph: Any) -> None:
    """Raise a ValueError for nested lists that are graphs of several sizes, and so no array."""
    if foreign.uneven_rows(graph):
        raise ValueError(
            "graph holds graphs of several sizes: give them as arrays in a list, "
            "[numpy.asarray(one) for one in graph]"
        )


def _checked(shape: tuple[int, ...], sizes: Any) -> tuple[int, ...]:
    """Return the shape of graphs, or raise a ValueError where it is none of theirs."""
    if len(shape) < 3 or shape[-1] != shape[-2]:
        raise ValueError(
            f"graph must have shape (..., n, n) with sizes=, got {tuple(shape)}"
            if sizes is not None
            else f"graph must be square matrices, got shape {tuple(shape)}"
        )
    return tuple(shape)


def _kind(name: str) -> str:
    """Return the dtype in which the core reads weights of that one."""
    small = name in ("int8", "uint8", "int16", "uint16")
    return name if name in results.CORE_DTYPES else "int32" if small else "float64"


def _of_device(
    space: arrays.Space, graph: Any, sizes: Any, no_edge: float | None
) -> tuple[Graphs, tuple[int, ...]]:
    """Read an array of graphs on a CUDA device, as `of_array` does on the host."""
    weights, name = space.read(graph, "graph")
    *lead, n, _ = _checked(weights.shape, sizes)
    weights = arrays.dense(space, space.cast(weights, _kind(name)))
    listed = sizes_in_use(sizes, tuple(lead), n)
    read = Graphs(weights, math.prod(lead), n, listed, no_edge=no_edge, space=space)
    return read, tuple(lead)


def sizes_in_use(sizes: Any, lead: tuple[int, ...], most: int) -> Any:
    """Read how many nodes of each graph in an array are in use.

    Parameters
    ----------
    sizes : array_like of int, or None
        What was given.
    lead : tuple of int
        The array's leading dimensions.
    most : int
        The rows of a graph.

    Returns
    -------
    ndarray of int32, shape (count,), or None
        The sizes in a row, None if none were given.

    Raises
    ------
    TypeError, ValueError
        They are no whole numbers, of another shape, or there is no such size.
    """
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
        index = index_of(int(np.ravel_multi_index(tuple(at), lead)), lead)
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


def of_list(given: Sequence[Any], no_edge: float | None) -> Graphs:
    """Read graphs of all kinds: those that list their edges as such, others as matrices."""
    no_edge = number_or_none(no_edge)
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
            space, weights, _, rule, _ = read_graph(one, no_edge)
        except (TypeError, ValueError) as error:
            raise of_graph(error, k, None) from None
        arrays.refuse_devices(space, "a list of graphs")
        matrices.append(weights)
        rules.add(rule)
    if len(rules) > 1:  # zeros are edges in some, and so infinities are none in all
        matrices = [
            w if not _is_plain(one) else np.where(w == 0, np.inf, _as_floats(w))
            for one, w in zip(given, matrices, strict=True)
        ]
    kind = {w.dtype.name for w in matrices}
    dtype = kind.pop() if len(kind) == 1 else "float64"
    sizes = np.array([len(w) for w in matrices], np.int32)
    flat = _joined([np.asarray(w, dtype).reshape(-1) for w in matrices])
    return Graphs(
        flat.astype(dtype, copy=False),
        len(matrices),
        int(sizes.max(initial=0)),
        sizes,
        True,
        no_edge=math.inf if "infinite" in rules else no_edge,
    )


def _is_plain(graph: Any) -> bool:
    """Tell whether zeros are no edges in it."""
    return not (isinstance(graph, (named.EdgeList, np.ma.MaskedArray)) or hasattr(graph, "tocsr"))


def _as_floats(weights: Any) -> Any:
    return weights if weights.dtype.kind == "f" else weights.astype(np.float64)


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


def of_graph(error: Exception, k: int, lead: tuple[int, ...] | None) -> Exception:
    """Return the same error, which names graph k too; `lead` as for `index_of`."""
    index = index_of(k, lead)
    error.args = (f"graph {index}: {error}",)
    error.graph = index  # type: ignore[attr-defined]
    return error


def index_of(k: int, lead: tuple[int, ...] | None) -> Index:
    """Return where graph k is in an array of graphs, or in a list."""
    if lead is None or len(lead) == 1:
        return k
    return tuple(map(int, np.unravel_index(k, lead)))
