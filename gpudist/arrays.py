"""Where arrays live, and how results are allocated there.

gpudist reads arrays of any library and owns none: results are allocated by NumPy for host arrays,
and by the caller's own library for arrays on a CUDA device. A *space* is one such home. All of them
have the same few methods, so that `cdist` and `apsp` are written once.
"""

from __future__ import annotations

import abc
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpudist import _core, checks, foreign, recycling

# Device types of the DLPack specification that CUDA kernels can reach.
_DLPACK_CUDA = (2, 13)

# What gives float32 results.
_HOST_SINGLES = frozenset({"float32"})
_HALVES = ("float16", "bfloat16")
_DEVICE_SINGLES = frozenset({"float32", "float16", "bfloat16"})

# Results of fewer bytes are allocated without asking how much memory there is.
_SMALL = 2**28
# The CUDA driver's code for being out of memory, which Numba's exceptions carry.
_CUDA_OUT_OF_MEMORY = 2


class View(NamedTuple):
    """Where an array's elements are: `strides` are in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def span(self) -> tuple[int, int]:
        """Return the address of the first byte, and of the one after the last."""
        if 0 in self.shape:
            return self.address, self.address
        apart = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        below, above = sum(min(0, x) for x in apart), sum(max(0, x) for x in apart)
        return self.address + below, self.address + above + _item_size(self.dtype)


class Space(Protocol):
    """A home of arrays: the host, or one library's CUDA arrays.

    Attributes
    ----------
    ordered : bool
        Whether the arrays' own work is on the stream that `stream` gives, so that ours need not
        wait for it.
    """

    ordered: bool

    def array(self, value: Any, name: str) -> Any:
        """Return `value` as an array of real numbers, or raise an error that names it."""

    def dtype_name(self, array: Any) -> str:
        """Return NumPy's name of the array's dtype."""

    def cast(self, array: Any, dtype: str) -> Any:
        """Return the array in that dtype, itself where it has it."""

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """Return an uninitialised array on the device of `like`, or raise a MemoryError."""

    def assign(self, out: Any, array: Any) -> None:
        """Write the array into `out`, rounded to its dtype."""

    def host(self, array: Any) -> Any:
        """Return the array as a NumPy array of float64; waits for the device."""

    def stream(self, array: Any) -> int:
        """Return the handle of the stream on which the caller works, 0 for the default stream."""

    def read(self, value: Any, name: str) -> tuple[Any, str]:
        """Return what `array` returns, and the name of its dtype."""

    def operand(self, array: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """Return what the core takes for an array of that dtype and shape.

        That is the array itself or, which is quicker for both sides, its description: a tuple of
        pointer, shape, strides, the bytes that these count in (1 for elements), dtype, and the
        device's index.
        """

    def describes(self, array: Any) -> bool:
        """Tell whether `operand` gives the description of an array of this kind."""

    def view(self, array: Any) -> View:
        """Return where the array's elements are."""

    def copy(self, array: Any) -> Any:
        """Return a copy of the array, or raise a TypeError."""

    def dense(self, array: Any) -> Any:
        """Return a copy of the array in whose rows elements follow each other, or a TypeError."""


# Libraries make these anew each time, which small calls feel.
@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)


@cache
def _torch_name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _tensor_type() -> Any:
    return sys.modules["torch"].Tensor


@cache
def _torch_stream() -> Callable[[Any], int]:
    """Return the quicker way to ask PyTorch for its current stream on a tensor's device."""
    torch = sys.modules["torch"]
    if not hasattr(torch.Stream, "native_handle"):
        return lambda array: int(torch.cuda.current_stream(array.device).cuda_stream)
    current = torch.accelerator.current_stream
    return lambda array: current(array.get_device()).native_handle or 0


@cache
def _item_size(dtype: str) -> int:
    return np.dtype(dtype).itemsize


