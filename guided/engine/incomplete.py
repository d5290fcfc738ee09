"""Refuses answers that were cut short, where their request makes that an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.errors import IncompleteAnswerError
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    OnIncomplete,
)
from guided.spec.tool_format import strip_marks

__all__ = ["check_complete"]

_MORE_TIME: Final = "allow more time, or take the answer as it is closed"
_MORE_TOKENS: Final = "allow more tokens, or take the answer as it is closed"
_HINTS: Final = {FinishReason.DEADLINE: _MORE_TIME, FinishReason.DEADLINE_CLOSED: _MORE_TIME}


def check_complete(result: GenerationResult, request: GenerationRequest) -> None:
    """Raise IncompleteAnswerError if an answer was cut short and the request forbids that."""
    if request.on_incomplete is not OnIncomplete.ERROR:
        return
    # Every answer that would be returned has to be whole; those that ``best_of`` drops need not.
    answers: Sequence[CandidateResult | GenerationResult] = result.candidates or (result,)
    several = len(answers)
    for number, answer in enumerate(answers, start=1):
        reason = answer.finish_reason
        if reason.is_cut_short:
            which = f"answer {number} of {several}" if several > 1 else "the answer"
            raise IncompleteAnswerError(
                f"{which} was cut short after {len(answer.tokens)} tokens ({reason.value})",
                text=strip_marks(answer.text) if request.tools is not None else answer.text,
                finish_reason=reason,
                usage=result.usage,
                hint=_HINTS.get(reason, _MORE_TOKENS),
            )
