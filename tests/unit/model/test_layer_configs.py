"""The settings of layers in a config, also if each layer has its own."""

from __future__ import annotations

import pytest
from transformers import (
    DeepseekV3Config,
    Gemma3nTextConfig,
    Gemma4TextConfig,
    GPT2Config,
    LlamaConfig,
    PretrainedConfig,
)

from guided.kv.layer_groups import LayerShape
from guided.model.layer_configs import inner_size, layer_shapes, layer_windows
from tests.engine.architectures import CONFIGS, SHAPE


def test_layers_are_alike_in_most_models() -> None:
    assert layer_shapes(CONFIGS["llama"]) == (LayerShape(2, 8, 8),) * 2
    assert layer_shapes(CONFIGS["gpt2"]) == (LayerShape(4, 8, 8),) * 2
    assert layer_shapes(CONFIGS["qwen3"]) == (LayerShape(2, 16, 16),) * 2


def test_layers_may_have_heads_of_their_own() -> None:
    """Gemma 4 has wider heads in layers with full attention; its config refuses a single size."""
    by_layer = {"per_layer_config": {1: {"head_dim": 32, "num_key_value_heads": 1}}}
    config = Gemma4TextConfig(
        **SHAPE | by_layer,
        head_dim=8,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
    )
    assert layer_shapes(config) == (LayerShape(2, 8, 8), LayerShape(1, 32, 32))
    assert layer_windows(config) == (6, None)


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (CONFIGS["llama"], (None, None)),
        (CONFIGS["mistral_sliding"], (7, 7)),
        (CONFIGS["gemma3_sliding"], (6, None)),
    ],
)
def test_windows(config: PretrainedConfig, windows: tuple[int | None, ...]) -> None:
    assert layer_windows(config) == windows


@pytest.mark.parametrize(
    ("config", "size"),
    [
        (LlamaConfig(**SHAPE), 48),
        (GPT2Config(n_embd=32, n_layer=2, n_head=4), 128),
        (Gemma3nTextConfig(num_hidden_layers=5, intermediate_size=[64, 64, 96, 64, 64]), 96),
        (DeepseekV3Config(intermediate_size=77, num_hidden_layers=2), 77),
    ],
)
def test_the_widest_layer_counts(config: PretrainedConfig, size: int) -> None:
    assert inner_size(config) == size
