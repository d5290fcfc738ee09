"""A position in an answer: which tokens may follow, which must, and how to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from guided.errors import TokenRejectedError
from guided.masks.mask import Mask, allows, mask_of
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["BeforeAnswer", "FreeText", "Matcher"]


class Matcher(Protocol):
    """Immutable: ``advance`` returns another matcher, so keeping, forking and undoing are free.

    Every method may be called from any thread.
    """

    @property
    def is_complete(self) -> bool:
        """Whether nothing but the end may follow."""
        ...

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        ...

    def mask(self) -> Mask:
        """Return the tokens that may come next, with end-of-sequence tokens if the answer may end.

        Not to be written to. Raises LimitExceededError when the recogniser is full; the answer can
        still be ended along ``shortest_completion``.
        """
        ...

    def allows(self, token: TokenId) -> bool:
        """Return whether ``mask`` has a token; raises what ``mask`` raises."""
        ...

    def advance(self, token: TokenId) -> Matcher:
        """Return the position after ``token``; raises TokenRejectedError if the mask forbids it."""
        ...

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """Return tokens that have to come next; empty if there is a choice or forcing is off."""
        ...

    def likely_run(self) -> tuple[TokenId, ...]:
        """Return how the bytes that must come next are most likely spelled; no token is certain."""
        ...

    def shortest_completion(self) -> tuple[TokenId, ...]:
        """Return tokens that end the answer, close to as few as possible; empty if it may end here.

        Its work is not limited, so that an answer can always be closed. After a call of
        ``can_complete_within``, which does the search within the limit, little work is left.
        """
        ...

    def can_complete_within(self, budget: int) -> bool:
        """Return whether ``shortest_completion`` has at most ``budget`` tokens.

        Large budgets take little time: no completion is then searched for. Raises
        LimitExceededError if finding an end takes too much work.
        """
        ...

    def mask_within(self, budget: int) -> Mask:
        """``mask`` without the tokens after which the answer could not end within the budget.

        ``budget`` counts tokens, including the next one; ``can_complete_within`` it must be true.
        Where an item or a name must not occur twice and all that are left are much longer, a token
        may be in it after which ``can_complete_within`` is false.
        """
        ...


class BeforeAnswer:
    """What the positions before an answer have in common: nothing ends there."""

    __slots__ = ()

    @property
    def is_complete(self) -> bool:
        """False: the answer follows."""
        return False

    @property
    def is_accepting(self) -> bool:
        """False: what comes before an answer is none."""
        return False


@dataclass(frozen=True, slots=True)
class FreeText:
    """No constraint: any text may follow.

    Every position is the same, so a vocabulary has only one of these.
    """

    allowed: Mask
    is_complete: bool = False
    is_accepting: bool = True

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> FreeText:
        """Return the matcher that allows all tokens that stand for text or end it."""
        texts = [token for token, text in enumerate(vocabulary.token_bytes) if text is not None]
        mask = mask_of(len(vocabulary), [*texts, *vocabulary.end_ids])
        mask.flags.writeable = False
        return cls(mask)

    def mask(self) -> Mask:
        return self.allowed

    def allows(self, token: TokenId) -> bool:
        return allows(self.allowed, token)

    def advance(self, token: TokenId) -> FreeText:
        if not self.allows(token):
            raise TokenRejectedError(f"token {token} stands for no text", token=token)
        return self

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:  # noqa: ARG002 - nothing is
        return ()

    def likely_run(self) -> tuple[TokenId, ...]:
        return ()

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return ()

    def can_complete_within(self, budget: int) -> bool:
        return budget >= 0

    def mask_within(self, budget: int) -> Mask:  # noqa: ARG002 - it may end anywhere
        return self.allowed
