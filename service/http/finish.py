"""Why an answer ended, in the words of OpenAI's API.

``length`` makes clients throw an answer away: ``openai``'s ``parse`` raises an error, and so do
instructor and others. So it is said of text that breaks off, and not of an answer that fits its
constraint, although the budget had to close it. Calls of tools are the exception: a call that the
budget closed fits its schema, ``{"city":""}`` say, and is none to make. The exact reason stands
beside, as ``guided.finish_reason``.
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
    """What is told of an answer.

    ``is_structured``: it was closed to a whole answer, and not in the middle of free text.
    ``is_cut_call``: a call in it is none to make.
    """
    if is_cut_call:
        return "length"
    if reason.is_cut_short and not (reason in _CLOSED and is_structured):
        return "length"
    return "tool_calls" if num_calls else "stop"
