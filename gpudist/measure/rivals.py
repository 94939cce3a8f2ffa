"""Other libraries that do the same work, timed beside gpudist."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gpudist import named, paths_call, reference
from gpudist.measure.records import library_version

# A function that takes the operands and gives the call to time.
Prepare = Callable[["Task"], Callable[[], Any]]


class Refusal(Exception):
    """Raised by a `Prepare` for arguments that its library does not know."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a case asks a rival to do.

    Parameters
    ----------
    op : str
        The operation.
    backend : {'cpu', 'cuda'}
        Where to compute.
    operands : tuple
        Arrays: NumPy's on the CPU, PyTorch's or CuPy's on a GPU.
    size : int
        The number that a rival's limit is compared with: rows of the first operand.
    dtype : str
        Their type.
    metric : str or None
        The metric, for distances.
    metric_args : mapping
        Its arguments, or the operation's other arguments.
    device : str
        The device where results have to be computed for operands on the host.
    """

    op: str
    backend: str
    operands: tuple[Any, ...]
    size: int
    dtype: str
    metric: str | None = None
    metric_args: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def wanted(self) -> str | None:
        """The metric as rivals list it: few take weights."""
        ways = {"w": "weighted", "box": "periodic"}
        said = [word for name, word in ways.items() if name in self.metric_args]
        return " ".join([*said, str(self.metric)]) if said else self.metric


@dataclass(frozen=True, slots=True)
class Rival:
    """A library's way to do an operation.

    Parameters
    ----------
    name : str
        What tables call it: library and function.
    distribution : str
        Its name on the package index.
    module : str
        What to import.
    op : str
        The operation.
    backends : tuple of str
        Where it runs.
    metrics : tuple of str
        The metrics that it knows, as `Task.wanted` names them; empty for operations without.
    prepare : callable
        Takes a `Task`, gives the call.
    limit : int
        The largest `Task.size` that it is asked, because it would take minutes.
    does : str
        What the call does, so that its time can be read: threads, precision, what is built anew.
    """

    name: str
    distribution: str
    module: str
    op: str
    backends: tuple[str, ...]
    metrics: tuple[str, ...]
    prepare: Prepare
    limit: int = 1 << 62
    does: str = ""

    def takes(self, task: Task) -> bool:
        """Tell whether this rival knows the operation, the metric and the backend.

        Parameters
        ----------
        task : Task
            What is asked.

        Returns
        -------
        bool
            Size does not count here.
        """
        return (
            self.op == task.op
            and task.backend in self.backends
            and (task.metric is None or task.wanted in self.metrics)
        )

    def why_not(self, task: Task) -> str | None:
        """Say why a rival that knows the task is not timed.

        Parameters
        ----------
        task : Task
            What is asked.

        Returns
        -------
        str or None
            None where nothing is in the way.
        """
        try:
            importlib.import_module(self.module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and not self.version():
                return f"{self.distribution} is not installed"
            return f"{self.module} cannot be imported: {error}"
        if task.size > self.limit:
            return f"not run above {self.limit} rows, where it takes minutes"
        return None

    def version(self) -> str | None:
        """Give the installed version, None where it is missing."""
        return library_version(self.distribution)


# What SciPy and CuPy know, under the names that are ours.
SCIPYS = (
    "euclidean",
    "sqeuclidean",
    "cityblock",
    "chebyshev",
    "minkowski",
    "seuclidean",
    "mahalanobis",
    "canberra",
    "braycurtis",
    "cosine",
    "correlation",
    "hamming",
    "jensenshannon",
    "dice",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalsneath",
    "yule",
)
_CUPYS = (
    "euclidean",
    "sqeuclidean",
    "cityblock",
    "chebyshev",
    "minkowski",
    "canberra",
    "cosine",
    "correlation",
    "hamming",
    "hellinger",
    "jensenshannon",
    "kl_divergence",
    "russellrao",
)
_P = {"euclidean": 2.0, "cityblock": 1.0, "chebyshev": float("inf")}


def _scipy_cdist(task: Task) -> Callable[[], Any]:
    from scipy.spatial.distance import cdist

    a, b = task.operands
    return lambda: cdist(a, b, task.metric, **task.metric_args)


def _torch_cdist(task: Task) -> Callable[[], Any]:
    import torch

    a, b = map(_tensor, task.operands)
    p = _exponent(task)
    return lambda: torch.cdist(a, b, p)


def training_step(cdist: Callable[..., Any], task: Task) -> Callable[[], Any]:
    """Prepare distances of batches, and with the argument `back` the way back to the points.

    Parameters
    ----------
    cdist : callable
        A function with the arguments of PyTorch's.
    task : Task
        What to do.

    Returns
    -------
    callable
        It returns the distances, or the gradient of their sum for the first operand.
    """
    import torch

    a, b = (_tensor(x).detach() for x in task.operands)
    p = _exponent(task)
    if not task.metric_args["back"]:
        return lambda: cdist(a, b, p)
    a.requires_grad_()
    b.requires_grad_()

    def step() -> Any:
        distances = cdist(a, b, p)
        return torch.autograd.grad(distances, (a, b), torch.ones_like(distances))[0]

    return step


def _torch_training(task: Task) -> Callable[[], Any]:
    import torch

    return training_step(torch.cdist, task)


def _exponent(task: Task) -> float:
    """Give the exponent that makes torch's distances the metric."""
    return float(task.metric_args.get("p", _P.get(str(task.metric), 2.0)))


