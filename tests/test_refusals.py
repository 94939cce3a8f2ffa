"""Whatever stands in for an argument: it is taken, or an error names the argument."""

import inspect
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from capsules import BOOL, INT, MEMORY, Export, Exporter
from claims import Claims, Exports

import gpudist
from gpudist import _core, exactly

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7
S = np.arange(9.0).reshape(3, 3) + 1
P = np.array([[-9999, 0], [1, -9999]])
NAMED = gpudist.apsp({1: {2: 3.0}}, labels=True, return_predecessors=True)


class NoArray:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("nothing here")


class FalseArray:
    def __array__(self, dtype=None, copy=None):
        return "no array"


class LooksLikeOne:
    shape, dtype, ndim = (4, 3), np.dtype("f8"), 2


class NoDevice:
    def __dlpack_device__(self):
        raise RuntimeError("nowhere")


class NoCapsule(LooksLikeOne, Exports):
    def __dlpack__(self, **keywords):
        raise RuntimeError("nothing to export")


class NoInterface:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("no interface")


class FalseInterface:
    __cuda_array_interface__ = "no interface"


class NoArithmetic(np.ndarray):
    def __array_ufunc__(self, *args, **keywords):
        raise RuntimeError("not with me")


def tensors():
    try:
        import torch
    except ImportError:
        return {}
    ones = torch.ones(4, 3)
    return {
        "a tensor that records": torch.ones(4, 3, requires_grad=True),
        "a sparse tensor": ones.to_sparse(),
        "a tensor without data": torch.ones(4, 3, device="meta"),
        "a tensor of bfloat16": ones.bfloat16(),
        "a complex tensor": ones.to(torch.complex64),
        "a tensor": ones,
    }


STRANGE = {
    "text": "abc",
    "bytes": b"ab",
    "a number": 3.5,
    "no dimension": np.array(1.0),
    "an object": object(),
    "a dictionary": {},
    "a set": {1, 2},
    "ragged rows": [[1, 2], [3]],
    "digits": [["1", "nan"]],
    "too large an integer": [[2**70, 1, 1]],
    "an empty list": [],
    "a generator": (i for i in range(3)),
    "a class": np.ndarray,
    "four dimensions": np.zeros((1, 1, 1, 1)),
    "no array": NoArray(),
    "a false array": FalseArray(),
    "what looks like one": LooksLikeOne(),
    "no device": NoDevice(),
    "a false device": Exports(device="cuda"),
    "no capsule": NoCapsule(),
    "a false capsule": Exports(answer=3),
    "no interface": NoInterface(),
    "a false interface": FalseInterface(),
    "a negative shape": Claims(shape=(-4, 3)),
    "fields": np.zeros((4, 3), dtype=[("a", "f8"), ("b", "i4")]),
    "moments": np.zeros((4, 3), "M8[s]"),
    "voids": np.zeros((4, 3), "V4"),
    "complex numbers": A + 1j,
    "objects": A.astype(object),
    "a masked array": np.ma.masked_array(A),
    "no arithmetic": A.view(NoArithmetic),
    "rows in reverse": A[::-1, ::-1],
    "half precision": A.astype("f2"),
    "a complex number": np.complex128(2),
    "a number that is masked": np.ma.masked,
    "a number without end": 2**70,
    "parts of rows": slice(1.5, 3),
    "no steps": slice(0, 3, 0),
    **tensors(),
}

