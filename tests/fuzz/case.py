"""What a case is, how it is run, and how it is written down as a program of its own.

A check is a piece of program text over named data. Text that is run is the text that is printed:
a finding's snippet cannot differ from what was found.
"""

from __future__ import annotations

import ast
import base64
import inspect
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from . import helpers

# Arrays of any dtype: what is computed of one may be of another.
Array = Any

# An array of more elements is printed packed.
_READABLE = 400
_IMPORTS = "import warnings\n\nimport numpy as np\nfrom numpy import inf, nan\n\nimport gpudist\n"


class Skipped(Exception):
    """A case that asks for what nobody promises, or that this machine cannot try."""


@dataclass(frozen=True)
class Case:
    """A point of a family's space.

    Attributes
    ----------
    family, relation : str
        Whose case it is, and what must hold.
    arrays : dict of str to ndarray
        Its data.
    axes : dict of str to tuple of str
        The names of the arrays' axes: those of one name are shortened together. An axis named ""
        keeps its length.
    options : dict of str to object
        All else: plain values that `repr` writes down.
    """

    family: str
    relation: str
    arrays: dict[str, Array]
    axes: dict[str, tuple[str, ...]]
    options: dict[str, Any]

    def having(self, **options: Any) -> Case:
        """Return the same case with other options."""
        return replace(self, options=self.options | options)

    def holding(self, **arrays: Array) -> Case:
        """Return the same case with other arrays, of which those given as None are dropped."""
        kept = {name: x for name, x in (self.arrays | arrays).items() if x is not None}
        return replace(self, arrays=kept)

    def size(self, axis: str) -> int:
        """Return the length of an axis."""
        for name, axes in self.axes.items():
            if axis in axes and name in self.arrays:
                return int(self.arrays[name].shape[axes.index(axis)])
        return 0


class Family(Protocol):
    """What a module of cases has.

    Attributes
    ----------
    NAME : str
        Its name.
    SHARE : int
        How many of its cases come with those of the others in turn.
    IMPORTS : tuple of str
        What its cases may import, which is done once for all processes.
    """

    NAME: str
    SHARE: int
    IMPORTS: tuple[str, ...]

    def draw(self, rng: np.random.Generator) -> Case:
        """Draw a case."""

    def program(self, case: Case) -> Program:
        """Write down what must hold; raises `Skipped` where nothing is promised."""

    def simpler(self, case: Case) -> Iterator[Case]:
        """Give cases with plainer options; lengths and numbers are the shrinker's own business."""

    def label(self, case: Case) -> str:
        """Name the fault that a failure of this case is taken for: one of each name is shown."""


@dataclass(frozen=True)
class Program:
    """A text and the data that it speaks of."""

    body: str
    data: dict[str, Any]

    def run(self) -> None:
        """Run it; what it raises is the finding. A warning that nobody expects is one as well."""
        space: dict[str, Any] = {"np": np, "inf": np.inf, "nan": np.nan, "warnings": warnings}
        exec("import gpudist", space)
        space |= {name: getattr(helpers, name) for name in helpers.__all__} | self.data
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(self.body, "<case>", "exec"), space)

    def snippet(self) -> str:
        """Return a program that does the same without this package."""
        parts = [_IMPORTS, 'warnings.simplefilter("error")', ""]
        parts += [inspect.getsource(tool) for tool in _tools(self.body)]
        parts += [f"{name} = {literal(value)}" for name, value in self.data.items()]
        return "\n".join([*parts, self.body.strip(), ""])


def _tools(text: str) -> list[Callable[..., Any]]:
    """List the helpers that a text calls, and those that they call, in the order of definition."""
    wanted: set[str] = set()
    texts = [text]
    while texts:
        for node in ast.walk(ast.parse(texts.pop())):
            if isinstance(node, ast.Name) and node.id in helpers.__all__ and node.id not in wanted:
                wanted.add(node.id)
                texts.append(inspect.getsource(getattr(helpers, node.id)))
    return [getattr(helpers, name) for name in helpers.__all__ if name in wanted]


def literal(value: Any) -> str:
    """Write a value as Python does; arrays with every bit."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    kind = value.dtype.newbyteorder("=").name
    if value.dtype == np.longdouble or value.size > _READABLE:
        packed = base64.b85encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9))
        source = f'__import__("zlib").decompress(__import__("base64").b85decode({packed!r}))'
        return f'np.frombuffer({source}, "{value.dtype.str}").reshape({value.shape}).copy()'
    if value.size == 0:
        return f'np.zeros({value.shape}, "{kind}")'
    return f'np.array({value.tolist()!r}, "{kind}")'


def outcome(family: Family, case: Case) -> str | None:
    """Try a case; return what went wrong, in a line, or None. `Skipped` passes through."""
    program = family.program(case)
    try:
        program.run()
    except Skipped:
        raise
    except (Exception, KeyboardInterrupt) as error:
        text = str(error).strip().splitlines()
        return f"{type(error).__name__}: {text[0] if text else ''}"
    return None


def pick(rng: np.random.Generator, choices: Iterable[Any]) -> Any:
    """Choose one of any objects, which NumPy's own `choice` would make an array of."""
    among = list(choices)
    return among[int(rng.integers(len(among)))]
