"""Which blocks are free, as runs of neighbours.

A table that grows wants the block right behind its last one; a new table wants room to grow. So
free blocks are kept as runs, and a run is split in its middle: whoever holds the block before the
run can go on growing into its first half. ``#`` is held, ``.`` is free, ``N`` is handed out::

    ........ → N.......         the first table starts at the first block
    #....... → #...N...         the next one as far from it as can be
    ####N... → each grows in place until it meets the other

Runs are filed by the power of two below their length, so the longest (to a factor of two) is found
without a search. After Masmano et al., *TLSF: a new dynamic memory allocator for real-time
systems* (2004).
"""

from __future__ import annotations

from typing import NewType

__all__ = ["BlockId", "FreeBlocks"]

BlockId = NewType("BlockId", int)
"""A block's number in its pool."""


class FreeBlocks:
    """The free ones of ``num_blocks`` blocks, all free at first; every operation is O(1)."""

    __slots__ = ("_classes", "_count", "_lengths", "_occupied", "_starts")

    def __init__(self, num_blocks: int) -> None:
        self._lengths: dict[int, int] = {}
        """The length of each run, by its first block."""
        self._starts: dict[int, int] = {}
        """The first block of each run, by its last."""
        self._classes: list[dict[int, None]] = [{} for _ in range(num_blocks.bit_length() + 1)]
        """First blocks of runs, by the bit length of the runs' lengths."""
        self._occupied = 0
        """Bit ``i`` is set when class ``i`` has a run."""
        self._count = num_blocks
        self._put(0, num_blocks)

    def __len__(self) -> int:
        return self._count

    def take(self, behind: BlockId | None) -> BlockId:
        """Take the block right behind a held one if it is free, else one with room behind it."""
        assert self._count > 0, "no block is free"
        self._count -= 1
        if behind is not None and behind + 1 in self._lengths:
            start, place = behind + 1, 0
            length = self._lengths[start]
            self._drop(start, length)
        else:
            start, length = self._pop_long()
            place = length // 2 if start > 0 else 0
        self._put(start, place)
        self._put(start + place + 1, length - place - 1)
        return BlockId(start + place)

    def add(self, block: BlockId) -> None:
        """Take a block back; it joins the runs beside it."""
        first, length = int(block), 1
        if block - 1 in self._starts:
            first = self._starts[block - 1]
            self._drop(first, block - first)
            length += block - first
        if block + 1 in self._lengths:
            behind = self._lengths[block + 1]
            self._drop(block + 1, behind)
            length += behind
        self._put(first, length)
        self._count += 1

    def blocks(self) -> set[BlockId]:
        """All free blocks."""
        return {
            BlockId(block)
            for start, length in self._lengths.items()
            for block in range(start, start + length)
        }

    def check(self) -> None:
        """Raise unless the runs add up, do not touch, and are filed where they belong."""
        assert sum(self._lengths.values()) == self._count == len(self.blocks()), (
            f"runs {self._lengths} do not add up to {self._count} free blocks"
        )
        ends = {start + length - 1: start for start, length in self._lengths.items()}
        assert ends == self._starts, f"runs end at {self._starts}, not at {ends}"
        assert not any(end + 1 in self._lengths for end in ends), f"runs touch: {self._lengths}"
        for index, starts in enumerate(self._classes):
            assert bool(self._occupied >> index & 1) == bool(starts), f"class {index} is misfiled"
            for start in starts:
                assert self._lengths[start].bit_length() == index, f"run {start} is misfiled"
        assert sum(map(len, self._classes)) == len(self._lengths), "a run is filed nowhere"

    def _pop_long(self) -> tuple[int, int]:
        """Take out a run no shorter than half the longest."""
        start, _ = self._classes[self._occupied.bit_length() - 1].popitem()
        length = self._lengths[start]
        self._classes[length.bit_length()][start] = None
        self._drop(start, length)
        return start, length

    def _put(self, start: int, length: int) -> None:
        if length == 0:
            return
        self._lengths[start] = length
        self._starts[start + length - 1] = start
        self._classes[length.bit_length()][start] = None
        self._occupied |= 1 << length.bit_length()

    def _drop(self, start: int, length: int) -> None:
        del self._lengths[start]
        del self._starts[start + length - 1]
        index = length.bit_length()
        del self._classes[index][start]
        if not self._classes[index]:
            self._occupied &= ~(1 << index)
