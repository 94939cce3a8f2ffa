"""What all tests share: the GPU marker's meaning, and data that is hard to get right."""

import gc
import os
import signal
import sys
import warnings
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import scipy.spatial.distance

import gpudist
from gpudist import _core
from gpudist.measure import ceilings
from gpudist.metrics import METRICS

# The package under test is the installed one; bench is found in the checkout, after it.
sys.path.append(str(Path(__file__).resolve().parents[1]))

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("ci")

# Shells let what they start in the background ignore Ctrl-C; then no test of it would end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Let tests that run side by side share the cores: two threads each, so that there are others
    to wait for, and no thread that waits keeps a core busy. Workers inherit the environment.
    """
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "2")
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


# From here on Hypothesis is known to draw the same again where tests are frozen. 6.100 asks the
# collector who refers to its generators, and lets go of those that it then does not see.
MAY_FREEZE = hypothesis.__version_info__ >= (6, 170)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let the collector of garbage leave all tests alone, which stay until the end: it would look
    through tens of thousands while they are made, and whenever one of them asks for a collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        if MAY_FREEZE:
            gc.freeze()
        gc.enable()


def pytest_runtest_setup(item):
    """A test marked gpu is skipped with the reason; GPUDIST_REQUIRE_GPU=1 makes that a failure."""
    if item.get_closest_marker("gpu") is None:
        return
    why = gpudist.cuda.why_not()
    if why is not None:
        if os.environ.get("GPUDIST_REQUIRE_GPU") == "1":
            pytest.fail(f"GPUDIST_REQUIRE_GPU=1, but {why}")
        pytest.skip(why)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Skip a GPU test that asks for what the code of this build, made of PTX, has not."""
    try:
        return (yield)
    except ValueError as error:
        if pyfuncitem.get_closest_marker("gpu") is None or "this build's code" not in str(error):
            raise
        if generation_of_code() != "PTX":
            raise
        pytest.skip(str(error))


def rows(op):
    """The kernel table's rows of an operation as test parameters, GPU rows marked so."""
    return [
        pytest.param(kernel, id=kernel.id, marks=[pytest.mark.gpu] * (kernel.backend == "cuda"))
        for kernel in gpudist.kernels(op)
    ]


def generation_of_code():
    """Tell the compute capability of the code that the first GPU runs.

    It is the GPU's own, or "PTX", of which the driver made that code: then rows for one generation
    alone are left out, and auto takes others.
    """
    card = gpudist.cuda.devices()[0].compute_capability
    by_driver = _core.code_for(_core.cuda()["targets"], int(card.replace(".", ""))) == "ptx"
    return "PTX" if by_driver else card


def runnable(kernel):
    """Skip what this processor lacks, or code made of PTX; no other CUDA row may be missing."""
    if kernel.why_not is not None:
        if kernel.backend == "cuda" and generation_of_code() != "PTX":
            pytest.fail(f"{kernel.id} cannot run on this machine: {kernel.why_not}")
        pytest.skip(kernel.why_not)
    return kernel


def runnable_where_meant(kernel):
    """Skip a CUDA row on GPUs of generations that it is not for; elsewhere it must be there."""
    if "compute capability" in (kernel.why_not or ""):
        pytest.skip(kernel.why_not)
    return runnable(kernel)


