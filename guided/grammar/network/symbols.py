"""The alphabet of rules' automata: bytes, assertions, calls of rules, and holes.

Automata of ``guided.regular`` move over code points, so each symbol is encoded as one; then the
same code determinizes and minimises the automata of rules. Only this module knows the codes::

    code   0        0x100         0x10000                       0x10F000     0x110000
           |  BYTE  |  ASSERTION  |  CALL                       |  HOLE      |

Codes of assertions end before the surrogates, which no set of code points can contain.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.dfa import DEAD, Dfa
from guided.runtime.work_budget import pause_if_due

__all__ = [
    "MAX_ASSERTIONS",
    "MAX_HOLES",
    "MAX_RULES",
    "Kind",
    "class_by_byte",
    "edges_over",
    "has_bytes",
    "numbers_in",
    "symbol_set",
    "without_calls",
]


class Kind(IntEnum):
    """The kind of a symbol, and so the meaning of its number."""

    BYTE = 0
    """A byte of the text; the number is its value."""
    ASSERTION = 1
    """A look-around that has to hold; nothing is read."""
    CALL = 2
    """A text of a rule."""
    HOLE = 3
    """A text of another recogniser."""


MAX_ASSERTIONS: Final = 10_000
"""The most assertions of a grammar; there are codes for five times as many."""
MAX_HOLES: Final = 4096
"""The most holes of a grammar."""
_FIRST_CODE: Final = (0, 0x100, 0x10000, MAX_CODE_POINT - MAX_HOLES + 1, MAX_CODE_POINT + 1)
"""By kind the code of symbol 0, and last the end of all codes."""
MAX_RULES: Final = _FIRST_CODE[Kind.HOLE] - _FIRST_CODE[Kind.CALL]
"""The most rules of a grammar: as many as there are codes for calls."""


def symbol_set(kind: Kind, numbers: Iterable[int]) -> CodePoints:
    """Return the set of these symbols of a kind, as code points."""
    first = _FIRST_CODE[kind]
    return CodePoints.from_ranges([(first + number, first + number) for number in numbers])


def numbers_in(chars: CodePoints, kind: Kind) -> tuple[int, ...]:
    """Return the numbers of the symbols of a kind in a set."""
    # The usual case, quickly: a set of bytes alone.
    if not chars.ranges or chars.ranges[-1][1] < _FIRST_CODE[kind]:
        return ()
    return _numbers_in(chars, kind)


@functools.lru_cache(maxsize=1024)
def _numbers_in(chars: CodePoints, kind: Kind) -> tuple[int, ...]:
    """``numbers_in`` for sets that may have some."""
    first, end = _FIRST_CODE[kind], _FIRST_CODE[kind + 1]
    return tuple(
        code - first
        for low, high in chars.ranges
        for code in range(max(low, first), min(high, end - 1) + 1)
    )


def has_bytes(chars: CodePoints) -> bool:
    """Return whether any byte is in a set."""
    return bool(chars.ranges) and chars.ranges[0][0] < _FIRST_CODE[Kind.ASSERTION]


def without_calls(chars: CodePoints, rules: Collection[int]) -> CodePoints:
    """Return a set of symbols without the calls of these rules."""
    if not rules or not any(rule in rules for rule in numbers_in(chars, Kind.CALL)):
        return chars
    return chars & ~symbol_set(Kind.CALL, rules)


def edges_over(dfa: Dfa, kind: Kind) -> list[tuple[int, int, int]]:
    """Return the moves over symbols of a kind: source, number of the symbol, and target.

    The list must not be changed.
    """
    pause_if_due()
    first, end = _FIRST_CODE[kind], _FIRST_CODE[kind + 1]
    return dfa.edges(first, end - 1)


def class_by_byte(dfa: Dfa) -> NDArray[np.int32]:
    """Return the class of each byte in an automaton, int32 ``[256]``, DEAD for none."""
    columns = [DEAD] * _FIRST_CODE[Kind.ASSERTION]
    for column, chars in enumerate(dfa.classes):
        for low, high in chars.ranges:
            if low >= len(columns):
                break  # ranges ascend, so no byte follows
            for byte in range(low, min(high + 1, len(columns))):
                columns[byte] = column
    return np.array(columns, dtype=np.int32)
