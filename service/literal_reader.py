"""Reads call arguments with bare names and texts between special tokens, and returns them as JSON.

::

    city: | <|"|> | O"slo | <|"|> | ,days:  | [1,2] | }<tool_call|>
    {"city": | "  | O\\"slo | "    | ,"days": | [1,2] | }

The grammar guarantees the form: special tokens stand between marks, which no text contains.
"""

from __future__ import annotations

import json
import re
from typing import Final

from guided.spec.tool_format import MARK

__all__ = ["LiteralReader"]

_NAME: Final = re.compile(r"([^:,{}\[\]\x01]*):")
_PLAIN: Final = re.compile(r"[^:,{}\[\]\x01]+")


class LiteralReader:
    """Reads the arguments of one call; looks at each character a bounded number of times."""

    def __init__(self, quote: str, end: str) -> None:
        """``quote`` surrounds texts; ``end`` ends the call, including its brace."""
        self._quote = quote
        self._end = end
        self._open = ["{"]
        """The brackets that are open."""
        self._has_begun = False
        self._is_before_name = True
        self._in_text = False
        self.length = 0
        """Length of what was read last, in characters."""
        self.is_over = False

    def read(self, text: str) -> str | None:
        """Return the JSON of what a text begins with, or ``None`` if it needs more text.

        Each call passes the text after what was read before.
        """
        told, self.length = [] if self._has_begun else ["{"], 0
        while not self.is_over and (piece := self._next(text, self.length)) is not None:
            told.append(piece)
        if not self.length:
            return None
        self._has_begun = True
        return "".join(told)

    def broken_off(self, text: str) -> str:  # noqa: ARG002 - what is held back has no JSON yet
        """Return the JSON of what was held back, as nothing follows."""
        return ""

    def _next(self, text: str, at: int) -> str | None:
        """Return the JSON of the next piece, or ``None`` if it is incomplete."""
        if at == len(text):
            return None
        if text[at] == MARK:
            if not text.startswith(self._quote, at):
                return None
            self._in_text = not self._in_text
            return self._read(len(self._quote), '"')
        if self._in_text:
            end = text.find(MARK, at)
            said = text[at : end if end >= 0 else len(text)]
            return self._read(len(said), json.dumps(said, ensure_ascii=False)[1:-1])
        if self._is_before_name and text[at] != "}":
            if (found := _NAME.match(text, at)) is None:
                return None
            self._is_before_name = False
            return self._read(len(found[0]), f"{json.dumps(found[1], ensure_ascii=False)}:")
        if (plain := _PLAIN.match(text, at)) is not None:
            return self._read(len(plain[0]), plain[0])
        return self._bracket(text, at)

    def _bracket(self, text: str, at: int) -> str | None:
        """Read a bracket or a comma; the last brace is read with the end that it begins."""
        sign = text[at]
        if sign in "{[":
            self._open.append(sign)
        elif sign in "}]":
            if len(self._open) == 1:
                if not text.startswith(self._end, at):
                    return None
                self.is_over = True
                return self._read(len(self._end), "}")
            self._open.pop()
        self._is_before_name = sign in "{," and self._open[-1] == "{"
        return self._read(1, sign)

    def _read(self, length: int, told: str) -> str:
        self.length += length
        return told
