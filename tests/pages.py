"""The pages of docs/ that people write, and the code in them."""

import importlib.util
import re

from made_lines import ROOT

# The libraries that an example may be left out for.
OPTIONAL = "dask", "jax", "networkx", "pandas", "scipy", "sklearn", "torch", "xarray"


def docs_pages():
    """Give the pages that are no notebook, nor made by Sphinx."""
    folder = ROOT / "docs"
    made = {"_build", "generated", "_templates"}
    pages = sorted(folder.rglob("*.md"))
    return [page for page in pages if not made.intersection(page.relative_to(folder).parts)]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def run_blocks(page, names):
    """Run a page's examples in order in one namespace; name the libraries some did without."""
    missing = set()
    for block in python_blocks(page):
        needed = [name for name in OPTIONAL if re.search(rf"^(from|import) {name}\b", block, re.M)]
        absent = [name for name in needed if importlib.util.find_spec(name) is None]
        missing.update(absent)
        if absent:
            continue
        try:
            exec(compile(block, str(page), "exec"), names)
        except NameError:
            if not missing:  # else it goes on from an example that was left out
                raise
    return missing
