"""The demo: each step on made-up airports, the whole of it on real ones if installed."""

import io
import itertools
import math
import sys
import time

import numpy as np
import pytest

import gpudist
from gpudist import demo
from gpudist.demo import progress, projection, report, routes, sample

KM = demo.EARTH_RADIUS_KM


def make_airports(degrees):
    n = len(degrees)
    codes = tuple(f"{chr(65 + i // 26)}{chr(65 + i % 26)}X" for i in range(n))
    return demo.Airports(
        codes=codes,
        other_codes=tuple("K" + code for code in codes),
        names=tuple(f"Field {i}" for i in range(n)),
        cities=tuple("" if i == 0 else f"City {i}" for i in range(n)),
        countries=("XX",) * n,
        points=np.radians(np.asarray(degrees, dtype=np.float64)),
    )


@pytest.fixture
def globe(rng):
    """Airports all over the globe, two of them in one place."""
    latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 150)))
    degrees = np.stack([latitude, rng.uniform(-180, 180, 150)], axis=1)
    degrees[7] = degrees[3]
    return make_airports(degrees)


@pytest.fixture
def islands():
    """Three airports in a row 111 km apart, two on the other side of the globe, one at a pole."""
    return make_airports([(0, 0), (0, 1), (0, 2), (0, 179.5), (0, -179.5), (-90, 0)])


def solve(airports, range_km):
    hops = demo.great_circles(airports.points, airports.points)
    count = demo.keep_hops(hops, range_km)
    return count, *demo.shortest_routes(hops)


# ------------------------------------------------------------------ airports


@pytest.mark.parametrize("code", ["ABX", "abx", " ABX ", "KABX"])
def test_airports_are_found_by_either_code(globe, code):
    assert globe.find(code) == 1


def test_an_unknown_code_offers_near_matches(globe):
    with pytest.raises(demo.DemoError, match=r"no airport has the code 'ABC'; did you mean .*ABX"):
        globe.find("ABC")


def test_a_city_is_offered_its_code(globe):
    with pytest.raises(demo.DemoError, match="did you mean AFX City 5, XX"):
        globe.find("city 5")


@pytest.mark.parametrize("code", ["", "#"])
def test_a_hopeless_code_is_offered_nothing(globe, code):
    with pytest.raises(demo.DemoError, match=r"has the code '[^']*'$"):
        globe.find(code)


def test_labels_fall_back_to_the_name(globe):
    assert globe.label(0) == "AAX Field 0, XX"
    assert globe.label(1) == "ABX City 1, XX"


def test_take(globe):
    some = globe.take(np.array([4, 2]))
    assert some.codes == ("AEX", "ACX")
    assert np.array_equal(some.points, globe.points[[4, 2]])


