"""What the tests of measuring share: small cases, and lines as a run would have recorded them."""

from pathlib import Path

from bench import adversary, cases, suites

ROOT = Path(__file__).resolve().parents[1]
SMALL = cases.CdistCase(60, 50, 3, "float32")
PAGE = "before\n<!-- table cdist-cpu -->\nold\n<!-- end of table -->\nafter\n"


def said(case):
    return case.explain(case.operands(), "cpu")


def accuracy_case(metric, dtype="float32", arguments=""):
    (variant,) = (v for v in adversary.variants() if (v.metric, v.arguments) == (metric, arguments))
    return cases.AccuracyCase(variant, dtype)


def tiny_suite(monkeypatch, *cases, ceilings=False):
    """Let the suite "quick" be these cases; ceilings take seconds to measure."""
    suite = suites.Suite("tiny", {"cpu": cases, "cuda": ()}, ceilings=ceilings)
    monkeypatch.setitem(suites.SUITES, "quick", suite)


def line(**changes):
    record = {
        "schema": 1,
        "date": "2026-01-02T03:04:05+00:00",
        "revision": "0123456789abcdef",
        "device": "cpu",
        "device_name": "A Processor",
        "isa": "avx2",
        "threads": 2,
        "op": "cdist",
        "shape": [4000, 4000, 2],
        "dtype": "float64",
        "metric": "euclidean",
        "median_s": 0.02,
        "rate": 1.6e9,
        "unit": "pair-dimensions/s",
        "fraction_of_ceiling": 0.5,
        "bound_by": "write",
        "max_relative_error": 2e-16,
        "rivals": [
            {"name": "scipy cdist", "ratio": 3.0, "max_relative_error": 0.0},
            {"name": "torch.cdist", "missing": "torch is not installed"},
        ],
    }
    return record | changes


def limits():
    units = {"write": "B/s", "fma": "multiply-adds/s", "tensor": "multiply-adds/s"}
    return [
        line(op="ceiling", ceiling=name, rate=rate, unit=units[name], shape=[])
        for name, rate in (("write", 1e10), ("fma", 1e11), ("tensor", 1e12))
    ]


def points_of_a_plot():
    shared = {"bytes_moved": 1e8, "pipe_operations": 1e9, "kernel": "cdist/a"}
    return [
        line(**shared),
        line(**shared, dtype="float32", median_s=0.04),
        line(**{**shared, "kernel": "cdist/b", "pipe_operations": 1e11}),
        line(op="minplus", pipe_operations=0, bytes_moved=1),  # has no arithmetic to show
    ]
