"""Paths in graphs of every form, over every semiring, against the plain loop and exact sums."""

from __future__ import annotations

import functools
import importlib.util
import textwrap
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import gpudist
from gpudist import cycles, semirings

from . import elsewhere, values
from .case import Array, Case, Program, Skipped, pick

NAME = "graphs"
SHARE = 3
IMPORTS: tuple[str, ...] = ("networkx", "scipy.sparse", "threadpoolctl", "torch")

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_SPARSE = ("coo", "csr", "csc", "lil", "dok", "bsr", "dia")
# Each form and the types of weights that it takes.
FORMS: dict[str, tuple[str, ...]] = {
    "zero": (*_INTEGERS, *_FLOATS, "float16", "longdouble", "bool"),
    "fortran": (*_FLOATS, "int32"),
    "swapped": (*_FLOATS, "int32"),
    "strided": (*_FLOATS, "int32"),
    "list": ("int64", "float64"),
    **({"torch": (*_FLOATS, "int32")} if importlib.util.find_spec("torch") else {}),
    "inf": _FLOATS,
    "-inf": _FLOATS,
    "nan": _FLOATS,
    "sentinel": (*_FLOATS, "int32", "int64"),
    "masked": (*_FLOATS, "int32", "uint8"),
    **{f"{form}_{sort}": (*_FLOATS, "int32") for form in _SPARSE for sort in ("array", "matrix")},
    **{f"nx.{kind}": ("int64", "float64") for kind in ("Graph", "DiGraph")},
    **{f"nx.{kind}": ("int64", "float64") for kind in ("MultiGraph", "MultiDiGraph")},
}
# What keeps no zeros, so that they are no edges.
_WITHOUT_ZEROS = (
    "zero", "fortran", "swapped", "strided", "list", "torch", "inf", "-inf", "nan", "dia_array",
    "dia_matrix",
)  # fmt: skip

_UNDIRECTED = ("nx.Graph", "nx.MultiGraph")

_RELATIONS = {
    "lengths": """
        graph, how = graph_form(weights, FORM, KIND)
        lengths = gpudist.apsp(graph, **how, CALL)
        same(lengths, expected, "lengths")
        """,
    "paths": """
        graph, how = graph_form(weights, FORM, KIND)
        lengths, before = gpudist.apsp(graph, **how, return_predecessors=True, CALL)
        same(lengths, expected, "lengths")
        same(before, expected_before, "predecessors")
        pairs = np.argwhere(expected_before >= 0)
        for i, j in pairs[:: max(1, len(pairs) // 300)]:
            walk(before, edges, i, j)
            assert gpudist.reconstruct_path(before, i, j)[-2] == expected_before[i, j]
        """,
    "out": """
        graph, how = graph_form(weights, FORM, KIND)
        out = np.full(expected.shape, 7, expected.dtype)
        assert gpudist.apsp(graph, **how, out=out, CALL) is out
        same(out, expected, "out")
        again, out = shared_with(np.asarray(graph), expected.shape, expected.dtype, 64)
        gpudist.apsp(again, **how, out=out, CALL)
        same(out, expected, "out that shares memory")
        got = gpudist.apsp(np.array(graph), **how, overwrite=True, CALL)
        same(got, expected, "overwrite")
        """,
    "batch": """
        graph, how = graph_form(weights, FORM, KIND)
        for got in gpudist.apsp([graph] * 5, **how, CALL):
            same(got, expected, "one of a list")
        got, before = gpudist.apsp([graph] * 3, **how, return_predecessors=True, CALL)
        same(before[1], expected_before, "predecessors of a list")
        if PLAIN:
            n = len(expected)
            padded = np.zeros((2, 3, n + 2, n + 2), np.asarray(graph).dtype)
            padded[..., :n, :n] = np.asarray(graph)
            got = gpudist.apsp(padded, sizes=np.full((2, 3), n), **how, CALL)
            for one in got.reshape(6, n + 2, n + 2):
                same(np.ascontiguousarray(one[:n, :n]), expected, "one of a padded array")
        """,
    "closure": """
        graph, how = graph_form(weights, FORM, KIND)
        got = gpudist.transitive_closure(graph, **how, CALL)
        same(got, expected, "closure")
        """,
    "cycle": """
        from fractions import Fraction

        graph, how = graph_form(weights, FORM, KIND)
        try:
            gpudist.apsp(graph, **how, CALL)
        except gpudist.NegativeCycleError as error:
            nodes = error.cycle
            assert nodes, "no cycle is named"
            steps = [edges[i, j] for i, j in zip(nodes, [*nodes[1:], nodes[0]])]
            assert np.isfinite(steps).all(), f"{nodes} is no cycle"
            length = sum(Fraction(float(step)) for step in steps)
            assert SIGN * length < 0, f"{nodes} has length {length}"
            assert set(nodes) <= set(error.nodes)
        else:
            assert not SURE, "a cycle that never stops paying was missed"
        """,
    "threads": """
        from threadpoolctl import threadpool_limits

        graph, how = graph_form(weights, FORM, KIND)
        for count in (1, 2, 5):
            with threadpool_limits(count, user_api="openmp"):
                same(gpudist.apsp(graph, **how, CALL), expected, f"{count} threads")
        """,
    "memory": """
        graph, how = graph_form(weights, FORM, KIND)
        for room in (1, 4096, 1 << 16, 1 << 20, 1 << 26):
            try:
                got = gpudist.apsp(graph, **how, max_memory=room, CALL)
            except MemoryError:
                continue
            same(got, expected, f"max_memory={room}")
        """,
}


