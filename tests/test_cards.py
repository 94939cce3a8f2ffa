"""What the chooser takes on cards that are not here, and how code gets to run on them.

The chooser is made to believe in a card by `_core.pretend`, which no variable of the environment
and no public function reaches.
"""

import itertools
import re
from pathlib import Path

import pytest

import gpudist
from gpudist import _code, _core
from gpudist.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "75;80;86;90;100f;120f+PTX"

# Capability, multiprocessors, KB of shared memory of a block and of a multiprocessor, and how many
# float32 operations take the time of one in float64.
CARDS = {
    "T4": (75, 40, 64, 64, 32),
    "A100": (80, 108, 163, 164, 2),
    "A10G": (86, 80, 99, 100, 64),
    "RTX 3090": (86, 82, 99, 100, 64),
    "L4": (89, 58, 99, 100, 64),
    "RTX 4090": (89, 128, 99, 100, 64),
    "H100": (90, 132, 227, 228, 2),
    "H200": (90, 132, 227, 228, 2),
    "B200": (100, 148, 227, 228, 2),
    "RTX 5090": (120, 170, 99, 100, 64),
}


@pytest.fixture
def pretend():
    """Give a function that puts a card in the place of what there is, until the test's end."""

    def card(name, targets=RELEASE, **changes):
        capability, multiprocessors, block, whole, ratio = CARDS[name]
        facts = {
            "capability": capability,
            "multiprocessors": multiprocessors,
            "shared_block": block << 10,
            "shared_multiprocessor": whole << 10,
            "double_ratio": ratio,
        }
        _core.pretend(targets, **facts | changes)

    yield card
    _core.pretend(None)


def taken(op, dtype, metric, n, cols, device="cuda", **more):
    """Return what runs, without the operation, and without the instruction set of a CPU."""
    kernel = _core.choose(op, dtype, metric, n, cols, device=device, **more)[0]
    return re.sub(r"_(avx512|avx2|baseline)$", "", kernel.partition("/")[2])


def row(text):
    """Spread words over the cards: "tile*6 direct" is six times tile, then direct."""
    words = [word.partition("*") for word in text.split()]
    return [word for word, _, times in words for _ in range(int(times or 1))]


# ---------------------------------------------------------------- every decision for every card

