"""What people write by mistake, or by another library's habit, is taken or answered with advice."""

import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from numpy.lib.recfunctions import structured_to_unstructured

import gpudist
from gpudist import checks, choosing

A = np.arange(12.0).reshape(4, 3) + np.eye(4, 3)
B = A[:2] / 3
S = A[:3]
SPARSE = scipy.sparse.csr_array(S)


def says(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


# ------------------------------------------------------------------ operands


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpudist.cdist(SPARSE, B), "XA is sparse; give a dense array, as XA.toarray()"),
        (lambda: gpudist.cdist(A, SPARSE), "XB is sparse"),
        (lambda: gpudist.cdist(SPARSE, B, lambda u, v: 1.0), "XA is sparse"),
        (lambda: gpudist.pdist(scipy.sparse.coo_matrix(S)), "X is sparse; give a dense array"),
        (lambda: gpudist.pdist(S, w=SPARSE), "w is sparse"),
        (
            lambda: gpudist.perron(SPARSE),
            "A is sparse; give a dense array, as A.toarray() makes it",
        ),
        (
            lambda: gpudist.minplus(S, SPARSE),
            "B is sparse; give a dense array with inf where there is no way: B.toarray() has 0",
        ),
        (
            lambda: gpudist.minplus(S, S, SPARSE, semiring="max_plus"),
            "C is sparse; give a dense array with -inf where there is no way: C.toarray()",
        ),
        (
            lambda: gpudist.minplus(SPARSE, S, semiring="or_and"),
            "A is sparse; give A.toarray(), in which what is not stored is False",
        ),
        (
            lambda: gpudist.cdist(nx.path_graph(3), B),
            "XA is a NetworkX graph, not an array; networkx.to_numpy_array(XA) makes one",
        ),
        (lambda: gpudist.cdist(A, None), "XB must be an array of real numbers, got None"),
        (lambda: gpudist.cdist("points.csv", B), "XA must be an array of real numbers, got an obj"),
        (
            lambda: gpudist.pdist(iter([[1.0], [2.0]])),
            "X must be an array of real numbers, got an object of type list_iterator; "
            "numpy.array(list(X)) may make one",
        ),
        (
            lambda: gpudist.cdist([["1", "2", "3"]], B),
            "got dtype <U1; numpy.asarray(XA, dtype=float) reads numbers that are written out",
        ),
        (
            lambda: gpudist.pdist(np.array([["2026-01-01"]], "M8[D]")),
            "got dtype datetime64[D]; subtract a time, and divide by numpy.timedelta64(1, 'D')",
        ),
        (
            lambda: gpudist.cdist(np.zeros(2, [("x", "f8"), ("y", "i4")]), B),
            "; numpy.lib.recfunctions.structured_to_unstructured(XA) is its numbers alone",
        ),
        (
            lambda: gpudist.pdist(np.array([[1, "a"]], object)),
            "X must be an array of real numbers, got dtype object; its element [0, 1] is of type "
            "str",
        ),
        (
            lambda: gpudist.pdist(np.array([[1, 2.5]], object)),
            "got dtype object; convert it with dtype=float",
        ),
        (lambda: gpudist.pdist(S + 1j), "got dtype complex128; take X.real, or X.real and X.imag"),
    ],
)
def test_what_is_no_array_of_numbers(call, message):
    says(call, TypeError, message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpudist.cdist([[1, 2], [3]], B), "row 1 has 1 element, row 0 has 2 elements"),
        (lambda: gpudist.cdist([[1, 2], 3], B), "row 1 is no list, row 0 has 2 elements"),
        (
            lambda: gpudist.cdist(A[0], B),
            "XA must be two-dimensional, got 1 dimension; numpy.reshape(XA, (1, -1)) is one point",
        ),
        (
            lambda: gpudist.minplus(S, S[0]),
            "B must be two-dimensional, got 1 dimension; numpy.resh",
        ),
    ],
)
def test_what_is_no_matrix(call, message):
    says(call, ValueError, message)


