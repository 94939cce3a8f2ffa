"""The site: its code runs, and what there is has a place on it."""

import inspect
import re

import pytest
from conftest import RECORDS
from made_lines import ROOT
from pages import OPTIONAL, docs_pages, python_blocks, run_blocks

import gpudist
from gpudist import metrics
from gpudist.__main__ import main

DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="the tests run apart from the source tree"
)
PAGES = docs_pages()
WITH_CODE = [page for page in PAGES if python_blocks(page)]


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def names_of(pages):
    return [page.relative_to(DOCS).as_posix() for page in pages]


# ---------------------------------------------------------------- code


def settings_of_networkx():
    return repr(pytest.importorskip("networkx").config)


# PyTorch's own exporter takes ways that PyTorch itself calls outdated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("page", WITH_CODE, ids=names_of(WITH_CODE))
def test_a_page_s_code_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # one example writes a file
    before = settings_of_networkx()
    missing = run_blocks(page, {})
    assert settings_of_networkx() == before, "the page leaves NetworkX with other settings"
    if missing:
        pytest.skip(f"all but the examples with {', '.join(sorted(missing))} ran")


def test_the_guide_and_the_tables_for_newcomers_have_code():
    names = names_of(WITH_CODE)
    assert {"start.md", "index.md", "troubleshooting.md"} <= set(names)
    guide = set(names_of(DOCS.glob("guide/*.md"))) - {"guide/index.md", "guide/metrics.md"}
    assert guide <= set(names), f"pages of the guide without code: {guide - set(names)}"


def test_examples_of_the_guide_show_what_they_say(tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    names = {}
    run_blocks(DOCS / "guide/paths.md", names)
    assert names["paths"].distance("Bern", "Spiez") == 43
    assert names["measures"].diameter(names["round_trip"]) == 41
    assert sorted(names["cycle"]) == [0, 1, 2]
    run_blocks(DOCS / "guide/scipy-code.md", names)
    assert names["routed"].calls == {"cdist": 1}


# ---------------------------------------------------------------- what there is


@pytest.mark.parametrize("metric", RECORDS)
def test_a_metric_has_an_entry(metric):
    """A formula that people read, the package's own, and the range of values."""
    page = "docs/guide/metrics.md"
    found = re.search(rf"^### {metric}\n(.*?)(?=^##)", text_of("guide/metrics.md"), re.M | re.S)
    assert found, f"{page} has no section '### {metric}'"
    section = found[1]
    assert re.search(r"^\$\$.+?\$\$$", section, re.M | re.S), f"{page}: {metric} has no formula"
    formula = RECORDS[metric].formula
    assert f"\n`{formula}`\n" in section, f"{page}: {metric} has not the line `{formula}`"
    assert re.search(r"^(From|Any number)\b", section, re.M), (
        f"{page}: {metric} does not say what values it has: From 0 to ..."
    )


def test_the_page_of_metrics_has_none_too_many():
    sections = re.findall(r"^### (.+)$", text_of("guide/metrics.md"), re.M)
    assert sorted(sections) == sorted(RECORDS)
    assert f"All {len(RECORDS)} metrics" in text_of("guide/metrics.md")


def test_pages_say_how_many_metrics_there_are_and_which_scipy_lacks():
    files = (ROOT / "README.md", *PAGES)
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    counts = [
        (name, int(count))
        for name, text in (texts | {"help(gpudist)": gpudist.__doc__}).items()
        for count in re.findall(r"\b(\d+)\s+metrics\b", text)
    ]
    assert len(counts) > 5
    assert [one for one in counts if one[1] != len(RECORDS)] == []
    for page in ("promises.md", "from/scipy.md"):
        lost = {name for name in metrics.NOT_SCIPYS if not re.search(rf"\b{name}\b", text_of(page))}
        assert lost == set(), f"docs/{page} does not name {lost}, which SciPy does not have"


def public_names():
    for name in gpudist.__all__:
        value = getattr(gpudist, name)
        if inspect.ismodule(value):
            names = getattr(value, "__all__", None) or [
                part
                for part, found in vars(value).items()
                if getattr(found, "__module__", None) == value.__name__ and part[0] != "_"
            ]
            yield from (f"{name}.{part}" for part in names)
        else:
            yield name


@pytest.mark.parametrize("name", sorted(public_names()))
def test_a_public_name_is_in_the_reference(name):
    listed = rf"^(   |\.\. data:: ){re.escape(name)}$"
    assert re.search(listed, text_of("api/index.rst"), re.M), f"docs/api/index.rst lacks {name}"


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_names_on_a_page_are_there(page):
    for name in re.findall(r"`gpudist((?:\.[a-zA-Z_]+)+)", page.read_text(encoding="utf-8")):
        found = gpudist
        for part in name.split(".")[1:]:
            try:
                found = getattr(found, part, None)
            except ModuleNotFoundError as error:
                assert error.name in OPTIONAL  # of what the name is in
                break
            assert found is not None, f"there is no gpudist{name}"


def helped(capsys, *words):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def test_commands_and_their_options_are_on_their_page(capsys):
    text = text_of("cli.md")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    listed = helped(capsys).partition("commands:")[2]
    commands = [name for name in re.findall(r"^    (\w+) ", listed, re.M) if name != "COMMAND"]
    assert len(commands) >= 4
    for command in commands:
        assert command in sections, f"docs/cli.md has no section of {command}"
        usage = helped(capsys, command).partition("\n\n")[0]
        options = set(re.findall(r"--[a-z-]+|(?<=\[)-[a-gi-z]\b", usage))
        for option in sorted(options):
            assert f"`{option}" in sections[command], f"docs/cli.md: {command} lacks {option}"


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {gpudist.__version__}\n" in text
    assert "doi" not in text  # there is none
