"""What blocks of rows are made of, worked out by numba."""

from __future__ import annotations

import numpy as np

from guided.automata.dfa import DEAD
from guided.automata.equal_columns import joint_columns
from guided.automata.kernel import making_kernel
from guided.automata.reachability import reverse_moves_of
from guided.automata.shortest import STOP

__all__ = ["block_ways", "rule_rows"]


@making_kernel
def block_ways(table, label, byte_class):  # type: ignore[no-untyped-def]
    """Of an automaton over bytes by state what ``Block`` says: left, way, aim, only and exits."""
    count, width = table.shape
    sizes = np.zeros(width, dtype=np.int32)
    byte_of = np.full(width, DEAD, dtype=np.int16)
    for byte in range(255, -1, -1):
        sizes[byte_class[byte]] += 1
        byte_of[byte_class[byte]] = byte
    left = np.full(count, -1, dtype=np.int64)
    way = np.full(count, STOP, dtype=np.int16)
    aim = label.copy()
    only = np.full(count, DEAD, dtype=np.int16)
    exits = np.zeros(count, dtype=np.bool_)
    queue = np.empty(count, dtype=np.int32)
    tail = 0
    for state in range(count):
        bytes_ = 0
        for index in range(width):
            if table[state, index] != DEAD and sizes[index]:
                bytes_ += sizes[index]
                only[state] = byte_of[index]
        if bytes_ != 1:
            only[state] = DEAD
        if label[state] != DEAD:
            exits[state] = bytes_ == 0
            left[state] = 0
            queue[tail] = state
            tail += 1
    # Breadth first from the labels.
    first, sources, classes = reverse_moves_of(table)
    for head in range(count):
        if head == tail:
            break
        state = queue[head]
        for edge in range(first[state], first[state + 1]):
            source = sources[edge]
            if left[source] == -1 and sizes[classes[edge]]:
                left[source] = left[state] + 1
                way[source], aim[source] = byte_of[classes[edge]], aim[state]
                queue[tail] = source
                tail += 1
    return left, way, aim, only, exits


@making_kernel
def rule_rows(moves, byte_column, begin, end, accepting, calling, behind):  # type: ignore[no-untyped-def]
    """The automaton of a rule of a network, with what its labels are about.

    ``moves`` and ``byte_column`` are the network's, ``accepting`` and ``calling`` have by state
    whether the rule may end there and whether calls begin there, ``behind`` by class of bytes
    whether one may come behind the rule. Returns the class of each byte, the table, the label of
    each state, and by label the place that it is about, int32 ``[labels, 2]``, see ``_Place``.
    """
    size, width = end - begin, moves.shape[1]
    reading = np.empty(size, dtype=np.int32)
    apart = np.zeros(width, dtype=np.bool_)
    count = called = 0
    for state in range(begin, end):
        if calling[state]:
            called += 1
            continue
        reading[count] = state
        count += 1
        if accepting[state]:
            for index in range(width):
                apart[index] |= behind[index] and moves[state, index] != DEAD
    byte_class, columns, _, byte_of = joint_columns(moves, byte_column, reading[:count], apart)
    classes = len(byte_of)
    # Behind bytes that may belong to either side, one row each.
    both = 0
    for number in range(count):
        if accepting[reading[number]]:
            for index in range(classes):
                both += columns[index, count] != DEAD and columns[index, number] != DEAD
    table = np.full((size + both, classes), DEAD, dtype=np.int32)
    label = np.empty(size + both, dtype=np.int32)
    places = np.full((1 + called + both, 2), DEAD, dtype=np.int32)
    label_of, row = 1, size
    for state in range(begin, end):
        label[state - begin] = 0 if accepting[state] else DEAD
        if calling[state]:
            # Where calls begin, nothing but the label leads on.
            label[state - begin] = label_of
            places[label_of, 0] = state
            label_of += 1
    for number in range(count):
        state = reading[number]
        for index in range(classes):
            target = columns[index, number]
            if target == DEAD:
                continue
            table[state - begin, index] = target - begin
            if accepting[state] and columns[index, count] != DEAD:
                table[state - begin, index] = row
                label[row] = label_of
                places[label_of, 0], places[label_of, 1] = state, byte_of[index]
                row += 1
                label_of += 1
    return byte_class, table, label, places
