"""Dask arrays in, lazy Dask arrays out: gpudist on more than one machine, or more than memory.

`gpudist.cdist` and its like come here by themselves where an operand is a Dask array, and hand over
the record of their call. Distances and products are computed in blocks of rows, each by
one call of gpudist on a worker; shortest paths in bands of rows, which take turns.
"""

from gpudist.dask.blocks import cdist, knn, minplus, nearest, pdist
from gpudist.dask.paths import apsp, transitive_closure

__all__ = ["apsp", "cdist", "knn", "minplus", "nearest", "pdist", "transitive_closure"]
