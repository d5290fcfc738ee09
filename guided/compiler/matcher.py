"""The matcher for hosts: a position in an answer that moves in place, one per sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from guided.compiler.bitmask import Bitmask, row_error, writable_memory
from guided.compiler.integers import to_int, to_ints
from guided.errors import LimitExceededError, RequestError, TokenRejectedError
from guided.masks.compiled import ConstraintMatcher
from guided.masks.mask_delta import MaskDelta
from guided.spec import Forcing, TokenId

__all__ = ["Matcher", "ends_answer", "try_advance"]


class Matcher:
    """A position in an answer; made by ``Compiled.matcher()``, used by one thread at a time.

    Different matchers may be used at the same time, even those of one constraint. A position may
    take more work or room than its limits allow. Then every method except ``shortest_completion``
    raises LimitExceededError, the matcher has not moved, and the completion can be used to close
    the answer.
    """

    __slots__ = ("_current", "_end_mask", "_history", "_is_terminated")

    def __init__(self, current: ConstraintMatcher, end_mask: MaskDelta) -> None:
        """Internal: the parameters are not part of the interface and may change.

        ``end_mask`` is the mask that allows only the end-of-sequence tokens.
        """
        self._current = current
        self._end_mask: Final = end_mask
        self._history: list[ConstraintMatcher] = []
        """The position before each token accepted so far, except an end-of-sequence token."""
        self._is_terminated = False

    # --- state ----------------------------------------------------------------------------

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here; then the mask allows the end-of-sequence tokens."""
        return self._current.is_accepting

    @property
    def is_complete(self) -> bool:
        """Whether only the end may follow: the text is complete, its end is not accepted yet."""
        return self._current.is_complete

    @property
    def is_terminated(self) -> bool:
        """Whether an end-of-sequence token was accepted. Nothing may follow then; masks allow only
        end-of-sequence tokens, so that no row is empty.
        """
        return self._is_terminated

    @property
    def num_tokens(self) -> int:
        """How many tokens were accepted so far; ``rollback`` can take back that many."""
        return len(self._history) + self._is_terminated

    # --- masks ----------------------------------------------------------------------------

    def fill_bitmask(self, bitmask: Bitmask, row: int = 0, *, budget: int | None = None) -> None:
        """Write which tokens may come next to one row of int32 ``[rows, words]``.

        With a ``budget``, only tokens are allowed after which the answer can still end within the
        budget. The next token counts towards it, an end-of-sequence token does not. Raises
        LimitExceededError if even the shortest completion is longer.
        """
        memory = writable_memory(bitmask)
        delta = self._mask(budget)
        num_words, row = len(delta.base), to_int(row, "row")
        if not 0 <= row < len(memory) or num_words > memory.shape[1]:
            raise row_error(memory, row, num_words)
        delta.fill(memory[row, :num_words])
        memory[row, num_words:] = 0

    # Batches and integrations use the following members.

    def _mask(self, budget: int | None = None) -> MaskDelta:
        """Return the mask as it is stored: as the difference from a mask that many share."""
        if self._is_terminated:
            return self._end_mask
        at = self._current
        if budget is None:
            return at.constraint.mask(at.position)
        # An int: one of numpy without a sign never gets below zero.
        budget = to_int(budget, "budget")
        if not at.can_complete_within(budget):
            needed = len(at.shortest_completion())
            raise LimitExceededError(
                f"the answer takes {needed} more tokens to end, and the budget is {budget}",
                limit=budget,
                field="budget",
                hint="give the whole answer's budget from its first token on",
            )
        within = at.mask_within(budget)
        return MaskDelta(within, np.empty((0, 2), dtype=np.int32))

    @property
    def _position(self) -> ConstraintMatcher | None:
        """The position as a value, ``None`` after the end."""
        return None if self._is_terminated else self._current

    # --- moving ---------------------------------------------------------------------------

    def accept(self, tokens: Iterable[int]) -> bool:
        """Move over all of these tokens; if one is not allowed, return False and do not move."""
        offered = to_ints(tokens, "tokens")
        reached, is_terminated = self._follow(offered)
        if len(reached) + is_terminated < len(offered):
            return False
        if reached:
            self._history += (self._current, *reached[:-1])
            self._current = reached[-1]
        self._is_terminated |= is_terminated
        return True

    def validate(self, tokens: Iterable[int]) -> int:
        """Return how many of the tokens may follow, up to the first that may not; does not move."""
        reached, is_terminated = self._follow(to_ints(tokens, "tokens"))
        return len(reached) + is_terminated

    def _follow(self, tokens: list[int]) -> tuple[list[ConstraintMatcher], bool]:
        """Return the positions after the allowed tokens, and whether an end comes after them."""
        at, reached = self._current, list[ConstraintMatcher]()
        if self._is_terminated:
            return reached, False
        for token in tokens:
            following = try_advance(at, token)
            if following is None:
                return reached, ends_answer(at, token)
            at = following
            reached.append(at)
        return reached, False

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens; raises RequestError if fewer were accepted."""
        # An int: the negative of one of numpy without a sign would be another place.
        num_tokens = to_int(num_tokens, "num_tokens")
        if not 0 <= num_tokens <= self.num_tokens:
            raise RequestError(
                f"cannot take back {num_tokens} tokens where {self.num_tokens} were accepted",
                field="num_tokens",
                hint="a fork begins with the tokens of the matcher that it was made from",
            )
        num_positions = num_tokens
        if num_tokens and self._is_terminated:
            self._is_terminated = False
            num_positions -= 1
        if num_positions:
            self._current = self._history[-num_positions]
            del self._history[-num_positions:]

    def reset(self) -> None:
        """Go back to the position before the first token."""
        self.rollback(self.num_tokens)

    def fork(self) -> Matcher:
        """Return another matcher at the same position, which can be rolled back as far."""
        fork = Matcher(self._current, self._end_mask)
        fork._history = [*self._history]
        fork._is_terminated = self._is_terminated
        return fork

    # --- what must follow -----------------------------------------------------------------

    def forced(self, forcing: Forcing = Forcing.CANONICAL) -> tuple[TokenId, ...]:
        """Return tokens that must come next, as the tokenizer spells them; often there are none.

        Pass them to ``accept`` without calling the model. An end-of-sequence token is never among
        them: ``is_complete`` says when it is due.
        """
        return () if self._is_terminated else self._current.forced_run(forcing)

    def can_end_within(self, budget: int) -> bool:
        """Return whether ``shortest_completion(budget)`` has an answer, without searching for it.

        Takes little time while ``budget`` is large. Raises LimitExceededError if finding an end
        takes too much work.
        """
        return self._is_terminated or self._current.can_complete_within(to_int(budget, "budget"))

    def shortest_completion(self, budget: int | None = None) -> tuple[TokenId, ...] | None:
        """Return nearly as few tokens as can end the answer, without an end-of-sequence token.

        Empty if the answer may end here, ``None`` if more than ``budget`` tokens are needed.
        """
        if self._is_terminated:
            return ()
        if budget is not None and not self.can_end_within(budget):
            return None
        return self._current.shortest_completion()


def try_advance(matcher: ConstraintMatcher, token: int) -> ConstraintMatcher | None:
    """Return the matcher after a token, ``None`` if the token is not allowed or ends the answer.

    Hosts offer any token that their model has a logit for, and there may be more logits than
    tokens.
    """
    if not 0 <= token < len(matcher.constraint.binding.vocabulary):
        return None
    try:
        return matcher.advance(TokenId(token))
    except TokenRejectedError:
        return None


def ends_answer(matcher: ConstraintMatcher, token: int) -> bool:
    """Return whether this is an end-of-sequence token, and the answer may end here."""
    return matcher.is_accepting and token in matcher.constraint.binding.vocabulary.end_ids
