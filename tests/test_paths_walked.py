"""Every path that every predecessor matrix spells, on graphs of every kind, and on a real one."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csgraph

import gpudist

# ---------------------------------------------------------------- graphs


def linked(n, pairs, weights):
    """Edges both ways, of these weights one after the other."""
    w = np.full((n, n), np.inf)
    for k, (i, j) in enumerate(pairs):
        w[i, j] = w[j, i] = weights[k % len(weights)]
    return w


def make_random(rng, n):
    return thinned(rng, rng.integers(1, 1000, (n, n)).astype(float), 4 / max(n, 1))


def make_grid(rng, n):
    side = max(int(n**0.5), 1)
    right = [(k, k + 1) for k in range(n - 1) if (k + 1) % side]
    return linked(n, right + [(k, k + side) for k in range(n - side)], rng.integers(1, 9, 50))


def make_star(rng, n):
    return linked(n, [(0, k) for k in range(1, n)], rng.integers(1, 9, 50))


def make_path(rng, n):
    order = rng.permutation(n)
    return linked(n, list(itertools.pairwise(order)), rng.integers(1, 9, 50))


def make_disconnected(rng, n):
    w = make_random(rng, n)
    part = rng.integers(0, 3, n)
    w[part[:, None] != part] = np.inf
    return w


def make_zeros(rng, n):
    return thinned(rng, rng.integers(0, 2, (n, n)).astype(float), 5 / max(n, 1))


def make_all_zero(rng, n):
    return thinned(rng, np.zeros((n, n)), 5 / max(n, 1))


def make_ties(rng, n):
    return thinned(rng, np.ones((n, n)), 0.3)


def make_negative(rng, n):
    """Potentials: every cycle keeps its positive length."""
    h = rng.integers(0, 500, n)
    w = rng.integers(0, 9, (n, n)) + h[None, :] - h[:, None]
    return thinned(rng, w.astype(float), 0.2)


def make_complete(rng, n):
    return rng.integers(1, 1000, (n, n)).astype(float)


def thinned(rng, w, density):
    return np.where(rng.random(w.shape) < density, w, np.inf)


KINDS = [make_random, make_grid, make_star, make_path, make_disconnected, make_zeros,
         make_all_zero, make_ties, make_negative, make_complete]  # fmt: skip
by_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__[5:])


def made(make, rng, n):
    w = make(rng, n)
    np.fill_diagonal(w, np.inf)
    return w


# ---------------------------------------------------------------- walking


def walk(w, dist, pred, unreachable=np.inf, rtol=0.0):
    """Follow every path at once, an edge at a time by its end and then twice as far each turn."""
    n = len(w)
    nobody = pred == -9999
    reached = dist != unreachable
    assert (nobody == (~reached | np.eye(n, dtype=bool))).all()
    rows, cols = np.nonzero(~nobody)
    before = pred[rows, cols]
    # The last edge exists, and the path without it is the rest of the length: so is every path's.
    ahead = dist[rows, before].astype(float) + w[before, cols]
    if rtol:
        np.testing.assert_allclose(dist[rows, cols], ahead, rtol=rtol)
    else:
        np.testing.assert_array_equal(dist[rows, cols], ahead)
    up = np.where(nobody, np.arange(n), pred)  # roots stay where they are
    for _ in range(max(n, 2).bit_length()):
        up = np.take_along_axis(up, up, axis=1)
    roots = np.broadcast_to(np.arange(n)[:, None], (n, n))
    assert (up[reached] == roots[reached]).all()  # no circle, and all begin where they should


@by_kind
def test_every_path_of_every_size(device, make, rng):
    turn = KINDS.index(make) % 3  # every size is had by three kinds or four
    for n in range(turn, 301, 3):
        w = made(make, rng, n)
        dtype = ("int32", "float64", "float32")[n // 3 % 3]
        dist, pred = gpudist.apsp(
            w, no_edge=np.inf, dtype=dtype, return_predecessors=True, device=device
        )
        walk(w, dist, pred, gpudist.UNREACHABLE if dtype == "int32" else np.inf)


@pytest.mark.parametrize("make", [make_grid, make_zeros, make_negative])
def test_every_path_of_2000_nodes(device, make, rng):
    w = made(make, rng, 2000)
    dist, pred = gpudist.apsp(
        w, no_edge=np.inf, dtype="int32", return_predecessors=True, device=device
    )
    walk(w, dist, pred, gpudist.UNREACHABLE)


@pytest.mark.gpu
@by_kind
def test_both_backends_agree_bit_for_bit(make, rng):
    for n in (1, 2, 63, 64, 65, 130, 300, 511):
        w = made(make, rng, n)
        for dtype in ("int32", "float64", "float32"):
            for more in ({}, {"return_predecessors": True}):
                mine, theirs = (
                    gpudist.apsp(w, no_edge=np.inf, dtype=dtype, device=device, **more)
                    for device in ("cuda", "cpu")
                )
                np.testing.assert_array_equal(mine, theirs)


# ---------------------------------------------------------------- airports


@pytest.fixture(scope="module")
def hops():
    """Flights of up to 1200 km between 1500 of the world's airports, in kilometres."""
    pytest.importorskip("airportsdata", reason="airportsdata is not installed")
    from gpudist.demo import EARTH_RADIUS_KM, load_airports, spread

    airports = load_airports()
    airports = airports.take(spread(len(airports), 1500))
    distance = EARTH_RADIUS_KM * gpudist.cdist(airports.points, airports.points, "haversine")
    distance[distance > 1200] = 0
    return distance


