"""Searches for neighbours are measured like all else, beside those who search by trees."""

import numpy as np
import pytest

import gpudist
from bench import cases, runner, suites
from gpudist.measure import rivals


@pytest.mark.parametrize("m", [0, 40])
def test_a_search_is_measured_and_held_against_float64(m, monkeypatch):
    tree = [rival for rival in rivals.RIVALS if rival.name == "scipy cKDTree"]
    monkeypatch.setattr(rivals, "RIVALS", tuple(tree))
    case = cases.KnnCase(m, 900, 3, 4, "float32")
    measured = runner.Runner("cpu", repeats=2, source="abc", with_ceilings=False)
    record = measured.run(case)
    assert "failed" not in record, record
    assert record["shape"] == [m or 900, 900, 3]
    assert record["max_relative_error"] < 1e-6
    (rival,) = record["rivals"]
    assert rival["name"] == "scipy cKDTree"
    assert record["kernel"] == gpudist.explain("knn", *case.operands(), k=4, ceilings={}).kernel


def test_clusters_are_narrow_and_words_tell_of_them():
    (x,) = cases.KnnCase(0, 500, 2, 3, "float64", kind="clusters").operands()
    near = gpudist.knn(x, k=1).distances
    assert np.median(near) < 0.01
    words = cases.KnnCase(0, 500, 2, 3, "float64", kind="clusters").arguments
    assert words == "k = 3, clusters, among themselves"


def test_the_suite_runs_anywhere_and_knows_low_and_high_dimensions():
    suite = suites.SUITES["neighbors"]
    assert suite.device is None
    assert {2, 3, 8, 128} <= {case.d for case in suite.cases["cpu"]}
    assert {1, 10, 100} <= {case.k for case in suite.cases["cuda"] if case.n == 1_000_000}
    assert set(suite.cases["cpu"]) <= set(suites.SUITES["cpu"].cases["cuda"])
