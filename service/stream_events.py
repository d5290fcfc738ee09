"""What a stream of one answer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.spec import GenerationResult

__all__ = ["StreamEvent", "Thought"]


@dataclass(frozen=True, slots=True)
class Thought:
    """Text of the thoughts before an answer."""

    text: str


StreamEvent: TypeAlias = str | Thought | GenerationResult
"""Text of the answer; of the thoughts before it; and the answer, which ends the stream."""
