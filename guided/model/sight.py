"""Who sees whom: the rows of the cache that each new token of a segment attends to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.model.batch import Segment, StepBatch
from guided.model.seen_rows import SeenRows

__all__ = ["seen_rows", "sight"]


def seen_rows(batch: StepBatch, group: int, window: int | None) -> list[SeenRows]:
    """What the new tokens see in one group of layers, by segment."""
    return [
        SeenRows(segment.rows[group].seen, sight(segment, group, window))
        for segment in batch.segments
    ]


def sight(segment: Segment, group: int, window: int | None) -> NDArray[np.bool_]:
    """Which of the rows of its reservation each new token sees, ``[tokens, rows]``.

    Committed rows lie before all new ones; among the new ones the ancestors count::

        position   3  4  5 | 6  7  7        two guesses for position 7, window 4
        6          x  x  x | x
        7             x  x | x  x
        7             x  x | x     x
    """
    rows = segment.rows[group]
    depths = np.array(segment.depths)
    positions = np.concatenate(
        [np.arange(rows.start, segment.committed), segment.committed + depths]
    )
    new = len(depths)
    sees = np.ones((new, len(positions)), dtype=np.bool_)
    among = np.tri(new, dtype=np.bool_) if segment.ancestors is None else segment.ancestors
    sees[:, len(positions) - new :] = among
    if window is not None:
        sees &= positions[-new:, None] - positions[None, :] < window
    return sees
