"""Refusing answers that were cut short, where the request asks for that."""

from __future__ import annotations

from collections.abc import Sequence

from guided.errors import IncompleteAnswerError
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    OnIncomplete,
)

__all__ = ["checked"]

_WAYS_OUT = {
    FinishReason.DEADLINE: "allow more time, or take the answer as it is closed",
    FinishReason.DEADLINE_CLOSED: "allow more time, or take the answer as it is closed",
}
_MORE_TOKENS = "allow more tokens, or take the answer as it is closed"


def checked(result: GenerationResult, request: GenerationRequest) -> GenerationResult:
    """The result itself; ``IncompleteAnswerError`` where an answer in it is not to be given."""
    if request.on_incomplete is OnIncomplete.CLOSE:
        return result
    answers: Sequence[CandidateResult | GenerationResult] = result.candidates or (result,)
    several = len(answers)
    for number, answer in enumerate(answers, start=1):
        reason = answer.finish_reason
        if reason.is_cut_short:
            which = f"answer {number} of {several}" if several > 1 else "the answer"
            raise IncompleteAnswerError(
                f"{which} was cut short after {len(answer.tokens)} tokens ({reason.value})",
                text=answer.text,
                finish_reason=reason,
                usage=result.usage,
                hint=_WAYS_OUT.get(reason, _MORE_TOKENS),
            )
    return result
