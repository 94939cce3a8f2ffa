"""gpudist.compare and gpudist.explain: every row says what it is, whatever is missing."""

import html
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import gpudist
from gpudist.comparison import Entry
from gpudist.measure import rivals, timing
from gpudist.measure.ceilings import Ceiling

FAST = {"device": "cpu", "repeats": 1}


@pytest.fixture
def points(rng):
    return rng.random((90, 5)), rng.random((80, 5))


def by_name(found):
    return {entry.name: entry for entry in found.entries}


# ------------------------------------------------------------------ compare


def test_cdist_beside_everything(points):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    found = gpudist.compare("cdist", *points, "cityblock", **FAST)
    names = [entry.name for entry in found.entries]
    assert names[0] == gpudist.explain("cdist", *points, "cityblock", device="cpu").kernel
    assert names[1:4] == ["scipy cdist", "torch.cdist", "scikit-learn pairwise_distances"]
    for entry in found.entries[:4]:
        assert entry.device == "cpu" and entry.timing.median > 0 and entry.error < 1e-13
        assert entry.transfer is None and not entry.note
    assert found.ours is found.entries[0] and found.ours.ours
    assert (found.op, found.shape, found.dtype) == ("cdist", (90, 80, 5), "float64")
    assert found.arguments == "cityblock"
    assert found.checked_rows == 64


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cdist_beside_numkong(points, metric, dtype):
    pytest.importorskip("numkong")
    operands = (x.astype(dtype) for x in points)
    found = gpudist.compare("cdist", *operands, metric, against="numkong", **FAST)
    assert [entry.name for entry in found.entries[1:]] == ["numkong cdist"]
    assert found.entries[1].error < (1e-6 if dtype == "float32" else 1e-12)


def test_every_operation_is_compared(rng):
    x, graph = rng.random((40, 3)), rng.random((30, 30))
    for op, operands, other in (
        ("pdist", (x,), "scipy pdist"),
        ("apsp", (graph,), "scipy floyd_warshall"),
        ("perron", (graph,), "scipy eigs"),
        ("transitive_closure", (graph > 0.95,), "numpy, loop over k"),
        ("minplus", (graph, graph, graph), "numpy, loop over k"),
    ):
        found = gpudist.compare(op, *operands, against=("scipy", "numpy"), **FAST)
        assert found.ours.error < (1e-6 if op == "perron" else 1e-13), op
        assert other in by_name(found)
        assert {entry.device for entry in found.entries} <= {"cpu", ""}
    assert "written for this product" in by_name(found)[other].note  # not with C


def test_operations_to_come_are_compared_by_the_whole_reference(monkeypatch, points):
    """An operation that this file has not heard of needs its kernels and a function, no more."""
    said = gpudist.explain("cdist", *points, device="cpu")
    monkeypatch.setattr("gpudist.explanation.explain", lambda op, *a, **k: replace(said, op=op))
    rows = gpudist.kernels("cdist")
    monkeypatch.setattr("gpudist.registry.kernels", lambda op=None: rows)

    def twice(x, y, *, kernel="auto", device=None):
        return 2 * gpudist.cdist(x, y, kernel=kernel, device=device)

    monkeypatch.setattr(gpudist, "twice", twice, raising=False)
    found = gpudist.compare("twice", *points, against=["scipy"], **FAST)
    assert found.ours.error < 1e-13
    assert found.entries[1].note == "nothing of it is timed for twice"


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "minkowski"])
@pytest.mark.parametrize("alone", [True, False])
def test_neighbours_beside_others(points, metric, alone):
    """Whoever is there finds the same neighbours, among others or among a set's own points."""
    a, b = (x.astype("f4") for x in points)
    given = {"metric": metric, "k": 3} | ({"p": 3} if metric == "minkowski" else {})
    others = ("scipy", "sklearn", "torch", "faiss")
    found = gpudist.compare("knn", *((a,) if alone else (a, b)), against=others, **given, **FAST)
    assert found.ours.error < 5e-7 and found.ours.name.startswith("cdist/cpu_")
    names = ["scipy cKDTree", "scikit-learn NearestNeighbors", "torch.cdist and topk"]
    for entry, name in zip(found.entries[1:], names, strict=False):
        assert entry.name == name
        assert (entry.timing is None) == entry.note.endswith("is not installed")
        assert entry.timing is None or entry.error < 1e-3, entry  # torch cancels
    faiss = found.entries[4]
    if metric != "euclidean":
        assert faiss.note in ("does not know knn " + metric, "faiss-cpu is not installed")
    else:
        assert faiss.note == "faiss-cpu is not installed" or faiss.error < 1e-4


