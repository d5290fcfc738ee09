"""Rows that spell texts given in full: each laid down once, joined where they begin alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from guided.recognizer.table import TransitionTable

__all__ = ["Chain", "Chains"]


class Chain:
    """The rows of one text; there is one for each text and label."""

    __slots__ = ("label", "row", "text")

    def __init__(self, text: bytes, label: int, row: int) -> None:
        self.text: Final = text
        self.label: Final = label
        self.row: Final = row
        """Where nothing of the text was read; one row further for every byte."""


_Group: TypeAlias = tuple[Chain, ...]


class Chains:
    """Lays down texts that end in a label."""

    def __init__(self, table: TransitionTable, exit_row: Callable[[int], int]) -> None:
        self.table = table
        self.exit_row = exit_row
        self._chains: dict[tuple[bytes, int], Chain] = {}
        self._branches: dict[tuple[_Group, int], int] = {}

    def one_of(self, texts: Iterable[tuple[bytes, int]]) -> int:
        """The row from which one of the texts has to follow, each with its label.

        No text is the beginning of another.
        """
        return self.branch(tuple(self.chain(*each) for each in sorted(texts)), 0)

    def chain(self, text: bytes, label: int) -> Chain:
        """The rows of one text."""
        found = self._chains.get((text, label))
        if found is None:
            row = self.table.add_chain(text, self.exit_row(label), label)
            found = self._chains[text, label] = Chain(text, label, row)
        return found

    def branch(self, chains: _Group, depth: int) -> int:
        """A row behind ``depth`` bytes that all the chains have in common; chains are sorted."""
        if len(chains) == 1:
            return chains[0].row + depth
        # Texts may have very much in common, so a stack of our own stands for recursion.
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
        """The branches behind the next byte that are still to be laid down."""
        inner = [(group, depth + 1) for _, group in _parted(chains, depth) if len(group) > 1]
        return [at for at in inner if at not in self._branches]

    def _branch(self, chains: _Group, depth: int) -> int:
        edges: dict[int, int] = {}
        for byte, group in _parted(chains, depth):
            first = group[0]
            if depth + 1 == len(first.text):
                edges[byte] = self.exit_row(first.label)
            elif len(group) == 1:
                edges[byte] = first.row + depth + 1
            else:
                edges[byte] = self._branches[group, depth + 1]
        return self.table.add_row(edges)


def _parted(chains: _Group, depth: int) -> Iterator[tuple[int, _Group]]:
    """Sorted chains by the byte at ``depth``."""
    start = 0
    while start < len(chains):
        byte, end = chains[start].text[depth], start + 1
        while end < len(chains) and chains[end].text[depth] == byte:
            end += 1
        yield byte, chains[start:end]
        start = end
