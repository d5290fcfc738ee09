"""Prompts, in the forms in which a caller may give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from guided.errors import RequestError
from guided.spec import EnginePrompt, Message, TokenPrompt

__all__ = ["Prompt", "RawPrompt", "TokenPrompt", "spoken_prompt"]


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text that is passed to the model unchanged, without the chat template."""

    text: str


Prompt: TypeAlias = str | Sequence[Message | Mapping[str, object]] | RawPrompt | TokenPrompt
"""A string is one turn of the user in the model's chat template, the form that chat models are
trained on; several turns are messages, or mappings of exactly ``role`` and ``content``, which is a
text or a list of parts of type ``text``; a ``RawPrompt`` is text to be continued,
and a ``TokenPrompt`` has tokens, which are read as they are."""


def spoken_prompt(prompt: Prompt) -> EnginePrompt:
    """Return the prompt for the engine: plain text, tokens, or the turns of a conversation."""
    match prompt:
        case RawPrompt(str(text)):
            return text
        case TokenPrompt():
            return prompt
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
        turn = Message(turn["role"], _said_text(turn["content"], index))
    if not isinstance(turn, Message):
        raise RequestError(
            f"message {index} is {turn!r}, which is not a guided.Message",
            field="messages",
            hint="write guided.Message(role, content), or a mapping of just these two",
        )
    # The content may be parts in spite of its declared type, which nothing has checked.
    text = _said_text(turn.content, index)
    return turn if text is turn.content else replace(turn, content=text)


def _said_text(content: object, number: int) -> str:
    """Return the text of a message, which is given as a text or as parts of text, like those of
    OpenAI's clients.

    ``number`` is the message's number, for errors.
    """
    match content:
        case str():
            return content
        case list() | tuple():
            return "".join(_part(part, at, number) for at, part in enumerate(content))
    raise RequestError(
        f"the content of message {number} is {content!r:.200}, which is neither a string nor a "
        "list of parts",
        field="messages.content",
        hint="pass it as text",
    )


def _part(part: object, at: int, number: int) -> str:
    where = f"part {at} of message {number}"
    match part:
        case {"type": "text", "text": str(text), **more} if all(v is None for v in more.values()):
            return text
        case {"type": str(kind)} if kind != "text":
            raise RequestError(
                f"{where} is of type {kind[:80]!r}, but models take only text",
                field="messages.content",
                hint="leave it out",
            )
    raise RequestError(
        f"{where} is {part!r:.200}, which is not a part of type text",
        field="messages.content",
        hint='write {"type": "text", "text": ...} and nothing else',
    )


def _no_prompt(prompt: object) -> RequestError:
    return RequestError(
        f"{prompt!r} is not a prompt",
        field="prompt",
        hint="pass a string, a list of guided.Message, a guided.RawPrompt of a string, or a "
        "guided.TokenPrompt of tokens",
    )
