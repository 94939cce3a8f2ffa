"""Gradients of cityblock distances by ranks and products of signs: what they promise for any data.

The promise is that of every gradient: an element is within 1e-6 of the sum of what is asked of its
pairs. Signs are exact, those of ties and of differences that are no normal numbers as well.
"""

import math

import pytest

import gpudist

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")

from tensors import powers, skip_unless_on_90, there  # noqa: E402

from gpudist import _core  # noqa: E402

KERNEL = "gradient/cuda_signs"
M, N, D = 300, 3100, 40


@pytest.fixture(autouse=True)
def runs():
    skip_unless_on_90(KERNEL)


pytestmark = pytest.mark.gpu


def both(asked, x, y, d=None, kernel=KERNEL):
    d = gpudist.cdist(x, y, "cityblock") if d is None else d
    out, out_b = torch.full_like(x, math.nan), torch.full_like(y, math.nan)
    _core.gradient(asked, x, y, d, out, "cityblock", kernel, out_b=out_b)
    return out, out_b


def hold(asked, x, y):
    """Hold both sides against float64, row by row."""
    found = both(asked, x, y)
    wide, x, y = asked.double(), x.double(), y.double()
    for result, g, a, b in ((found[0], wide, x, y), (found[1], wide.mT, y, x)):
        for first in range(0, len(a), 50):
            of = slice(first, first + 50)
            sums = (g[of].unsqueeze(-1) * (a[of].unsqueeze(1) - b).sign()).sum(1)
            limit = 1e-6 * g[of].abs().sum(1, keepdim=True) + 1e-44
            error = (result[of].double() - sums).abs()
            assert (error <= limit).all(), (error / limit).max().item()


def data(name):
    """Return points of both operands, and what is asked, that are as the name says."""
    x, y, asked = there(M, D, seed=1), there(N, D, seed=2), there(M, N, seed=3)
    changes = {
        "ordinary": lambda: (x, y, asked),
        "equal": lambda: (x, torch.cat([x, y[M:]]), asked),
        "all equal": lambda: (x[:1].expand_as(x).clone(), x[:1].expand_as(y).clone(), asked),
        "whole": lambda: ((2 * x).round(), (2 * y).round(), asked),
        "zeros of both signs": lambda: (x.sign() * 0, y.clamp(min=0) * -1, asked),
        "far from 0": lambda: (x + 1e4, y + 1e4, asked),
        "no normal numbers": lambda: ((3 * x).round() * 1e-45, (3 * y).round() * 1e-45, asked),
        "largest": lambda: (x * 1e36, y * 1e36, asked),
        "one sign": lambda: (x, y, asked.abs()),
        "one for all": lambda: (x, y, torch.full((1, 1), -3.0).cuda().expand(M, N)),
        "asked of any size": lambda: (x, y, asked * powers(-30, 30, M, N)),
        "asked tiny": lambda: (x, y, asked * 1e-36),
        "asked no normal numbers": lambda: (x, y, asked * 1e-40),
        "asked huge": lambda: (x, y, asked * 1e34),
        "some asked huge": lambda: (x, y, asked * (1 + 1e36 * (there(M, N, seed=5) > 3))),
        "few asked": lambda: (x, y, asked * (there(M, N, seed=5) > 2)),
    }
    return changes[name]()


