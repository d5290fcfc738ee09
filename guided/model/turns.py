"""Turns and tools in the form that chat templates take, and the texts in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from guided.errors import RequestError
from guided.spec import Message, Tool

__all__ = [
    "Ending",
    "change_texts",
    "change_thoughts",
    "changed_content",
    "end_in_content",
    "texts_in",
    "turn_of",
]

_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")
"""The names by which templates know the thoughts of a turn: those of Qwen, GLM and Nemotron, of
Gemma 4, and of gpt-oss and LFM."""


class Ending(Enum):
    """How a rendered conversation ends."""

    NEXT_TURN = "next turn"
    """With the beginning of the model's turn."""
    LAST_TURN = "last turn"
    """With the last turn, which is over."""
    INSIDE = "inside"
    """With the content of the last turn, which the model continues."""


def end_in_content(text: str, content: str) -> str:
    """Return a conversation that was rendered up to the content of its last turn.

    It ends as the content does: white space that the template has trimmed there is put back. Raises
    RequestError for a template that changes the content otherwise.
    """
    if not text.endswith((content.lstrip(), content.strip())):
        raise changed_content()
    return text if text.endswith(content.lstrip()) else text + content[len(content.rstrip()) :]


def changed_content() -> RequestError:
    """Return the error for a template that does not leave the content of the last turn as it is."""
    return RequestError(
        "the chat template changes the last message, so that it cannot be continued",
        field="messages",
        hint="leave out what the template takes for a sign, or end with a message of the user",
    )


def turn_of(turn: Message, *, arguments_as_text: bool = False) -> dict[str, Any]:
    """Return a message as templates take it, with arguments of calls as objects or JSON text."""
    said: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.role == "developer":
        said["role"] = "system"
    if turn.tool_calls:
        said["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {
                    "name": call.name,
                    "arguments": call.arguments
                    if arguments_as_text
                    else json.loads(call.arguments),
                },
            }
            for call in turn.tool_calls
        ]
    if turn.tool_call_id:
        said["tool_call_id"] = turn.tool_call_id
    if turn.reasoning:
        said |= dict.fromkeys(_THOUGHTS, turn.reasoning)
    return said


def texts_in(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield all texts that callers wrote: contents, thoughts, arguments of calls, descriptions and
    schemas of tools.

    Only these may spell a control token that the template did not mean.
    """
    for turn in messages:
        yield turn.content
        yield turn.reasoning
        for call in turn.tool_calls:
            yield from _texts_of(call.arguments)
    for tool in tools:
        yield tool.description
        yield from _texts_of(tool.schema)


def _texts_of(text: str) -> Iterator[str]:
    """Yield names and texts in JSON as a template gets them: without escapes."""
    left = [json.loads(text)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += (*value, *value.values())


def change_thoughts(said: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return a message with the thoughts in it changed, if it has any."""
    return {name: change(value) if name in _THOUGHTS else value for name, value in said.items()}


def change_texts(said: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return a message or a tool with the texts in it changed, including names of arguments, but
    without thoughts.
    """
    made: dict[str, Any] = {}
    for name, value in said.items():
        match name:
            case "content" | "description":
                made[name] = change(value)
            case "arguments" | "parameters":
                made[name] = _all_changed(value, change)
            case "tool_calls":
                made[name] = [change_texts(call, change) for call in value]
            case "function":
                made[name] = change_texts(value, change)
            case _:  # thoughts; a role, a name, an id: none of the latter can spell a token
                made[name] = value
    return made


def _all_changed(value: Any, change: Callable[[str], str]) -> Any:
    """Apply ``change`` to every string in a JSON value, including names of members."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_all_changed(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): _all_changed(item, change) for name, item in value.items()}
    return value
