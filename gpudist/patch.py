"""SciPy's distances and Floyd-Warshall by gpudist, for scripts that nobody wants to change."""

from __future__ import annotations

import contextlib
import functools
import os
import pkgutil
import runpy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from gpudist import checks, distance, foreign, metrics, paths, several_gpus
from gpudist._core import DeviceError

# Estimates of SciPy's time take so many rows of distances, so many nodes of a graph.
_TRIAL_ROWS = 32
_TRIAL_NODES = 128


@dataclass(slots=True, eq=False)  # each context counts for itself, whatever the numbers
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
        from gpudist.measure.wording import duration

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


class _Context(NamedTuple):
    """An open context: what counts its calls, where they compute, and the thread that opened it."""

    routed: Routed
    device: str | None
    thread: int


class _Patch:
    """The functions that are replaced while at least one context is open.

    `open` is replaced as a whole under the lock, so that a stand-in reads it without.
    """

    def __init__(self) -> None:
        # Python may end a forgotten context in the midst of this thread's work under the lock.
        self.lock = threading.RLock()
        self.open: tuple[_Context, ...] = ()
        self.originals: list[tuple[Any, str, Callable[..., Any]]] = []

    @contextlib.contextmanager
    def applied(self, device: str | None, estimate: bool) -> Iterator[Routed]:
        routed = Routed(estimate=estimate)
        context = _Context(routed, device, threading.get_ident())
        try:
            self._enter(context)
            yield routed
        finally:
            self._leave(context)

    def _enter(self, context: _Context) -> None:
        import scipy.sparse.csgraph as csgraph
        import scipy.spatial.distance as scipy_distance

        places = [(scipy_distance, name) for name in ("cdist", "pdist")]
        places += [(csgraph, name) for name in ("floyd_warshall", "shortest_path")]
        with self.lock:
            self.open += (context,)
            if not self.originals:
                self.originals = [(module, name, getattr(module, name)) for module, name in places]
                for module, name, original in self.originals:
                    setattr(module, name, self._stand_in(name, original))

    def _leave(self, context: _Context) -> None:
        with self.lock:
            self.open = tuple(other for other in self.open if other is not context)
            if not self.open:
                for module, name, original in self.originals:
                    setattr(module, name, original)
                self.originals = []

    def _stand_in(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Make what takes the place of SciPy's function, which it is again once all is over."""
        ours, scale = _OURS[name], _SCALES[name]

        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            context = _innermost(self.open)
            if context is None:
                return original(*args, **kwargs)
            routed = context.routed
            begun = time.perf_counter()
            try:
                if foreign.is_dask(*args, *kwargs.values()):
                    raise _Left("a Dask array, which SciPy computes as a whole")
                result = ours(context.device, *args, **kwargs)
            except (_Left, TypeError, ValueError, DeviceError) as why:
                reason = str(why).splitlines()[0] if str(why) else type(why).__name__
            else:
                seconds = time.perf_counter() - begun
                with self.lock:
                    routed.seconds += seconds
                    routed.calls[name] = routed.calls.get(name, 0) + 1
                if routed.estimate:
                    with contextlib.suppress(Exception):  # a few rows may be too few for SciPy
                        seconds = scale(original, *args, **kwargs)
                        with self.lock:
                            routed.scipy_seconds += seconds
                return result
            with self.lock:
                what = f"{name}: {reason}"
                routed.left[what] = routed.left.get(what, 0) + 1
            # SciPy knows what to do, or how to complain: of its own error ours is no part.
            return original(*args, **kwargs)

        return stand_in


def _innermost(contexts: tuple[_Context, ...]) -> _Context | None:
    """Return the last context that this thread opened; in a thread without one, the last of all."""
    mine = threading.get_ident()
    own = (context for context in reversed(contexts) if context.thread == mine)
    return next(own, contexts[-1] if contexts else None)


# Other libraries' names of SciPy's metrics, and metrics that SciPy never had, which `gpudist.cdist`
# takes as well.
_NOT_SCIPYS_NAMES = (metrics.NOT_SCIPYS - metrics.DROPPED_BY_SCIPY) | {
    "manhattan", "l1", "taxicab", "l2", "infinity", "linf",
}  # fmt: skip

# What SciPy's distances take beside points, a metric and `out`; ours take more.
_SCIPYS_ARGUMENTS = frozenset({"p", "w", "V", "VI", "base"})


class _Left(Exception):
    """A call that SciPy is to answer, and why."""


def _check_metric(metric: Any, given: dict[str, Any]) -> None:
    if callable(metric):
        raise _Left("a metric in Python")
    if isinstance(metric, str) and metric.lower().startswith("test_"):
        raise _Left("a metric of SciPy's own tests")
    if isinstance(metric, str) and metric.lower() in _NOT_SCIPYS_NAMES:
        raise _Left(f"metric {metric!r}, a name that SciPy does not know")
    strange = next((name for name in given if name not in _SCIPYS_ARGUMENTS), None)
    if strange is not None:
        raise _Left(f"{strange}=, which SciPy does not know")


def _cdist(
    device: str | None,
    XA: Any,
    XB: Any,
    metric: Any = "euclidean",
    *,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    _check_metric(metric, kwargs)
    return distance.cdist(XA, XB, metric, out=out, dtype=np.float64, device=device, **kwargs)


def _pdist(
    device: str | None, X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any
) -> Any:
    _check_metric(metric, kwargs)
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
    *, device: object = None, estimate: bool = False
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
        Where to compute: "cpu", "cuda" or "cuda:N", or a device of PyTorch or CuPy; by default the
        GPU where it is worth the way.
    estimate : bool, default False
        Whether to estimate what SciPy would have taken, by running it on a few rows of each call.

    Returns
    -------
    context manager
        It gives a `Routed`, which counts calls and prints what was routed.

    Raises
    ------
    TypeError, ValueError
        `device` is none of these.
    gpudist.DeviceError
        `device` asks for CUDA, and it cannot be used; the message says why.

    Notes
    -----
    The functions are replaced in SciPy's modules, for all threads, until the last of the contexts
    that may be open at a time is left, in whatever order. A call belongs to the innermost context
    that its own thread opened; in a thread that opened none, to the one opened last. A name that
    was imported from there before (``from scipy.spatial.distance import cdist``) stays SciPy's
    function; one imported inside goes back to being SciPy's on exit. ``python -m gpudist run
    script.py``, or ``run -m module``, patches before the script's first line, so both ways of
    importing work there.

    Examples
    --------
    >>> import gpudist
    >>> from scipy.spatial import distance
    >>> with gpudist.patched_scipy() as routed:
    ...     d = distance.cdist([[0.0, 0.0]], [[3.0, 4.0]])
    >>> d, routed.calls
    (array([[5.]]), {'cdist': 1})
    """
    device = checks.device("device", device)
    several_gpus.check(device)  # or SciPy would answer all calls, and nobody would know
    return _PATCH.applied(device, checks.truth("estimate", estimate))


def run_script(
    path: str,
    arguments: list[str],
    *,
    module: bool = False,
    device: object = None,
    verbose: bool = False,
) -> int:
    """Run a Python script or module with SciPy patched, as ``python path arguments...`` would.

    Parameters
    ----------
    path : str
        The script, or the name of the module.
    arguments : list of str
        Its command line.
    module : bool, default False
        Whether to run a module, as ``python -m`` does.
    device : str, optional
        Where to compute.
    verbose : bool, default False
        Whether to print what was routed and the time saved when it ends, to standard error.

    Returns
    -------
    int
        The exit status: 0, or 1 where an exception ended it, whose traceback was printed; 130 where
        that was Ctrl-C.

    Raises
    ------
    SystemExit
        The script raised it.
    gpudist.DeviceError
        `device` asks for CUDA, and it cannot be used.
    """
    before, search = sys.argv, sys.path[:]
    with patched_scipy(device=device, estimate=verbose) as routed:
        sys.argv = [path, *arguments]
        if not sys.flags.safe_path:
            sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(path))
        try:
            if module:
                runpy.run_module(path, run_name="__main__", alter_sys=True)
            elif pkgutil.get_importer(path) is not None:  # an archive
                runpy.run_path(path, run_name="__main__")
            else:
                _run_file(path)
        except SystemExit:
            raise
        except BaseException as error:
            return _report(error)
        finally:
            sys.argv, sys.path = before, search
            if verbose:
                print(f"\n{routed}", file=sys.stderr)
    return 0


def _run_file(path: str) -> None:
    """Run a file as the main module, which `runpy.run_path` does under other names than Python."""
    file = os.path.abspath(path)
    kind = SourcelessFileLoader if file.endswith(".pyc") else SourceFileLoader
    loader: SourcelessFileLoader | SourceFileLoader = kind("__main__", file)
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    main.__file__, main.__loader__ = file, loader
    sys.modules["__main__"] = main
    try:
        code = (
            loader.source_to_code(
                loader.get_data(file), file
            )  # get_code would keep what it compiled
            if isinstance(loader, SourceFileLoader)
            else loader.get_code("__main__")
        )
        exec(code, main.__dict__)  # type: ignore[arg-type]  # a compiled file has code
    finally:
        sys.modules["__main__"] = before


# Frames of these files are ours, and no business of whoever reads a script's traceback.
_NOT_THEIRS = (
    __file__,
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)


def _report(error: BaseException) -> int:
    """Print what ended a script as Python itself would, and return the exit status."""
    tidy: list[BaseException | None] = [error]
    for each in tidy:  # which grows
        if each is None:
            continue
        each.__traceback__ = _theirs(each.__traceback__)
        linked = (each.__cause__, each.__context__, *getattr(each, "exceptions", ()))
        tidy += [one for one in linked if not any(one is known for known in tidy)]
    if isinstance(error, ImportError) and error.__traceback__ is None:  # runpy found no module
        print(f"python -m gpudist run: {error}", file=sys.stderr)
        return 1
    sys.excepthook(type(error), error, error.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames that ran the script, and those of the stand-ins."""
    frames = []
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename not in _NOT_THEIRS:
            frames.append(traceback)
        traceback = traceback.tb_next
    for one in reversed(frames):
        traceback = TracebackType(traceback, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return traceback
