"""Drafters release a request's draft state however it ends, and faults in that harm no request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from guided.decoding import DraftContext, DraftState
from guided.errors import IncompleteAnswerError
from guided.spec import GenerationRequest, GenerationResult, OnIncomplete, TokenId
from tests.engine.drafters import OneByOne
from tests.engine.tiny_models import answers, drain, make_engine, make_model, words

MODEL = make_model()
REQUEST = GenerationRequest("hello name", max_tokens=6)


@cache
def plain() -> GenerationResult:
    return answers(make_engine(MODEL), {"r": REQUEST})["r"]


class Counts(OneByOne):
    """Counts its open draft states."""

    def __init__(self, name: str = "counts") -> None:
        self.name = name
        self.num_open = 0

    def open(self, context: DraftContext) -> DraftState | None:
        self.num_open += 1
        return super().open(context)

    def end(self, tokens: Sequence[TokenId]) -> None:  # noqa: ARG002
        self.num_open -= 1


class FailsAtTheEnd(Counts):
    """Raises when it should release the draft state of a request."""

    def end(self, tokens: Sequence[TokenId]) -> None:
        super().end(tokens)
        raise RuntimeError(f"a bug of {self.name!r}")


class FailsToLearn(OneByOne):
    """Fails each request after its first step."""

    name = "forgetful"

    def learn(self, verified: object) -> None:  # noqa: ARG002
        raise IndexError("the first fault")


class FailsToOpen(OneByOne):
    """Fails each request before its first step."""

    name = "closed"

    def open(self, context: DraftContext) -> DraftState | None:  # noqa: ARG002
        raise RuntimeError("no room")


def test_a_finished_answer_is_given_though_a_drafter_fails_to_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty, sound = FailsAtTheEnd(), Counts("sound")
    engine = make_engine(MODEL, drafters=(faulty, sound), widest_draft=4)
    engine.submit("r", REQUEST)
    ended = []
    while engine.has_work:
        ended += engine.step()
    (finished,) = ended
    assert isinstance(finished.outcome, GenerationResult)
    assert finished.outcome.tokens == plain().tokens
    assert (faulty.num_open, sound.num_open) == (0, 0)
    assert engine.stats().failed == 0
    (record,) = caplog.records
    assert record.getMessage().startswith("the engine failed to end request 'r'; incident ")


def test_a_request_that_fails_hears_of_its_own_fault_alone() -> None:
    faulty, sound = FailsAtTheEnd(), Counts("sound")
    drafters = (FailsToLearn(), faulty, sound)
    engine = make_engine(MODEL, drafters=drafters, widest_draft=4)
    engine.submit("bad", REQUEST)
    # It names another drafter only, so only its end can fail.
    engine.submit("good", GenerationRequest("hello name", max_tokens=6, drafters=("counts",)))
    ended = drain(engine)
    fault = ended["bad"].outcome
    assert isinstance(fault, Exception)
    assert isinstance(fault.__cause__, IndexError)
    good = ended["good"].outcome
    assert isinstance(good, GenerationResult)
    assert good.tokens == plain().tokens
    assert (faulty.num_open, sound.num_open) == (0, 0)


def test_a_request_is_cancelled_though_a_drafter_fails_to_end() -> None:
    faulty = FailsAtTheEnd()
    engine = make_engine(MODEL, drafters=(faulty,), widest_draft=4)
    engine.submit("r", REQUEST)
    engine.step()
    engine.cancel("r")
    assert faulty.num_open == 0
    assert not engine.has_work
    assert engine.stats().cancelled == 1


def test_an_answer_that_is_refused_as_it_is_admitted_leaves_nothing_open() -> None:
    """The whole answer is certain at once, and it was closed early."""
    drafter = Counts()
    engine = make_engine(MODEL, drafters=(drafter,), widest_draft=4)
    request = GenerationRequest(
        "x", words("name", "name12"), max_tokens=1, on_incomplete=OnIncomplete.ERROR
    )
    with pytest.raises(IncompleteAnswerError):
        engine.submit("r", request)
    assert drafter.num_open == 0


def test_where_a_drafter_cannot_begin_those_before_it_are_ended() -> None:
    drafter = Counts()
    engine = make_engine(MODEL, drafters=(drafter, FailsToOpen()), widest_draft=4)
    with pytest.raises(Exception, match="the engine failed on request 'r'"):
        engine.submit("r", REQUEST)
    assert drafter.num_open == 0
