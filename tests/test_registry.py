"""The table, the chooser and its reasons."""

import ast
import dataclasses
import html
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import RECORDS, forms, generation_of_code

import gpudist
from gpudist import _core

A, B = np.zeros((10, 2)), np.zeros((20, 2))


def test_the_table_is_whole():
    rows = gpudist.kernels()
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert row.backend in ("cpu", "cuda") and row.idea and row.source and row.dtypes
        assert row.metrics or row.op != "cdist"
        assert row.columns[0] <= row.columns[1]
    ops = ["cdist", "apsp", "apsp_batch", "hops", "closure", "minplus", "neighbors", "gradient"]
    ops += ["perron", "perron_part", "ceiling"]
    assert {row for op in ops for row in gpudist.kernels(op)} == set(rows)


def test_every_metric_runs_on_both_backends():
    for backend in ("cpu", "cuda"):
        taken = {m for k in gpudist.kernels("cdist") if k.backend == backend for m in k.metrics}
        assert taken == {metric.name for metric in gpudist.metrics.METRICS}


def test_some_row_takes_every_form_of_every_metric(rng):
    """With and without weights, each exponent, numbers and truths, any number of columns."""
    metrics_of = {row.id: row.metrics for row in gpudist.kernels("cdist")}
    for metric, record in RECORDS.items():
        for _, make in forms(metric):
            for d in (record.columns,) if record.columns else (0, 1, 5, 300):
                for kind in ("float64", "float32", "bool"):
                    x = np.zeros((4, d), kind)
                    said = gpudist.explain("cdist", x, x, metric, device="cpu", **make(rng, d))
                    # minkowski's exponent can make another metric of it.
                    assert metric in metrics_of[said.kernel] or metric == "minkowski"


def test_arguments_decide_about_the_kernel():
    numbers, truths, w = np.ones((4, 9)), np.ones((4, 9), bool), np.ones(9)

    def taken(metric, x=numbers, **args):
        return gpudist.explain("cdist", x, x, metric, device="cpu", **args).kernel.split("_")[1]

    assert [taken("minkowski", p=p) for p in (1, 2, np.inf, 3)] == ["tile", "tile", "tile", "sums"]
    assert taken("euclidean", w=w) == taken("seuclidean", V=w) == "sums"
    # Weights of these are worked into the rows.
    assert taken("cosine", w=w) == taken("correlation", w=w) == taken("correlation") == "tile"
    assert taken("jaccard") == taken("jaccard", truths) == "bits"
    assert taken("jaccard", w=w) == taken("jaccard", truths, w=w) == "sums"
    assert taken("hamming") == taken("dice") == "sums"
    assert taken("hamming", truths) == taken("dice", truths) == "bits"


def test_a_row_that_cannot_run_says_why():
    why = gpudist.cuda.why_not()
    for row in gpudist.kernels():
        if row.backend == "cuda" and why is not None:
            assert row.why_not == why
        if row.backend == "cpu" and row.needs == "baseline":
            assert row.why_not is None


def test_auto_takes_the_best_instruction_set():
    isa = _core.host()["isa"]
    assert gpudist.explain("cdist", A, B, device="cpu").kernel == f"cdist/cpu_tile_{isa}"
    assert (
        gpudist.explain("apsp", np.zeros((3, 3)), device="cpu").kernel == f"apsp/cpu_blocked_{isa}"
    )


def test_the_choice_does_not_depend_on_the_rows_of_a():
    """But for kernels of equal bits, of which there are none on the CPU."""
    for d in (1, 2, 5, 100):
        b = np.zeros((5000, d))
        points = [np.zeros((m, d)) for m in (0, 1, 50, 100_000)]
        said = [gpudist.explain("cdist", a, b, device="cpu") for a in points]
        assert len({(s.kernel, s.device, s.reason) for s in said}) == 1
        assert len({gpudist.explain("cdist", a, b).device for a in points}) == 1


def test_explain_accounts_for_every_row():
    said = gpudist.explain("cdist", A, B, "cityblock", dtype="float32", device="cpu")
    assert {said.kernel, *said.rejected} == {row.id for row in gpudist.kernels("cdist")}
    assert "does not know the metric cityblock" in said.rejected["cdist/cpu_haversine_baseline"]
    assert said.bytes == 4 * (10 * 20 + 30 * 2) and said.operations == 10 * 20 * 2
    text = str(dataclasses.replace(said, verbose=True))
    assert said.kernel in text and all(id in text for id in said.rejected)
    by_name = gpudist.explain("cdist", A, B, kernel="cdist/cpu_tile_baseline")
    assert by_name.kernel == "cdist/cpu_tile_baseline" and "by name" in by_name.reason
    with pytest.raises(ValueError, match="does not know the metric haversine"):
        gpudist.explain("cdist", A, B, "haversine", kernel="cdist/cpu_tile_baseline")