def test_the_nearest_and_rows_are_compared(points):
    a, b = points
    found = gpudist.compare("nearest", a, b, against=["scipy"], **FAST)
    assert [entry.error < 1e-13 for entry in found.entries] == [True, True]
    some = gpudist.compare("knn", a, k=2, rows=slice(20, 50), against=["scipy"], **FAST)
    assert some.checked_rows == 30 and some.ours.error < 1e-13
    assert some.entries[1].note == "has no argument like rows"


@pytest.mark.parametrize(
    ("op", "radius"), [("radius_neighbors", "r"), ("count_neighbors", "radii")]
)
def test_neighbours_within_a_radius_are_compared(points, op, radius):
    found = gpudist.compare(op, *points, against=["scipy"], **{radius: 0.5}, **FAST)
    assert found.ours.error < 1e-13
    assert found.entries[1].note == f"nothing of it is timed for {op}"


def test_a_sample_of_neighbours_sees_a_wrong_one(points):
    from gpudist.measure import errors, samples

    a, b = points
    for op, more in (
        ("knn", {"k": 3}),
        ("nearest", {}),
        ("radius_neighbors", {"r": 0.5}),
        ("count_neighbors", {"radii": [0.3, 0.6]}),
    ):
        sample = samples.sample(op, (a, b), dict(more))
        right = getattr(gpudist, op)(a, b, **more)
        wrong = getattr(gpudist, op)(a, b[1:], **more)  # without one of the points
        for result, good in ((right, True), (wrong, False)):
            found = np.concatenate([np.asarray(part) for part in sample.pick(result)])
            error = errors.max_relative_error(found, sample.exact)
            assert (error < 1e-13) == good, op


def test_the_repr_is_short_and_notebooks_show_the_table(found):
    assert len(repr(found)) < 200 and "is the fastest" in repr(found)
    assert len(repr(found.explanation)) < 100
    assert repr(replace(found, entries=found.entries[-1:])).endswith("nothing ran>")
    for shown in (found, found.explanation):
        printer = Printer()
        shown._repr_pretty_(printer, False)
        assert printer.texts == [str(shown)]


class Printer:
    """What IPython gives to objects that print themselves."""

    def __init__(self):
        self.texts = []

    def text(self, text):
        self.texts.append(text)


def test_all_that_know_an_operation_are_taken_by_default(points):
    def taken(op, *operands, **arguments):
        found = gpudist.compare(op, *operands, **arguments, **FAST)
        return [entry.name for entry in found.entries[1:]]

    assert taken("radius_neighbors", points[0], r=0.1) == []
    assert len(taken("knn", points[0], k=2)) == 4
    assert len(taken("cdist", *points)) == 5
    assert len(taken("perron", points[0].T @ points[0])) == 2  # SciPy and PyTorch, not NumPy


def test_what_others_do_is_said(found):
    (scipy,) = (entry for entry in found.entries if entry.name == "scipy cdist")
    assert "one thread" in scipy.does and "float64" in scipy.does
    assert f"\nscipy cdist: {scipy.does}" in str(found)
    assert scipy.does in found._repr_html_()
    assert found.to_dict()["entries"][1]["does"] == scipy.does
    assert all(rival.does for rival in rivals.RIVALS if "there and back" not in rival.name)


