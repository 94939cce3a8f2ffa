"""What was measured, for the notebooks: ``data/*.jsonl``, as `python -m bench` wrote it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # the repository's root, where bench is

from bench.lines import newest, read_lines  # noqa: E402


def lines(op, gpu=None):
    """Give the newest line of each case of an operation.

    Parameters
    ----------
    op : str or tuple of str
        The operation, "ladder" or "accuracy", or several.
    gpu : bool, optional
        Only what was measured on a GPU, or only what was not.

    Returns
    -------
    list of dict
        As they were recorded.
    """
    ops = (op,) if isinstance(op, str) else op
    every = (line for path in sorted((HERE / "data").glob("*.jsonl")) for line in read_lines(path))
    return [
        line
        for line in newest(every).values()
        if line["op"] in ops and gpu in (None, line["device"] != "cpu")
    ]
