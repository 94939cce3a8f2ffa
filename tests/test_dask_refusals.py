"""What makes no sense for Dask arrays is refused at once, with advice."""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import lazily
import numpy as np
import pytest
from lazily import da, dask

import gpudist
from gpudist import foreign
from gpudist.dask import bands, blocks, checkpoints, inputs
from gpudist.dask import paths as lazy_paths

pytestmark = lazily.MARKS


@pytest.fixture(autouse=True)
def here():
    with lazily.in_this_process():
        yield


@pytest.fixture
def lazy():
    return da.ones((40, 40), chunks=20)


REFUSED = [
    (lambda x: gpudist.perron(x), "a is a Dask array|A is a Dask array"),
    (lambda x: gpudist.radius_neighbors(x, r=1.0), "no result in chunks of known shapes"),
    (lambda x: gpudist.count_neighbors(x, radii=[1.0]), "no result in chunks of known shapes"),
    (lambda x: gpudist.Neighbors(x), "Neighbors keeps its points here: give X.compute"),
    (lambda x: gpudist.Neighbors(np.ones((9, 40))).kneighbors(x), "X is a Dask array"),
    (lambda x: gpudist.explain("cdist", x, x), "XA is a Dask array"),
    (lambda x: gpudist.explain("apsp", x), "graph is a Dask array"),
    (lambda x: gpudist.explain("minplus", x, x), "A is a Dask array"),
    (lambda x: gpudist.compare("cdist", x, x), "is a Dask array"),
    (lambda x: gpudist.compare("apsp", x), "is a Dask array"),
    (lambda x: gpudist.measures.eccentricity(x), "dist is a Dask array"),
    (lambda x: gpudist.apsp_edges(x), "edges is a Dask array"),
    (lambda x: gpudist.reconstruct_path(x, 0, 1), "predecessors is a Dask array"),
    (lambda x: gpudist.reconstruct_paths(x, [0], [1]), "predecessors is a Dask array"),
    (lambda x: gpudist.cdist(np.ones((2, 40)), np.ones((3, 40)), w=x[0]), "w is a Dask array"),
    (lambda x: gpudist.cdist(np.ones((2, 3)), np.ones((3, 3)), out=x), "out must be a NumPy array"),
    (lambda x: gpudist.cdist(x, x, "seuclidean", V=x[0]), "V is a Dask array"),
    (lambda x: gpudist.cdist(x, x, out=np.ones((40, 40))), "takes no out: dask.array.store"),
    (lambda x: gpudist.cdist(x, x, rows=slice(3)), "takes no rows: slice the result"),
    (lambda x: gpudist.cdist(x, x, progress=True), "takes no progress: dask.diagnostics"),
    (lambda x: gpudist.knn(x, k=2, out=(1, 2)), "takes no out"),
    (lambda x: gpudist.knn(x), "k is missing"),
    (lambda x: gpudist.minplus(x, x, progress=print), "takes no progress"),
    (lambda x: gpudist.apsp(x, out=np.ones((40, 40))), "takes no out"),
    (lambda x: gpudist.apsp(x, overwrite=True), "takes no overwrite"),
    (lambda x: gpudist.apsp(x, labels=True), "takes no labels"),
    (lambda x: gpudist.apsp(x, nodelist=[1]), "are for graphs of named nodes"),
    (lambda x: gpudist.transitive_closure(x, sizes=[3]), "sizes is not for Dask arrays"),
    (lambda x: gpudist.transitive_closure(x, out=np.ones((40, 40), bool)), "takes no out"),
    (
        lambda x: gpudist.transitive_closure(np.ones((4, 4)), checkpoint="x"),
        "checkpoint is for Dask arrays",
    ),
    (lambda x: gpudist.apsp(np.ones((4, 4)), bands=2), "bands is for Dask arrays"),
    (lambda x: gpudist.apsp(np.ones((4, 4)), checkpoint="x"), "checkpoint is for Dask arrays"),
    (lambda x: gpudist.transitive_closure(np.ones((4, 4)), bands=2), "bands is for Dask arrays"),
    (lambda x: gpudist.cdist(x.astype(complex), x), "XA must be an array of real numbers"),
    (lambda x: gpudist.cdist(x.map_blocks(np.ma.masked_array), x), "chunks of numpy.ma"),
    (lambda x: gpudist.cdist(x, x, "euclidean", p=3), "unexpected keyword argument 'p'"),
    (lambda x: gpudist.cdist(x, np.ma.masked_array([[1.0]])), "XB is a masked array"),
]


