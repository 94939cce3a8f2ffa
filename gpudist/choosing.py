"""What would run: what a kernel is asked for, and the choice with the work that it implies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudist import _core, arrays
from gpudist.explained import Explanation
from gpudist.intake import Orders
from gpudist.metrics import Arguments
from gpudist.work import UNITS, Work, distance_pipe


class Request(NamedTuple):
    """What a kernel is asked for: all that the core's choice depends on but the caller's orders.

    Attributes
    ----------
    op : str
        The operation of the table whose rows are chosen from.
    dtype : str
        The dtype of computation.
    n, cols : int
        Rows and columns of the second operand, or the nodes of a graph and none.
    metric : str or None
        Of distances, the metric; the next six are for these alone.
    operands : str or None
        "bool" where the operands are truths.
    weighted, periodic : bool
        Whether columns have weights, or lengths of a box.
    factored : bool
        Whether mahalanobis's matrix has a factor.
    p : float
        minkowski's exponent.
    rows : int
        Rows of the first operand, which decide between kernels of equal bits alone.
    direct : bool
        Whether distances must be of the direct form, as searches have them.
    neighbors : int
        How many neighbours are searched for.
    bounded : bool
        Whether these are to be within a radius.
    semiring : str
        Of products and paths, the semiring.
    """

    op: str
    dtype: str
    n: int
    cols: int
    metric: str | None = None
    operands: str | None = None
    weighted: bool = False
    periodic: bool = False
    factored: bool = True
    p: float = 2.0
    rows: int = 0
    direct: bool = False
    neighbors: int = 0
    bounded: bool = False
    semiring: str = "min_plus"

    def kernel_by(
        self, kernel: str | None, device: str | None, *, in_panels: bool = False
    ) -> tuple[str, str, str, dict[str, str]]:
        """Return the core's choice: kernel, device, why, and why not the others.

        Parameters
        ----------
        kernel : str or None
            The one asked for by name, or "auto" or None.
        device : str or None
            The one asked for.
        in_panels : bool
            Whether a search is to look through panels of distances.
        """
        return _core.choose(
            self.op,
            self.dtype,
            self.metric,
            self.n,
            self.cols,
            kernel,
            device,
            self.operands,
            self.weighted,
            self.p,
            self.semiring,
            self.rows,
            in_panels=in_panels,
            direct=self.direct,
            neighbors=self.neighbors,
            bounded=self.bounded,
            factored=self.factored,
            periodic=self.periodic,
        )


def request_of_distances(
    op: str,
    dtype: str,
    metric: str,
    arguments: Arguments,
    sizes: tuple[int, int, int],
    *,
    truths: bool,
    direct: bool = False,
    neighbors: int = 0,
    bounded: bool = False,
) -> Request:
    """Return what distances, or a search among them, ask of a kernel.

    Parameters
    ----------
    op : str
        "cdist" or "neighbors".
    dtype, metric, arguments, truths
        As in a `distance_call.Call`.
    sizes : tuple of int
        Rows of the first operand, rows of the second, and columns.
    direct, neighbors, bounded
        As in a `Request`.

    Returns
    -------
    Request
        The record.
    """
    core = arguments.core
    return Request(
        op=op,
        dtype=dtype,
        n=sizes[1],
        cols=sizes[2],
        metric=metric,
        operands="bool" if truths else None,
        weighted="weights" in core,
        periodic="box" in core,
        factored=core.get("factor") is not None or "vi" not in core,
        p=core.get("p", 2.0),
        rows=sizes[0],
        direct=direct,
        neighbors=neighbors,
        bounded=bounded,
    )


class Amounts(NamedTuple):
    """How much a call moves and computes.

    Attributes
    ----------
    moved, written : int
        Elements of the dtype of computation that are read or written, and those of them that are
        results.
    operations : int
        Inner steps.
    operand_bytes, result_bytes : int
        What operands and results of other dtypes take.
    copies : int
        Bytes beside operands and results.
    """

    moved: int
    operations: int
    written: int = 0
    operand_bytes: int = 0
    result_bytes: int = 0
    copies: int = 0


def choose(
    function: str,
    request: Request,
    amounts: Amounts,
    *,
    kernel: str,
    device: str | None,
    space: arrays.Space,
) -> Explanation:
    """Ask the core which kernel it would take, and put the answer into words.

    Parameters
    ----------
    function : str
        What the caller calls.
    request : Request
        What the kernel is asked for.
    amounts : Amounts
        How much it moves and computes.
    kernel, device : str
        The orders; `device` is the one asked for, or the one that the operands are on.
    space : Space
        Where the operands are.

    Returns
    -------
    Explanation
        The answer.
    """
    if kernel == "reference":
        arrays.refuse_devices(space, 'kernel="reference"')
    Orders(kernel, device).read(function)
    dtype, metric, operations = request.dtype, request.metric, amounts.operations
    size = np.dtype(dtype).itemsize
    moved = amounts.moved * size + amounts.operand_bytes + amounts.result_bytes
    taken, where, reason = kernel, "cpu", "asked for by name"
    rejected: dict[str, str] = {}
    if kernel != "reference":
        taken, where, reason, rejected = request.kernel_by(kernel, device)
    unit, pipe, slots = UNITS.get(function, "operations"), None, 1.0
    if metric == "haversine":
        unit, operations = "pairs", operations // max(request.cols, 1)
    elif metric is not None and request.operands != "bool":
        pipe, slots = distance_pipe(taken, metric, dtype, p=request.p, weighted=request.weighted)
    elif unit == "updates" and dtype != "bool":
        pipe = "minplus"
    written = amounts.written * size + amounts.result_bytes
    work = Work(moved - written, written, operations, unit, pipe, slots)
    return Explanation(
        function,
        taken,
        where,
        reason,
        rejected,
        moved,
        operations,
        dtype,
        metric,
        work,
        amounts.copies,
        space is arrays.HOST,
    )
