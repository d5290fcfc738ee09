"""The named classes of characters of ECMA-262 (section 22.2.1) and Unicode's general categories."""

from __future__ import annotations

import functools
import sys
import unicodedata

from guided.automata.codepoints import CodePoints

__all__ = ["DIGIT", "LINE_END", "SPACE", "WORD", "general_category"]

DIGIT = CodePoints.of([(0x30, 0x39)])
WORD = CodePoints.of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_END = CodePoints.of([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
SPACE = LINE_END | CodePoints.of(
    [
        (0x09, 0x09),
        (0x0B, 0x0C),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)


@functools.cache
def _categories() -> dict[str, CodePoints]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code_point in range(1, sys.maxunicode + 2):
        category = unicodedata.category(chr(code_point)) if code_point <= sys.maxunicode else ""
        if category != current:
            ranges.setdefault(current, []).append((start, code_point - 1))
            start, current = code_point, category
    for category in list(ranges):
        ranges.setdefault(category[0], []).extend(ranges[category])
    return {category: CodePoints.of(parts) for category, parts in ranges.items()}


def general_category(name: str) -> CodePoints | None:
    """The code points of a general category by its short name, ``L`` or ``Lu`` say."""
    return _categories().get(name)
