"""The events in the stream of one answer."""

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
    """Text of the answer, with the log-probabilities of its tokens."""

    text: str
    logprobs: tuple[TokenLogprobs, ...]


StreamEvent: TypeAlias = str | Scored | Thought | GenerationResult
"""Text of the answer, text of the thoughts before it, or the answer, which ends the stream."""
