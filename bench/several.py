"""Calls that several GPUs share, each beside the same call on one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import gpudist
from bench.cases import ApspCase, Around, Array, CdistCase, KnnCase, touched
from gpudist import several_gpus
from gpudist.measure.samples import Sample

_ALL = "cuda:all"


@dataclass(frozen=True, slots=True)
class SeveralCase(Around):
    """A call on all GPUs of the kind of the first, from NumPy arrays into arrays that are there.

    Parameters
    ----------
    inner : CdistCase, ApspCase or KnnCase
        The call.
    """

    inner: CdistCase | ApspCase | KnnCase
    op: ClassVar[str] = "several"

    @property
    def arguments(self) -> str:
        """Name the function and what else it is told."""
        return ", ".join(filter(None, (self.inner.op, self.inner.arguments, "into out=")))

    def operands(self) -> tuple[Array, ...]:
        """Make the arguments, and the places of the results last, if there are several GPUs."""
        if len(several_gpus.of(_ALL)) < 2:
            raise ValueError("there is one GPU of its kind, and several are measured here")
        given = self.inner.operands()
        if isinstance(self.inner, KnnCase):
            found = (self.shape[0], self.inner.k)
            return (*given, touched(found, self.dtype), touched(found, "int64"))
        return (*given, touched(self.shape[:2], self.dtype))

    def call(self, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation on all GPUs, whichever is named."""
        return self.call_on(operands, _ALL, kernel)

    def call_on(self, operands: tuple[Any, ...], device: str, kernel: str = "auto") -> Any:
        """Do the operation.

        Parameters
        ----------
        operands : tuple of array
            From `operands`.
        device : str
            One GPU, or several.
        kernel : str, default "auto"
            The kernel.

        Returns
        -------
        array, or tuple of arrays
            The result.
        """
        given = self._given(operands)
        out: Any = operands[len(given) :]
        how: dict[str, Any] = {"device": device, "kernel": kernel, **self.metric_args}
        if isinstance(self.inner, ApspCase):
            return gpudist.apsp(given[0], dtype=self.dtype, out=out[0], **how)
        how["metric"] = self.inner.metric
        if isinstance(self.inner, KnnCase):
            return gpudist.knn(*given, out=out, **how)
        return gpudist.cdist(*given, out=out[0], **how)

    def explain(self, operands: tuple[Any, ...], device: str) -> gpudist.Explanation:
        """Say which kernel all of them run."""
        return self.inner.explain(self._given(operands), _ALL)

    def sample(self, operands: tuple[Array, ...]) -> Sample:
        """Compute a part of the result in float64."""
        return self.inner.sample(self._given(operands))

    def _given(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        return operands[: -2 if isinstance(self.inner, KnnCase) else -1]