@pytest.mark.parametrize("n", [1, 2, 10, 97])
@pytest.mark.parametrize("count", [1, 2, 5, 96, 200])
def test_spread_chooses_as_many_as_asked(n, count):
    keep = [n - 1, n // 2]
    chosen = demo.spread(n, count, keep)
    assert len(chosen) == min(n, max(count, len(set(keep))))
    assert set(keep) <= set(chosen.tolist())
    assert np.all(np.diff(chosen) > 0)
    assert np.array_equal(chosen, demo.spread(n, count, keep))


def test_spread_is_even():
    assert demo.spread(101, 5).tolist() == [0, 25, 50, 75, 100]


# ------------------------------------------------------------------ distances and routes


def test_hops_are_kilometres_within_range(islands):
    hops = demo.great_circles(islands.points, islands.points)
    assert hops.dtype == np.float32
    degree = KM * math.pi / 180
    assert demo.keep_hops(hops, 1.5 * degree) == 3
    assert hops[0, 1] == pytest.approx(degree, rel=1e-6)
    assert hops[3, 4] == pytest.approx(degree, abs=0.002)  # float32 of 180 degrees: 0.8 m
    assert hops[0, 2] == np.inf
    assert np.array_equal(hops, hops.T)
    assert not hops.diagonal().any()


def test_routes_of_the_islands(islands):
    count, lengths, predecessors = solve(islands, 120.0)
    assert count == 3
    assert lengths[0, 2] == pytest.approx(2 * KM * math.pi / 180, rel=1e-6)
    assert gpudist.reconstruct_path(predecessors, 0, 2) == [0, 1, 2]
    assert demo.components(lengths).tolist() == [0, 0, 0, 1, 1, 2]
    assert demo.longest_route(lengths) in ((0, 2), (2, 0))


def test_airports_in_one_place_stay_linked(globe):
    _, lengths, _ = solve(globe, 3000.0)
    assert lengths[3, 7] == 0
    assert np.array_equal(lengths[3], lengths[7])


def test_longest_route_of_many_blocks(globe):
    _, lengths, _ = solve(globe, 3000.0)
    lengths[140, 5] = 99_999.0
    assert 2 * routes._BLOCK_ROWS < 140
    assert demo.longest_route(lengths) == (140, 5)


def test_components_are_sorted_by_size(rng):
    part = rng.permutation(np.repeat([0, 1, 2], [20, 5, 9]))
    lengths = np.where(part[:, None] == part, 1.0, np.inf)
    assert np.bincount(demo.components(lengths)).tolist() == [20, 9, 5]


def test_detours_are_of_pairs_that_need_a_stop(globe):
    _, lengths, _ = solve(globe, 4000.0)
    ratios = demo.detours(globe, lengths, 4000.0)
    direct = gpudist.cdist(globe.points, globe.points, "haversine", kernel="reference") * KM
    stops = np.isfinite(lengths) & (direct > 4000.0)
    assert len(ratios) == stops.sum()
    assert ratios.min() > 1 - 1e-6
    assert ratios.max() == pytest.approx((lengths[stops] / direct[stops]).max(), rel=1e-5)


# ------------------------------------------------------------------ SciPy


def test_scipy_agrees(globe):
    pytest.importorskip("scipy")
    found = demo.compare_with_scipy(globe, 4000.0)
    assert (found.distance_airports, found.path_airports, found.range_km) == (150, 150, 4000.0)
    assert found.distance_seconds > 0 < found.path_seconds
    assert found.our_distance_seconds > 0 < found.our_path_seconds
    assert found.distance_error_km < 0.01
    assert found.path_error < 1e-6


def test_a_ratio_is_between_times_of_the_same_sample(capsys):
    times = sample.Comparison(100, 50, 900.0, 0.2, 0.3, 0.1, 0.1, 0.0, 0.0)
    report.show_times({"distances": 9.0, "routes": 99.0, "other": 1.0}, times, 1000)
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[2:5]}
    assert rows == {
        "distances": "9.00 s 20.0 s 100 ms 200 ms 2.00x",
        "routes": "99.0 s 2400 s 100 ms 300 ms 3.00x",
        "other": "1.00 s",
    }


