"""What a call would do, for every operation."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from gpudist import arrays, checks, registry
from gpudist.explain_distances import explain_cdist, explain_pdist
from gpudist.explain_neighbors import (
    explain_count_neighbors,
    explain_knn,
    explain_nearest,
    explain_radius_neighbors,
)
from gpudist.explain_paths import explain_apsp, explain_closure
from gpudist.explain_perron import explain_perron
from gpudist.explain_products import explain_minplus
from gpudist.explained import Explanation

if TYPE_CHECKING:
    from gpudist.measure.ceilings import Ceiling

_EXPLAINERS: dict[str, Callable[..., Explanation]] = {
    "cdist": explain_cdist,
    "apsp": explain_apsp,
    "transitive_closure": explain_closure,
    "pdist": explain_pdist,
    "nearest": explain_nearest,
    "knn": explain_knn,
    "radius_neighbors": explain_radius_neighbors,
    "count_neighbors": explain_count_neighbors,
    "minplus": explain_minplus,
    "perron": explain_perron,
}


def explain(
    op: str | Callable[..., Any],
    *operands: Any,
    verbose: bool = False,
    ceilings: Mapping[str, Ceiling] | None = None,
    **arguments: Any,
) -> Explanation:
    """Say which kernel a call would run, where, and why, and how long it takes at least.

    Parameters
    ----------
    op : str or function
        "cdist", "pdist", "nearest", "knn", "radius_neighbors", "count_neighbors", "apsp",
        "transitive_closure", "minplus" or "perron", or that function; "closure" is the name of
        transitive_closure's kernels.
    *operands, **arguments
        What it would be called with: ``explain("cdist", a, b, "minkowski", p=3)``.
    verbose : bool
        Whether the text also says of every other kernel why it is not taken.
    ceilings : mapping, optional
        What the machine can do at most, from `gpudist.measure.measure_ceilings`. By default it is
        measured when it is first asked for, about a second, and kept.

    Returns
    -------
    Explanation
        The choice, the reasons for and against, the least work that the call implies, the memory
        that it needs, and the limit of this machine that binds it. Print it, or let a notebook
        show it.

    Raises
    ------
    TypeError
        The function does not take these arguments.
    ValueError
        There is no such function.
    gpudist.DeviceError
        The call would raise it; so it is with other errors.

    See Also
    --------
    compare : How long the call takes, and other libraries for the same.

    Examples
    --------
    >>> import gpudist
    >>> said = gpudist.explain("cdist", [[0.0, 0.0]], [[1.0, 1.0]], device="cpu")
    >>> said.device, said.operations, said.memory
    ('cpu', 2, 40)
    >>> print(said)  # doctest: +ELLIPSIS
    cdist runs cdist/cpu_tile_... on cpu
      because: first in the table that fits; direct form, ...
      computes: 2 pair-dimensions in float64
      moves: 32 bytes in, 8 bytes out, at least
      needs: 40 bytes of memory
      holds: at most ... bytes on cpu, beside the caller's
      ...
      takes: at least ... on this machine: its limit is ...
      ... other kernels: verbose=True says why not each of them
    """
    name = registry.function_name(op)
    if name not in _EXPLAINERS:
        raise ValueError(f"op must be one of {', '.join(_EXPLAINERS)}, got {op!r}")
    explainer, mattering = _EXPLAINERS[name], _that_matter(name, arguments)
    for order, read in (
        ("device", partial(checks.device, "device")),
        ("max_memory", checks.max_memory),
    ):
        if order in mattering:
            mattering[order] = read(mattering[order])
    try:
        inspect.signature(explainer).bind(*operands, **mattering)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    verbose = checks.truth("verbose", verbose)
    if ceilings is not None and not isinstance(ceilings, Mapping):
        raise TypeError(f"ceilings must be a dictionary, got {type(ceilings).__name__}")
    said = explainer(*operands, **mattering)
    return dataclasses.replace(said, ceilings=ceilings, verbose=verbose)


def _that_matter(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the function takes, but what does not change which kernel runs."""
    import gpudist

    out = arguments.get("out")
    taken = inspect.signature(getattr(gpudist, op)).parameters
    mattering = inspect.signature(_EXPLAINERS[op]).parameters
    kept = {name: x for name, x in arguments.items() if name in mattering or name not in taken}
    if out is None or "dtype" not in mattering:
        return kept
    distances = out[0] if isinstance(out, tuple) and out else out
    return {"dtype": arrays.out_dtype(distances, ())} | kept
