"""States that spell given texts, as chains of their own or as overlays on the states of strings.

A text becomes a chain of states, one for each byte. A branch state joins chains where texts begin
alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.scalar_blocks import json_literal
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import pause_if_due, with_pauses

__all__ = ["Chain", "ChainBuilder", "overlay_texts"]


class Chain:
    """The states of one text that ends in a label."""

    __slots__ = ("label", "state", "text")

    def __init__(self, text: bytes, label: int, state: int) -> None:
        self.text: Final = text
        self.label: Final = label
        self.state: Final = state
        """The state where nothing of the text was read; each byte leads one state further."""


_ChainTuple: TypeAlias = tuple[Chain, ...]
_MAX_SMALL_BRANCH: Final = 24
"""The most chains whose branches are added in one call; of more, each branch is cached."""
_SORT_PIECE: Final = 5_000
"""Texts sorted between two pauses."""


class ChainBuilder:
    """Adds the chains of texts, and the states that join them, to the table of one machine.

    Equal arguments return the same rows. Methods raise LimitExceededError past the limit of the
    table.
    """

    def __init__(self, table: TransitionTable) -> None:
        self.table = table
        self._exits: dict[int, int] = {}
        """The result of ``exit_state`` by label."""
        self._chains: dict[tuple[bytes, int], Chain] = {}
        """By text and label."""
        self._branches: dict[tuple[_ChainTuple, int], int] = {}
        """The results of ``get_or_add_branch`` by its arguments."""

    def exit_state(self, label: int) -> int:
        """Return the state that reads no byte and takes the exit action ``label``."""
        found = self._exits.get(label)
        return self.exit_states((label,))[0] if found is None else found

    def exit_states(self, labels: Sequence[int]) -> list[int]:
        """Return ``exit_state`` for each of the labels, added in one call."""
        distinct = dict.fromkeys(with_pauses(labels))
        unknown = [label for label in with_pauses(distinct) if label not in self._exits]
        if unknown:
            state = self.table.add_exits(unknown)
            for label in unknown:
                self._exits[label] = state
                state += 1
        return [self._exits[label] for label in with_pauses(labels)]

    def add_choice(self, texts: Iterable[tuple[bytes, int]]) -> int:
        """Return the state from which one of the texts has to follow, each with its label.

        There is at least one text, and none is a prefix of another.
        """
        return self.get_or_add_branch(tuple(self.get_or_add(_sort([*with_pauses(texts)]))), 0)

    def get_or_add(self, texts: Sequence[tuple[bytes, int]]) -> list[Chain]:
        """Return the chain of each text and label, in that order; new ones are added."""
        distinct = dict.fromkeys(with_pauses(texts))
        unknown = [each for each in with_pauses(distinct) if each not in self._chains]
        if unknown:
            self._add(unknown)
        return [self._chains[each] for each in with_pauses(texts)]

    def _add(self, texts: Sequence[tuple[bytes, int]]) -> None:
        """Add chains that are not there yet, all in one call of the table; each occurs once.

        The rows of a text follow each other, and its last byte leads to the exit state of its
        label.
        """
        spelled = [text for text, _ in with_pauses(texts)]
        ends = self.exit_states([label for _, label in with_pauses(texts)])
        state = self.table.add_chains(b"".join(spelled), list(accumulate(map(len, spelled))), ends)
        for text, label in with_pauses(texts):
            self._chains[text, label] = Chain(text, label, state)
            state += len(text)

    def get_or_add_branch(self, chains: _ChainTuple, depth: int) -> int:
        """Return the state after ``depth`` bytes, which all the chains have in common.

        Chains are sorted by text, and no text is a prefix of another.
        """
        if len(chains) == 1:
            return chains[0].state + depth
        # Texts may have very much in common, so a stack of our own replaces recursion.
        stack = [(chains, depth)]
        while stack:
            at = stack[-1]
            inner = [] if at in self._branches else self._branches_to_add(*at)
            if inner:
                stack += reversed(inner)
                continue
            stack.pop()
            if at not in self._branches:
                self._branches[at] = self._add_branch(*at)
        return self._branches[chains, depth]

    def _branches_to_add(self, chains: _ChainTuple, depth: int) -> list[tuple[_ChainTuple, int]]:
        """Return the arguments of the branches after the byte at ``depth`` that are not cached yet.

        Arguments are as for ``get_or_add_branch``. Only branches of more than ``_MAX_SMALL_BRANCH``
        chains are returned: ``_add_branch`` adds smaller ones itself.
        """
        pause_if_due()
        inner = [
            (group, depth + 1)
            for _, group in _group_by_byte(chains, depth)
            if len(group) > _MAX_SMALL_BRANCH
        ]
        return [at for at in inner if at not in self._branches]

    def _add_branch(self, chains: _ChainTuple, depth: int) -> int:
        """Add the state that separates chains by the byte at ``depth``; return it.

        Arguments are as for ``get_or_add_branch``, with two chains or more. The branches after it
        that have more than ``_MAX_SMALL_BRANCH`` chains are cached already.
        """
        edges: dict[int, int] = {}
        pause_if_due()
        for byte, group in _group_by_byte(chains, depth):
            first = group[0]
            if depth + 1 == len(first.text):
                edges[byte] = self.exit_state(first.label)
            elif len(group) == 1:
                edges[byte] = first.state + depth + 1
            else:
                # Row 0 is END_ROW, so no branch is.
                edges[byte] = self._branches.get((group, depth + 1)) or self._add_small_branch(
                    group, depth + 1
                )
        return self.table.add_row(edges)

    def _add_small_branch(self, chains: _ChainTuple, depth: int) -> int:
        """Add all the branches of a few chains in one call; return the row of the first.

        Arguments are as for ``get_or_add_branch``. Only the first branch is cached.
        """
        pause_if_due()
        spelled = [chain.text for chain in chains]
        assert not any(map(bytes.startswith, spelled[1:], spelled)), "texts end differently"
        leads = [(chain.state, self.exit_state(chain.label)) for chain in chains]
        bounds = list(accumulate(map(len, spelled)))
        state = self.table.add_branches(b"".join(spelled), bounds, leads, depth)
        self._branches[chains, depth] = state
        return state


def _group_by_byte(chains: _ChainTuple, depth: int) -> Iterator[tuple[int, _ChainTuple]]:
    """Yield each byte at ``depth``, ascending, with the chains that have it.

    ``chains`` are sorted, have their first ``depth`` bytes in common, and are longer than that.
    """
    start = 0
    while start < len(chains):
        byte = chains[start].text[depth]
        end = bisect_right(chains, byte, start + 1, key=lambda chain: chain.text[depth])
        yield byte, chains[start:end]
        start = end


def _sort(texts: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return texts with their labels, sorted; in pieces, as the sort of many could not pause."""
    if len(texts) <= _SORT_PIECE:
        return sorted(texts)
    pieces = []
    for first in range(0, len(texts), _SORT_PIECE):
        pause_if_due()
        pieces.append(sorted(texts[first : first + _SORT_PIECE]))
    return [*with_pauses(merge(*pieces))]


