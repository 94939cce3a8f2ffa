"""gpudist.torch on a GPU: batches in one launch, and gradients by its own kernels."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from conftest import RECORDS, forms
from conftest import points as rows_for

import gpudist

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")

from tensors import check_parts, gradients, points  # noqa: E402

import gpudist.torch as ours  # noqa: E402
from gpudist import _core  # noqa: E402
from gpudist.torch import _operators, _terms  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def there(*shape, **given):
    return points(*shape, **given).cuda()


def same(x, y):
    """Tell whether bits are the same, but that any NaN is as good as another."""
    return torch.equal(x.isnan(), y.isnan()) and torch.equal(x.nan_to_num(), y.nan_to_num())


def runs(name):
    """Tell whether a GPU of this machine runs the row of the table."""
    return next(k for k in gpudist.kernels() if k.id == name).why_not is None


# ---------------------------------------------------------------- batches

# Sizes whose single matrices are computed by different kernels, and some that no launch shares.
SIZES = [
    (9, 11, 1),
    (70, 45, 3),
    (64, 64, 4),
    (12, 8, 2),
    (20, 132, 3),
    (4, 4, 1),
    (33, 130, 7),
    (5, 300, 18),
    (40, 41, 64),
    (100, 90, 300),
    (0, 4, 3),
    (5, 4, 0),
    (1500, 1500, 3),
    (200, 1100, 64),
]


@DTYPES
@pytest.mark.parametrize("m, n, d", SIZES)
def test_each_matrix_has_the_bits_that_it_has_alone(m, n, d, dtype):
    rules = ["euclidean", "cityblock", "chebyshev", "sqeuclidean", "cosine", "canberra"]
    for first, second in (((2, 3), (3,)), ((2, 1), (1, 3)), ((4,), (4,)), ((), (2,))):
        x, y = there(*first, m, d, dtype=dtype), there(*second, n, d, dtype=dtype)
        batch = torch.broadcast_shapes(first, second)
        a, b = x.expand(*batch, m, d), y.expand(*batch, n, d)
        for metric in rules:
            got = gpudist.cdist(x, y, metric)
            assert got.shape == (*batch, m, n) and got.dtype == dtype
            for i in itertools.product(*map(range, batch)):
                assert same(got[i], gpudist.cdist(a[i], b[i], metric)), metric
            pairs = gpudist.pdist(x, metric)
            for i in itertools.product(*map(range, first)):
                assert same(pairs[i], gpudist.pdist(x[i], metric)), metric


def all_forms(metric, d, rng):
    """Give all ways of calling a metric, in a periodic box too."""
    for _, make in forms(metric):
        yield make(rng, d)
        if "box" in RECORDS[metric].arguments:
            yield make(rng, d) | {"box": rng.uniform(0.5, 2, d)}


@DTYPES
@pytest.mark.parametrize("metric", sorted(RECORDS))
def test_each_metric_gives_matrices_the_bits_that_they_have_alone(rng, metric, dtype):
    """Of truths as well, whether one operand stands for several, and however rows lie."""
    name = str(dtype).removeprefix("torch.")
    for m, n, columns in ((9, 11, 6), (65, 70, 40), (70, 64, 150)):
        d = RECORDS[metric].columns or columns
        for kind in (name, "bool") if RECORDS[metric].domain != "numbers" else (name,):
            x = np.stack([rows_for(rng, m, d, metric, kind) for _ in range(6)])
            y = np.stack([rows_for(rng, n, d, metric, kind) for _ in range(3)])
            x, y = torch.as_tensor(x).reshape(2, 3, m, d).cuda(), torch.as_tensor(y).cuda()
            y[2, 5], y[1, :, 0] = x[0, 2, 3], 0
            for given in all_forms(metric, d, rng):
                compute = partial(gpudist.cdist, metric=metric, dtype=name, **given)
                got = compute(x, y)
                for i, j in itertools.product(range(2), range(3)):
                    assert same(got[i, j], compute(x[i, j], y[j])), given
                assert same(got[:, 1:, 3:], compute(x[:, 1:, 3:], y[1:].mT.contiguous().mT))
                assert same(got[:, 2], compute(x[:, 2], y[2]))
                pairs = gpudist.pdist(x, metric, dtype=name, **given)
                for i, j in itertools.product(range(2), range(3)):
                    alone = gpudist.pdist(x[i, j], metric, dtype=name, **given)
                    assert same(pairs[i, j], alone), given


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "sqeuclidean"])
def test_few_dimensions_keep_their_digits_whether_rows_come_by_fours_or_not(metric, d):
    """Near and equal points, beside some that are no number or far away, in all places."""
    x = there(3, 20, d, dtype=torch.float32)
    y = x[:, torch.arange(36) % 20] * (1 + 1e-6 * there(3, 36, 1, dtype=torch.float32))
    y[0, 1], y[1, 5], y[2, 30, 0], x[2, 19] = x[0, 3], 1e-30, math.nan, 1e30
    got = gpudist.cdist(x, y, metric)
    for a, b in (([0, 20], [0, 36]), ([0, 19], [0, 36]), ([1, 20], [0, 35]), ([4, 20], [4, 8])):
        part = gpudist.cdist(x[:, slice(*a)], y[:, slice(*b)], metric)
        assert same(part, got[:, slice(*a), slice(*b)])
    exact = gpudist.cdist(x.cpu().double(), y.cpu().double(), metric)
    torch.testing.assert_close(got.cpu(), exact.float(), rtol=1e-6, atol=0, equal_nan=True)


def test_batches_are_read_as_they_lie():
    """Whatever their strides, more axes than a launch knows, results that are given, and CuPy's."""
    x, y = there(2, 3, 2, 2, 3, 17, 5), there(3, 1, 2, 3, 9, 5)
    x = x.transpose(0, 4).transpose(-1, -2).contiguous().transpose(-1, -2)
    y = y.expand(2, 3, 2, 2, 3, 9, 5).transpose(0, 4)
    for a, b in ((x, y), (x.flip(-1)[..., ::2], y[..., ::2]), (x[:, 1:], y[:, :2, :1])):
        got = gpudist.cdist(a, b)
        expected = gpudist.cdist(a.cpu(), b.cpu())
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-13, atol=1e-13)
        out = torch.full_like(got, math.nan)
        assert gpudist.cdist(a, b, out=out) is out and torch.equal(out, got)
    cupy = pytest.importorskip("cupy")
    got = gpudist.cdist(cupy.asarray(x), cupy.asarray(y))
    assert torch.equal(torch.as_tensor(got, device="cuda"), gpudist.cdist(x, y))


