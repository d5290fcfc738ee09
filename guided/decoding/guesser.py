"""What may come next at one place, as far as text and constraint tell; asks no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guided.decoding.few_tokens import few_tokens
from guided.decoding.guess import Guess, GuessKind
from guided.decoding.text_index import Match, TextIndex
from guided.decoding.token_table import TokenTable
from guided.masks.mask import Mask
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Guesser"]

_COPIES: Final = {
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

    def guesses(self, matcher: Matcher, index: TextIndex, tail: bytes) -> list[Guess]:
        """Guesses behind the text that ends in ``tail``; not all of them need be allowed.

        May raise LimitExceededError when the constraint is at a limit.
        """
        choices = self._choices(matcher.mask())
        guesses = self._spellings(matcher)
        guesses += _copies(index.matches(tail)[:_MOST_COPIES])
        guesses += [Guess(token, GuessKind.CHOICE, 1 / len(choices)) for token in choices]
        return guesses

    def _spellings(self, matcher: Matcher) -> list[Guess]:
        run = matcher.likely_run()
        if not run:
            return []
        guesses = [Guess(run[0], GuessKind.SPELLING)]
        shorter = self._table.shorter(run[0])
        if shorter is not None:
            guesses.append(Guess(shorter, GuessKind.SHORTER_SPELLING))
        return guesses

    def _choices(self, mask: Mask) -> list[TokenId]:
        """The ways on where there are few: listed values, ``true`` and ``false``, digits.

        A value may begin with several tokens that begin with each other: ``l``, ``le``,
        ``leather``. The longest stands for it, as it does for most tokenizers.
        """
        allowed = few_tokens(mask, _FEW_TOKENS)
        if allowed is None:
            return []
        longest = self._table.longest(allowed)
        return longest if len(longest) <= _FEW_CHOICES else []


def _copies(matches: list[Match]) -> list[Guess]:
    return [
        Guess(match.token, GuessKind.COPY_OTHER if place else _COPIES[match.length])
        for place, match in enumerate(matches)
    ]
