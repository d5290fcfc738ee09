"""What one model call computes: the new tokens of all sequences, packed into one row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.kv.reservation import Reservation
from guided.spec import TokenId

__all__ = ["Segment", "StepBatch"]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The new tokens of one sequence, and where their keys and values go."""

    rows: tuple[Reservation, ...]
    """By group of layers; the new tokens are the last rows of each."""
    committed: int
    """Tokens of the sequence that were computed before."""
    tokens: tuple[TokenId, ...]
    depths: tuple[int, ...]
    """How many of the new tokens lie before each, so its position is ``committed + depth``."""
    ancestors: NDArray[np.bool_] | None
    """Which new tokens each one sees, ``[tokens, tokens]``; ``None`` when they form a chain."""
    deciding: tuple[int, ...]
    """The tokens whose logits are wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """The segments of one model call, in the order of their tokens in the packed row.

    Two segments of 3 and 2 tokens, with 5 and 0 tokens committed::

        tokens     a  b  c | x  y
        positions  5  6  7 | 0  1
    """

    segments: tuple[Segment, ...]

    @property
    def tokens(self) -> list[TokenId]:
        """The packed row."""
        return [token for segment in self.segments for token in segment.tokens]

    @property
    def positions(self) -> list[int]:
        """The position of each packed token in its own sequence."""
        return [segment.committed + depth for segment in self.segments for depth in segment.depths]

    @property
    def starts(self) -> list[int]:
        """Where each segment starts in the packed row."""
        starts, start = [], 0
        for segment in self.segments:
            starts.append(start)
            start += len(segment.tokens)
        return starts

    @property
    def logits_rows(self) -> list[int]:
        """The packed tokens whose logits are wanted, in the order the logits come back."""
        return [
            start + node
            for start, segment in zip(self.starts, self.segments, strict=True)
            for node in segment.deciding
        ]

    def new_slots(self, group: int) -> NDArray[np.int64]:
        """Where the packed tokens go in one group of layers, ``[tokens]``."""
        return np.concatenate([segment.rows[group].slots for segment in self.segments])
