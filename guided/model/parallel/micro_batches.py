"""Cuts a batch by its sequences, so that ranks in a line compute at the same time.

::

    rank 1    a  b                 micro-batches a and b of one call
    rank 0       a  b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from guided.model.batch import Segment, StepBatch, StepOutput

__all__ = ["FEWEST_TOKENS", "join_outputs", "micro_batches"]

FEWEST_TOKENS: Final = 64
"""The least tokens for which a call pays: each call reads all weights of its rank."""


def micro_batches(batch: StepBatch, stages: int) -> list[StepBatch]:
    """Cut a batch into parts of consecutive segments, one per stage, with about equal tokens.

    Fewer parts if they would be narrow, or if there are few segments. All ranks have to cut alike.
    """
    tokens = sum(len(segment.tokens) for segment in batch.segments)
    count = min(stages, len(batch.segments), tokens // FEWEST_TOKENS)
    if count < 2:
        return [batch]
    parts: list[list[Segment]] = [[] for _ in range(count)]
    before = 0
    for segment in batch.segments:
        # By the place of its middle in the row.
        middle = before + len(segment.tokens) / 2
        parts[int(middle * count / tokens)].append(segment)
        before += len(segment.tokens)
    return [StepBatch(tuple(part)) for part in parts if part]


def join_outputs(outputs: Sequence[StepOutput]) -> StepOutput:
    """Join the outputs for the parts of a batch."""
    if len(outputs) == 1:
        return outputs[0]
    return StepOutput(
        torch.cat([output.logits for output in outputs]),
        _rows([output.states for output in outputs]),
        _rows([output.taps for output in outputs]),
    )


def _rows(parts: list[torch.Tensor]) -> torch.Tensor:
    """Join the parts that have rows; return an empty part if none has."""
    wanted = [part for part in parts if len(part)]
    return torch.cat(wanted) if wanted else parts[0]
