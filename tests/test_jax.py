"""JAX's arrays on the CPU: what they give is of JAX."""

import numpy as np
import pytest

import gpudist

jax = pytest.importorskip("jax", reason="JAX is missing")
A = np.arange(12.0, dtype="f4").reshape(4, 3)


def test_arrays_of_jax_give_arrays_of_jax():
    a = jax.numpy.asarray(A)
    for call in (
        lambda x: gpudist.cdist(x, x),
        lambda x: gpudist.pdist(x, "cosine"),
        lambda x: gpudist.cdist(x[None], x),
        lambda x: gpudist.minplus(x, x.T),
        lambda x: gpudist.apsp(x[:3]),
    ):
        got = call(a)
        assert isinstance(got, jax.Array) and got.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(got), call(A))
    assert isinstance(gpudist.cdist(A, a), np.ndarray)
    out = np.empty((4, 4), "f4")
    assert gpudist.cdist(a, a, out=out) is out


def test_what_jax_cannot_hold_is_refused():
    a = jax.numpy.asarray(A)
    if not jax.config.jax_enable_x64:
        with pytest.raises(TypeError, match="JAX has only with jax_enable_x64"):
            gpudist.cdist(a, A.astype("f8"))
    with pytest.raises(TypeError, match="out must not be an array of JAX"):
        gpudist.cdist(A, A, out=jax.numpy.zeros((4, 4)))
    with pytest.raises(TypeError, match="XA cannot be read as an array"):
        jax.jit(lambda x: gpudist.cdist(x, A))(a)
