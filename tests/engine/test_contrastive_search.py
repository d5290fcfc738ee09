"""Contrastive search gives the answers of a plain reference that computes everything again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.penalties import NO_HISTORY, GrowingTokenArray, History, adjust_logits
from guided.drafters import LookupDrafter
from guided.errors import LimitExceededError, ModelError
from guided.model.batch import StepBatch, StepOutput
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import (
    Constraint,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine.architectures import CONFIGS
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, make_vocabulary
from tests.engine.tiny_models import answers, drain, make_engine, make_model, render, start, words

PEOPLE = words(
    '{"name":"abcd","me":12}',
    '{"name":"abc","me":[1,2]}',
    '{"name":"zebra","me":1212}',
    '{"name":"12abab12","me":7}',
    '{"name":"banana","me":[1,1,1]}',
)
PREAMBLE = "the quick brown fox jumps over the lazy dog "


def contrast(alpha: float = 0.6, k: int = 4, **options: Any) -> Sampling:
    return Sampling(top_k=k, penalty_alpha=alpha, **options)


@cache
def reference_model(architecture: str) -> PreTrainedModel:
    return make_model(architecture)


@torch.inference_mode()
def told(architecture: str, texts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Logits after each of several texts of equal length, and the states of their tokens."""
    output = reference_model(architecture)(
        input_ids=torch.tensor([list(text) for text in texts]),
        use_cache=False,
        output_hidden_states=True,
    )
    logits = output.logits[:, -1, : len(TOKEN_BYTES)].numpy()
    return logits, output.hidden_states[-1].numpy()


@cache
def reference(architecture: str, request: GenerationRequest) -> tuple[tuple[int, ...], int]:
    """The answer to a request that fits its budget, and the number of chosen tokens."""
    sampling = request.sampling
    assert sampling.penalty_alpha is not None
    assert sampling.top_k is not None
    assert isinstance(request.prompt, str)
    prompt = render(request.prompt, None)
    matcher, answer, choices = start(request.constraint), [], 0
    while True:
        run = () if matcher.is_complete else matcher.forced_run(request.forcing)
        for token in run:
            answer.append(token)
            matcher = matcher.advance(token)
        if matcher.is_complete or len(answer) == request.most_tokens:
            return tuple(answer), choices
        text = [*prompt, *answer]
        (logits,), (seen,) = told(architecture, [text])
        tokens = allowed_tokens(matcher.mask(), len(TOKEN_BYTES))
        scores = logits[tokens]
        if sampling.adjusts_logits:
            log = GrowingTokenArray()
            history = NO_HISTORY
            if sampling.reads_history:
                history = History(log.as_array([TokenId(t) for t in text]), len(prompt), END_IDS)
            tokens, scores = adjust_logits(tokens, scores, sampling, history)
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        order = np.argsort(-weights, kind="stable")[: sampling.top_k]
        _, states = told(architecture, [[*text, int(tokens[index])] for index in order])
        best, taken = -np.inf, None
        for index, own in zip(order, states[:, -1], strict=True):
            cosines = seen @ own / np.linalg.norm(seen, axis=1) / np.linalg.norm(own)
            score = (1 - sampling.penalty_alpha) * weights[index]
            score -= sampling.penalty_alpha * cosines.max()
            if score > best:
                best, taken = score, TokenId(int(tokens[index]))
        assert taken is not None
        choices += 1
        if taken in END_IDS:
            return tuple(answer), choices
        answer.append(taken)
        matcher = matcher.advance(taken)


def asked(forcing: Forcing = Forcing.STRICT) -> dict[str, GenerationRequest]:
    def request(prompt: str, sampling: Sampling, constraint: Constraint = None) -> Any:
        size = 14 if constraint is None else 40
        return GenerationRequest(
            prompt, constraint, max_tokens=size, sampling=sampling, forcing=forcing
        )

    return {
        "free": request(PREAMBLE + "abc", contrast()),
        "again": request(PREAMBLE + "abd", contrast(0.9, 3)),
        "people": request("who?", contrast(0.7, 3), PEOPLE),
        "narrow": request("abab", contrast(1.0, 2), PEOPLE),
        "penalised": request("name", contrast(0.5, 4, repetition_penalty=1.6)),
    }


def expected(
    architecture: str, requests: dict[str, GenerationRequest]
) -> dict[str, tuple[int, ...]]:
    return {key: reference(architecture, request)[0] for key, request in requests.items()}


def given(results: dict[str, GenerationResult], keys: Any) -> dict[str, tuple[int, ...]]:
    return {key: results[key].tokens for key in keys}


