"""A failure of one request ends that request and no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from guided.decoding import DraftRequest, VerifiedStep
from guided.errors import GuidedError, InternalServiceError, TokenRejectedError
from guided.kv.reservation import SlotCopies
from guided.model.runner import ModelRunner
from guided.spec import Constraint, Forcing, GenerationRequest, GenerationResult, Sampling
from tests.engine.drafters import OneByOne, Prophet
from tests.engine.finite_language import AnythingMatcher, spell_bytes
from tests.engine.tiny_models import answers, drain, make_engine, make_model, start, words

MODEL = make_model()


class FaultyMatcher(AnythingMatcher):
    """Raises when the answer reaches its fourth token."""

    def __init__(self, error: Exception, left: int = 4) -> None:
        self.error = error
        self.left = left

    def advance(self, token: Any) -> FaultyMatcher:  # noqa: ARG002
        if self.left == 1:
            raise self.error
        return FaultyMatcher(self.error, self.left - 1)


def run_beside(error: Exception) -> tuple[Any, Any]:
    def start_faulty(constraint: Constraint) -> Any:
        return FaultyMatcher(error) if constraint == words("faulty") else start(constraint)

    engine = make_engine(MODEL, start=start_faulty)
    engine.submit("bad", GenerationRequest(prompt="x", constraint=words("faulty"), max_tokens=9))
    engine.submit("good", GenerationRequest(prompt="hello name", max_tokens=9))
    ended = drain(engine)
    return ended["bad"].outcome, ended["good"].outcome


@cache
def alone() -> GenerationResult:
    request = GenerationRequest(prompt="hello name", max_tokens=9)
    return answers(make_engine(MODEL), {"good": request})["good"]


def test_an_error_of_one_request_is_its_outcome_and_the_others_go_on() -> None:
    error = TokenRejectedError("token 7 is not allowed here", token=7)
    bad, good = run_beside(error)
    assert bad is error
    assert isinstance(good, GenerationResult)
    assert good.tokens == alone().tokens


def test_a_fault_of_our_own_is_named_logged_and_kept_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad, good = run_beside(IndexError("row 7 of 5"))
    assert type(bad) is InternalServiceError
    assert bad.code == "INTERNAL"
    (record,) = caplog.records
    told = record.getMessage()
    assert re.fullmatch("the engine failed on request 'bad'; incident [0-9a-f]{12}", told)
    assert str(bad) == f"{told}; look for the incident in the server's log"
    assert isinstance(bad.__cause__, IndexError)
    assert record.exc_info is not None
    assert record.exc_info[1] is bad.__cause__
    assert good.tokens == alone().tokens


def test_the_room_of_a_failed_request_is_free_again() -> None:
    def start_faulty(constraint: Constraint) -> Any:  # noqa: ARG001
        return FaultyMatcher(TokenRejectedError("token 7 is not allowed here", token=7))

    engine = make_engine(MODEL, start=start_faulty, cache_tokens=10)
    for number in range(3):
        engine.submit(str(number), GenerationRequest(prompt="x", max_tokens=9, forcing=Forcing.OFF))
    ended = drain(engine)
    assert [type(finished.outcome) for finished in ended.values()] == [TokenRejectedError] * 3
    assert not engine.has_work


def test_a_failure_of_one_of_several_answers_is_told_once() -> None:
    class Broken(OneByOne):
        def learn(self, verified: VerifiedStep) -> None:
            if verified.first > 0:  # all requests have begun by then
                raise RuntimeError("a bug")

    engine = make_engine(MODEL, drafters=(Broken(),), widest_draft=4)
    engine.submit("several", GenerationRequest("x", max_tokens=9, n=4, sampling=Sampling(1.0)))
    engine.submit("good", GenerationRequest("hello name", max_tokens=9, forcing=Forcing.OFF))
    # With forcing off no drafter is asked, so its neighbour has none that could fail.
    ended = []
    while engine.has_work:
        ended += engine.step()
        engine.check()
    assert [finished.request_id for finished in ended] == ["several", "good"]
    assert engine.stats().failed == 1


@pytest.mark.parametrize("copies_before", [0, 1, 2])
def test_a_failure_to_make_room_ends_all_answers_of_its_request(
    monkeypatch: pytest.MonkeyPatch, copies_before: int
) -> None:
    """Answers to one prompt share its last block, which each copies; some have by then."""
    copies = 0
    copy = ModelRunner.copy

    def failing(runner: ModelRunner, of_groups: Sequence[SlotCopies]) -> None:
        nonlocal copies
        copies += 1
        if copies > copies_before:
            raise RuntimeError("CUDA out of memory")
        copy(runner, of_groups)

    monkeypatch.setattr(ModelRunner, "copy", failing)
    engine = make_engine(MODEL, max_batch=8)
    engine.submit("several", GenerationRequest("xyz", max_tokens=9, n=4, sampling=Sampling(1.0)))
    engine.submit("good", GenerationRequest("hello name", max_tokens=9))
    ended = drain(engine)
    assert copies == copies_before + 1
    assert type(ended["several"].outcome) is InternalServiceError
    good = ended["good"].outcome
    assert isinstance(good, GenerationResult)
    assert good.tokens == alone().tokens
    assert engine.stats().failed == 1


class FailsForOne(Prophet):
    """Drafts for all sequences at once, and raises if certain ones are among them."""

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        super().propose(drafts)
        if any(tuple(draft.tokens[:1]) == spell_bytes(b"x") for draft in drafts):
            raise MemoryError("no room for its rows")


def test_where_a_drafter_fails_for_a_sequence_it_goes_on_without_drafts_and_others_with_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A model can answer without drafts, so a failing drafter is no error of a request."""
    asked = {
        "bad": GenerationRequest(prompt="x", max_tokens=9),
        "good": GenerationRequest(prompt="hello name", max_tokens=9),
    }
    plain = answers(make_engine(MODEL), asked)
    known = [
        (*spell_bytes(request.prompt.encode()), *plain[name].tokens)
        for name, request in asked.items()
        if isinstance(request.prompt, str)
    ]
    engine = make_engine(MODEL, drafters=(FailsForOne(known, errors=0.0),), widest_draft=8)
    found = answers(engine, asked)
    assert {name: one.tokens for name, one in found.items()} == {
        name: one.tokens for name, one in plain.items()
    }
    assert found["bad"].usage.drafted_tokens == 0
    assert found["bad"].usage.model_calls > 2, "it fails several times"
    assert found["good"].usage.accepted_tokens > 0
    (record,) = caplog.records
    assert record.getMessage().startswith(f"drafter {FailsForOne.name!r} failed on request 'bad'")


