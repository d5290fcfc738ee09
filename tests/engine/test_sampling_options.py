"""Sampling options, stops and log-probabilities in whole answers, with and without drafts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from guided.errors import RequestError
from guided.spec import (
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine.drafters import Prophet
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, spell_bytes
from tests.engine.test_trees import CONSTRAINT, full_texts
from tests.engine.tiny_models import answers, make_engine, make_model, render, words

MODEL = make_model()

OPTIONS: dict[str, dict[str, Any]] = {
    "min_p": {"temperature": 2.0, "min_p": 0.1},
    "typical_p": {"temperature": 2.0, "typical_p": 0.6},
    "epsilon_cutoff": {"temperature": 2.0, "epsilon_cutoff": 0.02},
    "eta_cutoff": {"temperature": 2.0, "eta_cutoff": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "presence_penalty": {"temperature": 1.0, "presence_penalty": -2.0},
    "frequency_penalty": {"frequency_penalty": 1.5},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "logit_bias": {"temperature": 2.0, "logit_bias": ((40, 5.0), (60, 4.0))},
    "all": {
        "temperature": 3.0,
        "top_k": 100,
        "top_p": 0.98,
        "min_p": 0.001,
        "typical_p": 0.98,
        "epsilon_cutoff": 0.0005,
        "eta_cutoff": 0.001,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.4,
        "frequency_penalty": -0.4,
        "no_repeat_ngram_size": 3,
        "logit_bias": ((40, 1.0),),
    },
}


def asked(options: dict[str, Any], **others: Any) -> dict[str, GenerationRequest]:
    """Free and constrained requests, and neighbours with other options."""
    sampling = Sampling(seed=5, **options)
    return {
        "free": GenerationRequest("hello name", max_tokens=18, sampling=sampling, **others),
        "long": GenerationRequest("abcd " * 9, max_tokens=14, sampling=sampling, **others),
        "constrained": GenerationRequest(
            "who?", CONSTRAINT, max_tokens=40, sampling=sampling, **others
        ),
        "other": GenerationRequest("abc", max_tokens=9, sampling=Sampling(1.0, seed=1), **others),
    }


def tokens(results: dict[str, GenerationResult]) -> dict[str, tuple[TokenId, ...]]:
    return {key: result.tokens for key, result in results.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_seed_gives_the_same_tokens_alone_in_any_batch_and_with_drafts(name: str) -> None:
    requests = asked(OPTIONS[name])
    alone = {
        key: answers(make_engine(MODEL), {key: request})[key] for key, request in requests.items()
    }
    assert tokens(answers(make_engine(MODEL, max_batch=3, step_tokens=7), requests)) == tokens(
        alone
    )
    prophet = Prophet(full_texts(requests, alone), errors=0.3)
    drafting = make_engine(MODEL, drafters=(prophet,), widest_draft=24, step_tokens=32, max_batch=3)
    drafted = answers(drafting, requests)
    assert tokens(drafted) == tokens(alone)
    assert drafted["free"].usage.model_calls < alone["free"].usage.model_calls


@pytest.mark.parametrize("name", OPTIONS)
def test_the_option_has_a_part_in_the_answer(name: str) -> None:
    options = OPTIONS[name]
    plain = asked({"temperature": options.get("temperature", 0.0)})
    engine = make_engine(MODEL)
    assert tokens(answers(engine, asked(options))) != tokens(answers(engine, plain))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Sampling(), {}),
        (Sampling(repetition_penalty=1.8), {"repetition_penalty": 1.8}),
        (Sampling(no_repeat_ngram_size=2), {"no_repeat_ngram_size": 2}),
        (
            Sampling(repetition_penalty=0.7, no_repeat_ngram_size=1, logit_bias=((40, 2.0),)),
            {
                "repetition_penalty": 0.7,
                "no_repeat_ngram_size": 1,
                "sequence_bias": [[[40], 2.0]],
            },
        ),
    ],
)
def test_greedy_answers_are_those_of_transformers(ours: Sampling, theirs: dict[str, Any]) -> None:
    """Only over the tokens with a text: the model's logits are wider than its vocabulary."""
    fresh: Any = make_model()
    width = fresh.config.vocab_size
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=24,
        do_sample=False,
        suppress_tokens=[*sorted(END_IDS), *range(len(TOKEN_BYTES), width)],
        pad_token_id=0,
        **theirs,
    )
    bans = tuple((int(token), -100.0) for token in END_IDS)
    for prompt in ("hello name", "12", "the quick brown fox"):
        ids = torch.tensor([render(prompt, None)])
        mask = torch.ones_like(ids)
        expected = fresh.generate(ids, attention_mask=mask, generation_config=config)[0]
        sampling = Sampling(
            repetition_penalty=ours.repetition_penalty,
            no_repeat_ngram_size=ours.no_repeat_ngram_size,
            logit_bias=(*ours.logit_bias, *bans),
        )
        request = GenerationRequest(prompt, max_tokens=24, sampling=sampling)
        found = answers(make_engine(MODEL), {"r": request})["r"]
        assert list(found.tokens) == expected[ids.shape[1] :].tolist()


