"""Running another library's own tests with a plugin that sends their calls to gpudist."""

import os
import re
import subprocess
import sys
from pathlib import Path


def run(plugin, module, folder, *arguments, **environment):
    """Run a module's tests, all of which must pass, and give what was printed."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider",
         "-c", os.devnull, "--rootdir", str(folder), *arguments, "--pyargs", module],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)} | environment,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def check_counts(printed, calls, tests):
    """Hold how many calls came to gpudist, and from how many tests, against the fewest."""
    line = re.search(r"routed to gpudist: .*", printed)
    assert line, printed[-2000:]
    routed = {name: int(count) for name, count in re.findall(r"'([a-z_]+)': (\d+)", line[0])}
    assert {name: routed.get(name, 0) >= least for name, least in calls.items()} == dict.fromkeys(
        calls, True
    ), line[0]
    assert int(re.search(r"from (\d+) tests", line[0])[1]) >= tests, line[0]
