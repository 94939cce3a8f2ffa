"""apsp of one graph whose rows several GPUs hold: the bits of one, its errors, and how it ends.

Where there are no two GPUs, one plays them all; without any the CPU does.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

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


def threads():
    """Number the threads of this process but the core's workers, who do not end."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if not (task / "comm").read_text().startswith("gpudist "):
                found.add(task.name)
    return found


@contextmanager
def all_ends(device):
    """Hold that calls leave neither memory nor threads: the core's, which Python does not know."""
    gpudist.apsp(graph_of(10), no_edge=np.inf, device=device)  # CUDA has threads of its own
    before = threads()
    yield
    assert _core.allocations() == 0
    until = time.monotonic() + 10
    while threads() - before and time.monotonic() < until:
        time.sleep(0.01)  # one that was joined may still be listed
    assert not threads() - before


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


def room_for(n, dtype, device, count=3, predecessors=False, semiring="min_plus"):
    """Give the least memory of each with which they close a matrix that together they do not hold,
    and some more, with which they do not either.
    """
    how, devices = {"semiring": semiring}, (device,) * count
    held = max(
        share["bytes"]
        for share in _core.several_plan(n, dtype, predecessors, False, devices, 1, **how)
    )
    least = _core.far_plan(n, dtype, predecessors, max_memory=1, devices=devices, **how)["bytes"]
    assert least < held
    return least, (least + held) // 2, held - 1


