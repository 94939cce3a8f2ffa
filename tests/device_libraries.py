"""Libraries whose arrays lie on a CUDA device: how tests bring data to them and back."""

import numpy as np
import pytest


class Torch:
    def __init__(self):
        self.module = pytest.importorskip("torch", reason="PyTorch is missing")
        if not self.module.cuda.is_available():
            pytest.skip("PyTorch is here without CUDA")

    def put(self, x):
        return self.module.as_tensor(np.ascontiguousarray(x), device="cuda")

    def get(self, x):
        assert isinstance(x, self.module.Tensor) and x.is_cuda
        return x.cpu().numpy()

    def wait(self):
        self.module.cuda.synchronize()


class CuPy:
    def __init__(self):
        self.module = pytest.importorskip("cupy", reason="CuPy is missing")

    def put(self, x):
        return self.module.asarray(x)

    def get(self, x):
        assert isinstance(x, self.module.ndarray)
        return x.get()

    def wait(self):
        self.module.cuda.runtime.deviceSynchronize()


class Numba:
    def __init__(self):
        pytest.importorskip("numba.cuda", reason="Numba is missing")
        from numba import cuda

        self.module = cuda

    def put(self, x):
        return self.module.to_device(np.ascontiguousarray(x))

    def get(self, x):
        return x.copy_to_host()

    def wait(self):
        self.module.synchronize()
