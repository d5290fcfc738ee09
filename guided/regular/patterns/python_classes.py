"""The classes of characters of Python's ``re``: what ``\\d``, ``\\s`` and ``\\w`` stand for."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Final

from guided.regular.codepoints import CodePoints

__all__ = ["ascii_class", "unicode_class"]

_ASCII: Final = {
    "DIGIT": CodePoints.of([(0x30, 0x39)]),
    "SPACE": CodePoints.of([(9, 13), (32, 32)]),
    "WORD": CodePoints.of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]),
}
_TESTS: Final[dict[str, Callable[[str], bool]]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}


def ascii_class(kind: str) -> CodePoints:
    """The characters of a DIGIT, SPACE or WORD that are ASCII."""
    return _ASCII[kind]


@functools.cache
def unicode_class(kind: str) -> CodePoints:
    """All characters of a DIGIT, SPACE or WORD."""
    test = _TESTS[kind]
    ranges: list[tuple[int, int]] = []
    begun: int | None = None
    for code_point in range(sys.maxunicode + 2):
        holds = code_point <= sys.maxunicode and test(chr(code_point))
        if holds and begun is None:
            begun = code_point
        elif not holds and begun is not None:
            ranges.append((begun, code_point - 1))
            begun = None
    return CodePoints.of(ranges)
