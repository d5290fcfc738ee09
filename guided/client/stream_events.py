"""The events of a stream: what its answers say, the calls in them, and how each ends.

Each kind of event has the number of its answer, 0 for a single one::

    ThoughtsGrown …   TextGrown …   CallBegun   ArgumentsGrown …   CallEnded   AnswerEnded

Those of several answers (``n``) come mixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias, TypeVar

from guided.client.answer import Answer, Candidate
from guided.client.decode import decode_end
from guided.client.growing_json import GrowingJson, ValueEvent
from guided.client.request import Request
from guided.errors import InternalServiceError
from guided.spec import ToolCall, Usage
from guided.v1 import generation_pb2 as pb
from guided.wire import read

__all__ = [
    "AnswerEnded",
    "ArgumentsGrown",
    "CallBegun",
    "CallEnded",
    "EventReader",
    "StreamEvent",
    "TextGrown",
    "ThoughtsGrown",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ThoughtsGrown:
    """More of the model's thoughts before an answer."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class TextGrown:
    """More of the text of an answer, outside its calls."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of a tool begins; its arguments follow."""

    index: int
    id: str
    """That of the call in ``tool_calls``."""
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsGrown:
    """More of the arguments of a call, as JSON."""

    index: int
    id: str
    text: str
    values: tuple[ValueEvent, ...]
    """The values in the arguments that are complete now."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is complete. One that a stop breaks off does not end."""

    index: int
    call: ToolCall
    """Without its ``value``, which comes with the end of the answer, once all calls are read."""


@dataclass(frozen=True, slots=True)
class AnswerEnded(Generic[T]):
    """An answer is complete, perhaps long before the others."""

    index: int
    candidate: Candidate[T]
    """The answer, as in ``candidates`` of the whole, but without log-probabilities. If its type
    refuses it, it says why in ``error``."""


StreamEvent: TypeAlias = (
    ThoughtsGrown | TextGrown | CallBegun | ArgumentsGrown | CallEnded | AnswerEnded[T]
)


@dataclass(slots=True)
class _Growing:
    """What has come of one answer."""

    texts: list[str] = field(default_factory=list)
    """With its calls."""
    contents: list[str] = field(default_factory=list)
    """Without them."""
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    call_id: str = ""
    """The id of the latest call, which may be open."""
    arguments: GrowingJson = field(default_factory=GrowingJson)
    """Those of that call."""
    is_json: bool = True
    """Whether they are JSON so far: a stop may leave a part of the call's end in them."""

    def values_in(self, text: str) -> tuple[ValueEvent, ...]:
        """Return the values that more arguments complete; none once they are no JSON."""
        try:
            return tuple(self.arguments.feed(text)) if self.is_json else ()
        except InternalServiceError:
            self.is_json = False
            return ()


class EventReader(Generic[T]):
    """Makes events of the messages of one stream."""

    def __init__(self, request: Request[T]) -> None:
        self._request = request
        self._has_tools = request.specification.tools is not None
        self._growing: dict[int, _Growing] = {}
        self._has_ended = False
        """Whether the end of any answer has come."""

    def read(self, message: pb.GenerateStreamResponse) -> Iterator[StreamEvent[T]]:
        """Yield the events of a message."""
        index = message.index
        growing = self._growing.setdefault(index, _Growing())
        for piece in message.pieces:
            yield from _read_piece(index, growing, piece)
        match message.WhichOneof("event"):
            case "reasoning_delta":
                growing.thoughts.append(message.reasoning_delta)
                yield ThoughtsGrown(index, message.reasoning_delta)
            case "delta":
                growing.texts.append(message.delta)
                if not self._has_tools:
                    yield TextGrown(index, message.delta)
            case "end":
                self._has_ended = True
                yield self._end(index, growing, message.end)

    def end(self, plain: Answer[str]) -> Iterator[StreamEvent[T]]:
        """Yield the ends of answers whose stream has no messages about ends."""
        for candidate in () if self._has_ended else self._request.candidates(plain):
            yield AnswerEnded(candidate.index, candidate)

    def _end(self, index: int, growing: _Growing, told: pb.AnswerEnd) -> StreamEvent[T]:
        plain = replace(
            decode_end(told, index, "".join(growing.texts)),
            content="".join(growing.contents),
            reasoning="".join(growing.thoughts),
            tool_calls=tuple(growing.calls),
        )
        return AnswerEnded(index, self._request.candidate(plain, plain.usage or Usage()))


def _read_piece(
    index: int, growing: _Growing, piece: pb.AnswerPiece
) -> Iterator[TextGrown | CallBegun | ArgumentsGrown | CallEnded]:
    match piece.WhichOneof("kind"):
        case "content":
            growing.contents.append(piece.content)
            yield TextGrown(index, piece.content)
        case "call_begin":
            growing.call_id, growing.arguments = piece.call_begin.id, GrowingJson()
            growing.is_json = True
            yield CallBegun(index, piece.call_begin.id, piece.call_begin.name)
        case "arguments":
            values = growing.values_in(piece.arguments)
            yield ArgumentsGrown(index, growing.call_id, piece.arguments, values)
        case "call_end":
            if not growing.is_json:
                raise InternalServiceError(f"the arguments of {piece.call_end.name} are no JSON")
            growing.calls.append(read(piece.call_end, ToolCall))
            yield CallEnded(index, growing.calls[-1])
