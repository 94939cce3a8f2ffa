"""PyTorch's tensors on the CPU: what they give is of PyTorch, and gradients are never lost."""

from functools import partial

import numpy as np
import pytest

import gpudist
from gpudist import measures

torch = pytest.importorskip("torch", reason="PyTorch is missing")

A = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
B = torch.arange(15.0, dtype=torch.float64).reshape(5, 3) / 7
S = torch.tensor([[0.0, 3, 8], [4, 0, 2], [1, 5, 0]], dtype=torch.float64)
LENGTHS = gpudist.apsp(S.numpy())


def arrays_in(result):
    """Give the arrays of a result."""
    if isinstance(result, (torch.Tensor, np.ndarray)):
        return [result]
    if isinstance(result, tuple):
        return [x for part in result for x in arrays_in(part)]
    return [result.vector] if hasattr(result, "vector") else []


CALLS = {
    "cdist": (lambda f: gpudist.cdist(f(A), f(B)), 1),
    "cdist, long way": (lambda f: gpudist.cdist(f(A), f(B), dtype="float64"), 1),
    "cdist, callable": (lambda f: gpudist.cdist(f(A), f(B), lambda x, y: x[0] - y[0]), 1),
    "cdist, rows": (lambda f: gpudist.cdist(f(A), f(B), rows=slice(1, 3)), 1),
    "cdist, reference": (lambda f: gpudist.cdist(f(A), f(B), kernel="reference"), 1),
    "cdist, batch": (lambda f: gpudist.cdist(f(A[None]), f(B)), 1),
    "pdist": (lambda f: gpudist.pdist(f(A)), 1),
    "minplus": (lambda f: gpudist.minplus(f(S), f(S)), 1),
    "minplus, or_and": (lambda f: gpudist.minplus(f(S), f(S), semiring="or_and"), 1),
    "apsp": (lambda f: gpudist.apsp(f(S), return_predecessors=True), 2),
    "apsp, or_and": (lambda f: gpudist.apsp(f(S), semiring="or_and"), 1),
    "apsp_edges": (lambda f: gpudist.apsp_edges(f(torch.tensor([[0, 1], [1, 0]]))), 1),
    "transitive_closure": (lambda f: gpudist.transitive_closure(f(S)), 1),
    "perron": (lambda f: gpudist.perron(f(S)), 1),
    "nearest": (lambda f: gpudist.nearest(f(A), f(B)), 2),
    "knn": (lambda f: gpudist.knn(XA=f(A), XB=f(B), k=2), 2),
    "radius_neighbors": (lambda f: gpudist.radius_neighbors(f(A), r=20.0), 3),
    "Neighbors": (lambda f: gpudist.Neighbors(A.numpy()).kneighbors(f(B), 2), 2),
    "Neighbors, themselves": (lambda f: gpudist.Neighbors(f(A)).kneighbors(n_neighbors=2), 2),
    "Neighbors, within": (lambda f: gpudist.Neighbors(f(A)).radius_neighbors(f(B))[1][0], 1),
    "count_neighbors": (lambda f: gpudist.count_neighbors(f(A), radii=[5.0, 20.0]), 1),
    "eccentricity": (lambda f: measures.eccentricity(f(torch.as_tensor(LENGTHS))), 1),
    "closeness": (lambda f: measures.closeness_centrality(f(torch.as_tensor(LENGTHS))), 1),
    "harmonic": (lambda f: measures.harmonic_centrality(f(torch.as_tensor(LENGTHS))), 1),
}


@pytest.mark.parametrize("call, count", CALLS.values(), ids=CALLS)
def test_tensors_give_tensors_with_the_same_numbers(call, count):
    got, expected = call(lambda x: x), call(lambda x: x.numpy())
    assert type(got) is type(expected) or isinstance(got, torch.Tensor)
    assert len(arrays_in(got)) == count
    for mine, theirs in zip(arrays_in(got), arrays_in(expected), strict=True):
        assert type(mine) is torch.Tensor and not mine.requires_grad
        np.testing.assert_array_equal(mine.numpy(), theirs)
        assert str(mine.dtype) == f"torch.{theirs.dtype}"


