"""The table of transitions, compared with a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from guided.machine.stack_transitions import (
    EMPTY_SLOT,
    KEY,
    LABEL_BITS,
    TARGET,
    StackTransitions,
    transition_key,
)

_NUMBERS = st.integers(0, 2**20)


@given(st.dictionaries(st.tuples(_NUMBERS, st.integers(0, 2**24 - 1)), _NUMBERS, max_size=600))
def test_every_transition_is_found_where_a_walk_looks_for_it(
    transitions: dict[tuple[int, int], int],
) -> None:
    table = StackTransitions()
    for (stack, label), row in transitions.items():
        table.put(stack, label, row + 1, row)
    assert len(table) == len(transitions)
    assert (table.slots[:, KEY] != EMPTY_SLOT).sum() == len(transitions) <= len(table.slots) // 2
    for (stack, label), row in transitions.items():
        mask = len(table.slots) - 1
        slot = (transition_key(stack, label) * 0x9E3779B1 >> LABEL_BITS) & mask
        while table.slots[slot, KEY] != transition_key(stack, label):
            assert table.slots[slot, KEY] != EMPTY_SLOT
            slot = (slot + 1) & mask
        assert table.slots[slot, TARGET:].tolist() == [row + 1, row]


def test_stacks_that_follow_one_another_are_spread_over_the_table() -> None:
    table = StackTransitions()
    for stack in range(500):
        for label in (0, 1):
            table.put(stack, label, stack, label)
    free = np.flatnonzero(table.slots[:, KEY] == EMPTY_SLOT)
    assert np.diff(free, prepend=-1).max() < 100, "no long run of used slots"
