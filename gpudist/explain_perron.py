"""What perron would do."""

from __future__ import annotations

from typing import Any

from gpudist import arrays, choosing, eigen
from gpudist.explained import Explanation


def explain_perron(A: Any, *, kernel: str = "auto", device: str | None = None) -> Explanation:
    """Say what `perron` would do, and the work of one round; see `gpudist.explain`."""
    matrix, name = eigen.read(A)
    n, space = matrix.shapes[0][0], matrix.space
    return choosing.choose(
        "perron",
        choosing.Request(op="perron", dtype=name, n=n, cols=n),
        choosing.Amounts(moved=n * n, operations=n * n),
        kernel=kernel,
        device=arrays.device_for(space, matrix.given[0], device),
        space=space,
    )
