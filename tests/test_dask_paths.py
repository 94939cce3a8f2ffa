"""Shortest paths of Dask arrays, in bands of rows: the bits and the errors of one call."""

import lazily
import numpy as np
import pytest
from lazily import da, dask, roads, same

import gpudist
from gpudist.dask import bands

pytestmark = lazily.MARKS


@pytest.fixture(autouse=True)
def here():
    with lazily.in_this_process():
        yield


PATHS = {
    "plain": {},
    "float32": {"dtype": "float32"},
    "int32": {"dtype": "int32", "whole": True, "no_edge": -1.0},
    "undirected": {"directed": False},
    "unweighted": {"unweighted": True},
    "sentinel": {"no_edge": 0.5},
    "max_plus": {"semiring": "max_plus", "acyclic": True},
    "min_max": {"semiring": "min_max"},
    "max_min": {"semiring": "max_min", "dtype": "float32"},
    "max_min int32": {"semiring": "max_min", "dtype": "int32", "whole": True},
    "negative": {"acyclic": True, "low": -1.0},
    "zeros": {"whole": True, "scale": 2, "no_edge": -1.0},
}


@pytest.mark.parametrize("name", PATHS)
def test_bands_have_the_bits_of_one_call(name, rng):
    call = PATHS[name].copy()
    w = roads(rng, 520, low=call.pop("low", 0.0))
    scale = call.pop("scale", 1000)
    w = np.floor(w * scale) if call.pop("whole", False) else w
    w = np.triu(w, 1) if call.pop("acyclic", False) else w
    lengths, before = gpudist.apsp(w, return_predecessors=True, **call)
    for count, chunks in ((None, 200), (1, 520), (2, (100, 520)), (5, (520, 77)), (520, 300)):
        lazy = da.from_array(w, chunks=chunks)
        dist, pred = gpudist.apsp(lazy, bands=count, return_predecessors=True, **call)
        same(dist, lengths)
        same(pred, before)
    same(gpudist.apsp(lazy, **call), lengths)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("no_edge", [0.1, 0.5, 2, 300, 2**40, 1e300, np.inf, np.nan])
def test_a_sentinel_that_the_chunks_do_not_hold_is_none_of_their_numbers(dtype, no_edge, rng):
    w = rng.integers(1, 5, (9, 9)).astype(dtype)
    w[0, 3] = 0.1
    lazy = da.from_array(w, chunks=4)
    same(gpudist.apsp(lazy, no_edge=no_edge), gpudist.apsp(w, no_edge=no_edge))
    closed = gpudist.transitive_closure(w, no_edge=no_edge)
    same(gpudist.transitive_closure(lazy, no_edge=no_edge), closed)


def test_bands_are_about_equally_high():
    """Steps of 128 nodes are dealt out, as nobody waits then for the highest band."""
    graph = da.zeros((4100, 4100), chunks=500)
    heights = gpudist.apsp(graph, bands=9).chunks[0]
    assert (len(heights), set(heights[:-1]), heights[-1]) == (9, {384, 512}, 388)
    assert gpudist.transitive_closure(graph, bands=3).chunks[0] == (1366, 1367, 1367)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_bands_do_not_share_few_sets_of_the_caches(dtype):
    lazy = gpudist.apsp(da.zeros((1024, 1024), chunks=512, dtype=dtype))
    (band, *_) = (
        lazy.dask[key] for key in lazy.dask if str(key[0]).startswith("gpudist-apsp-start")
    )
    how = band[-1]
    assert how.width % 128 == 32
    assert how.width * np.dtype(dtype).itemsize % 2048
    assert how._replace(n=1100).width == 1152
    assert how._replace(on_host=False).width == 1024


def test_the_band_that_all_wait_for_next_goes_first():
    """Its part of a turn, and its own turn after that, are one task."""
    keys = gpudist.apsp(da.zeros((640, 640), chunks=128)).dask
    others = [key[1:] for key in keys if str(key[0]).startswith("gpudist-apsp-other")]
    assert len(others) == 5 * 4 - 4
    assert not any(band == turn + 1 for turn, band in others)


@pytest.mark.parametrize("n", [0, 1, 2, 127, 128, 129, 256])
def test_graphs_of_few_nodes(n, rng):
    w = roads(rng, n, 0.5)
    lazy = da.from_array(w, chunks=(max(n, 1), max(n, 1)))
    for count in (1, 7, min(max(n, 1), 30)):
        same(gpudist.apsp(lazy, bands=count), gpudist.apsp(w))
        same(gpudist.transitive_closure(lazy, bands=count), gpudist.transitive_closure(w))