def test_a_thinner_sample_has_longer_hops(globe, monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(sample, "_SAMPLE_OF_ROUTES", 50)
    found = demo.compare_with_scipy(globe, 1000.0)
    assert (found.distance_airports, found.path_airports) == (150, 50)
    assert found.range_km == pytest.approx(1000.0 * math.sqrt(3))


def test_scipy_catches_wrong_routes(globe, monkeypatch):
    pytest.importorskip("scipy")
    honest = gpudist.apsp

    def wrong(*arguments, **options):
        lengths, predecessors = honest(*arguments, **options)
        lengths[5, 9] *= 1.01
        return lengths, predecessors

    monkeypatch.setattr(gpudist, "apsp", wrong)
    assert demo.compare_with_scipy(globe, 6000.0).path_error == pytest.approx(0.01, rel=1e-3)


def test_scipy_catches_wrong_distances(globe, monkeypatch):
    pytest.importorskip("scipy")
    honest = gpudist.cdist
    monkeypatch.setattr(gpudist, "cdist", lambda *a, **k: honest(*a, **k) + np.float32(0.1))
    assert demo.compare_with_scipy(globe, 6000.0).distance_error_km == pytest.approx(
        0.1 * KM, rel=1e-3
    )


def test_a_route_that_only_one_finds_is_no_agreement():
    assert sample._largest_relative(np.array([1.0, np.inf]), np.array([1.0, 2.0])) == np.inf


# ------------------------------------------------------------------ stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


def long_stage(monkeypatch, stream, **options):
    monkeypatch.setattr(progress, "_PROGRESS_AFTER", 0.02)
    monkeypatch.setattr(sys, "stderr", stream)
    stages = demo.Stages()
    with stages.stage("slow work", **options):
        time.sleep(0.35)
    assert 0.3 < stages.seconds["slow work"] < 10
    return stream.getvalue()


def test_a_long_stage_says_so_in_a_line(monkeypatch):
    text = long_stage(monkeypatch, io.StringIO(), estimate=3.0)
    assert text == "slow work ... (at most about 3 s)\n"


@pytest.mark.parametrize("estimate", [None, 0.2, 30.0])
def test_a_long_stage_has_a_bar_on_a_terminal(monkeypatch, estimate):
    pytest.importorskip("tqdm")
    text = long_stage(monkeypatch, Terminal(), estimate=estimate)
    assert "slow work" in text
    assert ("%" in text) == (estimate is not None)


def test_without_tqdm_a_terminal_gets_the_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert long_stage(monkeypatch, Terminal()) == "slow work ...\n"


def test_a_short_stage_is_silent(capsys):
    stages = demo.Stages()
    with stages.stage("quick work"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_failing_stage_ends():
    stages = demo.Stages()
    with pytest.raises(ZeroDivisionError), stages.stage("bad work"):
        1 / 0  # noqa: B018
    assert "bad work" in stages.seconds


# ------------------------------------------------------------------ the map


def test_equal_earth():
    corner = projection.equal_earth(np.array([0.0, 0.0, np.pi / 2]), np.array([0.0, np.pi, 0.0]))
    np.testing.assert_allclose(corner, [[0, 0], [2.7066299836, 0], [0, 1.3173627592]], atol=1e-9)


def test_equal_earth_keeps_areas():
    latitude = np.radians(np.linspace(-85, 85, 35))
    step = 1e-5
    north = projection.equal_earth(latitude + step, np.zeros(35))[:, 1]
    south = projection.equal_earth(latitude - step, np.zeros(35))[:, 1]
    width = projection.equal_earth(latitude, np.ones(35))[:, 0]
    np.testing.assert_allclose(width * (north - south) / (2 * step), np.cos(latitude), rtol=1e-6)


def test_arcs_end_where_they_should(rng):
    points = np.stack([rng.uniform(-1.4, 1.4, 300), rng.uniform(-np.pi, np.pi, 300)], axis=1)
    starts, ends = points[:150], points[150:]
    ends[0] = starts[0]
    lines = projection.arcs(starts, ends, steps=50)
    assert any(len(pieces) == 2 for pieces in lines)
    for start, end, pieces in zip(starts, ends, lines, strict=True):
        for point, place in ((start, pieces[0][0]), (end, pieces[-1][-1])):
            expected = projection.equal_earth(point[0], projection.from_centre(point[1]))
            np.testing.assert_allclose(place, expected, atol=1e-6)


def test_arcs_are_cut_at_the_edge_of_the_map():
    edge = projection._CENTRE + 180
    west, east = np.radians([[10.0, edge - 5]]), np.radians([[20.0, edge + 5]])
    ((first, second),) = projection.arcs(west, east, steps=9)
    limit = projection.equal_earth(np.radians([15.0]), np.array([np.pi]))[0]
    np.testing.assert_allclose(first[-1], limit, rtol=0.02)
    np.testing.assert_allclose(second[0], limit * [-1, 1], rtol=0.02)
    for piece in (first, second):
        assert np.abs(np.diff(piece[:, 0])).max() < 0.1


def test_arcs_are_great_circles():
    ((line,),) = projection.arcs(
        np.radians([[45.0, projection._CENTRE - 45]]),
        np.radians([[45.0, projection._CENTRE + 45]]),
        steps=3,
    )
    top = math.degrees(math.atan2(1, math.cos(math.radians(45))))  # of the middle, about 54.7
    np.testing.assert_allclose(
        line[1], projection.equal_earth(np.radians(top), np.array(0.0)), atol=1e-9
    )


# ------------------------------------------------------------------ the whole


def run_on(airports, monkeypatch, **options):
    pytest.importorskip("scipy")
    monkeypatch.setattr(demo, "load_airports", lambda every: airports)
    defaults = {"origin": "AAX", "destination": "ACX", "output": None, "device": "cpu"}
    demo.run(**(defaults | options))


def test_run_prints_what_it_finds(islands, monkeypatch, capsys):
    run_on(islands, monkeypatch, range_km=120.0)
    text = capsys.readouterr().out
    for expected in (
        "6 airports, hops of up to 120 km",
        "15 pairs of airports, 3 of them within range",
        "distances: cdist/cpu_haversine",
        "routes: apsp/cpu_blocked",
        "The shortest route from AAX Field 0, XX to ACX City 2, XX",
        "222 km in 2 hops; 222 km by the great circle, 0.0% longer",
        "  AAX - ABX - ACX",
        "3 airports, in 2 groups, cannot be reached from the 3 of the largest group",
        "ADX City 3, XX; AEX City 4, XX; AFX City 5, XX",
        "- Distances of 6 airports, which grow with n squared: SciPy has no haversine.",
        "- Routes of 6 airports with hops of up to 120 km, which grow with n cubed: floyd_warshall",
        "s in total.",
    ):
        assert expected in text, expected
    legs = [row.split() for row in text.splitlines() if row.strip()[:2] in ("1 ", "2 ")]
    assert [leg[-2:] for leg in legs] == [["111", "111"], ["111", "222"]]


def test_run_without_a_route(islands, monkeypatch, capsys):
    run_on(islands, monkeypatch, range_km=120.0, destination="AFX")
    text = capsys.readouterr().out
    assert "No chain of hops of up to 120 km leads from AAX Field 0, XX to AFX City 5, XX" in text


def test_run_where_all_are_linked(globe, monkeypatch, capsys):
    run_on(globe, monkeypatch, range_km=20_100.0)
    text = capsys.readouterr().out
    assert "Every airport can be reached from every other." in text
    assert "out of each other's range" not in text


@pytest.mark.parametrize("range_km", [120.0, 4000.0, 20_100.0])
def test_run_draws(globe, islands, monkeypatch, tmp_path, range_km):
    figure = pytest.importorskip("matplotlib.figure")
    seen = []
    save = figure.Figure.savefig

    def spy(self, *arguments, **options):
        seen.extend(text.get_text() for text in self.texts)
        save(self, *arguments, **options)

    monkeypatch.setattr(figure.Figure, "savefig", spy)
    airports = islands if range_km < 1000 else globe
    run_on(airports, monkeypatch, range_km=range_km, output=tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert f"{len(airports)} airports, hops of up to {range_km:g} km" in seen
    assert "AAX to ACX" in seen


def test_limit_keeps_both_ends(globe, monkeypatch, capsys):
    run_on(globe, monkeypatch, limit=2, origin="BCX", destination="DDX", range_km=20_100.0)
    text = capsys.readouterr().out
    assert "2 airports" in text
    assert "BCX - DDX" in text or "DDX - BCX" in text


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("airportsdata", {}),
        ("scipy.spatial.distance", {}),
        ("matplotlib.figure", {"output": "x.png"}),
    ],
)
def test_a_missing_extra_is_named(module, options, globe, monkeypatch):
    for name in ("scipy", "matplotlib"):
        pytest.importorskip(name)
    if module != "airportsdata":
        monkeypatch.setattr(demo, "load_airports", lambda every: globe)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(demo.DemoError, match=r'which is not installed: pip install "\.\[demo\]"'):
        demo.run(origin="AAX", destination="ACX", **({"output": None} | options))


def test_real_airports():
    pytest.importorskip("airportsdata")
    airports = demo.load_airports()
    assert len(airports) > 7000
    assert airports.find("ANC") == airports.find("PANC")
    assert airports.label(airports.find("ANC")) == "ANC Anchorage, US"
    assert airports.points[airports.find("USH")][0] == pytest.approx(math.radians(-54.84), abs=1e-3)
    every = demo.load_airports(every=True)
    assert len(every) > 25_000
    assert every.codes[every.find("ANC")] == "PANC"


def test_the_demo_on_real_airports(tmp_path, capsys):
    for name in ("airportsdata", "scipy", "matplotlib"):
        pytest.importorskip(name)
    demo.run(limit=400, range_km=3000.0, output=tmp_path / "map.png", device="cpu")
    text = capsys.readouterr().out
    assert "400 airports" in text
    legs = text.partition("The shortest route from")[2].partition("\n\n")[0].splitlines()[3:]
    stops = [leg.split()[1] for leg in legs]
    assert stops[0] == "ANC"
    assert len(legs) >= 5
    assert all(int(leg.split()[-2]) <= 3000 for leg in legs)
    so_far = [int(leg.split()[-1]) for leg in legs]
    assert all(one < two for one, two in itertools.pairwise(so_far))
    assert 14_700 < so_far[-1] < 20_000


@pytest.mark.gpu
def test_the_demo_on_a_gpu(globe, monkeypatch, capsys):
    run_on(globe, monkeypatch, range_km=4000.0, device="cuda")
    text = capsys.readouterr().out
    assert "routes: apsp/cuda" in text
    assert "distances: cdist/cuda" in text
