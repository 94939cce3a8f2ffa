"""What a call would do, for every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudist.distance import explain_cdist, explain_pdist
from gpudist.paths import explain_apsp, explain_closure
from gpudist.registry import Explanation
from gpudist.semirings import explain_minplus

_EXPLAINERS: dict[str, Callable[..., Explanation]] = {
    "cdist": explain_cdist,
    "apsp": explain_apsp,
    "transitive_closure": explain_closure,
    "pdist": explain_pdist,
    "minplus": explain_minplus,
}


def explain(op: str, *operands: Any, **arguments: Any) -> Explanation:
    """Say which kernel a call would run, where, and why.

    Parameters
    ----------
    op : {"cdist", "pdist", "apsp", "transitive_closure", "minplus"}
        The function.
    *operands, **arguments
        What it would be called with: ``explain("cdist", a, b, "minkowski", p=3)``.

    Returns
    -------
    Explanation
        The choice, the reasons for and against, and the least work that the call implies.

    Raises
    ------
    ValueError
        There is no such function.
    gpudist.DeviceError
        The call would raise it.

    Examples
    --------
    >>> import gpudist
    >>> gpudist.explain("cdist", [[0.0, 0.0]], [[1.0, 1.0]], device="cpu").device
    'cpu'
    """
    if op not in _EXPLAINERS:
        raise ValueError(f"op must be one of {', '.join(_EXPLAINERS)}, got {op!r}")
    return _EXPLAINERS[op](*operands, **arguments)
