"""Which tokens may follow a state of a recogniser: its walk over the trie of a vocabulary.

One depth-first pass tells for every token whether all its bytes may follow. A byte that is not
allowed skips the whole subtree below it. Where the walk comes to a transition that was never
resolved it stops, Python resolves it, and the walk goes on from the same node; so each transition
costs Python once in the life of a recogniser. Three kinds of rows have short cuts: those inside a
string share the part of the mask that lies in their block (see ``inner``), those where white space
may stand share the tokens of white space (see ``blank``), and those that are all but equal to
another row correct its mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State, state_of
from guided.machine.table import DEAD, NO_BOUND
from guided.masks.inner import InnerMask, InnerMasks
from guided.masks.inner_kernels import MAX_COUNT
from guided.masks.mask import Mask, allowed, tokens_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.outline import NO_HORIZON, Outline
from guided.masks.packed import PackedMachine
from guided.masks.row_traits import COUNTS_NOTHING, RowTraits, row_traits
from guided.masks.scratch import Scratch
from guided.masks.steps import (
    ALIVE,
    BELOW,
    DIES,
    ELSEWHERE,
    FINISHED,
    ITSELF,
    NOWHERE,
    PLACES_FULL,
    UNRESOLVED,
    clear_tokens,
    correct_mask,
    follow_only,
    set_tokens,
    take_token,
    walk_places,
    walk_sites,
)
from guided.masks.texts import TokenTexts
from guided.masks.trie import BYTE, DEPTH, TokenTrie
from guided.runtime.addresses import addresses_of

__all__ = ["KeptWalk", "Place", "Walk", "Walker"]

_NO_ROWS = _NO_TOKENS = np.empty(0, dtype=np.int32)
_NOTHING_UNCERTAIN: Final = np.empty((0, 4), dtype=np.int32)
_NO_CHANGES: Final = np.empty((0, 2), dtype=np.int32)
_ROOT: Final = 0
_IN_KEY_BEFORE: Final = -2
"""In place of where a key begins in a token: it began before it."""


Place: TypeAlias = tuple[int, int, int, int]


class Walk:
    """What a walk found."""

    __slots__ = ("base", "fingerprint", "is_local", "mask", "uncertain")

    def __init__(
        self,
        mask: Mask,
        base: Mask,
        fingerprint: int,
        uncertain: NDArray[np.int32],
        is_local: bool = False,
    ) -> None:
        self.mask: Final = mask
        """Tokens all of whose bytes may follow; nothing is said of the uncertain ones. Of the walk
        made last in a thread: another one writes over it."""
        self.base: Final = base
        """A mask that it hardly differs from, and that never changes."""
        self.fingerprint: Final = fingerprint
        """A number that equal masks mostly share, and different ones hardly ever."""
        self.uncertain: Final = uncertain
        """Sites whose tokens have to be tried on the exact state, as ``walk_sites`` takes them.

        Of no top they are nodes whose own tokens and those below are uncertain.
        """
        self.is_local: Final = is_local
        """Whether it is the same in all stacks; of a row that is like another one, whether the
        walk of that one stays as it is."""

    def kept(self, delta: MaskDelta) -> KeptWalk:
        """The walk with its mask where it is kept."""
        return KeptWalk(delta, self.fingerprint, self.uncertain)

    def for_one_stack(self) -> Walk:
        """The walk, not to be taken for the same in all stacks."""
        return Walk(self.mask, self.base, self.fingerprint, self.uncertain)

    def behind(self, first: Walk) -> Walk:
        """The walk as that of two parts, of which this one's mask has both."""
        return Walk(
            self.mask,
            first.base,
            first.fingerprint ^ self.fingerprint,
            np.concatenate([first.uncertain, self.uncertain]),
            first.is_local and self.is_local,
        )


class KeptWalk:
    """A walk whose mask is kept."""

    __slots__ = ("delta", "fingerprint", "uncertain")

    def __init__(self, delta: MaskDelta, fingerprint: int, uncertain: NDArray[np.int32]) -> None:
        self.delta: Final = delta
        self.fingerprint: Final = fingerprint
        self.uncertain: Final = uncertain


