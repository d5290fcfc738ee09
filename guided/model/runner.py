"""Running a model of transformers on step batches."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from guided.kv.storage import SequenceStorage
from guided.model.attention import PackedAttention
from guided.model.batch import StepBatch
from guided.model.probe import probe_model

__all__ = ["ModelRunner"]


class ModelRunner:
    """A model behind one call: a step batch in, the logits it asks for out."""

    def __init__(self, module: PreTrainedModel, *, vocabulary_size: int) -> None:
        module.train(mode=False)
        self._module = module
        self._vocabulary_size = vocabulary_size
        self._shape = probe_model(module)

    def open_storage(self, capacity: int) -> SequenceStorage:
        """Memory for the keys and values of one sequence of at most ``capacity`` rows."""
        shape = self._shape
        return SequenceStorage(shape.layers, capacity, dtype=shape.dtype, device=shape.device)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """The logits of ``batch.logits_rows``, ``[rows, vocabulary]``, in float32 on the CPU."""
        shape = self._shape
        with torch.inference_mode():
            step = PackedAttention(batch, shape.windows, dtype=shape.dtype, device=shape.device)
            output = self._module(
                input_ids=torch.tensor([batch.tokens], device=shape.device),  # [1, tokens]
                position_ids=torch.tensor([batch.positions], device=shape.device),  # [1, tokens]
                logits_to_keep=torch.tensor(
                    batch.logits_rows, dtype=torch.long, device=shape.device
                ),
                use_cache=False,
                guided_step=step,
            )
            return self._fit(output.logits[0].float().cpu())

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Cut or widen logits to the vocabulary; models often pad theirs to a round width."""
        missing = self._vocabulary_size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self._vocabulary_size]
        return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
