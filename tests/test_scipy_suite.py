"""SciPy's own tests of cdist and of shortest paths, answered by gpudist."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# The module, the function, and the fewest calls of it that must have come to us.
SUITES = [
    ("scipy.spatial.tests.test_distance", "cdist", 100),
    ("scipy.sparse.csgraph.tests.test_shortest_path", "floyd_warshall", 40),
]


@pytest.mark.parametrize(("module", "function", "calls"), SUITES, ids=[s[1] for s in SUITES])
def test_scipys_tests_pass(module, function, calls, device, tmp_path):
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
    routed = re.search(rf"routed to gpudist: .*'{function}': (\d+)", done.stdout)
    assert routed, done.stdout[-2000:]
    assert int(routed[1]) >= calls