@functools.cache
def _rows(op: str) -> tuple[Any, ...]:
    return elsewhere.rows(op)


@functools.cache
def _closes(kernel: str, device: str, semiring: str, dtype: str) -> bool:
    """Tell whether a kernel of apsp is for that semiring."""
    graph, how = np.zeros((2, 2)), {"kernel": kernel, "device": device, "dtype": dtype}

    def ask() -> bool:
        try:
            gpudist.explain("apsp", graph, semiring=semiring, **how)
        except ValueError:
            return False
        return True

    return bool(elsewhere.answer(ask))


def draw(rng: np.random.Generator) -> Case:
    form = str(pick(rng, FORMS))
    kind = str(pick(rng, FORMS[form]))
    relation = str(pick(rng, ("lengths", "lengths", "paths", "paths", *_RELATIONS)))
    semiring = str(pick(rng, semirings.SEMIRINGS)) if rng.random() < 0.6 else "min_plus"
    dtype = pick(rng, (None, None, "float32", "float64", "int32"))
    n = values.length(rng, 129 if rng.random() < 0.4 else 17)
    style = int(rng.integers(8))
    if relation == "cycle":
        semiring, n = str(pick(rng, ("min_plus", "min_plus", "max_plus"))), min(n, 17)
        weights = _near_cycles(rng, n, kind)
    else:
        weights = _weights(rng, n, kind, style, semiring)
    if form in _UNDIRECTED:  # of which an edge between the same two nodes is the same
        weights = np.minimum(weights, weights.T)
    if semiring == "or_and" and relation != "closure":
        semiring = "min_max"
    case = Case(
        NAME,
        relation,
        {"weights": weights},
        {"weights": ("n", "n")},
        {
            "form": form,
            "kind": kind,
            "semiring": semiring,
            "dtype": dtype,
            "directed": bool(rng.random() < 0.7),
            "unweighted": bool(rng.random() < 0.15),
            "reflexive": bool(rng.random() < 0.5),
            "kernel": "auto",
            "device": None,
        },
    )
    if elsewhere.on_gpu() and rng.random() < 0.6:
        case = case.having(device="cuda")
    op, result = ("closure", "bool") if relation == "closure" else ("apsp", _result(case))
    rows = [
        row.id
        for row in _rows(op)
        if result in row.dtypes
        and not (
            row.teaching and (semiring != "min_plus" or relation in ("paths", "batch", "memory"))
        )
        and case.options["device"] in (None, row.backend)
        and (op == "closure" or _closes(row.id, row.backend, semiring, result))
    ]
    if rows and rng.random() < 0.4:
        case = case.having(kernel=str(pick(rng, rows)))
    return case


