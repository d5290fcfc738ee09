"""Walks over parts of the trie of a vocabulary in compiled code; see ``Walker`` and ``walk_path``.

A walk begins at *sites*, nodes of the trie that it reaches in one of several ways, and looks at the
children of each node whose bytes may follow, depth first.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.table_layout import BASE, EXITS, KIND, LABEL
from guided.masks.machine_kernels import (
    ALIVE,
    DIES,
    NOWHERE,
    UNRESOLVED,
    UNSURE,
    Addresses,
    after_action,
    after_byte,
    entered,
    is_closing,
    resolved,
    target_of,
)
from guided.masks.trie import BYTE, END, FIRST_CHILD
from guided.masks.walk_path import (
    AFTER,
    ALL,
    BEYOND,
    CHILD,
    COUNT,
    ENTRY,
    FATE,
    FINISHED,
    INSIDE,
    LAST,
    LEVEL,
    NO_WAY,
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
    allow,
    begin,
    begin_children,
    doubt,
    is_wide_and_large,
    put_off_node,
    put_state,
    result,
    walk_at,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["BY_ACTION", "BY_BYTE", "BY_PATH", "ITSELF", "walk_sites"]

ITSELF: Final = -1
BY_BYTE: Final = -2
"""The first of 256 ways, one for each byte."""
BY_PATH: Final = -2000
BY_ROW: Final = -2001
AFTER_ACTION: Final = -2002
BELOW: Final = -2003
BELOW_PATH: Final = -2004
"""Ways to a site of a walk, besides closing rows; see ``walk_sites``."""
BY_ACTION: Final = -4096
"""The first of further ways, 256 for each closing row."""
FIRST_ENTRANCE: Final = 2**32
"""Where the numbers begin of what is entered by a row or after an exit action, beside the ways."""


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
    status, node = ALIVE, 0
    while node != top and status == ALIVE:
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
def _after_way(
    way: int, about: int, byte: int, closings: NDArray[np.int32], walk: Walk
) -> tuple[int, int, int, int, bool]:
    """Return status, stack, row and count at a site reached by ``way``, and if the stack was read.

    ``walk_sites`` explains the ways. ``about`` is the row or the action that the site has in place
    of its code points. ``byte`` is the last one of its node. Not for BY_PATH, BELOW and BELOW_PATH.
    """
    path, machine, key_stack = walk.path, walk.machine, walk.key_stack
    stack, row, count = path[OUTSIDE, STACK], path[OUTSIDE, ROW], path[OUTSIDE, COUNT]
    if way == ITSELF:
        return ALIVE, stack, row, count, False
    if way > ITSELF:
        return entered(stack, closings[way], 0, machine, key_stack, True)
    if way == BY_ROW:
        return entered(stack, about, 0, machine, key_stack, True)
    if BY_PATH < way <= BY_BYTE:
        return after_byte(stack, row, count, BY_BYTE - way, machine, key_stack, True)
    # AFTER_ACTION has its action in ``about``; for BY_ACTION row and byte are part of the number.
    action = about
    if way <= BY_ACTION:
        action = machine.rows[closings[(BY_ACTION - way) >> 8], LABEL]
        byte = (BY_ACTION - way) & 255
    status, stack, row, count = after_action(stack, action, byte, machine, key_stack)
    return status, stack, row, count, True


@inlined
def _entrance(way: int, about: int, byte: int) -> int:
    """Return a number for what is entered at a site: sites with the same one share the state there.

    The ways BY_ROW and AFTER_ACTION do not suffice, as their sites differ in row, action and byte.

    No two of these may share a number: ways are negative, or the places of closing rows below
    FIRST_ENTRANCE, and the others begin there.
    """
    if way == BY_ROW:
        return (int(about) << 9) + FIRST_ENTRANCE
    if way == AFTER_ACTION:
        return (int(about) << 9 | byte << 1 | 1) + FIRST_ENTRANCE
    return int(way)


@inlined
def _doubt_site(top: int, about: int, way: int, closings: NDArray[np.int32], walk: Walk) -> None:
    """Note a site that may or may not be entered, so that it is walked again."""
    rows = walk.machine.rows
    # A site that came from an earlier doubt is noted as it was. Otherwise a row or an action may
    # stand for the bytes of the node only in the stack of a truncated walk, see ``walk_sites``.
    if BY_ACTION < way <= BY_PATH:
        doubt(top, about, way, walk)
    elif walk.home != walk.path[OUTSIDE, STACK] or BY_PATH < way <= BY_BYTE:
        doubt(top, 0, BY_PATH, walk)
    elif way > ITSELF:
        doubt(top, closings[way], BY_ROW, walk)
    else:
        action = rows[closings[(BY_ACTION - way) >> 8], LABEL]
        doubt(top, action, AFTER_ACTION, walk)


@inlined
def _enter_site(
    site: NDArray[np.int32],
    closings: NDArray[np.int32],
    missing: int,
    left: int,
    walk: Walk,
) -> tuple[int, int, int, int]:
    """Enter a site: find the state there, and begin with its children unless it is passed over.

    Returns a status, a stack, an exit action and a level. On UNRESOLVED stack and action are those
    of the missing transition, and the call is repeated once it is there. Else the status is ALIVE,
    and the level is that of the site's children, or OUTSIDE if they are not looked at.

    Sites come sorted by way, and most ways lead to the same state everywhere. So the state is found
    for the first site of a way and left in the path for the others (``ENTRY`` and ``FATE``).
    """
    nodes, path = walk.trie.nodes, walk.path
    top, about, way = site[0], site[1], site[3]
    # Closing rows of an outline with a horizon may lie inside the string: bounds still count.
    is_inside = way > ITSELF and not is_closing(walk.machine.rows, closings[way])
    if site[2] > left or (about < missing and not is_inside):
        return ALIVE, NOWHERE, DEAD, OUTSIDE
    status, byte = ALIVE, nodes[top, BYTE]
    stack, row, count = path[OUTSIDE, STACK], path[OUTSIDE, ROW], path[OUTSIDE, COUNT]
    is_below = way in (BELOW, BELOW_PATH)
    if is_inside:
        row, count = closings[way], count + about
        path[PROGRESS, ENTRY], path[PROGRESS, FATE] = way, ALIVE
        put_state(OUTSIDE + 1, stack, row, count, path)
    elif is_below or way == BY_PATH or path[PROGRESS, ENTRY] != _entrance(way, about, byte):
        if way == BELOW:
            row, count = about, 0
        elif way in (BY_PATH, BELOW_PATH):
            status, stack, row, count = _after_node(top, walk)
            path[PROGRESS, READ_STACK] = True
        else:
            # Once for all sites of a way: their state stays where the first one put it.
            status, stack, row, count, asked = _after_way(way, about, byte, closings, walk)
            if asked:
                path[PROGRESS, READ_STACK] = True
        if status >= UNRESOLVED:
            return status, stack, row, OUTSIDE
        is_alone = is_below or way == BY_PATH
        path[PROGRESS, ENTRY] = NO_WAY if is_alone else _entrance(way, about, byte)
        path[PROGRESS, FATE] = status
        put_state(OUTSIDE + 1, stack, row, count, path)
    if path[PROGRESS, FATE] == UNSURE:
        _doubt_site(top, about, way, closings, walk)
    if path[PROGRESS, FATE] != ALIVE:
        return ALIVE, NOWHERE, DEAD, OUTSIDE
    row = path[OUTSIDE + 1, ROW]
    # The tokens of the node itself belong to the walk that noted the site, unless the node is
    # where that walk ended.
    if way != ITSELF and not is_below:
        allow(top, walk)
        if nodes[top, END] == top + 1:
            return ALIVE, NOWHERE, DEAD, OUTSIDE
        if is_wide_and_large(top, row, walk):
            put_off_node(top, path[OUTSIDE + 1, STACK], row, path[OUTSIDE + 1, COUNT], walk)
            return ALIVE, NOWHERE, DEAD, OUTSIDE
    begin_children(OUTSIDE + 1, top, walk)
    if is_below and not walk.machine.rows[row, EXITS]:
        path[OUTSIDE + 1, PART] = BEYOND
    return ALIVE, NOWHERE, DEAD, OUTSIDE + 1


# --- nodes --------------------------------------------------------------------------------------


@inlined
def _next_child(child: int, last: int, row: int, part: int, after: int, walk: Walk) -> int:
    """Return the next child, from ``child`` on, whose byte may follow a row; ``last`` for none.

    ``part`` says which children are looked at, see ``INSIDE``. ``after`` is the row after the exit
    action of ``row``; NOT_ASKED or DEAD if it is not known. A skipped child certainly may not
    follow; a returned one may still turn out not to.
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

    On ALIVE the level stays the same, at the same child: the caller looks at the child again, now
    with AFTER known.
    """
    path, rows = walk.path, walk.machine.rows
    stack, row, part = path[level, STACK], path[level, ROW], path[level, PART]
    status, reached, after = resolved(stack, rows[row, LABEL], walk.machine)
    path[PROGRESS, READ_STACK] = True
    if status >= UNRESOLVED:
        return status, reached, after, level
    path[level, AFTER] = after if status == ALIVE else DEAD
    # In a truncated stack one doubt stands for all children beyond the action, which are then
    # passed over here; in a whole stack each child finds out about UNSURE separately.
    is_truncated = walk.home != NOWHERE
    if status == UNSURE and is_truncated:
        if stack == walk.home:
            doubt(path[level, NODE], row, BELOW, walk)
        else:
            doubt(path[level, NODE], 0, BELOW_PATH, walk)
    if status == DIES or (status == UNSURE and is_truncated):
        path[level, PART] = INSIDE if part == ALL else NOTHING
    return ALIVE, NOWHERE, DEAD, level


@inlined
def _doubt_child(level: int, node: int, target: int, walk: Walk) -> None:
    """Note a node whose last byte may or may not follow the state above.

    Only if the walk is at ``home`` may the site name the row or action: elsewhere these may
    differ from those of the exact state, so all bytes are read again.
    """
    if walk.home != walk.path[level, STACK]:
        doubt(node, 0, BY_PATH, walk)
    elif target == DEAD:
        doubt(node, walk.machine.rows[walk.path[level, ROW], LABEL], AFTER_ACTION, walk)
    else:
        doubt(node, target, BY_ROW, walk)


@inlined
def _look_at_child(level: int, walk: Walk) -> tuple[int, int, int, int]:
    """Look at the next child of a level, or go back to the level above.

    Sets the tokens of the child if it may follow, and goes down to its children. Returns what
    ``_enter_site`` does; after UNRESOLVED the same child is looked at again.
    """
    nodes, path, machine = walk.trie.nodes, walk.path, walk.machine
    stack, row, count = path[level, STACK], path[level, ROW], path[level, COUNT]
    child, last = path[level, CHILD], path[level, LAST]
    if machine.rows[row, EXITS] and child < last and path[level, PART] == ALL:
        # The row reads no byte, so all children come after its exit action, which is taken once.
        status, reached, target = resolved(stack, machine.rows[row, LABEL], machine)
        path[PROGRESS, READ_STACK] = True
        if status == ALIVE:
            stack, row, count = reached, target, 0
            put_state(level, stack, row, count, path)
    after = path[level, AFTER]
    child = _next_child(child, last, row, path[level, PART], after, walk)
    if child == last:
        return ALIVE, NOWHERE, DEAD, level - 1
    # Stay at this child for now: where a transition is missing the walk comes back to it.
    path[level, CHILD] = child
    byte = walk.trie.child_bytes[child]
    target = target_of(machine, row, byte)
    if target == DEAD and after == NOT_READ:
        return _look_after_action(level, walk)
    status, stack, row, count, asked = after_byte(
        stack, row, count, byte, machine, walk.key_stack, True
    )
    if asked:
        path[PROGRESS, READ_STACK] = True
    if status >= UNRESOLVED:
        return status, stack, row, level
    path[level, CHILD] = child + 1
    node = walk.trie.child_nodes[child]
    if status == UNSURE:
        _doubt_child(level, node, target, walk)
    elif status == ALIVE:
        allow(node, walk)
        if is_wide_and_large(node, row, walk):
            put_off_node(node, stack, row, count, walk)
        elif nodes[node, FIRST_CHILD] < nodes[node + 1, FIRST_CHILD]:
            put_state(level + 1, stack, row, count, path)
            begin_children(level + 1, node, walk)
            level += 1
    return ALIVE, NOWHERE, DEAD, level


@kernel
def walk_sites(
    trie: Addresses,
    machine: Addresses,
    scratch: Addresses,
    home: int,
    stack: int,
    row: int,
    count: int,
    base: NDArray[np.int32],
    changes: NDArray[np.int32],
    sites: NDArray[np.int32],
    closings: NDArray[np.int32],
    missing: int,
    left: int,
    again: bool,
) -> tuple[int, int, int, int, int, int]:
    """Add the tokens below some nodes of the trie to a mask, as far as they may follow.

    The mask begins as ``base`` with ``changes``, see ``MaskDelta``, and is made in the ``words`` of
    the scratch. ``stack``, ``row`` and ``count`` are the state that the walk begins with.

    A site, a line of int32 ``[sites, 4]``, is a node, the number of code points of its text, the
    least number in a string with it, and the way by which the walk reaches it. ``missing`` is how
    many code points a string must still have, ``left`` how many it may have: sites that count
    fewer, or make it longer, are passed over. ``closings`` are the rows that ways name by number.
    The ways are

    - ITSELF: the state is that at the node, whose own tokens are left out;
    - BY_BYTE, less a byte: what follows that byte is what follows the node;
    - BY_PATH: all bytes of the node are read;
    - BY_ROW: the row in place of the code points is entered;
    - AFTER_ACTION: the last byte of the node comes after the exit action in place of the code
      points;
    - BELOW: the row in place of the code points stands at the node, and those of the node's
      children are walked that come after its exit action; BELOW_PATH: the same for the row after
      its bytes;
    - BY_ACTION, less 256 times the number of a closing row and a byte: the byte comes after the
      exit action of that row;
    - others: that row of ``closings`` is entered; one of the same string whatever was missing.

    Returns FINISHED or UNRESOLVED, the number of uncertain nodes, the change of the fingerprint,
    stack and exit action of the missing transition, and how many nodes were put off; with ``again``
    the walk continues where it stopped. In place of the stack a finished walk returns whether the
    stack was read: if not, the result is the same in all stacks. ``trie``, ``machine`` and
    ``scratch`` are addresses. Large nodes at which the row is wide are put off: ``put_off`` has the
    node and the state there for each.

    ``home`` is the stack of a truncated stack without callers, TRUNCATED for one with callers, else
    NOWHERE. In a truncated stack one uncertain site may stand for many children of a node. Without
    callers, a site where the walk is at ``home`` may name the row or the exit action there, because
    the state that completes it is then in its own stack. With known callers the walk may come back
    to the number that it began with in a stack that differs in what is unknown.
    """
    walk = walk_at(trie, machine, scratch, stack, row, home)
    path = walk.path
    if not again:
        begin(stack, row, count, base, changes, walk)
    # The level is a local variable, written back only when the walk stops: so it stays in a
    # register, and every look at a child waits for it.
    level = path[PROGRESS, LEVEL]
    for number in range(path[PROGRESS, SITE], len(sites)):
        status, at, action = ALIVE, NOWHERE, DEAD
        if level == OUTSIDE:
            status, at, action, level = _enter_site(sites[number], closings, missing, left, walk)
        while status < UNRESOLVED and level > OUTSIDE:
            status, at, action, level = _look_at_child(level, walk)
        if status >= UNRESOLVED:
            path[PROGRESS, SITE], path[PROGRESS, LEVEL] = number, level
            return result(status, at, action, path)
    return result(FINISHED, NOWHERE, DEAD, path)
