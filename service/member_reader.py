"""Reads call arguments that are written in tags, and returns the JSON they stand for.

::

    <parameter=city>⏎ | Osl | o⏎</parameter>⏎ | <parameter=days>⏎ | 3⏎</parameter>⏎ | </function>…
    {"city":"         | Osl | o"              | ,"days":          | 3               | }

A value is returned as it grows, except for what may begin the end of its tag or be the text for
``null``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from guided.spec.tool_members import NULL, MemberFormat

__all__ = ["MemberReader", "overlap"]


class MemberReader:
    """Reads the arguments of one call; looks at each character a bounded number of times."""

    def __init__(self, form: MemberFormat, end: str, texts: Mapping[str, bool]) -> None:
        """``end`` ends the call; ``texts`` are the arguments that are not JSON, each with whether
        it may be ``null``.
        """
        self._form = form
        self._end = end
        self._texts = texts
        self._begin = "{"
        self._in_value = False
        self._is_text = False
        """Whether the latest value is not JSON."""
        self._may_be_null = False
        """Whether it may still be ``null``; until known its opening quote is held back."""
        self.length = 0
        """Length of what was read last, in characters."""
        self.is_over = False

    def read(self, text: str) -> str | None:
        """Return the JSON of what a text begins with, or ``None`` if it needs more text.

        Each call passes the text after what was read before. The JSON may be empty, for an end
        whose JSON was already returned.
        """
        return self._more_of_value(text) if self._in_value else self._header(text)

    def broken_off(self, text: str) -> str:
        """Return the JSON of what was held back, as nothing follows."""
        begin = '"' if self._may_be_null and text else ""
        return begin + self._told(text) if self._in_value else ""

    def _header(self, text: str) -> str | None:
        form = self._form
        if text.startswith(self._end):
            self.length, self.is_over = len(self._end), True
            return "}" if self._begin == "," else "{}"
        at = text.find(form.before_value, len(form.before_name))
        if at < 0:
            return None
        name = text[len(form.before_name) : at]
        self.length = at + len(form.before_value)
        self._in_value, self._is_text = True, name in self._texts
        self._may_be_null = self._texts.get(name, False)
        quote = "" if self._may_be_null else self._quote
        told = f"{self._begin}{json.dumps(name)}:{quote}"
        self._begin = ","
        return told

    def _more_of_value(self, text: str) -> str | None:
        end, begin = self._form.end, ""
        if self._may_be_null:
            if text.startswith(f"{NULL}{end}"):
                self.length, self._in_value, self._may_be_null = len(NULL) + len(end), False, False
                return NULL
            if f"{NULL}{end}".startswith(text):
                return None
            self._may_be_null, begin = False, self._quote
        at = text.find(end)
        if at >= 0:
            self.length, self._in_value = at + len(end), False
            return f"{begin}{self._told(text[:at])}{self._quote}"
        self.length = len(text) - overlap(text, end)
        return begin + self._told(text[: self.length]) or None

    @property
    def _quote(self) -> str:
        return '"' if self._is_text else ""

    def _told(self, written: str) -> str:
        return json.dumps(written, ensure_ascii=False)[1:-1] if self._is_text else written


def overlap(text: str, sign: str) -> int:
    """Return how many characters at the end of the text may begin the sign."""
    for length in range(min(len(text), len(sign) - 1), 0, -1):
        if sign.startswith(text[-length:]):
            return length
    return 0
