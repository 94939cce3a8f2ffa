"""Contexts of patched_scipy are nested, overlap, run in threads; SciPy is whole afterwards."""

import contextlib
import itertools
import sys
import threading

import numpy as np
import pytest
import scipy.sparse.csgraph as csgraph
from scipy.spatial import distance

import gpudist

POINTS = np.random.default_rng(0).random((6, 3))


def functions():
    return distance.cdist, distance.pdist, csgraph.floyd_warshall, csgraph.shortest_path


ORIGINALS = functions()


@pytest.fixture(autouse=True)
def whole_afterwards():
    yield
    assert functions() == ORIGINALS


def test_nested_contexts_that_counted_the_same():
    with gpudist.patched_scipy(device="cpu") as outer:
        with gpudist.patched_scipy(device="cpu") as inner:
            pass
        assert outer != inner  # though both counted nothing
        distance.pdist(POINTS)
    assert (outer.calls, inner.calls) == ({"pdist": 1}, {})


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_contexts_are_left_in_any_order(order):
    contexts = [gpudist.patched_scipy(device="cpu") for _ in order]
    counted = [context.__enter__() for context in contexts]
    remaining = list(range(3))
    expected = [0, 0, 0]
    for leaving in order:
        distance.cdist(POINTS, POINTS)
        expected[remaining[-1]] += 1
        contexts[leaving].__exit__(None, None, None)
        remaining.remove(leaving)
        assert (distance.cdist is ORIGINALS[0]) == (not remaining)
    assert [routed.calls.get("cdist", 0) for routed in counted] == expected


def test_each_context_computes_where_it_says(monkeypatch):
    asked = []
    monkeypatch.setattr(
        gpudist.distance, "pdist", lambda X, *args, device, **kwargs: asked.append(device)
    )
    one, other = gpudist.patched_scipy(device="cpu"), gpudist.patched_scipy()
    with one:
        other.__enter__()
        distance.pdist(POINTS)
    distance.pdist(POINTS)  # the first is left, the second goes on
    other.__exit__(None, None, None)
    with gpudist.patched_scipy(device="cpu"), contextlib.suppress(KeyError):
        with gpudist.patched_scipy():
            raise KeyError
        distance.pdist(POINTS)
    assert asked == [None, None]
    with gpudist.patched_scipy(device="cpu"):
        with gpudist.patched_scipy():
            pass
        distance.pdist(POINTS)
    assert asked == [None, None, "cpu"]


def test_exceptions_leave_nothing_behind():
    with pytest.raises(ZeroDivisionError), contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(gpudist.patched_scipy(device="cpu"))
        raise ZeroDivisionError
    assert functions() == ORIGINALS
    with pytest.raises(TypeError, match="device must be a string"):
        gpudist.patched_scipy(device=3)
    forgotten = gpudist.patched_scipy(device="cpu")
    forgotten.__enter__()
    assert functions() != ORIGINALS
    del forgotten


def test_an_order_that_cannot_be_obeyed_is_refused():
    """Or SciPy would answer every call, and nobody would know."""
    with pytest.raises(gpudist.DeviceError, match=r"CUDA cannot be used|there is no cuda:99"):
        gpudist.patched_scipy(device="cuda:99")
    with pytest.raises(ValueError, match="device must be None, 'cpu', 'cuda' or 'cuda:N', got 'x'"):
        gpudist.patched_scipy(device="x")
    with gpudist.patched_scipy(device="cpu"), gpudist.patched_scipy():
        pass


def test_an_import_that_fails_leaves_nothing_behind(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse.csgraph", None)
    with pytest.raises(ImportError), gpudist.patched_scipy(device="cpu"):
        pass
    monkeypatch.undo()
    with gpudist.patched_scipy(device="cpu") as routed:
        distance.pdist(POINTS)
    assert routed.calls == {"pdist": 1}


@pytest.fixture
def hurried():
    """Have threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count=6):
    failed = []
    start = threading.Barrier(count)

    def run(number):
        try:
            start.wait(60)
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed, failed


def test_contexts_in_threads(hurried):
    """A thread's calls are counted in its own context, and all are counted."""
    expected = ORIGINALS[1](POINTS)

    def work(number):
        for i in range(150):
            with gpudist.patched_scipy(device="cpu") as routed:
                for _ in range(i % 3):
                    with gpudist.patched_scipy(device="cpu"):
                        pass
                    np.testing.assert_allclose(distance.pdist(POINTS), expected)
            assert routed.calls == ({"pdist": i % 3} if i % 3 else {})

    in_threads(work)


def test_one_context_for_all_threads(hurried):
    with gpudist.patched_scipy(device="cpu") as routed:

        def work(number):
            for _ in range(200):
                distance.cdist(POINTS, POINTS)
                distance.pdist(POINTS, lambda u, v: 1.0)

        in_threads(work)
    assert routed.calls == {"cdist": 1200}
    assert routed.left == {"pdist: a metric in Python": 1200}


@pytest.mark.parametrize(
    "name",
    [
        "manhattan",
        "L1",
        "l2",
        "taxicab",
        "infinity",
        "linf",
        "Hellinger",
        "haversine",
        "inner_product",
    ],
)
def test_names_that_scipy_does_not_know_are_errors(name):
    """They are what it would say, to a test that expects it, say."""
    with pytest.raises(ValueError, match="Unknown Distance Metric"):
        ORIGINALS[1](POINTS, name)
    context = gpudist.patched_scipy(device="cpu")
    with context as routed, pytest.raises(ValueError, match="Unknown Distance Metric"):
        distance.pdist(POINTS, name)
    assert not routed.calls and len(routed.left) == 1


@pytest.mark.parametrize(
    "given", [{"box": 1.0}, {"rows": slice(0, 1)}, {"kernel": "reference"}, {"progress": True}]
)
def test_arguments_that_scipy_does_not_know_are_errors(given):
    """A program that asks for them learns so with and without the context."""
    with gpudist.patched_scipy(device="cpu") as routed, pytest.raises(TypeError):
        distance.cdist(POINTS, POINTS, **given)
    (name,) = given
    assert not routed.calls and routed.left == {f"cdist: {name}=, which SciPy does not know": 1}


def test_scipys_error_comes_alone():
    """What gpudist refused before is no part of it."""
    with gpudist.patched_scipy(device="cpu"), pytest.raises(ValueError) as caught:
        distance.cdist(POINTS, POINTS[:, :2])
    assert caught.value.__context__ is None and caught.value.__cause__ is None
