"""Gemma 3 270M in fp32: sliding windows and 262,144 tokens, token for token as ``generate()``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.engine import Engine, load_engine
from guided.model.load import load_model
from guided.spec import GenerationRequest, GenerationResult
from tests.engine.tiny_models import answers
from tests.kit.gemma3 import gemma3_270m

pytestmark = pytest.mark.timeout(1800)

_TOKENS = 16
_COUNTED = "".join(f"Line {number} is about the number {number}.\n" for number in range(60))
PROMPTS = {
    "plain": "The capital of France is",
    "names": '{"name": "Ada Lovelace", "born": 1815}\n{"name": "Ada Lovelace", "born":',
    "beyond the window": _COUNTED + "Line 60 is",
    "the same beginning": _COUNTED + "In short, the lines",
}
"""The counting prompts have more than 512 tokens, the window of most layers."""


@pytest.fixture(scope="module")
def expected() -> dict[str, tuple[int, ...]]:
    """The answer of ``generate()`` to each prompt alone."""
    model = load_model(str(gemma3_270m()), dtype=torch.float32)
    answers = {}
    for name, prompt in PROMPTS.items():
        ids = model.tokenizer(prompt, return_tensors="pt").input_ids
        assert name in ("plain", "names") or ids.shape[1] > 512
        module: Any = model.module
        output = module.generate(ids, max_new_tokens=_TOKENS, do_sample=False)
        answers[name] = tuple(output[0, ids.shape[1] :].tolist())
    return answers


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load_engine(str(gemma3_270m()), dtype="float32", device="cpu")


def _run(engine: Engine, *names: str) -> dict[str, GenerationResult]:
    asked = {name: GenerationRequest(PROMPTS[name], max_tokens=_TOKENS) for name in names}
    return answers(engine, asked)


def test_alone_in_a_batch_and_with_a_beginning_that_is_known(
    engine: Engine, expected: dict[str, tuple[int, ...]]
) -> None:
    """Drafts are on: repetitions in the prompts are drafted, and many are right."""
    for names in (["names"], list(PROMPTS), ["the same beginning", "plain"]):
        results = _run(engine, *names)
        assert {name: results[name].tokens for name in names} == {
            name: expected[name] for name in names
        }
        if "names" in names:
            assert results["names"].usage.accepted_tokens > 0
    assert results["the same beginning"].usage.reused_tokens > 512


def test_small_steps_without_drafts(expected: dict[str, tuple[int, ...]]) -> None:
    engine = load_engine(
        str(gemma3_270m()),
        dtype="float32",
        device="cpu",
        drafts=False,
        step_tokens=100,
        reuse_prefixes=False,
    )
    results = _run(engine, *PROMPTS)
    assert {name: result.tokens for name, result in results.items()} == expected
