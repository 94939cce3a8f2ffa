"""No file of gpudist needs one that needs it, be it imported at the head or in a function."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gpudist

PACKAGE = Path(gpudist.__file__).parent


def module_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def runs(tree):
    """Yield the nodes of a file but those under TYPE_CHECKING, which never run."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from runs(node)


def imported(path):
    """Return the modules of gpudist that a file imports; the package's face hands names on."""
    found = set()
    for node in runs(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & MODULES.keys() - {"gpudist", module_of(path)}


def test_no_file_imports_one_that_needs_it():
    needs = {module: imported(path) for module, path in MODULES.items()}
    assert "gpudist.intake" in needs["gpudist.distance"]
    assert "gpudist.dask" in needs["gpudist.distance"]  # which a function imports
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None
