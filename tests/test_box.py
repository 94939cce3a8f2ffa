"""Distances in a periodic box: the nearest images, right to the bounds, on every path."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.spatial.distance
from conftest import LP, RECORDS

import gpudist
from bench.exact import exact_cdist
from gpudist import _core

KERNELS = [k.id for k in gpudist.kernels("cdist") if "cpu_sums" in k.id and k.why_not is None]
FORMS = [
    ("euclidean", {}),
    ("sqeuclidean", {}),
    ("cityblock", {}),
    ("chebyshev", {}),
    ("minkowski", {"p": 3}),
    ("minkowski", {"p": 4}),
    ("minkowski", {"p": 0.5}),
    ("minkowski", {"p": 2.5}),
    ("minkowski", {"p": 1}),
    ("euclidean", {"w": [0.5, 2, 0, 1, 3]}),
    ("cityblock", {"w": [0.5, 2, 0, 1, 3]}),
    ("chebyshev", {"w": [1, 2, 0, 1, 1]}),
    ("minkowski", {"p": 1.5, "w": [0.5, 2, 0, 1, 3]}),
    ("seuclidean", {"V": [0.5, 2, 0.1, 1, 3]}),
]
D = 5
# Lengths that float32 holds and others; all columns, some of them, and one.
BOXES = [1.0, 0.1, [1.0, 2.5, 0.3, 1e-3, 7e4], [0, 3.0, 0, np.inf, 0.7], 1e9]


def inside(rng, box, dtype, n=9):
    return (rng.random((n, D)) * lengths_of(box)).astype(dtype)


def lengths_of(box):
    lengths = np.broadcast_to(np.asarray(box, float), D)
    return np.where((lengths == 0) | np.isinf(lengths), 1.0, lengths)


def over_the_end(rng, box, dtype):
    """Pairs that are close to each other on both sides of the end, and of other images of it."""
    small = 10.0 ** rng.uniform(-12, -1, (9, D)) * rng.choice([-1, 1], (9, D))
    return ((rng.integers(-3, 4, (9, D)) + small) * lengths_of(box)).astype(dtype)


def far_outside(rng, box, dtype):
    return (rng.normal(size=(9, D)) * lengths_of(box) * 10.0 ** rng.uniform(0, 9)).astype(dtype)


def beyond_all_digits(rng, box, dtype):
    """Where the box is less than what the last digit counts."""
    return (rng.normal(size=(9, D)) * 1e17).astype(dtype)


def half_a_box_apart(rng, box, dtype):
    return (rng.integers(-4, 5, (9, D)) * lengths_of(box) / 2).astype(dtype)


def ulps_apart(rng, box, dtype):
    x = (0.7 * lengths_of(box)).astype(dtype)
    return x + rng.integers(-40, 40, (9, D)).astype(dtype) * np.spacing(x)


SETS = [inside, over_the_end, far_outside, beyond_all_digits, half_a_box_apart, ulps_apart]


def operands(make, rng, box, dtype):
    return make(rng, box, dtype), np.vstack([make(rng, box, dtype), inside(rng, box, dtype, 2)])


def assert_within(got, exact, metric, args):
    p = args.get("p", 2)
    if got.dtype == np.float64:
        bound = 1e-13
    else:
        bound = 1e-6 if metric == "sqeuclidean" or p != int(p) else 5e-7
    tiny = float(np.finfo(got.dtype).tiny)
    worst = np.abs(got.astype(float) - exact) - bound * np.abs(exact)
    assert (worst <= tiny).all(), worst.max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", SETS)
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_distances_are_those_of_the_nearest_images(metric, args, make, dtype, rng):
    for box in BOXES:
        a, b = operands(make, rng, box, dtype)
        exact = exact_cdist(a, b, metric, box=box, **args)
        assert_within(gpudist.cdist(a, b, metric, box=box, **args), exact, metric, args)
        slow = gpudist.cdist(a, b, metric, box=box, kernel="reference", dtype=np.float64, **args)
        assert_within(slow, exact, metric, args)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_instruction_set_and_shape(kernel, dtype, rng):
    for d in (1, 3, 15, 16, 17, 130):
        box = rng.uniform(0.5, 2, d) * (np.arange(d) % 4 != 1)
        for m, n in ((1, 1), (5, 33), (70, 300)):
            a, b = (rng.normal(size=(rows, d)).astype(dtype) * 3 for rows in (m, n))
            for metric, args in FORMS[:8]:
                got = gpudist.cdist(a, b, metric, box=box, kernel=kernel, **args)
                slow = gpudist.cdist(
                    a, b, metric, box=box, kernel="reference", dtype=np.float64, **args
                )
                assert_within(got, slow, metric, args)
                weighted = gpudist.cdist(a, b, metric, box=box, kernel=kernel, w=np.ones(d), **args)
                np.testing.assert_array_equal(weighted, got)


def test_the_definition_in_numbers():
    a, b = [[0.1, 0.9]], [[0.9, 0.1], [0.1, -1.1], [0.6, 0.4], [1.1, 100.9]]
    got = gpudist.cdist(a, b, "cityblock", box=1)
    np.testing.assert_allclose(got, [[0.4, 0, 1, 0]], rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        gpudist.cdist(a, b, "cityblock", box=[0, 1]), [[1.0, 0, 1, 1]], rtol=0, atol=1e-13
    )
    x = np.array([[0.25], [0.75], [-0.25], [1.25]])
    assert gpudist.pdist(x, box=1.0).tolist() == [0.5, 0.5, 0.0, 0.0, 0.5, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_symmetry_and_zeros_are_exact(metric, args, dtype, rng):
    box = [1.0, 0.1, 0, 3.3, 1e-5]
    x = np.concatenate([make(rng, box, dtype) for make in SETS])
    whole = gpudist.cdist(x, x, metric, box=box, **args)
    np.testing.assert_array_equal(whole, whole.T)
    assert not whole.diagonal().any()
    np.testing.assert_array_equal(
        gpudist.pdist(x, metric, box=box, **args), whole[np.triu_indices(len(x), 1)]
    )
    # Rows that differ by whole lengths, where the shifted numbers are exact.
    grid = (rng.integers(-64, 64, (40, D)) / 8).astype(dtype)
    moved = grid + dtype(2) * rng.integers(-9, 9, grid.shape).astype(dtype)
    assert not gpudist.cdist(grid, moved, metric, box=2, **args).diagonal().any()
    other = gpudist.cdist(grid, grid[::-1], metric, box=2, **args)
    np.testing.assert_array_equal(gpudist.cdist(moved, grid[::-1], metric, box=2, **args), other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_a_box_without_periodic_columns_is_none(metric, args, dtype, rng):
    a, b = rng.normal(size=(2, 40, D)).astype(dtype)
    plain = gpudist.cdist(a, b, metric, **args)
    for box in (None, 0, np.inf, [0, 0, np.inf, 0, 0]):
        np.testing.assert_array_equal(gpudist.cdist(a, b, metric, box=box, **args), plain)
        said = gpudist.explain("cdist", a, b, metric, box=box, **args)
        assert said.kernel == gpudist.explain("cdist", a, b, metric, **args).kernel


def test_what_has_no_image_is_nan():
    a, b = [[np.inf, 0.0], [0.0, np.inf], [np.nan, 0.0]], [[0.25, 0.25]]
    got = gpudist.cdist(a, b, "cityblock", box=[1, 0])
    np.testing.assert_array_equal(got, [[np.nan], [np.inf], [np.nan]])
    np.testing.assert_array_equal(
        gpudist.cdist(a, b, "cityblock", box=[1, 0], kernel="reference"), got
    )
    # chebyshev ignores NaN.
    np.testing.assert_array_equal(
        gpudist.cdist(a, b, "chebyshev", box=[1, 0]), [[0.25], [np.inf], [0.25]]
    )


def test_the_ends_of_the_range(rng):
    most, least = np.finfo(np.float64).max, 2 * np.finfo(np.float64).tiny
    assert gpudist.cdist([[most]], [[-most]], box=most)[0, 0] == 0
    assert gpudist.cdist([[most]], [[0.0]], box=most)[0, 0] == 0
    near = gpudist.cdist([[0.75 * least]], [[0.0]], "cityblock", box=least)
    assert near[0, 0] == 0.25 * least
    x = (rng.random((20, 3)) * np.float32(1e-30)).astype(np.float32)
    exact = exact_cdist(x, x, "minkowski", p=12.5, box=1e-30)
    assert_within(
        gpudist.cdist(x, x, "minkowski", p=12.5, box=1e-30), exact, "minkowski", {"p": 2.5}
    )


# ---------------------------------------------------------------- paths

BOX = np.array([1.0, 0.1, 0, 3.3, 1e-2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_every_path_has_the_same_bits(metric, args, dtype, rng):
    args = args | {"box": BOX}
    a, b = rng.normal(size=(70, D)).astype(dtype), rng.normal(size=(333, D)).astype(dtype)
    whole = gpudist.cdist(a, b, metric, **args)
    same = np.testing.assert_array_equal
    out = np.empty_like(whole)
    assert gpudist.cdist(a, b, metric, out=out, **args) is out
    same(out, whole)
    for i, j in ((0, 1), (3, 70), (69, 70)):
        same(gpudist.cdist(a[i:j], b, metric, **args), whole[i:j])
        same(gpudist.cdist(a, b, metric, rows=slice(i, j), **args), whole[i:j])
    same(gpudist.cdist(a, b[5:17], metric, **args), whole[:, 5:17])
    wide = np.zeros((140, 3 * D + 1), dtype)
    wide[::2, 1::3] = a
    same(gpudist.cdist(wide[::2, 1::3], np.asfortranarray(b), metric, **args), whole)
    same(
        gpudist.cdist(a[:, ::-1][:, ::-1], b.astype(b.dtype.newbyteorder()), metric, **args), whole
    )
    same(gpudist.cdist(a.tolist(), b, metric, dtype=dtype, **args), whole)
    same(gpudist.cdist(a, b, metric, max_memory=60_000, **args), whole)
    batch = gpudist.cdist(np.stack([a, -a]), b[None, :60], metric, **args)
    same(batch[0], whole[:, :60])
    same(batch[1], gpudist.cdist(-a, b[:60], metric, **args))
    pairs = gpudist.pdist(np.stack([a, a[::-1]]), metric, **args)
    same(pairs[0], gpudist.pdist(a, metric, **args))
    same(pairs[1], gpudist.pdist(a[::-1], metric, **args))
    for box in (BOX.tolist(), BOX[::-1].copy()[::-1], BOX.astype(">f8")):
        same(gpudist.cdist(a, b, metric, **args | {"box": box}), whole)


def test_a_box_may_be_where_the_result_goes(rng):
    x = rng.random((6, 3))
    out = 1 + rng.random((6, 6))
    want = gpudist.cdist(x, x, box=out[2, :3].copy())
    np.testing.assert_array_equal(gpudist.cdist(x, x, out=out, box=out[2, :3]), want)


def test_threads_do_not_change_bits():
    script = (
        "import hashlib, numpy as np, gpudist; x = np.random.default_rng(1).random((900, 3)); "
        "d = gpudist.cdist(x, x, box=[0.5, 0, 1]); k = gpudist.knn(x, k=7, box=[0.5, 0, 1]); "
        "print([hashlib.sha256(z.tobytes()).hexdigest() for z in (d, *k)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "5")
    }
    assert len(said) == 1


# ---------------------------------------------------------------- refusals

P = np.arange(12.0).reshape(4, 3)
WRONG = [
    (-1, ValueError, "box must hold lengths"),
    ([1, -1, 1], ValueError, "box must hold lengths"),
    (np.nan, ValueError, "box must hold lengths"),
    ([1, np.nan, 1], ValueError, "box must hold lengths"),
    (5e-324, ValueError, "box must hold lengths"),
    (-np.inf, ValueError, "box must hold lengths"),
    ([1, 1], ValueError, r"box must be a number or .*shape \(\) or \(3,\), got \(2,\)"),
    ([[1, 1, 1]], ValueError, "box must be a number or"),
    (np.ones((3, 1)), ValueError, "box must be a number or"),
    (1j, TypeError, "box must be an array of real numbers"),
    ([1, 1j, 1], TypeError, "box must be an array of real numbers"),
    ("a", TypeError, "box"),
    ([None, 1, 1], TypeError, "box"),
    (np.ma.masked_array([1, 1, 1], [0, 1, 0]), TypeError, "box"),
]


def calls():
    yield lambda **k: gpudist.cdist(P, P, **k)
    yield lambda **k: gpudist.pdist(P, **k)
    yield lambda **k: gpudist.cdist(P[None], P, **k)
    yield lambda **k: gpudist.nearest(P, **k)
    yield lambda **k: gpudist.knn(P, k=1, **k)
    yield lambda **k: gpudist.radius_neighbors(P, r=1, **k)
    yield lambda **k: gpudist.count_neighbors(P, radii=1, **k)
    yield lambda **k: gpudist.Neighbors(P, **{x: y for x, y in k.items() if x != "kernel"})
    yield lambda **k: gpudist.explain("cdist", P, P, **k)
    yield lambda **k: gpudist.explain("knn", P, k=1, **k)


@pytest.mark.parametrize(("box", "error", "message"), WRONG)
def test_wrong_boxes(box, error, message):
    for call in calls():
        for kernel in ("auto", "reference"):
            with pytest.raises(error, match=message):
                call(box=box, kernel=kernel)


@pytest.mark.parametrize("metric", sorted(set(RECORDS) - LP))
def test_other_metrics_take_none(metric):
    x = P[:, : RECORDS[metric].columns or 3]
    words = "unexpected keyword argument 'box'.*box is for euclidean, sqeuclidean, cityblock"
    for call in (gpudist.cdist, gpudist.knn):
        with pytest.raises(TypeError, match=words):
            call(x, x, metric=metric, box=1, **{"k": 1} if call is gpudist.knn else {})


def test_seuclidean_has_no_default_in_a_box():
    with pytest.raises(ValueError, match="give V"):
        gpudist.cdist(P, P, "seuclidean", box=1)
    with pytest.raises(TypeError, match="the lengths of a periodic box are box="):
        gpudist.cdist(P, P, boxsize=1)


def test_rows_that_take_no_box():
    with pytest.raises((ValueError, gpudist.DeviceError), match="cannot do this"):
        gpudist.cdist(P, P, box=1, kernel="cdist/cuda_tile")
    with pytest.raises(ValueError, match="it takes no periodic columns"):
        gpudist.cdist(P, P, box=1, kernel="cdist/cpu_tile_baseline")


def test_auto_takes_a_gpu_where_there_is_one():
    sizes = {"shared_block": 227 << 10, "shared_multiprocessor": 228 << 10}
    _core.pretend("90", capability=90, multiprocessors=132, double_ratio=2, **sizes)
    try:
        there = {"periodic": True, "device": "cuda", "neighbors": 4, "rows": 20_000}
        taken = _core.choose("cdist", "float64", "euclidean", 20_000, 3, periodic=True)
        assert taken[:2] == ("cdist/cuda_in_box", "cuda:0")
        taken = _core.choose("neighbors", "float32", "euclidean", 20_000, 3, **there)
        assert taken[:2] == ("neighbors/cuda_boxes", "cuda:0")
        taken = _core.choose("neighbors", "float32", "euclidean", 20_000, 30, **there)
        assert taken[:2] == ("neighbors/cuda_panels", "cuda:0")
        small = gpudist.explain("cdist", [[0.25]], [[1.25]], box=1.5)
        assert small.device == "cpu" and "not worth the way" in small.rejected["cdist/cuda_in_box"]
        assert "no periodic columns" in small.rejected["cdist/cuda_tile"]
    finally:
        _core.pretend(None)


# ---------------------------------------------------------------- other libraries


def test_dask_passes_a_box_on(rng):
    da = pytest.importorskip("dask.array")
    import gpudist.dask

    x = rng.random((50, 3))
    lazy = da.from_array(x, chunks=(20, 3))
    box = [0.5, 0, 0.7]
    same = np.testing.assert_array_equal
    same(gpudist.cdist(lazy, lazy, box=box).compute(), gpudist.cdist(x, x, box=box))
    same(gpudist.pdist(lazy, box=box).compute(), gpudist.pdist(x, box=box))
    same(gpudist.knn(lazy, k=3, box=box).indices.compute(), gpudist.knn(x, k=3, box=box).indices)
    for call in (
        lambda **k: gpudist.cdist(lazy, lazy, **k),
        lambda **k: gpudist.knn(lazy, k=1, **k),
    ):
        with pytest.raises(ValueError, match="box must hold"):
            call(box=-1)
    with pytest.raises(ValueError, match="give V"):
        gpudist.cdist(lazy, lazy, "seuclidean", box=1)


def test_tensors_have_no_gradients_in_a_box(rng):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rng.random((5, 3)))
    plain = gpudist.cdist(x, x, box=1)
    assert isinstance(plain, torch.Tensor)
    np.testing.assert_array_equal(plain.numpy(), gpudist.cdist(x.numpy(), x.numpy(), box=1))
    np.testing.assert_array_equal(gpudist.cdist(x, x, box=torch.ones(3)).numpy(), plain.numpy())
    x.requires_grad_()
    for call in (lambda: gpudist.cdist(x, x, box=1), lambda: gpudist.pdist(x, box=1)):
        with pytest.raises(TypeError, match="requires gradients"):
            call()


def test_jax_passes_a_box_on(rng):
    jax = pytest.importorskip("jax")
    x = rng.random((5, 3)).astype(np.float32)
    want = gpudist.cdist(x, x, box=0.5)
    got = jax.jit(lambda x: gpudist.cdist(x, x, box=0.5))(jax.numpy.asarray(x))
    np.testing.assert_array_equal(np.asarray(got), want)


def test_scipy_has_no_box():
    with gpudist.patched_scipy() as patched, pytest.raises(TypeError):
        scipy.spatial.distance.cdist(P, P, "euclidean", box=1.0)
    assert not patched.calls


def test_compare_knows_no_rival(rng):
    x = rng.random((30, 3))
    assert gpudist.compare("cdist", x, x, box=0.5, device="cpu", budget=1)
