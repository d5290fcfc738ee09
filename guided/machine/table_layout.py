"""The columns of a row of the transition table, and the values they may hold.

A row is a state of an automaton over bytes: 15 numbers side by side, so that a step of compiled
code reads one cache line::

    BASE KIND             where bytes lead: cells[BASE + byte_maps[KIND, byte]]
    LABEL EXITS           the exit action, DEAD for none; whether no byte leads on
    ROLE                  whether the row is part of a free key
    COUNT_EVENT           what entering the row means to the count of code points
    MIN_REMAINING         the least number of code points still to come
    LOW HIGH              the bounds of the count; HIGH is UNCOUNTED where nothing is counted
    NAMES_LEFT            how many names a rare key can still become
    OVERLAID_ROW          the row that an overlay changes some bytes of, DEAD for none
    DISTANCE NEXT_BYTE    bytes to the nearest exit action, and the first of them, STOP for none
    NEAREST_LABEL         that exit action
    ONLY                  the only byte that may follow, DEAD for none or several
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BASE",
    "COUNT_EVENT",
    "DISTANCE",
    "EXITS",
    "HIGH",
    "IN_KEY",
    "IN_RARE_KEY",
    "KEY_CLOSED",
    "KIND",
    "LABEL",
    "LOW",
    "MAX_ROWS",
    "MIN_REMAINING",
    "NAMES_LEFT",
    "NEAREST_LABEL",
    "NEXT_BYTE",
    "NO_BOUND",
    "ONLY",
    "OVERLAID_ROW",
    "PLAIN",
    "ROLE",
    "UNCOUNTED",
    "WIDTH",
]

MAX_ROWS: Final = 2**23
"""The most rows: the number of one and a byte fit 31 bits (``masks/independent_kernels.py``)."""

BASE: Final = 0
KIND: Final = 1
LABEL: Final = 2
EXITS: Final = 3
ROLE: Final = 4
COUNT_EVENT: Final = 5
MIN_REMAINING: Final = 6
LOW: Final = 7
HIGH: Final = 8
NAMES_LEFT: Final = 9
OVERLAID_ROW: Final = 10
DISTANCE: Final = 11
NEXT_BYTE: Final = 12
NEAREST_LABEL: Final = 13
ONLY: Final = 14
WIDTH: Final = 15

PLAIN: Final = 0
IN_KEY: Final = 1
KEY_CLOSED: Final = 2
IN_RARE_KEY: Final = 3
"""Roles of a row: inside the text of a free key, after its closing quote, or neither (PLAIN). A
rare key can become only a limited number of names (NAMES_LEFT), which may all be taken already."""
UNCOUNTED: Final = -1
"""In place of the greatest count, in a row that counts nothing."""
NO_BOUND: Final = 2**31 - 1
"""In LOW, HIGH and NAMES_LEFT: no bound, or more than is counted."""
