"""With a cache of int8 an answer is a little off, but it is one answer, however it is computed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from guided.drafters import LookupDrafter
from guided.errors import ModelError
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import Forcing, GenerationRequest, Sampling
from tests.engine.finite_language import make_vocabulary, spell_bytes
from tests.engine.tiny_models import answers, make_engine, make_model, words
from tests.kit.effort import crossed

BLOCK_SIZE = 4
"""The block size of the tests' engine."""
ARCHITECTURES = ("llama", "gemma3_sliding", "gpt2")
CITIES = words('{"name":"abc"}', '{"name":"abcd"}', '{"me":12}', '{"me":[1,2,3]}')
REQUESTS = {
    "free": GenerationRequest(prompt="hello name", max_tokens=20),
    "longer": GenerationRequest(prompt="abcabc, the quick brown fox, abcabcabc", max_tokens=12),
    "constrained": GenerationRequest(prompt="x", constraint=CITIES, max_tokens=30),
    "strict": GenerationRequest(
        prompt="x", constraint=CITIES, max_tokens=30, forcing=Forcing.STRICT
    ),
}


def texts(architecture: str, **options: Any) -> dict[str, str]:
    engine = make_engine(make_model(architecture), quantise_cache=True, **options)
    return {name: result.text for name, result in answers(engine, REQUESTS).items()}


@cache
def usual(architecture: str) -> dict[str, str]:
    return texts(architecture)


DRAFTING: dict[str, Any] = {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 8}
WAYS: dict[str, dict[str, Any]] = {
    "max_batch": {"max_batch": 1},
    "step_tokens": {"step_tokens": 16},
    "cache_tokens": {"cache_tokens": 64, "reuse_prefixes": False},
    "drafters": DRAFTING,
}


@pytest.mark.parametrize(("architecture", "way"), crossed(ARCHITECTURES, WAYS))
def test_how_it_is_computed_changes_nothing(architecture: str, way: str) -> None:
    """A token sees the kept values, also those of tokens of the same call."""
    assert texts(architecture, **WAYS[way]) == usual(architecture)


BEGINNING = "the quick brown fox jumps over the lazy dog, abcabc "
LATER = {
    "free": GenerationRequest(prompt=BEGINNING + "hello", max_tokens=20),
    "drawn": GenerationRequest(
        prompt=BEGINNING + "12", max_tokens=20, sampling=Sampling(temperature=1.5, seed=7)
    ),
    "constrained": GenerationRequest(
        prompt=BEGINNING + "x", constraint=CITIES, max_tokens=30, forcing=Forcing.STRICT
    ),
    "unlike": GenerationRequest(prompt="hello name", max_tokens=20),
}


LATER_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "step_tokens": {"step_tokens": 7, "max_batch": 3},
    "cache_tokens": {"cache_tokens": 128},
    "drafters": DRAFTING,
}


@pytest.mark.parametrize(("architecture", "way"), crossed(ARCHITECTURES, LATER_WAYS))
def test_a_beginning_that_another_request_has_kept_changes_nothing(
    architecture: str, way: str
) -> None:
    """Rows of int8 are read with the scales that the first request gave them."""
    model = make_model(architecture)
    engine = make_engine(model, quantise_cache=True, **LATER_WAYS[way])
    first = GenerationRequest(prompt=BEGINNING + "abc", max_tokens=6)
    assert answers(engine, {"first": first})["first"].usage.reused_tokens == 0
    found = answers(engine, LATER)
    fresh = answers(make_engine(model, quantise_cache=True, reuse_prefixes=False), LATER)
    assert {name: result.tokens for name, result in found.items()} == {
        name: result.tokens for name, result in fresh.items()
    }
    kept = len(spell_bytes(BEGINNING.encode())) // BLOCK_SIZE * BLOCK_SIZE
    for name, result in found.items():
        assert result.usage.reused_tokens == (0 if name == "unlike" else kept)
        assert fresh[name].usage.reused_tokens == 0


def test_our_own_forward_pass_refuses_it() -> None:
    model = make_model("llama", dtype=torch.float32)
    with pytest.raises(ModelError, match="keeps keys and values as it computes them, not as int8"):
        ModelRunner(model, vocabulary_size=288, weights=WeightFormat.FP32, quantise_cache=True)
