"""Conversations as OpenAI's clients send them, and as the engine takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message, ToolCall
from guided_service.http.calls_made import CallsMade
from guided_service.http.fields import Given, Listed
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["RefusalPart", "Turn", "conversation", "written_arguments"]


class TextPart(Given):
    """A part of what a message says; text is the only kind."""

    type: Literal["text"]
    text: str


class RefusalPart(Given):
    """A part in which the assistant said that it would not."""

    type: Literal["refusal"]
    refusal: str


Content: TypeAlias = Annotated[str | Listed[TextPart], OneOfKinds()]
Said: TypeAlias = Annotated[
    str | Listed[Annotated[TextPart | RefusalPart, OneOf("type")]], OneOfKinds()
]


class SystemTurn(Given):
    """What the model is to do."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None
    """Templates know no names, so all messages of a role have the same or none."""


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
    parsed_arguments: Any = None
    """The same again, as openai's ``parse`` puts it beside; not looked at."""


class CallMade(Given):
    """A call that the assistant made."""

    id: str
    type: Literal["function"] = "function"
    function: Called
    index: int | None = None
    """Its place in the stream that it came in; not looked at, as calls stand in order."""


class AssistantTurn(Given):
    """What the model said, or called."""

    role: Literal["assistant"]
    content: Said | None = None
    refusal: str | None = None
    """What it said instead of a content."""
    parsed: Any = None
    """The content again, as openai's ``parse`` puts it beside; not looked at."""
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
    name: str | None = None
    """That of the function that was called."""


Turn: TypeAlias = Annotated[SystemTurn | UserTurn | AssistantTurn | ToolTurn, OneOf("role")]


def conversation(turns: list[Turn]) -> tuple[Message, ...]:
    """The messages for the chat template; raises RequestError for what they cannot tell."""
    _check_names(turns)
    calls = CallsMade("tool_call_id")
    return tuple(_told(turn, f"messages[{at}]", calls) for at, turn in enumerate(turns))


def _told(turn: Turn, place: str, calls: CallsMade) -> Message:
    match turn:
        case SystemTurn():
            return Message("system", _joined(turn.content))
        case UserTurn():
            return Message("user", _joined(turn.content))
        case AssistantTurn():
            made = tuple(_call(call, place) for call in turn.tool_calls or ())
            calls.add(made)
            return Message("assistant", _said(turn, place), made)
        case ToolTurn():
            calls.check_answer(turn.tool_call_id, turn.name, place)
            return Message("tool", _joined(turn.content), tool_call_id=turn.tool_call_id)


def _joined(content: str | Sequence[TextPart | RefusalPart] | None) -> str:
    """The text of all parts, as if they had been one."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _said(turn: AssistantTurn, place: str) -> str:
    content = _joined(turn.content)
    if content and turn.refusal:
        raise RequestError(
            f"{place} has a content and a refusal, which is what was said instead of one",
            field=f"{place}.refusal",
            hint="leave one out",
        )
    return content or turn.refusal or ""


def _call(call: CallMade, place: str) -> ToolCall:
    arguments = written_arguments(call.function.arguments, call.id, f"{place}.tool_calls")
    return ToolCall(call.function.name, arguments, call.id)


def written_arguments(told: str, call_id: str, field: str) -> str:
    """The arguments of a call on one line, as calls are written here; raises RequestError."""
    try:
        # Another parser than the body's: what a client got is what it sends back.
        written = json.dumps(json.loads(told), ensure_ascii=False, separators=(",", ":"))
        written.encode()  # raises for half a surrogate pair, which no text holds
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"the arguments of the call {call_id[:80]!r} are not JSON", field=field
        ) from error
    return written


def _check_names(turns: list[Turn]) -> None:
    """Raise RequestError where names tell apart who speaks, which no template does."""
    found: dict[str, str] = {}
    for at, turn in enumerate(turns):
        if isinstance(turn, ToolTurn) or not turn.name:
            continue
        role = "system" if isinstance(turn, SystemTurn) else turn.role
        if found.setdefault(role, turn.name) != turn.name:
            raise RequestError(
                f"messages[{at}].name is {turn.name[:80]!r}, and a message of the same role before "
                f"it is by {found[role][:80]!r}, which chat templates do not tell apart",
                field=f"messages[{at}].name",
                hint="leave names out, and write into the content who speaks",
            )
