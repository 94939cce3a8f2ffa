"""apsp of one graph whose rows several GPUs hold: the bits of one, its errors, and how it ends.

Where there are no two GPUs, one plays them all; without any the CPU does.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import fail_each_allocation

import gpudist
from gpudist import _core, several_gpus


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """Let a device play three GPUs, and name them."""
    let_play(monkeypatch, request.param, 3)
    return request.param


def let_play(monkeypatch, device, count):
    monkeypatch.setattr(several_gpus, "of", lambda named: (device,) * count)


def graph_of(n, dtype="float64", density=0.1, seed=0):
    """Give weights, inf for no edge, whole for integers."""
    rng = np.random.default_rng([n, seed])
    w = rng.integers(1, 1000, (n, n)) if dtype == "int32" else rng.random((n, n))
    w = np.where(rng.random((n, n)) < density, w, np.inf)
    return w.astype("float32" if dtype == "float32" else "float64")


def same(one, several):
    """Hold two results, or two pairs of them, to the same bits."""
    one, several = (x if isinstance(x, tuple) else (x,) for x in (one, several))
    for a, b in zip(one, several, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("predecessors", [False, True])
@pytest.mark.parametrize("semiring", ["min_plus", "min_max"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [1, 5, 127, 300, 1031])
def test_paths_have_the_bits_of_one_gpu(device, monkeypatch, n, dtype, semiring, predecessors):
    how = {
        "dtype": dtype,
        "semiring": semiring,
        "return_predecessors": predecessors,
        "no_edge": np.inf,
    }
    for density in (0.02, 0.6):
        w = graph_of(n, dtype, density)
        one = gpudist.apsp(w, device=device, **how)
        for count in (2, 3, 7):
            let_play(monkeypatch, device, count)
            same(one, gpudist.apsp(w, device="cuda:all", **how))
    assert _core.allocations() == 0


@pytest.mark.parametrize(
    "call",
    [
        {"directed": False},
        {"unweighted": True, "return_predecessors": True},
        {"semiring": "max_min", "return_predecessors": True},
        {"dtype": "float32"},
        {"dtype": "int32", "no_edge": 7.0},
        {"dtype": "int16"},
        {"unreachable": -1.0, "return_predecessors": True},
        {"max_hops": 3, "unweighted": True},
        {"indices": [3, 200, 3]},
        {"labels": True},
    ],
)
def test_graphs_are_read_as_by_one_gpu(device, call):
    w = graph_of(260, "int32", 0.02)
    w[np.isinf(w)] = call.get("no_edge", 0.0)
    one = gpudist.apsp(w, device=device, kernel="auto", **call)
    several = gpudist.apsp(w, device="cuda:0,2", **call)
    if "labels" in call:
        one, several = one.dist, several.dist
    same(one, several)


def test_weights_may_be_negative(device):
    w = graph_of(500, "float64", 0.2)
    potentials = np.random.default_rng(1).random(500)
    w += potentials[:, None] - potentials
    for dtype in ("float64", "float32"):
        how = {"return_predecessors": True, "no_edge": np.inf, "dtype": dtype}
        same(gpudist.apsp(w, device=device, **how), gpudist.apsp(w, device="cuda:all", **how))
    longest = np.triu(graph_of(300, "float64", 0.3), 1)
    how = {"semiring": "max_plus"}
    same(
        gpudist.apsp(longest, device=device, **how), gpudist.apsp(longest, device="cuda:all", **how)
    )


def test_results_go_where_the_caller_wants_them(device):
    w = graph_of(330)
    one = gpudist.apsp(w, no_edge=np.inf, device=device)
    out = np.zeros((330, 330))
    kept = w.copy()
    assert gpudist.apsp(w, no_edge=np.inf, out=out, device="cuda:all") is out
    same(one, out)
    same(kept, w)
    assert gpudist.apsp(w, no_edge=np.inf, overwrite=True, device="cuda:all") is w
    same(one, w)
    same(one, gpudist.apsp(kept[:, ::-1][:, ::-1], no_edge=np.inf, device="cuda:all"))
    undirected = gpudist.apsp(kept, no_edge=np.inf, directed=False, device=device)
    gpudist.apsp(kept, no_edge=np.inf, directed=False, out=kept, device="cuda:all")
    same(undirected, kept)


def test_no_nodes_and_sparse_graphs(device):
    scipy = pytest.importorskip("scipy.sparse")
    assert gpudist.apsp(np.zeros((0, 0)), device="cuda:all").shape == (0, 0)
    w = graph_of(200, density=0.05)
    w[np.isinf(w)] = 0
    same(gpudist.apsp(w, device=device), gpudist.apsp(scipy.csr_array(w), device="cuda:all"))


def test_negative_cycles_are_found_on_every_gpu(device):
    for at, to in ((3, 290), (120, 121), (299, 0)):
        w = graph_of(300, "float64", 0.3)
        w[at, to] = w[to, at] = -20
        with pytest.raises(gpudist.NegativeCycleError) as one:
            gpudist.apsp(w, no_edge=np.inf, device=device)
        with pytest.raises(gpudist.NegativeCycleError) as several:
            gpudist.apsp(w, no_edge=np.inf, device="cuda:all")
        assert {at, to} <= {*several.value.nodes} and several.value.cycle == one.value.cycle


def test_integers_that_do_not_fit_are_refused(device):
    w = np.zeros((200, 200))
    w[np.arange(199), np.arange(1, 200)] = 2**28
    for on in (device, "cuda:all"):
        with pytest.raises(OverflowError, match=r"path lengths reach 2\*\*30"):
            gpudist.apsp(w, dtype="int32", device=on)
    w[3, 4] = 0.5
    with pytest.raises(ValueError, match=r"graph\[3, 4\] is not a whole number"):
        gpudist.apsp(w, dtype="int32", device="cuda:all")
    w[3, 4] = 2**29
    with pytest.raises(ValueError, match=r"weights below 2\*\*29"):
        gpudist.apsp(w, dtype="int32", device="cuda:all")
    wide = np.where(graph_of(150, "int32", 0.05) < np.inf, 2.0**22, 0.0)
    how = {"dtype": "int32", "return_predecessors": True}
    same(gpudist.apsp(wide, device=device, **how), gpudist.apsp(wide, device="cuda:all", **how))


def test_weights_that_a_dtype_does_not_take_are_named_as_by_one_gpu(device):
    w = graph_of(400, "float64", 0.5)
    w[250, 7] = -2.0
    w[390, 1] = -3.0
    with pytest.raises(ValueError, match=r"graph\[250, 7\] is a negative weight"):
        gpudist.apsp(w, no_edge=-1.0, device="cuda:all")
    w[250, 7] = w[390, 1] = 1e300
    with pytest.raises(ValueError, match="which float32 cannot hold"):
        gpudist.apsp(w, dtype="float32", device="cuda:all")


def shares_of(n, dtype, device, count, **more):
    return _core.several_plan(n, dtype, False, True, (device,) * count, **more)


def test_every_row_is_held_once_and_none_holds_much_more(device):
    for n in (1, 31, 300, 1000, 5000, 16384, 100_003):
        for count in (1, 2, 3, 8, 64):
            for dtype in ("float32", "float64"):
                shares = shares_of(n, dtype, device, count)
                ends = [0, *(share["end"] for share in shares)]
                assert ends[:-1] == [share["first"] for share in shares] and ends[-1] == n
                sizes = np.diff(ends)
                assert len(shares) <= count and (sizes > 0).all()
                assert sizes.max() - sizes[:-1].min(initial=sizes.max()) <= 128
                held = [share["bytes"] for share in shares]
                assert (held >= sizes * n * np.dtype(dtype).itemsize).all()


def test_max_memory_is_that_of_each(device):
    w = graph_of(400)
    held = max(share["bytes"] for share in shares_of(400, "float64", device, 3, max_memory=1))
    one = gpudist.apsp(w, no_edge=np.inf, device=device)
    same(one, gpudist.apsp(w, no_edge=np.inf, device="cuda:all", max_memory=held))
    out = np.full((400, 400), -1.0)
    with pytest.raises(MemoryError, match=r"max_memory allows .* name more devices, or one alone"):
        gpudist.apsp(w, no_edge=np.inf, out=out, device="cuda:all", max_memory=held - 1)
    assert (out == -1).all()


def test_each_allocation_may_fail(device):
    w = graph_of(200, "float64", 0.1)
    before = threading.active_count()
    _, said = fail_each_allocation(
        lambda: gpudist.apsp(
            w, no_edge=np.inf, directed=False, return_predecessors=True, device="cuda:all"
        )
    )
    assert len(said) >= 3 * 6
    assert _core.allocations() == 0 and threading.active_count() == before


@pytest.mark.gpu
def test_slots_may_be_missing_for_whoever_comes_first(monkeypatch):
    """The rows of the first turn are the first to arrive, or the others wait for them in vain."""
    let_play(monkeypatch, "cuda:0", 3)
    w = graph_of(2100)
    one = gpudist.apsp(w, no_edge=np.inf, device="cuda:0")
    before = threading.active_count()

    def without_slots():
        gpudist.limit_pinned_memory(1 << 28)
        return gpudist.apsp(w, no_edge=np.inf, device="cuda:all")

    several, said = fail_each_allocation(without_slots)
    same(one, several)
    assert any("pinned memory" in text for text in said)
    assert _core.allocations() == 0 and threading.active_count() == before


def test_the_calling_thread_is_told_how_far_they_are(device):
    told = []

    def tell(done, total):
        told.append((done, total, threading.current_thread()))

    gpudist.apsp(graph_of(900), no_edge=np.inf, device="cuda:all", progress=tell)
    assert told[-1][:2] == (900**3,) * 2
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    assert {thread for *_, thread in told} == {threading.current_thread()}


def test_progress_grows_with_the_turns(monkeypatch):
    let_play(monkeypatch, "cpu", 3)
    seen = []
    how = ("infinite", 0.0, True, False, np.inf)
    w = graph_of(1500)
    _core.apsp(
        w, np.empty_like(w), None, *how, device="cpu", devices=("cpu",) * 3, progress=seen.append
    )
    assert seen == sorted(seen) and all(0 <= share <= 1 for share in seen)


def test_a_watcher_may_stop_it():
    def stop(share):
        raise KeyError(share)

    w = np.ones((4000, 4000))
    before = threading.active_count()
    how = ("infinite", 0.0, True, False, np.inf)
    with pytest.raises(KeyError):
        _core.apsp(w, w, None, *how, device="cpu", devices=("cpu",) * 3, progress=stop)
    assert _core.allocations() == 0 and threading.active_count() == before


def test_ctrl_c_ends_all(device):
    w = graph_of(3000, "float64", 0.5)

    def interrupt(done, total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        gpudist.apsp(w, no_edge=np.inf, device="cuda:all", progress=interrupt)
    assert _core.allocations() == 0 and threading.active_count() == before
    small = graph_of(300)
    one = gpudist.apsp(small, no_edge=np.inf, device=device)
    same(one, gpudist.apsp(small, no_edge=np.inf, device="cuda:all"))


def test_what_several_do_not_take_says_so(device):
    w = graph_of(20)
    for call in (
        lambda: gpudist.apsp(w[None], device="cuda:all"),
        lambda: gpudist.apsp([w, w], device="cuda:0,1"),
        lambda: gpudist.explain("apsp", w[None], device="cuda:all"),
    ):
        with pytest.raises(ValueError, match="must name one GPU, 'cuda:N', for many graphs"):
            call()
    with pytest.raises(ValueError, match="must name one GPU, 'cuda:N', for closure"):
        gpudist.apsp(w > 0.5, semiring="or_and", device="cuda:all")
    with pytest.raises(ValueError, match="'cpu' for kernel 'reference'"):
        gpudist.apsp(w, kernel="reference", device="cuda:all")
    naive = "apsp/cpu_naive" if device == "cpu" else "apsp/1_naive"
    with pytest.raises(ValueError, match=f"'{naive}' is for one device"):
        gpudist.apsp(np.ones((20, 20)), dtype="int32", kernel=naive, device="cuda:all")


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="device must be None for arrays on a device"):
        gpudist.apsp(torch.ones((4, 4), device="cuda"), device="cuda:all")


def test_all_gpus_may_be_one(device, monkeypatch):
    let_play(monkeypatch, device, 1)
    w = graph_of(200)
    one = gpudist.apsp(w, no_edge=np.inf, device=device)
    same(one, gpudist.apsp(w, no_edge=np.inf, device="cuda:all"))
    said = gpudist.explain("apsp", w, device="cuda:all")
    assert said.devices == () and said.device == device


def test_explain_says_who_holds_which_rows(device):
    w = np.ones((1000, 1000))
    said = gpudist.explain("apsp", w, device="cuda:all")
    one = gpudist.explain("apsp", w, device=device)
    assert said.devices == (device,) * 3 and said.kernel == one.kernel and one.rows == ()
    assert said.rows[0][0] == 0 and said.rows[-1][1] == 1000
    text = " ".join(str(said).split())
    first, end = said.rows[1]
    assert f"{device} with rows {first:,} to {end - 1:,} and" in text
    assert f"at most {said.held:,} bytes on each of them" in text
    assert said.limit.seconds == pytest.approx(one.limit.seconds / 3)
    few = gpudist.explain("apsp", np.ones((3, 3)), device="cuda:all")
    assert few.devices == (device,) and few.rows == ((0, 3),)


def test_one_of_several_counts_hops(device):
    """It is so much quicker than all by weights, and takes no more memory than it has."""
    n = 2100 if device != "cpu" else 300
    w = graph_of(n, density=8 / n)
    call = {"unweighted": True, "no_edge": np.inf, "device": "cuda:all"}
    said = gpudist.explain("apsp", w, **call)
    assert said.kernel.startswith("hops/") and said.devices == ()
    assert f"of several GPUs {device} does it alone" in said.reason
    expected = gpudist.apsp(w, **call | {"device": device})
    same(expected, gpudist.apsp(w, **call))
    small = n * n * 5 if device != "cpu" else 2 * n * n * 8
    by_weights = gpudist.apsp(w, **call, max_memory=small)
    same(expected, by_weights)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 3, 7])
def test_large_graphs_arrive_and_leave_in_bands(monkeypatch, count):
    """From 8192 nodes on the first and the last turn are those that hide behind the bus, and the
    one before the last is longer than the others."""
    let_play(monkeypatch, "cuda:0", count)
    for n in (8192, 8291):
        w = graph_of(n, "float32", 0.01)
        one = gpudist.apsp(w, no_edge=np.inf, device="cuda:0")
        same(one, gpudist.apsp(w, no_edge=np.inf, device="cuda:all"))
    w[5000, 6000] = -1e-3
    one = gpudist.apsp(w, no_edge=np.inf, device="cuda:0")
    same(one, gpudist.apsp(w, no_edge=np.inf, device="cuda:all"))


@pytest.mark.gpu
@pytest.mark.parametrize("refused", [False, True])
def test_two_gpus_need_not_reach_each_other(refused):
    if len(gpudist.cuda.devices()) < 2:
        pytest.skip("there is one GPU")
    how = {"no_edge": np.inf, "return_predecessors": True}
    w = graph_of(1500)
    _core.refuse_peers(refused)
    try:
        several = gpudist.apsp(w, device="cuda:all", **how)
    finally:
        _core.refuse_peers(False)
    same(gpudist.apsp(w, device="cuda:0", **how), several)
