"""Small data sets on which distances lose digits, and the metrics with arguments to try on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpudist.metrics import METRICS

Array = npt.NDArray[Any]
Points = tuple[Array, Array]

# More than 25 rows, from where on torch.cdist expands the square of a difference.
ROWS, COLUMNS = (10, 26), 37
# What kernels on tensor cores are chosen for, small as it is.
WIDE_ROWS, WIDE_COLUMNS = (8, 100), 256

PRODUCTS = ("euclidean", "sqeuclidean", "cosine", "correlation", "inner_product")
DISTRIBUTIONS = ("hellinger", "jensenshannon", "kl_divergence")
_TRUTHS = tuple(record.name for record in METRICS if record.domain == "truths")


@dataclass(frozen=True, slots=True)
class Variant:
    """A metric with arguments, also in words; those that are one a column are for `COLUMNS`."""

    metric: str
    arguments: str = ""
    metric_args: dict[str, Any] = field(default_factory=dict)


def variants() -> tuple[Variant, ...]:
    """Give every metric of the package in its order, some with several arguments."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 2.0, COLUMNS)
    weights[5] = 0.0
    factor = rng.standard_normal((COLUMNS, COLUMNS)) / 12 + np.eye(COLUMNS)
    matrix = factor @ factor.T
    special = {
        "minkowski": [Variant("minkowski", f"p = {p:g}", {"p": p}) for p in (3, 4, 0.5, 2.5)],
        "seuclidean": [Variant("seuclidean", "", {"V": rng.uniform(0.5, 2.0, COLUMNS)})],
        # Exactly symmetric, which a product of matrices need not be.
        "mahalanobis": [Variant("mahalanobis", "", {"VI": (matrix + matrix.T) / 2})],
    }
    found = []
    for metric in (record.name for record in METRICS):
        found += special.get(metric, [Variant(metric)])
        if metric in ("euclidean", "jaccard"):
            found.append(Variant(metric, "weighted", {"w": weights}))
    return tuple(found)


def adversarial(metric: str, dtype: Any, *, wide: bool = False) -> dict[str, Points]:
    """Make the data sets on which a metric is hard to get right.

    The metric decides what rows are: numbers, truths, distributions, or latitude and longitude in
    radians. The type decides how far magnitudes reach: 1e-18 to 1e18 and 1e-150 to 1e150, less
    where powers of them leave float64. Every second operand ends with a row that equals the first
    one's first.

    Returns
    -------
    dict
        By name, two arrays of 10 and 26 rows; of 37 columns, or 2. Where `wide` ones are wanted
        and the metric can be had from a product of matrices, also sets of 8 and 100 rows of 256
        columns: no others meet the kernels that take it.
    """
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(2)
    if metric == "haversine":
        made = _places(rng, dtype)
    elif metric in DISTRIBUTIONS:
        made = _distributions(rng, dtype, scaled=metric == "jensenshannon")
    elif metric in _TRUTHS:
        made = _truths(rng, dtype)
        if metric != "dice":  # whose numbers are not only true or false
            made["any numbers"] = _any_numbers(rng, dtype)
    else:
        narrow = metric == "minkowski" and dtype == np.float64
        made = _numbers(rng, dtype, 60 if narrow else _reach(dtype))
        if metric == "hamming":
            made |= _truths(rng, dtype)
        if wide and metric in PRODUCTS:
            made |= _outweighed(rng, dtype)
    for a, b in made.values():
        b[-1] = a[0]
    return made


def _reach(dtype: np.dtype[Any]) -> int:
    """Give the decimal exponent whose square, summed up, is a number of that type."""
    return 18 if dtype == np.float32 else 150


def _two(draw: Any, dtype: np.dtype[Any], columns: int = COLUMNS) -> Points:
    a, b = (draw((rows, columns)).astype(dtype) for rows in ROWS)
    return a, b


def _neighbours(a: Array) -> Points:
    """Pair rows with near-duplicates: every element one ulp up, or a single one."""
    b = np.nextafter(a, np.inf, dtype=a.dtype)[np.arange(ROWS[1]) % ROWS[0]]
    columns = np.arange(a.shape[1])
    for j in range(0, ROWS[0], 2):
        b[j] = np.where(columns == j % len(columns), b[j], a[j])
    return a, b


