"""When a request is served, and until when: its turn among others, and its deadline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.errors import DeadlineExceededError
from guided.spec import GenerationRequest

__all__ = ["PATIENCE_SECONDS", "Urgency"]

PATIENCE_SECONDS: Final = 10.0
"""What a level of priority is worth: who waited so much longer goes before one level more."""


@dataclass(frozen=True, slots=True)
class Urgency:
    """Moments are seconds of the clock that never goes back."""

    turn: float
    """Who has the smaller one is served first, and gives way last."""
    deadline: float | None = None
    """When the answer has to be there."""

    @classmethod
    def of(cls, request: GenerationRequest, received: float) -> Urgency:
        """A priority counts as having come so much earlier or later, so nobody waits for ever."""
        return cls(
            turn=received + PATIENCE_SECONDS * request.priority,
            deadline=None if request.deadline is None else received + request.deadline,
        )

    def check(self, moment: float) -> None:
        """Raise DeadlineExceededError where a model call would begin the answer too late."""
        if self.is_late(moment):
            raise DeadlineExceededError(
                "the deadline came before the model had chosen anything of the answer",
                hint="allow more time, or send less at once",
            )

    def is_late(self, moment: float) -> bool:
        """Whether the answer would be too late at this moment."""
        return self.deadline is not None and self.deadline < moment
