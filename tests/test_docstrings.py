"""Every example in a public docstring runs and prints what it says."""

import doctest
import importlib
import inspect
import pkgutil
import pydoc

import pytest

import gpudist

# What a user of the package calls has an example. Modules that need more than NumPy and SciPy are
# left to their own tests.
OPTIONAL = ("gpudist.dask", "gpudist.demo", "gpudist.nx", "gpudist.__main__")
MODULES = ["gpudist"] + [
    found.name
    for found in pkgutil.walk_packages(gpudist.__path__, "gpudist.")
    if not found.name.startswith(OPTIONAL) and not found.name.endswith("_core")
]
FUNCTIONS = [
    name
    for name in gpudist.__all__
    if inspect.isfunction(getattr(gpudist, name)) and not name.startswith("_")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name.startswith("gpudist.torch"):
        pytest.importorskip("torch", reason="PyTorch is missing")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_name_is_documented():
    for name in gpudist.__all__:
        if name.isupper() or name.startswith("__"):
            continue
        text = getattr(gpudist, name).__doc__
        assert text, name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_an_example(name):
    assert ">>>" in getattr(gpudist, name).__doc__


def test_help_is_a_tour():
    """The package's own text names whatever it offers."""
    text = pydoc.plain(pydoc.render_doc(gpudist)).partition("PACKAGE CONTENTS")[0]
    for name in gpudist.__all__:
        if not name.startswith("__"):
            assert name in text, name
