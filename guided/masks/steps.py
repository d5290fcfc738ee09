"""The moves of a recogniser in compiled code: one byte, the bytes of a token, the nodes of a trie.

Everything here works on the arrays of ``PackedMachine`` and says what ``Recognizer.step`` says. It
stops where Python has to resolve a transition of the stack first, and it is *unsure* where that
takes a text that was written: a key, or an item that has to differ from others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.machine.facts import KNOWLEDGE, KNOWN, TAKEN, TEXTS, UNKNOWN
from guided.machine.labels import LAST_SURE
from guided.machine.stack_transitions import EMPTY_SLOT, EXACT, KEY, LABEL_BITS, ROW, TARGET
from guided.machine.table import (
    BASE,
    BEAT,
    CLOSE_STRING,
    DEAD,
    ENDS,
    EXITS,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    LOW,
    NEED,
    ONLY,
    PLAIN,
    ROLE,
    START,
    TICK,
    WIDTH,
)
from guided.masks.outline_kernels import is_closing
from guided.masks.trie import BYTE, DEPTH, END, FIRST_CHILD, FIRST_TOKEN
from guided.runtime.addresses import table_at
from guided.runtime.kernel import inlined, kernel

__all__ = [
    "ALIVE",
    "BELOW",
    "BELOW_PATH",
    "BY_BYTE",
    "BY_LABEL",
    "BY_PATH",
    "DIES",
    "ELSEWHERE",
    "FINISHED",
    "ITSELF",
    "LARGE_SHARE",
    "NOWHERE",
    "PLACES_FULL",
    "UNRESOLVED",
    "UNSURE",
    "clear_tokens",
    "correct_mask",
    "follow_only",
    "set_tokens",
    "take_token",
    "walk_places",
    "walk_sites",
]

ALIVE: Final = 0
DIES: Final = 1
UNSURE: Final = 2
UNRESOLVED: Final = 3
"""What becomes of a byte; on UNRESOLVED, stack and row hold the stack and the label."""
FINISHED: Final = 0
PLACES_FULL: Final = 1
"""What becomes of a walk, besides UNRESOLVED."""
NOWHERE: Final = -1
ELSEWHERE: Final = -3
"""In place of a stack; the other one where it may be one of several."""
LARGE_SHARE: Final = 256
"""A node is large with more than one in so many of all nodes below it."""
_WIDE_SHARE: Final = 4
"""A row is wide at a node where one in so many of the children may follow."""
ITSELF: Final = -1
BY_BYTE: Final = -2
BY_PATH: Final = -2000
BY_ROW: Final = -2001
BEHIND_LABEL: Final = -2002
BELOW: Final = -2003
BELOW_PATH: Final = -2004
"""Ways to a site of a walk, besides closing rows; see ``walk_sites``."""
BY_LABEL: Final = -4096
"""The first of further ways, 256 for each closing row."""
NO_WAY: Final = -1000
FIRST_ENTRANCE: Final = 2**32
"""What is entered by a row or behind a label gets numbers from here on, besides the ways."""
SITE: Final = 0
LEVEL: Final = 1
DOUBTS: Final = 2
CHANGE: Final = 3
WAY: Final = 4
FATE: Final = 5
PUT_OFF: Final = 6
"""Columns of the first row of a walk's path: how far it is, by what the mask has changed, the way
to the latest site with its status, and how many nodes were put off."""
CHILD: Final = 3
LAST: Final = 4
OTHER: Final = 5
NODE: Final = 6
PART: Final = 7
BEYOND_ROW: Final = 8
PATH_WIDTH: Final = 9
"""Columns of the rows by depth, behind stack, row and count: where among the children of which
node the walk is, and for ``walk_sites`` which part of them it looks at, and the row behind the
label of the row."""
INSIDE: Final = 0
BEYOND: Final = 1
ALL: Final = 2
NOTHING: Final = 3
"""The children whose bytes the row leads on by, those that come behind its label, both, or none."""
NOT_ASKED: Final = -2
"""In place of the row behind a label, which is DEAD where none is known."""
OUTSIDE: Final = 1
"""The level of a walk between two sites, and the row of the state to begin with."""


@inlined
def _trie_at(addresses):  # type: ignore[no-untyped-def]
    """The arrays of a ``TokenTrie``."""
    return (
        table_at(addresses[0, 0], addresses[0, 1], 5, np.int32),
        table_at(addresses[1, 0], addresses[1, 1], None, np.int32),
        table_at(addresses[2, 0], addresses[2, 1], None, np.uint8),
        table_at(addresses[3, 0], addresses[3, 1], None, np.int32),
    )


@inlined
def _machine_at(addresses):  # type: ignore[no-untyped-def]
    """The arrays of a ``PackedMachine``."""
    return (
        table_at(addresses[0, 0], addresses[0, 1], WIDTH, np.int32),
        table_at(addresses[1, 0], addresses[1, 1], None, np.int32),
        table_at(addresses[2, 0], addresses[2, 1], 256, np.uint8),
        table_at(addresses[3, 0], addresses[3, 1], 3, np.int64),
        table_at(addresses[4, 0], addresses[4, 1], 3, np.int32),
    )


@inlined
def _scratch_at(addresses):  # type: ignore[no-untyped-def]
    """The arrays of a ``Scratch``."""
    return (
        table_at(addresses[0, 0], addresses[0, 1], PATH_WIDTH, np.int64),
        table_at(addresses[1, 0], addresses[1, 1], None, np.int32),
        table_at(addresses[2, 0], addresses[2, 1], 4, np.int32),
        table_at(addresses[3, 0], addresses[3, 1], 4, np.int64),
    )


@inlined
def _find(transitions, stack, label):  # type: ignore[no-untyped-def]
    """The slot of a transition, NOWHERE if it is not there."""
    key = (stack << LABEL_BITS) | label
    mask = len(transitions) - 1
    slot = (key * 0x9E3779B1 >> LABEL_BITS) & mask
    while transitions[slot, KEY] != key:
        if transitions[slot, KEY] == EMPTY_SLOT:
            return NOWHERE
        slot = (slot + 1) & mask
    return slot


@inlined
def _resolved(stack, label, machine):  # type: ignore[no-untyped-def]
    """Status, stack and row behind a label."""
    _, _, _, transitions, _ = machine
    slot = _find(transitions, stack, label)
    if slot == NOWHERE:
        return UNRESOLVED, stack, label
    if transitions[slot, TARGET] == EXACT:
        return UNSURE, stack, label
    if transitions[slot, ROW] == DEAD:
        return DIES, stack, label
    return ALIVE, transitions[slot, TARGET], transitions[slot, ROW]


@inlined
def _entered(stack, row, count, machine, key_stack, walking):  # type: ignore[no-untyped-def]
    """Status, stack, row and count in a row whose bounds are kept, and whether the stack was
    asked.

    With ``walking`` the closing quote of a key passes where its text matters to no mask.
    """
    rows, _, _, _, facts = machine
    role = rows[row, ROLE]
    if role == KEY_CLOSED:
        known = facts[stack, KNOWLEDGE]
        if not walking:
            return UNSURE, stack, row, count, True
        if known == UNKNOWN or (known == KNOWN and stack != key_stack):
            return UNSURE, stack, row, count, True
    elif role == IN_RARE_KEY and rows[row, ENDS] <= facts[stack, TAKEN]:
        # It takes the names before it to tell whether any is left.
        return UNSURE, stack, row, count, True
    if rows[row, EXITS]:
        if walking and rows[row, LABEL] <= LAST_SURE and facts[stack, TEXTS] == 0:
            # The way goes on, and how only matters where another byte comes.
            return ALIVE, stack, row, 0, True
        status, stack, row = _resolved(stack, rows[row, LABEL], machine)
        return status, stack, row, 0, True
    return ALIVE, stack, row, count, role in (KEY_CLOSED, IN_RARE_KEY)


@inlined
def _behind(stack, row, count, byte, machine, key_stack, walking):  # type: ignore[no-untyped-def]
    """Status, stack, row and count behind a byte, and whether the stack was asked."""
    rows, cells, byte_maps, _, _ = machine
    asked = False
    target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
    while target == DEAD:
        # The block may end here, and the byte may belong to what follows.
        label = rows[row, LABEL]
        if label == DEAD:
            return DIES, stack, row, count, asked
        asked = True
        status, stack, row = _resolved(stack, label, machine)
        if status != ALIVE:
            return status, stack, row, count, asked
        target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
    high = rows[target, HIGH]
    if high < 0:
        count = 0
    elif rows[target, BEAT] == CLOSE_STRING:
        if count < rows[target, LOW]:
            return DIES, stack, target, count, asked
        count = 0
    else:
        if rows[target, BEAT] == START:
            count = 0
        elif rows[target, BEAT] == TICK:
            count += 1
        if count + rows[target, NEED] > high:
            return DIES, stack, target, count, asked
    status, stack, row, count, also = _entered(stack, target, count, machine, key_stack, walking)
    return status, stack, row, count, asked or also


@inlined
def _mark(token):  # type: ignore[no-untyped-def]
    """What the bit of a token adds to the fingerprint of a mask."""
    mark = (np.uint64(token) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mark = (mark ^ (mark >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mark ^ (mark >> np.uint64(32))


@inlined
def _set(token, words):  # type: ignore[no-untyped-def]
    """Set the bit of a token; returns what that changes in the fingerprint."""
    word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
    if words[word] & bit:
        return np.uint64(0)
    words[word] |= bit
    return _mark(token)


@inlined
def _clear(token, words):  # type: ignore[no-untyped-def]
    """Clear the bit of a token; returns what that changes in the fingerprint."""
    word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
    if not words[word] & bit:
        return np.uint64(0)
    words[word] &= ~bit
    return _mark(token)


@kernel
def set_tokens(tokens, words):  # type: ignore[no-untyped-def]
    """Set the bits of tokens; returns what that changes in the fingerprint."""
    change = np.uint64(0)
    for token in tokens:
        change ^= _set(token, words)
    return np.int64(change)


@kernel
def clear_tokens(tokens, words):  # type: ignore[no-untyped-def]
    """Clear the bits of tokens; returns what that changes in the fingerprint."""
    change = np.uint64(0)
    for token in tokens:
        change ^= _clear(token, words)
    return np.int64(change)


@inlined
def _allow(node, nodes, token_ids, words):  # type: ignore[no-untyped-def]
    """Set the bits of the tokens that a node spells; returns the change of the fingerprint."""
    change = np.uint64(0)
    for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
        change ^= _set(token_ids[index], words)
    return change


@inlined
def _forbid_below(node, nodes, token_ids, words):  # type: ignore[no-untyped-def]
    """Clear the bits of the tokens that a node and those below it spell."""
    change = np.uint64(0)
    for index in range(nodes[node, FIRST_TOKEN], nodes[nodes[node, END], FIRST_TOKEN]):
        change ^= _clear(token_ids[index], words)
    return change


@inlined
def _put(level, stack, row, count, path):  # type: ignore[no-untyped-def]
    """The state behind the bytes of a level."""
    path[level, 0], path[level, 1], path[level, 2] = stack, row, count


@inlined
def _begin(stack, row, count, base, changes, path, words):  # type: ignore[no-untyped-def]
    """Begin a walk from a state with a copy of a mask: the words of ``base`` with ``changes``."""
    path[0, SITE], path[0, LEVEL], path[0, DOUBTS], path[0, CHANGE] = 0, OUTSIDE, 0, 0
    path[0, WAY], path[0, PUT_OFF] = NO_WAY, 0
    _put(OUTSIDE, stack, row, count, path)
    for word in range(len(words)):
        words[word] = base[word]
    for index in range(len(changes)):
        words[changes[index, 0]] = changes[index, 1]


@inlined
def _key_stack(path, rows):  # type: ignore[no-untyped-def]
    """The stack in which a key is being written, whose closing quote walks let pass."""
    role = rows[path[OUTSIDE, 1], ROLE]
    return path[OUTSIDE, 0] if role in (IN_KEY, IN_RARE_KEY) else NOWHERE


@inlined
def _begin_children(level, node, nodes, path):  # type: ignore[no-untyped-def]
    """Go on with the children of a node."""
    path[level, CHILD], path[level, LAST] = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
    path[level, NODE], path[level, PART], path[level, BEYOND_ROW] = node, ALL, NOT_ASKED


@inlined
def _doubt(node, about, way, doubts, uncertain):  # type: ignore[no-untyped-def]
    """Note a site to be walked once more is known; returns how many there are."""
    uncertain[doubts, 0], uncertain[doubts, 1], uncertain[doubts, 3] = node, about, way
    return doubts + 1


@inlined
def _stop(status, site, level, doubts, change, stack, label, path):  # type: ignore[no-untyped-def]
    """Keep what a walk goes on with when a transition is resolved; returns what walks return."""
    path[0, SITE], path[0, LEVEL], path[0, DOUBTS] = site, level, doubts
    path[0, CHANGE] = np.int64(change)
    return status, doubts, np.int64(change), stack, label, path[0, PUT_OFF]


@inlined
def _behind_label(stack, label, byte, machine, key_stack):  # type: ignore[no-untyped-def]
    """Status, stack, row and count behind a byte that comes behind a label."""
    status, stack, row = _resolved(stack, label, machine)
    if status != ALIVE:
        return status, stack, row, 0
    status, stack, row, count, _ = _behind(stack, row, 0, byte, machine, key_stack, True)
    return status, stack, row, count


@inlined
def _entering(way, about, byte, stack, row, count, closings, machine, key_stack):  # type: ignore[no-untyped-def]
    """Status, stack, row and count at the sites that a walk gets to in one way, and whether the
    stack was asked.
    """
    if way == ITSELF:
        return ALIVE, stack, row, count, False
    if way > ITSELF:
        return _entered(stack, closings[way], 0, machine, key_stack, True)
    if way == BY_ROW:
        return _entered(stack, about, 0, machine, key_stack, True)
    if way == BEHIND_LABEL:
        status, stack, row, count = _behind_label(stack, about, byte, machine, key_stack)
        return status, stack, row, count, True
    if way <= BY_LABEL:
        rows, _, _, _, _ = machine
        label = rows[closings[(BY_LABEL - way) >> 8], LABEL]
        status, stack, row, count = _behind_label(
            stack, label, (BY_LABEL - way) & 255, machine, key_stack
        )
        return status, stack, row, count, True
    return _behind(stack, row, count, BY_BYTE - way, machine, key_stack, True)


@inlined
def _entrance(way, about, byte):  # type: ignore[no-untyped-def]
    """A number for what is entered at sites of a way: once for all that have the same."""
    if way == BY_ROW:
        return (np.int64(about) << 9) + FIRST_ENTRANCE
    if way == BEHIND_LABEL:
        return (np.int64(about) << 9 | byte << 1 | 1) + FIRST_ENTRANCE
    return np.int64(way)


@inlined
def _doubt_site(top, about, way, home, closings, rows, path, doubts, uncertain):  # type: ignore[no-untyped-def]
    """Note a site of which it is not known whether it is entered."""
    if BY_LABEL < way <= BY_PATH:
        return _doubt(top, about, way, doubts, uncertain)
    if home != path[OUTSIDE, 0] or BY_PATH < way < ITSELF:
        return _doubt(top, 0, BY_PATH, doubts, uncertain)
    if way > ITSELF:
        return _doubt(top, closings[way], BY_ROW, doubts, uncertain)
    label = rows[closings[(BY_LABEL - way) >> 8], LABEL]
    return _doubt(top, label, BEHIND_LABEL, doubts, uncertain)


@inlined
def _behind_path(top, stack, row, count, trie, machine, key_stack):  # type: ignore[no-untyped-def]
    """Status, stack, row and count behind all bytes of a node."""
    nodes, _, child_bytes, child_nodes = trie
    status, node = ALIVE, 0
    while node != top and status == ALIVE:
        # The last child that does not come behind the node is above it, or is it.
        low, high = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
        while high - low > 1:
            middle = (low + high) // 2
            if child_nodes[middle] <= top:
                low = middle
            else:
                high = middle
        node = child_nodes[low]
        status, stack, row, count, _ = _behind(
            stack, row, count, child_bytes[low], machine, key_stack, True
        )
    return status, stack, row, count


@inlined
def _is_wide(node, row, nodes, child_bytes, rows, cells, byte_maps):  # type: ignore[no-untyped-def]
    """Whether so many of the children of a node may follow that another walk is to look there."""
    if rows[row, ROLE] != PLAIN:
        return False
    first, last = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
    base, kind = rows[row, BASE], rows[row, KIND]
    live = 0
    for child in range(first, last):
        live += cells[base + byte_maps[kind, child_bytes[child]]] != DEAD
    return live * _WIDE_SHARE >= last - first


@inlined
def _next_child(child, last, row, part, beyond, child_bytes, machine):  # type: ignore[no-untyped-def]
    """The next child that may follow a row, of the part that is looked at."""
    rows, cells, byte_maps, _, _ = machine
    if part == NOTHING:
        return last
    base, kind = rows[row, BASE], rows[row, KIND]
    if part == INSIDE or rows[row, LABEL] == DEAD:
        while child < last and cells[base + byte_maps[kind, child_bytes[child]]] == DEAD:
            child += 1
        return child
    other, map_ = DEAD, 0
    if beyond >= 0 and rows[beyond, LABEL] == DEAD:
        other, map_ = rows[beyond, BASE], rows[beyond, KIND]
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
def _put_off(node, stack, row, count, path, put_off):  # type: ignore[no-untyped-def]
    """Leave what is below a node to another walk."""
    number = path[0, PUT_OFF]
    put_off[number, 0], put_off[number, 1] = node, stack
    put_off[number, 2], put_off[number, 3] = row, count
    path[0, PUT_OFF] = number + 1


@kernel
def walk_sites(  # type: ignore[no-untyped-def]
    trie,
    machine,
    scratch,
    home,
    stack,
    row,
    count,
    base,
    changes,
    sites,
    closings,
    missing,
    left,
    again,
):
    """Add the tokens below some nodes of the trie, as far as they may follow, to a mask.

    That is ``base`` with ``changes``, see ``MaskDelta``.

    A site is a node, the code points that its text counts, those that a string with it has at
    least, and how the walk gets there. Sites with fewer than ``missing`` code points or more than
    ``left`` are passed over. The ways are

    - ITSELF: the state is that behind the node, whose own tokens are not asked for;
    - BY_BYTE, less a byte: what comes behind that byte is what comes behind the node;
    - BY_PATH: all bytes of the node are read;
    - BY_ROW: the row in place of the code points is entered;
    - BEHIND_LABEL: the last byte of the node comes behind the label in place of the code points;
    - BELOW: the row in place of the code points stands at the node, of whose children those are
      asked for that come behind its label, and BELOW_PATH: so does the row behind its bytes;
    - BY_LABEL, less 256 times the number of a closing row and a byte: the byte comes behind the
      label of that row;
    - others: that row of ``closings`` is entered; one of the same string whatever was missing.

    Returns FINISHED or what is missing, the number of uncertain nodes, the change of the
    fingerprint, stack and label of the missing transition, and how many nodes were put off; with
    ``again`` the walk goes on where it stopped. In place of the stack a finished walk says
    whether the stack was asked: if not, it is the same in all stacks. ``trie``, ``machine`` and
    ``scratch`` are addresses. The path is int64 ``[longest token + 3, PATH_WIDTH]``: what
    the walk goes on with, the state to begin with, then by depth the state, and where among the
    children the walk is. Large nodes at which the row is wide are put off: ``put_off`` has of each
    the node and the state there. Of a top without callers ``home`` is the stack, of others
    ELSEWHERE, else NOWHERE. In a top what is uncertain may be said of many children of a node
    together; and without callers, where the walk is at ``home``, by the row or the label there, as
    the state that it is completed on then is in its own stack. With callers known the walk may
    come back to the number that it began with in a stack that differs in what is unknown.
    """
    trie, machine = _trie_at(trie), _machine_at(machine)
    nodes, token_ids, child_bytes, child_nodes = trie
    rows, cells, byte_maps, _, _ = machine
    path, words, uncertain, put_off = _scratch_at(scratch)
    if not again:
        _begin(stack, row, count, base, changes, path, words)
    key_stack = _key_stack(path, rows)
    large = nodes[0, END] // LARGE_SHARE
    site, level, doubts = path[0, SITE], path[0, LEVEL], path[0, DOUBTS]
    change, asked = np.uint64(path[0, CHANGE]), again or rows[path[OUTSIDE, 1], LABEL] != DEAD
    while site < len(sites):
        if level == OUTSIDE:
            top, about, way = sites[site, 0], sites[site, 1], sites[site, 3]
            is_inside = way > ITSELF and not is_closing(rows, closings[way])
            if sites[site, 2] > left or (about < missing and not is_inside):
                site += 1
                continue
            if way == BELOW:
                path[0, WAY], path[0, FATE] = NO_WAY, ALIVE
                _put(OUTSIDE + 1, path[OUTSIDE, 0], about, 0, path)
            elif way in (BY_PATH, BELOW_PATH):
                status, stack, row, count = _behind_path(
                    top,
                    path[OUTSIDE, 0],
                    path[OUTSIDE, 1],
                    path[OUTSIDE, 2],
                    trie,
                    machine,
                    key_stack,
                )
                if status >= UNRESOLVED:
                    return _stop(status, site, level, doubts, change, stack, row, path)
                path[0, WAY], path[0, FATE], asked = NO_WAY, status, True
                _put(OUTSIDE + 1, stack, row, count, path)
            elif is_inside:
                row, count = closings[way], path[OUTSIDE, 2] + about
                path[0, WAY], path[0, FATE] = way, ALIVE
                _put(OUTSIDE + 1, path[OUTSIDE, 0], row, count, path)
            elif path[0, WAY] != _entrance(way, about, nodes[top, BYTE]):
                # Once for all sites of a way: their state stays where the first has put it.
                status, stack, row, count, also = _entering(
                    way,
                    about,
                    nodes[top, BYTE],
                    path[OUTSIDE, 0],
                    path[OUTSIDE, 1],
                    path[OUTSIDE, 2],
                    closings,
                    machine,
                    key_stack,
                )
                asked |= also
                if status >= UNRESOLVED:
                    return _stop(status, site, level, doubts, change, stack, row, path)
                path[0, WAY], path[0, FATE] = _entrance(way, about, nodes[top, BYTE]), status
                _put(OUTSIDE + 1, stack, row, count, path)
            if path[0, FATE] == UNSURE:
                doubts = _doubt_site(top, about, way, home, closings, rows, path, doubts, uncertain)
            if path[0, FATE] != ALIVE:
                site += 1
                continue
            is_below = way in (BELOW, BELOW_PATH)
            if way != ITSELF and not is_below:
                change ^= _allow(top, nodes, token_ids, words)
                if nodes[top, END] == top + 1:
                    site += 1
                    continue
                if nodes[top, END] - top > large:
                    stack, row = path[OUTSIDE + 1, 0], path[OUTSIDE + 1, 1]
                    count = path[OUTSIDE + 1, 2]
                    if _is_wide(top, row, nodes, child_bytes, rows, cells, byte_maps):
                        _put_off(top, stack, row, count, path, put_off)
                        site += 1
                        continue
            level += 1
            _begin_children(level, top, nodes, path)
            if is_below and not rows[path[level, 1], EXITS]:
                path[level, PART] = BEYOND
        while level > OUTSIDE:
            stack, row, count = path[level, 0], path[level, 1], path[level, 2]
            child, last = path[level, CHILD], path[level, LAST]
            if rows[row, EXITS] and child < last and path[level, PART] == ALL:
                # Once for all children.
                status, reached, target = _resolved(stack, rows[row, LABEL], machine)
                if status == ALIVE:
                    stack, row, count = reached, target, 0
                    _put(level, stack, row, count, path)
            part, beyond = path[level, PART], path[level, BEYOND_ROW]
            child = _next_child(child, last, row, part, beyond, child_bytes, machine)
            if child == last:
                level -= 1
                continue
            path[level, CHILD] = child
            target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], child_bytes[child]]]
            if target == DEAD and beyond == NOT_ASKED:
                # Once for all children that come behind the label.
                status, reached, beyond = _resolved(stack, rows[row, LABEL], machine)
                if status >= UNRESOLVED:
                    return _stop(status, site, level, doubts, change, reached, beyond, path)
                path[level, BEYOND_ROW], asked = beyond if status == ALIVE else DEAD, True
                if status == UNSURE and home != NOWHERE:
                    about, way = (row, BELOW) if stack == home else (0, BELOW_PATH)
                    doubts = _doubt(path[level, NODE], about, way, doubts, uncertain)
                if status == DIES or (status == UNSURE and home != NOWHERE):
                    path[level, PART] = INSIDE if part == ALL else NOTHING
                continue
            status, stack, row, count, also = _behind(
                stack, row, count, child_bytes[child], machine, key_stack, True
            )
            asked |= also
            if status >= UNRESOLVED:
                return _stop(status, site, level, doubts, change, stack, row, path)
            path[level, CHILD] += 1
            node = child_nodes[child]
            if status == UNSURE and home != path[level, 0]:
                doubts = _doubt(node, 0, BY_PATH, doubts, uncertain)
            elif status == UNSURE and target == DEAD:
                label = rows[path[level, 1], LABEL]
                doubts = _doubt(node, label, BEHIND_LABEL, doubts, uncertain)
            elif status == UNSURE:
                doubts = _doubt(node, target, BY_ROW, doubts, uncertain)
            elif status == ALIVE:
                change ^= _allow(node, nodes, token_ids, words)
                if nodes[node, END] - node > large and _is_wide(
                    node, row, nodes, child_bytes, rows, cells, byte_maps
                ):
                    _put_off(node, stack, row, count, path, put_off)
                elif nodes[node, FIRST_CHILD] < nodes[node + 1, FIRST_CHILD]:
                    level += 1
                    _put(level, stack, row, count, path)
                    _begin_children(level, node, nodes, path)
        site += 1
    return _stop(FINISHED, site, level, doubts, change, int(asked), DEAD, path)


@kernel
def correct_mask(  # type: ignore[no-untyped-def]
    trie, machine, scratch, stack, row, count, base, changes, other, again
):
    """Make the mask of a row out of that of the ``other`` row, which most bytes lead on alike.

    That one is ``base`` with ``changes``, see ``MaskDelta``.

    Where both lead to the same row, all below is the same and stays; elsewhere what the other row
    may have set is forbidden and looked at anew. ``path`` is as for ``walk_sites``, and so is what
    is returned, except that where the stack was not asked the mask is the same in any; the
    last column by depth is where the other row leads.
    """
    nodes, token_ids, child_bytes, child_nodes = _trie_at(trie)
    machine = _machine_at(machine)
    rows, cells, byte_maps, _, _ = machine
    path, words, uncertain, _ = _scratch_at(scratch)
    if not again:
        _begin(stack, row, count, base, changes, path, words)
        _put(OUTSIDE + 1, stack, row, count, path)
        _begin_children(OUTSIDE + 1, 0, nodes, path)
        path[OUTSIDE + 1, OTHER] = other
        path[0, LEVEL] = OUTSIDE + 1
    key_stack = _key_stack(path, rows)
    level, doubts = path[0, LEVEL], path[0, DOUBTS]
    change, asked = np.uint64(path[0, CHANGE]), again or rows[path[OUTSIDE, 1], LABEL] != DEAD
    while level > OUTSIDE:
        child, last = path[level, CHILD], path[level, LAST]
        row, other = path[level, 1], path[level, OTHER]
        there = DEAD
        if other != DEAD:
            ends_alike = rows[row, LABEL] == rows[other, LABEL]
            while child < last:
                byte = child_bytes[child]
                here = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
                there = cells[rows[other, BASE] + byte_maps[rows[other, KIND], byte]]
                if here != there or (here == DEAD and not ends_alike):
                    break
                child += 1
        if child == last:
            level -= 1
            continue
        status, stack, row, count, also = _behind(
            path[level, 0],
            row,
            path[level, 2],
            child_bytes[child],
            machine,
            key_stack,
            True,
        )
        asked |= also
        path[level, CHILD] = child
        if status >= UNRESOLVED:
            return _stop(status, 0, level, doubts, change, stack, row, path)
        path[level, CHILD] += 1
        node = child_nodes[child]
        if there != DEAD and (rows[there, ROLE] == KEY_CLOSED or rows[there, EXITS]):
            there = DEAD
        if status != ALIVE or there == DEAD:
            change ^= _forbid_below(node, nodes, token_ids, words)
            asked = True  # if not of the stack, something has changed
        if status == UNSURE:
            doubts = _doubt(node, 0, BY_PATH, doubts, uncertain)
        elif status == ALIVE:
            change ^= _allow(node, nodes, token_ids, words)
            level += 1
            _put(level, stack, row, count, path)
            _begin_children(level, node, nodes, path)
            path[level, OTHER] = there
    return _stop(FINISHED, 0, level, doubts, change, int(asked), DEAD, path)


@kernel
def walk_places(  # type: ignore[no-untyped-def]
    trie, machine, scratch, stack, row, count, place_of_token, places
):
    """Where every token leads: its slot in the hash table ``places``, int64 ``[slots, 3]``.

    ``place_of_token`` keeps what it has for tokens that lead nowhere, or not for sure. Returns
    FINISHED, what is missing with its stack and label, or PLACES_FULL where half of the slots are
    taken.
    """
    nodes, token_ids, _, _ = _trie_at(trie)
    machine = _machine_at(machine)
    rows, _, _, _, _ = machine
    path, _, _, _ = _scratch_at(scratch)
    path[OUTSIDE, 0], path[OUTSIDE, 1] = stack, row
    key_stack = _key_stack(path, rows)
    path[2, 0], path[2, 1], path[2, 2] = stack, row, count
    slots, used = len(places), 0
    node = 1
    while node < nodes[0, END]:
        level = nodes[node, DEPTH] + 2
        status, stack, row, count, _ = _behind(
            path[level - 1, 0],
            path[level - 1, 1],
            path[level - 1, 2],
            nodes[node, BYTE],
            machine,
            key_stack,
            False,
        )
        if status >= UNRESOLVED:
            return status, stack, row
        if status != ALIVE:
            node = nodes[node, END]
            continue
        path[level, 0], path[level, 1], path[level, 2] = stack, row, count
        if nodes[node, FIRST_TOKEN] < nodes[node + 1, FIRST_TOKEN]:
            slot = (((stack * 0x9E3779B1 + row) * 0x85EBCA77 + count) >> 9) % slots
            while places[slot, 0] != NOWHERE and not (
                places[slot, 0] == stack and places[slot, 1] == row and places[slot, 2] == count
            ):
                slot = (slot + 1) % slots
            if places[slot, 0] == NOWHERE:
                used += 1
                if 2 * used > slots:
                    return PLACES_FULL, NOWHERE, DEAD
                places[slot, 0], places[slot, 1], places[slot, 2] = stack, row, count
            for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
                place_of_token[token_ids[index]] = slot
        node += 1
    return FINISHED, NOWHERE, DEAD


@kernel
def take_token(  # type: ignore[no-untyped-def]
    text, first, last, stack, row, count, begun, machine
):
    """Status, stack, row and count behind the bytes ``text[first:last]``, and where a key begins.

    ``begun`` is the place of the first byte of the key that is being written, NOWHERE for none.
    UNSURE where it takes the whole text of a key, or of an item, to go on.
    """
    machine = _machine_at(machine)
    rows, _, _, _, facts = machine
    status, outer = ALIVE, stack
    for index in range(first, last):
        status, stack, row, count, _ = _behind(
            stack, row, count, text[index], machine, NOWHERE, False
        )
        if status == ALIVE and facts[stack, TEXTS]:
            status = UNSURE
        if status != ALIVE:
            break
        if stack != outer:
            outer, begun = stack, NOWHERE
        if begun == NOWHERE and (rows[row, ROLE] == IN_KEY or rows[row, ROLE] == IN_RARE_KEY):
            begun = index + 1
    return status, stack, row, count, begun


@kernel
def follow_only(machine, size, forced, reached):  # type: ignore[no-untyped-def]
    """Status, how many bytes have to follow one another, and the stack and label of a transition.

    The bytes are put into ``forced`` behind the ``size`` that are there, the stack, row and count
    behind each into ``reached``, which begins with those before the first. It ends where there is a
    choice, where the text may end, and where it takes more than that to tell.
    """
    machine = _machine_at(machine)
    rows, _, _, _, facts = machine
    stack, row, count = reached[size, 0], reached[size, 1], reached[size, 2]
    while size < len(forced) and rows[row, ONLY] != DEAD and rows[row, LABEL] == DEAD:
        byte = rows[row, ONLY]
        status, stack, row, count, _ = _behind(stack, row, count, byte, machine, NOWHERE, False)
        if status != ALIVE:
            return status, size, stack, row
        if facts[stack, TEXTS] or rows[row, ROLE] == IN_KEY or rows[row, ROLE] == IN_RARE_KEY:
            return UNSURE, size, stack, row
        forced[size] = byte
        size += 1
        reached[size, 0], reached[size, 1], reached[size, 2] = stack, row, count
    return ALIVE, size, stack, row
