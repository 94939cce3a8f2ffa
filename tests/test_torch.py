"""gpudist.torch: PyTorch's cdist and pdist, with its values and gradients, and better digits."""

import functools
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

import gpudist

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")

from tensors import check_parts, gradients, points  # noqa: E402

import gpudist.torch as ours  # noqa: E402
from gpudist.torch import _terms  # noqa: E402

# PyTorch's own helpers call what PyTorch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

W = torch.tensor([0.5, 2.0, 0.0, 1.0], dtype=torch.float64)
# What there are derivatives of, by arguments, and the distance of one pair in plain PyTorch.
RULES = {
    "p=1": ({"p": 1}, lambda e: e.abs().sum(-1)),
    "p=2": ({}, lambda e: e.pow(2).sum(-1).sqrt()),
    "p=1.5": ({"p": 1.5}, lambda e: e.abs().pow(1.5).sum(-1).pow(1 / 1.5)),
    "p=3": ({"p": 3}, lambda e: e.abs().pow(3).sum(-1).pow(1 / 3)),
    "p=0.7": ({"p": 0.7}, lambda e: e.abs().pow(0.7).sum(-1).pow(1 / 0.7)),
    "p=inf": ({"p": math.inf}, lambda e: e.abs().amax(-1)),
    "sqeuclidean": ({"metric": "sqeuclidean"}, lambda e: e.pow(2).sum(-1)),
    "p=2, w": ({"w": W}, lambda e: (W * e.pow(2)).sum(-1).sqrt()),
    "p=1, w": ({"p": 1, "w": W}, lambda e: (W * e.abs()).sum(-1)),
    "p=3, w": ({"p": 3, "w": W}, lambda e: (W * e.abs().pow(3)).sum(-1).pow(1 / 3)),
    "p=inf, w": ({"p": math.inf, "w": W}, lambda e: e[..., W > 0].abs().amax(-1)),
    "sqeuclidean, w": ({"metric": "sqeuclidean", "w": W}, lambda e: (W * e.pow(2)).sum(-1)),
}
OF_ROWS = {
    "cosine": ({"metric": "cosine"}, lambda x, y: 1 - torch.cosine_similarity(x, y, -1)),
    "cosine, w": (
        {"metric": "cosine", "w": W},
        lambda x, y: 1 - torch.cosine_similarity(x * W.sqrt(), y * W.sqrt(), -1),
    ),
    "inner_product": ({"metric": "inner_product"}, lambda x, y: (x * y).sum(-1)),
}
ALL = {
    name: (given, lambda x, y, f=f: f(x.unsqueeze(-2) - y.unsqueeze(-3)))
    for name, (given, f) in RULES.items()
} | {
    name: (given, lambda x, y, f=f: f(x.unsqueeze(-2), y.unsqueeze(-3)))
    for name, (given, f) in OF_ROWS.items()
}
every_rule = pytest.mark.parametrize("given, plain", ALL.values(), ids=ALL)
EXPONENTS = [0.0, 0.5, 1.0, 1.3, 2.0, 2.5, 3.0, math.inf]


def condensed(d):
    i, j = torch.triu_indices(*d.shape[-2:], 1)
    return d[..., i, j]


# ---------------------------------------------------------------- values


@every_rule
def test_values_and_gradients_are_those_of_plain_pytorch(given, plain):
    """In batches that broadcast, of cdist and of pdist."""
    x, y = points(2, 1, 5, 4), points(3, 7, 4)
    asked = points(2, 3, 5, 7, seed=9)
    got = gradients(lambda x, y: ours.cdist(x, y, **given), x, y, asked=asked)
    expected = gradients(plain, x, y, asked=asked)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)
    asked = points(3, 21, seed=9)
    got = gradients(lambda y: ours.pdist(y, **given), y, asked=asked)
    i, j = torch.triu_indices(7, 7, 1)

    def pairs(y):  # without the diagonal, where some have no derivative
        return plain(y[:, i].unsqueeze(-2), y[:, j].unsqueeze(-2)).flatten(-3)

    expected = gradients(pairs, y, asked=asked)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@every_rule
