"""The pool of slots and the rows of a sequence conserve what they count."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from guided.errors import OutOfMemoryError
from guided.kv import RowMove, SequenceSlots, SlotPool

TOTAL = 20


class PoolMachine(RuleBasedStateMachine):
    """Any order of opening, reserving, committing and releasing keeps free + held = total."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = SlotPool(TOTAL)
        self.model: dict[int, tuple[SequenceSlots, int, int]] = {}
        """By identity: the slots, their capacity, and how many rows ought to be committed."""

    opened = Bundle("opened")

    @rule(target=opened, capacity=st.integers(1, TOTAL))
    def open(self, capacity: int) -> SequenceSlots | None:
        free = TOTAL - sum(held for _, held, _ in self.model.values())
        if capacity > free:
            with pytest.raises(OutOfMemoryError):
                self.pool.open(capacity)
            return None
        slots = self.pool.open(capacity)
        self.model[id(slots)] = (slots, capacity, 0)
        return slots

    @rule(slots=opened, count=st.integers(1, 6), data=st.data())
    def step(self, slots: SequenceSlots | None, count: int, data: st.DataObject) -> None:
        if slots is None or id(slots) not in self.model:
            return
        _, capacity, committed = self.model[id(slots)]
        if count > capacity - committed:
            with pytest.raises(OutOfMemoryError):
                slots.reserve(count)
            return
        reservation = slots.reserve(count)
        assert (reservation.start, reservation.count) == (committed, count)
        assert slots.committed == committed
        kept = sorted(data.draw(st.sets(st.integers(0, count - 1))))
        moves = {move.source: move.target for move in slots.commit(kept)}
        # Every kept row ends up right behind the rows before it, moved or not.
        ends = [moves.get(committed + offset, committed + offset) for offset in kept]
        assert ends == list(range(committed, committed + len(kept)))
        self.model[id(slots)] = (slots, capacity, committed + len(kept))

    @rule(slots=consumes(opened))
    def release(self, slots: SequenceSlots | None) -> None:
        if slots is not None:
            self.pool.release(slots)
            del self.model[id(slots)]

    @invariant()
    def adds_up(self) -> None:
        self.pool.check()
        assert self.pool.free == TOTAL - sum(held for _, held, _ in self.model.values())
        for slots, _, committed in self.model.values():
            assert slots.committed == committed
            assert slots.reserved == 0


PoolMachine.TestCase.settings = settings(max_examples=60, deadline=None)
TestPool = PoolMachine.TestCase


def test_kept_rows_close_up_behind_the_committed_ones() -> None:
    slots = SlotPool(20).open(20)
    slots.reserve(10)
    slots.commit(range(10))
    slots.reserve(5)
    assert slots.commit([0, 1, 3]) == (RowMove(source=13, target=12),)
    assert (slots.committed, slots.reserved) == (13, 0)


def test_a_chain_moves_nothing() -> None:
    slots = SlotPool(4).open(4)
    slots.reserve(4)
    assert slots.commit([0, 1, 2, 3]) == ()


def test_a_full_pool_says_what_was_asked_and_what_is_free() -> None:
    pool = SlotPool(8)
    pool.open(6)
    with pytest.raises(OutOfMemoryError) as caught:
        pool.open(3)
    assert str(caught.value) == "3 slots were asked for, but only 2 of 8 are free"


def test_a_full_sequence_says_what_was_asked_and_what_is_spare() -> None:
    slots = SlotPool(8).open(4)
    slots.reserve(3)
    slots.commit([0, 1, 2])
    with pytest.raises(OutOfMemoryError) as caught:
        slots.reserve(2)
    assert str(caught.value) == (
        "2 rows were asked for behind 3 committed ones, but only 1 of 4 are spare"
    )


@pytest.mark.parametrize("kept", [[1, 0], [0, 0], [3], [-1]])
def test_rows_that_are_not_an_ascending_part_of_the_reservation_are_a_fault(
    kept: list[int],
) -> None:
    slots = SlotPool(8).open(8)
    slots.reserve(3)
    with pytest.raises(AssertionError):
        slots.commit(kept)


def test_releasing_twice_is_a_fault() -> None:
    pool = SlotPool(8)
    slots = pool.open(4)
    pool.release(slots)
    with pytest.raises(AssertionError, match="not held"):
        pool.release(slots)
    pool.check()
    assert pool.free == 8