@pytest.mark.skipif(gpudist.cuda.is_available(), reason="CUDA can be used here")
def test_without_cuda_auto_is_silent_and_cuda_says_why():
    assert gpudist.explain("cdist", np.zeros((3, 2)), np.zeros((10**6, 2))).device == "cpu"
    assert gpudist.cuda.devices() == ()
    for ask in (
        lambda: gpudist.cdist(A, B, device="cuda"),
        lambda: gpudist.apsp(np.zeros((2, 2)), device="cuda:0"),
        lambda: gpudist.cdist(A, B, kernel="cdist/cuda_tile"),
    ):
        with pytest.raises(gpudist.DeviceError, match=re.escape(gpudist.cuda.why_not())):
            ask()


@pytest.mark.gpu
def test_with_cuda_the_devices_are_told():
    first = gpudist.cuda.devices()[0]
    assert first.index == 0 and first.memory_bytes > 2**30 and first.multiprocessors > 0
    assert float(first.compute_capability) >= 7.5
    assert gpudist.explain("cdist", np.zeros((3, 2)), np.zeros((10**6, 2))).device == "cuda:0"
    with pytest.raises(gpudist.DeviceError, match="there is no cuda:99"):
        gpudist.cdist(A, B, device="cuda:99")


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 10**6])
def test_auto_weighs_the_bus_and_explain_says_how(m):
    small = gpudist.explain("cdist", np.zeros((m, 16)), np.zeros((64, 16)))
    assert small.device == "cpu"
    assert re.search(r"about .* ms here and .* ms there", small.rejected["cdist/cuda_tile"])
    large = gpudist.explain("cdist", np.zeros((m, 16)), np.zeros((5000, 16)))
    assert large.device == "cuda:0"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "d", "dtype", "metric", "kernel"),
    [
        (500, 64, "float32", "euclidean", "tile"),
        (1000, 64, "float32", "euclidean", "tensor_once"),
        (2000, 64, "float32", "euclidean", "tensor_once"),
        (4096, 64, "float32", "euclidean", "tensor"),
        (1024, 128, "float32", "euclidean", "tensor"),
        (100, 512, "float32", "euclidean", "tile"),
        (128, 512, "float32", "euclidean", "tensor"),
        (512, 128, "float32", "euclidean", "tensor"),
        (64, 4096, "float32", "euclidean", "tile"),
        (1024, 64, "float64", "euclidean", "tile_f64"),
        (256, 128, "float64", "euclidean", "tensor_f64"),
        (2048, 64, "float64", "euclidean", "tensor_f64"),
        (8192, 16, "float64", "euclidean", "tensor_f64"),
        (8192, 12, "float64", "euclidean", "tensor_f64"),
        (8192, 11, "float64", "euclidean", "tile_f64"),
        (16384, 4, "float64", "euclidean", "narrow"),
        (4096, 17, "float32", "euclidean", "short"),
        (8192, 21, "float32", "euclidean", "tensor"),
        (4096, 20, "float32", "euclidean", "short"),
        (4096, 21, "float32", "euclidean", "tensor_once"),
        (4096, 4, "float32", "cityblock", "short"),
        (500, 64, "float32", "cityblock", "tile"),
        (4096, 64, "float32", "cityblock", "direct"),
        (4096, 3, "float64", "cityblock", "narrow"),
        (4096, 4, "float64", "cityblock", "narrow"),
        (4096, 5, "float64", "cityblock", "tile_f64"),
    ],
)
def test_auto_takes_what_is_quickest_on_an_h200(n, d, dtype, metric, kernel):
    if generation_of_code() != "9.0":
        pytest.skip("needs machine code for compute capability 9.0")
    a, b = np.broadcast_to(np.zeros(d, dtype), (10**5, d)), np.zeros((n, d), dtype)
    said = gpudist.explain("cdist", a, b, metric, device="cuda")
    assert said.kernel == f"cdist/cuda_{kernel}"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "d", "dtype", "kernels"),
    [
        (300, 9, "float32", ["short", "tile", "short"]),
        (3000, 13, "float32", ["short", "tile", "short"]),
        (3000, 16, "float32", ["short"]),
        (3000, 18, "float32", ["short", "tile", "short"]),
        (3000, 20, "float32", ["short"]),
        (1, 64, "float32", ["few"]),
        (64, 512, "float32", ["few", "tile"]),
        (700, 50, "float32", ["few", "tile"]),
        (2000, 65, "float32", ["few", "tile", "direct"]),
        (300, 100, "float64", ["few", "tile_f64"]),
        (20, 300, "float64", ["few", "tile_f64"]),
        (1000, 64, "float64", ["few", "tile_f64"]),
    ],
)
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_kernels_that_stand_in_for_each_other_give_equal_bits(n, d, dtype, kernels, metric, rng):
    """How many rows A has may decide between kernels, but not about a bit of the result."""
    if generation_of_code() != "9.0":
        pytest.skip("needs machine code for compute capability 9.0")
    if metric == "cityblock" and kernels[-1] == "direct":
        kernels = ["direct"]  # its sums of cityblock are in an order of their own
    if metric == "euclidean" and dtype == "float32" and n >= 512 and 21 <= d <= 96:
        kernels = ["tensor_once"]  # takes all numbers of rows
    a, b = rng.random((60_000, d), dtype), rng.random((n, d), dtype)
    b[0] = a[0]  # an exact zero, which is recomputed
    whole = gpudist.cdist(a, b, metric, device="cuda")
    taken = [gpudist.explain("cdist", a, b, metric, device="cuda").kernel]
    for m in (20_000, 3000, 1000, 100, 5):
        taken.append(gpudist.explain("cdist", a[:m], b, metric, device="cuda").kernel)
        part = gpudist.cdist(a[:m], b, metric, device="cuda")
        np.testing.assert_array_equal(part.view("u1"), whole[:m].view("u1"))
    runs = [name for name, _ in itertools.groupby(reversed(taken))]
    assert runs == [f"cdist/cuda_{kernel}" for kernel in kernels]


