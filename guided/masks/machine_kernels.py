"""The moves of a machine in compiled code: one byte, and the bytes of a token.

Everything here works on the arrays of a machine and decides as ``Recognizer.step`` does. It
stops where Python has to resolve a stack transition first, and it is *unsure* where the decision
needs a text that was written: a key, or an item that has to differ from others::

    rows        int32 [rows, 15]   a state of an automaton each; columns in ``table_layout``
    cells       int32              where bytes lead: cells[BASE + byte_maps[KIND, byte]]
    byte_maps   uint8 [maps, 256]  classes of bytes that rows tell apart
    transitions int64 [slots, 3]   hash table (stack, exit action) → (stack, row)
    facts       int32 [stacks, 4]  what is known of the keys and texts of a stack
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import CLOSE_STRING, CODE_POINT_END, START
from guided.machine.facts import (
    KNOWLEDGE,
    KNOWN,
    NAMES_TAKEN,
    NUM_TEXTS,
    TEXT_DECIDES,
    UNKNOWN,
)
from guided.machine.facts import WIDTH as FACTS_WIDTH
from guided.machine.stack_transitions import (
    EMPTY_SLOT,
    KEY,
    LABEL_BITS,
    LAST_UNCONDITIONAL,
    NEEDS_EXACT_STATE,
    ROW,
    TARGET,
)
from guided.machine.table_layout import (
    BASE,
    COUNT_EVENT,
    EXITS,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    LOW,
    MIN_REMAINING,
    NAMES_LEFT,
    ROLE,
    WIDTH,
)
from guided.regular.dfa import DEAD
from guided.runtime.addresses import table_at
from guided.runtime.bits import lowest_bit
from guided.runtime.kernel import inlined, kernel

__all__ = [
    "ALLOWED",
    "FORBIDDEN",
    "NOWHERE",
    "UNRESOLVED",
    "UNSURE",
    "Addresses",
    "MachineArrays",
    "after_action",
    "after_byte",
    "enter_row",
    "is_closing",
    "look_up_transition",
    "loops_on",
    "machine_at",
    "take_token",
    "target_of",
]

ALLOWED: Final = 0
FORBIDDEN: Final = 1
UNSURE: Final = 2
UNRESOLVED: Final = 3
"""The status of one or several bytes.

They may follow (ALLOWED); they may not (FORBIDDEN); that depends on a text, which Python has to
look at (UNSURE); or a transition is missing (UNRESOLVED).