@pytest.mark.parametrize(("call", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused_with_advice(call, error, lazy, monkeypatch):
    """At once, and above all without computing anything."""
    monkeypatch.setattr(da.Array, "__array__", _nobody_computes)
    monkeypatch.setattr(da.Array, "compute", _nobody_computes)
    with pytest.raises(TypeError, match=error):
        call(lazy)


def _nobody_computes(*_, **__):
    raise AssertionError("a Dask array was computed without a word")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: gpudist.cdist(x[:, :3], x), "same number of columns, got 3 and 40"),
        (lambda x: gpudist.cdist(x, x, "euclidian"), "unknown metric 'euclidian'; did you mean"),
        (lambda x: gpudist.cdist(x, x, "minkowski", p=-1), "p must be greater than 0"),
        (lambda x: gpudist.cdist(x, x, w=-np.ones(40)), "weights must be non-negative"),
        (lambda x: gpudist.cdist(x, x, dtype="int32"), "dtype must be float32, float64 or float16"),
        (lambda x: gpudist.cdist(x, x, kernel="tile"), "unknown kernel 'tile'"),
        (lambda x: gpudist.cdist(x[0], x), "XA must be two-dimensional"),
        (lambda x: gpudist.cdist(x[x[:, 0] > 0], x), r"XA has chunks of unknown lengths; XA.comp"),
        (lambda x: gpudist.minplus(x, x[:3]), "A must have as many columns as B has rows"),
        (lambda x: gpudist.minplus(x, x, semiring="plus"), "unknown semiring"),
        (lambda x: gpudist.knn(x, k=40), "k must be at most 39, of 40 points but itself"),
        (lambda x: gpudist.knn(x, k=1, index_dtype="int8"), "index_dtype must be int64 or int32"),
        (lambda x: gpudist.apsp(x[:3]), r"square matrix, got shape \(3, 40\)"),
        (lambda x: gpudist.apsp(x, bands=0), "bands must be from 1 to 1000"),
        (lambda x: gpudist.apsp(x, bands=5000), "their square is the number of tasks; got 5000"),
        (lambda x: gpudist.apsp(x, kernel="apsp/cpu_blocked"), "kernel must be 'auto' for bands"),
        (lambda x: gpudist.apsp(x, device="cuda"), "bands of NumPy chunks are computed on the CPU"),
        (lambda x: gpudist.cdist(x, x, device="cuda:all"), "a worker for each, as dask_cuda"),
        (lambda x: gpudist.minplus(x, x, device="gpu"), "device must be None, 'cpu', 'cuda' or"),
        (lambda x: gpudist.knn(x, k=1, device="cuda:0,1"), "a worker for each, as dask_cuda"),
        (lambda x: gpudist.apsp(x, device="cuda:all"), "a worker for each, as dask_cuda"),
        (lambda x: gpudist.transitive_closure(x, device="cuda:"), "device must be None"),
        (lambda x: gpudist.apsp(x, dtype="bool"), "dtype must be float32, float64, int32"),
        (lambda x: gpudist.apsp(x, semiring="or_and", return_predecessors=True), "no predecessors"),
        (lambda x: gpudist.transitive_closure(x > 0, no_edge=1), "no_edge is for numbers"),
    ],
)
def test_wrong_calls_are_refused_at_once(call, error, lazy):
    with pytest.raises(ValueError, match=error):
        call(lazy)


def test_frames_and_promises_of_dask_are_refused():
    for one in (dask.delayed(np.ones)((3, 3)), dask.delayed(np.ones((3, 3)))):
        with pytest.raises(
            TypeError,
            match=r"XA is a Delayed\w* of Dask.*; dask.array.from_delayed\(XA, shape, dtype\) is a "
            r"Dask array of it, XA.compute\(\) brings it here",
        ):
            gpudist.cdist(one, np.ones((3, 3)))
        array = da.from_delayed(one, (3, 3), float)
        lazily.same(gpudist.cdist(array, np.ones((3, 3))), np.zeros((3, 3)))
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pandas.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}), npartitions=2)
    with pytest.raises(TypeError, match=r"XA.to_dask_array\(lengths=True\) is a Dask array of it"):
        gpudist.cdist(frame, np.ones((3, 2)))
    assert gpudist.cdist(frame.to_dask_array(lengths=True), np.ones((3, 2))).shape == (2, 3)


def test_the_advice_for_other_chunks_loses_nothing(rng):
    sparse = pytest.importorskip("scipy.sparse")
    w = np.where(rng.random((30, 30)) < 0.2, rng.random((30, 30)), 0)
    graph = da.from_array(np.ma.masked_less(w, 0.3), chunks=(10, 30))
    with pytest.raises(TypeError, match=r"as dask\.array\.ma\.filled\(graph, numpy\.nan\) may"):
        gpudist.apsp(graph)
    filled = da.ma.filled(graph, np.nan)
    lazily.same(gpudist.apsp(filled), gpudist.apsp(np.ma.masked_less(w, 0.3)))
    graph = da.from_array(w, chunks=(10, 30)).map_blocks(sparse.csr_array)
    with pytest.raises(
        TypeError, match=r"as graph.map_blocks\(lambda chunk: chunk.toarray\(\), dt"
    ):
        gpudist.apsp(graph)
    dense = graph.map_blocks(lambda chunk: chunk.toarray(), dtype=graph.dtype)
    lazily.same(gpudist.apsp(dense), gpudist.apsp(w))


