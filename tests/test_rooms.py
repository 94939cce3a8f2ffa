"""kernels/ has rooms, and each thing one place there: what its folders promise, read from them."""

import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent.parent / "kernels"
FILES = sorted(KERNELS.rglob("*.cu*"))
NAMES = [str(path.relative_to(KERNELS)) for path in FILES]
pytestmark = pytest.mark.skipif(not FILES, reason="the tests run apart from the source tree")

# A file of a room includes files of that room and of these.
ANYBODY = {"arch", "common"}
MAY_INCLUDE = {
    "arch": set(),
    "common": {"arch"},
    "semiring": ANYBODY,
    "cdist": ANYBODY,
    "apsp": ANYBODY | {"semiring"},
    "minplus": ANYBODY | {"semiring"},
    "closure": ANYBODY,
    "gradient": ANYBODY,
    "hops": ANYBODY,
    "neighbors": ANYBODY,
    "perron": ANYBODY,
    "ceiling": ANYBODY | {"semiring"},
    "ladders": ANYBODY | {"perron"},  # the study's bounds are those of the production kernel
}


def code(path):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)


def those_with(pattern):
    return {name for name, path in zip(NAMES, FILES, strict=True) if re.search(pattern, code(path))}


@pytest.mark.parametrize("name", NAMES)
def test_a_room_includes_none_but_those_below_it(name):
    room = name.partition("/")[0]
    for included in re.findall(r'#include "([^"]+)"', (KERNELS / name).read_text()):
        if (KERNELS / included).exists():
            assert included.partition("/")[0] in MAY_INCLUDE[room] | {room}, included


def test_every_folder_is_a_room():
    assert {path.name for path in KERNELS.iterdir() if path.is_dir()} == MAY_INCLUDE.keys()
    assert {name.partition("/")[0] for name in NAMES} == MAY_INCLUDE.keys()


def test_instructions_that_are_not_c_stand_in_arch_alone():
    assert {name.partition("/")[0] for name in those_with(r"\basm\b")} == {"arch"}


def test_an_instruction_stands_in_one_place():
    places = {}
    for name, path in zip(NAMES, FILES, strict=True):
        for block in re.findall(r"\basm\b(?: volatile)?\((.*?)\)\s*;", code(path), re.DOTALL):
            if text := "".join(re.findall(r'"([^"\\]*)', block)):
                places.setdefault(text, set()).add(name)
    assert len(places) > 30
    assert {text: names for text, names in places.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernelEx", "cudaFuncAttributeMaxDynamicSharedMemorySize", "<<<"]
)
def test_kernels_are_launched_in_one_place(name):
    """What a kernel may have of shared memory is one figure for all threads: see there."""
    assert those_with(re.escape(name)) == ({"common/launch.cuh"} if name != "<<<" else set())


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".cuh")])
def test_a_header_is_included_once_and_says_what_it_is(name):
    text = (KERNELS / name).read_text()
    guard = "GPUDIST_" + re.sub(r"\W", "_", name).upper()
    assert text.startswith(f"/* {Path(name).name}: ")
    assert f"#ifndef {guard}\n#define {guard}\n" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_comment_names_files_that_are_there(name):
    there = [str(path) for path in (*FILES, *KERNELS.parent.glob("csrc/**/*.[chd]*"))]
    for comment in re.findall(r"/\*.*?\*/|//[^\n]*", (KERNELS / name).read_text(), re.DOTALL):
        for named in re.findall(r"(?<![\w./])[\w/]+\.(?:cuh?|[ch]|def)\b", comment):
            assert any(path.endswith(f"/{named}") for path in there), named


PAGES = sorted(KERNELS.rglob("*.md"))


def test_a_room_of_many_files_has_a_page():
    rooms = [KERNELS / room for room in MAY_INCLUDE]
    many = [room for room in rooms if len(list(room.rglob("*.cu*"))) > 12]
    assert len(many) >= 4
    assert [room.name for room in [KERNELS, *many] if not (room / "README.md").exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(KERNELS)) for page in PAGES])
def test_a_page_names_files_that_are_there(page):
    known = {path.name for path in FILES}
    named = re.findall(r"[\w/]+\.cuh?\b", page.read_text())
    assert named
    for name in named:
        assert Path(name).name in known or name.startswith("NN_"), name
