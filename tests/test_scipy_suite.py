"""SciPy's own tests of cdist, pdist and shortest paths, answered by gpudist."""

import importlib.util

import pytest
import routed

# The module, the fewest calls that must have come to us, and from how many tests.
# SciPy 1.17 makes 828 calls of cdist and 1135 of pdist in 342 tests; 449 more name
# functions of its own (test_<name>). No failure is expected. SciPy 1.15 makes 59 calls of
# floyd_warshall in 15 tests.
SUITES = [
    ("scipy.spatial.tests.test_distance", {"cdist": 800, "pdist": 1100}, 330),
    ("scipy.sparse.csgraph.tests.test_shortest_path", {"floyd_warshall": 40}, 15),
]


@pytest.mark.parametrize(("module", "calls", "tests"), SUITES, ids=["distance", "shortest_path"])
def test_scipys_tests_pass(module, calls, tests, device, tmp_path):
    if importlib.util.find_spec(module) is None:
        pytest.skip("this SciPy comes without its tests")
    printed = routed.run("route_scipy", module, tmp_path, GPUDIST_ROUTE_DEVICE=device)
    assert "xfailed" not in printed and "rerun" not in printed
    routed.check_counts(printed, calls, tests)
