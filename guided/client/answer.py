"""What the client hands back: one answer, or the outcome of one request of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from guided.errors import GuidedError
from guided.spec import FinishReason, Timing, TokenLogprobs, Usage

__all__ = ["Answer", "Completed"]

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One answer: its value and the text it was read from."""

    value: T
    """An instance of the response model; else the parsed JSON of a schema; else the text."""
    text: str
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """From the moment the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each token of the answer, those of a stop sequence included; only where asked for."""
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """The outcome of one request of a batch."""

    index: int
    """Position of the request in the batch, from 0."""
    outcome: Answer[T] | GuidedError
