"""Deterministic automata over bytes, the form in which regular parts reach a recogniser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.automata.dfa import DEAD, Dfa
from guided.automata.fuel import spend
from guided.automata.reachability import coaccessible
from guided.automata.utf8 import ByteRanges
from guided.errors import LimitExceededError

__all__ = [
    "MAX_BLOCK_CELLS",
    "ByteDfa",
    "byte_dfa_from_dfa",
    "byte_dfa_from_literals",
    "byte_dfa_from_rows",
]

MAX_BLOCK_CELLS = 8_000_000
Spelling = Callable[[int, int], Iterator[ByteRanges]]


@dataclass(frozen=True, slots=True, eq=False)
class ByteDfa:
    """A trimmed automaton over bytes; state 0 starts, and every state can still accept.

    ``byte_class`` is uint8 ``[256]``, ``next`` is int32 ``[states, classes]`` with DEAD for no
    move. ``label`` is int32 ``[states]``: DEAD where a state does not accept, else what it accepts
    as (0 unless several literals are told apart).
    """

    byte_class: NDArray[np.uint8]
    next: NDArray[np.int32]
    label: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.label)

    @property
    def nbytes(self) -> int:
        """Memory of the table, in bytes."""
        return self.next.nbytes + self.label.nbytes + self.byte_class.nbytes

    def step(self, state: int, byte: int) -> int:
        """The state behind ``byte``, or DEAD."""
        return int(self.next[state, self.byte_class[byte]])

    def run(self, text: bytes) -> int | None:
        """The label that the whole text is accepted as, or ``None``."""
        state = 0 if len(self) else DEAD
        for byte in text:
            if state == DEAD:
                return None
            state = self.step(state, byte)
        return None if state == DEAD or self.label[state] == DEAD else int(self.label[state])

    def check(self) -> None:
        """Raise AssertionError unless the automaton is well formed and trimmed."""
        assert self.next.shape[0] == len(self)
        assert int(self.byte_class.max(initial=0)) < max(self.next.shape[1], 1)
        assert coaccessible(self.next, self.label != DEAD).all(), "not trimmed"


def byte_dfa_from_dfa(dfa: Dfa, spelling: Spelling, missing: Collection[int] = ()) -> ByteDfa:
    """Spell every code point of ``dfa`` in bytes, without those that a vocabulary misses.

    States with moves over the same ranges share one template, which is laid down for all of them
    at once: the work in Python grows with the number of templates, not of states.
    """
    blocks: dict[tuple[tuple[tuple[int, int], int], ...], list[int]] = {}
    targets_of: list[list[int]] = []
    spend(len(dfa) * len(dfa.classes))
    for state in range(len(dfa)):
        key, targets = _moves(dfa, state)
        blocks.setdefault(key, []).append(state)
        targets_of.append(targets)

    templates = {key: _template(key, spelling, missing) for key in blocks}
    stacked = np.concatenate([*templates.values(), np.full((1, 256), DEAD, dtype=np.int32)])
    byte_class, representative = _byte_classes(stacked)
    width = len(representative)

    count = len(dfa)
    cells = sum(len(templates[key]) * len(states) for key, states in blocks.items()) * width
    if cells > MAX_BLOCK_CELLS:
        raise LimitExceededError(
            f"its automaton over bytes needs {cells} cells, more than {MAX_BLOCK_CELLS}",
            limit=MAX_BLOCK_CELLS,
            hint="lower the bound on the length",
        )
    tables = [np.full((count, width), DEAD, dtype=np.int32)]
    used = count
    for key, states in blocks.items():
        template = templates[key][:, representative]  # [nodes, classes]
        nodes = len(template)
        slots = np.array([targets_of[state] for state in states], dtype=np.int32)
        slots = slots.reshape(len(states), -1)
        base = used + np.arange(len(states), dtype=np.int32) * (nodes - 1)
        # Node 0 of a copy is the state itself; the others are appended behind all states.
        inner = np.where(template > 0, template - 1, 0)[None] + base[:, None, None]
        inner = inner.astype(np.int32)
        rows = np.where(template[None] > 0, inner, DEAD)
        to_target = template <= _FIRST_SLOT
        if to_target.any():
            index = np.where(to_target, _FIRST_SLOT - template, 0)
            rows = np.where(to_target[None], slots[:, index], rows)
        tables[0][states] = rows[:, 0]
        tables.append(rows[:, 1:].reshape(-1, width).astype(np.int32))
        used += len(states) * (nodes - 1)
    table = np.concatenate(tables)
    label = np.full(used, DEAD, dtype=np.int32)
    label[:count][dfa.accepting] = 0
    return _trimmed(byte_class, table, label)


def byte_dfa_from_literals(
    literals: Iterable[tuple[bytes, int]], missing: Collection[int] = ()
) -> ByteDfa:
    """The trie of the literals, each accepted as its label; those with a missing byte are left out.

    Raises ValueError where one text has two labels.
    """
    children: list[dict[int, int]] = [{}]
    labels = [DEAD]
    for text, label in literals:
        if any(byte in missing for byte in text):
            continue
        spend(len(text))
        node = 0
        for byte in text:
            node = children[node].setdefault(byte, len(children))
            if node == len(children):
                children.append({})
                labels.append(DEAD)
        if labels[node] not in (DEAD, label):
            raise ValueError(f"{text!r} is labelled {labels[node]} and {label}")
        labels[node] = label
    if len(children) == 1 and labels[0] == DEAD:
        return _empty()
    used = sorted({byte for edges in children for byte in edges})
    byte_class = np.zeros(256, dtype=np.uint8)  # class 0: bytes of no literal
    byte_class[used] = np.arange(1, len(used) + 1)
    table = np.full((len(children), len(used) + 1), DEAD, dtype=np.int32)
    for node, edges in enumerate(children):
        for byte, child in edges.items():
            table[node, byte_class[byte]] = child
    return ByteDfa(byte_class, table, np.array(labels, dtype=np.int32))


_FIRST_SLOT = -2
"""In a template, -2 leads to the first target, -3 to the second, and so on."""


def _moves(dfa: Dfa, state: int) -> tuple[tuple[tuple[tuple[int, int], int], ...], list[int]]:
    """The ranges that lead on from ``state``, with their targets numbered in order of use."""
    moves = [
        (bounds, int(target))
        for chars, target in zip(dfa.classes, dfa.next[state], strict=True)
        if target != DEAD
        for bounds in chars.ranges
    ]
    moves.sort()
    slots: dict[int, int] = {}
    merged: list[tuple[tuple[int, int], int]] = []
    for (low, high), target in moves:
        slot = slots.setdefault(target, len(slots))
        if merged and merged[-1][1] == slot and merged[-1][0][1] + 1 == low:
            merged[-1] = ((merged[-1][0][0], high), slot)
        else:
            merged.append(((low, high), slot))
    return tuple(merged), list(slots)


def _template(
    moves: Sequence[tuple[tuple[int, int], int]], spelling: Spelling, missing: Collection[int]
) -> NDArray[np.int32]:
    """Byte rows of one state: int32 ``[nodes, 256]``, node 0 first, equal nodes merged."""
    sequences = [
        (sequence, _FIRST_SLOT - slot)
        for (low, high), slot in moves
        for sequence in spelling(low, high)
    ]
    rows: list[NDArray[np.int32]] = [np.empty(0, dtype=np.int32)]
    numbers: dict[bytes, int] = {}

    def node(entries: Sequence[tuple[ByteRanges, int]]) -> NDArray[np.int32]:
        row = np.full(256, DEAD, dtype=np.int32)
        groups: dict[tuple[int, int], list[tuple[ByteRanges, int]]] = {}
        for sequence, target in entries:
            groups.setdefault(sequence[0], []).append((sequence[1:], target))
        for (low, high), group in groups.items():
            row[low : high + 1] = group[0][1] if not group[0][0] else number(group)
        row[list(missing)] = DEAD
        return row

    def number(entries: Sequence[tuple[ByteRanges, int]]) -> int:
        row = node(entries)
        if (row == DEAD).all():
            return DEAD
        known = numbers.setdefault(row.tobytes(), len(rows))
        if known == len(rows):
            rows.append(row)
        return known

    rows[0] = node(sequences)
    return np.stack(rows)


def _byte_classes(rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], list[int]]:
    """The class of each byte, uint8 ``[256]``, and a byte of each class: equal columns are one."""
    numbers: dict[bytes, int] = {}
    representative: list[int] = []
    byte_class = np.empty(256, dtype=np.uint8)
    for byte, column in enumerate(np.ascontiguousarray(rows.T)):
        number = numbers.setdefault(column.tobytes(), len(numbers))
        if number == len(representative):
            representative.append(byte)
        byte_class[byte] = number
    return byte_class, representative


def _empty() -> ByteDfa:
    return ByteDfa(np.zeros(256, dtype=np.uint8), np.empty((0, 1), np.int32), np.empty(0, np.int32))


def _trimmed(
    byte_class: NDArray[np.uint8], table: NDArray[np.int32], label: NDArray[np.int32]
) -> ByteDfa:
    """Drop states that cannot accept, which leaving out bytes may have made."""
    live = np.nonzero(coaccessible(table, label != DEAD))[0]
    if len(live) == len(label):
        return ByteDfa(byte_class, table, label)
    if not len(live) or live[0] != 0:
        return _empty()
    renumber = np.full(len(label) + 1, DEAD, dtype=np.int32)
    renumber[live] = np.arange(len(live), dtype=np.int32)
    return ByteDfa(byte_class, renumber[table[live]], label[live])


def byte_dfa_from_rows(rows: NDArray[np.int32], label: NDArray[np.int32]) -> ByteDfa:
    """The automaton of full rows, int32 ``[states, 256]``; bytes that nothing tells apart merge."""
    byte_class, representative = _byte_classes(rows)
    return _trimmed(byte_class, np.ascontiguousarray(rows[:, representative]), label)