@pytest.mark.parametrize("function", [gpudist.apsp, gpudist.transitive_closure])
def test_chunks_that_are_not_what_dask_was_told_are_refused(function, lazy):
    for truths in (lazy, lazy > 0):
        hidden = truths.map_blocks(np.ma.masked_array, mask=True, meta=truths._meta)
        with pytest.raises(TypeError, match="graph has a masked chunk"):
            function(hidden).compute()
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="graph has a chunk that is a coo_matrix"):
        function(lazy.map_blocks(sparse.coo_matrix, meta=lazy._meta).rechunk((40, 40))).compute()


def test_a_list_of_dask_arrays_is_not_computed(monkeypatch):
    """NumPy would compute each, one after the other."""
    row = da.ones(3)
    monkeypatch.setattr(type(row), "compute", _nobody_computes)
    for call in (
        lambda: gpudist.cdist([row, row], np.ones((2, 3))),
        lambda: gpudist.cdist(np.ones((2, 3)), [[1.0, 2.0, 3.0], row]),
        lambda: gpudist.apsp([row, row, row]),
        lambda: gpudist.cdist(np.ones((2, 3)), np.ones((2, 3)), w=list(row)),
    ):
        with pytest.raises(TypeError, match=r"^(XA|XB|graph|w)\[\d\] is a Dask array"):
            call()


def test_scipy_is_left_what_dask_holds(lazy):
    import scipy.spatial.distance

    with gpudist.patched_scipy() as routed:
        scipy.spatial.distance.cdist(lazy, lazy)
    assert routed.left == {"cdist: a Dask array, which SciPy computes as a whole": 1}


def test_radius_neighbours_of_parts(lazy, rng):
    """What the refusal advises."""
    x = rng.random((50, 2))
    whole = gpudist.radius_neighbors(x, x, 0.2)
    lazy = da.from_array(x, chunks=(20, 2))
    parts = [
        dask.delayed(gpudist.radius_neighbors)(part, x, 0.2) for part in lazy.to_delayed().ravel()
    ]
    found = np.concatenate([part.indices for part in dask.compute(*parts)])
    np.testing.assert_array_equal(found, whole.indices)


def test_what_stands_on_paper_is_what_the_notebook_computes(monkeypatch, capsys):
    """The page's table, and the notebook's as stored, are printed by the notebook's last cells."""
    root = Path(__file__).resolve().parents[1]
    page, notebook = root / "docs/guide/dask.md", root / "notebooks/10_dask.ipynb"
    if not notebook.exists() or not page.exists():
        pytest.skip("the tests run apart from the source tree")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    *_, assumed, told = (cell for cell in cells if cell["cell_type"] == "code")
    monkeypatch.chdir(notebook.parent)
    names = {"Path": Path, "da": da, "dask": dask, "gpudist": gpudist, "json": json}
    for cell in (assumed, told):
        exec("".join(cell["source"]), names)
    printed = capsys.readouterr().out
    assert "".join(line for output in told["outputs"] for line in output["text"]) == printed
    assert printed in page.read_text(encoding="utf-8")
    assert len(printed.splitlines()) == 4


ALONE = """
import sys, numpy as np, gpudist
gpudist.cdist(np.ones((3, 2)), [[1, 2]]); gpudist.apsp([[0, 1], [1, 0]])
gpudist.minplus([[1]], [[2]])
gpudist.knn(np.ones((3, 2)), k=1); gpudist.transitive_closure([[0, 1], [1, 0]])
print([name for name in sys.modules if name.partition(".")[0] in ("dask", "distributed", "zarr")])
"""


def test_nobody_imports_dask_who_does_not_use_it():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert foreign.is_dask(da.ones(3))
    assert not foreign.is_dask(np.ones(3), None, [1])


@pytest.mark.parametrize("module", [blocks, inputs, lazy_paths, bands, checkpoints])
def test_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("argument", "value"), [("sizes", [2]), ("unreachable", -1), ("max_hops", 3), ("indices", [0])]
)
def test_lengths_of_some_or_of_other_kinds_are_not_for_bands(argument, value):
    graph = da.ones((3, 3), chunks=(2, 3))
    with pytest.raises(TypeError, match=f"{argument} is not for Dask arrays"):
        gpudist.apsp(graph, **{argument: value})
