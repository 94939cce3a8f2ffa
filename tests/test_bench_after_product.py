"""The benchmark's calls after a product: what is timed, and what they are held against."""

import itertools

from bench import cases, report, runner, suites
from gpudist.measure import rivals, timing

CASE = cases.AfterProductCase(cases.CdistCase(60, 50, 3, "float64"))


def test_the_clock_counts_the_call_alone(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr("gpudist.measure.timing.time.perf_counter", lambda: float(next(ticks)))
    order = []
    clock = timing.HostClock(before=lambda: order.extend([next(ticks), "product"]))
    assert clock.sample(lambda: order.append("call"), 3) == 3
    assert [what for what in order if isinstance(what, str)] == ["product", "call"] * 3


def test_ours_and_others_come_after_a_product_and_the_quiet_call_does_not(monkeypatch, capsys):
    products = []
    monkeypatch.setattr(cases.AfterProductCase, "product", lambda self: products.append(self))
    monkeypatch.setattr(
        rivals, "RIVALS", [rival for rival in rivals.RIVALS if rival.name == "scipy cdist"]
    )
    run = runner.Runner("cpu", repeats=2, source="abc", with_ceilings=False)
    before = []

    def clock(product=None):
        before.append(product)
        return timing.HostClock(product)

    monkeypatch.setattr(runner, "HostClock", clock)
    record = run.run(CASE)
    assert "failed" not in record, record
    assert record["arguments"] == "after a product" and 0 < record["quiet_s"] < 1
    assert len(products) >= 2 * 2 * (1 + len(rivals.RIVALS))
    assert [product is not None for product in before] == [True, False]
    report.show_result(record | {"median_s": 0.75, "quiet_s": 0.5})
    assert "without a product before it: 500 ms; 1.50x of it" in capsys.readouterr().out


def test_the_cpu_suite_has_calls_after_a_product():
    for listed in suites.SUITES["cpu"].cases.values():
        after = [case for case in listed if isinstance(case, cases.AfterProductCase)]
        assert {case.op for case in after} == {"cdist", "apsp"}
        assert cases.AfterProductCase(cases.CdistCase(1, 20000, 64, "float64")) in after
