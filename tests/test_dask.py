"""Dask arrays: lazy results with the bits of one call, in blocks of rows."""

import pickle

import lazily
import numpy as np
import pytest
from conftest import RECORDS, TRUTHS, forms, points
from lazily import da, dask, same, small_chunks

import gpudist
from gpudist import reference

pytestmark = lazily.MARKS


@pytest.fixture(autouse=True)
def here():
    with lazily.in_this_process():
        yield


@pytest.mark.parametrize("metric", RECORDS)
def test_blocks_have_the_bits_of_one_call(metric, rng):
    dtypes = ("float32", "float64") + ("bool",) * (metric in TRUTHS)
    for i, dtype in enumerate(dtypes):
        d = RECORDS[metric].columns or (7, 40, 16)[i]
        a, b = (points(rng, n, d, metric, dtype) for n in (150, 131))
        lazy, other = da.from_array(a, chunks=(67, d)), da.from_array(b, chunks=50)
        for _, make in list(forms(metric))[:3]:
            args = make(rng, d)
            same(gpudist.cdist(lazy, other, metric, **args), gpudist.cdist(a, b, metric, **args))
            with small_chunks():
                pairs = gpudist.pdist(lazy, metric, **args)
                assert pairs.numblocks[0] >= 3
                same(pairs, gpudist.pdist(a, metric, **args))


@pytest.mark.parametrize("n", [1, 2, 3, 700])
def test_pairs_of_few_and_of_many_rows(n, rng):
    for dtype, d in (("float32", 2), ("float64", 130)):
        x = rng.normal(size=(n, d)).astype(dtype)
        lazy = da.from_array(x, chunks=(100, d))
        with dask.config.set({"array.chunk-size": "200 kiB"}):
            for metric in ("euclidean", "cosine", "mahalanobis"):
                args = {"VI": np.eye(d)} if metric == "mahalanobis" else {}
                same(gpudist.pdist(lazy, metric, **args), gpudist.pdist(x, metric, **args))


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_what_depends_on_all_points_is_computed_once_of_all(metric, rng):
    a, b = rng.normal(size=(90, 5)), rng.normal(size=(40, 5)) * [1, 2, 3, 4, 5]
    lazy = da.from_array(a, chunks=(20, 2))
    result = gpudist.cdist(lazy, b, metric)
    same(result, gpudist.cdist(a, b, metric))
    same(gpudist.pdist(lazy, metric), gpudist.pdist(a, metric))
    distances, indices = gpudist.knn(lazy, b, 3, metric)
    expected = gpudist.knn(a, b, 3, metric)
    same(distances, expected.distances)
    same(indices, expected.indices)
    computed = {str(key) for key in result.__dask_graph__() if "gpudist-v" in str(key)}
    assert len(computed) == 1


def test_assert_eq_of_dask_holds_of_each_result(rng):
    """It compares the meta, and each chunk with what was said of it."""
    from dask.array.utils import assert_eq

    a, b = rng.normal(size=(60, 6)).astype("float32"), rng.normal(size=(30, 6)).astype("float32")
    lazy, graph = da.from_array(a, chunks=(25, 3)), np.triu(np.ones((300, 300)), 1)
    square = da.from_array(graph, chunks=100)
    for result, expected in [
        (gpudist.cdist(lazy, b), gpudist.cdist(a, b)),
        (gpudist.pdist(lazy), gpudist.pdist(a)),
        (gpudist.minplus(lazy, b.T), gpudist.minplus(a, b.T)),
        (gpudist.apsp(square), gpudist.apsp(graph)),
        (gpudist.transitive_closure(square), gpudist.transitive_closure(graph)),
        *zip(gpudist.knn(lazy, b, 2), gpudist.knn(a, b, 2), strict=True),
        *zip(gpudist.nearest(lazy), gpudist.nearest(a), strict=True),
    ]:
        assert_eq(result, expected, scheduler="synchronous")


def test_functions_of_two_rows(rng):
    x = rng.normal(size=(23, 3))
    lazy = da.from_array(x, chunks=(10, 3))
    same(gpudist.cdist(lazy, x[:7], _between), gpudist.cdist(x, x[:7], _between))
    with small_chunks():
        same(gpudist.pdist(lazy, _between, c=2.0), gpudist.pdist(x, _between, c=2.0))
    import scipy.spatial.distance as scipy_distance

    with pytest.raises(ValueError, match="give V: a function that is called by blocks"):
        gpudist.cdist(lazy, lazy, scipy_distance.seuclidean)


def _between(x, y, c=1.0):
    return c * abs(x - y).sum()


