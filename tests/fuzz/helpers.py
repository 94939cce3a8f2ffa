"""What snippets call. Each function's text is printed with them, so each stands by itself."""
# mypy: ignore-errors

import warnings

import numpy as np

__all__ = [
    "Mine",
    "capsule",
    "close",
    "graph_form",
    "ranked",
    "relay",
    "same",
    "shared_with",
    "walk",
]


def same(got, expected, what="the bits differ"):
    """Hold every bit of one array against another's; one NaN is like another."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, not {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: {got.dtype}, not {expected.dtype}"
    if got.dtype.kind == "f":
        got, expected = (np.where(np.isnan(x), np.nan, x) for x in (got, expected))
        bits = f"u{got.dtype.itemsize}"
        wrong = got.view(bits) != expected.view(bits)
    else:
        wrong = got != expected
    if wrong.any():
        i = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size}; at {i} {got[i]!r}, not {expected[i]!r}"
        )


def close(got, exact, bound):
    """Hold numbers against exact ones; an infinite bound leaves an element out."""
    got, exact, bound = (np.asarray(x, np.float64) for x in (got, exact, bound))
    assert got.shape == exact.shape, f"shape {got.shape}, not {exact.shape}"
    with np.errstate(invalid="ignore"):
        near = np.abs(got - exact) <= bound
    wrong = ~(near | (got == exact) | (np.isnan(got) & np.isnan(exact)) | np.isinf(bound))
    if wrong.any():
        with np.errstate(all="ignore"):
            far = np.where(wrong, np.nan_to_num(np.abs(got - exact) / bound, nan=np.inf), -1)
        i = tuple(int(k) for k in np.unravel_index(np.argmax(far), far.shape))
        raise AssertionError(
            f"too far off: {int(wrong.sum())} of {wrong.size}; at {i} {float(got[i])!r}, exact "
            f"{float(exact[i])!r}, allowed {float(bound[i]):.2g}"
        )


def relay(x, layout):
    """Lay the same values out otherwise."""
    n, d = x.shape
    if layout == "swapped":
        return x.astype(x.dtype.newbyteorder())
    if layout == "stepped":
        return np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "padded":
        wide = np.zeros((n + 1, d + 5), x.dtype)
        wide[1:, 2 : d + 2] = x
        return wide[1:, 2 : d + 2]
    if layout == "odd":
        moved = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(n, d)
        moved[...] = x
        return moved
    if layout == "frozen":
        frozen = x.copy()
        frozen.flags.writeable = False
        return frozen
    if layout == "list":
        return x.tolist() if n else x
    if layout == "torch":
        import torch

        return torch.from_numpy(x.copy())
    return x


def shared_with(x, shape, dtype, place):
    """Return a copy of x and an array of that shape, which share memory from `place` on."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    start = place % (size + 1) // 16 * 16
    memory = np.zeros(max(size, start + x.nbytes), np.uint8)
    moved = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    moved[...] = x
    return moved, memory[:size].view(dtype).reshape(shape)


def ranked(matrix, k, similar):
    """Give the k nearest of each row of distances, as a stable sort has them; NaN is nobody."""
    keys = -matrix if similar else matrix
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(matrix, order, axis=1)
    return found, np.where(np.isnan(found), -1, order)


def walk(before, weights, i, j):
    """Return the weights on the path that predecessors spell."""
    steps, node = [], j
    while node != i:
        last = int(before[i, node])
        assert 0 <= last < len(before), f"no way back from {node} to {i}: {last}"
        assert np.isfinite(weights[last, node]), f"{last} -> {node} is no edge"
        steps.append(weights[last, node])
        node = last
        assert len(steps) <= len(before), f"the path from {i} to {j} is a circle"
    return steps[::-1]


