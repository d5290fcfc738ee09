"""What one model call computes: the new tokens of all sequences, packed into one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from guided.kv.reservation import Reservation
from guided.spec import TokenId

__all__ = ["Segment", "SegmentOutput", "StepBatch", "StepOutput"]


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
    wants_states: bool = False
    """Whether the hidden states of all its tokens are wanted."""


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

    @property
    def states_rows(self) -> list[int]:
        """The packed tokens whose hidden states are wanted, in the order they come back."""
        return [
            row
            for start, segment in zip(self.starts, self.segments, strict=True)
            if segment.wants_states
            for row in range(start, start + len(segment.tokens))
        ]

    def new_slots(self, group: int) -> NDArray[np.int64]:
        """Where the packed tokens go in one group of layers, ``[tokens]``."""
        return np.concatenate([segment.rows[group].slots for segment in self.segments])


@dataclass(frozen=True, slots=True, eq=False)
class SegmentOutput:
    """What the model says to one segment."""

    logits: NDArray[np.float32]
    """``[deciding, vocabulary]``."""
    states: NDArray[np.float32]
    """What the head reads of each token, ``[tokens, size]``; no rows where nobody wants them."""


@dataclass(frozen=True, slots=True, eq=False)
class StepOutput:
    """What the model says to a step batch, in float32 on the CPU."""

    logits: torch.Tensor
    """``[rows, vocabulary]``, in the order of ``StepBatch.logits_rows``."""
    states: torch.Tensor
    """Of the last layer behind its norm, ``[rows, size]``, as ``StepBatch.states_rows``."""

    def split(self, segments: Sequence[Segment]) -> Iterator[SegmentOutput]:
        """The part of each segment of the batch."""
        counts = [len(segment.tokens) if segment.wants_states else 0 for segment in segments]
        logits = torch.split(self.logits, [len(segment.deciding) for segment in segments])
        for of_logits, of_states in zip(logits, torch.split(self.states, counts), strict=True):
            yield SegmentOutput(of_logits.numpy(), of_states.numpy())
