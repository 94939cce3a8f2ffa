"""Distances of a batch as a training step has them: forward, and back to the points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpudist
from bench.cases import Array, Case
from gpudist import work
from gpudist.measure import rivals
from gpudist.measure.samples import Sample

_SEED = 20_240_229
# Rows of the first matrix whose results are held against exact ones.
_ROWS = 8
_EXPONENTS = {"euclidean": 2.0, "cityblock": 1.0}


@dataclass(frozen=True, slots=True)
class TrainingCase(Case):
    """Distances of `m` and `n` points in `d` dimensions, in each of `count` matrices.

    With `back`, gradients of their sum go back to both operands; the first one's is the result. The
    points of the second operand are at least 1 away in each dimension, lest terms of it cancel.
    """

    count: int
    m: int
    n: int
    d: int
    metric: str = "euclidean"
    back: bool = True
    dtype: str = "float32"
    op = "training"
    sizes = "count", "m", "n", "d"

    @property
    def arguments(self) -> str:
        """Say which way it goes."""
        return "forward and back" if self.back else "forward"

    @property
    def metric_args(self) -> dict[str, Any]:
        """Say it to rivals."""
        return {"back": self.back}

    def operands(self) -> tuple[Array, ...]:
        """Draw both sets of points."""
        rng = np.random.default_rng(_SEED)
        sizes = (self.count, self.m, self.d), (self.count, self.n, self.d)
        a, b = (rng.random(size, dtype=np.float32) for size in sizes)
        return a.astype(self.dtype), (b + 2).astype(self.dtype)

    def prepare(
        self, operands: tuple[Any, ...], device: str | None, kernel: str = "auto", **how: Any
    ) -> Callable[[], Any]:
        """Give what computes the distances, and the gradients of their sum."""
        import gpudist.torch

        task = rivals.Task(self.op, "", operands, self.m, self.dtype, self.metric, self.metric_args)
        return rivals.training_step(gpudist.torch.cdist, task)

    def explain(self, operands: tuple[Any, ...], device: str | None) -> gpudist.Explanation:
        """Say which kernel ``auto`` takes for one matrix, and what there is to do in all."""
        a, b = (x[0] for x in operands)
        said = gpudist.explain("cdist", a, b, metric=self.metric, device=device)
        size = np.dtype(self.dtype).itemsize
        pairs, points = self.count * self.m * self.n, self.count * (self.m + self.n) * self.d
        # Back again: what is asked of pairs and their distances are read, gradients are written.
        sides, more = (3, 2) if self.back else (1, 0)
        whole = work.Work(
            size * (points + more * pairs),
            size * (pairs + (points if self.back else 0)),
            pairs * self.d * sides,
            "pair-dimensions",
            said.work.pipe if "tensor" not in said.kernel else "fma",
            2.0,
        )
        return dataclasses.replace(said, work=whole)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute some rows in float64."""
        a, b = (x[0].astype(np.float64) for x in operands)
        e = a[:_ROWS, None] - b
        p = _EXPONENTS[self.metric]
        exact = np.linalg.norm(e, p, axis=-1)
        if self.back:
            slopes = np.sign(e) if p == 1 else e / exact[..., None]
            exact = slopes.sum(axis=1)
        return Sample(
            len(exact),
            exact.ravel(),
            lambda result: [result[0, :_ROWS].detach().cpu().numpy().ravel()],
        )
