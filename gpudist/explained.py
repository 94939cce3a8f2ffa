"""What a call would do, as a record, and in words: as text, and as HTML for notebooks."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from gpudist.work import Work

if TYPE_CHECKING:
    from gpudist.measure.ceilings import Ceiling, Floor

_WIDTH = 100
# A limit that allows a hundred times the speed is not worth words.
_TELLING = 0.01
# What the core says where the CPU was chosen before, which leaves open why.
_BY_THE_DEVICE = "it runs on CUDA, and the work is to be done on the CPU"
# What computes distances in panels, whose size goes by the cache.
_BY_PANELS = ("nearest", "knn", "radius_neighbors", "count_neighbors")


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a call would do; its text, and its table in a notebook, read as a short report.

    The report has what matters in some ten lines. With ``verbose=True`` it has what speaks against
    each of the other kernels as well; the attributes have everything in any case.

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
        How a matrix that the device does not hold goes through it, or through all of several: in
        how many "blocks" of "block" nodes each, what that holds there ("bytes"), and the bytes that
        cross all buses "each_way".
    held : int or None
        For distances, and for shortest paths on several GPUs: the most bytes of the device's memory
        that the call holds at once, which ``max_memory=`` bounds; arrays that are the caller's do
        not count.
    panels, parts : int
        For distances: into how many panels of rows the result is cut, and into how many parts the
        second operand, which is brought to the device again for each panel if there are several:
        ``work.read`` has all of these bytes.
    ceilings : mapping, optional
        The measured ceilings to hold the work against, as `gpudist.measure.measure_ceilings` gives
        them. By default those of the device, measured when they are first asked for (about a
        second) and kept for the life of the process.
    verbose : bool
        Whether the text says of every kernel that is not taken why.
    devices : tuple of str
        The GPUs that share the rows of the result, where several were asked for: ``device`` is the
        first of them, and memory is counted for one of their panels of rows, or for all rows of
        shortest paths.
    rows : tuple of pairs of int
        For shortest paths, of each of these GPUs the first row that it holds, and the one after its
        last, if together they hold all.
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
    verbose: bool = False
    devices: tuple[str, ...] = ()
    rows: tuple[tuple[int, int], ...] = ()

    @property
    def memory(self) -> int:
        """Bytes that have to be there: operands, results and copies."""
        return self.bytes + self.copies

    @property
    def limits(self) -> tuple[Floor, ...]:
        """The least time by each limit of the machine that the call meets, the longest first."""
        from gpudist.measure import ceilings

        known = self.ceilings
        if known is None:
            known = ceilings.ceilings_of(self.device)
        crosses = self.on_host and self.device != "cpu"
        found = ceilings.floors(self.work, self.dtype, known, through_host=crosses)
        shared = max(len(self.devices), 1)
        return tuple(replace(floor, seconds=floor.seconds / shared) for floor in found)

    @property
    def limit(self) -> Floor | None:
        """The limit that binds, None where none of those measured applies."""
        return next(iter(self.limits), None)

    def __repr__(self) -> str:
        """Give the choice."""
        return f"<Explanation: {self.op} runs {self.kernel} on {self.device}>"

    def __str__(self) -> str:
        """Return the report."""
        return _text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the report where IPython shows values."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        return _html(self)


def _text(said: Explanation) -> str:
    """Return the report: lines of at most 100 characters, without a newline after the last."""
    lines = [f"{said.op} runs {said.kernel} on {said.device}"]
    for name, value in _facts(said).items():
        lines += textwrap.wrap(
            f"{name}: {value}",
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    if said.verbose:
        lines += [f"  not {id}: {why}" for id, why in said.rejected.items()]
    elif said.rejected:
        lines.append(
            f"  {len(said.rejected)} other kernels: verbose=True says why not each of them"
        )
    return "\n".join(lines)


def _against_cuda(said: Explanation) -> str | None:
    """Give what most of CUDA's kernels were not taken for, where the CPU is."""
    on_cuda = [why for id, why in said.rejected.items() if "/cuda_" in id]
    if said.device != "cpu" or not on_cuda:
        return None
    telling = [why for why in on_cuda if why != _BY_THE_DEVICE]
    return Counter(telling or on_cuda).most_common(1)[0][0]


