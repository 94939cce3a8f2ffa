"""Products over semirings, against sums that are rounded once."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpudist import semirings

from . import elsewhere, values
from .case import Array, Case, Program, Skipped, pick

NAME = "products"
SHARE = 1
IMPORTS: tuple[str, ...] = ()

_RELATIONS = {
    "product": "same(f(A, B, C), expected)",
    "layout": "same(f(relay(A, LEFT), relay(B, RIGHT), C), expected)",
    "out": """
        out = np.full(expected.shape, 7, expected.dtype)
        assert f(A, B, C, out=out) is out
        same(out, expected, "out")
        for x in "AB":
            both = {"A": A, "B": B}
            both[x], out = shared_with(both[x], expected.shape, expected.dtype, PLACE)
            f(both["A"], both["B"], C, out=out)
            same(out, expected, f"out shares memory with {x}")
        """,
    "slices": """
        whole, m = f(A, B, C), len(A)
        for i, j in {(0, 1), (m // 2, m), (1, m - 1)}:
            same(f(A[i:j], B, None if C is None else C[i:j]), whole[i:j], f"A[{i}:{j}] alone")
        """,
    "memory": """
        for room in (1, 4096, 1 << 16, 1 << 22):
            try:
                got = f(A, B, C, max_memory=room)
            except MemoryError:
                continue
            same(got, expected, f"max_memory={room}")
        """,
}
_LAYOUTS = ("plain", "swapped", "stepped", "reversed", "fortran", "padded", "odd", "frozen")


@functools.cache
def _rows() -> tuple[Any, ...]:
    return elsewhere.rows("minplus")


def draw(rng: np.random.Generator) -> Case:
    semiring = str(pick(rng, semirings.SEMIRINGS))
    kind = str(pick(rng, ("float32", "float64", "int32", "bool", *values.KINDS)))
    m, k, n = (values.length(rng, 70) for _ in range(3))
    style = int(rng.integers(5))
    arrays = {name: _factor(rng, shape, kind, style, semiring)
              for name, shape in (("A", (m, k)), ("B", (k, n)), ("C", (m, n)))}  # fmt: skip
    if rng.random() < 0.6:
        del arrays["C"]
    case = Case(
        NAME,
        str(pick(rng, _RELATIONS)),
        arrays,
        {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n")},
        {
            "semiring": semiring,
            "kernel": "auto",
            "device": None,
            "left": str(pick(rng, _LAYOUTS)),
            "right": str(pick(rng, _LAYOUTS)),
            "place": int(pick(rng, (0, 16, 400))),
        },
    )
    if elsewhere.on_gpu() and rng.random() < 0.6:
        case = case.having(device="cuda")
    rows = [
        row.id
        for row in _rows()
        if _result(case) in row.dtypes and case.options["device"] in (None, row.backend)
    ]
    if rows and rng.random() < 0.4:
        case = case.having(kernel=str(pick(rng, rows)))
    return case


def _factor(
    rng: np.random.Generator, shape: tuple[int, int], kind: str, style: int, semiring: str
) -> Array:
    if kind == "bool":
        return rng.random(shape) < 0.2
    if kind in values.INTEGERS:
        most = int(np.iinfo(kind).max)
        x: Array = rng.integers(0, min(most, 2**28 - 1), shape, endpoint=True)
        x = x if kind.startswith("u") else x * rng.choice([1, -1], shape)
        if kind == "int32":
            none = int(semirings.neutral(semiring, "int32"))
            x = np.where(rng.random(shape) < 0.2, none, x)
        return x.astype(kind)
    with np.errstate(over="ignore"):
        if style == 0:
            return rng.standard_normal(shape).astype(kind)
        if style == 1:
            return rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], shape).astype(kind)
        if style == 2:
            x = 10.0 ** rng.uniform(-300, 300, shape)
            return (x * rng.choice([1.0, -1.0], shape)).astype(kind)
        if style == 3:
            return (rng.integers(-9, 10, shape) * 5e-324).astype(kind)
        return np.where(rng.random(shape) < 0.5, np.inf, rng.random(shape)).astype(kind)


def _result(case: Case) -> str:
    if case.options["semiring"] == "or_and":
        return "bool"
    kinds = {x.dtype.name for x in case.arrays.values()}
    return str(kinds.pop()) if kinds in ({"int32"}, {"float32"}) else "float64"


def _product(case: Case) -> Array:
    semiring, dtype = case.options["semiring"], _result(case)
    a, b, c = (case.arrays.get(name) for name in "ABC")
    assert a is not None and b is not None
    none: Any = False if dtype == "bool" else semirings.neutral(semiring, dtype)
    within = "float64" if dtype == "int32" else dtype  # which holds their sums

    def tidy(x: Array) -> Array:
        x = x.astype(dtype).astype(within)
        return x if dtype == "bool" else np.where(np.isnan(x), none, x) + np.zeros((), within)

    with np.errstate(all="ignore"):
        a, b = tidy(a), tidy(b)
        result = np.full((len(a), b.shape[1]), none, within) if c is None else tidy(c)
        join = np.logical_or if dtype == "bool" else np.fmin if none > 0 else np.fmax
        for k in range(a.shape[1]):
            left, right = a[:, k, None], b[k]
            if semiring.endswith("plus"):
                ways = left + right
                ways = np.where((left == none) | (right == none) | np.isnan(ways), none, ways)
            elif semiring == "or_and":
                ways = left & right
            else:
                ways = np.maximum(left, right) if semiring == "min_max" else np.minimum(left, right)
            result = join(result, ways)
    result = np.asarray(result)
    return (result if dtype == "bool" else result + np.zeros((), within)).astype(dtype)


def program(case: Case) -> Program:
    options, dtype = case.options, _result(case)
    if dtype == "int32" and options["semiring"].endswith("plus"):
        for x in (case.arrays["A"], case.arrays["B"]):
            none = semirings.neutral(options["semiring"], dtype)
            if (np.abs(x[x != none].astype(float)) >= 2**28).any():
                raise Skipped("such sums are refused")
    words = [f"{name}={options[name]!r}" for name in ("semiring", "kernel", "device")
             if options[name] not in ("min_plus", "auto", None)]  # fmt: skip
    head = "def f(x, y, z, **more):\n    return gpudist.minplus(x, y, z, {})\n\n".format(
        ", ".join([*words, "**more"])
    )
    text = textwrap.dedent(_RELATIONS[case.relation])
    for name in ("left", "right", "place"):
        text = text.replace(name.upper(), repr(options[name]))
    data: dict[str, Any] = {"C": None} | case.arrays
    return Program(head + text, data | {"expected": _product(case)})


def simpler(case: Case) -> Iterator[Case]:
    if "C" in case.arrays:
        arrays = {name: x for name, x in case.arrays.items() if name != "C"}
        yield Case(case.family, case.relation, arrays, case.axes, case.options)
    plain = {"kernel": "auto", "device": None, "left": "plain", "right": "plain", "place": 0}
    for name, value in plain.items():
        if case.options[name] != value:
            yield case.having(**{name: value})


def label(case: Case) -> str:
    kernel = case.options["kernel"].rpartition("_")[0]
    return f"{case.relation} {case.options['semiring']} {_result(case)} {kernel}".strip()
