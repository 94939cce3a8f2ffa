"""A periodic box on a GPU: the exact nearest images, and the bits of a CPU where these are told."""

import numpy as np
import pytest
from test_box import BOXES, FORMS, KERNELS, SETS, D, assert_within, operands

import gpudist
from bench.exact import exact_cdist

pytestmark = pytest.mark.gpu
ID = "cdist/cuda_in_box"
FUSED = [k for k in KERNELS if not k.endswith("baseline")]
# Powers are of another library there, and weights are multiplied in another order.
SAME = [
    (metric, args)
    for metric, args in FORMS
    if "w" not in args and (metric not in ("minkowski", "seuclidean") or args.get("p") == 1)
]
same = np.testing.assert_array_equal


def on_gpu(a, b, metric="euclidean", **args):
    return gpudist.cdist(a, b, metric, device="cuda", **args)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", SETS)
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_distances_are_those_of_the_nearest_images(metric, args, make, dtype, rng):
    for box in BOXES:
        a, b = operands(make, rng, box, dtype)
        got = on_gpu(a, b, metric, box=box, **args)
        assert_within(got, exact_cdist(a, b, metric, box=box, **args), metric, args)
        if FUSED and (metric, args) in SAME:
            same(got, gpudist.cdist(a, b, metric, box=box, kernel=FUSED[0], **args))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_shape(dtype, rng):
    for d in (1, 3, 15, 16, 17, 130, 300):
        box = rng.uniform(0.5, 2, d) * (np.arange(d) % 4 != 1)
        for m, n in ((1, 1), (5, 33), (70, 300), (257, 129)):
            a, b = (rng.normal(size=(rows, d)).astype(dtype) * 3 for rows in (m, n))
            for metric, args in FORMS[:8]:
                got = on_gpu(a, b, metric, box=box, **args)
                here = gpudist.cdist(a, b, metric, box=box, kernel=KERNELS[0], **args)
                np.testing.assert_allclose(got, here, rtol=5e-7 if dtype == np.float32 else 1e-13)
                same(on_gpu(a, b, metric, box=box, w=np.ones(d), **args), got)
                same(on_gpu(b, b, metric, box=box, **args)[np.triu_indices(n, 1)],
                     gpudist.pdist(b, metric, box=box, device="cuda", **args))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "args"), FORMS)
def test_symmetry_and_zeros_are_exact(metric, args, dtype, rng):
    x = np.concatenate([make(rng, [1.0, 0.1, 0, 3.3, 1e-5], dtype) for make in SETS])
    whole = on_gpu(x, x, metric, box=[1.0, 0.1, 0, 3.3, 1e-5], **args)
    same(whole, whole.T)
    assert not whole.diagonal().any()
    grid = (rng.integers(-64, 64, (40, D)) / 8).astype(dtype)
    moved = grid + dtype(2) * rng.integers(-9, 9, grid.shape).astype(dtype)
    assert not on_gpu(grid, moved, metric, box=2, **args).diagonal().any()


def test_what_has_no_image_is_nan_and_the_ends_of_the_range(rng):
    a, b = [[np.inf, 0.0], [0.0, np.inf], [np.nan, 0.0]], [[0.25, 0.25]]
    same(on_gpu(a, b, "cityblock", box=[1, 0]), [[np.nan], [np.inf], [np.nan]])
    same(on_gpu(a, b, "chebyshev", box=[1, 0]), [[0.25], [np.inf], [0.25]])
    most, least = np.finfo(np.float64).max, 2 * np.finfo(np.float64).tiny
    assert on_gpu([[most]], [[-most]], box=most)[0, 0] == 0
    assert on_gpu([[0.75 * least]], [[0.0]], "cityblock", box=least)[0, 0] == 0.25 * least
    x = (rng.random((20, 3)) * np.float32(1e-30)).astype(np.float32)
    exact = exact_cdist(x, x, "minkowski", p=12.5, box=1e-30)
    assert_within(on_gpu(x, x, "minkowski", p=12.5, box=1e-30), exact, "minkowski", {"p": 2.5})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_path_has_the_same_bits(dtype, rng):
    torch = pytest.importorskip("torch")
    box = np.array([1.0, 0.1, 0, 3.3, 1e-2])
    a, b = rng.normal(size=(70, D)).astype(dtype), rng.normal(size=(333, D)).astype(dtype)
    for metric, args in FORMS:
        args = args | {"box": box}
        whole = on_gpu(a, b, metric, **args)
        for i, j in ((0, 1), (3, 70)):
            same(on_gpu(a[i:j], b, metric, **args), whole[i:j])
            same(on_gpu(a, b, metric, rows=slice(i, j), **args), whole[i:j])
        same(on_gpu(a, b[5:17], metric, **args), whole[:, 5:17])
        same(on_gpu(a, b, metric, max_memory=60_000, **args), whole)
        there = [torch.as_tensor(np.ascontiguousarray(x.T), device="cuda").T for x in (a, b)]
        found = gpudist.cdist(*there, metric, **args)
        same(found.cpu().numpy(), whole)
        same(gpudist.cdist(*there, metric, **args | {"box": torch.as_tensor(box, device="cuda")})
             .cpu().numpy(), whole)  # fmt: skip
        same(gpudist.cdist(*there, metric, kernel=ID, **args).cpu().numpy(), whole)
        batch = on_gpu(np.stack([a, -a]), b[None, :60], metric, **args)
        same(batch[0], whole[:, :60])
        same(batch[1], on_gpu(-a, b[:60], metric, **args))


def test_a_box_without_periodic_columns_and_rows_by_name(rng):
    a, b = rng.normal(size=(2, 40, D))
    for box in (None, 0, np.inf):
        same(on_gpu(a, b, box=box), on_gpu(a, b))
    np.testing.assert_allclose(on_gpu(a, b, kernel=ID), on_gpu(a, b), rtol=1e-13)
    said = gpudist.explain("cdist", a, b, box=1, device="cuda")
    assert said.kernel == ID and "no periodic columns" in said.rejected["cdist/cuda_tile"]
    with pytest.raises(ValueError, match="it takes no periodic columns"):
        gpudist.cdist(a, b, box=1, kernel="cdist/cuda_tile")
    torch = pytest.importorskip("torch")
    x = torch.rand(5, 3, device="cuda", requires_grad=True)
    with pytest.raises(TypeError, match="requires gradients"):
        gpudist.cdist(x, x, box=1)
