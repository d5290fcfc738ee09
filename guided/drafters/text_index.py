"""Where the end of a sequence's text occurred before: prompt lookup on bytes, continued in tokens.

A text is seldom split the same way twice: a prompt has `` Maria``, the answer, after a quote,
``Maria``. So earlier text is matched byte by byte, and is continued with the tokens that followed
the match::

    prompt   ... Text: "Maria Gonz alez, ...        answer   "name":"Mar
                        ─── the longest match ends here: ia follows, then `` Gonz``

A look-up compares a bounded number of positions. A *position* is an index into the bytes of the
text. The prompt is indexed at once, by sorting, for all answers to it; each answer goes on from
there, and its tokens are read as they are added::

    text       a  b  1  a  b | 2  a  b       PromptIndex  "ab"      2, 5: where "ab" ended
    position   0  1  2  3  4   5  6  7  8    _latest["ab"]          8
                      prompt | answer        _previous[8]           nowhere else in the answer
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from guided.spec import TokenId

__all__ = ["MATCH_LENGTHS", "Match", "PromptIndex", "TextIndex", "TokenTable"]

_SHORTEST: Final = 2
MATCH_LENGTHS: Final = (16, 8, 5, 3, _SHORTEST)
"""Lengths in bytes by which matches are classified, the longest first."""
_LONGER = MATCH_LENGTHS[-2::-1]
_COMPARED: Final = 12
"""Positions that a look-up compares, the latest first."""
_NOWHERE: Final = 0
"""Ends a chain of positions: nothing comes before the first, so no match ends there."""
_NO_TEXT: Final = b"\0"
"""In place of a special token, which stands for no text, but no match extends across it."""


class Match:
    """A token that followed the same bytes before."""

    __slots__ = ("length", "token")

    def __init__(self, token: TokenId, length: int) -> None:
        self.token = token
        self.length = length
        """The least number of equal bytes, one of ``MATCH_LENGTHS``."""


class PromptIndex:
    """The text of a prompt, indexed by its shortest matches.

    Making it takes some 4 ms for 100,000 bytes; it has about nine bytes for each of them.
    """

    def __init__(self, table: TokenTable, tokens: Sequence[TokenId]) -> None:
        self._table = table
        self.tokens = tokens
        texts = table.bytes
        pieces = [texts[token] or _NO_TEXT for token in tokens]
        self.text = b"".join(pieces)
        self._ends = np.fromiter(map(len, pieces), np.int64, len(pieces)).cumsum()
        """Where each token ends in the text."""
        codes = np.frombuffer(self.text, np.uint8).astype(np.uint16)
        pairs = codes[:-1] << 8 | codes[1:]
        # A stable sort keeps the positions of equal pairs in order; of 16 bits it is a radix sort.
        order = np.argsort(pairs, kind="stable")
        self._pairs = pairs[order]
        """Each two bytes as a number, ascending."""
        self._positions = (order + _SHORTEST).astype(np.int32)
        """Where these two bytes end."""
        self._found: dict[int, list[int]] = {}
        """The results of ``positions``."""

    def positions(self, pair: int) -> list[int]:
        """Return the last positions where two bytes, as a number, end, the latest first.

        One more than is compared. The list must not be changed.
        """
        found = self._found.get(pair)
        if found is None:
            # A number of another type would make a copy of the whole array.
            key = np.uint16(pair)
            first = int(self._pairs.searchsorted(key, "left"))
            last = int(self._pairs.searchsorted(key, "right"))
            ascending = self._positions[max(first, last - _COMPARED - 1) : last]
            found = self._found[pair] = ascending[::-1].tolist()
        return found

    def token_at(self, position: int) -> TokenId | None:
        """Return the token that starts at a position, or the rest of the one that is cut there."""
        index = int(self._ends.searchsorted(position, "right"))
        start = int(self._ends[index - 1]) if index else 0
        return self._table.rest(self.tokens[index], position - start)


class TextIndex:
    """The text of one sequence, indexed by its shortest matches: a prompt and what follows it."""

    def __init__(self, table: TokenTable, prompt: PromptIndex) -> None:
        self._table = table
        self._prompt = prompt
        self._begin = len(prompt.text)
        """The position at which the prompt ends."""
        self._tokens: list[TokenId] = []
        """The tokens after the prompt."""
        self._starts: list[int] = []
        """The position at which each of them begins."""
        # Matches may begin in the prompt, so its last bytes come first.
        self._text = bytearray(prompt.text[-MATCH_LENGTHS[0] :])
        self._skipped = self._begin - len(self._text)
        """Bytes of the text before those."""
        self._latest: dict[int, int] = {}
        """The last position after the prompt where two bytes, as a number, ended."""
        self._previous = [_NOWHERE]
        """For each position from the prompt's end on, where the two bytes that end there ended the
        time before, if that was after the prompt."""

    def __len__(self) -> int:
        return len(self._prompt.tokens) + len(self._tokens)

    def extend(self, tokens: Sequence[TokenId]) -> None:
        """Add the next tokens."""
        latest, before = self._latest, self._previous
        ending = _last_pair(self._text)
        for token in tokens:
            text = self._table.text(token)
            self._starts.append(self._skipped + len(self._text))
            self._tokens.append(token)
            self._text += text
            for byte in text:
                # Positions where the same two bytes end form a chain, the latest first.
                ending = (ending << 8 | byte) & 0xFFFF
                position = self._begin + len(before)
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
        for position in self._find_positions(_last_pair(tail)):
            length = self._length(position, tail)
            if best is None or length > best.length:
                token = self._token_at(position)
                if token is not None:
                    best = Match(token, length)
        return best

    def _find_positions(self, pair: int) -> list[int]:
        """Return the latest positions where two bytes, as a number, end and something follows.

        They may be as many as the text is long, so only the first of them are compared.
        """
        found: list[int] = []
        position = self._latest.get(pair, _NOWHERE)
        # One more than is compared, because the end of the text is left out.
        while position != _NOWHERE and len(found) <= _COMPARED:
            found.append(position)
            position = self._previous[position - self._begin]
        if len(found) <= _COMPARED:
            found += self._prompt.positions(pair)
        if found and found[0] == self._skipped + len(self._text):
            del found[0]  # nothing has followed the end of the text yet
        return found[:_COMPARED]

    def _length(self, position: int, tail: bytes) -> int:
        """Return how many of the last bytes of ``tail`` precede a position, by ``MATCH_LENGTHS``.

        The last two do, because no other positions are compared.
        """
        text: bytes | bytearray = self._prompt.text
        end = position
        if position > self._begin:
            text, end = self._text, position - self._skipped
        length = _SHORTEST
        for longer in _LONGER:
            if longer > end or text[end - longer : end] != tail[-longer:]:
                break
            length = longer
        return length

    def _token_at(self, position: int) -> TokenId | None:
        """Return the token that starts at a position, or the rest of the one that is cut there."""
        if position < self._begin:
            return self._prompt.token_at(position)
        index = bisect_right(self._starts, position) - 1
        return self._table.rest(self._tokens[index], position - self._starts[index])


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

    def text(self, token: TokenId) -> bytes:
        """Return the bytes of a token in an index, never empty."""
        return self.bytes[token] or _NO_TEXT

    def rest(self, token: TokenId, skipped: int) -> TokenId | None:
        """Return the token of what follows the first ``skipped`` bytes of a token, if it is one.

        ``None`` for what stands for no text.
        """
        text = self.bytes[token]
        if text is None:
            return None
        # A match may end inside a token: the rest of it may be a token of its own.
        return self.find(text[skipped:]) if skipped else token

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
