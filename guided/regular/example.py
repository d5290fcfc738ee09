"""A short text that an expression matches, found without building its automaton."""

from __future__ import annotations

import functools
from typing import Final

from guided.regular.codepoints import CodePoints
from guided.regular.expression import Alternate, Chars, Concat, End, Regular, Repeat, Start

__all__ = ["short_match"]

MAX_LENGTH: Final = 1_000


@functools.lru_cache(maxsize=32)
def short_match(regular: Regular) -> str | None:
    """A text that the expression matches as a whole; ``None`` where that is not plain to see.

    Anchors are understood at the very beginning and end only, look-around not at all. Those of
    formats are kept: a time has a thousand ways to be written, and schemas name it often.
    """
    parts = list(regular.parts) if isinstance(regular, Concat) else [regular]
    if parts and isinstance(parts[0], Start):
        del parts[0]
    if parts and isinstance(parts[-1], End):
        del parts[-1]
    return _joined(map(_match, parts))


def _match(node: Regular) -> str | None:
    if isinstance(node, Chars):
        return _character(node.chars)
    if isinstance(node, Concat):
        return _joined(map(_match, node.parts))
    if isinstance(node, Alternate):
        found = [text for text in map(_match, node.options) if text is not None]
        return min(found, key=len, default=None)
    if isinstance(node, Repeat):
        if node.low == 0:
            return ""
        text = _match(node.item)
        if text is None or len(text) * node.low > MAX_LENGTH:
            return None
        return text * node.low
    return None


def _joined(texts: map[str | None]) -> str | None:
    whole = ""
    for text in texts:
        if text is None or len(whole) + len(text) > MAX_LENGTH:
            return None
        whole += text
    return whole


def _character(chars: CodePoints) -> str | None:
    """A member of the set, one that JSON and every tokenizer spell plainly if there is one."""
    for low, high in _PLAIN:
        for first, last in chars.ranges:
            if first <= high and last >= low:
                return chr(max(first, low))
    return chr(chars.ranges[0][0]) if chars.ranges else None


_PLAIN: Final = ((0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x23, 0x5B), (0x5D, 0x7E), (0x20, 0x21))
