"""What an answer so far means for how the text behind it is split into pieces.

That is its *opening*: a short text that leaves the same ways as the whole answer would, and the
bytes of a character that is not whole. There are few of them, so nearly all are found in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from guided.masks.spelling_rules import SpellingRules, whole_size
from guided.masks.splitting import SplitUncertainError
from guided.spec import TokenId

__all__ = ["NO_OPENING", "Openings"]

NO_OPENING: Final = b"\xff"
"""The opening of which nothing can be told: no text has this byte."""
_REMEMBERED: Final = 65_536
_MOST_UNCERTAIN: Final = 256
"""Bytes of an opening that is still uncertain; behind more nothing is told."""


class Openings:
    """The openings of one vocabulary."""

    def __init__(self, token_bytes: Sequence[bytes | None], rules: SpellingRules) -> None:
        self._token_bytes = token_bytes
        self._rules = rules
        self._found_tokens = frozenset(rules.found_tokens)
        self._behind: dict[tuple[bytes, TokenId], bytes] = {}
        self._alike: dict[object, bytes] = {}

    def behind(self, opening: bytes, tokens: Iterable[TokenId]) -> bytes:
        """The opening behind tokens that follow an opening; that of an empty answer is empty."""
        for token in tokens:
            reached = self._behind.get((opening, token))
            if reached is None:
                reached = self._opened(opening, token)
                if len(self._behind) >= _REMEMBERED:
                    self._behind.clear()
                    self._alike.clear()
                self._behind[opening, token] = reached
            opening = reached
        return opening

    def _opened(self, before: bytes, token: TokenId) -> bytes:
        splitting, letter = self._rules.splitting, self._rules.letter
        if splitting is None or before == NO_OPENING:
            return NO_OPENING
        if token in self._found_tokens:
            return b""
        data = before + (self._token_bytes[token] or b"")
        if letter and letter in data:
            data = data[data.rfind(letter) + len(letter) :]
        size = whole_size(data)
        try:
            text = data[:size].decode()
            known, begin = splitting.opening(text)
        except SplitUncertainError:
            return data if len(data) <= _MOST_UNCERTAIN else NO_OPENING
        except UnicodeDecodeError:
            return NO_OPENING
        return self._alike.setdefault(known, text[begin:].encode()) + data[size:]