def choices(option):
    """Return the ends of what an option takes, and two values between."""
    values = range(option.least, option.most + 1, option.step)
    return sorted({values[0], values[len(values) // 3], values[len(values) // 2], values[-1]})


def settings(kernel):
    """Give values for a row's options: the standard ones, then each option's choices."""
    yield {}
    for option in kernel.options:
        for value in choices(option):
            yield {option.name: value}


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


@pytest.fixture
def torch():
    """Give PyTorch to a test that makes device arrays by it, if it sees a GPU as well."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


# ---------------------------------------------------------------- metrics, arguments and data

RECORDS = {metric.name: metric for metric in METRICS}
SCIPY = set(RECORDS) - {
    "kulczynski1", "sokalmichener", "inner_product", "hellinger", "kl_divergence", "haversine",
}  # fmt: skip
LP = {"euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "seuclidean"}
TRUTHS = {metric.name for metric in METRICS if metric.domain == "truths"}
DISTRIBUTIONS = {"jensenshannon", "kl_divergence", "hellinger"}
# What is 0 for equal rows of finite numbers. Dice of numbers is not, and hellinger gives the root
# of what their sum lacks to 1.
ZERO_AT_HOME = set(RECORDS) - {
    "kulczynski1", "russellrao", "inner_product", "dice", "hellinger",
}  # fmt: skip


def forms(metric):
    """Each way of calling a metric: label, and what makes the arguments for d columns.

    Defaults that go by all rows at hand (of V and VI) are left out: they change with every row.
    """
    takes = RECORDS[metric].arguments
    if not {"V", "VI"} & set(takes):
        yield "plain", lambda rng, d: {}
    if "w" in takes:
        yield "w", lambda rng, d: {"w": rng.uniform(0.1, 3, d)}
        yield "w0", lambda rng, d: {"w": np.where(np.arange(d) % 3 == 1, 0.0, rng.uniform(1, 2, d))}
    if "p" in takes:
        for p in (1, 2, 3, 4, 0.5, 2.5, 7.3, np.inf):
            yield f"p{p}", lambda rng, d, p=p: {"p": p}
        for p in (1, 3, 1.5, np.inf):
            yield f"p{p}w", lambda rng, d, p=p: {"p": p, "w": rng.uniform(0.1, 3, d)}
    if "V" in takes:
        yield "V", lambda rng, d: {"V": rng.uniform(0.1, 3, d)}
    if "VI" in takes:
        yield "VI", lambda rng, d: {"VI": definite(rng, d)}
        # A saddle: no factor, so each element is the quadratic form itself.
        yield "saddle", lambda rng, d: {"VI": saddle(rng, d)}
    if "base" in takes:
        yield "base", lambda rng, d: {"base": 2.0}


def definite(rng, d):
    half = rng.normal(size=(d, d)) / max(d, 1) ** 0.5
    return half @ half.T + np.eye(d)


def saddle(rng, d):
    """Indefinite by one unit vector only, on which `points` of mahalanobis hardly differ."""
    vi = definite(rng, d)
    if d > 1:
        vi[0] = vi[:, 0] = 0
        vi[0, 0] = -1e-6
    return vi


def points(rng, n, d, metric, dtype):
    """Rows that suit the metric; two sets of them give results without NaN for d > 3."""
    if metric == "haversine":
        x = np.column_stack([rng.uniform(-np.pi / 2, np.pi / 2, n), rng.uniform(-np.pi, np.pi, n)])
    elif metric in TRUTHS:
        x = np.where(rng.random((n, d)) < 0.5, 0.0, rng.uniform(0.2, 1, (n, d)))
        if d:
            x[np.arange(n), rng.integers(d, size=n)] = 1
    elif metric in DISTRIBUTIONS:
        x = rng.random((n, d)) ** 3 + 1e-3
        x /= x.sum(axis=1, keepdims=True) if d else 1
    elif metric == "hamming":
        x = rng.integers(0, 3, (n, d))
    else:
        x = rng.normal(size=(n, d))
    return x.astype(dtype)


def tolerance(metric, dtype, args, a, b):
    """The accuracy that docs/promises.md promises: relative, absolute."""
    single = np.dtype(dtype) == np.float32
    if metric in LP:
        general = args.get("p", 2) not in (1, 2, 3, 4, np.inf) or metric == "sqeuclidean"
        return (1e-6 if general else 5e-7) if single else 1e-13, 0.0
    if metric in ("cosine", "correlation"):
        return 0.0, 1e-6 if single else 1e-12
    if metric in ("inner_product", "kl_divergence"):  # signs cancel: relative to what is summed
        a, b = np.abs(a.astype(float)), np.abs(b.astype(float))
        scale = a @ b.T if metric == "inner_product" else a.sum() / max(len(a), 1)
        return (1e-5, 1e-6 * scale) if single else (1e-12, 1e-13 * scale)
    # The reference itself has sqrt(1e-16) where what is under the root cancels.
    rooted = metric in ("haversine", "hellinger", "jensenshannon")
    return (1e-5, 1e-6) if single else (1e-12, 3e-8 if rooted else 1e-15)


def allowed(kernel, metric, dtype, args, a, b):
    """Give the same for a row of the table: a ladder's step adds in order, one rounding a term."""
    rtol, atol = tolerance(metric, dtype, args, a, b)
    eps = np.finfo(dtype).eps
    if kernel.id in PRODUCT_FORMS:  # cancels for close points: what it rounds away goes by norms
        norms = [np.sum(np.square(x, dtype=np.float64), axis=1).max(initial=0) for x in (a, b)]
        lost = (a.shape[1] + 8) * eps * sum(norms)
        atol = lost**0.5 if metric == "euclidean" else lost
    return rtol + kernel.teaching * a.shape[1] * eps / 2, atol


# Steps that leave the product to a library: which of its kernels runs, and so each rounding, goes
# by the number of rows.
PRODUCT_FORMS = {"euler/4_gemm"}
LAYOUTS = ("swap", "step", "reverse", "fortran", "pad", "shift")


def relay(x, layout):
    """Lay the same values out otherwise."""
    n, d = x.shape
    if layout == "swap":
        return x.astype(x.dtype.newbyteorder())
    if layout == "step":
        return np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    if layout == "reverse":
        return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "pad":
        wide = np.zeros((n + 1, d + 5), x.dtype)
        wide[1:, 2 : d + 2] = x
        return wide[1:, 2 : d + 2]
    shifted = np.empty(x.nbytes + 1, np.uint8)[1:]  # at an address that is no multiple of anything
    moved = shifted.view(x.dtype).reshape(n, d)
    moved[...] = x
    return moved


def bits(values):
    """Tell -0 from 0, but no NaN from another."""
    return np.where(np.isnan(values), np.inf, values).view(f"i{values.itemsize}")


def assert_close(actual, expected, rtol, atol=0.0, what=""):
    """Element-wise |actual - expected| <= atol + rtol |expected|; names the worst."""
    assert actual.shape == expected.shape
    actual = actual.astype(np.float64)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        excess = np.abs(actual - expected) - (atol + rtol * np.abs(expected))
    bad = ~same & ~(excess <= 0)
    if bad.any():
        worst = np.unravel_index(
            np.argmax(np.where(bad, np.nan_to_num(excess, nan=np.inf), -1)), bad.shape
        )
        worst = tuple(map(int, worst))
        pytest.fail(
            f"{what}: {bad.sum()} of {bad.size} elements differ; at {worst} got {actual[worst]!r}, "
            f"expected {expected[worst]!r}"
        )


def fail_each_allocation(call, most=1000):
    """Have each allocation of a call fail in turn; give what it returns when none does any more,
    and what was said of the others. Nothing may be left of them.
    """
    before, said = _core.allocations(), []
    for nth in range(1, most):
        _core.fail_allocation(nth)
        try:
            return call(), said
        except MemoryError as error:
            said.append(str(error))
            assert _core.allocations() == before
        finally:
            _core.fail_allocation(0)
    return pytest.fail(f"the call makes {most} allocations or more")


def scipy_cdist(a, b, metric, /, **args):
    """SciPy's answer in float64, without the warnings of its Python parts."""
    return _quiet(scipy.spatial.distance.cdist, a, b, metric, **args)


def scipy_pdist(x, metric, /, **args):
    """Likewise."""
    return _quiet(scipy.spatial.distance.pdist, x, metric, **args)


def _quiet(function, /, *positional, **args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*positional, **args)


# Until SciPy 1.16 cdist rounds the sums of yule's weights to whole numbers.
_OPPOSED = [[True, True, False, False]], [[True, False, True, False]]
SCIPY_WEIGHS_YULE = scipy_cdist(*_OPPOSED, "yule", w=np.full(4, 0.5)) == 1


@pytest.fixture(scope="session", autouse=True)
def small_buffers():
    """Let limits of the CPU be measured on a few megabytes: quickly, if not truly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceilings, "_CPU_BYTES", 1 << 24)
        yield


@pytest.fixture(scope="session")
def runner():
    """What measures cases on this CPU, its ceilings known."""
    from bench.runner import Runner

    return Runner("cpu", repeats=2, source="abc")


@pytest.fixture
def pyplot():
    """Matplotlib without a window, its figures closed afterwards."""
    made = pytest.importorskip("matplotlib.pyplot")
    made.switch_backend("Agg")
    yield made
    made.close("all")
