"""What a call is given, read once: operands, and the orders beside them.

Every operation reads its arrays here before anything else, so that what it says about them later
(where they live, their dtypes and shapes) is one record that goes along with the call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpudist import arrays, registry
from gpudist.progress import Progress


class Orders(NamedTuple):
    """What a caller says beside the operands: how, where and within which bounds to compute.

    The names are the keywords of all operations. Orders are as the caller gave them until `read`.
    """

    kernel: str = "auto"
    device: Any = None
    options: dict[str, int] | None = None
    progress: Progress = False
    max_memory: Any = None

    def read(self, op: str) -> Orders:
        """Return the orders as the core takes them, or raise an error for what is none.

        Parameters
        ----------
        op : str
            The operation whose kernels may be asked for.

        Returns
        -------
        Orders
            The device as a text or None, `max_memory` as a number of bytes or None.

        Raises
        ------
        TypeError, ValueError
            As for `gpudist.registry.read_orders`.
        """
        kernel, given, options, progress, most = self
        device, max_memory = registry.read_orders(op, kernel, options, given, progress, most)
        if device is given and max_memory is most:
            return self
        return Orders(kernel, device, options, progress, max_memory)

    @property
    def plain(self) -> bool:
        """Whether nothing is ordered."""
        kernel, device, options, progress, most = self
        nothing = device is None and options is None and most is None
        return nothing and progress is False and kernel == "auto"


class Operands(NamedTuple):
    """Arrays of real numbers in one space, with what there is to know about them.

    `names` are what errors call them, `given` the arrays, `dtypes` the names of their dtypes.
    """

    space: arrays.Space
    names: tuple[str, ...]
    given: list[Any]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]


def operands(named: dict[str, Any], out: Any = None) -> Operands:
    """Read the operands of a call.

    Parameters
    ----------
    named : dict
        What the caller gave, by the names that errors shall use.
    out : array, optional
        Where the caller wants the result, which must be in the same space.

    Returns
    -------
    Operands
        The record.

    Raises
    ------
    TypeError
        One is no array of real numbers, or they are in two spaces.
    """
    space = arrays.space_of(**named, out=out)
    given, dtypes, shapes = [], [], []
    for name, value in named.items():
        array, dtype = space.read(value, name)
        given.append(array)
        dtypes.append(dtype)
        shapes.append(tuple(array.shape))
    return Operands(space, tuple(named), given, dtypes, shapes)
