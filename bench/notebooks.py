"""Execute the notebooks: ``python -m bench.notebooks`` stores what they print and draw.

``--check`` stores nothing and fails where a notebook raises, where its stored outputs have another
structure than those of now (a cell's number of outputs, and each one's types), or where they are
such as nobody wants to read: errors, warnings, more than 300 kB. Times and pictures may differ.
Needs ``pip install ".[notebooks]"`` and gpudist where Python finds it.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
MOST_BYTES = 300_000

Notebook = dict[str, Any]


def structure(cell: Notebook) -> list[tuple[str, ...]]:
    """Describe a cell's outputs by their kinds, and by the types that each comes in."""
    found = []
    for output in cell["outputs"]:
        types = [output["name"]] if "name" in output else sorted(output.get("data", ()))
        found.append((output["output_type"], *types))
    return found


def faults(notebook: Notebook) -> list[str]:
    """Say what is wrong with stored outputs, one sentence a fault."""
    found = []
    for cell in _code(notebook):
        for output in cell["outputs"]:
            text = "".join(output.get("text", "")) + str(output.get("data", {}).get("text/plain"))
            if output["output_type"] == "error":
                found.append(f"cell {cell['id']} raises {output.get('ename')}")
            elif output.get("name") == "stderr" or "Warning" in text:
                found.append(f"cell {cell['id']} warns: {text[:200]}")
            if any(path in text for path in ("/home/", "/tmp/", "/usr/", "site-packages")):
                found.append(f"cell {cell['id']} names a path of one machine: {text[:200]}")
        if cell["execution_count"] is None:
            found.append(f"cell {cell['id']} was not executed")
    return found


def differences(stored: Notebook, executed: Notebook) -> list[str]:
    """Compare the structure of a notebook's outputs as they are stored and as they are now."""
    return [
        f"cell {old['id']} has stored {structure(old)}, and now gives {structure(new)}"
        for old, new in zip(_code(stored), _code(executed), strict=True)
        if structure(old) != structure(new)
    ]


def _code(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(path: Path) -> Any:
    """Run a notebook in its folder.

    The result has nothing but outputs that differs from run to run: no times of execution, no
    version of Python.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    client.execute()
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
            for output in cell.outputs:
                if "image/png" in output.get("data", ()):
                    output.data["image/png"] = _smaller(output.data["image/png"])
    return notebook


def _smaller(png: str) -> str:
    """Draw a picture with 128 colours, which halves its bytes or better."""
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    made = io.BytesIO()
    picture.quantize(128, dither=Image.Dither.NONE).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def _joined(outputs: Iterable[Any]) -> list[Any]:
    """Join what was printed in several pieces: how it is cut is a matter of time."""
    found: list[Any] = []
    for output in outputs:
        if found and "name" in output and output["name"] == found[-1].get("name"):
            found[-1]["text"] += output["text"]
        else:
            found.append(output)
    return found


def check(path: Path, executed: Any) -> list[str]:
    """Hold a stored notebook against what executing it gave, one sentence a fault."""
    import nbformat

    stored = nbformat.read(path, as_version=4)
    found = faults(stored) + differences(stored, executed)
    found += [f"executed now: {fault}" for fault in faults(executed)]
    size = path.stat().st_size
    return found + ([f"it has {size} bytes, {MOST_BYTES} are enough"] if size > MOST_BYTES else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute notebooks, and store or check their outputs; status 1 if there is a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.notebooks", description="Execute the notebooks and store outputs."
    )
    parser.add_argument("names", nargs="*", help="how names of notebooks begin: 01 09")
    parser.add_argument("--check", action="store_true", help="store nothing, fail if stale")
    options = parser.parse_args(arguments)
    import nbformat

    paths = [
        path
        for path in sorted(FOLDER.glob("*.ipynb"))
        if not options.names or path.name.startswith(tuple(options.names))
    ]
    bad = 0
    for path in paths:
        begin = time.perf_counter()
        executed = execute(path)
        found = faults(executed)
        if options.check:
            found = check(path, executed)
        elif not found:
            nbformat.write(executed, path)
        bad += bool(found)
        print(f"{path.name}: {time.perf_counter() - begin:.0f} s", flush=True)
        for fault in found:
            print(f"    {fault}", file=sys.stderr)
    return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