PLACES = {
    "cdist XA": lambda x: gpudist.cdist(x, B),
    "cdist XB": lambda x: gpudist.cdist(A, x),
    "cdist out": lambda x: gpudist.cdist(A, B, out=x),
    "cdist w": lambda x: gpudist.cdist(A, B, w=x),
    "cdist V": lambda x: gpudist.cdist(A, B, "seuclidean", V=x),
    "cdist VI": lambda x: gpudist.cdist(A, B, "mahalanobis", VI=x),
    "cdist p": lambda x: gpudist.cdist(A, B, "minkowski", p=x),
    "cdist base": lambda x: gpudist.cdist(A, B, "jensenshannon", base=x),
    "cdist dtype": lambda x: gpudist.cdist(A, B, dtype=x),
    "cdist kernel": lambda x: gpudist.cdist(A, B, kernel=x),
    "cdist device": lambda x: gpudist.cdist(A, B, device=x),
    "cdist options": lambda x: gpudist.cdist(A, B, options=x),
    "cdist rows": lambda x: gpudist.cdist(A, B, rows=x),
    "cdist max_memory": lambda x: gpudist.cdist(A, B, max_memory=x),
    "knn XB": lambda x: gpudist.knn(A, x, 1),
    "knn k": lambda x: gpudist.knn(A, k=x),
    "knn rows": lambda x: gpudist.knn(A, k=1, rows=x),
    "knn out": lambda x: gpudist.knn(A, k=1, out=(x, x)),
    "knn index_dtype": lambda x: gpudist.knn(A, k=1, index_dtype=x),
    "knn max_memory": lambda x: gpudist.knn(A, k=1, max_memory=x),
    "radius_neighbors r": lambda x: gpudist.radius_neighbors(A, r=x),
    "radius_neighbors sort": lambda x: gpudist.radius_neighbors(A, r=1, sort=x),
    "radius_neighbors max_neighbors": lambda x: gpudist.radius_neighbors(A, r=1, max_neighbors=x),
    "count_neighbors radii": lambda x: gpudist.count_neighbors(A, radii=x),
    "count_neighbors weights": lambda x: gpudist.count_neighbors(A, radii=[1], weights=x),
    "count_neighbors cumulative": lambda x: gpudist.count_neighbors(A, radii=[1], cumulative=x),
    "Neighbors X": lambda x: gpudist.Neighbors(x),
    "Neighbors n_neighbors": lambda x: gpudist.Neighbors(A, n_neighbors=x),
    "kneighbors X": lambda x: gpudist.Neighbors(A).kneighbors(x, 1),
    "kneighbors_graph mode": lambda x: gpudist.Neighbors(A).kneighbors_graph(A, 1, x),
    "radius_neighbors radius": lambda x: gpudist.Neighbors(A).radius_neighbors(A, x),
    "pdist X": lambda x: gpudist.pdist(x),
    "pdist out": lambda x: gpudist.pdist(A, out=x),
    "apsp graph": lambda x: gpudist.apsp(x),
    "apsp out": lambda x: gpudist.apsp(S, out=x),
    "apsp no_edge": lambda x: gpudist.apsp(S, no_edge=x),
    "apsp dtype": lambda x: gpudist.apsp(S, dtype=x),
    "apsp semiring": lambda x: gpudist.apsp(S, semiring=x),
    "apsp directed": lambda x: gpudist.apsp(S, directed=x),
    "apsp unweighted": lambda x: gpudist.apsp(S, unweighted=x),
    "apsp overwrite": lambda x: gpudist.apsp(S.copy(), overwrite=x),
    "apsp return_predecessors": lambda x: gpudist.apsp(S, return_predecessors=x),
    "transitive_closure graph": lambda x: gpudist.transitive_closure(x),
    "transitive_closure out": lambda x: gpudist.transitive_closure(S, out=x),
    "transitive_closure no_edge": lambda x: gpudist.transitive_closure(S, no_edge=x),
    "transitive_closure reflexive": lambda x: gpudist.transitive_closure(S, reflexive=x),
    "minplus A": lambda x: gpudist.minplus(x, S),
    "minplus B": lambda x: gpudist.minplus(S, x),
    "minplus C": lambda x: gpudist.minplus(S, S, x),
    "minplus out": lambda x: gpudist.minplus(S, S, out=x),
    "minplus dtype": lambda x: gpudist.minplus(S, S, dtype=x),
    "minplus semiring": lambda x: gpudist.minplus(S, S, semiring=x),
    "perron A": lambda x: gpudist.perron(x),
    "perron x0": lambda x: gpudist.perron(S, x0=x),
    "perron tol": lambda x: gpudist.perron(S, tol=x),
    "perron max_iter": lambda x: gpudist.perron(S, max_iter=x),
    "perron shift": lambda x: gpudist.perron(S, shift=x),
    "reconstruct_path predecessors": lambda x: gpudist.reconstruct_path(x, 1, 0),
    "reconstruct_path i": lambda x: gpudist.reconstruct_path(P, x, 0),
    "explain op": lambda x: gpudist.explain(x, A),
    "kernels op": lambda x: gpudist.kernels(x),
    "limit_pinned_memory max_bytes": lambda x: gpudist.limit_pinned_memory(x),
}


