"""What can run: the rows of the kernel table as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpudist import _core, checks
from gpudist.intake import table_ops


class Option(NamedTuple):
    """A launch parameter of a kernel: one of least, least + step, ..., most."""

    name: str
    least: int
    most: int
    standard: int
    step: int


@dataclass(frozen=True, slots=True, repr=False)
class Kernel:
    """One row of the kernel table.

    Attributes
    ----------
    id : str
        The name by which ``kernel=`` asks for it.
    op : str
        What it computes: "cdist", "apsp", "apsp_batch" (of many graphs), "hops" (apsp's where
        edges are few and weigh 1), "closure", "minplus", "neighbors", "gradient" (of distances),
        "perron", a "perron_part" of the study's loop, or a "ceiling".
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
        The least processor: an instruction set, or which compute capabilities.
    generations : tuple of str
        The generations of GPUs that it is for, by the compute capability of their first device;
        none for a kernel of the CPU.
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
    generations: tuple[str, ...]
    idea: str
    source: str
    teaching: bool
    options: tuple[Option, ...]
    layout: str
    why_not: str | None

    def __repr__(self) -> str:
        """Give the id, and what keeps the kernel from running."""
        state = "runs here" if self.why_not is None else self.why_not
        return f"<Kernel {self.id}: {state}>"

    @property
    def family(self) -> str:
        """What it belongs to: its operation, or the ladder that it is a step of."""
        in_ladder = self.ladder not in ("production", "ceilings")
        return f"ladder {self.ladder.partition('_')[0]}" if in_ladder else self.op


class Kernels(tuple[Kernel, ...]):
    """Kernels in order of preference, which a notebook shows as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Give the numbers of kernels."""
        here = sum(kernel.why_not is None for kernel in self)
        counts = Counter(kernel.family for kernel in self)
        families = ", ".join(f"{family} {count}" for family, count in counts.items())
        return f"<{len(self)} kernels, {here} of them run here: {families}>"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        from gpudist._tables import Column, Table

        titles = ("kernel", "runs here", "types", "metrics", "idea")
        table = Table([Column(title) for title in titles])
        for kernel in self:
            table.add(
                kernel.id,
                "yes" if kernel.why_not is None else f"no: {kernel.why_not}",
                " ".join(kernel.dtypes),
                " ".join(kernel.metrics),
                kernel.idea,
            )
        return table.html()


def kernels(op: str | Callable[..., Any] | None = None) -> Kernels:
    """List everything that can compute, in order of preference.

    Parameters
    ----------
    op : str or function of gpudist, optional
        Only the kernels of this operation: "cdist", "apsp", "apsp_batch", "hops", "closure",
        "minplus", "perron", "perron_part", "neighbors", "gradient" or "ceiling"; "pdist" runs those
        of cdist, the neighbours' functions those of cdist and of neighbors, "transitive_closure"
        those of closure.

    Returns
    -------
    Kernels
        A tuple of the rows of the kernel table. It has a short repr, and is a table in a notebook.

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
    rows = Kernels(
        Kernel(**row | {"options": tuple(map(Option._make, row["options"]))})
        for row in _core.kernels()
    )
    if op is None:
        return rows
    ops = sorted({row.op for row in rows})
    wanted = table_ops(function_name(op))
    if not wanted <= set(ops):
        raise ValueError(f"op must be one of {', '.join(ops)}, got {op!r}")
    return Kernels(row for row in rows if row.op in wanted)


def function_name(op: Any) -> str:
    """Return the name of a function of the package, given itself or by a name of its operation."""
    import gpudist

    name = str(getattr(op, "__name__", ""))
    if callable(op) and getattr(gpudist, name, None) is op:
        return name
    text = checks.text("op", op)
    return "transitive_closure" if text == "closure" else text
