"""Packed attention gives the answers of each model with its own attention and no cache."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from guided.spec import Forcing, GenerationRequest, JsonSchema, TokenId
from tests.engine.architectures import CONFIGS, OTHER_CONFIGS
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher
from tests.engine.tiny_models import (
    answers,
    make_engine,
    make_model,
    render,
    start,
    words,
)
from tests.kit.effort import crossed

PROMPTS = ("hello name", "x", "the quick brown fox jumps over the lazy dog, abcabcabc")
CITIES = words(
    *(f'{{"name":"{name}"}}' for name in ("abc", "abcd", "ab12", "12", "cd", "name", "zebra")),
    '{"me":12}',
    '{"me":[1,2,3]}',
)


@cache
def generated(architecture: str, prompt: str, count: int) -> tuple[int, ...]:
    """Greedy tokens of ``generate()``, up to an end."""
    ids = torch.tensor([render(prompt, None)])
    output: Any = make_model(architecture).generate(  # type: ignore[operator]
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=sorted(END_IDS),
        suppress_tokens=list(range(len(TOKEN_BYTES), 288)),
    )
    tokens = output[0, ids.shape[1] :].tolist()
    return tuple(token for token in tokens if token not in END_IDS)


@cache
def masked(
    architecture: str, prompt: str, constraint: JsonSchema, forcing: Forcing
) -> tuple[TokenId, ...]:
    """The reference: the whole text through the bare model for each token, and the mask by hand."""
    model = make_model(architecture)
    tokens, answer = list(render(prompt, None)), []
    matcher: WordMatcher = start(constraint)

    def take(token: TokenId) -> None:
        nonlocal matcher
        tokens.append(token)
        answer.append(token)
        matcher = matcher.advance(token)

    while True:
        for forced in matcher.forced_run(forcing):
            take(forced)
        if matcher.is_complete:
            return tuple(answer)
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].float()
        legal = [*matcher.legal(), *(END_IDS if matcher.is_accepting else ())]
        chosen = max(legal, key=lambda token: (float(logits[token]), -token))
        if chosen in END_IDS:
            return tuple(answer)
        take(chosen)


@pytest.mark.parametrize(("architecture", "step_tokens"), crossed(CONFIGS, [3, 16, 512]))
def test_a_mixed_batch_equals_generate_whatever_the_size_of_its_chunks(
    architecture: str, step_tokens: int
) -> None:
    """A window of 6 or 7 tokens is far shorter than these texts, so windows do slide."""
    expected = {prompt: generated(architecture, prompt, 24) for prompt in PROMPTS}
    assert len({expected[prompt] for prompt in PROMPTS}) == len(PROMPTS)
    engine = make_engine(make_model(architecture), step_tokens=step_tokens, max_batch=3)
    results = answers(
        engine, {prompt: GenerationRequest(prompt=prompt, max_tokens=24) for prompt in PROMPTS}
    )
    assert {prompt: result.tokens for prompt, result in results.items()} == expected


@pytest.mark.parametrize("architecture", OTHER_CONFIGS)
def test_other_architectures_equal_generate_alone_and_in_a_mixed_batch(architecture: str) -> None:
    expected = {prompt: generated(architecture, prompt, 12) for prompt in PROMPTS}
    assert len({expected[prompt] for prompt in PROMPTS}) == len(PROMPTS)
    engine = make_engine(make_model(architecture), step_tokens=20, max_batch=3)
    requests = {prompt: GenerationRequest(prompt=prompt, max_tokens=12) for prompt in PROMPTS}
    mixed = answers(engine, requests)
    alone = answers(engine, {"x": requests["x"]})
    assert {prompt: result.tokens for prompt, result in mixed.items()} == expected
    assert alone["x"].tokens == expected["x"]


@pytest.mark.parametrize(("architecture", "forcing"), crossed(CONFIGS, Forcing))
def test_constrained_answers_equal_masked_decoding_without_a_cache(
    architecture: str, forcing: Forcing
) -> None:
    constraints = {"cities": CITIES, "abc": words("ab", "abc", "abcabc", "bcd", "nanana")}
    requests = {
        f"{name}/{prompt}": (prompt, constraint)
        for name, constraint in constraints.items()
        for prompt in PROMPTS
    }
    engine = make_engine(make_model(architecture), max_batch=4, step_tokens=40)
    results = answers(
        engine,
        {
            key: GenerationRequest(
                prompt=prompt, constraint=constraint, max_tokens=60, forcing=forcing
            )
            for key, (prompt, constraint) in requests.items()
        },
    )
    assert {key: result.tokens for key, result in results.items()} == {
        key: masked(architecture, prompt, constraint, forcing)
        for key, (prompt, constraint) in requests.items()
    }
