"""The command line: ``python -m gpudist``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import gpudist

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``python -m gpudist``; the process's own by default.

    Returns
    -------
    int
        The exit status: 0 done, 1 failed, 2 misused.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gpudist",
        description="Pairwise distances and all-pairs shortest paths on CPU and GPU.",
        epilog="Each command has its own --help.",
    )
    parser.add_argument("--version", action="version", version=gpudist.__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_info(commands)
    _add_bench(commands)
    _add_ladder(commands)
    _add_run(commands)
    _add_demo(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except gpudist.DeviceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output, head for instance, has seen enough. What is still buffered
        # would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _device(text: str) -> str:
    """Check the argument of --device."""
    kind, colon, index = text.partition(":")
    if text == "cpu" or (kind == "cuda" and ((index.isascii() and index.isdigit()) or not colon)):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not cpu, cuda or cuda:1")


def _count(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make the type of an argument that counts something."""
    bounds = f">= {least}" if most is None else f"from {least} to {most}"

    def count(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return number

    return count


def _kilometres(text: str) -> float:
    """Check the argument of --range-km."""
    try:
        km = float(text)
    except ValueError:
        km = math.nan
    if not 0 < km < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of kilometres")
    return km


# ------------------------------------------------------------------ info


def _add_info(commands: _Commands) -> None:
    parser = commands.add_parser(
        "info",
        help="what can run here, and why not",
        description="Print versions, the processor, the GPUs or why there is none, and every "
        "kernel with the reason why it cannot run here, if so.",
    )
    parser.set_defaults(run=_info)


def _info(_options: argparse.Namespace) -> int:
    from gpudist import _core
    from gpudist._tables import Column, Table, show
    from gpudist.bench import records

    host = _core.host()
    facts = Table([Column(""), Column("", wrap=True)])
    libraries = records.versions()
    libraries.setdefault("gpudist", gpudist.__version__)
    facts.add("gpudist", f"{libraries.pop('gpudist')}, revision {records.revision()}")
    facts.add("libraries", ", ".join(f"{name} {number}" for name, number in libraries.items()))
    facts.add("CPU", f"{host['processor']}, {host['isa']}, {host['threads']} threads")
    reason = gpudist.cuda.why_not()
    if reason is not None:
        facts.add("CUDA", f"cannot be used: {reason}")
    else:
        facts.add("CUDA", f"{gpudist.cuda.versions()[1]}, driver {records.driver_version()}")
        for card in gpudist.cuda.devices():
            facts.add(
                f"cuda:{card.index}",
                f"{card.name}, compute capability {card.compute_capability}, "
                f"{card.memory_bytes / 2**30:.0f} GiB, {card.multiprocessors} multiprocessors",
            )
    show(facts)

    kernels = Table(
        [
            Column("kernel"),
            Column("runs here", wrap=True),
            Column("types"),
            Column("metrics", wrap=True),
            Column("idea", wrap=True),
        ],
        title="Kernels, in the order in which auto prefers them",
    )
    for kernel in gpudist.kernels():
        kernels.add(
            kernel.id,
            "yes" if kernel.why_not is None else f"no: {kernel.why_not}",
            " ".join(kernel.dtypes),
            " ".join(kernel.metrics),
            kernel.idea,
        )
    show(kernels)
    return 0


# ------------------------------------------------------------------ bench


def _add_bench(commands: _Commands) -> None:
    from gpudist.bench.suites import SUITES

    suites = "\n".join(f"  {name:10}{suite.summary}" for name, suite in SUITES.items())
    parser = commands.add_parser(
        "bench",
        help="measure gpudist beside the machine's limits and other libraries",
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
    _add_measuring(parser)
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
    parser.set_defaults(run=_bench)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add what every command that measures takes."""
    parser.add_argument(
        "--device",
        type=_device,
        help="cpu, cuda or cuda:1 (default: the GPU where one can be used)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="append one JSON line a result to FILE"
    )
    parser.add_argument(
        "--repeats",
        type=_count(1, 1000),
        default=7,
        metavar="N",
        help="samples of each call, 1 to 1000 (default: %(default)s; a slow call is sampled less)",
    )
    parser.add_argument(
        "--revision",
        metavar="TEXT",
        help="the revision to record, where neither git nor the installation knows it",
    )


def _bench(options: argparse.Namespace) -> int:
    from gpudist.bench import run_suite

    try:
        well = run_suite(
            options.suite,
            device=options.device,
            json_path=options.json,
            repeats=options.repeats,
            source=options.revision,
            compare=options.compare,
            roofline=options.roofline,
        )
    except (OSError, ValueError) as error:
        print(f"python -m gpudist bench: {error}", file=sys.stderr)
        return 2
    return 0 if well else 1


# ------------------------------------------------------------------ run


def _add_run(commands: _Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a script with SciPy's distances and Floyd-Warshall by gpudist",
        description="Run a Python script, unchanged, with scipy.spatial.distance.cdist and pdist, "
        "scipy.sparse.csgraph.floyd_warshall and shortest_path(method='FW') answered by gpudist. "
        "Options of the command stand before the script, the script's own behind it; but a "
        "--verbose right behind it is the command's too, unless --verbose or --no-verbose was "
        "given before.",
    )
    parser.add_argument(
        "--verbose",
        action=argparse.BooleanOptionalAction,
        help="print to standard error what was routed and the time saved, estimated by running "
        "SciPy on a few rows",
    )
    parser.add_argument(
        "--device",
        type=_device,
        help="cpu, cuda or cuda:1 (default: the GPU where it is worth the way)",
    )
    parser.add_argument("script", help="the script's file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script gets")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from gpudist.patch import run_script

    verbose, arguments = options.verbose, options.arguments
    if verbose is None and arguments[:1] == ["--verbose"]:
        verbose, arguments = True, arguments[1:]
    if not Path(options.script).is_file():
        print(f"python -m gpudist run: there is no file {options.script}", file=sys.stderr)
        return 2
    run_script(options.script, arguments, device=options.device, verbose=bool(verbose))
    return 0


# ------------------------------------------------------------------ ladder


def _add_ladder(commands: _Commands) -> None:
    from gpudist.ladder import STUDIES

    width = max(map(len, STUDIES)) + 2
    ladders = "\n".join(f"  {name:{width}}{study.summary}" for name, study in STUDIES.items())
    parser = commands.add_parser(
        "ladder",
        help="climb published kernel studies, step by step",
        description="Run every step of published kernel studies at their sizes, each held against\n"
        "float64 before it is timed, beside the machine's limit, the author's own figures,\n"
        "the kernel that auto takes, and other libraries.\n\n"
        f"ladders:\n{ladders}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", type=_ladder_name, metavar="LADDER", help="which to climb"
    )
    parser.add_argument("--all", action="store_true", dest="every", help="climb every ladder")
    parser.add_argument(
        "--size",
        type=_count(1),
        nargs="+",
        default=(),
        metavar="N",
        help="the size to run instead of the study's: "
        + "; ".join(f"{name}: {' '.join(study.numbers)}" for name, study in STUDIES.items()),
    )
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="go through the launch parameters and sizes that the study varies as well",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a chart (needs Matplotlib)")
    _add_measuring(parser)
    parser.set_defaults(run=_ladder, parser=parser)


def _ladder_name(text: str) -> str:
    """Check the name of a ladder."""
    from gpudist.ladder import STUDIES

    if text not in STUDIES:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(STUDIES)}")
    return text


def _ladder(options: argparse.Namespace) -> int:
    from gpudist import ladder

    if bool(options.names) == options.every:
        options.parser.error("name ladders, or take --all")
    names = tuple(ladder.STUDIES) if options.every else options.names
    try:
        ladder.check_sizes(names, options.size)
    except ValueError as error:
        options.parser.error(str(error))
    all_right = ladder.climb(
        names,
        device=options.device,
        sizes=options.size,
        sweep=options.sweep,
        json_path=options.json,
        plot_path=options.plot,
        repeats=options.repeats,
        source=options.revision,
    )
    return 0 if all_right else 1


# ------------------------------------------------------------------ demo


def _add_demo(commands: _Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="every shortest route between the world's airports, on a map",
        description="Compute the great-circle distances between the world's airports, keep the "
        "hops that an aircraft of a given range can fly, and find every shortest route. Prints "
        "the time of each stage beside SciPy's, a route to follow, the longest one and the "
        'airports that cannot be reached; draws a map. Needs pip install ".[demo]".',
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="every",
        help="take every airport (about 28 000), not only those with an IATA code (8 000)",
    )
    parser.add_argument(
        "--limit",
        type=_count(2),
        metavar="N",
        help="take only N of the airports, spread over the world",
    )
    parser.add_argument(
        "--range-km",
        type=_kilometres,
        default=1000.0,
        metavar="KM",
        help="the longest hop in kilometres (default: %(default)g)",
    )
    parser.add_argument(
        "--from",
        dest="origin",
        default="ANC",
        metavar="CODE",
        help="where the printed route starts, IATA or ICAO (default: %(default)s)",
    )
    parser.add_argument(
        "--to",
        dest="destination",
        default="USH",
        metavar="CODE",
        help="where it ends (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("gpudist-demo.png"),
        metavar="FILE",
        help="where the map is saved (default: %(default)s)",
    )
    parser.add_argument(
        "--no-plot", action="store_true", help="draw no map; matplotlib is not needed then"
    )
    parser.add_argument(
        "--device",
        type=_device,
        help="cpu, cuda or cuda:1 (default: the GPU where one can be used)",
    )
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    from gpudist import demo

    try:
        demo.run(
            every=options.every,
            limit=options.limit,
            range_km=options.range_km,
            origin=options.origin,
            destination=options.destination,
            output=None if options.no_plot else options.output,
            device=options.device,
        )
    except demo.DemoError as error:
        print(f"python -m gpudist demo: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
