"""A pytest plugin that sends SciPy's own tests to gpudist.

Loaded with ``-p route_scipy`` before SciPy's test modules import their functions by name. Calls
that gpudist answers go to gpudist and are counted, the rest go to SciPy. The count is printed, and
GPUDIST_ROUTE_DEVICE says where to compute.
"""

import os
from collections import Counter

import numpy as np
import scipy.sparse.csgraph
import scipy.spatial.distance

import gpudist
from gpudist import metrics

DEVICE = os.environ.get("GPUDIST_ROUTE_DEVICE", "cpu")
OURS = {name for metric in metrics.METRICS for name in (metric.name, *metric.aliases)}
OURS -= {"haversine"}  # not one of SciPy's
routed = Counter()

scipy_cdist = scipy.spatial.distance.cdist
scipy_shortest_path = scipy.sparse.csgraph.shortest_path


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    """Route the metrics that gpudist has, without weights."""
    ours = isinstance(metric, str) and metric.lower() in OURS and kwargs.get("w") is None
    if not ours:
        return scipy_cdist(XA, XB, metric, out=out, **kwargs)
    kwargs.pop("w", None)
    routed["cdist"] += 1
    return gpudist.cdist(XA, XB, metric, out=out, dtype=np.float64, device=DEVICE, **kwargs)


def floyd_warshall(
    csgraph, directed=True, return_predecessors=False, unweighted=False, overwrite=False
):
    """Route every call."""
    routed["floyd_warshall"] += 1
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
    scipy.sparse.csgraph.floyd_warshall = floyd_warshall
    scipy.sparse.csgraph.shortest_path = shortest_path


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"routed to gpudist: {dict(routed)}")
