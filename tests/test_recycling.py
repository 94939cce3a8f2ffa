"""Memory of freed results is used again, within its bound, and never while it is in use."""

from __future__ import annotations

import gc
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import gpudist
from gpudist import recycling

X = np.random.default_rng(0).normal(size=(1000, 3))


@pytest.fixture(autouse=True)
def kept():
    gpudist.recycle_results(2**26)
    yield recycling._free
    gpudist.recycle_results(0)
    assert recycling._free == []


def address(array):
    return array.__array_interface__["data"][0]


def test_freed_memory_comes_back():
    first = gpudist.cdist(X, X)
    want, where = first.copy(), address(first)
    del first
    second = gpudist.cdist(X, X)
    assert address(second) == where
    np.testing.assert_array_equal(second, want)
    assert second.flags.writeable and second.flags.c_contiguous and second.flags.aligned


def test_a_view_keeps_its_memory():
    first = gpudist.cdist(X, X)
    view, where = first[10:20].T[::2], address(first)
    want = view.copy()
    del first
    gc.collect()
    second = gpudist.cdist(X, X + 1)
    assert address(second) != where
    np.testing.assert_array_equal(view, want)


def test_the_bound_holds(kept):
    gpudist.recycle_results(2**23 + 2**22)
    results = [gpudist.cdist(X, X) for _ in range(3)]
    assert kept == []
    del results
    assert len(kept) == 1
    gpudist.recycle_results(0)
    assert kept == []


def test_small_and_far_too_large_blocks_are_not_taken(kept):
    gpudist.cdist(np.concatenate([X, X, X]), X)
    assert len(kept) == 1
    small, other = gpudist.cdist(X[:10], X), gpudist.cdist(X, X)
    assert len(kept) == 1 and small.base is None
    del other


def test_threads():
    wrong = []

    def work(seed):
        x = X + seed
        want = gpudist.cdist(x, X)
        wrong.extend(seed for _ in range(10) if not np.array_equal(gpudist.cdist(x, X), want))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("bound", "error", "words"),
    [
        (-1, ValueError, "max_bytes must not be negative, got -1"),
        (0.5, TypeError, "max_bytes must be a whole number of bytes"),
        ("much", ValueError, "max_bytes must be a number of bytes with a unit"),
    ],
)
def test_what_is_no_number_of_bytes_is_refused(bound, error, words):
    with pytest.raises(error, match=words):
        gpudist.recycle_results(bound)


def test_a_bound_may_be_a_text():
    gpudist.recycle_results("64 MiB")
    assert recycling._limit == 2**26
    gpudist.recycle_results("0 B")
    assert recycling._limit == 0


def huge_kilobytes(array):
    for part in re.split(r"\n(?=\w+-\w+ )", Path("/proc/self/smaps").read_text()):
        first, last = (int(x, 16) for x in part.split(maxsplit=1)[0].split("-"))
        if first <= address(array) < last:
            return int(re.search(r"AnonHugePages: +(\d+) kB", part)[1])
    raise AssertionError("an array lies in no part of the memory")


@pytest.mark.parametrize("n", [363, 512, 700, 724])
def test_results_of_a_megabyte_lie_on_huge_pages(n):
    results = [gpudist.cdist(X[:n], X[:n]) for _ in range(8)]
    for result in results:
        assert 1 << 20 < result.nbytes < 1 << 22
        assert address(result) % (1 << 21) == 0
        assert result.flags.writeable and result.flags.c_contiguous and result.shape == (n, n)
    allowed = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not allowed.exists() or "[never]" in allowed.read_text():
        pytest.skip("this system has no transparent huge pages")
    # The first ones may be where others were freed, on the pages that those had.
    assert any(huge_kilobytes(result) >= 2048 for result in results)