def test_all_kernels_have_a_row(points):
    found = gpudist.compare("cdist", *points, against=(), kernels="all", **FAST)
    rows = {kernel.id: kernel for kernel in gpudist.kernels("cdist")}
    assert sorted(entry.name for entry in found.entries) == sorted(rows)
    for entry in found.entries:
        assert entry.ours
        assert (entry.timing is None) == bool(entry.note), entry
        row = rows[entry.name]
        if row.backend == "cpu" and "euclidean" not in row.metrics:
            assert entry.note == (row.why_not or "it does not know the metric euclidean")


def test_operands_by_name(points):
    how = {"against": ["scipy"], "device": "cpu", "repeats": 1}
    a, b = points
    for operands, given in (((a,), {"XB": b}), ((), {"XB": b, "XA": a})):
        found = gpudist.compare("cdist", *operands, **given, **how)
        assert [entry.note for entry in found.entries] == ["", ""]
        assert found.shape == (len(a), *b.shape) and found.arguments == "euclidean"
    with pytest.raises(ValueError, match="for one matrix or graph at a time"):
        gpudist.compare("cdist", XA=a[None], XB=b, **how)
    for name in ("measures", "UNREACHABLE", "no such function"):
        with pytest.raises(ValueError, match="op must be one of cdist"):
            gpudist.compare(name, a)


def test_kernels_by_name(points):
    name = "cdist/cpu_tile_baseline"
    found = gpudist.compare("cdist", *points, against=(), kernels=[name], **FAST)
    assert found.entries[-1].name == name
    assert found.entries[-1].error < 1e-13


def rival(**changes):
    fields = {
        "name": "other",
        "distribution": "scipy",
        "module": "json",
        "op": "cdist",
        "backends": ("cpu",),
        "metrics": ("euclidean",),
        "prepare": lambda task: lambda: np.zeros((90, 80)),
    }
    return rivals.Rival(**(fields | changes))


def only(monkeypatch, points, metric="euclidean", **changes):
    monkeypatch.setattr(rivals, "RIVALS", (rival(**changes),))
    (entry,) = gpudist.compare("cdist", *points, metric, against=["scipy"], **FAST).entries[1:]
    return entry


def test_a_missing_library_has_a_row(monkeypatch, points):
    entry = only(monkeypatch, points, module="no_such_module")
    assert "cannot be imported" in entry.note and entry.timing is None
    monkeypatch.setattr(rivals, "library_version", lambda name: None)
    assert only(monkeypatch, points, module="no_such_module").note == "scipy is not installed"


def test_a_library_without_the_metric_has_a_row(monkeypatch, points):
    assert only(monkeypatch, points, "canberra").note == "does not know cdist canberra"


def test_a_library_that_runs_out_of_memory_has_a_row(monkeypatch, points):
    def prepare(task):
        raise MemoryError("12 exabytes\nand more")

    assert only(monkeypatch, points, prepare=prepare).note == "MemoryError: 12 exabytes"


def test_a_refusal_is_told_in_its_own_words(monkeypatch, points):
    def prepare(task):
        raise rivals.Refusal("takes no Tuesday")

    assert only(monkeypatch, points, prepare=prepare).note == "takes no Tuesday"


def test_a_wrong_result_shows(monkeypatch, points):
    assert only(monkeypatch, points).error == 1.0


def test_what_would_take_too_long_is_not_run(monkeypatch, rng):
    seen = []

    def prepare(task):
        seen.append(len(task.operands[0]))
        return lambda: None

    monkeypatch.setattr(timing.HostClock, "sample", lambda self, call, calls: 1.0)
    monkeypatch.setattr(rivals, "RIVALS", (rival(prepare=prepare),))
    monkeypatch.setattr("gpudist.comparison._Race.run_kernel", lambda self, id: OURS)
    x = rng.random((6400, 2))
    found = gpudist.compare("cdist", x, x, against=["scipy"], **FAST)
    assert seen == [64]
    assert found.entries[1].note == "not run: by the time of 64 rows it takes 100 s"


