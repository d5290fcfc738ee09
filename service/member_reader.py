"""Reads the arguments of a call that stand in tags, and tells them as the JSON that they are.

::

    <parameter=city>⏎Oslo⏎</parameter>⏎ | <parameter=days>⏎3⏎</parameter>⏎ | </function>…
    {"city":"Oslo"                        ,"days":3                          }
"""

from __future__ import annotations

import json

from guided.spec.tool_members import MemberFormat

__all__ = ["MemberReader"]


class MemberReader:
    """Takes the arguments of one call; each character is looked at a bounded number of times."""

    def __init__(self, form: MemberFormat, end: str, texts: frozenset[str]) -> None:
        """``end`` is that of the call, ``texts`` are the arguments that are no JSON."""
        self._form = form
        self._end = end
        self._texts = texts
        self._begin = "{"
        self._searched = 0
        """Characters of the text in which no value ends."""
        self.length = 0
        """Of what was read last, in characters."""
        self.is_over = False

    def read(self, text: str) -> str | None:
        """The JSON of what comes first in a text, once all of it is there, else ``None``.

        The text goes on with every call, and begins behind what was read before.
        """
        form = self._form
        if text.startswith(self._end):
            self.length, self.is_over = len(self._end), True
            return "}" if self._begin == "," else "{}"
        begin = len(form.before_name)
        at = text.find(form.before_value, begin)
        if at < 0:
            return None
        value = at + len(form.before_value)
        end = text.find(form.end, max(value, self._searched))
        if end < 0:
            self._searched = max(value, len(text) - len(form.end) + 1)
            return None
        name, written = text[begin:at], text[value:end]
        if name in self._texts:
            written = json.dumps(written, ensure_ascii=False)
        told = f"{self._begin}{json.dumps(name)}:{written}"
        self.length, self._begin, self._searched = end + len(form.end), ",", 0
        return told