# --- stops


def texts_with_and_without(
    request: dict[str, Any], **stop: Any
) -> tuple[GenerationResult, GenerationResult]:
    engine = make_engine(MODEL)
    found = answers(
        engine,
        {"plain": GenerationRequest(**request), "stopped": GenerationRequest(**request, **stop)},
    )
    return found["plain"], found["stopped"]


def test_a_free_answer_ends_before_its_stop_string() -> None:
    request = {"prompt": "hello", "constraint": words("abcdname12ab"), "forcing": Forcing.OFF}
    plain, stopped = texts_with_and_without(request, stop=("name",))
    assert plain.text == "abcdname12ab"
    assert (stopped.text, stopped.finish_reason) == ("abcd", FinishReason.STOP_SEQUENCE)
    assert stopped.tokens == plain.tokens[: len(stopped.tokens)]
    assert stopped.usage.model_calls == len(stopped.tokens)


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize(
    ("stop", "text", "found"),
    [
        ({"stop": ("dn",)}, "abc", "dn"),
        ({"stop": ("dn",), "include_stop": True}, "abcdn", "dn"),
        ({"stop": ("b1", "2ab")}, "abcdname1", "2ab"),
        ({"stop": ("a",)}, "", "a"),
    ],
)
def test_a_stop_string_is_found_in_forced_runs_and_across_tokens(
    forcing: Forcing, stop: dict[str, Any], text: str, found: str
) -> None:
    request = {"prompt": "hello", "constraint": words("abcdname12ab"), "forcing": forcing}
    _, stopped = texts_with_and_without(request, **stop)
    assert (stopped.text, stopped.finish_reason) == (text, FinishReason.STOP_SEQUENCE)
    assert stopped.stop_string == found
    assert stopped.usage.output_tokens == len(stopped.tokens)


def test_a_stop_that_never_comes_changes_nothing() -> None:
    request = {"prompt": "hello", "constraint": words("abcd", "name")}
    plain, stopped = texts_with_and_without(request, stop=("zz",), stop_tokens=(TokenId(99),))
    assert (stopped.text, stopped.finish_reason) == (plain.text, FinishReason.COMPLETE)


def test_a_stop_token_ends_the_answer() -> None:
    name = spell_bytes(b"name")[0]
    request = {"prompt": "hi", "constraint": words("~name~"), "forcing": Forcing.CANONICAL}
    _, stopped = texts_with_and_without(request, stop_tokens=(name,))
    assert (stopped.text, stopped.finish_reason) == ("~", FinishReason.STOP_SEQUENCE)
    assert stopped.tokens[-1] == name
    assert stopped.stop_string == ""


def test_a_stop_inside_a_character_leaves_a_text_that_can_be_read() -> None:
    second_byte = TokenId(2 + 0xA9)
    request = {"prompt": "hi", "constraint": words("xéy"), "forcing": Forcing.OFF}
    _, stopped = texts_with_and_without(request, stop_tokens=(second_byte,))
    assert stopped.text == "x\ufffd"