def test_the_advice_works():
    table = np.zeros(3, [("x", "f8"), ("y", "i4")])
    both = structured_to_unstructured(table)
    assert gpudist.pdist(both).shape == (3,)
    assert gpudist.cdist(SPARSE.toarray(), B).shape == (3, 2)
    assert gpudist.cdist(np.reshape(A[0], (1, -1)), B).shape == (1, 2)
    assert gpudist.pdist(np.reshape(A[0], (-1, 1))).shape == (3,)
    assert gpudist.pdist(np.array(list(iter([[1.0], [2.0]])))).tolist() == [1.0]
    assert gpudist.pdist(np.asarray([["1"], ["3"]], dtype=float)).tolist() == [2.0]
    days = (np.array([["2026-01-01"], ["2026-01-08"]], "M8[h]")) - np.datetime64("2026-01-01")
    assert gpudist.pdist(days / np.timedelta64(1, "D")).tolist() == [7.0]


# ------------------------------------------------------------------ graphs


def roads(kind=nx.DiGraph):
    graph = kind()
    graph.add_nodes_from("cab")
    graph.add_edge("c", "a", weight=2.0)
    graph.add_edge("a", "b")  # which weighs 1
    graph.add_edge("b", "c", weight=5.0)
    graph.add_edge("c", "b", weight=None)  # which is none
    return graph


INF = np.inf


@pytest.mark.parametrize(
    ("semiring", "none"),
    [("min_plus", INF), ("max_plus", -INF), ("min_max", INF), ("max_min", -INF), ("or_and", 0)],
)
def test_minplus_takes_graphs(semiring, none):
    dense = np.array([[none, 2.0, none], [none, none, 1.0], [5.0, none, none]])
    expected = gpudist.minplus(dense, dense, dense, semiring=semiring)
    found = gpudist.minplus(roads(), roads(), roads(), semiring=semiring)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert gpudist.explain("minplus", roads(), roads(), semiring=semiring).dtype == found.dtype


def test_graphs_of_a_product_have_their_nodes_in_one_order():
    """Node i is the i-th of each: of another order, paths would go on from another node."""
    graph, other = nx.DiGraph(), nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 2.0)])
    other.add_weighted_edges_from([("b", "c", 2.0), ("a", "b", 1.0)])
    for operands in ((graph, other), (graph, graph, other)):
        with pytest.raises(ValueError, match=r"named as the (rows|columns) of . in another"):
            gpudist.minplus(*operands)
    assert gpudist.minplus(graph, graph)[0, 2] == 3


def test_minplus_takes_the_lightest_of_parallel_edges():
    graph = nx.MultiDiGraph([("a", "b", {"weight": 4.0}), ("a", "b", {"weight": 3.0})])
    np.testing.assert_array_equal(gpudist.minplus(graph, [[1.0], [0.0]]), [[3.0], [INF]])


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, nx.MultiDiGraph])
def test_perron_takes_graphs(kind):
    graph = roads(kind)
    if kind is nx.MultiDiGraph:  # parallel edges add up
        graph.add_edge("c", "a", weight=7.0)
    found = gpudist.perron(graph)
    graph.remove_edge("c", "b")  # of None, but in the undirected graph, where it took the other's
    dense = nx.to_numpy_array(graph, nodelist=list("cab"))
    np.testing.assert_allclose(found.vector, gpudist.perron(dense).vector)
    assert gpudist.explain("perron", graph).op == "perron"
    graph.add_edge("a", "c", weight="far")
    says(lambda: gpudist.perron(graph), TypeError, "A's edges must weigh real numbers or None, got")


# ------------------------------------------------------------------ metrics


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("Euclidean ", "did you mean 'euclidean'?"),
        ("manhatan", "did you mean 'manhattan'"),
        ("precomputed", "what is computed already needs no cdist"),
        ("nan_euclidean", "there is none that passes over NaN"),
        ("wminkowski", "SciPy's had w to the power p: it is 'minkowski' with w=w**p"),
        ("cosine_similarity", "'cosine' is 1 minus it"),
        ("levenshtein", "for it give a function of two rows"),
        ("tanimoto", "'jaccard' of truths is 1 minus it"),  # which is near rogerstanimoto by name
        ("lp", "the metric of an exponent p is 'minkowski'"),
        ("Pearson", "'correlation' is 1 minus it"),
    ],
)
def test_unknown_metrics(metric, message):
    says(lambda: gpudist.cdist(A, B, metric), ValueError, f"unknown metric {metric!r}; {message}")


