"""What can run, and what would run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, errors
from gpudist.work import UNITS, Work, distance_pipe

if TYPE_CHECKING:
    from gpudist.bench.ceilings import Ceiling, Floor


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
        What it computes: "cdist", "apsp", "closure", "minplus", "perron", a "perron_part" of the
        study's loop, or a "ceiling".
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
    layout : {"rows", "dims"}
        How it assumes its operands to lie: row after row, or dimension after dimension. Operands
        that lie otherwise are copied first.
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
    layout: str
    why_not: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a call would do; its text, and its table in a notebook, read as a short report.

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
    dtype : str
        What it computes in.
    metric : str or None
        The metric, where the operation has one.
    work : Work
        The same in the terms of the machine's limits: bytes read and written, operations and the
        ceiling that bounds them.
    copies : int
        Bytes that the call needs besides operands and results.
    on_host : bool
        Whether operands and results are in the host's memory.
    out_of_core : dict of str to int, optional
        How a matrix that the device does not hold goes through it: in how many "blocks" of "block"
        nodes each, what that holds there ("bytes"), and the bytes that cross the bus "each_way".
    held : int or None
        For distances: the most bytes of the device's memory that the call holds at once, which
        ``max_memory=`` bounds; arrays that are the caller's do not count.
    panels, parts : int
        For distances: into how many panels of rows the result is cut, and into how many parts the
        second operand, which is brought to the device again for each panel if there are several:
        ``work.read`` has all of these bytes.
    ceilings : mapping, optional
        The measured ceilings to hold the work against, as `gpudist.bench.measure_ceilings` gives
        them. By default those of the device, measured when they are first asked for (about a
        second) and kept for the life of the process.
    """

    op: str
    kernel: str
    device: str
    reason: str
    rejected: dict[str, str]
    bytes: int
    operations: int
    dtype: str
    metric: str | None
    work: Work
    copies: int = 0
    on_host: bool = True
    out_of_core: dict[str, int] | None = None
    held: int | None = None
    panels: int = 1
    parts: int = 1
    ceilings: Mapping[str, Ceiling] | None = None

    @property
    def memory(self) -> int:
        """Bytes that have to be there: operands, results and copies."""
        return self.bytes + self.copies

    @property
    def limits(self) -> tuple[Floor, ...]:
        """The least time by each limit of the machine that the call meets, the longest first."""
        from gpudist.bench import ceilings

        known = self.ceilings
        if known is None:
            known = ceilings.ceilings_of(self.device)
        crosses = self.on_host and self.device != "cpu"
        return ceilings.floors(self.work, self.dtype, known, through_host=crosses)

    @property
    def limit(self) -> Floor | None:
        """The limit that binds, None where none of those measured applies."""
        return next(iter(self.limits), None)

    def __str__(self) -> str:
        """Return the report."""
        from gpudist import _explained

        return _explained.text(self)

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        from gpudist import _explained

        return _explained.html(self)


def kernels(op: str | None = None) -> tuple[Kernel, ...]:
    """List everything that can compute, in order of preference.

    Parameters
    ----------
    op : str, optional
        Only the kernels of this operation: "cdist", "apsp", "closure", "minplus", "perron",
        "perron_part" or "ceiling"; "pdist" runs those of cdist, "transitive_closure" those of
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
    if _table_op(checks.text("op", op)) not in ops:
        raise ValueError(f"op must be one of {', '.join(ops)}, got {op!r}")
    return tuple(row for row in rows if row.op == _table_op(op))


def _table_op(op: str) -> str:
    """Return under which name the table has the kernels of a function."""
    return {"pdist": "cdist", "transitive_closure": "closure"}.get(op, op)


@cache  # the table is the same all along, and making its records takes longer than a small call
def _ids(op: str) -> list[str]:
    return [row.id for row in kernels(op)]


def check_kernel(
    op: str,
    kernel: str,
    options: dict[str, int] | None,
    device: str | None,
    progress: Any = False,
    max_memory: int | None = None,
) -> None:
    """Raise an error for an unknown kernel, and for orders that one without a row cannot obey.

    Of all others the core checks them.
    """
    checks.text("kernel", kernel)
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dictionary, got {type(options).__name__}")
    if kernel not in ("auto", "reference"):
        ids = _ids(op)
        if kernel not in ids:
            hint = errors.suggest(kernel, ids, f"an id that gpudist.kernels({op!r}) lists")
            raise ValueError(f"unknown kernel {kernel!r} for {op}; 'auto', 'reference', or {hint}")
    if options and kernel in ("auto", "reference"):
        raise ValueError(f"kernel {kernel!r} takes no options, got {', '.join(map(repr, options))}")
    if kernel != "reference":
        return
    if device is not None and checks.text("device", device) != "cpu":
        raise ValueError(
            f"device must be None or 'cpu' for kernel 'reference', which is NumPy, got {device!r}"
        )
    for name, given in (
        ("progress", progress is not False),
        ("max_memory", max_memory is not None),
    ):
        if given:
            raise ValueError(f"{name} is not for kernel 'reference', which is NumPy")


def choose(
    op: str,
    *,
    dtype: str,
    n: int,
    cols: int,
    kernel: str,
    device: str | None,
    space: arrays.Space,
    elements_moved: int,
    operations: int,
    metric: str | None = None,
    elements_written: int = 0,
    operands: str | None = None,
    operand_bytes: int = 0,
    result_bytes: int = 0,
    weighted: bool = False,
    p: float = 2.0,
    copies: int = 0,
    semiring: str = "min_plus",
    rows: int = 0,
) -> Explanation:
    """Ask the core which kernel it would take, and put the answer into words.

    `device` is the one asked for, or the one that the operands of `space` are on.
    `elements_moved` are of `dtype`, `elements_written` of them results; `operand_bytes` are what
    operands of another dtype take, which `operands` names, and `result_bytes` results of another
    dtype; `copies` are bytes beside both. `metric`, `weighted` and `p` are for distances: they tell
    which of a metric's kernels its arguments lead to. `rows` are those of the first operand, which
    decide between kernels of equal bits alone.
    """
    if kernel == "reference":
        arrays.refuse_devices(space, 'kernel="reference"')
    check_kernel(op, kernel, None, device)
    size = np.dtype(dtype).itemsize
    moved = elements_moved * size + operand_bytes + result_bytes
    taken, where, reason = kernel, "cpu", "asked for by name"
    rejected: dict[str, str] = {}
    if kernel != "reference":
        taken, where, reason, rejected = _core.choose(
            _table_op(op),
            dtype,
            metric,
            n,
            cols,
            kernel,
            device,
            operands,
            weighted,
            p,
            semiring,
            rows,
        )
    unit, pipe, slots = UNITS.get(op, "operations"), None, 1.0
    if metric == "haversine":
        unit, operations = "pairs", operations // max(cols, 1)
    elif metric is not None and operands != "bool":
        pipe, slots = distance_pipe(taken, metric, dtype, p=p, weighted=weighted)
    elif unit == "updates" and dtype != "bool":
        pipe = "minplus"
    written = elements_written * size + result_bytes
    work = Work(moved - written, written, operations, unit, pipe, slots)
    return Explanation(
        op,
        taken,
        where,
        reason,
        rejected,
        moved,
        operations,
        dtype,
        metric,
        work,
        copies,
        space is arrays.HOST,
    )