def _numbers(rng: np.random.Generator, dtype: np.dtype[Any], reach: int) -> dict[str, Points]:
    def wide(shape: tuple[int, int]) -> Array:
        return np.asarray(
            rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-reach, reach, shape)
        )

    def uniform(shape: tuple[int, int]) -> Array:
        return rng.uniform(-1.0, 1.0, shape)

    return {
        "offset 1e6": _two(lambda shape: 1e6 + rng.standard_normal(shape), dtype),
        "one ulp apart": _neighbours(rng.standard_normal((ROWS[0], COLUMNS)).astype(dtype)),
        "wide": _two(wide, dtype),
        "tiny": _two(lambda shape: uniform(shape) * 10.0**-reach, dtype),
        "huge": _two(lambda shape: uniform(shape) * 10.0**reach, dtype),
        "mixed signs": _two(rng.standard_normal, dtype),
    }


def _outweighed(rng: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Points]:
    """Make rows of which one element is about as long as all others, or much longer."""

    def draw(rows: int, size: float, signs: tuple[float, ...]) -> Array:
        x = rng.standard_normal((rows, WIDE_COLUMNS))
        x[:, 85] = size * rng.choice(signs, rows) * rng.uniform(1.0, 1.1, rows)
        return np.asarray(x.astype(dtype))

    def two(size: float, *signs: float) -> Points:
        a, b = (draw(rows, size, signs) for rows in WIDE_ROWS)
        return a, b

    return {
        "one column as long": two(16.0, 1.0, -1.0),
        "one column outweighs": two(64.0, 1.0, -1.0),
        "one column outweighs, mostly positive": two(128.0, 1.0, 1.0, 1.0, -1.0),
        "one column is all": two(4096.0, 1.0),
    }


def _distributions(
    rng: np.random.Generator, dtype: np.dtype[Any], *, scaled: bool
) -> dict[str, Points]:
    def shares(draw: Any) -> Points:
        def normalized(shape: tuple[int, int]) -> Array:
            x = draw(shape)
            return np.asarray(x / x.sum(axis=1, keepdims=True))

        return _two(normalized, dtype)

    def sparse(shape: tuple[int, int]) -> Array:
        x = rng.random(shape) * (rng.random(shape) < 0.7)
        x[:, 0] = 1.0
        return np.asarray(x)

    reach = _reach(dtype)
    made = {
        "even": shares(rng.random),
        "offset 1e6": shares(lambda shape: 1e6 + rng.standard_normal(shape)),
        "one ulp apart": _neighbours(shares(rng.random)[0]),
        "wide": shares(lambda shape: 10.0 ** rng.uniform(-reach, 0, shape)),
        "with zeros": shares(sparse),
    }
    if scaled:
        for name, power in (("tiny", -reach), ("huge", reach)):
            a, b = made["even"]
            scale = dtype.type(10.0**power)
            made[name] = a * scale, b * scale
    return made


def _truths(rng: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Points]:
    def draw(share: float) -> Points:
        return _two(lambda shape: rng.random(shape) < share, dtype)

    a, b = draw(0.5)
    flipped = a[np.arange(ROWS[1]) % ROWS[0]]
    flipped[np.arange(ROWS[1]), np.arange(ROWS[1]) * 2 % COLUMNS] += 1
    return {"half true": (a, b), "one bit apart": (a, flipped % 2), "mostly false": draw(0.05)}


def _any_numbers(rng: np.random.Generator, dtype: np.dtype[Any]) -> Points:
    values = np.array(
        [0.0, -0.0, 1.0, -3.0, 10.0 ** _reach(dtype), np.finfo(dtype).smallest_subnormal]
    )
    return _two(lambda shape: rng.choice(values, shape), dtype)


def _places(rng: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Points]:
    def globe(shape: tuple[int, int]) -> Array:
        return np.stack(
            [np.arcsin(rng.uniform(-1, 1, shape[0])), rng.uniform(-np.pi, np.pi, shape[0])], axis=1
        )

    a, b = _two(globe, dtype, 2)
    opposite = np.stack([-a[:, 0], a[:, 1] + dtype.type(np.pi)], axis=1)
    poles = globe((ROWS[0], 2)) * np.array([1e-6, 1.0]) + np.array([np.pi / 2 - 2e-6, 0.0])
    return {
        "globe": (a, b.copy()),
        "one ulp apart": _neighbours(a),
        "one city": _two(lambda s: np.array([0.7, -1.3]) + 1e-6 * rng.standard_normal(s), dtype, 2),
        "antipodes": (a, opposite[np.arange(ROWS[1]) % ROWS[0]]),
        "near a pole": (poles.astype(dtype), b.copy()),
    }
