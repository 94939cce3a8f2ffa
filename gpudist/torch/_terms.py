"""What derivatives of distances add up, block after block, in memory that does not grow with pairs.

For one pair of rows let e be their difference, d their distance, q the slope of d, which has an
element a column, and H its curvature. All that derivatives of a matrix of distances need are three
sums: `pull` brings what is asked of distances back to points, `push` takes what is done to points
on to distances, and `curve` is what `pull` changes by when points move.

Differences are taken directly, so near pairs keep their digits; and relative to d before a power is
taken, so that powers stay in range. Sums are folded in halves, in an order that depends on their
length and on nothing beside them: a row's result has the same bits whatever is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Elements of a block on the host, where it should stay in the cache, and elsewhere.
_BLOCK_ON_HOST = 1 << 19
_BLOCK = 1 << 24
# Rows of the second operand in a block, and elements of these, at most.
_MOST_COLUMNS = 64
_MOST_OF_COLUMNS = 1 << 18


class Rule(NamedTuple):
    """Which distance it is: `kind` is "minkowski", "sqeuclidean" or "inner_product"."""

    kind: str
    p: float
    weights: Tensor | None

    @property
    def is_flat(self) -> bool:
        """Whether there is no curvature, where there is any slope at all."""
        return self.kind == "minkowski" and self.p in (0.0, 1.0, math.inf)

    @property
    def is_product(self) -> bool:
        return self.kind == "inner_product"


def pull(g: Tensor, x1: Tensor, x2: Tensor | None, d: Tensor, rule: Rule) -> Tensor:
    """Return the sum over j of g[i, j] q[i, j], the gradient for the rows of `x1`."""

    def term(block: _Block, gives: Tensor, away: Tensor) -> Tensor:
        if rule.is_product:
            return block.second(x1 if x2 is None else x2) * gives
        return _slope(block.difference(x1, x2), away, rule).mul_(gives)

    return _over_columns(g, x1, x2, d, term)


def curve(
    g: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    v1: Tensor | None,
    v2: Tensor | None,
    rule: Rule,
) -> Tensor:
    """Return the sum over j of g[i, j] H[i, j] (v1[i] - v2[j]); of what is None, there is 0.

    With `x2` None, the points are one set, and move with `v1`.
    """
    other = v1 if x2 is None else v2
    if rule.is_flat or (rule.is_product and other is None):
        return torch.zeros_like(x1, memory_format=torch.contiguous_format)

    def term(block: _Block, gives: Tensor, away: Tensor) -> Tensor:
        if rule.is_product:
            assert other is not None
            return block.second(other) * gives
        moves = block.moves(v1, other)
        if rule.kind == "sqeuclidean":
            return _weighted(moves.mul_(2), rule).mul_(gives)
        return _bend(block.difference(x1, x2), moves, away, rule).mul_(gives)

    return _over_columns(g, x1, x2, d, term)


def push(
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    t1: Tensor | None,
    t2: Tensor | None,
    rule: Rule,
) -> Tensor:
    """Return the sum over columns of q[i, j] (t1[i] - t2[j]), the change of each distance.

    With `x2` None, it is that of each pair of `x1`, which moves with `t1`.
    """
    out = torch.empty_like(d, memory_format=torch.contiguous_format)
    if x2 is None:
        return _push_pairs(x1, d, t1, rule, out)
    for block in _blocks(x1, x2):
        if rule.is_product:
            parts = [
                block.first(a) * block.second(b)
                for a, b in ((t1, x2), (x1, t2))
                if a is not None and b is not None
            ]
            change = parts[0] if len(parts) == 1 else parts[0].add_(parts[1])
        else:
            away = block.of_pairs(d)
            change = _slope(block.difference(x1, x2), away, rule).mul_(block.moves(t1, t2))
        out[(*block.rows, block.columns)] = _folded(change, -1)
    return out


# ------------------------------------------------------------------ one pair


def _safe(d: Tensor) -> Tensor:
    """Return distances to divide by: what is 0 is 1, for then all differences are 0."""
    return torch.where(d == 0, torch.ones_like(d), d)


def times_weights(x: Tensor, weights: Tensor) -> Tensor:
    """Multiply columns by their weights, in place; of one without weight nothing is left.

    A difference there may be any multiple of the distance, and its power infinite.
    """
    return x.mul_(weights).masked_fill_(weights == 0, 0)


def _weighted(x: Tensor, rule: Rule) -> Tensor:
    return x if rule.weights is None else times_weights(x, rule.weights)


def _slope(e: Tensor, d: Tensor, rule: Rule) -> Tensor:
    """Return q for differences, which it may overwrite, and distances."""
    p = rule.p
    if rule.kind == "sqeuclidean":
        return _weighted(e.mul_(2), rule)
    if p == 0:
        return e.zero_()
    if p == 1:
        return _weighted(e.sign_(), rule)
    if p == 2:
        return _weighted(e.div_(_safe(d)), rule)
    if math.isinf(p):
        counts = e.abs() == d
        if rule.weights is not None:
            counts &= rule.weights > 0
        return e.sign_().masked_fill_(~counts, 0)
    r = e.abs().div_(_safe(d))
    powers = r.pow(p - 1)
    if p < 1:
        powers.masked_fill_(r == 0, 0)
    return _weighted(e.sign_().mul_(powers), rule)


def _bend(e: Tensor, moves: Tensor, d: Tensor, rule: Rule) -> Tensor:
    """Return H times moves, 0 where the distance is 0; it may overwrite what it gets."""
    p, safe = rule.p, _safe(d)
    r = e.abs().div_(safe)
    q = _slope(e, d, rule)
    along = _folded(q * moves, -1).unsqueeze(-1)
    if p == 2:
        straight = _weighted(moves, rule)
    else:
        powers = r.pow(p - 2)
        if p < 2:
            powers.masked_fill_(r == 0, 0)
        straight = _weighted(moves.mul_(powers), rule)
    return straight.sub_(q.mul_(along)).mul_((p - 1) / safe).masked_fill_(d == 0, 0)


def _folded(x: Tensor, dim: int) -> Tensor:
    """Return the sum along a dimension, folded in halves; it overwrites what it gets."""
    n = x.shape[dim]
    if n == 0:
        return x.sum(dim)
    while n > 1:
        half = (n + 1) // 2
        x.narrow(dim, 0, n - half).add_(x.narrow(dim, half, n - half))
        n = half
    return x.select(dim, 0)


# ------------------------------------------------------------------ blocks


class _Block(NamedTuple):
    """Some rows of the first operand beside some of the second, in all or some matrices.

    `rows` are the slices of matrices and rows.
    """

    rows: tuple[slice, ...]
    columns: slice

    def first(self, x: Tensor) -> Tensor:
        return x[self.rows].unsqueeze(-2)

    def second(self, x: Tensor) -> Tensor:
        return x[(*self.rows[:-1], self.columns)].unsqueeze(-3)

    def of_pairs(self, x: Tensor) -> Tensor:
        return x[(*self.rows, self.columns)].unsqueeze(-1)

    def difference(self, x1: Tensor, x2: Tensor | None) -> Tensor:
        return self.first(x1) - self.second(x1 if x2 is None else x2)

    def moves(self, v1: Tensor | None, v2: Tensor | None) -> Tensor:
        if v1 is not None and v2 is not None:
            return self.first(v1) - self.second(v2)
        if v2 is not None:
            still = -self.second(v2)
            count = range(self.rows[-1].stop)[self.rows[-1]]
            return still.expand(*still.shape[:-3], len(count), *still.shape[-2:]).clone()
        assert v1 is not None
        there = self.first(v1)
        count = range(self.columns.stop)[self.columns]
        return there.expand(*there.shape[:-2], len(count), there.shape[-1]).clone()


def _blocks(x1: Tensor, x2: Tensor) -> Iterator[_Block]:
    """Give blocks; those of the same rows follow each other, in the order of columns."""
    *batch, n, columns = x1.shape
    m = x2.shape[-2]
    if 0 in (n, m):
        return
    most = _BLOCK_ON_HOST if x1.device.type == "cpu" else _BLOCK
    # How many columns go together decides on bits, so it depends on the dimensions alone.
    wide = _MOST_COLUMNS
    while wide > 1 and wide * max(columns, 1) > _MOST_OF_COLUMNS:
        wide //= 2
    room = max(1, most // (min(wide, m) * max(columns, 1)))
    high = min(n, room)
    deep = max(1, room // n) if batch else 1
    for matrices in _matrices(tuple(batch), deep):
        for i in range(0, n, high):
            for j in range(0, m, wide):
                yield _Block((*matrices, slice(i, min(i + high, n))), slice(j, min(j + wide, m)))


def _matrices(batch: tuple[int, ...], deep: int) -> Iterator[tuple[slice, ...]]:
    """Give slices of a batch, of about so many matrices each."""
    if not batch:
        yield ()
        return
    inner = math.prod(batch[1:])
    step = max(1, deep // max(inner, 1))
    for k in range(0, batch[0], step):
        for rest in _matrices(batch[1:], deep):
            yield (slice(k, min(k + step, batch[0])), *rest)


def _over_columns(
    g: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    d: Tensor,
    term: Callable[[_Block, Tensor, Tensor], Tensor],
) -> Tensor:
    """Return the sum of terms over the second operand's rows."""
    out = torch.zeros_like(x1, memory_format=torch.contiguous_format)
    for block in _blocks(x1, x1 if x2 is None else x2):
        gives, away = (
            _given(block, g, d, x1)
            if x2 is None
            else (
                block.of_pairs(g),
                block.of_pairs(d),
            )
        )
        out[block.rows] += _folded(term(block, gives, away), -2)
    return out