@pytest.mark.parametrize("predecessors", [False, True])
@pytest.mark.parametrize("semiring", ["min_plus", "max_min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_what_they_do_not_hold_together_goes_through_all(
    device, monkeypatch, dtype, semiring, predecessors
):
    n = 1031
    w = graph_of(n, dtype, 0.05)
    how = {
        "dtype": dtype,
        "semiring": semiring,
        "return_predecessors": predecessors,
        "no_edge": np.inf,
    }
    one = gpudist.apsp(w, device=device, **how)
    for count in (2, 3, 4):
        let_play(monkeypatch, device, count)
        for room in room_for(n, dtype, device, count, predecessors, semiring):
            said = gpudist.explain("apsp", w, device="cuda:all", max_memory=room, **how)
            assert said.out_of_core is not None
            same(one, gpudist.apsp(w, device="cuda:all", max_memory=room, **how))
    assert _core.allocations() == 0


@pytest.mark.parametrize("together", [True, False])
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
def test_graphs_are_read_as_by_one_gpu(device, call, together):
    w = graph_of(600, "int32", 0.02)
    w[np.isinf(w)] = call.get("no_edge", 0.0)
    one = gpudist.apsp(w, device=device, kernel="auto", **call)
    predecessors = call.get("return_predecessors", False)
    dtype = call.get("dtype", "float64").replace("int16", "int32")
    room = room_for(600, dtype, device, predecessors=predecessors)[1]
    several = gpudist.apsp(w, device="cuda:0,2", max_memory=None if together else room, **call)
    if "labels" in call:
        one, several = one.dist, several.dist
    same(one, several)


def test_weights_may_be_negative(device):
    w = graph_of(500, "float64", 0.2)
    potentials = np.random.default_rng(1).random(500)
    w += potentials[:, None] - potentials
    for dtype in ("float64", "float32"):
        how = {"return_predecessors": True, "no_edge": np.inf, "dtype": dtype}
        one = gpudist.apsp(w, device=device, **how)
        same(one, gpudist.apsp(w, device="cuda:all", **how))
        for room in room_for(500, dtype, device, predecessors=True):
            same(one, gpudist.apsp(w, device="cuda:all", max_memory=room, **how))
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
    for at, to in ((3, 590), (240, 241), (599, 0)):
        w = graph_of(600, "float64", 0.3)
        w[at, to] = w[to, at] = -20
        with pytest.raises(gpudist.NegativeCycleError) as one:
            gpudist.apsp(w, no_edge=np.inf, device=device)
        for room in (None, *room_for(600, "float64", device)):
            with pytest.raises(gpudist.NegativeCycleError) as several:
                gpudist.apsp(w, no_edge=np.inf, device="cuda:all", max_memory=room)
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
    wide = np.where(graph_of(600, "int32", 0.05) < np.inf, 2.0**22, 0.0)
    how = {"dtype": "int32", "return_predecessors": True}
    one = gpudist.apsp(wide, device=device, **how)
    same(one, gpudist.apsp(wide, device="cuda:all", **how))
    # Sums that leave int32 are computed in float64, which together they do not hold.
    least, _, more = room_for(600, "float64", device, predecessors=True)
    held = room_for(600, "int32", device, predecessors=True)[2] + 1
    assert least <= held <= more
    same(one, gpudist.apsp(wide, device="cuda:all", max_memory=held, **how))


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
    w = graph_of(600)
    least, some, more = room_for(600, "float64", device)
    held = max(share["bytes"] for share in shares_of(600, "float64", device, 3, max_memory=1))
    one = gpudist.apsp(w, no_edge=np.inf, device=device)
    for room in (held, more, some, least):
        out = np.empty_like(w)
        gpudist.apsp(w, no_edge=np.inf, out=out, device="cuda:all", max_memory=room)
        same(one, out)
    out = np.full((600, 600), -1.0)
    with pytest.raises(MemoryError, match=rf"needs {least} bytes .* max_memory allows {least - 1}"):
        gpudist.apsp(w, no_edge=np.inf, out=out, device="cuda:all", max_memory=least - 1)
    assert (out == -1).all()


@pytest.mark.parametrize("together", [True, False])
def test_each_allocation_may_fail(device, together):
    w = graph_of(600, "float64", 0.1)
    room = None if together else room_for(600, "float64", device, predecessors=True)[1]
    with all_ends(device):
        _, said = fail_each_allocation(
            lambda: gpudist.apsp(
                w,
                no_edge=np.inf,
                directed=False,
                return_predecessors=True,
                device="cuda:all",
                max_memory=room,
            )
        )
    assert len(said) >= 3 * (6 if together else 5)


@pytest.mark.gpu
def test_slots_may_be_missing_for_whoever_comes_first(monkeypatch):
    """The rows of the first turn are the first to arrive, or the others wait for them in vain."""
    let_play(monkeypatch, "cuda:0", 3)
    w = graph_of(2100)
    one = gpudist.apsp(w, no_edge=np.inf, device="cuda:0")

    def without_slots():
        gpudist.limit_pinned_memory(1 << 28)
        return gpudist.apsp(w, no_edge=np.inf, device="cuda:all")

    with all_ends("cuda:0"):
        several, said = fail_each_allocation(without_slots)
    same(one, several)
    assert any("pinned memory" in text for text in said)


@pytest.mark.parametrize("together", [True, False])
def test_the_calling_thread_is_told_how_far_they_are(device, together):
    told = []
    room = None if together else room_for(900, "float64", device)[1]

    def tell(done, total):
        told.append((done, total, threading.current_thread()))

    call = {"no_edge": np.inf, "device": "cuda:all", "max_memory": room, "progress": tell}
    gpudist.apsp(graph_of(900), **call)
    assert told[-1][:2] == (900**3,) * 2
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    assert {thread for *_, thread in told} == {threading.current_thread()}


@pytest.mark.parametrize("together", [True, False])
def test_progress_grows_with_the_turns(together):
    seen = []
    how = ("infinite", 0.0, True, False, np.inf)
    w = graph_of(1500)
    room = None if together else room_for(1500, "float64", "cpu")[1]
    orders = {"device": "cpu", "devices": ("cpu",) * 3, "max_memory": room}
    _core.apsp(w, np.empty_like(w), None, *how, **orders, progress=seen.append)
    assert seen == sorted(seen) and all(0 <= share <= 1 for share in seen)
    assert seen[-1] > 0.5


@pytest.mark.parametrize("together", [True, False])
def test_a_watcher_may_stop_it(together):
    def stop(share):
        if share > 1 / 8:  # when all are at work
            raise KeyError(share)

    w = np.ones((4000, 4000))
    how = ("infinite", 0.0, True, False, np.inf)
    room = None if together else room_for(4000, "float64", "cpu")[1]
    orders = {"device": "cpu", "devices": ("cpu",) * 3, "max_memory": room}
    with all_ends("cpu"), pytest.raises(KeyError):
        _core.apsp(w, w, None, *how, **orders, progress=stop)


@pytest.mark.parametrize("together", [True, False])
def test_ctrl_c_ends_all(device, together):
    w = graph_of(3000, "float64", 0.5)
    room = None if together else room_for(3000, "float64", device)[1]

    def interrupt(done, total):
        if done > total // 8:  # when all are at work
            raise KeyboardInterrupt

    with all_ends(device), pytest.raises(KeyboardInterrupt):
        gpudist.apsp(w, no_edge=np.inf, device="cuda:all", max_memory=room, progress=interrupt)
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
    with pytest.raises(ValueError, match="must name one GPU, 'cuda:N', for transitive_closure"):
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


def test_explain_says_how_it_goes_through_all(device):
    w = np.ones((1000, 1000))
    least, some, more = room_for(1000, "float64", device)
    for room in (least, some, more):
        said = gpudist.explain("apsp", w, device="cuda:all", max_memory=room)
        plan = said.out_of_core
        assert said.devices == (device,) * 3 and said.rows == ()
        assert said.held == plan["bytes"] <= room and said.copies == 3 * said.held
        assert said.work.read == said.work.written == plan["each_way"]
        text = " ".join(str(said).split())
        assert f"through all of them, which do not hold the matrix, in {plan['blocks']} " in text
        assert f"at most {said.held:,} bytes on each of them" in text
    held = max(share["bytes"] for share in shares_of(1000, "float64", device, 3, max_memory=1))
    for room, together in ((held, True), (held - 1, False)):
        said = gpudist.explain("apsp", w, device="cuda:all", max_memory=room)
        assert (said.out_of_core is None) == together == (len(said.rows) == 3)


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
        room = room_for(1500, "float64", "cuda:0", len(gpudist.cuda.devices()), True)[1]
        through = gpudist.apsp(w, device="cuda:all", max_memory=room, **how)
    finally:
        _core.refuse_peers(False)
    one = gpudist.apsp(w, device="cuda:0", **how)
    same(one, several)
    same(one, through)