REFUSALS = TypeError, ValueError, OverflowError, IndexError, gpudist.DeviceError


@pytest.mark.parametrize("place", PLACES)
def test_strange_arguments_are_taken_or_named(place):
    name = place.split()[1]
    for what, strange in STRANGE.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                PLACES[place](strange)
            except REFUSALS as error:
                named = name in str(error)
                no_result = "allocates results for" in str(error)  # of a library without a name
                assert named or no_result, f"{what}: {error!r}"
                assert "_Described" not in str(error) and "_Exported" not in str(error)


def test_a_masked_result_is_refused():
    """Its mask would stay, and tell of what was there before."""
    for call in (
        lambda out: gpudist.cdist(S, S, out=out),
        lambda out: gpudist.minplus(S, S, out=out),
        lambda out: gpudist.apsp(S, out=out),
    ):
        with pytest.raises(TypeError, match="out is a masked array"):
            call(np.ma.masked_array(S.copy(), S > 3))


def test_what_a_callable_reads_is_not_what_it_wrote():
    def apart(u, v):
        return np.abs(u - v).sum()

    x = S.copy()
    want = gpudist.cdist(x, x, apart)
    assert gpudist.cdist(x, x, apart, out=x) is x
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("path", [[[-9999, 1], [0, -9999]], [[-9999, 7], [0, -9999]]])
def test_predecessors_that_lead_nowhere_are_refused(path):
    with pytest.raises(ValueError, match="predecessors must be what apsp returned"):
        gpudist.reconstruct_path(path, 0, 1)
    with pytest.raises(ValueError, match=r"predecessors must be a square .* \(1, 2\)"):
        gpudist.reconstruct_path(path[:1], 0, 1)


every_op = pytest.mark.parametrize(
    "op", ["cdist", "pdist", "apsp", "transitive_closure", "minplus", "perron"]
)


@every_op
def test_the_reference_is_for_host_arrays(op):
    there = Claims(shape=(3, 3))
    operands = (there, there) if op in ("cdist", "minplus") else (there,)
    for call in (getattr(gpudist, op), partial(gpudist.explain, op)):
        with pytest.raises(TypeError, match='"reference" takes host arrays, move them first'):
            call(*operands, kernel="reference")


@every_op
def test_the_reference_takes_no_orders(op):
    operands = (S, S) if op in ("cdist", "minplus") else (S,)
    for call in (getattr(gpudist, op), partial(gpudist.explain, op)):
        call(*operands, kernel="reference", device="cpu")
        for device in ("cuda", "cuda:1", "gpu"):
            with pytest.raises(ValueError, match=f"device must be .* 'reference', .*'{device}'"):
                call(*operands, kernel="reference", device=device)
        with pytest.raises(TypeError, match="device must be a string, got int"):
            call(*operands, kernel="reference", device=0)
    for name, given in {"progress": True, "max_memory": 1 << 20}.items():
        if name in inspect.signature(getattr(gpudist, op)).parameters:
            with pytest.raises(ValueError, match=f"{name} is not for kernel 'reference'"):
                getattr(gpudist, op)(*operands, kernel="reference", **{name: given})


def test_explain_knows_where_arrays_are():
    there, space = on_device(2), gpudist.arrays._OTHER
    assert gpudist.arrays.device_for(space, there, None) == "cuda:2"
    assert gpudist.arrays.device_for(space, Claims(shape=(3, 3)), "cpu") == "cuda"
    assert gpudist.arrays.device_for(gpudist.arrays.HOST, S, "cuda:1") == "cuda:1"


def test_explain_knows_every_out():
    out = np.empty((3, 3), bool)
    assert gpudist.explain("transitive_closure", S, out=out).op == "closure"
    assert gpudist.explain("minplus", S, S, out=S.astype("f4")).dtype == "float32"
    with pytest.raises(TypeError, match="out must be a NumPy array, got list"):
        gpudist.explain("cdist", A, B, out=[[0.0]])


def on_device(index=0, **facts):
    return Exporter(lambda: Export(device_id=index, **facts), device=(2, index))


