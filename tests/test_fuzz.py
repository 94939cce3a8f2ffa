"""Whatever comes in: a right answer or a Python exception, never a crash."""

import contextlib

import numpy as np
from conftest import RECORDS, assert_close
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpudist
from gpudist import _core, reference

ANYTHING = st.one_of(
    st.none(),
    st.integers(-3, 2**70),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=3),
    hnp.arrays(
        st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes()),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    st.sampled_from(["auto", "cpu", "cuda:7", "euclidean", "zero", "cdist/cpu_tile_baseline"]),
)
EXPECTED = (TypeError, ValueError, OverflowError, MemoryError, gpudist.DeviceError, BufferError)


@given(st.lists(ANYTHING, max_size=8), st.dictionaries(st.text(max_size=6), ANYTHING, max_size=2))
def test_the_core_survives_any_arguments(args, keywords):
    names = ("cdist", "pdist", "apsp", "choose", "ceiling", "event_record", "metrics")
    for function in (getattr(_core, name) for name in names):
        with contextlib.suppress(EXPECTED):
            function(*args, **keywords)


def nonsense_or(*sensible):
    return st.one_of(*map(st.just, sensible), ANYTHING)


@given(
    nonsense_or(np.ones((3, 2))),
    nonsense_or(np.ones((4, 2))),
    nonsense_or(np.empty((3, 4)), None),
    nonsense_or("euclidean", "cityblock"),
    nonsense_or("auto", "reference"),
    nonsense_or(None, "cpu"),
)
def test_cdist_survives_one_wrong_argument_among_right_ones(a, b, out, metric, kernel, device):
    try:
        result = gpudist.cdist(a, b, metric, out=out, kernel=kernel, device=device)
    except EXPECTED:
        return
    assert result.ndim == 2


@given(
    st.sampled_from(sorted(RECORDS)),
    st.dictionaries(
        st.sampled_from(["w", "p", "V", "VI", "base", "box", "x"]),
        nonsense_or(2.0, np.ones(2), np.eye(2)),
        max_size=2,
    ),
    nonsense_or(np.ones((3, 2))),
    nonsense_or(np.ones((4, 2))),
)
def test_metrics_survive_any_arguments(metric, args, a, b):
    for function, operands in ((gpudist.cdist, (a, b)), (gpudist.pdist, (a,))):
        for kernel in ("auto", "reference"):
            try:
                result = function(*operands, metric, kernel=kernel, **args)
            except (*EXPECTED, np.linalg.LinAlgError):
                continue
            assert result.dtype in (np.float32, np.float64)


@given(
    st.sampled_from(sorted(RECORDS)),
    nonsense_or(np.ones((3, 2)), np.ones((3, 2), bool)),
    nonsense_or(np.empty((3, 4)), np.empty(3), None),
    nonsense_or(None, np.ones(2)),
    nonsense_or(None, np.eye(2)),
    nonsense_or(2.0, 3.0),
)
def test_the_core_checks_the_arguments_of_metrics(metric, x, out, weights, matrix, number):
    """Whatever Python would have let through: the core reads no array beyond its end."""
    given_all = {"weights": weights, "p": number, "base": number, "vi": matrix, "factor": matrix}
    with contextlib.suppress(EXPECTED):
        _core.pdist(x, out, metric, **given_all)
    with contextlib.suppress(EXPECTED):
        _core.cdist(x, np.ones((4, 2)), out, metric, **given_all)


@given(nonsense_or(np.ones((3, 3))), nonsense_or(None, -1), nonsense_or(None, "int32"))
def test_apsp_survives_one_wrong_argument_among_right_ones(graph, no_edge, dtype):
    try:
        result = gpudist.apsp(graph, no_edge=no_edge, dtype=dtype)
    except (*EXPECTED, gpudist.NegativeCycleError):
        return
    assert result.ndim == 2


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.data(), st.integers(0, 40), st.integers(0, 40), st.integers(0, 70))
def test_any_finite_float32_data_keep_the_worst_case_bound(data, m, n, d):
    """Every rounding on the way, all in one direction: a fold, the folds of a group, groups."""
    roundings = 3 + min(d, 16) + min(d, 128) // 16 + d // 128
    a = data.draw(hnp.arrays(np.float32, (m, d), elements=FLOATS, fill=FLOATS))
    b = data.draw(hnp.arrays(np.float32, (n, d), elements=FLOATS, fill=FLOATS))
    for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev"):
        expected = gpudist.cdist(a, b, metric, kernel="reference", dtype=np.float64)
        with np.errstate(over="ignore"):
            expected = np.where(np.isinf(expected.astype("f4")), np.inf, expected)
        assert_close(gpudist.cdist(a, b, metric), expected, roundings * 2.0**-24, 1.5e-45)


@given(st.data(), st.integers(0, 70))
def test_any_graph_is_closed_as_by_the_plain_loop(data, n):
    weights = data.draw(
        hnp.arrays(np.float64, (n, n), elements=st.integers(-1, 3), fill=st.just(0.0))
    )
    expected, expected_pred = reference.apsp(
        reference.edges(weights, "zero", 0.0, True, False, "min_plus")
    )
    try:
        dist, pred = gpudist.apsp(weights, return_predecessors=True)
    except gpudist.NegativeCycleError as error:
        assert (np.diagonal(expected) < 0).any()
        assert set(error.nodes) <= set(range(n))
        return
    assert not (np.diagonal(expected) < 0).any()
    np.testing.assert_array_equal(dist, expected)
    np.testing.assert_array_equal(pred, expected_pred)
