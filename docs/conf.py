"""How Sphinx makes the site of this folder: ``sphinx-build -n -W docs docs/_build``.

Nothing is fetched, neither by the build nor by who reads the pages: no inventories of other
projects, no fonts, and formulas are MathML. The installed gpudist is described, whatever it was
built with.
"""

import shutil
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.docutils import SphinxDirective

import gpudist

HERE = Path(__file__).parent
KERNELS = HERE.parent / "kernels" / "ladders"

project = "gpudist"
author = "gpudist developers"
project_copyright = "gpudist developers"
version = release = gpudist.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
]
templates_path = ["_templates"]
# The last is where MyST-NB leaves what it read beside the pages.
exclude_patterns = ["_build", "**.ipynb_checkpoints", "jupyter_execute"]
nitpicky = True

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# The notebooks are shown as they are stored; .ci/run executes them.
nb_execution_mode = "off"

html_theme = "pydata_sphinx_theme"
html_title = "gpudist"
html_static_path = ["_static"]
html_css_files = ["gpudist.css"]
html_show_sourcelink = False
# These pages have none below them that a sidebar could name.
ALONE = ("accuracy", "cli", "kernels", "promises", "start", "troubleshooting")
html_sidebars = {name: [] for name in ALONE}
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

# ---------------------------------------------------------------- docstrings

autosummary_generate = True
autodoc_typehints = "none"
# gigabytes, of which the docstrings of `gpudist.torch` need nothing
autodoc_mock_imports = ["torch"]
# In docstrings `name` is a link where gpudist has something of that name, else a parameter.
default_role = "autolink"
# Methods stand on their class's page, by its template; attributes in its docstring.
numpydoc_show_class_members = False

nitpick_ignore_regex = [
    # Other projects' names: no inventories are fetched.
    ("py:.*", r"(networkx|numpy|pandas|scipy|sklearn|torch)\..*"),
    # Parameters of `patched_scipy` and `explain` that the classes of their results name.
    ("py:obj", "estimate|verbose"),
]


def show_formula(self, node):
    """Write a formula as MathML, which browsers show without any script."""
    block = isinstance(node, nodes.math_block)
    self.body.append(tex2mathml(node.astext(), as_block=block))
    raise nodes.SkipNode


def bring_notebooks(app):
    """Copy the notebooks into the gallery: Sphinx reads no pages from outside its folder."""
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, HERE / "gallery")


def leave_out(app, what, name, obj, skip, options):
    """Leave out the fields of named tuples: the class's docstring says what they are."""
    return skip or str(getattr(obj, "__doc__", "")).startswith("Alias for field number")


class Step(SphinxDirective):
    """Show a step of a ladder: the head of its file as text, and the rest as code."""

    required_arguments = 1

    def run(self):
        """Find the file of a kernel's id, which begins like it, and cut it after its head."""
        ladder, _, name = self.arguments[0].partition("/")
        name = name.lstrip("0123456789_") or "study"
        files = {path.stem.lstrip("0123456789_"): path for path in (KERNELS / ladder).glob("*.cu")}
        path = files[max((stem for stem in files if name.startswith(stem)), key=len)]
        self.env.note_dependency(str(path))
        head, _, code = path.read_text(encoding="utf-8").removeprefix("/*").partition("*/\n")
        words = [line.removeprefix(" *").removeprefix(" ") for line in head.splitlines()]
        text = nodes.container(classes=["step"])
        self.state.nested_parse(StringList(words[2:], str(path)), 0, text)
        listing = nodes.literal_block(code, code.strip(), language="cuda")
        folded = nodes.raw("", f"<details><summary>{path.name}</summary>", format="html")
        return [text, folded, listing, nodes.raw("", "</details>", format="html")]


def setup(app):
    """Register what is above."""
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula, None))
    app.add_directive("ladder-step", Step)
    app.connect("builder-inited", bring_notebooks)
    app.connect("autodoc-skip-member", leave_out)
    return {"parallel_read_safe": True}


html_math_renderer = "mathml"
