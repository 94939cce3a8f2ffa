"""What the pages for developers say is there, and what a new metric, kernel or operation needs."""

import re
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from conftest import DISTRIBUTIONS, RECORDS, SCIPY

import gpudist
from bench import adversary, cases, exact
from bench.suites import SUITES
from gpudist import _core, comparison, explanation, metrics, reference, work
from gpudist.measure import rivals, samples
from gpudist.registry import function_name

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / page
    for page in (
        "CONTRIBUTING.md", "csrc/README.md", "csrc/cpu/README.md", "csrc/py/README.md",
        "gpudist/README.md", "bench/README.md", "tests/README.md", "kernels/README.md",
        "docs/architecture.md", "docs/promises.md",
    )
]  # fmt: skip
in_the_checkout = pytest.mark.skipif(
    not (ROOT / "CONTRIBUTING.md").exists() or not (ROOT / "csrc").exists(),
    reason="the tests run apart from the source tree",
)

# What has no function of its own: parts of a study, and limits of the machine.
# What runs inside of functions with other names: the filter of neighbours stands behind four, and
# gradients behind gpudist.torch; many graphs and few edges are apsp's.
PARTS = {"perron_part", "ceiling", "neighbors", "gradient", "apsp_batch", "hops"}
OPERATIONS = sorted({row.op for row in gpudist.kernels()} - PARTS)
FUNCTIONS = sorted({function_name(op) for op in OPERATIONS} | {"pdist"})


def sources():
    for folder in ("csrc", "kernels", "gpudist", "bench", "tests"):
        for ending in ("*.[ch]", "*.def", "*.cu*", "*.py", "*.pyi"):
            yield from (ROOT / folder).rglob(ending)
    yield ROOT / "setup.py"


# ---------------------------------------------------------------- the pages

# Names in code that look like a file's: its ending tells. NAME, OP and NN stand for any.
FILE = re.compile(r"[\w./*?-]*\w\.(?:cuh|cu|c|h|def|pyi|py|md|toml)\b")
MADE_UP = re.compile(r"\b(?:OP|NN|NAME)|_OP\b|_smNN|[*?]")


def named_files(page):
    """Give the files that a page names: in code spans, and in its drawings."""
    text = page.read_text(encoding="utf-8")
    code = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    for name in FILE.findall("\n".join(code)):
        if not MADE_UP.search(name):
            yield name


def find(page, name):
    """Look for a file from the page's folder and from the root, and as the end of some path."""
    if any((folder / name).exists() for folder in (page.parent, ROOT)):
        return True
    return any(
        path.as_posix().endswith(f"/{name}")
        for folder in ("csrc", "kernels", "tests")
        for path in (ROOT / folder).rglob(Path(name).name)
    )


@in_the_checkout
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_names_files_that_are_there(page):
    names = sorted(set(named_files(page)))
    assert len(names) > 5
    missing = [name for name in names if not find(page, name)]
    assert missing == [], f"{page.name} names files that are not there: {missing}"


@in_the_checkout
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_names_folders_and_words_of_the_code_that_are_there(page):
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    folders = [span for span in spans if re.fullmatch(r"[\w.]+(/[\w.]+)*/", span)]
    near = page.parent, ROOT
    missing = {name for name in folders if not any((at / name).is_dir() for at in near)}
    assert missing <= {"build/"}, f"{page.name} names folders that are not there: {missing}"
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    words = {span for span in spans if re.fullmatch(r"(?:gd_|GD_|_(?!sm\d))\w*[A-Za-z0-9]", span)}
    unknown = sorted(word for word in words if not re.search(rf"\b{word}\b", code))
    assert unknown == [], f"{page.name} has names that no source has: {unknown}"


CODE = {".c", ".h", ".def", ".cu", ".cuh", ".py"}
FOLDERS = {path.parent for path in sources()} - {ROOT}
# One sees at a glance what a dozen files are.
LARGE = sorted(x for x in FOLDERS if sum(path.suffix in CODE for path in x.iterdir()) > 12)


def maps_of(folder):
    """Return the pages that may tell of a folder's files: its own, and that of the one above."""
    above = [folder.parent] if folder.parent != ROOT else []
    return [page for at in (folder, *above) if (page := at / "README.md").exists()]