def _weights(rng: np.random.Generator, n: int, kind: str, style: int, semiring: str) -> Array:
    """Draw weights that the type holds, inf for no edge."""
    density = float(pick(rng, (0.02, 0.1, 0.3, 0.8, 1.0)))
    shape = (n, n)
    w: Array
    signed = kind not in ("bool", "uint8", "uint16", "uint32", "uint64")
    if kind == "bool":
        w = np.ones(shape)
    elif kind in values.INTEGERS or style < 3:  # sums are exact
        most = int(pick(rng, (1, 3, 9, 100)))
        w = rng.integers(0 if style % 2 else 1, most + 1, shape).astype(float)
        if style == 2 and kind not in values.INTEGERS:
            w /= 8
    elif style == 3 or kind == "float16":
        w = rng.random(shape)
    elif style == 4:
        w = 10.0 ** rng.uniform(-30, 30, shape)
    elif style == 5:  # tiny ones are edges
        w = rng.choice([1e-9, 1e-30, 1.0, 5e-324 if kind == "float64" else 1e-44], shape)
    elif style == 6:
        w = 1 + rng.integers(0, 4, shape) * 2.0**-23
    else:
        w = rng.exponential(size=shape) ** 4
    order = rng.permutation(n)
    if signed and style in (0, 3, 7) and semiring.endswith("plus"):
        # Potentials make edges negative, but no cycle; or there are no cycles.
        if rng.random() < 0.5:
            rise = np.rint(rng.uniform(-20, 20, n))
            w = w + rise[:, None] - rise if semiring == "min_plus" else -w + rise[:, None] - rise
        else:
            w = np.where(order[:, None] < order, w * rng.choice([1.0, -1.0], shape), np.inf)
    elif semiring == "max_plus":  # longest paths exist where there are no cycles
        w = np.where(order[:, None] < order, w, np.inf) if rng.random() < 0.8 else w
    elif signed and semiring in ("min_max", "max_min"):
        w = w * rng.choice([1.0, -1.0], shape)
    w = np.where(rng.random(shape) < density, w, np.inf)
    if rng.random() < 0.7:
        np.fill_diagonal(w, np.inf)
    if rng.random() < 0.2:
        w = np.minimum(w, w.T)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(w), w.astype(kind).astype(float) if signed else w, np.inf)


def _near_cycles(rng: np.random.Generator, n: int, kind: str) -> Array:
    """Draw potentials' differences, whose cycles are of length 0 but for what rounding adds."""
    span = float(pick(rng, (10.0, 2.0**26, 2.0**28, 2.0**53, 1e16)))
    if kind in values.INTEGERS or kind in ("float16", "bool"):
        span = min(span, 50.0)
    dtype = np.float32 if kind == "float32" else np.float64
    height: Array = np.rint(rng.uniform(-span, span, n)).astype(dtype)
    w: Array = (height[:, None] - height).astype(dtype).astype(float)
    if rng.random() < 0.5:
        w += rng.choice([0.0, 0.0, 0.0, 1.0, -1.0], (n, n))
    if kind == "bool" or kind.startswith("uint"):
        w = np.abs(w)
    w = np.where(rng.random((n, n)) < pick(rng, (0.3, 1.0)), w.astype(dtype).astype(float), np.inf)
    np.fill_diagonal(w, np.inf)
    return w


# ------------------------------------------------------------------ what is right


