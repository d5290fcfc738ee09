"""A pool counts the holders of a block, and caches blocks that can be looked up."""

from __future__ import annotations

import pytest

from guided.errors import OutOfMemoryError
from guided.kv.block_pool import BlockId, BlockPool


class Known(set[BlockId]):
    """The test's own record of the known blocks, and of those that gave way."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[BlockId] = []

    def blocks(self) -> frozenset[BlockId]:
        return frozenset(self)

    def forget(self, block: BlockId) -> None:
        self.remove(block)
        self.forgotten.append(block)


def counts(pool: BlockPool) -> tuple[int, int, int]:
    pool.check()
    return pool.num_free, pool.num_cached, pool.num_held


def test_a_block_is_free_when_the_last_lets_go() -> None:
    pool = BlockPool(4, 16)
    block = pool.allocate()
    pool.hold(block)
    pool.release(block)
    assert counts(pool) == (3, 0, 1)
    pool.release(block)
    assert counts(pool) == (4, 0, 0)


def test_the_block_released_last_is_used_again_first() -> None:
    pool = BlockPool(4, 16)
    blocks = [pool.allocate() for _ in range(3)]
    assert blocks == [0, 1, 2]
    pool.release(blocks[0])
    pool.release(blocks[2])
    assert [pool.allocate() for _ in range(3)] == [2, 0, 3]


def test_a_known_block_is_cached_and_can_be_revived() -> None:
    known = Known()
    pool = BlockPool(4, 16, known=known)
    block = pool.allocate()
    known.add(block)
    pool.release(block)
    assert counts(pool) == (3, 1, 0)
    pool.hold(block)
    assert counts(pool) == (3, 0, 1)
    assert known.forgotten == []


def test_the_cached_block_released_longest_ago_gives_way_first() -> None:
    known = Known()
    pool = BlockPool(3, 16, known=known)
    blocks = [pool.allocate() for _ in range(3)]
    known.update(blocks)
    for block in (blocks[1], blocks[2], blocks[0]):
        pool.release(block)
    pool.hold(blocks[1])
    pool.release(blocks[1])  # it is the latest now
    assert [pool.allocate() for _ in range(3)] == [blocks[2], blocks[0], blocks[1]]
    assert known.forgotten == [blocks[2], blocks[0], blocks[1]]
    assert counts(pool) == (0, 0, 3)


def test_a_full_pool_says_what_was_asked_and_what_is_left() -> None:
    pool = BlockPool(2, 16)
    pool.allocate()
    pool.allocate()
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate()
    assert str(caught.value) == ("blocks of 16 slots: 1 needed, but only 0 free and 0 cached of 2")
    assert counts(pool) == (0, 0, 2)


def test_holding_a_free_block_is_a_fault() -> None:
    pool = BlockPool(2, 16)
    with pytest.raises(AssertionError, match="holds nothing"):
        pool.hold(BlockId(1))


def test_releasing_twice_is_a_fault() -> None:
    pool = BlockPool(2, 16)
    block = pool.allocate()
    pool.release(block)
    with pytest.raises(AssertionError, match="not held"):
        pool.release(block)


def test_a_cached_block_that_nobody_knows_is_found() -> None:
    known = Known()
    pool = BlockPool(2, 16, known=known)
    block = pool.allocate()
    known.add(block)
    pool.release(block)
    known.clear()
    with pytest.raises(AssertionError, match="nobody knows"):
        pool.check()


def test_a_free_block_that_somebody_knows_is_found() -> None:
    known = Known()
    pool = BlockPool(2, 16, known=known)
    known.add(pool.allocate())
    pool.check()
    known.add(BlockId(1))
    with pytest.raises(AssertionError, match="looked up"):
        pool.check()
