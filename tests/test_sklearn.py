"""Recipes for scikit-learn and UMAP: matrices and neighbours of ours where they take some."""

import numpy as np
import pytest

import gpudist

cluster = pytest.importorskip("sklearn.cluster")
from scipy.spatial import cKDTree  # noqa: E402
from sklearn.datasets import load_digits, make_blobs, make_swiss_roll  # noqa: E402
from sklearn.manifold import Isomap  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, kneighbors_graph  # noqa: E402


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(200, centers=4, cluster_std=0.4, random_state=0)


@pytest.mark.parametrize("metric", ["cityblock", "canberra"])
def test_nearest_neighbours(blobs, metric):
    x, _ = blobs
    ours = NearestNeighbors(n_neighbors=5, metric="precomputed")
    ours.fit(gpudist.cdist(x, x, metric))
    theirs = NearestNeighbors(n_neighbors=5, metric=metric, algorithm="brute").fit(x)
    queries = x[:20] + 0.01
    found = ours.kneighbors(gpudist.cdist(queries, x, metric))
    expected = theirs.kneighbors(queries)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_array_equal(found[1], expected[1])


def check_theirs(found, distances, of):
    """Neighbours are as far as those of others, and the first of those that are equally far."""
    np.testing.assert_allclose(found.distances, distances, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(of(found.indices), found.distances, rtol=1e-7, atol=1e-12)
    assert (np.diff(found.indices)[np.diff(found.distances) == 0] > 0).all()


def test_pictures_of_digits():
    """Of whole numbers, so that many are equally far."""
    x = load_digits().data
    theirs = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x)
    tree = cKDTree(x)
    for asked in (x[:300] + 0.25, x):
        found = gpudist.knn(asked, x, 10)
        of = lambda at, a=asked: np.linalg.norm(a[:, None] - x[at], axis=2)  # noqa: E731
        check_theirs(found, theirs.kneighbors(asked)[0], of)
        check_theirs(found, tree.query(asked, 10)[0], of)


def test_airports():
    data = pytest.importorskip("airportsdata", reason="airportsdata is missing").load()
    x = np.radians([(one["lat"], one["lon"]) for one in data.values()])[::7]
    distances, _ = NearestNeighbors(metric="haversine").fit(x).kneighbors(x[:500], 8)
    found = gpudist.knn(x[:500], x, 8, "haversine")
    whole = gpudist.cdist(x[:500], x, "haversine")
    check_theirs(found, distances, lambda at: np.take_along_axis(whole, at, 1))


def test_atoms_of_a_molecule():
    chem = pytest.importorskip("rdkit.Chem.AllChem", reason="rdkit is missing")
    molecule = chem.AddHs(chem.MolFromSmiles("COc1ccc2nccc(c2c1)C(C1CC2CCN1CC2C=C)O"))
    assert chem.EmbedMolecule(molecule, randomSeed=1) == 0
    x = molecule.GetConformer().GetPositions()
    distances, indices = cKDTree(x).query(x, 5)
    found = gpudist.knn(x, k=4)
    np.testing.assert_allclose(found.distances, distances[:, 1:], rtol=1e-12)
    np.testing.assert_array_equal(found.indices, indices[:, 1:])
    near = gpudist.radius_neighbors(x, r=1.7)
    theirs = cKDTree(x).query_ball_point(x, 1.7, return_sorted=True)
    for i, row in enumerate(theirs):
        ours = near.indices[near.indptr[i] : near.indptr[i + 1]]
        np.testing.assert_array_equal(ours, [j for j in row if j != i])


def test_dbscan(blobs):
    x, _ = blobs
    ours = cluster.DBSCAN(eps=0.6, metric="precomputed").fit(gpudist.cdist(x, x))
    theirs = cluster.DBSCAN(eps=0.6).fit(x)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert len(set(ours.labels_) - {-1}) >= 4