def test_airports_agree_with_dijkstra(device, hops, rng):
    """SciPy's search from some of the airports finds the same lengths."""
    sources = rng.choice(len(hops), 40, replace=False)
    for weights, options, rtol in (
        (hops, {}, 1e-13),
        (hops.astype("f4"), {}, 1e-5),
        (np.rint(1000 * hops), {"dtype": "int32"}, 0),
        (hops, {"unweighted": True}, 0),
    ):
        dist, pred = gpudist.apsp(weights, return_predecessors=True, device=device, **options)
        graph = csgraph.csgraph_from_dense(weights.astype(float))
        expected = csgraph.dijkstra(
            graph, indices=sources, unweighted=options.get("unweighted", False)
        )
        unreachable = gpudist.UNREACHABLE if "dtype" in options else np.inf
        found = np.where(dist[sources] == unreachable, np.inf, dist[sources])
        np.testing.assert_allclose(found, expected, rtol=rtol)
        edges = np.where(weights == 0, np.inf, 1 if "unweighted" in options else weights)
        walk(edges, dist, pred, unreachable, rtol=rtol)


def test_airports_agree_with_networkx(hops):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    few = hops[:300, :300]
    graph = nx.from_numpy_array(few)
    dist, pred = gpudist.apsp(graph, return_predecessors=True)
    for source in range(0, 300, 25):
        found = nx.single_source_dijkstra_path_length(graph, source)
        reached = np.array(sorted(found))
        np.testing.assert_array_equal(np.flatnonzero(np.isfinite(dist[source])), reached)
        np.testing.assert_allclose(dist[source, reached], [found[j] for j in reached], rtol=1e-13)
        for j in reached:
            path = gpudist.reconstruct_path(pred, source, j)
            assert nx.path_weight(graph, path, "weight") == pytest.approx(found[j], rel=1e-13)


def test_airports_by_their_narrowest_leg(device, hops, rng):
    """The longest leg that cannot be avoided is the one a spanning tree has on the way."""
    tree = csgraph.minimum_spanning_tree(hops).toarray()
    legs = gpudist.apsp(hops, semiring="min_max", directed=False, device=device)
    of_tree = gpudist.apsp(tree, semiring="min_max", directed=False, device=device)
    np.testing.assert_array_equal(legs, of_tree)
    reach = gpudist.transitive_closure(hops, reflexive=True, device=device)
    np.testing.assert_array_equal(reach, legs < np.inf)
    labels = csgraph.connected_components(hops)[1]
    np.testing.assert_array_equal(reach, labels[:, None] == labels)
