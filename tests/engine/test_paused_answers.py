"""An answer that needs much building pauses; the others continue meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.engine.constraint_tasks import FinishedTask, Task
from guided.engine.engine import Engine
from guided.masks.thinking import ThinkingMatcher
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
from guided.spec.composition import Text
from guided.spec.findings import MaskReport
from guided.spec.thoughts import AfterThoughts
from tests.engine.finite_language import TOKEN_BYTES, WordMatcher, make_vocabulary, spell_bytes
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

    def __init__(
        self,
        inner: WordMatcher,
        built: set[Any],
        lock: threading.RLock,
        builder: int = 1,
        building: list[int] | None = None,
    ) -> None:
        """``building`` has the number of the one that builds, ``builder``, while it does."""
        self._inner, self._built, self._lock = inner, built, lock
        self._builder, self._building = builder, [] if building is None else building
        self.is_accepting, self.is_complete = inner.is_accepting, inner.is_complete

    def _build(self, what: str) -> None:
        key = what, self._inner.rests
        with limited_work(_LIMIT, lock=self._lock):
            if key not in self._built:
                self._building.append(self._builder)
                try:
                    for _ in range(_PIECES):
                        spend(MUST_PAUSE)
                finally:
                    self._building.clear()
                self._built.add(key)

    def mask(self) -> Any:
        self._build("mask")
        return self._inner.mask()

    def allows(self, token: Any) -> bool:
        return self._inner.allows(token)

    def advance(self, token: Any) -> SlowMatcher:
        self._build("advance")
        after = self._inner.advance(token)
        return SlowMatcher(after, self._built, self._lock, self._builder, self._building)

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


def slowly(building: list[int] | None = None) -> Any:
    """Matchers of SLOW are numbered from 1; ``building`` has that of the one that builds."""
    built: set[Any] = set()
    lock = threading.RLock()
    numbers = count(1)
    now_building = [] if building is None else building

    def begin(constraint: Constraint) -> Any:
        if isinstance(constraint, AfterThoughts):
            answer = begin(constraint.answer)
            thoughts: Any = WordMatcher.of(("abc 12", "na 12"))
            return ThinkingMatcher.before(
                thoughts, answer, constraint.max_tokens, len(b"12"), len(TOKEN_BYTES)
            )
        matcher = start(constraint)
        if constraint != SLOW:
            return matcher
        return SlowMatcher(matcher, built, lock, next(numbers), now_building)

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


def started(building: list[int] | None = None, **options: Any) -> Engine:
    """An engine with an answer that pauses; its matcher is number 1."""
    engine = make_engine(MODEL, start=slowly(building), **options)
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


_AFTER_THOUGHTS = AfterThoughts((Text("12"),), SLOW, 20)
OTHERS = {
    "after thoughts": (GenerationRequest("y", _AFTER_THOUGHTS, forcing=Forcing.OFF),),
    "beams": (GenerationRequest("y", SLOW, forcing=Forcing.OFF, beams=Beams(2)),),
    "several beams": tuple(
        GenerationRequest(prompt, SLOW, forcing=Forcing.OFF, beams=Beams(2)) for prompt in "yz"
    ),
    "a sample, for which beams wait": (
        GenerationRequest("y", SLOW, forcing=Forcing.OFF),
        GenerationRequest("z", SLOW, forcing=Forcing.OFF, beams=Beams(2)),
    ),
    "a look at a mask": (),
}
"""Requests beside the one that is closed; the first of them builds then, or the look does."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("name", OTHERS)
def test_a_deadline_closes_an_answer_whatever_holds_the_lock_of_its_constraint(
    name: str, turn: int
) -> None:
    """What it waits for would only go on after the closing, whoever has the turn then."""
    now = [0.0]
    building: list[int] = []
    engine = started(building, clock=lambda: now[0])
    while not engine._requests.group("slow").num_chosen:
        engine.step()
    for number, request in enumerate(OTHERS[name]):
        engine.submit(str(number), request)
    if not OTHERS[name]:
        engine.constraint_tasks.submit(
            "look", lambda: Task("mask", SLOW, tokens=(spell_bytes(b"na")[0],))
        )
    looked: list[FinishedTask] = []
    while building != [2] or (turn := turn - 1) >= 0:
        engine.step()
        looked += engine.constraint_tasks.run_slice(may_wait=False)
    assert building == [2]
    now[0] = 10.0
    ended = drain(engine)
    closed = ended["slow"].outcome
    assert isinstance(closed, GenerationResult)
    assert closed.finish_reason is FinishReason.DEADLINE_CLOSED
    for number in range(len(OTHERS[name])):
        assert isinstance(ended[str(number)].outcome, GenerationResult)
    while engine.constraint_tasks.has_work:
        looked += engine.constraint_tasks.run_slice()
    assert all(isinstance(each.outcome, MaskReport) for each in looked)
    assert len(looked) == (not OTHERS[name])
