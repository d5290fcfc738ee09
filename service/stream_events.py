"""What a stream of one answer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.spec import GenerationResult, TokenLogprobs

__all__ = ["Scored", "StreamEvent", "Thought"]


@dataclass(frozen=True, slots=True)
class Thought:
    """Text of the thoughts before an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Scored:
    """Text of the answer with the log-probabilities of the tokens that have come with it."""

    text: str
    logprobs: tuple[TokenLogprobs, ...]


StreamEvent: TypeAlias = str | Scored | Thought | GenerationResult
"""Text of the answer; of the thoughts before it; and the answer, which ends the stream."""
