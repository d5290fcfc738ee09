"""Turns the ``input`` of ``POST /v1/responses`` (messages, calls and thoughts) into messages.

The ``id`` and ``status`` of an item are ignored: the item is complete in itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message, ToolCall
from guided.spec.tools import check_call
from guided_service.http.fields import Given, Listed
from guided_service.http.messages import (
    CallsMade,
    RefusalPart,
    input_arguments,
    written_arguments,
)
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["Item", "messages_of"]


class Text(Given):
    """A text in a message; a text of the model may have the fields it was returned with."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    """Ignored: they belong to an earlier answer."""
    parsed: Any = None
    """The parsed text, which openai's ``parse`` adds; ignored."""


Texts: TypeAlias = Annotated[
    str | Listed[Annotated[Text | RefusalPart, OneOf("type")]], OneOfKinds()
]


class MessageItem(Given):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Texts
    phase: Literal["final_answer"] | None = None
    """Messages of the assistant are answers here; commentary could not be told apart from them."""
    id: str | None = None
    status: str | None = None


class CallItem(Given):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    parsed_arguments: Any = None
    """The parsed arguments, which openai's ``parse`` adds; ignored."""
    id: str | None = None
    status: str | None = None


class CustomCallItem(Given):
    """A call of a custom tool that the model made."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    id: str | None = None
    status: str | None = None


class Output(Given):
    """The result of a call."""

    type: str
    call_id: str
    output: Texts
    name: str | None = None
    """The name of the tool that was called."""
    id: str | None = None
    status: str | None = None


class OutputItem(Output):
    """The result of a call of a function."""

    type: Literal["function_call_output"]


class CustomOutputItem(Output):
    """The result of a call of a custom tool."""

    type: Literal["custom_tool_call_output"]


class ThoughtPart(Given):
    """A part of the model's thoughts, or of their summary."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


class ThoughtItem(Given):
    """The thoughts before a message or a call."""

    type: Literal["reasoning"]
    summary: Listed[ThoughtPart] = Field(default_factory=list)
    """What stands for the thoughts where there is no content: in answers of ours it is the same."""
    content: Listed[ThoughtPart] | None = None
    encrypted_content: None = None
    id: str | None = None
    status: str | None = None


Item: TypeAlias = Annotated[
    MessageItem | CallItem | OutputItem | CustomCallItem | CustomOutputItem | ThoughtItem,
    OneOf("type", default="message"),
]


def messages_of(said: str | list[Item], instructions: str | None) -> tuple[Message, ...]:
    """Return the instructions and the input as messages, in order; raises RequestError."""
    turns = [_Turn("system", instructions)] if instructions else []
    calls = CallsMade("call_id")
    if isinstance(said, str):
        turns.append(_Turn("user", said))
    else:
        for at, item in enumerate(said):
            _add(item, f"input[{at}]", turns, calls)
    if not turns:
        raise RequestError("the input has no message", field="input")
    return tuple(turn.message() for turn in turns)


@dataclass(slots=True)
class _Turn:
    """A message, to which calls may be added."""

    role: str
    content: str = ""
    thoughts: list[str] = field(default_factory=list)
    is_thought: bool = False
    """Whether only its thoughts have come."""
    calls: list[ToolCall] = field(default_factory=list)
    answers: str = ""
    """The id of the call that it answers."""

    def message(self) -> Message:
        thoughts = "\n".join(self.thoughts)
        return Message(self.role, self.content, tuple(self.calls), self.answers, reasoning=thoughts)


def _add(item: Item, place: str, turns: list[_Turn], calls: CallsMade) -> None:
    """Add an item to the turns; thoughts belong to what follows, consecutive calls to one turn."""
    last = turns[-1] if turns else None
    match item:
        case MessageItem(role="assistant") if last is not None and last.is_thought:
            last.content, last.is_thought = _joined(item.content), False
        case MessageItem():
            role = "system" if item.role == "developer" else item.role
            turns.append(_Turn(role, _joined(item.content)))
        case ThoughtItem():
            _add_thoughts("".join(part.text for part in item.content or item.summary), turns)
        case OutputItem() | CustomOutputItem():
            calls.check_answer(item.call_id, item.name, place, kind=item.type)
            turns.append(_Turn("tool", _joined(item.output), answers=item.call_id))
        case CallItem() | CustomCallItem():
            told = (
                input_arguments(item.input)
                if isinstance(item, CustomCallItem)
                else written_arguments(item.arguments, item.call_id, f"{place}.arguments")
            )
            try:
                call = ToolCall(item.name, told, item.call_id)
                check_call(call)
            except RequestError as error:
                raise RequestError(error.message, field=place, hint=error.hint) from error
            calls.add([call], answers=f"{item.type}_output")
            if last is None or last.role != "assistant":
                turns.append(_Turn("assistant"))
            turns[-1].calls.append(call)
            turns[-1].is_thought = False


def _add_thoughts(text: str, turns: list[_Turn]) -> None:
    """Begin a turn of the model with thoughts, or go on with those that have begun one."""
    if not text:
        return
    if not turns or not turns[-1].is_thought:
        turns.append(_Turn("assistant", is_thought=True))
    turns[-1].thoughts.append(text)


def _joined(content: str | list[Text | RefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if isinstance(part, Text) else part.refusal for part in content)
