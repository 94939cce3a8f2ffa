"""Every allocation of the core fails once: a MemoryError, nothing lost, and the next call works."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import fail_each_allocation

import gpudist
from gpudist import _core

POINTS = np.random.default_rng(0).normal(size=(600, 7))
NARROW = POINTS.astype("f4")
GRAPH = np.abs(POINTS @ POINTS.T)

CALLS = {
    "cdist": lambda device: gpudist.cdist(NARROW, NARROW, device=device),
    "weighted cosine": lambda device: gpudist.cdist(
        POINTS, POINTS[:50], "cosine", w=np.arange(7.0), device=device
    ),
    "minkowski": lambda device: gpudist.cdist(NARROW, NARROW, "minkowski", p=3, device=device),
    "mahalanobis": lambda device: gpudist.cdist(POINTS, POINTS, "mahalanobis", device=device),
    "jaccard": lambda device: gpudist.cdist(POINTS > 0, POINTS > 1, "jaccard", device=device),
    "haversine": lambda device: gpudist.cdist(
        POINTS[:, :2] / 9, POINTS[:, :2] / 9, "haversine", device=device
    ),
    "pdist": lambda device: gpudist.pdist(NARROW, device=device),
    "pdist jensenshannon": lambda device: gpudist.pdist(
        np.abs(POINTS), "jensenshannon", device=device
    ),
    "apsp": lambda device: gpudist.apsp(GRAPH, return_predecessors=True, device=device)[1],
    "apsp int32": lambda device: gpudist.apsp(
        np.round(GRAPH * 2**20), dtype="int32", device=device
    ),
    "bottleneck": lambda device: gpudist.apsp(GRAPH, semiring="min_max", device=device),
    "closure": lambda device: gpudist.transitive_closure(GRAPH > 8, device=device),
    "minplus": lambda device: gpudist.minplus(GRAPH[:, :9], GRAPH[:9], GRAPH, device=device),
    "perron": lambda device: gpudist.perron(GRAPH * (1 - np.eye(600)), device=device).vector,
    "or_and": lambda device: gpudist.minplus(
        GRAPH > 1, GRAPH > 2, semiring="or_and", device=device
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_allocation_may_fail(name, device):
    call = CALLS[name]
    want = call(device)
    before = _core.allocations()
    got, said = fail_each_allocation(lambda: call(device), most=100)
    assert all("bytes" in message for message in said)
    assert said or device == "cpu"
    assert _core.allocations() == before
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(call(device), want)
