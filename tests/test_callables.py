"""A callable is a metric, as SciPy has it."""

import numpy as np
import pytest
import scipy.spatial.distance
from conftest import SCIPY, scipy_cdist, scipy_pdist

import gpudist

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7
P = np.random.default_rng(3).normal(size=(6, 3))
Q = np.random.default_rng(4).normal(size=(5, 3))
ONES = np.ones(3)


def test_a_callable_is_called_for_each_pair():
    seen = []

    def apart(u, v, *, power=1):
        seen.append((tuple(u), tuple(v)))
        return np.abs(u - v).sum() ** power

    expected = gpudist.cdist(A, B, "cityblock", kernel="reference")
    np.testing.assert_allclose(gpudist.cdist(A, B, apart), expected)
    assert seen == [(tuple(u), tuple(v)) for u in A for v in B]
    np.testing.assert_allclose(gpudist.cdist(A, B, apart, power=2), expected**2)
    seen.clear()
    np.testing.assert_allclose(gpudist.pdist(B, apart), gpudist.pdist(B, "cityblock"))
    assert seen == [(tuple(B[i]), tuple(B[j])) for i in range(5) for j in range(i + 1, 5)]
    out = np.empty((4, 5))
    assert gpudist.cdist(A, B, apart, out=out) is out
    np.testing.assert_allclose(out, expected)
    out = np.empty(10)
    assert gpudist.pdist(B, apart, out=out) is out
    assert gpudist.cdist(A[:0], B, apart).shape == (0, 5)
    assert gpudist.pdist(A[:1], apart).shape == (0,)


def test_a_callable_takes_objects_and_gives_float64():
    words = np.array([["ab", 1], ["abc", None], ["a", 2.5]], dtype=object)
    got = gpudist.pdist(words, lambda u, v: abs(len(u[0]) - len(v[0])))
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, [1, 1, 2])
    small = A.astype("f4")
    assert gpudist.cdist(small, small, lambda u, v: u.sum()).dtype == np.float64
    assert gpudist.cdist(A, B, lambda u, v: None)[0, 0] != 0  # NaN, as NumPy has None


def test_orders_that_a_callable_cannot_obey_are_refused():
    """By searches as by distances: they took any kernel, device and dtype, and forgot them."""

    def apart(u, v):
        return np.abs(u - v).sum()

    for call in (
        lambda **more: gpudist.cdist(A, B, apart, **more),
        lambda **more: gpudist.pdist(A, apart, **more),
        lambda **more: gpudist.nearest(A, B, apart, **more),
        lambda **more: gpudist.knn(A, B, 2, apart, **more),
        lambda **more: gpudist.radius_neighbors(A, B, 1.0, apart, **more),
        lambda **more: gpudist.count_neighbors(A, B, 1.0, apart, **more),
    ):
        for orders in ({"device": "cuda"}, {"kernel": "cdist/cpu_sums_baseline"}):
            with pytest.raises(
                ValueError, match="a callable metric runs on the CPU, without a ker"
            ):
                call(**orders)
        for name, value in (("progress", True), ("max_memory", "1 GB")):
            with pytest.raises(TypeError, match=f"^{name} is not for a callable metric"):
                call(**{name: value})
        with pytest.raises(ValueError, match="dtype must be float32"):
            call(dtype="int8")
    found = gpudist.knn(P, Q, 2, apart, dtype="float32")
    expected = gpudist.cdist(P, Q, apart, dtype="float32")
    assert found.distances.dtype == np.float32
    np.testing.assert_array_equal(found.distances, np.sort(expected, axis=1)[:, :2])
    within = gpudist.radius_neighbors(P, Q, expected.max(), apart, dtype="float32")
    assert within.distances.dtype == np.float32 and len(within.indices) == expected.size
    index = gpudist.Neighbors(P, apart)
    assert index.kneighbors(Q, 1)[0].dtype == np.float64


def test_what_a_callable_raises_comes_through():
    class Mine(Exception):
        pass

    def fails(u, v):
        raise Mine("inside")

    for call in (lambda: gpudist.cdist(A, B, fails), lambda: gpudist.pdist(A, fails)):
        with pytest.raises(Mine, match="inside"):
            call()
    with pytest.raises(TypeError, match="nonsense"):
        gpudist.cdist(A, B, lambda u, v: 1.0, nonsense=3)
    for wrong, error in (("a", ValueError), (np.ones(2), (ValueError, TypeError)), (1j, TypeError)):
        for module in (gpudist, scipy.spatial.distance):
            with pytest.raises(error):
                module.cdist(A, B, lambda u, v, wrong=wrong: wrong)
    for module in (gpudist, scipy.spatial.distance):
        with pytest.raises(ValueError, match=r"[Oo]ut"):
            module.pdist(A, lambda u, v: 1.0, out=np.empty(5))


def named(name):
    """Make a function of that name, which gives what it was called with in a number."""

    def function(u, v, **args):
        total = 0.0
        for key, value in sorted(args.items()):
            total += len(key) * float(np.sum(value) if value is not None else 7)
        return total + (u.dtype == bool) + u.sum() * 1e-3

    function.__name__ = name
    return function


@pytest.mark.parametrize("name", [*sorted(SCIPY), "e", "cos", "js", "somebody", "test_euclidean"])
def test_a_callable_named_like_a_metric_gets_what_scipy_gives_it(name):
    for args in ({}, {"p": 3}, {"w": ONES}, {"x": 1}, {"V": ONES}, {"VI": np.eye(3)}):
        for x in (P, P > 0, P.astype("f4"), (4 * P).astype("i8")):
            for ours, theirs, operands in (
                (gpudist.cdist, scipy_cdist, (x, x[:4])),
                (gpudist.pdist, scipy_pdist, (x,)),
            ):
                try:
                    expected = theirs(*operands, named(name), **args)
                except Exception as error:
                    with pytest.raises(type(error)):
                        ours(*operands, named(name), **args)
                else:
                    got = ours(*operands, named(name), **args)
                    np.testing.assert_allclose(got, expected, rtol=1e-12, err_msg=f"{args}")
    if name == "minkowski":
        with pytest.raises(ValueError, match="p must be greater than 0"):
            gpudist.cdist(P, Q, named(name), p=0)


def test_a_callable_has_no_kernel_and_no_device():
    for wrong in ({"kernel": "cdist/cpu_tile_baseline"}, {"device": "cuda"}, {"device": "nowhere"}):
        with pytest.raises((ValueError, gpudist.DeviceError)):
            gpudist.cdist(A, B, lambda u, v: 0.0, **wrong)
    with pytest.raises(TypeError, match="masked array"):
        gpudist.cdist(np.ma.masked_array(A), B, lambda u, v: 0.0)
