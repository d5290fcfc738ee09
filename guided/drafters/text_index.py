"""Where the end of a sequence's text occurred before: prompt lookup on bytes, continued in tokens.

A text is seldom split the same way twice: a prompt has `` Maria``, the answer, after a quote,
``Maria``. So earlier text is matched byte by byte, and is continued with the tokens that followed
the match::

    prompt   ... Text: "Maria Gonz alez, ...        answer   "name":"Mar
                        ─── the longest match ends here: ia follows, then `` Gonz``

Every token is read once, when it is added; a look-up compares a bounded number of positions. A
*position* is an index into the bytes of the text::

    text       a  b  1  a  b  2  a  b          _latest["ab"]      8
    position   0  1  2  3  4  5  6  7  8       _before[8], [5]    5, 2: where "ab" ended before
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from guided.spec import TokenId

__all__ = ["MATCH_LENGTHS", "Match", "TextIndex", "TokenTable"]

_SHORTEST: Final = 2
MATCH_LENGTHS: Final = (16, 8, 5, 3, _SHORTEST)
"""Lengths in bytes by which matches are classified, the longest first."""
_LONGER = MATCH_LENGTHS[-2::-1]
_COMPARED: Final = 12
"""Positions that a look-up compares, the latest first."""
_NOWHERE: Final = 0
"""Ends a chain of positions: nothing comes before the first, so no match ends there."""


class Match:
    """A token that followed the same bytes before."""

    __slots__ = ("length", "token")

    def __init__(self, token: TokenId, length: int) -> None:
        self.token = token
        self.length = length
        """The least number of equal bytes, one of ``MATCH_LENGTHS``."""


class TextIndex:
    """The text of one sequence, indexed by its shortest matches."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._tokens: list[TokenId] = []
        self._starts: list[int] = []
        """Where each token begins in the text."""
        self._text = bytearray()
        self._token_at: list[int] = []
        """Which token each byte belongs to."""
        self._latest: dict[int, int] = {}
        """The last position where two bytes, as a number, ended."""
        self._previous = [_NOWHERE]
        """For each position, where the two bytes that end there ended the time before."""

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Sequence[TokenId]) -> None:
        """Add the next tokens."""
        latest, before = self._latest, self._previous
        ending = _last_pair(self._text)
        for token in tokens:
            # A special token stands for no text, but no match extends across it.
            text = self._table.bytes[token] or b"\0"
            self._token_at += [len(self._tokens)] * len(text)
            self._starts.append(len(self._text))
            self._tokens.append(token)
            self._text += text
            for byte in text:
                # Positions where the same two bytes end form a chain, the latest first.
                ending = (ending << 8 | byte) & 0xFFFF
                position = len(before)
                before.append(latest.get(ending, _NOWHERE))
                if position >= _SHORTEST:
                    latest[ending] = position

    def tail(self) -> bytes:
        """Return the last bytes, as many as a match compares."""
        return bytes(self._text[-MATCH_LENGTHS[0] :])

    def match(self, tail: bytes) -> Match | None:
        """Return the token after the longest match of ``tail``; of equally long ones the latest.

        ``None`` if no token follows any of them.
        """
        if len(tail) < _SHORTEST:
            return None
        best: Match | None = None
        position = self._latest.get(_last_pair(tail), _NOWHERE)
        if position == len(self._text):
            position = self._previous[position]  # nothing has followed the end of the text yet
        # The chain may be as long as the text, so only its latest positions are compared.
        for _ in range(_COMPARED):
            if position == _NOWHERE:
                break
            length = self._length(position, tail)
            if best is None or length > best.length:
                token = self._token_at_position(position)
                if token is not None:
                    best = Match(token, length)
            position = self._previous[position]
        return best

    def _length(self, position: int, tail: bytes) -> int:
        """Return how many of the last bytes of ``tail`` precede a position, by ``MATCH_LENGTHS``.

        The last two do, because the chain holds no other positions.
        """
        text, length = self._text, _SHORTEST
        for longer in _LONGER:
            if longer > position or text[position - longer : position] != tail[-longer:]:
                break
            length = longer
        return length

    def _token_at_position(self, position: int) -> TokenId | None:
        """Return the token that starts at a position, or the rest of the one that is cut there."""
        index = self._token_at[position]
        token = self._tokens[index]
        if self._table.bytes[token] is None:
            return None
        # A match may end inside a token: the rest of it may be a token of its own.
        if self._starts[index] == position:
            return token
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._text)
        return self._table.find(bytes(self._text[position:end]))


def _last_pair(text: bytes | bytearray) -> int:
    """Return the last two bytes as one number."""
    return int.from_bytes(text[-2:])


class TokenTable:
    """The bytes of every token, and the token of given bytes."""

    def __init__(self, token_bytes: Sequence[bytes | None]) -> None:
        self.bytes = token_bytes
        """By token id; ``None`` if a token stands for no text."""
        pairs = reversed(list(enumerate(token_bytes)))
        self._ids = {text: TokenId(token) for token, text in pairs if text is not None}

    def find(self, text: bytes) -> TokenId | None:
        """Return the token that stands for exactly these bytes, the lowest if there are several."""
        return self._ids.get(text)

    def shorter(self, token: TokenId) -> TokenId | None:
        """Return the longest other token that ``token`` begins with."""
        text = self.bytes[token] or b""
        for size in range(len(text) - 1, 0, -1):
            other = self._ids.get(text[:size])
            if other is not None:
                return other
        return None

    def longest(self, tokens: Iterable[int]) -> list[TokenId]:
        """Return the tokens that no other of them begins with, in the order of their texts."""
        spelled = sorted((text, token) for token in tokens if (text := self.bytes[token]))
        return [
            TokenId(token)
            for (text, token), (follower, _) in pairwise([*spelled, (b"", -1)])
            if not follower.startswith(text)
        ]