def test_agglomerative_clustering(blobs):
    x, labels = blobs
    ours = cluster.AgglomerativeClustering(4, metric="precomputed", linkage="average")
    theirs = cluster.AgglomerativeClustering(4, metric="cityblock", linkage="average")
    ours.fit(gpudist.cdist(x, x, "cityblock"))
    np.testing.assert_array_equal(ours.labels_, theirs.fit(x).labels_)
    # One cluster a blob, whatever the clusters are called.
    assert len(set(zip(ours.labels_, labels, strict=True))) == 4


def test_isomap():
    x, _ = make_swiss_roll(300, random_state=0)
    theirs = Isomap(n_neighbors=8, path_method="FW").fit(x)
    # Isomap joins neighbours both ways and takes the shortest path.
    near = kneighbors_graph(x, 8, mode="distance")
    paths = gpudist.apsp(near, directed=False)
    np.testing.assert_allclose(paths, theirs.dist_matrix_, rtol=1e-12)
    # What Isomap does with the paths: a kernel PCA of their squares, centred.
    centred = -0.5 * paths**2
    centred -= centred.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(centred)
    embedded = (vectors * np.sqrt(np.maximum(values, 0)))[:, :-3:-1]
    np.testing.assert_allclose(np.abs(embedded), np.abs(theirs.embedding_), atol=1e-6)


def test_clustering_by_neighbours_within_a_radius(blobs):
    x, _ = blobs
    near = gpudist.Neighbors(x).radius_neighbors_graph(x, 0.6, mode="distance", sort_results=True)
    ours = cluster.DBSCAN(eps=0.6, metric="precomputed").fit(near)
    np.testing.assert_array_equal(ours.labels_, cluster.DBSCAN(eps=0.6).fit(x).labels_)


def test_clustering_by_densities(blobs):
    x, _ = blobs
    near = gpudist.Neighbors(x).kneighbors_graph(x, 60, mode="distance")
    ours = cluster.HDBSCAN(metric="precomputed", min_cluster_size=10, copy=True)
    theirs = cluster.HDBSCAN(min_cluster_size=10, copy=True)
    np.testing.assert_array_equal(ours.fit(near.maximum(near.T)).labels_, theirs.fit(x).labels_)


def test_estimators_take_graphs_of_neighbours(blobs):
    x, labels = blobs
    index = gpudist.Neighbors(x[:150], "cityblock", n_neighbors=7)
    ours = KNeighborsClassifier(7, metric="precomputed")
    ours.fit(index.kneighbors_graph(x[:150], mode="distance"), labels[:150])
    theirs = KNeighborsClassifier(7, metric="cityblock").fit(x[:150], labels[:150])
    asked = index.kneighbors_graph(x[150:], mode="distance")
    np.testing.assert_allclose(ours.predict_proba(asked), theirs.predict_proba(x[150:]))
    roll, _ = make_swiss_roll(300, random_state=0)
    near = gpudist.Neighbors(roll).kneighbors_graph(roll, 12, mode="distance")
    paths = Isomap(n_neighbors=11, metric="precomputed").fit(near).dist_matrix_
    np.testing.assert_allclose(paths, Isomap(n_neighbors=11).fit(roll).dist_matrix_)


@pytest.mark.filterwarnings("ignore")  # UMAP warns of what its own dependencies do
def test_umap_takes_neighbours():
    umap = pytest.importorskip("umap", reason="umap-learn is missing")
    x = np.random.default_rng(0).random((300, 8))
    found = gpudist.knn(x, x, 10)
    known = found.indices, found.distances, None
    settings = {"n_neighbors": 10, "n_epochs": 0, "random_state": 0}
    ours = umap.UMAP(precomputed_knn=known, **settings).fit(x).graph_
    theirs = umap.UMAP(**settings).fit(x).graph_  # of so few points it compares all
    assert abs(ours - theirs).max() < 1e-4 and ours.nnz == theirs.nnz
