"""cdist: every row of the table, every metric and dtype it takes, against the float64 reference."""

from functools import lru_cache

import numpy as np
import pytest
from conftest import (
    LAYOUTS,
    LP,
    PRODUCT_FORMS,
    RECORDS,
    SCIPY,
    SCIPY_WEIGHS_YULE,
    TRUTHS,
    ZERO_AT_HOME,
    allowed,
    assert_close,
    bits,
    choices,
    forms,
    points,
    relay,
    rows,
    runnable,
    scipy_cdist,
    tolerance,
)

import gpudist
from gpudist.metrics import METRICS

# m, n: nothing, one, around the vector lengths and tile sizes, primes, long and flat.
SIZES = [
    (0, 3), (3, 0), (1, 1), (2, 3), (1, 257), (131, 1), (7, 31), (31, 33), (32, 32), (33, 63),
    (64, 65), (65, 64), (127, 129), (128, 128), (129, 127), (67, 257), (5, 1021), (201, 5),
]  # fmt: skip
# What SciPy 1.15 to 1.17 know beside the names.
ALIASES = """
euclid eu e sqe sqeuclid cblock cb c chebychev cheby cheb ch mi m pnorm se s mahal mah cos co
matching hamm ha h js jacc ja j
"""
# Names that other libraries have for them: of scikit-learn, and of norms.
OTHERS = {
    "l2": "euclidean",
    **dict.fromkeys(("manhattan", "l1", "taxicab"), "cityblock"),
    **dict.fromkeys(("infinity", "linf"), "chebyshev"),
}
DIMENSIONS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 129, 257]


def dimensions_of(kernel):
    least, most = kernel.columns
    return tuple(d for d in DIMENSIONS if least <= d <= most)


def cases():
    """Row, metric, dtype; neighbours share their metric, so that the reference runs once."""
    found = [
        pytest.param(
            kernel := param.values[0], metric, dtype,
            id=f"{kernel.id}-{metric}-{dtype}", marks=param.marks,
        )
        for param in rows("cdist")
        for metric in param.values[0].metrics
        for dtype in param.values[0].dtypes
    ]  # fmt: skip
    return sorted(found, key=lambda p: (p.values[1], p.values[2]))


every_case = pytest.mark.parametrize(("kernel", "metric", "dtype"), cases())
own_case = pytest.mark.parametrize(
    ("kernel", "metric", "dtype"), [p for p in cases() if p.values[0].id not in PRODUCT_FORMS]
)


def operand_kinds(metric, label, dtype):
    """Return the dtypes of operands for which a metric can take another way."""
    return (dtype,) if RECORDS[metric].domain == "numbers" or label == "w0" else (dtype, "bool")


def taken(kernel, metric, dtype):
    """Each form of the metric, and dtype of operands, that the row takes: at least one."""
    least = max(kernel.columns[0], 1)
    found = []
    for label, make in forms(metric):
        for kind in operand_kinds(metric, label, dtype):
            x = points(np.random.default_rng(0), 3, least, metric, kind)
            args = make(np.random.default_rng(0), least)
            try:
                gpudist.explain("cdist", x, x, metric, dtype=dtype, kernel=kernel.id, **args)
            except ValueError:
                continue
            found.append((label, kind))
    assert found, f"{kernel.id} says that it knows {metric}, and takes it in no form"
    return found


def argue(metric, label, rng, d):
    return dict(forms(metric))[label](rng, d)


def exact(a, b, metric, args):
    """Compute in float64, from the values that the operands have."""
    return gpudist.cdist(a, b, metric, kernel="reference", dtype=np.float64, **args)


@lru_cache(maxsize=40)
def awkward(metric, label, kind, dimensions):
    """Operands of awkward shapes, arguments, and what comes out.

    A metric's first form meets three numbers of dimensions at each size, the others one.
    """
    rng = np.random.default_rng(7)
    step = 7 if label == next(iter(forms(metric)))[0] else 21
    problems = []
    for i, (m, n) in enumerate(SIZES):
        for d in dimensions[7 * i % step + i % 7 :: step] or dimensions:
            a, b = points(rng, m, d, metric, kind), points(rng, n, d, metric, kind)
            args = argue(metric, label, rng, d)
            problems.append((a, b, args, exact(a, b, metric, args)))
    return problems


