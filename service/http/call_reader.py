"""Reads text with calls of tools in it, as it grows.

::

    content ──TRIGGER──▶ header ──"arguments": ──▶ arguments ──END──▶ content
       │                                              │
       held back: what may begin a trigger            held back: what may begin the end

The grammar has made sure of the form: in the arguments, which are compact JSON, no line break
stands, so the end is the end. White space beside calls is no content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from guided_service.http.tools import ARGUMENTS, BEGIN, END, TRIGGER

__all__ = ["Argument", "CallBegun", "CallReader", "Content", "Piece"]


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

_CONTENT, _HEADER, _ARGUMENTS, _JSON = range(4)
_NAME_AT: Final = len(BEGIN)


class CallReader:
    """Takes a text apart; each of its characters is looked at a bounded number of times."""

    def __init__(self, *, beside_json: bool = False) -> None:
        """``beside_json``: the text is either calls or JSON, in whose texts anything may stand."""
        self._may_be_json = beside_json
        self._text = ""
        """What was not told yet."""
        self._within = _CONTENT
        self._space = ""
        """White space that is content if more of it follows."""
        self._has_content = False
        self.num_calls = 0

    @property
    def is_in_call(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._within in (_HEADER, _ARGUMENTS)

    def read(self, text: str) -> Iterator[Piece]:
        """What is certain now that this text has come, too."""
        self._text += text
        if self._may_be_json and self._text:
            self._may_be_json = False
            if not self._text.startswith(TRIGGER[0]):
                self._within = _JSON
        while (piece := self._next()) is not None:
            if not isinstance(piece, Content) or piece.text:
                yield piece

    def end(self) -> Iterator[Piece]:
        """What was held back, now that nothing follows; of an unfinished call what there is."""
        rest, self._text = self._text, ""
        if self._within == _ARGUMENTS and rest:
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
        before, found, after = self._text.partition(TRIGGER)
        if found:
            self._within, self._text = _HEADER, found + after
            content = self._content(before)
            self._space = ""
            return content
        certain = len(self._text) - _overlap(self._text, TRIGGER)
        told, self._text = self._text[:certain], self._text[certain:]
        return self._content(told) if told else None

    def _next_of_header(self) -> Piece | None:
        end = self._text.find(ARGUMENTS, _NAME_AT)
        if end < 0:
            return None
        name = json.loads(self._text[_NAME_AT:end])
        self._within, self._text = _ARGUMENTS, self._text[end + len(ARGUMENTS) :]
        self.num_calls += 1
        return CallBegun(name)

    def _next_of_arguments(self) -> Piece | None:
        told, found, after = self._text.partition(END)
        if found:
            self._within, self._text = _CONTENT, after
            self._has_content = False
            return Argument(told) if told else Content("")
        certain = len(self._text) - _overlap(self._text, END)
        told, self._text = self._text[:certain], self._text[certain:]
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


def _overlap(text: str, sign: str) -> int:
    """How many characters at the end of the text may begin the sign."""
    for length in range(min(len(text), len(sign) - 1), 0, -1):
        if sign.startswith(text[-length:]):
            return length
    return 0