FLOAT32, FLOAT64 = ("cdist", "float32"), ("cdist", "float64")
# The columns are T4, A100, A10G, RTX 3090, L4, RTX 4090, H100, H200, B200, RTX 5090.
ON_THE_DEVICE = {
    (*FLOAT32, "euclidean", 4096, 3): "narrow*10",
    (*FLOAT32, "euclidean", 4096, 16): "short*10",
    (*FLOAT32, "euclidean", 500, 64): "tile*10",
    (*FLOAT32, "euclidean", 1500, 64): "tensor_mma tile*5 tensor_once*2 direct tile",
    (*FLOAT32, "euclidean", 4096, 32): "tensor_mma*4 tile*2 tensor_once*2 direct tile",
    (*FLOAT32, "euclidean", 4096, 64): "tensor_mma*4 tile*2 tensor*2 tensor_mma*2",
    (*FLOAT32, "euclidean", 4096, 128): "tensor_mma*6 tensor*2 tensor_mma*2",
    (*FLOAT32, "cosine", 4096, 64): "tensor_mma*4 tile*2 tensor*2 tensor_mma*2",
    (*FLOAT32, "cityblock", 4096, 64): "tile*6 direct*3 tile",
    (*FLOAT32, "chebyshev", 4096, 64): "tile*6 direct*3 tile",
    (*FLOAT32, "braycurtis", 4096, 64): "sums*6 direct_sums*2 sums*2",
    (*FLOAT32, "canberra", 4096, 64): "sums*10",
    (*FLOAT32, "haversine", 4096, 2): "haversine*10",
    (*FLOAT32, "mahalanobis", 500, 64): "mahalanobis*10",
    (*FLOAT32, "mahalanobis", 4096, 64): ("tensor_mma*4 mahalanobis*2 tensor*2 tensor_mma*2"),
    (*FLOAT32, "hellinger", 500, 64): "sums*10",
    (*FLOAT32, "hellinger", 4096, 64): "tensor_mma*6 tensor*2 tensor_mma*2",
    (*FLOAT32, "jaccard", 4096, 64): "bits*10",
    (*FLOAT64, "euclidean", 4096, 3): "narrow*10",
    (*FLOAT64, "euclidean", 500, 64): "tile_f64*10",
    (*FLOAT64, "euclidean", 2048, 64): "tile_f64 tensor_f64 tile_f64*4 tensor_f64*3 tile_f64",
    (*FLOAT64, "cosine", 2048, 64): "tile tensor_f64 tile*4 tensor_f64*3 tile",
    (*FLOAT64, "cityblock", 2048, 64): "tile_f64*10",
    (*FLOAT64, "canberra", 2048, 64): "sums*10",
    (*FLOAT64, "hellinger", 2048, 64): "sums tensor_f64 sums*4 tensor_f64*3 sums",
    (*FLOAT64, "mahalanobis", 2048, 64): (
        "mahalanobis tensor_f64 mahalanobis*4 tensor_f64*3 mahalanobis"
    ),
    ("apsp", "float32", None, 1000, 0): "cuda_blocked*10",
    ("apsp", "float64", None, 1000, 0): "cuda_blocked*10",
    ("closure", "bool", None, 4000, 0): "cuda_bits*10",
    ("minplus", "float32", None, 2000, 2000): "cuda_tile*10",
    ("minplus", "int32", None, 2000, 2000): "cuda_tile*10",
    ("perron", "float64", None, 4000, 4000): "cuda_rows*6 cuda_resident*2 cuda_rows*2",
}
# From the host's memory: the bus and the rate of float64 decide as well.
FROM_THE_HOST = {
    (*FLOAT32, "euclidean", 4096, 3): "cpu_tile cuda_narrow*9",
    (*FLOAT32, "euclidean", 4096, 128): "cuda_tensor_mma*6 cuda_tensor*2 cuda_tensor_mma*2",
    (*FLOAT32, "euclidean", 64, 64): "cpu_tile*10",
    (*FLOAT64, "euclidean", 4096, 3): "cpu_tile*6 cuda_narrow*4",
    (*FLOAT64, "cityblock", 2048, 64): "cuda_tile_f64*10",
    ("apsp", "float32", None, 1000, 0): "cuda_blocked*10",
    ("apsp", "float64", None, 1000, 0): "cpu_blocked cuda_blocked*9",
    ("minplus", "float64", None, 2000, 2000): "cpu_tile cuda_tile*9",
}


@pytest.mark.parametrize("case", ON_THE_DEVICE, ids=str)
def test_what_is_taken_for_arrays_on_the_card(case, pretend):
    expected = [
        word if word.startswith("cuda_") else f"cuda_{word}" for word in row(ON_THE_DEVICE[case])
    ]
    found = []
    for card in CARDS:
        pretend(card)
        # A has so many rows that no other takes the place of what the table has first.
        operands = "bool" if case[2] == "jaccard" else None
        found.append(taken(*case, rows=10**6, operands=operands))
    assert found == expected


def test_neighbours_of_host_arrays_go_where_it_is_worth_the_way(pretend):
    pretend("H200")
    for metric, n, d, k, found in (
        ("euclidean", 10**6, 128, 10, "cuda_product"),
        ("euclidean", 10**6, 3, 10, "cuda_boxes"),
        ("euclidean", 10**6, 3, 200, "cpu_boxes"),
        ("euclidean", 5000, 3, 10, "cpu_boxes"),
        ("cityblock", 10**6, 128, 10, "cuda_bytes"),
        ("inner_product", 10**5, 64, 10, "cuda_panels"),
        ("euclidean", 500, 3, 10, "cpu_filter"),
    ):
        search = "neighbors", "float32", metric, n, d
        assert taken(*search, device=None, neighbors=k, rows=n) == found, (metric, n, d, k)