_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_HEXADECIMAL: Final = b"0123456789abcdefABCDEF"


def _list_next_bytes() -> dict[bytes, bytes]:
    """Compute ``_AFTER_BACKSLASH``."""
    after: dict[bytes, dict[int, None]] = {}
    for code_point in (*range(0x20), _QUOTE, _BACKSLASH):
        escape = json_literal(chr(code_point))[2:-1]
        for depth, byte in enumerate(escape):
            after.setdefault(escape[:depth], {})[byte] = None
    return {begun: bytes(following) for begun, following in after.items()}


_AFTER_BACKSLASH: Final = _list_next_bytes()
"""The bytes that go on with a canonical escape, by what of it has begun after its backslash."""


class _OverlayTrie:
    """A trie of texts as overlays on the states of strings: node ``n`` overlays ``rows_under[n]``.

    Children have higher indices than their parents.
    """

    __slots__ = ("children", "closed", "labels", "leaving", "rows_under")

    def __init__(self, root: int) -> None:
        self.rows_under = [root]
        self.children: list[dict[int, int]] = [{}]
        """By node and byte."""
        self.labels: dict[int, int] = {}
        """The label of the text that ends in a node."""
        self.leaving: dict[tuple[int, int], list[Chain]] = {}
        """Texts that leave the states under the trie: by their last node and its depth."""
        self.closed: dict[int, bytes] = {}
        """The bytes that no text goes on with after a node, besides those that the states close."""

    def add(self, node: int, byte: int, state: int) -> None:
        """Add a child of ``node``, an overlay on ``state``."""
        self.children[node][byte] = len(self.rows_under)
        self.rows_under.append(state)
        self.children.append({})

    def after_backslashes(self) -> set[int]:
        """Return the nodes after a backslash that begins an escape."""
        after: set[int] = set()
        # In order, so that a node is known to be escaped before its own backslash is looked at.
        for node, below in enumerate(self.children):
            if node not in after and _BACKSLASH in below:
                after.add(below[_BACKSLASH])
        return after


def overlay_texts(
    chains: ChainBuilder,
    start: int,
    infinite: NDArray[np.bool_],
    texts: Mapping[str, int],
    *,
    is_canonical: bool,
) -> int | None:
    """Add some texts as overlays on a block of strings; return the state after the opening quote.

    The block begins at ``start``. ``texts`` has the label of each text, DEAD if it is forbidden.
    ``infinite`` marks the states of the block, counted from ``start``, from which infinitely many
    texts lead on. ``None`` if only finitely many texts begin like a forbidden one. In the overlays
    only the canonical escapes are allowed, or a text could be spelled so that it is not recognised;
    ``is_canonical`` says that the block has no others.
    """
    trie = _build_overlay_trie(chains, start, infinite, texts)
    if trie is None:
        return None
    if not is_canonical:
        _close_other_escapes(chains, trie)
    return _add_trie(chains, trie)


