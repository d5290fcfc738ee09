"""What the automaton of a rule moves over: bytes, assertions, calls of rules, and holes.

The automata of ``guided.regular`` move over code points, so a symbol is encoded as one, and the
code for expressions over text also makes rules deterministic and small. Only this module knows the
codes::

    code   0        0x100         0x10000                       0x10F000     0x110000
           |  BYTE  |  ASSERTION  |  CALL                       |  HOLE      |

Assertions end long before the surrogates, which no set of code points can contain.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.dfa import DEAD, Dfa
from guided.runtime.fuel import pause_if_due, with_pauses

__all__ = [
    "MAX_ASSERTIONS",
    "MAX_HOLES",
    "MAX_RULES",
    "Kind",
    "Symbol",
    "class_by_byte",
    "edges_over",
    "has_bytes",
    "numbers_in",
    "symbol_set",
    "symbols_in",
    "without_calls",
]


class Kind(IntEnum):
    """What a symbol stands for, and what its number counts."""

    BYTE = 0
    """A byte of the text; the number is its value."""
    ASSERTION = 1
    """A place where a look-around has to hold; nothing is read there."""
    CALL = 2
    """One text of a rule."""
    HOLE = 3
    """One text of another recogniser."""


class Symbol(NamedTuple):
    """One symbol; ``number`` distinguishes those of a kind."""

    kind: Kind
    number: int


MAX_ASSERTIONS: Final = 10_000
"""Assertions of one grammar; the codes up to the surrogates would suffice for five times as many.
"""
MAX_HOLES: Final = 4096
"""Holes of one grammar, with a code each."""
_FIRST_CODE: Final = (0, 0x100, 0x10000, MAX_CODE_POINT - MAX_HOLES + 1, MAX_CODE_POINT + 1)
"""By kind the code of its first symbol, and last the end of all codes."""
MAX_RULES: Final = _FIRST_CODE[Kind.HOLE] - _FIRST_CODE[Kind.CALL]
"""As many as there are codes for calls of them."""


def symbol_set(kind: Kind, numbers: Iterable[int]) -> CodePoints:
    """Return the set of these symbols of a kind, as automata read it."""
    first = _FIRST_CODE[kind]
    return CodePoints.of([(first + number, first + number) for number in numbers])


def numbers_in(chars: CodePoints, kind: Kind) -> tuple[int, ...]:
    """Return the numbers of the symbols of a kind in a set."""
    # Most sets contain only bytes, which their last range shows.
    if not chars.ranges or chars.ranges[-1][1] < _FIRST_CODE[kind]:
        return ()
    return _numbers_in(chars, kind)


@functools.lru_cache(maxsize=1024)
def _numbers_in(chars: CodePoints, kind: Kind) -> tuple[int, ...]:
    """``numbers_in`` for sets that may have some; kept, as passes need the same ones again."""
    first, end = _FIRST_CODE[kind], _FIRST_CODE[kind + 1]
    return tuple(
        code - first
        for low, high in chars.ranges
        for code in range(max(low, first), min(high, end - 1) + 1)
    )


def symbols_in(chars: CodePoints) -> list[Symbol]:
    """Return all symbols in a set, in the order of their kinds."""
    return [Symbol(kind, number) for kind in Kind for number in numbers_in(chars, kind)]


def has_bytes(chars: CodePoints) -> bool:
    """Return whether a byte is in a set."""
    return bool(chars.ranges) and chars.ranges[0][0] < _FIRST_CODE[Kind.ASSERTION]


def without_calls(chars: CodePoints, rules: Collection[int]) -> CodePoints:
    """Return the symbols of a set except the calls of these rules; other calls stay."""
    if not rules or not any(rule in rules for rule in numbers_in(chars, Kind.CALL)):
        return chars
    return chars & ~symbol_set(Kind.CALL, rules)


def edges_over(dfa: Dfa, kind: Kind) -> list[tuple[int, int, int]]:
    """Source, number of the symbol, and target of each move over a symbol of a kind."""
    pause_if_due()
    first, end = _FIRST_CODE[kind], _FIRST_CODE[kind + 1]
    edges = with_pauses(dfa.edges(first, end - 1))
    return [(source, code - first, target) for source, code, target in edges]


def class_by_byte(dfa: Dfa) -> NDArray[np.int32]:
    """Return by byte its class in an automaton, int32 ``[256]``, DEAD for none.

    Classes are disjoint, and their ranges ascend, so those of bytes come first.
    """
    columns = [DEAD] * _FIRST_CODE[Kind.ASSERTION]
    for column, chars in enumerate(dfa.classes):
        for low, high in chars.ranges:
            if low >= len(columns):
                break
            for byte in range(low, min(high + 1, len(columns))):
                columns[byte] = column
    return np.array(columns, dtype=np.int32)
