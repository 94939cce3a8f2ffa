"""The command line: ``python -m bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import gpudist
from bench.run import run_suite
from bench.suites import SUITES
from gpudist._arguments import add_measuring


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a suite; give the exit status: 0 done, 1 failed or slower than recorded, 2 misused."""
    suites = "\n".join(f"  {name:13}{suite.summary}" for name, suite in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure what the machine can do at most, then time gpudist and every\n"
        "installed library that does the same work, warm and in the same run.\n\n"
        f"suites:\n{suites}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suite",
        nargs="?",
        choices=tuple(SUITES),
        default="quick",
        metavar="SUITE",
        help="what to measure (default: %(default)s)",
    )
    add_measuring(parser)
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="hold the results against the JSON lines in FILE; status 1 if one became slower, "
        "beyond the spread of both",
    )
    parser.add_argument(
        "--roofline",
        type=Path,
        metavar="PNG",
        help="save a picture of the results under the machine's limits",
    )
    options = parser.parse_args(arguments)
    try:
        well = run_suite(**vars(options))
    except gpudist.DeviceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
