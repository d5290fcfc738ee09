"""Encodes the events of one stream as messages, and tells calls from text as answers grow.

A plain stream is the text of a single answer. A detailed one has, for each answer::

    reasoning_delta …  delta …  end        each with the number of its answer
                         └───────┴─ pieces: content, call_begin, arguments, call_end
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from guided.spec import (
    CandidateResult,
    GenerationRequest,
    GenerationResult,
    SchemaReport,
)
from guided.spec.delta import Delta, can_stream
from guided.v1 import generation_pb2 as pb
from guided.wire import number_of, write
from guided_service.call_reader import (
    Argument,
    CallBegun,
    CallReader,
    Content,
    Piece,
    ReaderOf,
    call_id,
)
from guided_service.encode import encode_result

__all__ = ["PlainTeller", "StreamTeller"]


def _thought(index: int, text: str) -> pb.GenerateStreamResponse:
    return pb.GenerateStreamResponse(index=index, reasoning_delta=text)


class PlainTeller:
    """Encodes a stream for a caller who does not tell answers apart: several come at the end."""

    def __init__(self, request: GenerationRequest, reader: ReaderOf | None) -> None:
        self._has_several = request.has_candidates
        self._reader = reader
        self._shown: Callable[[str], str] = str if reader is None else reader().shown

    def grown(self, delta: Delta) -> list[pb.GenerateStreamResponse]:
        """Return the messages of what was added to an answer."""
        if self._has_several:
            return []
        if delta.is_thought:
            return [pb.GenerateStreamResponse(reasoning_delta=delta.text)]
        return [pb.GenerateStreamResponse(delta=self._shown(delta.text))]

    def answered(
        self, result: GenerationResult, report: SchemaReport | None = None
    ) -> list[pb.GenerateStreamResponse]:
        """Return the last messages, with the report on the constraint if it was requested."""
        answer = encode_result(result, report, self._reader)
        return [pb.GenerateStreamResponse(answer=answer)]


class StreamTeller:
    """Encodes a detailed stream."""

    def __init__(self, request: GenerationRequest, reader: ReaderOf | None) -> None:
        self._grows = can_stream(request)
        self._reader = reader
        self._calls: dict[int, _CallTeller] = {}
        """What is known of the calls of each answer; empty if the request gave no tools."""

    def grown(self, delta: Delta) -> list[pb.GenerateStreamResponse]:
        """Return the messages of what was added to an answer."""
        told: list[pb.GenerateStreamResponse] = []
        if delta.is_thought:
            told.append(_thought(delta.index, delta.text))
        elif delta.text:
            told.append(self._text(delta.index, delta.text))
        if delta.ended is not None:
            told.append(self._end(delta.index, delta.ended, delta.ended.score))
        return told

    def answered(
        self, result: GenerationResult, report: SchemaReport | None = None
    ) -> list[pb.GenerateStreamResponse]:
        """Return the last messages: the ends that are left to tell, and the whole answer."""
        told: list[pb.GenerateStreamResponse] = []
        if not result.candidates:
            told.append(self._end(0, result, None))
        elif not self._grows:
            for one in result.candidates:
                if one.reasoning:
                    told.append(_thought(one.index, one.reasoning))
                if one.text:
                    told.append(self._text(one.index, one.text))
                told.append(self._end(one.index, one, one.score))
        ids = {index: calls.ids for index, calls in self._calls.items()}
        answer = encode_result(result, report, self._reader, ids)
        return [*told, pb.GenerateStreamResponse(answer=answer)]

    def _text(self, index: int, text: str) -> pb.GenerateStreamResponse:
        calls = self._calls_of(index)
        if calls is None:
            return pb.GenerateStreamResponse(index=index, delta=text)
        return pb.GenerateStreamResponse(
            index=index, delta=calls.shown(text), pieces=calls.read(text)
        )

    def _end(
        self, index: int, one: GenerationResult | CandidateResult, score: float | None
    ) -> pb.GenerateStreamResponse:
        end = pb.AnswerEnd(
            finish_reason=number_of(one.finish_reason, pb.FinishReason.DESCRIPTOR),
            num_tokens=len(one.tokens),
            score=score,
            stop_string=one.stop_string,
        )
        if one.usage is not None:
            end.usage.SetInParent()  # even if all of its counts are zero
            write(one.usage, end.usage)
        calls = self._calls_of(index)
        return pb.GenerateStreamResponse(
            index=index, end=end, pieces=() if calls is None else calls.end()
        )

    def _calls_of(self, index: int) -> _CallTeller | None:
        if self._reader is not None and index not in self._calls:
            self._calls[index] = _CallTeller(self._reader())
        return self._calls.get(index)


class _CallTeller:
    """Encodes what its reader finds in the text of one answer."""

    def __init__(self, reader: CallReader) -> None:
        self._reader = reader
        self._name = ""
        self._arguments: list[str] = []
        """The latest call."""
        self._num_ended = 0
        """The calls whose end was told."""
        self.ids: list[str] = []
        """The ids of its calls so far."""

    def shown(self, text: str) -> str:
        """Return part of the text as callers see it."""
        return self._reader.shown(text)

    def read(self, text: str) -> Iterator[pb.AnswerPiece]:
        """Yield what more text makes certain."""
        return self._encoded(self._reader.read(text))

    def end(self) -> Iterator[pb.AnswerPiece]:
        """Yield what is certain now that nothing follows."""
        return self._encoded(self._reader.end())

    def _encoded(self, pieces: Iterable[Piece]) -> Iterator[pb.AnswerPiece]:
        for piece in pieces:
            match piece:
                case Argument(text):
                    self._arguments.append(text)
                    yield pb.AnswerPiece(arguments=text)
                case Content(text):
                    yield from self._ended_call()
                    yield pb.AnswerPiece(content=text)
                case CallBegun(name):
                    yield from self._ended_call()
                    self.ids.append(call_id())
                    self._name, self._arguments = name, []
                    yield pb.AnswerPiece(call_begin=pb.ToolCall(name=name, id=self.ids[-1]))
        yield from self._ended_call()

    def _ended_call(self) -> Iterator[pb.AnswerPiece]:
        """Yield the end of the latest call, once its reader has met it."""
        if len(self.ids) > self._num_ended and self._reader.num_ended >= len(self.ids):
            self._num_ended += 1
            arguments = "".join(self._arguments)
            call = pb.ToolCall(name=self._name, arguments=arguments, id=self.ids[-1])
            yield pb.AnswerPiece(call_end=call)
