"""One call that several GPUs share: the bits of one, its refusals, and how it ends.

Where there are no two GPUs, one plays them all; without any the CPU does.
"""

import signal
import sys
import threading
import time

import numpy as np
import pytest

import gpudist
from gpudist import _core, several_gpus


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """Let a device play three GPUs, and name them."""
    monkeypatch.setattr(several_gpus, "of", lambda named: (request.param,) * 3)
    return request.param


def points(rows, columns, seed=0, dtype="float64"):
    return (np.random.default_rng(seed).random((rows, columns)) + 0.1).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "seuclidean", "cosine", "hamming"])
def test_distances_have_the_bits_of_one_gpu(device, metric, dtype):
    a, b = points(1301, 33, 0, dtype), points(257, 33, 1, dtype)
    one = gpudist.cdist(a, b, metric, device=device)
    several = gpudist.cdist(a, b, metric, device="cuda:all")
    assert several.dtype == one.dtype and several.tobytes() == one.tobytes()


@pytest.mark.parametrize("rows", [0, 1, 127, 129])
def test_few_rows_are_enough(device, rows):
    a, b = points(rows, 5), points(7, 5)
    assert np.array_equal(
        gpudist.cdist(a, b, device="cuda:0,1"), gpudist.cdist(a, b, device=device)
    )


def test_results_go_where_the_caller_wants_them(device):
    a, b = points(900, 12), points(40, 12, 1)
    one = gpudist.cdist(a, b, device=device)
    out = np.zeros((900, 40))
    assert gpudist.cdist(a, b, out=out, device="cuda:all") is out
    assert np.array_equal(out, one)
    out[:] = -1
    gpudist.cdist(a, b, out=out, rows=slice(200, 800), device="cuda:all")
    assert np.array_equal(out[200:800], one[200:800])
    assert (out[:200] == -1).all() and (out[800:] == -1).all()
    half = gpudist.cdist(a, b, dtype="float16", device="cuda:all")
    assert np.array_equal(half, gpudist.cdist(a, b, dtype="float16", device=device))


def test_what_is_written_is_not_read_again(device):
    x = points(600, 600)
    one = gpudist.cdist(x, x, "cityblock", w=x[5], device=device)
    assert np.array_equal(gpudist.cdist(x, x, "cityblock", w=x[5], out=x, device="cuda:all"), one)
    x = points(600, 600)
    one = gpudist.minplus(x, x, device=device)
    assert np.array_equal(gpudist.minplus(x, x, out=x, device="cuda:all"), one)


@pytest.mark.parametrize("semiring", ["min_plus", "max_min", "or_and"])
def test_products_have_the_bits_of_one_gpu(device, semiring):
    a, b, c = points(700, 90), points(90, 65, 1), points(700, 65, 2)
    if semiring == "or_and":
        a, b, c = a > 0.9, b > 0.9, c > 0.9
    for third in (None, c):
        one = gpudist.minplus(a, b, third, semiring=semiring, device=device)
        several = gpudist.minplus(a, b, third, semiring=semiring, device="cuda:all")
        assert several.dtype == one.dtype and np.array_equal(several, one)
    kept = c.copy()
    gpudist.minplus(a, b, c, semiring=semiring, out=c, device="cuda:all")
    assert np.array_equal(c, gpudist.minplus(a, b, kept, semiring=semiring, device=device))


def test_the_calling_thread_is_told_how_far_they_are(device):
    told = []

    def tell(done, total):
        told.append((done, total, threading.current_thread()))

    gpudist.cdist(points(3000, 8), points(800, 8), device="cuda:all", progress=tell)
    assert told[-1][:2] == (3000 * 800 * 8,) * 2
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    assert {thread for *_, thread in told} == {threading.current_thread()}


def test_an_error_of_one_ends_all(device):
    a, b = np.ones((1000, 2), np.int32), np.zeros((2, 3), np.int32)
    assert (gpudist.minplus(a, b, device="cuda:all") == 1).all()
    a[700:] = 2**28
    with pytest.raises(ValueError, match="sums in int32 do not take") as caught:
        gpudist.minplus(a, b, device="cuda:all")
    assert not any(map(takes_panels, sys._current_frames().values()))
    assert caught.value.rows_complete <= 700


def takes_panels(frame):
    """Tell whether a thread that is at this frame takes panels."""
    of_panels = several_gpus._Work.take_panels.__code__
    return frame is not None and (frame.f_code is of_panels or takes_panels(frame.f_back))


def _interrupt(done, total):
    raise KeyboardInterrupt


