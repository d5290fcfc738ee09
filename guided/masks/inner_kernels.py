"""How inner masks are made and corrected, compiled by numba."""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.machine.block import NO_BEAT, TICK
from guided.machine.table_layout import BASE, BEAT, KIND, LABEL, NEED
from guided.masks.outline_kernels import DONE, PLAIN_BYTES, WIDE, is_closing
from guided.masks.steps import BY_LABEL
from guided.masks.trie import BYTE, DEPTH, END, FIRST_CHILD, FIRST_TOKEN
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel, making_kernel

__all__ = [
    "MAX_COUNT",
    "correct_inside",
    "goes_on",
    "goes_on_as",
    "keep_closing",
    "keep_sites",
    "keep_within",
    "sorted_by_way",
    "walk_inside",
]

MAX_COUNT: Final = 2**16 - 1
"""More code points than an automaton has states, and than tokens have on top of that."""
_PLAIN = tuple(
    np.uint64(sum(1 << (byte & 63) for byte in PLAIN_BYTES if byte >> 6 == word))
    for word in range(2)
)


@kernel
def keep_within(mask, reach, left, kept):  # type: ignore[no-untyped-def]
    """Write those tokens of a mask with which a string has at most ``left`` code points."""
    for word in range(len(mask)):
        bits = mask[word]
        if bits:
            for token in range(32 * word, min(32 * word + 32, len(reach))):
                if reach[token] > left:
                    bits &= ~(np.int32(1) << np.int32(token & 31))
        kept[word] = bits


@kernel
def goes_on(rows, cells, byte_maps, row, moves):  # type: ignore[no-untyped-def]
    """Whether the same bytes as in a row of moves lead on inside of the string."""
    base, kind = rows[row, BASE], rows[row, KIND]
    for byte in range(256):
        target = cells[base + byte_maps[kind, byte]]
        goes_on = target != DEAD and not is_closing(rows, target)
        if goes_on != (moves[byte] > 0):
            return False
    return True


@kernel
def goes_on_as(moves, model, queue, seen):  # type: ignore[no-untyped-def]
    """Whether all texts that do not end a string go on, and count, as in the model.

    See ``moves_of``. The string ends at most where the model does. ``queue`` and ``seen``, which is
    all false, have an entry for each pair of rows.
    """
    width = len(model)
    queue[0], seen[0] = 0, True
    done, count = 0, 1
    while done < count:
        row, like = divmod(queue[done], width)
        done += 1
        for byte in range(256):
            target, expected = moves[row, byte], model[like, byte]
            if target <= 0 and expected <= 0:
                if target < 0 and expected == 0:
                    return False
                continue
            if target <= 0 or expected <= 0:
                return False
            if moves[target - 1, 256] != model[expected - 1, 256]:
                return False
            if moves[target - 1, 257] != model[expected - 1, 257]:
                return False
            pair = (target - 1) * width + expected - 1
            if not seen[pair]:
                queue[count], seen[pair] = pair, True
                count += 1
    return True


@kernel
def keep_closing(nodes, child_nodes, moves, sites):  # type: ignore[no-untyped-def]
    """Keep the sites where a string of these moves ends; returns how many there are."""
    kept = 0
    for site in range(len(sites)):
        node, at, target = 0, sites[site, 0], 1
        while node != at:
            # The last child that does not come behind the site is above it.
            low, high = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
            while high - low > 1:
                middle = (low + high) // 2
                if child_nodes[middle] <= at:
                    low = middle
                else:
                    high = middle
            node = child_nodes[low]
            target = moves[target - 1, nodes[node, BYTE]]
        if target < 0:
            sites[kept, 0], sites[kept, 1] = at, sites[site, 1]
            sites[kept, 2], sites[kept, 3] = sites[site, 2], -1 - target
            kept += 1
    return kept


