"""Perron roots, against bounds in many digits."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from . import elsewhere, values
from .case import Array, Case, Program, Skipped, pick

NAME = "perron"
SHARE = 1
IMPORTS: tuple[str, ...] = ("mpmath",)

_DIGITS = 60
_RELATIONS = {
    "bounds": """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
            try:
                found = gpudist.perron(A, CALL)
            except OverflowError:
                found = None
                assert LARGE, "products of moderate numbers overflow"
        if found is not None:
            assert found.lower <= found.value <= found.upper, found
            assert found.lower <= ABOVE, f"{found!r} is above the root {BELOW!r}"
            assert found.upper >= BELOW, f"{found!r} is below the root {BELOW!r}"
            assert found.vector.dtype == A.dtype and found.vector.shape == (len(A),)
            assert (found.vector > 0).all() and found.vector.max() == 1, found.vector
            if found.converged:
                assert found.upper - found.lower <= TOL * found.lower * (1 + 1e-9), found
        """,
    "refused": """
        try:
            found = gpudist.perron(A, CALL)
        except ValueError as error:
            assert any(word in str(error) for word in WORDS), str(error)
        else:
            raise AssertionError(f"neither irreducible nor refused: {found!r}")
        """,
}


@functools.cache
def _rows() -> tuple[Any, ...]:
    return elsewhere.rows("perron")


def draw(rng: np.random.Generator) -> Case:
    dtype = str(pick(rng, ("float32", "float64")))
    n = values.length(rng, 17, least=1)
    a = _matrix(rng, n, dtype)
    tol = float(pick(rng, (1e-3, 1e-6, 1e-6, 1e-10, 1e-13, 0.0)))
    shift = pick(
        rng, ("auto", "auto", 0.0, 1.0, abs(float(np.nan_to_num(np.median(a), posinf=1.0))))
    )
    case = Case(
        NAME,
        "bounds",
        {"A": a},
        {"A": ("n", "n")},
        {"tol": tol, "shift": shift, "max_iter": int(pick(rng, (1, 10, 1000, 1000))),
         "kernel": "auto", "device": None},
    )  # fmt: skip
    if elsewhere.on_gpu() and rng.random() < 0.6:
        case = case.having(device="cuda")
    rows = [
        row.id
        for row in _rows()
        if dtype in row.dtypes
        and not row.teaching
        and case.options["device"] in (None, row.backend)
    ]
    if rows and rng.random() < 0.4:
        case = case.having(kernel=str(pick(rng, rows)))
    return case


def _matrix(rng: np.random.Generator, n: int, dtype: str) -> Array:
    info = np.finfo(dtype)
    style = int(rng.integers(9))
    a: Array = rng.random((n, n))
    if style == 1:
        reach = 10 if dtype == "float32" else 60
        a = 10.0 ** rng.uniform(-reach, reach, (n, n))
    elif style == 2:
        a = rng.integers(0, 4, (n, n)).astype(float)
    elif style == 3:  # a cycle, whose other eigenvalues are as large
        a = np.roll(np.eye(n), 1, axis=1) * rng.uniform(0.5, 2, (n, 1))
    elif style == 4:  # sparse
        a = np.where(rng.random((n, n)) < 0.2, a, 0) + np.roll(np.eye(n), 1, axis=1)
    elif style == 5:  # nearly reducible
        a[: n // 2, n // 2 :] *= 10.0 ** rng.uniform(-30, -5)
    elif style == 6:
        a = rng.integers(1, 60, (n, n)) * float(info.smallest_subnormal)
    elif style == 7:
        a = a * 10.0 ** rng.uniform(-35, 35)
    elif style == 8:  # scaled rows and columns
        s = 10.0 ** rng.uniform(-8, 8, n)
        a = a * s[:, None] / s
    if rng.random() < 0.1 and n > 1:
        row = int(rng.integers(n))
        a[row, np.arange(n) != row if rng.random() < 0.5 else slice(None)] = 0
    if rng.random() < 0.05:
        a[tuple(rng.integers(n, size=2))] = pick(rng, (-1.0, np.nan, np.inf))
    with np.errstate(all="ignore"):
        return a.astype(dtype)


def _root(a: Array) -> tuple[float, float]:
    """Bound the root by Noda's iteration in many digits: solve (u I - A) y = x, and look at A y."""
    import mpmath

    mp: Any = mpmath.mp.clone()
    mp.dps = _DIGITS
    n = len(a)
    matrix = mp.matrix([[mp.mpf(float(v)) for v in row] for row in a])
    x = mp.matrix([1] * n)
    for _ in range(200):
        y = matrix * x
        ratios = [y[i] / x[i] for i in range(n)]
        least, most = min(ratios), max(ratios)
        if most - least <= most * mp.mpf(10) ** -25:
            return float(np.nextafter(float(least), 0)), float(np.nextafter(float(most), np.inf))
        upper = most * (1 + mp.mpf(10) ** (10 - _DIGITS))
        try:
            step = mp.lu_solve(upper * mp.eye(n) - matrix, x)
        except ZeroDivisionError:  # the bound is the root, to so many digits
            break
        top = max(step)
        x = mp.matrix([v / top for v in step])
        if min(x) <= 0:
            break
    raise Skipped("the digits do not suffice")


def program(case: Case) -> Program:
    a, options = case.arrays["A"], case.options
    if len(a) == 0:
        raise Skipped("empty")
    sound = ((a >= 0) & (a < np.inf)).all()
    parts = connected_components(a > 0, connection="strong")[0] if sound else 0
    empty = ~a.astype(bool).any(axis=1) if sound else np.zeros(1, bool)
    case_of = "bounds" if parts == 1 and not empty.any() else "refused"
    constants: dict[str, Any] = {"TOL": options["tol"]}
    if case_of == "bounds":
        low, high = _root(a)
        large = float(a.max()) > 1e250 or float(a[a > 0].min()) < 1e-250
        constants |= {"BELOW": low, "ABOVE": high, "LARGE": bool(large)}
    elif not sound:
        i, j = np.argwhere(~((a >= 0) & (a < np.inf)))[0]
        constants["WORDS"] = (f"[{i}, {j}]",)
    else:
        constants["WORDS"] = tuple(f"row {i} " for i in np.flatnonzero(empty)) or ("irreducible",)
    usual = {"tol": 1e-6, "shift": "auto", "max_iter": 1000, "kernel": "auto", "device": None}
    words = ", ".join(f"{name}={options[name]!r}" for name in usual if options[name] != usual[name])
    text = textwrap.dedent(_RELATIONS[case_of]).replace("CALL", words).replace("A, )", "A)")
    for name, value in constants.items():
        text = text.replace(name, repr(value))
    return Program(text, dict(case.arrays))


def simpler(case: Case) -> Iterator[Case]:
    plain = {"kernel": "auto", "device": None, "shift": "auto", "max_iter": 1000, "tol": 1e-6}
    for name, value in plain.items():
        if case.options[name] != value:
            yield case.having(**{name: value})


def label(case: Case) -> str:
    return f"{case.relation} {case.arrays['A'].dtype} {case.options['kernel']}"