def test_ctrl_c_says_what_is_complete(device):
    columns = 256 if device == "cpu" else 4096  # long enough to be heard of before the end
    a, b = points(6000, columns), points(2000, columns, 1)
    out = np.full((6000, 2000), -1.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        gpudist.cdist(a, b, "jensenshannon", out=out, device="cuda:all", progress=_interrupt)
    assert not any(map(takes_panels, sys._current_frames().values()))
    complete = caught.value.rows_complete
    one = gpudist.cdist(a[:complete], b, "jensenshannon", device=device)
    assert complete < 6000 and np.array_equal(out[:complete], one)
    assert device != "cpu" or (out[:1500] == -1).any()  # none of the first panels was finished


@pytest.mark.parametrize("own", [30.0, 0.0])
def test_ctrl_c_is_heard_while_the_calling_thread_computes_and_while_it_waits(own):
    """Its own panel takes so many seconds, the other one's any time."""
    both, ended = threading.Barrier(2), {}

    def compute(device, start, stop, tell):
        both.wait()
        end = time.monotonic() + (own if device == "cuda:0" else 30.0)
        try:
            while time.monotonic() < end:
                time.sleep(0.001)
                tell(0, 1)
        finally:
            ended[device] = start

    task = several_gpus.Task("cdist", [(0, 100), (100, 200)], 1, compute)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        several_gpus.share(task, ("cuda:0", "cuda:1"), False)
    timer.join()
    assert ended.keys() == {"cuda:0", "cuda:1"}
    assert caught.value.rows_complete == (0 if own or ended["cuda:0"] else 100)


def test_one_panel_takes_no_other_thread():
    """The calling thread takes panels too, and no thread is begun for those that are not there."""
    threads = []

    def compute(device, start, stop, tell):
        threads.append(threading.current_thread())

    for rows in (0, 5, 128):
        panels = several_gpus.panels(rows, 3, 1)
        several_gpus.share(several_gpus.Task("cdist", panels, 1, compute), ("cuda:0",) * 3, False)
    assert threads == [threading.current_thread()] * 2


def test_rows_of_a_stopped_panel_count():
    def compute(device, start, stop, tell):
        if start == 100:
            error = RuntimeError("stopped")
            error.rows_complete = 7
            raise error

    task = several_gpus.Task("cdist", [(0, 100), (100, 200), (200, 300)], 1, compute)
    with pytest.raises(RuntimeError, match="stopped") as caught:
        several_gpus.share(task, ("cuda:0",), False)
    assert caught.value.rows_complete == 107


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "seuclidean", "jaccard"])
def test_pairs_have_the_bits_of_one_gpu(device, metric, dtype):
    for rows, columns in [(0, 3), (1, 3), (2, 3), (1301, 33), (2500, 3)]:
        x = points(rows, columns, 0, dtype)
        x[: rows // 2, 0] = 0
        if metric == "seuclidean" and rows < 2:
            continue
        one = gpudist.pdist(x, metric, device=device)
        several = gpudist.pdist(x, metric, device="cuda:all")
        assert several.dtype == one.dtype and several.tobytes() == one.tobytes()


def test_pairs_in_little_memory_and_in_their_place(device):
    x = points(1500, 20)
    one = gpudist.pdist(x, device=device)
    out = np.full(one.shape, -1.0)
    assert gpudist.pdist(x, out=out, max_memory=1 << 21, device="cuda:all") is out
    assert np.array_equal(out, one)
    half = gpudist.pdist(x, dtype="float16", device="cuda:all")
    assert np.array_equal(half, gpudist.pdist(x, dtype="float16", device=device))
    told = []
    gpudist.pdist(x, device="cuda:all", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (one.size * 20,) * 2


def test_pairs_that_fail_say_nothing_of_rows(device, monkeypatch):
    monkeypatch.setattr(several_gpus, "_LOOK", 0.001)
    x = points(4000, 128)
    with pytest.raises(KeyboardInterrupt) as caught:
        gpudist.pdist(x, "jensenshannon", device="cuda:all", progress=_interrupt)
    assert not hasattr(caught.value, "rows_complete")


def same(one, several):
    for a, b in zip(one, several, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
@pytest.mark.parametrize("alone", [True, False])
def test_neighbours_are_those_of_one_gpu(device, metric, alone):
    a = points(901, 4, 0, "float32")
    b = None if alone else points(333, 4, 1, "float32")
    r = 0.9 if metric == "inner_product" else 0.1
    radii = np.sort([r, r / 2, r / 3])[:: -1 if metric == "inner_product" else 1]
    for call in (
        lambda on: gpudist.nearest(a, b, metric, device=on),
        lambda on: gpudist.knn(a, b, 5, metric, device=on),
        lambda on: gpudist.knn(a, b, 3, metric, rows=slice(100, 800), index_dtype="i4", device=on),
        lambda on: gpudist.radius_neighbors(a, b, r, metric, device=on),
        lambda on: gpudist.radius_neighbors(
            a, b, np.linspace(0, r, 901), metric, max_neighbors=2, sort="distance", device=on
        ),
        lambda on: [gpudist.count_neighbors(a, b, radii, metric, device=on)],
        lambda on: [gpudist.count_neighbors(a, b, radii[0], metric, device=on)],
    ):
        same(call(device), call("cuda:all"))


@pytest.mark.gpu
def test_many_points_are_brought_together():
    """Each of two brings a half of 40 MB and sends it to the other one, or to itself."""
    own = several_gpus.of("cuda:all")[:2]
    x, q = points(80_001, 128, 0, "float32"), points(300, 128, 1, "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(several_gpus, "of", lambda named: own if len(own) == 2 else own * 2)
        for call in (
            lambda on: gpudist.knn(q, x, 3, device=on),
            lambda on: gpudist.knn(x, k=3, rows=slice(79_000, None), device=on),
            lambda on: gpudist.radius_neighbors(q, np.flip(x, 1)[:, ::-1], 3.5, device=on),
            lambda on: [gpudist.count_neighbors(q, x, [3.5], device=on)],
        ):
            same(call(own[0]), call("cuda:all"))
        _core.refuse_peers(True)
        try:
            same(gpudist.knn(q, x, 3, device=own[0]), gpudist.knn(q, x, 3, device="cuda:all"))
        finally:
            _core.refuse_peers(False)


def test_neighbours_go_where_the_caller_wants_them(device):
    a, b = points(700, 6), points(90, 6, 1)
    one = gpudist.knn(a, b, 4, device=device)
    out = np.zeros((700, 4)), np.zeros((700, 4), np.int64)
    found = gpudist.knn(a, b, 4, out=out, device="cuda:0,1")
    assert found[0] is out[0] and found[1] is out[1]
    same(one, out)
    told = []
    gpudist.knn(a, b, 4, device="cuda:all", progress=lambda *x: told.append(x))
    assert told[-1] == (700 * 90 * 6,) * 2


def test_no_rows_have_no_neighbours(device):
    a, b = points(0, 3), points(9, 3)
    assert gpudist.knn(a, b, 2, device="cuda:all").indices.shape == (0, 2)
    found = gpudist.radius_neighbors(a, b, 1.0, device="cuda:all")
    same(gpudist.radius_neighbors(a, b, 1.0, device=device), found)
    assert gpudist.count_neighbors(a, b, [1.0], device="cuda:all").tolist() == [0]


def test_a_search_that_fails_ends_on_all(device, monkeypatch):
    monkeypatch.setattr(several_gpus, "_LOOK", 0.001)
    x = points(3000, 128)
    with pytest.raises(KeyboardInterrupt) as caught:
        gpudist.knn(x, k=3, metric="jensenshannon", device="cuda:all", progress=_interrupt)
    assert not any(map(takes_panels, sys._current_frames().values()))
    assert not hasattr(caught.value, "rows_complete")


def test_sums_of_weights_are_of_one_gpu():
    x = points(40, 3)
    with pytest.raises(ValueError, match="must name one GPU, 'cuda:N', for weights"):
        gpudist.count_neighbors(x, radii=[0.1], weights=np.ones(40), device="cuda:all")


def test_panels_have_pairs_alike():
    for rows in (0, 1, 2, 128, 129, 300, 5003, 100_000):
        for count in (1, 2, 5):
            parts = several_gpus.panels_of_pairs(rows, count, 4)
            assert [i for start, stop in parts for i in range(start, stop)] == [*range(rows)]
    pairs = [(stop - start) * (2 * 100_000 - start - stop) / 2 for start, stop in parts]
    assert len(parts) == 20 and max(pairs) < 1.01 * min(pairs)


def test_panels_have_all_rows_once():
    for rows in (0, 1, 128, 129, 1000, 5003, 100_000):
        for count in (1, 2, 5):
            parts = several_gpus.panels(rows, count, 4)
            assert [i for start, stop in parts for i in range(start, stop)] == [*range(rows)]
            assert rows < 10_000 or len(parts) >= 4 * count


@pytest.mark.parametrize(
    ("size", "again", "each"),
    [
        *((0, 0, 1), (1 << 30, 0, 1), (8 << 30, 0, 2), (15 << 30, 0, 3), (40 << 30, 0, 4)),
        *((40 << 30, 64 << 20, 4), (40 << 30, 300 << 20, 2), (40 << 30, 1 << 30, 1)),
    ],
)
def test_panels_are_large(size, again, each):
    assert several_gpus.panels_each(size, 2, again) == each


@pytest.mark.parametrize(
    "call",
    [
        lambda x: gpudist.apsp(x[None], device="cuda:0,1"),
        lambda x: gpudist.transitive_closure(x, device="cuda:all"),
        lambda x: gpudist.perron(x, device="cuda:all"),
        lambda x: gpudist.cdist(x[None], x, device="cuda:all"),
        lambda x: gpudist.minplus(x[None], x[None], device="cuda:all"),
        lambda x: gpudist.explain("apsp", x[None], device="cuda:all"),
    ],
)
def test_what_runs_on_one_gpu_says_so(call):
    with pytest.raises(ValueError, match="device must name one GPU, 'cuda:N', for"):
        call(points(4, 4))


def test_without_cuda_they_are_refused():
    if gpudist.cuda.is_available():
        pytest.skip("CUDA can be used here")
    with pytest.raises(gpudist.DeviceError, match="CUDA cannot be used"):
        gpudist.apsp(points(3, 3), device="cuda:all")
    for call in (gpudist.cdist, gpudist.minplus, gpudist.nearest):
        with pytest.raises(gpudist.DeviceError, match="CUDA cannot be used"):
            call(points(3, 3), points(3, 3), device="cuda:all")
    with pytest.raises(gpudist.DeviceError, match="CUDA cannot be used"):
        gpudist.pdist(points(3, 3), device="cuda:all")


def test_gpus_are_named_as_they_are(monkeypatch):
    kinds = ["A", "B", "A"]
    there = [gpudist.cuda.Device(i, kind, "9.0", 1, 1, 1) for i, kind in enumerate(kinds)]
    monkeypatch.setattr(gpudist.cuda, "why_not", lambda: None)
    monkeypatch.setattr(gpudist.cuda, "devices", lambda: tuple(there))
    assert several_gpus.of("cuda:all") == ("cuda:0", "cuda:2")
    assert several_gpus.of("cuda:2,1") == ("cuda:2", "cuda:1")
    with pytest.raises(ValueError, match="names a GPU twice"):
        several_gpus.of("cuda:1,1")
    with pytest.raises(ValueError, match="from 0 to 2, got 'cuda:0,3'"):
        several_gpus.of("cuda:0,3")
    for text in ("cuda:", "cuda:0", "cuda:a", "cuda:0,", "cuda:ALL", "cpu", None):
        assert not several_gpus.are_named(text)


def test_explain_says_who_shares_the_rows(device):
    x = points(5000, 8)
    said = gpudist.explain("cdist", x, x, device="cuda:all")
    one = gpudist.explain("cdist", x, x, device=device)
    assert said.devices == (device,) * 3 and said.kernel == one.kernel and one.devices == ()
    assert f"{device} and {device}" in str(said) and "shared by" not in str(one)
    assert said.limit.seconds == pytest.approx(one.limit.seconds / 3)
    assert gpudist.explain("minplus", x, x.T, device="cuda:all").devices == (device,) * 3
    assert gpudist.explain("pdist", x, device="cuda:all").devices == (device,) * 3
    assert gpudist.explain("knn", x, k=2, device="cuda:all").devices == (device,) * 3


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there():
    torch = pytest.importorskip("torch")
    x = torch.ones((4, 4), device="cuda")
    for call in (gpudist.cdist, gpudist.minplus, gpudist.nearest):
        with pytest.raises(TypeError, match="device must be None for arrays on a device"):
            call(x, x, device="cuda:all")


@pytest.mark.gpu
def test_gpus_that_are_there_bring_their_rows_at_once():
    if len(gpudist.cuda.devices()) < 2:
        pytest.skip("there is one GPU")
    a, b = points(9001, 40, 0, "float32"), points(8200, 40, 1, "float32")
    one = gpudist.cdist(a, b, device="cuda:0")
    out = np.zeros_like(one)
    for _ in range(3):
        out[:] = -1
        assert gpudist.cdist(a, b, out=out, device="cuda:all") is out
        assert out.tobytes() == one.tobytes()
