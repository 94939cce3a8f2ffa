"""What the benchmarks know of a GPU's clock, from a driver that the tests make up."""

import io

import pytest

from bench import cases, clocks, report
from bench.runner import Runner
from gpudist.measure import rivals

PLACE = b"0000:3B:00.0"


class Driver:
    """Both libraries in one; each of `reasons` answers once, the last from then on."""

    def __init__(self, *reasons, missing=(), failing=()):
        self.reasons = list(reasons)
        self.missing = missing
        self.failing = failing

    def __getattr__(self, name):
        if name in self.missing:
            raise AttributeError(name)
        return lambda *arguments: 1 if name in self.failing else self.answer(name, *arguments)

    def answer(self, name, *arguments):
        if name == "cuDeviceGet":
            arguments[0]._obj.value = arguments[1] + 7
        elif name == "cuDeviceGetPCIBusId":
            assert arguments[2].value == 8
            arguments[0].value = PLACE
        elif name == "nvmlDeviceGetHandleByPciBusId_v2":
            assert arguments[0].value == PLACE
            arguments[1]._obj.value = 1234
        elif name.startswith("nvmlDevice"):
            assert arguments[0].value == 1234
            if name == "nvmlDeviceGetClockInfo":
                assert arguments[1] == 1
            arguments[-1]._obj.value = 1500 if name == "nvmlDeviceGetClockInfo" else self.reason()
        return 0

    def reason(self):
        return self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]


def card(*reasons, **state):
    return clocks.Card(1, load=lambda name: Driver(*reasons, **state))


@pytest.mark.parametrize(
    ("reasons", "held_by"),
    [(0, None), (1, None), (4, "power"), (0x80, "power"), (0x20, "heat"), (0x40, "heat")],
)
def test_a_card_tells_its_clock(reasons, held_by):
    assert card(reasons).state() == {"sm_clock_hz": 1.5e9, "held_by": held_by}


def no_library(name):
    raise OSError(name)


@pytest.mark.parametrize(
    "silent",
    [
        clocks.Card(0, load=no_library),
        card(4, missing=("nvmlInit_v2",)),
        card(4, failing=("nvmlDeviceGetHandleByPciBusId_v2",)),
        card(4, failing=("nvmlDeviceGetClockInfo",)),
        card(4, failing=("nvmlDeviceGetCurrentClocksThrottleReasons",)),
    ],
)
def test_a_card_that_tells_nothing_keeps_nobody_waiting(silent, monkeypatch):
    monkeypatch.setattr(clocks.time, "sleep", lambda seconds: pytest.fail("it waits"))
    silent.rest()
    assert silent.state() == {}


def test_a_card_rests_until_nothing_holds_its_clock(monkeypatch):
    naps = []
    monkeypatch.setattr(clocks.time, "sleep", naps.append)
    card(4, 4, 0x20, 0, 4).rest()
    assert len(naps) == 3


def test_a_card_that_never_recovers_is_timed_all_the_same(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clocks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clocks.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    card(4).rest(2.0)
    assert 2.0 <= now[0] < 2.2


class Rested:
    def __init__(self, held_by):
        self.held_by = held_by
        self.log = []

    def rest(self):
        self.log.append("rest")

    def state(self):
        self.log.append("state")
        return {"sm_clock_hz": 1.23e9, "held_by": self.held_by}


@pytest.mark.parametrize("held_by", ["power", None])
def test_a_line_tells_the_clock_that_it_was_taken_at(held_by, monkeypatch):
    monkeypatch.setattr(rivals, "RIVALS", ())
    runner = Runner("cpu", repeats=2, with_ceilings=False)
    runner.card = Rested(held_by)
    record = runner.run(cases.CdistCase(20, 30, 2, "float64"))
    assert runner.card.log == ["rest", "state"]
    assert record["held_by"] == held_by
    assert record["sm_clock_hz"] == 1.23e9
    said = io.StringIO()
    report.show_result(record, said)
    assert ("power held the card's clock down: 1230 MHz" in said.getvalue()) == bool(held_by)


@pytest.mark.gpu
def test_the_clock_of_a_gpu():
    state = clocks.Card(0).state()
    if not state:
        pytest.skip("the driver does not tell")
    assert 1e8 < state["sm_clock_hz"] < 1e10
