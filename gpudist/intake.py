"""What a call is given, read once: operands, and the orders beside them.

Every operation reads its arrays here before anything else, so that what it says about them later
(where they live, their dtypes and shapes) is one record that goes along with the call.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from gpudist import _core, arrays, checks, errors, foreign, several_gpus
from gpudist.progress import Progress

# The very string, which is what callers write: there is but one of it, so small calls ask for that.
AUTO = "auto"


class Orders(NamedTuple):
    """What a caller says beside the operands: how, where and within which bounds to compute.

    The names are the keywords of all operations. Orders are as the caller gave them until `read`.
    """

    kernel: str = AUTO
    device: Any = None
    options: dict[str, int] | None = None
    progress: Progress = False
    max_memory: Any = None

    def read(self, op: str) -> Orders:
        """Return the orders as the core takes them, or raise an error for what is none.

        An unknown kernel is an error here, and so is what one without a row cannot obey; all else
        about kernels the core checks.

        Parameters
        ----------
        op : str
            The function whose kernels may be asked for.

        Returns
        -------
        Orders
            The device as a text or None, `max_memory` as a number of bytes or None.

        Raises
        ------
        TypeError, ValueError
            As for the functions.
        """
        if self.plain:
            return self
        kernel, given, options, progress, most = self
        checks.text("kernel", kernel)
        device, max_memory = checks.device("device", given), checks.max_memory(most)
        if op not in several_gpus.FUNCTIONS:
            several_gpus.refuse(device, op)
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options must be a dictionary, got {type(options).__name__}")
        if kernel not in ("auto", "reference"):
            if kernel not in _ids(op):
                hint = _near_ids(op, kernel, device)
                raise ValueError(
                    f"unknown kernel {kernel!r} for {op}; 'auto', 'reference', or {hint}"
                )
        elif options:
            named = ", ".join(map(repr, options))
            raise ValueError(f"kernel {kernel!r} takes no options, got {named}")
        if kernel == "reference":
            _check_for_numpy(device, progress, max_memory)
        if device is given and max_memory is most:
            return self
        return Orders(kernel, device, options, progress, max_memory)

    @property
    def plain(self) -> bool:
        """Whether nothing is ordered."""
        kernel, device, options, progress, most = self
        nothing = device is None and options is None and most is None
        return nothing and progress is False and isinstance(kernel, str) and kernel == "auto"


# Under which names the table has the kernels of a function, where those are others. Neighbours are
# told by distances that kernels of cdist compute, or found by one that computes what it needs.
SEARCHES = ("nearest", "knn", "radius_neighbors", "count_neighbors")
_TABLE_OPS = {
    "transitive_closure": frozenset({"closure"}),
    "pdist": frozenset({"cdist"}),
} | dict.fromkeys(SEARCHES, frozenset({"cdist", "neighbors"}))


def table_ops(function: str) -> frozenset[str]:
    """Return under which names the table has the kernels of a function."""
    return _TABLE_OPS.get(function, frozenset({function}))


@cache  # the table is the same all along, and asking for it takes longer than a small call
def _ids(function: str) -> tuple[str, ...]:
    ops = table_ops(function)
    return tuple(row["id"] for row in _core.kernels() if row["op"] in ops)


def _near_ids(function: str, kernel: str, device: str | None) -> str:
    """Suggest kernels that could run in place of an unknown one."""
    if kernel.lower() in ("cpu", "cuda", "gpu"):
        return f"an id; where to compute is device={'cpu' if kernel.lower() == 'cpu' else 'cuda'!r}"
    backend = "" if device is None else device.partition(":")[0]
    runs_here = {
        row["id"]
        for row in _core.kernels()
        if row["why_not"] is None and row["backend"].startswith(backend)
    }
    fit = [id for id in _ids(function) if id in runs_here]
    otherwise = f"an id that gpudist.kernels({function!r}) lists"
    if "/" not in kernel:
        otherwise = errors.suggest(f"{function}/{kernel}", fit, otherwise)
    return errors.suggest(kernel, ["auto", *fit], otherwise)


def _check_for_numpy(device: str | None, progress: Progress, max_memory: int | None) -> None:
    """Raise a ValueError for orders that NumPy, which is the kernel "reference", cannot obey."""
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


class Operands(NamedTuple):
    """Arrays of real numbers in one space, with what there is to know about them.

    `names` are what errors call them, `given` the arrays, `dtypes` the names of their dtypes.
    """

    space: arrays.Space
    names: tuple[str, ...]
    given: list[Any]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]


def operands(
    named: dict[str, Any], out: Any = None, arguments: dict[str, Any] | None = None
) -> Operands:
    """Read the operands of a call.

    Parameters
    ----------
    named : dict
        What the caller gave, by the names that errors shall use.
    out : array, optional
        Where the caller wants the result, which must be in the same space.
    arguments : dict, optional
        Arguments by their names, which may have a number for each column of the operands.

    Returns
    -------
    Operands
        The record.

    Raises
    ------
    TypeError
        One is no array of real numbers, or they are in two spaces.
    ValueError
        They are frames, or arguments of frames, that have the same columns in two orders.
    """
    _refuse_other_order(named, arguments or {})
    space = arrays.space_of(**named, out=out)
    given, dtypes, shapes = [], [], []
    for name, value in named.items():
        array, dtype = space.read(value, name)
        given.append(array)
        dtypes.append(dtype)
        shapes.append(tuple(array.shape))
    return Operands(space, tuple(named), given, dtypes, shapes)


def objects(named: dict[str, Any]) -> dict[str, Any]:
    """Read what a function of Python is called with, which may be of any dtype.

    Parameters
    ----------
    named : dict
        What the caller gave, by the names that errors shall use.

    Returns
    -------
    dict
        NumPy arrays by these names.

    Raises
    ------
    TypeError, ValueError
        One cannot be read as an array; two are frames that have the same columns in two orders.
    """
    _refuse_other_order(named, {})
    return {name: arrays.host_objects(value, name) for name, value in named.items()}


def _refuse_other_order(named: dict[str, Any], arguments: dict[str, Any]) -> None:
    if not arrays.OF_NUMPY.issuperset(map(type, named.values())):  # as those of small calls are
        foreign.refuse_other_names(named, arguments)
