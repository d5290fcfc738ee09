"""What the new tokens of one sequence attend to: slots of the cache, and an attention mask.

position   3  4  5 | 6  7  7        three new tokens, two of them drafted for position 7
slot      19 20 21 |22 23 40        ``slots``, window 4
6          x  x  x | x              ``mask``: the ancestors among the new tokens,
7             x  x | x  x           and of the tokens before them those in the window
7             x  x | x     x

A tree may be computed in several calls. Its earlier tokens then come before the new ones, and the
ancestors say which of them are seen as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.model.batch import Segment, StepBatch

__all__ = ["VisibleSlots", "attention_mask", "visible_slots"]


class VisibleSlots:
    """The slots of one sequence in one group of layers, and which of them each new token sees."""

    __slots__ = ("mask", "num_earlier", "slots")

    def __init__(
        self, slots: NDArray[np.int64], mask: NDArray[np.bool_], num_earlier: int = 0
    ) -> None:
        self.slots = slots
        """``[rows]``: those of earlier tokens, then those of the new ones."""
        self.mask = mask
        """Who sees which of them, ``[new, rows]``; every new token sees at least itself."""
        self.num_earlier = num_earlier
        """How many rows right before the new ones are of the same tree, so seen only by some."""

    @property
    def new_slots(self) -> NDArray[np.int64]:
        """Where the keys and values of the new tokens go, ``[new]``."""
        return self.slots[len(self.slots) - len(self.mask) :]


def visible_slots(batch: StepBatch, group: int, window: int | None) -> list[VisibleSlots]:
    """Return what the new tokens see in one group of layers, by segment."""
    return [
        VisibleSlots(
            segment.reservations[group].seen,
            attention_mask(segment, group, window),
            len(segment.earlier_depths),
        )
        for segment in batch.segments
    ]


def attention_mask(segment: Segment, group: int, window: int | None) -> NDArray[np.bool_]:
    """Return which rows of its reservation each new token of a segment sees, ``[new, rows]``."""
    rows = segment.reservations[group]
    depths = np.array((*segment.earlier_depths, *segment.depths))
    positions = np.concatenate(
        [np.arange(rows.start, segment.num_committed), segment.num_committed + depths]
    )
    new = len(segment.depths)
    mask = np.ones((new, len(positions)), dtype=np.bool_)
    among = np.tri(new, dtype=np.bool_) if segment.ancestors is None else segment.ancestors
    mask[:, len(positions) - len(depths) :] = among
    if window is not None:
        mask &= positions[-new:, None] - positions[None, :] < window
    return mask