@every_case
def test_matches_the_reference_on_awkward_shapes(kernel, metric, dtype):
    runnable(kernel)
    for label, kind in taken(kernel, metric, dtype):
        for a, b, args, expected in awkward(metric, label, kind, dimensions_of(kernel)):
            out = np.full(expected.shape, -7, dtype)
            result = gpudist.cdist(a, b, metric, kernel=kernel.id, out=out, **args)
            assert result is out
            assert_close(out, expected, *allowed(kernel, metric, dtype, args, a, b))


def spread(kind, metric, a, b):
    """Turn normal rows into long tails, far from the origin, or pairs an ulp apart."""
    shaped = metric == "haversine" or metric in TRUTHS or metric == "hamming"
    if kind == "heavy" and not shaped:
        a, b = np.exp(2 * a), np.exp(2 * b)
        if metric in ("jensenshannon", "kl_divergence", "hellinger"):
            a, b = (x / x.sum(axis=1, keepdims=True) for x in (a, b))
    if kind == "offset" and metric in LP | {"mahalanobis", "canberra", "braycurtis", "correlation"}:
        a, b = a + a.dtype.type(100), b + a.dtype.type(100)
    if kind == "near" and metric not in TRUTHS:
        b[: len(a)] = np.nextafter(a, np.inf, dtype=a.dtype)
    return a, b


@lru_cache(maxsize=20)
def long_sums(metric, label, dtype, d):
    rng = np.random.default_rng(11)
    problems = []
    for kind in ("normal", "heavy", "offset", "near"):
        a, b = points(rng, 12, d, metric, dtype), points(rng, 15, d, metric, dtype)
        a, b = spread(kind, metric, a, b)
        args = argue(metric, label, rng, d)
        problems.append((a, b, args, exact(a, b, metric, args)))
    return problems


@every_case
def test_a_long_sum_keeps_its_digits(kernel, metric, dtype):
    runnable(kernel)
    d = min(4096 if metric != "mahalanobis" else 257, kernel.columns[1])
    for label, kind in taken(kernel, metric, dtype):
        if kind == "bool":
            continue
        for a, b, args, expected in long_sums(metric, label, dtype, d):
            assert_close(
                gpudist.cdist(a, b, metric, kernel=kernel.id, **args),
                expected,
                *allowed(kernel, metric, dtype, args, a, b),
            )


def outweighed(rng, count, d, size, signs):
    """Rows of which one element outweighs the others."""
    x = rng.standard_normal((count, d))
    x[:, d // 3] = size * rng.choice(signs, count) * rng.uniform(1.0, 1.1, count)
    return x


@lru_cache(maxsize=20)
def outweighed_rows(metric, dtype, d, size, signs):
    rng = np.random.default_rng(17)
    products = metric in {"cosine", "correlation", "inner_product"}
    m, n = (330, 700) if products else (60, 300)
    a, b = (outweighed(rng, count, d, size, signs).astype(dtype) for count in (m, n))
    if not products:
        return a, b, exact(a, b, metric, {})
    x, y = a.astype(np.float64), b.astype(np.float64)
    if metric == "correlation":
        x, y = (z - z.mean(axis=1, keepdims=True) for z in (x, y))
    if metric != "inner_product":
        x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    return a, b, x @ y.T if metric == "inner_product" else 1 - x @ y.T


@pytest.mark.parametrize("signs", [(1, -1), (1, 1, 1, 1, 1, -1), (1,)], ids=["even", "most", "one"])
@pytest.mark.parametrize(
    ("kernel", "metric", "dtype"),
    [
        p
        for p in cases()
        if p.values[0].ladder == "production"
        and p.values[1] in {"euclidean", "sqeuclidean", "cosine", "correlation", "inner_product"}
    ],
)
def test_a_column_that_outweighs_the_others_costs_no_digits(kernel, metric, dtype, signs):
    """Products large beside the result: tensor cores cut digits off, and long sums round."""
    runnable(kernel)
    sizes = [(4, 30), (16, 30), (32, 32), (64, 16), (64, 256), (130, 64)]
    if "tensor" in kernel.id:
        sizes += [(1030, 128), (4096, 64)]
    for d, size in sizes:
        if kernel.columns[0] <= d <= kernel.columns[1]:
            a, b, expected = outweighed_rows(metric, dtype, d, size, signs)
            got = gpudist.cdist(a, b, metric, kernel=kernel.id)
            assert_close(got, expected, *tolerance(metric, dtype, {}, a, b))


@pytest.mark.gpu
@pytest.mark.parametrize("d", [64, 500, 1000, 4096])
@pytest.mark.parametrize(
    ("name", "metric", "args"),
    [
        ("direct", "cityblock", {}),
        ("direct_sums", "minkowski", {"p": 3}),
        ("direct_sums", "minkowski", {"p": 4}),
    ],
)
def test_equal_differences_which_all_round_alike(name, metric, args, d, rng):
    """The longest folds: nowhere do roundings cancel less than where every term is the same."""
    kernel = next(k for k in gpudist.kernels("cdist") if k.id == f"cdist/cuda_{name}")
    runnable(kernel)
    sizes = (1 + rng.random(4096)).astype("f4")
    a, b = np.zeros((2, d), "f4"), np.repeat(sizes[:, None], d, axis=1)
    expected = np.repeat(sizes[None].astype("f8") * d ** (1 / args.get("p", 1)), 2, axis=0)
    assert_close(gpudist.cdist(a, b, metric, kernel=kernel.id, **args), expected, 5e-7)


def gathered(kind, rng, count, d):
    """Rows in tight clusters, about one place but for a few, or far apart but for a few."""
    places = np.random.default_rng(5).normal(size=(17, d)) * 5
    near = rng.normal(size=(count, d)) * 1e-3
    row = np.arange(count)
    if kind == "clusters":
        return places[rng.integers(16, size=count)] + near
    if kind == "halves":
        return places[rng.integers(2, size=count)] + near
    if kind == "outliers":
        return np.where(row[:, None] % 32 == 7, near * 1e3, places[16] + near * 1e-3)
    return np.where(row[:, None] % 37 < 2, places[16] + near, near * 1e3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "inner_product"])