def test_negative_cycles_raise_the_same_error(rng):
    w = np.where(roads(rng, 300) > 0, 1.0, 0.0)
    w[5, 250], w[250, 17], w[17, 5] = 3.0, -2.0, -2.0
    with pytest.raises(gpudist.NegativeCycleError) as expected:
        gpudist.apsp(w)
    lazy = gpudist.apsp(da.from_array(w, chunks=100))  # nothing is known yet
    with pytest.raises(gpudist.NegativeCycleError) as found:
        lazy.compute()
    assert found.value.nodes == expected.value.nodes
    assert found.value.cycle == expected.value.cycle
    assert str(found.value) == str(expected.value)


def outcome(graph, **call):
    """Give the results, or what the error says."""
    try:
        return gpudist.apsp(graph, no_edge=np.inf, return_predecessors=True, **call)
    except gpudist.NegativeCycleError as error:
        return str(error), error.nodes, error.cycle


def test_exact_sums_decide_about_cycles_near_0(rng):
    """Weights p[j] - p[i], rounded: rounded sums make negative cycles, and hide some."""
    n, errors = 150, 0
    for _ in range(20):
        p = rng.integers(-(2**28), 2**28, n)
        w = (p[None] - p[:, None]).astype("float32")
        w[rng.random((n, n)) >= 0.007] = np.inf
        expected = outcome(w)
        lazy = outcome(da.from_array(w, chunks=100), bands=2)
        try:
            found = dask.compute(*lazy)
        except gpudist.NegativeCycleError as error:
            assert (str(error), error.nodes, error.cycle) == expected
            errors += 1
        else:
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
    assert 0 < errors < 20


def test_of_large_graphs_the_nodes_stand_that_rounded_sums_found(rng, monkeypatch):
    w = roads(rng, 300, 0.3)
    w[5, 250] = w[250, 5] = -20
    monkeypatch.setattr(bands, "are_followed", lambda n: False)
    with pytest.raises(gpudist.NegativeCycleError) as found:
        gpudist.apsp(da.from_array(w, chunks=100)).compute()
    assert {5, 250} <= set(found.value.nodes)
    assert found.value.cycle == []
    fine = roads(rng, 300)
    same(gpudist.apsp(da.from_array(fine, chunks=100)), gpudist.apsp(fine))


@pytest.mark.parametrize(
    ("w", "call", "error"),
    [
        (0.5, {"dtype": "int32"}, r"graph\[5, 250\] is not a whole number"),
        (2.0**29, {"dtype": "int32"}, "magnitude 536870912; dtype=int32 takes weights below"),
        (1e39, {"dtype": "float32"}, r"magnitude 1e\+39, which float32 cannot hold"),
        (-2.0, {"no_edge": -1.0}, r"graph\[5, 250\] is a negative weight, which no_edge=-1"),
    ],
)
def test_weights_that_the_dtype_does_not_take(w, call, error):
    graph = np.full((300, 300), call.get("no_edge", 0.0))
    graph[5, 250] = w
    for given in (graph, da.from_array(graph, chunks=100)):
        with pytest.raises(ValueError, match=error):
            np.asarray(gpudist.apsp(given, **call))


def test_lengths_that_int32_does_not_hold():
    graph = np.zeros((300, 300))
    graph[0, 140] = graph[140, 290] = 2.0**29 - 1
    graph[290, 291] = 2.0
    for given in (graph, da.from_array(graph, chunks=100)):
        with pytest.raises(OverflowError, match="1 path lengths reach 2\\*\\*30"):
            np.asarray(gpudist.apsp(given, dtype="int32"))


@pytest.mark.parametrize("reflexive", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_reachability(directed, reflexive, rng):
    for w in (roads(rng, 333, 0.004), rng.random((333, 333)) < 0.004):
        call = {"directed": directed, "reflexive": reflexive}
        expected = gpudist.transitive_closure(w, **call)
        for count in (None, 1, 4, 7):
            lazy = da.from_array(w, chunks=(100, 333))
            same(gpudist.transitive_closure(lazy, bands=count, **call), expected)
    closed = gpudist.apsp(w, semiring="or_and")
    same(gpudist.apsp(lazy, semiring="or_and", bands=3), closed)
