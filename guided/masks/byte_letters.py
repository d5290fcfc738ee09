"""The alphabet in which byte-level tokenizers write bytes, one letter for each.

Printable bytes of Latin-1 are written as themselves; the others as the letters from U+0100 on, in
order. So a space (the 33rd of those others) is ``Ġ``.
"""

from __future__ import annotations

from itertools import chain, count
from typing import Final

__all__ = ["bytes_of_letters", "letters_of_bytes"]


def _letters() -> dict[str, int]:
    printable = set(chain(range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100)))
    others = count(0x100)
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


_BYTE_OF_LETTER: Final = _letters()
_LETTER_OF_BYTE: Final = {byte: letter for letter, byte in _BYTE_OF_LETTER.items()}


def letters_of_bytes(text: bytes) -> str:
    """How bytes are written."""
    return text.decode("latin-1").translate(_LETTER_OF_BYTE)


def bytes_of_letters(token: str) -> bytes:
    """The bytes that a byte-level token writes; a token with any other character is literal."""
    try:
        return bytes([_BYTE_OF_LETTER[letter] for letter in token])
    except KeyError:
        return token.encode()
