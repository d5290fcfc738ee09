"""Where an answer ends because its caller said so: stop strings and stop tokens."""

from __future__ import annotations

from collections.abc import Sequence

from guided.spec import TokenId

__all__ = ["StopSearch"]


class StopSearch:
    """Reads an answer token by token until one of the stops is there.

    Strings are looked for among bytes, so it does not matter how tokens divide them. What counts
    is the string whose last byte comes first, and of several that end together the longest, as if
    the answer came byte by byte::

        stop "end", "d."     answer  th|e e|nd.|...   →   "the " (and "end" where it is included)
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        *,
        strings: Sequence[str],
        tokens: Sequence[TokenId],
        include: bool,
    ) -> None:
        self._token_bytes = token_bytes
        self._strings = tuple(string.encode() for string in strings)
        self._tokens = frozenset(tokens)
        self._include = include
        self._text = bytearray()
        self.length: int | None = None
        """Bytes of the answer's text, once it has ended."""

    def reads(self, token: TokenId) -> bool:
        """Read one more token, and say whether the answer ends with it."""
        assert self.length is None, "the answer has ended"
        before = len(self._text)
        self._text += self._token_bytes[token] or b""
        found = self._find(before)
        if found is None and token in self._tokens:
            found = (before, len(self._text))
        if found is not None:
            self.length = found[1] if self._include else found[0]
        return found is not None

    def _find(self, before: int) -> tuple[int, int] | None:
        """Start and end of the string that is complete first, none being so ``before``."""
        found = []
        for string in self._strings:
            start = self._text.find(string, max(0, before - len(string) + 1))
            if start >= 0:
                found.append((start + len(string), start))
        if not found:
            return None
        end, start = min(found)
        return start, end