RECORDED = {
    "XA": lambda x: gpudist.cdist(x, B, "canberra"),
    "XB": lambda x: gpudist.cdist(A, x, dtype="float32"),
    "X": lambda x: gpudist.pdist(x, "jaccard"),
    "w": lambda x: gpudist.cdist(A, B, w=x[0]),
    "p": lambda x: gpudist.cdist(A, B, "minkowski", p=x[0, 1]),
    "out": lambda x: gpudist.cdist(A, A[:3], out=x),
    "graph": lambda x: gpudist.apsp(x[:3]),
    "no_edge": lambda x: gpudist.apsp(S, no_edge=x[0, 0]),
    "A": lambda x: gpudist.minplus(x, S),
    "B": lambda x: gpudist.minplus(S, x.T),
    "C": lambda x: gpudist.minplus(A, S, C=x),
    "x0": lambda x: gpudist.perron(S, x0=x[1]),
    "dist": lambda x: measures.diameter(x[:3]),
    "r": lambda x: gpudist.radius_neighbors(A, r=x[1, 1]),
    "radii": lambda x: gpudist.count_neighbors(A, radii=x[1]),
    "weights": lambda x: gpudist.apsp_edges([[0, 1]], x[0, :1]),
}
RECORDED |= {
    "XA of a callable": lambda x: gpudist.cdist(x, B, lambda u, v: 0.0),
    "XA of neighbours": lambda x: gpudist.knn(x, k=1),
    "XB of neighbours": lambda x: gpudist.nearest(A, x),
    "XA with an array": lambda x: gpudist.cdist(x, B.numpy()),
    "X of a set": lambda x: gpudist.Neighbors(A).kneighbors(x, 1),
    "A of perron": lambda x: gpudist.perron(x[:3]),
    "graph of a closure": lambda x: gpudist.transitive_closure(x[:3]),
    "XA in a batch": lambda x: gpudist.cdist(x[None], B, "canberra"),
}


@pytest.mark.parametrize("place", RECORDED)
def test_gradients_are_never_lost_in_silence(place):
    learned = A.clone().requires_grad_()
    with pytest.raises(TypeError, match=f"^{place.split()[0]} is a tensor that requires grad"):
        RECORDED[place](learned)
    with torch.no_grad():
        if place not in ("graph", "dist", "no_edge", "A of perron"):  # these refuse the numbers
            RECORDED[place](learned)


def test_a_recorded_distance_has_gradients():
    learned = A.clone().requires_grad_()
    for metric, given in (("euclidean", {}), ("l1", {}), ("minkowski", {"p": 3}), ("cos", {})):
        d = gpudist.cdist(learned, B, metric, **given)
        assert d.requires_grad
        expected = gpudist.cdist(A, B, metric, **given)
        torch.testing.assert_close(d.detach(), expected, rtol=1e-12, atol=1e-12)
        (g,) = torch.autograd.grad(d.sum(), learned)
        assert g.shape == A.shape and g.isfinite().all()
    assert gpudist.pdist(learned).requires_grad
    assert gpudist.cdist(learned.half(), B.half()).dtype == torch.float32
    assert gpudist.cdist(learned.float(), B).dtype == torch.float64


def test_half_precision_is_computed_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (A / 3).to(dtype), B.to(dtype)
        wide = gpudist.cdist(a.float(), b.float())
        assert gpudist.cdist(a, b).dtype == torch.float32
        assert torch.equal(gpudist.cdist(a, b), wide)
        narrow = gpudist.cdist(a, b, dtype=dtype)
        assert narrow.dtype == dtype and torch.equal(narrow, wide.to(dtype))
        out = torch.empty(4, 5, dtype=dtype)
        assert gpudist.cdist(a, b, out=out) is out and torch.equal(out, narrow)
        assert torch.equal(gpudist.pdist(a, dtype=dtype), gpudist.pdist(a).to(dtype))
        with pytest.raises(ValueError, match=r"out must have shape \(4, 5\)"):
            gpudist.cdist(a, b, out=out.T)
        with pytest.raises(ValueError, match="dtype is float64, but out has dtype"):
            gpudist.cdist(a, b, out=out, dtype="float64")
        assert gpudist.knn(a, k=1).distances.dtype == torch.float32
        assert gpudist.cdist(A, B, w=torch.ones(3, dtype=dtype)).dtype == torch.float64


