"""A matcher that raises, whatever it raises and in whatever call, ends only its own request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numba
import pytest

from guided.drafters import LookupDrafter
from guided.errors import GuidedError, InternalServiceError, LimitExceededError
from guided.spec import Beams, Constraint, Forcing, GenerationRequest, GenerationResult, Sampling
from tests.engine.finite_language import WordMatcher, make_vocabulary, spell_bytes
from tests.engine.tiny_models import answers, drain, make_engine, make_model, start, words
from tests.kit.effort import crossed

MODEL = make_model()
TEXTS = ("name abcdna 12", "name abcd 12 12", "na", "abc name 12 ab 12")


class Panic(BaseException):
    """An error such as compiled libraries raise: not an ``Exception``."""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


FAULTS = (
    AssertionError("no completion from state 7"),
    IndexError("row 7 of 5"),
    numba.core.errors.TypingError("cannot unify"),
    RecursionError("too deep"),
    MemoryError(),
    Panic("index out of bounds"),
    UnprintableError(),
    GeneratorExit(),
)


@dataclass
class Fuse:
    """Lets some calls through, and raises at all later ones."""

    left: int
    fault: BaseException
    blown_by: str | None = None

    def pass_on(self, name: str) -> None:
        self.left -= 1
        if self.left < 0:
            self.blown_by = self.blown_by or name
            raise self.fault


class Faulty:
    """A matcher of words that raises when its fuse blows."""

    def __init__(self, matcher: WordMatcher, fuse: Fuse) -> None:
        self.matcher, self.fuse = matcher, fuse

    def __getattr__(self, name: str) -> Any:
        self.fuse.pass_on(name)
        return getattr(self.matcher, name)

    def advance(self, token: Any) -> Faulty:
        self.fuse.pass_on("advance")
        return Faulty(self.matcher.advance(token), self.fuse)


BAD = GenerationRequest(prompt="hello name", constraint=words(*TEXTS), max_tokens=30)
KINDS: dict[str, GenerationRequest] = {
    "greedy": BAD,
    "without runs": replace(BAD, forcing=Forcing.OFF),
    "strict runs": replace(BAD, forcing=Forcing.STRICT),
    "sampled": replace(BAD, n=3, sampling=Sampling(1.0, seed=1), top_logprobs=2),
    "beams": replace(BAD, n=2, beams=Beams(3)),
    "contrastive": replace(BAD, sampling=Sampling(top_k=3, penalty_alpha=0.6)),
    "closed at the budget": replace(BAD, max_tokens=4, n=2, sampling=Sampling(2.0, seed=3)),
    "beams at the budget": replace(BAD, max_tokens=4, beams=Beams(3)),
}
GOOD = GenerationRequest(prompt="hello name ab", constraint=words(*TEXTS), max_tokens=30)
FAULTY = words("faulty")


@cache
def alone() -> tuple[int, ...]:
    return answers(make_engine(MODEL), {"good": GOOD})["good"].tokens


def run(engine: Any, request: GenerationRequest) -> tuple[Any, ...]:
    """The outcomes of the faulty request, a neighbour, and a request that begins like both."""
    ended: dict[str, Any] = {}
    engine.submit("good", GOOD)
    ended |= {finished.request_id: finished.outcome for finished in engine.step()}
    try:
        engine.submit("bad", replace(request, constraint=FAULTY))
    except GuidedError as error:
        ended["bad"] = error
    while engine.has_work:
        for finished in engine.step():
            assert finished.request_id not in ended, "it ended twice"
            ended[finished.request_id] = finished.outcome
        engine.check()
    later = answers(engine, {"later": GOOD})["later"]
    return ended["bad"], ended["good"], later


def faulty_engine(fuse: Fuse, **options: Any) -> Any:
    def start_faulty(constraint: Constraint) -> Any:
        if constraint == FAULTY:
            fuse.pass_on("start")
            return Faulty(WordMatcher.of(TEXTS), fuse)
        return start(constraint)

    drafters = LookupDrafter(make_vocabulary())
    return make_engine(MODEL, start=start_faulty, drafters=(drafters,), widest_draft=8, **options)


def fuses() -> Iterator[Fuse]:
    """Fuses dense at the beginning, then about every ninth call, with all kinds of faults."""
    calls = 0
    while True:
        yield Fuse(calls, FAULTS[calls % len(FAULTS)])
        calls += 1 if calls < 12 else 1 + calls // 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_a_matcher_ends_its_request_alone(kind: str) -> None:
    blown: set[str | None] = set()
    for fuse in fuses():
        bad, good, later = run(faulty_engine(fuse), KINDS[kind])
        assert good.tokens == alone(), fuse
        assert later.tokens == alone(), fuse
        if fuse.blown_by is None:
            assert isinstance(bad, GenerationResult)
            break
        blown.add(fuse.blown_by)
        assert type(bad) is InternalServiceError, (fuse, bad)
        assert bad.__cause__ is fuse.fault
    assert {"start", "advance", "can_complete_within"} <= blown


@pytest.mark.parametrize(
    ("kind", "method"), crossed(KINDS, ["is_complete", "mask", "shortest_completion", "forced_run"])
)
def test_a_method_that_always_fails_harms_nobody_else(kind: str, method: str) -> None:
    class Broken(Faulty):
        def advance(self, token: Any) -> Broken:
            return Broken(self.matcher.advance(token), self.fuse)

        def __getattr__(self, name: str) -> Any:
            if name == method:
                raise self.fuse.fault
            return getattr(self.matcher, name)

    fuse = Fuse(0, AssertionError(method))
    engine = make_engine(
        MODEL,
        start=lambda asked: (
            Broken(WordMatcher.of(TEXTS), fuse) if asked == FAULTY else start(asked)
        ),
        drafters=(LookupDrafter(make_vocabulary()),),
        widest_draft=8,
    )
    bad, good, later = run(engine, KINDS[kind])
    assert isinstance(bad, GenerationResult | InternalServiceError)
    assert isinstance(bad, InternalServiceError) or method == "shortest_completion"
    assert good.tokens == later.tokens == alone()


def test_a_matcher_that_fails_at_a_deadline_harms_nobody_else() -> None:
    now = 0.0
    fuse = Fuse(10**9, IndexError("row 7 of 5"))
    engine = faulty_engine(fuse, clock=lambda: now)
    slow = replace(GOOD, forcing=Forcing.OFF)
    alone = answers(make_engine(MODEL), {"good": slow})["good"].tokens
    engine.submit("good", slow)
    bad = replace(BAD, constraint=FAULTY, deadline=50.0, forcing=Forcing.OFF)
    engine.submit("bad", bad)
    engine.step()
    engine.step()
    fuse.left, now = 0, 100.0
    ended: dict[str, Any] = {}
    while engine.has_work:
        ended |= {finished.request_id: finished.outcome for finished in engine.step()}
        engine.check()
    assert fuse.blown_by == "shortest_completion"
    assert isinstance(ended["bad"], InternalServiceError)
    assert ended["good"].tokens == alone


@pytest.mark.parametrize("leave", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_process_is_not_held_up(leave: type[BaseException]) -> None:
    fuse = Fuse(10**9, leave())
    engine = faulty_engine(fuse)
    engine.submit("bad", replace(BAD, constraint=FAULTY, forcing=Forcing.OFF))
    fuse.left = 0
    with pytest.raises(leave):
        engine.step()


def test_an_error_that_is_told_stays_what_it_is() -> None:
    limit = LimitExceededError("too many states", limit=7)
    fuse = Fuse(0, limit)
    bad, good, _ = run(faulty_engine(fuse), BAD)
    assert bad is limit
    assert good.tokens == alone()


def test_what_the_cache_knows_of_a_failed_contrastive_search_is_true() -> None:
    """Rows are moved before any request can find the blocks that they belong to."""

    def render(prompt: Any, *_: object) -> Any:
        return tuple(map(int, prompt.split()))

    def ask(tokens: Any, **options: Any) -> GenerationRequest:
        return GenerationRequest(" ".join(map(str, tokens)), max_tokens=18, **options)

    prompt = spell_bytes(b"hello name")
    contrastive = ask(prompt, sampling=Sampling(top_k=4, penalty_alpha=0.9))
    contrastive = replace(contrastive, constraint=FAULTY, forcing=Forcing.OFF)
    whole = Fuse(10**9, IndexError())
    answer = answers(faulty_engine(whole, render=render), {"r": contrastive})["r"].tokens
    longer = ask((*prompt, *answer), top_logprobs=0)
    expected = answers(faulty_engine(whole, render=render), {"r": longer})["r"]
    reused = 0
    for calls in range(0, 10**9 - whole.left, 5):
        engine = faulty_engine(Fuse(calls, IndexError("row 7 of 5")), render=render)
        with suppress(InternalServiceError):
            engine.submit("failing", contrastive)
        assert all(isinstance(one.outcome, GuidedError) for one in drain(engine).values())
        found = answers(engine, {"r": longer})["r"]
        reused = max(reused, found.usage.reused_tokens)
        assert [one.raw for one in found.logprobs] == pytest.approx(
            [one.raw for one in expected.logprobs]
        )
    assert reused > len(prompt)
