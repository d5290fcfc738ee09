"""Compiled code that writes the rows of a transition table.

Each function writes rows and their cells in one go::

    rows   int32 [rows, 15]   BASE KIND LABEL EXITS ROLE ... of each row, see ``table_layout``
                              │    │
    cells  int32              │    └ a map of bytes to classes, 0 for bytes that lead nowhere
                              └ ... [class 0] [class 1] [class 2] ... the rows that bytes lead to
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import CODE_POINT_END, NO_EVENT, STOP
from guided.machine.table_layout import (
    BASE,
    COUNT_EVENT,
    DISTANCE,
    EXITS,
    HIGH,
    KIND,
    LABEL,
    LOW,
    MIN_REMAINING,
    NAMES_LEFT,
    NEAREST_LABEL,
    NEXT_BYTE,
    NO_BOUND,
    ONLY,
    OVERLAID_ROW,
    PLAIN,
    ROLE,
    UNCOUNTED,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = [
    "NOWHERE",
    "TO_AMBIGUOUS",
    "TO_SET",
    "TO_STATE",
    "correct_next_bytes",
    "count_branches",
    "write_block",
    "write_branches",
    "write_chains",
    "write_exits",
    "write_overlays",
    "write_sets",
]

_Int32: TypeAlias = NDArray[np.int32]

NOWHERE: Final = 0
TO_STATE: Final = 1
TO_SET: Final = 2
TO_AMBIGUOUS: Final = 3
"""How a byte leads on from a set of states: not at all, to a row of a block, to another set, or to
a separate row, as it may also belong to what follows the set."""
FIRST: Final = 0
LAST: Final = 1
SHARED: Final = 2
"""Columns of the nodes of branches: the first text, the one after the last, the bytes shared."""


@inlined
def _fill_plain_columns(row: _Int32) -> None:
    """Fill the columns of a row that is not an overlay, not in a key, and does not count."""
    row[ROLE], row[COUNT_EVENT], row[MIN_REMAINING], row[LOW], row[HIGH] = (
        PLAIN,
        NO_EVENT,
        0,
        0,
        UNCOUNTED,
    )
    row[NAMES_LEFT], row[OVERLAID_ROW] = NO_BOUND, DEAD


@kernel
def write_block(
    rows: _Int32,
    cells: _Int32,
    start: int,
    at: int,
    kind: int,
    moves: _Int32,
    label: _Int32,
    nearest_label: _Int32,
    label_map: _Int32,
    distance: NDArray[np.int64],
    next_byte: NDArray[np.int16],
    only: NDArray[np.int16],
    exits: NDArray[np.bool_],
) -> None:
    """Write the rows and cells of a block; see ``TransitionTable.add_block``.

    ``rows`` and ``cells`` are only the new ones, which stand in the table from row ``start`` and
    from cell ``at`` on. ``kind`` is the number of the block's map of bytes.
    """
    # A label of DEAD is -1, which reads the last entry of ``label_map``: DEAD again.
    states, classes = moves.shape
    for state in range(states):
        row = rows[state]
        _fill_plain_columns(row)
        row[BASE], row[KIND] = at + state * classes, kind
        row[LABEL], row[NEAREST_LABEL] = label_map[label[state]], label_map[nearest_label[state]]
        row[DISTANCE], row[NEXT_BYTE], row[ONLY] = distance[state], next_byte[state], only[state]
        row[EXITS] = exits[state]
    # One flat loop without other work, which the compiler vectorises.
    first, targets = np.int32(start), moves.reshape(moves.size)
    for index in range(len(targets)):
        target = targets[index]
        cells[index] = target if target == DEAD else first + target


@kernel
def write_sets(
    rows: _Int32,
    cells: _Int32,
    row: int,
    at: int,
    set_columns: _Int32,
    byte_classes: NDArray[np.uint8],
    edges: _Int32,
    rows_of: _Int32,
    first_rows: _Int32,
    num_ambiguous: int,
    no_bytes: int,
    label: int,
) -> None:
    """Write rows of sets of states, and their cells; see ``TransitionTable.add_sets``.

    ``rows`` and ``cells`` are those of the whole table; new rows begin with ``row``, new cells with
    ``at``. ``set_columns``, int32 ``[3, sets]``, has by set its number, the map of its bytes, and
    its label. ``no_bytes`` is the map that distinguishes no bytes. Lines of ``edges`` are in the
    order of the sets in ``set_columns``, at least one for each: they are matched by place, which is
    not checked.
    """
    numbers, kinds, labels = set_columns[0], set_columns[1], set_columns[2]
    ambiguous_row = row + len(kinds)
    # Before any edge is written, as sets may lead to later sets.
    for place in range(len(numbers)):
        rows_of[numbers[place]] = row + place
    for number in range(num_ambiguous):
        _fill_exit_row(rows[ambiguous_row + number], at, no_bytes, label + number)
        cells[at] = DEAD
        at += 1
    edge = 0
    for number in range(len(kinds)):
        written = rows[row + number]
        _fill_exit_row(written, at, kinds[number], labels[number])
        begin, of = at, edges[edge, 0]
        # The class with the shortest path to a label. Edges to other sets do not count, as their
        # DISTANCE may not be known yet; a set with no other edges keeps NEXT_BYTE as STOP.
        nearest, nearest_left = -1, NO_BOUND
        while edge < len(edges) and edges[edge, 0] == of:
            edge_kind, target, distance = edges[edge, 1], DEAD, NO_BOUND
            if edge_kind == TO_STATE:
                target = first_rows[edges[edge, 3]] + edges[edge, 2]
                distance = rows[target, DISTANCE]
            elif edge_kind == TO_SET:
                target = rows_of[edges[edge, 2]]
            elif edge_kind == TO_AMBIGUOUS:
                target, distance = ambiguous_row, 0
                ambiguous_row += 1
            cells[at] = target
            if distance < nearest_left:
                nearest, nearest_left = at - begin, distance
            at += 1
            edge += 1
        # Downwards, so that ``only`` and ``next_byte`` end as the lowest of their bytes.
        live, only, next_byte = 0, DEAD, DEAD
        for byte in range(255, -1, -1):
            if cells[begin + byte_classes[number, byte]] != DEAD:
                live += 1
                only = byte
            if byte_classes[number, byte] == nearest:
                next_byte = byte
        written[ONLY] = only if live == 1 else DEAD
        written[EXITS] = labels[number] != DEAD and live == 0
        if labels[number] == DEAD and nearest != -1:
            written[DISTANCE], written[NEXT_BYTE] = nearest_left + 1, next_byte
            written[NEAREST_LABEL] = rows[cells[begin + nearest], NEAREST_LABEL]


@inlined
def _fill_exit_row(row: _Int32, at: int, kind: int, label: int) -> None:
    """Fill a row that reads no byte; ``write_sets`` then changes those that do read some."""
    _fill_plain_columns(row)
    row[BASE], row[KIND], row[LABEL], row[NEAREST_LABEL] = at, kind, label, label
    row[DISTANCE], row[NEXT_BYTE], row[ONLY], row[EXITS] = 0, STOP, DEAD, label != DEAD


@kernel
def write_exits(
    rows: _Int32, cells: _Int32, first: int, at: int, kind: int, labels: _Int32
) -> None:
    """Write rows that read no byte and have one label each, from row ``first`` and cell ``at`` on.

    ``kind`` is the map that distinguishes no bytes: one cell per row, DEAD, serves all bytes.
    """
    for number in range(len(labels)):
        row = rows[first + number]
        _fill_plain_columns(row)
        row[BASE], row[KIND], row[LABEL], row[EXITS] = at + number, kind, labels[number], True
        row[DISTANCE], row[NEXT_BYTE], row[NEAREST_LABEL], row[ONLY] = 0, STOP, labels[number], DEAD
        cells[at + number] = DEAD


@kernel
def write_chains(
    rows: _Int32,
    cells: _Int32,
    first: int,
    at: int,
    text: NDArray[np.uint8],
    bounds: _Int32,
    targets: _Int32,
) -> None:
    """Write the rows and cells of chains; see ``TransitionTable.add_chains``.

    The rows ``targets`` must be written already: their DISTANCE and NEAREST_LABEL are read.
    """
    place = 0
    for number in range(len(bounds)):
        end, stop = targets[number], bounds[number]
        while place < stop:
            row = rows[first + place]
            _fill_plain_columns(row)
            row[LABEL], row[EXITS] = DEAD, False
            row[BASE], row[NEAREST_LABEL] = at + 2 * place, rows[end, NEAREST_LABEL]
            row[DISTANCE] = rows[end, DISTANCE] + stop - place
            # Map ``b`` distinguishes byte ``b`` from all others (``ByteMaps``): the byte is its
            # KIND.
            row[KIND] = row[NEXT_BYTE] = row[ONLY] = text[place]
            cells[at + 2 * place] = DEAD
            cells[at + 2 * place + 1] = end if place + 1 == stop else first + place + 1
            place += 1


@kernel
def count_branches(
    text: NDArray[np.uint8], bounds: _Int32, depth: int, nodes: _Int32
) -> tuple[int, int]:
    """Count the nodes and edges of a trie of sorted texts; see ``TransitionTable.add_branches``.

    Writes the nodes into ``nodes``, breadth first: the range of texts below each, and how many
    bytes they share. A text that is alone after an edge gets no node, as its chain continues from
    there. Returns (-1, -1) where ``nodes`` has too few lines; one for each byte is enough.

    ``write_branches`` numbers the children in the same order: change both or none.
    """
    nodes[0, FIRST], nodes[0, LAST], nodes[0, SHARED] = 0, len(bounds), depth
    node, count, edges = 0, 1, 0
    while node < count:
        first, last, shared = nodes[node, FIRST], nodes[node, LAST], nodes[node, SHARED]
        while first < last:
            after = _end_of_same_byte(text, bounds, first, last, shared)
            if after - first > 1:
                if count == len(nodes):
                    return -1, -1
                nodes[count, FIRST], nodes[count, LAST] = first, after
                nodes[count, SHARED] = shared + 1
                count += 1
            edges += 1
            first = after
        node += 1
    return count, edges


@kernel
def write_branches(
    rows: _Int32,
    cells: _Int32,
    first: int,
    at: int,
    text: NDArray[np.uint8],
    bounds: _Int32,
    chains: _Int32,
    nodes: _Int32,
    bytes_: NDArray[np.uint8],
) -> None:
    """Write the rows and cells of a trie; see ``TransitionTable.add_branches``.

    ``nodes`` are those of ``count_branches``. Their first column is overwritten with where the
    node's edges begin in ``bytes_``, which gets the bytes of all edges. KIND is right for nodes
    with one edge, as map ``b`` of the ``byte_maps`` distinguishes byte ``b`` from all others; the
    caller sets it for all others. The rows in ``chains`` must be final: their DISTANCE and
    NEAREST_LABEL are read.
    """
    # Nodes are numbered as ``count_branches`` met them, so the next inner node is ``child``.
    child, edge = 1, 0
    for node in range(len(nodes)):
        row, cell = rows[first + node], at + node + edge
        _fill_plain_columns(row)
        row[LABEL], row[EXITS], row[BASE] = DEAD, False, cell
        cells[cell] = DEAD
        start, last, shared = nodes[node, FIRST], nodes[node, LAST], nodes[node, SHARED]
        nodes[node, FIRST] = edge
        while start < last:
            after = _end_of_same_byte(text, bounds, start, last, shared)
            place = _start_of_text(bounds, start) + shared
            if after - start > 1:
                target = first + child
                child += 1
            elif place + 1 == bounds[start]:
                target = chains[start, 1]
            else:
                target = chains[start, 0] + shared + 1
            cell += 1
            cells[cell], bytes_[edge] = target, text[place]
            edge += 1
            start = after
    # From the last node to the first, as DISTANCE of a node needs that of its later children.
    end = edge
    for node in range(len(nodes) - 1, -1, -1):
        row, edge = rows[first + node], nodes[node, FIRST]
        nearest = edge
        for other in range(edge, end):
            cell = row[BASE] + 1 + other - edge
            if rows[cells[cell], DISTANCE] < rows[cells[row[BASE] + 1 + nearest - edge], DISTANCE]:
                nearest = other
        target = cells[row[BASE] + 1 + nearest - edge]
        row[DISTANCE], row[NEXT_BYTE], row[NEAREST_LABEL] = (
            rows[target, DISTANCE] + 1,
            bytes_[nearest],
            rows[target, NEAREST_LABEL],
        )
        row[KIND] = bytes_[edge]
        row[ONLY] = bytes_[edge] if end - edge == 1 else DEAD
        end = edge


@inlined
def _start_of_text(bounds: _Int32, number: int) -> int:
    """Return where a text begins among all texts joined: at the end of the one before it."""
    begin: int = bounds[number - 1] if number else 0
    return begin


@inlined
def _end_of_same_byte(
    text: NDArray[np.uint8], bounds: _Int32, first: int, last: int, shared: int
) -> int:
    """Return the end of the run of texts from ``first`` on that have the same byte at ``shared``.

    All texts up to ``last`` share the bytes before, and are longer than these.

    ``first`` must be below ``last``; the texts must be sorted, or equal bytes may not be adjacent.
    """
    byte = text[_start_of_text(bounds, first) + shared]
    after = first + 1
    while after < last and text[_start_of_text(bounds, after) + shared] == byte:
        after += 1
    return after


@kernel
def write_overlays(
    rows: _Int32,
    cells: _Int32,
    first: int,
    at: int,
    under: _Int32,
    kind: int,
    width: int,
    edges: _Int32,
    singles: _Int32,
    needs_map: _Int32,
) -> int:
    """Write overlays from row ``first`` and cell ``at`` on; see ``add_overlays_from_edges``.

    ``kind`` and ``width`` are the map of the rows ``under`` and its number of classes. ``singles``
    has by byte the map ``kind`` with that byte split off, DEAD if not made yet. Rows whose map
    the caller has to set are written to ``needs_map``: their place, and where their edges begin
    and end. Returns the number of these rows.
    """
    edge, count = 0, 0
    for node in range(len(under)):
        row, below = rows[first + node], rows[under[node]]
        for column in range(len(row)):
            row[column] = below[column]
        row[LABEL], row[EXITS], row[NEAREST_LABEL] = DEAD, False, DEAD
        row[BASE], row[OVERLAID_ROW], row[KIND] = at, under[node], kind
        for index in range(width):
            cells[at + index] = cells[below[BASE] + index]
        at += width
        start = edge
        while edge < len(edges) and edges[edge, 0] == node:
            # The bytes split off have the classes after those of the map below, in this order.
            cells[at] = edges[edge, 2]
            if edges[edge, 1] != row[ONLY] or edges[edge, 2] == DEAD:
                row[ONLY] = DEAD
            at += 1
            edge += 1
        if edge == start + 1 and singles[edges[start, 1]] != DEAD:
            row[KIND] = singles[edges[start, 1]]
        elif edge > start:
            needs_map[count, 0], needs_map[count, 1], needs_map[count, 2] = (
                node,
                start,
                edge,
            )
            count += 1
    return count


@inlined
def _code_points_needed(rows: _Int32, row: int) -> int:
    """Return the code points that a string still needs before it enters a row."""
    needed: int = rows[row, MIN_REMAINING] + (rows[row, COUNT_EVENT] == CODE_POINT_END)
    return needed


@kernel
def correct_next_bytes(
    rows: _Int32, cells: _Int32, byte_maps: NDArray[np.uint8], first: int, end: int
) -> int:
    """Correct rows, the last one first; see ``TransitionTable.recompute_next_bytes``.

    Returns how many rows got another NEXT_BYTE: the first byte, among those after which the fewest
    code points are needed, whose row is nearest to a label.
    """
    searched = 0
    for row in range(end - 1, first - 1, -1):
        if rows[row, NEXT_BYTE] == STOP:
            continue
        base, kind = rows[row, BASE], rows[row, KIND]
        ahead = cells[base + byte_maps[kind, rows[row, NEXT_BYTE]]]
        if ahead == DEAD or _code_points_needed(rows, ahead) != rows[row, MIN_REMAINING]:
            searched += 1
            ahead, least = DEAD, 0
            for byte in range(256):
                target = cells[base + byte_maps[kind, byte]]
                if target == DEAD:
                    continue
                needed = _code_points_needed(rows, target)
                # By code points first, as the path has to stay within the bound on them.
                is_nearer = needed == least and rows[target, DISTANCE] < rows[ahead, DISTANCE]
                if ahead == DEAD or needed < least or is_nearer:
                    rows[row, NEXT_BYTE], ahead, least = byte, target, needed
            rows[row, MIN_REMAINING] = least
        rows[row, DISTANCE] = rows[ahead, DISTANCE] + 1
    return searched
