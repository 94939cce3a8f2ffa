"""Graphs whose nodes have names: NetworkX graphs, dicts of dicts, pandas frames; and their paths.

Nothing here imports the libraries.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpudist import arrays, foreign, steps
from gpudist.errors import NoPathError
from gpudist.nx import graphs

Weight = str | Callable[[Any, Any, Any], Any] | None

_MISSING: Any = object()
_FRAME = "pandas.DataFrame"


class EdgeList(NamedTuple):
    """Edges by the positions of their ends, and the nodes' names in order."""

    tails: Any
    heads: Any
    weights: Any
    nodes: list[Any]
    directed: bool


class ShortestPaths:
    """Lengths of paths by the names of nodes; what `gpudist.apsp` gives with ``labels=True``.

    Attributes
    ----------
    nodes : list
        The nodes in the order of rows and columns.
    dist : array, shape (n, n)
        The lengths.
    predecessors : int32 array, shape (n, n), or None
        With ``return_predecessors=True``, the positions of the nodes before.

    Examples
    --------
    >>> import gpudist
    >>> roads = {"a": {"b": 3.0}, "b": {"c": 2.0}, "c": {"a": 1.0}}
    >>> paths = gpudist.apsp(roads, labels=True, return_predecessors=True)
    >>> paths.distance("a", "c")
    5.0
    >>> paths.path("a", "c")
    ['a', 'b', 'c']
    """

    def __init__(self, nodes: list[Any], dist: Any, predecessors: Any = None) -> None:
        self.nodes, self.dist, self.predecessors = nodes, dist, predecessors
        self._places = {node: i for i, node in enumerate(nodes)}

    def __repr__(self) -> str:
        """Say how many nodes there are, and of what the lengths are."""
        also = "" if self.predecessors is None else ", with predecessors"
        return f"ShortestPaths({len(self.nodes)} nodes, {self.dist.dtype}{also})"

    def place(self, node: Hashable) -> int:
        """Return a node's row.

        Parameters
        ----------
        node : hashable
            Its name.

        Returns
        -------
        int
            Its position in `nodes`.

        Raises
        ------
        KeyError
            There is no such node.
        TypeError
            It is nothing that may be a node, but a list, say.
        """
        try:
            return self._places[node]
        except KeyError:
            raise KeyError(f"{node!r} is not a node of this graph") from None
        except TypeError:
            raise TypeError(f"{_kind(node)} is no name of one node of this graph") from None

    def distance(self, source: Hashable, target: Hashable) -> Any:
        """Return the length of the best path.

        Parameters
        ----------
        source, target : hashable
            The first and the last node.

        Returns
        -------
        float or int
            The length, or what stands for no path.

        Raises
        ------
        KeyError
            There is no such node.
        """
        return self.dist[self.place(source), self.place(target)].item()

    def path(self, source: Hashable, target: Hashable) -> list[Any]:
        """Return the nodes of the best path.

        Parameters
        ----------
        source, target : hashable
            The first and the last node.

        Returns
        -------
        list
            The nodes, both included.

        Raises
        ------
        gpudist.NoPathError
            There is no path.
        KeyError
            There is no such node.
        ValueError
            The predecessors were not asked for.
        """
        before = predecessors_of(self)
        i, j = self.place(source), self.place(target)
        try:
            return [self.nodes[k] for k in steps.back(before, i, j)]
        except NoPathError:
            raise NoPathError(f"there is no path from {source!r} to {target!r}") from None

    def to_pandas(self) -> Any:
        """Return the lengths as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            Rows and columns are the nodes; lengths on a device are brought to the host.
        """
        import pandas as pd

        space = arrays.space_of(dist=self.dist)
        dist = self.dist if space is arrays.HOST else space.host(self.dist)
        names = pd.Index(self.nodes, tupleize_cols=False)
        return pd.DataFrame(dist, index=names, columns=names)


def predecessors_of(paths: ShortestPaths) -> Any:
    """Return what leads back along the paths, or raise a ValueError where it was not asked for."""
    if paths.predecessors is None:
        raise ValueError("paths need predecessors: call apsp with return_predecessors=True")
    return paths.predecessors


