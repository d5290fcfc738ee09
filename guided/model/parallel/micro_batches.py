"""A batch cut by its sequences, so that ranks in a line compute at the same time.

::

    rank 1    a  b                 micro-batches a and b of one call
    rank 0       a  b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from guided.model.batch import Segment, StepBatch, StepOutput

__all__ = ["FEWEST_TOKENS", "joined", "micro_batches"]

FEWEST_TOKENS: Final = 64
"""Tokens for which a call pays: each reads all weights of its rank, whatever it computes."""


def micro_batches(batch: StepBatch, stages: int) -> list[StepBatch]:
    """A batch cut into parts of consecutive segments, one for each stage, with about equal tokens.

    Fewer parts where they would be narrow, or there are few segments. All ranks have to cut alike.
    """
    tokens = sum(len(segment.tokens) for segment in batch.segments)
    count = min(stages, len(batch.segments), tokens // FEWEST_TOKENS)
    if count < 2:
        return [batch]
    parts: list[list[Segment]] = [[] for _ in range(count)]
    before = 0
    for segment in batch.segments:
        # By where its middle lies in the row.
        middle = before + len(segment.tokens) / 2
        parts[int(middle * count / tokens)].append(segment)
        before += len(segment.tokens)
    return [StepBatch(tuple(part)) for part in parts if part]


def joined(outputs: Sequence[StepOutput]) -> StepOutput:
    """What the model says to a batch, of what it says to its parts."""
    if len(outputs) == 1:
        return outputs[0]
    return StepOutput(
        torch.cat([output.logits for output in outputs]),
        _rows([output.states for output in outputs]),
        _rows([output.taps for output in outputs]),
    )


def _rows(parts: list[torch.Tensor]) -> torch.Tensor:
    """Those of the parts of which any are wanted."""
    wanted = [part for part in parts if len(part)]
    return torch.cat(wanted) if wanted else parts[0]
