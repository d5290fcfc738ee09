"""What the engine hands back for a request."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import GuidedError
from guided.spec import GenerationResult

__all__ = ["Finished"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one request: its answer, or the error that ended it."""

    request_id: str
    outcome: GenerationResult | GuidedError
