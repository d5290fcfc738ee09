"""Random heads of every kind of shape, and a target to go with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from transformers import LlamaConfig

from guided.drafters.heads import EagleHead, EagleShape
from tests.engine.right_heads import LAYERS
from tests.engine.tiny_models import from_config

_PLAIN: Final = EagleShape(
    hidden_size=32,
    intermediate_size=48,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary_size=60,
    draft_vocabulary_size=60,
    target_hidden_size=32,
    taps=(1, 3, 5),
    max_positions=512,
)
EAGLE_SHAPES: Final = {
    "plain": _PLAIN,
    "reduced vocabulary": replace(_PLAIN, draft_vocabulary_size=20),
    "own embedding": replace(_PLAIN, has_embedding=True, norm_before_residual=True),
    "eagle 3.1": replace(_PLAIN, draft_vocabulary_size=20, fc_norm=True, norm_output=True),
    "qwen": replace(_PLAIN, has_head_norms=True, head_dim=16, norm_before_fc=True),
    "bias and scaled rope": replace(
        _PLAIN,
        attention_bias=True,
        rope={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
}


def random_eagle(shape: EagleShape, seed: int = 0) -> EagleHead:
    """A head with random weights and, for a reduced vocabulary, a random part of the tokens.

    If it reads the target's embedding, the caller has to provide that.
    """
    torch.manual_seed(seed)
    count, whole = shape.draft_vocabulary_size, shape.vocabulary_size
    ids = torch.randperm(whole)[:count].sort().values if count < whole else None
    head = EagleHead(shape, draft_ids=ids)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, mean=float(weight.dim() == 1), std=0.3)
    return head.requires_grad_(False).eval()


def save_target(folder: Path, shape: EagleShape) -> torch.Tensor:
    """Write a target that the head fits, and return its embedding."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.target_hidden_size,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=shape.max_positions,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    model = from_config(config)
    model.save_pretrained(folder)
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    return weight.detach()
