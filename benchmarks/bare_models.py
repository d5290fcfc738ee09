"""Runs one text through a model, by transformers or by our own forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.cpu import CpuDecoder, LayerCache, WeightFormat, take_decoder
from guided.model.load import load_model, load_stored_decoder
from guided.model.model_files import ModelFiles, find_stored
from guided.model.runner import ModelRunner
from guided.model.visible import VisibleSlots
from guided.spec import TokenId

__all__ = [
    "Ours",
    "OursText",
    "Paged",
    "PagedText",
    "Text",
    "Theirs",
    "TheirsText",
    "chain",
    "open_ours",
    "open_paged",
    "open_theirs",
]


class Text(Protocol):
    """A text that grows."""

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits after each of the next tokens, ``[tokens, vocabulary]``."""
        ...


class Theirs:
    """A module of transformers with its usual attention."""

    def __init__(self, module: PreTrainedModel) -> None:
        self.module: Any = module

    def open(self) -> TheirsText:
        return TheirsText(self.module)


class TheirsText:
    def __init__(self, module: Any) -> None:
        self._module = module
        self._cache = DynamicCache(config=module.config)

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            output = self._module(input_ids=torch.tensor([tokens]), past_key_values=self._cache)
        logits: torch.Tensor = output.logits[0].float()
        return logits


class Ours:
    """Our own decoder over a cache with this many slots."""

    def __init__(self, decoder: CpuDecoder, config: Any, *, dtype: torch.dtype, slots: int) -> None:
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

        def rows() -> torch.Tensor:
            return torch.zeros(slots, config.num_key_value_heads, size, dtype=dtype)

        self.decoder = decoder
        self.cache = [LayerCache.of(rows(), rows()) for _ in decoder.windows]

    def open(self) -> OursText:
        return OursText(self)


class OursText:
    """The only text in its cache."""

    def __init__(self, model: Ours) -> None:
        self._model = model
        self._length = 0

    def extend(self, tokens: Sequence[int], last: int | None = None) -> torch.Tensor:
        """Return the logits after the next tokens, or after only the ``last`` of them."""
        new = len(tokens)
        positions = np.arange(self._length, self._length + new)
        seen = {
            window: [chain(self._length, new, window=window)]
            for window in self._model.decoder.windows
        }
        self._length += new
        return self._model.decoder.forward(
            np.array(tokens), positions, seen, self._model.cache, range(new - (last or new), new)
        )


class Paged:
    """A module of transformers over our paged cache, stored as int8, with this many slots."""

    def __init__(self, module: PreTrainedModel, *, slots: int) -> None:
        vocabulary = int(module.config.get_text_config().vocab_size)
        self.runner = ModelRunner(module, vocabulary_size=vocabulary, quantise_cache=True)
        self._groups = [LayerGroup(slots, window) for window in self.runner.windows]
        self.runner.open_storages([slots for _ in self._groups])

    def open(self) -> PagedText:
        return PagedText(self.runner, BlockCache(self._groups, 1, reuse_prefixes=False).open())


class PagedText:
    """The only text in its cache."""

    def __init__(self, runner: ModelRunner, blocks: SequenceBlocks) -> None:
        self._runner = runner
        self._blocks = blocks

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        new = range(len(tokens))
        segment = Segment(
            num_committed=self._blocks.committed,
            reservations=self._blocks.reserve(len(new)),
            tokens=tuple(map(TokenId, tokens)),
            depths=tuple(new),
            ancestors=None,
            nodes_needing_logits=tuple(new),
        )
        logits = self._runner.forward(StepBatch((segment,))).logits
        self._blocks.commit(new, segment.tokens)
        return logits


def chain(
    committed: int, new: int, *, window: int | None = None, first_slot: int = 0
) -> VisibleSlots:
    """Return new tokens in sequence, in consecutive slots."""
    rows = committed + new
    sees = np.tri(new, rows, committed, dtype=np.bool_)
    if window is not None:
        sees &= ~np.tri(new, rows, committed - window, dtype=np.bool_)
    return VisibleSlots(np.arange(first_slot, first_slot + rows), sees)


def open_theirs(name: str | None, dtype: torch.dtype) -> Theirs:
    return Theirs(load_model(name, dtype=dtype).module.requires_grad_(False))


def open_paged(name: str | None, dtype: torch.dtype, *, slots: int) -> Paged:
    return Paged(load_model(name, dtype=dtype).module.requires_grad_(False), slots=slots)


def open_ours(name: str | None, weight_format: WeightFormat, *, slots: int) -> Ours:
    """Open our decoder; the cache is bf16 unless the weights are fp32."""
    is_exact = weight_format is WeightFormat.FP32
    dtype = torch.float32 if is_exact else torch.bfloat16
    module = load_model(name, dtype=dtype).module.requires_grad_(False)
    return Ours(take_decoder(module, weight_format), module.config, dtype=dtype, slots=slots)


def open_stored(name: str | None, *, slots: int) -> Ours:
    """Open a GGUF file with its weights as stored; the cache is bf16."""
    files = find_stored(name)
    if not isinstance(files, ModelFiles):
        raise SystemExit(f"{name}: {files or 'no GGUF file'}")
    return Ours(load_stored_decoder(files), files.config, dtype=torch.bfloat16, slots=slots)
