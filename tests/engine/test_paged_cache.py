"""Sharing, giving up and finding blocks again never changes an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from guided.decoding import DraftBuilder, DraftContext, DraftState
from guided.engine.engine import Engine
from guided.spec import (
    Beams,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine.drafters import OneByOne
from tests.engine.tiny_models import answers, make_engine, make_model, words
from tests.kit.effort import crossed

PREAMBLE = "the quick brown fox jumps over the lazy dog "
REQUESTS = {
    "a": GenerationRequest(prompt=PREAMBLE + "abc", max_tokens=20),
    "b": GenerationRequest(
        prompt=PREAMBLE + "name", max_tokens=24, sampling=Sampling(temperature=1.5, seed=7)
    ),
    "c": GenerationRequest(
        prompt=PREAMBLE + "12",
        constraint=words("abcabc", "nanana", "zebra12"),
        max_tokens=20,
        sampling=Sampling(temperature=2.0, seed=3),
        forcing=Forcing.STRICT,
    ),
    "d": GenerationRequest(prompt="zebra", max_tokens=30),
}
CROWD = REQUESTS | {
    prompt: GenerationRequest(prompt=prompt, max_tokens=30) for prompt in ("x", "zed", "na")
}
"""Requests with short prompts start with few blocks and grow to many."""
SHORT_CACHES = {"llama": 96, "gemma3_sliding": 96, "mistral_sliding": 36}
"""Sizes, in tokens, too small for the crowd; models with windows only hold less of each."""


def tokens(results: dict[str, GenerationResult]) -> dict[str, tuple[int, ...]]:
    return {key: result.tokens for key, result in results.items()}


def alone(architecture: str, requests: Iterable[str] = REQUESTS) -> dict[str, tuple[int, ...]]:
    """Each request in an engine of its own that remembers nothing."""
    return {key: _alone(architecture)[key] for key in requests}


@cache
def _alone(architecture: str) -> dict[str, tuple[int, ...]]:
    model = make_model(architecture)
    return {
        key: answers(make_engine(model, reuse_prefixes=False), {key: request})[key].tokens
        for key, request in CROWD.items()
    }


def run(architecture: str, **options: Any) -> tuple[Engine, dict[str, GenerationResult]]:
    engine = make_engine(make_model(architecture), **options)
    return engine, answers(engine, REQUESTS)


@pytest.mark.parametrize(("architecture", "block_size"), crossed(SHORT_CACHES, [1, 4, 16]))
def test_a_cache_too_small_for_all_makes_some_start_over(
    architecture: str, block_size: int
) -> None:
    engine = make_engine(
        make_model(architecture),
        cache_tokens=SHORT_CACHES[architecture],
        block_size=block_size,
        step_tokens=8,
        max_batch=8,
        reuse_prefixes=False,
    )
    results = answers(engine, CROWD)
    assert engine.stats().preempted > 0
    assert tokens(results) == alone(architecture, CROWD)


def test_who_starts_over_keeps_what_its_drafter_has_learnt() -> None:
    opened: list[Forcing] = []

    class Opened(OneByOne):
        def open(self, context: DraftContext) -> DraftState | None:
            opened.append(context.forcing)
            return self

    options = {"cache_tokens": 112, "block_size": 4, "reuse_prefixes": False}
    engine, _ = run("llama", drafters=(Opened(),), **options)
    assert engine.stats().preempted > 0
    assert opened == [request.forcing for request in REQUESTS.values()]


@pytest.mark.parametrize("architecture", ["llama", "gemma3_sliding"])
def test_a_prefix_computed_once_is_not_computed_again(architecture: str) -> None:
    """The preamble has 44 tokens: 11 blocks, or 10 where its last token is left to compute."""
    engine = make_engine(make_model(architecture), block_size=4)
    first = answers(engine, {"a": REQUESTS["a"]})["a"]
    rest = answers(engine, {key: REQUESTS[key] for key in ("b", "c", "d")})
    assert tokens({"a": first, **rest}) == alone(architecture)
    assert first.usage.reused_tokens == 0
    assert rest["b"].usage.reused_tokens == 44
    assert rest["c"].usage.reused_tokens == 44
    assert rest["d"].usage.reused_tokens == 0


def test_the_same_prompt_again_leaves_its_last_token_to_compute() -> None:
    engine = make_engine(block_size=4)
    request = GenerationRequest(prompt="abcdefgh", max_tokens=3)
    first, second = (answers(engine, {key: request})[key] for key in "ab")
    assert first.tokens == second.tokens
    assert (first.usage.reused_tokens, second.usage.reused_tokens) == (0, 4)


def test_no_more_tokens_are_reused_than_the_prompt_has() -> None:
    """Where the run that is forced right after it is known too."""
    engine = make_engine(block_size=1)
    request = GenerationRequest("abcdefgh", words("aaaab", "aaaac"), forcing=Forcing.STRICT)
    usages = [answers(engine, {name: request})[name].usage for name in "ab"]
    assert [usage.reused_tokens for usage in usages] == [0, usages[0].prompt_tokens]


_SIBLINGS = {"n": 2, "sampling": Sampling(temperature=1.0)}


@pytest.mark.parametrize("more", [{}, _SIBLINGS, {"beams": Beams(2)}])
def test_only_requests_of_one_salt_share_beginnings(more: dict[str, Any]) -> None:
    engine = make_engine(block_size=4)
    reused = []
    for salt in ("", "one", "", "one", "two"):
        request = GenerationRequest(prompt="abcdefgh", max_tokens=3, cache_salt=salt, **more)
        reused.append(answers(engine, {"r": request})["r"].usage.reused_tokens > 0)
    assert reused == [False, False, True, True, False]


def test_salts_change_no_answer_where_some_start_over() -> None:
    salted = {key: replace(request, cache_salt=key) for key, request in REQUESTS.items()}
    engine = make_engine(make_model("llama"), cache_tokens=112, block_size=4)
    assert tokens(answers(engine, salted)) == alone("llama")
    assert engine.stats().preempted > 0


def test_reuse_can_be_turned_off() -> None:
    engine = make_engine(reuse_prefixes=False)
    for key in "ab":
        request = GenerationRequest(prompt=PREAMBLE, max_tokens=3)
        assert answers(engine, {key: request})[key].usage.reused_tokens == 0


class DraftWidely(OneByOne):
    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        for token in range(40, 60):
            builder.add(builder.last_node, TokenId(token))


def test_drafts_give_way_before_a_neighbour_does() -> None:
    """With room for the trunks but not for the drafts, no request has to start over."""
    request = GenerationRequest(prompt="x" * 8, max_tokens=8)
    plain = answers(make_engine(), {"a": request})["a"].tokens
    engine = make_engine(
        cache_tokens=48,
        block_size=4,
        drafters=(DraftWidely(),),
        widest_draft=20,
        reuse_prefixes=False,
    )
    results = answers(engine, dict.fromkeys("abc", request))
    assert {result.tokens for result in results.values()} == {plain}
    assert engine.stats().preempted == 0
