"""An answer that needs much building pauses; the others continue meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.runtime.work_budget import MUST_PAUSE, limited_work, spend
from guided.spec import (
    Beams,
    Constraint,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
)
from tests.engine.finite_language import WordMatcher, make_vocabulary
from tests.engine.tiny_models import answers, drain, make_engine, make_model, start, words
from tests.kit.effort import crossed

MODEL = make_model()
SLOW = words("name abcdna 12", "name abcd 12 12", "na", "abc name 12 ab 12")
PLAIN = GenerationRequest("hello", max_tokens=40)
_PIECES = 5
_LIMIT = 2**60


class SlowMatcher:
    """Builds its first results in pieces, under a lock, as constraints do.

    Each piece ends a slice, and is too much for a step, whatever time it takes.
    """

    def __init__(self, inner: WordMatcher, built: set[Any], lock: threading.RLock) -> None:
        self._inner, self._built, self._lock = inner, built, lock
        self.is_accepting, self.is_complete = inner.is_accepting, inner.is_complete

    def _build(self, what: str) -> None:
        key = what, self._inner.rests
        with limited_work(_LIMIT, lock=self._lock):
            if key not in self._built:
                for _ in range(_PIECES):
                    spend(MUST_PAUSE)
                self._built.add(key)

    def mask(self) -> Any:
        self._build("mask")
        return self._inner.mask()

    def allows(self, token: Any) -> bool:
        return self._inner.allows(token)

    def advance(self, token: Any) -> SlowMatcher:
        self._build("advance")
        return SlowMatcher(self._inner.advance(token), self._built, self._lock)

    def forced_run(self, forcing: Forcing) -> Any:
        self._build("forced run")
        return self._inner.forced_run(forcing)

    def likely_run(self) -> Any:
        return self._inner.likely_run()

    def shortest_completion(self) -> Any:
        with limited_work(_LIMIT, lock=self._lock):
            return self._inner.shortest_completion()

    def can_complete_within(self, budget: int) -> bool:
        return self._inner.can_complete_within(budget)

    def mask_within(self, budget: int) -> Any:
        return self._inner.mask_within(budget)


def slowly() -> Any:
    built: set[Any] = set()
    lock = threading.RLock()

    def begin(constraint: Constraint) -> Any:
        matcher = start(constraint)
        return SlowMatcher(matcher, built, lock) if constraint == SLOW else matcher

    return begin


REQUESTS = {
    "greedy": GenerationRequest("x", SLOW),
    "sampled": GenerationRequest("x", SLOW, sampling=Sampling(1.0, seed=3)),
    "without forcing": GenerationRequest("x", SLOW, forcing=Forcing.OFF),
    "several": GenerationRequest("x", SLOW, n=3, sampling=Sampling(1.0, seed=3)),
    "beams": GenerationRequest("x", SLOW, n=2, beams=Beams(3)),
    "contrastive": GenerationRequest("x", SLOW, sampling=Sampling(penalty_alpha=0.6, top_k=3)),
}


@pytest.mark.parametrize(("name", "drafts"), crossed(REQUESTS, [False, True]))
def test_an_answer_that_pauses_is_the_same_and_the_others_go_on(name: str, drafts: bool) -> None:
    options: dict[str, Any] = {}
    if drafts:
        drafter = LookupDrafter(make_vocabulary())
        options = {"drafters": (drafter,), "widest_draft": 4}
    request = REQUESTS[name]
    expected = answers(make_engine(MODEL, **options), {"slow": request, "plain": PLAIN})
    engine = make_engine(MODEL, start=slowly(), **options)
    engine.submit("plain", PLAIN, stream=True)
    engine.submit("slow", request)
    steps = 0
    outcomes: dict[str, Any] = {}
    while engine.has_work:
        outcomes |= {each.request_id: each.outcome for each in engine.step()}
        steps += 1
        engine.check()
    for key, result in expected.items():
        found = outcomes[key]
        assert isinstance(found, GenerationResult)
        assert (found.tokens, found.finish_reason) == (result.tokens, result.finish_reason)
        assert [each.tokens for each in found.candidates] == [
            each.tokens for each in result.candidates
        ]
    # One result alone takes as many slices as it has pieces, and the answer needs several.
    assert steps > 2 * _PIECES


class ForgetfulMatcher:
    """Takes long to find its end at every call, and remembers nothing of it."""

    def __init__(self, inner: WordMatcher) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def can_complete_within(self, budget: int) -> bool:
        with limited_work(_LIMIT):
            for _ in range(_PIECES):
                spend(MUST_PAUSE)
        return self._inner.can_complete_within(budget)


@pytest.mark.parametrize(("budget", "is_answered"), [(1, False), (200, True)])
def test_to_admit_a_request_comes_to_an_end_where_nothing_of_it_is_remembered(
    budget: int, is_answered: bool
) -> None:
    def begin(constraint: Constraint) -> Any:
        return ForgetfulMatcher(start(constraint))

    engine = make_engine(MODEL, start=begin)
    engine.submit("plain", replace(PLAIN, constraint=None))
    constraint = words("name abcdna 12")
    engine.submit("slow", GenerationRequest("x", constraint, max_tokens=budget))
    steps = 0
    outcomes: dict[str, Any] = {}
    while "slow" not in outcomes:
        outcomes |= {each.request_id: each.outcome for each in engine.step()}
        steps += 1
        assert steps < 200
    assert isinstance(outcomes["slow"], GenerationResult) is is_answered


def started(**options: Any) -> Engine:
    """An engine with an answer that pauses."""
    engine = make_engine(MODEL, start=slowly(), **options)
    engine.submit("slow", GenerationRequest("x", SLOW, forcing=Forcing.OFF, deadline=9.0))
    while not len(engine._paused):
        engine.step()
    return engine


def test_an_answer_that_pauses_can_be_cancelled() -> None:
    engine = started()
    engine.cancel("slow")
    assert not engine.has_work
    engine.check()
    # Nothing holds the lock of the constraint any more.
    assert isinstance(
        answers(engine, {"again": GenerationRequest("x", SLOW)})["again"], GenerationResult
    )


def test_a_deadline_closes_an_answer_that_pauses_though_others_build_for_its_constraint() -> None:
    now = [0.0]
    engine = started(clock=lambda: now[0])
    engine.submit("other", GenerationRequest("y", SLOW, forcing=Forcing.OFF))
    # Until the first answer has a token and the other pauses as well.
    while len(engine._paused) < 2 or not engine._requests.group("slow").num_chosen:
        engine.step()
    now[0] = 10.0
    ended = drain(engine)
    closed, other = ended["slow"].outcome, ended["other"].outcome
    assert isinstance(closed, GenerationResult)
    assert isinstance(other, GenerationResult)
    assert closed.finish_reason is FinishReason.DEADLINE_CLOSED
    assert other.text in ("name abcdna 12", "name abcd 12 12", "na", "abc name 12 ab 12")