MINKOWSKI = "for the exponent write metric='minkowski', p=1.0, or metric='cityblock'"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpudist.cdist(A, B, p=1.0), f"euclidean takes w and box; {MINKOWSKI}"),
        (lambda: gpudist.cdist(A, B, 1.0), f"a callable, got float; {MINKOWSKI}"),
        (lambda: gpudist.cdist(A, B, p=3), "for the exponent write metric='minkowski', p=3"),
        (
            lambda: gpudist.pdist(A, VI=S),
            "euclidean takes w and box; VI is for metric='mahalanobis'",
        ),
        (lambda: gpudist.pdist(A, metrics="cosine"), "did you mean 'metric'?"),
        (lambda: gpudist.pdist(A, weights=[1, 2, 3]), "weights are w="),
        (lambda: gpudist.knn(A, k=1, metric_arg=3), "the metric's arguments are given by their"),
        (lambda: gpudist.pdist(A, n_jobs=2), "OMP_NUM_THREADS bounds the threads"),
        (lambda: gpudist.pdist(A, squared=True), "squares are metric='sqeuclidean'"),
        (lambda: gpudist.knn(A, k=1, eps=0.1), "there is no approximate search"),
        (lambda: gpudist.knn(A, k=1, return_distance=False), "have .distances and .indices"),
        (lambda: gpudist.radius_neighbors(A, r=1, radius=1), "the radius is r="),
        (lambda: gpudist.radius_neighbors(A, r=1, sort_results=True), "sort='distance' has"),
        (lambda: gpudist.knn(A, k=1, distance_upper_bound=1), "those of radius_neighbors"),
    ],
)
def test_keywords_of_others(call, message):
    says(call, TypeError, message)


def test_what_the_exponent_is_pointed_to_is_the_same():
    x = gpudist.cdist(A, B, "minkowski", p=1.0)
    np.testing.assert_array_equal(x, gpudist.cdist(A, B, "cityblock"))


def test_a_singular_covariance_says_what_to_do(rng):
    x, y = np.c_[rng.random((9, 2)), np.ones(9)], rng.random((9, 2)) @ [[1, 2, 3.0], [1, 1, 7]]
    tail = "leave such columns out, or give VI, the pseudo-inverse for instance: VI=numpy.linalg."
    says(lambda: gpudist.pdist(x, "mahalanobis"), ValueError, f"column 2 is constant: {tail}")
    says(
        lambda: gpudist.cdist(y, y, "mahalanobis"),
        ValueError,
        f"multiples of others: {tail}pinv(numpy.cov(numpy.vstack([XA, XB]).T))",
    )
    given = gpudist.pdist(x, "mahalanobis", VI=np.linalg.pinv(np.cov(x.T)))
    np.testing.assert_allclose(given, gpudist.pdist(x[:, :2], "mahalanobis"))
    units = rng.random((9, 3)) * [1e-9, 1.0, 1e9]  # which are no dependence
    assert np.isfinite(gpudist.pdist(units, "mahalanobis")).all()


# ------------------------------------------------------------------ where and how


@pytest.mark.parametrize("kernel", ["cpu_tile", "tile", "cdist/cpu_tile", "cpu_tille"])
def test_unknown_kernels_suggest_what_can_run(kernel):
    with pytest.raises(ValueError, match=f"unknown kernel '{kernel}'") as caught:
        gpudist.cdist(A, B, kernel=kernel, device="cpu")
    named = re.findall(r"'(cdist/\w+)'", str(caught.value).partition("did you mean")[2])
    can_run = {row.id for row in gpudist.kernels("cdist") if row.why_not is None}
    assert named and set(named) <= can_run
    assert all(id.startswith("cdist/cpu_tile") for id in named[:2])
    for id in named[:1]:
        assert gpudist.cdist(A, B, kernel=id).shape == (4, 2)


def test_kernels_that_are_places():
    says(lambda: gpudist.cdist(A, B, kernel="gpu"), ValueError, "where to compute is device='cuda'")
    says(lambda: gpudist.cdist(A, B, kernel="cpu"), ValueError, "where to compute is device='cpu'")
    says(lambda: gpudist.apsp(S, kernel="Auto"), ValueError, "did you mean 'auto'?")


class Place:
    """Reads like a device of PyTorch."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


class CuPys:
    """CuPy's read "<CUDA Device 3>"."""

    id = 3


CuPys.__module__ = "cupy.cuda.device"

CALLS = {
    "cdist": lambda **how: gpudist.cdist(A, B, **how),
    "cdist by the way of all": lambda **how: gpudist.cdist(A.tolist(), B, **how),
    "cdist of a function": lambda **how: gpudist.cdist(A, B, lambda u, v: 1.0, **how),
    "pdist": lambda **how: gpudist.pdist(A, **how),
    "apsp": lambda **how: gpudist.apsp(S, **how),
    "apsp over or_and": lambda **how: gpudist.apsp(S, semiring="or_and", **how),
    "transitive_closure": lambda **how: gpudist.transitive_closure(S, **how),
    "minplus": lambda **how: gpudist.minplus(S, S, **how),
    "perron": lambda **how: gpudist.perron(S + 1, **how).vector,
}