def test_a_stopped_answer_is_marked_as_such_even_where_the_budget_narrowed_it() -> None:
    """The model would choose the numbers, which do not fit."""
    bias = tuple((int(spell_bytes(text)[0]), 90.0) for text in (b"1", b"12"))
    request = {
        "prompt": "hi",
        "constraint": words("~12121212", "~ab"),
        "max_tokens": 3,
        "sampling": Sampling(logit_bias=bias),
    }
    plain, stopped = texts_with_and_without(request, stop=("a",))
    assert (plain.text, plain.finish_reason) == ("~ab", FinishReason.LENGTH_CLOSED)
    assert (stopped.text, stopped.finish_reason) == ("~", FinishReason.STOP_SEQUENCE)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_drafts_behind_a_stop_are_not_part_of_the_answer(temperature: float) -> None:
    plain = answers(make_engine(MODEL), asked({"temperature": temperature}))
    text = plain["free"].text.encode(errors="ignore").decode(errors="ignore")
    stop = next(c for c in text[len(text) // 2 :] if c.isascii())
    requests = asked({"temperature": temperature}, stop=(stop,))
    stopped = answers(make_engine(MODEL), requests)
    prophet = Prophet(full_texts(asked({}), plain), errors=0.2)
    drafting = make_engine(MODEL, drafters=(prophet,), widest_draft=24, step_tokens=64)
    drafted = answers(drafting, requests)
    assert stopped["free"].finish_reason is FinishReason.STOP_SEQUENCE
    for key, result in stopped.items():
        other = drafted[key]
        assert (other.text, other.tokens) == (result.text, result.tokens)
        assert other.finish_reason is result.finish_reason
        assert other.usage.sampled_tokens == result.usage.sampled_tokens
        assert other.usage.forced_tokens == result.usage.forced_tokens


@pytest.mark.parametrize(
    ("options", "field", "complaint"),
    [
        (
            {"stop_tokens": (TokenId(9999),)},
            "stop_tokens",
            f"stop_tokens names token 9999, but the model has {len(TOKEN_BYTES)} tokens",
        ),
        (
            {"sampling": Sampling(logit_bias=((9999, 1.0),))},
            "sampling.logit_bias",
            f"sampling.logit_bias names token 9999, but the model has {len(TOKEN_BYTES)} tokens",
        ),
    ],
)
def test_a_token_that_the_model_has_not_is_refused(
    options: dict[str, Any], field: str, complaint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        make_engine(MODEL).submit("r", GenerationRequest("x", **options))
    assert (str(caught.value), caught.value.field) == (complaint, field)


# --- log-probabilities


@pytest.mark.parametrize("forcing", Forcing)
def test_log_probabilities_are_those_of_the_model_and_equal_with_drafts(forcing: Forcing) -> None:
    requests = asked({"temperature": 2.0, "top_k": 9}, forcing=forcing, top_logprobs=3)
    plain = answers(make_engine(MODEL), requests)
    prophet = Prophet(full_texts(requests, plain), errors=0.3)
    drafting = make_engine(MODEL, drafters=(prophet,), widest_draft=24, step_tokens=32, max_batch=3)
    drafted = answers(drafting, requests)
    fresh: Any = make_model()
    for key, result in plain.items():
        prompt = render(requests[key].prompt, None)
        with torch.inference_mode():
            logits = fresh(input_ids=torch.tensor([[*prompt, *result.tokens]])).logits[0]
        expected = logits[:, : len(TOKEN_BYTES)].float().double().log_softmax(-1)
        assert tuple(one.token for one in result.logprobs) == result.tokens
        assert b"".join(one.text for one in result.logprobs).decode(errors="replace") == result.text
        forced = [one.is_forced for one in result.logprobs]
        assert sum(forced) == result.usage.forced_tokens
        for index, one in enumerate(result.logprobs):
            other = drafted[key].logprobs[index]
            assert (other.token, other.is_forced) == (one.token, one.is_forced)
            if one.raw is None or one.masked is None:
                assert one.masked is None
                assert not one.top
                continue
            row = expected[len(prompt) + index - 1]
            assert one.raw == pytest.approx(float(row[one.token]), abs=1e-5)
            assert other.raw == pytest.approx(one.raw, abs=1e-5)
            assert one.masked >= one.raw
            for likely in one.top:
                assert likely.raw == pytest.approx(float(row[likely.token]), abs=1e-5)
                # The allowed share of the probability is the same from whichever token.
                assert likely.raw - likely.masked == pytest.approx(one.raw - one.masked)
            assert [x.raw for x in one.top] == sorted((x.raw for x in one.top), reverse=True)


def test_nothing_is_looked_up_unless_asked_for() -> None:
    for result in answers(make_engine(MODEL), asked({})).values():
        assert result.logprobs == ()


def test_zero_alternatives_still_tell_the_chosen_tokens() -> None:
    result = answers(make_engine(MODEL), asked({}, top_logprobs=0))["free"]
    assert len(result.logprobs) == len(result.tokens)
    assert all(one.raw is not None and one.top == () for one in result.logprobs)
