"""What may come next at one place, as far as text and constraint tell; asks no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from guided.decoding.guess import Guess, GuessKind
from guided.decoding.text_index import Match, TextIndex
from guided.decoding.token_table import TokenTable
from guided.spec import TokenId
from guided.tokens.mask import Mask, tokens_of

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Guesser"]

_COPIES = {
    16: GuessKind.COPY_16,
    8: GuessKind.COPY_8,
    5: GuessKind.COPY_5,
    3: GuessKind.COPY_3,
    2: GuessKind.COPY_2,
}
_MOST_COPIES: Final = 2
_FEW_TOKENS: Final = 256
_FEW_CHOICES: Final = 16


class Guesser:
    """Makes guesses for all sequences of one vocabulary; holds nothing of any of them."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table

    def guesses(self, matcher: Matcher, index: TextIndex, tail: bytes) -> Iterator[Guess]:
        """Guesses behind the text that ends in ``tail``; not all of them need be allowed.

        May raise LimitExceededError when the constraint is at a limit.
        """
        mask = matcher.mask()
        yield from self._spellings(matcher)
        yield from _copies(index.matches(tail)[:_MOST_COPIES])
        choices = self._choices(mask)
        for token in choices:
            yield Guess(token, GuessKind.CHOICE, 1 / len(choices))

    def _spellings(self, matcher: Matcher) -> Iterator[Guess]:
        for token in matcher.likely_run()[:1]:
            yield Guess(token, GuessKind.SPELLING)
            shorter = self._table.shorter(token)
            if shorter is not None:
                yield Guess(shorter, GuessKind.SHORTER_SPELLING)

    def _choices(self, mask: Mask) -> list[TokenId]:
        """The ways on where there are few: listed values, ``true`` and ``false``, digits.

        A value may begin with several tokens that begin with each other: ``l``, ``le``,
        ``leather``. The longest stands for it, as it does for most tokenizers.
        """
        if int(np.bitwise_count(mask).sum()) > _FEW_TOKENS:
            return []
        longest = self._table.longest(tokens_of(mask).tolist())
        return longest if len(longest) <= _FEW_CHOICES else []


def _copies(matches: list[Match]) -> Iterator[Guess]:
    for match in matches[:1]:
        yield Guess(match.token, _COPIES[match.length])
    for match in matches[1:]:
        yield Guess(match.token, GuessKind.COPY_OTHER)