def test_the_gradient_for_one_operand_alone_is_what_it_is_beside_the_other(given, plain):
    """Parameters and tensors that record are read as they are, and so are those that do not."""
    operands = points(2, 5, 4), points(2, 6, 4)
    _, both = gradients(lambda *x: ours.cdist(*x, **given), *operands)
    for i, expected in enumerate(both):
        for kind in (torch.nn.Parameter, lambda x: x.clone().requires_grad_()):
            x = [y.detach() for y in operands]
            x[i] = kind(x[i])
            d = ours.cdist(*x, **given)
            (found,) = torch.autograd.grad(d.sum(), x[i])
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
            assert not x[1 - i].requires_grad and d.requires_grad


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_pytorchs_cdist(p, dtype):
    """With its values where points are equal, where columns agree, and where largest ones tie."""
    x = torch.tensor([[0, 0, 0], [1, 2, 2], [1, -2, 2], [3, 3, -3]], dtype=dtype)
    y = torch.tensor([[0, 0, 0], [1, 0, 2], [1, 2, 2], [2, 1, 1], [0, 5, 0]], dtype=dtype)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {}
    asked = points(4, 5, dtype=dtype)
    direct = "donot_use_mm_for_euclid_dist"
    for batch in ((), (2,), (2, 1)):
        xs = x.expand(*batch, *x.shape[-2:])
        wide = asked.expand(*batch, 4, 5)
        expected = gradients(lambda x, y: torch.cdist(x, y, p, direct), xs, y, asked=wide)
        for mode in (direct, "use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"):
            got = gradients(lambda x, y, m=mode: ours.cdist(x, y, p, m), xs, y, asked=wide)
            torch.testing.assert_close(got, expected, **tolerance)
    expected = gradients(lambda y: torch.nn.functional.pdist(y, p), y, asked=asked[0].repeat(2))
    got = gradients(lambda y: ours.pdist(y, p), y, asked=asked[0].repeat(2))
    torch.testing.assert_close(got, expected, **tolerance)


@pytest.mark.parametrize("p", EXPONENTS)
def test_empty_operands(p):
    for batch, m, n, d in itertools.product(((), (0,), (2,)), (0, 3), (0, 2), (0, 3)):
        x, y = torch.ones(*batch, m, d), torch.ones(n, d)
        got, (gx, gy) = gradients(lambda x, y: ours.cdist(x, y, p), x, y)
        expected = torch.cdist(x, y, p)
        assert torch.equal(got, expected) and gx.shape == x.shape and gy.shape == y.shape
        assert not gx.any() and not gy.any()
    for n in (0, 1):
        got, (gx,) = gradients(lambda x: ours.pdist(x, p), torch.ones(n, 3))
        assert got.shape == (0,) and not gx.any()


def test_forward_is_gpudists(rng):
    x, y = points(9, 4, dtype=torch.float32), points(11, 4, dtype=torch.float32)
    for metric, given in (("euclidean", {}), ("cityblock", {"w": W}), ("chebyshev", {})):
        expected = gpudist.cdist(x, y, metric, **given)
        assert torch.equal(ours.cdist(x, y, metric=metric, **given), expected)
        assert torch.equal(ours.pdist(x, metric=metric, **given), gpudist.pdist(x, metric, **given))
    torch.testing.assert_close(
        ours.cdist(x, y, metric="cosine"), gpudist.cdist(x, y, "cosine"), rtol=0, atol=1e-6
    )
    huge = x.double() * 1e200
    cosine = ours.cdist(huge, y.double(), metric="cosine")
    torch.testing.assert_close(cosine, gpudist.cdist(x.double(), y.double(), "cosine"))


