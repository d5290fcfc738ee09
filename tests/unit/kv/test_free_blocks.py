"""Free blocks come as neighbours of what is held, or with room to grow."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from guided.kv.free_blocks import BlockId, FreeBlocks


def test_tables_start_far_apart() -> None:
    free = FreeBlocks(16)
    assert [free.take(None) for _ in range(4)] == [0, 8, 12, 4]


def test_the_block_behind_is_preferred() -> None:
    free = FreeBlocks(8)
    first, other = free.take(None), free.take(None)
    assert [free.take(first), free.take(other)] == [first + 1, other + 1]


def test_a_block_behind_that_is_held_gives_way_to_a_long_run() -> None:
    free = FreeBlocks(8)
    first = free.take(None)
    assert free.take(first) == 1
    assert free.take(first) == 5  # the middle of 2 to 7


def test_released_neighbours_are_one_run_again() -> None:
    free = FreeBlocks(3)
    for _ in range(3):
        free.take(None)
    for block in (0, 2, 1):
        free.add(BlockId(block))
        free.check()
    assert [free.take(BlockId(-1)), free.take(BlockId(0)), free.take(BlockId(1))] == [0, 1, 2]


@given(
    size=st.integers(1, 20),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 19)), max_size=80),
)
@settings(max_examples=150, deadline=None)
def test_any_order_keeps_the_runs_right(size: int, changes: list[tuple[bool, int]]) -> None:
    free = FreeBlocks(size)
    held: list[BlockId] = []
    for takes, choice in changes:
        if takes and len(free) > 0:
            behind = held[choice % len(held)] if held else None
            expects = behind is not None and behind + 1 in free.blocks()
            block = free.take(behind)
            assert block not in held
            assert not expects or (behind is not None and block == behind + 1)
            held.append(block)
        elif held:
            free.add(held.pop(choice % len(held)))
        free.check()
        assert free.blocks() == set(range(size)) - set(held)
