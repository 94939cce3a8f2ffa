"""gpudist.torch under PyTorch's compiler, its export, its own checks of operators, and autocast."""

import io
import warnings

import pytest

import gpudist

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")

from tensors import gradients, points  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import gpudist.torch as ours  # noqa: E402
from gpudist.torch import _operators  # noqa: E402

pytestmark = [
    # PyTorch's own helpers call what PyTorch itself has deprecated.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def samples():
    x, y = points(2, 5, 3), points(2, 4, 3, seed=1)
    d, pairs = torch.cdist(x, y), ours.pdist(x)
    rule = "minkowski", 2.0, torch.ones(3, dtype=torch.float64)
    yield _operators.distances, (x, y, *rule)
    yield _operators.distances, (x, None, *rule)
    yield _operators.pull, (d, x, y, d, *rule)
    yield _operators.pull, (d.mT.contiguous().mT, x, y, d, "sqeuclidean", 2.0, None)
    yield _operators.pull, (pairs, x, None, pairs, "minkowski", 3.0, None)
    yield _operators.push, (x, y, d, x, None, *rule)
    yield _operators.push, (x, None, pairs, x, None, *rule)
    yield _operators.curve, (d, x, y, d, None, y, *rule)
    yield _operators.curve, (pairs, x, None, pairs, x, None, *rule)


@pytest.mark.parametrize("number", range(9))
def test_operators_are_what_their_schemas_say(number):
    operator, arguments = list(samples())[number]
    done = torch.library.opcheck(operator, arguments)
    assert set(done.values()) == {"SUCCESS"}


@pytest.fixture
def dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("given", [{}, {"p": 3.0}, {"metric": "cosine"}])
def test_one_graph_of_any_size(given, dynamo):
    def loss(x, y):
        return ours.cdist(x, y, **given).sin().sum() + ours.pdist(x, **given).cos().sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for m, n in ((5, 4), (7, 9), (6, 3)):
        x, y = points(2, m, 3), points(n, 3)
        torch.testing.assert_close(gradients(compiled, x, y), gradients(loss, x, y))


@pytest.mark.exhaustive  # half a minute of a C++ compiler
def test_inductor_compiles_it(dynamo):
    def loss(x, y):
        return (ours.cdist(2 * x, y.T.contiguous().T, 1.0) + 1).log().sum()

    x, y = points(6, 3), points(5, 3)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(gradients(compiled, x, y), gradients(loss, x, y))


def test_export_keeps_the_operator():
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return ours.cdist(x, y, 1.0)

    x, y = points(6, 3), points(5, 3)
    rows = torch.export.Dim("rows", min=2)
    shapes = {"x": {0: rows}, "y": None}
    program = torch.export.export(Model(), (x, y), dynamic_shapes=shapes)
    assert "gpudist.distances" in program.graph_module.code
    x = points(9, 3)
    torch.testing.assert_close(program.module()(x, y), ours.cdist(x, y, 1.0))


def test_autocast_gives_float32():
    x, y = points(6, 3), points(5, 3)
    for dtype in (torch.bfloat16, torch.float16):
        a, b = x.to(dtype), y.to(dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = ours.cdist(a, b.float())
        assert got.dtype == torch.float32
        assert torch.equal(got, ours.cdist(a.float(), b.float()))
        d, grads = gradients(ours.cdist, a, b)
        assert d.dtype == dtype and {g.dtype for g in grads} == {dtype}
        assert torch.equal(d, ours.cdist(a.float(), b.float()).to(dtype))


# ---------------------------------------------------------------- what is differentiated where


def quietly(function, *inputs):
    """Compile the function as one graph and call it: nothing may warn that it is slow or wrong."""
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = compiled(*inputs)
    words = [str(w.message) for w in said if "gpudist" in str(w.message)]
    assert not words
    return result


FUNC = {
    "grad": lambda f: torch.func.grad(f),
    "jacrev": lambda f: torch.func.jacrev(f),
    "jacrev of jacrev": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "jacfwd": lambda f: torch.func.jacfwd(f),
    "hessian": lambda f: torch.func.hessian(f),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x.flip(0),)),
    "vmap": lambda f: torch.func.vmap(lambda row: f(row.unsqueeze(0))),
}