def take(
    graph: Any,
    weight: Any = "weight",
    nodelist: Any = None,
    *,
    labels: bool = False,
    strict: bool = True,
) -> tuple[Any, list[Any] | None]:
    """Turn a graph whose nodes have names into what positions alone can tell of.

    Parameters
    ----------
    graph : any
        What `apsp` takes.
    weight : str, None or callable
        What an edge weighs, as NetworkX has it.
    nodelist : sequence, optional
        The nodes' order.
    labels : bool
        Whether the result tells the names, so that rows may be put in order here.
    strict : bool
        Whether weights matter, so that edges without the attribute are to be refused.

    Returns
    -------
    graph, nodes : any, list or None
        An `EdgeList`, or a matrix; and the names, None if it has none.

    Raises
    ------
    ValueError
        An attribute is missing, nodes are not those of the graph, or names are in two orders.
    TypeError
        A weight is no real number, or an argument is for other graphs.
    """
    if type(graph) is np.ndarray and nodelist is None and weight == "weight":
        return graph, None  # as in most small calls
    if isinstance(graph, EdgeList):
        return graph, graph.nodes
    kind = _known(graph)
    if graphs.is_graph(graph):
        listed = _of_networkx(graph, weight, nodelist, strict)
        return listed, listed.nodes
    if kind in _LIBRARIES:
        listed = _LIBRARIES[kind](graph, weight, nodelist, strict)
        return listed, listed.nodes
    # Some of SciPy's sparse matrices are dictionaries as well.
    if isinstance(graph, Mapping) and not hasattr(graph, "tocsr"):
        listed = _of_dicts(graph, weight, nodelist, strict)
        return listed, listed.nodes
    if weight != "weight" or nodelist is not None:
        name = "nodelist" if weight == "weight" else "weight"
        raise TypeError(
            f"{name} is for NetworkX graphs, their like and dicts of dicts, got {_kind(graph)}"
        )
    if kind == _FRAME:
        return _of_frame(graph, labels)
    if foreign.may_have_names(graph):
        _refuse_edges(foreign.labels(graph))
        refuse_turned(graph, "graph")
    return graph, None


def check_weight(weight: Any) -> None:
    """Raise a TypeError for what neither names an attribute nor tells what edges weigh."""
    try:
        names = type(weight).__hash__ is not None and bool(weight == weight)
    except Exception:  # what others' types raise when they are asked, pandas.NA among them
        names = False
    if not names:
        raise TypeError(
            "weight must be the name of an attribute, a function, or None for 1, got "
            f"{_kind(weight)}; what the edges of a list weigh apsp_edges takes as weights"
        )


def is_named(thing: Any) -> bool:
    """Tell whether it is a graph, rather than an array: one of a library, a dict, a frame."""
    return is_graph(thing) or _known(thing) == _FRAME


def is_graph(thing: Any) -> bool:
    """Tell whether it lists its edges by the names of nodes: as a graph of a library, or a dict."""
    if isinstance(thing, (EdgeList, Mapping)) or graphs.is_graph(thing):
        return True
    kind = _known(thing)
    return kind is not None and kind != _FRAME


def _kind(thing: Any) -> str:
    return _name(type(thing))


def _name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}".removeprefix("builtins.")


def _known(thing: Any) -> str | None:
    """Name the class that is read here and that it is of, or of one derived from that."""
    return _known_class(type(thing))  # type: ignore[arg-type]  # a type is hashable


@cache
def _known_class(kind: type) -> str | None:
    names = map(_name, kind.__mro__)
    return next((name for name in names if name == _FRAME or name in _LIBRARIES), None)


def _ordered(nodes: list[Any], nodelist: Any) -> list[Any]:
    """Return the nodes in the order asked for, which is to be one of all of them."""
    if nodelist is None:
        return nodes
    if isinstance(nodelist, (set, frozenset)):
        raise TypeError("nodelist must be a sequence of the graph's nodes: a set has no order")
    try:
        asked = list(nodelist)
        wanted = set(asked)
    except TypeError as error:
        raise TypeError(f"nodelist must be a sequence of the graph's nodes: {error}") from None
    known = set(nodes)
    if len(asked) != len(nodes) or wanted != known:
        odd = [repr(node) for node in asked if node not in known]
        twice = [repr(node) for node, times in Counter(asked).items() if times > 1]
        left = [repr(node) for node in nodes if node not in wanted]
        found = {"is none of them": odd, "is there twice": twice, "is missing": left}
        why = next(f"{some[0]} {what}" for what, some in found.items() if some)
        raise ValueError(f"nodelist must name each of the graph's {len(nodes)} nodes once: {why}")
    return asked


