"""Rows that spell the names of an object's members."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa
from guided.automata.dfa import DEAD
from guided.automata.reachability import count_texts
from guided.recognizer.block import Block, block_of
from guided.recognizer.chains import Chain, Chains
from guided.recognizer.labels import Key, KeyClass, Labels
from guided.recognizer.names import NameSpace
from guided.recognizer.scalars import json_key
from guided.recognizer.table import (
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    NO_BOUND,
    TransitionTable,
)

__all__ = ["MemberRows"]

_TEXT = attrgetter("text")


class MemberRows:
    """Rows behind the opening quote of a name, up to its closing quote.

    The rows of one name are laid down once and joined to others only where names begin alike. Where
    names are free, the rows of all names that the schema spells out lie over those of any name;
    which of them may still be written the context knows.
    """

    def __init__(self, chains: Chains, labels: Labels) -> None:
        self.chains = chains
        self.table = chains.table
        self.labels = labels
        self._chains_of: dict[str, Chain] = {}
        self._closed: dict[tuple[str, ...], int] = {}
        self._open: dict[tuple[int, tuple[str, ...], frozenset[str]], int] = {}
        self._outsides: dict[tuple[int, tuple[str, ...]], frozenset[str]] = {}
        self._moves = _Moves(chains.table)
        self._contents: dict[tuple[int, frozenset[int]], int] = {}

    def closed(self, names: tuple[str, ...]) -> int:
        """The row behind the quote where one of these names has to follow."""
        found = self._closed.get(names)
        if found is None:
            chains = [self._chain(name) for name in names]
            chains.sort(key=_TEXT)
            found = self._closed[names] = self.chains.branch(tuple(chains), 0)
        return found

    def _chain(self, name: str) -> Chain:
        """The rows of a name, its closing quote included."""
        found = self._chains_of.get(name)
        if found is None:
            label = self.labels.number(Key(name))
            found = self._chains_of[name] = self.chains.chain(json_key(name)[1:], label)
        return found

    def open(
        self,
        space: NameSpace,
        allowed: frozenset[int],
        spelled: tuple[str, ...],
        candidates: tuple[str, ...],
    ) -> int:
        """The row behind the quote where any name of the classes ``allowed`` may follow.

        ``spelled`` are the names that the schema spells out, ``candidates`` those of them that may
        still be written.
        """
        content = self._content(space, allowed)
        outside = self._outside(content, spelled)
        apart = outside.intersection(candidates) if outside else outside
        key = (content, spelled, apart)
        if key not in self._open:
            inside = [name for name in spelled if name in apart or name not in outside]
            self._open[key] = self._overlay(content, inside)
        return self._open[key]

    def _outside(self, content: int, names: tuple[str, ...]) -> frozenset[str]:
        """The names that the rows of the content do not spell."""
        found = self._outsides.get((content, names))
        if found is None:
            found = frozenset(name for name in names if not self._lies_in(content, name))
            self._outsides[content, names] = found
        return found

    def _lies_in(self, content: int, name: str) -> bool:
        row = content
        for byte in json_key(name)[1:-1]:
            row = self._moves[row].get(byte, DEAD)
            if row == DEAD:
                return False
        return True

    def _overlay(self, content: int, names: Sequence[str]) -> int:
        """Lay names over the rows of the content: a trie whose nodes lie over what they spell."""
        under, depths = [content], [0]
        children: list[dict[int, int]] = [{}]
        edges: list[dict[int, int]] = [{}]
        leaving: dict[int, list[str]] = {}
        for name in names:
            node = 0
            for byte in json_key(name)[1:-1]:
                child = children[node].get(byte)
                if child is None:
                    row = self._moves[under[node]].get(byte, DEAD)
                    if row == DEAD:
                        leaving.setdefault(node, []).append(name)
                        break
                    child = children[node][byte] = len(under)
                    under.append(row)
                    depths.append(depths[node] + 1)
                    children.append({})
                    edges.append({})
                node = child
            else:
                edges[node][ord('"')] = self.chains.exit_row(self.labels.number(Key(name)))
        for node, left in leaving.items():
            edges[node].update(self._leaving(depths[node], left))
        first = self.table.num_rows
        for node, below in enumerate(children):
            for byte, child in below.items():
                edges[node][byte] = first + child
        return self.table.add_overlays(under, edges)

    def _leaving(self, depth: int, names: Sequence[str]) -> dict[int, int]:
        """Where names go on, behind ``depth`` bytes, that no other name begins with."""
        groups: dict[int, list[Chain]] = {}
        for chain in sorted(map(self._chain, names), key=_TEXT):
            groups.setdefault(chain.text[depth], []).append(chain)
        return {byte: self.chains.branch(tuple(g), depth + 1) for byte, g in groups.items()}

    def _content(self, space: NameSpace, allowed: frozenset[int]) -> int:
        """The rows of any name of some classes; the first of them."""
        key = (id(space), allowed)
        if key not in self._contents:
            block = space.block(allowed)
            assert block is not None, allowed
            closed, role, ends = _with_closing_quotes(block)
            labels = {number: self.labels.number(KeyClass(number)) for number in closed.verdicts}
            self._contents[key] = self.table.add_block(closed, labels, role, ends)
        return self._contents[key]


class _Moves(dict[int, dict[int, int]]):
    """The moves of rows, as they are asked for."""

    def __init__(self, table: TransitionTable) -> None:
        self.table = table

    def __missing__(self, row: int) -> dict[int, int]:
        found = self[row] = self.table.edges(row)
        return found


@functools.lru_cache(maxsize=4)
def _with_closing_quotes(
    content: Block,
) -> tuple[Block, NDArray[np.int8], NDArray[np.int64]]:
    """A quote behind every text of the block, and one more state for each label behind it.

    Also the role of each state, and how many names it can still become.
    """
    dfa = content.dfa
    count, width = dfa.next.shape
    numbers = np.unique(dfa.label[dfa.label != DEAD])
    byte_class = dfa.byte_class.copy()
    quote = ord('"')
    table = np.full((count + len(numbers), width + 1), DEAD, dtype=np.int32)
    table[:count, :width] = dfa.next
    closing = count + np.searchsorted(numbers, dfa.label)
    escaped = dfa.next[:, byte_class[quote]]
    table[:count, width] = np.where(dfa.label != DEAD, closing, escaped)
    byte_class[quote] = width
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[count:] = numbers
    closed = block_of(ByteDfa(byte_class, table, label), verdicts=tuple(numbers.tolist()))
    ends = count_texts(table, byte_class, label != DEAD, NO_BOUND)
    role = np.where(ends < NO_BOUND, IN_RARE_KEY, IN_KEY).astype(np.int8)
    role[count:] = KEY_CLOSED
    return closed, role, ends
