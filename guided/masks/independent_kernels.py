"""Compiled code that makes context-independent masks.

A walk from a row of a string records *sites*, where tokens leave the string, int32 ``[sites, 4]``::

    node   count    least    entry
    │      │        │        └ the row that is entered, or how it is left; see ``walk_sites``
    │      │        └ code points that a string with this text has at least
    │      └ code points of the text up to the node
    └ the node of the trie whose last byte leaves the string

The row must have an outline (``outline_of``), so no string begins on the way. Rows of equal
outlines share the result: it may depend only on what ``search_outline`` records of rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import CODE_POINT_END, NO_EVENT
from guided.machine.table_layout import BASE, COUNT_EVENT, KIND, LABEL, MIN_REMAINING
from guided.masks.machine_kernels import MachineArrays, is_closing, loops_on
from guided.masks.trie import BYTE, DEPTH, END, FIRST_TOKEN, TrieArrays
from guided.masks.walk_kernels import BY_ACTION
from guided.regular.dfa import DEAD
from guided.runtime.kernel import allocating_kernel, inlined, kernel

__all__ = ["MAX_COUNT", "keep_within", "sort_by_entry", "walk_inside"]

MAX_COUNT: Final = 2**16 - 1
"""More code points than an automaton has states (MAX_DFA_STATES), plus those that tokens add to
them. Greater counts would be taken for this one, so strings could get too long."""

_ROW: Final = 0
_COUNT: Final = 1
_LEAST: Final = 2
_BASE: Final = 3
_KIND: Final = 4
"""Columns of the path, which has a line for each byte of a node: the row after it, the code points
so far, the least number that a string has, and BASE and KIND of the row."""


@kernel
def keep_within(
    mask: NDArray[np.int32], min_counts: NDArray[np.uint16], left: int, kept: NDArray[np.int32]
) -> None:
    """Write the tokens of a mask with which a string has at most ``left`` code points.

    Every word of ``kept`` is written. ``min_counts`` must have an entry for each token, so this is
    not for masks whose tokens count nothing.
    """
    for word in range(len(mask)):
        bits = mask[word]
        if bits:
            for token in range(32 * word, min(32 * word + 32, len(min_counts))):
                if min_counts[token] > left:
                    bits &= ~(np.int32(1) << np.int32(token & 31))
        kept[word] = bits


@kernel
def walk_inside(
    trie: TrieArrays,
    machine: MachineArrays,
    row: int,
    top: int,
    horizon: int,
    path: NDArray[np.int64],
    words: NDArray[np.int32],
    min_counts: NDArray[np.uint16],
    sites: NDArray[np.int32],
) -> tuple[int, int]:
    """Make a context-independent mask: walk the trie inside one string, whatever surrounds it.

    The walk begins at the node ``top`` with the state ``row``, and ends where a token leaves the
    string or has ``horizon`` bytes below ``top``; there it records a site, for a walk that knows
    the stack. Returns the number of sites and the greatest count of code points.

    ``words`` gets the bits of the tokens that stay inside, and ``min_counts`` by token the least
    number of code points of a string with it; both are all zero before. ``sites``, int32
    ``[nodes, 4]``, gets the sites; where a row is left by its exit action, the entry is
    ``-1 - 256 * row - byte``. ``path``, int64 ``[depths, 5]``, is scratch memory.
    """
    # A node is numbered before all below it, so one loop over the numbers is a depth-first walk.
    # New masks cost most of their time here. So each value of a node is read only once, and with
    # an unsigned index: numba checks whether a signed one counts from the end of the array.
    nodes, rows = trie.nodes, machine.rows
    level = nodes[top, DEPTH]
    horizon += level
    _write_path_row(level, row, 0, 0, rows, path)
    node, num_sites, max_count = top + 1, 0, 0
    while node < nodes[top, END]:
        this = np.uintp(node)
        level, byte, last = nodes[this, DEPTH], nodes[this, BYTE], nodes[this, END]
        above = np.uintp(level - 1)
        of_byte = machine.byte_maps[np.uintp(path[above, _KIND]), np.uintp(byte)]
        target = machine.cells[np.uintp(path[above, _BASE] + of_byte)]
        if target == DEAD:
            current = path[above, _ROW]
            if rows[current, LABEL] != DEAD:
                entry = -1 - 256 * current - byte
                num_sites = _record_site(num_sites, node, 0, 0, entry, sites)
            node = last
            continue
        count, least = path[above, _COUNT], path[above, _LEAST]
        entered_row = np.uintp(target)
        if is_closing(rows, entered_row):
            num_sites = _record_site(num_sites, node, count, least, target, sites)
            node = last
            continue
        count_event = rows[entered_row, COUNT_EVENT]
        if count_event == CODE_POINT_END:
            count += 1
        if count_event != NO_EVENT:
            least = max(least, count + rows[entered_row, MIN_REMAINING])
        if level == horizon:
            num_sites = _record_site(num_sites, node, count, least, target, sites)
            node = last
            continue
        max_count = max(max_count, least)
        _allow_range(node, node + 1, least, trie, words, min_counts)
        node += 1
        if node == last:
            continue
        _write_path_row(level, target, count, least, rows, path)
        # A row inside a character never leads to itself.
        if count_event != NO_EVENT and count_event != CODE_POINT_END:
            continue
        if not loops_on(machine, target, trie.bytes_below[node - 1]):
            continue
        # The tokens are taken without reading their bytes. If the row does not count, all of them
        # have the same least number of code points; else each byte, which is ASCII, counts one.
        if count_event != CODE_POINT_END:
            _allow_range(node, last, least, trie, words, min_counts)
            node = last
        while node < last:
            counted = count + nodes[node, DEPTH] - level + rows[entered_row, MIN_REMAINING]
            max_count = max(max_count, counted)
            _allow_range(node, node + 1, max(least, counted), trie, words, min_counts)
            node += 1
    return num_sites, max_count


@inlined
def _write_path_row(
    level: int,
    row: int,
    count: int,
    least: int,
    rows: NDArray[np.int32],
    path: NDArray[np.int64],
) -> None:
    """Write a line of the path, see ``_ROW`` and the columns after it."""
    here, entered_row = np.uintp(level), np.uintp(row)
    path[here, _ROW], path[here, _COUNT], path[here, _LEAST] = row, count, least
    path[here, _BASE], path[here, _KIND] = rows[entered_row, BASE], rows[entered_row, KIND]


@inlined
def _record_site(
    number: int, node: int, count: int, least: int, entry: int, sites: NDArray[np.int32]
) -> int:
    """Write a site; returns the number of sites with it."""
    sites[number, 0], sites[number, 1] = node, count
    sites[number, 2], sites[number, 3] = least, entry
    return number + 1


@allocating_kernel
def sort_by_entry(
    sites: NDArray[np.int32], rows: NDArray[np.int32], closing_rows: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the sites of ``walk_inside`` with the entries of ``walk_sites``, sorted by entry.

    Rows become indices into ``closing_rows``, which do not depend on where in the table the string
    lies. A row that is left by its exit action gets the index of the first closing row with that
    action. Sites with one entry come together, as a walk finds their state once. ``closing_rows``
    are those of the outline that the walk was made for, which has every row and action of its
    sites.
    """
    entries = np.empty(len(sites), dtype=np.int32)
    by_row, by_action = np.argsort(closing_rows, kind="mergesort"), rows[closing_rows, LABEL]
    order = np.argsort(by_action, kind="mergesort")
    ascending, actions = closing_rows[by_row], by_action[order]
    for site in range(len(sites)):
        found = sites[site, 3]
        if found >= 0:
            entries[site] = by_row[np.searchsorted(ascending, found)]
        else:
            action, byte = rows[(-1 - found) >> 8, LABEL], (-1 - found) & 255
            number = order[np.searchsorted(actions, action)]
            entries[site] = BY_ACTION - 256 * number - byte
    by_entry = np.argsort(entries, kind="mergesort")
    sorted_sites: NDArray[np.int32] = sites[by_entry]
    sorted_sites[:, 3] = entries[by_entry]
    return sorted_sites


@inlined
def _allow_range(
    first: int,
    last: int,
    least: int,
    trie: TrieArrays,
    words: NDArray[np.int32],
    min_counts: NDArray[np.uint16],
) -> None:
    """Set the bits of the tokens of some nodes, after which a string has ``least`` code points.

    ``min_counts`` stays 0 where ``least`` is 0.
    """
    for index in range(trie.nodes[first, FIRST_TOKEN], trie.nodes[last, FIRST_TOKEN]):
        token = trie.token_ids[np.uintp(index)]
        words[np.uintp(token >> 5)] |= 1 << (token & 31)
        if least:
            min_counts[np.uintp(token)] = min(least, MAX_COUNT)