def test_what_is_missing_is_missing_where_pytorch_says_so():
    """The largest difference passes over NaN."""
    x, y = points(3, 4), points(2, 4)
    x[1, 2] = math.nan
    for p in EXPONENTS[1:]:
        assert torch.equal(ours.cdist(x, y, p).isnan(), torch.cdist(x, y, p).isnan())
        assert ours.pdist(x, p).isnan().tolist() == [p < math.inf, False, p < math.inf]
    _, (gx, _) = gradients(lambda x, y: ours.cdist(x, y, math.inf), x, y)
    assert gx.isfinite().all()


# ---------------------------------------------------------------- derivatives


@every_rule
def test_derivatives_are_those_of_the_function(given, plain):
    """First and second ones, backward, forward, and mapped, against finite differences."""
    x, y = points(2, 3, 4).requires_grad_(), points(1, 2, 4).requires_grad_()

    def function(x, y):
        return ours.cdist(x, y, **given)

    fast = {"fast_mode": True}
    assert torch.autograd.gradcheck(
        function, (x, y), check_forward_ad=True, check_batched_grad=True, **fast
    )
    assert torch.autograd.gradgradcheck(function, (x, y), check_fwd_over_rev=True, **fast)
    z = points(4, 4, seed=3).requires_grad_()
    pairs = lambda z: ours.pdist(z, **given)  # noqa: E731
    assert torch.autograd.gradcheck(pairs, (z,), check_forward_ad=True, **fast)
    assert torch.autograd.gradgradcheck(pairs, (z,), check_fwd_over_rev=True, **fast)


@pytest.mark.parametrize("given", [{"p": 2}, {"p": 3}, {"metric": "cosine"}, {"p": 1.5}])
def test_no_element_of_a_derivative_is_wrong(given):
    """The slow way looks at each of them, where the quick one looks at a random direction."""
    x, y = points(3, 2).requires_grad_(), points(2, 2).requires_grad_()
    function = lambda x, y: ours.cdist(x, y, **given)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (x, y), check_fwd_over_rev=True)


def test_func_has_all_of_it():
    x, y = points(5, 3), points(4, 3)

    def loss(x, distances=ours.cdist):
        return distances(x, y, 3.0).sin().sum()

    def plain(x):
        return (x[:, None] - y).abs().pow(3).sum(-1).pow(1 / 3).sin().sum()

    func = torch.func
    torch.testing.assert_close(func.grad(loss)(x), func.grad(plain)(x))
    torch.testing.assert_close(func.hessian(loss)(x), func.hessian(plain)(x))
    twice = func.jacrev(func.jacrev(loss))(x)
    torch.testing.assert_close(twice, func.hessian(plain)(x))
    torch.testing.assert_close(func.jacfwd(loss)(x), func.grad(plain)(x))
    got = func.jvp(loss, (x,), (x.flip(0),))
    torch.testing.assert_close(got, func.jvp(plain, (x,), (x.flip(0),)))
    many = points(6, 5, 3)
    mapped = func.vmap(func.grad(loss))(many)
    torch.testing.assert_close(mapped, torch.stack([func.grad(plain)(z) for z in many]))
    turned = func.vmap(ours.cdist, in_dims=(1, None), out_dims=2)(many, y)
    torch.testing.assert_close(turned, ours.cdist(many.movedim(1, 0), y).movedim(0, 2))
    both = func.vmap(func.vmap(lambda a, b: ours.pdist(a) * b, (0, None)), (0, 0))
    torch.testing.assert_close(
        both(many.expand(2, 6, 5, 3), torch.ones(2)), ours.pdist(many).expand(2, 6, 10)
    )


