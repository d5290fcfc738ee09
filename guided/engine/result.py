"""What the engine hands back for a request."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import GuidedError
from guided.spec import GenerationResult

__all__ = ["Delta", "Finished"]


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that one step added to an answer which is streamed; all of them are its text."""

    request_id: str
    text: str
    """Whole characters, at least one."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one request: its answer, or the error that ended it."""

    request_id: str
    outcome: GenerationResult | GuidedError
