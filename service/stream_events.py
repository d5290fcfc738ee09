"""The events in the stream of one request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from guided.spec import GenerationResult
from guided.spec.delta import Delta

__all__ = ["Outbox", "StreamEvent"]

StreamEvent: TypeAlias = Delta | GenerationResult
"""What was added to an answer, or the whole result, which ends the stream."""


@dataclass(slots=True)
class _Untaken:
    """The untaken deltas of one answer."""

    thoughts: list[Delta] = field(default_factory=list)
    texts: list[Delta] = field(default_factory=list)

    def take(self) -> Delta:
        """Take all of one kind as one delta, thoughts first."""
        deltas, (self.thoughts, self.texts) = (
            (self.thoughts, ([], self.texts)) if self.thoughts else (self.texts, ([], []))
        )
        return replace(
            deltas[-1],
            text="".join([each.text for each in deltas]),
            logprobs=tuple(chain.from_iterable([each.logprobs for each in deltas])),
        )


class Outbox:
    """Joins the untaken deltas of each answer; holds at most what the answers say.

    A slow reader gets longer pieces, and the engine never waits.
    """

    def __init__(self) -> None:
        self._answers: dict[int, _Untaken] = {}
        """Answers with untaken deltas, by number; the one that has waited longest comes first."""
        self._is_closed = False
        self._has_news = asyncio.Event()

    def put(self, delta: Delta) -> None:
        """Add what was added to an answer."""
        untaken = self._answers.setdefault(delta.index, _Untaken())
        (untaken.thoughts if delta.is_thought else untaken.texts).append(delta)
        self._has_news.set()

    def close(self) -> None:
        """End the stream: no more will come."""
        self._is_closed = True
        self._has_news.set()

    async def take(self) -> Delta | None:
        """Wait for news and take all of one kind of one answer; ``None`` once it is closed and
        nothing is left."""
        await self._has_news.wait()
        if not self._answers:
            return None
        index = next(iter(self._answers))
        untaken = self._answers.pop(index)
        taken = untaken.take()
        if untaken.texts:
            self._answers[index] = untaken
        if not self._is_closed and not self._answers:
            self._has_news.clear()
        return taken