OURS = Entry("ours", None, True, "cpu", timing.Timing((0.5,)), None, 0.0)


def test_a_graph_that_is_no_array(rng):
    networkx = pytest.importorskip("networkx")
    found = gpudist.compare("apsp", networkx.path_graph(9), **FAST)
    assert found.shape == (9, 9) and found.ours.error == 0
    assert by_name(found)["scipy floyd_warshall"].note == "takes arrays and sparse matrices"


def test_lists_will_do():
    found = gpudist.compare("cdist", [[0.0, 1.0]], [[2.0, 3.0]], against=["scipy"], **FAST)
    assert found.shape == (1, 1, 2) and found.entries[1].error == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"against": ["scypi"]}, ValueError, "scipy"),
        ({"kernels": "every"}, ValueError, "'auto', 'all'"),
        ({"kernels": ["cdist/cpu_tiles"]}, ValueError, "unknown kernel"),
        ({"kernel": "auto"}, TypeError, "kernels="),
        ({"metric": "euclid1"}, ValueError, "euclid"),
    ],
)
def test_misuse(points, arguments, error, message):
    with pytest.raises(error, match=message):
        gpudist.compare("cdist", *points, **arguments)


def test_unknown_operations_are_refused(points):
    with pytest.raises(ValueError, match="op must be one of cdist"):
        gpudist.compare("sort", *points)


# ------------------------------------------------------------------ what it shows


@pytest.fixture(scope="module")
def found():
    x = np.random.default_rng(0).random((50, 3)).astype(np.float32)
    made = gpudist.compare("cdist", x, x, "minkowski", p=3, against=["scipy"], **FAST)
    slow = Entry("a <b> & c", "1.0", False, "cuda:0", timing.Timing((2.0,)), 0.5, math.inf)
    gone = Entry("gone", None, False, "", note="gone is not installed")
    return replace(made, entries=(*made.entries, slow, gone))


def test_the_text(found):
    text = str(found)
    assert "cdist 50 x 50 x 3 float32 minkowski, p = 3 on cpu" in text
    assert "at least" in text and found.provenance["device_name"] in text
    for words in (found.ours.name, "1.00x", "2.00 s", "500 ms", "inf", "gone is not installed"):
        assert words in text, words


def test_the_html(found):
    text = found._repr_html_()
    assert text.count("<tr>") == 1 + len(found.entries)
    assert "a &lt;b&gt; &amp; c 1.0" in text and "<b>" not in text


def test_the_dictionary(found):
    made = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert made["shape"] == [50, 50, 3] and made["versions"]["numpy"] == np.__version__
    assert made["bound_by"] == found.explanation.limit.ceiling.name
    ours, scipy, slow, gone = made["entries"]
    assert ours["ours"] and ours["ratio"] == 1.0 and ours["max_relative_error"] < 5e-7
    assert scipy["ratio"] == pytest.approx(scipy["median_s"] / ours["median_s"])
    assert slow["ratio"] == pytest.approx(2.5 / ours["median_s"])
    assert slow["max_relative_error"] == "inf"
    assert gone["note"] == "gone is not installed" and "median_s" not in gone


def test_transfers_count_in_the_end(found):
    slow = found.entries[2]
    assert slow.seconds == 2.5
    assert found.fastest in found.entries[:2]


def test_the_plot(found):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    ax = found.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        found.ours.name,
        f"scipy cdist {found.entries[1].version}",
        "a <b> & c 1.0",
    ]
    assert found.provenance["device_name"] in ax.get_title("left")
    assert "milliseconds" in ax.get_xlabel()
    pyplot.close(ax.figure)


# ------------------------------------------------------------------ on a GPU


