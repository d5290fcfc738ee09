"""Beam search gives the answers of transformers, and all answers if there are enough beams."""

from __future__ import annotations

import copy
import itertools
import json
from functools import cache
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from guided.constraint import ConstraintCompiler, Matcher
from guided.decoding.allowed_tokens import allowed_tokens
from guided.engine.engine import Engine
from guided.errors import LimitExceededError, TokenRejectedError
from guided.model.runner import ModelRunner
from guided.spec import (
    Beams,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Sampling,
    TokenId,
)
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher
from tests.engine.tiny_models import (
    answers,
    drain,
    from_config,
    make_engine,
    make_model,
    render,
    start,
    words,
)
from tests.kit.effort import crossed
from tests.kit.tiny_vocabulary import tiny_vocabulary

VOCABULARY = tiny_vocabulary()
COMPILER = ConstraintCompiler(VOCABULARY)
END = TokenId(0)

SCHEMAS: dict[str, Any] = {
    "object": {
        "type": "object",
        "properties": {"name": {"enum": ["ab", "abc", "red"]}, "a": {"type": "boolean"}},
        "required": ["name", "a"],
        "additionalProperties": False,
    },
    "number": {"type": "integer", "minimum": 0, "maximum": 10010},
    "list": {"type": "array", "items": {"enum": [0, 1, 10, None]}, "maxItems": 4},
    "text": {"type": "string", "maxLength": 5, "pattern": "^[a-e]*$"},
    "anything": None,
}


