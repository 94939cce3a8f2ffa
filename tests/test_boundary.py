"""The boundary: every wrong argument has its error, nothing is changed, kept or lost."""

import gc
import sys
import threading

import numpy as np
import pytest
import scipy.spatial.distance
from conftest import RECORDS, scipy_cdist, scipy_pdist

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
    ({"out": UNALIGNED}, ValueError, r"out must be aligned and in native byte order$"),
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
    ({"device": "cuda:0, 1"}, ValueError, "several GPUs, .* are 'cuda:all' or 'cuda:0,2'"),
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
    ("minkowski", {"p": np.complex64(2)}, TypeError, "p must", None),
    ("minkowski", {"p": np.ma.masked}, TypeError, "p must", None),
    ("jensenshannon", {"base": np.complex128(2)}, TypeError, "base must", TypeError),
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
        x = P[:, : record.columns or 3] / 10  # latitudes are small
        for name in {"w", "p", "V", "VI", "base", "box"} - set(record.arguments):
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
    with pytest.raises(
        MemoryError,
        match=rf"needs {2**83} bytes .* perhaps not all of them for this process; .* out=",
    ):
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


def test_no_keyword_is_suggested_for_itself():
    with pytest.raises(TypeError, match=r"'options': euclidean takes w and box$"):
        gpudist.knn(A, k=1, options={})


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
