"""Named classes of characters, and sets closed under case folding.

Both differ by dialect. ECMA-262 (section 22.2) has ASCII classes, and case folding by the table of
Unicode. Python's ``re`` has classes over all of Unicode, unless ``(?a)`` is set, and its own
folding.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from re import _casefix  # type: ignore[attr-defined]
from typing import Final

from cachetools import LRUCache, cached

from guided.regular.codepoints import CodePoints
from guided.regular.patterns.properties import unicode_folds
from guided.runtime.work_budget import with_pauses

__all__ = [
    "DIGIT",
    "LINE_END",
    "SPACE",
    "WORD",
    "ascii_class",
    "ecma_case_closure",
    "python_case_closure",
    "unicode_class",
]

_CACHED_RANGES: Final = 100_000
"""Ranges of the sets in a cache, some hundred bytes each; a set may have hundreds of them."""

DIGIT = CodePoints.from_ranges([(0x30, 0x39)])
WORD = CodePoints.from_ranges([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_END = CodePoints.from_ranges([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
SPACE = LINE_END | CodePoints.from_ranges(
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


@cached(LRUCache(_CACHED_RANGES, lambda chars: 1 + len(chars.ranges)), lock=threading.Lock())
def ecma_case_closure(chars: CodePoints) -> CodePoints:
    """ECMA-262: return the set with every character whose simple case folding is that of a member.

    A negated class has to be folded before it is negated. Cached.
    """
    folds = unicode_folds()
    folded = chars | CodePoints.from_ranges(
        (folds[code_point], folds[code_point])
        for low, high in (chars & _characters_that_fold()).ranges
        for code_point in range(low, high + 1)
    )
    # Folding a folded character changes nothing.
    return folded | CodePoints.from_ranges(
        (code_point, code_point) for code_point, to in folds.items() if to in folded
    )


@functools.cache
def _characters_that_fold() -> CodePoints:
    """Return the characters whose simple case folding is another character."""
    return CodePoints.from_ranges((code_point, code_point) for code_point in unicode_folds())


# Digits and word characters of ECMA-262 are ASCII anyway; its white space is not.
_ASCII: Final = {
    "DIGIT": DIGIT,
    "SPACE": CodePoints.from_ranges([(0x09, 0x0D), (0x20, 0x20)]),
    "WORD": WORD,
}
_TESTS: Final[dict[str, Callable[[str], bool]]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}


def ascii_class(kind: str) -> CodePoints:
    """Python: return the ASCII characters of a class, which is DIGIT, SPACE or WORD."""
    return _ASCII[kind]


@functools.cache
def unicode_class(kind: str) -> CodePoints:
    """Python: return all characters of a class, which is DIGIT, SPACE or WORD."""
    test = _TESTS[kind]
    ranges: list[tuple[int, int]] = []
    first: int | None = None
    # One number past all code points, which is in no class: it ends the last range.
    for code_point in with_pauses(range(sys.maxunicode + 2)):
        is_member = code_point <= sys.maxunicode and test(chr(code_point))
        if is_member and first is None:
            first = code_point
        elif not is_member and first is not None:
            ranges.append((first, code_point - 1))
            first = None
    return CodePoints.from_ranges(ranges)


@cached(LRUCache(_CACHED_RANGES, lambda chars: 1 + len(chars.ranges)), lock=threading.Lock())
def python_case_closure(chars: CodePoints) -> CodePoints:
    """Python: return the set with every character that ``re`` matches when case is ignored.

    By the simple lower case of characters, and by a table of ``re`` of those that are equal without
    sharing one (``re._casefix``).
    """
    lower, is_cased = _lower_case(), _characters_with_lower_case()
    folded = CodePoints.from_ranges(
        (lower[code_point], lower[code_point]) for code_point in _code_points(chars & is_cased)
    )
    lowered = (chars & ~is_cased) | folded
    lowered |= CodePoints.from_ranges(
        (other, other)
        for code_point, others in _casefix._EXTRA_CASES.items()
        if code_point in lowered
        for other in others
    )
    return lowered | CodePoints.from_ranges(
        (code_point, code_point) for code_point, folds in lower.items() if folds in lowered
    )


def _code_points(chars: CodePoints) -> list[int]:
    return [code_point for low, high in chars.ranges for code_point in range(low, high + 1)]


@functools.cache
def _lower_case() -> Mapping[int, int]:
    """Return the lower case that ``re`` compares by, for each code point that it changes."""
    found: dict[int, int] = {}
    for code_point in with_pauses(range(sys.maxunicode + 1)):
        # Only the first of several code points is the simple one: U+0130 becomes i and a dot.
        lower = ord(chr(code_point).lower()[0])
        if lower != code_point:
            found[code_point] = lower
    return found


@functools.cache
def _characters_with_lower_case() -> CodePoints:
    return CodePoints.from_ranges((code_point, code_point) for code_point in _lower_case())
