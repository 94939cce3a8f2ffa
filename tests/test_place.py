"""A distance's bits depend on the two rows alone, not on where they stand among others."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import RECORDS, forms, points

import gpudist

# More columns than the widest panel has, 3 vectors of 16, and a part of the next.
COLUMNS = 75
EVERY_FORM = [
    pytest.param(metric, label, id=f"{metric}-{label}")
    for metric in RECORDS
    for label, _ in forms(metric)
]
every_form = pytest.mark.parametrize(("metric", "label"), EVERY_FORM)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def takers(metric, dtype, d, args):
    """Give auto and every kernel of this machine's processor that can compute it."""
    yield "auto"
    for kernel in gpudist.kernels("cdist"):
        if kernel.backend != "cpu" or kernel.why_not is not None or kernel.teaching:
            continue
        row = np.ones((1, d), dtype)
        try:
            gpudist.cdist(row, row, metric, kernel=kernel.id, **args)
        except ValueError as error:  # not for this metric, these weights or numbers
            assert kernel.id in str(error), error
        else:
            yield kernel.id


@both_dtypes
@every_form
def test_columns_of_equal_rows_are_equal(metric, label, dtype, rng):
    """A compiler that fuses one of two unrolled vectors' multiply-adds gives them other bits."""
    for d in (RECORDS[metric].columns,) if RECORDS[metric].columns else (1, 4, 21):
        args = dict(forms(metric))[label](rng, d)
        a = points(rng, 60, d, metric, dtype)
        b = np.repeat(points(rng, 1, d, metric, dtype), COLUMNS, axis=0)
        for kernel in takers(metric, dtype, d, args):
            args_of_call = args | {"kernel": kernel, "device": "cpu"}
            got = gpudist.cdist(a, b, metric, **args_of_call)
            np.testing.assert_array_equal(got, np.repeat(got[:, :1], COLUMNS, axis=1), kernel)
            turned = gpudist.cdist(b, a, metric, **args_of_call)
            np.testing.assert_array_equal(turned, np.repeat(turned[:1], COLUMNS, axis=0), kernel)


@both_dtypes
@every_form
def test_rows_keep_their_bits_wherever_they_stand(metric, label, dtype, rng, device):
    for d in (RECORDS[metric].columns,) if RECORDS[metric].columns else (4, 21):
        args = dict(forms(metric))[label](rng, d) | {"device": device}
        a, b = (points(rng, n, d, metric, dtype) for n in (33, COLUMNS))
        whole = gpudist.cdist(a, b, metric, **args)
        # The first row stays: mahalanobis measures from it.
        order = np.concatenate([[0], rng.permutation(np.arange(1, COLUMNS))])
        got = gpudist.cdist(a, b[order], metric, **args)
        np.testing.assert_array_equal(got, whole[:, order])
        got = gpudist.cdist(a, b, metric, rows=slice(5, 19), **args)
        np.testing.assert_array_equal(got, whole[5:19])


def test_parts_that_fit_the_memory_have_the_bits_of_the_whole(rng):
    """A call in parts ends with a part that begins in the middle of a panel."""
    a, b = rng.random((200, 4)), np.repeat(rng.random((1, 4)), 4000, axis=0)
    for metric in ("kl_divergence", "hellinger", "jensenshannon", "canberra"):
        whole = gpudist.cdist(a, b, metric, device="cpu")
        got = gpudist.cdist(a, b, metric, device="cpu", max_memory=100_000)
        np.testing.assert_array_equal(got, whole, metric)
        assert len(np.unique(whole[7])) == 1, metric