def graph_form(weights, form, kind):
    """Make a graph of weights, inf for no edge, and the arguments that go with it."""
    n, there = len(weights), np.isfinite(weights)
    filled = np.where(there, weights, 0)
    if form in ("zero", "fortran", "swapped", "strided", "list", "torch"):
        dense = filled.astype(kind)
        if form == "fortran":
            dense = np.asfortranarray(dense)
        elif form == "swapped":
            dense = dense.astype(dense.dtype.newbyteorder())
        elif form == "strided":
            dense = np.ascontiguousarray(np.repeat(dense, 2, axis=1)[::-1, ::-1])[::-1, ::-2]
        elif form == "list" and n:
            dense = dense.tolist()
        elif form == "torch":
            import torch

            dense = torch.from_numpy(dense)
        return dense, {}
    if form in ("inf", "-inf", "nan"):
        return np.where(there & (weights != 0), weights, float(form)).astype(kind), {}
    if form == "sentinel":
        none = (
            -1 if (filled >= 0).all() else int(np.dtype(kind).type(2 * filled.max(initial=0) + 7))
        )
        return np.where(there, weights, none).astype(kind), {"no_edge": none}
    if form == "masked":
        return np.ma.array(filled.astype(kind), mask=~there), {}
    if form.startswith("nx"):
        import networkx

        graph = getattr(networkx, form.removeprefix("nx."))()
        graph.add_nodes_from(f"node {i}" for i in range(n))
        for i, j in np.argwhere(there):
            weight = np.dtype(kind).type(weights[i, j]).item()
            ends = f"node {i}", f"node {j}"
            if graph.is_multigraph():
                graph.add_edge(*ends, weight=None)
                graph.add_edge(*ends, weight=weight + 1)
                graph.add_edge(*ends, weight=weight)
            elif weight == 1:
                graph.add_edge(*ends)
            else:
                graph.add_edge(*ends, weight=weight)
        return graph, {}
    import scipy.sparse

    rows, columns = np.nonzero(there)
    form, _, sort = form.partition("_")
    made = getattr(scipy.sparse, f"coo_{sort}")(
        (weights[rows, columns].astype(kind), (rows, columns)), shape=(n, n)
    )
    if form == "bsr":
        return made.tobsr(blocksize=(1, 1)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some forms are not meant for such graphs
        return made.asformat(form), {}


class Mine(Exception):
    """What liars raise; it may pass through."""


def capsule(x, name=b"dltensor", **lies):
    """Make a DLPack capsule of an array by hand, with lies in it, and count its deleter's calls."""
    import ctypes as c

    class Tensor(c.Structure):
        _fields_ = (
            ("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32),
            ("ndim", c.c_int32), ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16),
            ("shape", c.c_void_p), ("strides", c.c_void_p), ("byte_offset", c.c_uint64),
            ("manager", c.c_void_p), ("deleter", c.c_void_p),
        )  # fmt: skip

    deleted = []
    deleter = c.CFUNCTYPE(None, c.c_void_p)(deleted.append)
    shape, strides = (
        (c.c_int64 * x.ndim)(*values)
        for values in (x.shape, (step // x.itemsize for step in x.strides))
    )
    fields = {
        "data": x.ctypes.data, "device_type": 1, "device_id": 0, "ndim": x.ndim, "code": 2,
        "bits": 8 * x.itemsize, "lanes": 1, "shape": c.addressof(shape),
        "strides": c.addressof(strides), "byte_offset": 0, "manager": 0,
        "deleter": c.cast(deleter, c.c_void_p).value,
    }  # fmt: skip
    tensor = Tensor(**(fields | lies))
    label = c.c_char_p(name)
    make = c.pythonapi.PyCapsule_New
    make.restype, make.argtypes = c.py_object, (c.c_void_p, c.c_char_p, c.c_void_p)
    made = make(c.addressof(tensor), label, None)
    # All of it stays for good: what reads it too late shall not crash for that.
    capsule.kept = [*getattr(capsule, "kept", []), (x, shape, strides, tensor, label, deleter)]
    return made, deleted
