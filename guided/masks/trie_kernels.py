"""Walks over the whole trie in compiled code: to correct a mask, and to find where tokens lead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.machine.table_layout import EXITS, KEY_CLOSED, LABEL, ROLE
from guided.masks.machine_kernels import (
    ALLOWED,
    NOWHERE,
    UNRESOLVED,
    UNSURE,
    Addresses,
    after_byte,
    target_of,
)
from guided.masks.trie import BYTE, DEPTH, END, FIRST_TOKEN
from guided.masks.walk_kernels import BY_PATH
from guided.masks.walk_path import (
    CHILD,
    COUNT,
    FINISHED,
    LAST,
    LEVEL,
    OTHER,
    OUTSIDE,
    PROGRESS,
    ROW,
    SLOTS_FULL,
    STACK,
    Walk,
    allow_tokens,
    begin_children,
    begin_walk,
    forbid_below,
    put_state,
    record_uncertain,
    result,
    walk_at,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["correct_mask", "walk_to_slots"]


@inlined
def _next_difference(level: int, walk: Walk) -> tuple[int, int]:
    """Return the next child to which two rows of a level lead differently, and the other's target.

    The child is the LAST of the level if there is none. If the other row is DEAD, what it allows is
    not known, and every child counts as different. Both rows are read in the same stack with the
    same count. The second result means nothing if there is no such child.

    A child is passed over only if both rows lead to the same row, or both to none and by the
    same exit action: then the mask of the other row holds for all below it.
    """
    path, machine, child_bytes = walk.path, walk.machine, walk.trie.child_bytes
    child, last = path[level, CHILD], path[level, LAST]
    row, other = path[level, ROW], path[level, OTHER]
    there = int(DEAD)
    if other == DEAD:
        return child, there
    ends_alike = machine.rows[row, LABEL] == machine.rows[other, LABEL]
    while child < last:
        here = target_of(machine, row, child_bytes[child])
        there = int(target_of(machine, other, child_bytes[child]))
        if here != there or (here == DEAD and not ends_alike):
            break
        child += 1
    return child, there


@kernel
def correct_mask(
    trie: Addresses,
    machine: Addresses,
    scratch: Addresses,
    stack: int,
    row: int,
    count: int,
    base: NDArray[np.int32],
    changes: NDArray[np.int32],
    other: int,
    is_resumed: bool,
) -> tuple[int, int, int, int, int]:
    """Make the mask of a row from that of the ``other`` row, with which it shares most transitions.

    The other mask is ``base`` with ``changes``, see ``MaskDelta``, and has to be that of ``other``
    with the same count, in this stack or one after which the same may follow
    (``StateSharing.overlaid_state``). If both rows lead to the same row, all below stays
    the same; elsewhere what the other row may have set is forbidden and walked again. Returns what
    ``walk_sites`` does, but not whether the stack was read: the mask holds for this stack alone.

    ``stack``, ``row`` and ``count`` are the state; ``is_resumed`` continues after an UNRESOLVED.
    """
    walk = walk_at(trie, machine, scratch, stack, row, False)
    path, rows = walk.path, walk.machine.rows
    if not is_resumed:
        begin_walk(stack, row, count, base, changes, walk)
        put_state(OUTSIDE + 1, stack, row, count, path)
        begin_children(OUTSIDE + 1, 0, walk)
        path[OUTSIDE + 1, OTHER] = other
        path[PROGRESS, LEVEL] = OUTSIDE + 1
    level = path[PROGRESS, LEVEL]
    while level > OUTSIDE:
        child, there = _next_difference(level, walk)
        if child == path[level, LAST]:
            level -= 1
            continue
        path[level, CHILD] = child
        status, at, target, counted, _ = after_byte(
            path[level, STACK],
            path[level, ROW],
            path[level, COUNT],
            walk.trie.child_bytes[child],
            walk.machine,
            walk.key_stack,
            True,
        )
        if status >= UNRESOLVED:
            path[PROGRESS, LEVEL] = level
            return result(status, at, target, path)
        path[level, CHILD] = child + 1
        node = walk.trie.child_nodes[child]
        # If the other row leaves its automaton, its mask does not decide what follows here.
        if there != DEAD and (rows[there, ROLE] == KEY_CLOSED or rows[there, EXITS]):
            there = DEAD
        if status != ALLOWED or there == DEAD:
            forbid_below(node, walk)
        if status == UNSURE:
            record_uncertain(node, BY_PATH, walk)
        elif status == ALLOWED:
            allow_tokens(node, walk)
            put_state(level + 1, at, target, counted, path)
            begin_children(level + 1, node, walk)
            level += 1
            path[level, OTHER] = there
    return result(FINISHED, NOWHERE, DEAD, path)


@kernel
def walk_to_slots(
    trie: Addresses,
    machine: Addresses,
    scratch: Addresses,
    stack: int,
    row: int,
    count: int,
    slot_of_token: NDArray[np.int32],
    slots: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Find where every token leads: its slot in the hash table ``slots``, int64 ``[slots, 3]``.

    A slot holds a stack, a row and a count; all must be NOWHERE before. ``slot_of_token`` gets the
    slot of each token, and is left as it was for tokens that lead nowhere, or not for sure.

    Returns FINISHED, or UNRESOLVED with stack and exit action of the missing transition, or
    SLOTS_FULL where half of the slots are taken. After the last two the caller begins again, with
    the transition or with more slots.
    """
    walk = walk_at(trie, machine, scratch, stack, row, False)
    nodes, token_ids, path = walk.trie.nodes, walk.trie.token_ids, walk.path
    put_state(OUTSIDE + 1, stack, row, count, path)
    # Nodes are numbered depth first, so a loop over the numbers is the walk; END skips a subtree.
    # The path has at each depth the state after the last node looked at there.
    used, node = 0, 1
    while node < nodes[0, END]:
        level = nodes[node, DEPTH] + OUTSIDE + 1
        status, at, target, counted, _ = after_byte(
            path[level - 1, STACK],
            path[level - 1, ROW],
            path[level - 1, COUNT],
            nodes[node, BYTE],
            walk.machine,
            walk.key_stack,
            False,
        )
        if status >= UNRESOLVED:
            return status, at, target
        if status != ALLOWED:
            node = nodes[node, END]
            continue
        put_state(level, at, target, counted, path)
        if nodes[node, FIRST_TOKEN] < nodes[node + 1, FIRST_TOKEN]:
            slot, is_new = _slot_of(at, target, counted, slots)
            used += is_new
            if 2 * used > len(slots):
                return SLOTS_FULL, NOWHERE, DEAD
            for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
                slot_of_token[token_ids[index]] = slot
        node += 1
    return FINISHED, NOWHERE, DEAD


@inlined
def _slot_of(stack: int, row: int, count: int, slots: NDArray[np.int64]) -> tuple[int, bool]:
    """Return the slot of a state, and whether it is new; the caller keeps half of the slots free.

    Enters a new state. At least one slot must be free, or the search would not end.
    """
    slot = (((stack * 0x9E3779B1 + row) * 0x85EBCA77 + count) >> 9) % len(slots)
    while slots[slot, 0] != NOWHERE:
        if slots[slot, 0] == stack and slots[slot, 1] == row and slots[slot, 2] == count:
            return slot, False
        slot = (slot + 1) % len(slots)
    slots[slot, 0], slots[slot, 1], slots[slot, 2] = stack, row, count
    return slot, True