def _scipy_pdist(task: Task) -> Callable[[], Any]:
    from scipy.spatial.distance import pdist

    (x,) = task.operands
    return lambda: pdist(x, task.metric, **task.metric_args)


def _torch_pdist(task: Task) -> Callable[[], Any]:
    import torch

    x, p = _tensor(task.operands[0]), _exponent(task)
    return lambda: torch.nn.functional.pdist(x, p)


def _cupy_pdist(task: Task) -> Callable[[], Any]:
    import cupy

    pdist = importlib.import_module("cupyx.scipy.spatial.distance").pdist
    x = cupy.from_dlpack(task.operands[0]).copy()
    return lambda: pdist(x, task.metric, **task.metric_args)


def _scipy_transfer(task: Task) -> Callable[[], Any]:
    from scipy.spatial.distance import cdist

    a, b, *into = task.operands
    out = into[0] if into else None
    if out is not None and out.dtype != "float64":
        raise Refusal("writes float64 alone")
    return lambda: cdist(a, b, task.metric, out=out, **task.metric_args)


def _torch_transfer(task: Task) -> Callable[[], Any]:
    import torch

    a, b, *into = (torch.from_numpy(operand) for operand in task.operands)
    p = _exponent(task)

    def there_and_back() -> Any:
        result = torch.cdist(a.to(task.device), b.to(task.device), p)
        return (into[0].copy_(result) if into else result.cpu()).numpy()

    return there_and_back


def _torch_pairs_transfer(task: Task) -> Callable[[], Any]:
    import torch

    x, *into = (torch.from_numpy(operand) for operand in task.operands)
    p = _exponent(task)

    def there_and_back() -> Any:
        result = torch.nn.functional.pdist(x.to(task.device), p)
        return (into[0].copy_(result) if into else result.cpu()).numpy()

    return there_and_back


def _scipy_knn(task: Task) -> Callable[[], Any]:
    from scipy.spatial import cKDTree

    a, b, k = _neighbors(task)
    p = _exponent(task)
    if p < 1:
        raise Refusal("takes p of 1 or more")

    def build_and_ask() -> SimpleNamespace:
        return _without_self(task, *cKDTree(b).query(a, range(1, k + 1), p=p, workers=-1))

    return build_and_ask


def _sklearn_knn(task: Task) -> Callable[[], Any]:
    from sklearn.neighbors import NearestNeighbors

    a, b, k = _neighbors(task)
    arguments = {"p": task.metric_args["p"]} if "p" in task.metric_args else {}
    search = NearestNeighbors(
        n_neighbors=k, algorithm="brute", metric=task.metric, n_jobs=-1, **arguments
    )
    search.fit(b)
    return lambda: _without_self(task, *search.kneighbors(a))


def _torch_knn(task: Task) -> Callable[[], Any]:
    import torch

    a, b, k = _neighbors(task)
    a, b, p = _tensor(a), _tensor(b), _exponent(task)
    return lambda: _without_self(task, *torch.cdist(a, b, p).topk(k, largest=False))


