"""Deterministic automata over bytes: the form that recognisers read."""

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
from guided.regular.dfa import DEAD, Dfa
from guided.regular.equal_columns import group_columns
from guided.regular.reachability import coaccessible
from guided.regular.utf8 import ByteRanges
from guided.runtime.work_budget import pause_if_due, spend, without_gil

__all__ = [
    "MAX_BLOCK_CELLS",
    "ByteDfa",
    "append_bytes",
    "byte_dfa_from_dfa",
]

MAX_BLOCK_CELLS: Final = 8_000_000
"""Most cells of a table over bytes, of 4 bytes each."""
Spelling = Callable[[int, int], Iterator[ByteRanges]]
"""Yields the spellings of the code points from a first to a last one, as ``utf8_sequences`` does.
Results are cached by the arguments, so they must depend only on them. Where two spellings first
differ, their ranges of bytes must be disjoint: ``_build_template`` makes a trie of them."""


class ByteDfa:
    """A trimmed automaton over bytes; state 0 starts, and every state can still accept.

    ``byte_class`` is uint8 ``[256]``, ``next`` is int32 ``[states, classes]`` with DEAD for no
    move. ``label`` is int32 ``[states]``: DEAD if a state does not accept, else what it accepts
    as. The first ``num_boundary_states`` states, by default all, stand between two code points, the
    others inside one. None of the arrays may be changed: automata share them.
    """

    __slots__ = ("byte_class", "label", "next", "num_boundary_states")

    def __init__(
        self,
        byte_class: NDArray[np.uint8],
        next: NDArray[np.int32],
        label: NDArray[np.int32],
        num_boundary_states: int = sys.maxsize,
    ) -> None:
        self.byte_class: Final = byte_class
        self.next: Final = next
        self.label: Final = label
        self.num_boundary_states: Final = min(num_boundary_states, len(label))

    def __len__(self) -> int:
        return len(self.label)

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

    def keep_labels(self, labels: Collection[int]) -> ByteDfa:
        """Return the automaton of the texts that are accepted with one of these labels.

        It is trimmed but not minimal: states that differed only by their labels stay separate.
        """
        kept = np.where(np.isin(self.label, list(labels)), self.label, DEAD).astype(np.int32)
        return _trim(self.byte_class, self.next, kept, self.num_boundary_states)

    def check(self) -> None:
        """Raise AssertionError unless the automaton is well formed and trimmed."""
        assert self.next.shape[0] == len(self)
        assert int(self.byte_class.max(initial=0)) < max(self.next.shape[1], 1)
        assert coaccessible(self.next, self.label != DEAD).all(), "not trimmed"


def byte_dfa_from_dfa(
    dfa: Dfa, spelling: Spelling, unavailable_bytes: Collection[int] = ()
) -> ByteDfa:
    """Return ``dfa`` over bytes: each code point is spelled as ``spelling`` says.

    Texts with one of the ``unavailable_bytes``, which a vocabulary may lack, are not accepted.
    States between code points keep their order; those that cannot accept without such a byte are
    removed. Raises LimitExceededError past MAX_BLOCK_CELLS.
    """
    if not len(dfa):
        return _empty_automaton()
    template, byte_class = _build_template(dfa.classes, spelling, frozenset(unavailable_bytes))
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
    return _trim(byte_class, table, label, len(dfa))


def append_bytes(suffix: bytes, texts: ByteDfa) -> ByteDfa:
    """Return the automaton of the texts followed by ``suffix``, all accepted as 0.

    ``suffix`` is not empty, and its first byte must occur in none of the texts. The new states are
    no boundary states, so that counts of code points leave the suffix out.
    """
    if not len(texts):
        return texts
    classes, size = texts.byte_class.copy(), len(texts)
    columns = [*range(texts.next.shape[1])]
    for byte in {*suffix}:
        # Bytes of its class now lead elsewhere than this one; if it is alone, it keeps the class.
        if np.count_nonzero(classes == classes[byte]) > 1:
            columns.append(int(classes[byte]))
            classes[byte] = len(columns) - 1
    assert (texts.next[:, texts.byte_class[suffix[0]]] == DEAD).all(), (
        "the suffix begins within a text"
    )
    added = np.full((len(suffix), len(columns)), DEAD, dtype=np.int32)
    table = np.vstack([texts.next[:, columns], added])
    table[np.flatnonzero(texts.label != DEAD), classes[suffix[0]]] = size
    for place, byte in enumerate(suffix[1:]):
        table[size + place, classes[byte]] = size + place + 1
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[-1] = 0
    return ByteDfa(classes, table, label, texts.num_boundary_states)


