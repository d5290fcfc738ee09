"""Where the rows of a table are, what a commit moves, and what a fork copies."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.errors import OutOfMemoryError
from guided.kv.block_pool import BlockPool, blocks_before_window
from guided.kv.block_table import BlockTable
from guided.kv.reservation import SlotCopies


def table_with(pool: BlockPool, rows: int, window: int | None = None) -> BlockTable:
    table = BlockTable(pool, window)
    table.reserve(rows)
    table.commit(range(rows))
    return table


def pairs(copies: SlotCopies) -> list[tuple[int, int]]:
    return list(zip(copies.sources.tolist(), copies.targets.tolist(), strict=True))


def test_a_reservation_sees_the_committed_rows_and_the_new_ones() -> None:
    table = table_with(BlockPool(8, 4), 6)
    reservation = table.reserve(3)
    assert reservation.seen.tolist() == list(range(9))
    assert reservation.slots.tolist() == [6, 7, 8]
    assert reservation.start == 0
    assert len(reservation.copies) == 0
    assert table.slots().tolist() == list(range(6))


@pytest.mark.parametrize(
    ("kept", "moves"),
    [
        ([], []),
        ([0, 1, 2, 3, 4], []),
        ([0, 1, 3], [(5, 4)]),
        ([1, 2, 4], [(3, 2), (4, 3), (6, 4)]),
        ([4], [(6, 2)]),
    ],
)
def test_kept_rows_close_up_behind_the_committed_ones(
    kept: list[int], moves: list[tuple[int, int]]
) -> None:
    pool = BlockPool(8, 4)
    table = table_with(pool, 2)
    table.reserve(5)
    assert pairs(table.commit(kept)) == moves
    assert (table.committed, table.reserved) == (2 + len(kept), 0)
    assert pool.num_held == -(-table.committed // 4)
    table.check()


@pytest.mark.parametrize("kept", [[1, 0], [0, 0], [3], [-1]])
def test_rows_that_are_not_an_ascending_part_of_the_reservation_are_a_fault(
    kept: list[int],
) -> None:
    table = BlockTable(BlockPool(8, 4))
    table.reserve(3)
    with pytest.raises(AssertionError):
        table.commit(kept)


def test_tables_that_grow_side_by_side_keep_their_own_slots() -> None:
    pool = BlockPool(8, 2)
    tables = [BlockTable(pool), BlockTable(pool)]
    for _ in range(6):
        for table in tables:
            table.reserve(1)
            table.commit([0])
    assert [table.blocks for table in tables] == [(0, 2, 4), (1, 3, 5)]
    assert tables[0].slots().tolist() == [0, 1, 4, 5, 8, 9]
    twin = tables[0].fork()
    twin.check()
    assert twin.slots().tolist() == [0, 1, 4, 5, 8, 9]


def test_writing_into_a_shared_block_copies_its_rows_first() -> None:
    pool = BlockPool(8, 4)
    table = table_with(pool, 6)
    twin = table.fork()
    assert pool.num_held == 2
    assert table.blocks_needed(1) == 1
    reservation = table.reserve(1)
    own = table.blocks[1]
    assert pairs(reservation.copies) == [(4, own * 4), (5, own * 4 + 1)]
    assert reservation.slots.tolist() == [own * 4 + 2]
    assert twin.blocks == (0, 1)
    assert twin.blocks_needed(1) == 0  # the other one has left
    assert twin.reserve(1).slots.tolist() == [6]


def test_full_shared_blocks_are_never_copied() -> None:
    pool = BlockPool(8, 4)
    table = table_with(pool, 8)
    twin = table.fork()
    reservations = [table.reserve(2), twin.reserve(2)]
    assert [len(reservation.copies) for reservation in reservations] == [0, 0]
    assert table.blocks[:2] == twin.blocks[:2]
    assert table.blocks[2] != twin.blocks[2]


def test_a_reservation_that_does_not_fit_takes_nothing() -> None:
    pool = BlockPool(2, 4)
    table = table_with(pool, 3)
    twin = table.fork()
    with pytest.raises(OutOfMemoryError):
        table.reserve(6)  # a copy, and one more block
    assert (pool.num_free, pool.num_held) == (1, 1)
    assert pool.references(table.blocks[0]) == 2
    table.check()
    twin.check()
    table.reserve(1)


@pytest.mark.parametrize(
    ("tokens", "window", "size", "behind"),
    [
        (7, None, 2, 0),
        (7, 4, 2, 2),
        (6, 4, 2, 1),
        (3, 4, 2, 0),
        (4, 1, 4, 1),
        (3, 1, 4, 0),
        (1000, 512, 16, 30),
    ],
)
def test_blocks_behind_a_window(tokens: int, window: int | None, size: int, behind: int) -> None:
    assert blocks_before_window(tokens, window, size) == behind


def test_blocks_behind_the_window_are_given_back() -> None:
    pool = BlockPool(8, 2)
    table = table_with(pool, 7, window=4)
    table.release_before_window()
    assert (table.start, table.committed, table.blocks) == (4, 7, (2, 3))
    reservation = table.reserve(2)
    assert reservation.start == 4
    assert reservation.seen.tolist() == [4, 5, 6, 7, 2]  # in a block given back just before
    table.check()


def test_release_gives_everything_back() -> None:
    pool = BlockPool(8, 4)
    table = table_with(pool, 6)
    table.reserve(9)
    table.release()
    pool.check()
    assert (pool.num_free, table.blocks, table.committed) == (8, (), 0)


def test_slots_are_kept_while_a_table_grows() -> None:
    table = BlockTable(BlockPool(64, 2))
    expected: list[int] = []
    for _ in range(40):
        expected += slot_list(table.reserve(3).slots)
        table.commit(range(3))
        assert slot_list(table.slots()) == expected


def slot_list(slots: NDArray[np.int64]) -> list[int]:
    assert slots.dtype == np.int64
    return [int(slot) for slot in slots]
