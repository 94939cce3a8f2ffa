"""Exceptions, and words for them. `gpudist.DeviceError` comes from the compiled core."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any


def suggest(name: str, known: Iterable[str], otherwise: str, most: int = 3) -> str:
    """Return "did you mean ...?" with the known names near `name`, else `otherwise`.

    Near are names of which `name` is a part, and those that are written alike.
    """
    from difflib import get_close_matches  # which no call without a mistake needs

    name, known = name.strip().lower(), list(known)
    if name in known:
        near = [name]
    else:  # two letters are a part of too many
        near = [one for one in known if len(name) > 2 and name in one]
        near += [one for one in get_close_matches(name, known, n=most) if one not in near]
    return f"did you mean {' or '.join(map(repr, near[:most]))}?" if near else otherwise


def not_two_dimensional(name: str, dimensions: int, *, points: bool = True) -> ValueError:
    """Return the error to raise for points, or another operand, that are no matrix."""
    said = f"{name} must be two-dimensional, got {dimensions} dimension{'s' * (dimensions != 1)}"
    if dimensions == 1:
        one, many = (
            ("one point", "are points of one number each") if points else ("a row", "a column")
        )
        said += f"; numpy.reshape({name}, (1, -1)) is {one}, numpy.reshape({name}, (-1, 1)) {many}"
    return ValueError(said)


def warn(text: str) -> None:
    """Warn, naming the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "gpudist":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


class ConvergenceWarning(UserWarning):
    """An iteration ended before its result was as good as was asked for."""


class NoPathError(ValueError):
    """There is no path between two nodes."""


def _shown(nodes: list[Any], between: str, most: int = 20) -> str:
    return between.join(map(repr, nodes[:most])) + (f"{between}..." if len(nodes) > most else "")


def name_nodes(error: Exception, names: Sequence[Any] | None) -> None:
    """Have a `gpudist.NegativeCycleError` say the names of its nodes.

    Parameters
    ----------
    error : Exception
        The error; one of any other class stays as it is.
    names : sequence or None
        The nodes' names in the order of their positions; None where they have none.
    """
    if names is not None and hasattr(error, "named_cycle"):  # its base depends on SciPy
        error.name_nodes(names)  # type: ignore[attr-defined]


def _negative_cycle_again(arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """Make a `gpudist.NegativeCycleError` that another process raised."""
    kind = negative_cycle_error()
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


if TYPE_CHECKING:

    class NegativeCycleError(Exception):
        """What type checkers know of the class that `negative_cycle_error` makes."""

        nodes: list[int]
        cycle: list[int]
        named_nodes: list[Any]
        named_cycle: list[Any]
        graph: int | tuple[int, ...]


@cache
def negative_cycle_error() -> type[Exception]:
    """Return `gpudist.NegativeCycleError`.

    The class is made on first use: it derives from SciPy's exception of that name, so that code
    written for SciPy catches ours, and importing SciPy takes longer than importing gpudist.

    Returns
    -------
    type
        The exception class; its instances carry ``nodes``, the list of nodes on negative cycles,
        and ``cycle``, the nodes of one such cycle in order, empty where none could be followed,
        both by their positions; and both by the nodes' names as ``named_nodes`` and
        ``named_cycle``, which are positions where nodes have no names.
    """
    try:
        from scipy.sparse import csgraph

        base: type[Exception] = csgraph.NegativeCycleError
    except ImportError:
        base = ValueError

    class NegativeCycleError(base):  # type: ignore[valid-type, misc]
        """The graph has a cycle of negative length, so shortest paths do not exist.

        Over max_plus it is of positive length, and longest paths do not exist.
        """

        def __init__(
            self, nodes: list[int], cycle: list[int] | None = None, semiring: str = "min_plus"
        ) -> None:
            self._sign = "Positive" if semiring == "max_plus" else "Negative"
            self.nodes, self.cycle = nodes, cycle or []
            self.named_nodes: list[Any] = self.nodes
            self.named_cycle: list[Any] = self.cycle
            super().__init__(self._said())

        def _said(self) -> str:
            nodes, cycle = self.named_nodes, self.named_cycle
            way = f": {_shown([*cycle, cycle[0]], ' -> ')}" if cycle else ""
            return f"{self._sign} cycle in nodes [{_shown(nodes, ', ')}]{way}"

        def name_nodes(self, names: Sequence[Any]) -> None:
            """Say the nodes' names, which are in the order of their positions."""
            graph = str(self).removesuffix(self._said())  # which one of many it is, if it is one
            self.named_nodes = [names[i] for i in self.nodes]
            self.named_cycle = [names[i] for i in self.cycle]
            self.args = (graph + self._said(),)

        def __reduce__(self) -> tuple[Any, ...]:
            """Say how to make it again: an exception's own way calls its class with the message."""
            return _negative_cycle_again, (self.args, self.__dict__)

    NegativeCycleError.__module__ = "gpudist"
    NegativeCycleError.__qualname__ = "NegativeCycleError"
    return NegativeCycleError
