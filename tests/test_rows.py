"""Parts of a result: the rows asked for, with the bits of the whole, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import gpudist

A = np.random.default_rng(1).normal(size=(40, 5))
B = np.random.default_rng(2).normal(size=(30, 5))
METRICS = ["euclidean", "cosine", "seuclidean", "mahalanobis", "jaccard", "canberra"]
SLICES = [slice(0, 7), slice(7, None), slice(-3, None), slice(5, 5), slice(9, 2), slice(None)]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", SLICES, ids=str)
def test_rows_have_the_bits_of_the_whole(metric, rows, device):
    whole = gpudist.cdist(A, B, metric, device=device)
    np.testing.assert_array_equal(
        gpudist.cdist(A, B, metric, rows=rows, device=device), whole[rows]
    )
    out = np.full(whole.shape, np.pi)
    assert gpudist.cdist(A, B, metric, rows=rows, out=out, device=device) is out
    expected = np.full(whole.shape, np.pi)
    expected[rows] = whole[rows]
    np.testing.assert_array_equal(out, expected)


def test_a_result_is_completed_in_parts(tmp_path):
    out = np.memmap(tmp_path / "out", "f8", "w+", shape=(40, 30))
    for first in range(0, 40, 16):
        gpudist.cdist(A, B, rows=slice(first, first + 16), out=out)
    np.testing.assert_array_equal(out, gpudist.cdist(A, B))


def test_the_reference_takes_rows_too():
    whole = gpudist.cdist(A, B, kernel="reference")
    part = gpudist.cdist(A, B, rows=slice(3, 9), kernel="reference")
    np.testing.assert_array_equal(part, whole[3:9])


@pytest.mark.parametrize(
    ("rows", "out", "error", "words"),
    [
        (3, None, TypeError, "rows must be a slice, got int"),
        (slice(0, 9, 2), None, ValueError, "rows must go in steps of 1, got 2"),
        (slice(None, None, -1), None, ValueError, "rows must go in steps of 1, got -1"),
        (slice(0, 9), np.empty((9, 30)), ValueError, r"out must have shape \(40, 30\)"),
        (slice(0, 9), np.empty((40, 60))[:, ::2], ValueError, "out must be C-contiguous"),
    ],
)
def test_bad_rows_are_refused(rows, out, error, words):
    with pytest.raises(error, match=words):
        gpudist.cdist(A, B, rows=rows, out=out)


def test_a_callable_takes_no_rows():
    with pytest.raises(TypeError, match="rows is not for a callable metric"):
        gpudist.cdist(A, B, lambda x, y: 0.0, rows=slice(3))
