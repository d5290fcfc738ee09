"""Which tokens may follow a state of a recogniser: its walk over the trie of a vocabulary.

One depth-first pass tells for every token whether all its bytes may follow. A byte that is not
allowed skips the whole subtree below it. Where the walk comes to a joint that was never resolved it
stops, Python resolves it, and the walk goes on from the same node; so each joint costs Python once
in the life of a recogniser. Two kinds of rows have short cuts: those inside a string share the part
of the mask that lies in their block (see ``inner``), and those that are all but equal to another
row correct its mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.recognizer.json_machine import JsonMachine, State
from guided.recognizer.table import DEAD, IN_KEY, IN_RARE_KEY, NO_GATE
from guided.tokens.inner import InnerMasks
from guided.tokens.mask import Mask, allowed, clear, with_tokens
from guided.tokens.outline import Outline, outline_of
from guided.tokens.packed import PackedMachine
from guided.tokens.scratch import SCRATCH
from guided.tokens.steps import (
    ALIVE,
    DIES,
    FINISHED,
    JOINT_MISSING,
    NOWHERE,
    PLACES_FULL,
    correct_mask,
    take_token,
    walk_nodes,
    walk_places,
)
from guided.tokens.texts import TokenTexts
from guided.tokens.trie import BYTE, DEPTH, END, FIRST_TOKEN, TokenTrie

__all__ = ["Place", "Walk", "Walker"]

_STATE_ITSELF = np.array([[0, 0, 0, DEAD]], dtype=np.int32)
_NO_ROWS = np.empty(0, dtype=np.int32)
_NOTHING_UNCERTAIN = np.empty(0, dtype=np.int32)
_UNCOUNTED = 2**32
_IN_KEY_BEFORE = -2
"""In place of where a key begins in a token: it began before it."""


Place: TypeAlias = tuple[int, int, int, int]


class _RowTraits(NamedTuple):
    """What walks from a row have to know of it, as plain Python values."""

    is_key: bool
    """Whether it is inside of a free key."""
    low: int
    high: int
    """The bounds that it counts against; ``high`` is ``_UNCOUNTED`` where it counts nothing."""
    like: int
    """The row whose mask it corrects, DEAD for none."""
    outline: Outline | None
    most: int
    """The greatest count of its inner mask."""


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """What a walk found."""

    mask: Mask
    """Tokens all of whose bytes may follow; nothing is said of the uncertain ones."""
    uncertain: NDArray[np.int32]
    """Nodes whose tokens, those below included, have to be tried on the exact state."""


class Walker:
    """Walks one recogniser over one vocabulary. Not thread-safe: the recogniser may grow."""

    def __init__(
        self,
        machine: JsonMachine,
        texts: TokenTexts,
        trie: TokenTrie,
        inner: InnerMasks,
    ) -> None:
        self.machine = machine
        self.trie = trie
        self._texts = texts
        self._inner = inner
        self._packed = PackedMachine(machine, texts.quoted)
        self._row_traits: dict[int, _RowTraits] = {}

    # --- places ---------------------------------------------------------------------------

    def place(self, state: State) -> Place:
        """What the walk of a state depends on; states with equal places have equal masks.

        Context, row, and code points missing and left, inside of a string as far as tokens reach.
        """
        context, row, count, _ = state
        traits = self._traits(row)
        if traits.high == _UNCOUNTED:
            return context, row, 0, 0
        missing, left = traits.low - count, traits.high - count
        if traits.outline is not None:
            missing, left = min(max(missing, 0), traits.most + 1), min(left, traits.most)
        return context, row, missing, left

    def _traits(self, row: int) -> _RowTraits:
        traits = self._row_traits.get(row)
        if traits is None:
            table = self.machine.table
            gate = int(table.gate[row])
            low, high = (0, _UNCOUNTED) if gate == NO_GATE else table.gates[gate].tolist()
            is_key = bool(table.role[row] in (IN_KEY, IN_RARE_KEY))
            like = int(table.like[row])
            outline, most = None, 0
            if like == DEAD:
                arrays = self._packed.current()
                outline = outline_of(arrays, row)
                if outline is not None and high != _UNCOUNTED:
                    most = self._inner.get(arrays, row, outline).most
            traits = _RowTraits(is_key, low, high, like, outline, most)
            self._row_traits[row] = traits
        return traits

    # --- masks ----------------------------------------------------------------------------

    def walk(self, state: State) -> Walk:
        """Try all tokens on ``state``. May raise LimitExceededError when the machine is full."""
        traits = self._traits(state.row)
        if traits.outline is not None and self._names_left(state.context, traits.outline):
            return self._walk_sites(state, traits, traits.outline)
        if traits.like != DEAD:
            return self._corrected(state, traits.like)
        return self.walk_below(0, state)

    def _names_left(self, context: int, outline: Outline) -> bool:
        """Whether names are left wherever rows of an outline lead."""
        return outline.fewest > int(self.machine.contexts.taken[context])

    def walk_below(self, node: int, state: State) -> Walk:
        """Try the tokens below a node on ``state``, which stands where its bytes were read."""
        mask = np.zeros(self.trie.words, dtype=np.int32)
        sites = np.array([[node, 0, 0, DEAD]], dtype=np.int32) if node else _STATE_ITSELF
        return Walk(mask, self._run(mask, sites, state, _NO_ROWS, 0, 0))

    def _walk_sites(self, state: State, traits: _RowTraits, outline: Outline) -> Walk:
        inner = self._inner.get(self._packed.current(), state.row, outline)
        missing, left = traits.low - state.count, traits.high - state.count
        mask = inner.mask_within(left).copy()
        return Walk(mask, self._run(mask, inner.sites, state, outline.closings, missing, left))

    def _run(
        self,
        mask: Mask,
        sites: NDArray[np.int32],
        state: State,
        closings: NDArray[np.int32],
        missing: int,
        left: int,
    ) -> NDArray[np.int32]:
        """Set the bits below the sites; returns the uncertain tokens."""
        key_context = self._key_context(state)
        scratch = SCRATCH.stack(self.trie.longest)
        uncertain = SCRATCH.nodes(len(self.trie))
        begin = (state.context, state.row, state.count, 0)
        scratch[:2] = (0, DEAD, 0, 0), begin
        while True:
            status = walk_nodes(
                self.trie.nodes,
                self.trie.token_ids,
                sites,
                self._packed.current(),
                key_context,
                closings,
                missing,
                left,
                scratch,
                mask,
                uncertain,
            )
            if status == FINISHED:
                return self._found(scratch, uncertain)
            self._resolve(scratch)

    def _corrected(self, state: State, like: int) -> Walk:
        """The walk of a row out of that of the row which it is all but equal to."""
        base = self.walk(state._replace(row=like))
        scratch = SCRATCH.stack(self.trie.longest)
        uncertain = SCRATCH.nodes(len(self.trie))
        key_context = self._key_context(state)
        scratch[:2] = (0, DEAD, 0, 0), (state.context, state.row, state.count, 0)
        while True:
            status = correct_mask(
                self.trie.nodes,
                self.trie.token_ids,
                self._packed.current(),
                key_context,
                like,
                scratch,
                base.mask,
                uncertain,
            )
            if status == FINISHED:
                break
            self._resolve(scratch)
        found = self._found(scratch, uncertain)
        return Walk(base.mask, np.concatenate([base.uncertain, found]))

    def _key_context(self, state: State) -> int:
        """The context in which a key is being written, whose closing quote walks let pass."""
        return state.context if self._traits(state.row).is_key else NOWHERE

    def _found(self, scratch: NDArray[np.int64], uncertain: NDArray[np.int32]) -> NDArray[np.int32]:
        count = scratch[0, 2]
        return uncertain[:count].copy() if count else _NOTHING_UNCERTAIN

    def _resolve(self, scratch: NDArray[np.int64]) -> None:
        """Resolve the joint that a walk stopped for."""
        self.machine.remember_joint(int(scratch[0, 3]), int(scratch[1, 3]))

    def tokens_below(self, node: int, state: State) -> NDArray[np.int32]:
        """The tokens below a node that may, or might, follow ``state``."""
        walk = self.walk_below(node, state)
        tokens = self.trie.tokens_below(node)
        below = [self.trie.tokens_below(uncertain) for uncertain in walk.uncertain.tolist()]
        return np.concatenate([tokens[allowed(walk.mask, tokens)], *below])

    def decide(self, mask: Mask, state: State, uncertain: NDArray[np.int32]) -> None:
        """Try the tokens of uncertain nodes and below on the exact state; sets or clears each bit.

        Byte by byte down the trie, so that what tokens begin with in common is tried once.
        """
        nodes, machine = self.trie.nodes, self.machine
        reached: dict[bytes, State | None] = {b"": state}
        for top in uncertain.tolist():
            below = self.trie.tokens_below(top)
            clear(mask, below.tolist())
            text = self._texts.token_bytes[below[0]]
            assert text is not None, top
            before = self._reached(text[: nodes[top, DEPTH] - 1], reached)
            waiting = [] if before is None else [(top, before)]
            while waiting:
                node, current = waiting.pop()
                behind = machine.step(current, int(nodes[node, BYTE]))
                if behind is None:
                    continue
                first, last = int(nodes[node, FIRST_TOKEN]), int(nodes[node + 1, FIRST_TOKEN])
                with_tokens(mask, self.trie.token_ids[first:last].tolist())
                child = node + 1
                while child < nodes[node, END]:
                    waiting.append((child, behind))
                    child = int(nodes[child, END])

    def _reached(self, text: bytes, reached: dict[bytes, State | None]) -> State | None:
        if text not in reached:
            before = self._reached(text[:-1], reached)
            reached[text] = None if before is None else self.machine.step(before, text[-1])
        return reached[text]

    # --- single tokens --------------------------------------------------------------------

    def advance(self, state: State, token: int) -> State | None:
        """The exact state behind a token, ``None`` where it is not allowed."""
        context, row, count, texts = state
        text = self._texts.token_bytes[token]
        if text is None:
            return None
        begun = _IN_KEY_BEFORE if texts else NOWHERE
        if texts and (self.machine.contexts.depths[context] or not self._traits(row).is_key):
            return self.machine.advance(state, text)
        first, last = self._texts.bounds[token], self._texts.bounds[token + 1]
        while True:
            status, reached, target, counted, key = take_token(
                self._texts.joined, first, last, context, row, count, begun, self._packed.current()
            )
            if status == ALIVE and key == NOWHERE:
                return State(reached, target, counted)
            if status == ALIVE:
                written = texts[0] + text if key == _IN_KEY_BEFORE else text[key - first :]
                return State(reached, target, counted, (written,))
            if status == DIES:
                return None
            if status != JOINT_MISSING:
                return self.machine.advance(state, text)
            self.machine.remember_joint(reached, target)

    def by_place(self, state: State, tokens: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The tokens, all of them allowed, sorted by where they lead; end tokens are left out.

        Those of one group lead to the same context, row and count; their texts may differ.
        """
        slots = self._slots(state)[tokens]
        known = slots != NOWHERE
        order = np.argsort(slots[known], kind="stable")
        places, firsts = np.unique(slots[known][order], return_index=True)
        if len(places):
            yield from np.split(tokens[known][order], firsts[1:])
        groups: dict[tuple[int, int, int], list[int]] = {}
        for token in tokens[~known].tolist():
            reached = self.advance(state, token)
            if reached is not None:
                groups.setdefault(reached[:3], []).append(token)
        yield from (np.array(group) for group in groups.values())

    def _slots(self, state: State) -> NDArray[np.int32]:
        """By token a number for the place that it leads to, NOWHERE where a walk cannot tell."""
        of_token = np.full(self.trie.vocabulary_size, NOWHERE, dtype=np.int32)
        slots = 1024
        while True:
            scratch = SCRATCH.stack(self.trie.longest)
            places = np.full((slots, 3), NOWHERE, dtype=np.int64)
            scratch[:2] = (0, DEAD, 0, 0), (state.context, state.row, state.count, 0)
            status = walk_places(
                self.trie.nodes,
                self.trie.token_ids,
                self._packed.current(),
                self._key_context(state),
                scratch,
                of_token,
                places,
            )
            if status == FINISHED:
                return of_token
            if status == PLACES_FULL:
                slots *= 4
            else:
                self._resolve(scratch)
