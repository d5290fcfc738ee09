"""Named classes of characters, and sets closed under case folding.

Both differ by dialect. ECMA-262 (section 22.2) has ASCII classes, and case folding by the table of
Unicode. Python's ``re`` has classes over all of Unicode, unless ``(?a)`` is set, and its own
folding.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from re import _casefix  # type: ignore[attr-defined]
from typing import Final

from cachetools import LRUCache, cached

from guided.regular.codepoints import CodePoints
from guided.regular.patterns.properties import unicode_folds
from guided.runtime.work_budget import spend, with_pauses

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

_FEW: Final = 64
"""Most code points of a set that are looked up one by one, only for speed."""
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


class _Folding:
    """A table of the character that each is compared by where case is ignored, in both directions.

    ``folds`` has the characters that are compared by another one.
    """

    def __init__(self, folds: Mapping[int, int]) -> None:
        self._folds: Final = folds
        self._characters = _set_of(folds)
        self._folded = _set_of(folds.values())
        self._sources: dict[int, list[int]] = {}
        """By each character that others are compared by: these."""
        for code_point, folded in folds.items():
            self._sources.setdefault(folded, []).append(code_point)

    def fold(self, chars: CodePoints) -> CodePoints:
        """Return what the members of a set that are compared by others are compared by."""
        return _set_of(self._folds[each] for each in _common(chars, self._characters))

    def unfold(self, chars: CodePoints) -> CodePoints:
        """Return the characters that are compared by another one, which is a member of a set."""
        common = _common(chars, self._folded)
        return _set_of(source for each in common for source in self._sources[each])

    def without_folding(self, chars: CodePoints) -> CodePoints:
        """Return the members of a set that are compared as they are."""
        changing = _set_of(_common(chars, self._characters))
        return chars & ~changing if changing else chars


def _common(chars: CodePoints, others: CodePoints) -> list[int]:
    """Return the code points of both sets; ``others`` has at most some thousand."""
    # To go through all ranges of ``others`` for each letter of a long text would take seconds.
    size = sum(high - low + 1 for low, high in chars.ranges)
    if size <= _FEW:
        found = [each for each in _code_points(chars) if each in others]
    else:
        found = _code_points(chars & others)
        spend(len(others.ranges) // 10)
    spend(1 + len(found) // 2)
    return found


def _set_of(code_points: Iterable[int]) -> CodePoints:
    return CodePoints.from_ranges((code_point, code_point) for code_point in code_points)


def _code_points(chars: CodePoints) -> list[int]:
    return [code_point for low, high in chars.ranges for code_point in range(low, high + 1)]


@cached(LRUCache(_CACHED_RANGES, lambda chars: 1 + len(chars.ranges)), lock=threading.Lock())
def ecma_case_closure(chars: CodePoints) -> CodePoints:
    """ECMA-262: return the set with every character whose simple case folding is that of a member.

    A negated class has to be folded before it is negated. Cached.
    """
    folding = _ecma_folding()
    folded = chars | folding.fold(chars)
    # Folding a folded character changes nothing.
    return folded | folding.unfold(folded)


@functools.cache
def _ecma_folding() -> _Folding:
    return _Folding(unicode_folds())


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
    sharing one (``re._casefix``). Cached.
    """
    folding = _python_folding()
    lowered = folding.without_folding(chars) | folding.fold(chars)
    extra = _common(lowered, _with_extra_cases())
    lowered |= _set_of(other for each in extra for other in _casefix._EXTRA_CASES[each])
    return lowered | folding.unfold(lowered)


@functools.cache
def _with_extra_cases() -> CodePoints:
    return _set_of(_casefix._EXTRA_CASES)


@functools.cache
def _python_folding() -> _Folding:
    """Return the lower case that ``re`` compares by, for each code point that it changes."""
    found: dict[int, int] = {}
    for code_point in with_pauses(range(sys.maxunicode + 1)):
        # Only the first of several code points is the simple one: U+0130 becomes i and a dot.
        lower = ord(chr(code_point).lower()[0])
        if lower != code_point:
            found[code_point] = lower
    return _Folding(found)
