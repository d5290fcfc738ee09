"""Masks of the states of one machine, made from what other states have made already.

A mask is made from the first of these that there is::

    the mask of the same key                              (stack, row, code points missing and left)
    the mask of the row, if it depends on no stack        (ANYWHERE, row, ...)
    the mask of a truncated stack, completed for this     grammars: few callers matter to tokens
    the mask of the row below, corrected                  names of members over any name
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
from guided.masks.mask_keys import MaskKey, MaskKeys
from guided.masks.mask_store import MaskStore
from guided.masks.walk import KeptWalk, Walk
from guided.masks.walker import Walker
from guided.runtime.fuel import LimitedSteps

__all__ = ["StateMasks"]

_ANYWHERE: Final = -1
"""In place of the stack, in keys of walks that are the same in all stacks."""
_TRUNCATED_DEPTHS: Final = (0, 2)
"""Callers that are known at first, and if that leaves tokens uncertain: knowing more callers
leaves fewer tokens uncertain, and makes fewer states the same."""


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
        stepping: LimitedSteps,
    ) -> None:
        """``ends`` are the tokens that end a text; ``stepping`` limits the work of one mask."""
        self._machine = machine
        self._walker = walker
        self._keys = keys
        self._store = store
        self._ends = ends
        self._stepping = stepping
        self._by_key: dict[MaskKey, tuple[HeldMask, NDArray[np.int32]]] = {}
        """Walks, with the sites whose tokens the mask leaves out as uncertain."""
        self._covered: set[int] = set()
        """Rows whose walk is that of the row that they were laid over."""

    def clear(self) -> None:
        """Forget all walks; their masks live on in the store while positions hold them.

        ``_covered`` stays: it is about rows, which never change.
        """
        self._by_key.clear()

    def mask(self, state: State) -> tuple[HeldMask, MaskDelta]:
        """Return the tokens that may follow a state, and where the mask is held.

        End-of-sequence tokens are among them where the state accepts. Raises LimitExceededError
        if the machine is too full to make another mask.
        """
        parses = self._machine.sharing.parses(state)
        if parses:
            return self._joined(state, parses)
        # Which text a free key has so far matters to few tokens, so most states share a walk.
        walk = self._walked(state)
        repeating = self._repeating(state) if state.texts else []
        if repeating or len(walk.uncertain):
            return self._keep(self._walker.exact(walk, state, repeating))
        # Kept masks that are used again are not the ones that the store empties first.
        walk.held.used = True
        return walk.held, walk.delta

    def _keep(self, walk: Walk) -> tuple[HeldMask, MaskDelta]:
        return self._store.keep(walk.mask, walk.fingerprint, walk.base)

    def _known(self, key: MaskKey) -> KeptWalk | None:
        """Return the walk of a key, where its mask is still held."""
        known = self._by_key.get(key)
        if known is None or (delta := known[0].delta) is None:
            return None
        return KeptWalk(known[0], delta, known[1])

    def _remembered(self, key: MaskKey, walk: Walk) -> KeptWalk:
        """Remember a walk by a key, and return it."""
        held, delta = self._keep(walk)
        self._by_key[key] = held, walk.uncertain
        return KeptWalk(held, delta, walk.uncertain)

    def _joined(self, state: State, parses: tuple[State, ...]) -> tuple[HeldMask, MaskDelta]:
        """Return the tokens after any parse of a state, and end tokens if the state accepts."""
        key = self._keys.of(state)
        known = self._known(key)
        if known is None:
            # Once for all parses: there may be very many, each of which reads the machine.
            if self._stepping.begin():
                self._machine.parts.check_room()
            (first, delta), *others = [self.mask(parse) for parse in parses]
            walk = self._walker.joined(delta, first.fingerprint, [delta for _, delta in others])
            if self._machine.is_accepting(state):
                walk = self._walker.with_ends(walk, self._ends)
            known = self._remembered(key, walk)
        known.held.used = True
        return known.held, known.delta

    def _walked(self, state: State) -> KeptWalk:
        """Return the walk of a state, remembered by its key; its texts are not looked at.

        In order: a known walk, of this stack or of all; one made from those of truncated stacks; a
        correction of the walk of the row that the row was laid over; a walk of its own.
        """
        walker, row = self._walker, state.row
        if row in self._covered:
            return self._walked_below(state)
        key = self._keys.of(state)
        anywhere = MaskKey(_ANYWHERE, row, key.missing, key.left)
        # A walk that looked at no stack is the same in all, but this is only known afterwards.
        known = self._known(key) or self._known(anywhere)
        if known is not None:
            return known
        if not self._stepping.has_begun:
            self._machine.parts.check_room()
        found = self._walked_truncated(state, key)
        if found is not None:
            self._by_key[key] = found.held, found.uncertain
            return found
        if self._keys.traits(row).like != DEAD:
            base = self._walked_below(state)
            walk = walker.walk(state, base)
            # ``is_local`` of a correction says that no word changed and no stack was looked at.
            if walk.is_local:
                # Nothing of the mask below changed, and nothing will in any stack.
                self._covered.add(row)
                return base
        else:
            walk = walker.walk(state)
        if self._machine.is_accepting(state):
            walk = walker.with_ends(walk, self._ends)
        elif walk.is_local:
            key = anywhere
        return self._remembered(key, walk)

    def _walked_below(self, state: State) -> KeptWalk:
        """Return the walk of the row below the state's row."""
        below = self._keys.traits(state.row).like
        return self._walked(self._machine.sharing.beneath(state, below))

    def _walked_truncated(self, state: State, key: MaskKey) -> KeptWalk | None:
        """Return the walk of a state made from its truncated stacks' walks, enough for most tokens.

        ``None`` if its stack has none. If texts may end, truncated stacks have separate keys.
        """
        found, is_accepting = None, False
        for depth in _TRUNCATED_DEPTHS:
            stack = self._machine.sharing.truncated(key.stack, depth)
            if stack == key.stack:
                break
            if found is None:
                # Whether the text may end is cut off with the callers, so it is part of the key.
                is_accepting = self._machine.is_accepting(state)
            short = MaskKey(stack, key.row, key.missing, int(is_accepting))
            known = self._known(short)
            if known is None:
                truncated = state._replace(stack=stack)
                walk = self._walk_truncated(truncated, found, is_accepting)
                known = self._remembered(short, walk)
            found = known
            if not len(found.uncertain):
                return found
        if found is None:
            return None
        walk = self._walker.completed(found, state)
        return KeptWalk(*self._keep(walk), walk.uncertain)

    def _walk_truncated(self, state: State, shorter: KeptWalk | None, is_accepting: bool) -> Walk:
        """Return the walk of a truncated stack, made from ``shorter`` (fewer callers), if given."""
        if shorter is not None:
            return self._walker.completed(shorter, state, is_truncated=True)
        walk = self._walker.walk(state, is_truncated=True)
        return self._walker.with_ends(walk, self._ends) if is_accepting else walk

    def _repeating(self, state: State) -> list[int]:
        """Return the tokens that would close the free key being written as one already taken.

        Walks let its closing quote pass (see ``machine_kernels.entered``), so these are forbidden
        afterwards, with all longer tokens that begin with one of them.

        The key is the last text of the state. As texts are not in the key of a walk, what is found
        here is never remembered with one. Empty if no free key is being written.
        """
        parts, trie = self._machine.parts, self._walker.trie
        if not parts.table.is_key(state.row):
            return []
        tokens: list[int] = []
        begun = state.texts[-1]
        for key in parts.stacks.free_keys(state.stack):
            if key.startswith(begun):
                node = trie.find(key[len(begun) :] + b'"')
                if node is not None:
                    tokens += trie.tokens_below(node).tolist()
        return tokens
