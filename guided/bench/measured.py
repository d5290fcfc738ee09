"""What was measured of one request."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from guided.spec import FinishReason, Timing, Usage

__all__ = ["Measured", "Way"]


class Way(StrEnum):
    """How the requests of a workload are answered."""

    GUIDED = "guided"
    """As they ask for: forced runs and guesses."""
    PLAIN = "plain"
    """By masks alone: a model call for each token."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One request and what became of it."""

    name: str
    seconds: float
    """From sending the request to having its answer, as its caller sees it."""
    text: str = ""
    finish_reason: FinishReason | None = None
    """``None`` where there is no answer."""
    usage: Usage = field(default_factory=Usage)
    timing: Timing = field(default_factory=Timing)
    error: str | None = None
    """Why there is no answer."""
