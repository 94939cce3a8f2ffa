"""Recorded results: reading JSON lines, and telling which of them measured the same case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def case_key(result: Mapping[str, Any]) -> tuple[object, ...]:
    """Say what was measured on what and whose arrays: equal for results that can be compared."""
    ladder = result["op"] == "ladder"
    return (
        result["device_name"],
        result["op"],
        result.get("ceiling"),
        *result.get("shape", ()),
        result["dtype"],
        result.get("metric"),
        result.get("arguments", ""),
        result.get("arrays"),
        # A ladder's lines are of its steps, each with its launch parameters.
        *((result.get(name) for name in ("ladder", "role", "kernel")) if ladder else ()),
        *sorted(result.get("options", {}).items()),
    )


def newest(results: Iterable[dict[str, Any]]) -> dict[tuple[object, ...], dict[str, Any]]:
    """Keep the newest of several results for one case, by `case_key`."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for result in results:
        key = case_key(result)
        if key not in found or found[key]["date"] <= result["date"]:
            found[key] = result
    return found


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