def test_chunks_of_results(rng):
    lazy = da.from_array(rng.normal(size=(100, 8)), chunks=((60, 40), 4))
    b = rng.normal(size=(50, 8))
    assert gpudist.cdist(lazy, b).chunks == ((60, 40), (50,))
    assert gpudist.cdist(b, lazy).chunks == ((50,), (100,))
    with small_chunks():  # 40 rows of 50 float64 numbers are 16 000 bytes
        assert gpudist.cdist(lazy, b).chunks == ((30, 30, 40), (50,))
        assert gpudist.cdist(lazy, b, dtype="float32").chunks == ((60, 40), (50,))
    assert gpudist.cdist(lazy[:0], b).compute().shape == (0, 50)
    assert gpudist.cdist(lazy, b[:0]).compute().shape == (100, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", None])
def test_results_have_the_dtype_that_is_asked_for(dtype, rng):
    a, b = rng.normal(size=(60, 3)).astype("f4"), rng.normal(size=(9, 3))
    lazy = da.from_array(a, chunks=(25, 3))
    same(gpudist.cdist(lazy, b, dtype=dtype), gpudist.cdist(a, b, dtype=dtype))
    same(gpudist.pdist(lazy, "cosine", dtype=dtype), gpudist.pdist(a, "cosine", dtype=dtype))
    if dtype == "float16":
        with pytest.raises(ValueError, match="dtype must be float32 or float64, got float16"):
            gpudist.knn(lazy, b, 2, dtype=dtype)


def test_equal_calls_share_names_and_unequal_ones_do_not(rng):
    lazy = da.from_array(rng.normal(size=(100, 8)), chunks=(50, 8))
    plain = gpudist.cdist(lazy, lazy)
    assert plain.name.startswith("gpudist-cdist-")
    assert gpudist.cdist(lazy, lazy).name == plain.name
    others = [
        gpudist.cdist(lazy, lazy, "cityblock"),
        gpudist.cdist(lazy, lazy, dtype="float32"),
        gpudist.cdist(lazy, lazy, device="cpu"),
        gpudist.cdist(lazy, lazy, w=np.arange(8)),
    ]
    assert len({plain.name, *(x.name for x in others)}) == 5
    graph = da.ones((300, 300), chunks=100)
    one, two = gpudist.apsp(graph), gpudist.apsp(graph, dtype="float32")
    assert one.name.startswith("gpudist-apsp-dist-")
    assert gpudist.apsp(graph).name == one.name != two.name


def test_the_graph_of_cdist_is_small():
    """It grows to one task a block at the scheduler, and is sent as a rule how to grow."""
    a = da.random.default_rng(0).normal(size=(200_000, 8), chunks=(1000, 8))
    b = da.random.default_rng(1).normal(size=(10_000, 8), chunks=(10_000, 8))
    result = gpudist.cdist(a, b, dtype="float32")
    assert result.numblocks == (200, 1)
    layer = result.dask.layers[result.name]
    assert len(pickle.dumps(layer)) < 10_000


def test_inputs_are_left_as_they_were(rng):
    x = rng.random((300, 300))
    kept = x.copy()
    for lazy in (da.from_array(x, chunks=150), da.from_array(x, chunks=-1)):
        gpudist.cdist(lazy, x).compute()
        gpudist.minplus(lazy, x, x).compute()
        gpudist.apsp(lazy, bands=3).compute()
        gpudist.transitive_closure(lazy > 0.9, bands=3).compute()
        held = lazy.persist()
        gpudist.apsp(held, bands=2).compute()
        np.testing.assert_array_equal(held.compute(), kept)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("semiring", ["min_plus", "max_plus", "min_max", "max_min", "or_and"])
def test_products(semiring, rng):
    a, b, c = rng.random((70, 40)), rng.random((40, 50)), rng.random((70, 50))
    if semiring == "or_and":
        a, b, c = a > 0.9, b > 0.9, c > 0.9
    lazy = da.from_array(a, chunks=(30, 17)), da.from_array(b, chunks=20)
    expected = gpudist.minplus(a, b, c, semiring=semiring)
    same(gpudist.minplus(*lazy, da.from_array(c, chunks=9), semiring=semiring), expected)
    same(gpudist.minplus(lazy[0], b, semiring=semiring), gpudist.minplus(a, b, semiring=semiring))


def test_integers_are_multiplied_as_integers(rng):
    a, b = (rng.integers(0, 9, size=(40, 40)).astype("int32") for _ in range(2))
    same(gpudist.minplus(da.from_array(a, chunks=15), b), gpudist.minplus(a, b))
    wrong = da.from_array(a + 2**29, chunks=15)
    with pytest.raises(ValueError, match="magnitude 2\\*\\*28 or more"):
        gpudist.minplus(wrong, b).compute()


@pytest.mark.parametrize("among_themselves", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
def test_neighbours(metric, among_themselves, rng):
    a, b = rng.integers(0, 4, size=(90, 3)).astype("float32"), rng.random((60, 3), "float32")
    given = (a,) if among_themselves else (a, b)
    lazy = (da.from_array(a, chunks=(40, 2)), *given[1:])
    other = None if among_themselves else given[1]
    with small_chunks():
        found = gpudist.knn(lazy[0], other, 4, metric, index_dtype="int32")
        assert isinstance(found, gpudist.KNearest)
        expected = gpudist.knn(*given, k=4, metric=metric, index_dtype="int32")
        same(found.distances, expected.distances)
        same(found.indices, expected.indices)
        one = gpudist.nearest(lazy[0], other, metric)
        assert isinstance(one, gpudist.Nearest)
        same(one.indices, gpudist.nearest(*given, metric=metric).indices)


def test_a_block_of_pairs_by_numpy_computes_its_own_alone(monkeypatch, rng):
    x, computed = rng.normal(size=(700, 3)), []
    whole = gpudist.pdist(x, kernel="reference")

    def counting(a, b, metric, **arguments):
        computed.append(len(a) * len(b))
        return cdist(a, b, metric, **arguments)

    cdist = reference.cdist
    monkeypatch.setattr(reference, "cdist", counting)
    with small_chunks():
        pairs = gpudist.pdist(da.from_array(x, chunks=100), kernel="reference")
        assert pairs.numblocks[0] >= 3
        same(pairs, whole)
    assert sum(computed) == len(whole)
