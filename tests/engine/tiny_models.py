"""Tiny random models of several architectures, and an engine around them."""

from __future__ import annotations

import copy
import json
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PhiConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from guided.engine.engine import Engine
from guided.engine.result import Finished
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import Constraint, GenerationResult, JsonSchema, Message, TokenId
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    make_vocabulary,
    spell_bytes,
)

LOGITS_WIDTH = 288
"""Wider than the vocabulary, as models often are."""

_SHAPE: dict[str, Any] = {
    "vocab_size": LOGITS_WIDTH,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": sorted(END_IDS),
    "bos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.5,
}

CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**_SHAPE),
    "mistral_sliding": MistralConfig(**_SHAPE, sliding_window=7, head_dim=8),
    "llama_one_key_head": LlamaConfig(**_SHAPE | {"num_key_value_heads": 1}),
    "llama_scaled_rope": LlamaConfig(
        **_SHAPE,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "qwen2": Qwen2Config(**_SHAPE),
    "qwen3": Qwen3Config(**_SHAPE, head_dim=16),
    "phi": PhiConfig(**_SHAPE | {"num_key_value_heads": 4}),
    "phi3": Phi3Config(**_SHAPE, sliding_window=9),
    "gemma2_soft_capped": Gemma2Config(
        **_SHAPE,
        head_dim=16,
        sliding_window=8,
        attn_logit_softcapping=2.0,
        query_pre_attn_scalar=16,
    ),
    "gemma3_sliding": Gemma3TextConfig(
        **_SHAPE,
        head_dim=16,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=16,
    ),
    "gpt2": GPT2Config(
        vocab_size=LOGITS_WIDTH,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=512,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.5,
    ),
}


def make_model(
    architecture: str = "llama", *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> PreTrainedModel:
    torch.manual_seed(seed)
    # The engine changes the attention in a model's config, so every model has its own.
    config = copy.deepcopy(CONFIGS[architecture])
    model = from_config(config)
    torch.nn.Module.to(model, dtype=dtype)
    return model


def from_config(config: PretrainedConfig) -> PreTrainedModel:
    """A model with random weights, in evaluation mode."""
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.train(mode=False)
    return model


def words(*texts: str, is_careless: bool = False) -> JsonSchema:
    """A constraint that allows exactly these texts (the tests' engine reads it as such)."""
    return JsonSchema(json.dumps({"careless": texts} if is_careless else texts))


def start(constraint: Constraint) -> Any:
    if constraint is None:
        return AnythingMatcher()
    assert isinstance(constraint, JsonSchema)
    texts = json.loads(constraint.text)
    if isinstance(texts, dict):
        return WordMatcher.of(texts["careless"], is_careless=True)
    return WordMatcher.of(texts)


def render(prompt: str | tuple[Message, ...], shown: str | None) -> tuple[TokenId, ...]:
    assert isinstance(prompt, str)
    return spell_bytes((prompt + (shown or "")).encode())


def make_engine(model: PreTrainedModel | None = None, **options: Any) -> Engine:
    """With ``weights``, a format, the forward pass is our own, else that of transformers."""
    vocabulary = make_vocabulary()
    weights: WeightFormat | None = options.pop("weights", None)
    runner = ModelRunner(model or make_model(), vocabulary_size=len(TOKEN_BYTES), weights=weights)
    settings: dict[str, Any] = {
        "context_window": 512,
        "start": start,
        "render": render,
        "block_size": 4,
    }
    return Engine(model_name="tiny", runner=runner, vocabulary=vocabulary, **(settings | options))


def drain(engine: Engine) -> dict[str, Finished]:
    """Step until nothing is left, checking the books after every step."""
    ended: dict[str, Finished] = {}
    while engine.has_work:
        for finished in engine.step():
            ended[finished.request_id] = finished
        engine.check()
    return ended


def answers(engine: Engine, requests: dict[str, Any]) -> dict[str, GenerationResult]:
    """Run requests together; every one of them has to come to an answer."""
    for request_id, request in requests.items():
        engine.submit(request_id, request)
    results = {}
    for request_id, finished in drain(engine).items():
        if not isinstance(finished.outcome, GenerationResult):
            raise finished.outcome
        results[request_id] = finished.outcome
    assert results.keys() == requests.keys()
    return results
