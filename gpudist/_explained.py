"""What a call would do, in words: as text, and as HTML for notebooks."""

from __future__ import annotations

import textwrap
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudist.registry import Explanation

_WIDTH = 100
# A limit that allows a hundred times the speed is not worth words.
_TELLING = 0.01
# What the core says where the CPU was chosen before, which leaves open why.
_BY_THE_DEVICE = "it runs on CUDA, and the work is to be done on the CPU"
# What computes distances in panels, whose size goes by the cache.
_BY_PANELS = ("nearest", "knn", "radius_neighbors", "count_neighbors")


def text(said: Explanation) -> str:
    """Write an explanation as a short report.

    Parameters
    ----------
    said : Explanation
        What to write.

    Returns
    -------
    str
        Lines of at most 100 characters, without a newline after the last.
    """
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


def html(said: Explanation) -> str:
    """Write an explanation as HTML.

    Parameters
    ----------
    said : Explanation
        What to write.

    Returns
    -------
    str
        Two tables, the second folded away: the facts, and what speaks against other kernels.
    """
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
    in_boxes = said.kernel.startswith("neighbors/cpu_boxes")
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
    if said.devices:
        facts["shared by"] = f"{' and '.join(said.devices)}, each for the next panel of rows"
    if said.out_of_core is not None:
        facts["goes"] = (
            "through the device, which does not hold the matrix, in {blocks:,} blocks of {block:,} "
            "nodes: {bytes:,} bytes there, {each_way:,} over the bus each way"
        ).format_map(said.out_of_core)
    if said.held is not None:
        facts["holds"] = f"at most {said.held:,} bytes on {said.device}, beside the caller's"
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