def test_what_exports_alone_is_described(monkeypatch):
    exporter = on_device(shape=(4, 2), strides=(3, 2), bits=32, byte_offset=8)
    assert _core.describe(exporter, "XA") == ((4, 2), "float32", MEMORY + 8, (3, 2))
    assert exporter.asked == [{"stream": -1, "max_version": (1, 0)}]
    truths = on_device(shape=(5,), code=BOOL, bits=8)
    assert _core.describe(truths, name="x") == ((5,), "bool", MEMORY, None)
    empty = on_device(shape=(2, 0, 1), code=INT, bits=32, data=None)
    assert _core.describe(empty, "x") == ((2, 0, 1), "int32", 0, None)
    with pytest.raises(TypeError, match="x is a device array that is not float32"):
        _core.describe(on_device(shape=(5,), bits=16), "x")
    with pytest.raises(TypeError, match="XA cannot be read by its __dlpack__: nothing to export"):
        gpudist.cdist(NoCapsule(), NoCapsule())
    with pytest.raises(ValueError, match=r"out must have shape \(4, 4\), got \(4, 3\)"):
        gpudist.cdist(exporter, exporter, rows=slice(2), out=on_device(bits=32))
    monkeypatch.setitem(sys.modules, "numba.cuda", None)  # which would allocate one
    with pytest.raises(TypeError, match=r"results for .* not for capsules\.Exporter"):
        gpudist.cdist(exporter, exporter)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"against": 3}, TypeError, "against must be a string or a list of them, got int"),
        ({"against": [3]}, TypeError, "each of against must be a string, got int"),
        ({"against": "sci"}, ValueError, "no library is called 'sci' here; did you mean 'scipy'"),
        ({"kernels": 3}, TypeError, "kernels must be a string or a list of them, got int"),
        ({"kernels": "cdist/cpu"}, ValueError, "unknown kernel 'cdist/cpu' for cdist"),
        ({"repeats": 1.5}, TypeError, "repeats must be a whole number, got float"),
        ({"repeats": 0}, ValueError, "repeats and budget must be positive, got 0 and 10.0"),
        ({"budget": "x"}, TypeError, "budget must be a real number, got str"),
        ({"budget": np.nan}, ValueError, "repeats and budget must be positive, got 7 and nan"),
        ({"op": "sort"}, ValueError, "op must be one of cdist"),
        ({"kernels": ["auto", "cdist/cpu"]}, ValueError, "unknown kernel 'cdist/cpu' for cdist"),
        ({"out": np.empty((4, 5))}, TypeError, "return a whole new result each time, without out="),
        ({"rows": slice(2)}, TypeError, "without rows="),
        ({"progress": True}, TypeError, "without progress="),
        ({"options": {}}, TypeError, "without options="),
    ],
)
def test_wrong_arguments_of_compare(wrong, error, message):
    arguments = {"op": "cdist", "device": "cpu"} | wrong
    with pytest.raises(error, match=message):
        gpudist.compare(arguments.pop("op"), A, B, **arguments)


def test_compare_is_for_one_matrix_that_stays_as_it_is():
    graph = np.array([[0.0, 1, 9], [9, 0, 1], [1, 9, 0]])
    before = graph.copy()
    with pytest.raises(TypeError, match="without overwrite="):  # the second call would differ
        gpudist.compare("apsp", graph, overwrite=True)
    np.testing.assert_array_equal(graph, before)
    for op, operands, arguments in (
        ("cdist", (A, B[None]), {}),
        ("knn", ([A.tolist()], B), {"k": 1}),
        ("minplus", (S[None], S), {}),
        ("apsp", (graph[None],), {}),
        ("apsp", (graph[None],), {"sizes": [2]}),
        ("transitive_closure", ([graph, graph],), {}),
    ):
        with pytest.raises(ValueError, match="compare is for one matrix or graph at a time"):
            gpudist.compare(op, *operands, **arguments)


def test_compare_takes_auto_beside_names_and_a_bound_on_memory():
    """The bound is for our kernels: neither NumPy's reference nor other libraries have it."""
    quick = {"against": "scipy", "device": "cpu", "repeats": 1, "budget": 0.1}
    kernels = ["auto", "reference"]
    found = gpudist.compare("cdist", A, B, kernels=kernels, max_memory="1 MB", **quick)
    assert [entry.name for entry in found.entries][1:] == ["reference", "scipy cdist"]
    assert found.ours.error < 1e-13
    assert found.entries[2].timing is not None
    assert found.arguments == "euclidean, max_memory = 1 MB"


