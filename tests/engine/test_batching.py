"""An answer never depends on the other requests in the batch."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from guided.engine.results import Finished
from guided.spec import Forcing, GenerationRequest, GenerationResult, Sampling, TokenId
from tests.engine.drafters import OneEach, Prophet, Watch
from tests.engine.tiny_models import answers, drain, make_engine, make_model, render, words
from tests.kit.effort import crossed

MODEL = make_model()


def sampled(seed: int, prompt: str = "hello", max_tokens: int = 14) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt,
        max_tokens=max_tokens,
        sampling=Sampling(temperature=1.5, top_p=0.95, seed=seed),
    )


MIXED = {
    "free": sampled(1),
    "same prompt, other seed": sampled(2),
    "long prompt": sampled(1, prompt="abcd " * 20),
    "constrained": GenerationRequest(
        prompt="hi",
        constraint=words("name", "nana", "abcabc", "12ab"),
        sampling=Sampling(temperature=2.0, seed=3),
        forcing=Forcing.STRICT,
    ),
    "greedy": GenerationRequest(prompt="hi", max_tokens=11),
}


def tokens(results: dict[str, GenerationResult]) -> dict[str, tuple[int, ...]]:
    return {key: result.tokens for key, result in results.items()}


@cache
def alone() -> dict[str, tuple[int, ...]]:
    return {
        key: answers(make_engine(MODEL), {key: request})[key].tokens
        for key, request in MIXED.items()
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_batch": 2},
        {"step_tokens": 16},
        {"max_batch": 3, "step_tokens": 5},
        {"cache_tokens": 260},
    ],
)
def test_a_seed_gives_the_same_tokens_alone_and_in_any_batch(options: dict[str, int]) -> None:
    assert tokens(answers(make_engine(MODEL, **options), MIXED)) == alone()


def test_other_seeds_give_other_tokens() -> None:
    assert alone()["free"] != alone()["same prompt, other seed"]


def test_without_a_seed_two_requests_differ() -> None:
    """The chance that 14 draws agree is nil."""
    request = GenerationRequest(prompt="hello", max_tokens=14, sampling=Sampling(temperature=5.0))
    results = answers(make_engine(MODEL), {"a": request, "b": request})
    assert results["a"].tokens != results["b"].tokens


@pytest.mark.parametrize("after", range(5))
def test_cancelling_a_neighbour_changes_nothing(after: int) -> None:
    engine = make_engine(MODEL, step_tokens=24)
    for key, request in MIXED.items():
        engine.submit(key, request)
    ended: dict[str, Finished] = {}
    for _ in range(after):
        ended |= {finished.request_id: finished for finished in engine.step()}
    engine.cancel("long prompt")
    engine.cancel("greedy")
    engine.cancel("never heard of")
    engine.check()
    ended |= drain(engine)
    found = {
        key: finished.outcome.tokens
        for key, finished in ended.items()
        if isinstance(finished.outcome, GenerationResult)
    }
    assert found == {k: alone()[k] for k in ("free", "same prompt, other seed", "constrained")}


STAYING, LEAVING = ("free", "constrained", "greedy"), ("leaves", "leaves, constrained")
BEGINNING = "abcd name 12, abcd "
LISTS = words(*("-".join(parts) for parts in product(("ab", "12"), repeat=8)))
DRAFTED = {
    "free": sampled(1, prompt=BEGINNING + "hello", max_tokens=24),
    "constrained": GenerationRequest(
        prompt=BEGINNING + "12",
        constraint=LISTS,
        max_tokens=32,
        sampling=Sampling(temperature=2.0, seed=3),
    ),
    "greedy": GenerationRequest(prompt="zebra", max_tokens=24),
    "leaves": sampled(2, prompt=BEGINNING + "you", max_tokens=24),
    "leaves, constrained": GenerationRequest(
        prompt=BEGINNING + "me", constraint=LISTS, max_tokens=32, forcing=Forcing.STRICT
    ),
}


@cache
def drafted_alone(architecture: str) -> dict[str, tuple[TokenId, ...]]:
    model = make_model(architecture)
    return {
        key: answers(make_engine(model, reuse_prefixes=False), {key: request})[key].tokens
        for key, request in DRAFTED.items()
    }


@pytest.mark.parametrize(
    ("architecture", "after"),
    crossed(["llama", "gemma3_sliding", "mistral_sliding", "gpt2", "qwen3"], [1, 2]),
)
def test_cancelling_right_behind_a_tree_changes_nothing_for_other_trees(
    architecture: str, after: int
) -> None:
    """The prefixes that cancelled requests leave are right, too: equal requests take them over."""
    alone = drafted_alone(architecture)
    prompts = {key: render(request.prompt, None) for key, request in DRAFTED.items()}
    texts = [(*prompt, *alone[key]) for key, prompt in prompts.items()]
    watch = Watch(OneEach(lambda: Prophet(texts, errors=0.5)))
    engine = make_engine(make_model(architecture), drafters=(watch,), widest_draft=4)
    for key, request in DRAFTED.items():
        engine.submit(key, request)
    for _ in range(after):
        assert engine.step() == []
        trees = watch.take(prompts)
    assert trees.keys() == DRAFTED.keys()
    assert any(drafted > right > 0 for drafted, right in trees.values())
    for key in LEAVING:
        engine.cancel(key)
        engine.check()
    engine.submit("comes back", DRAFTED["leaves"])
    ended = drain(engine)
    assert engine.stats().cache.held == 0
    found = {}
    for key, finished in ended.items():
        assert isinstance(finished.outcome, GenerationResult), finished.outcome
        assert finished.outcome.usage.drafted_tokens > 0
        found[key] = finished.outcome.tokens
    assert found == {key: alone[key] for key in STAYING} | {"comes back": alone["leaves"]}
    back = ended["comes back"].outcome
    assert isinstance(back, GenerationResult)
    assert back.usage.reused_tokens > len(prompts["leaves"]) - 5


def test_requests_wait_for_room_and_are_served_in_order() -> None:
    """Each needs 5 + 14 of 40 slots, so two run at a time."""
    engine = make_engine(MODEL, cache_tokens=40)
    for seed in range(5):
        engine.submit(str(seed), sampled(seed))
    assert list(drain(engine)) == [str(seed) for seed in range(5)]


def test_requests_run_together_share_their_model_calls() -> None:
    """Five answers of 14 tokens each take the calls of one."""
    engine, steps = make_engine(MODEL), 0
    for seed in range(5):
        engine.submit(str(seed), GenerationRequest(prompt="hello", max_tokens=14))
    while engine.has_work:
        engine.step()
        steps += 1
    assert steps == 14


def test_a_step_without_work_does_nothing() -> None:
    engine = make_engine(MODEL)
    assert not engine.has_work
    assert engine.step() == []
