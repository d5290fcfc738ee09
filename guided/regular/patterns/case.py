"""Which characters Python's ``re`` takes for the same when it ignores case."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from re import _casefix  # type: ignore[attr-defined]

from guided.regular.codepoints import CodePoints

__all__ = ["any_case"]


@functools.lru_cache(maxsize=1024)
def any_case(chars: CodePoints) -> CodePoints:
    """The set with every character that the regular expression engine folds to one of it.

    That is the simple lower case of a character, and a table of characters that share none with
    those that look like them (``re._casefix``).
    """
    lower, is_cased = _lower(), _cased()
    folded = CodePoints.of(
        (lower[code_point], lower[code_point]) for code_point in _within(chars & is_cased)
    )
    small = (chars & ~is_cased) | folded
    small |= CodePoints.of(
        (other, other)
        for code_point, others in _casefix._EXTRA_CASES.items()
        if code_point in small
        for other in others
    )
    return small | CodePoints.of(
        (code_point, code_point) for code_point, folds in lower.items() if folds in small
    )


def _within(chars: CodePoints) -> list[int]:
    return [code_point for low, high in chars.ranges for code_point in range(low, high + 1)]


@functools.cache
def _lower() -> Mapping[int, int]:
    """The simple lower case of each character that has another one."""
    found: dict[int, int] = {}
    for code_point in range(sys.maxunicode + 1):
        # Only the first of several code points is the simple one: U+0130 becomes i and a dot.
        folds = ord(chr(code_point).lower()[0])
        if folds != code_point:
            found[code_point] = folds
    return found


@functools.cache
def _cased() -> CodePoints:
    return CodePoints.of((code_point, code_point) for code_point in _lower())