def test_neighbours_by_products_are_for_one_generation_and_some_shapes(pretend):
    search = ("neighbors", "float32", "euclidean")
    by_products = ["cuda_panels"] * 6 + ["cuda_product"] * 2 + ["cuda_panels"] * 2
    found = []
    for card in CARDS:
        pretend(card)
        found.append(taken(*search, 20000, 64, neighbors=10, rows=1000))
    assert found == by_products
    pretend("H200")
    for n, d, k, rows in (
        (16383, 64, 10, 1000),
        (20000, 1025, 10, 1000),
        (20000, 64, 1025, 1000),
        (20000, 64, 10, 300),
        (10**6, 64, 10, 63),
        (50000, 9, 1000, 1000),
    ):
        assert taken(*search, n, d, neighbors=k, rows=rows) == "cuda_panels"
    for dtype in ("float32", "float64"):
        for metric in ("euclidean", "sqeuclidean", "cosine"):
            search = "neighbors", dtype, metric
            assert taken(*search, 16384, 1024, neighbors=1024, rows=512) == "cuda_product"
            assert taken(*search, 50000, 9, neighbors=1000, rows=5000) == "cuda_product"
            assert taken(*search, 10**6, 64, neighbors=1, rows=64) == "cuda_product"
            assert taken(*search, 16384, 1024, bounded=True, rows=512) == "cuda_product"
            assert taken(*search, 20000, 64, bounded=True, rows=300) == "cuda_panels"
            assert taken(*search, 16384, 64, rows=512) == "cuda_product"  # counts
    by_bytes = "neighbors", "float32", "cityblock"
    for n, d, k, rows, found in (
        (10**6, 128, 1000, 64, "cuda_bytes"),
        (10**6, 128, 1001, 64, "cuda_panels"),
        (10**7, 128, 1025, 64, "cuda_panels"),
        (10**6, 160, 10, 10**4, "cuda_bytes"),
        (10**6, 161, 10, 10**4, "cuda_panels"),
        (10**6, 9, 1, 10**4, "cuda_bytes"),
        (10**6, 9, 1, 64, "cuda_panels"),
        (16384, 128, 10, 2000, "cuda_bytes"),
        (16384, 128, 10, 1000, "cuda_panels"),
        (16384, 101, 10, 10**4, "cuda_panels"),
    ):
        assert taken(*by_bytes, n, d, neighbors=k, rows=rows) == found, (n, d, k, rows)
    assert taken(*by_bytes, 16384, 102, rows=2100) == "cuda_bytes"  # counts
    for dtype, metric in (("float64", "cityblock"), ("float32", "chebyshev")):
        assert taken("neighbors", dtype, metric, 20000, 64, neighbors=9) == "cuda_panels"


def test_neighbours_of_truths_are_counted_on_one_generation(pretend):
    search = ("neighbors", "float64", "jaccard")
    some = {"operands": "bool", "neighbors": 10, "rows": 10_000}
    found = []
    for card in CARDS:
        pretend(card)
        found.append(taken(*search, 40_000, 1024, **some))
    assert found == ["cuda_panels"] * 6 + ["cuda_truths"] * 2 + ["cuda_panels"] * 2
    pretend("H200")
    for n, d, k, rows in (
        (32_767, 64, 10, 10_000),
        (10**6, 2049, 10, 10_000),
        (10**6, 64, 1025, 10_000),
        (40_000, 64, 10, 1676),
        (10**6, 64, 10, 66),
        (131_071, 64, 129, 10_000),
        (131_072, 64, 129, 2047),
    ):
        more = some | {"neighbors": k, "rows": rows}
        assert taken(*search, n, d, **more) == "cuda_panels"
    for dtype in ("float32", "float64"):
        for metric in ("hamming", "dice", "kulczynski1", "yule"):
            search = "neighbors", dtype, metric
            many = some | {"neighbors": 1024, "rows": 2048}
            assert taken(*search, 131_072, 2048, **many) == "cuda_truths"
            assert taken(*search, 32_768, 1, **some | {"bounded": True}) == "cuda_truths"
            assert taken(*search, 32_768, 64, **some | {"neighbors": 128}) == "cuda_truths"
            assert taken(*search, 10**6, 64, **some | {"rows": 67}) == "cuda_truths"
    # Numbers are truths to jaccard, but not to these.
    for metric, taken_of_numbers in (
        ("jaccard", "truths"),
        ("hamming", "panels"),
        ("dice", "panels"),
    ):
        search = "neighbors", "float32", metric
        more = some | {"operands": "float32"}
        assert taken(*search, 40_000, 64, **more) == f"cuda_{taken_of_numbers}"
    weighted = some | {"weighted": True}
    assert taken("neighbors", "float32", "jaccard", 40_000, 64, **weighted) == "cuda_panels"


