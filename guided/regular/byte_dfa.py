"""Deterministic automata over bytes, the form in which regular parts reach a recogniser."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.byte_layout import FIRST_CLASS, spell_in_bytes
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, transition_table
from guided.regular.equal_columns import equal_columns
from guided.regular.reachability import coaccessible
from guided.regular.utf8 import ByteRanges
from guided.runtime.fuel import pause_if_due, spend, without_gil

__all__ = [
    "MAX_BLOCK_CELLS",
    "ByteDfa",
    "byte_classes",
    "byte_dfa_from_dfa",
    "followed_by",
]

MAX_BLOCK_CELLS: Final = 8_000_000
"""Cells of a table over bytes, of 4 bytes each."""
Spelling = Callable[[int, int], Iterator[ByteRanges]]
"""The spellings of the code points from a first to a last one, such as ``utf8_sequences``. The
result is kept by its arguments, so it must depend only on them. If the spellings of two ranges
first differ, they must agree on no byte: ``_template`` makes a trie of them."""


class ByteDfa:
    """A trimmed automaton over bytes; state 0 starts, and every state can still accept.

    ``byte_class`` is uint8 ``[256]``, ``next`` is int32 ``[states, classes]`` with DEAD for no
    move. ``label`` is int32 ``[states]``: DEAD if a state does not accept, else what it accepts
    as. The first ``between`` states, by default all, stand between two code points, the others
    inside one. None of the arrays may be changed: automata share them.
    """

    __slots__ = ("between", "byte_class", "label", "next")

    def __init__(
        self,
        byte_class: NDArray[np.uint8],
        next: NDArray[np.int32],
        label: NDArray[np.int32],
        between: int = sys.maxsize,
    ) -> None:
        self.byte_class: Final = byte_class
        self.next: Final = next
        self.label: Final = label
        self.between: Final = min(between, len(label))

    def __len__(self) -> int:
        return len(self.label)

    def __str__(self) -> str:
        classes = range(self.next.shape[1])
        heads = [_shown(np.flatnonzero(self.byte_class == index).tolist()) for index in classes]
        return transition_table(heads, self.next, self.label)

    @property
    def nbytes(self) -> int:
        """Memory of the table, in bytes."""
        return self.next.nbytes + self.label.nbytes + self.byte_class.nbytes

    def step(self, state: int, byte: int) -> int:
        """Return the state after ``byte``, or DEAD."""
        return int(self.next[state, self.byte_class[byte]])

    def run(self, text: bytes) -> int | None:
        """Return the label as which the whole text is accepted, or ``None``."""
        state = 0 if len(self) else DEAD
        for byte in text:
            if state == DEAD:
                return None
            state = self.step(state, byte)
        return None if state == DEAD or self.label[state] == DEAD else int(self.label[state])

    def keep(self, labels: Collection[int]) -> ByteDfa:
        """Return the automaton of the texts that are accepted as one of these labels.

        It is only trimmed: states that differed only by their labels stay separate.
        """
        kept = np.where(np.isin(self.label, list(labels)), self.label, DEAD).astype(np.int32)
        return _trimmed(self.byte_class, self.next, kept, self.between)

    def check(self) -> None:
        """Raise AssertionError unless the automaton is well formed and trimmed."""
        assert self.next.shape[0] == len(self)
        assert int(self.byte_class.max(initial=0)) < max(self.next.shape[1], 1)
        assert coaccessible(self.next, self.label != DEAD).all(), "not trimmed"


def _shown(members: list[int]) -> str:
    """Return bytes as hexadecimal ranges: ``61-7A,C3``."""
    ranges: list[list[int]] = []
    for byte in members:
        if ranges and ranges[-1][1] + 1 == byte:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    return ",".join(f"{a:02X}" if a == b else f"{a:02X}-{b:02X}" for a, b in ranges)


def byte_dfa_from_dfa(dfa: Dfa, spelling: Spelling, missing: Collection[int] = ()) -> ByteDfa:
    """Spell every code point of ``dfa`` in bytes, without those that a vocabulary lacks.

    The classes are spelled once, as a template that every state follows; rows inside a code point
    that lead to the same places are laid down once. States keep their order; those that only
    missing bytes led to an end drop out. Raises LimitExceededError past MAX_BLOCK_CELLS.
    """
    if not len(dfa):
        return _empty()
    template, byte_class = _template(dfa.classes, spelling, frozenset(missing))
    with without_gil(dfa.next.size + len(dfa) * template.size // 64):
        table = spell_in_bytes(dfa.next, template, MAX_BLOCK_CELLS)
    if table is None:
        raise LimitExceededError(
            f"its automaton over bytes needs more than {MAX_BLOCK_CELLS} cells",
            limit=MAX_BLOCK_CELLS,
            hint="lower the bound on the length",
        )
    spend(table.size // 8)
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[: len(dfa)] = dfa.label
    return _trimmed(byte_class, table, label, len(dfa))


def followed_by(end: bytes, texts: ByteDfa) -> ByteDfa:
    """Return the texts with ``end`` after them, whose first byte occurs in none of them."""
    if not len(texts):
        return texts
    classes, table, size = texts.byte_class.copy(), texts.next, len(texts)
    for byte in {*end}:
        # Bytes of its class now lead elsewhere than this one; if it is alone, it keeps the class.
        if np.count_nonzero(classes == classes[byte]) > 1:
            table = np.hstack([table, table[:, classes[byte]][:, None]])
            classes[byte] = table.shape[1] - 1
    assert (texts.next[:, texts.byte_class[end[0]]] == DEAD).all(), "the end begins within a text"
    table = np.vstack([table, np.full((len(end), table.shape[1]), DEAD, dtype=np.int32)])
    table[np.flatnonzero(texts.label != DEAD), classes[end[0]]] = size
    for place, byte in enumerate(end[1:]):
        table[size + place, classes[byte]] = size + place + 1
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[-1] = 0
    return ByteDfa(classes, table, label, texts.between)


@functools.lru_cache(maxsize=256)
def _template(
    classes: tuple[CodePoints, ...], spelling: Spelling, missing: frozenset[int]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the trie of all spellings, as ``laid_out`` takes it, and the class of each byte; kept.

    Node 0 comes first; every other node follows those that it leads to, and equal ones are one.
    """
    sequences = [
        (sequence, FIRST_CLASS - number)
        for number, chars in enumerate(classes)
        for low, high in chars.ranges
        for sequence in _spelled(spelling, low, high)
    ]
    spend(len(sequences))
    rows: list[tuple[int, ...]] = [()]
    numbers: dict[tuple[int, ...], int] = {}

    def node(entries: Sequence[tuple[ByteRanges, int]]) -> tuple[int, ...]:
        """Return the row of a node: per byte a class of code points that ends there, or a node."""
        pause_if_due()
        row = [DEAD] * 256
        groups: dict[tuple[int, int], list[tuple[ByteRanges, int]]] = {}
        for sequence, target in entries:
            low, high = sequence[0]
            if len(sequence) > 1:
                groups.setdefault((low, high), []).append((sequence[1:], target))
            else:
                row[low : high + 1] = [target] * (high + 1 - low)
        for (low, high), group in groups.items():
            row[low : high + 1] = [number(group)] * (high + 1 - low)
        for byte in missing:
            row[byte] = DEAD
        return tuple(row)

    def number(entries: Sequence[tuple[ByteRanges, int]]) -> int:
        """Return the number of the node with these spellings, after those it leads to; never 0."""
        row = node(entries)
        known = numbers.setdefault(row, len(rows))
        if known == len(rows):
            rows.append(row)
        return known

    rows[0] = node(sequences)
    stacked = np.array(rows, dtype=np.int32)
    byte_class, representative = byte_classes(stacked)
    template = np.ascontiguousarray(stacked[:, representative])
    # Both are kept, and shared by all automata of these classes.
    template.flags.writeable = byte_class.flags.writeable = False
    return template, byte_class


