"""What a call would do, for every operation."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpudist import arrays, checks
from gpudist.distance import explain_cdist, explain_pdist
from gpudist.eigen import explain_perron
from gpudist.paths import explain_apsp, explain_closure
from gpudist.registry import Explanation
from gpudist.semirings import explain_minplus

if TYPE_CHECKING:
    from gpudist.bench.ceilings import Ceiling

_EXPLAINERS: dict[str, Callable[..., Explanation]] = {
    "cdist": explain_cdist,
    "apsp": explain_apsp,
    "transitive_closure": explain_closure,
    "pdist": explain_pdist,
    "minplus": explain_minplus,
    "perron": explain_perron,
}


def explain(
    op: str, *operands: Any, ceilings: Mapping[str, Ceiling] | None = None, **arguments: Any
) -> Explanation:
    """Say which kernel a call would run, where, and why, and how long it takes at least.

    Parameters
    ----------
    op : {"cdist", "pdist", "apsp", "transitive_closure", "minplus", "perron"}
        The function.
    *operands, **arguments
        What it would be called with: ``explain("cdist", a, b, "minkowski", p=3)``.
    ceilings : mapping, optional
        What the machine can do at most, from `gpudist.bench.measure_ceilings`. By default it is
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
      takes: at least ... on this machine: its limit is ...
      not cdist/...
    """
    if checks.text("op", op) not in _EXPLAINERS:
        raise ValueError(f"op must be one of {', '.join(_EXPLAINERS)}, got {op!r}")
    explainer, mattering = _EXPLAINERS[op], _that_matter(op, arguments)
    try:
        inspect.signature(explainer).bind(*operands, **mattering)
    except TypeError as error:
        raise TypeError(f"{op}(): {error}") from None
    return dataclasses.replace(explainer(*operands, **mattering), ceilings=ceilings)


def _that_matter(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the function takes, but what does not change which kernel runs."""
    import gpudist

    out = arguments.get("out")
    taken = inspect.signature(getattr(gpudist, op)).parameters
    mattering = inspect.signature(_EXPLAINERS[op]).parameters
    kept = {name: x for name, x in arguments.items() if name in mattering or name not in taken}
    if out is None or "dtype" not in mattering:
        return kept
    return {"dtype": arrays.out_dtype(out, ())} | kept