def test_neighbours_by_boxes_are_for_few_columns_and_many_pairs(pretend):
    for card in CARDS:
        pretend(card)
        for dtype in ("float32", "float64"):
            for metric, d in (("euclidean", 3), ("chebyshev", 1), ("cityblock", 8)):
                search = "neighbors", dtype, metric
                for k in (10, 0):  # 0: all within a radius
                    assert taken(*search, 20000, d, neighbors=k, rows=10**5) == "cuda_boxes"
                for n, columns, k, rows in (
                    (8191, d, 10, 10**6),
                    (20000, 9 if metric == "chebyshev" else d, 129, 10**5),
                    (20000, d, 10, 3000),
                    (10**7, d, 10, 127),
                ):
                    found = taken(*search, n, columns, neighbors=k, rows=rows)
                    assert found == "cuda_panels", (card, search, n, columns, k, rows)


def gradients_of_large(pretend, metric):
    """What the cards take for large gradients in float32; before 8.0 PyTorch's operations do."""
    found = []
    for card in CARDS:
        if CARDS[card][0] >= 80:
            pretend(card)
            found.append(taken("gradient", "float32", metric, 16384, 128))
    return found


def test_gradients_by_products_are_for_one_generation_and_long_sums(pretend):
    found = gradients_of_large(pretend, "euclidean")
    assert found == ["cuda_tile"] * 5 + ["cuda_product"] * 2 + ["cuda_tile"] * 2
    pretend("H200")
    sums = "gradient", "float32", "euclidean"
    for asked, more in (
        ((*sums, 3071, 128), {}),
        ((*sums, 16384, 16), {}),
        ((*sums, 16384, 257), {}),
        ((*sums, 16384, 128), {"condensed": True}),
        (("gradient", "float64", "euclidean", 16384, 128), {}),
        (("gradient", "float32", "cityblock", 16384, 128), {}),
    ):
        assert taken(*asked, **more) != "cuda_product", asked
    for metric, n, d in (("euclidean", 3072, 17), ("sqeuclidean", 3072, 256)):
        assert taken("gradient", "float32", metric, n, d) == "cuda_product"


def test_gradients_by_products_of_signs_are_for_one_generation_and_some_rows(pretend):
    found = gradients_of_large(pretend, "cityblock")
    assert found == ["cuda_tile"] * 5 + ["cuda_signs"] * 2 + ["cuda_tile"] * 2
    pretend("H200")
    sums = "gradient", "float32", "cityblock"
    for n, d in ((127, 128), (16384, 16), (16384, 513)):
        assert taken(*sums, n, d) != "cuda_signs", (n, d)
    for n, d in ((128, 17), (16384, 512)):
        assert taken(*sums, n, d) == "cuda_signs", (n, d)
    assert taken(*sums, 16384, 128, condensed=True) == "cuda_signs"
    assert taken("gradient", "float64", "cityblock", 16384, 128) == "cuda_tile"


@pytest.mark.parametrize("case", FROM_THE_HOST, ids=str)
def test_what_is_taken_for_arrays_of_the_host(case, pretend):
    found = []
    for card in CARDS:
        pretend(card)
        found.append(taken(*case, device=None, rows=10**6))
    assert found == row(FROM_THE_HOST[case])


@pytest.mark.parametrize(
    ("case", "rows", "expected"),
    [
        ((*FLOAT32, "chebyshev", 2000, 64), 200, "tile*10"),
        ((*FLOAT32, "chebyshev", 2000, 64), 3000, "tile*6 tile*3 tile"),
        ((*FLOAT32, "chebyshev", 2000, 64), 20000, "tile*6 direct*3 tile"),
        ((*FLOAT32, "chebyshev", 2000, 64), 5, "few*10"),
        # Products have bits of their own, so nothing takes their place.
        ((*FLOAT32, "euclidean", 4096, 64), 5, "tensor_mma*4 few*2 tensor*2 tensor_mma*2"),
        ((*FLOAT64, "cityblock", 1000, 64), 200, "tile_f64 few tile_f64*3 few*5"),
        ((*FLOAT32, "euclidean", 2000, 10), 200, "tile*10"),
    ],
)
def test_what_stands_in_goes_with_the_number_of_multiprocessors(case, rows, expected, pretend):
    found = []
    for card in CARDS:
        pretend(card)
        found.append(taken(*case, rows=rows).removeprefix("cuda_"))
    assert found == row(expected)


