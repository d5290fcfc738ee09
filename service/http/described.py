"""Shows the model the descriptions of answers, in the system message."""

from __future__ import annotations

from dataclasses import replace

from guided.spec import Message
from guided_service.http.constraints import Wanted

__all__ = ["described"]


def described(messages: tuple[Message, ...], wanted: Wanted | None) -> tuple[Message, ...]:
    """Return the conversation with the description of its answer, if any, in the system message."""
    if wanted is None or not wanted.description or not messages:
        return messages  # the engine's request refuses a conversation without messages
    note = f"Answer with JSON of this description:\n{wanted.description}"
    first, *others = messages
    if first.role != "system":
        return (Message("system", note), *messages)
    return (replace(first, content=f"{first.content}\n\n{note}"), *others)
