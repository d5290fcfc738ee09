"""Texts that a tokenizer finds in a text before anything else, and takes for tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from guided.spec import TokenId

__all__ = ["FoundTexts"]


class FoundTexts:
    """Finds the first of some texts and, of those that begin in one place, the longest."""

    def __init__(self, tokens: Mapping[bytes, tuple[TokenId, ...]]) -> None:
        self.tokens = tokens
        firsts = sorted({text[:1] for text in tokens})
        self._first = re.compile(b"[" + b"".join(map(re.escape, firsts)) + b"]")
        self._sizes = sorted({len(text) for text in tokens}, reverse=True)

    def within(
        self, text: bytes, begun: int, end: int
    ) -> Iterator[tuple[int, int, tuple[TokenId, ...]]]:
        """Where those within a part of a text begin and end, with their tokens, in order."""
        while (match := self._first.search(text, begun, end)) is not None:
            at = match.start()
            begun = at + 1
            for size in self._sizes:
                tokens = self.tokens.get(text[at : at + size]) if at + size <= end else None
                if tokens is not None:
                    begun = at + size
                    yield at, begun, tokens
                    break