@in_the_checkout
@pytest.mark.parametrize("folder", LARGE, ids=[str(x.relative_to(ROOT)) for x in LARGE])
def test_a_folder_of_many_files_has_a_page_that_names_each(folder):
    """The page names files, or patterns of theirs, in code spans or in its drawings."""
    files = sorted(path.name for path in folder.iterdir() if path.suffix in CODE)
    spans = [
        span
        for page in maps_of(folder)
        for span in re.findall(r"```.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
    ]
    named = re.findall(r"[\w./*?]+\.(?:cuh|cu|c|h|def|py)\b", "\n".join(spans))
    patterns = {Path(name).name for name in named}
    forgotten = [x for x in files if not any(fnmatch(x, pattern) for pattern in patterns)]
    assert forgotten == [], f"no page of {folder.name} says what these are: {forgotten}"


@in_the_checkout
def test_large_folders_are_found():
    assert {ROOT / "csrc/cpu", ROOT / "gpudist", ROOT / "tests/fuzz"} <= {*LARGE}


@in_the_checkout
def test_sources_cite_pages_that_are_there():
    for path in sources():
        for name in re.findall(r"\b(?:docs/[\w-]+|[A-Z]{4,})\.md\b", path.read_text("utf-8")):
            assert find(path, name), f"{path.relative_to(ROOT)} cites {name}, which is not there"


@in_the_checkout
def test_promises_name_their_tests_and_commands_are_there():
    text = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    sections = [part for part in text.split("\n## ")[1:] if "Tests: " not in part]
    assert sections == [], "each section of docs/promises.md ends with the tests that hold it"
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for suite in re.findall(r"python -m bench (\w+)", page):
        assert suite in SUITES, f"CONTRIBUTING.md names the suite {suite}, which is not there"
    for variable in set(re.findall(r"\bGPUDIST_\w+(?==)", page)):
        read = (ROOT / "setup.py").read_text() + (ROOT / "tests/conftest.py").read_text()
        assert variable in read, f"nobody reads {variable}"


# ---------------------------------------------------------------- a metric


@pytest.mark.parametrize("metric", RECORDS)
def test_a_metric_has_a_formula_in_numpy(metric):
    columns = RECORDS[metric].columns or 3
    given = {"VI": np.eye(columns)} if "VI" in RECORDS[metric].arguments else {}
    given |= {"V": np.ones(columns)} if "V" in RECORDS[metric].arguments else {}
    x = np.full((2, columns), 1 / columns)
    try:
        found = reference.cdist(x, x, metric, **given)
    except KeyError:
        pytest.fail(f"gpudist/reference.py has no formula of {metric}: see _OF_ROWS, _OF_COUNTS")
    assert found.shape == (2, 2)


@pytest.mark.parametrize("metric", RECORDS)
def test_a_metric_has_an_exact_rule_and_hard_data(metric):
    assert metric in exact._PAIRS, f"bench/exact.py has no rule for {metric}: add it to _PAIRS"
    variants = [variant for variant in adversary.variants() if variant.metric == metric]
    assert variants, f"bench/adversary.py never tries {metric}"
    needed = set(RECORDS[metric].arguments) & {"V", "VI"}
    for variant in variants:
        lacking = needed - variant.metric_args.keys()
        assert not lacking, f"bench/adversary.py: {metric} depends on all points without {lacking}"


@pytest.mark.parametrize("metric", RECORDS)
def test_it_is_known_whether_scipy_has_a_metric(metric):
    """Three lists say so: what callables are read like, what rivals know, what tests compare."""
    scipys = metric not in metrics.NOT_SCIPYS
    assert scipys == (metric in rivals.SCIPYS), (
        f"metrics.NOT_SCIPYS and rivals.SCIPYS disagree about {metric}"
    )
    assert scipys == (metric in SCIPY), f"conftest.SCIPY is wrong about {metric}"
    distributions = metric in adversary.DISTRIBUTIONS
    assert distributions == (metric in DISTRIBUTIONS), (
        f"bench/adversary.py and conftest.py disagree whether {metric} is one of distributions"
    )


@pytest.mark.parametrize("metric", RECORDS)
def test_a_metric_s_arithmetic_is_measured_or_its_table_says_why_not(metric):
    """Truths are counted 64 at a time; haversine and mahalanobis are bound by more than a pipe."""
    free = RECORDS[metric].domain == "truths" or metric in ("haversine", "mahalanobis")
    known = work.distance_pipe("cdist/cuda_sums", metric, "float32", p=3.0)[0] is not None
    assert known != free, (
        f"gpudist/work.py: what does {metric} cost? If that is not known, say why here"
    )


@in_the_checkout
def test_a_metric_s_end_is_reached_on_the_cpu():
    """Where csrc/cpu/cdist_sums.c does not name a metric, its sum itself is the result."""
    terms = (ROOT / "csrc/metric_terms.h").read_text(encoding="utf-8")
    _, numbers, truths = re.split(r"#define GD_DEFINE_FINISH(?:_TRUTHS)?\(", terms)
    host = (ROOT / "csrc/cpu/cdist_sums.c").read_text(encoding="utf-8")
    # Weighted dice has sums of its own; minkowski's end depends on the exponent.
    for macro, ends, other in (
        ("FINISH", numbers, "GD_MINKOWSKI"),
        ("FINISH_TRUTHS", truths, "GD_DICE"),
    ):
        named = set(re.findall(r"case (GD_\w+):", ends)) - {other}
        assert len(named) > 5
        lost = {name for name in named if f" {macro}({name})" not in host}
        assert lost == set(), f"csrc/cpu/cdist_sums.c has no line {macro} of {lost}"


@in_the_checkout
def test_a_metric_s_end_is_reached_on_a_gpu():
    """Of sums that are several metrics', kernels/cdist/sums/call.cuh has to tell them apart."""
    terms = (ROOT / "csrc/metric_terms.h").read_text(encoding="utf-8")
    numbers = re.split(r"#define GD_DEFINE_FINISH(?:_TRUTHS)?\(", terms)[1]
    alone = set(re.findall(r"X\(\w+, \d, (GD_\w+)\)", terms)) - {"GD_SEVERAL"}
    shared = set(re.findall(r"case (GD_\w+):", numbers)) - alone
    assert {"GD_EUCLIDEAN", "GD_HELLINGER"} <= shared
    ends = (ROOT / "kernels/cdist/sums/call.cuh").read_text(encoding="utf-8")
    lost = {name for name in shared if f"distance({name}, " not in ends}
    assert lost == set(), f"finish in kernels/cdist/sums/call.cuh has no end of {lost}"


# ---------------------------------------------------------------- a row


@pytest.mark.parametrize("kernel", gpudist.kernels(), ids=lambda kernel: kernel.id)
def test_a_row_says_what_it_is(kernel):
    for column in ("idea", "source", "dtypes", "needs", "ladder"):
        assert getattr(kernel, column), f"csrc/kernels.def: {kernel.id} has no {column}"
    assert "/" in kernel.id or kernel.teaching, f"{kernel.id} does not begin with its family"
    assert kernel.idea == kernel.idea.strip() and not kernel.idea.endswith("."), kernel.id
    panels = ("neighbors/cpu_filter", "neighbors/cuda_panels")
    of_points = kernel.op == "neighbors" and not kernel.id.startswith(panels)
    by_metric = kernel.op in ("cdist", "gradient") or of_points
    assert bool(kernel.metrics) == by_metric, f"{kernel.id} has metrics or lacks them"


@in_the_checkout
def test_a_launcher_has_a_file():
    """A symbol that nobody defines is a row that never runs; a build without CUDA cannot tell."""
    for row in gpudist.kernels():
        if row.backend == "cpu" and row.needs == "baseline":
            assert row.why_not is None, f"{row.id} cannot run: {row.why_not}"
    table = (ROOT / "csrc/kernels.def").read_text(encoding="utf-8")
    launchers = {name for name in re.findall(r"\bgd_cuda_\w+", table) if not name.endswith("_")}
    assert len(launchers) > 40
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "kernels").rglob("*.cu"))
    lost = sorted(name for name in launchers if not re.search(rf"\b{name}\(", code))
    assert lost == [], f"no file of kernels/ defines these launchers of csrc/kernels.def: {lost}"


