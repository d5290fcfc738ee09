"""Encodes answers: long ones in a thread, so that nobody else waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from guided.spec import CandidateResult, GenerationResult

__all__ = ["encode_answer"]

_MANY: Final = 200
"""Tokens with log-probabilities, each perhaps with twenty alternatives, that take about 10 ms."""

Encoded = TypeVar("Encoded")
Result = TypeVar("Result", GenerationResult, CandidateResult)


async def encode_answer(encode: Callable[[Result], Encoded], result: Result) -> Encoded:
    """Return an answer as ``encode`` encodes it, which may be called in a thread."""
    others = result.candidates if isinstance(result, GenerationResult) else ()
    num_scored = len(result.logprobs) + sum(len(each.logprobs) for each in others)
    return encode(result) if num_scored < _MANY else await asyncio.to_thread(encode, result)