@pytest.mark.parametrize("d", [1, 2, 3, 8, 9, 16, 17, 33, 130, 520, 1100, 2100])
@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"])
def test_few_rows_have_the_bits_of_many(isa, d, metric, dtype):
    """What has few rows, or few columns, or both, is computed in other forms than tiles."""
    kernel = f"cdist/cpu_tile_{isa}"
    runnable(next(k for k in gpudist.kernels("cdist") if k.id == kernel))
    rng = np.random.default_rng(d)
    a, b = rng.standard_normal((40, d)).astype(dtype), rng.standard_normal((37, d)).astype(dtype)
    # Sums of squares that lose range in float32, products that vanish, and what is no number.
    a[1] *= 1e-30
    b[2] *= -1e-30
    a[3] = b[4] = 1e-38
    b[5], a[6, -1], b[7, 0] = 3e25, np.nan, np.inf
    b[8] = a[0]
    want = gpudist.cdist(a, b, metric, kernel=kernel)
    for m, n in ((1, 37), (2, 37), (4, 37), (40, 1), (40, 3), (1, 1), (2, 3), (7, 9), (12, 12)):
        for i, j in ((0, 0), (40 - m, 37 - n)):
            got = gpudist.cdist(a[i : i + m], b[j : j + n], metric, kernel=kernel)
            np.testing.assert_array_equal(bits(got), bits(want[i : i + m, j : j + n]))


@lru_cache(maxsize=20)
def gathered_rows(kind, metric, dtype, d):
    rng = np.random.default_rng(13)
    a, b = (gathered(kind, rng, count, d).astype(dtype) for count in (140, 165))
    return a, b, exact(a, b, metric, {})


@pytest.mark.parametrize("kind", ["clusters", "halves", "outliers", "pairs"])
@pytest.mark.parametrize(
    ("kernel", "metric", "dtype"),
    [
        p
        for p in cases()
        if p.values[0].ladder == "production"
        and p.values[1] in {"euclidean", "sqeuclidean", "cosine"}
    ],
)
def test_clusters_change_neither_digits_nor_rows(kernel, metric, dtype, kind):
    """Where norms and products cancel, some other way takes over, whatever the other rows are."""
    runnable(kernel)
    for d in [d for d in (3, 33, 130) if kernel.columns[0] <= d <= kernel.columns[1]]:
        a, b, expected = gathered_rows(kind, metric, dtype, d)
        got = gpudist.cdist(a, b, metric, kernel=kernel.id)
        assert_close(got, expected, *tolerance(metric, dtype, {}, a, b))
        for part in (slice(0, 1), slice(60, 139)):
            alone = gpudist.cdist(a[part], b, metric, kernel=kernel.id)
            np.testing.assert_array_equal(alone, got[part])
        square = gpudist.cdist(b, b, metric, kernel=kernel.id)
        np.testing.assert_array_equal(square, square.T)
        np.testing.assert_array_equal(np.diagonal(square), np.zeros(len(b)))
        pairs = gpudist.pdist(b, metric, kernel=kernel.id)
        np.testing.assert_array_equal(pairs, square[np.triu_indices(len(b), 1)])


