"""Finds members that a JSON object names twice, of which parsers keep the last."""

from __future__ import annotations

import json
from typing import Final

import msgspec

__all__ = ["may_repeat_members", "repeated_member"]

_ESCAPED: Final = (rb"\u003a", rb"\u003A")
"""Escapes of a colon in a string, which are encoded again as a plain colon."""
_LONGEST_NAME: Final = 100
"""Longest part of a name that is quoted."""


def may_repeat_members(text: bytes, read: object) -> bool:
    """Whether an object in a JSON text, parsed to ``read``, may name a member twice.

    Each member has a colon, and encoding ``read`` again loses the colons of dropped members. All
    other colons are in strings and stay the same, unless they were escaped. So comparing the counts
    suffices; a parser that reports members takes longer.
    """
    if any(escaped in text for escaped in _ESCAPED):
        return True
    return text.count(b":") != msgspec.json.encode(read).count(b":")


def repeated_member(text: str | bytes) -> str | None:
    """Return the beginning of a member's name that an object in a JSON text has twice."""
    found: list[str] = []

    def look(members: list[tuple[str, object]]) -> None:
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                found.append(name[:_LONGEST_NAME])
                return
            names.add(name)

    # Numbers do not matter, and parsing long ones would take long.
    json.loads(text, object_pairs_hook=look, parse_int=len, parse_float=len)
    return found[0] if found else None