def _result(case: Case) -> str:
    """Return the dtype of the result."""
    kind, form = case.options["kind"], case.options["form"]
    if case.options["dtype"]:
        return str(case.options["dtype"])
    return "float32" if kind == "float32" and not form.startswith("nx") else "float64"


def _edges(case: Case, dtype: str) -> Array:
    """Return the edges as apsp shall see them, in that dtype, the worst weight for none."""
    options, w = case.options, case.arrays["weights"].copy()
    sign = _sign(options["semiring"])
    if options["form"] in _WITHOUT_ZEROS:
        w[w == 0] = np.inf
    there = np.isfinite(w)
    if options["kind"] not in ("bool", *values.INTEGERS):
        w = w.astype(options["kind"]).astype(np.float64)
    there &= np.isfinite(w)
    w = np.where(there, w.astype(dtype if dtype != "int32" else "float64"), np.inf)
    if options["form"] in _UNDIRECTED:
        w = np.minimum(w, w.T)
    elif not options["directed"]:
        better = np.where(np.isfinite(w), sign * w, np.inf)
        w = sign * np.minimum(better, better.T)
    if options["unweighted"]:
        w = np.where(np.isfinite(w), 1.0, w)
    return np.where(np.isfinite(w), w + 0.0, sign * np.inf)  # zeros come out positive


def _sign(semiring: str) -> int:
    """Return 1 where the least is best, -1 where the largest is."""
    return 1 if semiring.startswith("min") else -1


def _plain(edges: Array, semiring: str, dtype: str) -> tuple[Array, Array]:
    """Close the edges by the plain triple loop in that dtype; in int32 by exact sums."""
    sign, n = _sign(semiring), len(edges)
    worst = sign * np.inf
    w = edges.astype(dtype if dtype != "int32" else "float64")
    empty = 0.0 if semiring.endswith("plus") else -worst
    diagonal = np.diagonal(w)
    np.fill_diagonal(w, sign * np.minimum(sign * diagonal, sign * empty))
    before = np.where(np.isfinite(w), np.arange(n, dtype=np.int32)[:, None], np.int32(-9999))
    np.fill_diagonal(before, -9999)
    add = np.add if semiring.endswith("plus") else np.maximum if sign > 0 else np.minimum
    with np.errstate(all="ignore"):
        for k in range(n):
            through = add(w[:, k, None], w[k])
            wins = sign * through < sign * w
            w = np.where(wins, through, w)
            before = np.where(wins, before[k], before)
    return w, before


def _pays(edges: Array, sign: int) -> bool:
    """Tell whether exact sums have a cycle that never stops paying."""
    n = len(edges)
    length = [Fraction(0)] * n
    steps = [
        (int(i), int(j), sign * Fraction(float(edges[i, j])))
        for i, j in np.argwhere(np.isfinite(edges))
    ]
    for _ in range(n):
        changed = False
        for i, j, step in steps:
            if length[i] + step < length[j]:
                length[j], changed = length[i] + step, True
        if not changed:
            return False
    return True


