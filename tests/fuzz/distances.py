"""Distances: every metric, dtype and layout, against exact numbers and against themselves."""

from __future__ import annotations

import functools
import importlib.util
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import gpudist

from . import elsewhere, oracle, values
from .case import Case, Program, Skipped, pick

NAME = "distances"
SHARE = 5
IMPORTS: tuple[str, ...] = ("mpmath", "threadpoolctl", "torch")

LAYOUTS = (
    "plain", "swapped", "stepped", "reversed", "fortran", "padded", "odd", "frozen", "list",
    *(("torch",) if importlib.util.find_spec("torch") else ()),
)  # fmt: skip
# What kl_divergence alone is not: the same both ways.
_ONE_WAY = {"kl_divergence"}
# Whole numbers give 0 for equal rows of these; the others are no distances from a row to itself.
_NOT_ZERO = {"kulczynski1", "russellrao", "inner_product", "dice", "hellinger"}

# The text of each relation. `f` is the call, a and b are the operands.
_RELATIONS = {
    "exact": """
        before = a.tobytes(), b.tobytes()
        close(f(a, b), exact, bound)
        assert before == (a.tobytes(), b.tobytes()), "the operands were written to"
        """,
    "specials": "close(f(a, b), exact, bound)",
    "kinds": "same(f(a, b), f(a.astype(np.float64), b.astype(np.float64)))",
    "truths": "close(f(a, b), exact, bound)",
    "layout": "same(f(relay(a, LEFT), relay(b, RIGHT), **like(a)), f(a, b, **like(a)))",
    "broadcast": """
        one, other = a[:1], b[:1]
        got = f(np.broadcast_to(one, a.shape), np.broadcast_to(other, b.shape))
        same(got, f(np.repeat(one, len(a), axis=0), np.repeat(other, len(b), axis=0)))
        """,
    "place": """
        whole = f(a, b)
        for shift in {1, 2, 3, 5, 8, 11, len(b) // 2}:
            order = np.roll(np.arange(len(b)), shift)
            same(f(a, b[order]), whole[:, order], f"columns turned by {shift}")
        if len(b):
            many = f(a, np.repeat(b[:1], MANY, axis=0))
            same(many, np.repeat(many[:, :1], MANY, axis=1), "equal rows of b")
        """,
    "slices": """
        whole, m = f(a, b), len(a)
        for i, j in {(0, 1), (m // 2, m // 2 + 1), (1, m), (0, m // 2), (m // 3, m - 1)}:
            same(f(a[i:j], b), whole[i:j], f"a[{i}:{j}] alone")
            same(f(a, b, rows=slice(i, j)), whole[i:j], f"rows {i} to {j}")
            out = np.full_like(whole, 7)
            assert f(a, b, rows=slice(i, j), out=out) is out
            part = np.full_like(whole, 7)
            part[i:j] = whole[i:j]
            same(out, part, f"rows {i} to {j} into out")
        """,
    "memory": """
        whole = f(a, b)
        for room in ROOMS:
            try:
                part = f(a, b, max_memory=room)
            except MemoryError:
                continue
            same(part, whole, f"max_memory={room}")
        """,
    "threads": """
        from threadpoolctl import threadpool_limits

        whole = f(a, b)
        for count in (1, 2, 3, 8):
            with threadpool_limits(count, user_api="openmp"):
                same(f(a, b), whole, f"{count} threads")
        """,
    "out": """
        for dtype in ("float32", "float64"):
            out = np.full((len(a), len(b)), 7, dtype)
            assert f(a, b, **(FIXED | {"dtype": None}), out=out) is out
            same(out, f(a, b, **(FIXED | {"dtype": dtype})), "out")
        """,
    "overlap": """
        whole = f(a, b)
        for name, x in (("a", a), ("b", b)):
            moved, out = shared_with(x, whole.shape, whole.dtype, PLACE)
            f(*((moved, b) if name == "a" else (a, moved)), out=out)
            same(out, whole, f"out shares memory with {name}")
        both, out = shared_with(a, (len(a), len(a)), whole.dtype, PLACE)
        square = f(a, a)
        f(both, both, out=out)
        same(out, square, "out shares memory with both")
        """,
    "overlapping pairs": """
        condensed = pdist(a)
        x, out = shared_with(a, condensed.shape, condensed.dtype, PLACE)
        pdist(x, out=out)
        same(out, condensed, "out shares memory with x")
        """,
    "overlapping weights": """
        whole = f(a, b)
        w, out = shared_with(w, whole.shape, whole.dtype, PLACE)
        f(a, b, out=out)
        same(out, whole, "out shares memory with w")
        """,
    "itself": """
        whole = f(a, a)
        if SYMMETRIC:
            same(whole, np.ascontiguousarray(whole.T), "not symmetric")
        if ZERO:
            home = np.diagonal(whole)
            same(home, np.where(np.isfinite(home), 0, home), "the diagonal")
        pairs = np.triu_indices(len(a), 1)
        condensed = pdist(a)
        same(condensed, whole[pairs], "pdist")
        out = np.full_like(condensed, 7)
        assert pdist(a, out=out) is out
        same(out, condensed, "pdist into out")
        """,
    "defaults": """
        points = np.vstack([a, b]).astype(np.float64)
        with np.errstate(all="ignore"):
            if METRIC == "seuclidean":
                given = {"V": np.var(points, axis=0, ddof=1)}
            else:
                given = {"VI": np.linalg.inv(np.atleast_2d(np.cov(points.T))).T.copy()}
        same(f(a, b), f(a, b, **given))
        """,
    "patched": """
        from scipy.spatial import distance

        before = distance.cdist, distance.pdist
        ours = f(a, b, **(FIXED | {"dtype": "float64"}))
        with gpudist.patched_scipy(device=DEVICE) as outer:
            with gpudist.patched_scipy(device=DEVICE) as inner:
                same(distance.cdist(a, b, METRIC, **ARGS), ours)
            same(distance.cdist(a, b, METRIC, **ARGS), ours)
        assert (distance.cdist, distance.pdist) == before, "SciPy is still patched"
        assert inner.calls == outer.calls == {"cdist": 1}, (inner, outer)
        """,
    "device arrays": """
        import torch

        x, y = (torch.from_numpy(z.copy()).to("cuda") for z in (a, b))
        same(f(x, y).cpu().numpy(), f(a, b, device="cuda"))
        """,
}
_COMMON = ("exact", "exact", "exact", "exact", "place", "place", "slices", "layout", "itself")