@cache
def exact_model(seed: int = 0) -> PreTrainedModel:
    """A model as wide as its vocabulary, so that its softmax is that of transformers."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=END,
        bos_token_id=None,
        pad_token_id=END,
        initializer_range=0.5,
    )
    model = from_config(config)
    torch.nn.Module.to(model, dtype=torch.float64)
    return model


def exact_engine(seed: int = 0, **options: Any) -> Engine:
    # The engine changes the attention in a model's config, so it has one of its own.
    fresh = from_config(copy.deepcopy(exact_model(seed).config))
    torch.nn.Module.to(fresh, dtype=torch.float64)
    fresh.load_state_dict(exact_model(seed).state_dict())
    settings: dict[str, Any] = {"context_window": 512, "block_size": 4} | options
    return Engine(
        model_name="exact",
        runner=ModelRunner(fresh, vocabulary_size=len(VOCABULARY)),
        vocabulary=VOCABULARY,
        render=lambda prompt, *_: tuple(TokenId(byte + 1) for byte in str(prompt).encode()),
        start=COMPILER.start,
        **settings,
    )


def constraint_of(name: str) -> JsonSchema | None:
    return None if SCHEMAS[name] is None else JsonSchema(json.dumps(SCHEMAS[name]))


def walked(matcher: Matcher, tokens: list[int]) -> Matcher | None:
    """The position after tokens; ``None`` after an end, and for beams without an answer."""
    for token in tokens:
        if token == END or matcher.is_complete:
            return None
        try:
            matcher = matcher.advance(TokenId(token))
        except TokenRejectedError:
            return None
    return matcher


def of_transformers(
    request: GenerationRequest, name: str, seed: int
) -> list[tuple[tuple[int, ...], float]]:
    """Answers and scores of ``generate()``; a complete structure is a stopping criterion."""
    beams = request.beams
    assert beams is not None
    matcher = COMPILER.start(constraint_of(name))
    ids = torch.tensor([[byte + 1 for byte in str(request.prompt).encode()]])
    size = ids.shape[1]

    def allowed(_: int, tokens: torch.Tensor) -> list[int]:
        after = walked(matcher, tokens[size:].tolist())
        if after is None or after.is_complete:
            return [END]
        return [int(t) for t in allowed_tokens(after.mask(), len(VOCABULARY))]

    class IsComplete(StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:  # noqa: ARG002
            ends = [walked(matcher, tokens[size:].tolist()) for tokens in input_ids]
            return torch.tensor([end is None or end.is_complete for end in ends])

    model: Any = exact_model(seed)
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=request.most_tokens,
        do_sample=False,
        num_beams=beams.width,
        num_return_sequences=request.n,
        length_penalty=beams.length_penalty,
        early_stopping=beams.early_stopping,
        prefix_allowed_tokens_fn=allowed,
        stopping_criteria=StoppingCriteriaList([IsComplete()]),
        return_dict_in_generate=True,
        output_scores=True,
    )
    return [
        (tuple(t for t in tokens[size:].tolist() if t != END), float(score))
        for tokens, score in zip(output.sequences, output.sequences_scores, strict=True)
        if score > -1e6  # lower scores stand for no answer
    ]


def found(result: GenerationResult) -> list[tuple[tuple[int, ...], float]]:
    return [(candidate.tokens, candidate.score) for candidate in result.candidates]


@pytest.mark.parametrize(
    ("width", "length_penalty", "early_stopping"), crossed([2, 4], [0.0, 1.0, -0.5], [False, True])
)
def test_answers_and_scores_are_those_of_transformers(
    width: int, length_penalty: float, early_stopping: bool
) -> None:
    """All requests run side by side.

    If a mask leaves fewer tokens than beams, transformers continues with beams without an answer,
    and stops early when those end. It then has fewer answers than beams.
    """
    beams = Beams(width, length_penalty, early_stopping)
    compared = 0
    for seed in (0, 1):
        requests = {
            name: GenerationRequest(
                "who?",
                constraint_of(name),
                max_tokens=24 if SCHEMAS[name] else 9,
                forcing=Forcing.STRICT,
                n=width,
                beams=beams,
            )
            for name in SCHEMAS
        }
        results = answers(exact_engine(seed), requests)
        for name, result in results.items():
            expected = of_transformers(requests[name], name, seed)
            if early_stopping and len(expected) < width:
                continue
            assert [tokens for tokens, _ in found(result)] == [tokens for tokens, _ in expected]
            scores = [score for _, score in found(result)]
            assert scores == pytest.approx([score for _, score in expected], abs=1e-4)
            compared += 1
    assert compared >= 4


# --- compared with trying everything

LANGUAGE = words("ab", "abc", "abcd", "na", "nab")


def every_answer(prompt: str) -> dict[tuple[int, ...], float]:
    """Each spelling of each word with the sum of its log-probabilities, by the bare model."""
    model = make_model()
    root: WordMatcher = start(LANGUAGE)
    whole: dict[tuple[int, ...], float] = {}

    def visit(matcher: WordMatcher, answer: tuple[TokenId, ...], score: float) -> None:
        if matcher.is_complete:
            whole[answer] = score
            return
        with torch.inference_mode():
            ids = torch.tensor([[*render(prompt, None), *answer]])
            logits = model(input_ids=ids, use_cache=False).logits[0, -1, : len(TOKEN_BYTES)]
        logprobs = torch.log_softmax(logits.float().double(), dim=-1)
        if matcher.is_accepting:
            whole[answer] = score + max(float(logprobs[end]) for end in END_IDS)
        for token in matcher.legal():
            visit(matcher.advance(token), (*answer, token), score + float(logprobs[token]))

    visit(root, (), 0.0)
    return whole


@pytest.mark.parametrize("forcing", [Forcing.OFF, Forcing.STRICT])
def test_beams_as_wide_as_the_language_find_every_answer(forcing: Forcing) -> None:
    expected = every_answer("who?")
    width = len(expected)
    assert 10 < width < 40
    request = GenerationRequest(
        "who?",
        LANGUAGE,
        max_tokens=8,
        forcing=forcing,
        n=width,
        beams=Beams(width, length_penalty=0.0),
    )
    result = answers(make_engine(max_batch=width), {"r": request})["r"]
    assert dict(found(result)) == pytest.approx(expected, abs=1e-6)
    scores = [candidate.score for candidate in result.candidates]
    assert scores == sorted(scores, reverse=True)


def test_fewer_answers_than_asked_for_where_there_are_no_more() -> None:
    request = GenerationRequest("who?", words("x", "y"), max_tokens=4, n=4, beams=Beams(4))
    result = answers(make_engine(), {"r": request})["r"]
    assert sorted(candidate.text for candidate in result.candidates) == ["x", "y"]


# --- forced runs and everything else that must not change the distribution of answers

PEOPLE = words(
    '{"name":"abcd","me":12}',
    '{"name":"abc","me":[1,2]}',
    '{"name":"zebra","me":1212}',
    '{"name":"12abab12","me":7}',
)


def asked(forcing: Forcing) -> dict[str, GenerationRequest]:
    return {
        f"{name}/{prompt}": GenerationRequest(
            prompt, constraint, max_tokens=40, forcing=forcing, n=3, beams=Beams(3)
        )
        for name, constraint in (("people", PEOPLE), ("language", LANGUAGE))
        for prompt in ("who?", "the quick brown fox jumps")
    } | {"free": GenerationRequest("hello name", max_tokens=9, n=2, beams=Beams(4))}


def texts(results: dict[str, GenerationResult]) -> dict[str, list[tuple[tuple[int, ...], float]]]:
    """Answers and scores; bits differ with the shape of a batch."""
    return {
        key: [(tokens, round(score, 6)) for tokens, score in found(result)]
        for key, result in results.items()
    }


@cache
def alone(architecture: str, forcing: Forcing) -> Any:
    model = make_model(architecture)
    return {
        key: answers(make_engine(model, reuse_prefixes=False), {key: request})[key]
        for key, request in asked(forcing).items()
    }


def test_strict_runs_change_no_answer_and_no_score_and_save_calls() -> None:
    plain, strict = alone("llama", Forcing.OFF), alone("llama", Forcing.STRICT)
    assert texts(strict) == texts(plain)
    for key in plain:
        cost, saved = plain[key].usage, strict[key].usage
        assert saved.output_tokens == cost.output_tokens
        assert (saved.forced_tokens > 0) == key.startswith("people")
        assert (saved.model_calls < cost.model_calls) == key.startswith("people")


@pytest.mark.parametrize(
    ("architecture", "forcing", "options"),
    [
        ("llama", Forcing.STRICT, {}),
        ("llama", Forcing.CANONICAL, {"step_tokens": 5, "max_batch": 5}),
        ("llama", Forcing.OFF, {"reuse_prefixes": False, "cache_tokens": 184, "block_size": 4}),
        ("llama", Forcing.STRICT, {"cache_tokens": 184, "block_size": 4}),
        ("llama", Forcing.CANONICAL, {"cache_tokens": 160, "block_size": 1}),
        ("gemma3_sliding", Forcing.STRICT, {"step_tokens": 5, "max_batch": 5}),
        ("gemma3_sliding", Forcing.STRICT, {"cache_tokens": 184, "block_size": 4}),
        ("mistral_sliding", Forcing.CANONICAL, {}),
    ],
)
def test_neighbours_chunks_and_starting_over_never_show(
    architecture: str, forcing: Forcing, options: dict[str, Any]
) -> None:
    neighbours = {
        str(number): GenerationRequest(
            "the quick brown fox", max_tokens=60, sampling=Sampling(1.0, seed=number)
        )
        for number in range(4)
    }
    engine = make_engine(make_model(architecture), **options)
    requests = neighbours | asked(forcing)
    results = answers(engine, requests)
    beams = {key: result for key, result in results.items() if key not in neighbours}
    assert texts(beams) == texts(alone(architecture, forcing))
    if architecture == "llama" and "cache_tokens" in options:
        assert engine.stats().preempted > 0


def test_beams_that_start_over_share_what_they_have_in_common() -> None:
    """The cache has room for the prompt once, and not for each beam."""
    prompt = "the quick brown fox jumps over the lazy dog "
    beams = GenerationRequest(prompt, max_tokens=16, n=3, beams=Beams(3))
    rest = {
        str(number): GenerationRequest("x" * 8, max_tokens=80, sampling=Sampling(1.0, seed=number))
        for number in range(2)
    }
    engine = make_engine(cache_tokens=132, block_size=4, reuse_prefixes=False)
    results = answers(engine, rest | {"beams": beams})
    assert engine.stats().preempted > 0
    expected = answers(make_engine(), {"beams": beams})["beams"]
    assert texts({"r": results["beams"]}) == texts({"r": expected})


@pytest.mark.parametrize("forcing", [Forcing.STRICT, Forcing.CANONICAL])
def test_what_an_earlier_request_left_is_reused_and_still_scored(forcing: Forcing) -> None:
    """The run at the start is in the cache then, but not its log-probabilities."""
    engine = make_engine(block_size=1)
    request = GenerationRequest(
        "hello name", PEOPLE, max_tokens=40, forcing=forcing, beams=Beams(3)
    )
    first, second = (answers(engine, {key: request})[key] for key in "ab")
    assert first.usage.reused_tokens == 0
    assert second.usage.reused_tokens == first.usage.prompt_tokens - 1
    assert texts({"r": first}) == texts({"r": second})


def test_all_beams_of_all_requests_are_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    segments: list[int] = []
    forward = ModelRunner.forward

    def counted(self: ModelRunner, batch: Any) -> Any:
        segments.append(len(batch.segments))
        return forward(self, batch)

    monkeypatch.setattr(ModelRunner, "forward", counted)
    requests = {
        str(number): GenerationRequest("abc" * number, max_tokens=6, n=1, beams=Beams(number))
        for number in (2, 3, 4)
    }
    results = answers(engine, requests | {"drawn": GenerationRequest("hello", max_tokens=6)})
    assert segments == [4] + [2 + 3 + 4 + 1] * 5
    assert {result.usage.model_calls for result in results.values()} == {6}


def test_what_beams_share_is_counted() -> None:
    """A prompt of 10 tokens with blocks of 4: two full blocks and two rows of a third.

    Three beams part after the prompt: two of them take 10 tokens over, and copy the last 2.
    """
    request = GenerationRequest("abcdefghij", max_tokens=2, beams=Beams(3))
    prompt = render("abcdefghij", None)
    usage = answers(make_engine(block_size=4), {"r": request})["r"].usage
    size = len(prompt)
    assert (usage.prompt_tokens, usage.shared_tokens) == (size, 2 * size)
    assert usage.copied_tokens == 2 * (size % 4)


# --- ends, budgets and failures


@pytest.mark.parametrize(("max_tokens", "forcing"), crossed(range(3, 16), Forcing))
def test_every_answer_is_whole_inside_its_budget(max_tokens: int, forcing: Forcing) -> None:
    choices = ["abcabcabcabcabc", "nananananananana", "zebra zebra", "ab12"]
    for is_careless in (False, True):
        request = GenerationRequest(
            "hello",
            words(*choices, is_careless=is_careless),
            max_tokens=max_tokens,
            forcing=forcing,
            n=2,
            beams=Beams(3),
        )
        if not start(request.constraint).can_complete_within(max_tokens):
            continue
        result = answers(make_engine(), {"r": request})["r"]
        for candidate in result.candidates:
            assert candidate.text in choices
            assert len(candidate.tokens) <= max_tokens
            assert candidate.finish_reason in (FinishReason.COMPLETE, FinishReason.LENGTH_CLOSED)


def test_a_budget_that_takes_likelier_answers_away_says_so() -> None:
    """An answer of singles is longer than one of whole words, and sometimes likelier."""
    language, closed = words("abcabcabc", "nanananana"), 0
    for prompt in ("abc", "hello", "x", "12", "name"):
        wide = GenerationRequest(prompt, language, max_tokens=30, beams=Beams(3))
        best = answers(make_engine(), {"r": wide})["r"]
        assert best.finish_reason is FinishReason.COMPLETE
        limit = len(best.tokens) - 1
        if not start(language).can_complete_within(limit):
            continue
        tight = GenerationRequest(prompt, language, max_tokens=limit, beams=Beams(3))
        shorter = answers(make_engine(), {"r": tight})["r"]
        assert shorter.tokens != best.tokens
        assert len(shorter.tokens) <= limit
        closed += shorter.finish_reason is FinishReason.LENGTH_CLOSED
    assert closed


def test_a_free_answer_ends_with_its_budget_or_where_the_model_ends_it() -> None:
    request = GenerationRequest("hello", max_tokens=5, n=4, beams=Beams(4))
    result = answers(make_engine(), {"r": request})["r"]
    reasons = {candidate.finish_reason: len(candidate.tokens) for candidate in result.candidates}
    assert reasons.get(FinishReason.LENGTH, 5) == 5
    assert reasons.keys() <= {FinishReason.LENGTH, FinishReason.STOP}


def test_an_answer_without_a_choice_is_scored_all_the_same() -> None:
    request = GenerationRequest("hello", words("nanana"), max_tokens=9, beams=Beams(2))
    result = answers(make_engine(), {"r": request})["r"]
    assert result.text == "nanana"
    assert result.candidates[0].score < 0


@pytest.mark.parametrize("steps", range(1, 9))
def test_cancelled_beams_leave_nothing_behind(steps: int) -> None:
    """The cache is just large enough for the beams that come after the cancelled ones."""
    request = GenerationRequest("hello name", PEOPLE, max_tokens=30, n=2, beams=Beams(4))
    engine = make_engine(cache_tokens=180, block_size=4, reuse_prefixes=False)
    for _ in range(3):
        engine.submit("gone", request)
        for _ in range(steps):
            engine.step()
            engine.check()
        engine.cancel("gone")
        engine.check()
        assert not engine.has_work
    assert answers(engine, {"r": request})["r"].candidates
    assert engine.stats().preempted == 0


def test_beams_that_could_not_run_together_are_refused() -> None:
    engine = make_engine(cache_tokens=100, block_size=4, max_batch=4)
    request = GenerationRequest("hello", max_tokens=20, beams=Beams(4))
    with pytest.raises(LimitExceededError) as caught:
        engine.submit("a", request)
    assert str(caught.value) == (
        "the prompt has 5 tokens, and 4 beams of max_tokens (20) may take 128: 133 in all, but the "
        "key/value cache takes 100; lower max_tokens to 11, or give the engine a larger cache"
    )
    engine.submit("b", GenerationRequest("hello", max_tokens=11, beams=Beams(4)))
    assert isinstance(drain(engine)["b"].outcome, GenerationResult)


def test_beams_wider_than_a_batch_are_refused() -> None:
    with pytest.raises(LimitExceededError) as caught:
        make_engine(max_batch=4).submit("a", GenerationRequest("x", max_tokens=2, beams=Beams(5)))
    assert str(caught.value) == (
        "beams.width is 5, but the engine runs 4 answers at once; make the beams narrower"
    )


def test_places_in_the_batch_are_kept_for_all_beams() -> None:
    """Two requests of three beams do not fit into a batch of five."""
    engine = make_engine(max_batch=5)
    request = GenerationRequest("hello", max_tokens=4, beams=Beams(3))
    for key in "ab":
        engine.submit(key, request)
    order = list(itertools.chain.from_iterable(engine.step() for _ in range(8)))
    assert [ended.request_id for ended in order] == ["a", "b"]