def _given(block: _Block, g: Tensor, d: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is asked of a block's pairs, and distances, from the condensed; 0 for no pair."""
    n = x.shape[-2]
    i = torch.arange(n, device=x.device)[block.rows[-1]].unsqueeze(-1)
    j = torch.arange(n, device=x.device)[block.columns]
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    alone = low == high
    index = (low * (2 * n - low - 1) // 2 + high - low - 1).masked_fill_(alone, 0)

    def pairs(values: Tensor) -> Tensor:
        some = values[block.rows[:-1]]
        if some.shape[-1] == 0:
            return some.new_zeros((*some.shape[:-1], *index.shape, 1))
        return some[..., index].masked_fill_(alone, 0).unsqueeze(-1)

    return pairs(g), pairs(d)


def _push_pairs(x: Tensor, d: Tensor, t: Tensor | None, rule: Rule, out: Tensor) -> Tensor:
    n, columns = x.shape[-2:]
    assert t is not None
    most = _BLOCK_ON_HOST if x.device.type == "cpu" else _BLOCK
    rows = torch.arange(n, device=x.device)
    starts = rows * (2 * n - rows - 1) // 2
    step = max(1, most // (max(columns, 1) * max(1, math.prod(x.shape[:-2]))))
    for first in range(0, d.shape[-1], step):
        some = slice(first, min(first + step, d.shape[-1]))
        pair = torch.arange(some.start, some.stop, device=x.device)
        i = torch.searchsorted(starts[:-1], pair, right=True) - 1
        j = pair - starts[i] + i + 1
        a, b = x[..., i, :], x[..., j, :]
        if rule.is_product:
            change = t[..., i, :] * b + a * t[..., j, :]
        else:
            change = _slope(a - b, d[..., some].unsqueeze(-1), rule)
            change *= t[..., i, :] - t[..., j, :]
        out[..., some] = _folded(change, -1)
    return out
