"""minplus: every row of the table against NumPy, bit for bit, and what is promised at the edges."""

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import LAYOUTS, generation_of_code, relay, rows, runnable

import gpudist
from bench.cases import MinplusCase
from gpudist.measure import devices, timing
from gpudist.semirings import SEMIRINGS

NUMBERS = ("float32", "float64", "int32")
# (m, k, n): nothing, one, sides of tiles, primes, a few deep, wide and tall ones.
SHAPES = [
    (0, 3, 2), (3, 0, 2), (2, 3, 0), (0, 0, 0), (1, 1, 1), (1, 65, 1), (31, 32, 33), (33, 31, 32),
    (63, 65, 64), (64, 64, 64), (65, 1, 63), (127, 17, 129), (129, 128, 127), (2, 600, 3),
    (300, 2, 1), (1, 2, 300), (53, 263, 97), (97, 33, 193),
]  # fmt: skip


def dtypes_of(semiring):
    return ("bool",) if semiring == "or_and" else NUMBERS


def cases():
    for param in rows("minplus"):
        for semiring in SEMIRINGS:
            for dtype in dtypes_of(semiring):
                kernel = param.values[0]
                label = f"{kernel.id}-{semiring}-{dtype}"
                yield pytest.param(kernel, semiring, dtype, id=label, marks=param.marks)


def neutral(semiring, dtype):
    if dtype == "bool":
        return False
    sign = -1 if semiring.startswith("max") else 1
    if dtype != "int32":
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def matrix(rng, shape, semiring, dtype, kind):
    """Numbers that are not negative; of both signs with zeros; and with all that is special."""
    if dtype == "bool":
        return rng.random(shape) < 0.1
    if dtype == "int32":
        most = 2**28 if semiring.endswith("plus") else 2**31 - 1
        x = rng.integers(0 if kind == "plain" else 1 - most, most, shape)
    else:
        x = rng.random(shape) if kind == "plain" else rng.normal(size=shape) * 10.0**4
        if kind != "plain":
            x[rng.random(shape) < 0.1] = -0.0
    if kind == "special":
        x[rng.random(shape) < 0.3] = neutral(semiring, dtype)
        if dtype != "int32":
            x[rng.random(shape) < 0.1] = np.nan
            x[rng.random(shape) < 0.1] = -neutral(semiring, dtype)
    return x.astype(dtype)


def plain(a, b, c, semiring):
    """The definition, k by k, in the operands' dtype; int32 in int64, with infinities aside."""
    dtype, zero = a.dtype, neutral(semiring, a.dtype.name)
    worse = np.logical_and if semiring == "or_and" else None
    join = {"min": np.minimum, "max": np.maximum, "or_": np.logical_or}[semiring[:3]]
    put = {"plus": np.add, "_max": np.maximum, "_min": np.minimum, "_and": worse}[semiring[-4:]]
    wide = np.int64 if dtype == np.int32 else dtype

    def tidy(x):
        return np.where(np.isnan(x), zero, x).astype(wide)

    a, b = tidy(a), tidy(b)
    result = np.full((a.shape[0], b.shape[1]), zero, wide) if c is None else tidy(c)
    with np.errstate(invalid="ignore"):
        for k in range(a.shape[1]):
            left, right = a[:, k, None], b[None, k]
            way = tidy(put(left, right))
            result = join(result, np.where((left == zero) | (right == zero), zero, way))
    return result.astype(dtype)


