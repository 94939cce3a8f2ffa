"""The demo's distances and routes on a cluster of two workers, by Dask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import gpudist
from gpudist._tables import Column, Table, show
from gpudist.demo.errors import DemoError
from gpudist.demo.progress import Stages
from gpudist.demo.sphere import EARTH_RADIUS_KM, Array
from gpudist.measure.wording import duration

_WORKERS = 2
# Bands of rows, and chunks of distances: each worker has some turns at each.
_BANDS = 8
# How often the scheduler looks whether a worker has nothing to do while another has too much.
_LOOK_EVERY = "50ms"


def need_dask(what: str) -> None:
    """Raise a DemoError where Dask, which `what` needs, is not installed."""
    try:
        import dask.array  # noqa: F401
        import distributed  # noqa: F401
    except ImportError as error:
        raise DemoError(
            f'{what} needs {error.name}, which is not installed: pip install ".[dask]"'
        ) from None


@contextmanager
def two_workers(**settings: Any) -> Iterator[Any]:
    """Start two workers, which share the cores, and give a client of theirs.

    A block of distances goes rather to the worker that holds the second operand, so that of eight
    blocks one worker has five or six at first. Dask looks once in a second whether the other one
    has nothing to do, which is half of such a call; here it looks more often.

    Parameters
    ----------
    **settings
        What else `distributed.LocalCluster` is told.

    Yields
    ------
    distributed.Client
        The client.

    Raises
    ------
    DemoError
        Dask is not installed.
    """
    need_dask("a plan for workers")
    import dask
    import distributed

    threads = max(len(os.sched_getaffinity(0)) // _WORKERS, 1)
    # Dask would have each call of gpudist take one thread.
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": threads}),
        dask.config.set({"distributed.scheduler.work-stealing-interval": _LOOK_EVERY}),
        distributed.LocalCluster(
            n_workers=_WORKERS, threads_per_worker=1, dashboard_address=":0", **settings
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def solve(points: Array, range_km: float, stages: Stages) -> tuple[int, Array, Array]:
    """Compute the distances, the hops and the routes on a cluster, and print what went where.

    Parameters
    ----------
    points : ndarray of float64, shape (n, 2)
        Latitudes and longitudes in radians.
    range_km : float
        The longest hop, in kilometres.
    stages : Stages
        Where times are noted.

    Returns
    -------
    hops : int
        The hops within range, each pair of airports counted once.
    lengths, predecessors : ndarrays, shape (n, n)
        As `shortest_routes` gives them.
    """
    import dask.array as da
    import distributed

    n = len(points)
    with ExitStack() as stack:
        with stages.stage("start two workers"):
            client = stack.enter_context(two_workers())
            stream = stack.enter_context(distributed.get_task_stream(client))
        lazy = da.from_array(points, chunks=(-(-n // _BANDS), 2))
        km = gpudist.cdist(lazy, points, "haversine", dtype=np.float32, device="cpu")
        km *= np.float32(EARTH_RADIUS_KM)
        with stages.stage("distances"):
            hops = client.persist(da.where(km > np.float32(range_km), np.float32(np.inf), km))
            distributed.wait(hops)
        with stages.stage("hops in range"):
            within = int(da.isfinite(hops).sum().compute())
        # Infinity marks what is no hop, so that airports in one place, 0 km apart, stay linked.
        routes = gpudist.apsp(hops, no_edge=np.inf, return_predecessors=True, bands=_BANDS)
        with stages.stage("routes"):
            lengths, predecessors = client.gather(client.compute(list(routes)))
        received = client.run(_received)
    _tell(stream.data, received)
    return (within - n) // 2, lengths, predecessors


def _received(dask_worker: Any) -> int:
    return sum(one["total"] for one in dask_worker.transfer_incoming_log)


def _tell(records: Any, received: dict[str, int]) -> None:
    """Print what each worker did, and what came to it from the other."""
    table = Table(
        [
            Column("worker"),
            Column("chunks of distances", right=True),
            Column("tasks of bands", right=True),
            Column("computing", right=True),
            Column("received", right=True),
        ]
    )
    for number, worker in enumerate(sorted(received), 1):
        mine = [record for record in records if record["worker"] == worker]
        keys = [str(record["key"]) for record in mine]
        busy = sum(
            part["stop"] - part["start"]
            for record in mine
            for part in record["startstops"]
            if part["action"] == "compute"
        )
        table.add(
            str(number),
            str(sum("where" in key for key in keys)),
            str(sum("apsp-own" in key or "apsp-other" in key for key in keys)),
            duration(busy),
            f"{received[worker] / 1e6:,.0f} MB",
        )
    print()
    show(table)
