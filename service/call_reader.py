"""Reads text with calls of tools in it, as it grows.

::

    content ──trigger──▶ header ──"arguments": ──▶ arguments ──end──▶ content
       │                                              │
       held back: what may begin a trigger            held back: what may begin the end

The grammar has made sure of the form: in the arguments, which are compact JSON, no line break
stands, so an end that begins after one is the end. Where a call is a whole answer its end is the
last that comes. White space beside calls is no content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from uuid import uuid4

from guided.spec import GenerationRequest, ToolCall
from guided.spec.tool_format import ToolFormat, unmarked
from guided.spec.tool_members import text_members
from guided_service.held_back import overlap
from guided_service.literal_reader import LiteralReader
from guided_service.member_reader import MemberReader

__all__ = [
    "Argument",
    "CallBegun",
    "CallReader",
    "Content",
    "Piece",
    "ReaderOf",
    "call_id",
    "calls_in",
    "reader_of",
]


@dataclass(frozen=True, slots=True)
class Content:
    """Text outside of calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of this function; its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class Argument:
    """Text of the arguments of the last call that has begun."""

    text: str


Piece = Content | CallBegun | Argument

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""In JSON, also one that breaks off."""
_CONTENT, _HEADER, _ARGUMENTS, _PLAIN = range(4)


class CallReader:
    """Takes a text apart; each of its characters is looked at a bounded number of times."""

    def __init__(
        self,
        form: ToolFormat,
        *,
        beside_json: bool = False,
        has_calls: bool = True,
        texts: Mapping[str, Mapping[str, bool]] | None = None,
    ) -> None:
        """``beside_json``: the text is either calls or JSON, in whose texts anything may stand.

        Without ``has_calls`` all of the text is content. ``texts`` are the arguments of each tool
        that are written as text where the format has them in tags, as ``text_members`` tells them.
        """
        self._form = form
        self._texts = texts or {}
        self._members: MemberReader | LiteralReader | None = None
        """Reads the arguments of a call that are no JSON."""
        self._left_out = 0 if has_calls else len(form.before_content)
        """Characters of what stands before an answer without calls that are still to come."""
        self._is_decided = not has_calls or (not beside_json and form.separator is not None)
        """Whether calls may stand in the text; else its first characters tell whether it is one."""
        self._text = ""
        """What was not told yet."""
        self._within = _CONTENT if has_calls else _PLAIN
        self._space = ""
        """White space that is content if more of it follows."""
        self._has_content = False
        self._arguments: list[str] = []
        """What was told of arguments of which only the end of the text tells whether they end."""
        self.num_calls = 0

    @property
    def is_in_call(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._within in (_HEADER, _ARGUMENTS)

    @property
    def num_ended(self) -> int:
        """How many calls have ended."""
        return self.num_calls - (self._within == _ARGUMENTS)

    def shown(self, text: str) -> str:
        """A text, or a part of one, as callers see it: without marks around special tokens."""
        # In other formats the character of the mark is one like any other.
        return unmarked(text) if self._form.signs else text

    def read(self, text: str) -> Iterator[Piece]:
        """What is certain now that this text has come, too."""
        self._text += text
        trigger = self._form.trigger
        if not self._is_decided:
            if trigger.startswith(self._text) and self._text != trigger:
                return
            self._is_decided = True
            if not self._text.startswith(trigger):
                self._within, self._left_out = _PLAIN, len(self._form.before_content)
        self._leave_out()
        while (piece := self._next()) is not None:
            if not isinstance(piece, Content) or piece.text:
                yield piece

    def _leave_out(self) -> None:
        count = min(self._left_out, len(self._text))
        self._text, self._left_out = self._text[count:], self._left_out - count

    def end(self) -> Iterator[Piece]:
        """What was held back, now that nothing follows; of an unfinished call what there is."""
        rest, self._text = self._text, ""
        if self._members is not None:
            if told := self._members.broken_off(rest):
                yield Argument(told)
        elif self._within == _ARGUMENTS:
            before_end = rest.removesuffix(self._form.end)
            # A text that breaks off may end like a call, too.
            is_open = self._form.separator is None or not self._form.end
            if is_open and _is_object("".join([*self._arguments, before_end])):
                rest, self._within = before_end, _PLAIN
            if rest:
                yield Argument(rest)
        elif self._within == _CONTENT:
            content = self._content(rest).text
            # Beside calls white space is no content; alone it is what the model said.
            if not self.num_calls:
                content += self._space
            if content:
                yield Content(content)

    def _next(self) -> Piece | None:
        """The next piece, one of no text where only the state has changed, ``None`` for more."""
        if self._within == _CONTENT:
            return self._next_of_content()
        if self._within == _HEADER:
            return self._next_of_header()
        if self._within == _ARGUMENTS:
            return self._next_of_arguments()
        told, self._text = self._text, ""
        return Content(told) if told else None

    def _next_of_content(self) -> Piece | None:
        before, found, after = self._text.partition(self._form.trigger)
        if found:
            self._within, self._text = _HEADER, found + after
            content = self._content(before)
            self._space = ""
            return content
        certain = len(self._text) - overlap(self._text, self._form.trigger)
        told, self._text = self._text[:certain], self._text[certain:]
        return self._content(told) if told else None

    def _next_of_header(self) -> Piece | None:
        form, begin = self._form, len(self._form.before_name)
        end = self._text.find(form.before_arguments, begin)
        if end < 0:
            return None
        told = self._text[begin:end]
        name = json.loads(told) if form.is_quoted else told
        self._within, self._text = _ARGUMENTS, self._text[end + len(form.before_arguments) :]
        self.num_calls += 1
        if form.members is not None:
            self._members = MemberReader(form.members, form.end, self._texts.get(name, {}))
        elif form.quote:
            self._members = LiteralReader(form.quote, form.end)
        return CallBegun(name)

    def _next_of_arguments(self) -> Piece | None:
        if self._members is not None:
            return self._next_of_members(self._members)
        if self._form.separator is None:
            return self._next_but_the_end()
        if not self._form.end:
            return self._next_up_to_another()
        told, found, after = self._text.partition(self._form.end)
        if found:
            self._within, self._text = _CONTENT, after
            self._has_content = False
            return Argument(told) if told else Content("")
        certain = len(self._text) - overlap(self._text, self._form.end)
        told, self._text = self._text[:certain], self._text[certain:]
        return Argument(told) if told else None

    def _next_of_members(self, members: MemberReader | LiteralReader) -> Piece | None:
        told = members.read(self._text)
        if told is None:
            return None
        self._text = self._text[members.length :]
        if members.is_over:
            self._within, self._members, self._has_content = _CONTENT, None, False
        return Argument(told) if told else Content("")

    def _next_but_the_end(self) -> Piece | None:
        """All but as many characters as the end has, which are the end if nothing follows."""
        certain = max(0, len(self._text) - len(self._form.end))
        told, self._text = self._text[:certain], self._text[certain:]
        self._arguments.append(told)
        return Argument(told) if told else None

    def _next_up_to_another(self) -> Piece | None:
        """All up to the trigger of the next call, which no arguments have in them."""
        told, found, after = self._text.partition(self._form.trigger)
        if found:
            self._within, self._text = _HEADER, found + after
            self._arguments.clear()
            return Argument(told) if told else Content("")
        certain = len(self._text) - overlap(self._text, self._form.trigger)
        told, self._text = self._text[:certain], self._text[certain:]
        self._arguments.append(told)
        return Argument(told) if told else None

    def _content(self, text: str) -> Content:
        """Content but for the white space at either end, which may stand beside a call."""
        if not self._has_content and self.num_calls:
            text = text.lstrip()
        if not text:
            return Content("")
        kept = (self._space + text).rstrip()
        if not kept:
            self._space += text
            return Content("")
        self._space, self._has_content = (self._space + text)[len(kept) :], True
        return Content(kept)


ReaderOf: TypeAlias = Callable[[], CallReader]
"""Makes what takes one answer apart."""


def reader_of(request: GenerationRequest, form: ToolFormat) -> ReaderOf | None:
    """Makes what takes answers to a request apart; ``None`` where it gave no tools."""
    if request.tools is None:
        return None
    if not request.tools.callable:
        return partial(CallReader, form, has_calls=False)
    # Where calls are demanded, nothing else may stand there.
    is_beside = request.constraint is not None and request.tools.choice == "auto"
    tools = request.tools.callable if form.members is not None else ()
    texts = {tool.name: text_members(tool) for tool in tools}
    return partial(CallReader, form, beside_json=is_beside, texts=texts)


def calls_in(text: str, reader: CallReader) -> tuple[str, tuple[ToolCall, ...]]:
    """What a whole text says beside its calls, and the calls, each under an id of its own."""
    content: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    for piece in (*reader.read(text), *reader.end()):
        match piece:
            case Content(said):
                content.append(said)
            case CallBegun(name):
                calls.append((name, []))
            case Argument(said):
                calls[-1][1].append(said)
    made = tuple(ToolCall(name, "".join(parts), call_id()) for name, parts in calls)
    return "".join(content), made


def call_id() -> str:
    """A new name for a call."""
    return f"call_{uuid4().hex[:24]}"


def _is_object(text: str) -> bool:
    """Whether the beginning of a JSON object, which the grammar has made sure of, is all of it."""
    outside = _STRING.sub("", text)
    return 0 < outside.count("{") == outside.count("}")
