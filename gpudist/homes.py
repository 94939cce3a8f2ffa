"""Results on the host go home: to the library whose arrays were given.

NumPy's arrays and the host tensors of PyTorch and JAX are the same memory under other names. So
operations on the host compute on NumPy's views, and what they return is given the caller's name in
the end, without a copy. The first operand decides which library that is; `out` is returned itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import numpy as np

from gpudist import arrays, checks, foreign

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Home(Protocol):
    """A library of arrays on the host other than NumPy."""

    def view(self, out: Any) -> Any:
        """Return the memory of `out` as a NumPy array, or raise an error."""

    def named(self, array: Any) -> Any:
        """Return a NumPy array of ours as an array of the library, without a copy."""

    def half(self, array: Any, dtype: str) -> Any:
        """Return a NumPy array of ours as one of the library, rounded to "bfloat16"."""

    def write(self, out: Any, array: Any) -> Any:
        """Write a NumPy array into `out`, rounded to its dtype, and return `out`."""


class _Torch:
    """PyTorch's tensors on the CPU."""

    def view(self, out: Any) -> Any:
        if not isinstance(out, _torch().Tensor):
            return out
        checks.refuse_recorded("out", out)
        if out.dtype is _torch().bfloat16:
            raise ValueError("out must be an array of a dtype that NumPy has, got bfloat16")
        plain = "out must be a plain tensor, whose elements are its memory"
        if out.layout is not _torch().strided or out.is_nested or out.is_conj() or out.is_neg():
            raise TypeError(plain)
        try:
            return out.detach().numpy()
        except (TypeError, RuntimeError) as error:  # of meta tensors, say
            raise TypeError(f"{plain}: {error}") from None

    def named(self, array: Any) -> Any:
        return _torch().from_numpy(array)

    def half(self, array: Any, dtype: str) -> Any:
        return self.named(array).to(getattr(_torch(), dtype))

    def write(self, out: Any, array: Any) -> Any:
        with _torch().no_grad():
            return out.copy_(self.named(array))


class _JAX:
    """JAX's arrays on the CPU, which are never written to."""

    def view(self, out: Any) -> Any:
        if _library_of(out) is self:
            raise TypeError("out must not be an array of JAX, which nothing may write to")
        return out

    def named(self, array: Any) -> Any:
        refuse_wide("the result", array.dtype)
        return sys.modules["jax"].numpy.from_dlpack(array)

    def half(self, array: Any, dtype: str) -> Any:
        return self.named(array).astype(dtype)

    def write(self, out: Any, array: Any) -> Any:
        raise AssertionError("view refused it")


def refuse_wide(name: str, dtype: Any) -> None:
    """Raise a TypeError if JAX, as it is set, has no arrays of the dtype."""
    if dtype.itemsize == 8 and not sys.modules["jax"].config.jax_enable_x64:
        otherwise = "ask for dtype='float32' if that is an argument, or give NumPy arrays"
        if name != "the result":
            otherwise = f"give {name} in 32 bits, or set that"
        elif dtype.kind != "f":
            otherwise = "knn and nearest take index_dtype='int32', for all others give NumPy arrays"
        raise TypeError(
            f"{name} is of {dtype}, which JAX has only with jax_enable_x64: {otherwise}"
        )


def _torch() -> Any:
    return sys.modules["torch"]


_TORCH, _JAX_HOME = _Torch(), _JAX()


def _library_of(value: Any) -> Home | None:
    """Return the library of an array on the host, if it is not NumPy; import none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _TORCH if value.device.type == "cpu" else None
    if foreign.is_jax(value):
        return _JAX_HOME if arrays.space_of(array=value) is arrays.HOST else None
    return None


def of(operand: Any, out: Any = None) -> Home | None:
    """Return whose arrays the results of a call have to be.

    Parameters
    ----------
    operand : object
        The first operand.
    out : array or tuple of arrays, optional
        Where the caller wants the result.

    Returns
    -------
    Home or None
        The library, or None where the call returns what it has to by itself: of NumPy arrays, of
        what is made one, and of arrays on a device.
    """
    if type(operand) is np.ndarray and (out is None or type(out) is np.ndarray):
        return None
    found = _library_of(operand)
    for one in out if isinstance(out, tuple) else (out,):
        found = _library_of(one) or found
    return found


def call(
    home: Home, function: Callable[..., Any], out: Any, dtype: Any, *, half: bool = False
) -> Any:
    """Call a function that knows NumPy alone, and bring home what it returns.

    Parameters
    ----------
    home : Home
        Whose arrays the results have to be.
    function : callable
        It takes `out` and `dtype`, as keywords, where they are not None.
    out : array or tuple of arrays
        Where the caller wants the result, or None.
    dtype : dtype-like
        What the caller asked for, or None.
    half : bool
        Whether that may be bfloat16, which NumPy does not have.

    Returns
    -------
    object
        What it returned, with the library's arrays in place of NumPy's; `out` if given.
    """
    keywords: dict[str, Any] = {}
    if dtype is not None:
        keywords["dtype"] = dtype
    if isinstance(out, tuple):
        result = function(out=tuple(map(home.view, out)), **keywords)
        return type(result)(*out)
    wide = half and out is not None and _dtype_name(out) == "bfloat16"
    if wide and dtype is not None and arrays.dtype_name(dtype) != "bfloat16":
        raise ValueError(f"dtype is {arrays.dtype_name(dtype)}, but out has dtype bfloat16")
    asked = half and dtype is not None and arrays.dtype_name(dtype) == "bfloat16"
    if wide or (asked and out is None):
        array = function(dtype="float32")
        if not wide:
            return home.half(array, "bfloat16")
        if tuple(out.shape) != array.shape:
            raise ValueError(f"out must have shape {array.shape}, got {tuple(out.shape)}")
        return home.write(out, array)
    if out is None:
        return brought(home, function(**keywords))
    result = function(out=home.view(out), **keywords)
    if isinstance(result, tuple):
        return (out, *(brought(home, x) for x in result[1:]))
    return out


def _dtype_name(array: Any) -> str:
    return str(getattr(array, "dtype", "")).removeprefix("torch.")


def brought(home: Home | None, result: Any) -> Any:
    """Return what a call returned with the library's arrays in place of NumPy's.

    Parameters
    ----------
    home : Home or None
        The library, None for NumPy.
    result : object
        An array, or a tuple of them; all else is returned as it is.

    Returns
    -------
    object
        The same in the library's arrays.
    """
    if home is None:
        return result
    if type(result) is np.ndarray:
        return home.named(result)
    if isinstance(result, tuple):
        parts = [brought(home, x) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result


def returned(first: str) -> Callable[[_Function], _Function]:
    """Decorate a function so that its results are of the library of its first operand.

    Parameters
    ----------
    first : str
        The name of that operand, where it is given by name.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def at_home(*arguments: Any, **keywords: Any) -> Any:
            operand = arguments[0] if arguments else keywords.get(first)
            home = of(operand, keywords.get("out"))
            if home is None:
                return function(*arguments, **keywords)
            out, dtype = keywords.pop("out", None), keywords.pop("dtype", None)

            def on_the_host(**changed: Any) -> Any:
                return function(*arguments, **keywords, **changed)

            return call(home, on_the_host, out, dtype)

        return at_home  # type: ignore[return-value]

    return decorate
