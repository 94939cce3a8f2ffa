"""What PyTorch's suite tests cdist and pdist with, as far as its wheel has it, asked of gpudist.

The test files are not in the wheel; the samples are that they run over, and the reference of pdist.
"""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4", reason="PyTorch 2.4 is missing")
pytest.importorskip("expecttest", reason="expecttest, which PyTorch's helpers need, is missing")

from tensors import gradients  # noqa: E402

import gpudist.torch as ours  # noqa: E402

# PyTorch's own helpers call what PyTorch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")
DIRECT = "donot_use_mm_for_euclid_dist"


@pytest.fixture(scope="module")
def suite():
    """What PyTorch's suite knows of an operator, by name."""
    invocations = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    return {x.name: x for x in invocations.op_db if x.name in ("cdist", "nn.functional.pdist")}


def samples(known, dtype=torch.float64):
    return list(known.sample_inputs("cpu", dtype, requires_grad=True))


def is_smooth(p):
    """Whether second derivatives are those of finite differences, at points that nowhere agree."""
    return p in (1.5, 2.0, 2.5, 3.0, 10.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cdist_of_every_sample_is_pytorchs(suite, dtype):
    """With its gradients; samples broadcast, are empty, and go through both of its ways."""
    given = samples(suite["cdist"], dtype)
    assert len(given) >= 256
    for sample in given:
        x, (y, p, mode) = sample.input, sample.args
        asked = torch.linspace(-1, 2, torch.cdist(x, y).numel(), dtype=dtype)
        asked = asked.reshape(torch.cdist(x, y).shape)
        got = gradients(lambda x, y, p=p, m=mode: ours.cdist(x, y, p, m), x, y, asked=asked)
        expected = gradients(lambda x, y, p=p: torch.cdist(x, y, p, DIRECT), x, y, asked=asked)
        torch.testing.assert_close(
            got,
            expected,
            rtol=1e-4 if dtype == torch.float32 else 1e-9,
            atol=1e-4 if dtype == torch.float32 else 1e-9,
        )


def test_cdist_of_every_sample_has_the_derivatives_of_finite_differences(suite):
    """As its suite checks gradients; it takes second ones and forward mode of cdist for missing."""
    checked = 0
    for sample in samples(suite["cdist"]):
        x, (y, p, mode) = sample.input, sample.args
        function = lambda x, y, p=p, m=mode: ours.cdist(x, y, p, m)  # noqa: E731
        assert torch.autograd.gradcheck(function, (x, y), check_forward_ad=True, fast_mode=True)
        checked += 1
        if is_smooth(p) and mode == DIRECT:
            assert torch.autograd.gradgradcheck(function, (x, y), fast_mode=True)
            checked += 1
    assert checked >= 256 + 64


def test_pdist_of_every_sample_is_that_of_pytorchs_reference(suite):
    known = suite["nn.functional.pdist"]
    given = list(itertools.chain(samples(known), known.reference_inputs("cpu", torch.float64)))
    assert len(given) >= 18
    for sample in given:
        x, p = sample.input.detach().requires_grad_(), sample.kwargs.get("p", 2.0)
        if len(x) > 1:  # SciPy, which the reference asks, has no pairs of one point
            expected = known.ref(x.detach().numpy(), **sample.kwargs)
            np.testing.assert_allclose(ours.pdist(x, p).detach(), expected, rtol=1e-12)
        got = gradients(lambda x, p=p: ours.pdist(x, p), x)
        torch.testing.assert_close(got, gradients(lambda x, p=p: torch.pdist(x, p), x))
        function = lambda x, p=p: ours.pdist(x, p)  # noqa: E731
        assert torch.autograd.gradcheck(function, (x,), check_forward_ad=True, fast_mode=True)
        if is_smooth(p):
            assert torch.autograd.gradgradcheck(function, (x,), fast_mode=True)
