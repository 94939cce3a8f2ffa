"""gpudist.compare and gpudist.explain: every row says what it is, whatever is missing."""

import html
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import gpudist
from gpudist.bench import rivals, timing
from gpudist.bench.ceilings import Ceiling
from gpudist.comparison import Entry

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
    assert found.entries[1].note == "does not know twice euclidean"


def test_all_kernels_have_a_row(points):
    found = gpudist.compare("cdist", *points, against=(), kernels="all", **FAST)
    rows = {kernel.id: kernel for kernel in gpudist.kernels("cdist")}
    assert sorted(entry.name for entry in found.entries) == sorted(rows)
    for entry in found.entries:
        assert entry.ours
        assert (entry.timing is None) == bool(entry.note), entry
        if rows[entry.name].backend == "cpu" and "euclidean" not in rows[entry.name].metrics:
            assert entry.note == "it does not know the metric euclidean"


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
    assert found.provenance["device_name"] in ax.get_title()
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


def test_explain_takes_ceilings(points):
    a, b = points
    said = gpudist.explain("cdist", a, b, device="cpu", ceilings={"write": WRITE, "fma": FMA})
    assert [one.ceiling.name for one in said.limits] == ["fma", "write"]
    assert said.limit.seconds == pytest.approx(90 * 80 * 5 / 1e6)
    assert "at least 36.0 ms on this machine: its limit is fma" in str(said)
    assert "write alone 57.6 us" in str(said)
    none = gpudist.explain("cdist", a, b, device="cpu", ceilings={})
    assert none.limit is None and "at least" in str(none) and "on this machine" not in str(none)


def test_explain_measures_ceilings_once(monkeypatch, points):
    from gpudist.bench import ceilings

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


@pytest.mark.gpu
def test_explain_counts_the_way_through_the_bus(rng):
    x = rng.random((5000, 4))
    bus = {name: replace(WRITE, name=name) for name in ("h2d", "d2h")}
    said = gpudist.explain("cdist", x, x, device="cuda", ceilings=bus)
    assert {one.ceiling.name for one in said.limits} == {"h2d", "d2h"}
