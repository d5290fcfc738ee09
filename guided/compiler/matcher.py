"""A position in an answer that moves in place, as hosts keep one for each sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from guided.compiler.bitmask import Bitmask, memory_of, row_error
from guided.compiler.numbers import number, numbers
from guided.compiler.steps import after, is_end
from guided.errors import LimitExceededError, RequestError
from guided.masks.compiled import ConstraintMatcher
from guided.masks.mask_delta import MaskDelta
from guided.spec import Forcing, TokenId

__all__ = ["Matcher"]


class Matcher:
    """Where an answer stands; made by ``Compiled.matcher()``, used by one thread at a time.

    Different matchers may be used at the same time, those of one constraint too. What a position
    takes may be too much for its limits: then any method but ``shortest_completion`` raises
    LimitExceededError, nothing has moved, and the answer can be closed along the completion.
    """

    __slots__ = ("_at", "_ends", "_is_terminated", "_passed")

    def __init__(self, at: ConstraintMatcher, ends: MaskDelta) -> None:
        """Internal, and may change: what it takes is no part of the interface.

        ``ends`` is the mask of the end-of-sequence tokens alone.
        """
        self._at = at
        self._ends: Final = ends
        self._passed: list[ConstraintMatcher] = []
        """The positions before the tokens accepted so far, an end-of-sequence token aside."""
        self._is_terminated = False

    # --- where it stands ------------------------------------------------------------------

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here; then the mask allows the end-of-sequence tokens."""
        return self._at.is_accepting

    @property
    def is_complete(self) -> bool:
        """Whether nothing but the end may follow: the text is whole, its end not yet accepted."""
        return self._at.is_complete

    @property
    def is_terminated(self) -> bool:
        """Whether an end-of-sequence token was accepted; nothing may follow, and masks allow such
        tokens alone, so that no row is empty."""
        return self._is_terminated

    @property
    def num_tokens(self) -> int:
        """Tokens accepted so far, which is as far as ``rollback`` goes."""
        return len(self._passed) + self._is_terminated

    # --- masks ----------------------------------------------------------------------------

    def fill_bitmask(self, bitmask: Bitmask, row: int = 0, *, budget: int | None = None) -> None:
        """Write which tokens may come next to one row of int32 ``[rows, words]``.

        With a ``budget`` only those after which the answer can still end within so many tokens, the
        next one counted and the end-of-sequence token not; raises LimitExceededError where even the
        shortest completion is longer.
        """
        memory = memory_of(bitmask)
        delta = self._mask(budget)
        num_words, row = len(delta.base), number(row, "row")
        if not 0 <= row < len(memory) or num_words > memory.shape[1]:
            raise row_error(memory, row, num_words)
        delta.fill(memory[row, :num_words])
        memory[row, num_words:] = 0

    # What batches and integrations read of it.

    def _mask(self, budget: int | None = None) -> MaskDelta:
        """The same as it is kept: by how it differs from a mask that many begin from."""
        if self._is_terminated:
            return self._ends
        at = self._at
        if budget is None:
            return at.constraint.mask(at.position)
        if not at.fits(number(budget, "budget")):
            needed = len(at.shortest_end())
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
        return None if self._is_terminated else self._at

    # --- moving ---------------------------------------------------------------------------

    def accept(self, tokens: Iterable[int]) -> bool:
        """Move over tokens, all of them or none: False where one is not allowed, nothing moved."""
        asked = numbers(tokens, "tokens")
        reached, is_terminated = self._follow(asked)
        if len(reached) + is_terminated < len(asked):
            return False
        if reached:
            self._passed += (self._at, *reached[:-1])
            self._at = reached[-1]
        self._is_terminated |= is_terminated
        return True

    def validate(self, tokens: Iterable[int]) -> int:
        """How many of the tokens may follow, up to the first that may not; nothing is moved."""
        reached, is_terminated = self._follow(numbers(tokens, "tokens"))
        return len(reached) + is_terminated

    def _follow(self, tokens: list[int]) -> tuple[list[ConstraintMatcher], bool]:
        """The positions after tokens as far as these are allowed, and whether an end follows."""
        at, reached = self._at, list[ConstraintMatcher]()
        if self._is_terminated:
            return reached, False
        for token in tokens:
            following = after(at, token)
            if following is None:
                return reached, is_end(at, token)
            at = following
            reached.append(at)
        return reached, False

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens; raises RequestError for more than were accepted."""
        if not 0 <= number(num_tokens, "num_tokens") <= self.num_tokens:
            raise RequestError(
                f"cannot take back {num_tokens} tokens where {self.num_tokens} were accepted",
                field="num_tokens",
                hint="a fork begins with the tokens of the matcher that it was made from",
            )
        texts = num_tokens
        if num_tokens and self._is_terminated:
            self._is_terminated = False
            texts -= 1
        if texts:
            self._at = self._passed[-texts]
            del self._passed[-texts:]

    def reset(self) -> None:
        """Go back to before the first token."""
        self.rollback(self.num_tokens)

    def fork(self) -> Matcher:
        """Another matcher at the same position, with the same tokens after it."""
        fork = Matcher(self._at, self._ends)
        fork._passed = [*self._passed]
        fork._is_terminated = self._is_terminated
        return fork

    # --- what must come -------------------------------------------------------------------

    def forced(self, forcing: Forcing = Forcing.CANONICAL) -> tuple[TokenId, ...]:
        """Tokens that have to come next, as the tokenizer spells them; often none.

        They are what ``accept`` takes next, without a call of the model. An end-of-sequence token
        is not among them: ``is_complete`` says that it is due.
        """
        return () if self._is_terminated else self._at.forced_run(forcing)

    def shortest_completion(self, budget: int | None = None) -> tuple[TokenId, ...] | None:
        """Tokens that end the answer, close to as few as can be, without an end-of-sequence token.

        Empty where it may end here, ``None`` where it takes more than ``budget``.
        """
        if self._is_terminated:
            return ()
        if budget is not None and not self._at.fits(number(budget, "budget")):
            return None
        return self._at.shortest_end()