def test_what_there_is_no_derivative_of_is_said():
    x, y = points(3, 2).requires_grad_(), points(2, 2)
    (g,) = torch.autograd.grad(ours.cdist(x, y).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no third derivatives"):
        torch.autograd.grad(h.sum(), x)
    loss = lambda x: ours.cdist(x, y).sum()  # noqa: E731
    with pytest.raises(NotImplementedError, match="forward over forward"):
        torch.func.jacfwd(torch.func.jacfwd(loss))(x.detach())
    with pytest.raises(TypeError, match="w requires gradients"):
        ours.cdist(x, y, w=torch.ones(2, requires_grad=True))
    w = torch.ones(2).double()
    for call in (lambda w: ours.cdist(y, y, w=w), lambda w: ours.pdist(y, metric="cosine", w=w)):
        with pytest.raises(TypeError, match="w requires gradients"):
            torch.func.jvp(call, (w,), (w,))
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        dual = torch.autograd.forward_ad.make_dual(w, w.clone())
        with pytest.raises(TypeError, match="w requires gradients"):
            ours.pdist(y, w=dual)
        assert ours.pdist(y, w=w).shape == gpudist.pdist(y).shape
    with pytest.raises(ValueError, match="w must be the same for all that is mapped"):
        torch.func.vmap(lambda w: ours.cdist(x.detach(), y, w=w))(torch.ones(3, 2).double())


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize("p", [1.0, 2.0, 1.5, 3.0, math.inf])
def test_near_points_far_from_the_origin_keep_their_digits(p, rng):
    """Held against the same sums in float64, of the numbers as they are in float32."""
    x = torch.as_tensor(1000 + rng.random((40, 16)), dtype=torch.float32)
    y = x[:30] + torch.as_tensor(rng.choice([-1, 0, 1], (30, 16)) * 2.0**-13, dtype=torch.float32)
    asked = torch.as_tensor(rng.normal(size=(40, 30)), dtype=torch.float32)
    got = gradients(lambda x, y: ours.cdist(x, y, p), x, y, asked=asked)[1]
    direct = "donot_use_mm_for_euclid_dist"
    wide = x.double(), y.double()
    expected = gradients(lambda x, y: torch.cdist(x, y, p, direct), *wide, asked=asked.double())[1]
    size = gradients(lambda x, y: ours.cdist(x, y, p), *wide, asked=asked.abs().double())
    terms = asked.abs().double().sum()  # no slope of a distance is above 1
    assert size[0].isfinite().all()
    for mine, theirs in zip(got, expected, strict=True):
        scale = asked.abs().double().sum(1 if len(mine) == 40 else 0)[:, None]
        assert ((mine - theirs).abs() / scale).max() < 1e-6
    assert terms > 0


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_gradients_of_float32_hold_over_its_range(p, scale):
    x, y = points(6, 5, dtype=torch.float32), points(7, 5, dtype=torch.float32)
    asked = points(6, 7, dtype=torch.float32)
    expected = gradients(lambda x, y: ours.cdist(x, y, p), x, y, asked=asked)[1]
    small = x * scale, y * scale
    got = gradients(lambda x, y: ours.cdist(x, y, p), *small, asked=asked)[1]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    tiny = gradients(lambda x, y: ours.cdist(x, y, p), x, y, asked=asked * 1e-33)[1]
    torch.testing.assert_close([g * 1e33 for g in tiny], list(expected), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("p", [1.5, 2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_gradients_are_0_where_a_distance_underflows(p, place):
    x = torch.tensor([[1e-320, 0.0, 1.0], [5.0, 0.0, 1.0]], dtype=torch.float64, device=place)
    y = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64, device=place)
    d, (of_x, of_y) = gradients(lambda x, y: ours.cdist(x, y, p), x, y)
    assert d[0, 0] == 0 and of_x[0].tolist() == [0, 0, 0]
    of_one = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64, device=place)
    five = 5 * of_one[:, :1]  # a root of a power has not all bits
    for got, wanted in ((d[1:], five), (of_x[1:], of_one), (of_y, -of_one)):
        torch.testing.assert_close(got, wanted, rtol=1e-14, atol=0)


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, math.inf])
def test_columns_without_weight_have_no_gradient(p):
    """Whatever their differences are: their powers go beyond the range."""
    x = torch.tensor([[1e30, 0.0, 1.0], [2.0, 1.0, 1e-30]])
    y = torch.tensor([[0.0, 0.0, 1.0], [2.0, -1e30, 1e-30], [3.0, 1.0, 1e-30]])
    w, still = torch.tensor([0.0, 0.0, 1.0]), torch.zeros(5, 2)
    results = [
        *gradients(lambda x, y: ours.cdist(x, y, p, w=w), x, y)[1],
        *gradients(lambda x: ours.pdist(x, p, w=w), torch.cat([x, y]))[1],
    ]
    for got in results:
        assert got.isfinite().all() and torch.equal(got[:, :2], still[: len(got)])
    moved = torch.func.jvp(lambda x: ours.cdist(x, y, p, w=w), (x,), (torch.ones_like(x),))[1]
    alone = ours.cdist(x[:, 2:], y[:, 2:], p)
    assert torch.equal(moved != 0, alone != 0) and moved.isfinite().all()


