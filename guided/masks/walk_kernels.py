"""Walks over parts of the trie of a vocabulary in compiled code; see ``Walker`` and ``walk_path``.

A walk begins at *sites*, nodes of the trie, and looks at the children of each node whose bytes may
follow, depth first; what is below a node is taken at once if its bytes lead a row to itself. The
*entry* of a site says how the walk finds its state there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import NO_EVENT
from guided.machine.table_layout import BASE, COUNT_EVENT, EXITS, IN_RARE_KEY, KIND, LABEL, ROLE
from guided.masks.machine_kernels import (
    ALLOWED,
    FORBIDDEN,
    NOWHERE,
    UNRESOLVED,
    UNSURE,
    Addresses,
    after_action,
    after_byte,
    enter_row,
    is_closing,
    look_up_transition,
    loops_on,
    target_of,
)
from guided.masks.trie import END, FIRST_CHILD
from guided.masks.walk_path import (
    AFTER,
    ALL,
    BEYOND,
    CHILD,
    COUNT,
    ENTRY,
    ENTRY_STATUS,
    FINISHED,
    INSIDE,
    LAST,
    LEVEL,
    NODE,
    NOT_READ,
    NOTHING,
    OUTSIDE,
    PART,
    PROGRESS,
    READ_STACK,
    ROW,
    SITE,
    STACK,
    Walk,
    allow_below,
    allow_tokens,
    begin_children,
    begin_walk,
    defer_node,
    is_wide_and_large,
    put_state,
    record_uncertain,
    result,
    walk_at,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["AT_NODE", "BY_ACTION", "BY_PATH", "walk_sites"]

AT_NODE: Final = -1
BY_PATH: Final = -2
BELOW: Final = -3
"""Entries of sites, besides the indices of closing rows; see ``walk_sites``."""
BY_ACTION: Final = -4096
"""The first of further entries, 256 for each closing row, downwards."""


# --- sites --------------------------------------------------------------------------------------


@inlined
def _after_node(top: int, walk: Walk) -> tuple[int, int, int, int]:
    """Return status, stack, row and count of the walk's state after all bytes of the node ``top``.

    Goes down the trie from the root, as nodes do not know their parents.

    It begins at the root whatever was walked before, so the walk's first state must stand at the
    root.
    """
    nodes, child_bytes, child_nodes = walk.trie.nodes, walk.trie.child_bytes, walk.trie.child_nodes
    path = walk.path
    stack, row, count = path[OUTSIDE, STACK], path[OUTSIDE, ROW], path[OUTSIDE, COUNT]
    status, node = ALLOWED, 0
    while node != top and status == ALLOWED:
        # By bisection: children are sorted by number, and a node's numbers end where the next
        # child's begin. So the last child that does not come after the node is above it, or is it.
        low, high = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
        while high - low > 1:
            middle = (low + high) // 2
            if child_nodes[middle] <= top:
                low = middle
            else:
                high = middle
        node = child_nodes[low]
        status, stack, row, count, _ = after_byte(
            stack, row, count, child_bytes[low], walk.machine, walk.key_stack, True
        )
    return status, stack, row, count


@inlined
def _state_after_entry(
    top: int, entry: int, closing_rows: NDArray[np.int32], walk: Walk
) -> tuple[int, int, int, int, bool]:
    """Return status, stack, row and count at a site, and whether the stack was read.

    ``walk_sites`` explains ``entry``. ``top`` is the node of the site.
    """
    path, machine, key_stack = walk.path, walk.machine, walk.key_stack
    stack, row, count = path[OUTSIDE, STACK], path[OUTSIDE, ROW], path[OUTSIDE, COUNT]
    if entry == AT_NODE:
        return ALLOWED, stack, row, count, False
    if entry > AT_NODE:
        return enter_row(stack, closing_rows[entry], 0, machine, key_stack, True)
    if entry > BY_ACTION:
        status, stack, row, count = _after_node(top, walk)
    else:
        action = machine.rows[closing_rows[(BY_ACTION - entry) >> 8], LABEL]
        byte = (BY_ACTION - entry) & 255
        status, stack, row, count = after_action(stack, action, byte, machine, key_stack)
    return status, stack, row, count, True


@inlined
def _enter_site(
    site: NDArray[np.int32],
    closing_rows: NDArray[np.int32],
    missing: int,
    left: int,
    walk: Walk,
) -> tuple[int, int, int, int]:
    """Enter a site: find the state there, and begin with its children unless it is passed over.

    Returns a status, a stack, an exit action and a level. On UNRESOLVED stack and action are those
    of the missing transition, and the call is repeated once it is there. Else the status is
    ALLOWED, and the level is that of the site's children, or OUTSIDE if they are not looked at.

    Sites come sorted by entry, and those of one entry have the same state, unless it is that after
    the bytes of the node. So the state is found for the first of them and left in the path for the
    others (``ENTRY``, ``ENTRY_STATUS``). ``_look_at_child`` may replace it there by that after the
    exit action of a row that reads no byte, from which the same may follow.
    """
    nodes, path = walk.trie.nodes, walk.path
    top, code_points, least, entry = site[0], site[1], site[2], site[3]
    # Closing rows of an outline with a horizon may lie inside the string: bounds still count.
    is_inside = entry > AT_NODE and not is_closing(walk.machine.rows, closing_rows[entry])
    if least > left or (code_points < missing and not is_inside):
        return ALLOWED, NOWHERE, DEAD, OUTSIDE
    is_below = entry == BELOW
    if is_inside:
        path[PROGRESS, ENTRY], path[PROGRESS, ENTRY_STATUS] = entry, ALLOWED
        stack, count = path[OUTSIDE, STACK], path[OUTSIDE, COUNT] + code_points
        put_state(OUTSIDE + 1, stack, closing_rows[entry], count, path)
    elif is_below or entry == BY_PATH or path[PROGRESS, ENTRY] != entry:
        status, stack, row, count, read_stack = _state_after_entry(top, entry, closing_rows, walk)
        if read_stack:
            path[PROGRESS, READ_STACK] = True
        if status >= UNRESOLVED:
            return status, stack, row, OUTSIDE
        path[PROGRESS, ENTRY], path[PROGRESS, ENTRY_STATUS] = entry, status
        put_state(OUTSIDE + 1, stack, row, count, path)
    if path[PROGRESS, ENTRY_STATUS] == UNSURE:
        record_uncertain(top, BELOW if is_below else BY_PATH, walk)
    if path[PROGRESS, ENTRY_STATUS] != ALLOWED:
        return ALLOWED, NOWHERE, DEAD, OUTSIDE
    row = path[OUTSIDE + 1, ROW]
    # AT_NODE and BELOW are about what is below the node; else its own tokens are set as well.
    if entry != AT_NODE and not is_below:
        allow_tokens(top, walk)
        if nodes[top, END] == top + 1:
            return ALLOWED, NOWHERE, DEAD, OUTSIDE
        if is_wide_and_large(top, row, walk):
            defer_node(top, path[OUTSIDE + 1, STACK], row, path[OUTSIDE + 1, COUNT], walk)
            return ALLOWED, NOWHERE, DEAD, OUTSIDE
    begin_children(OUTSIDE + 1, top, walk)
    # All children of a row that reads no byte come after its exit action, so there ALL is right.
    if is_below and not walk.machine.rows[row, EXITS]:
        path[OUTSIDE + 1, PART] = BEYOND
    return ALLOWED, NOWHERE, DEAD, OUTSIDE + 1


# --- nodes --------------------------------------------------------------------------------------


@inlined
def _next_child(child: int, last: int, row: int, part: int, after: int, walk: Walk) -> int:
    """Return the next child, from ``child`` on, whose byte may follow a row; ``last`` for none.

    ``part`` says which children are looked at, see ``INSIDE``. ``after`` is the row after the exit
    action of ``row``, or one that reads more; NOT_READ or DEAD if it is not known. A skipped child
    certainly may not follow; a returned one may still turn out not to.
    """
    machine, child_bytes = walk.machine, walk.trie.child_bytes
    rows, cells, byte_maps = machine.rows, machine.cells, machine.byte_maps
    if part == NOTHING:
        return last
    base, kind = rows[row, BASE], rows[row, KIND]
    if part == INSIDE or rows[row, LABEL] == DEAD:
        while child < last and cells[base + byte_maps[kind, child_bytes[child]]] == DEAD:
            child += 1
        return child
    # Beyond the exit action only bytes of the row there are looked at, if it has no exit itself.
    other, map_ = DEAD, 0
    if after >= 0 and rows[after, LABEL] == DEAD:
        other, map_ = rows[after, BASE], rows[after, KIND]
    while child < last:
        byte = child_bytes[child]
        if cells[base + byte_maps[kind, byte]] != DEAD:
            if part == ALL:
                break
        elif other == DEAD or cells[other + byte_maps[map_, byte]] != DEAD:
            break
        child += 1
    return child


@inlined
def _look_after_action(level: int, walk: Walk) -> tuple[int, int, int, int]:
    """Find the row after the exit action of a level's row, once for all children beyond it.

    Returns what ``_enter_site`` does.

    On ALLOWED the level stays the same, at the same child: the caller looks at the child again, now
    with AFTER known.
    """
    path, rows = walk.path, walk.machine.rows
    stack, row, part = path[level, STACK], path[level, ROW], path[level, PART]
    status, reached, after = look_up_transition(stack, rows[row, LABEL], walk.machine)
    path[PROGRESS, READ_STACK] = True
    if status >= UNRESOLVED:
        return status, reached, after, level
    # Where a text decides, this is the row of all that may follow.
    path[level, AFTER] = DEAD if status == FORBIDDEN else after
    # In a truncated stack one uncertain site stands for all children beyond the action, which are
    # then passed over here; in a whole stack each child finds out about UNSURE separately.
    is_uncertain = status == UNSURE and walk.is_truncated
    if is_uncertain:
        record_uncertain(path[level, NODE], BELOW, walk)
    if status == FORBIDDEN or is_uncertain:
        path[level, PART] = INSIDE if part == ALL else NOTHING
    return ALLOWED, NOWHERE, DEAD, level


@inlined
def _loops_below(node: int, row: int, walk: Walk) -> bool:
    """Return whether all bytes below a node lead from the row to itself, which counts none.

    Then all tokens below may follow, and their bytes need not be read: white space mostly. Nothing
    is below a leaf.
    """
    rows = walk.machine.rows
    # A rare key may run out of names.
    if rows[row, COUNT_EVENT] != NO_EVENT or rows[row, ROLE] == IN_RARE_KEY:
        return False
    return loops_on(walk.machine, row, walk.trie.bytes_below[node])


@inlined
def _look_at_child(level: int, walk: Walk) -> tuple[int, int, int, int]:
    """Look at the next child of a level, or go back to the level above.

    Sets the tokens of the child if it may follow, and goes down to its children, or takes all that
    is below at once, or defers it. Returns what ``_enter_site`` does; after UNRESOLVED the same
    child is looked at again.
    """
    nodes, path, machine = walk.trie.nodes, walk.path, walk.machine
    stack, row, count = path[level, STACK], path[level, ROW], path[level, COUNT]
    child, last = path[level, CHILD], path[level, LAST]
    if machine.rows[row, EXITS] and child < last and path[level, PART] == ALL:
        # The row reads no byte, so all children come after its exit action, which is taken once.
        status, reached, target = look_up_transition(stack, machine.rows[row, LABEL], machine)
        path[PROGRESS, READ_STACK] = True
        if status == ALLOWED:
            stack, row, count = reached, target, 0
            put_state(level, stack, row, count, path)
    after = path[level, AFTER]
    child = _next_child(child, last, row, path[level, PART], after, walk)
    if child == last:
        return ALLOWED, NOWHERE, DEAD, level - 1
    # Stay at this child for now: where a transition is missing the walk comes back to it.
    path[level, CHILD] = child
    byte = walk.trie.child_bytes[child]
    target = target_of(machine, row, byte)
    if target == DEAD and after == NOT_READ:
        return _look_after_action(level, walk)
    status, stack, row, count, read_stack = after_byte(
        stack, row, count, byte, machine, walk.key_stack, True
    )
    if read_stack:
        path[PROGRESS, READ_STACK] = True
    if status >= UNRESOLVED:
        return status, stack, row, level
    path[level, CHILD] = child + 1
    node = walk.trie.child_nodes[child]
    if status == UNSURE:
        record_uncertain(node, BY_PATH, walk)
    elif status == ALLOWED and _loops_below(node, row, walk):
        allow_below(node, walk)
    elif status == ALLOWED:
        allow_tokens(node, walk)
        if is_wide_and_large(node, row, walk):
            defer_node(node, stack, row, count, walk)
        elif nodes[node, FIRST_CHILD] < nodes[node + 1, FIRST_CHILD]:
            put_state(level + 1, stack, row, count, path)
            begin_children(level + 1, node, walk)
            level += 1
    return ALLOWED, NOWHERE, DEAD, level


@kernel
def walk_sites(
    trie: Addresses,
    machine: Addresses,
    scratch: Addresses,
    is_truncated: bool,
    stack: int,
    row: int,
    count: int,
    base: NDArray[np.int32],
    changes: NDArray[np.int32],
    sites: NDArray[np.int32],
    closing_rows: NDArray[np.int32],
    missing: int,
    left: int,
    is_resumed: bool,
) -> tuple[int, int, int, int, int]:
    """Add the tokens below some nodes of the trie to a mask, as far as they may follow.

    The mask begins as ``base`` with ``changes``, see ``MaskDelta``, and is made in the ``words`` of
    the scratch. ``stack``, ``row`` and ``count`` are the state that the walk begins with.

    A site, a line of int32 ``[sites, 4]``, is a node, the number of code points of its text, the
    least number in a string with it, and the entry, which says how the walk reaches it. ``missing``
    is how many code points a string must still have, ``left`` how many it may have: sites that
    count fewer, or make it longer, are passed over. Entries are

    - AT_NODE: the state is that at the node, whose own tokens are left out;
    - BY_PATH: all bytes of the node are read;
    - BELOW: the same, and those of the node's children are walked that come after the exit action
      of the row there;
    - BY_ACTION, less 256 times an index into ``closing_rows`` and a byte: the byte comes after the
      exit action of that row;
    - others: an index into ``closing_rows``, whose row is entered; a row of the same string is
      entered even if code points are missing.

    ``trie``, ``machine`` and ``scratch`` are addresses. With ``is_resumed`` the walk continues
    where it stopped for a missing transition.

    Returns FINISHED or UNRESOLVED; the number of uncertain sites; stack and exit action of the
    missing transition; and the number of deferred nodes. In place of the stack a finished walk
    returns whether the stack was read: if not, the result is the same in all stacks. Large nodes
    at which the row is wide are deferred: ``Scratch.deferred`` gets the node and the state there
    for each.

    ``is_truncated`` says that the stack is truncated: one uncertain site may then stand for many
    children of a node.
    """
    walk = walk_at(trie, machine, scratch, stack, row, is_truncated)
    path = walk.path
    if not is_resumed:
        begin_walk(stack, row, count, base, changes, walk)
    # The level is a local variable, written back only when the walk stops: so it stays in a
    # register, and every look at a child waits for it.
    level = path[PROGRESS, LEVEL]
    for number in range(path[PROGRESS, SITE], len(sites)):
        status, at, action = ALLOWED, NOWHERE, DEAD
        if level == OUTSIDE:
            status, at, action, level = _enter_site(
                sites[number], closing_rows, missing, left, walk
            )
        while status < UNRESOLVED and level > OUTSIDE:
            status, at, action, level = _look_at_child(level, walk)
        if status >= UNRESOLVED:
            path[PROGRESS, SITE], path[PROGRESS, LEVEL] = number, level
            return result(status, at, action, path)
    return result(FINISHED, NOWHERE, DEAD, path)
