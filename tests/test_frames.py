"""Data frames of numbers are taken whatever types their columns have; what is not is named."""

import re

import numpy as np
import pytest

import gpudist

NUMBERS = np.array([[1.0, 3.0], [2.0, 5.0], [0.0, 1.0]])


def pandas_frames(pd):
    arrow = {}
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        arrow = {
            "pyarrow": pd.DataFrame(NUMBERS).astype({0: "int32[pyarrow]", 1: "double[pyarrow]"}),
            "pyarrow float": pd.DataFrame(NUMBERS).astype("float[pyarrow]"),
        }
    frame = pd.DataFrame(NUMBERS, columns=["a", "b"])
    return arrow | {
        "plain": frame,
        "Int64": frame.astype("Int64"),
        "Float32": frame.astype("Float32"),
        "mixed": frame.astype({"a": "Int8"}),
        "numbers that are categories": frame.astype({"a": "category"}),
        "sparse": frame.astype(pd.SparseDtype("float64", 0.0)),
        "names that are alike": frame.astype("Int16").set_axis(["a", "a"], axis=1),
        "no string for a name": frame.astype("UInt8").set_axis([1, None], axis=1),
        "subclass": type("Frame", (pd.DataFrame,), {})(frame.astype("Int64")),
    }


def test_pandas_frames_of_numbers():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    for what, frame in pandas_frames(pd).items():
        found = gpudist.cdist(frame, frame)
        single = what in ("Float32", "pyarrow float")
        assert found.dtype == ("float32" if single else "float64"), what
        np.testing.assert_allclose(found, gpudist.cdist(NUMBERS, NUMBERS), rtol=1e-6, err_msg=what)
        assert gpudist.explain("cdist", frame, frame).dtype == found.dtype


def test_pandas_truths_and_nan():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    truths = pd.DataFrame({"a": [True, False, True], "b": [False, False, True]})
    expected = gpudist.pdist(truths.to_numpy(), "jaccard")
    for frame in (truths, truths.astype("boolean"), truths.astype({"a": "boolean"})):
        np.testing.assert_array_equal(gpudist.pdist(frame, "jaccard"), expected)
    beside = pd.DataFrame({"a": [True, False, False], "b": NUMBERS[:, 1]})
    np.testing.assert_array_equal(gpudist.pdist(beside), gpudist.pdist(beside.astype(float)))
    gaps = pd.DataFrame(NUMBERS).replace(5.0, np.nan)  # NaN is a number like any
    assert np.isnan(gpudist.pdist(gaps)).tolist() == [True, False, True]
    assert gpudist.cdist(pd.DataFrame(index=[1, 2]), np.empty((3, 0))).shape == (2, 3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_in_another_order_are_refused(library):
    frames = pytest.importorskip(library, reason=f"{library} is missing")
    one = frames.DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]})
    other = one[["b", "a"]]
    renamed = frames.DataFrame({"c": NUMBERS[:, 0], "a": NUMBERS[:, 1]})
    index = gpudist.Neighbors(one)
    for call in (
        lambda x: gpudist.cdist(one, x),
        lambda x: gpudist.cdist(one, x, lambda u, v: abs(u - v).sum()),
        lambda x: gpudist.knn(one, x, 1).distances,
        lambda x: gpudist.count_neighbors(one, x, [1.0]),
        lambda x: index.kneighbors(x, 1)[0],
        lambda x: index.radius_neighbors_graph(x).toarray(),
    ):
        with pytest.raises(ValueError, match=r"has the columns of .* in another order"):
            call(other)
        for same in (one, renamed):  # other names are taken by position
            np.testing.assert_array_equal(call(same), call(NUMBERS))
    for name, *more in (("cdist",), ("knn", 1), ("count_neighbors", [1.0])):
        with pytest.raises(ValueError, match=r"XB has the columns of XA in another order"):
            gpudist.explain(name, one, other, *more)
        assert gpudist.explain(name, one, renamed, *more).kernel


