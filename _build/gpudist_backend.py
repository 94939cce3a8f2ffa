"""The build backend: setuptools', which asks the package index for a CUDA compiler where one helps.

That is where a driver shows a GPU and there is no nvcc. GPUDIST_CUDA=0 leaves it out.
"""

from gpudist_toolkit import REQUIREMENT, say, why_no_index
from setuptools import build_meta as _setuptools
from setuptools.build_meta import *  # noqa: F403


def _toolkit():
    why_not = why_no_index()
    if why_not is None:
        say(f"GPU kernels will be built by {REQUIREMENT} from the package index")
        return [REQUIREMENT]
    say(f"no CUDA compiler is asked of the package index: {why_not}")
    return []


def get_requires_for_build_wheel(config_settings=None):
    """Return what a wheel's build needs beside pyproject.toml's requirements."""
    return _setuptools.get_requires_for_build_wheel(config_settings) + _toolkit()


def get_requires_for_build_editable(config_settings=None):
    """Return the same for an editable installation."""
    return _setuptools.get_requires_for_build_editable(config_settings) + _toolkit()