LAUNCHED_ONCE = [("minkowski", {"p": p}) for p in (2, 2.5, 3)]
LAUNCHED_ONCE += [("euclidean", {"w": [1.0, 2.0]}), ("cityblock", {"box": [1.0, 2.0]})]
LAUNCHED_ONCE += [
    (metric, {"VI": [[2.0, 1.0], [1.0, 3.0]]} if "VI" in RECORDS[metric].arguments else {})
    for metric in sorted(RECORDS)
]


@DTYPES
@pytest.mark.parametrize("metric, given", LAUNCHED_ONCE)
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_few_launches_do_small_matrices(metric, given, dtype):
    """A profiler notes events of its own as it begins: the second time counts."""
    x, y = there(500, 8, 2, dtype=dtype).abs() / 9, there(500, 8, 2, dtype=dtype, seed=1).abs() / 9
    if metric == "seuclidean":
        given = {"V": [1.0, 2.0]}
    for _ in range(2):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            gpudist.cdist(x, y, metric, **given)
            torch.cuda.synchronize()
    on_device = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert len(on_device) < 50, sorted({e.name for e in on_device})


def test_a_batch_that_may_not_be_prepared_at_once_is_done_matrix_by_matrix():
    x = there(50, 100, 64).abs()
    whole = gpudist.cdist(x, x, "jensenshannon")
    assert same(whole, gpudist.cdist(x, x, "jensenshannon", max_memory=300_000))


def gathered(kind, *shape):
    """Points as they come, about few centres, and with rows that are equal or far away."""
    x = there(*shape, dtype=torch.float32)
    if kind == "clusters":
        x = 1e-3 * x + 10 * there(5, shape[-1], dtype=torch.float32)[torch.arange(shape[-2]) % 5]
    if kind == "outliers" and shape[-2] > 11:
        x[..., ::31, :] *= 1e6
        x[..., 7, :] = x[..., 5, :] = 3
        x[..., 9, 1] = math.inf
        x[..., 11, 2] = math.nan
    if kind == "sparse" and shape[-2] > 11:
        x[x.abs() < 1.6] = 0
        x[..., 7:11, :] = 0
        x[..., 8, 1] = math.nan
        x[..., 9, 1] = 1e-41
    return x