def test_the_core_adds_up_what_pytorch_does():
    """For every kernel of it, in strips that are full and not, in any layout."""
    kernels = [k.id for k in gpudist.kernels("gradient") if k.why_not is None]
    kinds = {"cityblock": 1.0, "euclidean": 2.0, "chebyshev": math.inf, "sqeuclidean": 2.0}
    rules = [(metric, kinds.get(metric, 2.0)) for metric in (*kinds, "inner_product")]
    rules += [("minkowski", p) for p in (0.5, 1.0, 1.3, 2.0, 3.0, 7.0, 40.0)]
    for dtype, (batch, m, n, d) in itertools.product(
        (torch.float32, torch.float64),
        ((2, 17, 33, 3), (1, 5, 100, 11), (3, 40, 7, 30), (1, 1, 1, 1), (1, 64, 65, 8)),
    ):
        x, y = points(batch, m, d, dtype=dtype), points(batch, n, d, dtype=dtype)
        y[:, :1] = x[:, :1]
        g = points(batch, m, n, dtype=dtype)
        tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
        for metric, p in rules:
            kind = metric if metric in ("sqeuclidean", "inner_product") else "minkowski"
            rule = _terms.Rule(kind, p, None)
            given = {"p": p} if metric == "minkowski" else {}
            distances = gpudist.cdist(x, y, metric, **given)
            expected = _terms.pull(g, x, y, distances, rule)
            pairs = gpudist.pdist(y, metric, **given)
            of_pairs = _terms.pull(pairs, y, None, pairs, rule)
            alike = torch.ones(1, 1, dtype=dtype).expand_as(pairs)  # as sum() asks
            of_alike = _terms.pull(alike, y, None, pairs, rule)
            for kernel in kernels:
                for asked in (g, g.mT.contiguous().mT, g.expand(2, *g.shape)[1]):
                    out = torch.empty_like(x)
                    arrays = [t.numpy() for t in (asked, x, y, distances, out)]
                    gpudist._core.gradient(*arrays, metric, kernel, p)
                    torch.testing.assert_close(out, expected, **tolerance)
                for asked, wanted in ((pairs, of_pairs), (alike, of_alike)):
                    out = torch.empty_like(y)
                    arrays = [t.numpy() for t in (asked, y, pairs, out)]
                    gpudist._core.gradient(*arrays[:2], None, *arrays[2:], metric, kernel, p)
                    torch.testing.assert_close(out, wanted, **tolerance)


# ---------------------------------------------------------------- bits and memory


@pytest.mark.parametrize("given", [{"p": 1}, {"p": 2}, {"p": 3}, {"metric": "cosine"}])
def test_a_rows_gradient_does_not_depend_on_its_neighbours(given):
    """Nor on the matrices beside it, nor on threads: bit for bit."""
    x, y = points(5, 70, 9, dtype=torch.float32), points(5, 150, 9, dtype=torch.float32)
    asked = points(5, 70, 150, dtype=torch.float32)
    cdist = functools.partial(ours.cdist, **given)
    parts = ((0, slice(0, 70)), (3, slice(11, 45)), (4, slice(69, 70)))
    whole = check_parts(cdist, x, y, asked, parts)
    other = gradients(cdist, x[2], y[2, :9], asked=asked[2, :, :9])
    assert torch.equal(other[1][1], whole[1][2, :9])


