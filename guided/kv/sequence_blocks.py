"""The blocks of one sequence in all groups of layers, which change together or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from guided.kv.block_pool import BlockId
from guided.kv.block_table import BlockTable
from guided.kv.prefix_cursor import PrefixCursor
from guided.kv.recurrence import Recurrence
from guided.kv.reservation import Reservation, SlotCopies
from guided.spec import TokenId

__all__ = ["SequenceBlocks"]


class SequenceBlocks:
    """One table for each group of layers; opened by a ``BlockCache`` and ended by ``release``.

    Tuples that its methods return have one entry for each group. Copies have to be made in the
    order in which they are handed out, and before any new row is written.
    """

    __slots__ = ("_opened", "_opening_length", "cursor", "recurrence", "tables")

    def __init__(
        self,
        tables: Sequence[BlockTable],
        cursor: PrefixCursor | None,
        opened: set[SequenceBlocks],
        recurrence: Recurrence,
        opening_length: int = 0,
    ) -> None:
        """``opening_length`` is the length of the text when it was opened; later rows are new."""
        self.tables = tuple(tables)
        """One for each group of layers."""
        self.cursor = cursor
        """The sequence's place in the prefix index; ``None`` if nothing is reused."""
        self.recurrence = recurrence
        """The state of recurrent layers, if the model has any."""
        self._opened = opened
        self._opening_length = opening_length
        opened.add(self)

    @property
    def committed(self) -> int:
        """Rows that belong to the sequence for good, including those that a window has passed."""
        return self.tables[0].committed

    @property
    def reserved(self) -> int:
        """Rows set aside until the next commit."""
        return self.tables[0].reserved

    def can_reserve(self, count: int) -> bool:
        """Whether every group has the blocks for ``count`` more rows."""
        return all(table.can_reserve(count) for table in self.tables)

    def reserve(self, count: int) -> tuple[Reservation, ...]:
        """Set aside the next ``count`` rows in every group.

        Raises ``OutOfMemoryError``, and takes nothing anywhere, if one group has too few blocks.
        """
        for table in self.tables:
            table.require(count)
        return tuple([table.reserve(count) for table in self.tables])

    def commit(self, kept: Sequence[int], tokens: Sequence[TokenId]) -> tuple[SlotCopies, ...]:
        """Keep the reserved rows with these offsets, in order, and release all others.

        ``tokens`` are those of the kept rows. The prefix index learns full blocks; blocks before a
        window are released.
        """
        assert len(kept) == len(tokens), f"{len(kept)} rows kept for {len(tokens)} tokens"
        copies = tuple([table.commit(kept) for table in self.tables])
        checkpoint = self.recurrence.commit(kept)
        if self.cursor is not None:
            self.cursor.extend(tokens, self._blocks_at)
            if checkpoint is not None:
                is_added = checkpoint.length > self._opening_length
                self.cursor.remember(checkpoint, replacing=is_added)
        for table in self.tables:
            table.release_before_window()
        return copies

    def checkpoint(self, trunk_length: int) -> int:
        """Return after how many of the next ``trunk_length`` tokens to remember the state.

        0 is for never. It is the end of the last full block. A few tokens are not worth a cut.
        """
        if self.cursor is None or not self.cursor.keeps_states:
            return 0
        rest = (self.committed + trunk_length) % self.tables[0].block_size
        whole = trunk_length - rest
        return whole if rest == 0 or whole >= self.tables[0].block_size else 0

    def fork(self) -> SequenceBlocks:
        """Return another sequence with the same rows, which shares all blocks until it writes."""
        tables = [table.fork() for table in self.tables]
        cursor = None if self.cursor is None else self.cursor.fork()
        recurrence = Recurrence(self.recurrence.state)
        return SequenceBlocks(tables, cursor, self._opened, recurrence, self._opening_length)

    def release(self) -> None:
        """Release everything, including reserved rows; the sequence must not be used any more."""
        assert self in self._opened, "these blocks were released before"
        self._opened.remove(self)
        for table in self.tables:
            table.release()
        if self.cursor is not None:
            self.cursor.close()

    def check(self) -> None:
        """Raise unless tables agree with each other, and known blocks with the sequence's text."""
        for table in self.tables:
            table.check()
            assert (table.committed, table.reserved) == (self.committed, self.reserved), (
                "the tables of a sequence have moved apart"
            )
        self.recurrence.check(self.committed)
        if self.cursor is None:
            return
        assert self.cursor.num_tokens == self.committed, (
            f"{self.cursor.num_tokens} tokens are known of {self.committed} rows"
        )

    def _blocks_at(self, index: int) -> tuple[BlockId, ...]:
        return tuple(table.block_at(index) for table in self.tables)
