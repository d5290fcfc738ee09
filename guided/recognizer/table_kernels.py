"""How the rows of a transition table are written, compiled by numba."""

from __future__ import annotations

from typing import Final

from guided.automata.dfa import DEAD
from guided.automata.kernel import inlined, kernel
from guided.recognizer.block import NO_BEAT, STOP
from guided.recognizer.table_layout import (
    AIM,
    BASE,
    BEAT,
    ENDS,
    EXITS,
    HIGH,
    KIND,
    LABEL,
    LEFT,
    LIKE,
    LOW,
    NEED,
    NO_BOUND,
    ONLY,
    PLAIN,
    ROLE,
    UNCOUNTED,
    WAY,
)

__all__ = [
    "NOWHERE",
    "TO_EITHER",
    "TO_SET",
    "TO_STATE",
    "lay_block",
    "lay_chain",
    "lay_overlays",
    "lay_sets",
]

NOWHERE: Final = 0
TO_STATE: Final = 1
TO_SET: Final = 2
TO_EITHER: Final = 3
"""How a byte leads on from a set of states: not at all, to a row of a block, to another set, or to
a row of its own, as it may belong to what follows the set, too."""


@inlined
def _counts_nothing(row):  # type: ignore[no-untyped-def]
    """Fill the columns of a row that lies over no other, and is neither in a key nor counts."""
    row[ROLE], row[BEAT], row[NEED], row[LOW], row[HIGH] = PLAIN, NO_BEAT, 0, 0, UNCOUNTED
    row[ENDS], row[LIKE] = NO_BOUND, DEAD


@kernel
def lay_block(  # type: ignore[no-untyped-def]
    rows, cells, start, at, kind, moves, label, aim, renamed, left, way, only, exits
):
    """Write the rows and cells of a block that begins with row ``start`` and cell ``at``.

    The last of the ``renamed`` labels serves DEAD.
    """
    states, classes = moves.shape
    for state in range(states):
        row = rows[state]
        _counts_nothing(row)
        row[BASE], row[KIND] = at + state * classes, kind
        row[LABEL], row[AIM] = renamed[label[state]], renamed[aim[state]]
        row[LEFT], row[WAY], row[ONLY] = left[state], way[state], only[state]
        row[EXITS] = exits[state]
        for index in range(classes):
            target = moves[state, index]
            cells[state * classes + index] = DEAD if target == DEAD else start + target


@kernel
def lay_sets(  # type: ignore[no-untyped-def]
    rows,
    cells,
    row,
    at,
    kinds,
    labels,
    byte_classes,
    edges,
    rows_of,
    before,
    sides,
    no_bytes,
    label,
):
    """Write rows of sets of states, and their cells; see ``TransitionTable.add_sets``."""
    side = row + len(kinds)
    for number in range(sides):
        _leads_nowhere(rows[side + number], at, no_bytes, label + number)
        cells[at] = DEAD
        at += 1
    edge = 0
    for number in range(len(kinds)):
        laid = rows[row + number]
        _leads_nowhere(laid, at, kinds[number], labels[number])
        begin, of = at, edges[edge, 0]
        nearest, nearest_left = -1, NO_BOUND
        while edge < len(edges) and edges[edge, 0] == of:
            how, target, left = edges[edge, 1], DEAD, NO_BOUND
            if how == TO_STATE:
                target = before[edges[edge, 3]] + edges[edge, 2]
                left = rows[target, LEFT]
            elif how == TO_SET:
                target = rows_of[edges[edge, 2]]
            elif how == TO_EITHER:
                target, left = side, 0
                side += 1
            cells[at] = target
            if left < nearest_left:
                nearest, nearest_left = at - begin, left
            at += 1
            edge += 1
        live, only, way = 0, DEAD, DEAD
        for byte in range(255, -1, -1):
            if cells[begin + byte_classes[number, byte]] != DEAD:
                live += 1
                only = byte
            if byte_classes[number, byte] == nearest:
                way = byte
        laid[ONLY] = only if live == 1 else DEAD
        laid[EXITS] = labels[number] != DEAD and live == 0
        if labels[number] == DEAD and nearest != -1:
            laid[LEFT], laid[WAY] = nearest_left + 1, way
            laid[AIM] = rows[cells[begin + nearest], AIM]


@inlined
def _leads_nowhere(row, at, kind, label):  # type: ignore[no-untyped-def]
    """A row as it is before it is said where bytes lead from it."""
    _counts_nothing(row)
    row[BASE], row[KIND], row[LABEL], row[AIM] = at, kind, label, label
    row[LEFT], row[WAY], row[ONLY], row[EXITS] = 0, STOP, DEAD, label != DEAD


@kernel
def lay_chain(rows, cells, first, at, text, end, aim, left):  # type: ignore[no-untyped-def]
    """Write the rows and cells of a chain; see ``TransitionTable.add_chain``."""
    size = len(text)
    for place in range(size):
        row = rows[place]
        _counts_nothing(row)
        row[LABEL], row[EXITS] = DEAD, False
        row[BASE], row[LEFT], row[AIM] = at + 2 * place, left + size - place, aim
        row[KIND] = row[WAY] = row[ONLY] = text[place]
        cells[2 * place], cells[2 * place + 1] = DEAD, first + place + 1
    cells[2 * size - 1] = end


@kernel
def lay_overlays(  # type: ignore[no-untyped-def]
    rows, cells, first, at, under, kind, width, edges, singles, without_kind
):
    """Write rows and cells that begin with row ``first`` and cell ``at``; see
    ``TransitionTable.lay_over``.

    Returns the number of rows whose map is still to be found; of each it says its place and where
    among the edges its own are.
    """
    edge, count = 0, 0
    for node in range(len(under)):
        row, below = rows[first + node], rows[under[node]]
        for column in range(len(row)):
            row[column] = below[column]
        row[LABEL], row[EXITS], row[AIM], row[ONLY] = DEAD, False, DEAD, DEAD
        row[BASE], row[LIKE], row[KIND] = at, under[node], kind
        for index in range(width):
            cells[at + index] = cells[below[BASE] + index]
        at += width
        start = edge
        while edge < len(edges) and edges[edge, 0] == node:
            cells[at] = edges[edge, 2]
            at += 1
            edge += 1
        if edge == start + 1 and singles[edges[start, 1]] != DEAD:
            row[KIND] = singles[edges[start, 1]]
        elif edge > start:
            without_kind[count, 0], without_kind[count, 1], without_kind[count, 2] = (
                node,
                start,
                edge,
            )
            count += 1
    return count
