"""The blocks of one sequence in one group of layers.

Rows of a table with blocks of 4, 6 rows committed and 5 reserved; the slots of the rows in the
pool differ from their positions in the sequence::

    position   0  1  2  3 | 4  5  6  7 | 8  9 10  _
    slot      20 21 22 23 |24 25 26 27 | 8  9 10 11
              committed         | reserved      | spare

A commit keeps some of the reserved rows, in order, after the committed ones, and releases blocks
that are left without a row. See docs/paged-kv.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from guided.kv.block_pool import BlockId, BlockPool, blocks_before_window
from guided.kv.reservation import Reservation, SlotCopies

__all__ = ["BlockTable"]


class BlockTable:
    """Where the rows of a sequence are; holds its blocks until they are released."""

    __slots__ = (
        "_blocks",
        "_committed",
        "_num_dropped",
        "_pool",
        "_reserved",
        "_slots",
        "window",
    )

    def __init__(self, pool: BlockPool, window: int | None = None) -> None:
        self._pool = pool
        self.window = window
        """The number of positions that a token sees, including its own; ``None``: all before it."""
        self._blocks: list[BlockId] = []
        self._num_dropped = 0
        """Leading blocks that were released because they are before the window."""
        self._committed = 0
        self._reserved = 0
        self._slots = np.empty(4 * pool.block_size, np.int64)
        """The slot of every position that a block was ever held for."""

    @property
    def blocks(self) -> tuple[BlockId, ...]:
        """The blocks held, in the order of their positions."""
        return tuple(self._blocks)

    @property
    def block_size(self) -> int:
        """Slots of a block."""
        return self._pool.block_size

    @property
    def start(self) -> int:
        """The first position that is still held."""
        return self._num_dropped * self._pool.block_size

    @property
    def committed(self) -> int:
        """Rows that belong to the sequence for good, including those that the window has passed."""
        return self._committed

    @property
    def reserved(self) -> int:
        """Rows set aside until the next commit."""
        return self._reserved

    @property
    def spare(self) -> int:
        """Slots held without a row in them."""
        return self._end - self._committed - self._reserved

    @property
    def held_slots(self) -> int:
        """Slots of the blocks held."""
        return self._end - self.start

    def slots(self) -> NDArray[np.int64]:
        """Slots of the committed rows still held, ``[committed - start]``; a view."""
        return self._slots[self.start : self._committed]

    def block_at(self, index: int) -> BlockId:
        """Return the block of positions ``index * block_size`` and on."""
        return self._blocks[index - self._num_dropped]

    def blocks_needed(self, count: int) -> int:
        """Return how many blocks ``reserve(count)`` would allocate."""
        missing = self._committed + count - self._end
        return max(0, -(-missing // self._pool.block_size)) + self._writes_shared(count)

    def can_reserve(self, count: int) -> bool:
        """Whether the pool has the blocks for ``count`` more rows."""
        return self.blocks_needed(count) <= self._pool.num_available

    def require(self, count: int) -> None:
        """Raise ``OutOfMemoryError`` unless ``reserve(count)`` would succeed."""
        self._pool.require(self.blocks_needed(count))

    def reserve(self, count: int) -> Reservation:
        """Set aside the next ``count`` rows; the committed length does not change.

        A last block that has room but is shared is copied first. Raises ``OutOfMemoryError`` and
        takes nothing if the pool has too few blocks.
        """
        assert self._reserved == 0, f"{self._reserved} rows are reserved already"
        self.require(count)
        copies = self._copy_shared_last() if self._writes_shared(count) else SlotCopies.none()
        while self._end < self._committed + count:
            self._append(self._pool.allocate())
        self._reserved = count
        return Reservation(
            start=self.start,
            seen=self._slots[self.start : self._committed + count],
            count=count,
            copies=copies,
        )

    def commit(self, kept: Sequence[int]) -> SlotCopies:
        """Keep the reserved rows with these offsets, in order, and release all others.

        Offsets 0, 1, 3 of a reservation at 10 → rows 10, 11, 13 → row 13 is copied to 12. The
        copies have to be made before anything else is written.
        """
        assert len(kept) < 2 or all(a < b for a, b in pairwise(kept)), f"unordered rows {kept!r}"
        assert not kept or (kept[0] >= 0 and kept[-1] < self._reserved), (
            f"rows {kept!r} are not all among the {self._reserved} reserved"
        )
        copies = self._gap_closing_copies(kept)
        self._committed += len(kept)
        self._reserved = 0
        while self._end - self._committed >= self._pool.block_size:
            self._pool.release(self._blocks.pop())
        return copies

    def adopt(self, blocks: Sequence[BlockId], *, first: int = 0) -> None:
        """Fill an empty table with full blocks found elsewhere, after ``first`` missing ones."""
        assert not self._blocks and self._committed == 0, "only an empty table adopts blocks"
        self._num_dropped = first
        for block in blocks:
            self._pool.hold(block)
            self._append(block)
        self._committed = self._end

    def fork(self) -> BlockTable:
        """Return another table with the same rows, which shares all blocks."""
        assert self._reserved == 0, f"a table with {self._reserved} reserved rows is not forked"
        twin = BlockTable(self._pool, self.window)
        for block in self._blocks:
            self._pool.hold(block)
        twin._blocks = self._blocks.copy()
        twin._num_dropped = self._num_dropped
        twin._committed = self._committed
        twin._slots = self._slots.copy()
        return twin

    def release_before_window(self) -> None:
        """Release the blocks that no later token can see."""
        passed = blocks_before_window(self._committed, self.window, self._pool.block_size)
        while self._num_dropped < passed:
            self._pool.release(self._blocks.pop(0))
            self._num_dropped += 1

    def release(self) -> None:
        """Release all blocks, the last one first; the table is empty then.

        So the beginning, which more sequences may share, is cached longest.
        """
        while self._blocks:
            self._pool.release(self._blocks.pop())
        self._num_dropped = self._committed = self._reserved = 0

    def check(self) -> None:
        """Raise unless blocks, rows and slots agree, and no row is reserved in a shared block."""
        size = self._pool.block_size
        rows = self._committed + self._reserved
        assert min(self._committed, self._reserved, self._num_dropped) >= 0, "counts below 0"
        assert 0 <= self.spare < size, f"{self._end} positions held for {rows} rows"
        expected = [block * size + row for block in self._blocks for row in range(size)]
        assert self._slots[self.start : self._end].tolist() == expected, "slots are not the blocks'"
        passed = blocks_before_window(self._committed, self.window, size)
        assert self._num_dropped <= passed, (
            f"{self._num_dropped} blocks dropped, {passed} before the window"
        )
        for block in self._blocks if self._reserved else ():
            written = self._blocks.index(block) + self._num_dropped >= self._committed // size
            assert not written or self._pool.references(block) == 1, f"block {block} is shared"

    @property
    def _end(self) -> int:
        """The position after the last slot held."""
        return (self._num_dropped + len(self._blocks)) * self._pool.block_size

    def _writes_shared(self, count: int) -> bool:
        return (
            count > 0
            and self._end > self._committed
            and self._pool.references(self._blocks[-1]) > 1
        )

    def _gap_closing_copies(self, kept: Sequence[int]) -> SlotCopies:
        """Return the copies that close the gaps between reserved rows with these offsets."""
        if not kept or kept[-1] == len(kept) - 1:
            return SlotCopies.none()
        offsets = np.asarray(kept, np.int64)
        targets = np.arange(len(offsets))
        moved = offsets != targets
        rows = self._slots[self._committed :]
        return SlotCopies(rows[offsets[moved]], rows[targets[moved]])

    def _copy_shared_last(self) -> SlotCopies:
        """Replace the shared last block by a new one; return the copies of its rows."""
        first = self._end - self._pool.block_size
        sources = self._slots[first : self._committed].copy()
        shared = self._blocks.pop()
        self._append(self._pool.allocate())
        self._pool.release(shared)
        return SlotCopies(sources, self._slots[first : self._committed].copy())

    def _append(self, block: BlockId) -> None:
        """Hold one more block, whose slots are those of the next ``block_size`` positions."""
        size, first = self._pool.block_size, self._end
        if first + size > len(self._slots):
            larger = np.empty(max(2 * len(self._slots), first + size), np.int64)
            larger[: len(self._slots)] = self._slots
            self._slots = larger
        self._slots[first : first + size] = np.arange(block * size, (block + 1) * size)
        self._blocks.append(block)
