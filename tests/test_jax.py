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
        with pytest.raises(
            TypeError, match=r"int64, which .* nearest take index_dtype='int32', for"
        ):
            gpudist.knn(a, k=1)
        for call in (gpudist.knn, gpudist.nearest):
            given = {"k": 1} if call is gpudist.knn else {}
            assert call(a, index_dtype="int32", **given).indices.dtype == np.int32
        with pytest.raises(TypeError, match=r"int64, .* for all others give NumPy arrays$"):
            gpudist.radius_neighbors(a, r=1.0, index_dtype="int32")  # whose indptr stays
        index = gpudist.Neighbors(a, n_neighbors=1)
        with pytest.raises(TypeError, match=r"int64, which JAX has only with .* give NumPy arrays"):
            index.kneighbors(a)
        assert index.kneighbors_graph(a).nnz == len(A)  # a matrix of SciPy's
    with pytest.raises(TypeError, match="out must not be an array of JAX"):
        gpudist.cdist(A, A, out=jax.numpy.zeros((4, 4)))


def test_half_precision_is_computed_in_float32():
    for dtype in ("bfloat16", "float16"):
        a = jax.numpy.asarray(A / 3).astype(dtype)
        wide = gpudist.cdist(a.astype("float32"), a.astype("float32"))
        got = gpudist.cdist(a, a)
        assert got.dtype == np.float32 and (got == wide).all()
        narrow = gpudist.cdist(a, a, dtype=dtype)
        assert isinstance(narrow, jax.Array) and narrow.dtype == dtype
        assert (narrow == wide.astype(dtype)).all()


def test_nothing_is_copied():
    """JAX takes over what lies as it wants it, as results of some size do."""
    a = jax.numpy.asarray(np.random.default_rng(0).random((600, 3), "f4"))
    assert np.asarray(a).__array_interface__["data"][0] == a.unsafe_buffer_pointer()
    results = []
    original = jax.numpy.from_dlpack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.numpy, "from_dlpack", lambda x: results.append(x) or original(x))
        got = gpudist.cdist(a, a)
    assert results[0].__array_interface__["data"][0] == got.unsafe_buffer_pointer()


TRACED = {
    "cdist": (lambda x: gpudist.cdist(x, B), (4, 5)),
    "XB": (lambda x: gpudist.cdist(B, x, "canberra"), (5, 4)),
    "both": (lambda x: gpudist.cdist(x, 2 * x, "minkowski", p=3, w=[1, 2, 0]), (4, 4)),
    "pdist": (lambda x: gpudist.pdist(x, "cosine"), (6,)),
    "a batch": (lambda x: gpudist.cdist(x, np.stack([B, -B])), (2, 4, 5)),
    "half": (lambda x: gpudist.cdist(x.astype("bfloat16"), B, dtype="float16"), (4, 5)),
    "default VI": (lambda x: gpudist.cdist(x, B, "mahalanobis", dtype="float32"), (4, 5)),
    "a callable": (lambda x: gpudist.cdist(x, B, lambda u, v: u[0] - v[0], dtype="f4"), (4, 5)),
    "no rows": (lambda x: gpudist.cdist(x[:0], B), (0, 5)),
}
B = np.random.default_rng(1).random((5, 3), "f4")


@pytest.mark.parametrize("call, shape", TRACED.values(), ids=TRACED)
def test_what_jax_traces_gives_the_same(call, shape):
    """Under jit and vmap, with the bits of a call by itself."""
    a = jax.numpy.asarray(np.random.default_rng(2).random((4, 3), "f4"))
    expected = call(a)
    got = jax.jit(call)(a)
    assert got.shape == shape and got.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
    many = jax.numpy.stack([a, a + 1, 3 * a])
    each = [np.asarray(call(x)) for x in many]
    np.testing.assert_array_equal(np.asarray(jax.vmap(call)(many)), each)
    np.testing.assert_array_equal(np.asarray(jax.jit(jax.vmap(call))(many)), each)


REFUSED = {
    "no derivatives of JAX": lambda x: jax.grad(lambda x: gpudist.cdist(x, B).sum())(x),
    "XA and XB must have the same number of columns, got 3 and 2": lambda x: jax.jit(
        lambda x: gpudist.cdist(x, B[:, 1:])
    )(x),
    "unknown metric": lambda x: jax.jit(lambda x: gpudist.cdist(x, B, "cosin"))(x),
    "w is traced by JAX": lambda x: jax.jit(lambda x: gpudist.cdist(A, x, w=x[0]))(x),
    "a metric, its arguments and dtype": lambda x: jax.jit(
        lambda x: gpudist.cdist(x, B, rows=slice(1))
    )(x),
    "X must have two dimensions": lambda x: jax.vmap(gpudist.pdist)(x),
    "graph is traced by JAX": lambda x: jax.jit(gpudist.apsp)(x[:3]),
    "XA is traced by JAX": lambda x: jax.jit(lambda x: gpudist.knn(x, k=1))(x),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_traced_is_said_while_tracing(words):
    with pytest.raises((TypeError, ValueError), match=words):
        REFUSED[words](jax.numpy.asarray(A))


def test_wide_arrays_are_traced_where_jax_has_them():
    b = B.astype("f8")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        a = jax.numpy.asarray(A.astype("f8"))
        got = jax.jit(lambda x: gpudist.cdist(x, b))(a)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(got), gpudist.cdist(A.astype("f8"), b))
    if not jax.config.jax_enable_x64:
        with pytest.raises(TypeError, match="XB is of float64, which JAX has only with"):
            jax.jit(lambda x: gpudist.cdist(x, b))(jax.numpy.asarray(A))
