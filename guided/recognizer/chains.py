"""Rows that spell texts given in full: each laid down once, joined where they begin alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from guided.recognizer.table import TransitionTable

__all__ = ["Chain", "Chains"]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The rows of one text; there is one for each text and label."""

    text: bytes
    label: int
    row: int
    """Where nothing of the text was read; one row further for every byte."""


class Chains:
    """Lays down texts that end in a label."""

    def __init__(self, table: TransitionTable, exit_row: Callable[[int], int]) -> None:
        self.table = table
        self.exit_row = exit_row
        self._chains: dict[tuple[bytes, int], Chain] = {}
        self._branches: dict[tuple[tuple[Chain, ...], int], int] = {}

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

    def branch(self, chains: tuple[Chain, ...], depth: int) -> int:
        """A row behind ``depth`` bytes that all the chains have in common; chains are sorted."""
        if len(chains) == 1:
            return chains[0].row + depth
        row = self._branches.get((chains, depth))
        if row is None:
            row = self._branches[chains, depth] = self._branch(chains, depth)
        return row

    def _branch(self, chains: tuple[Chain, ...], depth: int) -> int:
        edges: dict[int, int] = {}
        start = 0
        while start < len(chains):
            first = chains[start]
            byte, end = first.text[depth], start + 1
            while end < len(chains) and chains[end].text[depth] == byte:
                end += 1
            if depth + 1 == len(first.text):
                edges[byte] = self.exit_row(first.label)
            else:
                edges[byte] = self.branch(chains[start:end], depth + 1)
            start = end
        return self.table.add_row(edges)
