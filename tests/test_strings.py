"""Strings are read to their end, and options while they are there."""

import gc

import numpy as np
import pytest
from capsules import Export, Exporter

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7
G = np.array([[0.0, 3, 8], [0, 0, 2], [1, 0, 0]])

TEXTS = {
    "metric": lambda s: gpudist.cdist(A, B, "euclidean" + s),
    "pdist metric": lambda s: gpudist.pdist(A, "euclidean" + s),
    "weighted metric": lambda s: gpudist.cdist(A, B, "euclidean" + s, w=np.ones(3)),
    "kernel": lambda s: gpudist.cdist(A, B, kernel="cdist/cpu_tile_baseline" + s),
    "auto": lambda s: gpudist.cdist(A, B, kernel="auto" + s),
    "reference": lambda s: gpudist.cdist(A, B, kernel="reference" + s),
    "device": lambda s: gpudist.cdist(A, B, device="cpu" + s),
    "cuda": lambda s: gpudist.cdist(A, B, device="cuda" + s),
    "cuda:0": lambda s: gpudist.cdist(A, B, device="cuda:0" + s),
    "dtype": lambda s: gpudist.cdist(A, B, dtype="float64" + s),
    "semiring": lambda s: gpudist.minplus(A, B.T, semiring="min_plus" + s),
    "apsp semiring": lambda s: gpudist.apsp(G, semiring="min_plus" + s),
    "apsp device": lambda s: gpudist.apsp(G, device="cpu" + s),
    "apsp dtype": lambda s: gpudist.apsp(G, dtype="float64" + s),
    "shift": lambda s: gpudist.perron(G + 1, shift="auto" + s),
    "perron device": lambda s: gpudist.perron(G + 1, device="cpu" + s),
    "closure device": lambda s: gpudist.transitive_closure(G, device="cpu" + s),
    "option": lambda s: gpudist.cdist(
        A, B, kernel="cdist/cpu_tile_baseline", options={"block" + s: 1}
    ),
    "op": lambda s: gpudist.kernels("cdist" + s),
    "explain": lambda s: gpudist.explain("cdist" + s, A, B),
    "core metric": lambda s: _core.cdist(A, B, np.empty((4, 5)), "euclidean" + s),
    "core kernel": lambda s: _core.cdist(
        A, B, np.empty((4, 5)), "euclidean", "cdist/cpu_tile_baseline" + s
    ),
    "core auto": lambda s: _core.cdist(A, B, np.empty((4, 5)), "euclidean", "auto" + s),
    "core device": lambda s: _core.cdist(A, B, np.empty((4, 5)), "euclidean", None, "cpu" + s),
    "core semiring": lambda s: _core.minplus(A, A.T, None, np.empty((4, 4)), "min_plus" + s),
    "core op": lambda s: _core.choose("cdist" + s, "float64", "euclidean", 4, 4),
    "core dtype": lambda s: _core.choose("cdist", "float64" + s, "euclidean", 4, 4),
    "core rule": lambda s: _core.apsp(
        G, np.empty((3, 3)), None, "zero" + s, 0, True, False, np.inf
    ),
    "core ceiling": lambda s: _core.ceiling("ceiling/cpu_fma_baseline" + s, 1 << 12, 1),
    "core name": lambda s: _core.describe(Exporter(Export), "XA" + s),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_strings_end_where_python_says(text):
    for tail in ("\0", "\0garbage", "\0" * 3, "\ud800"):
        with pytest.raises((ValueError, TypeError)):
            text(tail)


def test_the_short_way_knows_no_name_with_more_behind_it():
    assert _core.cdist_arrays(A, B, "euclidean") is not None
    for metric, device in (("euclidean\0", None), ("euclidean\0x", None), ("euclidean", "cpu\0")):
        assert _core.cdist_arrays(A, B, metric, None, device) is None


def test_options_that_vanish_while_an_error_names_them():
    class Name(str):
        def __repr__(self):
            options.clear()
            gc.collect()
            return "gone"

    options = {Name("segment"): 1.5 + len("x")}
    with pytest.raises(TypeError, match=r"option gone must be a whole number, got 2\.5"):
        _core.cdist(A, B, np.empty((4, 5)), "euclidean", "cdist/cpu_tile_baseline", options=options)
    options = {Name("segment"): 2**70 + len("x")}
    with pytest.raises(OverflowError, match=f"option gone is too big: {2**70 + 1}"):
        _core.cdist(A, B, np.empty((4, 5)), "euclidean", "cdist/cpu_tile_baseline", options=options)
