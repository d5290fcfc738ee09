"""Answers of ``POST /v1/responses``, whole and as events.

::

    response.created, response.in_progress
      response.output_item.added            thoughts, a message, or a call of a tool
        response.content_part.added         except for a call
          response.output_text.delta …      or reasoning_text, function_call_arguments,
                                            custom_tool_call_input
          response.output_text.done
        response.content_part.done
        response.reasoning_summary_part.added, its text, and done   for thoughts, if requested
      response.output_item.done
    response.completed, or response.incomplete
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from guided.spec import CandidateResult, GenerationResult, TokenLogprobs
from guided_service.call_reader import Argument, CallBegun, Content, Piece, call_id
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatStyle, pieces_of
from guided_service.http.errors import JsonObject
from guided_service.http.events import event
from guided_service.http.logprobs import told_tokens

__all__ = ["ResponseForm"]


_Kind: TypeAlias = Literal["reasoning", "message", "function_call", "custom_tool_call"]

_IDS: Final[Mapping[_Kind, str]] = {
    "reasoning": "rs_",
    "message": "msg_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
}
_CALL_TEXTS: Final[Mapping[_Kind, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
}
"""The names of the texts of calls, which have no parts."""

_TEXT_EVENTS: Final[Mapping[_Kind, str]] = {
    "reasoning": "response.reasoning_text",
    "message": "response.output_text",
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}
"""The names of the events of an item's text, before ``.delta`` and ``.done``."""


@dataclass(slots=True)
class _Item:
    """An item of the output, as it grows."""

    kind: _Kind
    name: str = ""
    """The name of the tool that is called."""
    is_summarized: bool = False
    """Whether thoughts also serve as their summary."""
    item_id: str = field(init=False)
    call_id: str = field(default_factory=call_id)
    pieces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.item_id = _IDS[self.kind] + uuid4().hex

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    def part(self, text: str, logprobs: list[JsonObject]) -> JsonObject:
        """Return the only part of a message or of thoughts, with this much of its text."""
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def begun(self) -> JsonObject:
        """Return the item before any text of it."""
        return self._shown("in_progress", [], [], "")

    def ended(self, status: str, logprobs: list[JsonObject]) -> JsonObject:
        """Return the whole item."""
        summary = [_summary_part(self.text)] if self.is_summarized else []
        return self._shown(status, [self.part(self.text, logprobs)], summary, self.text)

    def _shown(
        self, status: str, content: list[JsonObject], summary: list[JsonObject], text: str
    ) -> JsonObject:
        said: JsonObject = {"id": self.item_id, "status": status, "type": self.kind}
        match self.kind:
            case "reasoning":
                return said | {"summary": summary, "content": content}
            case "message":
                return said | {"role": "assistant", "content": content}
            case "function_call" | "custom_tool_call":
                called = {"call_id": self.call_id, "name": self.name}
                return said | called | {_CALL_TEXTS[self.kind]: text}


def _summary_part(text: str) -> JsonObject:
    """Return the only part of a summary."""
    return {"type": "summary_text", "text": text}


