"""UTF-8 byte by byte, for compiled code (RFC 3629, section 4)."""

from __future__ import annotations

from typing import Final

from guided.runtime.kernel import inlined

__all__ = ["BOUNDARY", "ILL_FORMED", "NUM_STATES", "utf8_step"]

BOUNDARY: Final = 0
"""Between characters."""
_ONE_LEFT: Final = 1
_TWO_LEFT: Final = 2
_THREE_LEFT: Final = 3
"""This many bytes of the character are left, each any of 80 to BF."""
_AFTER_E0: Final = 4
_AFTER_ED: Final = 5
_AFTER_F0: Final = 6
_AFTER_F4: Final = 7
"""The next byte must not make an overlong form, a surrogate, or a number above 10FFFF."""
NUM_STATES: Final = 8
ILL_FORMED: Final = -1


@inlined
def utf8_step(state: int, byte: int) -> int:
    """Return the state after a byte; ILL_FORMED where no character has it there.

    ``state`` must not be ILL_FORMED itself. Callers rely on the numbers of the states: 1 to 3 are
    the bytes left; after the next byte, 4 and 5 have one left, 6 and 7 two.
    """
    if state == BOUNDARY:
        return _after_first(byte)
    low, high = 0x80, 0xBF
    if state == _AFTER_E0:
        low = 0xA0
    elif state == _AFTER_ED:
        high = 0x9F
    elif state == _AFTER_F0:
        low = 0x90
    elif state == _AFTER_F4:
        high = 0x8F
    if byte < low or byte > high:
        return ILL_FORMED
    if state <= _THREE_LEFT:
        return state - 1
    return _ONE_LEFT if state <= _AFTER_ED else _TWO_LEFT


@inlined
def _after_first(byte: int) -> int:
    """Return the state after the first byte of a character."""
    if byte < 0x80:
        return BOUNDARY
    if byte < 0xC2 or byte > 0xF4:
        return ILL_FORMED
    if byte < 0xE0:
        return _ONE_LEFT
    if byte == 0xE0:
        return _AFTER_E0
    if byte == 0xED:
        return _AFTER_ED
    if byte < 0xF0:
        return _TWO_LEFT
    if byte == 0xF0:
        return _AFTER_F0
    return _AFTER_F4 if byte == 0xF4 else _THREE_LEFT