@pytest.mark.gpu
def test_host_arrays_on_a_gpu(rng):
    pytest.importorskip("torch")
    x = rng.random((2000, 8)).astype(np.float32)
    found = gpudist.compare("cdist", x, x, device="cuda", against=("torch", "scipy"), repeats=2)
    ours, torch, scipy = found.entries
    assert (ours.device, torch.device, scipy.device) == ("cuda:0", "cuda:0", "cpu")
    assert ours.transfer > 0 and torch.transfer > 0 and scipy.transfer is None
    assert ours.error < 5e-7


@pytest.mark.gpu
def test_device_arrays_on_a_gpu():
    torch = pytest.importorskip("torch")
    x = torch.rand(300, 8, device="cuda")
    kernels = ["cdist/cuda_tile", "cdist/cuda_haversine", "cdist/cpu_tile_baseline"]
    against = ("torch", "scipy")
    found = gpudist.compare("cdist", x, x, kernels=kernels, against=against, repeats=1)
    assert found.ours.transfer is None and found.ours.error < 5e-7
    for entry in found.entries:
        assert entry.timing is not None or entry.note, entry


# ------------------------------------------------------------------ explain

WRITE = Ceiling("write", "ceiling/cpu_write", "float64", 1e9, timing.Timing((1.0,)))
FMA = Ceiling("fma", "ceiling/cpu_fma", "float64", 1e6, timing.Timing((1.0,)))


def words(said):
    """Give the report without its line breaks."""
    return " ".join(str(said).split())


def test_explain_takes_ceilings(points):
    a, b = points
    said = gpudist.explain("cdist", a, b, device="cpu", ceilings={"write": WRITE, "fma": FMA})
    assert [one.ceiling.name for one in said.limits] == ["fma", "write"]
    assert said.limit.seconds == pytest.approx(90 * 80 * 5 / 1e6)
    assert "at least 36.0 ms on this machine: its limit is fma" in words(said)
    assert "write alone" not in str(said)  # it allows six hundred times the speed
    assert "write alone 57.6 us" in words(replace(said, verbose=True))
    near = replace(said, ceilings={"write": replace(WRITE, work=1e7), "fma": FMA})
    assert "write alone 5.76 ms" in words(near)
    none = gpudist.explain("cdist", a, b, device="cpu", ceilings={})
    assert none.limit is None and "at least" in str(none) and "on this machine" not in str(none)


def test_explain_measures_ceilings_once(monkeypatch, points):
    from gpudist.measure import ceilings

    calls = []
    monkeypatch.setattr(
        ceilings, "ceilings_of", lambda device: calls.append(device) or {"write": WRITE}
    )
    said = gpudist.explain("cdist", *points, device="cpu")
    assert not calls  # nothing is measured before somebody asks
    assert said.limit.ceiling is WRITE and calls == ["cpu"]


def test_explain_counts_memory(rng):
    a = rng.random((10, 3))
    assert gpudist.explain("cdist", a, a, device="cpu").memory == 2 * 240 + 800
    graph = rng.random((10, 10))
    plain = gpudist.explain("apsp", graph, device="cpu")
    both = gpudist.explain("apsp", graph, device="cpu", return_predecessors=True)
    assert (plain.memory, plain.copies) == (2400, 800)
    assert (both.memory, both.copies) == (2400 + 800, 1200)
    product = gpudist.explain("minplus", graph, graph, device="cpu")
    assert (product.memory, product.copies) == (4000, 1600)


def test_explain_takes_what_the_call_takes(rng):
    graph = rng.random((10, 10))
    plain = gpudist.explain("apsp", graph, device="cpu", ceilings={})
    same = {"directed": False, "unweighted": True, "overwrite": True, "device": "cpu"}
    assert gpudist.explain("apsp", graph, ceilings={}, **same) == plain
    out = np.empty((10, 10), np.float32)
    assert gpudist.explain("cdist", graph, graph, out=out, device="cpu").dtype == "float32"
    assert gpudist.explain("perron", graph, tol=1e-9, device="cpu").op == "perron"
    with pytest.raises(TypeError, match="colour"):
        gpudist.explain("cdist", graph, graph, colour="red")
    with pytest.raises(TypeError, match="colour"):
        gpudist.explain("apsp", graph, colour="red")


