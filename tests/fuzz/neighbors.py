"""Neighbours, against a stable sort of all distances."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import gpudist
from gpudist import metrics

from . import distances, elsewhere, oracle, values
from .case import Case, Program, Skipped, pick

NAME = "neighbors"
SHARE = 2
IMPORTS: tuple[str, ...] = ()

# The text of each relation: `whole` are the distances, NaN for no neighbour, `search` has the
# arguments that a search takes as `cdist` does.
_RELATIONS = {
    "knn": """
        for k in {1, min(2, n), max(n - 1, 1), min(KNOWN, n)}:
            found, expected = gpudist.knn(a, b, k, **search), ranked(whole, k, SIMILAR)
            same(found.distances, expected[0], f"distances, k = {k}")
            same(found.indices, expected[1], f"indices, k = {k}")
        """,
    "itself": """
        whole = distances(a, a)
        np.fill_diagonal(whole, np.nan)
        for k in {1, len(a) - 1, min(KNOWN, len(a) - 1)}:
            found, expected = gpudist.knn(a, k=k, **search), ranked(whole, k, SIMILAR)
            same(found.distances, expected[0], f"distances, k = {k}")
            same(found.indices, expected[1], f"indices, k = {k}")
        """,
    "nearest": """
        found, expected = gpudist.nearest(a, b, **search), ranked(whole, 1, SIMILAR)
        same(found.distances, expected[0][:, 0], "distances")
        same(found.indices, expected[1][:, 0], "indices")
        """,
    "radius": """
        for r in radii(whole):
            inside = whole >= r if SIMILAR else whole <= r
            found = gpudist.radius_neighbors(a, b, r, **search)
            rows, columns = np.nonzero(inside)
            same(found.indptr, np.append(0, np.cumsum(inside.sum(axis=1))), f"indptr, r = {r!r}")
            same(found.indices, columns, f"indices, r = {r!r}")
            same(found.distances, whole[inside], f"distances, r = {r!r}")
            few = gpudist.radius_neighbors(
                a, b, r, max_neighbors=KNOWN, sort="distance", **search
            )
            near = np.where(inside, whole, np.nan)
            parts, indices = ranked(near, KNOWN, SIMILAR)
            same(few.distances, parts[indices >= 0], f"the nearest {KNOWN}, r = {r!r}")
            same(few.indices, indices[indices >= 0], f"who the nearest {KNOWN} are, r = {r!r}")
        """,
    "counts": """
        at = np.array(radii(whole)[:: -1 if SIMILAR else 1])
        inside = [whole >= r if SIMILAR else whole <= r for r in at]
        expected = np.array([x.sum() for x in inside], np.int64)
        same(gpudist.count_neighbors(a, b, at, **search), expected)
        beyond = np.diff(expected, prepend=0)
        same(gpudist.count_neighbors(a, b, at, cumulative=False, **search), beyond, "beyond")
        """,
    "parts": """
        k = min(KNOWN, n)
        expected = ranked(whole, k, SIMILAR)
        for i, j in {(0, 1), (m // 2, m), (1, m - 1)}:
            found = gpudist.knn(a, b, k, rows=slice(i, j), **search)
            same(found.distances, expected[0][i:j], f"rows {i} to {j}")
            same(found.indices, expected[1][i:j], f"rows {i} to {j}")
        for room in (1, 4096, 1 << 16, 1 << 20):
            try:
                found = gpudist.knn(a, b, k, max_memory=room, **search)
            except MemoryError:
                continue
            same(found.indices, expected[1], f"max_memory={room}")
        """,
}
_HEAD = """
def distances(x, y):
    return gpudist.cdist(x, y, **search | BY)

def radii(x):
    there = np.unique(x[np.isfinite(x) & (True if SIMILAR else x >= 0)])
    return [float(r) for r in there[:: max(len(there) // 4, 1)]]

whole, m, n = distances(a, b), len(a), len(b)
"""
# Bits of distances on a GPU depend on the kernel; searches there have those of the direct form.
# With few dimensions, or with weights, the bits are those of auto's row.
_DIRECT = "cdist/cuda_tile"
_FEW_COLUMNS = 4


def draw(rng: np.random.Generator) -> Case:
    metric = pick(rng, oracle.METRICS)
    dtype = str(pick(rng, ("float32", "float64")))
    d = metric.columns or values.length(rng, 40, 1)
    sizes = values.length(rng, 129, 2), values.length(rng, 129, 2)
    if rng.random() < 0.2:
        sizes = sizes[0], int(rng.integers(200, 3000))
        d = metric.columns or min(d, 9)
    a, b = values.points(rng, metric.name, sizes, d, dtype)
    if rng.random() < 0.2:
        b[:] = b[rng.integers(len(b), size=len(b))]  # each of some rows often
    if rng.random() < 0.2:
        a, b = values.with_specials(rng, a), values.with_specials(rng, b)
    columns = "" if metric.columns else "d"
    case = Case(
        NAME,
        str(pick(rng, _RELATIONS)),
        {"a": a, "b": b},
        distances.SIZES | {"a": ("m", columns), "b": ("n", columns)},
        {
            "metric": metric.name,
            "dtype": None if rng.random() < 0.8 else str(pick(rng, ("float32", "float64"))),
            "device": "cuda" if elsewhere.on_gpu() and rng.random() < 0.7 else "cpu",
            "known": int(pick(rng, (1, 3, 5, 31, 33, 100))),
            "finder": str(pick(rng, ("", "", "boxes", "product", "product"))),
        },
    )
    return distances.with_arguments(rng, case)


def program(case: Case) -> Program:
    options, args = case.options, distances.arguments_of(case)
    if distances.result_of(case) == "float32" and any(
        (np.abs(x[np.isfinite(x)].astype(np.longdouble)) > np.finfo(np.float32).max).any()
        for x in case.arrays.values()
    ):
        raise Skipped("numbers that the result's type does not hold")
    if min(len(case.arrays["a"]), len(case.arrays["b"])) < 2:
        raise Skipped("nobody to choose from")
    few = case.arrays["b"].shape[1] <= _FEW_COLUMNS or bool(case.arrays.keys() & {"w", "box"})
    rows = elsewhere.rows("cdist") if options["device"] == "cuda" and not few else ()
    direct = [
        row.id
        for row in rows
        if row.id == _DIRECT
        and options["metric"] in row.metrics
        and distances.result_of(case) in row.dtypes
    ]
    given = {"metric": options["metric"], "device": options["device"], "dtype": options["dtype"]}
    written = [f"{name!r}: {value!r}" for name, value in given.items()]
    written += [f"{name!r}: {words}" for name, words in distances.words_of(case, args).items()]
    by = {"kernel": direct[0]} if direct else {}
    if found := _finders(case):
        kernel = found[len(case.arrays["b"]) % len(found)]
        written.append(f"'kernel': {kernel!r}")
        # Instruction sets round differently, so distances are those of the same one.
        by = {"kernel": f"cdist/cpu_tile_{kernel.rpartition('_')[2]}"}
    text = _HEAD + textwrap.dedent(_RELATIONS[case.relation])
    similar = metrics.resolve(options["metric"], {}).similarity
    for name, words in (("SIMILAR", similar), ("KNOWN", options["known"]), ("BY", by)):
        text = text.replace(name, repr(words))
    return Program(f"search = {{{', '.join(written)}}}\n{text}", dict(case.arrays))


def _finders(case: Case) -> list[str]:
    """List the kernels of the CPU, of the kind that was drawn, that take this case."""
    options, columns = case.options, case.arrays["b"].shape[1]
    if options["device"] != "cpu" or not options["finder"] or case.arrays.keys() & {"w", "box"}:
        return []
    if options["metric"] == "minkowski":  # whose distances other kernels have
        return []
    return [
        row.id
        for row in gpudist.kernels("neighbors")
        if row.id.startswith(f"neighbors/cpu_{options['finder']}_")
        and row.why_not is None
        and options["metric"] in row.metrics
        and 1 <= columns <= (8 if options["finder"] == "boxes" else columns)
    ]


def simpler(case: Case) -> Iterator[Case]:
    for spare in {"w", "box"} & case.arrays.keys():
        yield replace(case, arrays={name: x for name, x in case.arrays.items() if name != spare})
    plain = {"device": "cpu", "dtype": None, "known": 1, "finder": ""}
    for name, value in plain.items():
        if case.options[name] != value:
            yield case.having(**{name: value})


def label(case: Case) -> str:
    options = case.options
    return " ".join(
        (case.relation, options["metric"], distances.result_of(case), options["device"])
    )
