"""Turns conversations as OpenAI's clients send them into messages for the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message, ToolCall
from guided.spec.exact_json import check_text_values
from guided.spec.tools import INPUT
from guided_service.http.constraints import Wanted
from guided_service.http.fields import Given, Listed
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = [
    "CallsMade",
    "RefusalPart",
    "Turn",
    "conversation",
    "described",
    "input_arguments",
    "written_arguments",
]


class TextPart(Given):
    """A part of a message's content; text is the only kind."""

    type: Literal["text"]
    text: str


class RefusalPart(Given):
    """A part in which the assistant refused."""

    type: Literal["refusal"]
    refusal: str


Content: TypeAlias = Annotated[str | Listed[TextPart], OneOfKinds()]
Said: TypeAlias = Annotated[
    str | Listed[Annotated[TextPart | RefusalPart, OneOf("type")]], OneOfKinds()
]


class SystemTurn(Given):
    """A message of instructions to the model."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None
    """Templates have no names, so all messages of a role must have the same name or none."""


class UserTurn(Given):
    """A message of a user."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class Called(Given):
    """A function call's name and arguments."""

    name: str
    arguments: str
    """JSON, as the call was sent to the client."""
    parsed_arguments: Any = None
    """The parsed arguments, which openai's ``parse`` adds; ignored."""


class CallMade(Given):
    """A call that the assistant made."""

    id: str
    type: Literal["function"] = "function"
    function: Called
    index: int | None = None
    """Its place in the stream that it came in; ignored, as the calls are in order."""


class CustomCalled(Given):
    """A custom tool's name and input."""

    name: str
    input: str


class CustomCallMade(Given):
    """A call of a custom tool that the assistant made."""

    id: str
    type: Literal["custom"]
    custom: CustomCalled
    index: int | None = None
    """Ignored, as for functions."""


class AssistantTurn(Given):
    """A message of the model: text, calls, or both."""

    role: Literal["assistant"]
    content: Said | None = None
    refusal: str | None = None
    """A refusal, said instead of a content."""
    parsed: Any = None
    """The parsed content, which openai's ``parse`` adds; ignored."""
    audio: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    function_call: None = None
    tool_calls: (
        Listed[Annotated[CallMade | CustomCallMade, OneOf("type", default="function")]] | None
    ) = None
    reasoning_content: str | None = None
    """The thoughts before the message, as returned."""
    reasoning: str | None = None
    """The same by its other name."""
    name: str | None = None


class ToolTurn(Given):
    """The result of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None
    """The name of the tool that was called."""


Turn: TypeAlias = Annotated[SystemTurn | UserTurn | AssistantTurn | ToolTurn, OneOf("role")]


def conversation(turns: list[Turn]) -> tuple[Message, ...]:
    """Return the messages for the chat template; raises RequestError for what it cannot express."""
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
            said, thoughts = _said(turn, place), _thoughts(turn, place)
            return Message("assistant", said, made, reasoning=thoughts)
        case ToolTurn():
            calls.check_answer(turn.tool_call_id, turn.name, place)
            return Message("tool", _joined(turn.content), tool_call_id=turn.tool_call_id)


def _joined(content: str | Sequence[TextPart | RefusalPart] | None) -> str:
    """Return the text of all parts joined."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _said(turn: AssistantTurn, place: str) -> str:
    content = _joined(turn.content)
    if content and turn.refusal:
        raise RequestError(
            f"{place} has both content and a refusal, which takes the place of content",
            field=f"{place}.refusal",
            hint="leave one out",
        )
    return content or turn.refusal or ""


def _thoughts(turn: AssistantTurn, place: str) -> str:
    if turn.reasoning and turn.reasoning_content not in (None, "", turn.reasoning):
        raise RequestError(
            f"{place} has two texts for its thoughts, of which reasoning and reasoning_content are "
            "two names",
            field=f"{place}.reasoning",
            hint="leave one out",
        )
    return turn.reasoning or turn.reasoning_content or ""


def _call(call: CallMade | CustomCallMade, place: str) -> ToolCall:
    if isinstance(call, CustomCallMade):
        return ToolCall(call.custom.name, input_arguments(call.custom.input), call.id)
    arguments = written_arguments(call.function.arguments, call.id, f"{place}.tool_calls")
    return ToolCall(call.function.name, arguments, call.id)


def written_arguments(told: str, call_id: str, field: str) -> str:
    """Return a call's arguments on one line, as calls are written here; raises RequestError."""
    check_text_values(told, f"the arguments of the call {call_id[:80]!r}", field)
    try:
        # Not the body's parser: the text must stay as the client received it.
        written = json.dumps(json.loads(told), ensure_ascii=False, separators=(",", ":"))
        written.encode()  # raises for half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"the arguments of the call {call_id[:80]!r} are not JSON", field=field
        ) from error
    return written


def input_arguments(told: str) -> str:
    """Return the arguments that a custom tool's call has here: its input, as the only one."""
    return json.dumps({INPUT: told}, ensure_ascii=False, separators=(",", ":"))


def _check_names(turns: list[Turn]) -> None:
    """Raise RequestError if names distinguish speakers of a role, which no template does."""
    found: dict[str, str] = {}
    for at, turn in enumerate(turns):
        if isinstance(turn, ToolTurn) or not turn.name:
            continue
        role = "system" if isinstance(turn, SystemTurn) else turn.role
        if found.setdefault(role, turn.name) != turn.name:
            raise RequestError(
                f"messages[{at}].name is {turn.name[:80]!r}, but an earlier message of its role is "
                f"by {found[role][:80]!r}, and chat templates do not tell them apart",
                field=f"messages[{at}].name",
                hint="leave names out, and say in the content who speaks",
            )


class CallsMade:
    """The calls made so far in a conversation."""

    def __init__(self, id_field: str) -> None:
        """``id_field`` is the field in which an answer says which call it answers."""
        self._id_field = id_field
        self._names: dict[str, str] = {}
        """Names of tools by the ids of their calls."""
        self._answers: dict[str, str] = {}
        """Types of the items that may answer calls, by the ids of the calls."""

    def add(self, calls: Iterable[ToolCall], *, answers: str = "") -> None:
        """Add calls that are answered by items of the type ``answers``."""
        for call in calls:
            self._names[call.id], self._answers[call.id] = call.name, answers

    def check_answer(self, call_id: str, name: str | None, place: str, *, kind: str = "") -> None:
        """Raise RequestError for an answer to an unknown call, or to a call of another tool.

        ``kind`` is the type of the item that answers.
        """
        called = self._names.get(call_id)
        if called is None:
            raise RequestError(
                f"{place} answers the call {call_id[:80]!r}, which no earlier message made",
                field=f"{place}.{self._id_field}",
            )
        if kind != self._answers[call_id]:
            raise RequestError(
                f"{place}.type is {kind!r}, but the call that it answers takes a "
                f"{self._answers[call_id]!r}",
                field=f"{place}.type",
            )
        if name and name != called:
            raise RequestError(
                f"{place}.name is {name[:80]!r}, but the call that it answers is of {called!r}",
                field=f"{place}.name",
                hint="leave it out",
            )


def described(messages: tuple[Message, ...], wanted: Wanted | None) -> tuple[Message, ...]:
    """Return the conversation with the description of its answer, if any, in the system message."""
    if wanted is None or not wanted.description or not messages:
        return messages  # the engine's request refuses a conversation without messages
    note = f"Answer with JSON of this description:\n{wanted.description}"
    first, *others = messages
    if first.role != "system":
        return (Message("system", note), *messages)
    return (replace(first, content=f"{first.content}\n\n{note}"), *others)
