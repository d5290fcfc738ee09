"""Maps why an answer ended to the words of OpenAI's API.

``length`` makes clients discard an answer: ``openai``'s ``parse`` raises an error, and so do
instructor and others. So it is used for text that breaks off, and not for an answer that fits its
constraint although the budget had to close it. Tool calls are the exception: a call that the budget
closed fits its schema, for example ``{"city":""}``, but should not be made. The exact reason is
given as ``guided.finish_reason``.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from guided.spec import FinishReason

__all__ = ["Finish", "finish_of"]

Finish: TypeAlias = Literal["stop", "length", "tool_calls"]

_CLOSED: Final = (FinishReason.LENGTH_CLOSED, FinishReason.DEADLINE_CLOSED)


def finish_of(
    reason: FinishReason, *, is_structured: bool, num_calls: int = 0, is_cut_call: bool = False
) -> Finish:
    """Return the finish reason of an answer.

    ``is_structured``: it was closed to a whole answer, not in the middle of free text.
    ``is_cut_call``: a call in it should not be made.
    """
    if is_cut_call:
        return "length"
    if reason.is_cut_short and not (reason in _CLOSED and is_structured):
        return "length"
    return "tool_calls" if num_calls else "stop"
