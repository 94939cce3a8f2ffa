"""perron among subnormal numbers, where a product can lose all of itself: bounds hold."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from conftest import rows, runnable

import gpudist

KERNELS = [param for param in rows("perron") if not param.values[0].teaching]


def root_in_units(units):
    """The root of a matrix of small whole numbers."""
    return max(abs(np.linalg.eigvals(units.astype(float))))


@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_allow_for_what_products_lose(kernel, rng):
    runnable(kernel)
    for turn in range(100):
        n = int(rng.integers(2, 40))
        units = rng.integers(0 if turn % 2 else 1, 9, (n, n))
        np.fill_diagonal(units, units.diagonal() + 1)
        units[np.arange(n), np.roll(np.arange(n), 1)] += 1  # irreducible
        with warnings.catch_warnings():  # they stay apart
            warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
            found = gpudist.perron(np.ldexp(units.astype(float), -1074), kernel=kernel.id)
        truth = root_in_units(units)
        lower, upper = (Fraction(bound) * 2**1074 for bound in (found.lower, found.upper))
        assert lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= upper, f"turn {turn}"