@functools.lru_cache(maxsize=256)
def _build_template(
    classes: tuple[CodePoints, ...], spelling: Spelling, unavailable_bytes: frozenset[int]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the trie of all spellings, as ``spell_in_bytes`` takes it, and the class of each byte.

    Spellings with one of the ``unavailable_bytes`` are left out. Node 0 comes first; every other
    node follows those that it leads to, and equal ones are one. Cached.
    """
    sequences = [
        (sequence, FIRST_CLASS - number)
        for number, chars in enumerate(classes)
        for low, high in chars.ranges
        for sequence in _spell_range(spelling, low, high)
    ]
    spend(len(sequences))
    trie = _SpellingTrie(unavailable_bytes)
    trie.rows[0] = trie.row_of(sequences)
    stacked = np.array(trie.rows, dtype=np.int32)
    byte_class, representative = group_columns(stacked)
    template = np.ascontiguousarray(stacked[:, representative])
    # Both are cached, and shared by all automata of these classes.
    template.flags.writeable = byte_class.flags.writeable = False
    return template, byte_class


class _SpellingTrie:
    """The trie of the spellings of classes of code points, in which equal nodes are one."""

    def __init__(self, unavailable_bytes: frozenset[int]) -> None:
        self.rows: list[tuple[int, ...]] = [()]
        """By node; node 0 is the first, whose row is set last."""
        self._unavailable_bytes = unavailable_bytes
        self._numbers: dict[tuple[int, ...], int] = {}
        """The number of each node by its row."""

    def row_of(self, entries: Sequence[tuple[ByteRanges, int]]) -> tuple[int, ...]:
        """Return the row of a node: for each byte the class of code points it ends, or a node."""
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
            row[low : high + 1] = [self._number_of(group)] * (high + 1 - low)
        for byte in self._unavailable_bytes:
            row[byte] = DEAD
        return tuple(row)

    def _number_of(self, entries: Sequence[tuple[ByteRanges, int]]) -> int:
        """Return the number of the node with these spellings, after those it leads to; never 0."""
        row = self.row_of(entries)
        number = self._numbers.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number


@functools.lru_cache(maxsize=4096)
def _spell_range(spelling: Spelling, low: int, high: int) -> tuple[ByteRanges, ...]:
    return tuple(spelling(low, high))


def _empty_automaton() -> ByteDfa:
    return ByteDfa(
        np.zeros(256, dtype=np.uint8), np.empty((0, 1), np.int32), np.empty(0, np.int32), 0
    )


def _trim(
    byte_class: NDArray[np.uint8],
    table: NDArray[np.int32],
    label: NDArray[np.int32],
    num_boundary_states: int,
) -> ByteDfa:
    """Return the automaton without states that cannot accept, such as unavailable bytes leave.

    States keep their order: those left of the first ``num_boundary_states`` come first.
    """
    with without_gil(table.size // 64):
        alive = coaccessible(table, label != DEAD)
    live = np.nonzero(alive)[0]
    if len(live) == len(label):
        return ByteDfa(byte_class, table, label, num_boundary_states)
    if not len(live) or live[0] != 0:
        return _empty_automaton()
    # DEAD is -1, so it reads the last entry, which is DEAD: no move stays no move.
    renumber = np.full(len(label) + 1, DEAD, dtype=np.int32)
    renumber[live] = np.arange(len(live), dtype=np.int32)
    num_boundary = int(np.searchsorted(live, num_boundary_states))
    return ByteDfa(byte_class, renumber[table[live]], label[live], num_boundary)