@pytest.mark.skipif(not runs("cdist/cuda_tensor_once"), reason="it is for other cards")
@pytest.mark.parametrize("kind", ["normal", "clusters", "outliers", "sparse"])
@pytest.mark.parametrize("m, n, d", [(300, 1100, 64), (129, 1029, 70), (1, 66, 33), (64, 64, 21)])
def test_products_of_one_launch_have_the_bits_of_single_ones(kind, m, n, d):
    """Whatever part of the rows is asked for, however they lie; near pairs keep their digits."""
    x, y = gathered(kind, 5, m, d), gathered(kind, 5, n, d)
    y[:, :1] = x[:, :1] * (1 + 1e-5)
    for metric, limit in (("euclidean", 5e-7), ("sqeuclidean", 1e-6)):
        compute = partial(gpudist.cdist, metric=metric, kernel="cdist/cuda_tensor_once")
        got = compute(x, y)
        for k in range(5):
            assert same(got[k], compute(x[k], y[k]))
        assert same(got[3, m // 2 :], compute(x[3, m // 2 :], y[3]))
        assert same(got, compute(x.mT.contiguous().mT, y))
        assert same(compute(x, y[:1])[4], compute(x[4], y[0]))
        exact = gpudist.cdist(x.cpu().double(), y.cpu().double(), metric)
        torch.testing.assert_close(
            got.cpu().double(), exact, rtol=limit, atol=1e-43, equal_nan=True
        )
        whole = compute(y, y)
        assert same(whole, whole.mT)
        pairs = gpudist.pdist(y, metric, kernel="cdist/cuda_tensor_once")
        i, j = torch.triu_indices(n, n, 1, device="cuda")
        assert same(pairs, whole[:, i, j])


@pytest.mark.skipif(not runs("cdist/cuda_tensor_once"), reason="it is for other cards")
def test_matrices_of_middling_size_take_products_of_one_launch():
    x = there(2, 1100, 64, dtype=torch.float32)
    said = gpudist.explain("cdist", x, x, ceilings={})
    assert said.kernel == "cdist/cuda_tensor_once"


def test_a_batch_refuses_what_a_matrix_refuses():
    x = there(2, 3, 4)
    for y, error in ((there(2, 3, 5), ValueError), (there(3, 3, 4), ValueError)):
        with pytest.raises(error):
            gpudist.cdist(x, y)
    with pytest.raises(ValueError, match="cannot do this"):
        gpudist.cdist(x, x, kernel="cdist/cuda_bits")
    with pytest.raises(TypeError, match="device"):
        _core.cdist_batch(x, x.cpu(), torch.empty_like(x @ x.mT), "euclidean")


# ---------------------------------------------------------------- gradients

KINDS = {"cityblock": 1.0, "euclidean": 2.0, "chebyshev": math.inf, "sqeuclidean": 2.0}
RULES = [(metric, KINDS.get(metric, 2.0)) for metric in (*KINDS, "inner_product")]
RULES += [("minkowski", p) for p in (0.5, 1.3, 3.0, 7.0)]
SHAPES = [(2, 17, 33, 3), (1, 5, 100, 11), (3, 40, 7, 30), (1, 1, 1, 1), (1, 64, 65, 8)]
SHAPES += [(1, 130, 1500, 20), (2, 3, 5, 200), (1, 260, 300, 65), (1, 700, 70, 2)]


def kernels(dtype, d, metric):
    """Give the rows that take points of that dtype, so many dimensions, and the metric."""
    name = str(dtype).removeprefix("torch.")
    rows = [k for k in gpudist.kernels("gradient") if k.backend == "cuda" and k.why_not is None]
    rows = [k for k in rows if name in k.dtypes and metric in k.metrics]
    return [k.id for k in rows if k.columns[0] <= d <= k.columns[1]]


def close(found, expected):
    """Hold sums against PyTorch's: terms that cancel leave the rounding of the largest, in both."""
    if found.dtype == torch.float32:
        scale = expected.abs().max().clamp(min=1)
        torch.testing.assert_close(found / scale, expected / scale, rtol=1e-4, atol=2e-6)
    else:
        torch.testing.assert_close(found, expected)


@DTYPES
@pytest.mark.parametrize("batch, m, n, d", SHAPES)
def test_kernels_add_up_what_pytorch_does(batch, m, n, d, dtype):
    x, y = there(batch, m, d, dtype=dtype), there(batch, n, d, dtype=dtype, seed=1)
    y[:, :1] = x[:, :1]
    g = there(batch, m, n, dtype=dtype)
    asked_of = [(*rule, kernel) for rule in RULES for kernel in kernels(dtype, d, rule[0])]
    for metric, p, kernel in asked_of:
        kind = metric if metric in ("sqeuclidean", "inner_product") else "minkowski"
        rule = _terms.Rule(kind, p, None)
        given = {"p": p} if metric == "minkowski" else {}
        distances = gpudist.cdist(x, y, metric, **given)
        expected = _terms.pull(g, x, y, distances, rule)
        expected_b = _terms.pull(g.mT, y, x, distances.mT, rule)
        for asked in (g, g.mT.contiguous().mT, g.expand(2, *g.shape)[1]):
            out, out_b = torch.full_like(x, math.nan), torch.full_like(y, math.nan)
            _core.gradient(asked, x, y, distances, out, metric, kernel, p, out_b=out_b)
            close(out, expected)
            close(out_b, expected_b)
            alone = torch.full_like(x, math.nan)
            _core.gradient(asked, x, y, distances, alone, metric, kernel, p)
            assert torch.equal(alone, out)
            alone = torch.full_like(y, math.nan)
            _core.gradient(asked.mT, y, x, distances.mT, alone, metric, kernel, p)
            assert torch.equal(alone, out_b)
        if kernel == "gradient/cuda_product":
            continue  # it takes two operands
        pairs = gpudist.pdist(y, metric, **given)
        one = torch.ones(1, 1, dtype=dtype, device="cuda").expand_as(pairs)
        for asked in (pairs, one):
            out = torch.full_like(y, math.nan)
            _core.gradient(asked, y, None, pairs, out, metric, kernel, p)
            close(out, _terms.pull(asked, y, None, pairs, rule))


@pytest.mark.parametrize("d", [3, 9, 70])
@pytest.mark.parametrize("given", [{"p": 1}, {"p": 2}, {"p": 3}, {"metric": "cosine"}])
def test_a_rows_gradient_does_not_depend_on_its_neighbours(given, d):
    """Nor on the matrices beside it: bit for bit."""
    x, y = there(5, 300, d, dtype=torch.float32), there(5, 700, d, dtype=torch.float32)
    asked = there(5, 300, 700, dtype=torch.float32)
    parts = ((0, slice(0, 300)), (3, slice(11, 245)), (4, slice(69, 70)))
    check_parts(partial(ours.cdist, **given), x, y, asked, parts)


@DTYPES
@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_gradients_are_as_good_as_promised(p, dtype):
    """Near pairs as well: each component within its share of what is added up."""
    x, y = there(200, 40, dtype=dtype), there(900, 40, dtype=dtype)
    y[:200] = x * (1 + 1e-4 * there(200, 40, dtype=dtype, seed=3))
    asked = there(200, 900, dtype=dtype)
    d, got = gradients(lambda x, y: ours.cdist(x, y, p), x, y, asked=asked)
    wide = [t.cpu().double() for t in (asked, x, y, d)]
    rule = _terms.Rule("minkowski", p, None)
    e = wide[1].unsqueeze(1) - wide[2]
    if p == 2:
        slope = e / wide[3].unsqueeze(-1)
    else:
        near = (x.unsqueeze(1) - y).abs().cpu().double() == wide[3].unsqueeze(-1)
        slope = e.sign() * (near if p == math.inf else 1)
    each = wide[0].unsqueeze(-1) * slope
    limit = 1e-6 if dtype == torch.float32 else 1e-14
    for result, dim, sign in ((got[0], 1, 1), (got[1], 0, -1)):
        error = (result.cpu().double() - sign * each.sum(dim)).abs()
        assert (error <= limit * each.abs().sum(dim) + 1e-300).all()
    assert rule.p == p


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1e18, 1e30])
def test_signs_hold_over_the_range_of_float32(scale):
    """Of points that differ by less than any normal number too."""
    x, y = points(50, 40), points(70, 40)
    x, y = ((t * 20).round() * scale for t in (x, y))
    x, y = x.float().cuda(), y.float().cuda()
    asked = there(50, 70, dtype=torch.float32)
    _, got = gradients(lambda x, y: ours.cdist(x, y, 1.0), x, y, asked=asked)
    signs = (x.double().unsqueeze(1) - y.double()).sign()
    expected = (asked.double().unsqueeze(-1) * signs).sum(1)
    torch.testing.assert_close(got[0].double(), expected, rtol=1e-5, atol=1e-5)


