"""Root-mean-square norms (Zhang and Sennrich 2019) of rows, and of the heads within them."""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.model.cpu.kernel import inlined, kernel

__all__ = ["add_and_normalise", "normalise", "normalise_heads"]


@kernel
def normalise(rows: Any, weight: Any, epsilon: Any, output: Any) -> None:
    """Each row of ``rows``, float32 ``[tokens, hidden]``, scaled to length 1 and by ``weight``."""
    for t in range(len(rows)):
        _normalise(rows[t], weight, epsilon, output[t])


@kernel
def add_and_normalise(rows: Any, added: Any, weight: Any, epsilon: Any, output: Any) -> None:
    """Add to the residual rows in place, then normalise them into ``output``."""
    for t in range(len(rows)):
        row, more = rows[t], added[t]
        for d in range(len(row)):
            row[d] += more[d]
        _normalise(row, weight, epsilon, output[t])


@kernel
def normalise_heads(mixed: Any, first: Any, heads: Any, weight: Any, epsilon: Any) -> None:
    """Normalise in place so many heads of each row, from head ``first`` on."""
    size = len(weight)
    for t in range(len(mixed)):
        for head in range(first, first + heads):
            numbers = mixed[t, head * size : (head + 1) * size]
            _normalise(numbers, weight, epsilon, numbers)


@inlined
def _normalise(row: Any, weight: Any, epsilon: Any, output: Any) -> None:
    squares = np.float32(0)
    for d in range(len(row)):
        squares += row[d] * row[d]
    factor = np.float32(1) / np.sqrt(squares / np.float32(len(row)) + epsilon)
    for d in range(len(row)):
        output[d] = row[d] * factor * weight[d]
