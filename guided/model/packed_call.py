"""The one way in which a module of transformers is called: with a packed row of several texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from guided.model.attention import AttentionStep, running
from guided.model.batch import StepBatch
from guided.model.recurrent import Mix, mixing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["call_packed"]


def call_packed(
    module: PreTrainedModel,
    batch: StepBatch,
    step: AttentionStep,
    device: torch.device,
    mix: Mix | None = None,
) -> Any:
    """Call a module with a batch; its output has ``logits`` for the rows that need them.

    The output has the hidden states of all layers and rows if the batch needs any. ``step``
    computes the attention, and ``mix`` the recurrent layers; ``device`` is that of the module's
    inputs.
    """
    with running(step), mixing(mix):
        return module(
            input_ids=torch.tensor([batch.tokens], device=device),  # [1, tokens]
            position_ids=torch.tensor([batch.positions], device=device),  # [1, tokens]
            logits_to_keep=torch.tensor(batch.logits_rows, dtype=torch.long, device=device),
            use_cache=False,
            # This returns the states of all layers, so they are requested only if needed.
            output_hidden_states=bool(batch.states_rows),
        )
