"""perron: the root lies between the bounds in every case, and what is promised at the edges."""

import functools
import re
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse.csgraph
from conftest import LAYOUTS, relay, rows, runnable, settings
from test_watching import seconds_to_hear

import gpudist
from gpudist import _core

try:
    import mpmath
except ImportError:  # as on a machine that only lends its GPU
    mpmath = None

FLOATS = ("float32", "float64")
KERNELS = [param for param in rows("perron") if not param.values[0].teaching]


def hilbert(rng, n):
    i = np.arange(n)
    return 1 / (i[:, None] + i + 1)


def positive(rng, n):
    return rng.random((n, n)) + 1e-3


def wide(rng, n):
    return np.exp(rng.normal(size=(n, n)) * 5)


def leslie(rng, n):
    a = np.zeros((n, n))
    a[0] = rng.random(n) + 0.1
    a[np.arange(1, n), np.arange(n - 1)] = rng.uniform(0.5, 1, n - 1)
    return a


def google(rng, n):
    links = (rng.random((n, n)) < 5 / n).astype(float)
    links[:, links.sum(axis=0) == 0] = 1
    return 0.85 * links / links.sum(axis=0) + 0.15 / n


def markov(rng, n):
    chances = rng.random((n, n)) ** 8
    return (chances / chances.sum(axis=1, keepdims=True)).T


def cyclic(rng, n):
    """Of period 3: three more eigenvalues than the root have its modulus."""
    group = np.arange(n) % 3
    return np.where(group[None] == (group[:, None] + 1) % 3, rng.random((n, n)) + 0.1, 0.0)


def nearly_reducible(rng, n):
    a = rng.random((n, n)) * 1e-8
    half = n // 2
    a[:half, :half] = rng.random((half, half))
    a[half:, half:] = rng.random((n - half, n - half))
    return a


def band(rng, n):
    i = np.arange(n)
    return np.exp(-np.abs(i[:, None] - i) / 3.0)


FAMILIES = (hilbert, positive, wide, leslie, google, markov, cyclic, nearly_reducible, band)


def root(a):
    """Find the root and how far off it may be: not at all for a small matrix, with mpmath."""
    if len(a) > 12 or mpmath is None:
        return max(abs(np.linalg.eigvals(a.astype(float)))), 1e-9
    if len(a) == 1:  # for which mpmath's answer has another form
        return float(a[0, 0]), 0
    with mpmath.workdps(60):
        values = mpmath.eig(mpmath.matrix(a.tolist()), left=False, right=False)
        return max(abs(value) for value in values), 0


def holds(found, a):
    """Check that the root of `a` lies between the bounds, and what the vector promises."""
    truth, slack = root(a)
    least, most = (truth * (1 - slack), truth * (1 + slack)) if slack else (truth, truth)
    assert found.lower <= most and least <= found.upper
    assert found.lower <= found.value <= found.upper
    x = found.vector.astype(float)
    assert x.shape == (len(a),) and x.max() == 1 and (x > 0).all()
    assert found.vector.dtype == ("float32" if a.dtype == np.float32 else "float64")
    return found


def ratios(found, a):
    x = found.vector.astype(float)
    return a.astype(float) @ x / x


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_root_is_between_the_bounds(kernel, family, dtype, rng):
    runnable(kernel)
    for n in (3, 9, 67, 130):
        a = family(rng, n).astype(dtype)
        found = holds(gpudist.perron(a, kernel=kernel.id), a)
        assert found.converged and found.upper - found.lower <= 1e-6 * found.lower
        # The vector is one round further than the bounds, but rounded.
        spread = 1e-6 if dtype == "float64" else 1e-5
        assert np.ptp(ratios(found, a)) <= spread * found.upper


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", rows("perron"))
def test_sizes(kernel, dtype, rng):
    runnable(kernel)
    for n in (1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 131, 257):
        a = positive(rng, n).astype(dtype)
        holds(gpudist.perron(a, kernel=kernel.id), a)


@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_as_narrow_as_rounding_allows(kernel, rng):
    """Nothing but rounding is left at this width, so bounds that forget some of it are wrong."""
    runnable(kernel)
    for family in (positive, hilbert, leslie):
        for n in (2, 5, 11):
            a = family(rng, n)
            found = holds(gpudist.perron(a, tol=2e-14, kernel=kernel.id), a)
            assert found.converged
    a = positive(rng, 300)
    found = gpudist.perron(a, tol=1e-12, kernel=kernel.id)
    truth = np.linalg.eigvals(a).real.max()
    assert found.converged and abs(found.value / truth - 1) < 1e-11


