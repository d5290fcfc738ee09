"""A position before an answer may end, though its constraint would let it: it has too few tokens.

::

    answer, at least so many tokens          more of it, or the end
    └── masks without the end ─── tokens due ┘└── the matcher of the constraint

Tokens that stop an answer are held back in the same way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from guided.masks.mask import Mask, allows, mask_of
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["LeastTokensMatcher"]


@dataclass(frozen=True, slots=True)
class LeastTokensMatcher:
    """A matcher whose masks have no token that is held back, as long as another is left.

    An answer whose constraint is complete ends all the same, and so does one whose budget is used
    up.
    """

    answer: Matcher
    tokens_due: int
    """The number of tokens that come before those held back; at least 1."""
    held: Mask = field(compare=False)
    """The tokens that are held back."""
    ends: Mask = field(compare=False)
    """The tokens that end an answer; they may be the same."""

    @classmethod
    def before(
        cls,
        answer: Matcher,
        least: int,
        vocabulary: Vocabulary,
        held: Collection[TokenId] | None = None,
    ) -> Matcher:
        """Return the position before an answer with at least this many tokens before ``held``.

        ``None`` holds back the tokens that end it.
        """
        if not least:
            return answer
        ends = mask_of(len(vocabulary), vocabulary.end_ids)
        return cls(answer, least, ends if held is None else mask_of(len(vocabulary), held), ends)

    @property
    def is_complete(self) -> bool:
        return self.answer.is_complete

    @property
    def is_accepting(self) -> bool:
        """See ``Matcher``: it may end early only where nothing but what is held back may follow."""
        return self.answer.is_accepting and bool((self.mask() & self.ends).any())

    def mask(self) -> Mask:
        return self._without_held(self.answer.mask())

    def allows(self, token: TokenId) -> bool:
        return allows(self.mask(), token) if allows(self.held, token) else self.answer.allows(token)

    def advance(self, token: TokenId) -> Matcher:
        after = self.answer.advance(token)
        due = self.tokens_due - 1
        return LeastTokensMatcher(after, due, self.held, self.ends) if due else after

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: a run is as certain with fewer tokens allowed, as long as it may be."""
        return self._up_to_held(self.answer.forced_run(forcing))

    def likely_run(self) -> tuple[TokenId, ...]:
        return self._up_to_held(self.answer.likely_run())

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return self.answer.shortest_completion()

    def can_complete_within(self, budget: int) -> bool:
        return self.answer.can_complete_within(budget)

    def mask_within(self, budget: int) -> Mask:
        return self._without_held(self.answer.mask_within(budget))

    def _without_held(self, mask: Mask) -> Mask:
        others: Mask = mask & ~self.held
        return others if others.any() else mask

    def _up_to_held(self, run: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """Return a run up to its first token that is held back: others may spell the same text."""
        for index, token in enumerate(run[: self.tokens_due]):
            if allows(self.held, token):
                return run[:index]
        return run
