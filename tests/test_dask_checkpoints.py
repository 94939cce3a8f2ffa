"""Shortest paths in bands go on from what was kept, and from nothing else."""

import sys

import lazily
import numpy as np
import pytest
from lazily import da, roads, same, zarr

import gpudist
from gpudist.dask import bands, checkpoints, paths

pytestmark = lazily.MARKS


@pytest.fixture(autouse=True)
def here():
    with lazily.in_this_process():
        yield


def steps(array):
    """Count the tasks of each kind."""
    names = [key[0].split("-")[2] for key in array.__dask_graph__() if "gpudist" in str(key[0])]
    return {name: names.count(name) for name in names}


def stop_at_turn(turn, monkeypatch, module, name):
    """Have a module's task of a turn fail once so many have begun."""
    own, turns = getattr(module, name), []

    def stops(*given):
        turns.append(given)
        if len(turns) == turn:
            raise RuntimeError("the machine was needed elsewhere")
        return own(*given)

    monkeypatch.setattr(module, name, stops)


def test_a_run_goes_on_from_its_checkpoint(tmp_path, rng, monkeypatch):
    w = roads(rng, 600)
    lazy, place = da.from_array(w, chunks=200), tmp_path / "half"
    call = {"bands": 5, "return_predecessors": True, "checkpoint": place}
    expected = gpudist.apsp(w, return_predecessors=True)
    whole = gpudist.apsp(lazy, **call)[0]
    assert steps(whole)["own"] == steps(whole)["start"] == 5
    assert steps(whole)["save"] == 20  # after each turn but the last
    stop_at_turn(4, monkeypatch, bands, "own")
    with pytest.raises(RuntimeError, match="needed elsewhere"):
        gpudist.apsp(lazy, **call)[0].compute()
    monkeypatch.undo()
    done = int(zarr.open_group(place, mode="r").attrs["done"])
    assert done == 3
    rest = gpudist.apsp(lazy, **call)
    assert steps(rest[0])["own"] == 5 - done
    assert steps(rest[0])["load"] == 5
    assert "start" not in steps(rest[0])
    for found, one in zip(rest, expected, strict=True):
        same(found, one)
    sets = {child.name for child in place.iterdir() if child.is_dir()}
    # The last one, and that from which this run may have to begin again, as it just did for pred.
    assert sets == {
        f"{name}-{turn}" for name in ("dist", "pred", "facts", "sums") for turn in (3, 4)
    }
    last = gpudist.apsp(lazy, **call)
    assert steps(last[0])["own"] == 1
    same(last[1], expected[1])


@pytest.mark.parametrize("directed", [True, False])
def test_reachability_goes_on_from_its_checkpoint(tmp_path, rng, monkeypatch, directed):
    w, place = roads(rng, 700, density=0.002), tmp_path / "reached"
    lazy = da.from_array(w, chunks=200)
    call = {"bands": 4, "directed": directed, "checkpoint": place}
    expected = gpudist.transitive_closure(w, directed=directed)
    assert expected.mean() > 0.05 and not expected.all()
    stop_at_turn(3, monkeypatch, paths, "_close_own")
    with pytest.raises(RuntimeError, match="needed elsewhere"):
        gpudist.transitive_closure(lazy, **call).compute()
    monkeypatch.undo()
    rest = gpudist.transitive_closure(lazy, **call)
    assert rest.chunks[0] == (128, 256, 128, 188)
    assert (steps(rest)["load"], steps(rest)["save"], steps(rest)["band"]) == (4, 4, 8)
    same(rest, expected)
    with pytest.raises(ValueError, match="belongs to another call"):
        gpudist.transitive_closure(lazy, **call, reflexive=True)
    other = {"semiring": "or_and", "bands": 3, "directed": directed, "checkpoint": tmp_path / "or"}
    for _ in range(2):
        same(gpudist.apsp(lazy, **other), gpudist.apsp(w, semiring="or_and", directed=directed))