def program(case: Case) -> Program:
    options, relation = case.options, case.relation
    semiring, dtype = options["semiring"], _result(case)
    weights = case.arrays["weights"]
    if relation == "out" and options["form"] not in ("zero", "inf", "nan", "sentinel"):
        raise Skipped("memory is shared with arrays")
    if relation == "batch" and options["form"] in ("list", "torch"):
        raise Skipped("lists of lists are an array")
    if options["form"] == "sentinel" and options["dtype"] == "int32":
        raise Skipped("the value for no path has a test of its own")
    data: dict[str, Any] = {"weights": weights}
    text = textwrap.dedent(_RELATIONS[relation])
    call = {"directed": options["directed"], "kernel": options["kernel"],
            "device": options["device"]}  # fmt: skip
    usual = {"directed": True, "kernel": "auto", "device": None, "unweighted": False,
             "dtype": None, "semiring": "min_plus", "reflexive": False}  # fmt: skip
    if relation == "closure":
        edges = np.isfinite(_edges(case, "float64"))
        reached = edges.copy()
        for k in range(len(edges)):
            reached |= reached[:, k, None] & reached[k]
        if options["reflexive"]:
            np.fill_diagonal(reached, True)
        data["expected"], call["reflexive"] = reached, options["reflexive"]
    else:
        call |= {name: options[name] for name in ("unweighted", "dtype", "semiring")}
        edges = _edges(case, dtype)
        data |= _right(case, edges, semiring, dtype, relation)
    words = ", ".join(f"{name}={x!r}" for name, x in call.items() if x != usual[name])
    for name, value in {
        "FORM": repr(options["form"]),
        "KIND": repr(options["kind"]),
        "SIGN": repr(_sign(semiring)),
        "PLAIN": repr(options["form"] in ("zero", "inf", "nan", "sentinel", "fortran")),
        "SURE": repr(bool(data.pop("sure", False))),
        "CALL": words,
        "how, )": "how)",
    }.items():
        text = text.replace(name, value)
    return Program(text, data)


def _right(case: Case, edges: Array, semiring: str, dtype: str, relation: str) -> dict[str, Any]:
    """Compute what must come out."""
    sign = _sign(semiring)
    given = edges if case.options["unweighted"] else case.arrays["weights"]
    finite = given[np.isfinite(given)]  # of two edges between two nodes the worse counts, too
    if dtype == "int32" and (
        np.any(finite != np.rint(finite)) or np.abs(finite).max(initial=0) > 1e6
    ):
        raise Skipped("no small whole numbers")
    lengths, before = _plain(edges, semiring, dtype)
    diagonal = np.diagonal(lengths)
    cyclic = semiring.endswith("plus") and bool((sign * diagonal < 0).any())
    if relation == "cycle":
        if not np.array_equal(edges, _edges(case, "float64")):
            raise Skipped("weights that the type rounds")
        sure = cyclic and _pays(edges, sign)
        return {"edges": np.where(np.isfinite(edges), edges, np.inf), "sure": sure}
    if cyclic:
        raise Skipped("a cycle that never stops paying")
    if np.any(np.isinf(lengths) & (sign * lengths < 0) & ~np.eye(len(edges), dtype=bool)):
        raise Skipped("lengths beyond the type")
    if dtype == "int32":
        ends = {np.inf: 2**31 - 1, -np.inf: -(2**31)}
        whole = np.where(np.isinf(lengths), 0, lengths)
        lengths = np.select([lengths == x for x in ends], list(ends.values()), whole)
        lengths = lengths.astype(np.int32)
    found: dict[str, Any] = {"expected": lengths}
    if relation in ("paths", "batch"):
        if cycles.runs_in_circles(before):
            raise Skipped("rounding spoiled the plain loop's paths, and apsp mends them")
        found |= {"expected_before": before, "edges": np.where(np.isfinite(edges), edges, np.inf)}
    return found


def simpler(case: Case) -> Iterator[Case]:
    plain = {"kernel": "auto", "device": None, "directed": True, "unweighted": False,
             "reflexive": False, "dtype": None, "semiring": "min_plus"}  # fmt: skip
    for name, value in plain.items():
        if case.options[name] != value:
            yield case.having(**{name: value})
    forms, now = ("inf", "zero"), (case.options["form"], case.options["kind"])
    for form in forms[: forms.index(now[0])] if now[0] in forms else forms:
        for kind in ("float64", now[1]):
            if kind in FORMS[form]:
                yield case.having(form=form, kind=kind)
    if now[1] != "float64" and "float64" in FORMS[now[0]]:
        yield case.having(kind="float64")


def label(case: Case) -> str:
    options = case.options
    kernel = options["kernel"].rpartition("_")[0]
    sort = options["form"].partition("_")[0]
    return f"{case.relation} {options['semiring']} {_result(case)} {sort} {kernel}".strip()