def test_the_first_operand_decides_on_the_library():
    assert isinstance(gpudist.cdist(A, B.numpy()), torch.Tensor)
    assert isinstance(gpudist.cdist(A.numpy(), B), np.ndarray)
    assert isinstance(gpudist.cdist(A.tolist(), B), np.ndarray)
    assert isinstance(gpudist.minplus(S, S.numpy(), C=S.numpy()), torch.Tensor)


def test_each_graph_of_a_list_decides_for_itself():
    w = np.array([[0, 2.0], [3.0, 0]])
    for given in ([torch.tensor(w), w], [w, torch.tensor(w)]):
        kinds = list(map(type, given))
        dist, pred = gpudist.apsp(given, return_predecessors=True)
        for found in (dist, pred, gpudist.transitive_closure(given)):
            assert list(map(type, found)) == kinds
        assert [type(one.dist) for one in gpudist.apsp(given, labels=True)] == kinds
        np.testing.assert_array_equal(dist[0], dist[1])
    with pytest.raises(TypeError, match=r"graph 1: .* requires gradients"):
        gpudist.apsp([w, torch.tensor(w, requires_grad=True)])


def test_out_is_returned_itself_and_written_in_place():
    expected = gpudist.cdist(A, B)
    tensor, array = torch.empty(4, 5, dtype=torch.float64), np.empty((4, 5))
    for a, b in ((A, B), (A.numpy(), B.numpy()), (A, B.numpy())):
        for out in (tensor, array):
            assert gpudist.cdist(a, b, out=out) is out
            np.testing.assert_array_equal(np.asarray(out), expected.numpy())
            assert gpudist.cdist(a, b, out=out, dtype="float64") is out
    dist, pred = gpudist.apsp(S, out=S.clone(), return_predecessors=True)
    assert isinstance(dist, torch.Tensor) and isinstance(pred, torch.Tensor)
    given = torch.empty(4, 2), torch.empty(4, 2, dtype=torch.int64)
    found = gpudist.knn(A.float(), k=2, out=given)
    assert found.distances is given[0] and found.indices is given[1]
    graph = S.clone()
    shortest = gpudist.apsp(graph, overwrite=True)
    assert shortest.data_ptr() == graph.data_ptr()
    negative = torch.complex(A, A).conj().imag
    with pytest.raises(TypeError, match="out must be a plain tensor"):
        gpudist.cdist(A, A[:3], out=negative)
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        gpudist.cdist(A, B, out=torch.empty(5, 4, dtype=torch.float64).T)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda x: torch.nested.nested_tensor([x, x]), "no one array; torch.nested.to_padded_ten"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "dequantize[(][)] makes"),
        (lambda x: x.to(torch.float8_e5m2), "no torch.float8_e5m2; float[(][)] makes"),
        (lambda x: x.to("meta"), "can't convert meta device"),
        (lambda x: x.to_sparse(), "can't convert Sparse layout"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_no_arrays_are_named(made, why):
    x = torch.rand(3, 3)
    for call, name in (
        (lambda: gpudist.cdist(made(x), x), "XA"),
        (lambda: gpudist.knn(x, made(x), 1), "XB"),
        (lambda: gpudist.apsp(made(x)), "graph"),
        (lambda: gpudist.minplus(x, made(x)), "B"),
    ):
        with pytest.raises(TypeError, match=f"^{name} cannot be read as an array: .*{why}"):
            call()
    for call in (
        lambda: gpudist.cdist(x, x, out=made(x)),
        lambda: gpudist.apsp(x, out=made(x)),
        lambda: gpudist.knn(x, x, 3, out=(made(x), torch.zeros(3, 3, dtype=torch.int64))),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^out must "):
            call()


def test_large_results_are_recycled_too():
    x = torch.arange(3000.0)[:, None]
    gpudist.recycle_results(1 << 30)
    try:
        first = gpudist.cdist(x, x)
        place = first.data_ptr()
        kept = first[:2]
        del first
        second = gpudist.cdist(x, x)
        assert second.data_ptr() != place  # a view of the first is alive
        del kept
        assert gpudist.cdist(x, x).data_ptr() == place
    finally:
        gpudist.recycle_results(0)


def test_views_of_tensors_are_read_as_they_are():
    negative = torch.complex(A, -A).conj().imag
    assert negative.is_neg()
    assert torch.equal(gpudist.cdist(negative, B), gpudist.cdist(A, B))
    assert torch.equal(gpudist.cdist(A.T.contiguous().T, B), gpudist.cdist(A, B))
    assert torch.equal(gpudist.cdist(A.flip(0), B), gpudist.cdist(A, B).flip(0))
    assert isinstance(gpudist.cdist(torch.nn.Parameter(A, requires_grad=False), B), torch.Tensor)


def test_small_tensors_take_the_short_way():
    short = gpudist._core.cdist_tensors
    if short(A, B, "euclidean") is None:
        pytest.skip("this PyTorch has no exchange table of DLPack")
    for a, b in ((A, B), (A.float(), B.float()), (A[::2, 1:], B[1:, 1:])):
        got = short(a, b, "cityblock")
        assert type(got) is torch.Tensor and got.dtype is a.dtype
        assert torch.equal(got, gpudist.cdist(a, b, "cityblock", dtype=a.dtype))
        out = torch.empty_like(got)
        assert short(a, b, "cityblock", out) is out and torch.equal(out, got)
    for wrong in (torch.empty(5, 4).T, torch.empty(4, 5), A, torch.empty(4, 5, 1)):
        assert short(A, B, "euclidean", wrong) is None
    assert short(A.clone().requires_grad_(), B, "euclidean") is None


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_tangents_and_mapped_tensors_are_not_lost_either():
    t = A.flip(0)
    got = torch.func.jvp(lambda x: gpudist.cdist(x, B), (A + 0.5,), (t,))
    expected = torch.func.jvp(lambda x: (x[:, None] - B).norm(dim=-1), (A + 0.5,), (t,))
    torch.testing.assert_close(got, expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A.clone(), t)
        for call in (
            lambda x: gpudist.cdist(x, B, "canberra"),
            lambda x: gpudist.cdist(A, x, "jaccard"),
            lambda x: gpudist.knn(x, k=1),
            lambda x: gpudist.apsp(x[:3]),
        ):
            with torch.no_grad(), pytest.raises(TypeError, match="requires gradients"):
                call(dual)
        assert isinstance(gpudist.cdist(A, B, "canberra"), torch.Tensor)
    got = torch.func.grad(lambda x: gpudist.pdist(x).sum())(A)
    torch.testing.assert_close(got, torch.func.grad(lambda x: torch.pdist(x).sum())(A))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("call", [lambda x: gpudist.cdist(x, B), lambda x: gpudist.pdist(x)])
def test_batches_of_tensors_lose_nothing_on_the_short_way(call):
    """It reads memory, and what PyTorch follows has to be seen by it."""
    x = torch.stack([A, A + 0.5])
    t, wanted = x.flip(0), call(x)
    own = torch.cdist if wanted.ndim == 3 else None
    learned = x.clone().requires_grad_()
    recorded = call(learned)
    assert recorded.requires_grad and torch.equal(recorded, wanted)
    (gradient,) = torch.autograd.grad(recorded.sum(), learned)
    assert torch.equal(torch.func.grad(lambda x: call(x).sum())(x), gradient)
    if own is not None:
        expected = torch.func.grad(lambda x: own(x, B.expand(2, -1, -1)).sum())(x)
        torch.testing.assert_close(gradient, expected)
    value, change = torch.func.jvp(call, (x,), (t,))
    assert torch.equal(value, wanted)
    torch.testing.assert_close(change.sum(), (gradient * t).sum())
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        dual = torch.autograd.forward_ad.make_dual(x.clone(), t)
        assert torch.autograd.forward_ad.unpack_dual(call(dual)).tangent is not None
    assert torch.equal(torch.func.vmap(call)(x), wanted)
    assert torch.equal(torch.func.vmap(call)(x[None]), wanted[None])
    graph = torch.fx.experimental.proxy_tensor.make_fx(call)(x)
    assert any("gpudist" in str(node.target) for node in graph.graph.nodes)
    assert torch.equal(graph(x + 1), call(x + 1))
    for odd in (torch.nn.Parameter(x, requires_grad=False), x.as_subclass(Named)):
        assert torch.equal(torch.as_tensor(call(odd)), wanted)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (gpudist.cdist, (A, B)),
        (partial(gpudist.cdist, metric="canberra", dtype="float32"), (A, B)),
        (gpudist.cdist, (A.bfloat16(), B.bfloat16())),
        (gpudist.pdist, (torch.stack([A, A + 1]),)),
        (lambda a, b: gpudist.knn(a, b, 2)[0], (A, B)),
        (gpudist.apsp, (S,)),
        (gpudist.minplus, (S, S.T)),
    ],
)
def test_constants_are_computed_within_transforms(function, operands):
    """What operators make there has no memory, whatever they are given."""
    x, wanted = torch.ones(3), function(*operands)

    def call():
        return function(*operands)

    _, found = torch.func.grad(lambda x: (x.sum(), call()), has_aux=True)(x)
    assert torch.equal(found, wanted)
    *_, found = torch.func.jvp(lambda x: (x.sum(), call()), (x,), (x,), has_aux=True)
    assert torch.equal(found, wanted)
    assert torch.equal(torch.func.vmap(lambda x: call(), out_dims=None)(x), wanted)
    slope = torch.func.jacrev(lambda x: x * call().sum())(x)
    torch.testing.assert_close(slope, torch.eye(3) * float(wanted.sum()))


