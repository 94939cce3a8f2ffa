"""SciPy's distances and Floyd-Warshall by gpudist, for scripts that nobody wants to change."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpudist import distance, paths
from gpudist._core import DeviceError

# Estimates of SciPy's time take so many rows of distances, so many nodes of a graph.
_TRIAL_ROWS = 32
_TRIAL_NODES = 128


@dataclass(slots=True)
class Routed:
    """What went where while SciPy was patched.

    Attributes
    ----------
    calls : dict of str to int
        By function, how many calls gpudist answered.
    left : dict of str to int
        How many were left to SciPy, by function and reason.
    seconds : float
        What gpudist took for its calls.
    scipy_seconds : float
        What SciPy would have taken for them, estimated from a few rows of each; 0 unless
        `estimate` is set.
    estimate : bool
        Whether to estimate that.
    """

    calls: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    scipy_seconds: float = 0.0
    estimate: bool = False

    def __str__(self) -> str:
        """Return a short report."""
        from gpudist.bench.report import duration

        lines = [f"gpudist answered {count} x {name}" for name, count in self.calls.items()]
        lines += [f"left to SciPy {count} x {what}" for what, count in self.left.items()]
        if not self.calls:
            lines.append("gpudist answered nothing")
        elif self.estimate:
            saved = self.scipy_seconds - self.seconds
            lines.append(
                f"in {duration(self.seconds)}, where SciPy takes about "
                f"{duration(self.scipy_seconds)}: {duration(abs(saved))} "
                f"{'saved' if saved >= 0 else 'lost'}"
            )
        else:
            lines.append(f"in {duration(self.seconds)}")
        return "\n".join(lines)


class _Patch:
    """The functions that are replaced while at least one context is open."""

    def __init__(self) -> None:
        self.open: list[Routed] = []
        self.originals: dict[str, Callable[..., Any]] = {}
        self.device: str | None = None

    @contextlib.contextmanager
    def applied(self, device: str | None, estimate: bool) -> Iterator[Routed]:
        import scipy.sparse.csgraph as csgraph
        import scipy.spatial.distance as scipy_distance

        places = [(scipy_distance, name) for name in ("cdist", "pdist")]
        places += [(csgraph, name) for name in ("floyd_warshall", "shortest_path")]
        routed = Routed(estimate=estimate)
        if not self.open:
            for module, name in places:
                self.originals[name] = getattr(module, name)
                setattr(module, name, self._stand_in(name))
        before, self.device = self.device, device
        self.open.append(routed)
        try:
            yield routed
        finally:
            self.open.remove(routed)
            self.device = before
            if not self.open:
                for module, name in places:
                    setattr(module, name, self.originals[name])

    def _stand_in(self, name: str) -> Callable[..., Any]:
        """Make what takes the place of SciPy's function, which it is again once all is over."""
        original, ours, scale = self.originals[name], _OURS[name], _SCALES[name]

        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not self.open:
                return original(*args, **kwargs)
            routed = self.open[-1]
            begun = time.perf_counter()
            try:
                result = ours(self.device, *args, **kwargs)
            except (_Left, TypeError, ValueError, DeviceError) as why:
                # SciPy knows what to do, or how to complain.
                reason = str(why).splitlines()[0] if str(why) else type(why).__name__
                what = f"{name}: {reason}"
                routed.left[what] = routed.left.get(what, 0) + 1
                return original(*args, **kwargs)
            routed.seconds += time.perf_counter() - begun
            routed.calls[name] = routed.calls.get(name, 0) + 1
            if routed.estimate:
                with contextlib.suppress(Exception):  # a few rows may be too few for SciPy
                    routed.scipy_seconds += scale(original, *args, **kwargs)
            return result

        return stand_in


class _Left(Exception):
    """A call that SciPy is to answer, and why."""


def _check_metric(metric: Any) -> None:
    if callable(metric):
        raise _Left("a metric in Python")
    if isinstance(metric, str) and metric.lower().startswith("test_"):
        raise _Left("a metric of SciPy's own tests")