def test_compare_takes_one_name_as_one():
    found = gpudist.compare("cdist", A, B, against="scipy", device="cpu", repeats=1, budget=0.1)
    assert [entry.name for entry in found.entries][1:] == ["scipy cdist"]


@pytest.mark.parametrize(
    ("call", "error", "advice"),
    [
        (lambda: gpudist.knn(A, 2), TypeError, r"as in knn\(XA, k=10\)"),
        (lambda: gpudist.nearest(A, k=2), TypeError, "the k nearest are those of knn$"),
        (lambda: gpudist.nearest(A, n_neighbors=2), TypeError, "of knn, with k=$"),
        (lambda: gpudist.apsp([(0, 1, 3.0), (1, 2, 2.0)]), ValueError, "edges is for apsp_edges$"),
        (lambda: gpudist.apsp_edges([(0, 1, 3)]), ValueError, r"\(1, 3\); .* argument, weights$"),
        (lambda: gpudist.apsp_edges([("a", "b")]), TypeError, "frame of pandas, with labels=True$"),
        (lambda: gpudist.reconstruct_path(S, 0, 1), TypeError, "with return_predecessors=True$"),
        (lambda: gpudist.reconstruct_path((S, P), 0, 1), ValueError, "cannot be read as an array"),
        (lambda: gpudist.reconstruct_path((P, P), 0, 1), ValueError, r"give predecessors\[1\]$"),
        (lambda: gpudist.reconstruct_paths(P[None], 0, 1), ValueError, "give those of one$"),
        (lambda: gpudist.reconstruct_paths(P, [2**64 - 1], 0), IndexError, f"has {2**64 - 1}, "),
        (lambda: gpudist.apsp([[[0, 1], [1, 0]], [[0]]]), ValueError, r"asarray\(one\) for one in"),
        (lambda: gpudist.transitive_closure([[[0]], [[0], [1]]]), ValueError, "of several sizes"),
        (lambda: gpudist.perron(S, x0=1.0), ValueError, r"x0 must have shape \(3,\), got \(\)$"),
        (lambda: gpudist.perron(S, tol=10**400), ValueError, "tol is beyond the range of float64"),
        (lambda: gpudist.cdist(A, B, box=10**400), TypeError, "box must be an array of real"),
        (lambda: gpudist.knn(3, B, 1, metric=max), ValueError, "XA must be two-dimensional, got 0"),
        (lambda: gpudist.nearest(A, B[0], metric=max), ValueError, "XB must be .* one point"),
        (lambda: gpudist.nearest(A, B[:, 1:], metric=max), ValueError, "number of columns, got 3"),
        (lambda: gpudist.pdist(A, out=np.int64), TypeError, "out must be .*array.*, got type$"),
        (lambda: NAMED.path([1], 2), TypeError, "^list is no name of one node of this graph$"),
        (lambda: gpudist.measures.wiener_index(S, A), TypeError, "directed must be True or False"),
        (lambda: gpudist.measures.closeness_centrality(S, A), TypeError, "wf_improved must be Tr"),
        (lambda: gpudist.explain("apsp", S, verbose=A), TypeError, "verbose must be True or False"),
        (lambda: gpudist.apsp(S, directed="no"), TypeError, "^directed must be .*, got 'no'$"),
        (lambda: gpudist.apsp(S.copy(), overwrite=b"0"), TypeError, "overwrite must be .* b'0'"),
        (lambda: gpudist.transitive_closure(S, directed=None), TypeError, "directed .*, got None$"),
        (lambda: gpudist.knn(A, B, 1, index_dtype=None), TypeError, "index_dtype must .* got None"),
        (lambda: gpudist.explain("apsp", S, ceilings=[1]), TypeError, "ceilings must be a dictio"),
        (lambda: gpudist.Neighbors(A, radius=[1.0, 2]), TypeError, "radius must be a real number"),
    ],
)
def test_usual_mistakes_are_told_the_way(call, error, advice):
    with pytest.raises(error, match=advice):
        call()


