"""Neighbours in a periodic box on a GPU: the bits of the definition, by panels and by boxes."""

import numpy as np
import pytest
from test_neighbors import check, check_searches, keys_from
from test_neighbors_boxes import radii_of
from test_neighbors_in_box import BOXES, METRICS, SETS, set_in_box

import gpudist
from gpudist import _core

pytestmark = pytest.mark.gpu
ID, PANELS = "neighbors/cuda_boxes", "neighbors/cuda_panels"


def keys_of(a, b, metric, box, first=None):
    return keys_from(gpudist.cdist(a, b, metric, box=box, device="cuda"), metric, first)


def assert_same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def check_all(a, b, metric, box, kernel=ID, first=None):
    """Hold all four calls against the matrix, and lists of more than a warp's."""
    keys = keys_of(a, b, metric, box, first)
    how = {"metric": metric, "kernel": kernel, "box": box, "device": "cuda"}
    if kernel == PANELS:
        check_searches(a, b, keys, radii_of(keys), first, **how)
        return
    rows = {} if first is None else {"rows": slice(first, first + len(a))}
    xa, xb = (a, b) if first is None else (b, None)
    for k in (1, 17, 128):
        check(gpudist.knn(xa, xb, k, **how, **rows), keys, k)
    order = np.argsort(keys, axis=1, kind="stable")
    radii = radii_of(keys)
    for r in radii:
        inside = [row[keys[i, row] <= r] for i, row in enumerate(order)]
        for sort, most in (("index", None), ("distance", None), ("distance", 7)):
            found = gpudist.radius_neighbors(
                xa, xb, r, sort=sort, max_neighbors=most, **how, **rows
            )
            lists = [x[:most] if sort == "distance" else np.sort(x) for x in inside]
            np.testing.assert_array_equal(np.diff(found.indptr), [len(x) for x in lists])
            np.testing.assert_array_equal(found.indices, np.concatenate(lists))
            kept = np.concatenate([keys[i, x] for i, x in enumerate(lists)])
            np.testing.assert_array_equal(found.distances, kept)
    counted = [gpudist.count_neighbors(xa, xb, r, **how, **rows) for r in radii]
    assert counted == [(keys <= r).sum() for r in radii]
    counted = gpudist.count_neighbors(xa, xb, radii, **how, **rows)
    assert counted.tolist() == [(keys <= r).sum() for r in radii]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", BOXES)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", METRICS)
def test_boxes_have_the_bits_of_the_definition(metric, name, shape, dtype, rng):
    a, b, box = set_in_box(name, shape, dtype, rng)
    check_all(a, b, metric, box)
    check_all(b[700:715], b, metric, box, first=700)


@pytest.mark.parametrize("d", range(1, 9))
def test_each_number_of_columns(d, rng):
    box = rng.uniform(0.5, 2, d) * (np.arange(d) % 3 != 1)
    for dtype in (np.float32, np.float64):
        b = rng.normal(size=(2100, d)).astype(dtype)
        for metric in METRICS:
            check_all(b[:5] + dtype(0.1), b, metric, box)
            check_all(b[:5] + dtype(0.1), b, metric, box, PANELS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_many_points_as_panels_have_them(d, dtype, rng):
    """Several levels of boxes, rows in an order of their own, and all over the end."""
    lengths = np.array([1.0, 0.7, 3.0, 0, 1.5, 1, 1, 1])[:d]
    x = (rng.random((30000, d)) * np.where(lengths > 0, lengths, 1)).astype(dtype)
    x[1::40] = x[::40]
    x += (lengths * rng.integers(-1, 2, x.shape)).astype(dtype)
    y = rng.random((5000, d)).astype(dtype)
    r = (20 / 30000) ** (1 / d) / 2
    for metric in ("euclidean", "chebyshev"):
        how = {"metric": metric, "box": lengths, "device": "cuda"}
        for a, b in ((x, None), (y, x)):
            for k in (1, 16, 64):
                assert_same(*(gpudist.knn(a, b, k, kernel=i, **how) for i in (ID, PANELS)))
            for more in ({}, {"max_neighbors": 5, "sort": "distance"}):
                assert_same(*(
                    gpudist.radius_neighbors(a, b, r, kernel=i, **how, **more)[:3]
                    for i in (ID, PANELS)
                ))  # fmt: skip
            assert_same(*(
                [gpudist.count_neighbors(a, b, [r / 9, r, 0.3], kernel=i, **how)]
                for i in (ID, PANELS)
            ))  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "args", "d"),
    [
        ("euclidean", {}, 20),
        ("minkowski", {"p": 3}, 3),
        ("minkowski", {"p": 1}, 3),
        ("euclidean", {"w": [1, 2, 0.5]}, 3),
        ("seuclidean", {"V": [1, 2, 0.5]}, 3),
    ],
)
def test_panels_do_what_boxes_do_not(metric, args, d, rng):
    a, b = rng.normal(size=(30, d)).astype("f4"), rng.normal(size=(700, d)).astype("f4")
    args = args | {"box": 0.9}
    keys = keys_from(gpudist.cdist(a, b, metric, device="cuda", **args))
    check(gpudist.knn(a, b, 9, metric, device="cuda", **args), keys, 9)
    if d > 8 or "w" in args or args.get("p") == 3:
        with pytest.raises(ValueError, match=r"dimensions|weights|does not know"):
            gpudist.knn(a, b, 1, metric, kernel=ID, **args)


def test_auto_and_arrays_on_the_device(rng):
    torch = pytest.importorskip("torch")
    host = (rng.random((20000, 3)) * 10).astype("f4")
    x = torch.as_tensor(host, device="cuda")
    for function, more in (
        ("knn", {"k": 16}), ("radius_neighbors", {"r": 0.5}), ("count_neighbors", {"radii": 0.5})
    ):  # fmt: skip
        assert gpudist.explain(function, x, box=10, **more).kernel == ID
    found = gpudist.knn(x, k=16, box=10)
    assert found.distances.is_cuda
    found = [z.cpu().numpy() for z in found]
    assert_same(found, gpudist.knn(host, k=16, box=10, device="cuda"))
    here = gpudist.knn(host, k=16, box=10, device="cpu")
    assert (found[1] == here.indices).all()
    moved = gpudist.knn(x + 10 * torch.randint(-3, 4, x.shape, device="cuda"), x, 1, box=10)
    assert (moved.indices[:, 0].cpu().numpy() == np.arange(20000)).mean() > 0.999
    weights = rng.random(20000)
    sums = [
        gpudist.count_neighbors(host, radii=[0.1, 0.5], weights=weights, box=10, device=device)
        for device in ("cuda", "cpu")
    ]
    np.testing.assert_array_equal(*sums)


def test_a_kept_set_of_points_keeps_its_box(rng):
    before = _core.allocations()
    y = rng.random((20000, 3)).astype("f4")
    index = gpudist.Neighbors(y, box=[1, 0, 0.5], n_neighbors=4, radius=0.03, device="cuda")
    for rows in (1, 300, 9000):
        a = rng.random((rows, 3)).astype("f4")
        assert_same(
            index.kneighbors(a), gpudist.knn(a, y, 4, box=[1, 0, 0.5], device="cuda", kernel=ID)
        )
        assert _core.allocations() == before + 1
    near = gpudist.radius_neighbors(a, y, 0.03, box=[1, 0, 0.5], device="cuda", kernel=PANELS)
    np.testing.assert_array_equal(np.concatenate(index.radius_neighbors(a)[1]), near.indices)
