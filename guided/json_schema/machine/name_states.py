"""States that spell the names of an object's members."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.exit_actions import ExitActions, KeyClass
from guided.json_schema.machine.name_classes import NameSpace
from guided.json_schema.machine.name_trie import BYTE, PARENT, UNDER, spread_names
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.spelled_texts import Chain, Chains
from guided.machine.block import Block, block_of
from guided.machine.table import IN_KEY, IN_RARE_KEY, KEY_CLOSED, NO_BOUND
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.regular.reachability import count_texts
from guided.runtime.fuel import pause_if_due, without_gil

__all__ = ["NameStates"]

_TEXT: Final = attrgetter("text")
_QUOTE: Final = ord('"')


class NameStates:
    """States after the opening quote of a name, up to its closing quote.

    The states of one name are laid down once and joined to others only where names begin alike.
    If names are free, the states of all names that the schema spells out lie over those of any
    name; the stack knows which of them may still be written. All rows are those of one machine and
    are never dropped; keys of the caches contain all that the rows depend on.
    """

    def __init__(self, chains: Chains, labels: ExitActions) -> None:
        self.chains = chains
        self.table = chains.table
        self.labels = labels
        self._chains_of: dict[str, Chain] = {}
        # Caches; the states of free names, their content, are known by the first of them.
        self._closed: dict[tuple[str, ...], int] = {}
        self._open: dict[tuple[int, tuple[str, ...], frozenset[str]], int] = {}
        """By content, the names spelled out, and those of them outside that may stand."""
        self._outsides: dict[tuple[int, tuple[str, ...]], frozenset[str]] = {}
        self._contents: dict[tuple[int, frozenset[int]], int] = {}
        """By the identity of a space and classes of it."""

    def closed(self, names: tuple[str, ...]) -> int:
        """Return the state after the quote where one of these names has to follow.

        ``names`` is not empty; its order does not matter but is part of the key.
        """
        found = self._closed.get(names)
        if found is None:
            chains = self._chains(names)
            chains.sort(key=_TEXT)
            found = self._closed[names] = self.chains.branch(tuple(chains), 0)
        return found

    def _chains(self, names: Sequence[str]) -> list[Chain]:
        """Return the states of names, with their closing quotes.

        In the order of ``names``. The list is new each time, so callers may sort it.
        """
        unknown = [name for name in names if name not in self._chains_of]
        if unknown:
            texts = [(json_key(name)[1:], self.labels.of_key(name)) for name in unknown]
            laid = self.chains.chains(texts)
            self._chains_of.update(zip(unknown, laid, strict=True))
        return [self._chains_of[name] for name in names]

    def open(
        self,
        space: NameSpace,
        allowed: frozenset[int],
        spelled: tuple[str, ...],
        candidates: tuple[str, ...],
    ) -> int:
        """Return the state after the quote where any name of the classes ``allowed`` may follow.

        ``spelled`` are the names that the schema spells out, ``candidates`` those of them that may
        still be written.
        """
        content = self._content(space, allowed)
        outside = self._outside(content, spelled)
        # Names that the states of free names do not spell are laid down only while they may stand.
        apart = outside.intersection(candidates) if outside else outside
        key = (content, spelled, apart)
        if key not in self._open:
            inside = [name for name in spelled if name in apart or name not in outside]
            self._open[key] = self._overlay(content, inside)
        return self._open[key]

    def _outside(self, content: int, names: tuple[str, ...]) -> frozenset[str]:
        """Return the names that the states of the content do not spell.

        Results are kept by content and names: rows that were laid down never change.
        """
        found = self._outsides.get((content, names))
        if found is None:
            tree = self._spread(content, names)
            found = frozenset(
                name for name, place in zip(names, tree.places, strict=True) if place < 0
            )
            self._outsides[content, names] = found
        return found

    def _spread(self, content: int, names: Sequence[str]) -> _Tree:
        """Return the trie of names over the states of the content.

        It reads the table and lays nothing down. Nodes are numbered parents first; ``text`` has one
        byte more than the names, so that ``nodes`` has a row for the root.
        """
        keys = [json_key(name)[1:-1] for name in names]
        text = np.frombuffer(b"".join(keys) + b"\0", dtype=np.uint8)
        ends = np.array(list(accumulate(map(len, keys))), dtype=np.int32)
        nodes = np.empty((len(text), 5), dtype=np.int32)
        places = np.empty(len(names), dtype=np.int32)
        table = self.table
        count = spread_names(
            *(table.rows, table.cells, table.byte_maps, content, text, ends, nodes, places)
        )
        return _Tree(nodes[:count], places.tolist())

    def _overlay(self, content: int, names: Sequence[str]) -> int:
        """Lay names over the states of the content: a trie whose nodes lie over what they spell.

        The closing quote of a name leads to its exit action; a name that leaves the content
        continues in separate states.
        """
        nodes, places = self._spread(content, names)
        edges: list[tuple[int, int, int]] = []
        leaving: dict[int, list[str]] = {}
        exits = self.chains.exit_states([self.labels.of_key(name) for name in names])
        for name, place, end in zip(names, places, exits, strict=True):
            if place >= 0:
                edges.append((place, _QUOTE, end))
            else:
                leaving.setdefault(-1 - place, []).append(name)
        for node, left in leaving.items():
            ways = self._leaving(_depth(nodes, node), left)
            edges += [(node, byte, state) for byte, state in ways.items()]
        # Node ``n`` will be row ``num_rows + n``: from here on no other row may be laid down.
        count = len(nodes) - 1
        moves = np.empty((count + len(edges), 3), dtype=np.int32)
        moves[:count, :2] = nodes[1:, PARENT : BYTE + 1]
        moves[:count, 2] = self.table.num_rows + np.arange(1, len(nodes))
        if edges:
            moves[count:] = edges
        # The table takes the moves of each state side by side.
        order = np.argsort(moves[:, 0], kind="stable")
        return self.table._add_overlays(nodes[:, UNDER], moves[order])

    def _leaving(self, depth: int, names: Sequence[str]) -> dict[int, int]:
        """Return the states after the byte at ``depth`` where names leave the trie, by byte."""
        groups: dict[int, list[Chain]] = {}
        for chain in sorted(self._chains(names), key=_TEXT):
            groups.setdefault(chain.text[depth], []).append(chain)
        return {byte: self.chains.branch(tuple(g), depth + 1) for byte, g in groups.items()}

    def _content(self, space: NameSpace, allowed: frozenset[int]) -> int:
        """Return the first of the states of any name of some classes.

        One of the classes has a name that can be spelled, since other methods allow only those.
        """
        key = (id(space), allowed)  # ``MemberRules`` keeps each space as long as this is here
        if key not in self._contents:
            block = space.block(allowed)
            assert block is not None, allowed
            closed, role, ends = _with_closing_quotes(block)
            labels = {number: self.labels.number(KeyClass(number)) for number in closed.verdicts}
            self._contents[key] = self.table.add_block(closed, labels, role, ends)
        return self._contents[key]


class _Tree(NamedTuple):
    """A trie of names."""

    nodes: NDArray[np.int32]
    """int32 ``[nodes, 5]``: the state that lies under each, its parent and the byte after that, its
    first child and its next sibling, 0 for none."""
    places: list[int]
    """The node where each name ends, or ``-1 - node`` where it leads out of the states below."""


def _depth(nodes: NDArray[np.int32], node: int) -> int:
    """Return the number of bytes from the root of the trie to a node."""
    depth = 0
    while node:
        node = int(nodes[node, PARENT])
        depth += 1
    return depth


@functools.lru_cache(maxsize=4)
def _with_closing_quotes(
    content: Block,
) -> tuple[Block, NDArray[np.int8], NDArray[np.int64]]:
    """Return the block with a quote after each text, which leads to one more state per label.

    Returns the block, and by state the role and how many names it can still become, NO_BOUND for
    infinitely many; both as ``TransitionTable.add_block`` takes them.
    """
    # A quote that the names themselves read (after a backslash) shares the new class of the quote.
    dfa = content.dfa
    pause_if_due()
    count, width = dfa.next.shape
    numbers = np.unique(dfa.label[dfa.label != DEAD])
    byte_class = dfa.byte_class.copy()
    table = np.full((count + len(numbers), width + 1), DEAD, dtype=np.int32)
    table[:count, :width] = dfa.next
    closing = count + np.searchsorted(numbers, dfa.label)
    escaped = dfa.next[:, byte_class[_QUOTE]]
    table[:count, width] = np.where(dfa.label != DEAD, closing, escaped)
    byte_class[_QUOTE] = width
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[count:] = numbers
    closed = block_of(ByteDfa(byte_class, table, label), verdicts=tuple(numbers.tolist()))
    with without_gil(table.size // 16):
        ends = count_texts(table, byte_class, label != DEAD, NO_BOUND)
    role = np.where(ends < NO_BOUND, IN_RARE_KEY, IN_KEY).astype(np.int8)
    role[count:] = KEY_CLOSED
    return closed, role, ends