@pytest.mark.parametrize("name", CALLS)
def test_devices_of_other_libraries(name):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    call = CALLS[name]
    for device in (torch.device("cpu"), torch.device("cpu", 0), Place("cpu")):
        np.testing.assert_array_equal(call(device=device), call(device="cpu"))
    says(
        lambda: call(device=0), TypeError, "device must be a string, got int; for a GPU write 'cud"
    )
    says(
        lambda: call(device=torch.device("meta")), TypeError, "device must be a string, got device"
    )


def test_devices_are_read():
    known = {
        None: None,
        "cuda:1": "cuda:1",
        "nonsense": "nonsense",  # for the core to refuse
        Place("cuda"): "cuda",
        Place("cuda:12"): "cuda:12",
        CuPys(): "cuda:3",
    }
    assert [checks.device("device", one) for one in known] == list(known.values())
    for wrong in (Place("xpu:0"), Place("cuda:1 "), object(), True, 1.0, ("cpu",)):
        with pytest.raises(TypeError, match="place must be a string, got"):
            checks.device("place", wrong)


SIZES = {
    "1GB": 10**9,
    "500 MB": 500 * 10**6,
    "1.5GiB": 3 * 2**29,
    "64kB": 64000,
    "64 KB": 64000,
    "7KiB": 7168,
    " 2 tib ": 2**41,
    "3MiB": 3 * 2**20,
    "1TB": 10**12,
    "12": 12,
    "90 B": 90,
    "0.3 MB": 300_000,  # exactly
    1e9: 10**9,
    np.int16(300): 300,
}


def test_sizes_are_read():
    assert [checks.size("x", text) for text in SIZES] == list(SIZES.values())


@pytest.mark.parametrize("wrong", ["", "GB", "1 G", "-1GB", "1,5 GB", "1GB2", "lots", "1\u00b2 MB"])
def test_other_texts_are_no_sizes(wrong):
    message = "max_memory must be a number of bytes with a unit of B, kB, MB, GB, TB, KiB, MiB, G"
    says(lambda: gpudist.cdist(A, B, max_memory=wrong), ValueError, message)


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"cdist of a function"}))
def test_max_memory_has_units(name):
    if name.partition(" ")[0] not in ("cdist", "pdist"):  # which need none besides
        with pytest.raises(MemoryError, match="max_memory allows 1:"):
            CALLS[name](max_memory="1 B", device="cpu")
    for most in ("1GB", 2**70):
        np.testing.assert_array_equal(CALLS[name](max_memory=most), CALLS[name]())
    says(lambda: CALLS[name](max_memory="0 kB"), ValueError, "max_memory must be a positive number")


def test_pinned_memory_has_units():
    gpudist.limit_pinned_memory("64 MB")
    gpudist.limit_pinned_memory("256MiB")  # as at first
    says(
        lambda: gpudist.limit_pinned_memory("much"), ValueError, "max_bytes must be a number of by"
    )


# ------------------------------------------------------------------ explaining


def test_functions_stand_for_their_names():
    assert gpudist.explain(gpudist.cdist, A, B).kernel == gpudist.explain("cdist", A, B).kernel
    assert gpudist.explain(gpudist.apsp, S, max_memory="1GB", device=Place("cpu")).op == "apsp"
    assert gpudist.kernels(gpudist.pdist) == gpudist.kernels("cdist")
    found = gpudist.compare(gpudist.pdist, A, against=(), repeats=1, device=Place("cpu"))
    assert found.entries[0].name == gpudist.explain("pdist", A, device="cpu").kernel
    for wrong in (len, np.linalg.norm, choosing.choose):
        says(lambda one=wrong: gpudist.explain(one, A), TypeError, "op must be a string, got ")


def test_operations_have_the_same_names_everywhere():
    names = "closure", "transitive_closure"
    said = {gpudist.explain(name, S).kernel for name in names}
    assert said == {gpudist.explain(gpudist.transitive_closure, S).kernel}
    assert gpudist.kernels(names[0]) == gpudist.kernels(names[1]) != ()
    for name in names:
        assert gpudist.compare(name, S, against=(), repeats=1, device="cpu").entries
