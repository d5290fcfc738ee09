"""One text through a model, by transformers or by the forward pass of our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from guided.model.cpu import CpuDecoder, LayerCache, WeightFormat, take_decoder
from guided.model.load import load_model
from guided.model.seen_rows import SeenRows

__all__ = ["Ours", "OursText", "Text", "Theirs", "TheirsText", "chain", "open_ours", "open_theirs"]


class Text(Protocol):
    """A text that grows."""

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """The logits behind each of the next tokens, ``[tokens, vocabulary]``."""
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
    """A decoder of our own over a cache of so many slots."""

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

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        new = len(tokens)
        positions = np.arange(self._length, self._length + new)
        seen = {
            window: [chain(self._length, new, window=window)]
            for window in self._model.decoder.windows
        }
        self._length += new
        return self._model.decoder.forward(
            np.array(tokens), positions, seen, self._model.cache, range(new)
        )


def chain(committed: int, new: int, *, window: int | None = None, first_slot: int = 0) -> SeenRows:
    """New tokens one behind the other, in slots that count up."""
    rows = committed + new
    sees = np.tri(new, rows, committed, dtype=np.bool_)
    if window is not None:
        sees &= ~np.tri(new, rows, committed - window, dtype=np.bool_)
    return SeenRows(np.arange(first_slot, first_slot + rows), sees)


def open_theirs(name: str | None, dtype: torch.dtype) -> Theirs:
    return Theirs(load_model(name, dtype=dtype).module.requires_grad_(False))


def open_ours(name: str | None, weight_format: WeightFormat, *, slots: int) -> Ours:
    """The cache is of bf16, unless the weights are fp32."""
    is_exact = weight_format is WeightFormat.FP32
    dtype = torch.float32 if is_exact else torch.bfloat16
    module = load_model(name, dtype=dtype).module.requires_grad_(False)
    return Ours(take_decoder(module, weight_format), module.config, dtype=dtype, slots=slots)
