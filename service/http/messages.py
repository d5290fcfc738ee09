"""Conversations as OpenAI's clients send them, and as the model's chat template takes them.

The template knows system, user and assistant. Developers are a system; what the assistant called
stands in its message as it wrote it; what tools gave back is told by the user, in the form in which
the templates of Qwen and Hermes tell it::

    assistant, tool_calls  →  assistant: text of the calls
    tool, tool             →  user: <tool_response>…</tool_response> for each, one message
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message
from guided_service.http.fields import Given
from guided_service.http.tools import END, header_of

__all__ = [
    "AssistantTurn",
    "CallMade",
    "Called",
    "SystemTurn",
    "TextPart",
    "ToolTurn",
    "Turn",
    "UserTurn",
    "conversation",
]


class TextPart(Given):
    """A part of what a message says; text is the only kind."""

    type: Literal["text"]
    text: str


Content: TypeAlias = str | list[TextPart]


class SystemTurn(Given):
    """What the model is to do."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None
    """Not looked at: templates know no names."""


class UserTurn(Given):
    """What somebody says to it."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class Called(Given):
    """What was called."""

    name: str
    arguments: str
    """JSON, as the call was given."""


class CallMade(Given):
    """A call that the assistant made."""

    id: str
    type: Literal["function"] = "function"
    function: Called


class AssistantTurn(Given):
    """What the model said, or called."""

    role: Literal["assistant"]
    content: Content | None = None
    refusal: None = None
    audio: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    function_call: None = None
    tool_calls: list[CallMade] | None = None
    name: str | None = None


class ToolTurn(Given):
    """What a call gave back."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str


Turn: TypeAlias = Annotated[
    SystemTurn | UserTurn | AssistantTurn | ToolTurn, Field(discriminator="role")
]


def conversation(turns: list[Turn], tools: str | None = None) -> tuple[Message, ...]:
    """The messages for the chat template, with what the model is to be told of ``tools``.

    Raises RequestError for answers of tools that nobody called.
    """
    _check_answers(turns)
    messages: list[Message] = []
    for number, turn in enumerate(turns):
        match turn:
            case SystemTurn():
                messages.append(Message("system", _text(turn.content)))
            case UserTurn():
                messages.append(Message("user", _text(turn.content)))
            case AssistantTurn():
                messages.append(Message("assistant", _said(turn)))
            case ToolTurn():
                told = f"<tool_response>\n{_text(turn.content)}\n</tool_response>"
                if number and isinstance(turns[number - 1], ToolTurn):
                    told = f"{messages.pop().content}\n{told}"
                messages.append(Message("user", told))
    return tuple(messages if tools is None else _with_tools(messages, tools))


def _with_tools(messages: list[Message], tools: str) -> list[Message]:
    if messages and messages[0].role == "system":
        first, *others = messages
        return [Message("system", f"{first.content}\n\n{tools}"), *others]
    return [Message("system", tools), *messages]


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def _said(turn: AssistantTurn) -> str:
    calls = [f"{header_of(one.function.name)}{_argued(one)}{END}" for one in turn.tool_calls or []]
    said = _text(turn.content)
    return "\n".join([*([said] if said else []), *calls])


def _argued(call: CallMade) -> str:
    """The arguments of a call on one line, as calls are written here."""
    try:
        # Another parser than the body's: what a client got is what it sends back.
        read = json.loads(call.function.arguments)
        written = json.dumps(read, ensure_ascii=False, separators=(",", ":"))
        written.encode()  # raises for half a surrogate pair, which no text holds
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"the arguments of the call {call.id[:80]!r} are not JSON", field="messages"
        ) from error
    return written


def _check_answers(turns: list[Turn]) -> None:
    called: set[str] = set()
    for number, turn in enumerate(turns):
        if isinstance(turn, AssistantTurn):
            called.update(call.id for call in turn.tool_calls or [])
        elif isinstance(turn, ToolTurn) and turn.tool_call_id not in called:
            raise RequestError(
                f"messages[{number}] answers the call {turn.tool_call_id[:80]!r}, which no message "
                "before it made",
                field=f"messages[{number}].tool_call_id",
            )
