"""How recognisers read special tokens: each as bytes that no text has.

::

    text               {"a":1}               its UTF-8
    special token      <|python_tag|>        FF <|python_tag|> FF

No UTF-8 contains the byte FF, so text is never taken for a special token, nor a special token for
text; and no two of them are taken for each other, as no name contains the byte. Tokens that are
text and contain the byte are never read: they are part of no whole text.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SPECIAL_MARK", "is_readable", "special_bytes", "visible_text"]

SPECIAL_MARK: Final = 0xFF
"""The byte before and after the name of a special token."""


def special_bytes(name: str) -> bytes:
    """Return the bytes that a recogniser reads for the special token of a name."""
    return b"\xff" + name.encode() + b"\xff"


def visible_text(read: bytes) -> str:
    """Return what a recogniser reads as it appears in answers: special tokens as their names."""
    return read.replace(bytes((SPECIAL_MARK,)), b"").decode()


def is_readable(text: bytes) -> bool:
    """Return whether a token of these bytes may be part of a text."""
    return SPECIAL_MARK not in text
