"""The C boundary under atheris, which changes its input towards code that was not reached before.

    pip install atheris numpy scipy
    python -m tests.fuzz.coverage -max_total_time=300

A call's arguments are drawn from the input: arrays of any dtype and layout, objects that lie, wrong
things among right ones. What is not a documented exception, or a crash, ends the run, and libFuzzer
writes the input to a file; the name of that file as an argument runs it again.

Python's branches guide it. The extension's own do as well where it is built by clang with
``-fsanitize=fuzzer-no-link``, for which see atheris' pages on native extensions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import atheris  # type: ignore[import-untyped]
import numpy as np

with atheris.instrument_imports(include=["gpudist"]):
    import gpudist
    import gpudist.reference
    from gpudist import _core, metrics, semirings

from . import helpers as untyped

helpers: Any = untyped

_EXPECTED: Any = (
    TypeError, ValueError, OverflowError, MemoryError, IndexError, BufferError, RecursionError,
    gpudist.DeviceError, gpudist.NegativeCycleError, np.linalg.LinAlgError, helpers.Mine,
)  # fmt: skip
_DTYPES = ("f4", "f8", "f2", "i1", "i4", "u8", "?", "c16", "O", ">f8", ">i2", "g", "S3", "M8[s]")
_METRICS = [name for metric in metrics.METRICS for name in (metric.name, *metric.aliases)]
_KERNELS = ["auto", "reference", *(row.id for row in gpudist.kernels() if row.backend == "cpu")]


class _Drawn:
    """What a fuzzer's bytes stand for."""

    def __init__(self, data: bytes) -> None:
        self.source = atheris.FuzzedDataProvider(data)

    def of(self, *choices: Any) -> Any:
        return self.source.PickValueInList(list(choices))

    def array(self, *shape: int) -> Any:
        """Draw an array: mostly of the shape asked for, of floats, and laid out plainly."""
        if self.source.ConsumeIntInRange(0, 15) == 0:
            return self.anything()
        lengths = [
            self.source.ConsumeIntInRange(0, 9) if self.source.ConsumeIntInRange(0, 15) == 0 else n
            for n in shape
        ]
        dtype = self.of("f4", "f8") if self.source.ConsumeBool() else self.of(*_DTYPES)
        size = int(np.prod(lengths))
        raw = self.source.ConsumeBytes(8 * size) if self.source.ConsumeBool() else b""
        x: Any = np.frombuffer(raw.ljust(8 * size, b"\1"), "f8" if len(raw) else "u8").reshape(
            lengths
        )
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
        way = self.source.ConsumeIntInRange(0, 7)
        if way == 1:
            x = np.asfortranarray(x)
        elif way == 2:
            x = x[::-1]
        elif way == 3 and x.ndim == 2:
            x = helpers.relay(x, "odd" if x.dtype != object else "padded")
        elif way == 4:
            x.flags.writeable = False
        elif way == 5 and x.dtype.kind in "fiu" and x.flags.c_contiguous:
            x = _Exporting(self, x)
        return x

    def anything(self) -> Any:
        return self.of(
            None, True, -1, 2**70, float("nan"), "", "cpu", "a\0b", b"x", [], {}, object(), [[1.0]],
            np.zeros((2, 3, 4)), np.float64(3), slice(None), np.ma.array([[1.0]], mask=True), print,
        )  # fmt: skip


class _Exporting:
    """An array by DLPack alone, of which the input says what is untrue."""

    def __init__(self, drawn: _Drawn, x: Any) -> None:
        lies = {
            "device_type": drawn.of(1, 2, 13), "ndim": drawn.of(x.ndim, 0, -1, 3),
            "code": drawn.of(2, 0, 1, 5, 9), "bits": drawn.of(8 * x.itemsize, 32, 64, 7),
            "lanes": drawn.of(1, 0, 4), "name": drawn.of(b"dltensor", b"used_dltensor", b"x"),
        }  # fmt: skip
        self.device = drawn.of((1, 0), (2, 0), (13, 0), (2, 99), (2,), 3)
        self.again = drawn.source.ConsumeBool()
        self.make: Callable[[], Any] = lambda: helpers.capsule(x, **lies)[0]
        self.once = self.make()

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        return self.make() if self.again else self.once


def call(data: bytes) -> None:
    """Make the call that these bytes stand for."""
    drawn = _Drawn(data)
    m, n, d = (drawn.source.ConsumeIntInRange(0, 20) for _ in range(3))
    how = {"kernel": drawn.of("auto", *_KERNELS), "device": drawn.of(None, "cpu", "cuda", "x")}
    way = drawn.source.ConsumeIntInRange(0, 7)
    given = {
        "w": drawn.array(d), "V": drawn.array(d), "VI": drawn.array(d, d), "p": drawn.of(1, 2, 3.5),
        "box": drawn.array(d), "base": drawn.of(2, 10, -1), "out": drawn.array(m, n),
        "dtype": drawn.of("f4", "f8", "i4"),
        "max_memory": drawn.of(1, 10**4, 10**9),
        "rows": slice(drawn.of(None, 1), drawn.of(None, 3)),
    }  # fmt: skip
    given = {k: x for k, x in given.items() if drawn.source.ConsumeIntInRange(0, 3) == 0}
    try:
        with np.errstate(all="ignore"):
            _dispatch(way, drawn, (m, n, d), how, given)
    except _EXPECTED:
        pass
    helpers.capsule.kept = []


def _dispatch(
    way: int, drawn: _Drawn, sizes: tuple[int, int, int], how: dict[str, Any], given: dict[str, Any]
) -> None:
    m, n, d = sizes
    metric = drawn.of(*_METRICS)
    some = {k: x for k, x in given.items() if k in ("out", "dtype", "max_memory")}
    if way == 0:
        gpudist.cdist(drawn.array(m, d), drawn.array(n, d), metric, **how, **given)
    elif way == 1:
        given.pop("rows", None)
        gpudist.pdist(drawn.array(n, d), metric, **how, **given)
    elif way == 2:
        gpudist.apsp(
            drawn.array(n, n), semiring=drawn.of(*semirings.SEMIRINGS), directed=drawn.of(0, 1) > 0,
            return_predecessors=drawn.of(False, True), **how, **some,
        )  # fmt: skip
    elif way == 3:
        gpudist.minplus(
            drawn.array(m, d), drawn.array(d, n), drawn.of(None, drawn.array(m, n)),
            semiring=drawn.of(*semirings.SEMIRINGS), **how, **some,
        )  # fmt: skip
    elif way == 4:
        some.pop("dtype", None)
        gpudist.transitive_closure(
            drawn.array(n, n), reflexive=drawn.of(False, True), **how, **some
        )
    elif way == 5:
        gpudist.perron(drawn.array(n, n), max_iter=drawn.of(1, 20), tol=drawn.of(0, 1e-3), **how)
    else:  # what Python would have let through, and what it would not have
        arguments = [drawn.anything() if drawn.of(0, 1) else drawn.array(m, d) for _ in range(n)]
        names = ("cdist", "pdist", "apsp", "closure", "minplus", "perron", "choose", "describe",
                 "cdist_arrays", "pdist_arrays", "nearest_arrays", "minplus_arrays",
                 "cdist_tensors", "pdist_tensors", "nearest_tensors",
                 "minplus_tensors")  # fmt: skip
        getattr(_core, drawn.of(*names))(*arguments)


if __name__ == "__main__":
    atheris.Setup(sys.argv, call)
    atheris.Fuzz()
