"""Answers of ``POST /v1/responses``, whole and as events.

::

    response.created, response.in_progress
      response.output_item.added                          a message, or a call of a function
        response.content_part.added                       of a message
          response.output_text.delta …                    or function_call_arguments.delta …
          response.output_text.done                       or function_call_arguments.done
        response.content_part.done
      response.output_item.done
    response.completed, or response.incomplete
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from guided.spec import GenerationResult
from guided_service.call_reader import Argument, CallBegun, Content, Piece, call_id
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatStyle
from guided_service.http.errors import JsonObject
from guided_service.http.events import event
from guided_service.http.logprobs import told_tokens

__all__ = ["ResponseForm"]


@dataclass(slots=True)
class _Item:
    """A part of the output: a message, or a call of the function of this name."""

    name: str | None
    item_id: str = field(init=False)
    call_id: str = field(default_factory=call_id)
    pieces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.item_id = ("msg_" if self.name is None else "fc_") + uuid4().hex

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def shown(self, status: str, content: list[JsonObject]) -> JsonObject:
        if self.name is None:
            said: JsonObject = {"type": "message", "role": "assistant", "content": content}
        else:
            arguments = "" if status == "in_progress" else self.text
            said = {
                "type": "function_call",
                "call_id": self.call_id,
                "name": self.name,
                "arguments": arguments,
            }
        return {"id": self.item_id, "status": status, **said}


class ResponseForm:
    """One response, of one answer."""

    def __init__(self, style: ChatStyle, repeated: JsonObject, shown: Shown) -> None:
        """``repeated`` is what a response tells again of its request."""
        self._style = style
        self._repeated = repeated
        self._shown = shown
        self._reader = style.reader_of(shown.tool_format)
        self._items: list[_Item] = []
        self._done: list[JsonObject] = []
        """Items that have ended, as they are shown."""
        self._num_events = 0
        self._logprobs: list[JsonObject] = []

    def whole(self, result: GenerationResult) -> JsonObject:
        """The body of an answer."""
        self.grown(result.text)
        self.ended(result)
        return self._response(result)

    def thought(self, text: str) -> bytes:
        """None: nothing asks for thoughts here."""
        raise AssertionError(f"a thought in an answer without any: {text!r}")

    def grown(self, text: str) -> bytes:
        """The events of more text."""
        return b"".join([*self._begin(), *self._told(self._read(text))])

    def ended(self, result: GenerationResult) -> bytes:
        """The last events."""
        self._logprobs = told_tokens(result.logprobs) if self._style.tells_logprobs else []
        rest = () if self._reader is None else self._reader.end()
        events = [*self._begin(), *self._told(rest)]
        if not self._items:
            events.extend(self._added(None))
        status = "incomplete" if self._is_incomplete(result) else "completed"
        events.extend(self._end_item(status))
        events.append(self._event(f"response.{status}", response=self._response(result)))
        return b"".join(events)

    def failed(self, error: JsonObject) -> bytes:
        """What ends a stream with an error."""
        told = error["error"]
        assert isinstance(told, dict), "an error without its object"
        fields = {name: told[name] for name in ("code", "message", "param")}
        return self._event("error", **fields)

    def _read(self, text: str) -> Iterable[Piece]:
        if self._reader is None:
            return [Content(text)] if text else []
        return self._reader.read(text)

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
                    events += self._added(name)
                case Content(text):
                    if not self._items or self._items[-1].name is not None:
                        events += self._added(None)
                    events.append(self._delta("response.output_text.delta", text))
                case Argument(text):
                    events.append(self._delta("response.function_call_arguments.delta", text))
        return events

    def _added(self, name: str | None) -> list[bytes]:
        """Events of a new item, behind those that end the one before."""
        events = self._end_item("completed")
        item = _Item(name)
        self._items.append(item)
        shown = item.shown("in_progress", [])
        events.append(self._event("response.output_item.added", **self._place(), item=shown))
        if name is None:
            part = _part("", [])
            events.append(self._event("response.content_part.added", **self._at(), part=part))
        return events

    def _delta(self, kind: str, text: str) -> bytes:
        item = self._items[-1]
        item.pieces.append(text)
        if item.name is None:
            return self._event(kind, **self._at(), delta=text, logprobs=[])
        return self._event(kind, item_id=item.item_id, **self._place(), delta=text)

    def _end_item(self, status: str) -> list[bytes]:
        """Events of the end of the last item."""
        if len(self._done) == len(self._items):
            return []
        item = self._items[-1]
        part = _part(item.text, self._logprobs)
        shown = item.shown(status, [part])
        self._done.append(shown)
        last = self._event("response.output_item.done", **self._place(), item=shown)
        if item.name is not None:
            told = {"item_id": item.item_id, "name": item.name, "arguments": item.text}
            done = "response.function_call_arguments.done"
            return [self._event(done, **self._place(), **told), last]
        said = {"text": item.text, "logprobs": self._logprobs}
        return [
            self._event("response.output_text.done", **self._at(), **said),
            self._event("response.content_part.done", **self._at(), part=part),
            last,
        ]

    def _place(self) -> JsonObject:
        return {"output_index": len(self._items) - 1}

    def _at(self) -> JsonObject:
        """The place of the only part of a message."""
        return {**self._place(), "item_id": self._items[-1].item_id, "content_index": 0}

    def _event(self, kind: str, **told: object) -> bytes:
        number = self._num_events
        self._num_events += 1
        return event({"type": kind, "sequence_number": number, **told}, kind)

    def _is_incomplete(self, result: GenerationResult) -> bool:
        return self._style.finish(result.finish_reason, self._reader) == "length"

    def _response(self, result: GenerationResult | None) -> JsonObject:
        """The response as it is now: with its output and its cost once it is complete."""
        shown = self._shown
        is_incomplete = result is not None and self._is_incomplete(result)
        ended = "incomplete" if is_incomplete else "completed"
        said: JsonObject = {
            "id": shown.answer_id,
            "object": "response",
            "created_at": shown.created,
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
            said["guided"] = {"finish_reason": result.finish_reason.value}
            said["usage"] = {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": usage.reused_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.prompt_tokens + usage.output_tokens,
            }
        return said


def _part(text: str, logprobs: list[JsonObject]) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
