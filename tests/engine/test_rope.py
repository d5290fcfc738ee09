"""Texts end where the frequencies of their positions would begin to depend on their length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config, PretrainedConfig

from guided.errors import RequestError
from guided.model.model_files import longest_text
from guided.spec import GenerationRequest
from tests.engine.architectures import CONFIGS, SHAPE
from tests.engine.finite_language import END_IDS, TOKEN_BYTES
from tests.engine.tiny_models import answers, from_config, make_engine, render

_HALF = int(SHAPE["hidden_size"]) // int(SHAPE["num_attention_heads"]) // 2
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + n / 4 for n in range(_HALF)],
    "long_factor": [8.0] * _HALF,
    "original_max_position_embeddings": 48,
}
DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
STRETCHED: dict[str, tuple[PretrainedConfig, int]] = {
    "phi3 long": (
        Phi3Config(**SHAPE, original_max_position_embeddings=48, rope_parameters=LONGROPE),
        48,
    ),
    "llama long": (LlamaConfig(**SHAPE, rope_parameters=LONGROPE), 48),
    "dynamic": (
        LlamaConfig(**SHAPE | {"max_position_embeddings": 48}, rope_parameters=DYNAMIC),
        48,
    ),
}


def generated(config: PretrainedConfig, prompt: str, count: int) -> tuple[int, ...]:
    ids = torch.tensor([render(prompt, None)])
    module: Any = model_of(config)
    output = module.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=sorted(END_IDS),
        suppress_tokens=list(range(len(TOKEN_BYTES), 288)),
    )
    tokens = output[0, ids.shape[1] :].tolist()
    return tuple(token for token in tokens if token not in END_IDS)


def model_of(config: PretrainedConfig) -> Any:
    torch.manual_seed(0)
    model = from_config(type(config)(**config.to_dict()))
    torch.nn.Module.to(model, dtype=torch.float64)
    return model


@pytest.mark.parametrize(("config", "limit"), STRETCHED.values(), ids=STRETCHED)
def test_texts_end_where_their_frequencies_would_change(
    config: PretrainedConfig, limit: int
) -> None:
    """Up to there each text equals ``generate()`` alone, whatever else is in the batch."""
    prompts = {
        prompt: limit - len(render(prompt, None))
        for prompt in ("x", "hello name", "abcabcabc the lazy dog")
    }
    engine = make_engine(model_of(config), context_window=512, step_tokens=16, max_batch=3)
    assert engine.context_window == limit
    results = answers(
        engine,
        {
            prompt: GenerationRequest(prompt=prompt, max_tokens=count)
            for prompt, count in prompts.items()
        },
    )
    assert {prompt: result.tokens for prompt, result in results.items()} == {
        prompt: generated(config, prompt, count) for prompt, count in prompts.items()
    }
    with pytest.raises(RequestError, match=f"the context window holds {limit}"):
        engine.submit("long", GenerationRequest(prompt="x" * (limit - 10), max_tokens=11))


def test_the_shorter_of_several_limits_counts() -> None:
    layers = {"full_attention": LONGROPE, "sliding_attention": DYNAMIC | {"rope_theta": 1e3}}
    config = Gemma3TextConfig(**SHAPE, head_dim=8)
    config.rope_parameters = layers
    assert longest_text(config) == 48


@pytest.mark.parametrize("architecture", ["llama", "llama_scaled_rope", "gemma3_sliding", "gpt2"])
def test_other_positions_set_no_limit(architecture: str) -> None:
    assert longest_text(CONFIGS[architecture]) is None
