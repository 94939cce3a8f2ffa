"""What was measured, on what, with what: one JSON line a result."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any, TextIO

import gpudist
from gpudist import _core

# Distributions whose versions a result depends on.
_LIBRARIES = ("gpudist", "numpy", "scipy", "torch", "cupy", "cuvs", "scikit-learn", "mpmath")

_NAMES_WITH_CUDA = {
    "cupy": ("cupy-cuda13x", "cupy-cuda12x"),
    "cuvs": ("cuvs-cu13", "cuvs-cu12"),
}

# The version of the lines' layout, raised when a field changes its meaning.
SCHEMA = 1


def revision() -> str:
    """Name the source that is running.

    Returns
    -------
    str
        The git revision of the checkout that the package was imported from, followed by
        ``-dirty`` where tracked files differ from it; else the one that the installer recorded;
        else ``unknown``.
    """
    root = Path(__file__).resolve().parents[2]
    if (root / "csrc" / "kernels.def").is_file():
        described = _git(root, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
        if described:
            return described
    try:
        recorded = importlib.metadata.distribution("gpudist").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        recorded = None
    commit = json.loads(recorded or "{}").get("vcs_info", {}).get("commit_id")
    return str(commit or "unknown")


def _git(root: Path, *arguments: str) -> str:
    """Ask git; an empty string where it has no answer."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Give the versions of Python and of the installed libraries that results depend on.

    Returns
    -------
    dict
        Versions by name; what is not installed is left out.
    """
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        version = library_version(name)
        if version is not None:
            found[name] = version
    return found


def library_version(distribution: str) -> str | None:
    """Give the version of an installed distribution.

    Parameters
    ----------
    distribution : str
        Its name on the package index. The names of CuPy and cuVS carry their CUDA version there
        (``cupy-cuda13x``, ``cuvs-cu13``), so any of those answers to ``cupy`` and ``cuvs``.

    Returns
    -------
    str or None
        None where it is not installed.
    """
    for name in (distribution, *_NAMES_WITH_CUDA.get(distribution, ())):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def driver_version() -> str:
    """Give the version of the NVIDIA driver.

    Returns
    -------
    str
        Like ``580.95.05``; where the system does not tell, the newest CUDA that it supports.
    """
    try:
        first = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        first = ""
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", first)
    return found[0] if found else f"for CUDA {gpudist.cuda.versions()[0]}"


def provenance(device: str, *, source: str | None = None) -> dict[str, object]:
    """Describe where and with what a result was measured.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda:0``.
    source : str, optional
        The revision to record; asked of git and of the installation by default.

    Returns
    -------
    dict
        The fields that every JSON line of a run shares.
    """
    host = _core.host()
    fields: dict[str, object] = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "revision": revision() if source is None else source,
        "device": device,
        "device_name": host["processor"],
        "driver": None,
        "cuda": None,
        "isa": host["isa"],
        "threads": host["threads"],
        "versions": versions(),
    }
    if device != "cpu":
        card = gpudist.cuda.devices()[int(device.partition(":")[2] or 0)]
        fields |= {
            "device_name": card.name,
            "driver": driver_version(),
            "cuda": gpudist.cuda.versions()[1],
            "compute_capability": card.compute_capability,
        }
    return fields


def write_line(record: dict[str, Any], stream: TextIO) -> None:
    """Append one result to a file of JSON lines.

    Parameters
    ----------
    record : dict
        The result; no value may be NaN or infinite, since JSON has neither.
    stream : text stream
        The open file.
    """
    stream.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
    stream.flush()