def same(actual, expected, what=""):
    """Equal, but for the sign of zeros, which are all positive."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected, err_msg=what)
    if actual.dtype.kind == "f":
        assert not np.signbit(actual[actual == 0]).any(), what


@pytest.mark.parametrize("kind", ["plain", "signed", "special"])
@pytest.mark.parametrize(("kernel", "semiring", "dtype"), list(cases()))
def test_every_row_has_the_bits_of_the_definition(kernel, semiring, dtype, kind, rng):
    runnable(kernel)
    for m, k, n in SHAPES:
        a, b, c = (matrix(rng, shape, semiring, dtype, kind) for shape in ((m, k), (k, n), (m, n)))
        for given in (None, c):
            before = c.copy()
            result = gpudist.minplus(a, b, given, semiring=semiring, kernel=kernel.id)
            same(result, plain(a, b, given, semiring), f"{m} x {k} x {n}, C {given is not None}")
            np.testing.assert_array_equal(c, before)


@pytest.mark.parametrize(("kernel", "semiring", "dtype"), list(cases()))
def test_layouts_change_nothing(kernel, semiring, dtype, rng):
    runnable(kernel)
    a, b, c = (
        matrix(rng, shape, semiring, dtype, "special") for shape in ((41, 35), (35, 67), (41, 67))
    )
    expected = gpudist.minplus(a, b, c, semiring=semiring, kernel=kernel.id)
    for layout in LAYOUTS:
        laid = [relay(x, layout) for x in (a, b, c)]
        result = gpudist.minplus(*laid, semiring=semiring, dtype=dtype, kernel=kernel.id)
        same(result, expected, layout)


@pytest.mark.parametrize(("kernel", "semiring", "dtype"), list(cases()))
def test_out_may_be_an_operand(kernel, semiring, dtype, rng):
    runnable(kernel)
    n = 150
    a, b, c = (matrix(rng, (n, n), semiring, dtype, "special") for _ in range(3))
    expected = gpudist.minplus(a, b, c, semiring=semiring, kernel=kernel.id)
    for place in range(3):
        mine = [a.copy(), b.copy(), c.copy()]
        out = mine[place]
        assert gpudist.minplus(*mine, semiring=semiring, out=out, kernel=kernel.id) is out
        same(out, expected, f"operand {place}")
    # all at once, and a C that overlaps out without being it
    square = a.copy()
    gpudist.minplus(square, square, square, semiring=semiring, out=square, kernel=kernel.id)
    same(square, gpudist.minplus(a, a, a, semiring=semiring, kernel=kernel.id))
    turned = c.copy()
    gpudist.minplus(a, b, turned.T, semiring=semiring, out=turned, kernel=kernel.id)
    same(turned, gpudist.minplus(a, b, c.T, semiring=semiring, kernel=kernel.id))


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_a_row_depends_on_its_row_alone(device, semiring, rng):
    for dtype in dtypes_of(semiring):
        a, b, c = (
            matrix(rng, shape, semiring, dtype, "signed")
            for shape in ((200, 70), (70, 90), (200, 90))
        )
        a[100:] = np.abs(a[100:])  # some rows allow another loop
        whole = gpudist.minplus(a, b, c, semiring=semiring, device=device)
        for part in (slice(0, 1), slice(3, 77), slice(100, 200)):
            alone = gpudist.minplus(a[part], b, c[part], semiring=semiring, device=device)
            same(alone, whole[part])


@pytest.mark.gpu
@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("shape", [(2200, 70, 2170), (1850, 70, 1801), (130, 70, 40000)])
def test_the_tiles_of_the_last_wave(semiring, shape, rng):
    """Some or all of them are cut in two where the others are whole."""
    m, k, n = shape
    for dtype in dtypes_of(semiring):
        a, b, c = (
            matrix(rng, sides, semiring, dtype, "plain") for sides in ((m, k), (k, n), (m, n))
        )
        small = [(a % 500, b % 500)] if dtype == "int32" else []  # take another loop
        for left, right in [(a, b), *small]:
            whole = gpudist.minplus(left, right, c, semiring=semiring, device="cuda")
            for part in (slice(0, 90), slice(m - 100, m)):
                alone = gpudist.minplus(left[part], right, c[part], semiring=semiring, device="cpu")
                same(alone, whole[part])


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_the_reference_agrees(semiring, rng):
    for dtype in dtypes_of(semiring):
        for shapes in (((7, 5), (5, 9), (7, 9)), ((3, 0), (0, 2), (3, 2))):
            a, b, c = (matrix(rng, shape, semiring, dtype, "special") for shape in shapes)
            for given in (None, c):
                slow = gpudist.minplus(a, b, given, semiring=semiring, kernel="reference")
                expected = plain(a, b, given, semiring)
                same(slow, expected)
                out = np.empty_like(expected)
                assert (
                    gpudist.minplus(a, b, given, semiring=semiring, out=out, kernel="reference")
                    is out
                )
                same(out, expected)


@hypothesis.given(
    st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.sampled_from(SEMIRINGS),
    st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["plain", "signed", "special"]),
)  # fmt: skip
def test_any_shape(m, k, n, semiring, seed, joined, kind):
    rng = np.random.default_rng(seed)
    for dtype in dtypes_of(semiring):
        a, b, c = (matrix(rng, shape, semiring, dtype, kind) for shape in ((m, k), (k, n), (m, n)))
        c = c if joined else None
        same(gpudist.minplus(a, b, c, semiring=semiring), plain(a, b, c, semiring))


def test_squaring_closes_a_graph(device, rng):
    """Squaring often enough gives what apsp gives; int32 has the same name for no way."""
    n = 90
    w = rng.integers(1, 100, (n, n))
    w[rng.random((n, n)) > 0.04] = 0
    for dtype in ("float64", "int32"):
        expected = gpudist.apsp(w, dtype=dtype, device=device)
        d = np.where(w == 0, neutral("min_plus", dtype), w).astype(dtype)
        np.fill_diagonal(d, 0)
        for _ in range(7):
            gpudist.minplus(d, d, d, out=d, device=device)
        np.testing.assert_array_equal(d, expected)
    reached = (w != 0) | np.eye(n, dtype=bool)
    for _ in range(7):
        reached = gpudist.minplus(reached, reached, semiring="or_and", device=device)
    np.testing.assert_array_equal(reached, expected != gpudist.UNREACHABLE)


def test_lengths_in_int32_can_be_multiplied_as_they_are(device, rng):
    """What says that there is no path goes on saying so."""
    w = rng.integers(1, 9, (40, 40)) * (rng.random((40, 40)) < 0.04)
    for semiring in ("min_plus", "min_max", "max_min"):
        dist = gpudist.apsp(w, dtype="int32", semiring=semiring, device=device)
        assert (dist == neutral(semiring, "int32")).any()
        again = gpudist.minplus(dist, dist, semiring=semiring, device=device)
        np.testing.assert_array_equal(again, dist)  # there is no better way by way of two


def test_no_way_and_nan(device):
    inf, nan = np.inf, np.nan

    def one(a, b, semiring, **options):
        return gpudist.minplus([a], np.transpose([b]), semiring=semiring, device=device, **options)[
            0, 0
        ]

    assert one([inf, 5], [-inf, 1], "min_plus") == 6 and one([inf], [-inf], "min_plus") == inf
    assert one([-inf, 5], [inf, 1], "max_plus") == 6 and one([-inf], [inf], "max_plus") == -inf
    assert one([nan, 5], [0, 1], "min_plus") == 6 and one([nan], [1], "min_plus") == inf
    assert one([nan, 5], [9, 1], "min_max") == 5 and one([nan], [1], "min_max") == inf
    assert one([nan, 5], [0, 1], "max_min") == 1 and one([nan], [1], "max_min") == -inf
    assert one([-inf], [7], "min_plus") == -inf and one([-inf], [7], "min_max") == 7
    for semiring, zero in (("min_plus", inf), ("max_min", -inf)):
        none = gpudist.minplus([[]], np.empty((0, 1)), [[nan]], semiring=semiring, device=device)
        assert none[0, 0] == zero
    assert one([nan], [2], "or_and") and not one([0.0], [2], "or_and")


def test_int32_is_exact_or_refuses(device):
    limit, far = 2**28, gpudist.UNREACHABLE

    def one(a, b, semiring="min_plus"):
        a, b = np.array([a], np.int32), np.array([b], np.int32)
        return gpudist.minplus(a, b.T, semiring=semiring, device=device)[0, 0]

    assert one([limit - 1], [limit - 1]) == 2 * limit - 2
    assert one([1 - limit], [1 - limit]) == 2 - 2 * limit
    assert one([far, far], [1 - limit, far]) == far  # no way stays none
    assert one([-(2**31)], [limit - 1], "max_plus") == -(2**31)
    for bad in (limit, -limit, -far, -(2**31)):
        for a, b in (([bad], [1]), ([1], [bad])):
            with pytest.raises(ValueError, match=r"2\*\*28 or more"):
                one(a, b)
    with pytest.raises(ValueError, match="float64"):
        one([far], [1], "max_plus")
    for semiring in ("min_max", "max_min"):
        assert one([far], [-(2**31)], semiring) == (far if semiring == "min_max" else -(2**31))
    with pytest.raises(ValueError, match=r"2\*\*28"):
        gpudist.minplus(np.full((1, 1), limit, "i4"), np.ones((1, 1), "i4"), kernel="reference")


def test_dtypes(device):
    def kinds(*operands, **options):
        return gpudist.minplus(*operands, device=device, **options).dtype

    single, double, whole = (np.ones((2, 2), t) for t in ("f4", "f8", "i4"))
    assert kinds(single, single) == kinds(single, single, single) == np.float32
    assert kinds(whole, whole) == np.int32
    for other in (double, whole, np.ones((2, 2), bool), np.ones((2, 2), "f2")):
        assert kinds(single, other) == np.float64
    assert kinds([[1, 2]], [[1], [2]]) == np.float64  # Python's integers are int64
    assert kinds(double, double, dtype="float32") == np.float32
    assert kinds(whole.astype("i8"), whole.astype("u1"), dtype=np.int32) == np.int32
    assert kinds(double, whole, semiring="or_and") == np.bool_
    out = np.empty((2, 2), np.int32)
    assert gpudist.minplus(whole, whole, out=out, device=device) is out and (out == 2).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: gpudist.minplus(x, x, semiring="min-plus"), ValueError, "did you mean 'min_plu"),
        (lambda x: gpudist.minplus(x, x, semiring="dot"), ValueError, "one of min_plus"),
        (lambda x: gpudist.minplus(x[0], x), ValueError, "A must be two-dimensional, got 1"),
        (lambda x: gpudist.minplus(x[None], x[0]), ValueError, "B must be two-dimensional, got 1"),
        (lambda x: gpudist.minplus(x, x[:2]), ValueError, "columns as B has rows, got 3 and 2"),
        (lambda x: gpudist.minplus(x, x, x[:2]), ValueError, r"C must have shape \(3, 3\), got"),
        (lambda x: gpudist.minplus(x * 1j, x), TypeError, "A must be an array of real numbers"),
        (lambda x: gpudist.minplus(x, np.ma.array(x)), TypeError, "B is a masked array"),
        (lambda x: gpudist.minplus(x, x, dtype="bool"), ValueError, "dtype must be float32, float"),
        (lambda x: gpudist.minplus(x, x, dtype="int64"), ValueError, "int32 for min_plus, got in"),
        (lambda x: gpudist.minplus(x, x, dtype="int32"), ValueError, "A is of float64, which int3"),
        (lambda x: gpudist.minplus(x.astype("i8") + 2**40, x.astype("i8"), dtype="int32"),
         ValueError, "A has elements that int32 does not hold"),
        (lambda x: gpudist.minplus(x, x, semiring="or_and", dtype="f8"), ValueError, "be bool"),
        (lambda x: gpudist.minplus(x, x, out=x.astype(bool)), ValueError, "int32 for min_plus"),
        (lambda x: gpudist.minplus(x, x, out=x, dtype="f4"), ValueError, "but out has dtype flo"),
        (lambda x: gpudist.minplus(x, x, out=x[:2]), ValueError, r"out must have shape \(3, 3\)"),
        (lambda x: gpudist.minplus(x, x, out=np.asfortranarray(x)), ValueError, "C-contiguous"),
        (lambda x: gpudist.minplus(x, x, out=[[0.0]]), TypeError, "out must be a NumPy arr"),
        (lambda x: gpudist.minplus(x, x, kernel="cdist/cpu_tile_avx2"), ValueError, "unknown kern"),
        (lambda x: gpudist.minplus(x, x, options={"a": 1}), ValueError, "takes no options"),
        (lambda x: gpudist.minplus(x, x, device="gpu"), ValueError, "device must be"),
        (lambda a: gpudist.minplus(a, a[0]), ValueError, r"B must be two.*\(1, -1\)\) is a row"),
        (lambda a: gpudist.minplus(a[None], a[0]), ValueError, r"\(-1, 1\)\) a column"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((3, 3)))


def test_explain():
    a, b = np.zeros((5, 7), "f4"), np.zeros((7, 600), "f4")
    said = gpudist.explain("minplus", a, b, device="cpu")
    assert said.kernel.startswith("minplus/cpu_tile") and said.device == "cpu"
    assert said.operations == 5 * 7 * 600 and said.bytes == 4 * (5 * 7 + 7 * 600 + 5 * 600)
    assert set(said.rejected) | {said.kernel} == {row.id for row in gpudist.kernels("minplus")}
    bits = gpudist.explain("minplus", a, b, np.zeros((5, 600)), semiring="or_and", device="cpu")
    assert bits.bytes == 5 * 7 + 7 * 600 + 2 * 5 * 600
    assert gpudist.explain("minplus", a, b, kernel="reference").kernel == "reference"


@pytest.mark.gpu
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_device_arrays(torch, semiring, rng):
    for dtype in dtypes_of(semiring):
        a, b, c = (
            matrix(rng, shape, semiring, dtype, "special")
            for shape in ((70, 40), (40, 90), (70, 90))
        )
        expected = plain(a, b, c, semiring)
        there = [torch.as_tensor(x, device="cuda") for x in (a, b, c)]
        result = gpudist.minplus(*there, semiring=semiring)
        assert result.device.type == "cuda"
        same(result.cpu().numpy(), expected)
        turned = [x.T.contiguous().T for x in there]  # the same values, column by column
        same(gpudist.minplus(*turned, semiring=semiring).cpu().numpy(), expected)
        assert gpudist.minplus(*there, semiring=semiring, out=there[2]) is there[2]
        same(there[2].cpu().numpy(), expected)
    with pytest.raises(TypeError, match="B on a CUDA device"):
        gpudist.minplus(a, there[1], semiring=semiring)


@pytest.mark.gpu
def test_int32_on_a_device_is_checked(torch):
    x = torch.full((3, 3), 2**28, dtype=torch.int32, device="cuda")
    with pytest.raises(ValueError, match=r"2\*\*28"):
        gpudist.minplus(x, x)
    assert (gpudist.minplus(x, x, semiring="min_max") == 2**28).all()


@pytest.mark.gpu
@pytest.mark.parametrize("semiring", ["min_plus", "max_plus"])
@pytest.mark.parametrize("reach", [8191, 8192])
def test_small_int32_on_a_device(semiring, reach, rng):
    """All within +-8191 are multiplied in 16 bits there, where the result has tiles enough."""
    none = neutral(semiring, "int32")
    a, b, c = (rng.integers(-20, 21, s, np.int32) for s in ((1900, 37), (37, 1921), (1900, 1921)))
    for x in (a, b, c):
        x[rng.random(x.shape) < 0.3] = none
    a[7, 3] = b[3, 11] = a[1899, 36] = reach  # their sum is the longest and, negated, the shortest
    b[36, 1920] = a[5, 5] = b[5, 5] = -reach
    for joined in (None, c):
        expected = gpudist.minplus(a, b, joined, semiring=semiring, device="cpu")
        found = gpudist.minplus(a, b, joined, semiring=semiring, device="cuda")
        np.testing.assert_array_equal(found, expected)
    a[:], b[:] = none, none
    assert (gpudist.minplus(a, b, semiring=semiring, device="cuda") == none).all()


@pytest.mark.gpu
def test_all_loops_keep_their_pace():
    """Whole numbers need as many instructions as floats, small ones half of them.

    Results cannot show when warps fall apart behind a branch and each half does its arithmetic by
    itself: that took int32 1.53 times and small int32 0.76 times as long as float32.
    """
    if generation_of_code() != "9.0":
        pytest.skip("the instructions of other generations have other rates")
    arrays, reason = devices.device_arrays(0)
    if arrays is None:
        pytest.skip(reason)
    clock = timing.EventClock("cuda:0", arrays.stream(), arrays.flush)
    calls = {}
    for name, dtype, below in (
        ("float32", "float32", 1000),
        ("int32", "int32", 10**6),
        ("small", "int32", 1000),
    ):
        case = MinplusCase(4096, 4096, 4096, dtype, below=below)
        operands = tuple(arrays.put(x) for x in case.operands())
        calls[name] = case.prepare(operands, "cuda:0")
    seconds = dict.fromkeys(calls, math.inf)
    for _ in range(6):  # others may use the GPU for a while, and a slow loop is slow each time
        for name, call in calls.items():
            timed = timing.time_call(call, clock=clock)
            seconds[name] = min(seconds[name], *timed.seconds)
        as_fast = seconds["int32"] < 1.2 * seconds["float32"]
        if as_fast and seconds["small"] < 0.68 * seconds["float32"]:
            return
    pytest.fail(f"seconds: {seconds}")
