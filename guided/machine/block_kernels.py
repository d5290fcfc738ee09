"""Compiled code that computes the parts of blocks of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.regular.dfa import DEAD
from guided.regular.reachability import STOP
from guided.regular.transitions import moves_by_state, moves_into
from guided.runtime.kernel import allocating_kernel

__all__ = ["find_nearest_labels", "rule_rows"]


@allocating_kernel
def find_nearest_labels(
    table: NDArray[np.int32], label: NDArray[np.int32], byte_class: NDArray[np.uint8]
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int16],
    NDArray[np.int32],
    NDArray[np.int16],
    NDArray[np.bool_],
]:
    """Return, by state, the arrays of a block: ``distance``, ``next_byte``, ``nearest_label``,
    ``only`` and ``exits``.

    ``table`` is int32 ``[states, classes]``, ``label`` int32 ``[states]``, both with DEAD for
    none; ``byte_class`` is uint8 ``[256]``. Every state must lead to a label. Of equally short ways
    to labels any may be taken, but ``next_byte`` and ``nearest_label`` must be of the same one;
    another choice changes the text of completions.
    """
    count, width = table.shape
    # The number of bytes in each class, and the lowest of them, which stands for the class. There
    # may be none: a byte that was split off may have been the only one.
    sizes = np.zeros(width, dtype=np.int32)
    byte_of = np.full(width, DEAD, dtype=np.int16)
    for byte in range(255, -1, -1):
        sizes[byte_class[byte]] += 1
        byte_of[byte_class[byte]] = byte
    distance = np.full(count, -1, dtype=np.int64)
    next_byte = np.full(count, STOP, dtype=np.int16)
    nearest_label = label.copy()
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
            distance[state] = 0
            queue[tail] = state
            tail += 1
    into = moves_into(moves_by_state(table))
    # Breadth first against the moves, from the states with a label: a state is first met on a
    # shortest path.
    head = 0
    while head < tail:
        state = queue[head]
        head += 1
        for at in range(into.first[state], into.first[state + 1]):
            source, index = into.sources[at], into.classes[at]
            if distance[source] == -1 and sizes[index]:
                distance[source] = distance[state] + 1
                next_byte[source], nearest_label[source] = byte_of[index], nearest_label[state]
                queue[tail] = source
                tail += 1
    return distance, next_byte, nearest_label, only, exits


@allocating_kernel
def _find_ambiguous_classes(
    moves: NDArray[np.int32],
    begin: int,
    end: int,
    accepting: NDArray[np.bool_],
    calling: NDArray[np.bool_],
    after: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], int, int]:
    """Find the ambiguous classes: those that some accepting state reads and that may also follow.

    Such a class is a class of its own in the table, even if the rule alone would not
    distinguish it. States that call are left out, as their rows read no byte.

    Returns the ambiguous classes; the number of pairs of an accepting state and an ambiguous class
    that it reads; and the number of states that call. ``rule_rows`` makes arrays of these sizes, so
    its conditions have to be the same. The arguments are those of ``rule_rows``.
    """
    width = moves.shape[1]
    ambiguous = np.zeros(width, dtype=np.bool_)
    num_ambiguous = num_calls = 0
    for state in range(begin, end):
        num_calls += calling[state]
        if accepting[state] and not calling[state]:
            for index in range(width):
                if after[index] and moves[state, index] != DEAD:
                    ambiguous[index] = True
    for state in range(begin, end):
        if accepting[state] and not calling[state]:
            for index in range(width):
                num_ambiguous += ambiguous[index] and moves[state, index] != DEAD
    return ambiguous, num_ambiguous, num_calls


@allocating_kernel
def _rule_classes(
    byte_column: NDArray[np.uint8], own: NDArray[np.int32], ambiguous: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
    """Return the classes of bytes of a rule: those that it distinguishes, and ``ambiguous`` ones.

    Returns the class of each byte, and by class a class of the network and the first byte in it.
    """
    width = len(ambiguous)
    class_of = np.empty(width, dtype=np.uint8)
    column_of = np.empty(width, dtype=np.int32)
    # By class of the rule plus one, as ``own`` is DEAD for bytes that lead nowhere.
    class_of_own = np.full(width + 1, DEAD, dtype=np.int32)
    classes = 0
    for index in range(width):
        if ambiguous[index] or class_of_own[own[index] + 1] == DEAD:
            class_of[index] = classes
            column_of[classes] = index
            classes += 1
            if not ambiguous[index]:
                class_of_own[own[index] + 1] = class_of[index]
        else:
            class_of[index] = class_of_own[own[index] + 1]
    byte_class = np.empty(256, dtype=np.uint8)
    byte_of = np.empty(classes, dtype=np.int64)
    for byte in range(255, -1, -1):
        byte_class[byte] = class_of[byte_column[byte]]
        byte_of[byte_class[byte]] = byte
    return byte_class, column_of[:classes], byte_of


@allocating_kernel
def rule_rows(
    moves: NDArray[np.int32],
    byte_column: NDArray[np.uint8],
    own: NDArray[np.int32],
    begin: int,
    end: int,
    accepting: NDArray[np.bool_],
    calling: NDArray[np.bool_],
    after: NDArray[np.bool_],
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the automaton of one rule of a network as a table over bytes, with its exit actions.

    The rule has the states ``begin`` up to ``end``. ``moves`` and ``byte_column`` (the class of
    each byte) are the network's; ``own`` maps the network's classes to the fewer that the rule
    itself distinguishes. By state of the network, ``accepting`` says whether a rule may end there
    and ``calling`` whether calls begin there; by class of the network, ``after`` says whether a
    byte of it may follow the rule.

    Returns the class of each byte, uint8 ``[256]``; the table, int32 ``[rows, classes]``; the
    label of each row; and the place of each label, int32 ``[labels, 2]``, see
    ``_RuleBlock.exits``. Label 0 is the end of the rule. The rows of states come first, then one
    for each state and class that is read in the state as well as after the rule.
    """
    ambiguous, num_ambiguous, num_calls = _find_ambiguous_classes(
        moves, begin, end, accepting, calling, after
    )
    byte_class, column_of, byte_of = _rule_classes(byte_column, own, ambiguous)
    size, classes = end - begin, len(byte_of)
    table = np.full((size + num_ambiguous, classes), DEAD, dtype=np.int32)
    label = np.empty(size + num_ambiguous, dtype=np.int32)
    places = np.full((1 + num_calls + num_ambiguous, 2), DEAD, dtype=np.int32)
    label_of, row = 1, size
    for state in range(begin, end):
        label[state - begin] = 0 if accepting[state] else DEAD
        if calling[state]:
            # A call has to begin before a byte is read, so the row reads none: its action enters
            # the called rules (and the state's own moves) as a set of states.
            label[state - begin] = label_of
            places[label_of, 0] = state
            label_of += 1
            continue
        read, written = moves[state], table[state - begin]
        for index in range(classes):
            target = read[column_of[index]]
            written[index] = DEAD if target == DEAD else target - begin
    for state in range(begin, end):
        if not accepting[state] or calling[state]:
            continue
        # A byte that may belong to the rule or to what follows it leads to a separate row, with an
        # action that Python resolves: a row of the table cannot follow both.
        for index in range(classes):
            if ambiguous[column_of[index]] and table[state - begin, index] != DEAD:
                table[state - begin, index] = row
                label[row] = label_of
                places[label_of, 0], places[label_of, 1] = state, byte_of[index]
                row += 1
                label_of += 1
    return byte_class, table, label, places
