"""What all tests share: the GPU marker's meaning, and data that is hard to get right."""

import os

import hypothesis
import numpy as np
import pytest

import gpudist

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("ci")


def pytest_runtest_setup(item):
    """A test marked gpu is skipped with the reason; GPUDIST_REQUIRE_GPU=1 makes that a failure."""
    if item.get_closest_marker("gpu") is None:
        return
    why = gpudist.cuda.why_not()
    if why is not None:
        if os.environ.get("GPUDIST_REQUIRE_GPU") == "1":
            pytest.fail(f"GPUDIST_REQUIRE_GPU=1, but {why}")
        pytest.skip(why)


def rows(op):
    """The kernel table's rows of an operation as test parameters, GPU rows marked so."""
    return [
        pytest.param(kernel, id=kernel.id, marks=[pytest.mark.gpu] * (kernel.backend == "cuda"))
        for kernel in gpudist.kernels(op)
    ]


def runnable(kernel):
    """Skip what this processor lacks; a CUDA row that cannot run was skipped or failed before."""
    if kernel.why_not is not None:
        if kernel.backend == "cuda":
            pytest.fail(f"{kernel.id} cannot run on this machine: {kernel.why_not}")
        pytest.skip(kernel.why_not)
    return kernel


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


def assert_close(actual, expected, rtol, atol=0.0):
    """Element-wise |actual - expected| <= atol + rtol |expected|; names the worst element."""
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
            f"{bad.sum()} of {bad.size} elements differ; at {worst} got {actual[worst]!r}, "
            f"expected {expected[worst]!r}"
        )
