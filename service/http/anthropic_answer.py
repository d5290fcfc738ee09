"""Answers of ``POST /v1/messages``, whole and as events.

::

    message_start, ping
      content_block_start          thinking, text, or tool_use
        content_block_delta …      thinking_delta, text_delta, or input_json_delta
      content_block_stop           after signature_delta where there were thoughts
    message_delta                  why it ended, and what it cost
    message_stop
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from uuid import uuid4

import msgspec

from guided.spec import CandidateResult, FinishReason, GenerationResult, TokenLogprobs, Usage
from guided_service.call_reader import Argument, CallBegun, Content, Piece
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatStyle, own_usage_of, pieces_of
from guided_service.http.errors import JsonObject
from guided_service.http.events import event

__all__ = ["AnthropicForm"]

_Kind: TypeAlias = Literal["thinking", "text", "tool_use"]

_SIGNATURE: Final = "unsigned"
"""The signature of thoughts, which are not signed: some clients send back none without one."""


@dataclass(slots=True)
class _Block:
    """A block of the content, as it grows."""

    kind: _Kind
    name: str = ""
    """The name of the tool that is called."""
    call_id: str = field(default_factory=lambda: f"toolu_{uuid4().hex[:24]}")
    pieces: list[str] = field(default_factory=list)

    def begun(self) -> JsonObject:
        """Return the block before any text of it."""
        match self.kind:
            case "thinking":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case "text":
                return {"type": "text", "text": ""}
            case "tool_use":
                return {"type": "tool_use", "id": self.call_id, "name": self.name, "input": {}}

    def delta(self, text: str) -> JsonObject:
        """Return the change that more of its text is."""
        match self.kind:
            case "thinking":
                return {"type": "thinking_delta", "thinking": text}
            case "text":
                return {"type": "text_delta", "text": text}
            case "tool_use":
                return {"type": "input_json_delta", "partial_json": text}

    def whole(self) -> JsonObject:
        """Return the block with all of its text; a call has ended, so its text is JSON."""
        text = "".join(self.pieces)
        match self.kind:
            case "thinking":
                return {"type": "thinking", "thinking": text, "signature": _SIGNATURE}
            case "text":
                return {"type": "text", "text": text}
            case "tool_use":
                return self.begun() | {"input": msgspec.Raw(text.encode())}


class AnthropicForm:
    """One message, of one answer."""

    def __init__(self, style: ChatStyle, max_tokens: int, shown: Shown) -> None:
        self._style = style
        self._max_tokens = max_tokens
        self._shown = shown
        self._reader = style.reader_of(shown.tool_format)
        self._blocks: list[_Block] = []

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        if result.reasoning:
            self.thought(result.reasoning)
        self.grown(result.text)
        self.ended(result)
        return {
            **self._message(),
            "content": [block.whole() for block in self._ended_blocks()],
            **self._end(result),
            "usage": _usage_of(result.usage),
            "guided": _own(result, report),
        }

    def thought(self, text: str, index: int = 0) -> bytes:  # noqa: ARG002
        begin = b"" if self._blocks else self._begin_block("thinking")
        return begin + self._delta(text)

    def grown(
        self,
        text: str,
        logprobs: tuple[TokenLogprobs, ...] = (),  # noqa: ARG002
        index: int = 0,  # noqa: ARG002
    ) -> bytes:
        """Return the events of more text; nobody can ask for log-probabilities."""
        return self._told(pieces_of(self._reader, text))

    def closed(self, one: CandidateResult) -> bytes:
        """Never called: a message has one answer."""
        raise AssertionError(f"several answers in a message: {one!r}")

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        events = self._told(pieces_of(self._reader))
        if not self._blocks or self._blocks[-1].kind == "thinking":
            events += self._begin_block("text")
        ended = {
            "delta": self._end(result),
            "usage": _usage_of(result.usage),
            "guided": _own(result, report),
        }
        return b"".join(
            (
                events,
                self._end_block(),
                _event("message_delta", **ended),
                _event("message_stop"),
            )
        )

    def failed(self, error: JsonObject) -> bytes:
        """Return the event of an error, which ends a stream."""
        return event(error, "error")

    def _told(self, pieces: Iterable[Piece]) -> bytes:
        events: list[bytes] = []
        for piece in pieces:
            match piece:
                case CallBegun(name):
                    events.append(self._begin_block("tool_use", name))
                case Content(text):
                    if not self._blocks or self._blocks[-1].kind != "text":
                        events.append(self._begin_block("text"))
                    events.append(self._delta(text))
                case Argument(text):
                    events.append(self._delta(text))
        return b"".join(events)

    def _begin_block(self, kind: _Kind, name: str = "") -> bytes:
        """Return the events that end the last block, or begin the message, then begin another."""
        before = self._end_block() if self._blocks else self._begin()
        block = _Block(kind, name)
        self._blocks.append(block)
        return before + _event("content_block_start", **self._at(), content_block=block.begun())

    def _begin(self) -> bytes:
        # What the prompt costs is known at the end: message_delta has it.
        message = {
            **self._message(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return _event("message_start", message=message) + _event("ping")

    def _delta(self, text: str) -> bytes:
        block = self._blocks[-1]
        block.pieces.append(text)
        return _event("content_block_delta", **self._at(), delta=block.delta(text))

    def _end_block(self) -> bytes:
        signed = b""
        if self._blocks[-1].kind == "thinking":
            delta = {"type": "signature_delta", "signature": _SIGNATURE}
            signed = _event("content_block_delta", **self._at(), delta=delta)
        return signed + _event("content_block_stop", **self._at())

    def _at(self) -> JsonObject:
        """Return the place of the last block."""
        return {"index": len(self._blocks) - 1}

    def _ended_blocks(self) -> list[_Block]:
        """Return the blocks without a call that broke off: its arguments may not be JSON."""
        has_broken = self._reader is not None and self._reader.num_ended < self._reader.num_calls
        return self._blocks[:-1] if has_broken else self._blocks

    def _message(self) -> JsonObject:
        return {
            "id": self._shown.answer_id,
            "type": "message",
            "role": "assistant",
            "model": self._shown.model,
        }

    def _end(self, result: GenerationResult) -> JsonObject:
        """Return why the message ended; see docs/anthropic.md, "Why an answer ended"."""
        ended = self._style.finish(result.finish_reason, self._reader)
        is_stopped = result.finish_reason is FinishReason.STOP_SEQUENCE and ended != "tool_calls"
        if is_stopped:
            return {"stop_reason": "stop_sequence", "stop_sequence": result.stop_string or None}
        is_cut = ended == "length" and self._has_filled_window(result)
        reason = "model_context_window_exceeded" if is_cut else _REASONS[ended]
        return {"stop_reason": reason, "stop_sequence": None}

    def _has_filled_window(self, result: GenerationResult) -> bool:
        """Whether a text ended because the context left it less than its budget."""
        if result.finish_reason is FinishReason.LENGTH:
            return result.usage.output_tokens < self._max_tokens
        # A text that might have called tools may end some tokens before its room does.
        is_text = self._reader is None or not (self._reader.num_calls or self._reader.is_in_call)
        most = result.usage.prompt_tokens + self._max_tokens
        is_closed = result.finish_reason is FinishReason.LENGTH_CLOSED
        return is_text and is_closed and most > self._shown.context_window


_REASONS: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
"""Why a message ended, by OpenAI's word for it."""


def _event(kind: str, **told: object) -> bytes:
    return event({"type": kind, **told}, kind)


def _own(result: GenerationResult, report: JsonObject | None) -> JsonObject:
    told: JsonObject = {} if report is None else {"report": report}
    return {"finish_reason": result.finish_reason.value, **told}


def _usage_of(usage: Usage) -> JsonObject:
    """Return what a message cost; Anthropic counts cached tokens apart from those of the input."""
    return {
        "input_tokens": usage.prompt_tokens - usage.reused_tokens,
        "cache_read_input_tokens": usage.reused_tokens,
        # Which tokens stay cached, and for how long, is not promised.
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "guided": own_usage_of(usage),
    }