class ResponseForm:
    """One response, of one answer."""

    def __init__(
        self, style: ChatStyle, repeated: JsonObject, shown: Shown, *, is_summarized: bool = False
    ) -> None:
        """``repeated`` has the fields of the request that a response repeats; with
        ``is_summarized`` the thoughts also serve as their summary.
        """
        self._style = style
        self._is_summarized = is_summarized
        self._repeated = repeated
        self._shown = shown
        self._reader = style.reader_of(shown.tool_format)
        self._items: list[_Item] = []
        self._done: list[JsonObject] = []
        """Finished items, as they are shown."""
        self._num_events = 0
        self._logprobs: list[JsonObject] = []

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        if result.reasoning:
            self.thought(result.reasoning)
        self.grown(result.text)
        self.ended(result)
        return self._response(result, report)

    def thought(self, text: str, index: int = 0) -> bytes:  # noqa: ARG002
        events = self._begin()
        if not self._items:
            events += self._added("reasoning")
        return b"".join([*events, self._delta(text)])

    def grown(
        self,
        text: str,
        logprobs: tuple[TokenLogprobs, ...] = (),  # noqa: ARG002
        index: int = 0,  # noqa: ARG002
    ) -> bytes:
        """Return the events of more text; log-probabilities come with the last events."""
        return b"".join([*self._begin(), *self._told(pieces_of(self._reader, text))])

    def closed(self, one: CandidateResult) -> bytes:
        """Never called: a response has one answer."""
        raise AssertionError(f"several answers in a response: {one!r}")

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        of_answer = result.logprobs[result.reasoning_tokens :]
        self._logprobs = told_tokens(of_answer) if self._style.tells_logprobs else []
        events = [*self._begin(), *self._told(pieces_of(self._reader))]
        if not self._items or self._items[-1].kind == "reasoning":
            events.extend(self._added("message"))
        status = "incomplete" if self._is_incomplete(result) else "completed"
        events.extend(self._end_item(status))
        events.append(self._event(f"response.{status}", response=self._response(result, report)))
        return b"".join(events)

    def failed(self, error: JsonObject) -> bytes:
        """Return the event of an error, which ends a stream."""
        told = error["error"]
        assert isinstance(told, dict), "an error without its object"
        names = ("code", "message", "param", "guided")
        fields = {name: told[name] for name in names if name in told}
        return self._event("error", **fields)

    def _begin(self) -> list[bytes]:
        if self._num_events:
            return []
        begun = self._response(None)
        return [
            self._event("response.created", response=begun),
            self._event("response.in_progress", response=begun),
        ]

    def _told(self, pieces: Iterable[Piece]) -> list[bytes]:
        events: list[bytes] = []
        for piece in pieces:
            match piece:
                case CallBegun(name):
                    is_custom = name in self._style.custom
                    kind: _Kind = "custom_tool_call" if is_custom else "function_call"
                    events += self._added(kind, name)
                case Content(text):
                    if not self._items or self._items[-1].kind != "message":
                        events += self._added("message")
                    events.append(self._delta(text))
                case Argument(text):
                    events.append(self._delta(text))
        return events

    def _added(self, kind: _Kind, name: str = "") -> list[bytes]:
        """Return the events that end the last item, then those that begin a new one."""
        events = self._end_item("completed")
        item = _Item(kind, name, self._is_summarized)
        self._items.append(item)
        added = self._event("response.output_item.added", **self._place(), item=item.begun())
        events.append(added)
        if kind not in _CALL_TEXTS:
            part = item.part("", [])
            events.append(self._event("response.content_part.added", **self._at(), part=part))
        return events

    def _delta(self, text: str) -> bytes:
        item = self._items[-1]
        item.pieces.append(text)
        beside: JsonObject = {"logprobs": []} if item.kind == "message" else {}
        return self._event(f"{_TEXT_EVENTS[item.kind]}.delta", **self._at(), delta=text, **beside)

    def _end_item(self, status: str) -> list[bytes]:
        """Return the events that end the last item."""
        if len(self._done) == len(self._items):
            return []
        item = self._items[-1]
        shown = item.ended(status, self._logprobs)
        self._done.append(shown)
        ended = self._end_text(item)
        return [*ended, self._event("response.output_item.done", **self._place(), item=shown)]

    def _end_text(self, item: _Item) -> list[bytes]:
        done = f"{_TEXT_EVENTS[item.kind]}.done"
        match item.kind:
            case "function_call":
                return [self._event(done, **self._at(), name=item.name, arguments=item.text)]
            case "custom_tool_call":
                return [self._event(done, **self._at(), input=item.text)]
            case "message":
                said: JsonObject = {"text": item.text, "logprobs": self._logprobs}
            case "reasoning":
                said = {"text": item.text}
        part = item.part(item.text, self._logprobs)
        return [
            self._event(done, **self._at(), **said),
            self._event("response.content_part.done", **self._at(), part=part),
            *(self._summary(item) if item.kind == "reasoning" and item.is_summarized else ()),
        ]

    def _summary(self, item: _Item) -> list[bytes]:
        at = {**self._place(), "item_id": item.item_id, "summary_index": 0}
        part, text = "response.reasoning_summary_part", "response.reasoning_summary_text"
        return [
            self._event(f"{part}.added", **at, part=_summary_part("")),
            self._event(f"{text}.delta", **at, delta=item.text),
            self._event(f"{text}.done", **at, text=item.text),
            self._event(f"{part}.done", **at, part=_summary_part(item.text)),
        ]

    def _place(self) -> JsonObject:
        return {"output_index": len(self._items) - 1}

    def _at(self) -> JsonObject:
        """Return the place of the last text; a call has no parts."""
        item = self._items[-1]
        part: JsonObject = {} if item.kind in _CALL_TEXTS else {"content_index": 0}
        return {**self._place(), "item_id": item.item_id, **part}

    def _event(self, kind: str, **told: object) -> bytes:
        number = self._num_events
        self._num_events += 1
        return event({"type": kind, "sequence_number": number, **told}, kind)

    def _is_incomplete(self, result: GenerationResult) -> bool:
        return self._style.finish(result.finish_reason, self._reader) == "length"

    def _response(
        self, result: GenerationResult | None, report: JsonObject | None = None
    ) -> JsonObject:
        """Return the response as it is now; once complete, with its output and cost."""
        shown = self._shown
        is_incomplete = result is not None and self._is_incomplete(result)
        ended = "incomplete" if is_incomplete else "completed"
        said: JsonObject = {
            "id": shown.answer_id,
            "object": "response",
            "created_at": shown.created,
            "completed_at": None,
            "status": "in_progress" if result is None else ended,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_incomplete else None,
            "model": shown.model,
            "output": [] if result is None else self._done,
            **self._repeated,
            "usage": None,
        }
        if result is not None:
            usage = result.usage
            if not is_incomplete:
                said["completed_at"] = shown.created + int(result.seconds)
            told: JsonObject = {} if report is None else {"report": report}
            said["guided"] = {"finish_reason": result.finish_reason.value, **told}
            said["usage"] = {
                "input_tokens": usage.prompt_tokens,
                # Which tokens stay cached, and for how long, is not promised.
                "input_tokens_details": {
                    "cached_tokens": usage.reused_tokens,
                    "cache_write_tokens": 0,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.prompt_tokens + usage.output_tokens,
            }
        return said
