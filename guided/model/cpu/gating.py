"""Gated units (Shazeer 2020): an activation of the first half of a row times its second half."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from guided.model.cpu.kernel import kernel
from guided.model.cpu.numbers import exponential

__all__ = ["GATES"]

_ONE = np.float32(1)
_CUBIC = np.float32(0.044715)
_TWICE_ROOT = np.float32(2 * np.sqrt(2 / np.pi))


@kernel
def _silu(both: Any, output: Any) -> None:
    """``x / (1 + e**-x)`` of each gate, times what it lets through."""
    width = output.shape[1]
    for t in range(len(both)):
        gate, up, target = both[t, :width], both[t, width:], output[t]
        for d in range(width):
            x = gate[d]
            target[d] = x / (_ONE + exponential(-x)) * up[d]


@kernel
def _gelu_tanh(both: Any, output: Any) -> None:
    """``x / 2 * (1 + tanh(u))``, which is ``x / (1 + e**-2u)``, of each gate, likewise."""
    width = output.shape[1]
    for t in range(len(both)):
        gate, up, target = both[t, :width], both[t, width:], output[t]
        for d in range(width):
            x = gate[d]
            twice = _TWICE_ROOT * (x + _CUBIC * x * x * x)
            target[d] = x / (_ONE + exponential(-twice)) * up[d]


GATES: Mapping[str, Callable[..., Any]] = {"silu": _silu, "gelu_pytorch_tanh": _gelu_tanh}
"""By the name of the activation in transformers: ``(both, output)``, ``[tokens, 2 * width]`` →
``[tokens, width]``."""
