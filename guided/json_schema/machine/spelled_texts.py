"""States that spell texts given in full, and texts laid over the states of all strings.

A text becomes a chain of states, one for each byte, laid down once; chains are joined where texts
begin alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.scalar_blocks import json_key
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.fuel import pause_if_due, with_pauses

__all__ = ["Chain", "Chains", "add_texts"]


class Chain:
    """The states of one text; there is one for each text and label."""

    __slots__ = ("label", "state", "text")

    def __init__(self, text: bytes, label: int, state: int) -> None:
        self.text: Final = text
        self.label: Final = label
        self.state: Final = state
        """The state where nothing of the text was read; each byte leads one state further."""


_Group: TypeAlias = tuple[Chain, ...]
_FEW: Final = 24
"""Chains whose branches are laid down all at once; of more, only those that changed are."""
_PIECE: Final = 5_000
"""Texts that take some milliseconds to sort."""


class Chains:
    """Lays down texts that end in a label.

    There is one for each machine. All that is laid down is kept: equal arguments return the same
    rows, and a row never changes.
    """

    def __init__(self, table: TransitionTable) -> None:
        self.table = table
        self._exits: dict[int, int] = {}
        """For each label the state that only takes it."""
        self._chains: dict[tuple[bytes, int], Chain] = {}
        self._branches: dict[tuple[_Group, int], int] = {}
        """By chains, sorted by text, and the number of bytes that they share: see ``branch``."""

    def exit_state(self, label: int) -> int:
        """Return a state that only takes ``label``."""
        found = self._exits.get(label)
        return self.exit_states((label,))[0] if found is None else found

    def exit_states(self, labels: Sequence[int]) -> list[int]:
        """Return states that each only take one of these labels.

        In the order of ``labels``; each label has one state in a machine.
        """
        distinct = dict.fromkeys(with_pauses(labels))
        unknown = [label for label in with_pauses(distinct) if label not in self._exits]
        if unknown:
            state = self.table.add_exits(unknown)
            for label in unknown:
                self._exits[label] = state
                state += 1
        return [self._exits[label] for label in with_pauses(labels)]

    def one_of(self, texts: Iterable[tuple[bytes, int]]) -> int:
        """Return the state from which one of the texts has to follow, each with its label.

        No text is the beginning of another. There is at least one. The texts are sorted here, so
        they may come in any order.
        """
        return self.branch(tuple(self.chains(_sorted([*with_pauses(texts)]))), 0)

    def chains(self, texts: Sequence[tuple[bytes, int]]) -> list[Chain]:
        """Return the states of texts, each with its label.

        In the order of ``texts``; new ones are laid down.
        """
        distinct = dict.fromkeys(with_pauses(texts))
        unknown = [each for each in with_pauses(distinct) if each not in self._chains]
        if unknown:
            self._lay(unknown)
        return [self._chains[each] for each in with_pauses(texts)]

    def _lay(self, texts: Sequence[tuple[bytes, int]]) -> None:
        """Lay down chains that are not there yet, all in one call of the table.

        Each text occurs once. The rows of a text follow each other, as ``Chain.state`` says, and
        its last byte leads to the exit state of its label.
        """
        spelled = [text for text, _ in with_pauses(texts)]
        ends = self.exit_states([label for _, label in with_pauses(texts)])
        state = self.table.add_chains(b"".join(spelled), list(accumulate(map(len, spelled))), ends)
        for text, label in with_pauses(texts):
            self._chains[text, label] = Chain(text, label, state)
            state += len(text)

    def branch(self, chains: _Group, depth: int) -> int:
        """Return a state after ``depth`` bytes that all the chains have in common.

        Chains are sorted by text, and no text is the beginning of another.
        """
        if len(chains) == 1:
            return chains[0].state + depth
        # Texts may have very much in common, so a stack of our own replaces recursion.
        waiting = [(chains, depth)]
        while waiting:
            at = waiting[-1]
            inner = [] if at in self._branches else self._unknown(*at)
            if inner:
                waiting += reversed(inner)
                continue
            waiting.pop()
            if at not in self._branches:
                self._branches[at] = self._branch(*at)
        return self._branches[chains, depth]

    def _unknown(self, chains: _Group, depth: int) -> list[tuple[_Group, int]]:
        """Return the branches after the next byte that have not been laid down yet.

        Only groups of more than ``_FEW``: ``_branch`` lays smaller ones down itself.
        """
        pause_if_due()
        inner = [(group, depth + 1) for _, group in _parted(chains, depth) if len(group) > _FEW]
        return [at for at in inner if at not in self._branches]

    def _branch(self, chains: _Group, depth: int) -> int:
        """Return a state that separates chains by the byte at ``depth``.

        ``branch`` has laid down the large groups after it, ``_all`` lays down small ones at once.
        """
        edges: dict[int, int] = {}
        pause_if_due()
        for byte, group in _parted(chains, depth):
            first = group[0]
            if depth + 1 == len(first.text):
                edges[byte] = self.exit_state(first.label)
            elif len(group) == 1:
                edges[byte] = first.state + depth + 1
            else:
                # Row 0 is END_ROW, so no branch is.
                edges[byte] = self._branches.get((group, depth + 1)) or self._all(group, depth + 1)
        return self.table.add_row(edges)

    def _all(self, chains: _Group, depth: int) -> int:
        """Lay down all the branches of a few chains at once; returns the row of the first.

        Inner branches are not kept in ``_branches``. No text may begin with another: a state cannot
        both end and continue.
        """
        pause_if_due()
        spelled = [chain.text for chain in chains]
        assert not any(map(bytes.startswith, spelled[1:], spelled)), "texts end differently"
        leads = [(chain.state, self.exit_state(chain.label)) for chain in chains]
        bounds = list(accumulate(map(len, spelled)))
        state = self.table.add_branches(b"".join(spelled), bounds, leads, depth)
        self._branches[chains, depth] = state
        return state


def _parted(chains: _Group, depth: int) -> Iterator[tuple[int, _Group]]:
    """Sorted chains by the byte at ``depth``.

    Bytes come in ascending order, each once; every chain has a byte there.
    """
    start = 0
    while start < len(chains):
        byte = chains[start].text[depth]
        end = bisect_right(chains, byte, start + 1, key=lambda chain: chain.text[depth])
        yield byte, chains[start:end]
        start = end


def _sorted(texts: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Texts in their order; many are sorted in pieces, as a single sort cannot pause."""
    if len(texts) <= _PIECE:
        return sorted(texts)
    pieces = []
    for first in range(0, len(texts), _PIECE):
        pause_if_due()
        pieces.append(sorted(texts[first : first + _PIECE]))
    return [*with_pauses(merge(*pieces))]


