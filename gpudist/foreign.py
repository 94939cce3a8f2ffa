"""What is no array: data frames are read column by column, and the rest is refused with advice."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from gpudist.nx import graphs

# The kinds of NumPy's dtypes that real numbers have.
NUMBERS = "fiub"


@cache
def _library(kind: type) -> str:
    """Return the name of a library below for its classes and those derived from them, else ""."""
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow", "dask", "dask_expr", "xarray"):
            return library
    return ""


def is_jax(value: Any) -> bool:
    """Tell whether it is an array of JAX, which is not imported."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def is_traced(value: Any) -> bool:
    """Tell whether it is an array of JAX that has a shape and no numbers yet."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def is_dask(*values: Any) -> bool:
    """Say whether one of the values is a Dask array, which nobody has who has not imported Dask."""
    module = sys.modules.get("dask.array")
    if module is None:
        return False
    kind = getattr(module, "Array", ())  # not there yet while another thread imports it
    return any(isinstance(value, kind) for value in values)


def refuse(value: Any, name: str) -> None:
    """Raise a TypeError that says what to do for what NumPy would take for something else.

    Parameters
    ----------
    value : object
        What was given for an array.
    name : str
        What errors call it.

    Raises
    ------
    TypeError
        It is a sparse matrix, a graph, or something that Dask or JAX has yet to compute.
    """
    _refuse_what_is_lazy(value, name)
    if is_sparse(value):
        raise TypeError(f"{name} is sparse; give a dense array, as {densely(value, name)} makes it")
    if graphs.is_graph(value):
        raise TypeError(
            f"{name} is a NetworkX graph, not an array; networkx.to_numpy_array({name}) makes one"
        )


def _refuse_what_is_lazy(value: Any, name: str) -> None:
    library = _library(type(value))  # type: ignore[arg-type]  # a type is hashable
    if is_dask(value):
        raise TypeError(
            f"{name} is a Dask array, which this function does not compute by itself; "
            f"{name}.compute() brings it here as a whole"
        )
    if is_traced(value):
        raise TypeError(
            f"{name} is traced by JAX, under jit, vmap or grad, where gpudist has cdist and pdist "
            "alone: call this outside of it, or through jax.pure_callback"
        )
    if library in ("dask", "dask_expr"):
        kind, array = type(value).__name__, ""
        if type(value).__module__ == "dask.delayed":  # which seems to have any attribute
            array = f"dask.array.from_delayed({name}, shape, dtype) is a Dask array of it, "
        elif hasattr(value, "to_dask_array"):
            array = f"{name}.to_dask_array(lengths=True) is a Dask array of it, "
        raise TypeError(
            f"{name} is a {kind} of Dask, which is not computed without a word; "
            f"{array}{name}.compute() brings it here"
        )
    if library == "xarray" and getattr(value, "chunks", None):
        raise TypeError(
            f"{name} is of xarray, with chunks of Dask; {name}.data is the Dask array, "
            f"{name}.compute() brings it here, and xarray.apply_ufunc keeps the coordinates"
        )


def is_sparse(value: Any) -> bool:
    """Say whether it is a sparse matrix or array of SciPy, CuPy or PyData."""
    return hasattr(value, "tocsr")


def densely(value: Any, name: str) -> str:
    """Return the call that makes a sparse matrix dense."""
    return f"{name}.{'toarray' if hasattr(value, 'toarray') else 'todense'}()"


def columns(value: Any, name: str) -> Any:
    """Return a data frame or a column of numbers as a NumPy array, and all else as it is.

    The columns of a frame may be of several types, and of those that know missing values, as long
    as none is missing. Of a list of frames or columns each is read so.

    Parameters
    ----------
    value : object
        What was given for an array.
    name : str
        What errors call it.

    Returns
    -------
    object
        An array of real numbers, or `value`.

    Raises
    ------
    TypeError
        A column is not of real numbers; it is named.
    ValueError
        A value is missing; its column is named.
    """
    library = _library(type(value))  # type: ignore[arg-type]  # a type is hashable
    if library == "pandas" and hasattr(value, "iloc"):
        return _pandas_frame(value, name) if value.ndim == 2 else _pandas_column(value, name)
    if library == "pandas" and hasattr(value, "to_numpy") and getattr(value, "ndim", 0) == 1:
        return _pandas_column(value.to_series(), name)  # an index
    if library == "polars" and hasattr(value, "to_numpy"):
        return _polars(value, name)
    if library == "pyarrow" and (hasattr(value, "null_count") or hasattr(value, "column_names")):
        return _pyarrow(value, name)
    if type(value) in (list, tuple) and any(map(_library, set(map(type, value)))):
        return [columns(part, f"{name}[{i}]") for i, part in enumerate(value)]
    return value


def may_have_names(value: Any) -> bool:
    """Tell whether it is of a library whose arrays have names, which is soon asked."""
    return _library(type(value)) != ""  # type: ignore[arg-type]  # a type is hashable


def labels(value: Any, axis: int = -1) -> list[str]:
    """Return the names of columns, or with an axis of -2 of rows, where they are text.

    Frames have them, arrays of xarray with coordinates, and a column of pandas by its index, which
    has a number for each column of something else.

    Parameters
    ----------
    value : object
        What was given for an array.
    axis : int
        -1 or -2.

    Returns
    -------
    list of str
        The names, none where there are none or some are no text.
    """
    library = _library(type(value))  # type: ignore[arg-type]  # a type is hashable
    names: Iterable[Any] = ()
    if library == "pandas" and hasattr(value, "iloc"):
        names = value.columns if axis == -1 and value.ndim == 2 else value.index
    elif library == "xarray" and getattr(value, "ndim", 0) >= -axis:
        names = value.indexes.get(value.dims[axis], ())
    elif axis == -1 and library == "polars" and hasattr(value, "get_columns"):
        names = value.columns
    elif axis == -1 and library == "pyarrow" and hasattr(value, "column_names"):
        names = value.column_names
    names = list(names)
    return names if all(isinstance(name, str) for name in names) else []


def in_other_order(some: list[Any], others: list[Any]) -> bool:
    """Tell whether these are the same names, each as often, but in two orders."""
    return some != others and len(some) == len(others) and Counter(some) == Counter(others)


def refuse_other_names(named: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Raise a ValueError where frames have the same columns in two orders.

    Parameters
    ----------
    named : dict
        The operands, by the names that errors shall use.
    arguments : dict
        Arguments by their names, which may have a number for each column of the operands.

    Raises
    ------
    ValueError
        As for `refuse_other_order`.
    """
    if not any(map(may_have_names, named.values())):  # as of most, and small calls feel it
        return
    known = [(name, labels(value)) for name, value in (named | arguments).items()]
    if "VI" in arguments:
        known.append(("VI", labels(arguments["VI"], -2)))
    refuse_other_order(known)


