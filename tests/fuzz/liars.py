"""Objects that lie: an exception of a documented type, or a right answer, and never a crash.

Each case runs in a process of its own. Lies about memory that nobody can check, such as a pointer
to nowhere, are left out: NumPy itself follows those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Case, Program, pick

NAME = "liars"
SHARE = 1
IMPORTS: tuple[str, ...] = ("networkx", "scipy.sparse")
# Each case in a process of its own, whatever the last one did to it.
ISOLATED = True

_RETURNED = (
    "None", "3", '"text"', "[]", "[[1], [2, 3]]", "real.astype(object)", "real.astype(complex)",
    "np.zeros((4, 4), 'M8[s]')", "np.zeros((4, 4), [('x', float)])", "np.ma.array(real, mask=True)",
    "real[None]", "real[0]", "real[:2]", "np.empty((0, 4))", "self", "np.array([['a'] * 4] * 4)",
    "real.view(np.recarray)", "real",
)  # fmt: skip
_RAISED = ("Mine()", "ValueError('x')", "TypeError('x')", "MemoryError()", "RecursionError()")

# Descriptions of the array x with one thing changed.
_INTERFACES = tuple(
    "@property\ndef __array_interface__(self):\n"
    f"    return dict(self.x.__array_interface__, {lie})"
    for lie in (
        "typestr='<f16x'", "typestr='<c16'", "typestr='>f8'", "typestr='|V8'", "typestr=3",
        "typestr='<f4', shape=(4, 8)", "shape=('a', 4)", "shape=(-4, 4)", "shape=None",
        "shape=(4,)", "shape=(2**62, 2**62)", "strides=(8,)", "strides='x'", "version=99",
        "mask=self.x > 0", "data=None", "descr=3", "offset=-8",
    )
)  # fmt: skip
_CUDA_INTERFACES = tuple(
    "@property\ndef __cuda_array_interface__(self):\n"
    "    return {key: value for key, value in dict({'shape': self.x.shape, 'version': 3,\n"
    "        'typestr': self.x.dtype.str, 'strides': None,\n"
    f"        'data': (self.x.ctypes.data, False)}}, {lie}).items() if value != 'gone'}}"
    for lie in (
        "version=3", "version=99", "version='x'", "version='gone'", "shape='gone'",
        "shape=(4, 'x')", "shape=(-4, 4)", "shape=(2**62, 4)", "shape=3", "shape=(4, 4, 4)",
        "typestr='gone'", "typestr='<c16'", "typestr='nonsense'", "typestr=3", "strides=(8,)",
        "strides=(2**62, 8)", "strides='x'", "strides=(-8, 8)", "mask=1", "data='gone'",
        "data=None", "data=(0, False)", "data=[1, 2, 3]", "data=('x', False)",
        "data=(-1, False)", "data=(2**70, False)", "stream=0", "stream='x'", "stream=-5",
    )
)  # fmt: skip

# What is in a class called Liar, whose instances stand for the array x.
_BODIES: dict[str, tuple[str, ...]] = {
    "array": (
        *(f"def __array__(self, *a, **k): return {what}" for what in _RETURNED),
        *(f"def __array__(self, *a, **k): raise {what}" for what in _RAISED),
        "n = 0\ndef __array__(self, *a, **k):\n    self.n += 1\n    return self.x[: self.n]",
        "__array__ = 3",
        "shape = (9, 9)\ndtype = np.dtype('f4')\ndef __array__(self, *a, **k): return self.x",
    ),
    "sequence": (
        "def __len__(self): return 4\ndef __getitem__(self, i): return self.x[i]",
        "def __len__(self): return 2**62\ndef __getitem__(self, i): return 1.0",
        "def __len__(self): return -1\ndef __getitem__(self, i): return self.x[i]",
        "def __len__(self): return 4\ndef __getitem__(self, i): raise Mine()",
        "def __len__(self): raise Mine()\ndef __getitem__(self, i): return self.x[i]",
        "def __iter__(self): raise Mine()",
    ),
    "array interface": (
        *_INTERFACES,
        "__array_interface__ = {}",
        "__array_interface__ = 3",
    ),
    "cuda interface": (
        *_CUDA_INTERFACES,
        "__cuda_array_interface__ = None",
        "@property\ndef __cuda_array_interface__(self): raise Mine()",
        "@property\ndef __cuda_array_interface__(self): raise AttributeError('x')",
        "shape = (4, 4)\n__cuda_array_interface__ = {'shape': (9, 9)}",
    ),
    "dlpack": tuple(
        f"def __dlpack_device__(self): return {device}\n"
        f"def __dlpack__(self, **k):\n    {export}"
        for device in ("(2, 0)", "(13, 0)")
        for export in (
            "return None", "return 3", "raise Mine()", "raise BufferError('x')", "return self",
            "return self.x.__dlpack__()",
            *(f"return self.made({lie})" for lie in (
                "", "device_type=2", "device_type=13", "device_type=7",
                "device_type=2, device_id=99", "device_type=2, device_id=-1",
                "name=b'used_dltensor'", "name=b'nonsense'",
                "name=b'dltensor_versioned'", "ndim=-1", "ndim=0", "ndim=64",
                "device_type=2, ndim=-5",
                "device_type=2, code=9", "device_type=2, bits=7", "device_type=2, bits=0",
                "device_type=2, lanes=4", "device_type=2, lanes=0",
                "device_type=2, code=5, bits=128",
                "device_type=2, strides=0", "device_type=2, data=0", "device_type=2, deleter=0",
                "device_type=2, byte_offset=3", "device_type=2, shape=0",
            )),
        )
    ) + tuple(
        # One capsule for every request, which can be consumed but once.
        f"once = None\ndef __dlpack_device__(self): return {device}\n"
        "def __dlpack__(self, **k):\n"
        f"    self.once = self.once or {export}\n    return self.once"
        for device in ("(1, 0)", "(2, 0)", "(13, 0)")
        for export in (
            "self.x.__dlpack__()", "self.made()", "self.made(device_type=2)",
            "self.made(device_type=13)",
        )
    ) + tuple(
        f"def __dlpack_device__(self): {tell}\n"
        "def __dlpack__(self, **k): return self.x.__dlpack__()"
        for tell in ("return 3", "return None", "return (2,)", "return ('x', 0)", "raise Mine()",
                     "return (2**70, 0)", "return (-1, -1)", "return (2, 2**70)")
    ) + ("__dlpack__ = 3\n__dlpack_device__ = 3",),
    "sparse": tuple(
        f"shape = {shape}\ndef tocsr(self): {give}"
        for shape in ("(4, 4)", "(2, 2)", "(4, -4)", "None", "(4,)", "(2**40, 2**40)")
        for give in ("return None", "raise Mine()", "return self",
                     "return __import__('scipy.sparse').sparse.csr_array(self.x)")
    ),
    "number": tuple(
        f"def __index__(self): {what}\ndef __float__(self): {other}\ndef __bool__(self): {third}"
        for what in ("return -1", "return 2**70", "return 'x'", "raise Mine()", "return 2")
        for other in ("return float('nan')", "return 'x'", "raise Mine()", "return 2.0")
        for third in ("raise Mine()",)
    ),
    "names": (
        "def __str__(self): raise Mine()\ndef __repr__(self): raise Mine()",
        "def __eq__(self, other): raise Mine()\ndef __hash__(self): raise Mine()",
        "def __getattr__(self, name): raise Mine()",
        "def __getattr__(self, name): return self",
        "def __call__(self, *a, **k): raise Mine()",
        "def __call__(self, *a, **k): return 'x'",
    ),
}  # fmt: skip
_SUBCLASSES = (
    "@property\ndef shape(self): return (9, 9)",
    "@property\ndef dtype(self): return np.dtype('f4')",
    "@property\ndef flags(self): raise Mine()",
    "@property\ndef strides(self): return (8, 8)",
    "def __array_finalize__(self, other): pass\n__array_priority__ = 1e9",
    "def __array_ufunc__(self, *a, **k): raise Mine()",
    "def __array_function__(self, *a, **k): raise Mine()",
    "def __len__(self): return 99",
    "def astype(self, *a, **k): return None",
    "def __getitem__(self, key): return self",
)
# One place of a call each; `real` is an honest array of shape (4, 4), `row` its first row.
_CALLS = (
    "cdist(liar, real)", "cdist(real, liar)", "cdist(liar, liar)", "cdist(real, real, out=liar)",
    "cdist(liar, liar, out=liar)", "cdist(liar, real, 'cosine')", "cdist(liar, liar, 'hamming')",
    "cdist(real, real, 'cityblock', w=Liar(row))", "cdist(real, real, 'seuclidean', V=Liar(row))",
    "cdist(real, real, box=Liar(row))", "knn(real, k=1, box=liar)",
    "cdist(real, real, 'mahalanobis', VI=liar)", "cdist(real, real, 'minkowski', p=liar)",
    "cdist(real, real, 'jensenshannon', base=liar)", "cdist(real, real, liar)",
    "cdist(real, real, dtype=liar)", "cdist(real, real, kernel=liar)",
    "cdist(real, real, device=liar)", "cdist(real, real, options=liar)",
    "cdist(real, real, progress=liar)", "cdist(real, real, rows=liar)",
    "cdist(real, real, rows=slice(liar, None))", "cdist(real, real, max_memory=liar)",
    "pdist(liar)", "pdist(real, out=Liar(np.zeros(6)))", "explain('cdist', liar, liar)",
    "apsp(liar)", "apsp(liar, overwrite=True)", "apsp(real, out=liar)", "apsp(liar, out=liar)",
    "apsp(real, no_edge=liar)", "apsp(real, semiring=liar)", "apsp(real, dtype=liar)",
    "apsp(real, unweighted=liar)", "apsp(real, return_predecessors=liar)",
    "transitive_closure(liar)", "transitive_closure(real, out=liar)", "minplus(liar, real)",
    "minplus(real, liar)", "minplus(real, real, liar)", "minplus(real, real, out=liar)",
    "minplus(liar, liar, liar, out=liar)", "perron(liar)", "perron(real, x0=Liar(row))",
    "perron(real, tol=liar)", "perron(real, max_iter=liar)", "perron(real, shift=liar)",
    "reconstruct_path(liar, 0, 1)", "reconstruct_path(real, liar, 1)", "kernels(liar)",
    "limit_pinned_memory(liar)",
)  # fmt: skip
# Names with something after or within them, which must not be cut short or matched.
_TEXTS = tuple(
    f"gpudist.{call.format(repr(spoilt))}"
    for call, name in (
        ("cdist(real, real, {})", "euclidean"), ("cdist(real, real, device={})", "cpu"),
        ("cdist(real, real, kernel={})", "auto"), ("cdist(real, real, dtype={})", "float64"),
        ("cdist(real, real, kernel={})", "cdist/cpu_tile_baseline"), ("pdist(real, {})", "cosine"),
        ("apsp(real, semiring={})", "min_plus"), ("apsp(real, device={})", "cpu"),
        ("apsp(real, kernel={})", "auto"), ("minplus(real, real, semiring={})", "max_min"),
        ("minplus(real, real, device={})", "cpu"), ("perron(real, shift={})", "auto"),
        ("perron(real, device={})", "cpu"), ("perron(real, kernel={})", "auto"),
        ("transitive_closure(real, device={})", "cpu"), ("kernels({})", "cdist"),
        ("explain({}, real, real)", "cdist"),
    )
    for spoilt in (
        name + "\0", name + "\0x", "\0" + name, name + "\ud800", name + " ", name + "\n", "",
        "\ud800", name * 2000, name + "\u0301", name[:-1],
    )
)  # fmt: skip

_EXPECTED = (
    "TypeError, ValueError, OverflowError, MemoryError, IndexError, BufferError, RecursionError, "
    "gpudist.DeviceError, gpudist.NegativeCycleError, "
    "gpudist.ConvergenceWarning, Mine"
)
_CALLING = """
import gc
import sys

