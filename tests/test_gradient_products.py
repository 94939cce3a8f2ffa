"""Gradients by products on tensor cores: what they promise for data that products are bad at.

The promise is that of every gradient: an element is within 1e-6 of the sum of what is asked of its
pairs, times the largest slope. Each row is held against the same sums in float64.
"""

import math

import pytest

import gpudist

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")

from tensors import powers, skip_unless_on_90, there  # noqa: E402

from gpudist import _core  # noqa: E402

KERNEL = "gradient/cuda_product"
M, N, D = 300, 3100, 40


@pytest.fixture(autouse=True)
def runs():
    skip_unless_on_90(KERNEL)


pytestmark = pytest.mark.gpu


def both(asked, x, y, metric="euclidean", kernel=KERNEL):
    d = gpudist.cdist(x, y, metric)
    out, out_b = torch.full_like(x, math.nan), torch.full_like(y, math.nan)
    _core.gradient(asked, x, y, d, out, metric, kernel, out_b=out_b)
    return d, out, out_b


def hold(asked, x, y, metric="euclidean"):
    """Hold both sides against float64, with the same distances."""
    d, *found = both(asked, x, y, metric)
    g, d = asked.double(), d.double()
    e = x.double().unsqueeze(1) - y.double()
    factor = 2 * g if metric == "sqeuclidean" else torch.where((d == 0) | (g == 0), 0.0, g / d)
    each = factor.unsqueeze(-1) * e
    most = each.abs().amax(-1)
    for result, dim, sign in ((found[0], 1, 1), (found[1], 0, -1)):
        error = (result.double() - sign * each.sum(dim)).abs()
        limit = 1e-6 * most.sum(dim).unsqueeze(-1)
        assert (error <= limit + 1e-44).all(), (error / (limit + 1e-44)).max().item()


def data(name):
    """Return points of both operands, and what is asked, that are as the name says."""
    x, y, asked = there(M, D, seed=1), there(N, D, seed=2), there(M, N, seed=3)
    clusters = 30 * there(8, D, seed=4)
    changes = {
        "ordinary": lambda: (x, y, asked),
        "near": lambda: (x, torch.cat([x * (1 + 1e-4 * there(M, D)), y[M:]]), asked),
        "equal": lambda: (x, torch.cat([x, y[M:]]), asked),
        "far from 0": lambda: (x + 1e4, y + 1e4, asked),
        "one sign": lambda: (x, y, asked.abs()),
        "clusters": lambda: (
            x + clusters[torch.arange(M) % 8],
            y + clusters[torch.arange(N) % 8],
            asked,
        ),
        "two places": lambda: (
            x / 100 + 10 * (torch.arange(M).cuda() % 2).unsqueeze(1),
            y / 100 + 10 * (torch.arange(N).cuda() % 2).unsqueeze(1),
            asked,
        ),
        "asked of any size": lambda: (x, y, asked * powers(-30, 30, M, N)),
        "asked tiny": lambda: (x, y, asked * 1e-36),
        "asked huge": lambda: (x, y, asked * 1e34),
        "few asked": lambda: (x, y, asked * (there(M, N, seed=5) > 2)),
        "points tiny": lambda: (x * 1e-15, y * 1e-15, asked),
        "points huge": lambda: (x * 1e15, y * 1e15, asked),
        "rows of any size": lambda: (x * powers(-8, 8, M, 1), y * powers(-8, 8, N, 1), asked),
        "one far": lambda: (x, torch.cat([y[:-1], 1e8 * y[-1:]]), asked),
    }
    return changes[name]()


KINDS = [
    *("ordinary", "near", "equal", "far from 0", "one sign", "clusters", "two places"),
    *("asked of any size", "asked tiny", "asked huge", "few asked"),
    *("points tiny", "points huge", "rows of any size", "one far"),
]


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_keep_their_digits(kind, metric):
    if metric == "sqeuclidean" and kind in ("points huge", "asked huge"):
        pytest.skip("squares, or what they are asked for, leave float32")
    x, y, asked = data(kind)
    hold(asked, x, y, metric)


@pytest.mark.parametrize("m, n, d", [(1, 1, 17), (129, 65, 33), (70, 2049, 256), (257, 300, 129)])
def test_any_number_of_rows_and_columns(m, n, d):
    hold(there(m, n), there(m, d, seed=1), there(n, d, seed=2))


def test_what_is_endless_stays_where_it_is():
    x, y, asked = data("near")
    x[3, 5], y[70, 1], y[100, 2] = math.inf, math.nan, -math.inf
    asked[5, 7], asked[6, 8], asked[:, 70] = math.inf, math.nan, 0
    found, expected = both(asked, x, y), both(asked, x, y, kernel="gradient/cuda_tile")
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("kind", ["clusters", "two places"])
def test_points_in_few_places_are_left_to_differences(kind):
    """Of the rows that are added up, whatever the others are: those of x are few of these."""
    x, y, asked = data(kind)
    found, expected = both(asked, x, y), both(asked, x, y, kernel="gradient/cuda_tile")
    assert all(map(torch.equal, found, expected))
    x, *_ = data("ordinary")
    found, expected = both(asked, x, y), both(asked, x, y, kernel="gradient/cuda_tile")
    assert torch.equal(found[1], expected[1]) and not torch.equal(found[2], expected[2])


def test_bits_do_not_tell_how_pairs_lie_or_what_is_beside_them():
    x, y, asked = data("near")
    d, *expected = both(asked, x, y)
    lies = [asked.mT.contiguous().mT, torch.empty(M, N + 1).cuda()[:, 1:].copy_(asked)]
    for g in (asked, *lies):
        for away in (d, d.mT.contiguous().mT):
            out, out_b = torch.full_like(x, math.nan), torch.full_like(y, math.nan)
            _core.gradient(g, x, y, away, out, "euclidean", KERNEL, out_b=out_b)
            assert torch.equal(out, expected[0]) and torch.equal(out_b, expected[1])
    for rows in (slice(37, 95), slice(200, 201)):
        out = torch.full_like(x[rows], math.nan)
        _core.gradient(asked[rows], x[rows], y, d[rows], out, "euclidean", KERNEL)
        assert torch.equal(out, expected[0][rows])
    both_x, both_y = torch.stack([x, x + 1]), torch.stack([y, y[:1].expand_as(y)])
    out, out_b = torch.full_like(both_x, math.nan), torch.full_like(both_y, math.nan)
    g, away = torch.stack([asked, asked]), gpudist.cdist(both_x, both_y)
    _core.gradient(g, both_x, both_y, away, out, "euclidean", KERNEL, out_b=out_b)
    assert torch.equal(out[0], expected[0]) and torch.equal(out_b[0], expected[1])


def test_what_is_chosen_for_one_side_does_not_depend_on_the_other():
    """Sums over 3072 rows are products, those over fewer are not."""
    x, y, asked = data("ordinary")
    d = gpudist.cdist(x, y)
    out, out_b, alone = torch.empty_like(x), torch.empty_like(y), torch.empty_like(y)
    _core.gradient(asked, x, y, d, out, "euclidean", out_b=out_b)
    _core.gradient(asked.mT, y, x, d.mT, alone, "euclidean", "gradient/cuda_tile")
    assert torch.equal(out, both(asked, x, y)[1]) and torch.equal(out_b, alone)