# What fails in one of these does so whatever the metric.
_OF_ALL_METRICS = (
    "overlap", "overlapping pairs", "overlapping weights", "out", "patched", "threads", "memory",
)  # fmt: skip
# The sizes of metrics' arguments.
SIZES = {"w": ("d",), "V": ("d",), "VI": ("d", "d"), "box": ("d",)}
# A box is not SciPy's, and has no default of V.
_WITHOUT_BOX = ("patched", "defaults")
# These are about what the package chooses.
_BY_CHOICE = ("patched", "device arrays", "out", "kinds")


@functools.cache
def _kernels() -> dict[str, Any]:
    """Return the rows of the table that can run here and are not there to teach."""
    return {row.id: row for row in elsewhere.rows("cdist") if not row.teaching}


def _on_gpu() -> bool:
    return elsewhere.on_gpu()


def draw(rng: np.random.Generator) -> Case:
    record = pick(rng, oracle.METRICS)
    metric = record.name
    dtype = str(pick(rng, ("float32", "float64")))
    relations = [name for name in _RELATIONS if name != "device arrays" or _on_gpu()]
    relation = pick(rng, _COMMON) if rng.random() < 0.6 else pick(rng, relations)
    d = record.columns or values.length(rng)
    sizes = values.length(rng, 70), values.length(rng)
    if relation in ("exact", "specials", "truths") and rng.random() < 0.5:
        d, sizes = record.columns or min(d, 17), (min(sizes[0], 7), min(sizes[1], 17))
    if relation == "truths" or (relation == "kinds" and record.domain == "truths"):
        a, b = (rng.random((n, d)) < 0.5 for n in sizes)
    else:
        a, b = values.points(rng, metric, sizes, d, dtype)
    if relation == "specials":
        a, b = values.with_specials(rng, a), values.with_specials(rng, b)
    elif relation == "kinds" and record.domain == "numbers":
        a, b = (_of_kind(rng, x) for x in (a, b))
    columns = "" if record.columns else "d"
    case = Case(
        NAME,
        relation,
        {"a": a, "b": b},
        SIZES | {"a": ("m", columns), "b": ("n", columns)},
        {
            "metric": metric,
            "kernel": "auto",
            "device": None,
            "dtype": None if rng.random() < 0.8 else str(pick(rng, ("float32", "float64"))),
            "left": pick(rng, LAYOUTS),
            "right": pick(rng, LAYOUTS),
            "place": int(pick(rng, (0, 0, 16, 64, 400, 4096))),
            "many": int(pick(rng, (2, 9, 17, 40, 67))),
        },
    )
    case = with_arguments(rng, case)
    if _on_gpu() and rng.random() < 0.6:
        case = case.having(device="cuda")
    result = result_of(case)
    rows = [
        row.id
        for row in _kernels().values()
        if metric in row.metrics
        and result in row.dtypes
        and row.columns[0] <= d <= row.columns[1]
        and (case.options["device"] is None or row.backend == case.options["device"])
    ]
    if rows and rng.random() < 0.4 and relation not in _BY_CHOICE:
        case = case.having(kernel=str(pick(rng, rows)))
    return case


