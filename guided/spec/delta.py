"""What grows in an answer that is streamed, from the engine to the faces of the service."""

from __future__ import annotations

from dataclasses import dataclass

from guided.spec.request import GenerationRequest
from guided.spec.result import CandidateResult, TokenLogprobs

__all__ = ["Delta", "can_stream"]


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that was added to a streamed answer; all of its deltas together are its text."""

    request_id: str
    text: str
    """Whole characters; empty only if the answer ends without any more."""
    is_thought: bool = False
    """Whether it belongs to the thoughts before the answer."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """Log-probabilities of the tokens since the last delta of the answer, if requested, including
    tokens whose text is held back."""
    index: int = 0
    """The number of the answer among those drawn."""
    ended: CandidateResult | None = None
    """The whole answer, if it is one of several and ends here."""


def can_stream(request: GenerationRequest) -> bool:
    """Whether what an answer has said is certain before all of them have ended.

    Beams change their texts, and which of ``best_of`` answers are returned is known at the end.
    """
    return request.best_of is None and request.beams is None