@functools.lru_cache(maxsize=4096)
def _spelled(spelling: Spelling, low: int, high: int) -> tuple[ByteRanges, ...]:
    return tuple(spelling(low, high))


def byte_classes(rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return the class of each byte, uint8 ``[256]``, and a byte of each: equal columns are one."""
    byte_class, representative = equal_columns(np.ascontiguousarray(rows))
    return byte_class, representative.tolist()


def _empty() -> ByteDfa:
    return ByteDfa(
        np.zeros(256, dtype=np.uint8), np.empty((0, 1), np.int32), np.empty(0, np.int32), 0
    )


def _trimmed(
    byte_class: NDArray[np.uint8],
    table: NDArray[np.int32],
    label: NDArray[np.int32],
    between: int,
) -> ByteDfa:
    """Return the automaton without states that cannot accept, which removing bytes may have made.

    States keep their order, and what is left of the first ``between`` comes first.
    """
    with without_gil(table.size // 64):
        alive = coaccessible(table, label != DEAD)
    live = np.nonzero(alive)[0]
    if len(live) == len(label):
        return ByteDfa(byte_class, table, label, between)
    if not len(live) or live[0] != 0:
        return _empty()
    # One more entry, which DEAD (-1) finds from the end: no move stays no move.
    renumber = np.full(len(label) + 1, DEAD, dtype=np.int32)
    renumber[live] = np.arange(len(live), dtype=np.int32)
    inside = int(np.searchsorted(live, between))
    return ByteDfa(byte_class, renumber[table[live]], label[live], inside)