@own_case
def test_rows_do_not_depend_on_their_neighbours(kernel, metric, dtype, rng):
    runnable(kernel)
    for label, kind in taken(kernel, metric, dtype):
        for d in dimensions_of(kernel)[-2:]:
            a, b = points(rng, 150, d, metric, kind), points(rng, 133, d, metric, kind)
            call = {"dtype": dtype, "kernel": kernel.id} | argue(metric, label, rng, d)
            whole = gpudist.cdist(a, b, metric, **call)
            for part in (slice(0, 1), slice(3, 70), slice(149, 150), slice(17, 150)):
                np.testing.assert_array_equal(
                    gpudist.cdist(a[part], b, metric, **call), whole[part], err_msg=label
                )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cdist/cuda_tensor", "cdist/cuda_tensor_mma"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
@pytest.mark.parametrize("d", [40, 100, 520, 1030])
def test_few_rows_are_on_tensor_cores_what_they_are_among_many(name, metric, d, rng):
    """Up to 64 rows have a product of their own, up to 128 no order, long ones are read twice."""
    kernel = next(k for k in gpudist.kernels("cdist") if k.id == name)
    runnable(kernel)
    for kind in ("clusters", "outliers"):
        a, b = (gathered(kind, rng, count, d).astype("f4") for count in (300, 1100))
        whole = gpudist.cdist(a, b, metric, kernel=kernel.id)
        assert_close(whole, exact(a, b, metric, {}), *tolerance(metric, "float32", {}, a, b))
        for part in (slice(0, 1), slice(7, 40), slice(50, 114), slice(50, 115), slice(100, 228)):
            got = gpudist.cdist(a[part], b, metric, kernel=kernel.id)
            np.testing.assert_array_equal(got, whole[part], err_msg=f"{kind}, {part}")


@own_case
def test_same_points_give_a_symmetric_matrix_with_zero_diagonal(kernel, metric, dtype, rng):
    runnable(kernel)
    for label, kind in taken(kernel, metric, dtype):
        for d in dimensions_of(kernel)[-3:]:
            a = points(rng, 140, d, metric, kind)
            if metric in LP | {"mahalanobis", "correlation"}:
                a = a + a.dtype.type(50)
            call = {"dtype": dtype, "kernel": kernel.id} | argue(metric, label, rng, d)
            square = gpudist.cdist(a, a.copy(), metric, **call)
            if metric != "kl_divergence":
                np.testing.assert_array_equal(square, square.T, err_msg=label)
            if metric in ZERO_AT_HOME and (metric, label) != ("sokalsneath", "w0"):
                np.testing.assert_array_equal(np.diagonal(square), np.zeros(140), err_msg=label)


@every_case
def test_layout_does_not_change_the_bits(kernel, metric, dtype, rng):
    runnable(kernel)
    for i, (label, kind) in enumerate(taken(kernel, metric, dtype)):
        d = dimensions_of(kernel)[-2:][0]
        a, b = points(rng, 40, d, metric, kind), points(rng, 51, d, metric, kind)
        call = {"dtype": dtype, "kernel": kernel.id} | argue(metric, label, rng, d)
        expected = gpudist.cdist(a, b, metric, **call)
        for layout in LAYOUTS if i == 0 else LAYOUTS[:1]:
            for x, y in ((relay(a, layout), b), (a, relay(b, layout))):
                got = gpudist.cdist(x, y, metric, **call)
                np.testing.assert_array_equal(got, expected, err_msg=f"{label}, {layout}")


def float32_of(metrics):
    return pytest.mark.parametrize(
        ("kernel", "metric"),
        [
            pytest.param(p.values[0], m, id=f"{p.values[0].id}-{m}", marks=p.marks)
            for p in rows("cdist")
            for m in p.values[0].metrics
            if m in metrics and "float32" in p.values[0].dtypes and not p.values[0].teaching
        ],
    )


