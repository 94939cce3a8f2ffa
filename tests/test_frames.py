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
