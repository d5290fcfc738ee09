"""The messages of rank 0 have everything that a rank's share of a call depends on."""

from __future__ import annotations

import numpy as np
import pytest

from guided.kv.reservation import Reservation, SlotCopies
from guided.model.batch import Segment, StepBatch
from guided.model.parallel.messages import Call, Copy, Open, ToRank, read_to_rank, write
from guided.model.visible import visible_slots
from guided.spec import TokenId


def told(message: ToRank) -> ToRank:
    return read_to_rank(write(message))


def rows(start: int, slots: list[int], new: int) -> Reservation:
    return Reservation(start, np.array(slots, np.int64), new, SlotCopies.none())


CHAIN = Segment(
    reservations=(rows(0, [9, 4, 7], 2), rows(0, [3, 1, 2], 2)),
    num_committed=1,
    tokens=(TokenId(11), TokenId(12)),
    depths=(0, 1),
    ancestors=None,
    nodes_needing_logits=(1,),
    wants_hidden_states=True,
)
TREE_GOES_ON = Segment(
    reservations=(rows(2, [20, 21, 22, 30, 31, 32], 2), rows(4, [40, 50, 51, 52], 2)),
    num_committed=4,
    tokens=(TokenId(5), TokenId(6)),
    depths=(1, 1),
    ancestors=np.array([[True, False, True, False], [True, False, False, True]]),
    nodes_needing_logits=(1, 0),
    earlier_depths=(0, 0),
)


@pytest.mark.parametrize("segments", [(CHAIN,), (TREE_GOES_ON,), (CHAIN, TREE_GOES_ON, CHAIN)])
def test_a_batch_arrives_with_all_that_a_share_of_it_depends_on(
    segments: tuple[Segment, ...],
) -> None:
    call = told(Call.of(segments))
    assert isinstance(call, Call)
    sent, found = StepBatch(segments), call.batch()
    assert (found.tokens, found.positions) == (sent.tokens, sent.positions)
    assert found.logits_rows == sent.logits_rows
    assert found.states_rows == []
    for group, window in enumerate((None, 3)):
        assert found.new_slots(group).tolist() == sent.new_slots(group).tolist()
        pairs = zip(
            visible_slots(found, group, window), visible_slots(sent, group, window), strict=True
        )
        for ours, theirs in pairs:
            assert ours.slots.tolist() == theirs.slots.tolist()
            assert ours.mask.tolist() == theirs.mask.tolist()
            assert ours.num_earlier == theirs.num_earlier


def test_copies_and_sizes_arrive() -> None:
    copies = [SlotCopies(np.array([1, 2]), np.array([8, 9])), SlotCopies.none()]
    copy = told(Copy.of(copies))
    assert isinstance(copy, Copy)
    assert [(each.sources.tolist(), each.targets.tolist()) for each in copy.copies()] == [
        ([1, 2], [8, 9]),
        ([], []),
    ]
    assert told(Open((64, 8))) == Open((64, 8))