LARGE = """
import resource, torch, gpudist.torch
x = torch.randn(2, 256, 64, requires_grad=True)
y = torch.randn(256, 64, requires_grad=True)
def back(x, y):
    gpudist.torch.cdist(x, y, 3.0).sum().backward()
back(x[:1, :200], y[:200])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
back(x, y)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_no_buffer_is_as_large_as_all_differences():
    """These would take 34 MB, and powers of them as much again; results take 1."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 30_000  # kB


def test_broadcast_batches_are_not_copied():
    x = points(1, 30, 4).expand(1000, 30, 4)
    assert ours.cdist(x, points(1, 4)).shape == (1000, 30, 1)
    got, (gx,) = gradients(lambda x: ours.cdist(x.expand(50, 30, 4), points(50, 2, 4)), x[0])
    assert gx.shape == (30, 4) and got.shape == (50, 30, 2)


# ---------------------------------------------------------------- errors


WRONG = [
    ((np.ones((2, 3)), torch.ones(2, 3)), {}, TypeError, "x1 must be a tensor of PyTorch, got nda"),
    ((torch.ones(2, 3), torch.ones(2, 3).long()), {}, TypeError, "x2 must be of floating point"),
    ((torch.ones(2, 3), torch.ones(2, 3).double()), {}, TypeError, "x1 is of torch.float32 and x2"),
    ((torch.ones(3), torch.ones(2, 3)), {}, ValueError, "x1 must have two dimensions or more"),
    ((torch.ones(2, 3), torch.ones(2, 4)), {}, ValueError, r"columns, got shapes \(2, 3\) and"),
    ((torch.ones(2, 1, 3), torch.ones(3, 1, 3)), {}, ValueError, "batches .* do not broadcast"),
    ((torch.ones(2, 3, device="meta"), torch.ones(2, 3)), {}, TypeError, "x1 is on meta and x2"),
    ((torch.ones(2, 3).to_sparse(), torch.ones(2, 3)), {}, TypeError, "x1 must be a dense tensor"),
    ((), {"p": "2"}, TypeError, "p must be a real number, got str"),
    ((), {"p": "cosine"}, TypeError, "a metric is given as metric='cosine'"),
    ((), {"p": torch.ones((), requires_grad=True)}, TypeError, "p is a tensor that requires grad"),
    ((), {"p": -1}, ValueError, "p must be 0 or more"),
    ((), {"p": math.nan}, ValueError, "p must be 0 or more"),
    ((), {"compute_mode": "quick"}, ValueError, "compute_mode must be 'use_mm_for_euclid_dist_if"),
    ((), {"metric": "jaccard"}, ValueError, "'jaccard' is not one that has gradients"),
    ((), {"metric": "cosin"}, ValueError, "did you mean 'cosine'"),
    ((), {"metric": "cosine", "p": 3}, ValueError, "p is for metric='minkowski'"),
    ((), {"w": [1.0]}, ValueError, r"w must have shape \(3,\), got \(1,\)"),
    ((), {"w": torch.ones(3), "p": 0}, ValueError, "w is not for 'inner_product'"),
    ((), {"w": -torch.ones(3)}, ValueError, "w must be 0 or more|negative"),
    ((), {"w": [1, 1, -1], "metric": "cosine"}, ValueError, "w has negative elements"),
    ((), {"w": "ones"}, TypeError, "w must be an array of real numbers"),
    ((), {"w": [1j, 1, 1]}, TypeError, "w must be an array of real numbers"),
    ((), {"w": torch.ones(3) * 1j}, TypeError, "w must be an array of real numbers"),
    ((), {"w": np.ma.array([1, 1, 1], mask=[0, 1, 0])}, TypeError, "w is a masked array"),
]