def assert_is_float32s(kernel, a, b, metric, args):
    """What float32 cannot hold is infinite there."""
    expected = exact(a, b, metric, args)
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32).astype(np.float64)
    rtol, _ = tolerance(metric, "float32", args, a, b)
    assert_close(
        gpudist.cdist(a, b, metric, kernel=kernel.id, **args),
        np.where(np.isinf(rounded), np.inf, expected),
        rtol,
        1.5e-45,
    )


@float32_of(LP)
def test_float32_holds_over_its_whole_range(kernel, metric, rng):
    """Powers that leave float32 on the way to a result inside it are computed again."""
    runnable(kernel)
    for label, _ in taken(kernel, metric, "float32"):
        for d in (2, 3, 16, 40, 300):
            if not kernel.columns[0] <= d <= kernel.columns[1]:
                continue
            for scale in (1e-38, 1e-30, 1e-22, 1e-19, 1e19, 1e25, 1e36):
                a = (rng.normal(size=(17, d)) * scale).astype(np.float32)
                b = (rng.normal(size=(25, d)) * scale).astype(np.float32)
                b[:5] = a[:5]
                b[5:10, 0] *= np.float32(1e-6)  # mixed magnitudes
                args = argue(metric, label, rng, d)
                assert_is_float32s(kernel, a, b, metric, args)


@float32_of(LP - {"cityblock", "chebyshev"})
def test_float32_holds_where_squares_begin_to_leave_its_range(kernel, metric, rng):
    """Points of one power of two, or zeros, whose elements differ by a spacing or two, if at all:
    on one side of the limits no square needs a second look, on the other all do."""
    runnable(kernel)
    label, _ = taken(kernel, metric, "float32")[0]
    for d in (4, 8, 16):
        if not kernel.columns[0] <= d <= kernel.columns[1]:
            continue
        for exponent in (-44, *range(-28, -23), *range(58, 64)):
            many = rng.integers(0, 3, (300, d)) * 2.0**-23 + 1
            signs = np.ones(d) if exponent < 0 else rng.choice([-1, 1], (300, d))
            x = (np.where(rng.random((300, d)) < 0.1, 0, many * signs) * 2.0**exponent).astype("f4")
            x[50] = x[0]
            assert_is_float32s(kernel, x[:44], x[44:], metric, argue(metric, label, rng, d))


@every_case
def test_nan_and_infinity_are_those_of_scipy(kernel, metric, dtype, rng):
    runnable(kernel)
    for label, kind in taken(kernel, metric, dtype):
        for d in (2, 3, 8, 37):
            if kind == "bool" or not kernel.columns[0] <= d <= kernel.columns[1]:
                continue
            a, b = points(rng, 9, d, metric, dtype), points(rng, 21, d, metric, dtype)
            a[1, 0], a[2, 1], a[3, 0], b[4, 0], b[5, 1] = np.nan, np.inf, -np.inf, np.nan, np.inf
            b[6] = a[1]
            a[4] = np.nan  # of nothing but NaN, chebyshev makes 0
            args = argue(metric, label, rng, d)
            rtol, atol = allowed(kernel, metric, dtype, args, np.ones((9, d)), np.ones((21, d)))
            assert_close(
                gpudist.cdist(a, b, metric, kernel=kernel.id, **args),
                scipy_cdist(a, b, metric, **args)
                if metric in SCIPY
                and label != "base"  # which its cdist does not take
                and (SCIPY_WEIGHS_YULE or metric != "yule" or "w" not in args)
                else exact(a, b, metric, args),
                4 * rtol,  # SciPy adds in its own order
                4 * atol,
            )


@every_case
def test_the_same_array_twice_is_as_two(kernel, metric, dtype, rng):
    """A row may take the symmetry for granted then; bits do not change."""
    runnable(kernel)
    for label, kind in taken(kernel, metric, dtype)[:1]:
        for n in (1, 5, 64, 131):
            a = points(rng, n, dimensions_of(kernel)[-1], metric, kind)
            call = {"dtype": dtype, "kernel": kernel.id} | argue(metric, label, rng, a.shape[1])
            expected = gpudist.cdist(a, a.copy(), metric, **call)
            np.testing.assert_array_equal(gpudist.cdist(a, a, metric, **call), expected)


