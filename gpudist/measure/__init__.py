"""Measure calls beside the machine's limits and beside other libraries.

`gpudist.compare`, `gpudist.explain` and the ladders of studies stand on these modules:

- `timing` times a call, by CUDA events or a monotonic clock.
- `ceilings` measures what the machine can do at most, and the least time that a call can take.
- `devices` holds arrays on a GPU by PyTorch or CuPy.
- `rivals` knows what other libraries have for an operation.
- `samples` computes a part of a result in float64, and `errors` holds a result against it.
- `records` tells what was measured on what, with what.
- `wording` and `chart` show measured quantities to people.
"""

from gpudist.measure.ceilings import Ceiling, Floor, measure_ceilings

__all__ = ["Ceiling", "Floor", "measure_ceilings"]
