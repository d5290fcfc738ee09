"""Thoughts before answers: their budget, their end, and that they change nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerBase

from guided.constraint import ConstraintCompiler
from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.engine.results import Finished
from guided.engine.thoughts import ThoughtsReader
from guided.errors import GuidedError, RequestError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.thinking import ThinkingMatcher
from guided.masks.vocabulary import Vocabulary
from guided.model.chat_thoughts import ChatThoughts
from guided.model.load import ModelTexts
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided.spec import (
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Reasoning,
    Sampling,
    TokenId,
    TokenLogprobs,
    Verification,
)
from guided.spec.composition import Text
from guided.spec.thoughts import AfterThoughts, split_at_tokens
from tests.kit.built_tokenizers import BUILT, loaded
from tests.kit.effort import crossed

SCHEMA = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}},'
    ' "required": ["name"], "additionalProperties": false}'
)
TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}{# <think> </think> #}"


@cache
def texts(*, is_marked: bool) -> ModelTexts:
    """A tokenizer with tokens for thoughts, marked as special or not, since models have both."""
    raw = BUILT["built like GPT-2"]()
    raw.add_tokens(
        [AddedToken(name, special=is_marked, normalized=False) for name in ("<think>", "</think>")]
    )
    tokenizer: PreTrainedTokenizerBase = loaded(raw)
    tokenizer.chat_template = TEMPLATE
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert isinstance(end, int)
    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=[end])
    return ModelTexts("tiny", tokenizer, vocabulary, context_window=512)


def vocabulary_of(*, is_marked: bool = True) -> Vocabulary:
    return texts(is_marked=is_marked).vocabulary


@cache
def compiler(*, is_marked: bool) -> ConstraintCompiler:
    return ConstraintCompiler(vocabulary_of(is_marked=is_marked))


@cache
def runner(size: int) -> ModelRunner:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.5,
        eos_token_id=None,
        pad_token_id=None,
    )
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.to(torch.float64).train(mode=False)
    return ModelRunner(model, vocabulary_size=size)


def make_engine(*, is_marked: bool = True, **options: Any) -> Engine:
    of_model = texts(is_marked=is_marked)

    def render(*asked: Any) -> tuple[TokenId, ...]:
        return render_prompt(of_model, *asked)

    settings: dict[str, Any] = {"block_size": 4, "thinking": ChatThoughts(of_model)}
    return Engine(
        model_name="tiny",
        runner=runner(len(of_model.vocabulary)),
        vocabulary=of_model.vocabulary,
        context_window=512,
        render=render,
        start=compiler(is_marked=is_marked).start,
        **(settings | options),
    )


def run(engine: Engine, *requests: GenerationRequest, stream: bool = False) -> list[Any]:
    """The outcomes, each with the thoughts and the text that were streamed."""
    for number, request in enumerate(requests):
        engine.submit(str(number), request, stream=stream)
    ended: dict[str, Finished] = {}
    streamed: dict[str, tuple[list[str], list[str]]] = {}
    while engine.has_work:
        finished = engine.step()
        for delta in engine.take_deltas():
            thoughts, text = streamed.setdefault(delta.request_id, ([], []))
            assert not (delta.is_thought and text), "a thought came behind the answer"
            (thoughts if delta.is_thought else text).append(delta.text)
        ended |= {each.request_id: each for each in finished}
        engine.check()
    outcomes = [ended[str(number)].outcome for number in range(len(requests))]
    for number, outcome in enumerate(outcomes):
        if stream and isinstance(outcome, GenerationResult):
            thoughts, text = streamed.get(str(number), ([], []))
            assert "".join(thoughts) == outcome.reasoning
            assert "".join(text) == outcome.text
    return outcomes


def test_the_log_probabilities_of_thoughts_are_not_streamed() -> None:
    engine = make_engine()
    engine.submit("r", thinking(7, top_logprobs=1), stream=True)
    told: list[TokenLogprobs] = []
    ended: list[Finished] = []
    while engine.has_work:
        ended += engine.step()
        for delta in engine.take_deltas():
            assert not (delta.is_thought and delta.logprobs)
            told += delta.logprobs
    (result,) = (finished.outcome for finished in ended)
    assert isinstance(result, GenerationResult)
    assert result.reasoning_tokens > 1
    of_answer = result.logprobs[result.reasoning_tokens :]
    assert len(told) > 1
    assert of_answer[: len(told)] == (*told,)


def answered(engine: Engine, *requests: GenerationRequest, **how: Any) -> list[GenerationResult]:
    found = []
    for outcome in run(engine, *requests, **how):
        if isinstance(outcome, GuidedError):
            raise outcome
        found.append(outcome)
    return found


def biased(token: str, bias: float, *, is_marked: bool = True) -> tuple[tuple[int, float], ...]:
    named = vocabulary_of(is_marked=is_marked).named
    return ((int(named[token]), bias),)


def thinking(budget: int | None, **options: Any) -> GenerationRequest:
    given: dict[str, Any] = {"constraint": SCHEMA, "max_tokens": 96, "prompt": "Who?"} | options
    return GenerationRequest(reasoning=Reasoning(budget), **given)


def split(result: GenerationResult, *, is_marked: bool = True) -> tuple[Sequence[TokenId], int]:
    """The tokens of the thoughts alone, and the number of tokens from the closing sign on."""
    of_thoughts = result.tokens[: result.reasoning_tokens]
    sign = vocabulary_of(is_marked=is_marked).named["</think>"]
    assert of_thoughts.count(sign) == 1
    at = of_thoughts.index(sign)
    return of_thoughts[:at], len(of_thoughts) - at


@pytest.mark.parametrize(
    ("budget", "forcing_and_marks"),
    crossed([0, 1, 7, 17, 40], product([Forcing.OFF, Forcing.CANONICAL], [True, False])),
)
def test_thoughts_that_do_not_end_have_exactly_their_budget(
    budget: int, forcing_and_marks: tuple[Forcing, bool]
) -> None:
    forcing, is_marked = forcing_and_marks
    never = Sampling(logit_bias=biased("</think>", -100.0, is_marked=is_marked))
    request = thinking(budget, forcing=forcing, sampling=never)
    (result,) = answered(make_engine(is_marked=is_marked), request, stream=True)
    thoughts, _ = split(result, is_marked=is_marked)
    vocabulary = vocabulary_of(is_marked=is_marked)
    assert len(thoughts) == budget
    assert result.reasoning.encode() == vocabulary.decode(thoughts)
    assert json.loads(result.text).keys() == {"name"}
    assert result.usage.reasoning_tokens == result.reasoning_tokens
    assert result.finish_reason is FinishReason.COMPLETE


def test_thoughts_end_where_the_model_ends_them() -> None:
    at_once = thinking(40, sampling=Sampling(logit_bias=biased("</think>", 100.0)))
    (result,) = answered(make_engine(), at_once, stream=True)
    assert split(result)[0] == ()
    assert result.reasoning == ""
    assert json.loads(result.text)


def test_text_that_spells_the_end_is_a_thought() -> None:
    """If a token is the end, no other spelling of it is."""
    vocabulary = vocabulary_of()
    end = split_at_tokens("</think>\n\n", vocabulary.named)
    matcher = compiler(is_marked=True).start(AfterThoughts(end, SCHEMA, 40))
    for token in vocabulary.spell("a</think>b"):
        matcher = matcher.advance(TokenId(token))
    assert isinstance(matcher, ThinkingMatcher)
    assert matcher.forced_run(Forcing.CANONICAL) == ()
    matcher = matcher.advance(vocabulary.named["</think>"])
    run = vocabulary.decode(matcher.forced_run(Forcing.CANONICAL))
    assert run.startswith(b'\n\n{"name')


VARIANTS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "drawn": {"sampling": Sampling(temperature=2.0, seed=5)},
    "penalised": {"sampling": Sampling(temperature=1.0, seed=2, repetition_penalty=1.3)},
    "free": {"constraint": None, "sampling": Sampling(temperature=1.5, seed=9)},
    "stopped": {"constraint": None, "stop": ("e", "a"), "sampling": Sampling(1.5, seed=9)},
    "cut": {"max_tokens": 24},
    "long": {"constraint": None, "min_tokens": 30, "sampling": Sampling(1.5, seed=9)},
}


WAYS: dict[str, dict[str, Any]] = {
    "small steps": {"step_tokens": 12, "max_batch": 2},
    "drafts": {"drafters": (LookupDrafter,), "widest_draft": 12},
    "small cache": {"cache_tokens": 160, "reuse_prefixes": False},
}


@pytest.mark.parametrize(("name", "way"), crossed(VARIANTS, WAYS))
def test_answers_are_the_same_however_they_are_made(name: str, way: str) -> None:
    """Compared with one request at a time, each token by a separate model call."""
    request, options = thinking(15, **VARIANTS[name]), WAYS[way]
    (plain,) = answered(make_engine(), replace(request, forcing=Forcing.STRICT))
    made = dict(options)
    if "drafters" in made:
        made["drafters"] = tuple(kind(vocabulary_of()) for kind in made["drafters"])
    strict = replace(request, forcing=Forcing.STRICT)
    others = [strict, replace(strict, prompt="Who else?"), strict]
    for found in answered(make_engine(**made), *others, stream=True)[::2]:
        assert (found.tokens, found.text, found.reasoning) == (
            *(plain.tokens, plain.text, plain.reasoning),
        )
        assert found.finish_reason is plain.finish_reason
    (off,) = answered(make_engine(), replace(request, forcing=Forcing.OFF))
    assert (off.tokens, off.finish_reason) == (plain.tokens, plain.finish_reason)


def test_a_rule_that_is_not_coupled_keeps_to_the_budget() -> None:
    drafters = (LookupDrafter(vocabulary_of()),)
    sampling = Sampling(temperature=1.0, seed=3, logit_bias=biased("</think>", -100.0))
    requests = [
        thinking(20, sampling=sampling, verification=rule, prompt="ab ab ab ab ab")
        for rule in Verification
    ]
    for result in answered(make_engine(drafters=drafters, widest_draft=16), *requests):
        assert len(split(result)[0]) == 20
        assert json.loads(result.text)


def test_several_answers_have_thoughts_of_their_own() -> None:
    request = thinking(12, n=3, sampling=Sampling(temperature=2.0, seed=4))
    (result,) = answered(make_engine(), request)
    alone = [
        answered(make_engine(), replace(request, n=1, sampling=Sampling(2.0, seed=4 + i)))[0]
        for i in range(3)
    ]
    assert [c.reasoning for c in result.candidates] == [each.reasoning for each in alone]
    assert [c.text for c in result.candidates] == [each.text for each in alone]
    assert result.usage.reasoning_tokens == sum(c.reasoning_tokens for c in result.candidates)


def test_a_stop_string_is_looked_for_in_the_answer_alone() -> None:
    request = thinking(20, sampling=Sampling(temperature=3.0, seed=1))
    (plain,) = answered(make_engine(), request)
    letter = next(sign for sign in plain.reasoning if sign.isalpha() and sign in "name")
    (stopped,) = answered(make_engine(), replace(request, stop=(letter,)), stream=True)
    assert stopped.reasoning == plain.reasoning
    assert stopped.finish_reason is FinishReason.STOP_SEQUENCE
    assert stopped.text == plain.text[: plain.text.index(letter)]


def test_the_budget_of_all_leaves_room_for_an_answer() -> None:
    """Thoughts that fill it are closed, and so is the answer; the finish reason says so."""
    never = Sampling(logit_bias=biased("</think>", -100.0))
    for total in range(12, 30):
        request = thinking(total - 1, max_tokens=total, sampling=never)
        outcome = run(make_engine(), request, stream=True)[0]
        assert isinstance(outcome, GenerationResult), outcome
        assert len(outcome.tokens) <= total
        assert json.loads(outcome.text)
        assert outcome.finish_reason is FinishReason.LENGTH_CLOSED
    (free,) = answered(make_engine(), replace(request, constraint=None), stream=True)
    assert free.finish_reason is FinishReason.LENGTH
    assert free.text == ""


def test_only_tokens_of_text_stop_an_answer() -> None:
    sign = vocabulary_of().named["</think>"]
    with pytest.raises(RequestError) as refused:
        answered(make_engine(), thinking(3, stop_tokens=(sign,)))
    assert str(refused.value) == (
        f"stop token {sign} stands for no text, and only tokens of text stop an answer; leave it"
        " out; a constraint that ends with guided.SpecialToken stops there"
    )
    assert refused.value.field == "stop_tokens"


def test_without_a_number_thoughts_have_half_of_the_budget() -> None:
    never = Sampling(logit_bias=biased("</think>", -100.0))
    (result,) = answered(make_engine(), thinking(None, max_tokens=60, sampling=never))
    assert len(split(result)[0]) == 30


def test_signs_may_be_given_and_may_be_text() -> None:
    reasoning = Reasoning(30, begin="Hm: ", end="So")
    request = GenerationRequest(
        "Who?", SCHEMA, max_tokens=80, reasoning=reasoning, sampling=Sampling(1.5, seed=3)
    )
    (result,) = answered(make_engine(), request, stream=True)
    whole = vocabulary_of().decode(result.tokens[: result.reasoning_tokens]).decode()
    assert whole == result.reasoning + "So"
    assert whole.index("So") == len(result.reasoning)
    assert json.loads(result.text)


@pytest.mark.parametrize(
    ("budget", "end_and_marks"),
    crossed([0, 3, 25], product(["\n</think>\n\n", " so </think>"], [True, False])),
)
def test_text_before_the_token_that_ends_thoughts_may_stand_in_them(
    budget: int, end_and_marks: tuple[str, bool]
) -> None:
    end, is_marked = end_and_marks
    vocabulary = vocabulary_of(is_marked=is_marked)
    before, sign, _ = end.partition("</think>")
    closing = vocabulary.spell(before)
    bias = ((closing[0], 90.0), *biased(sign, -100.0, is_marked=is_marked))
    request = GenerationRequest(
        "Who?",
        SCHEMA,
        max_tokens=96,
        reasoning=Reasoning(budget, begin="<think>", end=end),
        sampling=Sampling(temperature=2.0, seed=budget, logit_bias=bias),
    )
    (result,) = answered(make_engine(is_marked=is_marked), request, stream=True)
    thoughts, _ = split(result, is_marked=is_marked)
    assert vocabulary.decode(thoughts).decode() == result.reasoning + before
    assert budget <= len(thoughts) <= budget + len(closing)
    assert json.loads(result.text)


def test_the_first_of_an_end_with_a_token_ends_no_thought() -> None:
    vocabulary = vocabulary_of()
    end = split_at_tokens("\n</think>\n\n", vocabulary.named)
    matcher = compiler(is_marked=True).start(AfterThoughts(end, SCHEMA, 40))
    for token in vocabulary.spell("First.\nThen.\n"):
        matcher = matcher.advance(TokenId(token))
    assert isinstance(matcher, ThinkingMatcher)
    assert matcher.forced_run(Forcing.CANONICAL) == ()
    matcher = matcher.advance(vocabulary.named["</think>"])
    assert vocabulary.decode(matcher.forced_run(Forcing.CANONICAL)).startswith(b'\n\n{"name')


@pytest.mark.parametrize(
    ("end", "streamed"),
    [
        ("</think>", ["a", "\n", "b", ""]),
        ("\n</think>", ["a", "", "\nb", "", ""]),
        ("\n\n</think>", ["a", "", "\nb", "", "", ""]),
        ("\n</think>\n", ["a", "", "\nb", "", "", ""]),
    ],
)
def test_no_part_of_an_end_is_streamed_however_slowly_it_comes(
    end: str, streamed: list[str]
) -> None:
    """A token at a time, as a model writes it that no forced run helps."""
    vocabulary = vocabulary_of()
    thoughts = compiler(is_marked=True).start(
        AfterThoughts(split_at_tokens(end, vocabulary.named), SCHEMA, 40)
    )
    assert isinstance(thoughts, ThinkingMatcher)
    before, sign, after = end.partition("</think>")
    reader = ThoughtsReader(
        thoughts.thoughts, vocabulary, 0, (before + after).encode(), is_streamed=True
    )
    tokens: list[TokenId] = []
    found = []
    written = [*vocabulary.spell("a"), *vocabulary.spell("\n"), *vocabulary.spell("b")]
    for char in before:
        written += vocabulary.spell(char)
    written.append(vocabulary.named[sign])
    for char in after:
        written += vocabulary.spell(char)
    for token in written:
        assert not reader.is_over
        tokens.append(TokenId(token))
        reader.read(TokenId(token))
        found.append(reader.take_new_text(tokens))
    assert reader.is_over
    assert found == streamed
    assert reader.text(tokens) == "".join(streamed) == "a\nb"


def test_a_template_that_begins_thoughts_itself_is_left_at_that() -> None:
    of_model = texts(is_marked=True)
    thinks = ChatThoughts(of_model)
    tokens = thinks.render("Who?", None, None, ())
    opened, _ = thinks.begin_thoughts(tokens, Reasoning())
    assert of_model.tokenizer.decode([int(t) for t in opened]) == "Who?<think>\n"
    assert thinks.begin_thoughts(opened, Reasoning())[0] == opened
    assert thinks.begin_thoughts(opened[:-1], Reasoning())[0] == opened[:-1]


def test_an_end_of_ones_own_leaves_the_beginning_to_the_template() -> None:
    of_model = texts(is_marked=True)
    thinks = ChatThoughts(of_model)
    tokens = thinks.render("Who?", None, None, ())
    opened, end = thinks.begin_thoughts(tokens, Reasoning(end="So"))
    assert of_model.tokenizer.decode([int(t) for t in opened]) == "Who?<think>\n"
    assert end == (Text("So"),)
    plain = ModelTexts("plain", loaded(BUILT["built like GPT-2"]()), of_model.vocabulary, 512)
    assert ChatThoughts(plain).begin_thoughts(tokens, Reasoning(end="So")) == (
        tokens,
        (Text("So"),),
    )


def test_what_nobody_told_is_refused() -> None:
    of_model = texts(is_marked=True)
    tokenizer = loaded(BUILT["built like GPT-2"]())
    plain = ModelTexts("plain", tokenizer, of_model.vocabulary, context_window=512)
    with pytest.raises(RequestError) as refused:
        ChatThoughts(plain).begin_thoughts((TokenId(1),), Reasoning())
    assert str(refused.value) == (
        "the chat template of plain has none of the signs by which thoughts are known"
        " (<|channel|>analysis<|message|>, </think>, [/THINK], <|END_THINKING|>, <|channel>thought)"
        "; leave reasoning out, or say with begin and end what stands around them"
    )
    engine = make_engine(thinking=None)
    with pytest.raises(RequestError, match="lets no model think"):
        engine.submit("1", thinking(3))
    (result,) = answered(engine, thinking(0))
    assert (result.reasoning_tokens, result.finish_reason) == (0, FinishReason.COMPLETE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reasoning": Reasoning(10), "max_tokens": 10},
            "the thoughts may have 10 tokens, but max_tokens is 10 for thoughts and answer"
            " together; raise max_tokens, or lower it",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as refused:
        GenerationRequest("x", **options)
    assert str(refused.value) == message
    with pytest.raises(RequestError, match="begin is given without end"):
        Reasoning(begin="<x>")
