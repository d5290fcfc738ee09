"""Forced runs save model calls and change nothing else."""

from __future__ import annotations

import pytest

from guided.spec import FinishReason, Forcing, GenerationRequest, JsonSchema, Sampling
from tests.engine.tiny_models import answers, make_engine, words

PEOPLE = words('{"name":"abc","me":12}', '{"name":"zz","me":1}', '{"name":"q","me":[]}')


def ask(
    constraint: JsonSchema | None,
    forcing: Forcing,
    *,
    sampling: Sampling = Sampling(),  # noqa: B008
    max_tokens: int = 60,
) -> GenerationRequest:
    return GenerationRequest(
        prompt="who?",
        constraint=constraint,
        forcing=forcing,
        sampling=sampling,
        max_tokens=max_tokens,
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_strict_runs_give_the_tokens_of_no_runs_in_fewer_calls(temperature: float) -> None:
    engine = make_engine()
    for seed in range(8):
        sampling = Sampling(temperature=temperature, seed=seed)
        off = answers(engine, {"r": ask(PEOPLE, Forcing.OFF, sampling=sampling)})["r"]
        strict = answers(engine, {"r": ask(PEOPLE, Forcing.STRICT, sampling=sampling)})["r"]
        assert strict.tokens == off.tokens
        assert strict.usage.model_calls < off.usage.model_calls
        assert off.usage.forced_tokens == 0
        assert strict.usage.output_tokens == off.usage.output_tokens == len(off.tokens)


def test_without_runs_every_token_costs_a_call() -> None:
    usage = answers(make_engine(), {"r": ask(PEOPLE, Forcing.OFF)})["r"].usage
    assert usage.model_calls == usage.sampled_tokens
    assert usage.prompt_tokens == len("who?")


def test_with_runs_only_the_chosen_tokens_cost_a_call() -> None:
    """The first run is read with the prompt, every later one with the token before it."""
    result = answers(make_engine(), {"r": ask(PEOPLE, Forcing.CANONICAL)})["r"]
    assert result.usage.model_calls == result.usage.sampled_tokens
    assert result.usage.forced_tokens > result.usage.sampled_tokens
    assert result.finish_reason is FinishReason.COMPLETE


@pytest.mark.parametrize("forcing", [Forcing.STRICT, Forcing.CANONICAL])
def test_an_answer_with_no_choice_in_it_costs_no_call(forcing: Forcing) -> None:
    constraint = words("zz~z") if forcing is Forcing.STRICT else words('{"name":"abc"}')
    result = answers(make_engine(), {"r": ask(constraint, forcing)})["r"]
    assert result.text in ("zz~z", '{"name":"abc"}')
    assert result.usage.model_calls == result.usage.sampled_tokens == 0
    assert result.usage.forced_tokens == len(result.tokens) > 0
    assert result.finish_reason is FinishReason.COMPLETE


def test_an_answer_that_may_end_stops_when_the_model_says_so() -> None:
    """In some of 60 draws the model ends "ab" where it could have continued to "abab"."""
    engine = make_engine()
    results = [
        answers(
            engine,
            {
                "r": ask(
                    words("ab", "abab"),
                    Forcing.STRICT,
                    sampling=Sampling(temperature=9, seed=seed),
                )
            },
        )["r"]
        for seed in range(60)
    ]
    reasons = {"ab": FinishReason.STOP, "abab": FinishReason.COMPLETE}
    assert {result.text for result in results} == {"ab", "abab"}
    assert all(result.finish_reason is reasons[result.text] for result in results)
