"""The one way in which a module of transformers is called: a packed row of several texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from guided.model.attention import AttentionStep, running
from guided.model.batch import StepBatch
from guided.model.recurrent import Mix, mixing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["packed_call"]


def packed_call(
    module: PreTrainedModel,
    batch: StepBatch,
    step: AttentionStep,
    device: torch.device,
    mix: Mix | None = None,
) -> Any:
    """What a module returns for a batch, with ``logits`` for its deciding rows.

    Hidden states are among it where the batch asks for any. ``step`` computes the attention, and
    ``mix`` what recurrent layers do.
    """
    with running(step), mixing(mix):
        return module(
            input_ids=torch.tensor([batch.tokens], device=device),  # [1, tokens]
            position_ids=torch.tensor([batch.positions], device=device),  # [1, tokens]
            logits_to_keep=torch.tensor(batch.logits_rows, dtype=torch.long, device=device),
            use_cache=False,
            # All layers hand theirs out then, so that they are asked only where need be.
            output_hidden_states=bool(batch.states_rows),
        )