@hypothesis.given(st.data())
def test_any_matrix_with_any_zeros(data):
    n = data.draw(st.integers(1, 6))
    entry = st.one_of(st.just(0.0), st.floats(2.0**-30, 2.0**30, width=32))
    a = np.array(data.draw(st.lists(entry, min_size=n * n, max_size=n * n))).reshape(n, n)
    a = a.astype(data.draw(st.sampled_from(FLOATS)))
    parts, _ = scipy.sparse.csgraph.connected_components(a != 0, connection="strong")
    if parts > 1 or not a.any(axis=1).all():
        with pytest.raises(ValueError, match="irreducible"):
            gpudist.perron(a, device="cpu")
        return
    with warnings.catch_warnings():  # what it has not reached in 200 rounds still holds
        warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
        holds(gpudist.perron(a, max_iter=200, device="cpu"), a)


@pytest.mark.parametrize("kernel", rows("perron"))
def test_zeros_need_a_graph_that_holds_together(kernel, rng):
    """Every answer about the graph is SciPy's, and the nodes named are indeed apart."""
    runnable(kernel)
    seen = set()
    for n in (2, 3, 5, 40, 64, 65, 130):
        for density in (1.0, 2.0, 4.0):
            zero = rng.choice([0.0, -0.0], size=(n, n))  # kernels that work on bits see two of them
            a = np.where(rng.random((n, n)) < density / n, rng.random((n, n)) + 0.1, zero)
            a[np.arange(n), rng.integers(n, size=n)] = 1  # no empty row
            parts, label = scipy.sparse.csgraph.connected_components(a != 0, connection="strong")
            seen.add(int(parts > 1))
            if parts == 1:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
                    holds(gpudist.perron(a, kernel=kernel.id, max_iter=50), a)
                continue
            with pytest.raises(ValueError, match=f"has {parts} strongly") as caught:
                gpudist.perron(a, kernel=kernel.id)
            start, end, size = map(
                int,
                re.search(
                    r"from (\d+) to (\d+), whose component has (\d+)", str(caught.value)
                ).groups(),
            )
            assert size == (label == label[end]).sum()
            reached = scipy.sparse.csgraph.breadth_first_order(a, start, return_predecessors=False)
            assert end not in reached
    assert seen == {0, 1}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", rows("perron"))
