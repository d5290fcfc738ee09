"""With the Triton kernel, on a GPU or interpreted, the engine gives transformers' answers."""

from __future__ import annotations

import pytest
import torch

from guided.model.attention import AttentionKernel
from guided.spec import Forcing, GenerationRequest
from tests.engine.test_equals_transformers import CITIES, PROMPTS, generated, masked
from tests.engine.tiny_models import answers, make_engine, make_model

pytest.importorskip("triton", reason="triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("architecture", ["llama", "gemma2_soft_capped", "gemma3_sliding"])
def test_a_mixed_batch_equals_generate(architecture: str) -> None:
    """Chunks of prompts, and answers that decode beside them."""
    model = make_model(architecture, dtype=torch.float32).to(DEVICE)  # type: ignore[arg-type]
    engine = make_engine(model, kernel=AttentionKernel.TRITON, step_tokens=16, max_batch=3)
    requests = {prompt: GenerationRequest(prompt=prompt, max_tokens=12) for prompt in PROMPTS}
    assert {prompt: result.tokens for prompt, result in answers(engine, requests).items()} == {
        prompt: generated(architecture, prompt, 12) for prompt in PROMPTS
    }


def test_constrained_answers_equal_masked_decoding() -> None:
    model = make_model(dtype=torch.float32).to(DEVICE)  # type: ignore[arg-type]
    engine = make_engine(model, kernel=AttentionKernel.TRITON)
    prompt = PROMPTS[0]
    request = GenerationRequest(
        prompt=prompt, constraint=CITIES, max_tokens=60, forcing=Forcing.STRICT
    )
    expected = masked("llama", prompt, CITIES, Forcing.STRICT)
    assert answers(engine, {"r": request})["r"].tokens == expected
