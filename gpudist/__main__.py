# PYTHON_ARGCOMPLETE_OK: argcomplete's global completion looks for these words.
"""The command line: ``python -m gpudist``."""

from __future__ import annotations

import argparse
import math
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import gpudist
from gpudist._arguments import add_measuring, count, device, new_file

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
        description="Distances, neighbours, shortest paths and eigenvalues, on CPU and GPU.",
        epilog="Each command has its own --help.",
    )
    parser.add_argument("--version", action="version", version=gpudist.__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_info(commands)
    _add_ladder(commands)
    _add_run(commands)
    _add_demo(commands)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could stand here
        import argcomplete

        argcomplete.autocomplete(parser)
    try:
        try:
            options = parser.parse_args(arguments)
            return int(options.run(options))
        finally:
            if sys.stdout is not None and not sys.stdout.closed:  # by the caller, or a script
                sys.stdout.flush()  # while a reader who has gone is no crash
    except gpudist.DeviceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output, head for instance, has seen enough. What is still buffered
        # would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _kilometres(text: str) -> float:
    """Check the argument of --range-km."""
    try:
        km = float(text)
    except ValueError:
        km = math.nan
    if not 0 < km < 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a positive number of kilometres, below 1e9"
        )
    return km


# ------------------------------------------------------------------ info


def _add_info(commands: _Commands) -> None:
    parser = commands.add_parser(
        "info",
        help="what can run here, and why not",
        description="Print versions, the processor, the GPUs or why there is none, and how many "
        "kernels of each family can run here.",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="every",
        help="print every kernel as well: what it takes, its idea, and why it cannot run here, "
        "if so",
    )
    parser.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> int:
    from gpudist import _code, _core
    from gpudist.measure import records, wording

    host = _core.host()
    libraries = records.versions()
    libraries.setdefault("gpudist", gpudist.__version__)
    itself = [libraries.pop("gpudist"), wording.revision(records.revision())]
    _fact("gpudist", ", ".join(filter(None, itself)))
    _fact("libraries", ", ".join(f"{name} {number}" for name, number in libraries.items()))
    _fact("CPU", f"{host['processor']}, {host['isa']}, {wording.threads(host['threads'])}")
    reason = gpudist.cuda.why_not()
    if reason is not None:
        _fact("CUDA", f"cannot be used: {reason}")
    else:
        copiers = wording.threads(host["copiers"])
        versions = f"{gpudist.cuda.versions()[1]}, driver {records.driver_version()}"
        _fact("CUDA", f"{versions}, {copiers} for each GPU's copies of host arrays")
        for card in gpudist.cuda.devices():
            _fact(
                f"cuda:{card.index}",
                f"{card.name}, compute capability {card.compute_capability}, "
                f"{card.memory_bytes / 2**30:.0f} GiB, {card.multiprocessors} multiprocessors",
            )
    for about, line in _code.lines():
        _fact(about, line)
    print()
    _show_families()
    print("\nEach by itself: python -m gpudist info --all" if not options.every else "")
    if options.every:
        _show_kernels()
    return 0


_WIDTH = 100


def _fact(name: str, value: str) -> None:
    """Print a fact behind its name, in lines that a terminal of 100 columns holds."""
    print(_lines(f"{name:17}{value}", 17))


def _lines(text: str, indent: int) -> str:
    """Break text between words, never within one; what follows the first line is indented."""
    return textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _show_families() -> None:
    """Print how many kernels of each family run here, and the usual reason why others do not."""
    from gpudist._tables import Column, Table

    families: dict[str, list[gpudist.Kernel]] = {}
    for kernel in gpudist.kernels():
        families.setdefault(kernel.family, []).append(kernel)
    table = Table([Column("kernels of"), Column("on the CPU"), Column("on CUDA"), Column("")])
    reasons: list[str] = []
    for family, kernels in families.items():
        cells = []
        for backend in ("cpu", "cuda"):
            states = [kernel.why_not for kernel in kernels if kernel.backend == backend]
            cells.append(f"{states.count(None)} of {len(states)}" if states else "")
        against = dict.fromkeys(k.why_not for k in kernels if k.why_not is not None)
        reasons += [why for why in against if why not in reasons]
        table.add(family, *cells, " ".join(f"[{reasons.index(why) + 1}]" for why in against))
    print(table.plain())
    for number, why in enumerate(reasons, 1):
        print(_lines(f"[{number}] {why}", 4))


