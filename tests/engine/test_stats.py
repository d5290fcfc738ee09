"""The counts of an engine equal the sums over its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from guided.decoding import DraftBuilder
from guided.engine.counters import BOUNDS, DurationHistogram
from guided.errors import RequestError, TokenRejectedError
from guided.spec import Beams, FinishReason, Forcing, GenerationRequest, Sampling, TokenId, Usage
from guided.stats import Phase
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.test_isolation import FaultyMatcher
from tests.engine.tiny_models import answers, drain, make_engine, render, words

MANY = {
    "complete": GenerationRequest("abc", words("yes, indeed", "yes, if", "no"), 16),
    "closed": GenerationRequest("abc", words("no" * 9, "no" * 9 + "no", "n"), 8),
    "free": GenerationRequest("xyz" * 9, None, 12),
    "certain": GenerationRequest("abc", words("yes"), 4),
    "plain": GenerationRequest("abc", words("yes, indeed", "no"), 16, forcing=Forcing.OFF),
}


def test_totals_are_those_of_the_answers() -> None:
    engine = make_engine()
    results = answers(engine, MANY)
    stats = engine.stats()
    assert stats.usage == Usage.total(result.usage for result in results.values())
    assert stats.answered == Counter(result.finish_reason for result in results.values())
    assert stats.ended == len(MANY)
    assert (stats.running, stats.waiting, stats.failed, stats.cancelled) == (0, 0, 0, 0)
    assert stats.answering.count == stats.compiling.count == stats.queueing.count == len(MANY)
    assert stats.answering.total == pytest.approx(sum(r.seconds for r in results.values()))
    first = [result.timing.first_token_seconds for result in results.values()]
    known = [seconds for seconds in first if seconds is not None]
    assert stats.first_token.total == pytest.approx(sum(known))
    assert stats.first_token.count == sum(r.usage.sampled_tokens > 0 for r in results.values()) == 3
    # One call serves all, so there are at most as many as the longest answer needs.
    assert stats.model_calls == max(result.usage.model_calls for result in results.values())
    assert 0 < stats.step_seconds < stats.seconds
    assert 0 < stats.overhead < 1


class OneRight(OneByOne):
    """Drafts the next token of a known text."""

    name = "right"

    def __init__(self, known: Sequence[tuple[TokenId, ...]]) -> None:
        self.known = known

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:
        done, so_far = len(tokens), tuple(tokens)
        for text in self.known:
            if len(text) > done and text[:done] == so_far:
                builder.add(builder.root, text[done])


class AllOthers(OneByOne):
    """Drafts every token that may come next, as long as there is room."""

    name = "wrong"

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        for token in range(len(TOKEN_BYTES)):
            builder.add(builder.root, TokenId(token))


def test_each_drafter_is_counted_by_itself_and_their_time_adds_up() -> None:
    """Two drafters: one right, the other wrong at the same node; both are named, so always run."""
    plain = answers(make_engine(), MANY)
    known = [(*render(str(MANY[name].prompt), None), *plain[name].tokens) for name in MANY]
    right, wrong = OneRight(known), AllOthers()
    engine = make_engine(drafters=(right, wrong), widest_draft=24)
    assert engine.drafters == ("right", "wrong")
    named = {key: replace(each, drafters=("wrong", "right")) for key, each in MANY.items()}
    results = answers(engine, named)
    usage = engine.stats().usage
    assert usage == Usage.total(result.usage for result in results.values())
    of_right, of_wrong = usage.by_drafter
    assert (of_right.name, of_wrong.name) == ("right", "wrong")
    assert of_right.drafted_tokens + of_wrong.drafted_tokens == usage.drafted_tokens
    assert of_right.accepted_tokens == usage.accepted_tokens > 0
    # The right token is already in the tree when the other drafter runs.
    assert of_wrong.accepted_tokens == 0 < of_wrong.drafted_tokens
    assert 0 < usage.draft_seconds < engine.stats().phases[Phase.DRAFT]
    assert results["certain"].usage.by_drafter == ()
    stopped = usage.since(usage)
    assert stopped == Usage()


def test_the_time_of_model_calls_is_shared_among_their_requests() -> None:
    engine = make_engine()
    results = answers(engine, MANY)
    forward = engine.stats().phases[Phase.FORWARD]
    assert engine.stats().usage.target_seconds == pytest.approx(forward, abs=1e-6)
    assert results["certain"].usage.target_seconds == 0
    assert all(results[name].usage.target_seconds > 0 for name in ("plain", "free", "closed"))


def test_the_time_of_masks_is_counted_for_each_request() -> None:
    engine = make_engine()
    results = answers(engine, MANY)
    masks = engine.stats().usage.mask_seconds
    assert masks == pytest.approx(sum(one.usage.mask_seconds for one in results.values()))
    # The phase includes making results.
    assert 0 < masks <= engine.stats().phases[Phase.SETTLE]
    assert results["certain"].usage.mask_seconds == 0
    assert all(results[name].usage.mask_seconds > 0 for name in ("plain", "free", "closed"))


def test_what_is_under_way_counts_at_once_and_only_once() -> None:
    engine = make_engine(max_batch=2)
    names = ("free", "plain", "complete")
    prompts = sum(len(render(str(MANY[name].prompt), None)) for name in names)
    for name in names:
        engine.submit(name, MANY[name])
    engine.step()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.ended) == (2, 1, 0)
    assert stats.usage.prompt_tokens == prompts
    assert stats.usage.model_calls == 2
    assert stats.cache.held > 0
    assert drain(engine).keys() == {"free", "plain", "complete"}
    assert engine.stats().usage.prompt_tokens == prompts
    assert engine.stats().cache.held == 0


@pytest.mark.parametrize("deadline", [None, 9.5])
def test_no_count_ever_falls(deadline: float | None) -> None:
    """A counter must not fall: a reader would take that for a new engine."""
    now = 0.0
    engine = make_engine(max_batch=8, cache_tokens=160, clock=lambda: now)
    texts = words("a", "abcabc", "abcd" * 6, "xyz" * 9, "xyzxy", "nmnmnm")
    drawn: dict[str, Any] = {"n": 3, "sampling": Sampling(1.0, seed=1), "deadline": deadline}
    searched: dict[str, Any] = {"beams": Beams(3, length_penalty=4.0), "deadline": deadline}
    engine.submit("drawn", GenerationRequest("abc", texts, 30, **drawn))
    engine.submit("searched", GenerationRequest("abcde", None, 24, **searched))
    chosen_then_forced = words("q", "qr", "qrs", "qrst", "qrstu", "x" + "zyxw" * 4)
    engine.submit("words", GenerationRequest("abcde", chosen_then_forced, 30, **searched))
    engine.submit("cancelled", MANY["free"])
    before = engine.stats().usage
    while engine.has_work:
        now += 1.0
        engine.step()
        if now == 6.0:
            engine.cancel("cancelled")
        usage = engine.stats().usage
        for name, count in asdict(before).items():
            assert getattr(usage, name) >= count, name
        before = usage


def test_refused_cancelled_and_failed_requests_are_told_apart() -> None:
    error = TokenRejectedError("token 7 is not allowed here", token=7)
    engine = make_engine(max_batch=2, start=lambda asked: FaultyMatcher(error, 4 if asked else 99))
    with pytest.raises(RequestError):
        engine.submit("too long", GenerationRequest("a", None, 10_000))
    engine.submit("running", MANY["free"])
    engine.submit("failing", GenerationRequest("a", words("faulty"), 8))
    engine.submit("waiting", MANY["free"])
    engine.step()
    engine.cancel("waiting")
    engine.cancel("running")
    engine.cancel("unknown")
    (failed,) = drain(engine).values()
    stats = engine.stats()
    assert failed.outcome is error
    assert (stats.refused, stats.cancelled, stats.failed, stats.ended) == (1, 2, 1, 4)
    prompts = [MANY["free"].prompt, MANY["free"].prompt, "a"]
    assert stats.usage.prompt_tokens == sum(len(render(str(prompt), None)) for prompt in prompts)


def test_time_between_tokens_is_measured_from_call_to_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = make_engine()
    step = 0.0

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return step

    monkeypatch.setattr("guided.engine.request_clock.time", Clock)
    engine.submit("free", GenerationRequest("abc", None, 4, forcing=Forcing.OFF))
    outcome: Any = None
    for step in (2.0, 3.0, 7.0, 8.0):  # noqa: B007  (the clock reads it)
        for finished in engine.step():
            outcome = finished.outcome
    timing = outcome.timing
    assert outcome.usage.sampled_tokens == 4
    assert timing.waiting_seconds == 2.0
    assert timing.first_token_seconds == 2.0
    assert timing.mean_inter_token_seconds == pytest.approx((8 - 2) / 3)
    assert timing.max_inter_token_seconds == 4.0
    assert outcome.seconds == 8.0
    assert engine.stats().inter_token.total == 6.0


def test_what_was_not_measured_has_no_time() -> None:
    results = answers(make_engine(), {name: MANY[name] for name in ("certain", "free")})
    certain = results["certain"].timing
    assert certain.first_token_seconds is None
    assert certain.mean_inter_token_seconds is None
    assert certain.max_inter_token_seconds is None
    assert (certain.waiting_seconds, results["certain"].usage.model_calls) == (0.0, 0)
    for result in results.values():
        assert (result.timing.first_token_seconds or 0.0) <= result.seconds


def test_waste_follows_from_lengths_and_blocks() -> None:
    engine = make_engine(block_size=4, reuse_prefixes=False)
    request = GenerationRequest("abcde", None, 3, forcing=Forcing.OFF)
    (result,) = answers(engine, {"one": request}).values()
    assert result.finish_reason is FinishReason.LENGTH
    cache = engine.stats().cache
    rows = [result.usage.prompt_tokens + fed for fed in range(3)]
    held = [-(-count // 4) * 4 for count in rows]
    assert (cache.held_slots, cache.spare_slots) == (sum(held), sum(held) - sum(rows))
    assert 0 < cache.waste < 1


def test_a_preemption_is_counted_and_its_waiting_only_once() -> None:
    engine = make_engine(cache_tokens=40, reuse_prefixes=False)
    requests = {str(n): GenerationRequest("abcdefgh", None, 24) for n in range(3)}
    results = answers(engine, requests)
    assert engine.stats().preempted > 0
    for result in results.values():
        first = result.timing.first_token_seconds
        assert first is not None
        assert result.timing.compiling_seconds + result.timing.waiting_seconds <= first
        assert first <= result.seconds


def test_a_histogram_counts_as_numpy_does() -> None:
    values = np.random.default_rng(0).lognormal(-3, 3, 1000)
    values[:3] = BOUNDS[:3]
    counted = DurationHistogram()
    for part in np.split(values, 10):
        counted.add(part.tolist())
    counted.add([])
    found = counted.histogram()
    below = [int((values <= bound).sum()) for bound in BOUNDS]
    assert np.cumsum(found.counts).tolist() == [*below, 1000]
    assert found.total == pytest.approx(values.sum())
    assert found.mean == pytest.approx(values.mean())
