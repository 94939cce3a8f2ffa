"""Threads on one device, each on a stream of its own and with a shape of its own, do not disturb
each other.

How much shared memory a kernel may take is one figure for all threads. If a call set it to what it
takes itself, a call of another shape could lower it between that and the launch, which then fails
(CUDA errors 1, 701 and 720)."""

import contextlib
import threading

import numpy as np
import pytest

import gpudist

pytestmark = pytest.mark.gpu

ROUNDS = 40


def cdist(rng, m, n, d, dtype, metric="euclidean", **arguments):
    a, b = rng.random((m, d)).astype(dtype), rng.random((n, d)).astype(dtype)
    return gpudist.cdist, (a, b), {"metric": metric} | arguments


def ladder(rng, m, n, block, batch):
    options = {"block": block, "points_per_thread": batch}
    return cdist(rng, m, n, 2, "f4", kernel="edm2d/5_pipeline", options=options)


def pdist(rng, n, d, dtype):
    return gpudist.pdist, (rng.random((n, d)).astype(dtype),), {}


def weights(rng, m, n, dtype):
    return rng.integers(1, 1000, (m, n)).astype(dtype)


def apsp(rng, n, dtype, **arguments):
    return gpudist.apsp, (weights(rng, n, n, dtype),), arguments


def apsp_with_predecessors(rng, n, dtype):
    return apsp(rng, n, dtype, return_predecessors=True)


def bottlenecks(rng, n, dtype):
    return apsp(rng, n, dtype, semiring="min_max")


def closure(rng, n):
    return gpudist.transitive_closure, (rng.random((n, n)) < 2 / n,), {}


def minplus(rng, m, k, n, dtype):
    return gpudist.minplus, (weights(rng, m, k, dtype), weights(rng, k, n, dtype)), {}


def vector(a, **arguments):
    return gpudist.perron(a, **arguments).vector


def perron(rng, n, dtype):
    return vector, (rng.random((n, n)).astype(dtype) + 0.1,), {}


# Several calls of each operation, whose kernels are the same and whose shared memory is not, or
# whose kernels differ.
CALLS = {
    "products of few float64 rows": [
        (cdist, m, n, d, "f8")
        for m, n, d in (
            (16, 3000, 16),
            (40, 3000, 16),
            (64, 3000, 60),
            (5, 2000, 64),
            (64, 900, 300),
        )
    ],
    "products of float64": [(cdist, 1500, 1200, d, "f8") for d in (16, 40, 64, 200, 700)],
    "products of float32": [
        (cdist, m, n, d, "f4") for m, n, d in ((64, 4000, 64), (1500, 1500, 200), (900, 2500, 33))
    ],
    "cosine": [(cdist, 700, 900, d, t, "cosine") for d in (24, 300) for t in ("f4", "f8")],
    "direct sums": [
        (cdist, m, n, d, t, "cityblock")
        for m, n, d in ((20, 30, 40), (2000, 1500, 24), (2000, 1500, 300))
        for t in ("f4", "f8")
    ],
    "other sums": [
        (cdist, 900, 700, d, t, metric)
        for metric in ("braycurtis", "canberra", "jensenshannon")
        for d in (24, 300)
        for t in ("f4", "f8")
    ],
    "a ladder's step": [
        (ladder, 500, 700, block, batch) for block in (32, 256, 1024) for batch in (1, 4, 8)
    ],
    "pdist": [(pdist, n, d, t) for n, d in ((300, 3), (700, 40), (900, 300)) for t in ("f4", "f8")],
    "paths of few nodes": [
        (apsp, n, t) for n in (130, 390, 700, 1000, 1500, 2000) for t in ("f4", "i4")
    ],
    "paths": [
        (apsp, 2200, "f4"),
        (apsp, 900, "f8"),
        (apsp_with_predecessors, 700, "f4"),
        (apsp, 4200, "i4"),
        (bottlenecks, 1200, "f4"),
    ],
    "closure": [(closure, n) for n in (100, 700, 3000)],
    "minplus": [
        (minplus, m, k, n, t)
        for m, k, n in ((100, 60, 90), (1500, 300, 1700), (2600, 100, 2600))
        for t in ("f4", "f8", "i4")
    ],
    "perron": [(perron, n, t) for n in (60, 700, 2100) for t in ("f4", "f8")],
}


def on_host():
    return contextlib.nullcontext, lambda x: x, lambda x: x, {"device": "cuda"}


def by_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is here without CUDA")

    def put(x):
        moved = torch.as_tensor(x, device="cuda")
        torch.cuda.synchronize()
        return moved

    return lambda: torch.cuda.stream(torch.cuda.Stream()), put, lambda x: x.cpu().numpy(), {}


@pytest.mark.parametrize("arrays", [on_host, by_torch], ids=["host", "torch"])
@pytest.mark.parametrize("name", CALLS)
def test_threads_with_shapes_of_their_own_get_the_bits_of_calls_alone(name, arrays, rng):
    stream, put, get, where = arrays()
    calls = []
    for make, *shape in CALLS[name]:
        function, operands, arguments = make(rng, *shape)
        calls.append((function, [put(x) for x in operands], arguments | where))

    def results(function, operands, arguments):
        got = function(*operands, **arguments)
        return [get(x) for x in (got if isinstance(got, tuple) else (got,))]

    expected = [results(*call) for call in calls]
    start, wrong = threading.Barrier(len(calls)), []

    def work(i):
        try:
            with stream():
                start.wait(60)
                for _ in range(ROUNDS):
                    for x, y in zip(results(*calls[i]), expected[i], strict=True):
                        np.testing.assert_array_equal(x, y)
        except Exception as error:
            wrong.append(f"{CALLS[name][i][1:]}: {error!r}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
