"""How much of a growing text may be the beginning of a string that is looked for."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Beginnings"]


class Beginnings:
    """Reads a text piece by piece, and knows how much of its end could still become a string.

    ::

        strings "end", "ndx"     text "the en"  →  2 bytes: "en"
                                 text "the enx" →  0

    The search is that of Knuth, Morris and Pratt (1977), one for each string; what they prepare is
    prepared as far as a text has come, so a long string costs nothing until it is written.
    """

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._searches = tuple(_Beginning(string) for string in strings)

    def read(self, piece: bytes) -> int:
        """Read on, and say how many bytes at the end of the text may belong to a string."""
        return max((search.read(piece) for search in self._searches), default=0)


class _Beginning:
    """The longest beginning of one string, short of all of it, that the text ends with."""

    def __init__(self, string: bytes) -> None:
        assert string, "an empty string begins everywhere"
        self._string = string
        self._length = 0
        self._borders = [0]
        """Of each beginning, by its length less one, the longest shorter one that it ends with."""

    def read(self, piece: bytes) -> int:
        for byte in piece:
            self._length = self._longer(self._length, byte)
            if self._length == len(self._string):
                self._length = self._border(self._length)
        return self._length

    def _longer(self, length: int, byte: int) -> int:
        while length and self._string[length] != byte:
            length = self._border(length)
        return length + 1 if self._string[length] == byte else 0

    def _border(self, length: int) -> int:
        while len(self._borders) < length:
            self._borders.append(self._longer(self._borders[-1], self._string[len(self._borders)]))
        return self._borders[length - 1]
