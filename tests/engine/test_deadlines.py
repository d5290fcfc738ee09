"""An answer that would be late is closed one step earlier; one that has not begun is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from guided.engine.deadlines import ClosingTimes, StepTimes
from guided.engine.engine import Engine
from guided.errors import DeadlineExceededError
from guided.masks.vocabulary import Vocabulary
from guided.spec import (
    Beams,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    TokenId,
)
from tests.engine.tiny_models import drain, make_engine, make_model, words

MODEL = make_model()
LISTS = words(*(json.dumps(["ab"] * count) for count in range(1, 9)))
TOO_LATE = (
    "the deadline came before the model had chosen anything of the answer; "
    "allow more time, or send less at once"
)


class Clock:
    """Advances by a second at each forward pass, and stands still otherwise."""

    def __init__(self) -> None:
        self.now = 100.0
        self.step = 1.0

    def __call__(self) -> float:
        return self.now


def timed_engine(**options: Any) -> tuple[Engine, Clock]:
    clock = Clock()
    engine = make_engine(MODEL, clock=clock, **options)
    forward = engine._model.runner.forward

    def slow_forward(batch: Any) -> Any:
        clock.now += clock.step
        return forward(batch)

    engine._model.runner.forward = slow_forward  # type: ignore[method-assign]
    return engine, clock


def outcome_of(engine: Engine, request: GenerationRequest) -> GenerationResult:
    engine.submit("r", request)
    outcome = drain(engine)["r"].outcome
    assert isinstance(outcome, GenerationResult)
    return outcome


def ask(deadline: float | None, **options: Any) -> GenerationRequest:
    return GenerationRequest(
        prompt="hello", deadline=deadline, max_tokens=80, forcing=Forcing.OFF, **options
    )


@pytest.mark.parametrize("deadline", [1.5, 3.1, 5.5])
def test_an_answer_is_closed_by_its_deadline(deadline: float) -> None:
    """The first step shows how long one takes; no later one ends after the deadline."""
    engine, clock = timed_engine()
    result = outcome_of(engine, ask(deadline, constraint=LISTS))
    assert clock.now - 100.0 == int(deadline)
    assert result.finish_reason is FinishReason.DEADLINE_CLOSED
    assert json.loads(result.text)
    assert result.usage.sampled_tokens == result.usage.model_calls == int(deadline)


def test_a_free_text_just_ends() -> None:
    engine, _ = timed_engine()
    result = outcome_of(engine, ask(3.5))
    assert result.finish_reason is FinishReason.DEADLINE
    assert len(result.tokens) == 3


def test_an_answer_in_time_is_as_without_a_deadline() -> None:
    engine, _ = timed_engine()
    dated = outcome_of(engine, ask(60.0, constraint=LISTS))
    plain = outcome_of(engine, ask(None, constraint=LISTS))
    assert (dated.tokens, dated.finish_reason) == (plain.tokens, plain.finish_reason)


def test_one_that_expires_while_it_waits_costs_no_model_call() -> None:
    engine, clock = timed_engine(max_batch=1)
    engine.submit("first", ask(None))
    engine.step()
    engine.submit("second", ask(2.5))
    ended = drain(engine)
    error = ended["second"].outcome
    assert isinstance(error, DeadlineExceededError)
    assert str(error) == TOO_LATE
    first = ended["first"].outcome
    assert isinstance(first, GenerationResult)
    # The clock counts model calls.
    assert clock.now - 100.0 == first.usage.model_calls


def test_a_prompt_that_takes_too_long_is_not_answered_by_its_way_out() -> None:
    engine, clock = timed_engine(step_tokens=16)
    engine.submit("r", GenerationRequest("x" * 200, LISTS, max_tokens=80, deadline=4.5))
    assert isinstance(drain(engine)["r"].outcome, DeadlineExceededError)
    assert clock.now - 100.0 == 4


@pytest.mark.parametrize("beams", [None, Beams(2)], ids=["sampled", "beams"])
def test_a_forced_run_before_the_first_choice_is_no_answer(beams: Beams | None) -> None:
    """It is read in several steps, as the prompt is."""
    engine, clock = timed_engine(step_tokens=16)
    run = "k" * 70
    request = GenerationRequest(
        "hello", words(f"{run}1", f"{run}2"), max_tokens=80, deadline=2.5, beams=beams
    )
    engine.submit("late", request)
    assert isinstance(drain(engine)["late"].outcome, DeadlineExceededError)
    assert clock.now - 100.0 == 2
    result = outcome_of(engine, replace(request, deadline=60.0))
    assert result.finish_reason is FinishReason.COMPLETE


def test_a_deadline_counts_from_when_the_request_was_received() -> None:
    engine, clock = timed_engine()
    with pytest.raises(DeadlineExceededError, match="allow more time"):
        engine.submit("late", ask(2.0), received=clock.now - 3.0)
    assert not engine.has_work
    assert engine.stats().refused == 1
    engine.submit("r", ask(5.0), received=clock.now - 2.5)
    outcome = drain(engine)["r"].outcome
    assert isinstance(outcome, GenerationResult)
    assert outcome.usage.model_calls == 2


def test_a_neighbour_without_a_deadline_is_left_alone() -> None:
    engine, _ = timed_engine()
    alone = outcome_of(engine, ask(None))
    engine.submit("dated", ask(4.0, constraint=LISTS))
    engine.submit("plain", ask(None))
    ended = drain(engine)
    dated, plain = ended["dated"].outcome, ended["plain"].outcome
    assert isinstance(dated, GenerationResult)
    assert isinstance(plain, GenerationResult)
    assert dated.finish_reason is FinishReason.DEADLINE_CLOSED
    assert plain.tokens == alone.tokens


def test_the_text_of_a_closed_answer_is_streamed_to_its_end() -> None:
    engine, _ = timed_engine()
    engine.submit("r", ask(3.5, constraint=LISTS), stream=True)
    text, ended = "", []
    while engine.has_work:
        ended += engine.step()
        text += "".join(delta.text for delta in engine.take_deltas())
    (finished,) = ended
    assert isinstance(finished.outcome, GenerationResult)
    assert text == finished.outcome.text


@pytest.mark.parametrize("hiccup_at", [1, 3])
def test_one_slow_step_does_not_turn_all_later_requests_away(hiccup_at: int) -> None:
    """For example if the machine was asleep during a step of a prompt, or of one token."""
    engine, clock = timed_engine(reuse_prefixes=False)
    engine.submit("unlucky", ask(None))
    for number in range(1, 5):
        clock.step = 60.0 if number == hiccup_at else 1.0
        assert not engine.step()
    engine.cancel("unlucky")
    for attempt in range(8):
        engine.submit(str(attempt), ask(30.0, constraint=LISTS))
        outcome = drain(engine)[str(attempt)].outcome
    assert isinstance(outcome, GenerationResult)
    assert outcome.finish_reason is FinishReason.COMPLETE


def test_time_is_left_for_the_closing_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first closing takes longer than expected and is late; the second is begun earlier."""
    engine, clock = timed_engine()
    decode = Vocabulary.decode

    def slow_decode(vocabulary: Vocabulary, tokens: Iterable[TokenId]) -> bytes:
        clock.now += 0.7
        return decode(vocabulary, tokens)

    monkeypatch.setattr(Vocabulary, "decode", slow_decode)
    for steps, seconds in ((3, 3.7), (2, 2.7)):
        began = clock.now
        result = outcome_of(engine, ask(3.5, constraint=LISTS))
        assert result.finish_reason is FinishReason.DEADLINE_CLOSED
        assert result.usage.model_calls == steps
        assert clock.now - began == pytest.approx(seconds)


