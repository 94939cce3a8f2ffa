"""apsp in int32 and float32: the largest weights and lengths, and the first beyond them."""

import numpy as np
import pytest

import gpudist


@pytest.mark.parametrize("sign", [1, -1])
def test_the_longest_path_of_int32(device, sign):
    """Sums of such weights are done in float64, and lengths of 2**30 do not go back."""
    chain = np.full((4, 4), np.inf)
    chain[0, 1] = chain[1, 2] = sign * (2**29 - 1)
    chain[2, 3] = sign
    call = {"no_edge": np.inf, "dtype": "int32", "device": device}
    assert gpudist.apsp(chain, **call)[0, 3] == sign * (2**30 - 1)
    for step in (2, 3, 4, 2**10, 2**20):
        chain[2, 3] = sign * step
        with pytest.raises(OverflowError, match=r"^1 path lengths reach 2\*\*30"):
            gpudist.apsp(chain, **call)


@pytest.mark.parametrize("weight", [2**29, 2**29 + 1, 2**30, 1e300])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_weight_of_int32(device, weight, sign):
    w = np.array([[np.inf, sign * weight], [np.inf, np.inf]])
    with pytest.raises(ValueError, match=r"takes weights below 2\*\*29"):
        gpudist.apsp(w, no_edge=np.inf, dtype="int32", device=device)
    w[0, 1] = sign * (2**29 - 1)
    assert gpudist.apsp(w, no_edge=np.inf, dtype="int32", device=device)[0, 1] == w[0, 1]


def test_sums_that_meet_the_sentinel_of_int32(device):
    """From n - 1 weights of 2**29 / (n - 1) on a sum could pass for no path."""
    for n in (3, 5, 9):
        for off in (-1, 0, 1):
            weight = 2**29 // (n - 1) + off
            for signed in (weight, -weight):
                w = np.full((n, n), np.inf)
                w[np.arange(n - 1), np.arange(1, n)] = signed
                dist = gpudist.apsp(w, no_edge=np.inf, dtype="int32", device=device)
                ahead = np.arange(n) - np.arange(n)[:, None]
                expected = np.where(ahead < 0, gpudist.UNREACHABLE, ahead * signed)
                np.testing.assert_array_equal(dist, expected)


def test_the_largest_weight_of_float32(device):
    most = float(np.finfo("f4").max)
    over = float(np.nextafter(most + 2.0**103, np.inf))  # what rounds to infinity begins there
    w = np.array([[0.0, most], [0.0, 0.0]])
    assert gpudist.apsp(w, dtype="float32", device=device)[0, 1] == most
    w[0, 1] = over
    with pytest.raises(ValueError, match="which float32 cannot hold"):
        gpudist.apsp(w, dtype="float32", device=device)


def test_the_reference_refuses_what_the_kernels_refuse():
    chain = np.diag([2**29 - 1, 2**29 - 1, 2.0], 1)
    for w, error, call in (
        (chain, OverflowError, {"dtype": "int32"}),
        (2 * chain, ValueError, {"dtype": "int32"}),
        (chain + 0.5, ValueError, {"dtype": "int32"}),
        (chain * 1e40, ValueError, {"dtype": "float32"}),
        (-chain, ValueError, {"no_edge": -1}),
    ):
        said = []
        for kernel in ("auto", "reference"):
            with pytest.raises(error) as caught:
                gpudist.apsp(w, kernel=kernel, **call)
            said.append(str(caught.value))
        assert said[0] == said[1]
    hops = gpudist.apsp(0.5 * chain, dtype="int32", unweighted=True, kernel="reference")
    assert hops[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("no_edge", [0.1, 0.5, 2, 300, 2**40, 1e300, np.inf, np.nan])
def test_every_way_reads_the_same_sentinel(dtype, no_edge, rng):
    """One that int32 does not hold is none of its numbers; to float32 it is rounded."""
    w = rng.integers(1, 5, (9, 9)).astype(dtype)
    w[0, 3] = 0.1
    expected = gpudist.apsp(w, no_edge=no_edge)
    reached = gpudist.transitive_closure(w, no_edge=no_edge)
    for found in (
        gpudist.apsp(w, no_edge=no_edge, kernel="reference"),
        gpudist.apsp(w[None], no_edge=no_edge)[0],
        gpudist.apsp([w], no_edge=no_edge)[0],
        gpudist.apsp(w, no_edge=no_edge, indices=range(9)),
    ):
        np.testing.assert_array_equal(found, expected)
    slow = gpudist.transitive_closure(w, no_edge=no_edge, kernel="reference")
    np.testing.assert_array_equal(slow, reached)


def test_float32_holds_what_stands_for_no_path():
    for graph in (np.zeros((2, 2), "f4"), np.zeros((1, 2, 2), "f4")):
        with pytest.raises(ValueError, match="unreachable must be a number that float32 holds"):
            gpudist.apsp(graph, unreachable=1e300)
        for value in (3e38, -np.inf, np.nan):
            found = gpudist.apsp(graph, unreachable=value)[..., 0, 1]
            np.testing.assert_array_equal(found, np.float32(value))
