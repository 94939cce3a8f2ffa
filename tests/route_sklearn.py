"""A pytest plugin that sends the searches of scikit-learn's own tests to gpudist.

Loaded with ``-p route_sklearn``. What estimators ask of dense points, by a metric that gpudist has,
goes to `gpudist.Neighbors` and is counted; all else, and what is no valid question, goes to
scikit-learn. The counts are printed.
"""

import numbers
import os
from collections import Counter

import numpy as np
import sklearn.metrics.pairwise
from sklearn.neighbors._base import KNeighborsMixin, RadiusNeighborsMixin

import gpudist

METRICS = {
    "euclidean": "euclidean", "l2": "euclidean", "sqeuclidean": "sqeuclidean",
    "manhattan": "cityblock", "cityblock": "cityblock", "l1": "cityblock",
    "chebyshev": "chebyshev", "minkowski": "minkowski", "canberra": "canberra",
    "braycurtis": "braycurtis", "hamming": "hamming",
}  # fmt: skip
routed, tests = Counter(), set()
sklearns_kneighbors = KNeighborsMixin.kneighbors
sklearns_radius_neighbors = RadiusNeighborsMixin.radius_neighbors
sklearns_nearest = sklearn.metrics.pairwise_distances_argmin_min


def count(function):
    """Note a call, and the test that made it."""
    routed[function] += 1
    tests.add(os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0])


def are_points(x):
    """Tell whether it is what both read alike: finite numbers, a row a point."""
    return (
        type(x) is np.ndarray
        and x.ndim == 2
        and 0 not in x.shape
        and x.dtype.kind in "fiu"
        and bool(np.isfinite(x).all())
    )


def of(estimator, x):
    """Give a set of ours that answers for a fitted estimator, or None."""
    points = getattr(estimator, "_fit_X", None)
    metric = METRICS.get(getattr(estimator, "effective_metric_", None))
    arguments = getattr(estimator, "effective_metric_params_", None) or {}
    ours = metric is not None and arguments.keys() <= {"p"} and are_points(points)
    if not ours or not (x is None or (are_points(x) and x.shape[1] == points.shape[1])):
        return None
    return gpudist.Neighbors(points.astype(np.float64), metric, **arguments)


def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
    """Route whatever has an answer."""
    found, k = of(self, X), self.n_neighbors if n_neighbors is None else n_neighbors
    most = 0 if found is None else found.n_samples_fit_ - (X is None)
    if not isinstance(k, numbers.Integral) or not 0 < k <= most:
        return sklearns_kneighbors(self, X, n_neighbors, return_distance)
    count("kneighbors")
    return found.kneighbors(X, int(k), return_distance)


def radius_neighbors(self, X=None, radius=None, return_distance=True, sort_results=False):
    """Route whatever has an answer."""
    found, r = of(self, X), self.radius if radius is None else radius
    if found is None or np.ndim(r) or (sort_results and not return_distance):
        return sklearns_radius_neighbors(self, X, radius, return_distance, sort_results)
    count("radius_neighbors")
    return found.radius_neighbors(X, float(r), return_distance, sort_results)


def pairwise_distances_argmin_min(X, Y, *, axis=1, metric="euclidean", metric_kwargs=None):
    """Route what asks for the nearest rows."""
    if metric not in METRICS or not (are_points(X) and are_points(Y)):
        return sklearns_nearest(X, Y, axis=axis, metric=metric, metric_kwargs=metric_kwargs)
    count("nearest")
    arguments = {k: v for k, v in (metric_kwargs or {}).items() if k != "squared"}
    name = "sqeuclidean" if (metric_kwargs or {}).get("squared") else METRICS[metric]
    pair = (X, Y) if axis == 1 else (Y, X)
    found = gpudist.nearest(*pair, name, dtype=np.float64, **arguments)
    return found.indices, found.distances


def pytest_configure(config):
    KNeighborsMixin.kneighbors = kneighbors
    RadiusNeighborsMixin.radius_neighbors = radius_neighbors
    for module in (sklearn.metrics, sklearn.metrics.pairwise):
        module.pairwise_distances_argmin_min = pairwise_distances_argmin_min


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"routed to gpudist: {dict(routed)} from {len(tests)} tests")