@kernel
def walk_inside(  # type: ignore[no-untyped-def]
    nodes,
    below,
    token_ids,
    rows,
    cells,
    byte_maps,
    row,
    top,
    horizon,
    path,
    loops,
    words,
    reach,
    sites,
):
    """Walk a string from ``row`` on, which stands at the node ``top``, up to a horizon.

    Returns the number of sites and the greatest count.
    Of a site it says the row that is entered, or, as a negative number, the row with a label that
    is left and the byte that is read behind it.

    ``loops`` is as ``find_wide`` leaves it; see ``_find_loops``. Where all bytes below a node may
    follow a row in any order, the tokens there are taken without looking at them.
    """
    # Columns of the path: row, code points so far, code points that a string has at least.
    level = nodes[top, DEPTH]
    horizon += level
    path[level, 0], path[level, 1], path[level, 2] = row, 0, 0
    node, num_sites, most = top + 1, 0, 0
    while node < nodes[top, END]:
        level = nodes[node, DEPTH]
        current = path[level - 1, 0]
        target = cells[rows[current, BASE] + byte_maps[rows[current, KIND], nodes[node, BYTE]]]
        if target == DEAD:
            if rows[current, LABEL] != DEAD:
                sites[num_sites, 0], sites[num_sites, 1], sites[num_sites, 2] = node, 0, 0
                sites[num_sites, 3] = -1 - 256 * current - nodes[node, BYTE]
                num_sites += 1
            node = nodes[node, END]
            continue
        count, least = path[level - 1, 1], path[level - 1, 2]
        if is_closing(rows, target):
            sites[num_sites, 0], sites[num_sites, 1] = node, count
            sites[num_sites, 2], sites[num_sites, 3] = least, target
            num_sites += 1
            node = nodes[node, END]
            continue
        if rows[target, BEAT] == TICK:
            count += 1
        if rows[target, BEAT] != NO_BEAT:
            least = max(least, count + rows[target, NEED])
        if level == horizon:
            sites[num_sites, 0], sites[num_sites, 1] = node, count
            sites[num_sites, 2], sites[num_sites, 3] = least, target
            num_sites += 1
            node = nodes[node, END]
            continue
        most = max(most, least)
        path[level, 0], path[level, 1], path[level, 2] = target, count, least
        last = nodes[node, END]
        _allow(node, node + 1, least, nodes, token_ids, words, reach)
        node += 1
        if node == last:
            continue
        if loops[target, 2] != DONE:
            _find_loops(rows, cells, byte_maps, target, loops)
        if below[node - 1, 0] & ~loops[target, 0] or below[node - 1, 1] & ~loops[target, 1]:
            continue
        if rows[target, BEAT] != TICK:
            _allow(node, last, least, nodes, token_ids, words, reach)
            node = last
        while node < last:
            counted = count + nodes[node, DEPTH] - level + rows[target, NEED]
            most = max(most, counted)
            _allow(node, node + 1, max(least, counted), nodes, token_ids, words, reach)
            node += 1
    return num_sites, most


@kernel
def correct_inside(  # type: ignore[no-untyped-def]
    nodes, token_ids, rows, cells, byte_maps, row, other, top, horizon, path, words, sites, gone
):
    """Make the mask of ``row`` out of that of the ``other`` row, in ``words``, below a node.

    Where both lead to the same row, all below is the same and stays. Returns the number of new
    sites, which are as in ``walk_inside``, -1 where rows count; and of the nodes below which, with
    themselves, no site of the other row stays: first and last but one, in order.
    """
    num_sites, num_gone = 0, 0
    level = nodes[top, DEPTH]
    horizon += level
    path[level, 0], path[level, 1] = row, other
    node = top + 1
    while node < nodes[top, END]:
        level, byte, end = nodes[node, DEPTH], nodes[node, BYTE], nodes[node, END]
        row, other = path[level - 1, 0], path[level - 1, 1]
        target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
        there = DEAD
        if other != DEAD:
            there = cells[rows[other, BASE] + byte_maps[rows[other, KIND], byte]]
            if target == there and (target != DEAD or rows[row, LABEL] == rows[other, LABEL]):
                node = end
                continue
        stays = target != DEAD and level != horizon and not is_closing(rows, target)
        if there == DEAD or is_closing(rows, there) or not stays:
            if other != DEAD:
                gone[num_gone, 0], gone[num_gone, 1] = node, end
                num_gone += 1
                for index in range(nodes[node, FIRST_TOKEN], nodes[end, FIRST_TOKEN]):
                    token = token_ids[index]
                    words[token >> 5] &= ~(np.int32(1) << np.int32(token & 31))
            there = DEAD
        if not stays:
            if target != DEAD:
                sites[num_sites, 3] = target
            elif rows[row, LABEL] != DEAD:
                sites[num_sites, 3] = -1 - 256 * row - byte
            if target != DEAD or rows[row, LABEL] != DEAD:
                sites[num_sites, 0], sites[num_sites, 1], sites[num_sites, 2] = node, 0, 0
                num_sites += 1
            node = end
            continue
        if rows[target, BEAT] != NO_BEAT:
            return -1, 0
        path[level, 0], path[level, 1] = target, there
        for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
            token = token_ids[index]
            words[token >> 5] |= np.int32(1) << np.int32(token & 31)
        node += 1
    return num_sites, num_gone


