"""Formats places in the text of a grammar, for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from unicodedata import combining, east_asian_width

from guided.errors import InvalidConstraintError

__all__ = ["SourcePosition", "check_encodable"]

_MAX_SHOWN: Final = 60
"""Characters shown of a line on either side of the caret."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """An offset in a text; ``None`` if it is unknown or in another text."""

    text: str
    position: int | None

    def message(self, what: str) -> str:
        """Return ``what`` with line, column and a caret below the place."""
        if self.position is None:
            return what
        return f"{self.place}: {what}{self.excerpt}"

    @property
    def place(self) -> str:
        """Line and column, of which the position must be known."""
        assert self.position is not None, "a place that is not known"
        before = self.text[: self.position]
        line, column = before.count("\n") + 1, self.position - before.rfind("\n")
        return f"line {line}, column {column}"

    @property
    def excerpt(self) -> str:
        """An empty line, then the line of the text with a caret below the place."""
        if self.position is None:
            return ""
        begin = self.text.rfind("\n", 0, self.position) + 1
        column = self.position - begin
        end = self.text.find("\n", self.position)
        whole = self.text[begin : len(self.text) if end < 0 else end].removesuffix("\r")
        visible = whole[max(0, column - _MAX_SHOWN) : column + _MAX_SHOWN]
        # No message could be printed with one.
        visible = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", visible)
        indent = "".join([_blank(char) for char in visible[: min(column, _MAX_SHOWN)]])
        return f"\n\n{visible}\n{indent}^"


def check_encodable(text: str) -> None:
    """Raise InvalidConstraintError, with a caret, if a text holds half of a surrogate pair."""
    found = _SURROGATE.search(text)
    if found is not None:
        what = "a surrogate is half of a character and no text"
        raise InvalidConstraintError(
            SourcePosition(text, found.start()).message(what),
            position=found.start(),
            hint="write the whole character, itself or by its code point",
        )


def _blank(char: str) -> str:
    """Return white space as wide as a character in a terminal."""
    if char == "\t":
        return char
    return " " * (0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1)
