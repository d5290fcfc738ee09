"""What a compiled constraint is worth, in bytes of a prompt, by what engines took for both.

::

    compiled in 2 ms    ─┐
    prompts: 10 us/byte ─┴▶  200 bytes: an engine with this constraint saves as much as one with
                             200 bytes of the prompt
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace
from statistics import fmean
from typing import Final

from guided.spec import Timing, Usage
from guided_service.ray.affinity import Affinity

__all__ = ["UNKNOWN_BYTES", "Worth"]

UNKNOWN_BYTES: Final = 256
"""What a constraint counts for while nothing is known: the shortest beginning there is a digest of.
Most take 20 to 70 bytes with a small model on the CPU, and 150 to 500 where 20,000 tokens of
prompts are computed in a second (docs/scaling.md)."""

_LEAST_TOKENS: Final = 256
"""Of a prompt, to be counted: of fewer, too much is what a model call takes by itself."""

_SAMPLES: Final = 64
"""Prompts, and constraints, that what is usual is taken from."""

_MOST_CONSTRAINTS: Final = 10_000


class Worth:
    """Learns from each answer."""

    def __init__(self) -> None:
        self._compiling: OrderedDict[bytes, float] = OrderedDict()
        """Most seconds before a request with this constraint could run, in the order of last use.
        Its prompt was prepared in them too, which is little beside what computing it takes."""
        self._compiled: deque[float] = deque(maxlen=_SAMPLES)
        """What the constraints took that were new last."""
        self._reading: deque[float] = deque(maxlen=_SAMPLES)
        """Seconds for each byte of the prompts that were computed last."""

    def weighed(self, affinity: Affinity) -> Affinity:
        """The same with what its constraint is worth."""
        if affinity.constraint is None:
            return affinity
        return replace(affinity, constraint_bytes=self._worth_of(affinity.constraint))

    def learn(self, affinity: Affinity, usage: Usage, timing: Timing) -> None:
        """Take account of an answer: what it cost in an engine, and when."""
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
        # An engine that has it takes next to nothing.
        self._compiling[digest] = max(seconds, self._compiling.get(digest, 0.0))
        self._compiling.move_to_end(digest)
        while len(self._compiling) > _MOST_CONSTRAINTS:
            self._compiling.popitem(last=False)

    def _worth_of(self, digest: bytes) -> int:
        """In bytes, at least one, so that of two engines alike the one that has it is asked."""
        if not self._reading or not self._compiled:
            return UNKNOWN_BYTES
        found = self._compiling.get(digest)
        seconds = fmean(self._compiled) if found is None else found
        # Most prompts waited for something beside them, and the quickest for nothing.
        a_byte = sorted(self._reading)[len(self._reading) // 4]
        return max(1, round(seconds / a_byte)) if a_byte else UNKNOWN_BYTES
