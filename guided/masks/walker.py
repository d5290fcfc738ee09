"""Which tokens may follow a state of a machine: its walk over the trie of a vocabulary.

One depth-first pass finds for every token whether all its bytes may follow. A byte that is not
allowed skips the whole subtree below it (``resolved_walks``). This module decides which part of the
trie has to be walked. Rows inside a string share the part of the mask that lies in their automaton
(see ``independent``), those where white space may stand share its tokens (see ``white_space``), and
rows that are laid over others correct the mask of those. For what each short-cut gains, see
docs/decisions/0014-mask-shortcuts.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import Recognizer, State
from guided.machine.table import NO_BOUND
from guided.masks.independent import IndependentMask, IndependentMasks
from guided.masks.machine_kernels import NOWHERE
from guided.masks.mask import allowed, tokens_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_kernels import clear_tokens, set_tokens
from guided.masks.mask_keys import COUNTS_NOTHING, MaskKeys, RowTraits
from guided.masks.outline import Outline
from guided.masks.packed import PackedMachine, Scratch
from guided.masks.resolved_walks import NOTHING_UNCERTAIN, ResolvedWalks
from guided.masks.trie import BYTE, DEPTH
from guided.masks.vocabulary import TokenTexts
from guided.masks.walk import KeptWalk, Walk
from guided.masks.walk_kernels import ITSELF
from guided.masks.walk_path import TRUNCATED
from guided.runtime.of_thread import OfThread

__all__ = ["Walker"]

_NO_ROWS = _NO_TOKENS = np.empty(0, dtype=np.int32)
_NO_CHANGES: Final = np.empty((0, 2), dtype=np.int32)
_ROOT: Final = 0


class Walker:
    """Walks one machine over one vocabulary.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``.

    Its parts belong together, which nothing checks: ``texts``, ``independent``, ``white_space``
    and ``scratch`` are for one trie, ``packed`` and ``keys`` for ``machine``.
    """

    def __init__(
        self,
        machine: Recognizer,
        packed: PackedMachine,
        keys: MaskKeys,
        texts: TokenTexts,
        independent: IndependentMasks,
        white_space: IndependentMask,
        scratch: OfThread[Scratch],
    ) -> None:
        self.machine = machine
        self.packed = packed
        self.keys = keys
        self.trie = independent.trie
        self._texts = texts
        self._independent = independent
        self._white_space = white_space
        self._scratch = scratch
        # Walks that begin with no tokens, at any node and at the root.
        self._nothing = independent.nothing
        self._all = self._itself(_ROOT)
        self._walks = ResolvedWalks(packed, self.trie, scratch)

    def walk(
        self, state: State, base: KeptWalk | None = None, *, is_truncated: bool = False
    ) -> Walk:
        """Try all tokens on ``state``; ``base`` is the walk of the row that its row was laid over.

        Texts of the state are not looked at, and the caller adds end-of-sequence tokens
        (``with_ends``). With ``is_truncated`` its stack must be one that ``StateSharing.truncated``
        returned for no callers. May raise LimitExceededError when the machine is full.
        """
        traits = self.keys.traits(state.row)
        home = state.stack if is_truncated else NOWHERE
        if traits.takes_blanks:
            return self._from_sites(self._white_space, state, home, _NO_ROWS, 0, 0)
        if base is None or self._shares(traits.outline, state.stack):
            return self._below(_ROOT, state, home, traits)
        walk = self._walks.corrected(base, state, traits.like)
        return walk if traits.high == COUNTS_NOTHING else walk.for_one_stack()

    def _shares(self, outline: Outline | None, stack: int) -> bool:
        """Return whether a row in this stack has a context-independent mask.

        Among rare names it has one only if more names are left than the object may have taken.

        The result may differ for the same row in another stack, so a walk that relies on it is
        ``for_one_stack``.
        """
        if outline is None or outline.fewest == NO_BOUND:
            return outline is not None
        return outline.fewest > self.machine.parts.stacks.taken(stack)

    def _below(
        self, node: int, state: State, home: int, traits: RowTraits, begun: Walk | None = None
    ) -> Walk:
        """Return what is allowed below a node, at which the state is, added to what was ``begun``.

        ``home`` is explained at ``walk_sites``; ``traits`` are those of the state's row.

        The result's mask is scratch memory, as that of ``begun`` is: with ``begun`` the tokens are
        added to those already there.
        """
        outline = traits.outline
        if outline is None or not self._shares(outline, state.stack):
            nothing = self._itself(node) if node else self._all
            return self._from_sites(nothing, state, home, _NO_ROWS, 0, 0, begun)
        mask = self._independent.get(self.packed.current(), state.row, outline, node)
        missing, left = traits.low - state.count, traits.high - state.count
        walk = self._from_sites(mask, state, home, outline.closings, missing, left, begun)
        # Names that are left in this stack may not be left in others.
        return walk if outline.fewest == NO_BOUND else walk.for_one_stack()

    def _itself(self, node: int) -> IndependentMask:
        """No tokens, and one site.

        The mask and its fingerprint are those of ``IndependentMasks.nothing``, which all walks
        share.
        """
        sites = np.array([[node, 0, 0, ITSELF]], dtype=np.int32)
        return self._nothing.at(sites)

    def _from_sites(
        self,
        mask: IndependentMask,
        state: State,
        home: int,
        closings: NDArray[np.int32],
        missing: int,
        left: int,
        begun: Walk | None = None,
    ) -> Walk:
        """Return what is allowed inside a block, with the tokens below the sites where it ends.

        It is added to what was ``begun``, whose mask is the memory that walks work in, and is
        overwritten. ``closings``, ``missing`` and ``left`` are explained at ``walk_sites``;
        ``closings`` are the rows that the sites of ``mask`` name, empty if they name none.
        """
        base, fingerprint = mask.mask_within(left)
        words = self._scratch.get().words
        first = base if begun is None else np.bitwise_or(begun.mask, base, out=words)
        found = self._walks.below_sites(
            MaskDelta(first, _NO_CHANGES),
            base,
            fingerprint,
            state,
            home,
            mask.sites,
            closings,
            missing,
            left,
        )
        walk, put_off = found
        return self._with_put_off(walk if begun is None else walk.joined_to(begun), home, put_off)

    def _with_put_off(self, walk: Walk, home: int, put_off: int) -> Walk:
        """Return the walk with what is allowed below the nodes that it put off.

        None of the nodes is below another, so the order in which they are walked does not matter.
        """
        # Walks of put-off nodes may put off further nodes, in the same memory: the list is read
        # before the first of them.
        if put_off:
            for node, *there in self._scratch.get().put_off[:put_off].tolist():
                after = State(*there)
                walk = self._below(node, after, home, self.keys.traits(after.row), walk)
        return walk

    def completed(self, walk: KeptWalk, state: State, *, is_truncated: bool = False) -> Walk:
        """Return the walk of a truncated stack; what it left uncertain is tried on ``state``.

        ``is_truncated`` says that the stack of ``state`` is truncated too, with more callers known.

        ``state`` must have the row of the state that was walked, and its stack must be one that the
        truncated one stands for.
        """
        delta, sites = walk.delta, walk.uncertain
        home = TRUNCATED if is_truncated else NOWHERE
        # Bounds of 0 let all sites pass: an uncertain site counts no code points.
        found, put_off = self._walks.below_sites(
            delta, delta.base, walk.held.fingerprint, state, home, sites, _NO_ROWS, 0, 0
        )
        return self._with_put_off(found, home, put_off)

    def tokens_below(self, node: int, state: State) -> NDArray[np.int32]:
        """Return the tokens below a node that may, or might, follow ``state``, which stands at it.

        Tokens of the node itself are left out. Uncertain tokens may be returned that may not
        follow; none that may follow is left out.
        """
        walk = self._from_sites(self._itself(node), state, NOWHERE, _NO_ROWS, 0, 0)
        tokens = allowed(walk.mask, self.trie.tokens_below(node))
        if not len(walk.uncertain):
            return tokens
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        return np.concatenate([tokens, *below])

    def exact(self, walk: KeptWalk, state: State, forbidden: list[int]) -> Walk:
        """Return the walk with nothing left uncertain, and without the ``forbidden`` tokens.

        Tokens of uncertain sites are tried one by one on the state; see ``_settled``. The walk of
        another state may have set them, so all are cleared before those that fit are set.
        """
        below = [self.trie.tokens_below(node) for node in walk.uncertain[:, 0].tolist()]
        settled = self._settled(state, walk.uncertain)
        words = self._scratch.get().words
        walk.delta.fill(words)
        fingerprint = walk.held.fingerprint
        fingerprint ^= clear_tokens(np.array(forbidden, dtype=np.int32), words)
        fingerprint ^= clear_tokens(np.concatenate([_NO_TOKENS, *below]), words)
        fingerprint ^= set_tokens(settled, words)
        return Walk(words, walk.delta.base, fingerprint, NOTHING_UNCERTAIN)

    def joined(self, first: MaskDelta, fingerprint: int, others: Iterable[MaskDelta]) -> Walk:
        """Return the walk that allows what any of the masks allows; nothing in it is uncertain.

        ``fingerprint`` is that of ``first``. Only new tokens change it, so the order of ``others``
        does not matter.
        """
        words = self._scratch.get().words
        first.fill(words)
        for other in others:
            fingerprint ^= set_tokens(tokens_of(other.mask()).astype(np.int32), words)
        return Walk(words, first.base, fingerprint, NOTHING_UNCERTAIN)

    def with_ends(self, walk: Walk, ends: NDArray[np.int32]) -> Walk:
        """Return the walk with the tokens that end the text, set in the mask of ``walk`` itself."""
        fingerprint = walk.fingerprint ^ set_tokens(ends, walk.mask)
        return Walk(walk.mask, walk.base, fingerprint, walk.uncertain, walk.is_local)

    def _settled(self, state: State, uncertain: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the tokens of uncertain sites that may follow the exact state.

        They are read byte by byte down the trie, so that common beginnings are tried once.

        A token comes once for each site that it is below. The machine itself reads each byte, so
        the result is exact whatever the walk assumed.
        """
        self.packed.begin_work()
        nodes, machine = self.trie.nodes, self.machine
        reached: dict[bytes, State | None] = {b"": state}
        found = [_NO_TOKENS]
        for top in uncertain[:, 0].tolist():
            text = self._texts.token_bytes[self.trie.tokens_below(top)[0]]
            assert text is not None, top  # the trie has no other tokens
            # Up to the last byte of the site, which the loop tries with those below it.
            before = self._reached(text[: nodes[top, DEPTH] - 1], reached)
            waiting = [] if before is None else [(top, before)]
            while waiting:
                node, current = waiting.pop()
                after = machine.advance(current, bytes((nodes[node, BYTE],)))
                if after is None:
                    continue
                found.append(self.trie.tokens_of(node))
                waiting += [(child, after) for child in self.trie.children(node)]
        return np.concatenate(found)

    def _reached(self, text: bytes, reached: dict[bytes, State | None]) -> State | None:
        """Return the state after a text, or ``None``; ``reached`` has those known, at least b""."""
        if text not in reached:
            before = self._reached(text[:-1], reached)
            reached[text] = None if before is None else self.machine.advance(before, text[-1:])
        return reached[text]