def test_weights_are_for_products_where_there_are_any(pretend):
    """Rows are scaled before; where differences are summed the sums take the weights."""
    expected = {
        ("float32", "euclidean"): "tensor_mma*6 tensor*2 tensor_mma*2",
        ("float32", "sqeuclidean"): "tensor_mma*6 tensor*2 tensor_mma*2",
        ("float32", "seuclidean"): "tensor_mma*6 tensor*2 tensor_mma*2",
        ("float32", "cosine"): "tensor_mma*4 tile*2 tensor*2 tensor_mma*2",
        ("float32", "cityblock"): "sums*6 direct_sums*2 sums*2",
        ("float64", "euclidean"): "sums tensor_f64 sums*4 tensor_f64*3 sums",
    }
    for (dtype, metric), words in expected.items():
        found = []
        for card in CARDS:
            pretend(card)
            found.append(taken("cdist", dtype, metric, 4096, 64, weighted=True, rows=10**6))
        assert found == [f"cuda_{word}" for word in row(words)], (dtype, metric)


def test_products_take_mahalanobis_by_a_factor_alone(pretend):
    """Without one each element is a quadratic form, which another row computes."""
    pretend("H200")
    for dtype, name in (("float32", "cuda_tensor"), ("float64", "cuda_tensor_f64")):
        asked = ("cdist", dtype, "mahalanobis", 4096, 64)
        assert taken(*asked) == name
        kernel, *_, rejected = _core.choose(*asked, device="cuda", factored=False)
        assert kernel == "cdist/cuda_mahalanobis"
        assert "positive definite VI" in rejected[f"cdist/{name}"]


@pytest.mark.parametrize("card", CARDS)
def test_float64_products_are_for_cards_with_tensor_cores_for_them(card, pretend):
    """Where tensor cores do not multiply float64, products take longer than differences."""
    pretend(card)
    has = _core.generation(CARDS[card][0])["fp64_tensor"]
    assert has == (card in ("A100", "H100", "H200", "B200"))
    shapes = itertools.product((512, 4096, 100_000), (12, 64, 1000, 4096), ("euclidean", "cosine"))
    kernels = {taken(*FLOAT64, metric, n, d, rows=10**6) for n, d, metric in shapes}
    assert ("cuda_tensor_f64" in kernels) == has
    *_, rejected = _core.choose(*FLOAT64, "euclidean", 4096, 64, device="cuda")
    if not has:
        why = rejected["cdist/cuda_tensor_f64"]
        assert "do not multiply float64" in why or "it needs compute capability 8.0 or newer" in why


@pytest.mark.parametrize("card", CARDS)
def test_products_by_warps_are_for_rows_that_take_longer_than_their_results(card, pretend):
    """Below that, differences are done before memory has taken the results."""
    pretend(card)
    capability = CARDS[card][0]
    least = _core.generation(capability)["products"]
    name = "cuda_tensor" if capability == 90 else "cuda_tensor_mma"
    for metric in ("euclidean", "sqeuclidean", "cosine", "inner_product"):
        assert taken(*FLOAT32, metric, 10**5, least, rows=10**6) == name
    assert taken(*FLOAT32, "euclidean", 10**5, least - 1, rows=10**6) not in (
        "cuda_tensor",
        "cuda_tensor_mma",
    )
    if least > 21:
        *_, rejected = _core.choose(*FLOAT32, "euclidean", 10**5, least - 1, device="cuda")
        words = f"with less than {least} dimensions compute capability"
        assert words in rejected["cdist/cuda_tensor_mma"]


@pytest.mark.parametrize("card", CARDS)
def test_products_by_warps_run_on_every_card_for_those_who_ask(card, pretend):
    pretend(card)
    asked = {"kernel": "cdist/cuda_tensor_mma", "device": "cuda"}
    assert _core.choose(*FLOAT32, "euclidean", 100, 21, **asked)[0] == asked["kernel"]


def test_who_asks_for_float64_products_by_name_gets_them(pretend):
    pretend("L4")
    asked = {"kernel": "cdist/cuda_tensor_f64", "device": "cuda"}
    assert _core.choose(*FLOAT64, "euclidean", 4096, 64, **asked)[0] == asked["kernel"]
    pretend("T4")
    with pytest.raises(ValueError, match=r"compute capability 8\.0 or newer, cuda:0 has 7\.5"):
        _core.choose(*FLOAT64, "euclidean", 4096, 64, **asked)