If the status is ALLOWED, stack, row and count are those after the bytes. On UNRESOLVED stack and
row hold the stack and the exit action of the missing transition: Python resolves it and calls
again. On FORBIDDEN and UNSURE they mean nothing.
"""
NOWHERE: Final = -1
"""In place of a stack, or of a place in a text."""

Addresses: TypeAlias = NDArray[np.int64]
"""The addresses of arrays, see ``addresses_of``."""


class MachineArrays(NamedTuple):
    """The arrays of a ``PackedMachine``."""

    rows: NDArray[np.int32]
    cells: NDArray[np.int32]
    byte_maps: NDArray[np.uint8]
    transitions: NDArray[np.int64]
    facts: NDArray[np.int32]


@inlined
def machine_at(addresses: Addresses) -> MachineArrays:
    """Return the arrays of a ``PackedMachine`` at their addresses, in the order of the fields.

    Types and widths are those of the table above, and unchecked: what ``addresses`` says is read.
    """
    return MachineArrays(
        table_at(addresses[0, 0], addresses[0, 1], WIDTH, np.int32),
        table_at(addresses[1, 0], addresses[1, 1], None, np.int32),
        table_at(addresses[2, 0], addresses[2, 1], 256, np.uint8),
        table_at(addresses[3, 0], addresses[3, 1], 3, np.int64),
        table_at(addresses[4, 0], addresses[4, 1], FACTS_WIDTH, np.int32),
    )


@inlined
def target_of(machine: MachineArrays, row: int, byte: int) -> int:
    """Return the row of the same automaton that a byte leads to, or DEAD."""
    base, kind = machine.rows[row, BASE], machine.rows[row, KIND]
    target: int = machine.cells[base + machine.byte_maps[kind, byte]]
    return target


@inlined
def loops_on(machine: MachineArrays, row: int, bytes_: NDArray[np.uint64]) -> bool:
    """Return whether all of some bytes, a line of ``TokenTrie.bytes_below``, lead a row to itself.

    ``False`` if any of them is not ASCII, or is NUL.
    """
    if bytes_[0] & np.uint64(1):
        return False
    for word in range(2):
        left = bytes_[word]
        while left:
            if target_of(machine, row, np.uint64(64 * word) + lowest_bit(left)) != row:
                return False
            left &= left - np.uint64(1)
    return True


@inlined
def is_closing(rows: NDArray[np.int32], row: int | np.uintp) -> bool:
    """Return whether a string ends with the byte that leads to the row."""
    ends: bool = rows[row, EXITS] != 0 or rows[row, COUNT_EVENT] == CLOSE_STRING
    return ends or rows[row, ROLE] == KEY_CLOSED


@inlined
def _find_slot(transitions: NDArray[np.int64], stack: int, action: int) -> int:
    """Return the slot of a transition in the hash table, NOWHERE if it is not there."""
    key = (stack << LABEL_BITS) | action
    mask = len(transitions) - 1
    # Slots are chosen as in ``StackTransitions``: linear probing, which ends at an empty slot
    # because the table is never more than half full.
    slot = (key * 0x9E3779B1 >> LABEL_BITS) & mask
    while transitions[slot, KEY] != key:
        if transitions[slot, KEY] == EMPTY_SLOT:
            return NOWHERE
        slot = (slot + 1) & mask
    return slot


@inlined
def look_up_transition(stack: int, action: int, machine: MachineArrays) -> tuple[int, int, int]:
    """Return status, stack and row after an exit action; ``UNRESOLVED`` says what they mean.

    On UNSURE the row is one that reads every byte that may follow, DEAD if none is known.
    ``action`` must not be DEAD, whose key would be that of an empty slot.
    """
    transitions = machine.transitions
    slot = _find_slot(transitions, stack, action)
    if slot == NOWHERE:
        return UNRESOLVED, stack, action
    # First, since the row beside it is often DEAD.
    if transitions[slot, TARGET] == NEEDS_EXACT_STATE:
        return UNSURE, stack, transitions[slot, ROW]
    if transitions[slot, ROW] == DEAD:
        return FORBIDDEN, stack, action
    return ALLOWED, transitions[slot, TARGET], transitions[slot, ROW]


@inlined
def _never_reads(machine: MachineArrays, row: int, byte: int) -> bool:
    """Return whether a byte cannot follow an exit action; ``row`` is as for UNSURE."""
    return row != DEAD and target_of(machine, row, byte) == DEAD


@inlined
def enter_row(
    stack: int, row: int, count: int, machine: MachineArrays, key_stack: int, is_walk: bool
) -> tuple[int, int, int, int, bool]:
    """Return status, stack, row and count after entering ``row``, and whether the stack was read.

    Exit actions that have to be taken at once are taken. The caller has checked the bounds on the
    count. If the stack was not read, the result is the same in every stack.

    ``is_walk`` says that a mask is made, not an exact step. The closing quote of a key then passes
    unless the key could be one that the object already has; and exit actions that are sure to be
    allowed are deferred to the next byte. ``key_stack`` is the stack in which a key was being
    written when the walk began, else NOWHERE: ``StateMasks`` itself removes the tokens that would
    close that key as one already taken, so its closing quote passes too.
    """
    rows, facts = machine.rows, machine.facts
    role = rows[row, ROLE]
    if role == KEY_CLOSED:
        knowledge = facts[stack, KNOWLEDGE]
        if not is_walk:
            return UNSURE, stack, row, count, True
        if knowledge == UNKNOWN or (knowledge == KNOWN and stack != key_stack):
            return UNSURE, stack, row, count, True
    elif role == IN_RARE_KEY and rows[row, NAMES_LEFT] <= facts[stack, NAMES_TAKEN]:
        # Whether any name is left depends on the names before it.
        return UNSURE, stack, row, count, True
    if rows[row, EXITS]:
        if is_walk and rows[row, LABEL] <= LAST_UNCONDITIONAL and not facts[stack, TEXT_DECIDES]:
            # The action is allowed in every stack, so the token may end here. The row stays as it
            # is: ``after_byte`` takes the action if there is another byte.
            return ALLOWED, stack, row, 0, True
        status, stack, row = look_up_transition(stack, rows[row, LABEL], machine)
        return status, stack, row, 0, True
    return ALLOWED, stack, row, count, role in (KEY_CLOSED, IN_RARE_KEY)


@inlined
def after_byte(
    stack: int,
    row: int,
    count: int,
    byte: int,
    machine: MachineArrays,
    key_stack: int,
    is_walk: bool,
) -> tuple[int, int, int, int, bool]:
    """Return status, stack, row and count after a byte, and whether the stack was read.

    ``count`` is the number of code points so far in a string that counts them; ``key_stack`` and
    ``is_walk`` are explained at ``enter_row``. Does what ``Recognizer.step`` does.
    """
    rows = machine.rows
    read_stack = False
    target = target_of(machine, row, byte)
    while target == DEAD:
        # The automaton may end here, and the byte may belong to what follows.
        action = rows[row, LABEL]
        if action == DEAD:
            return FORBIDDEN, stack, row, count, read_stack
        read_stack = True
        status, stack, row = look_up_transition(stack, action, machine)
        if status == UNSURE and _never_reads(machine, row, byte):
            status = FORBIDDEN
        if status != ALLOWED:
            return status, stack, row, count, read_stack
        target = target_of(machine, row, byte)
    # The count of code points is not part of the automaton: the row says what it means there.
    high = rows[target, HIGH]
    # HIGH is UNCOUNTED (-1) in rows that count nothing.
    if high < 0:
        count = 0
    elif rows[target, COUNT_EVENT] == CLOSE_STRING:
        if count < rows[target, LOW]:
            return FORBIDDEN, stack, target, count, read_stack
        count = 0
    else:
        if rows[target, COUNT_EVENT] == START:
            count = 0
        elif rows[target, COUNT_EVENT] == CODE_POINT_END:
            count += 1
        # MIN_REMAINING code points must come before the string can close, so it would get too long.
        if count + rows[target, MIN_REMAINING] > high:
            return FORBIDDEN, stack, target, count, read_stack
    status, stack, row, count, also_read = enter_row(
        stack, target, count, machine, key_stack, is_walk
    )
    return status, stack, row, count, read_stack or also_read


@inlined
def after_action(
    stack: int, action: int, byte: int, machine: MachineArrays, key_stack: int
) -> tuple[int, int, int, int]:
    """Return status, stack, row and count of a walk after an exit action and then a byte.

    For sites of which the action is known but not the row (``BY_ACTION``).
    """
    status, stack, row = look_up_transition(stack, action, machine)
    if status == UNSURE and _never_reads(machine, row, byte):
        status = FORBIDDEN
    if status != ALLOWED:
        return status, stack, row, 0
    status, stack, row, count, _ = after_byte(stack, row, 0, byte, machine, key_stack, True)
    return status, stack, row, count


@kernel
def take_token(
    text: NDArray[np.uint8],
    first: int,
    last: int,
    stack: int,
    row: int,
    count: int,
    key_start: int,
    addresses: Addresses,
) -> tuple[int, int, int, int, int]:
    """Move a state by the bytes ``text[first:last]`` of one token.

    Returns status, stack, row, count and ``key_start``; see ``UNRESOLVED`` for what the first four
    mean. After UNRESOLVED the call is repeated from the same state.

    ``key_start`` is for free member names, whose text a ``State`` has to remember. It is the index
    in ``text`` of the first byte of the name being written, after its opening quote, or NOWHERE if
    no name is being written. The caller passes any other number for a name that began before this
    token, and gets it back as long as that name continues.

    The status is UNSURE where the decision needs a text that only Python has: at the closing quote
    of a name, and inside items that others must differ from.
    """
    machine = machine_at(addresses)
    rows, facts = machine.rows, machine.facts
    status, name_stack = ALLOWED, stack
    for index in range(first, last):
        status, stack, row, count, _ = after_byte(
            stack, row, count, text[index], machine, NOWHERE, False
        )
        # Items that others must differ from are remembered with their text, which only Python has.
        if status == ALLOWED and facts[stack, NUM_TEXTS]:
            status = UNSURE
        if status != ALLOWED:
            break
        # Another container, or another member of this one: the key before it has ended.
        if stack != name_stack:
            name_stack, key_start = stack, NOWHERE
        if key_start == NOWHERE and (rows[row, ROLE] == IN_KEY or rows[row, ROLE] == IN_RARE_KEY):
            key_start = index + 1
    return status, stack, row, count, key_start
