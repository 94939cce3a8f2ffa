"""What is asked of Dask arrays, and of what is given beside them, before there is a graph."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.utils import format_bytes, parse_bytes

from gpudist import arrays, errors, foreign

# One part in so many of a worker's memory is what an operand may take that it holds as a whole.
_SHARE = 4


def take(value: Any, name: str) -> Any:
    """Return a two-dimensional Dask array of real numbers in NumPy or CuPy chunks.

    Parameters
    ----------
    value : dask.array.Array or array_like
        What was given.
    name : str
        What errors call it.

    Returns
    -------
    dask.array.Array
        The array itself; of anything that gpudist reads on the host, one chunk.

    Raises
    ------
    TypeError
        Its chunks are of another kind, or no real numbers.
    ValueError
        Its chunks are of unknown lengths, or it is not two-dimensional.
    """
    if not foreign.is_dask(value):
        if arrays.space_of(**{name: value}) is arrays.HOST:
            value = arrays.HOST.array(value, name)
        elif "cupy" not in sys.modules or not isinstance(value, sys.modules["cupy"].ndarray):
            raise TypeError(f"{name} must be a Dask, NumPy or CuPy array beside a Dask array")
        value = da.from_array(value, chunks=-1)
    if any(math.isnan(length) for length in value.shape):
        raise ValueError(
            f"{name} has chunks of unknown lengths; {name}.compute_chunk_sizes() finds them, for "
            "which it computes the array once"
        )
    if value.ndim != 2:
        raise errors.not_two_dimensional(name, value.ndim, points=name.startswith("X"))
    kind = type(value._meta)
    cupy = sys.modules.get("cupy")
    if kind is not np.ndarray and (cupy is None or kind is not cupy.ndarray):
        raise TypeError(
            f"{name} has chunks of {kind.__module__}.{kind.__name__}; chunks of NumPy and CuPy are "
            f"taken, as {_plainly(value, name)} may make them"
        )
    if value.dtype.kind not in foreign.NUMBERS:
        raise foreign.not_numbers(value._meta, np.empty(0, value.dtype), name)
    return value


def _plainly(value: Any, name: str) -> str:
    """Return the call that makes other chunks those of NumPy, with nothing lost on the way."""
    if isinstance(value._meta, np.ma.MaskedArray):
        return f"dask.array.ma.filled({name}, numpy.nan)"
    if foreign.is_sparse(value._meta):
        dense = foreign.densely(value._meta, "chunk")
        return f"{name}.map_blocks(lambda chunk: {dense}, dtype={name}.dtype)"
    return f"{name}.map_blocks(numpy.asarray)"


def on_host(value: Any) -> bool:
    """Say whether a Dask array's chunks are on the host."""
    return type(value._meta) is np.ndarray


def space_of(**operands: Any) -> arrays.Space:
    """Find the one space in which all chunks live, or raise a TypeError."""
    return arrays.space_of(**{name: value._meta for name, value in operands.items()})


def stand_in(value: Any, rows: int = 0) -> Any:
    """Return a NumPy array of so many rows of zeros, for what the values do not decide."""
    return np.zeros((rows, value.shape[1]), value.dtype)


def like(value: Any, ndim: int, dtype: Any) -> Any:
    """Return the meta of a result: an empty array of the chunks' kind."""
    return meta_from_array(value._meta, ndim=ndim, dtype=np.dtype(dtype))


def refuse(function: str, **given: Any) -> None:
    """Raise a TypeError for what has no meaning where nothing is computed yet.

    Parameters
    ----------
    function : str
        Who was called.
    **given : object
        The arguments, None or False where they were not given.
    """
    advice = {
        "out": "dask.array.store and to_zarr write a result where it is wanted",
        "rows": "slice the result, which is lazy: only the blocks that are asked for are computed",
        "progress": "dask.diagnostics.ProgressBar and Dask's dashboard show how far it is",
        "overwrite": "what a Dask array holds is never written to",
        "labels": "give names to rows and columns when they are computed",
        "options": "options are for a kernel by name, which bands of rows have not",
    }
    for name, value in given.items():
        if value is not None and value is not False:
            raise TypeError(f"{function} of a Dask array takes no {name}: {advice[name]}")


def check_device(device: str | None) -> None:
    """Raise a ValueError for a text that names no device of a worker, whatever it has."""
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device, re.ASCII):
        raise ValueError(
            f"device must be None, 'cpu', 'cuda' or 'cuda:N', got {device!r}; for all cards of a "
            "machine, start a worker for each, as dask_cuda.LocalCUDACluster does"
        )


def whole_rows(value: Any) -> Any:
    """Merge chunks that split rows."""
    return value if value.numblocks[1] == 1 else value.rechunk({1: -1})


def whole(value: Any, name: str) -> Any:
    """Merge all chunks, as every worker will hold the array.

    Raises
    ------
    MemoryError
        It takes more than a fourth of a worker's memory; only a cluster that is there can tell.
    """
    limit = _least_memory()
    if limit is not None and value.nbytes > limit // _SHARE:
        raise MemoryError(
            f"{name} takes {format_bytes(value.nbytes)}, and every worker holds it as a whole: "
            f"more than a fourth of the {format_bytes(limit)} that a worker has. Give the larger "
            "operand first, or workers with more memory"
        )
    return value if set(value.numblocks) <= {1} else value.rechunk(-1)


def _least_memory() -> int | None:
    """Return the memory limit of the poorest worker of the default cluster, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    if client.asynchronous:  # nobody may wait for its answer here
        return None
    workers = client.scheduler_info()["workers"].values()
    limits = [worker["memory_limit"] for worker in workers if worker["memory_limit"]]
    return min(limits, default=None)


def split_rows(value: Any, columns: int, itemsize: int) -> Any:
    """Split chunks of rows whose results would be larger than Dask's ``array.chunk-size``.

    Parameters
    ----------
    value : dask.array.Array
        With whole rows.
    columns, itemsize : int
        Of the result.

    Returns
    -------
    dask.array.Array
        Chunks that are small enough stay as they are.
    """
    most = rows_of_a_chunk(columns, itemsize)
    if max(value.chunks[0]) <= most:
        return value
    parts = [even for length in value.chunks[0] for even in evenly(length, most)]
    return value.rechunk({0: tuple(parts)})


def rows_of_a_chunk(columns: int, itemsize: int) -> int:
    """Return how many rows of a result make one chunk, at least 1."""
    target: int = parse_bytes(dask.config.get("array.chunk-size"))
    return max(target // max(columns * itemsize, 1), 1)


def evenly(length: int, most: int) -> list[int]:
    """Cut a length into the fewest pieces of at most `most`, of nearly equal lengths."""
    if length == 0:
        return [0]
    pieces = -(-length // most)
    return [length * (i + 1) // pieces - length * i // pieces for i in range(pieces)]