@kernel
def keep_sites(sites, gone, rows, before, after, kept):  # type: ignore[no-untyped-def]
    """Keep the sites that are below no node that is ``gone``; returns how many there are.

    Closing rows have their numbers in ``before``, and get those in ``after``, which has them all.
    """
    num_kept, way, renamed = 0, 0, 0
    for site in range(len(sites)):
        node = sites[site, 0]
        place = np.searchsorted(gone[:, 0], node, side="right") - 1
        if place >= 0 and node < gone[place, 1]:
            continue
        if num_kept == 0 or sites[site, 3] != way:
            way = renamed = sites[site, 3]
            for number in range(len(after)):
                if way >= 0 and after[number] == before[way]:
                    renamed = number
                elif way <= BY_LABEL:
                    left = before[(BY_LABEL - way) >> 8]
                    if rows[after[number], LABEL] == rows[left, LABEL]:
                        renamed = BY_LABEL - 256 * number - ((BY_LABEL - way) & 255)
        kept[num_kept, 0], kept[num_kept, 1] = node, sites[site, 1]
        kept[num_kept, 2], kept[num_kept, 3] = sites[site, 2], renamed
        num_kept += 1
    return num_kept


@making_kernel
def sorted_by_way(sites, rows, closings):  # type: ignore[no-untyped-def]
    """The sites with numbers among the closing rows in place of what ``walk_inside`` names.

    A row that is left by its label has the number of the first one with that label. Those of one
    way come together, as a walk goes each way but once.
    """
    ways = np.empty(len(sites), dtype=np.int32)
    by_row, by_label = np.argsort(closings, kind="mergesort"), rows[closings, LABEL]
    order = np.argsort(by_label, kind="mergesort")
    ascending, labels = closings[by_row], by_label[order]
    for site in range(len(sites)):
        left = sites[site, 3]
        if left >= 0:
            ways[site] = by_row[np.searchsorted(ascending, left)]
        else:
            label, byte = rows[(-1 - left) >> 8, LABEL], (-1 - left) & 255
            number = order[np.searchsorted(labels, label)]
            ways[site] = BY_LABEL - 256 * number - byte
    in_turn = np.argsort(ways, kind="mergesort")
    together = sites[in_turn]
    together[:, 3] = ways[in_turn]
    return together


@inlined
def _allow(first, last, least, nodes, token_ids, words, reach):  # type: ignore[no-untyped-def]
    """Set the bits of the tokens of some nodes, behind which a string has ``least`` code points."""
    for index in range(nodes[first, FIRST_TOKEN], nodes[last, FIRST_TOKEN]):
        token = token_ids[index]
        words[token >> 5] |= 1 << (token & 31)
        if least:
            reach[token] = min(least, MAX_COUNT)


@inlined
def _find_loops(rows, cells, byte_maps, row, loops):  # type: ignore[no-untyped-def]
    """Fill in the ASCII bytes that may follow a row in any order, and a one for done.

    Those that lead to the row itself; for wide rows all plain bytes, unless it is fewer.
    """
    is_wide = loops[row, 2] == WIDE
    loops[row, 2] = DONE
    if rows[row, BEAT] != NO_BEAT and rows[row, BEAT] != TICK:
        return
    for byte in range(1, 128):
        if cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]] == row:
            loops[row, byte >> 6] |= np.uint64(1) << np.uint64(byte & 63)
    if is_wide and (_PLAIN[0] & ~loops[row, 0] or _PLAIN[1] & ~loops[row, 1]):
        loops[row, 0], loops[row, 1] = _PLAIN
