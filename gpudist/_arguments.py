"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path


def device(text: str) -> str:
    """Check the argument of --device."""
    kind, colon, index = text.partition(":")
    if text == "cpu" or (kind == "cuda" and ((index.isascii() and index.isdigit()) or not colon)):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not cpu, cuda or cuda:1")


def count(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make the type of an argument that counts something."""
    bounds = f">= {least}" if most is None else f"from {least} to {most}"

    def number_of(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return number

    return number_of


def new_file(text: str) -> Path:
    """Check the name of a file that is to be written, before the work whose result it gets."""
    path = Path(text)
    if not text or path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no file in a folder that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add what every command that measures takes."""
    parser.add_argument(
        "--device",
        type=device,
        help="cpu, cuda or cuda:1 (default: the GPU where one can be used)",
    )
    parser.add_argument(
        "--json", type=new_file, metavar="FILE", help="append one JSON line a result to FILE"
    )
    parser.add_argument(
        "--repeats",
        type=count(1, 1000),
        default=7,
        metavar="N",
        help="samples of each call, 1 to 1000 (default: %(default)s; a slow call is sampled less)",
    )
    parser.add_argument(
        "--revision",
        metavar="TEXT",
        help="the revision to record, where neither git nor the installation knows it",
    )