def _cdist(
    device: str | None,
    XA: Any,
    XB: Any,
    metric: Any = "euclidean",
    *,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    _check_metric(metric)
    return distance.cdist(XA, XB, metric, out=out, dtype=np.float64, device=device, **kwargs)


def _pdist(
    device: str | None, X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any
) -> Any:
    _check_metric(metric)
    return distance.pdist(X, metric, out=out, dtype=np.float64, device=device, **kwargs)


def _floyd_warshall(
    device: str | None,
    csgraph: Any,
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
) -> Any:
    return paths.apsp(
        csgraph,
        directed=directed,
        return_predecessors=return_predecessors,
        unweighted=unweighted,
        overwrite=overwrite,
        dtype=np.float64,
        device=device,
    )


def _shortest_path(
    device: str | None,
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
    indices: Any = None,
) -> Any:
    if method != "FW":
        raise _Left(f"method {method!r}")
    if indices is not None:
        raise _Left("single nodes")
    return _floyd_warshall(device, csgraph, directed, return_predecessors, unweighted, overwrite)


def _timed(call: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    begun = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - begun


def _scale_cdist(original: Callable[..., Any], XA: Any, *args: Any, **kwargs: Any) -> float:
    kwargs.pop("out", None)
    few = np.asarray(XA)[:_TRIAL_ROWS]
    return _timed(original, few, *args, **kwargs) * len(XA) / max(1, len(few))


def _scale_pdist(original: Callable[..., Any], X: Any, *args: Any, **kwargs: Any) -> float:
    kwargs.pop("out", None)
    few = np.asarray(X)[: 8 * _TRIAL_ROWS]
    return _timed(original, few, *args, **kwargs) * (len(X) / max(1, len(few))) ** 2


def _scale_paths(original: Callable[..., Any], csgraph: Any, *args: Any, **kwargs: Any) -> float:
    # Floyd and Warshall's loops do not care what the weights are.
    n, few = csgraph.shape[0], min(csgraph.shape[0], _TRIAL_NODES)
    kwargs.pop("overwrite", None)
    seconds = _timed(original, np.ones((few, few)), *args, **kwargs)
    return seconds * float(n / max(1, few)) ** 3


_OURS: dict[str, Callable[..., Any]] = {
    "cdist": _cdist,
    "pdist": _pdist,
    "floyd_warshall": _floyd_warshall,
    "shortest_path": _shortest_path,
}
_SCALES: dict[str, Callable[..., float]] = {
    "cdist": _scale_cdist,
    "pdist": _scale_pdist,
    "floyd_warshall": _scale_paths,
    "shortest_path": _scale_paths,
}
_PATCH = _Patch()


def patched_scipy(
    *, device: str | None = None, estimate: bool = False
) -> contextlib.AbstractContextManager[Routed]:
    """Let gpudist answer SciPy's distances and Floyd-Warshall for a while.

    Inside the context `scipy.spatial.distance.cdist` and `pdist`, and
    `scipy.sparse.csgraph.floyd_warshall` and `shortest_path` with ``method="FW"``, run by gpudist
    in float64, as SciPy does; on exit they are SciPy's again. What gpudist does not take (a metric
    that is a Python function, say) and what it refuses goes to SciPy, whose exceptions are then the
    ones that a script sees.

    Parameters
    ----------
    device : str, optional
        Where to compute: "cpu", "cuda" or "cuda:N"; by default the GPU where it is worth the way.
    estimate : bool, default False
        Whether to estimate what SciPy would have taken, by running it on a few rows of each call.

    Returns
    -------
    context manager
        It gives a `Routed`, which counts calls and prints what was routed.

    Notes
    -----
    The functions are replaced in SciPy's modules, for all threads. A name that was imported from
    there before (``from scipy.spatial.distance import cdist``) stays SciPy's function; one imported
    inside goes back to being SciPy's on exit. ``python -m gpudist run script.py`` patches before
    the script's first line, so both ways of importing work there.

    Examples
    --------
    >>> import gpudist
    >>> from scipy.spatial import distance
    >>> with gpudist.patched_scipy() as routed:
    ...     d = distance.cdist([[0.0, 0.0]], [[3.0, 4.0]])
    >>> d, routed.calls
    (array([[5.]]), {'cdist': 1})
    """
    return _PATCH.applied(device, estimate)


def run_script(
    path: str, arguments: list[str], *, device: str | None = None, verbose: bool = False
) -> None:
    """Run a Python script with SciPy patched, as ``python path arguments...`` would.

    Parameters
    ----------
    path : str
        The script.
    arguments : list of str
        Its command line.
    device : str, optional
        Where to compute.
    verbose : bool, default False
        Whether to print what was routed and the time saved when it ends, to standard error.
    """
    import os
    import runpy

    before, search = sys.argv, sys.path[:]
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with patched_scipy(device=device, estimate=verbose) as routed:
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            sys.argv, sys.path = before, search
            if verbose:
                print(f"\n{routed}", file=sys.stderr)
