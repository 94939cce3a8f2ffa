"""The boundary: every wrong argument has its error, nothing is changed, kept or lost."""

import gc
import sys
import threading

import numpy as np
import pytest
import scipy.spatial.distance
from conftest import RECORDS, SCIPY, scipy_cdist, scipy_pdist

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7
G = np.array([[0.0, 3, 8], [0, 0, 2], [1, 0, 0]])


def cdist(**changes):
    arguments = {"XA": A, "XB": B} | changes
    return gpudist.cdist(**arguments)


UNALIGNED = np.empty(4 * 5 * 8 + 1, np.uint8)[1:].view(np.float64).reshape(4, 5)
BASELINE = "cdist/cpu_tile_baseline"
READ_ONLY = np.empty((4, 5))
READ_ONLY.setflags(write=False)

WRONG_CDIST = [
    ({"XA": A[0]}, ValueError, "XA must be two-dimensional, got 1"),
    ({"XA": A[None], "XB": B[0]}, ValueError, "XB must have two dimensions or more"),
    ({"XA": 1.0}, ValueError, "XA must be two-dimensional, got 0"),
    ({"XB": B[:, :2]}, ValueError, "same number of columns, got 3 and 2"),
    ({"XA": A + 1j}, TypeError, "XA must be an array of real numbers, got dtype complex128"),
    ({"XA": A.astype(object)}, TypeError, "XA must be an array of real numbers, got dtype object"),
    ({"XB": np.array([["a"]])}, TypeError, "XB must be an array of real numbers"),
    ({"XA": np.ma.masked_array(A, A > 3)}, TypeError, "XA is a masked array"),
    ({"metric": "euclidan"}, ValueError, "did you mean 'euclidean'"),
    ({"metric": "???"}, ValueError, "metrics are euclidean"),
    ({"metric": 3}, TypeError, "metric must be a string or a callable, got int"),
    ({"metric": None}, TypeError, "metric must be a string or a callable, got NoneType"),
    ({"metric": ""}, ValueError, "metrics are euclidean"),
    ({"metric": "test_euclidean"}, ValueError, "did you mean .*'euclidean'"),
    ({"metric": "sokalsneat"}, ValueError, "did you mean 'sokalsneath'"),
    ({"metric": "COSIN"}, ValueError, "did you mean 'cosine'"),
    ({"metric": "haversine"}, ValueError, "haversine takes 2 columns, XA has 3"),
    ({"p": 3}, TypeError, "unexpected keyword argument 'p'"),
    ({"dtype": "int32"}, ValueError, "dtype must be float32, float64 or float16, got int32"),
    ({"dtype": "longdouble"}, ValueError, "dtype must be float32, float64 or float16, got float"),
    ({"out": np.empty((5, 4))}, ValueError, r"out must have shape \(4, 5\), got \(5, 4\)"),
    ({"out": np.empty((4, 6))}, ValueError, r"out must have shape \(4, 5\), got \(4, 6\)"),
    ({"out": np.empty((6, 5))}, ValueError, r"out must have shape \(4, 5\), got \(6, 5\)"),
    ({"out": UNALIGNED}, ValueError, "out must be an aligned array"),
    ({"out": np.empty(20)}, ValueError, "out must be two-dimensional"),
    ({"out": np.empty((4, 5), "i4")}, ValueError, "out must be an array of float32, float64 or"),
    ({"out": np.empty((4, 5), ">f8")}, ValueError, "native byte order"),
    ({"out": np.empty((4, 10))[:, ::2]}, ValueError, "out must be C-contiguous"),
    ({"out": np.empty((5, 4)).T}, ValueError, "out must be C-contiguous"),
    ({"out": READ_ONLY}, ValueError, "out is read-only"),
    (
        {"out": [[0.0] * 5] * 4},
        TypeError,
        "out must be a NumPy array of .*, got list",
    ),
    ({"out": np.empty((4, 5)), "dtype": "float32"}, ValueError, "out has dtype float64"),
    ({"kernel": "cdist/cpu_tile_baselin"}, ValueError, "did you mean 'cdist/cpu_tile_baseline'"),
    ({"kernel": "apsp/cpu_blocked_avx2"}, ValueError, "unknown kernel"),
    ({"kernel": BASELINE, "options": {"block": 3}}, ValueError, "no option 'block'; it takes none"),
    ({"kernel": BASELINE, "options": {"b" * 99: 3}}, ValueError, "no option 'bbb"),
    ({"kernel": BASELINE, "options": {"block": 1.5}}, TypeError, "must be a whole number, got 1.5"),
    ({"kernel": BASELINE, "options": {"block": True}}, TypeError, "must be a whole number"),
    ({"kernel": BASELINE, "options": {"block": 2**70}}, OverflowError, "option 'block' is too"),
    ({"kernel": BASELINE, "options": {3: 3}}, TypeError, "an option's name must be a string"),
    ({"kernel": BASELINE, "options": dict.fromkeys("abcdefghi", 1)}, ValueError, "has 9 entries"),
    ({"kernel": BASELINE, "options": [("block", 3)]}, TypeError, "options must be a dictionary"),
    ({"options": {"block": 3}}, ValueError, "takes no options, got 'block'"),
    ({"device": "gpu"}, ValueError, "device must be None, 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
    ({"device": "cuda:x"}, ValueError, "device must be"),
    ({"device": 0}, TypeError, "device must be a string"),
    ({"device": "cuda:99"}, gpudist.DeviceError, "CUDA cannot be used: |there is no cuda:99"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG_CDIST)
def test_wrong_arguments_of_cdist(changes, error, message):
    with pytest.raises(error, match=message):
        cdist(**changes)


def test_out_is_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        gpudist.cdist(A, B, "euclidean", np.empty((4, 5)))
    with pytest.raises(TypeError, match="positional"):
        gpudist.pdist(A, "euclidean", np.empty(6))


WRONG_PDIST = [
    ({"X": A[0]}, ValueError, "X must be two-dimensional, got 1"),
    ({"X": A[0, 0]}, ValueError, "X must be two-dimensional, got 0"),
    ({"X": 1.0}, ValueError, "X must be two-dimensional, got 0"),
    ({"X": A + 1j}, TypeError, "X must be an array of real numbers, got dtype complex128"),
    ({"X": A.astype(object)}, TypeError, "X must be an array of real numbers, got dtype object"),
    ({"X": [["a", "b"]]}, TypeError, "X must be an array of real numbers"),
    ({"X": np.ma.masked_array(A, A > 3)}, TypeError, "X is a masked array"),
    ({"metric": "euclidan"}, ValueError, "did you mean 'euclidean'"),
    ({"metric": 3}, TypeError, "metric must be a string or a callable, got int"),
    ({"metric": "haversine"}, ValueError, "haversine takes .* 3"),
    ({"p": 3}, TypeError, r"pdist\(\) got an unexpected keyword argument 'p'"),
    ({"dtype": "int32"}, ValueError, "dtype must be float32, float64 or float16, got int32"),
    ({"out": np.empty(5)}, ValueError, "out must have .*5"),
    ({"out": np.empty((6, 1))}, ValueError, "out must"),
    ({"out": np.empty((2, 3))}, ValueError, "out must"),
    ({"out": np.empty((4, 4))}, ValueError, "out must"),
    ({"out": np.empty(6, "i4")}, ValueError, "out must be an array of float32, float64 or"),
    ({"out": np.empty(6, ">f8")}, ValueError, "native byte order"),
    ({"out": np.empty(12)[::2]}, ValueError, "out must be C-contiguous"),
    ({"out": np.empty(6)[::-1]}, ValueError, "out must be C-contiguous"),
    ({"out": READ_ONLY.ravel()[:6]}, ValueError, "out is read-only"),
    ({"out": [0.0] * 6}, TypeError, "out must be a NumPy array of .*, got list"),
    ({"out": np.empty(6), "dtype": "float32"}, ValueError, "out has dtype float64"),
    ({"kernel": "cdist/cpu_tile_baselin"}, ValueError, "did you mean 'cdist/cpu_tile_baseline'"),
    ({"options": {"block": 3}}, ValueError, "takes no options, got 'block'"),
    ({"device": "gpu"}, ValueError, "device must be"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG_PDIST)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_wrong_arguments_of_pdist(changes, error, message, kernel):
    with pytest.raises(error, match=message):
        gpudist.pdist(**({"X": A, "kernel": kernel} | changes))


P = np.random.default_rng(3).normal(size=(6, 3))
Q = np.random.default_rng(4).normal(size=(5, 3))
ONES = np.ones(3)

# Metric, its wrong arguments, our error, what the message names, and SciPy's error: None where it
# gives a result all the same, which docs/promises.md says we do not.
WRONG_ARGUMENTS = [
    ("euclidean", {"p": 3}, TypeError, "'p'", TypeError),
    ("euclidean", {"V": ONES}, TypeError, "'V'", TypeError),
    ("cosine", {"VI": np.eye(3)}, TypeError, "'VI'", TypeError),
    ("jaccard", {"p": 2}, TypeError, "'p'", TypeError),
    ("chebyshev", {"base": 2}, TypeError, "'base'", TypeError),
    ("minkowski", {"P": 3}, TypeError, "'P'", TypeError),
    ("minkowski", {"V": ONES}, TypeError, "'V'", TypeError),
    ("euclidean", {"nonsense": 1}, TypeError, "'nonsense'", TypeError),
    ("seuclidean", {"w": ONES}, TypeError, "'w'", TypeError),
    ("mahalanobis", {"w": ONES}, TypeError, "'w'", TypeError),
    ("mahalanobis", {"V": ONES}, TypeError, "'V'", TypeError),
    ("jensenshannon", {"w": ONES}, TypeError, "'w'", TypeError),
    ("jensenshannon", {"base": "e"}, TypeError, "base", TypeError),
    ("jensenshannon", {"base": 0}, ValueError, "base", TypeError),  # SciPy's takes no base at all
    ("jensenshannon", {"base": 1}, ValueError, "base", TypeError),
    ("jensenshannon", {"base": -2}, ValueError, "base", TypeError),
    ("minkowski", {"p": None}, TypeError, "p must", TypeError),
    ("minkowski", {"p": "x"}, TypeError, "p must", TypeError),
    ("minkowski", {"p": [1, 2]}, TypeError, "p must", TypeError),
    ("minkowski", {"p": 1j}, TypeError, "p must", TypeError),
    ("minkowski", {"p": 0}, ValueError, "p must be greater than 0", None),
    ("minkowski", {"p": -1}, ValueError, "p must be greater than 0", None),
    ("minkowski", {"p": np.nan}, ValueError, "p must be greater than 0", None),
    ("seuclidean", {"V": np.ones(2)}, ValueError, "V must", ValueError),
    ("seuclidean", {"V": np.eye(3)}, ValueError, "V must", ValueError),
    ("seuclidean", {"V": 1.0}, ValueError, "V must", ValueError),
    ("seuclidean", {"V": [1, 1j, 1]}, TypeError, "V must", None),
    ("mahalanobis", {"VI": np.ones((2, 2))}, ValueError, "VI must", None),
    ("mahalanobis", {"VI": np.ones((4, 4))}, ValueError, "VI must", None),
    ("mahalanobis", {"VI": ONES}, ValueError, "VI must", None),
    ("mahalanobis", {"VI": 1j * np.eye(3)}, TypeError, "VI must", None),
    *(
        (metric, {"w": w}, ValueError, "w", ValueError)
        for metric in ("euclidean", "minkowski", "cosine", "jaccard", "hamming", "chebyshev")
        for w in ([-1, 1, 1], [1, 1], [1, 1, 1, 1], np.ones((1, 3)), np.ones((3, 1)), 1.0)
        if not (metric == "cosine" and np.ndim(w) != 1)  # SciPy's Python lets those pass
    ),
    # Complex numbers are a TypeError throughout.
    ("euclidean", {"w": [1, 2j, 1]}, TypeError, "w must", ValueError),
]


@pytest.mark.parametrize(("metric", "args", "error", "message", "scipys"), WRONG_ARGUMENTS)
def test_wrong_arguments_of_metrics(metric, args, error, message, scipys):
    for ours, theirs, operands in (
        (gpudist.cdist, scipy_cdist, (P, Q)),
        (gpudist.pdist, scipy_pdist, (P,)),
    ):
        for kernel in ("auto", "reference"):
            with pytest.raises(error, match=message):
                ours(*operands, metric, kernel=kernel, **args)
        if scipys is None:
            theirs(*operands, metric, **args)
        else:
            with pytest.raises(scipys):
                theirs(*operands, metric, **args)


def test_every_metric_refuses_what_is_not_its_own():
    for metric, record in RECORDS.items():
        x = P[:, : record.columns or 3]
        for name in {"w", "p", "V", "VI", "base"} - set(record.arguments):
            for call in (lambda **k: gpudist.cdist(x, x, **k), lambda **k: gpudist.pdist(x, **k)):  # noqa: B023
                with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
                    call(metric=metric, **{name: 1.0})
        assert gpudist.cdist(x, x, metric, w=None).shape == (6, 6)  # as in SciPy


def test_too_few_rows_for_a_covariance():
    for call in (
        lambda f: f.cdist(P[:2], Q[:1], "mahalanobis"),
        lambda f: f.pdist(P[:3], "mahalanobis"),
        lambda f: f.pdist(P[:0], "mahalanobis"),
    ):
        for module in (gpudist, scipy.spatial.distance):
            with pytest.raises(ValueError, match="number of observations"):
                call(module)


# ---------------------------------------------------------------- callables


def test_a_callable_is_called_for_each_pair():
    seen = []

    def apart(u, v, *, power=1):
        seen.append((tuple(u), tuple(v)))
        return np.abs(u - v).sum() ** power

    expected = gpudist.cdist(A, B, "cityblock", kernel="reference")
    np.testing.assert_allclose(gpudist.cdist(A, B, apart), expected)
    assert seen == [(tuple(u), tuple(v)) for u in A for v in B]
    np.testing.assert_allclose(gpudist.cdist(A, B, apart, power=2), expected**2)
    seen.clear()
    np.testing.assert_allclose(gpudist.pdist(B, apart), gpudist.pdist(B, "cityblock"))
    assert seen == [(tuple(B[i]), tuple(B[j])) for i in range(5) for j in range(i + 1, 5)]
    out = np.empty((4, 5))
    assert gpudist.cdist(A, B, apart, out=out) is out
    np.testing.assert_allclose(out, expected)
    out = np.empty(10)
    assert gpudist.pdist(B, apart, out=out) is out
    assert gpudist.cdist(A[:0], B, apart).shape == (0, 5)
    assert gpudist.pdist(A[:1], apart).shape == (0,)


def test_a_callable_takes_objects_and_gives_float64():
    words = np.array([["ab", 1], ["abc", None], ["a", 2.5]], dtype=object)
    got = gpudist.pdist(words, lambda u, v: abs(len(u[0]) - len(v[0])))
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, [1, 1, 2])
    small = A.astype("f4")
    assert gpudist.cdist(small, small, lambda u, v: u.sum()).dtype == np.float64
    assert gpudist.cdist(A, B, lambda u, v: None)[0, 0] != 0  # NaN, as NumPy has None


def test_what_a_callable_raises_comes_through():
    class Mine(Exception):
        pass

    def fails(u, v):
        raise Mine("inside")

    for call in (lambda: gpudist.cdist(A, B, fails), lambda: gpudist.pdist(A, fails)):
        with pytest.raises(Mine, match="inside"):
            call()
    with pytest.raises(TypeError, match="nonsense"):
        gpudist.cdist(A, B, lambda u, v: 1.0, nonsense=3)
    for wrong, error in (("a", ValueError), (np.ones(2), (ValueError, TypeError)), (1j, TypeError)):
        for module in (gpudist, scipy.spatial.distance):
            with pytest.raises(error):
                module.cdist(A, B, lambda u, v, wrong=wrong: wrong)
    for module in (gpudist, scipy.spatial.distance):
        with pytest.raises(ValueError, match=r"[Oo]ut"):
            module.pdist(A, lambda u, v: 1.0, out=np.empty(5))


def named(name):
    """Make a function of that name, which gives what it was called with in a number."""

    def function(u, v, **args):
        total = 0.0
        for key, value in sorted(args.items()):
            total += len(key) * float(np.sum(value) if value is not None else 7)
        return total + (u.dtype == bool) + u.sum() * 1e-3

    function.__name__ = name
    return function


@pytest.mark.parametrize("name", [*sorted(SCIPY), "e", "cos", "js", "somebody", "test_euclidean"])
def test_a_callable_named_like_a_metric_gets_what_scipy_gives_it(name):
    for args in ({}, {"p": 3}, {"w": ONES}, {"x": 1}, {"V": ONES}, {"VI": np.eye(3)}):
        for x in (P, P > 0, P.astype("f4"), (4 * P).astype("i8")):
            for ours, theirs, operands in (
                (gpudist.cdist, scipy_cdist, (x, x[:4])),
                (gpudist.pdist, scipy_pdist, (x,)),
            ):
                try:
                    expected = theirs(*operands, named(name), **args)
                except Exception as error:
                    with pytest.raises(type(error)):
                        ours(*operands, named(name), **args)
                else:
                    got = ours(*operands, named(name), **args)
                    np.testing.assert_allclose(got, expected, rtol=1e-12, err_msg=f"{args}")
    if name == "minkowski":
        with pytest.raises(ValueError, match="p must be greater than 0"):
            gpudist.cdist(P, Q, named(name), p=0)


def test_a_callable_has_no_kernel_and_no_device():
    for wrong in ({"kernel": "cdist/cpu_tile_baseline"}, {"device": "cuda"}, {"device": "nowhere"}):
        with pytest.raises((ValueError, gpudist.DeviceError)):
            gpudist.cdist(A, B, lambda u, v: 0.0, **wrong)
    with pytest.raises(TypeError, match="masked array"):
        gpudist.cdist(np.ma.masked_array(A), B, lambda u, v: 0.0)


WRONG_APSP = [
    ({"graph": G[:2]}, ValueError, r"graph must be a square matrix, got shape \(2, 3\)"),
    ({"graph": G[0]}, ValueError, "graph must be a square matrix"),
    ({"graph": G + 1j}, TypeError, "graph must be an array of real numbers"),
    ({"graph": "abc"}, TypeError, "graph must be an array of real numbers"),
    (
        {"dtype": "int64"},
        ValueError,
        "dtype must be float32, float64, int32, int16, uint16 or uint8, got int64",
    ),
    ({"no_edge": 0.5, "dtype": "int32"}, ValueError, "no_edge must be an int32"),
    ({"graph": np.ma.masked_array(G), "no_edge": 1}, ValueError, "no_edge is for plain arrays"),
    ({"kernel": "cdist/cpu_tile_avx2"}, ValueError, "unknown kernel"),
    ({"options": {"segment": 3}}, ValueError, "takes no options"),
    ({"device": "tpu"}, ValueError, "device must be"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG_APSP)
def test_wrong_arguments_of_apsp(changes, error, message):
    with pytest.raises(error, match=message):
        gpudist.apsp(**({"graph": G} | changes))


def test_a_sparse_array_names_its_edges():
    from scipy.sparse import csr_array

    with pytest.raises(ValueError, match="no_edge is for dense arrays"):
        gpudist.apsp(csr_array(G), no_edge=-1)


def test_a_result_too_large_is_refused_before_it_is_allocated():
    tall = np.broadcast_to(np.zeros(3), (2**40, 3))
    with pytest.raises(MemoryError, match=rf"needs {2**83} bytes .* out="):
        gpudist.cdist(tall, tall)
    with pytest.raises(MemoryError, match=rf"needs {4 * 2**80} bytes .* out="):
        gpudist.cdist(tall, tall, "jaccard", dtype="float32")
    n = 2**30
    with pytest.raises(MemoryError, match=rf"needs {8 * (n * (n - 1) // 2)} bytes .* out="):
        gpudist.pdist(tall[:n], "cosine")


def test_other_questions():
    with pytest.raises(ValueError, match="op must be one of"):
        gpudist.kernels("sort")
    with pytest.raises(ValueError, match="op must be one of cdist, apsp"):
        gpudist.explain("sort", A)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gpudist.nonsense  # noqa: B018


def test_inputs_are_neither_changed_nor_kept():
    a, b, g = A.copy(), B.copy(), G.copy()
    for x in (a, b, g):
        x.setflags(write=False)
    before = [sys.getrefcount(x) for x in (a, b, g)]
    w = np.ones(3)
    before_w = sys.getrefcount(w)
    for metric, record in RECORDS.items():
        if record.columns:
            continue
        args = {"w": w} if "w" in record.arguments else {}
        args |= {"V": w} if "V" in record.arguments else {}
        args |= {"VI": np.eye(3)} if "VI" in record.arguments else {}
        gpudist.cdist(a, b, metric, **args)
        gpudist.pdist(a, metric, **args)
    del args
    assert sys.getrefcount(w) == before_w
    np.testing.assert_array_equal(w, 1)
    d = gpudist.cdist(a, b)
    p = gpudist.apsp(g, return_predecessors=True)
    with pytest.raises(ValueError, match="unknown metric"):
        gpudist.cdist(a, b, "nonsense")
    with pytest.raises(ValueError, match="shape"):
        gpudist.cdist(a, b, out=np.empty((1, 1)))
    assert [sys.getrefcount(x) for x in (a, b, g)] == before
    for now, then in ((a, A), (b, B), (g, G)):
        np.testing.assert_array_equal(now, then)
    assert d.base is None and p[0].base is None


def test_out_is_filled_in_place_and_may_be_a_memmap(tmp_path):
    out = np.memmap(tmp_path / "d.bin", dtype="f4", mode="w+", shape=(4, 5))
    assert gpudist.cdist(A, B, out=out) is out
    np.testing.assert_allclose(out, gpudist.cdist(A, B), rtol=1e-6)
    out = np.memmap(tmp_path / "p.bin", dtype="f8", mode="w+", shape=(6,))
    assert gpudist.pdist(A, "canberra", out=out) is out
    np.testing.assert_array_equal(out, gpudist.pdist(A, "canberra"))


def test_after_an_error_the_next_call_works():
    for changes, error, _ in WRONG_CDIST:
        with pytest.raises(error):
            cdist(**changes)
        assert cdist().shape == (4, 5)


def test_eight_threads_get_the_same_bits(device, rng):
    a, b = rng.normal(size=(400, 40)), rng.normal(size=(300, 40))
    w = rng.random((150, 150))
    expected = gpudist.cdist(a, b, device=device)
    expected_paths = gpudist.apsp(w, return_predecessors=True, device=device)
    wrong = []

    def work():
        for _ in range(10):
            got = gpudist.cdist(a, b, device=device)
            paths = gpudist.apsp(w, return_predecessors=True, device=device)
            if not (got == expected).all() or not all(
                (x == y).all() for x, y in zip(paths, expected_paths, strict=True)
            ):
                wrong.append("different")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_thread_count_does_not_change_the_bits(rng):
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is missing")
    a, b = rng.normal(size=(500, 33)), rng.normal(size=(450, 33))
    w = rng.random((300, 300))
    results = []
    for limit in (1, 2, 5):
        with threadpoolctl.threadpool_limits(limit, user_api="openmp"):
            assert _core.host()["threads"] == limit
            results.append((gpudist.cdist(a, b), *gpudist.apsp(w, return_predecessors=True)))
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_a_forked_child_can_compute(rng):
    import multiprocessing

    a = rng.normal(size=(600, 30))
    gpudist.cdist(a, a, device="cpu")  # the parent's thread pool exists
    with multiprocessing.get_context("fork").Pool(1) as pool:
        child = pool.apply_async(gpudist.cdist, (a, a), {"device": "cpu"}).get(timeout=60)
    np.testing.assert_array_equal(child, gpudist.cdist(a, a, device="cpu"))


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_ten_thousand_calls_leak_nothing():
    wrong = [changes for changes, _, _ in WRONG_CDIST]
    bad_graph = G.copy()
    bad_graph[0, 0] = -1

    def calls(count):
        for i in range(count):
            gpudist.cdist(A, B, out=np.empty((4, 5)))
            gpudist.apsp(G, return_predecessors=True)
            changes = wrong[i % len(wrong)]
            with pytest.raises(Exception):  # noqa: B017
                cdist(**changes)
            with pytest.raises(gpudist.NegativeCycleError):
                gpudist.apsp(bad_graph)
            gpudist.cdist(A.astype("i2"), B[:, ::-1], "minkowski", p=3, w=ONES)
            gpudist.pdist(A, "mahalanobis", VI=np.eye(3))
            gpudist.pdist(A > 3, "jaccard")
            gpudist.cdist(A, B, "correlation", w=ONES)

    calls(300)
    gc.collect()
    before = resident()
    calls(10_000 // 5)
    gc.collect()
    assert resident() - before < 4 << 20


def test_what_is_not_simple_goes_the_long_way():
    """What tensors on a device do is tested where there is one."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    a, b = torch.as_tensor(A), torch.as_tensor(B)
    for x, y in ((A, B), (A, b), (a, B), (A.tolist(), B), (None, None), (torch, a)):
        assert _core.cdist_tensors(x, y, "euclidean") is None
    recorded = b.clone().requires_grad_()
    with torch.no_grad():
        for x, y in ((a, b[None]), (a, recorded), (a, b.float()), (a[:0], b), (a.flip(0).T, b.T)):
            assert _core.cdist_tensors(x, y, "euclidean") is None
    assert _core.cdist_tensors(a, b, metric=max, out=a) is None
    with pytest.raises(TypeError, match="lacks the argument 'metric'"):
        _core.cdist_tensors(a, b)
    np.testing.assert_array_equal(gpudist.cdist(a, b), gpudist.cdist(A, B))


SQUARE = np.arange(16.0).reshape(4, 4) ** 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "canberra", "chebyshev"])
def test_small_arrays_take_the_short_way(metric, dtype):
    wide = (SQUARE % 7 + 1).astype(dtype)
    for x, y in ((wide, wide[:3]), (wide[1:, :3], wide[:, 1:]), (wide[::2], wide[3:])):
        x.flags.writeable = False
        short = _core.cdist_arrays(x, y, metric)
        assert short.dtype == dtype and short.flags.writeable
        long = gpudist.cdist(x, y, metric, device="cpu", dtype=dtype)
        np.testing.assert_array_equal(short, long)
        np.testing.assert_array_equal(short, gpudist.cdist(x, y, metric))
        out = np.zeros_like(short)
        assert _core.cdist_arrays(x, y, metric, out, "cpu") is out
        np.testing.assert_array_equal(out, long)


OTHERS = {
    "a list": (SQUARE.tolist(), "euclidean"),
    "integers": (SQUARE.astype(int), "euclidean"),
    "another dtype": (SQUARE.astype("f4"), "euclidean"),
    "another byte order": (SQUARE.astype(">f8"), "euclidean"),
    "columns that lie apart": (SQUARE.T, "euclidean"),
    "rows in reverse": (SQUARE[::-1], "euclidean"),
    "rows that are one": (np.broadcast_to(SQUARE[0], (3, 4)), "euclidean"),
    "no rows": (SQUARE[:0], "euclidean"),
    "other columns": (SQUARE[:, :3], "euclidean"),
    "one dimension": (SQUARE[0], "euclidean"),
    "a subclass": (np.ma.masked_array(SQUARE), "euclidean"),
    "a large result": (np.ones((1 << 17, 4)), "euclidean"),
    "a metric with an argument": (SQUARE, "minkowski"),
    "a metric of truths": (SQUARE, "jaccard"),
    "no metric": (SQUARE, "euclid"),
    "a callable": (SQUARE, max),
}


@pytest.mark.parametrize(("x", "metric"), OTHERS.values(), ids=OTHERS)
def test_other_arrays_go_the_long_way(x, metric):
    assert _core.cdist_arrays(x, SQUARE, metric) is None
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean") is not None


OUTS = {
    "another shape": np.empty((3, 4)),
    "another dtype": np.empty((4, 4), "f4"),
    "another order": np.empty((4, 4), order="F"),
    "rows apart": np.empty((4, 5))[:, :4],
    "a subclass": np.ma.empty((4, 4)),
    "no array": [[0.0] * 4] * 4,
}


@pytest.mark.parametrize("out", OUTS.values(), ids=OUTS)
def test_other_results_go_the_long_way(out):
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", out) is None


def test_what_the_short_way_leaves_to_the_long_one():
    fixed = np.empty((4, 4))
    fixed.flags.writeable = False
    assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", fixed) is None
    for device in ("cuda", "cuda:1", "nowhere", 3, b"cpu"):
        assert _core.cdist_arrays(SQUARE, SQUARE, "euclidean", None, device) is None
    # A call that can be stopped says how much of the caller's array is written.
    x = np.ones((100, 2000))
    assert _core.cdist_arrays(x, x, "euclidean", np.empty((100, 100))) is None
    assert _core.cdist_arrays(x, x, "euclidean") is not None


def test_the_core_checks_for_itself():
    """The Python layer is not what keeps the core safe."""
    out = np.empty((4, 5))
    with pytest.raises(TypeError, match="lacks the argument 'metric'"):
        _core.cdist(A, B, out)
    with pytest.raises(TypeError, match="two values for 'a'"):
        _core.cdist(A, B, out, "euclidean", a=A)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        _core.cdist(A, B, out, "euclidean", nonsense=1)
    with pytest.raises(TypeError, match="at most"):
        _core.cdist(*range(99))
    with pytest.raises(ValueError, match="unknown metric"):
        _core.cdist(A, B, out, "x")
    with pytest.raises(TypeError, match="metric must be a string"):
        _core.cdist(A, B, out, 5)
    with pytest.raises(TypeError, match="out must be an array to write to"):
        _core.cdist(A, B, [[1.0]], "euclidean")
    with pytest.raises(ValueError, match="graph must be square"):
        _core.apsp(A, out, None, "zero", 0, True, False, 0)
    with pytest.raises(ValueError, match="results must have shape"):
        _core.apsp(G, out, None, "zero", 0, True, False, 0)
    with pytest.raises(TypeError, match="predecessors are int32"):
        _core.apsp(G, np.empty((3, 3)), np.empty((3, 3)), "zero", 0, True, False, 0)
    with pytest.raises(ValueError, match="unknown no_edge"):
        _core.apsp(G, np.empty((3, 3)), None, "nothing", 0, True, False, 0)
    with pytest.raises(ValueError, match="repeats must be"):
        _core.ceiling("ceiling/cpu_fma_baseline", 4096, 0)
    with pytest.raises(ValueError, match="computes ceiling, not cdist"):
        _core.cdist(A, B, out, "euclidean", kernel="ceiling/cpu_fma_baseline")


class Claims:
    """An object that claims to be a CUDA array."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {
            "shape": (4, 3), "typestr": "<f8", "data": (1 << 12, False), "version": 3,
        } | interface  # fmt: skip


@pytest.mark.parametrize(
    ("interface", "error", "message"),
    [
        ({"shape": (4,)}, ValueError, "two-dimensional"),
        ({"shape": (4, -1)}, ValueError, "bad shape"),
        ({"typestr": "<c8"}, TypeError, "not float64"),
        ({"typestr": ">f8"}, TypeError, "not float64"),
        ({"data": None}, TypeError, "without data"),
        ({"data": (1, 2, 3)}, TypeError, "without data"),
        ({"mask": A}, TypeError, "masked"),
        ({"strides": (25, 8)}, ValueError, "whole elements"),
        ({"strides": (8,)}, ValueError, "strides"),
        ({"stream": 0}, ValueError, "stream 0"),
        ({}, TypeError, "different devices"),
    ],
)
def test_cuda_array_interfaces_are_checked(interface, error, message):
    with pytest.raises(error, match=message):
        _core.cdist(Claims(**interface), B, np.empty((4, 5)), "euclidean")


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        ({"shape": 4}, "XA has a __cuda_array_interface__ without a shape"),
        ({"shape": (4, None)}, "without a shape"),
        ({"typestr": "number"}, "known typestr"),
        ({}, "allocates results for NumPy"),
    ],
)
def test_what_has_an_interface_alone_is_read_by_it(interface, message):
    with pytest.raises(TypeError, match=message):
        gpudist.cdist(Claims(**interface), Claims())
    with pytest.raises(ValueError, match=r"out must have shape \(4, 4\), got \(4, 3\)"):
        gpudist.cdist(Claims(), Claims(), rows=slice(2), out=Claims())


@pytest.mark.parametrize("typestr", ["<f8", "|b1", "<c8"])
@pytest.mark.parametrize("name", ["apsp", "apsp or_and", "transitive_closure", "minplus", "or_and"])
def test_a_result_may_have_an_interface_alone(name, typestr):
    """That these are refused tells that they were read; nothing is written to them."""
    graph, out = Claims(shape=(3, 3)), Claims(shape=(3, 4), typestr=typestr)
    call = {
        "apsp": lambda: gpudist.apsp(graph, out=out),
        "apsp or_and": lambda: gpudist.apsp(graph, semiring="or_and", out=out),
        "transitive_closure": lambda: gpudist.transitive_closure(graph, out=out),
        "minplus": lambda: gpudist.minplus(graph, graph, out=out),
        "or_and": lambda: gpudist.minplus(
            Claims(shape=(3, 3), typestr="|b1"),
            Claims(shape=(3, 3), typestr="|b1"),
            semiring="or_and",
            out=out,
        ),
    }[name]
    takes = "<f8" if name in ("apsp", "minplus") else "|b1"
    message = (
        r"out must have shape \(3, 3\), got \(3, 4\)" if typestr == takes else "out must be an"
    )
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, TypeError, "different devices"),
        ({1: (4,)}, ValueError, "bad description"),
        ({1: (4,), 2: (1,)}, ValueError, "two-dimensional"),
        ({1: (4, -1)}, ValueError, "bad shape"),
        ({1: [4, 3]}, TypeError, "tuple"),
        ({2: (25, 8), 3: 8}, ValueError, "whole elements"),
        ({3: 0}, ValueError, "bad description"),
        ({4: "float16"}, TypeError, "not float64"),
        ({4: "float32"}, TypeError, "not float64"),
        ({0: "here"}, TypeError, "int"),
        ({5: None}, TypeError, "int"),
    ],
)
def test_descriptions_are_checked(changes, error, message):
    facts = [1 << 12, (4, 3), (3, 1), 1, "float64", 0]
    for at, value in changes.items():
        facts[at] = value
    with pytest.raises(error, match=message):
        _core.cdist(tuple(facts), B, np.empty((4, 5)), "euclidean")


