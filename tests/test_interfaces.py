"""What objects say of an array on a device is checked before it is believed."""

import numpy as np
import pytest
from claims import Claims, Exports

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7


@pytest.mark.parametrize(
    ("interface", "error", "message"),
    [
        ({"shape": (4,)}, ValueError, "two-dimensional"),
        ({"shape": (4, -1)}, ValueError, "bad shape"),
        ({"typestr": "<c8"}, TypeError, "not float64"),
        ({"typestr": ">f8"}, TypeError, "not float64"),
        ({"data": None}, TypeError, "without data"),
        ({"data": (1, 2, 3)}, TypeError, "without data"),
        ({"mask": A}, TypeError, "masked"),
        ({"strides": (25, 8)}, ValueError, "whole elements"),
        ({"strides": (8,)}, ValueError, "strides"),
        ({"stream": 0}, ValueError, "stream 0"),
        ({}, TypeError, "different devices"),
    ],
)
def test_cuda_array_interfaces_are_checked(interface, error, message):
    with pytest.raises(error, match=message):
        _core.cdist(Claims(**interface), B, np.empty((4, 5)), "euclidean")


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        ({"shape": 4}, "XA has a __cuda_array_interface__ without a shape"),
        ({"shape": (4, None)}, "without a shape"),
        ({"typestr": "number"}, "known typestr"),
        ({}, "allocates results for NumPy"),
    ],
)
def test_what_has_an_interface_alone_is_read_by_it(interface, message):
    with pytest.raises(TypeError, match=message):
        gpudist.cdist(Claims(**interface), Claims())
    with pytest.raises(ValueError, match=r"out must have shape \(4, 4\), got \(4, 3\)"):
        gpudist.cdist(Claims(), Claims(), rows=slice(2), out=Claims())


@pytest.mark.parametrize("typestr", ["<f8", "|b1", "<c8"])
@pytest.mark.parametrize("name", ["apsp", "apsp or_and", "transitive_closure", "minplus", "or_and"])
def test_a_result_may_have_an_interface_alone(name, typestr):
    """That these are refused tells that they were read; nothing is written to them."""
    graph, out = Claims(shape=(3, 3)), Claims(shape=(3, 4), typestr=typestr)
    call = {
        "apsp": lambda: gpudist.apsp(graph, out=out),
        "apsp or_and": lambda: gpudist.apsp(graph, semiring="or_and", out=out),
        "transitive_closure": lambda: gpudist.transitive_closure(graph, out=out),
        "minplus": lambda: gpudist.minplus(graph, graph, out=out),
        "or_and": lambda: gpudist.minplus(
            Claims(shape=(3, 3), typestr="|b1"),
            Claims(shape=(3, 3), typestr="|b1"),
            semiring="or_and",
            out=out,
        ),
    }[name]
    takes = "<f8" if name in ("apsp", "minplus") else "|b1"
    message = (
        r"out must have shape \(3, 3\), got \(3, 4\)" if typestr == takes else "out must be an"
    )
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, TypeError, "different devices"),
        ({1: (4,)}, ValueError, "bad description"),
        ({1: (4,), 2: (1,)}, ValueError, "two-dimensional"),
        ({1: (4, -1)}, ValueError, "bad shape"),
        ({1: [4, 3]}, TypeError, "tuple"),
        ({2: (25, 8), 3: 8}, ValueError, "whole elements"),
        ({3: 0}, ValueError, "bad description"),
        ({4: "float16"}, TypeError, "not float64"),
        ({4: "float32"}, TypeError, "not float64"),
        ({0: "here"}, TypeError, "int"),
        ({5: None}, TypeError, "int"),
    ],
)
def test_descriptions_are_checked(changes, error, message):
    facts = [1 << 12, (4, 3), (3, 1), 1, "float64", 0]
    for at, value in changes.items():
        facts[at] = value
    with pytest.raises(error, match=message):
        _core.cdist(tuple(facts), B, np.empty((4, 5)), "euclidean")


def test_a_tuple_is_a_description_only_if_it_looks_like_one():
    out = np.empty((6, 5))
    rows = tuple(map(tuple, np.vstack([A, A])[:6].tolist()))
    _core.cdist(rows, B, out, "euclidean")
    np.testing.assert_array_equal(out, gpudist.cdist(np.array(rows), B))


def test_tensors_are_described_unless_dlpack_knows_better():
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    space = gpudist.arrays._LIBRARIES["torch"]
    x = torch.arange(12.0).reshape(4, 3).t()[1:]
    described = space.operand(x, "float32", x.shape)
    assert described == (x.data_ptr(), (2, 4), (1, 3), 1, "float32", x.get_device())
    kept = type("Kept", (torch.Tensor,), {})(x)
    negative = torch.complex(x, x).conj().imag
    for tensor in (kept, negative, x.clone().requires_grad_()):
        assert space.operand(tensor, "float32", tensor.shape) is tensor


def test_dlpack_is_asked_as_the_protocol_says():
    exporter = Exports(answer=A)
    with pytest.raises(TypeError, match="did not return a DLPack capsule"):
        _core.cdist(exporter, B, np.empty((4, 5)), "euclidean")
    assert exporter.asked == [{"stream": 1, "max_version": (1, 0)}, {"stream": 1}]
    for arguments, stream in (({"stream": 7}, 7), ({"stream": 7, "ordered": True}, -1)):
        exporter = Exports(answer=A)
        with pytest.raises(TypeError, match="capsule"):
            _core.cdist(exporter, B, np.empty((4, 5)), "euclidean", **arguments)
        assert exporter.asked[0]["stream"] == stream


def test_a_host_capsule_is_numpys_business():
    class OnHost(Exports):
        def __array__(self, dtype=None, copy=None):
            return A

    out = np.empty((4, 5))
    _core.cdist(OnHost(device=(1, 0)), B, out, "euclidean")
    np.testing.assert_array_equal(out, gpudist.cdist(A, B))


def test_host_and_device_do_not_mix():
    with pytest.raises(TypeError, match="XA is on the host and XB on a CUDA device; move one"):
        gpudist.cdist(A, Claims())
