"""Which characters ECMA-262 takes for the same when it ignores case (section 22.2.2.7.3, u)."""

from __future__ import annotations

import functools

from guided.regular.codepoints import CodePoints
from guided.regular.patterns.properties import unicode_folds

__all__ = ["folded_alike"]


@functools.lru_cache(maxsize=1024)
def folded_alike(chars: CodePoints) -> CodePoints:
    """The set with every character whose simple case folding is that of one of it."""
    folds = unicode_folds()
    folded = chars | CodePoints.of(
        (folds[code_point], folds[code_point])
        for low, high in (chars & _folding()).ranges
        for code_point in range(low, high + 1)
    )
    # What is folded stays as it is when it is folded again.
    return folded | CodePoints.of(
        (code_point, code_point) for code_point, to in folds.items() if to in folded
    )


@functools.cache
def _folding() -> CodePoints:
    """The characters that have another folding than themselves."""
    return CodePoints.of((code_point, code_point) for code_point in unicode_folds())
