"""What is sent to ``POST /v1/responses`` as ``input``: what was said, called and thought."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from guided_service.http.fields import Given, Listed
from guided_service.http.messages import (
    AssistantTurn,
    Called,
    CallMade,
    SystemTurn,
    TextPart,
    ToolTurn,
    Turn,
    UserTurn,
)
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["Item", "turns_of"]


class Text(Given):
    """A text in a message; of what the model said, with what it was given back beside it."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    """Not looked at: they are of an answer that was given."""


Texts: TypeAlias = Annotated[str | Listed[Text], OneOfKinds()]


class MessageItem(Given):
    """What somebody said."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Texts
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class CallItem(Given):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class OutputItem(Given):
    """What a call gave back."""

    type: Literal["function_call_output"]
    call_id: str
    output: Texts
    id: str | None = None
    status: str | None = None


class ThoughtPart(Given):
    """A part of what the model thought, or of its summary."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


class ThoughtItem(Given):
    """What the model thought before an answer that was given: templates leave it out of what they
    tell the model of earlier turns, so it is not looked at.
    """

    type: Literal["reasoning"]
    summary: Listed[ThoughtPart] = Field(default_factory=list)
    content: Listed[ThoughtPart] | None = None
    encrypted_content: None = None
    id: str | None = None
    status: str | None = None


Item: TypeAlias = Annotated[
    MessageItem | CallItem | OutputItem | ThoughtItem, OneOf("type", default="message")
]


def turns_of(said: str | list[Item], instructions: str | None) -> list[Turn]:
    """What was said and called, in order, behind the instructions."""
    turns: list[Turn] = []
    if instructions:
        turns.append(SystemTurn(role="system", content=instructions))
    if isinstance(said, str):
        return [*turns, UserTurn(role="user", content=said)]
    for item in said:
        _add(item, turns)
    return turns


def _add(item: Item, turns: list[Turn]) -> None:
    """Add what an item says to the turns; calls in a row are of one turn."""
    match item:
        case MessageItem(role="user"):
            turns.append(UserTurn(role="user", content=_texts(item.content)))
        case MessageItem(role="assistant"):
            turns.append(AssistantTurn(role="assistant", content=_texts(item.content)))
        case MessageItem():
            turns.append(SystemTurn(role="system", content=_texts(item.content)))
        case ThoughtItem():
            pass  # not told to the model again
        case OutputItem():
            turns.append(
                ToolTurn(role="tool", tool_call_id=item.call_id, content=_texts(item.output))
            )
        case CallItem():
            call = CallMade(
                id=item.call_id, function=Called(name=item.name, arguments=item.arguments)
            )
            last = turns[-1] if turns else None
            said = last if isinstance(last, AssistantTurn) else None
            if said is not None:
                turns.pop()
            content = None if said is None else said.content
            calls = [*((said.tool_calls or []) if said is not None else []), call]
            turns.append(AssistantTurn(role="assistant", content=content, tool_calls=calls))


def _texts(content: Texts) -> str | list[TextPart]:
    if isinstance(content, str):
        return content
    return [TextPart(type="text", text=part.text) for part in content]
