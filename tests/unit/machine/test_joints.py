"""The table of joints, held against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from guided.machine.joints import EMPTY_SLOT, KEY, LABEL_BITS, TARGET, JointTable, joint_key

_NUMBERS = st.integers(0, 2**20)


@given(st.dictionaries(st.tuples(_NUMBERS, st.integers(0, 2**24 - 1)), _NUMBERS, max_size=600))
def test_every_joint_is_found_where_a_walk_looks_for_it(joints: dict[tuple[int, int], int]) -> None:
    table = JointTable()
    for (context, label), row in joints.items():
        table.put(context, label, row + 1, row)
    assert len(table) == len(joints)
    assert (table.slots[:, KEY] != EMPTY_SLOT).sum() == len(joints) <= len(table.slots) // 2
    for (context, label), row in joints.items():
        mask = len(table.slots) - 1
        slot = (joint_key(context, label) * 0x9E3779B1 >> LABEL_BITS) & mask
        while table.slots[slot, KEY] != joint_key(context, label):
            assert table.slots[slot, KEY] != EMPTY_SLOT
            slot = (slot + 1) & mask
        assert table.slots[slot, TARGET:].tolist() == [row + 1, row]


def test_contexts_that_follow_one_another_are_spread_over_the_table() -> None:
    table = JointTable()
    for context in range(500):
        for label in (0, 1):
            table.put(context, label, context, label)
    free = np.flatnonzero(table.slots[:, KEY] == EMPTY_SLOT)
    assert np.diff(free, prepend=-1).max() < 100, "no long run of used slots"
