"""apsp of a matrix that the device does not hold: the same bits, by the bytes that are stated."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import fail_each_allocation

import gpudist
from gpudist import _core, explain_paths

PLENTY = 2**40
FAR = {"float32": np.inf, "float64": np.inf, "int32": 2**30 - 1}
# Nodes and blocks. The device's steps are of 64 or 128 nodes, those of the CPU that plays it of 32.
SHAPES = {
    "cpu": [(1, 1), (31, 1), (32, 1), (80, 3), (262, 2), (262, 3), (262, 5), (262, 9)],
    "cuda": [(1, 1), (130, 2), (300, 3), (700, 2), (700, 3), (700, 5)],
}


def playing(device, count):
    """Name devices that one plays."""
    return ("cuda:0" if device == "cuda" else device,) * count


def memory_for(n, dtype, predecessors, device, blocks, semiring="min_plus", count=1):
    """Give the least memory with which there are no more than so many blocks."""
    how = {"semiring": semiring, "devices": playing(device, count)}
    plan = _core.far_plan(n, dtype, predecessors, max_memory=PLENTY, **how)
    while plan["blocks"] < blocks:
        plan = _core.far_plan(n, dtype, predecessors, max_memory=plan["bytes"] - 1, **how)
    return plan["bytes"]


def weights(rng, n, dtype, density):
    w = rng.integers(1, 1000, size=(n, n)) if dtype == "int32" else rng.random((n, n))
    w = np.where(rng.random((n, n)) < density, w, np.inf)
    return w.astype("float64" if dtype == "int32" else dtype)


def opened(w, dtype, semiring):
    """Give lengths and predecessors as a kernel takes them: the edges alone."""
    dist = np.where(np.isinf(w), FAR[dtype], w).astype(dtype)
    pred = np.where(np.isinf(w), -9999, np.arange(len(w))[:, None]).astype("int32")
    np.fill_diagonal(dist, 0 if semiring == "min_plus" else -FAR[dtype])
    np.fill_diagonal(pred, -9999)
    return dist, pred


def solved(w, dtype, semiring):
    """Give what the kernel in core makes of it on the CPU, in the kernels' own terms."""
    call = {"no_edge": np.inf, "dtype": dtype, "semiring": semiring, "device": "cpu"}
    dist, pred = gpudist.apsp(w, **call, return_predecessors=True)
    if dtype == "int32":
        dist[dist == gpudist.UNREACHABLE] = FAR[dtype]
        dist[dist == -(2**31)] = -FAR[dtype]
    return dist, pred


@pytest.mark.parametrize("density", [0.02, 1.0])
@pytest.mark.parametrize("semiring", ["min_plus", "min_max"])
@pytest.mark.parametrize("dtype", FAR)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_give_the_bits_of_the_whole_by_the_stated_bytes(
    device, count, dtype, semiring, density, rng
):
    for n, blocks in SHAPES[device]:
        w = weights(rng, n, dtype, density)
        expected, expected_pred = solved(w, dtype, semiring)
        for predecessors in (True, False):
            dist, pred = opened(w, dtype, semiring)
            room = memory_for(n, dtype, predecessors, device, blocks, semiring, count)
            done = _core.far(
                dist,
                pred if predecessors else None,
                semiring,
                device,
                max_memory=room,
                devices=playing(device, count),
            )
            np.testing.assert_array_equal(dist, expected, err_msg=str(done))
            if predecessors:
                np.testing.assert_array_equal(pred, expected_pred, err_msg=str(done))
            element = dist.itemsize + 4 * predecessors
            stated = ((done["blocks"] - 1) * n + min(done["block"], n)) * n * element
            assert done["sent"] == done["brought"] == done["each_way"] == stated
            assert done["bytes"] == room
            assert done["blocks"] >= min(blocks, 2)
    assert _core.allocations() == 0


def test_more_memory_makes_fewer_blocks(device):
    plan = _core.far_plan(1000, "float32", True, device, PLENTY)
    assert plan["blocks"] == 1
    assert plan["each_way"] == 8 * 1000**2
    while (fewer := _core.far_plan(1000, "float32", True, device, plan["bytes"] - 1)) != plan:
        assert fewer["blocks"] > plan["blocks"]
        assert fewer["bytes"] < plan["bytes"]
        assert fewer["each_way"] > plan["each_way"]
        plan = fewer


def test_what_the_smallest_blocks_do_not_fit_is_refused(device):
    least = _core.far_plan(200, "float64", False, device, 1)["bytes"]
    dist = np.zeros((200, 200))
    with pytest.raises(MemoryError, match=rf"needs {least} bytes .* max_memory allows {least - 1}"):
        _core.far(dist, None, "min_plus", device, None, least - 1)
    _core.far(dist, None, "min_plus", device, None, least)


