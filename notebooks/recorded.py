"""What was measured, for the notebooks: ``data/*.jsonl``, as `python -m bench` wrote it."""

import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # the repository's root, where bench is

from bench.lines import newest, read_lines  # noqa: E402


def lines(op, gpu=None):
    """Give the newest line of each case of an operation.

    Of several GPUs those of one are given: the one of which there are most lines.

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
    paths = sorted((HERE / "data").glob("*.jsonl"))
    every = newest(line for path in paths for line in read_lines(path)).values()
    gpus = Counter(line["device_name"] for line in every if line["device"] != "cpu")
    most = max(gpus, key=gpus.__getitem__, default=None)
    return [
        line
        for line in every
        if line["op"] in ops
        and gpu in (None, line["device"] != "cpu")
        and (line["device"] == "cpu" or line["device_name"] == most)
    ]
