"""Rotary positions (Su et al. 2021) for queries and keys, and keys and values into the cache."""

from __future__ import annotations

from typing import Any

from guided.model.cpu.kernel import inlined, kernel
from guided.model.cpu.numbers import narrowed

__all__ = ["rotate_and_store"]


@kernel
def rotate_and_store(
    mixed: Any, cosines: Any, sines: Any, slots: Any, keys: Any, values: Any
) -> None:
    """Turn queries and keys in place, and store keys and values.

    ``mixed`` has the query heads, key heads and value heads of each token, float32
    ``[tokens, (heads + 2 * kv heads) * size]``; ``cosines`` and ``sines`` are ``[tokens, size]``;
    ``slots`` ``[tokens]`` say where in ``keys`` and ``values``, ``[slots, kv heads, size]``.
    """
    kv_heads, size = keys.shape[1], keys.shape[2]
    first_key = mixed.shape[1] // size - 2 * kv_heads
    first_value = first_key + kv_heads
    for t in range(len(mixed)):
        for head in range(first_value):
            _rotate(mixed[t, head * size : (head + 1) * size], cosines[t], sines[t])
        for head in range(kv_heads):
            at = (first_key + head) * size
            _store(mixed[t, at : at + size], keys[slots[t], head])
            at = (first_value + head) * size
            _store(mixed[t, at : at + size], values[slots[t], head])


@inlined
def _rotate(numbers: Any, cosines: Any, sines: Any) -> None:
    """A number and the one half a head further are a point, turned around the origin."""
    half = len(numbers) // 2
    for d in range(half):
        x, y = numbers[d], numbers[half + d]
        numbers[d] = x * cosines[d] - y * sines[d]
        numbers[half + d] = y * cosines[half + d] + x * sines[half + d]


@inlined
def _store(numbers: Any, target: Any) -> None:
    for d in range(len(numbers)):
        target[d] = narrowed(numbers[d], target[d])