@pytest.mark.parametrize("ptx", ["75+PTX", "80+PTX", "90+PTX"])
def test_ptx_runs_what_its_own_generation_runs(ptx, pretend):
    """What a driver makes of it for a newer card lacks whatever older cards could not do."""
    own = int(ptx[:2])
    rows = {row.id: row for row in gpudist.kernels() if row.backend == "cuda"}
    pretend("H200", ptx)
    *_, rejected = _core.choose(*FLOAT64, "euclidean", 4096, 64, device="cuda")
    assert ("cdist/cuda_tensor_f64" in rejected) == (own < 80)
    for name, row in rows.items():
        asked = {"kernel": name, "device": "cuda"}
        if row.op != "cdist" or "9.0" not in row.generations or "float64" not in row.dtypes:
            continue
        if _core.generation(own)["name"] in row.generations:
            continue
        with pytest.raises(ValueError, match=rf"is PTX of {own / 10}; build it with .*=90"):
            _core.choose(*FLOAT64, "euclidean", 100, 24, **asked)


def test_predecessors_of_float64_paths_need_shared_memory(pretend):
    """A block takes 72 KB, which a T4 does not have: words, instead of a launch that fails."""
    paths = ("apsp", "float64", None, 4000, 0)
    for card in CARDS:
        pretend(card)
        if card != "T4":
            assert taken(*paths, predecessors=True) == "cuda_blocked"
            continue
        assert taken(*paths) == "cuda_blocked"
        with pytest.raises(ValueError, match="72 KB of shared memory, cuda:0 has 64 KB"):
            taken(*paths, predecessors=True)
        assert taken(*paths, device=None, predecessors=True) == "cpu_blocked"


# ---------------------------------------------------------------- generations


def test_16_bit_sums_and_minima_are_instructions_from_9_0_on():
    """Before they are eight instructions for two updates, of which int32 takes four."""
    for capability, *_ in CARDS.values():
        assert _core.generation(capability)["halfwords"] == (capability >= 90)


def test_both_operations_with_16_bit_forms_ask_for_them():
    kernels = ROOT / "kernels"
    if not kernels.exists():
        pytest.skip("the tests run apart from the source tree")
    for name, form in (("apsp/blocked.cu", "run_paths16<T>("), ("minplus/tile.cu", "PlusNarrow")):
        text = (kernels / name).read_text(encoding="utf-8")
        assert form in text and "gd_has_halfwords(" in text


@pytest.mark.parametrize(
    ("capability", "name"),
    [(70, None), (75, "7.5"), (80, "8.0"), (86, "8.6"), (87, "8.6"), (89, "8.9"), (90, "9.0"),
     (100, "10.0"), (103, "10.3"), (110, "10.3"), (120, "12.0"), (121, "12.0"), (130, "12.0")],
)  # fmt: skip
def test_every_card_has_a_generation(capability, name):
    found = _core.generation(capability)
    assert (found and found["name"]) == name


def test_rows_name_their_generations():
    rows = {kernel.id: kernel for kernel in gpudist.kernels()}
    every = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
    for kernel in rows.values():
        assert set(kernel.generations) <= set(every)
        assert bool(kernel.generations) == (kernel.backend == "cuda")
    assert rows["cdist/cuda_tile"].generations == every
    assert rows["cdist/cuda_tile"].needs == "compute capability 7.5 or newer"
    assert rows["cdist/cuda_direct"].generations == every
    assert rows["cdist/cuda_tensor_f64"].generations == every[1:]
    assert rows["cdist/cuda_tensor_mma"].generations == every
    assert rows["cdist/cuda_tensor"].generations == ("9.0",)
    assert rows["cdist/cuda_tensor"].needs == "compute capability 9.0 and no other"
    assert rows["ceiling/cuda_tensor64"].needs == "compute capability 8.0, 9.0 or 10.0"


def test_a_row_that_no_card_of_the_machine_can_run_says_so(pretend):
    pretend("A100")
    why = {kernel.id: kernel.why_not for kernel in gpudist.kernels()}
    assert why["cdist/cuda_tile"] is None
    words = "it needs compute capability 9.0 and no other, cuda:0 has 8.0"
    assert why["cdist/cuda_tensor"] == words


# ---------------------------------------------------------------- what a build has for a card


