"""Stop strings and stop tokens: where an answer ends because its caller said so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        opening: str = "",
    ) -> None:
        """Stops count after the first ``opening`` in the text; empty: from its beginning."""
        self._token_bytes = token_bytes
        self._strings = tuple(string.encode() for string in strings)
        self._tokens = frozenset(tokens)
        self._include = include
        self._opening = opening.encode()
        self._start: int | None = None if opening else 0
        """Where the searched part of the text begins, once that is known."""
        self._text = bytearray()
        self.length: int | None = None
        """Bytes of the answer's text, once it has ended."""

    def read_token(self, token: TokenId) -> bool:
        """Read one more token, and return whether the answer ends with it."""
        assert self.length is None, "the answer has ended"
        before = len(self._text)
        self._text += self._token_bytes[token] or b""
        if self._start is None and not self._find_opening(before):
            return False
        found = self._find(before)
        # A string inside a stop token ends the answer first, so it is searched for first.
        if found is None and token in self._tokens:
            found = (before, len(self._text))
        if found is not None:
            self.length = found[1] if self._include else found[0]
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

    The search is that of Knuth, Morris and Pratt (1977), one for each string; its table grows with
    the text that was read, so a long string costs nothing until it appears.
    """

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._searches = tuple(_PartialMatch(string) for string in strings)

    def read(self, piece: bytes) -> int:
        """Read a piece, and return how many bytes at the end of the text may belong to a string."""
        return max((search.read(piece) for search in self._searches), default=0)


class _PartialMatch:
    """The longest beginning of one string, short of all of it, that the text ends with."""

    def __init__(self, string: bytes) -> None:
        assert string, "an empty string begins everywhere"
        self._string = string
        self._length = 0
        self._borders = [0]
        """At each length less one, the longest shorter beginning that also ends this one."""

    def read(self, piece: bytes) -> int:
        """Read a piece, and return the length of that beginning."""
        for byte in piece:
            self._length = self._extend_match(self._length, byte)
            # All of it was read; now the longest beginning short of that counts.
            if self._length == len(self._string):
                self._length = self._border(self._length)
        return self._length

    def _extend_match(self, length: int, byte: int) -> int:
        """Return the length of the longest match after one more byte."""
        while length and self._string[length] != byte:
            length = self._border(length)
        return length + 1 if self._string[length] == byte else 0

    def _border(self, length: int) -> int:
        """Return the length of the next shorter match that ends a match of this length."""
        while len(self._borders) < length:
            byte = self._string[len(self._borders)]
            self._borders.append(self._extend_match(self._borders[-1], byte))
        return self._borders[length - 1]