def test_what_is_asked_may_be_endless_or_nothing():
    x, y = there(4, 20, dtype=torch.float32), there(5, 20, dtype=torch.float32)
    for p, value in itertools.product((1.0, 2.0, 3.0), (math.inf, math.nan, 1e-38)):
        asked = torch.ones(4, 5, device="cuda")
        asked[2, 3] = value
        _, got = gradients(lambda x, y, p=p: ours.cdist(x, y, p), x, y, asked=asked)
        _, expected = gradients(
            lambda x, y, p=p: ours.cdist(x, y, p), x.cpu(), y.cpu(), asked=asked.cpu()
        )
        torch.testing.assert_close([t.cpu() for t in got], list(expected), equal_nan=True)


def test_the_core_refuses_gradients_that_do_not_fit():
    x, d = there(3, 4), there(3, 3)
    out = torch.empty_like(x)
    for change, words in (
        ({"distances": d[:2]}, "element for each pair"),
        ({"asked": d.float()}, "dtype of out"),
        ({"a": x.cpu()}, "device of out"),
        ({"out_b": torch.empty_like(x[:2])}, "out a's rows"),
        ({"b": x.expand(2, 3, 4)}, "dimensions"),
        ({"p": 0.0, "metric": "minkowski"}, "p must be above 0"),
    ):
        call = {"asked": d, "a": x, "b": x, "distances": d, "out": out, "metric": "euclidean"}
        with pytest.raises((TypeError, ValueError), match=words):
            _core.gradient(**call | change)