def test_each_allocation_may_fail(device):
    dist, pred = np.zeros((200, 200)), np.zeros((200, 200), dtype="int32")
    _, said = fail_each_allocation(lambda: _core.far(dist, pred, "min_plus", device, None, PLENTY))
    assert len(said) >= 4
    assert _core.allocations() == 0


def test_a_watcher_sees_the_share_grow_and_may_stop_it(device):
    n = 1000
    dist = np.ones((n, n))
    room = memory_for(n, "float64", False, device, 3)
    seen = []
    _core.far(dist, None, "min_plus", device, seen.append, room)
    assert all(0 <= share <= 1 for share in seen)
    assert seen == sorted(seen)

    def stop(share):
        raise KeyError(share)

    if device == "cpu":  # a device may be done before anybody looks
        with pytest.raises(KeyError):
            _core.far(np.ones((2 * n, n * 2)), None, "min_plus", device, stop, 4 * room)
    assert _core.allocations() == 0


GRAPHS = {
    "plain": {},
    "predecessors": {"return_predecessors": True},
    "undirected": {"directed": False},
    "unweighted": {"unweighted": True, "return_predecessors": True},
    "max_plus": {"semiring": "max_plus", "acyclic": True},
    "max_min": {"semiring": "max_min", "return_predecessors": True},
    "float32": {"dtype": "float32"},
    "int32": {"dtype": "int32", "return_predecessors": True},
    "sentinel": {"dtype": "int32", "no_edge": -1.0},
    "wide int32": {"dtype": "int32", "scale": 500_000},
}


@pytest.mark.gpu
@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_small_device_answers_as_the_cpu(name, blocks, rng):
    n, call = 700, GRAPHS[name].copy()
    w = np.floor(weights(rng, n, "int32", 0.05) * call.pop("scale", 1))
    w = np.triu(w, 1) if call.pop("acyclic", False) else w
    w = np.where(np.isfinite(w), w, call.get("no_edge", 0.0))
    expected = gpudist.apsp(w, device="cpu", **call)
    dtype = "float64" if name == "wide int32" else call.get("dtype", "float64")
    room = memory_for(n, dtype, "return_predecessors" in call, "cuda", blocks)
    answer = gpudist.apsp(w, device="cuda", max_memory=room, **call)
    np.testing.assert_array_equal(np.asarray(answer), np.asarray(expected))
    assert _core.allocations() == 0


@pytest.mark.gpu
def test_a_memmap_is_closed_in_place(rng, tmp_path):
    w = weights(rng, 500, "float32", 0.1)
    mapped = np.memmap(tmp_path / "graph", "float32", "w+", shape=w.shape)
    mapped[:] = w
    room = memory_for(500, "float32", False, "cuda", 3)
    gpudist.apsp(mapped, overwrite=True, device="cuda", max_memory=room)
    np.testing.assert_array_equal(mapped, gpudist.apsp(w, device="cpu"))


@pytest.mark.gpu
def test_a_negative_cycle_is_found_out_of_core(rng):
    w = weights(rng, 300, "float64", 0.3)
    w[5, 250] = w[250, 5] = -20
    room = memory_for(300, "float64", False, "cuda", 3)
    with pytest.raises(gpudist.NegativeCycleError) as info:
        gpudist.apsp(w, device="cuda", max_memory=room)
    assert {5, 250} <= set(info.value.nodes)


def test_explain_says_how_it_goes():
    """The CPU plays a device that does not hold the matrix."""
    whole = gpudist.explain("apsp", np.ones((500, 500)), device="cpu", ceilings={})
    assert whole.out_of_core is None
    least = _core.far_plan(500, "float64", False, "cpu", 1)["bytes"]
    said = explain_paths.explain_far(whole, 500, 0, False, least)
    assert said.out_of_core["blocks"] == 16
    assert said.work.read == said.work.written == said.out_of_core["each_way"]
    assert said.copies == least
    assert f"in 16 blocks of 32 nodes: {least:,} bytes there" in " ".join(str(said).split())
    assert explain_paths.explain_far(whole, 500, 0, False, PLENTY) is whole
    near = _core.far_plan(500, "float64", False, "cpu", PLENTY, whole.kernel)["near"]
    assert explain_paths.explain_far(whole, 500, 8, False, near + 8) is whole
    assert explain_paths.explain_far(whole, 500, 8, False, near + 7).out_of_core is not None


@pytest.mark.gpu
def test_explain_knows_what_a_call_does():
    graph = np.ones((700, 700))
    plan = _core.far_plan(700, "float64", False, "cuda", 1)
    said = gpudist.explain("apsp", graph, device="cuda", max_memory=plan["bytes"])
    assert said.out_of_core["blocks"] == plan["blocks"]
    assert gpudist.explain("apsp", graph, device="cuda").out_of_core is None
