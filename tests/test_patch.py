"""patched_scipy and ``python -m gpudist run``: an unchanged script gives SciPy's results."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph as csgraph
from scipy.spatial import distance

import gpudist
from gpudist.__main__ import main

ORIGINALS = (distance.cdist, distance.pdist, csgraph.floyd_warshall, csgraph.shortest_path)


def functions():
    return distance.cdist, distance.pdist, csgraph.floyd_warshall, csgraph.shortest_path


@pytest.fixture
def points(rng):
    return rng.random((30, 4)), rng.random((20, 4))


def graph(rng):
    return np.where(rng.random((25, 25)) < 0.2, rng.uniform(1, 9, (25, 25)), 0.0)


def test_distances_are_scipys(points):
    a, b = points
    for metric, arguments in (
        ("euclidean", {}),
        ("minkowski", {"p": 3, "w": np.arange(1.0, 5.0)}),
        ("mahalanobis", {}),
    ):
        expected = distance.cdist(a, b, metric, **arguments), distance.pdist(a, metric, **arguments)
        with gpudist.patched_scipy(device="cpu") as routed:
            found = (
                distance.cdist(a, b, metric, **arguments),
                distance.pdist(a, metric, **arguments),
            )
        assert routed.calls == {"cdist": 1, "pdist": 1} and not routed.left
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_float32_gives_float64_as_in_scipy(points):
    a = points[0].astype(np.float32)
    with gpudist.patched_scipy(device="cpu"):
        found = distance.cdist(a, a), distance.pdist(a)
        paths = csgraph.floyd_warshall(np.ones((3, 3), np.float32))
    assert {x.dtype for x in (*found, paths)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(found[0], distance.cdist(a, a), rtol=1e-12)


def test_out_is_filled(points):
    out = np.empty((30, 20))
    with gpudist.patched_scipy(device="cpu") as routed:
        assert distance.cdist(*points, out=out) is out
    assert routed.calls == {"cdist": 1}
    np.testing.assert_allclose(out, distance.cdist(*points))


@pytest.mark.parametrize("kind", ["dense", "sparse", "masked"])
def test_paths_are_scipys(rng, kind):
    g = graph(rng)
    made = {
        "dense": g,
        "sparse": scipy.sparse.csr_array(g),
        "masked": np.ma.masked_values(g, 0),
    }[kind]
    expected = csgraph.floyd_warshall(made)
    undirected = csgraph.shortest_path(made, "FW", directed=False, unweighted=True)
    with gpudist.patched_scipy(device="cpu") as routed:
        found, predecessors = csgraph.floyd_warshall(made, return_predecessors=True)
        hops = csgraph.shortest_path(made, method="FW", directed=False, unweighted=True)
    assert routed.calls == {"floyd_warshall": 1, "shortest_path": 1}
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(hops, undirected)
    assert predecessors.dtype == np.int32


def test_what_is_not_ours_goes_to_scipy(points, rng):
    g = graph(rng)
    with gpudist.patched_scipy(device="cpu") as routed:
        distance.cdist(*points, lambda u, v: 1.0)
        distance.pdist(points[0], "test_euclidean")
        csgraph.shortest_path(g)
        csgraph.shortest_path(g, method="D", indices=[0])
        with pytest.raises(ValueError, match="Unknown Distance Metric: nonsense"):  # SciPy's words
            distance.cdist(*points, "nonsense")
    assert not routed.calls
    assert {what.partition(":")[0] for what in routed.left} == {"cdist", "pdist", "shortest_path"}
    assert sum(routed.left.values()) == 5


def test_negative_cycles_are_scipys_errors():
    g = np.array([[0.0, 1.0], [-2.0, 0.0]])
    with gpudist.patched_scipy(device="cpu"), pytest.raises(csgraph.NegativeCycleError):
        csgraph.floyd_warshall(g)


def test_everything_is_restored(points):
    with pytest.raises(ZeroDivisionError), gpudist.patched_scipy(device="cpu"):
        assert not set(functions()) & set(ORIGINALS)
        with gpudist.patched_scipy(device="cpu") as inner:
            kept = distance.cdist
            kept(*points)
        assert inner.calls == {"cdist": 1}
        assert not set(functions()) & set(ORIGINALS)  # the outer one goes on
        raise ZeroDivisionError
    assert functions() == ORIGINALS
    np.testing.assert_array_equal(kept(*points), distance.cdist(*points))
    assert inner.calls == {"cdist": 1}  # what was imported inside is SciPy's again


def test_the_stand_ins_look_like_scipys():
    with gpudist.patched_scipy():
        assert distance.cdist.__doc__ == ORIGINALS[0].__doc__
        assert distance.cdist.__name__ == "cdist"


def test_the_time_saved_is_estimated(points, rng):
    with gpudist.patched_scipy(device="cpu", estimate=True) as routed:
        distance.cdist(*points)
        distance.pdist(points[0])
        csgraph.shortest_path(graph(rng), "FW")
    assert routed.seconds > 0 and routed.scipy_seconds > 0
    text = str(routed)
    assert "gpudist answered 1 x pdist" in text
    assert "where SciPy takes about" in text and ("saved" in text or "lost" in text)
    assert "gpudist answered nothing" in str(gpudist.Routed())


def test_an_estimate_that_fails_does_no_harm(rng):
    x = rng.random((500, 300))  # fewer rows than columns have no covariance to invert
    with gpudist.patched_scipy(device="cpu", estimate=True) as routed:
        distance.pdist(x, "mahalanobis")
    assert routed.calls == {"pdist": 1} and routed.scipy_seconds == 0


SCRIPT = """
    import sys
    from scipy.spatial.distance import cdist
    print(sys.argv[1:], __name__, cdist([[0.0, 0.0]], [[3.0, 4.0]]).item())
    if "fail" in sys.argv:
        sys.exit(3)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return str(path)


@pytest.mark.parametrize(
    ("before", "behind", "seen", "verbose"),
    [
        ([], [], [], False),
        ([], ["-x", "--verbose"], ["-x", "--verbose"], False),
        (["--verbose"], ["a"], ["a"], True),
        ([], ["--verbose", "a"], ["a"], True),
        (["--no-verbose"], ["--verbose"], ["--verbose"], False),
    ],
)
def test_run(script, capsys, before, behind, seen, verbose):
    argv = sys.argv
    assert main(["run", "--device", "cpu", *before, script, *behind]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{seen} __main__ 5.0\n"
    assert ("gpudist answered 1 x cdist" in captured.err) == verbose
    assert sys.argv is argv
    assert functions() == ORIGINALS


def test_run_gives_the_scripts_status(script, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", "--verbose", script, "fail"])
    assert stop.value.code == 3
    assert "gpudist answered 1 x cdist" in capsys.readouterr().err
    assert functions() == ORIGINALS


def test_run_without_a_script(capsys):
    assert main(["run", "no/such/script.py"]) == 2
    assert "no file no/such/script.py" in capsys.readouterr().err


def test_run_as_a_command(script):
    done = subprocess.run(
        [sys.executable, "-m", "gpudist", "run", script], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[] __main__ 5.0\n"), done.stderr
