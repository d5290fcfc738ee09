"""The letters of a rule's automaton: bytes, marks, calls of rules, and holes.

All are written as code points, so that rules are built, made deterministic and made small by what
serves expressions over text: a byte is the code point of its value, a mark (see ``looks``) is one
of those that follow, a call of rule ``n`` is the ``n``-th one behind all that UTF-16 calls a plane,
and holes, which other recognisers fill, are the last ones there are.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_nfa
from guided.regular.nfa import Nfa
from guided.runtime.fuel import spend

__all__ = [
    "BYTES",
    "MAX_HOLES",
    "MAX_MARKS",
    "MAX_RULES",
    "bytes_by_class",
    "call_edges",
    "called",
    "calls_in",
    "determined",
    "holds_hole",
    "hole_edges",
    "hole_letter",
    "holes_in",
    "letter_of",
    "letters",
    "mark_letter",
    "marks_in",
    "paste",
    "simpler",
    "without_calls",
]

_FIRST_MARK: Final = 0x100
MAX_MARKS: Final = 10_000
_FIRST_CALL: Final = 0x10000
MAX_HOLES: Final = 4096
_FIRST_HOLE: Final = MAX_CODE_POINT - MAX_HOLES + 1
MAX_RULES: Final = _FIRST_HOLE - _FIRST_CALL
MAX_DETERMINED: Final = 50_000
"""States of a rule's automaton, before equal ones merge."""
_SPARE_STATES: Final = 1_000
BYTES: Final = CodePoints.of([(0, 255)])


def letter_of(rule: int) -> int:
    """The letter that calls a rule."""
    return _FIRST_CALL + rule


def mark_letter(mark: int) -> int:
    """The letter of a mark."""
    return _FIRST_MARK + mark


def hole_letter(hole: int) -> int:
    """The letter of a hole."""
    return _FIRST_HOLE + hole


def letters(rules: Iterable[int]) -> CodePoints:
    """The letters that call these rules."""
    return CodePoints.of((letter_of(rule), letter_of(rule)) for rule in rules)


def calls_in(chars: CodePoints) -> tuple[int, ...]:
    """The rules that the letters of a set call."""
    # Most sets are bytes alone, which their last range tells.
    if not chars.ranges or chars.ranges[-1][1] < _FIRST_CALL:
        return ()
    return _calls_in(chars)


@functools.lru_cache(maxsize=1024)
def _calls_in(chars: CodePoints) -> tuple[int, ...]:
    return tuple(
        letter - _FIRST_CALL
        for low, high in chars.ranges
        if _FIRST_CALL <= low < _FIRST_HOLE
        for letter in range(low, high + 1)
    )


def marks_in(chars: CodePoints) -> tuple[int, ...]:
    """The marks that the letters of a set stand for."""
    return tuple(
        letter - _FIRST_MARK
        for low, high in chars.ranges
        if high >= _FIRST_MARK and low < _FIRST_CALL
        for letter in range(max(low, _FIRST_MARK), min(high, _FIRST_CALL - 1) + 1)
    )


def holes_in(chars: CodePoints) -> tuple[int, ...]:
    """The holes that the letters of a set stand for."""
    return tuple(
        letter - _FIRST_HOLE
        for low, high in chars.ranges
        if high >= _FIRST_HOLE
        for letter in range(max(low, _FIRST_HOLE), high + 1)
    )


def holds_hole(chars: CodePoints) -> bool:
    """Whether a letter of the set stands for a hole."""
    return bool(chars.ranges) and chars.ranges[-1][1] >= _FIRST_HOLE


def without_calls(chars: CodePoints, rules: Collection[int]) -> CodePoints:
    """The letters of a set that call none of the rules."""
    if not rules or not any(rule in rules for rule in calls_in(chars)):
        return chars
    return chars & ~letters(rules)


def called(dfa: Dfa) -> set[int]:
    """The rules that an automaton calls."""
    return {rule for chars in dfa.classes for rule in calls_in(chars)}


def bytes_by_class(dfa: Dfa) -> NDArray[np.int32]:
    """The class that each byte is in, int32 ``[256]``, DEAD for none."""
    columns = [DEAD] * 256
    for column, chars in enumerate(dfa.classes):
        for low, high in chars.ranges:
            if low > 255:
                break
            for byte in range(low, min(high, 255) + 1):
                columns[byte] = column
    return np.array(columns, dtype=np.int32)


def call_edges(dfa: Dfa) -> list[tuple[int, int, int]]:
    """Source, rule and target of each move that calls a rule."""
    edges = dfa.edges(_FIRST_CALL, _FIRST_HOLE - 1)
    return [(source, letter - _FIRST_CALL, target) for source, letter, target in edges]


def hole_edges(dfa: Dfa) -> list[tuple[int, int, int]]:
    """Source, hole and target of each move over a hole."""
    edges = dfa.edges(_FIRST_HOLE, MAX_CODE_POINT)
    return [(source, letter - _FIRST_HOLE, target) for source, letter, target in edges]


def paste(nfa: Nfa, dfa: Dfa, sets: Sequence[CodePoints]) -> int:
    """Copy the states of ``dfa`` with its moves on ``sets``, a part of each of its classes.

    Returns the first of the copies, which is that of the start.
    """
    first = nfa.add_states(len(dfa))
    nfa.paste(dfa.moves, first, sets)
    return first


def determined(nfa: Nfa) -> Dfa:
    """The deterministic automaton of a rule; raises LimitExceededError past MAX_DETERMINED."""
    dfa = dfa_from_nfa(nfa, most=MAX_DETERMINED)
    if dfa is None:
        raise LimitExceededError(
            f"the automaton of a rule needs more than {MAX_DETERMINED} states",
            limit=MAX_DETERMINED,
            field="constraint",
            hint="let its alternatives begin differently, or lower the bounds of repeats",
        )
    return dfa


def simpler(nfa: Nfa) -> Dfa | None:
    """The same for what may as well be left as it is: ``None`` where it grows much.

    Raises LimitExceededError only where the work for the whole constraint is spent.
    """
    try:
        return dfa_from_nfa(nfa, most=nfa.count + _SPARE_STATES)
    except LimitExceededError:
        spend(0)  # raises again where no work is left
        return None