def _of_networkx(graph: Any, weight: Any, nodelist: Any, strict: bool) -> EdgeList:
    nodes = _ordered(list(graph), nodelist)
    if callable(weight):
        place = {node: i for i, node in enumerate(nodes)}
        ends = [(u, v, data) for u, near in graph.adjacency() for v, data in near.items()]
        tails = np.array([place[u] for u, _, _ in ends], np.intp)
        heads = np.array([place[v] for _, v, _ in ends], np.intp)
        given = [weight(u, v, data) for u, v, data in ends]
    else:
        tails, heads, given = graphs.edges(graph, nodes, weight, 1 if weight is None else _MISSING)
        if strict and given and all(w is _MISSING for w in given):
            _refuse_missing(weight, [data for _, _, data in graph.edges(data=True)])
        given = [1 if w is _MISSING else w for w in given]
    weights = graphs.weighed(given, "graph", math.inf)
    return EdgeList(tails, heads, weights, nodes, bool(graph.is_directed()))


def _refuse_missing(weight: Any, edges: Sequence[Mapping[Any, Any]]) -> None:
    """Raise an error for an attribute that no edge has, unless nobody asked and there are none."""
    others = sorted({str(name) for data in edges for name in data})
    numeric = {
        str(name)
        for data in edges
        for name, value in data.items()
        if isinstance(value, numbers.Real) and not isinstance(value, bool)
    }
    if weight == "weight" and not numeric:
        return
    there = f"they have {', '.join(map(repr, others))}" if others else "they have no attributes"
    raise ValueError(
        f"no edge of graph has the attribute {weight!r}; {there}: name one as weight=, or give "
        "weight=None to count edges"
    )


def _check_attributes(
    attributes: Sequence[Mapping[Any, Any]], weight: Any, edges: Sequence[Any], strict: bool
) -> None:
    """Raise an error for a weight that no edge has, where edges are attributes, or numbers."""
    if not strict or any(weight in data for data in attributes):
        return
    if attributes:
        _refuse_missing(weight, attributes)
    elif weight != "weight" and edges:
        raise ValueError(f"edges of graph are numbers, without an attribute {weight!r}")


def _of_dicts(graph: Mapping[Any, Any], weight: Any, nodelist: Any, strict: bool) -> EdgeList:
    """Read ``{u: {v: number}}`` or, as NetworkX gives it, ``{u: {v: attributes}}``."""
    place: dict[Any, int] = {}
    for node, near in graph.items():
        if not isinstance(near, Mapping):
            raise TypeError(f"graph[{node!r}] must be a dict of its edges, got {_kind(near)}")
        place.setdefault(node, len(place))
    for near in graph.values():
        for node in near:
            place.setdefault(node, len(place))
    nodes = _ordered(list(place), nodelist)
    place = {node: i for i, node in enumerate(nodes)}
    ends = [(u, v, data) for u, near in graph.items() for v, data in near.items()]
    tails = np.array([place[u] for u, _, _ in ends], np.intp)
    heads = np.array([place[v] for _, v, _ in ends], np.intp)
    attributes = [data for _, _, data in ends if isinstance(data, Mapping)]
    if callable(weight):
        given = [weight(*edge) for edge in ends]
    elif weight is None:
        given = [1] * len(ends)
    else:
        given = [d.get(weight, 1) if isinstance(d, Mapping) else d for _, _, d in ends]
        for d in attributes:
            if d and all(isinstance(keyed, Mapping) for keyed in d.values()):
                raise TypeError("graph has parallel edges: give the NetworkX graph itself")
        _check_attributes(attributes, weight, ends, strict)
    return EdgeList(tails, heads, graphs.weighed(given, "graph", math.inf), nodes, True)


def _of_igraph(graph: Any, weight: Any, nodelist: Any, strict: bool) -> EdgeList:
    """Read a graph of igraph: its nodes are named by their attribute "name", if they have it."""
    named_too = "name" in graph.vs.attributes()
    names = list(graph.vs["name"]) if named_too else list(range(graph.vcount()))
    if len(set(names)) < len(names):
        raise ValueError("graph has two nodes of one name; delete the attribute 'name' of graph.vs")
    pairs, known = graph.get_edgelist(), graph.es.attributes()
    if callable(weight):
        given = [weight(names[e.source], names[e.target], e.attributes()) for e in graph.es]
    elif weight is None or weight not in known:
        if weight is not None and strict and pairs:
            _refuse_missing(weight, [edge.attributes() for edge in graph.es])
        given = [1] * len(pairs)
    else:
        given = list(graph.es[weight])
    return _of_pairs(pairs, given, names, nodelist, directed=graph.is_directed())