_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_OTHER_SPELLINGS: Final = b"u/"
"""The bytes after a backslash where a character is not spelled the shortest way."""


class _OverlayTrie:
    """Texts as a trie over the states of all strings: node ``n`` lies over the state ``under[n]``.

    Children have higher numbers than their parents; what follows a node is laid down after it.
    """

    __slots__ = ("children", "ends", "leaving", "under")

    def __init__(self, root: int) -> None:
        self.under = [root]
        self.children: list[dict[int, int]] = [{}]
        """By node and byte."""
        self.ends: dict[int, int] = {}
        """The label of the text that ends in a node."""
        self.leaving: dict[tuple[int, int], list[Chain]] = {}
        """Texts that leave the states below: by the last node, and the bytes up to it."""

    def add(self, node: int, byte: int, state: int) -> None:
        """Add a child, which lies over ``state``."""
        self.children[node][byte] = len(self.under)
        self.under.append(state)
        self.children.append({})

    def after_backslashes(self) -> set[int]:
        """Return the nodes in the middle of an escape: after a backslash that no other one escapes.

        It relies on children having higher numbers than their parents.
        """
        after: set[int] = set()
        # In order, so that a node is known to be escaped before its own backslash is looked at.
        for node, below in enumerate(self.children):
            if node not in after and _BACKSLASH in below:
                after.add(below[_BACKSLASH])
        return after


