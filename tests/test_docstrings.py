"""Every example in a public docstring runs and prints what it says."""

import doctest
import importlib

import pytest

import gpudist

MODULES = ["gpudist", "distance", "paths", "explanation", "registry", "cuda", "metrics"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name if name == "gpudist" else f"gpudist.{name}")
    assert doctest.testmod(module).failed == 0


def test_every_public_name_is_documented():
    for name in gpudist.__all__:
        if name.isupper() or name.startswith("__"):
            continue
        text = getattr(gpudist, name).__doc__
        assert text, name


@pytest.mark.parametrize("name", ["cdist", "apsp", "reconstruct_path", "kernels", "explain"])
def test_every_function_has_an_example(name):
    assert ">>>" in getattr(gpudist, name).__doc__
