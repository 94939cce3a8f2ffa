"""The compiled core. Private; a test holds this file against the module."""

from typing import Any, TypedDict

class _Host(TypedDict):
    isa: str
    threads: int
    copiers: int
    processor: str

class _Cuda(TypedDict):
    why_not: str | None
    driver: int
    runtime: int
    targets: str
    devices: list[dict[str, Any]]

class _Metric(TypedDict):
    name: str
    aliases: tuple[str, ...]
    formula: str
    reduces_to: str
    arguments: tuple[str, ...]
    domain: str
    columns: int
    similarity: bool

class DeviceError(RuntimeError): ...

def cdist(
    a: Any,
    b: Any,
    out: Any,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def cdist_arrays(
    a: Any,
    b: Any,
    metric: Any,
    out: Any = None,
    device: Any = None,
    dtype: Any = None,
    arguments: Any = None,
) -> Any: ...
def pdist_arrays(
    x: Any,
    metric: Any,
    out: Any = None,
    device: Any = None,
    dtype: Any = None,
    arguments: Any = None,
) -> Any: ...
def nearest_arrays(
    a: Any, b: Any, k: Any, metric: Any, device: Any, dtype: Any, arguments: Any
) -> Any: ...
def minplus_arrays(a: Any, b: Any, semiring: Any, device: Any, dtype: Any) -> Any: ...
def weights_fit(weights: Any) -> bool: ...
def cdist_tensors(
    a: Any, b: Any, metric: Any, out: Any = None, arguments: Any = None, known_plain: bool = False
) -> Any: ...
def pdist_tensors(
    x: Any, metric: Any, out: Any = None, arguments: Any = None, known_plain: bool = False
) -> Any: ...
def minplus_tensors(a: Any, b: Any, semiring: Any) -> Any: ...
def nearest_tensors(a: Any, b: Any, k: Any, metric: Any, arguments: Any = None) -> Any: ...
def pdist(
    x: Any,
    out: Any,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
    first: int = 0,
    end: int = ...,
) -> None: ...
def cdist_batch(
    a: Any,
    b: Any,
    out: Any,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def gradient(
    asked: Any,
    a: Any,
    b: Any,
    distances: Any,
    out: Any,
    metric: str,
    kernel: str | None = None,
    p: float = 2.0,
    stream: int = 0,
    out_b: Any = None,
) -> None: ...
def plan_cdist(
    m: int,
    n: int,
    cols: int,
    dtype: str,
    truths: bool,
    on_host: bool,
    pairs: bool,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> tuple[int, int, int, float]: ...
def apsp(
    graph: Any,
    out: Any,
    pred: Any,
    no_edge: str,
    sentinel: float,
    directed: bool,
    unweighted: bool,
    unreachable: float,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    semiring: str = "min_plus",
    progress: Any = None,
    max_memory: int | None = None,
    devices: tuple[str, ...] = (),
) -> tuple[list[int], float]: ...
def apsp_batch(
    graph: Any,
    out: Any,
    pred: Any,
    doubts: Any,
    n: int,
    packed: bool,
    sizes: Any,
    first_edges: Any,
    tails: Any,
    heads: Any,
    no_edge: str,
    sentinel: float,
    directed: bool,
    unweighted: bool,
    unreachable: float,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    semiring: str = "min_plus",
    progress: Any = None,
    max_memory: int | None = None,
) -> bool: ...
def apsp_tensors(graph: Any, predecessors: bool, few: int) -> Any: ...
def hops(
    graph: Any,
    out: Any,
    no_edge: str,
    sentinel: float,
    directed: bool,
    unreachable: float,
    most_hops: int,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    progress: Any = None,
    max_memory: int | None = None,
) -> bool: ...
def few_edges(op: str, n: int, edges: int, on_cuda: bool = False) -> bool: ...
def closure(
    graph: Any,
    out: Any,
    no_edge: str,
    sentinel: float,
    directed: bool,
    reflexive: bool,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def closure_batch(
    graph: Any,
    out: Any,
    no_edge: str,
    sentinel: float,
    directed: bool,
    reflexive: bool,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def apsp_band(
    dist: Any,
    pred: Any,
    snapshots: Any,
    semiring: str,
    first: int,
    pivot: int,
    pivots: int,
    stream: int = 0,
    ordered: bool = False,
    max_memory: int | None = None,
) -> None: ...
def far_plan(
    n: int,
    dtype: str,
    predecessors: bool,
    device: str | None = None,
    max_memory: int | None = None,
    kernel: str | None = None,
    semiring: str = "min_plus",
    devices: tuple[str, ...] = (),
) -> dict[str, int]: ...
def far(
    dist: Any,
    pred: Any,
    semiring: str,
    device: str | None,
    progress: Any = None,
    max_memory: int | None = None,
    devices: tuple[str, ...] = (),
) -> dict[str, int]: ...
def several_plan(
    n: int,
    dtype: str,
    predecessors: bool,
    in_place: bool,
    devices: tuple[str, ...],
    max_memory: int | None = None,
    semiring: str = "min_plus",
) -> list[dict[str, int]]: ...
def minplus(
    a: Any,
    b: Any,
    c: Any,
    out: Any,
    semiring: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def minplus_batch(
    a: Any,
    b: Any,
    c: Any,
    out: Any,
    semiring: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
) -> None: ...
def keep() -> Any: ...
def common(members: int) -> Any: ...
def nearest(
    a: Any,
    b: Any,
    distances: Any,
    indices: Any,
    radii: Any,
    first: int | None,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
    kept: Any = None,
    common: Any = None,
) -> None: ...
def within(
    a: Any,
    b: Any,
    dtype: str,
    radii: Any,
    most: int,
    by_distance: bool,
    first: int | None,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
    kept: Any = None,
    common: Any = None,
) -> tuple[Any, Any, Any] | tuple[Any, int]: ...
def gather(
    found: Any,
    distances: Any,
    indices: int,
    places: int,
    stream: int = 0,
    ordered: bool = False,
) -> None: ...
def count(
    a: Any,
    b: Any,
    dtype: str,
    bounds: Any,
    a_weights: Any,
    b_weights: Any,
    first: int | None,
    metric: str,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    weights: Any = None,
    p: float = 2.0,
    base: float = 0.0,
    vi: Any = None,
    factor: Any = None,
    box: Any = None,
    options: dict[str, int] | None = None,
    progress: Any = None,
    max_memory: int | None = None,
    common: Any = None,
) -> Any: ...
def perron(
    a: Any,
    out: Any,
    tol: float,
    max_iter: int,
    shift: float,
    x0: Any,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
    max_memory: int | None = None,
) -> tuple[float, float, float, int, bool]: ...
def perron_part(
    matrix: Any,
    sums: Any,
    vector: Any,
    top: Any,
    apart: Any,
    epsilon: float,
    kernel: str | None = None,
    device: str | None = None,
    stream: int = 0,
    ordered: bool = False,
    options: dict[str, int] | None = None,
) -> None: ...
def choose(
    op: str,
    dtype: str,
    metric: str | None,
    n: int,
    cols: int,
    kernel: str | None = None,
    device: str | None = None,
    operands: str | None = None,
    weighted: bool = False,
    p: float = 2.0,
    semiring: str = "min_plus",
    rows: int = 0,
    predecessors: bool = False,
    in_panels: bool = False,
    direct: bool = False,
    neighbors: int = 0,
    bounded: bool = False,
    factored: bool = True,
    periodic: bool = False,
    condensed: bool = False,
) -> tuple[str, str, str, dict[str, str]]: ...
def describe(value: Any, name: str) -> tuple[tuple[int, ...], str, int, tuple[int, ...] | None]: ...
def ceiling(
    kernel: str, bytes: int, repeats: int, device: str | None = None
) -> tuple[float, tuple[float, ...]]: ...
def code_for(targets: str, capability: int) -> str: ...
def generation(capability: int) -> dict[str, Any] | None: ...
def pretend(
    targets: str | None,
    capability: int = 0,
    multiprocessors: int = 0,
    shared_block: int = 0,
    shared_multiprocessor: int = 0,
    double_ratio: int = 1,
) -> None: ...
def fail_allocation(nth: int) -> None: ...
def allocations() -> int: ...
def refuse_peers(refuse: bool) -> None: ...
def limit_pinned(bytes: int) -> None: ...
def pinned() -> int: ...
def most_held(device: str, forget: bool = False) -> int: ...
def event_record(device: str, stream: int) -> object: ...
def event_elapsed(start: object, stop: object) -> float: ...
def metrics() -> list[_Metric]: ...
def kernels() -> list[dict[str, Any]]: ...
def host() -> _Host: ...
def cuda() -> _Cuda: ...
