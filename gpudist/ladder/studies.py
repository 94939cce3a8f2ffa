"""The studies behind the ladders: their sizes, what they vary, and what their authors measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpudist.ladder.problems import Distances, Part, Paths, Problem, Root


@dataclass(frozen=True, slots=True)
class Figure:
    """What an author reports for a step.

    Parameters
    ----------
    seconds : float
        The time, computed from what is reported where that is a rate.
    text : str
        As reported.
    """

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Launch parameters that a study varies.

    Parameters
    ----------
    steps : tuple of int
        The steps that have them.
    options : mapping
        The values of each; every combination is run.
    """

    steps: tuple[int, ...]
    options: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Study:
    """A published study, of which every step is a kernel of ours.

    Parameters
    ----------
    name : str
        The ladder in the kernel table.
    summary : str
        What it computes, in one line.
    card : str
        What its author measured on.
    problems : tuple of Problem
        The study's sizes.
    small : Problem
        What the CPU is timed on, where the study's sizes would take minutes.
    make : callable
        Makes a problem of the numbers of ``--size``.
    numbers : tuple of str
        What those are called.
    tolerance : float
        The largest relative error that a step may have.
    figures : mapping
        What the author reports, by shape and step.
    sweeps : tuple of Sweep
        The launch parameters that ``--sweep`` varies, at the first size.
    grid : tuple of Problem
        The sizes that ``--sweep`` goes through.
    sizes : tuple of Problem
        Further sizes, climbed like `problems`, but shown in one table.
    versions : tuple of str
        Options that choose between versions of a part of a step, so that each is run.
    along : tuple of str
        Other ladders that are climbed with this one.
    """

    name: str
    summary: str
    card: str
    problems: tuple[Problem, ...]
    small: Problem
    make: Callable[..., Problem]
    numbers: tuple[str, ...]
    tolerance: float
    figures: Mapping[tuple[int, ...], Mapping[int, Figure]]
    sweeps: tuple[Sweep, ...] = ()
    grid: tuple[Problem, ...] = ()
    sizes: tuple[Problem, ...] = ()
    versions: tuple[str, ...] = ()
    along: tuple[str, ...] = ()

    def figure(
        self, shape: tuple[int, ...], step: int, options: Mapping[str, int]
    ) -> Figure | None:
        """Give what the author reports for a step.

        Parameters
        ----------
        shape : tuple of int
            The problem's.
        step : int
            The step.
        options : mapping
            Where they differ from the standard ones; nothing is reported for others.

        Returns
        -------
        Figure or None
            None where nothing is reported.
        """
        return None if options else self.figures.get(shape, {}).get(step)


def _times(unit: float, name: str, *values: float | None) -> dict[int, Figure]:
    """Give the figures of steps 1, 2, ... that are reported as times."""
    return {
        step: Figure(value * unit, f"{value:g} {name}")
        for step, value in enumerate(values, 1)
        if value is not None
    }


def _rates(written: float, *values: float) -> dict[int, Figure]:
    """Give those that are reported as GB/s."""
    return {
        step: Figure(written / (value * 1e9), f"{value:g} GB/s")
        for step, value in enumerate(values, 1)
    }


def _speed_ups(serial: float, values: Mapping[int, float]) -> dict[int, Figure]:
    """Give those that are reported as multiples of one thread's speed."""
    return {step: Figure(serial / value, f"{value:g}x") for step, value in values.items()}


def _points(n: int) -> Distances:
    return Distances(n, n, 2, "bytes", same=True)


def _descriptors(m: int, n: int, d: int) -> Distances:
    return Distances(m, n, d, "operations")


_BLOCKS = (32, 64, 128, 256, 512, 1024)

_EDM2D = Study(
    name="edm2d",
    summary="Euclidean distance matrix of points of the plane",
    card="RTX 5070 Ti",
    problems=(_points(30336),),
    small=_points(4000),
    make=_points,
    numbers=("N",),
    tolerance=1e-6,
    figures={(30336, 30336, 2): _rates(4.0 * 30336**2, 233, 359, 516, 681)},
    sweeps=(
        Sweep((1, 2), {"block": _BLOCKS}),
        Sweep((3, 4, 5, 6), {"block": _BLOCKS, "points_per_thread": (1, 2, 4, 8)}),
        Sweep((7,), {"block": _BLOCKS, "rows": (4, 8, 16, 32)}),
    ),
)

