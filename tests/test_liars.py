"""Objects that lie about what they are: they are refused, and nothing is freed twice or read."""

import contextlib
import ctypes
import gc
import itertools
from types import MappingProxyType

import numpy as np
import pytest
from capsules import (
    BFLOAT,
    BOOL,
    COMPLEX,
    CPU,
    CUDA_HOST,
    INT,
    MANAGED,
    MEMORY,
    PLAIN,
    ROCM,
    UINT,
    USED,
    VERSIONED,
    Export,
    Exporter,
    name_of,
    rename,
)
from hypothesis import given
from hypothesis import strategies as st

import gpudist
from gpudist import _core

A = np.arange(12.0).reshape(4, 3)
B = np.arange(15.0).reshape(5, 3) / 7
G = np.array([[0.0, 3, 8], [0, 0, 2], [1, 0, 0]])

both_kinds = pytest.mark.parametrize("kind", [PLAIN, VERSIONED], ids=["plain", "versioned"])


def take(liar, out=None):
    """Have the core read it. A host result beside it is refused, so that nothing is computed."""
    return _core.cdist(liar, B, np.empty((4, 5)) if out is None else out, "euclidean")


# ---------------------------------------------------------------- DLPack: who owns the tensor


@both_kinds
def test_an_honest_export_is_read_and_given_back_once(kind):
    for device in (2, MANAGED):
        export = Export(name=kind, device_type=device)
        with pytest.raises(TypeError, match="XA and out are on different devices"):
            take(Exporter(export, device=(device, 0)))
        assert export.given_back == 1
        assert name_of(export.capsule) == USED[kind]


@both_kinds
def test_a_capsule_that_is_returned_twice_is_given_back_once(kind):
    """Whoever takes a tensor gives it back; nobody may take one that was taken."""
    export = Export(name=kind)
    liar = Exporter(export)
    for _ in range(20):
        with pytest.raises(TypeError, match="capsule whose tensor was taken before"):
            gpudist.cdist(liar, liar)
    assert export.given_back == 1
    export = Export(name=kind)
    for _ in range(3):
        with pytest.raises(TypeError, match=r"different devices|XA.*taken before"):
            take(Exporter(export))
    assert export.given_back == 1


@both_kinds
def test_a_capsule_that_another_library_consumed_is_left_alone(kind):
    export = Export(name=kind)
    rename(export.capsule, USED[kind])
    with pytest.raises(TypeError, match=r"XA\.__dlpack__\(\) returned a capsule whose tensor was"):
        take(Exporter(export))
    assert export.given_back == 0
    with pytest.raises(TypeError, match=r"XA.*taken before"):
        gpudist.cdist(Exporter(export), Exporter(Export))
    assert export.given_back == 0


