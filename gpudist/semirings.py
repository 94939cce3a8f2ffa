"""Semirings: their names, their neutral elements, and what matrices a product over one takes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpudist import arrays, checks, errors

SEMIRINGS: Final = ("min_plus", "max_plus", "min_max", "max_min", "or_and")
"""What `minplus` knows: how the better of two ways is found, how two parts make a way."""

_NUMBERS = ("float32", "float64", "int32")
# Integers that int32 holds, whatever their values.
_NARROW = ("bool", "int8", "uint8", "int16", "uint16", "int32")


def check(semiring: str) -> None:
    """Raise a ValueError with a near match for an unknown semiring."""
    if checks.text("semiring", semiring) not in SEMIRINGS:
        hint = errors.suggest(semiring, SEMIRINGS, f"one of {', '.join(SEMIRINGS)}", most=1)
        raise ValueError(f"unknown semiring {semiring!r}; {hint}")


def neutral(semiring: str, dtype: str, *, opposite: bool = False) -> float:
    """Return what stands for "no way", or its opposite: an infinity, or an end of int32."""
    largest = semiring.startswith("min") != opposite
    if dtype == "int32":
        return 2**31 - 1 if largest else -(2**31)
    return np.inf if largest else -np.inf


def check_shapes_and_dtype(
    space: arrays.Space, named: dict[str, Any], semiring: str, dtype: Any, out: Any = None
) -> str:
    """Check all that values do not decide; return the dtype of the result.

    Parameters
    ----------
    space : Space
        Where the operands are.
    named : dict
        A, B and perhaps C, by these names.
    semiring, dtype, out
        As for `minplus`.

    Returns
    -------
    str
        The name of the dtype.

    Raises
    ------
    TypeError, ValueError
        As for `minplus`.
    """
    check(semiring)
    shapes = {name: x.shape for name, x in named.items()}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise errors.not_two_dimensional(name, len(shape), points=False)
    check_shapes(shapes)
    return result_dtype(space, tuple(named.values()), semiring, out, dtype)


def check_shapes(shapes: dict[str, Any]) -> tuple[int, int]:
    """Return the shape of a product of matrices of these shapes, or raise a ValueError.

    Parameters
    ----------
    shapes : dict
        Those of A, B and perhaps C, by these names.

    Returns
    -------
    tuple of int
        Its rows and columns.
    """
    (m, k), (rows, n) = shapes["A"], shapes["B"]
    if k != rows:
        raise ValueError(f"A must have as many columns as B has rows, got {k} and {rows}")
    if "C" in shapes and tuple(shapes["C"]) != (m, n):
        raise ValueError(f"C must have shape ({m}, {n}), got {tuple(map(int, shapes['C']))}")
    return int(m), int(n)


def result_dtype(
    space: arrays.Space, operands: tuple[Any, ...], semiring: str, out: Any, dtype: Any
) -> str:
    """Return the dtype of a product of these operands, or raise an error."""
    allowed = ("bool",) if semiring == "or_and" else _NUMBERS
    asked = None if dtype is None else arrays.dtype_name(dtype)
    if out is not None:
        return arrays.out_dtype(out, allowed, asked, f" for {semiring}")
    if asked is not None:
        if asked not in allowed:
            raise ValueError(f"dtype must be {arrays.one_of(allowed)} for {semiring}, got {asked}")
        return asked
    if semiring == "or_and":
        return "bool"
    # Unlike elsewhere int32 stays int32: what apsp wrote in it has a name for "no way" that float64
    # would take for a number, so that dist times dist would be wrong without a word.
    names = {space.dtype_name(x) for x in operands}
    return "int32" if names == {"int32"} else arrays.float_dtype(space, names, None, None)


def check_integers(space: arrays.Space, named: dict[str, Any]) -> None:
    """Refuse what a conversion to int32 would change.

    Parameters
    ----------
    space : Space
        Where the operands are.
    named : dict
        The operands by the names that errors shall use; stacks of matrices, perhaps.

    Raises
    ------
    ValueError
        One has, or may have, elements that int32 does not hold.
    """
    for name, x in named.items():
        kind = space.dtype_name(x)
        if kind in _NARROW:
            continue
        if space is not arrays.HOST or "int" not in kind:
            raise ValueError(f"{name} is of {kind}, which int32 does not hold; convert it first")
        if x.size and not -(2**31) <= int(x.min()) <= int(x.max()) < 2**31:
            first = np.argwhere((x < -(2**31)) | (x >= 2**31))[0][: x.ndim - 2].tolist()
            raise ValueError(f"{name}{first or ''} has elements that int32 does not hold")
