"""Exact distances, and the data on which distances lose digits."""

import math

import numpy as np
import pytest

from bench import adversary, report
from bench.exact import error_scale, exact_cdist, measure_of
from gpudist.measure import errors, rivals
from gpudist.metrics import METRICS

# ------------------------------------------------------------------ exact distances


NAN, INF = math.nan, math.inf
ULP = np.spacing(1.0)


def exact(x, y, metric, **metric_args):
    pytest.importorskip("mpmath")
    ((distance,),) = exact_cdist(np.array([x]), np.array([y]), metric, **metric_args)
    return distance


@pytest.mark.parametrize(
    ("metric", "x", "y", "metric_args", "distance"),
    [
        # float64 arithmetic loses all digits of these, or leaves its range on the way.
        ("euclidean", [1e200, 3.0], [1e200, -1.0], {}, 4.0),
        ("euclidean", [3 * 2.0**600, 0.0], [0.0, 2.0**602], {}, 5 * 2.0**600),
        ("euclidean", [5e-324], [0.0], {}, 5e-324),
        ("cityblock", [1e308], [-1e308], {}, INF),
        ("inner_product", [1e200, 1.0, -1e200], [1.0, 1.0, 1.0], {}, 1.0),
        ("inner_product", [1e200], [-1e200], {}, -INF),
        ("minkowski", [1e200], [0.0], {"p": 3}, 1e200),
        ("minkowski", [4.0, 9.0], [0.0, 0.0], {"p": 0.5}, 25.0),
        ("minkowski", [3.0, -4.0], [0.0, 0.0], {"p": INF}, 4.0),
        ("cosine", [1.0, 0.0], [1.0, 1e-20], {}, 5e-41),
        ("cosine", [1.0, 0.0], [-1.0, 0.0], {}, 2.0),
        ("correlation", [1e15, 1e15 + 1], [0.0, 1.0], {}, 0.0),
        ("hellinger", [1.0 - ULP, ULP], [1.0, 0.0], {}, np.sqrt(ULP / 2) * (1 + ULP / 8)),
        ("jensenshannon", [1e200, 1e200], [2e-200, 2e-200], {}, 0.0),
        ("haversine", [1.0, 2.0], [1.0 + ULP, 2.0], {}, ULP),
        # Arguments.
        ("euclidean", [1.0, 1.0], [0.0, 3.0], {"w": [5.0, 1.0]}, 3.0),
        ("chebyshev", [1.0, 7.0], [0.0, 0.0], {"w": [0.1, 0.0]}, 1.0),
        ("seuclidean", [3.0, 0.0], [0.0, 4.0], {"V": [9.0, 16.0]}, np.sqrt(2.0)),
        ("seuclidean", [1.0], [3.0], {}, np.sqrt(2.0)),
        ("mahalanobis", [1.0, 0.0], [0.0, 1.0], {"VI": [[2.0, 1.0], [1.0, 9.0]]}, 3.0),
        ("mahalanobis", [1.0], [0.0], {"VI": [[-1.0]]}, NAN),
        ("jensenshannon", [1.0, 0.0], [0.0, 1.0], {"base": 2}, 1.0),
        # Nearest images.
        ("euclidean", [0.5], [-ULP], {"box": 0.5}, ULP),
        ("cityblock", [0.25, 9.0], [0.75, 2.0], {"box": [1, 0]}, 7.5),
        ("sqeuclidean", [1e30], [0.0], {"box": 3.0}, 1.0),
        ("chebyshev", [-0.75, 100.5], [0.75, 0.25], {"box": [2, INF]}, 100.25),
        ("minkowski", [1.5, 0.0], [0.0, 2.0], {"box": [2.0, 1.5], "p": 1}, 1.0),
        # What is not defined, or infinite.
        ("cosine", [0.0, 0.0], [1.0, 0.0], {}, NAN),
        ("canberra", [0.0, 1.0], [0.0, 3.0], {}, 0.5),
        ("braycurtis", [1.0], [-1.0], {}, INF),
        ("braycurtis", [0.0], [0.0], {}, NAN),
        ("jensenshannon", [0.0], [1.0], {}, INF),
        ("jensenshannon", [1.0, 1.0], [1.0, -0.5], {}, INF),
        ("kl_divergence", [0.0, 1.0], [0.5, 1.0], {}, 0.0),
        ("kl_divergence", [0.5, 0.5], [0.0, 1.0], {}, INF),
        ("hellinger", [-1.0], [1.0], {}, NAN),
        ("dice", [2.0, 0.0, 3.0], [1.0, 1.0, 3.0], {}, -12.0 / 10.0),
        ("dice", [True, True], [True, False], {}, 1 / 3),
        ("dice", [2.0, 4.0], [5.0, 0.0], {"w": [1.0, 2.0]}, 0.6),
        ("jaccard", [0.0], [-0.0], {}, 0.0),
        ("kulczynski1", [7.0], [7.0], {}, INF),
        ("kulczynski1", [0.0], [0.0], {}, NAN),
        ("yule", [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], {}, 1.0),
        ("sokalsneath", [0.0], [0.0], {}, NAN),
        ("hamming", [1.0, 2.0], [1.0, 3.0], {"w": [0.0, 0.0]}, NAN),
    ],
)
def test_exact_distances(metric, x, y, metric_args, distance):
    np.testing.assert_equal(exact(x, y, metric, **metric_args), distance)