def test_arguments_of_columns_in_another_order_are_refused():
    """pandas itself would put them in order: ``frame - means`` goes by names."""
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    frame = pd.DataFrame(NUMBERS, columns=["a", "b"])
    swapped = frame.var()[["b", "a"]]
    inverse = pd.DataFrame(np.diag([1.0, 2.0]), ["a", "b"], ["a", "b"])
    for metric, arguments in (
        ("euclidean", {"w": swapped}),
        ("seuclidean", {"V": swapped}),
        ("euclidean", {"box": swapped}),
        ("mahalanobis", {"VI": inverse[["b", "a"]]}),
        ("mahalanobis", {"VI": inverse.loc[["b", "a"]]}),
    ):
        (name,) = arguments
        message = f"^{name} has the columns of (XA|X) in another order"
        for call in (
            lambda **a: gpudist.cdist(frame, NUMBERS, **a),
            lambda **a: gpudist.pdist(frame, **a),
            lambda **a: gpudist.knn(frame, k=1, **a).distances,
            lambda **a: gpudist.Neighbors(frame, **a).kneighbors(n_neighbors=1)[0],
        ):
            with pytest.raises(ValueError, match=message):
                call(metric=metric, **arguments)
            in_order = {name: arguments[name].reindex(["a", "b"])}
            if name == "VI":
                in_order = {name: inverse}
            plain = {name: in_order[name].to_numpy()}
            expected = call(metric=metric, **plain)
            np.testing.assert_array_equal(call(metric=metric, **in_order), expected)
    seen = []
    gpudist.pdist(frame, lambda u, v, w: seen.append(w) or 0.0, w=swapped)
    assert seen[0] is swapped  # a function knows what to do with it


def test_coordinates_of_xarray_are_names():
    xarray = pytest.importorskip("xarray", reason="xarray is missing")
    one = xarray.DataArray(NUMBERS, dims=("point", "of"), coords={"of": ["a", "b"]})
    with pytest.raises(ValueError, match="XB has the columns of XA in another order"):
        gpudist.cdist(one, one.sel(of=["b", "a"]))
    roads = xarray.DataArray(
        [[0.0, 1, 0], [0, 0, 2], [3, 0, 0]],
        dims=("from", "to"),
        coords={"from": ["a", "b", "c"], "to": ["c", "a", "b"]},
    )
    for function in (
        gpudist.apsp,
        gpudist.transitive_closure,
        gpudist.perron,
        gpudist.measures.center,
    ):
        with pytest.raises(ValueError, match="columns are in another order than its rows"):
            function(roads)
    assert gpudist.apsp(roads.sel(to=["a", "b", "c"])).shape == (3, 3)
    bare = xarray.DataArray(NUMBERS[:, ::-1], dims=("point", "of"))
    for other in (one, one.assign_coords(of=[1, 0]), bare):
        assert gpudist.cdist(one, other).shape == (3, 3)


