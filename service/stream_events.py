"""The events in the stream of one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from guided.spec import GenerationResult, TokenLogprobs

__all__ = ["Outbox", "Scored", "StreamEvent", "Thought"]


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


class Outbox:
    """Joins untaken text into one piece; holds at most the text of one answer.

    A slow reader gets longer pieces, and the engine never waits.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._logprobs: list[TokenLogprobs] = []
        self._is_closed = False
        self._has_news = asyncio.Event()

    def put(self, text: str, *, is_thought: bool = False) -> None:
        """Add text of the answer, or of the thoughts before it."""
        (self._thoughts if is_thought else self._pieces).append(text)
        self._has_news.set()

    def put_logprobs(self, logprobs: Iterable[TokenLogprobs]) -> None:
        """Add the log-probabilities of the tokens of the next text."""
        self._logprobs.extend(logprobs)

    def close(self) -> None:
        """End the text: no more will come."""
        self._is_closed = True
        self._has_news.set()

    async def take(self) -> str | Scored | Thought:
        """Wait for news and take all of one kind, thoughts first; empty once it is closed and
        nothing is left."""
        await self._has_news.wait()
        taken: str | Scored | Thought
        if self._thoughts:
            taken = Thought("".join(self._thoughts))
            self._thoughts.clear()
        else:
            taken = "".join(self._pieces)
            self._pieces.clear()
            if self._logprobs:
                taken = Scored(taken, tuple(self._logprobs))
                self._logprobs.clear()
        if not self._is_closed and not self._pieces:
            self._has_news.clear()
        return taken