def add_texts(
    chains: Chains, start: int, endless: NDArray[np.bool_], texts: Mapping[str, int]
) -> int | None:
    """Return the state after an opening quote; at ``start`` begins the block of all other strings.

    ``texts`` gives the label of each string that is judged separately, DEAD if it is not
    allowed. ``endless`` marks the states of that block that texts of any length lead on from.
    ``None`` if only finitely many texts begin with a forbidden one. Near the texts characters
    keep their shortest spelling, or one of them could be written so that it is not recognised.
    """
    trie = _overlay_trie(chains, start, endless, texts)
    if trie is None:
        return None
    # When all texts are in: a node whose text has a backslash next has that child already.
    _spell_shortly(chains, trie)
    return _add_trie(chains, trie)


def _overlay_trie(
    chains: Chains, start: int, endless: NDArray[np.bool_], texts: Mapping[str, int]
) -> _OverlayTrie | None:
    """Return the trie of the texts, ``None`` as for ``add_texts``.

    A forbidden text closes its last byte. If only finitely many texts lead on, that might be
    the last way from a state, and nothing would follow it.
    """
    table = chains.table
    trie = _OverlayTrie(table.step(start, _QUOTE))
    for text, label in texts.items():
        node = 0
        spelled = json_key(text)[1:]
        for depth, byte in enumerate(spelled[:-1]):
            if byte not in trie.children[node]:
                state = table.step(trie.under[node], byte)
                if state == DEAD:
                    # No free string begins like this: a forbidden one is not there to be closed.
                    if label != DEAD:
                        chain = chains.chains([(spelled, label)])[0]
                        trie.leaving.setdefault((node, depth), []).append(chain)
                    break
                if label == DEAD and not endless[state - start]:
                    return None
                trie.add(node, byte, state)
            node = trie.children[node][byte]
        else:
            if label == DEAD and not endless[trie.under[node] - start]:
                return None
            trie.ends[node] = label
    return trie


def _add_trie(chains: Chains, trie: _OverlayTrie) -> int:
    """Lay the nodes of a trie down as overlays; returns the row of its root.

    All rows that overlays lead to are laid down first, as overlays have to follow each other.
    ``trie.leaving`` is sorted in place.
    """
    table = chains.table
    branches: list[tuple[int, int, int]] = []
    for (node, depth), group in trie.leaving.items():
        # Texts that no free string begins with leave the overlay, into chains of their own.
        group.sort(key=lambda chain: chain.text)
        for byte in sorted({chain.text[depth] for chain in group}):
            alike = tuple(chain for chain in group if chain.text[depth] == byte)
            branches.append((node, byte, chains.branch(alike, depth + 1)))
    exits = {label: chains.exit_state(label) for label in set(trie.ends.values()) - {DEAD}}
    # Overlay ``n`` will be row ``first + n``: from here on no other row may be laid down.
    first = table.num_rows
    edges = [{byte: first + child for byte, child in below.items()} for below in trie.children]
    for node, byte, state in branches:
        edges[node][byte] = state
    for node, label in trie.ends.items():
        edges[node][_QUOTE] = DEAD if label == DEAD else exits[label]
    # Also for the nodes that ``_spell_shortly`` has added.
    for node in trie.after_backslashes():
        edges[node].update({byte: DEAD for byte in _OTHER_SPELLINGS if byte not in edges[node]})
    added = table.add_overlays(trie.under, edges)
    # The shortest way on was that of the states under the overlay, which it may have closed.
    table.lead_on(range(added, added + len(trie.under)))
    return added


def _spell_shortly(chains: Chains, trie: _OverlayTrie) -> None:
    """Give every node a child after a backslash, where other spellings can be cut off.

    To be called once, when all texts are in: nodes that it adds itself get no such child.
    """
    after = trie.after_backslashes()
    for node in range(len(trie.children)):
        state = chains.table.step(trie.under[node], _BACKSLASH)
        if node not in after and _BACKSLASH not in trie.children[node] and state != DEAD:
            trie.add(node, _BACKSLASH, state)
