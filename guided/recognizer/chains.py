"""Rows that spell texts given in full: each laid down once, joined where they begin alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from guided.recognizer.table import TransitionTable

__all__ = ["Chain", "Chains"]


class Chain(NamedTuple):
    """The rows of one text."""

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
        self._joined: dict[tuple[tuple[bytes, int], ...], int] = {}

    def one_of(self, texts: Iterable[tuple[bytes, int]]) -> int:
        """The row from which one of the texts has to follow, each with its label.

        No text is the beginning of another.
        """
        key = tuple(sorted(texts))
        if key not in self._joined:
            self._joined[key] = self.branch([self.chain(*each) for each in key], 0)
        return self._joined[key]

    def chain(self, text: bytes, label: int) -> Chain:
        """The rows of one text."""
        found = self._chains.get((text, label))
        if found is None:
            row = self.table.add_chain(text, self.exit_row(label), label)
            found = self._chains[text, label] = Chain(text, label, row)
        return found

    def branch(self, chains: Sequence[Chain], depth: int) -> int:
        """A row behind ``depth`` bytes that all the chains have in common; chains are sorted."""
        if len(chains) == 1:
            return chains[0].row + depth
        edges: dict[int, int] = {}
        start = 0
        for end in range(1, len(chains) + 1):
            byte = chains[start].text[depth]
            if end < len(chains) and chains[end].text[depth] == byte:
                continue
            group = chains[start:end]
            if depth + 1 < len(group[0].text):
                edges[byte] = self.branch(group, depth + 1)
            else:
                edges[byte] = self.exit_row(group[0].label)
            start = end
        return self.table.add_row(edges)
