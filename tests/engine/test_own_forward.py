"""With our own forward pass the engine gives the answers of transformers."""

from __future__ import annotations

import pytest
import torch

from guided.model.cpu import WeightFormat
from guided.spec import Forcing, GenerationRequest
from tests.engine.drafters import Prophet
from tests.engine.test_equals_transformers import CITIES, PROMPTS, generated, masked
from tests.engine.test_trees import full_texts
from tests.engine.tiny_models import answers, make_engine, make_model

ARCHITECTURES = (
    "llama",
    "llama_scaled_rope",
    "mistral_sliding",
    "qwen2",
    "qwen3",
    "gemma3_sliding",
)


@pytest.mark.parametrize("options", [{}, {"step_tokens": 5}, {"cache_tokens": 112}])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_mixed_batch_equals_generate(architecture: str, options: dict[str, int]) -> None:
    """Also in small chunks, and with too little room for all."""
    model = make_model(architecture, dtype=torch.float32)
    engine = make_engine(model, weights=WeightFormat.FP32, max_batch=3, **options)
    results = answers(
        engine, {prompt: GenerationRequest(prompt=prompt, max_tokens=24) for prompt in PROMPTS}
    )
    expected = {prompt: generated(architecture, prompt, 24) for prompt in PROMPTS}
    assert {prompt: result.tokens for prompt, result in results.items()} == expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_constrained_answers_through_trees_equal_masked_decoding(architecture: str) -> None:
    asked = {
        prompt: GenerationRequest(
            prompt=prompt, constraint=CITIES, max_tokens=60, forcing=Forcing.STRICT
        )
        for prompt in PROMPTS
    }
    expected = {prompt: masked(architecture, prompt, CITIES, Forcing.STRICT) for prompt in PROMPTS}
    plain = answers(make_engine(make_model(architecture)), asked)
    prophet = Prophet(full_texts(asked, plain), errors=0.3)
    engine = make_engine(
        make_model(architecture, dtype=torch.float32),
        weights=WeightFormat.FP32,
        drafters=(prophet,),
        widest_draft=24,
    )
    results = answers(engine, asked)
    assert {prompt: result.tokens for prompt, result in results.items()} == expected
    assert sum(result.usage.accepted_tokens for result in results.values()) > 0