@pytest.mark.parametrize("metric", [record.name for record in METRICS])
def test_exact_distances_of_no_columns(metric):
    pytest.importorskip("mpmath")
    if metric == "haversine":
        pytest.skip("has two columns")
    nothing = {"VI": np.zeros((0, 0))} if metric == "mahalanobis" else {}
    found = exact_cdist(np.zeros((1, 0)), np.zeros((2, 0)), metric, **nothing)
    special = {"inner_product": 0.0, "hellinger": 1.0, "kl_divergence": 0.0, "kulczynski1": NAN}
    if metric in special:
        assert np.array_equal(found, np.full((1, 2), special[metric]), equal_nan=True)
    elif metric in rivals.SCIPYS and metric not in ("correlation", "mahalanobis", "seuclidean"):
        distance = pytest.importorskip("scipy.spatial.distance")
        with np.errstate(all="ignore"):
            scipys = distance.cdist(np.zeros((1, 0)), np.zeros((2, 0)), metric)
        assert np.array_equal(found, scipys, equal_nan=True)


def test_exact_distances_are_near_scipys(rng):
    pytest.importorskip("mpmath")
    distance = pytest.importorskip("scipy.spatial.distance")
    a, b, w = rng.random((5, 9)), rng.random((7, 9)), rng.random(9)
    for metric in rivals.SCIPYS:
        args = {"VI": np.diag(w)} if metric == "mahalanobis" else {}
        takes_w = metric not in ("mahalanobis", "seuclidean", "jensenshannon")
        for given in (args, {"w": w}) if takes_w else (args,):
            np.testing.assert_allclose(
                exact_cdist(a, b, metric, **given),
                distance.cdist(a, b, metric, **given),
                rtol=1e-13,
                atol=1e-15,
                err_msg=f"{metric} {given}",
            )
    few = distance.cdist(a[:, :3], b[:, :3], "mahalanobis")
    np.testing.assert_allclose(exact_cdist(a[:, :3], b[:, :3], "mahalanobis"), few)


@pytest.mark.parametrize(
    ("x", "metric", "metric_args", "message"),
    [
        ([INF], "euclidean", {}, "finite"),
        ([NAN], "euclidean", {}, "finite"),
        ([1.0], "manhattan", {}, "manhattan"),
        ([1.0], "seuclidean", {"V": [0.0]}, "variance"),
    ],
)
def test_exact_distances_refuse(x, metric, metric_args, message):
    with pytest.raises(ValueError, match=message):
        exact(x, [1.0], metric, **metric_args)


# ------------------------------------------------------------------ hard data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", [record.name for record in METRICS])
def test_adversarial_data(metric, dtype):
    sets = adversary.adversarial(metric, dtype, wide=True)
    again = adversary.adversarial(metric, dtype, wide=True)
    usual = adversary.adversarial(metric, dtype)
    assert len(usual) >= 3
    assert (len(sets) > len(usual)) == (metric in adversary.PRODUCTS)
    for name, (a, b) in sets.items():
        assert (a.dtype, b.dtype) == (dtype, dtype)
        wide = name not in usual
        assert (len(a), len(b)) == (adversary.WIDE_ROWS if wide else adversary.ROWS)
        columns = 2 if metric == "haversine" else adversary.COLUMNS
        assert a.shape[1] == b.shape[1] == (adversary.WIDE_COLUMNS if wide else columns)
        assert np.isfinite(a).all() and np.isfinite(b).all()
        assert np.array_equal(b[-1], a[0])
        assert all(map(np.array_equal, (a, b), again[name]))


def test_near_duplicates_are_one_ulp_apart():
    a, b = adversary.adversarial("euclidean", "float32")["one ulp apart"]
    same = a[np.arange(adversary.ROWS[1]) % adversary.ROWS[0]]
    steps = np.abs(b - same) / np.spacing(np.abs(same))
    assert set(np.unique(steps[:-1])) <= {0.0, 0.5, 1.0}
    assert (steps[:-1] > 0).any(axis=1).all()


def test_magnitudes_reach_the_ends():
    for dtype, reach in (("float32", 17), ("float64", 145)):
        exponents = np.log10(np.abs(adversary.adversarial("cosine", dtype)["wide"][0]))
        assert exponents.min() < -reach
        assert exponents.max() > reach


def test_every_metric_has_a_variant():
    found = adversary.variants()
    assert {v.metric for v in found} == {record.name for record in METRICS}
    assert len({(v.metric, v.arguments) for v in found}) == len(found)


def test_what_errors_are_relative_to():
    pytest.importorskip("mpmath")
    a, b = np.array([[1.0, -2.0]]), np.array([[3.0, 4.0]])
    tiny = float(np.finfo(np.float64).tiny)
    for metric, distance, scale in (
        ("euclidean", 7.0, 7.0),
        ("euclidean", 0.0, 0.0),
        ("euclidean", tiny / 8, tiny),
        ("cosine", 0.25, 1.0),
        ("kl_divergence", -3.0, 3.0),
        ("inner_product", -5.0, 11.0),
    ):
        assert error_scale(metric, a, b, np.array([[distance]])) == [[scale]]
        assert measure_of(metric) in report.MEASURES


def test_an_exact_distance_beyond_the_type_is_infinite():
    one = np.ones(2)
    result = np.array([INF, 1.0], np.float32)
    assert errors.max_error(result, np.array([1e39, 1.0]), one) == 0.0
    assert errors.max_error(result, np.array([1e38, 1.0]), one) == INF
