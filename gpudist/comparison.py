"""One call beside other libraries: time, spread and error on the same data."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpudist import arrays, checks, errors, explanation, many_graphs, registry
from gpudist._core import DeviceError
from gpudist.explained import Explanation

if TYPE_CHECKING:
    from gpudist.measure.devices import DeviceArrays
    from gpudist.measure.rivals import Rival, Task
    from gpudist.measure.samples import Sample
    from gpudist.measure.timing import Timing

_FAMILIES = {
    "scipy": "scipy",
    "numpy": "numpy",
    "torch": "torch",
    "sklearn": "scikit-learn",
    "scikit-learn": "scikit-learn",
    "cupy": "cupy",
    "faiss": "faiss-cpu",
    "numkong": "numkong",
    "rustworkx": "rustworkx",
    "networkit": "networkit",
}
"""What `compare` calls other libraries, and their names on the package index."""

# How many of a function's positional arguments are operands.
_OPERANDS = {
    "cdist": 2,
    "pdist": 1,
    "nearest": 2,
    "knn": 2,
    "radius_neighbors": 2,
    "count_neighbors": 2,
    "apsp": 1,
    "transitive_closure": 1,
    "minplus": 3,
    "perron": 1,
}
# What says where results go, or how they are told of, and not what is to be computed.
_NOT_COMPARED = ("out", "overwrite", "progress", "options", "labels", "bands", "checkpoint")
# What others do by one function for k neighbours.
_SEARCHES = ("knn", "nearest")
# Rows on which a rival's time is estimated before all of them are tried.
_TRIAL_ROWS = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One way of doing the work.

    Attributes
    ----------
    name : str
        A kernel of ours or another library's function.
    version : str or None
        The library's version.
    ours : bool
        Whether it is a kernel of ours.
    device : str
        Where it ran: "cpu" or "cuda:N".
    timing : Timing or None
        Seconds per call with arrays where they are worked on; None where it did not run.
    transfer : float or None
        Seconds for the ways to the device and back, where the arrays were not there.
    error : float or None
        The largest relative error against float64, on some rows.
    note : str
        Why it did not run, if so.
    does : str
        What another library's call does, so that its time can be read: how many threads it takes,
        in which precision, what it builds anew.
    """

    name: str
    version: str | None
    ours: bool
    device: str
    timing: Timing | None = None
    transfer: float | None = None
    error: float | None = None
    note: str = ""
    does: str = ""

    @property
    def seconds(self) -> float | None:
        """Time from arrays where they were given to a result beside them, None where it failed."""
        return None if self.timing is None else self.timing.median + (self.transfer or 0.0)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """What `gpudist.compare` found; its text, and its table in a notebook, show all of it.

    Attributes
    ----------
    op, dtype, device : str
        The function, what it computes in, and where it runs.
    shape : tuple of int
        The operands' sizes.
    arguments : str
        The other arguments in words.
    entries : tuple of Entry
        What ``kernel="auto"`` takes first, then our other kernels, then other libraries.
    explanation : Explanation
        Why that kernel, and the limit of the machine that binds it.
    provenance : dict
        Device, driver, revision and versions, as in the benchmarks' JSON lines.
    checked_rows : int
        Rows of the result that were held against float64.
    """

    op: str
    dtype: str
    device: str
    shape: tuple[int, ...]
    arguments: str
    entries: tuple[Entry, ...]
    explanation: Explanation
    provenance: dict[str, Any]
    checked_rows: int

    @property
    def ours(self) -> Entry:
        """The entry of what ``kernel="auto"`` takes."""
        return self.entries[0]

    @property
    def fastest(self) -> Entry | None:
        """The entry with the shortest time, None where nothing ran."""
        ran = [entry for entry in self.entries if entry.seconds is not None]
        return min(ran, key=lambda entry: entry.seconds or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as numbers and text that JSON can hold.

        Returns
        -------
        dict
            The provenance's fields, the case, the limit that binds, and a list of entries.
        """
        limit = self.explanation.limit
        return {
            **self.provenance,
            "op": self.op,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "arguments": self.arguments,
            "checked_rows": self.checked_rows,
            "floor_s": None if limit is None else limit.seconds,
            "bound_by": None if limit is None else limit.ceiling.name,
            "entries": [self._entry(entry) for entry in self.entries],
        }

    def _entry(self, entry: Entry) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": entry.name,
            "version": entry.version,
            "ours": entry.ours,
            "device": entry.device,
        }
        if entry.timing is None:
            return made | {"note": entry.note}
        error = entry.error
        return made | {
            **entry.timing.fields(),
            "transfer_s": entry.transfer,
            "ratio": self._ratio(entry),
            "does": entry.does,
            "max_relative_error": error if error is None or np.isfinite(error) else str(error),
        }

    def _ratio(self, entry: Entry) -> float | None:
        """Give an entry's time over ours."""
        if entry.seconds is None or not self.ours.seconds:
            return None
        return entry.seconds / self.ours.seconds

    def plot(self, ax: Any = None) -> Any:
        """Draw the times, with the least that the machine allows as a line.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            With one bar for each entry that ran.
        """
        from gpudist.measure import chart

        limit = self.explanation.limit
        ran = [(_name(e), e.seconds, e.ours) for e in self.entries if e.seconds is not None]
        return chart.bars(
            ran,
            heading=f"{self._title()}\n{self.provenance['device_name']}",
            label="milliseconds a call, transfers included (logarithmic)",
            floor=None if limit is None else limit.seconds,
            ax=ax,
        )

    def _title(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        return " ".join(filter(None, [self.op, sizes, self.dtype, self.arguments]))

    def _table(self, with_does: bool) -> Any:
        from gpudist._tables import Column, Table
        from gpudist.measure.wording import digits, duration, error_text

        limit = self.explanation.limit
        heading = f"{self._title()} on {self.device}, {self.provenance['device_name']}"
        if limit is not None:
            heading += f"; at least {duration(limit.seconds)} ({limit.ceiling.name})"
        moved = any(entry.transfer is not None for entry in self.entries)
        table = Table(
            [
                Column(""),
                Column("on"),
                Column("time", right=True),
                Column("quartiles", right=True),
                *([Column("transfer", right=True)] if moved else []),
                Column("to ours", right=True),
                Column("max error", right=True),
                Column("", wrap=True),
            ],
            title=heading,
        )
        for entry in self.entries:
            timing, ratio = entry.timing, self._ratio(entry)
            cells = ["", ""]
            if timing is not None:
                cells = [duration(timing.median), " - ".join(map(duration, timing.quartiles))]
            if moved:
                cells.append("" if entry.transfer is None else duration(entry.transfer))
            table.add(
                _name(entry),
                entry.device,
                *cells,
                "" if ratio is None else f"{digits(ratio)}x",
                "" if entry.error is None else error_text(entry.error),
                entry.note or (entry.does if with_does else ""),
            )
        return table

    def __repr__(self) -> str:
        """Give the call and the fastest."""
        fastest = self.fastest
        end = "nothing ran" if fastest is None else f"{fastest.name} is the fastest"
        return f"<Comparison: {self._title()} on {self.device}: {end}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the table where IPython shows values."""
        printer.text(str(self))

    def __str__(self) -> str:
        """Return the table as text, and below it what the other libraries' calls do."""
        ran = [entry for entry in self.entries if entry.timing is not None]
        lines = [f"{entry.name}: {entry.does}" for entry in ran if entry.does]
        return "\n".join([self._table(with_does=False).plain(), *lines])

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return str(self._table(with_does=True).html())


def _name(entry: Entry) -> str:
    return " ".join(filter(None, [entry.name, entry.version]))


def compare(
    op: str | Callable[..., Any],
    *operands: Any,
    against: str | Sequence[str] | None = None,
    kernels: str | Sequence[str] = "auto",
    device: object = None,
    repeats: int = 7,
    budget: float = 10.0,
    **arguments: Any,
) -> Comparison:
    """Time a call beside other libraries on the same data, and hold each against float64.

    Parameters
    ----------
    op : str or function
        "cdist", "pdist", "knn", "nearest", "apsp", "transitive_closure", "minplus" or "perron", or
        that function; any other of the package that `explain` knows will do too.
    *operands
        Its arrays, on the host or on a CUDA device.
    against : str or sequence of str, optional
        Other libraries: "scipy", "numpy", "torch", "sklearn", "cupy", "faiss", "numkong",
        "rustworkx" or "networkit". By default all but "numpy" that have something for the
        operation. PyTorch and CuPy run on the device that ours runs on; what only knows the CPU
        runs there.
    kernels : {"auto", "all"}, str or sequence of str
        "auto" times what the call would take, "all" every kernel of the table; or ids of kernels to
        time besides what the call would take.
    device : str, optional
        For operands on the host, where to compute, as for the function itself.
    repeats : int, default 7
        Samples of each call, after one that warms up.
    budget : float, default 10
        Seconds for each. What would take longer by the time of a few rows is not run.
    **arguments
        The function's other arguments: ``metric="cityblock"``, ``return_predecessors=True``.

    Returns
    -------
    Comparison
        One entry for each kernel, and for each function of a library that does this; one that is
        missing, does not know the metric or runs out of memory says so, and of the others it is
        said what their call does. Print it, or let a notebook show it; `Comparison.plot` draws it
        and `Comparison.to_dict` gives the numbers.

    Raises
    ------
    TypeError
        An argument is of the wrong type, or the function does not take it; or it is one that says
        where results go or how they are told of, as ``out``, ``overwrite`` and ``progress`` do, or
        for cdist `rows`.
    ValueError
        There is no such function, kernel or library, or `repeats` or `budget` is not positive;
        operands are batches or several graphs; or the function itself raises it.
    gpudist.DeviceError
        The function would raise it.

    See Also
    --------
    explain : Which kernel a call takes, why, and what the machine allows.

    Notes
    -----
    Times are of device events where arrays are on a device, the caches flushed between samples, and
    of the monotonic clock where they are not. For operands on the host and a kernel on a GPU, times
    are shown with the arrays on the device, and the ways there and back apart; those of ours are
    what the whole call takes longer than that. Errors are the largest relative ones on some rows.

    Examples
    --------
    >>> import gpudist
    >>> import numpy as np
    >>> points = np.random.default_rng(0).random((300, 3))
    >>> found = gpudist.compare("cdist", points, points, against=["scipy"], device="cpu", repeats=3)
    >>> [entry.name for entry in found.entries]  # doctest: +ELLIPSIS
    ['cdist/cpu_tile_...', 'scipy cdist']
    >>> found.ours.error < 1e-13
    True
    """
    if "kernel" in arguments:
        raise TypeError("compare takes kernels=, not kernel=")
    families = [] if against is None else [_family(name) for name in _names("against", against)]
    if checks.whole("repeats", repeats) < 1 or not checks.number("budget", budget) > 0:
        raise ValueError(f"repeats and budget must be positive, got {repeats} and {budget}")
    op, device = registry.function_name(op), checks.device("device", device)
    _refuse_what_is_not_compared(op, arguments)
    compared, others = _by_name(op, operands, arguments)
    _refuse_batches(op, compared, others)
    said = explanation.explain(op, *operands, device=device, **arguments)
    race = _Race(op, compared, others, said, repeats, budget)
    entries = [
        race.run_kernel(said.kernel),
        *(race.run_kernel(id) for id in _wanted(op, kernels) if id != said.kernel),
        *race.run_rivals(race.usual_families() if against is None else families),
    ]
    return race.result(tuple(entries))


def _refuse_what_is_not_compared(op: str, arguments: dict[str, Any]) -> None:
    """Raise an error for arguments that others do not have."""
    for name in ("rows", *_NOT_COMPARED) if op == "cdist" else _NOT_COMPARED:
        if name in arguments:
            raise TypeError(
                f"compare times calls that return a whole new result each time, without {name}="
            )


def _refuse_batches(op: str, operands: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Raise an error for more than one matrix."""
    if op in ("apsp", "transitive_closure"):
        many = "sizes" in arguments or any(map(many_graphs.are, operands[:1]))
    else:
        many = any(arrays.dimensions(x) > 2 for x in operands)
    if many:
        raise ValueError(
            "compare is for one matrix or graph at a time, which is what others compute, and not "
            "for batches"
        )


def _by_name(
    op: str, operands: tuple[Any, ...], arguments: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Tell operands from the other arguments, however they were given: these get their names."""
    import gpudist

    function = getattr(gpudist, op, None)
    if not callable(function):  # which explain refuses in its words
        return operands, arguments
    names = list(inspect.signature(function).parameters)
    named = dict(zip(names, operands, strict=False)) | arguments
    count = _OPERANDS.get(op, len(operands))
    return tuple(named.pop(name) for name in names[:count] if name in named), named


def _names(argument: str, given: Any) -> list[str]:
    """Read one name or several."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Iterable):
        return [checks.text(f"each of {argument}", name) for name in given]
    raise TypeError(f"{argument} must be a string or a list of them, got {type(given).__name__}")


def _family(name: str) -> str:
    if name not in _FAMILIES:
        hint = errors.suggest(name, list(_FAMILIES), f"one of {', '.join(_FAMILIES)}")
        raise ValueError(f"no library is called {name!r} here; {hint}")
    return _FAMILIES[name]


def _wanted(op: str, kernels: str | Sequence[str]) -> list[str]:
    """List the kernels asked for."""
    known = [kernel.id for kernel in registry.kernels(op)]
    wanted = [id for id in _names("kernels", kernels) if id != "auto"]  # which is timed in any case
    if "all" in wanted:
        return known
    for id in wanted:
        if id not in ("reference", *known):
            hint = errors.suggest(id, known, "'auto', 'all', or ids that gpudist.kernels lists")
            raise ValueError(f"unknown kernel {id!r} for {op}; {hint}")
    return wanted


class _Race:
    """Times calls on one set of operands, on the host and, once they were moved, on a device."""

    def __init__(
        self,
        op: str,
        operands: tuple[Any, ...],
        arguments: dict[str, Any],
        said: Explanation,
        repeats: int,
        budget: float,
    ) -> None:
        import gpudist
        from gpudist.measure import devices, samples

        self.op, self.arguments, self.said = op, arguments, said
        self.repeats, self.budget = repeats, budget
        self.function: Callable[..., Any] = getattr(gpudist, op)
        self.given = operands
        self.on_host = said.on_host
        self.library: DeviceArrays | None = None
        if said.device != "cpu":
            self.library, _ = devices.device_arrays(int(said.device.partition(":")[2] or 0))
        self.host = tuple(self._to_host(x) for x in operands)
        self.moved = operands
        if self.on_host and self.library is not None and all(map(_is_array, self.host)):
            put = self.library.put
            self.moved = tuple(
                None if x is None else put(np.ascontiguousarray(x)) for x in self.host
            )
        self.sample: Sample = samples.sample(op, self.host, self._alone(arguments))

    def _to_host(self, x: Any) -> Any:
        if self.on_host or x is None:
            return np.asarray(x) if isinstance(x, (list, tuple)) else x
        if self.library is None:
            raise TypeError("arrays on a device are compared where PyTorch or CuPy can use it")
        return self.library.get(x)

    # -------------------------------------------------------------- ours

    def run_kernel(self, id: str) -> Entry:
        """Time one kernel of ours, or say why it does not do this."""
        backend = {row.id: row.backend for row in registry.kernels(self.op)}.get(id, "cpu")
        # By name a kernel says itself whether it can run on this machine.
        where = backend if backend == "cpu" or self.said.device == "cpu" else self.said.device
        entry = Entry(id, None, True, where)
        try:
            if not self.on_host:
                return self._measure(entry, self._call(self.given, id, None))
            whole = self._measure(entry, self._call(self.given, id, where), host=True)
            if backend == "cpu" or self.moved is self.given or whole.timing is None:
                return whole
            inner = self._measure(entry, self._call(self.moved, id, None))
            if inner.timing is None:
                return whole
            apart = max(whole.timing.median - inner.timing.median, 0.0)
            return dataclasses.replace(inner, transfer=apart)
        except Exception as error:
            why = self.said.rejected.get(id, "")
            # What speaks against a row is shorter than the exception that says the same.
            unfit = why and isinstance(error, (ValueError, DeviceError))
            return dataclasses.replace(entry, note=why if unfit else _describe(error))

    def _call(self, operands: tuple[Any, ...], id: str, device: str | None) -> Callable[[], Any]:
        """Return what is timed, which is the call and nothing else."""
        # What is taken may be a row of another operation, which no name asks for: hops of apsp.
        known = id == "reference" or any(row.id == id for row in registry.kernels(self.op))
        kernel = id if known else "auto"
        return partial(self.function, *operands, kernel=kernel, device=device, **self.arguments)

    # -------------------------------------------------------------- others

    def usual_families(self) -> list[str]:
        """Name the libraries that have something for the operation, NumPy aside."""
        from gpudist.measure import rivals

        there = {one.distribution for one in rivals.RIVALS if one.op == self._rivals_op}
        families = dict.fromkeys(_FAMILIES.values())
        return [family for family in families if family in there and family != "numpy"]

    @property
    def _rivals_op(self) -> str:
        """Under which name others have the operation."""
        return "knn" if self.op in _SEARCHES else self.op

    def run_rivals(self, families: Sequence[str]) -> Iterator[Entry]:
        """Time what each library has for this."""
        from gpudist.measure import rivals

        for family in families:
            own = [one for one in rivals.RIVALS if one.distribution == family]
            tasks = [self._task(backend) for backend in self._backends()]
            found = [(one, task) for task in tasks for one in own if one.takes(task)]
            if not found:
                note = f"does not know {self.op} {self.said.metric or ''}".rstrip()
                if not any(one.op == self._rivals_op for one in own):
                    note = f"nothing of it is timed for {self.op}"
                if own and not own[0].version():
                    note = f"{family} is not installed"
                yield Entry(family, None, False, "", note=note)
                continue
            first = found[0][1]  # on the device that ours runs on, if anything of it runs there
            there = [one for one, task in found if task is first]
            # It is enough to say once that a library is missing.
            there = there if there[0].version() else there[:1]
            yield from (self._run_rival(one, first) for one in there)

    def _backends(self) -> list[str]:
        """Where others may run: beside ours first."""
        return ["cpu"] if self.said.device == "cpu" else ["cuda", "cpu"]

    def _task(self, backend: str) -> Task:
        from gpudist.measure import rivals, samples

        operands = self.moved if backend == "cuda" else self.host
        return rivals.Task(
            self._rivals_op,
            backend,
            tuple(x for x in operands if x is not None),
            samples.graph_size(self.host[0]),
            self.said.dtype,
            self.said.metric,
            self._alone(self._others()),
            self.said.device if backend == "cuda" else "cpu",
        )

    def _run_rival(self, rival: Rival, task: Task) -> Entry:
        from gpudist.measure import rivals

        entry = Entry(rival.name, rival.version(), False, task.device, does=rival.does)
        reason = rival.why_not(task)
        if reason is not None:
            return dataclasses.replace(entry, note=reason)
        on_device = task.backend == "cuda"
        try:
            expected = self._expected(rival, task)
            if expected > self.budget:
                from gpudist.measure.wording import duration

                note = f"not run: by the time of {_TRIAL_ROWS} rows it takes {duration(expected)}"
                return dataclasses.replace(entry, note=note)
            measured = self._measure(entry, rival.prepare(task), host=not on_device)
            if on_device and self.on_host:
                measured = dataclasses.replace(measured, transfer=self._ways(rival, task))
            return measured
        except rivals.Refusal as refusal:
            return dataclasses.replace(entry, note=str(refusal))
        except Exception as error:
            return dataclasses.replace(entry, note=_describe(error))

    def _expected(self, rival: Rival, task: Task) -> float:
        """Estimate a slow rival's time by a few rows of its first operand, where rows add up."""
        from gpudist.measure.timing import HostClock

        rows = task.size
        if task.backend == "cuda" or self.op not in ("cdist", "pdist", "minplus", *_SEARCHES):
            return 0.0
        if rows <= 4 * _TRIAL_ROWS:
            return 0.0
        few = task.operands[0][:_TRIAL_ROWS]
        # Among what neighbours are searched for stays whole; of pairs both sides become fewer.
        others = task.operands[-1:] if self.op in _SEARCHES else task.operands[1:]
        trial = dataclasses.replace(task, operands=(few, *others), size=_TRIAL_ROWS)
        pairs = rows / _TRIAL_ROWS
        seconds = HostClock().sample(rival.prepare(trial), 1)
        return seconds * (pairs * pairs if self.op == "pdist" else pairs)

    def _ways(self, rival: Rival, task: Task) -> float:
        """Time the operands' way to the device and the result's way back."""
        from gpudist.measure.timing import time_call

        library = self.library
        assert library is not None
        result = rival.prepare(task)()

        def there_and_back() -> None:
            for x in self.host:
                if x is not None:
                    library.put(x)
            library.get(result)

        return time_call(there_and_back, repeats=min(self.repeats, 3), budget=self.budget).median

    # -------------------------------------------------------------- measuring

    def _measure(self, entry: Entry, call: Callable[[], Any], host: bool = False) -> Entry:
        """Time a call and check a part of what it gives."""
        from gpudist.measure import errors
        from gpudist.measure.timing import Clock, EventClock, HostClock, time_call

        self._free()
        clock: Clock = HostClock()
        if not host and self.library is not None:
            clock = EventClock(self.said.device, self.library.stream(), before=self.library.flush)
        timing = time_call(call, clock=clock, repeats=self.repeats, budget=self.budget)
        parts = [self._part(part) for part in self.sample.pick(call())]
        found = np.concatenate(parts) if parts else np.empty(0)
        error = errors.max_relative_error(found, self.sample.exact)
        return dataclasses.replace(entry, timing=timing, error=error)

    def _part(self, array: Any) -> Any:
        if self.library is None or isinstance(array, np.ndarray):
            return np.asarray(array)
        return self.library.get(array)

    def _free(self) -> None:
        if self.library is not None:
            self.library.free()

    def result(self, entries: tuple[Entry, ...]) -> Comparison:
        """Put everything together."""
        from gpudist.measure import records, samples

        first = self.host[0]
        is_graph = self.op in ("apsp", "transitive_closure")
        shape = (samples.graph_size(first),) * 2 if is_graph else _shape(self.host)
        words = [str(self.said.metric or ""), *map(_words, self._others().items())]
        return Comparison(
            self.op,
            self.said.dtype,
            self.said.device,
            shape,
            ", ".join(filter(None, words)),
            entries,
            self.said,
            records.provenance(self.said.device),
            self.sample.rows,
        )

    @staticmethod
    def _alone(arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without the bound on memory, which is for our kernels alone."""
        return {name: x for name, x in arguments.items() if name != "max_memory"}

    def _others(self) -> Mapping[str, Any]:
        return {name: x for name, x in self.arguments.items() if name not in ("metric", "dtype")}


def _is_array(x: Any) -> bool:
    return x is None or isinstance(x, np.ndarray)


def _shape(operands: tuple[Any, ...]) -> tuple[int, ...]:
    """Give rows, columns and depth of what two matrices make, or the sizes of one."""
    a, b = operands[0], operands[1] if len(operands) > 1 else None
    if b is None:
        return tuple(map(int, a.shape))
    return (int(a.shape[0]), *map(int, b.shape))


def _words(item: tuple[str, Any]) -> str:
    """Write an argument: numbers and words as they are, arrays by their name alone."""
    name, value = item
    return f"{name} = {value}" if isinstance(value, (bool, int, float, str)) else name


def _describe(error: Exception) -> str:
    """Say what went wrong in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