def _of_kind(rng: np.random.Generator, x: Any) -> Any:
    """Convert to a type that NumPy calls real; numbers become small, so that float16 holds them."""
    small = np.rint(np.nan_to_num(np.clip(x, -100, 100), nan=0.0))
    kind = str(pick(rng, values.KINDS))
    return (np.abs(small) if kind.startswith("uint") else small).astype(kind)


def with_arguments(rng: np.random.Generator, case: Case) -> Case:
    """Draw the arguments that its metric takes."""
    metric, d = case.options["metric"], case.arrays["a"].shape[1]
    takes = oracle.RECORDS[metric].arguments
    arrays, options = dict(case.arrays), dict(case.options)
    if "w" in takes and (rng.random() < 0.4 or case.relation == "overlapping weights"):
        arrays["w"] = values.weights(rng, d)
    if "p" in takes:
        fractional = float(np.exp(rng.uniform(np.log(0.3), np.log(12))))
        options["p"] = pick(rng, (1, 2, 3, 4, 5, 0.5, 1.5, 2.5, 30, 1000, np.inf, fractional))
    if "V" in takes and case.relation != "defaults":
        arrays["V"] = rng.uniform(0.1, 3, d)
    if "VI" in takes and case.relation != "defaults":
        arrays["VI"] = values.definite(rng, d)
    if "box" in takes and case.relation not in _WITHOUT_BOX and rng.random() < 0.2:
        arrays["box"] = values.box(rng, case.arrays["b"])
    if "base" in takes and rng.random() < 0.3:
        options["base"] = pick(rng, (2.0, 10.0, 1.5))
    return replace(case, arrays=arrays, options=options)


def arguments_of(case: Case) -> dict[str, Any]:
    """Return the metric's arguments."""
    found = {name: case.arrays[name] for name in ("w", "V", "VI", "box") if name in case.arrays}
    return found | {name: case.options[name] for name in ("p", "base") if name in case.options}


def result_of(case: Case) -> str:
    """Return the dtype of the distances."""
    kinds = {case.arrays["a"].dtype.name, case.arrays["b"].dtype.name}
    return case.options["dtype"] or ("float32" if kinds == {"float32"} else "float64")