def _html(said: Explanation) -> str:
    """Return two tables, the second folded away: the facts, and what speaks against others."""
    heading = f"{said.op} runs <code>{escape(said.kernel)}</code> on {escape(said.device)}"
    facts = _rows(_facts(said))
    if not said.rejected:
        return f"<p><b>{heading}</b></p>{facts}"
    others = _rows({f"<code>{escape(id)}</code>": why for id, why in said.rejected.items()})
    tag = "details open" if said.verbose else "details"
    return (
        f"<p><b>{heading}</b></p>{facts}"
        f"<{tag}><summary>why not the other {len(said.rejected)}</summary>{others}</details>"
    )


def _rows(facts: dict[str, str]) -> str:
    """Set names, which are HTML, beside values, which are text."""
    cell = '<td style="text-align:left">'
    rows = (
        f"<tr>{cell}{name}</td>{cell}{escape(value)}</td></tr>" for name, value in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _facts(said: Explanation) -> dict[str, str]:
    """Give what there is to say, by name."""
    from gpudist.measure.wording import duration, quantity

    work = said.work
    in_boxes = said.kernel.startswith(("neighbors/cpu_boxes", "neighbors/cuda_boxes"))
    by_bounds = said.kernel.startswith("neighbors/cpu_product")
    in_panels = said.op in _BY_PANELS and said.kernel.startswith("cdist/")
    panels = "megabytes" if said.device == "cpu" else "hundreds of megabytes"
    facts = {
        "because": said.reason,
        "computes": f"{'at most ' * in_boxes}{work.operations:,} {work.unit} in {said.dtype}",
        "moves": f"{work.read:,} bytes in, {work.written:,} bytes out, at least",
        "needs": f"{said.memory:,} bytes of memory"
        + (f", {said.copies:,} of them for its own copies" if said.copies else "")
        + (", and some times those of XB for its boxes" if in_boxes else "")
        + (", and as many as XB has in float32 for its products" if by_bounds else "")
        + (f", and some {panels} for panels of distances" if in_panels else ""),
    }
    if said.rows:
        shares = zip(said.devices, said.rows, strict=True)
        held = (f"{device} with rows {first:,} to {end - 1:,}" for device, (first, end) in shares)
        facts["shared by"] = f"{' and '.join(held)}, which send each other the pivots' rows"
    elif said.devices:
        share = (
            "the next panel of rows"
            if said.out_of_core is None
            else "as many rows, which send each other those of a block"
        )
        facts["shared by"] = f"{' and '.join(said.devices)}, each for {share}"
    if said.out_of_core is not None:
        through, buses = (
            ("all of them, which do", "all buses")
            if said.devices
            else ("the device, which does", "the bus")
        )
        facts["goes"] = (
            f"through {through} not hold the matrix, in {{blocks:,}} blocks of {{block:,}} nodes: "
            f"{{bytes:,}} bytes there, {{each_way:,}} over {buses} each way"
        ).format_map(said.out_of_core)
    if said.held is not None:
        where = "each of them" if said.rows or said.out_of_core is not None else said.device
        facts["holds"] = f"at most {said.held:,} bytes on {where}, beside the caller's"
        if said.panels > 1:
            facts["holds"] += f"; the result in {said.panels:,} panels of rows"
        if said.parts > 1:
            facts["holds"] += f", XB in {said.parts:,} parts for each"
    against = _against_cuda(said)
    if against is not None:
        facts["not on CUDA"] = against
    limits = said.limits
    if limits:
        binding, *others = limits
        ceiling = binding.ceiling
        facts["takes"] = (
            f"at least {duration(binding.seconds)} on this machine: its limit is {ceiling.name}, "
            f"{quantity(ceiling.rate, ceiling.unit)}"
        )
        telling = [o for o in others if said.verbose or o.seconds > _TELLING * binding.seconds]
        if telling:
            facts["takes"] += "; " + ", ".join(
                f"{other.ceiling.name} alone {duration(other.seconds)}" for other in telling
            )
    return facts
