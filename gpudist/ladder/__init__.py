"""Published kernel studies as ladders: every step a kernel that runs, is checked and timed.

``python -m gpudist ladder edm2d`` climbs one at the sizes of its study and prints, step by step,
the time, the fraction of the limit that the machine showed in the same run, the gain over the step
before, the author's own figure on the author's card, and beside them the kernel that ``auto``
takes and other libraries. Every step is held against float64 before it is timed. The kernels'
files, read in order, are a course: ``kernels/ladders/<ladder>/<step>_<idea>.cu``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpudist.ladder.problems import Distances, Part, Paths, Problem, Root
from gpudist.ladder.report import plot, show_climb, show_grid, show_sweep
from gpudist.ladder.runner import Runner, steps_of, sweep_of
from gpudist.ladder.studies import STUDIES, Figure, Study, Sweep
from gpudist.measure.devices import resolve
from gpudist.measure.records import write_line
from gpudist.measure.wording import show_machine

__all__ = [
    "STUDIES",
    "Distances",
    "Figure",
    "Part",
    "Paths",
    "Problem",
    "Root",
    "Runner",
    "Study",
    "Sweep",
    "check_sizes",
    "climb",
    "steps_of",
    "sweep_of",
]


def climb(
    names: Sequence[str],
    *,
    device: str | None = None,
    sizes: Sequence[int] = (),
    sweep: bool = False,
    json_path: Path | None = None,
    plot_path: Path | None = None,
    repeats: int = 7,
    source: str | None = None,
) -> bool:
    """Run ladders, print their tables, append their JSON lines to a file and draw a chart.

    Parameters
    ----------
    names : sequence of str
        Keys of `STUDIES`; ladders along with one of them are climbed too.
    device : str, optional
        ``cpu``, ``cuda`` or ``cuda:1``; by default the GPU where one can be used. On the CPU the
        plain loop and what ``auto`` takes are run, at a small size.
    sizes : sequence of int
        A size to run instead of the study's: as many numbers as the study's ``numbers``.
    sweep : bool, default False
        Whether to go through the launch parameters and sizes that the studies vary as well.
    json_path : Path, optional
        Where results are appended; nowhere by default.
    plot_path : Path, optional
        Where the chart is saved; needs Matplotlib.
    repeats : int, default 7
        Samples of each call.
    source : str, optional
        The revision to record, where neither git nor the installation knows it.

    Returns
    -------
    bool
        Whether every step that can run here ran and was right; rivals do not count.

    Raises
    ------
    ValueError
        A ladder does not take so many sizes, or sizes below 1.
    DeviceError
        If a GPU is asked for and cannot be used.
    """
    check_sizes(names, sizes)
    studies = [STUDIES[name] for name in _with_others(names)]
    runner = Runner(resolve(device), repeats=repeats, source=source)
    climbs: list[list[dict[str, Any]]] = []
    right = True
    with contextlib.ExitStack() as stack:
        stream = None
        if json_path is not None:
            stream = stack.enter_context(json_path.open("a", encoding="utf-8"))

        def keep(records: Any) -> list[dict[str, Any]]:
            nonlocal right
            kept = list(records)
            for record in kept:
                right &= record["role"] == "rival" or not {"wrong", "failed"} & set(record)
                if stream is not None:
                    write_line(record, stream)
            return kept

        show_machine(runner.provenance[runner.device])
        for study in studies:
            if not steps_of(study):
                print(f"{study.name}: this build has no step of it\n")
                continue
            print(f"{study.name}: {study.summary}\n")
            small = study.make(*sizes) if sizes and runner.backend == "cpu" else study.small
            climbs.append(keep(runner.climb(study, small, "cpu")))
            serial = next((record for record in climbs[-1] if record["role"] == "step"), None)
            show_climb(climbs[-1], serial)
            if runner.backend == "cpu":
                _say_what_cannot_run(study)
                continue
            if runner.arrays is None:
                print(
                    "no library holds arrays on this GPU, so times include the way over the bus: "
                    f"{runner.arrays_reason}\n"
                )
            for problem in [study.make(*sizes)] if sizes else study.problems:
                climbs.append(keep(runner.climb(study, problem, runner.device)))
                show_climb(climbs[-1], serial)
            further = [] if sizes else study.sizes
            show_grid([r for p in further for r in keep(runner.climb(study, p, runner.device))])
            if sweep:
                found = keep(runner.sweep(study))
                show_sweep([record for record in found if record["role"] == "sweep"])
                show_grid([record for record in found if record["role"] == "grid"])
    if plot_path is not None:
        plot(climbs, plot_path)
    return right


def check_sizes(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Raise a ValueError where a ladder does not take these sizes.

    Parameters
    ----------
    names : sequence of str
        Keys of `STUDIES`.
    sizes : sequence of int
        A size; none is fine.
    """
    for study in (STUDIES[name] for name in names if sizes):
        if len(sizes) != len(study.numbers) or min(sizes) < 1:
            wanted = " ".join(study.numbers)
            raise ValueError(f"the size of {study.name} is {wanted}, each at least 1")


def _with_others(names: Sequence[str]) -> list[str]:
    """Name each ladder once, with those that are climbed along with it behind it."""
    return list(dict.fromkeys(other for name in names for other in (name, *STUDIES[name].along)))


def _say_what_cannot_run(study: Study) -> None:
    """Say why the steps that need a GPU were left out."""
    left_out = [kernel for kernel in steps_of(study) if kernel.backend == "cuda"]
    if left_out:
        reason = left_out[0].why_not or "the CPU was asked for"
        ids = ", ".join(kernel.id for kernel in left_out)
        print(f"not run, since they need a GPU ({reason}): {ids}\n")