class FailsAfterAGap(Prophet):
    """Raises when a right draft follows a wrong one, so that its row has to move."""

    def learn(self, verified: VerifiedStep) -> None:
        if verified.acceptance.path[-1] > verified.tree.trunk_length + 3:
            raise RuntimeError("a bug")


def test_what_the_cache_knows_of_a_failed_request_is_true() -> None:
    """Rows are moved before any request can find the blocks that they belong to."""
    prompt = spell_bytes(b"hello name")

    def render(prompt: Any, *_: object) -> Any:
        return tuple(map(int, prompt.split()))

    def ask(tokens: Any) -> GenerationRequest:
        text = " ".join(map(str, tokens))
        return GenerationRequest(text, max_tokens=18, forcing=Forcing.OFF, top_logprobs=0)

    plain = make_engine(MODEL, render=render, reuse_prefixes=False)
    answer = answers(plain, {"r": ask(prompt)})["r"].tokens
    longer = ask((*prompt, *answer))
    expected = answers(plain, {"r": longer})["r"]

    prophet = FailsAfterAGap([(*prompt, *answer)], errors=1.0)
    engine = make_engine(MODEL, render=render, drafters=(prophet,), widest_draft=24)
    engine.submit("failing", replace(ask(prompt), drafters=(prophet.name,)))
    assert isinstance(drain(engine)["failing"].outcome, GuidedError)
    prophet.known = []
    found = answers(engine, {"r": longer})["r"]
    assert found.tokens == expected.tokens
    assert [one.raw for one in found.logprobs] == pytest.approx(
        [one.raw for one in expected.logprobs]
    )
