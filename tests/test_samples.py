"""Errors, and the samples in float64 that results are held against."""

import math

import numpy as np
import pytest

import gpudist
from gpudist.measure import (
    errors,
    samples,
)

# ------------------------------------------------------------------ accuracy


@pytest.mark.parametrize(
    ("result", "exact", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([-1.0], [1.0], 2.0),
        ([0.0, math.inf, math.nan], [0.0, math.inf, math.nan], 0.0),
        ([1e-30], [0.0], math.inf),
        ([math.nan], [1.0], math.inf),
        ([1.0], [math.nan], math.inf),
        ([math.inf], [1.0], math.inf),
        ([1.0], [math.inf], math.inf),
        ([], [], 0.0),
    ],
)
def test_max_relative_error(result, exact, error):
    assert errors.max_relative_error(np.array(result), np.array(exact)) == error


def test_max_relative_error_wants_equal_shapes():
    with pytest.raises(ValueError, match="shape"):
        errors.max_relative_error(np.zeros(3), np.zeros((1, 3)))


# ------------------------------------------------------------------ samples


def test_sample_rows():
    assert samples.sample_rows(100, 3).tolist() == [0, 49, 99]
    assert samples.sample_rows(2, 64).tolist() == [0, 1]
    assert samples.sample_rows(0, 64).tolist() == []


def picked(sample, result):
    """What a sample picks out of a result, and its own numbers."""
    parts = sample.pick(result)
    return np.concatenate([np.asarray(part) for part in parts]), sample.exact


def test_samples_of_distances(rng):
    a, b, w = rng.random((200, 3)), rng.random((7, 3)), rng.random(3)
    whole = np.abs(a[:, None] - b).sum(axis=-1)
    sample = samples.sample("cdist", (a, b), {"metric": "cityblock"})
    assert sample.rows == 64
    np.testing.assert_array_equal(*picked(sample, whole))
    sample = samples.sample("cdist", (a, b), {"metric": "cityblock", "w": w})
    np.testing.assert_allclose(*picked(sample, (np.abs(a[:, None] - b) * w).sum(axis=-1)))


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "mahalanobis"])
def test_samples_of_defaults_go_by_all_points(rng, metric):
    from scipy.spatial.distance import cdist, pdist

    a, b = rng.random((90, 3)), rng.random((70, 3))
    pairs = samples.sample("cdist", (a, b), {"metric": metric})
    np.testing.assert_allclose(*picked(pairs, cdist(a, b, metric)), rtol=1e-12)
    condensed = samples.sample("pdist", (a,), {"metric": metric})
    np.testing.assert_allclose(*picked(condensed, pdist(a, metric)), rtol=1e-12)


def test_samples_of_paths(rng, monkeypatch):
    from scipy.sparse.csgraph import johnson

    weights = rng.uniform(1, 9, (60, 60)) * (rng.random((60, 60)) < 0.1)
    weights[:, 7] = 0  # nothing leads to node 7
    for negative, limit in ((False, 0), (True, 0), (True, 512)):
        if negative:  # edges, but no cycle of them
            weights[20][weights[20] > 0] -= 1.5
        exact = johnson(weights)
        monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
        np.testing.assert_allclose(*picked(samples.sample("apsp", (weights,), {}), exact))
        both = samples.sample("apsp", (weights,), {"return_predecessors": True})
        np.testing.assert_allclose(*picked(both, (exact, None)))
        hops = samples.sample("apsp", (weights,), {"unweighted": True, "dtype": "int32"})
        ours = gpudist.apsp(weights, unweighted=True, dtype="int32", device="cpu")
        np.testing.assert_array_equal(*picked(hops, ours))


@pytest.mark.parametrize("limit", [0, 512])
@pytest.mark.parametrize(
    "arguments",
    [
        {"unreachable": -1},
        {"dtype": "int32"},
        {"dtype": "int32", "no_edge": 0},
        {"dtype": "uint8"},
        {"dtype": "int16", "unreachable": -1},
        {"max_hops": 2},
        {"max_hops": 2, "dtype": "uint8"},
        {"indices": [3, 7, 1]},
        {"indices": 7, "dtype": "int32"},
    ],
)
def test_samples_of_paths_know_what_stands_for_none(rng, monkeypatch, arguments, limit):
    monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
    graph = (rng.random((60, 60)) < 0.03).astype(float)
    given = {"unweighted": True, **arguments}
    sample = samples.sample("apsp", (graph,), given)
    found, exact = picked(sample, gpudist.apsp(graph, device="cpu", **given))
    np.testing.assert_array_equal(found, exact)
    if arguments.keys() <= {"dtype", "no_edge"}:  # others have inf
        theirs = gpudist.apsp(graph, unweighted=True, device="cpu")
        assert np.isinf(theirs).any()
        np.testing.assert_array_equal(picked(sample, theirs)[0], exact)


@pytest.mark.parametrize("arguments", [{}, {"directed": False}, {"reflexive": True}])
def test_samples_of_what_can_be_reached(rng, monkeypatch, arguments):
    graph = rng.random((80, 80)) < 0.01
    reached = gpudist.transitive_closure(graph, device="cpu", **arguments)
    assert 0 < reached.mean() < 1
    for limit in (0, 512):
        monkeypatch.setattr(samples, "_WHOLE_GRAPH", limit)
        for given in (graph, np.where(graph, 2.0, 0.0)):
            sample = samples.sample("transitive_closure", (given,), arguments)
            np.testing.assert_array_equal(*picked(sample, reached))


def test_samples_of_products(rng):
    a, b = rng.integers(9, size=(100, 5)), rng.integers(9, size=(5, 6))
    sample = samples.sample("minplus", (a, b), {"semiring": "max_plus", "dtype": "int32"})
    np.testing.assert_array_equal(*picked(sample, (a[:, :, None] + b).max(axis=1)))


def test_samples_of_eigenvalues(rng):
    a = rng.random((20, 20)).astype(np.float32)
    sample = samples.sample("perron", (a,), {"tol": 1e-3})
    largest = np.linalg.eigvals(a.astype(np.float64)).real.max()
    np.testing.assert_allclose(sample.exact, [largest], rtol=1e-12)
    assert picked(sample, gpudist.perron(a, device="cpu"))[0] == pytest.approx(largest, 1e-6)


def test_samples_of_anything_else_are_the_whole_result(monkeypatch):
    monkeypatch.setattr(gpudist, "power", lambda x, kernel: np.full((2, 2), x), raising=False)
    sample = samples.sample("power", (2.0,), {})
    np.testing.assert_array_equal(*picked(sample, np.full((2, 2), 2.0)))
