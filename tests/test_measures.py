"""gpudist.measures beside NetworkX's functions of the same names."""

import re

import numpy as np
import pytest

import gpudist
from gpudist import measures

NAMES = ["diameter", "radius", "center", "periphery"]


@pytest.fixture
def nx():
    return pytest.importorskip("networkx", reason="networkx is not installed")


def graphs(nx, rng):
    """Connected and unconnected, directed and not; of distances that add up exactly."""
    for n, density in ((2, 1.0), (9, 0.4), (40, 0.12), (40, 0.03)):
        for kind in (nx.Graph, nx.DiGraph):
            g = kind()
            g.add_nodes_from(f"node {i}" for i in range(n))
            names = list(g)
            for i, j in np.argwhere(rng.random((n, n)) < density):
                if i != j:
                    g.add_edge(names[i], names[j], weight=int(rng.integers(1, 9)))
            yield g


def in_order(g, values):
    return [values[node] for node in g]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_agrees_with_networkx(nx, dtype, rng):
    connected = 0
    for g in graphs(nx, rng):
        found = gpudist.apsp(g, dtype=dtype, labels=True)
        weight = {"weight": "weight"}
        close = nx.closeness_centrality(g, distance="weight")
        np.testing.assert_allclose(
            measures.closeness_centrality(found), in_order(g, close), rtol=1e-14
        )
        plain = nx.closeness_centrality(g, distance="weight", wf_improved=False)
        np.testing.assert_allclose(
            measures.closeness_centrality(found, wf_improved=False), in_order(g, plain), rtol=1e-14
        )
        harmonic = nx.harmonic_centrality(g, distance="weight")
        np.testing.assert_allclose(
            measures.harmonic_centrality(found), in_order(g, harmonic), rtol=1e-13
        )
        index = measures.wiener_index(found, directed=g.is_directed())
        assert index == nx.wiener_index(g, **weight)
        whole = nx.is_strongly_connected(g) if g.is_directed() else nx.is_connected(g)
        if not whole:
            for name in [*NAMES, "eccentricity", "average_shortest_path_length"]:
                with pytest.raises(measures.DisconnectedError, match="not connected"):
                    getattr(measures, name)(found)
            continue
        connected += 1
        far = nx.eccentricity(g, **weight)
        assert measures.eccentricity(found).tolist() == in_order(g, far)
        for name in NAMES:
            assert getattr(measures, name)(found) == getattr(nx, name)(g, **weight), name
        mean = nx.average_shortest_path_length(g, **weight)
        assert measures.average_shortest_path_length(found) == pytest.approx(mean, rel=1e-14)
        positions = measures.center(found.dist)
        assert [found.nodes[i] for i in positions] == measures.center(found)
    assert connected > 2


def test_edges_of_the_definitions():
    one = np.zeros((1, 1))
    assert measures.diameter(one) == measures.radius(one) == 0 and measures.center(one) == [0]
    assert measures.average_shortest_path_length(one) == 0 == measures.wiener_index(one)
    assert measures.closeness_centrality(one).tolist() == [0]
    none = np.zeros((0, 0))
    for name in ("eccentricity", "diameter", "average_shortest_path_length"):
        with pytest.raises(ValueError, match="without nodes"):
            getattr(measures, name)(none)
    assert measures.harmonic_centrality(none).shape == (0,)
    with pytest.raises(ValueError, match="square"):
        measures.diameter(np.zeros((2, 3)))
    assert measures.wiener_index([[0.0, 1.0], [2.0, 0.0]]) == 3
    assert measures.wiener_index([[0, np.inf], [np.inf, 0]]) == np.inf
    with pytest.raises(TypeError, match="dist must be distances, got an array of bool"):
        measures.diameter(np.ones((2, 2), bool))


def test_graphs_are_no_distances(nx):
    """And their matrices, which others advise to make of them, are none either."""
    sparse = pytest.importorskip("scipy.sparse")
    path = nx.path_graph(3)
    for graph in (path, nx.to_dict_of_dicts(path), sparse.csr_array(nx.to_numpy_array(path))):
        with pytest.raises(TypeError, match=r"this is a graph: gpudist\.apsp computes them"):
            measures.diameter(graph)
    with pytest.raises(TypeError, match=r"give dist\[0\]"):
        measures.diameter(gpudist.apsp(path, return_predecessors=True))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint8"])