KINDS = [
    *("ordinary", "equal", "all equal", "whole", "zeros of both signs", "far from 0"),
    *("no normal numbers", "largest", "one sign", "one for all", "asked of any size"),
    *("asked tiny", "asked no normal numbers", "asked huge", "some asked huge", "few asked"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_signs_are_exact_and_sums_keep_their_digits(kind):
    x, y, asked = data(kind)
    hold(asked, x, y)
    hold(asked.mT, y, x)


# Blocks have 16, 32 or 64 rows by 128, 64 or 32 dimensions. Ranks are of 1024 rows of the shorter
# operand, 4096 of which are sorted at a time.
SHAPES = [(1, 1, 17), (129, 65, 33), (70, 2049, 130), (257, 300, 65), (3, 5000, 129)]
SHAPES += [(4099, 4200, 20), (33, 31, 300), (8193, 40, 17)]


@pytest.mark.parametrize("m, n, d", SHAPES)
def test_any_number_of_rows_and_columns(m, n, d):
    hold(there(m, n), there(m, d, seed=1), there(n, d, seed=2))
    hold(there(m, n), there(m, d, seed=1).round(), there(n, d, seed=2).round())


def test_what_is_endless_stays_where_it_is():
    x, y, asked = data("ordinary")
    x[3, 5], y[70, 1], y[100, 2], y[101, 5] = math.inf, math.nan, -math.inf, math.inf
    asked[5, 7], asked[6, 8], asked[:, 70], asked[9, 11] = math.inf, math.nan, 0, -3e38
    found, expected = both(asked, x, y), both(asked, x, y, kernel="gradient/cuda_tile")
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_pairs_of_one_operand():
    y = torch.cat([there(600, D), there(600, D)[:50]])
    pairs = gpudist.pdist(y, "cityblock")
    asked = there(*pairs.shape, seed=4)
    found, expected = torch.full_like(y, math.nan), torch.full_like(y, math.nan)
    _core.gradient(asked, y, None, pairs, found, "cityblock", KERNEL)
    _core.gradient(asked, y, None, pairs, expected, "cityblock", "gradient/cuda_tile")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("m, n, d", [(300, 3100, 40), (1100, 300, 129), (5000, 4200, 20)])
def test_bits_do_not_tell_how_pairs_lie_or_what_is_beside_them(m, n, d):
    """Nor which operand is sorted, or how many blocks share a sum."""
    x, y, asked = there(m, d, seed=1), there(n, d, seed=2), there(m, n, seed=3)
    away = gpudist.cdist(x, y, "cityblock")
    expected = both(asked, x, y, away)
    lies = [asked.mT.contiguous().mT, torch.empty(m, n + 1).cuda()[:, 1:].copy_(asked)]
    for g in lies:
        assert all(map(torch.equal, both(g, x, y, away.mT.contiguous().mT), expected))
    turned = both(asked.mT, y, x, away.mT)
    assert torch.equal(turned[1], expected[0]) and torch.equal(turned[0], expected[1])
    for rows in (slice(37, 95), slice(200, 201), slice(0, m - 1)):
        out = torch.full_like(x[rows], math.nan)
        _core.gradient(asked[rows], x[rows], y, away[rows], out, "cityblock", KERNEL)
        assert torch.equal(out, expected[0][rows])
    many = 40 if m * n < 10**6 else 3
    some_x, some_y = (t.expand(many, *t.shape).clone() for t in (x, y))
    some_x[1:] += 1
    some_y[1:, :5] = math.nan
    out, out_b = torch.full_like(some_x, math.nan), torch.full_like(some_y, math.nan)
    g = asked.expand(many, m, n).contiguous()
    some_away = gpudist.cdist(some_x, some_y, "cityblock")
    _core.gradient(g, some_x, some_y, some_away, out, "cityblock", KERNEL, out_b=out_b)
    assert torch.equal(out[0], expected[0]) and torch.equal(out_b[0], expected[1])


def test_what_is_chosen_for_one_side_does_not_depend_on_the_other():
    """Sums over 128 rows are products, those over fewer are not."""
    x, y, asked = there(127, D, seed=1), there(128, D, seed=2), there(127, 128, seed=3)
    away = gpudist.cdist(x, y, "cityblock")
    out, out_b = torch.empty_like(x), torch.empty_like(y)
    _core.gradient(asked, x, y, away, out, "cityblock", out_b=out_b)
    assert torch.equal(out, both(asked, x, y)[0])
    assert torch.equal(out_b, both(asked, x, y, kernel="gradient/cuda_tile")[1])
    assert not torch.equal(out_b, both(asked, x, y)[1])
