"""A pytest plugin that sends SciPy's own tests to gpudist.

Loaded with ``-p route_scipy`` before SciPy's test modules import their functions by name. Calls
that gpudist answers go to gpudist and are counted, the rest go to SciPy. The counts are printed,
and GPUDIST_ROUTE_DEVICE says where to compute.
"""

import os
from collections import Counter

import numpy as np
import scipy.sparse.csgraph
import scipy.spatial.distance

import gpudist

DEVICE = os.environ.get("GPUDIST_ROUTE_DEVICE", "cpu")
routed, tests = Counter(), set()

scipy_cdist = scipy.spatial.distance.cdist
scipy_pdist = scipy.spatial.distance.pdist
scipy_shortest_path = scipy.sparse.csgraph.shortest_path


def count(function):
    """Note a call, and the test that made it."""
    routed[function] += 1
    tests.add(os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0])


def is_ours(metric):
    """Tell what is routed: all but test_<name>, by which SciPy names functions of its own, and
    what SciPy 1.15 and 1.16 warn of, since that is what their tests are of.
    """
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "")
    if name.removeprefix("test_") in ("kulczynski1", "sokalmichener"):
        return False
    return not (isinstance(metric, str) and name.lower().startswith("test_"))


def place(metric):
    """Give the device for a metric: a Python function runs on the CPU."""
    return DEVICE if isinstance(metric, str) else "cpu"


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    """Route every metric with every argument."""
    if not is_ours(metric):
        routed["left to SciPy"] += 1
        return scipy_cdist(XA, XB, metric, out=out, **kwargs)
    count("cdist")
    return gpudist.cdist(XA, XB, metric, out=out, dtype=np.float64, device=place(metric), **kwargs)


def pdist(X, metric="euclidean", *, out=None, **kwargs):
    """Route every metric with every argument."""
    if not is_ours(metric):
        routed["left to SciPy"] += 1
        return scipy_pdist(X, metric, out=out, **kwargs)
    count("pdist")
    return gpudist.pdist(X, metric, out=out, dtype=np.float64, device=place(metric), **kwargs)


def floyd_warshall(
    csgraph, directed=True, return_predecessors=False, unweighted=False, overwrite=False
):
    """Route every call."""
    count("floyd_warshall")
    return gpudist.apsp(
        csgraph,
        directed=directed,
        return_predecessors=return_predecessors,
        unweighted=unweighted,
        overwrite=overwrite,
        dtype=np.float64,
        device=DEVICE,
    )


def shortest_path(
    csgraph,
    method="auto",
    directed=True,
    return_predecessors=False,
    unweighted=False,
    overwrite=False,
    indices=None,
):
    """Route what SciPy may solve by Floyd and Warshall's method."""
    if method not in ("auto", "FW") or indices is not None:
        return scipy_shortest_path(
            csgraph, method, directed, return_predecessors, unweighted, overwrite, indices
        )
    return floyd_warshall(csgraph, directed, return_predecessors, unweighted, overwrite)


def pytest_configure(config):
    scipy.spatial.distance.cdist = cdist
    scipy.spatial.distance.pdist = pdist
    scipy.sparse.csgraph.floyd_warshall = floyd_warshall
    scipy.sparse.csgraph.shortest_path = shortest_path


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"routed to gpudist: {dict(routed)} from {len(tests)} tests")
