"""Running a model on step batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from guided.errors import ModelError
from guided.kv.layer_groups import window_groups
from guided.kv.layer_shape import LayerShape
from guided.kv.paged_storage import PagedStorage
from guided.kv.reservation import SlotCopies
from guided.model.attention import running
from guided.model.attention_kernel import AttentionKernel, best_kernel
from guided.model.batch import StepBatch, StepOutput
from guided.model.cpu import LayerCache, WeightFormat, take_decoder
from guided.model.packed_attention import PackedAttention
from guided.model.probe import ModelShape, probe_model
from guided.model.rope import longest_text
from guided.model.sight import seen_rows

__all__ = ["ModelRunner"]


class ModelRunner:
    """A model behind one call: a step batch in, the logits it asks for out.

    Its layers are in groups by the window of their attention, the widest first. With ``weights``
    the forward pass is our own (``guided.model.cpu``), which takes the weights out of ``module``
    and, with ``streams``, keeps matrices of int8 twice; raises ``ModelError`` where it cannot.
    Otherwise it is that of transformers, ``kernel`` computes its attention (``None``: the fastest
    that can run here), and the cache may be kept as int8 (``quantise_cache``).
    """

    def __init__(
        self,
        module: PreTrainedModel,
        *,
        vocabulary_size: int,
        weights: WeightFormat | None = None,
        streams: bool = True,
        kernel: AttentionKernel | None = None,
        quantise_cache: bool = False,
    ) -> None:
        if quantise_cache and weights is not None:
            raise ModelError(
                "our own forward pass on the CPU keeps keys and values as it computes them, not as "
                "int8",
                hint="leave the cache as it is, or let transformers compute the forward pass",
            )
        module.train(mode=False)
        self._module = module
        self._vocabulary_size = vocabulary_size
        self._shape = probe_model(module)
        self._longest_text = longest_text(module.config.get_text_config())
        self._kernel = kernel or best_kernel(self._shape.dtype, self._shape.device)
        self._is_cache_quantised = quantise_cache
        self._decoder = None if weights is None else take_decoder(module, weights, streams=streams)
        self._storages: dict[int | None, PagedStorage] = {}
        self._layer_caches: list[LayerCache] = []

    @property
    def windows(self) -> tuple[int | None, ...]:
        """By group, how many positions a token sees, its own among them; ``None`` is all."""
        return window_groups(self._shape.windows)

    @property
    def shape(self) -> ModelShape:
        """What the layers keep of a token, and how far they see."""
        return self._shape

    @property
    def cache_nbytes(self) -> int:
        """Memory that keys and values take."""
        return sum(storage.nbytes for storage in self._storages.values())

    @property
    def description(self) -> str:
        """What computes the calls, so far as their time depends on it."""
        own = "transformers" if self._decoder is None else "own"
        cache = "int8" if self._is_cache_quantised else "as computed"
        return f"forward {own}, attention {self._kernel.name}, cache {cache}"

    def context_window(self, wanted: int) -> int:
        """So many of the wanted tokens may a text have; see ``guided.model.rope``."""
        return wanted if self._longest_text is None else min(wanted, self._longest_text)

    def open_storages(self, num_slots: Sequence[int]) -> None:
        """Take the memory for so many slots of each group; what was stored before is lost."""
        self._storages = {
            window: PagedStorage(
                self._layers(window),
                slots,
                dtype=self._shape.dtype,
                device=self._shape.device,
                is_quantised=self._is_cache_quantised,
            )
            for window, slots in zip(self.windows, num_slots, strict=True)
        }
        if self._decoder is not None:
            self._layer_caches = [
                LayerCache.of(*self._storages[window].whole(layer))
                for layer, window in enumerate(self._shape.windows)
            ]

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows between slots, by group."""
        for storage, of_group in zip(self._storages.values(), copies, strict=True):
            storage.copy(of_group)

    def forward(self, batch: StepBatch) -> StepOutput:
        """The logits of ``batch.logits_rows``, and the hidden states of ``batch.states_rows``."""
        longest = max(batch.positions) + 1
        assert self.context_window(longest) == longest, f"a text of {longest} tokens"
        if self._decoder is None:
            return self._forward_of_transformers(batch)
        seen = {
            window: seen_rows(batch, group, window) for group, window in enumerate(self.windows)
        }
        tokens, positions = np.array(batch.tokens), np.array(batch.positions)
        states = self._decoder.states(tokens, positions, seen, self._layer_caches)
        logits = self._decoder.logits(states[np.array(batch.logits_rows, np.int64)])
        wanted = torch.from_numpy(states[np.array(batch.states_rows, np.int64)])
        return StepOutput(self._fit(logits), wanted)

    @torch.inference_mode()
    def _forward_of_transformers(self, batch: StepBatch) -> StepOutput:
        shape = self._shape
        step = PackedAttention(
            batch, self._storages, kernel=self._kernel, dtype=shape.dtype, device=shape.device
        )
        rows = torch.tensor(batch.logits_rows, dtype=torch.long, device=shape.device)
        with running(step):
            output = self._module(
                input_ids=torch.tensor([batch.tokens], device=shape.device),  # [1, tokens]
                position_ids=torch.tensor([batch.positions], device=shape.device),  # [1, tokens]
                logits_to_keep=rows,
                use_cache=False,
                # All layers hand theirs out then, so that they are asked only where need be.
                output_hidden_states=bool(batch.states_rows),
            )
        states = torch.empty(0, 0)
        if batch.states_rows:
            states = output.hidden_states[-1][0][batch.states_rows].float().cpu()
        return StepOutput(self._fit(output.logits[0].float().cpu()), states)

    def _layers(self, window: int | None) -> dict[int, LayerShape]:
        return {
            number: layer
            for number, (layer, its_window) in enumerate(
                zip(self._shape.layers, self._shape.windows, strict=True)
            )
            if its_window == window
        }

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Cut or widen logits to the vocabulary; models often pad theirs to a round width."""
        missing = self._vocabulary_size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self._vocabulary_size]
        return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