def test_a_real_librarys_capsule_is_freed_once():
    """Under the address sanitizer: what torch frees, nobody frees again."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing")
    capsule = torch.ones(4, 3, dtype=torch.float64).__dlpack__()
    taken = torch.from_dlpack(capsule)
    for _ in range(20):
        with pytest.raises(TypeError, match="taken before"):
            take(Exporter(capsule))
    del capsule
    gc.collect()
    assert taken.sum() == 12


@both_kinds
def test_no_deleter_is_none_to_call(kind):
    with pytest.raises(TypeError, match="different devices"):
        take(Exporter(Export(name=kind, deleter=False)))


@both_kinds
def test_a_deleter_meets_no_exception(kind):
    """It may run Python code, which must not find the error that the call is about to raise."""
    seen = []

    class Curious(Export):
        def _delete(self, _):
            super()._delete(_)
            seen.append(ctypes.pythonapi.PyErr_Occurred())

    ctypes.pythonapi.PyErr_Occurred.restype = ctypes.c_void_p
    export = Curious(name=kind, lanes=2)
    with pytest.raises(TypeError, match="XA is a device array that is not float64"):
        take(Exporter(export))
    assert seen == [None] and export.given_back == 1


# ---------------------------------------------------------------- DLPack: what it says

FALSE_TENSORS = {
    "no shape": ({"shape": None, "ndim": 2}, ValueError, "XA exports an array without a shape"),
    "negative ndim": ({"ndim": -1}, ValueError, "without a shape"),
    "huge ndim": ({"ndim": 2**31 - 1}, ValueError, "without a shape"),
    "one dimension": ({"shape": (4,)}, ValueError, "XA must be two-dimensional, got 1"),
    "no dimension": ({"shape": ()}, ValueError, "XA must be two-dimensional, got 0"),
    "three": ({"shape": (4, 3, 1)}, ValueError, "XA must be two-dimensional, got 3"),
    "negative rows": ({"shape": (-4, 3)}, ValueError, "XA has a bad shape"),
    "negative columns": ({"shape": (4, -3)}, ValueError, "XA has a bad shape"),
    "no data": ({"data": None}, ValueError, "XA has elements, but no memory"),
    "no data, an offset": ({"data": None, "byte_offset": 64}, ValueError, "no memory"),
    "between elements": ({"data": MEMORY + 4}, ValueError, "XA begins at an address"),
    "offset between": ({"byte_offset": 1}, ValueError, "XA begins at an address"),
    "offset too far": ({"byte_offset": 2**64 - 8}, ValueError, "XA has a byte_offset"),
    "huge stride": ({"strides": (2**62, 1)}, ValueError, "XA has strides that lead out of"),
    "huge negative": ({"strides": (-(2**63), 1)}, ValueError, "lead out of memory"),
    "below nothing": ({"strides": (-(2**57), 1)}, ValueError, "lead out of memory"),
    "many rows": ({"shape": (2**61, 3)}, ValueError, "lead out of memory"),
    "most rows": ({"shape": (2**63 - 1, 2**63 - 1)}, ValueError, "lead out of memory"),
    "lanes": ({"lanes": 2}, TypeError, "XA is a device array that is not float64"),
    "no lanes": ({"lanes": 0}, TypeError, "XA is a device array that is not float64"),
    "half": ({"bits": 16}, TypeError, "not float64"),
    "odd bits": ({"bits": 63}, TypeError, "not float64"),
    "unsigned": ({"code": UINT, "bits": 32}, TypeError, "not float64"),
    "integers": ({"code": INT, "bits": 32}, TypeError, "not float64"),
    "bfloat": ({"code": BFLOAT, "bits": 16}, TypeError, "not float64"),
    "complex": ({"code": COMPLEX}, TypeError, "not float64"),
    "wide bool": ({"code": BOOL, "bits": 32}, TypeError, "not float64"),
    "another code": ({"code": 99}, TypeError, "not float64"),
    "host memory": ({"device_type": CPU}, TypeError, "XA says that it is on a CUDA device and"),
    "pinned": ({"device_type": CUDA_HOST}, TypeError, "exports an array that is not"),
    "ROCm": ({"device_type": ROCM}, TypeError, "exports an array that is not"),
    "no device": ({"device_type": -1}, TypeError, "exports an array that is not"),
    "a version": ({"major": 2, "name": VERSIONED}, BufferError, "XA exports DLPack version 2"),
}


@pytest.mark.parametrize("false", FALSE_TENSORS.values(), ids=FALSE_TENSORS)
@both_kinds
def test_false_tensors_are_refused_and_given_back(false, kind):
    fields, error, message = false
    export = Export(**({"name": kind} | fields))
    with pytest.raises(error, match=message):
        take(Exporter(export))
    assert export.given_back == (name_of(export.capsule) in USED.values())
    with pytest.raises((TypeError, ValueError, gpudist.DeviceError)):
        gpudist.cdist(Exporter(lambda: Export(**({"name": kind} | fields))), Exporter(Export))


@both_kinds
def test_true_but_unusual_tensors_are_taken(kind):
    """They get as far as an honest one does."""
    for fields in (
        {"strides": (3, 1)},
        {"strides": (-3, -1), "data": MEMORY + 88},
        {"strides": (0, 0)},
        {"byte_offset": 64},
        {"shape": (5, 3), "strides": (0, 1)},
        {"shape": (1, 3), "strides": (2**62, 1)},
        {"shape": (4, 1), "strides": (1, -(2**63))},
        {"shape": (0, 3), "data": None},
        {"shape": (4, 0), "data": None, "strides": (2**62, 2**62)},
        {"device_id": 63},
        {"minor": 9, "flags": 1 | 2 | 2**60, "name": VERSIONED},
    ):
        export = Export(**({"name": kind} | fields))
        columns = export.managed.tensor.shape[1]
        with pytest.raises(
            (TypeError, ValueError), match=r"different devices|same number|\(5, 5\)"
        ):
            _core.cdist(Exporter(export), np.ones((5, columns)), np.empty((5, 5)), "euclidean")
        assert export.given_back == 1


def test_what_is_read_only_is_no_result():
    for flags in (1, 1 | 2):
        export = Export(shape=(4, 5), name=VERSIONED, flags=flags)
        with pytest.raises(ValueError, match="out is read-only"):
            _core.cdist(A, B, Exporter(export), "euclidean")
        assert export.given_back == 1


def test_strided_results_are_refused_unless_they_are_empty():
    for fields in ({"strides": (10, 2)}, {"strides": (1, 4)}, {"strides": (-5, 1)}):
        with pytest.raises(ValueError, match=r"out must be C-contiguous|lead out"):
            _core.cdist(A, B, Exporter(Export(shape=(4, 5), **fields)), "euclidean")


NO_CAPSULES = {
    "None": None,
    "an array": A,
    "a number": 3,
    "another capsule": Export(name=b"arrow_array").capsule,
    "nearly one": Export(name=b"dltensor_").capsule,
    "of an empty name": Export(name=b"").capsule,
    "of no name": Export(name=None).capsule,
}


@pytest.mark.parametrize("answer", NO_CAPSULES.values(), ids=NO_CAPSULES)
def test_what_is_no_capsule_is_refused(answer):
    with pytest.raises(TypeError, match=r"XA\.__dlpack__\(\) did not return a DLPack capsule"):
        take(Exporter(answer))
    with pytest.raises(TypeError, match=r"XA.*did not return"):
        gpudist.cdist(Exporter(answer), Exporter(answer))


@pytest.mark.parametrize(
    "device",
    [
        None,
        2,
        (2,),
        (2, 0, 0),
        [2, 0],
        ("cuda", 0),
        (2, None),
        (2**70, 0),
        (2, 2**70),
        (2.0, 0),
        "",
    ],
    ids=repr,
)
def test_what_is_no_device_is_refused(device):
    export = Export()
    with pytest.raises(TypeError, match="XA has no __dlpack_device__ that gives two integers"):
        take(Exporter(export, device=device))
    assert export.given_back == 0


def fails():
    raise RuntimeError("nowhere")


def test_exceptions_of_the_object_name_it_and_interrupts_come_through():
    with pytest.raises(TypeError, match=r"XA has no __dlpack_device__ .*: nowhere"):
        take(Exporter(None, device=fails))

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(Exporter(None, device=interrupted))


def test_answers_that_change_between_calls():
    """The last one counts, and is checked like the first."""
    for later in (Export(shape=(9, 3)), Export(shape=None, ndim=2), Export(device_type=CPU), None):
        liar = Exporter(Export(), Export(), later)
        with pytest.raises((TypeError, ValueError, gpudist.DeviceError)):
            gpudist.cdist(liar, liar, out=Exporter(lambda: Export(shape=(4, 4))))
    turns = itertools.cycle([(2, 0), (1, 0)])
    with pytest.raises((TypeError, ValueError, gpudist.DeviceError)):
        gpudist.cdist(Exporter(Export, device=lambda: next(turns)), Exporter(Export))


@given(
    shape=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 5), max_size=3),
    strides=st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "data": st.integers(0, 2**64 - 1) | st.just(MEMORY),
            "byte_offset": st.integers(0, 2**64 - 1),
            "ndim": st.integers(-(2**31), 3),
            "lanes": st.integers(0, 3),
            "code": st.integers(0, 7),
            "bits": st.sampled_from([8, 32, 64]),
            "device_type": st.sampled_from([2, 13, 1]),
            "device_id": st.integers(-(2**31), 2**31 - 1),
        },
    ),
    kind=st.sampled_from([PLAIN, VERSIONED]),
)
def test_any_tensor_is_taken_or_refused(shape, strides, fields, kind):
    """With a dimension beyond those given there would be nothing to read a length from."""
    fields["ndim"] = min(fields.get("ndim", len(shape)), len(shape))
    for out in (np.empty((4, 5)), np.empty((4, 5), "f4")):
        export = Export(shape, strides=strides, name=kind, **fields)
        with pytest.raises((TypeError, ValueError)):
            take(Exporter(export), out)
        assert export.given_back == 1
        export = Export(shape, strides=strides, name=kind, **fields)
        with pytest.raises((TypeError, ValueError, BufferError)):
            _core.cdist(A, B, Exporter(export), "euclidean")
        assert export.given_back == 1


# ---------------------------------------------------------------- __cuda_array_interface__


class Claims:
    def __init__(self, **interface):
        self.interface = {
            "shape": (4, 3), "typestr": "<f8", "data": (MEMORY, False), "version": 3,
        } | interface  # fmt: skip

    @property
    def __cuda_array_interface__(self):
        return self.interface


class Index:
    """A whole number that does something when it is read."""

    def __init__(self, number, act=lambda: None):
        self.number, self.act = number, act

    def __index__(self):
        self.act()
        return self.number


FALSE_INTERFACES = {
    "shape in a list": ({"shape": [4, 3]}, TypeError, "XA has .* whose shape is no tuple"),
    "shape of floats": ({"shape": (4.0, 3)}, TypeError, "XA has .* with what is no whole number"),
    "a huge length": ({"shape": (2**70, 3)}, TypeError, "XA has .* with what is no whole number"),
    "a failing length": ({"shape": (Index(4, fails), 3)}, TypeError, "no whole number: nowhere"),
    "negative": ({"shape": (-4, 3)}, ValueError, "XA has a bad shape"),
    "three lengths": ({"shape": (4, 3, 1)}, ValueError, "XA must be two-dimensional, got 3"),
    "strides in a list": ({"strides": [24, 8]}, TypeError, "XA has .* whose strides is no tuple"),
    "strides of text": ({"strides": ("a", "b")}, TypeError, "no whole number"),
    "one stride": ({"strides": (8,)}, ValueError, "XA has a shape and strides that differ"),
    "three strides": ({"strides": (8, 8, 8)}, ValueError, "that differ in length"),
    "half strides": ({"strides": (20, 8)}, ValueError, "XA has strides that are not whole"),
    "far strides": ({"strides": (2**62, 8)}, ValueError, "XA has strides that lead out of"),
    "no data": ({"data": None}, TypeError, "XA has .* without data"),
    "data in a list": ({"data": [MEMORY, False]}, TypeError, "XA has .* without data"),
    "a null pointer": ({"data": (0, False)}, ValueError, "XA has elements, but no memory"),
    "pointer of text": ({"data": ("here", False)}, TypeError, "XA has .* whose data are no int"),
    "huge pointer": ({"data": (2**70, False)}, TypeError, "XA has .* whose data are no int"),
    "between": ({"data": (MEMORY + 2, False)}, ValueError, "XA begins at an address"),
    "flag that fails": ({"data": (MEMORY, np.ones(2))}, TypeError, "whose data are no int"),
    "typestr of bytes": ({"typestr": b"<f8"}, TypeError, "XA is a device array that is not"),
    "no typestr": ({"typestr": None}, TypeError, "XA is a device array that is not"),
    "typestr with NUL": ({"typestr": "<f8\0"}, TypeError, "XA is a device array that is not"),
    "a mask": ({"mask": A > 3}, TypeError, "XA is masked"),
    "stream 0": ({"stream": 0}, ValueError, "XA names the stream 0, which is none"),
    "stream -1": ({"stream": -1}, ValueError, "XA names the stream -1"),
    "stream of text": ({"stream": "mine"}, TypeError, "XA has .* whose stream is no handle"),
    "huge stream": ({"stream": 2**70}, TypeError, "XA has .* whose stream is no handle"),
}


@pytest.mark.parametrize("false", FALSE_INTERFACES.values(), ids=FALSE_INTERFACES)
def test_false_interfaces_are_refused(false):
    interface, error, message = false
    with pytest.raises(error, match=message):
        take(Claims(**interface))


@pytest.mark.parametrize("lost", ["typestr", "shape"])
def test_an_interface_without_what_it_needs_names_the_argument(lost):
    """An object with a shape of its own beside it, too."""
    for kind in (Claims, type("Shaped", (Claims,), {"shape": (4, 3)})):
        liar = kind()
        del liar.interface[lost]
        with pytest.raises(TypeError, match="XA has a __cuda_array_interface__ without"):
            gpudist.cdist(liar, liar)
        with pytest.raises(TypeError, match="out has a __cuda_array_interface__ without"):
            gpudist.cdist(Claims(), Claims(), out=liar)


@pytest.mark.parametrize("false", FALSE_INTERFACES.values(), ids=FALSE_INTERFACES)
def test_false_interfaces_are_refused_wherever_they_are(false):
    """By the core, or before it: as operands and as results, of every operation."""
    liar, true = Claims(**false[0]), Claims(data=(MEMORY + 2048, False))
    square = Claims(**{"shape": (3, 3)} | false[0])
    for call in (
        lambda: gpudist.cdist(liar, true, out=Claims(shape=(4, 4))),
        lambda: gpudist.cdist(true, true, out=liar),
        lambda: gpudist.pdist(liar, out=Claims(shape=(6,))),
        lambda: gpudist.apsp(square, out=Claims(shape=(3, 3))),
        lambda: gpudist.apsp(Claims(shape=(3, 3)), out=square),
        lambda: gpudist.minplus(square, square, square, out=Claims(shape=(3, 3))),
        lambda: gpudist.perron(square),
    ):
        with pytest.raises((TypeError, ValueError, gpudist.DeviceError)):
            call()


WORDS = st.none() | st.integers(-(2**64), 2**64) | st.text(max_size=3) | st.just(MEMORY)
FIELDS = WORDS | st.lists(WORDS, max_size=3).map(tuple) | st.just((4, 3)) | st.just((24, 8))


@given(st.dictionaries(st.sampled_from(["shape", "typestr", "strides", "stream", "mask"]), FIELDS))
def test_any_interface_is_refused_in_words(interface):
    """`data` stays what it is: nobody can tell an address in memory from another."""
    liar, true = Claims(**interface), Claims(data=(MEMORY + 2048, False))
    for call in (
        lambda: take(liar),
        lambda: _core.cdist(A, B, liar, "euclidean"),
        lambda: gpudist.cdist(liar, B),
        lambda: gpudist.cdist(A, B, out=liar),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            call()
    if gpudist.cuda.why_not() is not None:
        with pytest.raises((TypeError, ValueError, gpudist.DeviceError)):
            gpudist.cdist(liar, true, out=liar)


def test_what_is_no_dictionary_is_no_interface():
    for interface in (None, 3, [("shape", (4, 3))], MappingProxyType(Claims().interface)):
        liar = Claims()
        liar.interface = interface
        with pytest.raises(TypeError, match="XA has a __cuda_array_interface__ that is no dict"):
            take(liar)


@pytest.mark.parametrize("field", ["shape", "strides", "data"])
def test_an_interface_that_vanishes_while_it_is_read(field):
    """A number may run code when it is read; what it takes away was there, and stays so long."""
    liar = Claims()

    def vanish():
        liar.interface.clear()
        gc.collect()

    values = {
        "shape": lambda: (Index(4, vanish), Index(3, vanish)),
        "strides": lambda: (Index(24, vanish), Index(8, vanish)),
        "data": lambda: (Index(MEMORY, vanish), False),
    }
    liar.interface[field] = values[field]()  # nobody else holds it
    with pytest.raises(TypeError, match=r"different devices|no int and bool"):
        take(liar)


def test_an_empty_interface_has_no_strides_to_speak_of():
    for shape in ((4, 0), (0, 3), (0, 0)):
        liar = Claims(shape=shape, strides=(1, 1), data=(0, False))
        with pytest.raises((TypeError, ValueError), match=r"different devices|same number|shape"):
            take(liar)


# ---------------------------------------------------------------- __array__ and its like


def test_arrays_that_change_from_call_to_call_are_read_once():
    class Changes:
        def __init__(self):
            self.asked = 0

        def __array__(self, dtype=None, copy=None):
            self.asked += 1
            return A if self.asked == 1 else np.zeros((self.asked, 99))

    np.testing.assert_array_equal(gpudist.cdist(Changes(), B), gpudist.cdist(A, B))
    np.testing.assert_array_equal(gpudist.pdist(Changes()), gpudist.pdist(A))
    np.testing.assert_array_equal(gpudist.minplus(Changes(), B.T), gpudist.minplus(A, B.T))
    changes = Changes()
    _core.cdist(changes, B, np.empty((4, 5)), "euclidean")
    assert changes.asked == 1


@pytest.mark.parametrize(
    "interface",
    [
        {"shape": (-4, 3), "typestr": "<f8", "version": 3, "data": (MEMORY, False)},
        {"shape": (4, 3), "typestr": "<f8", "version": 3, "data": (MEMORY, False), "strides": (1,)},
        {"shape": (4, 3), "typestr": "nonsense", "version": 3, "data": (MEMORY, False)},
        {"shape": "abc", "typestr": "<f8", "version": 3},
        {"version": 3},
        "no dictionary",
    ],
    ids=["shape", "strides", "typestr", "no tuple", "empty", "no dictionary"],
)
def test_false_array_interfaces_are_refused(interface):
    class Liar:
        __array_interface__ = interface

    for call in (
        lambda x: gpudist.cdist(x, B),
        lambda x: take(x),
        lambda x: gpudist.apsp(x),
        lambda x: gpudist.perron(x),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(Liar())


class FalseShape(np.ndarray):
    """Tells of another shape than the core sees."""

    @property
    def shape(self):
        return (9, 3)


def test_a_subclass_that_lies_about_its_shape():
    liar = A.view(FalseShape)
    for call in (
        lambda: gpudist.cdist(liar, B),
        lambda: gpudist.cdist(B, liar),
        lambda: gpudist.pdist(liar),
        lambda: gpudist.cdist(A, B, out=np.empty((4, 5)).view(FalseShape)),
        lambda: gpudist.apsp(G.view(FalseShape)),
        lambda: gpudist.minplus(liar, B.T),
    ):
        with contextlib.suppress(TypeError, ValueError):
            assert call().shape

    class Shape33(FalseShape):
        shape = (3, 3)

    for square in (gpudist.apsp, gpudist.perron, gpudist.transitive_closure):
        with pytest.raises(ValueError, match=r"shape|square|must"):
            square((A + 1).view(Shape33))
