"""A position in thoughts, which are followed by an answer and have a budget of their own.

::

    thoughts, at most so many tokens        end             answer
    └── a matcher, and tokens that are left ─┘└── forced ──┘└── the matcher that follows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from guided.errors import TokenRejectedError
from guided.masks.mask import Mask, allows, mask_of
from guided.masks.matcher import BeforeAnswer, Matcher
from guided.spec import Forcing, TokenId

__all__ = ["ThinkingMatcher"]

_MAX_CHARACTER_BYTES: Final = 4
"""A text may have to complete a character before its end begins."""
_AMPLE_TOKENS: Final = 64
"""More tokens than the end of thoughts usually has: tried before that end is computed."""


@dataclass(frozen=True, slots=True)
class ThinkingMatcher(BeforeAnswer):
    """A matcher that moves on from ``thoughts`` to ``answer`` once the thoughts are complete.

    Positions with different budgets differ, so drafts are judged by the budget where they stand.
    """

    thoughts: Matcher
    answer: Matcher
    tokens_left: int
    """The number of tokens up to the end of the thoughts, including those that end them."""
    num_closing: int
    """The number of tokens that end them, where nothing else has to end first."""
    check_from: int
    """With this many tokens left or fewer, some tokens might leave no room for the end."""
    vocabulary_size: int

    @classmethod
    def before(
        cls, thoughts: Matcher, answer: Matcher, budget: int, end_bytes: int, vocabulary_size: int
    ) -> ThinkingMatcher:
        """Return the position before thoughts of at most ``budget`` tokens.

        ``thoughts`` is any text up to an end, which a recogniser reads as ``end_bytes`` bytes.

        The budget does not count the tokens that end the thoughts: ``tokens_left`` has
        ``num_closing`` more. ``check_from`` has a token for each byte of the end and of a character
        cut off before it, the most that ending can need, and one for the token chosen next.
        """
        num_closing = len(thoughts.shortest_completion())
        check_from = 1 + end_bytes + _MAX_CHARACTER_BYTES
        tokens_left = budget + num_closing
        return cls(thoughts, answer, tokens_left, num_closing, check_from, vocabulary_size)

    def mask(self) -> Mask:
        """See ``Matcher``; the thoughts' budget removes tokens, which does not restrict the answer.

        Above ``check_from`` no token can leave too little room, so nothing is checked; with
        ``num_closing`` left only the first token of the end may follow; between the two each token
        is checked. ``allows`` and ``advance`` use the same threshold.
        """
        if self.tokens_left > self.check_from:
            return self.thoughts.mask()
        if self.tokens_left <= self.num_closing:
            return mask_of(self.vocabulary_size, np.array(self._first_of_end(), dtype=np.int64))
        return self.thoughts.mask_within(self.tokens_left)

    def allows(self, token: TokenId) -> bool:
        if self.tokens_left > self.check_from:
            return self.thoughts.allows(token)
        return allows(self.mask(), token)

    def advance(self, token: TokenId) -> Matcher:
        if self.tokens_left <= self.check_from and not self.allows(token):
            raise TokenRejectedError(
                f"token {token} is not allowed here: the thoughts have to end", token=token
            )
        return self._advance_thoughts(self.thoughts.advance(token))

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: what ends the thoughts where they must, and what the answer begins with.

        Only bytes of the end are forced in thoughts, so a run fits above ``check_from``. Closer to
        the end of the budget, only a run along the shortest end is sure to be in the masks.
        """
        if forcing is Forcing.OFF:
            return ()
        if self.tokens_left <= self.num_closing:
            # The masks allow these alone, one at a time, whatever spelling is forced elsewhere.
            run = self.thoughts.shortest_completion()
        else:
            run = self.thoughts.forced_run(forcing)
            if (
                self.tokens_left <= self.check_from
                and run != self.thoughts.shortest_completion()[: len(run)]
            ):
                return ()
        after: Matcher = self
        for token in run:
            after = after.advance(token)
        return run + after.forced_run(forcing) if after is self.answer else run

    def likely_run(self) -> tuple[TokenId, ...]:
        return self.thoughts.likely_run() if self.tokens_left > self.check_from else ()

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return self.thoughts.shortest_completion() + self.answer.shortest_completion()

    def can_complete_within(self, budget: int) -> bool:
        """See ``Matcher``.

        The first test is only a short cut to True: it reserves more for the end of the thoughts
        than that takes. If it fails, the end is computed.
        """
        # Most budgets are so large that no completion is computed.
        if self.thoughts.can_complete_within(_AMPLE_TOKENS) and self.answer.can_complete_within(
            budget - _AMPLE_TOKENS
        ):
            return True
        return self.answer.can_complete_within(budget - len(self.thoughts.shortest_completion()))

    def mask_within(self, budget: int) -> Mask:
        """See ``Matcher``.

        The budget is for thoughts and answer together, so the answer's end is subtracted, and the
        thoughts' own budget holds as well.
        """
        room = min(self.tokens_left, budget - len(self.answer.shortest_completion()))
        if room <= self.num_closing:
            return mask_of(self.vocabulary_size, np.array(self._first_of_end(), dtype=np.int64))
        return self.thoughts.mask_within(room)

    def _first_of_end(self) -> tuple[TokenId, ...]:
        return self.thoughts.shortest_completion()[:1]

    def _advance_thoughts(self, thoughts: Matcher) -> Matcher:
        if thoughts.is_complete:
            return self.answer
        return ThinkingMatcher(
            thoughts,
            self.answer,
            self.tokens_left - 1,
            self.num_closing,
            self.check_from,
            self.vocabulary_size,
        )
