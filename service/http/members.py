"""Members of JSON objects that are named twice, of which parsers keep the last."""

from __future__ import annotations

import json
from typing import Final

import msgspec

__all__ = ["may_repeat_members", "repeated_member"]

_ESCAPED: Final = (rb"\u003a", rb"\u003A")
"""A colon in a text, which is written again as it is."""
_LONGEST_NAME: Final = 100
"""Of a name as it is told."""


def may_repeat_members(text: bytes, read: object) -> bool:
    """Whether an object in a text of JSON, ``read`` from it, may name a member twice.

    Each member has a colon, and one that was dropped lacks it where what was read is written again.
    All other colons stand in texts: as they are in both, unless they were escaped. So they are
    counted, as a parser that tells of members takes longer.
    """
    if any(escaped in text for escaped in _ESCAPED):
        return True
    return text.count(b":") != msgspec.json.encode(read).count(b":")


def repeated_member(text: str | bytes) -> str | None:
    """The beginning of the name of a member that an object in a text of JSON names twice."""
    found: list[str] = []

    def look(members: list[tuple[str, object]]) -> None:
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                found.append(name[:_LONGEST_NAME])
                return
            names.add(name)

    # Numbers are not looked at, and long ones would take long.
    json.loads(text, object_pairs_hook=look, parse_int=len, parse_float=len)
    return found[0] if found else None