def test_metrics_have_the_names_that_they_have_elsewhere():
    x, y = torch.rand(4, 3), torch.rand(5, 3)
    for alias, metric in (("manhattan", "cityblock"), ("L2", "euclidean"), ("cos", "cosine")):
        assert torch.equal(ours.cdist(x, y, metric=alias), ours.cdist(x, y, metric=metric))
    assert torch.equal(ours.pdist(x, 3.0, metric="pnorm"), ours.pdist(x, 3.0))


def test_weights_are_arrays_of_any_layout():
    x, y, w = torch.rand(4, 3), torch.rand(5, 3), np.array([1.0, 2.0, 3.0])
    fixed = w.copy()
    fixed.flags.writeable = False
    for given in (w.tolist(), fixed, w[::-1].copy()[::-1], w.astype(">i2"), torch.tensor(w)):
        assert torch.equal(ours.cdist(x, y, w=given), ours.cdist(x, y, w=w))


@pytest.mark.parametrize("operands, given, error, words", WRONG)
def test_wrong_arguments(operands, given, error, words):
    with pytest.raises(error, match=words):
        ours.cdist(*(operands or (torch.ones(2, 3), torch.ones(4, 3))), **given)


def test_gpudist_imports_no_pytorch():
    code = (
        "import sys, numpy, gpudist; gpudist.cdist(numpy.ones((2, 3)), numpy.ones((2, 3)));"
        "assert 'torch' not in sys.modules; assert 'gpudist.torch' not in sys.modules;"
        "gpudist.torch.cdist; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.gpu
@every_rule
def test_the_gpu_has_the_cpus_values_and_gradients(given, plain):
    """Of batches as well, and for rows that are equal; the bits are the same each time."""
    for shape in ((9, 4), (3, 7, 4)):
        x, y = points(*shape), points(*shape, seed=1)
        y[..., 0, :] = x[..., 1, :]
        found = []
        for device in ("cpu", "cuda", "cuda"):
            a, b = (t.detach().to(device).requires_grad_() for t in (x, y))
            there = {k: v.to(device) if torch.is_tensor(v) else v for k, v in given.items()}
            distances = ours.cdist(a, b, **there)
            assert distances.device.type == device
            asked = torch.linspace(-1, 2, distances.numel(), dtype=x.dtype).reshape(
                (*x.shape[:-1], -1)
            )
            distances.backward(asked.to(device))
            found.append([t.detach().cpu() for t in (distances, a.grad, b.grad)])
        for cpu, gpu, again in zip(*found, strict=True):
            torch.testing.assert_close(gpu, cpu, rtol=1e-11, atol=1e-13)
            assert torch.equal(gpu, again)


@pytest.mark.gpu
def test_the_gpu_gives_gradients_or_refuses():
    x = points(6, 3).cuda().requires_grad_()
    assert gpudist.cdist(x, x.detach()).requires_grad
    for call in (lambda: gpudist.cdist(x, x, "canberra"), lambda: gpudist.apsp(x[:3])):
        with pytest.raises(TypeError, match="requires gradients"):
            call()
    with torch.no_grad():
        assert not gpudist.cdist(x, x, "canberra").requires_grad


def test_tangents_of_graphs_neighbours_and_products_are_not_lost_on_the_short_way(monkeypatch):
    """Those ways read no more than memory; on a host they are not taken, so what they would give
    stands in for them.
    """
    for way in ("apsp_tensors", "nearest_tensors", "minplus_tensors"):
        monkeypatch.setattr(gpudist._core, way, lambda *arguments: ("lost", "lost"))
    x = torch.rand(5, 5)
    assert gpudist.apsp(x)[0] == gpudist.knn(x, k=1)[0] == gpudist.minplus(x, x)[0] == "lost"
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(5, 5))
        for call in (gpudist.apsp, lambda x: gpudist.knn(x, k=1), lambda a: gpudist.minplus(a, x)):
            with pytest.raises(TypeError, match="requires gradients"):
                call(dual)