def program(case: Case) -> Program:
    metric, kernel = case.options["metric"], case.options["kernel"]
    a, b, args = case.arrays["a"], case.arrays["b"], arguments_of(case)
    _refuse(case, a, b, args)
    data = dict(case.arrays)
    if case.relation in ("exact", "truths", "specials"):
        result = result_of(case)
        rounded = [x.astype(np.float32) if result == "float32" else x for x in (a, b)]
        right = oracle.settled if case.relation == "specials" else oracle.expected
        data["exact"], data["bound"] = right(metric, rounded[0], rounded[1], args, result)
    text = textwrap.dedent(_RELATIONS[case.relation])
    for name, value in _constants(case, args).items():
        text = text.replace(name, value)
    given = ", ".join(f"{name}={words}" for name, words in words_of(case, args).items())
    fixed = {"kernel": kernel, "device": case.options["device"], "dtype": case.options["dtype"]}
    fixed = {name: x for name, x in fixed.items() if x not in (None, "auto")}
    call = ", ".join(["**({})".format(f"{fixed!r} | more" if fixed else "more")])
    words = ", ".join(part for part in (repr(metric), given, call) if part)
    lines = [
        "def f(x, y, **more):",
        f"    return gpudist.cdist(x, y, {words})",
        "",
        "def pdist(x, **more):",
        f"    return gpudist.pdist(x, {words})",
        "",
    ]
    used = [lines[:3]] + ([lines[3:]] if "pdist(" in text else [])
    if metric == "haversine":  # whole numbers are no latitudes, and their bits are the same
        used.insert(0, ['warnings.filterwarnings("ignore", "haversine reads")', ""])
    return Program("\n".join(line for part in used for line in part) + text, data)


def _wide(a: Any, b: Any) -> tuple[Any, Any]:
    return a.astype(np.float64), b.astype(np.float64)


def words_of(case: Case, args: dict[str, Any]) -> dict[str, str]:
    """Return how the metric's arguments are written: arrays by their names."""
    return {name: name if name in case.arrays else repr(x) for name, x in args.items()}