def test_one_slow_closing_does_not_turn_all_later_requests_away() -> None:
    engine, _ = timed_engine()
    engine._deadlines.closings.record(60.0)
    for attempt in range(12):
        engine.submit(str(attempt), ask(30.0, constraint=LISTS))
        outcome = drain(engine)[str(attempt)].outcome
    assert isinstance(outcome, GenerationResult)
    assert outcome.finish_reason is FinishReason.COMPLETE


def test_closings_are_expected_to_take_what_the_longest_took_lately() -> None:
    times = ClosingTimes()
    assert times.expected_seconds == 0.01
    times.record(0.2)
    assert times.expected_seconds == 0.2
    times.record(0.1)
    assert times.expected_seconds == 0.1
    times.record(0.0)
    assert times.expected_seconds == 0.05
    times.decay()
    assert times.expected_seconds == pytest.approx(0.0495)
    for _ in range(200):
        times.decay()
    assert times.expected_seconds == 0.01


def test_steps_are_expected_to_take_what_like_ones_took() -> None:
    times = StepTimes()
    assert times.expected_seconds(5) == 0.0
    times.record(5, 1.0)
    times.record(300, 8.0)
    assert [times.expected_seconds(tokens) for tokens in (1, 4, 7, 8, 511, 512, 1024)] == (
        [1.0, 1.0, 1.0, 8.0, 8.0, 16.0, 32.0]
    )
    for _ in range(3):
        times.record(6, 0.5)
    assert times.expected_seconds(5) == pytest.approx(0.729)
    times.record(6, 3.0)
    assert times.expected_seconds(5) == 3.0
    times.halve(5)
    assert times.expected_seconds(5) == 1.5
    times.halve(512)
    assert [times.expected_seconds(tokens) for tokens in (512, 1024)] == [8.0, 16.0]
