"""Small calls take a short way through the core, and what it does not know goes the long one."""

import numpy as np
import pytest

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7


def test_what_is_not_simple_goes_the_long_way():
    """What tensors on a device do is tested where there is one."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a, b = torch.as_tensor(A), torch.as_tensor(B)
    for x, y in ((A, B), (A, b), (a, B), (A.tolist(), B), (None, None), (torch, a)):
        assert _core.cdist_tensors(x, y, "euclidean") is None
    recorded = b.clone().requires_grad_()
    with torch.no_grad():
        for x, y in ((a, b[None]), (a, recorded), (a, b.float()), (a[:0], b), (a.flip(0).T, b.T)):
            assert _core.cdist_tensors(x, y, "euclidean") is None
    assert _core.cdist_tensors(a, b, metric=max, out=a) is None
    with pytest.raises(TypeError, match="lacks the argument 'metric'"):
        _core.cdist_tensors(a, b)
    np.testing.assert_array_equal(gpudist.cdist(a, b), gpudist.cdist(A, B))


SQUARE = np.arange(16.0).reshape(4, 4) ** 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "canberra", "chebyshev"])
def test_small_arrays_take_the_short_way(metric, dtype):
    wide = (SQUARE % 7 + 1).astype(dtype)
    for x, y in ((wide, wide[:3]), (wide[1:, :3], wide[:, 1:]), (wide[::2], wide[3:])):
        x.flags.writeable = False
        short = _core.cdist_arrays(x, y, metric)
        assert short.dtype == dtype and short.flags.writeable
        long = gpudist.cdist(x, y, metric, device="cpu", dtype=dtype)
        np.testing.assert_array_equal(short, long)
        np.testing.assert_array_equal(short, gpudist.cdist(x, y, metric))
        out = np.zeros_like(short)
        assert _core.cdist_arrays(x, y, metric, out, "cpu") is out
        np.testing.assert_array_equal(out, long)


OTHERS = {
    "a list": (SQUARE.tolist(), "euclidean"),
    "integers": (SQUARE.astype(int), "euclidean"),
    "another dtype": (SQUARE.astype("f4"), "euclidean"),
    "another byte order": (SQUARE.astype(">f8"), "euclidean"),
    "columns that lie apart": (SQUARE.T, "euclidean"),
    "rows in reverse": (SQUARE[::-1], "euclidean"),
    "rows that are one": (np.broadcast_to(SQUARE[0], (3, 4)), "euclidean"),
    "no rows": (SQUARE[:0], "euclidean"),
    "other columns": (SQUARE[:, :3], "euclidean"),
    "one dimension": (SQUARE[0], "euclidean"),
    "a subclass": (np.ma.masked_array(SQUARE), "euclidean"),
    "a large result": (np.ones((1 << 17, 4)), "euclidean"),
    "a metric with an argument": (SQUARE, "minkowski"),
    "a metric of truths": (SQUARE, "jaccard"),
    "no metric": (SQUARE, "euclid"),
    "a callable": (SQUARE, max),
}


@pytest.mark.parametrize(("x", "metric"), OTHERS.values(), ids=OTHERS)
def test_other_arrays_go_the_long_way(x, metric):
    assert _core.cdist_arrays(x, SQUARE, metric) is None
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean") is not None


OUTS = {
    "another shape": np.empty((3, 4)),
    "another dtype": np.empty((4, 4), "f4"),
    "another order": np.empty((4, 4), order="F"),
    "rows apart": np.empty((4, 5))[:, :4],
    "a subclass": np.ma.empty((4, 4)),
    "no array": [[0.0] * 4] * 4,
}


@pytest.mark.parametrize("out", OUTS.values(), ids=OUTS)
def test_other_results_go_the_long_way(out):
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", out) is None


def test_what_the_short_way_leaves_to_the_long_one():
    fixed = np.empty((4, 4))
    fixed.flags.writeable = False
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", fixed) is None
    for device in ("cuda", "cuda:1", "nowhere", 3, b"cpu"):
        assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", None, device) is None
    # A call that can be stopped says how much of the caller's array is written.
    x = np.ones((100, 2000))
    assert _core.cdist_arrays(x, x, "euclidean", np.empty((100, 100))) is None
    assert _core.cdist_arrays(x, x, "euclidean") is not None