def test_explain_needs_no_metric_for_what_has_none(rng):
    graph = rng.random((10, 10))
    for said in (
        gpudist.explain("apsp", graph, device="cpu"),
        gpudist.explain("minplus", graph, graph, device="cpu"),
        gpudist.explain("perron", graph, device="cpu"),
    ):
        assert said.metric is None
        assert not any("metric" in why for why in said.rejected.values())
    with pytest.raises(TypeError, match="metric"):
        gpudist._core.choose("cdist", "float64", None, 3, 3)


def test_explain_says_why_not_what_could_run(points):
    chosen = gpudist.explain("cdist", *points, device="cpu")
    other = "cdist/cpu_sums_baseline"
    assert chosen.rejected[other] == f"it could; {chosen.kernel} is taken before it"
    named = gpudist.explain("cdist", *points, device="cpu", kernel=other)
    assert named.rejected[chosen.kernel] == f"it could; {other} was asked for by name"


def test_explain_in_a_notebook(points):
    said = gpudist.explain("cdist", *points, device="cpu", ceilings={"write": WRITE})
    text = said._repr_html_()
    assert f"<code>{said.kernel}</code> on cpu" in text
    for id, why in said.rejected.items():
        assert id in text and html.escape(why) in text
    reference = gpudist.explain("cdist", *points, kernel="reference", ceilings={})
    assert "why not" not in reference._repr_html_()


def test_what_is_timed_is_the_call_alone(points, monkeypatch):
    """The table of kernels takes longer to make than a small call, and is asked before."""
    asked = []
    table = gpudist.comparison.registry.kernels
    monkeypatch.setattr(
        gpudist.comparison.registry, "kernels", lambda op=None: asked.append(op) or table(op)
    )
    counts = []
    for repeats in (1, 1, 9):  # the first call of all asks for what is kept
        asked.clear()
        gpudist.compare("perron", np.ones((9, 9)), against=(), repeats=repeats)
        counts.append(len(asked))
    assert counts[1] == counts[2] > 0


def test_explain_is_ten_lines_and_the_rest_is_asked_for(points):
    ceilings = {"write": WRITE, "fma": FMA}
    for op, operands in (("cdist", points), ("pdist", points[:1]), ("knn", (*points, 3))):
        said = gpudist.explain(op, *operands, ceilings=ceilings)
        lines = str(said).splitlines()
        assert len(lines) <= 10 and max(map(len, lines)) <= 100
        assert f"{len(said.rejected)} other kernels: verbose=True" in lines[-1]
        assert not any(line.startswith("  not edm2d/") for line in lines)
        verbose = str(gpudist.explain(op, *operands, ceilings=ceilings, verbose=True))
        for id, why in said.rejected.items():
            assert f"  not {id}: {why}" in verbose.splitlines()


def test_explain_says_why_not_on_cuda(points):
    said = gpudist.explain("cdist", *points, device="cpu", ceilings={})
    (line,) = (line for line in str(said).splitlines() if line.startswith("  not on CUDA: "))
    assert line[15:] in said.rejected.values()
    mixed = {"cdist/cuda_a": "no", "cdist/cuda_b": "it is far", "cdist/cuda_c": "it is far"}
    assert "not on CUDA: it is far\n" in str(replace(said, rejected=mixed))
    assert "not on CUDA" not in str(replace(said, device="cuda:0"))


