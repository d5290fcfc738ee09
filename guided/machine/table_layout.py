"""The columns of a row of the transition table, and the values they may hold.

A row is a state of an automaton over bytes, laid down as 15 numbers side by side, so that a step of
compiled code reads one cache line::

    BASE KIND          where bytes lead: cells[BASE + byte_maps[KIND, byte]]
    LABEL EXITS        the exit action, DEAD for none; whether there is no byte to go on with
    ROLE NAMES_LEFT          whether it is part of a free key; names that a rare key can still become
    COUNT_EVENT MIN_REMAINING LOW HIGH what entering it means to the count of code points, those still to come at
                       least, and the bounds of the count; HIGH is UNCOUNTED where it counts nothing
    OVERLAID_ROW               the row that it was laid over, DEAD for none
    DISTANCE NEXT_BYTE NEAREST_LABEL       bytes to the nearest exit action, the first of them, that action
    ONLY               the one byte that may follow, DEAD for none or several
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
rare key can become only a limited number of names (NAMES_LEFT), all of which may already be taken."""
UNCOUNTED: Final = -1
"""In place of the greatest count, in a row that counts nothing."""
NO_BOUND: Final = 2**31 - 1
"""In LOW, HIGH and NAMES_LEFT: no bound, or more than is counted."""
