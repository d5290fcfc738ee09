"""The bookkeeping of a model's key/value cache: pools, prefix index and the open sequences.

A model has one group of layers for each attention window it uses. Groups differ in how far back
they have to remember, so each has blocks of its own; positions are the same in all. See
docs/paged-kv.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guided.kv.block_pool import BlockId, BlockPool, blocks_before_window
from guided.kv.block_table import BlockTable
from guided.kv.prefix_cursor import PrefixCursor
from guided.kv.prefix_index import PrefixIndex
from guided.kv.recurrence import Recurrence
from guided.kv.sequence_blocks import SequenceBlocks
from guided.spec import TokenId

__all__ = ["BlockCache", "LayerGroup"]


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that see equally far back."""

    num_blocks: int
    """Blocks of the group's pool."""
    window: int | None = None
    """The number of positions that a token sees, including its own; ``None``: all before it."""


class BlockCache:
    """Hands out blocks to sequences; only counts, and touches no tensor."""

    def __init__(
        self,
        groups: Sequence[LayerGroup],
        block_size: int,
        *,
        reuse_prefixes: bool = True,
        num_states: int | None = None,
    ) -> None:
        """``num_states`` is how many states of recurrent layers are kept for beginnings of texts.

        ``None`` is for a model without recurrent layers.
        """
        assert groups, "a cache without layers"
        self.block_size = block_size
        """Slots of a block, the same in all groups."""
        self.groups = tuple(groups)
        self.index = (
            PrefixIndex(block_size, [group.window for group in groups], num_states)
            if reuse_prefixes
            else None
        )
        """Known beginnings; ``None`` if nothing is reused."""
        self.pools = tuple(
            BlockPool(
                group.num_blocks,
                block_size,
                known=None if self.index is None else self.index.groups[number],
            )
            for number, group in enumerate(groups)
        )
        """One for each group of layers."""
        self._opened: set[SequenceBlocks] = set()

    def open(self, tokens: Sequence[TokenId] = (), *, salt: str = "") -> SequenceBlocks:
        """Start a sequence with what is known of the beginning of ``tokens``.

        ``committed`` of the result says how many of them need not be computed; at least the last
        one has to be. ``salt`` names what keys depend on besides tokens. Never runs out of blocks.
        """
        tables = [
            BlockTable(pool, group.window)
            for pool, group in zip(self.pools, self.groups, strict=True)
        ]
        cursor, recurrence = None, Recurrence()
        if self.index is not None:
            cursor = PrefixCursor(self.index, self.block_size, salt)
            found = cursor.move_to_longest_prefix(tokens)
            for table, blocks in zip(tables, found, strict=True):
                table.adopt(blocks, first=cursor.depth - len(blocks))
            recurrence = Recurrence(cursor.state)
        return SequenceBlocks(tables, cursor, self._opened, recurrence, len(tokens))

    @property
    def num_open(self) -> int:
        """The number of sequences that were opened or forked and not released."""
        return len(self._opened)

    def max_tokens(self, step_tokens: int) -> int | None:
        """Return the most tokens that a sequence alone can reach in such steps; ``None``: any."""
        limits = [
            group.num_blocks * self.block_size
            for group in self.groups
            if group.window is None
            or group.num_blocks < _max_blocks(group.window - 1 + step_tokens, self.block_size)
        ]
        return min(limits, default=None)

    def check(self) -> None:
        """Raise unless pools, tables and index agree with each other."""
        for group, pool in enumerate(self.pools):
            pool.check()
            held: dict[BlockId, int] = {}
            for sequence in self._opened:
                for block in sequence.tables[group].blocks:
                    held[block] = held.get(block, 0) + 1
            counts = pool.held_blocks()
            assert counts == held, (
                f"group {group}: references {counts} are not those of the tables, {held}"
            )
        for sequence in self._opened:
            sequence.check()
            self._check_contents(sequence)
        if self.index is not None:
            self.index.check()

    def _check_contents(self, sequence: SequenceBlocks) -> None:
        """Raise unless blocks that a sequence holds are indexed, if at all, under its text."""
        if self.index is None or sequence.cursor is None:
            return
        path = sequence.cursor.path()
        for table, group in zip(sequence.tables, self.index.groups, strict=True):
            first = table.start // self.block_size
            for index, block in enumerate(table.blocks, first):
                node = group.nodes.get(block)
                assert node is None or (index < len(path) and node is path[index]), (
                    f"block {block} at index {index} is known for other tokens"
                )
            passed = blocks_before_window(table.committed, table.window, self.block_size)
            assert first == passed, f"{first} blocks given back, but {passed} are before the window"


def _max_blocks(positions: int, block_size: int) -> int:
    """Return the most blocks that ``positions`` neighbouring positions touch."""
    return (positions - 2) // block_size + 2 if positions > 1 else positions
