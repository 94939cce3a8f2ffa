"""What can run, and what would run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpudist import _core, errors


class Option(NamedTuple):
    """A launch parameter of a kernel: one of least, least + step, ..., most."""

    name: str
    least: int
    most: int
    standard: int
    step: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the kernel table.

    Attributes
    ----------
    id : str
        The name by which ``kernel=`` asks for it.
    op : str
        What it computes: "cdist", "apsp", "closure", "minplus" or "ceiling".
    ladder : str
        The study that it is a step of; "production" for what ``kernel="auto"`` takes.
    step : int
        The step of the ladder, 0 outside one.
    backend : {"cpu", "cuda"}
        Where it runs.
    dtypes, metrics : tuple of str
        What it takes.
    columns : tuple of int
        The least and the largest number of dimensions that it takes.
    needs : str
        The least processor: an instruction set, or a compute capability.
    idea, source : str
        How it works in one line, and whose idea it is.
    teaching : bool
        Whether it runs only by name.
    options : tuple of Option
        The launch parameters that ``options=`` sets: whole numbers, each with its least, its
        largest and its standard value and the step between values.
    why_not : str or None
        What keeps it from running on this machine.
    """

    id: str
    op: str
    ladder: str
    step: int
    backend: str
    dtypes: tuple[str, ...]
    metrics: tuple[str, ...]
    columns: tuple[int, int]
    needs: str
    idea: str
    source: str
    teaching: bool
    options: tuple[Option, ...]
    why_not: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a call would do; its text reads as a short report.

    Attributes
    ----------
    op, kernel, device : str
        The operation, the kernel's id, and where it would run ("cpu" or "cuda:N").
    reason : str
        Why this kernel.
    rejected : dict of str to str
        Why not the others.
    bytes : int
        The least memory traffic, in bytes: every operand read and every result written once.
    operations : int
        Inner steps: pair-dimensions of a distance, updates of a path or a product.
    """

    op: str
    kernel: str
    device: str
    reason: str
    rejected: dict[str, str]
    bytes: int
    operations: int

    def __str__(self) -> str:
        """Return the report."""
        others = "\n".join(f"  not {id}: {why}" for id, why in self.rejected.items())
        return (
            f"{self.op} runs {self.kernel} on {self.device}: {self.reason}\n"
            f"  at least {self.bytes:,} bytes moved, {self.operations:,} inner steps\n{others}"
        )


def kernels(op: str | None = None) -> tuple[Kernel, ...]:
    """List everything that can compute, in order of preference.

    Parameters
    ----------
    op : {"cdist", "pdist", "apsp", "closure", "minplus", "ceiling"}, optional
        Only the kernels of this operation; pdist runs those of cdist, transitive_closure those of
        closure.

    Returns
    -------
    tuple of Kernel
        The rows of the kernel table.

    Raises
    ------
    ValueError
        There is no such operation.

    Examples
    --------
    >>> import gpudist
    >>> [k.id for k in gpudist.kernels("pdist") if "haversine" in k.metrics][-1]
    'cdist/cpu_haversine_baseline'
    """
    rows = tuple(
        Kernel(**row | {"options": tuple(map(Option._make, row["options"]))})
        for row in _core.kernels()
    )
    if op is None:
        return rows
    ops = sorted({row.op for row in rows})
    if _table_op(op) not in ops:
        raise ValueError(f"op must be one of {', '.join(ops)}, got {op!r}")
    return tuple(row for row in rows if row.op == _table_op(op))


def _table_op(op: str) -> str:
    """Return under which name the table has the kernels of a function."""
    return {"pdist": "cdist", "transitive_closure": "closure"}.get(op, op)


def check_kernel(op: str, kernel: str, options: dict[str, int] | None) -> None:
    """Raise a ValueError for an unknown kernel, or options of none; the core checks a kernel's."""
    if kernel not in ("auto", "reference"):
        ids = [row.id for row in kernels(op)]
        if kernel not in ids:
            hint = errors.suggest(str(kernel), ids, f"one of {ids}")
            raise ValueError(f"unknown kernel {kernel!r} for {op}; 'auto', 'reference', or {hint}")
    if options and kernel in ("auto", "reference"):
        raise ValueError(f"kernel {kernel!r} takes no options, got {', '.join(map(repr, options))}")


def choose(
    op: str,
    *,
    dtype: str,
    metric: str,
    n: int,
    cols: int,
    kernel: str,
    device: str | None,
    elements_moved: int,
    operations: int,
    operands: str | None = None,
    operand_bytes: int = 0,
    weighted: bool = False,
    p: float = 2.0,
    semiring: str = "min_plus",
) -> Explanation:
    """Ask the core which kernel it would take, and put the answer into words.

    `elements_moved` are of `dtype`; `operand_bytes` are what operands of another dtype take, which
    `operands` names. `weighted` and `p` tell which of a metric's kernels its arguments lead to.
    """
    check_kernel(op, kernel, None)
    moved = elements_moved * np.dtype(dtype).itemsize + operand_bytes
    if kernel == "reference":
        return Explanation(op, kernel, "cpu", "asked for by name", {}, moved, operations)
    taken, where, reason, rejected = _core.choose(
        _table_op(op), dtype, metric, n, cols, kernel, device, operands, weighted, p, semiring
    )
    return Explanation(op, taken, where, reason, rejected, moved, operations)