@pytest.mark.parametrize(
    ("targets", "capability", "code"),
    [
        ("90", 90, "machine code"),
        ("90", 86, "none"),
        ("90", 100, "none"),
        ("80;90+PTX", 80, "machine code"),
        ("80;90+PTX", 86, "machine code"),  # of an older card of the same major version
        ("80;90+PTX", 75, "none"),
        ("80;90+PTX", 120, "ptx"),
        ("86;90", 80, "none"),
        ("80+PTX", 90, "ptx"),
        ("90a", 90, "machine code"),
        ("100f;120f+PTX", 103, "machine code"),
        ("100f;120f+PTX", 110, "none"),
        ("100f;120f+PTX", 121, "machine code"),
        ("100f;120f+PTX", 130, "ptx"),
        ("100a", 103, "none"),
        ("", 90, "none"),
        *[(RELEASE, capability, "machine code") for capability, *_ in CARDS.values()],
    ],
)
def test_how_code_gets_to_run_on_a_card(targets, capability, code):
    assert _core.code_for(targets, capability) == code


def test_a_card_without_code_is_told_how_to_get_some(pretend):
    pretend("A10G", targets="90")
    words = "this build has code for compute capability 90, cuda:0 has 8.6; build it with"
    with pytest.raises(ValueError, match=f"{words} GPUDIST_CUDA_ARCHS=86"):
        taken(*FLOAT32, "cityblock", 4096, 64)
    assert taken(*FLOAT32, "cityblock", 4096, 64, device=None) == "cpu_tile"


@pytest.mark.parametrize(
    ("targets", "capability", "driver", "words"),
    [
        (RELEASE, "9.0", "13.0", "machine code, generation 9.0"),
        (RELEASE, "8.7", "13.0", "machine code, generation 8.6"),
        (RELEASE, "13.0", "13.3", "PTX, which the driver compiles when a kernel is first called"),
        (RELEASE, "13.0", "13.10", "PTX, which the driver compiles"),
        (RELEASE, "13.0", "13.0", "the driver supports CUDA 13.0 and compiles no PTX of CUDA 13.3"),
        ("89", "9.0", "13.3", "none: build gpudist again with GPUDIST_CUDA_ARCHS=90"),
        (RELEASE, "7.0", "13.3", "is older than all that gpudist supports"),
    ],
)
def test_info_says_how_code_gets_to_run(targets, capability, driver, words):
    assert words in _code.how_it_runs(targets, capability, driver, "13.3")


def test_info_says_what_the_build_is_for(monkeypatch, capsys):
    card = gpudist.cuda.Device(
        index=0, name="A Card", compute_capability="8.6", memory_bytes=8 << 30, l2_bytes=4 << 20,
        multiprocessors=80,
    )  # fmt: skip
    state = {"why_not": None, "driver": 13000, "runtime": 13030, "devices": []}
    monkeypatch.setattr(_core, "cuda", lambda: state | {"targets": "80;100f+PTX"})
    monkeypatch.setattr(gpudist.cuda, "devices", lambda: (card,))
    assert _code.lines() == [
        ("GPU code", "made by CUDA 13.3 for compute capability 8.0, 10.0f, and PTX for newer ones"),
        ("code for cuda:0", "machine code, generation 8.6"),
    ]
    assert main(["info"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "code for cuda:0 machine code, generation 8.6" in shown
    monkeypatch.setattr(_core, "cuda", lambda: state | {"targets": ""})
    assert _code.lines() == []


# ---------------------------------------------------------------- the pretence


def test_nobody_pretends_by_accident():
    public = {name for name in dir(gpudist) if "pretend" in name.lower()}
    assert not public
    for path in Path(gpudist.__file__).parent.rglob("*.py"):
        assert "pretend(" not in path.read_text(encoding="utf-8"), path


def test_a_pretence_ends(pretend):
    before = [kernel.why_not for kernel in gpudist.kernels()]
    pretend("T4")
    assert [kernel.why_not for kernel in gpudist.kernels()] != before
    _core.pretend(None)
    assert [kernel.why_not for kernel in gpudist.kernels()] == before


@pytest.mark.skipif(gpudist.cuda.is_available(), reason="CUDA can be used here")
def test_what_a_pretence_chose_does_not_run_without_a_device(pretend):
    pretend("L4")
    with pytest.raises(gpudist.DeviceError):
        gpudist.cdist([[0.0, 1.0]], [[1.0, 1.0]], device="cuda")
