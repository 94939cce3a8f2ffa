"""A call of apsp or transitive_closure for one graph: what was asked for, and what was read of it.

`Asked` is the call as it was made, but for the graph. `Graph` is any graph as a dense matrix that
the core reads. `Call` is both, read and checked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, named, results, spreading
from gpudist.intake import Orders


class Asked(NamedTuple):
    """What is asked for beside the graph and the names of its nodes: keywords of `apsp`."""

    no_edge: Any = None
    directed: Any = True
    unweighted: Any = False
    overwrite: Any = False
    return_predecessors: Any = False
    out: Any = None
    dtype: Any = None
    semiring: str = "min_plus"
    unreachable: Any = None
    max_hops: Any = None
    orders: Orders = Orders()

    @property
    def strict(self) -> bool:
        """Whether it matters what edges weigh, so that one without a weight is to be refused."""
        return self.semiring != "or_and" and self.unweighted is False


class Graph(NamedTuple):
    """A dense matrix that the core reads; `rule` and `sentinel` say what is no edge in it.

    `dtype` is the name of the matrix's own.
    """

    space: arrays.Space
    weights: Any
    dtype: str
    rule: str
    sentinel: float

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return int(self.weights.shape[0])

    def count_edges(self, directed: bool) -> int:
        """Count what is an edge in a host array, both ways where edges have no direction.

        Parameters
        ----------
        directed : bool
            Whether edges have a direction.

        Returns
        -------
        int
            The number.
        """
        from gpudist import reference

        weights = self.weights
        there = weights if self.dtype == "bool" else reference.is_edge(weights, *self[3:])
        return int(np.count_nonzero(there if directed else there | there.T))


class Call(NamedTuple):
    """A call with everything read and checked that does not need the core.

    `result` is the dtype of the lengths; `none` what the caller wants for no path, None for what is
    usual; `most` the most hops of a path. The orders are read.
    """

    graph: Graph
    directed: bool
    unweighted: bool
    semiring: str
    predecessors: bool
    result: str
    none: float | None
    most: int | None
    out: Any
    overwrite: bool
    orders: Orders

    @property
    def how(self) -> tuple[str, float, bool, bool, str]:
        """How the matrix is read, as the reference and those who judge cycles are told."""
        rule, sentinel = self.graph[3:]
        return rule, sentinel, self.directed, self.unweighted, self.semiring

    @property
    def unreachable(self) -> float:
        """What stands for no path."""
        rule, sentinel = self.graph[3:]
        no_edge = sentinel if rule == "sentinel" else None
        return results.unreachable_of(self.result, no_edge, self.semiring, self.none)

    @property
    def counts_hops(self) -> bool:
        """Whether lengths may be found by sets of bits, as numbers of hops."""
        return (
            self.unweighted
            and self.semiring == "min_plus"
            and not self.predecessors
            and may_count_hops(self.graph, self.orders)
        )


def may_count_hops(graph: Graph, orders: Orders) -> bool:
    """Tell whether numbers of hops may be found by sets of bits.

    Parameters
    ----------
    graph : Graph
        The graph.
    orders : Orders
        The orders, read.

    Returns
    -------
    bool
        Whether it is worth a trial.
    """
    return (
        orders.kernel == "auto"
        and _core.few_edges("hops", graph.n, 0, graph.space is not arrays.HOST)
        and not graph.sentinel < 0  # which leaves no room for some weights
    )


def directed_of(graph: Any, directed: Any) -> bool:
    """Tell whether edges go one way; an undirected graph of names is symmetric.

    Parameters
    ----------
    graph : any
        What `read_graph` takes.
    directed : bool
        What the caller gave.

    Returns
    -------
    bool
        Whether they do.

    Raises
    ------
    TypeError
        `directed` is neither true nor false.
    """
    directed = checks.truth("directed", directed)
    return directed and bool(graph.directed if isinstance(graph, named.EdgeList) else True)


def number_or_none(no_edge: Any) -> float | None:
    """Read `no_edge`, which is a number or None; raise a TypeError for all else."""
    return None if no_edge is None else checks.number("no_edge", no_edge)


def read(graph: Any, asked: Asked) -> Call:
    """Read and check all of a call of apsp for lengths that does not need the core.

    Parameters
    ----------
    graph : any
        What `read_graph` takes.
    asked : Asked
        What is asked for.

    Returns
    -------
    Call
        The record.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.apsp`.
    """
    no_edge, directed, unweighted, overwrite, predecessors, out, dtype, semiring = asked[:8]
    orders = asked.orders.read("apsp")
    no_edge = number_or_none(no_edge)
    unweighted = checks.truth("unweighted", unweighted)
    overwrite = checks.truth("overwrite", overwrite)
    predecessors = checks.truth("return_predecessors", predecessors)
    most = results.read_max_hops(asked.max_hops, unweighted, semiring)
    matrix = read_graph(graph, no_edge)
    directed = directed_of(graph, directed)
    if out is not None:
        dtype = dtype_of_out(matrix, out, (*results.CORE_DTYPES, *results.NARROW), dtype)
    name = results.dtype_of(matrix.space, matrix.dtype == "float32", dtype, semiring)
    none = results.read_unreachable(asked.unreachable, name)
    return Call(
        matrix,
        directed,
        unweighted,
        semiring,
        predecessors,
        name,
        none,
        most,
        out,
        overwrite,
        orders,
    )


def dtype_of_out(graph: Graph, out: Any, allowed: tuple[str, ...], dtype: Any = None) -> str:
    """Return the dtype of what a result is written to, or raise an error where it will not do.

    Parameters
    ----------
    graph : Graph
        The graph, whose shape the result has.
    out : array
        What the caller gave.
    allowed : tuple of str
        The dtypes that the result may have.
    dtype : dtype-like, optional
        What the caller asked for beside it.

    Returns
    -------
    str
        Its name.

    Raises
    ------
    TypeError, ValueError
        As for `gpudist.apsp`.
    """
    arrays.space_of(graph=graph.weights, out=out)
    name = arrays.out_dtype(out, allowed, dtype)
    arrays.check_out(out, tuple(graph.weights.shape))
    return name


def read_graph(graph: Any, no_edge: float | None, *, truths: bool = False) -> Graph:
    """Bring any graph to a dense matrix that the core reads, and say what is no edge in it.

    Parameters
    ----------
    graph : any
        What `named.take` returns.
    no_edge : float or None
        What stands for no edge in a dense array, None for 0.
    truths : bool
        Whether weights do not matter; where they would have to be spread out, bools are.

    Returns
    -------
    Graph
        The record.

    Raises
    ------
    TypeError, ValueError
        It is no graph, or not square; or `no_edge` is not for it.
    """
    listed: tuple[str, Any] | None = None
    if type(graph) is np.ndarray:  # as in most small calls
        pass
    elif isinstance(graph, named.EdgeList):
        listed = "dense arrays; a graph of named nodes lists its edges", _from_edges
    elif hasattr(graph, "tocsr"):
        listed = "dense arrays; a sparse array stores its edges", _from_sparse
    elif isinstance(graph, np.ma.MaskedArray):
        listed = "plain arrays; a masked array masks what is no edge", _from_masked
    if listed is not None:
        if no_edge is not None:
            raise ValueError(f"no_edge is for {listed[0]}")
        spread = listed[1](graph, truths)
        return Graph(arrays.HOST, spread, spread.dtype.name, "infinite", 0.0)
    space = arrays.space_of(graph=graph)
    weights, dtype = space.read(graph, "graph")
    if not (truths and dtype == "bool"):
        if dtype not in results.CORE_DTYPES:  # float64 holds every weight that they allow
            weights, dtype = space.cast(weights, "float64"), "float64"
    elif no_edge is not None:
        raise ValueError("no_edge is for numbers; in an array of bool False is no edge")
    check_square(weights.shape)
    if no_edge is None:
        return Graph(space, weights, dtype, "zero", 0.0)
    return Graph(space, weights, dtype, "sentinel", no_edge)


def check_square(shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless a matrix of this shape is one of a graph."""
    if len(shape) != 2 or shape[0] != shape[1]:
        listed = len(shape) == 2 and shape[1] in (2, 3)
        hint = "; a list of edges is for apsp_edges" if listed else ""
        raise ValueError(f"graph must be a square matrix, got shape {tuple(shape)}{hint}")


def _from_masked(graph: Any, truths: bool) -> Any:
    data = arrays.HOST.array(graph.data, "graph")
    check_square(data.shape)
    if truths:
        return np.isfinite(data) & ~np.ma.getmaskarray(graph)
    kept = data.dtype if data.dtype.name in ("float32", "float64") else np.dtype(np.float64)
    return np.where(np.ma.getmaskarray(graph), np.inf, data).astype(kept, copy=False)


def _from_sparse(graph: Any, truths: bool) -> Any:
    check_square(graph.shape)
    try:
        entries = graph.tocsr().tocoo()
    except AttributeError as error:
        kind = type(graph).__name__
        raise TypeError(f"graph is no sparse matrix, though a {kind} has tocsr: {error}") from error
    data = arrays.HOST.array(entries.data, "graph")
    name = data.dtype.name if data.dtype.name == "float32" else "float64"
    return spreading.spread(
        graph.shape[0], entries.row, entries.col, data, "bool" if truths else name
    )


def _from_edges(graph: named.EdgeList, truths: bool) -> Any:
    dtype = "bool" if truths else "float64"
    return spreading.spread(len(graph.nodes), graph.tails, graph.heads, graph.weights, dtype)