def _constants(case: Case, args: dict[str, Any]) -> dict[str, str]:
    """Return what stands for the names in capitals."""
    options, metric = case.options, case.options["metric"]
    shape = case.size("m"), case.size("n")
    size = max(8 * (shape[0] * shape[1] + sum(shape) * case.arrays["a"].shape[1]), 64)
    arguments = [f"{name!r}: {words}" for name, words in words_of(case, args).items()]
    return {
        "DEVICE": repr(options["device"]),
        "LEFT": repr(options["left"]),
        "RIGHT": repr(options["right"]),
        "MANY": repr(options["many"]),
        "PLACE": repr(options["place"]),
        "ROOMS": repr(tuple(sorted({1, 512, size // 8, size // 3, size, 4 * size, 1 << 22}))),
        "SYMMETRIC": repr(metric not in _ONE_WAY),
        "ZERO": repr(metric not in _NOT_ZERO),
        "METRIC": repr(metric),
        "FIXED": repr({"kernel": options["kernel"], "device": options["device"]}),
        "ARGS": "{" + ", ".join(arguments) + "}",
        "**like(a)": "dtype=" + ("a.dtype" if options["dtype"] is None else repr(options["dtype"])),
    }


def _scales_powers(case: Case, dims: int, args: dict[str, Any]) -> bool:
    """Tell whether a GPU may take minkowski's powers by the quick logarithm, scaled before it."""
    options = case.options
    on_cuda = options["device"] == "cuda" or options["kernel"].startswith("cdist/cuda")
    if not on_cuda or options["metric"] != "minkowski" or result_of(case) != "float32":
        return False
    p = args.get("p", 2)
    return "w" not in args and dims >= 16 and 1 < p <= 32 and p not in (2, 3, 4)


def _refuse(case: Case, a: Any, b: Any, args: dict[str, Any]) -> None:
    """Leave out what the package refuses, or promises nothing about."""
    relation, metric = case.relation, case.options["metric"]
    if result_of(case) == "float32" or relation == "out":
        most = np.finfo(np.float32).max
        if any((np.isfinite(x) & (np.abs(x.astype(np.longdouble)) > most)).any() for x in (a, b)):
            raise Skipped("numbers that the result's type does not hold")
    if metric == "dice" and any(x.dtype != bool and (np.abs(x) > 1e6).any() for x in (a, b)):
        raise Skipped("dice of numbers is for those from 0 to 1; far beyond, its terms cancel")
    if relation == "place" and metric == "mahalanobis":
        raise Skipped("rows are shifted by the first of B, which may change the last bits")
    if relation == "overlapping weights" and "w" not in args:
        raise Skipped("no weights")
    if relation == "defaults":
        if not {"V", "VI"} & set(oracle.RECORDS[metric].arguments):
            raise Skipped("the metric has no defaults of its own")
        if len(a) + len(b) <= a.shape[1] or a.shape[1] == 0:
            raise Skipped("too few points")
        if metric == "mahalanobis":
            points = np.vstack(_wide(a, b))
            with np.errstate(all="ignore"):
                covariance = np.atleast_2d(np.cov(points.T))
                if not np.isfinite(covariance).all() or np.linalg.cond(covariance) > 1e12:
                    raise Skipped("a singular covariance")
    if relation == "broadcast" and not (len(a) and len(b)):
        raise Skipped("no rows")
    if relation == "layout" and len(a) * len(b) * a.shape[1] == 0:
        raise Skipped("a list without elements has no columns")
    if relation == "kinds" and (oracle.RECORDS[metric].domain != "numbers"):
        raise Skipped("truths have a relation of their own")
    if relation == "truths" and a.dtype != bool:
        raise Skipped("numbers")
    if relation == "patched" and metric not in _scipys():
        raise Skipped("SciPy has no such metric")
    kernel = case.options["kernel"]
    if relation == "place" and any(word in kernel for word in ("product", "tensor")):
        raise Skipped("products take a centre from some rows of B, by where these stand in it")
    if relation == "place" and _scales_powers(case, a.shape[1], args):
        raise Skipped(
            "powers are scaled by what some rows of B are apart, by where these stand in it"
        )
    if kernel != "auto":
        try:
            gpudist.explain("cdist", a, b, metric, kernel=kernel, dtype=result_of(case), **args)
        except ValueError as error:  # the row takes the metric in another form
            raise Skipped(str(error)) from error


@functools.cache
def _scipys() -> frozenset[str]:
    """Return the metrics that SciPy here knows."""
    from scipy.spatial import distance

    known = set()
    for record in oracle.METRICS:
        try:
            distance.cdist(np.eye(2) + 1, np.eye(2) + 1, record.name)
        except (ValueError, np.linalg.LinAlgError):
            if record.name != "mahalanobis":
                continue
        known.add(record.name)
    return frozenset(known)


def simpler(case: Case) -> Iterator[Case]:
    for name in ("w", "V", "VI", "box"):
        if name in case.arrays and name in ("w", "box"):
            yield replace(case, arrays={k: x for k, x in case.arrays.items() if k != name})
        elif name in case.arrays:
            d = case.arrays[name].shape[0]
            plain = np.ones(d) if name == "V" else np.eye(d)
            if not np.array_equal(case.arrays[name], plain):
                yield case.holding(**{name: plain})
    plain_options = {
        "kernel": "auto", "device": None, "dtype": None, "left": "plain", "right": "plain",
        "place": 0, "many": 2,
    }  # fmt: skip
    for name, value in plain_options.items():
        if case.options[name] != value:
            yield case.having(**{name: value})
    if case.options.get("base"):
        yield replace(case, options={k: x for k, x in case.options.items() if k != "base"})
    if case.options["many"] > 3:
        yield case.having(many=case.options["many"] // 2)
        yield case.having(many=case.options["many"] - 1)


def label(case: Case) -> str:
    if case.relation in _OF_ALL_METRICS:
        return case.relation
    kernel = case.options["kernel"].rpartition("_")[0]
    return f"{case.relation} {case.options['metric']} {result_of(case)} {kernel}".strip()
