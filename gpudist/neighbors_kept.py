"""A set of points that is asked for neighbours again and again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from gpudist import _core, arrays, checks, errors, foreign, homes, metrics, several_gpus
from gpudist.distance_call import Asked
from gpudist.intake import Orders
from gpudist.neighbors_call import (
    Array,
    Call,
    at_least,
    count_of,
    radii_of,
    read,
)
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
        The points, kept as an array of the dtype that is worked in, to which queries are rounded.
        Results are arrays of the library of the query, of this one's without a query.
    metric : str or callable
        As for `cdist`. That it takes another number of columns is an error here already.
    n_neighbors : int
        How many neighbours `kneighbors` gives by default.
    radius : float
        The radius of `radius_neighbors` by default.
    device : str, optional
        Where to search among points on the host, as for `knn`; points on a device stay there. A GPU
        that searches by other ways than boxes has points on the host sent to it for each query: of
        few rows each, "cpu" or points on the device are quicker. A device that is none, or that
        cannot be used, is an error here already.
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
        metric: str | Callable[..., Any] = "euclidean",
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        device: object = None,
        **metric_args: Any,
    ) -> None:
        orders = Orders(device=device)
        call = read(Asked("Neighbors", {"X": X}, metric, metric_args, orders=orders))
        at_least(n_neighbors, "n_neighbors", 1)
        radii_of(checks.number("radius", radius), call, "radius", None)
        _check_columns(call)
        if not call.slow:
            several_gpus.check(call.asked.orders.device, call.space)
        self._space, self._device = call.space, device
        self._dtype, self._labels = call.result, foreign.labels(X)
        if call.on_host:
            kept = np.array(call.points[0], dtype=call.result)
            self._points = homes.brought(homes.of(X), kept)
        else:
            try:
                self._points = call.space.copy(call.space.cast(call.points[0], call.result))
            except TypeError as error:
                raise TypeError(f"X cannot be kept: {error}") from None
        self._metric_args = call.arguments.values
        self.metric = call.metric
        self.n_neighbors, self.radius = n_neighbors, radius
        self.n_samples_fit_, self.n_features_in_ = self._points.shape
        self._kept = _core.keep()

    def __repr__(self) -> str:
        """Tell how many points there are, and in which metric they are near each other."""
        points = f"{self.n_samples_fit_} points of {self.n_features_in_} columns"
        metric = getattr(self.metric, "__name__", self.metric)
        return f"Neighbors({points} of {self._dtype}, {metric})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle has: all but what is of this process, or made anew."""
        mine = ("_kept", "_space")
        return {name: value for name, value in self.__dict__.items() if name not in mine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy."""
        self.__dict__.update(state)
        self._space = arrays.space_of(X=self._points)
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
        both = checks.truth("return_distance", return_distance)
        found = _knn(self._points if X is None else X, X is None, self, n_neighbors)
        return (found.distances, found.indices) if both else found.indices

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
        both = checks.truth("return_distance", return_distance)
        found = _within(self._points if X is None else X, X is None, self, radius, sort_results)
        ends = self._space.host(found.indptr).astype(np.int64)
        cuts = [slice(*pair) for pair in pairwise(ends)]
        parts = [
            _ragged([array[cut] for cut in cuts]) for array in (found.distances, found.indices)
        ]
        return tuple(parts) if both else parts[1]

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
            Rows sorted by distance. A point that has fewer neighbours, as one with NaN has none,
            has fewer elements.
        """
        self._check_graph("kneighbors_graph", mode)
        distances, indices = self._nearest(X, n_neighbors)
        there = indices >= 0
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        return self._graph(distances[there], indices[there], indptr, mode)

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
        self._check_graph("radius_neighbors_graph", mode)
        found = self._within(X, radius, sort_results)
        return self._graph(found.distances, found.indices, found.indptr, mode)

    def _nearest(self, X: Any, n_neighbors: int | None) -> KNearest:
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        count = count_of(k, self.n_samples_fit_, X is None, "n_neighbors")
        return k_nearest(self._read("knn", X), count, None)

    def _within(self, X: Any, radius: float | None, sort_results: bool) -> Neighborhoods:
        r = self.radius if radius is None else radius
        sort = "distance" if checks.truth("sort_results", sort_results) else "index"
        return within_radius(self._read("radius_neighbors", X), r, None, sort, "radius")

    def _read(self, function: str, X: Any) -> Call:
        """Read a query: of the points that it gives, or of the set's own."""
        named = {"X": self._points}
        if X is not None:
            named = {"X": self._query(X), "the set": self._points}
        orders = Orders(device=self._device)
        asked = Asked(function, named, self.metric, self._metric_args, orders=orders)
        return read(asked)._replace(kept=self._kept)

    def _query(self, X: Any) -> Any:
        """Return the points of a query; those on the host in the dtype of the set."""
        foreign.refuse_other_order([("the set", self._labels), ("X", foreign.labels(X))])
        space = arrays.space_of(X=X)
        points = space.array(X, "X")
        if len(points.shape) != 2:
            raise errors.not_two_dimensional("X", len(points.shape))
        columns = points.shape[1]
        if columns != self.n_features_in_:
            raise ValueError(
                f"X must have as many columns as the set, {self.n_features_in_}, got {columns}"
            )
        on_host = space is arrays.HOST is self._space
        return space.cast(points, self._dtype) if on_host else points

    def _check_graph(self, name: str, mode: str) -> None:
        if self._space is not arrays.HOST:
            raise TypeError(f"{name} makes a matrix of SciPy, of points on the host alone")
        if not isinstance(mode, str) or mode not in ("connectivity", "distance"):
            raise ValueError(f'mode must be "connectivity" or "distance", got {mode!r}')

    def _graph(self, distances: Array, indices: Array, indptr: Array, mode: str) -> Any:
        from scipy.sparse import csr_matrix

        data = distances if mode == "distance" else np.ones_like(distances)
        shape = len(indptr) - 1, self.n_samples_fit_
        return csr_matrix((data, indices, indptr), shape=shape)


@homes.returned("points")
def _knn(points: Any, themselves: bool, index: Neighbors, n_neighbors: int | None) -> KNearest:
    return index._nearest(None if themselves else points, n_neighbors)


@homes.returned("points")
def _within(
    points: Any, themselves: bool, index: Neighbors, radius: Any, sort_results: bool
) -> Neighborhoods:
    return index._within(None if themselves else points, radius, sort_results)


def _check_columns(call: Call) -> None:
    """Raise a ValueError for points of other columns than the metric takes, before any query."""
    needed = 0 if callable(call.metric) else metrics.resolve(call.metric, {}).columns
    found = int(call.points[0].shape[1])
    if needed not in (0, found):
        raise ValueError(f"{call.metric} takes {needed} columns, X has {found}")


def _ragged(parts: list[Any]) -> Array:
    made = np.empty(len(parts), dtype=object)
    for i, part in enumerate(parts):
        made[i] = part
    return made