# ---------------------------------------------------------------- PyTorch's own checks


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradcheck(p):
    x, y = (there(2, n, 3).requires_grad_() for n in (4, 5))
    assert torch.autograd.gradcheck(lambda x, y: ours.cdist(x, y, p), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: ours.cdist(x, y, p), (x, y))
    assert torch.autograd.gradcheck(lambda x: ours.pdist(x, p), (x,), check_forward_ad=True)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine", "inner_product"])
def test_gradcheck_of_metrics(metric):
    x, y = (there(2, n, 20).requires_grad_() for n in (3, 4))
    function = lambda x, y: ours.cdist(x, y, metric=metric)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, y))
    assert torch.autograd.gradgradcheck(function, (x, y))


def test_operators_are_what_their_schemas_say():
    x, y = there(2, 5, 3), there(2, 4, 3, seed=1)
    d, rule = torch.cdist(x, y), ("minkowski", 2.0, None)
    for operator, arguments in (
        (_operators.distances, (x, y, *rule)),
        (_operators.pull, (d, x, y, d, *rule)),
        (_operators.pull_both, (d, x, y, d, *rule)),
    ):
        assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}


def test_it_compiles_and_maps():
    def loss(x, y):
        return ours.cdist(x, y, 1.0).sin().sum() + ours.cdist(x, y).cos().sum()

    x, y = there(2, 6, 3), there(5, 3)
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    torch.testing.assert_close(gradients(compiled, x, y), gradients(loss, x, y))
    torch._dynamo.reset()
    mapped = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(x, y)
    torch.testing.assert_close(mapped, torch.stack([torch.func.grad(loss)(a, y) for a in x]))


@pytest.mark.parametrize("n, d", [(70, 3), (300, 40), (2000, 40), (4000, 40)])
def test_a_training_step_can_be_captured(n, d):
    x, y = there(3, 50, d, dtype=torch.float32), there(3, n, d, dtype=torch.float32)
    x.requires_grad_(), y.requires_grad_()
    expected = gradients(ours.cdist, x, y)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            found = torch.autograd.grad(ours.cdist(x, y).sum(), (x, y))
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = torch.autograd.grad(ours.cdist(x, y).sum(), (x, y))
    for t in found:
        t.detach().fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(torch.equal, found, expected[1]))


def test_gradients_hold_no_more_than_operands_and_results():
    x, y = there(3000, 64, dtype=torch.float32), there(3000, 64, dtype=torch.float32)
    whole = 3000 * 3000 * 4
    gradients(ours.cdist, x, y)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _core.most_held("cuda:0", True)
    gradients(ours.cdist, x, y)
    assert torch.cuda.max_memory_allocated() - before < 3 * whole
    assert _core.most_held("cuda:0") < whole
