"""The rows in which the next member of an object is due, where its key may be any string."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa, byte_dfa_from_rows
from guided.recognizer.labels import FREE_KEY
from guided.recognizer.scalars import string_content
from guided.recognizer.table import DEAD, IN_KEY, KEY_CLOSED, PLAIN

__all__ = ["FreeMembers"]


class FreeMembers:
    """Members whose keys are free, but for the named ones.

    The trie of the named keys lies over the automaton of any string: a state of the trie is a copy
    of the string's state with some bytes leading deeper into the trie. A key that ends in a node of
    the trie is named; if its label is DEAD it must not be written here.
    """

    def __init__(self, named: Mapping[bytes, int], missing: frozenset[int]) -> None:
        self.content = string_content(missing)
        self.rows: list[NDArray[np.int32]] = []
        self.labels: list[int] = []
        self.roles: list[int] = []
        self.start = self._add()  # filled in by block()
        self.key_start = self._trie(named, self._content_rows())

    def _add(
        self, row: NDArray[np.int32] | None = None, label: int = DEAD, role: int = PLAIN
    ) -> int:
        self.rows.append(np.full(256, DEAD, dtype=np.int32) if row is None else row)
        self.labels.append(label)
        self.roles.append(role)
        return len(self.rows) - 1

    def _closing(self, label: int, role: int) -> int:
        """The state behind the closing quote: a colon, then ``label``."""
        row = np.full(256, DEAD, dtype=np.int32)
        row[ord(":")] = self._add(label=label)
        return self._add(row, role=role)

    def _content_rows(self) -> list[NDArray[np.int32]]:
        """The states of the content, closed by a quote where the content may end."""
        closed = self._closing(FREE_KEY, KEY_CLOSED)
        base = len(self.rows)
        inner = self.content.next[:, self.content.byte_class]
        inner = np.where(inner == DEAD, DEAD, inner + base).astype(np.int32)
        for state, row in enumerate(inner):
            if self.content.label[state] != DEAD:
                row[ord('"')] = closed
            self._add(row, role=IN_KEY)
        return self.rows[base:]

    def _trie(self, named: Mapping[bytes, int], free: list[NDArray[np.int32]]) -> int:
        """Lay the named keys over the rows ``free`` of the content; returns the trie's root."""
        root = self._add(free[0].copy(), role=IN_KEY)
        nodes: dict[bytes, tuple[int, int]] = {b"": (root, 0)}
        for key, label in named.items():
            text = key[1:-1]
            for end in range(1, len(text) + 1):
                if text[:end] in nodes:
                    continue
                parent, state = nodes[text[: end - 1]]
                state = self.content.step(state, text[end - 1])
                if state == DEAD:
                    break
                node = self._add(free[state].copy(), role=IN_KEY)
                self.rows[parent][text[end - 1]] = node
                nodes[text[:end]] = (node, state)
            else:
                closed = DEAD if label == DEAD else self._closing(label, PLAIN)
                self.rows[nodes[text][0]][ord('"')] = closed
        return root

    def block(
        self, literals: list[tuple[bytes, int]], *, comma: bool
    ) -> tuple[ByteDfa, NDArray[np.int8]]:
        """The automaton, with a closing brace where ``literals`` holds one, and its roles."""
        quote = self._add()
        self.rows[quote][ord('"')] = self.key_start
        if comma:
            self.rows[self.start][ord(",")] = quote
        else:
            self.rows[self.start][ord('"')] = self.key_start
        for text, label in literals:
            self.rows[self.start][text[0]] = self._add(label=label)
        block = byte_dfa_from_rows(np.stack(self.rows), np.array(self.labels, dtype=np.int32))
        assert len(block) == len(self.rows), "a state of a free key leads nowhere"
        return block, np.array(self.roles, dtype=np.int8)
