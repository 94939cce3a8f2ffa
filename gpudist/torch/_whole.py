"""Distances as torch.compile shall see them: one call, which it writes down and does not look into.

It would lose derivatives otherwise: it takes operands for constants that are differentiated around
it, and knows no derivatives forward. This module is imported when something is compiled; to import
PyTorch's compiler takes as long as PyTorch itself.
"""

from __future__ import annotations

import torch

from gpudist.torch import _functions

distances = torch.compiler.allow_in_graph(_functions.recorded)
