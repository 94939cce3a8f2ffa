"""Parts of a result: the rows asked for, with the bits of the whole, and nothing else."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import gpudist
from gpudist import _core

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


class Stop(Exception):
    """What a progress raises."""


def stop_at(share):
    def progress(done, total):
        if done >= share * total:
            raise Stop

    return progress


def many_columns():
    """Points of which all distances take some tenths of a second on this machine."""
    return np.random.default_rng(3).random((3000, 20 * _core.host()["threads"]))


@pytest.fixture
def long_call(device):
    if device == "cpu":
        points = many_columns()
        return lambda **k: gpudist.cdist(points, points, "jensenshannon", device=device, **k)
    points = np.random.default_rng(3).random((20000, 500))
    in_panels = {"metric": "jensenshannon", "device": device, "max_memory": 100 << 20}
    return lambda **k: gpudist.cdist(points, points[:4000], **in_panels, **k)


@pytest.mark.parametrize("first", [0, 500])
def test_what_was_stopped_says_what_is_complete_and_goes_on(first, long_call):
    whole = long_call()
    m = len(whole)
    out = np.full(whole.shape, np.nan)
    part = {} if first == 0 else {"rows": slice(first, None)}
    with pytest.raises(Stop) as info:
        long_call(out=out, progress=stop_at(0.3), **part)
    done = info.value.rows_complete
    assert first < done < m
    assert info.value.__notes__ == [
        f"out[{first}:{done}] is complete; the same call with rows=slice({done}, {m}) computes the "
        "rest"
    ]
    np.testing.assert_array_equal(out[first:done], whole[first:done])
    assert np.isnan(out[:first]).all() and np.isnan(out[-1]).all()
    long_call(out=out, rows=slice(done, None))
    np.testing.assert_array_equal(out[first:], whole[first:])


def test_ctrl_c_says_what_is_complete(long_call):
    whole = long_call()
    out = np.full(whole.shape, np.nan)

    def press(done, total):
        if done > 0.2 * total:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as info:
        long_call(out=out, progress=press)
    done = info.value.rows_complete
    assert 0 < done < len(whole)
    np.testing.assert_array_equal(out[:done], whole[:done])


def test_without_a_place_that_stays_nothing_is_complete():
    points = many_columns()
    with pytest.raises(Stop) as info:
        gpudist.cdist(points, points, "jensenshannon", device="cpu", progress=stop_at(0.3))
    assert not hasattr(info.value, "rows_complete")
    # With weights beyond float32 the computation is done elsewhere, in float64.
    out = np.full((3000, 3000), np.nan, "f4")
    with pytest.raises(Stop) as info:
        gpudist.cdist(
            points,
            points,
            "minkowski",
            p=2.5,
            w=np.full(points.shape[1], 1e39),
            out=out,
            progress=stop_at(0.3),
            device="cpu",
        )
    assert info.value.rows_complete == 0
    assert np.isnan(out).all()