@pytest.mark.parametrize("transform", FUNC.values(), ids=FUNC)
def test_compiled_transforms_are_right_and_quiet(transform, dynamo):
    x, y = points(5, 3), points(4, 3)
    function = transform(lambda x: ours.cdist(x, y).sin().sum())
    torch.testing.assert_close(quietly(function, x), function(x))


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_can_be_trained(strict):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return ours.cdist(x, y, 1.5).sin()

    x, y = points(6, 3), points(5, 3)
    file = io.BytesIO()
    torch.export.save(torch.export.export(Model(), (x, y), strict=strict), file)
    file.seek(0)
    program = torch.export.load(file).module()
    torch.testing.assert_close(gradients(program, x, y), gradients(Model(), x, y))
    x.requires_grad_()
    assert torch.autograd.gradgradcheck(program, (x, y), fast_mode=True)


def test_gpudists_own_functions_compile(dynamo):
    """Those metrics that have derivatives; the result's dtype is that of gpudist.cdist."""
    x, y = points(6, 3), points(5, 3)
    for a, b in ((x, y), (x.float(), y.float()), (x.float(), y), (x.half(), y.half())):
        for call in (
            lambda a, b: gpudist.cdist(a, b),
            lambda a, b: gpudist.cdist(a, b, "minkowski", p=3),
            lambda a, b: gpudist.pdist(a, "cityblock") + gpudist.cdist(a, b).sum(),
        ):
            got = quietly(call, a, b)
            assert got.dtype == call(a, b).dtype
            torch.testing.assert_close(got, call(a, b))
    learned = x.clone().requires_grad_()
    assert quietly(lambda a: gpudist.cdist(a, y, "cosine"), learned).requires_grad
    with (
        warnings.catch_warnings(action="ignore"),  # the graph breaks
        pytest.raises(TypeError, match="XA is a tensor that requires gradients"),
    ):
        torch.compile(lambda a: gpudist.cdist(a, y, "canberra"), backend="aot_eager")(learned)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("tracer", [torch.jit.trace, lambda f, some: make_fx(f)(*some)])
def test_what_a_tracer_writes_down_is_computed_again(tracer):
    x, y, z = torch.rand(6, 3), torch.rand(5, 3), torch.rand(6, 3)
    for function in (
        lambda a: gpudist.cdist(a, y),
        lambda a: gpudist.cdist(a, y, "manhattan", w=[1.0, 2.0, 3.0]),
        lambda a: gpudist.cdist(a[None].bfloat16(), y.bfloat16()),
        lambda a: gpudist.pdist(a, "cosine"),
    ):
        torch.testing.assert_close(tracer(function, (x,))(z), function(z))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "constant", [lambda a: gpudist.cdist(a, a, "canberra"), lambda a: gpudist.knn(a, k=2)[0]]
)
def test_nothing_becomes_a_constant_of_a_graph_in_silence(constant):
    x = torch.rand(6, 3)
    with pytest.raises(TypeError, match="XA is a tensor whose operators make a graph"):
        make_fx(constant)(x)
    with pytest.warns(torch.jit.TracerWarning, match="constants in the trace"):
        assert torch.equal(torch.jit.trace(constant, (x,))(x), constant(x))


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning")
def test_traces_without_memory_have_the_operator():
    """Tensors on the meta device, and those of PyTorch's tracers."""
    x, y = points(6, 3), points(5, 3)
    a, b = x.to("meta").requires_grad_(), y.to("meta")
    for given in ({}, {"p": 3}, {"metric": "cosine"}):
        d = ours.cdist(a, b, **given)
        assert d.shape == (6, 5) and d.device.type == "meta"
        d.sum().backward()
        assert a.grad.shape == a.shape
    assert ours.pdist(a).shape == (15,)
    traced = make_fx(lambda a: ours.cdist(a, y))(x)
    assert "gpudist.distances" in traced.code
    function, (tangent,) = torch.func.linearize(lambda a: ours.cdist(a, y), x)[1], (x.flip(0),)
    expected = torch.func.jvp(lambda a: ours.cdist(a, y), (x,), (tangent,))[1]
    torch.testing.assert_close(function(tangent), expected)