def _torch_knn_in_panels(task: Task) -> Callable[[], Any]:
    import torch

    a, b, k = _neighbors(task)
    a, b, p = _tensor(a), _tensor(b), _exponent(task)
    rows = max(_PANEL_BYTES // (len(b) * b.element_size()), 1)

    def search() -> SimpleNamespace:
        parts = [torch.cdist(x, b, p).topk(k, largest=False) for x in a.split(rows)]
        distances, indices = (torch.cat(x) for x in zip(*parts, strict=True))
        return _without_self(task, distances, indices)

    return search


def _cuvs_knn(task: Task) -> Callable[[], Any]:
    from cuvs.neighbors import brute_force

    a, b, k = _neighbors(task)

    def search() -> SimpleNamespace:
        index = brute_force.build(b, metric=task.metric)
        distances, indices = map(_tensor, brute_force.search(index, a, k))
        return _without_self(task, distances, indices)

    return search


def _faiss_knn(task: Task) -> Callable[[], Any]:
    import faiss
    import numpy as np

    a, b, k = _neighbors(task)
    if task.dtype != "float32":
        raise Refusal("takes float32 alone")
    euclidean = task.metric == "euclidean"

    def search() -> SimpleNamespace:
        squares, indices = faiss.knn(a, b, k)
        if euclidean:  # cancelled squares may lie below 0
            np.sqrt(np.maximum(squares, 0, out=squares), out=squares)
        return _without_self(task, squares, indices)

    return search


def _neighbors(task: Task) -> tuple[Any, Any, int]:
    """Give the points, those to search among, and how many are asked for, the point itself too."""
    _refuse_unless({"k", "p"}, task)
    k = int(task.metric_args.get("k", 1))
    if len(task.operands) == 1:
        return task.operands[0], task.operands[0], k + 1
    a, b = task.operands
    return a, b, k


def _without_self(task: Task, distances: Any, indices: Any) -> SimpleNamespace:
    """Leave out the nearest where a set was searched for its own points: it is at distance 0."""
    first = 1 if len(task.operands) == 1 else 0
    return SimpleNamespace(distances=distances[:, first:], indices=indices[:, first:])


def _sklearn_distances(task: Task) -> Callable[[], Any]:
    from sklearn.metrics import pairwise_distances

    a, b = task.operands
    metric = {"cityblock": "manhattan"}.get(str(task.metric), task.metric)
    return lambda: pairwise_distances(a, b, metric)


def _numkong_cdist(task: Task) -> Callable[[], Any]:
    import numkong
    import numpy as np

    a, b = task.operands
    metric: Any = {"cosine": "angular"}.get(str(task.metric), task.metric)
    return lambda: np.asarray(numkong.cdist(a, b, metric, threads=0))


def _cupy_cdist(task: Task) -> Callable[[], Any]:
    import cupy

    cdist = importlib.import_module("cupyx.scipy.spatial.distance").cdist
    # Copies: hellinger's kernel takes roots in place.
    a, b = (cupy.from_dlpack(operand).copy() for operand in task.operands)
    return lambda: cdist(a, b, task.metric, **task.metric_args)


def _scipy_apsp(task: Task) -> Callable[[], Any]:
    from scipy.sparse.csgraph import floyd_warshall

    (graph,) = task.operands
    _refuse_unless({"directed", "unweighted", "return_predecessors"}, task)
    if not hasattr(graph, "shape"):
        raise Refusal("takes arrays and sparse matrices")
    graph = graph.tocsr() if hasattr(graph, "tocsr") else graph
    return lambda: floyd_warshall(graph, **task.metric_args)


def _edge_lengths(task: Task, *also: str) -> Any:
    """Give a graph's lengths of edges, inf where there is none, to those who follow edges.

    Who has other arguments than these may have, names them.
    """
    _refuse_unless({"directed", "unweighted", "weight", *also}, task)
    graph, _ = named.take(task.operands[0], task.metric_args.get("weight", "weight"), strict=False)
    directed = task.metric_args.get("directed", True) and getattr(graph, "directed", True)
    _, weights, _, rule, sentinel = paths_call.read_graph(graph, None)
    unweighted = task.metric_args.get("unweighted", False)
    lengths = reference.edges(weights, rule, sentinel, directed, unweighted, "min_plus")
    if (lengths < 0).any():
        raise Refusal("takes no negative weights")
    lengths.ravel()[:: len(lengths) + 1] = float("inf")  # a way from a node to itself has length 0
    return lengths


def _few_edge_lengths(task: Task, *also: str) -> Any:
    """Give the same to those who follow the edges from each node, if there is the time for it."""
    import numpy as np

    lengths = _edge_lengths(task, *also)
    edges = int((lengths < float("inf")).sum())
    indices = task.metric_args.get("indices")
    sources = len(lengths) if indices is None else np.size(indices)
    if edges * sources > _MOST_EDGES:
        raise Refusal(f"not run: {sources} times {edges} edges are too many to follow")
    return lengths


def _scipy_dijkstra(task: Task) -> Callable[[], Any]:
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    lengths = _few_edge_lengths(task, "indices", "return_predecessors")
    places = np.nonzero(lengths < np.inf)
    graph = csr_array((lengths[places], places), shape=lengths.shape)
    indices = task.metric_args.get("indices")
    paired = bool(task.metric_args.get("return_predecessors", False))
    return lambda: dijkstra(graph, indices=indices, return_predecessors=paired)


def _rustworkx_dijkstra(task: Task) -> Callable[[], Any]:
    import rustworkx

    lengths = _few_edge_lengths(task)
    graph = rustworkx.PyDiGraph.from_adjacency_matrix(lengths, null_value=float("inf"))
    find = rustworkx.digraph_all_pairs_dijkstra_path_lengths
    return lambda: _Maps(find(graph, float), len(lengths))


def _rustworkx_loop(task: Task) -> Callable[[], Any]:
    import rustworkx

    lengths = _edge_lengths(task)
    graph = rustworkx.PyDiGraph.from_adjacency_matrix(lengths, null_value=float("inf"))
    return lambda: rustworkx.digraph_floyd_warshall_numpy(graph, weight_fn=float)


class _Maps:
    """Lengths in maps, which become rows when they are looked at.

    Parameters
    ----------
    maps : mapping
        Of nodes, to mappings of other nodes that they reach to lengths.
    count : int
        How many nodes there are.
    """

    def __init__(self, maps: Any, count: int) -> None:
        self._maps, self._count = maps, count

    def __getitem__(self, node: int) -> Any:
        """Give a row."""
        import numpy as np

        row = np.full(self._count, np.inf)
        row[node] = 0.0
        for other, length in self._maps[node].items():
            row[other] = length
        return row


def _networkit_apsp(task: Task) -> Callable[[], Any]:
    import networkit
    import numpy as np

    lengths = _few_edge_lengths(task)
    places = np.nonzero(lengths < np.inf)
    weighted = not task.metric_args.get("unweighted", False)
    graph = networkit.GraphFromCoo(
        (lengths[places], places), len(lengths), weighted=weighted, directed=True
    )

    def close() -> Any:
        found = networkit.distance.APSP(graph).run().getDistances(asarray=True)
        found[found == np.finfo(np.float64).max] = np.inf  # its sign for no path
        return found

    return close


def _scipy_apsp_loop(task: Task) -> Callable[[], Any]:
    from scipy.sparse.csgraph import floyd_warshall

    (graphs,) = task.operands
    _refuse_unless({"directed", "unweighted", "return_predecessors"}, task)

    def close() -> Any:
        found = [floyd_warshall(graph, **task.metric_args) for graph in graphs]
        pairs = task.metric_args.get("return_predecessors", False)
        return tuple(zip(*found, strict=True)) if pairs else found

    return close


def _torch_apsp(task: Task) -> Callable[[], Any]:
    import torch

    _refuse_unless(set(), task)
    if not hasattr(task.operands[0], "__dlpack__") or hasattr(task.operands[0], "mask"):
        raise Refusal("takes plain arrays")
    graph = _tensor(task.operands[0])

    def close() -> Any:
        # What gpudist does with its argument as well: 0 is no edge.
        lengths = torch.where(graph == 0, float("inf"), graph)
        lengths.diagonal(dim1=-2, dim2=-1).zero_()
        for k in range(lengths.shape[-1]):
            way = lengths[..., :, k : k + 1] + lengths[..., k : k + 1, :]
            torch.minimum(lengths, way, out=lengths)
        return lengths

    return close


def _refuse_unless(known: set[str], task: Task) -> None:
    """Refuse a task with arguments that a library does not know."""
    unknown = [name for name in task.metric_args if name not in known and name != "dtype"]
    if unknown:
        raise Refusal(f"has no argument like {', '.join(unknown)}")


_JOINS = {"min": ("minimum", float("inf")), "max": ("maximum", float("-inf"))}
_PUTS = {"plus": "add", "max": "maximum", "min": "minimum"}


def _loop_over_k(library: Any, task: Task, full: Callable[..., Any]) -> Callable[[], Any]:
    """Make a product over a semiring of a library's own functions: one outer one after another."""
    a, b, *more = task.operands
    semiring = str(task.metric_args.get("semiring", "min_plus"))
    if more or semiring == "or_and":
        raise Refusal("is not written for this product")
    first, _, second = semiring.partition("_")
    name, neutral = _JOINS[first]
    join, put = getattr(library, name), getattr(library, _PUTS[second])

    def multiply() -> Any:
        result = full(a, b, neutral)
        for k in range(a.shape[1]):
            join(result, put(a[:, k : k + 1], b[k : k + 1]), out=result)
        return result

    return multiply


def _numpy_minplus(task: Task) -> Callable[[], Any]:
    import numpy as np

    def full(a: Any, b: Any, value: float) -> Any:
        value = value if a.dtype.kind == "f" else int(np.sign(value)) * np.iinfo(a.dtype).max
        return np.full((a.shape[0], b.shape[1]), value, a.dtype)

    return _loop_over_k(np, task, full)


def _torch_minplus(task: Task) -> Callable[[], Any]:
    import torch

    def full(a: Any, b: Any, value: float) -> Any:
        sign = 1 if value > 0 else -1
        value = value if a.is_floating_point() else sign * torch.iinfo(a.dtype).max
        return torch.full((a.shape[0], b.shape[1]), value, dtype=a.dtype, device=a.device)

    tensors = dataclasses.replace(task, operands=tuple(map(_tensor, task.operands)))
    return _loop_over_k(torch, tensors, full)


def _numpy_closure(task: Task) -> Callable[[], Any]:
    import numpy as np

    _refuse_unless(set(), task)
    graph = np.asarray(task.operands[0])
    return lambda: _close_over_k((graph != 0).copy())


def _torch_closure(task: Task) -> Callable[[], Any]:
    _refuse_unless(set(), task)
    graph = _tensor(task.operands[0])
    return lambda: _close_over_k((graph != 0).clone())


def _close_over_k(reached: Any) -> Any:
    """Close a matrix of truths by Warshall's loop."""
    for k in range(reached.shape[0]):
        reached |= reached[:, k, None] & reached[k]
    return reached


def _numpy_perron(task: Task) -> Callable[[], Any]:
    import numpy as np

    _refuse_unless({"tol", "max_iter"}, task)
    (a,) = task.operands
    return lambda: SimpleNamespace(value=float(np.linalg.eigvals(a).real.max()))


def _scipy_perron(task: Task) -> Callable[[], Any]:
    from scipy.sparse.linalg import eigs

    _refuse_unless({"tol", "max_iter"}, task)
    (a,) = task.operands
    tol, rounds = task.metric_args.get("tol", 1e-6), task.metric_args.get("max_iter", 1000)

    def largest() -> SimpleNamespace:
        values = eigs(a, k=1, which="LR", tol=tol, maxiter=rounds, return_eigenvectors=False)
        return SimpleNamespace(value=float(values[0].real))

    return largest


def _torch_perron(task: Task) -> Callable[[], Any]:
    import torch

    _refuse_unless({"tol", "max_iter"}, task)
    a = _tensor(task.operands[0])
    return lambda: SimpleNamespace(value=torch.linalg.eigvals(a).real.max().item())


def _tensor(array: Any) -> Any:
    """See an array as a tensor, without a copy."""
    import torch

    return array if isinstance(array, torch.Tensor) else torch.from_dlpack(array)


# What rivals that would make the whole matrix may have of it at a time.
_PANEL_BYTES = 1 << 30
# How many edges rivals that go along them from each node are asked to follow: some seconds' worth.
_MOST_EDGES = 1 << 29

# Adding a rival is one line here and the function that prepares its call above.
RIVALS = (
    Rival(
        "scipy cdist",
        "scipy",
        "scipy.spatial",
        "cdist",
        ("cpu",),
        (*SCIPYS, "weighted euclidean", "weighted jaccard"),
        _scipy_cdist,
        does="one thread; computes and returns float64, whatever it is given",
    ),
    Rival(
        "scipy cdist",
        "scipy",
        "scipy.spatial",
        "cdist",
        ("cpu",),
        ("weighted cosine", "weighted correlation"),  # pair by pair, in Python
        _scipy_cdist,
        limit=200,
        does="one thread; computes and returns float64, whatever it is given",
    ),
    Rival(
        "torch.cdist",
        "torch",
        "torch",
        "cdist",
        ("cpu", "cuda"),
        (*_P, "minkowski"),
        _torch_cdist,
        does="all threads; euclidean of more than 25 rows as norms and a matrix product",
    ),
    Rival(
        "torch.cdist",
        "torch",
        "torch",
        "training",
        ("cpu", "cuda"),
        ("euclidean", "cityblock"),
        _torch_training,
        does="expanded operands are copied; euclidean of more than 25 rows by a matrix product",
    ),
    Rival(
        "scikit-learn pairwise_distances",
        "scikit-learn",
        "sklearn.metrics",
        "cdist",
        ("cpu",),
        ("euclidean", "cityblock", "cosine", "haversine"),
        _sklearn_distances,
        does="euclidean and cosine as norms and a matrix product",
    ),
    Rival(
        "numkong cdist",
        "numkong",
        "numkong",
        "cdist",
        ("cpu",),
        ("euclidean", "sqeuclidean", "cosine"),
        _numkong_cdist,
        does="all threads; computes and returns float64, whatever it is given",
    ),
    Rival(
        "cupyx cdist",
        "cupy",
        "cuvs.distance",  # whose kernels it runs; CuPy itself is there without
        "cdist",
        ("cuda",),
        _CUPYS,
        _cupy_cdist,
        does="cuVS's kernels on the device",
    ),
    Rival(
        "scipy pdist",
        "scipy",
        "scipy.spatial",
        "pdist",
        ("cpu",),
        SCIPYS,
        _scipy_pdist,
        does="one thread; computes and returns float64, whatever it is given",
    ),
    Rival(
        "torch pdist",
        "torch",
        "torch",
        "pdist",
        ("cpu", "cuda"),
        (*_P, "minkowski"),
        _torch_pdist,
        does="direct form",
    ),
    Rival(
        "cupyx pdist",
        "cupy",
        "cuvs.distance",
        "pdist",
        ("cuda",),
        _CUPYS,
        _cupy_pdist,
        does="cuVS's kernels on the device",
    ),
    Rival(
        "scipy cdist",
        "scipy",
        "scipy.spatial",
        "cdist, there and back",
        ("cpu",),
        SCIPYS,
        _scipy_transfer,
        does="one thread; computes and returns float64, whatever it is given",
    ),
    Rival(
        "torch.cdist, there and back",
        "torch",
        "torch",
        "cdist, there and back",
        ("cuda",),
        tuple(_P),
        _torch_transfer,
    ),
    Rival(
        "torch pdist, there and back",
        "torch",
        "torch",
        "pdist, there and back",
        ("cuda",),
        tuple(_P),
        _torch_pairs_transfer,
    ),
    Rival(
        "scipy floyd_warshall",
        "scipy",
        "scipy.sparse.csgraph",
        "apsp",
        ("cpu",),
        (),
        _scipy_apsp,
        limit=2000,
        does="one thread, in float64, on a copy of the graph",
    ),
    Rival(
        "scipy dijkstra",
        "scipy",
        "scipy.sparse.csgraph",
        "apsp",
        ("cpu",),
        (),
        _scipy_dijkstra,
        does="Dijkstra from each node of a sparse array that is there; one thread, in float64",
    ),
    Rival(
        "rustworkx all_pairs_dijkstra_path_lengths",
        "rustworkx",
        "rustworkx",
        "apsp",
        ("cpu",),
        (),
        _rustworkx_dijkstra,
        does="Dijkstra from each node of a graph that is there, asks Python for each weight; "
        "all threads; gives maps",
    ),
    Rival(
        "rustworkx floyd_warshall_numpy",
        "rustworkx",
        "rustworkx",
        "apsp",
        ("cpu",),
        (),
        _rustworkx_loop,
        limit=2000,
        does="on a matrix made of a graph that is there, asks Python for each weight; all threads, "
        "in float64",
    ),
    Rival(
        "networkit APSP",
        "networkit",
        "networkit",
        "apsp",
        ("cpu",),
        (),
        _networkit_apsp,
        does="Dijkstra from each node of a graph that is there, by levels where it is unweighted; "
        "all threads, in float64",
    ),
    Rival(
        "scipy floyd_warshall, graph by graph",
        "scipy",
        "scipy.sparse.csgraph",
        "apsp_batch",
        ("cpu",),
        (),
        _scipy_apsp_loop,
        does="one thread, in float64, on a copy of each graph",
    ),
    Rival(
        "torch, loop over k",
        "torch",
        "torch",
        "apsp",
        ("cpu", "cuda"),
        (),
        _torch_apsp,
        limit=4096,
        does="one step of the loop after the other, each of all elements",
    ),
    Rival(
        "numpy, loop over k",
        "numpy",
        "numpy",
        "minplus",
        ("cpu",),
        (),
        _numpy_minplus,
        limit=2048,
        does="one step of the loop after the other, each of all elements, on one thread",
    ),
    Rival(
        "torch, loop over k",
        "torch",
        "torch",
        "apsp_batch",
        ("cpu", "cuda"),
        (),
        _torch_apsp,
        does="one step of the loop after the other, each of all elements of all graphs",
    ),
    Rival(
        "torch, loop over k",
        "torch",
        "torch",
        "minplus",
        ("cpu", "cuda"),
        (),
        _torch_minplus,
        limit=8192,
        does="one step of the loop after the other, each of all elements",
    ),
    Rival(
        "numpy, loop over k",
        "numpy",
        "numpy",
        "transitive_closure",
        ("cpu",),
        (),
        _numpy_closure,
        limit=2000,
        does="one step of the loop after the other, each of all elements, on one thread",
    ),
    Rival(
        "torch, loop over k",
        "torch",
        "torch",
        "transitive_closure",
        ("cpu", "cuda"),
        (),
        _torch_closure,
        limit=4096,
        does="one step of the loop after the other, each of all elements",
    ),
    Rival(
        "scipy eigs",
        "scipy",
        "scipy.sparse.linalg",
        "perron",
        ("cpu",),
        (),
        _scipy_perron,
        does="ARPACK; the root alone, without bounds or vector",
    ),
    Rival(
        "numpy eigvals",
        "numpy",
        "numpy",
        "perron",
        ("cpu",),
        (),
        _numpy_perron,
        limit=1000,
        does="LAPACK; all eigenvalues, without bounds or vectors",
    ),
    Rival(
        "torch eigvals",
        "torch",
        "torch",
        "perron",
        ("cpu", "cuda"),
        (),
        _torch_perron,
        limit=1000,
        does="all eigenvalues, without bounds or vectors",
    ),
    Rival(
        "scikit-learn NearestNeighbors",
        "scikit-learn",
        "sklearn.neighbors",
        "knn",
        ("cpu",),
        (*_P, "sqeuclidean", "minkowski", "cosine", "canberra", "braycurtis", "correlation"),
        _sklearn_knn,
        limit=20_000,
        does='algorithm="brute", all threads; euclidean as norms and a matrix product',
    ),
    Rival(
        "scipy cKDTree",
        "scipy",
        "scipy.spatial",
        "knn",
        ("cpu",),
        (*_P, "minkowski"),
        _scipy_knn,
        does="builds the tree and asks it, in each call; all threads, in float64",
    ),
    Rival(
        "torch.cdist and topk",
        "torch",
        "torch",
        "knn",
        ("cpu",),
        (*_P, "minkowski"),
        _torch_knn,
        limit=20_000,
        does="the whole matrix of distances, then the k smallest of each row; all threads",
    ),
    Rival(
        "torch.cdist and topk, in panels",
        "torch",
        "torch",
        "knn",
        ("cuda",),
        (*_P, "minkowski"),
        _torch_knn_in_panels,
        does="a gigabyte of distances at a time, then the k smallest of each row",
    ),
    Rival(
        "cuvs brute_force",
        "cuvs",
        "cuvs",
        "knn",
        ("cuda",),
        ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "canberra"),
        _cuvs_knn,
        does="builds the index and asks it, in each call",
    ),
    Rival(
        "faiss.knn",
        "faiss-cpu",
        "faiss",
        "knn",
        ("cpu",),
        ("euclidean", "sqeuclidean"),
        _faiss_knn,
        limit=20_000,
        does="all threads; squares as norms and a matrix product, in float32",
    ),
)


def rivals_for(task: Task) -> tuple[Rival, ...]:
    """Give every rival that knows a task, installed or not.

    Parameters
    ----------
    task : Task
        What is asked.

    Returns
    -------
    tuple of Rival
        In the order of the table.
    """
    return tuple(rival for rival in RIVALS if rival.takes(task))
