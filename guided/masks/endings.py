"""Ends of texts in tokens: the shortest from a state, and which tokens leave room for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State
from guided.masks.fewest_tokens import FewestTokens
from guided.masks.mask import Mask, tokens_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.token_steps import TokenSteps
from guided.masks.trie import TokenTrie
from guided.runtime.fuel import spend
from guided.spec import TokenId

__all__ = ["Endings"]

_FEW: Final = 64
_SPARE_BYTES: Final = 12
"""By how much texts in one place may differ in their shortest ends: a number to be a new name."""

_KEPT_BYTES: Final = 400
"""A state with its end, about; the tokens of an end are shared by the states along it."""

_TOKEN_WORK: Final = 5
"""Units of work for a token of an end that is kept."""


@dataclass(frozen=True, slots=True)
class _End:
    """Tokens from a place on: states along one end share them."""

    tokens: tuple[TokenId, ...]
    place: int

    def __len__(self) -> int:
        return len(self.tokens) - self.place

    def rest(self) -> tuple[TokenId, ...]:
        return self.tokens[self.place :]


class Endings:
    """Ends of texts of one machine in tokens of one vocabulary.

    Not thread-safe: callers hold the lock of the ``CompiledConstraint``.
    """

    def __init__(
        self,
        machine: Recognizer,
        steps: TokenSteps,
        trie: TokenTrie,
        mask_of_state: Callable[[State], MaskDelta],
        max_kept: int,
    ) -> None:
        """``mask_of_state`` gives the whole mask of a state.

        It is asked for each parse of a state with several, by itself, under the caller's lock.

        At most about ``max_kept`` states have a completion that is kept.
        """
        self._machine = machine
        self._steps = steps
        self._fewest = FewestTokens(trie)
        self._mask_of_state = mask_of_state
        self._max_kept = max_kept
        self._kept: dict[State, _End] = {}
        """By state tokens that end the text from there, for states along ends that were offered."""

    @property
    def nbytes(self) -> int:
        """What it holds, about."""
        return self._fewest.nbytes + _KEPT_BYTES * len(self._kept)

    def shortest(self, state: State) -> tuple[TokenId, ...]:
        """Tokens that end the text, close to as few as can be.

        The kept one was offered before and has to stay open: see ``kept_shortest``. Nothing is kept
        here. Work on it is the caller's to limit.
        """
        tokens = self._fewest.tokens(self._machine.shortest_end(state))
        # Of two ends of as many tokens the kept one wins: somebody may be on the way along it.
        kept = self._kept.get(state)
        return tokens if kept is None or len(tokens) < len(kept) else kept.rest()

    def fits(self, state: State, budget: int) -> bool:
        """Whether at most ``budget`` tokens end the text.

        Where the bytes that are left suffice as a bound, no end in tokens is worked out.
        """
        # A token has a byte at least.
        if self._machine.bytes_left(state) <= budget:
            return True
        count = self._fewest.count(self._machine.shortest_end(state))
        kept = self._kept.get(state)
        return count <= budget or (kept is not None and len(kept) <= budget)

    def kept_shortest(self, state: State) -> tuple[TokenId, ...]:
        """``shortest``, kept for the states along it.

        Fewer bytes can be more tokens: whoever follows it must not be led on to another one.

        At ``max_kept`` all that was kept is forgotten at once, which may lead somebody who is on
        the way on to another end.
        """
        tokens = self.shortest(state)
        if len(self._kept) >= self._max_kept:
            self._kept.clear()
        at: State | None = state
        for place, token in enumerate(tokens):
            spend(_TOKEN_WORK)
            # The bytes of ``shortest_end`` are all allowed, so every token of them is.
            assert at is not None, (state, tokens)
            known = self._kept.get(at)
            if known is None or len(known) > len(tokens) - place:
                self._kept[at] = _End(tokens, place)
            at = self._steps.advance(at, token)
        return tokens

    def tokens_within(self, state: State, mask: Mask, budget: int) -> list[NDArray[np.int64]]:
        """Tokens of the mask of a state after which less than ``budget`` more end the text.

        In groups, in no order; where a state has several parses a token may come more than once.
        End-of-sequence tokens are left out.
        """
        parses = self._machine.sharing.parses(state)
        if parses:
            found = [
                self.tokens_within(each, self._mask_of_state(each).mask(), budget)
                for each in parses
            ]
            return [tokens for each in found for tokens in each]
        groups = self._steps.by_target(state, tokens_of(mask))
        return [self._fitting(state, tokens, budget - 1) for tokens in groups]

    def _fitting(self, state: State, tokens: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
        """Those of the tokens, all of which lead to one stack, row and count, after which the
        budget suffices. Of many tokens that leave different texts some that fit may be left out.

        ``tokens`` are one group of ``TokenSteps.by_target``, never empty; ``budget`` no longer
        counts the token itself.
        """
        first = self._steps.advance(state, int(tokens[0]))
        # ``by_target`` gives only tokens that lead somewhere.
        assert first is not None, (state, tokens[0])
        if first.texts:
            # How the text can end depends on what was written, which is another text for each
            # token. Few are tried one by one; of many the first stands for all, with some spare.
            if len(tokens) <= _FEW:
                fits = [self._fits_after(state, token, budget) for token in tokens.tolist()]
                fitting: NDArray[np.int64] = tokens[np.array(fits)]
                return fitting
            budget -= _SPARE_BYTES
        return tokens if self.fits(first, budget) else tokens[:0]

    def _fits_after(self, state: State, token: int, budget: int) -> bool:
        reached = self._steps.advance(state, token)
        return reached is not None and self.fits(reached, budget)
