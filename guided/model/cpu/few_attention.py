"""Attention of a few new tokens a sequence, over rows of the cache wherever they lie.

Rows are read block by block, each number once for all queries that share its head: some heads of
all new tokens of the sequence. Scores are kept whole, so the softmax is the plain one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.model.cpu.kernel import inlined, kernel
from guided.model.cpu.numbers import exponential, largest, widened

__all__ = ["ROWS_AT_ONCE", "attend_few"]

ROWS_AT_ONCE = 32
"""Rows of the cache that are read at once."""

_HIDDEN = np.float32(-1e30)


@kernel
def attend_few(
    mixed: Any,
    keys: Any,
    values: Any,
    starts: Any,
    counts: Any,
    slots: Any,
    bounds: Any,
    sees: Any,
    scale: Any,
    block: Any,
    queries: Any,
    scores: Any,
    output: Any,
) -> None:
    """Attention of some sequences, each of which has few new tokens.

    ``mixed`` starts with the query heads of each token, float32 ``[tokens, ...]``; ``output`` is
    ``[tokens, heads * size]``; ``keys`` and ``values`` are float32 or the bits of bf16, ``[slots,
    kv heads, size]``. By sequence, ``starts`` is its first token and ``counts`` how many it has;
    it sees rows in ``slots[bounds[s] : bounds[s + 1]]``, and ``sees`` says which token sees which,
    ``[tokens of these sequences, most rows]``. The rest is room to work: ``block``
    ``[ROWS_AT_ONCE, size]``, ``queries`` ``[most tokens * shared, size]`` and ``scores``
    ``[most tokens * shared, most rows]``, where ``shared`` query heads have a key head together.
    """
    kv_heads, size = keys.shape[1], keys.shape[2]
    shared = output.shape[1] // (kv_heads * size)
    before = 0
    for s in range(len(starts)):
        start, own = starts[s], slots[bounds[s] : bounds[s + 1]]
        asked = queries[: counts[s] * shared]
        for head in range(kv_heads):
            first = head * shared * size
            _gather(mixed, start, first, scale, shared, asked)
            _score_all(asked, keys, own, head, block, scores)
            for q in range(len(asked)):
                _softmax(scores[q, : len(own)], sees[before + q // shared])
            _mix_all(scores, values, own, head, block, asked)
            _scatter(asked, start, first, shared, output)
        before += counts[s]


@inlined
def _score_all(queries: Any, keys: Any, slots: Any, head: Any, block: Any, scores: Any) -> None:
    for start in range(0, len(slots), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(slots))
        _widen(keys, slots[start:stop], head, block)
        for q in range(len(queries)):
            _score(queries[q], block, scores[q, start:stop])


@inlined
def _mix_all(weights: Any, values: Any, slots: Any, head: Any, block: Any, found: Any) -> None:
    for q in range(len(found)):
        for d in range(found.shape[1]):
            found[q, d] = 0
    for start in range(0, len(slots), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(slots))
        _widen(values, slots[start:stop], head, block)
        for q in range(len(found)):
            _mix(weights[q, start:stop], block, found[q])


@inlined
def _gather(mixed: Any, start: Any, first: Any, scale: Any, shared: Any, queries: Any) -> None:
    """The heads of all tokens that share a key head, one below the other."""
    size = queries.shape[1]
    for q in range(len(queries)):
        at = first + q % shared * size
        source, target = mixed[start + q // shared, at : at + size], queries[q]
        for d in range(size):
            target[d] = source[d] * scale


@inlined
def _scatter(found: Any, start: Any, first: Any, shared: Any, output: Any) -> None:
    size = found.shape[1]
    for q in range(len(found)):
        at = first + q % shared * size
        source, target = found[q], output[start + q // shared, at : at + size]
        for d in range(size):
            target[d] = source[d]


@inlined
def _widen(cache: Any, slots: Any, head: Any, block: Any) -> None:
    for j in range(len(slots)):
        source, target = cache[slots[j], head], block[j]
        for d in range(len(target)):
            target[d] = widened(source[d])


@inlined
def _score(query: Any, block: Any, scores: Any) -> None:
    for j in range(len(scores)):
        row, total = block[j], np.float32(0)
        for d in range(len(row)):
            total += query[d] * row[d]
        scores[j] = total


@inlined
def _mix(weights: Any, block: Any, found: Any) -> None:
    for j in range(len(weights)):
        row, weight = block[j], weights[j]
        for d in range(len(row)):
            found[d] += weight * row[d]


@inlined
def _softmax(scores: Any, sees: Any) -> None:
    """Weights that add up to 1, exactly 0 for what is not seen."""
    for j in range(len(scores)):
        scores[j] = scores[j] if sees[j] else _HIDDEN
    most = largest(scores)
    total = np.float32(0)
    for j in range(len(scores)):
        weight = exponential(scores[j] - most)
        scores[j] = weight
        total += weight
    for j in range(len(scores)):
        scores[j] /= total