def test_narrow_integers_have_no_path_as_well(dtype):
    apart = gpudist.apsp([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=dtype)
    with pytest.raises(ValueError, match="infinite path length"):
        measures.diameter(apart)
    assert measures.wiener_index(apart) == np.inf
    assert measures.closeness_centrality(apart).tolist() == [0.5, 0.5, 0]
    assert measures.diameter(gpudist.apsp([[0, 5], [5, 0]], dtype=dtype)) == 5


def test_longest_paths_in_int32_have_no_path_as_well():
    apart = gpudist.apsp([[0, 1, 0], [0, 0, 2], [0, 0, 0]], semiring="max_plus", dtype="int32")
    assert apart.min() == -(2**31)
    for dist in (apart, apart.astype(np.int64)):
        with pytest.raises(measures.DisconnectedError, match="infinite path length"):
            measures.eccentricity(dist)
        assert measures.wiener_index(dist) == np.inf
        assert measures.harmonic_centrality(dist).tolist() == [0, 1, 1 / 3 + 1 / 2]


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64"])
def test_long_integers_are_distances(dtype):
    far = 2**31 + 5
    dist = np.array([[0, far], [far, 0]], dtype)
    assert measures.diameter(dist) == far and measures.wiener_index(dist) == far
    assert measures.closeness_centrality(dist).tolist() == [1 / far, 1 / far]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_on_the_device(dtype, rng):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    w = rng.integers(1, 9, (50, 50)).astype(float)
    dist = gpudist.apsp(w, dtype=dtype)
    there = torch.as_tensor(dist, device="cuda")
    for name in set(measures.__all__) - {"DisconnectedError"}:
        mine, theirs = getattr(measures, name)(there), getattr(measures, name)(dist)
        if isinstance(mine, torch.Tensor):
            assert mine.is_cuda
            mine = mine.cpu().numpy()
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_many_paths_at_once(rng):
    w = rng.integers(1, 9, (60, 60)).astype(float)
    w[rng.random((60, 60)) > 0.05] = 0
    dist, pred = gpudist.apsp(w, return_predecessors=True)
    sources, targets = np.nonzero(np.isfinite(dist))
    order = rng.permutation(len(sources))
    sources, targets = sources[order], targets[order]
    indptr, nodes = gpudist.reconstruct_paths(pred, sources, targets)
    assert indptr.dtype == np.int64 and nodes.dtype == np.int32 and len(nodes) == indptr[-1]
    for k in range(len(sources)):
        path = gpudist.reconstruct_path(pred, sources[k], targets[k])
        assert nodes[indptr[k] : indptr[k + 1]].tolist() == path
    none = gpudist.reconstruct_paths(pred, [], [])
    assert none[0].tolist() == [0] and len(none[1]) == 0
    named = gpudist.apsp(w, labels=True, return_predecessors=True)
    np.testing.assert_array_equal(gpudist.reconstruct_paths(named, sources, targets)[1], nodes)


def test_many_paths_by_the_names_of_nodes():
    """Whole numbers are names too, and not positions; so are tuples."""
    for names in ([2, 0, 1], ["c", "a", "b"], [(0, 1), (1, 0), (1, 1)]):
        x, y, z = names
        paths = gpudist.apsp({x: {y: 1.0}, y: {z: 2.0}}, labels=True, return_predecessors=True)
        assert paths.nodes == names
        indptr, nodes = gpudist.reconstruct_paths(paths, [x, y, z], z)
        assert indptr.tolist() == [0, 3, 5, 6] and nodes.tolist() == [x, y, z, y, z, z]
        for one in (x, [x], (x,)):
            assert gpudist.reconstruct_paths(paths, one, [y])[1].tolist() == [x, y]
        with pytest.raises(gpudist.NoPathError, match=re.escape(f"from {z!r} to {x!r}")):
            gpudist.reconstruct_paths(paths, [x, z], [y, x])
        with pytest.raises(KeyError, match="'d' is not a node of this graph"):
            gpudist.reconstruct_paths(paths, [x], ["d"])
    many = gpudist.reconstruct_paths(paths, [], [])
    assert many[0].tolist() == [0] and len(many[1]) == 0
    with pytest.raises(TypeError, match="no name of one node"):
        gpudist.reconstruct_paths(paths, [[x]], [y])
    with pytest.raises(KeyError, match="3 is not a node"):
        gpudist.reconstruct_paths(paths, 3, [y])


def test_many_paths_that_are_none():
    pred = gpudist.apsp([[0, 1, 0], [0, 0, 1], [0, 0, 0]], return_predecessors=True)[1]
    with pytest.raises(gpudist.NoPathError, match="no path from 2 to 0"):
        gpudist.reconstruct_paths(pred, [0, 2], [2, 0])
    with pytest.raises(IndexError, match="targets has 3"):
        gpudist.reconstruct_paths(pred, 0, [1, 3])
    with pytest.raises(IndexError, match="sources has -1"):
        gpudist.reconstruct_paths(pred, -1, [1])
    with pytest.raises(ValueError, match="of one length, got 2 and 3"):
        gpudist.reconstruct_paths(pred, [0, 1], [0, 1, 2])
    with pytest.raises(TypeError, match="whole numbers"):
        gpudist.reconstruct_paths(pred, [0.5], [1])
    with pytest.raises(
        TypeError, match=r"in one dimension, got an array of int64 of shape \(1, 1\)"
    ):
        gpudist.reconstruct_paths(pred, [[0]], [1])
    circle = np.array([[-9999, 2, 1]] * 3)
    with pytest.raises(ValueError, match="circle"):
        gpudist.reconstruct_paths(circle, 0, 1)
    with pytest.raises(ValueError, match="no such nodes"):
        gpudist.reconstruct_paths(np.array([[-9999, 7], [0, -9999]]), 0, 1)
    with pytest.raises(ValueError, match="return_predecessors=True"):
        gpudist.reconstruct_paths(gpudist.apsp({0: {1: 1}}, labels=True), 0, 1)
