"""The moves of rules' automata over the classes of bytes of all of them, compiled by numba."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import making_kernel

__all__ = ["lay_moves"]

_ALPHANUMERIC = (string.digits + string.ascii_letters).encode()
_READABLE = np.array(
    sorted(range(256), key=lambda byte: (byte not in _ALPHANUMERIC, not 32 <= byte < 127, byte))
)
"""All bytes, in the order in which a way out prefers them."""


def lay_moves(
    table: NDArray[np.int32],
    columns: NDArray[np.int32],
    first: int,
    byte_class: NDArray[np.uint8],
    moves: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Write a rule's moves, from ``first`` on, into those of all states.

    ``table`` is int32 ``[states, columns]``, ``columns`` has by byte its column there, -1 for none,
    the same for all bytes of a class, and ``moves`` is int32 ``[states of all rules, classes]``,
    with -1 for nowhere. Returns each state with the most readable byte for each state that it leads
    to: source, byte and target, int32 ``[edges, 3]``.
    """
    edges: NDArray[np.int32] = _lay_moves(table, columns, first, byte_class, moves, _READABLE)
    return edges


@making_kernel
def _lay_moves(table, columns, first, byte_class, moves, order):  # type: ignore[no-untyped-def]
    count, width = table.shape
    known = np.zeros(width, dtype=np.bool_)
    chosen = np.empty((width, 2), dtype=np.int32)
    classes = 0
    for byte in order:
        if columns[byte] != -1 and not known[columns[byte]]:
            known[columns[byte]] = True
            chosen[classes, 0], chosen[classes, 1] = byte, columns[byte]
            classes += 1
    seen = np.full(count, -1, dtype=np.int32)
    edges = np.empty((count * min(classes, count), 3), dtype=np.int32)
    size = 0
    column_of = np.full(moves.shape[1], -1, dtype=np.int32)
    for byte in range(256):
        column_of[byte_class[byte]] = columns[byte]
    begin = np.int32(first)
    for source in range(count):
        read, written = table[source], moves[first + source]
        for number in range(len(column_of)):
            column = column_of[number]
            target = read[np.uint32(max(column, 0))]
            written[number] = -1 if column == -1 or target == -1 else begin + target
        for number in range(classes):
            target = table[source, chosen[number, 1]]
            if target != -1 and seen[target] != source:
                seen[target] = source
                edges[size, 0], edges[size, 1] = first + source, chosen[number, 0]
                edges[size, 2] = first + target
                size += 1
    return edges[:size].copy()