class Named(torch.Tensor):
    pass


def test_zeros_without_memory_are_not_read():
    """PyTorch makes such for derivatives; they were read at an address of 0."""
    zeros, room = torch._efficientzerotensor((4, 3)), torch._efficientzerotensor((4, 5))
    for call in (
        lambda: gpudist.cdist(zeros, B),
        lambda: gpudist.pdist(zeros[None]),
        lambda: gpudist.knn(zeros, B, 1),
        lambda: gpudist.minplus(zeros, zeros.T),
    ):
        with pytest.raises(TypeError, match="ZeroTensor"):
            call()
    assert gpudist._core.cdist_tensors(A.float(), B.float(), "euclidean", room) is None


def test_mapped_tensors_are_batches_where_there_are_operators():
    x = torch.stack([A, A + 0.5])
    for ours in (lambda x: gpudist.cdist(x, B), gpudist.pdist):
        assert torch.equal(torch.func.vmap(ours)(x), ours(x))
    for name, call in (
        ("XA", lambda x: gpudist.cdist(x, B, "canberra")),
        ("XB", lambda x: gpudist.cdist(B, x, dtype="float64")),
        ("w", lambda x: gpudist.cdist(A, B, w=x[0])),
        ("XA", lambda x: gpudist.knn(x, k=1)),
        ("r", lambda x: gpudist.radius_neighbors(A, r=x[:, 0])),
        ("graph", lambda x: gpudist.apsp(x[:3])),
    ):
        with pytest.raises(TypeError, match=f"^{name} is a tensor that torch.func.vmap maps"):
            torch.func.vmap(call)(x)
        with pytest.raises(TypeError, match=f"^{name} is a tensor of a transform of torch.func"):
            torch.func.grad(lambda _, call=call: call(x[0] + 1))(x)  # a constant, made there


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, b: gpudist.cdist(a[0], b), ValueError, "^XA must "),
        (lambda a, b: gpudist.cdist(b, a[:, :2]), ValueError, "^XA and XB must have the same numb"),
        (lambda a, b: gpudist.cdist(a.expand(2, 4, 3), b.expand(3, 5, 3)), ValueError, "of XA and"),
        (lambda a, b: gpudist.pdist(a[0]), ValueError, "^X must "),
        (lambda a, b: gpudist.cdist(a, b, "minkowski", p="3"), TypeError, "^p must be a real numb"),
        (lambda a, b: gpudist.cdist(a, b, "minkowski", p=None), TypeError, "^p must be a real num"),
        (lambda a, b: gpudist.pdist(a, "minkowski", p=-1), ValueError, "^p must be greater than 0"),
        (lambda a, b: gpudist.cdist(a, b, w=[-1, 1, 1]), ValueError, "^weights must be non-negat"),
    ],
)
def test_errors_are_in_the_words_of_the_function_with_gradients_and_without(call, error, message):
    a, b = torch.zeros(4, 3), torch.zeros(5, 3)
    for recorded in (False, True):
        with pytest.raises(error, match=message):
            call(a.requires_grad_(recorded), b)