def refuse_other_order(known: Iterable[tuple[str, list[str]]]) -> None:
    """Raise a ValueError where the same columns are in two orders.

    Parameters
    ----------
    known : iterable of tuple
        What has columns, by the name that errors shall use, and its `labels`.

    Raises
    ------
    ValueError
        By position, as columns are read, others would meet than by name.
    """
    (first, some), *rest = [(name, names) for name, names in known if names] or [("", [])]
    for name, others in rest:
        if in_other_order(some, others):
            raise ValueError(
                f"{name} has the columns of {first} in another order, and columns are read by "
                "their position: give them in one order, or give arrays"
            )


def _pandas_frame(frame: Any, name: str) -> Any:
    plain = {dtype.kind if isinstance(dtype, np.dtype) else "O" for dtype in frame.dtypes}
    if plain and (plain <= set("fiu") or plain == {"b"}):
        return np.asarray(frame)
    return _side_by_side(
        len(frame),
        [
            _pandas_column(frame.iloc[:, i], f"{name}'s column {label!r}")
            for i, label in enumerate(frame.columns)
        ],
    )


def _pandas_column(column: Any, where: str) -> Any:
    pandas, dtype = sys.modules["pandas"], column.dtype
    # NaN of the other types is a number like any.
    if getattr(dtype, "na_value", None) is pandas.NA and column.isna().any():
        raise _missing(where)
    as_numbers = getattr(dtype, "numpy_dtype", None)
    if isinstance(dtype, np.dtype) or as_numbers is None or as_numbers.kind not in NUMBERS:
        return _checked(np.asarray(column), where, dtype)
    return _checked(column.to_numpy(as_numbers), where, dtype)


