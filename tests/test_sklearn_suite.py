"""scikit-learn's own tests of its neighbours, answered by gpudist."""

import pytest
import routed

sklearn = pytest.importorskip("sklearn")
# What older ones test with has changed since.
pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 is missing")

# The module, which of its tests, the fewest calls that must have come to us, and from how many
# tests. In test_k_and_radius_neighbors_duplicates the third of three equal points has the second as
# its neighbour; here it is the first, as it is of all points that are equally near.
SUITES = [
    (
        "sklearn.neighbors.tests.test_neighbors",
        "not test_k_and_radius_neighbors_duplicates",
        {"kneighbors": 900, "radius_neighbors": 700},
        380,
    ),
    ("sklearn.metrics.tests.test_pairwise", "argmin", {"nearest": 30}, 4),
]


@pytest.mark.parametrize(
    ("module", "chosen", "calls", "tests"), SUITES, ids=["neighbors", "pairwise"]
)
def test_scikit_learns_tests_pass(module, chosen, calls, tests, tmp_path):
    printed = routed.run("route_sklearn", module, tmp_path, "-W", "ignore", "-k", chosen)
    routed.check_counts(printed, calls, tests)
