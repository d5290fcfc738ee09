"""Small random models of each architecture, and their logits by transformers' own code."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from tests.engine.tiny_models import from_config

SHAPE: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}

CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "llama, tied embeddings": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "llama, biases": LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True),
    "llama, llama3 rope": LlamaConfig(**SHAPE, rope_parameters=_LLAMA3_ROPE),
    "llama, yarn rope": LlamaConfig(**SHAPE, rope_parameters=_YARN_ROPE),
    "llama, one key head": LlamaConfig(**(SHAPE | {"num_key_value_heads": 1})),
    "mistral, window": MistralConfig(**SHAPE, sliding_window=7),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE),
    "gemma3, windows": Gemma3TextConfig(
        **SHAPE,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=24,
    ),
}


def make_model(name: str) -> PreTrainedModel:
    """A new model, in float32, with norms and biases changed from their initial values."""
    return random_model(CONFIGS[name])


def random_model(config: PretrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    model = from_config(copy.deepcopy(config))
    model.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def own_logits(model: PreTrainedModel, tokens: NDArray[np.int64]) -> torch.Tensor:
    """The logits of every token of one text, by transformers and without any cache."""
    with torch.inference_mode():
        output: Any = model(input_ids=torch.from_numpy(tokens)[None], use_cache=False)
    logits: torch.Tensor = output.logits[0].float()
    return logits