@pytest.mark.parametrize(
    ("operands", "arguments", "message"),
    [
        ((A,), {}, r"cdist\(\): missing a required argument: 'XB'"),
        ((A, B, "cosine", B), {}, r"cdist\(\): too many positional arguments"),
    ],
)
def test_explain_names_the_function_that_was_asked_for(operands, arguments, message):
    with pytest.raises(TypeError, match=message):
        gpudist.explain("cdist", *operands, **arguments)
    with pytest.raises(TypeError, match=r"apsp\(\): got an unexpected keyword argument 'nonsense'"):
        gpudist.explain("apsp", S, nonsense=3)


def test_a_cycle_is_followed_in_arrays_that_take_no_lists():
    """As those of Numba, which is not everywhere."""

    class There:
        shape = (3, 3)

        def __getitem__(self, index):
            raise TypeError("no lists")

        def copy_to_host(self):
            return np.array([[0.0, 1, 0], [0, 0, -3], [1, 0, 0]])

    how = "zero", 0.0, True, False, "min_plus"
    results = np.full((3, 3), -1.0), None, np.inf
    with pytest.raises(gpudist.NegativeCycleError) as raised:
        exactly.settle(gpudist.arrays._OTHER, There(), how, ([0, 1, 2], 0.0), results)
    assert sorted(raised.value.cycle) == [0, 1, 2]


def test_what_only_looks_like_a_sparse_matrix_is_refused():
    class Hollow:
        shape = (4, 4)

        def tocsr(self):
            return None

    for function in (gpudist.apsp, gpudist.transitive_closure):
        with pytest.raises(TypeError, match="graph is no sparse matrix, though a Hollow has tocsr"):
            function(Hollow())


MASKED = np.ma.masked_array([[0.0, 2.0], [3.0, 0.0]], [[0, 1], [0, 0]])
ROWS = [MASKED[0], MASKED[1]]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (r"XA\[0\]", lambda: gpudist.cdist(ROWS, S[:, :2])),
        (r"XB\[1\]\[0\]", lambda: gpudist.cdist(S[:2, :2], [[[1.0, 2.0]], ROWS])),
        (r"X\[0\]", lambda: gpudist.pdist(tuple(ROWS), lambda u, v: 0.0)),
        (r"XB\[1\]", lambda: gpudist.knn(S[:, :2], [[1.0, 2.0], MASKED[1]], 1)),
        (r"w\[0\]", lambda: gpudist.cdist(S[:, :2], S[:, :2], w=[np.ma.masked, 1])),
        (r"A\[0\]", lambda: gpudist.minplus(ROWS, ROWS)),
        (r"A\[0\]", lambda: gpudist.perron(ROWS)),
        (r"graph\[0\]", lambda: gpudist.apsp(ROWS)),
        (r"graph\[0\]", lambda: gpudist.transitive_closure(ROWS)),
        (r"dist\[0\]", lambda: gpudist.measures.center(ROWS)),
        (r"edges\[0\]", lambda: gpudist.apsp_edges([np.ma.masked_array([0, 1], [0, 1]), [0, 1]])),
    ],
)
def test_a_mask_within_a_list_is_not_ignored(name, call):
    """NumPy makes a plain array of such a list, and leaves the masks out without a word."""
    with pytest.raises(TypeError, match=rf"^{name} is a masked array; fill it first"):
        call()


def test_lists_of_arrays_are_read_as_numpy_reads_them():
    """Of graphs in a list each may have a mask, which there means something."""
    for same in (
        [*S],
        tuple(map(tuple, S.tolist())),
        [S[0], *S[1:].tolist()],
        [list(S[0]), *S[1:]],
    ):
        np.testing.assert_array_equal(gpudist.pdist(same), gpudist.pdist(S))
    np.testing.assert_array_equal(gpudist.cdist([S, S + 1], S)[1], gpudist.cdist(S + 1, S))
    assert [d.tolist() for d in gpudist.apsp([MASKED, MASKED])] == [[[0, np.inf], [3, 0]]] * 2
    nested: list = []
    nested.append(nested)
    with pytest.raises((TypeError, ValueError), match=r"^XA "):
        gpudist.cdist(nested, S)
