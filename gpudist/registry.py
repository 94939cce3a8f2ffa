"""What can run, and what would run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpudist import _core, arrays, checks, errors, several_gpus
from gpudist.work import UNITS, Work, distance_pipe

if TYPE_CHECKING:
    from gpudist.measure.ceilings import Ceiling, Floor


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
        The measured ceilings to hold the work against, as `gpudist.measure.measure_ceilings` gives
        them. By default those of the device, measured when they are first asked for (about a
        second) and kept for the life of the process.
    verbose : bool
        Whether the text says of every kernel that is not taken why.
    devices : tuple of str
        The GPUs that share the rows of the result, where several were asked for: ``device`` is the
        first of them, and memory is counted for one of their panels of rows.
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
        from gpudist import _explained

        return _explained.text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the report where IPython shows values."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        from gpudist import _explained

        return _explained.html(self)


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
    wanted = _table_ops(function_name(op))
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


# Under which names the table has the kernels of a function, where those are others. Neighbours are
# told by distances that kernels of cdist compute, or found by one that computes what it needs.
SEARCHES = ("nearest", "knn", "radius_neighbors", "count_neighbors")
_TABLE_OPS = {
    "transitive_closure": frozenset({"closure"}),
    "pdist": frozenset({"cdist"}),
} | dict.fromkeys(SEARCHES, frozenset({"cdist", "neighbors"}))


def _table_ops(op: str) -> frozenset[str]:
    """Return under which names the table has the kernels of a function."""
    return _TABLE_OPS.get(op, frozenset({op}))


@cache  # the table is the same all along, and making its records takes longer than a small call
def _ids(op: str) -> list[str]:
    return [row.id for row in kernels(op)]


def _near_ids(op: str, kernel: str, device: str | None) -> str:
    """Suggest kernels that could run in place of an unknown one."""
    if kernel.lower() in ("cpu", "cuda", "gpu"):
        return f"an id; where to compute is device={'cpu' if kernel.lower() == 'cpu' else 'cuda'!r}"
    backend = "" if device is None else device.partition(":")[0]
    fit = [row.id for row in kernels(op) if row.why_not is None and row.backend.startswith(backend)]
    otherwise = f"an id that gpudist.kernels({op!r}) lists"
    if "/" not in kernel:
        otherwise = errors.suggest(f"{op}/{kernel}", fit, otherwise)
    return errors.suggest(kernel, ["auto", *fit], otherwise)


def read_orders(
    op: str,
    kernel: str,
    options: dict[str, int] | None,
    device: Any,
    progress: Any = False,
    max_memory: Any = None,
) -> tuple[str | None, int | None]:
    """Return `device` and `max_memory` as the core takes them.

    Raise an error for an unknown kernel, and for orders that one without a row cannot obey: of all
    others the core checks them.
    """
    checks.text("kernel", kernel)
    device, max_memory = checks.device("device", device), checks.max_memory(max_memory)
    if op not in several_gpus.FUNCTIONS:
        several_gpus.refuse(device, op)
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dictionary, got {type(options).__name__}")
    if kernel not in ("auto", "reference") and kernel not in _ids(op):
        hint = _near_ids(op, kernel, device)
        raise ValueError(f"unknown kernel {kernel!r} for {op}; 'auto', 'reference', or {hint}")
    if options and kernel in ("auto", "reference"):
        raise ValueError(f"kernel {kernel!r} takes no options, got {', '.join(map(repr, options))}")
    if kernel != "reference":
        return device, max_memory
    if device not in (None, "cpu"):
        raise ValueError(
            f"device must be None or 'cpu' for kernel 'reference', which is NumPy, got {device!r}"
        )
    for name, given in (
        ("progress", progress is not False),
        ("max_memory", max_memory is not None),
    ):
        if given:
            raise ValueError(f"{name} is not for kernel 'reference', which is NumPy")
    return device, max_memory


class Request(NamedTuple):
    """What a kernel is asked for: all that the core's choice depends on but the caller's orders.

    Attributes
    ----------
    op : str
        The operation of the table whose rows are chosen from.
    dtype : str
        The dtype of computation.
    n, cols : int
        Rows and columns of the second operand, or the nodes of a graph and none.
    metric : str or None
        Of distances, the metric; the next six are for these alone.
    operands : str or None
        "bool" where the operands are truths.
    weighted, periodic : bool
        Whether columns have weights, or lengths of a box.
    factored : bool
        Whether mahalanobis's matrix has a factor.
    p : float
        minkowski's exponent.
    rows : int
        Rows of the first operand, which decide between kernels of equal bits alone.
    direct : bool
        Whether distances must be of the direct form, as searches have them.
    neighbors : int
        How many neighbours are searched for.
    semiring : str
        Of products and paths, the semiring.
    """

    op: str
    dtype: str
    n: int
    cols: int
    metric: str | None = None
    operands: str | None = None
    weighted: bool = False
    periodic: bool = False
    factored: bool = True
    p: float = 2.0
    rows: int = 0
    direct: bool = False
    neighbors: int = 0
    semiring: str = "min_plus"

    def kernel_by(
        self, kernel: str | None, device: str | None, *, in_panels: bool = False
    ) -> tuple[str, str, str, dict[str, str]]:
        """Return the core's choice: kernel, device, why, and why not the others.

        Parameters
        ----------
        kernel : str or None
            The one asked for by name, or "auto" or None.
        device : str or None
            The one asked for.
        in_panels : bool
            Whether a search is to look through panels of distances.
        """
        return _core.choose(
            self.op,
            self.dtype,
            self.metric,
            self.n,
            self.cols,
            kernel,
            device,
            self.operands,
            self.weighted,
            self.p,
            self.semiring,
            self.rows,
            in_panels=in_panels,
            direct=self.direct,
            neighbors=self.neighbors,
            factored=self.factored,
            periodic=self.periodic,
        )


class Amounts(NamedTuple):
    """How much a call moves and computes.

    Attributes
    ----------
    moved, written : int
        Elements of the dtype of computation that are read or written, and those of them that are
        results.
    operations : int
        Inner steps.
    operand_bytes, result_bytes : int
        What operands and results of other dtypes take.
    copies : int
        Bytes beside operands and results.
    """

    moved: int
    operations: int
    written: int = 0
    operand_bytes: int = 0
    result_bytes: int = 0
    copies: int = 0


def choose(
    function: str,
    request: Request,
    amounts: Amounts,
    *,
    kernel: str,
    device: str | None,
    space: arrays.Space,
) -> Explanation:
    """Ask the core which kernel it would take, and put the answer into words.

    Parameters
    ----------
    function : str
        What the caller calls.
    request : Request
        What the kernel is asked for.
    amounts : Amounts
        How much it moves and computes.
    kernel, device : str
        The orders; `device` is the one asked for, or the one that the operands are on.
    space : Space
        Where the operands are.

    Returns
    -------
    Explanation
        The answer.
    """
    if kernel == "reference":
        arrays.refuse_devices(space, 'kernel="reference"')
    read_orders(function, kernel, None, device)
    dtype, metric, operations = request.dtype, request.metric, amounts.operations
    size = np.dtype(dtype).itemsize
    moved = amounts.moved * size + amounts.operand_bytes + amounts.result_bytes
    taken, where, reason = kernel, "cpu", "asked for by name"
    rejected: dict[str, str] = {}
    if kernel != "reference":
        taken, where, reason, rejected = request.kernel_by(kernel, device)
    unit, pipe, slots = UNITS.get(function, "operations"), None, 1.0
    if metric == "haversine":
        unit, operations = "pairs", operations // max(request.cols, 1)
    elif metric is not None and request.operands != "bool":
        pipe, slots = distance_pipe(taken, metric, dtype, p=request.p, weighted=request.weighted)
    elif unit == "updates" and dtype != "bool":
        pipe = "minplus"
    written = amounts.written * size + amounts.result_bytes
    work = Work(moved - written, written, operations, unit, pipe, slots)
    return Explanation(
        function,
        taken,
        where,
        reason,
        rejected,
        moved,
        operations,
        dtype,
        metric,
        work,
        amounts.copies,
        space is arrays.HOST,
    )