def test_what_is_known_of_the_weights_is_kept_as_well(tmp_path):
    """A cycle that rounding hides is looked for after a resumption, too."""
    w = np.zeros((300, 300))
    w[0, 1], w[1, 2], w[2, 0] = 1.0, 2.0, -4.0
    place = tmp_path / "paths"
    for _ in range(2):
        with pytest.raises(gpudist.NegativeCycleError, match="0 -> 1 -> 2 -> 0"):
            gpudist.apsp(da.from_array(w, chunks=100), bands=3, checkpoint=str(place)).compute()
    facts = zarr.open_group(place, mode="r")["facts-2"][:]
    assert facts[:, 0].tolist() == [1, 0, 0]
    assert facts[0, 2] == 4


@pytest.mark.parametrize("spoil", ["remove", "empty", "change"])
def test_what_was_lost_of_a_checkpoint_is_no_zeros(tmp_path, rng, spoil):
    """Zarr takes a file that is missing for zeros, which would be lengths."""
    lazy, place = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths"
    call = {"bands": 3, "return_predecessors": True}
    expected = gpudist.apsp(lazy, **call)[0].compute()
    gpudist.apsp(lazy, checkpoint=place, **call)[0].compute()
    files = [one for one in place.rglob("*") if one.is_file() and one.name != "zarr.json"]
    assert {one.relative_to(place).parts[0] for one in files} == {
        f"{name}-2" for name in ("dist", "pred", "facts", "sums")
    }
    for file in files:
        kept = file.read_bytes()
        if spoil == "remove":
            file.unlink()
        else:
            middle = len(kept) // 2
            changed = kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :]
            file.write_bytes(changed if spoil == "change" else b"")
        with pytest.raises(ValueError, match="cannot be gone on from; remove that folder"):
            gpudist.apsp(lazy, checkpoint=place, **call)[0].compute()
        file.write_bytes(kept)
    same(gpudist.apsp(lazy, checkpoint=place, **call)[0], expected)


def test_a_checkpoint_is_of_one_call(tmp_path, rng):
    lazy, place = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths"
    gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    for graph, also in ((lazy, {"dtype": "float32"}), (lazy + 1, {})):
        with pytest.raises(ValueError, match="belongs to another call"):
            gpudist.apsp(graph, bands=3, checkpoint=place, **also)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("a year's work")
    for other in ("mine", "mine/thesis.txt"):
        with pytest.raises(ValueError, match="is no checkpoint of gpudist"):
            gpudist.apsp(lazy, checkpoint=tmp_path / other)
    with pytest.raises(TypeError, match="must be the path of a folder, got int"):
        gpudist.apsp(lazy, checkpoint=3)
    with pytest.raises(ValueError, match="checkpoint must be the path of a folder, got an empty"):
        gpudist.apsp(lazy, checkpoint="")


def test_sets_are_written_some_times_in_a_run():
    assert checkpoints.turns_to_save(5, 0) == [1, 2, 3, 4]
    assert checkpoints.turns_to_save(5, 2) == [3, 4]
    assert checkpoints.turns_to_save(1, 0) == []
    assert len(checkpoints.turns_to_save(100, 0)) <= checkpoints.SETS


def test_two_calls_do_not_share_a_place_that_was_empty_when_they_were_planned(tmp_path, rng):
    """The second would go on under the first one's name, and the first take it for its own."""
    w, place = roads(rng, 500), tmp_path / "paths"
    graphs = [da.from_array(x, chunks=100) for x in (w, w[::-1])]
    first, second = (gpudist.apsp(graph, bands=4, checkpoint=place) for graph in graphs)
    same(first, gpudist.apsp(w))
    with pytest.raises(ValueError, match="belongs to another call"):
        second.compute()
    zarr.open_group(place, mode="r+").attrs["done"] = 0  # as if it had been stopped
    with pytest.raises(ValueError, match="belongs to another call"):
        second.compute()
    same(gpudist.apsp(graphs[0], bands=4, checkpoint=place), gpudist.apsp(w))