def test_explain_s_reason_against_cuda_is_the_one_that_tells(points, monkeypatch):
    chosen = "it runs on CUDA, and the work is to be done on the CPU"
    said = gpudist.explain("knn", *points, 3, ceilings={})
    found = replace(said, device="cpu", rejected={"cdist/cuda_a": chosen, "cdist/cuda_b": chosen})
    assert f"not on CUDA: {chosen}\n" in str(found)
    found = replace(found, rejected=found.rejected | {"neighbors/cuda_c": "it is far"})
    assert "not on CUDA: it is far\n" in str(found)
    graphs = np.ones((30, 9, 9))
    for why in "there is no GPU", None:
        monkeypatch.setattr(gpudist.cuda, "why_not", lambda why=why: why)
        told = why or "the way there takes longer than the CPU; device='cuda' insists"
        assert f"not on CUDA: {told}\n" in str(gpudist.explain("apsp", graphs, ceilings={}))
    assert chosen in str(gpudist.explain("apsp", graphs, device="cpu", ceilings={}))


def test_explain_knows_the_neighbours(points):
    a, b = points
    given = {"metric": "cityblock", "dtype": "f4", "ceilings": {}}
    for op, more, written in (
        ("nearest", {}, 90 * (4 + 8)),
        ("knn", {"k": 3}, 90 * 3 * (4 + 8)),
        ("knn", {"k": 3, "rows": slice(10, 20), "index_dtype": "i4"}, 10 * 3 * (4 + 4)),
        ("radius_neighbors", {"r": 0.5, "sort": "distance"}, 91 * 8),
        ("count_neighbors", {"radii": [0.5, 1.0], "cumulative": False}, 2 * 8),
    ):
        said = gpudist.explain(op, a, b, **given, **more)
        assert (said.op, said.dtype, said.metric, said.device) == (
            op,
            "float32",
            "cityblock",
            "cpu",
        )
        assert said.kernel == gpudist.explain("cdist", a, b, device="cpu", **given).kernel
        assert "neighbors/cpu_filter_" in said.reason
        rows = 10 if "rows" in more else 90
        assert said.operations == rows * 80 * 5
        assert said.work.read == (rows + 80) * 5 * 4
        assert said.work.written == written
        assert "some megabytes for panels" in words(said)
    alone = gpudist.explain(gpudist.knn, a, k=2, ceilings={})
    assert alone.work.read == a.nbytes and alone.operations == 90 * 90 * 5
    out = np.empty((90, 2), "f4"), np.empty((90, 2), np.int64)
    assert gpudist.explain("knn", a, k=2, out=out, ceilings={}).dtype == "float32"
    truths = gpudist.explain("knn", a > 0.5, k=2, metric="jaccard", ceilings={})
    assert truths.work.read == a.size
    assert gpudist.explain("nearest", a, b, kernel="reference", ceilings={}).kernel == "reference"


@pytest.mark.parametrize(
    ("op", "arguments", "error", "message"),
    [
        ("knn", {}, TypeError, "k is missing"),
        ("knn", {"k": 81}, ValueError, "k must be at most 80"),
        ("knn", {"k": 1, "device": "cuda"}, gpudist.DeviceError, "searched for on the CPU|CUDA"),
        ("radius_neighbors", {}, TypeError, "r is missing"),
        ("radius_neighbors", {"r": -1}, ValueError, "r must be 0 or more"),
        ("count_neighbors", {}, TypeError, "radii are missing"),
        ("nearest", {"metric": max}, TypeError, "it runs no kernel"),
        ("nearest", {"colour": "red"}, TypeError, "colour"),
    ],
)
def test_explain_refuses_what_the_neighbours_refuse(points, op, arguments, error, message):
    with pytest.raises(error, match=message):
        gpudist.explain(op, *points, **arguments)


@pytest.mark.gpu
def test_explain_counts_the_way_through_the_bus(rng):
    x = rng.random((5000, 4))
    bus = {name: replace(WRITE, name=name) for name in ("h2d", "d2h")}
    said = gpudist.explain("cdist", x, x, device="cuda", ceilings=bus)
    assert {one.ceiling.name for one in said.limits} == {"h2d", "d2h"}
