"""The blocks of one group of layers: which are held, cached and free.

A block is *held* while tables refer to it. When the last one releases it, it is *free*, unless the
prefix index knows its contents: then it is *cached*, until a table holds it again or its place is
needed. Of the cached blocks, the one released longest ago gives way first. Always::

    free + cached + held = total

See docs/paged-kv.md.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NewType, Protocol

from guided.errors import OutOfMemoryError

__all__ = ["BlockId", "BlockPool", "KnownBlocks", "blocks_before_window"]

BlockId = NewType("BlockId", int)
"""A block's number in its pool."""


class KnownBlocks(Protocol):
    """The blocks whose contents the index knows, as a pool sees them."""

    def __contains__(self, block: BlockId) -> bool:
        """Whether the contents of a block are known, so that it is worth caching."""
        ...

    def blocks(self) -> frozenset[BlockId]:
        """Return all known blocks."""
        ...

    def forget(self, block: BlockId) -> None:
        """Forget the contents of a known block, which is evicted."""
        ...


class BlockPool:
    """A fixed number of blocks with reference counts; only counts, and touches no tensor.

    Every operation is O(1).
    """

    __slots__ = ("_cached", "_free", "_known", "_references", "block_size")

    def __init__(
        self, num_blocks: int, block_size: int, *, known: KnownBlocks | None = None
    ) -> None:
        assert num_blocks > 0 and block_size > 0, f"{num_blocks} blocks of {block_size} slots"
        self.block_size = block_size
        """Slots of a block; slot ``s`` is row ``s % block_size`` of block ``s // block_size``."""
        self._known = known
        self._references = [0] * num_blocks
        # A stack: the block released last is used again first, so that memory which no request has
        # needed so far is never touched.
        self._free = [BlockId(block) for block in reversed(range(num_blocks))]
        self._cached: OrderedDict[BlockId, None] = OrderedDict()
        """In the order of their release."""

    @property
    def num_blocks(self) -> int:
        """Blocks in all."""
        return len(self._references)

    @property
    def num_slots(self) -> int:
        """Slots in all."""
        return self.num_blocks * self.block_size

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that no table holds, but the prefix index knows."""
        return len(self._cached)

    @property
    def num_available(self) -> int:
        """Blocks that ``allocate`` could hand out: free or cached."""
        return len(self._free) + len(self._cached)

    @property
    def num_held(self) -> int:
        """Blocks that tables hold, each counted once."""
        return self.num_blocks - self.num_available

    def references(self, block: BlockId) -> int:
        """How many tables hold a block."""
        return self._references[block]

    def held_blocks(self) -> dict[BlockId, int]:
        """Return the blocks that tables hold, each with the number of its holders."""
        return {BlockId(block): count for block, count in enumerate(self._references) if count}

    def require(self, count: int) -> None:
        """Raise ``OutOfMemoryError`` unless ``count`` blocks could be allocated."""
        if count > self.num_available:
            raise OutOfMemoryError(
                f"blocks of {self.block_size} slots: {count} needed, but only {self.num_free} free "
                f"and {self.num_cached} cached of {self.num_blocks}"
            )

    def allocate(self) -> BlockId:
        """Hand out a block, held once; raises ``OutOfMemoryError`` when every block is held."""
        self.require(1)
        if not self._free:
            self._evict()
        block = self._free.pop()
        self._references[block] = 1
        return block

    def hold(self, block: BlockId) -> None:
        """Hold a block once more, or revive a cached one."""
        if self._references[block] == 0:
            assert block in self._cached, f"block {block} is free, so it holds nothing"
            del self._cached[block]
        self._references[block] += 1

    def release(self, block: BlockId) -> None:
        """Release one hold on a block; after the last it is cached if known, else free."""
        assert self._references[block] > 0, f"block {block} is not held"
        self._references[block] -= 1
        if self._references[block] > 0:
            return
        if self._known is not None and block in self._known:
            self._cached[block] = None
        else:
            self._free.append(block)

    def check(self) -> None:
        """Raise unless free + cached + held = total, and no block is two of them."""
        free = set(self._free)
        assert len(free) == len(self._free), f"a block is free twice: {self._free}"
        held = set(self.held_blocks())
        assert min(self._references) >= 0, f"negative references: {self._references}"
        assert len(free) + len(self._cached) + len(held) == self.num_blocks, (
            f"{len(free)} free + {len(self._cached)} cached + {len(held)} held "
            f"!= {self.num_blocks} blocks"
        )
        assert free.isdisjoint(self._cached) and free.isdisjoint(held), "a free block is in use"
        assert held.isdisjoint(self._cached), "a held block is up for eviction"
        known: frozenset[BlockId] = frozenset() if self._known is None else self._known.blocks()
        unknown = self._cached.keys() - known
        assert not unknown, f"blocks {unknown} are cached, but nobody knows what they hold"
        looked_up = free & known
        assert not looked_up, f"blocks {looked_up} are free, but their contents are looked up"

    def _evict(self) -> None:
        block, _ = self._cached.popitem(last=False)
        assert self._known is not None, f"block {block} is cached without an index"
        self._known.forget(block)
        self._free.append(block)


def blocks_before_window(num_tokens: int, window: int | None, block_size: int) -> int:
    """Count the leading blocks that no token after the first ``num_tokens`` can see.

    The next token, at position ``num_tokens``, sees ``window`` positions, including its own;
    with ``None`` it sees all. Window 4, blocks of 2, 7 tokens: it sees 4, 5, 6 and 7, so blocks 0
    and 1 are not needed::

        0 1 | 2 3 | 4 5 | 6 _
        not needed| seen
    """
    if window is None:
        return 0
    return max(0, num_tokens + 1 - window) // block_size
