"""Bands kept in a Zarr group while paths are computed, to go on from there later.

A set is all bands after some turn. A new set is written beside the last one, and the group's
attributes name it once it is complete: a reader finds whole sets, wherever the writer stopped.
Zarr reads zeros where a file is missing, so a sum of each band's bits is kept, to be held against
what is read.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpudist.dask.bands import Band, How
from gpudist.results import Facts

_FORMAT = "gpudist apsp 2"
_OURS = "gpudist apsp "  # of any version

SETS = 8
"""How many sets a call writes, at most, one after the other."""


class Checkpoint(NamedTuple):
    """A place for bands.

    Attributes
    ----------
    path : str
        The folder, which all workers reach.
    token : str
        Which call it belongs to.
    done : int
        How many turns its complete set has behind it, 0 for none.
    """

    path: str
    token: str
    done: int


def opened(path: Any, token: str) -> Checkpoint:
    """Look what a folder holds.

    Parameters
    ----------
    path : str or os.PathLike
        The folder.
    token : str
        Of the call.

    Returns
    -------
    Checkpoint
        Where to go on from.

    Raises
    ------
    ValueError
        It belongs to another call, is nothing of ours, or is no folder but a URL.
    TypeError
        It is no path.
    ModuleNotFoundError
        Zarr is not installed.
    """
    try:
        import zarr
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'checkpoint needs {error.name}, which is not installed: pip install ".[dask]" from a '
            "checkout of gpudist",
            name=error.name,
        ) from None

    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a folder, got {type(path).__name__}")
    if not os.fspath(path):
        raise ValueError("checkpoint must be the path of a folder, got an empty one")
    if "://" in os.fspath(path):  # which would be a folder named "s3:" here
        raise ValueError(f"checkpoint must be the path of a folder, got the URL {path!r}")
    place = os.path.abspath(path)
    if not os.path.exists(place) or (os.path.isdir(place) and not os.listdir(place)):
        return Checkpoint(place, token, 0)
    try:
        known = dict(zarr.open_group(place, mode="r").attrs)
    except Exception as error:
        raise ValueError(f"checkpoint={place!r} is no checkpoint of gpudist: {error}") from error
    at = Checkpoint(place, token, 0)
    _check(at, known)
    return at._replace(done=int(known.get("done", 0)))


def _check(at: Checkpoint, known: dict[str, Any]) -> None:
    """Raise a ValueError for the attributes of what is not of this call."""
    written = str(known.get("format", ""))
    if not written.startswith(_OURS):
        raise ValueError(f"checkpoint={at.path!r} is no checkpoint of gpudist; name another folder")
    if written != _FORMAT:
        raise ValueError(
            f"checkpoint={at.path!r} was written by another version of gpudist, as {written!r}, "
            f"and this one reads {_FORMAT!r}. Go on with that version, or name another folder"
        )
    if known.get("token") != at.token:
        raise ValueError(
            f"checkpoint={at.path!r} belongs to another call: to another graph by Dask's name, to "
            "other arguments or other bands. Repeat that call, or name another folder"
        )


def _group(at: Checkpoint) -> Any:
    """Open the group on a worker, to write there.

    Raises
    ------
    ValueError
        It is another call's by now, as a place may be empty when two calls are planned; or this
        worker does not see it.
    """
    import zarr

    try:
        group = zarr.open_group(at.path, mode="r+")
    except FileNotFoundError:
        raise ValueError(
            f"checkpoint={at.path!r} is not there for a worker on {platform.node()}: give a folder "
            "that the client and all workers reach, and leave it in its place"
        ) from None
    _check(at, dict(group.attrs))
    return group


def turns_to_save(turns: int, done: int) -> list[int]:
    """Return after which turns to write a set; after the last one there is the result itself."""
    every = -(-turns // SETS)
    return [turn for turn in range(every, turns, every) if turn > done]


def _names(turn: int) -> dict[str, str]:
    return {name: f"{name}-{turn}" for name in ("dist", "pred", "facts", "sums")}


def make(at: Checkpoint, turn: int, bands: int, height: int, how: How, before: Any) -> str:
    """Make the arrays of a set, without values.

    Parameters
    ----------
    at : Checkpoint
        The place.
    turn : int
        After which turn.
    bands, height : int
        How many bands there are, and the rows of a chunk, of which each band has some.
    how : How
        The call.
    before : object
        The result of what must be done before.

    Returns
    -------
    str
        The place.
    """
    import zarr

    # With its attributes at once, or a group that was cut off here would be nobody's.
    new = {"format": _FORMAT, "token": at.token, "done": 0}
    zarr.open_group(at.path, mode="a", attributes=new)
    group = _group(at)
    if int(group.attrs["done"]) >= turn:  # written once already, and perhaps the one to go on from
        return at.path
    shape, chunks = (how.width, how.width), (min(height, how.width), how.width)
    names = _names(turn)
    plain = {"compressors": None, "overwrite": True}  # lengths do not shrink
    group.create_array(names["dist"], shape=shape, chunks=chunks, dtype=how.dtype, **plain)
    if how.predecessors:
        group.create_array(names["pred"], shape=shape, chunks=chunks, dtype="int32", **plain)
    group.create_array(names["facts"], shape=(bands, 3), chunks=(1, 3), dtype="float64", **plain)
    group.create_array(names["sums"], shape=(bands,), chunks=(1,), dtype="uint64", **plain)
    return at.path


def save(at: Checkpoint, turn: int, number: int, band: Band, first: int, made: str) -> int:
    """Write a band into its place of a set.

    Parameters
    ----------
    at : Checkpoint
        The place.
    turn : int
        After which turn.
    number : int
        Which band it is.
    band : Band
        The band.
    first : int
        Its first row.
    made : str
        What `make` returned.

    Returns
    -------
    int
        The band's number.
    """
    group, names = _group(at), _names(turn)
    if int(group.attrs["done"]) >= turn:
        return number
    rows = slice(first, first + band.dist.shape[0])
    parts = [_on_host(band.dist), None if band.pred is None else _on_host(band.pred)]
    parts.append(np.array(band.facts, np.float64))
    group[names["dist"]][rows] = parts[0]
    if band.pred is not None:
        group[names["pred"]][rows] = parts[1]
    group[names["facts"]][number] = parts[2]
    group[names["sums"]][number] = _sum(parts)
    return number


def _sum(parts: list[Any]) -> Any:
    """Add up the bits of arrays of a band, 64 at a time; never 0, which stands for what is missing.

    It is as quick as reading them, which no check sum is.
    """
    total = np.zeros(1, np.uint64)  # as arrays wrap around without a warning
    for place, part in enumerate(parts):
        if part is not None:
            words = np.ascontiguousarray(part).reshape(-1).view(np.uint64)
            total += words.sum(dtype=np.uint64, keepdims=True) * np.uint64(2 * place + 1)
    return np.maximum(total, 1)[0]


def _on_host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def complete(at: Checkpoint, turn: int, saved: list[int], before: Any) -> int:
    """Name a set in the group's attributes, and remove older ones but that which this run reads.

    Parameters
    ----------
    at : Checkpoint
        The place.
    turn : int
        After which turn the set is.
    saved : list of int
        The bands' numbers.
    before : object
        The result of what must be done before.

    Returns
    -------
    int
        The turn of the last complete set.
    """
    group = _group(at)
    if int(group.attrs["done"]) < turn:
        group.attrs["done"] = turn
    done = int(group.attrs["done"])
    for child in Path(at.path).iterdir():
        name, _, number = child.name.partition("-")
        old = number.isdecimal() and int(number) < done and int(number) != at.done
        if old and name in _names(0):
            shutil.rmtree(child, ignore_errors=True)
    return done


def load(at: Checkpoint, number: int, rows: int, first: int, like: Any, how: How) -> Band:
    """Read a band of the complete set.

    Parameters
    ----------
    at : Checkpoint
        The place.
    number : int
        Which band.
    rows, first : int
        Its rows.
    like : array
        An empty one of the kind that the chunks are.
    how : How
        The call.

    Returns
    -------
    Band
        As it was saved.

    Raises
    ------
    ValueError
        It is not there any more as it was saved.
    """
    names, there, pred = _names(at.done), slice(first, first + rows), None
    group = _group(at)
    if int(group.attrs["done"]) != at.done and names["sums"] not in group:
        raise ValueError(
            f"checkpoint={at.path!r} has been gone on from since this call was made; make it again"
        )
    try:
        facts, known = group[names["facts"]][number], group[names["sums"]][number]
        dist = group[names["dist"]][there]
        if how.predecessors:
            pred = group[names["pred"]][there]
    except MemoryError:
        raise
    except Exception as error:  # of whatever keeps the files
        raise ValueError(f"{_spoiled(at)}: {error}") from error
    if _sum([dist, pred, facts]) != known:
        raise ValueError(f"{_spoiled(at)}: it has lost or changed some of band {number}")
    if not isinstance(like, np.ndarray):
        import cupy

        dist = cupy.asarray(dist)
        pred = None if pred is None else cupy.asarray(pred)
    return Band(dist, pred, Facts(bool(facts[0]), bool(facts[1]), float(facts[2])))


def _spoiled(at: Checkpoint) -> str:
    return (
        f"checkpoint={at.path!r} cannot be gone on from; remove that folder and make the call again"
    )
