"""Objects that claim to be arrays on a CUDA device, for tests without one."""


class Claims:
    """An object that claims to be a CUDA array."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {
            "shape": (4, 3), "typestr": "<f8", "data": (1 << 12, False), "version": 3,
        } | interface  # fmt: skip


class Exports:
    """An object that claims to export a CUDA array by DLPack."""

    def __init__(self, answer=None, device=(2, 0)):
        self.answer, self.device, self.asked = answer, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if "max_version" in keywords:
            raise TypeError("an exporter from before max_version")
        return self.answer
