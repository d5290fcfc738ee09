"""How much of a pattern the end of a sequence may begin: in bytes of a text, or in tokens.

The search is that of Knuth, Morris and Pratt (1977), so its time grows with the sum of the lengths.
Its table grows with what was read, so a long pattern costs nothing until it appears.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["PartialMatch"]


class PartialMatch:
    """The longest beginning of a pattern, short of all of it, that the sequence ends with."""

    def __init__(self, pattern: Sequence[int]) -> None:
        assert pattern, "an empty pattern begins everywhere"
        self._pattern = pattern
        self._borders = [0]
        """At each length less one, the longest shorter beginning that also ends this one."""
        self.length = 0

    def read(self, symbol: int) -> bool:
        """Read one more symbol, and return whether the whole pattern ends with it."""
        self.length = self._extend(self.length, symbol)
        is_whole = self.length == len(self._pattern)
        # The next occurrence may begin inside this one.
        if is_whole:
            self.length = self._border(self.length)
        return is_whole

    def _extend(self, length: int, symbol: int) -> int:
        """Return the length of the longest match after one more symbol."""
        while length and self._pattern[length] != symbol:
            length = self._border(length)
        return length + 1 if self._pattern[length] == symbol else 0

    def _border(self, length: int) -> int:
        """Return the length of the next shorter match that ends a match of this length."""
        while len(self._borders) < length:
            symbol = self._pattern[len(self._borders)]
            self._borders.append(self._extend(self._borders[-1], symbol))
        return self._borders[length - 1]
