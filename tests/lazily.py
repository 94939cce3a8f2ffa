"""What the tests of Dask arrays share: results compared, and where they are computed."""

import contextlib

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install '.[dask]'")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

# Workers meet at ports, whose sockets are closed when the garbage is collected.
MARKS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # Zarr of early 2025 beside numcodecs of 2026.
    pytest.mark.filterwarnings("ignore:crc32c usage is deprecated:DeprecationWarning"),
]


def in_this_process():
    """Compute one task after the other, unless a test says otherwise."""
    return dask.config.set(scheduler="synchronous")


@contextlib.contextmanager
def two_workers():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="2 GiB"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def same(lazy, expected):
    """Compare bits, and what Dask said about the result before it was computed."""
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert lazy.dtype == lazy._meta.dtype == expected.dtype
    assert type(lazy._meta) is type(expected)
    got = lazy.compute()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def small_chunks(**also):
    return dask.config.set({"array.chunk-size": "16 kiB", **also})


def roads(rng, n, density=0.05, low=0.0):
    w = rng.uniform(low, 1, size=(n, n))
    w[rng.random((n, n)) >= density] = 0
    return w