def _show_kernels() -> None:
    """Print every kernel with all that the table knows of it."""
    print("Kernels, in the order in which auto prefers them\n")
    for kernel in gpudist.kernels():
        print(kernel.id + (": runs here" if kernel.why_not is None else f": no, {kernel.why_not}"))
        print(_lines(f"    {', '.join(kernel.dtypes)}; {' '.join(kernel.metrics)}".rstrip("; "), 4))
        print(_lines(f"    {kernel.idea}", 4))


# ------------------------------------------------------------------ run


def _add_run(commands: _Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a script or module with SciPy's distances and Floyd-Warshall by gpudist",
        usage="%(prog)s [-h] [--verbose | --no-verbose] [--device DEVICE] [-m] script ...",
        description="Run a Python script, unchanged, with scipy.spatial.distance.cdist and pdist, "
        "scipy.sparse.csgraph.floyd_warshall and shortest_path(method='FW') answered by gpudist. "
        "With -m it is a module, as for python -m: run -m pytest measures a package's own tests. "
        "Options of the command stand before the script, the script's own behind it; but a "
        "--verbose right behind a script is the command's too, unless --verbose or --no-verbose "
        "was given before.",
    )
    parser.add_argument(
        "--verbose",
        action=argparse.BooleanOptionalAction,
        help="print to standard error what was routed and the time saved, estimated by running "
        "SciPy on a few rows",
    )
    parser.add_argument(
        "--device",
        type=device,
        help="cpu, cuda or cuda:1 (default: the GPU where it is worth the way)",
    )
    parser.add_argument("-m", action="store_true", dest="module", help="run a module, by its name")
    parser.add_argument("script", help="the script's file, or the module's name")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="what the script gets"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from gpudist.patch import run_script

    verbose, arguments = options.verbose, options.arguments
    if not options.module:
        if verbose is None and arguments[:1] == ["--verbose"]:
            verbose, arguments = True, arguments[1:]
        if not Path(options.script).is_file():
            print(f"python -m gpudist run: there is no file {options.script}", file=sys.stderr)
            return 2
    return run_script(
        options.script,
        arguments,
        module=options.module,
        device=options.device,
        verbose=bool(verbose),
    )


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
    names = parser.add_argument(
        "names", nargs="*", type=_ladder_name, metavar="LADDER", help="which to climb"
    )
    names.completer = lambda **_: tuple(STUDIES)  # type: ignore[attr-defined]
    parser.add_argument("--all", action="store_true", dest="every", help="climb every ladder")
    parser.add_argument(
        "--size",
        type=count(1),
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
    parser.add_argument(
        "--plot", type=new_file, metavar="FILE", help="draw a chart (needs Matplotlib)"
    )
    add_measuring(parser)
    parser.set_defaults(run=_ladder, parser=parser)


def _ladder_name(text: str) -> str:
    """Check the name of a ladder."""
    from gpudist.ladder import STUDIES

    if text not in STUDIES:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(STUDIES)}")
    return text


def _ladder(options: argparse.Namespace) -> int:
    from gpudist import ladder
    from gpudist.measure import chart

    if bool(options.names) == options.every:
        options.parser.error("name ladders, or take --all")
    names = tuple(ladder.STUDIES) if options.every else options.names
    try:
        ladder.check_sizes(names, options.size)
        if options.plot is not None:
            chart.check_picture(options.plot)
    except (ValueError, ImportError) as error:
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
        type=count(2),
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
        type=device,
        help="cpu, cuda or cuda:1 (default: the GPU where one can be used)",
    )
    parser.add_argument(
        "--dask",
        action="store_true",
        help="compute distances and routes on two local workers, and say what went where; needs "
        'pip install ".[dask]"',
    )
    parser.set_defaults(run=_demo, parser=parser)


def _demo(options: argparse.Namespace) -> int:
    from gpudist import demo

    if not options.no_plot:
        try:  # not as its type: the default is of interest here alone
            new_file(str(options.output))
        except argparse.ArgumentTypeError as error:
            options.parser.error(f"argument --output: {error}")
    try:
        demo.run(
            every=options.every,
            limit=options.limit,
            range_km=options.range_km,
            origin=options.origin,
            destination=options.destination,
            output=None if options.no_plot else options.output,
            device=options.device,
            dask=options.dask,
        )
    except demo.DemoError as error:
        print(f"python -m gpudist demo: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
