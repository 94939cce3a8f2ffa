"""Arrays on a GPU, by whichever library is there: PyTorch, else CuPy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import gpudist

# Several times the L2 cache of any GPU so far, and long enough to write (0.2 ms at 5 TB/s) that a
# slow host has enqueued a call before the device is done: what that waits for the host would count.
_FLUSH_BYTES = 1 << 30


class DeviceArrays(Protocol):
    """What the benchmarks need of an array library on a GPU."""

    name: str

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Copy a NumPy array to the device."""
        ...

    def get(self, array: Any) -> npt.NDArray[Any]:
        """Copy a device array to the host."""
        ...

    def stream(self) -> int:
        """Give the address of the library's current stream."""
        ...

    def flush(self) -> None:
        """Enqueue a write that replaces what the L2 cache holds."""
        ...

    def free(self) -> None:
        """Give cached memory back to the device."""
        ...


class TorchArrays:
    """PyTorch's tensors on one GPU.

    Parameters
    ----------
    index : int
        The CUDA ordinal.
    """

    name = "torch"

    def __init__(self, index: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("the installed PyTorch cannot use this GPU")
        self._torch = torch
        self._device = torch.device("cuda", index)
        self._scratch = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device=self._device)

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Copy a NumPy array to the device."""
        return self._torch.from_numpy(array).to(self._device)

    def get(self, array: Any) -> npt.NDArray[Any]:
        """Copy a tensor, or any array on the device, to the host."""
        return np.asarray(self._torch.from_dlpack(array).cpu())

    def stream(self) -> int:
        """Give the address of PyTorch's current stream."""
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)

    def flush(self) -> None:
        """Enqueue a write that replaces what the L2 cache holds."""
        self._scratch.zero_()

    def free(self) -> None:
        """Give cached memory back to the device."""
        self._torch.cuda.empty_cache()


class CupyArrays:
    """CuPy's arrays on one GPU.

    Parameters
    ----------
    index : int
        The CUDA ordinal.
    """

    name = "cupy"

    def __init__(self, index: int) -> None:
        import cupy

        self._cupy = cupy
        cupy.cuda.Device(index).use()
        self._scratch = cupy.empty(_FLUSH_BYTES, dtype=np.uint8)

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Copy a NumPy array to the device."""
        return self._cupy.asarray(array)

    def get(self, array: Any) -> npt.NDArray[Any]:
        """Copy a device array to the host."""
        return np.asarray(self._cupy.asnumpy(array))

    def stream(self) -> int:
        """Give the address of CuPy's current stream."""
        return int(self._cupy.cuda.get_current_stream().ptr)

    def flush(self) -> None:
        """Enqueue a write that replaces what the L2 cache holds."""
        self._scratch.fill(0)

    def free(self) -> None:
        """Give cached memory back to the device."""
        self._cupy.get_default_memory_pool().free_all_blocks()


def device_arrays(index: int) -> tuple[DeviceArrays | None, str]:
    """Find a library that can hold arrays on a GPU.

    Parameters
    ----------
    index : int
        The CUDA ordinal.

    Returns
    -------
    arrays : DeviceArrays or None
        PyTorch's where it can use the GPU, else CuPy's, else None.
    reason : str
        Why each library that was passed over was.
    """
    reasons: list[str] = []
    libraries: tuple[type[TorchArrays] | type[CupyArrays], ...] = (TorchArrays, CupyArrays)
    for library in libraries:
        try:
            return library(index), "; ".join(reasons)
        except Exception as error:  # An import can fail in any way: a missing CUDA library, say.
            reasons.append(f"{library.name}: {error}")
    return None, "; ".join(reasons)


def resolve(device: str | None) -> str:
    """Turn the user's device into ``cpu`` or ``cuda:<index>``.

    Parameters
    ----------
    device : str or None
        ``cpu``, ``cuda``, ``cuda:<index>``, or None for a GPU where one can be used.

    Returns
    -------
    str
        Where to work.

    Raises
    ------
    gpudist.DeviceError
        A GPU is asked for that cannot be used.
    """
    if device is None:
        return "cuda:0" if gpudist.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    reason = gpudist.cuda.why_not()
    if reason is not None:
        raise gpudist.DeviceError(reason)
    index = int(device.partition(":")[2] or 0)
    count = len(gpudist.cuda.devices())
    if index >= count:
        raise gpudist.DeviceError(f"there is no device cuda:{index}, only {count}")
    return f"cuda:{index}"