# ---------------------------------------------------------------- an operation


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_in_every_place(function):
    places = {
        "gpudist.__all__": gpudist.__all__,
        "_EXPLAINERS of gpudist/explanation.py": explanation._EXPLAINERS,
        "_OPERANDS of gpudist/comparison.py": comparison._OPERANDS,
        "_RULES of gpudist/measure/samples.py": samples._RULES,
    }
    for place, names in places.items():
        assert function in names, f"{function} is missing in {place}"
    assert f"`{function}`" in gpudist.__doc__, f"the tour of help(gpudist) lacks {function}"
    timed = {case.op for case in vars(cases).values() if isinstance(getattr(case, "op", None), str)}
    assert function in timed, f"bench/cases.py has no case of {function}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_in_every_place(operation):
    assert operation in work.UNITS, f"UNITS of gpudist/work.py lacks {operation}"
    assert callable(getattr(_core, operation, None)), f"csrc/py/module.c has no {operation}"
    assert callable(getattr(reference, operation, None)), f"gpudist/reference.py lacks {operation}"
    backends = {row.backend for row in gpudist.kernels(operation) if not row.teaching}
    assert backends == {"cpu", "cuda"}, f"{operation} has no kernel of both backends"


@in_the_checkout
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_watched_attacked_and_refused_memory(function):
    operation = "closure" if function == "transitive_closure" else function
    for name, word in {
        "tests/sanitize.py": 'cuda_rows\\("{}"'.format(
            "cdist" if function == "pdist" else operation
        ),
        "tests/test_no_memory.py": function,
        "tests/test_overlap.py": function,
        "tests/fuzz/liars.py": function,
        "gpudist/_core.pyi": operation,
    }.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(rf"\b{word}(?!\w)", text), f"{name} has nothing of {function}"
