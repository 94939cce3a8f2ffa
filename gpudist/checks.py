"""Arguments that are no arrays: read, or refused with an error that names them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def number(name: str, value: Any) -> float:
    """Read a real number, whatever type it has; raise a TypeError for all else."""
    try:
        if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
            raise TypeError
        return float(value)
    except MemoryError:
        raise
    except Exception:  # what others' types raise when they are asked
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}") from None


def whole(name: str, value: Any) -> int:
    """Read a whole number of any integer type; raise a TypeError for all else."""
    try:
        return operator.index(value)
    except Exception:
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}") from None


def truth(name: str, value: Any) -> bool:
    """Read a truth, as `bool` does; raise a TypeError for what is neither true nor false."""
    try:
        return bool(value)
    except Exception:
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}") from None


def text(name: str, value: Any) -> str:
    """Return a string; raise a TypeError for all else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    return value
