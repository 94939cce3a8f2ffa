"""What minplus would do."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from gpudist import arrays, choosing, products, products_one, semirings, several_gpus, stacks
from gpudist.explained import Explanation


def explain_minplus(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    semiring: str = "min_plus",
    dtype: Any = None,
    kernel: str = "auto",
    device: str | None = None,
) -> Explanation:
    """Say what `minplus` would do; see `gpudist.explain`."""
    if products.are_stacks(A, B, C):
        semirings.check(semiring)
        several_gpus.refuse(device, stacks.MANY)
        space = arrays.space_of(A=A, B=B, C=C)
        named, lead, _ = stacks.factors(space, A, B, C)
        operands = tuple(named.values())
        name = semirings.result_dtype(space, operands, semiring, None, dtype)
    else:
        space, (a, b, c), name = products_one.read(A, B, C, semiring, None, dtype)
        lead, operands = (), (a, b) if c is None else (a, b, c)
    (m, k), n = operands[0].shape[-2:], operands[1].shape[-1]
    count, packed = math.prod(lead), (m * k + k * n) * np.dtype(name).itemsize
    first, devices = several_gpus.first_of(device, space)
    said = choosing.choose(
        "minplus",
        choosing.Request(op="minplus", dtype=name, n=n, cols=k),
        choosing.Amounts(
            moved=sum(math.prod(x.shape) for x in operands) + count * m * n,
            written=count * m * n,
            operations=count * m * k * n,
            copies=packed if name != "bool" else packed // 8,
        ),
        kernel=kernel,
        device=arrays.device_for(space, operands[0], first),
        space=space,
    )
    if lead:
        said = dataclasses.replace(said, reason=f"each of {count} products; {said.reason}")
    return dataclasses.replace(said, devices=devices)