class Walker:
    """Walks one recogniser over one vocabulary. Not thread-safe: the recogniser may grow."""

    def __init__(
        self,
        machine: Recognizer,
        texts: TokenTexts,
        trie: TokenTrie,
        inner: InnerMasks,
        blank: InnerMask,
        scratch: Scratch,
        before_work: Callable[[], object] = lambda: None,
    ) -> None:
        self.machine = machine
        self._before_work = before_work
        """Called before anything that the recogniser may have to work for."""
        self.trie = trie
        self._texts = texts
        self._inner = inner
        self._blank = blank
        self._scratch = scratch
        self._nothing = inner.nothing
        self._all = self._itself(_ROOT)
        self._trie = addresses_of(trie.arrays)
        self.packed = PackedMachine(machine, texts.quoted)
        self._row_traits: dict[int, RowTraits] = {}

    # --- places ---------------------------------------------------------------------------

    def place(self, state: State) -> Place:
        """What the walk of a state depends on; states with equal places have equal masks.

        Stack, row, and code points missing and left, inside of a string as far as tokens reach.
        """
        stack, row, count, _ = state
        traits = self._row_traits.get(row) or self._traits(row)
        if traits.high == COUNTS_NOTHING:
            return stack, row, 0, 0
        missing, left = traits.low - count, traits.high - count
        if traits.outline is not None:
            missing, left = min(max(missing, 0), traits.most + 1), min(left, traits.most)
        return stack, row, missing, left

    def like(self, row: int) -> int:
        """The row whose mask that of a row is made from, DEAD for none."""
        return (self._row_traits.get(row) or self._traits(row)).like

    def is_key(self, row: int) -> bool:
        """Whether a row is inside of a free key."""
        return self._traits(row).is_key

    def _traits(self, row: int) -> RowTraits:
        traits = self._row_traits.get(row)
        if traits is None:
            arrays = self.packed.current()
            traits = row_traits(arrays, row, self.trie.longest)
            if traits.outline is not None and traits.high != COUNTS_NOTHING:
                most = MAX_COUNT  # what counts behind a horizon is not known
                if traits.outline.horizon == NO_HORIZON:
                    most = self._inner.get(arrays, row, traits.outline).most
                traits = traits.counting_to(most)
            self._row_traits[row] = traits
        return traits

    # --- masks ----------------------------------------------------------------------------

    def walk(self, state: State, base: KeptWalk | None = None, *, is_top: bool = False) -> Walk:
        """Try all tokens on ``state``; ``base`` is the walk of the row that it is ``like``.

        May raise LimitExceededError when the machine is full.
        """
        traits = self._row_traits.get(state.row) or self._traits(state.row)
        home = state.stack if is_top else NOWHERE
        if traits.is_blank:
            return self._from_sites(self._blank, state, home, _NO_ROWS, 0, 0)
        if base is None or self._shares(traits.outline, state.stack):
            return self._below(_ROOT, state, home, traits)
        walk = self._corrected(base, state, traits.like)
        return walk if traits.high == COUNTS_NOTHING else walk.for_one_stack()

    def _remember_transition(self, stack: int, label: int) -> None:
        self._before_work()
        self.machine.remember_transition(stack, label)

    def _shares(self, outline: Outline | None, stack: int) -> bool:
        """Whether a row has an inner mask: names are left wherever it leads."""
        if outline is None or outline.fewest == NO_BOUND:
            return outline is not None
        return outline.fewest > self.machine.stacks.taken(stack)

    def _below(
        self, node: int, state: State, home: int, traits: RowTraits, begun: Walk | None = None
    ) -> Walk:
        """What is allowed below a node, behind which the state is, added to what was ``begun``."""
        outline = traits.outline
        if outline is None or not self._shares(outline, state.stack):
            nothing = self._itself(node) if node else self._all
            return self._from_sites(nothing, state, home, _NO_ROWS, 0, 0, begun)
        like = None
        if traits.loop != DEAD and (other := self._traits(traits.loop).outline) is not None:
            like = traits.loop, other
        inner = self._inner.get(self.packed.current(), state.row, outline, node, like)
        missing, left = traits.low - state.count, traits.high - state.count
        walk = self._from_sites(inner, state, home, outline.closings, missing, left, begun)
        # Names that are left in this stack need not be left in others.
        return walk if outline.fewest == NO_BOUND else walk.for_one_stack()

    def _itself(self, node: int) -> InnerMask:
        """No tokens, and one site."""
        sites = np.array([[node, 0, 0, ITSELF]], dtype=np.int32)
        return self._nothing.at(sites)

    def _from_sites(
        self,
        inner: InnerMask,
        state: State,
        home: int,
        closings: NDArray[np.int32],
        missing: int,
        left: int,
        begun: Walk | None = None,
    ) -> Walk:
        """What is allowed inside of a block, with the tokens below the sites where it ends.

        Added to what was ``begun``, which lies in the memory that walks work in.
        """
        base, fingerprint = inner.mask_within(left)
        words = self._scratch.words
        first = base if begun is None else np.bitwise_or(begun.mask, base, out=words)
        found = self._walked(
            MaskDelta(first, _NO_CHANGES),
            base,
            fingerprint,
            state,
            home,
            inner.sites,
            closings,
            missing,
            left,
        )
        walk, put_off = found
        return self._with_put_off(walk if begun is None else walk.behind(begun), home, put_off)

    def _walked(
        self,
        first: MaskDelta,
        base: Mask,
        fingerprint: int,
        state: State,
        home: int,
        sites: NDArray[np.int32],
        closings: NDArray[np.int32],
        missing: int,
        left: int,
    ) -> tuple[Walk, int]:
        """What is allowed below the sites, added to the mask ``first``; see ``walk_sites``.

        And how many nodes were put off.
        """
        stack, row, count, _ = state
        scratch = self._scratch
        addresses = scratch.addresses
        again = False
        while True:
            status, doubts, change, at, label, put_off = walk_sites(
                self._trie,
                self.packed.addresses(),
                addresses,
                home,
                stack,
                row,
                count,
                first.base,
                first.changes,
                sites,
                closings,
                missing,
                left,
                again,
            )
            if status == FINISHED:
                break
            self._remember_transition(at, label)
            again = True
        uncertain = scratch.uncertain[:doubts].copy() if doubts else _NOTHING_UNCERTAIN
        return Walk(scratch.words, base, fingerprint ^ change, uncertain, not at), put_off

    def _with_put_off(self, walk: Walk, home: int, put_off: int) -> Walk:
        """The walk with what it came to and put off."""
        if put_off:
            for node, *there in self._scratch.put_off[:put_off].tolist():
                behind = State(*there)
                walk = self._below(node, behind, home, self._traits(behind.row), walk)
        return walk

    def _corrected(self, base: KeptWalk, state: State, like: int) -> Walk:
        """The walk of a row out of that of the row which it is all but equal to."""
        stack, row, count, _ = state
        scratch = self._scratch
        words, addresses = scratch.words, scratch.addresses
        again = False
        while True:
            status, doubts, change, at, label, _ = correct_mask(
                self._trie,
                self.packed.addresses(),
                addresses,
                stack,
                row,
                count,
                base.delta.base,
                base.delta.changes,
                like,
                again,
            )
            if status == FINISHED:
                uncertain = np.concatenate([base.uncertain, scratch.uncertain[:doubts]])
                return Walk(words, base.delta.base, base.fingerprint ^ change, uncertain, not at)
            self._remember_transition(at, label)
            again = True

    def completed(self, walk: KeptWalk, state: State, *, is_top: bool = False) -> Walk:
        """The walk of a state's top with what that left uncertain looked at on the state itself."""
        delta, sites = walk.delta, walk.uncertain
        home = ELSEWHERE if is_top else NOWHERE
        found, put_off = self._walked(
            delta, delta.base, walk.fingerprint, state, home, sites, _NO_ROWS, 0, 0
        )
        return self._with_put_off(found, home, put_off)

    def is_left_open(self, walk: KeptWalk) -> bool:
        """Whether all that is uncertain in a top is what comes behind its row."""
        sites = walk.uncertain
        return len(sites) == 1 and sites.item(0, 3) == BELOW and sites.item(0, 0) == _ROOT

    def going_on(self, own: KeptWalk, behind: KeptWalk) -> Walk:
        """The walk of a state out of what is certain in its top, and that of what comes behind."""
        words = self._scratch.words
        behind.delta.fill(words)
        np.bitwise_or(words, own.delta.mask(), out=words)
        base = own.delta.base
        if base is self._nothing.mask:
            base = behind.delta.base
        return Walk(words, base, own.fingerprint ^ behind.fingerprint, behind.uncertain)

    def tokens_below(self, node: int, state: State) -> NDArray[np.int32]:
        """The tokens below a node that may, or might, follow ``state``, which stands behind it."""
        walk = self._from_sites(self._itself(node), state, NOWHERE, _NO_ROWS, 0, 0)
        tokens = allowed(walk.mask, self.trie.tokens_below(node))
        if not len(walk.uncertain):
            return tokens
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        return np.concatenate([tokens, *below])

    def exact(self, walk: KeptWalk, state: State, forbidden: list[int]) -> Walk:
        """The walk with nothing uncertain any more, and without the ``forbidden`` tokens."""
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        settled = self._settled(state, walk.uncertain)
        words = self._scratch.words
        walk.delta.fill(words)
        fingerprint = walk.fingerprint
        fingerprint ^= clear_tokens(np.array(forbidden, dtype=np.int32), words)
        fingerprint ^= clear_tokens(np.concatenate([_NO_TOKENS, *below]), words)
        fingerprint ^= set_tokens(settled, words)
        return Walk(words, walk.delta.base, fingerprint, _NOTHING_UNCERTAIN)

    def joined(self, first: MaskDelta, fingerprint: int, others: Iterable[MaskDelta]) -> Walk:
        """The walk that allows what any of the masks does; nothing of it is uncertain."""
        words = self._scratch.words
        first.fill(words)
        for other in others:
            fingerprint ^= set_tokens(tokens_of(other.mask()).astype(np.int32), words)
        return Walk(words, first.base, fingerprint, _NOTHING_UNCERTAIN)

    def with_ends(self, walk: Walk, ends: NDArray[np.int32]) -> Walk:
        """The walk with tokens that end the text."""
        fingerprint = walk.fingerprint ^ set_tokens(ends, walk.mask)
        return Walk(walk.mask, walk.base, fingerprint, walk.uncertain, walk.is_local)

    def _settled(self, state: State, uncertain: NDArray[np.int32]) -> NDArray[np.int32]:
        """The tokens of uncertain sites that may follow the exact state.

        Byte by byte down the trie, so that what tokens begin with in common is tried once.
        """
        self._before_work()
        nodes, machine = self.trie.nodes, self.machine
        reached: dict[bytes, State | None] = {b"": state}
        found = [_NO_TOKENS]
        for top in uncertain[:, 0].tolist():
            text = self._texts.token_bytes[self.trie.tokens_below(top)[0]]
            assert text is not None, top
            before = self._reached(text[: nodes[top, DEPTH] - 1], reached)
            waiting = [] if before is None else [(top, before)]
            while waiting:
                node, current = waiting.pop()
                behind = machine.step(current, int(nodes[node, BYTE]))
                if behind is None:
                    continue
                found.append(self.trie.tokens_of(node))
                waiting += [(child, behind) for child in self.trie.children(node)]
        return np.concatenate(found)

    def _reached(self, text: bytes, reached: dict[bytes, State | None]) -> State | None:
        if text not in reached:
            before = self._reached(text[:-1], reached)
            reached[text] = None if before is None else self.machine.step(before, text[-1])
        return reached[text]

    # --- single tokens --------------------------------------------------------------------

    def advance(self, state: State, token: int) -> State | None:
        """The exact state behind a token, ``None`` where it is not allowed."""
        stack, row, count, texts = state
        text = self._texts.token_bytes[token]
        if text is None:
            return None
        begun = _IN_KEY_BEFORE if texts else NOWHERE
        if texts and (self.machine.stacks.depth(stack) or not self._traits(row).is_key):
            return self._advanced(state, text)
        first, last = self._texts.bounds[token], self._texts.bounds[token + 1]
        while True:
            status, reached, target, counted, key = take_token(
                self._texts.joined, first, last, stack, row, count, begun, self.packed.addresses()
            )
            if status == ALIVE and key == NOWHERE:
                return state_of(reached, target, counted)
            if status == ALIVE:
                written = texts[0] + text if key == _IN_KEY_BEFORE else text[key - first :]
                return state_of(reached, target, counted, (written,))
            if status == DIES:
                return None
            if status != UNRESOLVED:
                return self._advanced(state, text)
            self._remember_transition(reached, target)

    def only_way(self, state: State, most: int) -> tuple[bytes, list[State]]:
        """The bytes that have to follow, at most so many, and the state behind each.

        As far as compiled code can tell: there may be more where names or items must differ.
        """
        if state.texts:
            return b"", []
        forced, reached = np.empty(most, np.uint8), np.empty((most + 1, 3), np.int32)
        reached[0] = state[:3]
        size = 0
        while True:
            addresses = self.packed.addresses()
            status, size, at, label = follow_only(addresses, size, forced, reached)
            if status != UNRESOLVED:
                break
            self._remember_transition(at, label)
        behind = [state_of(*there) for there in reached[1 : size + 1].tolist()]
        return forced[:size].tobytes(), behind

    def _advanced(self, state: State, text: bytes) -> State | None:
        self._before_work()
        return self.machine.advance(state, text)

    def by_place(self, state: State, tokens: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The tokens, all of them allowed, sorted by where they lead; end tokens are left out.

        Those of one group lead to the same stack, row and count; their texts may differ.
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
            places = np.full((slots, 3), NOWHERE, dtype=np.int64)
            status, at, label = walk_places(
                self._trie,
                self.packed.addresses(),
                self._scratch.addresses,
                *state[:3],
                of_token,
                places,
            )
            if status == FINISHED:
                return of_token
            if status == PLACES_FULL:
                slots *= 4
            else:
                self._remember_transition(at, label)
