"""A distance's bits depend on the two rows alone, not on where they stand among others."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import RECORDS, forms, points, runnable

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


def few_dimensions(d, dtype, rng, count):
    """Rows whose sums of squares are ordinary, 0, too small and too large for float32, or none."""
    x = rng.standard_normal((count, d)).astype(dtype)
    x[3::50] *= 1e-30
    x[4::50] = 1e-38
    x[5::70] = 3e25
    x[6::90, -1], x[7::90, 0] = np.nan, np.inf
    x[8::11] = x[0]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "inner_product"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"])
def test_few_dimensions_have_the_bits_of_many(isa, d, metric, dtype, rng):
    """Dimensions that are 0 in both operands add nothing, but are computed by another form."""
    kernel = f"cdist/cpu_tile_{isa}"
    runnable(next(k for k in gpudist.kernels("cdist") if k.id == kernel))
    for m, n in ((5, 7), (70, 333), (5, 7001)):
        a, b = (few_dimensions(d, dtype, rng, count) for count in (m, n))
        wide = (np.pad(x, ((0, 0), (0, 40 - d))) for x in (a, b))
        want = gpudist.cdist(*wide, metric, kernel=kernel)
        got = gpudist.cdist(a, b, metric, kernel=kernel)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cosine"])
def test_few_dimensions_go_past_the_caches_to_any_place(metric, dtype, rng):
    """Rows of large results begin and end within lines, and nothing beside them is written."""
    m, n = 1301, 1709
    a, b = (few_dimensions(3, dtype, rng, count) for count in (m, n))
    want = gpudist.cdist(a, b, metric, device="cpu")
    for first in (0, 1, 13):
        room = np.full(m * n + 32, -7, dtype)
        out = room[first : first + m * n].reshape(m, n)
        gpudist.cdist(a, b, metric, out=out, device="cpu")
        np.testing.assert_array_equal(out, want)
        assert (room[:first] == -7).all() and (room[first + m * n :] == -7).all()
    for row in (0, 8, 700, m - 1):  # a few rows are not streamed
        got = gpudist.cdist(a[row : row + 1], b, metric, device="cpu")
        np.testing.assert_array_equal(got[0], want[row])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
@pytest.mark.parametrize("d", [12, 40, 300])
@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"])
def test_rows_among_others_have_the_bits_of_rows_alone(isa, d, metric, dtype, rng):
    """Roots that wait for the sums of later rows come to their places, large results or small."""
    kernel = f"cdist/cpu_tile_{isa}"
    runnable(next(k for k in gpudist.kernels("cdist") if k.id == kernel))
    for m, n in ((70, 333), (1000, 2101)):
        a, b = (few_dimensions(d, dtype, rng, count) for count in (m, n))
        room = np.full(m * n + 32, -7, dtype)
        out = room[5 : 5 + m * n].reshape(m, n)
        gpudist.cdist(a, b, metric, out=out, kernel=kernel)
        assert (room[:5] == -7).all() and (room[5 + m * n :] == -7).all()
        for row in range(0, m, m // 9):
            alone = gpudist.cdist(a[row : row + 1], b, metric, kernel=kernel)
            np.testing.assert_array_equal(out[row], alone[0])
