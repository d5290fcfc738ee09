"""How fast this machine reads memory, which bounds a model call of few tokens."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import torch

from guided.model.cpu.matrix import LargePages

__all__ = ["bytes_per_second"]

_BYTES: Final = 256 * 2**20
"""More than caches hold."""
_ROUNDS: Final = 5


def bytes_per_second() -> float:
    """Return the speed of the fastest of some sums of 256 MiB, by all threads of torch."""
    numbers = torch.from_numpy(LargePages().take(_BYTES).view(np.int64)).fill_(1)
    fastest = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        numbers.sum()
        fastest = min(fastest, time.perf_counter() - began)
    return numbers.nbytes / fastest