@pytest.mark.gpu
@pytest.mark.parametrize("n", [130, 131])
@pytest.mark.parametrize("d", [4, 5, 16, 33, 300])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cityblock", "chebyshev"])
def test_float64_kernels_of_the_lp_family_give_equal_bits(n, d, metric, rng):
    """Roots are found side by side, but for those of numbers at the ends of the range."""
    a, b = rng.normal(size=(200, d)), rng.normal(size=(n, d))
    a *= 10.0 ** rng.integers(-165, 150, (200, 1))
    b *= 10.0 ** rng.integers(-165, 150, (n, 1))
    a[:n:3] = b[::3][: len(a[:n:3])]  # exact zeros
    a[5], a[6, 0], a[7, 0], a[8], b[8] = 0, np.inf, np.nan, 5e-324, 0
    kernels = ["few", "tile", "tile_f64", *(["narrow"] if d <= 4 else [])]
    first, *rest = (gpudist.cdist(a, b, metric, kernel=f"cdist/cuda_{name}") for name in kernels)
    for other in rest:
        np.testing.assert_array_equal(other.view("u8"), first.view("u8"))
    pairs = gpudist.pdist(b, metric, kernel="cdist/cuda_tile_f64")
    whole = gpudist.cdist(b, b, metric, kernel="cdist/cuda_tile")
    np.testing.assert_array_equal(pairs.view("u8"), whole[np.triu_indices(n, 1)].view("u8"))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [2200, 2199])
