"""Gated units (Shazeer 2020): an activation of the first half of a row times its second half."""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.model.cpu.addresses import floats, take_next
from guided.model.cpu.kernel import task
from guided.model.cpu.numbers import exponential
from guided.model.cpu.rowwise import Rowwise

__all__ = ["GATES"]

_ONE = np.float32(1)
_CUBIC = np.float32(0.044715)
_TWICE_ROOT = np.float32(2 * np.sqrt(2 / np.pi))


@task
def _silu(job: Any) -> None:
    """``x / (1 + e**-x)`` of each gate, times what it lets through."""
    width = job[3]
    while True:
        row = take_next(job[5])
        if row >= job[4]:
            return
        gates = floats(job[0] + row * job[2] * 4)
        passed = floats(job[0] + (row * job[2] + width) * 4)
        target = floats(job[1] + row * width * 4)
        for d in range(width):
            x = gates[d]
            target[d] = x / (_ONE + exponential(-x)) * passed[d]


@task
def _gelu_tanh(job: Any) -> None:
    """``x / 2 * (1 + tanh(u))``, which is ``x / (1 + e**-2u)``, of each gate, likewise."""
    width = job[3]
    while True:
        row = take_next(job[5])
        if row >= job[4]:
            return
        gates = floats(job[0] + row * job[2] * 4)
        passed = floats(job[0] + (row * job[2] + width) * 4)
        target = floats(job[1] + row * width * 4)
        for d in range(width):
            x = gates[d]
            twice = _TWICE_ROOT * (x + _CUBIC * x * x * x)
            target[d] = x / (_ONE + exponential(-twice)) * passed[d]


GATES = {"silu": Rowwise(_silu), "gelu_pytorch_tanh": Rowwise(_gelu_tanh)}
"""By the name of the activation in transformers: float32 ``[tokens, 2 * width]``, gates and what
they let through → ``[tokens, width]``."""
