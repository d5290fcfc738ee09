"""Answers of ``POST /v1/chat/completions``, whole and as chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from guided.spec import CandidateResult, FinishReason, GenerationResult, TokenLogprobs, Usage
from guided.spec.tool_format import ToolFormat
from guided_service.call_reader import (
    Argument,
    CallBegun,
    CallReader,
    Content,
    Piece,
    ReaderOf,
    call_id,
    calls_in,
)
from guided_service.http.asked import Shown
from guided_service.http.errors import JsonObject
from guided_service.http.events import DONE, event
from guided_service.http.logprobs import chat_logprobs

__all__ = [
    "ChatForm",
    "ChatStyle",
    "ChunkForm",
    "One",
    "answers_of",
    "finish_of",
    "own_usage_of",
    "pieces_of",
    "usage_of",
]

One: TypeAlias = GenerationResult | CandidateResult


_Finish: TypeAlias = Literal["stop", "length", "tool_calls"]

_CLOSED: Final = (FinishReason.LENGTH_CLOSED, FinishReason.DEADLINE_CLOSED)


def finish_of(
    reason: FinishReason, *, is_structured: bool, num_calls: int = 0, is_cut_call: bool = False
) -> _Finish:
    """Return the finish reason of an answer; see docs/openai.md, "Why an answer ended".

    ``is_structured``: it was closed to a whole answer, not in the middle of free text.
    ``is_cut_call``: a call in it should not be made.
    """
    if is_cut_call:
        return "length"
    if reason.is_cut_short and not (reason in _CLOSED and is_structured):
        return "length"
    return "tool_calls" if num_calls else "stop"


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """How a request wants its answer formed."""

    reader: Callable[[ToolFormat], ReaderOf | None]
    """Given the format of calls, makes readers of answers, or is ``None`` without calls."""
    is_named: bool
    """Whether one named function must be called: then the call is the answer."""
    is_structured: bool
    """Whether an answer without calls has a constraint."""
    tells_usage: bool
    tells_logprobs: bool
    tells_thoughts: bool = False
    custom: Collection[str] = ()
    """The names of custom tools, of whose calls the input is returned."""

    def reader_of(self, form: ToolFormat) -> CallReader | None:
        """Return a reader of one answer, or ``None`` if it may not call tools."""
        made = self.reader(form)
        return None if made is None else made()

    def finish(self, reason: FinishReason, reader: CallReader | None) -> _Finish:
        """Return why an answer ended, once its reader has read all of it."""
        calls = 0 if reader is None else reader.num_calls
        is_cut = bool(calls) and reason.is_cut_short and not self.is_named
        return finish_of(
            reason,
            is_structured=self.is_structured or self.is_named,
            num_calls=calls,
            is_cut_call=is_cut or (reader is not None and reader.is_in_call),
        )


class ChunkForm:
    """What the forms of answers have in common whose streams consist of chunks."""

    _whole: ClassVar[str]
    _part: ClassVar[str]
    """The names of an answer and of a chunk of it."""

    def __init__(self, shown: Shown, *, tells_usage: bool) -> None:
        self._shown = shown
        self._tells_usage = tells_usage

    def failed(self, error: JsonObject) -> bytes:
        """Return an error's event, without an end, so that no client takes it for success."""
        return event(error)

    def _body(
        self, choices: list[JsonObject], usage: Usage, report: JsonObject | None
    ) -> JsonObject:
        head, told = self._head(self._whole), _reported(report)
        return {**head, "choices": choices, "usage": usage_of(usage), **told}

    def _chunks(self, choices: Iterable[JsonObject]) -> bytes:
        head = self._head(self._part)
        if self._tells_usage:
            head["usage"] = None
        return b"".join(event({**head, "choices": [choice]}) for choice in choices)

    def _end(self, usage: Usage, report: JsonObject | None) -> bytes:
        """Return the end of a stream: before it a chunk with what is about all choices."""
        last = _reported(report)
        if self._tells_usage:
            last["usage"] = usage_of(usage)
        if not last:
            return DONE
        return event({**self._head(self._part), "choices": [], **last}) + DONE

    def _head(self, kind: str) -> JsonObject:
        shown = self._shown
        return {
            "id": shown.answer_id,
            "object": kind,
            "created": shown.created,
            "model": shown.model,
        }


def _reported(report: JsonObject | None) -> JsonObject:
    return {} if report is None else {"guided": {"report": report}}


class ChatForm(ChunkForm):
    """Forms one answer; with ``n``, each is one of its choices."""

    _whole = "chat.completion"
    _part = "chat.completion.chunk"

    def __init__(self, style: ChatStyle, shown: Shown) -> None:
        super().__init__(shown, tells_usage=style.tells_usage)
        self._style = style
        self._growing: dict[int, _Choice] = {}
        """The choices that are streamed as they grow, by number."""

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        choices = [self._choice(index).whole(one) for index, one in enumerate(answers_of(result))]
        return self._body(choices, result.usage, report)

    def grown(self, text: str, logprobs: tuple[TokenLogprobs, ...] = (), index: int = 0) -> bytes:
        """Return the chunks of more text; the first has the log-probabilities so far."""
        return self._chunks(self._growing_choice(index).grown(text, logprobs))

    def thought(self, text: str, index: int = 0) -> bytes:
        return self._chunks([self._growing_choice(index).thought(text)])

    def closed(self, one: CandidateResult) -> bytes:
        return self._chunks(self._growing_choice(one.index).ended(one))

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        """Return the last chunks: ranked answers as a whole, or what is left of a single one."""
        events: list[bytes] = []
        for index, one in enumerate(answers_of(result)):
            choice = self._growing_choice(index)
            if choice.is_ended:
                continue
            if result.candidates:
                if one.reasoning:
                    events.append(self._chunks([choice.thought(one.reasoning)]))
                events.append(self._chunks(choice.grown(one.text)))
            events.append(self._chunks(choice.ended(one)))
        return b"".join((*events, self._end(result.usage, report)))

    def _growing_choice(self, index: int) -> _Choice:
        if index not in self._growing:
            self._growing[index] = self._choice(index)
        return self._growing[index]

    def _choice(self, index: int) -> _Choice:
        return _Choice(self._style, self._shown.tool_format, index)


