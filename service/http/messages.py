"""Conversations as OpenAI's clients send them, and as the engine takes them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message, ToolCall
from guided_service.http.fields import Given, Listed
from guided_service.http.unions import OneOf, OneOfKinds

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


Content: TypeAlias = Annotated[str | Listed[TextPart], OneOfKinds()]


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
    tool_calls: Listed[CallMade] | None = None
    reasoning_content: str | None = None
    """What it thought before, as it was told; templates leave it out, so it is not looked at."""
    name: str | None = None


class ToolTurn(Given):
    """What a call gave back."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str


Turn: TypeAlias = Annotated[SystemTurn | UserTurn | AssistantTurn | ToolTurn, OneOf("role")]


def conversation(turns: list[Turn]) -> tuple[Message, ...]:
    """The messages for the chat template; raises RequestError for answers to calls of nobody's."""
    _check_answers(turns)
    messages: list[Message] = []
    for turn in turns:
        match turn:
            case SystemTurn():
                messages.append(Message("system", _text(turn.content)))
            case UserTurn():
                messages.append(Message("user", _text(turn.content)))
            case AssistantTurn():
                calls = tuple(map(_call, turn.tool_calls or ()))
                messages.append(Message("assistant", _text(turn.content), calls))
            case ToolTurn():
                said = _text(turn.content)
                messages.append(Message("tool", said, tool_call_id=turn.tool_call_id))
    return tuple(messages)


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def _call(call: CallMade) -> ToolCall:
    return ToolCall(call.function.name, _argued(call), call.id)


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