def test_a_tuple_is_a_description_only_if_it_looks_like_one():
    out = np.empty((6, 5))
    rows = tuple(map(tuple, np.vstack([A, A])[:6].tolist()))
    _core.cdist(rows, B, out, "euclidean")
    np.testing.assert_array_equal(out, gpudist.cdist(np.array(rows), B))


def test_tensors_are_described_unless_dlpack_knows_better():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    space = gpudist.arrays._LIBRARIES["torch"]
    x = torch.arange(12.0).reshape(4, 3).t()[1:]
    described = space.operand(x, "float32", x.shape)
    assert described == (x.data_ptr(), (2, 4), (1, 3), 1, "float32", x.get_device())
    kept = type("Kept", (torch.Tensor,), {})(x)
    negative = torch.complex(x, x).conj().imag
    for tensor in (kept, negative, x.clone().requires_grad_()):
        assert space.operand(tensor, "float32", tensor.shape) is tensor


class Exports:
    """An object that claims to export a CUDA array by DLPack."""

    def __init__(self, answer=None, device=(2, 0)):
        self.answer, self.device, self.asked = answer, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if "max_version" in keywords:
            raise TypeError("an exporter from before max_version")
        return self.answer


def test_dlpack_is_asked_as_the_protocol_says():
    exporter = Exports(answer=A)
    with pytest.raises(TypeError, match="did not return a DLPack capsule"):
        _core.cdist(exporter, B, np.empty((4, 5)), "euclidean")
    assert exporter.asked == [{"stream": 1, "max_version": (1, 0)}, {"stream": 1}]
    for arguments, stream in (({"stream": 7}, 7), ({"stream": 7, "ordered": True}, -1)):
        exporter = Exports(answer=A)
        with pytest.raises(TypeError, match="capsule"):
            _core.cdist(exporter, B, np.empty((4, 5)), "euclidean", **arguments)
        assert exporter.asked[0]["stream"] == stream


def test_a_host_capsule_is_numpys_business():
    class OnHost(Exports):
        def __array__(self, dtype=None, copy=None):
            return A

    out = np.empty((4, 5))
    _core.cdist(OnHost(device=(1, 0)), B, out, "euclidean")
    np.testing.assert_array_equal(out, gpudist.cdist(A, B))


def test_host_and_device_do_not_mix():
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device; move one"):
        gpudist.cdist(A, Claims())
