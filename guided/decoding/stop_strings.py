"""Stop strings and stop tokens: where an answer ends because its caller said so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guided.decoding.partial_match import PartialMatch
from guided.spec import TokenId

__all__ = ["PartialMatches", "StopSearch"]


class StopSearch:
    """Reads an answer token by token until it contains one of the stops.

    Strings are searched for in bytes, so it does not matter how tokens divide them. The string
    whose last byte comes first counts, and of several that end together the longest, as if the
    answer came byte by byte::

        stop "end", "d."     answer  th|e e|nd.|...   →   "the " (and "end" where it is included)
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        *,
        strings: Sequence[str],
        tokens: Sequence[TokenId],
        include: bool,
        after: int = 0,
        opening: str = "",
        skip: int = 0,
    ) -> None:
        """Stops count after the first ``opening`` in the text; empty: from its beginning, which is
        after ``skip`` bytes of the tokens that are read. The first ``after`` tokens end no answer.
        """
        self._token_bytes = token_bytes
        self._strings = tuple(string.encode() for string in strings)
        self._tokens = frozenset(tokens)
        self._include = include
        self._after = after
        self._num_read = 0
        """Tokens read."""
        self._opening = opening.encode()
        self._start: int | None = None if opening else skip
        """Where the searched part of the text begins, once that is known."""
        self._text = bytearray()
        self._skip = skip
        self.length: int | None = None
        """Bytes of the answer's text, once it has ended."""
        self.found = ""
        """The string that ended it; empty if a token did."""

    def read_token(self, token: TokenId) -> bool:
        """Read one more token, and return whether the answer ends with it."""
        assert self.length is None, "the answer has ended"
        before = len(self._text)
        self._text += self._token_bytes[token] or b""
        self._num_read += 1
        if self._start is None and not self._find_opening(before):
            return False
        if self._num_read <= self._after:
            return False
        found = self._find(before)
        # A string inside a stop token ends the answer first, so it is searched for first.
        if found is not None:
            self.found = self._text[found[0] : found[1]].decode()
        elif token in self._tokens and len(self._text) > self._skip:
            found = (before, len(self._text))
        if found is not None:
            # A stop token may have begun before the text.
            self.length = max(0, (found[1] if self._include else found[0]) - self._skip)
        return found is not None

    def _find_opening(self, before: int) -> bool:
        """Find the opening, which the first ``before`` bytes do not contain.

        The search for stops starts after it. Return False if the text does not contain it yet.
        """
        found = self._text.find(self._opening, max(0, before - len(self._opening) + 1))
        if found < 0:
            return False
        self._start = found + len(self._opening)
        return True

    def _find(self, before: int) -> tuple[int, int] | None:
        """Return start and end of the string that is complete first, or ``None``.

        None was complete in the first ``before`` bytes.
        """
        assert self._start is not None, "the answer itself has not begun"
        found = []
        for string in self._strings:
            # Nothing was complete before, so a match ends in what was just read.
            start = self._text.find(string, max(self._start, before - len(string) + 1))
            if start >= 0:
                found.append((start + len(string), start))
        if not found:
            return None
        # The least end, and then the least start, which is that of the longest string.
        end, start = min(found)
        return start, end


class PartialMatches:
    """Reads a text piece by piece, and knows how many of its last bytes may begin a string.

    ::

        strings "end", "ndx"     text "the en"  →  2 bytes: "en"
                                 text "the enx" →  0
    """

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._searches = tuple(PartialMatch(string) for string in strings)

    def read(self, piece: bytes) -> int:
        """Read a piece, and return how many bytes at the end of the text may belong to a string."""
        for search in self._searches:
            for byte in piece:
                search.read(byte)
        return max((search.length for search in self._searches), default=0)
