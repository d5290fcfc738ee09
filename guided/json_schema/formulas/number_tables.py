"""Transition tables over the symbols that numbers are spelled with, and their intersection.

    table.next   int32 [states, WIDTH]    one column for each symbol: 0 to 9, -, ., e, +
    table.label  int32 [states]           HOLDS or FAILS, DEAD if undecided

A table is always intersected with that of the syntax, so it only reads numbers as RFC 8259 spells
them: where the syntax has no move, any move may be in the table.
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
from guided.regular.minimize import minimize
from guided.regular.reachability import coaccessible
from guided.runtime.kernel import allocating_kernel
from guided.runtime.work_budget import spend

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
    "drop_failures",
    "intersect",
]

HOLDS: Final = 0
FAILS: Final = 1
"""Labels: the assertion holds of the number that was read, or fails."""
ANY_DIGIT, NONZERO = slice(0, 10), slice(1, 10)
MINUS: Final = 10
POINT: Final = 11
LETTER: Final = 12
PLUS: Final = 13
WIDTH: Final = 14
"""The number of columns of a table; that of a digit is its value."""
_SYMBOLS: Final = (
    *(CodePoints.single(digit) for digit in "0123456789"),
    CodePoints.single("-"),
    CodePoints.single("."),
    CodePoints.from_ranges([(ord("e"), ord("e")), (ord("E"), ord("E"))]),
    CodePoints.single("+"),
)
_MAX_PAIRS: Final = 16_000_000
"""The most pairs of states of two tables; few of them are reachable, but each takes memory."""
_MAX_REFINED: Final = 4_000
"""The most states of an automaton that is minimised; larger ones have hardly any equal states."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberTable:
    """An automaton that decides a condition on a number by its spelling; state 0 is the start.

    ``next`` is int32 ``[states, WIDTH]`` with DEAD for no move, ``label`` int32 ``[states]``:
    HOLDS, FAILS, or DEAD if a number that ends there is left undecided. Tables are cached and
    shared, so the arrays must not be changed.
    """

    next: NDArray[np.int32]
    label: NDArray[np.int32]


@functools.lru_cache(maxsize=64)
def drop_failures(table: NumberTable) -> NumberTable:
    """Return a table that leaves undecided the numbers for which this one fails.

    Results are cached by the identity of the table, and shared. They are minimal, and that is not
    for speed alone: larger tables exceed ``_MAX_PAIRS`` sooner, and the size of what is made of
    them decides which multiples are listed (``numbers._is_small``).
    """
    label = np.where(table.label == HOLDS, HOLDS, DEAD).astype(np.int32)
    return NumberTable(*minimize(table.next, label))


def intersect(tables: Sequence[NumberTable], *, fails: bool) -> Dfa:
    """Return the automaton of the numbers for which every table holds, labelled HOLDS.

    With ``fails`` it also accepts those for which one of the tables fails, labelled FAILS. It
    rejects numbers for which one is undecided. Raises LimitExceededError if there may be too many
    states, which may depend on the order of the tables; the result does not. The tables are not
    changed. How many states the result has without ``fails`` decides which multiples are listed
    (``numbers._is_small``), so that merging more or fewer of them may change which numbers are
    allowed.
    """
    if not fails:
        tables = [drop_failures(table) for table in tables]
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
        table, label = _product(table, label, other.next, other.label)
        spend(table.size // 64)
    table, label = minimize(table, label) if len(label) <= _MAX_REFINED else _trim(table, label)
    return Dfa(_SYMBOLS, table, label) if len(label) else _EMPTY


_EMPTY: Final = Dfa((), np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.int32))


@allocating_kernel
def _product(left, left_label, right, right_label):  # type: ignore[no-untyped-def]
    """Return the product of two tables and its labels; state 0 is the pair of both starts.

    A pair has no move if one of its states has none. Room for all pairs is allocated at once, which
    is why ``_MAX_PAIRS`` bounds them.
    """
    rows = len(right)
    state_of_pair = np.full(len(left) * rows, DEAD, dtype=np.int32)
    pairs = np.empty(len(state_of_pair), dtype=np.int32)
    state_of_pair[0] = pairs[0] = 0
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
            if state_of_pair[pair] == DEAD:
                state_of_pair[pair] = count
                pairs[count] = pair
                count += 1
            table[done, column] = state_of_pair[pair]
        # FAILS is above HOLDS: a number fails where either table says so.
        is_decided = left_label[a] != DEAD and right_label[b] != DEAD
        label[done] = max(left_label[a], right_label[b]) if is_decided else DEAD
        done += 1
    return table[:count], label[:count]


def _trim(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the states from which a label can be reached, renumbered; none without the start.

    For tables that are too large for ``minimize``, which trims as well.
    """
    live = coaccessible(table, label != DEAD)
    if not live[0]:
        return table[:0], label[:0]
    # DEAD is -1: as an index it reads the last entry, which is DEAD again.
    renumber = np.append(np.where(live, np.cumsum(live) - 1, DEAD), DEAD).astype(np.int32)
    return renumber[table[live]], label[live]