unraisable = []
sys.unraisablehook = lambda what: unraisable.append(what.exc_value)

real = np.arange(1.0, 17.0).reshape(4, 4) ** 0.5
row = real[0].copy()
deleted = []

class Liar{base}:
{body}

for attempt in range(20):
    {make}
    try:
        result = gpudist.{call}
    except ({expected}):
        continue
    finally:
        assert all(len(calls) <= 1 for calls in deleted), "a capsule was given back twice"
gc.collect()
assert all(len(calls) <= 1 for calls in deleted), "a capsule was given back twice"
assert not unraisable, f"a callback failed: {{unraisable[0]!r}}"
"""
_MADE = """
    def __init__(self, x): self.x = x

    def made(self, **lies):
        made, calls = capsule(self.x, **lies)
        deleted.append(calls)
        return made
"""
_SPEAKING = """
real = np.arange(1.0, 17.0).reshape(4, 4) ** 0.5
try:
    found = {call}
except ({expected}):
    pass
else:
    raise AssertionError(f"taken: {{found!r}}")
"""
_HONEST = """
real = np.arange(1.0, 17.0).reshape(4, 4) ** 0.5

class Liar:
    def __init__(self, x): self.x = x
{body}

liar = Liar(real.copy())
expected = gpudist.{honest}
found = gpudist.{call}
same(np.asarray(getattr(found, "vector", found)), getattr(expected, "vector", expected))
"""
# Bodies that tell the truth, in calls that take what NumPy takes.
_TRUE = (
    "    def __array__(self, *a, **k): return self.x",
    "    def __len__(self): return 4\n    def __getitem__(self, i): return self.x[i]",
    "    @property\n    def __array_interface__(self): return self.x.__array_interface__",
)
_TAKEN = ("cdist(liar, real)", "cdist(liar, liar)", "pdist(liar)", "apsp(liar)",
          "transitive_closure(liar)", "minplus(liar, liar)", "perron(liar)")  # fmt: skip


def draw(rng: np.random.Generator) -> Case:
    options: dict[str, Any]
    way = rng.random()
    if way < 0.15:
        options = {"call": str(pick(rng, _TEXTS))}
        return Case(NAME, "texts", {}, {}, options)
    if way < 0.2:
        options = {"call": str(pick(rng, _TAKEN)), "body": str(pick(rng, _TRUE))}
        return Case(NAME, "honest", {}, {}, options)
    if way < 0.3:
        options = {"call": str(pick(rng, _CALLS)), "body": str(pick(rng, _SUBCLASSES))}
        return Case(NAME, "subclass", {}, {}, options)
    relation = str(pick(rng, _BODIES))
    # What lies in a place is asked for where such things are taken, more often than elsewhere.
    call = pick(rng, _CALLS[:5] if relation in ("dlpack", "cuda interface") else _CALLS)
    if rng.random() < 0.5:
        call = pick(rng, _CALLS)
    options = {"call": str(call), "body": str(pick(rng, _BODIES[relation]))}
    return Case(NAME, relation, {}, {}, options)


def program(case: Case) -> Program:
    call = case.options["call"]
    if case.relation == "texts":
        return Program(_SPEAKING.format(call=call, expected=_EXPECTED), {})
    body = case.options["body"]
    if case.relation == "honest":
        honest = call.replace("liar", "real")
        return Program(_HONEST.format(body=body, call=call, honest=honest), {})
    body = "\n".join(f"    {line}" for line in body.splitlines())
    view = case.relation == "subclass"
    if view:  # an instance is made of an array, not of a class
        call = call.replace("Liar(row)", "row.view(Liar)")
        call = call.replace("Liar(np.zeros(6))", "np.zeros(6).view(Liar)")
    text = _CALLING.format(
        base="(np.ndarray)" if view else "",
        body=body if view else _MADE + body,
        make="liar = real.copy().view(Liar)" if view else "liar = Liar(real.copy())",
        call=call,
        expected=_EXPECTED,
    )
    return Program(text, {})


def simpler(case: Case) -> Iterator[Case]:
    if case.relation not in ("texts", "honest"):
        for call in _CALLS:
            if len(call) < len(case.options["call"]):
                yield case.having(call=call)


def label(case: Case) -> str:
    return f"{case.relation} {case.options['call'].partition('(')[0]}"