@pytest.mark.parametrize(
    ("kernel", "option"),
    [
        pytest.param(p.values[0], option, id=f"{p.values[0].id}-{option.name}", marks=p.marks)
        for p in rows("cdist")
        for option in p.values[0].options
    ],
)
def test_options_do_not_change_the_bits(kernel, option, rng):
    runnable(kernel)
    metric, dtype = kernel.metrics[0], kernel.dtypes[0]
    least, most = kernel.columns
    for m, n, d in ((1, 1, least), (67, 1031, min(most, 37)), (300, 5, max(least, 1))):
        a, b = points(rng, m, d, metric, dtype), points(rng, n, d, metric, dtype)
        expected = gpudist.cdist(a, b, metric, kernel=kernel.id)
        for value in choices(option):
            try:
                got = gpudist.cdist(a, b, metric, kernel=kernel.id, options={option.name: value})
            except ValueError as refusal:
                assert "this card" in str(refusal) and value > option.standard
                continue
            np.testing.assert_array_equal(got, expected, err_msg=f"{option.name} = {value}")


@pytest.mark.parametrize("metric", RECORDS)
def test_auto_takes_every_form(metric, device, rng):
    for _, make in forms(metric):
        for n, d in ((50, 2), (300, RECORDS[metric].columns or 40)):
            a, b = points(rng, 60, d, metric, "float64"), points(rng, n, d, metric, "float64")
            args = make(rng, d)
            got = gpudist.cdist(a, b, metric, device=device, **args)
            want = exact(a, b, metric, args)
            assert_close(got, want, *tolerance(metric, "float64", args, a, b))
            assert_close(got, gpudist.cdist(a, b, metric.upper(), device=device, **args), 0)


def test_every_alias_is_known(rng):
    a = np.abs(rng.normal(size=(9, 4)))
    known = [alias for metric in METRICS for alias in metric.aliases]
    assert sorted(known) == sorted([*ALIASES.split(), *OTHERS])
    for alias in known:
        expected = scipy_cdist(a, a, OTHERS.get(alias, alias))
        np.testing.assert_allclose(
            gpudist.cdist(a, a, alias.upper()), expected, rtol=1e-13, atol=1e-12
        )


def test_dtype_rules(device, rng):
    a32, a64 = rng.normal(size=(5, 3)).astype("f4"), rng.normal(size=(5, 3))
    whole = rng.integers(0, 9, size=(5, 3))
    assert gpudist.cdist(a32, a32, device=device).dtype == np.float32
    for x, y in ((a32, a64), (whole, whole), (whole > 3, whole), (a32.astype("f2"), a32)):
        result = gpudist.cdist(x, y, device=device)
        assert result.dtype == np.float64
        assert_close(result, exact(x, y, "euclidean", {}), 1e-13)
    assert gpudist.cdist(a32, a32, dtype=np.float64, device=device).dtype == np.float64
    assert gpudist.cdist(a64, a64, dtype="float32", device=device).dtype == np.float32


def test_reference_is_selectable(rng):
    a = rng.normal(size=(4, 3)).astype("f4")
    out = np.empty((4, 4), "f4")
    assert gpudist.cdist(a, a, kernel="reference", out=out) is out
    assert_close(gpudist.cdist(a, a), out.astype("f8"), 5e-7)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("start", [0, 5, 60])
def test_out_in_the_midst_of_its_operands(start, device, rng):
    """Small calls go a short way, on which nobody makes copies."""
    memory = rng.random(400)
    a, out = memory[:96].reshape(8, 12), memory[start : start + 64].reshape(8, 8)
    expected = gpudist.cdist(a.copy(), a.copy(), device=device)
    assert gpudist.cdist(a, a, out=out, device=device) is out
    assert np.array_equal(out, expected)
    memory[:] = rng.random(400)
    b = memory[300:396].reshape(8, 12)
    expected = gpudist.cdist(b, a, device=device)
    assert gpudist.cdist(b, a, out=out, device=device) is out
    assert np.array_equal(out, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("d", [2, 5])
def test_more_than_2_31_elements(d):
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a = torch.randn(65537, d, device="cuda")
    b = torch.randn(32771, d, device="cuda")
    out = gpudist.cdist(a, b)
    assert out.numel() > 2**31
    for part in (slice(0, 3), slice(32760, 32775), slice(65534, 65537)):
        expected = exact(a[part].cpu().numpy(), b.cpu().numpy(), "euclidean", {})
        assert_close(out[part].cpu().numpy(), expected, 5e-7)
