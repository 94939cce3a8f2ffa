"""Measured quantities and the machine they were measured on, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def duration(seconds: float) -> str:
    """Write a duration with three digits and its unit.

    Parameters
    ----------
    seconds : float
        The duration.

    Returns
    -------
    str
        Like ``24.1 ms``.
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{digits(seconds / scale)} {unit}"
    return f"{digits(seconds * 1e9)} ns"


def digits(value: float) -> str:
    """Write a number with three digits, without an exponent.

    Parameters
    ----------
    value : float
        Nonnegative.

    Returns
    -------
    str
        Like ``0.0123``, ``1.23``, ``123`` or ``12345``.
    """
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".")


def quantity(value: float, unit: str) -> str:
    """Write a rate with its SI prefix.

    Parameters
    ----------
    value : float
        The rate.
    unit : str
        What it counts; ``B/s`` takes the prefix without a space.

    Returns
    -------
    str
        Like ``4.7 TB/s`` or ``15.2 T updates/s``.
    """
    gap = "" if unit == "B/s" else " "
    for scale, prefix in _PREFIXES:
        if value >= scale:
            return f"{digits(value / scale)} {prefix}{gap}{unit}"
    return f"{digits(value)} {unit}"


def error_text(value: float | str) -> str:
    """Write a relative error.

    Parameters
    ----------
    value : float or str
        As in a JSON line, where infinity is a word.

    Returns
    -------
    str
        Like ``2.1e-07``.
    """
    return value if isinstance(value, str) else f"{value:.1e}" if value else "0"


def threads(count: int) -> str:
    """Count threads.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    str
        Like ``1 thread`` and ``2 threads``.
    """
    return f"{count} thread{'s' * (count != 1)}"


def revision(known: str) -> str:
    """Name the source that ran.

    Parameters
    ----------
    known : str
        What `records.revision` returned.

    Returns
    -------
    str
        Like ``revision 0123abcd``; nothing where it is not known.
    """
    return "" if known == "unknown" else f"revision {known}"


def show_machine(record: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print where a run measures.

    Parameters
    ----------
    record : mapping
        Any result of the run, or its provenance.
    file : text stream, optional
        Standard output by default.
    """
    where = record["device_name"]
    if record["device"] == "cpu":
        where += f", {record['isa']}, {threads(record['threads'])}"
    else:
        where += f", driver {record['driver']}, CUDA {record['cuda']}"
    libraries = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    sources = "; ".join(filter(None, [revision(record["revision"]), libraries]))
    print(f"on {record['device']}: {where}\n{sources}\n", file=file)
