"""Answers that continue a text: exact, however they are made, and without what the prompt has."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.errors import LimitExceededError, RequestError
from guided.masks.healing import OpenEnds
from guided.spec import (
    Beams,
    Constraint,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Message,
    Regex,
    Sampling,
    TokenId,
    Verification,
)
from guided.spec.composition import Sequence, Text
from tests.engine.test_reasoning import answered, compiler, make_engine, texts, vocabulary_of
from tests.kit.effort import crossed

SCHEMA = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 4},'
    ' "names": {"type": "array", "items": {"enum": [1, 12, 123]}, "maxItems": 2}},'
    ' "required": ["name", "names"], "additionalProperties": false}'
)
ASKED = (Message("user", "the names"),)
DRAWN = Sampling(1.1, seed=3)
RAW = ("the nam", "it's in the th", 'see {"', "!! http:", "a\n  b\n", "名", "123", "é e")


def engine(**options: Any) -> Engine:
    return make_engine(is_marked=True, **options)


def drafting() -> Engine:
    return engine(drafters=(LookupDrafter(vocabulary_of()),), widest_draft=12)


def continued(begun: str, constraint: Constraint = SCHEMA, **options: Any) -> GenerationRequest:
    given: dict[str, Any] = {"max_tokens": 60, "continue_final_message": True} | options
    return GenerationRequest((*ASKED, Message("assistant", begun)), constraint, **given)


def one(request: GenerationRequest, of: Engine | None = None, **how: Any) -> GenerationResult:
    (result,) = answered(engine() if of is None else of, request, **how)
    assert isinstance(result, GenerationResult)
    return result


def prompt_tokens(request: GenerationRequest) -> tuple[TokenId, ...]:
    return engine().prepare(request).tokens


BEGUN = (
    "{",
    '{"',
    '{"name',
    '{"name":"',
    '{"name":"é',
    '{"name":"Ada","names":[1',
    '{"name":"","names":[]}',
)


@pytest.mark.parametrize("heal", [None, False])
@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("sampling", [Sampling(), DRAWN])
def test_the_message_and_the_answer_fit_the_schema_together(
    begun: str, heal: bool | None, sampling: Sampling
) -> None:
    request = continued(begun, heal=heal, sampling=sampling)
    result = one(request, stream=True)
    whole = json.loads(begun + result.text)
    assert [*whole] == ["name", "names"]
    assert result.finish_reason is FinishReason.COMPLETE


@pytest.mark.parametrize("heal", [None, False])
@pytest.mark.parametrize(("begun", "sampling"), crossed(BEGUN[1:4], [Sampling(), DRAWN]))
def test_speed_changes_nothing(begun: str, sampling: Sampling, heal: bool | None) -> None:
    request = continued(begun, heal=heal, sampling=sampling, forcing=Forcing.STRICT)
    plain = one(replace(request, forcing=Forcing.OFF))
    for of in (engine(), drafting()):
        assert one(request, of).tokens == plain.tokens
    of_canonical = one(replace(request, forcing=Forcing.CANONICAL))
    assert (
        one(replace(request, forcing=Forcing.CANONICAL), drafting()).tokens == of_canonical.tokens
    )


def test_without_healing_the_model_reads_the_tokens_of_the_message() -> None:
    request = continued('{"nam', heal=False)
    tokenizer = texts(is_marked=True).tokenizer
    assert [*prompt_tokens(request)] == tokenizer.encode(
        'the names\n{"nam', add_special_tokens=False
    )
    healed = prompt_tokens(replace(request, heal=None))
    assert healed == prompt_tokens(request)[: len(healed)]
    assert len(healed) < len(prompt_tokens(request))


def test_no_request_waits_for_the_tokens_to_be_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    of = engine()
    monkeypatch.setattr(OpenEnds, "__init__", None)
    assert len(of.prepare(continued('{"nam')).tokens) < len(
        of.prepare(continued('{"nam', heal=False)).tokens
    )


def test_healing_stops_where_the_message_begins() -> None:
    """Whatever the template writes before a message is no part of the answer."""
    for begun in ("n", "na", " nam"):
        whole = prompt_tokens(continued(begun, None, heal=False))
        healed = prompt_tokens(continued(begun, None))
        removed = vocabulary_of().decode(whole[len(healed) :]).decode()
        assert begun.endswith(removed)


@cache
def healed_prompts() -> tuple[tuple[str, str], ...]:
    """Prompts with the part of each that is spelled again, of which there is one."""
    ends, found = OpenEnds(vocabulary_of()), []
    for prompt in RAW:
        tokens = prompt_tokens(GenerationRequest(prompt, max_tokens=8))
        if count := ends.count(tokens, prompt):
            found.append((prompt, ends.text_of(tokens[-count:])))
    assert len(found) > 4
    return tuple(found)


@pytest.mark.parametrize("sampling", [Sampling(), DRAWN])
@pytest.mark.parametrize("pattern", ["[a-z]{4}", "(me|x|//)[0-9]*y"])
def test_a_healed_prompt_is_answered_as_by_masked_decoding_of_the_shorter_one(
    pattern: str, sampling: Sampling
) -> None:
    """The same tokens as of the shorter prompt, under a constraint that begins with the rest."""
    for prompt, respelled in healed_prompts()[:3]:
        shorter = prompt.removesuffix(respelled)
        asked = GenerationRequest(prompt, Regex(pattern), max_tokens=16, sampling=sampling)
        # The shorter prompt has the tokens that are left: none of them spelled a part of the rest.
        assert prompt_tokens(replace(asked, heal=True)) == prompt_tokens(
            replace(asked, prompt=shorter)
        )
        whole = Sequence([Text(respelled), Regex(pattern)])
        expected = one(replace(asked, prompt=shorter, constraint=whole, forcing=Forcing.OFF))
        for forcing in (Forcing.OFF, Forcing.STRICT):
            for of in (engine(), drafting()):
                found = one(replace(asked, heal=True, forcing=forcing), of, stream=True)
                assert found.tokens == expected.tokens
                assert respelled + found.text == expected.text
                assert found.finish_reason is expected.finish_reason


@pytest.mark.parametrize("sampling", [Sampling(), DRAWN])
def test_free_text_is_healed_with_drafts_and_without(sampling: Sampling) -> None:
    vocabulary = vocabulary_of()
    for prompt, respelled in healed_prompts():
        request = GenerationRequest(
            prompt, max_tokens=12, sampling=sampling, heal=True, top_logprobs=2
        )
        plain = one(replace(request, forcing=Forcing.OFF), stream=True)
        spelled = vocabulary.decode(plain.tokens)
        assert spelled.startswith(respelled.encode())
        assert plain.text == spelled[len(respelled.encode()) :].decode(errors="replace")
        assert plain.finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
        found = one(replace(request, top_logprobs=None), drafting(), stream=True)
        assert (found.tokens, found.text) == (plain.tokens, plain.text)
        # Each entry is of a token as it was written.
        assert b"".join(each.text for each in plain.logprobs) == spelled
        assert plain.logprobs[0].raw is not None
        assert plain.logprobs[0].masked is not None
        assert plain.logprobs[0].masked > plain.logprobs[0].raw


@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.TYPICAL])
def test_other_rules_of_drafts_keep_to_the_text(verification: Verification) -> None:
    for begun in BEGUN:
        request = continued(begun, sampling=DRAWN, verification=verification)
        json.loads(begun + one(request, drafting()).text)


def test_several_answers_and_beams_are_healed() -> None:
    for options in (
        {"n": 3, "sampling": DRAWN},
        {"n": 2, "beams": Beams(3)},
        {"sampling": Sampling(top_k=4, penalty_alpha=0.5)},
    ):
        for result in (one(continued('{"nam', **options)),):
            for each in result.candidates or (result,):
                assert {*json.loads('{"nam' + each.text)} == {"name", "names"}
    for prompt, _ in healed_prompts():
        request = GenerationRequest(prompt, max_tokens=6, heal=True, beams=Beams(2), n=2)
        assert one(request).candidates


def test_stops_are_searched_for_in_the_answer_alone() -> None:
    prompt, respelled = healed_prompts()[0]
    request = GenerationRequest(prompt, max_tokens=16, heal=True)
    whole = one(request)
    assert len(whole.text) > 2
    unheard = one(replace(request, stop=(respelled[-1] + whole.text[:1],)))
    assert unheard.text == whole.text
    stop = whole.text[1:3]
    expected = whole.text[: whole.text.index(stop)]
    stopped = one(replace(request, stop=(stop,)), stream=True)
    assert (stopped.text, stopped.finish_reason) == (expected, FinishReason.STOP_SEQUENCE)
    kept = one(replace(request, stop=(stop,), include_stop=True), stream=True)
    assert kept.text == expected + stop


def first_token_of(result: GenerationResult) -> str:
    return vocabulary_of().decode(result.tokens[:1]).decode()


def test_a_token_that_only_spells_the_prompt_again_stops_nothing() -> None:
    request = GenerationRequest("!! http:", max_tokens=16, heal=True)
    whole = one(request)
    assert first_token_of(whole) == ":"
    assert whole.tokens[0] not in whole.tokens[1:]
    stopped = one(replace(request, stop_tokens=whole.tokens[:1]))
    assert (stopped.tokens, stopped.text) == (whole.tokens, whole.text)


def test_a_stop_token_that_begins_in_the_prompt_leaves_out_what_the_prompt_has() -> None:
    request = GenerationRequest('see {"', max_tokens=16, heal=True)
    whole = one(request)
    assert first_token_of(whole) == ' {""}'
    for include, text in ((False, ""), (True, '"}')):
        stopped = one(replace(request, stop_tokens=whole.tokens[:1], include_stop=include))
        assert (stopped.text, stopped.finish_reason) == (text, FinishReason.STOP_SEQUENCE)


def test_a_budget_leaves_room_for_what_is_spelled_again() -> None:
    for prompt, respelled in healed_prompts()[:3]:
        request = GenerationRequest(prompt, max_tokens=8, heal=True)
        held = engine().prepare(request).constraint
        least = len(compiler(is_marked=True).start(held).shortest_completion())
        tokens = one(replace(request, max_tokens=least)).tokens
        assert len(tokens) == least
        assert vocabulary_of().decode(tokens).startswith(respelled.encode())
        if least > 1:
            with pytest.raises(LimitExceededError, match=f"allow at least {least}"):
                one(replace(request, max_tokens=least - 1))


def test_a_budget_closes_the_answer_to_a_message() -> None:
    request = continued('{"name":"A', max_tokens=4)
    with pytest.raises(LimitExceededError, match="allow at least"):
        one(request)
    for most in range(16, 30, 3):
        closed = one(replace(request, max_tokens=most))
        json.loads('{"name":"A' + closed.text)
        assert len(closed.tokens) <= most


def test_a_message_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RequestError, match=r"at character 8 .*may not come after"):
        one(continued('{"name":1'))


def test_a_whole_message_is_complete_at_once() -> None:
    result = one(continued('{"name":"","names":[]}', heal=False))
    assert (result.text, result.tokens, result.finish_reason) == ("", (), FinishReason.COMPLETE)
    assert result.usage.model_calls == 0
