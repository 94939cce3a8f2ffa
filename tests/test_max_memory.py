"""What a call may hold at once: cdist and pdist in parts, with the bits of the whole; others are
refused beforehand where they cannot do with so little."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import PRODUCT_FORMS, fail_each_allocation, forms, points, rows, runnable

import gpudist
from bench import memory
from gpudist import _core

SQUARE = np.random.default_rng(0).random((300, 300))
WHOLE = np.round(SQUARE * 1000)

# What nothing can be done about.
CALLS = {
    "apsp": lambda **k: gpudist.apsp(SQUARE, **k),
    "apsp int32": lambda **k: gpudist.apsp(WHOLE, dtype="int32", return_predecessors=True, **k)[0],
    "or_and": lambda **k: gpudist.apsp(SQUARE, semiring="or_and", **k),
    "closure": lambda **k: gpudist.transitive_closure(SQUARE, **k),
    "minplus": lambda **k: gpudist.minplus(SQUARE, SQUARE, SQUARE, **k),
    "minplus int32": lambda **k: gpudist.minplus(WHOLE.astype("i4"), WHOLE.astype("i4"), **k),
    "perron": lambda **k: gpudist.perron(SQUARE, **k).vector,
}


# One way of preparing rows each, and what a kernel takes from all of XB on a device: from 1024 rows
# on the centre of products, the unit of powers.
PREPARED = {
    "euclidean": {},
    "cosine": {},
    "correlation": {"w": np.arange(1.0, 6.0)},
    "hellinger": {},
    "jensenshannon": {"base": 2.0},
    "jaccard": {},
    "mahalanobis": {"VI": np.diag(np.arange(1.0, 6.0))},
    "minkowski": {"p": 2.5},
}


def needed(call):
    """The least bytes that a call does with; some on the CPU need none."""
    try:
        call(max_memory=1)
    except MemoryError as error:
        assert "max_memory allows 1:" in str(error)
        return int(re.search(r"needs (\d+)", str(error))[1])
    return 1


def bounds(least):
    return [least, least + 1, 2 * least, 5 * least, 30 * least, 1000 * least]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("metric", PREPARED)
def test_parts_have_the_bits_of_the_whole(metric, dtype, device):
    rng = np.random.default_rng(1)
    a, b = (rng.random((n, 5)).astype(dtype) for n in (23, 1201 if device == "cuda" else 301))
    b[1::2] += 0.5
    if metric == "jaccard":
        a, b = a > 0.5, b > 0.7

    def cdist(**k):
        return gpudist.cdist(a, b, metric, dtype=dtype, device=device, **PREPARED[metric], **k)

    def pdist(**k):
        return gpudist.pdist(b[:300], metric, dtype=dtype, device=device, **PREPARED[metric], **k)

    for call in (cdist, pdist):
        want = call()
        for bound in bounds(needed(call)):
            np.testing.assert_array_equal(call(max_memory=bound), want, err_msg=str(bound))
    assert _core.allocations() == 0


@pytest.mark.parametrize("kernel", rows("cdist"))
def test_every_kernel_computes_parts(kernel, rng):
    """Steps that assume a layout find it in every part, too."""
    runnable(kernel)
    d = max(kernel.columns[0], min(3, kernel.columns[1]))
    metric, dtype = kernel.metrics[0], kernel.dtypes[0]
    args = next(iter(forms(metric)))[1](rng, d)
    a, b = (points(rng, n, d, metric, dtype) for n in (53, 1031))
    if "packed" in kernel.idea or "bits" in kernel.id:
        a, b = a > 0.5, b > 0.5

    def call(**k):
        return gpudist.cdist(a, b, metric, dtype=dtype, kernel=kernel.id, **args, **k)

    want = call()
    if kernel.id in PRODUCT_FORMS:  # which leave the order of sums to a library
        return
    for bound in (least := needed(call), 4 * least, 25 * least):
        np.testing.assert_array_equal(call(max_memory=bound), want)


def test_explain_says_what_is_held_and_in_how_many_parts(device):
    x = SQUARE[:, :7]
    y = np.tile(x, (9, 1))

    def call(**k):
        return gpudist.cdist(x, y, "cosine", device=device, **k)

    def explained(**k):
        return gpudist.explain("cdist", x, y, "cosine", device=device, ceilings={}, **k)

    least = needed(call)
    said = explained(max_memory=least)
    assert said.held == least
    assert said.panels == 300
    assert said.parts > 1
    assert f"holds: at most {least:,} bytes on " in str(said)
    text = " ".join(str(said).split())
    assert f"in 300 panels of rows, XB in {said.parts:,} parts for each" in text
    free = explained()
    assert free.held > least
    assert free.panels == free.parts == 1
    assert explained(max_memory=free.held).held == free.held
    with pytest.raises(MemoryError, match=f"max_memory allows {least - 1}:"):
        explained(max_memory=least - 1)


def imagined(n, d):
    """Points that take no memory."""
    return np.broadcast_to(np.float32(1), (n, d))


@pytest.mark.parametrize("share", [0.7, 0.45, 0.3, 0.2, 0.13, 0.07])
def test_parts_use_what_is_allowed(share, device):
    """Parts that were halved until they fit left up to half of it."""
    x, y = imagined(20_000, 300), imagined(9000, 300)

    def explained(**k):
        return gpudist.explain("cdist", x, y, "cosine", device=device, ceilings={}, **k)

    allowed = int(share * explained().held)
    said = explained(max_memory=allowed)
    # Parts are of equal length, so some is left; more where a few large panels come in no parts.
    assert (0.93 if device == "cpu" else 0.8) * allowed < said.held <= allowed
    assert said.panels * said.parts > 1


@pytest.mark.gpu
@pytest.mark.parametrize(("allowed", "most"), [(200, 1.0), (100, 1.5), (50, 3.3), (30, 6.0)])
def test_parts_cross_the_bus_as_seldom_as_the_bound_allows(allowed, most):
    """Gigabytes for 8192 x 8192 x 4000 in so many megabytes; each operand has 0.13."""
    x, y = imagined(8192, 4000), imagined(8192, 4000)
    said = gpudist.explain(
        "cdist", x, y, "cityblock", device="cuda", ceilings={}, max_memory=allowed * 10**6
    )
    whole = 2 * 4 * 8192 * 4000
    assert said.parts > 1
    assert whole + (said.panels - 1) * whole / 2 <= said.work.read <= most * 1e9
    assert f"moves: {said.work.read:,} bytes in" in str(said)


@pytest.mark.gpu
@pytest.mark.parametrize("allowed", [60, 18, 9, 6, 4])
def test_single_panels_have_the_bits_of_many(allowed):
    rng = np.random.default_rng(6)
    a, b = rng.random((3000, 500), "f4"), rng.random((2600, 500), "f4")
    out = np.zeros((3000, 2600), "f4")
    for metric in ("euclidean", "correlation"):
        want = gpudist.cdist(a, b, metric, device="cuda")
        _core.most_held("cuda", forget=True)
        gpudist.cdist(a, b, metric, device="cuda", out=out, max_memory=allowed * 10**6)
        assert 0 < _core.most_held("cuda") <= allowed * 10**6 + 64 * 512
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_one_byte_less_than_the_least_is_refused(name, device):
    x = SQUARE[:, :7]
    call = {
        # On the CPU a row of others needs nothing.
        "cdist": lambda **k: gpudist.cdist(x, x[:200], "cosine", device=device, **k),
        "pdist": lambda **k: gpudist.pdist(x, device=device, **k),
    }[name]
    least = needed(call)
    said = f"{name} needs {least} bytes .* max_memory allows {least - 1}: compute it for parts"
    with pytest.raises(MemoryError, match=said):
        call(max_memory=least - 1)


def test_each_allocation_of_a_part_may_fail(device):
    x = SQUARE[:, :7]

    def cdist(**k):
        return gpudist.cdist(x[:20], x, "cosine", device=device, **k)

    bound = needed(cdist)

    def call():
        return cdist(max_memory=bound)

    want = call()
    got, said = fail_each_allocation(call)
    assert len(said) >= 20  # for every panel one or more
    assert _core.allocations() == 0
    np.testing.assert_array_equal(got, want)


def test_a_file_is_filled_part_by_part(tmp_path, device):
    x = SQUARE[:, :7]
    out = np.memmap(tmp_path / "out", "f8", "w+", shape=(300, 300))
    assert gpudist.cdist(x, x, out=out, device=device, max_memory=100_000) is out
    np.testing.assert_array_equal(out, gpudist.cdist(x, x, device=device))


@pytest.mark.gpu
@pytest.mark.parametrize("bound", [50 << 20, 5 << 20, 1 << 20])
def test_a_device_holds_no_more_than_it_may(bound):
    rng = np.random.default_rng(2)
    a, b = rng.random((5000, 130), "f4"), rng.random((3000, 130), "f4")
    want = gpudist.cdist(a, b, device="cuda")
    _core.most_held("cuda", forget=True)
    got = gpudist.cdist(a, b, device="cuda", max_memory=bound)
    # The pool rounds each block up to 512 bytes.
    assert 0 < _core.most_held("cuda") <= bound + 64 * 512
    np.testing.assert_array_equal(got, want)


@pytest.mark.gpu
def test_a_long_call_grows_within_its_memory(torch):
    """Its first pieces are short, and the copies that later ones need are larger."""
    a = torch.randint(0, 4, (100_000, 1024), device="cuda").float()
    b = a[:8000].contiguous()
    want = gpudist.cdist(a, b, "hamming")
    assert torch.equal(gpudist.cdist(a, b, "hamming", max_memory=100 << 20), want)


def extra(call, operands=(), device="cpu"):
    """Bytes that a call takes on the host beside its result."""
    call()
    measured = memory.extra_memory(call, operands, device)
    if not measured:
        pytest.skip("this system does not tell how much memory was resident")
    return measured["extra_host_bytes"] + measured["pinned_bytes"]


def test_extra_memory_sees_what_a_call_takes():
    kept = np.ones(1 << 20)
    assert extra(lambda: np.ones(1 << 22)) < 8 << 20
    assert extra(lambda: kept, (kept,)) < 8 << 20

    def join():
        return np.concatenate([np.ones(1 << 23), kept])[:9].copy()

    assert extra(join) > 60 << 20
    # Memory that was freed between others is not taken from the system anew.
    blocks = [np.ones(12_000) for _ in range(3000)]
    last = blocks.pop()
    del blocks
    assert extra(join) > 60 << 20 and len(last) == 12_000


def test_the_cpu_takes_no_more_than_it_may():
    a, b = np.random.default_rng(4).random((40_000, 200)), SQUARE[:20, :200]
    out = np.zeros((40_000, 20))

    def call(bound=None):
        return gpudist.cdist(a, b, "cosine", out=out, device="cpu", max_memory=bound)

    assert extra(call, (out,)) > 50 << 20  # the points' directions
    want = out.copy()
    assert extra(lambda: call(4 << 20), (out,)) < 16 << 20  # and what belongs to the system
    np.testing.assert_array_equal(out, want)


@pytest.mark.gpu
@pytest.mark.parametrize("fresh", [False, True])
def test_transfers_take_little_memory_of_the_host(fresh):
    a, b = np.random.default_rng(5).random((2, 9000, 60), "f4")
    out = np.zeros((9000, 9000), "f4")
    taken = extra(
        lambda: gpudist.cdist(a, b, out=None if fresh else out, device="cuda"), (out,), "cuda"
    )
    assert taken <= 300e6


@pytest.mark.gpu
def test_pinned_memory_is_bounded():
    rng = np.random.default_rng(3)
    a, b = rng.random((3000, 40), "f4"), rng.random((5000, 40), "f4")
    want = gpudist.cdist(a, b, device="cuda")
    try:
        for limit in (0, 6 << 20, 20 << 20, 1 << 28):
            gpudist.limit_pinned_memory(limit)
            assert _core.pinned() == 0
            for bound in (None, 2 << 20):
                got = gpudist.cdist(a, b, device="cuda", max_memory=bound)
                np.testing.assert_array_equal(got, want)
            assert (0 < _core.pinned() <= limit) if limit else _core.pinned() == 0
    finally:
        gpudist.limit_pinned_memory(1 << 28)


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match="max_bytes must not be negative, got -1"):
        gpudist.limit_pinned_memory(-1)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_asked_for_is_enough_and_one_byte_less_is_not(name, device):
    call = CALLS[name]
    want = call(device=device)
    with pytest.raises(MemoryError, match=r"needs \d+ bytes of (host|device) memory .* 1:") as info:
        call(device=device, max_memory=1)
    needed = int(re.search(r"needs (\d+)", str(info.value))[1])
    with pytest.raises(MemoryError, match=f"max_memory allows {needed - 1}:"):
        call(device=device, max_memory=needed - 1)
    np.testing.assert_array_equal(call(device=device, max_memory=needed), want)
    assert _core.allocations() == 0


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_allocated_before_it_is_refused(name, device):
    _core.fail_allocation(1)
    try:
        with pytest.raises(MemoryError, match="max_memory allows 1:"):
            CALLS[name](device=device, max_memory=1)
    finally:
        _core.fail_allocation(0)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)],
)
@pytest.mark.parametrize("name", CALLS)
def test_bad_bounds_are_refused(name, value, error):
    with pytest.raises(error, match="max_memory must be a"):
        CALLS[name](max_memory=value)


@pytest.mark.parametrize(
    "order",
    [
        {"max_memory": 1 << 20},
        {"rows": slice(1, 3)},
        {"options": {}},
        {"progress": lambda done, total: None},
        {"kernel": "reference"},
    ],
    ids=lambda order: next(iter(order)),
)
def test_the_short_ways_are_for_calls_without_orders(order, monkeypatch):
    """They know of none, so they would not obey."""
    asked = []
    for name in ("cdist_arrays", "cdist_tensors"):
        monkeypatch.setattr(_core, name, lambda *given, name=name: asked.append(name))
    x = np.arange(8.0).reshape(4, 2)
    gpudist.cdist(x, x)
    assert asked == ["cdist_arrays", "cdist_tensors"]
    gpudist.cdist(x, x, device="cpu")  # which only the host's way takes
    assert asked == ["cdist_arrays", "cdist_tensors", "cdist_arrays"]
    gpudist.cdist(x, x, **order)
    assert len(asked) == 3