def _of_rustworkx(graph: Any, weight: Any, nodelist: Any, strict: bool) -> EdgeList:
    """Read a graph of rustworkx: nodes are named by their indices, which need not be consecutive.

    What an edge holds is its weight, or a dict of attributes, or None for 1.
    """
    edges = list(graph.weighted_edge_list())
    held = [data for _, _, data in edges]
    attributes = [data for data in held if isinstance(data, Mapping)]
    if callable(weight):
        given = [weight(*edge) for edge in edges]
    elif weight is None:
        given = [1] * len(edges)
    else:
        _check_attributes(attributes, weight, held, strict)
        given = [d.get(weight, 1) if isinstance(d, Mapping) else d for d in held]
        given = [1 if d is None else w for d, w in zip(held, given, strict=True)]
    pairs, names = [edge[:2] for edge in edges], list(graph.node_indices())
    positions = {node: i for i, node in enumerate(names)}
    pairs = [(positions[u], positions[v]) for u, v in pairs]
    directed = _kind(graph) == "rustworkx.PyDiGraph"
    return _of_pairs(pairs, given, names, nodelist, directed=directed)


def _of_pairs(
    pairs: Sequence[tuple[int, int]],
    given: list[Any],
    names: list[Any],
    nodelist: Any,
    *,
    directed: bool,
) -> EdgeList:
    """List edges between positions in `names`; those without a direction both ways."""
    nodes = _ordered(names, nodelist)
    place = {node: i for i, node in enumerate(nodes)}
    order = np.array([place[name] for name in names], np.intp)
    ends = order[np.array(pairs, np.intp).reshape(-1, 2)]
    tails, heads, weights = ends[:, 0], ends[:, 1], graphs.weighed(given, "graph", math.inf)
    if not directed:
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        weights = np.concatenate([weights, weights])
    return EdgeList(tails, heads, weights, nodes, directed)


_LIBRARIES: dict[str, Callable[[Any, Any, Any, bool], EdgeList]] = {
    "igraph.Graph": _of_igraph,
    "rustworkx.PyGraph": _of_rustworkx,
    "rustworkx.PyDiGraph": _of_rustworkx,
}


def _refuse_edges(columns: list[str]) -> None:
    """Raise a ValueError for a list of edges, which two or three of them look like a matrix."""
    if {"source", "target"} <= set(columns) and len(columns) in (2, 3):
        raise ValueError("graph is a frame of edges: give it to apsp_edges")


def _of_frame(frame: Any, labels: bool) -> tuple[Any, list[Any]]:
    """Read a square frame, whose rows and columns are to be the same nodes."""
    _refuse_edges([str(name) for name in frame.columns])
    rows, columns = frame.index, frame.columns
    if labels and rows.has_duplicates:
        twice = rows[rows.duplicated()][0]
        raise ValueError(f"graph has two rows named {twice!r}, so that no result is read by name")
    if frame.shape[0] != frame.shape[1] or rows.equals(columns):
        return frame, list(rows)
    if rows.has_duplicates or columns.has_duplicates or set(rows) != set(columns):
        raise ValueError(
            "graph's rows and columns are named differently, so that it does not say which node a "
            "column is; give the same names, or graph.to_numpy() if positions are meant"
        )
    if not labels:
        refuse_turned(frame, "graph", ", or labels=True for a result that is read by name")
    return frame[list(rows)], list(rows)


def refuse_turned(thing: Any, name: str, otherwise: str = "") -> None:
    """Raise a ValueError for a frame whose columns are named as its rows, in another order.

    So are arrays of xarray by their coordinates.
    """
    if not foreign.may_have_names(thing):  # as most have none, and small calls feel the questions
        return
    if _known(thing) != _FRAME:
        if foreign.in_other_order(foreign.labels(thing, -2), foreign.labels(thing, -1)):
            raise ValueError(
                f"{name}'s columns are in another order than its rows; give them in one order, or "
                f"{name}.to_numpy() if positions are meant"
            )
        return
    rows, columns = thing.index, thing.columns
    if not rows.equals(columns) and len(rows) == len(columns) and set(rows) == set(columns):
        raise ValueError(
            f"{name}'s columns are in another order than its rows; give {name}[{name}.index]"
            f"{otherwise}"
        )
