"""The operations of a layer between its matrices: norms, rotary positions, gates; all in float32.

A row of a layer's first matrix has the heads of one token, one after the other::

    query heads ...              | key heads ...       | value heads ...
    normalised, rotated in place | likewise, stored    | stored in the cache
"""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.model.cpu.addresses import floats, take_next
from guided.model.cpu.kernel import inlined, kernel, task
from guided.model.cpu.numbers import exponential, narrow
from guided.model.cpu.thread_team import RowTask

__all__ = ["GATES", "add_and_normalise", "normalise", "normalise_heads", "rotate_and_store"]

_ONE = np.float32(1)
_CUBIC = np.float32(0.044715)
_TWICE_ROOT = np.float32(2 * np.sqrt(2 / np.pi))


@kernel
def normalise(rows: Any, weight: Any, epsilon: Any, output: Any) -> None:
    """Scale each row of ``rows``, float32 ``[tokens, hidden]``, to length 1 and by ``weight``.

    Root-mean-square norms: Zhang and Sennrich 2019.
    """
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
def normalise_heads(rows: Any, first: Any, heads: Any, weight: Any, epsilon: Any) -> None:
    """Normalise ``heads`` heads of each row in place, from head ``first`` on."""
    size = len(weight)
    for t in range(len(rows)):
        for head in range(first, first + heads):
            numbers = rows[t, head * size : (head + 1) * size]
            _normalise(numbers, weight, epsilon, numbers)


@inlined
def _normalise(row: Any, weight: Any, epsilon: Any, output: Any) -> None:
    squares = np.float32(0)
    for d in range(len(row)):
        squares += row[d] * row[d]
    factor = np.float32(1) / np.sqrt(squares / np.float32(len(row)) + epsilon)
    for d in range(len(row)):
        output[d] = row[d] * factor * weight[d]


@kernel
def rotate_and_store(
    rows: Any, cosines: Any, sines: Any, slots: Any, keys: Any, values: Any
) -> None:
    """Rotate queries and keys by their positions in place, and store keys and values.

    ``rows`` are float32, see above; ``cosines`` and ``sines`` are ``[tokens, size]``; ``slots``,
    ``[tokens]``, are the places in ``keys`` and ``values``, ``[slots, kv heads, size]``. Rotary
    positions: Su et al. 2021.
    """
    kv_heads, size = keys.shape[1], keys.shape[2]
    first_key = rows.shape[1] // size - 2 * kv_heads
    first_value = first_key + kv_heads
    for t in range(len(rows)):
        for head in range(first_value):
            _rotate(rows[t, head * size : (head + 1) * size], cosines[t], sines[t])
        for head in range(kv_heads):
            at = (first_key + head) * size
            _store(rows[t, at : at + size], keys[slots[t], head])
            at = (first_value + head) * size
            _store(rows[t, at : at + size], values[slots[t], head])


@inlined
def _rotate(numbers: Any, cosines: Any, sines: Any) -> None:
    """Rotate each number, and the one half a head further, as a point around the origin."""
    half = len(numbers) // 2
    for d in range(half):
        x, y = numbers[d], numbers[half + d]
        numbers[d] = x * cosines[d] - y * sines[d]
        numbers[half + d] = y * cosines[half + d] + x * sines[half + d]


@inlined
def _store(numbers: Any, target: Any) -> None:
    for d in range(len(numbers)):
        target[d] = narrow(numbers[d], target[d])


@inlined
def _gate(job: Any, is_tanh: Any) -> None:
    """Write ``x / (1 + e**-x)`` of each gate, times what it gates.

    If ``is_tanh``, it is ``x / 2 * (1 + tanh(u))``, which is ``x / (1 + e**-2u)``.
    """
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
            power = _TWICE_ROOT * (x + _CUBIC * x * x * x) if is_tanh else x
            target[d] = x / (_ONE + exponential(-power)) * passed[d]


@task
def _silu(job: Any) -> None:
    _gate(job, False)


@task
def _gelu_tanh(job: Any) -> None:
    _gate(job, True)


GATES = {"silu": RowTask(_silu), "gelu_pytorch_tanh": RowTask(_gelu_tanh)}
"""Gated units (Shazeer 2020), by the name of the activation in transformers. They map float32
``[tokens, 2 * width]``, gates and what they gate, to ``[tokens, width]``."""