_PAIRWISE = Study(
    name="pairwise",
    summary="distances between two sets of descriptors",
    card="Titan V",
    problems=(_descriptors(2048, 1024, 16), _descriptors(2048, 1024, 1)),
    small=_descriptors(2048, 1024, 16),
    make=_descriptors,
    numbers=("M", "N", "D"),
    tolerance=1e-5,
    figures={
        (2048, 1024, 16): _times(1e-6, "us", 201, 52.2, 70.6, 45.1, 34.7),
        (2048, 1024, 1): _times(1e-6, "us", None, None, None, None, 17.4),
    },
    sweeps=(
        Sweep((1, 2, 3, 4), {"block": (8, 16, 32)}),
        Sweep((5,), {"rows_per_thread": (4, 8), "cols_per_thread": (4, 8)}),
    ),
)

_EULER = Study(
    name="euler",
    summary="distances between points stored dimension after dimension",
    card="a GPU that it does not name",
    problems=(_descriptors(16000, 1000, 200), _descriptors(1000, 1000, 15000)),
    small=_descriptors(1000, 1000, 200),
    make=_descriptors,
    numbers=("M", "N", "D"),
    tolerance=1e-3,
    figures={
        (16000, 1000, 200): _times(1e-3, "ms", 29.8, 20.8, 21.0, 15.1),
        (1000, 1000, 15000): _times(1e-3, "ms", 118.7, 68.0, 66.0, 32.7),
    },
    sweeps=(Sweep((1,), {"block": (8, 16, 32)}), Sweep((2, 3), {"tile": (8, 16, 32)})),
    grid=tuple(
        _descriptors(m, n, d)
        for m, n, d in (
            *((m, n, 200) for m in (1000, 4000, 16000) for n in (1000, 4000, 16000)),
            *((1000, 1000, d) for d in (400, 600, 800, 1000, 8000, 15000)),
        )
    ),
)

_SERIAL_PATHS = 867.7  # seconds, one thread of the author's CPU, N = 5000

_APSP = Study(
    name="apsp",
    summary="shortest paths between all pairs of nodes, Floyd-Warshall in int32",
    card="GTX 680",
    problems=(Paths(2000), Paths(5000)),
    small=Paths(500),
    make=Paths,
    numbers=("N",),
    tolerance=0.0,
    figures={(5000,): _speed_ups(_SERIAL_PATHS, {1: 21, 2: 73.9, 3: 75.2, 4: 27.3, 5: 100})},
    sweeps=(
        Sweep((1, 4, 6), {"block": (8, 16, 32)}),
        Sweep((2,), {"threads": _BLOCKS}),
        Sweep((3,), {"threads": _BLOCKS, "segment": (1, 2, 4, 8)}),
        Sweep((5,), {"segment": _BLOCKS}),
    ),
)

_PERRON = Study(
    name="perron",
    summary="largest eigenvalue of a positive matrix by the similarity transform",
    card="Iris Xe MAX",
    problems=(Root(8192),),
    small=Root(1024),
    make=Root,
    numbers=("N",),
    tolerance=1e-5,
    figures={},
    grid=tuple(Root(2**k) for k in range(7, 13)),
    versions=("row_sum", "vector_max", "eigenvector", "converged"),
    along=(
        "perron_row_sum",
        "perron_vector_max",
        "perron_eigenvector",
        "perron_transform",
        "perron_converged",
    ),
)


def _part(name: str, summary: str, steps: int, figures: Mapping[int, Figure]) -> Study:
    """Give the ladder of one part of the perron study, at the sizes where it was timed alone."""
    of_matrix = name in ("row_sum", "transform")
    sizes = [Part(name, 2**k) for k in (range(7, 14) if of_matrix else range(16, 26))]
    return Study(
        name=f"perron_{name}",
        summary=summary,
        card=_PERRON.card,
        problems=(sizes[-1],),
        small=Part(name, 1024 if of_matrix else 1 << 20),
        make=lambda n: Part(name, n),
        numbers=("N",),
        # A chain of 8192 float32 additions rounds as often.
        tolerance=1e-4 if name == "row_sum" else 1e-6,
        figures={sizes[-1].shape: figures},
        sweeps=(Sweep(tuple(range(1, steps + 1)), {"block": _BLOCKS}),),
        sizes=tuple(sizes[:-1]),
    )


_PARTS = (
    _part("row_sum", "sums of a matrix's rows", 3, _times(1e-3, "ms", 191747, 502, 220)),
    _part("vector_max", "the largest of the sums", 3, _times(1e-3, "ms", 91.2, 53.7, 53.7)),
    _part("eigenvector", "the vector times the sums", 2, _times(1e-3, "ms", 6.83, 6.90)),
    _part("transform", "a matrix rescaled by its row sums", 1, _times(1e-3, "ms", 9.96)),
    _part("converged", "whether neighbouring sums agree", 2, _times(1e-3, "ms", None, 54.0)),
)

STUDIES: dict[str, Study] = {
    study.name: study for study in (_EDM2D, _PAIRWISE, _EULER, _APSP, _PERRON, *_PARTS)
}
