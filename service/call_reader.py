"""Separates the tool calls in a text from its content, as the text grows.

::

    content ──trigger──▶ header ──"arguments": ──▶ arguments ──end──▶ content
       │                                              │
       held back: what may begin a trigger            held back: what may begin the end

The grammar guarantees the form: arguments are compact JSON without line breaks, so an end mark that
starts with a line break really is the end. If a call is a whole answer, its end is the last one in
the text. White space around calls is not content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, TypeAlias
from uuid import uuid4

from guided.spec import GenerationRequest, ToolCall
from guided.spec.tool_format import ToolFormat, strip_marks
from guided.spec.tool_members import text_members
from guided_service.input_reader import InputReader
from guided_service.literal_reader import LiteralReader
from guided_service.member_reader import MemberReader, overlap

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
    """A call of the named function begins; its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class Argument:
    """Text of the arguments of the latest call."""

    text: str


Piece = Content | CallBegun | Argument

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the beginning of one."""
_PART: Final = 1 << 12
"""Characters of a whole text that are read at once."""
_CONTENT, _HEADER, _ARGUMENTS, _PLAIN = range(4)


class CallReader:
    """Splits a text into content and calls; looks at each character a bounded number of times."""

    def __init__(
        self,
        form: ToolFormat,
        *,
        beside_json: bool = False,
        has_calls: bool = True,
        texts: Mapping[str, Mapping[str, bool]] | None = None,
        inputs: Collection[str] = (),
    ) -> None:
        """``beside_json``: the text is either calls or JSON, whose strings may contain anything.

        Without ``has_calls`` the whole text is content. ``texts`` names, for each tool, the
        arguments written as plain text in formats that use tags, as ``text_members`` returns them.
        The arguments of calls of the tools ``inputs`` are returned as their input, without JSON.
        """
        self._form = form
        self._texts = texts or {}
        self._inputs = inputs
        self._input: InputReader | None = None
        """Reads the arguments of a call of one of these tools."""
        self._members: MemberReader | LiteralReader | None = None
        """Reads arguments that are not JSON."""
        self._left_out = 0 if has_calls else len(form.before_content)
        """Characters still to be dropped of what precedes an answer without calls."""
        self._is_decided = not has_calls or (not beside_json and form.separator is not None)
        """Whether the text may have calls; until known, its first characters decide."""
        self._text = ""
        """Text that was not returned yet."""
        self._within = _CONTENT if has_calls else _PLAIN
        self._space = ""
        """White space that is content only if more content follows."""
        self._has_content = False
        self._arguments: list[str] = []
        """Returned parts of arguments whose end only the end of the text reveals."""
        self.num_calls = 0

    @property
    def is_in_call(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._within in (_HEADER, _ARGUMENTS)

    @property
    def num_ended(self) -> int:
        """The number of calls that have ended."""
        return self.num_calls - (self._within == _ARGUMENTS)

    def shown(self, text: str) -> str:
        """Return a text, or part of one, as callers see it: without marks around special tokens."""
        # In other formats the mark is an ordinary character.
        return strip_marks(text) if self._form.special_tokens else text

    def read(self, text: str) -> Iterator[Piece]:
        """Read more text and yield the pieces that are now certain."""
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
            yield from self._told(piece)

    def _told(self, piece: Piece) -> Iterator[Piece]:
        """Yield a piece as callers see it, unless it is empty."""
        match piece:
            case CallBegun(name):
                self._input = InputReader() if name in self._inputs else None
                yield piece
            case Argument(text) if self._input is not None:
                if told := self._input.read(text):
                    yield Argument(told)
            case _ if piece.text:
                yield piece

    def _leave_out(self) -> None:
        count = min(self._left_out, len(self._text))
        self._text, self._left_out = self._text[count:], self._left_out - count

    def end(self) -> Iterator[Piece]:
        """Yield what was held back, as nothing follows; part of an unfinished call, too."""
        for piece in self._rest():
            yield from self._told(piece)

    def _rest(self) -> Iterator[Piece]:
        rest, self._text = self._text, ""
        if self._members is not None:
            yield Argument(self._members.broken_off(rest))
        elif self._within == _ARGUMENTS:
            before_end = rest.removesuffix(self._form.end)
            # A text that breaks off may also end like a call.
            is_open = self._form.separator is None or not self._form.end
            if is_open and _is_object("".join([*self._arguments, before_end])):
                rest, self._within = before_end, _PLAIN
            yield Argument(rest)
        elif self._within == _CONTENT:
            content = self._content(rest).text
            # White space around calls is not content; without calls it is what the model said.
            if not self.num_calls:
                content += self._space
            yield Content(content)

    def _next(self) -> Piece | None:
        """Return the next piece, empty if only the state changed, ``None`` if text is missing."""
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
        """Return all but as many last characters as the end has: they may be the end."""
        certain = max(0, len(self._text) - len(self._form.end))
        told, self._text = self._text[:certain], self._text[certain:]
        self._arguments.append(told)
        return Argument(told) if told else None

    def _next_up_to_another(self) -> Piece | None:
        """Return all up to the trigger of the next call, which no arguments contain."""
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
        """Return content without the white space at either end, which may stand next to a call."""
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
"""Makes the reader of one answer."""


def reader_of(
    request: GenerationRequest, form: ToolFormat, *, inputs: Collection[str] = ()
) -> ReaderOf | None:
    """Return a maker of readers for answers to a request, or ``None`` if it has no tools.

    ``inputs`` are as for ``CallReader``.
    """
    if request.tools is None:
        return None
    if not request.tools.callable_tools:
        return partial(CallReader, form, has_calls=False)
    # If calls are required, the text has nothing else.
    is_beside = request.constraint is not None and request.tools.choice == "auto"
    tools = request.tools.callable_tools if form.members is not None else ()
    texts = {tool.name: text_members(tool) for tool in tools}
    return partial(CallReader, form, beside_json=is_beside, texts=texts, inputs=inputs)


def calls_in(
    text: str, reader: CallReader, ids: Iterable[str] = ()
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the content of a whole text, and its calls: the first with these ids, the others
    with new ones.
    """
    content: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    # In parts, as a call read cuts itself off the text that the reader holds.
    parts = (text[begin : begin + _PART] for begin in range(0, len(text), _PART))
    for piece in chain(chain.from_iterable(map(reader.read, parts)), reader.end()):
        match piece:
            case Content(said):
                content.append(said)
            case CallBegun(name):
                calls.append((name, []))
            case Argument(said):
                calls[-1][1].append(said)
    all_ids = chain(ids, iter(call_id, ""))
    made = tuple(ToolCall(name, "".join(parts), next(all_ids)) for name, parts in calls)
    return "".join(content), made


def call_id() -> str:
    """Return a new id for a call."""
    return f"call_{uuid4().hex[:24]}"


def _is_object(text: str) -> bool:
    """Whether the text, which the grammar makes begin a JSON object, is a whole object."""
    outside = _STRING.sub("", text)
    return 0 < outside.count("{") == outside.count("}")
