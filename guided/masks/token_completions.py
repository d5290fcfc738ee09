"""Completions in tokens: the shortest from a state, and which tokens leave room for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State
from guided.masks.fewest_tokens import FewestTokens
from guided.masks.mask import Mask, tokens_of
from guided.masks.state_masks import StateMasks
from guided.masks.token_steps import TokenSteps
from guided.masks.trie import TokenTrie
from guided.runtime.work_budget import spend
from guided.spec import TokenId

__all__ = ["TokenCompletions"]

_MAX_TRIED: Final = 64
"""Tokens that leave different texts and are tried one by one."""
_SPARE_BYTES: Final = 12
"""Bytes that shortest completions may differ by between states that differ only in their texts: a
new name may need digits."""

_KEPT_BYTES: Final = 400
"""About what a state with its completion takes; states along it share its tokens."""

_TOKEN_WORK: Final = 5
"""Units of work per token of a completion that is kept."""


@dataclass(frozen=True, slots=True)
class _Completion:
    """The tokens of a completion from a place on; states along one completion share the tuple."""

    tokens: tuple[TokenId, ...]
    place: int

    def __len__(self) -> int:
        return len(self.tokens) - self.place

    def rest(self) -> tuple[TokenId, ...]:
        return self.tokens[self.place :]


class TokenCompletions:
    """Completions of one machine's texts in the tokens of one vocabulary.

    Not thread-safe: callers hold the lock of the ``CompiledConstraint``.
    """

    def __init__(
        self,
        machine: Recognizer,
        steps: TokenSteps,
        trie: TokenTrie,
        masks: StateMasks,
        max_kept: int,
    ) -> None:
        """``masks`` are those of the same machine, called under the caller's lock.

        Completions of at most about ``max_kept`` states are kept.
        """
        self._machine = machine
        self._steps = steps
        self._fewest = FewestTokens(trie)
        self._masks = masks
        self._max_kept = max_kept
        self._kept_by_state: dict[State, _Completion] = {}
        """For the states along completions that were offered, the tokens that end the text."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds."""
        return self._fewest.nbytes + _KEPT_BYTES * len(self._kept_by_state)

    def shortest(self, state: State) -> tuple[TokenId, ...]:
        """Return tokens that end the text, close to as few as possible.

        A kept completion was offered before and has to stay allowed: see ``keep_shortest``. This
        call keeps nothing, and leaves it to the caller to limit its work.
        """
        tokens = self._fewest.tokens(self._machine.shortest_completion(state))
        # Of two equally long completions the kept one wins: an answer may be following it.
        kept = self._kept_by_state.get(state)
        return tokens if kept is None or len(tokens) < len(kept) else kept.rest()

    def can_complete_within(self, state: State, budget: int) -> bool:
        """Return whether at most ``budget`` tokens end the text.

        If a bound from the number of bytes left suffices, no completion is computed.
        """
        # A token has at least one byte.
        if self._machine.bytes_left(state) <= budget:
            return True
        count = self._fewest.count(self._machine.shortest_completion(state))
        kept = self._kept_by_state.get(state)
        return count <= budget or (kept is not None and len(kept) <= budget)

    def keep_shortest(self, state: State) -> tuple[TokenId, ...]:
        """``shortest``, kept for the states along it.

        Fewer bytes can be more tokens, so an answer that follows this completion must not be led to
        another one.

        At ``max_kept`` everything kept is forgotten at once, which may lead such an answer to
        another completion.
        """
        tokens = self.shortest(state)
        if len(self._kept_by_state) >= self._max_kept:
            self._kept_by_state.clear()
        at: State | None = state
        for place, token in enumerate(tokens):
            spend(_TOKEN_WORK)
            # The bytes of ``shortest_completion`` are all allowed, so every token of them is.
            assert at is not None, (state, tokens)
            existing = self._kept_by_state.get(at)
            if existing is None or len(existing) > len(tokens) - place:
                self._kept_by_state[at] = _Completion(tokens, place)
            at = self._steps.advance(at, token)
        return tokens

    def tokens_within(self, state: State, mask: Mask, budget: int) -> list[NDArray[np.int64]]:
        """Return tokens in the mask of a state after which fewer than ``budget`` more end the text.

        Returned in groups, in no order; where a state has several parses, their own masks are used
        in place of ``mask``, and a token may occur more than once. End-of-sequence tokens are left
        out.
        """
        parses = self._machine.sharing.parses(state)
        if parses:
            return [
                self._select_fitting_together(state, each, tokens, budget - 1)
                for each in parses
                for tokens in self.tokens_within(each, self._masks.mask(each)[1].mask(), budget)
            ]
        groups = self._steps.group_by_target(state, tokens_of(mask))
        return [self._select_fitting(state, tokens, budget - 1) for tokens in groups]

    def _select_fitting(
        self, state: State, tokens: NDArray[np.int64], budget: int
    ) -> NDArray[np.int64]:
        """Return the tokens, of those that lead to one place, after which the budget suffices.

        They all lead to one stack, row and count, and are one group of
        ``TokenSteps.group_by_target``, never empty. ``budget`` no longer counts the token itself.
        Of many tokens that leave different texts, some that fit may be left out; and one may be
        among them that does not fit, where its text is taken and all others are much longer.
        """
        first = self._steps.advance(state, int(tokens[0]))
        # ``group_by_target`` gives only tokens that lead somewhere.
        assert first is not None, (state, tokens[0])
        if first.texts:
            # How the text can end depends on what was written, and each token writes another text.
            # Few are tried one by one; of many the first stands for all, with some bytes to spare.
            if len(tokens) <= _MAX_TRIED:
                fits = [self._fits_after(state, token, budget) for token in tokens.tolist()]
                fitting: NDArray[np.int64] = tokens[np.array(fits)]
                return fitting
            budget -= _SPARE_BYTES
        return tokens if self.can_complete_within(first, budget) else tokens[:0]

    def _select_fitting_together(
        self, state: State, parse: State, tokens: NDArray[np.int64], budget: int
    ) -> NDArray[np.int64]:
        """Return the tokens of one group that fit after one parse of a state and after the state.

        A completion of the state has as few bytes as one of any of its parses, but these may be
        more tokens. If not even a token for each byte is too many, all of them fit. Of others a few
        are tried one by one, and the rest is left out.
        """
        if not len(tokens):
            return tokens
        first = self._steps.advance(parse, int(tokens[0]))
        assert first is not None, (parse, tokens[0])
        if not first.texts and self._machine.bytes_left(first) <= budget:
            return tokens
        fits = [self._fits_after(state, token, budget) for token in tokens[:_MAX_TRIED].tolist()]
        fitting: NDArray[np.int64] = tokens[:_MAX_TRIED][np.array(fits)]
        return fitting

    def _fits_after(self, state: State, token: int, budget: int) -> bool:
        reached = self._steps.advance(state, token)
        return reached is not None and self.can_complete_within(reached, budget)