def test_names_that_meet_in_a_product_are_in_one_order():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    frame = pd.DataFrame([[0.0, 1.0], [5.0, 0.0]], ["x", "y"], ["x", "y"])
    turned = ["y", "x"]
    for call, message in (
        (lambda: gpudist.minplus(frame, frame.loc[turned]), "the rows of B .* the columns of A"),
        (lambda: gpudist.minplus(frame[turned], frame), "the rows of B .* the columns of A"),
        (lambda: gpudist.minplus(frame, frame, frame[turned]), "the columns of C .* columns of B"),
        (lambda: gpudist.minplus(frame, frame, frame.loc[turned]), "the rows of C .* rows of A"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    product = gpudist.minplus(frame.loc[turned], frame[turned], frame.loc[turned, turned])
    assert product.tolist() == [[0, 5], [1, 0]]
    other = frame.set_axis(["u", "v"], axis=0)  # other names are taken by position
    np.testing.assert_array_equal(gpudist.minplus(frame, other), gpudist.minplus(frame, frame))


def test_measures_and_paths_of_turned_frames_are_refused():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    roads = pd.DataFrame([[0, 1, 0], [0, 0, 2], [3, 0, 0]], list("abc"), list("abc"))
    dist, before = gpudist.apsp(roads, return_predecessors=True)
    frames = [pd.DataFrame(x, list("abc"), list("abc")) for x in (dist, before)]
    dist, before = (frame[list("cab")] for frame in frames)
    for call in (
        lambda: gpudist.measures.closeness_centrality(dist),
        lambda: gpudist.measures.wiener_index(dist),
        lambda: gpudist.reconstruct_path(before, 0, 2),
        lambda: gpudist.reconstruct_paths(before, 0, 2),
    ):
        with pytest.raises(ValueError, match="columns are in another order than its rows; give"):
            call()
    assert gpudist.measures.center(frames[0]) == [0]
    assert gpudist.reconstruct_path(frames[1], 0, 2) == [0, 1, 2]


def test_pandas_elsewhere():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    roads = pd.DataFrame([[0, 3, 8], [0, 0, 2], [1, 0, 0]]).astype("Int64")
    plain = roads.to_numpy(np.float64)
    np.testing.assert_array_equal(gpudist.apsp(roads), gpudist.apsp(plain))
    np.testing.assert_array_equal(gpudist.minplus(roads, roads), gpudist.minplus(plain, plain))
    assert gpudist.perron(roads).value == gpudist.perron(plain).value
    weights = pd.Series([1, 2], dtype="Int64")
    expected = gpudist.pdist(NUMBERS, w=[1, 2])
    np.testing.assert_array_equal(gpudist.pdist(NUMBERS, w=weights), expected)
    np.testing.assert_array_equal(gpudist.pdist(NUMBERS, w=pd.Index([1, 2])), expected)
    words = pd.DataFrame({"a": ["x", "y"]})  # which a function may know what to do with
    assert gpudist.pdist(words, lambda u, v: float(u[0] != v[0])).tolist() == [1.0]


def test_lists_of_columns_are_read_as_columns_are():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    whole, gap = pd.Series([1, 2], dtype="Int64"), pd.Series([1, None], dtype="Int64")
    assert (
        gpudist.cdist([whole, whole], NUMBERS).tolist()
        == gpudist.cdist([[1, 2]] * 2, NUMBERS).tolist()
    )
    with pytest.raises(ValueError, match=r"^XA\[1\] has missing values"):
        gpudist.cdist([whole, gap], NUMBERS)
    with pytest.raises(ValueError, match=r"^XB\[1\]'s column 0 has missing values"):
        gpudist.cdist(NUMBERS, [whole.to_frame(), gap.to_frame()])


def pandas_refusals(pd):
    days = pd.to_datetime(["2026-01-01", "2026-01-02"])
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    gap = pd.array([1, None], "Int64")
    return {
        "XA's column 'b' must be of real numbers, got dtype": [
            frame.assign(b=["x", "y"]),
            frame.assign(b=days),
            frame.assign(b=days.tz_localize("UTC")),
            frame.assign(b=pd.array(["x", "y"], "string")),
            frame.assign(b=pd.Categorical(["x", "y"])),
            frame.assign(b=pd.Series([1, 2], dtype=object)),
            frame.assign(b=[1j, 2j]),
        ],
        "XA's column 'b' has missing values; fill them, or drop their rows": [
            frame.assign(b=gap),
            frame.assign(b=pd.array([0.5, None], "Float32")),
            frame.assign(b=pd.array([True, None], "boolean")),
        ],
        "XA's column ('b', 3) has missing values": [pd.DataFrame({("b", 3): gap})],
        "XA has missing values": [pd.Series(gap), pd.Index(gap)],
        "XA must be two-dimensional, got 1 dimension; numpy.reshape(XA, (1, -1))": [
            frame["a"],
            frame.index,
            pd.Series([1, 2], dtype="Int64"),
        ],
        "XA must be of real numbers, got dtype object": [pd.MultiIndex.from_tuples([(1, 2)])],
    }


def refuses(found):
    for message, values in found.items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match="^" + re.escape(message)) as caught:
                gpudist.cdist(value, NUMBERS)
            missing = "missing" in message or "dimensional" in message
            assert caught.type is (ValueError if missing else TypeError)


def test_columns_of_vectors_are_told_how_to_be_a_matrix():
    """As embeddings are kept; the advice works on each."""
    libraries = {}
    for name in ("pandas", "polars", "pyarrow"):
        try:
            libraries[name] = __import__(name)
        except ImportError:
            continue
    made = {
        "pandas": lambda pd: [pd.Series(NUMBERS.tolist()), pd.Series([*NUMBERS])],
        "polars": lambda pl: [pl.Series(NUMBERS.tolist())],
        "pyarrow": lambda pa: [
            pa.array(NUMBERS.tolist()),
            pa.FixedSizeListArray.from_arrays(pa.array(NUMBERS.ravel()), 2),
            pa.chunked_array([NUMBERS.tolist()]),
        ],
    }
    if not libraries:
        pytest.skip("pandas, polars and pyarrow are missing")
    for name, library in libraries.items():
        for column in made[name](library):
            with pytest.raises(TypeError, match=r"^XA .*; numpy.stack\(numpy.asarray\(column\)\)"):
                gpudist.cdist(column, NUMBERS)
            np.testing.assert_array_equal(np.stack(np.asarray(column)), NUMBERS)
    if "polars" in libraries:
        both = libraries["polars"].Series(
            "e", NUMBERS.tolist(), dtype=libraries["polars"].Array(libraries["polars"].Float64, 2)
        )
        with pytest.raises(TypeError, match=r"^XA's column 'e' must .*; numpy.stack"):
            gpudist.cdist(libraries["polars"].DataFrame([both]), NUMBERS)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_edges_is_no_matrix(library):
    """Even where it is square, as two edges are, and three that weigh something."""
    frames = pytest.importorskip(library, reason=f"{library} is missing")
    made = frames.table if library == "pyarrow" else frames.DataFrame
    two = {"source": [0, 1], "target": [1, 2]}
    three = {"source": [0, 1, 2], "target": [1, 2, 0], "weight": [1.0, 2.0, 3.0]}
    for columns in (two, three):
        for function in (gpudist.apsp, gpudist.transitive_closure):
            with pytest.raises(ValueError, match="graph is a frame of edges: give it to apsp_edge"):
                function(made(columns))
    matrix = made({"a": [0.0, 2.0], "b": [1.0, 0.0]})
    if library == "pandas":
        matrix = matrix.set_axis(["a", "b"], axis=0)
    assert gpudist.apsp(matrix).tolist() == [[0, 1], [2, 0]]


def test_what_pandas_has_for_nothing_is_named():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    for nothing in (pd.NaT, pd.NA):
        with pytest.raises(TypeError, match=r"^XA must be an array of real numbers, got an object"):
            gpudist.cdist(nothing, NUMBERS)
    with pytest.raises(TypeError, match="weight must be the name of an attribute"):
        gpudist.apsp({0: {1: {"weight": 1.0}}}, weight=pd.NA)


def test_pandas_refusals_name_the_column():
    refuses(pandas_refusals(pytest.importorskip("pandas", reason="pandas is missing")))


def test_pyarrow_columns_without_values_are_missing():
    pd = pytest.importorskip("pandas", reason="pandas is missing")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")
    refuses(
        {
            "XA's column 'a' has missing values": [
                pd.DataFrame({"a": pd.array([1, None], "int64[pyarrow]")}),
                pa.table({"a": [1, None], "b": [1, 2]}),
            ],
            "XA's column 'b' must be of real numbers, got dtype string": [
                pd.DataFrame({"a": [1], "b": pd.array(["x"], "string[pyarrow]")}),
                pa.table({"a": [1], "b": ["x"]}),
            ],
            "XA has missing values": [pa.array([1, None]), pa.chunked_array([[1, None]])],
            "XA must be two-dimensional, got 1": [pa.array([1, 2])],
        }
    )
    table = pa.table({"a": [1, 2, 0], "b": NUMBERS[:, 1]})
    for one in (table, table.to_batches()[0]):
        np.testing.assert_array_equal(gpudist.pdist(one), gpudist.pdist(NUMBERS))


def test_polars():
    pl = pytest.importorskip("polars", reason="polars is missing")
    frame = pl.DataFrame({"a": [1, 2, 0], "b": NUMBERS[:, 1]})
    both = pl.Series(NUMBERS.tolist(), dtype=pl.Array(pl.Float64, 2))
    for one in (frame, frame.cast(pl.Float64), both):
        np.testing.assert_array_equal(gpudist.pdist(one), gpudist.pdist(NUMBERS))
    assert gpudist.pdist(frame.cast(pl.Float32)).dtype == np.float32
    assert np.isnan(gpudist.pdist(pl.DataFrame({"a": [1.0, np.nan]})))
    text, days = pl.Series(["x", "y"]), pl.Series([1, 2]).cast(pl.Date)
    gap, few = pl.Series([1.0, None]), pl.DataFrame({"a": [1.0, 2.0]})
    refuses(
        {
            "XA's column 'b' has missing values": [few.with_columns(b=gap)],
            "XA's column 'b' must be of real numbers, got dtype String": [few.with_columns(b=text)],
            "XA's column 'b' must be of real numbers, got dtype Date": [few.with_columns(b=days)],
            "XA's column 'b' must be of real numbers, got dtype Int128": [
                few.with_columns(b=pl.Series([1, 2]).cast(pl.Int128))
            ],
            "XA's column 'b' must be of real numbers, got dtype Decimal": [
                few.with_columns(b=pl.Series([1, 2]).cast(pl.Decimal(9, 2)))
            ],
            "XA has missing values": [gap, pl.Series([[1.0, None]], dtype=pl.Array(pl.Float64, 2))],
            "XA must be two-dimensional, got 1 dimension": [few["a"]],
            "XA must be an array of real numbers, got an object of type LazyFrame; XA.coll": [
                few.lazy()
            ],
        }
    )
    with pytest.raises(ValueError, match="w has missing values"):
        gpudist.pdist(NUMBERS, w=gap)
