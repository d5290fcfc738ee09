"""What the client returns: one answer, or the outcome of one request of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from guided.errors import AnswerValidationError, GuidedError
from guided.spec import (
    FinishReason,
    Message,
    SchemaReport,
    Timing,
    TokenLogprobs,
    ToolCall,
    Usage,
    Verification,
)

__all__ = ["Answer", "Candidate", "Completed"]

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """One of several answers to a request."""

    index: int
    """Its number among the drawn answers, or among the beams by score; from 0."""
    value: T | None
    """As in an ``Answer``; also ``None`` where ``error`` says why."""
    text: str
    finish_reason: FinishReason
    num_tokens: int
    """Number of tokens of the text, forced ones included."""
    score: float | None
    """Ranks the answers, higher is better; ``None`` if only one was requested."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    error: AnswerValidationError | None = None
    """The error with which its type refuses the text."""
    tool_calls: tuple[ToolCall, ...] = ()
    """As in an ``Answer``."""
    content: str = ""
    """As in an ``Answer``."""
    reasoning: str = ""
    """As in an ``Answer``."""
    usage: Usage | None = None
    """Its own tokens and drafts; what several answers share, as the prompt and the model calls, is
    only in the usage of the ``Answer``. ``None`` for beams."""
    stop_string: str = ""
    """As in an ``Answer``."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One answer: its value and the text it was read from.

    Of several answers it is the first that its type accepts.
    """

    value: T
    """An instance of the response model; without one the parsed JSON of a schema; without a schema
    the text. ``None`` if the answer calls tools."""
    text: str
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """Seconds from when the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each token of the answer, including those of a stop sequence; only if requested."""
    timing: Timing = field(default_factory=Timing)
    candidates: tuple[Candidate[T], ...] = ()
    """All answers, this one among them: as drawn, or the best first with ``best_of`` or ``beams``.
    Fewer than ``n`` if the beams found no more."""
    verification: Verification = Verification.COUPLED
    """The rule that decided which drafted tokens were kept."""
    request_id: str = ""
    """Name of the request in the server's log."""
    tries: int = 1
    """How often it was requested until its type accepted it (``max_retries``); ``usage`` is that of
    all tries, everything else that of the last one."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Its calls of the request's tools, each with the ``value`` that its type makes of its
    arguments. A call that the budget cut short fits its schema but should not be made: see
    ``finish_reason``. A call that a stop breaks off is only in ``text``."""
    content: str = ""
    """Its text outside calls; only if the request gave tools."""
    reasoning: str = ""
    """The model's thoughts before the answer; only if ``reasoning`` was requested. Their tokens are
    counted in ``usage.reasoning_tokens`` and come first in ``logprobs``."""
    stop_string: str = ""
    """The string of ``stop`` that ended the answer; empty if none did."""
    report: SchemaReport | None = None
    """How far the answer was held to its schema; only if requested."""
    begun: str = ""
    """The beginning of the message that it continues (``continue_final_message``), which ``text``
    leaves out and ``value`` has, unless that is text."""

    @property
    def message(self) -> Message:
        """The answer, with its thoughts and calls, as a turn of the conversation that continues
        after it."""
        said = self.content or ("" if self.tool_calls else self.begun + self.text)
        return Message("assistant", said, self.tool_calls, reasoning=self.reasoning)


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """The outcome of one request of a batch; every request has one, whatever happens."""

    index: int
    """Position of the request in the batch, from 0."""
    outcome: Answer[T] | GuidedError
