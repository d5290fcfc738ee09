"""Masks of the states of one machine, made from what other states have made already.

A mask is made from the first of these that there is::

    the mask of the same key                              (stack, row, code points missing and left)
    the mask of the row, if it depends on no stack        (ANYWHERE, row, ...)
    the mask of a truncated stack, completed for this     grammars: few callers matter to tokens
    the mask of the row below, corrected                  overlays: listed names over any name
    a walk                                                on a context-independent mask, in strings

If that leaves tokens uncertain, they are tried one by one on the exact state.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State
from guided.machine.table import DEAD
from guided.masks.held_mask import HeldMask
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_keys import MaskKey, MaskKeys, mask_key
from guided.masks.mask_store import MaskStore
from guided.masks.walk import KeptWalk, Walk
from guided.masks.walker import Walker
from guided.runtime.work_budget import LimitedSteps

__all__ = ["StateMasks"]

_ANYWHERE: Final = -1
"""In place of the stack, in keys of walks that are the same in all stacks."""


class StateMasks:
    """Makes the masks of one machine over one vocabulary.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``. The walker makes all masks in the same memory: a ``Walk`` is kept
    (``_keep``) before the next one is made. A remembered walk refers to its mask's holder, which
    the store may empty; the walk is then made again.
    """

    def __init__(
        self,
        machine: Recognizer,
        walker: Walker,
        keys: MaskKeys,
        store: MaskStore,
        ends: NDArray[np.int32],
        step_limit: LimitedSteps,
    ) -> None:
        """``ends`` are the tokens that end a text; ``step_limit`` limits the work of one mask."""
        self._machine = machine
        self._walker = walker
        self._keys = keys
        self._store = store
        self._ends = ends
        self._step_limit = step_limit
        self._by_key: dict[MaskKey, tuple[HeldMask, NDArray[np.int32]]] = {}
        """Walks, with the sites whose tokens the mask leaves out as uncertain."""

    def clear(self) -> None:
        """Forget all walks; their masks live on in the store while positions hold them."""
        self._by_key.clear()

    def mask(self, state: State) -> tuple[HeldMask, MaskDelta]:
        """Return where the mask of a state is held, and the tokens that may follow it.

        End-of-sequence tokens are among them where the state accepts. Raises LimitExceededError
        if the machine is too full to make another mask, or one takes too much work.
        """
        parses = self._machine.sharing.parses(state)
        if parses:
            return self._join_parses(state, parses)
        # Which text a free key has so far matters to few tokens, so most states share a walk.
        walk = self._walk(state)
        # Kept masks that are used again are not the ones that the store empties first.
        walk.held.used = True
        repeating = self._find_repeating_tokens(state) if state.texts else []
        if repeating or len(walk.uncertain):
            return self._keep(self._walker.make_exact(walk, state, repeating))
        return walk.held, walk.delta

    def _keep(self, walk: Walk) -> tuple[HeldMask, MaskDelta]:
        return self._store.keep(walk.mask, walk.base)

    def _find_walk(self, key: MaskKey) -> KeptWalk | None:
        """Return the walk of a key, where its mask is still held.

        ``delta`` is read once: constraints share the store, so another thread may empty it at any
        moment.
        """
        cached = self._by_key.get(key)
        if cached is None or (delta := cached[0].delta) is None:
            return None
        return KeptWalk(cached[0], delta, cached[1])

    def _remember(self, key: MaskKey, walk: Walk) -> KeptWalk:
        """Remember a walk by a key, and return it."""
        held, delta = self._keep(walk)
        self._by_key[key] = held, walk.uncertain
        return KeptWalk(held, delta, walk.uncertain)

    def _join_parses(self, state: State, parses: tuple[State, ...]) -> tuple[HeldMask, MaskDelta]:
        """Return the tokens after any parse of a state, and end tokens if the state accepts."""
        key = self._keys.key_of(state)
        cached = self._find_walk(key)
        if cached is None:
            # Once for all parses: there may be very many, each of which reads the machine.
            if self._step_limit.start_counting():
                self._machine.parts.check_room()
            first, *others = [self.mask(parse)[1] for parse in parses]
            walk = self._walker.unite(first, others)
            if self._machine.is_accepting(state):
                walk = self._walker.with_ends(walk, self._ends)
            cached = self._remember(key, walk)
        cached.held.used = True
        return cached.held, cached.delta

    def _walk(self, state: State) -> KeptWalk:
        """Return the walk of a state, remembered by its key; its texts are not looked at.

        In order: a remembered walk, of this stack or of all; one made from that of the truncated
        stack; for an overlay, a correction of the walk of the row below; a walk of its own.
        """
        key = self._keys.key_of(state)
        anywhere = mask_key(_ANYWHERE, key.row, key.missing, key.left)
        # A walk that read no stack is the same in all, but this is only known afterwards.
        cached = self._find_walk(key) or self._find_walk(anywhere)
        if cached is not None:
            return cached
        # Where work is counted already, room was checked before that began.
        if not self._step_limit.is_counting:
            self._machine.parts.check_room()
        found = self._walk_truncated_stack(state, key)
        if found is not None:
            self._by_key[key] = found.held, found.uncertain
            return found
        below = self._keys.traits(state.row).overlaid_row
        base = None
        if below != DEAD:
            base = self._walk(self._machine.sharing.overlaid_state(state, below))
        walk = self._walker.walk(state, base)
        if self._machine.is_accepting(state):
            walk = self._walker.with_ends(walk, self._ends)
        elif walk.is_stack_independent:
            # Such a row has no exit action, so it accepts in no other stack either.
            key = anywhere
        return self._remember(key, walk)

    def _walk_truncated_stack(self, state: State, key: MaskKey) -> KeptWalk | None:
        """Return the walk of a state, made from that of its truncated stack, if it has one."""
        stack = self._machine.sharing.truncate(key.stack)
        if stack == key.stack:
            return None
        # Whether the text may end is cut off with the callers, so it is part of the key, in place
        # of ``left``: machines that truncate stacks count nothing.
        is_accepting = self._machine.is_accepting(state)
        short = mask_key(stack, key.row, key.missing, int(is_accepting))
        found = self._find_walk(short)
        if found is None:
            walk = self._walker.walk(state._replace(stack=stack), is_truncated=True)
            if is_accepting:
                walk = self._walker.with_ends(walk, self._ends)
            found = self._remember(short, walk)
        if not len(found.uncertain):
            return found
        walk = self._walker.complete(found, state)
        held, delta = self._keep(walk)
        return KeptWalk(held, delta, walk.uncertain)

    def _find_repeating_tokens(self, state: State) -> list[int]:
        """Return the tokens that would close the free key being written as one already taken.

        Walks let its closing quote pass (see ``machine_kernels.enter_row``), so these are forbidden
        afterwards, with all longer tokens that begin with one of them.

        The key is the last text of the state. As texts are not in the key of a walk, what is found
        here is never remembered with one. Empty if no free key is being written.
        """
        parts, trie = self._machine.parts, self._walker.trie
        if not parts.table.is_key(state.row):
            return []
        tokens: list[int] = []
        written = state.texts[-1]
        for key in parts.stacks.additional_names(state.stack):
            if key.startswith(written):
                node = trie.find(key[len(written) :] + b'"')
                if node is not None:
                    tokens += trie.tokens_below(node).tolist()
        return tokens
