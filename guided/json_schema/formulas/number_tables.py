"""Transition tables over the symbols that numbers are spelled with, and how they are joined.

    table.next   int32 [states, WIDTH]    one column for each symbol: 0 to 9, -, ., e, +
    table.label  int32 [states]           HOLDS or FAILS, DEAD if undecided

A table only ever reads numbers as RFC 8259 spells them, since the table of the syntax is joined
with it: where that one has no move, the others may have any.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa
from guided.regular.minimize import minimal
from guided.regular.reachability import coaccessible
from guided.runtime.fuel import spend
from guided.runtime.kernel import making_kernel

__all__ = [
    "ANY_DIGIT",
    "FAILS",
    "HOLDS",
    "LETTER",
    "MINUS",
    "NONZERO",
    "PLUS",
    "POINT",
    "WIDTH",
    "NumberTable",
    "joined",
    "only_holding",
]

HOLDS: Final = 0
FAILS: Final = 1
"""Labels: the assertion holds of the number that was spelled, or fails."""
ANY_DIGIT, NONZERO = slice(0, 10), slice(1, 10)
MINUS: Final = 10
POINT: Final = 11
LETTER: Final = 12
PLUS: Final = 13
WIDTH: Final = 14
"""Columns of a table; a digit is its own column."""
_SYMBOLS: Final = (
    *(CodePoints.single(digit) for digit in "0123456789"),
    CodePoints.single("-"),
    CodePoints.single("."),
    CodePoints.of([(ord("e"), ord("e")), (ord("E"), ord("E"))]),
    CodePoints.single("+"),
)
_MAX_PAIRS: Final = 16_000_000
"""Pairs of states that two tables may have; few of them come up, but all have a cell."""
_MAX_REFINED: Final = 4_000
"""States of an automaton whose equal states are merged; larger ones have hardly any."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberTable:
    """What is decided about a number by its spelling; state 0 is where it begins.

    ``next`` is int32 ``[states, WIDTH]`` with DEAD for no move, ``label`` int32 ``[states]``:
    HOLDS, FAILS, or DEAD if a number that ends there is left undecided. Tables are kept and
    shared, so the arrays must not be changed.
    """

    next: NDArray[np.int32]
    label: NDArray[np.int32]


@functools.lru_cache(maxsize=64)
def only_holding(table: NumberTable) -> NumberTable:
    """Return the table that leaves undecided the numbers for which this one fails.

    Results are kept by the identity of the table, and shared.
    """
    label = np.where(table.label == HOLDS, HOLDS, DEAD).astype(np.int32)
    return NumberTable(*minimal(table.next, label))


def joined(tables: Sequence[NumberTable], *, fails: bool) -> Dfa:
    """Return the numbers for which every table holds; with ``fails``, also those where one fails.

    If one of them is undecided, so is the result. Raises LimitExceededError if there may be
    too many states. The given tables are not changed, and their order does not matter to what is
    accepted.
    """
    if not fails:
        tables = [only_holding(table) for table in tables]
    if not all(len(table.label) for table in tables):
        return _EMPTY
    table, label = tables[0].next, tables[0].label
    for other in tables[1:]:
        if len(label) * len(other.label) > _MAX_PAIRS:
            raise LimitExceededError(
                f"an automaton of numbers may need more than {_MAX_PAIRS} states",
                limit=_MAX_PAIRS,
                hint="use fewer digits in bounds and divisors",
            )
        table, label = _side_by_side(table, label, other.next, other.label)
        spend(table.size // 64)
    table, label = minimal(table, label) if len(label) <= _MAX_REFINED else _trimmed(table, label)
    return Dfa(_SYMBOLS, table, label) if len(label) else _EMPTY


_EMPTY: Final = Dfa((), np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.int32))


@making_kernel
def _side_by_side(left, left_label, right, right_label):  # type: ignore[no-untyped-def]
    """Pair the states of two tables that a text leads to, and decide what both say together.

    Returns a table and its labels; the pair of both starts is its state 0. If one has no move, the
    pair has none. Room for all pairs is allocated at once, which is why ``_MAX_PAIRS`` bounds them.
    """
    rows = len(right)
    number = np.full(len(left) * rows, DEAD, dtype=np.int32)
    pairs = np.empty(len(number), dtype=np.int32)
    number[0] = pairs[0] = 0
    count, done, room = 1, 0, len(left) + rows
    table = np.empty((room, WIDTH), dtype=np.int32)
    label = np.empty(room, dtype=np.int32)
    while done < count:
        if done == room:
            room *= 2
            table = np.concatenate((table, np.empty_like(table)))
            label = np.concatenate((label, np.empty_like(label)))
        a, b = divmod(pairs[done], rows)
        for column in range(WIDTH):
            if left[a, column] == DEAD or right[b, column] == DEAD:
                table[done, column] = DEAD
                continue
            pair = left[a, column] * rows + right[b, column]
            if number[pair] == DEAD:
                number[pair] = count
                pairs[count] = pair
                count += 1
            table[done, column] = number[pair]
        # FAILS is above HOLDS: a number fails where either table says so.
        known = left_label[a] != DEAD and right_label[b] != DEAD
        label[done] = max(left_label[a], right_label[b]) if known else DEAD
        done += 1
    return table[:count], label[:count]


def _trimmed(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the states that lead to a label, renumbered in order; none if the start does not.

    For tables that are too large for ``minimal``, which trims as well.
    """
    live = coaccessible(table, label != DEAD)
    if not live[0]:
        return table[:0], label[:0]
    # DEAD is -1: as an index it reads the last entry, which is DEAD again.
    renumber = np.append(np.where(live, np.cumsum(live) - 1, DEAD), DEAD).astype(np.int32)
    return renumber[table[live]], label[live]