def _polars(value: Any, name: str) -> Any:
    frame = hasattr(value, "get_columns")
    for column in value.get_columns() if frame else [value]:
        where = f"{name}'s column {column.name!r}" if frame else name
        flat = column.explode() if column.dtype.is_nested() else column
        if flat.null_count():
            raise _missing(where)
        try:
            first = column.head(1).to_numpy()
        except Exception:  # of a type that NumPy does not have
            first = np.empty(0, object)
        if frame and first.ndim > 1:  # a matrix within a column
            first = np.fromiter(first, object, len(first))
        _checked(first, where, column.dtype)
    return np.asarray(value)


def _pyarrow(value: Any, name: str) -> Any:
    if not hasattr(value, "column_names"):
        return _pyarrow_column(value, name)
    labels = [f"{name}'s column {label!r}" for label in value.column_names]
    return _side_by_side(value.num_rows, list(map(_pyarrow_column, value.columns, labels)))


def _pyarrow_column(column: Any, where: str) -> Any:
    if column.null_count:
        raise _missing(where)
    return _checked(np.asarray(column), where, column.type)


def _missing(where: str) -> ValueError:
    return ValueError(
        f"{where} has missing values; fill them, or drop their rows (NaN is taken, as a number)"
    )


def _checked(column: Any, where: str, dtype: Any) -> Any:
    if column.dtype.kind not in NUMBERS:
        advice = "convert it or leave it out"
        if len(column) and isinstance(column[0], (list, tuple, np.ndarray)):  # as vectors are kept
            advice = "numpy.stack(numpy.asarray(column)) makes a matrix of its rows"
        raise TypeError(f"{where} must be of real numbers, got dtype {dtype}; {advice}")
    return column


def _side_by_side(rows: int, parts: list[Any]) -> Any:
    """Return columns as a matrix of the dtype that holds them all."""
    dtype = np.result_type(*{part.dtype for part in parts}) if parts else np.dtype(np.float64)
    matrix = np.empty((rows, len(parts)), dtype)
    for i, part in enumerate(parts):
        matrix[:, i] = part
    return matrix


def not_numbers(value: Any, array: Any, name: str) -> TypeError:
    """Say why what NumPy made of `value` does not do, and what would.

    Parameters
    ----------
    value : object
        What was given for an array.
    array : ndarray
        What NumPy made of it, not of real numbers.
    name : str
        What errors call it.

    Returns
    -------
    TypeError
        The error to raise.
    """
    found, advice = f"dtype {array.dtype}", ""
    if array.ndim == 0 and not isinstance(value, np.ndarray):
        found = "None" if value is None else f"an object of type {type(value).__name__}"
        if hasattr(value, "collect"):  # a query that nobody has run yet
            advice = f"; {name}.collect() computes it"
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
            advice = f"; numpy.array(list({name})) may make one"
    elif array.dtype.kind == "c":
        advice = f"; take {name}.real, or {name}.real and {name}.imag side by side"
    elif array.dtype.kind in "mM":
        advice = "; subtract a time, and divide by numpy.timedelta64(1, 'D') for days"
    elif array.dtype.kind in "US":
        advice = f"; numpy.asarray({name}, dtype=float) reads numbers that are written out"
    elif array.dtype.kind == "O":
        advice = _first_stranger(array)
    elif array.dtype.names is not None:
        advice = f"; numpy.lib.recfunctions.structured_to_unstructured({name}) is its numbers alone"
    elif array.dtype.kind == "V" and not array.dtype.name.startswith(("void", "record")):
        advice = f"; {name}.astype('float32') holds all of its numbers"  # of ml_dtypes
    return TypeError(f"{name} must be an array of real numbers, got {found}{advice}")


def _first_stranger(array: Any) -> str:
    for index, element in np.ndenumerate(array):
        if not isinstance(element, (int, float, np.bool_, np.number)):
            at = ", ".join(map(str, index))
            return f"; its element [{at}] is of type {type(element).__name__}"
    return "; convert it with dtype=float"


def uneven_rows(value: Any) -> str:
    """Say which of a list's rows is of another length than the first, "" where none is."""
    if not isinstance(value, (list, tuple)):
        return ""
    lengths = [len(row) if hasattr(row, "__len__") else -1 for row in value]
    for i, length in enumerate(lengths):
        if length != lengths[0]:
            return f"row {i} {_of_length(length)}, row 0 {_of_length(lengths[0])}"
    return ""


def _of_length(length: int) -> str:
    return "is no list" if length < 0 else f"has {length} element{'s' * (length != 1)}"
