"""Free bytes of a row: those that may follow in any order, any number of times.

They lead from a row to a few rows, from which they lead to those rows again. In a string of any
text all bytes are free but the quote, the backslash and control characters. So are they in a string
that may match a pattern anywhere, though it has as many rows as the pattern. If everything below
a node of the trie is free, its tokens are taken without looking at them one by one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import CODE_POINT_END, INSIDE, NO_EVENT
from guided.machine.table_layout import COUNT_EVENT, MIN_REMAINING
from guided.masks.machine_kernels import MachineArrays, is_closing, target_of
from guided.masks.trie import CHARACTERS
from guided.masks.utf8_steps import BOUNDARY, ILL_FORMED, utf8_step
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["FreeBytes", "are_free_below", "make_free_bytes"]

_MAX_REACHED: Final = 32
"""Rows that free bytes may lead to, those within characters included; enough for short patterns."""
_NONE_FREE: Final = 1
_SOME_FREE: Final = 2
"""Whether a row has free bytes; 0 until that is needed."""


class FreeBytes(NamedTuple):
    """The free bytes of rows, found when first needed, and memory to find them in."""

    of_rows: NDArray[np.uint64]
    """``[rows, 4]``: whether the row has free bytes, then these, as in
    ``TokenTrie.bytes_below``."""
    reached: NDArray[np.int32]
    """``[max_reached, 2]``: rows that free bytes lead to, and the UTF-8 state there."""


def make_free_bytes(rows: int, *, may_leave_row: bool) -> FreeBytes:
    """Return the memory for the free bytes of ``rows`` rows, none of which are determined yet.

    Unless ``may_leave_row``, free bytes lead to no rows but the one that they begin in.
    """
    max_reached = _MAX_REACHED if may_leave_row else 1
    return FreeBytes(
        np.zeros((rows, 4), dtype=np.uint64), np.empty((max_reached, 2), dtype=np.int32)
    )


@inlined
def are_free_below(
    node: int, row: int, machine: MachineArrays, bytes_below: NDArray[np.uint64], free: FreeBytes
) -> bool:
    """Return whether everything below a node is free in a row; not for nodes within a character."""
    of_rows = free.of_rows
    if of_rows[row, 0] == 0:
        _find_free(machine, row, free)
    if of_rows[row, 0] == _NONE_FREE:
        return False
    others = bytes_below[node, 0] & ~of_rows[row, 1] | bytes_below[node, 1] & ~of_rows[row, 2]
    return not (others | bytes_below[node, 2] & ~of_rows[row, 3])


@kernel
def _find_free(machine: MachineArrays, row: int, free: FreeBytes) -> None:
    """Write the free bytes of a row to ``of_rows``: the bits of ASCII in two words, and CHARACTERS.

    After that ``of_rows[row, 0]`` is not 0, so each row is examined only once: the machine's arrays
    must not change while ``free`` is in use.
    """
    of_rows = free.of_rows
    of_rows[row, 0] = _NONE_FREE
    if (
        machine.rows[row, COUNT_EVENT] != NO_EVENT
        and machine.rows[row, COUNT_EVENT] != CODE_POINT_END
    ):
        return
    # The characters beyond ASCII are all free or none is: with them if possible, as it mostly is.
    low, high, is_possible = _find_closed_set(machine, row, free.reached, len(free.reached) > 1)
    if is_possible:
        of_rows[row, 3] = CHARACTERS
    else:
        low, high, _ = _find_closed_set(machine, row, free.reached, False)
    of_rows[row, 1], of_rows[row, 2] = low, high
    if low | high | of_rows[row, 3]:
        of_rows[row, 0] = _SOME_FREE


@kernel
def _find_closed_set(
    machine: MachineArrays, row: int, reached: NDArray[np.int32], with_characters: bool
) -> tuple[np.uint64, np.uint64, bool]:
    """Find free bytes greedily; returns the ASCII ones as two words, and whether all others are.

    Only ``with_characters`` are characters beyond ASCII tried. A set of rows grows from ``row`` on.
    A byte is not free if it leads to a row that allows less than what is free so far, or to a row
    for which there is no room.
    """
    low, high = _bytes_that_stay(machine, row, row)
    reached[0, 0], reached[0, 1] = row, BOUNDARY
    done, count, last_refused = 0, 1, int(DEAD)
    while done < count:
        current, state = reached[done, 0], reached[done, 1]
        done += 1
        for byte in range(1, 0xF5):
            bit = np.uint64(1) << np.uint64(byte & 63)
            if byte < 0x80:
                if state != BOUNDARY or not (high if byte > 63 else low) & bit:
                    continue
            elif not with_characters:
                break
            after = utf8_step(state, byte)
            if after == ILL_FORMED:
                continue
            target = target_of(machine, current, byte)
            if _contains(reached, count, target, after):
                continue
            # Neighbouring bytes mostly lead to one row: the one refused last is not tried again.
            is_candidate = target != last_refused and count < len(reached)
            if is_candidate and _can_join(machine, target, after, row, low, high):
                reached[count, 0], reached[count, 1] = target, after
                count += 1
                continue
            if byte >= 0x80:
                return low, high, False
            last_refused = target
            if byte > 63:
                high &= ~bit
            else:
                low &= ~bit
    return low, high, with_characters


@inlined
def _contains(reached: NDArray[np.int32], count: int, row: int, state: int) -> bool:
    """Return whether a row is among the first ``count`` reached; the last one is the likeliest."""
    for index in range(count - 1, -1, -1):
        if reached[index, 0] == row and reached[index, 1] == state:
            return True
    return False


@inlined
def _can_join(
    machine: MachineArrays, row: int, state: int, first: int, low: np.uint64, high: np.uint64
) -> bool:
    """Return whether a row can be one of those that free bytes of the ``first`` row lead to.

    ``low`` and ``high`` are the bytes found free so far: all of them must stay free in this row
    too. A row within a character is judged only by its count; its bytes are tried when it is among
    the rows reached.
    """
    rows = machine.rows
    if row == DEAD or is_closing(rows, row):
        return False
    if state == BOUNDARY:
        if not _counts_like(rows, row, first):
            return False
        also_low, also_high = _bytes_that_stay(machine, row, first)
        return not (low & ~also_low | high & ~also_high)
    # A code point has begun: with it a string has one more, as if it were complete already.
    if rows[first, COUNT_EVENT] == NO_EVENT:
        return bool(rows[row, COUNT_EVENT] == NO_EVENT)
    return bool(
        rows[row, COUNT_EVENT] == INSIDE
        and rows[row, MIN_REMAINING] == rows[first, MIN_REMAINING] + 1
    )


@inlined
def _counts_like(rows: NDArray[np.int32], row: int, first: int) -> bool:
    """Return whether entering two rows means the same for the code points of a string."""
    return bool(
        rows[row, COUNT_EVENT] == rows[first, COUNT_EVENT]
        and rows[row, MIN_REMAINING] == rows[first, MIN_REMAINING]
    )


@inlined
def _bytes_that_stay(machine: MachineArrays, row: int, first: int) -> tuple[np.uint64, np.uint64]:
    """Return the ASCII bytes after which a string continues and counts as in ``first``, as bits."""
    low = high = np.uint64(0)
    for byte in range(1, 0x80):
        target = target_of(machine, row, byte)
        if target == DEAD or is_closing(machine.rows, target):
            continue
        if _counts_like(machine.rows, target, first):
            bit = np.uint64(1) << np.uint64(byte & 63)
            if byte > 63:
                high |= bit
            else:
                low |= bit
    return low, high
