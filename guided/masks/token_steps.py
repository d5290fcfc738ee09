"""Single tokens: where each leads from a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State, state_of
from guided.masks.machine_kernels import (
    ALLOWED,
    FORBIDDEN,
    NOWHERE,
    UNRESOLVED,
    take_token,
)
from guided.masks.packed import PackedMachine, Scratch
from guided.masks.trie import TokenTrie
from guided.masks.trie_kernels import walk_to_slots
from guided.masks.vocabulary import TokenTexts
from guided.masks.walk_path import FINISHED, SLOTS_FULL
from guided.runtime.addresses import addresses_of
from guided.runtime.per_thread import PerThread

__all__ = ["TokenSteps"]

_KEY_BEGAN_EARLIER: Final = -2
"""In place of where a key begins in a token: it began before the token."""
_FIRST_SLOTS: Final = 1024


class TokenSteps:
    """Moves one machine by tokens.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``.
    """

    def __init__(
        self,
        machine: Recognizer,
        packed: PackedMachine,
        texts: TokenTexts,
        trie: TokenTrie,
        scratch: PerThread[Scratch],
    ) -> None:
        self._machine = machine
        self._packed = packed
        self._texts = texts
        self._trie = trie
        # The trie never changes, so its arrays stay where they are.
        self._addresses = addresses_of(trie.arrays)
        self._scratch = scratch

    def advance(self, state: State, token: int) -> State | None:
        """Return the state after a token, with the texts it remembers; ``None`` if not allowed.

        A token that stands for no text is never allowed. May raise LimitExceededError.
        """
        stack, row, count, texts = state
        text = self._texts.token_bytes[token]
        if text is None:
            return None
        key_start = _KEY_BEGAN_EARLIER if texts else NOWHERE
        # Compiled code does not carry texts. For a single one, a member name ("key") that is being
        # written, it can report where that begins.
        if texts and not self._is_only_key(stack, row):
            return self._advance_exactly(state, text)
        first, last = self._texts.bounds[token], self._texts.bounds[token + 1]
        while True:
            status, reached, target, counted, key = take_token(
                self._texts.joined,
                first,
                last,
                stack,
                row,
                count,
                key_start,
                self._packed.addresses(),
            )
            if status == ALLOWED and key == NOWHERE:
                return state_of(reached, target, counted)
            if status == ALLOWED:
                written = texts[0] + text if key == _KEY_BEGAN_EARLIER else text[key - first :]
                return state_of(reached, target, counted, (written,))
            if status == FORBIDDEN:
                return None
            if status != UNRESOLVED:  # it depends on a text
                return self._advance_exactly(state, text)
            # The stack and the exit action of a missing transition: then try again from ``state``.
            self._packed.resolve(reached, target)

    def _is_only_key(self, stack: int, row: int) -> bool:
        """Return whether a free key is all that has to be remembered: it is then the only text."""
        parts = self._machine.parts
        return not parts.stacks.num_texts(stack) and parts.table.is_key(row)

    def _advance_exactly(self, state: State, text: bytes) -> State | None:
        self._packed.begin_work()
        return self._machine.advance(state, text)

    def group_by_target(
        self, state: State, tokens: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the tokens, all allowed, grouped by where they lead; end tokens are left out.

        The tokens of a group lead to the same stack, row and count; their texts may differ. No
        group is empty.
        """
        slots = self._slots(state)[tokens]
        is_known = slots != NOWHERE
        order = np.argsort(slots[is_known], kind="stable")
        targets, firsts = np.unique(slots[is_known][order], return_index=True)
        if len(targets):
            yield from np.split(tokens[is_known][order], firsts[1:])
        groups: dict[tuple[int, int, int], list[int]] = {}
        for token in tokens[~is_known].tolist():
            reached = self.advance(state, token)
            if reached is not None:
                groups.setdefault(reached[:3], []).append(token)
        yield from (np.array(group) for group in groups.values())

    def _slots(self, state: State) -> NDArray[np.int32]:
        """Return for each token a number for where it leads, NOWHERE if a walk cannot decide.

        Numbers are equal where stack, row and count are, and mean nothing beyond that. A walk that
        stopped for a transition or for room begins again; what it wrote is overwritten.
        """
        of_token = np.full(self._trie.vocabulary_size, NOWHERE, dtype=np.int32)
        size = _FIRST_SLOTS
        while True:
            slots = np.full((size, 3), NOWHERE, dtype=np.int64)
            status, at, action = walk_to_slots(
                self._addresses,
                self._packed.addresses(),
                self._scratch.get().addresses,
                *state[:3],
                of_token,
                slots,
            )
            if status == FINISHED:
                return of_token
            if status == SLOTS_FULL:
                size *= 4
            else:
                self._packed.resolve(at, action)
