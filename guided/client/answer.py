"""What the client hands back: one answer, or the outcome of one request of a batch."""

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
    """One of the answers to a request that asked for several."""

    index: int
    """Which of the drawn answers it is, or which of the beams by their score; from 0."""
    value: T | None
    """As of an ``Answer``; ``None`` too where ``error`` says why there is none."""
    text: str
    finish_reason: FinishReason
    num_tokens: int
    """Tokens of the text, forced ones included."""
    score: float | None
    """By which the best are found, higher is better; ``None`` where only one was asked for."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    error: AnswerValidationError | None = None
    """Why its type refuses the text."""
    tool_calls: tuple[ToolCall, ...] = ()
    """As of an ``Answer``."""
    content: str = ""
    """As of an ``Answer``."""
    reasoning: str = ""
    """As of an ``Answer``."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One answer: its value and the text it was read from.

    Where several were asked for it is the first of them that its type takes.
    """

    value: T
    """An instance of the response model; else the parsed JSON of a schema; else the text. ``None``
    where the answer calls tools."""
    text: str
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """From the moment the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each token of the answer, those of a stop sequence included; only where asked for."""
    timing: Timing = field(default_factory=Timing)
    candidates: tuple[Candidate[T], ...] = ()
    """All answers, this one among them: as drawn, or the best first with ``best_of`` or ``beams``.
    Fewer than ``n`` where beams found no more."""
    verification: Verification = Verification.COUPLED
    """What decided which guessed tokens stayed."""
    request_id: str = ""
    """Name of the request in the server's log."""
    tries: int = 1
    """How often it was asked for until its type took it (``max_retries``); ``usage`` is that of
    all tries, all else of the last one."""
    tool_calls: tuple[ToolCall, ...] = ()
    """What it calls, of the tools that the request gave. A call that the budget cut short fits its
    schema and is none to make: see ``finish_reason``. One that a stop breaks off is in ``text``
    alone."""
    content: str = ""
    """Its text beside calls; only where the request gave tools."""
    reasoning: str = ""
    """What the model thought before; only where ``reasoning`` was asked for. Its tokens are in
    ``usage.reasoning_tokens``, and come first in ``logprobs``."""
    report: SchemaReport | None = None
    """How far it was held to its schema; only where asked for."""

    @property
    def message(self) -> Message:
        """The answer as a turn of the conversation that goes on after it, its calls included."""
        said = self.content or ("" if self.tool_calls else self.text)
        return Message("assistant", said, self.tool_calls)


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """The outcome of one request of a batch; whatever happens, each has one."""

    index: int
    """Position of the request in the batch, from 0."""
    outcome: Answer[T] | GuidedError
