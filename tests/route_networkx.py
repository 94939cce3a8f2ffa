"""A pytest plugin that counts which of NetworkX's calls gpudist answers.

Loaded with ``-p route_networkx``; NetworkX itself sends the calls, as NETWORKX_TEST_BACKEND says.
"""

import functools
import os
from collections import Counter

from gpudist.nx import backend, info

answered = Counter()
tests = set()


def counted(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)  # what it refuses by an exception does not count
        answered[function.__name__] += 1
        tests.add(os.environ.get("PYTEST_CURRENT_TEST"))
        return result

    return call


def pytest_configure(config):
    for name in info.get_info()["functions"]:
        setattr(backend, name, counted(getattr(backend, name)))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"answered by gpudist: {dict(answered)} in {len(tests)} tests")
