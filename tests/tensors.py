"""Tensors for the tests of gpudist.torch, and their gradients."""

import pytest
import torch

import gpudist


def points(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator)


def gradients(function, *inputs, asked=None):
    """Return the result, and the gradient for each input."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    d = function(*inputs)
    asked = torch.ones_like(d) if asked is None else asked
    return d.detach(), torch.autograd.grad(d, inputs, asked)


def check_parts(function, x, y, asked, parts):
    """Hold that gradients are the same bits when asked again, and of some rows and matrices alone.

    Return them for all. `parts` are matrices, and which of their rows are taken.
    """
    d, got = gradients(function, x, y, asked=asked)
    assert all(map(torch.equal, got, gradients(function, x, y, asked=asked)[1]))
    for k, rows in parts:
        part = gradients(function, x[k, rows], y[k], asked=asked[k, rows])
        assert torch.equal(part[0], d[k, rows])
        assert torch.equal(part[1][0], got[0][k, rows])
    return got


def there(*shape, seed=0):
    """Normal numbers on the GPU, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cuda()


def powers(least, most, *shape):
    """Powers of ten on the GPU, of exponents from `least` to before `most`."""
    generator = torch.Generator().manual_seed(9)
    return 10.0 ** torch.randint(least, most, shape, generator=generator).cuda()


def skip_unless_on_90(kernel):
    """Skip a test of a row of gradients where this machine's GPU is not the one that it is for."""
    rows = {k.id: k for k in gpudist.kernels("gradient")}
    if rows[kernel].why_not is not None or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the row is for compute capability 9.0")