class _Base(abc.ABC):
    """What most spaces do alike."""

    @abc.abstractmethod
    def array(self, value: Any, name: str) -> Any: ...

    @abc.abstractmethod
    def dtype_name(self, array: Any) -> str: ...

    def read(self, value: Any, name: str) -> tuple[Any, str]:
        array = self.array(value, name)
        return array, self.dtype_name(array)

    def operand(self, array: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        return array

    def describes(self, array: Any) -> bool:
        return False

    def copy(self, array: Any) -> Any:
        return array.copy()

    def dense(self, array: Any) -> Any:
        return self.copy(array)


class _Host(_Base):
    """NumPy arrays, and all that NumPy makes arrays of."""

    ordered = True

    def array(self, value: Any, name: str) -> Any:
        return self.read(value, name)[0]

    def read(self, value: Any, name: str) -> tuple[Any, str]:
        if type(value) is np.ndarray:  # which small calls need not be asked about
            array = value
        else:
            value = foreign.columns(value, name)
            array = host_objects(value, name)
        dtype = array.dtype
        if dtype.kind not in foreign.NUMBERS:
            raise foreign.not_numbers(value, array, name)
        return array, _name_of(dtype)

    def dtype_name(self, array: Any) -> str:
        return _name_of(array.dtype)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.astype(dtype, copy=False)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        if math.prod(shape) * _item_size(dtype) <= recycling.SMALL:
            return np.empty(shape, dtype)
        return _allocate(
            lambda: recycling.empty(shape, dtype),
            shape,
            dtype,
            _host_memory,
        )

    def assign(self, out: Any, array: Any) -> None:
        with np.errstate(all="ignore"):
            out[...] = array

    def host(self, array: Any) -> Any:
        return np.asarray(array, np.float64, order="C")

    def stream(self, array: Any) -> int:
        return 0

    def view(self, array: Any) -> View:
        return View(array.ctypes.data, array.shape, array.strides, array.dtype.str)


class _Torch(_Base):
    """PyTorch tensors on a CUDA device."""

    ordered = True

    def array(self, value: Any, name: str) -> Any:
        if value.dtype.is_complex:
            raise TypeError(f"{name} must be an array of real numbers, got dtype {value.dtype}")
        checks.refuse_recorded(name, value)
        # DLPack would tell of the numbers before they are negated.
        value = value.resolve_neg()
        return value.detach() if value.requires_grad else value

    def dtype_name(self, array: Any) -> str:
        return _torch_name_of(array.dtype)

    def cast(self, array: Any, dtype: str) -> Any:
        if _torch_name_of(array.dtype) == dtype:
            return array
        return array.to(getattr(sys.modules["torch"], dtype))

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        torch = sys.modules["torch"]
        alike = type(like) is torch.Tensor and _torch_name_of(like.dtype) == dtype
        return _allocate(
            (lambda: like.new_empty(shape))  # the quicker way
            if alike
            else lambda: torch.empty(shape, dtype=getattr(torch, dtype), device=like.device),
            shape,
            dtype,
            lambda: _device_memory(like.device.index),
        )

    def assign(self, out: Any, array: Any) -> None:
        out.copy_(sys.modules["torch"].as_tensor(array))

    def host(self, array: Any) -> Any:
        return array.double().cpu().contiguous().numpy()

    def stream(self, array: Any) -> int:
        return _torch_stream()(array)

    def read(self, value: Any, name: str) -> tuple[Any, str]:
        dtype = _torch_name_of(value.dtype)
        if value.requires_grad or value.is_neg() or dtype.startswith("complex"):
            value = self.array(value, name)
        return value, dtype

    def operand(self, array: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        # DLPack knows what becomes of other kinds of tensors: most are refused.
        if not self.describes(array):
            return array
        return array.data_ptr(), shape, array.stride(), 1, dtype, array.get_device()

    def describes(self, array: Any) -> bool:
        return not (type(array) is not _tensor_type() or array.requires_grad or array.is_neg())

    def view(self, array: Any) -> View:
        size = array.element_size()
        strides = tuple(size * s for s in array.stride())
        return View(array.data_ptr(), tuple(array.shape), strides, _torch_name_of(array.dtype))

    def copy(self, array: Any) -> Any:
        return array.clone()

    def dense(self, array: Any) -> Any:
        return array.contiguous()


class _CuPy(_Base):
    """CuPy arrays."""

    ordered = True

    def array(self, value: Any, name: str) -> Any:
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be an array of real numbers, got dtype {value.dtype}")
        return value

    def dtype_name(self, array: Any) -> str:
        return _name_of(array.dtype)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.astype(dtype, copy=False)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with like.device:
            return _allocate(
                lambda: sys.modules["cupy"].empty(shape, dtype),
                shape,
                dtype,
                lambda: _device_memory(like.device.id),
            )

    def assign(self, out: Any, array: Any) -> None:
        out[...] = sys.modules["cupy"].asarray(array)

    def host(self, array: Any) -> Any:
        return np.asarray(array.get(), np.float64, order="C")

    def stream(self, array: Any) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(array.data.device_id).ptr)

    def operand(self, array: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        if not self.describes(array):
            return array
        memory = array.data
        return memory.ptr, shape, array.strides, _item_size(dtype), dtype, memory.device_id

    def describes(self, array: Any) -> bool:
        return type(array) is sys.modules["cupy"].ndarray

    def view(self, array: Any) -> View:
        return View(array.data.ptr, array.shape, array.strides, _name_of(array.dtype))


class _Described:
    """An object that has nothing of an array but `__cuda_array_interface__`, with its shape."""

    def __init__(self, value: Any, name: str) -> None:
        try:
            interface = value.__cuda_array_interface__
            self.shape = tuple(map(int, interface["shape"]))
            np.dtype(interface["typestr"])
        except Exception as error:
            raise TypeError(
                f"{name} has a __cuda_array_interface__ without a shape or a known typestr: {error}"
            ) from error
        self.__cuda_array_interface__ = interface
        self.owner = value


def _in_bytes(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str
) -> tuple[int, ...]:
    """Return strides in bytes from those in elements, None for rows that follow each other."""
    if strides is None:
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return tuple(_item_size(dtype) * s for s in strides)


class _Exported:
    """An object that has nothing of an array but DLPack, with its shape and dtype."""

    def __init__(self, value: Any, name: str) -> None:
        try:
            self.shape, self.dtype, address, strides = _core.describe(value, name)
        except Exception as error:
            raise TypeError(f"{name} cannot be read by its __dlpack__: {error}") from error
        self.view = View(
            address, self.shape, _in_bytes(self.shape, strides, self.dtype), self.dtype
        )
        self.__dlpack__ = value.__dlpack__
        self.__dlpack_device__ = value.__dlpack_device__
        self.owner = value


class _Numba(_Base):
    """Numba device arrays, and any other object with `__cuda_array_interface__` or DLPack.

    Numba arrays have no `astype`, so they must come in the dtype of the computation.
    """

    ordered = False

    def array(self, value: Any, name: str) -> Any:
        if _has(value, "__cuda_array_interface__"):
            described = _Described(value, name)
            return value if hasattr(value, "shape") else described
        return value if isinstance(value, _Exported) else _Exported(value, name)

    def dtype_name(self, array: Any) -> str:
        known = self.array(array, "out")  # all but out went through here before
        if isinstance(known, _Exported):
            return known.dtype
        return str(np.dtype(known.__cuda_array_interface__["typestr"]).name)

    def cast(self, array: Any, dtype: str) -> Any:
        found = self.dtype_name(array)
        if found != dtype:
            raise TypeError(
                f"a device array of dtype {found} cannot be converted to {dtype} here: "
                "convert it first, or use PyTorch or CuPy arrays"
            )
        return array

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        numba_cuda = sys.modules.get("numba.cuda")
        if numba_cuda is None:
            kind = type(getattr(like, "owner", like))
            raise TypeError(
                f"gpudist allocates results for NumPy, PyTorch, CuPy and Numba arrays, not for "
                f"{kind.__module__}.{kind.__name__}; give the result's array as out="
            )
        return _allocate(
            lambda: numba_cuda.device_array(shape, dtype),
            shape,
            dtype,
            lambda: _device_memory(numba_cuda.get_current_device().id),
        )

    def assign(self, out: Any, array: Any) -> None:
        if not hasattr(out, "copy_to_device"):
            raise TypeError(
                f"out is of {self.dtype_name(out)}, the computation of {self.dtype_name(array)}: "
                "give an array of that dtype, or of a library that converts"
            )
        host = isinstance(array, np.ndarray)
        dtype = self.dtype_name(out)
        out.copy_to_device(array.astype(dtype) if host else self.cast(array, dtype))

    def view(self, array: Any) -> View:
        known = self.array(array, "out")
        if isinstance(known, _Exported):
            return known.view
        interface, dtype = known.__cuda_array_interface__, self.dtype_name(known)
        try:
            shape, strides = tuple(map(int, interface["shape"])), interface.get("strides")
            strides = _in_bytes(shape, None, dtype) if strides is None else map(int, strides)
            view = View(int(interface["data"][0]), shape, tuple(strides), dtype)
            view.span()
        except Exception:  # the core will refuse it, by its name
            return View(0, (0,), (0,), dtype)
        return view

    def copy(self, array: Any) -> Any:
        kind = type(getattr(array, "owner", array))
        raise TypeError(f"gpudist copies no arrays of {kind.__module__}.{kind.__name__}")

    def host(self, array: Any) -> Any:
        to_host = getattr(array, "copy_to_host", None)
        return np.asarray(array if to_host is None else to_host(), np.float64, order="C")

    def stream(self, array: Any) -> int:
        return 0


def _has(value: Any, name: str) -> bool:
    """Tell whether there is such an attribute, even one that fails when it is asked for."""
    return hasattr(type(value), name) or hasattr(value, name)


def _allocate(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    dtype: str,
    memory: Callable[[], tuple[int, str]],
) -> Any:
    """Allocate a result, or raise a MemoryError that names the bytes and says what to do.

    `memory` gives the bytes that there are, and what the error says about them.
    """
    wanted = math.prod(shape) * _item_size(dtype)
    if wanted <= _SMALL or wanted <= memory()[0]:
        try:
            return make()
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
    raise MemoryError(f"the result needs {wanted} bytes and {memory()[1]}")


def _host_memory() -> tuple[int, str]:
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return there, (
        f"this machine has {there} bytes, perhaps not all of them for this process; give a "
        "numpy.memmap as out=, or ask for some rows alone, by rows= or indices= where the function "
        "has it"
    )


def _device_memory(index: int) -> tuple[int, str]:
    # A build without CUDA knows no device, and says so when it is asked to compute.
    devices = {device["index"]: device["memory_bytes"] for device in _core.cuda()["devices"]}
    there = devices.get(index, sys.maxsize)
    return there, (
        f"cuda:{index} has {there} bytes, perhaps not all of them free; give host arrays, or ask "
        "for some rows alone, by rows= where the function has it"
    )


def _is_out_of_memory(error: Exception) -> bool:
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"  # PyTorch's is a RuntimeError
        or getattr(error, "code", None) == _CUDA_OUT_OF_MEMORY
    )


HOST: Space = _Host()
# Types of operands, and of what is left out, that belong to no other library.
OF_NUMPY = frozenset({np.ndarray, type(None)})
_LIBRARIES: dict[str, Space] = {
    "torch": _Torch(),
    "cupy": _CuPy(),
    "pandas": HOST,
    "polars": HOST,
    "pyarrow": HOST,
}
_OTHER: Space = _Numba()


@cache
def _home_of(kind: type) -> Space:
    """Return the space of arrays of this type, if they are on a device."""
    if issubclass(kind, np.ndarray):
        return HOST
    return _LIBRARIES.get(kind.__module__.partition(".")[0], _OTHER)


def _home(value: Any) -> Space:
    home = _home_of(type(value))  # type: ignore[arg-type]  # a type is hashable
    if home is HOST:
        return HOST
    is_cuda = getattr(value, "is_cuda", None)  # PyTorch's answer, quicker than the protocol's
    if isinstance(is_cuda, bool):
        return home if is_cuda else HOST
    tell = getattr(value, "__dlpack_device__", None)
    if tell is not None:
        return home if tell()[0] in _DLPACK_CUDA else HOST
    return home if _has(value, "__cuda_array_interface__") else HOST


def space_of(**operands: Any) -> Space:
    """Find the one space in which all operands live.

    Parameters
    ----------
    **operands
        Arrays by the names that errors shall use; None is passed over.

    Returns
    -------
    Space
        Their space.

    Raises
    ------
    TypeError
        Some operands are on the host and others on a device, or they are of two libraries.
    """
    if OF_NUMPY.issuperset(map(type, operands.values())):  # as most are
        return HOST
    found: Space | None = None
    first = ""
    for name, value in operands.items():
        if value is None:
            continue
        try:
            space = _home(value)
        except Exception as error:
            raise TypeError(f"{name} does not say on which device it is: {error}") from error
        if found is None:
            found, first = space, name
        elif space is not found:
            raise TypeError(_mixed(first, found, name, space))
    return HOST if found is None else found


def _mixed(first: str, one: Space, second: str, other: Space) -> str:
    if HOST in (one, other):
        host, device = (first, second) if one is HOST else (second, first)
        return (
            f"{host} is on the host and {device} on a CUDA device; move one of them, for example "
            f"torch.as_tensor({host}, device='cuda'), cupy.asarray({host}), or {device}.cpu()"
        )
    return f"{first} and {second} are arrays of different libraries"


def device_for(space: Space, array: Any, device: str | None) -> str | None:
    """Return the device that a call with this array is for: where it is, unless it is on the host.

    The core finds out by itself; this is for what is only talked about.
    """
    if space is HOST:
        return device
    where = getattr(array, "__dlpack_device__", None)
    return "cuda" if where is None else f"cuda:{where()[1]}"


def refuse_devices(space: Space, what: str) -> None:
    """Raise a TypeError if arrays are on a device, for `what` is computed by NumPy."""
    if space is not HOST:
        raise TypeError(f"{what} takes host arrays, move them first")


def host_objects(value: Any, name: str) -> Any:
    """Return `value` as a NumPy array of any dtype; refuse a mask, which would be ignored."""
    if type(value) is np.ndarray:
        return value
    _refuse_what_would_be_lost(value, name)
    try:
        return _by_numpy(value)
    except MemoryError:
        raise
    except Exception as error:  # of NumPy, or of the object itself
        kind = ValueError if isinstance(error, ValueError) else TypeError
        why = foreign.uneven_rows(value) or error
        raise kind(f"{name} cannot be read as an array: {why}") from error


# What has nothing that NumPy would lose, and the most dimensions that it reads.
_HARMLESS = frozenset({bool, int, float, np.ndarray, np.float64, np.float32, np.int64})
_DEPTH = 64


def _refuse_what_would_be_lost(value: Any, name: str, depth: int = 0) -> None:
    """Raise a TypeError for a mask, for what has yet to be computed, and for a list of such."""
    if type(value) in (list, tuple):
        if depth < _DEPTH and not _HARMLESS.issuperset(map(type, value)):
            for i, part in enumerate(value):
                # Of a row it is enough to see that it begins as rows of numbers do.
                if type(part) is not list or not part or type(part[0]) not in _HARMLESS:
                    _refuse_what_would_be_lost(part, f"{name}[{i}]", depth + 1)
        return
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill it first, its mask would be ignored")
    foreign.refuse(value, name)
    checks.refuse_recorded(name, value)


def _by_numpy(value: Any) -> Any:
    """Return what NumPy reads: in float32 if it is of half precision."""
    if not _is_tensor(value):
        half = foreign.is_jax(value) and str(value.dtype) in _HALVES
        return np.asarray(value.astype("float32") if half else value)
    if value.is_nested:
        raise TypeError(
            "a nested tensor is no one array; torch.nested.to_padded_tensor makes a batch of it, "
            "and unbind() a list"
        )
    if value.is_quantized:
        raise TypeError(f"NumPy has no {value.dtype}; dequantize() makes float32 of it")
    if str(value.dtype).startswith("torch.float8"):
        raise TypeError(f"NumPy has no {value.dtype}; float() makes float32 of it")
    # Within a transform of torch.func, what operators make of a constant has no memory to read.
    with sys.modules["torch"]._C._DisableFuncTorch():
        value = value.detach().resolve_conj().resolve_neg()
        return np.asarray(value.float() if _torch_name_of(value.dtype) in _HALVES else value)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def parameter(space: Space, value: Any, name: str) -> Any:
    """Bring an array that parametrises a metric to the host.

    Parameters
    ----------
    space : Space
        Where the points are; the parameter may be there or on the host.
    value : array_like
        The parameter.
    name : str
        Its name, for errors.

    Returns
    -------
    ndarray of float64
        The parameter, C-contiguous.

    Raises
    ------
    TypeError
        It is in a third place, or not an array of real numbers.
    """
    home = space_of(**{name: value})
    if home not in (HOST, space):
        raise TypeError(f"{name} must be on the host, or of the same library as the points")
    return home.host(home.array(value, name))


def dimensions(value: Any) -> int:
    """Return the number of dimensions of an array, or of nested lists, as far as it is told."""
    around = 0
    while isinstance(value, (list, tuple)) and around < _DEPTH:
        value, around = (value[0] if value else 0), around + 1
    own = getattr(value, "ndim", None)
    if isinstance(own, int):
        return around + own
    shape = getattr(value, "shape", None)
    return around + (len(shape) if isinstance(shape, tuple) else 0)


def in_place(space: Space, array: Any, out: Any) -> bool:
    """Tell whether an operand is `out`, or another view of just the same elements."""
    return array is out or space.view(array) == space.view(out)


def overlap(space: Space, array: Any, out: Any) -> bool:
    """Tell whether two arrays of a space may have bytes in common, by their first and last ones."""
    if space is HOST:
        return np.may_share_memory(array, out)
    (first, end), (begin, last) = space.view(array).span(), space.view(out).span()
    return first < last and begin < end


def dense(space: Space, array: Any) -> Any:
    """Return the array, or a copy of it in which elements follow each other row by row."""
    view = space.view(array)
    follow = _in_bytes(view.shape, None, view.dtype)
    along = zip(view.shape, view.strides, follow, strict=True)
    if 0 in view.shape or all(n == 1 or had == wanted for n, had, wanted in along):
        return array
    return space.dense(array)


def flat(space: Space, array: Any, dtype: str, axes: int) -> Any:
    """Return what the core takes for an array whose elements follow each other, as one row.

    Parameters
    ----------
    space : Space
        Where the array is.
    array : array
        Of `dtype`, as `dense` returns it.
    dtype : str
        Its dtype.
    axes : int
        How many dimensions the core wants: 1, or 2 for a matrix of one row.

    Returns
    -------
    array or tuple
        As `Space.operand` returns it.
    """
    if space is HOST:
        return array.reshape(*(1,) * (axes - 1), -1)
    shape = tuple(array.shape)
    told = space.operand(array, dtype, shape)
    if isinstance(told, tuple):
        elements = math.prod(shape)
        ends = (1, elements) if axes == 2 else (elements,)
        strides = (elements, 1) if axes == 2 else (1,)
        return told[0], ends, strides, 1, told[4], told[5]
    return getattr(told, "owner", told).reshape(*(1,) * (axes - 1), -1)


def apart(space: Space, named: dict[str, Any], out: Any) -> list[Any]:
    """Copy operands that share memory with `out`: what is written must not be read again.

    Parameters
    ----------
    space : Space
        Where all of them are.
    named : dict
        The operands by the names that errors shall use; None is passed over.
    out : array
        Where the result is written.

    Returns
    -------
    list
        The operands, or copies of them; one copy of what is there twice.

    Raises
    ------
    TypeError
        One would have to be copied, and is of a library that gpudist makes no arrays of.
    """
    copies: dict[int, Any] = {}
    for name, array in named.items():
        if array is None or id(array) in copies or not overlap(space, array, out):
            continue
        try:
            copies[id(array)] = space.copy(array)
        except TypeError as error:
            raise TypeError(f"{name} shares memory with out: {error}; copy it first") from None
    return [copies.get(id(array), array) for array in named.values()]


def shape_of(out: Any) -> tuple[int, ...]:
    """Give the shape of what a result is written to, which may have its interface alone.

    Parameters
    ----------
    out : array
        What the caller gave.

    Returns
    -------
    tuple of int
        Its shape.

    Raises
    ------
    TypeError
        It has none.
    """
    shape = out.shape if hasattr(out, "shape") else _OTHER.array(out, "out").shape
    try:
        return tuple(shape)
    except TypeError:
        raise TypeError(f"out must be an array, got {type(out).__name__}") from None


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Check what the core would, where Python itself writes the result.

    Parameters
    ----------
    out : array
        What the caller gave.
    shape : tuple of int
        The shape that it must have.

    Raises
    ------
    TypeError
        It is on the host and no NumPy array.
    ValueError
        It has another shape, or is not writable or not C-contiguous.
    """
    if shape_of(out) != shape:
        raise ValueError(f"out must have shape {shape}, got {shape_of(out)}")
    if _home(out) is not HOST:
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.dtype.isnative):
        raise ValueError("out must be C-contiguous, aligned and in native byte order")
    if not out.flags.writeable:
        raise ValueError("out is read-only")


def out_dtype(out: Any, allowed: Sequence[str], dtype: Any = None, purpose: str = "") -> str:
    """Read the dtype of what a result is written to, which may have its interface alone.

    Parameters
    ----------
    out : array
        What the caller gave.
    allowed : sequence of str
        The names of the dtypes that the result may have; none for any.
    dtype : dtype-like, optional
        What the caller asked for beside it.
    purpose : str, optional
        What asks for these dtypes, for errors.

    Returns
    -------
    str
        The name of its dtype.

    Raises
    ------
    TypeError
        It is no array; on the host, no NumPy array, or a masked one.
    ValueError
        It has another dtype than those allowed, or than `dtype`.
    """
    home = _home(out)
    wanted = f" of {one_of(allowed)}{purpose}" if allowed else ""
    if home is HOST and not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array{wanted}, got {type(out).__name__}")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError("out is a masked array; give its data, the mask would stay as it is")
    name = home.dtype_name(out)
    if allowed and name not in allowed:
        raise ValueError(f"out must be an array{wanted}, got {name}")
    if dtype is not None and dtype_name(dtype) != name:
        raise ValueError(f"dtype is {dtype_name(dtype)}, but out has dtype {name}")
    return name


def one_of(names: Sequence[str]) -> str:
    """Name alternatives: "a", "a or b", "a, b or c"."""
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def float_dtype(
    space: Space, names: Iterable[str], dtype: Any, out: Any, *, half: bool = False
) -> str:
    """Choose the dtype of a floating-point result.

    float32 input gives float32 (on a device float16 and bfloat16 do as well, and so do tensors of
    these types on the host), all other input float64; `dtype` and `out` choose otherwise.

    Parameters
    ----------
    space : Space
        The arrays' space.
    names : iterable of str
        The names of the input arrays' dtypes.
    dtype : dtype-like or None
        What the caller asked for.
    out : array or None
        Where the caller wants the result.
    half : bool
        Whether it may also be of half precision: float16, and of PyTorch bfloat16.

    Returns
    -------
    str
        The name of the dtype.

    Raises
    ------
    ValueError
        `dtype` and `out` disagree, or one of them is not allowed.
    """
    if out is None and dtype is None:
        narrow = _HOST_SINGLES if space is HOST else _DEVICE_SINGLES
        return "float32" if narrow.issuperset(names) else "float64"
    allowed: tuple[str, ...] = ("float32", "float64")
    if half:
        allowed += _HALVES if isinstance(space, _Torch) else _HALVES[:1]
    if out is not None:
        return out_dtype(out, allowed, dtype)
    name = dtype_name(dtype)
    if name not in allowed:
        raise ValueError(f"dtype must be {one_of(allowed)}, got {name}")
    return name


def dtype_name(dtype: Any, name: str = "dtype") -> str:
    """Return NumPy's name of anything that stands for a dtype, a PyTorch dtype included.

    None is a TypeError, which for NumPy would be float64.
    """
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    try:
        if dtype is None:
            raise TypeError
        return _name_of(np.dtype(dtype))
    except Exception:
        raise TypeError(f"{name} must name a type of numbers, got {dtype!r}") from None
