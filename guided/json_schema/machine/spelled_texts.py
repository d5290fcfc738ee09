"""States that spell given texts, as chains of their own or as overlays on the states of strings.

A text becomes a chain of states, one for each byte. A branch state joins chains where texts begin
alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.name_trie import BYTE, CONTENT_ROW, PARENT, build_name_trie
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import pause_if_due, with_pauses

__all__ = ["Chain", "ChainBuilder", "OverlayTrie", "add_overlay", "build_trie", "overlay_strings"]


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


class OverlayTrie(NamedTuple):
    """A trie of texts over the states of a block, as ``build_name_trie`` makes it."""

    nodes: NDArray[np.int32]
    """int32 ``[nodes, 5]``, parents before their children; the columns are in ``name_trie``."""
    last_nodes: list[int]
    """The node where each text ends, or ``-1 - node`` where it leaves the states under the trie."""


def build_trie(table: TransitionTable, under: int, texts: Sequence[bytes]) -> OverlayTrie:
    """Return the trie of texts, without quotes, over the states from ``under`` on; adds no rows.

    Texts are as JSON spells them.
    """
    # No kernel reads the last byte: it makes ``nodes`` one row longer than the texts, for the root.
    text = np.frombuffer(b"".join(texts) + b"\0", dtype=np.uint8)
    ends = np.array(list(accumulate(map(len, texts))), dtype=np.int32)
    nodes = np.empty((len(text), 5), dtype=np.int32)
    last_nodes = np.empty(len(texts), dtype=np.int32)
    count = build_name_trie(
        *(table.rows, table.cells, table.byte_maps, under, text, ends, nodes, last_nodes)
    )
    return OverlayTrie(nodes[:count], last_nodes.tolist())


def add_overlay(chains: ChainBuilder, trie: OverlayTrie, texts: Sequence[tuple[bytes, int]]) -> int:
    """Add a trie as overlays on the states under it; return the row of its root.

    ``texts`` are those of the trie with their closing quotes, which lead to the exit states of
    their labels, or nowhere for DEAD. A text that leaves the states continues in its own chain; one
    with DEAD is dropped there, as nothing spells it. With DEAD the caller has to call
    ``TransitionTable.recompute_next_bytes``.
    """
    table, nodes = chains.table, trie.nodes
    placed = [*zip(texts, trie.last_nodes, strict=True)]
    chains.exit_states([label for (_, label), _ in placed if label != DEAD])
    edges = [
        (node, _QUOTE, DEAD if label == DEAD else chains.exit_state(label))
        for (_, label), node in placed
        if node >= 0
    ]
    leaving: dict[int, list[tuple[bytes, int]]] = {}
    for text, node in placed:
        if node < 0 and text[1] != DEAD:
            leaving.setdefault(-1 - node, []).append(text)
    for node, group in leaving.items():
        depth = _depth(nodes, node)
        edges += [
            (node, byte, chains.get_or_add_branch(alike, depth + 1))
            for byte, alike in _group_by_byte(tuple(chains.get_or_add(sorted(group))), depth)
        ]
    # Node ``n`` will be row ``num_rows + n``: from here on no other row may be added.
    count = len(nodes) - 1
    moves = np.empty((count + len(edges), 3), dtype=np.int32)
    moves[:count, :2] = nodes[1:, PARENT : BYTE + 1]
    moves[:count, 2] = table.num_rows + np.arange(1, len(nodes))
    if edges:
        moves[count:] = edges
    # The table takes the moves of each state side by side.
    order = np.argsort(moves[:, 0], kind="stable")
    return table.add_overlays_from_edges(nodes[:, CONTENT_ROW], moves[order])


def _depth(nodes: NDArray[np.int32], node: int) -> int:
    """Return the number of bytes from the root of the trie to a node."""
    depth = 0
    while node:
        node = int(nodes[node, PARENT])
        depth += 1
    return depth


def overlay_strings(
    chains: ChainBuilder, start: int, infinite: NDArray[np.bool_], texts: Mapping[str, int]
) -> int | None:
    """Add listed strings as overlays on a block of strings; return the state after the quote.

    The block begins at ``start``. ``texts`` has the label of each text, DEAD if it is forbidden.
    ``None`` if from a state of the block where a forbidden text ends only finitely many texts lead
    on (``infinite``, from ``start`` on): its closing quote might be the last edge.
    """
    table = chains.table
    spelled = [(json_literal(text)[1:], label) for text, label in texts.items()]
    trie = build_trie(table, table.step(start, _QUOTE), [text[:-1] for text, _ in spelled])
    forbidden = [
        node
        for (_, label), node in zip(spelled, trie.last_nodes, strict=True)
        if label == DEAD and node >= 0
    ]
    if not infinite[trie.nodes[forbidden, CONTENT_ROW] - start].all():
        return None
    first = add_overlay(chains, trie, spelled)
    # The shortest way on was that of the states under the overlay, which it may have closed.
    table.recompute_next_bytes(range(first, first + len(trie.nodes)))
    return first
