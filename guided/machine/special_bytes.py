"""How recognisers read special tokens: each as bytes that no text has.

::

    text               {"a":1}               its UTF-8
    special token      <|python_tag|>        FF <|python_tag|> FF

No UTF-8 has the byte FF, so what is written of a special token is never taken for it, nor it for
text; and two of them are never taken for each other, as no name has the byte. Of tokens that are
text those are never read that hold the byte: they are part of no whole text.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SPECIAL_MARK", "is_readable", "special_bytes", "told_text"]

SPECIAL_MARK: Final = 0xFF
"""The byte before and after the name of a special token."""


def special_bytes(name: str) -> bytes:
    """What a recogniser reads where the special token of a name stands."""
    return b"\xff" + name.encode() + b"\xff"


def told_text(read: bytes) -> str:
    """What a recogniser reads as answers have it: special tokens by their names."""
    return read.replace(bytes((SPECIAL_MARK,)), b"").decode()


def is_readable(text: bytes) -> bool:
    """Whether a token of these bytes may be part of a text."""
    return SPECIAL_MARK not in text
