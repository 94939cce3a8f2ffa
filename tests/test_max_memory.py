"""What a call may hold at once: refused beforehand where it cannot do with so little."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gpudist
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
    [(0, ValueError), (-1, ValueError), (2**70, ValueError), (1.5, TypeError), (True, TypeError)],
)
@pytest.mark.parametrize("name", CALLS)
def test_bad_bounds_are_refused(name, value, error):
    with pytest.raises(error, match="max_memory must be a"):
        CALLS[name](max_memory=value)