@pytest.mark.parametrize(
    ("architecture", "forcing", "options"),
    [
        ("llama", Forcing.OFF, {}),
        ("llama", Forcing.STRICT, {"step_tokens": 17, "max_batch": 9}),
        ("llama", Forcing.CANONICAL, {"draft": True}),
        ("llama", Forcing.STRICT, {"cache_tokens": 88, "reuse_prefixes": False}),
        ("llama", Forcing.STRICT, {"cache_tokens": 112, "block_size": 1, "draft": True}),
        ("llama", Forcing.STRICT, {"weights": WeightFormat.FP32, "draft": True}),
        ("gemma3_sliding", Forcing.STRICT, {"step_tokens": 17, "max_batch": 9}),
        ("gemma3_sliding", Forcing.STRICT, {"weights": WeightFormat.FP32}),
        ("gemma3_sliding", Forcing.CANONICAL, {"cache_tokens": 112, "draft": True}),
        ("gpt2", Forcing.STRICT, {}),
    ],
)
def test_answers_in_a_mixed_batch_are_those_of_the_reference(
    architecture: str, forcing: Forcing, options: dict[str, Any]
) -> None:
    settings = dict(options)
    dtype = torch.float32 if "weights" in settings else torch.float64
    if settings.pop("draft", False):
        settings |= {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 8}
    engine = make_engine(make_model(architecture, dtype=dtype), **settings)
    requests = asked(forcing)
    neighbours = {
        "greedy": GenerationRequest("hello name", max_tokens=20),
        "drawn": GenerationRequest("who?", PEOPLE, max_tokens=40, sampling=Sampling(1.0, seed=2)),
    }
    alone = {
        key: answers(make_engine(make_model(architecture)), {key: request})[key].tokens
        for key, request in neighbours.items()
    }
    results = answers(engine, neighbours | requests)
    assert given(results, requests) == expected(architecture, requests)
    assert given(results, neighbours) == alone
    if architecture == "llama" and "cache_tokens" in options:
        assert engine.stats().preempted > 0


@pytest.mark.parametrize("architecture", CONFIGS)
def test_states_are_those_that_the_model_hands_out(architecture: str) -> None:
    request = asked()["free"]
    engine = make_engine(make_model(architecture))
    assert answers(engine, {"r": request})["r"].tokens == reference(architecture, request)[0]


def test_it_differs_from_greedy_unless_alpha_is_0() -> None:
    greedy = GenerationRequest(PREAMBLE, max_tokens=14)
    plain = answers(make_engine(), {"r": greedy})["r"].tokens
    for alpha, is_same in ((0.0, True), (0.6, False)):
        request = GenerationRequest(PREAMBLE, max_tokens=14, sampling=contrast(alpha))
        assert (answers(make_engine(), {"r": request})["r"].tokens == plain) is is_same


# --- costs


@pytest.mark.parametrize("key", ["free", "people"])
def test_a_call_a_token_and_one_for_the_prompt(key: str) -> None:
    request = asked(Forcing.OFF)[key]
    usage = answers(make_engine(), {"r": request})["r"].usage
    assert usage.model_calls == 1 + reference("llama", request)[1]
    assert (usage.drafted_tokens, usage.forced_tokens) == (0, 0)


def test_runs_are_computed_with_the_contenders_that_force_them() -> None:
    request = asked()["people"]
    calls = {
        widest: answers(make_engine(widest_draft=widest), {"r": request})["r"].usage.model_calls
        for widest in (0, 64)
    }
    assert calls[64] == 1 + reference("llama", request)[1] < calls[0]


def test_others_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[int] = []
    forward = ModelRunner.forward

    def counted(self: ModelRunner, batch: StepBatch) -> StepOutput:
        output = forward(self, batch)
        wanted.append(len(batch.states_rows))
        assert len(output.states) == wanted[-1]
        return output

    monkeypatch.setattr(ModelRunner, "forward", counted)
    plain = GenerationRequest("abcd", max_tokens=6)
    answers(make_engine(), {"plain": plain})
    assert set(wanted) == {0}
    wanted.clear()
    request = GenerationRequest("abcd", max_tokens=2, sampling=contrast(k=3))
    answers(make_engine(), {"plain": plain, "r": request})
    assert wanted == [len(render("abcd", None)), 3, 3, 0, 0, 0]


def test_it_reuses_nothing_and_others_reuse_what_it_computed() -> None:
    engine = make_engine()
    request = asked()["free"]
    plain = GenerationRequest(request.prompt, max_tokens=3)
    assert answers(engine, {"r": plain})["r"].usage.reused_tokens == 0
    result = answers(engine, {"r": request})["r"]
    assert (result.tokens, result.usage.reused_tokens) == (reference("llama", request)[0], 0)
    fresh = make_engine()
    answers(fresh, {"r": request})
    assert answers(fresh, {"r": plain})["r"].usage.reused_tokens > 0


# --- with all other options of a request


@pytest.mark.parametrize("max_tokens", range(8, 20))
def test_an_answer_closes_inside_its_budget(max_tokens: int) -> None:
    language = words("a", '{"name":"abcd","me":12}', "zebra zebra zebra")
    for alpha in (0.1, 1.0):
        request = GenerationRequest(
            "who?", language, max_tokens=max_tokens, sampling=contrast(alpha, 3)
        )
        result = answers(make_engine(), {"r": request})["r"]
        assert result.text in ("a", '{"name":"abcd","me":12}', "zebra zebra zebra")
        assert len(result.tokens) <= max_tokens


