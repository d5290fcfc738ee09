"""A position before an answer may end, though its constraint would let it: it has too few tokens.

::

    answer, at least so many tokens          more of it, or the end
    └── masks without the end ─── tokens due ┘└── the matcher of the constraint
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.masks.mask import Mask, allows, mask_of
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["LeastTokensMatcher"]


@dataclass(frozen=True, slots=True)
class LeastTokensMatcher:
    """A matcher whose masks have no token that ends the answer, as long as another is left.

    An answer whose constraint is complete ends all the same, and so does one whose budget is used
    up.
    """

    answer: Matcher
    tokens_due: int
    """The number of tokens that come before the answer may end; at least 1."""
    ends: Mask = field(compare=False)
    """The tokens that end an answer."""

    @classmethod
    def before(cls, answer: Matcher, least: int, vocabulary: Vocabulary) -> Matcher:
        """Return the position before an answer of at least this many tokens."""
        if not least:
            return answer
        return cls(answer, least, mask_of(len(vocabulary), vocabulary.end_ids))

    @property
    def is_complete(self) -> bool:
        return self.answer.is_complete

    @property
    def is_accepting(self) -> bool:
        """See ``Matcher``: it may end early only where nothing but the end may follow."""
        return self.answer.is_accepting and not (self.answer.mask() & ~self.ends).any()

    def mask(self) -> Mask:
        return self._without_ends(self.answer.mask())

    def allows(self, token: TokenId) -> bool:
        return self.is_accepting if allows(self.ends, token) else self.answer.allows(token)

    def advance(self, token: TokenId) -> Matcher:
        after = self.answer.advance(token)
        due = self.tokens_due - 1
        return LeastTokensMatcher(after, due, self.ends) if due else after

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: a run has no end in it, and is as certain with fewer tokens allowed."""
        return self.answer.forced_run(forcing)

    def likely_run(self) -> tuple[TokenId, ...]:
        return self.answer.likely_run()

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return self.answer.shortest_completion()

    def can_complete_within(self, budget: int) -> bool:
        return self.answer.can_complete_within(budget)

    def mask_within(self, budget: int) -> Mask:
        return self._without_ends(self.answer.mask_within(budget))

    def _without_ends(self, mask: Mask) -> Mask:
        others: Mask = mask & ~self.ends
        return others if others.any() else mask