class _Choice:
    """One of the answers to a request."""

    def __init__(self, style: ChatStyle, form: ToolFormat, index: int) -> None:
        self._style = style
        self._index = index
        self._reader = style.reader_of(form)
        self._is_begun = False
        self.is_ended = False
        """Whether its last chunk was formed."""
        self._is_custom = False
        """Whether the latest call is of a custom tool."""
        self._num_scored = 0
        """The number of tokens whose log-probabilities have come."""
        self._untold: list[TokenLogprobs] = []
        """Log-probabilities not yet sent in a chunk."""

    def whole(self, one: One) -> JsonObject:
        read = (one.text, ()) if self._reader is None else calls_in(one.text, self._reader)
        content, calls = read
        message: JsonObject = {
            "role": "assistant",
            "content": content if content or not calls else None,
            "refusal": None,
        }
        if self._style.tells_thoughts:
            message |= _thoughts(one.reasoning)
        if calls:
            message["tool_calls"] = [self._call(call.name, call.arguments) for call in calls]
        end = self._end(one, one.logprobs[one.reasoning_tokens :])
        return {"index": self._index, "message": message, **end}

    def grown(self, text: str, logprobs: tuple[TokenLogprobs, ...] = ()) -> list[JsonObject]:
        if self._style.tells_logprobs:
            self._num_scored += len(logprobs)
            self._untold.extend(logprobs)
        chunks = [self._delta(piece) for piece in pieces_of(self._reader, text)]
        if chunks and self._untold:
            chunks[0]["logprobs"] = chat_logprobs(self._untold)
            self._untold.clear()
        return chunks

    def thought(self, text: str) -> JsonObject:
        return self._chunk(_thoughts(text))

    def ended(self, one: One) -> list[JsonObject]:
        self.is_ended = True
        left = [self._delta(piece) for piece in pieces_of(self._reader)]
        rest = (*self._untold, *one.logprobs[one.reasoning_tokens + self._num_scored :])
        end = self._end(one, rest)
        if self._num_scored and not rest:
            end["logprobs"] = None
        return [*left, {"index": self._index, "delta": self._begun({}), **end}]

    def _delta(self, piece: Piece) -> JsonObject:
        match piece:
            case Content(text):
                delta: JsonObject = {"content": text}
            case CallBegun(name):
                self._is_custom = name in self._style.custom
                delta = {"tool_calls": [{"index": self._last_call, **self._call(name, "")}]}
            case Argument(text):
                grown = (
                    {"custom": {"input": text}}
                    if self._is_custom
                    else {"function": {"arguments": text}}
                )
                delta = {"tool_calls": [{"index": self._last_call, **grown}]}
        return self._chunk(delta)

    def _chunk(self, delta: JsonObject) -> JsonObject:
        return {
            "index": self._index,
            "delta": self._begun(delta),
            "logprobs": None,
            "finish_reason": None,
        }

    @property
    def _last_call(self) -> int:
        assert self._reader is not None, "a call without tools"
        return self._reader.num_calls - 1

    def _call(self, name: str, said: str) -> JsonObject:
        """Return a call of a tool; ``said`` are its arguments, or the input of a custom tool."""
        if name in self._style.custom:
            return {"id": call_id(), "type": "custom", "custom": {"name": name, "input": said}}
        function = {"name": name, "arguments": said}
        return {"id": call_id(), "type": "function", "function": function}

    def _begun(self, delta: JsonObject) -> JsonObject:
        """Return the delta, with the role if it is the first one."""
        if self._is_begun:
            return delta
        self._is_begun = True
        return {"role": "assistant", "content": None if "tool_calls" in delta else "", **delta}

    def _end(self, one: One, scored: tuple[TokenLogprobs, ...]) -> JsonObject:
        reason, style = one.finish_reason, self._style
        return {
            "logprobs": chat_logprobs(scored) if style.tells_logprobs else None,
            "finish_reason": style.finish(reason, self._reader),
            "guided": {"finish_reason": reason.value},
        }


def pieces_of(reader: CallReader | None, text: str | None = None) -> Iterable[Piece]:
    """Return the pieces of more text, or of its end; without a reader all text is content."""
    if reader is None:
        return [Content(text)] if text else []
    return reader.end() if text is None else reader.read(text)


def _thoughts(text: str) -> JsonObject:
    """Return the fields of thoughts, which clients read by either name."""
    return {"reasoning_content": text, "reasoning": text}


def answers_of(result: GenerationResult) -> tuple[One, ...]:
    """Return all answers to a request."""
    return result.candidates or (result,)


def usage_of(usage: Usage) -> JsonObject:
    """Return what an answer cost; ``guided`` has what OpenAI does not count."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "guided": own_usage_of(usage),
    }


def own_usage_of(usage: Usage) -> JsonObject:
    """Return what an answer cost, as no other API counts it."""
    return {
        "forced_tokens": usage.forced_tokens,
        "sampled_tokens": usage.sampled_tokens,
        "model_calls": usage.model_calls,
    }
