"""The default model in fp32 on the demo's requests: what forcing and drafts may change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.demo_requests import REQUESTS
from guided.engine import Engine, load_engine
from guided.response_types import adapter_of
from guided.spec import (
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Sampling,
)
from tests.engine.tiny_models import answers
from tests.kit.effort import is_long

_LONGEST = {4, 5, 6}
"""Their answers have half of all tokens; only the long form includes them."""
ASKED = [request for number, request in enumerate(REQUESTS) if is_long() or number not in _LONGEST]


@pytest.fixture(scope="module")
def engine() -> Engine:
    """In fp32: bf16 drifts with the shape of a call, and forcing changes that shape."""
    return load_engine(dtype="float32", device="cpu", threads=1)


def _answers(engine: Engine, forcing: Forcing) -> list[GenerationResult]:
    """The answers, in order, to all requests in one batch."""
    asked = {
        str(number): replace(request.specification, forcing=forcing)
        for number, request in enumerate(ASKED)
    }
    results = answers(engine, asked)
    return [results[str(number)] for number in range(len(ASKED))]


@pytest.fixture(scope="module")
def masks_alone(engine: Engine) -> list[GenerationResult]:
    return _answers(engine, Forcing.OFF)


@pytest.mark.timeout(600)
def test_strict_forcing_and_drafts_change_no_token(
    engine: Engine, masks_alone: list[GenerationResult]
) -> None:
    """Greedy, token by token, over all requests; and they do save model calls."""
    strict = _answers(engine, Forcing.STRICT)
    assert [answer.tokens for answer in strict] == [answer.tokens for answer in masks_alone]
    assert sum(answer.usage.forced_tokens for answer in masks_alone) == 0
    assert sum(answer.usage.drafted_tokens for answer in masks_alone) == 0
    assert sum(answer.usage.accepted_tokens for answer in strict) > 0
    assert _calls(strict) < _calls(masks_alone)
    for answer in (*strict, *masks_alone):
        assert answer.usage.output_tokens == len(answer.tokens)


@pytest.mark.timeout(600)
def test_canonical_forcing_needs_at_most_six_of_ten_model_calls(
    engine: Engine, masks_alone: list[GenerationResult]
) -> None:
    """Every answer stays valid, and in a batch none takes part in more calls than alone."""
    canonical = _answers(engine, Forcing.CANONICAL)
    for request, answer in zip(ASKED, canonical, strict=True):
        assert request.response_model is not None
        adapter_of(request.response_model).validate_json(answer.text)
        assert answer.finish_reason in (FinishReason.COMPLETE, FinishReason.LENGTH_CLOSED)
    assert _calls(canonical) <= 0.6 * _calls(masks_alone)


def _calls(answers: list[GenerationResult]) -> int:
    return sum(answer.usage.model_calls for answer in answers)


def test_a_weak_model_that_would_go_on_for_ever_is_closed_in_its_budget(engine: Engine) -> None:
    song = JsonSchema('{"type": "object", "properties": {"song": {"type": "string"}},'
                      ' "required": ["song"], "additionalProperties": false}')  # fmt: skip
    # Nearly uniform over the vocabulary: almost no token ends the string.
    aimless = Sampling(temperature=100.0, seed=1)
    engine.submit("song", GenerationRequest("Sing", song, max_tokens=24, sampling=aimless))
    (finished,) = _until_finished(engine)
    assert isinstance(finished, GenerationResult)
    assert finished.finish_reason is FinishReason.LENGTH_CLOSED
    assert finished.text.startswith('{"song":"')
    assert finished.text.endswith('"}')
    assert len(finished.tokens) <= 24


def _until_finished(engine: Engine) -> list[object]:
    outcomes: list[object] = []
    while engine.has_work:
        outcomes += [finished.outcome for finished in engine.step()]
    return outcomes