def test_what_the_budget_takes_away_is_told() -> None:
    language = words("a", "b" * 30)
    reasons = set()
    for prompt in ("who?", "a", "b", "hello"):
        request = GenerationRequest(prompt, language, max_tokens=3, sampling=contrast(0.5, 8))
        result = answers(make_engine(), {"r": request})["r"]
        assert result.text == "a"
        reasons.add(result.finish_reason)
    assert reasons == {FinishReason.LENGTH_CLOSED}


def test_a_stop_string_ends_it_and_a_stream_is_its_text() -> None:
    whole = answers(make_engine(), {"r": asked()["people"]})["r"].text
    stop = whole[9:12]
    base = asked()["people"]
    request = GenerationRequest(
        base.prompt,
        PEOPLE,
        max_tokens=40,
        sampling=base.sampling,
        forcing=base.forcing,
        stop=(stop,),
    )
    engine = make_engine(widest_draft=8)
    engine.submit("r", request, stream=True)
    text = ""
    ended: dict[str, Any] = {}
    while engine.has_work:
        ended |= {finished.request_id: finished.outcome for finished in engine.step()}
        text += "".join(delta.text for delta in engine.take_deltas())
    result = ended["r"]
    assert isinstance(result, GenerationResult)
    assert text == result.text == whole[: whole.index(stop)]
    assert result.finish_reason is FinishReason.STOP_SEQUENCE


def test_log_probabilities_are_those_at_the_place_of_each_token() -> None:
    base = asked(Forcing.OFF)["free"]
    request = GenerationRequest(
        base.prompt, max_tokens=14, sampling=base.sampling, forcing=Forcing.OFF, top_logprobs=2
    )
    result = answers(make_engine(), {"r": request})["r"]
    assert result.tokens == reference("llama", base)[0]
    text = list(render(str(base.prompt), None))
    for one in result.logprobs:
        (logits,), _ = told("llama", [text])
        logarithms = torch.log_softmax(torch.tensor(logits), dim=0)
        assert one.raw == pytest.approx(float(logarithms[one.token]), abs=1e-5)
        assert len(one.top) == 2
        text.append(one.token)


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_cancelled_search_leaves_nothing_behind(steps: int) -> None:
    engine = make_engine(cache_tokens=64, reuse_prefixes=False)
    request = GenerationRequest("abcdefghij", max_tokens=30, sampling=contrast())
    for _ in range(3):
        engine.submit("gone", request)
        for _ in range(steps):
            engine.step()
            engine.check()
        engine.cancel("gone")
        engine.check()
        assert not engine.has_work
    assert answers(engine, {"r": request})["r"].tokens == reference("llama", request)[0]


def test_states_that_are_not_numbers_end_their_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward = ModelRunner.forward

    def spoilt(self: ModelRunner, batch: StepBatch) -> StepOutput:
        output = forward(self, batch)
        return StepOutput(output.logits, output.states * float("nan"), output.taps)

    plain = GenerationRequest("hello", max_tokens=5)
    alone = answers(make_engine(), {"plain": plain})["plain"].tokens
    monkeypatch.setattr(ModelRunner, "forward", spoilt)
    engine = make_engine()
    engine.submit("plain", plain)
    engine.submit("r", GenerationRequest("hello", max_tokens=5, sampling=contrast()))
    ended = drain(engine)
    assert isinstance(ended["plain"].outcome, GenerationResult)
    assert ended["plain"].outcome.tokens == alone
    assert isinstance(ended["r"].outcome, ModelError)
    assert str(ended["r"].outcome) == "the model's hidden states are not numbers"


# --- refusals


def test_more_contenders_than_a_batch_has_places_are_refused() -> None:
    engine = make_engine(max_batch=4)
    with pytest.raises(LimitExceededError) as caught:
        engine.submit("a", GenerationRequest("x", max_tokens=2, sampling=contrast(k=5)))
    assert str(caught.value) == (
        "sampling.top_k is 5, but the engine runs 4 answers at once; choose among fewer"
    )
    assert caught.value.field == "sampling.top_k"


def test_whatever_is_admitted_runs_to_its_end_alone() -> None:
    """The last token takes room for all candidate tokens, even where the cache has no more."""
    engine = make_engine(cache_tokens=32, reuse_prefixes=False)
    prompt = len(render("abcd", None))
    largest = 32 - prompt - 4
    request = GenerationRequest("abcd", max_tokens=largest, sampling=contrast(k=4))
    assert answers(engine, {"r": request})["r"].tokens == reference("llama", request)[0]
    with pytest.raises(LimitExceededError) as caught:
        engine.submit("a", GenerationRequest("abcd", max_tokens=largest + 1, sampling=contrast()))
    assert str(caught.value) == (
        f"the prompt has {prompt} tokens, and max_tokens is {largest + 1}, with 4 tokens tried at "
        "a place: 33 in all, but the key/value cache takes 32; "
        f"lower max_tokens to {largest}, or give the engine a larger cache"
    )
