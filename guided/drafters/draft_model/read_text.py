"""What a draft model has read of one sequence, and the rows of its cache that hold it.

::

    committed                       reserved, some of them computed
    ────────────────────────────    ─────────────────────────────────────
    a beginning of the sequence     what was unread │ drafted, as a tree

The rows of a step stay reserved until the next step shows which of them the sequence has taken.
Those are then committed and not read again, whatever became of the others: drafts that were wrong
or given up, and an answer that starts over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from guided.kv.reservation import Reservation, SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment
from guided.spec import TokenId

__all__ = ["ReadText", "as_chain"]


class ReadText:
    """The tokens of one sequence that a draft model has read; holds its blocks until released."""

    def __init__(self, blocks: SequenceBlocks, tokens: Sequence[TokenId]) -> None:
        """``tokens`` are those whose rows the blocks already hold."""
        self.blocks = blocks
        self._tokens = list(tokens)
        self._depths: list[int] = []
        """For each computed row, how many of the step's tokens come before it."""
        self._children: dict[tuple[int | None, TokenId], int] = {}
        """The computed rows, by the row that each follows and its token."""
        self._reserved: tuple[Reservation, ...] = ()
        self._sees = np.empty((0, 0), np.bool_)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def room(self) -> int:
        """The number of reserved rows that are not computed yet."""
        return self.blocks.reserved - len(self._depths)

    def is_prefix_of(self, tokens: Sequence[TokenId]) -> bool:
        """Whether the text read is a proper prefix of these tokens."""
        return len(self) < len(tokens) and list(tokens[: len(self)]) == self._tokens

    def commit_taken(self, tokens: Sequence[TokenId]) -> tuple[SlotCopies, ...]:
        """Commit those rows of the last step that ``tokens``, the sequence now, has taken.

        Its last token always stays unread, because the logits after it are needed. Returns the
        copies to be made in the cache, by group of layers.
        """
        kept: list[int] = []
        row: int | None = None
        for token in tokens[len(self) : -1]:
            row = self._children.get((row, token))
            if row is None:
                break
            kept.append(row)
        taken = tokens[len(self) : len(self) + len(kept)]
        return self._commit(kept, taken)

    def forget_step(self) -> None:
        """Release the rows of a step that failed: their contents are unknown."""
        self._commit((), ())

    def reserve(self, count: int) -> tuple[SlotCopies, ...]:
        """Reserve the rows of a step; returns the copies to be made before they are written."""
        self._reserved = self.blocks.reserve(count)
        self._sees = np.zeros((count, count), np.bool_)
        return tuple([rows.copies for rows in self._reserved])

    def make_segment(
        self, tokens: Iterable[tuple[int | None, TokenId]], nodes_needing_logits: tuple[int, ...]
    ) -> Segment:
        """Make the segment of a model call that computes the next reserved rows.

        ``tokens`` come each with the row that it follows; ``None`` is the committed text.
        ``nodes_needing_logits`` are the indices, within this call, of those whose are needed.
        """
        first = len(self._depths)
        new = []
        for row, (parent, token) in enumerate(tokens, first):
            if parent is not None:
                self._sees[row] = self._sees[parent]
            self._sees[row, row] = True
            self._depths.append(0 if parent is None else self._depths[parent] + 1)
            # Two tokens of the target may begin with the same token of a draft model.
            self._children.setdefault((parent, token), row)
            new.append(token)
        last = first + len(new)
        return Segment(
            reservations=tuple([rows.part(first, last) for rows in self._reserved]),
            num_committed=len(self),
            tokens=tuple(new),
            depths=tuple(self._depths[first:]),
            ancestors=self._sees[first:last, :last],
            nodes_needing_logits=nodes_needing_logits,
            earlier_depths=tuple(self._depths[:first]),
        )

    def check(self) -> None:
        """Raise unless tokens and rows agree."""
        assert len(self) == self.blocks.committed, (
            f"{len(self)} tokens read, {self.blocks.committed} rows committed"
        )
        assert len(self._children) <= len(self._depths) <= self.blocks.reserved, (
            f"{len(self._children)} tokens, {len(self._depths)} rows of {self.blocks.reserved}"
        )

    def _commit(self, kept: Sequence[int], taken: Sequence[TokenId]) -> tuple[SlotCopies, ...]:
        copies = self.blocks.commit(kept, taken)
        self._tokens += taken
        self._depths.clear()
        self._children.clear()
        return copies


def as_chain(tokens: Sequence[TokenId]) -> list[tuple[int | None, TokenId]]:
    """Return tokens after the committed text, each with the row that it follows."""
    return [(row - 1 if row else None, token) for row, token in enumerate(tokens)]