@pytest.mark.parametrize("d", [13, 16, 33, 64, 90, 1030])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "inner_product"])
def test_ways_to_float64_products_give_equal_bits(n, d, metric, rng):
    """Panels are prepared or not, and marks are looked for later or at once, as there are rows."""
    call = {"kernel": "cdist/cuda_tensor_f64", "metric": metric}
    a, b = rng.normal(size=(200, d)), rng.normal(size=(n, d))
    b[::7] = a[3] + rng.normal(size=d) * 1e-9
    b[4], b[5], b[6], b[8] = 0, b[5] * 1e-170, b[6] * 1e155, a[3]
    a[5], a[6], a[9], a[70, -1] = a[5] * 1e-170, a[6] * 1e155, 0, np.nan
    whole = gpudist.cdist(a, b, **call)
    if metric != "inner_product":
        direct = gpudist.cdist(a, b, metric, kernel="cdist/cuda_tile")
        np.testing.assert_allclose(whole, direct, rtol=1e-13)
    for part in (slice(3, 4), slice(3, 19), slice(2, 40), slice(1, 65), slice(60, 190)):
        got = gpudist.cdist(a[part], b, **call)
        np.testing.assert_array_equal(got, whole[part])
    for few in (70, 600):  # alone, or not
        square = gpudist.cdist(b[:few], b[:few], **call)
        np.testing.assert_array_equal(square, square.T)
        np.testing.assert_array_equal(
            gpudist.pdist(b[:few], **call), square[np.triu_indices(few, 1)]
        )


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "d", "metric", "arguments", "kernel"),
    [
        (4096, 64, "braycurtis", {}, "direct_sums"),
        (500, 64, "braycurtis", {}, "sums"),
        (4096, 64, "hamming", {"w": 1.0}, "direct_sums"),
        (4096, 64, "seuclidean", {"V": 1.0}, "tensor"),  # scaled rows are a product
        (4096, 64, "minkowski", {"p": 3}, "direct_sums"),
        (4096, 64, "minkowski", {"p": 2.5}, "sums"),
        (4096, 64, "canberra", {}, "sums"),
    ],
)
def test_auto_takes_the_loop_of_direct_for_simple_sums(n, d, metric, arguments, kernel):
    if generation_of_code() != "9.0":
        pytest.skip("needs machine code for compute capability 9.0")
    arrays = {key: np.full(d, x) if key != "p" else x for key, x in arguments.items()}
    a, b = np.zeros((3, d), "float32"), np.zeros((n, d), "float32")
    said = gpudist.explain("cdist", a, b, metric, device="cuda", **arrays)
    assert said.kernel == f"cdist/cuda_{kernel}"
    if arguments.get("p") == 2.5:
        assert "no exponents but 4" in said.rejected["cdist/cuda_direct_sums"]


def test_every_row_of_the_source_is_in_the_table():
    source = Path(__file__).parent.parent / "csrc" / "kernels.def"
    if not source.exists():
        pytest.skip("the tests run apart from the source tree")
    named = re.findall(
        r'^GD_(?:(?:CPU_)?KERNEL|STEP|ROW)\("([a-z0-9_/]+)"', source.read_text(), re.MULTILINE
    )
    ids = [row.id for row in gpudist.kernels()]
    assert named
    for name in named:
        assert any(id.startswith(name) for id in ids), name


# ------------------------------------------------------------------ what people see


def test_kernels_have_a_short_repr():
    rows = gpudist.kernels()
    text = repr(rows)
    assert len(text) < 300 and f"{len(rows)} kernels" in text
    assert f"cdist {sum(row.family == 'cdist' for row in rows)}" in text
    assert isinstance(rows, tuple) and rows == tuple(rows)
    for row in rows:
        assert row.id in repr(row) and (row.why_not or "runs here") in repr(row)
        assert row.family in (row.op, f"ladder {row.ladder.partition('_')[0]}")
    assert {row.family for row in gpudist.kernels("cdist")} == {
        "cdist", "ladder edm2d", "ladder pairwise", "ladder euler"
    }  # fmt: skip


def test_kernels_are_a_table_in_a_notebook():
    rows = gpudist.kernels("minplus")
    text = rows._repr_html_()
    assert text.count("<tr>") == 1 + len(rows)
    assert all(row.id in text and html.escape(row.idea) in text for row in rows)


def test_neighbours_run_the_kernels_of_cdist_and_their_own():
    for function in ("nearest", "knn", gpudist.radius_neighbors, gpudist.count_neighbors):
        both = gpudist.kernels("cdist") + gpudist.kernels("neighbors")
        assert gpudist.kernels(function) == both


def test_dir_has_public_names_alone():
    assert dir(gpudist) == sorted(gpudist.__all__)
    assert all(hasattr(gpudist, name) for name in dir(gpudist))


def names_for_type_checkers():
    """Yield what a type checker sees bound in the package: it runs no branch that is not for it."""
    tree = ast.parse(Path(gpudist.__file__).read_text(encoding="utf-8"))
    for node in tree.body:
        seen = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for one in node.body if seen else [node]:
            if isinstance(one, ast.ImportFrom):
                yield from (alias.asname or alias.name for alias in one.names)
            elif isinstance(one, ast.Assign):
                yield from (target.id for target in one.targets)
            elif isinstance(one, ast.FunctionDef):
                yield one.name


def test_type_checkers_know_public_names_and_no_others():
    """With a module's __getattr__ they take any name for one that is there, mistyped ones too."""
    known = set(names_for_type_checkers())
    assert {*gpudist.__all__, *gpudist._LATE} <= known
    assert "__getattr__" not in known
    hints = [f.__annotations__["metric"] for f in (gpudist.Neighbors.__init__, gpudist.cdist)]
    assert hints[0] == hints[1]
