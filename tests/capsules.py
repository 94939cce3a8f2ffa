"""DLPack capsules of any content, honest or not, for what has to survive both.

Nothing here is ever read as numbers: the addresses are those of a small buffer on the host.
"""

import ctypes

from_c = ctypes.pythonapi.PyCapsule_New
from_c.restype = ctypes.py_object
from_c.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype = ctypes.c_char_p
name_of.argtypes = [ctypes.py_object]

PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}
CPU, CUDA, CUDA_HOST, ROCM, MANAGED = 1, 2, 3, 10, 13
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_BUFFER = ctypes.create_string_buffer(1 << 12)
MEMORY = ctypes.addressof(_BUFFER) // 256 * 256 + 256


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Plain(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class Export:
    """One export: `capsule`, and how often it was given back.

    A tensor of float64 on cuda:0, unless `fields` of the tensor or the versioned struct say
    otherwise; `shape` and `strides` may be None, `deleter` False for a NULL pointer.
    """

    def __init__(
        self, shape=(4, 3), *, strides=None, name=PLAIN, like=PLAIN, deleter=True, **fields
    ):
        self.given_back = 0
        self._deleter = _DELETER(self._delete)
        self._shape = None if shape is None else (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.managed = (_Versioned if VERSIONED in (name, like) else _Plain)()
        tensor = self.managed.tensor
        known = {"data": MEMORY, "device_type": CUDA, "ndim": 0 if shape is None else len(shape)}
        known |= {"code": FLOAT, "bits": 64, "lanes": 1, "major": 1}
        if self._shape is not None:
            tensor.shape = self._shape
        if self._strides is not None:
            tensor.strides = self._strides
        for field, value in (known | fields).items():
            setattr(tensor if hasattr(_Tensor, field) else self.managed, field, value)
        if deleter:
            self.managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        self._name = name
        self.capsule = from_c(ctypes.addressof(self.managed), name, None)

    def _delete(self, _):
        self.given_back += 1


class Exporter:
    """An object that exports by DLPack whatever it is told to.

    Each call of `__dlpack__` takes the next of `answers`, and the last one ever after; what is
    callable is called. `asked` has the keywords of each call.
    """

    def __init__(self, *answers, device=(CUDA, 0)):
        self.answers, self.device, self.asked = answers, device, []

    def __dlpack_device__(self):
        return self.device() if callable(self.device) else self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        answer = answer() if callable(answer) else answer
        return answer.capsule if isinstance(answer, Export) else answer
