"""Turns the conversation of ``POST /v1/messages``, turns of blocks, into messages.

::

    user       tool_result, tool_result, text, text   →  tool, tool, user
    assistant  thinking, text, tool_use, tool_use     →  assistant with thoughts, text and calls
    system     text, text                             →  system
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import Message, ToolCall
from guided.spec.tools import check_call
from guided_service.http.fields import Given, Listed
from guided_service.http.messages import CallsMade
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["AnthropicTurn", "CacheControl", "Texts", "conversation_of", "system_of"]

_TEXT_ALONE: Final = "send text: the model reads neither images nor documents"


class CacheControl(Given):
    """A mark up to which Anthropic caches a prompt; without effect, as all prompts are cached."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Block(Given):
    """A part of a turn."""

    cache_control: CacheControl | None = None


class TextBlock(Block):
    """A text."""

    type: Literal["text"]
    text: str
    citations: Annotated[list[Any], Field(max_length=0)] | None = None


Texts: TypeAlias = Annotated[
    str | Listed[Annotated[TextBlock, OneOf("type", hint=_TEXT_ALONE)]], OneOfKinds()
]


class ResultBlock(Block):
    """The result of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts = ""
    is_error: bool = False
    """Whether the call failed, which the model is told before the content."""


class DirectCaller(Given):
    """The caller of a tool: the model, not code that it wrote."""

    type: Literal["direct"]


class CallBlock(Block):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    caller: DirectCaller | None = None


class ThinkingBlock(Given):
    """The thoughts before a text or a call."""

    type: Literal["thinking"]
    thinking: str
    signature: str = ""
    """Ignored: thoughts are not signed here."""


class UserTurn(Given):
    """A message of a user, with the results of the calls before it."""

    role: Literal["user"]
    content: Annotated[
        str | Listed[Annotated[TextBlock | ResultBlock, OneOf("type", hint=_TEXT_ALONE)]],
        OneOfKinds(),
    ]


class AssistantTurn(Given):
    """A message of the model."""

    role: Literal["assistant"]
    content: Annotated[
        str
        | Listed[
            Annotated[
                TextBlock | ThinkingBlock | CallBlock,
                OneOf("type", hint="send the text, thinking and tool_use blocks alone"),
            ]
        ],
        OneOfKinds(),
    ]


class SystemTurn(Given):
    """A message of instructions inside the conversation."""

    role: Literal["system"]
    content: Texts


AnthropicTurn: TypeAlias = Annotated[UserTurn | AssistantTurn | SystemTurn, OneOf("role")]


def system_of(system: str | list[TextBlock] | None) -> tuple[Message, ...]:
    """Return the instructions before a conversation as a message, or none without any."""
    told = "" if system is None else _joined(system)
    return (Message("system", told),) if told else ()


def conversation_of(turns: list[AnthropicTurn]) -> tuple[Message, ...]:
    """Return the messages of a conversation; raises RequestError.

    If the last is of the assistant, the answer continues it.
    """
    calls = CallsMade("tool_use_id")
    return tuple(
        [
            message
            for at, turn in enumerate(turns)
            for message in _messages(turn, f"messages[{at}]", calls)
        ]
    )


def _messages(turn: AnthropicTurn, place: str, calls: CallsMade) -> Iterator[Message]:
    content = turn.content
    if isinstance(content, str):
        yield Message(turn.role, content)
        return
    match turn:
        case SystemTurn(content=list(texts)):
            yield Message("system", _joined(texts))
        case UserTurn(content=list(blocks)):
            yield from _said_by_user(blocks, f"{place}.content", calls)
        case AssistantTurn(content=list(blocks)):
            yield _said_by_model(blocks, f"{place}.content", calls)


def _said_by_user(
    blocks: list[TextBlock | ResultBlock], place: str, calls: CallsMade
) -> Iterator[Message]:
    """Yield the results of calls, then the text of a turn if it has any."""
    texts: list[TextBlock] = []
    for at, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            texts.append(block)
            continue
        if texts:
            raise RequestError(
                f"{place}[{at}] is the result of a call, and stands after a text",
                field=f"{place}[{at}]",
                hint="put the results first: they belong to the turn before",
            )
        calls.check_answer(block.tool_use_id, None, f"{place}[{at}]")
        yield Message("tool", _result(block), tool_call_id=block.tool_use_id)
    if texts or not blocks:
        yield Message("user", _joined(texts))


def _result(block: ResultBlock) -> str:
    """Return the text of a result; templates have no mark for calls that failed."""
    text = _joined(block.content)
    return f"Error: {text}" if block.is_error else text


def _said_by_model(
    blocks: list[TextBlock | ThinkingBlock | CallBlock], place: str, calls: CallsMade
) -> Message:
    thoughts: list[str] = []
    texts: list[TextBlock] = []
    made: list[ToolCall] = []
    for at, block in enumerate(blocks):
        match block:
            case TextBlock():
                texts.append(block)
            case CallBlock():
                made.append(_call(block, f"{place}[{at}]"))
            case ThinkingBlock() if texts or made:
                raise RequestError(
                    f"{place}[{at}] has thoughts, and stands after what they led to",
                    field=f"{place}[{at}]",
                    hint="leave it out, or begin another turn with it",
                )
            case ThinkingBlock(thinking=text):
                thoughts.append(text)
    calls.add(made)
    return Message("assistant", _joined(texts), tuple(made), reasoning="\n".join(thoughts))


def _call(block: CallBlock, place: str) -> ToolCall:
    try:
        written = json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
        call = ToolCall(block.name, written, block.id)
        check_call(call)
    except RecursionError as error:
        raise RequestError(f"{place}.input nests too deeply", field=place) from error
    except RequestError as error:
        raise RequestError(error.message, field=place, hint=error.hint) from error
    return call


def _joined(content: str | Iterable[TextBlock]) -> str:
    return content if isinstance(content, str) else "".join([block.text for block in content])
