"""Which tokens may follow a state of a machine: its walk over the trie of a vocabulary.

One depth-first pass finds for every token whether all its bytes may follow. A byte that is not
allowed skips the whole subtree below it (``resolved_walks``). This module decides which part of the
trie has to be walked. Rows inside a string share the part of the mask that lies in their automaton
(see ``independent``), and overlays correct the mask of the row that they are laid over. For what
each short-cut gains, see docs/decisions/0014-mask-shortcuts.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State
from guided.machine.table import NO_BOUND
from guided.masks.independent import IndependentMask, IndependentMasks
from guided.masks.mask import allowed
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_kernels import clear_tokens, set_tokens
from guided.masks.mask_keys import MaskKeys, RowTraits
from guided.masks.outline import Outline
from guided.masks.packed import PackedMachine, Scratch
from guided.masks.resolved_walks import NOTHING_UNCERTAIN, ResolvedWalks
from guided.masks.trie import BYTE, DEPTH
from guided.masks.vocabulary import TokenTexts
from guided.masks.walk import KeptWalk, Walk
from guided.masks.walk_kernels import AT_NODE
from guided.runtime.per_thread import PerThread

__all__ = ["Walker"]

_NO_ROWS = _NO_TOKENS = np.empty(0, dtype=np.int32)
_NO_CHANGES: Final = np.empty((0, 2), dtype=np.int32)
_ROOT: Final = 0


class Walker:
    """Walks one machine over one vocabulary.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``.

    Its parts belong together, which nothing checks: ``texts``, ``independent`` and ``scratch`` are
    for one trie, ``packed`` and ``keys`` for ``machine``.
    """

    def __init__(
        self,
        machine: Recognizer,
        packed: PackedMachine,
        keys: MaskKeys,
        texts: TokenTexts,
        independent: IndependentMasks,
        scratch: PerThread[Scratch],
    ) -> None:
        self.machine = machine
        self.packed = packed
        self.keys = keys
        self.trie = independent.trie
        self._texts = texts
        self._independent = independent
        self._scratch = scratch
        # Walks that begin with no tokens, at any node and at the root.
        self._no_tokens = independent.nothing
        self._no_tokens_at_root = self._no_tokens_at(_ROOT)
        self._walks = ResolvedWalks(packed, self.trie, scratch)

    def walk(
        self, state: State, base: KeptWalk | None = None, *, is_truncated: bool = False
    ) -> Walk:
        """Try all tokens on ``state``; for an overlay, ``base`` is the walk of the row below.

        Texts of the state are not looked at, and the caller adds end-of-sequence tokens
        (``with_ends``). ``is_truncated`` says that ``StateSharing.truncate`` returned its stack.
        May raise LimitExceededError when the machine is full.
        """
        traits = self.keys.traits(state.row)
        if base is not None:
            return self._walks.correct(base, state, traits.overlaid_row)
        walk, num_deferred = self._walk_below(_ROOT, state, is_truncated, traits)
        return self._with_deferred(walk, num_deferred, is_truncated)

    def _has_independent_mask(self, outline: Outline | None, stack: int) -> bool:
        """Return whether a row in this stack has a context-independent mask.

        ``outline`` is that of the row. In a rare key the row has such a mask only if more names are
        left than the object may have taken.

        The result may differ for the same row in another stack, so a walk that relies on it is
        ``for_one_stack``.
        """
        if outline is None:
            return False
        if outline.min_names_left == NO_BOUND:
            return True
        return outline.min_names_left > self.machine.parts.stacks.max_names_taken(stack)

    def _walk_below(
        self,
        node: int,
        state: State,
        is_truncated: bool,
        traits: RowTraits,
        into: Walk | None = None,
    ) -> tuple[Walk, int]:
        """Return the walk of a state below the node at which it stands, joined to ``into``, if any.

        ``traits`` are those of the state's row. Also returns how many nodes the walk deferred.

        The result's mask is scratch memory, as that of ``into`` is: with ``into`` the tokens are
        added to those already there.
        """
        outline = traits.outline
        if outline is None or not self._has_independent_mask(outline, state.stack):
            nothing = self._no_tokens_at(node) if node else self._no_tokens_at_root
            return self._walk_sites(nothing, state, is_truncated, _NO_ROWS, 0, 0, into)
        mask = self._independent.get(self.packed.current(), state.row, outline, node)
        missing, left = traits.low - state.count, traits.high - state.count
        walk, num_deferred = self._walk_sites(
            mask, state, is_truncated, outline.closing_rows, missing, left, into
        )
        # Names that are left in this stack may not be left in others.
        if outline.min_names_left != NO_BOUND:
            walk = walk.for_one_stack()
        return walk, num_deferred

    def _no_tokens_at(self, node: int) -> IndependentMask:
        """Return the mask of no tokens, with one site: a node at which the walk's state stands.

        The mask is that of ``IndependentMasks.nothing``, which all walks share.
        """
        sites = np.array([[node, 0, 0, AT_NODE]], dtype=np.int32)
        return self._no_tokens._replace(sites=sites)

    def _walk_sites(
        self,
        mask: IndependentMask,
        state: State,
        is_truncated: bool,
        closing_rows: NDArray[np.int32],
        missing: int,
        left: int,
        into: Walk | None = None,
    ) -> tuple[Walk, int]:
        """Return the walk of a context-independent mask: its tokens, and those below its sites.

        With ``into`` it is joined to that walk, whose mask is the memory that walks work in, and is
        overwritten. ``closing_rows``, ``missing`` and ``left`` are explained at ``walk_sites``;
        ``closing_rows`` are the rows that the sites of ``mask`` name, empty if they name none.
        Also returns how many nodes the walk deferred.
        """
        base = mask.mask_within(left)
        # The memory of ``into`` is that of this walk.
        first = base if into is None else np.bitwise_or(into.mask, base, out=into.mask)
        walk, num_deferred = self._walks.walk_below_sites(
            MaskDelta(first, _NO_CHANGES),
            base,
            state,
            is_truncated,
            mask.sites,
            closing_rows,
            missing,
            left,
        )
        return walk if into is None else walk.join_to(into), num_deferred

    def _with_deferred(self, walk: Walk, num_deferred: int, is_truncated: bool) -> Walk:
        """Return the walk with what is allowed below the nodes that it deferred.

        None of the nodes is below another, so the order in which they are walked does not matter.
        A loop, as in a long token one may be deferred below another for every string.
        """
        deferred = self._read_deferred(num_deferred)
        while deferred:
            node, stack, row, count = deferred.pop()
            after = State(stack, row, count)
            traits = self.keys.traits(after.row)
            walk, num_deferred = self._walk_below(node, after, is_truncated, traits, walk)
            deferred += self._read_deferred(num_deferred)
        return walk

    def _read_deferred(self, num_deferred: int) -> list[list[int]]:
        """Return the nodes that the last walk deferred, and the state at each.

        To be called before the next walk, which uses the same memory.
        """
        return self._scratch.get().deferred[:num_deferred].tolist() if num_deferred else []

    def complete(self, walk: KeptWalk, state: State) -> Walk:
        """Return the walk of a truncated stack, completed by trying uncertain sites on ``state``.

        ``state`` must have the row of the state that was walked, and its stack must be one that the
        truncated one stands for.
        """
        delta, sites = walk.delta, walk.uncertain
        # Bounds of 0 let all sites pass: an uncertain site counts no code points.
        found, num_deferred = self._walks.walk_below_sites(
            delta, delta.base, state, False, sites, _NO_ROWS, 0, 0
        )
        return self._with_deferred(found, num_deferred, False)

    def tokens_below(self, node: int, state: State) -> NDArray[np.int32]:
        """Return the tokens below a node that may, or might, follow ``state``, which stands at it.

        Tokens of the node itself are left out. Uncertain tokens may be returned that may not
        follow; none that may follow is left out.
        """
        found = self._walk_sites(self._no_tokens_at(node), state, False, _NO_ROWS, 0, 0)
        walk = self._with_deferred(*found, False)
        tokens = allowed(walk.mask, self.trie.tokens_below(node))
        if not len(walk.uncertain):
            return tokens
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        return np.concatenate([tokens, *below])

    def make_exact(self, walk: KeptWalk, state: State, forbidden: list[int]) -> Walk:
        """Return the walk with nothing left uncertain, and without the ``forbidden`` tokens.

        Tokens of uncertain sites are tried one by one on the state; see ``_try_uncertain``. The
        walk of another state may have set them, so all are cleared before those that fit are set.
        """
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        allowed_tokens = self._try_uncertain(state, walk.uncertain)
        words = self._scratch.get().words
        walk.delta.fill(words)
        clear_tokens(np.array(forbidden, dtype=np.int32), words)
        clear_tokens(np.concatenate([_NO_TOKENS, *below]), words)
        set_tokens(allowed_tokens, words)
        return Walk(words, walk.delta.base, NOTHING_UNCERTAIN)

    def unite(self, first: MaskDelta, others: Iterable[MaskDelta]) -> Walk:
        """Return the union of masks as a walk, in which nothing is uncertain."""
        words = self._scratch.get().words
        first.fill(words)
        for other in others:
            words |= other.mask()
        return Walk(words, first.base, NOTHING_UNCERTAIN)

    def with_ends(self, walk: Walk, ends: NDArray[np.int32]) -> Walk:
        """Return the walk with the tokens that end the text, set in the mask of ``walk`` itself."""
        set_tokens(ends, walk.mask)
        return walk

    def _try_uncertain(self, state: State, uncertain: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the tokens of uncertain sites that may follow the exact state.

        ``uncertain`` is ``Walk.uncertain`` of a whole stack; only its nodes are read. Their tokens
        are read byte by byte down the trie, so that common beginnings are tried once.

        Where one site is below another, its tokens come twice. The machine itself reads each byte,
        so the result is exact whatever the walk assumed.
        """
        # ``advance`` makes the machine work without ``packed``, which has to be told.
        self.packed.begin_work()
        nodes, machine = self.trie.nodes, self.machine
        reached: dict[bytes, State | None] = {b"": state}
        found = [_NO_TOKENS]
        for top in uncertain[:, 0].tolist():
            # The stack is not truncated, so no site stands for the children of a node: each is
            # recorded itself, and the root is no child.
            assert top != _ROOT, "the root is uncertain"
            text = self._texts.token_bytes[self.trie.tokens_below(top)[0]]
            assert text is not None, top  # the trie has no other tokens
            # Up to the last byte of the site, which the loop tries with those below it.
            before = self._state_after(text[: nodes[top, DEPTH] - 1], reached)
            worklist = [] if before is None else [(top, before)]
            while worklist:
                node, current = worklist.pop()
                after = machine.advance(current, bytes((nodes[node, BYTE],)))
                if after is None:
                    continue
                found.append(self.trie.tokens_of(node))
                worklist += [(child, after) for child in self.trie.children(node)]
        return np.concatenate(found)

    def _state_after(self, text: bytes, reached: dict[bytes, State | None]) -> State | None:
        """Return the state after a text, or ``None``; ``reached`` is a cache with at least b""."""
        known = len(text)
        while text[:known] not in reached:
            known -= 1
        state = reached[text[:known]]
        for end in range(known + 1, len(text) + 1):
            state = None if state is None else self.machine.advance(state, text[end - 1 : end])
            reached[text[:end]] = state
        return state
