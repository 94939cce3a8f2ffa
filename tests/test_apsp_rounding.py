"""apsp near rounding: exact sums of the weights decide which cycles are negative."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import gpudist
from gpudist import cycles, reference

KERNELS = ["auto", "reference"]


def exact_lengths(w):
    """Close a matrix (inf for no edge) over fractions; None if there is a negative cycle."""
    n = len(w)
    d = [[Fraction(float(x)) if np.isfinite(x) else None for x in row] for row in w]
    for k in range(n):
        d[k][k] = min(d[k][k] or Fraction(0), Fraction(0))
    for k, i, j in itertools.product(range(n), repeat=3):
        if d[i][k] is not None and d[k][j] is not None:
            through = d[i][k] + d[k][j]
            d[i][j] = through if d[i][j] is None else min(d[i][j], through)
    return None if any(d[i][i] < 0 for i in range(n)) else d


def length_of(w, path):
    return sum((Fraction(float(w[i, j])) for i, j in itertools.pairwise(path)), Fraction(0))


def check(w, **call):
    """Hold a call against exact sums; w has inf for no edge. Tells if it found a cycle."""
    expected = exact_lengths(w)
    try:
        dist, pred = gpudist.apsp(w, no_edge=np.inf, return_predecessors=True, **call)
    except gpudist.NegativeCycleError as error:
        cycle = error.cycle
        assert expected is None and length_of(w, [*cycle, cycle[0]]) < 0
        assert set(cycle) <= set(error.nodes) and len(set(cycle)) == len(cycle)
        return True
    assert expected is not None
    n = len(w)
    off = n * n * float(np.finfo(w.dtype).eps) * float(np.abs(w[np.isfinite(w)]).max(initial=0))
    assert not np.diagonal(dist).any()
    for i, j in itertools.product(range(n), repeat=2):
        if expected[i][j] is None:
            assert dist[i, j] == np.inf and (i == j or pred[i, j] == -9999)
            continue
        assert abs(expected[i][j] - Fraction(float(dist[i, j]))) <= off
        path = gpudist.reconstruct_path(pred, i, j)
        assert abs(length_of(w, path) - expected[i][j]) <= off
    return False


def potentials(rng, dtype, turn):
    """Weights p[j] - p[i], rounded: all cycles are about 0 long, and many not quite."""
    n = int(rng.integers(2, 8))
    most = 2**28 if dtype == "float32" else 2**53
    p = rng.integers(-most, most, n) if turn % 3 else 10.0 ** rng.uniform(-9, 9, n)
    w = (p[None] - p[:, None]).astype(dtype)
    if turn % 2:
        w[rng.random((n, n)) < 0.4] = np.inf
    np.fill_diagonal(w, 0)
    return w


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_cycle_that_rounding_hides_is_found(kernel):
    w = np.array(
        [[0, -89662768, -186077120], [89662768, 0, -96414344], [186077120, 96414344, 0]], "f4"
    )
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, kernel=kernel)
    cycle = caught.value.cycle
    assert length_of(w, [*cycle, cycle[0]]) == -8 and sorted(cycle) == caught.value.nodes


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_sums_decide(kernel, dtype, rng):
    found = [check(potentials(rng, dtype, turn), kernel=kernel) for turn in range(400)]
    assert 50 < sum(found) < 350


def spoiled(how, rng):
    """A graph without a negative cycle of which the plain triple loop makes what `how` says."""
    while True:
        n = int(rng.integers(3, 7))
        p = rng.integers(-(2**28), 2**28, n)
        w = (p[None] - p[:, None]).astype("f4").astype(float)
        w[rng.random((n, n)) < 0.3] = np.inf
        np.fill_diagonal(w, 0)
        if exact_lengths(w) is not None:
            dist, pred = reference.apsp(w.astype("f4"))
            negative = (np.diagonal(dist) < 0).any()
            if how == "negative" if negative else how == "circles" and cycles.runs_in_circles(pred):
                return w.astype("f4")


@pytest.mark.parametrize("how", ["negative", "circles"])
def test_what_rounding_spoils_is_mended(how, rng):
    """A diagonal that only seems negative, and predecessors that ran in circles."""
    for _ in range(3):
        w = spoiled(how, rng)
        assert not check(w)
        dist = gpudist.apsp(w, no_edge=np.inf)
        assert dist.dtype == np.float32
        longest = gpudist.apsp(-w, no_edge=np.inf, semiring="max_plus")
        np.testing.assert_array_equal(longest, -dist)
        assert not np.signbit(longest[longest == 0]).any()


def test_longest_paths_near_rounding(rng):
    for turn in range(60):
        w = potentials(rng, "float64", turn)
        negated = np.where(np.isfinite(w), -w, np.inf)
        if exact_lengths(w) is None:
            with pytest.raises(gpudist.NegativeCycleError) as caught:
                gpudist.apsp(negated, no_edge=np.inf, semiring="max_plus")
            cycle = caught.value.cycle
            assert length_of(negated, [*cycle, cycle[0]]) > 0
        else:
            gpudist.apsp(negated, no_edge=np.inf, semiring="max_plus")


def test_weights_of_all_magnitudes(rng):
    """They have no unit in which 64 bits hold them all."""
    for sign in (1, -1):
        w = np.full((4, 4), np.inf)
        w[0, 1], w[1, 2], w[2, 3], w[3, 0] = 1e300, 2e-300, -1e300, sign * 1e-300 - 2e-300
        assert check(w) == (sign < 0)
        big = np.full((4, 4), np.inf)
        big[0, 1] = big[1, 2] = 1.7e308
        big[2, 3], big[3, 0] = -1.7e308, -1.7e308 - sign * 2.0**980
        if sign > 0:  # sums leave the range on the way
            with pytest.raises(gpudist.NegativeCycleError) as caught:
                gpudist.apsp(big, no_edge=np.inf)
            assert sorted(caught.value.cycle) == [0, 1, 2, 3]


def test_only_nodes_of_negative_cycles_are_named():
    """Beside a cycle of length -1 is one of length 0 that float32 makes negative."""
    rng = np.random.default_rng(4)
    near = spoiled("negative", rng)
    n = len(near)
    w = np.full((n + 2, n + 2), np.inf, "f4")
    w[:n, :n] = near
    w[n, n + 1], w[n + 1, n] = 1, -2
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert caught.value.nodes == [n, n + 1]


def test_all_nodes_that_are_on_negative_cycles_are_named():
    w = np.full((3, 3), np.inf)
    w[0, 1] = w[1, 2] = -2.0
    w[1, 0] = w[2, 1] = 1.0
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert caught.value.nodes == [0, 1, 2]
    assert length_of(w, [*caught.value.cycle, caught.value.cycle[0]]) < 0


def test_more_nodes_than_exact_sums_follow(monkeypatch):
    """What rounded sums found stands; of few nodes that are on a cycle it is still judged."""
    near = spoiled("negative", np.random.default_rng(4))
    n = len(near)
    monkeypatch.setattr(cycles, "MOST_FOLLOWED", n)
    w = np.full((n + 1, n + 1), np.inf, "f4")
    w[:n, :n] = near
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert caught.value.nodes and not caught.value.cycle
    w[:] = np.inf
    w[0, n], w[n, 0] = 1, -2
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert caught.value.nodes == sorted(caught.value.cycle) == [0, n]
    monkeypatch.setattr(cycles, "MOST_FOLLOWED", 1)
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert caught.value.nodes == [0, n] and not caught.value.cycle


def test_edges_far_from_any_cycle_keep_their_fractions():
    """They are not among those that exact sums look at, and may be multiples of less."""
    near = spoiled("negative", np.random.default_rng(4))
    n = len(near)
    w = np.full((n + 2, n + 2), np.inf, "f4")
    w[:n, :n] = near
    w[n, n + 1] = 1.5
    dist = gpudist.apsp(w, no_edge=np.inf)
    assert dist[n, n + 1] == 1.5
    np.testing.assert_array_equal(dist[:n, :n], gpudist.apsp(near, no_edge=np.inf))


def test_a_hidden_cycle_behind_lengths_beyond_the_range():
    w = np.full((5, 5), np.inf)
    w[3, 4] = w[4, 0] = -1.7e308
    w[2, 0], w[0, 1], w[1, 2] = 2.0**53, -0.5, -(2.0**53)
    with pytest.raises(gpudist.NegativeCycleError) as caught:
        gpudist.apsp(w, no_edge=np.inf)
    assert sorted(caught.value.cycle) == [0, 1, 2]


def test_larger_graphs(rng):
    """In 300 nodes one cycle is shorter than 0 by less than rounding can tell, or none is."""
    p = rng.integers(-(2**20), 2**20, 300)
    w = (p[None] - p[:, None]).astype(float) + rng.integers(1, 2**10, (300, 300))
    order = rng.permutation(300)[:40]
    w[order, np.roll(order, -1)] = p[np.roll(order, -1)] - p[order]
    w *= 0.1 / 3  # weights are no multiples of anything now
    np.fill_diagonal(w, 0)
    total = length_of(w, [*order, order[0]])
    for slack in (0, 1):  # the last edge makes it 0 or more, or less
        tuned = w.copy()
        last = order[-1], order[0]
        want = Fraction(float(w[last])) - total
        tuned[last] = float(want)
        while Fraction(float(tuned[last])) < want:
            tuned[last] = np.nextafter(tuned[last], np.inf)
        while slack and Fraction(float(tuned[last])) >= want:
            tuned[last] = np.nextafter(tuned[last], -np.inf)
        if slack:
            with pytest.raises(gpudist.NegativeCycleError) as caught:
                gpudist.apsp(tuned, no_edge=np.inf)
            assert sorted(caught.value.cycle) == sorted(order)
        else:
            dist = gpudist.apsp(tuned, no_edge=np.inf)
            assert not np.diagonal(dist).any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_lone_cycle_of_no_length_is_not_negative(kernel, rng):
    """Its weights, added one after the other, come to less than 0 from some nodes on."""
    for _ in range(300):
        n = int(rng.integers(3, 8))
        edges = np.ldexp(rng.integers(1, 9, n) * rng.choice([-1.0, 1.0], n), rng.choice([0, 52], n))
        last = -sum(map(Fraction, edges[1:].tolist()), Fraction(0))
        edges[0] = float(last)
        if Fraction(float(last)) != last:
            continue
        order, w = rng.permutation(n), np.full((n, n), np.inf)
        w[order, np.roll(order, -1)] = edges
        assert not check(w, kernel=kernel)
