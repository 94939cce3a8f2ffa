"""Tensors for the tests of gpudist.torch, and their gradients."""

import torch


def points(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator)


def gradients(function, *inputs, asked=None):
    """Return the result, and the gradient for each input."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    d = function(*inputs)
    asked = torch.ones_like(d) if asked is None else asked
    return d.detach(), torch.autograd.grad(d, inputs, asked)