def test_a_plan_that_another_has_overtaken_says_so(tmp_path, rng):
    w, place = roads(rng, 500), tmp_path / "paths"
    lazy = da.from_array(w, chunks=100)
    gpudist.apsp(lazy, bands=4, checkpoint=place).compute()
    attributes = zarr.open_group(place, mode="r+").attrs
    attributes["done"] = 1
    early = gpudist.apsp(lazy, bands=4, checkpoint=place)  # would begin with a set that is gone
    attributes["done"] = 3
    with pytest.raises(ValueError, match="has been gone on from since this call was made; make it"):
        early.compute()
    same(gpudist.apsp(lazy, bands=4, checkpoint=place), gpudist.apsp(w))


def test_workers_that_do_not_see_the_folder_say_so(tmp_path, rng, monkeypatch):
    """As on another machine, where the path is that of a folder of its own."""
    lazy, place, make = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths", []

    def elsewhere(at, *given):
        make.append(given)
        own(at, *given)
        place.rename(tmp_path / "on another machine")
        return at.path

    own = checkpoints.make
    monkeypatch.setattr(checkpoints, "make", elsewhere)
    with pytest.raises(ValueError, match=r"is not there for a worker on .*that the client and all"):
        gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    assert len(make) == 1


def test_another_limit_of_memory_goes_on(tmp_path, rng):
    """What ended for want of memory is made again with less."""
    w, place = roads(rng, 300), tmp_path / "paths"
    lazy = da.from_array(w, chunks=100)
    gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    rest = gpudist.apsp(lazy, bands=3, checkpoint=place, max_memory=2**30)
    assert steps(rest)["load"] == 3
    same(rest, gpudist.apsp(w))


def test_another_limit_of_memory_is_another_plan(rng):
    """Or Dask would give back what failed with less, which it knows by the names of tasks."""
    lazy = da.from_array(roads(rng, 300), chunks=100)
    for call in (gpudist.apsp, gpudist.transitive_closure):
        less, more = (call(lazy, bands=3, max_memory=most) for most in (2**20, 2**30))
        shared = set(less.dask) & set(more.dask)  # what cuts the graph into bands, which is Dask's
        assert not [key for key in shared if "gpudist" in str(key)]


def test_what_cannot_be_gone_on_from_is_named(tmp_path, rng, monkeypatch):
    lazy, place = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths"
    gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    zarr.open_group(place, mode="r+").attrs["format"] = "gpudist apsp 1"
    with pytest.raises(ValueError, match="another version of gpudist, as 'gpudist apsp 1', and"):
        gpudist.apsp(lazy, bands=3, checkpoint=place)
    with pytest.raises(ValueError, match="must be the path of a folder, got the URL 's3://mine/p"):
        gpudist.apsp(lazy, checkpoint="s3://mine/paths")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ModuleNotFoundError, match=r"checkpoint needs zarr.*pip install \"\.\[dask"):
        gpudist.apsp(lazy, checkpoint=tmp_path / "new")


def test_a_group_has_its_call_from_the_beginning(tmp_path, rng, monkeypatch):
    """A run that is killed in its first moment leaves nothing that the next one refuses."""
    lazy, place = da.from_array(roads(rng, 300), chunks=100), tmp_path / "paths"

    def stopped(*_, **__):
        raise RuntimeError("killed")

    monkeypatch.setattr(zarr.Group, "create_array", stopped)
    monkeypatch.setattr(zarr.core.attributes.Attributes, "update", stopped)
    with pytest.raises(RuntimeError, match="killed"):
        gpudist.apsp(lazy, bands=3, checkpoint=place).compute()
    monkeypatch.undo()
    assert steps(gpudist.apsp(lazy, bands=3, checkpoint=place))["start"] == 3
