"""Prompts, in the forms in which a caller may give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from guided.client.content import said_text
from guided.errors import RequestError
from guided.spec import Message

__all__ = ["Prompt", "RawPrompt", "spoken_prompt"]


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text that is passed to the model unchanged, without the chat template."""

    text: str


Prompt: TypeAlias = str | Sequence[Message | Mapping[str, object]] | RawPrompt
"""A string is one turn of the user in the model's chat template, the form that chat models are
trained on; several turns are messages, or mappings of exactly ``role`` and ``content``, which is a
text or a list of parts of type ``text``; a ``RawPrompt`` is text to be continued."""


def spoken_prompt(prompt: Prompt) -> str | tuple[Message, ...]:
    """Return the prompt for the engine: plain text, or the turns of a conversation."""
    match prompt:
        case RawPrompt(str(text)):
            return text
        case "":
            return ""
        case str():
            return (Message("user", prompt),)
        case bytes() | bytearray() | Mapping():
            raise _no_prompt(prompt)
        case Iterable():
            return tuple(_spoken_turn(index, turn) for index, turn in enumerate(prompt))
        case _:
            raise _no_prompt(prompt)


def _spoken_turn(index: int, turn: object) -> Message:
    if isinstance(turn, Mapping) and set(turn) == {"role", "content"}:
        turn = Message(turn["role"], said_text(turn["content"], index))
    if not isinstance(turn, Message):
        raise RequestError(
            f"message {index} is {turn!r}, which is not a guided.Message",
            field="messages",
            hint="write guided.Message(role, content), or a mapping of just these two",
        )
    # The content may be parts in spite of its declared type, which nothing has checked.
    text = said_text(turn.content, index)
    return turn if text is turn.content else replace(turn, content=text)


def _no_prompt(prompt: object) -> RequestError:
    return RequestError(
        f"{prompt!r} is not a prompt",
        field="prompt",
        hint="pass a string, a list of guided.Message, or a guided.RawPrompt of a string",
    )
