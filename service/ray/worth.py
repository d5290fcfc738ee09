"""Estimates a compiled constraint's worth in bytes of prompt, from engines' times for both.

::

    compiled in 2 ms    ─┐
    prompts: 10 us/byte ─┴▶  200 bytes: an engine with this constraint saves as much as one with
                             200 bytes of the prompt
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from statistics import fmean
from typing import Final

from cachetools import LRUCache

from guided.spec import Timing, Usage
from guided_service.ray.affinity import Affinity

__all__ = ["UNKNOWN_BYTES", "Worth"]

UNKNOWN_BYTES: Final = 256
"""What a constraint counts while nothing is known: as much as the shortest beginning with a digest.
Most are worth 20 to 70 bytes with a small model on the CPU, and 150 to 500 at 20,000 prompt tokens
per second (docs/scaling.md)."""

_LEAST_TOKENS: Final = 256
"""Fewest tokens of a prompt that is counted: below, a call's fixed cost dominates."""

_SAMPLES: Final = 64
"""How many prompts, and constraints, the usual values are taken from."""

_MOST_CONSTRAINTS: Final = 10_000


class Worth:
    """Learns from each answer."""

    def __init__(self) -> None:
        self._compiling: LRUCache[bytes, float] = LRUCache(_MOST_CONSTRAINTS)
        """Most seconds before a request with this constraint could run. They include
        preparing its prompt, which is little compared with computing it."""
        self._compiled: deque[float] = deque(maxlen=_SAMPLES)
        """Seconds that the latest new constraints took."""
        self._reading: deque[float] = deque(maxlen=_SAMPLES)
        """Seconds per byte of the latest computed prompts."""

    def weighed(self, affinity: Affinity) -> Affinity:
        """Return the affinity with its constraint's worth."""
        if affinity.constraint is None:
            return affinity
        return replace(affinity, constraint_bytes=self._worth_of(affinity.constraint))

    def learn(self, affinity: Affinity, usage: Usage, timing: Timing) -> None:
        """Learn from an answer's cost and times in an engine."""
        if affinity.constraint is not None:
            self._learn_constraint(affinity.constraint, timing.compiling_seconds)
        computed = usage.prompt_tokens - usage.reused_tokens
        if timing.first_token_seconds is not None and computed >= _LEAST_TOKENS:
            before = timing.compiling_seconds + timing.waiting_seconds
            share = computed / usage.prompt_tokens
            seconds = timing.first_token_seconds - before
            self._reading.append(seconds / max(1.0, share * affinity.prompt_bytes))

    def _learn_constraint(self, digest: bytes, seconds: float) -> None:
        if digest not in self._compiling:
            self._compiled.append(seconds)
        # Take the most: an engine that has it takes almost nothing.
        self._compiling[digest] = max(seconds, self._compiling.get(digest, 0.0))

    def _worth_of(self, digest: bytes) -> int:
        """Return the worth in bytes, at least one, so that the engine that has it is preferred."""
        if not self._reading or not self._compiled:
            return UNKNOWN_BYTES
        found = self._compiling.get(digest)
        seconds = fmean(self._compiled) if found is None else found
        # Most prompts waited for other work, and the quickest for none; so take the lower quartile.
        a_byte = sorted(self._reading)[len(self._reading) // 4]
        return max(1, round(seconds / a_byte)) if a_byte else UNKNOWN_BYTES
