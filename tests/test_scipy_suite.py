"""SciPy's own tests of cdist, pdist and shortest paths, answered by gpudist."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "route_scipy", "-p", "no:cacheprovider",
         "-c", os.devnull, "--rootdir", str(tmp_path), "--pyargs", module],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "GPUDIST_ROUTE_DEVICE": device,
        },
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "xfailed" not in done.stdout and "rerun" not in done.stdout
    line = re.search(r"routed to gpudist: .*", done.stdout)
    assert line, done.stdout[-2000:]
    routed = {name: int(count) for name, count in re.findall(r"'([a-z_]+)': (\d+)", line[0])}
    assert {name: routed.get(name, 0) >= least for name, least in calls.items()} == dict.fromkeys(
        calls, True
    ), line[0]
    assert int(re.search(r"from (\d+) tests", line[0])[1]) >= tests, line[0]
