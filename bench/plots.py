"""Pictures of recorded results, with matplotlib: gains as bars, and the roof over all results.

How they look is `gpudist.measure.chart`'s. Every title names the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import title
from gpudist.measure import chart
from gpudist.measure.chart import where
from gpudist.measure.wording import digits, duration

Result = Mapping[str, Any]


def save(draw: Callable[[Sequence[Result]], Any], results: Sequence[Result], path: Path) -> None:
    """Save a picture that a function draws of results, in a PNG file with their digest."""
    import matplotlib.pyplot as plt

    described = {"Description": f"gpudist {digest(results)}"} if path.suffix == ".png" else None
    figure = draw(results).figure
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata=described)
    plt.close(figure)


def headlines(results: Sequence[Result]) -> Any:
    """Draw how many times as long the one other library of each result takes, a bar each.

    Ratios go to the right, logarithmic; bars of GPUs are dark, those of CPUs hatched.
    """
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(9, 0.62 * len(results) + 1.1))
    looks: dict[str, dict[str, Any]] = {
        "cuda": {"facecolor": chart.BLUE, "edgecolor": "black"},
        "cpu": {"facecolor": chart.SKY, "edgecolor": "black", "hatch": "//"},
    }
    names, ratios, shown = [], [], set()
    for place, result in enumerate(results):
        (rival,) = result["rivals"]
        backend = str(result["device"]).partition(":")[0]
        label = None if backend in shown else where(result)
        shown.add(backend)
        ax.barh(place, rival["ratio"], 0.62, label=label, **looks[backend])
        words = f" {digits(rival['ratio'])}x: {duration(result['median_s'])} instead of "
        ax.text(rival["ratio"], place, words + duration(rival["median_s"]), va="center")
        names.append(f"{title(result)}\n{rival['name']} {rival['version']}")
        ratios.append(rival["ratio"])
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(1, 30 * max(ratios))
    ax.set_xlabel("how many times as long the other library takes (logarithmic)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.xaxis.set_major_formatter("{x:g}x")
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=2, frameon=False)
    return ax


def digest(results: Sequence[Result]) -> str:
    """Name the data behind a picture by a short hash, so that a stale one can be told."""
    lines = sorted(json.dumps(result, sort_keys=True) for result in results)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def drawn_from(path: Path) -> str:
    """Read the digest of the data that a picture of `save` was drawn from, empty without."""
    _, mark, rest = path.read_bytes().partition(b"Description\0gpudist ")
    return rest[:16].decode("ascii", "replace") if mark else ""
