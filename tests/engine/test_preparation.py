"""A constraint that takes long to compile delays no other request."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from guided.drafters.lookup import LookupDrafter, LookupDraftState
from guided.engine.admission import Admission
from guided.errors import (
    DeadlineExceededError,
    InternalServiceError,
    LimitExceededError,
    RequestError,
)
from guided.runtime.work_budget import limited_work, spend
from guided.spec import Constraint, GenerationRequest, GenerationResult
from tests.engine.finite_language import make_vocabulary
from tests.engine.tiny_models import answers, drain, make_engine, make_model, start, words

MODEL = make_model()
SLOW = words("slow")
PLAIN = GenerationRequest(prompt="hello", max_tokens=12)


def start_slowly(constraint: Constraint) -> Any:
    """A hundred units at a time, fifty thousand in all."""
    if constraint == SLOW:
        with limited_work(100_000):
            for _ in range(500):
                spend(100)
    return start(constraint)


QUICKER = words("quick")


def start_by_length(constraint: Constraint) -> Any:
    """Ten slices for one, two for the other."""
    rounds: dict[Constraint, int] = {SLOW: 500, QUICKER: 100}
    with limited_work(100_000):
        for _ in range(rounds.get(constraint, 0)):
            spend(100)
    return start(constraint)


def ask(**options: Any) -> GenerationRequest:
    return GenerationRequest(prompt="x", constraint=SLOW, **options)


def test_the_others_have_their_steps_meanwhile() -> None:
    engine = make_engine(MODEL, start=start_slowly)
    # Long enough for slices that end early, as they do on a busy machine.
    plain = replace(PLAIN, max_tokens=100)
    engine.submit("plain", plain)
    engine.submit("slow", ask())
    steps = 0
    while not (ended := engine.step()):
        steps += 1
    assert [finished.request_id for finished in ended] == ["slow"]
    assert steps >= 5
    result = drain(engine)["plain"].outcome
    assert isinstance(result, GenerationResult)
    assert result.tokens == answers(make_engine(MODEL), {"r": plain})["r"].tokens


def test_what_is_compiled_in_one_slice_is_refused_at_once() -> None:
    engine = make_engine(MODEL, start=start_slowly)
    with pytest.raises(LimitExceededError, match="the shortest answer known has 5 tokens"):
        engine.submit("r", GenerationRequest("x", words("hello"), max_tokens=2))
    assert not engine.has_work


def test_what_goes_wrong_later_is_the_outcome(caplog: pytest.LogCaptureFixture) -> None:
    def fail(constraint: Constraint) -> Any:
        matcher = start_slowly(constraint)
        if constraint == SLOW:
            raise KeyError("a bug")
        return matcher

    engine = make_engine(MODEL, start=fail)
    engine.submit("slow", ask())
    outcome = drain(engine)["slow"].outcome
    assert isinstance(outcome, InternalServiceError)
    assert "the engine failed on request 'slow'; incident " in str(outcome)
    assert isinstance(outcome.__cause__, KeyError)
    assert len(caplog.records) == 1

    engine = make_engine(MODEL, start=start_slowly)
    engine.submit("slow", ask(max_tokens=1))
    outcome = drain(engine)["slow"].outcome
    assert isinstance(outcome, LimitExceededError)
    assert "the shortest answer known has" in str(outcome)
    assert (engine.stats().refused, engine.stats().failed) == (1, 0)


def test_an_id_is_in_use_and_a_request_can_be_cancelled_while_it_is_compiled() -> None:
    threads = threading.active_count()
    engine = make_engine(MODEL, start=start_slowly)
    engine.submit("slow", ask())
    with pytest.raises(RequestError, match="request id 'slow' is in use"):
        engine.submit("slow", ask())
    assert engine.has_work
    assert engine.step() == []
    engine.cancel("slow")
    assert not engine.has_work
    assert threading.active_count() == threads


def test_a_deadline_ends_compiling() -> None:
    now = [0.0]
    engine = make_engine(MODEL, start=start_slowly, clock=lambda: now[0])
    engine.submit("slow", ask(deadline=1.0))
    assert engine.step() == []
    now[0] = 2.0
    (finished,) = engine.step()
    assert isinstance(finished.outcome, DeadlineExceededError)
    assert not engine.has_work


def test_who_takes_long_does_not_hold_up_who_compiles_as_well() -> None:
    engine = make_engine(MODEL, start=start_by_length)
    engine.submit("slow", ask())
    engine.submit("quick", GenerationRequest("x", QUICKER))
    assert list(drain(engine)) == ["quick", "slow"]


def test_a_constraint_of_several_requests_is_compiled_once() -> None:
    started = []

    def start_counted(constraint: Constraint) -> Any:
        started.append(constraint)
        return start_slowly(constraint)

    engine = make_engine(MODEL, start=start_counted)
    for key in "abcd":
        engine.submit(key, ask())
    engine.cancel("a")
    engine.submit("refused", ask(max_tokens=1))
    ended = drain(engine)
    assert started == [SLOW]
    assert isinstance(ended["refused"].outcome, LimitExceededError)
    results = [ended[key].outcome for key in "bcd"]
    assert [result.text for result in results if isinstance(result, GenerationResult)] == (
        ["slow"] * 3
    )


def test_an_interrupted_admission_releases_what_it_opened_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = []

    def note(event: str, method: Any) -> Any:
        def noted(*args: Any) -> Any:
            events.append(event)
            return method(*args)

        return noted

    monkeypatch.setattr(LookupDrafter, "open", note("open", LookupDrafter.open))
    monkeypatch.setattr(LookupDraftState, "end", note("end", LookupDraftState.end))
    make_group = Admission.make_group

    def make_slowly(*args: Any) -> Any:
        group = make_group(*args)
        with limited_work(100_000):
            for _ in range(20):
                time.sleep(0.001)
                spend(300)
        events.append("made")
        return group

    monkeypatch.setattr(Admission, "make_group", make_slowly)
    engine = make_engine(MODEL, drafters=[LookupDrafter(make_vocabulary())])
    engine.submit("r", GenerationRequest("x", words("hello")))
    assert events == ["open", "end"]
    result = drain(engine)["r"].outcome
    assert isinstance(result, GenerationResult)
    assert result.text == "hello"
    assert events == ["open", "end", "open", "made", "end"]
