"""What can go wrong in the demo."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on, for a reason that its user can mend."""


def missing(error: ImportError) -> DemoError:
    """Say which package the demo lacks.

    Parameters
    ----------
    error : ImportError
        What importing it raised.

    Returns
    -------
    DemoError
        To be raised; it tells how to install the package.
    """
    return DemoError(f'the demo needs {error.name}, which is not installed: pip install ".[demo]"')