def test_flaws_are_named(kernel, dtype, rng):
    runnable(kernel)
    for n in (1, 5, 70, 133):
        good = positive(rng, n).astype(dtype)
        for flaw, words in ((-1.5, "-1.5"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")):
            i, j = rng.integers(n, size=2)
            a = good.copy()
            a[i, j] = flaw
            a[min(i + 1, n - 1), :] = np.where(i + 1 < n, np.nan, a[-1])  # a later one
            with pytest.raises(ValueError, match=rf"but A\[{i}, {j}\] is -?{words}$"):
                gpudist.perron(a, kernel=kernel.id)
        a = good.copy()
        a[n // 2] = 0
        with pytest.raises(ValueError, match=f"its row {n // 2} is zero"):
            gpudist.perron(a, kernel=kernel.id)
    a[n // 2, 0] = -0.0
    with pytest.raises(ValueError, match="is zero"):
        gpudist.perron(a, kernel=kernel.id)


@pytest.mark.parametrize("kernel", KERNELS)
def test_slow_convergence_is_handled(kernel, rng):
    """Rounds without help would be hundreds to millions."""
    runnable(kernel)
    chain = np.diag(np.ones(39), 1) + np.diag(np.ones(39), -1)  # period 2, many close eigenvalues
    weighted = np.roll(np.diag(rng.random(12) + 0.1), 1, axis=1)  # period 12
    apart = np.array([[1.0, 1e-9], [1e-9, 1.001]])
    for a, most in (
        (cyclic(rng, 60), 40),
        (nearly_reducible(rng, 100), 120),
        (chain, 150),
        (weighted, 400),
        (apart, 60),
        (leslie(rng, 40), 250),
        (band(rng, 200), 150),
        (hilbert(rng, 1000), 13),
    ):
        found = holds(gpudist.perron(a, kernel=kernel.id), a)
        assert found.converged and found.iterations <= most


def test_a_shift_changes_the_way_and_not_the_bounds(device, rng):
    a = cyclic(rng, 30)
    with pytest.warns(gpudist.ConvergenceWarning):  # the ratios of three groups go round in turns
        plain = gpudist.perron(a, shift=0, max_iter=7, device=device)
    shifted = gpudist.perron(a, shift=4.0, device=device)
    assert not plain.converged and holds(shifted, a).converged
    holds(plain, a)
    b = positive(rng, 30)
    with pytest.warns(gpudist.ConvergenceWarning):
        one, other = (gpudist.perron(b, shift=s, max_iter=3, device=device) for s in (0, 100))
    holds(other, b)
    assert other.upper - other.lower > 10 * (one.upper - one.lower)


def test_without_convergence_bounds_hold_and_a_warning_says_so(device, rng):
    a = hilbert(rng, 60)
    before = np.inf
    for rounds in (1, 2, 3, 5):
        with pytest.warns(
            gpudist.ConvergenceWarning, match=f"in {rounds} rounds, not tol = 1.0e-09"
        ):
            found = gpudist.perron(a, tol=1e-9, max_iter=rounds, device=device)
        holds(found, a)
        assert not found.converged and found.iterations == rounds
        assert found.upper - found.lower < before
        before = found.upper - found.lower
    assert gpudist.perron(a, max_iter=10**30, device=device).converged


def test_a_start_near_the_vector_saves_rounds(device, rng):
    a = hilbert(rng, 50)
    first = gpudist.perron(a, device=device)
    again = gpudist.perron(a, x0=first.vector, device=device)
    assert again.iterations <= 2 < first.iterations
    holds(again, a)
    far = gpudist.perron(a, x0=(10.0 ** rng.uniform(-300, 300, 50)).tolist(), device=device)
    assert holds(far, a).converged


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_layout_gives_the_same_bits(device, dtype, rng):
    a = positive(rng, 77).astype(dtype)
    first = gpudist.perron(a, device=device)
    for layout in LAYOUTS:
        moved = relay(a, layout)
        kept = moved.copy()
        found = gpudist.perron(moved, device=device)
        assert (found.lower, found.upper, found.value) == (first.lower, first.upper, first.value)
        assert (found.vector == first.vector).all() and (moved == kept).all()


@pytest.mark.parametrize("power", [-1030, -1000, -500, -100, 100, 500, 900, 990])
def test_any_scale_of_float64(device, power, rng):
    a = positive(rng, 20)
    plain = gpudist.perron(a, device=device)
    with warnings.catch_warnings():  # among subnormal numbers bounds hold, but stay apart
        warnings.simplefilter("ignore" if power < -1000 else "error", gpudist.ConvergenceWarning)
        found = gpudist.perron(np.ldexp(a, power), device=device)
    if power >= -1000:  # where nothing was rounded away
        assert np.ldexp(found.value, -power) == pytest.approx(plain.value, rel=1e-6)
    assert np.ldexp(found.lower, -power) <= plain.upper * (1 + 1e-12)
    assert np.ldexp(found.upper, -power) >= plain.lower * (1 - 1e-12)


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e30])
def test_any_scale_of_float32(device, scale, rng):
    a = (rng.integers(1, 9, (20, 20)) * scale).astype("float32")
    assert holds(gpudist.perron(a, device=device), a).converged


def test_products_beyond_float64_are_an_error(device):
    with pytest.raises(OverflowError, match="exceed the range of float64"):
        gpudist.perron(np.full((30, 30), 1e308), device=device)


def test_components_far_apart_stay_positive(device):
    n = 60  # a chain whose links are weak: the vector falls by 1e-9 from each to the next
    a = np.diag(np.full(n - 1, 1e-9), -1) + np.diag(np.ones(n - 1), 1)
    a[0, 0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpudist.ConvergenceWarning)
        for dtype in FLOATS:
            found = gpudist.perron(a.astype(dtype), device=device)
            assert (found.vector > 0).all() and found.vector.max() == 1
            assert found.lower <= max(abs(np.linalg.eigvals(a.astype(dtype)))) <= found.upper


def test_the_study(device):
    """Its root, 7.53114, is where its rule stops: the last digit is one too many."""
    found = gpudist.perron([[1, 1, 2], [2, 1, 3], [2, 3, 5]], device=device)
    assert found.lower <= 7.531128874149275 <= found.upper
    assert found.value == pytest.approx(7.53114, rel=2e-6)


@pytest.mark.parametrize("kernel", ["auto", "perron/cpu_naive"])
def test_ctrl_c_ends_a_long_call(kernel, rng):
    a = rng.random((2000, 2000))
    call = functools.partial(gpudist.perron, a, tol=0, max_iter=10**6, kernel=kernel, device="cpu")
    assert min(seconds_to_hear(call) for _ in range(2)) < 0.5


def test_dtypes(device):
    a = np.array([[1, 2], [3, 4]])
    assert gpudist.perron(a.astype("f4"), device=device).vector.dtype == np.float32
    for other in (a, a.astype("f8"), a.astype("u1"), a.astype("f2"), a.tolist(), a.astype(bool)):
        assert gpudist.perron(other, device=device).vector.dtype == np.float64
    assert gpudist.perron(a, device=device).value == pytest.approx((5 + 33**0.5) / 2, rel=1e-6)


def test_the_reference_agrees(rng):
    for family in FAMILIES:
        a = family(rng, 24)
        slow = gpudist.perron(a, kernel="reference", max_iter=20000)
        found = gpudist.perron(a, device="cpu")
        assert slow.converged and slow.lower <= found.upper and found.lower <= slow.upper
    for bad in (np.eye(3), np.zeros((2, 2)), -np.ones((2, 2))):
        with pytest.raises(ValueError, match="A must be"):
            gpudist.perron(bad, kernel="reference")


def test_the_result_reads_well(rng):
    found = gpudist.perron(np.ones((3, 3), "f4"), device="cpu")
    assert repr(found).startswith("PerronResult(value=3.0, lower=2.999999999")
    assert "iterations=1, converged=True, vector: 3 components of float32)" in repr(found)
    with pytest.raises(AttributeError):
        found.value = 4


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda a: gpudist.perron(a[:2]), ValueError, r"square and not empty, got shape \(2, 3\)"),
        (lambda a: gpudist.perron(a[0]), ValueError, r"got shape \(3,\)"),
        (lambda a: gpudist.perron(a[:0, :0]), ValueError, r"got shape \(0, 0\)"),
        (lambda a: gpudist.perron(a * 1j), TypeError, "A must be an array of real numbers"),
        (lambda a: gpudist.perron(np.ma.array(a)), TypeError, "A is a masked array"),
        (lambda a: gpudist.perron(a, tol=-1), ValueError, "tol must be a number from 0 on, got -1"),
        (lambda a: gpudist.perron(a, tol=np.nan), ValueError, "tol must be"),
        (lambda a: gpudist.perron(a, max_iter=0), ValueError, "max_iter must be a whole number fr"),
        (lambda a: gpudist.perron(a, max_iter=2.5), TypeError, "max_iter must be a whole number"),
        (lambda a: gpudist.perron(a, shift="on"), ValueError, "shift must be .auto. or a number"),
        (lambda a: gpudist.perron(a, shift=-1.0), ValueError, "shift must be .auto. or a number"),
        (lambda a: gpudist.perron(a, x0=[1, 2]), ValueError, r"x0 must have shape \(3,\), got \(2"),
        (lambda a: gpudist.perron(a, x0=[1, 0, 2]), ValueError, r"x0\[1\] is 0"),
        (lambda a: gpudist.perron(a, x0=[1, 2, np.nan]), ValueError, r"x0\[2\] is nan"),
        (lambda a: gpudist.perron(a, kernel="perron/cpu_row"), ValueError, "unknown kernel"),
        (lambda a: gpudist.perron(a, options={"block": 32}), ValueError, "takes no options"),
        (lambda a: gpudist.perron(a, device="gpu"), ValueError, "device must be"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((3, 3)))


def test_a_frame_is_not_read_by_position_where_its_names_say_otherwise():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    named = pd.DataFrame([[1.0, 2.0], [3.0, 9.0]], index=["a", "b"], columns=["a", "b"])
    turned = named[["b", "a"]]
    for call in (gpudist.perron, lambda frame: gpudist.explain("perron", frame)):
        with pytest.raises(ValueError, match=r"A's columns are in another order.*A\[A.index\]"):
            call(turned)
    value = gpudist.perron(named).value
    assert gpudist.perron(turned[turned.index]).value == value
    assert gpudist.perron(named.set_axis(["x", "y"], axis=1)).value == value


def test_explain():
    said = gpudist.explain("perron", np.ones((50, 50), "f4"), device="cpu")
    assert said.kernel.startswith("perron/cpu_rows") and said.bytes == 4 * 2500
    assert set(said.rejected) | {said.kernel} == {row.id for row in gpudist.kernels("perron")}
    assert "runs only by name" in said.rejected["perron/cpu_naive"]
    assert gpudist.explain("perron", np.ones((2, 2)), kernel="reference").kernel == "reference"


# ---------------------------------------------------------------- on a device


def test_the_study_in_every_version(rng):
    """Each version of each part leads to the same root, with any block."""
    study = next(row for row in gpudist.kernels("perron") if row.id == "perron")
    if study.why_not is not None:
        pytest.skip(study.why_not)
    a = hilbert(rng, 150)
    for part in study.options:
        for value in {part.least, part.least + part.step, part.standard, part.most}:
            holds(gpudist.perron(a, kernel="perron", options={part.name: value}), a)
    with pytest.raises(ValueError, match="row_sum"):
        gpudist.perron(a, kernel="perron", options={"row_sum": 3})


# ---------------------------------------------------------------- parts of the study's loop

PARTS = {
    "row_sum": lambda a, s, v, t: ("sums", a.sum(axis=1)),
    "vector_max": lambda a, s, v, t: ("top", s.max(keepdims=True)),
    "eigenvector": lambda a, s, v, t: ("vector", v * (s / t)),
    "transform": lambda a, s, v, t: ("matrix", a * (s / s[:, None])),
}


def part_operands(rng, n, dtype, *, of_matrix):
    """Return what the loop keeps; what a part gathers into holds something from before."""
    given = {"matrix": positive(rng, n).astype(dtype)} if of_matrix else {"matrix": None}
    given |= {name: (rng.random(n) + 0.5).astype(dtype) for name in ("sums", "vector")}
    return given | {"top": np.array([7.5], dtype), "apart": np.array([5], "int32")}


def run_part(kernel, given, **options):
    """Run a part where the kernel runs; return all arrays as they are then."""
    device, there = "cpu", given
    if kernel.backend == "cuda":
        torch = pytest.importorskip("torch")
        device = "cuda:0"
        there = {k: x if x is None else torch.as_tensor(x, device="cuda") for k, x in given.items()}
    _core.perron_part(**there, epsilon=1e-3, kernel=kernel.id, device=device, options=options)
    if kernel.backend == "cuda":
        torch.cuda.synchronize()
        return {k: x if x is None else x.cpu().numpy() for k, x in there.items()}
    return there


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", [p for p in rows("perron_part") if "conv" not in p.id])
def test_parts_of_the_study(kernel, dtype, rng):
    """Each changes one array, to what NumPy makes of it in float64, for any size and block."""
    runnable(kernel)
    of_matrix = kernel.columns[1] > 0
    for n in (1, 2, 31, 32, 33, 63, 65, 127, 129, 257, *(() if of_matrix else (1023, 70_001))):
        for options in settings(kernel):
            given = part_operands(rng, n, dtype, of_matrix=of_matrix)
            wide = [x if x is None else x.astype(float) for x in list(given.values())[:4]]
            changed, expected = PARTS[kernel.ladder.removeprefix("perron_")](*wide)
            kept = {name: x if x is None else x.copy() for name, x in given.items()}
            found = run_part(kernel, given, **options)
            rtol = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(found.pop(changed), expected, rtol=rtol)
            for name, x in found.items():
                assert x is None or np.array_equal(x, kept[name]), name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", [p for p in rows("perron_part") if "conv" in p.id])
def test_neighbours_that_differ_anywhere_are_apart(kernel, dtype, rng):
    runnable(kernel)
    for n in (1, 2, 31, 32, 33, 64, 65, 129, 1500):
        for options in settings(kernel):
            given = part_operands(rng, n, dtype, of_matrix=False)
            given["sums"][:] = 2 * (1 + 0.0009 * rng.random(n))
            assert run_part(kernel, given, **options)["apart"][0] == 0
            for at in {0, n // 2, n - 1, min(31, n - 1), min(32, n - 1)}:
                for factor in (1.01, 0.99, np.nan):
                    apart = {name: x if x is None else x.copy() for name, x in given.items()}
                    apart["sums"][at] *= factor
                    assert run_part(kernel, apart, **options)["apart"][0] == (n > 1), (n, at)


def test_a_part_says_what_it_does_not_take(rng):
    given = part_operands(rng, 5, "float64", of_matrix=True)

    def fails(error, words, kernel="perron/cpu_row_sum", **changes):
        with pytest.raises(error, match=words):
            _core.perron_part(**given | changes, epsilon=1e-3, kernel=kernel, device="cpu")

    fails(ValueError, "it takes at least 1 dimensions, not 0", matrix=None)
    fails(ValueError, "it takes 0 to 0 dimensions, not 5", kernel="perron/cpu_vector_max")
    fails(ValueError, "runs only by name", kernel=None)
    fails(ValueError, "computes perron, not perron_part", kernel="perron/cpu_naive")
    fails(ValueError, "matrix must have 25 elements, got 20", matrix=given["matrix"][:4].copy())
    fails(ValueError, "vector must have 5 elements, got 3", vector=given["vector"][:3])
    fails(ValueError, "top must have 1 elements, got 5", top=given["sums"])
    fails(TypeError, "apart must be of int32, not float64", apart=given["top"])
    fails(TypeError, "vector must be of float64", vector=given["vector"].astype("f4"))
    fails(ValueError, "sums must not be empty", sums=given["sums"][:0])
    fails(ValueError, "does not compute in int32", sums=np.zeros(5, "int32"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
def test_device_arrays(torch, dtype, rng):
    for n in (1, 6, 130, 401):
        a = positive(rng, n).astype(dtype)
        expected = gpudist.perron(a, device="cpu")
        there = torch.as_tensor(a, device="cuda")
        padded = torch.zeros((n + 1, n + 3), dtype=there.dtype, device="cuda")
        padded[1:, 2 : n + 2] = there
        for moved in (
            there,
            there.T.contiguous().T,
            padded[1:, 2 : n + 2],
            there.repeat(2, 3)[::2, ::3] if n == 1 else there,
        ):
            found = gpudist.perron(moved, x0=torch.ones(n, device="cuda", dtype=torch.float64))
            assert found.vector.is_cuda and str(found.vector.dtype) == f"torch.{dtype}"
            assert found.value == pytest.approx(expected.value, rel=1e-6)
            assert found.lower <= expected.upper and expected.lower <= found.upper
            vector = found.vector.cpu().numpy()
            assert vector == pytest.approx(expected.vector, rel=1e-5) and vector.max() == 1
        assert (there.cpu().numpy() == a).all()
        bad = there.clone()
        bad[n // 2, n - 1] = -2
        with pytest.raises(ValueError, match=rf"A\[{n // 2}, {n - 1}\] is -2"):
            gpudist.perron(bad)
        assert "components of float" in repr(found)
    half = gpudist.perron(there.half())
    assert half.vector.dtype == torch.float32
    with pytest.raises(ValueError, match="2 strongly connected components"):
        gpudist.perron(torch.tensor([[1.0, 1.0], [0.0, 1.0]], device="cuda"))
    with pytest.raises(TypeError, match="x0"):
        gpudist.perron(a, x0=there[0])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
def test_large_matrices(torch, dtype):
    """Shares of A that stay in shared memory, and such that do not."""
    for n in (2047, 2048, 4100, 8192):
        i = torch.arange(n, device="cuda", dtype=torch.float64)
        a = (1 / (i[:, None] + i + 1)).to(getattr(torch, dtype))
        found = gpudist.perron(a)
        x = torch.ones(n, device="cuda", dtype=torch.float64)
        for _ in range(60):
            x = a.double() @ x
            x /= x.max()
        y = a.double() @ x / x
        assert found.converged and found.iterations <= 14
        assert found.lower <= float(y.max()) * (1 + 1e-12)
        assert found.upper >= float(y.min()) * (1 - 1e-12)
        other = gpudist.perron(a, kernel="perron/cuda_rows")
        assert other.lower <= found.upper and found.lower <= other.upper
        a[n - 1, 3] = float("nan")
        with pytest.raises(ValueError, match=rf"A\[{n - 1}, 3\] is nan"):
            gpudist.perron(a)
