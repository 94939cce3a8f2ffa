"""A set of points that is asked for neighbours again and again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpudist import _core, arrays, homes
from gpudist.intake import Orders
from gpudist.neighbors_call import Array, Call, asked_for, read
from gpudist.neighbors_one import KNearest, Neighborhoods, k_nearest, within_radius


class Neighbors:
    """A set of points to be asked for neighbours again and again.

    It has the methods of `sklearn.neighbors.NearestNeighbors`, with their names, arguments and
    shapes, so that code which asks one of those can ask this. Where points are searched by boxes,
    or on the CPU by products, as `knn` says, the first query arranges them, and the set keeps that
    for all others; any number of threads may ask at once. It takes memory beside the copy of `X`,
    on the device that searches: of boxes two to six times as much as that; of products what `X`
    takes in float32, and for cosine and correlation distances what `X` takes once more, for rows of
    unit length.

    Parameters
    ----------
    X : array_like, shape (n, d)
        The points, kept as an array of the dtype that is worked in.
    metric : str or callable
        As for `cdist`.
    n_neighbors : int
        How many neighbours `kneighbors` gives by default.
    radius : float
        The radius of `radius_neighbors` by default.
    device : str, optional
        Where to search among points on the host, as for `knn`; points on a device stay there.
    **metric_args
        Arguments of the metric, as for `cdist`. The defaults of `V` and `VI` are those of `X`.

    Examples
    --------
    >>> import gpudist
    >>> index = gpudist.Neighbors([[0.0], [1.0], [5.0]], "cityblock", n_neighbors=1)
    >>> index.kneighbors([[0.9], [4.0]])
    (array([[0.1],
           [1. ]]), array([[1],
           [2]]))
    """

    def __init__(
        self,
        X: Any,
        metric: str = "euclidean",
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        device: object = None,
        **metric_args: Any,
    ) -> None:
        orders = Orders(device=device)
        call = read(asked_for("Neighbors", X, None, metric, metric_args, orders=orders))
        self._space, self._device = call.space, device
        self._points = (
            np.array(call.points[0], dtype=call.result)
            if call.on_host
            else call.space.copy(call.space.cast(call.points[0], call.result))
        )
        self._metric_args = call.arguments.values
        self.metric = call.metric
        self.n_neighbors, self.radius = n_neighbors, radius
        self.n_samples_fit_, self.n_features_in_ = self._points.shape
        self._kept = _core.keep()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle has: all but what the points are arranged in."""
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy."""
        self.__dict__.update(state)
        self._kept = _core.keep()

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Find the nearest neighbours of points.

        Parameters
        ----------
        X : array_like, shape (m, d), optional
            The points; by default the set's own, none of which is its own neighbour.
        n_neighbors : int, optional
            How many.
        return_distance : bool
            Whether to return the distances as well.

        Returns
        -------
        distances : ndarray, shape (m, n_neighbors)
            Only with `return_distance`.
        indices : ndarray of int64, shape (m, n_neighbors)
            The neighbours' rows, the nearest first.
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        points, among = self._asked(X)
        found = _knn(points, among, self, k)
        return (found.distances, found.indices) if return_distance else found.indices

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find all neighbours of points within a radius.

        Parameters
        ----------
        X : array_like, shape (m, d), optional
            The points; by default the set's own, none of which is its own neighbour.
        radius : float, optional
            The radius, inclusive.
        return_distance : bool
            Whether to return the distances as well.
        sort_results : bool
            Whether the nearest come first; else they come in the set's order.

        Returns
        -------
        distances : ndarray of object, shape (m,)
            An array for each point; only with `return_distance`.
        indices : ndarray of object, shape (m,)
            An array for each point.
        """
        found = self._within(X, radius, sort_results)
        ends = self._space.host(found.indptr).astype(np.int64)
        cuts = [slice(*pair) for pair in pairwise(ends)]
        parts = [
            _ragged([array[cut] for cut in cuts]) for array in (found.distances, found.indices)
        ]
        return tuple(parts) if return_distance else parts[1]

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Give the nearest neighbours of points as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As for `kneighbors`.
        mode : {"connectivity", "distance"}
            What is stored: ones, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix, shape (m, n)
            Rows sorted by distance.
        """
        self._refuse_device("kneighbors_graph")
        distances, indices = self.kneighbors(X, n_neighbors)
        indptr = np.arange(len(indices) + 1) * indices.shape[1]
        return self._graph(distances.ravel(), indices.ravel(), indptr, mode)

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> Any:
        """Give the neighbours of points within a radius as a sparse matrix.

        Parameters
        ----------
        X, radius, sort_results
            As for `radius_neighbors`.
        mode : {"connectivity", "distance"}
            What is stored: ones, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix, shape (m, n)
            Rows sorted by distance with `sort_results`, else by column.
        """
        self._refuse_device("radius_neighbors_graph")
        found = self._within(X, radius, sort_results)
        return self._graph(found.distances, found.indices, found.indptr, mode)

    def _within(self, X: Any, radius: float | None, sort_results: bool) -> Neighborhoods:
        r = self.radius if radius is None else radius
        sort = "distance" if sort_results else "index"
        points, among = self._asked(X)
        return _within(points, among, self, r, sort)

    def _read(self, function: str, points: Any, among: Any) -> Call:
        orders = Orders(device=self._device)
        asked = asked_for(function, points, among, self.metric, self._metric_args, orders=orders)
        return read(asked)._replace(kept=self._kept)

    def _refuse_device(self, name: str) -> None:
        if self._space is not arrays.HOST:
            raise TypeError(f"{name} makes a matrix of SciPy, of points on the host alone")

    def _asked(self, X: Any) -> tuple[Any, Any]:
        """Return the points that are asked for, and those to search among."""
        if X is None:
            return self._points, None
        if self._space is not arrays.HOST or arrays.space_of(X=X) is not arrays.HOST:
            return X, self._points
        return arrays.HOST.array(X, "X").astype(self._points.dtype, copy=False), self._points

    def _graph(self, distances: Array, indices: Array, indptr: Array, mode: str) -> Any:
        from scipy.sparse import csr_matrix

        if mode not in ("connectivity", "distance"):
            raise ValueError(f'mode must be "connectivity" or "distance", got {mode!r}')
        data = distances if mode == "distance" else np.ones_like(distances)
        shape = len(indptr) - 1, self.n_samples_fit_
        return csr_matrix((data, indices, indptr), shape=shape)


@homes.returned("points")
def _knn(points: Any, among: Any, index: Neighbors, k: int) -> KNearest:
    return k_nearest(index._read("knn", points, among), k, None)


@homes.returned("points")
def _within(points: Any, among: Any, index: Neighbors, r: Any, sort: str) -> Neighborhoods:
    return within_radius(index._read("radius_neighbors", points, among), r, None, sort)


def _ragged(parts: list[Any]) -> Array:
    made = np.empty(len(parts), dtype=object)
    for i, part in enumerate(parts):
        made[i] = part
    return made
