"""Products of rows that are scaled, or transformed, before: weights, V, VI and square roots."""

import numpy as np
import pytest
from conftest import DISTRIBUTIONS, assert_close, definite, runnable, saddle, tolerance

import gpudist

# Beside each kernel dimensions for its ways: few, no whole words, one sum of products and several.
WAYS = {
    "cuda_tensor": ("float32", (24, 66, 131, 530)),
    "cuda_tensor_f64": ("float64", (16, 67, 300)),
}
KINDS = ("normal", "offset", "clusters", "halves", "near", "heavy", "spread", "wide")
on_tensor_cores = pytest.mark.parametrize("name", WAYS)


def kernel_named(name):
    return runnable(next(k for k in gpudist.kernels("cdist") if k.id == f"cdist/{name}")).id


def spread_weights(rng, d):
    """Decades of weights, of which one column has most and some have none."""
    weights = 10.0 ** rng.uniform(-3, 3, d)
    weights[d // 3] = 1e5
    weights[::7] = 0
    return weights


# By label the metric, and its arguments for d columns.
FORMS = {
    "euclidean": ("euclidean", lambda rng, d: {"w": rng.uniform(0.1, 2, d)}),
    "euclidean, decades": ("euclidean", lambda rng, d: {"w": spread_weights(rng, d)}),
    "sqeuclidean": ("sqeuclidean", lambda rng, d: {"w": spread_weights(rng, d)}),
    "seuclidean": ("seuclidean", lambda rng, d: {"V": 10.0 ** rng.uniform(-4, 4, d)}),
    "mahalanobis": ("mahalanobis", lambda rng, d: {"VI": definite(rng, d)}),
    "hellinger": ("hellinger", lambda rng, d: {}),
    "cosine": ("cosine", lambda rng, d: {"w": spread_weights(rng, d)}),
    "correlation": ("correlation", lambda rng, d: {"w": rng.uniform(0.1, 2, d)}),
}


def draw(kind, rng, count, d):
    """Rows whose norms and products cancel, each in its own way."""
    places = np.random.default_rng(5).normal(size=(16, d)) * 20
    x = rng.normal(size=(count, d))
    if kind == "offset":
        return x + 3e4
    if kind == "clusters":
        return places[rng.integers(16, size=count)] + x
    if kind == "halves":
        return places[rng.integers(2, size=count)] + x * 1e-3
    if kind == "near":
        return places[0] + x * 1e-4
    if kind == "heavy":
        return x / rng.normal(size=(count, d))
    if kind == "spread":
        return x * 10.0 ** rng.integers(-6, 7, (count, 1))
    if kind == "wide":
        return x * 10.0 ** np.random.default_rng(6).uniform(-4, 4, d)
    return x


def operands(kind, rng, metric, dtype, d):
    """Two of them, with rows in common and rows an ulp apart."""
    a, b = (draw(kind, rng, count, d) for count in (140, 210))
    if metric in DISTRIBUTIONS:
        a, b = (np.abs(x) / np.abs(x).sum(axis=1, keepdims=True) for x in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    b[::9] = a[: len(b[::9])]
    b[1::9] = np.nextafter(a[: len(b[1::9])], np.inf, dtype=dtype)
    return a, b


@pytest.mark.gpu
@pytest.mark.parametrize("label", FORMS)
@on_tensor_cores
def test_scaled_rows_keep_digits_rows_and_symmetry(name, label, rng):
    kernel = kernel_named(name)
    dtype, dimensions = WAYS[name]
    metric, make = FORMS[label]
    for d in dimensions:
        if metric == "mahalanobis" and d > 70:
            continue  # a quadratic form an element takes the reference long
        args = make(rng, d)
        for kind in KINDS:
            a, b = operands(kind, rng, metric, dtype, d)
            what = f"{kind}, d = {d}"
            exact = gpudist.cdist(a, b, metric, kernel="reference", dtype="float64", **args)
            got = gpudist.cdist(a, b, metric, kernel=kernel, **args)
            assert_close(got, exact, *tolerance(metric, dtype, args, a, b), what)
            for part in (slice(0, 1), slice(3, 70), slice(60, 139)):
                alone = gpudist.cdist(a[part], b, metric, kernel=kernel, **args)
                np.testing.assert_array_equal(alone, got[part], err_msg=what)
            square = gpudist.cdist(b, b, metric, kernel=kernel, **args)
            np.testing.assert_array_equal(square, square.T, err_msg=what)
            np.testing.assert_array_equal(
                square, gpudist.cdist(b, b.copy(), metric, kernel=kernel, **args), err_msg=what
            )
            pairs = gpudist.pdist(b, metric, kernel=kernel, **args)
            np.testing.assert_array_equal(pairs, square[np.triu_indices(len(b), 1)], err_msg=what)
            if metric not in DISTRIBUTIONS:
                assert not np.diagonal(square).any(), what


@pytest.mark.gpu
@on_tensor_cores
def test_a_column_that_outweighs_the_others_by_its_weight_costs_no_digits(name, rng):
    """Rows are rounded once more than without weights: next to the guard least is to spare."""
    kernel = kernel_named(name)
    dtype, _ = WAYS[name]
    for d in (33, 66, 130, 1030):
        w = 1e-3 * rng.random(d)
        w[d // 2] = 1e4
        a, b = (rng.normal(size=(count, d)).astype(dtype) for count in (700, 900))
        exact = gpudist.cdist(a, b, w=w, kernel="reference", dtype="float64")
        got = gpudist.cdist(a, b, w=w, kernel=kernel)
        assert_close(got, exact, *tolerance("euclidean", dtype, {}, a, b), f"d = {d}")


@pytest.mark.gpu
@on_tensor_cores
def test_rows_that_do_not_sum_to_1(name, rng):
    """What their sum lacks to 1, or has too much, is added before the root."""
    kernel = kernel_named(name)
    dtype, dimensions = WAYS[name]
    for d in dimensions:
        for total in (0.3, 1.0, 1.02, 1.8):
            a, b = (rng.random((count, d)) for count in (140, 210))
            a, b = (x / x.sum(axis=1, keepdims=True) for x in (a, b))
            a, b = (a * total).astype(dtype), (b / total).astype(dtype)
            exact = gpudist.cdist(a, b, "hellinger", kernel="reference", dtype="float64")
            got = gpudist.cdist(a, b, "hellinger", kernel=kernel)
            assert_close(got, exact, *tolerance("hellinger", dtype, {}, a, b), f"sum {total}")


@pytest.mark.gpu
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize(
    ("weight", "scale"), [(1e-30, 1e12), (1e30, 1e-12), (1e-42, 1e15), (1e45, 1e-10), (1, 1e-18)]
)
@on_tensor_cores
def test_weights_and_rows_at_the_ends_of_the_range(name, weight, scale, metric, rng):
    """Where scaled rows, or weights, leave float32, the result is still that of float64."""
    kernel = kernel_named(name)
    dtype, _ = WAYS[name]
    w = weight * rng.uniform(0.5, 2, 70)
    a, b = ((scale * rng.normal(size=(count, 70))).astype(dtype) for count in (90, 130))
    exact = gpudist.cdist(a, b, metric, w=w, kernel="reference", dtype="float64")
    wide = not 2**-40 < weight < 2**40  # float32 is given up for such weights
    taken = "cdist/cuda_tensor_f64" if wide else kernel
    got = gpudist.cdist(a, b, metric, w=w, kernel=taken)
    assert_close(got, exact, *tolerance(metric, dtype, {}, a, b))


@pytest.mark.gpu
@on_tensor_cores
def test_not_a_number_stays_one(name, rng):
    kernel = kernel_named(name)
    dtype, _ = WAYS[name]
    a, b = rng.random((40, 40)).astype(dtype), rng.random((60, 40)).astype(dtype)
    a[3, 5], b[7, 6], b[9, 0] = np.nan, np.inf, np.nan
    w = spread_weights(rng, 40)
    for metric, args in (
        ("euclidean", {"w": w}),
        ("mahalanobis", {"VI": definite(rng, 40)}),
        ("hellinger", {}),
    ):
        exact = gpudist.cdist(a, b, metric, kernel="reference", dtype="float64", **args)
        got = gpudist.cdist(a, b, metric, kernel=kernel, **args)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(exact), err_msg=metric)


@pytest.mark.gpu
def test_near_rows_whose_squares_leave_float32_lose_no_digits():
    """Their distance does not leave it, and is of the rows as they are, not as they are rounded."""
    rng = np.random.default_rng(4)
    b = (rng.normal(size=(40, 24)) * 1e37).astype("f4")
    a = b[::-1] * np.float32(1 + 3e-7) + (rng.normal(size=(40, 24)) * 1e30).astype("f4")
    factor = np.tril(rng.normal(size=(24, 24)) / 24 + np.eye(24))
    vi = factor @ factor.T
    apart = a[:, None].astype(float) - b.astype(float)
    expected = np.sqrt(np.einsum("ijk,kl,ijl->ij", apart, vi, apart))
    got = gpudist.cdist(a, b, "mahalanobis", VI=vi, kernel=kernel_named("cuda_tensor"))
    assert_close(got, expected, 1e-5, 0.0, "cuda_tensor")


@pytest.mark.gpu
@on_tensor_cores
def test_only_a_positive_definite_matrix_has_a_factor(name, rng):
    kernel = kernel_named(name)
    x = rng.random((50, 40)).astype(WAYS[name][0])
    with pytest.raises(ValueError, match="positive definite VI"):
        gpudist.cdist(x, x, "mahalanobis", VI=saddle(rng, 40), kernel=kernel)
    many = np.tile(x, (200, 1))
    for make, expected in ((definite, kernel), (saddle, "cdist/cuda_mahalanobis")):
        found = gpudist.explain("cdist", many, many, "mahalanobis", VI=make(rng, 40), device="cuda")
        assert found.kernel == expected


@pytest.mark.gpu
@on_tensor_cores
def test_a_distance_that_leaves_the_range_is_the_same_in_any_company(name, rng):
    """Rows near each other, which are computed as a form, must not take such results along."""
    kernel = kernel_named(name)
    a, b = (rng.normal(size=(count, 40)).astype(WAYS[name][0]) for count in (30, 50))
    a[7:20] *= np.finfo(a.dtype).max / 4
    b[:3] = np.nextafter(a[:3], np.inf, dtype=a.dtype)
    vi = definite(rng, 40)
    whole = gpudist.cdist(a, b, "mahalanobis", VI=vi, kernel=kernel)
    assert not np.isfinite(whole[7:20]).all()
    for part in (slice(7, 8), slice(7, 20), slice(0, 10)):
        alone = gpudist.cdist(a[part], b, "mahalanobis", VI=vi, kernel=kernel)
        np.testing.assert_array_equal(alone, whole[part])