def _build_overlay_trie(
    chains: ChainBuilder, start: int, infinite: NDArray[np.bool_], texts: Mapping[str, int]
) -> _OverlayTrie | None:
    """Return the trie of the texts; arguments and ``None`` are as for ``overlay_texts``.

    A forbidden text loses its closing quote, which might be the last edge of a state if only
    finitely many texts lead on from there.
    """
    table = chains.table
    trie = _OverlayTrie(table.step(start, _QUOTE))
    for text, label in texts.items():
        node = 0
        spelled = json_literal(text)[1:]
        for depth, byte in enumerate(spelled[:-1]):
            if byte not in trie.children[node]:
                state = table.step(trie.rows_under[node], byte)
                if state == DEAD:
                    # No free string begins like this: a forbidden one is not there to be closed.
                    if label != DEAD:
                        chain = chains.get_or_add([(spelled, label)])[0]
                        trie.leaving.setdefault((node, depth), []).append(chain)
                    break
                if label == DEAD and not infinite[state - start]:
                    return None
                trie.add(node, byte, state)
            node = trie.children[node][byte]
        else:
            if label == DEAD and not infinite[trie.rows_under[node] - start]:
                return None
            trie.labels[node] = label
    return trie


def _add_trie(chains: ChainBuilder, trie: _OverlayTrie) -> int:
    """Add the nodes of a trie as overlays; return the row of its root.

    All rows that overlays lead to are added first, as the rows of overlays have to be adjacent.
    Sorts ``trie.leaving`` in place.
    """
    table = chains.table
    branches: list[tuple[int, int, int]] = []
    for (node, depth), group in trie.leaving.items():
        # Texts that no free string begins with leave the overlay, into chains of their own.
        group.sort(key=lambda chain: chain.text)
        for byte in sorted({chain.text[depth] for chain in group}):
            alike = tuple(chain for chain in group if chain.text[depth] == byte)
            branches.append((node, byte, chains.get_or_add_branch(alike, depth + 1)))
    exits = {label: chains.exit_state(label) for label in set(trie.labels.values()) - {DEAD}}
    # Overlay ``n`` will be row ``first + n``: from here on no other row may be added.
    first = table.num_rows
    edges = [{byte: first + child for byte, child in below.items()} for below in trie.children]
    for node, byte, state in branches:
        edges[node][byte] = state
    for node, label in trie.labels.items():
        edges[node][_QUOTE] = DEAD if label == DEAD else exits[label]
    for node, bytes_ in trie.closed.items():
        edges[node].update({byte: DEAD for byte in bytes_ if byte not in edges[node]})
    added = table.add_overlays(trie.rows_under, edges)
    # The shortest way on was that of the states under the overlay, which it may have closed.
    table.recompute_next_bytes(range(added, added + len(trie.rows_under)))
    return added


def _close_other_escapes(chains: ChainBuilder, trie: _OverlayTrie) -> None:
    """Leave only the canonical escapes after each beginning of a text.

    To be called once, when all texts are in: a node whose text has a backslash next has that child
    already. Of the nodes added, those that overlay the same state are shared.
    """
    table, after = chains.table, trie.after_backslashes()
    shared: dict[int, int] = {}
    for node in range(len(trie.children)):
        state = table.step(trie.rows_under[node], _BACKSLASH)
        if node in after or state == DEAD:
            continue
        child = trie.children[node].get(_BACKSLASH, shared.get(state))
        if child is None and _reaches_escape(table, state, b""):
            child = shared[state] = len(trie.rows_under)
            trie.add(node, _BACKSLASH, state)
            _close_escape(table, trie, child, b"")
        elif child is None:
            trie.closed[node] = bytes((_BACKSLASH,))
        elif child == shared.get(state):
            trie.children[node][_BACKSLASH] = child
        else:
            _close_escape(table, trie, child, b"")


def _close_escape(table: TransitionTable, trie: _OverlayTrie, node: int, begun: bytes) -> None:
    """Leave only the canonical escapes from a node on, after a backslash and what has ``begun``.

    ``begun`` is as for ``_reaches_escape``. Adds the nodes inside escapes that are not there yet.
    """
    closed = _HEXADECIMAL if begun else b"/u"
    below, under = trie.children[node], trie.rows_under[node]
    for byte in _AFTER_BACKSLASH[begun]:
        longer = begun + bytes((byte,))
        if longer not in _AFTER_BACKSLASH:
            # The escape is complete.
            closed = closed.replace(longer[-1:], b"")
            continue
        if byte not in below:
            state = table.step(under, byte)
            if state == DEAD or not _reaches_escape(table, state, longer):
                continue
            trie.add(node, byte, state)
        _close_escape(table, trie, below[byte], longer)
    trie.closed[node] = bytes(byte for byte in closed if byte not in below)


def _reaches_escape(table: TransitionTable, state: int, begun: bytes) -> bool:
    """Return whether a canonical escape can be completed from a state inside it.

    ``state``, a row of the table, is after a backslash and what has ``begun``: a key of
    ``_AFTER_BACKSLASH``, so not a whole escape.
    """
    for byte in _AFTER_BACKSLASH[begun]:
        target, longer = table.step(state, byte), begun + bytes((byte,))
        if target != DEAD and (
            longer not in _AFTER_BACKSLASH or _reaches_escape(table, target, longer)
        ):
            return True
    return False
